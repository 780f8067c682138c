"""A worker's plans and questions go to oversight first, and to a human when it passes them on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, plan

from kernel.asking.responder import Ask, Ladder
from kernel.errors import Exit
from runtime.api.fractal import Fractal
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.nervous.messages import Message
from runtime.workspace.deciders import TERMINAL

PUSH = {"tool": "bash", "args": {"command": "git push origin main; true"}}
SECRET = {"tool": "bash", "args": {"command": "cat .env; true"}}
Run = Callable[..., Any]


@pytest.fixture
def fractal(tmp_path: Path) -> Callable[..., Fractal]:
    def make(worker: Any, oversight: Any = None, **settings: Any) -> Fractal:
        rungs = [Scripted(worker, name="worker")]
        rungs += [Scripted(oversight, name="large", tier="oversight")] if oversight else []
        (tmp_path / "work").mkdir(exist_ok=True)
        settings = {"embedder": "lexical", "fsync": False, "sandbox": "off", **settings}
        return Fractal(tmp_path / "work", settings=settings, ladder=Ladder((*rungs, Human())))

    return make


def doing(step: Any, **more: Any) -> Callable[[Ask], Any]:
    return lambda ask: ACCEPT if ask.phase == "check" else plan(step, **more)


def log(fractal: Fractal) -> list[tuple[str, str, str]]:
    return [(each.tier, each.type, each.text) for each in fractal.nerves.messages.all()]


async def test_a_dangerous_plan_that_oversight_approves_is_carried_out(fractal: Any) -> None:
    asked: list[Ask] = []

    def oversight(ask: Ask) -> Any:
        asked.append(ask)
        return {"decision": "approve", "why": ""}

    one = fractal(doing(PUSH), oversight)
    result = await one.run("publish the branch main")
    assert result.exit == Exit.ACCEPTED
    assert "git push origin main" in asked[0].user
    tiers = [(tier, type) for tier, type, _ in log(one)]
    assert tiers[:2] == [("worker", "proposal"), ("oversight", "approve")]
    assert tiers[-1] == ("worker", "outcome")
    assert (
        'approved by oversight "large"' in one.path(result.run).read_text()
        or "oversight" in one.path(result.run).read_text()
    )


async def test_a_nudge_plans_again_with_the_guidance(fractal: Any) -> None:
    def worker(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        return plan(PUSH if ask.attempt == 1 else {"tool": "bash", "args": {"command": "echo listed"}})

    one = fractal(worker, lambda ask: {"decision": "nudge", "why": "show first what would be published"})
    result = await one.run("publish what is new")
    assert result.exit == Exit.ACCEPTED
    document = one.path(result.run).read_text()
    assert "show first what would be published" in document
    assert "sent back" in document


async def test_what_is_serious_is_left_to_a_human(fractal: Any) -> None:
    one = fractal(doing(SECRET), lambda ask: {"decision": "approve", "why": ""})
    result = await one.run("show the settings")
    assert (result.exit, result.waiting) == (Exit.WAITING, "approval")
    assert [type for _, type, _ in log(one)][-1] in ("proposal",)
    one.tell(result.run, "approve", by=TERMINAL)
    assert (await one.resume(result.run)).exit == Exit.ACCEPTED
    assert ("human", "approve", "") in log(one)


async def test_a_question_is_answered_by_oversight_or_passed_on(fractal: Any) -> None:
    def worker(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if "answer" in [note.key for note in ask.document.section(1).notes]:
            echo = {"tool": "bash", "args": {"command": "echo 60"}}
            return {"calls": [echo, {"tool": "done", "args": {"answer": "60"}}]}
        return {**plan(), "steps": [], "success": [], "question": "how many minutes has an hour?"}

    known = fractal(worker, lambda ask: {"known": True, "answer": "60"})
    result = await known.run("write how many minutes there are")
    assert (result.exit, result.output) == (Exit.ACCEPTED, "60")
    assert known.root_document(result.run).meta.taker == "worker"
    unknown = fractal(worker, lambda ask: {"known": False, "answer": "only you know"})
    result = await unknown.run("write how many minutes there are today")
    assert (result.exit, result.waiting) == (Exit.WAITING, "person")
    assert ("oversight", "observation", "only you know") in log(unknown)


async def test_with_one_model_it_is_both_and_without_the_setting_nobody_is_asked(fractal: Any) -> None:
    def both(ask: Ask) -> Any:
        if ask.phase == "review":
            return {"decision": "approve", "why": ""}
        return doing(PUSH)(ask)

    result = await fractal(both, review="risky").run("publish the branch main")
    assert result.exit == Exit.ACCEPTED
    assert any(isinstance(each, Message) for each in fractal(both).nerves.messages.all(type="approve"))
