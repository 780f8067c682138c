"""`fractal` as separate processes, a run that fault tests disturb, and its result.

The run writes a.txt, gives its inner part to a child that writes and reads b.txt, and writes the result of
the child into c.txt. Replies come from a script, so the run ends the same way whatever happens in between.

"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from in_process import in_process
from lanes import until
from playing import plan
from warm import Process

from kernel.document.model import Document
from kernel.errors import Exit
from runtime.api.fractal import Fractal

TASK = "write three files"
INNER = "the inner part"
_STEPS = [
    {"tool": "write", "args": {"path": "a.txt", "content": "one\n"}},
    {"subtask": INNER},
    {"tool": "write", "args": {"path": "c.txt", "content": "{{ steps[2].result }}"}},
]
_INNER = [
    {"tool": "write", "args": {"path": "b.txt", "content": "two\n"}},
    {"tool": "read", "args": {"path": "b.txt"}},
]


def accept(output: str) -> dict[str, Any]:
    return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}


def script(
    path: Path,
    *,
    outer: Sequence[Any] = _STEPS,
    inner: Sequence[Any] = _INNER,
    slow: str = "",
    seconds: float = 60,
) -> Path:
    """Write the script; `slow` names an ask ("plan", "check", "inner plan", "inner check") that is slow."""
    entries = [
        {"phase": "check", "task": INNER, "reply": accept("inner done")},
        {"phase": "check", "reply": accept("all done")},
        {"phase": "plan", "task": INNER, "reply": plan(*inner)},
        {"phase": "plan", "reply": plan(*outer)},
        {"phase": "work", "reply": {"calls": outer, "done": "all done"}},  # after an answer
    ]
    if slow:
        entries[["inner check", "check", "inner plan", "plan"].index(slow)]["delay"] = seconds
    path.write_text(json.dumps(entries))
    return path


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, "NO_COLOR": "1", "FRACTAL_SANDBOX": "off", "FRACTAL_CHECK": "always", **more}


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "runtime.cli", "-C", str(folder), *words]


def start(folder: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    return Process(
        command(folder, *words),
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fractal(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end inside the test process."""
    ran = in_process(folder, words, environment(**more))
    assert "Traceback" not in ran.err and "internal error" not in ran.err, ran.err
    return subprocess.CompletedProcess(words, ran.exit, ran.out, ran.err)


@contextmanager
def running(folder: Path, *words: str, **more: str) -> Generator[subprocess.Popen[str]]:
    """A running process; it is killed when the block ends."""
    process = start(folder, *words, **more)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def runs(folder: Path) -> Path:
    return folder / ".fractal" / "state" / "runs"


def run_folder(folder: Path) -> Path:
    (only,) = [each for each in runs(folder).iterdir() if each.is_dir()]
    return only


def root_of(folder: Path) -> Document:
    """The root document of the only run."""
    return Fractal(folder).document(run_folder(folder).name)


def document(folder: Path, kind: str) -> Path:
    """Wait for a document whose name begins with `kind`."""
    return until(lambda: next(runs(folder).glob(f"*/{kind}-*.md"), None))


def inner_asked(folder: Path, count: int = 1) -> bool:
    """Whether the child has asked at least `count` times."""
    logs = runs(folder).glob("*/calls.jsonl")
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    return sum('"asked"' in line and '"key": "tool-' in line for line in lines) >= count


def stopped_in_child(folder: Path, at: str = "inner check") -> Path:
    """A run whose process was killed while its child waited for the model. Returns its folder."""
    folder.mkdir(exist_ok=True)
    slow = script(folder.parent / f"{folder.name}-slow.json", slow=at)
    with running(folder, "run", "--model", f"scripted:{slow}", TASK):
        until(lambda: inner_asked(folder, 2 if at == "inner check" else 1))
    return run_folder(folder)


def waiting_for_answer(folder: Path) -> Path:
    """A run that asks a question and waits for the answer. Returns its folder."""
    folder.mkdir()
    asking = folder.parent / "asking.json"
    asking.write_text(json.dumps([{"reply": {"question": "which?"}, "times": 9}]))
    ran = fractal(folder, "run", "--model", f"scripted:{asking}", TASK)
    assert ran.returncode == Exit.WAITING, ran.stderr
    return run_folder(folder)


def outcome_of(folder: Path) -> dict[str, Any]:
    """The time-independent outcome of a run: files, documents, steps, results."""
    left: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".fractal" not in path.parts
    }
    (run,) = [each.run for each in Fractal(folder).runs()]
    for each in Fractal(folder).documents(run):
        steps = {n: (step.state, step.tool, step.result) for n, step in each.steps.items()}
        left[each.meta.id.replace(run, "")] = (each.meta.status, steps, each.text(5, "result"))
    return left


def undisturbed_outcome(folder: Path) -> dict[str, Any]:
    """The outcome of the run without faults."""
    folder.mkdir()
    ran = fractal(folder, "run", "--model", f"scripted:{script(folder.parent / 'undisturbed.json')}", TASK)
    assert (ran.returncode, ran.stdout) == (Exit.ACCEPTED, "all done\n"), ran.stderr
    return outcome_of(folder)
