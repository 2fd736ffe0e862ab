"""Formulas and gradients: SQL by SQLite and DuckDB, SymPy and LaTeX say what the model says; derivatives are exact."""

from __future__ import annotations

import math
import re
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import cycle

import numpy as np
import pandas as pd
import pytest
from frozen_models import FRAME, NAMES, UNFITTED, N, X, Y, case_of, schema_of, y
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from test_export import AWKWARD, SOME, agree
from test_expressions import ELEMENTWISE, SUMS, Elementwise, Z, a, step_of

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardRegressor,
    LagBasis,
    RadialBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
)
from termwise.basis import LevelMeans, TableEncoder
from termwise.basis.encoder import VALUE, name_encoded
from termwise.basis.expressions import CONDITIONS, PARTIALS, where, z
from termwise.basis.expressions import SUMS as REDUCTIONS
from termwise.deploy import EXPORTS, c_steps, latex, onnx_graph, sql, symbolic
from termwise.deploy.formulas import LINKS
from termwise.deploy.inputs import Input, InputSchema
from termwise.deploy.predictor import Predictor
from termwise.deploy.program import RESPONSES, ClassLabels, Linear, Program

pytestmark = pytest.mark.xdist_group("frozen")
CLOSE = 1e-9
REPEATED = ("BasisRidge0", "LocalRidge1", "Evidence", "Orthogonal", "Online", "TermwiseRegressor r", "search")
CASES = [name for name in NAMES if not name.startswith(REPEATED)]  # every basis, with a few estimators
SERIES = [name for name in CASES if " lag " in name or name.startswith("lags")]
LAGGED = next(name for name in NAMES if name.startswith("BasisRidge0 lag"))
MISSING = [name for name in CASES if "missing" in name or "imputed behind" in name]
SINGLE_ROWS = [name for name in CASES if name not in SERIES]


# -- SQL ---------------------------------------------------------------------------------------------------------------


def rows_of(table):
    return table.astype(object).where(table.notna(), None).to_numpy(dtype=object).tolist()


def sqlite(query, name, table):
    """Run a query by SQLite on a table of that name."""
    with closing(sqlite3.connect(":memory:")) as connection:
        functions = {"exp": math.exp, "ln": math.log, "sqrt": math.sqrt, "sin": math.sin}  # which some builds lack
        for own, function in functions.items():
            connection.create_function(own, 1, lambda u, f=function: None if u is None else f(u))
        connection.create_function("power", 2, lambda u, v: None if u is None else u**v)
        listed, name = ", ".join(map(sql.identifier, table.columns)), sql.identifier(name)
        connection.execute(f"CREATE TABLE {name} ({listed})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * table.shape[1])})", rows_of(table))
        cursor = connection.execute(query)
        return pd.DataFrame(cursor.fetchall(), columns=[one[0] for one in cursor.description])


@cache
def duckdb_connection():
    return pytest.importorskip("duckdb").connect()


def duckdb(query, name, table):
    """Run a query by DuckDB on a table of that name."""
    connection = duckdb_connection()
    connection.register(name, table)
    cursor = connection.execute(query)
    found = pd.DataFrame(cursor.fetchall(), columns=[one[0] for one in cursor.description])
    connection.unregister(name)
    return found


DATABASES = [sqlite, duckdb]


def as_table(case):
    """The samples of a case as a table with a key."""
    table = pd.DataFrame(case.rows, columns=case.predictor.input_names)
    return table.assign(key=range(len(table)))


def output_columns(predictor):
    q, labels = len(predictor.intercept), predictor.classes
    if labels is None:
        return ["prediction"] if q == 1 else [f"prediction_{i + 1}" for i in range(q)]
    return ["score"] if q == 1 else [f"score_{label}" for label in labels]


ALTERNATING = list(zip(CASES, cycle(DATABASES), strict=False))  # three cases of every basis


