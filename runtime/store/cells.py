"""What stands in a row of SQLite: ids as keys, the text inside a body, and whether a body is whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def key(id: str) -> bytes:
    """An id as SQLite keeps it."""
    return id.encode("utf-8", "surrogatepass")


def unkey(raw: Any) -> str:
    """The id of a key."""
    return raw.decode("utf-8", "surrogatepass") if isinstance(raw, bytes) else str(raw)


def text_of(body: str) -> str:
    """The text of a row; nothing for one that is broken, which is told elsewhere."""
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    text = told.get("text", "") if isinstance(told, dict) else ""
    return text if isinstance(text, str) else ""


def values_of(body: str, names: Sequence[str]) -> str:
    """A JSON list of the values of these fields; nothing for a row that is broken."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return json.dumps([told.get(name) for name in names]) if isinstance(told, dict) else ""


def wrong_with(id: Any, body: Any) -> str:
    """What is wrong with a row, or nothing."""
    try:
        body.encode("utf-8")
        told = json.loads(body)
        if not isinstance(told, dict) or told.get("id") != unkey(id):
            return "its body is of another record"
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return f"its body is no JSON: {error}"
    return ""
