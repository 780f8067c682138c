"""Designing a tool together: oversight designs what a worker requests, and the worker tests it.

The loop of the request writes a draft, as that of `build` does. Each version of it is a round: a message
`design`, then a `test_report` of its test cases and gates (`runtime/evolution/sample_tests.py`). After
`ROUNDS` rounds that failed the loop ends, and the workshop keeps the draft as a proposal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kernel.document.escaping import fingerprint
from kernel.document.model import now
from kernel.document.texts import cut
from kernel.loop.ask import NobodyLeft
from kernel.loop.hooks import Trial
from kernel.loop.run_context import Session
from kernel.tools.tool import Tool
from runtime.evolution.drafts import Drafts, marks
from runtime.evolution.files import tool_at, unit_files
from runtime.evolution.journal import Journal
from runtime.evolution.sample_tests import drafted, no_better
from runtime.nervous.escalation import about, asked
from runtime.nervous.messages import Message, Messages, named
from runtime.secrets.redaction import redact

ROUNDS = 3
"""Versions of a design that are tested. Source: nervous.md, "Design together"."""
SHOWN_CHARS = 6_000
"""Characters of a file that the message `design` shows."""

Trials = Callable[[Session], Awaitable[Sequence[Trial]]]
"""Tests the drafts of a loop."""


async def tested(messages: Messages, agent: str, session: Session, trials: Trials) -> list[Trial]:
    """One round: the drafts of the loop of a request are sent, tested and reported.

    Raises `NobodyLeft` if it was the last round and failed.
    """
    design = _send(messages, agent, session, drafted(session))
    found = [await _decided(session, trial) for trial in await trials(session)]
    passed = all(trial.passed for trial in found)
    report = "\n".join(f"{trial.unit}: {'pass' if trial.passed else 'FAIL'}: {trial.note}" for trial in found)
    messages.write(
        design.id,
        "report",
        type="test_report",
        sender=agent,
        to="oversight",
        run=design.run,
        loop=design.loop,
        in_reply_to=design.in_reply_to,
        text=report,
        data={**design.data, "passed": passed},
    )
    if not passed and design.data["round"] >= ROUNDS:
        raise NobodyLeft(f"{ROUNDS} versions of the design were tested and failed; the last one: {report}")
    return found


async def left(messages: Messages, session: Session, trials: Trials) -> list[Trial]:
    """The trials of a whole run: a person decides about a draft whose design has failed as it stands."""
    found = await trials(session)
    failed: dict[str, str] = {}
    for report in messages.all(type="test_report", run=session.run.id):
        units = str(report.data["tools"]).split(", ")
        if not report.data["passed"] and _version(session, units) == report.data["draft"]:
            failed |= dict.fromkeys(units, report.text)
    return [
        replace(each, passed=None, note=f"its design failed, and a person decides: {failed[each.unit]}")
        if each.unit in failed
        else each
        for each in found
    ]


def _version(session: Session, units: Sequence[str]) -> str:
    """What tells one version of a design from another."""
    drafts = session.run.drafts
    assert drafts
    return fingerprint([[unit, marks(drafts.folder, unit)] for unit in units])[:16]


def _send(messages: Messages, agent: str, session: Session, units: Sequence[str]) -> Message:
    """The message with this version of a design: specification, program, test cases; written once."""
    drafts = session.run.drafts
    assert drafts
    request = asked(messages, agent, session.doc, now())
    version = _version(session, units)
    sent = [each for each in messages.thread(request.id) if each.type == "design"]
    known = next((each for each in sent if each.data["draft"] == version), None)
    names = [name for unit in units for name in unit_files(drafts.folder, unit)]
    texts = [f"{name}\n\n{(drafts.folder / name).read_text('utf-8', 'replace')}" for name in names]
    approach = f"version {len(sent) + 1}: {session.doc.text(2, 'approach')}"
    return known or messages.write(
        request.id,
        "design",
        version,
        stream="guidance",
        type="design",
        sender=str(session.doc.meta.rungs[-1]["rung"]) if session.doc.meta.rungs else "",
        tier="oversight",
        to=agent,
        run=request.run,
        loop=request.loop,
        in_reply_to=request.id,
        text=redact("\n\n".join(cut(each, SHOWN_CHARS, "the draft") for each in (approach, *texts))),
        data={"round": len(sent) + 1, "tools": ", ".join(units), "draft": version},
    )


async def _decided(session: Session, trial: Trial) -> Trial:
    """A trial in a design: what only a person may decide fails.

    So does guidance without a program, which has no cases to run, and a version that is no better.
    """
    drafts = session.run.drafts
    assert isinstance(drafts, Drafts)
    new, old = (_tool(folders, trial.unit) for folders in ((drafts.folder,), drafts.systems))
    if new and new.guided:
        return replace(trial, passed=False, note="schema: run: a program is needed, which its cases test")
    if not trial.passed:
        return replace(trial, passed=False)
    if new and old and new.scheme == old.scheme == "command":
        why = await no_better(new, old, session.run.context(new), session.run.call)
        return replace(trial, passed=False, note=redact(why)) if why else trial
    return trial


def _tool(folders: Sequence[Path], unit: str) -> Tool | None:
    """The tool of a unit in the first folder that has it."""
    places = (
        folder / unit / "pattern.md" if unit.startswith("tools/") else folder / unit for folder in folders
    )
    tool = next((tool_at(path) for path in places if path.is_file()), None)
    return tool if isinstance(tool, Tool) else None


def settled(messages: Messages, journal: Journal) -> None:
    """Add to the threads of requests what became of their drafts: admitted, or kept as a proposal."""
    for entry in journal.entries():
        if entry.kind not in ("admitted", "proposed"):
            continue
        request = messages.get(named(*about(entry.run, entry.step.rpartition(":")[0])))
        if request and request.type == "request_design":
            messages.write(
                request.id,
                str(entry.id),
                stream="guidance",
                tier="oversight",
                sender=entry.author,
                to=request.sender,
                run=request.run,
                loop=request.loop,
                in_reply_to=request.id,
                text=entry.sentence(),
            )
