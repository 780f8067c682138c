"""What a person changed between two sessions: the phases and steps it makes stale, where a loop goes on.

What stands in a document now is compared, by value, with what each phase was derived from and each step was
made from. Nothing is guessed from a file's time or form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from kernel import derived, keeping
from kernel.children import below, ended_child, share_of
from kernel.document import ACCEPTED, EMPTY, PHASES, Note, Step
from kernel.ends import finish, heed_answer, what_was_done
from kernel.errors import DocumentError, FractalError, LimitReached
from kernel.operate import adopted
from kernel.steps import GOOD
from kernel.world import Held, World

ORDER = ("understand", "plan", "do", "check")
_WHY = {
    "task": "the task was changed",
    "context": "the context was changed",
    "said": "what was said or found was changed",
    "criteria": "the success criteria were changed",
    "results": "the steps or their results were changed",
    "instructions": "its instructions were changed",
}
_AGAIN = {
    "understand": "UNDERSTAND is done again: ",
    "plan": "PLAN is made anew: ",
    "do": "DO goes on: ",
    "check": "CHECK is done again: ",
}
_KEPT = "a step that is the same call as one done before keeps its result"


@dataclass(frozen=True)
class Stale:
    """One thing that has to be done again, and why; `kept`: that it is not, unless `--redo` says so."""

    loop: str
    phase: str
    why: str
    step: int = 0
    kept: bool = False

    @property
    def reason(self) -> str:
        """Why, with the step that it is about."""
        return f"step {self.step}: {self.why}" if self.step else self.why

    def __str__(self) -> str:
        if self.kept:
            return f"{self.loop}: {self.phase.upper()} is kept although {self.why}; --redo does it again"
        return f"{self.loop}: {'' if self.step else _AGAIN[self.phase]}{self.reason}"


# ---- what is stale ---------------------------------------------------------------------------------------


def find(held: Held, redo: bool) -> list[Stale]:
    """What a person's changes make stale in one document; `redo`: changed instructions as well."""
    found: list[Stale] = []
    for phase in ("understand", "plan", "check"):
        if PHASES[phase] > PHASES[held.doc.meta.phase]:
            break
        found += _phase(held, phase, redo)
        if phase != "check" and any(not each.kept for each in found):
            return found  # what follows from this phase is made anew anyway
    return [*_steps(held), *found, *_answered(held), *_restarted(held)]


def _phase(held: Held, phase: str, redo: bool) -> Iterator[Stale]:
    for name in derived.changed(held, phase):
        if name == "instructions":
            yield Stale(held.id, phase, _WHY[name], kept=not redo)
        elif phase != "understand" or not _task_reworded(held):
            yield Stale(held.id, phase, _WHY[name])


def _task_reworded(held: Held) -> bool:
    """Whether the person has put the resolved task right as well: then UNDERSTAND has nothing to do."""
    return "task" in derived.changed(held, "plan")


def _steps(held: Held) -> Iterator[Stale]:
    if held.doc.meta.phase not in ("do", "check", "output"):
        return
    used = {int(need) for step in held.attempted() for need in step.evidence.get("needed", {})}
    checked = held.doc.note(4, "evidence") is not None
    for n in held.doc.planned:
        step = held.doc.steps.get(n)
        if step is None and (checked or n in used):
            why = "its entry was removed" if n in used else "it was added to the plan"
            yield Stale(held.id, "do", why, n)
        elif step and _keeps_its_call(step):
            if why := keeping.why_stale(held, n):
                yield Stale(held.id, "do", why, n)
        elif step and step.state == "struck" and step.result and step.origin == "kernel":
            if keeping.may_run(held, n):  # and no person struck it
                yield Stale(held.id, "do", "what it needs is done now", n)
        elif step and step.state == "planned" and (checked or step.result is not None):
            yield Stale(held.id, "do", "it was set back to be done again", n)


def _keeps_its_call(step: Step) -> bool:
    """Whether a step has been carried out, will be when a person approves, or is a child at work."""
    at_work = step.share is not None and step.state == "running"
    return at_work or step.state == "waiting" or (step.ended and step.state not in ("struck", "unknown"))


def _answered(held: Held) -> Iterator[Stale]:
    """An answer that a person wrote into the document instead of sending it."""
    waits = held.doc.meta.waiting or {}
    keys = [note.key for note in held.doc.section(1).notes if note.key in ("question", "answer")]
    if waits.get("for") == "person" and keys and keys[-1] == "answer":
        yield Stale(held.id, held.doc.meta.phase, "its question is answered in the document")


def _is_restarted(held: Held) -> bool:
    """Whether the loop had ended, and its status was set back."""
    return held.doc.meta.phase == "output" and not held.doc.ended


def _restarted(held: Held) -> Iterator[Stale]:
    """What a loop that was set back does again: what had not ended well; a child goes on itself."""
    if not _is_restarted(held):
        return
    open_ = [step for step in held.attempted() if step.state not in GOOD]
    phase = "plan" if not held.doc.planned else "do" if open_ else "check"
    yield Stale(held.id, phase, "it had ended, and its status was set back")
    for step in open_:
        if not _has_child(held.world, step):
            yield Stale(held.id, phase, "it had not ended well", step.n)


# ---- going back ------------------------------------------------------------------------------------------


