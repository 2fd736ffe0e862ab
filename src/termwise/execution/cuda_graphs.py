"""CUDA graphs: functions of a device's arrays captured once and replayed, which hides the latency of many launches.

All graph capture is in this module. It decides

- what is captured: every function that the engine starts through `Launcher.launch`, for PyTorch tensors on a GPU;
- what that requires: arrays keep their address (`captured` is cleared when one was reallocated) and their shape
  (`fixed_shapes`; the memory of Z starts as zeros);
- what a device may do ahead of the host: with all rows in one block on a device, a step (append, pass over the data,
  update) is one launch, and so are the bounds of the next step with its first verifications (`device_block`);
- how far: for the rules of `selection.rounds`, `STEPS_AHEAD` of its rounds, each of which chooses and appends a term,
  are replayed per synchronisation with the host, and as many are queued while it reads the results;
- what is computed at a time: two branches of a round that do not depend on each other (`together`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, namespace
from termwise.selection.blocks import Launcher

STEPS_AHEAD = 8  # rounds, which take a few milliseconds: the host needs less to read and record them
_WARMED_UP: set[Any] = set()  # functions, with shapes and dtypes, whose libraries are initialised


def launcher_for(like: Array) -> Launcher:
    """A launcher for arrays of this library and device."""
    captures = array_api_compat.is_torch_array(like) and like.is_cuda
    return CudaGraphs() if captures else Launcher()


def steps_ahead_of(like: Array) -> int:
    """How many rounds of `selection.run_ahead` a device runs per synchronisation with the host."""
    return STEPS_AHEAD if array_api_compat.is_torch_array(like) and like.is_cuda else 0


class CudaGraphs(Launcher):
    """Captures functions of tensors on a GPU, one graph for every function, set of arrays and shapes of numbers."""

    fixed_shapes = True

    def launch(
        self, function: Callable[..., Any], arrays: tuple[Any, ...], *numbers: Any, read: int = 0, times: int = 1
    ) -> Any:
        """Replay the function; its result is valid until the next launch with the same arrays."""
        flat = list(leaves(arrays))
        shapes = tuple(value.shape for group in numbers for value in group)
        key = (function, *(x if isinstance(x, int) else id(x) for x in flat), *shapes)
        if key not in self.captured:
            kinds = [x if isinstance(x, int) else (getattr(x, "shape", None), getattr(x, "dtype", None)) for x in flat]
            signature = (function, *kinds, *shapes)
            options = [x for x in flat if isinstance(x, int)]
            moved = (function, options) in [(g.function, g.options) for g in self.captured.values()]  # and may again
            warm_up = moved or signature not in _WARMED_UP
            self.captured[key] = CapturedFunction(function, arrays, numbers, read, warm_up)
            self.captured[key].options = options
            _WARMED_UP.add(signature)
        for _ in range(times):
            result = self.captured[key](numbers)
        return result

    @staticmethod
    def together(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
        """Two branches of the graph that is being captured.

        What the functions read must have other references than theirs: memory that the branch of one frees, and
        that it allocates again, must not be memory that the other still reads.
        """
        cuda: Any = import_module("torch.cuda")
        if not cuda.is_current_stream_capturing():
            return Launcher.together(first, second)
        main = cuda.current_stream()
        side = stream_for("second branches", main.device)
        side.wait_stream(main)
        with cuda.stream(side):
            found = second()
        result = first()
        main.wait_stream(side)
        return result, found

    def read(self, x: Array) -> Callable[[], NDArray[Any]]:
        """Copy an array to pinned memory behind the launches so far; later ones need not wait for the host."""
        xp = namespace(x)
        host, copied = xp.empty(x.shape, dtype=x.dtype, pin_memory=True), xp.cuda.Event()
        host.copy_(x, non_blocking=True)
        copied.record()

        def wait() -> NDArray[Any]:
            copied.synchronize()
            return host.numpy()

        return wait


@cache
def stream_for(purpose: str, device: Any) -> Any:
    """A stream that is used again, and with it the memory that its captures free and the workspace of cuBLAS."""
    return import_module("torch.cuda").Stream(device)


def leaves(arrays: Any) -> Iterator[Any]:
    """Whatever is in nested tuples."""
    if not isinstance(arrays, tuple):
        yield arrays
        return
    for group in arrays:
        yield from leaves(group)


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep Python from collecting garbage: to free another graph would invalidate a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class CapturedFunction:
    """A function captured as a CUDA graph.

    The first call is eager, since libraries initialise themselves then, and the next is captured. Arguments keep their
    address: arrays that exist already, and a buffer for the few numbers that change from call to call. So do results,
    and the pinned copy on the host of the last of them, if it is to be read.
    """

    def __init__(
        self, function: Callable[..., Any], arrays: tuple[Any, ...], numbers: tuple[Any, ...], read: int, warm_up: bool
    ) -> None:
        self.function, self.arrays, self.warm_up = function, arrays, warm_up
        like = arrays[-1][-1] if isinstance(arrays[-1], tuple) else arrays[-1]
        self.xp = namespace(like)
        self.groups = [(type(group), [(v.shape, v.dtype == np.float64) for v in group]) for group in numbers]
        # pinned memory, which the device reads and writes by itself
        self._sent, self._read = (
            self.xp.empty(size, dtype=self.xp.float64, pin_memory=True)
            for size in (sum(v.size for group in numbers for v in group), read)
        )
        self.numbers, self.sent = self.xp.empty_like(self._sent, device=like.device), self._sent.numpy()
        self.host = self._read.numpy() if read else None
        self.options: list[int] = []  # arguments other than arrays
        self.graph: Any = None
        self.result: Any = None

    def __call__(self, numbers: tuple[Any, ...]) -> Any:
        """Replay the graph with these numbers."""
        if numbers:  # indices travel bit by bit
            np.concatenate([v.ravel().view(np.float64) for group in numbers for v in group], out=self.sent)
        if self.warm_up:
            self.warm_up, self.result = False, self._run()
        else:
            if self.graph is None:
                cuda = self.xp.cuda
                self.graph, current = cuda.CUDAGraph(), cuda.current_stream()
                stream = stream_for("captures", current.device)
                stream.wait_stream(current)
                with cuda.stream(stream), without_collection():
                    self.graph.capture_begin()
                    self.result = self._run()
                    self.graph.capture_end()
                current.wait_stream(stream)
            self.graph.replay()
        if self.host is None:
            return self.result
        self.xp.cuda.current_stream().synchronize()
        return *self.result[:-1], self.host.copy()

    def _run(self) -> Any:
        """Copy the numbers to the device, call the function, and copy the last result back."""
        if self.groups:
            self.numbers.copy_(self._sent, non_blocking=True)
        groups, start = [], 0
        for kind, shapes in self.groups:
            parts = []
            for shape, floats in shapes:
                size = int(np.prod(shape))
                part = self.numbers[start : start + size]
                parts.append((part if floats else part.view(self.xp.int64)).reshape(shape))
                start += size
            groups.append(kind(*parts))
        result = self.function(*self.arrays, *groups)
        if self.host is not None:
            self._read.copy_(result[-1], non_blocking=True)
        return result
