"""Threads: how many BLAS may use, and functions of blocks of rows that share them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ContextDecorator
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

# Entries of all intermediate results of a block: 2 MiB, which stay in the caches of a core. Calls for shorter blocks
# take so little time that threads would wait for each other.
BLOCK_ENTRIES = 1 << 18
THREADED_BLOCKS = 8  # as many make up for starting threads


@cache
def blas_libraries() -> ThreadpoolController:
    """The BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas")


class OneThread(AbstractContextManager[None], ContextDecorator):
    """Limits BLAS to one thread while at least one block of code asks for it.

    The limit is that of the process. Blocks of several threads overlap, so that they are counted: the first sets the
    limit and the last restores what was before, whatever the order in which they end.
    """

    def __init__(self) -> None:
        self.lock, self.count = Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.count:
                self.limit = blas_libraries().limit(limits=1)
            self.count += 1

    def __exit__(self, *exception: object) -> None:
        with self.lock:
            self.count -= 1
            if not self.count:
                self.limit.restore_original_limits()


ONE_THREAD = OneThread()


def one_thread() -> OneThread:
    """Limit BLAS to one thread, also where several threads do so at the same time."""
    return ONE_THREAD


def blas_threads() -> int:
    """Number of threads BLAS may use now; a limit on those is respected here as well."""
    return max((library["num_threads"] for library in blas_libraries().info()), default=1)


def block_rows(width: int) -> int:
    """Return the number of rows of a block, given the number of columns of all intermediate results."""
    return max(1, BLOCK_ENTRIES // max(1, width))


def for_blocks(evaluate: Callable[[int], None], starts: Sequence[int]) -> None:
    """Call a function for the first rows of all blocks, by as many threads as BLAS may use."""
    threads = blas_threads() if len(starts) >= THREADED_BLOCKS else 1
    if threads == 1:
        for start in starts:
            evaluate(start)
        return
    settings: Any = np.geterr()  # of the calling thread, which others do not inherit

    def in_thread(start: int) -> None:
        with np.errstate(**settings):
            evaluate(start)

    with one_thread(), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(in_thread, starts):  # raises what a call raised
            pass
