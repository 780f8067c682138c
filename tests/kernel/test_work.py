"""Open DO: steps decided one turn at a time."""

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
from playing import ACCEPT, Play, Played, bash, plan, player, put, read, write

from kernel.asking.prompt import assemble
from kernel.asking.responder import Ask
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.errors import Exit
from kernel.loop.budget import estimate_tokens
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted

HOLDS = {"file": "b.txt", "has": "two"}
WORK = {"tool": "work", "what": "write b.txt"}
CATALOGUE = Catalogue([shipped_system()])


def turn(*calls: Any) -> dict[str, Any]:
    return {"calls": list(calls)}


def working(*turns: Any, check: Any = ACCEPT, **planned: Any) -> Callable[[Ask], Any]:
    """A model that plans one step of work, answers its turns in order, and then CHECK."""
    left = list(turns)

    def answer(ask: Ask) -> Any:
        if ask.phase == "work":
            reply = left.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply(ask) if callable(reply) else reply
        return check if ask.phase == "check" else plan(WORK, **{"success": [HOLDS], **planned})

    return answer


def phases(played: Played) -> list[str]:
    return [event.data["phase"] for event in played.asks()]


AUTO = {"check": "auto"}
DONE = {"done": "b.txt holds two"}


def test_turns_see_results_and_no_check_is_asked_when_code_has_proved_the_work(play: Play) -> None:
    def second(ask: Ask) -> Any:
        assert "one or two" in ask.user
        return turn(write("b.txt", "two\n"))

    played = play(working(turn(write("a.txt", "one or two"), read("a.txt")), second, DONE), settings=AUTO)
    assert phases(played) == ["fused", "work", "work", "work"]
    assert (played.result.exit, played.result.output) == (Exit.ACCEPTED, "b.txt holds two")
    assert played.root.section(5).notes[0].origin == "model:scripted", "the words are the model's"
    assert not played.root.meta.unverified
    assert [step.tool for step in played.root.planned.values()] == ["write", "read", "write"]
    assert played.root.steps[2].needs == (1,), "a look waits for the change of its file before it"
    assert played.root.text(4, "decision") == "ACCEPT"


@pytest.mark.parametrize(
    ("success", "asked"),
    [
        ([HOLDS], False),
        ([{"run": "grep -q two b.txt"}], False),
        ([HOLDS, {"judge": "it reads well"}], True),
        ([{"file": "b.txt"}], True),  # that it exists does not say what is in it
        ([HOLDS, {"file": "nothing.txt"}], True),  # does not hold
    ],
)
def test_check_is_asked_unless_code_decides_everything(play: Play, success: list[Any], asked: bool) -> None:
    turns = [turn(write("b.txt", "two\n")), *[DONE] * 3]
    verdict = {"validation": "fail", "issues": ["no"], "decision": "ESCALATE", "output": ""}
    played = play(working(*turns, success=success, check=verdict), settings=AUTO)
    assert ("check" in phases(played)) is asked


def test_a_plan_whose_steps_prove_it_needs_no_check_either(play: Play) -> None:
    answers = {"fused": plan(write("b.txt", "two\n"), read("b.txt"), success=[HOLDS])}
    played = play(lambda ask: answers[ask.phase], settings=AUTO)
    assert phases(played) == ["fused"]
    assert played.result.output == "two\n"
    assert not played.root.meta.unverified


