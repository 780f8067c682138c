"""Workspaces for the tests of the page: with runs of every kind, and with hostile text in every field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kernel.asking.responder import Ladder
from kernel.document.markdown import render
from kernel.document.model import Document, Fold, Meta, Note, Section, Step
from kernel.events import now
from runtime.api import knowledge
from runtime.api.fractal import Fractal
from runtime.benchmarks.bench import folder_of
from runtime.benchmarks.log import BenchLog
from runtime.benchmarks.queue import Queue
from runtime.memory.dream.stages import DreamRecord, StageRecord
from runtime.memory.learning.patterns import Pattern
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.types import ProblemType
from runtime.models.scripted import Scripted
from runtime.workspace.deciders import Decider

EVIL = (
    '<script>window.hit=1</script>"><img src=x onerror="window.hit=1"> [link](javascript:window.hit=1) '
    "![](http://127.0.0.1:9/x.png) {{ 7*7 }} \x1b[31m\u202egnp.exe\u200f \x00</script></style></textarea>"
    "' onmouseover='window.hit=1"
)
"""What a model or a tool may write anywhere."""
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}


def plan(*steps: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A plan of these steps."""
    fields = {"approach": "as scripted", "confidence": "high", "success": [{"judge": "it is done"}]}
    return {"task": "do the work", **fields, "steps": list(steps), **more}


def ran(
    folder: Path, task: str, answers: Mapping[str, Any], *, plan_only: bool = False, **settings: Any
) -> str:
    """The id of a run of a scripted model that gives these answers by phase: `fused` in its first turn."""
    given = {"sandbox": "off", "check": "always", "embedder": "lexical", **settings}
    fractal = Fractal(folder, settings=given, ladder=Ladder((Scripted(answers),)))
    with ThreadPoolExecutor(1) as thread:  # playwright has a loop of its own in this one
        return thread.submit(asyncio.run, fractal.run(task, plan_only=plan_only)).result().run


WRITE = {"tool": "write", "args": {"path": "notes.md", "content": "# Notes\n\nThe shop opens at ten.\n"}}


def asking(folder: Path) -> str:
    """A run that asks a question."""
    question = {"task": "Write it", "question": "Which file should I write?"}
    return ran(folder, "write the report", {"fused": question})


def waiting(folder: Path) -> str:
    """A run that waits for approval."""
    return ran(folder, "correct the notes", {"fused": plan(WRITE)}, approve=["write"])


def full(folder: Path) -> dict[str, str]:
    """Make a workspace with a run of every kind, facts, a pattern, messages and a runner; runs by kind."""
    folder.mkdir(exist_ok=True)
    (folder / "fractal.yaml").write_text(
        "embedder: lexical\nlifeforce: {capacity: 100, per_hour: 20, per_run: 5}\n"
    )
    (folder / "notes.md").write_text("# Notes\n\nThe shop opens at nine.\n")
    done = {"fused": plan(WRITE, task="Correct the hours in notes.md"), "check": ACCEPT}
    refused = {**ACCEPT, "validation": "fail", "decision": "ESCALATE", "learned": "the invoices are pictures"}
    runs = {
        "done": ran(folder, "correct the opening hours in notes.md", done),
        "asks": asking(folder),
        "waits": waiting(folder),
        "failed": ran(folder, "add up the invoices", {"fused": plan(WRITE), "check": refused}),
    }
    fractal = Fractal(folder)
    before = knowledge.remember(fractal, "the shop opens at nine", at="2025-03-01")
    knowledge.correct(fractal, before.id, "the shop opens at ten")
    knowledge.remember(fractal, "Mara runs the shop in Bern")
    fractal.memory.library.add(pattern("read-first", "Read a file before you change it."))
    fractal.send("count the invoices", by=Decider("client", "editor"))
    report = {"status": "running", "at": now(), "suite": "arithmetic", "model": "ollama/qwen3", "done": 12}
    report |= {"total": 50, "accuracy": 0.75, "cpu_seconds": 81.2, "memory_mb": 512.0}
    runner(fractal, "lab", {**report, "topology": {"trees": 9, "types": 3}})
    return runs