@pytest.mark.parametrize(("name", "run"), ALTERNATING)
def test_sql(name, run):
    case = case_of(name)
    predictor = case.predictor
    query = predictor.to_sql("samples", keep=["key"], order_by="key")
    found = run(query, "samples", as_table(case)).sort_values("key")
    agree(case, found[output_columns(predictor)].to_numpy(dtype=float), case.outputs(), CLOSE)
    if predictor.classes is not None:
        assert found["label"].tolist() == case.model.predict(case.X).tolist()
    if hasattr(predictor, "predict_proba"):
        columns = [f"probability_{label}" for label in predictor.classes]
        np.testing.assert_allclose(found[columns].to_numpy(float), predictor.predict_proba(case.X), atol=CLOSE)


@pytest.mark.parametrize("run", DATABASES)
def test_sql_of_incomplete_rows(run):
    case = case_of("TermwiseRegressor frame")
    table = as_table(case)[:6]
    assert {"speed", "kind"} <= set(case.predictor.used_inputs)
    table.loc[0, "speed"], table.loc[1, "speed"] = None, np.inf
    table.loc[2, "kind"], table.loc[3, "kind"] = None, "unknown"
    found = run(case.predictor.to_sql("t", keep=["key"]), "t", table)["prediction"]
    assert found.isna().tolist() == [True] * 3 + [False] * 3
    filled = case.predictor.with_fill({"speed": 0.25, "kind": "v"})
    found = run(filled.to_sql("t", keep=["key"]), "t", table)["prediction"]
    assert found.isna().tolist() == [False, True] + [False] * 4  # infinity is not missing
    table.loc[[0, 1], "speed"], table.loc[2, "kind"] = 0.25, "v"
    expected = case.predictor.predict(table)
    np.testing.assert_allclose(found.drop(1).astype(float), np.delete(expected, 1), rtol=CLOSE)
    classifier = case_of("TermwiseClassifier frame").predictor
    labels = run(classifier.to_sql("t"), "t", table.assign(speed=np.nan))
    assert labels["label"].isna().all()
    assert labels["probability_yes"].isna().all()
    several = case_of("TermwiseClassifier pairs").predictor
    assert run(several.to_sql("t"), "t", pd.DataFrame(X, columns=several.input_names) * np.nan)["label"].isna().all()


