"""Every decision of the golden runs can be traced from their documents alone, each to its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.document.model import Document
from kernel.document.parser import parse
from runtime.cli.explain import Reason, reasons

REPOSITORY = Path(__file__).parents[3]
RUNS = {name: REPOSITORY / name for name in ("docs/example-run", "tests/golden/cheapest-laptop")}


def load(folder: Path) -> list[Document]:
    found = [parse(path.read_bytes(), str(path)) for path in sorted(folder.glob("*.md"))]
    return sorted(found, key=lambda document: (document.meta.depth, document.meta.id))


GUIDED = [
    pytest.param(documents, document.meta.id, id=document.meta.id)
    for documents in map(load, RUNS.values())
    for document in documents
    if document.meta.taker
]


def answer(found: list[Reason], question: str) -> Reason:
    (one,) = [reason for reason in found if reason.question == question]
    assert one.answer.strip()
    assert one.source
    return one


@pytest.mark.parametrize(("documents", "loop_id"), GUIDED)
def test_every_decision_has_a_reason_and_a_place(documents: list[Document], loop_id: str) -> None:
    document = next(each for each in documents if each.meta.id == loop_id)
    found = reasons(documents, loop_id)
    task = answer(found, "Why this task?")
    assert task.source.startswith(f"{loop_id}.md")
    plan = answer(found, "Why this plan?")
    assert document.text(2, "approach").splitlines()[0] in plan.answer
    assert document.text(2, "confidence") in plan.answer
    for n, step in document.planned.items():
        why = answer(found, f"Why step {n}?")
        assert (step.tool or "subtask") in why.answer
        assert all(str(need) in why.answer for need in step.needs)
    for n, step in document.steps.items():
        if step.state != "done":
            assert step.state in answer(found, f"Why is step {n} {step.state}?").question
    for rung in document.meta.rungs:
        names = {"fused": "Understand and Plan", "turn": "Do"}
        phase = names.get(rung["phase"], rung["phase"].capitalize())
        assert any(r.question.startswith("Why ") and phase in r.question for r in found), rung
    verdict = answer(found, "Why this verdict?")
    assert document.text(4, "decision") in verdict.answer
    for line in document.text(4, "evidence").splitlines():
        if line.startswith("- pass"):
            assert "holds now" in verdict.answer
    assert answer(found, "Why this budget?").source.startswith(f"{loop_id}.md") or document.meta.parent


def test_the_golden_runs_are_there() -> None:
    assert len(GUIDED) >= 5
