"""What people are shown of a run: its status, loops and steps, its costs, and its text as plain markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernel.document.model import Document, Step
from kernel.errors import DocumentError
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal
from runtime.workspace.undo import undone_steps
from runtime.workspace.workspace import is_locked

FIGURES = ("calls", "prompt_tokens", "cached_tokens", "instruction_tokens", "completion_tokens", "usd")
"""What a call costs, as `costs` names it."""
UNANSWERED = "calls without an answer"
_FOLD = re.compile(r"(?m)^<details>\n<summary>(.*)</summary>$")
_COMMIT = re.compile(r"(?m)^<!-- rev \d+ -->$")


@dataclass(frozen=True)
class Tree:
    """The loops of a run, the root's as plain values, and their documents."""

    root: Mapping[str, Any]  # id, type, level, status, task, spent, steps; id, status, error if it is broken
    documents: Mapping[str, Document | str]  # by id; for one that cannot be read, its error
    strays: tuple[str, ...] = ()  # documents that no step links


def tree_of(fractal: Fractal, run: str) -> Tree:
    """The loops of a run. Raises `UsageError` if there is no such run."""
    run = fractal.find(run)
    documents = _readable(fractal, run)
    root = next((key for key in documents if key.startswith("system-")), "")
    top = documents.get(root, "")
    stopped = not isinstance(top, str) and status_of(fractal, run, top.meta.status) == "interrupted"
    readable = [document for document in documents.values() if not isinstance(document, str)]
    linked = {step.child for document in readable for step in _steps(document).values()}
    strays = tuple(key for key in documents if key not in linked | {root})
    return Tree(_loop(documents, root, stopped), documents, strays)


def plain(body: str) -> str:
    """The body of a document as plain markdown, without HTML."""
    folds = _FOLD.sub(r"*\1*", body).replace("\n</details>\n", "\n")
    return _COMMIT.sub("", folds)


def as_object(document: Document, asked: str | None = None) -> dict[str, Any]:
    """A document as plain values, without empty ones; `asked` is what it asks to approve, in full."""

    def full(value: Any) -> Any:
        return {key: each for key, each in asdict(value).items() if each not in ("", (), {}, None)}

    sections: dict[str, Any] = {}
    for number, section in sorted(document.sections.items()):
        parts = {"notes": section.notes, "folds": section.folds, "steps": section.steps.values()}
        sections[str(number)] = {key: [full(each) for each in found] for key, found in parts.items() if found}
    meta = asdict(document.meta)
    meta |= {"waiting": {**meta["waiting"], "question": asked}} if asked is not None else {}
    return {"meta": meta, "sections": sections}


def status_of(fractal: Fractal, run: str, status: str) -> str:
    """The status on disk, or `interrupted` where no process works on the run."""
    if status not in ("running", "ready"):
        return status
    try:
        return status if is_locked(fractal.workspace.runs / run) else "interrupted"
    except OSError:
        return status


def loop_ids(fractal: Fractal, run: str) -> list[str]:
    """The ids of the loops of a run, parents before children; a single operation is none."""
    return FileStore(fractal.workspace.runs / run).loops()


def _steps(document: Document) -> dict[int, Step]:
    return dict(sorted({**document.planned, **document.steps}.items()))


def _loop(documents: Mapping[str, Document | str], key: str, stopped: bool) -> dict[str, Any]:
    """A loop with its steps; a step that is a loop contains it. In a `stopped` run nothing is running."""

    def shown(state: str) -> str:
        return "interrupted" if stopped and state in ("running", "ready") else state

    document = documents.get(key, "the document is missing")
    if isinstance(document, str):
        return {"id": key, "status": "broken", "error": document}
    meta = document.meta
    loop = {"id": key, "type": meta.type, "level": meta.level, "status": shown(meta.status)}
    loop |= {"unverified": True} if meta.unverified else {}
    undone = undone_steps(document)
    steps: list[dict[str, Any]] = []
    for n, step in _steps(document).items():
        each = {"n": n, "tool": step.tool, "what": step.what, "args": step.args}
        each |= {"state": shown(step.state), "document": step.link, "share": step.share}
        each |= {"undone": True} if n in undone else {}
        child = step.child
        if child and (child in documents or step.share is not None):
            each["loop"] = _loop(documents, child, stopped)
        steps.append({name: value for name, value in each.items() if value not in ("", None)})
    return {**loop, "task": document.text(1, "task"), "spent": dict(meta.spent), "steps": steps}


def _readable(fractal: Fractal, run: str) -> dict[str, Document | str]:
    """The documents of a run by id; for one that cannot be read, its error."""
    documents: dict[str, Document | str] = {}
    for loop_id in FileStore(fractal.workspace.runs / run).list():
        try:
            documents[loop_id] = fractal.document(loop_id)
        except DocumentError as error:
            documents[loop_id] = str(error)
    return documents


def costs(documents: Sequence[Document]) -> Iterator[dict[str, Any]]:
    """A row for each answer to a phase: loop, attempt, phase, rung, and `FIGURES`.

    A last row of a loop has the calls that filled in no phase. So the rows of all loops add up to what the
    run has spent.
    """
    spent = {document.meta.id: document.meta.spent for document in documents}
    for document in documents:
        rows = [_cost(document, entry) for entry in document.meta.rungs]
        rows = [row for row in rows if row]
        rest = _unanswered(document, rows, spent)
        yield from rows
        if any(rest.values()):
            yield {"loop": document.meta.id, "attempt": 1, "phase": "", "rung": UNANSWERED, **rest}


def _cost(document: Document, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The row of an answer; empty for a rung that passed the phase on without a call."""
    if entry.get("passed") and not entry.get("calls"):
        return {}
    keys = {"prompt_tokens": "prompt", "cached_tokens": "cached"}
    keys |= {"instruction_tokens": "instr", "completion_tokens": "out"}
    return {
        "loop": document.meta.id,
        "attempt": entry.get("attempt", 1),
        "phase": str(entry.get("phase", "")),
        "rung": str(entry.get("model") or entry.get("rung", "")),
        **{name: entry.get(keys.get(name, name), 0) for name in FIGURES},
    }


def _unanswered(
    document: Document, rows: Sequence[Mapping[str, Any]], spent: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What a loop has spent beyond its answers and its children, which are in `spent` by id."""
    ended = [step for step in document.steps.values() if step.ended]
    below = [step.evidence.get("spent") or spent.get(step.child, {}) for step in ended]
    parts, own = [*rows, *below], document.meta.spent
    left = {name: own.get(name, 0) - sum(each.get(name) or 0 for each in parts) for name in FIGURES}
    return {name: max(round(value, 9), 0) for name, value in left.items()}
