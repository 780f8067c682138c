"""What holds of work that is done by turns: results, criteria, failures, repetition, questions, children."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from crashing import crashes
from lanes import NIGHT, every
from playing import ACCEPT, Play, Played, bash, by_turns, plan, player, read, write

from kernel.asking.conversation import Sources, conversation
from kernel.asking.messages import prompt_text, text_of
from kernel.asking.responder import Ask, estimate_tokens
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.errors import Exit
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted

HOLDS = {"file": "b.txt", "has": "two"}
WORK = {"tool": "work", "what": "write b.txt"}
CATALOGUE = Catalogue([shipped_system()])
AUTO = {"check": "auto"}
DONE = {"done": "b.txt holds two"}


def turn(*calls: Any) -> dict[str, Any]:
    return {"calls": list(calls)}


def working(*turns: Any, check: Any = ACCEPT, **planned: Any) -> Callable[[Ask], Any]:
    """A model that plans one step of work, takes its turns in order, and then answers CHECK."""
    left = list(turns)

    def answer(ask: Ask) -> Any:
        if ask.phase == "work":
            reply = left.pop(0)
            return reply(ask) if callable(reply) else reply
        return check if ask.phase == "check" else plan(WORK, **{"success": [HOLDS], **planned})

    return answer


def results(ask: Ask) -> dict[str, str]:
    """The results that a conversation shows, by the id of the call."""
    return {each["tool_call_id"]: each["content"] for each in ask.messages if each["role"] == "tool"}


def phases(played: Played) -> list[str]:
    return [event.data["phase"] for event in played.asks()]


def states(played: Played) -> list[str]:
    return [step.state for _, step in sorted(played.root.steps.items())]


# ---- results and criteria --------------------------------------------------------------------------------


def test_turns_see_results_and_no_check_is_asked_when_code_has_proved_the_work(play: Play) -> None:
    def second(ask: Ask) -> Any:
        assert results(ask)["call_2"] == "1\tone or two"
        return turn(write("b.txt", "two\n"))

    played = play(working(turn(write("a.txt", "one or two"), read("a.txt")), second, DONE), settings=AUTO)
    assert phases(played) == ["turn"] * 4
    assert (played.result.exit, played.result.output) == (Exit.ACCEPTED, "b.txt holds two")
    assert played.root.section(5).notes[0].origin == "model:scripted", "the words are the model's"
    assert not played.root.meta.unverified
    assert [step.tool for step in played.root.planned.values()] == ["write", "read", "write"]
    assert played.root.steps[2].needs == (1,), "a look waits for the change of its file before it"
    assert played.root.text(4, "decision") == "ACCEPT"


@pytest.mark.parametrize(
    ("success", "unverified"),
    [
        ([HOLDS], False),
        ([{"run": "grep -q two b.txt"}], False),
        ([{"file": "b.txt"}], True),  # whatever it says
    ],
)
def test_no_check_is_asked_if_code_can_decide(play: Play, success: list[Any], unverified: bool) -> None:
    turns = [turn(write("b.txt", "two\n")), *[DONE] * 2]
    played = play(working(*turns, success=success), settings=AUTO)
    assert "check" not in phases(played)
    assert (played.root.meta.status, played.root.meta.unverified) == ("complete", unverified)


@pytest.mark.parametrize(
    ("success", "unverified"),
    [
        ([HOLDS, {"judge": "it reads well"}], False),
        ([{"judge": "it reads well"}], True),  # nothing shows the change
    ],
)
def test_what_only_a_model_can_judge_is_asked(play: Play, success: list[Any], unverified: bool) -> None:
    turns = [turn(write("b.txt", "two\n")), *[DONE] * 2]
    played = play(working(*turns, success=success), settings=AUTO)
    assert phases(played)[-1] == "check"
    assert (played.root.meta.status, played.root.meta.unverified) == ("complete", unverified)


def test_a_plan_whose_steps_prove_it_needs_no_check_either(play: Play) -> None:
    answers = {"plan": plan(write("b.txt", "two\n"), read("b.txt"), success=[HOLDS])}
    played = play(lambda ask: answers[ask.phase], settings=AUTO)
    assert phases(played) == ["turn"]
    assert played.result.output == "two\n"
    assert not played.root.meta.unverified


def test_looks_before_the_step_of_work_are_its_first_turn(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "work":
            assert "there is no such file" in results(ask)["call_1"]
            return DONE if len(ask.document.steps) > 1 else turn(write("b.txt", "two"))
        return plan(read("start.txt"), WORK, success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert phases(played) == ["turn"] * 3
    assert states(played) == ["failed", "done"]
    assert played.root.meta.status == "complete"


def test_done_is_not_taken_while_a_criterion_does_not_hold(play: Play) -> None:
    def third(ask: Ask) -> Any:
        assert results(ask)["done_3"].startswith("held back: file does not hold: b.txt")
        return turn(write("b.txt", "two"))

    played = play(working(turn(write("a.txt", "a")), DONE, third, DONE), settings=AUTO)
    assert phases(played) == ["turn"] * 5
    assert played.result.exit == Exit.ACCEPTED


def test_an_answer_beside_calls_counts_if_they_succeed_and_the_criteria_hold(play: Play) -> None:
    both = {**turn(write("b.txt", "two\n")), **DONE}
    played = play(working(both), settings=AUTO)
    assert phases(played) == ["turn", "turn"]
    assert (played.result.exit, played.result.output) == (Exit.ACCEPTED, "b.txt holds two")
    assert not played.root.meta.unverified


@pytest.mark.parametrize(
    "calls",
    [
        [write("b.txt", "two"), read("missing.txt")],  # a call fails
        [write("c.txt", "two")],  # the criterion does not hold
    ],
)
def test_an_answer_beside_calls_does_not_count_otherwise(play: Play, calls: list[Any]) -> None:
    early = {**turn(*calls), "done": "too early"}
    played = play(working(early, turn(write("b.txt", "two\n")), DONE), settings=AUTO)
    assert phases(played) == ["turn"] * 4
    assert played.result.output == "b.txt holds two"


def test_a_plan_may_say_what_the_user_is_told_if_its_criteria_hold(play: Play) -> None:
    told = "b.txt holds {{ steps[2].result }}"
    planned = plan(write("b.txt", "two"), read("b.txt"), success=[HOLDS], done=told)
    played = play(lambda ask: {"plan": planned}[ask.phase], settings=AUTO)
    assert played.result.output == "b.txt holds two"


# ---- failures --------------------------------------------------------------------------------------------


def test_a_failed_call_is_a_result_of_its_turn(play: Play) -> None:
    def second(ask: Ask) -> Any:
        assert "there is no such file" in results(ask)["call_1"]
        return turn(write("b.txt", "two\n"))

    played = play(working(turn(read("missing.txt")), second, DONE), settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.meta.status == "complete", "a later turn saw the failure"


def test_calls_run_after_a_failed_one_but_none_inserts_a_result_that_is_not_there(play: Play) -> None:
    inserts = write("c.txt", "{{ steps[2].result }}")
    calls = [bash("echo no; exit 1"), read("a.txt"), write("b.txt", "two"), inserts]
    played = play(working(turn(write("a.txt", "a")), turn(*calls), DONE), settings=AUTO, yes=True)
    assert states(played) == ["done", "failed", "done", "done", "failed"]
    assert "step 2, which has no result" in (played.root.steps[5].result or "")
    assert played.result.exit == Exit.ACCEPTED


def test_faults_of_a_call_are_named_at_once_and_its_neighbours_run(play: Play) -> None:
    def second(ask: Ask) -> Any:
        shown = results(ask)
        assert "there is no tool 'reed'" in shown["call_1"]
        assert "has no argument file" in shown["call_2"]
        assert shown["call_3"].startswith("wrote b.txt")
        return DONE

    wrong = {"tool": "reed", "args": {}}, {"tool": "read", "args": {"file": "a"}}
    played = play(working(turn(*wrong, write("b.txt", "two")), second), settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED
    assert not [event for event in played.events if event.kind == "ask_refused"]


def surprised(ask: Ask) -> Any:
    """A plan whose criterion does not hold, and a turn that repairs it."""
    if ask.phase == "work":
        shown = prompt_text(ask)
        assert "After these steps this did not hold" in shown
        # the second is what a resumed run finds that died before it wrote the result
        assert "wrote b.txt" in shown or "done before the interruption" in shown, "results are shown"
        return {**turn(write("b.txt", "two\n")), **DONE}
    return ACCEPT if ask.phase == "check" else plan(write("b.txt", "one\n"), success=[HOLDS])


def test_a_plan_that_does_not_reach_its_criteria_goes_on_turn_by_turn(play: Play) -> None:
    played = play(surprised, settings=AUTO)
    assert phases(played) == ["turn", "turn"]
    assert (played.result.exit, played.result.output) == (Exit.ACCEPTED, "b.txt holds two")
    assert (played.root.meta.attempt, played.root.meta.unverified) == (1, False)


def test_a_plan_with_a_failed_step_goes_on_turn_by_turn(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "work":
            assert "there is no such file" in results(ask)["call_1"]
            return {**turn(write("b.txt", "two\n")), **DONE}
        return plan(read("missing.txt"), write("b.txt", "two"), success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert played.root.meta.status == "complete"
    assert states(played) == ["failed", "struck", "done"]


# ---- questions, and rungs --------------------------------------------------------------------------------


def test_a_described_step_may_ask_a_person(play: Play) -> None:
    steps = [{"tool": "write", "what": "write the word"}]

    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return plan(*steps, success=[HOLDS])
        word = prompt_text(ask).partition("Answer: ")[2].partition("\n")[0]
        return write("b.txt", word) if word else {"question": "which word?"}

    played = play(answer, settings=AUTO)
    assert played.root.meta.waiting == {"for": "person", "question": "which word?"}
    assert phases(played) == ["turn", "do"]
    again = play(lambda ask: None, resume=played.result.run)
    assert again.result.exit == Exit.WAITING, "it is not asked again"
    played.fractal.tell(played.result.run, "answer", text="two")
    assert play(answer, resume=played.result.run, settings=AUTO).result.exit == Exit.ACCEPTED


def test_a_question_waits_and_its_answer_reaches_the_next_turn(play: Play) -> None:
    played = play(working({"question": "which word?"}))
    assert (played.result.exit, played.root.meta.waiting) == (
        Exit.WAITING,
        {"for": "person", "question": "which word?"},
    )
    run = played.result.run
    assert play(working(), resume=run).result.exit == Exit.WAITING, "it waits until there is an answer"
    played.fractal.tell(run, "answer", text="two")

    def after(ask: Ask) -> Any:
        assert results(ask)["ask_2"] == "two"
        return turn(write("b.txt", "two"))

    assert play(working(after, DONE), resume=run).result.exit == Exit.ACCEPTED


def test_cannot_escalates_with_the_reason(play: Play) -> None:
    played = play(working({"cannot": "there is no printer"}))
    assert played.root.meta.status == "escalated"
    assert "there is no printer" in played.root.text(5, "escalation")


def test_a_higher_rung_goes_on_when_the_lower_one_cannot(play: Play) -> None:
    low = Scripted(lambda ask: {"cannot": "too hard"}, "low")
    left = [turn(write("b.txt", "two")), DONE, DONE]
    high = Scripted(lambda ask: left.pop(0), "high")
    played = play([low, high], settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED
    assert "too hard" in prompt_text(high.asks[0])


# ---- children --------------------------------------------------------------------------------------------


def test_a_child_of_work_is_proved_by_the_criteria_of_its_parent(play: Play) -> None:
    asked: list[tuple[int, str]] = []

    def answer(ask: Ask) -> Any:
        depth = ask.document.meta.depth
        asked.append((depth, ask.phase))
        if depth:
            return DONE if ask.document.steps else turn(write("b.txt", "two"))
        return ACCEPT if ask.phase == "check" else plan(WORK, read("b.txt"), success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert asked[0] == (0, "plan") and {depth for depth, _ in asked[1:]} == {1}
    assert "check" not in phases(played)
    child = played.documents[f"tool-work-{played.result.run}-1"]
    assert (child.meta.status, child.meta.unverified) == ("complete", True)
    assert played.root.steps[1].result == "b.txt holds two"
    assert not played.root.meta.unverified, "the parent's criterion proves it"


def test_a_turn_starts_a_guided_tool_by_subtask_and_shows_its_guidance_otherwise(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth:
            return {**turn(write("b.txt", "two")), **DONE} if not ask.document.steps else DONE
        if ask.phase == "work" and not ask.document.steps:
            return turn({"tool": "data", "args": {"what": "write b.txt"}})
        if ask.phase == "work" and len(ask.document.steps) == 1:
            assert results(ask)["call_1"].startswith("data is guidance")
            return turn({"tool": "subtask", "args": {"task": "write b.txt", "tool": "data"}})
        return DONE if ask.phase == "work" else plan(WORK, success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED
    assert [step.tool for step in played.root.steps.values()] == ["use", "data"]
    assert played.documents[played.root.steps[2].link.removesuffix(".md")].meta.type == "data"


# ---- interruptions ---------------------------------------------------------------------------------------


def test_a_killed_run_repeats_no_call_and_no_ask(play: Play) -> None:
    def dies(ask: Ask) -> Any:
        raise asyncio.CancelledError

    first = play(working(turn(write("a.txt", "a")), turn(write("c.txt", "c")), dies))
    assert first.root.meta.status == "interrupted"
    resumed = play(working(turn(write("b.txt", "two")), DONE), resume=first.result.run, settings=AUTO)
    assert phases(resumed) == ["turn", "turn"]
    assert resumed.result.exit == Exit.ACCEPTED
    assert list(resumed.root.steps) == [1, 2, 3]


def test_a_crash_at_any_write_of_a_plan_that_goes_on_repeats_no_call(tmp_path: Path) -> None:
    at, ended = -1, False
    while not ended:
        work = tmp_path / str(at) / "work"
        work.mkdir(parents=True)
        at += 9 * every(6)
        run = player(work, memory=NIGHT)
        ended = not crashes(lambda run=run: run(surprised, settings=AUTO), at, "after")
        runs = work / ".fractal" / "state" / "runs"
        if not list(runs.glob("*/system-*.md")):
            continue  # it had not started
        again = run(surprised, resume=next(runs.iterdir()).name, settings=AUTO)
        assert again.result.exit == Exit.ACCEPTED, at
        assert (work / "b.txt").read_text() == "two\n", at
        assert list(again.root.planned) == list(again.root.steps) == [1, 2], at
    assert at > 20


# ---- the conversation ------------------------------------------------------------------------------------


def opened(results: Sequence[str]) -> Document:
    """A document after one turn with one call for each result."""
    planned: dict[int, Step] = {}
    steps: dict[int, Step] = {}
    for n, text in enumerate(results, 1):
        planned[n] = Step(n, "planned", "read", {"path": f"{n}.txt"}, evidence={"turn": n})
        steps[n] = replace(planned[n], state="done", result=text, link=f"op-{n}.md")
    task = (Note("task", "find the word"), Note("resolved task", "find the word"))
    sections = {1: Section(notes=task), 2: Section(steps=planned), 3: Section(steps=steps)}
    return Document(Meta("system-x", "x", phase="do"), sections)


def shown(results: Sequence[str], window: int) -> tuple[str, int]:
    """The turns of a conversation as one text, and the tokens of all of it."""
    sources = Sources(
        CATALOGUE,
        estimate_tokens,
        whole=lambda step: step.result or "",
        shelved=lambda path: "",
        place=lambda path: path,
        window=window,
    )
    prompt = conversation(opened(results), sources)
    return "\n".join(map(text_of, prompt.messages[2:])), sum(size for _, size in prompt.parts)


def test_results_are_whole_while_they_fit_and_then_the_oldest_half_is_one_line_each() -> None:
    texts = [f"{n}: " + "word " * 200 for n in range(1, 31)]
    for end in range(1, 31):
        turns, tokens = shown(texts[:end], 8_192)
        assert texts[end - 1].strip() in turns, "the last result is always there"
        assert tokens <= 8_192 * 0.6
        assert all(f'read {{"path": "{n}.txt"}}' in turns for n in range(1, end + 1)), "no call is lost"
    assert "[done; 1,003 characters are no longer shown; call again to see them]" in shown(texts, 8_192)[0]


def test_a_conversation_begins_like_the_one_before_it_between_two_folds() -> None:
    texts = [f"{n}: " + "word " * 200 for n in range(1, 41)]
    turns = [shown(texts[:end], 16_384)[0] for end in range(1, 41)]
    same = [after.startswith(before) for before, after in pairwise(turns)]
    assert 0 < same.count(False) <= 6


# ---- repetition ------------------------------------------------------------------------------------------


def test_the_same_call_failing_three_times_ends_the_turns(play: Play) -> None:
    played = play(working(*[turn(read("missing.txt"))] * 9))
    assert phases(played).count("turn") == 1 + 3
    assert "the same call failed 3 times" in played.root.text(5, "escalation")


def test_the_same_look_three_times_ends_the_turns(play: Play) -> None:
    played = play(working(turn(write("a.txt", "a")), *[turn(read("a.txt"))] * 9))
    assert phases(played).count("turn") == 1 + 4
    assert "the same call came to the same 3 times" in played.root.text(5, "escalation")


def test_a_repeated_look_is_shown_as_the_same(play: Play) -> None:
    def third(ask: Ask) -> Any:
        assert results(ask)["call_2"] == "1\ta"
        assert results(ask)["call_3"] == "1\ta\n[the same as call_2]"
        return turn(write("b.txt", "two"))

    played = play(working(turn(write("a.txt", "a")), turn(read("a.txt")), turn(read("a.txt")), third, DONE))
    assert played.result.exit == Exit.ACCEPTED


def test_a_change_between_failures_lets_the_call_be_made_again(play: Play) -> None:
    turns = [each for n in range(3) for each in (turn(read("missing.txt")), turn(write("c.txt", f"{n}")))]
    played = play(working(*turns, turn(write("b.txt", "two")), DONE), settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED


def test_turns_are_limited(play: Play) -> None:
    turns = [turn(write(f"{n}.txt", "x")) for n in range(9)]
    played = play(working(*turns), settings={"turns": 4})
    assert phases(played).count("turn") == 4
    assert "4 turns were used" in played.root.text(5, "escalation")


def database(action: str, **args: Any) -> dict[str, Any]:
    return {"tool": "database", "args": {"action": action, **args}}


CONNECT = database("connect", path="shop.db", create=True)
TABLE = database("execute", sql="CREATE TABLE IF NOT EXISTS goods (name TEXT)")
QUERY = database("query", sql="SELECT name FROM goods")
PAID = "INSERT INTO goods VALUES ('tea')"
ROUNDS: dict[str, list[dict[str, Any]]] = {
    "a query of a connection": [QUERY],
    "connecting anew": [database("disconnect"), CONNECT, QUERY],
    "a refused action": [CONNECT],
    "a change that changes nothing": [TABLE],
    "a command that looks": [bash("cat a.txt")],
    "a command that fails and one that does not": [bash("cat a.txt"), read("missing.txt")],
    "the same text written": [write("c.txt", "c"), read("c.txt")],
    "a folder made again": [bash("mkdir -p new"), {"tool": "list", "args": {"path": "new"}}],
    "a value set to what it is": [
        {"tool": "json", "args": {"path": "a.json", "query": "n", "value": "1", "to": "a.json"}}
    ],
    "lines sorted again": [{"tool": "sort", "args": {"path": "a.txt", "to": "sorted.txt"}}],
    "a copy made again": [bash("cp a.txt copy.txt"), {"tool": "checksum", "args": {"path": "copy.txt"}}],
}


AT_NIGHT = ("a value set to what it is", "lines sorted again", "a copy made again")
"""Each is like a round of the day: the same written, or made, by another operation or command."""


@pytest.mark.parametrize(
    "round_", [pytest.param(each, marks=pytest.mark.night if each in AT_NIGHT else ()) for each in ROUNDS]
)
def test_a_round_of_calls_that_come_to_the_same_ends_the_turns(
    play: Play, tmp_path: Path, round_: str
) -> None:
    (tmp_path / "work" / "a.txt").write_text("a\n")
    (tmp_path / "work" / "a.json").write_text('{"n": 0}')
    calls = [turn(CONNECT, TABLE), *[turn(each) for each in ROUNDS[round_]] * 9]
    answers, prompts = working(*calls), list[str]()

    def answer(ask: Ask) -> Any:
        prompts.append(prompt_text(ask))
        return answers(ask)

    played = play(answer, settings={"turns": 40})
    why = played.root.text(5, "escalation")
    assert "the same call" in why, why
    assert phases(played).count("turn") <= 2 + 4 * len(ROUNDS[round_])
    assert "[the same as call_" in prompts[-1], "the model is told before it is stopped"


def test_a_stateful_call_that_changes_something_each_time_is_no_repetition(play: Play) -> None:
    payments = [turn(database("execute", sql=PAID)), turn(QUERY)] * 4
    turns = [turn(CONNECT), turn(TABLE), *payments, turn(write("b.txt", "two")), DONE]
    played = play(working(*turns), settings={**AUTO, "same_result": 5})
    assert played.result.exit == Exit.ACCEPTED


def test_the_limit_of_equal_results_is_a_setting(play: Play) -> None:
    turns = [turn(write("a.txt", "a")), *[turn(read("a.txt"))] * 9]
    played = play(working(*turns), settings={"same_result": 4})
    assert phases(played).count("turn") == 1 + 6


def test_an_earlier_attempt_does_not_count(play: Play) -> None:
    looks = [turn(read("a.txt"))] * 2
    again = {"validation": "fail", "issues": ["not yet"], "decision": "RETRY", "output": "", "learned": "x"}
    checks = iter([again, ACCEPT])
    two = turn(write("b.txt", "two"))
    answers = working(turn(write("a.txt", "a")), *looks, two, DONE, *looks, two, DONE)

    def answer(ask: Ask) -> Any:
        return next(checks) if ask.phase == "check" else answers(ask)

    played = play(answer, settings={"check": "always"})
    assert (played.result.exit, played.root.meta.attempt) == (Exit.ACCEPTED, 2)


# ---- a turn that is bound to a step ----------------------------------------------------------------------


def test_a_turn_for_a_step_in_words_declares_its_tool_and_sees_what_the_step_builds_on(play: Play) -> None:
    bound: list[Ask] = []

    def answer(ask: Ask) -> Any:
        if ask.part != "do":
            return plan(write("b.txt", "two"), {"tool": "read", "what": "look at it"}, success=[HOLDS])
        bound.append(ask)
        return turn({"tool": "read", "args": {"path": "b.txt"}})

    assert play(answer, settings=AUTO).result.exit == Exit.ACCEPTED
    (ask,) = bound
    assert (ask.bound, ask.step) == ("read", 2)
    assert [each["function"]["name"] for each in ask.tools] == ["read", "done", "ask", "cannot"]
    assert '"path": "b.txt"' in prompt_text(ask) and "## Step 2: read\n```\nlook at it\n```" in prompt_text(
        ask
    )


def test_low_confidence_beside_the_call_of_a_step_in_words_keeps_the_call(play: Play) -> None:
    def small(ask: Ask) -> Any:
        if ask.part == "do":
            return {**read("b.txt"), "confidence": "low"}
        return plan(write("b.txt", "two"), {"tool": "read", "what": "look"}, success=[HOLDS])

    def large(ask: Ask) -> Any:
        raise AssertionError("nothing is uncertain about the plan")

    models = [by_turns(small), by_turns(large)]
    models[0].name, models[1].name = "small", "large"
    played = play(models, settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.meta.taker == "small"


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        ("I would read it.", "failed"),
        ({"done": {"answer": "it is read"}}, "failed"),
        ({"calls": [read("b.txt"), read("b.txt")]}, "failed"),
        ({"calls": [{"tool": "bash", "args": {"command": "cat b.txt"}}]}, "failed"),
        ({"done": {"why": "nothing is left to read"}}, "skipped"),
        ({"skip": "nothing is left to read"}, "skipped"),
        ({"blocked": "there is no such file"}, "failed"),
        (read("b.txt"), "done"),
    ],
)
def test_only_a_call_of_its_tool_or_a_reason_ends_a_step_in_words(play: Play, reply: Any, state: str) -> None:
    steps = [write("b.txt", "two"), {"tool": "read", "what": "look at it"}]

    def answer(ask: Ask) -> Any:
        return reply if ask.part == "do" else plan(*steps) if ask.phase == "plan" else ACCEPT

    assert play(answer).root.steps[2].state == state
