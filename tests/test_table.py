"""Tables of pandas and polars as numbers: types, names, holes, categories known and unknown."""

from __future__ import annotations

import pickle
import warnings
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator

from termwise import AnovaBasis, ForwardRegressor, TermwiseRegressor
from termwise.basis import TableEncoder

SIZES, KINDS = [1.0, 2.0, 3.0], ["b", "a", "b"]
EXPECTED = [[1, 0, 1], [2, 1, 0], [3, 0, 1]]


def pandas_table(sizes=SIZES, kinds=KINDS):
    return pd.DataFrame({"size": sizes, "kind": pd.Categorical(kinds)})


def polars_table(sizes=SIZES, kinds=KINDS):
    return pl.DataFrame({"size": sizes, "kind": pl.Series(kinds, dtype=pl.Categorical)})


both = pytest.mark.parametrize("make", [pandas_table, polars_table], ids=["pandas", "polars"])
CHECKS = [
    pytest.param(instance, check, id=f"{position}-{check.func.__name__}")
    for position, (instance, check) in enumerate(estimator_checks_generator(TableEncoder()))
]


@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix")
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# -- numbers and categories --------------------------------------------------------------------------------------------


@both
def test_a_category_becomes_a_column(make):
    encoder = TableEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(make()), EXPECTED)
    assert encoder.categories_ == {"kind": ["a", "b"]}
    assert encoder.get_feature_names_out().tolist() == ["size", "kind=a", "kind=b"]
    assert encoder.blocks() == [("size", None), ("kind", ["a", "b"])]


@pytest.mark.parametrize(("fitted", "given"), [(pandas_table, polars_table), (polars_table, pandas_table)])
def test_pandas_and_polars_mean_the_same(fitted, given):
    np.testing.assert_array_equal(TableEncoder().fit(fitted()).transform(given()), EXPECTED)


@given(st.lists(st.sampled_from("pqrst"), min_size=1, max_size=12), st.lists(st.sampled_from("pqrstuv"), min_size=1))
def test_same_as_one_hot_encoding(seen, new):
    oracle = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(np.reshape(seen, (-1, 1)))
    encoder = TableEncoder().fit(pd.DataFrame({"k": pd.Categorical(seen)}))
    table = pd.DataFrame({"k": pd.Categorical(new)})
    np.testing.assert_array_equal(encoder.transform(table), oracle.transform(np.reshape(new, (-1, 1))))


NUMBERS = {
    "int8": (pd.Series([1, 0, 2], dtype="int8"), [1, 0, 2]),
    "uint64": (pd.Series([1, 0, 2], dtype="uint64"), [1, 0, 2]),
    "nullable Int64": (pd.Series([1, 0, 2], dtype="Int64"), [1, 0, 2]),
    "nullable Float32": (pd.Series([1, 0.5, 2], dtype="Float32"), [1, 0.5, 2]),
    "bool": (pd.Series([True, False, True]), [1, 0, 1]),
    "nullable boolean": (pd.Series([True, False, True], dtype="boolean"), [1, 0, 1]),
    "objects": (pd.Series([1, 0.5, True], dtype=object), [1, 0.5, 1]),
    "decimals": (pd.Series([Decimal("1.5"), Decimal(0), Decimal(2)]), [1.5, 0, 2]),
    "sparse": (pd.Series(pd.arrays.SparseArray([0.0, 0.0, 2.0])), [0, 0, 2]),
    "polars Int32": (pl.Series([1, 0, 2], dtype=pl.Int32), [1, 0, 2]),
    "polars Boolean": (pl.Series([True, False, True]), [1, 0, 1]),
    "polars Decimal": (pl.Series([Decimal("1.5"), Decimal(0), Decimal(2)]), [1.5, 0, 2]),
    "polars Object": (pl.Series([1, 0.5, True], dtype=pl.Object), [1, 0.5, 1]),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_every_type(kind):
    column, expected = NUMBERS[kind]
    library = pd if isinstance(column, pd.Series) else pl
    G = TableEncoder().fit_transform(library.DataFrame({"a": column, "b": SIZES}))
    np.testing.assert_array_equal(G, np.column_stack([expected, SIZES]))
    assert G.dtype == np.float64


CATEGORIES = {
    "enum": (pl.Series(["x", "z", "x"], dtype=pl.Enum(["z", "y", "x"])), ["x", "z"]),
    "numbers": (pd.Series([20, 3, 20], dtype="category"), [3, 20]),
    "truths": (pd.Series([True, False, True], dtype="category"), [False, True]),
    "mixed": (pd.Series([20, "3", 20], dtype="category"), [20, "3"]),
    "unused": (pd.Series(pd.Categorical(["x", "y", "x"], categories=["w", "x", "y"])), ["x", "y"]),
    "strings": (pd.Series(["y", "x", "y"], dtype=object), ["x", "y"]),
    "string type": (pd.Series(["y", "x", "y"], dtype="string"), ["x", "y"]),
    "strings of numbers": (pd.Series(["20", "3", "20"]), ["20", "3"]),
    "polars strings": (pl.Series(["y", "x", "y"]), ["x", "y"]),
}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_of_every_type(kind):
    column, expected = CATEGORIES[kind]
    library = pd if isinstance(column, pd.Series) else pl
    encoder = TableEncoder()
    G = encoder.fit_transform(library.DataFrame({"k": column}))
    assert encoder.categories_ == {"k": expected}
    first = expected.index(column[0])
    np.testing.assert_array_equal(G, np.eye(2)[[first, 1 - first, first]])
    assert G.dtype == np.float64


def test_ordered_categories_are_positions_in_their_order():
    table = pd.DataFrame({"age": pd.cut([5, 15, 25, 35], [0, 10, 30, 40])})
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), [[0], [1], [1], [2]])
    sizes = ["small", "middle", "large", "huge"]
    encoder = TableEncoder().fit(pd.DataFrame({"k": pd.Categorical(["large", "small", None], sizes, ordered=True)}))
    assert encoder.categories_ == {"k": sizes}
    assert encoder.get_feature_names_out().tolist() == ["k", "k=missing"]
    G = encoder.transform(pd.DataFrame({"k": ["middle", None, "enormous"]}))
    np.testing.assert_array_equal(G, [[1, 0], [np.nan, 1], [1, 0]])  # an unseen level is at the mean of the samples
    assert encoder.blocks() == [("k", None), ("k=missing", None)]


