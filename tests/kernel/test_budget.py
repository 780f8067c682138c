"""Accounting of calls, tokens and cost when subtasks are redone, stopped, damaged or lost."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Played, plan

from kernel.asking.responder import Ask, Reply, Usage
from kernel.errors import ProviderError
from kernel.loop.budget import Amount
from kernel.store.call_log import ReplyLog
from runtime.models.prices import Price
from runtime.models.scripted import Scripted, When

READ = {"tool": "read", "args": {"path": "a.txt"}, "needs": []}
DONE = {"tool": "done", "args": {"answer": "a"}}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("a\n", "utf-8")
    return folder


def subtasks(*names: str) -> dict[str, Any]:
    return plan(*({"subtask": name, "needs": []} for name in names))


def logged(played: Played) -> Amount:
    """The cost of all calls in the log."""
    return Amount.of(ReplyLog(played.folder / "calls.jsonl").spent())


def recorded(played: Played) -> Amount:
    """The cost that the root document records."""
    spent = played.fractal.document(played.result.id).meta.spent
    return Amount(spent["calls"], spent["prompt_tokens"] + spent["completion_tokens"], spent["usd"])


def reword(played: Played, task: str) -> None:
    """Change the task of the root's first step, a subtask."""
    replan(played, rf"\g<1>{task}\n")


def replan(played: Played, new: str) -> None:
    text = played.result.path.read_text("utf-8")
    changed = re.sub(r"(planned subtask\n  - what:\n    > )[^\n]*\n", new, text, count=1)
    assert changed != text
    played.result.path.write_text(changed, "utf-8")


def deep(ask: Ask) -> Any:
    """The root has one subtask, which has two that read; a `small` one reads directly."""
    if ask.phase == "check":
        failed = {**ACCEPT, "validation": "fail", "decision": "ESCALATE", "issues": ["a step failed"]}
        return failed if ask.evidence["failed_steps"] else ACCEPT
    task = ask.document.text(1, "task")
    if not ask.document.meta.parent:
        return subtasks("something large")
    return subtasks("one half", "other half") if "large" in task else plan(READ)


def test_redone_subtask_keeps_the_cost_of_its_first_children(play, work):
    first = play(deep)
    before = logged(first)
    assert recorded(first) == before
    reword(first, "something small")
    again = play(deep, resume=first.result.run)
    assert again.result.exit == 0
    assert logged(again).calls > before.calls, "it was redone"
    assert recorded(again) == logged(again)


@pytest.mark.parametrize("limit", range(8, 18))
def test_redone_subtask_stays_within_the_call_limit(play, work, limit):
    first = play(deep, settings={"calls": limit})
    assert first.result.exit == 0
    reword(first, "something small")
    again = play(deep, resume=first.result.run, settings={"calls": limit})
    assert logged(again).calls <= limit
    assert recorded(again) == logged(again)


def test_failed_and_redone_subtask_is_charged_once(play, work):
    def answer(ask: Ask) -> Any:
        if ask.document.meta.parent and "good" not in ask.document.text(1, "task"):
            return {"task": "t", "cannot": "it is not possible"}
        return deep(ask) if ask.document.meta.parent or ask.phase == "check" else subtasks("a bad one")

    first = play(answer)
    assert first.root.steps[1].state == "failed"
    reword(first, "a good one")
    again = play(answer, resume=first.result.run)
    assert again.root.steps[1].state == "done", again.root.steps[1]
    assert recorded(again) == logged(again)


def test_subtask_replaced_by_a_call_stays_charged(play, work):
    first = play(deep)
    replan(first, 'planned read `{"path": "a.txt"}`\n')
    again = play(deep, resume=first.result.run)
    assert again.root.steps[1].tool == "read"
    assert recorded(again) == logged(again)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_subtask_can_be_redone_repeatedly(play, work, times):
    played = play(deep)
    for _ in range(times):
        reword(played, "something small")
        played = play(deep, resume=played.result.run)
        assert recorded(played) == logged(played)
        reword(played, "something large")
        played = play(deep, resume=played.result.run)
        assert recorded(played) == logged(played)


def test_cost_of_a_damaged_subtask_is_counted_when_the_run_stops(play, work):
    class Breaking(Scripted):
        async def answer(self, ask: Ask) -> Any:
            if ask.document.meta.parent:
                folder = next((work / ".fractal/state/runs").iterdir())
                (folder / f"{ask.loop}.md").write_text("---\nbroken\n")
                await asyncio.Event().wait()
            return await super().answer(ask)

    played = play(Breaking(deep), settings={"seconds": 2.0})
    assert played.fractal.document(played.result.id).meta.status == "exhausted"
    assert logged(played).calls == 2
    assert recorded(played) == logged(played)


def test_root_records_overrun_of_a_subtask(play, work):
    class Greedy(Scripted):
        async def answer(self, ask: Ask) -> Any:
            reply = await super().answer(ask)
            assert isinstance(reply, Reply)
            more = Usage(50_000, 0) if ask.document.meta.parent else reply.usage
            return replace(reply, usage=more)

    played = play(Greedy(deep))
    spent = ReplyLog(played.folder / "calls.jsonl").spent()
    assert played.root.meta.spent["overrun_tokens"] == spent.overrun_tokens > 10_000


