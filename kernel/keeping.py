"""Whether a finished step keeps its result: while its call is the same, and what it was made from.

Both are compared by value, with what stands in the document: a person may have changed either between two
sessions. A step that may have to be done again is `stale`; it is looked at when what it needs has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kernel.children import below
from kernel.document import Step
from kernel.errors import DocumentError, OperationFailed
from kernel.operate import adopted, how_to_say, operation_id, taken_back, with_state
from kernel.references import references, substitute
from kernel.states import standing
from kernel.text import fingerprint
from kernel.tools import CHANGING
from kernel.views import Views
from kernel.world import Held

LOST = ("needed", "was", "spent", "limit", "tree_before", "tree_after", "files", "deleted")
"""Evidence that belongs to one carrying-out of a step, and not to what it came to."""


def needs_of(step: Step) -> set[int]:
    """The steps that a planned step needs, by its `needs` and by its references."""
    return {*step.needs, *references([step.args, step.what])}


def product(held: Held, n: int) -> str:
    """A fingerprint of what a step came to: its result, the files it changed, of a doing also its call."""
    step = held.doc.steps.get(n)
    if step is None:
        return ""
    value: list[Any] = [step.result or "", step.evidence.get("sha", "")]
    value += [[each["path"], each.get("after")] for each in step.evidence.get("touched", ())]
    tool = held.world.catalogue.tools.get(step.tool)
    if tool is None or tool.guided or CHANGING & set(tool.effects):
        value.append([dict(step.args or {}), step.what])
    return fingerprint(value)[:8]


def made_from(held: Held, n: int) -> dict[str, Any]:
    """The evidence of what a step was made from: the products of the steps that it needs."""
    needs = sorted(needs_of(held.doc.planned[n]) | _after(held, n))
    return {"needed": {str(need): product(held, need) for need in needs}} if needs else {}


def _after(held: Held, n: int) -> set[int]:
    """Of a state machine, the call that was made before this one, whatever the plan says that it needs."""
    tool = held.world.catalogue.tools.get(held.doc.planned[n].tool)
    if tool is None or tool.states is None:
        return set()
    others = [step for step in held.doc.steps.values() if step.n != n]
    return {standing(tool.states, tool.name, others).step} - {0}


def waits_for(held: Held, n: int) -> set[int]:
    """The steps that have to end before this one begins; of a stale one also the call it was made after."""
    needs = needs_of(held.doc.planned[n])
    step = held.doc.steps.get(n)
    if step is None or step.state != "stale":
        return needs
    after = {int(need) for need in step.evidence.get("needed", {})} & held.doc.planned.keys()
    return needs | (after - downstream(held, {n}, planned=True))


def why_stale(held: Held, n: int) -> str:
    """Why a step that has ended cannot keep its result; "" when it can."""
    planned, step = held.doc.planned[n], held.doc.steps[n]
    if planned.tool != step.tool:
        return f"it was a call of {step.tool or 'a subtask'}, and is one of {planned.tool or 'a subtask'}"
    tool = held.world.catalogue.tools.get(planned.tool)
    if tool is None or tool.guided or planned.args is None:
        if step.what not in (planned.what, _filled(held, planned.what)):
            return "what it is to do was changed"
    elif dict(step.args or {}) != dict(planned.args):
        filled: dict[str, Any] | None = _filled(held, dict(planned.args))
        if filled is not None and dict(step.args or {}) != tool.typed(filled):
            references_ = bool(references(dict(planned.args)))
            return "a result in its arguments was changed" if references_ else "its arguments were changed"
    return changed_below(held, step)


def may_run(held: Held, n: int) -> bool:
    """Whether all that a step needs has ended well."""
    steps = [held.doc.steps.get(need) for need in needs_of(held.doc.planned[n])]
    return all(step is not None and step.state in ("done", "skipped") for step in steps)


def changed_below(held: Held, step: Step) -> str:
    """Which step that this one was made from came to something else since; "" when none did."""
    for need, seen in step.evidence.get("needed", {}).items():
        if int(need) in held.doc.steps and product(held, int(need)) != seen:
            return f"step {need}, which it needs, came to something else"
    return ""


def _filled(held: Held, value: Any) -> Any:
    """With the references put in; None when they cannot be, which is for the start of the step to tell."""
    try:
        return substitute(value, Views(held, exact=not isinstance(value, str)))
    except (OperationFailed, DocumentError):
        return None


def stale(step: Step) -> Step:
    """The step as it stands until it is known whether it keeps its result."""
    return replace(step, state="stale", evidence={**step.evidence, "was": step.state})


def restored(held: Held, step: Step) -> Step:
    """A stale step that keeps its result."""
    evidence = {key: value for key, value in step.evidence.items() if key != "was"}
    return replace(step, state=step.evidence["was"], evidence={**evidence, **made_from(held, step.n)})


def downstream(held: Held, first: Iterable[int], *, planned: bool = False) -> set[int]:
    """These steps of the plan, and all that need them, directly or not.

    Calls of a state machine need those that were made before them, unless only the `planned` needs count.
    """
    needs = {n: needs_of(step) for n, step in held.doc.planned.items()}
    if not planned:
        for n in needs.keys() & held.doc.steps.keys():
            needs[n] |= {int(need) for need in held.doc.steps[n].evidence.get("needed", {})}
    found, more = set(first), {0}
    while more:
        more = {n for n in needs.keys() - found if needs[n] & found}
        found |= more
    return found


def same_call(held: Held, step: Step) -> Step | None:
    """The step of the plan before a person's edit that was this call, and whose result can be taken over."""
    for n in held.doc.meta.extra.get("kept", ()):
        old = held.doc.steps.get(int(n))
        if old and (old.tool, old.what if old.share else old.args) == (
            step.tool,
            step.what if old.share else step.args,
        ):
            return old
    return None


