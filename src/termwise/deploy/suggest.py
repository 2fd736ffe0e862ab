"""Adaptive design of experiments: where a further measurement is expected to improve a model most."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import qmc
from sklearn.utils import check_random_state

from termwise._checks import check_number
from termwise.basis.encoder import listing
from termwise.deploy.inputs import Input, as_float, is_missing_value
from termwise.deploy.predictor import Predictor

Floats = NDArray[np.float64]


def suggest(
    model: Any,
    bounds: Any,
    n: int = 1,
    *,
    X: Any = None,
    integer: Collection[Any] = (),
    n_candidates: int = 4096,
    random_state: Any = None,
) -> NDArray[Any]:
    """Suggest where to measure next: where the models of the folds disagree, and away from known points.

    Candidates are points of a scrambled Sobol sequence. The uncertainty of a candidate is the jackknife standard error
    of its prediction, from the models fitted without each fold, whose selection of terms is repeated. Points are taken
    one at a time, each with the largest product of uncertainty and distance from the nearest point that is known, in
    units of the bounds: those of `X` and those taken before it. They are therefore spread over the regions in which the
    model is uncertain.

    Parameters
    ----------
    model : fitted estimator or Predictor
        A regression with fold models: `TermwiseRegressor`, or another estimator with `selection_cv=10`.
    bounds : mapping or sequence
        For each input a pair (low, high), by its name, or a sequence in the order of the inputs. For a category, the
        categories to choose from.
    n : int, default=1
        Number of points.
    X : array-like or data frame of shape (m, d), default=None
        Points measured already, from which the new ones keep away; their numbers must be finite.
    integer : collection of str or int, default=()
        Inputs, by name or number, that are whole numbers.
    n_candidates : int, default=4096
        Number of candidates.
    random_state : int, RandomState instance or None, default=None
        Seed of the candidates.

    Returns
    -------
    points : ndarray of shape (n, d)
        Inputs to measure at, in the order in which they were taken, with an object dtype if there are categories.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import TermwiseRegressor, suggest
    >>> X = np.random.default_rng(0).uniform(size=(40, 2))
    >>> model = TermwiseRegressor().fit(X, np.sin(6 * X[:, 0]) + X[:, 1])
    >>> points = suggest(model, [(0, 1), (0, 1)], n=3, X=X, random_state=0)
    >>> points.shape, bool(((points >= 0) & (points <= 1)).all())
    ((3, 2), True)
    """
    predictor = model if isinstance(model, Predictor) else Predictor.from_estimator(model)
    if not hasattr(predictor, "predict_interval"):
        raise ValueError(
            "model must be a regression with fold models, got one without: fit a TermwiseRegressor, or another "
            "estimator with selection_cv=10."
        )
    check_number("n", n, low=1, integer=True, remedy="it is the number of points to measure at")
    check_number("n_candidates", n_candidates, low=n, integer=True, remedy="n points are chosen among them")
    axes = read_axes(predictor.inputs, bounds, integer)
    rng = check_random_state(random_state)
    unit = qmc.Sobol(len(axes), rng=rng.randint(2**31 - 1)).random(1 << (int(n_candidates) - 1).bit_length())
    scaled, table = (np.column_stack(parts) for parts in zip(*map(scale_to_axis, axes, unit.T), strict=True))
    uncertainty = fold_uncertainty(predictor, table)
    distance = np.full(len(unit), np.inf)
    if X is not None:
        distance = cdist(scaled, known_points(predictor, axes, X)).min(axis=1, initial=np.inf)
    taken: list[int] = []
    for _ in range(int(n)):
        weight = np.where(np.isinf(distance), 1.0, distance)
        taken.append(int((uncertainty * weight).argmax()))
        distance = np.minimum(distance, cdist(scaled, scaled[taken[-1:]])[:, 0])
    return table[taken]


def read_axes(inputs: tuple[Input, ...], bounds: Any, integer: Collection[Any]) -> list[Any]:
    """Return for each input a list of categories, or a tuple: its ends, and whether its values are whole numbers."""
    names = [one.name for one in inputs]
    if not isinstance(bounds, Mapping):
        complete = hasattr(bounds, "__len__") and len(bounds) == len(names)
        bounds = dict(zip(names, bounds, strict=True)) if complete else {}
    whole = {names[i] if not isinstance(i, str) and 0 <= i < len(names) else i for i in integer}
    numbers = [one.name for one in inputs if one.kind == "number"]
    others = sorted(str(name) for name in whole if name not in numbers)
    if others:
        raise ValueError(
            f"integer must name inputs that are numbers, got {listing(others)}: they are {listing(numbers)}."
        )
    if set(bounds) != set(names):
        raise ValueError(
            f"bounds must have an entry for each of {len(names)} inputs, got {len(bounds)}: give pairs (low, high) for "
            f"{listing(names)}, in this order or by name."
        )
    return [read_axis(one, bounds[one.name], one.name in whole) for one in inputs]


def read_axis(one: Input, given: Any, whole: bool) -> Any:
    """Return a list of the categories of an input, or a tuple of its ends and whether its values are whole numbers."""
    values = list(given) if hasattr(given, "__iter__") and not isinstance(given, str) else []
    if one.categories is not None and values and all(value in one.categories for value in values):
        return values
    pair = len(values) == 2 and all(isinstance(end, Real) and np.isfinite(as_float(end)) for end in values)
    low, high = (float(values[0]), float(values[1])) if pair else (1.0, 0.0)
    low, high = (np.ceil(low), np.floor(high)) if whole else (low, high)
    if one.kind != "number" or low > high:
        kind = "categories of the fit" if one.kind == "category" else "two finite numbers low <= high"
        raise ValueError(
            f"bounds of {one.name} must be {kind}, got {given!r}: there must be a value between them, a whole one of "
            "an integer input, and dates are not supported."
        )
    return low, high, whole


def scale_to_axis(axis: Any, unit: Floats) -> tuple[Floats, NDArray[Any]]:
    """Return numbers between 0 and 1 in units of an axis, and as values of the input; categories one column each."""
    if isinstance(axis, list):
        number = np.minimum((unit * len(axis)).astype(np.intp), len(axis) - 1)
        return np.eye(len(axis))[number] / np.sqrt(2), np.array(axis, dtype=object)[number]
    low, high, whole = axis
    values = np.minimum(np.floor(low + unit * (high - low + 1)), high) if whole else low + unit * (high - low)
    return (values - low) / ((high - low) or 1.0), values


def known_points(predictor: Predictor, axes: list[Any], X: Any) -> Floats:
    """Return measured points in the units of `scale_to_axis`."""
    frame = hasattr(X, "columns")
    columns = [X[name] for name in predictor.input_names] if frame else np.asarray(X, dtype=object).T
    parts = []
    for name, axis, column in zip(predictor.input_names, axes, columns, strict=True):
        if isinstance(axis, list):
            parts.append((np.asarray(column, dtype=object)[:, None] == np.array(axis, dtype=object)) / np.sqrt(2))
        else:
            values = np.array([np.nan if is_missing_value(value) else as_float(value) for value in column])
            invalid = np.flatnonzero(~np.isfinite(values))
            if len(invalid):
                raise ValueError(
                    f"X must hold finite numbers in {name}, got {values[invalid[0]]} in row {invalid[0]}: drop the "
                    "rows with missing values, which have no distance from others."
                )
            parts.append(((values - axis[0]) / ((axis[1] - axis[0]) or 1.0))[:, None])
    return np.column_stack(parts)


def fold_uncertainty(predictor: Predictor, table: NDArray[Any]) -> Floats:
    """Return the jackknife standard error of every prediction, of several outputs their mean in units of their spread.

    It is sqrt((K - 1) / K sum_k (f_k - mean_k f_k)^2) of the models f_k fitted without each of K folds.
    """
    outputs = predictor.predict_folds(table)
    K, spread = len(outputs), outputs.mean(axis=0).std(axis=0)
    errors = np.sqrt(K - 1) * outputs.std(axis=0)
    return (errors / np.where(spread > 0, spread, 1.0)).mean(axis=1)
