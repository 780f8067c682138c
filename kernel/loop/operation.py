"""Operations: loops whose four phases are code: check the arguments, prepare, act, validate.

The parent's `running` entry records the intent. The operation's own document is written once, at its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.escaping import to_json
from kernel.document.frontmatter import EVIDENCE, unstorable
from kernel.document.model import Document, Meta, Note, Section, Step, child_id, now
from kernel.document.redaction import redact, redacted
from kernel.document.texts import cut
from kernel.errors import DocumentError, FractalError, OperationFailed, raised_as
from kernel.loop.approval import call_text, large_named, withdrawn
from kernel.loop.run_context import Session, skills_of
from kernel.tools.operations import Context, Image, Result, Touch, bytes_hash, file_hash
from kernel.tools.state_machine import description, machine_state, moved
from kernel.tools.tool import Tool


def operation_id(session: Session, n: int, tool: str) -> str:
    """The id of the operation at a step."""
    return child_id(session.id, session.run.id, "operation", tool, n)


def prepare(session: Session, step: Step, tool: Tool) -> Step:
    """PLAN: record the hashes of the files that the call will change, before its effect starts."""
    if not tool.in_process or not (name := getattr(tool.function, "prepare", None)):
        return step
    if step.evidence.get("touched") and observed_effect(session, step) != "not done":
        return step  # started before an interruption
    touches: tuple[Touch, ...] = name(context_of(session, tool, step), **(step.args or {}))
    files = [
        {"path": session.run.shown(touch.path), "before": file_hash(touch.path), "after": touch.after}
        for touch in touches
    ]
    return replace(step, evidence={**step.evidence, "touched": files}) if files else step


def context_of(session: Session, tool: Tool, step: Step) -> Context:
    """The context of a call: that of the run, plus the data kept by its state machine.

    Files too large for a snapshot are protected, except those that an approved call names.
    """
    context = session.run.context(tool, skills_of(session.doc))
    if snapshots := session.run.snapshots:
        open_ = large_named(session.run, tool, step.args or {}) if step.evidence.get("approved") else []
        large = [path for path in snapshots.large or () if path not in open_]
        context = replace(context, protected=(*context.protected, *large))
    if tool.states is None:
        return context
    return replace(context, kept=machine_state(tool.states, tool.name, session.doc.steps.values()).kept)


def with_state(session: Session, step: Step, kept: Mapping[str, Any] | None = None) -> Step:
    """A step that is done, with its tool's state machine advanced. Without `kept`, its data is unchanged."""
    tool = session.catalogue.tools.get(step.tool)
    if tool is None or tool.states is None:
        return step
    others = [each for each in session.doc.steps.values() if each.n != step.n]
    now_ = machine_state(tool.states, tool.name, others)
    then = moved(tool.states, now_, str((step.args or {}).get(tool.states.by)), kept)
    state = {"state": redacted(then.evidence, redact), "now": description(tool.states, then)}
    return replace(step, evidence={**step.evidence, **state})


async def operate(
    session: Session, step: Step, tool: Tool, results: Mapping[int, str] | None = None, *, listed: bool = True
) -> Step:
    """DO and CHECK: make the call and write the operation's document; returns the ended step.

    Calls that may change files run one at a time, with a snapshot of the folder before and after. The entry
    of a `listed` step is on disk before its effect starts. `results` are the earlier results that its
    command uses. A step whose approval no longer holds is returned `waiting`.
    """
    began, approved = now(), step
    step = _with_secrets(session, step, tool)
    changing = may_change(session, step, tool)
    snapshots = session.run.snapshots if changing else None
    alone = session.run.changing if changing else nullcontext()
    async with snapshots.turn(partial(warn_of_wait, session, step)) if snapshots else alone:
        try:
            with raised_as(OperationFailed):
                if again := withdrawn(session, approved, tool, results or {}):
                    return again
                begun = await _with_snapshot(session, step) if snapshots else step
                step = prepare(session, begun, tool)
        except (OperationFailed, DocumentError) as error:
            return replace(step, state="failed", result=str(error), origin="kernel")
        if listed:
            session.put(step)
            session.flush()  # writes the intent, together with earlier results
            session.emit("step_started", step=step.n, tool=tool.name, args=redacted(step.args or {}, redact))
        context = replace(context_of(session, tool, step), results=results or {})
        try:
            result = await session.run.call(context, tool, dict(step.args or {}))
        except asyncio.CancelledError:
            if listed and "tree_before" in step.evidence:
                session.put(await with_changes(session, step))
                session.flush()
            raise
        ended = _ended(session, _told(session, await with_changes(session, step)), tool, result)
    session.run.store.save(_document(session, ended, tool, began))
    return ended


