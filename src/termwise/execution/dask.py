"""Row blocks on the workers of a Dask cluster.

Blocks are the result of a task, and so is what becomes of them: `new, answer = step(old, args)` changes forks and
leaves the old blocks alone. When a worker is lost, the scheduler knows from which chunks and by which steps its blocks
came to be, and has them computed again elsewhere. An old block is let go as soon as the new one is there; a fork shares
the columns of Z with it, so that the memory of the workers grows by what Z needs and no more.

Answers are added up in a tree on the workers: one trip brings the driver one small answer, and takes a few tasks for
each thread of the workers, however many the chunks. Arguments travel inside of the tasks and never as scattered data,
which could not be recomputed.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import as_columns, row_blocks
from termwise._checks import check_some, check_targets, check_total, read_counts
from termwise.execution.collections import Chunks, cluster, n_rows
from termwise.execution.local import Executor
from termwise.selection.blocks import RowBlock
from termwise.selection.path import CondensedRows

FAN_IN = 16  # answers added up by one task
LARGE = 1 << 16  # bytes from which arguments are worth a task of their own, rather than a copy in every block's


class Held:
    """Blocks of one thread of a worker and their last answer, as one result of a task."""

    def __init__(self, blocks: list[RowBlock], answer: Any) -> None:
        self.blocks, self.answer = blocks, answer

    def __sizeof__(self) -> int:
        """Bytes, which the scheduler must know of: it keeps an eye on the memory of the workers."""
        shapes = [(block.G.nbytes, *block.Y.shape, block.k) for block in self.blocks]
        return object.__sizeof__(self) + int(sum(nbytes + 8 * n * (k + 2 * q + 3) for nbytes, n, q, k in shapes))


Parts = list[tuple[Any, ...]]  # for every block what it alone is given: one thing, or nothing


@dataclass(frozen=True)
class Question:
    """What all blocks are asked, and how answers are put together."""

    function: Callable[..., Any]
    together: Callable[[list[Any]], Any]  # a sum or a list

    def look(self, held: Held, parts: Parts, args: tuple[Any, ...]) -> Any:
        """Ask the blocks something that does not change them."""
        return self._answer(held.blocks, parts, args)

    def step(self, held: Held, parts: Parts, args: tuple[Any, ...]) -> Held:
        """Let the function change forks of the blocks; those themselves stay as they are."""
        blocks = [block.fork() for block in held.blocks]
        return Held(blocks, self._answer(blocks, parts, args))

    def _answer(self, blocks: list[RowBlock], parts: Parts, args: tuple[Any, ...]) -> Any:
        return self.together([self.function(b, *part, *args) for b, part in zip(blocks, parts, strict=True)])


def answer_of(held: Held) -> Any:
    """Return the answer, which may travel, without the blocks, which should not."""
    return held.answer


def bundle(several: list[Held]) -> Held:
    """Put blocks together that are in one place: a task for all of them costs as much as one for each."""
    return Held([block for held in several for block in held.blocks], None)


def restricted(held: Held, chosen: NDArray[np.intp]) -> Held:
    """Return blocks with some of the candidates, and no model."""
    return Held([block.restricted(chosen) for block in held.blocks], None)


def add_up(answers: list[Any]) -> Any:
    """Sum of some answers."""
    return reduce(add, answers)


def same(args: Any) -> Any:
    """Return what was given: a task that holds it."""
    return args


class DaskBlocks(Executor):
    """Blocks held as futures, one for every thread of the workers, each of which has a home."""

    worth_a_call = 1 << 20  # a trip takes as long as this many numbers do: tens of milliseconds

    def __init__(self, chunks: list[Any]) -> None:
        self.client = cluster()
        facts: list[Facts] = self.client.gather(self.client.map(answer_of, chunks, pure=False))
        check_lengths(facts)
        filled = [i for i, fact in enumerate(facts) if fact.rows]
        self.lengths = [facts[i].rows for i in filled]
        self.total = sum(fact.weight for fact in facts)
        first = facts[filled[0]]
        self.n_candidates, self.n_outputs, self.one_output = first.p, first.q, first.one_output
        self.dtype = min((facts[i].dtype for i in filled), key=lambda dtype: dtype.itemsize)
        self._settle([chunks[i] for i in filled])

    def _settle(self, chunks: list[Any]) -> None:
        """Bundle the blocks by where they are."""
        places, threads = self.client.who_has(chunks), self.client.nthreads()
        there: dict[str | None, list[int]] = {}
        for i, chunk in enumerate(chunks):
            there.setdefault(next(iter(places.get(chunk.key, ())), None), []).append(i)
        shares = [
            (home, found[i :: threads.get(home, 1)])
            for home, found in there.items()
            for i in range(min(threads.get(home, 1), len(found)))
        ]
        self.homes, self.members = zip(*shares, strict=True)
        bundles = [[chunks[i] for i in share] for share in self.members]
        self.states = self._at_home(bundle, bundles)

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Ask all blocks and fetch all answers."""
        found = self.client.gather(self._answers(Question(function, list), None, args))
        answers = [answer for part in found for answer in part]
        return [answers[i] for i in np.argsort([i for share in self.members for i in share])]

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Ask all blocks and fetch the sum."""
        return self._total(self._answers(Question(function, add_up), None, args))

    def deal(self, function: Callable[..., Any], parts: Iterable[Any], *args: Any) -> Any:
        """Ask all blocks, each with its own part, and fetch the sum."""
        return self._total(self._answers(Question(function, add_up), list(parts), args))

    def model_rows(self) -> CondensedRows:
        """Return as few rows as the model and the targets have columns, with the same products."""
        R = self.ask(condense).R
        R = R * np.copysign(1.0, R[:, :1].sum())  # the column of the intercept is positive
        k = R.shape[1] - self.n_outputs
        return CondensedRows(R[:, :k], R[:, k:], np.full(len(R), self.total / len(R)))

    def fork(self) -> Self:
        """Return the same futures: what they stand for never changes."""
        return copy.copy(self)

    def restrict(self, chosen: NDArray[np.intp]) -> Self:
        """Restrict all blocks."""
        other = copy.copy(self)
        other.states, other.n_candidates = self._at_home(restricted, self.states, chosen=chosen), len(chosen)
        return other

    def _answers(self, question: Question, parts: list[Any] | None, args: tuple[Any, ...]) -> list[Any]:
        """Futures of the answers; the old blocks are let go where the question changes them."""
        given = self.client.submit(same, args, pure=False) if _size(args) > LARGE else args
        dealt: list[Parts] = [[() if parts is None else (parts[i],) for i in share] for share in self.members]
        if not getattr(question.function, "changes", False):
            return self._at_home(question.look, self.states, dealt, args=given)
        self.states = self._at_home(question.step, self.states, dealt, args=given)
        return self._at_home(answer_of, self.states)

    def _at_home(self, task: Callable[..., Any], *columns: list[Any], **options: Any) -> list[Any]:
        """Futures of a task on every bundle of blocks, done where they are; anywhere, if that worker is lost.

        Left alone, the scheduler would move blocks rather than let a worker wait for another one.
        """
        how = {"allow_other_workers": True, "pure": False, **options}
        rows = zip(self.homes, *columns, strict=True)
        return [self.client.submit(task, *row, workers=home, **how) for home, *row in rows]

    def _total(self, answers: list[Any]) -> Any:
        """Sum of the answers, by a tree of tasks."""
        while len(answers) > 1:
            groups = [answers[i : i + FAN_IN] for i in range(0, len(answers), FAN_IN)]
            answers = [self.client.submit(add_up, group, pure=False) for group in groups]
        return answers[0].result()


def _size(args: Any) -> int:
    """Bytes of arguments, those of arrays within records and tuples included."""
    if isinstance(args, tuple):
        return sum(_size(part) for part in args)
    if hasattr(args, "__dict__"):
        return sum(_size(part) for part in vars(args).values())
    return int(getattr(args, "nbytes", sys.getsizeof(args)))


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How the rows of a chunk become a block."""

    input_name: str = "G"
    estimator: str | None = None  # that messages name
    basis: Any = None  # fitted, evaluated on every chunk
    targets: Callable[[Any], NDArray[np.float64]] = check_targets
    reserve: int = 64

    def design(self, X: Any) -> Any:
        """Evaluate the basis, if there is one, and check what comes out."""
        name = self.input_name if self.basis is None else f"The design matrix of {type(self.basis).__name__}"
        G = check_array(
            X if self.basis is None else self.basis.transform(X),
            accept_sparse="csc",
            dtype=[np.float64, np.float32],
            input_name=name,
            estimator=self.estimator,
        )
        return sp.csc_array(G) if sp.issparse(G) else G


