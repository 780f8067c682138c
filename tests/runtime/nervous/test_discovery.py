"""An agent knows some tools, is granted more, and cannot call what it does not know."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from lanes import async_until
from playing import ACCEPT, plan

from kernel.asking.conversation import INDEX_HEAD
from kernel.asking.responder import Ask, Ladder
from kernel.asking.turn import SAID, SUBTASK, USE
from kernel.errors import Exit, UsageError
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.nervous.decisions import REVIEW_AGAIN
from runtime.nervous.discovery import decided
from runtime.nervous.messages import Message
from runtime.workspace.deciders import TERMINAL, Decider

COUNT = {"tool": "count", "args": {"what": "lines", "path": "notes.md"}}
SETTINGS = {"embedder": "lexical", "fsync": False, "sandbox": "off", "recall": False, "learn": "off"}
Make = Callable[..., Fractal]


@pytest.fixture
def fractal(tmp_path: Path) -> Make:
    def make(worker: Any = None, oversight: Any = None, **settings: Any) -> Fractal:
        rungs = [Scripted(worker, name="worker")] if worker else []
        rungs += [Scripted(oversight, name="large", tier="oversight")] if oversight else []
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / "notes.md").write_text("one\ntwo\n")
        settings = {**SETTINGS, "discovery": "progressive", **settings}
        return Fractal(tmp_path / "work", settings=settings, ladder=Ladder((*rungs, Human())))

    return make


def names(fractal: Fractal, agent: str = "") -> set[str]:
    return {tool.name for tool in fractal.known(agent)}


def planning(*steps: Any, **more: Any) -> Callable[[Ask], Any]:
    return lambda ask: ACCEPT if ask.phase == "check" else plan(*steps, **more)


def indexed(ask: Ask) -> set[str]:
    """The tools that a turn may call: those declared, and those of the index of `use`."""
    index = ask.messages[1]["content"].partition(INDEX_HEAD)[2].partition("\n")[0]
    declared = {each["function"]["name"] for each in ask.tools}
    return declared - {USE, SUBTASK, *SAID} | set(index.split(", ")) - {""}


async def test_a_new_agent_knows_the_starting_set(fractal: Make) -> None:
    asks: list[Ask] = []

    def worker(ask: Ask) -> Any:
        asks.append(ask)
        return ACCEPT if ask.phase == "check" else plan({"tool": "discover-tools", "args": {}})

    one = fractal(worker)
    result = await one.run("say which tools you know")
    start = {"read", "write", "bash", "work", "database", "escalate", "discover-tools"}
    assert names(one) == start
    assert indexed(asks[0]) == start - {"work"}  # that is what turns do
    shown = one.root_document(result.run).steps[1].result or ""
    assert shown.startswith(f"The agent default knows 7 of {len(one.catalogue().tools)} tools:\n- ")
    assert names(fractal(worker, discovery="open")) == set(one.catalogue().tools)


async def test_a_hidden_tool_cannot_be_called_by_name(fractal: Make) -> None:
    one = fractal(planning(COUNT))
    result = await one.run("how many lines has notes.md, by any means")
    assert result.exit != Exit.ACCEPTED
    assert not one.root_document(result.run).steps
    assert "there is no tool 'count'" in one.path(result.run).read_text()
    assert one.grant("count")
    assert (await one.run("how many lines has notes.md, by any means")).exit == Exit.ACCEPTED


@pytest.mark.parametrize("folder", ["tools/count/pattern.md", "operations/count.md"])
async def test_a_draft_of_that_name_does_not_unveil_it(fractal: Make, folder: str) -> None:
    """A plan may call what it drafts: the name of a hidden tool, with a draft that is none."""
    draft = {"tool": "write", "args": {"path": f".fractal/system/{folder}", "content": "no tool"}}
    one = fractal(planning(draft, COUNT))
    result = await one.run("have a look at the notes")
    steps = one.root_document(result.run).steps
    assert 2 not in steps or steps[2].state in ("failed", "struck")


async def test_a_subtask_knows_no_more_than_its_parent(fractal: Make) -> None:
    def worker(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        return plan(COUNT if ask.document.meta.parent else {"subtask": "count it"})

    one = fractal(worker)
    result = await one.run("have a look at the notes")
    assert result.exit != Exit.ACCEPTED
    assert not one.documents(result.run)[1].steps


async def test_a_reflex_does_not_use_what_its_agent_does_not_know(tmp_path: Path) -> None:
    settings = {**SETTINGS, "discovery": "progressive", "model": "reflex"}
    (tmp_path / "notes.md").write_text("one\ntwo\n")
    one = Fractal(tmp_path, settings=settings)
    task = "count the lines of notes.md"
    assert (await one.run(task)).exit == Exit.WAITING
    one.grant("count")
    assert (await one.run(task)).output == "2"


async def test_a_single_call_over_mcp_sees_the_known_tools(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("one\ntwo\n")
    runs = Runs(tmp_path, settings={**SETTINGS, "discovery": "progressive"})
    assert "count" not in (await runs.catalogue()).tools
    with pytest.raises(UsageError, match="there is no tool 'count'"):
        await runs.call("count", dict(COUNT["args"]))
    runs.reading.grant("count", by=Decider("client", "editor"))
    run = await runs.call("count", dict(COUNT["args"]))
    await runs.idle()
    assert runs.state(run).status == "complete"


async def test_oversight_knows_everything(fractal: Make) -> None:
    asks: list[Ask] = []

    def large(ask: Ask) -> Any:
        asks.append(ask)
        return ACCEPT if ask.phase == "check" else plan(COUNT)

    one = fractal(planning({"tool": "escalate", "what": "general: count the lines of notes.md"}), large)
    assert (await one.run("have a look at the notes")).exit == Exit.ACCEPTED
    (shown,) = [indexed(ask) for ask in asks if ask.phase == "turn"]
    assert {"escalate", "request-general"}.isdisjoint(shown)
    assert "edit" in shown


async def test_a_grant_to_one_agent_is_none_to_another(fractal: Make) -> None:
    one, two = fractal(agent="ada"), fractal(agent="bob")
    one.grant("csv", by=TERMINAL, why="she sorts the sales")
    assert "csv" in names(one)
    assert "csv" not in names(two)
    assert "csv" in names(two, "ada")
    assert not one.grant("csv"), "she knows it already"
    with pytest.raises(UsageError, match="there is no tool 'cvs'"):
        one.grant("cvs")
    with pytest.raises(UsageError, match="bob does not know csv"):
        two.revoke("csv")
    one.revoke("csv")
    assert "csv" not in names(one)
    last = one.workshop.journal.entries()[-2:]
    assert [(each.kind, each.unit, each.agent, each.via) for each in last] == [
        ("granted", "tools/csv", "ada", "person"),
        ("revoked", "tools/csv", "ada", "person"),
    ]
    assert last[0].author == str(TERMINAL)
    assert "she sorts the sales" in last[0].reason


async def test_a_tool_that_is_revoked_in_the_middle_of_a_run_is_not_called(fractal: Make) -> None:
    one = fractal(
        planning(
            {"tool": "bash", "args": {"command": "touch begun; while ! test -e go; do sleep 0.02; done"}},
            COUNT,
        )
    )
    one.grant("count")
    going = asyncio.create_task(one.run("wait, then have a look"))
    await async_until((one.workspace.folder / "begun").exists)
    fractal().revoke("count")  # as another process would
    (one.workspace.folder / "go").touch()
    result = await going
    step = one.root_document(result.run).steps[2]
    assert step.state == "failed"
    assert "there is no tool 'count'" in (step.result or "")


def note(n: int, type: Any, tier: Any) -> Message:
    return Message(id=f"m{n}", text="", type=type, tier=tier, data={"tool": "csv", "n": n})


def test_what_a_human_takes_away_only_a_human_gives_back() -> None:
    taken = [note(1, "grant", "oversight"), note(2, "revoke", "human"), note(3, "grant", "oversight")]
    assert decided(taken)["csv"].type == "revoke"
    assert decided(reversed([*taken, note(4, "grant", "human")]))["csv"].type == "grant"


def mean(worker_knows: str) -> Callable[[Ask], Any]:
    """A worker that computes a mean itself once it knows `calc`, else asks for it in the shortest way."""

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        known = indexed(ask)
        if worker_knows in known:
            return plan({"tool": worker_knows, "args": {"expression": "(4+5+9)/3"}})
        if "request-statistics" in known:
            return plan({"tool": "request-statistics", "what": "the mean of 4, 5, 9"})
        return plan({"tool": "escalate", "what": "statistics: the mean of 4, 5, 9"})

    return answer


def overseer(ask: Ask) -> Any:
    if ask.phase == "check":
        return {**ACCEPT, "output": "6"}
    return plan({"tool": "calc", "args": {"expression": "(4+5+9)/3"}})


async def test_in_a_month_escalations_become_fewer_and_the_log_tells_why(fractal: Make) -> None:
    now = [""]
    how: list[str] = []
    one = fractal(mean("calc"), overseer)
    one.discovery.clock = lambda: now[0]
    for number in range(13):
        now[0] = f"2026-03-{1 + 2 * number:02d}T09:00:00.000Z"
        result = await one.run(f"what is the mean, day {number}")
        assert result.exit == Exit.ACCEPTED
        how.append(one.root_document(result.run).steps[1].tool)
    assert how == ["escalate"] * 5 + ["request-statistics"] * 5 + ["calc"] * 3
    assert {"calc", "csv", "request-statistics"} <= names(one)
    told = [(each.at[:10], each.text) for each in one.nerves.messages.all(type="teaching")]
    assert [at for at, _ in told] == ["2026-03-09", "2026-03-19"]
    assert told[0][1].startswith("You have escalated statistics 5 times. You know request-statistics now")
    assert "Try it yourself first" in told[1][1]
    journal = [each for each in one.workshop.journal.entries() if each.kind == "granted"]
    assert [each.unit for each in journal] == ["tools/request-statistics", "tools/calc", "tools/csv"]
    assert all("escalat" in each.reason for each in journal)
    assert {each.via for each in journal} == {"escalation"}
    one.revoke("calc", by=TERMINAL)
    await fractal(mean("calc"), overseer).run("what is the mean, once more")
    assert "calc" not in names(one), "what a person has taken away is not earned again"


def test_grants_and_other_messages_have_times_of_one_form(fractal: Make) -> None:
    """Those of one millisecond would have another order otherwise."""
    one = fractal()
    one.nerves.messages.write(type="observation", text="seen")
    one.grant("count")
    assert {len(each.at) for each in one.nerves.messages.all()} == {len("2026-03-01T09:00:00.000000Z")}


@pytest.mark.parametrize("writes", range(1, 8))
def test_a_crash_between_answer_and_grants_loses_and_repeats_nothing(fractal: Make, writes: int) -> None:
    """A process is killed before its first, second … message; the next one goes on."""
    asking = {"tool": "escalate", "what": "statistics: the mean of 4, 5, 9"}
    one = fractal(planning(asking), review="off")
    result = asyncio.run(one.run("what is the mean"))
    assert result.exit == Exit.WAITING
    one.tell(result.run, "answer", text="6\nteaching: divide the sum\ngrant: calc, csv", by=TERMINAL)
    if not (child := os.fork()):
        killed = fractal(planning(asking), review="off")
        left = iter(range(writes))

        def clock() -> str:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return f"{datetime.now().isoformat(timespec='milliseconds')}Z"

        killed.discovery.clock = clock
        asyncio.run(killed.resume(result.run))
        os._exit(0)
    os.waitpid(child, 0)
    again = fractal(planning(asking), review="off")
    if not again.root_document(result.run).ended:
        assert asyncio.run(again.resume(result.run)).exit == Exit.ACCEPTED
    types = sorted(each.type for each in again.nerves.messages.all())
    assert types == ["answer", "approve", "escalation", "grant", "grant", "outcome", "teaching"]
    granted = [each.unit for each in again.workshop.journal.entries() if each.kind == "granted"]
    assert sorted(granted) == ["tools/calc", "tools/csv"]
    assert {"calc", "csv"} <= names(again)
    assert "divide the sum" in again.root_document(result.run).text(1, "guidance")


def test_a_call_that_is_reviewed_again_takes_no_tool_away(fractal: Make) -> None:
    one = fractal()
    one.grant("csv")
    one.nerves.messages.write(type="revoke", tier="human", data={REVIEW_AGAIN: "deploy"})
    one.discovery.record()
    assert [each.data["tool"] for each in one.grants()] == ["csv"]
    assert [each.unit for each in one.workshop.journal.entries() if each.agent] == ["tools/csv"]


def test_a_grant_that_the_journal_missed_is_recorded_with_the_next_one(fractal: Make) -> None:
    one = fractal()
    one.grant("csv")
    one.workshop.journal.path.unlink()
    one.grant("calc")
    one.discovery.record()
    granted = [each.unit for each in one.workshop.journal.entries() if each.kind == "granted"]
    assert granted == ["tools/csv", "tools/calc"]
