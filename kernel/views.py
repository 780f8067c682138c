"""Steps as references and CHECK's output see them: whole results, also those that lie in artifacts/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernel.document import Step
from kernel.references import StepView
from kernel.world import Held


class Views(Mapping[int, StepView]):
    """What references see of the steps: whole results, also those that lie in artifacts/."""

    def __init__(self, held: Held) -> None:
        self._held = held

    def __getitem__(self, n: int) -> StepView:
        return View(self._held, self._held.doc.steps[n])

    def __iter__(self) -> Iterator[int]:
        return iter(self._held.doc.steps)

    def __len__(self) -> int:
        return len(self._held.doc.steps)


class View:
    """One step, as references see it."""

    def __init__(self, held: Held, step: Step) -> None:
        self._held, self._step = held, step

    @property
    def result(self) -> str:
        """The whole text that the step returned."""
        whole = self._step.evidence.get("whole")
        return self._held.world.store.unshelve(whole) if whole else self._step.result or ""

    @property
    def evidence(self) -> Mapping[str, Any]:
        """What the kernel recorded beside it."""
        return self._step.evidence
