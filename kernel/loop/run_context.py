"""The state shared by the loops of a run (`RunContext`), and one document while its loop runs (`Session`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from kernel.asking.prompt import found_by_itself
from kernel.asking.responder import DO, Ladder, Usage
from kernel.document.escaping import fingerprint
from kernel.document.model import Document, Fold, Note, Step, now, root_id
from kernel.document.references import in_shell, problem_in, references, substitute
from kernel.document.texts import cut
from kernel.errors import OperationFailed
from kernel.events import Event, Kind, Listener, silent
from kernel.loop.budget import (
    ROUNDING,
    UNLIMITED,
    Amount,
    Bounds,
    LifeforceNeeded,
    free_calls,
    open_shares,
)
from kernel.loop.clock import Clock
from kernel.loop.hooks import Hooks, Inbox, Snapshots
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore
from kernel.tools.operations import Call, Context, Drafts, Result, Sandbox
from kernel.tools.tool import Catalogue, Tool


@dataclass(frozen=True)
class ApprovedCall:
    """One exact call that a person has approved for good, with the effects and dangers that it had then."""

    tool: str
    args: Mapping[str, Any]
    effects: tuple[str, ...] = ()
    dangers: tuple[str, ...] = ()  # as a question shows them
    folder: str = "."  # that the run acts in, from the folder of the settings
    files: Mapping[str, str] | None = None  # that it names, with their digests then; None: whatever they are


@dataclass(frozen=True)
class Policy:
    """What the person who started the run has decided, beyond the bounds."""

    check: str = "auto"  # auto: no call where code has proved every criterion; always
    approve: tuple[str, ...] = ()  # effects that need approval before each step
    yes: bool = False  # approve everything except serious dangers
    plan_only: bool = False  # stop after the root's PLAN
    assume: Mapping[str, str] = field(default_factory=dict[str, str])  # rerun or done, by step; "": any step
    network: bool = False  # commands in the sandbox may use the network
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of operations, by name
    trusted_clients: tuple[str, ...] = ()  # MCP clients that may approve serious dangers
    approved: tuple[ApprovedCall, ...] = ()  # calls that need no further approval

    def assumed(self, loop_id: str, n: int) -> str:
        """What a person has stated about an interrupted step: `rerun`, `done`, or "" (nothing)."""
        return self.assume.get(f"{loop_id}:{n}") or self.assume.get("", "")


async def _no_call(context: Context, tool: Tool, args: Mapping[str, Any]) -> Result:
    return Result(f"nothing here can run {tool.name}", ok=False)


@dataclass
class RunContext:
    """What the loops of one run share in one process."""

    id: str
    folder: Path  # which operations work on
    store: FileStore
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
    snapshots: Snapshots | None = None
    places: tuple[Path, ...] = ()  # readable folders elsewhere: the git directory of a worktree
    approved_kinds: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    """The kinds that a person has approved for the rest of the run, as the root's META has them."""
    call: Call = _no_call
    contexts: Callable[[RunContext, Tool | None, Iterable[str]], Context] = lambda run, tool, skills: None
    hooks: Hooks = field(default_factory=Hooks)
    listener: Listener = silent
    clock: Clock = field(default_factory=Clock)
    inbox: Inbox = field(default_factory=Inbox)  # of the messages to the run
    limit: Amount = UNLIMITED  # of the whole run, from its root's document
    deadline: str = ""
    wake: Callable[[str], None] = lambda loop_id: None  # the engine's: this loop may be able to continue
    stopping: str = ""  # interrupted, exhausted or cancelled, while the run is being stopped

    def warn(self, message: str, loop_id: str = "") -> None:
        """Emit a warning about the run or one of its loops."""
        self.listener(Event("warning", self.id, loop_id or root_id(self.id), data={"message": message}))

    def shown(self, path: Path) -> str:
        """A path relative to the folder, as in documents, so that a run can be copied elsewhere."""
        return os.path.relpath(path, self.folder.resolve())

    def context(self, tool: Tool | None, skills: Iterable[str] = ()) -> Context:
        """The context of an operation or (without a tool) a criterion, with readable folders of `skills`."""
        return self.contexts(self, tool, skills)


