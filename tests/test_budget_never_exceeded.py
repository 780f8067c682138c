"""No budget is exceeded: in random trees of loops, at random costs, through crashes and resumes.

Over the tree, spending and reservations stay within the limit plus the recorded overrun at every
moment, and each loop stays within its share of the calls.

"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import NIGHT
from playing import put

from kernel.asking.messages import prompt_tokens
from kernel.asking.responder import Ask, Ladder, Reply, Responder, Tier, Usage
from kernel.document.escaping import to_json
from kernel.document.model import Document
from kernel.events import Event
from kernel.loop.budget import FIRST_REPLY, ROUNDING, Amount, expected_reply
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal, RunResult
from runtime.models.prices import Price
from runtime.models.scripted import Scripted, When

READ = Path(__file__).parents[1] / "system" / "kernel" / "read.md"
ENDS = {"complete", "unverified", "failed", "escalated", "exhausted"}


@dataclass
class Tree(Responder):
    """A model that plans a random tree; replies and costs depend only on the seed and the ask."""

    seed: int
    overruns: bool = False
    priced: bool = True
    calls: int = 0
    name: str = "tree"
    tier: Tier = "oversight"
    reads_prompt: bool = True
    lifeforce: float = 3.0  # a call
    before: list[Any] = field(default_factory=list)

    def offers(self, task: str, document: Document) -> float | None:
        return 1.0

    def count(self, text: str) -> int:
        return len(text) // 4

    def estimate(self, ask: Ask) -> Usage:
        usd = 0.002 + 0.000_001 * ask.max_tokens if self.priced else None
        return Usage(prompt_tokens(ask, self.count), ask.max_tokens // 7, usd)

    async def answer(self, ask: Ask) -> Reply:
        self.calls += 1
        for each in self.before:  # a crash here charges the open call in full
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
            judgement = {
                "validation": "fail" if retry else "pass",
                "decision": "RETRY" if retry else "ACCEPT",
            }
            return to_json({**judgement, "issues": ["something"] if retry else [], "output": "done"})
        if ask.part in ("do", "atomic"):
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


@dataclass
class Calls:
    """The sums of a call log, computed independently of the kernel."""

    spent: dict[str, Amount] = field(default_factory=dict)  # by loop; calls without a reply count in full
    overrun: dict[str, Amount] = field(default_factory=dict)

    @staticmethod
    def of(run: Path) -> Calls:
        calls, open_ = Calls(), dict[str, Amount]()
        path = run / "calls.jsonl"
        for line in path.read_text("utf-8").splitlines() if path.exists() else []:
            record = json.loads(line)
            key, usage = record["key"], record["usage"]
            tokens = usage["prompt_tokens"] + usage["completion_tokens"]
            cost = Amount(usage["calls"], tokens, usage["usd"] or 0.0, usage.get("lifeforce", 0.0))
            held = open_.pop(key, cost)
            if record["kind"] == "asked":
                if held is not cost:
                    calls._add(key, held, held)
                open_[key] = cost
            else:
                calls._add(key, cost, held)
        for key, held in open_.items():
            calls._add(key, held, held)
        return calls

    def _add(self, key: str, cost: Amount, held: Amount) -> None:
        loop = key.partition("/")[0]
        over = cost - held
        over = Amount(*(max(0, each) for each in vars(over).values()))
        self.spent[loop] = self.spent.get(loop, Amount()) + cost
        self.overrun[loop] = self.overrun.get(loop, Amount()) + over

    def below(self, loop_id: str, amounts: dict[str, Amount]) -> Amount:
        root, place = loop_id.startswith("system-"), loop_id.rpartition("-")[2]
        numbers = ((loop.rpartition("-")[2], each) for loop, each in amounts.items())
        return sum((each for n, each in numbers if root or f"{n}.".startswith(f"{place}.")), Amount())


def assert_ledger(run: Path) -> None:
    """Check each document on disk: its spending with descendants, and its open shares."""
    calls, store = Calls.of(run), FileStore(run)
    for loop_id in store.list():
        document = store.peek(loop_id)
        if not document.meta.budget:
            continue  # an operation
        limit = Amount.limit(document.meta.budget)
        spent, over = calls.below(loop_id, calls.spent), calls.below(loop_id, calls.overrun)
        made = spent.calls
        assert made <= limit.calls + over.calls, f"{loop_id}: {made} of {limit.calls} calls"
        for step in document.steps.values():
            if step.share is not None and not step.over:
                child = step.link.removesuffix(".md")
                made += step.share["calls"] - calls.below(child, calls.spent).calls
        assert made <= limit.calls + over.calls, f"{loop_id}: with shares {made} of {limit.calls} calls"
        if not document.meta.parent:
            assert (limit + over).covers(spent), f"{loop_id}: {spent} of {limit}, overrun {over}"


def assert_pool(work: Path, pool: dict[str, Any] | None) -> None:
    """What a pool has left, and what runs have used or reserved, are its capacity together."""
    if not pool or not (path := work / ".fractal/state/lifeforce/default.json").exists():
        return
    level = json.loads(path.read_text())
    held = sum(each["amount"] for each in level["held"].values())
    assert level["free"] >= 0 and level["free"] + held <= pool["capacity"] + ROUNDING, level


def play(folder: Path, tree: Tree, limits: dict[str, Any], crashes: list[int]) -> RunResult:
    """Play a run. At these moments copy its state, as a crash leaves it, and continue with the copy."""
    work = folder / "0"
    (work / ".fractal" / "state" / "runs").mkdir(parents=True)
    put(
        work, ".fractal/system/kernel/read.md", READ.read_text().replace("\nargs:", "\nlifeforce: 0.5\nargs:")
    )
    (work / "fractal.yaml").write_text(json.dumps(limits))
    (work / "a.txt").write_text("a")
    images: list[Path] = []
    moments = 0

    def maybe_crash(event: Event | None = None) -> None:
        nonlocal moments
        runs = [each for each in (work / ".fractal/state/runs").iterdir() if list(each.glob("system-*.md"))]
        for run in runs:
            assert_ledger(run)
        assert_pool(work, limits.get("lifeforce"))
        moments += 1
        if runs and crashes and moments >= crashes[0] and not images:
            images.append(folder / str(int(work.name) + 1))
            shutil.copytree(work, images[0])

    tree.before = [maybe_crash]
    result: RunResult | None = None
    for _ in range(len(crashes) + 1):
        fractal = Fractal(
            work,
            settings={"sandbox": "off", "fsync": False},
            ladder=Ladder((tree,)),
            on_event=maybe_crash,
            trusted=True,
        )
        result = asyncio.run(fractal.resume(result.run) if result else fractal.run("the task"))
        if not images:
            break
        work, crashes, moments = images.pop(), crashes[1:], 0
    for run in (work / ".fractal/state/runs").iterdir():
        assert_ledger(run)
        calls = Calls.of(run)
        logged = sum(calls.spent.values(), Amount())
        if pool := limits.get("lifeforce"):
            left = Fractal(work, settings={"sandbox": "off"}).lifeforce
            assert left and left.level().free == pytest.approx(pool["capacity"] - logged.lifeforce)
        if result and result.waiting:
            continue  # what unfinished children have spent is not in the root's document yet
        assert result and result.spent["calls"] == logged.calls
        assert result.spent["prompt_tokens"] + result.spent["completion_tokens"] == logged.tokens
        assert result.spent["usd"] == pytest.approx(logged.usd)
        assert result.spent.get("lifeforce", 0.0) == pytest.approx(logged.lifeforce)
    return result


LIMITS = st.fixed_dictionaries(
    {
        "calls": st.integers(1, 60),
        "tokens": st.sampled_from([3_000, 10_000, 40_000, 400_000]),
        "usd": st.sampled_from([0.01, 0.05, 0.2, None]),
        "lifeforce": st.sampled_from(
            [None, {"capacity": 20, "per_hour": 0}, {"capacity": 70, "per_hour": 0}]
        ),
    }
)


TREES = {
    "seed": st.integers(0, 10**6),
    "limits": LIMITS,
    "overruns": st.booleans(),
    "crashes": st.lists(st.integers(1, 60), max_size=3),
}
TREES_TRIED = 300 if NIGHT else 12
CALM = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def holds(seed: int, limits: dict[str, Any], overruns: bool, crashes: list[int]) -> None:
    """Play one tree; `play` checks the ledger at every event."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(seed, overruns, priced=limits["usd"] is not None)
        result = play(Path(folder), tree, limits, crashes)
    assert result.status in ENDS or result.waiting == "lifeforce", result
    if not crashes:
        assert tree.calls <= limits["calls"]


