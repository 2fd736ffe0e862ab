"""`forward_path` on a GPU, with PyTorch's and CuPy's arrays, against bare passes over the same matrix.

`passes` is the time per term over the time of one `G.T @ v`, both on the device, transfers left out; `same_as_cpu` says
whether NumPy chooses the same terms. Without a GPU, or without either library, there is one line that says so.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from _timing import best_of, emit, machine

from termwise import forward_path


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

    def free(self) -> None:
        """Give back what is not in use."""
        self.xp.get_default_memory_pool().free_all_blocks()


def libraries() -> Iterator[Torch | CuPy]:
    for kind in (Torch, CuPy):
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


def timed(library: Torch | CuPy, run: Callable[[], Any], repeats: int) -> dict[str, float]:
    def synchronized() -> None:
        run()
        library.synchronize()

    for _ in range(2):
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="how often to run each; the best counts")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    options = parser.parse_args()
    scale, repeats = (20 if options.small else 1), options.repeats
    tall, large = (50_000 // scale, 1_000 // scale, 50), (1_000_000 // scale, 2_000 // scale, 100)
    emit(benchmark="gpu", **machine())
    for library in libraries():
        emit(benchmark="gpu", library=library.name, device=library.device, version=library.xp.__version__)
        for label in ("signal", "noise"):
            case(library, "tall", tall, "float64", label, 4 * repeats, check=True)
        case(library, "tall", tall, "float64", "signal", 4 * repeats, check=False, precompute=False)
        case(library, "tall", tall, "float32", "signal", 4 * repeats, check=False)
        for dtype in ("float32", "float64"):
            check = dtype == "float64" and library.name == "torch"  # once: 16 GB for the CPU to look at
            case(library, "large", large, dtype, "signal", repeats, check=check)
            library.free()
        case(library, "large", large, "float64", "signal", repeats, check=False, precompute=False)
        library.free()


if __name__ == "__main__":
    main()
