"""Reading a table as a person wrote it: CSV in its many dialects, Parquet, NumPy's files."""

from __future__ import annotations

import io
import shlex
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import import_optional
from termwise.cli.tables.layout import Layout, clean_names, records, sniff, unused
from termwise.cli.tables.notation import MISSING, is_missing, read_words
from termwise.cli.tables.source import beginning, decode, kind_of, read_bytes

NOTHING: Any = None  # what stands where text is missing


@dataclass(frozen=True)
class Column:
    """One column: numbers as float64 with NaN, dates and other text as str with None."""

    kind: str  # "number", "date", "text", "empty" or "other"
    values: NDArray
    trouble: str = ""  # why it cannot be used, if it is neither numbers nor categories
    remark: str = ""  # what should be known before it is used

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are not there."""
        return np.isnan(self.values) if self.kind == "number" else self.values == NOTHING


@dataclass(frozen=True)
class Table:
    """A table as it was read.

    Attributes
    ----------
    path : Path
        Where it is from.
    columns : dict of str to Column
        Its columns by their names, in order.
    n_rows : int
        Number of rows.
    notes : list of str
        What a person should know of how it was read.
    where : callable
        Says where in the file a row is: the line it begins in.
    """

    path: Path
    columns: dict[str, Column]
    n_rows: int
    notes: list[str] = field(default_factory=list)
    where: Callable[[int], str] = lambda row: f"row {row + 1}"


def read_table(path: str | Path, as_text: Iterable[str] = (), expected: Iterable[str] = ()) -> Table:
    r"""Read a table as a person wrote it.

    Parameters
    ----------
    path : str or Path
        A CSV file (fields separated by commas, semicolons, tabs, bars or, for numbers, spaces; in UTF-8, UTF-16 or
        Windows-1252), Parquet, NPZ or NPY; gzipped or not. What it is, its content says, not its name. "-" is the
        standard input.
    as_text : iterable of str, default=()
        Columns whose values are names even if they look like numbers.
    expected : iterable of str, default=()
        Names of columns that are asked for: a first line that has one of them has names, whatever they look like.

    Returns
    -------
    table : Table
        Its columns, as numbers, text or dates, and notes on how it was read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from termwise.cli.tables import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prices.csv"
    >>> _ = path.write_text("size;price\n1,5;3\n2,25;4\n")
    >>> table = read_table(path)
    >>> table.columns["size"].values
    array([1.5 , 2.25])
    >>> table.notes
    ['fields are separated by semicolons', 'numbers are written with decimal commas']
    """
    path = Path(path)
    raw = read_bytes(path)
    kind = kind_of(raw, path)
    if kind == "text":
        return read_text(raw, path, set(as_text), set(expected))
    frame, notes = read_parquet(raw, path) if kind == "parquet" else read_numpy(raw, path, kind)
    names, more = clean_names([str(name) for name in frame])
    columns = {
        name: typed(frame.iloc[:, j], name in as_text, lambda row: f"row {row + 1}", False)
        for j, name in enumerate(names)
    }
    return checked(Table(path, columns, len(frame), notes + more))


def checked(table: Table) -> Table:
    """Return a table if there is anything in it."""
    if not table.n_rows:
        raise ValueError(f"{table.path} has names of columns but no rows: add the rows.")
    if not table.columns:
        raise ValueError(f"{table.path} has no columns: check how it was written.")
    return table


# -- text --------------------------------------------------------------------------------------------------------------


def read_text(raw: bytes, path: Path, as_text: set[str], expected: set[str]) -> Table:
    """Read a table of text: look at its beginning, then have pandas read all of it."""
    raw, encoding = decode(raw, path)
    sample = beginning(raw)
    layout = sniff(sample.decode("utf-8", errors="ignore"), len(sample) == len(raw), expected)
    notes = list(layout.notes)
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"the text is encoded in {encoding}")
    frame = parse(raw, path, layout, as_text | set(layout.switches))

    def where(row: int) -> str:
        return line_of(raw, layout, row)

    columns = {name: typed(frame[name], name in as_text, where, layout.comma) for name in layout.names}
    for name in layout.padded:
        if columns[name].kind == "number":
            hint = (
                f"has numbers that begin with zeros, as names do: --category {shlex.quote(name)} takes them for names"
            )
            columns[name] = replace(columns[name], remark=hint)
    return checked(Table(path, columns, len(frame), notes, where))


def parse(raw: bytes, path: Path, layout: Layout, words: set[str]) -> Any:
    """Have pandas read the text in the layout found."""
    pd = import_optional("pandas", "cli", "Reading tables")
    spaces = layout.delimiter == " "
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.BytesIO(raw),
                sep=r"\s+" if spaces else layout.delimiter,
                header=0 if layout.header else None,
                names=layout.names,
                index_col=False,
                dtype={name: str for name in layout.names if name in words},
                na_values=MISSING,
                decimal="," if layout.comma else ".",
                skipinitialspace=not spaces,
                low_memory=False,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, ValueError) as error:
        raise ValueError(what_is_wrong(raw, path, layout, error)) from None


def what_is_wrong(raw: bytes, path: Path, layout: Layout, error: Exception) -> str:
    """Say in which line a table is not one."""
    expected = len(layout.names)
    begins = 1
    for begins, fields in records(raw.decode("utf-8", errors="replace"), layout.delimiter):
        if len(fields) > expected:
            return (
                f"{path} must have {expected} fields in each row, as in its first, got {len(fields)} in line {begins}: "
                "correct it, put quotation marks around fields that hold a delimiter, or remove lines above the names."
            )
    if "EOF inside string" in str(error):
        return f"{path} has a quotation mark in line {begins} that is never closed: close or remove it."
    return f"{path} cannot be read as a table ({error}): check how it was written."


def line_of(raw: bytes, layout: Layout, row: int) -> str:
    """Say in which line of the file a row begins."""
    lines = (begins for begins, _ in records(raw.decode("utf-8", errors="replace"), layout.delimiter))
    for number, line in enumerate(lines):
        if number == row + layout.header:
            return f"line {line}"
    return f"row {row + 1}"


# -- other files -------------------------------------------------------------------------------------------------------


def read_parquet(raw: bytes, path: Path) -> tuple[Any, list[str]]:
    """Read a Parquet file."""
    pq = import_optional("pyarrow.parquet", "parquet", "Reading Parquet files")
    import_optional("pandas", "cli", "Reading tables")
    try:
        return pq.read_table(io.BytesIO(raw)).to_pandas(), []
    except Exception as error:  # pyarrow has many kinds
        raise ValueError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}): write it again.") from None


def read_numpy(raw: bytes, path: Path, kind: str) -> tuple[Any, list[str]]:
    """Read NumPy's arrays: a vector is a column, a matrix one for each of its columns, numbered after its name."""
    pd = import_optional("pandas", "cli", "Reading tables")
    try:
        content = np.load(io.BytesIO(raw), allow_pickle=False)
        arrays = {"x": content} if kind == "npy" else {name: content[name] for name in content.files}
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"{path} cannot be read as arrays of numbers or text ({error}): save such arrays, not Python objects."
        ) from None
    lengths = {len(array) if array.ndim else 0 for array in arrays.values()}
    if len(lengths) != 1 or any(array.ndim > 2 for array in arrays.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{path} must hold vectors and matrices with a row for each sample, got {shapes}: leave out "
                         "what is no part of the table.")  # fmt: skip
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        name = name.lower() if name == "X" else name
        if array.dtype.names:
            columns.update({str(part): array[part] for part in array.dtype.names})
        elif array.ndim == 1:
            columns[unused(name, list(columns))] = array
        else:
            columns.update({unused(f"{name}{j}", list(columns)): array[:, j] for j in range(array.shape[1])})
    return pd.DataFrame(columns), [f"columns of arrays are called {', '.join(columns)}"] * (len(columns) < 8)


