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

FIGURES = ("calls", "prompt_tokens", "instruction_tokens", "completion_tokens", "usd")
"""What a call costs, as `costs` names it."""
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
    linked = {step.link.removesuffix(".md") for document in readable for step in _steps(document).values()}
    strays = tuple(key for key in documents if key not in linked | {root})
    return Tree(_loop(documents, root, stopped), documents, strays)


def plain(body: str) -> str:
    """The body of a document as plain markdown, without HTML."""
    folds = _FOLD.sub(r"*\1*", body).replace("\n</details>\n", "\n")
    return _COMMIT.sub("", folds)


def as_object(document: Document) -> dict[str, Any]:
    """A document as plain values, without empty ones."""

    def full(value: Any) -> Any:
        return {key: each for key, each in asdict(value).items() if each not in ("", (), {}, None)}

    sections: dict[str, Any] = {}
    for number, section in sorted(document.sections.items()):
        parts = {"notes": section.notes, "folds": section.folds, "steps": section.steps.values()}
        sections[str(number)] = {key: [full(each) for each in found] for key, found in parts.items() if found}
    return {"meta": asdict(document.meta), "sections": sections}


def status_of(fractal: Fractal, run: str, status: str) -> str:
    """The status on disk, or `interrupted` where no process works on the run."""
    if status not in ("running", "ready"):
        return status
    try:
        return status if is_locked(fractal.workspace.runs / run) else "interrupted"
    except OSError:
        return status


def loop_ids(fractal: Fractal, run: str) -> list[str]:
    """The ids of the documents of a run, parents before children."""
    return FileStore(fractal.workspace.runs / run).list()


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
        child = step.link.removesuffix(".md")
        if child and (child in documents or step.share is not None):
            each["loop"] = _loop(documents, child, stopped)
        steps.append({name: value for name, value in each.items() if value not in ("", None)})
    return {**loop, "task": document.text(1, "task"), "spent": dict(meta.spent), "steps": steps}


def _readable(fractal: Fractal, run: str) -> dict[str, Document | str]:
    """The documents of a run by id; for one that cannot be read, its error."""
    documents: dict[str, Document | str] = {}
    for loop_id in loop_ids(fractal, run):
        try:
            documents[loop_id] = fractal.document(loop_id)
        except DocumentError as error:
            documents[loop_id] = str(error)
    return documents


def costs(documents: Sequence[Document]) -> Iterator[dict[str, Any]]:
    """A row for each answer to a phase: loop, attempt, phase, rung, and `FIGURES`."""
    keys = {"prompt_tokens": "prompt", "instruction_tokens": "instr", "completion_tokens": "out"}
    for document in documents:
        for entry in document.meta.rungs:
            if entry.get("passed") and not entry.get("calls"):
                continue
            figures = {name: entry.get(keys.get(name, name), 0) for name in FIGURES}
            yield {
                "loop": document.meta.id,
                "attempt": entry.get("attempt", 1),
                "phase": str(entry.get("phase", "")),
                "rung": str(entry.get("model") or entry.get("rung", "")),
                **figures,
            }
