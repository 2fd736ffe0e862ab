"""Writing of files: the one function by which models, exports, reports and tables reach the disk."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows has no such locks; an unfinished file of a killed process stays there
    fcntl = None  # type: ignore[assignment]
LOCKS = fcntl is not None

PREFIX, SUFFIX = ".termwise-", ".part"  # of unfinished files
READABLE = 0o666  # permissions of a new file, less the umask


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a whole file.

    A regular file is written under a temporary name in the same folder and renamed: readers see the old file or the
    new one. The file that is replaced keeps its permissions, and of a symbolic link its target is replaced. A device or
    a pipe is written to.

    Parameters
    ----------
    path : str or path
        The file.
    content : str or bytes
        What it is to hold; a text is encoded in UTF-8.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if is_special(path):
            with open(path, "wb") as device:
                device.write(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raised = type(error)(
            f"{path} cannot be written ({error.strerror or error}): check its folder, the permissions and the free "
            "space."
        )
        raised.errno = error.errno
        raise raised from None


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device, a pipe or a socket, which can be written to but must not be replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # there is none, or it cannot be seen: the writing says so
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths are the same regular file, be it there already or not."""
    if is_special(one) or is_special(other):
        return False
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _replace(path: Path, data: bytes) -> None:
    """Write a regular file beside its place, and rename it."""
    _remove_unfinished(path.parent)
    try:
        former = os.stat(path)
    except FileNotFoundError:
        former = None
    if former is not None and stat.S_ISDIR(former.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with _unfinished(path.parent, READABLE if former is None else stat.S_IMODE(former.st_mode)) as (file, part):
        if former is not None and LOCKS:
            with suppress(OSError):  # only the superuser may give a file away; the group is kept where it may be
                os.chown(part, former.st_uid, former.st_gid)
            os.chmod(part, stat.S_IMODE(former.st_mode))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        if not LOCKS:
            file.close()  # elsewhere it stays open, and locked, until it has its name
        os.replace(part, path)


@contextmanager
def _unfinished(folder: Path, mode: int) -> Iterator[tuple[BinaryIO, Path]]:
    """Create an unfinished file in a folder, locked as long as it is in use, and remove it after an error."""
    while True:
        part = folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(part, flags, mode), "wb") as file:
            try:
                if LOCKS:
                    with suppress(OSError):  # a file system without locks, where nothing is taken to be unfinished
                        fcntl.flock(file, fcntl.LOCK_EX)
                    if not os.fstat(file.fileno()).st_nlink:  # another process removed it before it was locked
                        continue
                yield file, part
                return
            finally:
                part.unlink(missing_ok=True)  # present only after an error


def _remove_unfinished(folder: Path) -> None:
    """Remove files that killed processes left unfinished in a folder: those that no process has locked."""
    for part in folder.glob(f"{PREFIX}*{SUFFIX}") if LOCKS else ():
        with suppress(OSError), open(os.open(part, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
