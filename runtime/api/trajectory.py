"""A run as an ATIF trajectory (Agent Trajectory Interchange Format), which other programs read.

A loop is a trajectory; its child loops are `subagent_trajectories`. Within an attempt the order is that of
the phases, and of the turns in DO. A step of the plan needs no call of a model, because the kernel dispatches
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernel.asking.conversation import PROPOSED, THOUGHT, notes_of, turn_of
from kernel.asking.prompt import NOT_YET
from kernel.asking.turn import TURN
from kernel.document.model import Document, Step
from runtime import __version__

SCHEMA = "ATIF-v1.8"
NOTES = (
    "a turn comes before its own steps, any other call that decided steps before all steps of its attempt; "
    "dispatching a step needs no call"
)
_PLANNING = ("understand", "plan", "fused")


def trajectory_of(documents: Sequence[Document], loop: str) -> dict[str, Any]:
    """The trajectory of a loop and those below it, from all documents of its run, as plain JSON values."""
    document = next(each for each in documents if each.meta.id == loop)
    meta, spent = document.meta, document.meta.spent
    children = [each.meta.id for each in documents if each.meta.parent == loop and not each.meta.operation]
    steps = [
        {"step_id": n, **{key: value for key, value in step.items() if value or key != "timestamp"}}
        for n, step in enumerate(_steps(document, frozenset(children)), 1)
    ]
    models = [str(each["model"]) for each in meta.rungs if each.get("model") and each.get("calls")]
    below = [trajectory_of(documents, child) for child in children]
    return {
        "schema_version": SCHEMA,
        "session_id": meta.run,
        "trajectory_id": meta.id,
        "agent": {
            "name": "fractal",
            "version": __version__,
            **({"model_name": models[-1]} if models else {}),
        },
        "steps": steps,
        "notes": NOTES,
        "final_metrics": {
            "total_prompt_tokens": spent.get("prompt_tokens", 0),
            "total_completion_tokens": spent.get("completion_tokens", 0),
            **({"total_cached_tokens": spent["cached_tokens"]} if spent.get("cached_tokens") else {}),
            "total_cost_usd": spent.get("usd", 0.0),
            "total_steps": len(steps),
        },
        "extra": {"status": meta.word, "exit": int(meta.exit), "tool": meta.type},
        **({"subagent_trajectories": below} if below else {}),
    }


def _steps(document: Document, children: frozenset[str]) -> Iterator[dict[str, Any]]:
    """The task; of each attempt its plan, its steps and its verdict; the result."""
    yield {"source": "user", "timestamp": document.meta.created, "message": document.text(1, "task")}
    for note in document.section(1).notes:
        if note.key == "question":
            yield {"source": "agent", "message": note.text, "llm_call_count": 0}
        elif note.key in ("answer", "guidance"):
            yield {"source": "user", "message": note.text}
    attempts = {
        fold.attempt: {note.key: note.text for note in fold.notes} for fold in document.section(2).folds
    }
    attempts[document.meta.attempt] = {
        note.key: note.text for number in (2, 4) for note in document.section(number).notes
    }
    for attempt, said in sorted(attempts.items()):
        answers = [
            each for each in document.meta.rungs if each.get("attempt") == attempt and not each.get("passed")
        ]
        planning = [each for each in answers if each["phase"] in _PLANNING]
        yield from (_answer(each, {}) for each in planning[:-1])  # such as one that asked a person
        yield from (_answer(each, said) for each in planning[-1:])
        others = (*_PLANNING, TURN, "check")
        yield from (_answer(each, said) for each in answers if each["phase"] not in others)
        taken = [each for each in answers if each["phase"] == TURN]
        steps = _of_attempt(document, attempt, said)
        yield from _turns(document, attempt == document.meta.attempt, taken, steps, children)
        yield from (_answer(each, said) for each in answers if each["phase"] == "check")
    if document.ended:
        ends = (document.text(5, key) for key in ("result", "partial result", "error", "escalation"))
        message = next(filter(None, ends), "")
        yield {"source": "agent", "timestamp": document.meta.updated, "message": message, "llm_call_count": 0}


def _turns(
    document: Document,
    present: bool,
    taken: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    children: frozenset[str],
) -> Iterator[dict[str, Any]]:
    """The turns of an attempt, each with its steps. The first one may have been a plan, whose turn is 0.

    What a turn said is known of the present attempt.
    """
    first = 0 if any(not turn_of(step) for step in steps) else 1
    for number in range(max([len(taken) + first, *(turn_of(step) + 1 for step in steps)])):
        notes = {**notes_of(document, number, 2), **notes_of(document, number)} if present and number else {}
        if first <= number < len(taken) + first:
            plan = document.note(2, "approach") if present and not number else notes.get("approach")
            said = [note.text for note in (notes.get(THOUGHT), plan, notes.get(PROPOSED)) if note]
            yield _answer(taken[number - first], {"turn": "\n".join(said)})
        yield from (_dispatch(step, children) for step in steps if turn_of(step) == number)
        if NOT_YET in notes:
            yield {"source": "system", "message": notes[NOT_YET].text}


def _of_attempt(document: Document, attempt: int, said: Mapping[str, str]) -> list[Step]:
    """The steps of §3 that an attempt made; folded attempts list theirs."""
    if attempt == document.meta.attempt:
        return [step for n, step in document.steps.items() if n > document.meta.base]
    listed = {int(n) for n in re.findall(r"(?m)^(\d+)\. ", said.get("steps then", ""))}
    return [step for n, step in document.steps.items() if n in listed]


def _answer(entry: Mapping[str, Any], said: Mapping[str, str]) -> dict[str, Any]:
    """What a responder answered in one phase of an attempt; without a call it was a reflex or a person."""
    phase, calls = str(entry["phase"]), int(entry.get("calls", 0))
    keys = ("decision", "learned") if phase == "check" else ("approach",) if phase in _PLANNING else (TURN,)
    text = "\n".join(said[key] for key in keys if said.get(key))
    step: dict[str, Any] = {
        "source": "agent",
        "message": f"{phase}: {text}" if text else phase,
        "llm_call_count": calls,
    }
    step["model_name"] = str(entry.get("model") or entry["rung"])
    if calls:
        step["metrics"] = {
            "prompt_tokens": entry.get("prompt", 0),
            "completion_tokens": entry.get("out", 0),
            **({"cached_tokens": entry["cached"]} if entry.get("cached") else {}),
            **({"cost_usd": entry["usd"]} if entry.get("usd") is not None else {}),
        }
    return step


def _dispatch(step: Step, children: frozenset[str]) -> dict[str, Any]:
    """A step of the plan: a call of a tool, or a child loop, with its result."""
    id, child = f"step-{step.n}", step.child
    arguments = {"what": step.what} if step.args is None else dict(step.args)
    result: dict[str, Any] = {
        "source_call_id": id,
        "content": step.result or "",
        "extra": {"state": step.state},
    }
    if child in children:
        result["subagent_trajectory_ref"] = [{"trajectory_id": child}]
    return {
        "source": "agent",
        "message": step.what,
        "tool_calls": [{"tool_call_id": id, "function_name": step.tool or "subtask", "arguments": arguments}],
        "observation": {"results": [result]},
        "llm_call_count": 0,
    }
