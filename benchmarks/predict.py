"""Predictions of one row and of many, beside scikit-learn's `Ridge.predict`, onnxruntime and a bare `X @ w`.

Models of 20 terms: columns, Gaussians, functions of single inputs, their pairwise products. `microseconds` is the time
of a call for one row; `share` the time of `X @ w`, which reads the table once, over that of a prediction of all rows in
the same type: 1 is the bandwidth of memory. onnxruntime runs where it is installed, with the exported model.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from _timing import best_of, emit, machine
from sklearn.linear_model import Ridge

from termwise import AnovaBasis, ForwardRegressor, Predictor, RadialBasis

INPUTS, TERMS = 20, 20
CALLS = 200  # of one row, timed together
MODELS = {
    "columns": None,
    "Gaussians": RadialBasis(width=6.0, centers=200),
    "single functions": AnovaBasis(order=1),
    "products": AnovaBasis(),
}


@cache
def fitted(name: str) -> ForwardRegressor:
    """Return a model of as many terms as there are inputs, fitted once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, INPUTS))
    y = X @ rng.normal(size=INPUTS) + np.sin(X[:, 0] * X[:, 1]) + 0.1 * rng.normal(size=2_000)
    return ForwardRegressor(MODELS[name], max_terms=TERMS, criterion=None).fit(X, y)


def onnx_session(predictor: Predictor, dtype: str, threads: int) -> Callable[[np.ndarray], Any] | None:
    """Return the exported model as a function of a table, or None without onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # which would slow down the others
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        predictor.export(path, dtype=dtype)
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda X: session.run(None, {name: X})


def methods(model: Any, dtype: str) -> Iterator[tuple[str, Callable[[np.ndarray], Any]]]:
    """Yield ways to predict the rows of a table."""
    predictor = model.predictor_
    yield "Predictor.predict", predictor.predict
    yield "estimator.predict", model.predict
    session = onnx_session(predictor, dtype, threads=machine()["cores"])
    if session is not None:
        yield "onnxruntime", session


def one_row(repeats: int) -> None:
    """Time calls for one row in float64."""

    def record(model: str, method: str, call: Callable[[], Any]) -> None:
        call()
        timing = best_of(lambda: [call() for _ in range(CALLS)], repeats)
        emit(benchmark="predict", case="one row", model=model, method=method, terms=TERMS,
             microseconds=round(1e6 * timing["seconds"] / CALLS, 1), spread=timing["spread"])  # fmt: skip

    X = np.random.default_rng(1).normal(size=(1, INPUTS))
    for name in MODELS:
        model = fitted(name)
        predictor, sample, values = model.predictor_, X[0], X[0].tolist()
        named = dict(zip(predictor.input_names, values, strict=True))
        for kind, x in {"array": sample, "list": values, "dict": named}.items():
            record(name, f"Predictor.predict_one, {kind}", partial(predictor.predict_one, x))
        for method, predict in methods(model, "float64"):
            record(name, method, partial(predict, X))
    ridge = Ridge().fit(np.eye(INPUTS), np.arange(INPUTS))
    record("columns", "scikit-learn Ridge.predict", partial(ridge.predict, X))


def many_rows(n: int, repeats: int) -> None:
    """Time predictions of n rows in both types."""
    for dtype in ("float64", "float32"):
        X = np.random.default_rng(1).standard_normal((n, INPUTS), dtype=dtype)
        w = np.ones(INPUTS, dtype=dtype)
        bare = best_of(partial(np.matmul, X, w), 4 * repeats)["seconds"]
        gb_s = round(X.nbytes / bare / 1e9, 1)

        def record(model: str, method: str, call: Callable[[], Any], bare: float = bare, **rest: Any) -> None:
            call()
            timing = best_of(call, repeats)
            emit(benchmark="predict", case="many rows", model=model, method=method, **rest, terms=TERMS, **timing,
                 million_rows_per_second=round(rest["n"] / timing["seconds"] / 1e6, 2), bare_pass=bare,
                 share=round(bare / timing["seconds"], 3))  # fmt: skip

        common: dict[str, Any] = {"dtype": dtype, "n": n, "p": INPUTS, "bare_gb_s": gb_s}
        for name in MODELS:
            for method, predict in methods(fitted(name), dtype):
                record(name, method, partial(predict, X), **common)
        ridge = Ridge().fit(np.eye(INPUTS, dtype=dtype), np.arange(INPUTS, dtype=dtype))
        record("columns", "scikit-learn Ridge.predict", partial(ridge.predict, X), **common)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="how often to run each; the best counts")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    parser.add_argument("--cases", nargs="+", choices=["one", "many"], default=["one", "many"], metavar="CASE")
    options = parser.parse_args()
    emit(benchmark="predict", **machine())
    if "one" in options.cases:
        one_row(options.repeats)
    if "many" in options.cases:
        many_rows(20_000 if options.small else 1_000_000, options.repeats)


if __name__ == "__main__":
    main()
