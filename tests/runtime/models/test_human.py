"""The last rung: a person is asked one clear question, and what they answer is taken as they mean it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kernel.asking.responder import FREE, Ask, Responder, Waits
from kernel.document.model import Document, Fold, Meta, Note, Section, Step
from runtime.models.human import Human

HUMAN = Human()


def document(*notes: Note, task: str = "count the clouds", **sections: Section) -> Document:
    numbered = {int(name.removeprefix("s")): section for name, section in sections.items()}
    first = Section(notes=(Note("task", task, "person"), *notes))
    return Document(Meta(id="system-abc123", run="abc123"), {1: first, **numbered})


@pytest.fixture
def ask(make_ask):
    def build(phase: str, given: Document, **values) -> Ask:
        return replace(make_ask(phase), document=given, **values)

    return build


def test_it_is_the_last_rung():
    assert isinstance(HUMAN, Responder)
    assert (HUMAN.name, HUMAN.tier, HUMAN.reads_prompt) == ("person", "human", False)
    assert HUMAN.offers("anything", document()) is not None


@pytest.mark.parametrize("phase", ["understand", "plan"])
async def test_an_uncovered_task_waits_with_what_can_be_done(ask, phase):
    waits = await HUMAN.answer(ask(phase, document()))
    assert isinstance(waits, Waits)
    assert waits.reason == "person"
    for word in ("No reflex covers", "count the clouds", "fractal answer abc123", "fractal resume abc123"):
        assert word in waits.question
    for way in ("--model", "FRACTAL_MODEL", "fractal.yaml", "ollama/", "llama:"):
        assert way in waits.question
    assert HUMAN.estimate(ask(phase, document())) == FREE


async def test_a_rung_that_failed_is_named(ask):
    passed = {"rung": "openai/gpt-5", "phase": "plan", "passed": "the key is not valid"}
    given = document().having(rungs=({"rung": "reflex", "passed": "no reflex"}, passed))
    waits = await HUMAN.answer(ask("plan", given))
    assert "No reflex covers" not in waits.question
    assert "openai/gpt-5: the key is not valid" in waits.question


async def test_what_was_learned_is_in_the_question(ask):
    fold = Fold(1, "escalate", (Note("learned", "step 1 (read): a.txt: there is no such file"),))
    waits = await HUMAN.answer(ask("plan", document(s2=Section(folds=(fold,)))))
    assert "there is no such file" in waits.question


def done(*notes: Note) -> Document:
    return document(*notes, s3=Section(steps={1: Step(1, "done", "count", {}, result="12 clouds")}))


async def test_check_shows_the_result_and_takes_yes(ask):
    evidence = {"failed_steps": [], "criteria": [{"criterion": {"file": "a.txt"}, "after": False}]}
    waits = await HUMAN.answer(ask("check", done(), evidence=evidence))
    assert "12 clouds" in waits.question
    assert "a.txt" in waits.question
    answered = done(Note("question", waits.question), Note("answer", "Yes.", "person"))
    verdict = json.loads((await HUMAN.answer(ask("check", answered, evidence=evidence))).text)
    assert (verdict["decision"], verdict["output"]) == ("ACCEPT", "{{ steps[1].result }}")


async def test_check_takes_anything_else_as_what_is_wrong(ask):
    waits = await HUMAN.answer(ask("check", done()))
    answered = done(Note("question", waits.question), Note("answer", "the night is missing", "person"))
    verdict = json.loads((await HUMAN.answer(ask("check", answered))).text)
    assert verdict["decision"] == "RETRY"
    assert "the night is missing" in verdict["learned"]


async def test_an_answer_to_another_question_is_no_answer(ask):
    earlier = done(Note("question", "which sky?"), Note("answer", "yes", "person"))
    assert isinstance(await HUMAN.answer(ask("check", earlier)), Waits)


async def test_a_step_is_asked_for_as_a_call_or_a_reason(ask):
    given = document(s2=Section(steps={2: Step(2, tool="read", what="the right file")}))
    waits = await HUMAN.answer(ask("do", given, step=2))
    assert "the right file" in waits.question
    call = {"tool": "read", "args": {"path": "a.txt"}}
    for text, wanted in ((json.dumps(call), call), ("there is none", {"blocked": "there is none"})):
        notes = (Note("question", waits.question), Note("answer", text, "person"))
        answered = document(*notes, s2=given.section(2))
        assert json.loads((await HUMAN.answer(ask("do", answered, step=2))).text) == wanted
