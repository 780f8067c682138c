"""An operation is a loop whose four phases are code: check the arguments, prepare, act, validate.

Its intent is the parent's running entry; its own document is written once, at its end.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.acting import act
from kernel.children import skills_of
from kernel.document import Document, Meta, Note, Section, Step
from kernel.enclosure import clear
from kernel.errors import FractalError, OperationFailed
from kernel.events import now
from kernel.evidence import cut
from kernel.operations import OperationContext, Result, Touch, file_hash
from kernel.screening import redacted
from kernel.states import moved, standing, told
from kernel.store import Save
from kernel.text import fingerprint, to_json
from kernel.tools import Tool
from kernel.workspace import child_id
from kernel.world import Held

KEEP_BYTES = 50_000_000
"""A larger file is not kept for `undo`; its step says so."""


def operation_id(held: Held, n: int, tool: str) -> str:
    """The id of the operation at a step."""
    return child_id(held.id, held.world.run, "operation", tool, n)


def prepare(held: Held, step: Step, tool: Tool) -> Step:
    """PLAN: what the call is about to change is kept and hashed, before its effect begins."""
    if not tool.run.startswith("python:") or not (name := getattr(tool.function, "prepare", None)):
        return step
    if step.evidence.get("touched") and looked_at(held, step) != "not done":
        return step  # begun before an interruption: what it replaced is kept already
    try:
        touches: tuple[Touch, ...] = name(context_of(held, tool), **(step.args or {}))
    except (RecursionError, MemoryError) as error:  # of a folder that was made for it
        raise OperationFailed(f"{tool.name}: {type(error).__name__}: {error}") from None
    files = [_keep(held, step, number, touch) for number, touch in enumerate(touches)]
    return replace(step, evidence={**step.evidence, "touched": files}) if files else step


def _keep(held: Held, step: Step, number: int, touch: Touch) -> dict[str, Any]:
    before = file_hash(touch.path)
    entry: dict[str, Any] = {"path": held.world.shown(touch.path), "before": before, "after": touch.after}
    if before and touch.path.stat().st_size <= KEEP_BYTES:
        kept = held.world.artifacts / "kept" / f"{operation_id(held, step.n, step.tool)}-{number}"
        raw, mode = touch.path.read_bytes(), touch.path.stat().st_mode & 0o777
        with disk.of_the_state(kept):
            disk.put(kept, raw, mode=mode)
        entry["kept"] = f"artifacts/kept/{kept.name}"
    return entry


def context_of(held: Held, tool: Tool) -> OperationContext:
    """What a call of this loop gets: the world's context, and what its state machine's calls have kept."""
    context = held.world.context(tool, skills_of(held.doc))
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


async def operate(held: Held, step: Step, tool: Tool) -> Step:
    """DO and CHECK: act, take what came of it, write the operation's document; returns the ended step."""
    began = now()
    try:
        async with asyncio.timeout(tool.timeout or None):
            result = await act(context_of(held, tool), tool, dict(step.args or {}), held.world.runners)
    except TimeoutError:
        result = Result(f"{tool.name} took longer than {tool.timeout:g} s and was stopped", ok=False)
    except FractalError as error:
        result = Result(str(error), ok=False)
    except Exception as error:  # a fault in the operation's code is its step's result, not the run's end
        result = Result(f"{tool.name} failed: {type(error).__name__}: {error}", ok=False)
    ended = _ended(held, step, tool, result)
    held.world.store.commit([Save(_document(held, ended, tool, began))])
    return ended


def _ended(held: Held, step: Step, tool: Tool, result: Result) -> Step:
    text = held.world.redact(result.text)
    evidence: dict[str, Any] = {**step.evidence, **result.evidence}
    if files := step.evidence.get("touched"):
        evidence["touched"] = [
            {**each, "after": file_hash(held.world.folder / each["path"])} for each in files
        ]
    if tool.states and result.ok:
        now_ = standing(tool.states, tool.name, held.doc.steps.values())
        then = moved(tool.states, now_, str((step.args or {}).get(tool.states.by)), result.keep)
        evidence["state"] = redacted(then.evidence, held.world.redact)
        text = f"{text}\n[{told(tool.states, then)}]"
    loop_id = operation_id(held, step.n, tool.name)
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
    call = f"{tool.name} {to_json(dict(step.args or {}))}"
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
        settle(context_of(held, tool), **(step.args or {}))
    seen = looked_at(held, step)
    if seen == "half":
        put_back(held, step)
        seen = "not done"
    assume = held.world.policy.assumed(held.id, step.n)
    if tool.repeatable(step.args or {}) or seen == "not done" or (not seen and assume == "rerun"):
        return step
    if seen == "done" or assume == "done":
        how = "its files are as it leaves them" if seen else "as the person said"
        done = replace(step, state="done", result=f"done before the interruption: {how}", origin="kernel")
        return with_state(held, done)
    how = how_to_say(held, step)
    return f"step {step.n} ({tool.name}) was interrupted and may have happened. Look, then {how}"


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
    changed = [each for now_, each in zip(present, files, strict=True) if now_ != each["before"]]
    after = [each["after"] for each in files]
    if present == after:
        return "done"
    pairs = zip(present, files, strict=True)
    halves = all(now_ in (each["before"], each["after"]) for now_, each in pairs)
    return "half" if halves and all("kept" in each or not each["before"] for each in changed) else ""


def taken_back(held: Held, step: Step) -> bool:
    """Whether what a call did to files could be undone, or was: they stand as they did before it."""
    files = step.evidence.get("touched", [])
    seen = looked_at(held, step)
    changed = [each for each in files if file_hash(held.world.folder / each["path"]) != each["before"]]
    kept = [held.world.artifacts.parent / each.get("kept", "") for each in changed if each["before"]]
    if seen in ("half", "done") and all(path.is_file() for path in kept):
        put_back(held, step)
        return True
    return seen == "not done"


def put_back(held: Held, step: Step) -> None:
    """Undo what a call did to the files that are as it leaves them, so that it can be made anew."""
    for each in step.evidence.get("touched", []):
        path = held.world.folder / each["path"]
        if file_hash(path) == each["before"]:
            continue
        if each["before"]:
            disk.restore(path, held.world.artifacts.parent / each["kept"])
        else:
            path.unlink()
