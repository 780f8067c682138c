"""An operation is a loop whose four phases are code: check the arguments, prepare, act, validate.

Its intent is the parent's running entry; its own document is written once, at its end.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.acting import carry_out
from kernel.changes import deleted, files_of, going
from kernel.children import skills_of
from kernel.document import Document, Meta, Note, Section, Step
from kernel.enclosure import clear
from kernel.errors import DocumentError, FractalError, OperationFailed, raised_as
from kernel.events import now
from kernel.operations import OperationContext, Result, Touch, file_hash
from kernel.permits import effects_of, large_named, shown
from kernel.process import whole
from kernel.restoring import restore
from kernel.screening import cut, redact_forms, redacted
from kernel.states import moved, standing, told
from kernel.store import Save
from kernel.text import fingerprint, to_json
from kernel.tools import CHANGING, Tool
from kernel.trees import State
from kernel.workspace import child_id
from kernel.world import Held


def operation_id(held: Held, n: int, tool: str) -> str:
    """The id of the operation at a step."""
    return child_id(held.id, held.world.run, "operation", tool, n)


def prepare(held: Held, step: Step, tool: Tool) -> Step:
    """PLAN: the files that the call says it is about to change are hashed, before its effect begins."""
    if not tool.run.startswith("python:") or not (name := getattr(tool.function, "prepare", None)):
        return step
    if step.evidence.get("touched") and looked_at(held, step) != "not done":
        return step  # begun before an interruption
    touches: tuple[Touch, ...] = name(context_of(held, tool, step), **(step.args or {}))
    files = [
        {"path": held.world.shown(touch.path), "before": file_hash(touch.path), "after": touch.after}
        for touch in touches
    ]
    return replace(step, evidence={**step.evidence, "touched": files}) if files else step


def context_of(held: Held, tool: Tool, step: Step) -> OperationContext:
    """What a call of this loop gets: the world's context, and what its state machine's calls have kept.

    Files that are too large to be kept are protected, but those that an approved call names.
    """
    context = held.world.context(tool, skills_of(held.doc))
    if snapshots := held.world.snapshots:
        open_ = large_named(held.world, tool, step.args or {}) if step.evidence.get("approved") else []
        large = [path for path in snapshots.large or () if path not in open_]
        context = replace(context, protected=(*context.protected, *large))
    if tool.states is None:
        return context
    return replace(context, kept=standing(tool.states, tool.name, held.doc.steps.values()).kept)


def with_state(held: Held, step: Step, kept: Mapping[str, Any] | None = None) -> Step:
    """A step that counts as done without a call in this session: the machine of its tool moves on."""
    tool = held.world.catalogue.tools.get(step.tool)
    if tool is None or tool.states is None:
        return step
    others = [each for each in held.doc.steps.values() if each.n != step.n]
    now_ = standing(tool.states, tool.name, others)
    then = moved(tool.states, now_, str((step.args or {}).get(tool.states.by)), kept)
    return replace(step, evidence={**step.evidence, "state": then.evidence})


async def operate(
    held: Held, step: Step, tool: Tool, results: Mapping[int, str] | None = None, *, listed: bool = True
) -> Step:
    """DO and CHECK: act, take what came of it, write the operation's document; returns the ended step.

    Calls that may change files are made one at a time; the folder is kept before and after each. A step that
    is `listed` stands as running on the disk before its effect begins. `results` are those of earlier steps
    that its command uses.
    """
    began = now()
    changing = may_change(held, step, tool)
    snapshots = held.world.snapshots if changing else None
    alone = held.world.changing if changing else nullcontext()
    async with snapshots.turn(partial(tell_of_wait, held, step)) if snapshots else alone:
        try:
            with raised_as(OperationFailed):
                step = await _kept_before(held, step) if snapshots else step
                step = prepare(held, step, tool)
        except (OperationFailed, DocumentError) as error:
            return replace(step, state="failed", result=str(error), origin="kernel")
        if listed:
            held.put(step)
            held.flush()  # the intent is on disk, together with results that came before
            held.emit(
                "step_started", step=step.n, tool=tool.name, args=redacted(step.args or {}, redact_forms)
            )
        context = replace(context_of(held, tool, step), results=results or {})
        try:
            result = await carry_out(context, tool, dict(step.args or {}), held.world.runners)
        except asyncio.CancelledError:
            if listed and "tree_before" in step.evidence:
                held.put(await seen_after(held, step))
                held.flush()
            raise
        ended = _ended(held, await seen_after(held, step), tool, result)
    held.world.store.commit([Save(_document(held, ended, tool, began))])
    return ended


def may_change(held: Held, step: Step, tool: Tool) -> bool:
    """Whether a call may change files of the folder: one that names what it will change may name nothing."""
    if tool.scheme == "memory" or not CHANGING & effects_of(tool):
        return False
    function = tool.function if tool.scheme == "python" else None
    touches = getattr(function, "prepare", None)
    if touches and not getattr(function, "folders", False):
        with suppress(Exception):  # it is told when the call is prepared
            return bool(touches(context_of(held, tool, step), **(step.args or {})))
    return True


def tell_of_wait(held: Held, step: Step) -> None:
    """Say that another run is at work in the folder."""
    held.emit("warning", message=f"step {step.n} waits: another run is changing {held.world.folder}")


async def _kept_before(held: Held, step: Step) -> Step:
    """Keep the folder; what a call that was interrupted before had found stays what it began with."""
    snapshots = held.world.snapshots
    tree = await snapshots.taken(held.world.run) if snapshots else ""
    if not tree or "tree_before" in step.evidence:
        return step
    return replace(step, evidence={**step.evidence, "tree_before": tree})


async def seen_after(held: Held, step: Step) -> Step:
    """What a call has changed, as far as the folder was kept before it."""
    snapshots, before = held.world.snapshots, step.evidence.get("tree_before")
    if snapshots is None or not before:
        return step
    try:
        after = await snapshots.taken(held.world.run)
        moved = await whole(partial(snapshots.trees.changes, before, after))
    except FractalError as error:
        held.emit("warning", message=f"what step {step.n} changed is not known: {error}")
        return step
    found: dict[str, Any] = {"tree_after": after}
    if files := files_of(moved):
        found["files"] = files
    if told_ := going(held.world.run, held.doc.top(step.n), deleted(moved)):
        found["deleted"] = told_
    return replace(step, evidence={**step.evidence, **found})


def _ended(held: Held, step: Step, tool: Tool, result: Result) -> Step:
    loop_id = operation_id(held, step.n, tool.name)
    exact = held.world.redact_values(result.text)
    text = redact_forms(exact)
    evidence: dict[str, Any] = {**step.evidence, **result.evidence}
    if text != exact:  # what only looks like a secret must reach the files that it is written to
        evidence["unredacted"] = held.world.store.shelve(f"{loop_id}.exact.txt", exact)
    if files := step.evidence.get("touched"):
        evidence["touched"] = [
            {**each, "after": file_hash(held.world.folder / each["path"])} for each in files
        ]
    if tool.states and result.ok:
        now_ = standing(tool.states, tool.name, held.doc.steps.values())
        then = moved(tool.states, now_, str((step.args or {}).get(tool.states.by)), result.keep)
        evidence["state"] = redacted(then.evidence, held.world.redact)
        evidence["now"] = told(tool.states, then)
    limit = held.world.bounds.result_chars
    if len(text) > limit:
        whole = held.world.store.shelve(f"{loop_id}.txt", text)
        evidence |= {"whole": whole, "characters": len(text), "sha": fingerprint(text)[:8]}
        text = cut(text, limit, whole)
    return replace(
        step,
        state="done" if result.ok else "failed",
        result=text,
        origin=f"tool:{tool.name}",
        link=f"{loop_id}.md",
        evidence=evidence,
    )


def _document(held: Held, step: Step, tool: Tool, began: str) -> Document:
    parent = held.doc.meta
    good = step.state == "done"
    meta = Meta(
        operation_id(held, step.n, tool.name),
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
    call = redact_forms(f"{tool.name} {to_json(dict(step.args or {}))}")
    limit = held.world.bounds.result_chars
    return Document(
        meta,
        {
            1: Section(notes=(Note("task", cut(call, limit, f"{parent.id}.md")),)),
            2: Section(notes=(Note("approach", tool.run or "guided"),)),
            3: Section(notes=(Note("evidence", to_json(dict(step.evidence))),)),
            4: Section(notes=(Note("decision", "ACCEPT" if good else "ESCALATE"),)),
            5: Section(notes=(Note("result" if good else "error", step.result or "", f"tool:{tool.name}"),)),
        },
    )


def adopted(held: Held, step: Step) -> Step | None:
    """A running step whose operation had ended before the process died: its document tells the result."""
    loop_id = operation_id(held, step.n, step.tool)
    if not held.world.store.exists(loop_id):
        return None
    document = held.world.store.ended(loop_id)
    if document is None:
        return None
    good = document.meta.status == "complete"
    return replace(
        step,
        state="done" if good else "failed",
        result=document.text(5, "result" if good else "error"),
        origin=f"tool:{step.tool}",
        link=f"{loop_id}.md",
        evidence=json.loads(document.text(3, "evidence", "{}")),
    )


def sweep_after(held: Held, step: Step) -> None:
    """Remove what an interrupted call left: half-written files beside its own, folders of the sandbox."""
    folder = held.world.folder.resolve()
    clear(folder, held.world.protected)
    files = [Path(os.path.normpath(folder / each["path"])) for each in step.evidence.get("touched", [])]
    for path in {each for file in files for each in (file, *file.parents) if folder in each.parents}:
        disk.sweep(path.parent, path.name)


def recovered(held: Held, step: Step) -> Step | str:
    """What became of a call that an earlier process had begun: its ended step.

    Or the step itself, when the call can be made (again); or a question, where only a person can know.
    """
    tool = held.world.catalogue.get(step.tool)
    if ended := adopted(held, step):
        return ended
    sweep_after(held, step)
    if tool.scheme == "python" and (settle := getattr(tool.function, "settle", None)):
        settle(context_of(held, tool, step), **(step.args or {}))
    seen = looked_at(held, step)
    if seen == "half" and _put_back(held, step):
        seen = "not done"
    assume = held.world.policy.assumed(held.id, step.n)
    if tool.repeatable(step.args or {}) or seen == "not done" or (not seen and assume == "rerun"):
        return step
    if seen == "done" or assume == "done":
        how = "its files are as it leaves them" if seen else "as the person said"
        done = replace(step, state="done", result=f"done before the interruption: {how}", origin="kernel")
        return with_state(held, done)
    how = how_to_say(held, step)
    call = shown(tool, step.args or {})
    return f"step {step.n} ({call}) was interrupted and may have happened. Look, then {how}"


def how_to_say(held: Held, step: Step) -> str:
    """The command that says of one step what to think of it."""
    place = str(step.n) if held.root else f"{held.id}:{step.n}"
    again = f"`fractal resume {held.world.run} --assume {place}=rerun`"
    return f"{again} to have it done again, or `--assume {place}=done`"


def looked_at(held: Held, step: Step) -> str:
    """Whether an interrupted call happened, by its files' hashes: `done`, `not done`, "" (unknown).

    `half`: some of its files are as it leaves them, the others as they were, and those can be had back.
    """
    files = step.evidence.get("touched", [])
    if not files:
        return ""
    present = [file_hash(held.world.folder / each["path"]) for each in files]
    if all(now_ == each["before"] for now_, each in zip(present, files, strict=True)):
        return "not done"
    after = [each["after"] for each in files]
    if present == after:
        return "done"
    halves = all(now_ in (each["before"], each["after"]) for now_, each in zip(present, files, strict=True))
    return "half" if halves and _stood_before(held, step) is not None else ""


def taken_back(held: Held, step: Step) -> bool:
    """Whether what a call did to files could be undone, or was: they stand as they did before it."""
    seen = looked_at(held, step)
    return seen == "not done" or (seen in ("half", "done") and _put_back(held, step))


def _put_back(held: Held, step: Step) -> bool:
    """Undo what a call did to its files, so that it can be made anew; whether all of it could be undone."""
    before, snapshots = _stood_before(held, step), held.world.snapshots
    if before is None or snapshots is None:
        return False
    restore(snapshots.trees, before)
    return True


def _stood_before(held: Held, step: Step) -> dict[str, State | None] | None:
    """What stood where a call has changed files; None where some of it was not kept."""
    snapshots, folder = held.world.snapshots, held.world.folder
    if snapshots is None:
        return None
    was = {each["path"]: each["before"] for each in step.evidence.get("touched", [])}
    was = {path: before for path, before in was.items() if file_hash(folder / path) != before}
    found: dict[str, State | None] = {path: None for path, before in was.items() if not before}
    if tree := step.evidence.get("tree_before"):
        with suppress(FractalError):
            known = snapshots.trees.states(tree, was.keys() - found.keys())
            found |= {path: state for path, state in known.items() if state.kept}
    return found if len(found) == len(was) else None
