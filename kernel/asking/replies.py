"""The typed replies: plans with whole steps, calls and verdicts; and the validation of plans.

This module does not know whether a model, a reflex or a person wrote a reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kernel.asking import lenient
from kernel.document.escaping import to_json
from kernel.document.references import SHELL, Whose, in_shell, problem_in, references, renumbered
from kernel.errors import ReplyError
from kernel.tools.tool import Catalogue

_PATH = re.compile(r"[\w./-]+")
_TOOL = re.compile(r"[a-z0-9][a-z0-9-]*")


def _criteria(value: Any) -> list[Any]:
    return [lenient.keyed(each, "judge") for each in lenient.listed(value)]


def _tools(value: Any) -> list[str]:
    return [name for each in lenient.listed(value) for name in _TOOL.findall(str(each).lower())]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


Confidence = Annotated[Literal["high", "medium", "low"], BeforeValidator(lenient.confidence)]
Decision = Annotated[Literal["ACCEPT", "RETRY", "ESCALATE"], BeforeValidator(lenient.decision)]
Validation = Annotated[Literal["pass", "fail"], BeforeValidator(lenient.validation)]
Criteria = Annotated[tuple[dict[str, Any], ...], BeforeValidator(_criteria)]


WORK = "work"
"""The tool whose loop decides its steps one turn at a time. A plan of this step alone opens its own DO."""


class Typed(BaseModel):
    """Base class of replies. Unknown keys are ignored; null means absent; one element is a list of one."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _read_leniently(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        values = lenient.present(cast(dict[str, Any], data))
        lists = {name for name, field in cls.model_fields.items() if "tuple" in str(field.annotation)}
        return {name: lenient.listed(value) if name in lists else value for name, value in values.items()}


class Fact(Typed):
    """A piece of context with its source."""

    fact: str
    source: str = Field("", alias="from")

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, data: Any) -> Any:
        return lenient.keyed(data, "fact")


class PlanStep(Typed):
    """A tool with arguments, a tool with a description, or a subtask."""

    tool: str = ""
    args: dict[str, Any] | None = None
    what: str = ""
    subtask: str = ""
    needs: tuple[int, ...] | None = None  # None: the step before it

    @model_validator(mode="before")
    @classmethod
    def _is_call(cls, data: Any) -> Any:
        step = lenient.call(data, ("what", "subtask", "needs", WORK))
        if isinstance(step, dict) and isinstance(goal := cast(dict[str, Any], step).get(WORK), str):
            return {"tool": WORK, "what": goal, **cast(dict[str, Any], step)}
        return step  # type: ignore[no-any-return]

    @model_validator(mode="after")
    def _one_kind(self) -> PlanStep:
        if self.subtask and self.args is None and not self.what:
            return self
        if self.subtask or not self.tool:
            raise ValueError("a step is {tool, args}, {tool, what} or {subtask}")
        if self.args is None and not self.what:
            raise ValueError(f"step with tool {self.tool}: give either args or what")
        if self.args is not None and self.what:
            return self.model_copy(update={"what": ""} if self.args else {"args": None})
        return self


class Plan(Typed):
    """A plan with whole steps, as code, a script or a person gives it."""

    task: str = ""  # with every reference made explicit; "": as it was given
    context: tuple[Fact, ...] = ()  # what the steps rest on
    approach: str = ""
    confidence: Confidence = "medium"
    steps: tuple[PlanStep, ...] = ()
    success: Criteria = ()
    rationale: str = ""
    done: str = ""  # the answer to the user if all criteria hold

    @model_validator(mode="after")
    def _has_an_approach(self) -> Plan:
        if not self.approach:
            raise ValueError("give approach, steps and success, or an answer, a question, or cannot")
        return self


class Look(Typed):
    """A call of a tool that only looks."""

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _is_call(cls, data: Any) -> Any:
        return lenient.call(data, ())


