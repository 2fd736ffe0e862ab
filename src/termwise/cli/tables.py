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

pd = import_optional("pandas", "cli", "The command line")

MEMORY_PER_BYTE = 8  # of a text: its bytes, its characters, a copy of these, and the table
SAMPLE_CHARS = 65_536  # beginning of a file from which the dialect is detected,
SAMPLE_LINES = 10  # extended to these lines where they are longer,
SAMPLE_ROWS = 500  # up to so many records
SAMPLE_WORDS = 2_000  # distinct strings from which the type of a column is detected, before all are converted
STDIN = Path("-")
REMEDY = "save the table as CSV (UTF-8), Parquet or NPZ"
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}

# Spellings of a missing value; an empty field is one, too.
NA_VALUES = ["NA", "NaN", "nan", "Nan", "-NaN", "-nan", "<NA>", "na", "N/A", "n/a", "N.A.", "n.a.", "#N/A", "#N/A N/A",
             "#NA", "NULL", "Null", "null", "(null)", "?", "missing", "Missing", "MISSING", "1.#IND", "1.#QNAN",
             "-1.#IND", "-1.#QNAN", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"]  # fmt: skip
# Words that may be a value, the absence of a thing, as well: missing where all other entries of a column are numbers,
# or dates, and where the user says so.
AMBIGUOUS = {"none", "-", "--", "---", ".", "..", "...", "\u2013", "\u2014"}
MISSING = {"", *(word.lower() for word in NA_VALUES)}

GROUPING = " \u00a0\u202f'\u2019"  # thousands separators with either decimal mark
PATTERN = r"[-+]?(?:(?:[1-9]\d{,2}(?:[%s]\d{3})+|\d+)(?:[%s]\d*)?|[%s]\d+)(?:[eE][-+]?\d+)?|[-+]?(?i:inf(?:inity)?)"
NUMBER = {mark: re.compile(PATTERN % (other + GROUPING, mark, mark)) for mark, other in (".,", ",.")}
PLAIN = {".": str.maketrans("", "", "," + GROUPING), ",": str.maketrans(",", ".", "." + GROUPING)}
SIGN = re.compile(r"^([-+]?)[%$€£¥]\s?|\s?[%$€£¥]$")  # of per cent or a currency, before or after a number
# JSON, XML or HTML: a bracket before a value, a declaration, or a tag that no delimiter follows. Names of columns may
# begin with a bracket too, such as `[mg/L]` and `<LOD>`.
JSON = r'[\[{]\s*(?:["\[{}\]]|-?\d+(?![\w.]*\])|$)'
MARKUP = re.compile(JSON + r"|<(?:[?!]|/?[a-z][\w:.-]*(?:\s[^<>]*)?>(?!\s*[,;|\t]))", re.IGNORECASE)
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
YEAR = r"\d\d(?:\d\d)?"
DAY = rf"\d{{4}}([-/.])\d\d?\1\d\d?|\d\d?([-/.])\d\d?\2{YEAR}|(\d\d?[. -]*{MONTH}|{MONTH} *\d\d?)[., -]+{YEAR}"
CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?:[ap]m|z|utc|[-+]\d\d:?\d\d)?"
DATE = re.compile(rf"(?:{DAY})(?:[T ] ?{CLOCK})?|{CLOCK}", re.IGNORECASE)


def row_number(row: int) -> str:
    """Return the place of a row in a file that has no lines, for a message."""
    return f"row {row + 1}"


