"""Child loops that end at the same moment, lose wakes, or were never written."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lanes import every
from playing import ACCEPT, plan
from processes import outcome_of, run_folder, script, stopped_in_child, undisturbed_outcome

from kernel.asking.responder import Ask, Ladder
from kernel.document.model import Document, Meta, Note, Section
from kernel.loop.advance import Outcome
from kernel.loop.engine import Engine
from kernel.loop.run_context import RunContext
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal, shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted
from runtime.operations.running import caller
from runtime.sandbox.context import context_of
from runtime.sandbox.sandbox import Sandbox

RUN = "test22"
WIDE = 4


class Together(Scripted):
    """A model that delays replies so that all asks of one phase are answered together."""

    async def answer(self, ask: Ask) -> Any:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().answer(ask)


def _answer(ask: Ask) -> Any:
    if ask.phase == "check":
        return ACCEPT
    depth = ask.document.meta.depth
    below = [{"subtask": f"part {n} at depth {depth}", "needs": []} for n in range(WIDE)]
    read = [{"tool": "read", "args": {"path": "a.txt"}, "needs": []} for _ in range(WIDE)]
    return plan(*(below if depth < 2 else read))


def _drive(folder: Path, ways: Sequence[int], seed: int) -> tuple[Any, FileStore]:
    rng = random.Random(seed)
    run = folder / "runs" / RUN
    run.mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    store = FileStore(run, fsync=False)
    run_context = RunContext(
        RUN,
        folder,
        store,
        ReplyLog(run / "calls.jsonl"),
        Catalogue([shipped_system()]),
        Ladder((Together(_answer),)),
        Sandbox("off"),
        run / "artifacts",
        call=caller(),
        contexts=context_of,
    )
    budget = {"calls": 10_000, "tokens": 10**9, "context": 9000, "max_depth": 4}
    meta = Meta(f"system-{RUN}", RUN, folder=".", budget=budget)
    store.save(Document(meta, {1: Section(notes=(Note("task", "unfold", "person"),))}))
    engine = Engine(run_context)

    def wake(loop_id: str) -> None:
        for _ in range(rng.choice(ways)):
            engine.wake(loop_id)

    run_context.store, run_context.wake = FileStore(run, fsync=False), wake
    return asyncio.run(asyncio.wait_for(engine.drive(), 60)), store


@pytest.mark.parametrize("ways", [[1], [2], [0, 1, 2], [0]], ids=["once", "twice", "at random", "never"])
def test_children_that_end_together_all_return_results(tmp_path: Path, ways: list[int]) -> None:
    for seed in range(len(ways) + 1)[:: every(2)]:
        got, store = _drive(tmp_path / str(seed), ways, seed)
        assert isinstance(got, Outcome) and got.exit == 0
        documents = [store.peek(loop_id) for loop_id in store.list()]
        loops = [each for each in documents if each.meta.type == "task"]
        assert len(loops) == 1 + WIDE + WIDE**2
        assert len(documents) - len(loops) == WIDE**3
        assert {each.meta.status for each in documents} == {"complete"}
        assert all(step.state == "done" for each in loops for step in each.steps.values())
        calls = _answered(store)
        assert loops[0].meta.spent["calls"] == calls == 2 * len(loops)


def _answered(store: FileStore) -> int:
    lines = (store.folder / "calls.jsonl").read_text().splitlines()
    return sum(json.loads(line)["kind"] == "replied" for line in lines)


def test_unwritten_child_is_created_without_a_warning(tmp_path: Path) -> None:
    """The parent crashed between its own line and the document of the child."""
    expected = undisturbed_outcome(tmp_path / "undisturbed")
    work = tmp_path / "work"
    folder = stopped_in_child(work, "inner plan")
    (child,) = folder.glob("tool-task-*.md")
    child.unlink()
    log = folder / "calls.jsonl"
    lines = [
        line for line in log.read_text().splitlines(keepends=True) if f'"key": "{child.stem}' not in line
    ]
    log.write_text("".join(lines))
    warnings: list[str] = []
    model = Scripted.from_file(script(tmp_path / "model.json"))
    here = Fractal(
        work,
        settings={"sandbox": "off"},
        ladder=Ladder((model,)),
        on_event=lambda event: warnings.append(str(event.data)) if event.kind == "warning" else None,
    )
    assert asyncio.run(here.resume(run_folder(work).name)).output == "all done"
    assert outcome_of(work) == expected
    assert not [each for each in warnings if "missing" in each]