@cache
def jumping_models():
    """Steps of a number, effects of many categories, and a number that may be missing; none propagates NULL."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(size=120), "town": [f"town {i % 30}" for i in range(120)]})
    steps = AnovaBasis(functions=("step",))
    step = ForwardRegressor(steps, max_terms=1, criterion=None).fit(table[["x"]], (table.x > 0.5) * 2.0)
    encoder = TableEncoder(max_levels=5).fit(table)
    basis = LevelMeans(SmoothBasis(centers=3), columns=encoder.level_columns())
    towns = BasisRidge(make_pipeline(encoder, basis), alpha=0.1).fit(table, np.arange(120) % 30 + table.x)
    holes = table[["x"]].assign(z=table.x.where(np.arange(120) % 3 > 0))
    optional = TermwiseRegressor(3, dictionary="linear", target="data", cv=3).fit(holes, holes.z.fillna(3.0) + table.x)
    assert set(optional.predictor_.used_inputs) == {"x", "z"}
    return step.predictor_, towns.predictor_, optional.predictor_


@pytest.mark.parametrize("run", DATABASES)
def test_sql_of_rows_that_predict_rejects(run):
    step, towns, optional = jumping_models()
    values = pd.DataFrame({"x": [0.7, None, np.inf, -np.inf, 0.2], "town": "town 3"})
    for predictor in (step, towns):
        found = run(predictor.to_sql(keep=[]), "data", values)["prediction"]
        assert found.isna().tolist() == [False, True, True, True, False]
        np.testing.assert_allclose(found[[0, 4]].astype(float), predictor.predict(values.iloc[[0, 4]]), rtol=CLOSE)
    values = pd.DataFrame({"x": 0.5, "town": ["town 3", None, "elsewhere"]})
    found = run(towns.to_sql(keep=[]), "data", values)["prediction"]
    assert found.isna().tolist() == [False, True, False]
    values = pd.DataFrame({"x": [0.5, 0.5, 0.5, 0.5, None], "z": [0.3, None, np.inf, -np.inf, 0.3]})
    found = run(optional.to_sql(keep=[]), "data", values)["prediction"]
    assert found.isna().tolist() == [False, False, True, True, True]
    np.testing.assert_allclose(found[:2].astype(float), optional.predict(values[:2]), rtol=CLOSE)
    past = pd.DataFrame({"x": X[:, 0], "key": range(N)})
    lagged = ForwardRegressor(make_pipeline(LagBasis(1), AnovaBasis(functions=("step",))), max_terms=2, criterion=None)
    query = lagged.fit(past[["x"]], np.roll(X[:, 0], 1) > 0).predictor_.to_sql(keep=["key"], order_by="key")
    past.loc[[3, N - 1], "x"] = np.nan  # the newest value is not used
    found = run(query, "data", past)
    assert found["key"][found["prediction"].isna()].tolist() == [4]


@pytest.mark.parametrize("run", DATABASES)
def test_sql_keeps_columns_and_creates_views(run):
    predictor = ForwardRegressor(AnovaBasis(n_centers=2), max_terms=3).fit(FRAME[["speed", "load"]], y).predictor_
    table = FRAME.assign(prediction=1.0, step_0=2.0, term_1=3.0, Input_1=4.0, kind="u", level=10)
    kept = ["prediction", "Input_1", "step_0", "term_1", "kind"]
    found = run(predictor.to_sql("step_1", keep=kept), "step_1", table)
    assert list(found) == [*kept, "prediction_"]
    assert (found[kept] == table[kept]).all().all()
    np.testing.assert_allclose(found["prediction_"], predictor.predict(FRAME), rtol=CLOSE)
    assert list(run(predictor.to_sql("t"), "t", table)) == ["speed", "load", "prediction"]
    schema = "main" if run is sqlite else "memory"
    qualified = (schema, "t") if run is sqlite else ("temp", "t")
    assert len(run(predictor.to_sql(qualified, keep=[]), "t", table)) == N
    query = predictor.to_sql("t", view='of "t"')
    assert 'CREATE VIEW "of ""t""" AS\nWITH step_0' in query


NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
LABEL = st.one_of(st.lists(NAME, min_size=2, max_size=3, unique=True), st.just([False, True]), st.just([-3, 7]))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    columns=st.lists(NAME, min_size=2, max_size=2, unique_by=str.casefold),
    kinds=LABEL,
    labels=LABEL,
    table=NAME,
    data=st.data(),
)
def test_sql_and_sympy_of_any_names(columns, kinds, labels, table, data):
    schema = schema_of(columns, {columns[1]: kinds})
    m, q = len(schema.columns), 1 if len(labels) == 2 else 3
    weights = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=q * m, max_size=q * m))).reshape(q, m)
    names = tuple(data.draw(st.lists(NAME, min_size=m, max_size=m)))
    linear = Linear(names, weights, np.arange(1.0, q + 1), q == 1)
    predictor = Predictor(Program(schema, (), linear, ClassLabels(list(labels), 0.7)))
    samples = pd.DataFrame({columns[0]: np.linspace(-2, 2, 6), columns[1]: [kinds[i % len(kinds)] for i in range(6)]})
    query = predictor.to_sql(table)
    for run in DATABASES:
        found = run(query, table, samples)
        expected = predictor.decision_function(samples).reshape(6, q)
        np.testing.assert_allclose(found.iloc[:, 3 : 3 + q].to_numpy(float), expected, atol=CLOSE)
        ranked = np.sort(np.c_[expected, np.zeros(6)] if q == 1 else expected, axis=1)
        clear = ranked[:, -1] - ranked[:, -2] > CLOSE  # the order of a sum decides ties
        assert found.iloc[:, 2][clear].tolist() == predictor.predict(samples)[clear].tolist()
    assert latex.source(predictor._program).count("\n") < 10
    symbolic_module = symbolic.source(predictor._program)
    compile(symbolic_module, "model.sympy.py", "exec")


