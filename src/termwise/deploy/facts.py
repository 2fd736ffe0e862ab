"""The metadata of a model, as `termwise.diagnostics.facts` collects them: the schema that they have in a file.

They describe the fit and are shown to readers; no prediction depends on them. Entries of other names are plain data of
the user's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from termwise.deploy.document import Sizes, invalid, read, read_dict

Spec = Any  # a type, a tuple of strings, or a function of a value, its place and the lengths of axes


def lists(of: Spec, least: int = 0) -> Callable[[Any, str, Sizes], Any]:
    """Declare a list of values of a kind, of at least so many."""

    def check(value: Any, place: str, sizes: Sizes) -> Any:
        if len(read(list, value, place, sizes)) < least:
            raise invalid(place, f"a list of {least} or more", value)
        for i, one in enumerate(value):
            read(of, one, f"{place}[{i}]", sizes)
        return value

    return check


def maps(of: Spec) -> Callable[[Any, str, Sizes], Any]:
    """Declare a dict of values of a kind by any names."""

    def check(value: Any, place: str, sizes: Sizes) -> Any:
        for key, one in read_dict(value, place, (), others=True).items():
            read(of, one, f"{place}.{key}", sizes)
        return value

    return check


def entries(optional: Mapping[str, Spec] | None = None, **required: Spec) -> Callable[[Any, str, Sizes], Any]:
    """Declare a dict with required and optional entries, and perhaps others."""
    every = {**(optional or {}), **required}

    def check(value: Any, place: str, sizes: Sizes) -> Any:
        for key, one in read_dict(value, place, required, others=True).items():
            if key in every:
                read(every[key], one, f"{place}.{key}", sizes)
        return value

    return check


def maybe(of: Spec) -> Callable[[Any, str, Sizes], Any]:
    """Declare a value of a kind, or none."""
    return lambda value, place, sizes: None if value is None else read(of, value, place, sizes)


def whole(value: Any, place: str, sizes: Sizes) -> Any:
    """Declare a whole number."""
    if read(float, value, place, sizes) != value or not isinstance(value, int):
        raise invalid(place, "a whole number", value)
    return value


def axis_value(value: Any, place: str, sizes: Sizes) -> Any:
    """Declare a value on the axis of an effect."""
    return value if isinstance(value, str) else read(float, value, place, sizes)


def confusion_matrix(value: Any, place: str, sizes: Sizes) -> Any:
    """Declare a confusion matrix: counts by observed and predicted class."""
    entries({"how": str}, classes=lists(str), counts=lists(lists(whole)))(value, place, sizes)
    q = len(value["classes"])
    if [len(row) for row in value["counts"]] != [q] * q:
        raise invalid(f"{place}.counts", f"{q} rows of {q} numbers", value["counts"])
    return value


number, strings = float | None, lists(str)
numbers = lists(float)
MEASURES = ("std_error", "rmse", "mae", "log_loss", "auc", "calibration_slope", "calibration_error", "coverage")
SCORE = entries(
    {**dict.fromkeys((*MEASURES, "nominal"), number), "protocol": str, "confusion": maybe(confusion_matrix)},
    metric=str,
    value=float,
    n=float,
)  # fmt: skip
FACTS: dict[str, Spec] = {
    "model": entries(
        {
            "trial": maybe(str),
            "link": maybe(str),
            "larger_sizes": maybe(lists(entries(size=str, n_terms=whole, error=float, own_error=float))),
        },
        **{"class": str, "task": str, "n": number, "d": whole, "n_terms": whole, "n_candidates": maybe(whole)},
        **{"dictionary": maybe(str), "alpha": number, "dof": number, "noise": number, "stop_reason": maybe(str)},
        **{"target": maybe(str), "outputs": lists(str, 1), "classes": maybe(strings), "intercept": lists(float, 1)},
    ),
    "scores": entries({"held_out": maybe(SCORE), "cross_validation": maybe(SCORE)}),
    "baselines": lists(entries({"title": str, "std_error": number, "rows": whole}, name=str, score=float, terms=whole)),
    "terms": lists(
        entries(
            {"inputs": strings, "mean": number},
            name=str,
            weight=lists(float, 1),
            std_error=maybe(lists(float)),
        )
    ),
    "effects": lists(
        entries(
            {"kind": str, "strength": lists(float, 1)},
            inputs=lists(str, 1),
            values=lists(lists(axis_value), 1),
        )
    ),
    "groups": maybe(lists(entries({"terms": lists(whole)}, inputs=strings, n_terms=whole, share=number))),
    "importance": maybe(lists(entries(input=str, total=numbers))),
    "no_effects": maybe(str),
    "notes": strings,
    "reproduce": str,
    "versions": maps(str),
    "criteria": strings,
    "choices": maybe(maps(maybe(whole))),
    "path": maybe(lists(entries(size=whole))),
    "path_terms": maybe(strings),
    "path_inputs": maybe(lists(strings)),
    "sizes": maybe(lists(entries(size=whole))),
    "trials": maybe(lists(entries(name=str, error=lists(number, 1)))),
    "search": maybe(entries(rows=lists(entries(params=entries(), value=number, terms=maybe(whole))))),
    "selection_frequency": maybe(maps(float)),
    "fit": maybe(entries({"loo": maybe(list)}, observed=list, fitted=list)),
    "confusion": maybe(confusion_matrix),
    "reliability": maybe(lists(entries(None, predicted=lists(number), observed=lists(number), **{"class": str}))),
    "penalty": maybe(maps(list)),
    "error_name": maybe(str),
    "command": maybe(entries({"time": maybe(str), "lags": whole, "missing": strings}, target=maybe(str))),
}  # fmt: skip


def check_facts(facts: Any) -> dict[str, Any]:
    """Return a copy of the metadata of a model, or raise with the place of an invalid value."""
    if not isinstance(facts, Mapping):
        raise invalid("facts", "an object, or null", facts)
    return entries(FACTS)(plain_copy(facts, "facts"), "facts", {})


def plain_copy(value: Any, place: str) -> Any:
    """Return a copy of plain data, or raise with the place of an invalid value."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise invalid(place, "a dict with strings as keys", list(value))
        return {key: one if _is_plain(one) else plain_copy(one, f"{place}.{key}") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [one if _is_plain(one) else plain_copy(one, f"{place}[{i}]") for i, one in enumerate(value)]
    if _is_plain(value):
        return value
    raise invalid(place, "a string, a finite number, true, false, null, or a list or dict of these", value)


def _is_plain(value: Any) -> bool:
    """Whether a value is a scalar that a file can hold."""
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
