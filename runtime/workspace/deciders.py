"""Who answers, approves or rejects; who may approve what; and for how much more an approval may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kernel.document.model import Step

LONGEST = 60
"""Maximum characters of a client's name."""
_WORDS = {
    "terminal": "person at terminal",
    "page": "person at page",
    "command": "command without terminal",
    "program": "program",
    "client": "client",
    "oversight": "oversight",
    "policy": "policy",
    "file": "message file",
}


@dataclass(frozen=True)
class Decider:
    """Who answers, approves or rejects. `name` is that of the client, program or policy."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        word = _WORDS.get(self.kind, "message file")
        if self.kind == "policy":
            return f"{word} {self.name}"
        return f'{word} "{self.name}"' if self.name else word

    @property
    def origin(self) -> str:
        """The origin of its notes: `client:NAME`, `model:NAME`, `kernel` for a policy, else `person`."""
        if self.kind == "policy":
            return "kernel"
        kinds = {"client": "client", "oversight": "model"}
        return f"{kinds[self.kind]}:{self.name or 'unnamed'}" if self.kind in kinds else "person"

    @property
    def values(self) -> dict[str, str]:
        """The `by` value of a message."""
        return {"kind": self.kind, **({"name": self.name} if self.name else {})}

    @staticmethod
    def read(message: Mapping[str, Any]) -> Decider:
        """The decider in a message; `file` if it has none, as in a message written by hand."""
        by = message.get("by")
        values = cast(dict[str, Any], by if isinstance(by, dict) else {})
        kind = str(values.get("kind", "file"))
        return Decider(kind if kind in _WORDS else "file", plain_name(str(values.get("name", ""))))


TERMINAL = Decider("terminal")
PAGE = Decider("page")
PROGRAM = Decider("program")
SAME_CALL = Decider("policy", "approved in fractal.yaml")
SAME_KIND = "kind"
ALWAYS = "always"
"""The scopes of an approval beyond the one call: its kind in this run, and the same call in this folder."""


def plain_name(text: str) -> str:
    """A client's name on one line, without quotes, of at most `LONGEST` characters."""
    shown = "".join(sign for sign in " ".join(text.split()) if sign.isprintable() and sign not in '"`')
    return shown[:LONGEST].strip()


def serious(steps: Iterable[Step]) -> list[str]:
    """The serious dangers of the steps that wait for approval."""
    waiting = (step for step in steps if step.state == "waiting")
    dangers = (str(danger) for step in waiting for danger in step.evidence.get("dangers", ()))
    return [danger for danger in dangers if danger.startswith("serious:")]


def why_not_approver(by: Decider, steps: Iterable[Step], trusted: Iterable[str]) -> str:
    """Why this decider may not approve the waiting steps; "" if it may.

    A serious danger requires a person at a terminal or page, or a client that the settings trust. An
    effect for which the settings ask a person requires one.
    """
    waiting = [step for step in steps if step.state == "waiting"]
    guarded = [effect for step in waiting for effect in step.evidence.get("approval", ())]
    if by.kind in ("oversight", "policy") and guarded:
        return f"the settings ask for a person's approval of what may {guarded[0]}, not for that of {by}"
    if by.kind in ("terminal", "page") or (by.kind == "client" and by.name and by.name in trusted):
        return ""
    dangers = serious(waiting)
    if not dangers:
        return ""
    who = f"{ {'oversight': '', 'policy': 'the '}.get(by.kind, 'a ') }{by}"
    return f"a serious danger needs a person's approval at a terminal, not that of {who}: {dangers[0]}"
