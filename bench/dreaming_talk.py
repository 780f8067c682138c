"""A dream over conversations: LoCoMo, observed a session at a time, with a dream after each session.

Retrieval is measured before and after, with the search that ships: once for turns, and once for memories as
well, where a memory counts for the turns that it was made from. Nodes are what that search chooses among
(`retrieval.nodes`): before the dream every turn, afterwards memories and the turns that no memory leads to.
All turns stay on the shelf. The lower bound is that of the 95 % interval of the paired difference of
recall@10, by bootstrap over the questions. Seconds are those of all semantic stages over generated
conversations, with the archive.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench import store
from bench.dreaming_trees import brain_in
from bench.harness import CachedEmbedder, Figures, cost, data_file, embedded, made_up_word, markdown
from bench.locomo import DATA, DEEP, Answer, Conversation, figures_of, read_conversations
from runtime.api.fractal import shipped_system
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.stages import ALL, Dream, Stage
from runtime.memory.embed import Embedder
from runtime.memory.facts.gate import salience_of
from runtime.memory.facts.language import language_of
from runtime.memory.facts.records import MadeBy, Memory, Observation, moment, stamp
from runtime.memory.facts.retrieval import Retrieval, Scope, observed, once
from runtime.memory.facts.terms import names_of
from runtime.memory.store import Shelf, open_shelf, pack

MOST_NODES, LEAST_BOUND, GROWTH = 0.70, -0.005, 12.0
"""Goals: nodes left, lower bound, and how much longer a dream may take with ten times the records."""
SEMANTIC = ("cluster", "refine", "create", "connect", "score", "abstract", "decay", "report")
"""Each of these is left out in turn."""
CHECKS = ("probe", "verify")
TURNS, FIRST = Scope(kinds=(Observation.KIND,)), 10
SAMPLES = 2_000
"""Of the bootstrap."""


@dataclass(frozen=True)
class Talk:
    """A conversation whose turns are embedded, by session."""

    conversation: Conversation
    sessions: tuple[tuple[Observation, ...], ...]


def stages(without: str = "") -> list[Stage]:
    """The semantic stages, in order."""
    return [stage for stage in ALL if stage.name in SEMANTIC and stage.name != without]


def talks_of(conversations: Sequence[Conversation], embedder: Embedder) -> Iterator[Talk]:
    """The conversations as memory would note them."""
    language = language_of((shipped_system(),))
    for conversation in conversations:
        vectors = embedded(embedder, [turn.text for turn in conversation.turns])
        threads: dict[str, list[Observation]] = {}
        for turn, vector in zip(conversation.turns, vectors, strict=True):
            names = names_of(turn.text, language)
            noted = {
                "names": names,
                "salience": salience_of(turn.text, "turn", names),
                "noted": turn.at,
                "vectors": {embedder.name: pack(vector)},
            }
            threads.setdefault(turn.thread, []).append(turn.model_copy(update=noted))
        yield Talk(conversation, tuple(tuple(thread) for thread in threads.values()))


# ---- retrieval -------------------------------------------------------------------------------------------


def lived(talk: Talk, embedder: Embedder, nights: Sequence[Stage]) -> Shelf:
    """A shelf that received the sessions one after another, each followed by a dream of these stages."""
    brain = brain_in(Path(), store="memory")
    brain.__dict__["embedder"] = embedder
    shelf = brain.__dict__["_shelf"] = open_shelf("memory", Path())
    shelf.put(MadeBy(id="semantic", embedder=embedder.name))
    for number, session in enumerate(talk.sessions):
        shelf.put(*session)
        night = moment(session[0].at) + timedelta(hours=3)
        for stage in nights:
            with shelf.transaction():
                stage.run(Dream(f"night {number:03}", brain, shelf, night))
    return shelf


def count_nodes(shelf: Shelf) -> int:
    """What retrieval chooses among: memories, and observations that no memory leads to."""
    return shelf.count(Memory) + sum(not each.memory for each in shelf.scan(Observation))


def answers(talk: Talk, shelf: Shelf, embedder: Embedder) -> tuple[list[Answer], list[float]]:
    """The ranking of turns for each question, and its recall@10 where memories are searched as well."""
    retrieval = Retrieval(shelf, embedder)
    evidence = {each.id: each.evidence for each in shelf.scan(Memory)}
    rankings: list[Answer] = []
    with_memories: list[float] = []
    for question in talk.conversation.questions:
        hits = retrieval.search(question.text, DEEP, scope=TURNS)
        rankings.append((question, [hit.id for hit in hits]))
        both = once(retrieval.search(question.text, 3 * FIRST), evidence) if evidence else hits
        turns = observed(both[:FIRST], evidence)
        with_memories.append(sum(id in turns for id in question.evidence) / len(question.evidence))
    return rankings, with_memories


@dataclass(frozen=True)
class Outcome:
    """The rankings of all questions, recall@10 with memories, and the number of nodes."""

    rankings: list[Answer]
    with_memories: list[float]
    nodes: int

    def figures(self) -> dict[str, Any]:
        """The means."""
        with_memories = round(sum(self.with_memories) / max(len(self.with_memories), 1), 4)
        return {**figures_of(self.rankings), "with_memories": with_memories, "nodes": self.nodes}

    def bounds(self, before: Outcome) -> dict[str, float]:
        """The lower bounds of the differences to another outcome."""
        return {
            "lower_bound": lower_bound(before.recall(), self.recall()),
            "lower_bound_with_memories": lower_bound(before.with_memories, self.with_memories),
        }

    def recall(self) -> list[float]:
        """Recall@10 of each question."""
        return [
            sum(id in ranking[:FIRST] for id in question.evidence) / len(question.evidence)
            for question, ranking in self.rankings
        ]


def outcome(talks: Sequence[Talk], embedder: Embedder, nights: Sequence[Stage]) -> Outcome:
    """All conversations, each on a shelf of its own."""
    rankings: list[Answer] = []
    with_memories: list[float] = []
    nodes = 0
    for talk in talks:
        shelf = lived(talk, embedder, nights)
        turns, both = answers(talk, shelf, embedder)
        rankings += turns
        with_memories += both
        nodes += count_nodes(shelf)
    return Outcome(rankings, with_memories, nodes)


def lower_bound(before: Sequence[float], after: Sequence[float]) -> float:
    """Of the 95 % interval of the mean paired difference, by bootstrap."""
    differences = np.array(after) - np.array(before)
    rng = np.random.default_rng(1)
    count = len(differences)
    means = [differences[rng.integers(count, size=count)].mean() for _ in range(SAMPLES)]
    return round(float(np.percentile(means, 2.5)), 4)


# ---- time ------------------------------------------------------------------------------------------------


def seconds(size: int) -> dict[str, float]:
    """CPU seconds of each semantic stage over so many new records, on the default store, with archive."""
    with tempfile.TemporaryDirectory() as folder:
        brain = brain_in(Path(folder))
        for batch in _generated(size, brain.embedder.name):
            brain.shelf.put(*batch)
        brain.shelf.put(MadeBy(id="semantic", embedder=brain.embedder.name))
        timed = [stage for stage in ALL if stage.name in (*SEMANTIC, *CHECKS)]
        dreamer = Dreamer(brain, clock=lambda: datetime(2026, 3, 1, tzinfo=UTC), stages=timed)
        with cost() as spent:
            dream = dreamer.dream("bench", timed)
        brain.close()
        return {**{name: stage.seconds for name, stage in dream.stages.items()}, "all": round(spent.cpu, 3)}


def _generated(size: int, name: str) -> Iterator[list[Observation]]:
    """Turns of conversations of twenty turns each; four turns in a row have similar vectors."""
    drawn = random.Random(1)
    words = [made_up_word(number, 4) for number in range(4_000)]
    for start, rows in store.vectors(size):
        batch: list[Observation] = []
        for place in range(len(rows)):
            row = rows[place - place % 4] * 0.8 + rows[place] * 0.6
            row = row / max(float((row @ row) ** 0.5), 1e-9)
            said = [words[min(int(drawn.paretovariate(0.7)), 3_999)] for _ in range(10)]
            number = start + place
            thread, turn = divmod(number, 20)
            at = stamp(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number))
            observation = Observation(
                id=f"{number:07}",
                text=" ".join(said).capitalize() + ".",
                at=at,
                noted=at,
                said="turn",
                salience=0.3,
                who=("Ann", "Bob")[turn % 2],
                thread=f"talk {thread}",
                turn=turn,
                vectors={name: pack(row)},
            )
            batch.append(observation)
        yield batch


# ---- figures ---------------------------------------------------------------------------------------------


def measure(
    path: Path | None, embedder: Embedder, *, without: bool = True, sizes: Sequence[int] = ()
) -> dict[str, Any]:
    """The figures before and after the dream, without each stage, and seconds by size."""
    cached = CachedEmbedder(embedder)
    talks = list(talks_of(read_conversations(path or data_file(DATA)), cached))
    before, after = outcome(talks, cached, []), outcome(talks, cached, stages())
    left_out = {name: outcome(talks, cached, stages(name)) for name in SEMANTIC if without}
    times = {str(size): seconds(size) for size in sizes}
    return {
        "embedder": cached.name,
        "before": before.figures(),
        "after": after.figures(),
        "nodes_left": round(after.nodes / max(before.nodes, 1), 4),
        **after.bounds(before),
        "without": {name: {**each.figures(), **each.bounds(before)} for name, each in left_out.items()},
        "seconds": {size: each.pop("all") for size, each in times.items()},
        "seconds_by_stage": times,
    }


def missed(figures: Figures) -> list[str]:
    """The missed goals."""
    goals: list[str] = []
    if figures["nodes_left"] > MOST_NODES:
        goals.append(f"{figures['nodes_left']:.0%} of the nodes are left, {MOST_NODES:.0%} are the most")
    if figures["lower_bound"] < LEAST_BOUND:
        goals.append(f"the lower bound {figures['lower_bound']:+.4f} is below {LEAST_BOUND:+.4f}")
    times = {int(size): taken for size, taken in figures["seconds"].items()}
    for size, taken in times.items():
        if size * 10 in times and times[size * 10] > GROWTH * taken:
            goals.append(f"{size * 10} records take {times[size * 10] / taken:.1f} times as long as {size}")
    return goals


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["", "recall@5", "recall@10", "MRR", "lower bound", "with memories", "lower bound", "nodes"]
    bounds = {name: figures[name] for name in ("lower_bound", "lower_bound_with_memories")}
    named = [("before", figures["before"]), ("after", {**figures["after"], **bounds})]
    named += [(f"without {name}", row) for name, row in figures["without"].items()]
    rows: list[list[str]] = []
    for name, row in named:
        scores = [f"{row[key]:.3f}" for key in ("recall@5", "recall@10", "mrr")]
        bound, bound_with = (f"{row[key]:+.4f}" if key in row else "" for key in bounds)
        rows.append([name, *scores, bound, f"{row['with_memories']:.3f}", bound_with, f"{row['nodes']:,}"])
    text = markdown(heads, rows)
    for size, taken in figures["seconds"].items():
        stages_ = (f"{name} {each:.1f}" for name, each in figures["seconds_by_stage"][size].items())
        text += f"\n\n{int(size):,} records: {taken:.1f} s ({', '.join(stages_)})"
    return text
