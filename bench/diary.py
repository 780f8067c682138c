"""Diaries of facts that change, told at their times and asked about: right, outdated, and rightly unknown.

A diary is a JSON file: `name`, `entries` ({at, text}) and `asked` ({ask, at, right, outdated, kind}). Each
entry is told at its time. A question is asked at its own, when only the entries before it are told. A line is
right if it contains one of `right`, outdated if it contains one of `outdated` and none of `right`. A question
without `right` is to be answered with "I know nothing about that"; BM25 and cosine never say so. The places
count the lines that are shown, also those that are shown as "perhaps".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import CachedEmbedder, Figures, available, markdown
from bench.locomo import bm25
from kernel.errors import UsageError
from runtime.memory.embed import Embedder, choose
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import moment, normal
from runtime.memory.facts.retrieval import answers_of, retrieval_of
from runtime.memory.store import open_shelf

DIARIES = Path(__file__).with_name("diaries")
TOP = 3
SHOWN = 8
"""Lines of an answer, as `recall` has them."""
GOALS: Mapping[str, tuple[str, float]] = {
    "first": ("≥", 0.85),
    "top three": ("≥", 0.97),
    "outdated above current": ("≤", 0.0),
    "unknown said": ("≥", 0.90),
    "answerable refused": ("≤", 0.03),
}


@dataclass(frozen=True)
class Question:
    """A question, and what right and outdated lines contain; `right` is empty if nobody answered it."""

    ask: str
    at: str
    right: tuple[str, ...]
    outdated: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Diary:
    """Entries (time, text) and questions, each oldest first."""

    name: str
    entries: tuple[tuple[str, str], ...]
    asked: tuple[Question, ...]


@dataclass(frozen=True)
class Asked:
    """A question with the lines that answered it; `known`: whether they were given as an answer."""

    question: Question
    lines: Sequence[str]
    known: bool = True
    diary: str = ""

    def place(self, texts: Iterable[str], but: Iterable[str] = ()) -> int | None:
        """The place of the first line with one of these texts and none of the others."""
        wanted, unwanted = ([_plain(each) for each in some] for some in (texts, but))
        for place, line in enumerate(map(_plain, self.lines)):
            if any(each in line for each in wanted) and not any(each in line for each in unwanted):
                return place
        return None

    @property
    def right(self) -> int | None:
        """The place of the first right line."""
        return self.place(self.question.right)

    @property
    def misled(self) -> bool:
        """Whether an outdated line is above every right one."""
        outdated = self.place(self.question.outdated, self.question.right)
        return self.known and outdated is not None and (self.right is None or outdated < self.right)


def contains(text: str, some: Iterable[str]) -> bool:
    """Whether a text contains one of some, whatever their case and white space."""
    return any(_plain(each) in _plain(text) for each in some)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).casefold()


def read_diary(path: Path) -> Diary:
    """Raises `UsageError` for a file that is no diary."""
    try:
        raw = json.loads(path.read_text("utf-8"))
        entries = sorted((normal(each["at"]), str(each["text"])) for each in raw["entries"])
        asked = [
            Question(
                str(each["ask"]),
                normal(each["at"]),
                tuple(map(str, each.get("right") or ())),
                tuple(map(str, each.get("outdated") or ())),
                str(each.get("kind") or "other"),
            )
            for each in raw["asked"]
        ]
        return Diary(
            str(raw.get("name") or path.stem), tuple(entries), tuple(sorted(asked, key=lambda q: q.at))
        )
    except (UsageError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a diary: {type(error).__name__}: {error}") from None


# ---- measuring -------------------------------------------------------------------------------------------


@dataclass
class Clock:
    """The time of a diary."""

    at: str = ""

    def now(self) -> str:
        """The time."""
        return self.at


def play(diary: Diary, embedder: Embedder) -> list[Asked]:
    """Tell a diary and ask its questions, all in their order."""
    clock = Clock()
    mind = Mind(open_shelf("memory", Path()), embedder, clock=clock.now)
    told, asked = list(diary.entries), []
    for question in diary.asked:
        while told and told[0][0] <= question.at:
            clock.at, text = told.pop(0)
            mind.remember(text, who="person")
        clock.at = question.at
        retrieval = retrieval_of(mind.shelf, embedder, mind.systems)
        found = answers_of(retrieval, question.ask, SHOWN, who="person", now=moment(question.at))
        lines = [each.text for each in found.lines]
        asked.append(Asked(question, lines, found.known, diary.name))
    return asked


def baseline(diary: Diary, scores_of: Any) -> list[Asked]:
    """Rank the entries told so far by `scores_of(texts, question)`."""
    asked: list[Asked] = []
    for question in diary.asked:
        texts = [text for at, text in diary.entries if at <= question.at]
        order = np.argsort(-scores_of(texts, question.ask), kind="stable") if texts else []
        asked.append(Asked(question, [texts[at] for at in order[:SHOWN]], diary=diary.name))
    return asked


def figures_of(asked: Sequence[Asked]) -> dict[str, Any]:
    """Shares of the questions, by what they are to show."""
    answerable = [each for each in asked if each.question.right]
    unknown = [each for each in asked if not each.question.right]

    def share(some: Iterable[Any], of: Sequence[Asked]) -> float | None:
        return round(sum(1 for _ in some) / len(of), 4) if of else None

    return {
        "first": share((each for each in answerable if each.right == 0), answerable),
        "top three": share((each for each in answerable if each.right in range(TOP)), answerable),
        "outdated above current": sum(each.misled for each in answerable),
        "false confidence": sum(each.known for each in unknown),
        "unknown said": share((each for each in unknown if not each.known), unknown),
        "answerable refused": share((each for each in answerable if not each.known), answerable),
        "n": len(answerable),
        "unknown": len(unknown),
    }


def measure(paths: Sequence[Path] = (), embedders: Sequence[str] = ()) -> dict[str, Any]:
    """The figures by embedder, of all questions and by kind, and those of BM25 and cosine."""
    diaries = [read_diary(path) for path in paths or sorted(DIARIES.glob("*.json"))]
    figures: dict[str, Any] = {}
    wrong: dict[str, list[dict[str, Any]]] = {}

    def keep(name: str, asked: Sequence[Asked], *, details: bool = True) -> None:
        figures[name] = figures_of(asked)
        if details:
            kinds = sorted({each.question.kind for each in asked})
            some = {kind: [each for each in asked if each.question.kind == kind] for kind in kinds}
            figures[name]["by kind"] = {kind: figures_of(each) for kind, each in some.items()}
            wrong[name] = [_shown(each) for each in asked if _failed(each)]

    for name in embedders or available():
        embedder = CachedEmbedder(choose(name))
        keep(f"fractal, {name}", [each for diary in diaries for each in play(diary, embedder)])
        if name != "lexical":

            def cosine(texts: Sequence[str], question: str, embedder: Embedder = embedder) -> Any:
                return embedder.embed(texts) @ embedder.embed([question])[0]

            keep(
                f"cosine, {name}",
                [each for diary in diaries for each in baseline(diary, cosine)],
                details=False,
            )

    def words(texts: Sequence[str], question: str) -> Any:
        return bm25(texts, [question])[0]

    keep("BM25", [each for diary in diaries for each in baseline(diary, words)], details=False)
    return {"diaries": [each.name for each in diaries], "figures": figures, "wrong": wrong}


def _failed(asked: Asked) -> bool:
    return asked.known if not asked.question.right else not asked.known or asked.right != 0 or asked.misled


def _shown(asked: Asked) -> dict[str, Any]:
    question = asked.question
    values = {"ask": question.ask, "kind": question.kind, "right": question.right, "diary": asked.diary}
    return {**values, "at": question.at[:10], "known": asked.known, "lines": list(asked.lines[:TOP])}


# ---- output ----------------------------------------------------------------------------------------------


def table(figures: Figures) -> str:
    """The figures as markdown: in all, then by kind."""
    heads = ["", *GOALS, "false confidence", "n", "unknown"]

    def row(name: str, values: Mapping[str, Any]) -> list[str]:
        cells = (values[head] for head in heads[1:])
        return [name, *("" if cell is None else f"{cell:.3g}" for cell in cells)]

    rows = [row(name, values) for name, values in figures["figures"].items()]
    goal = ["goal", *(f"{sign} {value:g}" for sign, value in GOALS.values()), "", "", ""]
    parts = [markdown(heads, [*rows, goal])]
    for name, values in figures["figures"].items():
        if "by kind" in values:
            parts.append(markdown([name, *heads[1:]], [row(*each) for each in values["by kind"].items()]))
    return "\n\n".join(parts)


def missed(figures: Figures) -> list[str]:
    """The missed goals of each embedder."""
    return [
        f"{name}: {key} {values[key]:g}"
        for name, values in figures["figures"].items()
        if name.startswith("fractal")
        for key, (sign, goal) in GOALS.items()
        if values[key] is not None and (values[key] < goal if sign == "≥" else values[key] > goal)
    ]
