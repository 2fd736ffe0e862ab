"""What a person sees while a command works, and how a command ends."""

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

FAILED, MISUSED, INTERRUPTED = 1, 2, 130


class UsageError(ValueError):
    """Options that make no sense together."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command end with a sentence and an exit code, not with a traceback, if data or user are to blame."""

    @functools.wraps(command)
    def careful(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()  # whoever reads it may be gone: find out now
        except BrokenPipeError:
            raise  # the framework ends quietly
        except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
            typer.secho(f"termwise: {str(error) or type(error).__name__}", fg="red", err=True)
            raise typer.Exit(MISUSED if isinstance(error, UsageError) else FAILED) from None
        except KeyboardInterrupt:
            typer.secho("termwise: interrupted; nothing half written is left", fg="yellow", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return careful


class Screen:
    """Says things to people, unless they want it quiet; on stderr where stdout is for the result itself."""

    def __init__(self, quiet: bool = False, aside: bool = False) -> None:
        from rich.console import Console

        self.quiet = quiet
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without the letters of a name is no reason to end
        self.console = Console(stderr=aside, quiet=quiet, highlight=False, soft_wrap=True)
        self.errors = Console(stderr=True, quiet=quiet, highlight=False)

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line as it is."""
        self.console.print(text, style=style, markup=False)

    def notes(self, notes: Sequence[str]) -> None:
        """Print what should be known of the data, a line each."""
        for note in dict.fromkeys(notes):
            self.say(f"  - {note}", style="dim")

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table, its first column to the left, the others to the right."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        for j, name in enumerate(head):
            table.add_column(name, justify="right" if j else "left", min_width=0 if j else 36 if len(head) > 3 else 0)
        for row in rows:
            table.add_row(*row)
        self.console.print(table, markup=False)

    def answer(self, record: dict[str, Any]) -> None:
        """Print the one JSON object that scripts read, on stdout."""
        ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
        print(json.dumps(record, allow_nan=False, ensure_ascii=ascii_only))

    @contextmanager
    def progress(self, title: str, estimator: Any = None) -> Iterator[None]:
        """Show on stderr that something is going on, with a step for each that the estimator reports."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[steps]}"), TimeElapsedColumn()
        silent = self.quiet or not self.errors.is_terminal
        with Progress(*columns, console=self.errors, transient=True, disable=silent) as bar:
            task = bar.add_task(title, total=None, steps="")
            if hasattr(estimator, "set_callbacks"):  # scikit-learn 1.9 and newer
                estimator.set_callbacks(StepCounter(lambda count: bar.update(task, steps=f"{count} steps")))
            yield


class StepCounter:
    """A callback of scikit-learn that counts the steps of a fit."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell = tell
        self.count = 0

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """End."""

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        """A step begins."""

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> bool:
        """A step is done; go on."""
        self.count += 1
        self.tell(self.count)
        return False


@contextmanager
def warnings_to(notes: list[str]) -> Iterator[None]:
    """Add what libraries warn of to the notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    told = [one for one in caught if not issubclass(one.category, DeprecationWarning | FutureWarning)]
    notes += dict.fromkeys(str(one.message) for one in told)
