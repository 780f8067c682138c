"""DO by turns: a capable model decides from the results so far, in one growing conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import Played, boxed, player, put

from kernel.asking.conversation import result_limit
from kernel.asking.responder import Ask
from kernel.document.markdown import render
from kernel.document.parser import parse
from runtime.models.scripted import Scripted

Turns = Callable[..., tuple[Played, Scripted]]
ADDS = "python3 -c 'import sums; assert sums.add(2, 3) == 5'"
BOXED = {"check": "auto", "sandbox": "auto"}


def call(tool: str, /, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def done(answer: str = "", **more: Any) -> dict[str, Any]:
    return call("done", **({"answer": answer} if answer else {}), **more)


FIX = call("edit", path="sums.py", old="a - b", new="a + b")


@pytest.fixture
def turns(tmp_path: Path) -> Turns:
    """Plays a task with a model that takes these turns, one after the other."""
    put(tmp_path, "sums.py", "def add(a, b):\n    return a - b\n")
    play = player(tmp_path, memory=False)

    def run(*replies: Any, task: str = "add in sums.py subtracts; fix it", **options: Any) -> Any:
        left = list(replies)

        def answer(ask: Ask) -> Any:
            reply = left.pop(0)
            return {"calls": reply} if isinstance(reply, list) else reply

        model = options.pop("model", None) or Scripted(answer)
        options.setdefault("settings", {"check": "auto"})
        return play([model], task, **options), model

    return run


def results(ask: Ask) -> dict[str, str]:
    """The results that a conversation shows, by the id of the call."""
    return {each["tool_call_id"]: each["content"] for each in ask.messages if each["role"] == "tool"}


def asked(ask: Ask) -> list[str]:
    """The names of the calls that a conversation shows."""
    calls = [each for message in ask.messages for each in message.get("tool_calls", ())]
    return [each["function"]["name"] for each in calls]


@boxed
def test_a_change_with_a_check_is_complete_in_one_call(turns: Turns):
    played, model = turns([FIX, done("It adds now.", checks=[ADDS])], settings=BOXED)

    assert (played.result.status, played.result.output) == ("complete", "It adds now.")
    assert len(model.asks) == 1
    assert "(before: FAIL)" in played.root.text(4, "evidence")


@boxed
def test_a_check_that_passes_before_is_told_once_and_then_unverified(turns: Turns):
    played, model = turns([FIX, done("It adds now.", checks=["true"])], [done()], settings=BOXED)

    assert "it passes at the start, too" in results(model.asks[1])["done_1"]
    assert (played.result.status, played.result.output) == ("unverified", "It adds now.")


@boxed
def test_a_check_that_fails_holds_the_answer_back(turns: Turns):
    wrong = call("edit", path="sums.py", old="a - b", new="a * b")
    right = call("edit", path="sums.py", old="a * b", new="a + b")
    played, model = turns([wrong, done("It adds now.", checks=[ADDS])], [right, done()], settings=BOXED)

    held = results(model.asks[1])["done_1"]
    assert held.startswith("held back: check failed") and "AssertionError" in held
    assert (played.result.status, played.result.output) == ("complete", "It adds now.")


def test_a_failed_call_holds_the_answer_back_and_later_calls_still_run(turns: Turns):
    bad = call("edit", path="sums.py", old="nowhere", new="x")
    played, model = turns(
        [bad, call("read", path="sums.py"), done("fixed")], [done("I could not fix it")], [done()]
    )

    shown = results(model.asks[1])
    assert "old does not occur" in shown["call_1"]
    assert shown["call_2"] == "1\tdef add(a, b):\n2\t    return a - b"
    assert shown["done_1"].startswith("held back: a call of this turn failed")
    assert played.result.status != "complete"


def test_faults_of_calls_are_results(turns: Turns):
    faulty = [call("nope", x=1), {"tool": "bash", "bad": "{broken"}, call("read"), call("subtask", task="")]
    _played, model = turns(faulty, [done("nothing")], [done()])

    shown = results(model.asks[1])
    assert "there is no tool 'nope'" in shown["call_1"]
    assert "cannot be made as written" in shown["call_2"]
    assert "needs path" in shown["call_3"]
    assert "task is missing" in shown["call_4"]


def test_too_many_calls_and_checks_are_told(turns: Turns):
    _, model = turns(
        [call("bash", command=f"echo {n}") for n in range(40)],
        [done("x", checks=["true"] * 21)],
        [done("x")],
        [done()],
    )

    shown = results(model.asks[1])
    assert len(shown) == 33 and "this one and 7 more were not" in shown["call_33"]
    assert "at most 20 items" in results(model.asks[2])["call_34"]


def test_a_conversation_only_grows(turns: Turns):
    look = call("bash", command="cat sums.py")
    _, model = turns([look], [look, call("use", tool="calc")], [FIX], [done("fixed")], [done()])

    for before, after in zip(model.asks, model.asks[1:], strict=False):
        assert json.dumps(after.messages)[:-1].startswith(json.dumps(before.messages)[:-1])
        assert after.tools == before.tools


def test_every_call_has_its_result_right_after_it(turns: Turns):
    _, model = turns([call("read", path="sums.py"), call("nope")], [FIX, done("fixed")], [done()])

    messages = list(model.asks[-1].messages)
    for at, message in enumerate(messages):
        wanted = [each["id"] for each in message.get("tool_calls", ())]
        got = [each.get("tool_call_id") for each in messages[at + 1 : at + 1 + len(wanted)]]
        assert got == wanted


def test_use_without_arguments_shows_schema_and_guidance(turns: Turns):
    _, model = turns([call("use", tool="calc"), call("use", tool="code")], [done("seen")], [done()])

    shown = results(model.asks[1])
    assert "required: expression" in shown["call_1"]
    assert "code is guidance" in shown["call_2"]
    assert "- patch(diff?, path?): " in shown["call_2"]  # it names the tool, and no turn declares it
    assert "- read(" not in shown["call_2"]


def test_use_calls_a_tool_that_is_not_declared(turns: Turns):
    _, model = turns(
        [call("use", tool="calc", args={"expression": "2 + 3"})], [done("5")], task="what is 2 + 3?"
    )

    assert results(model.asks[1])["call_1"] == "5"
    assert "calc" not in {each["function"]["name"] for each in model.asks[0].tools}


def test_an_answer_that_stands_in_a_result_is_complete_without_a_check(turns: Turns):
    put_look = call("bash", command="grep -c def sums.py")
    played, model = turns([put_look], [done("1")], task="how many functions has sums.py?")

    assert (played.result.status, len(model.asks)) == ("complete", 2)


def test_text_without_a_call_is_the_answer(turns: Turns):
    played, _ = turns({"calls": [], "text": "Paris"}, task="what is the capital of France?")

    assert (played.result.status, played.result.output) == ("unverified", "Paris")


def test_a_question_waits_and_its_answer_is_its_result(turns: Turns, tmp_path: Path):
    played, _model = turns([call("ask", question="Which sign?")])
    assert played.result.status == "waiting"
    played.fractal.tell(played.result.run, "answer", text="plus")

    replies = iter([{"calls": [FIX, done("plus it is")]}, {"calls": [done()]}])
    again = Scripted(lambda ask: next(replies))
    turns(model=again, resume=played.result.run)

    assert results(again.asks[0])["ask_1"] == "plus"


def test_a_question_that_is_asked_again_waits_again(turns: Turns):
    asks = [call("ask", question="Which sign?")]
    played, _ = turns(asks)
    played.fractal.tell(played.result.run, "answer", text="plus")
    again, model = turns(asks, resume=played.result.run)

    assert (again.result.waiting, len(model.asks)) == ("person", 1)


def test_what_a_person_says_meanwhile_follows_the_turn(turns: Turns, tmp_path: Path):
    heard: list[str] = []

    def answer(ask: Ask) -> Any:
        heard.append(ask.messages[-1]["content"])
        if len(heard) == 1:
            fractal.tell(ask.run, "say", text="use plus")
            return {"calls": [call("read", path="sums.py")]}
        return {"calls": [done("ok")]}

    from runtime.api.fractal import Fractal

    fractal = Fractal(tmp_path)
    model = Scripted(answer)
    turns(model=model)

    assert heard[1] == "The user says: use plus"


def test_a_plan_is_demanded_before_the_first_change_and_waits(turns: Turns):
    plan = call("plan", approach="turn the sign", confidence="high")
    played, model = turns([call("read", path="sums.py"), FIX], [plan, FIX], plan_only=True)

    assert results(model.asks[1])["call_2"].startswith("held back: plan first")
    assert results(model.asks[1])["call_1"].startswith("1\tdef")
    assert played.result.status == "waiting"
    assert played.root.text(2, "approach") == "turn the sign"
    assert "a - b" in (played.fractal.workspace.folder / "sums.py").read_text()


def test_a_plan_with_whole_steps_is_a_turn(turns: Turns):
    steps = [{"tool": "read", "args": {"path": "sums.py"}}, {"tool": "write", "args": {
        "path": "copy.py", "content": "{{ steps[1].result }}"}}]  # fmt: skip
    plan = {
        "approach": "copy",
        "confidence": "high",
        "steps": steps,
        "success": [{"file": "copy.py", "has": "def add"}],
    }
    played, model = turns({**plan, "done": "copied"}, task="copy sums.py to copy.py")

    assert (played.result.status, played.result.output, len(model.asks)) == ("complete", "copied", 1)


def test_a_long_result_is_cut_at_the_limit_with_the_next_line(turns: Turns, tmp_path: Path):
    put(tmp_path, "long.txt", "".join(f"line {n}\n" for n in range(1, 5000)))
    _, model = turns(
        [call("read", path="long.txt")],
        [call("read", path="long.txt", lines="700-720")],
        [done("x")],
        [done()],
    )

    first = results(model.asks[1])["call_1"]
    assert len(first) <= result_limit(128_000) + 100
    last = int(first.splitlines()[-2].partition("\t")[0])
    assert first.endswith(f'go on with lines "{last + 1}-"]')
    assert results(model.asks[2])["call_2"].splitlines()[0] == "700\tline 700"


def test_old_results_are_folded_once_the_window_is_full(turns: Turns, tmp_path: Path):
    put(tmp_path, "long.txt", "word " * 500)
    looks = [[call("bash", command=f"cat long.txt; echo {n}")] for n in range(12)]
    model_window = {"context": 8_192}
    left = [*looks, [done("x")], [done()]]
    model = Scripted(lambda ask: {"calls": left.pop(0)}, **model_window)
    turns(model=model)

    shown = results(model.asks[-1])
    assert "no longer shown" in shown["call_1"]
    assert "word" in shown["call_12"]
    changed = sum(
        not json.dumps(after.messages)[:-1].startswith(json.dumps(before.messages)[:-1])
        for before, after in zip(model.asks, model.asks[1:], strict=False)
    )
    assert changed <= 4


def test_the_document_of_turns_is_read_back(turns: Turns):
    played, _ = turns(
        [call("read", path="sums.py"), call("nope")], [FIX, done("fixed", checks=["true"])], [done()]
    )

    raw = render(played.root, 1)
    assert render(parse(raw), 1) == raw


def test_a_subtask_is_a_loop_of_its_own_that_knows_the_task(turns: Turns):
    def answer(ask: Ask) -> Any:
        if ask.document.meta.parent:
            return {"calls": [done("a - b")]}
        return (
            {"calls": [call("subtask", task="say what sums.py returns")]}
            if not results(ask)
            else {"calls": [done("a - b")]}
        )

    model = Scripted(answer)
    turns(model=model, task="what does add in sums.py return?")

    child = next(ask for ask in model.asks if ask.document.meta.parent)
    assert "what does add in sums.py return?" in child.messages[1]["content"]
    assert results(model.asks[-1])["call_1"] == "a - b"


def test_the_same_failing_call_is_not_made_for_ever(turns: Turns):
    bad = call("edit", path="sums.py", old="nowhere", new="x")
    played, model = turns(*[[bad]] * 10)

    assert played.result.status == "escalated" and len(model.asks) < 6


def test_checks_of_the_plan_stay_until_a_reason_replaces_them(turns: Turns):
    plan = call("plan", approach="turn the sign", checks=["false"])
    played, model = turns(
        [plan, FIX, done("fixed")], [done(checks=["true"], why="false can never pass")], [done()]
    )

    assert "check failed: false" in results(model.asks[1])["done_1"]
    assert "false can never pass" in played.root.text(2, "replaced checks")
    assert played.result.status == "unverified"


def test_lines_that_an_earlier_call_moves_are_not_edited(turns: Turns, tmp_path: Path):
    put(tmp_path, "n.txt", "1\n2\n3\n4\n")
    first = call("edit", path="n.txt", lines="1", new="a\nb")
    _, model = turns([first, call("edit", path="n.txt", lines="3", new="c")], [
        call("edit", path="n.txt", lines="5", new="d"), call("edit", path="n.txt", lines="2-3", new="e")
    ], [done("x")], [done()])  # fmt: skip

    assert "moves the lines" in results(model.asks[1])["call_2"]
    assert (tmp_path / "n.txt").read_text() == "a\ne\n3\nd\n"


def test_lines_above_an_earlier_edit_of_the_turn_are_edited(turns: Turns, tmp_path: Path):
    put(tmp_path, "n.txt", "1\n2\n3\n4\n")
    below = call("edit", path="n.txt", old="4\n", new="4\n5\n")
    alike = call("edit", path="n.txt", old="1\n", new="one\n")
    _, model = turns([below, alike, call("edit", path="n.txt", lines="2", new="two")], [done("x")], [done()])

    assert "moves the lines" not in results(model.asks[1])["call_3"]
    assert (tmp_path / "n.txt").read_text() == "one\ntwo\n3\n4\n5\n"


def test_a_plan_is_not_repeated_for_ever(turns: Turns):
    plan = {
        "approach": "write it",
        "confidence": "high",
        "steps": [{"tool": "write", "args": {"path": "a.txt", "content": "x"}}],
        "success": [{"file": "b.txt"}],
    }
    played, model = turns(*[plan] * 9, task="write it")

    assert played.result.status != "complete" and len(model.asks) < 6


@boxed
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sandbox": "auto"}, "run a shell command in the folder (no network, /tmp starts empty)"),
        ({"sandbox": "auto", "network": True}, "run a shell command in the folder (/tmp starts empty)"),
        ({"sandbox": "off"}, "run a shell command in the folder"),
    ],
)
def test_the_line_of_bash_says_what_a_command_lacks(turns: Turns, settings: dict[str, Any], says: str):
    _, model = turns([done("hello")], task="say hello", settings={"check": "auto", **settings})
    lines = {each["function"]["name"]: each["function"]["description"] for each in model.asks[0].tools}
    assert lines["bash"] == says


@boxed
def test_a_command_finds_an_empty_folder_for_what_is_passing(turns: Turns):
    leaves, looks = call("bash", command="touch /tmp/left"), call("bash", command="ls -A /tmp; true")
    _, model = turns([leaves, looks], [done("hello")], task="say hello", settings=BOXED)
    assert "left" not in "".join(results(model.asks[1]).values())
