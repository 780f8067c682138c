"""What models write instead of the form that was asked for: read as what it means, or repaired once.

The forms are those that users of agent frameworks report in their issues.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from playing import ACCEPT, Play, plan

from kernel.asking.replies import typed
from kernel.asking.responder import Ask
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
"""One call each, in a turn of an open DO."""

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


@pytest.mark.parametrize("step", STEPS, ids=json.dumps)
def test_a_call_in_another_form_is_read(step: Any) -> None:
    reply: Any = typed("fused", plan(step))
    assert [(each.tool, each.args, each.what) for each in reply.steps] == [("read", {"path": "a.txt"}, "")]


@pytest.mark.parametrize("change", PLANS, ids=json.dumps)
def test_a_plan_with_a_slip_is_read(change: dict[str, Any]) -> None:
    reply: Any = typed("fused", {**plan(READ, success=[{"judge": "a.txt is read"}]), **change})
    assert [each.tool for each in reply.steps] == ["read"]
    unclear = change.get("confidence", "high") in (None, "fairly sure")
    assert reply.confidence == ("medium" if unclear else "high")
    assert reply.success[-1].get("judge")
    assert not reply.ends


@pytest.mark.parametrize("change", VERDICTS, ids=json.dumps)
def test_a_verdict_with_a_slip_is_read(change: dict[str, Any]) -> None:
    reply: Any = typed("check", {**ACCEPT, **change})
    assert reply.decision == "ACCEPT"
    assert isinstance(reply.output, str)


@pytest.mark.parametrize("turn", TURNS, ids=json.dumps)
def test_a_turn_with_a_slip_is_read(turn: Any) -> None:
    reply: Any = typed("work", turn)
    assert [(each.tool, each.args) for each in reply.calls] == [("read", {"path": "a.txt"})]


@pytest.mark.parametrize("end", ["done", "answer", "result"])
def test_the_end_of_a_turn_has_other_names_too(end: str) -> None:
    reply: Any = typed("work", {end: {"word": "lantern"}})
    assert reply.done == '{"word": "lantern"}'


@pytest.mark.parametrize("around", TEXTS)
def test_what_surrounds_an_object_is_left_out(around: str) -> None:
    text = around.replace("{{", "\0").replace("{}", json.dumps(plan(READ))).replace("\0", "{{")
    assert read_reply(text) == plan(READ)


@pytest.mark.parametrize(
    ("phase", "reply", "fault"),
    [
        ("fused", plan({"tool": "read"}), "give either args or what"),
        ("fused", plan({"args": {"path": "a.txt"}}), "a step is {tool, args}"),
        ("fused", plan("read the file"), "steps 1"),
        ("fused", {"steps": [READ]}, "task"),
        ("plan", {"confidence": "high"}, "give approach"),
        ("do", {"tool": "read"}, "give tool and args"),
        ("do", {"tool": "read", "args": "a.txt"}, "args"),
        ("work", {"calls": []}, "give calls"),
        ("work", {"calls": ["read a.txt"]}, "calls 1"),
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
        if ask.phase != "fused":
            return ACCEPT
        if not ask.turn:
            return wrong
        assert all(fault in ask.user for fault in faults)
        assert '"path": "sum.py"' in ask.user
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
    assert [event.data["phase"] for event in played.asks()] == ["fused", "do", "check"]
    assert played.result.exit == Exit.ACCEPTED
