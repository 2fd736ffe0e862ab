"""A frozen model written in another language: Python, C, ONNX."""
