"""A reader: decides from a prompt alone, by a job's policy, and slips in form at a given rate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from bench.work.jobs import Call, Move, WorkJob
from kernel.asking.messages import prompt_text
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
    """Answers asks about one job. `planned`: its first turn is a plan with whole steps."""

    def __init__(self, job: WorkJob, task: str, *, planned: bool, slips: float, seed: int) -> None:
        self.job, self.task, self.planned = job, task, planned
        self.slips, self.random = slips, Random(f"{job.name} {seed}")

    def __call__(self, ask: Ask) -> str:
        """The reply to an ask of Fractal."""
        move = self.job.policy(prompt_text(ask))
        match ask.part:
            case "do":
                return self.written(self._call(ask, move))
            case "check":
                return self.written(self._verdict(ask, move))
            case _:
                first = self.planned and not (ask.step > 1 or ask.document.planned)
                return self.written(self._plan(move) if first else turn(move, self.job.success))

    def written(self, reply: Reply) -> str:
        """The reply as text, with a slip at times."""
        if self.random.random() >= self.slips:
            return json.dumps(reply)
        return self.random.choice(SLIPS)(reply)

    def _plan(self, move: Move) -> Reply:
        if move.question:
            return {"question": move.question}
        if move.done:
            return turn(move, self.job.success)
        steps: list[Any] = [*map(_harmless, move.calls), *self._ahead(move.calls)]
        plan = {"approach": "from what is known", "confidence": "high", "steps": steps}
        return {**plan, "success": [dict(each) for each in self.job.success]}

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
        results = [each["content"] for each in ask.messages if each["role"] == "tool"]
        learned = "\n".join(results)[-2500:] or "nothing yet"
        return {"validation": "fail", "issues": ["not done"], "decision": "RETRY", "learned": learned}


def _harmless(call: Call) -> dict[str, Any]:
    """A call of a plan whose failure does not stop the plan."""
    if call["tool"] != "bash":
        return dict(call)
    return {**call, "args": {"command": f"{call['args']['command']}; true"}}


def turn(move: Move, success: Sequence[Mapping[str, Any]] = ()) -> Reply:
    """A move as the reply of one turn; an answer comes with the commands that show the `success`."""
    if move.question:
        return {"question": move.question}
    answer = move.done or move.then
    checks = [command for each in success if (command := _command(each))]
    done = [{"tool": "done", "args": {"answer": answer, "checks": checks}}] if answer and checks else []
    calls = [*map(dict, move.calls), *done]
    return {**({"calls": calls} if calls else {}), **({"done": answer} if answer and not done else {})}


def _command(criterion: Mapping[str, Any]) -> str:
    """The command that shows a criterion; "" if none does."""
    if "file" in criterion:
        return f"grep -q {criterion['has']} {criterion['file']}"
    return str(criterion.get("run", ""))
