"""Rows that stay in a file: read block by block, in order, as often as they are needed, and never all at once.

Blocks are read by plain calls into memory that is used again, not by touching pages of a map, so that a process whose
memory is limited can work on a file of any size at the speed of the disk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import check_indices, import_optional
from termwise._memory import budget

BLOCK_BYTES = 1 << 24  # 16 MiB: far beyond the latency of a disk, and still in the processor's caches once it is read
Indices = NDArray[np.intp]


class RowFile(ABC):
    """Rows of numbers in a file, as `open_rows` returns them.

    Attributes
    ----------
    shape : tuple
        Rows and columns, the targets left out.
    dtype : numpy.dtype
        float32 or float64: what the numbers are read as.
    names : list of str or None
        Names of the columns.
    y : ndarray of shape (n,) or (n, q)
        The targets, read when they are first asked for.
    name : str
        What error messages call the file.
    passes : int
        How often all rows have been read.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> from termwise import open_rows
    >>> path = os.path.join(tempfile.mkdtemp(), "data.npy")
    >>> np.save(path, np.arange(12.0).reshape(4, 3))
    >>> data = open_rows(path, target=2)
    >>> data.shape, data.y.tolist(), data.load()[0].tolist()
    ((4, 2), [2.0, 5.0, 8.0, 11.0], [0.0, 1.0])
    """

    shape: tuple[int, int]
    dtype: np.dtype
    name: str
    names: list[str] | None = None
    ndim = 2
    passes = 0
    _target: Any = None
    _y: NDArray | None = None
    _used: NDArray[np.bool_] | None = None

    @abstractmethod
    def _scan(self, columns: Indices, rows: int, room: Sequence[NDArray]) -> Iterator[NDArray]:
        """Read all rows in order, so many at a time, into the places in `room` by turns: one pass."""

    @abstractmethod
    def _chosen(self) -> Indices:
        """Where the columns are in the file."""

    def _room(self, rows: int, columns: int) -> NDArray:
        """A place for a block."""
        return np.empty((rows, columns), dtype=self.dtype)

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def __getitem__(self, rows: Any) -> RowFile:
        """Fewer rows: those a mask says, or those with given numbers, which must ascend."""
        used = np.zeros(len(self), dtype=bool)
        used[rows] = True
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other._used, other.shape = used, (int(used.sum()), self.shape[1])
        return other

    @property
    def nbytes(self) -> int:
        """Size of the numbers."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def block_rows(self) -> int:
        """Rows in a block."""
        return max(1, BLOCK_BYTES // (self.dtype.itemsize * max(1, self.shape[1])))

    @property
    def y(self) -> NDArray:
        """The targets."""
        if self._target is None:
            raise ValueError(f"y is not in {self.name}: name it as the target of open_rows, or read it from elsewhere.")
        if self._y is None:
            columns = np.atleast_1d(self._target)
            found = self._gather(columns).astype(np.float64, copy=False)
            self._y = found[:, 0] if np.ndim(self._target) == 0 else found
        return self._y

    def columns(self, chosen: Any) -> NDArray[np.float64]:
        """Read some columns into memory.

        Parameters
        ----------
        chosen : array-like of int
            Their numbers.
        """
        return self._gather(self._chosen()[np.asarray(chosen, dtype=np.intp)]).astype(np.float64, copy=False)

    def load(self) -> NDArray:
        """Read everything into memory."""
        return self._gather(self._chosen())

    def blocks(self) -> Iterator[NDArray]:
        """Read everything in order, a block at a time; a block lasts until the next but one is asked for."""
        step = self.block_rows
        self.passes += 1
        return self._scan(self._chosen(), step, [self._room(step, self.shape[1]) for _ in range(2)])

    def _gather(self, columns: Indices) -> NDArray:
        step = self.block_rows
        room = [self._room(step, len(columns))]
        return np.concatenate([np.array(block) for block in self._scan(columns, step, room)])


class NpyRows(RowFile):
    """Rows of an array that `numpy.save` has written."""

    def __init__(self, path: Path, columns: Any, target: Any) -> None:
        self.name, self.path = path.name, path
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, self.stored = read(file)
            self.start = file.tell()
        if len(shape) != 2 or fortran or self.stored.kind not in "fiub":
            order = "column by column" if fortran else "row by row"
            raise ValueError(
                f"{self.name} must hold a table of numbers row by row, got an array of shape {shape} and type "
                f"{self.stored} {order}: save numpy.ascontiguousarray(table)."
            )
        self.rows, self.width = shape
        self.dtype = np.dtype(np.float32 if self.stored == np.float32 else np.float64)
        kept = (
            np.arange(self.width) if columns is None else check_indices("columns", columns, self.width, what="column")
        )
        if target is not None:
            wanted = check_indices("target", np.atleast_1d(target), self.width, what="column")
            self._target = int(wanted[0]) if np.ndim(target) == 0 else wanted
            kept = kept[~np.isin(kept, wanted)]
        self.kept, self.shape = kept, (self.rows, len(kept))

    def _chosen(self) -> Indices:
        return self.kept

    def _scan(self, columns: Indices, rows: int, room: Sequence[NDArray]) -> Iterator[NDArray]:
        plain = len(columns) == self.width and self.stored == self.dtype and self._used is None
        everything = np.array_equal(columns, np.arange(self.width))
        raw = None if plain and everything else np.empty((rows, self.width), dtype=self.stored)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.start)
            for turn, first in enumerate(range(0, self.rows, rows)):
                count = min(rows, self.rows - first)
                out = room[turn % len(room)]
                _fill(file, (out if raw is None else raw)[:count], self.name)
                yield out[:count] if raw is None else self._pick(raw[:count], columns, first, out)

    def _pick(self, raw: NDArray, columns: Indices, first: int, out: NDArray) -> NDArray:
        """Columns and rows that are wanted of what was read."""
        if self._used is not None:
            raw = raw[self._used[first : first + len(raw)]]
        out[: len(raw)] = raw[:, columns]
        return out[: len(raw)]


