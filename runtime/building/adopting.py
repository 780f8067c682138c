"""A proposal is tested before it is adopted: the sample tasks are done with it and without it.

Programs run their own sample. What guides or steers is compared: it is adopted when the sample tasks do no
worse with it. Where no task is done either way, as without a model, nothing is proven, and a person decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel.catalogue import Catalogue
from kernel.errors import UsageError
from kernel.operations import OperationContext
from kernel.pattern import Fault, load
from kernel.tools import Tool
from kernel.trying import sample_missing, try_sample
from kernel.workspace import Workspace
from runtime.building.contents import File, mark_of
from runtime.building.journal import PERSON, Entry, Journal
from runtime.building.proposals import Proposal, Proposals
from runtime.building.samples import Play, Tested, Trial
from runtime.memory.learning.trials import Compared, Pair


@dataclass(frozen=True)
class Task:
    """A sample task: a tool's own one is guided by the tool, any other is done as if a person asked."""

    tool: Tool
    guided: bool


@dataclass(frozen=True)
class Verdict:
    """Whether a proposal may become active, and by what that is told."""

    good: bool
    why: str
    tested: Sequence[Tested] = ()  # its own programs
    without: Sequence[Tested] = ()
    within: Sequence[Tested] = ()

    @property
    def compared(self) -> Compared:
        """The sample tasks in pairs."""
        return compared(self.without, self.within)

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        pairs = zip(self.without, self.within, strict=False)
        tasks = [{"task": a.tool, "without": a.passed, "with": b.passed, "note": b.note} for a, b in pairs]
        own = [{"tool": each.tool, "passed": each.passed, "note": each.note} for each in self.tested]
        return {"good": self.good, "why": self.why, "own": own, "tasks": tasks}


def compared(without: Sequence[Tested], within: Sequence[Tested]) -> Compared:
    """The same tasks done both ways, in pairs."""
    sides = zip(without, within, strict=True)
    return Compared([Pair(a.tool, a.passed, b.passed, (_calls(a), _calls(b)), b.note) for a, b in sides])


def _calls(tested: Tested) -> int:
    return int(tested.spent.get("calls") or 0)


@dataclass
class Purse:
    """The money that comparing may cost altogether; None: no limit."""

    usd: float | None
    spent: float = 0.0

    @property
    def left(self) -> float | None:
        """What is left of it."""
        return None if self.usd is None else max(self.usd - self.spent, 0.0)


@dataclass
class Adoption:
    """One proposal on its way into the system."""

    workspace: Workspace
    journal: Journal
    proposals: Proposals
    proposal: Proposal
    catalogue: Catalogue
    context: Callable[[Tool], OperationContext]
    play: Play
    modelled: bool  # else only code and reflexes do a task
    purse: Purse
    told: Callable[[Tested, str], None] = field(default=lambda tested, how: None)

    def tasks(self) -> list[Task]:
        """The sample tasks that the change bears on: a tool's own one, else all."""
        own = [tool for tool in self._tools() if tool.guided]
        if own:
            return [Task(tool, True) for tool in own if not sample_missing(tool)]
        if all(each.startswith(("operations/", "tools/", "kernel/")) for each in self.proposal.files):
            return []  # programs alone: their own samples tell
        return sample_tasks(self.catalogue)

    async def judge(self) -> Verdict:
        """Test it. Raises `UsageError` for what is not well formed."""
        self._refuse_malformed()
        tested = [await self._own(tool) for tool in self._tools() if tool.scheme == "command"]
        bad = [each for each in tested if not each.passed]
        if bad:
            return Verdict(False, f"{bad[0].tool}: {bad[0].note}", tested)
        tasks = self.tasks()
        if not tasks:
            good = bool(tested)
            return Verdict(good, "its sample passed" if good else "no sample task bears on it", tested)
        without: list[Tested] = []
        within: list[Tested] = []
        for task in tasks:
            known = task.tool.name in self.catalogue.tools or not task.guided
            before = Tested(task.tool.name, False, "there is none without it")
            without.append(await self._done(task, {}, "without it") if known else before)
            within.append(await self._done(task, self.proposal.files, "with it"))
        return self._compared(tested, without, within)

    def _compared(self, tested: list[Tested], without: list[Tested], within: list[Tested]) -> Verdict:
        before, after = (sum(bool(each.passed) for each in side) for side in (without, within))
        told = f"{after} of {len(within)} sample tasks done with it, {before} without it"
        if any(each.passed is None for each in (*without, *within)):
            return Verdict(False, f"{told}; the money for comparing was used up", tested, without, within)
        if after < before:
            worse = [b for a, b in zip(without, within, strict=True) if a.passed and not b.passed]
            told = f"it does worse: {told}; {worse[0].tool}: {worse[0].note}"
            return Verdict(False, told, tested, without, within)
        if not self.modelled:
            told = f"{told}, by code alone: there is no model, so this proves little"
            return Verdict(False, told, tested, without, within)
        if after == 0:
            return Verdict(False, f"{told}, which proves nothing", tested, without, within)
        return Verdict(True, told, tested, without, within)

    async def trial(self) -> Verdict:
        """Judge it more strictly: it is good where it is shown to be better, not only no worse.

        Raises `UsageError` for what is not well formed, or where no sample task bears on it.
        """
        verdict = await self.judge()
        if not verdict.within:
            raise UsageError(
                f"{self.proposal.id}: {verdict.why}; a trial needs sample tasks (system/samples/)"
            )
        compared = verdict.compared
        good = compared.finding == "better" and all(each.passed for each in verdict.tested)
        return replace(verdict, good=good, why=compared.told)

    def adopt(self, reason: str) -> Entry | None:
        """Make it active. None where all of it stands there already."""
        proposal = self.proposal
        more = {name: getattr(proposal, name) for name in ("run", "step", "model", "draft")}
        files: Mapping[str, File | None] = proposal.files
        entry = self.journal.change(
            "adopted", proposal.unit, files, PERSON, reason, proposal=proposal.id, **more
        )
        if entry is None:
            self.proposals.drop(proposal.id, PERSON, "it stands there already")
        return entry

    def moved(self) -> list[str]:
        """The files that changed since it was proposed."""
        present = {name: mark_of(self.journal.system / name) for name in self.proposal.files}
        base = self.proposal.base
        return [name for name, mark in present.items() if mark != base.get(name, "")]

    # ---- parts ----

    async def _own(self, tool: Tool) -> Tested:
        if why := sample_missing(tool):
            tested = Tested(tool.name, False, why)
        else:
            passed, note = await try_sample(tool, self.context(tool), {})
            tested = Tested(tool.name, passed, note)
        self.told(tested, "its own sample")
        return tested

    async def _done(self, task: Task, changed: Mapping[str, File | None], how: str) -> Tested:
        return await done(self.workspace, self.play, self.purse, task, how, changed, told=self.told)

    def _tools(self) -> list[Tool]:
        """The tools in the proposal, as they would be."""
        found = (self._loaded(name) for name in self.proposal.files)
        return [each for each in found if isinstance(each, Tool)]

    def _loaded(self, name: str) -> Tool | Fault | None:
        parts = name.split("/")
        tool = parts[0] == "tools" and len(parts) == 3 and parts[2] in ("pattern.md", "SKILL.md")
        operation = parts[0] in ("operations", "kernel") and len(parts) == 2 and name.endswith(".md")
        path = self.proposals.folder / self.proposal.id / "files" / name
        if not (tool or operation) or not path.is_file():
            return None
        stat = path.stat()
        return load(path, stat.st_mtime_ns, stat.st_size)

    def _refuse_malformed(self) -> None:
        for name in self.proposal.files:
            if isinstance(fault := self._loaded(name), Fault):
                raise UsageError(f"{self.proposal.id}: {name}:{fault.line}: {fault.message}")
        whole = [name for name in self.proposal.files if name.startswith("reflexes/")]
        if whole:
            from runtime.responders.reflex import Reflex

            place: Path = self.proposals.folder / self.proposal.id / "files"
            if faults := list(Reflex([place]).faults):
                raise UsageError(f"{self.proposal.id}: {faults[0]}")


def sample_tasks(catalogue: Catalogue) -> list[Task]:
    """All sample tasks: those of the guided tools, and those of `system/samples/`."""
    guided = [tool for tool in catalogue.tools.values() if tool.guided and not tool.skill]
    found: dict[str, Tool] = {}
    for path in (path for each in catalogue.folders for path in sorted((each / "samples").glob("*.md"))):
        stat = path.stat()
        entry = load(path, stat.st_mtime_ns, stat.st_size)
        if isinstance(entry, Tool):
            found.setdefault(path.name, replace(entry, name=path.stem))
    chosen = [tool for tool in (*guided, *found.values()) if not sample_missing(tool)]
    return [Task(tool, False) for tool in sorted(chosen, key=lambda tool: tool.name)]


async def done(
    workspace: Workspace,
    play: Play,
    purse: Purse,
    task: Task,
    how: str,
    changed: Mapping[str, File | None],
    patterns: Mapping[str, bytes] | None = None,
    told: Callable[[Tested, str], None] = lambda tested, how: None,
) -> Tested:
    """Do a sample task once, with these changes of the system and these learned patterns."""
    if purse.left == 0:
        return Tested(task.tool.name, None, "not done: the money for comparing was used up")
    trial = Trial(workspace, task.tool.name, changed, patterns)
    tested = await trial.play(play, task.tool, guided=task.guided, usd=purse.left)
    purse.spent += float(tested.spent.get("usd") or 0.0)
    told(tested, how)
    return tested
