"""The history of the system, read and taken back: which entries a name means, what they changed, rollback."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernel.drafts import unit_of
from kernel.errors import FractalError, UsageError
from runtime.building.contents import File
from runtime.building.journal import PERSON, Change, Entry, Journal

SHOWN_BYTES = 1_000_000
"""A larger file is not compared line by line."""


def of_unit(entries: Sequence[Entry], name: str) -> list[Entry]:
    """The entries about what a name means, such as `tools/web` or `web`; of larger ones that part."""
    units = {entry.unit for entry in entries} | {
        each for entry in entries for c in entry.files for each in (c.path, unit_of(c.path))
    }
    matching = {unit for unit in units if name in (unit, unit.rpartition("/")[2], Path(unit).stem)}
    found: list[Entry] = []
    for entry in entries:
        files = tuple(c for c in entry.files if {c.path, unit_of(c.path)} & matching)
        if entry.unit in matching:
            found.append(entry)
        elif files:
            found.append(replace(entry, files=files))
    if not found:
        raise UsageError(f"the history of the system has nothing about {name}; `fractal system log` lists it")
    return found


def entry_of(entries: Sequence[Entry], number: int) -> Entry:
    """The entry of that number."""
    for entry in entries:
        if entry.id == number:
            return entry
    last = f"1 to {entries[-1].id}" if entries else "none yet"
    raise UsageError(f"the history of the system has no entry {number}; there are {last}")


def diff(journal: Journal, entry: Entry) -> str:
    """What an entry changed, as a unified diff."""
    return "\n".join(_diff(journal, change) for change in entry.files)


def _diff(journal: Journal, change: Change) -> str:
    try:
        before, after = journal.blobs.file(change.before), journal.blobs.file(change.after)
    except FractalError as error:
        return f"--- {change.path}\n({error})"
    return compared(change.path, before, after)


def compared(name: str, before: File | None, after: File | None) -> str:
    """Two contents of a file as a unified diff; "" where they are the same."""
    if before == after:
        return ""
    texts = [_lines(each) for each in (before, after)]
    if texts[0] is None or texts[1] is None:
        return f"--- {name}\n+++ {name}\n(not text, or too large to compare)"
    names = [name if each else "/dev/null" for each in (before, after)]
    lines = list(difflib.unified_diff(texts[0], texts[1], names[0], names[1], lineterm=""))
    if before and after and before.executable != after.executable:
        lines.insert(0, f"{name}: can {'' if after.executable else 'not '}be started now")
    return "\n".join(lines or [f"--- {names[0]}", f"+++ {names[1]}"])


def _lines(file: File | None) -> list[str] | None:
    if file is None:
        return []
    if len(file.raw) > SHOWN_BYTES:
        return None
    try:
        return file.raw.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None


def counts(text: str) -> tuple[int, int]:
    """Lines that a unified diff adds and removes."""
    lines = [line for line in text.splitlines() if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def rollback(journal: Journal, number: int, *, force: bool = False) -> Entry:
    """Put back what stood before an entry. Raises `UsageError` where later entries changed the same files."""
    journal.notice()
    entries = journal.entries()
    entry = entry_of(entries, number)
    if entry.kind == "found":
        raise UsageError(f"entry {number} tells how the system was found; before it there was no history")
    if not entry.files:
        raise UsageError(f"entry {number} ({entry.kind}) changed no file")
    present = _present(entries)
    differing = [change for change in entry.files if present.get(change.path, "") != change.after]
    back: dict[str, File | None] = {c.path: journal.blobs.file(c.before) for c in entry.files}
    if differing and all(present.get(c.path, "") == c.before for c in entry.files):
        raise UsageError(f"what stood before entry {number} stands there already")
    if differing and not force:
        later = [
            f"entry {each.id} ({each.kind} by {each.author})"
            for each in entries
            if each.id > number and {c.path for c in each.files} & {c.path for c in differing}
        ]
        raise UsageError(
            f"{', '.join(c.path for c in differing)} changed again after entry {number}: {', '.join(later)}; "
            f"roll these back first, or --force puts back what stood before entry {number} all the same"
        )
    reason = f"entry {number} taken back"
    made = journal.change("rollback", entry.unit, back, PERSON, reason, of=number)
    if made is None:
        raise UsageError(f"what stood before entry {number} stands there already")
    return made


def _present(entries: Sequence[Entry]) -> Mapping[str, str]:
    """The marks of the files as the last entries left them."""
    marks: dict[str, str] = {}
    for change in (change for entry in entries for change in entry.files):
        marks[change.path] = change.after
    return marks
