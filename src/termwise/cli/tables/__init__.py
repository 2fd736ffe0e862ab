"""Tables as people write them, and what is to be learned from them."""

from termwise.cli.tables.inputs import inputs_for
from termwise.cli.tables.reading import Column, Table, read_table
from termwise.cli.tables.task import Task, counted, fill_values, filled, in_order, known_past, pose

__all__ = [
    "Column",
    "Table",
    "Task",
    "counted",
    "fill_values",
    "filled",
    "in_order",
    "inputs_for",
    "known_past",
    "pose",
    "read_table",
]
