"""Data sets of the papers: a loader for the real ones, generators for the synthetic ones."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch, check_random_state

from termwise._checks import check_choice, check_number

# OpenML data_id of each regression set; None if OpenML does not have it in its original form.
REGRESSION: dict[str, int | None] = {
    "ailerons": 296,
    "auto_mpg": 196,
    "boston_housing": 531,
    "delta_ailerons": None,
    "delta_elevators": 198,
    "elevators": 216,
    "kin8nm": 189,
    "puma32H": 308,
    "puma8NH": 225,
}
TWO_CLASS = ("banana", "breast-cancer", "diabetis", "flare-solar", "german", "heart", "titanic", "waveform")

Seed = int | np.random.RandomState | None


def load(name: str, data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load one of the papers' data sets.

    Read from `data_home`, else from the folder in the environment variable `TERMWISE_DATA`, as
    `regression/NAME.csv.gz` (a header, inputs first, the target last) or `twoclass/NAME.npz` (arrays X, y, train,
    test, realisation); regression sets that are not there are fetched from OpenML if it has them.

    Parameters
    ----------
    name : str
        A regression set ("ailerons", "auto_mpg", "boston_housing", "delta_ailerons", "delta_elevators", "elevators",
        "kin8nm", "puma32H", "puma8NH") or a two-class set ("banana", "breast-cancer", "diabetis", "flare-solar",
        "german", "heart", "titanic", "waveform").
    data_home : path, default=None
        Folder with the data.

    Returns
    -------
    data : Bunch
        `data` (n, d), `target` (n,), `feature_names`, `name`; two-class sets also have the rows of their training and
        test splits, `train` and `test`, one split a row, and `realisation`, the number of the published split or -1.

    Examples
    --------
    >>> from termwise import datasets
    >>> housing = datasets.load("boston_housing")  # doctest: +SKIP
    >>> housing.data.shape  # doctest: +SKIP
    (506, 13)
    """
    check_choice("name", name, [*REGRESSION, *TWO_CLASS], remedy="these are the papers' data sets")
    home = data_home if data_home is not None else os.environ.get("TERMWISE_DATA")
    file = f"regression/{name}.csv.gz" if name in REGRESSION else f"twoclass/{name}.npz"
    path = None if home is None else Path(home) / file
    if path is not None and path.exists():
        return (_read_csv if name in REGRESSION else _read_npz)(name, path)
    number = REGRESSION.get(name)
    if number is None:
        where = f"{path} does not exist" if path else "neither data_home nor TERMWISE_DATA is set"
        raise FileNotFoundError(
            f"{name} must be in a local folder as {file}, but {where}: it is not on OpenML in this form."
        )
    return _fetch(name, number)


def _read_csv(name: str, path: Path) -> Bunch:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        values = np.array(rows, dtype=np.float64).reshape(len(rows), len(header))
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"{path} must be a gzipped CSV of numbers with a header, but could not be read: {error}."
        ) from error
    if len(header) < 2 or not len(rows) or not np.all(np.isfinite(values)):
        raise ValueError(f"{path} must hold rows of at least two finite numbers: check the file.")
    return Bunch(data=values[:, :-1], target=values[:, -1], feature_names=header[:-1], name=name)


def _read_npz(name: str, path: Path) -> Bunch:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["X"], arrays["y"]
            splits = {key: arrays[key] for key in ("train", "test", "realisation")}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise ValueError(f"{path} must be a NumPy archive with X, y, train, test, realisation: {error}.") from error
    return Bunch(data=X, target=y, feature_names=[f"x{j}" for j in range(X.shape[1])], name=name, **splits)


def _fetch(name: str, number: int) -> Bunch:
    """Fetch from OpenML; rows with a missing value are dropped, categories are converted to numbers."""
    try:
        fetched = fetch_openml(data_id=number, as_frame=True, parser="auto")
    except OSError as error:
        raise OSError(
            f"{name} is not in a local folder and OpenML could not be reached ({error}): set TERMWISE_DATA to a folder "
            f"with regression/{name}.csv.gz, or try again online."
        ) from error
    frame = fetched.data.apply(lambda column: column.astype(float)).assign(target=fetched.target.astype(float)).dropna()
    values = frame.to_numpy(dtype=np.float64)
    return Bunch(data=values[:, :-1], target=values[:, -1], feature_names=list(fetched.data.columns), name=name)


def make_line() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Orr's example 4.5: three noisy samples of the line y = x.

    Examples
    --------
    >>> from termwise import datasets
    >>> X, y = datasets.make_line()
    >>> X.ravel(), y
    (array([1., 2., 3.]), array([1.1, 1.8, 3.1]))
    """
    return np.array([[1.0], [2.0], [3.0]]), np.array([1.1, 1.8, 3.1])


def make_hermite(
    n_samples: int = 50, noise: float = 0.2, random_state: Seed = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Orr's example 5.3: `(1 + x - 2 x^2) exp(-x^2)` on [-4, 4], with noise.

    Parameters
    ----------
    n_samples : int, default=50
        Number of samples, uniform in x.
    noise : float, default=0.2
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Determines inputs and noise.

    Examples
    --------
    >>> from termwise import datasets
    >>> X, y = datasets.make_hermite(random_state=0)
    >>> X.shape
    (50, 1)
    """
    return _noisy(lambda x: (1 + x - 2 * x**2) * np.exp(-(x**2)), -4, 4, n_samples, noise, random_state)


def make_sine(
    n_samples: int = 50, noise: float = 0.1, random_state: Seed = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Orr's example 6.5: `sin(12 x)` on [0, 1], with noise.

    Parameters
    ----------
    n_samples : int, default=50
        Number of samples, uniform in x.
    noise : float, default=0.1
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Determines inputs and noise.

    Examples
    --------
    >>> from termwise import datasets
    >>> X, y = datasets.make_sine(n_samples=20, noise=0, random_state=0)
    >>> bool(abs(y).max() <= 1)
    True
    """
    return _noisy(lambda x: np.sin(12 * x), 0, 1, n_samples, noise, random_state)


def make_logistic(
    n_samples: int = 50, noise: float = 0.1, random_state: Seed = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Orr's example 7.4: `(1 - exp(-x)) / (1 + exp(-x))` on [-10, 10], with noise.

    Parameters
    ----------
    n_samples : int, default=50
        Number of samples, uniform in x.
    noise : float, default=0.1
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Determines inputs and noise.

    Examples
    --------
    >>> from termwise import datasets
    >>> X, y = datasets.make_logistic(noise=0, random_state=0)
    >>> bool((y[X.ravel() > 0] > 0).all())
    True
    """
    return _noisy(lambda x: np.tanh(x / 2), -10, 10, n_samples, noise, random_state)


def _noisy(
    f: Callable[[NDArray[Any]], NDArray[Any]], low: float, high: float, n_samples: int, noise: float, random_state: Seed
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    check_number("n_samples", n_samples, low=1, integer=True, remedy="use at least one sample")
    check_number("noise", noise, low=0, remedy="it is a standard deviation")
    rng = check_random_state(random_state)
    x = rng.uniform(low, high, size=n_samples)
    return x[:, None], f(x) + noise * rng.normal(size=n_samples)
