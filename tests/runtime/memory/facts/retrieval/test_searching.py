"""Retrieval as a whole: odd questions, other modes, scopes, and an index that follows the shelf."""

from __future__ import annotations

import gc
import json
import time
import weakref
from base64 import urlsafe_b64decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lanes import within
from talk import EMBEDDER, NOISE, held, retrieval, said, shelf_of, talk

from kernel.errors import UsageError
from runtime.memory.embed import Tokens
from runtime.memory.facts.records import Edge, Observation
from runtime.memory.facts.retrieval import (
    ALL,
    MODES,
    Passage,
    Retrieval,
    Scope,
    forget,
    retrieval_of,
)
from runtime.memory.store import open_shelf


def ids(found: Any) -> list[str]:
    return [hit.id for hit in found]


# ---- odd questions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "query", ["", " \n\t", "?!…", "\0", "\ud800", "the of and", "ä", "😀", "NOT AND OR (", "%s {x} \\"]
)
def test_odd_questions_get_an_answer_or_none(query: str, mode: Any) -> None:
    found = retrieval(*NOISE)
    assert isinstance(found.search(query, mode=mode), list)


def test_a_question_without_a_sign_of_a_word_finds_nothing() -> None:
    assert retrieval(*NOISE).search(" ?! ") == []


def test_a_question_of_ten_megabytes_is_answered_at_once() -> None:
    found = retrieval(*NOISE)
    found.search("x")
    with within(5):
        assert ids(found.search("kettle boils " + "blah " * 2_000_000))[0] == "n0"


def test_a_question_of_common_words_alone_is_looked_for_by_these() -> None:
    assert retrieval(*NOISE, said("a", "To be or not to be")).search("to be or not to be")[0].id == "a"


def test_scripts_without_spaces_and_accents_are_found() -> None:
    found = retrieval(
        *NOISE, said("a", "猫は魚が好きです"), said("b", "Élodie préfère le thé"), said("c", "Кошка спит")
    )
    assert found.search("魚")[0].id == "a"
    assert found.search("ÉLODIE")[0].id == "b"
    assert found.search("кошка")[0].id == "c"


def test_an_empty_shelf_answers_nothing() -> None:
    assert retrieval().search("anything") == []


def test_what_has_nothing_to_do_with_it_is_not_found() -> None:
    found = Retrieval(shelf_of(*NOISE), None)
    assert found.search("quantum chromodynamics") == []


@pytest.mark.parametrize(
    ("options", "message"), [({"limit": 0}, "limit: 0"), ({"mode": "best"}, "mode: 'best'")]
)
def test_an_invalid_option_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        retrieval(*NOISE).search("kettle", **options)


def test_the_same_question_gets_the_same_answer_and_order_of_writing_does_not_matter() -> None:
    records = [*NOISE, *talk("Ann: Tea?", "Bob: Tea, please.", "Ann: Tea it is.")]
    one, other = retrieval(*records), retrieval(*reversed(records))
    for query in ("Who wants tea?", "the kettle", "geese or beans"):
        assert one.search(query) == one.search(query)
        assert [(hit.id, round(hit.score, 5)) for hit in one.search(query)] == [
            (hit.id, round(hit.score, 5)) for hit in other.search(query)
        ]


# ---- modes -----------------------------------------------------------------------------------------------


def test_aggregated_lifts_what_has_neighbours_that_mean_it() -> None:
    records = [
        held("a", "He sat there."),
        held("b", "He sat here."),
        held("c", "The orchestra rehearses Mahler."),
    ]
    found = retrieval(*NOISE, *records, Edge(id="e", source="a", target="c", weight=1.0))
    query = "sat the orchestra, rehearsing Mahler?"

    flat = ALL.without("spread")

    def gap(mode: Any) -> float:
        parts = {hit.id: hit.parts for hit in found.search(query, 30, mode=mode, parts=flat)}
        return parts["a"].get("meaning", 0.0) - parts["b"].get("meaning", 0.0)

    assert gap("aggregated") > gap("standard")


def test_multi_anchor_asks_the_ladder_and_counts_votes() -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    def ask(file: str, slots: Any) -> str:
        asked.append((file, dict(slots)))
        return json.dumps({"questions": ["grey geese", "birds of the neighbours", "geese"]})

    found = retrieval(*NOISE)
    hits = found.search("Which fowl are kept next door?", mode="multi-anchor", ask=ask)
    assert asked == [("rephrase", {"question": "Which fowl are kept next door?"})]
    assert hits[0].id == "n5" and hits[0].why.startswith(("3 of 4", "4 of 4"))


