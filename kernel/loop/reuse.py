"""Which finished steps keep their results, and which calls are not made again, after an edit or a crash.

Fingerprints of the inputs of each phase and step decide it. Inputs are compared by value with the current
document, which a person may have edited between two sessions. A step that may have to be repeated is `stale`
until the steps that it needs have ended. `recover_call` in `operation.py` decides about a call that was in
progress when the process was killed; a model's reply is taken from the log by its key (`ask.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kernel.asking.prompt import base, form, found_by_itself, instructions
from kernel.document.escaping import fingerprint
from kernel.document.model import Document, Step
from kernel.document.references import references
from kernel.errors import DocumentError, OperationFailed
from kernel.loop.child import subtree
from kernel.loop.operation import assume_command, operation_id, recorded_outcome, undo_call, with_state
from kernel.loop.run_context import Session
from kernel.tools.state_machine import machine_state
from kernel.tools.tool import CHANGING

_SAID = ("fact", "answer", "guidance", "open")


def record_inputs(session: Session, phase: str, read: str = "") -> None:
    """Record the hashes of a phase's inputs; `read` names the instructions that a model has read."""
    hashes: dict[str, Any] = {name: fingerprint(value) for name, value in inputs(session, phase).items()}
    if read:
        hashes["instructions"] = f"{read}:{instructions_hash(session, read)}"
    session.meta(derived={**session.doc.meta.derived, phase: hashes})


def accept_notes(session: Session) -> None:
    """Accept the current notes as inputs of the existing plan, so that they do not make it stale."""
    accept_inputs(session, "plan", only=("said",))


def accept_inputs(session: Session, *phases: str, only: Iterable[str] = ("task", "context", "said")) -> None:
    """Accept what §1 says now as inputs of these phases, as far as they were recorded."""
    derived = dict(session.doc.meta.derived)
    for phase in phases:
        if recorded := derived.get(phase):
            now = {name: fingerprint(value) for name, value in inputs(session, phase).items()}
            derived[phase] = {**recorded, **{name: now[name] for name in only if name in now}}
    session.meta(derived=derived)


def inputs(session: Session, phase: str) -> dict[str, Any]:
    """What a phase is made from, by name."""
    doc = session.doc
    if phase == "understand":
        return {"task": doc.text(1, "task"), "context": _notes(doc, "context")}
    if phase == "plan":
        return {"task": doc.task, "said": _notes(doc, *_SAID)}
    steps = [[step.n, step.state, outcome_hash(session, step.n)] for step in session.doc.attempted]
    return {"criteria": doc.text(2, "success criteria"), "results": steps}


def _notes(document: Document, *keys: str) -> list[list[str]]:
    """The key and text of these notes of §1, without context that the run found itself."""
    notes = document.section(1).notes
    return [[note.key, note.text] for note in notes if note.key in keys and not found_by_itself(note.source)]


def instructions_hash(session: Session, read: str) -> str:
    """The hash of the instructions that a model has read."""
    return fingerprint([part(session.doc, read, session.catalogue) for part in (instructions, base, form)])


PER_EXECUTION = ("needed", "was", "spent", "limit", "tree_before", "tree_after", "files", "deleted", "undone")
"""Evidence of one execution of a step that does not belong to its result."""


def needs_of(step: Step) -> set[int]:
    """The steps that a planned step needs, by `needs` and by references."""
    return {*step.needs, *references([step.args, step.what])}


def outcome_hash(session: Session, n: int) -> str:
    """A fingerprint of a step's outcome: its result, changed files, and its call if that changes anything."""
    step = session.doc.steps.get(n)
    if step is None:
        return ""
    value: list[Any] = [step.result or "", step.evidence.get("sha", "")]
    value += [[each["path"], each.get("after")] for each in step.evidence.get("touched", ())]
    tool = session.catalogue.tools.get(step.tool)
    # not by its arguments: the hash is recorded, and stays that of earlier versions
    if tool is None or tool.guided or CHANGING & set(tool.effects):
        value.append([dict(step.args or {}), step.what])
    return fingerprint(value)[:8]


def recorded_inputs(session: Session, n: int) -> dict[str, Any]:
    """The evidence of a step's inputs: the products of the steps that it needs."""
    needs = sorted(needs_of(session.doc.planned[n]) | _previous_call(session, n))
    return {"needed": {str(need): outcome_hash(session, need) for need in needs}} if needs else {}


def _previous_call(session: Session, n: int) -> set[int]:
    """The previous call of the same state machine, even if the plan does not name it in `needs`."""
    tool = session.catalogue.tools.get(session.doc.planned[n].tool)
    if tool is None or tool.states is None:
        return set()
    others = [step for step in session.doc.steps.values() if step.n != n]
    return {machine_state(tool.states, tool.name, others).step} - {0}


def waits_for(session: Session, n: int) -> set[int]:
    """The steps that must end before this one starts; for a stale step also its recorded inputs."""
    needs = needs_of(session.doc.planned[n])
    step = session.doc.steps.get(n)
    if step is None or step.state != "stale":
        return needs
    after = {int(need) for need in step.evidence.get("needed", {})} & session.doc.planned.keys()
    return needs | (after - downstream(session, {n}, planned=True))


def why_stale(session: Session, n: int) -> str:
    """Why an ended step cannot keep its result; "" if it can."""
    planned, step = session.doc.planned[n], session.doc.steps[n]
    if planned.tool != step.tool:
        return f"it was a call of {step.tool or 'a subtask'}, and is one of {planned.tool or 'a subtask'}"
    tool = session.catalogue.tools.get(planned.tool)
    if tool is None or tool.guided or planned.args is None:
        if step.what not in (planned.what, _filled(session, planned.what)):
            return "what it is to do was changed"
    elif dict(step.args or {}) != dict(planned.args):
        filled: dict[str, Any] | None = _filled(session, dict(planned.args))
        if filled is not None and dict(step.args or {}) != tool.typed(filled):
            references_ = bool(references(dict(planned.args)))
            return "a result in its arguments was changed" if references_ else "its arguments were changed"
    return changed_input(session, step)


