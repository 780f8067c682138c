"""The store of a run's documents: `FileStore`, with one writer and durable writes."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.escaping import to_json
from kernel.document.frontmatter import peek
from kernel.document.markdown import PART_NAME, render, render_steps
from kernel.document.model import ENDED, Document, Note, Section, Step
from kernel.document.parser import committed, parse
from kernel.document.redaction import redacted, secrets
from kernel.document.texts import cut
from kernel.errors import DocumentError, ForeignEdit

SHOWN = 4_000
"""Maximum characters of an argument in a document. See docs/document-format.md."""
_ARGUMENTS = "args/"
"""Where whole arguments are in `artifacts/`."""


def _with_steps(document: Document, change: Callable[[Step], Step]) -> Document:
    """The document with each step of §2 and §3 changed."""
    for number in (2, 3):
        section = document.section(number)
        steps = {n: change(step) for n, step in section.steps.items()}
        if steps != section.steps:
            document = document.with_section(number, replace(section, steps=steps))
    return document


def _with_texts(document: Document, change: Callable[[str], str], *, results: bool = True) -> Document:
    """The document with each text of its sections changed; with those of its steps' results if wanted.

    What asks for an approval stays as it is: it has no secret, and a message names it.
    """

    def notes(given: tuple[Note, ...]) -> tuple[Note, ...]:
        return tuple(replace(each, text=change(each.text)) for each in given)

    sections = {
        number: Section(
            tuple(replace(each, notes=notes(each.notes)) for each in section.folds),
            notes(section.notes),
            {n: _with_step_texts(step, change, results=results) for n, step in section.steps.items()},
        )
        for number, section in document.sections.items()
    }
    waiting, rungs = document.meta.waiting, document.meta.rungs
    if waiting and waiting.get("for") != "approval":
        waiting = redacted(waiting, change)
    rungs = (  # an error may repeat what a model wrote
        {**each, "passed": change(str(each["passed"]))} if each.get("passed") else each for each in rungs
    )
    return replace(document.having(waiting=waiting, rungs=tuple(rungs)), sections=sections)


def _with_step_texts(step: Step, change: Callable[[str], str], *, results: bool = True) -> Step:
    return replace(
        step,
        what=change(step.what),
        args=None if step.args is None else redacted(step.args, change),
        result=change(step.result) if results and step.result else step.result,
        evidence=redacted(step.evidence, change),
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def missing(step: Step) -> str:
    """An error message for the missing argument files of a step; "" if none is missing."""
    lost = [f"argument {name}: {path} is gone" for name, path in step.whole.items()]
    return f"{'; '.join(lost)}; put it back, or write the whole argument into the document" if lost else ""


EDITABLE = ENDED | {"waiting", "interrupted"}
"""Statuses in which people may edit a document: a copy is kept to detect their changes."""
CHANGED = "modified or removed externally; kept the external version"


@dataclass
class _Known:
    """The version that this process last wrote or read, to detect changes by others."""

    stat: tuple[int, int, int]
    digest: Any
    rev: int
    ended: Document | None = None
    read: Document | None = None  # the document as read, until it is written


class FileStore:
    """The documents of one run in its folder."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.folder = folder
        self._fsync = fsync
        self._known: dict[str, _Known] = {}
        self.exact = secrets().of_run(folder)

    def path(self, loop_id: str) -> Path:
        """The file of a loop."""
        return self.folder / f"{loop_id}.md"

    def exists(self, loop_id: str) -> bool:
        """Whether the loop has a document."""
        return self.path(loop_id).is_file()

    def left(self, loop_id: str) -> Document | None:
        """The document as the run last saved it; None without a copy of that version."""
        try:
            raw = gzip.decompress(self._left(loop_id).read_bytes())
        except (OSError, EOFError):
            return None
        document = self._parsed(loop_id, raw, self._left(loop_id), exact=True)
        return document if str(document.meta.rev) == peek(self.path(loop_id)).get("rev") else None

    def _left(self, loop_id: str) -> Path:
        return self.folder / "artifacts" / "left" / f"{loop_id}.md.gz"

    def list(self) -> list[str]:
        """The ids of all loops of the run, parents before children."""
        names = disk.matching(self.folder, "*.md")
        ids = [name[:-3] for name in names if re.match(r"(system|tool|op)-", name)]
        return sorted(ids, key=_depth_first)

    def loops(self) -> list[str]:
        """The ids of `list` without operations, which have no budget. Reads only the frontmatter."""
        ids = self.list()
        return [each for each in ids if not each.startswith("op-") or "budget" in peek(self.path(each))]

    def unfinished(self) -> list[str]:
        """The ids of the loops that have not ended. Reads only the frontmatter."""
        return [loop_id for loop_id in self.list() if peek(self.path(loop_id)).get("status") not in ENDED]

    def sweep(self) -> None:
        """Remove the temporary files of a dead process. Only the run's writer may call this."""
        # a process that is writing a message into the inbox retries
        artifacts = ("artifacts", "artifacts/args", "artifacts/kept", "artifacts/left")
        for name in ("", *artifacts, "inbox", "prompts"):
            disk.sweep(self.folder / name)

    def load(self, loop_id: str) -> Document:
        """Read a document as its writer. A torn tail is moved to `artifacts/`.

        Raises `ForeignEdit` if somebody changed the document since this process last read or wrote it.
        """
        path = self.path(loop_id)
        if self._changed(loop_id):
            raise ForeignEdit(f"{path}: {CHANGED}. Look at it, then `fractal resume {self.folder.name}`")
        if (known := self._known.get(loop_id)) and known.read:
            return known.read
        with disk.reading_state(path):
            stat = disk.signature(path)  # before reading, so that a later check detects a concurrent write
            raw = path.read_bytes()
        body, tail = committed(raw)
        document = self._parsed(loop_id, body, path, exact=True)
        if tail.strip():
            self._put_aside(loop_id, tail)
        if tail:
            with disk.writing_state(path):
                stat = disk.cut(path, len(body))
        ended = document if document.ended else None
        self._known[loop_id] = _Known(stat, hashlib.sha256(body), document.meta.rev, ended, document)
        return document

    def ended(self, loop_id: str) -> Document | None:
        """The document if its loop has ended. One that this process has read or written is not read again."""
        known = self._known.get(loop_id)
        if known:
            return known.ended
        document = self.exactly(loop_id)
        return document if document.ended else None

    def peek(self, loop_id: str) -> Document:
        """Read a document without becoming its writer, with its secrets hidden."""
        self.exact.learn()
        return self._parsed(loop_id, _read(self.path(loop_id)), self.path(loop_id))

    def exactly(self, loop_id: str) -> Document:
        """Read a document without becoming its writer, with its secrets in their places."""
        return self._parsed(loop_id, _read(self.path(loop_id)), self.path(loop_id), exact=True)

    def _parsed(self, loop_id: str, raw: bytes, path: Path, *, exact: bool = False) -> Document:
        document = _with_steps(parse(raw, str(path)), lambda step: self._complete(step, str(path)))
        if exact:
            document = _with_texts(document, self.exact.reveal, results=False)
        meta, where = document.meta, str(self.path(loop_id))
        if meta.id != loop_id:
            raise DocumentError(f"its id is {meta.id!r}; put {loop_id} back", where)
        if meta.run not in loop_id.split("-"):
            raise DocumentError(f"{loop_id} is no loop of the run {meta.run!r}", where)
        return document

    def _complete(self, step: Step, where: str) -> Step:
        """The step with whole arguments. If a file is missing, the excerpt and its link stay."""
        args, gone = dict(step.args or {}), dict[str, str]()
        for name, path in step.whole.items():
            if not path.removesuffix(".json").removesuffix(".txt").endswith(f"-{_hash(args[name])}"):
                raise DocumentError(
                    f"step {step.n}: the excerpt of its argument {name} was changed; change {path} instead, "
                    f"or write the whole text in its place and take `→ {path}` away",
                    where,
                )
            try:
                text = self.unshelve(path)
                if step.ended and not path.startswith(f"artifacts/{_ARGUMENTS}{_hash(text)}-"):
                    continue  # edited since: §3 records another call than the one that is planned now
                args[name] = json.loads(text) if path.endswith(".json") else text
            except DocumentError:
                gone[name] = path
            except ValueError as error:
                raise DocumentError(f"step {step.n}: its argument {name} is no JSON: {error}", path) from None
        return replace(step, args=args, whole=gone) if step.whole else step

    def _excerpt(self, step: Step) -> Step:
        """The step with long arguments cut. Whole ones are stored, once, under their hash."""
        args, whole = dict(step.args or {}), dict(step.whole)
        for name, value in args.items():
            if name in whole or not isinstance(value, str | dict | list) or not PART_NAME.fullmatch(name):
                continue
            text = value if isinstance(value, str) else to_json(value)
            shown = cut(text, SHOWN, "")
            if shown != text:
                ending = "txt" if isinstance(value, str) else "json"
                file = f"{_ARGUMENTS}{_hash(text)}-{_hash(shown)}.{ending}"
                there = (self.folder / "artifacts" / file).is_file()
                whole[name] = f"artifacts/{file}" if there else self._put(file, text)
                args[name] = shown
        return replace(step, args=args, whole=whole) if whole else step

    def shelve(self, name: str, text: str) -> str:
        """Store a large text, its secrets hidden, in `artifacts/` by this name; returns its relative path."""
        return self._put(name, self.exact.conceal(text))

    def shelve_bytes(self, name: str, data: bytes) -> str:
        """Store bytes in `artifacts/` by this name; returns their relative path."""
        self._write(self.folder / "artifacts" / name, data)
        return f"artifacts/{name}"

    def _put(self, name: str, text: str) -> str:
        return self.shelve_bytes(name, text.encode("utf-8", "surrogatepass"))

    def retire(self, loop_id: str) -> None:
        """Move a document to `artifacts/`, so that another one can take its place."""
        self._known.pop(loop_id, None)
        with suppress(FileNotFoundError):
            disk.move(self.path(loop_id), self._aside(loop_id, "earlier"))

    def unshelve(self, path: str) -> str:
        """The text that `shelve` stored; raises `DocumentError` if it is missing."""
        return self.unshelve_bytes(path).decode("utf-8", "surrogatepass")

    def unshelve_bytes(self, path: str) -> bytes:
        """The bytes of a file in `artifacts/`; raises `DocumentError` if it is missing."""
        if path.startswith("/") or ".." in path.split("/"):
            raise DocumentError("it is outside of its run", str(self.folder / path))
        return _read(self.folder / path)

    def save(self, document: Document) -> None:
        """Write the whole document, atomically; it is durable afterwards."""
        loop_id = document.meta.id
        known = self._known.get(loop_id)
        rev = (known.rev if known else document.meta.rev) + 1
        hidden = _with_texts(document, self.exact.concealer())
        raw = render(_with_steps(hidden, self._excerpt), rev)
        ended = document if document.ended else None
        for_people = document.meta.status in EDITABLE or document.meta.phase == "do"
        if for_people and (rev > 1 or not ended):  # not for an operation, which is written once
            left = self._left(loop_id)
            with disk.writing_state(self.path(loop_id)):
                self._refuse_foreign(loop_id, raw)
            with disk.writing_state(left):  # before the document, which a crash here leaves unchanged
                disk.put(left, gzip.compress(raw, 1, mtime=0), mode=0o600, fsync=False)
        stat = self._write(self.path(loop_id), raw, lambda: self._refuse_foreign(loop_id, raw))
        self._known[loop_id] = _Known(stat, hashlib.sha256(raw), rev, ended)

    def append(self, document: Document, steps: Sequence[Step]) -> None:
        """Append entries to §3, which are durable afterwards; `document` is the state before."""
        loop_id = document.meta.id
        known = self._known.get(loop_id)
        if known is None:
            raise ForeignEdit(f"{self.path(loop_id)}: appended to before it was loaded")
        conceal = self.exact.concealer()
        steps = [self._excerpt(_with_step_texts(step, conceal)) for step in steps]
        numbers = {step.n for step in steps}
        before = {
            n: self._excerpt(_with_step_texts(each, conceal))
            for n, each in document.steps.items()
            if n in numbers
        }
        document = document.with_section(3, replace(document.section(3), steps=before))
        raw = render_steps(document, steps, known.rev + 1)
        path = self.path(loop_id)
        with disk.writing_state(path):
            self._refuse_foreign(loop_id, raw)
            try:
                known.stat = disk.append(path, raw, fsync=self._fsync, expected=known.stat)
            except disk.Changed:
                self._refuse_foreign(loop_id, raw)
                raise
        known.digest.update(raw)
        known.rev += 1
        known.read = None

    def _write(
        self, path: Path, raw: bytes, guard: Callable[[], None] = lambda: None
    ) -> tuple[int, int, int]:
        with disk.writing_state(path):
            return disk.put(path, raw, mode=0o600, fsync=self._fsync, guard=guard)

    def _refuse_foreign(self, loop_id: str, ours: bytes) -> None:
        path = self.path(loop_id)
        if loop_id not in self._known:
            if path.exists():
                raise ForeignEdit(f"{path}: already exists and was not loaded; nothing was overwritten")
        elif self._changed(loop_id):
            kept = self._put_aside(loop_id, ours, "ours")
            raise ForeignEdit(
                f"{path}: {CHANGED}, and this run's in {kept}. "
                f"Look at both, then `fractal resume {self.folder.name}`"
            )

    def _changed(self, loop_id: str) -> bool:
        """Whether the document's content differs from what this process last read or wrote."""
        known = self._known.get(loop_id)
        path = self.path(loop_id)
        try:
            if known is None or (stat := disk.signature(path)) == known.stat:
                return False
            if hashlib.sha256(path.read_bytes()).digest() == known.digest.digest():
                known.stat = stat
                return False
        except FileNotFoundError:
            pass
        return True

    def _put_aside(self, loop_id: str, raw: bytes, why: str = "torn") -> Path:
        path = self._aside(loop_id, why)
        self._write(path, raw)
        return path

    def _aside(self, loop_id: str, why: str) -> Path:
        number = 1
        while (path := self.folder / "artifacts" / f"{loop_id}.{why}-{number}.txt").exists():
            number += 1
        return path


def _depth_first(loop_id: str) -> tuple[int, ...]:
    numbers = loop_id.rpartition("-")[2]
    return (
        tuple(map(int, numbers.split(".")))
        if re.fullmatch(r"[\d.]+", numbers) and loop_id[:3] != "sys"
        else ()
    )


def _read(path: Path) -> bytes:
    with disk.reading_state(path):
        return path.read_bytes()
