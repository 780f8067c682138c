"""The ledger holds at every moment: in random trees of loops, at random costs, through deaths and resumes."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel.budget import Amount, open_shares, settled
from kernel.document import Document
from kernel.events import Event
from kernel.replies import ReplyLog, Totals
from kernel.responder import Ask, Ladder, Reply, Usage
from kernel.store import FileStore
from kernel.text import to_json
from runtime.fractal import Fractal, RunResult

ENDS = {"complete", "failed", "escalated", "exhausted"}


@dataclass
class Tree:
    """A model that plans a random tree; what it says and costs depends on the seed and the ask alone."""

    seed: int
    overruns: bool = False
    priced: bool = True
    calls: int = 0
    name: str = "tree"
    tier: str = "oversight"
    reads_prompt: bool = True
    before: list[Any] = field(default_factory=list)

    def offers(self, task: str, document: Document) -> float | None:
        return 1.0

    def count(self, text: str) -> int:
        return len(text) // 4

    def estimate(self, ask: Ask) -> Usage:
        usd = 0.004 if self.priced else None
        return Usage(self.count(ask.system + ask.user), 300, usd)

    async def answer(self, ask: Ask) -> Reply:
        self.calls += 1
        for each in self.before:  # what is in flight now is charged whole when the process dies here
            each()
        await asyncio.sleep(0)
        loop = ask.loop.rpartition("-")[2] if ask.document.meta.parent else "root"
        chance = random.Random(f"{self.seed}/{loop}/{ask.attempt}/{ask.phase}/{ask.step}/{ask.turn}")
        most = self.estimate(ask)
        more = chance.choice([0.2, 1.0, 1.0, 3.0]) if self.overruns else chance.random()
        usd = None if most.usd is None else most.usd * more
        usage = Usage(int(most.prompt_tokens * more), int(most.completion_tokens * more), usd)
        return Reply(self._text(ask, chance), self.name, usage)

    def _text(self, ask: Ask, chance: random.Random) -> str:
        if chance.random() < 0.1:
            return "not an object"
        if ask.phase == "check":
            retry = ask.document.meta.attempt == 1 and chance.random() < 0.3
            said = {"validation": "fail" if retry else "pass", "decision": "RETRY" if retry else "ACCEPT"}
            return to_json({**said, "issues": ["something"] if retry else [], "output": "done"})
        if ask.phase in ("do", "atomic"):
            return to_json({"tool": "read", "args": {"path": "a.txt"}})
        kinds = ["call", "asked", "part", "part"] if ask.document.meta.depth < 2 else ["call", "asked"]
        made = {
            "call": {"tool": "read", "args": {"path": "a.txt"}, "needs": []},
            "asked": {"tool": "read", "what": "read something", "needs": []},
            "part": {"subtask": "a part", "needs": []},
        }
        steps = [made[chance.choice(kinds)] for _ in range(chance.randint(1, 3))]
        plan = {"task": "t", "context": [], "approach": "a", "confidence": "high", "steps": steps}
        return to_json({**plan, "success": [{"judge": "done"}]})


def total(totals: Totals) -> Amount:
    return Amount(totals.calls, totals.prompt_tokens + totals.completion_tokens, totals.usd)


def overrun(totals: Totals) -> Amount:
    over = totals.overrun
    return Amount(over.calls, over.prompt_tokens + over.completion_tokens, over.usd or 0.0)


def assert_ledger(run: Path) -> None:
    """On the disk as it is: of each document, own spending and open shares; over the tree, all calls."""
    log, store = ReplyLog(run / "calls.jsonl"), FileStore(run)
    documents = {loop_id: store.peek(loop_id) for loop_id in store.list()}
    for loop_id, document in documents.items():
        if not document.meta.budget:
            continue  # an operation's
        limit = Amount.limit(document.meta.budget)
        held = total(log.spent(loop_id))
        for step in document.steps.values():
            held += settled(step)
        held = sum((share for _, share in open_shares(document.steps.values())), held)
        numbers = loop_id.rpartition("-")[2]
        mine = [
            each
            for each in log.loops()
            if each == loop_id or each.rpartition("-")[2].startswith(f"{numbers}.")
        ]
        mine = list(log.loops()) if not document.meta.parent else mine
        allowed = sum((overrun(log.spent(each)) for each in mine), limit)
        assert allowed.covers(held), f"{loop_id}: {held} of {limit}, overrun {allowed - limit}"


def play(folder: Path, tree: Tree, limits: dict[str, Any], deaths: list[int]) -> RunResult:
    """Play a run; at these moments its state is copied as a dead process leaves it, and the copy goes on."""
    work = folder / "0"
    work.mkdir()
    (work / "a.txt").write_text("a")
    images: list[Path] = []
    moments = 0

    def maybe_die(event: Event | None = None) -> None:
        nonlocal moments
        runs = [each for each in (work / ".fractal/state/runs").iterdir() if list(each.glob("system-*.md"))]
        for run in runs:
            assert_ledger(run)
        moments += 1
        if runs and deaths and moments >= deaths[0] and not images:
            images.append(folder / str(int(work.name) + 1))
            shutil.copytree(work, images[0])

    tree.before = [maybe_die]
    result: RunResult | None = None
    for _ in range(len(deaths) + 1):
        fractal = Fractal(
            work,
            settings={"sandbox": "off", "fsync": False, **limits},
            ladder=Ladder((tree,)),
            on_event=maybe_die,
        )
        result = asyncio.run(fractal.resume(result.run) if result else fractal.run("the task"))
        if not images:
            break
        work, deaths, moments = images.pop(), deaths[1:], 0
    for run in (work / ".fractal/state/runs").iterdir():
        assert_ledger(run)
        logged = total(ReplyLog(run / "calls.jsonl").spent())
        assert result and result.spent["calls"] == logged.calls
        assert result.spent["prompt_tokens"] + result.spent["completion_tokens"] == logged.tokens
        assert result.spent["usd"] == pytest.approx(logged.usd)
    return result


LIMITS = st.fixed_dictionaries(
    {
        "calls": st.integers(1, 60),
        "tokens": st.sampled_from([3_000, 10_000, 40_000, 400_000]),
        "usd": st.sampled_from([0.01, 0.05, 0.2, None]),
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    limits=LIMITS,
    overruns=st.booleans(),
    deaths=st.lists(st.integers(1, 60), max_size=3),
)
def test_the_ledger_holds_in_any_tree_through_deaths(seed, limits, overruns, deaths):
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(seed, overruns, priced=limits["usd"] is not None)
        result = play(Path(folder), tree, limits, deaths)
    assert result.status in ENDS, result
    if not deaths:
        assert tree.calls <= limits["calls"]


def test_the_property_would_see_a_share_that_is_given_twice(tmp_path):
    """What a run left is changed by hand so that its ledger does not hold: the check has to say so."""
    tree = next(t for t in map(Tree, range(100)) if _has_parts(tmp_path / str(t.seed), t))
    (run,) = (tmp_path / str(tree.seed) / "0/.fractal/state/runs").iterdir()
    assert_ledger(run)
    path = next(run.glob("system-*.md"))
    path.write_text(path.read_text().replace('budget: {"calls": 60', 'budget: {"calls": 1'))
    with pytest.raises(AssertionError, match="of Amount"):
        assert_ledger(run)


def _has_parts(folder: Path, tree: Tree) -> bool:
    folder.mkdir()
    result = play(folder, tree, {}, [])
    return result.status == "complete" and len(list(result.path.parent.glob("tool-*.md"))) > 1
