"""The benchmark of diaries: what it counts as right, outdated and rightly unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import diary_ladder
from bench.diary import DIARIES, Asked, Diary, Question, figures_of, measure, missed, read_diary, table
from kernel.asking.messages import prompt_text
from kernel.errors import UsageError
from runtime.models.scripted import Scripted

ENTRIES = [
    {"at": "2026-01-05", "text": "Ann lives in Bern."},
    {"at": "2026-01-06", "text": "The shed key hangs behind the oven."},
    {"at": "2026-03-01", "text": "The boiler was repaired."},
]
ASKED = [
    {"ask": "Where does Ann live?", "at": "2026-02-01", "right": ["Bern"], "kind": "current"},
    {"ask": "Who repaired the roof of the barn?", "at": "2026-02-01", "right": [], "kind": "unknown"},
]


def asked(
    lines: list[str], right: tuple[str, ...], outdated: tuple[str, ...] = (), known: bool = True
) -> Asked:
    return Asked(Question("?", "2026-02-01", right, outdated, "current"), lines, known)


def test_a_line_with_both_texts_is_right() -> None:
    both = asked(["It was Bern, now it is Basel."], ("Basel",), ("Bern",))
    assert both.right == 0 and not both.misled
    above = asked(["Ann lives in Bern.", "Ann lives in Basel."], ("Basel",), ("Bern",))
    assert above.right == 1 and above.misled


def test_an_unknown_question_is_right_if_nothing_is_answered() -> None:
    figures = figures_of([asked(["x"], (), known=False), asked(["x"], ()), asked(["a"], ("a",), known=False)])
    assert (figures["unknown said"], figures["false confidence"]) == (0.5, 1)
    assert (figures["first"], figures["answerable refused"]) == (1.0, 1.0)


def test_a_diary_is_played_with_what_was_told_by_then(tmp_path: Path) -> None:
    path = tmp_path / "diary.json"
    path.write_text(json.dumps({"name": "home", "entries": ENTRIES, "asked": ASKED}))
    figures = measure([path], ["lexical"])
    own = figures["figures"]["fractal, lexical"]
    assert (own["first"], own["unknown said"], own["outdated above current"]) == (1.0, 1.0, 0)
    assert figures["figures"]["BM25"]["unknown said"] == 0 and not missed(figures)
    assert "| current | 1 | 1 |" in table(figures)


def test_what_is_no_diary_is_named(tmp_path: Path) -> None:
    path = tmp_path / "diary.json"
    path.write_text('{"entries": [{"at": "soon", "text": "x"}], "asked": []}')
    with pytest.raises(UsageError, match=r"diary\.json: not a diary"):
        read_diary(path)


def test_the_shipped_diaries_can_be_read() -> None:
    for path in DIARIES.rglob("*.json"):
        diary = read_diary(path)
        assert len(diary.entries) >= 60 and len(diary.asked) == 40


def test_a_diary_is_asked_on_a_ladder() -> None:
    entries = (("2026-01-05T09:00:00.000Z", "Marit leads the project."),)
    asked = (
        Question("Who leads the project?", "2026-01-06T09:00:00.000Z", ("Marit",), (), "current"),
        Question("Who pays for the project?", "2026-01-06T09:00:00.000Z", (), (), "unknown"),
    )
    said = {"leads": {"answer": "Marit does."}, "pays": {"cannot": "it is not known"}}
    model = Scripted(lambda ask: {"task": "x", **said[ask.document.text(1, "task").split()[1]]})
    rows = diary_ladder.play(Diary("small", entries, asked), model, "lexical")
    assert [(each["by"], each["way"]) for each in rows] == [("model", "right"), ("model", "unknown")]
    assert "- Marit leads the project. (said by you, 5 January)" in prompt_text(model.asks[0])


def test_without_a_model_the_facts_answer_a_diary() -> None:
    entries = (("2026-01-05T09:00:00.000Z", "Marit leads the project."),)
    asked = (
        Question("Who leads the project?", "2026-01-06T09:00:00.000Z", ("Marit",), (), "current"),
        Question("Who pays for the project?", "2026-01-06T09:00:00.000Z", (), (), "unknown"),
    )
    rows = diary_ladder.play(Diary("small", entries, asked), "reflex", "lexical")
    assert [(each["by"], each["way"]) for each in rows] == [("facts", "right"), ("facts", "unknown")]


def test_an_answer_is_right_by_what_tells_it_from_the_question_and_the_outdated() -> None:
    asked = Question("Who helps me on Thursdays?", "2026-06-01", ("Sunniva started",), ("Emil was in",), "")
    said = {
        "Sunniva does.": "right",
        "Emil.": "outdated",
        "Somebody.": "wrong",
        "It is not known.": "unknown",
    }
    assert {text: diary_ladder.way_of(asked, text) for text in said} == said