@pytest.mark.timeout(1800)
@settings(max_examples=TREES_TRIED, **CALM)
@given(**TREES)
def test_ledger_holds_in_any_tree_through_crashes(seed, limits, overruns, crashes):
    holds(seed, limits, overruns, crashes)


def test_property_detects_an_exceeded_limit(tmp_path):
    """The check fails for a run whose limit was lowered by hand."""
    tree = next(t for t in map(Tree, range(100)) if _has_parts(tmp_path / str(t.seed), t))
    (run,) = (tmp_path / str(tree.seed) / "0/.fractal/state/runs").iterdir()
    assert_ledger(run)
    path = next(run.glob("system-*.md"))
    path.write_text(path.read_text().replace('budget: {"calls": 60', 'budget: {"calls": 1'))
    with pytest.raises(AssertionError, match="of 1 calls"):
        assert_ledger(run)


def _has_parts(folder: Path, tree: Tree) -> bool:
    folder.mkdir()
    result = play(folder, tree, {}, [])
    return result.exit == 0 and len(list(result.path.parent.glob("tool-*.md"))) > 1


# ---- cost limits ----------------------------------------------------------------------------------------

PRICE = Price(1.0, 15.0)  # USD per million tokens; the longest reply costs 0.03


def _job(ask: Ask) -> dict[str, Any]:
    """Three subtasks in sequence, each with one read step completed in DO."""
    if ask.phase == "check":
        return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}
    if ask.part == "do":
        return {"tool": "read", "args": {"path": "a.txt"}}
    part = ask.document.meta.parent
    steps = [{"tool": "read", "what": "read it"}] if part else [{"subtask": f"part {n}"} for n in range(3)]
    plan = {"task": "t", "context": [], "approach": "a", "confidence": "high", "steps": steps}
    return {**plan, "success": [{"step": 1, "has": "^a$" if part else "^done$"}]}


