"""What a dream does to what is known: LoCoMo, observed a session at a time, with a dream after each.

Retrieval is measured before and after with the search that is shipped, asked for turns; and once more asked
for memories, too, where a memory that is found counts for the turns that it is made of. Nodes are what that
search chooses among (`retrieval.nodes`): every turn before; after it memories, and turns that no memory leads
to. All turns stay on the shelf, and each is still measured. The lower bound is that of the 95 % interval of
the paired difference of recall@10, by bootstrap over questions. Seconds are those of all semantic stages over
made-up conversations, through the whole frame with its archive.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import store
from bench.harness import data_file, markdown
from bench.locomo import (
    DATA,
    DEEP,
    Conversation,
    Question,
    Ranking,
    conversations,
    figures_of,
)
from runtime.memory.brain import Brain, Settings
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.stage import Dream, Stage
from runtime.memory.dream.stages import ALL
from runtime.memory.embed import Array, Embedder, Tokens, choose
from runtime.memory.facts.gate import salience_of
from runtime.memory.facts.records import MadeBy, Memory, Observation, moment, stamp
from runtime.memory.facts.retrieval import Retrieval, Scope, observed, once
from runtime.memory.facts.terms import names_of
from runtime.memory.store import Shelf, open_shelf, pack
from runtime.reflexes.trial import Trial

if TYPE_CHECKING:
    from runtime.memory.facts.language import Language

FEWER, WORSE, SLOWER = 0.70, -0.005, 12.0
"""Active nodes that may be left, the least lower bound, and the most that ten times the records may cost."""
SEMANTIC = ("cluster", "refine", "create", "connect", "score", "abstract", "decay", "report")
"""Of these each is switched off in turn."""
CHECKS = ("probe", "verify")
TURNS, FIRST = Scope(kinds=(Observation.KIND,)), 10
Answer = tuple[Question, Ranking]
SIZES = (1_000, 10_000)
DRAWN = 2_000
"""Samples of the bootstrap."""


@dataclass(frozen=True)
class Talk:
    """A conversation whose turns are embedded."""

    conversation: Conversation
    sessions: tuple[tuple[Observation, ...], ...]


def stages(without: Sequence[str] = ()) -> list[Stage]:
    """The stages that work on meaning, in their order."""
    return [stage for stage in ALL if stage.name in SEMANTIC and stage.name not in without]


def talks(found: Sequence[Conversation], embedder: Embedder, system: Path) -> Iterator[Talk]:
    """The conversations as a mind would have noted them."""
    from runtime.memory.facts.language import language_of

    language = language_of((system,))
    for each in found:
        vectors = _embedded(embedder, [turn.text for turn in each.turns])
        noted = [
            _noted(turn, vector, embedder.name, language)
            for turn, vector in zip(each.turns, vectors, strict=True)
        ]
        threads: dict[str, list[Observation]] = {}
        for turn in noted:
            threads.setdefault(turn.thread, []).append(turn)
        yield Talk(each, tuple(tuple(thread) for thread in threads.values()))


def _noted(turn: Observation, vector: Any, name: str, language: Language) -> Observation:
    names = names_of(turn.text, language)
    told = {"names": names, "salience": salience_of(turn.text, "turn", names), "noted": turn.at}
    return turn.model_copy(update={**told, "vectors": {name: pack(vector)}})


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Any:
    """Texts of one length together: the short ones do not wait for the long."""
    import numpy as np

    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    found = np.zeros((len(texts), embedder.size), np.float32)
    for start in range(0, len(order), 32):
        some = order[start : start + 32]
        found[some] = embedder.embed([texts[place] for place in some])
    return found


# ---- a conversation lived through ------------------------------------------------------------------------


def lived(talk: Talk, embedder: Embedder, system: Path, nights: Sequence[Stage]) -> Shelf:
    """A shelf on which the sessions came one after another, each followed by a dream of these stages."""
    brain = Brain(Settings(Path(), (system,), lambda: Trial([system]), "memory"))
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


class Known:
    """An embedder that reads the turns and questions of conversations once, however often it is asked."""

    def __init__(self, made: Embedder, found: Sequence[Talk]) -> None:
        said = {f"{turn.who}: {turn.text}" for talk in found for turn in talk.conversation.turns}
        asked = {question.text for talk in found for question in talk.conversation.questions}
        self._made, self._again = made, said | asked
        self._tokens: dict[str, Tokens] = {}
        self.name, self.size = made.name, made.size

    def embed(self, texts: Sequence[str]) -> Array:
        """One row for each text."""
        return self._made.embed(texts)

    def embed_tokens(self, text: str) -> Tokens:
        """The tokens of a text."""
        if text not in self._again:
            return self._made.embed_tokens(text)
        if text not in self._tokens:
            self._tokens[text] = self._made.embed_tokens(text)
        return self._tokens[text]


def nodes(shelf: Shelf) -> int:
    """What retrieval chooses among: memories, and observations that no memory leads to."""
    return shelf.count(Memory) + sum(not each.memory for each in shelf.scan(Observation))


def answers(talk: Talk, shelf: Shelf, embedder: Embedder) -> tuple[list[Answer], list[float]]:
    """The turns that are found for each question; and recall@10 where memories may be found, too."""
    retrieval = Retrieval(shelf, embedder)
    leads = {each.id: each.evidence for each in shelf.scan(Memory)}
    found: list[Answer] = []
    through: list[float] = []
    for question in talk.conversation.questions:
        hits = retrieval.search(question.text, DEEP, scope=TURNS)
        found.append((question, [hit.id for hit in hits]))
        both = once(retrieval.search(question.text, 3 * FIRST), leads) if leads else hits
        told = observed(both[:FIRST], leads)
        through.append(sum(id in told for id in question.evidence) / len(question.evidence))
    return found, through


@dataclass(frozen=True)
class Outcome:
    """What was found, and in how many nodes."""

    found: list[Answer]
    through: list[float]
    nodes: int

    def told(self) -> dict[str, Any]:
        """The figures."""
        through = round(sum(self.through) / max(len(self.through), 1), 4)
        return {**figures_of(self.found), "with_memories": through, "nodes": self.nodes}

    def hits(self) -> list[float]:
        """Recall@10 of each question."""
        return [
            sum(id in found[:FIRST] for id in question.evidence) / len(question.evidence)
            for question, found in self.found
        ]


def outcome(told: Sequence[Talk], embedder: Embedder, system: Path, nights: Sequence[Stage]) -> Outcome:
    """All conversations, each on a shelf of its own."""
    found: list[Answer] = []
    through: list[float] = []
    count = 0
    for talk in told:
        shelf = lived(talk, embedder, system, nights)
        turns, all_of_it = answers(talk, shelf, embedder)
        found += turns
        through += all_of_it
        count += nodes(shelf)
    return Outcome(found, through, count)


def lower_bound(before: Sequence[float], after: Sequence[float]) -> float:
    """Of the 95 % interval of the mean paired difference, by bootstrap."""
    import numpy as np

    differences = np.array(after) - np.array(before)
    rng = np.random.default_rng(1)
    count = len(differences)
    means = [differences[rng.integers(count, size=count)].mean() for _ in range(DRAWN)]
    return round(float(np.percentile(means, 2.5)), 4)


# ---- time ------------------------------------------------------------------------------------------------


def seconds(size: int, system: Path) -> dict[str, float]:
    """What each semantic stage takes over so many new records, on the default store, with archive.

    All of them are told in seconds of the processor: what else this machine does is not the dream's.
    """
    with tempfile.TemporaryDirectory() as folder:
        brain = Brain(
            Settings(Path(folder), (system,), lambda: Trial([system]), embedder="lexical", fsync=False)
        )
        for some in _made_up(size, brain.embedder.name):
            brain.shelf.put(*some)
        brain.shelf.put(MadeBy(id="semantic", embedder=brain.embedder.name))
        timed = [stage for stage in ALL if stage.name in (*SEMANTIC, *CHECKS)]
        dreamer = Dreamer(brain, clock=lambda: datetime(2026, 3, 1, tzinfo=UTC), stages=timed)
        began = time.process_time()
        dreamt = dreamer.dream("bench", timed)
        total = time.process_time() - began
        brain.close()
        return {**{name: done.seconds for name, done in dreamt.stages.items()}, "all": round(total, 3)}


def _made_up(size: int, name: str) -> Iterator[list[Observation]]:
    """Turns of conversations, twenty each, about what their vectors lie around."""
    drawn = random.Random(1)
    words = [f"{_syllables(number)}" for number in range(4_000)]
    number = 0
    for _, rows in store.vectors(size):
        some: list[Observation] = []
        for place in range(len(rows)):
            row = rows[place - place % 4] * 0.8 + rows[place] * 0.6  # four turns of one thing
            row = row / max(float((row @ row) ** 0.5), 1e-9)
            said = [words[min(int(drawn.paretovariate(0.7)), 3_999)] for _ in range(10)]
            thread, turn = divmod(number, 20)
            at = stamp(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number))
            some.append(
                Observation(
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
            )
            number += 1
        yield some


def _syllables(number: int) -> str:
    return "".join("bdfgklmnprst"[number // 12**n % 12] + "aeiou"[number // 5**n % 5] for n in range(4))


# ---- all of it -------------------------------------------------------------------------------------------


def measure(
    path: Path | None = None,
    embedder: Embedder | None = None,
    *,
    without: bool = True,
    sizes: Sequence[int] = SIZES,
    most: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The semantic half of `python -m bench dream`; `most` conversations only, for a quick look."""
    from runtime.api.fractal import shipped_system

    makes, system = embedder or choose(), shipped_system()
    found = conversations(path or data_file(DATA))[:most]
    say(f"{sum(len(each.turns) for each in found)} turns are read and embedded by {makes.name}")
    told = list(talks(found, makes, system))
    makes = Known(makes, told)
    before = outcome(told, makes, system, [])
    say("a dream after each session")
    after = outcome(told, makes, system, stages())
    figures: dict[str, Any] = {
        "embedder": makes.name,
        "before": before.told(),
        "after": after.told(),
        "nodes_left": round(after.nodes / max(before.nodes, 1), 4),
        "lower_bound": lower_bound(before.hits(), after.hits()),
        "lower_bound_with_memories": lower_bound(before.through, after.through),
        "without": {},
        "seconds": {},
        "seconds_by_stage": {},
    }
    for name in SEMANTIC if without else ():
        say(f"without {name}")
        off = outcome(told, makes, system, stages([name]))
        figures["without"][name] = {
            **off.told(),
            "lower_bound": lower_bound(before.hits(), off.hits()),
            "lower_bound_with_memories": lower_bound(before.through, off.through),
        }
    for size in sizes:
        say(f"{size} records")
        took = seconds(size, system)
        figures["seconds"][str(size)] = took.pop("all")
        figures["seconds_by_stage"][str(size)] = took
    return figures


