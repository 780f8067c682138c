"""Phase b: what is known as a whole. Connect, score, abstract and decay memories and their edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any, ClassVar

from runtime.memory.dream.gist import ABSTRACT, keywords, spelled, split, word_counts
from runtime.memory.dream.solved_tasks import fade_synapses
from runtime.memory.dream.stages import Dream, StageResult, short
from runtime.memory.dream.work import Work
from runtime.memory.facts.graph import digest, edge_id, edges_of, link
from runtime.memory.facts.records import Edge, Memory, Observation, days_between, stamp
from runtime.memory.facts.review import GRADES, due, review
from runtime.memory.store import Record, pack

HELD = {"superseded": "", "until": ""}
"""The filter of memories that hold."""

LATELY = timedelta(days=7)
RECENT = 15
"""Memories of which every pair is compared. Source: the reference engine, as are the days and the cosine."""
NEAR = {"minilm": 0.2, "lexical": 0.08}
NEAR_OTHER = 0.2
AROUND = 3
"""Neighbours that each of the others is compared with."""
CONNECTED = 2_000
"""Memories that one dream looks at."""
RARE = 0.05
"""The share of memories up to which a word counts as rare."""
SHOWN = 4


def connect(dream: Dream) -> StageResult:
    """Link memories made, changed or used lately that are near and share rare words, which the edge names."""
    work = Work(dream)
    least = stamp(dream.now - LATELY)
    recent: dict[str, list[Memory]] = {}
    for memory in work.shelf.scan(Memory, HELD):
        if _age(memory)[0] >= least and memory.held != "abstraction":
            recent.setdefault(memory.agent, []).append(memory)
    counts = {"looked at": 0, "connected": 0}
    did: list[str] = []
    for agent in sorted(recent):
        _connect(work, sorted(recent[agent], key=_age)[-CONNECTED:], counts, did)
    return StageResult([*did, *work.refused], counts, work.form)


def _age(memory: Memory) -> tuple[str, str, str]:
    return max(memory.changed, memory.last_access), memory.since, memory.id


def _connect(work: Work, memories: Sequence[Memory], counts: dict[str, int], did: list[str]) -> None:
    words = {each.id: keywords(each.text, work.empty) for each in memories}
    often = Counter(word for each in words.values() for word in each)
    rare = {word for word, count in often.items() if count <= max(2, RARE * len(memories))}
    for pair in _pairs(work, memories):
        counts["looked at"] += 1
        later, earlier = sorted(pair, key=lambda each: (each.since, each.id), reverse=True)
        for memory in pair:
            words.setdefault(memory.id, keywords(memory.text, work.empty))
        shared = words[later.id] & words[earlier.id]
        rarest = (shared & rare) or {word for word in shared if word not in often}
        text = _why(work, later, earlier, sorted(rarest, key=lambda word: (often[word], -len(word), word)))
        if not text or work.shelf.get(Edge, edge_id(later.id, "related", earlier.id)):
            continue
        weight = round(min(0.8, 0.4 + 0.1 * max(len(rarest), 1)), 3)
        dates = {"source_at": later.since, "target_at": earlier.since}
        link(work.shelf, later.id, earlier.id, "related", text=text, weight=weight, at=work.now, **dates)
        counts["connected"] += 1
        did.append(f"“{short(later.text, 50)}” and “{short(earlier.text, 50)}”: {text}")


def _pairs(work: Work, memories: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
    """The pairs that are near enough, each once: among the latest all, else the nearest few."""
    least = work.of_embedder(NEAR, NEAR_OTHER)
    rows: dict[str, Any] = {each.id: row for each in memories if (row := each.vector(work.name)) is not None}
    pairs: dict[tuple[str, str], tuple[Memory, Memory]] = {}
    for one, other in combinations([each for each in memories[-RECENT:] if each.id in rows], 2):
        if float(rows[one.id] @ rows[other.id]) >= least:
            pairs[one.id, other.id] = (one, other)
    for older in (each for each in memories[:-RECENT] if each.id in rows):
        near = [id for id, cosine in work.nearest(older.agent, rows[older.id], AROUND + 1) if cosine >= least]
        for other in work.shelf.pick(Memory, [id for id in near if id != older.id]):
            first, second = sorted((older, other), key=lambda one: one.id)
            pairs.setdefault((first.id, second.id), (first, second))
    return list(pairs.values())


def _why(work: Work, later: Memory, earlier: Memory, shared: Sequence[str]) -> str:
    """What an edge rests on; "" for nothing."""
    if work.may_ask():
        reply = work.answer("connect", {"one": later.text, "other": earlier.text})
        if isinstance(reply.get("related"), bool):
            why = short(str(reply.get("why", "")), 200)
            words = keywords(why, work.empty)
            if not reply["related"]:
                return ""
            if all(words & keywords(each.text, work.empty) for each in (later, earlier)):
                work.form = "model"
                return why
            work.refused.append(f"an edge was refused: “{short(why)}” is not about both memories")
    return f"both mention {', '.join(spelled(word, later.text) for word in shared[:SHOWN])}" if shared else ""


BATCH = 500


def score(dream: Dream) -> StageResult:
    """Review the memories that are due (FSRS-6), and nothing else."""
    due_memories = [each for each in dream.shelf.scan(Memory, HELD) if due(each, dream.now)]
    counts = {"due": len(due_memories), **dict.fromkeys(GRADES, 0), "lapsed": 0}
    did: list[str] = []
    for start in range(0, len(due_memories), BATCH):
        batch = due_memories[start : start + BATCH]
        edges = edges_of(dream.shelf, [each.id for each in batch])
        for memory in batch:
            against = any(
                edge.relation in ("contradicts", "supersedes") and edge.target == memory.id
                for edge in edges[memory.id]
                if not edge.invalidated
            )
            reviewed = review(memory, dream.now, contradicted=against)
            counts[reviewed.grade] += 1
            counts["lapsed"] += reviewed.lapsed
            if reviewed.lapsed:
                did.append(f"“{short(memory.text)}” is nearly forgotten")
            dream.shelf.put(reviewed.memory)
    return StageResult(did, counts)


NEWEST = 60
"""Memories that are looked at. Source: the reference engine, as are the four below."""
OCCASIONS, LEAST = 4, 3
"""Occasions that are quoted, and those that are needed."""
NOVEL = 0.88
"""The cosine to another abstraction below which one is new."""
ATTEMPTS = 5
COMMON = 0.34
"""The share of memories above which a word is what everything here is about."""
CONFIDENCE, WEIGHT = 0.4, 0.6

Theme = tuple[str, list[tuple[Memory, str]]]
"""A word, and for each occasion a memory and its sentence with the word."""


def abstract(dream: Dream) -> StageResult:
    """Make a memory of what the newest memories have in common across occasions, with edges to them.

    A model words it; without one there is none. At most one new abstraction per agent and dream. One of which
    a source no longer holds is removed.
    """
    work = Work(dream)
    held: dict[str, list[Memory]] = {}
    for memory in work.shelf.scan(Memory, HELD):
        held.setdefault(memory.agent, []).append(memory)
    counts = {"attempts": 0, "made": 0, "edges": 0, "outdated": 0}
    did: list[str] = []
    for agent in sorted(held):
        plain = {each.id: each for each in held[agent] if each.held != "abstraction"}
        abstractions = {each.id: each for each in held[agent] if each.id not in plain}
        for id in _outdated(work, abstractions, plain):
            counts["outdated"] += 1
            did.append(f"“{short(abstractions.pop(id).text)}” rests on what no longer holds: removed")
        newest = sorted(plain.values(), key=lambda each: (each.created, each.since, each.id))[-NEWEST:]
        if dream.ask is not None:
            rows = {id: each.vector(work.name) for id, each in abstractions.items()}
            _abstract(work, agent, newest, rows, counts, did)
    return StageResult([*did, *work.refused], counts, work.form)


def _outdated(work: Work, abstractions: Collection[str], holding: Collection[str]) -> list[str]:
    """Remove the abstractions that rest on a memory that does not hold, with their edges; their ids."""
    edges = {
        id: [edge for edge in of_one if edge.relation == "derived" and edge.source == id]
        for id, of_one in edges_of(work.shelf, abstractions).items()
    }
    outdated = [id for id, of_one in edges.items() if any(edge.target not in holding for edge in of_one)]
    work.shelf.delete(Memory, *outdated)
    work.shelf.delete(Edge, *(edge.id for id in outdated for edge in edges[id]))
    return outdated


def _abstract(
    work: Work,
    agent: str,
    memories: Sequence[Memory],
    abstractions: Mapping[str, Any],
    counts: dict[str, int],
    did: list[str],
) -> None:
    for word, sources in _themes(work, memories):
        id = digest("abstraction", agent, word)
        if id in abstractions:
            continue
        counts["attempts"] += 1
        text = _abstraction(work, word, sources)
        if work.dream.waits():
            return
        row = work.embedder.embed([text])[0] if text else None
        others = [other for other in abstractions.values() if other is not None]
        if row is not None and all(float(row @ other) < NOVEL for other in others):
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
                why = short(sentence, 200)
                link(work.shelf, id, source.id, "derived", text=why, weight=WEIGHT, at=work.now)
            counts["made"] += 1
            counts["edges"] += len(sources)
            did.append(f"“{short(text)}” is common to {len(sources)}")
            return
        if counts["attempts"] >= ATTEMPTS:
            return


def _themes(work: Work, memories: Sequence[Memory]) -> list[Theme]:
    """Words of several occasions that few memories share, the most telling first."""
    occasions = _occasions(work, memories)
    speakers = frozenset(word for each in memories for name in each.names for word in keywords(name))
    themes: dict[str, dict[str, tuple[Memory, str]]] = {}
    often = Counter(word for each in memories for word in keywords(each.text, work.empty))
    for memory in memories:
        for sentence in split(memory.text):
            for word in word_counts(sentence, work.empty):
                if word.isalpha() and len(word) > 3 and word not in speakers:
                    theme = themes.setdefault(word, {})
                    before = theme.get(occasions[memory.id])
                    if before is None or len(sentence) < len(before[1]):
                        theme[occasions[memory.id]] = (memory, sentence)
    ranked = [
        (word, list(theme.values()))
        for word, theme in themes.items()
        if len(theme) >= LEAST and often[word] <= max(LEAST, COMMON * len(memories))
    ]
    ranked.sort(key=lambda each: (-min(len(each[1]), OCCASIONS), often[each[0]], -len(each[0]), each[0]))
    return [(word, sources[:OCCASIONS]) for word, sources in ranked]


def _occasions(work: Work, memories: Sequence[Memory]) -> Mapping[str, str]:
    """By memory, when and where it comes from; memories of one occasion share a topic anyway."""
    first = {each.evidence[0]: each.id for each in memories if each.evidence}
    threads = {first[each.id]: each.thread for each in work.shelf.pick(Observation, first)}
    return {each.id: f"{threads.get(each.id, '')} {each.since[:10] or each.id}" for each in memories}


def _abstraction(work: Work, word: str, sources: Sequence[tuple[Memory, str]]) -> str:
    """A model's wording; "" if there is none, or it is not grounded."""
    if not work.may_ask():
        return ""
    theme, sentences = spelled(word, sources[0][1]), [sentence for _, sentence in sources]
    examples = "\n".join(f"[{memory.since[:10]}] {sentence}" for memory, sentence in sources)
    return work.reply("abstract", {"theme": theme, "examples": examples}, "", sentences, ABSTRACT)


