"""The path of `termwise.deploy.onnx` in 0.1."""

import warnings

from termwise.deploy.onnx import register, to_onnx

__all__ = ["register", "to_onnx"]

warnings.warn("termwise.export.onnx is termwise.deploy.onnx now: change the import.", DeprecationWarning, stacklevel=2)
