"""Plays a whole run with a scripted model, real files and the real engine."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kernel.asking.responder import LIFEFORCE, Ask, Ladder, Responder
from kernel.document.model import Document
from kernel.errors import Exit
from kernel.events import Event
from kernel.loop.advance import Outcome
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal, RunResult
from runtime.models.scripted import Scripted
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.runs import result_of

NO_SANDBOX = Sandbox("auto").available()
boxed = pytest.mark.skipif(NO_SANDBOX is not None, reason=f"no sandbox here: {NO_SANDBOX}")


def put(folder: Path, name: str, content: str | bytes = "") -> Path:
    """Write a file below a folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


Answers = Callable[[Ask], Any]


def by_turns(answers: Answers) -> Scripted:
    """A model whose script calls its first turn `plan`, where it may give steps, and later ones `work`.

    A turn that is bound to a step is `do`.
    """

    def answer(ask: Ask) -> Any:
        if ask.part != "turn":
            return answers(replace(ask, phase=ask.part))
        began = ask.step > 1 or ask.document.planned
        return answers(replace(ask, phase="work" if began else "plan", step=0))

    return Scripted(answer)


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


Play = Callable[..., Played]
"""The fixture `play`: plays a task with a scripted model."""


def player(work: Path, *, memory: bool = True) -> Play:
    """A function that plays a task in a folder with a scripted model; without `memory` nothing is kept of it.

    What a run leaves in memory takes as long as the run: by day, tests of something else do without it.
    """
    kept = {} if memory else {"remember": False, "recall": False}
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
        ladder = Ladder(tuple(by_turns(each) if callable(each) else each for each in rungs))
        # a loop without commands needs no sandbox; most tests look at CHECK's own call
        fractal = Fractal(
            work,
            settings={"sandbox": "off", "check": "always", **kept, **(settings or {})},
            ladder=ladder,
            on_event=events.append,
        )
        doing = fractal.resume(resume, **options) if resume else fractal.run(task, **options)
        try:
            result = asyncio.run(doing)
        except asyncio.CancelledError:
            root = fractal.root_document(events[0].run)
            result = result_of(root, fractal.path(root.meta.run), Outcome("interrupted", Exit.INTERRUPTED))
        return Played(result, fractal, events)

    return run


def plan(*steps: Mapping[str, Any], success: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """A complete fused plan."""
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
    task="Mirror the lines of notes.md into back.md",
    context=[],
    open=[],
    approach="take the text over",
)
"""A plan that memory may learn: all its values are in the task, and code checks it."""

ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}


def doing(*steps: Mapping[str, Any], **more: Any) -> Answers:
    """A model that plans these steps and accepts the result."""
    return lambda ask: ACCEPT if ask.phase == "check" else plan(*steps, **more)


def read(path: str | Path, **more: Any) -> dict[str, Any]:
    return {"tool": "read", "args": {"path": str(path)}, **more}


def write(path: str, content: str, **more: Any) -> dict[str, Any]:
    return {"tool": "write", "args": {"path": path, "content": content}, **more}


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "args": {"command": command}, **more}


def rewind(played: Played, n: int) -> None:
    """Reset a run to the point where step `n` has started and has no result."""
    store = FileStore(played.folder)
    document = store.load(played.result.id)
    old = document.steps[n]
    sections = {number: section for number, section in document.sections.items() if number < 3}
    back = Document(document.meta, sections).having(phase="do", status="running")
    for step in (
        *(document.steps[k] for k in range(1, n)),
        replace(old, state="running", result=None, link=""),
    ):
        back = back.with_step(step)
    store.save(back)
    (played.folder / old.link).unlink()


def standing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder: path → mode, and bytes or link target."""
    found: dict[str, tuple[int, bytes]] = {}
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(where, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raw = bytes(path.readlink())
            else:
                raw = path.read_bytes() if stat.S_ISREG(mode) else b""
            found[os.path.relpath(path, folder)] = (mode, raw)
    return found


def limited(responder: Responder, lifeforce: float = LIFEFORCE, phases: Collection[str] = ()) -> Responder:
    """The responder, at this lifeforce a call, for these phases only (empty: all)."""
    responder.phases, responder.lifeforce = frozenset(phases), lifeforce
    return responder
