"""DO: run the steps that are ready, side by side; an operation at once, a part of the task as a child loop.

Before an effect begins its running entry is on disk; before anything depends on a result it is on disk.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from kernel import keeping
from kernel.asking import NobodyLeft
from kernel.calling import Waiting, prepared
from kernel.children import (
    child_document,
    child_of,
    ended_child,
    repeatable_below,
    share_of,
    traces,
    tried,
)
from kernel.document import STEP_ENDED, Step
from kernel.errors import DocumentError, LimitReached, OperationFailed, explained, raised_as
from kernel.operate import operate, recovered, seen_after
from kernel.references import substitute
from kernel.store import Save
from kernel.tools import Tool
from kernel.views import Views
from kernel.world import Held

GOOD = frozenset({"done", "skipped"})


class Doing:
    """The DO phase of one loop, for as long as it is advanced."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.tasks: dict[int, asyncio.Task[Step]] = {}
        self.children: set[int] = set()  # begun and not ended
        self.able: list[int] = []  # may begin now
        self.waiting: Waiting | None = None  # for a person: nothing more is begun, what runs runs on
        self.unmet: dict[int, set[int]] = {}  # the needs of each step that have not ended well
        self.dependents: dict[int, list[int]] = {}
        for n in held.doc.planned:
            if not self._step(n).ended:
                self._sort_in(n, keeping.waits_for(held, n))

    def _sort_in(self, n: int, needs: set[int]) -> None:
        states = {need: self._state(need) for need in needs}
        never = [n_ for n_ in needs if n_ not in self.held.doc.planned and n_ not in self.held.doc.steps]
        if never:  # a step of a plan that was rejected
            why = f"not run: step {never[0]} was never begun"
            self.held.end(replace(self._step(n), state="struck", result=why, origin="kernel"))
            return
        self.unmet[n] = {need for need, state in states.items() if state not in GOOD}
        for need in needs:
            self.dependents.setdefault(need, []).append(n)
        step = self._step(n)
        if step.share is not None and step.state == "running":
            self.children.add(n)
        elif not self.unmet[n] and step.state != "running":
            self.able.append(n)

    async def run(self) -> Waiting | None:
        """Go on until every step has ended (None), or nothing can be done now."""
        for need in list(self.dependents):
            if self._state(need) in STEP_ENDED - GOOD and need not in self.unmet:
                self._strike_dependents(need)  # it ended just before an interruption
        if waiting := await self._recover():
            return waiting
        try:
            return await self._run()
        finally:
            for task in self.tasks.values():
                task.cancel()
            await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _run(self) -> Waiting | None:
        while True:
            self._fold_children()
            self.waiting = self.waiting or await self._start_able()
            if self.tasks:
                self.held.flush()
                await asyncio.wait(self.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
                self._collect()
            elif self.waiting or not self.able or self.children:
                if not (self.waiting or self.children):
                    self._strike_circle()
                self.held.flush()
                return self.waiting or (Waiting("children") if self.children else None)

    def _step(self, n: int) -> Step:
        return self.held.doc.steps.get(n) or self.held.doc.planned[n]

    def _state(self, n: int) -> str:
        step = self.held.doc.steps.get(n)
        return step.state if step else "planned"

    # ---- starting ----

    async def _start_able(self) -> Waiting | None:
        """Begin what is able to, as far as there is room; a step that ends at once may make others able."""
        while len(self.tasks) + len(self.children) < self.held.world.bounds.side_by_side:
            if (n := next((n for n in self.able if not self._turn_comes(n)), None)) is None:
                break
            self.able.remove(n)
            step = self._step(n)
            with self._failing(step):
                if waiting := await self._start(step):
                    return waiting
        return None

    @contextmanager
    def _failing(self, step: Step) -> Generator[None]:
        """What goes wrong with a step is its failure; what hinders the whole run is raised."""
        try:
            with raised_as(OperationFailed):
                yield
        except LimitReached as error:
            # children that are open go on; CHECK has its own call and judges what there is
            self._fail(step, str(error), limit=True)
        except (OperationFailed, DocumentError, NobodyLeft) as error:
            self._fail(step, str(error))

    def _turn_comes(self, n: int) -> bool:
        """Whether a call has to wait for one that runs: those of a state machine are made one by one."""
        tool = self.held.world.catalogue.tools.get(self._step(n).tool)
        running = [self._step(each).tool for each in self.tasks]
        return tool is not None and bool(tool.states) and tool.name in running

    async def _start(self, step: Step) -> Waiting | None:
        if step.state == "stale" and not keeping.why_stale(self.held, step.n):
            self._end(keeping.restored(self.held, step))
            return None
        again = step if step.result is not None else None  # done before: by a person's edit it is done again
        if again:
            step = self.held.doc.planned[step.n]
        tool = self._tool(step) if step.tool else None
        if tool is None or tool.guided:
            return self._start_child(step, again)
        return await self._start_operation(step, tool, again)

    def _tool(self, step: Step) -> Tool:
        """The tool of a step; one whose code does not ship with Fractal is read as it stands now."""
        catalogue = self.held.world.catalogue
        if step.tool not in catalogue.tools or catalogue.tools[step.tool].scheme != "python":
            catalogue.refresh()
        return catalogue.get(step.tool)

    async def _start_operation(self, step: Step, tool: Tool, again: Step | None) -> Waiting | None:
        call = await prepared(self.held, step, tool, again)
        if isinstance(call, Waiting):
            return call
        if isinstance(call, Step):
            self._end(call)
            return None
        self.tasks[step.n] = asyncio.create_task(operate(self.held, call.step, call.tool, call.results))
        await asyncio.sleep(0)  # it stands in §3 before the steps after it, but where it waits for its turn
        return None

    def _start_child(self, step: Step, again: Step | None) -> Waiting | None:
        held = self.held
        step = replace(step, state="running", what=substitute(step.what, Views(held)))
        child_id = child_of(held, step)
        step = replace(step, link=f"{child_id}.md")
        went = keeping.went_before(held, step, again, repeatable_below(held, child_id))
        if isinstance(went, str):
            return Waiting("person", went)
        if went:
            self._end(went)
            return None
        # where its line was lost, the child goes on with a new share
        child = held.world.store.load(child_id) if held.world.store.exists(child_id) else None
        made_from = {**keeping.made_from(held, step.n), **tried(held, step)}
        step = replace(step, evidence={**step.evidence, **made_from})
        unshared = [n for n in self.unmet if self._is_child(n) and n not in self.children]
        asks = sum(not self._is_child(n) and self._step(n).args is None for n in self.unmet)
        step = replace(step, share=share_of(held, step, len(unshared), asks))
        held.put(step)
        self.children.add(step.n)
        child = child.having(budget=dict(step.share or {})) if child else child_document(held, step)
        if again:  # a line without its child would tell of one that has been lost
            held.world.store.commit([Save(child)])
        # the parent's line first, then the child, then the wake
        held.flush(*([] if again else [Save(child)]), wake=(child_id,))
        held.emit("step_started", step=step.n, tool=step.tool or "subtask", args={"task": step.what})
        return None

    def _is_child(self, n: int) -> bool:
        step = self.held.doc.planned[n]
        return not step.tool or self.held.world.catalogue.guided(step.tool)

    # ---- ending ----

    def _collect(self) -> None:
        for n, task in list(self.tasks.items()):
            if task.done():
                del self.tasks[n]
                with self._failing(self._step(n)):
                    self._end(task.result())

    def _fold_children(self) -> None:
        for step in [self._step(n) for n in sorted(self.children)]:
            child_id = step.link.removesuffix(".md")
            try:
                child = self.held.world.store.ended(child_id)
            except DocumentError as error:
                self._unknown(step, f"the child's document is broken: {error}")
                continue
            if child is not None:
                ended = ended_child(self.held, step, child)
                self.held.ledger.settle(step.n, self.held.below(child_id).calls)
                self._end(ended)

    def _end(self, step: Step) -> None:
        """A step has ended: what needs it becomes able, or is struck."""
        self.held.end(step)
        self.children.discard(step.n)
        self.unmet.pop(step.n, None)
        if step.state not in GOOD:
            self._strike_dependents(step.n)
            return
        for n in self.dependents.get(step.n, []):
            if n in self.unmet:
                self.unmet[n].discard(step.n)
                if not self.unmet[n]:
                    self.able.append(n)

    def _strike_dependents(self, n: int) -> None:
        for dependent in self.dependents.get(n, []):
            step = self._step(dependent)
            if dependent in self.unmet and step.state != "running":
                why = f"not run: step {n} {self._state(n)}"
                self._end(replace(step, state="struck", result=why, origin="kernel"))

    def _strike_circle(self) -> None:
        """End what nothing can make able any more: a plan that a person wrote may go round in a circle."""
        for n in list(self.unmet):
            why = "not run: what it needs needs it"
            self._end(replace(self.held.doc.planned[n], state="struck", result=why))

    def _fail(self, step: Step, why: str, *, limit: bool = False) -> None:
        if step.result is not None:  # done before: what failed now is the call as the plan has it
            known = {key: value for key, value in step.evidence.items() if key not in ("was", "limit", "now")}
            planned = self.held.doc.planned[step.n]
            step = replace(planned, link=step.link, share=step.share, evidence=known)
        evidence = {**step.evidence, **keeping.made_from(self.held, step.n)}
        evidence |= {"limit": True} if limit else {}
        self._end(replace(step, state="failed", result=why, origin="kernel", evidence=evidence))

    def _unknown(self, step: Step, why: str) -> None:
        if step.share is not None:  # what its calls cost is known from the log, whatever its document says
            child_id = step.link.removesuffix(".md")
            self.held.ledger.settle(step.n, self.held.below(child_id).calls)
            spent = self.held.world.log.below(child_id).as_dict()
            step = replace(step, evidence={**step.evidence, "spent": spent})
        self._end(replace(step, state="unknown", result=why, origin="kernel"))

    # ---- after an interruption ----

    async def _recover(self) -> Waiting | None:
        """Find out what became of the steps that an earlier process had begun."""
        for n in list(self.unmet):
            step = self.held.doc.steps.get(n)
            if step is None or step.state != "running":
                continue
            if step.share is not None:
                self._recover_child(step)
            elif waiting := await self._recover_operation(step):
                return waiting
        return None

    def _recover_child(self, step: Step) -> None:
        store = self.held.world.store
        child_id = step.link.removesuffix(".md")
        if store.exists(child_id):
            return
        asked, acted = traces(self.held, child_id)
        if acted:  # made again, it would do over again what it did
            self._unknown(step, f"{step.link} is missing, and what it did cannot be told")
            return
        if asked:
            self.held.emit("warning", message=f"{step.link} was missing and is made again from step {step.n}")
        # as a rule it was listed and never written
        self.held.flush(Save(child_document(self.held, step)), wake=(child_id,))

    async def _recover_operation(self, step: Step) -> Waiting | None:
        if (snapshots := self.held.world.snapshots) and "tree_after" not in step.evidence:
            async with snapshots.turn():
                step = await seen_after(self.held, step)  # what it did so far
            self.held.put(step)
        try:
            became = recovered(self.held, step)
        except Exception as error:
            self._unknown(step, f"interrupted, and what became of it cannot be told: {explained(error)}")
            return None
        if isinstance(became, str):
            return Waiting("person", became)
        if keeping.why_stale(self.held, step.n):  # its call was changed meanwhile
            self.held.put(keeping.stale(became) if became.ended else self.held.doc.planned[step.n])
            self._sort_in(step.n, keeping.waits_for(self.held, step.n))
        elif became.ended:
            self._end(became)
        else:
            insort(self.able, step.n)  # before the calls of the same machine that had to wait for it
        return None
