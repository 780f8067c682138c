"""Streams of real runs by a scripted worker with typical mistakes, for tests of learning."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playing import ACCEPT, Play, Played, plan

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from runtime.api.fractal import Fractal

SETTINGS = {"retries": 0, "embedder": "lexical", "fsync": False}
REJECT = {"validation": "fail", "issues": ["it does not hold"], "decision": "ESCALATE", "learned": "no"}


def step(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


@dataclass
class Worker:
    """A scripted worker that edits files. Without advice it often guesses the text instead of reading it."""

    seed: int = 1
    mistakes: float = 0.5
    follows_advice: bool = True  # whether it follows the advice in its prompt
    prompts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def answers(self, name: str, good: bool) -> Callable[[Ask], Any]:
        def answer(ask: Ask) -> Any:
            if ask.phase == "check":
                return REJECT if "- FAIL" in prompt_text(ask) else ACCEPT
            self.prompts.append(prompt_text(ask))
            reads = good or (self.follows_advice and "use `read` on the same file" in self.prompts[-1])
            steps = [step("list", path=".")] if self.random.random() < 0.4 else []
            if reads:
                steps.append(step("read", path=name))
            old = "status: draft" if reads else "status:draft"
            steps.append(step("edit", path=name, old=old, new="status: final"))
            if self.random.random() < 0.3:
                steps.append(step("stat", path=name))
            return plan(*steps, success=[{"file": name, "has": "status: final"}])

        return answer


def stream(
    play: Play,
    work: Path,
    count: int,
    worker: Worker | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Played]:
    worker = worker or Worker()
    played: list[Played] = []
    for number in range(count):
        name = f"note{number}.md"
        (work / name).write_text(f"# Note {number}\n\nstatus: draft\n")
        task = f"in {name}, change the status from draft to final"
        good = worker.random.random() >= worker.mistakes
        played.append(play(worker.answers(name, good), task, settings={**SETTINGS, **(settings or {})}))
    return played


def library_of(work: Path) -> Any:
    return Fractal(work, settings=SETTINGS).memory.library
