"""Output for people and for scripts, and the exit codes of the commands."""

from __future__ import annotations

import functools
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


class UsageError(ValueError):
    """Options that are invalid, or invalid together."""


def handle_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: errors in data, model or options become one sentence and an exit code, not a traceback."""

    @functools.wraps(command)
    def wrapper(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()  # raises BrokenPipeError here, not at exit
        except BrokenPipeError:
            raise  # typer exits silently
        except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
            typer.secho(f"termwise: {str(error) or type(error).__name__}", fg="red", err=True)
            raise typer.Exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE) from None
        except KeyboardInterrupt:
            typer.secho("termwise: interrupted; no partly written file is left", fg="yellow", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return wrapper


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
        self.output.print(text, style=style, markup=False)

    def print_table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table, the first column aligned to the left, the others to the right."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        for j, name in enumerate(header):
            table.add_column(name, justify="right" if j else "left", min_width=36 if j == 0 and len(header) > 3 else 0)
        for row in rows:
            table.add_row(*row)
        self.output.print(table, markup=False)

    def print_notes(self, notes: Sequence[str]) -> None:
        """Print a list, without repetitions."""
        for note in dict.fromkeys(notes):
            self.print(f"  - {note}", style="dim")

    def print_result(self, record: dict[str, Any]) -> None:
        """Print one JSON object on stdout if the command was called with --json."""
        if self.as_json:
            ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
            print(json.dumps(record, allow_nan=False, ensure_ascii=ascii_only))

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
            task = bar.add_task(title, total=None, steps="")
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

    def setup(self, estimator: Any, context: Any) -> None:
        """Part of the callback protocol; nothing to do."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Part of the callback protocol; nothing to do."""

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        """Part of the callback protocol; nothing to do."""

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> bool:
        """Count a step; return False to continue."""
        self.count += 1
        self.update(self.count)
        return False
