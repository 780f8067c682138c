"""Playing a whole run with a scripted model, real files and the real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.document import Document
from kernel.events import Event
from kernel.responder import Ask, Ladder, Responder
from runtime.fractal import Fractal, RunResult
from runtime.responders.scripted import Scripted

Answers = Callable[[Ask], Any]


@dataclass
class Played:
    result: RunResult
    fractal: Fractal
    events: list[Event]

    @property
    def documents(self) -> dict[str, Document]:
        return {each.meta.id: each for each in self.fractal.documents(self.result.run)}

    @property
    def root(self) -> Document:
        return self.documents[self.result.id]

    @property
    def folder(self) -> Path:
        return self.result.path.parent

    def asks(self, phase: str = "") -> list[Event]:
        return [e for e in self.events if e.kind == "ask_started" and phase in ("", e.data["phase"])]


def player(work: Path) -> Callable[..., Played]:
    """A function that plays a task in a folder with a scripted model."""
    work.mkdir(exist_ok=True)

    def run(
        answers: Answers | Responder | list[Responder],
        task: str = "do the work",
        *,
        settings: Mapping[str, Any] | None = None,
        resume: str | None = None,
        **options: Any,
    ) -> Played:
        events: list[Event] = []
        rungs = answers if isinstance(answers, list) else [answers]
        ladder = Ladder(tuple(Scripted(each) if callable(each) else each for each in rungs))
        # a loop without commands needs no sandbox: these tests run everywhere
        fractal = Fractal(
            work, settings={"sandbox": "off", **(settings or {})}, ladder=ladder, on_event=events.append
        )
        doing = fractal.resume(resume, **options) if resume else fractal.run(task, **options)
        return Played(asyncio.run(doing), fractal, events)

    return run


def plan(*steps: Mapping[str, Any], success: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """A whole fused plan."""
    return {
        "task": "do the work",
        "approach": "as scripted",
        "confidence": "high",
        "steps": list(steps),
        "success": success or [{"judge": "it is done"}],
        **more,
    }


REVERSE = plan(
    {"tool": "read", "args": {"path": "notes.md"}},
    {"tool": "write", "args": {"path": "back.md", "content": "{{ steps[1].result }}"}},
    success=[{"file": "back.md", "has": "two"}],
    task="Reverse the lines of notes.md into back.md",
    context=[],
    open=[],
    approach="take the text over",
)
"""A plan that memory may learn: its words are all in the task, and code decides whether it is done."""

ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}