def _with_secrets(session: Session, step: Step, tool: Tool) -> Step:
    """The step with the secrets that a model has copied, hidden, from a result.

    Only Fractal's own code gets them: a command would read them as code, and the network could send them.
    """
    if not tool.in_process or {"network", "shell"} & set(tool.effects) or step.args is None:
        return step
    return replace(step, args=redacted(step.args, session.run.store.exact.reveal))


def may_change(session: Session, step: Step, tool: Tool) -> bool:
    """Whether a call may change files. An operation with `prepare` does not if it names no files."""
    if tool.scheme == "memory" or not tool.changes(step.args):
        return False
    function = tool.function if tool.in_process else None
    touches = getattr(function, "prepare", None)
    if touches and not getattr(function, "folders", False):
        with suppress(Exception):  # reported when the call is prepared
            return bool(touches(context_of(session, tool, step), **(step.args or {})))
    return True


def warn_of_wait(session: Session, step: Step) -> None:
    """Warn that another run is changing the folder."""
    session.emit("warning", message=f"step {step.n} waits: another run is changing {session.run.folder}")


async def _with_snapshot(session: Session, step: Step) -> Step:
    """Take a snapshot of the folder. An interrupted call keeps its first one."""
    snapshots = session.run.snapshots
    tree = await snapshots.taken(session.run.id) if snapshots else ""
    if not tree or "tree_before" in step.evidence:
        return step
    return replace(step, evidence={**step.evidence, "tree_before": tree})


async def with_changes(session: Session, step: Step) -> Step:
    """Add the files that a call has changed, if there is a snapshot from before it."""
    snapshots, before = session.run.snapshots, step.evidence.get("tree_before")
    if snapshots is None or not before:
        return step
    try:
        found = await snapshots.evidence(session.run.id, session.doc.top(step.n), before)
    except FractalError as error:
        session.emit("warning", message=f"what step {step.n} changed is not known: {error}")
        return step
    return replace(step, evidence={**step.evidence, **found})


def _told(session: Session, step: Step) -> Step:
    """The step with the dangers of files that it has written although its call did not name them."""
    write = session.catalogue.tools.get("write")
    if write is None:
        return step
    files: Mapping[str, list[str]] = step.evidence.get("files", {})
    names = [name for kind, found in files.items() if kind != "removed" for name in found]
    asked = " ".join(map(str, step.evidence.get("dangers", ())))
    told = [
        f"it wrote {name}. {danger}"
        for name in names
        for danger in session.run.hooks.guard(write, {"path": name, "content": ""})
        if danger.rule not in asked
    ]
    for each in told:
        session.emit("warning", message=f"step {step.n}: {each}")
    return replace(step, evidence={**step.evidence, "told": told}) if told else step


