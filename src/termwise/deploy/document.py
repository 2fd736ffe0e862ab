"""One JSON document: written so that people can read it and so that no half of it is ever there, read with care."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

FORMAT = "termwise-model"
VERSION = 1
MOST_BYTES = 1 << 30  # a model of a gigabyte is no model
SHORT = 4  # entries that fit a line

T = TypeVar("T")


def text_of(value: Any, indent: str = "") -> str:
    """Write plain data as JSON: lists of numbers on one line each, and whatever else is short and flat."""
    inner = indent + "  "
    if isinstance(value, dict) and not _is_short(value):
        lines = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {text_of(one, inner)}" for key, one in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, list | dict) for one in value):
        return "[\n" + ",\n".join(inner + text_of(one, inner) for one in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _is_short(value: dict[str, Any]) -> bool:
    """Whether a dict fits a line: a few scalars and short lists of scalars."""
    lists = [one for one in value.values() if isinstance(one, list)]
    inner = [*(one for one in value.values() if not isinstance(one, list)), *(one for each in lists for one in each)]
    return max(len(value), *map(len, lists), 0) <= SHORT and not any(isinstance(one, list | dict) for one in inner)


def write_atomically(path: str | os.PathLike, content: str | bytes) -> None:
    """Write a file under another name beside it and rename that: whoever reads it sees the old or the new one."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)  # there only if something went wrong


def read_document(path: str | os.PathLike, understand: Callable[[dict[str, Any]], T]) -> T:
    """Read a document and have it understood; whatever is wrong is said with the name of the file and a remedy."""
    size = os.stat(path).st_size
    if size > MOST_BYTES:
        raise ValueError(
            f"{path} must be a model file of less than {MOST_BYTES >> 20} MiB, got {size >> 20} MiB: this is some "
            "other file, or a model that is not small."
        )
    try:
        document = json.loads(
            Path(path).read_bytes().decode(), object_pairs_hook=_different_keys, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} must be a JSON document written by Predictor.save, but could not be read ({error}): it is another "
            "kind of file, or cut short or damaged; save the model again."
        ) from None
    check_header(path, document)
    try:
        return understand(document)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is no valid model: {error}. The file was damaged or changed by hand: save the model again."
        ) from None


def check_header(path: Any, document: Any) -> None:
    """Raise unless a document says that it is a model of a version that is known here."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f'{path} must be a model file, with "format": "{FORMAT}", got another JSON document: give the path of a '
            "file written by Predictor.save."
        )
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"{path} is no valid model: version must be a whole number >= 1, got {version!r}.")
    if version > VERSION:
        raise ValueError(
            f"{path} was written by a newer termwise ({document.get('termwise')}), in version {version} of the format; "
            f"this one knows version {VERSION}: upgrade with pip install --upgrade termwise."
        )


def _different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an entry is there twice among {', '.join(key for key, _ in pairs)}")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
