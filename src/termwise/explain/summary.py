"""Lines of `summary()` that are computed from a model: its effects, and what larger sizes would gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from termwise.explain.groups import EffectGroup, effect_groups, large_effects, term_groups
from termwise.explain.resolve import Metadata, resolve, round_significant


def summary_effects(model: Any, max_effects: int) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the lines of a summary about the effects of a model, and the order of its terms, in groups.

    There are none where the effects are the terms themselves, or all terms are of the same inputs. Terms of the inputs
    that explain most are first; their share is that of the sum of the terms as it is, main effects included.
    """
    resolved, sample = resolve(model), model.fitted_terms_.sample
    terms = term_groups(resolved, None)
    if len(terms) < 2 or all(len(group.inputs) == len(group.terms) == 1 for group in terms):
        return [], []
    effects = effect_groups(resolved, sample)
    if effects[0].share is not None:
        terms = term_groups(resolved, sample)
    return effect_lines(effects, max_effects), [group.terms for group in terms]


def effect_lines(groups: Sequence[EffectGroup], max_effects: int) -> list[str]:
    """Lines of a table of effects; those with a small share are one line."""
    listed = large_effects(groups)[:max_effects]
    width = max(6, *(len(group.name) for group in listed))
    known = listed[0].share is not None
    lines = [f"{'effect':<{width}}  terms{'  share of the variance' * known}"]
    for group in listed:
        share = "" if group.share is None else f"  {100 * group.share:>19.1f} %"
        lines.append(f"{group.name:<{width}}  {group.n_terms:>5}{share}")
    rest = len(groups) - len(listed)
    if rest:
        share = f", {100 * sum(group.share or 0.0 for group in groups[len(listed) :]):.1f} % together" if known else ""
        lines.append(f"... and {rest} more{share}")
    return lines


def larger_sizes(model: Any) -> list[Metadata]:
    """Return sizes of an automatic estimator with more terms and a smaller cross-validated error than its own.

    They are the `alternatives` of its `choice_`. Errors are those of single models, not corrected for the choice, like
    those of `trials_`.

    Returns
    -------
    sizes : list of dict
        "size", "n_terms", "error" and "own_error", that of the model itself; the smallest first.
    """
    choice = getattr(model, "choice_", None)
    if choice is None or model.n_terms_ != choice.n_terms:  # truncated
        return []
    own = choice.trials[choice.title]
    own_error = float(own[min(choice.n_terms, len(own) - 1)])
    return [
        {"size": name, "n_terms": int(n_terms), "error": round_significant(error, 4),
         "own_error": round_significant(own_error, 4)}
        for name, (n_terms, error) in sorted(choice.alternatives.items(), key=lambda item: item[1])
        if name != model.size and n_terms > model.n_terms_ and error < own_error
    ]  # fmt: skip


def size_lines(sizes: Sequence[Metadata]) -> list[str]:
    """Describe what larger sizes would gain, one line for each of `larger_sizes`."""
    return [
        f"{one['size']}: {one['n_terms']} terms, cross-validated error {one['error']:.3g} instead of "
        f"{one['own_error']:.3g}"
        for one in sizes
    ]
