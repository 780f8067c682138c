"""Detects a person's edits between two sessions: which phases and steps are stale, where a loop continues.

The present content of a document is compared by value with the recorded inputs of each phase and step.
File times and formatting do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from kernel.asking.conversation import CANNOT, last_turn, notes_of, said_in, turn_of
from kernel.asking.forms import FORMS
from kernel.asking.prompt import NOT_YET, found_by_itself
from kernel.document.escaping import fingerprint
from kernel.document.markdown import render
from kernel.document.model import ACCEPTED, EMPTY, PHASES, Document, Note, Step
from kernel.errors import DocumentError, FractalError, LimitReached
from kernel.loop import reuse
from kernel.loop.child import ended_child, share_of, subtree
from kernel.loop.end import attempt_notes, finish
from kernel.loop.operation import recorded_outcome
from kernel.loop.run_context import RunContext, Session
from runtime.workspace.answering import use_answer
from runtime.workspace.hand_edits import as_left, changed_call, edited_at, plan_written, without_effect
from runtime.workspace.turns import (
    CRITERIA,
    decides_by_turns,
    edited_turn,
    first_said,
    rewritten_turn,
    standing_note,
    turn_that_heard,
    until,
    with_criteria_by_person,
    with_what_is_said,
)

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
_WRITTEN = "the plan was changed by hand: it is used as it stands"
_KEPT = "a step that is the same call as one done before keeps its result"


@dataclass(frozen=True)
class Stale:
    """One thing that has to be done again, and why; `kept`: that it is not, unless `--redo` says so."""

    loop: str
    phase: str
    why: str
    step: int = 0
    kept: bool = False
    turn: int | None = None
    """The turn of which something was changed: those after it are asked again."""

    @property
    def reason(self) -> str:
        """Why, with the step that it is about."""
        return f"step {self.step}: {self.why}" if self.step else self.why

    def __str__(self) -> str:
        if self.kept:
            return f"{self.loop}: {self.phase.upper()} is kept although {self.why}; --redo does it again"
        return f"{self.loop}: {'' if self.step else _AGAIN[self.phase]}{self.reason}"


def find(session: Session, redo: bool) -> list[Stale]:
    """What a person's changes make stale in one document; `redo`: changed instructions as well.

    A plan that a person has changed is used for whatever task and answers are there now.
    """
    before = as_left(session.run.store, session.doc)
    _restore_calls(session, before)
    instead = decides_by_turns(session.doc) and _plan_instead(before, session.doc)
    by_turns = decides_by_turns(session.doc) and not instead
    if by_turns:
        _place_calls(session, before)
    written = plan_written(before, session.doc)
    if by_turns:
        written = rewritten_turn(before, session.doc) is not None
    stale: list[Stale] = []
    for phase in ("understand", "plan", "check"):
        if PHASES[phase] > PHASES[session.doc.meta.phase]:
            break
        found = [*_phase(session, phase, redo)]
        if by_turns and phase == "plan":
            found = [
                each for each in found if each.why != _WHY["said"] or not _heard_in_turns(session, before)
            ]
        if by_turns and phase == "check":
            found = [replace(each, phase="do") for each in found]
        if phase == "understand" and not found and _offered(before) != _offered(session.doc):
            found = [Stale(session.id, phase, _WHY["context"])]
        if written and phase != "check":
            ours = (replace(each, phase="do", why=f"{each.why}, and {_WRITTEN}") for each in found)
            found = [each for each in ours if not each.kept]
        stale += found
        if any(each.phase in ("understand", "plan") and not each.kept for each in found):
            return stale  # later results are redone anyway
    turns = [*_turns(session, before)] if by_turns else []
    cut = rewritten_turn(before, session.doc)
    if cut is None:
        cut = min((each.turn for each in turns if each.turn is not None), default=None)
    steps = [each for each in _steps(session) if cut is None or _turn(session, each.step) <= cut]
    stale = [*steps, *turns, *stale, *_answered(session), *_restarted(session)]
    unplanned = instead or session.doc.meta.phase in ("understand", "plan")
    if written and (unplanned or session.doc.ended) and all(each.kept for each in stale):
        stale.append(Stale(session.id, "do", _WRITTEN))
    return stale


def _plan_instead(before: Document, now: Document) -> bool:
    """Whether a person has written a plan where no call was planned."""
    return not before.planned and any(not turn_of(step) for step in now.planned.values())


def _place_calls(session: Session, before: Document) -> None:
    """Calls that a person has added to §2 are calls of the last turn."""
    last, section = last_turn(before), session.doc.section(2)
    added = [step for n, step in section.steps.items() if n not in before.planned and not turn_of(step)]
    steps = {step.n: replace(step, evidence={**step.evidence, "turn": last}) for step in added if last}
    if steps:
        session.doc = session.doc.with_section(2, replace(section, steps={**section.steps, **steps}))


def _heard_in_turns(session: Session, before: Document) -> bool:
    """Whether all that was said anew, or changed, came after the first message of the conversation."""
    said = first_said(before, session.doc)
    return said is not None and turn_that_heard(before, said) > 0


def _turns(session: Session, before: Document) -> Iterator[Stale]:
    """The turn of which a person has changed a call, a result, a text, or what was said after it."""
    said = first_said(before, session.doc)
    if said is not None and (turn := turn_that_heard(before, said)):
        yield Stale(session.id, "do", _WHY["said"], turn=turn)
    turn = edited_turn(before, session.doc)
    if turn is not None:
        later = "; the turns after it are asked again" if last_turn(session.doc) > turn else ""
        yield Stale(session.id, "do", f"turn {turn} was changed{later}", turn=turn)


def _turn(session: Session, step: int) -> int:
    """The turn of a step; that of the last one if a person has added it."""
    planned = session.doc.planned.get(step)
    return turn_of(planned) if planned else 0


def _offered(document: Document) -> list[str]:
    """The context that the run found by itself, once UNDERSTAND has read it."""
    if not document.meta.derived.get("understand"):
        return []
    notes = document.section(1).notes
    return [note.text for note in notes if note.key == "context" and found_by_itself(note.source)]


def _restore_calls(session: Session, before: Document) -> None:
    """Restore the calls in §3 as they were made: only a change in §2 changes what is called."""
    for n, step in before.steps.items():
        if (now := session.doc.steps.get(n)) and changed_call(step, now):
            made = replace(now, tool=step.tool, args=step.args, what=step.what, whole=step.whole)
            session.doc = session.doc.with_step(made)


def _phase(session: Session, phase: str, redo: bool) -> Iterator[Stale]:
    for name in _changed_inputs(session, phase):
        if name == "instructions":
            yield Stale(session.id, phase, _WHY[name], kept=not redo)
        elif phase != "understand" or not _task_reworded(session):
            yield Stale(session.id, phase, _WHY[name])


def _task_reworded(session: Session) -> bool:
    """Whether the person has put the resolved task right as well: then UNDERSTAND has nothing to do."""
    resolved = session.doc.note(1, "resolved task") is not None
    return resolved and "task" in _changed_inputs(session, "plan")


def _steps(session: Session) -> Iterator[Stale]:
    if session.doc.meta.phase not in ("do", "check", "output"):
        return
    used = {int(need) for step in session.doc.attempted for need in step.evidence.get("needed", {})}
    checked = session.doc.note(4, "evidence") is not None
    redone: set[int] = set()
    for n in session.doc.planned:
        step = session.doc.steps.get(n)
        if step is None and (checked or n in used):
            why = "its entry was removed" if n in used else "it was added to the plan"
            yield Stale(session.id, "do", why, n)
        elif step and _keeps_its_call(step):
            why = reuse.why_stale(session, n)
            if turn_of(step) and why and why == reuse.changed_input(session, step):
                # in a turn, a call comes after another one, but was not decided from its result
                why = why if any(str(need) in step.evidence["needed"] for need in redone) else ""
            if why:
                redone.add(n)
                yield Stale(session.id, "do", why, n)
        elif step and step.state == "struck" and step.result and step.origin == "kernel":
            if _needs_met(session, n):  # and no person struck it
                yield Stale(session.id, "do", "what it needs is done now", n)
        elif step and step.state == "planned" and (checked or step.result is not None):
            yield Stale(session.id, "do", "it was set back to be done again", n)


def _keeps_its_call(step: Step) -> bool:
    """Whether a step has been carried out, will be when a person approves, or is a child at work."""
    at_work = step.share is not None and step.state == "running"
    return at_work or step.state == "waiting" or (step.ended and step.state not in ("struck", "unknown"))


def _answered(session: Session) -> Iterator[Stale]:
    """An answer that a person wrote into the document instead of sending it."""
    waits = session.doc.meta.waiting or {}
    keys = [note.key for note in session.doc.section(1).notes if note.key in ("question", "answer")]
    if waits.get("for") == "person" and keys and keys[-1] == "answer":
        yield Stale(session.id, session.doc.meta.phase, "its question is answered in the document")


def _is_restarted(session: Session) -> bool:
    """Whether the loop had ended and its status was reset."""
    return session.doc.meta.phase == "output" and not session.doc.ended


def _restarted(session: Session) -> Iterator[Stale]:
    """The failed steps that a restarted loop redoes; a child loop continues by itself."""
    if not _is_restarted(session):
        return
    open_ = [step for step in session.doc.attempted if not step.succeeded]
    phase = "plan" if not session.doc.planned else "do" if open_ else "check"
    if decides_by_turns(session.doc) and (last := last_turn(session.doc)):
        # a failed call is a result, which the next turn sees; a turn that gave up is asked again
        open_ = [each for each in open_ if turn_of(each) == last and not _was_made(each)]
        gave_up = CANNOT in notes_of(session.doc, last)
        phase = "plan" if gave_up and last == 1 and not session.doc.planned else "do"
        turn = last - 1 if gave_up and phase == "do" else last
        yield Stale(session.id, phase, "it had ended, and its status was set back", turn=turn)
    else:
        yield Stale(session.id, phase, "it had ended, and its status was set back")
    for step in open_:
        if not _has_child(session.run, step):
            yield Stale(session.id, phase, "it had not ended well", step.n)


def _was_made(step: Step) -> bool:
    """Whether a failed step is a call that was made: no limit and no interruption kept it from that."""
    return step.state == "failed" and not step.evidence.get("limit")


def survey(run_context: RunContext, loop_id: str, *, redo: bool = False) -> list[Stale]:
    """Find what is stale in a loop and below it, and reset each loop to where it continues.

    A child that continues makes its parent continue. Raises `DocumentError` for the loop itself.
    """
    session = Session(run_context, run_context.store.load(loop_id))
    edited = session.doc
    before = as_left(run_context.store, edited)
    stale = find(session, redo)
    for id, step in _edited_records(session):
        why = f"the change of {id}.md has no effect: it records what was done; change step {step.n} in §3"
        run_context.warn(f"{why} of {loop_id}.md", loop_id)
    results: list[Session] = []
    if not any(each.phase in ("understand", "plan") and not each.kept for each in stale):
        stale += _survey_children(session, before, stale, results, redo=redo)
    back = [each for each in stale if not each.kept and each.loop == loop_id]
    instead = _plan_instead(before, edited)
    if not instead and decides_by_turns(edited) and any(each.phase == "do" for each in back):
        _go_back(session, before, back)
    elif any(each.phase == "do" for each in back) and plan_written(before, edited):
        _accept_plan(session, before)
        if instead and decides_by_turns(edited):
            _as_planned(session)
    if back:
        _reset(session, back)
    if refused := [*without_effect(before, edited, session.doc)]:
        kept = run_context.store.shelve(f"{loop_id}.edited-{edited.meta.rev}.txt", _text(edited))
        for place, instead in refused:
            why = f"{loop_id}.md: the change of {place} has no effect; {instead}. Your version: {kept}"
            run_context.warn(why, loop_id)
    if refused or session.doc != edited:
        session.save()
    for child in results:  # after the parent, which has the result now
        child.save()
    return stale


def _edited_records(session: Session) -> Iterator[tuple[str, Step]]:
    """The documents of single operations that a person has edited, and the step of each."""
    store = session.run.store
    for step in session.doc.steps.values():
        if step.link and step.share is None and edited_at(store, step.child):
            try:
                record = store.load(step.child)
            except DocumentError:
                yield step.child, step
                continue
            if (step.result or "") not in (record.text(5, "result"), record.text(5, "error")):
                yield step.child, step


def _text(document: Document) -> str:
    return render(document, document.meta.rev).decode("utf-8", "surrogatepass")


def _survey_children(
    session: Session, before: Document, own_stale: list[Stale], results: list[Session], *, redo: bool
) -> list[Stale]:
    """Survey the children: one that continues makes this loop continue.

    The result that a person has written into an ended child becomes that of its step; such children are
    added to `results`.
    """
    stale: list[Stale] = []
    own = {each.step for each in own_stale if not each.kept}
    cut = min((each.turn for each in own_stale if each.turn is not None), default=None)
    reopened: list[Step] = []
    for step in session.doc.attempted:
        if step.n in own or not _has_child(session.run, step):
            continue
        if cut is not None and rewritten_turn(before, session.doc) is None and turn_of(step) > cut:
            continue  # what it was given for is asked again
        try:
            if _is_restarted(session) and _restarts(session.run, step):
                # first, as the loops below it get parts of its share
                _reopen(session, step, status="ready")
            written = _written_result(session, step)
            stale += survey(session.run, step.child, redo=redo)
            if _continues(session.run, step):
                stale.append(Stale(session.id, "do", "its loop goes on", step.n))
                if session.doc.steps[step.n].ended:
                    reopened.append(step)
            elif written:
                session.put(written)
                results.append(Session(session.run, session.run.store.load(step.child)))
        except DocumentError as error:
            if step.ended:  # of one that has not ended, its parent's next step reports it
                session.run.warn(f"{error}; until then the result of step {step.n} stays", session.id)
    for number, step in enumerate(reopened):
        _reopen(session, step, {*own, *(each.n for each in reopened[number:])})
    if results:
        known = {(each.phase, each.step) for each in (*own_stale, *stale)}
        stale += [each for each in find(session, redo) if (each.phase, each.step) not in known]
    return stale


def _written_result(session: Session, step: Step) -> Step | None:
    """The step with the result that a person has written into §5 of its ended child; None without one."""
    child = session.run.store.load(step.child)
    if not (step.ended and child.ended) or as_left(session.run.store, child).section(5) == child.section(5):
        return None
    return ended_child(session, step, child)


def _accept_plan(session: Session, before: Document) -> None:
    """Accept a person's plan for what §1 says now."""
    section = session.doc.section(1)
    if before.text(1, "task") != session.doc.text(1, "task") and before.task == session.doc.task:
        notes = [each for each in section.notes if each.key != "resolved task"]
        session.doc = session.doc.with_section(1, replace(section, notes=tuple(notes)))
    reuse.accept_inputs(session, "understand", "plan")


