"""What a run came to, and what a list of runs shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel.document import Document
from kernel.errors import Exit
from kernel.loop import Outcome, outcome
from kernel.steps import Waiting


@dataclass(frozen=True)
class RunResult:
    """How a run ended, or what it waits for."""

    run: str
    id: str
    status: str
    exit: Exit
    path: Path
    output: str = ""
    reason: str = ""
    question: str = ""
    waiting: str = ""
    spent: Mapping[str, Any] = field(default_factory=dict)
    reused: bool = False  # it is the result of an earlier run, taken for the same task


@dataclass(frozen=True)
class RunSummary:
    """A line of `fractal ls`."""

    run: str
    id: str
    status: str
    task: str
    created: str
    updated: str
    spent: Mapping[str, Any]
    folder: str
    type: str = "task"


def result_of(root: Document, path: Path, got: Outcome | Waiting) -> RunResult:
    """What a session with a run came to: `got` of the engine, the rest of the root's document."""
    meta = root.meta
    if isinstance(got, Outcome) and got.status == "interrupted":
        return RunResult(meta.run, meta.id, "interrupted", Exit.INTERRUPTED, path, spent=meta.spent)
    if root.ended:
        end = outcome(root)
        output = end.result or end.partial
        texts = (output, end.error, end.question)
        return RunResult(meta.run, meta.id, end.status, end.exit, path, *texts, spent=meta.spent)
    waiting = got if isinstance(got, Waiting) else Waiting("children")
    return RunResult(
        meta.run,
        meta.id,
        "waiting",
        Exit.WAITING,
        path,
        question=waiting.question,
        waiting=waiting.on,
        spent=meta.spent,
    )


def told(result: RunResult) -> dict[str, Any]:
    """What the event of a run's end carries."""
    names = ("status", "output", "reason", "question")
    data = {name: getattr(result, name) for name in names}
    return {**data, "exit": int(result.exit), "spent": dict(result.spent), "path": str(result.path)}
