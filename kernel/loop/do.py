"""DO: run the steps that are ready, in parallel: operations directly, tools and subtasks as child loops.

A step's `running` entry is on disk before its effect starts, and its result before a dependent step starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter

from kernel.asking.responder import DO
from kernel.asking.turn import TurnReply
from kernel.document.model import Document, Note, Step
from kernel.document.references import references
from kernel.errors import (
    DocumentError,
    LimitReached,
    OperationFailed,
    ReplyError,
    explained,
    raised_as,
)
from kernel.loop import reuse
from kernel.loop.approval import approval
from kernel.loop.ask import Answer, NobodyLeft, PersonNeeded, ask
from kernel.loop.budget import Waiting
from kernel.loop.calls import check_call, unwrapped
from kernel.loop.child import (
    child_document,
    child_id_at,
    drafts_used,
    ended_child,
    repeatable_below,
    share_of,
    traces,
)
from kernel.loop.operation import may_change, operate, recover_call, warn_of_wait, with_changes
from kernel.loop.run_context import Session, results_of, unready
from kernel.store.files import missing
from kernel.tools.tool import Tool

Call = tuple[Step, Tool, Mapping[int, str]]
"""A step with its final arguments, its tool, and the results passed to its command by step number."""


async def _ask_for_call(session: Session, step: Step) -> Answer:
    """Ask for the turn that is the call of a step which is planned in words."""

    async def gate(reply: TurnReply) -> None:
        if reply.question or reply.cannot or _skips(reply):
            return
        if len(reply.calls) != 1:  # a text alone is an answer, which would skip the step unnoticed
            raise ReplyError(f"step {step.n} is one call of {step.tool}; not needed is done with why")
        call = unwrapped(reply.calls[0])
        if call.bad or call.tool != step.tool:
            given = call.bad or call.tool or "a subtask"
            raise ReplyError(f"step {step.n} is a call of {step.tool}, not of {given}")
        if problem := session.catalogue.problem(call.tool, call.args) or unready(session, call.args):
            raise ReplyError(f"step {step.n}: {problem}")

    return await ask(session, DO, step=step.n, gate=gate)


def _skips(reply: TurnReply) -> bool:
    """Whether a turn that is bound to a step says that the step is not needed."""
    return bool(reply.done and reply.done.why and not reply.calls)


async def _arguments(session: Session, step: Step) -> Step:
    """The step with its arguments; an ended step if it is skipped or blocked. Raises `Waiting`."""
    asked = open_question(session.doc)
    if asked and asked.origin != "kernel":
        raise Waiting("person", asked.text)
    answer = await _ask_for_call(session, step)
    turn: TurnReply = answer.reply
    if turn.question:
        raise _asked_person(session, turn.question, answer.origin)
    if turn.done and _skips(turn):
        return replace(step, state="skipped", result=turn.done.why, origin=answer.origin)
    if turn.cannot:
        return replace(step, state="failed", result=f"blocked: {turn.cannot}", origin=answer.origin)
    evidence = {**step.evidence, "asked": answer.origin}
    return replace(step, args=unwrapped(turn.calls[0]).args, evidence=evidence)


async def prepare_call(session: Session, step: Step, tool: Tool, again: Step | None) -> Call | Step:
    """The call of a step that may start now; an ended step if no call is needed. Raises `Waiting`.

    References in its arguments are filled in once, so that the approved arguments are the executed ones.
    `again` is the earlier entry in §3 of a step that is repeated.
    """
    begun = step.state == "running"  # started before an interruption
    stored = begun or step.state == "waiting" or "approved" in step.evidence
    if stored and not begun and reuse.why_stale(session, step.n):
        stored = False  # its inputs have changed: an approval was for another call
    if not stored:
        step = session.doc.planned[step.n]
    if step.args is None:
        session.flush()
        try:
            with_arguments = await _arguments(session, step)
        except PersonNeeded as error:
            raise _asked_person(session, str(error)) from None
        if with_arguments.ended:
            return with_arguments
        step = with_arguments
        tool = session.catalogue.get(step.tool)
    if lost := missing(step):
        raise OperationFailed(lost)
    args = dict(step.args or {}) if stored else tool.typed(session.filled(step.args, exact=True))
    await check_call(session, step, tool, args)
    results = results_of(session, str(args.get("command"))) if tool.name == "bash" else {}
    filled = replace(step, args=args, evidence={**step.evidence, **reuse.recorded_inputs(session, step.n)})
    if not begun:
        earlier = reuse.earlier_outcome(session, filled, again, tool.repeatable(args))
        if isinstance(earlier, str):
            raise Waiting("person", earlier)
        if earlier:
            return earlier
    await _look_for_large(session, filled, tool)
    allowed, asks = approval(session, filled, tool, args, results)
    if asks:
        raise Waiting("approval", asks)
    session.pay(allowed, tool)
    return replace(allowed, state="running", result=None), tool, results


async def _look_for_large(session: Session, step: Step, tool: Tool) -> None:
    """Take the first snapshot before an approval is asked: it finds the files too large to be kept."""
    snapshots = session.run.snapshots
    if snapshots and snapshots.large is None and may_change(session, step, tool):
        async with snapshots.turn(partial(warn_of_wait, session, step)):
            await snapshots.taken(session.run.id)


def open_question(document: Document) -> Note | None:
    """The last question to a person, if it has no answer yet."""
    said = [note for note in document.section(1).notes if note.key in ("question", "answer")]
    return said[-1] if said and said[-1].key == "question" else None


def _asked_person(session: Session, question: str, origin: str = "kernel") -> Waiting:
    """Write the root's question into §1, where its answer is read. A child's step fails with the question."""
    if not session.root:
        raise OperationFailed(f"a question only a person can answer: {question}")
    if session.doc.text(1, "question") != question:
        asked = sum(note.key == "question" for note in session.doc.section(1).notes)
        if asked >= session.run.bounds.questions and origin != "kernel":
            raise OperationFailed(f"{asked} questions were asked already: {question}")
        session.note(1, "question", question, origin)
        session.save()
    return Waiting("person", question)


class StepRunner:
    """The DO phase of one loop in one call of `advance`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tasks: dict[int, asyncio.Task[Step]] = {}
        self.children: set[int] = set()  # started and not ended
        self.ready: list[int] = []  # may start now
        self.waiting: Waiting | None = None  # not for children: no further step starts, running ones go on
        self.needs: dict[int, set[int]] = {}  # of each step that had not ended at the beginning
        self.order = TopologicalSorter[int]()

    async def run(self) -> None:
        """Run until every step has ended. Raises `Waiting` if the loop has to wait."""
        await self._recover()
        self.needs = {n: reuse.waits_for(self.session, n) for n in self._open()}
        at_work = {n for n in self.needs if self._state(n) == "running"}
        self.order = TopologicalSorter(
            {n: () if n in at_work else needs & self.needs.keys() for n, needs in self.needs.items()}
        )
        try:
            with suppress(CycleError):  # the steps of a cycle never become ready
                self.order.prepare()
            await self._run()
        finally:
            for task in self.tasks.values():
                task.cancel()
            await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._sort_ready()
            self._fold_children()
            await self._start_ready()
            if self.tasks:
                self.session.flush()
                await asyncio.wait(self.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
                self._collect()
            elif self.waiting or not self.ready or self.children:
                if not (self.waiting or self.children):
                    for n in self._open():  # a plan edited by a person may contain a dependency cycle
                        planned = self.session.doc.planned[n]
                        self.session.end(replace(planned, state="struck", result="skipped: dependency cycle"))
                self.session.flush()
                if self.waiting or self.children:
                    raise self.waiting or Waiting("children")
                return

    def _step(self, n: int) -> Step:
        return self.session.doc.steps.get(n) or self.session.doc.planned[n]

    def _state(self, n: int) -> str:
        step = self.session.doc.steps.get(n)
        return step.state if step else "planned"

    def _open(self) -> list[int]:
        """The planned steps that have not ended."""
        return [n for n in self.session.doc.planned if not self._step(n).ended]

    def _sort_ready(self) -> None:
        """Sort the steps whose needs have all ended: they may start, are at work already, or are struck."""
        while ready := self.order.get_ready():
            for n in ready:
                step = self._step(n)
                steps = self.session.doc.steps  # a plan edited by a person may name a step that is none
                done = {need for need in self.needs[n] if need in steps and steps[need].succeeded}
                lost = sorted(self.needs[n] - done)
                if step.share is not None and step.state == "running":
                    self.children.add(n)
                elif step.state == "running" or not lost or self._only_waits(step):
                    self.ready.append(n)
                else:
                    state = self._state(lost[0])  # planned: a step of a rejected plan
                    why = f"not run: step {lost[0]} {'was never started' if state == 'planned' else state}"
                    self._end(replace(step, state="struck", result=why, origin="kernel"))

    def _only_waits(self, step: Step) -> bool:
        """Whether a step needs others only to come after them, as those of a turn do."""
        return "turn" in step.evidence and not references([step.args, step.what])

    # ---- starting ----

    async def _start_ready(self) -> None:
        """Start steps up to the limit of parallel ones. A step that ends at once may enable others."""
        most = self.session.run.bounds.side_by_side
        while not self.waiting and len(self.tasks) + len(self.children) < most:
            self._sort_ready()
            if (n := next((n for n in self.ready if not self._must_wait(n)), None)) is None:
                break
            self.ready.remove(n)
            step = self._step(n)
            with self._failing(step):
                await self._start(step)

    @contextmanager
    def _failing(self, step: Step) -> Generator[None]:
        """Record an error of a step as its failure, and what it waits for; the rest is raised."""
        try:
            with raised_as(OperationFailed):
                yield
        except Waiting as waiting:
            self.waiting = waiting
        except (LimitReached, OperationFailed, DocumentError, NobodyLeft) as error:
            # at a limit open children continue; CHECK has its own call and judges what was done
            self._fail(step, str(error), limit=isinstance(error, LimitReached))

    def _must_wait(self, n: int) -> bool:
        """Whether a step has to wait for a running one: calls of a state machine are sequential."""
        tool = self.session.catalogue.tools.get(self._step(n).tool)
        running = [self._step(each).tool for each in self.tasks]
        return tool is not None and bool(tool.states) and tool.name in running

    async def _start(self, step: Step) -> None:
        if step.state == "stale" and not reuse.why_stale(self.session, step.n):
            self._end(reuse.restored(self.session, step))
            return
        again = step if step.result is not None else None  # done before, and repeated after an edit
        if again:
            step = self.session.doc.planned[step.n]
        tool = self._tool(step) if step.tool else None
        if tool is None or tool.guided:
            self._start_child(step, again)
        else:
            await self._start_operation(step, tool, again)

    def _tool(self, step: Step) -> Tool:
        """The tool of a step. One that does not ship with Fractal is read from disk again."""
        known = self.session.catalogue.tools
        if step.tool not in known or known[step.tool].scheme != "python":
            self.session.run.catalogue.refresh()
        return self.session.catalogue.get(step.tool)

    async def _start_operation(self, step: Step, tool: Tool, again: Step | None) -> None:
        call = await prepare_call(self.session, step, tool, again)
        if isinstance(call, Step):
            self._end(call)
            return
        self.tasks[step.n] = asyncio.create_task(operate(self.session, *call))
        await asyncio.sleep(0)  # the task writes its entry, so that §3 usually keeps the order of the plan

    def _start_child(self, step: Step, again: Step | None) -> None:
        session = self.session
        step = replace(step, state="running", what=session.filled(step.what))
        child_id = child_id_at(session, step)
        step = replace(step, link=f"{child_id}.md")
        earlier = reuse.earlier_outcome(session, step, again, repeatable_below(session, child_id))
        if isinstance(earlier, str):
            raise Waiting("person", earlier)
        if earlier:
            self._end(earlier)
            return
        # a child whose step entry was lost continues with a new share
        child = session.run.store.load(child_id) if session.run.store.exists(child_id) else None
        made_from = {**reuse.recorded_inputs(session, step.n), **drafts_used(session, step)}
        step = replace(step, evidence={**step.evidence, **made_from})
        unshared = [n for n in self._open() if self._is_child(n) and n not in self.children]
        asks = sum(not self._is_child(n) and self._step(n).args is None for n in self._open())
        step = replace(step, share=share_of(session, step, len(unshared), asks))
        session.put(step)
        self.children.add(step.n)
        child = child.having(budget=dict(step.share or {})) if child else child_document(session, step)
        if again:  # an entry without a document would mean a lost child
            session.run.store.save(child)
        # first the parent's entry, then the child, then the wake
        session.flush(*([] if again else [child]), wake=(child_id,))
        session.emit("step_started", step=step.n, tool=step.tool or "subtask", args={"task": step.what})

    def _is_child(self, n: int) -> bool:
        step = self.session.doc.planned[n]
        return not step.tool or self.session.catalogue.guided(step.tool)

    # ---- ending ----

    def _collect(self) -> None:
        for n, task in list(self.tasks.items()):
            if task.done():
                del self.tasks[n]
                with self._failing(self._step(n)):
                    step = task.result()
                    if step.ended:
                        self._end(step)
                    else:  # what was approved has changed since: it is asked for again
                        self.session.put(step)
                        self.ready.append(n)

    def _fold_children(self) -> None:
        for step in [self._step(n) for n in sorted(self.children)]:
            child_id = step.child
            try:
                child = self.session.run.store.ended(child_id)
            except DocumentError as error:
                self._unknown(step, f"the child's document is broken: {error}")
                continue
            if child is not None:
                taught = self.session.run.hooks.taught(self.session.run, child)
                self._end(ended_child(self.session, step, child))
                if taught:
                    self._learn(taught, step, child)

    def _learn(self, taught: str, step: Step, child: Document) -> None:
        """Add what oversight taught to §1, where the next plan or turn sees it."""
        origin = next((note.origin for note in child.section(5).notes if note.key == "result"), "kernel")
        self.session.note(1, "guidance", taught, origin, f"oversight, step {step.n}")
        reuse.accept_notes(self.session)
        self.session.save()

    def _end(self, step: Step) -> None:
        """Record an ended step, after which others may start."""
        self.session.end(step)
        self.children.discard(step.n)
        if step.n in self.needs:
            self.order.done(step.n)

    def _fail(self, step: Step, why: str, *, limit: bool = False) -> None:
        if step.result is not None:  # done before: the planned call has failed now
            known = {key: value for key, value in step.evidence.items() if key not in ("was", "limit", "now")}
            planned = self.session.doc.planned[step.n]
            step = replace(planned, link=step.link, share=step.share, evidence=known)
        evidence = {**step.evidence, **reuse.recorded_inputs(self.session, step.n)}
        evidence |= {"limit": True} if limit else {}
        self._end(replace(step, state="failed", result=why, origin="kernel", evidence=evidence))

    def _unknown(self, step: Step, why: str) -> None:
        if step.share is not None:  # its spending is known from the log, even without a readable document
            spent = self.session.run.log.spent_by(step.child).as_dict()
            step = replace(step, evidence={**step.evidence, "spent": spent})
        self._end(replace(step, state="unknown", result=why, origin="kernel"))

    # ---- after an interruption ----

    async def _recover(self) -> None:
        """Determine what happened to the steps that an earlier process had started."""
        for n in self._open():
            step = self.session.doc.steps.get(n)
            if step is None or step.state != "running":
                continue
            if step.share is not None:
                self._recover_child(step)
            else:
                await self._recover_operation(step)

    def _recover_child(self, step: Step) -> None:
        store = self.session.run.store
        child_id = step.child
        if store.exists(child_id):
            return
        asked, acted = traces(self.session, child_id)
        if acted:  # a new child would repeat what it did
            self._unknown(step, f"{step.link} is missing, and what it did is unknown")
            return
        if asked:
            self.session.emit(
                "warning", message=f"{step.link} was missing and is made again from step {step.n}"
            )
        # usually the process died between the parent's entry and the child's document
        self.session.flush(child_document(self.session, step), wake=(child_id,))

    async def _recover_operation(self, step: Step) -> None:
        if (snapshots := self.session.run.snapshots) and "tree_after" not in step.evidence:
            async with snapshots.turn():
                step = await with_changes(self.session, step)
            self.session.put(step)
        try:
            became = recover_call(self.session, step)
        except Exception as error:
            self._unknown(step, f"interrupted, and its outcome is unknown: {explained(error)}")
            return
        if isinstance(became, str):
            raise Waiting("person", became)
        if reuse.why_stale(self.session, step.n):  # its call was changed in the meantime
            self.session.put(reuse.marked_stale(became) if became.ended else self.session.doc.planned[step.n])
        elif became.ended:
            self._end(became)
