"""Approval of a call: what it may do, who may approve it, and who did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from kernel.document.escaping import fingerprint, to_json
from kernel.document.model import Document, Step
from kernel.document.redaction import redact
from kernel.document.references import problem_in, references, substitute
from kernel.errors import OperationFailed
from kernel.loop.named import named_files
from kernel.loop.run_context import ApprovedCall, RunContext, Session
from kernel.tools.state_machine import machine_state, refusal
from kernel.tools.tool import Danger, Tool

LONGEST = 60
"""Maximum characters of a client's name."""
_WORDS = {
    "terminal": "person at terminal",
    "page": "person at page",
    "command": "command without terminal",
    "program": "program",
    "client": "client",
    "oversight": "oversight",
    "policy": "policy",
    "file": "message file",
}


@dataclass(frozen=True)
class Decider:
    """Who answers, approves or rejects. `name` is that of the client, program or policy."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        word = _WORDS.get(self.kind, "message file")
        if self.kind == "policy":
            return f"{word} {self.name}"
        return f'{word} "{self.name}"' if self.name else word

    @property
    def origin(self) -> str:
        """The origin of its notes: `client:NAME`, `model:NAME`, `kernel` for a policy, else `person`."""
        if self.kind == "policy":
            return "kernel"
        kinds = {"client": "client", "oversight": "model"}
        return f"{kinds[self.kind]}:{self.name or 'unnamed'}" if self.kind in kinds else "person"

    @property
    def values(self) -> dict[str, str]:
        """The `by` value of a message."""
        return {"kind": self.kind, **({"name": self.name} if self.name else {})}

    @staticmethod
    def read(message: Mapping[str, Any]) -> Decider:
        """The decider in a message; `file` if it has none, as in a message written by hand."""
        by = message.get("by")
        values = cast(dict[str, Any], by if isinstance(by, dict) else {})
        kind = str(values.get("kind", "file"))
        return Decider(kind if kind in _WORDS else "file", plain_name(str(values.get("name", ""))))


TERMINAL = Decider("terminal")
PAGE = Decider("page")
PROGRAM = Decider("program")
YES = Decider("policy", "--yes")
SAME_CALL = Decider("policy", "approved in fractal.yaml")
SAME_KIND = "kind"
ALWAYS = "always"
"""The scopes of an approval beyond the one call: its kind in this run, and the same call in this folder."""


def plain_name(text: str) -> str:
    """A client's name on one line, without quotes, of at most `LONGEST` characters."""
    shown = "".join(sign for sign in " ".join(text.split()) if sign.isprintable() and sign not in '"`')
    return shown[:LONGEST].strip()


APPROVED = "approved by "
"""How a decision for the plan or its checks begins."""
PLAN_WAITS = "the plan"
"""The question of a run that stops after PLAN and waits for approval."""
REVIEW = "waits for approval"
"""The note of §2 with the reasons why a plan may not start before oversight or a human has approved it."""
CHECKS_WAIT = "the checks of this plan may run commands"
"""How the question begins that asks for the commands among a plan's criteria."""


def asked_steps(document: Document) -> list[Step]:
    """The calls that a document asks to approve: its waiting steps, or the commands among its criteria."""
    if not str((document.meta.waiting or {}).get("question", "")).startswith(CHECKS_WAIT):
        return [step for step in document.steps.values() if step.state == "waiting"]
    return [
        Step(0, "waiting", "bash", args := {"command": command}, evidence={
            "approval": ["shell"], "call": call_digest("bash", args, {})
        })
        for command in checks_of(document)
    ]  # fmt: skip


def checks_of(document: Document) -> list[str]:
    """The commands among the criteria of a plan."""
    found: list[str] = []
    for line in document.text(2, "success criteria").splitlines():
        with suppress(ValueError):
            value: Any = json.loads(line)
            members = cast(dict[str, Any], value) if isinstance(value, dict) else {}
            found += [str(members[kind]) for kind in ("run", "keep") if kind in members]
    return found


def serious(steps: Iterable[Step]) -> list[str]:
    """The serious dangers of the steps that wait for approval."""
    waiting = (step for step in steps if step.state == "waiting")
    dangers = (str(danger) for step in waiting for danger in step.evidence.get("dangers", ()))
    return [danger for danger in dangers if danger.startswith("serious:")]


def why_not_approver(by: Decider, steps: Iterable[Step], trusted: Iterable[str]) -> str:
    """Why this decider may not approve the waiting steps; "" if it may.

    A serious danger requires a person at a terminal or page, or a client that the settings trust. An
    effect for which the settings ask a person requires one.
    """
    waiting = [step for step in steps if step.state == "waiting"]
    guarded = [effect for step in waiting for effect in step.evidence.get("approval", ())]
    if by.kind in ("oversight", "policy") and guarded:
        return f"the settings ask for a person's approval of what may {guarded[0]}, not for that of {by}"
    if by.kind in ("terminal", "page") or (by.kind == "client" and by.name and by.name in trusted):
        return ""
    dangers = serious(waiting)
    if not dangers:
        return ""
    who = f"{ {'oversight': '', 'policy': 'the '}.get(by.kind, 'a ') }{by}"
    return f"a serious danger needs a person's approval at a terminal, not that of {who}: {dangers[0]}"


LABEL_CHARS = 300
"""Maximum characters of a call in what META says of a question. `kernel.loop.question` shows all of it."""


