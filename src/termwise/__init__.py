"""Sparse linear-in-the-parameters models with automatic model selection."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from termwise._public import *  # noqa: F403
    from termwise._public import __all__ as __all__

__version__ = "0.1.0"

RENAMED_MODULES = {  # paths of 0.1 that can still be imported
    "termwise.diagnostics": "termwise.explain.diagnostics",
    "termwise.report": "termwise.explain.report",
    "termwise.export": "termwise.deploy",
    "termwise.export.onnx": "termwise.deploy.onnx",
}


class RenamedModuleFinder:
    """Finder and loader that imports a module of `RENAMED_MODULES` from its present path."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return a specification for renamed modules only."""
        loader: Any = self  # no importlib.abc.Loader, whose module takes longer to import than this one
        return ModuleSpec(name, loader) if name in RENAMED_MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module at its present path."""
        new = RENAMED_MODULES[spec.name]
        if spec.name == "termwise.export.onnx":
            from termwise._checks import warn  # takes longer to import than this module

            warn(f"{spec.name} is {new} now: change the import.", DeprecationWarning)
        module = import_module(new)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the specification of the module, which has been executed before."""
        module.__spec__ = getattr(module.__spec__, "loader_state", None)


sys.meta_path.insert(0, RenamedModuleFinder())


def __getattr__(name: str) -> Any:
    """Load the public names, listed in `_public`, on first use: `termwise --help` does without."""
    if name == "__all__" or not name.startswith("_"):
        public = import_module("termwise._public")
        globals().update({each: getattr(public, each) for each in public.__all__}, __all__=public.__all__)
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__all__", "__version__"]
