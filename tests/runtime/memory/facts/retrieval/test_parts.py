"""What each part of retrieval brings: the answer stands first with it, and does not without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from talk import NOISE, held, retrieval, said, talk

from kernel.errors import UsageError
from runtime.memory.facts.records import Edge
from runtime.memory.facts.retrieval import ALL, Parts, Retrieval

NOW = datetime(2023, 6, 1, tzinfo=UTC)


def first(found: Retrieval, query: str, parts: Parts = ALL, **more: Any) -> str:
    hits = found.search(query, 3, parts=parts, **more)
    return hits[0].id if hits else ""


def scores(found: Retrieval, query: str, parts: Parts = ALL, **more: Any) -> dict[str, float]:
    return {hit.id: hit.score for hit in found.search(query, 50, parts=parts, **more)}


def test_words_are_found_in_any_form() -> None:
    found = retrieval(*NOISE, said("a", "She was repairing bicycles."))
    only = Parts(**{name: name == "words" for name in Parts.__dataclass_fields__})
    assert first(found, "Who repairs a bicycle?", only) == "a"
    assert found.search("Who repairs a bicycle?", parts=only.without("words")) == []


def test_the_answer_to_a_question_is_found_by_the_words_of_the_question() -> None:
    turns = talk(
        "Ann: Hi there, good evening.",
        "Ann: Which instrument do you play?",
        "Bob: The cello, since childhood.",
    )
    found = retrieval(*NOISE, *turns)
    with_it, without = (scores(found, "What instrument does Bob play?", parts)["t2"]
                        for parts in (ALL, ALL.without("neighbours")))  # fmt: skip
    assert first(found, "What instrument does Bob play?") == "t2"
    assert with_it > without


def test_meaning_and_states_of_words_find_what_is_spelled_alike() -> None:
    found = retrieval(*NOISE, said("a", "Photographing landscapes."))
    query = "photography of a landscaper"
    for part in ("meaning", "late"):
        on, off = (found.search(query, parts=parts)[0] for parts in (ALL, ALL.without(part)))
        assert on.id == "a" and on.parts[part] > 0
        assert part not in off.parts


@pytest.mark.parametrize("part", ["meaning", "late"])
def test_what_stands_beside_a_record_is_compared_with_the_question_as_well(part: str) -> None:
    found = retrieval(*NOISE, *talk("Ann: Photographing landscapes?", "Bob: No landscapes, sorry."))
    alone = ALL.without(*(each for each in Parts.__dataclass_fields__ if each not in (part, "words")))
    query = "photography of a landscaper"
    off, on = (found.search(query, parts=parts) for parts in (alone, replace(alone, neighbours=True)))
    without, beside = ({hit.id: hit.parts[part] for hit in hits}["t1"] for hits in (off, on))
    assert beside > without > 0


def test_who_is_named_is_who_spoke() -> None:
    found = retrieval(*NOISE, said("a", "I like tea.", "Ann"), said("b", "I like tea.", "Bob"))
    assert first(found, "What does Bob like?") == "b"
    assert first(found, "what does ann like") == "a"
    plain = ALL.without("speaker", "meaning", "late")
    assert first(found, "What does Bob like?", plain) == first(found, "What does Ann like?", plain)


def test_i_is_who_asks() -> None:
    found = retrieval(*NOISE, *talk("Ann: My dog is called Rex.", "Bob: My dog is called Max."))
    assert first(found, "What is my dog called?", who="Bob") == "t1"
    assert first(found, "What is my dog called?", who="Ann") == "t0"


def test_a_name_that_a_record_is_known_to_speak_of_counts() -> None:
    twins = [said("a", "They went to the lake."), said("b", "They went to the lake.", names=("Uncle Joe",))]
    found = retrieval(*NOISE, *twins)
    assert first(found, "Where did uncle Joe go, to a lake?") == "b"
    assert first(found, "Where did uncle Joe go, to a lake?", ALL.without("names")) == "a"


def test_a_date_in_a_question_finds_what_was_said_then() -> None:
    months = [said(f"m{n:02}", "I went swimming.", at=f"2023-{n:02}-14T12:00:00.000Z") for n in range(1, 13)]
    found = retrieval(*NOISE, *months)
    assert first(found, "Who went swimming in July 2023?") == "m07"
    assert first(found, "Who went swimming on 14 March 2023?") == "m03"
    assert first(found, "Who went swimming last month?", now=NOW) == "m05"
    assert first(found, "Who went swimming in July 2023?", ALL.without("time")) == "m01"


def test_a_date_in_a_question_finds_what_speaks_of_it() -> None:
    turns = [
        said("a", "I went swimming yesterday."),
        said("b", "I went swimming two weeks ago."),
        said("c", "I went swimming last year."),
    ]
    found = retrieval(*NOISE, *turns)
    assert first(found, "Who went swimming on 7 May 2023?") == "a"
    assert first(found, "Who went swimming in 2022?") == "c"


def test_a_question_for_a_time_finds_what_tells_one() -> None:
    found = retrieval(
        *NOISE, said("a", "I painted the barn, gladly."), said("b", "I painted the barn last Friday.")
    )
    ask = "When was the barn painted?"
    on, off = scores(found, ask), scores(found, ask, ALL.without("when"))
    assert on["b"] / on["a"] > off["b"] / off["a"]


def test_what_asks_is_no_answer() -> None:
    found = retrieval(*NOISE, said("a", "Is the barn painted red?"), said("b", "My barn is painted red."))
    assert first(found, "What colour is the barn painted?") == "b"
    on, off = (
        scores(found, "What colour is the barn painted?", parts) for parts in (ALL, ALL.without("form"))
    )
    assert on["b"] / on["a"] > off["b"] / off["a"]


def test_an_edge_leads_to_what_has_no_word_of_the_question() -> None:
    records = [held("a", "Tom works at the harbour."), held("b", "He earns four hundred a week.")]
    edge = Edge(id="e", source="a", target="b", weight=1.0)
    found = retrieval(*NOISE, *records, edge)
    hits = {hit.id: hit for hit in found.search("Who works at the harbour?")}
    assert hits["b"].parts["spread"] > 0 and "a" in hits["b"].why
    assert "spread" not in {
        name
        for hit in found.search("Who works at the harbour?", parts=ALL.without("spread"))
        for name in hit.parts
    }


def test_what_no_longer_holds_spreads_less() -> None:
    def score(**more: Any) -> float:
        edge = Edge(id="e", source="a", target="b", weight=1.0, **more)
        found = retrieval(*NOISE, held("a", "Tom works at the harbour."), held("b", "He earns well."), edge)
        return scores(found, "Who works at the harbour?")["b"]

    assert score(invalidated="he left") == pytest.approx(0.3 * score())


def card(days: float, stability: float = 5.0) -> dict[str, Any]:
    from fsrs import Card, State

    review = NOW - timedelta(days=days)
    made = Card(state=State.Review, stability=stability, difficulty=5.0, last_review=review, due=review)
    return dict(made.to_dict())


def test_what_is_forgotten_ranks_behind_what_is_not() -> None:
    found = retrieval(
        *NOISE,
        held("a", "The safe opens with a key.", card=card(200)),
        held("b", "The safe opens with a key.", card=card(1)),
    )
    assert first(found, "What opens the safe?", now=NOW) == "b"
    assert first(found, "What opens the safe?", ALL.without("strength"), now=NOW) == "a"


def test_what_matters_ranks_before_what_does_not() -> None:
    found = retrieval(
        *NOISE,
        held("a", "The safe opens with a key.", salience=0.1),
        held("b", "The safe opens with a key.", salience=0.9),
    )
    assert first(found, "What opens the safe?") == "b"


def test_what_was_superseded_ranks_behind_what_took_its_place() -> None:
    old = held("a", "Tom lives in Oslo.", superseded="b", until="2023-01-01")
    found = retrieval(*NOISE, old, held("b", "Tom lives in Bergen."))
    assert first(found, "Where does Tom live?") == "b"


def test_each_score_is_explained() -> None:
    found = retrieval(*NOISE, *talk("Ann: I like tea.", "Bob: I drink coffee since last May."))
    hit = found.search("When did Bob begin to drink coffee?")[0]
    assert {"words", "speaker", "when", "salience"} <= set(hit.parts) | {"words"}
    assert 0 < hit.score <= 1 and 0 < hit.likeness <= 1.001
    assert f"{hit.score:.3f} = " in hit.explained() and "speaker" in hit.explained()
    assert "said by the person named" in hit.why


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(UsageError, match="charm: not a part of retrieval"):
        ALL.without("charm")
