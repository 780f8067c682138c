"""Agents of others that have said what they work at. Our own runs are found without that: see `awareness`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from runtime.memory.context.awareness import ACTIVE_SECONDS, RECENT
from runtime.memory.store import Record, Shelf
from runtime.workspace.workspace import DEFAULT

MOST = 1_000
"""Agents that are kept; beyond that, those seen longest ago are dropped."""


class Announced(Record):
    """One agent in one space, as it last announced itself."""

    KIND: ClassVar[str] = "agent"

    agent: str = DEFAULT
    space: str = DEFAULT
    capabilities: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()  # tasks, the newest last
    at: str = ""

    def seconds(self, now: datetime) -> int:
        """Seconds since it was seen."""
        return max(int((now - datetime.fromisoformat(self.at)) / timedelta(seconds=1)), 0)


def announce(shelf: Shelf, agent: Announced) -> None:
    """Keep an announcement instead of the agent's earlier one."""
    shelf.put(agent.model_copy(update={"recent": agent.recent[-RECENT:]}))
    if shelf.count(Announced) > MOST:
        oldest = sorted(shelf.scan(Announced), key=lambda each: each.at)[:-MOST]
        shelf.delete(Announced, *(each.id for each in oldest))


def at_work(shelf: Shelf, now: datetime, space: str = "", but: str = "") -> list[Announced]:
    """The agents seen lately, of one space or (by "") of all, the last one first; `but` is left out."""
    seen = (each for each in shelf.scan(Announced) if each.seconds(now) <= ACTIVE_SECONDS)
    fitting = (each for each in seen if space in ("", each.space) and each.agent != but)
    return sorted(fitting, key=lambda each: each.at, reverse=True)