@both
def test_unseen_and_absent_categories(make):
    encoder = TableEncoder().fit(make(kinds=["a", "b", "c"]))
    np.testing.assert_array_equal(
        encoder.transform(make(kinds=["c", "new", "c"]))[:, 1:], [[0, 0, 1], [0] * 3, [0, 0, 1]]
    )


@both
def test_categories_may_come_as_text(make):
    text = {"size": SIZES, "kind": KINDS}
    encoder = TableEncoder().fit(make())
    for library in (pd, pl):
        np.testing.assert_array_equal(encoder.transform(library.DataFrame(text)), EXPECTED)


@both
def test_one_row(make):
    np.testing.assert_array_equal(TableEncoder().fit_transform(make([4.0], ["q"])), [[4, 1]])
    np.testing.assert_array_equal(TableEncoder().fit(make()).transform(make([4.0], ["a"])), [[4, 1, 0]])


@both
def test_frames_of_float32_stay_float32(make):
    assert TableEncoder().fit_transform(make(np.float32(SIZES))).dtype == np.float32
    assert TableEncoder().fit_transform(make(np.float64(SIZES))).dtype == np.float64
    assert TableEncoder().fit_transform(make(np.float32(SIZES))[["size"]]).dtype == np.float32


def test_one_wider_column_makes_float64():
    table = pandas_table(np.float32(SIZES)).assign(count=[1, 2, 3])
    assert TableEncoder().fit_transform(table).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_arrays_pass_through(dtype):
    X = np.array([[1, 2], [3, 4]], dtype=dtype)
    encoder = TableEncoder()
    G = encoder.fit_transform(X)
    np.testing.assert_array_equal(G, X)
    assert G.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert encoder.categories_ == {}
    np.testing.assert_array_equal(encoder.transform([[5, 6]]), [[5, 6]])


# -- missing values, rare and many categories, dates -------------------------------------------------------------------


def missing_tables():
    """The same table with missing values of numbers, truths, categories and strings, in both libraries."""
    numbers, truths, kinds = [1.0, None, 3.0, 4.0], [True, None, False, True], ["b", "a", None, "b"]
    text = ["u", None, "v", "u"]
    yield pd.DataFrame({"size": numbers, "new": pd.array(truths, "boolean"), "kind": pd.Categorical(kinds), "t": text})
    columns = {"size": numbers, "new": truths, "kind": pl.Series(kinds, dtype=pl.Categorical), "t": text}
    yield pl.DataFrame(columns)
    yield pd.DataFrame({"size": pd.array([1, None, 3, 4], "Int64"), "new": pd.Series(truths, dtype=object),
                        "kind": pd.Series(kinds, dtype="string"), "t": pd.Series(text, dtype=object)})  # fmt: skip