@dataclass(frozen=True)
class Facts:
    """What is known of a chunk once it is read."""

    given: int  # rows
    rows: int = 0  # that count
    weight: float = 0.0
    p: int = 0
    q: int = 0
    one_output: bool = True
    dtype: Any = None


def read_block(X: Any, y: Any, weights: Any, reading: Reading) -> Held:
    """Check the rows of a chunk and make a block of those that count."""
    check_consistent_length(X, y)
    counts = read_counts(weights, n_rows(X))
    if not len(counts):
        return Held([], Facts(0))
    G, y, used = reading.design(X), reading.targets(y), counts > 0
    if not used.any():
        return Held([], Facts(len(counts)))
    Y = as_columns(y)
    if not used.all():
        G, Y, counts = G[used], Y[used], counts[used]
    facts = Facts(len(used), len(Y), float(counts.sum()), G.shape[1], Y.shape[1], y.ndim == 1, G.dtype)
    return Held([RowBlock(G, Y, counts, reading.reserve)], facts)


def check_lengths(facts: list[Facts]) -> None:
    """Raise unless all chunks together have enough rows that count."""
    rows = sum(fact.given for fact in facts)
    check_array(np.broadcast_to(0.0, (rows, 1)), ensure_min_samples=2)
    total = np.array([fact.weight for fact in facts])
    check_some(total)
    check_total(total)


def dask_blocks(chunks: Chunks, reading: Reading) -> DaskBlocks:
    """Have the workers read their chunks."""
    return DaskBlocks(chunks.map(read_block, reading))


# -- the end of a path -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Triangle:
    """Triangular factor of some rows; those of two sets of rows make that of both."""

    R: NDArray[np.float64]

    def __add__(self, other: Triangle) -> Triangle:
        return triangle(np.vstack([self.R, other.R]))


def triangle(rows: NDArray[np.float64]) -> Triangle:
    """Triangular factor of some rows."""
    return Triangle(np.asarray(np.linalg.qr(rows, mode="r")))


def condense(block: RowBlock) -> Triangle:
    """Triangular factor of `[Z, Y]` on the rows of a block, from one tile after the other."""
    tiles = row_blocks(len(block.Y), 8 * (block.k + block.Y.shape[1]))
    return reduce(add, (triangle(np.hstack([block.Z[rows], block.Y[rows]])) for rows in tiles))
