"""Elementwise formulas that a GPU computes by one kernel: on the host as they are, and the source of the kernel."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from termwise._arrays import as_float64, at_least, at_most, put, zero_below
from termwise._fusion import Kernel, fused, launch

# a host's compiler runs the kernel's source, one entry at a time
HOST = """#include <cmath>
struct Place {{ unsigned x; }};
static Place blockIdx, threadIdx, blockDim = {{1}};
#define __global__ static
{kernel}
extern "C" void every_entry(long long rows, long long columns, {types}) {{
  for (long long i = 0; i < rows * columns; i++) {{ blockIdx.x = i; threadIdx.x = 0; {call} }}
}}
"""


@fused
def formula(x, y, count, mask, shift):
    """Every operation that formulas may use."""
    root = at_least(x, 0.25) ** 0.5 + abs(y) ** -1.5 + (1 + abs(y)) ** -2 + abs(y) ** 0.3
    kept = mask & ~(x > 0.8) | (count == 2) & (x != y) | (x >= 0.95) & (y <= 0.5)
    moved = x if shift is None else 2 - x * shift / (1 + y * y) - 1 / (3 + y)
    return root, put(moved, ~kept, np.inf), zero_below(-x + 0.5, 0.1), as_float64(kept) + at_most(y, 0.3), kept


def arguments(shape=(5, 7)):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, shape), rng.normal(size=shape[-1:])
    return x, y, rng.integers(1, 4, shape), rng.random(shape[-1:]) < 0.5, rng.uniform(1, 2, (shape[0], 1))


def compile_source(source, n_arguments, folder):
    """Return a kernel as a function of the host."""
    n = n_arguments
    types = ", ".join(f"void* a{i}, long long r{i}, long long c{i}" for i in range(n))
    kernel_types = [one.strip().rsplit(" ", 1)[0] for one in source.split("(", 1)[1].split(")")[0].split(",")][2::3]
    parts = ", ".join(f"({kind}) a{i}, r{i}, c{i}" for i, kind in enumerate(kernel_types))
    text = HOST.format(kernel=source.replace('extern "C" ', ""), types=types, call=f"formula(rows, columns, {parts});")
    path, library = folder / "kernel.cpp", folder / "kernel.so"
    path.write_text(text)
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", library, path], check=True)
    return ctypes.CDLL(str(library)).every_entry


@pytest.mark.skipif(shutil.which("g++") is None, reason="a C++ compiler is needed: install g++")
@pytest.mark.parametrize("with_shift", [False, True])
def test_the_source_computes_the_formula(tmp_path, with_shift):
    given = arguments() if with_shift else (*arguments()[:-1], None)
    types = ["double", "double", "long long", "bool", "double" if with_shift else None]
    source, n_results = formula.source(types, [None, None, None, None, "bool"])
    expected = formula.function(*given)
    assert n_results == len(expected)
    found = [np.empty(expected[0].shape, dtype=value.dtype) for value in expected]
    words = [ctypes.c_longlong(size) for size in found[0].shape]
    arrays = [x for x in given if x is not None] + found
    for x in arrays:
        whole = np.broadcast_to(x, found[0].shape)
        words += [ctypes.c_void_p(x.ctypes.data), *(ctypes.c_longlong(step // x.itemsize) for step in whole.strides)]
    compile_source(source, len(arrays), tmp_path)(*words)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, np.broadcast_to(wanted, value.shape), rtol=1e-14)


def test_results_replace_the_entries_of_given_arrays():
    given = arguments()
    expected, kept = formula(*given), np.zeros((5, 7), dtype=bool)
    x = given[0]
    root, *_, last = formula(*given, out=[x, None, None, None, kept])
    assert root is x
    assert last is kept
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(kept, expected[4])


def test_one_result_is_an_array():
    double, x = fused(lambda x: 2 * x), np.arange(3.0)
    np.testing.assert_array_equal(double(x), [0, 2, 4])
    assert double(x, out=[x]) is x
    np.testing.assert_array_equal(x, [0, 2, 4])


def test_an_error_of_the_driver_is_raised():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    kernel = Kernel(lambda *_: 700, None, lambda: SimpleNamespace(cuda_stream=0), 1)
    with pytest.raises(RuntimeError, match="must start the kernels of forward selection, got error 700"):
        launch(kernel, (3,), [torch.ones(3)])
