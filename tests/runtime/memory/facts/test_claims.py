"""A sentence as claims: what is said of what, how surely, and from when until when."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.api.fractal import shipped_system
from runtime.memory.facts.claims import Claim, claims_of, modality, valid
from runtime.memory.facts.language import Language, language_of

AT = "2026-05-06T08:00:00.000Z"  # a Wednesday


@pytest.fixture(scope="module")
def language() -> Language:
    return language_of((shipped_system(),))


def claim(text: str, language: Language) -> Claim:
    return claims_of(text, AT, language)[0]


@pytest.mark.parametrize(
    ("text", "subject", "attribute", "value"),
    [
        ("The dishwasher is a Bosch.", "dishwash", "be", "a Bosch"),
        ("The rent of the flat is 900 euros.", "rent flat", "be", "900 euros"),
        ("Anna's mother is Ruth.", "anna mother", "be", "Ruth"),
        ("The choir sings Mozart.", "choir", "sing", "Mozart"),
        ("The budget was raised to 97,500.", "budget", "raise", "to 97,500"),
        ("Two sheep grazes on the meadow.", "2 sheep", "graze", "on the meadow"),
    ],
)
def test_what_is_said_of_what(
    language: Language, text: str, subject: str, attribute: str, value: str
) -> None:
    found = claim(text, language)
    assert (found.subject, found.attribute, found.value.rstrip(".")) == (subject, attribute, value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("The office is in Bonn.", "is"),
        ("The office will move to Bonn.", "is"),
        ("I want to move to Bonn.", "wants"),
        ("We might move to Bonn.", "may"),
        ("Rumour has it that they moved to Bonn.", "may"),
        ("Imagine we moved to Bonn.", "example"),
        ("Did they move to Bonn?", "asks"),
        ("This week only we work in Bonn.", "for a while"),
        ("The fair is in May.", "is"),
    ],
)
def test_how_a_text_is_meant(language: Language, text: str, meant: str) -> None:
    assert modality(text, language) == meant


def test_the_value_that_no_longer_holds_is_named(language: Language) -> None:
    assert "monday" in claim("Deploys were moved from Monday to Wednesday.", language).old
    assert "jura" in claims_of("A Franke makes the coffee, the Jura was sold.", AT, language)[-1].old
    denied = claim("I no longer eat meat.", language)
    assert not denied.polarity and "meat" in denied.old


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("The office moves to Bonn from 1 June on.", "2026-06-01", ""),
        ("As of July the fee is 80 euros.", "2026-07-01", ""),
        ("Next Monday the office moves to Bonn.", "2026-05-11", ""),
        ("Since the first of March my sister has lived in Graz.", "2026-03-01", ""),
        ("Since Monday I take 100 mg.", "2026-05-04", ""),
        ("Since October I pay the rent to Ida.", "2025-10-01", ""),
        ("The show is open until 5 June.", "2026-05-06", "2026-06-06"),
        ("Today only the pool is free.", "2026-05-06", "2026-05-07"),
        ("For two weeks the bus stops at the school.", "2026-05-06", "2026-05-20"),
        ("From Monday to Friday the shop is open.", "2026-05-06", ""),
        ("The concert is tomorrow.", "2026-05-06", ""),
        ("The fee is 80 euros from 31 June on.", "2026-05-06", ""),
        ("Maybe the office moves to Bonn from 1 June on.", "2026-05-06", ""),
    ],
)
def test_from_when_until_when_it_holds(language: Language, text: str, since: str, until: str) -> None:
    found = valid(text, AT, language)
    assert (found[0][:10], found[1][:10]) == (since, until)


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=200), st.sampled_from(["", AT]))
def test_any_text_can_be_read(text: str, at: str) -> None:
    language = language_of((shipped_system(),))
    assert all(isinstance(each, Claim) for each in claims_of(text, at, language))
    since, until = valid(text, at, language)
    assert not until or until > since