def changed_input(session: Session, step: Step) -> str:
    """Which needed step has a different outcome now; "" if none has."""
    for need, seen in step.evidence.get("needed", {}).items():
        if int(need) in session.doc.steps and outcome_hash(session, int(need)) != seen:
            return f"step {need}, which it needs, came to something else"
    return ""


def _filled(session: Session, value: Any) -> Any:
    """A value with its references filled in; None if that fails, which the start of the step reports."""
    try:
        return session.filled(value, exact=not isinstance(value, str))
    except (OperationFailed, DocumentError):
        return None


def marked_stale(step: Step) -> Step:
    """The step while it is unknown whether it keeps its result."""
    return replace(step, state="stale", evidence={**step.evidence, "was": step.state})


def restored(session: Session, step: Step) -> Step:
    """A stale step that keeps its result."""
    evidence = {key: value for key, value in step.evidence.items() if key != "was"}
    return replace(
        step, state=step.evidence["was"], evidence={**evidence, **recorded_inputs(session, step.n)}
    )


def downstream(session: Session, first: Iterable[int], *, planned: bool = False) -> set[int]:
    """These steps of the plan and all that depend on them, directly or not.

    Calls of a state machine depend on earlier ones, unless only the `planned` needs count.
    """
    needs = {n: needs_of(step) for n, step in session.doc.planned.items()}
    if not planned:
        for n in needs.keys() & session.doc.steps.keys():
            needs[n] |= {int(need) for need in session.doc.steps[n].evidence.get("needed", {})}
    found, more = set(first), {0}
    while more:
        more = {n for n in needs.keys() - found if needs[n] & found}
        found |= more
    return found


def same_call(session: Session, step: Step) -> Step | None:
    """The step of the plan before a person's edit that made the same call."""
    for n in session.doc.meta.extra.get("kept", ()):
        old = session.doc.steps.get(int(n))
        same = old and (old.what == step.what if old.share else old.args == step.args)
        if old and same and old.tool == step.tool:
            return old
    return None


def reused(session: Session, step: Step, old: Step) -> Step:
    """A step with the result of the same call in the plan before the edit."""
    evidence = {key: value for key, value in old.evidence.items() if key not in PER_EXECUTION}
    evidence |= {"same as": old.n, **recorded_inputs(session, step.n)}
    taken = replace(
        step, state=old.state, result=old.result, origin=old.origin, link=old.link, evidence=evidence
    )
    return with_state(session, taken, evidence.get("state", {}).get("kept"))


def same_inputs(session: Session, step: Step, old: Step) -> bool:
    """Whether two steps have equal inputs, whatever the numbers of the needed steps."""
    now: Mapping[str, str] = recorded_inputs(session, step.n).get("needed", {})
    return sorted(now.values()) == sorted(old.evidence.get("needed", {}).values())


# ---- calls that were made before -------------------------------------------------------------------------


def earlier_outcome(session: Session, step: Step, again: Step | None, repeatable: bool) -> Step | str | None:
    """The ended step if the same call was made before, or a question if it must not be made twice.

    None: the call is to be made, and a document in its place has been put aside. `step` has its references
    filled in, and a child its link. `again` is the entry in §3 of a step that is repeated.
    """
    if again is not None:
        return _repeat(session, step, again, repeatable)
    if same := same_call(session, step):
        assume = session.run.policy.assumed(session.id, step.n)
        if same_inputs(session, step, same) or (not repeatable and assume == "done"):
            return reused(session, step, same)
        if repeatable or assume == "rerun":
            return None
        return _question(session, step, f"was done before as step {same.n}, after other steps")
    return _without_entry(session, step, repeatable)


def _repeat(session: Session, step: Step, again: Step, repeatable: bool) -> Step | str | None:
    why = why_stale(session, step.n) if again.state == "stale" else ""  # "": a person asked for it
    if not repeatable:
        assume = session.run.policy.assumed(session.id, step.n)
        if why and assume == "done":
            same = replace(restored(session, again), args=step.args, what=step.what)
            kept = same.evidence.get("state", {}).get("kept")
            return with_state(session, same, kept) if same.state == "done" else same
        made = again.link or again.evidence.get("was") != "failed"  # else it failed before it started
        if not undo_call(session, again) and why and made and assume != "rerun":
            return _question(session, step, f"is done already, and {why}")
    _retire(session, again.child)
    return None


def _question(session: Session, step: Step, why: str) -> str:
    return f"step {step.n} ({step.tool or 'subtask'}) {why}: {assume_command(session, step)}"


def _without_entry(session: Session, step: Step, repeatable: bool) -> Step | None:
    """Handle a document whose entry in the parent is missing, after an edit or a torn file."""
    store = session.run.store
    loop_id = step.child or operation_id(session, step.n, step.tool)
    if not store.exists(loop_id):
        return None
    if step.link:
        if store.load(loop_id).text(1, "task") != step.what:
            _retire(session, loop_id)
        return None  # the child continues
    if not repeatable and (ended := recorded_outcome(session, step, same=True)):
        return ended
    store.retire(loop_id)
    return None


def _retire(session: Session, loop_id: str) -> None:
    """Put the documents of a loop and its descendants aside, the deepest first."""
    for each in reversed(subtree(session, loop_id)) if loop_id else ():
        session.run.store.retire(each)
