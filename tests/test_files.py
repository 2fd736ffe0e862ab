"""Rows that stay in a file: the same paths as from arrays, few passes, errors that say where."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import termwise.design.files
from termwise import (
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    RadialBasis,
    TermwiseRegressor,
    forward_path,
    memory_budget,
    open_rows,
)
from termwise.design.file_blocks import BlockReader
from termwise.design.files import MappedRows, beyond_memory
from termwise.selection import RULES

SUFFIXES = [".npy", ".parquet", ".arrow", ".feather"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Seven blocks of the problems here."""
    monkeypatch.setattr(termwise.design.files, "BLOCK_BYTES", 8 * 30 * 20)


@pytest.fixture
def table(rng):
    """Candidates, and a target that depends on some of them."""
    G = rng.normal(size=(130, 30)) + 0.2
    return G, G[:, 3] - 2 * G[:, 7] + 0.5 * G[:, 20] + rng.normal(size=130)


def arrow():
    return [pytest.importorskip(name) for name in ("pyarrow", "pyarrow.feather", "pyarrow.parquet")]


def write(path, G, **more):
    """Write a table to a file of that kind, named columns if it has names."""
    if path.suffix == ".npy":
        np.save(path, np.column_stack([G, *more.values()]).astype(G.dtype))
        return path
    pyarrow, feather, parquet = arrow()
    columns = pyarrow.table({**{f"x{j}": G[:, j] for j in range(G.shape[1])}, **more})
    if path.suffix == ".parquet":
        parquet.write_table(columns, path, row_group_size=33)
    elif path.suffix == ".arrow":
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, columns.schema) as file:
            file.write_table(columns, max_chunksize=47)
    else:
        feather.write_feather(columns, path, chunksize=50)
    return path


def opened(path, G, y):
    write(path, G, y=y)
    return open_rows(path, target=G.shape[1] if path.suffix == ".npy" else "y")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_holds_what_was_written(suffix, dtype, table, tmp_path, small_blocks):
    G, y = table[0].astype(dtype), table[1].astype(dtype)
    data = opened(tmp_path / f"rows{suffix}", G, y)
    assert data.shape == G.shape
    assert len(data) == 130
    assert data.dtype == dtype
    assert data.nbytes == G.nbytes
    np.testing.assert_array_equal(data.load(), G)
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.columns([20, 3]), G[:, [20, 3]])
    np.testing.assert_array_equal(np.vstack([block.copy() for block in data.blocks()]), G)
    kept = np.arange(130) % 3 == 0
    np.testing.assert_array_equal(data[kept].load(), G[kept])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_some_of_some_rows(suffix, table, tmp_path, small_blocks):
    G, y = table
    data = opened(tmp_path / f"rows{suffix}", G, y)
    every_third, mask = np.arange(1, 130, 3), np.arange(130) % 3 == 1
    some = data[every_third]
    for part, rows in [(some, every_third), (some[mask[:43]], every_third[mask[:43]]), (some[5:20][[2, 4]], [22, 28])]:
        assert part.shape == (len(rows), 30)
        np.testing.assert_array_equal(part.load(), G[rows])
        np.testing.assert_array_equal(part.columns([3, 1]), G[rows][:, [3, 1]])
        np.testing.assert_array_equal(part.y, y[rows])
    np.testing.assert_array_equal(some.load(), G[every_third])


@pytest.mark.parametrize("read_before", [False, True])
def test_targets_of_some_rows(read_before, table, tmp_path):
    G, y = table
    data = opened(tmp_path / "rows.npy", G, y)
    if read_before:
        assert len(data.y) == 130
    np.testing.assert_array_equal(data[np.arange(4, 10)].y, y[4:10])
    np.testing.assert_array_equal(data[np.arange(4, 100)][y[4:100] > 0].y, y[4:100][y[4:100] > 0])
    np.testing.assert_array_equal(data.y, y)