def taken_over(held: Held, step: Step, old: Step) -> Step:
    """A step with the result of the same call in the plan before."""
    evidence = {key: value for key, value in old.evidence.items() if key not in LOST}
    evidence |= {"same as": old.n, **made_from(held, step.n)}
    taken = replace(
        step, state=old.state, result=old.result, origin=old.origin, link=old.link, evidence=evidence
    )
    return with_state(held, taken, evidence.get("state", {}).get("kept"))


def same_products(held: Held, step: Step, old: Step) -> bool:
    """Whether two steps were made from the same, whatever the numbers of the steps they need."""
    now: Mapping[str, str] = made_from(held, step.n).get("needed", {})
    return sorted(now.values()) == sorted(old.evidence.get("needed", {}).values())


# ---- what is known of a call before it is made -----------------------------------------------------------


def went_before(held: Held, step: Step, again: Step | None, repeatable: bool) -> Step | str | None:
    """The ended step where this very call was made before, a question where it may not be made twice.

    None: it is to be made; what stood in its document's place has been put aside. `step` has its arguments
    filled in, and a child its link; `again` is what stands in §3 of a step that is done again.
    """
    if again is not None:
        return _once_more(held, step, again, repeatable)
    if same := same_call(held, step):
        assume = held.world.policy.assumed(held.id, step.n)
        if same_products(held, step, same) or (not repeatable and assume == "done"):
            return taken_over(held, step, same)
        if repeatable or assume == "rerun":
            return None
        return _question(held, step, f"was done before as step {same.n}, after other steps")
    return _line_lost(held, step, repeatable)


def _once_more(held: Held, step: Step, again: Step, repeatable: bool) -> Step | str | None:
    why = why_stale(held, step.n) if again.state == "stale" else ""  # a person's own word needs no asking
    if not repeatable:
        assume = held.world.policy.assumed(held.id, step.n)
        if why and assume == "done":
            kept = {key: value for key, value in again.evidence.items() if key != "was"}
            kept |= made_from(held, step.n)
            was = again.evidence["was"]
            same = replace(again, state=was, args=step.args, what=step.what, evidence=kept)
            return with_state(held, same, kept.get("state", {}).get("kept")) if was == "done" else same
        made = again.link or again.evidence.get("was") != "failed"  # else it failed before it began
        if not taken_back(held, again) and why and made and assume != "rerun":
            return _question(held, step, f"is done already, and {why}")
    _retire(held, again.link.removesuffix(".md"))
    return None


def _question(held: Held, step: Step, why: str) -> str:
    return f"step {step.n} ({step.tool or 'subtask'}) {why}: {how_to_say(held, step)}"


def _line_lost(held: Held, step: Step, repeatable: bool) -> Step | None:
    """Where a document stands although the parent's line of it is gone: a person's hand, or a torn file."""
    store = held.world.store
    loop_id = step.link.removesuffix(".md") or operation_id(held, step.n, step.tool)
    if not store.exists(loop_id):
        return None
    if step.link:
        if store.load(loop_id).text(1, "task") != step.what:
            _retire(held, loop_id)
        return None  # the child goes on
    if not repeatable and (ended := adopted(held, step)):
        return ended
    store.retire(loop_id)
    return None


def _retire(held: Held, loop_id: str) -> None:
    """Put the documents of a loop and of all below it aside: the deepest first, so that none is forgotten."""
    for each in reversed(below(held, loop_id)) if loop_id else ():
        held.world.store.retire(each)