def test_looks_before_the_step_of_work_are_its_first_turn(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "work":
            assert "there is no such file" in ask.user
            return DONE if len(ask.document.steps) > 1 else turn(write("b.txt", "two"))
        return plan(read("start.txt"), WORK, success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert phases(played) == ["fused", "work", "work"]
    assert [step.state for step in played.root.steps.values()] == ["failed", "done"]
    assert played.root.meta.status == "complete"


def test_a_failed_call_is_a_result_of_its_turn(play: Play) -> None:
    def second(ask: Ask) -> Any:
        assert "there is no such file" in ask.user
        return turn(write("b.txt", "two\n"))

    played = play(working(turn(read("missing.txt")), second, DONE), settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.meta.status == "complete", "a later turn saw the failure"


def test_a_look_runs_after_a_failed_command_of_its_turn_and_a_change_does_not(play: Play) -> None:
    calls = [bash("echo no; exit 1"), read("a.txt"), write("b.txt", "two")]
    turns = [turn(write("a.txt", "a")), turn(*calls), turn(write("b.txt", "two")), DONE]
    played = play(working(*turns), settings=AUTO, yes=True)
    states = [step.state for _, step in sorted(played.root.steps.items())]
    assert states == ["done", "failed", "done", "struck", "done"]
    assert played.result.exit == Exit.ACCEPTED


def test_a_failed_change_does_not_stop_changes_of_other_files(play: Play) -> None:
    wrong = {"tool": "edit", "args": {"path": "a.txt", "old": "no such text", "new": "x"}}
    calls = [wrong, write("a.txt", "x"), write("b.txt", "two")]
    played = play(working(turn(write("a.txt", "a")), turn(*calls), turn(read("b.txt")), DONE), settings=AUTO)
    assert [step.state for step in played.root.steps.values()] == ["done", "failed", "struck", "done", "done"]
    assert played.root.meta.status == "complete"


def test_a_failure_of_the_last_turn_is_told_beside_proven_work(play: Play) -> None:
    played = play(working(turn(write("b.txt", "two\n")), turn(read("missing.txt")), DONE), settings=AUTO)
    assert phases(played)[-1] == "check"
    assert played.root.meta.status == "complete"
    assert "failed: " in played.root.text(5, "failed steps")


def test_the_same_call_failing_three_times_ends_the_turns(play: Play) -> None:
    verdict = {"validation": "fail", "issues": ["stuck"], "decision": "ESCALATE", "output": ""}
    played = play(working(*[turn(read("missing.txt"))] * 9, check=verdict))
    assert phases(played).count("work") == 3
    assert "the same call failed 3 times" in played.root.text(3, "stopped")


def test_the_same_look_three_times_ends_the_turns(play: Play) -> None:
    verdict = {"validation": "fail", "issues": ["stuck"], "decision": "ESCALATE", "output": ""}
    played = play(working(turn(write("a.txt", "a")), *[turn(read("a.txt"))] * 9, check=verdict))
    assert phases(played).count("work") == 4
    assert "the same call came to the same 3 times" in played.root.text(3, "stopped")


def test_a_repeated_look_is_shown_as_the_same(play: Play) -> None:
    def third(ask: Ask) -> Any:
        assert '- 2. read {"path": "a.txt"} → done\n' in ask.user
        assert '- 3. read {"path": "a.txt"} → done, the same as step 2\n' in ask.user
        return turn(write("b.txt", "two"))

    played = play(working(turn(write("a.txt", "a")), turn(read("a.txt")), turn(read("a.txt")), third, DONE))
    assert played.result.exit == Exit.ACCEPTED


def test_a_change_between_failures_lets_the_call_be_made_again(play: Play) -> None:
    turns = [each for n in range(3) for each in (turn(read("missing.txt")), turn(write("c.txt", f"{n}")))]
    played = play(working(*turns, turn(write("b.txt", "two")), DONE), settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED


def test_turns_are_limited(play: Play) -> None:
    verdict = {"validation": "fail", "issues": ["no end"], "decision": "ESCALATE", "output": ""}
    turns = [turn(write(f"{n}.txt", "x")) for n in range(9)]
    played = play(working(*turns, check=verdict), settings={"turns": 4})
    assert phases(played).count("work") == 4
    assert "4 turns were used" in played.root.text(3, "stopped")


def test_done_is_not_taken_while_a_criterion_does_not_hold(play: Play) -> None:
    def third(ask: Ask) -> Any:
        assert "this did not hold" in ask.user
        assert "b.txt" in ask.user
        return turn(write("b.txt", "two"))

    played = play(working(turn(write("a.txt", "a")), DONE, third, DONE), settings=AUTO)
    assert phases(played) == ["fused", "work", "work", "work", "work"]
    assert played.result.exit == Exit.ACCEPTED


def test_an_answer_beside_calls_counts_if_they_succeed_and_the_criteria_hold(play: Play) -> None:
    both = {**turn(write("b.txt", "two\n")), **DONE}
    played = play(working(both), settings=AUTO)
    assert phases(played) == ["fused", "work"]
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
    assert phases(played) == ["fused", "work", "work", "work"]
    assert played.result.output == "b.txt holds two"


def test_a_plan_may_say_what_the_user_is_told_if_its_criteria_hold(play: Play) -> None:
    told = "b.txt holds {{ steps[2].result }}"
    planned = plan(write("b.txt", "two"), read("b.txt"), success=[HOLDS], done=told)
    played = play(lambda ask: {"fused": planned}[ask.phase], settings=AUTO)
    assert played.result.output == "b.txt holds two"


def test_a_described_step_may_ask_a_person(play: Play) -> None:
    steps = [{"tool": "write", "what": "write the word"}]

    def answer(ask: Ask) -> Any:
        if ask.phase == "fused":
            return plan(*steps, success=[HOLDS])
        word = ask.user.partition("Answer: ")[2].partition("\n")[0]
        return write("b.txt", word) if word else {"question": "which word?"}

    played = play(answer, settings=AUTO)
    assert played.root.meta.waiting == {"for": "person", "question": "which word?"}
    asked = len(played.asks())
    assert play(lambda ask: None, resume=played.result.run).result.exit == Exit.WAITING, (
        "it is not asked again"
    )
    played.fractal.tell(played.result.run, "answer", text="two")
    again = play(answer, resume=played.result.run, settings=AUTO)
    assert again.result.exit == Exit.ACCEPTED
    assert asked == 2


def test_small_files_that_the_task_names_are_shown_until_they_change(play: Play, tmp_path: Path) -> None:
    put(tmp_path / "work", "a.txt", "the first line\n")
    put(tmp_path / "work", "large.txt", "x" * 3_000)

    def first(ask: Ask) -> Any:
        assert "Context from named file a.txt\n```\nthe first line" in ask.user
        assert "xxxx" not in ask.user
        return turn(write("a.txt", "two"))

    def second(ask: Ask) -> Any:
        assert "the first line" not in ask.user
        return turn(write("b.txt", "two"))

    played = play(working(first, second, DONE), "change a.txt and large.txt", settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED


def test_files_that_an_operation_counts_are_no_changes(play: Play, tmp_path: Path) -> None:
    put(tmp_path / "work", "a.txt", "the first line\n")

    def second(ask: Ask) -> Any:
        assert "the first line" in ask.user
        return {**turn(write("b.txt", "two")), **DONE}

    count = {"tool": "count", "args": {"what": "lines", "path": "a.txt"}}
    played = play(working(turn(count), second), "count a.txt", settings=AUTO)
    assert played.root.steps[1].evidence["files"] == 1
    assert played.result.exit == Exit.ACCEPTED


def surprised(ask: Ask) -> Any:
    """A plan whose criterion does not hold, and a turn that repairs it."""
    if ask.phase == "work":
        assert "After the steps above, this did not hold" in ask.user
        # the second is what a resumed run finds that died before it wrote the result
        assert "wrote b.txt" in ask.user or "done before the interruption" in ask.user, "results are shown"
        return {**turn(write("b.txt", "two\n")), **DONE}
    return ACCEPT if ask.phase == "check" else plan(write("b.txt", "one\n"), success=[HOLDS])


def test_a_plan_that_does_not_reach_its_criteria_goes_on_turn_by_turn(play: Play) -> None:
    played = play(surprised, settings=AUTO)
    assert phases(played) == ["fused", "work"]
    assert (played.result.exit, played.result.output) == (Exit.ACCEPTED, "b.txt holds two")
    assert (played.root.meta.attempt, played.root.meta.unverified) == (1, False)


def test_a_plan_with_a_failed_step_goes_on_turn_by_turn(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "work":
            assert "there is no such file" in ask.user
            return {**turn(write("b.txt", "two\n")), **DONE}
        return plan(read("missing.txt"), write("b.txt", "two"), success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert played.root.meta.status == "complete"
    assert [step.state for step in played.root.steps.values()] == ["failed", "struck", "done"]


def test_a_crash_at_any_write_of_a_plan_that_goes_on_repeats_no_call(tmp_path: Path) -> None:
    survives(tmp_path, surprised, "two\n", [1, 2])


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
        assert "Answer: two" in ask.user
        return turn(write("b.txt", "two"))

    assert play(working(after, DONE), resume=run).result.exit == Exit.ACCEPTED


def test_cannot_escalates_with_the_reason(play: Play) -> None:
    played = play(working({"cannot": "there is no printer"}))
    assert played.root.meta.status == "escalated"
    assert "there is no printer" in played.root.text(5, "escalation")


def test_a_higher_rung_goes_on_when_the_lower_one_cannot(play: Play) -> None:
    low = Scripted(working({"cannot": "too hard"}), "low")
    high = Scripted(working(turn(write("b.txt", "two")), DONE), "high")
    played = play([low, high], settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED
    assert "too hard" in high.asks[0].user


def test_a_wrong_call_is_repaired_with_an_example(play: Play) -> None:
    def repaired(ask: Ask) -> Any:
        assert "there is no tool 'reed'" in ask.user
        assert "read(path, lines?) has no argument file" in ask.user, "all faults are named at once"
        assert '"path": "sum.py"' in ask.user, "an example of the form"
        return turn(write("b.txt", "two"))

    wrong = turn({"tool": "reed", "args": {}}, {"tool": "read", "args": {"file": "a"}})
    played = play(working(wrong, repaired, DONE), settings=AUTO)
    assert played.result.exit == Exit.ACCEPTED


def test_a_child_of_work_has_no_plan_and_no_check_of_its_own(play: Play) -> None:
    asked: list[tuple[int, str]] = []

    def answer(ask: Ask) -> Any:
        depth = ask.document.meta.depth
        asked.append((depth, ask.phase))
        if depth:
            return DONE if ask.document.steps else turn(write("b.txt", "two"))
        return ACCEPT if ask.phase == "check" else plan(WORK, read("b.txt"), success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert asked == [(0, "fused"), (1, "work"), (1, "work")]
    child = played.documents[f"tool-work-{played.result.run}-1"]
    assert (child.meta.status, child.meta.unverified) == ("complete", True)
    assert played.root.steps[1].result == "b.txt holds two"
    assert not played.root.meta.unverified, "the parent's criterion proves it"


def test_a_killed_run_repeats_no_call_and_no_ask(play: Play) -> None:
    def dies(ask: Ask) -> Any:
        raise asyncio.CancelledError

    first = play(working(turn(write("a.txt", "a")), turn(write("c.txt", "c")), dies))
    assert first.root.meta.status == "interrupted"
    resumed = play(working(turn(write("b.txt", "two")), DONE), resume=first.result.run, settings=AUTO)
    assert phases(resumed) == ["work", "work"]
    assert resumed.result.exit == Exit.ACCEPTED
    assert list(resumed.root.steps) == [1, 2, 3]


def appended(ask: Ask) -> Any:
    """Two lines in two turns; which comes next is seen from the document."""
    if ask.phase != "work":
        return ACCEPT if ask.phase == "check" else plan(WORK, success=[HOLDS])
    lines = ("one\n", "two\n")
    if len(ask.document.steps) == len(lines):
        return DONE
    call = write("b.txt", lines[len(ask.document.steps)])
    return turn({**call, "args": {**call["args"], "append": True}})


def test_a_crash_at_any_write_repeats_no_call(tmp_path: Path) -> None:
    survives(tmp_path, appended, "one\ntwo\n", [1, 2])


def survives(tmp_path: Path, answer: Callable[[Ask], Any], text: str, steps: list[int]) -> None:
    """Crash a run at some of its writes, resume it, and compare its result."""
    at, ended = -1, False
    while not ended:
        work = tmp_path / str(at) / "work"
        work.mkdir(parents=True)
        at += 9 * every(6)
        ended = not crashes(lambda work=work: player(work, memory=NIGHT)(answer, settings=AUTO), at, "after")
        runs = work / ".fractal" / "state" / "runs"
        if not list(runs.glob("*/system-*.md")):
            continue  # it had not started
        again = player(work, memory=NIGHT)(answer, resume=next(runs.iterdir()).name, settings=AUTO)
        assert again.result.exit == Exit.ACCEPTED, at
        assert (work / "b.txt").read_text() == text, at
        assert list(again.root.planned) == list(again.root.steps) == steps, at
    assert at > 20


def test_a_turn_may_call_a_guided_tool(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth:
            return plan(write("b.txt", "two")) if ask.phase in ("fused", "plan") else _child(ask)
        if ask.phase == "work":
            return DONE if ask.document.steps else turn({"tool": "data", "args": {"what": "write b.txt"}})
        return ACCEPT if ask.phase == "check" else plan(WORK, success=[HOLDS])

    def _child(ask: Ask) -> Any:
        return ACCEPT if ask.phase == "check" else {"task": "write b.txt", "context": [], "open": []}

    played = play(answer)
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.steps[1].tool == "data"


# ---- the prompt of a turn --------------------------------------------------------------------------------


def opened(results: Sequence[str], context: int = 600) -> Document:
    """A document in an open DO after one call for each result."""
    planned: dict[int, Step] = {}
    steps: dict[int, Step] = {}
    for n, text in enumerate(results, 1):
        planned[n] = Step(n, "planned", "read", {"path": f"{n}.txt"}, evidence={"turn": n})
        steps[n] = replace(planned[n], state="done", result=text, link=f"op-{n}.md")
    task = (Note("task", "find the word"), Note("resolved task", "find the word"))
    goal = (Note("work", "find the word"), Note("success criteria", '{"judge": "found"}'))
    sections = {1: Section(notes=task), 2: Section(notes=goal, steps=planned), 3: Section(steps=steps)}
    return Document(Meta("system-x", "x", phase="do", budget={"context": context}), sections)


def shown(results: Sequence[str], context: int = 600) -> str:
    return assemble(opened(results, context), "work", CATALOGUE, estimate_tokens).user


def test_results_are_whole_while_they_fit_and_then_the_oldest_half_is_one_line_each() -> None:
    texts = [f"{n}: " + "word " * 60 for n in range(1, 13)]
    for end in range(1, 13):
        prompt = shown(texts[:end])
        assert texts[end - 1].strip() in prompt, "the last result is always there"
        assert estimate_tokens(prompt) <= 600
        assert all(f'{{"path": "{n}.txt"}} → done' in prompt for n in range(1, end + 1)), "no call is lost"
    assert '1.txt"} → done, 303 characters; whole in op-1.md' in shown(texts)


def test_a_prompt_begins_like_the_one_before_it_between_two_cuts() -> None:
    texts = [f"{n}: " + "word " * 60 for n in range(1, 41)]
    prompts = [shown(texts[:end], 2000) for end in range(1, 41)]
    same = [after.startswith(before) for before, after in pairwise(prompts)]
    assert same.count(False) <= 6


def test_native_calls_replace_the_form_and_the_index() -> None:
    prompt = assemble(opened(["x"]), "work", CATALOGUE, estimate_tokens, native_calls=True)
    names = [tool["function"]["name"] for tool in prompt.tools]
    assert {"read", "write", "edit", "bash", "done", "question", "cannot"} <= set(names)
    assert "work" not in names
    assert "Tools:" not in prompt.system
    assert "JSON" not in prompt.system
    assert prompt.instruction_tokens <= 460


def test_an_open_do_can_be_read_back(play: Play) -> None:
    played = play(working(turn(write("b.txt", "two")), DONE), settings=AUTO)
    path = played.folder / f"{played.result.id}.md"
    text = path.read_text()
    assert "### work" in text
    assert "b.txt holds two" in text


# ---- repetition ------------------------------------------------------------------------------------------

GIVEN_UP = {"validation": "fail", "issues": ["stuck"], "decision": "ESCALATE", "output": ""}


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
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "a.txt").write_text("a\n")
    (tmp_path / "work" / "a.json").write_text('{"n": 0}')
    calls = [turn(CONNECT, TABLE), *[turn(each) for each in ROUNDS[round_]] * 9]
    answers, prompts = working(*calls, check=GIVEN_UP), list[str]()

    def answer(ask: Ask) -> Any:
        prompts.extend([ask.user] if ask.phase == "work" else [])
        return answers(ask)

    played = play(answer, settings={"turns": 40})
    assert "the same call" in played.root.text(3, "stopped"), played.root.text(3, "stopped")
    assert phases(played).count("work") <= 1 + 4 * len(ROUNDS[round_])
    assert "the same as step" in prompts[-1], "the model is told before it is stopped"


def test_a_stateful_call_that_changes_something_each_time_is_no_repetition(play: Play) -> None:
    payments = [turn(database("execute", sql=PAID)), turn(QUERY)] * 4
    turns = [turn(CONNECT), turn(TABLE), *payments, turn(write("b.txt", "two")), DONE]
    played = play(working(*turns), settings={**AUTO, "same_result": 5})
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.text(3, "stopped") == ""


def test_the_limit_of_equal_results_is_a_setting(play: Play) -> None:
    turns = [turn(write("a.txt", "a")), *[turn(read("a.txt"))] * 9]
    played = play(working(*turns, check=GIVEN_UP), settings={"same_result": 4})
    assert phases(played).count("work") == 6


def test_an_earlier_attempt_does_not_count(play: Play) -> None:
    looks = [turn(read("a.txt"))] * 2
    again = {"validation": "fail", "issues": ["not yet"], "decision": "RETRY", "output": "", "learned": "x"}
    checks = iter([again, ACCEPT])
    answers = working(turn(write("a.txt", "a")), *looks, DONE, *looks, turn(write("b.txt", "two")), DONE)

    def answer(ask: Ask) -> Any:
        return next(checks) if ask.phase == "check" else answers(ask)

    played = play(answer, settings={"check": "always"})
    assert played.root.text(3, "stopped") == ""
