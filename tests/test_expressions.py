"""Expressions: every reader computes the same, and a formula of one's own is exported by all of them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Annotated

import numpy as np
import pytest
from frozen_models import X, all_cases, schema_of, y
from scipy.special import expit
from test_export import FLAGS, needs_gcc, run_onnx

from termwise import BasisRidge, RadialBasis
from termwise.basis import KERNELS, Basis, expressions, r2
from termwise.basis.expressions import Expression, dot, evaluate, power_product, sum_squares, variable, where, z
from termwise.deploy import c, c_steps, latex, onnx, onnx_graph, pyomo, python, sql, symbolic
from termwise.deploy.document import Integers, Reals
from termwise.deploy.gradient import gradient
from termwise.deploy.predictor import Predictor
from termwise.deploy.program import Linear, Program
from termwise.deploy.steps import STEPS, Concatenate, Lags, ProgramStep
from termwise.deploy.transformers import Radial

a, b, t = variable("a"), variable("b"), variable("t")
ELEMENTWISE = {  # in z, with a parameter per term
    "add": z + a,
    "subtract": 1 - z - a,
    "multiply": z * a * 2,
    "divide": a / (1 + np.square(z)),
    "negative": -z - (-a),
    "square": np.square(z - a),
    "exp": np.exp(-np.square(z) + a),
    "log": np.log(np.maximum(z - a, 0.25)),
    "sqrt": np.sqrt(np.square(z) + 1.5),
    "sin": np.sin(z * a),
    "expit": expit(100 * z - a),
    "maximum": np.maximum(z * 2, a),
    "minimum": np.minimum(z - 1, a),
    "where": where(t, z - a, np.exp(z - a)),
    "isnan": where(np.isnan(z * a), a, z),
    "equal": where(np.equal(t, 1), z - a, np.exp(z - a)),
    "greater": where(np.greater(z, a), 1.0, z),
    "shared": (u := np.exp(z - a)) * u + u,
}
SUMS = {  # with parameters per term, per input and per both
    "sum_squares": np.sqrt(1 + sum_squares((z - b) / variable("w")) * np.square(a)),
    "sum_squares per term": np.exp(-sum_squares((z - b) / np.exp(a))),
    "dot": expit(a - dot(z - variable("w"), b)),
    "power_product": power_product(z, variable("p")) * a,
    "distance": (1 + (r := np.sqrt(3 * sum_squares((z - b) / variable("w"))))) * np.exp(-r) * a,  # a Matern kernel
}


class Elementwise(ProgramStep):
    formula: Expression
    columns: Annotated[np.ndarray, Integers(("terms",), of="inputs")]
    a: Annotated[np.ndarray, Reals(("terms",))]
    t: Annotated[np.ndarray, Integers(("terms",), of="two")]

    @property
    def expression(self):
        return self.formula


class Summed(ProgramStep):
    formula: Expression
    a: Annotated[np.ndarray, Reals(("terms",))]
    w: Annotated[np.ndarray, Reals(("inputs",))]
    b: Annotated[np.ndarray, Reals(("terms", "inputs"))]
    p: Annotated[np.ndarray, Integers(("terms", "inputs"))]

    @property
    def expression(self):
        return self.formula


def step_of(name):
    rng = np.random.default_rng(3)
    if name in ELEMENTWISE:
        return Elementwise(ELEMENTWISE[name], np.array([0, 2, 1, 0]), rng.normal(size=4), np.array([0, 1, 1, 0]))
    w, powers = rng.uniform(1, 2, size=3), np.array([[0, 0, 0], [1, 0, 2], [3, 1, 0], [0, 1, 1]])
    return Summed(SUMS[name], rng.normal(size=4), w, rng.normal(size=(4, 3)), powers)


FUNCTIONS = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "square": np.square, "expit": expit,
             "negative": np.negative, "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
             "divide": np.divide, "maximum": np.maximum, "minimum": np.minimum, "where": np.where,
             "isnan": np.isnan, "equal": np.equal, "greater": np.greater}  # fmt: skip


def value(node, step, row, k, j=None):
    """Compute one entry by recursion, nothing shared and nothing in place."""
    if node.operation == "constant":
        return node.arguments[0]
    if node.operation == "variable":
        name = node.arguments[0]
        if name == "z":
            return row[step.columns[k]] if j is None else row[j]
        table = getattr(step, name)
        return table[k, j] if table.ndim == 2 else table[k if step.is_per_term(name) else j]
    if node.operation in FUNCTIONS:
        return FUNCTIONS[node.operation](*(value(one, step, row, k, j) for one in node.arguments))
    parts = [[value(one, step, row, k, i) for one in node.arguments] for i in range(len(row))]
    if node.operation == "power_product":
        return np.prod([u**power for u, power in parts])
    return sum(part[0] * part[-1] for part in parts)


Z = np.random.default_rng(5).normal(size=(7, 3))


@pytest.mark.parametrize("name", [*ELEMENTWISE, *SUMS])
def test_every_reader_computes_the_same(name, tmp_path):
    step = step_of(name)
    before = {key: value.copy() for key, value in step.tables.items()}
    inputs = Z.copy()
    expected = np.array([[value(step.expression, step, row, k) for k in range(4)] for row in Z])
    np.testing.assert_allclose(step.evaluate(inputs), expected, rtol=1e-13, atol=1e-15)
    many = np.tile(Z, (300, 1))  # enough for intermediate results to be computed in place
    np.testing.assert_allclose(step.evaluate(many), np.tile(expected, (300, 1)), rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(many, np.tile(Z, (300, 1)))  # but not in place of what was given
    np.testing.assert_array_equal(inputs, Z)
    for key, table in step.tables.items():
        np.testing.assert_array_equal(table, before[key])
    program = Program(schema_of("uvw"), (step,),
                      Linear(tuple("abcd"), np.eye(4), np.zeros(4), False), None)  # fmt: skip
    names: dict = {}
    exec(python.source(program), names)
    np.testing.assert_allclose([names["predict"](row) for row in Z.tolist()], expected, rtol=1e-13, atol=1e-15)
    found = run_onnx(onnx.source(program), Z, np.float64)["prediction"]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


def test_every_reader_has_every_operation():
    assert set(c_steps.ExpressionWriter.operations) == set(python.ExpressionWriter.operations) <= set(ELEMENTWISE)
    assert set(onnx_graph.OPERATIONS) | {"square"} == set(c_steps.ExpressionWriter.operations)
    assert set(c_steps.ExpressionWriter.reductions) == set(python.ExpressionWriter.reductions) == set(expressions.SUMS)


@needs_gcc
def test_c_computes_the_same(tmp_path):
    steps = {name: step_of(name) for name in [*ELEMENTWISE, *SUMS]}
    schema = schema_of("uvw")
    linear = Linear(tuple("abcd"), np.eye(4), np.zeros(4), False)
    sources = [c.source(Program(schema, (step,), linear, None), name=f"m{i}") for i, step in enumerate(steps.values())]
    (tmp_path / "m.c").write_text("\n".join(sources), encoding="utf-8")
    done = subprocess.run(["gcc", *FLAGS, "-o", tmp_path / "m.so", tmp_path / "m.c", "-lm"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    library = ctypes.CDLL(str(tmp_path / "m.so"))
    for i, step in enumerate(steps.values()):
        for row, expected in zip(Z, step.evaluate(Z), strict=True):
            out = (ctypes.c_double * 4)()
            assert getattr(library, f"m{i}_predict")((ctypes.c_double * 3)(*row), out) == 0
            np.testing.assert_allclose(list(out), expected, rtol=1e-13, atol=1e-15)


def formula_steps(steps):
    for step in steps:
        if isinstance(step, Concatenate):
            yield from (inner for part in step.parts for inner in formula_steps(part.steps))
        elif not isinstance(step, Lags):
            yield step


def test_radial_functions_by_matrix_products_equal_their_expression():
    """`transform` and the predictor compute distances by BLAS; exports read the expression."""
    steps = [step for case in all_cases() for step in formula_steps(case.predictor._program.steps)]
    radial = [step for step in steps if isinstance(step, Radial)]
    assert {step.kernel for step in radial} == set(KERNELS)
    for step in radial:
        near = step.centers.mean(axis=0) + np.random.default_rng(0).normal(size=(9, step.n_inputs)) * step.widths
        np.testing.assert_allclose(ProgramStep.evaluate(step, near), step.evaluate(near), rtol=1e-10, atol=1e-12)


def test_substitution_keeps_shared_parts():
    formula = (u := np.exp(z - a)) * u + u
    replaced = formula.substitute(z=np.square(b))
    assert len(set(replaced.nodes())) == len(set(formula.nodes())) + 1
    values = {"a": 0.3, "b": 1.7}
    assert evaluate(replaced, values) == evaluate(formula, {"a": 0.3, "z": 1.7**2})
    assert replaced.arguments[0].arguments == (replaced.arguments[1],) * 2


@pytest.mark.parametrize("name", [*KERNELS, "matern"])
def test_kernels_of_tiles_are_computed_in_place(name):
    root = np.sqrt(3 * r2)
    kernel = KERNELS.get(name, (1 + root) * np.exp(-root))
    m = -np.abs(np.random.default_rng(0).normal(size=(80, 70)))
    tile = m.copy()
    found = evaluate(kernel.substitute(r2=-variable("m")), {"m": tile}, overwrite=("m",))
    np.testing.assert_array_equal(found, evaluate(kernel, {"r2": -m}))
    nodes = list(kernel.nodes())
    assert found is tile or len(nodes) > len(set(nodes))  # a part that is used twice needs memory of its own


def test_steps_are_found_by_kind():
    assert all(cls.header == {"step": kind} for kind, cls in STEPS.items())
    assert "anova" in STEPS


def test_a_kernel_of_ones_own(monkeypatch):
    monkeypatch.setitem(KERNELS, "exponential", np.exp(-np.sqrt(r2)))
    G = RadialBasis("exponential", centers=5).fit_transform(X)
    monkeypatch.setitem(KERNELS, "exponential", lambda xp, m, **out: xp.exp(-xp.sqrt(-m)))
    basis = RadialBasis("exponential", centers=5).fit(X)
    with pytest.warns(
        FutureWarning, match=r"KERNELS\['exponential'\] as a function of \(xp, m\) is deprecated: give an"
    ):
        old = basis.transform(X)
    np.testing.assert_array_equal(old, G)


def test_bases_of_the_first_version_still_work():
    with pytest.warns(FutureWarning) as caught:

        class Powers(Basis):
            _per_term = ("powers_",)

            def _learn(self, X):
                self.powers_ = np.array([1, 2, 3])

            def _evaluate(self, X):
                return X[:, :1] ** self.powers_

            def _names(self, inputs=None):
                return [f"{(inputs or self._input_names())[0]}^{power}" for power in self.powers_]

    assert [str(one.message) for one in caught] == [
        "Powers._learn must be called _fit(X, y): rename it.",
        "Powers._evaluate must be called evaluate(X): rename it.",
    ]
    model = BasisRidge(Powers()).fit(X, y)
    assert model.basis_.take([2]).transform(X).shape == (len(X), 1)
    assert model.basis_.get_feature_names_out().tolist() == ["x0^1", "x0^2", "x0^3"]


@pytest.mark.parametrize("old", ["can_stream", "evaluate", "take"])
def test_renamed_functions_of_bases(old):
    import termwise.basis

    with pytest.warns(DeprecationWarning, match=rf"termwise\.basis\.{old} is termwise\.basis\.base\."):
        assert callable(getattr(termwise.basis, old))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = termwise.basis.nothing


def test_the_old_path_of_to_onnx():
    sys.modules.pop("termwise.export.onnx", None)
    with pytest.warns(DeprecationWarning, match=r"termwise\.export\.onnx is termwise\.deploy\.onnx now"):
        from termwise.export.onnx import to_onnx
    assert to_onnx is onnx.to_onnx


@pytest.mark.parametrize("formula", [np.tanh(z - a), np.power(z, 3.0) * a], ids=["tanh", "power"])
def test_functions_that_no_export_has_are_named(formula):
    step = Elementwise(formula, np.array([0, 2]), np.ones(2), np.zeros(2, int))
    schema = schema_of("uvw")
    program = Program(schema, (step,), Linear(("f", "g"), np.eye(2), np.zeros(2), False), None)
    assert Predictor(program).predict(Z).shape == (7, 2)
    name = formula.operation if formula.operation == "tanh" else "power"
    message = f"formulas of a basis must be made of add, .* for exports, gradients and bounds, got {name}: write it by"
    readers = [c.source, python.source, lambda one: gradient(one, Z), lambda one: c.source(one, gradient=True)]
    if name == "tanh":  # powers have a form in SQL and in symbolic formulas
        readers += [sql.source, symbolic.source, latex.source, pyomo.source]
        readers += [lambda one: Predictor(one).bounds({"u": (0, 1), "v": (0, 1), "w": (0, 1)})]
    for read in readers:
        with pytest.raises(ValueError, match=message):
            read(program)
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match=message):
        onnx.source(program)
