"""Several processes and people using one run or one workspace at the same time."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT, PATIENCE, every
from playing import doing, read
from processes import (
    TASK,
    document,
    fractal,
    inner_asked,
    outcome_of,
    root_of,
    run_folder,
    running,
    runs,
    script,
    start,
    stopped_in_child,
    until,
    waiting_for_answer,
)
from warm import REPOSITORY, run

from kernel.asking.responder import Ask, Ladder
from kernel.document.model import ENDED
from kernel.errors import Exit, ForeignEdit, FractalError, RunLocked, UsageError
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal
from runtime.memory.context.sources import READ
from runtime.models.scripted import Scripted
from runtime.workspace.archive import FIGURES
from runtime.workspace.inbox import Inbox, drop
from runtime.workspace.workspace import is_locked, run_lock

MANY = 6 if NIGHT else 3
"""How many processes do the same at the same time."""


def scripted(folder: Path, answers: Callable[[Ask], Any], **settings: Any) -> Fractal:
    folder.mkdir(parents=True, exist_ok=True)
    return Fractal(folder, settings={"sandbox": "off", **settings}, ladder=Ladder((Scripted(answers),)))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in CHECK of its child; its folder is gone, so that it continues in a copy."""
    work = tmp_path_factory.mktemp("killed") / "work"
    stopped_in_child(work)
    return work.rename(work.with_name("stopped"))


@pytest.fixture
def stopped(tmp_path: Path, killed: Path) -> Path:
    return shutil.copytree(killed, tmp_path / "work")


# ---- locks ----------------------------------------------------------------------------------------------


def test_second_resume_names_the_holder_of_the_run(
    tmp_path: Path, stopped: Path, model: str, expected: dict[str, Any]
) -> None:
    work, folder = stopped, run_folder(stopped)
    slow = f"scripted:{script(tmp_path / 'slow.json', slow='inner check')}"
    with running(work, "resume", "--model", slow) as winner:
        until(lambda: inner_asked(work, 3))
        for words in (["resume"], ["resume", folder.name], ["undo", folder.name]):
            loser = fractal(work, *words, *(["--model", model] if words[0] == "resume" else []))
            assert loser.returncode == Exit.FAILED
            assert f"run {folder.name} is held by process {winner.pid}" in loser.stderr
            assert f"fractal cancel {folder.name}" in loser.stderr
        winner.kill()
        winner.wait()
        after = fractal(work, "resume", "--model", model)
    assert (after.returncode, after.stdout) == (Exit.ACCEPTED, "all done\n"), after.stderr
    assert outcome_of(work) == expected


def test_concurrent_resumes_do_the_work_once(stopped: Path, model: str, expected: dict[str, Any]) -> None:
    work, folder = stopped, run_folder(stopped)
    resumers = [start(work, "resume", folder.name, "--model", model) for _ in range(MANY)]
    results = [(each, each.communicate(timeout=60)[1]) for each in resumers]
    codes = Counter(each.returncode for each in resumers)
    assert codes[Exit.ACCEPTED] >= 1 and set(codes) <= {Exit.ACCEPTED, Exit.FAILED}, results
    assert all("is held by process" in message for each, message in results if each.returncode)
    assert outcome_of(work) == expected
    lines = map(json.loads, (folder / "calls.jsonl").read_text().splitlines())
    assert set(Counter(each["key"] for each in lines if each["kind"] == "replied").values()) == {1}


def test_running_run_cannot_be_resumed(tmp_path: Path, expected: dict[str, Any]) -> None:
    """Even right after its folder was created."""
    work = tmp_path / "work"
    work.mkdir()
    slow = script(tmp_path / "slow.json", slow="inner plan", seconds=0.3)
    refused: Counter[type[FractalError]] = Counter()
    with running(work, "run", "--model", f"scripted:{slow}", TASK) as process:
        folder = until(lambda: next(runs(work).glob("*"), None) if runs(work).exists() else None)
        other = scripted(work, lambda ask: None)
        while process.poll() is None and not _ended(folder):
            try:
                asyncio.run(other.resume(folder.name))
            except (RunLocked, UsageError) as error:
                refused[type(error)] += 1
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stdout) == (Exit.ACCEPTED, "all done\n"), stderr
    assert refused[RunLocked] > 0
    assert outcome_of(work) == expected


