"""What an action may do that wants an approval first; the rules are data, read by who guards the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernel.tools import Tool

Severity = Literal["danger", "serious"]


@dataclass(frozen=True)
class Danger:
    """One rule that an action falls under; a `serious` one is never approved by `--yes`."""

    rule: str
    severity: Severity
    why: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.rule}. {self.why}"


Guard = Callable[[Tool, Mapping[str, Any]], Sequence[Danger]]
"""Asked before each action at every level: the dangers of this call, none for a harmless one."""


def unguarded(tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
    """The guard of a world without rules."""
    return ()
