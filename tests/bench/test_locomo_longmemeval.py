"""`python -m bench locomo --data FILE` with questions in the format of LongMemEval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import locomo_longmemeval as longmemeval
from bench.__main__ import bench
from kernel.errors import UsageError

Turns = list[tuple[str, str]]
SESSIONS: dict[str, tuple[str, Turns]] = {
    "degree": (
        "2023/03/02 (Thu) 18:20",
        [
            ("user", "I finished my degree in marine biology in Kiel. How do I write a cover letter?"),
            ("assistant", "Begin with what draws you to the institute, then name two projects."),
        ],
    ),
    "soup": (
        "2023/03/19 (Sun) 12:05",
        [
            ("user", "What can I cook with leeks?"),
            (
                "assistant",
                "A leek soup with nutmeg, or a quiche. For the soup use two leeks and 700 ml of stock.",
            ),
            ("user", "The soup, thanks."),
        ],
    ),
    "run-1": (
        "2023/04/01 (Sat) 09:00",
        [
            ("user", "My best time over ten kilometres is 52 minutes. Give me a training plan."),
            ("assistant", "Run three times a week, one of them intervals."),
        ],
    ),
    "run-2": (
        "2023/05/14 (Sun) 20:41",
        [
            ("user", "I ran the ten kilometres in 48 minutes today, a new best time!"),
            ("assistant", "Well done. Rest for two days."),
        ],
    ),
    "cinema": (
        "2023/05/20 (Sat) 22:10",
        [
            ("user", "I saw a documentary about the deep sea at the cinema with my cousin Ida."),
            ("assistant", "Which animals did it show?"),
        ],
    ),
    "camera": (
        "2023/05/21 (Sun) 10:30",
        [
            ("user", "I only use an old film camera, so recommend black and white films for portraits."),
            ("assistant", "A film of ISO 400 forgives much."),
        ],
    ),
}
Asked = tuple[str, str, str, str, dict[str, tuple[int, ...]]]
QUESTIONS: list[Asked] = [
    ("q1", "single-session-user", "What is my degree in?", "marine biology", {"degree": (0,)}),
    (
        "q2",
        "single-session-assistant",
        "How much stock did you say the soup needs?",
        "700 ml",
        {"soup": (1,)},
    ),
    ("q3", "single-session-preference", "Recommend a film for my camera.", "film", {"camera": (0,)}),
    (
        "q4",
        "knowledge-update",
        "What is my best time over ten kilometres?",
        "48",
        {"run-1": (0,), "run-2": (0,)},
    ),
    ("q5", "temporal-reasoning", "What did I see at the cinema last Saturday?", "deep sea", {"cinema": (0,)}),
    (
        "q6",
        "multi-session",
        "Which of my interests are about the sea?",
        "two",
        {"degree": (0,), "cinema": (0,)},
    ),
    ("q7_abs", "single-session-user", "What is my dog called?", "not mentioned", {"run-1": (0,)}),
    ("q8", "single-session-user", "Who is Ida?", "a cousin", {}),
]


def record(asked: Asked) -> dict[str, Any]:
    id, kind, question, answer, evidence = asked
    return {
        "question_id": id,
        "question_type": kind,
        "question": question,
        "answer": answer,
        "question_date": "2023/05/22 (Mon) 08:00",
        "haystack_session_ids": list(SESSIONS),
        "haystack_dates": [date for date, _ in SESSIONS.values()],
        "haystack_sessions": [
            [
                {"role": role, "content": text}
                | ({"has_answer": True} if at in evidence.get(name, ()) else {})
                for at, (role, text) in enumerate(turns)
            ]
            for name, (_, turns) in SESSIONS.items()
        ],
        "answer_session_ids": list(evidence),
    }


def file_of(folder: Path, records: Any = None) -> Path:
    path = folder / "chats.json"
    path.write_text(json.dumps([record(each) for each in QUESTIONS] if records is None else records), "utf-8")
    return path


def figures(path: Path, *more: str) -> dict[str, Any]:
    call = ["locomo", "--json", "--embedder", "lexical", "--data", str(path), *more]
    return json.loads(CliRunner().invoke(bench, call, catch_exceptions=False).stdout)


def test_a_question_is_read_with_its_history() -> None:
    case = longmemeval.case_of(record(QUESTIONS[3]))
    assert case.question.evidence == ("2/0", "3/0") and case.answered_in == ("run-1", "run-2")
    turn = case.conversation.turns[7]
    assert (turn.id, turn.who, turn.at, turn.turn) == ("3/0", "user", "2023-05-14T20:41:00.000Z", 0)
    assert case.asked.isoformat() == "2023-05-22T08:00:00+00:00"


def test_turns_and_sessions_are_measured_and_abstention_apart(tmp_path: Path) -> None:
    found = figures(file_of(tmp_path))
    assert found["turns"].keys() == found["sessions"].keys() == {"fractal", "bm25", "cosine", "fusion"}
    for level in ("turns", "sessions"):
        row = found[level]["fractal"]
        assert row["n"] == 6, "q8 has no evidence, q7_abs no answer"
        assert row["recall@10"] >= row["recall@5"] >= 0.8 and row["mrr"] >= 0.7
        assert row["by_category"].keys() == {kind for _, kind, *_ in QUESTIONS}
    assert found["answerable"]["n"] == 7 and found["abstention"]["n"] == 1
    assert found["abstention"]["likeness"] < found["answerable"]["likeness"]


def test_a_session_is_as_good_as_its_best_turn() -> None:
    case = longmemeval.case_of(record(QUESTIONS[1]))
    _, ranking = case.by_session((case.question, ["2/0", "1/2", "2/1", "1/1", "0/0"]))
    assert ranking == ["run-1", "soup", "degree"]


def test_the_days_of_a_question_are_counted_from_its_date(tmp_path: Path) -> None:
    asked = ("q", "temporal-reasoning", "Which news did I have last month?", "", {"run-2": (0,)})
    told = {
        **record(asked),
        "haystack_sessions": [
            [{"role": "user", "content": "I have news.", "has_answer": name == "run-2"}] for name in SESSIONS
        ],
    }
    in_june, in_may = (
        figures(file_of(tmp_path, [told | {"question_date": date}]), "--quick")["turns"]["fractal"]["mrr"]
        for date in ("2023/06/10 (Sat) 08:00", "2023/05/22 (Mon) 08:00")
    )
    assert in_june > in_may


def test_histories_are_kept_and_a_table_is_printed(tmp_path: Path) -> None:
    path, kept = file_of(tmp_path), tmp_path / "kept"
    first = figures(path, "--quick", "--stores", str(kept))
    assert len(list(kept.iterdir())) == len(QUESTIONS)
    assert figures(path, "--quick", "--stores", str(kept)) == first
    call = ["locomo", "--quick", "--embedder", "lexical", "--data", str(path)]
    printed = CliRunner().invoke(bench, call).stdout
    assert "| sessions, fractal |" in printed and "temporal-reasoning" in printed
    assert "1 questions without an answer" in printed


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"haystack_dates": []}, "question 2.*longer than|question 2.*shorter than"),
        ({"haystack_sessions": [[{"role": "user"}]] * len(SESSIONS)}, "question 2.*'content'"),
        ({"question_date": "soon"}, "question 2.*soon"),
        ({"answer_session_ids": None}, "question 2.*NoneType"),
    ],
)
def test_a_record_of_another_shape_is_named(change: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, [record(QUESTIONS[0]), record(QUESTIONS[1]) | change])
    with pytest.raises(UsageError, match=why):
        longmemeval.read_questions(path)


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"question_id": "q1"}', '[{"question_id": "q1"}, ', "\ud800"]
)
def test_a_file_of_another_shape_is_reported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, "utf-8", errors="surrogatepass")
    printed = CliRunner().invoke(bench, ["locomo", "--embedder", "lexical", "--data", str(path)])
    assert isinstance(printed.exception, (UsageError, SystemExit)) and not printed.stdout
