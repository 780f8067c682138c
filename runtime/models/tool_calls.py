"""The calls of a reply in a provider's own form, as the text that a model without it would have written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, cast

from kernel.document.escaping import to_json


def turn_text(calls: Sequence[tuple[str, str]], text: str) -> str:
    """The reply of a turn as JSON: {"calls": [{"tool", "args"}, …], "text"}, every call in the order given.

    calls: name and arguments as JSON text. Arguments that are no JSON object become {"tool", "bad": TEXT}, so
    that the loop can answer that call with an error.
    """
    return to_json({"calls": [_called(name, given) for name, given in calls], "text": text})


def _called(name: str, given: str) -> dict[str, Any]:
    args = object_of(given)
    return {"tool": name, "bad": given} if args is None else {"tool": name, "args": args}


def object_of(given: str) -> dict[str, Any] | None:
    """The arguments of a call from strict JSON; None if that is no object. No text, or null, means none."""
    try:
        read = json.loads(given if given.strip() else "{}", parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if isinstance(read, str) and read.lstrip().startswith("{"):  # some write the text of the text
        with suppress(ValueError, RecursionError):
            read = json.loads(read, parse_constant=_finite, parse_float=_finite)
    if read is None:
        return {}
    return cast(dict[str, Any], read) if isinstance(read, dict) else None


def _finite(number: str) -> float:
    if not isfinite(value := float(number)):
        raise ValueError(f"{number} is no JSON number")
    return value
