"""What an accepted loop teaches: its task and the concrete steps that solved it, fit to be bound again."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from kernel.document import Document
from kernel.offering import found_by_itself
from kernel.references import references
from kernel.screening import redact_forms
from runtime.memory.procedural.alignment import Refusal
from runtime.memory.procedural.grounding import foreign, from_results, output, seen_only, unfounded
from runtime.memory.procedural.numbering import placed, renumbered, without_filters

LONGEST_TASK = 4_000
"""Characters of a task that memory looks at: a longer one is a text, and hardly comes twice."""
LONGEST_STEPS = 50_000


class Exemplar(BaseModel):
    """A task and the procedure that solved it, its steps numbered from 1."""

    model_config = ConfigDict(frozen=True)

    task: str
    steps: tuple[dict[str, Any], ...]
    success: tuple[dict[str, Any], ...] = ()
    output: str = ""  # with references to the results that it shows
    verified: bool = False  # some criterion failed before and held after
    made: bool = False  # some argument holds text that came from no task: only the very same task is the same

    @model_validator(mode="before")
    @classmethod
    def _in_todays_form(cls, data: Any) -> Any:
        return without_filters(data)


def exemplar(document: Document, reports: Collection[str] = ()) -> Exemplar | Refusal:
    """What a finished loop teaches, or why nothing that could be done again without it.

    `reports` are the words of an output that tell nothing of what was found.
    """
    meta, task = document.meta, document.text(1, "task")  # as it was asked, and will be asked again
    if meta.status != "complete":
        return Refusal(f"it ended {meta.status}")
    if len(task) > LONGEST_TASK:
        return Refusal(f"its task is longer than {LONGEST_TASK} characters")
    given = [
        n.source for n in document.section(1).notes if n.key == "context" and not found_by_itself(n.source)
    ]
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
        made = dict(args) if args is not None else from_results(dict(step.args or {}), ended, step)
        if args is None and (found := unfounded(task, made)):
            return Refusal(f"step {step.n} was given {found!r} once results had been seen")
        missing = [n for n in references(made) if n not in numbers]
        if missing:
            return Refusal(f"step {step.n} used step {missing[0]} of an earlier attempt")
        needs = sorted(numbers[need] for need in document.planned[step.n].needs if need in numbers)
        steps.append({"tool": step.tool, "args": renumbered(made, numbers), "needs": needs})
    if len(json.dumps(steps)) > LONGEST_STEPS:
        return Refusal(f"its steps hold more than {LONGEST_STEPS} characters")
    if redact_forms(told := json.dumps(steps, ensure_ascii=False)) != told:
        return Refusal("its steps hold a text in the form of a secret")
    success = [placed(each, numbers) for each in _criteria(document)]
    if seen := seen_only(document, steps):
        return Refusal(f"it used {seen}, which it had from what was there, and not from the task")
    told, beside = output(document.text(5, "result"), ended, numbers, task, reports)
    if beside:
        if not any(step.evidence.get("touched") for step in ended):
            return Refusal(f"its output tells {beside!r}, which is in no step's result and not in its task")
        told = f"{{{{ steps[{len(ended)}].result }}}}"  # what was done says it itself
    return Exemplar(
        task=task,
        steps=tuple(steps),
        success=tuple(success),
        output=told,
        verified=not meta.unverified,
        made=any(foreign(task, step["args"]) for step in steps),
    )


def _criteria(document: Document) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in document.text(2, "success criteria").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            value = {"judge": line}
        found.append(value if isinstance(value, dict) else {"judge": line})
    return found
