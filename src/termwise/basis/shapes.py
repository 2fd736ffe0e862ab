"""Functions of one input: linear ones, bumps, hinges, steps and ramps, each written once as an expression."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from termwise.basis.expressions import Expression, variable, where, z

Floats = NDArray[np.float64]

LINEAR, BUMP, HINGE_ABOVE, HINGE_BELOW, STEP_ABOVE, STEP_BELOW, RAMP = range(7)  # codes, which model files hold

u = variable("u")
UNIT = (z - variable("places")) / variable("units")  # u: the distance of an input from a place, in units
SHAPES = (
    u,
    np.exp(-np.square(u)),
    np.maximum(u, 0.0),
    np.maximum(-u, 0.0),
    where(np.greater(u, 0.0), 1.0, 0.0),
    where(np.greater(u, 0.0), 0.0, 1.0),
    np.minimum(np.maximum(u, 0.0), 1.0),
)  # by code
DIRECTIONS = np.array([1, 0, 1, -1, 1, -1, 1])  # 1 for functions that never decrease, -1 for those that never increase
LABELS = (
    "{0}",
    "bump({0} near {1})",
    "hinge({0} > {1})",
    "hinge({0} < {1})",
    "{0} > {1}",
    "{0} <= {1}",
    "ramp({0} from {1} to {2})",
)  # of the input, and one or two places
FUNCTIONS = {
    "linear": (LINEAR,),
    "bump": (BUMP,),
    "hinge": (HINGE_ABOVE, HINGE_BELOW),
    "step": (STEP_ABOVE, STEP_BELOW),
    "ramp": (RAMP,),
}  # the codes of each kind of function
# Share of the samples on a ramp. On simulated monotone functions (250 samples), models of ramps on two fifths of them
# have three quarters of the error of models of ramps between neighbouring knots; steps and hinges are there for kinks.
RAMP_SHARE = 0.4
WHOLE_DIGITS, MAX_PLAIN = 4, 1e6  # digits before the point that labels show, and the numbers below which they do


@cache
def single_function(codes: frozenset[int]) -> Expression:
    """Return the function of one input that the parameter `bumps` selects, one of some codes.

    That is the name of the parameter in the first model files, which had only the codes 0 and 1.
    """
    value = where(variable("bumps"), SHAPES[BUMP].substitute(u=UNIT), UNIT)
    for code in sorted(codes - {LINEAR, BUMP}):
        value = where(np.equal(variable("bumps"), code), SHAPES[code].substitute(u=UNIT), value)
    return value


@cache
def present_function(codes: frozenset[int]) -> Expression:
    """Return that function of an input that may be missing, where it is zero."""
    return where(np.isnan(z), 0.0, single_function(codes))


def codes_of(functions: Iterable[str]) -> list[int]:
    """Return the codes of kinds of functions."""
    return [code for name in functions for code in FUNCTIONS[name]]


def bump_centers(X: Floats, n_centers: int, curved: NDArray[np.bool_], missing: NDArray[np.bool_]) -> Floats:
    """Return the centres of the bumps of each input, (d, n_centers), ascending; NaN where there are fewer.

    They are at the midpoints of equal shares of the samples X, (n, d). Inputs that are not `curved` have none; those
    with `missing` values are marked.
    """
    midpoints = (np.arange(n_centers) + 0.5) / max(1, n_centers)
    centers, complete = np.full((len(curved), n_centers), np.nan), np.flatnonzero(curved & ~missing)
    centers[complete] = np.quantile(X[:, complete], midpoints, axis=0, method="nearest").T
    for j in np.flatnonzero(curved & missing):
        x = X[:, j]
        centers[j] = np.quantile(x[~np.isnan(x)], midpoints, method="nearest")
    centers[:, 1:][np.diff(centers, axis=1) == 0] = np.nan
    return np.sort(centers, axis=1)  # NaN comes last


def width_units(centers: Floats, deviations: Floats, unit: str) -> Floats:
    """Return the unit of the widths of each input, (d,): "std", or "spacing", its mean distance between centres.

    That of an input with a single centre is its standard deviation; NaN where there is no centre.
    """
    counts = np.sum(~np.isnan(centers), axis=1)
    units = np.where(counts > 0 if unit == "std" else counts == 1, deviations, np.nan)
    for count in np.unique(counts[counts > 1]) if unit == "spacing" else ():
        units[counts == count] = np.diff(centers[counts == count, :count], axis=1).mean(axis=1)
    return units


def find_knots(x: Floats, n_knots: int, min_count: float) -> Floats:
    """Return up to `n_knots` places between neighbouring values of an input, ascending.

    They divide the samples into equal shares, in which a value counts for no more than one share, so that a value of
    many samples does not use up the knots. At least `min_count` samples lie on either side of each.
    """
    values, repeats = np.unique(x, return_counts=True)
    below = np.cumsum(repeats)[:-1]
    between = np.flatnonzero((below >= min_count) & (len(x) - below >= min_count))  # value number i and the next one
    if len(between) > n_knots:
        shares = np.cumsum(np.minimum(repeats, len(x) / (n_knots + 1)))
        levels = shares[-1] * np.arange(1, n_knots + 1) / (n_knots + 1)
        reached = np.searchsorted(shares[between], levels * (1 - np.finfo(np.float64).eps * len(x)))
        between = between[np.unique(np.minimum(reached, len(between) - 1))]
    low, high = values[between], values[between + 1]
    middle = low / 2 + high / 2
    return np.where((low < middle) & (middle < high), middle, low)  # neighbours may have no number between them


def ramp_length(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many intervals between neighbouring knots a ramp extends over, for inputs with so many knots."""
    return np.maximum(1, np.rint(RAMP_SHARE * (counts + 1)).astype(np.intp))