def test_weights_of_zero_among_some_rows(table, tmp_path, small_blocks, rng):
    G, y = table
    weights = rng.integers(0, 3, size=100)
    data = opened(tmp_path / "rows.npy", G, y)[np.arange(20, 120)]
    model = ForwardRegressor().fit(data, data.y, sample_weight=weights)
    expected = ForwardRegressor().fit(G[20:120], y[20:120], sample_weight=weights)
    assert model.support_.tolist() == expected.support_.tolist()
    np.testing.assert_allclose(model.weights_, expected.weights_)
    np.testing.assert_allclose(model.predict(data), expected.predict(G[20:120]))


@pytest.mark.parametrize("precompute", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_paths_from_a_file_are_those_from_an_array(rule, weighted, precompute, table, rng, tmp_path, small_blocks):
    G, y = table
    y = np.sign(y) if rule == "loo_error" else np.column_stack([y, rng.normal(size=130)])
    weights = rng.integers(0, 3, size=130).astype(float) if weighted else None
    if weighted:
        weights[40:60] = 0  # a block of which nothing is left
    options = {"rule": rule, "max_terms": 7, "sample_weight": weights, "precompute": precompute}
    path = forward_path(open_rows(write(tmp_path / "rows.npy", G)), y, **options)
    expected = forward_path(G, y, **options)
    assert path.terms.tolist() == expected.terms.tolist()
    for name in ("sse", "loo", "dof"):
        np.testing.assert_allclose(path.column(name), expected.column(name), rtol=1e-8)
    for name in ("Z", "Y", "sample_weight"):
        np.testing.assert_allclose(getattr(path.training, name), getattr(expected.training, name), atol=1e-8)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_estimators_from_files(suffix, table, tmp_path, small_blocks):
    G, y = table
    data = opened(tmp_path / f"rows{suffix}", G, y)
    model, expected = ForwardRegressor().fit(data, data.y), ForwardRegressor().fit(G, y)
    assert model.support_.tolist() == expected.support_.tolist()
    np.testing.assert_allclose(model.predict(data), expected.predict(G), rtol=1e-8)
    if suffix == ".npy":
        np.testing.assert_allclose(model.predict(G), expected.predict(G), rtol=1e-8)
    else:
        assert list(model.feature_names_in_) == [f"x{j}" for j in range(30)]
        other = open_rows(data.path, columns=[f"x{j}" for j in range(29, -1, -1)])
        with pytest.raises(
            ValueError, match=r"X must have the columns of the fit in their order, got rows of .* with 30"
        ):
            model.predict(other)
    assert list(model.get_feature_names_out()) == list(expected.get_feature_names_out())


def test_weights_of_zero_and_classes(table, rng, tmp_path, small_blocks):
    G, y = table
    data, weights = opened(tmp_path / "rows.npy", G, y), rng.integers(0, 2, size=130)
    model, expected = (ForwardRegressor().fit(X, y, sample_weight=weights) for X in (data, G))
    np.testing.assert_allclose(model.loo_residuals_, expected.loo_residuals_, atol=1e-8)
    model, expected = (
        ForwardClassifier(loss=loss, max_terms=5).fit(X, y > 0) for X, loss in ((data, "auto"), (G, "squared"))
    )
    assert model.support_.tolist() == expected.support_.tolist()


@pytest.mark.parametrize("options", [{"refine": "swap"}, {"criterion": "tcr", "patience": 3}])
def test_refining_and_patience(options, table, tmp_path, small_blocks):
    G, y = table
    data = open_rows(write(tmp_path / "rows.npy", G))
    path, expected = (forward_path(X, y, max_terms=8, rule="cost", **options) for X in (data, G))
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.training.Z, expected.training.Z, atol=1e-8)


def test_many_terms_exceed_the_reserved_memory(rng, tmp_path, small_blocks):
    G, y = rng.normal(size=(150, 90)), rng.normal(size=150)
    path = forward_path(open_rows(write(tmp_path / "rows.npy", G)), y, rule="cost", alpha=1.0)
    expected = forward_path(G, y, rule="cost", alpha=1.0)
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.training.Z, expected.training.Z, atol=1e-8)


