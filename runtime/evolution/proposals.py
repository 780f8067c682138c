"""Proposals: changes of the system, and tools to be built, that wait until somebody adopts them.

Each is a folder in `state/system/proposals/`: `proposal.md` says what and why, `files/` holds the files as
the system would have them. The journal knows whether a proposal is still open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import FractalError, UsageError
from kernel.events import now
from runtime.evolution.files import (
    File,
    claim,
    files,
    mark_of,
    numbered,
    read,
    read_head,
    shared_unit,
    with_head,
)
from runtime.evolution.journal import PERSON, Journal

FOLDERS = ("kernel", "operations", "phases", "reflexes", "samples", "templates", "tools")


_HEAD = ("id", "kind", "unit", "reason", "author", "time", "run", "step", "model", "draft", "task", "base")
"""The fields in the head of `proposal.md`."""


@dataclass(frozen=True)
class Proposal:
    """A change of some files, or, without files, a task for the tool `build`."""

    kind: str  # change, build
    unit: str
    reason: str
    author: str
    id: str = ""  # "" before it is made
    time: str = ""
    run: str = ""
    step: str = ""
    model: str = ""
    draft: str = ""
    task: str = ""
    text: str = ""
    files: Mapping[str, File | None] = field(default_factory=dict[str, File | None])
    base: Mapping[str, str] = field(default_factory=dict[str, str])  # the files' marks when it was made

    @property
    def source(self) -> dict[str, str]:
        """Where it comes from: the run, its step and model, the hash of its draft."""
        return {"run": self.run, "step": self.step, "model": self.model, "draft": self.draft}

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        names = (name for name in _HEAD if name not in ("draft", "base"))
        return {name: value for name in names if (value := getattr(self, name))} | {
            "files": sorted(self.files)
        }


class Proposals:
    """The proposals of one workspace."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.folder = journal.folder / "proposals"

    def all(self) -> list[Proposal]:
        """Every proposal ever made, oldest first."""
        return [found for name in numbered(self.folder, "p") if (found := self._read(name))]

    def open(self) -> list[Proposal]:
        """Those that were neither adopted nor dropped."""
        closed = {entry.proposal for entry in self.journal.entries() if entry.kind in ("adopted", "dropped")}
        return [each for each in self.all() if each.id not in closed]

    def get(self, name: str) -> Proposal:
        """The open proposal of that id. Raises `UsageError`."""
        waiting = {each.id: each for each in self.open()}
        if name in waiting:
            return waiting[name]
        state = "is closed" if any(each.id == name for each in self.all()) else "is no proposal"
        raise UsageError(f"{name} {state}; open ones: {', '.join(waiting) or 'none'}")

    def make(self, proposal: Proposal) -> Proposal:
        """Save a new proposal, then record it in the journal."""
        with disk.writing_state(self.folder), self.journal.locked():
            id = claim(self.folder, "p", lambda id: (self.folder / id).mkdir(mode=0o700))
            base = {name: mark for name in proposal.files if (mark := mark_of(self.journal.system / name))}
            text = (proposal.text or proposal.reason).strip()
            proposal = replace(proposal, id=id, time=now(), base=base, text=text)
            for name, file in proposal.files.items():
                if file:
                    mode = 0o700 if file.executable else 0o600
                    disk.put(self.folder / id / "files" / name, file.raw, mode=mode)
            head = {name: getattr(proposal, name) for name in _HEAD}
            head["gone"] = sorted(name for name, file in proposal.files.items() if file is None)
            raw = with_head(head, text)
            disk.put(self.folder / id / "proposal.md", raw, mode=0o600)  # the last file: now it exists
        self.record(proposal)
        return proposal

    def sweep(self) -> None:
        """Remove what a process has left that died while it made a proposal."""
        with self.journal.locked():
            for folder in list(self.folder.iterdir()) if self.folder.is_dir() else ():
                if not (folder / "proposal.md").exists():
                    disk.remove_all(folder)

    def hand_in(
        self, systems: Sequence[Path], paths: Sequence[Path], *, place: str = "", why: str = ""
    ) -> Proposal:
        """Make a proposal of a person's files or tool folders; `place`: where in `system/` a file belongs."""
        if place and len(paths) > 1:
            raise UsageError("--as says where one file belongs; give one")
        content: dict[str, File | None] = {}
        for path in paths:
            name = _checked(place) if place else place_of(path, systems)
            if path.is_dir():
                own = self.journal.system / name
                content |= dict.fromkeys(f"{name}/{each.relative_to(own).as_posix()}" for each in files(own))
                for each in files(path):
                    content[f"{name}/{each.relative_to(path).as_posix()}"] = read(each)
            else:
                content[name] = read(path)
        changed = {
            name: file
            for name, file in content.items()
            if mark_of(self.journal.system / name) != (file.mark if file else "")
        }
        if not changed:
            raise UsageError("the system has all of it already")
        reason = why or "handed in"
        return self.make(Proposal("change", shared_unit(changed), reason, PERSON, files=changed))

    def record(self, proposal: Proposal) -> None:
        """Write the journal's entry for a proposal, if it has none."""
        if not any(e.kind == "proposed" and e.proposal == proposal.id for e in self.journal.entries()):
            more = proposal.source | {"proposal": proposal.id}
            self.journal.change("proposed", proposal.unit, {}, proposal.author, proposal.reason, **more)

    def drop(self, name: str, author: str, reason: str = "") -> None:
        """Close a proposal without adopting it."""
        proposal = self.get(name)
        self.journal.change("dropped", proposal.unit, {}, author, reason, proposal=proposal.id)

    def _read(self, name: str) -> Proposal | None:
        """A proposal from disk; None if its process died before it was complete."""
        folder = self.folder / name
        try:
            text = (folder / "proposal.md").read_text("utf-8")
        except FileNotFoundError:
            return None
        try:
            values, body = read_head(text, {"gone", *_HEAD} - {"id"})
            inside: dict[str, File | None] = dict.fromkeys(values.pop("gone", []))
            for path in files(folder / "files"):
                inside[path.relative_to(folder / "files").as_posix()] = read(path)
            return Proposal(id=name, text=body, files=inside, **values)
        except (ValueError, TypeError) as error:
            raise FractalError(
                f"{folder / 'proposal.md'}: invalid proposal: {error}; fix or remove it"
            ) from None


def place_of(path: Path, systems: Sequence[Path]) -> str:
    """Where in `system/` a file or a tool's folder belongs, by its path, or by a file of its name there."""
    parts = path.resolve().parts
    for at in range(len(parts) - 2, -1, -1):
        if parts[at] in FOLDERS:
            return "/".join(parts[at:])
    if path.is_dir():
        return f"tools/{path.resolve().name}"
    places = {
        each.relative_to(system).as_posix()
        for system in systems
        for each in system.glob(f"**/{path.name}")
        if each.parent.parent.name != "tools" or path.name != "pattern.md"
    }
    if len(places) == 1:
        return places.pop()
    hint = f" ({', '.join(sorted(places))}?)" if places else ""
    raise UsageError(f"{path}: its place in system/ is unknown{hint}; add --as phases/turn.md, or similar")


def _checked(place: str) -> str:
    parts = Path(place).parts
    valid = place == "pattern.md" or (len(parts) > 1 and parts[0] in FOLDERS)
    if Path(place).is_absolute() or ".." in parts or not valid:
        raise UsageError(f"--as {place}: a place in system/ is pattern.md, or in {', '.join(FOLDERS)}")
    return place
