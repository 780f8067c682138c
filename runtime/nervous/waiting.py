"""What waits for a decision, over all runs: the plan, calls or question, and what a write would change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kernel import disk
from kernel.document.model import ENDED, Document, Step
from kernel.errors import FractalError
from kernel.loop.approval import PLAN_WAITS, REVIEW
from kernel.store.files import FileStore
from runtime.nervous.decisions import Decision
from runtime.nervous.oversight import waiting_steps
from runtime.sandbox.changes import TEXT_BYTES, Change, diff_of, secretive
from runtime.workspace.question import proposed
from runtime.workspace.runs import Reader, unfinished


@dataclass(frozen=True)
class Waits:
    """A loop that waits for somebody to decide."""

    run: str
    loop: str
    task: str
    kind: str  # plan, steps or question
    text: str  # the steps, or the question
    since: str
    why: str = ""  # it went up
    confidence: str = ""
    dangers: tuple[str, ...] = ()
    oversight: str = ""  # what it said
    human: str = ""  # what a human said, which the run takes up when it goes on
    read: tuple[str, ...] = ()  # what was read about it and is not yet known
    changes: tuple[Change, ...] = ()  # of the files that the steps write

    def about(self) -> list[str]:
        """What waits, why, and what oversight said, in lines; `text` as it is."""
        confidence = f" (confidence {self.confidence})" if self.confidence else ""
        return [
            *([f"it waits because {self.why}{confidence}"] if self.why else []),
            *([f"oversight: {self.oversight}"] if self.oversight else []),
            self.text,
            *(f"read, not yet known: {each}" for each in self.read),
        ]


def waiting(reader: Reader, decided: Callable[[str], Iterable[Decision]], run: str = "") -> list[Waits]:
    """Everything that waits, newest run first, or what waits in a `run`.

    `decided` returns what is known of a run's decisions.
    """
    found: list[Waits] = []
    for summary in reader.runs([run] if run else None):
        if summary.status in ENDED | {"broken"}:
            continue
        for document in unfinished(FileStore(reader.workspace.runs / summary.run)):
            if (document.meta.waiting or {}).get("for") in ("person", "approval"):
                open_ = [each for each in decided(summary.run) if each.loop == document.meta.id]
                found.append(_waits(reader, document, open_[-1] if open_ else None))
    return found


def _waits(reader: Reader, document: Document, decision: Decision | None) -> Waits:
    meta, waits = document.meta, document.meta.waiting or {}
    asks, plan = waits["for"] == "person", waits.get("question") == PLAN_WAITS
    steps = list((proposed(document) if plan else waiting_steps(document)).values())
    dangers = [each for step in steps for each in step.evidence.get("dangers", ())]
    return Waits(
        meta.run,
        meta.id,
        document.task,
        "question" if asks else "plan" if plan else "steps",
        str(waits.get("question", "")) if asks else reader.asked(document).text,
        meta.updated,
        document.text(2, REVIEW) if plan else "",
        document.text(2, "confidence"),
        tuple(document.text(2, "dangers").splitlines() if plan else map(str, dangers)),
        str(decision.oversight) if decision and decision.oversight else "",
        str(decision.human) if decision and decision.human else "",
        decision.read if decision else (),
        () if asks else tuple(_changes(Path(meta.folder), steps)),
    )


def _changes(folder: Path, steps: Iterable[Step]) -> Iterator[Change]:
    """What the steps would make of files in the folder, as far as their arguments say it."""
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    for step in steps:
        name = (step.args or {}).get("path")
        if step.tool not in ("write", "edit", "remove") or not isinstance(name, str) or secretive(name):
            continue
        if name not in after:
            before[name] = after[name] = _text(folder, name)
        with suppress(KeyError, TypeError, AttributeError):
            after[name] = _written(step, after[name])
    for name, new in after.items():
        if new != (old := before[name]):
            kind = "new" if old is None else "removed" if new is None else "changed"
            size, was = (len((text or "").encode()) for text in (new, old))
            yield Change(kind, name, size, was, diff_of(old or "", new or ""))


def _written(step: Step, text: str | None) -> str | None:
    args = step.args or {}
    if step.tool == "remove":
        return None
    if step.tool == "edit":
        return text.replace(args["old"], args["new"]) if text and args["old"] else text
    return f"{text or ''}{args['content']}" if args.get("append") else str(args["content"])


def _text(folder: Path, name: str) -> str | None:
    """A text of the folder; None if there is none that may be shown."""
    with suppress(OSError, ValueError, RuntimeError, FractalError):
        path = (folder / name).resolve()
        if path.is_relative_to(folder.resolve()):
            return disk.read(path, TEXT_BYTES).decode("utf-8")
    return None
