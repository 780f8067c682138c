"""A question gets what holds at the time that it asks about, or the word that nothing is known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from runtime.memory.embed.lexical import Lexical
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import PERSON, Memory, moment
from runtime.memory.facts.retrieval import Answers, answers_of, retrieval_of
from runtime.memory.facts.retrieval.questions import questions_of
from runtime.memory.store import open_shelf

DIARY = (
    ("2026-01-05", "Marit leads the bridge project."),
    ("2026-01-06", "The rent of the workshop is 870 euros a month."),
    ("2026-01-07", "The team meets on Mondays at ten."),
    ("2026-02-02", "The kiln broke and the council decided to buy a new one."),
    ("2026-03-02", "The spare key hangs behind the oven because the lock is old."),
    ("2026-03-20", "The council decided to paint the workshop."),
)

Ask = Callable[..., Answers]


@pytest.fixture
def mind() -> Mind:
    """What was told in three months; in April the rent has risen and Tomasz has taken over."""
    mind = Mind(open_shelf("memory", Path()), Lexical(), clock=lambda: "2026-03-31T12:00:00.000Z")
    told = {text: mind.remember(text, who=PERSON, at=at) for at, text in DIARY}
    replaced(mind, told[DIARY[0][1]], "Tomasz leads the bridge project.", "2026-02-16")
    replaced(mind, told[DIARY[1][1]], "The rent of the workshop is 910 euros a month.", "2026-03-01")
    return mind


def replaced(mind: Mind, past: Memory, text: str, at: str) -> None:
    """A later fact that supersedes an earlier one, whatever the gate made of it."""
    later = mind.remember(text, who=PERSON, at=at)
    kept = mind.shelf.get(Memory, past.id)
    assert kept is not None and later.id != past.id
    mind.shelf.put(kept.model_copy(update={"superseded": later.id, "until": f"{at}T00:00:00.000Z"}))


@pytest.fixture
def ask(mind: Mind) -> Ask:
    def answers(query: str, at: str = "2026-04-01") -> Answers:
        retrieval = retrieval_of(mind.shelf, mind.embedder, mind.systems)
        return answers_of(retrieval, query, 8, who=PERSON, now=moment(f"{at}T12:00:00.000Z"))

    return answers


def texts(found: Answers) -> list[str]:
    return [line.text for line in found.lines]


def test_what_was_superseded_is_shown_neither_as_a_memory_nor_as_it_was_said(ask: Ask) -> None:
    found = ask("Who leads the bridge project?")
    assert found.known and texts(found)[0] == "Tomasz leads the bridge project."
    assert "Marit leads the bridge project." not in texts(found)
    assert texts(ask("How much is the rent of the workshop?"))[0].endswith("is 910 euros a month.")


def test_the_past_is_asked_for_with_a_time(ask: Ask) -> None:
    first = ask("Who led the bridge project in January?").lines[0]
    assert first.text == "Marit leads the bridge project."
    assert first.source == "until 16 February, said by you, 5 January"


def test_a_line_has_its_date_and_says_who_said_it(ask: Ask) -> None:
    first = ask("Where does the spare key hang?").lines[0]
    assert first.source == "said by you, 2 March"
    assert ask("Where does the spare key hang?", "2027-01-01").lines[0].source == "said by you, 2 March 2026"


def test_a_line_has_the_day_on_which_it_was_said_beside_the_one_since_when_it_holds(
    mind: Mind, ask: Ask
) -> None:
    mind.remember("The parking permit costs 40 euros since 1 March.", who=PERSON, at="2026-03-28")
    mind.remember("Yesterday we moved the printer to the cellar.", who=PERSON, at="2026-03-30")
    assert ask("How much is the parking permit?").lines[0].source == "since 1 March, said by you, 28 March"
    assert "said by you, 30 March" in ask("Where is the printer?").near[0].source


def test_what_was_decided_in_a_month_was_said_in_it(ask: Ask) -> None:
    assert (
        texts(ask("What did the council decide last month?"))[0]
        == "The council decided to paint the workshop."
    )
    assert texts(ask("What did the council decide in February?"))[0].startswith("The kiln broke")


@pytest.mark.parametrize(
    "query",
    [
        "Who is the president of France?",
        "How much does the kiln weigh?",
        "When is the birthday of Tomasz?",
        "Who painted the ceiling of the chapel?",
    ],
)
def test_a_question_that_nobody_answered_is_not_answered(ask: Ask, query: str) -> None:
    found = ask(query)
    assert not found.known and len(found.lines) <= 2


def test_who_pays_is_a_question_about_money(mind: Mind, ask: Ask) -> None:
    mind.remember("The money for the bridge comes from the water board.", who=PERSON, at="2026-01-09")
    assert texts(ask("Who pays for the bridge project?"))[0].startswith("The money")


def test_words_that_are_no_question_are_searched(ask: Ask) -> None:
    found = ask("spare key")
    assert found.known and texts(found)[0].startswith("The spare key")


def test_a_wish_is_marked_and_no_fact(mind: Mind, ask: Ask) -> None:
    mind.remember("I would love to have a lathe in the workshop.", who=PERSON, at="2026-03-21")
    found = next(line for line in ask("lathe in the workshop").lines if "lathe" in line.text)
    assert found.source == "wished, said by you, 21 March"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("The caretaker wants to lock up early, so the lathe runs from seven to nine.", False),
        ("The smith says the lathe is loud, so I am putting the lathe in the cellar.", False),
        ("I would love a lathe, so I hope for one.", True),
        ("I would love a lathe, so maybe we buy one.", True),
        ("They say the lathe is broken, so Ann says.", True),
        ("They say the lathe is so loud that all have left.", True),
    ],
)
def test_a_doubt_that_is_only_the_reason_marks_nothing(mind: Mind, ask: Ask, text: str, marked: bool) -> None:
    mind.remember(text, who=PERSON, at="2026-03-21")
    found = next(line for line in ask("lathe").near if "lathe" in line.text)
    assert (found.source != "said by you, 21 March") is marked


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("Who has the key?", "person"),
        ("Whose bike is that?", "person"),
        ("On which day does the team meet?", "time"),
        ("Since when has Farah had the phone?", "time"),
        ("Until when does Bo stay?", "time"),
        ("Where do we park?", "place"),
        ("How much is the rent?", "price"),
        ("What does the course cost?", "price"),
        ("How many stations are there?", "amount"),
        ("How often do we meet?", "frequency"),
        ("Why do we meet on Mondays?", "reason"),
        ("May I park there?", "yes or no"),
        ("Is it true that we meet on Mondays?", "yes or no"),
        ("Which database do we use?", ""),
    ],
)
def test_a_question_wants_a_kind_of_answer(query: str, kind: str) -> None:
    wanted = questions_of().read(query, date(2026, 4, 1).toordinal())
    assert wanted.asks and wanted.kind == kind


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("person", "Marit leads the project.", True),
        ("person", "The committee gathers on Monday.", False),
        ("price", "It costs 48 euros per sample.", True),
        ("price", "I ordered 20 pH probes for 9 March.", False),
        ("amount", "We meet at ten on 3 May.", False),
        ("amount", "There are twelve stations.", True),
        ("place", "The wedding is on 12 September.", False),
        ("place", "She lives in Bern.", True),
        ("time", "Bins go out on Fridays.", True),
        ("reason", "We wait because the kiln is hot.", True),
        ("reason", "The kiln is hot.", False),
    ],
)
def test_a_sentence_shows_the_kind_of_answer_or_not(kind: str, text: str, shown: bool) -> None:
    names = ("Marit",) if "Marit" in text else ()
    assert questions_of().shows(kind, text, names=names) is shown


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("in the second week of June", "2026-06-08 to 2026-06-14"),
        ("in the last week of May 2025", "2025-05-25 to 2025-05-31"),
        ("at the end of March", "2026-03-21 to 2026-03-31"),
    ],
)
def test_a_week_or_a_part_of_a_month_is_a_span_of_days(text: str, days: str) -> None:
    spans = questions_of().times.spans(text, date(2026, 6, 30).toordinal())
    assert days in [str(span) for span in spans]


def test_what_replaced_a_fact_is_found_by_the_words_of_that_fact(mind: Mind, ask: Ask) -> None:
    told = mind.remember("The oven door is painted green.", who=PERSON, at="2026-01-08")
    replaced(mind, told, "It is all blue since Easter.", "2026-03-22")
    assert texts(ask("What colour is the oven door painted?"))[0] == "It is all blue since Easter."


def test_what_was_replaced_today_is_not_shown_and_what_replaced_it_bears_on_the_question(
    mind: Mind, ask: Ask
) -> None:
    earlier = mind.remember("The controller is a T4.", who=PERSON, at="2026-04-01")
    replaced(mind, earlier, "We use the N200.", "2026-04-01")
    found = ask("Which controller do we have?")
    assert texts(found)[0] == "We use the N200." and earlier.text not in texts(found)
    assert found.lines[0].likeness > found.lines[0].hit.likeness


def test_a_change_that_was_announced_is_shown_with_both_its_days(mind: Mind, ask: Ask) -> None:
    announced = mind.remember("The team meets on Tuesdays at ten from 1 May on.", who=PERSON, at="2026-04-01")
    mind.shelf.put(announced.model_copy(update={"since": "2026-05-01T00:00:00.000Z"}))
    line = next(each for each in ask("When does the team meet?").lines if each.text == announced.text)
    assert (
        line.source.startswith("from 1 May") and "said by you" in line.source and "1 May, said" in line.source
    )


def test_a_line_answers_alone_if_it_has_by_itself_what_is_asked(ask: Ask) -> None:
    assert ask("Where does the spare key hang?").certain
    assert ask("Who leads the bridge project?").certain
    assert not ask("Who led the bridge project in January?").certain  # the past is left to somebody who reads
    assert not ask("Is it true that the team meets on Mondays?").certain


def test_no_line_answers_alone_if_a_later_one_may_be_about_the_same(mind: Mind, ask: Ask) -> None:
    assert ask("When does the team meet?").certain
    mind.remember(
        "Mondays are bad for the team, everybody voted for Wednesdays.", who=PERSON, at="2026-03-22"
    )
    assert not ask("When does the team meet?").certain


def test_a_number_of_something_else_is_no_age(mind: Mind, ask: Ask) -> None:
    mind.remember("Rufus eats two bowls a day.", who=PERSON, at="2026-03-22")
    assert not ask("How old is Rufus?").certain


def test_what_holds_only_later_does_not_answer_alone(mind: Mind, ask: Ask) -> None:
    mind.remember("Ada becomes head baker on 7 April.", who=PERSON, at="2026-03-22")
    assert not ask("Who is head baker?").certain
    assert not ask("Who is head baker?", "2026-04-08").certain  # it is the question with two gaps filled