HALF = {"related": 90.0, "mentions": 180.0, "follows": 180.0}
"""Days after which half of the weight is left, by relation; others keep theirs, as do invalidated edges."""
EVERY = 7.0
"""Days between two decays, so that edges are not rewritten every night."""
WEAKEST = 0.05
"""The weight below which an edge is removed."""


class Decayed(Record):
    """When something decayed last: `edges` or `synapses`."""

    KIND: ClassVar[str] = "decayed"

    at: str = ""


def decay(dream: Dream) -> StageResult:
    """Edges weaken with age, and the weakest are removed; credit and blame of synapses count less."""
    weaker, dropped = _decay_edges(dream)
    return StageResult(counts={"weaker": weaker, "dropped": dropped, "faded": _decay_synapses(dream)})


def _decay_edges(dream: Dream) -> tuple[int, int]:
    shelf, now = dream.shelf, stamp(dream.now)
    last = shelf.get(Decayed, "edges")
    if last is not None and 0 <= days_between(last.at, now) < EVERY:
        return 0, 0
    weaker: list[Edge] = []
    removed: list[str] = []
    for edge in shelf.scan(Edge):
        if edge.invalidated or edge.relation not in HALF or not edge.at:
            continue
        days = days_between(max(edge.at, last.at) if last else edge.at, now)
        weight = edge.weight * 0.5 ** (days / HALF[edge.relation])
        if days > 0 and weight < WEAKEST:
            removed.append(edge.id)
        elif days > 0:
            weaker.append(edge.model_copy(update={"weight": round(weight, 6)}))
    if weaker or removed:
        shelf.put(*weaker, Decayed(id="edges", at=now))
    shelf.delete(Edge, *removed)
    return len(weaker), len(removed)


def _decay_synapses(dream: Dream) -> int:
    last = dream.shelf.get(Decayed, "synapses")
    count = fade_synapses(dream, last.at if last else "")
    if count:
        dream.shelf.put(Decayed(id="synapses", at=dream.now.isoformat(timespec="seconds")))
    return count
