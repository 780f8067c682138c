"""Abstract: what memories of several occasions have in common becomes a memory, with edges to them.

The form without a model chooses what few other memories tell of but several occasions do, and quotes one
sentence of each. One new abstraction a dream, after some attempts at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.memory.dream.cluster import short
from runtime.memory.dream.gist import ABSTRACT, counted, grounded, keywords, spelled, split
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.dream.work import Work
from runtime.memory.semantic.keeping import digest
from runtime.memory.semantic.links import link
from runtime.memory.semantic.records import Memory, Observation
from runtime.store import pack

NEWEST = 60
"""Memories that are looked at. Source: the reference engine, as are the four below."""
OCCASIONS, LEAST = 4, 3
"""Occasions that are told of, and those that are needed."""
NOVEL = 0.88
"""The cosine to another abstraction below which one is new."""
ATTEMPTS = 5
COMMON = 0.34
"""What a larger part of the memories tells of is what everything here is about."""
CONFIDENCE, WEIGHT = 0.4, 0.6


def abstract(dream: Dream) -> Told:
    """Find what the newest memories have in common across occasions."""
    work = Work(dream)
    held: dict[str, list[Memory]] = {}
    for each in work.shelf.scan(Memory, {"superseded": "", "until": ""}):
        held.setdefault(each.agent, []).append(each)
    counts = {"attempts": 0, "made": 0, "edges": 0}
    did: list[str] = []
    for agent in sorted(held):
        plain = [each for each in held[agent] if each.held != "abstraction"]
        plain.sort(key=lambda each: (each.created, each.since, each.id))
        known = [each for each in held[agent] if each.held == "abstraction"]
        _abstract(work, agent, plain[-NEWEST:], known, counts, did)
    return Told([*did, *work.refused], counts, work.form)


def _abstract(
    work: Work,
    agent: str,
    some: Sequence[Memory],
    known: Sequence[Memory],
    counts: dict[str, int],
    did: list[str],
) -> None:
    ids = {each.id for each in known}
    rows: list[Any] = [row for each in known if (row := each.vector(work.name)) is not None]
    for word, sources in _themes(work, some):
        id = digest("abstraction", agent, word)
        if id in ids:
            continue
        counts["attempts"] += 1
        text = _told(work, word, sources)
        if work.dream.waits():
            return
        (row,) = work.embedder.embed([text])
        if all(float(row @ other) < NOVEL for other in rows):
            memory = Memory(
                id=id,
                text=text,
                held="abstraction",
                since=min(each.since for each, _ in sources),
                created=work.now,
                changed=work.now,
                confidence=CONFIDENCE,
                salience=max(each.salience for each, _ in sources),
                source=f"dream:{work.dream.id}",
                agent=agent,
                vectors={work.name: pack(row)},
            )
            work.shelf.put(memory)
            for source, sentence in sources:
                link(
                    work.shelf,
                    id,
                    source.id,
                    "derived",
                    text=short(sentence, 200),
                    weight=WEIGHT,
                    at=work.now,
                )
            counts["made"] += 1
            counts["edges"] += len(sources)
            did.append(f"“{short(text)}” is common to {len(sources)}")
            return
        if counts["attempts"] >= ATTEMPTS:
            return


def _themes(work: Work, some: Sequence[Memory]) -> list[tuple[str, list[tuple[Memory, str]]]]:
    """Words that memories of several occasions tell of, and for each occasion a memory and its sentence."""
    occasions = _occasions(work, some)
    speakers = frozenset(word for each in some for name in each.names for word in keywords(name))
    found: dict[str, dict[str, tuple[Memory, str]]] = {}
    often: dict[str, int] = {}
    for each in some:
        for sentence in split(each.text):
            for word in counted(sentence, work.empty):
                if word.isalpha() and len(word) > 3 and word not in speakers:
                    theme = found.setdefault(word, {})
                    before = theme.get(occasions[each.id])
                    if before is None or len(sentence) < len(before[1]):
                        theme[occasions[each.id]] = (each, sentence)
        for word in keywords(each.text, work.empty):
            often[word] = often.get(word, 0) + 1
    ranked = [
        (word, theme)
        for word, theme in found.items()
        if len(theme) >= LEAST and often[word] <= max(LEAST, COMMON * len(some))
    ]
    ranked.sort(key=lambda each: (-min(len(each[1]), OCCASIONS), often[each[0]], -len(each[0]), each[0]))
    return [(word, list(theme.values())[:OCCASIONS]) for word, theme in ranked]


def _occasions(work: Work, some: Sequence[Memory]) -> Mapping[str, str]:
    """By memory, when and where it comes from: two of one occasion have one thing in common anyway."""
    first = {each.evidence[0]: each.id for each in some if each.evidence}
    threads = {first[each.id]: each.thread for each in work.shelf.pick(Observation, first)}
    return {each.id: f"{threads.get(each.id, '')} {each.since[:10] or each.id}" for each in some}


def _told(work: Work, word: str, sources: Sequence[tuple[Memory, str]]) -> str:
    lines = [f"[{memory.since[:10]}] {sentence}" for memory, sentence in sources]
    plain = f"{spelled(word, sources[0][1])}: " + " … ".join(sentence for _, sentence in sources)
    if work.dream.ask is None or not work.asks():
        return plain
    told = " ".join(
        work.dream.ask(
            "abstract", {"theme": spelled(word, sources[0][1]), "examples": "\n".join(lines)}
        ).split()
    )
    if why := grounded(told, [sentence for _, sentence in sources], work.empty, ABSTRACT):
        work.refused.append(f"an abstraction was refused: {why}")
        return plain
    work.form = "model"
    return told
