"""Former place of `termwise.selection.nested`."""

from termwise.selection.nested import NestedModels as Nested
from termwise.selection.nested import nested_paths as nested

__all__ = ["Nested", "nested"]