def _ended(folder: Path) -> bool:
    try:
        return Fractal(folder.parents[3]).document(folder.name).ended
    except FractalError:
        return False


def _poll_lock(folder: Path, times: int) -> None:
    for _ in range(times):
        is_locked(folder)


def test_checking_a_lock_does_not_block_it(tmp_path: Path) -> None:
    """`answer` checks the lock to say who will read the answer."""
    with run_lock(tmp_path):
        pass
    pollers = [multiprocessing.Process(target=_poll_lock, args=(tmp_path, 5_000)) for _ in range(3)]
    for each in pollers:
        each.start()
    while any(each.is_alive() for each in pollers):
        with run_lock(tmp_path):
            pass
    assert not is_locked(tmp_path)


# ---- messages --------------------------------------------------------------------------------------------


def _drop(folder: Path, name: int) -> None:
    for number in range(25):
        drop(folder, ("answer", "approve", "cancel")[number % 3], text=f"{name}/{number}")


def test_messages_of_several_processes_are_neither_lost_nor_duplicated(tmp_path: Path) -> None:
    writers = [multiprocessing.Process(target=_drop, args=(tmp_path, name)) for name in range(8)]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        for _, message in Inbox(tmp_path).messages(("answer", "approve", "cancel")):
            assert "text" in message  # messages are complete
    read = [message["text"] for _, message in Inbox(tmp_path).messages(("answer", "approve", "cancel"))]
    assert sorted(read) == sorted(f"{name}/{number}" for name in range(8) for number in range(25))
    for name in range(8):  # in the order of each writer
        mine = [int(text.partition("/")[2]) for text in read if text.startswith(f"{name}/")]
        assert mine == sorted(mine)


def test_one_of_several_concurrent_answers_is_taken(tmp_path: Path, model: str) -> None:
    work = tmp_path / "work"
    run = waiting_for_answer(work).name
    answering = [start(work, "answer", run, f"answer {n}") for n in range(MANY)]
    resumer = start(work, "resume", run, "--model", model)
    for each in answering:
        _, stderr = each.communicate(timeout=60)
        # a late answer is refused with a message
        assert (
            each.returncode == Exit.ACCEPTED
            or "there is nothing to answer" in stderr
            or "waits for no" in stderr
        )
    resumer.communicate(timeout=60)
    assert resumer.returncode in (Exit.ACCEPTED, Exit.WAITING)  # it may run before any answer
    again = fractal(work, "resume", run, "--model", model)
    assert again.returncode == Exit.ACCEPTED, again.stderr
    answers = [note.text for note in root_of(work).section(1).notes if note.key == "answer"]
    assert len(answers) == 1 and answers[0] in {f"answer {n}" for n in range(MANY)}


def test_concurrently_cancelled_run_ends_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    slow = script(tmp_path / "slow.json", slow="inner check")
    with running(work, "run", "--model", f"scripted:{slow}", TASK) as process:
        until(lambda: inner_asked(work, 2))
        cancelling = [start(work, "cancel", run_folder(work).name) for _ in range(MANY)]
        results = [(each, each.communicate(timeout=60)[1]) for each in cancelling]
        process.communicate(timeout=PATIENCE)
    assert process.returncode == Exit.FAILED
    assert all(each.returncode == 0 or "has ended" in message for each, message in results)
    assert {each.meta.status for each in Fractal(work).documents(run_folder(work).name)} <= ENDED
    assert root_of(work).meta.status == "cancelled"


# ---- editors --------------------------------------------------------------------------------------------

READS = [read("a.txt")] * 2


def _as_vim(path: Path, raw: bytes) -> None:
    new = path.with_name("4913")
    new.write_bytes(raw)
    new.replace(path)