@pytest.mark.slow
def test_sql_of_awkward_names():
    table = pd.DataFrame(X, columns=AWKWARD[:4])
    table[AWKWARD[4]] = [AWKWARD[i % 5] for i in range(N)]
    labels = np.array([AWKWARD[i % 5] for i in range(N)])
    categories = table.assign(**{AWKWARD[4]: pd.Categorical(table[AWKWARD[4]])})
    predictor = TermwiseClassifier(8, dictionary="linear", target="data").fit(categories, labels).predictor_
    for run in DATABASES:
        found = run(predictor.to_sql("a -- b; DROP"), "a -- b; DROP", table)
        assert found["label"].tolist() == predictor.predict(categories).tolist()


@pytest.mark.parametrize("run", DATABASES)
def test_sql_of_long_sums(run):
    predictor = BasisRidge(RadialBasis(width=2.0, centers=4), alpha=0.1).fit(np.tile(X, (1, 60)), y).predictor_
    table = pd.DataFrame(np.tile(X, (1, 60)), columns=predictor.input_names)
    found = run(predictor.to_sql("t", keep=[]), "t", table)["prediction"]
    np.testing.assert_allclose(found, predictor.predict(table), rtol=CLOSE, atol=CLOSE)


def test_sql_refuses():
    with pytest.raises(ValueError, match="order_by must name the columns that order rows in time, got None: this is"):
        case_of(SERIES[0]).predictor.to_sql()
    predictor = BasisRidge().fit(X, y).predictor_
    with pytest.raises(
        ValueError, match=r"names and categories must be strings without the character NUL, got 'a\\x00b'"
    ):
        predictor.to_sql("a\0b")
    with pytest.raises(
        ValueError, match="names and categories must be strings without the character NUL, got 3: rename"
    ):
        predictor.to_sql(keep=[3])


# -- SymPy -------------------------------------------------------------------------------------------------------------


def symbol_values(predictor, row):
    """Values of the symbols for a row: inputs, indicators of missing values and of categories."""
    values = {}
    for one, value in zip(predictor.inputs, row, strict=True):
        if one.categories is None:
            values |= {one.name: np.nan_to_num(value), f"missing({one.name})": float(np.isnan(value))}
        else:
            values |= {f"{one.name}={kind}": float(kind == value) for kind in one.categories}
    return values


def numbers_of(found, predictor, rows):
    """Evaluate expressions of SymPy on rows."""
    sympy = pytest.importorskip("sympy")
    names = list(symbol_values(predictor, rows[0]))
    function = sympy.lambdify([sympy.Symbol(name) for name in names], found, cse=True)
    return [function(*symbol_values(predictor, row).values()) for row in rows]


@pytest.mark.parametrize(
    "name", [*SINGLE_ROWS[:48:5], "pipeline encoded", "missing values", "missing values of shapes", "empty"]
)
def test_sympy(name):
    case = case_of(name)
    found = case.predictor.to_sympy()
    agree(case, numbers_of(found, case.predictor, case.rows[:SOME]), case.outputs()[:SOME], CLOSE, slice(SOME))


