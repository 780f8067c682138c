"""Arguments taken apart: fixed text, and the places where a value of the task stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from runtime.memory.procedural.leaves import Token

_REFERENCE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_STEP = re.compile(r"steps\[\d+\]")
_NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+)(?![\w.])")

Way = tuple[str | int, ...]
"""Where a value stands in steps: the step, `args`, the argument, and on."""
Use = tuple[str, str]
"""A variable of the task, and what is done with it: nothing, or `hundredth` of a percentage."""


@dataclass(frozen=True)
class Variable:
    """A leaf, or a name or noun that is exchanged, of one task: its id is the same in all that align."""

    id: str
    kind: str  # number, path, url, quoted, word
    value: Fraction | str
    unit: str = ""
    places: tuple[Token, ...] = ()


@dataclass(frozen=True)
class Part:
    """Fixed text; or a place, with its text, and the variables that could stand there."""

    text: str
    place: str = ""  # number, typed, text; "" is fixed text
    uses: frozenset[Use] = frozenset()


def flat(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """The values inside, each with its way; an empty list or mapping is a value."""
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    if not inner:
        yield way, value
    for key, each in inner:
        yield from flat(each, (*way, key))


def built(values: Iterable[tuple[Way, Any]]) -> Any:
    """The other way round: lists and mappings from ways and values."""
    found: dict[Any, Any] = {}
    for way, value in values:
        if not way:
            return value
        found.setdefault(way[0], []).append((way[1:], value))
    made = {key: built(inner) for key, inner in found.items()}
    return list(made.values()) if made and all(isinstance(key, int) for key in made) else made


def spaced(value: Any) -> Any:
    """References in one way of writing."""
    return _REFERENCE.sub(r"{{ \1 }}", value) if isinstance(value, str) else value


def foreign(text: str) -> bool:
    """Whether it holds braces that would be read as a slot."""
    return any(not _STEP.match(hit[1]) for hit in _REFERENCE.finditer(text))


def parts(value: Any, variables: Iterable[Variable]) -> list[Part]:
    """An argument, taken apart by the variables of its task."""
    known = list(variables)
    if isinstance(value, bool) or value is None or isinstance(value, Mapping | list | tuple):
        return [Part(repr(value))]
    if isinstance(value, int | float):
        return [_number(str(value), "typed", known)]
    text = str(value)
    if whole := _texts(text, known):
        return [Part(text, "text", whole)]
    found: list[Part] = []
    for at, piece in enumerate(re.split(r"(\{\{.*?\}\})", text)):
        found += [Part(spaced(piece))] if at % 2 else _in_text(piece, known)
    return _joined(found)


def _texts(text: str, known: list[Variable]) -> frozenset[Use]:
    return frozenset((each.id, "") for each in known if each.kind != "number" and each.value == text)


def _in_text(text: str, known: list[Variable]) -> list[Part]:
    values = sorted({str(v.value) for v in known if v.kind != "number" and v.value}, key=len, reverse=True)
    if not values:
        return list(_in_numbers(text, known))
    found: list[Part] = []
    at = 0
    for hit in re.finditer(rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, values))})(?![\w/-])", text):
        found += [*_in_numbers(text[at : hit.start()], known), Part(hit[0], "text", _texts(hit[0], known))]
        at = hit.end()
    return [*found, *_in_numbers(text[at:], known)]


def _in_numbers(text: str, known: list[Variable]) -> Iterator[Part]:
    at = 0
    for hit in _NUMBER.finditer(text):
        yield Part(text[at : hit.start()])
        yield _number(hit[0], "number", known)
        at = hit.end()
    yield Part(text[at:])


def _number(text: str, place: str, known: list[Variable]) -> Part:
    uses: set[Use] = set()
    try:
        value = Fraction(text)
    except ValueError:
        return Part(text)
    for each in known:
        if each.kind != "number":
            continue
        if each.value == value:
            uses.add((each.id, ""))
        if each.unit == "%" and each.value == value * 100:
            uses.add((each.id, "hundredth"))
    return Part(text, place, frozenset(uses))


def _joined(found: list[Part]) -> list[Part]:
    made: list[Part] = []
    for part in found:
        if not part.place and made and not made[-1].place:
            made[-1] = Part(made[-1].text + part.text)
        elif part.place or part.text:
            made.append(part)
    return made
