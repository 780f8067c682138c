"""A later statement that tells a change ends the earlier one; a wish, a rumour, an addition ends nothing."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.api.fractal import shipped_system
from runtime.memory.embed.lexical import Lexical
from runtime.memory.facts.changes import ended
from runtime.memory.facts.language import Language, language_of
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Edge, Memory
from runtime.memory.store import open_shelf

TOLD = date(2026, 5, 4)  # a Monday
AROUND = (
    "Anna is a nurse.",
    "The printer is in the hall.",
    "The cat is called Miso.",
    "Bread costs 3 euros.",
)


class Diary:
    """Facts told days apart, with others around them."""

    def __init__(self) -> None:
        self.day = TOLD
        shelf = open_shelf("memory", Path())
        clock = lambda: f"{self.day}T12:00:00Z"  # noqa: E731
        self.mind = Mind(shelf, Lexical(), systems=(shipped_system(),), clock=clock)
        for text in AROUND:
            self.mind.remember(text)

    def tell(self, text: str, days: int = 5) -> Memory:
        """A fact told some days later."""
        self.day += timedelta(days)
        return self.mind.remember(text)

    def now(self, memory: Memory) -> Memory:
        """The memory as it is on the shelf."""
        return next(each for each in self.mind.memories(past=True) if each.id == memory.id)

    def standing(self) -> list[str]:
        """What is believed, without what is about other things."""
        return [memory.text for memory in self.mind.memories() if memory.text not in AROUND]


CHANGES = {
    "replace": ("The pump controller is a Siemens LOGO.", "The LOGO was replaced with a Wago."),
    "mistyped": ("Uli is 34.", "I mistyped Uli's age, he is 43."),
    "a typo": ("The invoice is 1,240 euros.", "The 1,240 on the invoice was a typo; 1,420 is right."),
    "misread as": ("The flight lands at 16:20.", "The flight lands at 18:20, I misread that as 16:20."),
    "handed over": ("Nora coaches the girls.", "Nora handed the girls over to Hanna."),
    "takes over from": ("Karin chairs the council.", "Lotte takes over the council from Karin."),
    "in the place of": ("The API gateway is Kong.", "Traefik has taken Kong's place."),
    "move": ("Deploys run on Monday.", "Deploys were moved from Monday to Wednesday."),
    "switch": ("I use vim.", "Switched from vim to helix."),
    "raise": ("The budget is 90,000 euros.", "The budget was raised to 97,500."),
    "lower": ("The minimum age is 16.", "The minimum age was dropped from 16 to 14."),
    "rename": ("The product is called FlowBox.", "FlowBox has been renamed Streamer."),
    "take over": ("Ben leads the project.", "Anna takes over from Ben as leader."),
    "leave": ("Jens works at Siemens.", "Jens left Siemens at the end of the quarter."),
    "become": ("Nils is a junior developer.", "Nils went from junior to senior."),
    "no longer": ("I eat meat twice a week.", "I no longer eat meat."),
    "any more": ("My cousin is a student.", "My cousin isn't a student any more."),
    "instead": ("We fly to Crete in June.", "We take the train to Rome instead of flying to Crete."),
    "not X but Y": ("The valve is normally open.", "The valve isn't normally open but normally closed."),
    "only": ("The filter lasts 12 months.", "The filter lasts only 9 months in our measurements."),
    "delay": ("The release is on 4 May.", "The release was postponed to 18 May."),
    "opposite": ("The ticket is open.", "QA signed it off and the ticket is closed."),
}
NO_CHANGES = {
    "somebody's cousin": ("Tim plays the cello.", "Tim's cousin switched from cello to double bass."),
    "an in-law": ("My brother lives in Hamburg.", "My brother-in-law has moved from Hamburg to Bremen."),
    "his own": ("I drive a Skoda.", "Dad sold his Skoda and bought a Dacia."),
    "another machine": ("Staging runs on Postgres 14.", "Production was upgraded from Postgres 14 to 16."),
    "a colleague": ("Dr. Lenz works at the eye clinic.", "Nurse Adele has left the eye clinic."),
    "another floor": ("The upstairs bathroom has a shower.", "Downstairs we replaced the shower with a tub."),
    "people want": ("School starts at 7:50.", "Many parents want it to start at 8:30 instead of 7:50."),
    "whispered": ("Elif is with Jonas.", "People whisper that Elif has left Jonas."),
    "homework": ("Apples cost 3 euros.", "In my son's homework apples rise from 3 to 4 euros."),
    "quoted": ("Our vet is Dr. Pohl.", 'One review goes "we left Dr. Pohl for another vet".'),
    "just for": ("I drink coffee.", "Just for Lent I'm having tea instead of coffee."),
    "only on": ("The cafe opens at 7.", "Only on Sunday the cafe opens at 9 instead of 7."),
    "another number": ("Line 4 stops at the market.", "Line 6 no longer stops at the market."),
    "another office": ("The Berlin office has 20 desks.", "The Hamburg office was cut from 20 to 15 desks."),
    "another colour": ("The blue car needs oil.", "The red car needs no oil any more."),
    "the boss's": ("My laptop runs Windows.", "My boss's laptop was switched from Windows to Linux."),
    "told twice": ("The fee went from 10 to 12 euros.", "The fee was raised by two euros, to 12."),
    "told of her": ("I take the night bus.", "Ruth told me she has given up the night bus and cycles."),
    "told of his parents": (
        "I subscribe to the Herald.",
        "Omar mentioned that his parents cancelled the Herald.",
    ),
    "told of them": (
        "We store our files on a NAS.",
        "The people upstairs reported that they replaced their NAS.",
    ),
    "an age": ("Luis has a daughter.", "Luis's daughter has just turned six."),
    "wish": ("The rehearsal is on Tuesday.", "I would like to move the rehearsal to Thursday."),
    "possible": ("The database is MySQL.", "If the tests go well, we might migrate to Postgres."),
    "example": ("Our rent is 780 euros.", "Suppose the rent rises to 900, how much would be left over?"),
    "question": ("My niece studies in Jena.", "Did my niece switch to Weimar?"),
    "rumour": ("Nora is our boss.", "Rumour has it that Nora has left."),
    "for a while": ("The team meeting is on Thursday.", "This week only the team meeting is on Friday."),
    "addition": ("The app supports German.", "The app now also speaks French."),
    "other person": ("Marta earns 3,200 euros.", "Stefan's salary was raised to 3,600 euros."),
    "other thing": (
        "The rent for the flat is 950 euros.",
        "The rent for the garage went up to 85.",
    ),
    "other place": ("The Lisbon hotel includes breakfast.", "The Porto hotel doesn't serve breakfast."),
    "detail": ("The concert is on Saturday.", "The concert on Saturday begins at 7:30 in the evening."),
    "event": ("I ran 5 km on Monday.", "I ran 8 km on Friday."),
    "inverse": ("Tim has 5 more marbles than Lea.", "Lea has 5 fewer marbles than Tim."),
    "same words": ("The train leaves at 6:12.", "We train the model on eight GPUs."),
    "same": ("The meeting was moved to Thursday.", "The meeting is on Thursday, as we changed it."),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_a_change_closes_the_old_value_and_no_other(before: str, after: str) -> None:
    diary = Diary()
    old, new = diary.tell(before), diary.tell(after)
    closed = diary.now(old)
    assert closed.superseded == new.id != old.id
    assert closed.until == new.since
    assert diary.standing() == [after]
    assert sum(bool(memory.superseded) for memory in diary.mind.memories(past=True)) == 1


@pytest.mark.parametrize(("before", "after"), NO_CHANGES.values(), ids=NO_CHANGES)
def test_what_tells_no_change_closes_nothing(before: str, after: str) -> None:
    diary = Diary()
    old = diary.tell(before)
    diary.tell(after)
    assert not diary.now(old).superseded
    assert not diary.now(old).until


CONTRARY = [
    ("Anna is Ben's mother.", "Ben is Anna's mother."),
    ("Tim has 5 more marbles than Lea.", "Tim has five times as many marbles as Lea."),
    ("The repo is private.", "The repo is not private any more, it is public."),
    ("The rent is 900 euros.", "Maybe the rent is 900 euros."),
    ("My son collects stamps.", "My son has taken up collecting coins besides his stamps."),
]


@pytest.mark.parametrize(("before", "after"), CONTRARY)
def test_what_says_something_else_raises_no_confidence(before: str, after: str) -> None:
    diary = Diary()
    old, new = diary.tell(before), diary.tell(after)
    assert new.id != old.id
    assert diary.now(old).confidence == old.confidence
    assert len(diary.now(old).evidence) == 1


def test_a_change_that_is_to_come_holds_from_the_day_that_it_names() -> None:
    diary = Diary()
    berlin = diary.tell("The office is in Berlin.")
    bonn = diary.tell("The office moves to Bonn from 1 June on.")
    closed = diary.now(berlin)
    assert closed.superseded == bonn.id
    assert closed.until == bonn.since == "2026-06-01T00:00:00.000Z"
    assert not closed.ended("2026-05-31T00:00:00.000Z") and closed.ended("2026-06-01T00:00:00.000Z")


def test_a_change_before_another_one_takes_effect_ends_at_once() -> None:
    diary = Diary()
    berlin = diary.tell("The office is in Berlin.")
    diary.tell("The office moves to Bonn from 1 June on.")
    cologne = diary.tell("The office has moved from Berlin to Cologne.")
    assert diary.now(berlin).until == cologne.since


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The lake is frozen.", "The frozen lake has thawed."),
        ("Prof. Arndt gives the keynote.", "Prof. Sato gives the keynote in Prof. Arndt's stead."),
        ("It takes two spoons of salt.", "I wrote two spoons of salt, but it takes half a spoon."),
    ],
)
def test_a_change_is_no_evidence_of_what_was(before: str, after: str) -> None:
    diary = Diary()
    assert diary.tell(before).id != diary.tell(after).id


def test_an_exception_has_an_end_of_its_own() -> None:
    diary = Diary()
    usual = diary.tell("The meeting is on Thursday.", 1)
    exception = diary.tell("This week only the meeting is on Friday.", 1)
    assert exception.until and not exception.superseded
    assert not diary.now(usual).ended(exception.until)
    diary.day += timedelta(10)
    assert diary.standing() == ["The meeting is on Thursday."]


def test_of_several_memories_the_one_with_the_named_value_is_closed() -> None:
    diary = Diary()
    others = [diary.tell(text) for text in ("Ben lives in Bonn.", "Ben is Carla's brother.")]
    leads = diary.tell("Ben leads the project.")
    diary.tell("Anna takes over from Ben as leader of the project.")
    assert diary.now(leads).superseded
    assert not any(diary.now(other).superseded for other in others)


def test_a_rumour_stands_beside_what_it_contradicts() -> None:
    diary = Diary()
    diary.tell("The shop is open.")
    diary.tell("Apparently the shop is closed.")
    assert len(diary.standing()) == 2
    assert "contradicts" in {edge.relation for edge in diary.mind.shelf.scan(Edge)}


def test_two_facts_of_one_time_stand_and_contradict_each_other() -> None:
    diary = Diary()
    diary.tell("The budget is 90,000 euros.")
    diary.tell("The budget is 97,500 euros.", 0)
    assert len(diary.standing()) == 2
    assert "contradicts" in {edge.relation for edge in diary.mind.shelf.scan(Edge)}


@pytest.fixture(scope="module")
def language() -> Language:
    return language_of((shipped_system(),))


VALUES = st.sampled_from(["Monday", "Tuesday", "Bonn", "Kiel", "Kong", "12", "900 euros", "a Miele"])
FORMS = ("Maybe it was moved from {} to {}.", "Was it moved from {} to {}?", "I wish it moved from {} to {}.")


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES, st.sampled_from(FORMS))
def test_no_doubtful_change_ends_anything(old: str, new: str, form: str) -> None:
    language = language_of((shipped_system(),))
    assert ended(f"The pump is {old}.", form.format(old, new), language) is None


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_two_texts_can_be_compared(one: str, other: str) -> None:
    ended(one, other, language_of((shipped_system(),)))


def test_a_statement_never_ends_itself(language: Language) -> None:
    for before, after in (*CHANGES.values(), *NO_CHANGES.values()):
        assert ended(before, before, language) is None or before == after
