"""What a loop finds around it (its world), and one document while its loop is being advanced (held)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel.acting import Runner
from kernel.budget import UNLIMITED, Amount, Bounds, Ledger, open_shares
from kernel.catalogue import Catalogue
from kernel.danger import Guard, unguarded
from kernel.document import Document, Fold, Note, Step
from kernel.drafts import Drafts
from kernel.events import Event, Kind, Listener, now, silent
from kernel.operations import OperationContext
from kernel.replies import ReplyLog
from kernel.responder import Ladder
from kernel.sandbox import Sandbox
from kernel.snapshot import Snapshots
from kernel.store import Append, Change, Save, Store
from kernel.tools import Tool
from kernel.workspace import root_id

Admitted = Callable[[Tool], Awaitable[str]]
"""Whether a tool may be used: why not, "" when it may. A program is tested again when it has changed."""

Known = Callable[[Document], Sequence[tuple[str, str]]]
"""What memory gives a loop to see, inside its level's budget: the name of each part, and its text."""


async def admit_all(tool: Tool) -> str:
    """Where nobody keeps a record of tests every tool may be used."""
    return ""


@dataclass(frozen=True)
class Policy:
    """What the person who started the run has decided, beyond the bounds."""

    fuse: str = "auto"  # auto, always, never: one call for §1 and §2
    approve: tuple[str, ...] = ()  # effects that need an approval before each step
    yes: bool = False  # approve them all
    plan_only: bool = False  # stop after the root's PLAN
    assume: Mapping[str, str] = field(default_factory=dict[str, str])  # rerun or done, by step; "": any step
    network: bool = False  # commands in the sandbox may use it
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of operations, by name
    trusted_clients: tuple[str, ...] = ()  # MCP clients that may approve of serious dangers

    def assumed(self, loop_id: str, n: int) -> str:
        """What a person has said of a step that cannot be looked at: `rerun`, `done`, or "" (nothing)."""
        return self.assume.get(f"{loop_id}:{n}") or self.assume.get("", "")


@dataclass
class World:
    """Everything that the loops of one run share in one process."""

    run: str
    folder: Path  # that operations act on
    store: Store
    log: ReplyLog
    catalogue: Catalogue
    ladder: Ladder
    sandbox: Sandbox
    artifacts: Path
    bounds: Bounds = field(default_factory=Bounds)
    policy: Policy = field(default_factory=Policy)
    protected: tuple[Path, ...] = ()
    private: tuple[Path, ...] = ()
    drafts: Drafts | None = None  # what this run writes below system/
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held by the call that may change files
    snapshots: Snapshots | None = None  # what the folder held before and after each step that may change it
    guard: Guard = unguarded
    runners: Mapping[str, Runner] = field(default_factory=dict[str, Runner])  # by the scheme of `run:`
    admitted: Admitted = admit_all
    known: Known = lambda document: ()  # what memory has for it
    listener: Listener = silent
    redact: Callable[[str], str] = lambda text: text  # for what is shown
    redact_values: Callable[[str], str] = lambda text: text  # the known secrets alone, for what is applied
    seconds: Callable[[], float] = lambda: 0.0  # of activity in this session
    patient: Callable[[], AbstractContextManager[None]] = nullcontext  # while a person is waited for
    limit: Amount = UNLIMITED  # of the whole run, as its root's document says
    deadline: str = ""
    stopping: str = ""  # interrupted, exhausted or cancelled, once the run is being stopped

    def warn(self, message: str, loop_id: str = "") -> None:
        """Tell whoever watches what they should know of the run, or of one of its loops."""
        self.listener(Event("warning", self.run, loop_id or root_id(self.run), data={"message": message}))

    def shown(self, path: Path) -> str:
        """A path as documents name it: relative to the folder, so that a run can be copied elsewhere."""
        return os.path.relpath(path, self.folder.resolve())

    def context(self, tool: Tool | None, skills: Iterable[str] = ()) -> OperationContext:
        """What an operation gets, or a criterion, which is of no tool.

        The folders of the `skills` that its loop works by are there to be read.
        """
        places = self.catalogue.places(skills)
        return OperationContext(
            self.folder,
            self.sandbox,
            self.policy.settings,
            tool.timeout if tool else 60.0,
            (*self.protected, *(place for place in places if self.folder.resolve() in place.parents)),
            tool.effects if tool else (),
            self.policy.network,
            places,
            self.drafts,
            self.private,
        )


