"""Read a table from delimited text, Parquet or NumPy files; pandas parses what is detected here."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import import_optional
from termwise._memory import budget
from termwise.cli.columns import (
    AMBIGUOUS,
    NA_VALUES,
    Column,
    column_of,
    decimal_mark,
    is_missing,
    is_number,
    row_number,
    values_of,
)
from termwise.explain.groups import unique_names

pd = import_optional("pandas", "cli", "The command line")

MEMORY_PER_BYTE = 8  # of a text: its bytes, its characters, a copy of these, and the table
SAMPLE_CHARS = 65_536  # beginning of a file from which the dialect is detected,
SAMPLE_LINES = 10  # extended to these lines where they are longer,
SAMPLE_ROWS = 500  # up to so many records
STDIN = Path("-")
REMEDY = "save the table as CSV (UTF-8), Parquet or NPZ"
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}

# JSON, XML or HTML: a bracket before a value, a declaration, or a tag that no delimiter follows. Names of columns may
# begin with a bracket too, such as `[mg/L]` and `<LOD>`.
JSON = r'[\[{]\s*(?:["\[{}\]]|-?\d+(?![\w.]*\])|$)'
MARKUP = re.compile(JSON + r"|<(?:[?!]|/?[a-z][\w:.-]*(?:\s[^<>]*)?>(?!\s*[,;|\t]))", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """A table as read.

    Attributes
    ----------
    path : Path
        The file.
    columns : dict of str to Column
        Columns by name, in the order of the file.
    n_rows : int
        Number of rows.
    notes : list of str
        How the file was interpreted, for the user.
    location : callable
        Maps the index of a row to its place in the file, such as "line 3".
    decimal : {".", ","} or None
        Decimal mark of its numbers; None if they do not tell, and for files that hold numbers as such.
    verbatim : dict of str to ndarray
        Some columns as they are in the file, None where a field is empty.
    """

    path: Path
    columns: dict[str, Column]
    n_rows: int
    notes: list[str] = field(default_factory=list)
    location: Callable[[int], str] = row_number
    decimal: str | None = None
    verbatim: dict[str, NDArray[Any]] = field(default_factory=dict)


def read_table(
    path: str | Path,
    as_text: Iterable[str] = (),
    expected: Iterable[str] = (),
    missing: Iterable[str] = (),
    *,
    numeric: Iterable[str] = (),
    decimal: str | None = None,
    verbatim: Iterable[str] = (),
) -> Table:
    r"""Read a table; the format is detected from the content, not from the name of the file.

    Parameters
    ----------
    path : str or Path
        A CSV file (delimited by commas, semicolons, tabs, bars or, if it is numeric, spaces; in UTF-8, UTF-16 with a
        byte order mark or Windows-1252), Parquet, NPZ or NPY; gzipped or not. "-" is the standard input.
    as_text : iterable of str, default=()
        Columns that are read as strings even if they look numeric.
    expected : iterable of str, default=()
        Column names: a first line that contains one of them is a header, even if the names look numeric.
    missing : iterable of str, default=()
        Words that stand for a missing value, in addition to the usual ones; numbers in any notation. `none`, `-` and
        `.` are values unless they are given here, or all other entries of a column are numbers or dates.
    numeric : iterable of str, default=()
        Columns that are known to hold numbers or dates, in which `none`, `-` and `.` are missing values.
    decimal : {".", ","} or None, default=None
        Decimal mark where the numbers of a text have two meanings, such as 1,234.
    verbatim : iterable of str, default=()
        Columns that are returned as they are in the file, too.

    Returns
    -------
    table : Table
        Columns as numbers, strings or dates, and notes on how the file was interpreted.

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
    raw, words = read_bytes(path), {word.strip().lower() for word in missing}
    how = ReadOptions(set(as_text), set(numeric), words, decimal, set(verbatim))
    if raw.startswith((b"PAR1", b"\x93NUMPY", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        frame = read_parquet(raw, path) if raw.startswith(b"PAR1") else read_arrays(raw, path)
        names, notes = column_names(frame.columns)
        parts = {name: frame.iloc[:, j] for j, name in enumerate(names)}
        typed = {name: column_of(part, **how.column(name)) for name, part in parts.items()}
        kept = {name: values_of(parts[name]) for name in how.verbatim.intersection(names)}
        table = Table(path, typed, len(frame), notes, verbatim=kept)
    else:
        table = read_text(raw, path, set(expected), how)
    if not table.n_rows:
        raise ValueError(f"{path} has column names but no rows: add the rows.")
    if not table.columns:
        raise ValueError(f"{path} has no columns: check how it was written.")
    return table


@dataclass(frozen=True)
class ReadOptions:
    """How columns are to be read; see `read_table`."""

    as_text: set[str]
    numeric: set[str]
    missing: set[str]  # in lower case
    decimal: str | None
    verbatim: set[str]

    def column(self, name: str) -> dict[str, Any]:
        """Return the arguments of `column_of` for a column."""
        words = self.missing | AMBIGUOUS if name in self.numeric else self.missing
        return {"as_text": name in self.as_text, "missing_words": words}


def read_bytes(path: Path) -> bytes:
    """Return the content of a file or of the standard input, decompressed."""
    if path.is_dir():
        raise ValueError(f"{path} must be a file, got a folder: name one of the files in it.")
    if path != STDIN and not path.exists():
        raise ValueError(f"{path} does not exist: check the name, and the folder it is in.")
    try:
        raw = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        raw = decompress(raw, path) if raw.startswith(b"\x1f\x8b") else raw
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error}): check the file and its rights.") from None
    except (EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be decompressed ({error}): fetch or write it again.") from None
    if not raw.strip():
        raise ValueError(f"{path} is empty: it must hold a table, a header in its first line and a row in each other.")
    return raw


def decompress(raw: bytes, path: Path) -> bytes:
    """Return the content of a gzipped file, unless it would not fit into memory."""
    limit = budget() // MEMORY_PER_BYTE
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path} must have at most {limit >> 20} MiB when decompressed, for the memory that is free, "
                         "got more: read a part of it, or convert it to Parquet.")  # fmt: skip
    return content


