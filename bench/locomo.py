"""Which turns of a long conversation answer a question (LoCoMo), with an index for each conversation.

Recall at k is the share of a question's evidence among the first k turns, averaged over the questions with
evidence of the categories 1 to 4 (5 has no answer). `any` and `all` require one piece of evidence, or all of
it, among the first 10. The BM25 baseline reproduces the published row to two digits.

The weights that ship are fitted on these conversations. `--leave-one-out` (`locomo_fit`) measures how they
generalise: it fits on all conversations but one and measures that one, for each.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from dateutil import parser

from bench.harness import Figures, data_file, embedded, markdown
from kernel.errors import UsageError
from runtime.cli.output import notify
from runtime.memory.embed import Embedder, choose
from runtime.memory.facts.records import Observation, stamp
from runtime.memory.facts.retrieval import ALL, Parts, Retrieval
from runtime.memory.facts.retrieval.parts import FEATURES
from runtime.memory.store import open_shelf
from runtime.memory.store.words import COMMON

GOALS: Mapping[str, float] = {"recall@10": 0.78, "mrr": 0.60}
"""With minilm. Source: performance.md."""
DATA = "locomo/locomo_dev5.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
DEEP = 50
"""Turns of a ranking; evidence below counts as not found."""
BASELINES = ("bm25", "cosine", "fusion")
K1, B, RANK = 1.5, 0.75, 60
"""Parameters of the baselines: BM25 and reciprocal rank fusion, as published."""
TRIED = tuple(dict.fromkeys(("neighbours", *(part for part in FEATURES.values() if part != "names"))))
"""Parts that are left out in turn; in these conversations nobody is known to speak of names."""
COLUMNS = ("recall@5", "recall@10", "mrr", "any@10", "all@10")
SAMPLES = 2_000
"""Of the bootstrap."""
STOP_WORDS = COMMON | {"do", "does", "did", "s", "t"}
"""Ignored by BM25."""
_ID = re.compile(r"D:?(\d+:\d+)")


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the turns that answer it."""

    text: str
    category: int | str
    evidence: tuple[str, ...]


@dataclass
class Conversation:
    """The turns of a conversation in order, as observations and as plain texts, and its questions."""

    name: str
    turns: list[Observation] = field(default_factory=list[Observation])
    texts: list[str] = field(default_factory=list[str])  # without captions of pictures
    units: list[str] = field(default_factory=list[str])  # `[date] speaker: text`, what the baselines index
    questions: list[Question] = field(default_factory=list[Question])


