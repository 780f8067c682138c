"""The run under test: a task, its files, and a model that answers by the messages alone.

The root decides by turns: a question to a person, looks, a call that does not exist, a command beside a
child, changes with an answer that is held back, a criterion that is replaced with a reason; CHECK rejects its
first attempt. A child is a plan with parallel children, one with a child that takes turns. There are
operations with effects that files show (write, append, edit, copy, move, replace) and without (bash); a step
with arguments asked for when it is reached; a plan that is refused; a look in CHECK; a result too long for
the document; references between steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel.asking.messages import Message, text_of

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
        "FRACTAL_MAX_DEPTH": "3",
        "FRACTAL_CALLS": "200",
        "OPENAI_API_KEY": "sk-test-0123456789",
        "NO_COLOR": "1",
        "CI": "1",
    }


def answer(messages: Sequence[Message]) -> str:
    """The reply of the model to the messages of an ask."""
    system, user = (str(each["content"]) for each in messages[:2])
    job = re.search(r"JOB-[A-Z0-9]+", user.partition("## Task\n")[2])
    phase = re.search(r"^# (DO|CHECK)", f"{system}\n{user}", re.MULTILINE)
    text = "\n".join(map(text_of, messages))
    if not job:
        return "unknown prompt"
    if phase:
        reply = _check(job[0], text) if phase[1] == "CHECK" else _do(job[0])
    else:
        reply = _turn(job[0], text, sum(each["role"] == "assistant" for each in messages))
    return json.dumps(reply)


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


def _turn(job: str, seen: str, said: int) -> dict[str, Any]:
    """The turn of a job after so many earlier ones, with what it sees."""
    if job == "JOB-ROOT":
        turns = _second_turns() if "Attempt 1 (retry)" in seen else _first_turns()
        return turns[said]
    if job == "JOB-M":
        steps: list[dict[str, Any]] = [
            {"subtask": "JOB-A: make part a", "needs": []},
            {"subtask": "JOB-B: make part b", "needs": []},
            _write("log.txt", "a: {{ steps[1].result }}\n", [1, 2], append=True),
        ]
        return _planned(job, steps, [{"file": "log.txt", "has": "a:"}])
    if job == "JOB-A":
        steps = [
            _write("parts/a.txt", "part a\n", []),
            _bash("a", []),
            {"subtask": "JOB-A1: add a line to parts/a1.txt", "needs": [1]},
            _call("read", [3], path="parts/a1.txt"),
        ]
        return _planned(job, steps, [{"file": "parts/a1.txt", "has": "line"}])
    if job == "JOB-A1":
        call = _use("write", path="parts/a1.txt", content="a line\n", append=True)
        return [{"calls": [call]}, _done("a line is added", "test -s parts/a1.txt")][said]
    if job == "JOB-B":
        if "Your reply was refused" not in seen:
            return _planned(job, [_call("no-such-tool", [])], [{"file": "parts/b.txt"}])
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


def _use(tool: str, **args: Any) -> dict[str, Any]:
    """A call of a turn."""
    return {"tool": tool, "args": args}


def _done(answer: str, *checks: str) -> dict[str, Any]:
    return {"calls": [_use("done", answer=answer, checks=list(checks))]}


def _first_turns() -> list[dict[str, Any]]:
    """A question, looks, a failed call, a child beside a command; an answer that is held back."""
    port = [
        _use("write", path="out/port.txt", content=f"{ANSWER}\n"),
        _use("edit", path="config.txt", old="port = 80", new="port = 8080"),
    ]
    mark = _bash("root1", [])
    return [
        {"calls": [_use("ask", question=QUESTION)]},
        {"calls": [_use("read", path="notes.txt"), _use("bash", command="cat big.txt"), _use("nothing")]},
        {"calls": [_use("bash", **mark["args"]), {"subtask": "JOB-M: make the parts a and b"}]},
        {"calls": [*port, *_done("released", "grep -q nowhere config.txt")["calls"]]},
        {"calls": [_use("done", checks=["grep -q 'port = 8080' config.txt"], why="the word is no port")]},
    ]


def _second_turns() -> list[dict[str, Any]]:
    mark = _bash("root2", [])
    calls = [_use("bash", **mark["args"]), {"subtask": "JOB-C: make part c"}]
    whole = [_use("write", path="whole.txt", content="part c is made\n")]
    return [
        {"calls": calls},
        {"calls": [*whole, *_done("released with part c", "test -s whole.txt")["calls"]]},
    ]


def _do(job: str) -> dict[str, Any]:
    """The arguments of a step that are asked for when it is reached."""
    return {"tool": "bash", "args": _bash(job[-1].lower(), [])["args"]}


def _check(job: str, seen: str) -> dict[str, Any]:
    if job == "JOB-ROOT" and "whole.txt" not in seen:
        issues = ["part c is missing"]
        return {"validation": "fail", "issues": issues, "decision": "RETRY", "learned": "part c comes last"}
    if job == "JOB-A" and "Look (runtime)" not in seen:
        return {"look": {"tool": "read", "args": {"path": "parts/a.txt"}}}
    output = {
        "JOB-ROOT": "released with part c",
        "JOB-M": "the parts are made: {{ steps[1].result }}",
        "JOB-A1": "a line is added",
        "JOB-A": "part a: {{ steps[4].result }}",
        "JOB-B": "part b is made",
    }.get(job, "part c: {{ steps[2].result }}")
    return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}
