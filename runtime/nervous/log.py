"""The decision log of a workspace: what it shows to oversight, and what is learned of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernel.errors import FractalError, UsageError
from runtime.memory.run_memory import RunMemory
from runtime.memory.store.record import parsed
from runtime.nervous.decisions import REVIEW_AGAIN, Decision, Settled, decisions, settled
from runtime.nervous.messages import Messages, tier_of
from runtime.text.lines import flat
from runtime.workspace.deciders import Decider

LATELY, FAILED = 5, 2
"""Of the last five tasks of a type, so many failures send the next plan of that type up."""
SHOWN = 3
"""Earlier decisions, or answers, that oversight is shown."""
COMPARED = 200
"""Answered questions that are compared with a new one, the newest."""


class DecisionLog:
    """The decisions of one workspace. `messages` opens their store; `folder` exists once there are any."""

    def __init__(self, memory: RunMemory, messages: Callable[[], Messages], folder: Path) -> None:
        self.memory, self._messages, self._folder = memory, messages, folder

    def decisions(self, task_type: str = "", run: str = "") -> list[Decision]:
        """The decisions, oldest first; of one task type or one run only, if named."""
        if not self._folder.is_dir():
            return []
        found = decisions(self._messages().all(**({"run": run} if run else {})))
        return [each for each in found if task_type in ("", each.task_type)]

    def settled(self) -> list[Settled]:
        """How often oversight has approved which calls in a row."""
        return settled(self._messages().all()) if self._folder.is_dir() else []

    def review_again(self, task_type: str, by: Decider) -> None:
        """End what was learned about calls in tasks of a type: they are reviewed again."""
        types = sorted({each.task_type for each in self.settled()})
        if task_type not in types:
            known = f"there are {', '.join(types)}" if types else "there are none yet"
            raise UsageError(f"oversight has approved no calls in tasks of the type {task_type}; {known}")
        self._messages().write(
            stream="guidance",
            type="revoke",
            tier=tier_of(by),
            sender=by.name or by.kind,
            text=f"calls in tasks of the type {task_type} are reviewed again",
            data={REVIEW_AGAIN: task_type, "by": by.values},
        )

    def task_type(self, task: str) -> str:
        """The type of a task, as learning calls it."""
        return self.memory.brain.kinds.of(task)[0]

    def failed_lately(self, task: str) -> str:
        """That tasks of this type have failed lately; "" if not, or if that is not known."""
        if not self.memory.there:
            return ""
        from runtime.memory.learning.attempts import StoredAttempt

        type = self.task_type(task)
        shelf, of_type = self.memory.brain.shelf, {"type": type, "parent": ""}
        try:
            rows = shelf.rows(StoredAttempt.KIND, of_type, vectors=False)
            tried = [each for row in rows if (each := parsed(row.body)) and each.get("last")]
        except FractalError:
            return ""  # the end of the run says what is wrong with the store
        last = sorted(tried, key=lambda each: str(each.get("at")))[-LATELY:]
        failed = sum(each.get("good") is False for each in last)
        return f"{failed} of the last {len(last)} tasks of the type {type} failed" if failed >= FAILED else ""

    def like(self, task_type: str) -> str:
        """The last decisions about tasks of a type, a line each."""
        decided = [each for each in self.decisions(task_type) if each.kind == "proposal" and each.verdicts]
        return "\n".join(f"- {each.line()}" for each in decided[-SHOWN:])

    def answers(self, question: str) -> str:
        """What humans answered to the questions that are most like this one, a line each."""
        known = [
            (each, each.human)
            for each in self.decisions()[-COMPARED:]
            if each.kind == "question" and each.human and each.human.type == "answer"
        ]
        if not known:
            return ""
        rows = self.memory.brain.embedder.embed([question, *(each.chose for each, _ in known)])
        scores = rows[1:] @ rows[0]
        nearest = sorted(range(len(known)), key=lambda at: -scores[at])[:SHOWN]
        lines = ((known[at][0].chose, known[at][1]) for at in sorted(nearest))
        return "\n".join(
            f"- {flat(asked)} → {flat(said.text)} ({said.by}, {said.at[:10]})" for asked, said in lines
        )

    def teach(self, run: str) -> None:
        """Make a pattern of the guidance in a run that has ended, if two other runs had the same."""
        from runtime.nervous.teaching import agreed

        learning = self.memory.learning
        for type in sorted({each.task_type for each in self.decisions(run=run) if each.guidance}):
            pattern = agreed(self.decisions(type), type, learning.merging.same)
            if pattern and not learning.merging.equal(pattern, learning.library.all()):
                learning.add(pattern)
