"""Fills `{{ … }}` in a reflex's steps: slots of the phrasing, results of steps, and earlier results.

Slots are filled in when the plan is made; a result of a step stays a reference for the kernel. Whatever a
person wrote is put in as text that the kernel never takes for a reference.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kernel.document.references import SHELL, Whose, escaped, renumbered
from runtime.reflexes.slots import Earlier, It

_HOLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_STEP = re.compile(r"steps\[(\d+)\]")
_JOINT = re.compile(r"\s*\|\s*join\('([^']*)'\)")
_RESERVED = frozenset(
    {"and", "or", "not", "is", "in", "empty", "where", "by", "desc", "asc", "contains", "rows", "of"}
)
"""Words of the questions that the operation csv understands: as a name or value they stand in quotes."""


def for_csv(text: str) -> str:
    """A name of a column or a value as a question to a CSV file has it: quoted when it must be."""
    if re.fullmatch(r"[\w.-]+", text) and text.lower() not in _RESERVED:
        return text
    mark = next((mark for mark in "\"'`" if mark not in text), '"')
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


def _for_json(text: str) -> str:
    """A path in JSON: verbatim, or as one quoted key."""
    plain = re.fullmatch(r"[\w-]+(?:\.[\w-]+|\[\d+\])*", text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _for_lines(text: str) -> str:
    """A text in a question to the operation lines."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _hundredth(text: str) -> str:
    """A percentage as the number to multiply by: 15 as 0.15."""
    value = Fraction(text) / 100
    return str(value.numerator) if value.denominator == 1 else json.dumps(float(value))


def _words(text: str) -> str:
    """A pattern of any content word of a text."""
    return "|".join(re.escape(word) for word in re.findall(r"\w{3,}", text) if word.lower() != "our") or r"\w"


_FILTERS: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "number": _number,
    "hundredth": _hundredth,
    "sh": shlex.quote,
    "re": re.escape,
    "words": _words,
    "csv": for_csv,
    "json": _for_json,
    "lines": _for_lines,
    "sql": lambda text: "'{}'".format(text.replace("'", "''")),
    "stem": lambda path: path.rpartition(".")[0],
}
"""What can be done with a slot: as text, as a number, as a share of one; quoted for a shell, a pattern, or a
question to a CSV or JSON file or to lines; as a pattern of any of its words; a path without its ending."""


class Unbound(LookupError):
    """A template names a slot that this phrasing does not have, or a result that is not there."""


@dataclass(frozen=True)
class Filling:
    """All that a template may name."""

    slots: Mapping[str, Any]
    numbers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # own step → numbers in the document
    before: tuple[Earlier, ...] = ()  # the results before

    def fill(self, template: Any) -> Any:
        """A copy of `template` with every hole filled; raises `Unbound`. One hole alone keeps its type."""
        if isinstance(template, Mapping):
            return {
                key: self.fill(renumbered({key: value}, self._number)[key] if key == SHELL else value)
                for key, value in template.items()
            }
        if isinstance(template, list):
            return [self.fill(each) for each in template]
        if not isinstance(template, str):
            return template
        if alone := _HOLE.fullmatch(template):
            return self._value(alone[1])
        return _HOLE.sub(lambda hole: str(self._value(hole[1])), template)

    def _value(self, expression: str) -> Any:
        name = re.match(r"\w*", expression)
        head = name[0] if name else ""
        if head == "steps":
            return self._reference(expression)
        if re.fullmatch(r"it|they|it_\w+", head):
            return self._before(head, expression[len(head) :])
        slot, *filters = (part.strip() for part in expression.split("|"))
        if self.slots.get(slot) is None:
            raise Unbound(f"there is no slot {slot}")
        value = self.slots[slot]
        if isinstance(value, It):
            return self.fill(str(value))
        for each in filters:
            value = _filtered(value, each)
        return escaped(value)

    def _number(self, whose: Whose, own: int) -> int:
        """The number of an own step whose result a command gets."""
        numbers = self.numbers.get(own, ())
        if len(numbers) != 1:
            raise Unbound(f"step {own} has no single result")
        return numbers[0]

    def _reference(self, expression: str) -> str:
        own = int(_STEP.match(expression)[1])  # type: ignore[index]
        rest = _STEP.sub("", expression, count=1)
        if own not in self.numbers:
            raise Unbound(f"there is no step {own}")
        return "\n".join(f"{{{{ steps[{number}]{rest} }}}}" for number in self.numbers[own])

    def _before(self, head: str, rest: str) -> str:
        latest = self.before[-1] if self.before else Earlier(frozenset())
        if head.startswith("it_"):
            facts = {"file": escaped(latest.file), "column": escaped(latest.column), **dict(latest.facts)}
            value = facts.get(head.removeprefix("it_"))
            if not value:
                raise Unbound(f"the result before has no {head.removeprefix('it_')}")
            return str(value)
        if latest.text is None and not latest.result:
            raise Unbound("there is no result before")
        results = [f"{{{{ {each.result} }}}}" for each in self.before if each.result]
        results = results or [escaped(each.text) for each in self.before if each.text is not None]
        joint = _JOINT.fullmatch(rest)
        if head == "it" and not rest:
            return results[-1]
        if head == "it" or not joint:
            raise Unbound("it stands alone, and they can only be joined")
        return joint[1].join(results)


def _filtered(value: Any, name: str) -> Any:
    if joint := _JOINT.fullmatch(f"|{name}"):
        return joint[1].join(str(each) for each in value)
    if name == "length":
        return len(value)
    if name not in _FILTERS:
        raise Unbound(f"there is no filter {name}")
    if isinstance(value, list | tuple):
        return [_FILTERS[name](str(each)) for each in value]
    return _FILTERS[name](str(value))


def plain(template: str, slots: Mapping[str, Any]) -> str:
    """A template of slots alone, as text for a person or a path; raises `Unbound`."""

    def value(hole: re.Match[str]) -> str:
        found = slots.get(hole[1])
        if isinstance(found, list | tuple) and len(found) == 1:
            found = found[0]
        if found is None or isinstance(found, It | list | tuple):
            raise Unbound(hole[1])
        return str(found)

    return _HOLE.sub(value, template)