def _has_child(run_context: RunContext, step: Step) -> bool:
    return step.share is not None and bool(step.link) and run_context.store.exists(step.child)


def _restarts(run_context: RunContext, step: Step) -> bool:
    """Whether the child of a restarted loop is restarted too, which is so if it failed."""
    child = run_context.store.load(step.child)
    return child.ended and child.meta.status not in ACCEPTED and not step.succeeded


def _continues(run_context: RunContext, step: Step) -> bool:
    return step.ended and not run_context.store.load(step.child).ended


def _reopen(session: Session, step: Step, also: Iterable[int] = (), **meta: str) -> None:
    """Reopen an ended child: its new share is what it spent plus its part of what is left.

    What is left is shared by all steps to start, including `also`.
    """
    evidence = {key: value for key, value in step.evidence.items() if key == "needed"}
    parts = [
        each for each in session.doc.attempted if not each.tool or session.run.catalogue.guided(each.tool)
    ]
    starts = {each.n for each in parts if not each.succeeded and (each.share is None or each.over)}
    try:
        share = share_of(session, step, len({step.n, *starts, *(each.n for each in parts if each.n in also)}))
    except LimitReached:  # it ends at its first call
        share = {**(step.share or {}), "calls": session.spent_by(step.child).calls}
    session.put(replace(step, state="running", share=share, result=None, origin="kernel", evidence=evidence))
    child = Session(session.run, session.run.store.load(step.child))
    child.meta(budget=share, **meta)
    child.save()


