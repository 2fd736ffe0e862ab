"""A fitted model as plain data: evaluated, stored in a file, and exported to other languages."""