class Held:
    """One document while its loop is advanced: every change goes through here, and so to the disk."""

    def __init__(self, world: World, document: Document) -> None:
        self.world = world
        self.doc = document
        self._written = document
        self._entries: dict[int, Step] = {}
        self.ledger = Ledger.of(document, self.below)

    @property
    def id(self) -> str:
        """The loop's id."""
        return self.doc.meta.id

    @property
    def root(self) -> bool:
        """Whether this is the loop of the whole run."""
        return not self.doc.meta.parent

    @property
    def atomic(self) -> bool:
        """At this depth or with this little context no guided loop starts: one reply names one operation."""
        meta = self.doc.meta
        context = int(meta.budget.get("context", self.world.bounds.context(meta.depth)))
        return meta.depth >= self.max_depth or context < self.world.bounds.min_context

    @property
    def may_split(self) -> bool:
        """Whether this loop may have children (which may themselves be atomic)."""
        return not self.atomic

    @property
    def max_depth(self) -> int:
        """From which depth on loops are atomic."""
        return int(self.doc.meta.budget.get("max_depth", self.world.bounds.max_depth))

    def attempted(self) -> list[Step]:
        """The steps of this attempt, as they went where they have begun."""
        return [self.doc.steps.get(n, step) for n, step in self.doc.planned.items()]

    def emit(self, kind: Kind, **data: Any) -> None:
        """Tell whoever watches."""
        meta = self.doc.meta
        self.world.listener(Event(kind, meta.run, meta.id, meta.parent, meta.level, meta.type, data))

    def note(self, number: int, key: str, text: str, origin: str = "kernel", source: str = "") -> None:
        """Add a note; it reaches the disk with the next save."""
        self.doc = self.doc.with_notes(number, Note(key, text, origin, source))

    def meta(self, **changes: Any) -> None:
        """Change META; it reaches the disk with the next save."""
        self.doc = self.doc.having(**changes)

    def save(self, *after: Change, wake: tuple[str, ...] = ()) -> None:
        """Write the whole document, then the other changes, then wake."""
        self.meta(updated=now(), spent=self.spent(), deadline=self.world.deadline)
        self.world.store.commit([Save(self.doc), *after], wake)
        self._entries.clear()
        self._written = self.doc

    def put(self, step: Step) -> None:
        """Change a step of §3; it reaches the disk with the next flush."""
        self.doc = self.doc.with_step(step)
        self._entries[step.n] = step

    def end(self, step: Step) -> None:
        """A step has ended: keep it, and tell whoever watches."""
        self.put(step)
        self.emit(
            "step_finished",
            step=step.n,
            tool=step.tool or "subtask",
            state=step.state,
            result=(step.result or "")[:200],
            deleted=step.evidence.get("deleted", ""),
        )

    def flush(self, *after: Change, wake: tuple[str, ...] = ()) -> None:
        """Append the changed steps, then make the other changes, then wake."""
        changes: list[Change] = (
            [Append(self._written, tuple(self._entries.values()))] if self._entries else []
        )
        if changes or after or wake:
            self.world.store.commit([*changes, *after], wake)
        self._entries.clear()
        self._written = self.doc

    def below(self, loop_id: str) -> Amount:
        """What a loop and all below it have spent."""
        spent = self.world.log.below(loop_id)
        return Amount(spent.calls, spent.prompt_tokens + spent.completion_tokens, spent.usd)

    def spent(self) -> dict[str, Any]:
        """What this loop and its ended children have cost so far."""
        whole = self.world.log.below(self.id)
        for step, _ in open_shares(self.doc.steps.values()):
            whole -= self.world.log.below(step.link.removesuffix(".md"))
        told = (step.evidence.get("spent", {}) for step in self.doc.steps.values())
        instructions = sum(int(each.get("instr", 0)) for each in self.doc.meta.rungs)
        instructions += sum(each.get("instruction_tokens", 0) for each in told)
        total: dict[str, Any] = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
        total |= {"instruction_tokens": instructions} | whole.as_dict()
        if self.root:
            total["seconds"] = round(self.world.seconds(), 3)
        return total

    def answered(self, phase: str, rung: str, **figures: Any) -> None:
        """Record in META which rung answered what, at what cost; a DO phase's asks are summed up."""
        attempt = self.doc.meta.attempt
        rungs = list(self.doc.meta.rungs)
        entry: dict[str, Any] = {"attempt": attempt, "phase": phase, "rung": rung, **figures}
        last: Mapping[str, Any] = rungs[-1] if rungs else {}
        if phase == "do" and all(
            last.get(key) == entry.get(key) for key in ("attempt", "phase", "rung", "model")
        ):
            numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
            rungs[-1] = {
                **last,
                **{key: round(last.get(key, 0) + value, 9) for key, value in numbers.items()},
            }
        else:
            rungs.append(entry)
        self.meta(rungs=tuple(rungs))

    def fold(self, decision: str, *notes: Note) -> None:
        """End this attempt: §2 and §4 shrink to what was learned, and PLAN begins again."""
        plan = self.doc.section(2)
        approach = tuple(note for note in plan.notes if note.key == "approach")
        fold = Fold(self.doc.meta.attempt, decision, (*approach, *notes))
        base = max([self.doc.meta.base, *plan.steps, *self.doc.steps])
        sections = dict(self.doc.sections)
        sections[2] = replace(plan, folds=(*plan.folds, fold), notes=(), steps={})
        sections.pop(4, None)
        self.doc = Document(self.doc.meta, sections)
        extra = {key: value for key, value in self.doc.meta.extra.items() if key != "kept"}
        derived = {key: value for key, value in self.doc.meta.derived.items() if key == "understand"}
        self.meta(phase="plan", attempt=self.doc.meta.attempt + 1, base=base, waiting=None)
        self.meta(extra=extra, derived=derived)
