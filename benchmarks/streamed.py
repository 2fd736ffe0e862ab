"""Gaussians on all samples, computed tile by tile: time over bare passes, and the memory it takes.

`passes` is the time per term over that of one pass, `G.T @ v` with the same tiles. With `--device` the tiles are
computed by PyTorch (or CuPy) there.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
from _timing import emit, machine

from termwise import ForwardRegressor, RadialBasis, forward_path


def data(n: int, d: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, (np.sin(X[:, 0] * X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=n)).astype(dtype)


def seconds_of(run: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def on_the_processor(n: int, terms: int, rule: str, dtype: str) -> None:
    """All samples as centres."""
    X, y = data(n, 8, dtype)
    basis = RadialBasis(width=4.0, store=False)
    design = basis.fit(X).design(X)
    bare, _ = seconds_of(lambda: design.products(np.ones(n)))
    model = ForwardRegressor(basis, rule=rule, max_terms=terms, criterion=None, patience=None)
    seconds, _ = seconds_of(lambda: model.fit(X, y))
    emit(benchmark="streamed", case="processor", method=f"termwise {rule}", n=n, p=n, d=8, dtype=dtype, terms=terms,
         seconds=round(seconds, 2), bare_pass=round(bare, 3), passes=round(seconds / terms / bare, 2),
         matrix_gb=round(design.nbytes / 1e9, 2), r2=round(model.score(X[:10_000], y[:10_000]), 4),
         peak_gb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3))  # fmt: skip


def on_a_device(n: int, centers: int, terms: int, rule: str, dtype: str, device: str) -> None:
    """A sample of centres, on a device."""
    X, y = data(n, 8, dtype)
    basis = RadialBasis(width=4.0, centers=X[:centers]).fit(X[:centers])
    peak, (X, y) = _send(X, y, device)
    design = basis.design(X)
    bare, _ = seconds_of(lambda: float(design.products(y)[0]))
    bare, _ = seconds_of(lambda: float(design.products(y)[0]))  # the first one compiles
    seconds, path = seconds_of(lambda: forward_path(design, y, rule=rule, max_terms=terms))
    emit(benchmark="streamed", case="device", device=device, method=f"termwise {rule}", n=n, p=centers, d=8,
         dtype=dtype, terms=terms, seconds=round(seconds, 2), bare_pass=round(bare, 3),
         passes=round(seconds / terms / bare, 2), matrix_gb=round(design.nbytes / 1e9, 2), sse=path.steps[-1].sse,
         peak_gb=round(peak() / 1e9, 3))  # fmt: skip


def _send(X: np.ndarray, y: np.ndarray, device: str) -> tuple[Any, tuple[Any, Any]]:
    """Return the data on a device, and what tells the most memory that was in use there."""
    try:
        import torch
    except ImportError:
        import cupy

        return cupy.get_default_memory_pool().total_bytes, (cupy.asarray(X), cupy.asarray(y))
    peak = torch.cuda.max_memory_allocated if device.startswith("cuda") else (lambda: 0)
    return peak, (torch.asarray(X, device=device), torch.asarray(y, device=device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1, help="has no effect: each case runs once")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    parser.add_argument("--limit", type=float, default=4, help="GiB of address space at most")
    parser.add_argument("--samples", type=int, default=100_000, help="samples, each with a centre")
    parser.add_argument("--device", default=None, help="such as cuda: run there instead")
    options = parser.parse_args()
    if not options.device:
        nbytes = int(options.limit * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))
    emit(benchmark="streamed", **machine())
    if options.device:
        scale = 100 if options.small else 1
        n, centers, terms = 1_000_000 // scale, 20_000 // scale, 50 // (5 if options.small else 1)
        for rule, dtype in (("cost", "float32"), ("cost", "float64"), ("loo", "float64")):
            on_a_device(n, centers, terms, rule, dtype, options.device)
        return
    n = 2_000 if options.small else options.samples
    on_the_processor(n, 20, "cost", "float64")
    on_the_processor(n // 2, 20, "loo", "float64")
    on_the_processor(n // 2, 20, "cost", "float32")


if __name__ == "__main__":
    main()