def missed(figures: Mapping[str, Any]) -> list[str]:
    """The goals that are not reached, in words."""
    found: list[str] = []
    if figures["nodes_left"] > FEWER:
        found.append(f"{figures['nodes_left']:.0%} of the nodes are left, {FEWER:.0%} are the most")
    if figures["lower_bound"] < WORSE:
        found.append(f"the lower bound {figures['lower_bound']:+.4f} is below {WORSE:+.4f}")
    times = {int(size): taken for size, taken in figures["seconds"].items()}
    for size, taken in times.items():
        if size * 10 in times and times[size * 10] > SLOWER * taken:
            found.append(f"{size * 10} records take {times[size * 10] / taken:.1f} times as long as {size}")
    return found


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["", "recall@5", "recall@10", "MRR", "lower bound", "with memories", "lower bound", "nodes"]
    rows: list[list[str]] = []
    bounds = {name: figures[name] for name in ("lower_bound", "lower_bound_with_memories")}
    named = [("before", figures["before"]), ("after", {**figures["after"], **bounds})]
    named += [(f"without {name}", row) for name, row in figures["without"].items()]
    for name, row in named:
        bound, through = (
            f"{row[key]:+.4f}" if key in row else "" for key in ("lower_bound", "lower_bound_with_memories")
        )
        scores = [f"{row[key]:.3f}" for key in ("recall@5", "recall@10", "mrr")]
        told = [bound, f"{row['with_memories']:.3f}", through, f"{row['nodes']:,}"]
        rows.append([name, *scores, *told])
    text = markdown(heads, rows)
    for size, taken in figures["seconds"].items():
        shares = figures["seconds_by_stage"][size].items()
        told = ", ".join(f"{name} {each:.1f}" for name, each in shares)
        text += f"\n\n{int(size):,} records: {taken:.1f} s ({told})"
    return text
