"""Elementwise formulas that a GPU computes by one kernel each.

A small kernel takes a microsecond or two whatever it computes, so that a formula of ten operations takes ten times as
long as one. PyTorch can compile a kernel from source in CUDA C++; here that source is written by calling the formula
once with symbols in place of arrays, so that the formula itself is still written in one place, in Python.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from termwise._arrays import Array, as_float64, at, from_host, namespace

BLOCK = 128  # threads, one for each entry
MAX_ENTRIES = 2**31 - 1  # which kernels count in 32 bits
POWERS = {0.5: "sqrt({0})", -1.5: "1 / ({0} * sqrt({0}))", -2: "1 / ({0} * {0})"}  # `pow` takes much longer
TYPES = {"torch.float64": "double", "torch.float32": "float", "torch.int64": "long long", "torch.bool": "bool"}
SOURCE = """typedef double T;
typedef long long Size;
extern "C" __global__ void {name}(Size rows, Size columns, {parameters}) {{
  const unsigned entry = blockIdx.x * blockDim.x + threadIdx.x, width = columns;
  if (entry >= rows * columns) return;
  const Size row = entry / width, column = entry % width;
  {body}
}}
"""


class Kernel(NamedTuple):
    """A compiled kernel."""

    start: Callable[..., int]  # of the driver, which returns the number of an error
    function: Any
    current_stream: Callable[[], Any]
    n_results: int


GATHER: dict[Any, Kernel | None] = {}  # by device and dtype


class Fused:
    """An elementwise function of arrays of one or two axes that broadcast; it returns an array, or a tuple of arrays.

    Arguments but the first may be None, for a formula with fewer terms. The function may use operators, `abs`, and
    `at_least`, `at_most`, `put`, `zero_below` and `as_float64` of `termwise._arrays`. Results of kernels are float64.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self.name = getattr(function, "__name__", "fused")
        self.kernels: dict[Any, Kernel | None] = {}  # by device, and the dtypes of arguments and results

    def __call__(self, *arrays: Array, out: Sequence[Array | None] = ()) -> Any:
        """Evaluate the function; results replace the entries of the arrays of `out` that are not None."""
        like = arrays[0]
        if isinstance(like, np.ndarray) or not compiles(like):
            found = self.function(*arrays)
            return assigned(found, out) if out else found
        key = (like.device, *(None if x is None else x.dtype for x in (*arrays, *out)))
        if key not in self.kernels:
            types = [None if dtype is None else TYPES[str(dtype)] for dtype in key[1:]]
            source, n_results = self.source(types[: len(arrays)], types[len(arrays) :])
            self.kernels[key] = compiled(source, self.name, n_results, like)
        kernel = self.kernels[key]
        shape = broadcast([x.shape for x in arrays if x is not None])
        if kernel is None or not fits(shape):
            return assigned(self.function(*arrays), out)
        new, missing = namespace(like).float64, (None,) * (kernel.n_results - len(out))
        results = [like.new_empty(shape, dtype=new) if x is None else x for x in (*out, *missing)]
        launch(kernel, shape, [x for x in (*arrays, *results) if x is not None])
        return tuple(results) if kernel.n_results > 1 else results[0]

    def source(self, types: Sequence[str | None], given: Sequence[str | None] = ()) -> tuple[str, int]:
        """CUDA C++ of the kernel for arguments of these types, None where there is none, and its number of results."""
        lines: list[str] = []
        symbols = [None if kind is None else Symbol(f"x{i}", lines) for i, kind in enumerate(types)]
        found = self.function(*symbols)
        outputs = found if isinstance(found, tuple) else (found,)
        parameters, body = list[str](), list[str]()
        for i, kind in enumerate(types):
            if kind is not None:
                parameters.append(f"const {kind}* p{i}, Size r{i}, Size c{i}")
                body.append(f"const T x{i} = p{i}[row * r{i} + column * c{i}];")
        body += lines
        for i, output in enumerate(outputs):
            kind = (given[i] if i < len(given) else None) or "double"
            parameters.append(f"{kind}* o{i}, Size s{i}, Size d{i}")
            body.append(f"o{i}[row * s{i} + column * d{i}] = ({kind}) {output.name};")
        return SOURCE.format(name=self.name, parameters=", ".join(parameters), body="\n  ".join(body)), len(outputs)