class Session:
    """One document while its loop runs. Every change of the document goes through this class."""

    def __init__(self, run: RunContext, document: Document) -> None:
        self.run = run
        self.doc = document
        self._written = document
        self._entries: dict[int, Step] = {}
        self.once_saved: list[Callable[[], None]] = []  # called when the next save is on disk

    @property
    def id(self) -> str:
        """The loop's id."""
        return self.doc.meta.id

    @property
    def root(self) -> bool:
        """Whether this is the loop of the whole run."""
        return not self.doc.meta.parent

    @property
    def catalogue(self) -> Catalogue:
        """The tools that this loop knows."""
        return self.run.catalogue.without(self.run.hooks.hidden(self))

    @property
    def teaches(self) -> bool:
        """Whether this loop solves for oversight what a worker has escalated."""
        tool = self.run.catalogue.tools.get(self.doc.meta.type)
        return overseen(self.doc) and tool is not None and tool.oversight

    @property
    def atomic(self) -> bool:
        """Whether the limit of depth or context is reached: there are no children."""
        meta = self.doc.meta
        context = int(meta.budget.get("context", self.run.bounds.context(meta.depth)))
        return meta.depth >= self.max_depth or context < self.run.bounds.min_context

    @property
    def max_depth(self) -> int:
        """The depth from which on loops are atomic."""
        return int(self.doc.meta.budget.get("max_depth", self.run.bounds.max_depth))

    def emit(self, kind: Kind, **data: Any) -> None:
        """Send an event about this loop to the listener."""
        meta = self.doc.meta
        self.run.listener(Event(kind, meta.run, meta.id, meta.parent, meta.level, meta.type, data))

    def phase_finished(self, phase: str, gate: str, **more: Any) -> None:
        """Send the event that a phase has ended with this gate."""
        meta = self.doc.meta
        self.emit("phase_finished", phase=phase, attempt=meta.attempt, rung=meta.taker, gate=gate, **more)

    def note(self, number: int, key: str, text: str, origin: str = "kernel", source: str = "") -> None:
        """Add a note. The next save writes it."""
        self.doc = self.doc.with_notes(number, Note(key, text, origin, source))

    def leave_out(self, number: int, which: Callable[[Note], bool]) -> None:
        """Remove notes of a section. The next save writes it."""
        section = self.doc.section(number)
        kept = tuple(note for note in section.notes if not which(note))
        self.doc = self.doc.with_section(number, replace(section, notes=kept))

    def offer_context(self) -> None:
        """Add to §1, once, what the run finds by itself: prompts are derived from the document alone."""
        if not any(found_by_itself(note.source) for note in self.doc.section(1).notes):
            self.doc = self.doc.with_notes(1, *self.run.hooks.offered(self))

    def meta(self, **changes: Any) -> None:
        """Change META. The next save writes it."""
        self.doc = self.doc.having(**changes)

    def save(self, *, wake: Sequence[str] = (), **meta: Any) -> None:
        """Write the whole document with these changes of META, then wake these loops."""
        self.meta(updated=now(), spent=self.spent(), deadline=self.run.deadline, **meta)
        self._take_over_kinds()
        self.run.store.save(self.doc)
        while self.once_saved:
            self.once_saved.pop(0)()
        self._is_written(wake)

    def put(self, step: Step) -> None:
        """Change a step of §3. The next flush writes it."""
        self.doc = self.doc.with_step(step)
        self._entries[step.n] = step

    def end(self, step: Step) -> None:
        """Record an ended step and send an event."""
        self.put(step)
        self.emit(
            "step_finished",
            step=step.n,
            tool=step.tool or "subtask",
            state=step.state,
            result=(step.result or "")[:200],
            deleted=step.evidence.get("deleted", ""),
        )

    def flush(self, *after: Document, wake: Sequence[str] = ()) -> None:
        """Append the changed steps, then write the other documents, then wake these loops."""
        if self._take_over_kinds():
            self.run.store.save(self.doc)
        elif self._entries:
            self.run.store.append(self._written, tuple(self._entries.values()))
        for document in after:
            self.run.store.save(document)
        self._is_written(wake)

    def _take_over_kinds(self) -> bool:
        """Put approvals of kinds that another loop was given into the root's META; whether there were any."""
        extra, kinds = self.doc.meta.extra, self.run.approved_kinds
        if not self.root or not kinds or extra.get("approved") == kinds:
            return False
        self.meta(extra={**extra, "approved": list(kinds)})
        return True

    def _is_written(self, wake: Sequence[str]) -> None:
        self._entries.clear()
        self._written = self.doc
        for loop_id in wake:
            self.run.wake(loop_id)

    def spent_by(self, loop_id: str) -> Amount:
        """The spending of a loop and its descendants."""
        return Amount.of(self.run.log.spent_by(loop_id))

    def pay(self, step: Step, tool: Tool) -> None:
        """Charge the lifeforce of a tool's call that starts now. Raises `LifeforceNeeded`."""
        limit, cost = self.run.limit.lifeforce, tool.costs(step.args or {})
        if limit == inf or not cost:
            return
        left = limit - self.spent_by(root_id(self.run.id)).lifeforce
        if cost > left + ROUNDING:
            raise LifeforceNeeded(f"step {step.n}, {tool.name},", cost, left)
        key = f"{self.id}/{self.doc.meta.attempt}/tool/{step.n}/0/-"
        self.run.log.acted(key, tool.name, Usage(calls=0, lifeforce=cost))

    def free_calls(self) -> int:
        """The calls that this loop may still make or assign to children."""
        return free_calls(self.doc, self.spent_by)

    def spent(self) -> dict[str, Any]:
        """The spending of this loop and its ended children."""
        whole = self.run.log.spent_by(self.id)
        for step, _ in open_shares(self.doc.steps.values()):
            whole -= self.run.log.spent_by(step.child)
        children = (step.evidence.get("spent", {}) for step in self.doc.steps.values())
        instructions = sum(int(each.get("instr", 0)) for each in self.doc.meta.rungs)
        instructions += sum(each.get("instruction_tokens", 0) for each in children)
        total: dict[str, Any] = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
        total |= {"instruction_tokens": instructions} | whole.as_dict()
        if self.root:
            total["seconds"] = round(self.run.clock.seconds(), 3)
        return total

    def whole(self, step: Step, *, exact: bool = False) -> str:
        """The whole result of a step, also one in artifacts/; raises `OperationFailed` if there is none yet.

        With `exact`, secrets are in their places. Use it for calls, not for display.
        """
        if step.result is None:
            raise OperationFailed(f"step {step.n} has no result yet")
        store, evidence = self.run.store, step.evidence
        text = store.unshelve(evidence["whole"]) if evidence.get("whole") else step.result
        return store.exact.reveal(text) if exact else text

    def with_result(self, step: Step, text: str, file: str) -> Step:
        """The step with its result, its secrets hidden. A long one is cut, and whole in `artifacts/`."""
        text, limit = self.run.store.exact.conceal(text), self.run.bounds.result_chars
        if len(text) <= limit:
            return replace(step, result=text)
        whole = self.run.store.shelve(file, text)
        evidence = {"whole": whole, "characters": len(text), "sha": fingerprint(text)[:8]}
        return replace(step, result=cut(text, limit, whole), evidence={**step.evidence, **evidence})

    def filled(self, value: Any, *, exact: bool = False) -> Any:
        """A copy of a value with its references filled in. Raises `OperationFailed` and `DocumentError`."""
        return substitute(value, self.doc.steps, partial(self.whole, exact=exact))

    def answered(self, phase: str, rung: str, **figures: Any) -> None:
        """Record in META which rung answered, and the cost. The asks of one DO phase are added up."""
        rungs = list(self.doc.meta.rungs)
        entry: dict[str, Any] = {"attempt": self.doc.meta.attempt, "phase": phase, "rung": rung, **figures}
        last: Mapping[str, Any] = rungs[-1] if rungs else {}
        same = all(last.get(key) == entry.get(key) for key in ("attempt", "phase", "rung", "model"))
        if phase == DO and same:
            numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
            sums = {key: round(last.get(key, 0) + value, 9) for key, value in numbers.items()}
            rungs[-1] = {**last, **sums}
        else:
            rungs.append(entry)
        self.meta(rungs=tuple(rungs))

    def fold(self, decision: str, *notes: Note) -> None:
        """End this attempt: reduce §2 and §4 to a fold of what was learned, and return to PLAN.

        The steps of §3 are kept.
        """
        plan = self.doc.section(2)
        approach = tuple(note for note in plan.notes if note.key == "approach")
        fold = Fold(self.doc.meta.attempt, decision, (*approach, *notes))
        base = max([self.doc.meta.base, *plan.steps, *self.doc.steps])
        sections = dict(self.doc.sections)
        sections[2] = replace(plan, folds=(*plan.folds, fold), notes=(), steps={})
        sections.pop(4, None)
        sections[3] = replace(self.doc.section(3), notes=())
        self.doc = Document(self.doc.meta, sections)
        extra = {key: value for key, value in self.doc.meta.extra.items() if key != "kept"}
        derived = {key: value for key, value in self.doc.meta.derived.items() if key == "understand"}
        self.meta(phase="plan", attempt=self.doc.meta.attempt + 1, base=base, waiting=None)
        self.meta(extra=extra, derived=derived)


def overseen(document: Document) -> bool:
    """Whether this is a loop of oversight, or below one."""
    return bool(document.meta.extra.get("oversight"))


def skills_of(document: Document) -> list[str]:
    """The names of the skills that may apply to a loop: its own type, and its ancestors' skills."""
    return [*document.meta.extra.get("skills", ()), document.meta.type]


def unready(session: Session, value: Any) -> str:
    """Why the references in a value cannot be filled in now; "" if they can."""
    if problem := problem_in(value):
        return problem
    steps = session.doc.steps
    missing = [n for n in sorted(references(value)) if n not in steps or steps[n].result is None]
    return f"it refers to step {missing[0]}, which has no result" if missing else ""


def results_of(session: Session, command: str) -> dict[int, str]:
    """The results that a shell command refers to, by step number. Raises `OperationFailed`."""
    used = in_shell(command)
    if problem := unready(session, used):
        raise OperationFailed(problem)
    return {n: session.whole(session.doc.steps[n], exact=True) for n in sorted(references(used))}
