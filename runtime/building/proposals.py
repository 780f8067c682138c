"""Proposals: changes of the system, and tools to be built, that wait for somebody to adopt them.

Each is a folder in `state/system/proposals/`: `proposal.md` says what and why, `files/` holds the files as
the system would have them. Whether one is still open is told by the journal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import FractalError, UsageError
from kernel.events import now
from runtime.building.contents import File, files, mark_of, read
from runtime.building.journal import Journal

_ID = re.compile(r"p[1-9]\d*")
_CLOSED = ("adopted", "dropped")


@dataclass(frozen=True)
class Proposal:
    """A change of some files, or, without files, a task for the tool `build`."""

    id: str
    kind: str  # change, build
    unit: str
    reason: str
    author: str
    time: str = ""
    run: str = ""
    step: str = ""
    model: str = ""
    draft: str = ""
    task: str = ""
    text: str = ""
    files: Mapping[str, File | None] = field(default_factory=dict[str, File | None])
    base: Mapping[str, str] = field(default_factory=dict[str, str])  # what stood there, as marks

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        names = ("id", "kind", "unit", "reason", "author", "time", "run", "step", "model", "task")
        told = {name: getattr(self, name) for name in names if getattr(self, name)}
        return told | {"files": sorted(self.files)}


class Proposals:
    """The proposals of one workspace."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.folder = journal.folder / "proposals"

    def all(self) -> list[Proposal]:
        """Every proposal there has been, oldest first."""
        names = (each.name for each in self.folder.iterdir()) if self.folder.is_dir() else ()
        numbered = sorted((name for name in names if _ID.fullmatch(name)), key=lambda name: int(name[1:]))
        return [found for name in numbered if (found := self._read(name))]

    def open(self) -> list[Proposal]:
        """Those that were neither adopted nor dropped."""
        closed = {entry.proposal for entry in self.journal.entries() if entry.kind in _CLOSED}
        return [each for each in self.all() if each.id not in closed]

    def get(self, name: str) -> Proposal:
        """The open proposal of that id. Raises `UsageError`."""
        waiting = self.open()
        for each in waiting:
            if each.id == name:
                return each
        known = ", ".join(each.id for each in waiting) or "none"
        state = "is closed" if any(each.id == name for each in self.all()) else "is no proposal"
        raise UsageError(f"{name} {state}; open ones: {known}")

    def make(self, kind: str, unit: str, reason: str, author: str, **more: Any) -> Proposal:
        """Keep a proposal, then tell of it in the journal."""
        contents: Mapping[str, File | None] = more.pop("files", {})
        text = more.pop("text", "")
        with disk.of_the_state(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = self._claimed()
            base = {name: mark for name in contents if (mark := mark_of(self.journal.system / name))}
            told = {"kind": kind, "unit": unit, "reason": reason, "author": author, "time": now(), **more}
            told |= {"base": base}
            gone = sorted(name for name, file in contents.items() if file is None)
            for name, file in contents.items():
                if file:
                    place = folder / "files" / name
                    disk.put(place, file.raw, mode=0o700 if file.executable else 0o600)
            lines = [
                f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in told.items() if value
            ]
            lines += [f"gone: {json.dumps(gone)}"] if gone else []
            whole = "\n".join(["---", f"id: {folder.name}", *lines, "---", text or reason]) + "\n"
            disk.put(folder / "proposal.md", whole.encode(), mode=0o600)  # from now on it is there
        proposal = self._read(folder.name)
        assert proposal
        self.tell(proposal)
        return proposal

    def tell(self, proposal: Proposal) -> None:
        """An entry of the journal for a proposal that has none."""
        if not any(e.kind == "proposed" and e.proposal == proposal.id for e in self.journal.entries()):
            same = {name: getattr(proposal, name) for name in ("run", "step", "model", "draft")}
            self.journal.change(
                "proposed", proposal.unit, {}, proposal.author, proposal.reason, proposal=proposal.id, **same
            )

    def drop(self, name: str, author: str, reason: str = "") -> None:
        """Close a proposal that nobody wants."""
        proposal = self.get(name)
        self.journal.change("dropped", proposal.unit, {}, author, reason, proposal=proposal.id)

    def _claimed(self) -> Path:
        number = max((int(e.name[1:]) for e in self.folder.iterdir() if _ID.fullmatch(e.name)), default=0)
        while True:
            number += 1
            folder = self.folder / f"p{number}"
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return folder

    def _read(self, name: str) -> Proposal | None:
        """A proposal as it stands on disk; None for one that its process died over."""
        folder = self.folder / name
        try:
            text = (folder / "proposal.md").read_text("utf-8")
        except FileNotFoundError:
            return None
        head = re.match(r"---\n(.*?)^---\n(.*)\Z", text, re.S | re.M)
        try:
            told = dict(line.split(": ", 1) for line in head[1].splitlines()) if head else {}
            values = {key: json.loads(value) for key, value in told.items() if key != "id"}
            gone = values.pop("gone", [])
            known = {key: value for key, value in values.items() if key in Proposal.__dataclass_fields__}
            inside: dict[str, File | None] = dict.fromkeys(gone)
            for path in files(folder / "files"):
                inside[path.relative_to(folder / "files").as_posix()] = read(path)
            return Proposal(id=name, text=head[2].strip() if head else "", files=inside, **known)
        except (ValueError, TypeError) as error:
            raise FractalError(
                f"{folder / 'proposal.md'}: is no proposal: {error}; mend or remove it"
            ) from None
