"""Turns a match into a plan: steps, criteria and output, with the numbers of the document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernel.document.references import SHELL, escaped, in_shell
from runtime.reflexes.matching import Match
from runtime.reflexes.slots import Earlier
from runtime.reflexes.templates import Filling, Unbound
from runtime.text.expressions import empty

_ONE_RESULT = re.compile(r"\{\{ (steps\[\d+\][^{}]*?) \}\}")


@dataclass(frozen=True)
class Draft:
    """A plan for one match: steps, criteria, output, and the expressions under which its result is known."""

    steps: tuple[Mapping[str, Any], ...]
    success: tuple[Mapping[str, Any], ...]
    output: str
    result: str = ""  # such as `steps[2].result`; "" when the output is no result of one step
    facts: Mapping[str, str] = field(default_factory=dict)


def draft(match: Match, base: int) -> Draft:
    """The plan of a match, its steps numbered on from `base`. Raises `Unbound` when something is missing."""
    if match.parts:
        return _in_a_row(match, base)
    return _single(match, base, match.prior)


def _single(match: Match, base: int, before: tuple[Earlier, ...]) -> Draft:
    procedure = match.procedure
    assert procedure
    steps: list[Mapping[str, Any]] = []
    numbers: dict[int, tuple[int, ...]] = {}
    for own, step in enumerate(procedure.steps, 1):
        first = base + len(steps) + 1
        for slots in _each(step, match.slots):
            filling = Filling(slots, numbers, before)
            steps.append({"tool": step["tool"], "args": _arguments(step.get("args") or {}, filling)})
        numbers[own] = tuple(range(first, base + len(steps) + 1))
    filling = Filling(match.slots, numbers, before)
    success = [each for one in procedure.success for each in _criteria(one, filling)]
    output = str(filling.fill(procedure.output))
    result = _ONE_RESULT.fullmatch(output)
    facts = {name: str(filling.fill(where)) for name, where in procedure.facts.items()}
    return Draft(tuple(steps), tuple(success), output, result[1] if result else "", facts)


def _each(step: Mapping[str, Any], slots: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The slots once, or once for each value of the slot that the step is repeated for."""
    name = step.get("each")
    values = slots.get(name) if name else None
    if name and isinstance(values, tuple | list):
        return [{**slots, name: value} for value in values]
    return [slots]


def _arguments(template: Mapping[str, Any], filling: Filling) -> dict[str, Any]:
    """The arguments; one that is nothing but a slot that this phrasing does not have is left out."""
    filled: dict[str, Any] = {}
    for name, value in template.items():
        try:
            filled[name] = filling.fill(value)
        except Unbound:
            alone = isinstance(value, str) and re.fullmatch(r"\{\{\s*\w+\s*\}\}", value)
            if not alone or re.match(r"\{\{\s*(?:it|they)(?:_|\b)", value):
                raise
    return filled


def _criteria(template: Mapping[str, Any], filling: Filling) -> list[dict[str, Any]]:
    """A criterion in the document's numbers: one for each step that a step of the reflex became.

    A pattern that a value of the task makes to match any text is left out.
    """
    try:
        filled = filling.fill({key: value for key, value in template.items() if key != "step"})
    except Unbound:
        return []  # it is about a slot that this phrasing does not have
    if "run" in filled:
        filled["run"] = filling.fill(in_shell(str(template["run"])))[SHELL]
    if empty(filled):
        return []
    if "step" not in template:
        return [filled]
    return [{"step": number, **filled} for number in filling.numbers.get(int(template["step"]), ())]


# ---- several in a row ----------------------------------------------------------------------------------


def _in_a_row(match: Match, base: int) -> Draft:
    """Parts that pass results on are steps of this loop; each other part is a child."""
    inline = _inline(match)
    steps: list[Mapping[str, Any]] = []
    success: list[Mapping[str, Any]] = []
    outputs: list[tuple[bool, str]] = []
    before = match.prior
    for index, part in enumerate(match.parts):
        number = base + len(steps) + 1
        if index in inline:
            part_draft = _single(part, number - 1, before)
            steps += part_draft.steps
            success += part_draft.success
        else:
            needs = [number - 1] if steps else []
            steps.append({"subtask": escaped(part.task), "needs": needs})
            part_draft = Draft((), (), f"{{{{ steps[{number}].result }}}}", f"steps[{number}].result")
        outputs.append((index == len(match.parts) - 1 or _answers(match, index), part_draft.output))
        before += (replace(part.promise(), result=part_draft.result, facts=tuple(part_draft.facts.items())),)
    return Draft(tuple(steps), tuple(success), "\n\n".join(text for shown, text in outputs if shown))


def _inline(match: Match) -> set[int]:
    """The parts that use a result's text, and the parts whose result they use."""
    found: set[int] = set()
    for index, part in enumerate(match.parts):
        if part.inline:
            found.add(index)
            found |= set(range(index)) if part.uses_all else {index - 1} if index else set()
    return found


def _answers(match: Match, index: int) -> bool:
    """Whether a part before the last has an answer that no later part uses."""
    later = match.parts[index + 1]
    taken = later.uses_it or any(each.uses_all for each in match.parts[index + 1 :])
    return not taken and not match.parts[index].writes
