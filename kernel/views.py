"""Steps as references and CHECK's output see them: whole results, also those that lie in artifacts/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernel.document import Step
from kernel.errors import OperationFailed
from kernel.references import StepView, in_shell, problem_in, references
from kernel.screening import redact_forms
from kernel.world import Held


class Views(Mapping[int, StepView]):
    """What references see of the steps: whole results, also those that lie in artifacts/.

    With `exact` they hold what only has the form of a secret: for what is carried out, not for what is shown.
    """

    def __init__(self, held: Held, *, exact: bool = False) -> None:
        self._held, self._exact = held, exact

    def __getitem__(self, n: int) -> StepView:
        step = self._held.doc.steps[n]
        if step.result is None:
            raise OperationFailed(f"step {n} has no result yet")
        return View(self._held, step, exact=self._exact)

    def __iter__(self) -> Iterator[int]:
        return iter(self._held.doc.steps)

    def __len__(self) -> int:
        return len(self._held.doc.steps)


class View:
    """One step, as references see it."""

    def __init__(self, held: Held, step: Step, *, exact: bool = False) -> None:
        self._held, self._step, self._exact = held, step, exact

    @property
    def result(self) -> str:
        """The whole text that the step returned."""
        store, evidence = self._held.world.store, self._step.evidence
        text = store.unshelve(evidence["whole"]) if evidence.get("whole") else self._step.result or ""
        if self._exact and evidence.get("unredacted"):
            exact = store.unshelve(evidence["unredacted"])
            return exact if redact_forms(exact) == text else text  # a person may have changed what is shown
        return text

    @property
    def evidence(self) -> Mapping[str, Any]:
        """What the kernel recorded beside it."""
        return self._step.evidence


def unready(held: Held, value: Any) -> str:
    """Why the references in a value cannot be filled in now; "" when they can."""
    if problem := problem_in(value):
        return problem
    steps = held.doc.steps
    missing = [n for n in sorted(references(value)) if n not in steps or steps[n].result is None]
    return f"it refers to step {missing[0]}, which has no result" if missing else ""


def results_of(held: Held, command: str) -> dict[int, str]:
    """The results that a shell command is given, by the steps that it names. Raises `OperationFailed`."""
    used = in_shell(command)
    if problem := unready(held, used):
        raise OperationFailed(problem)
    return {n: Views(held, exact=True)[n].result for n in sorted(references(used))}
