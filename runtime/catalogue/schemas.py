"""Checks arguments with JSON Schemas from untrusted sources.

References to other schemas are not fetched, and patterns that could take very long are ignored. A program or
server checks its own arguments anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from runtime.text.expressions import pattern_of, quick

_NAMES = frozenset({"properties", "definitions", "$defs", "dependencies", "dependentSchemas"})
"""Keywords whose keys are names and not keywords."""
_VALUES = frozenset({"const", "default", "enum", "examples", "required"})
_SCHEMES = ("", "http", "https", "ftp", "file", "data")
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def checker(args: Mapping[str, Any]) -> Callable[[str, Any], str]:
    """The `check` of a tool with these schemas by argument; each is compiled at its first use."""
    compiled = cache(lambda name: check(name, args[name]))
    return lambda name, value: compiled(name)(value)


def check(name: str, schema: Mapping[str, Any]) -> Callable[[Any], str]:
    """A function that returns what is wrong with the value of an argument; "" if nothing is."""
    kind = schema.get("type")
    if set(schema) <= {"type", "description", "default"} and isinstance(kind, str) and kind in _KINDS:
        return _plain(name, kind)  # most arguments: no compiled schema, no import
    import fastjsonschema

    try:
        handlers: dict[str, Callable[[str], Any]] = dict.fromkeys(_SCHEMES, _nowhere)
        compiled = cast(Callable[[Any], Any], fastjsonschema.compile(_tame(dict(schema)), handlers=handlers))
    except Exception as error:  # an invalid schema: the library raises exceptions of several types
        why = f"{name}: its schema cannot be used: {type(error).__name__}: {str(error)[:200]}"
        return lambda value: why

    def full(value: Any) -> str:
        try:
            compiled(value)
        except fastjsonschema.JsonSchemaValueException as error:
            return str(error.message).replace("data", name, 1)
        except RecursionError:
            return f"{name}: it goes too deep for its schema"
        return ""

    return full


def _plain(name: str, kind: str) -> Callable[[Any], str]:
    expected = _KINDS[kind]

    def check(value: Any) -> str:
        right = isinstance(value, expected) and (kind == "boolean" or not isinstance(value, bool))
        return "" if right else f"{name} must be {kind}"

    return check


def _nowhere(address: str) -> Any:
    raise ValueError(f"{address[:100]} is not fetched")


def _tame(schema: Any) -> Any:
    """A copy without references to other schemas and without slow patterns."""
    if isinstance(schema, list):
        return [_tame(each) for each in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    tamed: dict[str, Any] = {}
    for key, value in cast(dict[str, Any], schema).items():
        if key in _NAMES and isinstance(value, dict):
            tamed[key] = {name: _tame(each) for name, each in cast(dict[str, Any], value).items()}
        elif key == "patternProperties" and isinstance(value, dict):
            safe = {p: _tame(each) for p, each in cast(dict[str, Any], value).items() if _anchored(p)}
            tamed |= {key: safe} if len(safe) == len(cast(dict[str, Any], value)) else {}
        elif key in _VALUES:
            tamed[key] = value
        elif not (key == "pattern" and not _anchored(value)) and not (key == "$ref" and not _own(value)):
            tamed[key] = _tame(value)
    if "patternProperties" in schema and "patternProperties" not in tamed:
        tamed.pop("additionalProperties", None)  # would refuse what the removed patterns allow
    return tamed


def _anchored(pattern: Any) -> bool:
    """Whether a pattern is quick and only matches at the beginning, not at each position of a long text."""
    if not isinstance(pattern, str) or not pattern.startswith("^") or not quick(pattern):
        return False
    try:
        pattern_of(pattern)
    except ValueError:
        return False
    return True


def _own(reference: Any) -> bool:
    return isinstance(reference, str) and reference.startswith("#")
