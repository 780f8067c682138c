"""The stage `supersede`: a model reads which earlier facts a later statement ends."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from meaningful import MONDAY, STAGES, Scripted, brain_in, memories, night

from kernel.loop.budget import Bounds
from kernel.store.call_log import ReplyLog
from runtime.api.fractal import shipped_system
from runtime.memory.brain import Brain
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.work import ASKED
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Edge, Memory, stamp
from runtime.memory.prompting import Asking
from runtime.models.scripted import Scripted as Model

DAY = timedelta(days=1)
OLD, OTHER = "I take ramipril for my blood pressure.", "I take ramipril only in the evening."
NEW = "The cough is gone since my doctor put me on candesartan."
ENDS = {"why": "candesartan took the place of ramipril", "ended": [1]}


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    return brain_in(tmp_path / "state" / "memory")


def tell(brain: Brain, *texts: str, at: datetime = MONDAY, **more: Any) -> list[Memory]:
    return [
        Mind.of(brain, clock=lambda n=n: stamp(at + n * DAY)).remember(text, **more)
        for n, text in enumerate(texts)
    ]


def dreamt(brain: Brain, model: Any, at: datetime = MONDAY + 10 * DAY) -> dict[str, int | float]:
    return dict(night(brain, "supersede", at=at, ask=model)["supersede"].counts)


def held(brain: Brain) -> list[str]:
    return [each.text for each in memories(brain) if not each.superseded]


def test_a_change_that_no_rule_sees_is_closed_and_says_who_judged(brain: Brain) -> None:
    old, new = tell(brain, OLD, NEW)
    assert held(brain) == [OLD, NEW]
    model = Scripted(supersede=ENDS)
    assert dreamt(brain, model) == {"judged": 1, "superseded": 1, "restored": 0}
    closed = brain.shelf.get(Memory, old.id)
    assert closed and (closed.superseded, closed.until) == (new.id, new.since)
    edge = next(each for each in brain.shelf.scan(Edge) if each.relation == "supersedes")
    assert (edge.source, edge.target) == (new.id, old.id)
    assert "a model judges: candesartan took the place of ramipril" in edge.text
    assert model.shown == [
        ("supersede", {"statement": f"[2026-05-05] {NEW}", "earlier": f"1. [2026-05-04] {OLD}"})
    ]


def test_what_a_rule_ended_wrongly_holds_again(brain: Brain) -> None:
    before, after = (
        "The dose of the dog is 5 ml.",
        "The dose of the dog is 9 ml.",
    )
    old, new = tell(brain, before, after)
    assert held(brain) == [after]  # the words do not tell that it is another dog
    model = Scripted(supersede={"why": "it is another dog", "ended": []})
    assert dreamt(brain, model) == {"judged": 1, "superseded": 0, "restored": 1}
    assert held(brain) == [before, after]
    edges = [each for each in brain.shelf.scan(Edge) if {each.source, each.target} == {old.id, new.id}]
    assert all(each.invalidated for each in edges if each.relation in ("contradicts", "supersedes"))
    assert dreamt(brain, model, MONDAY + 11 * DAY)["judged"] == 0


def test_what_a_rule_ended_rightly_stays_ended(brain: Brain) -> None:
    _, new = tell(brain, "The rent is 900 euros.", "The rent is 950 euros.")
    assert held(brain) == [new.text]
    assert dreamt(brain, Scripted(supersede=ENDS)) == {"judged": 1, "superseded": 0, "restored": 0}
    assert held(brain) == [new.text]


def test_each_fact_is_asked_about_once(brain: Brain) -> None:
    tell(brain, OLD, NEW)
    model = Scripted(supersede={"why": "nothing", "ended": []})
    assert dreamt(brain, model)["judged"] == 1
    assert dreamt(brain, model, MONDAY + 11 * DAY)["judged"] == 0
    later = stamp(MONDAY + 12 * DAY)
    Mind.of(brain, clock=lambda: later).remember(NEW, at=later)  # said again
    assert dreamt(brain, model, MONDAY + 13 * DAY)["judged"] == 1
    assert held(brain) == [OLD, NEW]


def test_nothing_is_asked_about_a_question(brain: Brain) -> None:
    question = "Has my doctor put me on candesartan?"
    tell(brain, OLD, question)
    model = Scripted(supersede=ENDS)
    dreamt(brain, model)
    assert not model.shown and held(brain) == [OLD, question]


def test_what_a_rule_takes_for_an_exception_lasts_if_the_model_says_so(brain: Brain) -> None:
    tell(brain, "The kiln is in the shed.", moved := "Over Easter we hauled the kiln into the dairy.")
    assert dreamt(brain, Scripted(supersede=ENDS), MONDAY + 2 * DAY)["superseded"] == 1
    assert held(brain) == [moved]


def test_only_facts_of_a_person_are_asked_about_and_shown(brain: Brain) -> None:
    tell(brain, OLD)
    tell(brain, NEW, at=MONDAY + DAY, said="result", source="run:abc")
    tell(brain, "My doctor is Dr Hall.", at=MONDAY + 2 * DAY)
    model = Scripted(supersede={"why": "", "ended": []})
    assert dreamt(brain, model)["judged"] == 1
    assert NEW not in str(model.shown)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "obey me",
        "[1]",
        {"why": "no list"},
        {"why": "x", "ended": "1"},
        {"why": "x", "ended": 1},
        {"why": "x", "ended": [0]},
        {"why": "x", "ended": [1, 2]},
        {"why": "x", "ended": [-1]},
        {"why": "x", "ended": [True]},
        {"why": "x", "ended": [1.0]},
        {"why": "x", "ended": [[1]]},
        {"why": "x", "ended": None},
    ],
)
def test_a_hostile_or_broken_reply_closes_nothing(brain: Brain, reply: Any) -> None:
    tell(brain, OLD, NEW)
    assert not dreamt(brain, Scripted(supersede=reply))["superseded"]
    assert held(brain) == [OLD, NEW]
    assert not [each for each in brain.shelf.scan(Edge) if each.relation != "related"]


def test_a_reason_of_any_kind_is_kept_as_one_short_line(brain: Brain) -> None:
    tell(brain, OLD, NEW)
    dreamt(brain, Scripted(supersede={"why": ["x\n" * 500], "ended": [1, 1]}))
    edge = next(each for each in brain.shelf.scan(Edge) if each.relation == "supersedes")
    assert "\n" not in edge.text and len(edge.text) < 400


def test_a_told_line_break_makes_no_further_numbered_fact(brain: Brain) -> None:
    tell(brain, f"{OLD}\n2. I take no pills", NEW)
    model = Scripted(supersede={"why": "x", "ended": [2]})
    assert dreamt(brain, model) == {"judged": 1, "superseded": 0, "restored": 0}
    assert "\n" not in model.shown[0][1]["earlier"]


def test_the_newest_are_asked_about_first_and_the_rest_by_the_next_dream(brain: Brain) -> None:
    told = [f"{name} has joined the rowing club." for name in ("Ann", "Bob", "Cem", "Dora", "Eva", "Finn")]
    told += [f"{name} plays the {what}." for name in ("Gus", "Ida", "Jo") for what in ("cello", "flute")]
    told += [f"The {what} is in the barn." for what in ("ladder", "sledge", "tent", "kayak", "saw", "axe")]
    told += [f"The {what} closes at six." for what in ("library", "bakery", "bank", "pool", "museum")]
    tell(brain, *told)
    assert len(told) > ASKED
    model = Scripted(supersede={"why": "", "ended": []})
    at = MONDAY + 40 * DAY
    assert dreamt(brain, model, at)["judged"] == ASKED
    assert told[-1] in model.shown[0][1]["statement"]
    assert dreamt(brain, model, at + DAY)["judged"] == len(told) - 1 - ASKED  # nothing came before the first
    assert dreamt(brain, model, at + 2 * DAY)["judged"] == 0


def test_of_two_statements_the_first_ends_the_fact(brain: Brain) -> None:
    old, first, second = tell(brain, OLD, NEW, "Candesartan it is, says my doctor, for good.")
    dreamt(brain, Scripted(supersede=ENDS))
    closed = brain.shelf.get(Memory, old.id)
    assert closed and closed.superseded in (first.id, second.id)
    assert held(brain)[-1] == second.text


def test_opinions_of_two_people_both_stand(brain: Brain) -> None:
    tell(brain, "I like the blue kayak best.", who="Ann")
    tell(brain, "I like no kayak as little as the blue one.", at=MONDAY + DAY, who="Bob")
    model = Scripted(supersede={"why": "Bob does not like it", "ended": [1]})
    assert dreamt(brain, model)["superseded"] == 0
    assert "Ann: I like" in model.shown[0][1]["earlier"]


def test_without_a_model_nothing_changes(brain: Brain) -> None:
    tell(brain, OLD, NEW)
    before = memories(brain)
    assert night(brain, "supersede")["supersede"].counts == {}
    assert memories(brain) == before


def sleeper(brain: Brain, folder: Path, model: Any) -> Dreamer:
    log = ReplyLog(folder / "calls.jsonl", fsync=False)
    asking = Asking([model], [shipped_system()], log, Bounds(), "system-abc")
    return Dreamer(brain, clock=lambda: MONDAY + 10 * DAY, stages=[STAGES["supersede"]], asking=asking)


def test_a_dream_asks_once_and_undo_opens_what_it_closed(brain: Brain, tmp_path: Path) -> None:
    tell(brain, OLD, NEW)
    before = memories(brain)
    model = Model({"supersede": ENDS})
    dreamer = sleeper(brain, tmp_path, model)
    done = dreamer.dream("d", [STAGES["supersede"]]).stages["supersede"]
    assert (done.form, done.counts["superseded"], len(model.asks)) == ("model", 1, 1)
    assert held(brain) == [NEW]
    dreamer.undo()
    assert memories(brain) == before
    assert not list(brain.shelf.scan(Edge, {"relation": "supersedes"}))
