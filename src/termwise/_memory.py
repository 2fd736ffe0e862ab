"""How much memory may be used: the budget that decides what is stored and what is computed or read again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from termwise._arrays import Array, free_on_device
from termwise._checks import check_number

UNKNOWN = 4 << 30  # assumed free if the system does not report it
_given: ContextVar[int | None] = ContextVar("memory_budget", default=None)


@contextmanager
def memory_budget(nbytes: float) -> Iterator[None]:
    """Set how much memory fits inside a `with` statement may use, in bytes.

    Whatever is larger is not stored: radial dictionaries are computed tile by tile (see `RadialBasis`), memory maps are
    read block by block (see `open_rows`), fewer columns are kept. The choices are the same, only time is lost. Without
    a budget half of the memory that is free is used: of the machine, of its control group, or of the process if that is
    limited.

    Parameters
    ----------
    nbytes : float
        The budget, such as `4e9`. What is as long as the rows (about ten numbers a row, and one for every term) is kept
        in memory whatever the budget.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import ForwardRegressor, RadialBasis, memory_budget
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = ForwardRegressor(RadialBasis(), rule="cost", max_terms=5)
    >>> stored = model.fit(X, X[:, 0] ** 2).support_
    >>> with memory_budget(1e6):
    ...     streamed = model.fit(X, X[:, 0] ** 2).support_
    >>> bool((stored == streamed).all())
    True
    """
    check_number("nbytes", nbytes, above=0, remedy="give a number of bytes, such as 4e9")
    token = _given.set(int(nbytes))
    try:
        yield
    finally:
        _given.reset(token)


def budget(like: Array | None = None) -> int:
    """Bytes that may be used: as given, or half of what is free, on the device of `like` if that is elsewhere."""
    given = _given.get()
    if given is not None:
        return given
    device = None if like is None else free_on_device(like)
    return (min(_machine(), _group(), _process()) if device is None else device) // 2


def _machine() -> int:
    """Free memory of the machine."""
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN


def _group() -> int:
    """What the control group leaves; file pages it holds can be given up and count as free."""
    limit, used = (_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if not limit or not used or not limit[0].strip().isdigit():
        return 1 << 62
    pages = [int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat") if line.startswith("file ")]
    return max(int(limit[0]) - int(used[0]) + sum(pages), 0)


def _process() -> int:
    """What the limit of the process' address space leaves."""
    try:
        import resource
    except ImportError:  # not a system that has such limits
        return 1 << 62
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _lines("/proc/self/statm")
    used = int(pages[0].split()[0]) * resource.getpagesize() if pages else 0
    return 1 << 62 if limit == resource.RLIM_INFINITY else max(limit - used, 0)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []
