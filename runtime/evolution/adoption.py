"""Changes of the system are tested before they are adopted: the sample tasks are done with and without them.

A program runs its own sample. Guidance is compared: a proposal is adopted if the sample tasks do no worse
with it; a trial is stricter and asks whether they do better beyond chance. Where no task is done either way,
as without a model, nothing is shown, and a person decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.errors import UsageError
from kernel.events import now
from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.pattern import Fault
from runtime.evolution.files import TOOL_FILE, File, mark_of, tool_at
from runtime.evolution.journal import PERSON, Entry, Journal
from runtime.evolution.proposals import Proposal, Proposals
from runtime.evolution.sample_tests import sample_missing, try_sample
from runtime.evolution.samples import Play, Tested, play_sample
from runtime.evolution.trials import Compared, Kind, Pair, Trial, Trials
from runtime.operations.running import caller
from runtime.sandbox.context import OperationContext
from runtime.workspace.workspace import Workspace

if TYPE_CHECKING:
    from runtime.memory.learning.library import Library
    from runtime.memory.learning.patterns import Pattern

_PHASES = ("base", "turn.base", "turn", "do", "check")
"""The phase files that take the place of the sections of `pattern.md`."""


@dataclass(frozen=True)
class Side:
    """One of two ways to do the tasks: changed files of the system, and learned patterns."""

    name: str
    system: Mapping[str, File | None] = field(default_factory=dict[str, "File | None"])
    patterns: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass
class SampleTasks:
    """Does sample tasks, each in a workspace of its own."""

    workspace: Workspace
    catalogue: Catalogue
    play: Play
    usd: float | None  # what all of them together may still cost; None: no limit
    on_tested: Callable[[Tested, str], None] = field(default=lambda tested, how: None)

    def all(self) -> list[Tool]:
        """The tools whose samples are the tasks: the guided ones, and those of `system/samples/`."""
        guided = [tool for tool in self.catalogue.tools.values() if tool.guided and not tool.skill]
        operations: dict[str, Tool] = {}
        for folder in self.catalogue.folders:
            for path in sorted((folder / "samples").glob("*.md")):
                if isinstance(entry := tool_at(path), Tool):
                    operations.setdefault(path.name, replace(entry, name=path.stem))
        chosen = [tool for tool in (*guided, *operations.values()) if not sample_missing(tool)]
        return sorted(chosen, key=lambda tool: tool.name)

    def bearing_on(self, files: Collection[str]) -> list[Tool]:
        """The tasks that may show what a change of these files does; none if no prompt contains them.

        A prompt contains `pattern.md` only where a phase file is missing.
        """
        read = not all(self.catalogue.text(f"phases/{name}.md") for name in _PHASES)
        return self.all() if read or set(files) != {"pattern.md"} else []

    async def compare(
        self, tasks: Sequence[Tool], present: Side, tried: Side, *, guided: bool = False
    ) -> Compared:
        """Each task both ways, in alternating order; `guided` by its tool, which may be new, or plainly."""
        if not tasks:
            raise UsageError("a trial needs sample tasks: put some into system/samples/")
        pairs: list[Pair] = []
        for number, tool in enumerate(tasks):
            results: dict[str, Tested] = {}
            for side in (present, tried) if number % 2 == 0 else (tried, present):
                if guided and side is present and tool.name not in self.catalogue.tools:
                    results[side.name] = Tested(tool.name, False, "there is none without it")
                else:
                    results[side.name] = await self._do(tool, side, guided)
            a, b = results[present.name], results[tried.name]
            calls = int(a.spent.get("calls") or 0), int(b.spent.get("calls") or 0)
            pairs.append(Pair(tool.name, a.passed, b.passed, calls, b.note))
        return Compared(pairs)

    async def _do(self, tool: Tool, side: Side, guided: bool) -> Tested:
        if self.usd == 0:
            return Tested(tool.name, None, "not done: the money for comparing was used up")
        tested = await play_sample(
            self.workspace,
            self.play,
            tool,
            changed=side.system,
            patterns=side.patterns,
            guided=guided,
            usd=self.usd,
        )
        if self.usd is not None:
            self.usd = max(self.usd - float(tested.spent.get("usd") or 0.0), 0.0)
        self.on_tested(tested, side.name)
        return tested


@dataclass(frozen=True)
class Verdict:
    """Whether a proposal may become active, and why."""

    good: bool
    why: str
    tested: Sequence[Tested] = ()  # its own programs
    compared: Compared = field(default_factory=lambda: Compared(()))  # the sample tasks in pairs

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        tasks = [
            {"task": each.task, "without": each.present, "with": each.tried, "note": each.note}
            for each in self.compared.pairs
        ]
        own = [{"tool": each.tool, "passed": each.passed, "note": each.note} for each in self.tested]
        return {"good": self.good, "why": self.why, "own": own, "tasks": tasks}


@dataclass
class Adoption:
    """One proposal on its way into the system."""

    journal: Journal
    proposals: Proposals
    proposal: Proposal
    samples: SampleTasks
    context: Callable[[Tool], OperationContext]
    has_model: bool  # else only code and reflexes do a task

    def tasks(self) -> list[Tool]:
        """The tools whose samples test the change: a guided tool's own one, else all."""
        if own := self._guided():
            return [tool for tool in own if not sample_missing(tool)]
        if all(each.startswith(("operations/", "tools/", "kernel/")) for each in self.proposal.files):
            return []  # programs only: their own samples test them
        return self.samples.bearing_on(self.proposal.files)

    async def judge(self) -> Verdict:
        """Test the proposal. Raises `UsageError` if a file of it is malformed."""
        if fault := next(self._faults(), None):
            raise UsageError(f"{self.proposal.id}: {fault}")
        tested: list[Tested] = []
        for tool in (each for each in self._tools() if each.scheme == "command"):
            passed, note = False, sample_missing(tool)
            if not note:
                passed, note = await try_sample(tool, self.context(tool), caller())
            tested.append(Tested(tool.name, passed, note))
            self.samples.on_tested(tested[-1], "its own sample")
        if bad := next((each for each in tested if not each.passed), None):
            return Verdict(False, f"{bad.tool}: {bad.note}", tested)
        tasks = self.tasks()
        if not tasks:
            reason = "its sample passed" if tested else "no sample task bears on it"
            return Verdict(bool(tested), reason, tested)
        sides = Side("without it"), Side("with it", self.proposal.files)
        compared = await self.samples.compare(tasks, *sides, guided=bool(self._guided()))
        return Verdict(*self._judge(compared), tested, compared)

    def _judge(self, compared: Compared) -> tuple[bool, str]:
        size, before, after = compared.counts
        reason = f"{after} of {len(compared.pairs)} sample tasks done with it, {before} without it"
        if size < len(compared.pairs):
            return False, f"{reason}; the money for comparing was used up"
        if after < before:
            worse = next(each for each in compared.pairs if each.present and not each.tried)
            return False, f"it does worse: {reason}; {worse.task}: {worse.note}"
        if not self.has_model:
            return False, f"{reason}, by code alone: there is no model, so this proves little"
        return (True, reason) if after else (False, f"{reason}, which proves nothing")

    async def trial(self) -> Verdict:
        """Judge it more strictly: it is good only if it is shown to be better.

        Raises `UsageError` if a file is malformed or no sample task tests the change.
        """
        verdict = await self.judge()
        if not verdict.compared.pairs:
            raise UsageError(
                f"{self.proposal.id}: {verdict.why}; a trial needs sample tasks (system/samples/)"
            )
        compared = verdict.compared
        good = compared.finding == "better" and all(each.passed for each in verdict.tested)
        return replace(verdict, good=good, why=compared.summary)

    def adopt(self, reason: str) -> Entry | None:
        """Make it active; None if the system has all of it already."""
        proposal = self.proposal
        more = proposal.source | {"proposal": proposal.id}
        entry = self.journal.change("adopted", proposal.unit, proposal.files, PERSON, reason, **more)
        if entry is None:
            self.proposals.drop(proposal.id, PERSON, "the system has it already")
        return entry

    def moved(self) -> list[str]:
        """The files that changed since it was proposed."""
        present = {name: mark_of(self.journal.system / name) for name in self.proposal.files}
        return [name for name, mark in present.items() if mark != self.proposal.base.get(name, "")]

    def keep_trial(self, trials: Trials, verdict: Verdict, did: str) -> Trial:
        """Write its trial down."""
        unit, more = self.proposal.unit, {"against": "what is there now", "proposal": self.proposal.id}
        return trials.keep(_kind(unit), unit, verdict.compared, now(), did=did, **more)

    @property
    def _folder(self) -> Path:
        return self.proposals.folder / self.proposal.id / "files"

    def _entries(self) -> dict[str, Tool | Fault]:
        """The tools in the proposal as they would be, or what is wrong with them, by file."""
        places = {name: self._folder / name for name in self.proposal.files if TOOL_FILE.fullmatch(name)}
        return {name: tool_at(path) for name, path in places.items() if path.is_file()}

    def _tools(self) -> list[Tool]:
        return [each for each in self._entries().values() if isinstance(each, Tool)]

    def _guided(self) -> list[Tool]:
        return [tool for tool in self._tools() if tool.guided]

    def _faults(self) -> Iterator[str]:
        for name, each in self._entries().items():
            if isinstance(each, Fault):
                yield f"{name}:{each.line}: {each.message}"
        if any(name.startswith("reflexes/") for name in self.proposal.files):
            from runtime.reflexes.reflex import Reflex

            yield from map(str, Reflex([self._folder]).faults)


@dataclass
class ChangeTrials:
    """Compares proposals, journal entries and learned patterns with what is there now, and keeps the result.

    What is shown to be better is adopted; an active change that is shown to be worse is undone.
    """

    journal: Journal
    samples: SampleTasks
    trials: Trials
    dry_run: bool = False  # only compare

    async def proposal(self, adoption: Adoption) -> Trial:
        """An open proposal; it is adopted if the sample tasks do better with it."""
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
            did = "is adopted" if adoption.adopt(verdict.why) else "is active already"
        return adoption.keep_trial(self.trials, verdict, did)

    async def entry(self, number: int) -> Trial:
        """A change in the journal; it is rolled back if the tasks do worse with it."""
        entry = self.journal.entry(number)
        if not entry.files:
            raise UsageError(f"entry {number} ({entry.kind}) changed no file")
        before = {change.path: self.journal.blobs.file(change.before) for change in entry.files}
        after = {change.path: self.journal.blobs.file(change.after) for change in entry.files}
        sides = Side(f"before entry {number}", before), Side(f"with entry {number}", after)
        if not (tasks := self.samples.bearing_on(before)):
            raise UsageError(f"entry {number}: no sample task bears on it, so there is nothing to compare")
        compared = await self.samples.compare(tasks, *sides)
        did = "stays as it is"
        if compared.finding == "worse" and not self.dry_run:
            self.journal.rollback(number)
            did = "is rolled back"
        against = f"what was before entry {number}"
        return self.trials.keep(_kind(entry.unit), entry.unit, compared, now(), did=did, against=against)

    async def pattern(self, library: Library, name: str) -> Trial:
        """A learned pattern, by its name or as a new file.

        A new one is added if the tasks do better with it; a known one is switched off if they do worse.
        """
        from runtime.memory.learning.patterns import write

        pattern, new = _pattern(library, name)
        others = [each for each in library.all() if each.name != pattern.name]
        without = {f"{each.name}.md": write(each).encode() for each in others}
        within = {**without, f"{pattern.name}.md": write(pattern).encode()}
        sides = Side("without it", patterns=without), Side("with it", patterns=within)
        compared = await self.samples.compare(self.samples.all(), *sides)
        did = "is not kept" if new else "stays as it is"
        if new and compared.finding == "better" and not self.dry_run:
            library.add(pattern)
            did = "is adopted"
        elif not new and compared.finding == "worse" and not self.dry_run:
            library.update(pattern.name, person=True, status="off")
            did = "is switched off"
        return self.trials.keep("pattern", pattern.name, compared, now(), did=did, against="without it")


def _pattern(library: Library, name: str) -> tuple[Pattern, bool]:
    """The pattern of that name, or one from a file, and whether it is new. Raises `UsageError`."""
    from runtime.memory.learning.patterns import read

    if pattern := library.get(name):
        return pattern, False
    path = Path(name)
    if path.suffix == ".md" and path.is_file():
        return read(path), True
    names = ", ".join(each.name for each in library.all()[:8]) or "none yet"
    raise UsageError(f"{name} is no proposal, no entry, no learned pattern ({names}), and no file")


def _kind(unit: str) -> Kind:
    return "phase" if unit.startswith("phases/") else "tool" if "/" in unit else "change"