def ramp_ends(knots: Floats, ranges: Floats) -> tuple[Floats, Floats]:
    """Return where the ramps of all inputs start and end, (d, n_knots + 1), NaN where there are fewer.

    They extend over `ramp_length` neighbouring intervals between the knots, (d, n_knots), and the ends of the ranges,
    (2, d).
    """
    counts = np.sum(~np.isnan(knots), axis=1)[:, None]
    edges = np.column_stack([ranges[0], knots, np.full(len(knots), np.nan)])
    np.put_along_axis(edges, counts + 1, ranges[1][:, None], axis=1)
    first = np.arange(knots.shape[1] + 1)
    last = first + ramp_length(counts)
    exists = (last <= counts + 1) & (counts > 0)
    starts, ends = edges[:, :-1], np.take_along_axis(edges, np.minimum(last, edges.shape[1] - 1), axis=1)
    return np.where(exists, starts, np.nan), np.where(exists, ends, np.nan)


def label_functions(
    name: str, codes: NDArray[np.intp], centers: Floats, knots: Floats, ends: Floats
) -> NDArray[np.object_]:
    """Return the names of all functions of an input, by their numbers, of which `codes` are the kinds; "" for none.

    Centres and knots are NaN where there are fewer; the ends are the lowest and the highest value.
    """
    labels = np.full(len(codes), "", dtype=object)
    at_knots = [(label,) for label in distinct_labels(knots)]
    edges = distinct_labels(np.concatenate([ends[:1], knots, ends[1:]]))
    at_centers = [(label,) for label in distinct_labels(centers)]
    ramps = list(zip(edges, edges[int(ramp_length(np.array(len(at_knots)))) :], strict=False))
    places: list[Sequence[tuple[str, ...]]] = [[()], at_centers, *[at_knots] * 4, ramps]
    for code, each in enumerate(places if at_knots else places[:2]):
        start = np.searchsorted(codes, code)
        labels[start : start + len(each)] = [LABELS[code].format(name, *place) for place in each]
    return labels


def distinct_labels(numbers: Floats) -> list[str]:
    """Format numbers with as few digits, but at least two, as distinguish them; NaN is skipped.

    Numbers from 1e-4 to 1e6 have no exponent: 1974 has all its digits, 12345 is 12350.
    """
    labels: list[str] = []
    for digits in range(2, 18):
        labels = []
        for number in (numbers[~np.isnan(numbers)] + 0.0).tolist():
            whole = len(str(int(abs(number)))) if abs(number) < MAX_PLAIN else WHOLE_DIGITS
            shown = max(digits, min(WHOLE_DIGITS, whole))
            labels.append(f"{float(f'{number:.{shown}g}'):.{max(shown, 6)}g}")
        if len(set(labels)) == len(labels):
            break
    return labels