class Verdict(Typed):
    """The reply of CHECK."""

    validation: Validation = "fail"
    issues: tuple[str, ...] = ()
    decision: Decision | None = None
    learned: str = ""
    output: Annotated[str, BeforeValidator(_text)] = ""
    question: str = ""
    look: Look | None = None  # missing evidence, asked for once
    unverified: bool = False  # accepted by code that has no evidence that it is right
    unanswered: bool = False  # the output says that nothing is known
    teaching: str = ""  # how a worker does it itself the next time
    grant: Annotated[tuple[str, ...], BeforeValidator(_tools)] = ()  # the tools that it should know for that

    def taught(self) -> Verdict:
        """The same, with what a teaching loop has put into an object as its output."""
        members = lenient.taught(self.output)
        return Verdict.model_validate({**self.model_dump(), **members}) if members else self

    @model_validator(mode="after")
    def _decides(self) -> Verdict:
        if self.look is None and self.decision is None:
            raise ValueError("decision is missing: ACCEPT, RETRY or ESCALATE")
        if self.decision == "ACCEPT" and "validation" in self.model_fields_set and self.validation == "fail":
            raise ValueError("validation is fail, so ACCEPT is not open")
        if self.decision == "RETRY" and not self.learned:
            raise ValueError("RETRY needs learned: what is known now and what is not to be repeated")
        return self


def sketch(node: Mapping[str, Any]) -> str:
    """A JSON Schema as a short form in words, such as `{"tool", "args"}|{"blocked"}`.

    A key alone is a text or an object.
    """
    if options := node.get("enum"):
        return json.dumps("|".join(options))
    if ways := node.get("anyOf"):
        return "|".join(map(sketch, ways))
    if properties := node.get("properties"):
        forms = {name: sketch(each) for name, each in properties.items()}
        plain = ("text", "{…}")
        members = [f'"{name}"' if form in plain else f'"{name}": {form}' for name, form in forms.items()]
        return "{" + ", ".join(members) + "}"
    kind = node.get("type", "value")
    if kind == "array":
        return f"[{sketch(node.get('items', {}))}]"
    return {"string": "text", "object": "{…}", "integer": "n"}.get(str(kind), str(kind))


Read = TypeVar("Read", bound=BaseModel)

Parse = Callable[[str], Mapping[str, Any]]
"""Reads the JSON object in a reply's text; raises `ReplyError`. The runtime has a lenient one."""


