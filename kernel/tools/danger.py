"""Dangers: effects of a call that require approval. The rules are data of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernel.tools.tool import Tool

Severity = Literal["danger", "serious"]


@dataclass(frozen=True)
class Danger:
    """A rule that matches a call; `--yes` never approves a `serious` one."""

    rule: str
    severity: Severity
    why: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.rule}. {self.why}"


Guard = Callable[[Tool, Mapping[str, Any]], Sequence[Danger]]
"""Returns the dangers of a call, before each call at every level."""


def unguarded(tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
    """A guard without rules."""
    return ()
