"""What holds at a time, and how it is said: the one place for recall, prompts, tools and MCP.

A memory holds from `since` until `until`. An observation holds as long as the memory that it is evidence of,
so that a superseded fact is not shown as true in the words in which it was said. What is planned, wished,
possible or made up is marked so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from runtime.memory.facts.claims import claims_of
from runtime.memory.facts.language import Language
from runtime.memory.facts.records import PERSON, Memory, Observation
from runtime.memory.facts.retrieval.times import day_of
from runtime.memory.store import Shelf

Held = Memory | Observation
MODALITIES: Mapping[str, str] = {"wants": "wished", "may": "not certain", "example": "made up"}
FOREVER = 10_000_000
"""An ordinal behind all days."""


_FOLLOWS = re.compile(r"[,;] (?:and )?so (?!that\b|[\w’']+ (?:said|says|claims|hopes))", re.IGNORECASE)
"""What follows from what was said before it: "the caretaker wants to lock up, so we begin at seven"."""


@dataclass(frozen=True)
class Standing:
    """When a record holds; times are stored ones, "" if not known."""

    said: str = ""  # when it was said
    since: str = ""  # from when it holds, if that is another time
    until: str = ""  # when it ceases to hold
    ended: bool = False  # it no longer holds, from `until` on if that is known
    successor: str = ""  # the memory that replaced it
    modality: str = "is"  # as a claim has it
    settled: bool = False  # a doubt is only the reason of what is stated plainly
    temporary: bool = False  # an exception, after which the earlier value holds again
    kind: str = ""
    who: str = ""
    source: str = ""

    @property
    def first(self) -> int:
        """The first day on which it holds, as an ordinal."""
        return day_of(self.since) or day_of(self.said)

    @property
    def last(self) -> int:
        """The last day on which it holds."""
        end = day_of(self.until)
        return end - 1 if end else 0 if self.ended else FOREVER

    def over(self, day: int) -> bool:
        """Whether it no longer holds on a day."""
        return self.last < day

    def shown(self, today: int) -> str:
        """From when until when it holds, who said it and when: "since 3 May, said by you, 28 April"."""
        said, since, until = (_date(each, today) for each in (self.said, self.since, self.until))
        who = "you" if self.who == PERSON else self.who
        begin = f"{'from' if self.first > today else 'since'} {since}" if since and since != said else ""
        end = f"until {until}" if until else "no longer so" if self.ended else ""
        modality = "" if self.settled else MODALITIES.get(self.modality, "")
        if self.modality == "will" and self.first > today:
            modality = "planned"
        parts = [
            *(each for each in (end, begin, modality) if each),
            self.kind if self.kind not in ("fact", "") else "",
            f"said by {who}" if who else "",
            said,
            self.source if self.source not in (PERSON, "") else "",
        ]
        return ", ".join(filter(None, parts))


def _date(at: str, today: int) -> str:
    """A day as a person writes it; the year only if it is another one."""
    if not (day := day_of(at)):
        return ""
    then = date.fromordinal(day)
    year = "" if today and then.year == date.fromordinal(today).year else f" {then.year}"
    return f"{then.day} {then:%B}{year}"


def standings(shelf: Shelf, records: Iterable[Held], language: Language) -> dict[str, Standing]:
    """By id, the standing of these records; for observations their memories are read."""
    records = list(records)
    wanted = {each.memory for each in records if isinstance(each, Observation) and each.memory}
    memories = {each.id: each for each in records if isinstance(each, Memory)}
    memories |= {each.id: each for each in shelf.pick(Memory, wanted - memories.keys())}
    told = shelf.fields(Observation, [id for each in memories.values() for id in each.evidence[:1]], ("at",))
    return {each.id: _standing(each, memories, told, language) for each in records}


def _plain(text: str, language: Language) -> bool:
    """Whether a text is stated without a doubt."""
    claims = claims_of(text, "", language)
    return bool(claims) and all(each.modality == "is" for each in claims)


def _said(record: Held, told: Mapping[str, Mapping[str, Any]]) -> str:
    """When a record was said: a memory with its first evidence. It may hold from before or after that."""
    if isinstance(record, Observation):
        return record.at
    first = next((told[id]["at"] for id in record.evidence[:1] if id in told), "")
    return first or min(record.since, record.created)


def _standing(
    record: Held,
    memories: Mapping[str, Memory],
    told: Mapping[str, Mapping[str, Any]],
    language: Language,
) -> Standing:
    memory = record if isinstance(record, Memory) else memories.get(record.memory)
    said = _said(record, told)
    claims = claims_of(record.text, said, language)
    doubts = [each.modality for each in claims if each.modality not in ("is", "asks") and each.polarity]
    values: dict[str, Any] = {"who": record.who, "source": record.source, "said": said}
    values["kind"] = record.held if isinstance(record, Memory) else record.said
    since = next((each.since for each in claims if each.since), "")
    until = next((each.until for each in claims if each.until), "")
    ended = memory is not None and bool(memory.superseded or memory.until)
    if memory is not None and ended:
        until = memory.until
    return Standing(
        **values,
        since=since,
        until=until,
        ended=ended,
        successor=memory.superseded if memory is not None else "",
        modality=doubts[0] if doubts else "is",
        settled=any(_plain(each, language) for each in _FOLLOWS.split(record.text)[1:]),
        temporary=any(each.temporary for each in claims),
    )
