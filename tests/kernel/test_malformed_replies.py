"""What models write instead of the form that was asked for: read as what it means, or repaired once.

The forms are those that users of agent frameworks report in their issues.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from playing import ACCEPT, Play, plan

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.asking.turn import TURN, typed
from kernel.errors import Exit, ReplyError
from runtime.text.json_reader import read_reply

READ = {"tool": "read", "args": {"path": "a.txt"}}
STEPS: list[Any] = [
    READ,
    {"tool": "read", "args": {"path": "a.txt"}, "what": None},
    {"tool": "read", "args": {"path": "a.txt"}, "subtask": None, "needs": None},
    {"tool": "read", "args": {"path": "a.txt"}, "what": "read the file"},
    {"name": "read", "arguments": {"path": "a.txt"}},
    {"name": "read", "arguments": '{"path": "a.txt"}'},
    {"tool": "read", "arguments": {"path": "a.txt"}},
    {"tool": "read", "parameters": {"path": "a.txt"}},
    {"tool": "read", "input": {"path": "a.txt"}},
    {"tool_name": "read", "tool_input": {"path": "a.txt"}},
    {"action": "read", "args": {"path": "a.txt"}},
    {"function": {"name": "read", "arguments": '{"path": "a.txt"}'}},
    {"type": "function", "id": "call_1", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}},
    {"function": "read", "parameters": {"path": "a.txt"}},
    {"read": {"path": "a.txt"}},
    {"tool": "functions.read", "args": {"path": "a.txt"}},
    {"tool": " read ", "args": {"path": "a.txt"}},
    {"tool": "read", "args": {"path": "a.txt"}, "step": 1, "id": "s1", "description": "look"},
    {"tool": "read", "args": {"path": "a.txt"}, "needs": 1},
]
"""One call each, in a plan."""

PLANS: list[dict[str, Any]] = [
    {"steps": READ},
    {"steps": [READ, None]},
    {"confidence": "High"},
    {"confidence": "HIGH (95%)"},
    {"confidence": "very high"},
    {"confidence": 0.95},
    {"confidence": "95%"},
    {"confidence": None},
    {"confidence": "fairly sure"},
    {"confidence": ["high"]},
    {"success": "a.txt is read"},
    {"success": ["a.txt is read"]},
    {"success": {"judge": "a.txt is read"}},
    {"success": [{"run": "test -f a.txt"}, "it reads well"]},
    {"question": None, "cannot": None, "answer": None},
    {"question": "", "cannot": "", "answer": ""},
    {"rationale": None},
    {"context": None, "open": None},
    {"context": "a.txt exists"},
    {"context": ["a.txt exists"]},
    {"context": {"fact": "a.txt exists"}},
    {"context": [{"fact": "a.txt exists", "from": None}]},
    {"open": "nothing"},
    {"open": ""},
    {"thought": "I should read it", "status": "planning"},
]
"""Changes of a plan that reads a file."""

VERDICTS: list[dict[str, Any]] = [
    {"decision": "accept"},
    {"decision": "Accept."},
    {"decision": "ACCEPTED"},
    {"validation": "PASS"},
    {"validation": "passed"},
    {"validation": True},
    {"validation": None},
    {"issues": None},
    {"issues": ""},
    {"issues": "none worth naming"},
    {"output": None},
    {"output": 42},
    {"output": {"answer": 42}},
    {"look": None},
    {"question": None, "learned": None},
]
"""Changes of a verdict that accepts."""

TURNS: list[Any] = [
    {"calls": [READ]},
    {"calls": READ},
    READ,
    {"tool_calls": [{"function": {"name": "read", "arguments": '{"path": "a.txt"}'}}]},
    {"calls": [{"read": {"path": "a.txt"}}]},
    {"calls": [READ], "done": None, "question": None},
    {"actions": [READ]},
]
"""One call each, in a turn."""

TEXTS = [
    "```json\n{}\n```",
    "Here is the plan:\n\n{}\n\nLet me know!",
    "<think>Should I use {{braces}}? Yes.</think>{}",
    "{}\n\n(I am confident.)",
    "\ufeff{}",
    "json\n{}",
    "reasoning first</think>\n{}",
]
"""What surrounds an object."""


def planned(data: dict[str, Any]) -> Any:
    """A plan with whole steps, which a turn may be, too."""
    return typed(TURN, data).steps


@pytest.mark.parametrize("step", STEPS, ids=json.dumps)
def test_a_call_in_another_form_is_read(step: Any) -> None:
    reply = planned(plan(step))
    assert [(each.tool, each.args, each.what) for each in reply.steps] == [("read", {"path": "a.txt"}, "")]


@pytest.mark.parametrize("change", PLANS, ids=json.dumps)
def test_a_plan_with_a_slip_is_read(change: dict[str, Any]) -> None:
    reply = planned({**plan(READ, success=[{"judge": "a.txt is read"}]), **change})
    assert [each.tool for each in reply.steps] == ["read"]
    unclear = change.get("confidence", "high") in (None, "fairly sure")
    assert reply.confidence == ("medium" if unclear else "high")
    assert reply.success[-1].get("judge")


@pytest.mark.parametrize("change", VERDICTS, ids=json.dumps)
def test_a_verdict_with_a_slip_is_read(change: dict[str, Any]) -> None:
    reply: Any = typed("check", {**ACCEPT, **change})
    assert reply.decision == "ACCEPT"
    assert isinstance(reply.output, str)


@pytest.mark.parametrize("turn", TURNS, ids=json.dumps)
def test_a_turn_with_a_slip_is_read(turn: Any) -> None:
    reply = typed(TURN, turn)
    assert [(each.tool, each.args) for each in reply.calls] == [("read", {"path": "a.txt"})]


@pytest.mark.parametrize("end", ["done", "answer", "result"])
def test_the_end_of_a_turn_has_other_names_too(end: str) -> None:
    reply = typed(TURN, {end: {"word": "lantern"}})
    assert reply.done.answer == '{"word": "lantern"}'


@pytest.mark.parametrize("name", ["done", "finish", "submit"])
@pytest.mark.parametrize(
    ("args", "answer", "checks"),
    [
        ({"answer": "lantern"}, "lantern", ()),
        ({"text": "lantern"}, "lantern", ()),
        ({"result": {"word": "lantern"}}, '{"word": "lantern"}', ()),
        ({"word": "lantern"}, '{"word": "lantern"}', ()),
        ("lantern", "lantern", ()),
        ({"answer": "lantern", "checks": "true"}, "lantern", ("true",)),
        ({"checks": [{"run": "true"}, "ls"]}, "", ("true", "ls")),
        ({}, "", ()),
    ],
    ids=repr,
)
def test_the_call_that_ends_a_task_is_read(
    name: str, args: Any, answer: str, checks: tuple[str, ...]
) -> None:
    reply = typed(TURN, {"calls": [READ, {"tool": name, "args": args}]})
    assert (reply.done.answer, reply.done.checks, len(reply.calls)) == (answer, checks, 1)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("read a.txt", '"read a.txt"'),
        ({"args": {"path": "a.txt"}}, '"path"'),
        ({"tool": "read", "args": "a.txt"}, "a.txt"),
        (
            {"tool": "done", "args": {"answer": "x", "checks": [1]}},
            "checks 1: Input should be a valid string",
        ),
        ({"tool": "plan", "args": {}}, "approach: "),
        ({"tool": "ask", "args": {}}, "it has no text"),
        ({"tool": "subtask", "args": {}}, "task is missing"),
    ],
    ids=repr,
)
def test_a_call_without_one_meaning_is_a_faulty_call_beside_the_others(call: Any, fault: str) -> None:
    reply = typed(TURN, {"calls": [READ, call, READ]})
    assert [each.tool for each in reply.calls][::2] == ["read", "read"]
    assert fault in reply.calls[1].bad
    assert "pydantic" not in reply.calls[1].bad


@pytest.mark.parametrize("around", TEXTS)
def test_what_surrounds_an_object_is_left_out(around: str) -> None:
    text = around.replace("{{", "\0").replace("{}", json.dumps(plan(READ))).replace("\0", "{{")
    assert read_reply(text) == plan(READ)


@pytest.mark.parametrize(
    ("phase", "reply", "fault"),
    [
        (TURN, plan({"tool": "read"}), "steps 1: step with tool read: give either args or what"),
        (TURN, plan({"args": {"path": "a.txt"}}), "steps 1: a step is {tool, args}"),
        (TURN, plan("read the file"), "steps 1"),
        (TURN, {"steps": [READ]}, "give approach"),
        (TURN, {"plan": {"confidence": "high"}}, "approach"),
        (TURN, {"calls": []}, "give calls"),
        (TURN, {"ask": ""}, "it has no text"),
        ("check", {"validation": "pass"}, "decision is missing"),
        ("check", {**ACCEPT, "decision": "maybe"}, "decision"),
        ("check", {**ACCEPT, "validation": "fail"}, "ACCEPT is not open"),
        ("check", {"validation": "fail", "decision": "RETRY"}, "RETRY needs learned"),
    ],
)
def test_what_has_no_one_meaning_is_refused_with_its_place(phase: str, reply: Any, fault: str) -> None:
    with pytest.raises(ReplyError, match=fault.replace("{", r"\{")):
        typed(phase, reply)


def test_every_fault_of_a_plan_is_named_at_once_with_an_example(play: Play) -> None:
    steps = {"tool": "reed", "args": {}}, {"tool": "read", "args": {"file": "x"}}
    wrong = plan(*steps, success=[{"exists": "x"}])
    faults = ("no tool 'reed'", "has no argument file", "none of run, file, step")

    def answer(ask: Ask) -> Any:
        if ask.phase != "plan":
            return ACCEPT
        if not ask.turn:
            return wrong
        said = prompt_text(ask)
        assert all(fault in said for fault in faults)
        assert said.count('"path": "sum.py"') == 1
        assert '"reed"' in said  # with the reply that was refused
        return plan(READ)

    played = play(answer)
    assert [event.kind for event in played.events].count("ask_refused") == 1
    assert played.root.meta.attempt == 1


def test_a_slip_in_one_described_step_repeats_that_ask_only(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        call = {"tool": "write", "args": {"path": "b.txt", "content": "b"}}
        replies = {"do": call if ask.turn else {"tool": "write"}, "check": ACCEPT}
        return replies.get(ask.phase) or plan({"tool": "write", "what": "write b"})

    played = play(answer)
    assert [event.data["phase"] for event in played.asks()] == ["turn", "do", "check"]
    assert played.result.exit == Exit.ACCEPTED


@pytest.mark.parametrize(
    "again", ["Your reply was refused. Call a tool, or done.", "give calls, or done, ask or cannot"]
)
def test_an_answer_that_repeats_what_was_said_of_a_reply_is_none(play: Play, again: str) -> None:
    def answer(ask: Ask) -> Any:
        text = prompt_text(ask)
        if "it repeats what you were told" in text:
            return {"done": {"answer": "It sorts by parts."}}
        return {"done": {"answer": again}} if "was refused" in text else {"calls": []}

    played = play(answer, "what is quicksort?", settings={"check": "auto"})
    assert played.result.output.startswith("It sorts by parts.")
