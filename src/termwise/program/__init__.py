"""A fitted model as plain data: a short chain of steps, evaluated, written down and read back."""

from termwise.program.freeze import freeze
from termwise.program.inputs import Input
from termwise.program.program import Program

__all__ = ["Input", "Program", "freeze"]
