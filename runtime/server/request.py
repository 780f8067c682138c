"""The bases of what clients send as JSON: what no file and no response can hold is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, model_validator

MOST_NESTED = 100
"""Objects and lists within each other; what reads them recursively has its limit at about 250."""


class Request(BaseModel):
    """The fields of a request. Unknown ones are ignored, and one that is null has its default."""

    @model_validator(mode="before")
    @classmethod
    def _can_be_stored(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        fields = cast(dict[str, Any], values)
        if problem := _problem(fields):
            name = next(name for name, value in fields.items() if _problem({name: value}))
            raise ValueError(f"{name!a} has {problem}")
        return {name: value for name, value in fields.items() if value is not None}


class StrictRequest(Request):
    """A request whose unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


def _problem(fields: Mapping[str, Any]) -> str:
    """Why fields can be in no file; "" if they can."""
    level, depth = [*fields.values()], 0
    while level and depth < MOST_NESTED:
        level, depth = [each for outer in level for each in _inner(outer)], depth + 1
    if level:
        return f"more than {MOST_NESTED} objects and lists within each other"
    try:
        json.dumps(fields, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        return "half of a character (a lone surrogate)"
    except ValueError:
        return "a number that JSON does not know: NaN or infinity"
    return ""


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast(dict[str, Any], value).values()
    return cast(list[Any], value) if isinstance(value, list) else ()