def test_sympy_of_classes_and_series():
    sympy = pytest.importorskip("sympy")
    for name in ("TermwiseClassifier frame", "TermwiseClassifier additive"):
        case = case_of(name)
        found = numbers_of(case.predictor.to_sympy(proba=True), case.predictor, case.rows[:SOME])
        np.testing.assert_allclose(found, case.predictor.predict_proba(case.X)[:SOME], atol=CLOSE)
    predictor = BasisRidge(alpha=0.1, basis=None).fit(X, y).predictor_
    with pytest.raises(
        ValueError, match="proba=True requires a classifier with probabilities, got a regression without"
    ):
        predictor.to_sympy(proba=True)
    case = case_of(LAGGED)
    found = case.predictor.to_sympy()
    found = found if isinstance(found, list) else [found]
    for t in (5, 9):
        lagged = {f"x{j}(t-{lag})": case.X[t - lag, j] for j in range(4) for lag in range(1, 4)}
        values = {f"x{j}": case.X[t, j] for j in range(4)} | lagged
        symbols = {sympy.Symbol(key): value for key, value in values.items()}
        np.testing.assert_allclose([float(one.subs(symbols)) for one in found], np.ravel(case.outputs()[t]), rtol=CLOSE)


def test_sympy_differentiates():
    sympy = pytest.importorskip("sympy")
    case = case_of("TermwiseRegressor pairs")
    names = case.predictor.used_inputs
    inside = (case.X[:-1] + case.X[1:])[:SOME] / 2
    slopes = case.predictor.gradient(inside)
    for name in names:
        derived = sympy.diff(case.predictor.to_sympy(), sympy.Symbol(name))
        found = numbers_of(derived, case.predictor, inside.tolist())
        np.testing.assert_allclose(np.array(found, dtype=float), slopes[:, int(name[1:])], atol=1e-8)


def test_names_of_our_own_symbols_are_free():
    pytest.importorskip("sympy")
    schema = schema_of(["k=a", "k"], {"k": ["a", "b"]})
    linear = Linear(("1", "2", "3"), np.array([[1.0, 10.0, 100.0]]), np.zeros(1), True)
    expression = Predictor(Program(schema, (), linear, None)).to_sympy()
    assert {one.name for one in expression.free_symbols} == {"k=a", "k=a_", "k=b"}


def test_without_sympy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(
        ImportError, match=r"Writing SymPy expressions needs sympy, .*: pip install 'termwise\[sympy\]'"
    ):
        case_of("empty").predictor.to_sympy()


# -- LaTeX -------------------------------------------------------------------------------------------------------------

TOKENS = [
    (r"\\begin\{cases\} (.*?) & \\text\{if \} (.*?) \\\\ (.*?) & \\text\{otherwise\} \\end\{cases\}",
     r"(\1 if \2 else \3)"),
    (r"([huxf]|zeta)_\{(\d+)\}", r"\1\2"), (r"\\hat\{y\}_\{(\d+)\}", r"y\1"), (r"\\hat\{y\}", "y"),
    (r"\\left|\\right", ""),
    (r"\\,|\\cdot", "*"), (r"\^\{", "**{"), (r"\\quad \{\}", ""), (r"\\(?=[a-z])", ""), (r"\{", "("), (r"\}", ")"),
]  # fmt: skip


def case_data(name):
    return UNFITTED[name][1] if name in UNFITTED else X if name != "empty of a table" else FRAME


def evaluate_latex(text, values):
    """Compute the equations, last one first, for values of symbols; fractions are `frac(u)(v)`."""
    body = text.removeprefix("\\begin{align*}\n").removesuffix("\n\\end{align*}\n").replace(" \\\\\n&", "\n&")
    names = {"frac": lambda u: lambda v: u / v}
    names |= {"exp": math.exp, "log": math.log, "sqrt": math.sqrt, "sin": math.sin}
    names |= {"min": min, "max": max, **values}
    for equation in [one for one in body.split(" \\\\\n") if not one.startswith("P")][::-1]:
        for pattern, replacement in TOKENS:
            equation = re.sub(pattern, replacement, equation)
        name, value = equation.replace("\n&", "").split(" &= ")
        names[name] = value

    class Lazy(dict):
        def __missing__(self, key):
            value = names[key]
            self[key] = eval(value, {"__builtins__": {}}, self) if isinstance(value, str) else value
            return self[key]

    known = Lazy()
    return [known[name] for name in names if re.fullmatch(r"[yf]\d*", name)][::-1]