def survey(world: World, loop_id: str, *, redo: bool = False) -> list[Stale]:
    """Find what is stale in a loop and below it, and set each loop back to where it goes on from.

    A child that goes on makes its parent go on. Raises `DocumentError` for the loop itself.
    """
    held = Held(world, world.store.load(loop_id))
    found = find(held, redo)
    back = [each for each in found if not each.kept]
    if not any(each.phase in ("understand", "plan") for each in back):
        own = {each.step for each in back}
        reopened: list[Step] = []
        for step in held.attempted():
            if step.n in own or not _has_child(world, step):
                continue
            with suppress(DocumentError):  # a broken child is its parent's to report
                if _is_restarted(held) and _restarts(world, step):
                    _reopen(held, step, status="ready")  # first, as the loops below it get parts of its share
                found += survey(world, _child(step), redo=redo)
                if _goes_on(world, step):
                    back.append(Stale(loop_id, "do", "its loop goes on", step.n))
                    if held.doc.steps[step.n].ended:
                        reopened.append(step)
        for number, step in enumerate(reopened):
            _reopen(held, step, {*own, *(each.n for each in reopened[number:])})
    if back:
        _set_back(held, back)
    return found


def _child(step: Step) -> str:
    return step.link.removesuffix(".md")


def _has_child(world: World, step: Step) -> bool:
    return step.share is not None and bool(step.link) and world.store.exists(_child(step))


def _restarts(world: World, step: Step) -> bool:
    """Whether the child of a loop that was set back is set back as well: where it had not ended well."""
    child = world.store.load(_child(step))
    return child.ended and child.meta.status not in ACCEPTED and step.state not in GOOD


def _goes_on(world: World, step: Step) -> bool:
    return step.ended and not world.store.load(_child(step)).ended


def _reopen(held: Held, step: Step, also: Iterable[int] = (), **meta: str) -> None:
    """A child that had ended goes on: its share is open again, with what is left on top of what it spent.

    What is left is for all that have to be started, `also` for these.
    """
    evidence = {key: value for key, value in step.evidence.items() if key == "needed"}
    parts = [each for each in held.attempted() if not each.tool or held.world.catalogue.guided(each.tool)]
    open_ = [
        each
        for each in parts
        if each.n in also or (each.state not in GOOD and (each.share is None or each.over))
    ]
    try:
        share = share_of(held, step, len({step.n, *(each.n for each in open_)}))
    except LimitReached:
        share = {**(step.share or {}), "calls": held.below(_child(step)).calls}  # it ends at its first call
    held.put(replace(step, state="running", share=share, result=None, origin="kernel", evidence=evidence))
    child = Held(held.world, held.world.store.load(_child(step)))
    child.meta(budget=share, **meta)
    child.save()


def _set_back(held: Held, back: list[Stale]) -> None:
    phase = min((each.phase for each in back), key=ORDER.index)
    why = "; ".join(dict.fromkeys(each.reason for each in back))
    before = ORDER[: ORDER.index(phase)]
    kept = {name: value for name, value in held.doc.meta.derived.items() if name in before}
    if phase in ("understand", "plan"):
        _plan_anew(held, phase, why)
    else:
        _do_again(held, {each.step for each in back if each.step})
        for section in (4, 5):
            held.doc = held.doc.with_section(section, EMPTY)
    held.meta(phase=phase, status="running", waiting=None, unverified=False, derived=kept)
    if phase == "plan":
        heed_answer(held)
    held.save()


def _plan_anew(held: Held, phase: str, why: str) -> None:
    """Give the plan up: what is open of it is ended, what has ended may be taken over by the next one."""
    held.doc = held.doc.with_section(5, EMPTY)
    kept = [step.n for step in held.attempted() if step.state in GOOD]
    if held.doc.section(2).notes:
        for step in held.attempted():
            if step.n in held.doc.steps and not step.over:
                held.put(_given_up(held, step))
        held.fold("edited", Note("learned", f"by a person's edit: {why}; {_KEPT}"), *what_was_done(held))
        held.meta(extra={**held.doc.meta.extra, "kept": kept})
    if phase == "understand":
        first = held.doc.section(1)
        yielded = ("resolved task", "fact", "open")
        said = held.doc.text(1, "answer")  # it may have become the resolved task, of the task as it was
        mine = [n for n in first.notes if n.key not in yielded or (n.origin == "person" and n.text != said)]
        held.doc = held.doc.with_section(1, replace(first, notes=tuple(mine)))
    held.meta(taker="")


def _given_up(held: Held, step: Step) -> Step:
    why = "given up: the plan was changed by a person"
    if step.share is not None and held.world.store.exists(_child(step)):
        for loop_id in reversed(below(held, _child(step))):
            with suppress(FractalError):
                child = Held(held.world, held.world.store.load(loop_id))
                if not child.doc.ended:
                    finish(child, "cancelled", error=why)
        with suppress(DocumentError):
            return ended_child(held, step, held.world.store.load(_child(step)))
    if step.state == "running" and step.share is None:
        with suppress(FractalError):
            if ended := adopted(held, step):
                return ended
    state = "unknown" if step.state == "running" else "struck"
    return replace(step, state=state, result=why, origin="kernel")


def _do_again(held: Held, stale: set[int]) -> None:
    """Mark what may have to be done again; what was struck for want of it gets another chance."""
    for n in keeping.downstream(held, stale):
        step = held.doc.steps.get(n)
        if step is None or (not step.ended and n not in stale):
            continue
        if step.state == "running" and step.share is not None and keeping.why_stale(held, n):
            held.put(keeping.stale(_given_up(held, step)))
        elif step.state == "waiting":  # what was to be approved is another call now
            held.put(held.doc.planned[n])
        elif not step.ended:
            continue
        elif step.state == "unknown" and step.share is None:
            # it may have happened: that is looked at first
            held.put(replace(step, state="running", result=None))
        elif step.state in ("struck", "unknown") or (step.state == "failed" and n in stale):
            held.put(held.doc.planned[n])
        else:
            held.put(keeping.stale(step))