# -- columns -----------------------------------------------------------------------------------------------------------


def typed(series: Any, as_text: bool, where: Callable[[int], str], comma: bool) -> Column:
    """Tell what a column holds: numbers, names, dates or nothing."""
    pd = import_optional("pandas", "cli", "Reading tables")
    types = pd.api.types
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    if types.is_datetime64_any_dtype(series.dtype):
        words = series.dt.strftime("%Y-%m-%dT%H:%M:%S.%f").astype(object)
        return Column("date", np.where(series.isna(), NOTHING, words))
    if types.is_bool_dtype(series.dtype) or as_text:
        series = series.astype(object)
    elif types.is_numeric_dtype(series.dtype):
        return number_column(np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan)))
    return text_column(series, as_text, where, comma)


def number_column(values: NDArray[np.float64]) -> Column:
    """A column of numbers, unless none of them is there."""
    return Column("empty", np.full(len(values), NOTHING)) if np.isnan(values).all() else Column("number", values)


def text_column(series: Any, as_text: bool, where: Callable[[int], str], comma: bool) -> Column:
    """Look at the words of a column: they may be numbers or dates after all."""
    pd = import_optional("pandas", "cli", "Reading tables")
    try:
        codes, different = pd.factorize(np.asarray(series, dtype=object))
    except TypeError:  # lists, dictionaries
        return Column("other", np.full(len(series), NOTHING), "holds neither numbers nor text")
    words = [plainly(value) for value in different]
    there = np.array([not is_missing(word) for word in words] + [False])
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    kept = np.flatnonzero(there[:-1])
    if not len(kept):
        return Column("empty", np.full(len(series), NOTHING))
    text = np.where(there[codes], np.array([*words, ""], dtype=object)[codes], NOTHING)
    if as_text:
        return Column("text", text)
    reading = read_words([words[j] for j in kept], counts[kept], comma)
    if reading.kind == "number":
        numbers = np.full(len(words) + 1, np.nan)
        numbers[kept] = reading.numbers
        remark = f"is written with {reading.sign}, which is left out" if reading.sign else ""
        return replace(number_column(numbers[codes]), remark=remark)
    if not reading.strange.any():
        return Column(reading.kind, text)
    row = int(np.flatnonzero(np.isin(codes, kept[reading.strange]))[0])
    return Column("text", text, f"{text[row]!r} in {where(row)} {reading.why}")


def plainly(value: Any) -> str:
    """Write a value as a word."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
