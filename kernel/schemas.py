"""What other people's schemas and patterns may do here: look at a value at once, and nothing else.

A schema is fetched from nowhere. A pattern that could take for ever is not looked for: a program or a server
checks its own arguments, so that the worst is a call that it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

MOST_VALUES = 20_000
"""Values of a tool's frontmatter; YAML can name a few hundred so that they would fill the memory."""
_CHOICES = re.compile(r"[*+?{|]|\\[1-9]")
_NAMES = frozenset({"properties", "definitions", "$defs", "dependencies", "dependentSchemas"})
"""Keywords whose keys are names of somebody's, and no keywords."""
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


def quick(pattern: str) -> bool:
    """Whether a regular expression has one choice at most, so that no text keeps it busy for long."""
    return len(_CHOICES.findall(pattern)) <= 1


def pattern_of(text: str, flags: int = 0) -> re.Pattern[str]:
    """Compile somebody's regular expression; raises `ValueError` that says why it is none."""
    try:
        return re.compile(text, flags)
    except Exception as error:  # too deep, or a number too large, as well as what `re` calls an error
        raise ValueError(f"{text[:80]!r} is not a regular expression: {error}") from None


def few_values(data: Any) -> None:
    """Raise `ValueError` for data that is larger than it looks, before anybody copies or prints it."""
    pending, seen = [data], 0
    while pending:
        each = pending.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise ValueError(f"the frontmatter holds more than {MOST_VALUES} values")
        if isinstance(each, dict):
            pending += [*cast(dict[Any, Any], each), *cast(dict[Any, Any], each).values()]
        elif isinstance(each, list | tuple | set):
            pending += cast(list[Any], each)


def check(name: str, schema: Mapping[str, Any]) -> Callable[[Any], str]:
    """A function that says what is wrong with the value of an argument, "" when nothing is."""
    kind = schema.get("type")
    if set(schema) <= {"type", "description", "default"} and isinstance(kind, str) and kind in _KINDS:
        return _plain(name, kind)  # most arguments: no compiled schema, no import
    import fastjsonschema

    try:
        handlers: dict[str, Callable[[str], Any]] = dict.fromkeys(_SCHEMES, _nowhere)
        compiled = cast(Callable[[Any], Any], fastjsonschema.compile(_tame(dict(schema)), handlers=handlers))
    except Exception as error:  # a schema that is none: the library has no error of its own for each
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
    """A copy without references to elsewhere and without patterns that could take long."""
    if isinstance(schema, list):
        return [_tame(each) for each in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    tamed: dict[str, Any] = {}
    for key, value in cast(dict[str, Any], schema).items():
        if key in _NAMES and isinstance(value, dict):
            tamed[key] = {name: _tame(each) for name, each in cast(dict[str, Any], value).items()}
        elif key == "patternProperties" and isinstance(value, dict):
            kept = {p: _tame(each) for p, each in cast(dict[str, Any], value).items() if _anchored(p)}
            tamed |= {key: kept} if len(kept) == len(cast(dict[str, Any], value)) else {}
        elif key in _VALUES:
            tamed[key] = value
        elif not (key == "pattern" and not _anchored(value)) and not (key == "$ref" and not _own(value)):
            tamed[key] = _tame(value)
    if "patternProperties" in schema and "patternProperties" not in tamed:
        tamed.pop("additionalProperties", None)  # it would refuse what those patterns allow
    return tamed


def _anchored(pattern: Any) -> bool:
    """Whether it is looked for at the beginning alone: else each place of a long text is one more try."""
    if not isinstance(pattern, str) or not pattern.startswith("^") or not quick(pattern):
        return False
    try:
        pattern_of(pattern)
    except ValueError:
        return False
    return True


def _own(reference: Any) -> bool:
    return isinstance(reference, str) and reference.startswith("#")
