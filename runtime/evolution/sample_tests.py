"""Runs the sample of a tool, which admits it, and reports the result for §4."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kernel import disk
from kernel.document.escaping import to_json
from kernel.document.model import Document, Step
from kernel.errors import ConfigurationError, DocumentError, OperationFailed, explained
from kernel.loop.approval import unapproved
from kernel.loop.child import subtree
from kernel.loop.criteria import search
from kernel.loop.run_context import Session, Trial
from kernel.tools.operations import Drafts, OperationContext, Result
from kernel.tools.running import Runner, carry_out
from kernel.tools.state_machine import MachineState, moved, refusal
from kernel.tools.tool import Tool
from runtime.evolution.drafts import written_by
from runtime.evolution.files import one_line

NOTE_CHARS = 400
"""Characters of a sample's output that are shown with its finding."""


async def trials(session: Session) -> list[Trial]:
    """Try each draft: at the root those of the whole run, below it those of this loop."""
    drafts = session.run.drafts
    if drafts is None:
        return []
    session.run.catalogue.refresh()
    results: list[Trial] = []
    for unit in drafts.units():
        if session.root or any(written_by(step, unit) for step in session.doc.steps.values()):
            kind = unit.partition("/")[0]
            if kind in ("tools", "operations", "kernel"):
                results.append(await _tool_trial(session, unit))
            elif kind == "phases":
                results.append(_phase_trial(session, drafts, unit))
            else:
                results.append(Trial(unit, None, "a proposal: it is compared before it is adopted"))
    return results


async def _tool_trial(session: Session, unit: str) -> Trial:
    drafts = session.run.drafts
    assert drafts
    place = drafts.folder / unit
    catalogue = session.run.catalogue
    for fault in catalogue.faults:
        if fault.path == place or place in fault.path.parents:
            name = fault.path.relative_to(drafts.folder).as_posix()
            return Trial(unit, False, f"{name}:{fault.line}: {fault.message}")
    tools = [tool for tool in catalogue.tools.values() if tool.path == place or place in tool.path.parents]
    if place.suffix != ".md" and place.is_file():
        tools = [tool for tool in catalogue.tools.values() if _runs(tool, place)]
    if not tools:
        return Trial(unit, False, f"{unit}: there is no pattern.md in use with this name")
    tool = tools[0]
    if why := sample_missing(tool):
        return Trial(unit, False, why)
    if tool.guided:
        return await _guided_trial(session, unit, tool)
    if why := _approval(session, tool):
        return Trial(unit, None, why)
    context = session.run.context(tool)
    passed, note = await try_sample(tool, context, session.run.runners)
    return Trial(unit, passed, session.run.redact(note))


def _approval(session: Session, tool: Tool) -> str:
    """Why a person has to try this tool: its sample does what no step may do without an approval."""
    sample = tool.sample
    calls = [*cast(list[dict[str, Any]], sample.get("before") or []), cast(dict[str, Any], sample["args"])]
    for args in calls:
        effects, dangers = unapproved(session.run, tool, args)
        if effects or dangers:
            reasons = "; ".join([*(f"it may {effect}" for effect in effects), *map(str, dangers)])
            return f"its sample was not run: that needs a person's approval ({reasons})"
    return ""


def _runs(tool: Tool, place: Path) -> bool:
    """Whether this is the program of an operation, next to its markdown."""
    try:
        return tool.scheme == "command" and tool.program == place.resolve()
    except ConfigurationError:
        return False


def sample_missing(tool: Tool) -> str:
    """What a tool's sample lacks to be a test; "" for nothing."""
    sample = tool.sample
    if not isinstance(sample.get("task"), str) or not isinstance(sample.get("shows"), str):
        return f"{tool.name}: sample: a task and shows (a pattern of what the result must have) are needed"
    if not tool.guided and not isinstance(sample.get("args"), dict):
        return f"{tool.name}: sample: args: the arguments of the call are needed"
    return ""


@contextmanager
def _place() -> Generator[Path]:
    """An empty folder that is removed afterwards with its contents."""
    folder = Path(tempfile.mkdtemp(prefix="fractal-sample-"))
    try:
        yield folder
    finally:
        with suppress(OSError):
            disk.remove_all(folder)


async def try_sample(
    tool: Tool, context: OperationContext, runners: Mapping[str, Runner]
) -> tuple[bool, str]:
    """Run the sample of a tool that is no guided loop, in a folder of its own: whether it passed, a note."""
    try:
        return await _run(tool, context, runners)
    except Exception as error:
        return False, f"sample: {explained(error)}"


