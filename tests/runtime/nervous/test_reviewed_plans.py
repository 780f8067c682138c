"""Which plans go up, who decides about them, and what is learned of what was decided."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, bash, plan, write

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import Exit, UsageError
from kernel.events import Event
from runtime.api.fractal import Fractal
from runtime.memory.learning.attempts import StoredAttempt
from runtime.models.human import Human
from runtime.models.micro.micro import Micro
from runtime.models.scripted import Scripted
from runtime.nervous.decisions import UNCHANGED
from runtime.nervous.nerves import MOST_SENT_BACK
from runtime.workspace.deciders import TERMINAL, Decider

PUSH = bash("git push origin main")
ECHO = bash("echo hello")
GIT = shutil.which("git")
APPROVES = {"decision": "approve", "why": ""}
Make = Callable[..., Fractal]


@pytest.fixture
def fractal(tmp_path: Path) -> Make:
    work = tmp_path / "work"
    work.mkdir()
    git = tmp_path / "bin" / "git"  # a push that has nowhere to go
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\n[ "$1" = push ] || exec {GIT} "$@"\necho pushed\n')
    git.chmod(0o755)

    def make(worker: Any, oversight: Any = None, **settings: Any) -> Fractal:
        rungs = [Scripted(worker, name="small")]
        rungs += [Scripted(oversight, name="large", tier="oversight")] if oversight else []
        settings = {"embedder": "lexical", "fsync": False, "sandbox": "off", "recall": False, **settings}
        return Fractal(work, settings=settings, ladder=Ladder((*rungs, Human())))

    return make


@pytest.fixture(autouse=True)
def _git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")


def planning(*steps: Mapping[str, Any], **more: Any) -> Callable[[Ask], Any]:
    return lambda ask: ACCEPT if ask.phase == "check" else plan(*steps, **more)


def replying(*replies: Mapping[str, Any]) -> tuple[Callable[[Ask], Any], list[Ask]]:
    """Oversight that gives these replies, the last one again and again; and what it was asked."""
    asked: list[Ask] = []

    def reply(ask: Ask) -> Any:
        asked.append(ask)
        return replies[min(len(asked), len(replies)) - 1]

    return reply, asked


def text_of(fractal: Fractal, run: str) -> str:
    return fractal.path(run).read_text("utf-8")


async def test_oversight_does_not_approve_what_it_cannot_see(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    one = fractal(planning(write("a.sh", "true\n" * 3_000)), oversight, review="always")
    result = await one.run("write the script")
    assert (result.exit, asked) == (Exit.WAITING, [])
    assert "too long to be shown to oversight" in text_of(one, result.run)


# ---- when a plan goes up ----------------------------------------------------------------------------------


async def test_a_plan_of_low_confidence_is_reviewed_and_not_made_anew_by_oversight(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    one = fractal(planning(ECHO, confidence="low"), oversight)
    result = await one.run("say hello")
    assert result.exit == Exit.ACCEPTED
    assert [ask.phase for ask in asked] == ["review"]
    assert "its confidence is low" in asked[0].user
    (decision,) = one.decisions()
    assert (decision.why, decision.confidence, decision.outcome) == (
        "its confidence is low",
        "low",
        "unverified",
    )


async def test_a_worker_that_is_still_unsure_after_a_nudge_hands_over(fractal: Make) -> None:
    def oversight(ask: Ask) -> Any:
        return {"decision": "nudge", "why": "think"} if ask.phase == "review" else planning(ECHO)(ask)

    one = fractal(planning(ECHO, confidence="low"), oversight)
    result = await one.run("say hello")
    assert result.exit == Exit.ACCEPTED
    assert one.document(result.run).meta.taker == "large"
    assert len(one.decisions()) == 1


async def test_without_review_an_uncertain_plan_climbs_and_then_asks_a_human(fractal: Make) -> None:
    oversight, asked = replying(plan(ECHO, confidence="low"))
    result = await fractal(planning(ECHO, confidence="low"), oversight, review="off").run("say hello")
    assert [ask.phase for ask in asked] == ["turn"]
    assert (result.exit, result.waiting) == (Exit.WAITING, "person")


async def test_always_sends_every_plan_up(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    assert (await fractal(planning(ECHO), oversight).run("say hello")).exit == Exit.ACCEPTED
    assert asked == []
    assert (await fractal(planning(ECHO), oversight, review="always").run("say it")).exit == Exit.ACCEPTED
    assert "every plan is reviewed" in asked[0].user


async def test_a_type_that_failed_lately_sends_the_next_plan_up(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    one = fractal(planning(ECHO), oversight)
    for name in "ab":
        one.feedback((await one.run(f"count the words of {name}.txt")).run, False, "wrong")
    assert asked == []
    assert (await one.run("count the words of c.txt")).exit == Exit.ACCEPTED
    assert len(asked) == 1 and "2 of the last 2 tasks of the type" in asked[0].user


# ---- by turns ---------------------------------------------------------------------------------------------


def call(tool: str, /, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def by_turns(*turns: list[Mapping[str, Any]]) -> tuple[Callable[[Ask], Any], list[Ask]]:
    """A worker that takes these turns, and what it was asked."""
    left, asked = list(turns), list[Ask]()

    def answer(ask: Ask) -> Any:
        asked.append(ask)
        return {"calls": left.pop(0)}

    return answer, asked


A_TXT = write("a.txt", "a\n")
WRITTEN = call("done", answer="written", checks=["test -s a.txt"])


async def test_a_worker_by_turns_plans_before_it_changes_anything_and_oversight_sees_that_turn(
    fractal: Make, tmp_path: Path
) -> None:
    worker, turns = by_turns(
        [call("bash", command="ls"), A_TXT, WRITTEN],
        [call("plan", approach="as a text", checks=["test -s a.txt"]), A_TXT, WRITTEN],
        [call("done")],
    )
    oversight, asked = replying(APPROVES)
    one = fractal(worker, oversight, review="always")
    result = await one.run("write a.txt")
    assert (result.exit, result.output, len(asked)) == (Exit.ACCEPTED, "written", 1)
    first, shown = prompt_text(turns[1]), asked[0].user
    assert "held back: plan first" in first
    assert "as a text" in shown and "every plan is reviewed" in shown
    assert shown.count('write {"path": "a.txt"') == 1, "what was held back is not proposed"
    assert shown.count("write a.txt") == 1, "the task is said once"
    assert shown.count("check: test -s a.txt") == 1
    assert (tmp_path / "work" / "a.txt").read_text() == "a\n"
    (decision,) = one.decisions()
    assert decision.oversight and decision.oversight.type == "approve"


async def test_a_plan_by_turns_that_is_sent_back_changes_nothing_and_is_made_anew(
    fractal: Make, tmp_path: Path
) -> None:
    worker, turns = by_turns(
        [call("plan", approach="as a text"), A_TXT, WRITTEN],
        [call("plan", approach="as b.txt"), write("b.txt", "b\n"), call("done", answer="b")],
        [call("done")],
    )
    oversight, asked = replying({"decision": "nudge", "why": "call it b.txt"}, APPROVES)
    result = await fractal(worker, oversight, review="always").run("write a text")
    assert (result.exit, len(asked)) == (Exit.ACCEPTED, 2)
    assert "Guidance: call it b.txt" in prompt_text(turns[1])
    assert [path.name for path in (tmp_path / "work").glob("*.txt")] == ["b.txt"]


async def test_a_sketch_of_low_confidence_goes_to_oversight(fractal: Make) -> None:
    worker, turns = by_turns(
        [call("plan", approach="say it", confidence="low"), ECHO, call("done", answer="hello")]
    )
    oversight, asked = replying(APPROVES)
    result = await fractal(worker, oversight).run("say hello")
    assert (result.exit, result.output, len(turns), len(asked)) == (Exit.ACCEPTED, "hello", 1, 1)
    assert "its confidence is low" in asked[0].user


async def test_a_dangerous_turn_without_a_plan_is_held_back_until_one_is_approved(fractal: Make) -> None:
    worker, _ = by_turns(
        [PUSH],
        [call("plan", approach="push it"), PUSH, call("done", answer="pushed")],
        [call("done")],
    )
    oversight, asked = replying(APPROVES)
    one = fractal(worker, oversight)
    result = await one.run("publish the branch main")
    assert (result.exit, result.output, len(asked)) == (Exit.ACCEPTED, "pushed", 1)
    assert asked[0].user.count("bash {") == 1
    steps = one.document(result.run).steps
    assert [steps[n].evidence.get("approved") for n in (1, 2)] == [None, 'oversight "large"']


# ---- who decides ------------------------------------------------------------------------------------------


async def test_a_call_that_was_approved_with_its_plan_is_not_asked_for_again(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    one = fractal(planning(PUSH), oversight)
    result = await one.run("publish the branch main")
    assert (result.exit, len(asked)) == (Exit.ACCEPTED, 1)
    step = one.document(result.run).steps[1]
    assert step.evidence["approved"] == 'oversight "large"'


async def test_an_approval_is_not_for_a_plan_that_was_changed_since(fractal: Make) -> None:
    oversight, _ = replying({"decision": "pass", "why": "decide"})
    one = fractal(planning(PUSH), oversight)
    run = (await one.run("publish the branch main")).run
    one.tell(run, "approve", by=TERMINAL)
    path = one.path(run)
    path.write_text(path.read_text().replace("origin main", "origin other"))
    result = await one.resume(run)
    assert (result.exit, result.waiting, result.question) == (Exit.WAITING, "approval", "the plan")


async def test_a_call_with_a_result_in_it_is_reviewed_when_it_is_known(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    push = bash('git push origin "$RESULT_1"')
    result = await fractal(planning(bash("printf main"), push), oversight).run("publish the branch")
    assert result.exit == Exit.ACCEPTED
    assert len(asked) == 1 and 'RESULT_1 = "main"' in asked[0].user


async def test_what_the_settings_leave_to_a_person_oversight_does_not_approve(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    one = fractal(planning(write("a.txt", "a\n")), oversight, approve=["write"])
    result = await one.run("write a.txt")
    assert (result.exit, asked) == (Exit.WAITING, [])
    with pytest.raises(UsageError, match="a person's approval of what may write"):
        one.tell(result.run, "approve", by=Decider("oversight", "large"))


async def test_after_three_plans_that_were_sent_back_a_human_decides(fractal: Make) -> None:
    oversight, asked = replying({"decision": "nudge", "why": "not so"})
    one = fractal(planning(PUSH), oversight)
    result = await one.run("publish the branch main")
    assert (result.exit, result.waiting) == (Exit.WAITING, "approval")
    assert len(asked) == MOST_SENT_BACK
    assert f"sent back {MOST_SENT_BACK} times" in text_of(one, result.run)


async def test_a_humans_veto_ends_the_run_and_is_a_decision(fractal: Make) -> None:
    oversight, _ = replying({"decision": "pass", "why": "may it be published?"})
    one = fractal(planning(PUSH), oversight)
    run = (await one.run("publish the branch main")).run
    one.tell(run, "veto", by=TERMINAL, why="never on a Friday")
    result = await one.resume(run)
    assert result.status == "cancelled"
    assert "cancelled by person at terminal: veto: never on a Friday" in text_of(one, run)
    (decision,) = one.decisions()
    assert [str(each) for each in decision.verdicts] == [
        'pass by oversight "large": may it be published?',
        "veto by person at terminal: never on a Friday",
    ]


async def test_a_nudge_of_a_step_is_guidance_for_what_comes_next(fractal: Make) -> None:
    prompts: list[str] = []

    def worker(ask: Ask) -> Any:
        prompts.append(prompt_text(ask))
        return {"calls": [write("b.txt", "a\n")]} if ask.document.planned else plan(write("a.txt", "a\n"))

    one = fractal(worker, approve=["write"])
    run = (await one.run("write it")).run
    with pytest.raises(UsageError, match="say what to do differently"):
        one.tell(run, "nudge", by=TERMINAL, why=" ")
    one.tell(run, "nudge", by=TERMINAL, why="call it b.txt")
    result = await one.resume(run)
    assert result.waiting == "approval" and "b.txt" in result.question
    assert "Guidance: call it b.txt" in prompts[-1]
    assert "sent back by person at terminal: call it b.txt" in text_of(one, run)


async def test_the_document_tells_who_decided_what_and_why(fractal: Make) -> None:
    oversight, _ = replying({"decision": "nudge", "why": "push dev, not main"}, APPROVES)

    def worker(ask: Ask) -> Any:
        return planning(PUSH if ask.attempt == 1 else bash("git push origin dev"))(ask)

    one = fractal(worker, oversight)
    text = text_of(one, (await one.run("publish what is new")).run)
    assert 'this plan was sent back by oversight "large": push dev, not main' in text
    assert '1. bash {"command": "git push origin main"} → planned' in text
    assert "### waits for approval · kernel\n\n> it is dangerous" in text
    assert '### approved · model:large\n\n> by oversight "large"' in text
    assert '"phase": "review", "rung": "large"' in text


# ---- one model, none, two ---------------------------------------------------------------------------------


async def test_one_model_is_worker_and_oversight_in_separate_calls_and_the_document_says_so(
    fractal: Make,
) -> None:
    asked: list[Ask] = []

    def both(ask: Ask) -> Any:
        asked.append(ask)
        return APPROVES if ask.phase == "review" else planning(PUSH)(ask)

    one = fractal(both, review="risky")
    result = await one.run("publish the branch main")
    assert result.exit == Exit.ACCEPTED
    assert [ask.phase for ask in asked] == ["turn", "review", "check"]
    assert asked[0].system != asked[1].system
    assert 'by oversight "small, also the worker"' in text_of(one, result.run)


async def test_without_a_model_oversight_is_skipped_and_the_human_asked(
    fractal: Make, tmp_path: Path
) -> None:
    one = Fractal(
        tmp_path / "work", settings={"sandbox": "off", "review": "risky"}, ladder=Ladder((Human(),))
    )
    result = await one.run("publish the branch main")
    assert (result.exit, result.waiting) == (Exit.WAITING, "person")
    assert one.decisions()[0].oversight is None


async def test_with_two_models_they_differ(fractal: Make) -> None:
    oversight, asked = replying(APPROVES)
    one = fractal(planning(PUSH), oversight)
    result = await one.run("publish the branch main")
    assert [ask.rung for ask in asked] == ["large"]
    assert 'by oversight "large"' in text_of(one, result.run)


async def test_the_calls_of_oversight_count_in_a_run_that_waits_and_are_told_as_they_happen(
    fractal: Make,
) -> None:
    oversight, _ = replying({"decision": "pass", "why": "ask the person"})
    one = fractal(planning(PUSH), oversight)
    events: list[Event] = []
    one.listener = events.append
    result = await one.run("publish the branch main")
    assert (result.exit, result.spent["calls"]) == (Exit.WAITING, 2)
    asked = [each for each in events if each.data.get("phase") == "review"]
    assert [(each.kind, each.data["rung"]) for each in asked] == [
        ("ask_started", "large"),
        ("ask_finished", "large"),
    ]
    assert asked[1].data["reused"] is False


async def test_a_small_model_is_no_oversight_so_a_human_decides(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(exist_ok=True)
    small = Scripted(lambda ask: APPROVES, name="small", tier="oversight")
    ladder = Ladder((Scripted(planning(PUSH), name="worker"), Micro(small, ()), Human()))
    one = Fractal(tmp_path / "work", settings={"sandbox": "off", "embedder": "lexical"}, ladder=ladder)
    result = await one.run("publish the branch main")
    assert (result.exit, result.waiting) == (Exit.WAITING, "approval")
    assert not small.asks


# ---- what is learned --------------------------------------------------------------------------------------


async def test_what_oversight_approved_ten_times_needs_no_review_until_something_goes_wrong(
    fractal: Make,
) -> None:
    oversight, asked = replying(APPROVES)
    one = fractal(planning(PUSH), oversight, learn="off")
    for number in range(UNCHANGED):
        assert (await one.run(f"publish the branch number {number}")).exit == Exit.ACCEPTED
    assert len(asked) == UNCHANGED
    result = await one.run("publish the branch once more")
    assert (result.exit, len(asked)) == (Exit.ACCEPTED, UNCHANGED)
    approved = "### approved · kernel\n\n> by policy approved 10 times by oversight"
    assert approved in text_of(one, result.run)
    (settled,) = one.nerves.log.settled()
    assert settled.call.startswith("bash: git push") and settled.holds
    with pytest.raises(UsageError, match="no calls in tasks of the type cooking"):
        one.nerves.log.review_again("cooking", TERMINAL)
    one.nerves.log.review_again(settled.task_type, TERMINAL)
    assert (await one.run("publish the branch again")).exit == Exit.ACCEPTED
    assert len(asked) == UNCHANGED + 1


async def test_serious_calls_are_never_settled(fractal: Make) -> None:
    one = fractal(planning(bash("cat .env")), replying(APPROVES)[0])
    result = await one.run("show the settings")
    assert (result.exit, result.waiting) == (Exit.WAITING, "approval")
    plan_, steps = one.decisions()
    assert (plan_.calls, steps.calls) == ((), ()) and steps.dangers[0].startswith("serious: ")
    assert (str(plan_.oversight), steps.oversight) == ('approve by oversight "large"', None)


async def test_three_nudges_that_agree_are_shown_to_later_plans_of_that_type(fractal: Make) -> None:
    oversight, _ = replying({"decision": "pass", "why": "decide"})
    prompts: list[str] = []

    def worker(ask: Ask) -> Any:
        prompts.append(prompt_text(ask))
        return planning(PUSH if ask.attempt == 1 else ECHO)(ask)

    one = fractal(worker, oversight, recall=True)
    for name, said in zip(
        "abc", ("Show the changes first.", "show the changes first", "First show the changes"), strict=True
    ):
        run = (await one.run(f"summarize {name}.txt and publish it")).run
        one.tell(run, "nudge", by=TERMINAL, why=said)
        assert (await one.resume(run)).exit == Exit.ACCEPTED
    prompts.clear()
    await one.run("summarize d.txt and publish it")
    assert "show the changes" in prompts[0].lower()
    (pattern,) = [each for each in one.memory.library.all() if each.origin == "guidance"]
    assert pattern.samples == 3
    refused = [each for each in one.brain.shelf.scan(StoredAttempt) if not each.last]
    assert {each.signal for each in refused} == {"user_rejected"}
    assert {act.tool for each in refused for act in each.acts} == {"bash"}, "what was planned, and not done"


async def test_a_question_that_a_human_answered_is_not_asked_again_in_other_words(fractal: Make) -> None:
    def worker(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if any(note.key == "answer" for note in ask.document.section(1).notes):
            return {"calls": [ECHO, {"tool": "done", "args": {"answer": "hello"}}]}
        asks = (
            "which currency are the prices in?"
            if "first" in ask.document.task
            else "in what money are the prices?"
        )
        return {**plan(), "steps": [], "success": [], "question": asks}

    def oversight(ask: Ask) -> Any:
        known = "Swiss francs" in ask.user
        return {"known": known, "answer": "Swiss francs" if known else "which currency it is"}

    one = fractal(worker, oversight)
    run = (await one.run("add up the first prices")).run
    one.tell(run, "answer", by=TERMINAL, text="Swiss francs")
    assert (await one.resume(run)).exit == Exit.ACCEPTED
    result = await one.run("add up the other prices")
    assert result.exit == Exit.ACCEPTED
    assert [str(each) for each in one.decisions()[1].verdicts] == [
        'answer by oversight "large": Swiss francs'
    ]


# ---- what waits -------------------------------------------------------------------------------------------


async def test_review_shows_what_a_plan_would_write_over_all_runs(fractal: Make, tmp_path: Path) -> None:
    (tmp_path / "work" / "a.txt").write_text("old\n")
    (tmp_path / "work" / ".env").write_text("KEY=1\n")
    steps = [
        write("a.txt", "new\n"),
        write("b.txt", "b\n"),
        write("../c.txt", "c\n"),
        write(".env", "KEY=2\n"),
    ]
    one = fractal(
        planning(*steps, confidence="low"), replying({"decision": "pass", "why": "is it wanted?"})[0]
    )
    first, second = [(await one.run(text)).run for text in ("write them", "write it again")]
    found = one.review()
    assert [each.run for each in found] == [second, first]
    assert (found[0].kind, found[0].why, found[0].confidence) == ("plan", "its confidence is low", "low")
    assert found[0].oversight == 'pass by oversight "large": is it wanted?'
    changes = {each.path: (each.kind, each.diff) for each in found[0].changes}
    assert changes["a.txt"] == ("changed", "@@ -1 +1 @@\n-old\n+new")
    assert changes["b.txt"][0] == "new"
    assert ".env" not in changes
    one.tell(first, "nudge", by=TERMINAL, why="only a.txt")
    assert [each.human for each in one.review()] == ["", "nudge by person at terminal: only a.txt"]