@pytest.mark.parametrize(
    "reply", ["", "no JSON", "[]", '{"questions": 3}', '{"questions": [1, null]}', "[" * 100_000]
)
def test_a_model_that_says_nothing_of_use_leaves_the_rules(reply: str) -> None:
    found = retrieval(*NOISE)
    hits = found.search("Which kettle boils?", mode="multi-anchor", ask=lambda file, slots: reply)
    assert hits[0].id == "n0"


def test_multi_anchor_has_a_form_without_a_model() -> None:
    hits = retrieval(*NOISE).search("When does the kettle boil?", mode="multi-anchor")
    assert hits[0].id == "n0" and " ways of asking" in hits[0].why


# ---- scopes ----------------------------------------------------------------------------------------------


def test_only_what_is_in_scope_is_found() -> None:
    records = [
        said("a", "The well is deep.", at="2023-01-10T00:00:00.000Z"),
        said("b", "The well is deep.", at="2023-03-10T00:00:00.000Z", agent="other"),
        held("m", "The well is deep.", since="2023-02-10"),
    ]
    found = retrieval(*NOISE, *records)

    def within(**more: Any) -> set[str]:
        return set(ids(found.search("How deep is the well?", scope=Scope(**more)))) & {"a", "b", "m"}

    assert within() == {"a", "b", "m"}
    assert within(kinds=("memory",)) == {"m"}
    assert within(agent="other") == {"b"}
    assert within(since="2023-02-01") == {"b", "m"}
    assert within(since="2023-02-01", until="2023-02-28") == {"m"}
    assert within(keep=lambda fields: fields["id"] != "a") == {"b", "m"}


def test_an_invalid_scope_is_an_error() -> None:
    with pytest.raises(UsageError, match="since: 'soon' is not a date"):
        retrieval(*NOISE).search("kettle", scope=Scope(since="soon"))
    with pytest.raises(UsageError, match="kinds: goat"):
        retrieval(*NOISE).search("kettle", scope=Scope(kinds=("goat",)))


# ---- an index that follows -------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["memory", "files", "sqlite"])
def test_what_is_put_changed_and_deleted_is_met_by_the_next_question(store: str, tmp_path: Path) -> None:
    shelf = open_shelf(store, tmp_path, fsync=False)
    found = Retrieval(shelf, EMBEDDER)
    shelf.put(*NOISE)
    assert not [hit for hit in found.search("zebra") if hit.parts.get("words", 0) > 0]
    shelf.put(said("z", "A zebra ran past."))
    assert found.search("zebra")[0].id == "z"
    shelf.put(said("z", "A giraffe ran past."))
    assert found.search("giraffe")[0].text == "A giraffe ran past."
    assert not [hit for hit in found.search("zebra") if hit.parts.get("words", 0) > 0]
    shelf.delete(Observation, "z")
    assert "z" not in ids(found.search("giraffe"))
    assert shelf.count(Passage) == len(NOISE)


@pytest.mark.parametrize("store", ["files", "sqlite"])
def test_what_another_process_wrote_is_met(store: str, tmp_path: Path) -> None:
    shelf, other = (open_shelf(store, tmp_path, fsync=False) for _ in range(2))
    found = Retrieval(shelf, EMBEDDER)
    shelf.put(*NOISE)
    found.search("kettle")
    other.put(said("z", "A zebra ran past."))
    assert found.search("zebra")[0].id == "z"
    other.delete(Observation, "n0")
    assert "n0" not in ids(found.search("kettle boils"))


def test_a_write_that_failed_changes_nothing() -> None:
    shelf = shelf_of(*NOISE)
    found = Retrieval(shelf, EMBEDDER)
    found.search("kettle")
    with pytest.raises(RuntimeError), shelf.transaction():
        shelf.put(said("z", "A zebra ran past."))
        raise RuntimeError
    assert "z" not in ids(found.search("zebra"))
    shelf.put(said("y", "A zebra ran past."))
    assert found.search("zebra")[0].id == "y"


def test_many_changes_leave_no_dead_weight() -> None:
    shelf = shelf_of(*NOISE)
    found = Retrieval(shelf, EMBEDDER)
    for n in range(120):
        shelf.put(said("z", f"Zebra number {n} ran past."))
        assert found.search(f"zebra number {n}")[0].text == f"Zebra number {n} ran past."
    assert len(found.index.rows) < 2 * len(NOISE) + 100


class Counting:
    """An embedder that counts the texts it was given."""

    def __init__(self) -> None:
        self.name, self.size, self.texts = EMBEDDER.name, EMBEDDER.size, []

    def embed(self, texts: Any) -> Any:
        return EMBEDDER.embed(texts)

    def embed_tokens(self, text: str) -> Tokens:
        self.texts.append(text)
        return EMBEDDER.embed_tokens(text)