LINKED = [
    *MISSING,
    "counts",
    "quantiles",
    "limited counts",
    "limited logarithms",
    "limited quantiles",
]  # with cases and links that this evaluation does not know
NAMELESS = [name for name in SINGLE_ROWS if isinstance(case_data(name), np.ndarray) and name not in LINKED]


@pytest.mark.parametrize("name", NAMELESS[::2])
def test_latex(name):
    case = case_of(name)
    text = case.predictor.to_latex(digits=None)
    for row, expected in zip(case.rows[:2], case.outputs()[:2], strict=True):
        found = evaluate_latex(text, {f"x{j}": value for j, value in enumerate(row)})
        np.testing.assert_allclose(found, np.ravel(expected), rtol=1e-7, atol=1e-7)


def test_latex_to_read():
    schema = schema_of(["v_{max} in %", "x", "a&b"], {"a&b": ["50$", "\\"]})
    linear = Linear(tuple("abcd"), np.array([[1234.5678, -1.5e-7, 2.0, -3.25]]), np.array([-0.125]), True)
    predictor = Predictor(Program(schema, (), linear, None))
    assert predictor.to_latex(3).splitlines()[1] == (
        r"\hat{y} &= -0.125 + 1.23 \cdot 10^{3}\,\text{v\_\{max\} in \%} - 1.5 \cdot 10^{-7}\,x"
        r" + 2\,\mathbf{1}[\text{a\&b} = \text{50\$}]"
        r" - 3.25\,\mathbf{1}[\text{a\&b} = \text{\textbackslash{}}]"
    )
    assert "1234.5678" in predictor.to_latex(None)
    with pytest.raises(
        ValueError, match="digits must be a whole number >= 1, got 0: 4 is readable, None rounds nothing"
    ):
        predictor.to_latex(0)
    text = case_of("TermwiseClassifier frame").predictor.to_latex()
    assert r"P[\text{yes}] &= \frac{1}{1 + \exp\left(-" in text
    text = case_of("TermwiseClassifier additive").predictor.to_latex()
    assert r"P_{k} &= \frac{\exp\left(" in text
    assert r"\quad \text{for the classes } \text{5}, \text{6}, \text{7}" in text
    assert r"{x_{0}}_{t - 1}" in case_of(LAGGED).predictor.to_latex()


# -- operations and links ----------------------------------------------------------------------------------------------

CONDITIONAL = {
    "isnan of exp": Elementwise(
        where(np.isnan(z), a, np.exp(z)), np.array([0, 2]), np.array([1.0, 2.0]), np.zeros(2, int)
    ),
    "greater of z": Elementwise(
        where(np.greater(z, a), z * 2, a), np.array([0, 2]), np.array([0.1, -0.2]), np.zeros(2, int)
    ),
    "equal to z": Elementwise(where(np.equal(z, a), 5.0, z), np.array([0, 2]), np.array([0.5, 9.0]), np.zeros(2, int)),
}


@pytest.mark.parametrize("name", [name for name, one in EXPORTS.items() if one.module])
def test_every_format_has_every_operation(name):
    module = {"c": c_steps, "onnx": onnx_graph}.get(name) or import_module(f"termwise.deploy.{EXPORTS[name].module}")
    writer = getattr(module, "Writer", None) or getattr(module, "ExpressionWriter", None)
    own = {*module.OPERATIONS, "square"} if writer is None else set(writer.operations)  # ONNX multiplies
    assert set(c_steps.ExpressionWriter.operations) <= own


def test_every_operation_has_a_derivative():
    assert set(LINKS) == set(RESPONSES)
    assert set(c_steps.ExpressionWriter.operations) <= {*PARTIALS, *CONDITIONS, "maximum", "minimum", "where"}
    assert set(REDUCTIONS) == {"sum_squares", "dot", "power_product"}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *SUMS, *CONDITIONAL])
