"""`python -m bench locomo` on a small conversation: reading, measuring and fitting."""

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
    sessions = {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": turns,
    }
    records = [{"sample_id": f"c{n}", "qa": QUESTIONS, "conversation": sessions} for n in range(count)]
    path = folder / "talk.json"
    path.write_text(json.dumps(records), "utf-8")
    return path


def test_turns_and_questions_are_read(tmp_path: Path) -> None:
    (one, _) = locomo.read_conversations(file_of(tmp_path))
    kayak = one.turns[1]
    assert (kayak.id, kayak.who, kayak.at, kayak.turn) == ("D1:2", "Bob", "2023-05-08T13:56:00.000Z", 1)
    assert kayak.text.endswith("yesterday. (a photo of a kayak on a lake)")
    assert one.units[1] == "[1:56 pm on 8 May, 2023] Bob: How nice! I bought a red kayak yesterday."
    assert [each.evidence for each in one.questions] == [("D1:1",), ("D1:2", "D1:4"), ("D1:4",), ("D1:5",)]


def test_recall_is_the_share_of_the_evidence() -> None:
    both = locomo.Question("?", 1, ("a", "b"))
    others = [f"x{n}" for n in range(6)]
    figures = locomo.figures_of(
        [(both, ["x", "a", *others, "b"]), (both, [*others, *others]), (both, ["b", *others, "y"])]
    )
    assert figures == {
        "recall@5": round((0.5 + 0 + 0.5) / 3, 4),
        "recall@10": 0.5,
        "mrr": 0.5,
        "any@10": round(2 / 3, 4),
        "all@10": round(1 / 3, 4),
        "by_category": {"1": 0.5},
        "n": 3,
    }


def test_what_a_part_brings_has_an_interval() -> None:
    asked = [locomo.Question(str(n), 4, ("a",)) for n in range(40)]
    found: list[locomo.Answer] = [(each, ["a"]) for each in asked]
    half: list[locomo.Answer] = [(each, ["a" if n % 2 else "b"]) for n, each in enumerate(asked)]
    low, high = locomo.loss_of(half, found)["difference"]["mrr"]
    assert -0.8 < low < -0.5 < high < -0.2
    assert locomo.loss_of(found, found)["difference"]["mrr"] == [0.0, 0.0]


def test_bm25_finds_rare_words_and_ignores_stop_words() -> None:
    scores = locomo.bm25(["the cat sat", "the dog sat", "a fish"], ["did the dog sit", "the"])
    assert scores[0].argmax() == 1 and not scores[1].any()


def test_fitted_weights_raise_the_evidence_and_are_reproducible(tmp_path: Path) -> None:
    indexed = locomo.index_all(locomo.read_conversations(file_of(tmp_path)), choose("lexical"))
    lessons = [lesson for each in indexed for lesson in locomo_fit.lessons_of(each)]
    weights = locomo_fit.fit(lessons)
    assert weights == locomo_fit.fit(lessons)
    assert all(value >= 0 for name, value in weights.items() if name not in locomo_fit.FREE)
    assert weights["speaker"] > 0
    figures = locomo.figures_of(answer for each in indexed for answer in each.answers(weights=weights))
    nothing = dict.fromkeys(weights, 0.0)
    assert (
        figures["mrr"]
        > locomo.figures_of(a for each in indexed for a in each.answers(weights=nothing))["mrr"]
    )


def test_leave_one_out_measures_each_conversation_and_each_part(tmp_path: Path) -> None:
    figures = locomo_fit.measure(file_of(tmp_path), "lexical")
    assert figures.keys() >= {"fractal", "bm25", "cosine", "fusion", "without"}
    assert "speaker" in figures["without"] and figures["fractal"]["n"] == 8


def test_the_command_prints_an_object_with_every_part(tmp_path: Path) -> None:
    call = ["locomo", "--json", "--embedder", "lexical", "--data", str(file_of(tmp_path))]
    call += ["--stores", str(tmp_path / "kept")]
    figures = json.loads(CliRunner().invoke(bench, call).stdout)
    for system in ("fractal", "bm25", "cosine", "fusion"):
        assert {"recall@5", "recall@10", "mrr", "by_category", "n"} <= set(figures[system])
    parts = {"words", "neighbours", "meaning", "late", "speaker", "time", "when", "form"}
    assert parts <= set(figures["without"])
    assert (tmp_path / "kept").is_dir()
    again = json.loads(CliRunner().invoke(bench, [*call, "--quick"]).stdout)
    assert again["fractal"] == figures["fractal"]


@pytest.mark.night
def test_the_time_of_a_question_is_measured_by_number_of_turns(tmp_path: Path) -> None:
    call = ["locomo", "--embedder", "lexical", "--data", str(file_of(tmp_path)), "--turns", "20,50"]
    figures = json.loads(CliRunner().invoke(bench, call).stdout)["turns"]
    assert list(figures) == ["20", "50"] and 0 < figures["50"]["p50_ms"] <= figures["50"]["p95_ms"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"conversation": {}}]', "\ud800"])
def test_an_invalid_file_is_reported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, "utf-8", errors="surrogatepass")
    with pytest.raises(UsageError, match="not a LoCoMo file"):
        locomo.read_conversations(path)


@pytest.mark.night
def test_recall_on_the_data_is_far_above_bm25() -> None:
    if not (harness.data_folder() / locomo.DATA).exists():
        pytest.skip("the conversations of LoCoMo are missing")
    first = locomo.read_conversations(harness.data_file(locomo.DATA))[:1]
    (indexed,) = locomo.index_all(first, choose("lexical"))
    recall = locomo.figures_of(indexed.answers())["recall@10"]
    assert recall >= 0.72
    assert recall > locomo.baselines(first, choose("lexical"))["bm25"]["recall@10"] + 0.1
