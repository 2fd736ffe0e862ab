"""A fitted model as plain data, evaluated, saved and written in other languages."""
