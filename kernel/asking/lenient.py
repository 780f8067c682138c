"""What models often write instead of the form that was asked for, read as what it means.

Only what has one meaning is accepted; the validation of `replies` refuses the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

_NAMES = ("tool", "name", "tool_name", "function", "action")
_ARGUMENTS = ("args", "arguments", "parameters", "params", "input", "tool_input", "kwargs")
_DECISIONS: Mapping[str, str] = {
    "ACCEPTED": "ACCEPT",
    "ACCEPTS": "ACCEPT",
    "RETRIED": "RETRY",
    "REPLAN": "RETRY",
    "ESCALATED": "ESCALATE",
}
_VALIDATIONS: Mapping[str, str] = {"passed": "pass", "passes": "pass", "failed": "fail", "fails": "fail"}
_PREFIX = re.compile(r"^(?:to=)?(?:(?:functions?|tools?|default_api|multi_tool_use)[.:/])?(?=\w)")
_MARK = re.compile(r"<[|｜].*", re.DOTALL)
_COUNTED = re.compile(r"(?::\d+|\(\))$")
_WORD = re.compile(r"[A-Za-z]+")
_AMOUNT = re.compile(r"\d+(?:\.\d+)?")
SURE, UNSURE = 0.8, 0.4
"""A confidence written as a number is high from `SURE` on and low below `UNSURE`."""


def present(data: Mapping[str, Any]) -> dict[str, Any]:
    """The members that have a value: null means absent."""
    return {name: value for name, value in data.items() if value is not None}


def listed(value: Any) -> Any:
    """A list; one element alone is a list of one, and empty text an empty list."""
    if isinstance(value, list | tuple):
        return [each for each in cast(Sequence[Any], value) if each is not None]
    return [] if value == "" else [value]


def taught(output: str) -> dict[str, Any]:
    """The members of an `output` that is an object {solution, teaching, grant}; else none."""
    said: Any = None
    with suppress(ValueError, RecursionError):
        said = json.loads(output)
    if not isinstance(said, dict) or "solution" not in said:
        return {}
    members = present(cast(dict[str, Any], said))
    return {"output": members.pop("solution", ""), **members}


def keyed(value: Any, key: str) -> Any:
    """An element of a list of objects, which may be given as text: `key` says what the text is."""
    return {key: value} if isinstance(value, str) else value


def confidence(value: Any) -> str:
    """`high`, `medium` or `low` as a word, a phrase or a number; anything else says nothing: medium."""
    words = [word.lower() for word in _WORD.findall(str(value))]
    if named := [word for word in words if word in ("high", "medium", "low")]:
        return named[0]
    number = _AMOUNT.search(str(value))
    if not number:
        return "medium"
    share = float(number[0]) / (100 if float(number[0]) > 1 else 1)
    return "high" if share >= SURE else "low" if share < UNSURE else "medium"


def decision(value: Any) -> Any:
    """ACCEPT, RETRY or ESCALATE in any case and inflection."""
    word = _first_word(value).upper()
    return _DECISIONS.get(word, word) if word else value


def validation(value: Any) -> Any:
    """`pass` or `fail` in any case and inflection, or as a truth value."""
    if isinstance(value, bool):
        return "pass" if value else "fail"
    word = _first_word(value).lower()
    return _VALIDATIONS.get(word, word) if word else value


def _first_word(value: Any) -> str:
    found = _WORD.search(value) if isinstance(value, str) else None
    return found[0] if found else ""


def call(value: Any, others: Sequence[str]) -> Any:
    """A call as {tool, args}, whatever its members are called; `others` are the members of other forms.

    Accepted are the forms of the providers' own tool calls, arguments as JSON text, and {TOOL: {…}}.
    """
    if not isinstance(value, Mapping):
        return value
    data = present(cast(Mapping[str, Any], value))
    if isinstance(inner := data.get("function"), Mapping):  # {"type": "function", "function": {…}}
        around = {name: each for name, each in data.items() if name not in ("function", "type", "id")}
        data = {**around, **cast(Mapping[str, Any], inner)}
    tool = next((name for name in _NAMES if isinstance(data.get(name), str) and data[name]), "")
    given = next((name for name in _ARGUMENTS if name in data), "")
    if not tool and len(data) == 1 and not set(data) & {*others, *_ARGUMENTS}:
        name, args = next(iter(data.items()))
        if isinstance(args, Mapping):
            return {"tool": name, "args": dict(cast(Mapping[str, Any], args))}
    if not tool:
        return data
    rest = {key: each for key, each in data.items() if key not in (*_NAMES, *_ARGUMENTS)}
    args = arguments(data[given]) if given else None
    named = {"tool": tool_name(str(data[tool]))}
    return {**rest, **named, **({"args": args} if args is not None else {})}


def tool_name(said: str) -> str:
    """The name of a tool without what models and servers put around it.

    Such as `functions.read`, `read:0`, `default_api.read` or `read<|channel|>commentary`.
    """
    bare = _PREFIX.sub("", _MARK.sub("", said).strip(" \t\r\n`'\""))
    return _COUNTED.sub("", bare) or said.strip(" ")


def arguments(value: Any) -> Any:
    """Arguments, which may be given as JSON text. Text that is not JSON is left for validation to refuse."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else {}
    except ValueError:
        return value
