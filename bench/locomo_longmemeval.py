"""Which turns and sessions of a person's chats answer a question (LongMemEval), an index for each question.

Every turn is indexed, of the person and of the assistant. The evidence are the turns with `has_answer`, and
the sessions in `answer_session_ids`; a session is as good as its best turn. The person asks, at the date of
the question. Questions without an answer (`…_abs`) have no evidence and are counted apart: `likeness` is how
much the best result resembles the question. It is lower for them if recall can tell that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dateutil import parser

from bench.harness import Figures, markdown
from bench.locomo import COLUMNS, Answer, Conversation, Question, baseline_answers, figures_of, index_of
from kernel.errors import UsageError
from runtime.cli.output import notify
from runtime.memory.embed import Embedder, choose
from runtime.memory.facts.records import Observation, moment, stamp

PERSON = "user"
"""The role of who asks."""
DEEP = 200
"""Turns of a ranking; they lead to at least ten sessions, unless sessions are very long."""


@dataclass(frozen=True)
class Case:
    """A question as a conversation of one question, and the session of each turn."""

    conversation: Conversation
    sessions: Mapping[str, str]
    answered_in: tuple[str, ...]  # ids of sessions; empty if there is no answer
    asked: datetime

    @property
    def question(self) -> Question:
        """The question, with the turns that answer it."""
        return self.conversation.questions[0]

    def by_session(self, answer: Answer) -> Answer:
        """A ranking of turns as one of sessions."""
        question, ranking = answer
        return replace(question, evidence=self.answered_in), [
            *dict.fromkeys(self.sessions[id] for id in ranking)
        ]


def recognised(path: Path) -> bool:
    """Whether the first record of a file is a question of LongMemEval."""
    try:
        text = path.read_text("utf-8")
        record, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    except (OSError, ValueError, RecursionError):
        return False
    return "haystack_sessions" in record or "question_id" in record


def read_questions(path: Path) -> list[Mapping[str, Any]]:
    """The records of a file. Raises `UsageError` for the first that is none of LongMemEval."""
    try:
        records = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not a LongMemEval file: {type(error).__name__}: {error}") from None
    if not isinstance(records, list):
        raise UsageError(f"{path}: not a LongMemEval file: it is no list of questions")
    for number, record in enumerate(records, 1):
        try:
            case_of(record)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise UsageError(
                f"{path}: question {number}: not of the shape of LongMemEval: {type(error).__name__}: {error}"
            ) from None
    return records


def case_of(record: Mapping[str, Any]) -> Case:
    """The question of a record; ids of turns begin with the place of their session, which occurs once."""
    name = str(record["question_id"])
    conversation, sessions, evidence = Conversation(name), dict[str, str](), list[str]()
    parts = (record[f"haystack_{part}"] for part in ("session_ids", "dates", "sessions"))
    for place, (session, date, turns) in enumerate(zip(*parts, strict=True)):
        at = stamp(_time(date))
        for number, turn in enumerate(turns):
            id, who, text = f"{place}/{number}", turn["role"], turn["content"]
            sessions[id] = str(session)
            conversation.units.append(f"[{date}] {who}: {text}")
            conversation.turns.append(
                Observation(
                    id=id,
                    text=text,
                    at=at,
                    said="turn",
                    who=who,
                    thread=str(place),
                    turn=number,
                    salience=0.5,
                )
            )
            evidence += [id] * bool(turn.get("has_answer"))
    known = set(sessions.values())
    answered_in = tuple(id for id in dict.fromkeys(record["answer_session_ids"]) if id in known)
    abstains = name.endswith("_abs")
    question = Question(record["question"], str(record["question_type"]), () if abstains else tuple(evidence))
    conversation.questions.append(question)
    return Case(conversation, sessions, () if abstains else answered_in, _time(record["question_date"]))


def _time(date: str) -> datetime:
    """`2023/05/20 (Sat) 02:21`, in UTC."""
    return moment(stamp(parser.parse(date.replace("(", "").replace(")", ""))))


def measure(
    path: Path, embedder: str = "auto", *, quick: bool = False, stores: Path | None = None
) -> dict[str, Any]:
    """The figures by turn and by session; unless `quick`, also of the baselines."""
    records, chosen = read_questions(path), choose(embedder)
    notify(f"{len(records)} histories are read and embedded by {chosen.name}")
    turns: dict[str, list[Answer]] = {}
    sessions: dict[str, list[Answer]] = {}
    likeness: dict[bool, list[float]] = {True: [], False: []}
    for record in records:
        case = case_of(record)
        best, answers = _answers(case, chosen, quick, stores)
        answerable = not case.conversation.name.endswith("_abs")
        likeness[answerable].append(best)
        for name, answer in answers.items():
            turns.setdefault(name, []).extend([answer] * bool(case.question.evidence))
            sessions.setdefault(name, []).extend([case.by_session(answer)] * bool(case.answered_in))
    return {
        "turns": {name: figures_of(some) for name, some in turns.items()},
        "sessions": {name: figures_of(some) for name, some in sessions.items()},
        "answerable": _likeness(likeness[True]),
        "abstention": _likeness(likeness[False]),
        "embedder": chosen.name,
    }


def _answers(
    case: Case, embedder: Embedder, quick: bool, stores: Path | None
) -> tuple[float, dict[str, Answer]]:
    """The likeness of the best result, and the ranking of each system."""
    retrieval = index_of(case.conversation, embedder, stores).retrieval
    hits = retrieval.search(case.question.text, DEEP, who=PERSON, now=case.asked)
    answers: dict[str, Answer] = {"fractal": (case.question, [hit.id for hit in hits])}
    if not quick:
        others = baseline_answers(case.conversation, embedder, DEEP)
        answers |= {name: answer for name, (answer,) in others.items()}
    return hits[0].likeness if hits else 0.0, answers


def _likeness(values: Sequence[float]) -> dict[str, float]:
    return {"n": len(values), "likeness": round(sum(values) / max(len(values), 1), 3)}


def table(figures: Figures) -> str:
    """The figures as markdown, and a line on questions without an answer."""
    levels = [(level, figures[level]) for level in ("turns", "sessions")]
    kinds = sorted({kind for _, systems in levels for row in systems.values() for kind in row["by_category"]})
    rows = [
        [
            f"{level}, {name}",
            *(f"{row[key]:.3f}" for key in COLUMNS),
            *(f"{row['by_category'][kind]:.3f}" if kind in row["by_category"] else "" for kind in kinds),
            str(row["n"]),
        ]
        for level, systems in levels
        for name, row in systems.items()
    ]
    answerable, none = figures["answerable"], figures["abstention"]
    apart = (
        f"{none['n']} questions without an answer are not in the table. Mean likeness of the best result: "
        f"{none['likeness']:.2f}; for the {answerable['n']} other questions {answerable['likeness']:.2f}."
    )
    return f"{markdown(['', *COLUMNS, *kinds, 'n'], rows)}\n\n{apart}"
