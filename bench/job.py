"""The job of the benchmarks: read files, then answer. A function answers as the model, without delay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel.asking.responder import Ask

TEXT = "The quick brown fox jumps over the lazy dog while the file tells its own number, which is {n}.\n" * 4
"""About 100 tokens per file: what one step added to the prompt of another runtime, without message frames."""
TASK = "read the files and say what they hold"
PART = 20
"""Steps per child in the shape `children`."""
SHAPES = ("planned", "asked", "side by side", "children")
"""Planned at once; arguments asked for step by step; steps side by side; split over children."""


def write_files(folder: Path, n: int) -> None:
    """Write the files that the job reads."""
    for number in range(1, n + 1):
        (folder / f"{number}.txt").write_text(TEXT.format(n=number), "utf-8")


def answers(n: int, shape: str = "planned") -> Callable[[Ask], Any]:
    """A model that plans `n` reads in a shape, gives their arguments when asked, and accepts the result."""

    def step(number: int) -> dict[str, Any]:
        if shape == "asked":
            return {"tool": "read", "what": f"read file {number}.txt"}
        call = {"tool": "read", "args": {"path": f"{number}.txt"}}
        return {**call, "needs": []} if shape == "side by side" else call

    def steps(ask: Ask) -> list[dict[str, Any]]:
        if shape != "children":
            return [step(number) for number in range(1, n + 1)]
        if ask.document.meta.parent:
            first = int(ask.document.text(1, "task").split()[-1])
            return [step(number) for number in range(first, min(first + PART, n + 1))]
        return [{"subtask": f"read {PART} files from {at}", "needs": []} for at in range(1, n + 1, PART)]

    def answer(ask: Ask) -> Any:
        if ask.part == "do":
            return {"tool": "read", "args": {"path": f"{ask.step}.txt"}}
        if ask.phase == "check":
            return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "read all"}
        plan = steps(ask)
        return {
            "task": TASK,
            "context": [],
            "approach": "read each",
            "confidence": "high",
            "steps": plan,
            "success": [{"step": len(plan), "has": "number|read"}],
        }

    return answer