async def check_call(session: Session, step: Step, tool: Tool, args: Mapping[str, Any]) -> None:
    """Raise `OperationFailed` for a call that cannot be made, even with approval."""
    if problem := tool.problem(args, filled=True):
        raise OperationFailed(problem)
    if tool.states:
        now = machine_state(tool.states, tool.name, session.doc.steps.values())
        if why := refusal(tool.states, now, str(args.get(tool.states.by))):
            raise OperationFailed(f"{tool.name}: {why}")
    most = session.run.bounds.same_failure
    if failures_without_change(session, replace(step, args=args)) >= most:
        raise OperationFailed(f"the same call failed {most} times already and is not tried again")
    if not tool.draft and (why := await session.run.hooks.admitted(session.run, tool)):
        raise OperationFailed(why)


def failures_without_change(session: Session, step: Step) -> int:
    """How often the same call has failed since the last step that may have removed the cause."""
    tool = session.catalogue.tools.get(step.tool)
    failed = 0
    for _, each in sorted(session.doc.steps.items(), reverse=True):
        if may_have_changed(session, each):
            break
        same = each.state == "failed" and each.tool == step.tool and each.args == step.args
        # a refusal in a state of a machine that may have changed since does not count
        failed += same and not (tool is not None and tool.states and each.origin == "kernel")
    return failed


def repeats(session: Session, step: Step) -> int:
    """How often a call has come to the same in this attempt since the last step that did something new.

    A change that comes to what the same change came to before is nothing new.
    """
    known: set[str] = set()
    seen = Counter[str]()
    for n, each in sorted(session.doc.steps.items()):
        if n <= session.doc.meta.base or not each.ended:
            continue
        if may_have_changed(session, each) and each.outcome not in known:
            seen.clear()
        known.add(each.outcome)
        seen[each.outcome] += 1
    return seen[step.outcome]


def may_have_changed(session: Session, step: Step) -> bool:
    """Whether a step succeeded and may have changed something."""
    tool = session.catalogue.tools.get(step.tool)
    return step.state == "done" and (tool is None or tool.changes(step.args))


def unapproved(
    run_context: RunContext, tool: Tool, args: Mapping[str, Any]
) -> tuple[list[str], list[Danger]]:
    """The effects and dangers not approved in advance. `yes` never approves serious dangers."""
    guarded, dangers = _need_approval(run_context, tool, args)
    if approved_before(run_context, tool, args, guarded, dangers):
        return [], []
    return ([], _serious(dangers)) if run_context.policy.yes else (guarded, dangers)


def approved_before(
    run_context: RunContext,
    tool: Tool,
    args: Mapping[str, Any],
    guarded: Sequence[str],
    dangers: Sequence[Danger],
) -> str:
    """Who approved this call before: by a rule for the exact call, or for its kind in this run; "" if nobody.

    A rule covers the effects and dangers that the person has seen, and never a serious danger.
    """
    if _serious(dangers):
        return ""
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


def _serious(dangers: Iterable[Danger]) -> list[Danger]:
    return [danger for danger in dangers if danger.severity == "serious"]


def _need_approval(
    run_context: RunContext, tool: Tool, args: Mapping[str, Any]
) -> tuple[list[str], list[Danger]]:
    """The effects and dangers of a call that require approval."""
    guarded = [effect for effect in run_context.policy.approve if effect in tool.effects_of(args)]
    dangers = [*run_context.hooks.guard(tool, args)]
    if named := [run_context.shown(path) for path in large_named(run_context, tool, args)]:
        why = f"{', '.join(named[:3])}: too large to be kept, so `fractal undo` cannot bring it back"
        dangers.append(Danger("not kept", "danger", why))
    return guarded, dangers


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
    results and files. If they have changed, it is asked for again. `kernel.loop.question` shows the question.
    """
    guarded, dangers = _need_approval(session.run, tool, args)
    if not (guarded or dangers):
        return step, ""
    files = files_of(session.run, tool, args)
    call = call_digest(tool.name, args, results or {}, files)
    if step.evidence.get("approved") and step.evidence.get("call") == call:
        return step, ""
    about = ("approved", "approval", "dangers", "kind", "results", "names")
    evidence: dict[str, Any] = {key: value for key, value in step.evidence.items() if key not in about}
    evidence |= {"call": call} | ({"names": files} if files else {})
    if not results and (who := approved_before(session.run, tool, args, guarded, dangers)):
        return replace(step, evidence={**evidence, "approved": who}), ""
    if session.run.policy.yes:
        guarded, dangers = [], _serious(dangers)
        if not dangers:
            return replace(step, evidence={**evidence, "approved": str(YES)}), ""
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
    args = dict(step.args or {})
    if step.evidence.get("call") == call_digest(tool.name, args, results, files_of(session.run, tool, args)):
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


def approve_planned(session: Session, by: Decider) -> None:
    """Approve the dangerous calls of an approved plan, so that the same calls are not asked for again.

    Serious ones, and effects for which the settings ask a person, still wait before their step.
    """
    for step, tool, dangers in planned_dangers(session):
        args = dict(step.args or {})
        if _serious(dangers) or unapproved(session.run, tool, args)[0]:
            continue
        shown = {"dangers": [str(danger) for danger in dangers], "approved": str(by)}
        files = files_of(session.run, tool, args)
        evidence = {**step.evidence, **shown, "call": call_digest(tool.name, args, {}, files)}
        evidence |= {"names": files} if files else {}
        session.put(replace(step, state="planned", evidence=evidence))


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
