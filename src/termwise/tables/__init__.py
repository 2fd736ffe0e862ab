"""Tables as people write them, and what is to be learned from them."""

from termwise.tables.inputs import inputs_for
from termwise.tables.reading import Column, Table, read_table
from termwise.tables.task import Task, fill_values, filled, pose

__all__ = ["Column", "Table", "Task", "fill_values", "filled", "inputs_for", "pose", "read_table"]
