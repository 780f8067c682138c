"""A reader: decides from a prompt alone, by a job's policy, and slips in form at a given rate."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from bench.work.jobs import Call, Move, WorkJob
from kernel.asking.responder import Ask

Reply = dict[str, Any]


def _fenced(reply: Reply) -> str:
    return f"Here it is:\n```json\n{json.dumps(reply)}\n```"


def _thinking(reply: Reply) -> str:
    return f"<think>What comes next?</think>\n{json.dumps(reply)}"


def _with_nulls(reply: Reply) -> str:
    return json.dumps({**reply, "question": None, "answer": None})


def _renamed(reply: Reply) -> str:
    text = json.dumps(reply)
    return text.replace('"tool":', '"name":').replace('"args":', '"arguments":')


def _trailing_comma(reply: Reply) -> str:
    return f"{json.dumps(reply)[:-1]},}}"


def _single(reply: Reply) -> str:
    lists = {name: each[0] for name, each in reply.items() if isinstance(each, list) and len(each) == 1}
    return json.dumps({**reply, **lists})


def _unclosed(reply: Reply) -> str:
    return json.dumps(reply)[:-1]


def _prose(reply: Reply) -> str:
    return "I will look at the results and then go on."


SLIPS: tuple[Callable[[Reply], str], ...] = (
    _fenced,
    _thinking,
    _with_nulls,
    _renamed,
    _trailing_comma,
    _single,
    _fenced,
    _renamed,
    _unclosed,
    _prose,
)
"""Slips of form, as often as models make them: the last two lose the reply."""


class Reader:
    """Answers asks about one job. `planned`: it plans ahead; else its plan is one step of work."""

    def __init__(self, job: WorkJob, task: str, *, planned: bool, slips: float, seed: int) -> None:
        self.job, self.task, self.planned = job, task, planned
        self.slips, self.random = slips, Random(f"{job.name} {seed}")

    def __call__(self, ask: Ask) -> str:
        """The reply to an ask of Fractal."""
        move = self.job.policy(ask.user)
        match ask.phase:
            case "work":
                return self.written(turn(move))
            case "do":
                return self.written(self._call(ask, move))
            case "check":
                return self.written(self._verdict(ask, move))
            case _:
                return self.written(self._plan(ask, move))

    def written(self, reply: Reply) -> str:
        """The reply as text, with a slip at times."""
        if self.random.random() >= self.slips:
            return json.dumps(reply)
        return self.random.choice(SLIPS)(reply)

    def _plan(self, ask: Ask, move: Move) -> Reply:
        task = {"task": self.task} if ask.phase == "fused" else {}
        if move.question:
            return {**task, "question": move.question}
        steps: list[Any] = [_harmless(call) if self.planned else dict(call) for call in move.calls]
        steps += self._ahead(move.calls) if self.planned else [{"tool": "work", "what": self.task}]
        plan = {"approach": "from what is known", "confidence": "high", "steps": steps}
        return {**task, **plan, "success": [dict(each) for each in self.job.success]}

    def _ahead(self, calls: tuple[Call, ...]) -> list[Any]:
        """The steps that a planner adds to a first look: what results will call for."""
        if any(call["tool"] in ("edit", "write") for call in calls):
            return []
        proves = any("run" in each or "file" in each for each in self.job.success)
        ending = "write" if any("file" in each for each in self.job.success) else "edit"
        return [{"tool": ending if proves else "read", "what": "what the results call for"}]

    def _call(self, ask: Ask, move: Move) -> Reply:
        tool = ask.document.planned[ask.step].tool
        fits = [call for call in move.calls if call["tool"] == tool]
        return dict(fits[0]) if fits else {"blocked": "the results call for something else"}

    def _verdict(self, ask: Ask, move: Move) -> Reply:
        if move.done:
            return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": move.done}
        if move.question:
            fail = {"validation": "fail", "issues": [move.question], "decision": "ESCALATE"}
            return {**fail, "output": "", "question": move.question}
        _, _, results = ask.user.partition("## Steps")
        learned = results.partition("\n## ")[0][-2500:] or "nothing yet"
        return {"validation": "fail", "issues": ["not done"], "decision": "RETRY", "learned": learned}


def _harmless(call: Call) -> dict[str, Any]:
    """A call of a plan whose failure does not stop the plan."""
    if call["tool"] != "bash":
        return dict(call)
    return {**call, "args": {"command": f"{call['args']['command']}; true"}}


def turn(move: Move) -> Reply:
    """A move as the reply of one turn."""
    if move.done or move.question:
        return {"done": move.done} if move.done else {"question": move.question}
    then = {"done": move.then} if move.then else {}
    return {"calls": [dict(call) for call in move.calls], **then}