@dataclass(frozen=True)
class Column:
    """One column: float64 with NaN, or, if it is not numeric, str with None."""

    kind: str  # "number", "date", "text", "empty" or "other"
    values: NDArray[Any]
    problem: str = ""  # why it is neither numeric nor categorical
    hint: str = ""  # for the user, if the column is used
    found: frozenset[str] = frozenset()  # words given for a missing value that occur in it

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Mask of the missing values."""
        nothing: Any = None
        return np.isnan(self.values) if self.kind == "number" else self.values == nothing


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
    how = Reading(set(as_text), set(numeric), words, decimal, set(verbatim))
    if raw.startswith((b"PAR1", b"\x93NUMPY", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        frame = read_parquet(raw, path) if raw.startswith(b"PAR1") else read_arrays(raw, path)
        names, notes = unique_names(frame.columns)
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
class Reading:
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


def unique_names(labels: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Return distinct column names that are not empty, and notes on those that were repeated."""
    names: list[str] = []
    notes = []
    for j, label in enumerate(labels, start=1):
        base = name = " ".join(str(label).split()) or f"column {j}"
        number = 1
        while name in names:
            number += 1
            name = f"{base} ({number})"
        if number > 1:
            notes.append(f"duplicate column {base} is renamed {name}")
        names.append(name)
    return names, notes


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


def read_text(raw: bytes, path: Path, expected: set[str], how: Reading) -> Table:
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
        names, notes = unique_names(rows[0])
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


def decimal_mark(words: Iterable[str], delimiter: str, usual: str | None = None) -> str | None:
    """Return the decimal mark: that of most numbers which have one meaning only, unlike 1,234; None if none tells.

    If these do not decide, the usual mark does, if it is known, or a semicolon as the delimiter: it is used where
    commas are decimal marks. Fields that are separated by commas have decimal points unless there are numbers with
    commas.
    """
    bare = [strip_sign(word) for word in words]
    point = [bool(NUMBER["."].fullmatch(word)) for word in bare]
    comma = [bool(NUMBER[","].fullmatch(word)) for word in bare]
    if sum(point) != sum(comma):
        return "," if sum(comma) > sum(point) else "."
    marks = {mark for word, number in zip(bare, comma, strict=True) if number for mark in word if mark in ",."}
    if not marks or (delimiter == "," and "," not in marks):
        return None
    return usual or ("," if delimiter == ";" and "," in marks else None)


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


# -- types of columns --------------------------------------------------------------------------------------------------


def is_missing(word: str) -> bool:
    """Whether a string may denote a missing value, for detecting the dialect."""
    return word.strip().lower() in MISSING | AMBIGUOUS


def strip_sign(word: str) -> str:
    """Return a string without a sign of per cent or a currency, with an ASCII minus."""
    return SIGN.sub(r"\1", word.strip().replace("\u2212", "-"), count=1)


def is_number(word: str) -> bool:
    """Whether a string is a number, with a decimal point or a decimal comma."""
    word = strip_sign(word)
    return bool(NUMBER["."].fullmatch(word) or NUMBER[","].fullmatch(word))


def as_number(word: str, decimal: str) -> float:
    """Return a string as a number, with this decimal mark where both fit; NaN if it is none."""
    word = strip_sign(word)
    marks = [mark for mark in (decimal, "," if decimal == "." else ".") if NUMBER[mark].fullmatch(word)]
    return float(word.translate(PLAIN[marks[0]])) if marks else np.nan


def values_of(series: Any) -> NDArray[Any]:
    """Return a column of a data frame as it is: numbers, or strings with None where a value is missing."""
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return column_of(series, as_text=False).values
    numeric = pd.api.types.is_numeric_dtype(series.dtype)
    if numeric and (series.dtype.kind == "f" or not series.isna().any()):
        return np.asarray(series.to_numpy())
    present = zip(series.tolist(), series.notna(), strict=True)
    return np.array([(value if numeric else str(value)) if known else None for value, known in present], dtype=object)


