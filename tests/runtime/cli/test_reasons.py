"""`reasons` explains a run from its documents alone; each answer names its place."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from command_line import MODEL, RUN, Command, write_run

from kernel.document.model import Document, Note, Section, Step
from runtime.cli.explain import Reason, reasons

ROOT = f"system-{RUN}"
CHILD = f"tool-task-{RUN}-2"


@pytest.fixture
def documents(written: list[Document]) -> list[Document]:
    return written


def _of(found: list[Reason], question: str) -> Reason:
    (one,) = [reason for reason in found if reason.question == question]
    return one


def test_why_the_task_was_understood_so(documents: list[Document]) -> None:
    one = _of(reasons(documents, ROOT), "Why this task?")
    assert 'was interpreted as "Summarise both reports into report.md", by openai/gpt-5-mini' in one.answer
    assert "because: there are two reports (from folder)" in one.answer
    assert one.source == f"{ROOT}.md §1 resolved task"


def test_a_reason_that_all_phases_share_is_given_once(documents: list[Document]) -> None:
    """Three phases of one attempt that the same model answered, and a second attempt in which one passed."""
    one = {"rung": "worker", "model": "openai/a", "calls": 1, "prompt": 100, "out": 10}
    rungs = [{"attempt": 1, "phase": phase, **one} for phase in ("understand", "plan", "do", "check")]
    rungs += [{"attempt": 2, "phase": phase, **one} for phase in ("plan", "check")]
    rungs.insert(5, {"attempt": 2, "phase": "check", "rung": "reflex", "passed": "it knows no way"})
    root = documents[0]
    loop = replace(root, meta=replace(root.meta, rungs=tuple(rungs)))
    found = reasons([loop, *documents[1:]], ROOT)
    assert [each.question for each in found if each.section == "§0 rungs"] == [
        "Why openai/a for Understand, Plan, Do, Check?",
        "Why openai/a for Plan in attempt 2?",
        "Why openai/a for Check in attempt 2?",
    ]
    assert "4 calls (440 tokens)" in _of(found, "Why openai/a for Understand, Plan, Do, Check?").answer
    pairs = [(each.question, each.answer) for each in found]
    assert len(pairs) == len(set(pairs))


def test_a_run_by_turns_is_told_turn_by_turn(documents: list[Document]) -> None:
    root, turn = documents[0], {"turn": 1}
    looked = Step(1, "planned", "read", {"path": "a.txt"}, evidence=turn)
    wrote = Step(2, "planned", "write", {"path": "a.txt"}, needs=(1,), evidence={"turn": 2})
    plan = Section(
        notes=(
            Note("approach", "look, then write", MODEL, "turn 1"),
            Note("success criteria", '{"run": "true"}', MODEL),
        ),
        steps={1: looked, 2: wrote},
    )
    do = Section(
        notes=(
            Note("thought", "I look first.", MODEL, "turn 1"),
            Note("proposed", "It is written.", MODEL, "turn 1"),
            Note("not yet", "held back: check failed: true", "kernel", "turn 1"),
        ),
        steps={1: replace(looked, state="done", result="x"), 2: replace(wrote, state="done", result="y")},
    )
    meta = replace(root.meta, attempt=1, base=0)
    found = reasons([Document(meta, {**root.sections, 2: plan, 3: do})], ROOT)
    told = [(each.question, each.answer) for each in found if each.section[:2] in ("§2", "§3")]
    assert told == [
        ("Why this plan?", "look, then write (by openai/gpt-5-mini, in turn 1)"),
        (
            "How was success measured?",
            'now and on the folder as it was at the start of the run:\n{"run": "true"}',
        ),
        ("What did turn 1 say?", "I look first."),
        ("Why step 1?", 'called in turn 1: read {"path": "a.txt"}'),
        ("Why was the answer of turn 1 held back?", "check failed: true"),
        ("Why step 2?", 'called in turn 2: write {"path": "a.txt"}; comes after step 1'),
    ]


def test_why_this_plan(documents: list[Document]) -> None:
    one = _of(reasons(documents, ROOT), "Why this plan?")
    assert one.answer.splitlines() == [
        "write what is known (by openai/gpt-5-mini)",
        "rationale: the picture cannot be read",
        "confidence: medium",
        "attempt 2, which knew what earlier attempts had learned",
    ]
    assert one.source == f"{ROOT}.md §2 approach"


def test_why_each_step_with_its_tool_and_its_needs(documents: list[Document]) -> None:
    found = reasons(documents, ROOT)
    assert "of an earlier attempt (attempt 1)" in _of(found, "Why step 1?").answer
    third = _of(found, "Why step 3?")
    assert third.answer.startswith('planned as write {"path": "report.md"')
    assert "needs step 1" in third.answer
    assert "its arguments were filled in when it was reached, by openai/gpt-5-mini" in third.answer
    assert third.source == f"{ROOT}.md §2 step 3"
    assert "its loop tool-task-7f3kq2-2 ended escalated" in _of(found, "Why is step 2 failed?").answer


def test_one_step_is_explained_in_full(documents: list[Document]) -> None:
    found = reasons(documents, ROOT, 3)
    assert _of(found, "What did step 3 give?").answer == "done, reported by tool:write: wrote report.md"
    recorded = _of(found, "What is recorded of step 3?")
    assert json.loads(recorded.answer)["touched"][0]["before"] == "b0"
    assert recorded.section == "§3 step 3 evidence"


def test_why_this_rung_answered_and_lower_ones_did_not(documents: list[Document]) -> None:
    one = _of(reasons(documents, ROOT), "Why openai/gpt-5-mini for Plan?")
    assert one.answer == (
        "reflex did not: no procedure fits; openai/gpt-5-mini answered in 1 call (1,000 tokens, USD 0.001)"
    )
    assert one.source == f"{ROOT}.md §0 rungs"


def test_why_this_verdict_by_criteria_before_and_after(documents: list[Document]) -> None:
    one = _of(reasons(documents, ROOT), "Why this verdict?")
    assert one.answer.splitlines() == [
        "openai/gpt-5-mini accepted it (ACCEPT)",
        'criterion {"file": "report.md", "has": "new"} holds now (9 bytes, matched \'new\'); '
        "before the first step it did not hold",
        "issues:",
        "- the second report is missing",
    ]


def test_why_a_retry(documents: list[Document]) -> None:
    one = _of(reasons(documents, ROOT), "Why a retry after attempt 1?")
    assert one.answer.startswith("learned: the second report is a picture\ntried: read everything")
    assert one.source == f"{ROOT}.md §2 attempt 1"


def test_why_a_loop_has_its_budget(documents: list[Document]) -> None:
    assert "60 calls, 400,000 tokens" in _of(reasons(documents, ROOT), "Why this budget?").answer
    share = _of(reasons(documents, CHILD), "Why this budget?")
    assert share.answer.startswith(
        f"its share of the calls that {ROOT} had left, less one reserved for Check: 20 calls"
    )
    assert share.source == f"{ROOT}.md §3 step 2 share"


def test_why_a_child_was_there_and_why_it_ended(documents: list[Document]) -> None:
    found = reasons(documents, CHILD)
    assert _of(found, "Why this loop?").answer == f"its parent gave it the task ({ROOT}.md, step 2)"
    end = _of(found, "Why did it end escalated?")
    assert end.answer == "it is a picture\nopen question: Is there a text of it?"


def test_why_it_waits(documents: list[Document]) -> None:
    root = documents[0].having(status="waiting", waiting={"for": "person", "question": "Which one?"})
    root = root.with_notes(1, Note("question", "Which one?", MODEL))
    one = _of(reasons([root, *documents[1:]], ROOT), "Why does it wait?")
    assert one.answer == "for a person: Which one?, asked by openai/gpt-5-mini"


def test_an_unverified_success_says_so(documents: list[Document]) -> None:
    root = replace(documents[0], meta=replace(documents[0].meta, unverified=True))
    assert "unverified: " in _of(reasons([root], ROOT), "Why this verdict?").answer


def test_a_document_that_has_only_begun_can_be_explained(documents: list[Document]) -> None:
    root = Document(
        documents[0].meta, {1: replace(documents[0].section(1), notes=documents[0].section(1).notes[:1])}
    )
    assert _of(reasons([root], ROOT), "Why this task?").answer.startswith("as given: ")


def test_the_command_prints_answers_with_their_places(fractal: Command) -> None:
    write_run(fractal.folder)
    out = fractal("explain", RUN).out
    assert f"— {ROOT} —" in out and f"— {CHILD} —" in out
    assert "Why this plan?\n  write what is known (by openai/gpt-5-mini)\n" in out
    assert f"  ← {ROOT}.md §2 approach\n" in out
    assert "\x1b" not in out
    step = fractal("explain", RUN, "3").out
    assert step.startswith("Why step 3?") and "Why this plan?" not in step
    found = json.loads(fractal("explain", CHILD, "--json").out)
    assert {each["loop"] for each in found} == {CHILD}
    ran = fractal("explain", RUN, "7")
    assert (ran.exit, ran.out) == (2, "")
    assert f"{ROOT} has no step 7; its steps: 1, 2, 3" in ran.err
