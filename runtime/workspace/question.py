"""The question before calls that need an approval. What it shows is what runs.

META names a question in short. This is the one place that shows it: whole, with the exact arguments, nothing
cut, and nothing hidden but what cannot be seen, which is escaped. Every view of a question uses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kernel.asking.conversation import by_turns
from kernel.document.model import Document, Step
from kernel.document.redaction import Verbatim
from kernel.errors import DocumentError
from kernel.loop.approval import CHECKS_WAIT, PLAN_WAITS, call_digest
from kernel.loop.criteria import checks_of
from kernel.store.files import FileStore
from runtime.secrets.forms import HIDDEN
from runtime.text.shown import count

INLINE = 300
"""Characters of an argument that stands on the line of its call."""
_BLANK_LETTERS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
"""Characters that count as printable and show nothing."""
_UNSEEN = re.compile(rf"[^\S \n\t]|[{_BLANK_LETTERS}]")


class Question(NamedTuple):
    """A question in full."""

    text: Verbatim
    problem: str = ""
    """Why it cannot be shown in full, so that nobody may approve it."""


def proposed(document: Document) -> dict[int, Step]:
    """The planned steps that somebody has to approve: those that have not ended."""
    return {n: step for n, step in document.planned.items() if not document.steps.get(n, step).ended}


def question_of(store: FileStore, document: Document) -> Question:
    """What a document that waits for an approval asks, read from disk with its secrets in their places."""
    document = store.exactly(document.meta.id)
    if (document.meta.waiting or {}).get("question") == PLAN_WAITS:
        text = "\n".join(_plan(document))
        lost = "a secret in this plan cannot be read without the key that it was kept with; reject it"
        return Question(Verbatim(text), lost if HIDDEN.search(text) else "")
    lines: list[str] = []
    problem = ""
    for step in asked_steps(document):
        results = _results(store, document, step)
        lines += _step(step, results)
        names = step.evidence.get("names")
        if step.evidence.get("call") != call_digest(step.tool, step.args or {}, results, names):
            problem = (
                f"step {step.n} cannot be shown in full, so nobody can approve it: it was edited, or the key "
                "of a secret in it is lost; reject it, or resume the run to be asked again"
            )
    lines += [f"- {problem}"] if problem else []
    return Question(Verbatim("\n".join(lines)), problem)


def asked_steps(document: Document) -> list[Step]:
    """The calls that a document asks to approve: its waiting steps, or the commands among its criteria."""
    if not str((document.meta.waiting or {}).get("question", "")).startswith(CHECKS_WAIT):
        return [step for step in document.steps.values() if step.state == "waiting"]
    return [
        Step(0, "waiting", "bash", args := {"command": command}, evidence={
            "approval": ["shell"], "call": call_digest("bash", args, {})
        })
        for command in checks_of(document)
    ]  # fmt: skip


def seen(text: str) -> str:
    """The text with every character that cannot be seen escaped; tabs and line ends stay."""
    return "".join(map(_seen, text)) if not text.isprintable() or _UNSEEN.search(text) else text


def one_line(text: str) -> Verbatim:
    """The text as one line with every character that cannot be seen escaped, for what a person approves."""
    return Verbatim(seen(text).replace("\n", "\\n").replace("\t", "\\t"))


def _seen(sign: str) -> str:
    if sign in "\n\t" or (sign.isprintable() and not _UNSEEN.match(sign)):
        return sign
    return f"\\u{{{ord(sign):x}}}"


def _json(value: Any) -> str:
    """One line of JSON with every character that cannot be seen escaped as JSON does."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each == " " or _seen(each) == each else json.dumps(each)[1:-1] for each in text)


def _step(step: Step, results: Mapping[int, str]) -> Iterator[str]:
    """The lines about a call that waits: its arguments, the results and files it gets, and its dangers."""
    effects = step.evidence.get("approval", ())
    may = f"may {' and '.join(effects)}: " if effects else ""
    yield from _call(f"{f'step {step.n}' if step.n else 'a check'} {may}{step.tool}", step.args or {})
    for n, text in results.items():
        yield from _named(f"with RESULT_{n}", text)
    for name, digest in step.evidence.get("names", {}).items():
        yield f"- with {seen(name)} as it is now ({seen(digest)[:16]})"
    for danger in step.evidence.get("dangers", ()):
        yield f"- {' '.join(seen(danger).split())}"


def _call(begin: str, args: Mapping[str, Any]) -> Iterator[str]:
    long = {name for name, value in args.items() if isinstance(value, str) and _is_long(value)}
    short = {name: value for name, value in args.items() if name not in long}
    yield f"{begin} {_json(short)}" if short or not long else begin
    for name in args:
        if name in long:
            yield from _named(name, args[name])


def _named(name: str, text: str) -> Iterator[str]:
    """A text under its name: on one line, or as a block that nothing in it can end."""
    if not _is_long(text):
        yield f"- {seen(name)} = {_json(text)}"
        return
    lines = text.split("\n")
    yield f"- {seen(name)}, {count(len(lines), 'line')}, {count(len(text), 'character')}:"
    yield from (f"  │ {seen(line)}" for line in lines)


def _is_long(text: str) -> bool:
    return len(text) > INLINE or "\n" in text


def _results(store: FileStore, document: Document, step: Step) -> dict[int, str]:
    """The results that the call of a step gets, in full."""
    found: dict[int, str] = {}
    for n in step.evidence.get("results", ()):
        used = document.steps.get(n)
        if used is None or used.result is None:
            continue
        try:
            text = store.unshelve(str(used.evidence["whole"])) if used.evidence.get("whole") else used.result
        except DocumentError:  # it is gone: the digest says so
            text = used.result
        found[n] = store.exact.reveal(text)
    return found


def _plan(document: Document) -> Iterator[str]:
    """The lines of a plan that waits: its steps with their exact arguments, and its checks."""
    if approach := document.text(2, "approach"):
        yield seen(approach)
    steps = {**proposed(document), **{step.n: step for step in asked_steps(document)}}
    for n, step in sorted(steps.items()):
        if step.args is None:
            yield f"{n}. {seen(step.tool or 'subtask')} {seen(step.what)}"
        else:
            yield from _call(f"{n}. {step.tool or 'subtask'}", step.args)
    if (work := document.text(2, "work")) and not by_turns(document):  # by turns it is the task
        yield seen(work)
    for line in document.text(2, "success criteria").splitlines():
        yield f"check: {seen(line)}"
    for line in document.text(2, "dangers").splitlines():
        yield f"- {seen(line)}"