def test_operations(name):
    step = CONDITIONAL[name] if name in CONDITIONAL else step_of(name)
    k = step.n_terms
    schema = InputSchema(tuple(Input(one, missing=True) for one in "uvw"), np.arange(3), np.full(3, VALUE))
    program = Program(schema, (step,), Linear(tuple("abcd"[:k]), np.eye(k), np.zeros(k), False), None)
    rows = Z.copy()
    rows[2, 0] = np.nan if "isnan" in name else 0.5
    expected, table = step.evaluate(rows), pd.DataFrame(rows, columns=list("uvw"))
    for run in DATABASES:
        found = run(sql.source(program, keep=[]), "data", table).to_numpy(float)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert r"\begin{align*}" in latex.source(program)
    sympy = pytest.importorskip("sympy")
    names = [*"uvw", *(f"missing({one})" for one in "uvw")]
    function = sympy.lambdify([sympy.Symbol(one) for one in names], symbolic.expressions(program)["prediction"])
    found = [function(*np.nan_to_num(row), *np.isnan(row)) for row in rows]
    np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("link", RESPONSES)
def test_links(link):
    model = ForwardRegressor(AnovaBasis(n_centers=3), max_terms=6).fit(X, Y if link == "sorted" else y)
    predictor = Predictor(replace(model.predictor_._program, link=link))
    table, expected = pd.DataFrame(X, columns=predictor.input_names), predictor.predict(X).reshape(N, -1)
    for run in DATABASES:
        found = run(predictor.to_sql(keep=[]), "data", table)
        np.testing.assert_allclose(found, expected, rtol=CLOSE)
    assert (r"\eta" in predictor.to_latex()) == (link != "identity")
    assert r"\hat{y}" in predictor.to_latex()
    sympy = pytest.importorskip("sympy")
    function = sympy.lambdify([sympy.Symbol(one) for one in table], predictor.to_sympy())
    np.testing.assert_allclose(np.reshape(function(*X.T), (-1, N)).T, expected, rtol=CLOSE)


# -- tables ------------------------------------------------------------------------------------------------------------


