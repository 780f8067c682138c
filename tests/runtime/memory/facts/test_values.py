"""Whether two statements agree depends on their values, whatever their vectors say."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.api.fractal import shipped_system
from runtime.memory.facts.agreement import Agreement, Said, Verdict, agreement, canonical
from runtime.memory.facts.gate import Thresholds, route
from runtime.memory.facts.language import Language, language_of
from runtime.memory.facts.records import Memory
from runtime.memory.facts.terms import names_of, terms_of

Judge = Callable[[str, str], Agreement]


@pytest.fixture(scope="module")
def language() -> Language:
    return language_of((shipped_system(),))


@pytest.fixture(scope="module")
def judge(language: Language) -> Judge:
    return lambda one, other: agreement(Said(one), Said(other), language)


SAME = [
    ("The rent is $1,200", "the rent is 1200 dollars"),
    ("The film starts at 7 pm", "The film starts at 19:00"),
    ("It is due on 2026-04-01", "It is due on April 1st, 2026"),
    ("The trip takes 2 hours", "The trip takes 120 minutes"),
    ("Half of the cake is left", "50% of the cake is left"),
    ("The shop isn't open", "The shop is closed"),
    ("Lena wrote the letter", "The letter was written by Lena"),
    ("My boss is Kim", "Kim is my boss"),
    ("He does not smoke", "He doesn't smoke"),
]
CONTRARY = [
    ("The rent is $1,200", "The rent is $1,300"),
    ("The film starts at 7 pm", "The film starts at 7 am"),
    ("It is due on 2026-04-01", "It is due on 2026-04-02"),
    ("The shop is open", "The shop is not open"),
    ("The shop is open", "The shop is closed"),
    ("Mia lent Leo a book", "Leo lent Mia a book"),
    ("The dog is called Rex", "The dog is called Max"),
    ("The build needs Python 3.1", "The build needs Python 3.10"),
    ("The lamp is on", "The lamp is off"),
]
DIFFERENT = [
    ("Mia bought a hat", "Mia bought a scarf"),
    ("Mia has a son", "Mia has a daughter"),
    ("The red car is fast", "The blue car is fast"),
    ("The meeting was on Monday", "The report failed on Tuesday"),
    ("In 2023 we sold 400 bikes", "In 2024 we sold 520 bikes"),
    ("The first door is open", "The second door is closed"),
    ("Ben likes tea", "Ann likes coffee"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words_is_the_same(judge: Judge, one: str, other: str) -> None:
    assert judge(one, other).verdict == "same"


@pytest.mark.parametrize(("one", "other"), CONTRARY)
def test_what_cannot_both_be_is_contrary_and_says_why(judge: Judge, one: str, other: str) -> None:
    found = judge(one, other)
    assert found.verdict == "contrary"
    assert found.why
    assert found.clashes


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_may_stand_beside_each_other_is_neither(judge: Judge, one: str, other: str) -> None:
    assert judge(one, other).verdict == "differ"


def test_a_change_needs_the_order_of_time(language: Language) -> None:
    lived, moved = Said("Anna lives in Paris", at="2024"), Said("Anna moved to Berlin", at="2025")
    assert agreement(lived, moved, language).change
    assert agreement(moved, lived, language).change
    before = Said("Anna moved to Berlin", at="2023")
    assert agreement(before, lived, language).verdict == "differ"


def test_turns_of_several_sentences_are_never_held_to_contradict(judge: Judge) -> None:
    one = "Hey Sam! The shop is open. How are you?"
    other = "Hey Sam! The shop is not open. How are you?"
    assert judge(one, other).verdict == "differ"


def test_who_says_i_is_who_said_it(language: Language) -> None:
    mine, yours = Said("I am 25", "Alice"), Said("I am 31", "Bob")
    assert agreement(mine, yours, language).verdict == "differ"
    assert agreement(mine, Said("I am 31", "Alice"), language).verdict == "contrary"
    assert agreement(mine, Said("Alice is 25"), language).verdict == "same"
    assert agreement(mine, Said("I am 25", "Bob"), language).verdict == "differ"


def test_names_are_found_at_the_start_of_a_sentence_too(language: Language) -> None:
    assert names_of("Anna lives in New York with Max's dog.", language) == ("Anna", "New York", "Max")
    assert names_of("Life is good. Prices rose in May. You're right, on Monday!", language) == ()
    assert names_of("Anna lives in New York") == ("New York",)


ODD = [
    "",
    " ",
    "\ud800",
    "\0",
    "1/0",
    "1/0 of it",
    "99:99",
    "32 May",
    "0000-00-00",
    "I",
    "not",
    "'s",
    "-" * 500,
    "n't n't",
]
SENTENCES = st.sampled_from([one for pair in (*SAME, *CONTRARY, *DIFFERENT) for one in pair])
TEXTS = st.one_of(SENTENCES, st.text(max_size=60), st.sampled_from(ODD))


@settings(max_examples=examples(150), deadline=None)
@given(TEXTS, TEXTS)
def test_any_two_texts_can_be_compared_and_agreement_is_symmetric(one: str, other: str) -> None:
    language = language_of((shipped_system(),))
    forward, backward = (
        agreement(Said(one), Said(other), language),
        agreement(Said(other), Said(one), language),
    )
    assert forward.verdict in get_args(Verdict)
    assert 0 <= forward.shared <= 1
    assert (forward.verdict == "same") == (backward.verdict == "same")
    assert forward.mergeable == backward.mergeable
    assert agreement(Said(one), Said(one), language).verdict == "same"


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 10_000), st.integers(1, 10_000), st.floats(-1, 1))
def test_no_similarity_merges_other_numbers(one: int, other: int, score: float) -> None:
    language = language_of((shipped_system(),))
    near = [(Memory(id="m", text=f"The tank holds {one} liters"), score)]
    routed = route(Said(f"The tank holds {other} liters"), near, Thresholds(-2, -2, -2), language)
    assert (routed.route == "merge") == (one == other)
    assert bool(routed.contrary) == (one != other)


def test_ten_megabytes_are_looked_at_in_no_time(judge: Judge, language: Language) -> None:
    long = "the pump holds 3 liters " * 400_000
    assert judge(long[:20_000], long[:19_000]).verdict == "differ"
    assert terms_of(long, language).long


def test_canonical_forgets_how_something_is_written() -> None:
    assert canonical("The  RENT is two hundred dollars.") == canonical("the rent is $200!")
    assert canonical("the rent is $200") != canonical("the rent is $201")


# ---- the gate --------------------------------------------------------------------------------------------


def memories(*scores: float) -> list[tuple[Memory, float]]:
    return [(Memory(id=f"m{n}", text=f"something about topic {n}"), score) for n, score in enumerate(scores)]


def test_the_link_threshold_rises_where_memories_lie_dense(language: Language) -> None:
    base = Thresholds(0.9, 0.4, 0.9, 0.3)
    sparse = route(Said("quite another thing"), memories(0.45, *[0.3] * 4), base, language)
    dense = route(Said("quite another thing"), memories(0.45, *[0.44] * 14), base, language)
    assert (sparse.route, dense.route) == ("link", "novel")
    assert dense.thresholds.link == pytest.approx(0.4 + 0.3 * 0.44)
    assert dense.surprise == pytest.approx(0.55)


def test_nothing_known_is_a_surprise(language: Language) -> None:
    found = route(Said("anything"), [], Thresholds(0.9, 0.4), language)
    assert found.route == "novel"
    assert found.surprise == 1.0


def test_a_duplicate_is_found_behind_a_contradiction_that_is_nearer(language: Language) -> None:
    known = [Memory(id="no", text="The lamp is on"), Memory(id="yes", text="the lamp is off")]
    near = list(zip(known, (0.99, 0.9), strict=True))
    found = route(Said("The lamp is off."), near, Thresholds(0.95, 0.4), language)
    assert (found.route, found.memory) == ("merge", "yes")
    assert [id for id, _ in found.contrary] == ["no"]
