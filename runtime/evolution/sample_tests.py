"""Runs the sample and the cases of a tool, which admits it, and reports the result for §4.

A draft passes these gates, and a refusal begins with the name of the one that it did not pass: schema, states
(all can be reached), danger (of its program's text), sample, effects (none that is not declared).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Generator, Sequence
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
from kernel.loop.hooks import Trial
from kernel.loop.run_context import Session
from kernel.tools.operations import Result
from kernel.tools.state_machine import Machine, MachineState, moved, refusal
from kernel.tools.tool import Danger, Tool
from runtime.catalogue.catalogue import faults_of
from runtime.evolution.drafts import Drafts, written_by
from runtime.evolution.files import one_line
from runtime.operations.running import Runner
from runtime.sandbox.context import OperationContext
from runtime.secrets.redaction import redact
from runtime.text.searching import search
from runtime.tool_files import fingerprint_of, program_of

NOTE_CHARS = 400
"""Characters of a sample's output that are shown with its finding."""


Dangers = Callable[[Path], Sequence[Danger]]
"""The dangers of the text of a program."""
Connects = Callable[[Path], str]
"""How the text of a program uses the network; "" if it does not."""
_UNDECLARED = "effects: it uses the network; declare `network`, or do without"
_NETWORK = re.compile(
    r"(?i)network is unreachable|name resolution|name or service not known|could not resolve"
    r"|getaddrinfo|connection refused"
)
"""What a program says that uses the network where there is none."""


async def trials(dangers: Dangers, connects: Connects, session: Session) -> list[Trial]:
    """Try each draft: at the root those of the whole run, below it those of this loop."""
    session.run.catalogue.refresh()
    results: list[Trial] = []
    for unit in drafted(session):
        kind = unit.partition("/")[0]
        if kind in ("tools", "operations", "kernel"):
            results.append(await _tool_trial(dangers, connects, session, unit))
        elif kind == "phases":
            results.append(_phase_trial(session, unit))
        else:
            results.append(Trial(unit, None, "a proposal: it is compared before it is adopted"))
    return results


def drafted(session: Session) -> list[str]:
    """The drafts of a loop: at the root those of the whole run."""
    steps = session.doc.steps.values()
    units = session.run.drafts.units() if session.run.drafts else []
    return [unit for unit in units if session.root or any(written_by(step, unit) for step in steps)]


async def _tool_trial(dangers: Dangers, connects: Connects, session: Session, unit: str) -> Trial:
    drafts = session.run.drafts
    assert drafts
    place = drafts.folder / unit
    catalogue = session.run.catalogue
    for fault in faults_of(catalogue):
        if fault.path == place or place in fault.path.parents:
            name = fault.path.relative_to(drafts.folder).as_posix()
            return Trial(unit, False, f"schema: {name}:{fault.line}: {fault.message}")
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
    if found := [str(danger) for program in _programs(tool) for danger in dangers(program)]:
        why = "; ".join(dict.fromkeys(found))
        return Trial(unit, None, f"danger: {why} Leave it out; else a person decides about {unit}")
    if "network" not in tool.effects and (used := list(filter(None, map(connects, _programs(tool))))):
        return Trial(unit, False, f"{_UNDECLARED} ({used[0]})")
    context = session.run.context(tool)
    passed, note = await try_sample(tool, context, session.run.call)
    return Trial(unit, passed, redact(note))


def _approval(session: Session, tool: Tool) -> str:
    """Why a person has to try this tool: its sample does what no step may do without an approval."""
    for args in (call for case in _cases(tool) for call in _calls(case)):
        effects, dangers = unapproved(session.run, tool, args)
        if effects or dangers:
            reasons = "; ".join([*(f"it may {effect}" for effect in effects), *map(str, dangers)])
            return f"its sample was not run: that needs a person's approval ({reasons})"
    return ""


def _cases(tool: Tool) -> list[Tool]:
    """The tool with its sample and each of its further cases as its sample."""
    return [tool, *(replace(tool, sample=case) for case in tool.cases)]


def _calls(tool: Tool) -> list[dict[str, Any]]:
    """The arguments of the calls of a sample: the way there of a state machine, then the call itself."""
    before = cast(list[dict[str, Any]], tool.sample.get("before") or [])
    return [*before, cast(dict[str, Any], tool.sample.get("args") or {})]


def _runs(tool: Tool, place: Path) -> bool:
    """Whether this is the program of an operation, next to its markdown."""
    return tool.scheme == "command" and _present(tool) and program_of(tool) == place.resolve()


def _programs(tool: Tool) -> list[Path]:
    """The program of a tool and the scripts beside it."""
    if tool.scheme != "command" or not _present(tool):
        return []
    beside = () if tool.path.parent.name in ("operations", "kernel") else tool.path.parent.rglob("*")
    scripts = (path.resolve() for path in beside if path.suffix in (".py", ".sh") and path.is_file())
    return sorted({program_of(tool), *scripts})


def _present(tool: Tool) -> bool:
    """Whether the program of a tool is there; its sample says what is wrong if it is not."""
    try:
        return bool(program_of(tool))
    except ConfigurationError:
        return False


