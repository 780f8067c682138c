"""The schemas of the calls of a turn, in the form of the providers' own tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.tools.tool import Tool

_KEPT = ("type", "enum", "items", "anyOf")
"""What is kept of an argument's schema."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
Schema = Mapping[str, Any]


def schema_of(tool: Tool, args: Sequence[str] = (), line: str = "") -> Schema:
    """The schema of a tool, trimmed to name, one line and types; of some `args` only if any are given."""
    parameters = _parameters(tool)
    if args:
        properties = {name: each for name, each in parameters["properties"].items() if name in args}
        parameters = _object(properties, [name for name in parameters["required"] if name in args])
    return _schema(tool.name, line or tool.description, parameters)


def whole_schema(tool: Tool) -> Schema | None:
    """The schema of a tool with all that it says of its arguments; None for what some providers refuse.

    They want plain names, and a type of each argument.
    """
    if not all(_NAME.fullmatch(name) and _is_typed(schema) for name, schema in tool.args.items()):
        return None
    return _schema(tool.name, tool.description, _object(tool.args, tool.required))


def _is_typed(schema: Schema) -> bool:
    inner = schema.get("properties", {})
    if schema.get("type") == "array" and not _is_typed(schema.get("items", {})):
        return False
    return "type" in schema and all(_NAME.fullmatch(name) and _is_typed(inner[name]) for name in inner)


def call_schema(name: str, line: str, properties: Mapping[str, Any], required: Sequence[str]) -> Schema:
    """The schema of a call that no tool carries out."""
    return _schema(name, line, _object(properties, required))


def rendered(schema: Schema) -> str:
    """A schema about as briefly as providers put it into their prompts, to count its tokens."""
    function = schema["function"]
    args = json.dumps(function["parameters"]["properties"], ensure_ascii=False, separators=(",", ":"))
    return f"{function['name']}: {function['description']} {args}"


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
