"""The operation json: one place in a JSON document, such as `people[0].name`, its keys or its length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, cast

from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, operation
from runtime.operations.texts import read_text

LONGEST = 1_000
_STEP = re.compile(
    r"\.?(?P<name>[^\s.\[\]|\"']+)|\.?\[\s*(?P<index>-?\d{1,9})\s*\]|\.?\[\s*\*?\s*\](?P<all>)"
    r"|\.?\[?\s*(?P<quoted>\"(?:[^\"\\]|\\.)*\"|'[^']*')\s*\]?"
)
_ENDS = ("keys", "length", "type", "values", "sum")


@operation()
def query_json(ctx: OperationContext, query: str, path: str = "", text: str = "") -> Result:
    """The value at a place; texts as they are, all else as JSON. `keys`, `length`, `type` ask about it."""
    if bool(path) == bool(text):
        raise OperationFailed("give either path, the JSON file, or text that is not empty")
    if len(query) > LONGEST:
        raise OperationFailed(f"the query is longer than {LONGEST:,} characters")
    name = path or "the text"
    document = _read(read_text(ctx, path) if path else text, name)
    place, ends = _parts(query)
    try:
        value = _walk(document, place, query)
        for end in ends:
            value = _asked(value, end, query)
        shown = _shown(value)
    except RecursionError:
        raise OperationFailed(f"{name}: nested too deeply to be shown") from None
    return Result(shown, evidence={"type": _type(value)})


class _Number(float):
    """A number that is written as the document has it, all its digits."""

    def __new__(cls, text: str) -> _Number:
        """Keep the text."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __repr__(self) -> str:
        return self.text


def _read(text: str, name: str) -> Any:
    try:
        return json.loads(text, parse_float=_Number)
    except RecursionError:
        raise OperationFailed(f"{name}: nested too deeply to be read") from None
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if error.msg == "Extra data" and len(lines) > 1:
            return _read_lines(lines, name, error)
        where = f"line {error.lineno}, column {error.colno}"
        raise OperationFailed(f"{name}: not JSON: {error.msg.lower()} ({where})") from None
    except ValueError:  # what Python refuses to convert
        raise OperationFailed(f"{name}: holds a whole number of more than 4,000 digits") from None


def _read_lines(lines: Iterable[str], name: str, first: json.JSONDecodeError) -> list[Any]:
    """JSON lines: each line is an item of a list."""
    try:
        return [json.loads(line, parse_float=_Number) for line in lines]
    except (ValueError, RecursionError):
        raise OperationFailed(
            f"{name}: not JSON: extra data (line {first.lineno}, column {first.colno})"
        ) from None


def _parts(query: str) -> tuple[list[str | int | None], list[str]]:
    """The steps to the place (None: all items), and what is asked about what is there."""
    place, *ends = [part.strip() for part in query.split("|")]
    ends = [end.lower() for end in ends if end]
    if place.lower() in _ENDS:
        place, ends = "", [place.lower(), *ends]
    elif hit := re.fullmatch(r"(keys|length|type|values|sum)\s+(?:of\s+)?(.+)", place, re.IGNORECASE):
        place, ends = hit[2], [hit[1].lower(), *ends]
    if wrong := [end for end in ends if end not in _ENDS]:
        raise OperationFailed(f"{wrong[0]!r} is none of {', '.join(_ENDS)}")
    place = re.sub(r"^\$(?=[.\[]|$)", "", place)
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
    if hit["quoted"] is not None:
        try:
            return str(json.loads(hit["quoted"])) if hit["quoted"][0] == '"' else hit["quoted"][1:-1]
        except ValueError:
            raise OperationFailed(f"{hit['quoted'][:40]}: not a name in quotes") from None
    return None


def _walk(value: Any, steps: list[str | int | None], query: str, at: int = 0) -> Any:
    while at < len(steps):
        step = steps[at]
        at += 1
        if step is None:
            return [_walk(each, steps, query, at) for each in _items(value, query)]
        value = _child(value, step, query)
    return value


def _items(value: Any, query: str) -> list[Any]:
    if isinstance(value, dict):
        return list(cast(dict[str, Any], value).values())
    if isinstance(value, list):
        return cast(list[Any], value)
    raise OperationFailed(f"{query}: a {_type(value)} has no items")


def _child(value: Any, step: str | int, query: str) -> Any:
    if isinstance(value, dict):
        names = cast(dict[str, Any], value)
        if str(step) in names:
            return names[str(step)]
        listed = ", ".join(list(names)[:30]) or "none"
        raise OperationFailed(f"{query}: there is no key {str(step)!r}; there are {listed}")
    if isinstance(value, list):
        items = cast(list[Any], value)
        number = step if isinstance(step, int) else int(step) if re.fullmatch(r"-?\d{1,9}", step) else None
        if number is None:
            raise OperationFailed(f"{query}: {step!r} of a list; write [0] for an item or [*] for all")
        if not -len(items) <= number < len(items):
            raise OperationFailed(f"{query}: there is no item {number}; the list has {len(items)}")
        return items[number]
    raise OperationFailed(f"{query}: {str(step)!r} of a {_type(value)}, which has no parts")


def _asked(value: Any, end: str, query: str) -> Any:
    if end == "type":
        return _type(value)
    if end == "length" and isinstance(value, (dict, list, str)):
        return len(cast(list[Any], value))
    if end == "keys" and isinstance(value, dict):
        return list(cast(dict[str, Any], value))
    if end == "keys" and isinstance(value, list):
        return list(range(len(cast(list[Any], value))))
    if end == "values":
        return _items(value, query)
    if end == "sum" and isinstance(value, list):
        return _sum(cast(list[Any], value), query)
    raise OperationFailed(f"{query}: a {_type(value)} has no {end}")


def _sum(items: list[Any], query: str) -> Any:
    if not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in items):
        raise OperationFailed(f"{query}: not all items are numbers")
    total = sum((Decimal(str(each)) for each in items), Decimal(0))
    return int(total) if total == int(total) else _Number(str(total))


def _type(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    kinds: tuple[tuple[type, str], ...] = ((str, "text"), (dict, "object"), (list, "list"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "number")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, list) and all(isinstance(each, (str, int)) for each in cast(list[Any], value)):
        return _listed(cast(list[Any], value))
    return _dumped(value)


def _listed(items: list[Any]) -> str:
    """Short words and numbers, one a line; what would not stay on its line as JSON."""
    plain = all(not isinstance(each, str) or (each and "\n" not in each) for each in items)
    if not plain or not items:
        return json.dumps(items, ensure_ascii=False, indent=2)
    return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in items)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