def as_word(value: Any) -> str:
    """Return a value as a string, whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def column_of(
    series: Any,
    as_text: bool,
    missing_words: Collection[str] = (),
    decimal: str = ".",
    location: Callable[[int], str] = row_number,
) -> Column:
    """Return a column of a data frame with its type: strings may be numbers or dates."""
    dtype, types = series.dtype, pd.api.types
    empty = Column("empty", np.full(len(series), None))
    given = {word: number for word in missing_words if (number := as_number(word, decimal)) == number}
    if types.is_datetime64_any_dtype(dtype):
        words = series.dt.strftime("%Y-%m-%dT%H:%M:%S.%f").astype(object)
        return replace(empty, kind="date", values=words.where(series.notna(), None).to_numpy())
    if types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype) and not as_text:
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        found = frozenset(word for word, number in given.items() if np.any(numbers == number))
        numbers = np.where(np.isin(numbers, list(given.values())), np.nan, numbers) if found else numbers
        return replace(empty if np.isnan(numbers).all() else Column("number", numbers), found=found)
    try:
        codes, distinct = pd.factorize(np.asarray(series, dtype=object))
    except TypeError:  # lists, dictionaries
        return replace(empty, kind="other", problem="holds neither numbers nor strings")
    words = np.array([*map(as_word, distinct), ""], dtype=object)  # the last one for missing values, code -1
    lower = [word.strip().lower() for word in words]
    same = [as_number(word, decimal) if given and not as_text else np.nan for word in words]
    missing = np.array([word in MISSING or word in missing_words or number in given.values()
                        for word, number in zip(lower, same, strict=True)])  # fmt: skip
    found = frozenset(word for word in missing_words if word in lower or given.get(word) in same)
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    unsure = np.array([word in AMBIGUOUS for word in lower]) & ~missing
    kind = "text"
    if not as_text and not missing.all():
        kind, numbers, sign = classify(words[~missing], counts[~missing], decimal)
        if kind in ("mixed", "text") and unsure.any() and not (missing | unsure).all():
            others = classify(words[~missing & ~unsure], counts[~missing & ~unsure], decimal)
            if others[0] in ("number", "date"):
                (kind, numbers, sign), missing = others, missing | unsure
    words[missing] = None
    if missing.all() or as_text:
        return replace(empty, found=found) if missing.all() else Column("text", words[codes], found=found)
    if kind == "number":
        values = np.full(len(words), np.nan)
        values[~missing] = numbers
        hint = f"is written with {sign}, which is left out" if sign else ""
        return Column(kind, values[codes], hint=hint, found=found)
    if kind != "mixed":
        return Column(kind, words[codes], found=found)
    row = int(np.argmax(np.isin(codes, np.flatnonzero(~missing)[np.isnan(numbers)])))
    problem = f"{words[codes[row]]!r} in {location(row)} is not a number, unlike most of the column"
    return Column("text", words[codes], problem, found=found)


def classify(words: NDArray[Any], counts: NDArray[np.intp], decimal: str) -> tuple[str, NDArray[np.float64], str]:
    """Return the type of a column, its numbers and the sign of per cent or a currency that all of them have.

    The column is given by its distinct strings and the number of rows of each. It is numeric ("number") if all strings
    are numbers with one decimal mark, `decimal` where both fit; "mixed" if those of half of the rows are, so that the
    others are mistakes; otherwise "date" or "text".
    """
    if len(words) > SAMPLE_WORDS:
        step = len(words) // SAMPLE_WORDS
        kind, numbers, sign = classify(words[::step], counts[::step], decimal)
        if kind in ("date", "text"):
            return kind, numbers, sign
    signs = {match[0].strip("+- ") if (match := SIGN.search(word)) else "" for word in words}
    sign = signs.pop() if len(signs) == 1 else ""
    bare = [word.replace("\u2212", "-").replace(sign, "").strip() for word in words]
    readings = [
        np.array([float(word.translate(PLAIN[mark])) if NUMBER[mark].fullmatch(word) else np.nan for word in bare])
        for mark in (decimal, "," if decimal == "." else ".")
    ]
    numbers = max(readings, key=lambda values: counts[~np.isnan(values)].sum())
    n_rows, n_numeric = counts.sum(), counts[~np.isnan(numbers)].sum()
    if n_numeric == n_rows:
        return "number", numbers, sign
    if counts[[bool(DATE.fullmatch(word)) for word in words]].sum() >= 0.9 * n_rows:
        return "date", numbers, sign
    return "mixed" if n_numeric >= n_rows / 2 else "text", numbers, sign