@pytest.mark.parametrize("table", list(missing_tables()), ids=["pandas", "polars", "objects"])
def test_missing_values_have_indicators(table):
    encoder = TableEncoder()
    nan = np.nan
    expected = [  # size, missing; new, missing; kind=a, b, missing; t=u, v, missing
        [1, 0, 1, 0, 0, 1, 0, 1, 0, 0],
        [nan, 1, nan, 1, 1, 0, 0, 0, 0, 1],
        [3, 0, 0, 0, 0, 0, 1, 0, 1, 0],
        [4, 0, 1, 0, 0, 1, 0, 1, 0, 0],
    ]
    np.testing.assert_array_equal(encoder.fit_transform(table), expected)
    names = ["size", "missing(size)", "new", "missing(new)", "kind=a", "kind=b", "kind=missing", "t=u", "t=v"]
    assert encoder.get_feature_names_out().tolist() == [*names, "t=missing"]
    assert encoder.groups().tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3]
    assert encoder.inputs_of(np.array([1, 6])) == [(0,), (2,)]
    blocks = [("size", None), ("missing(size)", None), ("new", None), ("missing(new)", None)]
    assert encoder.blocks() == [*blocks, ("kind", ["a", "b", "missing"]), ("t", ["u", "v", "missing"])]


def test_missing_values_of_arrays_have_indicators():
    X = np.array([[1.0, 2.0], [np.nan, 3.0]], dtype=np.float32)
    encoder = TableEncoder()
    G = encoder.fit_transform(X)
    np.testing.assert_array_equal(G, [[1, 0, 2], [np.nan, 1, 3]])
    assert G.dtype == np.float32
    assert encoder.get_feature_names_out(["a", "b"]).tolist() == ["a", "missing(a)", "b"]
    np.testing.assert_array_equal(encoder.transform([[4.0, 5.0]]), [[4, 0, 5]])


def test_a_category_called_missing():
    encoder = TableEncoder().fit(pd.DataFrame({"k": ["missing", None, "other"]}))
    assert encoder.get_feature_names_out().tolist() == ["k=missing", "k=other", "missing(k)"]


