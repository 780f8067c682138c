"""Changes on trial: a proposal, an entry of the journal or a learned pattern, against what is there now.

What is shown to be better is adopted; what is there already and shown to be worse is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.catalogue import Catalogue
from kernel.errors import UsageError
from kernel.events import now
from kernel.workspace import Workspace
from runtime.building import history
from runtime.building.adopting import Adoption, Purse, Task, compared, done, sample_tasks
from runtime.building.contents import File
from runtime.building.journal import Journal
from runtime.building.samples import Play, Tested
from runtime.memory.learning.trials import Compared, Kind, Trial, Trials

if TYPE_CHECKING:
    from runtime.memory.learning.library import Library
    from runtime.memory.learning.patterns import Pattern


@dataclass(frozen=True)
class Side:
    """One of the two ways that tasks are done: changes of the system, and the learned patterns."""

    name: str
    system: Mapping[str, File | None] = field(default_factory=dict[str, "File | None"])
    patterns: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass
class Trying:
    """Where things are tried: each task in workspaces of its own, with what is there and with the change."""

    workspace: Workspace
    journal: Journal
    catalogue: Catalogue
    play: Play
    purse: Purse
    trials: Trials
    dry_run: bool = False  # only say what was found
    told: Callable[[Tested, str], None] = field(default=lambda tested, how: None)

    async def proposal(self, adoption: Adoption) -> Trial:
        """A proposal that waits; it is adopted when the sample tasks do better with it."""
        proposal = adoption.proposal
        if proposal.kind == "build":
            raise UsageError(f"{proposal.id} asks for something to be built; there is nothing to try yet")
        if moved := adoption.moved():
            raise UsageError(
                f"{proposal.id}: {', '.join(moved)} changed since it was proposed; propose it anew"
            )
        verdict = await adoption.trial()
        did = "stays as it was"
        if verdict.good and not self.dry_run:
            did = "is adopted" if adoption.adopt(verdict.why) else "stands there already"
        return keep_proposal(self.trials, adoption, verdict.compared, did)

    async def entry(self, number: int) -> Trial:
        """What an entry of the journal brought; it is taken back when the tasks do worse with it."""
        entry = history.entry_of(self.journal.entries(), number)
        if not entry.files:
            raise UsageError(f"entry {number} ({entry.kind}) changed no file")
        before = {change.path: self.journal.blobs.file(change.before) for change in entry.files}
        after = {change.path: self.journal.blobs.file(change.after) for change in entry.files}
        found = await self.run(Side(f"before entry {number}", before), Side(f"with entry {number}", after))
        did = "stays as it is"
        if found.finding == "worse" and not self.dry_run:
            history.rollback(self.journal, number)
            did = "is taken back"
        told = {"did": did, "against": f"what was before entry {number}"}
        return self.trials.keep(_kind(entry.unit), entry.unit, found, now(), **told)

    async def pattern(self, library: Library, name: str) -> Trial:
        """A learned pattern, by its name or as a new file.

        A new one is added when the tasks do better with it; a known one is switched off when they do worse.
        """
        from runtime.memory.learning.patterns import write

        pattern, new = found_pattern(library, name)
        others = {
            f"{each.name}.md": write(each).encode() for each in library.all() if each.name != pattern.name
        }
        whole = {**others, f"{pattern.name}.md": write(pattern).encode()}
        found = await self.run(Side("without it", patterns=others), Side("with it", patterns=whole))
        did = "is not kept" if new else "stays as it is"
        if new and found.finding == "better" and not self.dry_run:
            library.add(pattern)
            did = "is adopted"
        elif not new and found.finding == "worse" and not self.dry_run:
            library.update(pattern.name, person=True, status="off")
            did = "is switched off"
        return self.trials.keep("pattern", pattern.name, found, now(), did=did, against="without it")

    async def run(self, present: Side, tried: Side) -> Compared:
        """Each sample task both ways. The order turns, so that neither side is always the first.

        Raises `UsageError` where there is no task.
        """
        tasks: Sequence[Task] = sample_tasks(self.catalogue)
        if not tasks:
            raise UsageError("a trial needs sample tasks: put some into system/samples/")
        found: dict[str, list[Tested]] = {present.name: [], tried.name: []}
        for number, task in enumerate(tasks):
            for side in (present, tried) if number % 2 == 0 else (tried, present):
                where = (self.workspace, self.play, self.purse, task, side.name)
                found[side.name].append(await done(*where, side.system, side.patterns, self.told))
        return compared(found[present.name], found[tried.name])


def keep_proposal(trials: Trials, adoption: Adoption, found: Compared, did: str) -> Trial:
    """Write the trial of a proposal down."""
    unit = adoption.proposal.unit
    more = {"did": did, "against": "what is there now", "proposal": adoption.proposal.id}
    return trials.keep(_kind(unit), unit, found, now(), **more)


def found_pattern(library: Library, name: str) -> tuple[Pattern, bool]:
    """The pattern of that name, or a new one in a file. Raises `UsageError`."""
    from runtime.memory.learning.patterns import parse

    if known := library.get(name):
        return known, False
    path = Path(name)
    if path.suffix == ".md" and path.is_file():
        return parse(path.read_text("utf-8", "replace"), path), True
    names = ", ".join(each.name for each in library.all()[:8]) or "none yet"
    raise UsageError(f"{name} is no proposal, no entry, no learned pattern ({names}), and no file")


def _kind(unit: str) -> Kind:
    return "phase" if unit.startswith("phases/") else "tool" if "/" in unit else "change"