def test_passes_are_few(table, tmp_path, small_blocks):
    G, y = table
    passes = {}
    for rule in ("cost", "loo"):
        for precompute in (False, True):
            data = open_rows(write(tmp_path / "rows.npy", G))
            forward_path(data, y, rule=rule, max_terms=8, precompute=precompute)
            passes[rule, precompute] = data.passes
    assert passes["cost", False] == 9  # one to begin with, one for every term
    assert passes["cost", True] == 2  # one for the products, one for the columns
    assert passes["loo", False] <= 13  # most columns to be verified are cached
    assert passes["loo", True] <= 6


def test_a_pass_that_verifies_serves_the_term_too(rng, tmp_path, monkeypatch):
    """Correlated columns, few of which fit into memory: one pass for an unexpected term and its rivals, not three."""
    monkeypatch.setattr(termwise.design.files, "BLOCK_BYTES", 1 << 18)
    passes = 0
    for _ in range(3):
        common, own = np.repeat(rng.normal(size=(1000, 15)), 20, axis=1), rng.normal(size=(1000, 300))
        G = np.sqrt(0.9) * common + np.sqrt(0.1) * own
        y = G[:, ::30].sum(axis=1) + rng.normal(size=1000)
        data = open_rows(write(tmp_path / "rows.npy", G))
        with memory_budget(3_000_000):
            path = forward_path(data, y, max_terms=30)
        assert path.terms.tolist() == forward_path(G, y, max_terms=30).terms.tolist()
        passes += data.passes
    assert passes <= 66


def test_columns_are_cached_within_the_budget(table, tmp_path, small_blocks):
    G, y = table
    data = open_rows(write(tmp_path / "rows.npy", G))
    with memory_budget(1):
        path = forward_path(data, y, max_terms=6)
    assert path.terms.tolist() == forward_path(G, y, max_terms=6).terms.tolist()
    reader = BlockReader(data, 2)
    assert reader.columns(0, np.array([4])) is None
    reader.prefetch(np.array([4, 9, 11]))
    reader.block(0)
    np.testing.assert_array_equal(reader.columns(0, np.array([9, 4])), G[:20][:, [9, 4]])
    assert reader.columns(5, np.array([9])) is None
    assert reader.columns(0, np.array([11])) is None
    reader.prefetch(np.array([11, 9]))
    assert reader.columns(0, np.array([4])) is None
    assert reader.columns(0, np.array([9])) is not None
    np.testing.assert_array_equal(reader.block(3), G[60:80])  # further on
    np.testing.assert_array_equal(reader.block(1), G[20:40])  # and back
    np.testing.assert_array_equal(reader.columns(3, np.array([11, 9])), G[60:80][:, [11, 9]])


def test_some_columns_some_targets(table, tmp_path):
    G, y = table
    write(tmp_path / "rows.npy", G)
    some = open_rows(tmp_path / "rows.npy", columns=[5, 2, 9], target=[2, 3])
    np.testing.assert_array_equal(some.load(), G[:, [5, 9]])
    np.testing.assert_array_equal(some.y, G[:, [2, 3]])
    write(tmp_path / "rows.parquet", G, y=y)
    some = open_rows(tmp_path / "rows.parquet", columns=["x5", "x2", "y"], target=["y", "x3"])
    assert some.names == ["x5", "x2"]
    np.testing.assert_array_equal(some.load(), G[:, [5, 2]])
    np.testing.assert_array_equal(some.y, np.column_stack([y, G[:, 3]]))


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, bool])
def test_other_numbers_become_float64(dtype, rng, tmp_path):
    G = rng.integers(0, 2, size=(20, 4)).astype(dtype)
    np.save(tmp_path / "rows.npy", G)
    found = open_rows(tmp_path / "rows.npy").load()
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, G)


