"""A file as bytes, whatever it is called: what its first bytes say it is, and its text."""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
import zlib
from pathlib import Path

UNREADABLE = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"%PDF": "a PDF",
    b"SQLite format 3": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"ARROW1": "a Feather file",
    b"ORC": "an ORC file",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
}
MARKUP = {"<": "a web page or XML", "{": "JSON", "[": "JSON"}  # what text that is no table begins with
REMEDY = "save the table as CSV (UTF-8), Parquet or NPZ"
SAMPLE = 65_536  # characters that are looked at to tell how a table is written,
LINES = 10  # or these, where they are longer
STDIN = Path("-")


def read_bytes(path: Path) -> bytes:
    """Return what is in a file, decompressed if it is gzipped; a file called - is the standard input."""
    if path.is_dir():
        raise ValueError(f"{path} must be a file, got a folder: name one of the files in it.")
    if path != STDIN and not path.exists():
        raise ValueError(f"{path} does not exist: check the name, and the folder it is in.")
    try:
        raw = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error}): check the file and its rights.") from None
    except (EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be decompressed ({error}): fetch or write it again.") from None
    if not raw.strip():
        raise ValueError(f"{path} is empty: it must hold a table, names in its first line and a row in each other.")
    return raw


def kind_of(raw: bytes, path: Path) -> str:
    """Tell by its first bytes whether a file is "parquet", "npz", "npy" or "text"."""
    if raw.startswith(b"PAR1"):
        return "parquet"
    if raw.startswith(b"\x93NUMPY"):
        return "npy"
    if raw.startswith(b"PK\x03\x04"):
        if is_numpy_archive(raw):
            return "npz"
        raise ValueError(f"{path} looks like an Excel workbook or a ZIP archive, not like a table: {REMEDY}.")
    for magic, what in UNREADABLE.items():
        if raw.startswith(magic):
            raise ValueError(f"{path} looks like {what}, which is not read here: {REMEDY}.")
    return "text"


def is_numpy_archive(raw: bytes) -> bool:
    """Whether a ZIP archive holds NumPy's arrays and nothing else."""
    try:
        names = zipfile.ZipFile(io.BytesIO(raw)).namelist()
    except zipfile.BadZipFile:
        return False
    return all(name.endswith(".npy") for name in names)


def decode(raw: bytes, path: Path) -> tuple[bytes, str]:
    """Return text as UTF-8 without a byte order mark, and how it was encoded."""
    encoding = encoding_of(raw)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = "Windows-1252", raw.decode("cp1252", errors="replace")
    if "\0" in text:
        raise ValueError(f"{path} is not text (it holds zero bytes): {REMEDY}.")
    start = text[:SAMPLE].lstrip()[:1]
    if start in MARKUP:
        raise ValueError(f"{path} looks like {MARKUP[start]}, not like a table: {REMEDY}.")
    if encoding == "utf-8":
        return raw, encoding
    return text.removeprefix("\ufeff").encode("utf-8", errors="replace"), encoding


def beginning(raw: bytes) -> bytes:
    """Return the first of a table's lines."""
    end = 0
    for _ in range(LINES):
        end = raw.find(b"\n", end) + 1 or len(raw)
    return raw[: max(end, SAMPLE)]


def encoding_of(raw: bytes) -> str:
    """Guess how text is encoded: by its byte order mark, by zero bytes in every other place, or as UTF-8."""
    if raw.startswith(b"\xef\xbb\xbf"):
        return "utf-8-sig"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    head = raw[:SAMPLE]
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if zeros and zeros.count(0) > 0.7 * len(zeros):
            return encoding
    return "utf-8"
