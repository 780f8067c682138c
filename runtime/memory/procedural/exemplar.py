"""What an accepted loop teaches: its task and the concrete steps that solved it, fit to be bound again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from kernel.document import Document, Step
from runtime.memory.procedural.alignment import Refusal
from runtime.memory.procedural.leaves import tokens

LEAST_RESULT = 2
"""Characters of a result that is looked for in later arguments and in the output: shorter ones are chance."""
LONGEST_RESULT = 2_000
FOREIGN = 6
"""Words of an argument that are not in the task, from which on it counts as text that was made for it."""
_NUMBERED = re.compile(r"steps\[(\d+)\]")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\d)")
_NAME = re.compile(r"[\w-]+(?:[./][\w-]+)+")
_WORD = re.compile(r"[^\W\d_]{3,}")
_REFERENCE = re.compile(r"\{\{.*?\}\}")
OWN = ("folder", "AGENTS.md")
"""The sources of context that a run finds by itself, and is not given."""


class Exemplar(BaseModel):
    """A task and the procedure that solved it, its steps numbered from 1."""

    model_config = ConfigDict(frozen=True)

    task: str
    steps: tuple[dict[str, Any], ...]
    success: tuple[dict[str, Any], ...] = ()
    output: str = ""  # with references to the results that it shows
    verified: bool = False  # some criterion failed before and held after
    made: bool = False  # some argument holds text that came from no task: only the very same task is the same


def exemplar(document: Document) -> Exemplar | Refusal:
    """What a finished loop teaches, or why nothing that could be done again without it."""
    meta = document.meta
    if meta.status != "complete":
        return Refusal(f"it ended {meta.status}")
    given = [n.source for n in document.section(1).notes if n.key == "context" and n.source not in OWN]
    if given:
        return Refusal(f"it was given {', '.join(given)[:200]} besides its task")
    if document.note(1, "answer") or document.note(1, "guidance"):
        return Refusal("a person answered or guided it")
    attempted = [document.steps.get(n) for n in document.planned]
    ended = [step for step in attempted if step is not None and step.state == "done"]
    if not ended or len(ended) != len(attempted):
        return Refusal("not every step of its last plan was done")
    numbers = {step.n: place for place, step in enumerate(ended, 1)}
    steps: list[dict[str, Any]] = []
    for step in ended:
        if not step.tool or step.share is not None:
            return Refusal(f"step {step.n} was a loop of its own")
        args = document.planned[step.n].args
        made = dict(args) if args is not None else _from_results(dict(step.args or {}), ended, step)
        missing = [n for n in _references(made) if n not in numbers]
        if missing:
            return Refusal(f"step {step.n} used step {missing[0]} of an earlier attempt")
        needs = sorted(numbers[need] for need in document.planned[step.n].needs if need in numbers)
        steps.append({"tool": step.tool, "args": renumbered(made, numbers), "needs": needs})
    success = [_renumbered_criterion(each, numbers) for each in _criteria(document)]
    if seen := _listed(document, steps):
        return Refusal(f"it used {seen}, which stood in the folder's listing and not in the task")
    told = _output(document.text(5, "result"), ended, numbers, document.task)
    if isinstance(told, Refusal):
        return told
    return Exemplar(
        task=document.task,
        steps=tuple(steps),
        success=tuple(success),
        output=told,
        verified=not meta.unverified,
        made=_made(document.task, steps),
    )


def _listed(document: Document, steps: Sequence[Mapping[str, Any]]) -> str:
    """A file that the plan names because the folder had it: in another folder it would be another."""
    listing = "\n".join(
        n.text for n in document.section(1).notes if n.key == "context" and n.source == "folder"
    )
    used = {word for step in steps for word in _NAME.findall(json.dumps(step["args"], ensure_ascii=False))}
    named = set(_NAME.findall(document.task))
    return next((word for word in sorted(used - named) if word in set(_NAME.findall(listing))), "")


def _made(task: str, steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some argument holds text of the planner's own, such as a poem or a program."""
    known = {word.lower() for word in _WORD.findall(task)}

    def foreign(value: Any) -> bool:
        if isinstance(value, str):
            return (
                sum(word.lower() not in known for word in _WORD.findall(_REFERENCE.sub("", value))) >= FOREIGN
            )
        if isinstance(value, Mapping):
            return any(map(foreign, value.values()))
        return isinstance(value, list | tuple) and any(map(foreign, value))

    return any(foreign(step["args"]) for step in steps)


def _criteria(document: Document) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in document.text(2, "success criteria").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            value = {"judge": line}
        found.append(value if isinstance(value, dict) else {"judge": line})
    return found


def _references(value: Any) -> set[int]:
    return {int(n) for n in _NUMBERED.findall(json.dumps(value, ensure_ascii=False))}


def renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    """A value whose references to steps have other numbers."""
    if isinstance(value, str):
        return _NUMBERED.sub(lambda hit: f"steps[{numbers[int(hit[1])]}]", value)
    if isinstance(value, Mapping):
        return {key: renumbered(each, numbers) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [renumbered(each, numbers) for each in value]
    return value


def _renumbered_criterion(criterion: dict[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    known = {key: renumbered(value, numbers) for key, value in criterion.items()}
    if isinstance(known.get("step"), int):
        known["step"] = numbers.get(known["step"], known["step"])
    return known


def _from_results(args: dict[str, Any], ended: Sequence[Step], now: Step) -> dict[str, Any]:
    """Arguments that were asked for, with references where they repeat an earlier step's result."""
    for name, value in args.items():
        for step in ended:
            result = (step.result or "").strip()
            if step.n < now.n and LEAST_RESULT <= len(result) <= LONGEST_RESULT and value == result:
                args[name] = f"{{{{ steps[{step.n}].result | trim }}}}"
    return args


def _output(text: str, ended: Sequence[Step], numbers: Mapping[int, int], task: str) -> str | Refusal:
    """The output with the results that it shows as references; what else it tells must stand in the task."""
    made = text
    for step in reversed(ended):
        result = (step.result or "").strip()
        if result and len(result) <= LONGEST_RESULT:
            whole = re.compile(rf"(?<![\w.]){re.escape(result)}(?![\w]|\.\d)")
            made = whole.sub(lambda _: f"{{{{ steps[{numbers[step.n]}].result | trim }}}}", made)  # noqa: B023
    told = {token.value for token in tokens(task) if token.kind == "number"}
    for hit in _NUMBER.finditer(re.sub(r"\{\{.*?\}\}", "", made)):
        value = next((token.value for token in tokens(hit[0]) if token.kind == "number"), None)
        if value not in told:
            return Refusal(f"its output tells {hit[0]}, which is no step's result and not in its task")
    return made