# -- memory maps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1e12, 1e4])
def test_memory_maps_are_not_copied(limit, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(termwise.design.files, "BLOCK_BYTES", 1 << 18)
    G, y = rng.normal(size=(4000, 600)), rng.normal(size=4000)
    np.save(tmp_path / "rows.npy", G)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    expected = forward_path(G, y, rule="cost", max_terms=4).terms.tolist()
    tracemalloc.start()
    with memory_budget(limit):
        assert forward_path(mapped, y, rule="cost", max_terms=4).terms.tolist() == expected
        model = ForwardRegressor(rule="cost", criterion=None, max_terms=4).fit(mapped, y)
    assert model.support_.tolist() == expected
    assert tracemalloc.get_traced_memory()[1] < 0.3 * G.nbytes
    tracemalloc.stop()


def test_maps_beyond_the_budget_are_read_in_blocks(table, rng, tmp_path, small_blocks):
    G, y = table
    np.save(tmp_path / "rows.npy", G)
    mapped, weights = np.load(tmp_path / "rows.npy", mmap_mode="r"), rng.integers(0, 2, size=130)
    assert beyond_memory(mapped) is mapped
    with memory_budget(1000):
        assert isinstance(beyond_memory(mapped[10:]), MappedRows)
        assert isinstance(beyond_memory(np.asarray(mapped)), MappedRows)
        assert beyond_memory(G) is G
        assert beyond_memory(mapped.T).shape == (30, 130)  # by columns already
        np.testing.assert_array_equal(beyond_memory(mapped).columns([4, 2]), G[:, [4, 2]])
        found = ForwardRegressor().fit(mapped, y, sample_weight=weights)
    expected = ForwardRegressor().fit(G, y, sample_weight=weights)
    assert found.support_.tolist() == expected.support_.tolist()
    np.testing.assert_allclose(found.loo_residuals_, expected.loo_residuals_, atol=1e-8)


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_numbers_are_named(value, suffix, table, tmp_path, small_blocks):
    G, y = table
    G[77, 12] = value
    column = "12" if suffix == ".npy" else "'x12'"
    data = opened(tmp_path / f"rows{suffix}", G, y)
    for weights in (None, np.arange(130) % 7 != 1):
        with pytest.raises(
            ValueError,
            match=rf"must hold finite numbers, got {value} in row 77, column {column}: leave out or fill in such rows",
        ):
            forward_path(data, y, sample_weight=weights)


def test_numbers_whose_sum_is_infinite_are_fine(rng, tmp_path):
    G = rng.normal(size=(40, 3))
    G[:2, 0] = 1.7e308
    reader = BlockReader(open_rows(write(tmp_path / "rows.npy", G)), 1)
    np.testing.assert_array_equal(reader.block(0), G)


def test_a_fit_that_fails_leaves_the_model_as_it_was(table, tmp_path):
    G, y = table
    model = ForwardRegressor().fit(G, y)
    before = model.predict(G)
    data = open_rows(write(tmp_path / "rows.npy", np.where(G > 2, np.nan, G)))
    with pytest.raises(ValueError, match="must hold finite numbers"):
        model.fit(data, y)
    np.testing.assert_array_equal(model.predict(G), before)


def text(path):
    pyarrow, _, parquet = arrow()
    parquet.write_table(pyarrow.table({"a": [1.0, 2.0], "who": ["x", "y"]}), path)
    return path


def cut_short(path):
    np.save(path, np.zeros((10, 3)))
    path.write_bytes(path.read_bytes()[:-5])
    return path


def saved(path, array):
    np.save(path, array)
    return path


def feather(path):
    pyarrow, feather, _ = arrow()
    feather.write_feather(pyarrow.table({"a": [1.0, 2.0]}), str(path))
    return path


def truncated(path, length=-9):
    path.write_bytes(path.read_bytes()[:length])
    return path


def changed(path):
    """Return rows of a file that was written again meanwhile."""
    rows = open_rows(saved(path, np.zeros((4, 3))))
    saved(path, np.ones((5, 3)))
    return rows


ERRORS = [
    (lambda p: open_rows(p / "rows.csv"), ValueError,
     r"path must end with one of \.npy, .*, got 'rows\.csv': write such"),
    (lambda p: open_rows(p / "rows.npy"), FileNotFoundError,
     r"path must be a file, got '.*rows\.npy', which is not there"),
    (lambda p: open_rows(text(p / "t.parquet")), ValueError,
     r"column 'who' of t\.parquet must hold numbers, got string: name those to use by columns"),
    (lambda p: open_rows(text(p / "t.parquet"), columns=["a", "b"]), ValueError,
     r"columns and target must name columns of t\.parquet, got 'b': there are a, who\."),
    (lambda p: open_rows(saved(p / "r.npy", np.zeros(3))), ValueError,
     r"r\.npy must hold a table of numbers row by row, got an array of shape \(3,\) and type float64 row by row"),
    (lambda p: open_rows(saved(p / "r.npy", np.zeros((2, 3)).T)), ValueError,
     r"type float64 column by column: save numpy"),
    (lambda p: open_rows(saved(p / "r.npy", np.array([["a"]]))), ValueError, r"must hold a table of numbers"),
    (lambda p: open_rows(saved(p / "r.npy", np.zeros((4, 3))), columns=[3]), ValueError,
     r"columns must lie between 0 and 2, got 3: there are 3 columns\."),
    (lambda p: open_rows(saved(p / "r.npy", np.zeros((4, 3))), target=5), ValueError,
     r"target must lie between 0 and 2, got 5"),
    (lambda p: open_rows(saved(p / "r.npy", np.zeros((4, 3)))).y, ValueError,
     r"y is not in r\.npy: name it as the target of open_rows, or read it from elsewhere\."),
    (lambda p: forward_path(open_rows(cut_short(p / "r.npy")), np.arange(10.0)), ValueError,
     r"r\.npy must be as long as its header says, got 5 bytes too few: save it again\."),
    (lambda p: open_rows(truncated(text(p / "t.parquet"))), ValueError,
     r"t\.parquet cannot be read \(.*\): it is truncated or damaged; write it again\."),
    (lambda p: open_rows(truncated(feather(p / "t.feather"))), ValueError, r"t\.feather cannot be read \("),
    (lambda p: open_rows(truncated(saved(p / "r.npy", np.zeros((4, 3))), 40)), ValueError, r"r\.npy cannot be read \("),
    (lambda p: changed(p / "r.npy").load(), ValueError,
     r"r\.npy must stay as it is while it is in use, got another size or time of change: open it again with open_rows"),
    (lambda p: BasisRidge().fit(open_rows(saved(p / "r.npy", np.zeros((4, 3)))), np.arange(4.0)), TypeError,
     r"X must be an array for BasisRidge, got rows of r\.npy: ForwardRegressor and ForwardClassifier work from files"),
    (lambda p: TermwiseRegressor().fit(open_rows(saved(p / "r.npy", np.zeros((4, 3)))), np.arange(4.0)), TypeError,
     r"X must be an array for TermwiseRegressor, got rows of r\.npy: .*; others take X\.load\(\)\."),
    (lambda p: ForwardRegressor(RadialBasis()).fit(open_rows(saved(p / "r.npy", np.zeros((4, 3)))), np.arange(4.0)),
     TypeError, r"X must be an array if there is a basis, got rows of r\.npy: use basis=None, or X\.load\(\)"),
    (lambda p: forward_path(open_rows(saved(p / "r.npy", np.zeros((1, 3)))), [1.0]), ValueError, r"minimum of 2"),
    (lambda p: forward_path(open_rows(saved(p / "r.npy", np.zeros((4, 3)))), np.zeros(5)), ValueError, r"inconsistent"),
    (lambda p: memory_budget(-1).__enter__(), ValueError,
     r"nbytes must be a finite number > 0, got -1: give a number of"),
    (lambda p: RadialBasis(store="no").fit(np.eye(3)), ValueError,
     r"store must be True or False, got 'no': 'auto' decides by the memory budget\."),
]  # fmt: skip


@pytest.mark.parametrize(("action", "error", "message"), ERRORS)
def test_errors_say_what_is_wrong_and_what_to_do(action, error, message, tmp_path):
    with pytest.raises(error, match=message):
        action(tmp_path)


def test_columns_of_new_rows_must_be_those_of_the_fit(table, tmp_path):
    G, y = table
    model = ForwardRegressor().fit(G, y)
    with pytest.raises(ValueError, match="X has 29 features, but ForwardRegressor is expecting 30"):
        model.predict(open_rows(write(tmp_path / "rows.npy", G[:, :29])))