def _reset(session: Session, back: list[Stale]) -> None:
    phase = min((each.phase for each in back), key=ORDER.index)
    if phase == "check" and decides_by_turns(session.doc):
        phase = "do"  # where the last answer is concluded
    why = "; ".join(dict.fromkeys(each.reason for each in back))
    before = ORDER[: ORDER.index(phase)]
    derived = {name: value for name, value in session.doc.meta.derived.items() if name in before}
    if phase in ("understand", "plan"):
        _replan(session, phase, why)
    else:
        _mark_stale(session, {each.step for each in back if each.step in session.doc.planned})
        for section in (4, 5):
            session.doc = session.doc.with_section(section, EMPTY)
    session.meta(phase=phase, status="running", waiting=None, unverified=False, derived=derived)
    if phase == "plan":
        use_answer(session)
    session.save()


def _go_back(session: Session, before: Document, back: list[Stale]) -> None:
    """Go back to the first turn of which something has changed. The later ones are asked again."""
    steps = {each.step for each in back if each.step}
    turns = [each.turn for each in back if each.turn is not None]
    turn = min([last_turn(session.doc), *turns, *(_turn(session, n) for n in steps)])
    if (written := rewritten_turn(before, session.doc)) is not None:
        turn = written  # the calls that a person has written are used, whatever was said before them
        _accept_plan(session, before)
    for step in session.doc.attempted:
        if turn_of(step) > turn and step.n in session.doc.steps and not step.over:
            session.put(_give_up(session, step))
    if before.text(2, CRITERIA) != session.doc.text(2, CRITERIA):
        session.doc = with_criteria_by_person(session.doc)
    old, said = session.doc, first_said(before, session.doc)
    if [each.key for each in said_in(before)] == [each.key for each in said_in(old)]:
        session.doc, said = with_what_is_said(old), None
    again = edited_turn(before, old) == turn or any(_turn(session, n) == turn for n in steps)
    session.doc = until(session.doc, turn, said=said, again=again)
    dropped = [old.steps[n] for n in old.planned if n in old.steps and n not in session.doc.planned]
    made = {step.n: step for step in dropped if step.succeeded and not _is_a_look(session, step)}
    if turn and (note := standing_note(made, turn)):
        session.doc = session.doc.with_notes(3, note)
    kept = [*session.doc.meta.extra.get("kept", ()), *made]
    session.meta(extra={**session.doc.meta.extra, **({"kept": kept} if kept else {})})
    reuse.accept_inputs(session, "plan", only=("said",))
    if not turn:
        _as_planned(session)


