"""Which turns of a long conversation answer a question: LoCoMo, an index for each conversation.

Recall at k is the share of a question's evidence among the first k turns, the mean over the questions with
evidence of the categories 1 to 4 (5 has no answer); `any` and `all` ask for one, and for every one, of them
among the first 10. With these the published row of BM25 comes out to two digits on the part that is given.

The weights that are shipped are fitted on the conversations that are given: what they reach on others is told
by `--leave-one-out`, which fits on all but one and measures that one, for each.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.harness import data_file, markdown, show
from kernel.errors import UsageError
from runtime.memory.embed import Embedder, choose
from runtime.memory.facts.records import Observation, stamp
from runtime.memory.facts.retrieval import ALL, Parts, Retrieval
from runtime.memory.facts.retrieval.parts import FEATURES
from runtime.memory.store import open_shelf
from runtime.memory.store.words import COMMON

GOALS: Mapping[str, float] = {"recall@10": 0.78, "mrr": 0.60}
"""Source: performance.md."""
DATA = "locomo/locomo_dev5.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
DEEP = 50
"""Turns of an answer that are looked at; evidence behind them counts as not found."""
K1, B, RANK = 1.5, 0.75, 60
"""Of the plain BM25 and of the plain fusion by ranks, as they were published."""
DULL = COMMON | {"do", "does", "did", "s", "t"}
"""What the plain BM25 does not look for."""
_ID = re.compile(r"D:?(\d+:\d+)")


@dataclass(frozen=True)
class Question:
    """A question, and the turns that answer it."""

    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass
class Conversation:
    """Turns as observations, in their order, and questions."""

    name: str
    turns: list[Observation]
    units: list[str]  # `[date] speaker: text`, as others index them: no captions
    questions: list[Question] = field(default_factory=list[Question])


def conversations(path: Path) -> list[Conversation]:
    """The conversations of a file of LoCoMo."""
    try:
        told = json.loads(path.read_text("utf-8"))
        found = [_conversation(each) for each in told]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a file of LoCoMo: {type(error).__name__}: {error}") from None
    if not any(each.questions for each in found):
        raise UsageError(f"{path}: not a file of LoCoMo: it asks nothing")
    return found


def _conversation(told: Mapping[str, Any]) -> Conversation:
    from dateutil import parser

    said, name = told["conversation"], str(told["sample_id"])
    turns: list[Observation] = []
    units: list[str] = []
    numbers = sorted(int(key.split("_")[1]) for key in said if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        at = stamp(parser.parse(said[f"session_{number}_date_time"].replace(" on ", " ")))
        for place, turn in enumerate(said[f"session_{number}"]):
            units.append(f"[{said[f'session_{number}_date_time']}] {turn['speaker']}: {turn['text']}")
            caption = f" ({turn['blip_caption']})" if turn.get("blip_caption") else ""
            turns.append(
                Observation(
                    id=turn["dia_id"],
                    text=turn["text"] + caption,
                    at=at,
                    said="turn",
                    who=turn["speaker"],
                    thread=f"{name}/{number}",
                    turn=place,
                    salience=0.5,
                )
            )
    known = {turn.id for turn in turns}
    questions = [
        Question(each["question"], each["category"], evidence)
        for each in told["qa"]
        if each["category"] in CATEGORIES and (evidence := _evidence(each["evidence"], known))
    ]
    return Conversation(name, turns, units, questions)


def _evidence(told: Iterable[str], known: set[str]) -> tuple[str, ...]:
    """The turns that are named; some texts name several."""
    ids = [f"D{id}" for each in told for id in _ID.findall(each)]
    return tuple(dict.fromkeys(id for id in ids if id in known))


# ---- measuring -------------------------------------------------------------------------------------------

Ranking = Sequence[str]


def figures_of(answers: Iterable[tuple[Question, Ranking]]) -> dict[str, Any]:
    """Recall and MRR over questions and the turns that were found, the best first."""
    rows: list[tuple[int, float, float, float, float, float]] = []
    for question, found in answers:
        place = {id: at for at, id in enumerate(found)}
        ranks = [place.get(id, len(found) + 1_000_000) for id in question.evidence]
        within = {k: sum(rank < k for rank in ranks) / len(ranks) for k in (5, 10)}
        first = 1 / (1 + min(ranks)) if min(ranks) < len(found) else 0.0
        rows.append((question.category, within[5], within[10], first, within[10] > 0, within[10] == 1))

    def mean(at: int, of: Sequence[tuple[float, ...]]) -> float:
        return round(sum(row[at] for row in of) / max(len(of), 1), 4)

    return {
        "recall@5": mean(1, rows),
        "recall@10": mean(2, rows),
        "mrr": mean(3, rows),
        "any@10": mean(4, rows),
        "all@10": mean(5, rows),
        "by_category": {
            str(each): mean(2, [row for row in rows if row[0] == each])
            for each in CATEGORIES
            if any(row[0] == each for row in rows)
        },
        "n": len(rows),
    }


@dataclass
class Ground:
    """A conversation on a shelf of its own."""

    conversation: Conversation
    retrieval: Retrieval

    def answers(
        self, parts: Parts = ALL, weights: Mapping[str, float] | None = None, mode: Any = "standard"
    ) -> list[tuple[Question, Ranking]]:
        """What retrieval finds for each question."""
        self.retrieval.weights = weights
        return [
            (each, [found.id for found in self.retrieval.search(each.text, DEEP, parts=parts, mode=mode)])
            for each in self.conversation.questions
        ]


def grounds(found: Sequence[Conversation], embedder: Embedder, stores: Path | None = None) -> list[Ground]:
    """Each conversation observed; with a folder the shelves are kept there, for the next time."""
    made: list[Ground] = []
    for each in found:
        folder = stores / f"{each.name}-{embedder.name}" if stores else Path()
        shelf = open_shelf("sqlite" if stores else "memory", folder, fsync=False)
        if shelf.count(Observation) != len(each.turns):
            shelf.put(*each.turns)
        made.append(Ground(each, Retrieval(shelf, embedder)))
    return made


def plain(found: Sequence[Conversation], embedder: Embedder) -> dict[str, list[tuple[Question, Ranking]]]:
    """BM25, cosine and their fusion by ranks, on `[date] speaker: text`, with nothing else."""
    import numpy as np

    told: dict[str, list[tuple[Question, Ranking]]] = {"bm25": [], "cosine": [], "fusion": []}
    for each in found:
        ids = [turn.id for turn in each.turns]
        words = bm25(each.units, [question.text for question in each.questions])
        cosines = (
            embedder.embed([question.text for question in each.questions]) @ _embedded(embedder, each.units).T
        )
        for question, by_words, by_meaning in zip(each.questions, words, cosines, strict=True):
            orders = [np.argsort(-scores, kind="stable") for scores in (by_words, by_meaning)]
            ranks = [np.argsort(order) for order in orders]
            fused = sum(1 / (RANK + rank) for rank in ranks)
            for name, order in zip(told, [*orders, np.argsort(-fused, kind="stable")], strict=True):
                told[name].append((question, [ids[at] for at in order[:DEEP]]))
    return told


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Any:
    import numpy as np

    return np.concatenate([embedder.embed(texts[at : at + 256]) for at in range(0, len(texts), 256)])


def bm25(texts: Sequence[str], questions: Sequence[str]) -> Any:
    """The plain form: no stems; words that tell nothing are left out."""
    import numpy as np

    def words(text: str) -> list[str]:
        return [word for word in re.findall(r"\w+", text.lower()) if word not in DULL]

    counts = [Counter(words(text)) for text in texts]
    length = np.array([sum(each.values()) for each in counts], float)
    scores = np.zeros((len(questions), len(texts)))
    for at, question in enumerate(questions):
        for word in words(question):
            tf = np.array([each[word] for each in counts], float)
            idf = np.log(1 + (len(texts) - (tf > 0).sum() + 0.5) / ((tf > 0).sum() + 0.5))
            scores[at] += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / length.mean()))
    return scores


# ---- all of it -------------------------------------------------------------------------------------------


def measure(
    found: Sequence[Conversation],
    embedder: Embedder,
    *,
    without: bool = True,
    stores: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The figures with the weights that are shipped."""
    say(f"{sum(len(each.turns) for each in found)} turns are read and embedded by {embedder.name}")
    ready = grounds(found, embedder, stores)
    told: dict[str, Any] = {"fractal": figures_of(answer for each in ready for answer in each.answers())}
    told |= {name: figures_of(answers) for name, answers in plain(found, embedder).items()}
    if without:
        told["modes"] = {
            mode: figures_of(answer for each in ready for answer in each.answers(mode=mode))
            for mode in ("aggregated", "multi-anchor")
        }
        told["without"] = {}
        for part in dict.fromkeys(FEATURES.values()):
            say(f"without {part}")
            off = ALL.without(part)
            told["without"][part] = figures_of(answer for each in ready for answer in each.answers(off))
    return told


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["", "recall@5", "recall@10", "MRR", "any@10", "all@10", *CATEGORIES.values(), "n"]
    rows: list[list[str]] = []
    named = [(name, row) for name, row in figures.items() if isinstance(row, Mapping) and "mrr" in row]
    named += [(f"mode {name}", row) for name, row in figures.get("modes", {}).items()]
    named += [(f"without {name}", row) for name, row in figures.get("without", {}).items()]
    for name, row in named:
        keys = ("recall@5", "recall@10", "mrr", "any@10", "all@10")
        kinds = [f"{row['by_category'].get(str(each), 0):.3f}" for each in CATEGORIES]
        rows.append([name, *(f"{row[key]:.3f}" for key in keys), *kinds, str(row["n"])])
    goal = ["goal", "", f"≥ {GOALS['recall@10']}", f"≥ {GOALS['mrr']}", *[""] * (len(heads) - 4)]
    return markdown(heads, [*rows, goal])


def main(
    as_json: bool = False,
    path: Path | None = None,
    embedder: str = "auto",
    *,
    leave_one_out: bool = False,
    fit: bool = False,
    quick: bool = False,
    stores: Path | None = None,
    turns: Sequence[int] = (),
) -> None:
    """Measure and print; the goals are those with minilm."""
    from bench import locomo_fit
    from runtime.cli.session import tell as say

    found = conversations(path or data_file(DATA))
    if turns:
        from bench.locomo_speed import speed

        return show({"turns": speed(found, choose(embedder), turns)}, "", as_json=True)
    if fit:
        locomo_fit.ship(found, say=say, stores=stores)
    makes = choose(embedder)
    if leave_one_out:
        figures = locomo_fit.leave_one_out(found, makes, without=not quick, stores=stores, say=say)
    else:
        figures = measure(found, makes, without=not quick, stores=stores, say=say)
    figures |= {"embedder": makes.name, "leave_one_out": leave_one_out}
    missed = [
        f"{key} {figures['fractal'][key]}" for key, goal in GOALS.items() if figures["fractal"][key] < goal
    ]
    return show(figures, table(figures), as_json, missed if makes.name.startswith("minilm") else ())