def test_failed_call_is_charged_its_reported_cost(play, work):
    error = ProviderError("the reply was withheld", usage=Usage(700, 30, 0.01))
    with pytest.raises(ProviderError):
        play([Scripted([When(phase="turn", error=error)])])
    (log,) = work.glob(".fractal/state/runs/*/calls.jsonl")
    spent = ReplyLog(log).spent()
    assert (spent.calls, spent.prompt_tokens, spent.completion_tokens, spent.usd) == (1, 700, 30, 0.01)


@pytest.mark.parametrize("usage", [Usage(-500, -20, -1.0), Usage(10, 10, float("nan"))])
def test_invalid_usage_of_a_provider_refunds_nothing(play, work, usage):
    class Odd(Scripted):
        async def answer(self, ask: Ask) -> Any:
            reply = await super().answer(ask)
            assert isinstance(reply, Reply)
            return replace(reply, usage=usage)

    played = play(Odd(lambda ask: ACCEPT if ask.phase == "check" else plan(READ), price=Price(1.0, 1.0)))
    assert played.result.exit == 0
    spent = logged(played)
    assert spent.calls == 2
    assert spent.tokens >= 0 and spent.usd >= 0, spent


def test_subtask_that_code_concludes_needs_one_call(play, work):
    """One turn reads and answers, and code judges it: the call that is kept for CHECK is not made."""

    def answer(ask: Ask) -> Any:
        if ask.document.meta.parent:
            return {"calls": [READ, DONE]}
        return {"calls": [{"subtask": "read it"} if ask.phase == "plan" else DONE]}

    played = play(answer, "what does a.txt hold?", settings={"check": "auto", "calls": 4})
    assert played.result.exit == 0, played.result
    assert played.root.steps[1].state == "done"
    assert logged(played).calls == 3
    assert recorded(played) == logged(played)


def test_subtask_whose_line_was_lost_continues_within_its_new_share(play, work):
    class Stopping(Scripted):
        async def answer(self, ask: Ask) -> Any:
            if ask.document.meta.parent and ask.phase == "check":
                raise ProviderError("away")
            return await super().answer(ask)

    with pytest.raises(ProviderError):
        play(Stopping(deep), settings={"calls": 40})
    run = next((work / ".fractal/state/runs").iterdir())
    (root,) = run.glob("system-*.md")
    text = root.read_text()
    root.write_text(re.sub(r"(- 1\. running.*?)(?=\n## |\n<!-- committed|\Z)", "", text, flags=re.S))
    again = play(deep, resume=run.name, settings={"calls": 60})
    assert again.result.exit == 0
    assert recorded(again) == logged(again)
    step = again.root.steps[1]
    assert step.share == again.documents[step.link.removesuffix(".md")].meta.budget


# ---- limits that change between sessions -----------------------------------------------------------------


def unpriced(ask: Ask) -> Any:
    if not ask.document.note(1, "answer"):
        return {"question": "which?"}
    return ACCEPT if ask.phase == "check" else {"calls": [READ, DONE]}


def test_removed_cost_limit_applies_to_an_existing_run(play, work):
    first = play(Scripted(unpriced, price=Price(1.0, 1.0)))
    first.fractal.tell(first.result.run, "answer", text="this one")
    settings = first.fractal.workspace.root / "fractal.yaml"
    settings.write_text("usd: null\n", "utf-8")
    again = play(Scripted(unpriced, price=None), resume=first.result.run)
    assert again.result.exit == 0
    assert "usd" not in again.root.meta.budget, "a removed limit is not shown"


def test_run_without_a_cost_limit_needs_no_price(play, work):
    settings = work / ".fractal" / "fractal.yaml"
    settings.parent.mkdir()
    (settings.parent / "state").mkdir()
    settings.write_text("usd: null\n", "utf-8")
    first = play(Scripted(unpriced, price=None))
    assert first.result.status == "waiting"
    first.fractal.tell(first.result.run, "answer", text="this one")
    settings.unlink()
    again = play(Scripted(unpriced, price=None), resume=first.result.run)
    assert again.result.exit == 0


def test_resumed_run_keeps_its_time_limit(play, work):
    first = play(unpriced, settings={"seconds": 2.0})
    first.fractal.tell(first.result.run, "answer", text="this one")

    class Slow(Scripted):
        async def answer(self, ask: Ask) -> Any:
            await asyncio.Event().wait()
            return await super().answer(ask)

    again = play(Slow(unpriced), resume=first.result.run)
    assert again.result.status == "exhausted"
    assert "time" in again.result.reason


@pytest.mark.parametrize("calls", range(2, 8))
def test_larger_limit_reaches_exhausted_subtasks(play, work, calls):
    first = play(deep, settings={"calls": calls})
    assert first.result.status == "exhausted"
    again = play(deep, resume=first.result.run, settings={"calls": 40})
    assert recorded(again) == logged(again)
    assert again.result.exit == 0, again.result