def sample_missing(tool: Tool) -> str:
    """What a tool's sample lacks to be a test; "" for nothing."""
    sample = tool.sample
    if not isinstance(sample.get("task"), str) or not isinstance(sample.get("shows"), str):
        return f"{tool.name}: sample: a task and shows (a pattern of what the result must have) are needed"
    if not tool.guided and not isinstance(sample.get("args"), dict):
        return f"{tool.name}: sample: args: the arguments of the call are needed"
    for n, case in enumerate(tool.cases, 1):
        if tool.guided or not (isinstance(case.get("args"), dict) and isinstance(case.get("shows"), str)):
            return f"{tool.name}: cases: {n}: a call's args and shows are needed, of a tool with run"
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


async def try_sample(tool: Tool, context: OperationContext, caller: Runner) -> tuple[bool, str]:
    """Run the sample and the cases of a tool that is no guided loop: whether all passed, a note.

    Each runs in a folder of its own.
    """
    if tool.states and (unreachable := _unreachable(tool.states)):
        lost = ", ".join(unreachable)
        return False, f"states: no moves lead from {tool.states.start} to {lost}; add moves, or remove them"
    cases, failed, first = _cases(tool), list[str](), ""
    for n, case in enumerate(cases):
        try:
            passed, note = await _run(case, context, caller)
        except Exception as error:
            passed, note = False, f"sample: {explained(error)}"
        first = first or note
        if not passed:
            failed.append(f"case {n}: {note}" if n else note)
    count = [f"{len(cases) - len(failed)} of {len(cases)} passed"] if tool.cases else []
    return not failed, "\n".join([*(failed or [first]), *count])


def _unreachable(machine: Machine) -> list[str]:
    """The states that no moves from the start lead to."""
    reached = [machine.start]
    for state in reached:
        reached += [each for each in machine.moves.get(state, {}).values() if each not in reached]
    return [state for state in machine.moves if state not in reached]


async def no_better(tool: Tool, old: Tool, context: OperationContext, caller: Runner) -> str:
    """Why a new version of a program does not replace the old one; "" if it may.

    It passes what the old version has to pass, and one of its own cases fails with the old version.
    """
    passed, note = await try_sample(replace(tool, sample=old.sample, cases=old.cases), context, caller)
    if not passed:
        return f"sample: it fails what the present version passes: {note}"
    if (await try_sample(replace(old, sample=tool.sample, cases=tool.cases), context, caller))[0]:
        return "sample: the present version passes all of it; add the case that failed to its cases"
    return ""


async def _run(tool: Tool, context: OperationContext, caller: Runner) -> tuple[bool, str]:
    undeclared = tool.scheme == "command" and "write" not in tool.effects
    free = replace(tool, effects=(*tool.effects, "write")) if undeclared else tool  # else it writes unseen
    with _place() as folder:
        if problem := lay_out(tool, folder):
            return False, problem
        there = _contents(folder)
        sandboxed = replace(context, folder=folder, protected=(), drafts=None)
        result, state = Result(""), MachineState(tool.states.start if tool.states else "")
        for call in _calls(tool):
            if problem := tool.problem(call):
                return False, f"sample: {problem}"
            action = str(call.get(tool.states.by)) if tool.states else ""
            if tool.states and (why := refusal(tool.states, state, action)):
                return False, f"sample: {why}; before: names the calls that lead there"
            result = await caller(replace(sandboxed, kept=state.kept), free, call)
            if undeclared and (changed := sorted(_contents(folder) ^ there)):
                return False, f"effects: it writes {changed[0][0]}; declare `write`, or write nothing"
            if not result.ok and "network" not in tool.effects and _NETWORK.search(result.text):
                why = _short(result.text)
                return False, f"{_UNDECLARED}: {why}"
            if not result.ok:
                return False, f"its sample failed: {_short(result.text)}"
            if tool.states:
                state = moved(tool.states, state, action, result.keep)
        missing = not_left(tool, folder)
    return (False, f"{missing}: {_short(result.text)}") if missing else await shows(tool, result.text)


def _contents(folder: Path) -> set[tuple[str, int, int]]:
    """The files in a folder: the path, size and time of each."""
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    found = ((path.relative_to(folder).as_posix(), path.lstat()) for path in paths)
    return {(name, stat.st_size, stat.st_mtime_ns) for name, stat in found}


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
    fingerprint = fingerprint_of(tool)
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


def _phase_trial(session: Session, unit: str) -> Trial:
    """A phase file is tried by a child whose model reads it and that ends well; else a person decides."""
    drafts = session.run.drafts
    assert isinstance(drafts, Drafts)
    fingerprint = drafts.fingerprint("phases/")
    phase = unit.removeprefix("phases/").partition(".")[0]
    idle = ""
    for document, step in _steps(session):
        if step.evidence.get("drafts", {}).get("phases") == fingerprint and step.state == "done":
            place = f"{document.meta.id}, step {step.n}"
            below = _documents(session, step.child)
            if any(phase in _read_in(session, each) for each in below):
                return Trial(unit, True, f"a loop went through it and was accepted ({place})")
            idle = f"not tried: no model was asked with it in the loop that was accepted ({place})"
    if idle:
        return Trial(unit, None, idle)
    return Trial(unit, False, "no subtask has gone through it as it stands: give a small task as a subtask")


def _read_in(session: Session, document: Document) -> set[str]:
    """The phases whose files a model has read in a loop: not those that its own tool guides.

    `phases/base.md` is read by judges; turns have `turn.base.md`.
    """
    tool = session.run.catalogue.tools.get(document.meta.type)
    asked = {str(rung["phase"]) for rung in document.meta.rungs if rung.get("instr")}
    own = {each for each in asked if tool and tool.section(each)}
    return ({"base"} if "check" in asked else set()) | (asked - own)


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
