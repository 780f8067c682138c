"""The worker: a model in code that makes known mistakes unless its prompt warns of them, and what it cost.

The draws belong to the task, not to the arm: with memory and without, the same worker has the same bad days.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.apprentice.reader import HAZARDS, LOOKS_AROUND, Heard, hear, memory_lines
from bench.apprentice.tasks import Step, Task, call
from kernel.asking.responder import Ask
from kernel.document.escaping import to_json
from kernel.loop.budget import estimate_tokens

ABOUT = ("README.md", "docs/contact.md", "docs/history.md", "docs/rooms.md")
"""What a worker reads that does not know where to begin."""
NOTICED = 0.4
"""How often CHECK sees a mistake of which no step failed."""
_PIECE = re.compile(r"^## (?P<title>.+)$", re.M)
_NAME = re.compile(r"[\w.-]*[/.\d_][\w./-]*|\w{5,}")
_FENCED = re.compile(r"`{3,}\n(.*?)\n`{3,}", re.S)


@dataclass
class Day:
    """One task as it went."""

    task: Task
    draw: float  # below the hazard's rate the mistake is made
    look: float
    notice: float
    heard: Heard | None = None
    mistaken: bool = False
    looked: bool = False
    steps: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    guidance: int = 0  # tokens of patterns in the largest prompt
    prompts: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])  # replies, as JSON

    @property
    def context(self) -> tuple[int, int]:
        """Tokens of context in all prompts, and those of them that no step used."""
        used = _names(" ".join(self.told)) | _names(self.task.text)
        relied = set(self.heard.used if self.heard else ())
        whole = unused = 0
        for prompt in self.prompts:
            for advice, line in _context(prompt):
                weight = estimate_tokens(line)
                whole += weight
                unused += 0 if line in relied or (not advice and _names(line) & used) else weight
        return whole, unused


class Worker:
    """Answers asks about one task at a time; a function of the ask, for `Scripted`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.day: Day | None = None

    def begin(self, number: int, task: Task) -> Day:
        """A new task."""
        random = Random(f"worker {self.seed} {number}")
        self.day = Day(task, random.random(), random.random(), random.random())
        return self.day

    def __call__(self, ask: Ask) -> Mapping[str, Any]:
        """The reply to an ask."""
        day = self.day
        assert day is not None
        day.calls += 1
        day.prompts.append(ask.user)
        day.prompt_tokens += estimate_tokens(ask.system) + estimate_tokens(ask.user)
        shown = [line for part, line in memory_lines(ask.user) if part == "patterns"]
        day.guidance = max(day.guidance, estimate_tokens("\n".join(shown)) if shown else 0)
        if ask.phase == "do":
            reply = self._do(day, ask)
        elif ask.phase == "check":
            reply = self._check(day, ask)
        else:
            reply = self._plan(day, ask)
        day.told.append(to_json(dict(reply)))
        return reply

    def _plan(self, day: Day, ask: Ask) -> Mapping[str, Any]:
        task = day.task
        if ask.attempt > 1:
            return _planned(task, task.mended or task.good)
        day.heard = heard = hear(ask.user, task.kind, task.text)
        rate = 0.0 if heard.warned else 1.0 if heard.score < 0 else HAZARDS[task.kind].rate
        day.mistaken = day.draw < rate
        day.looked = not heard.way_shown and day.look < LOOKS_AROUND
        steps = list(task.bad if day.mistaken else task.good)
        if not day.looked:
            return _planned(task, steps)
        about = [call("read", path=name) for name in ABOUT[: 1 + int(day.look * 5)]]
        first = {"tool": steps[0]["tool"], "what": "as it is done here"}  # look first, then decide
        later = [_later(step, len(about)) for step in steps[1:]]
        return _planned(task, [*about, first, *later], len(about))

    def _do(self, day: Day, ask: Ask) -> Mapping[str, Any]:
        """The first step, after looking about; or the edit, with the text as it stands in the file."""
        step = ask.document.planned[ask.step]
        if step.what == "as it is done here":
            return (day.task.bad if day.mistaken else day.task.good)[0]
        path = day.task.success[0]["file"]
        told = _FENCED.findall(ask.user)
        line = next((each for text in told for each in text.splitlines() if "eadline" in each), "")
        value = str(day.task.success[0]["has"])
        line = re.sub(r"^\s*\d+[\t|: ]\s*", "", line)
        return call("edit", path=path, old=line, new=f"Deadline: {value}")

    def _check(self, day: Day, ask: Ask) -> Mapping[str, Any]:
        steps, base = ask.document.steps.values(), ask.document.meta.base
        failed = [step for step in steps if step.n > base and step.state == "failed"]
        if failed and ask.attempt == 1:
            why = {"validation": "fail", "issues": [f"step {failed[0].n} failed"], "decision": "RETRY"}
            return {
                **why,
                "learned": f"step {failed[0].n} failed: {failed[0].result or ''}"[:300],
                "output": "",
            }
        if failed:
            return {"validation": "fail", "issues": ["it failed again"], "decision": "ESCALATE", "output": ""}
        if ask.attempt == 1 and day.mistaken and day.task.kind != "fix" and day.notice < NOTICED:
            why = {"validation": "fail", "issues": ["that is not what was asked"], "decision": "RETRY"}
            return {**why, "learned": "done another way this time", "output": ""}
        return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}


def _planned(task: Task, steps: Sequence[Step], before: int = 0) -> Mapping[str, Any]:
    success = [
        {**each, "step": each["step"] + before} if "step" in each else dict(each) for each in task.success
    ]
    plan = {"task": task.text, "context": [], "approach": "as usual", "confidence": "high"}
    return {**plan, "steps": list(steps), "success": success}


def _later(step: Step, by: int) -> Step:
    """A step whose references are moved behind `by` more steps."""
    if not by:
        return step

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"steps\[(\d+)\]", lambda hit: f"steps[{int(hit[1]) + by}]", value)
        return value

    return (
        {**step, "args": {key: moved(value) for key, value in step["args"].items()}}
        if "args" in step
        else step
    )


def _context(prompt: str) -> Iterator[tuple[bool, str]]:
    """What stands in a prompt beside the task and the plan, by its lines, and whether a line is advice.

    Advice is used where it was gone by; anything else where a name in it stands in what was done.
    """
    parts = _PIECE.split(prompt)
    for title, text in zip(parts[1::2], parts[2::2], strict=False):
        if title.startswith("Context from memory"):
            head = f"## {title}{text}"
            yield from ((part in ("patterns", "similar tasks"), line) for part, line in memory_lines(head))
        elif title.startswith(("Context", "Steps", "Learned", "Attempt")):
            yield from ((False, line) for line in text.splitlines() if line.strip("`").strip())


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text))