def test_a_text_is_embedded_once_and_kept(tmp_path: Path) -> None:
    counting: Any = Counting()
    shelf = open_shelf("sqlite", tmp_path, fsync=False)
    shelf.put(*NOISE)
    first = Retrieval(shelf, counting).search("kettle")
    assert len(counting.texts) == len(NOISE) + 1
    shelf.close()
    again = Retrieval(open_shelf("sqlite", tmp_path, fsync=False), counting)
    assert again.search("kettle") == first
    assert len(counting.texts) == len(NOISE) + 2


def test_its_numbers_are_kept_although_they_look_like_a_token(tmp_path: Path) -> None:
    """Numbers are no text: in base64 some look like a secret, and none is hidden in them."""
    token = "ghp_" + "a1B2" * 9
    raw = urlsafe_b64decode(token)
    shelf = open_shelf("sqlite", tmp_path, fsync=False)
    shelf.put(Passage(id="p", text=f"the token is {token}", states=raw))
    kept = shelf.get(Passage, "p")
    assert kept is not None and kept.states == raw and token not in kept.text


def test_another_embedder_makes_its_own_and_a_damaged_passage_is_made_anew() -> None:
    shelf = shelf_of(*NOISE)
    counting: Any = Counting()
    before = Retrieval(shelf, EMBEDDER).search("kettle")
    counting.name = "lexical-other"
    Retrieval(shelf, counting).search("kettle")
    assert len(counting.texts) == len(NOISE) + 1
    broken = shelf.get(Passage, "observation:n0")
    assert broken is not None
    shelf.put(broken.model_copy(update={"states": b"123", "made_by": EMBEDDER.name}))
    assert Retrieval(shelf, EMBEDDER).search("kettle") == before


def test_what_is_forgotten_leaves_no_passage() -> None:
    shelf = shelf_of(*NOISE)
    Retrieval(shelf, EMBEDDER).search("kettle")
    shelf.delete(Observation, "n0", "n1")
    assert forget(shelf, "observation", ["n0"]) == 1
    Retrieval(shelf, EMBEDDER).search("kettle")
    assert {each.id for each in shelf.scan(Passage)} == {f"observation:n{n}" for n in range(2, len(NOISE))}


def test_a_broken_record_is_left_out() -> None:
    shelf = shelf_of(*NOISE)
    keeper: Any = shelf.keeper
    from runtime.memory.store.record import Row

    keeper.write(
        [
            Row("observation", "bad", "{no json", "kettle"),
            Row("observation", "worse", '{"id": "worse", "turn": "x"}'),
        ]
    )
    assert ids(retrieval_of(shelf, EMBEDDER).search("kettle"))[0] == "n0"


def test_a_shelf_has_one_retrieval() -> None:
    shelf = shelf_of(*NOISE)
    assert retrieval_of(shelf, EMBEDDER) is retrieval_of(shelf, EMBEDDER)
    assert retrieval_of(shelf, EMBEDDER).search("kettle", 1)[0].id == "n0"
    assert retrieval_of(shelf, None).search("kettle", 1)[0].id == "n0"


def test_a_shelf_that_is_let_go_takes_its_index_along() -> None:
    shelf = shelf_of(*NOISE)
    left = weakref.ref(retrieval_of(shelf, EMBEDDER))
    del shelf
    gc.collect()
    assert left() is None


def test_many_threads_ask_and_write_at_once() -> None:
    shelf = shelf_of(*NOISE)
    found = Retrieval(shelf, EMBEDDER)

    def work(n: int) -> str:
        shelf.put(said(f"z{n}", f"Zebra number {n} ran past."))
        return found.search(f"zebra number {n}")[0].id

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(40))) == [f"z{n}" for n in range(40)]


@pytest.mark.night
def test_a_question_costs_little_among_thousands() -> None:
    words = [f"w{n}" for n in range(400)]
    many = [
        said(
            f"o{n}",
            " ".join(words[(n * 7 + k * k) % 400] for k in range(12)),
            f"P{n % 5}",
            thread=f"t{n // 20}",
            turn=n % 20,
        )
        for n in range(1500)
    ]
    found = Retrieval(shelf_of(*many), EMBEDDER)
    found.search("w1 w2")
    began = time.process_time()
    for n in range(40):
        found.search(f"w{n} w{n + 9} w{n + 50} said by P1 in May 2023")
    assert (time.process_time() - began) / 40 < 0.04
