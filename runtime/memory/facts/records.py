"""What semantic memory stores: observations, memories, edges and goals; and how it writes times.

Times are ISO 8601 in UTC to the millisecond, so that they sort as text. The text of an observation never
changes; memories are what consolidation makes of observations, and name them as evidence.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from pydantic import Field

from kernel.errors import UsageError
from runtime.memory.store import Record

PERSON = "person"
"""Who said it, if that is the person whose memory it is."""
DEFAULT = "default"
"""The agent and the space where none is named."""

Said = Literal["turn", "fact", "result", "failure", "identity", "reflection", "note"]
"""What an observation is: a turn of a conversation, a fact stated by a person, the end of a run, …"""
Relation = Literal["related", "contradicts", "supersedes", "derived", "follows", "mentions"]
"""`source` RELATION `target`: the later contradicts or supersedes the earlier; `derived` from."""


class Observation(Record):
    """Something that came in. `text` is what was said."""

    KIND: ClassVar[str] = "observation"

    at: str = ""  # when it was said or happened
    noted: str = ""  # when it was stored
    said: Said = "note"
    who: str = ""  # who said it
    source: str = ""  # `run:ID`, `person`, `tool:NAME`, `file:NAME`
    thread: str = ""  # the conversation or run that it belongs to
    turn: int = 0  # its place there; its neighbours have one less and one more
    names: tuple[str, ...] = ()  # people and things that it mentions
    salience: float = Field(0.5, ge=0, le=1)
    surprise: float | None = None  # prediction error when it came, by the embedder in `gate`
    route: Literal["", "merge", "link", "novel"] = ""
    gate: str = ""
    memory: str = ""  # the memory that it is evidence of
    left: int = 0  # dreams that looked at it without using it
    agent: str = DEFAULT


class Memory(Record):
    """Something that is believed. `text` is its current wording."""

    KIND: ClassVar[str] = "memory"

    held: Literal["fact", "belief", "event", "abstraction", "reflection", "identity"] = "fact"
    who: str = ""  # who said it: `I` is this person
    evidence: tuple[str, ...] = ()  # ids of observations, oldest first
    unread: tuple[str, ...] = ()  # evidence that the wording does not cover yet
    names: tuple[str, ...] = ()
    since: str = ""  # valid from, as far as the evidence tells
    until: str = ""  # valid until, which may be to come; "" while no end is known
    superseded: str = ""  # the id of the memory that replaces it, from `until` on
    created: str = ""
    changed: str = ""
    judged: str = ""  # when a dream last asked a model what it ends
    confidence: float = Field(0.5, ge=0, le=1)
    salience: float = Field(0.5, ge=0, le=1)
    accessed: int = 0
    last_access: str = ""
    last_score: float = 0.0
    last_hop: int = 0
    card: dict[str, Any] = Field(default_factory=dict)  # FSRS-6 state, as `fsrs.Card.to_dict` writes it
    source: str = ""
    agent: str = DEFAULT

    def ended(self, at: str) -> bool:
        """Whether it no longer holds at a stored time; one that is to end later still does."""
        return bool(self.until or self.superseded) and self.until <= at


class Edge(Record):
    """A relation between two memories, or a memory and an observation. `text` is its evidence."""

    KIND: ClassVar[str] = "edge"

    source: str
    target: str
    relation: Relation = "related"
    weight: float = Field(0.5, ge=0, le=1)
    at: str = ""  # when it was made
    source_at: str = ""  # both sides of a contradiction are dated
    target_at: str = ""
    invalidated: str = ""  # why it no longer holds; such an edge is kept, and weighs less


class Goal(Record):
    """A desired state, in words."""

    KIND: ClassVar[str] = "goal"

    created: str = ""
    priority: float = Field(0.5, ge=0, le=1)
    reached: str = ""  # when
    agent: str = DEFAULT


class Links(Record):
    """The edges of the memory with this id; full lists move to `ID~0`, `ID~1`, …"""

    KIND: ClassVar[str] = "links"

    edges: tuple[str, ...] = ()
    full: int = 0


class Waiting(Record):
    """Marks an observation that has no vector yet, by its id."""

    KIND: ClassVar[str] = "waiting"


class MadeBy(Record):
    """Which embedder made the vectors of all observations and memories; one record, `semantic`."""

    KIND: ClassVar[str] = "made-by"

    embedder: str = ""


def stamp(at: datetime) -> str:
    """A time as it is stored; one without a zone is taken as UTC."""
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(at: str) -> datetime:
    """A stored time as a datetime."""
    return datetime.fromisoformat(at.replace("Z", "+00:00"))


def normal(at: str) -> str:
    """Any ISO time (a date alone is its midnight) as it is stored; "" for none. Raises `UsageError`."""
    if not at:
        return ""
    try:
        return stamp(moment(at.strip()))
    except (ValueError, OverflowError):
        raise UsageError(f"{at!r} is not a time; write it as 2026-05-07 or 2026-05-07T15:04:05Z") from None


def days_between(earlier: str, later: str) -> float:
    """Days from one stored time to another."""
    return (moment(later) - moment(earlier)).total_seconds() / 86_400
