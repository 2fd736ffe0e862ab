"""Data sets of the papers: the loader on generated and on real files, the generators against their definitions."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from sklearn.utils import Bunch

from termwise import datasets


def write_csv(folder: Path, name: str, text: str) -> None:
    (folder / "regression").mkdir(exist_ok=True)
    with gzip.open(folder / "regression" / f"{name}.csv.gz", "wt") as file:
        file.write(text)


def test_load_regression_sets(tmp_path, monkeypatch):
    write_csv(tmp_path, "kin8nm", "theta1,theta 2,target\n1,2,3\n4,5.5,6e-3\n")
    data = datasets.load("kin8nm", data_home=tmp_path)
    np.testing.assert_array_equal(data.data, [[1, 2], [4, 5.5]])
    np.testing.assert_array_equal(data.target, [3, 0.006])
    assert data.name == "kin8nm"
    assert data.feature_names == ["theta1", "theta 2"]
    monkeypatch.setenv("TERMWISE_DATA", str(tmp_path))
    np.testing.assert_array_equal(datasets.load("kin8nm").data, data.data)


def test_load_two_class_sets(tmp_path):
    (tmp_path / "twoclass").mkdir()
    arrays = {"X": np.eye(3), "y": np.array([1, -1, 1]), "train": [[0, 1]], "test": [[2]], "realisation": [4]}
    np.savez(tmp_path / "twoclass" / "heart.npz", **arrays)
    data = datasets.load("heart", data_home=tmp_path)
    assert data.target.tolist() == [1, -1, 1]
    assert (data.train.tolist(), data.test.tolist(), data.realisation.tolist()) == ([[0, 1]], [[2]], [4])
    assert data.feature_names == ["x0", "x1", "x2"]


def test_fetch_regression_sets_from_openml(tmp_path, monkeypatch):
    arguments = {}

    def fetch(**options):
        arguments.update(options)
        frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": pd.Categorical(["4", "5", "6"])})
        return Bunch(data=frame, target=pd.Series([7.0, 8.0, 9.0]))

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    data = datasets.load("auto_mpg", data_home=tmp_path)
    assert arguments["data_id"] == 196
    np.testing.assert_array_equal(data.data, [[1, 4], [3, 6]])
    np.testing.assert_array_equal(data.target, [7, 9])
    assert data.feature_names == ["a", "b"]


@needs_data
@pytest.mark.parametrize(
    ("name", "shape"),
    {
        "ailerons": (13750, 40),
        "auto_mpg": (392, 7),
        "boston_housing": (506, 13),
        "delta_ailerons": (7129, 5),
        "delta_elevators": (9517, 6),
        "elevators": (16599, 18),
        "kin8nm": (8192, 8),
        "puma32H": (8192, 32),
        "puma8NH": (8192, 8),
    }.items(),
)
def test_real_regression_sets(name, shape):
    data = datasets.load(name)
    assert data.data.shape == shape
    assert data.target.shape == shape[:1]
    assert np.isfinite(data.data).all()


@needs_data
@pytest.mark.parametrize("name", datasets.TWO_CLASS)
def test_real_two_class_sets(name):
    data = datasets.load(name)
    assert set(data.target) == {-1, 1}
    assert len(data.train) == len(data.test) == len(data.realisation) == 100
    both = np.sort(np.concatenate([data.train[0], data.test[0]]))
    np.testing.assert_array_equal(both, np.arange(len(data.target)))


@pytest.mark.parametrize(
    ("make", "function", "low", "high", "noise"),
    [
        (datasets.make_hermite, lambda x: (1 + x - 2 * x**2) * np.exp(-(x**2)), -4, 4, 0.2),
        (datasets.make_sine, lambda x: np.sin(12 * x), 0, 1, 0.1),
        (datasets.make_logistic, lambda x: (1 - np.exp(-x)) / (1 + np.exp(-x)), -10, 10, 0.1),
    ],
)
def test_generators(make, function, low, high, noise):
    X, y = make(random_state=0)
    assert X.shape == (50, 1)
    again = make(random_state=0)
    np.testing.assert_array_equal(again[1], y)
    X, y = make(n_samples=4000, random_state=1)
    x = X[:, 0]
    assert low <= x.min() < low + 0.02 * (high - low)
    assert high - 0.02 * (high - low) < x.max() <= high
    assert np.std(y - function(x)) == pytest.approx(noise, rel=0.05)
    X, y = make(noise=0, random_state=2)
    np.testing.assert_allclose(y, function(X[:, 0]))
