"""The form of each kind of reply as JSON Schema. It admits only what `replies` accepts.

A grammar made from it never lets a model write a reply that is refused for its form. What a gate may still
refuse depends on the run: unknown tools, arguments of a tool, references, patterns, and criteria that hold
already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
ANY_TEXT: Schema = {"type": "string"}


def _object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these members and no others."""
    members = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": members,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(of: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": of, **({"minItems": least} if least else {})}


def _only(*values: str) -> Schema:
    return {"enum": list(values)}


_CALL: Schema = _object({"tool": TEXT, "args": {"type": "object"}})
_ISSUES = {"validation": _only("fail"), "issues": _list(TEXT)}


def _check(accepted: Mapping[str, Schema] | None = None) -> Schema:
    """The form of CHECK; an ACCEPT may also have the `accepted` members."""
    accept = {"validation": _only("pass"), "decision": _only("ACCEPT"), "output": ANY_TEXT}
    return {
        "anyOf": [
            _object(accept, accepted),
            _object({**_ISSUES, "decision": _only("RETRY"), "learned": TEXT}),
            _object(
                {**_ISSUES, "decision": _only("ESCALATE"), "output": ANY_TEXT},
                {"learned": TEXT, "question": TEXT},
            ),
            _object({"look": _CALL}),
        ]
    }


FORMS: Mapping[str, Schema] = {
    "turn": _object({"calls": _list(_CALL, 1)}),
    "check": _check(),
    "teach": _check({"teaching": TEXT, "grant": _list(TEXT)}),
}
"""By the phase of the ask; `teach` is CHECK where oversight solved what a worker escalated."""
