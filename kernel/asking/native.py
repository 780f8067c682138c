"""The provider's own form of tool calls: the schemas that a request states, and the calls as a reply.

The reply is the text that a model without this form would have written: the JSON object of one turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from kernel.asking.lenient import arguments
from kernel.document.escaping import to_json
from kernel.tools.tool import Tool

_KEPT = ("type", "enum", "items", "anyOf")
"""What is kept of an argument's schema."""
SUBTASK = "subtask"
"""The call that starts a loop of its own."""
ENDS: Mapping[str, str] = {
    "done": "the task is done: what the user is told",
    "question": "what only a person can tell",
    "cannot": "why the task is impossible",
}
"""The ends of a turn, which are calls too in this form."""

Schema = Mapping[str, Any]


def schemas(tools: Iterable[Tool], *, split: bool = False) -> list[Schema]:
    """The schemas of the tools, of a subtask where one is to be started (`split`), and of each end."""
    text = _object({"text": {"type": "string"}}, ["text"])
    part = [_schema(SUBTASK, "a part of the task in a loop of its own", text)] if split else []
    return [*map(schema_of, tools), *part, *(_schema(end, line, text) for end, line in ENDS.items())]


def schema_of(tool: Tool) -> Schema:
    """The schema of a tool, trimmed to name, one line and types."""
    return _schema(tool.name, tool.description, _parameters(tool))


def rendered(schema: Schema) -> str:
    """A schema about as briefly as providers put it into their prompts, to count its tokens."""
    function = schema["function"]
    return f"{function['name']}: {function['description']} {to_json(function['parameters']['properties'])}"


def _schema(name: str, line: str, parameters: Schema) -> Schema:
    short = " ".join(line.split())[:160]
    return {"type": "function", "function": {"name": name, "description": short, "parameters": parameters}}


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _parameters(tool: Tool) -> Schema:
    if tool.guided:
        return _object({"what": {"type": "string"}}, ["what"])
    return _object({name: _trimmed(schema) for name, schema in tool.args.items()}, tool.required)


def _trimmed(schema: Schema) -> Schema:
    """What providers need of an argument's schema; some refuse an array without `items`."""
    kept = {key: schema[key] for key in _KEPT if key in schema}
    return {**kept, "items": {}} if kept.get("type") == "array" and "items" not in kept else kept


def reply_text(calls: Sequence[tuple[str, str]], text: str) -> str:
    """A turn as JSON: from calls (name and arguments as JSON text), or from text without any call.

    Beside other calls, `done` is kept and other ends are left out: the results are not known yet.
    """
    if not calls:
        return to_json({"done": text}) if text.strip() else ""
    read = [{"tool": name, "args": arguments(given)} for name, given in calls]
    if others := [each for each in read if each["tool"] not in ENDS]:
        done = [_text(each["args"]) for each in read if each["tool"] == "done"]
        split = [each if each["tool"] != SUBTASK else {SUBTASK: _text(each["args"])} for each in others]
        return to_json({"calls": split, **({"done": done[-1]} if done else {})})
    return to_json({read[-1]["tool"]: _text(read[-1]["args"])})


def _text(given: Any) -> Any:
    """The text of an end."""
    return cast(dict[str, Any], given).get("text", "") if isinstance(given, dict) else given