def _is_a_look(session: Session, step: Step) -> bool:
    """Whether a step changed nothing: made again, the call shows how things are now."""
    tool = session.catalogue.tools.get(step.tool)
    return step.tool == "use" or (tool is not None and not tool.guided and tool.repeatable(step.args or {}))


def _as_planned(session: Session) -> None:
    """Do the steps that are planned as a plan, before any turn is asked for."""
    session.doc = until(session.doc, 0)
    for number, key in ((2, "work"), (3, NOT_YET)):
        section = session.doc.section(number)
        notes = tuple(note for note in section.notes if note.key != key)
        session.doc = session.doc.with_section(number, replace(section, notes=notes))


def _replan(session: Session, phase: str, why: str) -> None:
    """Drop the plan: end its open steps; the next plan may reuse finished ones."""
    session.doc = session.doc.with_section(5, EMPTY)
    kept_steps = [step.n for step in session.doc.attempted if step.succeeded]
    if session.doc.section(2).notes:
        for step in session.doc.attempted:
            if step.n in session.doc.steps and not step.over:
                session.put(_give_up(session, step))
        session.fold(
            "edited", Note("learned", f"by a person's edit: {why}; {_KEPT}"), *attempt_notes(session)
        )
        session.meta(extra={**session.doc.meta.extra, "kept": kept_steps})
    if phase == "understand":
        first = session.doc.section(1)
        yielded = ("resolved task", "fact", "open")
        answer = session.doc.text(1, "answer")  # it may have become the resolved task, of the task as it was
        own = [n for n in first.notes if n.key not in yielded or (n.origin == "person" and n.text != answer)]
        session.doc = session.doc.with_section(1, replace(first, notes=tuple(own)))
    session.meta(taker="")


