"""The engine of a run: wakes, order of writes, stopping, locks, and resuming after interruption."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import NIGHT, async_pause, elapsed, examples
from playing import ACCEPT, Play, bash, doing, plan, player, read, rewind, write

from kernel.asking.responder import Ask, Ladder, Usage
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.errors import Exit, ForeignEdit, ProviderError, RunLocked, UsageError
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
from runtime.workspace.workspace import run_lock

SHAPES = st.recursive(
    st.sampled_from(["op", "asked"]), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8
)


def tree(shape: Any, side_by_side: bool) -> Callable[[Ask], Any]:
    """A model that expands a shape: a list is a plan, `op` an operation, `asked` a step completed in DO."""

    def step(each: Any) -> dict[str, Any]:
        more: dict[str, Any] = {"needs": []} if side_by_side else {}
        if each == "op":
            return {"tool": "read", "args": {"path": "a.txt"}, **more}
        if each == "asked":
            return {"tool": "read", "what": "look", **more}
        return {"subtask": json.dumps(each), **more}

    def answer(ask: Ask) -> Any:
        if ask.part == "do":
            return read("a.txt")
        if ask.phase == "check":
            return ACCEPT
        if "subtask" not in [each["function"]["name"] for each in ask.tools]:  # at the limit of depth
            return plan(read("a.txt"))
        task = ask.document.text(1, "task")
        return plan(*(step(each) for each in (json.loads(task) if task.startswith("[") else shape)))

    return answer


def run_context(folder: Path, shape: Any, side_by_side: bool, calls: int) -> RunContext:
    run = folder / "state" / "runs" / "test22"
    run.mkdir(parents=True)
    (folder / "a.txt").write_text("a\n")
    return RunContext(
        "test22",
        folder,
        FileStore(run),
        ReplyLog(run / "calls.jsonl"),
        Catalogue([shipped_system()]),
        Ladder((Scripted(tree(shape, side_by_side)),)),
        Sandbox("off"),
        run / "artifacts",
        call=caller(),
        contexts=context_of,
    )


def root(shape: Any, calls: int) -> Document:
    budget = {"calls": calls, "tokens": 10**6, "context": 3000, "max_depth": 3}
    meta = Meta("system-test22", "test22", folder=".", budget=budget)
    return Document(meta, {1: Section(notes=(Note("task", "unfold", "person"),))})


def drive(
    folder: Path, shape: Any, *, side_by_side: bool, calls: int, wakes: random.Random | None = None
) -> Any:
    here = run_context(folder, shape, side_by_side, calls)
    here.store.save(root(shape, calls))
    run = folder / "state" / "runs" / "test22"
    engine = Engine(here)

    def wake(loop_id: str) -> None:
        for _ in range(wakes.choice([0, 1, 2]) if wakes else 1):
            engine.wake(loop_id)

    here.store, here.wake = FileStore(run, fsync=False), wake
    got = asyncio.run(engine.drive())
    return got, here


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.lists(SHAPES, min_size=1, max_size=3), side=st.booleans(), seed=st.integers(0, 2**16))
def test_lost_and_duplicate_wakes_are_harmless(
    tmp_path_factory: Any, shape: Any, side: bool, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("wakes")
    got, here = drive(folder, shape, side_by_side=side, calls=10_000, wakes=random.Random(seed))
    assert isinstance(got, Outcome)
    assert got.exit == Exit.ACCEPTED
    documents = [here.store.load(loop_id) for loop_id in here.store.list()]
    assert all(each.meta.status == "complete" for each in documents)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.lists(SHAPES, min_size=1, max_size=3), side=st.booleans(), calls=st.integers(1, 14))
def test_run_stays_within_its_call_limit(tmp_path_factory: Any, shape: Any, side: bool, calls: int) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    got, here = drive(folder, shape, side_by_side=side, calls=calls)
    assert isinstance(got, Outcome)
    assert here.log.spent().calls <= calls
    documents = {loop_id: here.store.load(loop_id) for loop_id in here.store.list()}
    for document in documents.values():
        if document.meta.budget:
            assert document.meta.spent["calls"] <= document.meta.budget["calls"]
    # each call of the log belongs to one loop, and the root's spending is the whole tree's
    assert documents["system-test22"].meta.spent["calls"] == here.log.spent().calls
    assert documents["system-test22"].meta.status in ("complete", "exhausted")


def test_step_is_saved_before_its_child_and_the_wake(tmp_path: Path) -> None:
    here = run_context(tmp_path, [["op"]], False, 100)
    run = tmp_path / "state" / "runs" / "test22"
    order: list[str] = []

    class Watched(FileStore):
        def save(self, document: Document) -> None:
            order.append(f"save {document.meta.id}")
            super().save(document)

        def append(self, document: Document, steps: Sequence[Step]) -> None:
            order.append(f"append {document.meta.id}: " + ", ".join(f"{s.n} {s.state}" for s in steps))
            super().append(document, steps)

    engine = Engine(here)

    def wake(loop_id: str) -> None:
        order.append(f"wake {loop_id}")
        engine.wake(loop_id)

    Watched(run).save(root([["op"]], 100))
    order.clear()
    here.store, here.wake = Watched(run), wake
    asyncio.run(engine.drive())
    child = order.index("save tool-task-test22-1")
    assert order[child - 1] == "append system-test22: 1 running"
    assert order[child + 1] == "wake tool-task-test22-1"
    operation = order.index("save op-read-test22-1.1")
    assert order[operation - 1] == "append tool-task-test22-1: 1 running"
    last = max(at for at, each in enumerate(order) if each == "save tool-task-test22-1")
    assert order[last + 1] == "wake system-test22"


def test_missing_child_document_is_created_again(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth == 0:
            return ACCEPT if ask.phase == "check" else plan({"subtask": "write"})
        if ask.phase == "plan":
            return plan(write("a.txt", "x"))
        return ACCEPT

    played = play(Stopping(answer, after="loop_started", loop="tool-task"))
    assert played.result.exit == Exit.INTERRUPTED
    child = played.folder / f"tool-task-{played.result.run}-1.md"
    child.unlink()
    again = play(answer, resume=played.result.run)
    assert again.result.exit == Exit.ACCEPTED
    assert child.is_file()


def test_broken_child_is_reported_and_other_steps_continue(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth == 0:
            steps = [
                {"subtask": "write", "needs": []},
                {"tool": "read", "args": {"path": "b.txt"}, "needs": []},
            ]
            return ACCEPT if ask.phase == "check" else plan(*steps)
        return plan(write("a.txt", "x"))

    played = play(Stopping(answer, after="loop_started", loop="tool-task"))
    child = played.folder / f"tool-task-{played.result.run}-1.md"
    child.write_text("---\nthis is not a document\n")
    (played.fractal.workspace.folder / "b.txt").write_text("b")
    again = play(answer, resume=played.result.run)
    assert (again.result.status, again.result.exit) == ("unverified", Exit.FAILED)
    root = again.fractal.document(again.result.id)
    assert root.steps[1].state == "unknown"
    assert f"{child.name}:3" in str(root.steps[1].result)
    assert child.read_text() == "---\nthis is not a document\n"


class Stopping(Scripted):
    """A model that interrupts its own run at the first ask of a child."""

    def __init__(self, answer: Any, *, after: str, loop: str) -> None:
        super().__init__(answer)
        self.loop = loop

    async def answer(self, ask: Ask) -> Any:
        if ask.loop.startswith(self.loop):
            for task in asyncio.all_tasks():
                if task.get_coro().__qualname__.startswith("Fractal."):  # type: ignore[union-attr]
                    task.cancel()
            await asyncio.Event().wait()
        return await super().answer(ask)


def test_resume_repeats_no_finished_call(play: Play) -> None:
    steps = [write("a.txt", "x"), {"tool": "read", "what": "look"}]

    def answer(ask: Ask) -> Any:
        if ask.part == "do":
            return read("a.txt")
        return ACCEPT if ask.phase == "check" else plan(*steps)

    class AtDo(Stopping):
        async def answer(self, ask: Ask) -> Any:
            self.loop = "system" if ask.part == "do" else "-"
            return await super().answer(ask)

    played = play(AtDo(answer, after="", loop="-"))
    assert (played.result.status, played.result.exit) == ("interrupted", Exit.INTERRUPTED)
    assert played.root.meta.status == "interrupted"
    again = play(answer, resume=played.result.run)
    assert again.result.exit == Exit.ACCEPTED
    assert [e.data["phase"] for e in again.asks()] == ["do", "check"]
    # the interrupted call is charged: plan, the interrupted do, do, check
    assert again.root.meta.spent["calls"] == 4


def test_a_child_that_goes_on_says_that_it_is_running(play: Play, tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(ask: Ask) -> Any:
        if ask.part == "do":
            documents = Fractal(tmp_path / "work").documents(ask.run)
            seen.extend(each.meta.status for each in documents if each.meta.id == ask.loop)
            return read("a.txt")
        if ask.phase == "check":
            return ACCEPT
        steps = [write("a.txt", "x"), {"tool": "read", "what": "look"}]
        return plan(*steps) if ask.document.meta.depth else plan({"subtask": "s"})

    class AtDo(Stopping):
        async def answer(self, ask: Ask) -> Any:
            self.loop = ask.loop if ask.part == "do" else "-"
            return await super().answer(ask)

    played = play(AtDo(answer, after="", loop="-"))
    child = next(each for each in played.documents.values() if each.meta.depth)
    assert child.meta.status == "interrupted"
    seen.clear()
    assert play(answer, resume=played.result.run).result.exit == Exit.ACCEPTED
    assert seen == ["running"]


def test_cancelled_run_cannot_be_resumed(play: Play) -> None:
    played = play(lambda ask: {"task": "t", "question": "which?"})
    played.fractal.tell(played.result.run, "cancel")
    again = play(lambda ask: ACCEPT, resume=played.result.run)
    assert again.root.meta.status == "cancelled"
    with pytest.raises(UsageError, match="has ended"):
        again.fractal.tell(played.result.run, "cancel")


def test_time_limit_stops_the_run_and_its_children(play: Play) -> None:
    class Slow(Scripted):
        async def answer(self, ask: Ask) -> Any:
            if ask.document.meta.depth:
                await asyncio.Event().wait()
            return await super().answer(ask)

    played = play(Slow(lambda ask: plan({"subtask": "sleep"})), settings={"seconds": 0.6})
    assert played.result.exit == Exit.LIMIT
    assert {d.meta.status for d in played.documents.values()} == {"exhausted"}


def test_waiting_for_a_person_uses_no_run_time(play: Play) -> None:
    class Person(Scripted):
        patient = True

        async def answer(self, ask: Ask) -> Any:
            await async_pause(waits)
            return await super().answer(ask)

    play(doing(write("b.txt", "x")))  # imports are no time of the next run
    waits, seconds = (2.0, 1.5) if NIGHT else (0.5, 120.0)
    lasted, played = elapsed(lambda: play(Person(doing(write("a.txt", "x"))), settings={"seconds": seconds}))
    assert played.result.exit == Exit.ACCEPTED
    assert len(played.asks()) == 2
    assert played.root.meta.spent["seconds"] < min(seconds, lasted - 2 * waits)


def test_bug_in_a_responder_stops_all_loops(play: Play, tmp_path: Path) -> None:
    class Faulty(Scripted):
        async def answer(self, ask: Ask) -> Any:
            task = ask.document.text(1, "task")
            if task == "break":
                raise RuntimeError("a bug in a responder")
            if task == "write":
                await late.wait()
            return await super().answer(ask)

    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth == 0:
            return plan({"subtask": "break", "needs": []}, {"subtask": "write", "needs": []})
        return plan(write("a.txt", "x"))

    late = asyncio.Event()

    async def watch() -> None:
        fractal = Fractal(tmp_path, settings={"sandbox": "off"}, ladder=Ladder((Faulty(answer),)))
        with pytest.raises(ProviderError, match="RuntimeError: a bug"):
            await fractal.run("two things")
        late.set()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    asyncio.run(watch())
    assert not (tmp_path / "a.txt").exists()
    assert Fractal(tmp_path).runs()[0].status == "interrupted"


def test_resumed_step_is_not_substituted_twice(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "r.txt").write_text("<{{ steps[1].result }}>")
    steps = [
        {"tool": "read", "args": {"path": "r.txt"}},
        {"tool": "write", "args": {"path": "o.txt", "content": "{{ steps[1].result }}"}},
    ]
    answers = doing(*steps)
    played = play(answers)
    (tmp_path / "work" / "o.txt").unlink()
    rewind(played, 2)
    play(answers, resume=played.result.run)
    assert (tmp_path / "work" / "o.txt").read_text() == "<{{ steps[1].result }}>"


def test_stopped_run_records_states_and_cost_of_steps(play: Play, tmp_path: Path) -> None:
    class Slow(Scripted):
        async def answer(self, ask: Ask) -> Any:
            if ask.document.meta.depth and ask.phase == "check":
                Fractal(tmp_path / "work").tell(ask.document.meta.run, "cancel")
                await asyncio.Event().wait()
            return await super().answer(ask)

    read = write("a.txt", "x")
    played = play(Slow(lambda ask: plan(read) if ask.document.meta.depth else plan({"subtask": "s"})))
    assert played.root.meta.status == "cancelled"
    assert played.root.steps[1].state == "failed"
    assert (
        played.root.meta.spent["calls"] == 3
    )  # the root's plan, the child's plan, the child's interrupted call


def test_locked_run_is_refused(play: Play) -> None:
    played = play(lambda ask: {"task": "t", "question": "which?"})
    with run_lock(played.folder), pytest.raises(RunLocked, match="is held by process"):
        play(lambda ask: ACCEPT, resume=played.result.run)


def test_external_edit_stops_the_run_and_keeps_both_versions(play: Play) -> None:
    where: list[Path] = []

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            path = next(where[0].glob("*/system-*.md"))
            path.write_text(path.read_text() + "\nmy own words\n")
        return doing(write("a.txt", "x"))(ask)

    fractal_runs = play(lambda ask: {"task": "t", "question": "?"}).fractal.workspace.runs
    for old in fractal_runs.iterdir():
        (old / f"system-{old.name}.md").unlink()
    where.append(fractal_runs)
    with pytest.raises(ForeignEdit, match="kept the external version"):
        play(answer)
    path = next(fractal_runs.glob("*/system-*.md"))
    assert path.read_text().endswith("my own words\n")
    assert list(path.parent.glob("artifacts/*ours*"))


def test_interrupted_command_is_decided_by_a_person(play: Play) -> None:
    """The process crashed while a command ran: only a person knows whether it took effect."""
    answers = doing(bash("echo x >> counter"))
    played = play(answers, plan_only=True)
    store = FileStore(played.folder)
    document = store.load(played.result.id)
    step = replace(document.planned[1], state="running")
    begun = document.having(waiting=None, status="running").with_step(step)
    store.save(begun.with_notes(2, Note("approved", "by a person", "person")))
    again = play(answers, resume=played.result.run)
    assert again.result.exit == Exit.WAITING
    assert "may have happened" in again.result.question
    folder = again.fractal.workspace.folder
    assert not (folder / "counter").exists()
    done = play(answers, resume=played.result.run, assume="done")
    assert done.result.exit == Exit.ACCEPTED
    assert not (folder / "counter").exists()


@pytest.mark.parametrize(("happened", "content"), [(True, "new"), (False, "new")])
def test_interrupted_edit_is_inspected_before_it_is_repeated(
    play: Play, tmp_path: Path, happened: bool, content: str
) -> None:
    file = tmp_path / "work" / "a.txt"
    file.write_text("old")
    step = {"tool": "edit", "args": {"path": "a.txt", "old": "old", "new": "new"}}
    answers = doing(step)
    played = play(answers)
    assert file.read_text() == "new"
    rewind(played, 1)
    if not happened:
        file.write_text("old")
    again = play(answers, resume=played.result.run)
    assert again.result.exit == Exit.ACCEPTED
    assert file.read_text() == content


def test_document_has_the_whole_usage(play: Play) -> None:
    played = play(doing(write("a.txt", "x")))
    spent = played.root.meta.spent
    assert spent["calls"] == 2
    assert spent["prompt_tokens"] == sum(rung["prompt"] for rung in played.root.meta.rungs)
    assert 0 < spent["instruction_tokens"] < spent["prompt_tokens"]
    assert Usage().calls == 1


def test_document_size_is_linear_in_the_steps(tmp_path: Path) -> None:
    steps = [{"tool": "read", "args": {"path": "a.txt"}, "needs": []} for _ in range(200)]
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a")
    played = player(tmp_path / "work", memory=NIGHT)(doing(*steps))
    assert played.result.exit == Exit.ACCEPTED
    assert isinstance(played.fractal, Fractal)
    raw = played.result.path.stat().st_size
    assert raw < 200 * 1000
