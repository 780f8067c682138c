"""The operation json: a value in a JSON document, such as `people[0].name`, its keys or its length."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Any

from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch
from runtime.operations.texts import encoded, file_or_text, save_to
from runtime.sandbox.context import OperationContext, operation

LONGEST = 1_000
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
_STEP = re.compile(
    rf"\.(?P<name>[^\s.\[\]|\"']+)|\.(?P<key>{_QUOTED})|\.?\[\s*(?P<quoted>{_QUOTED})\s*\]"
    r"|\.?\[\s*(?P<index>-?[0-9]{1,9})\s*\]|\.?\[\s*\*?\s*\]"
)
_PART = re.compile(rf"(?:{_QUOTED}|[^|\"'])+")
_EXACT = Context(prec=5_000, traps=[Inexact, InvalidOperation, Overflow])
_TYPES = {str: "text", dict: "object", list: "list", bool: "boolean", type(None): "null"}
_ENDS = ("keys", "length", "type", "values", "sum")


def _prepare(ctx: OperationContext, to: str = "", **_: Any) -> tuple[Touch, ...]:
    return (Touch(ctx.writable(to)),) if to else ()


@operation(_prepare)
def query_json(
    ctx: OperationContext, query: str, path: str = "", text: str = "", value: str = "", to: str = ""
) -> Result:
    """The value at a path: text as it is, other values as JSON; or its `keys`, `length`, `type`.

    With `value` the document with that value at the path is written to `to`.
    """
    if bool(value) != bool(to):
        raise OperationFailed("to set a value, give value and to")
    if len(query) > LONGEST:
        raise OperationFailed(f"the query is longer than {LONGEST:,} characters")
    name = path or "the text"
    document = _read(file_or_text(ctx, path, text, "the JSON file"), name)
    place, ends = _parts(query, document)
    if value:
        return _set(ctx, document, place, query, value, to)
    try:
        found = _walk(document, place, query)
        for end in ends:
            found = _end_applied(found, end, query)
        shown = _shown(found)
    except RecursionError:
        raise OperationFailed(f"{name}: nested too deeply to be shown") from None
    return Result(shown, evidence={"type": _type(found)})


def _set(
    ctx: OperationContext, document: Any, place: list[str | int | None], query: str, value: str, to: str
) -> Result:
    """Write the document with a value at a path whose parent exists."""
    if not place or None in place:
        raise OperationFailed(f"{query}: name one key or item to set")
    try:
        new = _loads(value)
    except ValueError:
        raise OperationFailed(f"value: {value[:60]!r} is not JSON; a text stands in double quotes") from None
    parent, last = _walk(document, place[:-1], query), place[-1]
    if isinstance(parent, dict):
        parent[str(last)] = new
    else:
        _child(parent, str(last), query)  # raises where there is no such item
        parent[int(str(last))] = new
    return save_to(ctx, to, encoded(f"{_dumped(document)}\n"), f"{query} = {value}", {})


@dataclass(frozen=True)
class _Number:
    """A number with all digits of the document."""

    text: str


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def _read(text: str, name: str) -> Any:
    """The document; JSON lines are a list."""
    try:
        return _loads(text)
    except RecursionError:
        raise OperationFailed(f"{name}: nested too deeply to be read") from None
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if error.msg == "Extra data" and len(lines) > 1:
            with suppress(ValueError, RecursionError):
                return [_loads(line) for line in lines]
        where = f"line {error.lineno}, column {error.colno}"
        raise OperationFailed(f"{name}: not JSON: {error.msg.lower()} ({where})") from None


def _parts(query: str, document: Any) -> tuple[list[str | int | None], list[str]]:
    """The steps of the path (None: all items), and the functions of the value."""
    parts = _PART.findall(query)
    if "|".join(parts) != query:
        raise OperationFailed(
            f"cannot read {query[:60]!r}; write such as people[0].name, a['b c'] or a | length"
        )
    place, *ends = [part.strip() for part in parts] or [""]
    ends = [end.lower() for end in ends]
    if place.lower() in _ENDS:
        if isinstance(document, dict) and place in document:
            raise OperationFailed(
                f"{place!r} is a key here; write [{json.dumps(place)}] for it, or . | {place}"
            )
        place, ends = "", [place.lower(), *ends]
    elif hit := re.fullmatch(r"(keys|length|type|values|sum) (?:of )?(.+)", place, re.IGNORECASE):
        place, ends = hit[2], [hit[1].lower(), *ends]
    if wrong := [end for end in ends if end not in _ENDS]:
        raise OperationFailed(f"{wrong[0]!r} is none of {', '.join(_ENDS)}")
    place = re.sub(r"^\$(?=[.\[]|$)", "", place)
    place = place if not place or place[0] in ".[" else f".{place}"
    steps: list[str | int | None] = []
    at = 0 if place != "." else 1
    while at < len(place):
        hit = _STEP.match(place, at)
        if hit is None:
            raise OperationFailed(
                f"cannot read {place[at:][:40]!r}; write such as people[0].name or a['b c']"
            )
        steps.append(_step(hit))
        at = hit.end()
    return steps, ends


def _step(hit: re.Match[str]) -> str | int | None:
    if hit["name"] is not None:
        return None if hit["name"] == "*" else hit["name"]
    if hit["index"] is not None:
        return int(hit["index"])
    quoted = hit["key"] or hit["quoted"]
    if quoted is None:
        return None
    try:
        return str(json.loads(quoted, strict=False)) if quoted[0] == '"' else quoted[1:-1]
    except ValueError:
        raise OperationFailed(f"{quoted[:40]}: not a name in quotes") from None


def _walk(value: Any, steps: list[str | int | None], query: str, at: int = 0) -> Any:
    for number, step in enumerate(steps[at:], at + 1):
        if step is None:
            return [_walk(each, steps, query, number) for each in _items(value, query)]
        value = _child(value, step, query)
    return value


def _items(value: Any, query: str) -> list[Any]:
    if isinstance(value, (dict, list)):
        return list(value.values()) if isinstance(value, dict) else value
    raise OperationFailed(f"{query}: a {_type(value)} has no items")


def _child(value: Any, step: str | int, query: str) -> Any:
    if isinstance(value, dict):
        if str(step) in value:
            return value[str(step)]
        listed = ", ".join(list(value)[:30]) or "none"
        raise OperationFailed(f"{query}: there is no key {str(step)!r}; there are {listed}")
    if isinstance(value, list):
        if not re.fullmatch(r"-?\d{1,9}", str(step)):
            raise OperationFailed(f"{query}: {step!r} of a list; write [0] for an item or [*] for all")
        if not -len(value) <= int(step) < len(value):
            raise OperationFailed(f"{query}: there is no item {step}; the list has {len(value)}")
        return value[int(step)]
    raise OperationFailed(f"{query}: {str(step)!r} of a {_type(value)}, which has no parts")


def _end_applied(value: Any, end: str, query: str) -> Any:
    if end == "type":
        return _type(value)
    if end == "length" and isinstance(value, (dict, list, str)):
        return len(value)
    if end == "keys" and isinstance(value, (dict, list)):
        return list(value if isinstance(value, dict) else range(len(value)))
    if end == "values":
        return _items(value, query)
    if end == "sum" and isinstance(value, list):
        return _sum(value, query)
    raise OperationFailed(f"{query}: a {_type(value)} has no {end}")


def _sum(items: list[Any], query: str) -> Any:
    if not all(isinstance(each, _Number) for each in items):
        raise OperationFailed(f"{query}: not all items are numbers")
    try:
        total = Decimal(0)
        for each in items:
            total = _EXACT.add(total, Decimal(each.text))
        return _Number(f"{total:f}" if total != total.to_integral_value() else f"{total:.0f}")
    except ArithmeticError:
        raise OperationFailed(f"{query}: the numbers have too many digits for an exact sum") from None


def _type(value: Any) -> str:
    return _TYPES.get(type(value), "number")


def _shown(value: Any) -> str:
    if isinstance(value, str) and not _halves(value):
        return value
    if isinstance(value, list) and value and all(map(_on_a_line, value)):
        return "\n".join(map(_shown, value))
    return _dumped(value)


def _on_a_line(value: Any) -> bool:
    """Whether a value of a list can be shown on a line of its own."""
    if isinstance(value, str):
        return bool(value) and not _halves(value) and value.splitlines() == [value]
    return isinstance(value, (_Number, bool, int))


def _halves(text: str) -> bool:
    """Whether a text has half a surrogate pair, which UTF-8 cannot encode."""
    return bool(re.search("[\ud800-\udfff]", text))


def _dumped(value: Any, indent: str = "") -> str:
    """Indented JSON with numbers as in the document."""
    if isinstance(value, _Number):
        return value.text
    deeper = f"{indent}  "
    if isinstance(value, dict) and value:
        parts = [f"{_dumped(key)}: {_dumped(each, deeper)}" for key, each in value.items()]
    elif isinstance(value, list) and value:
        parts = [_dumped(each, deeper) for each in value]
    else:
        return json.dumps(value, ensure_ascii=isinstance(value, str) and _halves(value))
    body = f",\n{deeper}".join(parts)
    opens, closes = "{}" if isinstance(value, dict) else "[]"
    return f"{opens}\n{deeper}{body}\n{indent}{closes}"
