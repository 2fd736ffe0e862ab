"""Sparse linear-in-the-parameters models with automatic model selection."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from termwise._public import *  # noqa: F403
    from termwise._public import __all__ as __all__

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the public names, listed in `_public`, once one of them is asked for: `termwise --help` does without."""
    if name == "__all__" or not name.startswith("_"):
        public = import_module("termwise._public")
        globals().update({each: getattr(public, each) for each in public.__all__}, __all__=public.__all__)
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__all__", "__version__"]
