"""`forward_path` on a GPU, with PyTorch's and CuPy's arrays, against bare passes over the same matrix.

The case `automatic` is `TermwiseRegressor`, with arrays of the host and of the device.

`passes` is the time per term over the time of one `G.T @ v` of the same type, both on the device, transfers left out;
`verified` the number of candidates whose score was computed exactly, per term; `same_as_cpu` says whether NumPy chooses
the same terms, `same_as_float32` whether both types do. Without a GPU, or without either library, there is one line
that says so.

`--cases`, `--regimes`, `--sizes` and `--libraries` run a part: the case `regimes` is every size with every structure of
the data in `_regimes`, with PyTorch, beside an orthogonal matching pursuit written by hand.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from _regimes import PRODUCTS, TABLE, TABLE_TERMS, arguments, draw, products
from _timing import best_of, emit, machine
from everyday import FUNCTIONS

from termwise import TermwiseRegressor, forward_path

SIZES = ["tall", "large", "wide", "short"]  # of the regimes


class Torch:
    """PyTorch on a GPU."""

    name = "torch"

    def __init__(self) -> None:
        self.xp: Any = importlib.import_module("torch")
        if not self.xp.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        self.device = self.xp.cuda.get_device_name()

    def normal(self, seed: int, *shape: int, dtype: str) -> Any:
        """Standard normal numbers."""
        generator = self.xp.Generator("cuda").manual_seed(seed)
        return self.xp.randn(*shape, dtype=getattr(self.xp, dtype), device="cuda", generator=generator)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.xp.cuda.synchronize()

    def to_host(self, x: Any) -> np.ndarray:
        """Copy to NumPy."""
        return x.cpu().numpy()

    def from_host(self, x: np.ndarray) -> Any:
        """Copy from NumPy."""
        return self.xp.asarray(x, device="cuda")

    def free(self) -> None:
        """Give back what is not in use."""
        self.xp.cuda.empty_cache()


class CuPy:
    """CuPy."""

    name = "cupy"

    def __init__(self) -> None:
        self.xp: Any = importlib.import_module("cupy")
        try:
            self.device = self.xp.cuda.runtime.getDeviceProperties(0)["name"].decode()
        except self.xp.cuda.runtime.CUDARuntimeError as error:
            raise ImportError("CuPy sees no GPU") from error

    def normal(self, seed: int, *shape: int, dtype: str) -> Any:
        """Standard normal numbers."""
        return self.xp.random.default_rng(seed).standard_normal(shape, dtype=dtype)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.xp.cuda.get_current_stream().synchronize()

    def to_host(self, x: Any) -> np.ndarray:
        """Copy to NumPy."""
        return x.get()

    def from_host(self, x: np.ndarray) -> Any:
        """Copy from NumPy."""
        return self.xp.asarray(x)

    def free(self) -> None:
        """Give back what is not in use."""
        self.xp.get_default_memory_pool().free_all_blocks()


def libraries(names: list[str]) -> Iterator[Torch | CuPy]:
    for kind in (Torch, CuPy):
        if kind.name not in names:
            continue
        try:
            yield kind()
        except ImportError as error:
            emit(benchmark="gpu", library=kind.name, skipped=str(error))


def data(library: Torch | CuPy, n: int, p: int, signal: int, dtype: str) -> tuple[Any, Any]:
    """Columns of noise; the target depends on `signal` of them, or on none."""
    G, y = library.normal(0, n, p, dtype=dtype), library.normal(1, n, dtype=dtype)
    if signal:
        weights = library.normal(2, p, dtype=dtype)
        weights = weights + library.xp.sign(weights) / 2
        weights[signal:] = 0
        y = G @ weights + y * signal**0.5 / 2
    return G, y


def timed(library: Torch | CuPy, run: Callable[[], Any], repeats: int, warm_ups: int = 2) -> dict[str, float]:
    def synchronized() -> None:
        run()
        library.synchronize()

    for _ in range(warm_ups):
        synchronized()
    return best_of(synchronized, repeats)


def case(library: Torch | CuPy, name: str, size: tuple[int, int, int], dtype: str, label: str, repeats: int,
         check: bool, precompute: bool | str = "auto") -> None:  # fmt: skip
    n, p, terms = size
    G, y = data(library, n, p, terms if label == "signal" else 0, dtype)
    run = partial(forward_path, G, y, max_terms=terms, precompute=precompute)
    path = run()
    timing, v = timed(library, run, repeats), library.normal(3, n, dtype=dtype)
    bare = timed(library, lambda: G.T @ v, 4 * repeats)["seconds"]
    record: dict[str, Any] = {"verified": round(float(path.column("verified")[1:].mean()), 1)}
    if check:
        cpu = forward_path(library.to_host(G), library.to_host(y), max_terms=terms)
        record["same_as_cpu"] = bool(np.array_equal(path.terms, cpu.terms))
    emit(benchmark="gpu", case=name, library=library.name, dtype=dtype, data=label, n=n, p=p, terms=terms,
         precompute=precompute, **timing, milliseconds_per_term=round(1e3 * timing["seconds"] / terms, 3),
         bare_pass=bare, passes=round(timing["seconds"] / bare / terms, 2), **record)  # fmt: skip


def matching_pursuit(G: Any, y: Any, terms: int) -> Any:
    """Return the terms of orthogonal matching pursuit in PyTorch, which never waits for the host."""
    torch: Any = importlib.import_module("torch")
    residual, norms = y - y.mean(), torch.linalg.vector_norm(G, dim=0)
    Q = torch.zeros((G.shape[0], terms + 1), dtype=G.dtype, device=G.device)
    Q[:, 0] = G.shape[0] ** -0.5
    chosen = torch.zeros(terms, dtype=torch.int64, device=G.device)
    for k in range(terms):
        score = (G.T @ residual).abs() / norms
        score[chosen[:k]] = 0
        chosen[k] = score.argmax()
        q = G.index_select(1, chosen[k : k + 1])[:, 0]
        for _ in range(2):
            q = q - Q[:, : k + 1] @ (Q[:, : k + 1].T @ q)
        Q[:, k + 1] = q / torch.linalg.vector_norm(q)
        residual = residual - Q[:, k + 1] * (Q[:, k + 1] @ residual)
    return chosen


def regime_sizes(small: bool) -> dict[str, tuple[int, int, int]]:
    """Return samples, candidates and terms of each size of the regimes."""
    if small:
        return {
            "tall": (2_500, 100, 10),
            "large": (20_000, 200, 20),
            "wide": (2_000, 500, 20),
            "short": (200, 2_000, 10),
        }
    return {"tall": (50_000, 1_000, 50), "large": (1_000_000, 2_000, 100), "wide": (200_000, 10_000, 100),
            "short": (2_000, 200_000, 30)}  # fmt: skip


def regimes(library: Torch | CuPy, names: list[str], sizes: list[str], repeats: int, small: bool) -> None:
    """Run every size in every regime, both types and rules, beside a matching pursuit by hand."""
    for size, (n, p, terms) in regime_sizes(small).items():
        for regime in names if size in sizes else []:
            if regime != PRODUCTS:
                G, y = draw(regime, n, p, terms, partial(library.normal, dtype="float32"), library.xp)
                one_regime(library, size, regime, G, y, terms, repeats if size == "tall" else max(1, repeats // 2))
                del G, y
                library.free()
    if PRODUCTS in names:
        table = products()
        if table is None:
            emit(benchmark="gpu", case="regimes", regime=PRODUCTS, skipped="the folder of the data is not set")
        else:
            G, y = map(library.from_host, table)
            one_regime(library, TABLE, PRODUCTS, G, y, TABLE_TERMS, repeats)


def one_regime(library: Torch | CuPy, size: str, regime: str, G: Any, y: Any, terms: int, repeats: int) -> None:
    n, p = G.shape
    common = {"benchmark": "gpu", "case": "regimes", "library": library.name, "size": size, "regime": regime,
              "n": n, "p": p, "terms": terms}  # fmt: skip
    choices: dict[str, list[int]] = {}
    for dtype in ("float32", "float64"):
        kind = getattr(library.xp, dtype)
        G, y = (G, y) if dtype == "float32" else (library.xp.asarray(G, dtype=kind), library.xp.asarray(y, dtype=kind))
        v = library.normal(3, n, dtype=dtype)
        bare = timed(library, partial(library.xp.matmul, G.T, v), 4 * repeats)["seconds"]
        for rule in ("loo", "cost"):
            run = partial(forward_path, G, y, rule=rule, max_terms=terms)
            path = run()
            timing, taken = timed(library, run, repeats), path.terms.tolist()
            same = {"same_as_float32": choices[rule] == taken} if rule in choices else {}
            choices[rule] = taken
            emit(**common, dtype=dtype, method=f"termwise {rule}", **timing, taken=len(taken), bare_pass=bare,
                 milliseconds=round(1e3 * timing["seconds"], 2),
                 passes=round(timing["seconds"] / bare / len(taken), 2),
                 verified=round(float(path.column("verified")[1:].mean()), 1), **same)  # fmt: skip
        if library.name == "torch":
            timing = timed(library, partial(matching_pursuit, G, y, terms), repeats)
            emit(**common, dtype=dtype, method="OMP by hand", **timing, bare_pass=bare,
                 milliseconds=round(1e3 * timing["seconds"], 2),
                 passes=round(timing["seconds"] / bare / terms, 2))  # fmt: skip


def tall(library: Torch | CuPy, repeats: int, small: bool) -> None:
    size = (2_500, 50, 25) if small else (50_000, 1_000, 50)
    for label in ("signal", "noise"):
        case(library, "tall", size, "float64", label, 4 * repeats, check=True)
    case(library, "tall", size, "float64", "signal", 4 * repeats, check=False, precompute=False)
    case(library, "tall", size, "float32", "signal", 4 * repeats, check=False)


def large(library: Torch | CuPy, repeats: int, small: bool) -> None:
    size = (50_000, 100, 50) if small else (1_000_000, 2_000, 100)
    for dtype in ("float32", "float64"):
        check = dtype == "float64" and library.name == "torch"  # once: 16 GB for the CPU to look at
        case(library, "large", size, dtype, "signal", repeats, check=check)
        library.free()
    case(library, "large", size, "float64", "signal", repeats, check=False, precompute=False)
    library.free()


def automatic(library: Torch | CuPy, repeats: int, small: bool) -> None:
    """Time the automatic regressor with arrays of the host and of the device, in turn."""
    n = 2_000 if small else 20_000
    for name, (function, noise) in FUNCTIONS.items():
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(n, 20))
        y = function(X) + noise * rng.normal(size=n)
        for where, arrays in (("host", (X, y)), ("device", (library.from_host(X), library.from_host(y)))):
            model = TermwiseRegressor()
            timing = timed(library, partial(model.fit, *arrays), min(repeats, 2), warm_ups=1)
            emit(benchmark="gpu", case="automatic", library=library.name, n=n, d=20, function=name, arrays=where,
                 **timing, dictionary=model.dictionary_, terms=model.n_terms_)  # fmt: skip


CASES: dict[str, Callable[[Torch | CuPy, int, bool], None]] = {"tall": tall, "large": large, "automatic": automatic}


def main() -> None:
    parser = arguments(__doc__, CASES, SIZES)
    parser.add_argument("--libraries", nargs="+", choices=["torch", "cupy"], default=["torch", "cupy"])
    options = parser.parse_args()
    emit(benchmark="gpu", **machine())
    for library in libraries(options.libraries):
        emit(benchmark="gpu", library=library.name, device=library.device, version=library.xp.__version__)
        for name in options.cases:
            if name in CASES:
                CASES[name](library, options.repeats, options.small)
            elif library.name == "torch":
                regimes(library, options.regimes, options.sizes, options.repeats, options.small)


if __name__ == "__main__":
    main()