def _fill(file: Any, out: NDArray, name: str) -> None:
    """Read until the array is full; a single call may return early."""
    view = out.data.cast("B")
    while len(view):
        count = file.readinto(view)
        if not count:
            raise ValueError(
                f"{name} must be as long as its header says, got {len(view)} bytes too few: save it again."
            )
        view = view[count:]


class MappedRows(RowFile):
    """Rows of a memory map, which are copied out of it block by block."""

    def __init__(self, G: NDArray) -> None:
        self.G, self.shape, self.dtype, self.name = G, G.shape, G.dtype, "a memory map"

    def _chosen(self) -> Indices:
        return np.arange(self.shape[1])

    def _scan(self, columns: Indices, rows: int, room: Sequence[NDArray]) -> Iterator[NDArray]:
        whole = len(columns) == self.G.shape[1]
        for turn, first in enumerate(range(0, len(self.G), rows)):
            block = self.G[first : first + rows]
            if self._used is not None:
                block = block[self._used[first : first + rows]]
            out = room[turn % len(room)][: len(block)]
            np.copyto(out, block if whole else block[:, columns])
            yield out


class ArrowRows(RowFile):
    """Rows of a Parquet file, by row groups, or of an Arrow file, by record batches."""

    def __init__(self, path: Path, columns: Any, target: Any) -> None:
        purpose = f"open_rows({str(path.name)!r})"
        self.arrow = import_optional("pyarrow", "parquet", purpose)
        self.parquet = import_optional("pyarrow.parquet", "parquet", purpose) if path.suffix == ".parquet" else None
        self.name, self.path = path.name, path
        schema, count = self._open()
        self.fields = {field.name: number for number, field in enumerate(schema)}
        targets = [] if target is None else [target] if isinstance(target, str) else list(target)
        names = list(self.fields) if columns is None else list(columns)
        for name in [*names, *targets]:
            self._check_column(name, schema)
        self.names = [name for name in names if name not in targets]
        self.shape = (count, len(self.names))
        if targets:
            places = np.array([self.fields[name] for name in targets], dtype=np.intp)
            self._target = int(places[0]) if isinstance(target, str) else places
        types = {schema.field(name).type for name in self.names}
        self.dtype = np.dtype(np.float32 if types == {self.arrow.float32()} else np.float64)

    def _check_column(self, name: Any, schema: Any) -> None:
        if name not in self.fields:
            some = ", ".join(list(self.fields)[:8])
            raise ValueError(f"columns and target must name columns of {self.name}, got {name!r}: there are {some}.")
        kind, types = schema.field(name).type, self.arrow.types
        if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            raise ValueError(
                f"column {name!r} of {self.name} must hold numbers, got {kind}: name those to use by columns=..., "
                "and encode others first."
            )

    def _open(self) -> tuple[Any, int]:
        """Return the schema and the number of rows."""
        if self.parquet:
            with self.parquet.ParquetFile(self.path) as file:
                return file.schema_arrow, file.metadata.num_rows
        with self.arrow.OSFile(str(self.path)) as source:
            file = self.arrow.ipc.open_file(source)
            return file.schema, sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))

    def _chosen(self) -> Indices:
        return np.array([self.fields[name] for name in self.names or []], dtype=np.intp)

    def _room(self, rows: int, columns: int) -> NDArray:
        """A place for a block, column by column as in the file."""
        return np.empty((columns, rows), dtype=self.dtype).T

    def _batches(self, names: list[str], rows: int) -> Iterator[Any]:
        if self.parquet:
            with self.parquet.ParquetFile(self.path) as file:
                for group in range(file.num_row_groups):  # asked for several, pyarrow holds on to all it has read
                    yield from file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False)
            return
        with self.arrow.OSFile(str(self.path)) as source:
            file = self.arrow.ipc.open_file(source)
            for i in range(file.num_record_batches):
                yield file.get_batch(i).select(names)

    def _scan(self, columns: Indices, rows: int, room: Sequence[NDArray]) -> Iterator[NDArray]:
        order = list(self.fields)
        names = [order[j] for j in columns]
        turn = filled = first = 0
        for batch in self._batches(names, rows):
            while batch.num_rows:
                part = batch.slice(0, rows - filled)
                out = room[turn % len(room)]
                for j, name in enumerate(names):
                    out[filled : filled + part.num_rows, j] = part.column(name).to_numpy(zero_copy_only=False)
                filled, batch = filled + part.num_rows, batch.slice(part.num_rows)
                if filled == rows:
                    yield self._pick(out, first)
                    turn, filled, first = turn + 1, 0, first + rows
        if filled:
            yield self._pick(room[turn % len(room)][:filled], first)

    def _pick(self, block: NDArray, first: int) -> NDArray:
        """Rows that are wanted of what was read."""
        return block if self._used is None else block[self._used[first : first + len(block)]]