def real_table():
    """Missing values, ordered categories, many levels and rare ones."""
    rng = np.random.default_rng(4)
    sizes = ["small", "medium", "large"]
    table = pd.DataFrame({"age": rng.normal(40, 9, 90), "bmi": rng.normal(25, 3, 90)})
    table["size"] = pd.Categorical(rng.choice(sizes, 90), sizes, ordered=True)
    table["town"] = pd.Categorical([f"town {i % 13}" for i in range(90)])
    table["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], 90, p=[0.6, 0.37, 0.03]))
    table.loc[rng.uniform(size=90) < 0.3, "age"] = np.nan
    for name in ("size", "town", "kind"):
        table.loc[rng.uniform(size=90) < 0.1, name] = None
    target = table["age"].fillna(90) / 20 + table["bmi"] / 9 + (table["size"] == "large") + np.arange(90) % 13 / 9
    return table, target.to_numpy()


def plain_table(table):
    """Categories as strings."""
    return table.assign(**{name: table[name].astype(object) for name in ("size", "town", "kind")})


@pytest.fixture(scope="module")
def encoded_model():
    table, target = real_table()
    encoder = TableEncoder(max_levels=5, min_count=5).fit(table)
    basis = LevelMeans(SmoothBasis(centers=7), columns=encoder.level_columns())
    return BasisRidge(make_pipeline(encoder, basis), alpha=0.1).fit(table, target).predictor_, table


@pytest.mark.parametrize("run", DATABASES)
def test_sql_of_a_real_table(run, encoded_model):
    predictor, table = encoded_model
    found = run(predictor.to_sql(), "data", plain_table(table))["prediction"]
    np.testing.assert_allclose(found, predictor.predict(table), rtol=CLOSE)
    other = plain_table(table)[:6]
    other["town"], other["kind"], other["size"] = "elsewhere", "z", "huge"
    np.testing.assert_allclose(
        run(predictor.to_sql(), "data", other)["prediction"], predictor.predict(other), rtol=CLOSE
    )
    incomplete = plain_table(table)[:6].assign(bmi=np.nan)  # which was never missing
    assert run(predictor.to_sql(), "data", incomplete)["prediction"].isna().all()
    filled = predictor.with_fill({"age": 41.0, "kind": "b", "bmi": 20.0})
    found = run(filled.to_sql(), "data", incomplete)["prediction"]
    np.testing.assert_allclose(found, filled.predict(incomplete), rtol=CLOSE)


def test_sympy_and_latex_of_a_real_table(encoded_model):
    sympy = pytest.importorskip("sympy")
    predictor, table = encoded_model
    expression, schema = predictor.to_sympy(), predictor._program.schema
    inputs = [schema.inputs[j] for j in schema.columns]
    names = [
        name_encoded(one.name, code, one.kind, one.categories or ())
        for one, code in zip(inputs, schema.categories, strict=True)
    ]
    values = schema.encode(table)[:SOME]
    assert {one.name for one in expression.free_symbols} <= {*names}
    assert {"missing(age)", "town", "size", "kind=a", "kind=missing"} <= {*names}
    function = sympy.lambdify([sympy.Symbol(name) for name in names], expression)
    found = [function(*np.nan_to_num(row)) for row in values]
    np.testing.assert_allclose(found, predictor.predict(table)[:SOME], rtol=CLOSE)
    text = predictor.to_latex()
    assert r"\mathbf{1}[\text{age} \text{ is missing}]" in text
    assert r"\mathbf{1}[\text{kind} = a]" in text


def test_steps_of_many_categories():
    """Conditions on the effect of a category are a table of its levels."""
    sympy = pytest.importorskip("sympy")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=120), "town": [f"town {i % 30}" for i in range(120)]})
    encoder = TableEncoder(max_levels=5, min_count=2).fit(table)
    basis = LevelMeans(AnovaBasis(3, functions=("linear", "step")), columns=encoder.level_columns())
    model = ForwardRegressor(make_pipeline(encoder, basis), max_terms=6, criterion=None)
    predictor = model.fit(table, (np.arange(120) % 30 > 17) * (table.x > 0) + np.arange(120) % 30).predictor_
    assert predictor.used_inputs == ["x", "town"]
    expression, towns = predictor.to_sympy(), predictor.inputs[1].categories
    assert not any(condition.has(sympy.Piecewise) for condition in expression.atoms(sympy.core.relational.Relational))
    function = sympy.lambdify([sympy.Symbol("x"), sympy.Symbol("town")], expression)
    found = [function(x, float(towns.index(town))) for x, town in zip(table.x, table.town, strict=True)]
    np.testing.assert_allclose(found, predictor.predict(table), rtol=CLOSE, atol=CLOSE)
    unknown = table[:3].assign(town="elsewhere")
    np.testing.assert_allclose([function(x, -1.0) for x in unknown.x], predictor.predict(unknown), rtol=CLOSE)
    for run in DATABASES:
        found = run(predictor.to_sql(), "data", pd.concat([table, unknown]))["prediction"]
        np.testing.assert_allclose(found, predictor.predict(pd.concat([table, unknown])), rtol=CLOSE, atol=CLOSE)


def test_dates_are_parts(tmp_path):
    table = pd.DataFrame({"sold": pd.date_range("2020-01-01", periods=N, freq="17D"), "x": X[:, 0]})
    predictor = BasisRidge(TableEncoder(), alpha=0.1).fit(table, y).predictor_
    parts = TableEncoder().fit(table)
    numbers = pd.DataFrame(parts.transform(table), columns=parts.get_feature_names_out())
    for run in DATABASES:
        found = run(predictor.to_sql(), "data", numbers)["prediction"]
        np.testing.assert_allclose(found, predictor.predict(table), rtol=CLOSE)
    slopes = predictor.gradient(table)
    assert np.isnan(slopes[:, 0]).all()
    assert np.isfinite(slopes[:, 1]).all()
