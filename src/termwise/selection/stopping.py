"""Why a path ends: a sentence, empty while it goes on."""

from __future__ import annotations

import time

from termwise.selection.path import SelectionPath, choose_size
from termwise.selection.settings import Settings

CROWDED = 2  # candidates for each sample from which on the least leave-one-out error is no measure of the noise


def at_a_limit(path: SelectionPath, limit: int, settings: Settings, started: float) -> str:
    """Say which limit is reached."""
    if len(path) >= limit:
        most = settings.max_terms
        return f"max_terms={most} reached" if limit == most else "as many terms as the data can determine"
    if settings.max_seconds is not None and time.perf_counter() - started > settings.max_seconds:
        return f"max_seconds={settings.max_seconds:g} are over"
    return ""


def out_of_patience(path: SelectionPath, sizes: list[int], forced: int, settings: Settings) -> str:
    """Say why more terms would not change the size; `sizes` are the criterion's choices so far."""
    patience, criterion = settings.patience, settings.criterion
    if patience is None:
        return ""
    if len(sizes) >= forced + patience and len(set(sizes[-patience - 1 :])) == 1:
        return f"the choice of {criterion!r} has not changed for {patience} terms"
    if misled(path, criterion) and len(path) - max(forced, choose_size(path, "tcr_sequential")) >= patience:
        return f"none of the last {patience} terms is significant by the error before them"
    return ""


def misled(path: SelectionPath, criterion: str | None) -> bool:
    """Whether leave-one-out, which TCR takes the noise from, falls with every term: each is the best of so many."""
    return criterion in ("tcr", "tcr_effective") and path.n_candidates >= CROWDED * path.n_samples
