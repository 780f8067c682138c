"""`fractal explain`: why a run went as it did, from its documents alone.

`reasons` finds the answers, each with the file and section that it comes from; `explain` prints them.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from kernel.asking.conversation import THOUGHT, last_turn, notes_of, turn_named, turn_of
from kernel.asking.prompt import NOT_YET
from kernel.document.escaping import to_json
from kernel.document.model import Document, Step
from kernel.document.redaction import Verbatim
from kernel.errors import UsageError
from kernel.loop.approval import REVIEW
from kernel.loop.criteria import Finding
from runtime.api.fractal import Fractal
from runtime.cli.output import cleaned, columns, count, echo, emit, phase_name, safe, width
from runtime.cli.session import json_option, opened, run_argument, step_of_newest
from runtime.secrets.redaction import redact

_NOW = {True: "holds now", False: "does not hold", None: "is left to judgement"}
_BEFORE = {True: "; before the first step it held already", False: "; before the first step it did not hold"}
_ACCOUNTS = ("spent", "asked", "approved", "needed", "was", "same as", "turn")
"""Evidence that is explained in words, or shown by `fractal cost`."""
_TRIED = {"learned": "learned", "approach": "tried", "steps then": "its steps", "undone then": "undone"}
_BY_OVERSIGHT = ("review", "answer")
"""The prompts of `system/nervous/`."""
_MEANS = {"ACCEPT": "accepted", "RETRY": "retried", "ESCALATE": "escalated"}


@dataclass(frozen=True)
class Reason:
    """The answer to one question, with its file and section."""

    question: str
    answer: str
    loop: str
    file: str
    section: str

    @property
    def source(self) -> str:
        """Such as `system-7f3kq2.md §2 approach`."""
        return f"{self.file} {self.section}"


Found = tuple[str, str, str]
"""A question, its answer, and the section that it comes from."""


def reasons(
    documents: Sequence[Document], loop: str, step: int | None = None, asked: str = ""
) -> list[Reason]:
    """The reasons of one loop, or of one of its steps; `documents` are all of its run.

    `asked` is what the loop asks to approve, in full.

    Raises KeyError when the loop or the step is not there.
    """
    by_id = {document.meta.id: document for document in documents}
    document = by_id[loop]
    if step is not None:
        parts = [_step(document, step, by_id, full=True)]
    else:
        parts = [
            *(part(document) for part in (_task, _plan)),
            _steps(document, by_id),
            *(part(document) for part in (_rungs, _retries, _verdict)),
            _waiting(document, asked),
            _end(document),
        ]
    texts = [
        Reason(question, answer, loop, f"{loop}.md", section)
        for part in parts
        for question, answer, section in part
    ]
    return texts if step is not None else texts + _budget(document, by_id)


def _who(origin: str) -> str:
    """An origin, as used in a sentence."""
    if origin.startswith("client:"):
        return f'the client "{origin.removeprefix("client:")}"'
    return {"person": "a person", "kernel": "the kernel"}.get(origin, origin.removeprefix("model:"))


def _task(document: Document) -> Iterator[Found]:
    given, resolved = document.note(1, "task"), document.note(1, "resolved task")
    if given is None:
        return
    if document.meta.parent:
        origin = given.source or f"{document.meta.parent}.md"
        yield "Why this loop?", f"its parent gave it the task ({origin})", "§1 task"
    if resolved is None:
        yield "Why this task?", f"as given: {given.text}", "§1 task"
        return
    same = resolved.text.strip() == given.text.strip()
    text = "used as given" if same else f'"{given.text}" was interpreted as "{resolved.text}"'
    facts = [note for note in document.section(1).notes if note.key in ("fact", "answer", "guidance")]
    lines = [f"{text}, by {_who(resolved.origin)}"]
    for note in facts:
        source = f" (from {note.source})" if note.source else f" ({note.key} of {_who(note.origin)})"
        lines.append(f"because: {note.text}{source}")
    if not facts:
        offered = [note.source for note in document.section(1).notes if note.key == "context" and note.source]
        lines.append(f"offered as context: {', '.join(offered)}" if offered else "no further context")
    yield "Why this task?", "\n".join(lines), "§1 resolved task"


def _plan(document: Document) -> Iterator[Found]:
    approach = document.note(2, "approach")
    if approach is None:
        return
    by = f"by {_who(approach.origin)}" + (f", in {approach.source}" if turn_named(approach) else "")
    lines = [f"{approach.text} ({by})"]
    labels = {
        "rationale": "rationale:",
        "confidence": "confidence:",
        REVIEW: "before it started, somebody had to approve it:",
        "passed on": "oversight left that to a person,",
        "approved": "the plan was approved",
        "replaced checks": "its checks were replaced, the old ones and the reason:",
    }
    lines += [f"{words} {text}" for key, words in labels.items() if (text := document.text(2, key))]
    if document.meta.attempt > 1:
        lines.append(f"attempt {document.meta.attempt}, which knew what earlier attempts had learned")
    yield "Why this plan?", "\n".join(lines), "§2 approach"
    if criteria := document.text(2, "baseline"):
        text = f"before the first step:\n{criteria}"
        yield "How was success measured?", text, "§2 baseline"
    elif criteria := document.text(2, "success criteria"):
        text = f"now and on the folder as it was at the start of the run:\n{criteria}"
        yield "How was success measured?", text, "§2 success criteria"


def _steps(document: Document, by_id: Mapping[str, Document]) -> Iterator[Found]:
    """The steps in order, those of a turn between what it said and why its answer was held back."""
    numbers = sorted({**document.planned, **document.steps})
    turns = {n: turn_of(step) for n, step in document.planned.items()}
    for turn in range(last_turn(document) + 1):
        notes = notes_of(document, turn) if turn else {}
        if THOUGHT in notes:
            yield f"What did turn {turn} say?", notes[THOUGHT].text, f"§3 {THOUGHT}"
        for n in numbers:
            if turns.get(n, 0) == turn:
                yield from _step(document, n, by_id, full=False)
        if NOT_YET in notes:
            why = notes[NOT_YET].text.removeprefix("held back: ")
            yield f"Why was the answer of turn {turn} held back?", why, f"§3 {NOT_YET}"
        for note in document.section(3).notes if turn == 0 else ():
            if note.key == NOT_YET and not turn_named(note):
                yield "Why did it go on by turns after its plan?", note.text, f"§3 {NOT_YET}"


def _step(document: Document, n: int, by_id: Mapping[str, Document], *, full: bool) -> Iterator[Found]:
    planned, done = document.planned.get(n), document.steps.get(n)
    step = done or planned
    if step is None:
        raise KeyError(n)
    lines = [f"planned as {_call(planned or step, full)}"]
    if planned is None:
        lines[0] = f"{_call(step, full)}, of an earlier attempt ({_attempt_of(document, n)})"
    turn = turn_of(step)
    if turn and planned is not None:
        lines[0] = f"called in turn {turn}: {_call(planned, full)}"
    if step.needs or not turn:
        before = "comes after" if turn else "needs"
        needs = f"{before} step {', '.join(map(str, step.needs))}"
        lines.append(needs if step.needs else "needs no other step")
    if asked := step.evidence.get("asked"):
        lines.append(f"its arguments were filled in when it was reached, by {_who(str(asked))}")
    if approved := step.evidence.get("approved"):
        article = "" if str(approved).startswith("policy") else "a "
        lines.append(f"approved by {article}{approved}")
    if same := step.evidence.get("same as"):
        lines.append(f"its result is that of step {same}, the same call in the plan before a person's edit")
    if step.state == "stale":
        lines.append("done before a person's edit; not yet decided whether its result is kept")
    yield f"Why step {n}?", "; ".join(lines), f"§{2 if planned else 3} step {n}"
    if done is not None and (full or done.state != "done"):
        yield _outcome(document, done, by_id)
    evidence = {key: value for key, value in done.evidence.items() if key not in _ACCOUNTS} if done else {}
    if full and evidence:
        text = json.dumps(evidence, ensure_ascii=False)
        yield f"What is recorded of step {n}?", text, f"§3 step {n} evidence"


def _call(step: Step, full: bool) -> str:
    if step.args is None:
        return f"{step.tool or 'a subtask'}: {step.what}"
    text = redact(json.dumps(dict(step.args), ensure_ascii=False))
    return f"{step.tool} {text if full or len(text) <= 160 else text[:160] + '…'}"


def _attempt_of(document: Document, n: int) -> str:
    for fold in document.section(2).folds:
        for note in fold.notes:
            if note.key == "steps then" and re.search(rf"(?m)^{n}\. ", note.text):
                return f"attempt {fold.attempt}"
    return "which one is not recorded"


def _outcome(document: Document, step: Step, by_id: Mapping[str, Document]) -> Found:
    result = (step.result or "").strip()
    short = result if len(result) <= 1500 else f"{result[:1500]}… ({len(result)} characters)"
    answer = f"{step.state}" + (f", reported by {_who(step.origin)}: {short}" if short else "")
    child = by_id.get(step.child)
    if child is not None and not child.meta.operation:
        answer += f"\nits loop {child.meta.id} ended {child.meta.status}"
    head = f"What did step {step.n} give?" if step.state == "done" else f"Why is step {step.n} {step.state}?"
    return head, answer, f"§3 step {step.n}"


def _rungs(document: Document) -> Iterator[Found]:
    """Who answered; phases of an attempt with the same answer are grouped."""
    phases: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for entry in document.meta.rungs:
        phases.setdefault((int(entry.get("attempt", 1)), str(entry.get("phase", ""))), []).append(entry)
    groups: dict[tuple[int, str, tuple[str, ...]], list[tuple[str, list[Mapping[str, Any]]]]] = {}
    for (attempt, phase), entries in phases.items():
        passed = tuple(f"{each['rung']} did not: {each['passed']}" for each in entries if each.get("passed"))
        gave = [each for each in entries if not each.get("passed")]
        responder = str(gave[-1].get("model") or gave[-1].get("rung")) if gave else ""
        groups.setdefault((attempt, responder, passed), []).append((phase, gave))
    for (attempt, responder, passed), parts in groups.items():
        gave = [entry for _, entries in parts for entry in entries]
        lines = [*passed, *([f"{responder} answered{_price(gave)}"] if responder else [])]
        if all(phase in _BY_OVERSIGHT for phase, _ in parts):
            lines.append("it oversees the worker")
        elif not passed:
            cheapest = "no cheaper responder took this attempt"
            lines.append(cheapest if attempt == 1 else f"attempt {attempt} began with it")
        name = ", ".join(
            "its one operation" if phase == "atomic" else phase_name(phase) for phase, _ in parts
        )
        note = f" in attempt {attempt}" if attempt > 1 else ""
        head = f"Why {responder} for {name}{note}?" if responder else f"Why did nobody answer {name}{note}?"
        yield head, "; ".join(lines), "§0 rungs"


def _price(entries: Sequence[Mapping[str, Any]]) -> str:
    calls = sum(int(each.get("calls", 0)) for each in entries)
    if not calls:
        return ""
    tokens = sum(int(each.get("prompt", 0)) + int(each.get("out", 0)) for each in entries)
    spent = sum(float(each.get("usd") or 0) for each in entries)
    unknown = any(each.get("usd", 0) is None for each in entries)
    usd = f", USD {spent:.4g}" if spent else ", price unknown" if unknown else ""
    return f" in {count(calls, 'call')} ({tokens:,} tokens{usd})"


def _retries(document: Document) -> Iterator[Found]:
    for fold in document.section(2).folds:
        question = {
            "retry": f"Why a retry after attempt {fold.attempt}?",
            "sent back": f"Why was the plan of attempt {fold.attempt} sent back?",
            "rejected": f"Why was the plan of attempt {fold.attempt} rejected?",
        }.get(fold.decision, f"Why did attempt {fold.attempt} end with {fold.decision}?")
        lines = [f"{_TRIED[note.key]}: {note.text}" for note in fold.notes if note.key in _TRIED]
        lines.sort(key=lambda line: not line.startswith("learned"))
        learned = "\n".join(lines) or "nothing is recorded"
        yield question, learned, f"§2 attempt {fold.attempt}"


def _verdict(document: Document) -> Iterator[Found]:
    decision = document.note(4, "decision")
    if decision is None or document.meta.operation:
        return
    lines = [f"{_who(decision.origin)} {_MEANS.get(decision.text, decision.text)} it ({decision.text})"]
    for text in document.text(4, "evidence").splitlines():
        if found := Finding.read(text):
            before = _BEFORE[found.before] if found.before is not None else ""
            lines.append(
                f"criterion {to_json(dict(found.criterion))} {_NOW[found.after]} ({found.note}){before}"
            )
        elif text.strip() and text != "none":
            lines.append(text.removeprefix("- "))
    if issues := document.text(4, "issues"):
        lines.append(f"issues:\n{issues}")
    if document.meta.unverified and document.meta.status == "complete":
        lines.append("unverified: no criterion on the folder failed before the first step and holds now")
    yield "Why this verdict?", "\n".join(lines), "§4 decision"


def _waiting(document: Document, asked: str) -> Iterator[Found]:
    waits = document.meta.waiting
    if not waits:
        return
    on = {"person": "for a person", "approval": "for an approval", "children": "for its children"}
    on["lifeforce"] = "for lifeforce"
    open_steps = [str(step.n) for step in document.steps.values() if step.link and not step.ended]
    awaited = (
        asked or str(waits.get("question", "")) or (f"steps {', '.join(open_steps)}" if open_steps else "")
    )
    question = document.note(1, "question")
    by = f", asked by {_who(question.origin)}" if question and question.text == awaited else ""
    answer = f"{on.get(str(waits['for']), waits['for'])}{': ' + awaited if awaited else ''}{by}"
    yield "Why does it wait?", Verbatim(answer) if asked else answer, "§0 waiting"


def _end(document: Document) -> Iterator[Found]:
    for key in ("error", "escalation"):
        if note := document.note(5, key):
            question = f"Why did it end {document.meta.status}?"
            open_question = f"\nopen question: {text}" if (text := document.text(5, "question")) else ""
            yield question, note.text + open_question, f"§5 {key}"
    if document.meta.status == "interrupted":
        yield "Why is it interrupted?", "its process was stopped or died", "§0 status"


def _budget(document: Document, by_id: Mapping[str, Document]) -> list[Reason]:
    meta = document.meta
    parent = by_id.get(meta.parent)
    if not meta.budget:
        return []
    names = {"calls": "calls", "tokens": "tokens", "seconds": "seconds", "context": "tokens of work context"}
    limits = [f"{meta.budget[key]:,g} {name}" for key, name in names.items() if key in meta.budget]
    limits += [f"USD {meta.budget['usd']:.4g}"] if "usd" in meta.budget else []
    why, file, section = "the limits of the run", f"{meta.id}.md", "§0 budget"
    if parent:
        step = next((each for each in parent.steps.values() if each.link == f"{meta.id}.md"), None)
        siblings = sum(each.share is not None for each in parent.steps.values()) - 1
        why = f"its share of the calls that {parent.meta.id} had left, less one reserved for Check"
        why += f", beside {siblings} more" if siblings > 0 else ""
        file, section = f"{parent.meta.id}.md", f"§3 step {step.n} share" if step else "§3"
    return [Reason("Why this budget?", f"{why}: {', '.join(limits)}", meta.id, file, section)]


@click.command()
@run_argument()
@click.argument("step", required=False)
@json_option("Print a list of objects: question, answer, loop, file, section.")
def explain(run: str, step: str | None) -> None:
    """Explain a run (default: the newest), one of its documents, or one step (2, or 1.2 in a child).

    Each answer names the file and section that it comes from. Only the documents are read.
    """
    run, step = step_of_newest(run, step)
    fractal = opened()
    documents = fractal.documents(run)
    start = fractal.document(run)
    answers = _of_step(documents, start, step) if step else _of_loops(fractal, documents, start)
    emit(answers)
    loops = {answer.loop for answer in answers}
    loop, room = "", columns()
    for answer in answers:
        if not step and answer.loop != loop and len(loops) > 1:
            echo(f"{chr(10) * bool(loop)}— {answer.loop} —", fg="cyan")
            loop = answer.loop
        echo(answer.question, bold=True)
        asked = isinstance(answer.answer, Verbatim)  # a wrapped line would not show all of its blanks
        for text in safe(cleaned(answer.answer, sys.stdout)).splitlines():
            lines = textwrap.wrap(text, room, initial_indent="  ", subsequent_indent="  ")
            echo(Verbatim(f"  {text}" if asked or width(text) + 2 <= room else "\n".join(lines)))
        echo(f"  ← {answer.source}", dim=True)


def _of_loops(fractal: Fractal, documents: list[Document], start: Document) -> list[Reason]:
    """The reasons of a document; for a root, also those of every loop below it."""
    below = [each for each in documents if each.meta.parent and not each.meta.operation]
    loops = [start, *(() if start.meta.parent else below)]
    return [
        reason
        for loop in loops
        for reason in reasons(documents, loop.meta.id, asked=fractal.asked(loop).text if _asks(loop) else "")
    ]


def _asks(document: Document) -> bool:
    return (document.meta.waiting or {}).get("for") == "approval"


def _of_step(documents: list[Document], start: Document, step: str) -> list[Reason]:
    *path, last = step.split(".")
    loop = start
    try:
        for n in path:
            link = loop.steps[int(n)].child
            loop = next(each for each in documents if each.meta.id == link)
        return reasons(documents, loop.meta.id, int(last))
    except (KeyError, ValueError, StopIteration):
        steps = ", ".join(map(str, sorted({**loop.planned, **loop.steps}))) or "none"
        raise UsageError(f"{loop.meta.id} has no step {step}; its steps: {steps}") from None
