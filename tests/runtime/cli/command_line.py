"""Calls the `fractal` command, and writes the documents of a run by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from in_process import Ran, in_process
from warm import run

from kernel.document.markdown import render
from kernel.document.model import Document, Fold, Meta, Note, Section, Step

REPOSITORY = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from runtime.cli import main; main()"]
MODEL = "model:openai/gpt-5-mini"
RUN = "7f3kq2"
_config = tempfile.TemporaryDirectory(prefix="fractal-config-")
CONFIG = _config.name
"""The configuration of the user that these tests are: empty but for a key."""


def environment(**more: str) -> dict[str, str]:
    """An environment without keys, models and colours of whoever runs the tests. CHECK is always asked."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "FRACTAL_TRUST") if key in os.environ}
    return {
        **kept,
        "FRACTAL_CHECK": "always",
        "FRACTAL_EMBEDDER": "lexical",
        "PYTHONPATH": str(REPOSITORY),
        "XDG_CONFIG_HOME": CONFIG,
        "TZ": "UTC",
        **more,
    }


@dataclass
class Command:
    """`fractal`, called in this process, or as a process of its own."""

    folder: Path

    def __call__(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        return in_process(self.folder, words, environment(**(env or {})), stdin)

    def process(self, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        """For what depends on the end of the process, or on its standard input being no file."""
        done = run(
            [*COMMAND, *words],
            cwd=self.folder,
            env=environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def script(self, name: str, script: Any) -> str:
        """Keep a scripted model's replies; returns the name for `--model`."""
        (self.folder / name).write_text(yaml.safe_dump(script, sort_keys=False), "utf-8")
        return f"scripted:{name}"


PLAN: dict[str, Any] = {
    "task": "Write five into words.txt",
    "approach": "write the number",
    "confidence": "high",
    "steps": [{"tool": "write", "args": {"path": "words.txt", "content": "5\n"}}],
    "success": [{"file": "words.txt", "has": "5"}],
}
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "five words"}
WORKS: dict[str, Any] = {"fused": PLAN, "check": ACCEPT}
ASKS: dict[str, Any] = {
    "fused": {"task": "Write it", "question": "Which file?"},
    "work": {"calls": PLAN["steps"], "done": "five words"},
    "check": ACCEPT,
}


def write_run(folder: Path) -> list[Document]:
    """A run of four documents: a retry, a child that escalated, a rung that declined, a file replaced."""
    run = folder / ".fractal" / "state" / "runs" / RUN
    kept = run / "artifacts" / "kept"
    kept.mkdir(parents=True)
    (kept / f"op-write-{RUN}-3-0").write_text("old line\n", "utf-8")
    (folder / "report.md").write_text("new line\n", "utf-8")
    documents = [_root(folder), _child(), _operation(), _write()]
    for document in documents:
        (run / f"{document.meta.id}.md").write_bytes(render(document))
    return documents


def _root(folder: Path) -> Document:
    rungs = (
        {"attempt": 1, "phase": "plan", "rung": "reflex", "passed": "no procedure fits"},
        {"attempt": 1, "phase": "plan", "rung": "openai/gpt-5-mini", "model": "openai/gpt-5-mini", "calls": 1}
        | {"prompt": 800, "instr": 330, "out": 200, "usd": 0.001},
        {
            "attempt": 2,
            "phase": "check",
            "rung": "openai/gpt-5-mini",
            "model": "openai/gpt-5-mini",
            "calls": 2,
        }
        | {"prompt": 900, "instr": 280, "out": 60, "usd": 0.002},
    )
    meta = Meta(
        f"system-{RUN}",
        RUN,
        status="complete",
        phase="output",
        attempt=2,
        base=2,
        created="2025-03-01T09:30:00Z",
        folder=str(folder),
        rungs=rungs,
        budget={"calls": 60, "tokens": 400000, "usd": 1.0, "seconds": 900.0, "context": 3000},
        spent={"calls": 5, "prompt_tokens": 2500, "completion_tokens": 400, "usd": 0.004, "seconds": 12.5},
    )
    understand = Section(
        notes=(
            Note("task", "Summarise the \x1b[31mreports\x1b[0m [bold]here[/bold]", "person"),
            Note("context", "notes.txt 26", "kernel", "folder"),
            Note("resolved task", "Summarise both reports into report.md", MODEL),
            Note("fact", "there are two reports", MODEL, "folder"),
        )
    )
    learned = (
        Note("approach", "read everything", MODEL),
        Note("learned", "the second report is a picture", MODEL),
        Note("steps then", '1. bash {"command": "exit 3"} → failed\n2. subtask summarise b → failed'),
    )
    criterion = '{"file": "report.md", "has": "new"}'
    plan = Section(
        folds=(Fold(1, "retry", learned),),
        notes=(
            Note("approach", "write what is known", MODEL),
            Note("confidence", "medium", MODEL),
            Note("success criteria", criterion, MODEL),
            Note("baseline", f"fails now: {criterion}"),
            Note("rationale", "the picture cannot be read", MODEL),
        ),
        steps={3: Step(3, "planned", "write", {"path": "report.md", "content": "new line\n"}, needs=(1,))},
    )
    share = {"calls": 20, "tokens": 100000, "usd": 0.3, "context": 2000, "max_depth": 3}
    changed = {
        "path": "report.md",
        "before": "b0",
        "after": "a0",
        "kept": "artifacts/kept/op-write-7f3kq2-3-0",
    }
    do = Section(
        steps={
            1: Step(
                1, "failed", "bash", {"command": "exit 3"}, link=f"op-bash-{RUN}-1.md", result="[exit 3]"
            ),
            2: Step(
                2,
                "failed",
                what="summarise b",
                link=f"tool-task-{RUN}-2.md",
                share=share,
                result="escalated: it is a picture",
            ),
            3: Step(
                3,
                "done",
                "write",
                {"path": "report.md", "content": "new line\n"},
                needs=(1,),
                link=f"op-write-{RUN}-3.md",
                result="wrote report.md",
                origin="tool:write",
                evidence={"touched": [changed], "asked": MODEL},
            ),
        }
    )
    check = Section(
        notes=(
            Note("evidence", f"- pass {criterion} (before: FAIL) → 9 bytes, matched 'new'"),
            Note("changes", "changed report.md 9 bytes"),
            Note("validation", "pass", MODEL),
            Note("issues", "- the second report is missing", MODEL),
            Note("decision", "ACCEPT", MODEL),
        )
    )
    output = Section(notes=(Note("result", "one report of two", MODEL),))
    return Document(meta, {1: understand, 2: plan, 3: do, 4: check, 5: output})


def _child() -> Document:
    meta = Meta(
        f"tool-task-{RUN}-2",
        RUN,
        level="tool",
        parent=f"system-{RUN}",
        depth=1,
        status="escalated",
        phase="output",
        created="2025-03-01T09:30:05Z",
        rungs=(
            {"attempt": 1, "phase": "fused", "rung": "local", "model": "local", "calls": 1, "prompt": 500},
        ),
        budget={"calls": 20, "tokens": 100000, "usd": 0.3, "context": 2000},
        spent={"calls": 1, "prompt_tokens": 500},
    )
    task = Note("task", "summarise b", "kernel", f"system-{RUN}.md, step 2")
    end = (Note("escalation", "it is a picture"), Note("question", "Is there a text of it?"))
    return Document(meta, {1: Section(notes=(task,)), 5: Section(notes=end)})


def _operation() -> Document:
    return _op("bash", 1, "failed", Note("error", "[exit 3]", "tool:bash"))


def _write() -> Document:
    return _op("write", 3, "complete", Note("result", "wrote report.md", "tool:write"))


def _op(name: str, n: int, status: str, end: Note) -> Document:
    meta = Meta(
        f"op-{name}-{RUN}-{n}",
        RUN,
        level="operation",
        type=name,
        parent=f"system-{RUN}",
        depth=1,
        status=status,
        phase="output",
    )
    return Document(meta, {1: Section(notes=(Note("task", name),)), 5: Section(notes=(end,))})