@both
def test_rare_categories_share_an_indicator(make):
    encoder = TableEncoder(min_count=2).fit(make([1.0] * 6, ["a", "b", "a", "c", "b", "d"]))
    assert encoder.get_feature_names_out().tolist() == ["size", "kind=a", "kind=b", "kind=other"]
    np.testing.assert_array_equal(
        encoder.transform(make(kinds=["d", "a", "new"]))[:, 1:], [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
    )
    assert encoder.count_unseen(make(kinds=["d", "a", "new"])) == {"kind": 1}


@both
def test_many_categories_are_numbered(make):
    kinds = ["c", "a", None, "b"]
    encoder = TableEncoder(max_levels=2).fit(make([1.0] * 4, kinds))
    assert encoder.get_feature_names_out().tolist() == ["size", "kind"]
    assert encoder.level_columns().tolist() == [1]
    G = encoder.transform(make([1.0] * 5, [*kinds, "new"]))
    assert G[:, 1].tolist() == [2, 0, 3, 1, -1]  # missing values are the last level
    assert encoder.count_unseen(make([1.0] * 5, ["x", *kinds])) == {"kind": 1}
    assert TableEncoder(max_levels=3).fit(make([1.0] * 4, kinds)).level_columns().tolist() == []


@both
def test_excluded_columns_have_no_block(make):
    for name, rest in (("kind", [("size", None)]), ("size", [("kind", ["a", "b"])])):
        encoder = TableEncoder().fit(make()).exclude([name])
        assert encoder.blocks() == rest
        assert encoder.transform(make()).shape[1] == sum(len(kinds or [0]) for _, kinds in rest)


@both
def test_new_missing_values_at_the_mean(make):
    encoder = TableEncoder(new_missing="mean").fit(make([1.0, 2.0, 6.0]))
    np.testing.assert_array_equal(encoder.transform(make([np.nan, 1.0], [None, "a"])), [[3, 0, 0], [1, 1, 0]])
    arrays = TableEncoder(new_missing="mean").fit([[1.0, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(arrays.transform([[np.nan, np.nan]]), [[1.5, np.nan, 1]])
    days = TableEncoder(new_missing="mean").fit(pd.DataFrame({"d": pd.to_datetime(["2021-01-01", "2021-01-03"])}))
    G = days.transform(pd.DataFrame({"d": pd.to_datetime([None, "2021-01-02"])}))
    np.testing.assert_array_equal(G[0], G[1])


def test_options_are_checked():
    X = [[1.0]]
    with pytest.raises(
        ValueError, match="new_missing must be one of 'error', 'warn', 'mean', got 'drop': 'mean' puts them"
    ):
        TableEncoder(new_missing="drop").fit(X)
    with pytest.raises(ValueError, match="missing must be one of 'indicator', 'error', got 'drop': 'error' refuses"):
        TableEncoder(missing="drop").fit(X)
    with pytest.raises(ValueError, match="max_levels must be a whole number >= 1, got 0: 20 suits most data"):
        TableEncoder(max_levels=0).fit(X)
    with pytest.raises(ValueError, match="min_count must be a whole number >= 1, got 0: 1 groups nothing"):
        TableEncoder(min_count=0).fit(X)


DATES = ["2021-01-04", "2024-12-31", None]
WHEN = {
    "pandas": pd.to_datetime(pd.Series(DATES)),
    "with a time zone": pd.to_datetime(pd.Series(DATES)).dt.tz_localize("America/New_York"),
    "objects": pd.Series([date(2021, 1, 4), date(2024, 12, 31), None], dtype=object),
    "Arrow dates": pd.to_datetime(pd.Series(DATES)).astype("date32[pyarrow]"),
    "polars dates": pl.Series(DATES).str.to_date(),
    "polars times": pl.Series(DATES).str.to_datetime().dt.replace_time_zone("Asia/Tokyo"),
}


@pytest.mark.parametrize("kind", WHEN)
def test_dates_are_expanded(kind):
    library = pl if isinstance(WHEN[kind], pl.Series) else pd
    encoder = TableEncoder()
    G = encoder.fit_transform(library.DataFrame({"d": WHEN[kind]}))
    names = ["time(d)", "year(d)", "season_sin(d)", "season_cos(d)", "weekday(d)", "missing(d)"]
    assert encoder.get_feature_names_out().tolist() == names
    angles = 2 * np.pi * np.array([3, 365]) / 365.2425
    days = [(date(2021, 1, 4) - date(1970, 1, 1)).days, (date(2024, 12, 31) - date(1970, 1, 1)).days]
    expected = [1970 + np.array(days) / 365.2425, [2021, 2024], np.sin(angles), np.cos(angles), [0, 1], [0, 0]]
    np.testing.assert_allclose(G[:2], np.transpose(expected), rtol=1e-12)
    np.testing.assert_array_equal(G[2], [np.nan] * 5 + [1])
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"d": DATES})), G)  # strings of the ISO format


def test_times_have_hours():
    table = pd.DataFrame({"t": pd.to_datetime(["2021-06-01 06:30", "1969-12-31 23:00"])})
    G = TableEncoder().fit(table).set_output(transform="pandas").transform(table)
    assert G["hour(t)"].round(9).tolist() == [6.5, 23.0]
    assert G["weekday(t)"].tolist() == [1, 2]
    assert G["year(t)"].tolist() == [2021, 1969]


# -- names -------------------------------------------------------------------------------------------------------------


def test_columns_named_by_numbers_go_by_their_position():
    table = pandas_table().set_axis([5, 7], axis=1)
    encoder = TableEncoder().fit(table)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1=a", "x1=b"]
    assert encoder.categories_ == {"x1": ["a", "b"]}
    np.testing.assert_array_equal(encoder.transform(table.set_axis([0, 1], axis=1)), EXPECTED)


def test_names_from_an_earlier_step():
    table = pd.DataFrame({"size": [1.0, np.nan], "age": [2.0, 3.0]})
    pipeline = make_pipeline(SimpleImputer(), TableEncoder()).fit(table)
    assert pipeline.get_feature_names_out().tolist() == ["size", "age"]


def test_names_of_arrays():
    encoder = TableEncoder().fit([[1, 2]])
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1"]
    assert encoder.get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_come_out_when_asked_for(kind):
    frame = TableEncoder().set_output(transform=kind).fit_transform(pandas_table())
    assert list(frame.columns) == ["size", "kind=a", "kind=b"]
    np.testing.assert_array_equal(frame, EXPECTED)


# -- everyday use ------------------------------------------------------------------------------------------------------