def _storable(session: Session, n: int, evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence of an operation, which may be a plugin's, without what a document cannot hold."""
    kept: dict[str, Any] = {}
    for key, value in evidence.items():
        if wrong := unstorable({key: value}, EVIDENCE, "evidence"):
            session.emit("warning", message=f"step {n}: {wrong}; {key} is left out")
        else:
            kept[key] = value
    return kept


def _ended(session: Session, step: Step, tool: Tool, result: Result) -> Step:
    loop_id = operation_id(session, step.n, tool.name)
    evidence: dict[str, Any] = {**step.evidence, **_storable(session, step.n, result.evidence)}
    if files := step.evidence.get("touched"):
        evidence["touched"] = [
            {**each, "after": file_hash(session.run.folder / each["path"])} for each in files
        ]
    if result.images:
        evidence["images"] = [
            _kept(session, f"{loop_id}-{at}", each) for at, each in enumerate(result.images, 1)
        ]
    state, origin = "done" if result.ok else "failed", f"tool:{tool.name}"
    ended = replace(step, state=state, origin=origin, link=f"{loop_id}.md", evidence=evidence)
    ended = session.with_result(ended, result.text, f"{loop_id}.txt")
    return with_state(session, ended, result.keep) if result.ok else ended


def _kept(session: Session, name: str, image: Image) -> dict[str, str]:
    """Where the run keeps a picture, which the conversation shows from there."""
    ending = re.sub(r"[^a-z0-9]+", "-", image.kind.partition("/")[2].lower()) or "image"
    file = session.run.store.shelve_bytes(f"{name}.{ending}", image.data)
    return {"file": file, "kind": image.kind, "sha": bytes_hash(image.data)}


def _document(session: Session, step: Step, tool: Tool, began: str) -> Document:
    parent = session.doc.meta
    good = step.state == "done"
    meta = Meta(
        operation_id(session, step.n, tool.name),
        parent.run,
        level="operation",
        type=tool.name,
        parent=parent.id,
        depth=parent.depth + 1,
        status="complete" if good else "failed",
        phase="output",
        created=began,
        updated=now(),
    )
    return Document(
        meta,
        {
            1: Section(notes=(Note("task", _recorded_call(session, step, tool)),)),
            2: Section(notes=(Note("approach", tool.run or "guided"),)),
            3: Section(notes=(Note("evidence", to_json(dict(step.evidence))),)),
            4: Section(notes=(Note("decision", "ACCEPT" if good else "ESCALATE"),)),
            5: Section(notes=(Note("result" if good else "error", step.result or "", f"tool:{tool.name}"),)),
        },
    )


def _recorded_call(session: Session, step: Step, tool: Tool) -> str:
    """A call as its document names it."""
    call = f"{tool.name} {to_json(tool.in_order(step.args or {}))}"
    return cut(call, session.run.bounds.result_chars, f"{session.id}.md")


def recorded_outcome(session: Session, step: Step, *, same: bool = False) -> Step | None:
    """The ended step from its operation's document, if the operation had ended before a crash.

    `same`: only if it was this call, as the step may have been changed since.
    """
    loop_id = operation_id(session, step.n, step.tool)
    if not session.run.store.exists(loop_id):
        return None
    document = session.run.store.ended(loop_id)
    if document is None:
        return None
    if same:
        tool = session.catalogue.get(step.tool)
        if document.text(1, "task") != _recorded_call(session, _with_secrets(session, step, tool), tool):
            return None
    good = document.meta.status == "complete"
    state, result = ("done", "result") if good else ("failed", "error")
    evidence = json.loads(document.text(3, "evidence", "{}"))
    text = session.run.store.exact.conceal(document.text(5, result))
    step = replace(step, state=state, result=text, evidence=evidence)
    return replace(step, origin=f"tool:{step.tool}", link=f"{loop_id}.md")


def clean_up_after(session: Session, step: Step) -> None:
    """Remove the temporary files and sandbox folders of an interrupted call."""
    folder = session.run.folder.resolve()
    session.run.sandbox.clear(folder, session.run.protected)
    files = [Path(os.path.normpath(folder / each["path"])) for each in step.evidence.get("touched", [])]
    for path in {each for file in files for each in (file, *file.parents) if folder in each.parents}:
        disk.sweep(path.parent, path.name)


def recover_call(session: Session, step: Step) -> Step | str:
    """The outcome of a call that an earlier process had started.

    Returns the ended step, the step itself if the call can be made again, or a question if only a person can
    know.
    """
    tool = session.catalogue.get(step.tool)
    if ended := recorded_outcome(session, step):
        return ended
    clean_up_after(session, step)
    if tool.in_process and (settle := getattr(tool.function, "settle", None)):
        settle(context_of(session, tool, step), **(step.args or {}))
    seen = observed_effect(session, step)
    if seen == "half":
        seen = "not done" if _restore_files(session, step) else ""
    assume = session.run.policy.assumed(session.id, step.n)
    if tool.repeatable(step.args or {}) or seen == "not done" or (not seen and assume == "rerun"):
        return step
    if seen == "done" or assume == "done":
        how = "its files are as it leaves them" if seen else "as the person said"
        done = replace(step, state="done", result=f"done before the interruption: {how}", origin="kernel")
        return with_state(session, done)
    how = assume_command(session, step)
    call = call_text(tool, step.args or {})
    return f"step {step.n} ({call}) was interrupted and may have happened. Look, then {how}"


def assume_command(session: Session, step: Step) -> str:
    """The commands by which a person states the outcome of an interrupted step."""
    place = str(step.n) if session.root else f"{session.id}:{step.n}"
    again = f"`fractal resume {session.run.id} --assume {place}=rerun`"
    return f"{again} to have it done again, or `--assume {place}=done`"


def observed_effect(session: Session, step: Step) -> str:
    """Whether an interrupted call happened, by its files' hashes: `done`, `not done`, "" (unknown).

    `half`: some files have changed and the others have not.
    """
    files = step.evidence.get("touched", [])
    if not files:
        return ""
    present = [file_hash(session.run.folder / each["path"]) for each in files]
    if all(now_ == each["before"] for now_, each in zip(present, files, strict=True)):
        return "not done"
    after = [each["after"] for each in files]
    if present == after:
        return "done"
    halves = all(now_ in (each["before"], each["after"]) for now_, each in zip(present, files, strict=True))
    return "half" if halves else ""


def undo_call(session: Session, step: Step) -> bool:
    """Undo a call's changes if possible; whether its files are now as before it."""
    seen = observed_effect(session, step)
    return seen == "not done" or (seen in ("half", "done") and _restore_files(session, step))


def _restore_files(session: Session, step: Step) -> bool:
    """Restore the files that a call changed; whether all could be restored."""
    snapshots, tree = session.run.snapshots, step.evidence.get("tree_before", "")
    was = {each["path"]: each["before"] for each in step.evidence.get("touched", [])}
    differing = {path for path, before in was.items() if file_hash(session.run.folder / path) != before}
    there = {path for path in differing if was[path]}
    if snapshots is None or (there and not snapshots.has(tree, there)):
        return False
    snapshots.restore(tree, there, differing - there)
    return True