def column_names(labels: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Return distinct column names that are not empty, and notes on those that were repeated."""
    found = [" ".join(str(label).split()) or f"column {j}" for j, label in enumerate(labels, start=1)]
    names = unique_names(found)
    repeated = [pair for pair in zip(found, names, strict=True) if pair[0] != pair[1]]
    return names, [f"duplicate column {base} is renamed {name}" for base, name in repeated]


# -- delimited text ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dialect:
    """How a text is written."""

    delimiter: str
    decimal: str | None  # None: the numbers do not tell
    header: bool
    names: list[str]
    boolean: set[str]  # columns of "true" and "false", which pandas would convert
    padded: set[str]  # columns with numbers such as 00501
    notes: list[str]


def read_text(raw: bytes, path: Path, expected: set[str], how: ReadOptions) -> Table:
    """Read delimited text: the dialect is detected from its beginning, then pandas parses all of it.

    In a table of one column a blank line is a missing value, except at the beginning and at the end.
    """
    text, encoding = decode(raw, path)
    dialect = detect_dialect(text, expected, how.decimal)
    notes = dialect.notes + [f"the text is encoded in {encoding}"] * (encoding != "utf-8")
    spaces, single, decimal = dialect.delimiter == " ", len(dialect.names) == 1, dialect.decimal or "."
    content = (text.strip() if single else text).encode(errors="replace")
    as_text, kept = how.as_text | dialect.boolean, sorted(how.verbatim.intersection(dialect.names))
    parse = partial(
        pd.read_csv, sep=r"\s+" if spaces else dialect.delimiter, header=0 if dialect.header else None,
        names=dialect.names, index_col=False, keep_default_na=False, decimal=decimal, skipinitialspace=not spaces,
        low_memory=False, skip_blank_lines=not single,
    )  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = parse(io.BytesIO(content), dtype=dict.fromkeys(as_text.intersection(dialect.names), str),
                          na_values=["", *NA_VALUES])  # fmt: skip
            strings = parse(io.BytesIO(content), dtype=str, na_values=[""], usecols=kept) if kept else {}
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, ValueError) as error:
        raise ValueError(parser_message(text, path, dialect, error)) from None
    location = partial(line_of, text, dialect)
    columns = {name: column_of(frame[name], **how.column(name), decimal=decimal, location=location)
               for name in dialect.names}  # fmt: skip
    for name in dialect.padded:
        if columns[name].kind == "number":
            hint = "has numbers that begin with zeros, as identifiers do: --category {} reads them as categories"
            columns[name] = replace(columns[name], hint=hint.format(shlex.quote(name)))
    verbatim = {name: values_of(strings[name]) for name in kept}
    return Table(path, columns, len(frame), notes, location, dialect.decimal, verbatim)


def decode(raw: bytes, path: Path) -> tuple[str, str]:
    """Return a text and its encoding: UTF-16 with a byte order mark, UTF-8 or, where that fails, Windows-1252."""
    encoding = "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        encoding = "Windows-1252"
        text = raw.decode("cp1252", errors="replace")
    if "\0" in text:
        raise ValueError(f"{path} is not text (it holds zero bytes): {REMEDY}.")
    text = text.removeprefix("\ufeff")
    if MARKUP.match(text[:SAMPLE_CHARS].lstrip()):
        raise ValueError(f"{path} looks like JSON, XML or a web page, not like a table: {REMEDY}.")
    return text, encoding


def records(text: str, delimiter: str, blank: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Iterate over records with the number of the line each begins in.

    Blank lines are skipped; with `blank`, only those before the first record. Iteration ends at a field that is too
    long for the csv module.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    line, begun = 1, False
    with suppress(csv.Error):
        for fields in reader:
            if delimiter == " ":
                fields = list(filter(None, fields))  # of several spaces in a row, or at the end of a line
            if any(word.strip() for word in fields) or len(fields) > 1 or (blank and begun):
                begun = True
                yield line, fields
            line = reader.line_num + 1


def detect_dialect(text: str, expected: Collection[str] = (), usual: str | None = None) -> Dialect:
    """Detect delimiter, header and decimal mark from the beginning of a text; the `usual` mark decides between two."""
    head = max(text[:SAMPLE_CHARS], "\n".join(text.split("\n", SAMPLE_LINES)[:SAMPLE_LINES]), key=len)
    complete = len(head) == len(text)
    samples = {}
    for delimiter in DELIMITERS:
        rows = [fields for _, fields in islice(records(head, delimiter), SAMPLE_ROWS)] or [[""]]
        samples[delimiter] = rows if complete or len(rows) == 1 else rows[:-1]  # the last one may be cut off
    delimiter = max(DELIMITERS, key=lambda each: delimiter_score(samples[each], each))  # the first of equals: a comma
    rows = samples[delimiter]
    header = not {" ".join(word.split()) for word in rows[0]}.isdisjoint(expected) or has_header(rows)
    data = rows[header:]
    if header:
        names, notes = column_names(rows[0])
    else:
        names = [f"x{j}" for j in range(max(map(len, rows)))]
        notes = [f"no header in the first line: the columns are named {names[0]} to {names[-1]}"]
    words = [word for row in data for word in row]
    decimal = decimal_mark(words, delimiter, usual)
    notes += [f"fields are separated by {DELIMITERS[delimiter]}"] * (delimiter != ",")
    if decimal is not None and decimal != (decimal_mark(words, delimiter) or "."):
        name = "commas" if decimal == "," else "points"
        notes.append(f"numbers are read with decimal {name}, as in the fit: those of this table have two meanings")
    elif decimal == ",":
        notes.append("numbers are written with decimal commas")
    columns = {name: [row[j].strip() for row in data if j < len(row)] for j, name in enumerate(names)}
    boolean = {name for name, words in columns.items() if any(word.lower() in ("true", "false") for word in words)}
    padded = {name for name, words in columns.items() if any(re.fullmatch(r"0\d+", word) for word in words)}
    return Dialect(delimiter, decimal, header, names, boolean, padded, notes)


def delimiter_score(rows: list[list[str]], delimiter: str) -> tuple[float, float, int]:
    """Rate a delimiter by the share of records of equal length, then by the share of fields without other delimiters.

    `csv.Sniffer` would split "1,5;2,5" at the commas if there is no header.
    """
    width, n_equal = Counter(map(len, rows)).most_common(1)[0]
    words = [word for row in rows for word in row]
    if delimiter == " ":  # names and sentences contain spaces as well: only numbers are separated by them
        data = words[len(rows[0]) :]
        if n_equal < len(rows) or not all(is_number(word) or is_missing(word) for word in data):
            return 0.0, 0.0, 1
    others = set(DELIMITERS) - {delimiter, " "}
    clean = sum(is_number(word) or others.isdisjoint(word) for word in words)
    return (n_equal / len(rows), clean / len(words), width) if width > 1 else (0.0, 0.0, 1)


def has_header(rows: list[list[str]]) -> bool:
    """Whether the first record holds names: it does unless it is numeric wherever the others are."""
    first, others = rows[0], rows[1:]
    if not others:
        return not all(is_number(word) or is_missing(word) for word in first)
    numeric = []
    for j, name in enumerate(first):
        words = [row[j] for row in others if j < len(row) and not is_missing(row[j])]
        if words and sum(map(is_number, words)) > len(words) / 2:
            numeric.append(name)
    return not numeric or any(not is_number(name) and not is_missing(name) for name in numeric)


def line_of(text: str, dialect: Dialect, row: int) -> str:
    """Return the line in which a row begins, for a message."""
    for index, (line, _) in enumerate(records(text, dialect.delimiter, blank=len(dialect.names) == 1)):
        if index == row + dialect.header:
            return f"line {line}"
    return row_number(row)


def parser_message(text: str, path: Path, dialect: Dialect, error: Exception) -> str:
    """Explain why a text cannot be parsed, with the line."""
    expected, line = len(dialect.names), 1
    for line, fields in records(text, dialect.delimiter):
        if len(fields) > expected:
            return (
                f"{path} must have {expected} fields in each row, as in its first, got {len(fields)} in line {line}: "
                "correct it, put quotation marks around fields that hold a delimiter, or remove lines above the names."
            )
    if "EOF inside string" in str(error):
        return f"{path} has a quotation mark in line {line} that is never closed: close or remove it."
    return f"{path} cannot be read as a table ({error}): check how it was written."


# -- binary files ------------------------------------------------------------------------------------------------------


def read_parquet(raw: bytes, path: Path) -> Any:
    """Read a Parquet file as a data frame."""
    pq = import_optional("pyarrow.parquet", "parquet", "Reading Parquet files")
    try:
        return pq.read_table(io.BytesIO(raw)).to_pandas()
    except Exception as error:  # pyarrow has many kinds
        raise ValueError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}): write it again.") from None


def read_arrays(raw: bytes, path: Path) -> Any:
    """Read an NPY or NPZ file as a data frame: a column per vector, and one per column of a matrix, numbered."""
    archive = io.BytesIO(raw)
    if not raw.startswith(b"\x93NUMPY") and not (
        zipfile.is_zipfile(archive) and all(name.endswith(".npy") for name in zipfile.ZipFile(archive).namelist())
    ):
        raise ValueError(f"{path} looks like an Excel workbook or a ZIP archive, not like a table: {REMEDY}.")
    try:
        content = np.load(io.BytesIO(raw), allow_pickle=False)
        arrays = {"x": content} if isinstance(content, np.ndarray) else {key: content[key] for key in content.files}
        frames = [pd.DataFrame(array) for array in arrays.values()]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as arrays of numbers or strings ({error}): save vectors and matrices, "
                         "not Python objects.") from None  # fmt: skip
    if len(set(map(len, frames))) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{path} must hold vectors and matrices with a row for each sample, got {shapes}: leave out "
                         "arrays that are not part of the table.")  # fmt: skip
    for (name, array), frame in zip(arrays.items(), frames, strict=True):
        if not array.dtype.names:  # fields of a structured array have names
            name = "x" if name == "X" else name
            frame.columns = [name] if array.ndim == 1 else [f"{name}{j}" for j in frame.columns]
    return pd.concat(frames, axis=1)