def parse_strictly(text: str) -> Mapping[str, Any]:
    """Read a JSON object; raises `ReplyError` for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"the reply is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ReplyError("the reply is not a JSON object")
    return cast(dict[str, Any], value)


def validated(form: type[Read], data: Mapping[str, Any]) -> Read:
    """The data in this form; raises `ReplyError` that names the invalid fields."""
    try:
        return form.model_validate(dict(data))
    except ValidationError as error:
        places = [f"{_place(e['loc'])}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()[:4]]
        raise ReplyError("; ".join(places)) from None


def _place(parts: tuple[int | str, ...]) -> str:
    """The path of a field in a reply, with indices from 1."""
    return " ".join(str(part + 1) if isinstance(part, int) else part for part in parts) or "reply"


def gate_plan(
    plan: Plan,
    tools: Catalogue,
    *,
    may_split: bool,
    retry: bool,
    earlier: Collection[int] = (),
    tasks: Collection[str] = (),
    fault_of: Callable[[Mapping[str, Any], int, bool], str] = lambda criterion, last, coded: "",
    coded: bool = False,
) -> None:
    """Raise `ReplyError` for a plan that cannot be executed. It names every fault.

    A plan numbers its steps from 1. `earlier` are the steps of earlier attempts whose results it may use.
    `tasks` are the tasks of the loop and its ancestors, which no subtask may repeat. `fault_of` says what is
    wrong with a criterion. A plan that is `coded` needs no criterion: code knows what its steps do.
    """
    faults: list[str] = []
    if not plan.steps and not retry:
        faults.append("steps is empty; give at least one, or a question, or cannot")
    if not plan.success and not coded:
        faults.append("success is empty; give at least one criterion")
    drafted: set[str] = set()  # tools that earlier steps of this plan write: later steps can use them
    for at, step in enumerate(plan.steps, 1):
        faults += step_faults(step, f"step {at}", tools, may_split, drafted, tasks)
        faults += _reference_faults(step.model_dump(), f"step {at}", at - 1, step.needs or (), earlier)
        said = [each for each in (step.args or {}).values() if isinstance(each, str)]
        drafted |= built_by([*said, *_PATH.findall(step.what)])
    faults += _reference_faults(plan.done, "done", len(plan.steps), (), earlier)
    for criterion in plan.success:
        if fault := fault_of(criterion, len(plan.steps), coded):
            faults.append(f"success: {fault}")
        elif "run" in criterion:
            command = in_shell(criterion["run"])
            faults += _reference_faults(command, "success", len(plan.steps), (), earlier)
    if faults:
        raise ReplyError("; ".join(dict.fromkeys(faults)))


def built_by(texts: Sequence[str]) -> set[str]:
    """The names of the tools whose files are among these paths."""
    found: set[str] = set()
    for text in texts:
        parts = text.removeprefix("./").removeprefix(".fractal/").split("/")
        if len(parts) >= 4 and parts[:2] == ["system", "tools"]:
            found.add(parts[2])
        elif len(parts) == 3 and parts[:2] == ["system", "operations"]:
            found.add(parts[2].removesuffix(".md"))
    return found


def _alike(task: str) -> str:
    """A task in lower case with single spaces, for comparison."""
    return " ".join(task.split()).casefold()


def in_words(args: Mapping[str, Any]) -> str:
    """The task of a guided tool, which some call with several arguments instead of the one `what`."""
    if set(args) == {"what"}:
        return str(args["what"])
    return "\n".join(
        f"{name}: {each if isinstance(each, str) else to_json(each)}" for name, each in args.items()
    )


def step_faults(
    step: PlanStep,
    where: str,
    tools: Catalogue,
    may_split: bool,
    drafted: Collection[str] = (),
    tasks: Collection[str] = (),
) -> list[str]:
    """What is wrong with the tool of a step, its arguments, or its subtask, which is none of `tasks`."""
    child = step.subtask or tools.guided(step.tool)
    if child and not may_split:
        return [f"{where}: no subtasks here, the limit of depth or context is reached; use operations"]
    if step.subtask and _alike(step.subtask) in map(_alike, tasks):
        return [f"{where}: this subtask is the task itself; name a part of it, or do it"]
    if child and not (step.subtask or step.what or in_words(step.args or {}).strip()):
        return [f"{where}: {step.tool} needs what: the task in words"]
    unknown = step.tool and step.tool not in drafted
    problem = tools.problem(step.tool, None if child else step.args) if unknown else ""
    return [f"{where}: {problem}"] if problem else []


def _reference_faults(
    value: Any, where: str, last: int, needs: Sequence[int], earlier: Collection[int]
) -> list[str]:
    """Invalid references, and references to steps that do not come earlier."""
    if problem := problem_in(value):
        return [f"{where}: {problem}"]
    faults: list[str] = []
    for n in sorted({*references(value), *needs}):
        if not 1 <= n <= last:
            hint = f"; an earlier attempt's is {{{{ earlier[{n}].result }}}}" if n in earlier else ""
            faults.append(f"{where} refers to step {n}; only earlier steps can be referred to{hint}")
    for n in sorted(references(value, "earlier")):
        if n not in earlier:
            faults.append(f"{where} refers to step {n} of an earlier attempt, which has no result")
    return faults


def in_document(plan: Plan, base: int) -> Plan:
    """The plan with the document's step numbers, which begin after `base`."""

    def number(whose: Whose, n: int) -> int:
        return n + base if whose == "steps" else n

    def criterion(each: dict[str, Any]) -> dict[str, Any]:
        if "run" in each:
            return {**each, "run": renumbered(in_shell(each["run"]), number)[SHELL]}
        return {**each, "step": each["step"] + base} if "step" in each else each

    def step(each: PlanStep) -> PlanStep:
        needs = None if each.needs is None else tuple(n + base for n in each.needs)
        texts = {name: renumbered(getattr(each, name), number) for name in ("args", "what", "subtask")}
        return each.model_copy(update={**texts, "needs": needs})

    steps = tuple(map(step, plan.steps))
    success, done = tuple(map(criterion, plan.success)), renumbered(plan.done, number)
    return plan.model_copy(update={"steps": steps, "success": success, "done": done})
