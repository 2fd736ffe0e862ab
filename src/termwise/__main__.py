"""Entry point of the `termwise` command and of `python -m termwise`."""

from __future__ import annotations

import sys

from termwise._checks import import_optional


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        import_optional("typer", "cli", "The command line")
    except ImportError as error:
        sys.exit(str(error))
    from termwise.cli import app

    app()


if __name__ == "__main__":
    main()
