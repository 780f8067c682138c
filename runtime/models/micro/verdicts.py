"""CHECK: code judges the evidence. The model puts the answer into a sentence, with grounded numbers only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.asking.responder import Interview, Question
from kernel.document.model import Step
from runtime.memory import NOT_CERTAIN
from runtime.models.micro.calls import shown_sources
from runtime.models.micro.plans import ALONE, PROGRAM, PROOF, QUERY, RECALL
from runtime.models.micro.remembered import offered, source_of, told
from runtime.models.micro.shown import GAP
from runtime.models.micro.task import Task
from runtime.text.grounding import numbers, ungrounded

_LONG_FLOAT = re.compile(r"\b\d{1,9}\.\d{10,}\b")
"""What binary fractions make of `601.4`."""
ONE_MIND = "two programs of the same model had the same outcome, and nothing else was checked"
"""Two samples share an error often: of ten such outcomes with a 1.5B model, four were wrong."""
SHOWN = 400
"""Characters of a program's output in an answer."""


async def verdict(interview: Interview, task: Task, sample: int, last: bool) -> dict[str, Any]:
    """The reply of CHECK. `last`: no further attempt of this model follows."""
    issues = _issues(interview)
    parts = [step for step in _steps(interview) if not step.tool]
    if issues:
        return _again(issues, last or bool(parts))
    if parts:
        open_ = [f"part {step.n} is unverified" for step in parts if step.evidence.get("unverified")]
        return _accept("\n".join(step.result or "" for step in parts), open_)
    program = _program(interview)
    if program is not None:
        return await _agreed(interview, task, program, last)
    written = [step for step in _steps(interview) if step.tool in ("write", "edit")]
    if written:
        if invented := _invented(interview, task):
            return _ask_for(invented, written, sample, last)
        names = ", ".join(dict.fromkeys(str((step.args or {}).get("path")) for step in written))
        commands = [
            str(each["criterion"].get("run", "")) for each in interview.ask.evidence.get("criteria", ())
        ]
        ran = any(command.startswith(PROOF) or "pytest" in command for command in commands)
        return _accept(f"wrote {names}", () if ran else ("only the form of the files was checked",))
    return await _answer(interview, task, last)


def _steps(interview: Interview) -> list[Step]:
    """The steps of this attempt."""
    document = interview.ask.document
    return [document.steps[n] for n in sorted(document.planned) if n in document.steps]


def _issues(interview: Interview) -> list[str]:
    """What is wrong: failed steps, else criteria that do not hold."""
    evidence: Mapping[str, Any] = interview.ask.evidence
    steps = interview.ask.document.steps
    failed = [steps[n] for n in evidence.get("failed_steps", ()) if n in steps]
    issues = [
        f"step {step.n} ({step.tool}) {step.state}: {(step.result or '').strip()[-300:]}" for step in failed
    ]
    if not issues:
        issues = [
            f"{_named(each['criterion'])}: {each.get('note') or 'does not hold'}"
            for each in evidence.get("criteria", ())
            if each.get("after") is False
        ]
    return issues


def _named(criterion: Mapping[str, Any]) -> str:
    """What a criterion is about."""
    return str(criterion.get("file") or criterion.get("run") or json.dumps(criterion, ensure_ascii=False))


def _program(interview: Interview) -> Step | None:
    """The step of this attempt that ran a program written by the model."""
    planned = interview.ask.document.planned
    return next(
        (step for step in _steps(interview) if planned[step.n].what.startswith((PROGRAM, QUERY))), None
    )


async def _agreed(interview: Interview, task: Task, program: Step, last: bool) -> dict[str, Any]:
    """Accept a program once another attempt had the same outcome: the same files or printed values."""
    document = interview.ask.document
    counts = bool(re.search(r"(?i)\bhow many\b", task.words))
    outcome = _outcome(program, counts)
    earlier = [
        step
        for step in document.steps.values()
        if step.n <= document.meta.base and step.state == "done" and {"stdin", "query"} & set(step.args or {})
    ]
    if program.tool == "csv" or any(step.tool == "csv" for step in earlier):
        # a query that is asked for again makes the same mistake again: a program has to confirm it
        earlier = [step for step in earlier if step.tool != program.tool]
    printed = _LONG_FLOAT.sub(lambda each: f"{float(each[0]):.10g}", (program.result or "").strip())
    if not any(_outcome(step, counts) == outcome for step in earlier):
        if last:
            return _again(["no two programs had the same outcome"], last)
        return _again([f"{ALONE}; it printed: {printed[:200]}"], last)
    same_form = not any("query" in (step.args or {}) for step in [program, *earlier])
    doubts = (ONE_MIND,) if same_form else ()
    if program.evidence.get("tree_before") != program.evidence.get("tree_after"):
        return _accept(printed[:SHOWN] or "done", doubts)
    if program.tool == "csv" and counts and printed.count("\n") > 1:
        printed = f"{printed.count(chr(10))} rows:\n{printed}"
    shown = f"A program printed:\n```\n{printed[:SHOWN]}\n```"
    question = Question([task.text, shown], interview.instructions("report"), max_tokens=100)
    reply = (await interview.put(question)).text.strip()
    kept = numbers(printed[:SHOWN]) <= numbers(reply) | numbers(task.text) and not ungrounded(
        reply, [printed, task.text]
    )
    return _accept(reply if kept else f"{printed[:SHOWN]}", doubts)


