"""Rows that stay in a file: read block by block, in order, as often as they are needed, and never all at once.

Blocks are read by plain calls into buffers that are reused, not by touching pages of a map, so that a process whose
memory is limited can work on a file of any size at the speed of the disk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import check_indices, import_optional
from termwise._memory import budget

BLOCK_BYTES = 1 << 24  # 16 MiB: hides the latency of a disk, and still fits into the processor's caches once read
Indices = NDArray[np.intp]


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Name the file in errors of the libraries that read it."""
    try:
        yield
    except (ValueError, OSError, EOFError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{name} cannot be read ({reason}): it is truncated or damaged; write it again.") from None


def _state_of(path: Path) -> tuple[int, int]:
    """Return what changes with a file: its size and the time of its last change."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


class RowFile(ABC):
    """Rows of numbers in a file, as `open_rows` returns them.

    Attributes
    ----------
    shape : tuple
        Rows and columns, the targets left out.
    dtype : numpy.dtype
        float32 or float64: the precision the numbers are read in.
    names : list of str or None
        Names of the columns.
    y : ndarray of shape (n,) or (n, q)
        The targets, read at the first access.
    name : str
        Name of the file in error messages.
    passes : int
        Number of passes over all rows so far.

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
    _columns: Indices  # positions of the columns in the file
    _order = "C"  # of a block in memory
    _target: Any = None
    _y: NDArray[Any] | None = None
    _used: NDArray[np.bool_] | None = None  # which rows of the file are selected; None: all
    path: Path
    _state: tuple[int, int] | None = None  # of the file when it was opened

    @abstractmethod
    def _scan(self, columns: Indices, rows: int, buffers: Sequence[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Read all rows in order, selected or not, `rows` at a time, into the buffers in turn."""

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def __getitem__(self, rows: Any) -> RowFile:
        """Some rows, by a mask or by indices, which must ascend."""
        chosen = np.zeros(len(self), dtype=bool)
        chosen[rows] = True
        used = chosen
        if self._used is not None:
            used = self._used.copy()
            used[used] = chosen
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other._used, other.shape = used, (int(chosen.sum()), self.shape[1])
        other._y = None if self._y is None else self._y[chosen]
        return other

    @property
    def nbytes(self) -> int:
        """Size of the entries."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return max(1, BLOCK_BYTES // (self.dtype.itemsize * max(1, self.shape[1])))

    @property
    def y(self) -> NDArray[Any]:
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
            Their indices.
        """
        return self._gather(self._columns[np.asarray(chosen, dtype=np.intp)]).astype(np.float64, copy=False)

    def load(self) -> NDArray[Any]:
        """Read everything into memory."""
        return self._gather(self._columns)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Read everything in order, block by block; a block is valid until the next but one is read."""
        self.passes += 1
        return self._read(self._columns, 2)

    def block_lengths(self) -> list[int]:
        """Return how many rows each block has."""
        used, step = np.ones(len(self), dtype=bool) if self._used is None else self._used, self.block_rows
        return [int(used[i : i + step].sum()) for i in range(0, len(used), step)]

    def check_finite(self, block: NDArray[Any], first: int) -> None:
        """Raise unless a block is finite.

        Parameters
        ----------
        block : ndarray
            A block, as `blocks` yields it.
        first : int
            Number of its first row.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # only where the sum is not finite can a number be so
            if np.isfinite(block.sum()) or not len(bad := np.argwhere(~np.isfinite(block))):
                return
        row, j = bad[0]
        column = repr(self.names[j]) if self.names else str(self._columns[j])
        place = first + row if self._used is None else np.flatnonzero(self._used)[first + row]
        raise ValueError(
            f"{self.name} must hold finite numbers, got {block[row, j]} in row {place}, column {column}: "
            "leave out or fill in such rows first."
        )

    def _gather(self, columns: Indices) -> NDArray[Any]:
        return np.concatenate([np.array(block) for block in self._read(columns, 1)])

    def _read(self, columns: Indices, n_buffers: int) -> Iterator[NDArray[Any]]:
        """Read the selected rows in order, block by block, into buffers in turn: one pass."""
        if self._state is not None and _state_of(self.path) != self._state:
            raise ValueError(
                f"{self.name} must stay as it is while it is in use, got another size or time of change: open it again "
                "with open_rows, and fit again."
            )
        shape, first = (self.block_rows, len(columns)), 0
        buffers = [np.empty(shape, self.dtype, self._order) for _ in range(n_buffers)]  # type: ignore[call-overload]
        for block in self._scan(columns, shape[0], buffers):
            yield block if self._used is None else block[self._used[first : first + len(block)]]
            first += len(block)


class NpyRows(RowFile):
    """Rows of an array written by `numpy.save`."""

    def __init__(self, path: Path, columns: Any, target: Any) -> None:
        self.name, self.path = path.name, path
        self._state = _state_of(path)
        with open(path, "rb") as file, _readable(self.name):
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
        columns = np.arange(self.width) if columns is None else columns
        kept = check_indices("columns", columns, self.width, what="column")
        if target is not None:
            wanted = check_indices("target", np.atleast_1d(target), self.width, what="column")
            self._target = int(wanted[0]) if np.ndim(target) == 0 else wanted
            kept = kept[~np.isin(kept, wanted)]
        self._columns, self.shape = kept, (self.rows, len(kept))

    def _scan(self, columns: Indices, rows: int, buffers: Sequence[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        plain = self.stored == self.dtype and np.array_equal(columns, np.arange(self.width))
        raw = None if plain else np.empty((rows, self.width), dtype=self.stored)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.start)
            for turn, first in enumerate(range(0, self.rows, rows)):
                count = min(rows, self.rows - first)
                out = buffers[turn % len(buffers)][:count]
                view = (out if raw is None else raw[:count]).data.cast("B")
                while len(view):  # a single call may return early
                    n_read = file.readinto(view)
                    if not n_read:
                        raise ValueError(
                            f"{self.name} must be as long as its header says, got {len(view)} bytes too few: save it "
                            "again."
                        )
                    view = view[n_read:]
                if raw is not None:
                    out[...] = raw[:count, columns]
                yield out


class MappedRows(RowFile):
    """Rows of a memory map, copied out of it block by block."""

    def __init__(self, G: NDArray[Any]) -> None:
        self.G, self.shape, self.dtype, self.name = G, G.shape, G.dtype, "a memory map"
        self._columns = np.arange(G.shape[1])

    def _scan(self, columns: Indices, rows: int, buffers: Sequence[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        whole = len(columns) == self.G.shape[1]
        for turn, first in enumerate(range(0, len(self.G), rows)):
            block = self.G[first : first + rows]
            out = buffers[turn % len(buffers)][: len(block)]
            np.copyto(out, block if whole else block[:, columns])
            yield out


class ArrowRows(RowFile):
    """Rows of a Parquet file, by row groups, or of an Arrow file, by record batches."""

    _order = "F"  # as in the file

    def __init__(self, path: Path, columns: Any, target: Any) -> None:
        purpose = f"open_rows({str(path.name)!r})"
        self.arrow = import_optional("pyarrow", "parquet", purpose)
        self.parquet = import_optional("pyarrow.parquet", "parquet", purpose) if path.suffix == ".parquet" else None
        self.name, self.path = path.name, path
        self._state = _state_of(path)
        with _readable(self.name):
            schema, count = self._open()
        self.fields = {field.name: number for number, field in enumerate(schema)}
        targets = [] if target is None else [target] if isinstance(target, str) else list(target)
        names = list(self.fields) if columns is None else list(columns)
        for name in [*names, *targets]:
            if name not in self.fields:
                some = ", ".join(list(self.fields)[:8])
                raise ValueError(
                    f"columns and target must name columns of {self.name}, got {name!r}: there are {some}."
                )
            kind, types = schema.field(name).type, self.arrow.types
            if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
                raise ValueError(
                    f"column {name!r} of {self.name} must hold numbers, got {kind}: name those to use by columns=..., "
                    "and encode others first."
                )
        self.names = [name for name in names if name not in targets]
        self.shape = (count, len(self.names))
        self._columns = np.array([self.fields[name] for name in self.names], dtype=np.intp)
        if targets:
            places = np.array([self.fields[name] for name in targets], dtype=np.intp)
            self._target = int(places[0]) if isinstance(target, str) else places
        kinds = {schema.field(name).type for name in self.names}
        self.dtype = np.dtype(np.float32 if kinds == {self.arrow.float32()} else np.float64)

    def _open(self) -> tuple[Any, int]:
        """Return the schema and the number of rows."""
        if self.parquet:
            with self.parquet.ParquetFile(self.path) as file:
                return file.schema_arrow, file.metadata.num_rows
        with self.arrow.OSFile(str(self.path)) as source:
            file = self.arrow.ipc.open_file(source)
            return file.schema, sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))

    def _batches(self, names: list[str], rows: int) -> Iterator[Any]:
        if self.parquet:
            with self.parquet.ParquetFile(self.path) as file:
                for group in range(file.num_row_groups):  # reading several at once, pyarrow keeps all it has read
                    yield from file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False)
            return
        with self.arrow.OSFile(str(self.path)) as source:
            file = self.arrow.ipc.open_file(source)
            for i in range(file.num_record_batches):
                yield file.get_batch(i).select(names)

    def _scan(self, columns: Indices, rows: int, buffers: Sequence[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        order = list(self.fields)
        names = [order[j] for j in columns]
        turn = filled = 0
        batches = self._batches(names, rows)
        while True:
            with _readable(self.name):
                batch = next(batches, None)
            if batch is None:
                break
            while batch.num_rows:
                part = batch.slice(0, rows - filled)
                out = buffers[turn % len(buffers)]
                for j, name in enumerate(names):
                    out[filled : filled + part.num_rows, j] = part.column(name).to_numpy(zero_copy_only=False)
                filled, batch = filled + part.num_rows, batch.slice(part.num_rows)
                if filled == rows:
                    yield out
                    turn, filled = turn + 1, 0
        if filled:
            yield buffers[turn % len(buffers)][:filled]


READERS: dict[str, type[NpyRows] | type[ArrowRows]] = {
    ".npy": NpyRows,
    ".parquet": ArrowRows,
    ".arrow": ArrowRows,
    ".feather": ArrowRows,
}


def open_rows(path: Any, *, columns: Any = None, target: Any = None) -> RowFile:
    """Open a table of numbers in a file, to choose terms from it without reading it into memory.

    The returned object replaces the matrix in `forward_path`, and X in `fit` and `predict` of `ForwardRegressor` and
    `ForwardClassifier` with `basis=None`. Its rows are read in order, once per term and a few times more; missing and
    infinite numbers are detected in the first pass.

    Parameters
    ----------
    path : str or path
        A file `.npy` (of `numpy.save`, row by row), `.parquet`, `.arrow` or `.feather` (without compression of its
        own buffers or with); the last three need `pip install 'termwise[parquet]'`.
    columns : array-like of int or of str, default=None
        Columns to choose from: their indices in `.npy`, their names otherwise. None: all but the target.
    target : int, str or list of these, default=None
        Columns of the targets, returned by the attribute `y`.

    Returns
    -------
    rows : RowFile
        The table; only its header has been read.

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
    """Return a memory map beyond the memory budget as rows of a file, anything else unchanged.

    Validation turns maps into plain arrays, whose memory is still that of the map.
    """
    base = G
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    mapped = isinstance(base, np.memmap) and G.flags.c_contiguous
    return MappedRows(G) if mapped and G.nbytes > budget() else G
