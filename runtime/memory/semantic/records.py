"""What semantic memory keeps on the shelf: observations, memories, edges and goals.

Times are ISO 8601 in UTC as `kernel.events.now` writes them. An observation is never rewritten but for where
it was routed; what consolidation makes of observations are memories, which say whence they came.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from runtime.store import Record

DEFAULT = "default"
"""The agent and the space of who names none."""

Said = Literal["turn", "fact", "result", "failure", "identity", "reflection", "note"]
"""What an observation is: a turn of a conversation, a fact told by a person, the end of a run, …"""
Relation = Literal["related", "contradicts", "supersedes", "derived", "follows", "mentions"]
"""`source` RELATION `target`: the later contradicts or supersedes the earlier; `derived` from."""


class Observation(Record):
    """Something that came in. `text` is what was said; `id` never changes."""

    KIND: ClassVar[str] = "observation"

    at: str = ""  # when it was said or happened
    noted: str = ""  # when it was kept
    said: Said = "note"
    who: str = ""  # who said it
    source: str = ""  # `run:ID`, `person`, `tool:NAME`, `file:NAME`
    thread: str = ""  # the conversation or run that it belongs to
    turn: int = 0  # its place there; its neighbours have one less and one more
    names: tuple[str, ...] = ()  # of people and things that it speaks of
    salience: float = Field(0.5, ge=0, le=1)
    surprise: float | None = None  # prediction error when it came, by the embedder in `gate`
    route: Literal["", "merge", "link", "novel"] = ""
    gate: str = ""
    memory: str = ""  # that it became evidence of, and is found through
    left: int = 0  # dreams that looked at it and let it stand by itself
    agent: str = DEFAULT


class Memory(Record):
    """What is held to be so. `text` is its present wording."""

    KIND: ClassVar[str] = "memory"

    held: Literal["fact", "belief", "event", "abstraction", "reflection", "identity"] = "fact"
    who: str = ""  # who said it: `I` is this one
    evidence: tuple[str, ...] = ()  # ids of observations, in the order of time
    unread: tuple[str, ...] = ()  # of these, what its wording does not tell yet
    names: tuple[str, ...] = ()
    since: str = ""  # from when it is so, as far as the evidence tells
    until: str = ""  # until when it was so; "" while it is
    superseded: str = ""  # the id of the memory that took its place
    created: str = ""
    changed: str = ""
    confidence: float = Field(0.5, ge=0, le=1)
    salience: float = Field(0.5, ge=0, le=1)
    accessed: int = 0
    last_access: str = ""
    last_score: float = 0.0
    last_hop: int = 0
    card: dict[str, Any] = Field(default_factory=dict)  # of FSRS-6, as `fsrs.Card.to_dict` has it
    source: str = ""
    agent: str = DEFAULT


class Edge(Record):
    """A relation of two memories, or of a memory and an observation. `text` is its evidence."""

    KIND: ClassVar[str] = "edge"

    source: str
    target: str
    relation: Relation = "related"
    weight: float = Field(0.5, ge=0, le=1)
    at: str = ""  # when it was made
    source_at: str = ""  # both sides of a contradiction are dated
    target_at: str = ""
    invalidated: str = ""  # why it no longer holds; it is kept, and weighs less


class Goal(Record):
    """A desired state, in words."""

    KIND: ClassVar[str] = "goal"

    created: str = ""
    priority: float = Field(0.5, ge=0, le=1)
    reached: str = ""  # when
    agent: str = DEFAULT


class Links(Record):
    """Which edges a memory has, by its id; full ones are put behind it as `ID~0`, `ID~1`, …"""

    KIND: ClassVar[str] = "links"

    edges: tuple[str, ...] = ()
    full: int = 0


class Waiting(Record):
    """An observation that has no vector yet, by its id."""

    KIND: ClassVar[str] = "waiting"


class MadeBy(Record):
    """Which embedder made the vectors of all observations and memories; one record, `semantic`."""

    KIND: ClassVar[str] = "made-by"

    embedder: str = ""
