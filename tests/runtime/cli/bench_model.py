"""Scripted models for the suites of `fractal bench`: right at a known rate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

from runtime.benchmarks.arithmetic import drawn

ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "{{ steps[1].result }}"}


def reckoner(limit: int, seed: int, rate: float) -> list[dict[str, Any]]:
    """A script that solves problems of `arithmetic`; the others it gets wrong by one."""
    random = Random(f"reckoner {seed}")
    entries: list[dict[str, Any]] = []
    for each in drawn(limit, seed):
        expression = each.expression + ("" if random.random() < rate else " + 1")
        entries += _replies(each.text, {"tool": "calc", "args": {"expression": expression}}, "step")
    return [*entries, {"phase": "check", "reply": ACCEPT}]


def coder(fixes: dict[str, tuple[str, str, str]], tasks: dict[str, str]) -> list[dict[str, Any]]:
    """A script that makes one edit (file, old, new) for each task, by the id of the problem."""
    entries: list[dict[str, Any]] = []
    for id, (path, old, new) in fixes.items():
        edit = {"tool": "edit", "args": {"path": path, "old": old, "new": new}}
        entries += _replies(tasks[id], edit, "run")
    return [*entries, {"phase": "check", "reply": ACCEPT}]


def _replies(task: str, step: dict[str, Any], by: str) -> Iterator[dict[str, Any]]:
    success = {"run": "python3 -m unittest -q"} if by == "run" else {"run": 'test "$RESULT_1" -gt 0'}
    plan = {"task": task, "approach": "directly", "confidence": "high", "steps": [step], "success": [success]}
    pattern = f"^{re.escape(task)}$"
    yield {"task": pattern, "phase": ["fused", "plan"], "reply": plan}
    yield {"task": pattern, "phase": "understand", "reply": {"task": task, "context": []}}