def pattern(name: str, text: str) -> Pattern:
    """A learned pattern."""
    return Pattern(name, text, avoid=text, title=text, why=text, types=("edit",), sources=("runs/abc/x.md",),
                   confidence=0.8, samples=6, helpful=4, created=now())  # fmt: skip


def runner(fractal: Fractal, name: str, report: Mapping[str, Any]) -> None:
    """Write the report of a remote runner."""
    path = fractal.workspace.state / "runners" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"id": name, **report}), "utf-8")


def hostile(folder: Path) -> str:
    """Make a workspace with hostile text in every field; returns the run."""
    folder.mkdir(exist_ok=True)
    (folder / "fractal.yaml").write_text("embedder: lexical\n")
    name = '<img src=x onerror="window.hit=1">.txt'
    write = {"tool": "write", "args": {"path": name, "content": EVIL}}
    said = {**ACCEPT, "output": EVIL, "issues": [EVIL]}
    ran(folder, EVIL, {"fused": plan(write, task=EVIL, approach=EVIL, rationale=EVIL), "check": said})
    ran(folder, EVIL, {"fused": plan({**write, "what": EVIL}, approach=EVIL)}, approve=["write"])
    ran(folder, EVIL, {"fused": {"task": EVIL, "question": EVIL}})
    fractal = Fractal(folder)
    knowledge.remember(fractal, EVIL, who=EVIL[:60])
    shown = "".join(sign for sign in EVIL if sign.isprintable())  # a pattern refuses other signs
    fractal.memory.library.add(pattern("evil", shown))
    fractal.send(EVIL, by=Decider("client", EVIL[:50]))
    runner(
        fractal,
        "evil",
        {"id": EVIL, "status": EVIL, "model": EVIL, "at": EVIL, "topology": {EVIL: 1}, "error": EVIL},
    )
    runner(fractal, "broken", {"status": [EVIL], "done": EVIL})
    queue = Queue(fractal.workspace.state)
    queue.put({"suite": EVIL, "model": EVIL})
    queue.put({"suite": EVIL, "model": {EVIL: EVIL}})
    BenchLog.create(folder_of(fractal), {"suite": shown.replace("/", ""), "model": EVIL})
    fractal.brain.shelf.put(
        ProblemType(id="evil", text=EVIL, members=1),
        Decision(id="evil", text=EVIL, run=EVIL, at=now(), type="evil", path="exact", outcome=True),
        DreamRecord(id="evil", at=EVIL, stages={EVIL: StageRecord(did=(EVIL,), trouble=(EVIL,))}),
    )
    fractal.nerves.staging.stage([EVIL], EVIL)
    broken = fractal.workspace.runs / "evil88" / "system-evil88.md"
    broken.parent.mkdir()
    broken.write_text(f"---\nid: {EVIL}\n---\n{EVIL}", "utf-8")
    return _written(fractal)


def _written(fractal: Fractal) -> str:
    """A run whose document has hostile text also where the kernel would not put it."""
    run = "evil77"
    note = Note("note", EVIL, f"model:{EVIL}", EVIL)
    step = Step(1, "done", EVIL, {"path": EVIL, EVIL: EVIL}, EVIL, (), "", None, EVIL, EVIL, {EVIL: EVIL})
    meta = Meta(
        f"system-{run}", run, type=EVIL, status="complete", phase="output", created=EVIL, folder=EVIL,
        rungs=({"attempt": 1, "phase": "plan", "rung": EVIL, "model": EVIL, "calls": 1, "prompt": 8},),
        extra={"more": EVIL},
    )  # fmt: skip
    section = Section((Fold(1, "retry", (note,)),), (note, Note("task", EVIL), Note("diff", f"+{EVIL}")))
    document = Document(meta, dict.fromkeys((1, 2, 4, 5), section) | {3: Section(steps={1: step})})
    path = fractal.workspace.runs / run / f"{meta.id}.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(render(document, 1))
    return run
