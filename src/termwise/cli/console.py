"""What all commands share: messages, progress, errors with their exit codes, and the check of output files."""

from __future__ import annotations

import _thread
import functools
import io
import json
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unicodedata import category

import typer

from termwise._files import is_special, same_file

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
MAX_NAMED = 5  # columns that one message lists
RESENT_AFTER = 0.05  # seconds
EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)  # whose messages are for the user


class UsageError(ValueError):
    """Options that are invalid, or invalid together."""


def handle_errors(command: Callable[..., dict[str, Any] | None]) -> Callable[..., None]:
    """Decorate a command: print its result with --json; errors become one sentence and an exit code, no traceback."""

    @functools.wraps(command)
    def wrapper(*arguments: Any, **options: Any) -> None:
        with heeded_interrupts() as interrupted:
            try:
                record = command(*arguments, **options)
                if options.get("as_json"):
                    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
                    print(json.dumps(record, allow_nan=False, ensure_ascii=ascii_only))
                sys.stdout.flush()  # raises BrokenPipeError here, not at exit
            except BrokenPipeError:
                raise  # typer exits silently
            except (KeyboardInterrupt, Exception) as error:
                if isinstance(error, KeyboardInterrupt) or interrupted.is_set():
                    typer.secho("termwise: interrupted; no partly written file is left", fg="yellow", err=True)
                    raise typer.Exit(EXIT_INTERRUPTED) from None
                if not isinstance(error, EXPECTED_ERRORS):
                    raise
                typer.secho(f"termwise: {printable(str(error)) or type(error).__name__}", fg="red", err=True)
                raise typer.Exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE) from None

    return wrapper


@contextmanager
def heeded_interrupts() -> Iterator[threading.Event]:
    """Record that the user interrupts, and interrupt again where Python ignores it.

    Finalisers may run at any moment, and exceptions in them go no further; and libraries in C turn interrupts into
    errors of their own.
    """
    interrupted, former = threading.Event(), sys.unraisablehook

    def interrupt(*_: Any) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def report(ignored: Any) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            threading.Timer(RESENT_AFTER, _thread.interrupt_main).start()  # here it would be ignored as well
        else:
            former(ignored)

    handler = signal.getsignal(signal.SIGINT)  # jobs in the background ignore it
    heeds = handler is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if heeds:
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = report
    try:
        yield interrupted
    finally:
        sys.unraisablehook = former
        if heeds:
            signal.signal(signal.SIGINT, handler)


def check_output(path: Path, inputs: list[Path]) -> None:
    """Raise before the work if the result could not be written, or would replace an input."""
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise ValueError(f"{path} must be a file to write, got a folder: add a name.")
    if not folder.is_dir():
        raise ValueError(f"{path} must be in a folder that exists, got {folder}: create it first.")
    if any(same_file(path, each) for each in inputs):
        raise ValueError(f"{path} is an input: give another name with -o.")
    if is_special(path) and os.access(path, os.W_OK):  # a device or a pipe
        return
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(f"{path} cannot be written there ({error.strerror}): choose another folder.") from None


# -- messages ----------------------------------------------------------------------------------------------------------


class Console:
    """Prints messages unless `quiet`; on stderr if `stderr` or `as_json`, where stdout is for the result."""

    def __init__(self, quiet: bool = False, as_json: bool = False, stderr: bool = False) -> None:
        from rich.console import Console as RichConsole

        self.quiet, self.as_json = quiet, as_json
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # for terminals that cannot encode the names of columns
        self.output = RichConsole(stderr=stderr or as_json, quiet=quiet, highlight=False, soft_wrap=True)
        self.errors = RichConsole(stderr=True, quiet=quiet, highlight=False)

    def print(self, text: str, style: str | None = None) -> None:
        """Print a line without markup."""
        self.output.print(printable(text), style=style, markup=False)

    def print_table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table, the first column aligned to the left, the others to the right."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(title=printable(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        for j, name in enumerate(header):
            table.add_column(
                printable(name), justify="right" if j else "left", min_width=36 if j == 0 and len(header) > 3 else 0
            )
        for row in rows:
            table.add_row(*map(printable, row))
        self.output.print(table, markup=False)

    def print_notes(self, notes: Sequence[str]) -> None:
        """Print a list, without repetitions."""
        for note in dict.fromkeys(notes):
            self.print(f"  - {note}", style="dim")

    @contextmanager
    def step(self, title: str, estimator: Any = None, notes: list[str] | None = None) -> Iterator[None]:
        """Show a step of a command on stderr, with a count of the steps of a fit; append warnings to the notes."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[steps]}"), TimeElapsedColumn()
        disable = self.quiet or not self.errors.is_terminal
        with (
            warnings.catch_warnings(record=notes is not None) as caught,
            Progress(*columns, console=self.errors, transient=True, disable=disable) as bar,
        ):
            task = bar.add_task(printable(title), total=None, steps="")
            estimator = estimator[-1] if hasattr(estimator, "steps") else estimator
            if hasattr(estimator, "set_callbacks"):  # scikit-learn 1.9 and newer
                estimator.set_callbacks(StepCounter(lambda count: bar.update(task, steps=f"{count} steps")))
            if notes is not None:
                warnings.simplefilter("always")
            yield
        if notes is not None and caught is not None:
            notes += [str(one.message) for one in caught
                      if not issubclass(one.category, DeprecationWarning | FutureWarning)]  # fmt: skip


class StepCounter:
    """A scikit-learn callback that counts the steps of a fit and passes the number to a function."""

    def __init__(self, update: Callable[[int], None]) -> None:
        self.update = update
        self.count = 0

    def setup(self, estimator: Any, context: Any, **_: Any) -> None:
        """Part of the callback protocol; nothing to do."""

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> bool:
        """Count a step; return False to continue."""
        self.count += 1
        self.update(self.count)
        return False


def printable(text: str) -> str:
    """Return a text in which control characters, such as those of a column's name, are escaped and move no cursor."""
    return "".join(
        char if category(char) not in ("Cc", "Cs") or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def listed(names: Sequence[str], limit: int = MAX_NAMED) -> str:
    """Join names, up to a limit."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_error(score: dict[str, Any]) -> str:
    """Return a score with its standard error as text."""
    error = "" if score["std_error"] is None else f" +- {score['std_error']:.3f}"
    return f"{round(score['value'], 3) + 0.0:.3f}{error}"
