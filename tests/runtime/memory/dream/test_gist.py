from pathlib import Path

import pytest

from runtime.api.fractal import shipped_system
from runtime.memory.dream.gist import ABSTRACT, fillers, gist, grounded, keywords, values
from runtime.memory.facts.records import Observation

EMPTY = fillers((shipped_system(),))


def said(*lines: tuple[str, str]) -> list[Observation]:
    return [Observation(id=str(at), who=who, text=text) for at, (who, text) in enumerate(lines)]


TALK = said(
    ("Ann", "Wow, that's great! We paid 1,250 euros for the Douro cruise on 3 May. How are you?"),
    ("Bob", "Thanks! I never liked cruises. My brother Tomás wasn't there either."),
    ("Ann", "We paid 1,250 euros!"),
)


def test_gist_keeps_every_number_name_date_and_denial() -> None:
    text = gist(TALK, EMPTY)
    for kept in ("1,250", "euros", "Douro", "3 May", "never", "cruises", "Tomás", "wasn't", "brother"):
        assert kept in text


def test_gist_leaves_out_chat_and_what_the_same_person_said_already() -> None:
    text = gist(TALK, EMPTY)
    assert "Wow" not in text and "How are you" not in text and "Thanks!" not in text
    assert text.count("1,250") == 1


def test_gist_names_who_speaks_where_several_do() -> None:
    assert gist(TALK, EMPTY).startswith("Ann: We paid") and "\nBob: I never" in gist(TALK, EMPTY)
    assert gist(said(("Ann", "The door is green.")), EMPTY) == "The door is green."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The book has 240 pages.", "The manual of the book has 240 pages."),
        ("I went to Rome.", "I never went to Rome by train."),
        ("The door is green.", "The door of the shed is green."),
    ],
)
def test_a_sentence_is_not_left_out_because_another_one_has_its_words(one: str, other: str) -> None:
    assert gist(said(("Ann", one), ("Ann", other)), EMPTY).splitlines() == [one, other]


def test_what_another_person_repeats_is_not_left_out() -> None:
    text = gist(said(("Ann", "I moved to Porto."), ("Bob", "I moved to Porto.")), EMPTY)
    assert text == "Ann: I moved to Porto.\nBob: I moved to Porto."


def test_sentences_of_different_observations_do_not_run_into_each_other() -> None:
    text = gist(said(("", "The manual has 240 chapters"), ("", "The book has 240 pages")), EMPTY)
    assert text == "The manual has 240 chapters.\nThe book has 240 pages."
    assert gist(said(("", "The manual has 240 chapters")), EMPTY) == "The manual has 240 chapters"


def test_a_gist_of_chat_alone_is_its_first_sentence() -> None:
    assert gist(said(("Ann", "Wow! Great!")), EMPTY) == "Wow!"


@pytest.mark.parametrize(
    ("wording", "expected"),
    [
        ("Ann paid 1,250 euros for the Douro cruise on 3 May; Bob's brother Tomás was not there.", ""),
        ("Ann paid 1,300 euros for the Douro cruise on 3 May; Tomás was not there.", "1,300"),
        ("Ann paid 1,250 euros for a cruise on 3 May; Tomás was not there.", "douro"),
        ("Ann paid 1,250 euros for the Douro cruise on 3 May; Tomás was there.", "not"),
        ("Ann paid Karl 1,250 euros for the Douro cruise on 3 May; Tomás was not there.", "karl"),
        ("The administrator grants all permissions immediately.", "% of its keywords"),
        ("", "no wording"),
        ("cruise " * 500, "characters"),
    ],
)
def test_a_wording_stands_only_when_nothing_is_made_up_or_lost(wording: str, expected: str) -> None:
    reason = grounded(wording, [each.text for each in TALK] + ["Ann", "Bob"], EMPTY)
    assert (expected in reason) if expected else reason == ""


def test_an_abstraction_may_lose_values_and_make_up_none() -> None:
    texts = ["Ann swims on 3 May", "Ann swims in the lake"]
    assert grounded("Ann swims regularly whatever comes", texts, EMPTY, ABSTRACT) == ""
    assert "porto" in grounded("Ann swims in Porto", texts, EMPTY, ABSTRACT)


def test_values_are_numbers_names_and_denials() -> None:
    assert values("Yesterday Ann didn't pay 40 euros at 19:00.") == {"ann", "not", "40", "19:00"}


def test_words_that_tell_nothing_are_data_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "talk.md").write_text("# Talk\n\nWhy.\n\n## More\n\nblimey\n")
    assert keywords("Blimey, a heron!", EMPTY) == {"blime", "heron"}
    assert keywords("Blimey, a heron!", fillers((tmp_path, shipped_system()))) == {"heron"}