def fused(function: Callable[..., Any]) -> Fused:
    """Compute an elementwise function by one kernel where that is possible."""
    return Fused(function)


def assigned(found: Any, out: Sequence[Array | None]) -> Any:
    """Results, those for which there is an array stored in it."""
    results = list(found) if isinstance(found, tuple) else [found]
    for i, x in enumerate(out):
        if x is not None:
            x[...] = results[i]
            results[i] = x
    return tuple(results) if isinstance(found, tuple) else results[0]


def columns_at(x: Array, places: Array) -> Array:
    """Some columns of x in float64: by one kernel, each contiguous, where that is possible, else by `at`."""
    places = from_host(places, x)
    shape = (places.shape[0], x.shape[0])
    kernel = gather(x) if compiles(x) and fits(shape) else None
    if kernel is None:
        return as_float64(at(x, places, axis=1))
    found = x.new_empty(shape, dtype=namespace(x).float64)
    launch(kernel, shape, [x.T, places[:, None], found])
    return found.T


def gather(x: Array) -> Kernel | None:
    """The kernel of `columns_at` for arrays like x, which takes their rows."""
    key = x.device, x.dtype
    if key not in GATHER:
        parameters = f"const {TYPES[str(x.dtype)]}* x, Size r, Size c, const long long* places, Size step, Size _"
        body = "found[row * s + column * d] = x[places[row * step] * r + column * c];"
        source = SOURCE.format(name="gather", parameters=f"{parameters}, double* found, Size s, Size d", body=body)
        GATHER[key] = compiled(source, "gather", 1, x)
    return GATHER[key]


# -- kernels -----------------------------------------------------------------------------------------------------------


def compiles(x: Array) -> bool:
    """Whether x is a tensor on the current GPU, and PyTorch compiles kernels from CUDA C++ for it."""
    if not (array_api_compat.is_torch_array(x) and x.is_cuda):
        return False
    xp = namespace(x)
    return xp.version.hip is None and x.device.index == xp.cuda.current_device()


def compiled(source: str, name: str, n_results: int, like: Array) -> Kernel | None:
    """Compile a kernel; None if PyTorch is too old for that, or does not find NVIDIA's compiler."""
    cuda = namespace(like).cuda
    try:
        start, function = cuda._utils._get_gpu_runtime_library().cuLaunchKernel, cuda._compile_kernel(source, name).func
        return Kernel(start, function, cuda.current_stream, n_results)
    except (AttributeError, OSError, RuntimeError):
        return None


