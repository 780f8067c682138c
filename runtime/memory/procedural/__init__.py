"""Procedural memory: a task that was solved once is recalled, bound to the new task's values, and run."""
