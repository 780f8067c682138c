"""Approvals that hold for more than one call: of the same call from now on, or of its kind in this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel.document.model import Step
from kernel.loop.approval import call_digest
from kernel.loop.run_context import ApprovedCall, RunContext, Session
from kernel.tools.tool import Danger, Tool
from runtime.workspace.deciders import ALWAYS, SAME_CALL, SAME_KIND, Decider, serious
from runtime.workspace.named import named_files


def approved_before(
    run_context: RunContext,
    tool: Tool,
    args: Mapping[str, Any],
    guarded: Sequence[str],
    dangers: Sequence[Danger],
) -> str:
    """Who approved this call before: by a rule for the exact call, or for its kind in this run; "" if nobody.

    A rule covers the effects and dangers that the person has seen.
    """
    call, shown = call_digest(tool.name, args, {}), {str(danger) for danger in dangers}
    for rule in run_context.policy.approved:
        if (
            call_digest(rule.tool, rule.args, {}) == call
            and set(guarded) <= set(rule.effects)
            and shown <= set(rule.dangers)
            and (rule.files is None or rule.files == files_of(run_context, tool, args))
        ):
            return str(SAME_CALL)
    names = {danger.rule for danger in dangers}
    kind = run_context.hooks.kind(tool, args) if run_context.approved_kinds else ""
    for each in run_context.approved_kinds:
        if (
            kind
            and each["kind"] == kind
            and set(guarded) <= set(each["effects"])
            and names <= set(each["dangers"])
            and each.get("files", {}) == files_of(run_context, tool, kind)
        ):
            return f"{each['by']}, for `{kind}`"
    return ""


def files_of(run_context: RunContext, tool: Tool, args: Any) -> dict[str, str]:
    """The files and folders that a call names, each with the digest of its content."""
    return named_files(
        run_context.folder,
        args,
        command=tool.name == "bash" or tool.scheme == "command",
        apart=run_context.private,
    )


def remember(session: Session, step: Step, scope: str, by: Decider) -> None:
    """Keep the approval of a waiting step for its kind in this run, or for the same call from now on.

    A serious danger, and a call that is of no kind, is approved once only.
    """
    run, evidence = session.run, step.evidence
    if serious([step]):
        return
    effects, dangers = tuple(evidence.get("approval", ())), tuple(evidence.get("dangers", ()))
    if scope == ALWAYS and "results" not in evidence:
        files = evidence.get("names", {})  # as they were when the question was asked
        rule = ApprovedCall(step.tool, dict(step.args or {}), effects, dangers, files=files)
        run.policy = replace(run.policy, approved=(*run.policy.approved, rule))
    elif scope == SAME_KIND and (kind := evidence.get("kind")):
        names = [danger.partition(": ")[2].partition(". ")[0] for danger in dangers]
        now = files_of(run, session.catalogue.get(step.tool), str(kind))
        files = {name: evidence.get("names", {}).get(name, mark) for name, mark in now.items()}
        about = {"kind": kind, "effects": list(effects), "dangers": names, "by": str(by)}
        run.approved_kinds.append(about | ({"files": files} if files else {}))
        session.meta(extra={**session.doc.meta.extra, "approved": list(run.approved_kinds)})
