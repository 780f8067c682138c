"""Benchmarks that users run: suites of problems, each a run of Fractal, with one memory over all of them."""
