"""Layouts of the demo model side by side: how fast, how large, how close to float32. `python -m benchmarks layouts` runs them."""
