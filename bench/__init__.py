"""Benchmarks: `python -m bench NAME` measures the figures that the documentation quotes."""