def _in_place(path: Path, raw: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(raw)


class AtEvent:
    """Calls a function when this process opens its nth file."""

    def __init__(self) -> None:
        self.left, self.act = 0, lambda: None
        sys.addaudithook(self.hear)  # audit hooks cannot be removed

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.left and event == "open":
            self.left -= 1
            if not self.left:
                self.act()


@pytest.mark.parametrize("save", [_as_vim, _in_place])
def test_saved_edits_during_a_run_are_never_overwritten(
    tmp_path: Path, save: Callable[[Path, bytes], None]
) -> None:
    """An editor saves at moments at which the run opens a file: at night at each."""
    at, ends, moment = AtEvent(), Counter[str](), 0
    while ends["not reached"] < 1:
        moment += every(14)
        work = tmp_path / f"work-{moment}"
        work.mkdir()
        (work / "a.txt").write_text("a")
        words = f"### answer\nmy words {moment}\n".encode()
        saved: list[bytes] = []

        def edit(work: Path = work, words: bytes = words, saved: list[bytes] = saved) -> None:
            for root in runs(work).glob("*/system-*.md"):
                saved.append(root.read_bytes() + words)
                save(root, saved[0])

        here = scripted(work, doing(*READS))
        at.left, at.act = moment, edit
        try:
            end = asyncio.run(here.run("read")).status
        except ForeignEdit as error:
            end = "stopped"
            assert "kept the external version" in str(error)
        ends[end if saved else "before it" if not at.left else "not reached"] += 1
        at.left = 0
        if not saved:
            continue
        folder = run_folder(work)
        left = (folder / f"system-{folder.name}.md").read_bytes()
        # an edit saved before the run loads its document is part of it
        assert left == saved[0] if end == "stopped" else f"my words {moment}\n".encode() in left, moment
        if all(
            path.name.encode() in saved[0] for path in folder.glob("op-*.md")
        ):  # the edited version has all steps
            assert asyncio.run(here.resume(folder.name)).exit == 0
    assert ends["stopped"] >= 20 // every(14), ends


def test_edited_document_without_finished_steps_continues(stopped: Path, model: str) -> None:
    work = stopped
    child = document(work, "tool-task")
    text = child.read_text()
    head, _, tail = text.partition("## §3 DO")
    head = head.replace('phase: "check"', 'phase: "do"')
    child.write_text(f"{head}## §3 DO\n\n{tail[tail.index('<!-- rev') :]}")
    ran = fractal(work, "resume", "--model", model)
    assert ran.returncode == Exit.ACCEPTED, ran.stderr
    assert root_of(work).steps[2].state == "done"


# ---- many runs -------------------------------------------------------------------------------------------


RUNS = 1000 if NIGHT else 48


_reading = doing(read("a.txt"))


def test_many_runs_in_one_process_all_finish(tmp_path: Path) -> None:
    """The limit of open files is below the number of runs."""
    code = f"""
import asyncio, resource, sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
from pathlib import Path
from test_concurrency import _reading, scripted
resource.setrlimit(resource.RLIMIT_NOFILE, ({RUNS // 2}, {RUNS // 2}))
async def main():
    here = scripted(Path(sys.argv[1]), _reading, fsync=False)
    return await asyncio.gather(*(here.run("read") for _ in range({RUNS})))
results = asyncio.run(main())
print(len({{each.run for each in results}}), {{each.status for each in results}})
"""
    memory = Path("/dev/shm")  # if it exists, so that the disk is not the bottleneck
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as work:
        (Path(work) / "a.txt").write_text("a")
        ran = run([sys.executable, "-c", code, work], cwd=REPOSITORY, capture_output=True, text=True)
        assert ran.stdout == f"{RUNS} {{'unverified'}}\n", ran.stderr[-2000:]
        assert len(Fractal(work).runs()) == RUNS


def _run_many(folder: Path, count: int) -> None:
    async def all_() -> None:
        here = scripted(folder, _reading, fsync=False)
        results = await asyncio.gather(*(here.run("read") for _ in range(count)))
        assert {each.status for each in results} == {"unverified"}

    asyncio.run(all_())


EARLIER = 2 * READ if NIGHT else READ + 3


@pytest.mark.parametrize(
    ("memory", "before", "most"),
    [("remember=False, recall=False", 3, 0), ("", EARLIER, READ)],
)
def test_cost_of_a_run_does_not_grow_with_earlier_runs(
    tmp_path: Path, memory: str, before: int, most: int
) -> None:
    """A run reads no document of another; its memory reads those of the most similar tasks only."""
    code = f"""
import asyncio, sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
from pathlib import Path
from test_concurrency import _reading, scripted
here = scripted(Path(sys.argv[1]), _reading, fsync=False, {memory})
others = {{asyncio.run(here.run(f"read {{n}}")).run for n in range({before})}}
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
second = asyncio.run(here.run("read"))
asyncio.run(here.resume(second.run))
documents = [Path(each).stem.removeprefix("system-") for each in opened if each.endswith(".md")]
print(second.run in documents, len(others & {{*documents}}))
"""
    (tmp_path / "a.txt").write_text("a")
    ran = run([sys.executable, "-c", code, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True)
    own, count = ran.stdout.split()
    assert own == "True", ran.stderr
    assert int(count) <= most
    assert bool(int(count)) is bool(most), "the measured memory does read"


STARTERS, EACH = (8, 12) if NIGHT else (6, 4)


def test_processes_start_runs_in_a_new_workspace_concurrently(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("a")
    starters = [multiprocessing.Process(target=_run_many, args=(work, EACH)) for _ in range(STARTERS)]
    for each in starters:
        each.start()
    for each in starters:
        each.join(60)
    assert [each.exitcode for each in starters] == [0] * STARTERS
    assert Counter(each.status for each in Fractal(work).runs()) == {"unverified": STARTERS * EACH}


def test_listing_tolerates_run_folders_that_come_and_go(tmp_path: Path) -> None:
    """As the folder of a run does while it is archived."""
    runs = tmp_path / ".fractal" / "state" / "runs"
    root = runs / "abcdef" / "system-abcdef.md"

    def come_and_go() -> None:
        for _ in range(3_000 // every(3)):
            root.parent.mkdir(parents=True, exist_ok=True)
            root.touch()
            root.unlink()
            root.parent.rmdir()

    (tmp_path / "fractal.yaml").touch()
    fractal, store = Fractal(tmp_path), FileStore(root.parent)
    other = threading.Thread(target=come_and_go)
    other.start()
    while other.is_alive():
        assert len(fractal.workspace.run_ids()) <= 1
        assert len(fractal.workspace.rootless()) <= 1
        assert len(store.list()) <= 1


def test_old_runs_are_archived_once_during_a_run(
    tmp_path: Path, model: str, expected: dict[str, Any]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    _run_many(work, 5)
    (work / "a.txt").unlink()
    old = {each.run for each in Fractal(work).runs()}
    slow = script(tmp_path / "slow.json", slow="inner check")
    with running(work, "run", "--model", f"scripted:{slow}", TASK) as process:
        mine = until(lambda: {each.run for each in Fractal(work).runs()} - old).pop()
        until(lambda: inner_asked(work, 2))
        collecting = [start(work, "gc", "--keep-days", "0") for _ in range(MANY)]
        listing = [start(work, "ls") for _ in range(MANY)]
        outputs = [each.communicate(timeout=60) for each in collecting]
        listed = [each.communicate(timeout=60) for each in listing]
        assert [each.returncode for each in collecting] == [0] * MANY, outputs
        assert [each.returncode for each in listing] == [0] * MANY, listed
        moved = [line for out, _ in outputs for line in out.split()]
        assert sorted(moved) == sorted(old)
        undone = fractal(work, "undo", mine)
        assert undone.returncode == Exit.FAILED and "is held by process" in undone.stderr
        assert process.poll() is None
    assert fractal(work, "resume", mine, "--model", model).returncode == Exit.ACCEPTED
    assert outcome_of(work) == expected
    archive = work / ".fractal" / "state" / "archive"
    assert {each.name for each in archive.iterdir()} == {f"{run}.tar.gz" for run in old} | {FIGURES}
