"""The reply of a turn: what a responder decides in one call.

Every end of a turn is a call of its own (`done`, `ask`, `cannot`), and so is the plan. A plan with whole
steps, as code, a script or a person gives it, is a turn too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from kernel.asking import lenient
from kernel.asking.replies import Confidence, Plan, Typed, Verdict, validated
from kernel.errors import ReplyError

TURN = "turn"
"""The phase of an ask that takes the next turn."""
USE = "use"
"""The call that reaches every tool that is not declared."""
SUBTASK = "subtask"
"""The call that starts a loop of its own."""
PLAN, DONE, ASK, CANNOT = "plan", "done", "ask", "cannot"
MOST_CALLS, MOST_CHECKS = 32, 20
"""Calls of one turn that are made, and checks of one answer."""
SAID = (PLAN, DONE, ASK, CANNOT)
"""The calls that are no steps: they say how the loop goes on."""
LONGEST_NAME = 64
"""Characters of the name of a call that are kept."""
_ENDS = ("answer", "question", CANNOT)
"""What a plan may say instead of steps."""
_OTHER_MEMBERS = {"tool_calls": "calls", "actions": "calls", "blocked": CANNOT, "result": DONE}
OTHER_NAMES: Mapping[str, str] = {"question": ASK, "clarify": ASK, "finish": DONE, "submit": DONE}


class Wanted(Typed):
    """A call as a model wrote it. `bad` is the text of arguments that are no JSON object."""

    tool: str = ""
    args: dict[str, Any] = Field(default_factory=dict)
    subtask: str = ""
    bad: str = ""


class Sketch(Typed):
    """A plan without steps: what the next turns do, and the commands that will show that it is done."""

    approach: str = Field(min_length=1)
    confidence: Confidence = "medium"
    checks: tuple[str, ...] = ()


class Done(Typed):
    """The end of a task: the answer, and the commands that show it."""

    answer: str = ""  # "": the one that was held back
    checks: tuple[str, ...] = Field(default=(), max_length=MOST_CHECKS)  # fail at the start, pass now
    keep: tuple[str, ...] = Field(default=(), max_length=MOST_CHECKS)  # pass at both
    why: str = ""  # why checks of before are replaced

    @field_validator("checks", "keep", mode="before")
    @classmethod
    def _commands(cls, value: Any) -> Any:
        return [each["run"] if isinstance(each, dict) and "run" in each else each for each in value]


class TurnReply(BaseModel):
    """The calls of a turn in the order given, and what it says besides."""

    model_config = {"frozen": True}

    calls: tuple[Wanted, ...] = ()
    plan: Sketch | None = None
    done: Done | None = None
    question: str = ""
    cannot: str = ""
    text: str = ""  # beside the calls
    steps: Plan | None = None  # a plan with whole steps
    sure: Confidence = "medium"  # of an answer without a plan

    @property
    def confidence(self) -> Confidence:
        """How sure the reply is of its plan or answer; `medium` if it says nothing."""
        plan = self.plan or self.steps
        return plan.confidence if plan else self.sure

    @property
    def ends(self) -> bool:
        """Whether there is nothing to do: it answers, asks, or says that the task is impossible."""
        return bool(self.question or self.cannot or (self.done and not self.calls))

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        values = lenient.present(cast(dict[str, Any], data))
        if values.keys() & {"steps", "success"} and not any(values.get(end) for end in _ENDS):
            return {"steps": Plan.model_validate(values)}
        if "skip" in values:  # what a turn that is bound to a step may write
            values[DONE] = {"why": values.pop("skip")}
        for own, name in _OTHER_MEMBERS.items():
            if own in values and name not in values:
                values[name] = values.pop(own)
        alone = not values.keys() & {"calls", "text", "answer", "question", *SAID}
        given = [values] if alone else lenient.listed(values.get("calls", []))
        found: dict[str, Any] = {"text": values.get("text", "")}
        if values.get("confidence") in ("high", "medium", "low"):
            found["sure"] = values["confidence"]
        for name in (PLAN, CANNOT, ASK, "question", DONE, "answer"):
            if values.get(name) not in (None, False):  # false says that there is none
                _say(found, {"answer": DONE, "question": ASK}.get(name, name), values[name])
        found["calls"] = [call for each in given if (call := _call(found, each)) is not None]
        if more := len(found["calls"][MOST_CALLS:]):
            why = f"at most {MOST_CALLS} calls are made in a turn; this one and {more - 1} more were not"
            found["calls"][MOST_CALLS:] = [
                {"tool": found["calls"][MOST_CALLS].get("tool") or "?", "bad": why}
            ]
        if not (found["calls"] or found.keys() & {PLAN, DONE, "question", CANNOT}) and found["text"]:
            found[DONE] = {"answer": found.pop("text")}  # text without a call is the answer
        return found

    @model_validator(mode="after")
    def _says_something(self) -> TurnReply:
        if not (self.calls or self.plan or self.done or self.question or self.cannot or self.steps):
            raise ValueError("give calls, or done, ask or cannot")
        return self


def _call(found: dict[str, Any], value: Any) -> Any:
    """One call; None for one that says something, which is put into `found`."""
    if not isinstance(value, dict):
        return {"tool": "?", "bad": json.dumps(value)}
    given = cast(dict[str, Any], value)
    if isinstance(given.get("bad"), str):
        named = lenient.tool_name(str(given.get("tool") or "?"))
        return {"tool": named[:LONGEST_NAME], "bad": given["bad"]}
    if SUBTASK in given and "tool" not in given:
        return {"subtask": str(given[SUBTASK])}
    call = cast(dict[str, Any], lenient.call(given, ("what", "subtask")))
    if not isinstance(call.get("tool"), str):
        return {"tool": "?", "bad": json.dumps(given)[:500]}
    name = OTHER_NAMES.get(call["tool"], call["tool"][:LONGEST_NAME])
    args: Any = call.get("args") or {}
    if name in SAID:
        try:
            _say(found, name, args)
        except (ReplyError, ValueError) as error:
            return {"tool": name, "bad": str(error)}
        return None
    if not isinstance(args, dict):
        return {"tool": name, "bad": str(args)}
    args = {**cast(dict[str, Any], args), **({"what": call["what"]} if "what" in call else {})}
    if name != SUBTASK:
        return {"tool": name, "args": args}
    task = next((args[key] for key in ("task", "what", "text") if args.get(key)), "")
    more = f"\n\n{args['context']}" if args.get("context") else ""
    if not isinstance(task, str) or not task.strip():
        return {"tool": SUBTASK, "bad": "task is missing: what the loop is to do, in words"}
    return {"subtask": f"{task}{more}", "tool": str(args.get("tool") or "")}


def _say(found: dict[str, Any], name: str, args: Any) -> None:
    """Read a call that is no step into `found`. Raises `ReplyError` or `ValueError` for invalid arguments."""
    values = cast(dict[str, Any], args) if isinstance(args, dict) else {} if args is True else {"text": args}
    text = next((values[key] for key in ("text", "question", "why", "answer") if values.get(key)), "")
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    if name == PLAN:
        found[PLAN] = validated(Sketch, {"approach": text, **values})
    elif name == DONE:
        said = values.keys() & {*Done.model_fields, "text", "result"}
        answer = values.get("answer") or values.get("text") or values.get("result") or ""
        answer = values if values and not said else answer  # an answer that is an object itself
        answer = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        found[DONE] = validated(Done, {**values, "answer": answer})
    elif not text.strip():
        raise ValueError("it has no text")
    else:
        found["question" if name == ASK else CANNOT] = text


REPLIES: Mapping[str, type[BaseModel]] = {TURN: TurnReply, "check": Verdict}
"""The reply of each kind of ask."""


def typed(phase: str, data: Mapping[str, Any]) -> Any:
    """The typed reply; raises `ReplyError` that names the invalid fields."""
    return validated(REPLIES[phase], data)
