"""The schemas of the calls of a turn, in the form of the providers' own tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.tools.tool import Tool

_KEPT = ("type", "enum", "items", "anyOf")
"""What is kept of an argument's schema."""
Schema = Mapping[str, Any]


def schema_of(tool: Tool, args: Sequence[str] = (), line: str = "") -> Schema:
    """The schema of a tool, trimmed to name, one line and types; of some `args` only if any are given."""
    parameters = _parameters(tool)
    if args:
        properties = {name: each for name, each in parameters["properties"].items() if name in args}
        parameters = _object(properties, [name for name in parameters["required"] if name in args])
    return _schema(tool.name, line or tool.description, parameters)


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
