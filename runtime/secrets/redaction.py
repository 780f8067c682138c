"""The one redactor: everything that a person, a file, a program or a server gets to see goes through it.

It knows a secret by its value (`known`, and what runs keep in `exact`), and by its form (`forms`). Only what
is executed does not go through it. The kernel reaches it by `kernel.document.redaction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

from kernel.document.redaction import Change, Verbatim, redacted
from runtime.secrets.forms import HIDDEN, Mark, has_begun, is_secret_of, without_forms
from runtime.secrets.known import given, known, without_values

AROUND, AROUND_KEY = 400, 4_000
"""Characters around a place that are searched for a secret across it; in a text with private keys."""
_FILL = "\ue001"


def redact(text: str) -> str:
    """The text with each secret replaced by `[redacted NAME]`.

    A secret is a value that the process has learned, the value of an environment variable with a name like
    `API_KEY`, or a text of a known form: keys of providers, tokens, private keys, headers, a password in an
    address, `PASSWORD=…`.
    """
    return redactor()(text)


def redactor(mark: Mark | None = None) -> Change:
    """`redact` for many texts: reads the environment once."""
    values = known()

    def without(text: str) -> str:
        text = without_values(text, values, mark or _named_only)
        text = without_forms(text, mark or _named_only)
        return HIDDEN.sub(r"\1]", text) if mark is None and "[redacted " in text else text

    return without


def redact_values(text: str) -> str:
    """The text without the values of secrets that this process was given. Nothing is hidden for its form.

    What a run keeps was taken for a secret by its form, and could be a part of what runs.
    """
    return type(text)(without_values(text, given(), _named_only))


def redact_kept(text: str) -> str:
    """The text as `redact` returns it, but with the IDs in `[redacted NAME ID]`: a document stays one."""
    return redactor(_named_only)(text)


def _named_only(name: str, value: str) -> str:
    return f"[redacted {name}]"


def shown(value: Any) -> Any:
    """A JSON value without secrets, with null for NaN and infinity.

    Nothing is hidden for its form in its `question`, or that in `waiting`: a person approves it.
    """
    return redacted(_plain(value, asked=True), redactor())


def _plain(value: Any, *, asked: bool = False) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast(list[Any], value)]
    if isinstance(value, Mapping):
        return {
            name: Verbatim(each)
            if asked and name == "question" and isinstance(each, str)
            else _plain(each, asked=name == "waiting")
            for name, each in cast(Mapping[str, Any], value).items()
        }
    return None if isinstance(value, float) and not isfinite(value) else value


def named(name: str, value: str, change: Change) -> str:
    """The value of a member, read together with its name: `{"password": "…"}`."""
    mark = change(f"password='{value}'") if is_secret_of(name, value) else ""
    return mark[len("password='") : -1] if mark and "'" not in value else change(value)


def divides(first: str, rest: str) -> bool:
    """Whether no secret can go on from the first part of a text into the rest, or into what follows."""
    hidden = redact(first)
    begun = (value[:at] for value in known() for at, each in enumerate(value, 1) if each in " \n")
    return (
        not has_begun(first)
        and not first.endswith(tuple(begun))
        and redact(f"{first}a1b2c3d4e5") == f"{hidden}a1b2c3d4e5"
        and hidden + redact(rest) == redact(first + rest)
    )


def across(text: str, at: int) -> tuple[int, int]:
    """How many characters before and after a place belong to a secret that goes across it."""
    room = AROUND_KEY if "PRIVATE KEY" in text else AROUND
    start = max(at - room, 0)
    around = text[start : at + room]
    filled = redactor(lambda name, value: _FILL * len(value))(around)
    here = at - start
    if len(filled) != len(around) or filled[here - 1 : here + 1] != 2 * _FILL:
        return 0, 0
    left, right = filled[:here], filled[here:]
    return len(left) - len(left.rstrip(_FILL)), len(right) - len(right.lstrip(_FILL))