READERS: dict[str, type[NpyRows] | type[ArrowRows]] = {
    ".npy": NpyRows,
    ".parquet": ArrowRows,
    ".arrow": ArrowRows,
    ".feather": ArrowRows,
}


def open_rows(path: Any, *, columns: Any = None, target: Any = None) -> RowFile:
    """Open a table of numbers in a file, to choose terms from it without reading it into memory.

    What is returned takes the place of the matrix in `forward_path`, and of X in `fit` and `predict` of
    `ForwardRegressor` and `ForwardClassifier` with `basis=None`. Its rows are read in order, once for every term and a
    few times more; missing and infinite numbers are found at the first reading.

    Parameters
    ----------
    path : str or path
        A file `.npy` (of `numpy.save`, row by row), `.parquet`, `.arrow` or `.feather` (without compression of its
        own buffers or with); the last three need `pip install 'termwise[parquet]'`.
    columns : array-like of int or of str, default=None
        Columns to choose from: their numbers in `.npy`, their names otherwise. None: all but the target.
    target : int, str or list of these, default=None
        Columns of targets, which are then the attribute `y`.

    Returns
    -------
    rows : RowFile
        The table; nothing but its description has been read.

    See Also
    --------
    memory_budget : How much memory may be used.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> from termwise import ForwardRegressor, open_rows
    >>> rng = np.random.default_rng(0)
    >>> G = rng.normal(size=(500, 20))
    >>> path = os.path.join(tempfile.mkdtemp(), "table.npy")
    >>> np.save(path, np.column_stack([G, G[:, 3] - 2 * G[:, 7]]))
    >>> data = open_rows(path, target=20)
    >>> ForwardRegressor(max_terms=2).fit(data, data.y).support_.tolist()
    [7, 3]
    """
    path = Path(path)
    if path.suffix not in READERS:
        raise ValueError(f"path must end with one of {', '.join(READERS)}, got {path.name!r}: write such a file.")
    if not path.is_file():
        raise FileNotFoundError(f"path must be a file, got {str(path)!r}, which is not there: check the folder.")
    return READERS[path.suffix](path, columns, target)


def beyond_memory(G: Any) -> Any:
    """Return rows of a memory map beyond the budget as those of a file, anything else as it is.

    Checks at the edge turn maps into plain arrays, whose numbers are still those of the map.
    """
    base = G
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    mapped = isinstance(base, np.memmap) and G.flags.c_contiguous
    return MappedRows(G) if mapped and G.nbytes > budget() else G