def _priced(folder: Path, answer: Any, **limits: Any) -> RunResult:
    (folder / "a.txt").write_text("a")
    entry = When(reply=answer, usage={"prompt_tokens": 700, "completion_tokens": 80, "usd": 0.0019}, times=99)
    ladder = Ladder((Scripted([entry], price=PRICE),))
    fractal = Fractal(folder, settings={"sandbox": "off", "fsync": False, **limits}, ladder=ladder)
    return asyncio.run(fractal.run("the task"))


def test_run_within_its_cost_limit_completes(tmp_path):
    result = _priced(tmp_path, _job, usd=0.05)
    assert (result.status, result.spent["calls"]) == ("unverified", 11), result.reason  # it only reads
    assert result.spent["usd"] == pytest.approx(0.0209)


def test_run_beyond_its_cost_limit_is_exhausted_within_it(tmp_path):
    result = _priced(tmp_path, _job, usd=0.018)
    assert (result.status, int(result.exit)) == ("exhausted", 5)
    assert result.spent["usd"] <= 0.018


def test_cost_beyond_the_estimate_is_recorded_as_overrun(tmp_path):
    def longer(ask: Ask) -> Reply:
        tokens = 1500 if ask.phase == "check" else 80
        return Reply(to_json(_job(ask)), "scripted", Usage(700, tokens, PRICE.of(700, tokens)))

    (tmp_path / "a.txt").write_text("a")
    ladder = Ladder((Scripted(longer, price=PRICE),))
    settings = {"sandbox": "off", "fsync": False, "usd": 0.03}
    result = asyncio.run(Fractal(tmp_path, settings=settings, ladder=ladder).run("the task"))
    assert result.status == "exhausted"
    assert result.spent["overrun_usd"] > 0 and result.spent["usd"] <= 0.03 + result.spent["overrun_usd"]
    assert_ledger(result.path.parent)


def test_expected_reply_follows_earlier_replies():
    assert expected_reply([], 2000) == FIRST_REPLY
    assert expected_reply([], 200) == 200
    assert expected_reply([100] * 9 + [1000], 2000) == 125
    assert expected_reply([100, 100, 1000], 2000) == 1250
    assert expected_reply([1900] * 5, 2000) == 2000, "never more than the maximum"
