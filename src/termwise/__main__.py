"""Entry point of the `termwise` command and of `python -m termwise`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        from termwise._checks import import_optional

        try:
            import_optional("typer", "cli", "The command line")
            import_optional("rich", "cli", "The command line")
        except ImportError as error:
            sys.exit(str(error))
    from termwise.cli import app
    from termwise.cli.console import EXIT_INTERRUPTED

    try:
        app()
    except SystemExit as end:
        if end.code != EXIT_INTERRUPTED:
            raise
        # Threads of the interrupted fit may still compute: finalising the interpreter under them can abort the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
