"""Small real jobs done by a real model: Fractal, and other agents with the same one."""

from bench.real.comparison import measure, missed, table

__all__ = ["measure", "missed", "table"]