@both
def test_pickled_and_cloned(make):
    encoder = TableEncoder().fit(make())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(make()), EXPECTED)
    with pytest.raises(NotFittedError):
        clone(encoder).transform(make())


def test_a_fit_that_failed_is_no_fit():
    encoder = TableEncoder(missing="error")
    with pytest.raises(ValueError, match="missing values"):
        encoder.fit(pandas_table([np.nan, 1, 2]))
    with pytest.raises(NotFittedError):
        encoder.transform(pandas_table())
    with pytest.raises(NotFittedError):
        encoder.get_feature_names_out()


@both
def test_in_a_basis_only_the_chosen_functions_are_evaluated(make, rng, monkeypatch):
    sizes, kinds = rng.uniform(-1, 1, 200), rng.choice(["a", "b", "c"], 200)
    y = sizes * (kinds == "b") + 0.01 * rng.normal(size=200)
    model = ForwardRegressor(make_pipeline(TableEncoder(), AnovaBasis()), max_terms=6).fit(make(sizes, kinds), y)
    assert "size * kind=b" in model.get_feature_names_out()
    assert model.score(make(sizes, kinds), y) > 0.99
    widths = []
    evaluate = AnovaBasis.evaluate
    monkeypatch.setattr(
        AnovaBasis, "evaluate", lambda basis, X: widths.append(len(basis.inputs_)) or evaluate(basis, X)
    )
    new = make(np.linspace(-1, 1, 4), ["b", "b", "a", "unheard of"])
    G = model.basis_.transform(new)
    np.testing.assert_allclose(model.predict(new), G @ model.coef_ + model.intercept_)
    assert widths == [len(model.coef_), model.n_terms_]
    assert model.n_terms_ < len(model.coef_)


@both
def test_categories_of_samples_that_do_not_count_are_not_learned(make, rng):
    sizes = rng.normal(size=20)
    table = make(sizes, ["odd"] + ["a", "b"] * 9 + ["a"])
    weights = np.append(0.0, np.ones(19))
    model = ForwardRegressor(make_pipeline(TableEncoder(), AnovaBasis())).fit(table, sizes, sample_weight=weights)
    assert model.basis_[0].categories_ == {"kind": ["a", "b"]}


# -- what is refused ---------------------------------------------------------------------------------------------------

