"""The bench of retrieval on a small conversation: what is read, how it is counted, and that fitting fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import harness, locomo, locomo_fit
from bench.__main__ import bench
from kernel.errors import UsageError
from runtime.memory.embed import choose

LINES = [
    ("Ann", "I adopted a puppy called Rex.", ""),
    ("Bob", "How nice! I bought a red kayak yesterday.", "a photo of a kayak on a lake"),
    ("Ann", "Which river will you paddle?", ""),
    ("Bob", "The Neckar, with my sister.", ""),
    ("Ann", "My bakery opens in March.", ""),
    ("Bob", "Then I shall come for pretzels.", ""),
]
QUESTIONS: list[dict[str, Any]] = [
    {"question": "What did Ann adopt?", "category": 4, "evidence": ["D1:1"], "answer": "a puppy"},
    {"question": "When did Bob buy a kayak?", "category": 2, "evidence": ["D1:2; D1:4"], "answer": "then"},
    {
        "question": "Which river will Bob paddle?",
        "category": 4,
        "evidence": ["D:1:4"],
        "answer": "the Neckar",
    },
    {"question": "What does Ann open?", "category": 1, "evidence": ["D1:5"], "answer": "a bakery"},
    {"question": "Who knows?", "category": 3, "evidence": [], "answer": "nobody"},
    {
        "question": "Which kite did Bob lose?",
        "category": 5,
        "evidence": ["D1:2"],
        "adversarial_answer": "red",
    },
]


def file_of(folder: Path, count: int = 2) -> Path:
    turns = [
        {"speaker": who, "dia_id": f"D1:{n}", "text": text} | ({"blip_caption": seen} if seen else {})
        for n, (who, text, seen) in enumerate(LINES, 1)
    ]
    said = {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": turns,
    }
    told = [{"sample_id": f"c{n}", "qa": QUESTIONS, "conversation": said} for n in range(count)]
    path = folder / "talk.json"
    path.write_text(json.dumps(told), "utf-8")
    return path


def test_turns_and_questions_are_read(tmp_path: Path) -> None:
    (one, _) = locomo.conversations(file_of(tmp_path))
    kayak = one.turns[1]
    assert (kayak.id, kayak.who, kayak.at, kayak.turn) == ("D1:2", "Bob", "2023-05-08T13:56:00.000Z", 1)
    assert kayak.text.endswith("yesterday. (a photo of a kayak on a lake)")
    assert one.units[1] == "[1:56 pm on 8 May, 2023] Bob: How nice! I bought a red kayak yesterday."
    assert [each.evidence for each in one.questions] == [("D1:1",), ("D1:2", "D1:4"), ("D1:4",), ("D1:5",)]


def test_recall_is_the_share_of_the_evidence() -> None:
    both = locomo.Question("?", 1, ("a", "b"))
    found = [f"x{n}" for n in range(6)]
    told = locomo.figures_of(
        [(both, ["x", "a", *found, "b"]), (both, [*found, *found]), (both, ["b", *found, "y"])]
    )
    assert told == {
        "recall@5": round((0.5 + 0 + 0.5) / 3, 4),
        "recall@10": 0.5,
        "mrr": 0.5,
        "any@10": round(2 / 3, 4),
        "all@10": round(1 / 3, 4),
        "by_category": {"1": 0.5},
        "n": 3,
    }


def test_bm25_finds_rare_words_and_leaves_out_common_ones() -> None:
    scores = locomo.bm25(["the cat sat", "the dog sat", "a fish"], ["did the dog sit", "the"])
    assert scores[0].argmax() == 1 and not scores[1].any()


def test_weights_that_are_fitted_raise_the_evidence_and_are_the_same_again(tmp_path: Path) -> None:
    ready = locomo.grounds(locomo.conversations(file_of(tmp_path)), choose("lexical"))
    lessons = [lesson for each in ready for lesson in locomo_fit.lessons_of(each)]
    weights = locomo_fit.fit(lessons)
    assert weights == locomo_fit.fit(lessons)
    assert all(value >= 0 for name, value in weights.items() if name not in locomo_fit.FREE)
    assert weights["speaker"] > 0
    figures = locomo.figures_of(answer for each in ready for answer in each.answers(weights=weights))
    nothing = dict.fromkeys(weights, 0.0)
    assert (
        figures["mrr"] > locomo.figures_of(a for each in ready for a in each.answers(weights=nothing))["mrr"]
    )


def test_leave_one_out_measures_each_conversation_and_each_part(tmp_path: Path) -> None:
    found = locomo.conversations(file_of(tmp_path))
    figures = locomo_fit.leave_one_out(found, choose("lexical"))
    assert set(figures) == {"fractal", "bm25", "cosine", "fusion", "without"}
    assert "speaker" in figures["without"] and figures["fractal"]["n"] == 8


def test_the_command_prints_an_object_with_every_part(tmp_path: Path) -> None:
    call = ["locomo", "--json", "--embedder", "lexical", "--data", str(file_of(tmp_path))]
    told = json.loads(CliRunner().invoke(bench, [*call, "--stores", str(tmp_path / "kept")]).stdout)
    for system in ("fractal", "bm25", "cosine", "fusion"):
        assert {"recall@5", "recall@10", "mrr", "by_category", "n"} <= set(told[system])
    assert {"words", "neighbours", "meaning", "late", "speaker", "time", "when", "form"} <= set(
        told["without"]
    )
    assert (tmp_path / "kept").is_dir()
    again = json.loads(
        CliRunner().invoke(bench, [*call, "--quick", "--stores", str(tmp_path / "kept")]).stdout
    )
    assert again["fractal"] == told["fractal"]


def test_the_time_of_a_question_is_told_by_how_many_turns_there_are(tmp_path: Path) -> None:
    call = ["locomo", "--embedder", "lexical", "--data", str(file_of(tmp_path)), "--turns", "20,50"]
    told = json.loads(CliRunner().invoke(bench, call).stdout)["turns"]
    assert list(told) == ["20", "50"] and 0 < told["50"]["p50_ms"] <= told["50"]["p95_ms"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"conversation": {}}]', "\ud800"])
def test_a_file_that_is_none_of_locomo_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, "utf-8", errors="surrogatepass")
    with pytest.raises(UsageError, match="not a file of LoCoMo"):
        locomo.conversations(path)


@pytest.mark.slow
def test_the_goals_hold_on_the_given_conversations() -> None:
    if not (harness.data_folder() / locomo.DATA).exists():
        pytest.skip("the conversations of LoCoMo are not here")
    figures = locomo.measure(
        locomo.conversations(harness.data_file(locomo.DATA))[:1], choose("lexical"), without=False
    )
    assert figures["fractal"]["recall@10"] >= 0.72
    assert figures["fractal"]["recall@10"] > figures["bm25"]["recall@10"] + 0.1