def launch(kernel: Kernel, shape: tuple[int, ...], arrays: Sequence[Array]) -> None:
    """Launch a kernel for arrays that broadcast to a shape.

    PyTorch's own function for it takes ten times as long, most of it to find the type of every argument. Here all of
    them are integers or addresses, of 64 bits.
    """
    rows, columns = (1, *shape) if len(shape) == 1 else shape
    words = [rows, columns]
    for x in arrays:
        words.append(x.data_ptr())
        sizes, strides = x.shape, x.stride()
        words.append(strides[0] if len(sizes) == 2 and sizes[0] > 1 else 0)
        words.append(strides[-1] if sizes[-1] > 1 else 0)
    n = len(words)
    values = (ctypes.c_longlong * n)(*words)
    first = ctypes.addressof(values)
    pointers = (ctypes.c_void_p * n)(*range(first, first + 8 * n, 8))
    stream = ctypes.c_void_p(kernel.current_stream().cuda_stream)
    grid, block = (-(-rows * columns // BLOCK), 1, 1), (BLOCK, 1, 1)
    if error := kernel.start(kernel.function, *grid, *block, 0, stream, pointers, None):
        raise RuntimeError(f"A GPU must start the kernels of forward selection, got error {error} of cuLaunchKernel.")


def fits(shape: tuple[int, ...]) -> bool:
    """Whether a kernel has a thread for every entry."""
    return 0 < math.prod(shape) <= MAX_ENTRIES - BLOCK


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of arrays that are broadcast."""
    axes = max(map(len, shapes))
    return tuple(max(shape[axis] for shape in shapes if len(shape) >= -axis) for axis in range(-axes, 0))


# -- formulas ----------------------------------------------------------------------------------------------------------


class Functions:
    """The functions of the array API standard that formulas use, for symbols."""

    float64 = None

    @staticmethod
    def abs(x: Symbol) -> Symbol:
        """`|x|`."""
        return x.new(f"fabs({x.name})")

    @staticmethod
    def clip(x: Symbol, low: float | None = None, high: float | None = None) -> Symbol:
        """X, but no less than `low` and no more than `high`; not a number stays what it is."""
        if low is not None:
            x = x.new(f"{x.name} < {number(low)} ? {number(low)} : {x.name}")
        return x if high is None else x.new(f"{x.name} > {number(high)} ? {number(high)} : {x.name}")

    @staticmethod
    def where(mask: Symbol, x: Any, y: Any) -> Symbol:
        """X where a mask is true, else y."""
        return mask.new(f"{mask.name} ? {number(x)} : {number(y)}")

    @staticmethod
    def asarray(x: float, **_: Any) -> float:
        """X, which needs no array."""
        return x

    @staticmethod
    def astype(x: Symbol, *_: Any, **__: Any) -> Symbol:
        """X as a number."""
        return x.new(f"T({x.name})")


def operator(expression: str, kind: str = "T") -> Callable[[Symbol, Any], Symbol]:
    """A method of `Symbol` that writes the line of an operator."""
    return lambda self, other: self.new(expression.format(self.name, number(other)), kind)


class Symbol:
    """An entry of an array: operators write a line of C++ each."""

    dtype = device = None

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name, self.lines = name, lines

    def __array_namespace__(self, **_: Any) -> type[Functions]:
        return Functions

    def new(self, expression: str, kind: str = "T") -> Symbol:
        """Return the symbol of a further line."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{kind} {name} = {expression};")
        return Symbol(name, self.lines)

    def __pow__(self, exponent: float) -> Symbol:
        return self.new(POWERS[exponent].format(self.name) if exponent in POWERS else f"pow({self.name}, {exponent!r})")

    def __neg__(self) -> Symbol:
        return self.new(f"-{self.name}")

    def __abs__(self) -> Symbol:
        return Functions.abs(self)

    def __invert__(self) -> Symbol:
        return self.new(f"!{self.name}", "bool")

    __add__, __radd__ = operator("{0} + {1}"), operator("{1} + {0}")
    __sub__, __rsub__ = operator("{0} - {1}"), operator("{1} - {0}")
    __mul__, __rmul__ = operator("{0} * {1}"), operator("{1} * {0}")
    __truediv__, __rtruediv__ = operator("{0} / {1}"), operator("{1} / {0}")
    __lt__, __le__ = operator("{0} < {1}", "bool"), operator("{0} <= {1}", "bool")
    __gt__, __ge__ = operator("{0} > {1}", "bool"), operator("{0} >= {1}", "bool")
    __eq__, __ne__ = operator("{0} == {1}", "bool"), operator("{0} != {1}", "bool")  # type: ignore[assignment]
    __and__, __or__ = operator("{0} && {1}", "bool"), operator("{0} || {1}", "bool")  # of masks, or zeros and ones
    __hash__ = None  # type: ignore[assignment]


def number(x: Any) -> str:
    """A symbol or a number in C++."""
    if isinstance(x, Symbol):
        return x.name
    if math.isinf(x):
        return f"(T({math.copysign(1e308, x)!r}) * T(10))"
    return f"T({float(x)!r})"