def _outcome(step: Step, counts: bool) -> tuple[str, str]:
    """What a program came to: the files after it if it changed any, else what it printed.

    Where the task `counts`, several rows of a query stand for their number.
    """
    before, after = (str(step.evidence.get(key, "")) for key in ("tree_before", "tree_after"))
    if before != after:
        return "files", after
    printed = (step.result or "").strip()
    if step.tool == "csv":
        printed = printed.partition("\n")[2]  # without the header
        if counts and "\n" in printed:
            return "printed", f"{printed.count(chr(10)) + 1:.2f}"
    found = {_rounded(number) for number in numbers(printed)}
    return "printed", " ".join(sorted(found)) if found else " ".join(re.findall(r"\w+", printed.casefold()))


def _rounded(number: str) -> str:
    """A number to two decimals: programs print more or fewer."""
    try:
        return f"{float(number):.2f}"
    except ValueError:
        return number


def _invented(interview: Interview, task: Task) -> list[str]:
    """The numbers that a change of existing files adds, and that neither the task nor any file has."""
    document = interview.ask.document
    if task.tests or any(is_code(step) for step in _steps(interview)):
        return []
    diff = document.text(4, "diff").splitlines()
    added = "\n".join(line[1:] for line in diff if line.startswith("+"))
    removed = [line[1:] for line in diff if line.startswith("-")]
    if not removed:  # a new file may say more than the task
        return []
    sources = [interview.result(step.n) for step in _steps(interview) if step.tool in ("read", "fetch")]
    return ungrounded(added, [task.text, *removed, *sources])


def is_code(step: Step) -> bool:
    """Whether a step writes a program, whose numbers are its own."""
    return str((step.args or {}).get("path", "")).endswith((".py", ".js", ".sh"))


def _ask_for(invented: Sequence[str], written: Sequence[Step], sample: int, last: bool) -> dict[str, Any]:
    """Try once more; then ask the person for what the task leaves open."""
    issue = f"it would write {', '.join(invented)}, which the task does not say"
    if sample == 0:
        return _again([issue], last)
    path = str((written[0].args or {}).get("path"))
    made_up = f"The task does not say it, and {', '.join(invented)} would be made up."
    question = f"What should be written in {path}? {made_up}"
    return {**_again([issue], last=True), "question": question}


async def _answer(interview: Interview, task: Task, last: bool) -> dict[str, Any]:
    """Answer a question from what was read."""
    steps = _steps(interview)
    if not steps:
        return _again(["nothing was done"], last)
    if steps[0].tool == RECALL:
        return await _remembered(interview, task, steps[0])
    reader = Step(0, "planned", needs=tuple(step.n for step in steps))
    shown = shown_sources(interview, task, reader)
    question = Question([task.text, *shown], interview.instructions("answer"), max_tokens=160)
    reply = (await interview.put(question)).text.strip()
    if loose := ungrounded(reply, [task.text, *shown]):
        return _again(
            [f"the answer has numbers that nothing shows: {', '.join(loose)} ({reply[:200]})"], last
        )
    parts = any(GAP.search(text) for text in shown)
    return _accept(reply, ("only a part of a long text was read",) if parts else ())


async def _remembered(interview: Interview, task: Task, recalled: Step) -> dict[str, Any]:
    """Answer from what memory offers, with the fact beside it; else say what memory has that is near."""
    lines = offered(interview.ask.document)
    if lines:
        question = Question([*told(lines), task.text], interview.instructions("answer"), max_tokens=60)
        reply = (await interview.put(question)).text.strip()
        if source := source_of(reply, task, lines):
            return _accept(f"{reply}\n{source}", ("a small model read it in memory",))
    found = interview.result(recalled.n).strip()
    said = f"{NOT_CERTAIN}\n{found}" if recalled.evidence.get("known") else found
    return {**_accept(said), "unanswered": True}


def _accept(output: str, doubts: Sequence[str] = ()) -> dict[str, Any]:
    doubted = {"issues": list(doubts), "unverified": True} if doubts else {}
    return {"validation": "pass", "decision": "ACCEPT", "output": output, **doubted}


def _again(issues: list[str], last: bool) -> dict[str, Any]:
    decision = "ESCALATE" if last else "RETRY"
    return {"validation": "fail", "issues": issues, "decision": decision, "learned": "; ".join(issues)[:800]}
