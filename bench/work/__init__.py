"""Ten jobs, played by a scripted reader: planned first, decided turn by turn, and by plain tool loops."""

from bench.work.comparison import measure, missed, table

__all__ = ["measure", "missed", "table"]