def _give_up(session: Session, step: Step) -> Step:
    why = "given up: the plan was changed by a person"
    if step.share is not None and session.run.store.exists(step.child):
        for loop_id in reversed(subtree(session, step.child)):
            with suppress(FractalError):
                child = Session(session.run, session.run.store.load(loop_id))
                if not child.doc.ended:
                    finish(child, "cancelled", error=why)
        with suppress(DocumentError):
            return ended_child(session, step, session.run.store.load(step.child))
    if step.state == "running" and step.share is None:
        with suppress(FractalError):
            if ended := recorded_outcome(session, step):
                return ended
    state = "unknown" if step.state == "running" else "struck"
    return replace(step, state=state, result=why, origin="kernel")


def _mark_stale(session: Session, stale: set[int]) -> None:
    """Mark steps that may have to be redone, and steps that were skipped because of them."""
    for n in reuse.downstream(session, stale):
        step = session.doc.steps.get(n)
        if step is None or (not step.ended and n not in stale):
            continue
        if step.state == "running" and step.share is not None and reuse.why_stale(session, n):
            session.put(reuse.marked_stale(_give_up(session, step)))
        elif step.state == "waiting":  # the call to approve has changed
            session.put(session.doc.planned[n])
        elif not step.ended:
            continue
        elif step.state == "unknown" and step.share is None:
            # it may have happened: that is looked at first
            session.put(replace(step, state="running", result=None))
        elif step.state in ("struck", "unknown") or (step.state == "failed" and n in stale):
            session.put(session.doc.planned[n])
        else:
            session.put(reuse.marked_stale(step))


def _changed_inputs(session: Session, phase: str) -> list[str]:
    """The names of the inputs of a phase that have changed since; empty if none are recorded."""
    recorded = session.doc.meta.derived.get(phase)
    if not isinstance(recorded, dict):
        return []
    found = [
        name
        for name, value in reuse.inputs(session, phase).items()
        if name in recorded and recorded[name] != fingerprint(value)
    ]
    read, _, hashed = str(recorded.get("instructions", "")).partition(":")  # type: ignore[arg-type]
    if read not in FORMS:  # none, or those of a phase of an earlier version
        return found
    return [*found, "instructions"] if hashed != reuse.instructions_hash(session, read) else found


def _needs_met(session: Session, n: int) -> bool:
    """Whether all needed steps have succeeded."""
    steps = [session.doc.steps.get(need) for need in reuse.needs_of(session.doc.planned[n])]
    return all(step is not None and step.succeeded for step in steps)
