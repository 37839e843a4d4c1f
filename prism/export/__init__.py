"""Writes ONNX GenAI model folders from weights: the demo model and the tiny model of the tests. Needs the `demo` extra."""
