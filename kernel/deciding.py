"""Who decided: a person at a terminal or page, a program by its name, or the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kernel.document import Step

LONGEST = 60
"""Characters of a client's name that are kept."""
_WORDS = {
    "terminal": "person at terminal",
    "page": "person at page",
    "command": "command without terminal",
    "program": "program",
    "client": "MCP client",
    "policy": "policy",
    "file": "message file",
}


@dataclass(frozen=True)
class Decider:
    """Who answers, approves or rejects. `name`: of an MCP client or program, or the policy that holds."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        word = _WORDS.get(self.kind, "message file")
        if self.kind == "policy":
            return f"{word} {self.name}"
        return f'{word} "{self.name}"' if self.name else word

    @property
    def origin(self) -> str:
        """The origin of what it says: `client:NAME` for an MCP client, else `person`."""
        return f"client:{self.name or 'unnamed'}" if self.kind == "client" else "person"

    @property
    def values(self) -> dict[str, str]:
        """As it stands in a message."""
        return {"kind": self.kind, **({"name": self.name} if self.name else {})}

    @staticmethod
    def read(message: Mapping[str, Any]) -> Decider:
        """The decider that a message names; one that was written by hand names none."""
        by = message.get("by")
        values = cast(dict[str, Any], by if isinstance(by, dict) else {})
        kind = str(values.get("kind", "file"))
        return Decider(kind if kind in _WORDS else "file", plain_name(str(values.get("name", ""))))


TERMINAL = Decider("terminal")
PAGE = Decider("page")
PROGRAM = Decider("program")
YES = Decider("policy", "--yes")


def plain_name(text: str) -> str:
    """A client's name on one line, without quotes, cut to a length that a document can show."""
    shown = "".join(sign for sign in " ".join(text.split()) if sign.isprintable() and sign not in '"`')
    return shown[:LONGEST].strip()


def serious(steps: Iterable[Step]) -> list[str]:
    """The serious dangers of the steps that wait for an approval."""
    waiting = (step for step in steps if step.state == "waiting")
    told = (str(danger) for step in waiting for danger in step.evidence.get("dangers", ()))
    return [danger for danger in told if danger.startswith("serious:")]


def barred(by: Decider, steps: Iterable[Step], trusted: Iterable[str]) -> str:
    """Why this decider may not approve of the steps that wait; "" when it may.

    A serious danger needs a person at a terminal or a page, or an MCP client that the settings trust.
    """
    if by.kind in ("terminal", "page") or (by.kind == "client" and by.name and by.name in trusted):
        return ""
    dangers = serious(steps)
    if not dangers:
        return ""
    who = f"{'an' if by.kind == 'client' else 'a'} {by}"
    return f"a serious danger needs a person's approval at a terminal, not that of {who}: {dangers[0]}"
