"""The worker: a model in code that makes known mistakes unless its prompt warns of them.

The random draws belong to the task, not to the arm: the worker has the same luck with memory and without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.apprentice.reader import EXPLORES, HAZARDS, Advice, advice_in, memory_lines
from bench.apprentice.tasks import Step, Task, call
from kernel.asking.messages import prompt_text, prompt_tokens
from kernel.asking.responder import Ask, estimate_tokens
from kernel.document.escaping import to_json

ABOUT = ("README.md", "docs/contact.md", "docs/history.md", "docs/rooms.md")
"""What a worker reads who does not know where to begin."""
NOTICED = 0.4
"""How often CHECK notices a mistake without a failed step."""
UNDECIDED = "as it is done here"
"""A step whose arguments are chosen when it is reached."""
_SECTION = re.compile(r"^## (?P<title>.+)$", re.M)
_NAME = re.compile(r"[\w.-]*[/.\d_][\w./-]*|\w{5,}")


@dataclass
class Day:
    """The course of one task."""

    task: Task
    draw: float  # below the hazard's rate the mistake is made
    explore: float
    notice: float
    advice: Advice | None = None
    mistaken: bool = False
    calls: int = 0
    prompt_tokens: int = 0
    guidance: int = 0  # tokens of patterns in the largest prompt
    prompts: list[str] = field(default_factory=list[str])
    replies: list[str] = field(default_factory=list[str])

    @property
    def context(self) -> tuple[int, int]:
        """Tokens of context in all prompts, and of those the ones that no step used.

        Advice is used if the worker relied on it; other context if a name in it is in the task or in a reply.
        """
        names = _names(" ".join(self.replies)) | _names(self.task.text)
        relied_on = set(self.advice.used if self.advice else ())
        whole = unused = 0
        for prompt in self.prompts:
            for is_advice, line in _context(prompt):
                tokens = estimate_tokens(line)
                used = line in relied_on or (not is_advice and bool(_names(line) & names))
                whole += tokens
                unused += 0 if used else tokens
        return whole, unused


class Worker:
    """Answers asks about one task at a time; a function of the ask, for `Scripted`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.day: Day | None = None

    def begin(self, number: int, task: Task) -> Day:
        """Begin a task."""
        random = Random(f"worker {self.seed} {number}")
        self.day = Day(task, random.random(), random.random(), random.random())
        return self.day

    def __call__(self, ask: Ask) -> Mapping[str, Any]:
        """The reply to an ask."""
        day = self.day
        assert day is not None
        day.calls += 1
        prompt = prompt_text(ask)
        day.prompts.append(prompt)
        day.prompt_tokens += prompt_tokens(ask, estimate_tokens)
        patterns = [line for part, line in memory_lines(prompt) if part == "patterns"]
        day.guidance = max(day.guidance, estimate_tokens("\n".join(patterns)) if patterns else 0)
        answer = {"do": _do, "check": _check}.get(ask.part, _plan)
        reply = answer(day, ask)
        day.replies.append(to_json(dict(reply)))
        return reply


def _plan(day: Day, ask: Ask) -> Mapping[str, Any]:
    task = day.task
    if ask.attempt > 1:
        return _plan_of(task, task.second or task.good)
    day.advice = advice = advice_in(prompt_text(ask), task.kind, task.text)
    rate = 0.0 if advice.warns else 1.0 if advice.score < 0 else HAZARDS[task.kind].rate
    day.mistaken = day.draw < rate
    steps = list(task.bad if day.mistaken else task.good)
    if advice.way_shown or day.explore >= EXPLORES:
        return _plan_of(task, steps)
    about = [call("read", path=name) for name in ABOUT[: 1 + int(day.explore * 5)]]
    first = {"tool": steps[0]["tool"], "what": UNDECIDED}
    later = [_moved(step, len(about)) for step in steps[1:]]
    return _plan_of(task, [*about, first, *later], len(about))


def _do(day: Day, ask: Ask) -> Mapping[str, Any]:
    """The undecided step; or the edit of a line as it is in the file that was read."""
    if ask.document.planned[ask.step].what == UNDECIDED:
        return (day.task.bad if day.mistaken else day.task.good)[0]
    lines = prompt_text(ask).splitlines()
    old = re.sub(r"^\s*\d+[\t|: ]\s*", "", next((line for line in lines if "eadline" in line), ""))
    success = day.task.success[0]
    return call("edit", path=success["file"], old=old, new=f"Deadline: {success['has']}")


def _check(day: Day, ask: Ask) -> Mapping[str, Any]:
    steps, base = ask.document.steps.values(), ask.document.meta.base
    failed = [step for step in steps if step.n > base and step.state == "failed"]
    if failed and ask.attempt > 1:
        return {"validation": "fail", "issues": ["it failed again"], "decision": "ESCALATE", "output": ""}
    if failed:
        issue = f"step {failed[0].n} failed"
        return _retry(issue, f"{issue}: {failed[0].result or ''}"[:300])
    if ask.attempt == 1 and day.mistaken and day.task.kind != "fix" and day.notice < NOTICED:
        return _retry("that is not what was asked", "done another way this time")
    return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}


def _retry(issue: str, learned: str) -> Mapping[str, Any]:
    reply = {"validation": "fail", "issues": [issue], "decision": "RETRY", "learned": learned}
    return {**reply, "output": ""}


def _plan_of(task: Task, steps: Sequence[Step], before: int = 0) -> Mapping[str, Any]:
    """The plan with these steps, of which the first `before` are not those of the task."""
    success = [{**each, "step": each["step"] + before} if "step" in each else each for each in task.success]
    plan = {"task": task.text, "context": [], "approach": "as usual", "confidence": "high"}
    return {**plan, "steps": list(steps), "success": success}


def _moved(step: Step, by: int) -> Step:
    """A step with references to steps that were moved behind `by` others."""

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"steps\[(\d+)\]", lambda match: f"steps[{int(match[1]) + by}]", value)
        return value

    if "args" not in step:
        return step
    return {**step, "args": {key: moved(value) for key, value in step["args"].items()}}


def _context(prompt: str) -> Iterator[tuple[bool, str]]:
    """The lines of a prompt beside the task and the plan, and whether a line is advice."""
    parts = _SECTION.split(prompt)
    for title, text in zip(parts[1::2], parts[2::2], strict=False):
        if title.startswith("Context from memory"):
            head = f"## {title}{text}"
            yield from ((part in ("patterns", "similar tasks"), line) for part, line in memory_lines(head))
        elif title.startswith(("Context", "Steps", "Learned", "Attempt")):
            yield from ((False, line) for line in text.splitlines() if line.strip("`").strip())


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text))