async def _run(tool: Tool, context: OperationContext, runners: Mapping[str, Runner]) -> tuple[bool, str]:
    sample = tool.sample
    args = cast(dict[str, Any], sample.get("args") or {})
    before = cast(list[dict[str, Any]], sample.get("before") or [])  # the way there of a state machine
    with _place() as folder:
        if problem := lay_out(tool, folder):
            return False, problem
        sandboxed = replace(context, folder=folder, protected=(), drafts=None)
        result, state = Result(""), MachineState(tool.states.start if tool.states else "")
        for call in (*before, args):
            if problem := tool.problem(call):
                return False, f"sample: {problem}"
            action = str(call.get(tool.states.by)) if tool.states else ""
            if tool.states and (why := refusal(tool.states, state, action)):
                return False, f"sample: {why}; before: names the calls that lead there"
            result = await carry_out(replace(sandboxed, kept=state.kept), tool, call, runners)
            if not result.ok:
                return False, f"its sample failed: {_short(result.text)}"
            if tool.states:
                state = moved(tool.states, state, action, result.keep)
        missing = not_left(tool, folder)
    return (False, f"{missing}: {_short(result.text)}") if missing else await shows(tool, result.text)


def lay_out(tool: Tool, folder: Path) -> str:
    """Write the files of a tool's sample; returns what is wrong with them, or ""."""
    for name, text in cast(dict[str, object], tool.sample.get("files") or {}).items():
        target = (folder / name).resolve()
        if folder.resolve() not in target.parents:
            return f"sample: files: {name}: leads outside the sample's folder"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(str(text), "utf-8")
    return ""


def not_left(tool: Tool, folder: Path) -> str:
    """Which files a tool's sample should have left and has not, or ""."""
    leaves = cast(list[str], tool.sample.get("leaves") or [])
    missing = [path for path in leaves if not (folder / path).is_file()]
    return f"its sample left no {', '.join(missing)}" if missing else ""


async def shows(tool: Tool, text: str) -> tuple[bool, str]:
    """Whether a result has what the sample says that it shows."""
    pattern = str(tool.sample.get("shows", ""))
    try:
        match = await search(pattern, text)
    except OperationFailed as error:
        return False, f"sample: shows: {error}"
    if match is None:
        return False, f"its sample's result does not show {pattern!r}: {_short(text)}"
    return True, f"its sample passed: {_short(text)}"


async def _guided_trial(session: Session, unit: str, tool: Tool) -> Trial:
    """A guided draft is tried by a step of this run, as a child; its document is the evidence."""
    fingerprint = tool.fingerprint()
    step_ = to_json({"tool": tool.name, "what": tool.sample["task"]})
    last = f"no step has tried it as it stands; give one: {step_}"
    for document, step in _steps(session):
        by = step.evidence.get("drafts", {})
        if step.tool != tool.name or by.get("tool") != fingerprint:
            continue
        if step.state != "done":
            last = f"its sample failed: {_short(step.result or step.state)}"
            continue
        shelved = step.evidence.get("whole")
        text = session.run.store.unshelve(shelved) if shelved else step.result or ""
        passed, note = await shows(tool, text)
        if passed:
            return Trial(unit, True, f"{note} ({document.meta.id}, step {step.n})")
        last = note
    return Trial(unit, False, last)


def _phase_trial(session: Session, drafts: Drafts, unit: str) -> Trial:
    """Phase files are tried by a child that works by them and ends well."""
    fingerprint = drafts.fingerprint("phases/")
    phase = unit.removeprefix("phases/").partition(".")[0]
    idle = ""
    for document, step in _steps(session):
        if step.evidence.get("drafts", {}).get("phases") == fingerprint and step.state == "done":
            place = f"{document.meta.id}, step {step.n}"
            below = _documents(session, step.link.removesuffix(".md"))
            if phase in {"base"} | {rung.get("phase") for each in below for rung in each.meta.rungs}:
                return Trial(unit, True, f"a loop went through it and was accepted ({place})")
            idle = f"a loop with it was accepted that came to no such ask ({place})"
    if idle:
        return Trial(unit, True, idle)
    return Trial(unit, False, "no subtask has gone through it as it stands: give a small task as a subtask")


def _steps(session: Session) -> list[tuple[Document, Step]]:
    steps: list[tuple[Document, Step]] = [(session.doc, step) for step in session.doc.steps.values()]
    for document in _documents(session, "" if session.root else session.id):
        if document.meta.id != session.id:
            steps += [(document, step) for step in document.steps.values()]
    return steps


def _documents(session: Session, loop_id: str) -> list[Document]:
    """The readable documents of a loop and the loops below it; "" for the whole run."""
    documents: list[Document] = []
    for id in subtree(session, loop_id) if loop_id else session.run.store.list():
        with suppress(DocumentError):
            documents.append(session.run.store.load(id))
    return documents


def _short(text: str) -> str:
    return one_line(text, NOTE_CHARS // 3, NOTE_CHARS * 2 // 3)