WORDS = (
    r"X must hold numbers, categories, strings or dates, got something else in a, c: make it a categorical column, with"
)
HOLES = r"X must not have missing values \(NaN, inf or null\), got some in a, c: fill them, with scikit-learn's Simple"
REFUSED = {
    "durations and intervals": (
        pd.DataFrame({"a": pd.timedelta_range(0, periods=2), "b": [1, 2], "c": pd.interval_range(0, 2)}),
        WORDS,
    ),
    "lists and text among numbers": (
        pd.DataFrame({"a": [[1], [2]], "b": [1, 2], "c": pd.Series([1, "2"], dtype=object)}),
        WORDS,
    ),
    "polars lists": (pl.DataFrame({"a": [[1], [2]], "b": [1, 2], "c": [[1], [2]]}), WORDS),
    "NaN, infinite": (pd.DataFrame({"a": [np.nan, 1.0], "b": [1, 2], "c": [1.0, np.inf]}), HOLES),
    "NA": (
        pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [1, 2], "c": pd.array([True, None], "boolean")}),
        HOLES,
    ),
    "objects": (
        pd.DataFrame({"a": pd.Series([1, pd.NA], dtype=object), "b": [1, 2], "c": pd.Series([None, 2], dtype=object)}),
        HOLES,
    ),
    "categories missing": (
        pd.DataFrame({"a": pd.Categorical(["u", None]), "b": [1, 2], "c": pd.Categorical([np.nan, 1])}),
        HOLES,
    ),
    "null": (pl.DataFrame({"a": [1, None], "b": [1, 2], "c": [None, True]}), HOLES),
    "polars NaN, all null": (pl.DataFrame({"a": [1.0, np.nan], "b": [1, 2], "c": [None, None]}), HOLES),
    "polars categories missing": (
        pl.DataFrame(
            {
                "a": pl.Series(["u", None], dtype=pl.Categorical),
                "b": [1, 2],
                "c": pl.Series([None, "u"], dtype=pl.Enum(["u"])),
            }
        ),
        HOLES,
    ),
    "columns of one name": (
        pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]),
        r"X must have columns of different names, .* got a more than once: rename all but one\.",
    ),
    "a column named like a category": (
        pd.DataFrame({"k=u": [1, 2], "k": pd.Categorical(["u", "v"])}),
        r"a category's being column=category, got k=u more than once",
    ),
    "categories written alike": (pd.DataFrame({"k": pd.Categorical([1, "1"])}), r"got k=1 more than once"),
    "no rows": (pd.DataFrame({"a": []}), r"X must have at least one row and one column, got shape \(0, 1\): give some"),
    "no columns": (
        pl.DataFrame(),
        r"X must have at least one row and one column, got shape \(0, 0\): give some data\.",
    ),
    "array": (
        np.array([[1, np.nan], [np.inf, 2]]),
        r"X must not have missing values .*, got some in x0, x1: fill them",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_at_fit(case):
    table, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        TableEncoder(missing="error").fit(table)


@both
def test_holes_are_refused_at_transform_too(make):
    encoder = TableEncoder(missing="error").fit(make())
    with pytest.raises(ValueError, match=r"missing values .* got some in size, kind: fill them"):
        encoder.transform(make([1.0, np.nan, 2.0], ["a", None, "b"]))
    with pytest.raises(ValueError, match=r"missing values .* got some in kind: fill them"):
        encoder.transform(pd.DataFrame({"size": [1.0], "kind": pd.array([None], "string")}))
    with pytest.raises(ValueError, match="at least one row and one column"):
        encoder.transform(make([], []))
    new = r"X must be complete in columns that had no missing values in fit, got some in size, kind: fill them, or fit"
    with pytest.raises(ValueError, match=new):
        TableEncoder().fit(make()).transform(make([1.0, np.nan, 2.0], ["a", None, "b"]))
    infinite = r"X must be finite or missing, got infinity in size: correct it, or make it NaN if it stands for a missi"
    with pytest.raises(ValueError, match=infinite):
        TableEncoder().fit(make([1.0, np.nan, np.inf]))


@both
@pytest.mark.parametrize("missing", ["mean", "warn"])
def test_new_missing_values_are_at_the_mean(make, missing):
    encoder = TableEncoder(new_missing=missing).fit(make())
    context = (
        pytest.warns(UserWarning, match="missing values in size, kind, which")
        if missing == "warn"
        else warnings.catch_warnings()
    )
    with context:
        values = encoder.transform(make([1.0, np.nan, 2.0], ["a", None, "b"]))
    sizes = encoder.transform(make())[:, 0]
    np.testing.assert_allclose(values[1], [sizes.mean(), *np.zeros(values.shape[1] - 1)])


@both
def test_other_columns_than_in_fit(make):
    encoder = TableEncoder().fit(make())
    table = make()
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        encoder.transform(table[["kind", "size"]])
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        encoder.transform(
            table.rename(columns={"size": "age"}) if make is pandas_table else table.rename({"size": "age"})
        )
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
        encoder.transform(table[["size"]])


@both
def test_numbers_must_stay_numbers(make):
    encoder = TableEncoder().fit(make()[["size"]])
    message = "X must hold numbers where it did in fit, got something else in size: give numbers, or fit again"
    for table in (pd.DataFrame({"size": pd.Categorical(["u"])}), pl.DataFrame({"size": ["u"]})):
        with pytest.raises(ValueError, match=message):
            encoder.transform(table)
    encoder = TableEncoder().fit(pd.DataFrame({"when": pd.date_range("2020", periods=2)}))
    with pytest.raises(ValueError, match="X must hold dates where it did in fit, got something else in when: give"):
        encoder.transform(pd.DataFrame({"when": [1.5]}))


@both
def test_arrays_cannot_stand_for_categories(make):
    encoder = TableEncoder().fit(make())
    message = (
        r"X must be a data frame as in fit, got ndarray: an array of numbers does not hold the categories or dates of k"
    )
    with pytest.raises(ValueError, match=message):
        encoder.transform(np.ones((2, 2)))


def test_the_summary_tells_ordered_categories_from_others(rng):
    sizes = pd.Categorical(rng.choice(["small", "large"], 60), ["small", "large"], ordered=True)
    table = pd.DataFrame({"size": sizes, "kind": rng.choice(["a", "b"], 60), "x": rng.normal(size=60)})
    summary = TermwiseRegressor(1, dictionary="linear").fit(table, table["x"]).summary()
    assert "one-hot encoded categories: kind: a, b\n" in summary
    assert "ordered categories, encoded by their position: size: small, large\n" in summary
