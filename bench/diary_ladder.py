"""Diaries asked on a whole ladder: a model with the prompt that a run really sends, or the rung of facts.

An answer is right if it contains one of `right`, or a word of it that tells it from the question and from
`outdated`; outdated if the same holds for `outdated`; unknown if it says that it is not known, or if the run
ends without an answer; else it is wrong.
The runs teach nothing, so that each question is asked of the diary alone.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.diary import DIARIES, Diary, Question, contains, read_diary
from bench.harness import markdown
from kernel.asking.responder import Ladder
from runtime.api import knowledge
from runtime.api.fractal import Fractal
from runtime.memory import FACTS
from runtime.memory.facts.records import moment
from runtime.memory.facts.retrieval.language import words
from runtime.memory.facts.retrieval.questions import questions_of

WAYS = ("right", "outdated", "wrong", "unknown")
_UNKNOWN = re.compile(
    r"(?i)\bknow nothing\b|\b(?:not|n't|never|nor|no)\b[\w ,'’]{0,40}\b(?:know|known|sure|certain|say|says"
    r"|said|stated?|mention\w*|specif\w+|information|record\w*|provided|given|available|found|clear|answer)\b"
    r"|\bunknown\b|\bcannot\b"
)
Model = Any
"""A responder, or the name of one as the setting `model` has it."""


def measure(paths: Sequence[Path] = (), embedders: Sequence[str] = (), *, model: str, only: int = 0) -> Any:
    """The figures of each diary, and every answer."""
    embedder = [*embedders, "auto"][0]
    diaries = [read_diary(path) for path in paths or sorted(DIARIES.glob("*.json"))]
    rows = {diary.name: play(diary, model, embedder, only) for diary in diaries}
    return {"figures": {name: figures_of(each) for name, each in rows.items()}, "answers": rows}


def play(diary: Diary, model: Model, embedder: str, only: int = 0) -> list[dict[str, Any]]:
    """Tell a diary in a workspace, and run its questions, or `only` so many of them, spread evenly."""
    asked = diary.asked[:: max(1, len(diary.asked) // only)][:only] if only else diary.asked
    told, rows = list(diary.entries), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="fractal-diary-") as folder:
        settings = {"embedder": embedder, "fsync": False, "remember": False, "learn": "off"}
        settings |= {"model": model} if isinstance(model, str) else {}
        fractal = Fractal(folder, settings=settings, trusted=True)
        if not isinstance(model, str):
            fractal = Fractal(folder, settings=settings, ladder=Ladder((model,)), trusted=True)
        for question in asked:
            at = moment(question.at)
            fractal.memory.clock = lambda at=at: at
            while told and told[0][0] <= question.at:
                when, text = told.pop(0)
                knowledge.remember(fractal, text, at=when)
            rows.append({"diary": diary.name, **_asked(fractal, _dated(question, diary))})
    return rows


def _dated(question: Question, diary: Diary) -> Question:
    """Where a time is asked for, the day on which a right line was said is right, too."""
    if questions_of().read(question.ask, moment(question.at).toordinal()).kind != "time":
        return question
    said = [moment(at) for at, text in diary.entries if at <= question.at and contains(text, question.right)]
    days = tuple(f"{day.day} {day:%B}" for day in said)
    return replace(question, right=(*question.right, *days))


def _asked(fractal: Fractal, question: Question) -> dict[str, Any]:
    result = asyncio.run(fractal.run(question.ask))
    rungs = fractal.document(result.run).meta.rungs
    by = "facts" if any(each.get("rung") == FACTS and not each.get("passed") for each in rungs) else "model"
    text = result.output if result.status in ("complete", "unverified") else ""
    values = {"ask": question.ask, "at": question.at[:10], "kind": question.kind, "right": question.right}
    return {**values, "by": by, "status": result.status, "said": text, "way": way_of(question, text)}


def way_of(question: Question, text: str) -> str:
    """Which of `WAYS` an answer is; `text` is empty if there is none."""
    right, outdated = question.right, question.outdated
    if not text.strip():
        return "unknown"
    for way, texts, others in (("right", right, outdated), ("outdated", outdated, right)):
        telling = _telling(texts) - _telling((question.ask, *others))
        if contains(text, texts) or telling & _telling([text]):
            return way
    return "unknown" if _UNKNOWN.search(text) else "wrong"


def _telling(texts: Iterable[str]) -> set[str]:
    """Their words without those that occur everywhere."""
    return {word for text in texts for word in words(text)} - questions_of().language.dull


def figures_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How often each rung answered in which way, and what was refused."""
    answerable = [each for each in rows if each["right"]]
    ways = {by: Counter(each["way"] for each in rows if each["by"] == by) for by in ("facts", "model")}
    return {
        **{f"{by}: {way}": ways[by][way] for by in ways for way in WAYS if by == "model" or way != "unknown"},
        "right": sum(each["way"] == "right" for each in answerable),
        "refused": sum(each["way"] == "unknown" for each in answerable),
        "answerable": len(answerable),
        "unknown said": sum(each["way"] == "unknown" for each in rows if not each["right"]),
        "unanswerable": len(rows) - len(answerable),
    }


def table(figures: Mapping[str, Any]) -> str:
    """The figures, a column for each diary."""
    named = figures["figures"]
    heads = ["", *named]
    keys = next(iter(named.values()), {})
    return markdown(heads, [[key, *(str(values[key]) for values in named.values())] for key in keys])
