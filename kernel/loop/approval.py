"""Whether a call needs a person's approval: what it may do, and what was approved before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.document.escaping import fingerprint, to_json
from kernel.document.model import Step
from kernel.document.redaction import redact
from kernel.document.references import problem_in, references, substitute
from kernel.loop.run_context import RunContext, Session
from kernel.tools.tool import Danger, Tool

YES = "policy --yes"
"""Who has approved a call that a person was not asked for."""
APPROVED = "approved by "
"""How a decision for the plan or its checks begins."""
PLAN_WAITS = "the plan"
"""The question of a run that stops after PLAN and waits for approval."""
REVIEW = "waits for approval"
"""The note of §2 with the reasons why a plan may not start before oversight or a human has approved it."""
CHECKS_WAIT = "the checks of this plan may run commands"
"""How the question begins that asks for the commands among a plan's criteria."""
LABEL_CHARS = 300
"""Maximum characters of a call in what META says of a question. The runtime shows all of it."""


def unapproved(
    run_context: RunContext, tool: Tool, args: Mapping[str, Any]
) -> tuple[list[str], list[Danger]]:
    """The effects and dangers not approved in advance. `yes` never approves serious dangers."""
    guarded, dangers, _ = _decided(run_context, tool, args)
    return guarded, dangers


def _decided(
    run_context: RunContext, tool: Tool, args: Mapping[str, Any], *, standing: bool = True
) -> tuple[list[str], list[Danger], str]:
    """The effects and dangers of a call that need an approval now, and who has approved it if none do.

    A serious danger is approved one call at a time. `standing`: earlier approvals of such a call count.
    """
    guarded = [effect for effect in run_context.policy.approve if effect in tool.effects_of(args)]
    dangers = [*run_context.hooks.guard(tool, args)]
    if named := [run_context.shown(path) for path in large_named(run_context, tool, args)]:
        why = f"{', '.join(named[:3])}: too large to be kept, so `fractal undo` cannot bring it back"
        dangers.append(Danger("not kept", "danger", why))
    serious = _serious(dangers)
    if (guarded or dangers) and not serious:
        hooks = run_context.hooks
        by = hooks.approved(run_context, tool, args, guarded, dangers) if standing else ""
        if by or run_context.policy.yes:
            return [], [], by or YES
    return ([], serious, "") if run_context.policy.yes else (guarded, dangers, "")


def _serious(dangers: Iterable[Danger]) -> list[Danger]:
    return [danger for danger in dangers if danger.severity == "serious"]


def large_named(run_context: RunContext, tool: Tool, args: Mapping[str, Any]) -> list[Path]:
    """The files that a call names and may change but that are too large for a snapshot.

    All other files of that size are read-only for the call.
    """
    large = run_context.snapshots.large if run_context.snapshots and tool.changes(args) else ()
    if not large:
        return []
    said = to_json(dict(args))
    return [path for path in large if path.name in said]


def call_text(tool: Tool, args: Mapping[str, Any]) -> str:
    """A call in short, without secrets: what names it, not what is approved."""
    text = redact(f"{tool.name} {to_json(dict(args))}")
    return text if len(text) <= LABEL_CHARS else f"{text[:LABEL_CHARS]}… [{len(text)} characters]"


def call_digest(
    tool: str, args: Mapping[str, Any], results: Mapping[int, str], files: Mapping[str, str] | None = None
) -> str:
    """The digest of what a person approves: a call, its arguments, its results, the files it names."""
    given = {str(n): text for n, text in sorted(results.items())}
    return fingerprint([tool, dict(args), given, *([dict(files)] if files else [])])


def approval(
    session: Session,
    step: Step,
    tool: Tool,
    args: Mapping[str, Any],
    results: Mapping[int, str] | None = None,
) -> tuple[Step, str]:
    """The step, and the name of the question that a person has to approve before this call; "" if none.

    The step records who has approved, or that it waits. An approval is for one call with these arguments,
    results and files. If they have changed, it is asked for again. The runtime shows the question.
    """
    guarded, dangers, by = _decided(session.run, tool, args, standing=not results)
    if not (guarded or dangers or by):
        return step, ""
    files = session.run.hooks.names(session.run, tool, args)
    call = call_digest(tool.name, args, results or {}, files)
    if step.evidence.get("approved") and step.evidence.get("call") == call:
        return step, ""
    about = ("approved", "approval", "dangers", "kind", "results", "names")
    evidence: dict[str, Any] = {key: value for key, value in step.evidence.items() if key not in about}
    evidence |= {"call": call} | ({"names": files} if files else {})
    if by:
        return replace(step, evidence={**evidence, "approved": by}), ""
    evidence |= {"approval": guarded} if guarded else {}
    evidence |= {"dangers": [str(danger) for danger in dangers]} if dangers else {}
    if results:
        evidence["results"] = sorted(results)  # what is approved depends on them
    elif not _serious(dangers) and (kind := session.run.hooks.kind(tool, args)):
        evidence["kind"] = kind
    waiting = replace(step, state="waiting", evidence=evidence)
    session.put(waiting)
    may = f"may {' and '.join(guarded)}: " if guarded else ""
    asked = call_text(tool, args)
    whole = asked == f"{tool.name} {to_json(dict(args))}" and not results and not files
    lines = [f"step {step.n} {may}{asked}{'' if whole else f' [{call}]'}", *(f"- {each}" for each in dangers)]
    return waiting, "\n".join(lines)


def withdrawn(session: Session, step: Step, tool: Tool, results: Mapping[int, str]) -> Step | None:
    """The step waiting again, if what was approved is not what would run now; None if it is."""
    if not step.evidence.get("approved"):
        return None
    args = step.args or {}
    files = session.run.hooks.names(session.run, tool, args)
    if step.evidence.get("call") == call_digest(tool.name, args, results, files):
        return None
    evidence = {key: value for key, value in step.evidence.items() if key != "approved"}
    return replace(step, state="waiting", evidence=evidence)


def planned_dangers(session: Session) -> list[tuple[Step, Tool, list[Danger]]]:
    """The planned steps with known arguments that have dangers: each with its tool and dangers."""
    found: list[tuple[Step, Tool, list[Danger]]] = []
    for n, planned in session.doc.planned.items():
        step = session.doc.steps.get(n, planned)
        tool = session.catalogue.tools.get(step.tool)
        if step.state not in ("planned", "waiting") or step.evidence.get("approved") or step.args is None:
            continue
        if tool is None or tool.guided or references(step.args) or problem_in(step.args):
            continue
        args = dict(step.args) if step.state == "waiting" else tool.typed(substitute(step.args, {}))
        _, dangers = unapproved(session.run, tool, args)
        if dangers and not tool.problem(args, filled=True):
            found.append((replace(step, args=args), tool, dangers))
    return found


def known_dangers(session: Session) -> str:
    """The dangers of the plan that are known before it starts, one per line."""
    return "\n".join(
        f"step {step.n} ({tool.name}): {each}"
        for step, tool, dangers in planned_dangers(session)
        for each in dangers
    )


def ask_before_start(session: Session) -> str:
    """The question about the plan's serious steps before it starts; "" if there are none."""
    steps = session.doc.steps
    if any(n in steps and steps[n].state not in ("planned", "waiting") for n in session.doc.planned):
        return ""  # the plan has started: later steps are asked for one by one
    serious = [(step, tool) for step, tool, dangers in planned_dangers(session) if _serious(dangers)]
    return "\n".join(approval(session, step, tool, dict(step.args or {}))[1] for step, tool in serious)
