"""The run under test: a task, its files, and a model that answers by the prompt alone.

It has a question to a person; parallel children, one with a child that is a single operation; operations with
effects that files show (write, append, edit, copy, move, replace) and without (bash); a step with arguments
asked for when it is reached; a reply of the wrong form; a look in CHECK; a plan that CHECK rejects once; a
result too long for the document; references between steps and attempts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TASK = "JOB-ROOT: put the release together"
QUESTION = "Which port?"
ANSWER = "8080"
_FILES = {
    "notes.txt": "the first note\nthe second note\n",
    "big.txt": "".join(f"line {n} of a long text\n" for n in range(1, 301)),
    "config.txt": "port = 80\nhost = here\n",
}


def lay_out(folder: Path) -> None:
    """Write the files of the task."""
    folder.mkdir(parents=True)
    for name, text in _FILES.items():
        (folder / name).write_text(text, "utf-8")


def environment(url: str, sandbox: str) -> dict[str, str]:
    """The settings of every command of a trial."""
    rung = {
        "model": "openai/scripted",  # has no known tokenizer: loading one takes longer than the run
        "api_base": url,
        "price": {"input": 1.0, "output": 2.0},
        "timeout": 90,
        "options": {"retries": 0},
    }
    return {
        "FRACTAL_LADDER": json.dumps([rung]),
        "FRACTAL_SANDBOX": sandbox,
        "FRACTAL_CHECK": "always",
        "FRACTAL_PROFILE": "standard",
        "FRACTAL_MAX_DEPTH": "2",
        "FRACTAL_CALLS": "200",
        "OPENAI_API_KEY": "sk-test-0123456789",
        "NO_COLOR": "1",
        "CI": "1",
    }


def answer(system: str, user: str) -> str:
    """The reply of the model to a prompt."""
    job = re.search(r"JOB-[A-Z0-9]+", user)
    phase = re.search(r"^# (UNDERSTAND, PLAN|UNDERSTAND|PLAN|DO|CHECK)", system, re.MULTILINE)
    if not job or not phase:
        return "unknown prompt"
    if phase[1] == "CHECK":
        reply = _check(job[0], user)
    elif phase[1] == "DO":
        reply = _do(job[0])
    else:
        reply = _plan(job[0], user)
    return reply if isinstance(reply, str) else json.dumps(reply)


def _call(tool: str, needs: list[int], **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args, "needs": needs}


def _bash(name: str, needs: list[int]) -> dict[str, Any]:
    """A command that must not run twice: it adds a line to a file of its own in `ledger/`."""
    return _call("bash", needs, command=f"mkdir -p ledger && echo {name} >> ledger/{name}.txt")


def _write(path: str, content: str, needs: list[int], **more: Any) -> dict[str, Any]:
    return _call("write", needs, path=path, content=content, **more)


def _planned(job: str, steps: list[dict[str, Any]], success: list[dict[str, Any]]) -> dict[str, Any]:
    plan = {"approach": "as it is written", "confidence": "high", "steps": steps, "success": success}
    return {"task": f"{job}: as asked", "context": [{"fact": "there are notes", "from": "notes.txt"}], **plan}


def _plan(job: str, user: str) -> Any:
    if job == "JOB-ROOT":
        if ANSWER not in user:
            return {"task": TASK, "context": [], "question": QUESTION}
        return _second_plan() if "earlier[N]" in user else _first_plan()
    if job == "JOB-A":
        steps = [
            _write("parts/a.txt", "part a\n", []),
            _bash("a", []),
            {"subtask": "JOB-A1: add a line to parts/a1.txt", "needs": [1]},
            _call("read", [3], path="parts/a1.txt"),
        ]
        return _planned(job, steps, [{"file": "parts/a1.txt", "has": "line"}])
    if job == "JOB-B":
        if "## Refused" not in user:
            return "I would rather say this in prose."
        steps = [
            _call("copy", [], **{"from": "notes.txt", "to": "parts/copied.txt"}),
            _call("move", [1], **{"from": "parts/copied.txt", "to": "parts/moved.txt"}),
            _write("parts/b.txt", "the first\n", []),
            _call("replace", [2, 3], path="parts", old="the first", new="not the first", glob="*[bd].txt"),
            _bash("b", [4]),
        ]
        return _planned(job, steps, [{"file": "parts/b.txt", "has": "not the first"}])
    steps = [{"tool": "bash", "what": "leave a mark"}, {"tool": "read", "args": {"path": "config.txt"}}]
    return _planned(job, steps, [{"file": "ledger/c.txt", "has": "c"}])


def _first_plan() -> dict[str, Any]:
    steps = [
        _call("read", [], path="notes.txt"),
        _call("bash", [], command="cat big.txt"),
        {"subtask": "JOB-A: make part a. The notes: {{ steps[1].result }}", "needs": [1]},
        {"subtask": "JOB-B: make part b", "needs": []},
        _bash("root1", [2]),
        {"tool": "write", "what": "put the port into out/port.txt", "needs": [1]},
        _call("edit", [5], path="config.txt", old="port = 80", new="port = 8080"),
        _write("log.txt", "a: {{ steps[3].result }}\n", [3, 4, 7], append=True),
    ]
    return _planned("JOB-ROOT", steps, [{"file": "log.txt", "has": "a:"}])


def _second_plan() -> dict[str, Any]:
    steps = [
        _bash("root2", []),
        {"subtask": "JOB-C: make part c", "needs": []},
        _write("log.txt", "c: {{ steps[2].result }}\n", [1, 2], append=True),
        _write("whole.txt", "{{ earlier[2].result }}", [3]),
    ]
    return _planned("JOB-ROOT", steps, [{"file": "log.txt", "has": "c:"}])


def _do(job: str) -> dict[str, Any]:
    if job == "JOB-ROOT":
        return {"tool": "write", "args": {"path": "out/port.txt", "content": f"{ANSWER}\n"}}
    if job == "JOB-A1":
        return {"tool": "write", "args": {"path": "parts/a1.txt", "content": "a line\n", "append": True}}
    return {"tool": "bash", "args": _bash("c", [])["args"]}


def _check(job: str, user: str) -> dict[str, Any]:
    if job == "JOB-ROOT" and "whole.txt" not in user:
        issues = ["part c is missing"]
        return {"validation": "fail", "issues": issues, "decision": "RETRY", "learned": "part c comes last"}
    if job == "JOB-A" and "Look (runtime)" not in user:
        return {"look": {"tool": "read", "args": {"path": "parts/a.txt"}}}
    output = {
        "JOB-ROOT": "released: {{ steps[1].result }}{{ steps[10].result }}",
        "JOB-A": "part a: {{ steps[4].result }}",
        "JOB-B": "part b is made",
    }.get(job, "part c: {{ steps[2].result }}")
    return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}