Ranking = Sequence[str]
Answer = tuple[Question, Ranking]


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations of a LoCoMo file."""
    try:
        conversations = [_conversation(each) for each in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a LoCoMo file: {type(error).__name__}: {error}") from None
    if not any(each.questions for each in conversations):
        raise UsageError(f"{path}: not a LoCoMo file: it has no questions")
    return conversations


def _conversation(record: Mapping[str, Any]) -> Conversation:
    sessions = record["conversation"]
    conversation = Conversation(str(record["sample_id"]))
    for number in sorted(int(key.split("_")[1]) for key in sessions if re.fullmatch(r"session_\d+", key)):
        date = sessions[f"session_{number}_date_time"]
        at = stamp(parser.parse(date.replace(" on ", " ")))
        for place, turn in enumerate(sessions[f"session_{number}"]):
            caption = f" ({turn['blip_caption']})" if turn.get("blip_caption") else ""
            conversation.texts.append(turn["text"])
            conversation.units.append(f"[{date}] {turn['speaker']}: {turn['text']}")
            observation = Observation(
                id=turn["dia_id"],
                text=turn["text"] + caption,
                at=at,
                said="turn",
                who=turn["speaker"],
                thread=f"{conversation.name}/{number}",
                turn=place,
                salience=0.5,
            )
            conversation.turns.append(observation)
    known = {turn.id for turn in conversation.turns}
    for each in record["qa"]:
        if each["category"] in CATEGORIES and (evidence := _evidence(each["evidence"], known)):
            conversation.questions.append(Question(each["question"], each["category"], evidence))
    return conversation


def _evidence(texts: Iterable[str], known: set[str]) -> tuple[str, ...]:
    """The named turns; a text may name several."""
    ids = [f"D{id}" for text in texts for id in _ID.findall(text)]
    return tuple(dict.fromkeys(id for id in ids if id in known))


# ---- measuring -------------------------------------------------------------------------------------------


def figures_of(answers: Iterable[Answer]) -> dict[str, Any]:
    """Recall and MRR of rankings."""
    rows = [_measured(*answer) for answer in answers]

    def mean(column: int, of: Sequence[tuple[Any, ...]]) -> float:
        return round(sum(row[column] for row in of) / max(len(of), 1), 4)

    by_category = {each: [row for row in rows if row[0] == each] for each in sorted({row[0] for row in rows})}
    return {
        **{name: mean(at, rows) for at, name in enumerate(COLUMNS, 1)},
        "by_category": {str(each): mean(2, some) for each, some in by_category.items()},
        "n": len(rows),
    }


def _measured(question: Question, ranking: Ranking) -> tuple[Any, ...]:
    """The category of a question, and its `COLUMNS`."""
    place = {id: at for at, id in enumerate(ranking)}
    ranks = [place.get(id, len(ranking) + 1_000_000) for id in question.evidence]
    at_5, at_10 = (sum(rank < k for rank in ranks) / len(ranks) for k in (5, 10))
    first = 1 / (1 + min(ranks)) if min(ranks) < len(ranking) else 0.0
    return question.category, at_5, at_10, first, float(at_10 > 0), float(at_10 == 1)


def loss_of(without: Sequence[Answer], answers: Sequence[Answer]) -> dict[str, Any]:
    """The figures without something, and 95 % intervals of the differences, by bootstrap over the questions.

    If 0 is in every interval, it brings nothing that can be measured.
    """
    pairs = zip(answers, without, strict=True)
    lost = np.array([np.subtract(_measured(*b)[1:], _measured(*a)[1:]) for a, b in pairs])
    drawn = np.random.default_rng(1).integers(len(lost), size=(SAMPLES, len(lost)))
    low, high = (
        np.quantile([lost[each].mean(axis=0) for each in drawn], [0.025, 0.975], axis=0).round(4).tolist()
    )
    differences = {key: [low[COLUMNS.index(key)], high[COLUMNS.index(key)]] for key in GOALS}
    return figures_of(without) | {"difference": differences}


@dataclass
class Indexed:
    """A conversation on a shelf of its own."""

    conversation: Conversation
    retrieval: Retrieval

    def answers(
        self, parts: Parts = ALL, weights: Mapping[str, float] | None = None, mode: Any = "standard"
    ) -> list[Answer]:
        """The ranking of retrieval for each question."""
        self.retrieval.weights = weights
        return [
            (each, [hit.id for hit in self.retrieval.search(each.text, DEEP, parts=parts, mode=mode)])
            for each in self.conversation.questions
        ]


def index_all(
    conversations: Sequence[Conversation], embedder: Embedder, stores: Path | None = None
) -> list[Indexed]:
    """Index each conversation; with a folder, the shelves are kept there for the next time."""
    notify(f"{sum(len(each.turns) for each in conversations)} turns are read and embedded by {embedder.name}")
    return [index_of(each, embedder, stores) for each in conversations]


def index_of(conversation: Conversation, embedder: Embedder, stores: Path | None = None) -> Indexed:
    """Index one conversation; with a folder, its shelf is kept there."""
    folder = stores / re.sub(r"[^\w.-]", "_", f"{conversation.name}-{embedder.name}") if stores else Path()
    shelf = open_shelf("sqlite" if stores else "memory", folder, fsync=False)
    if shelf.count(Observation) != len(conversation.turns):
        shelf.put(*conversation.turns)
    return Indexed(conversation, Retrieval(shelf, embedder))


def baselines(conversations: Sequence[Conversation], embedder: Embedder) -> dict[str, Any]:
    """The figures of BM25, cosine and their reciprocal rank fusion, on `[date] speaker: text`."""
    found = [baseline_answers(each, embedder) for each in conversations]
    return {name: figures_of(answer for each in found for answer in each[name]) for name in BASELINES}


def baseline_answers(
    conversation: Conversation, embedder: Embedder, deep: int = DEEP
) -> dict[str, list[Answer]]:
    """The ranking of each baseline for each question."""
    answers: dict[str, list[Answer]] = {name: [] for name in BASELINES}
    ids = [turn.id for turn in conversation.turns]
    texts = [question.text for question in conversation.questions]
    by_words = bm25(conversation.units, texts)
    by_meaning = embedder.embed(texts) @ embedded(embedder, conversation.units).T
    for number, question in enumerate(conversation.questions):
        orders = [np.argsort(-scores[number], kind="stable") for scores in (by_words, by_meaning)]
        fused = sum(1 / (RANK + np.argsort(order)) for order in orders)
        orders.append(np.argsort(-fused, kind="stable"))
        for name, order in zip(BASELINES, orders, strict=True):
            answers[name].append((question, [ids[at] for at in order[:deep]]))
    return answers


def bm25(texts: Sequence[str], questions: Sequence[str]) -> Any:
    """The scores of the texts (columns) for each question, without stemming."""

    def words(text: str) -> list[str]:
        return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]

    counts = [Counter(words(text)) for text in texts]
    length = np.array([sum(each.values()) for each in counts], float)
    scores = np.zeros((len(questions), len(texts)))
    for at, question in enumerate(questions):
        for word in words(question):
            tf = np.array([each[word] for each in counts], float)
            idf = np.log(1 + (len(texts) - (tf > 0).sum() + 0.5) / ((tf > 0).sum() + 0.5))
            scores[at] += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / length.mean()))
    return scores


def measure(
    path: Path | None = None,
    embedder: str = "auto",
    *,
    quick: bool = False,
    stores: Path | None = None,
) -> dict[str, Any]:
    """The figures with the weights that ship; unless `quick`, also by mode and without each part."""
    conversations, chosen = read_conversations(path or data_file(DATA)), choose(embedder)
    indexed = index_all(conversations, chosen, stores)

    def of_all(parts: Parts = ALL, mode: str = "standard") -> list[Answer]:
        return [answer for each in indexed for answer in each.answers(parts, mode=mode)]

    answers = of_all()
    figures = {"fractal": figures_of(answers), **baselines(conversations, chosen)}
    if not quick:
        figures["modes"] = {mode: figures_of(of_all(mode=mode)) for mode in ("aggregated", "multi-anchor")}
        figures["without"] = {}
        for part in TRIED:
            notify(f"without {part}")
            figures["without"][part] = loss_of(of_all(ALL.without(part)), answers)
    return figures | {"embedder": chosen.name, "leave_one_out": False}


# ---- output ----------------------------------------------------------------------------------------------


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["", *(key.replace("mrr", "MRR") for key in COLUMNS), *CATEGORIES.values(), "n"]
    named = [(name, row) for name, row in figures.items() if isinstance(row, Mapping) and "mrr" in row]
    named += [(f"mode {name}", row) for name, row in figures.get("modes", {}).items()]
    named += [(f"without {name}", row) for name, row in figures.get("without", {}).items()]
    rows: list[list[str]] = []
    for name, row in named:
        kinds = [f"{row['by_category'].get(str(each), 0):.3f}" for each in CATEGORIES]
        rows.append([name, *(f"{row[key]:.3f}" for key in COLUMNS), *kinds, str(row["n"])])
    goal = ["goal", "", f"≥ {GOALS['recall@10']}", f"≥ {GOALS['mrr']}", *[""] * (len(heads) - 4)]
    lost = [
        [name, *(f"{low:+.3f} … {high:+.3f}" for low, high in row["difference"].values())]
        for name, row in figures.get("without", {}).items()
    ]
    differences = markdown(["difference without", *(f"{key}, 95 %" for key in GOALS)], lost)
    return markdown(heads, [*rows, goal]) + (f"\n\n{differences}" if lost else "")


def missed(figures: Figures) -> list[str]:
    """The missed goals; they hold with minilm."""
    if not figures["embedder"].startswith("minilm"):
        return []
    reached = figures["fractal"]
    return [f"{key} {reached[key]}" for key, goal in GOALS.items() if reached[key] < goal]
