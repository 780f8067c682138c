"""The Python API: undo, archive, settings and their sources, runs that come from elsewhere."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, plan

from kernel.asking.responder import Ask, Ladder
from kernel.errors import ConfigurationError, Exit, UsageError
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
from runtime.workspace.settings import load


def writing(*steps: dict[str, Any]) -> Callable[[Ask], Any]:
    return lambda ask: ACCEPT if ask.phase == "check" else plan(*steps)


def write(path: str, content: str) -> dict[str, Any]:
    return {"tool": "write", "args": {"path": path, "content": content}}


def test_undo_puts_back_what_was_replaced_newest_first(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "a.txt").write_text("before")
    played = play(writing(write("a.txt", "one"), write("a.txt", "two"), write("new.txt", "n")))
    assert (work / "a.txt").read_text() == "two"
    said = played.fractal.undo(played.result.run)
    assert (work / "a.txt").read_text() == "before"
    assert not (work / "new.txt").exists()
    assert said == ["a.txt: put back", "new.txt: removed, as it was not there before"]


def test_runs_are_listed_while_others_archive_them(play: Play, tmp_path: Path) -> None:
    played = play(writing(write("a.txt", "one")))
    runs, away = played.fractal.workspace.runs, tmp_path / "away"
    away.mkdir()
    first = played.result.run
    for number in range(300):
        name = f"many{number}"
        shutil.copytree(runs / first, runs / name)
        (runs / name / f"system-{first}.md").rename(runs / name / f"system-{name}.md")

    def archive() -> None:
        for number in range(300):
            (runs / f"many{number}").rename(away / str(number))

    moving = threading.Thread(target=archive)
    moving.start()
    listed: list[set[str]] = []
    while moving.is_alive():
        listed.append({each.status for each in played.fractal.runs()})
    moving.join()
    assert all(each == {played.result.status} for each in listed)
    assert [each.run for each in played.fractal.runs()] == [first]


def test_undo_brings_a_removed_file_back_with_its_mode(play: Play, tmp_path: Path) -> None:
    script = tmp_path / "work" / "run.sh"
    script.write_text("echo run\n")
    script.chmod(0o750)
    steps = plan({"tool": "remove", "args": {"path": "run.sh"}})
    played = play(lambda ask: ACCEPT if ask.phase == "check" else steps)
    assert not script.exists()
    assert played.fractal.undo(played.result.run) == ["run.sh: put back"]
    assert script.read_text() == "echo run\n" and script.stat().st_mode & 0o777 == 0o750


def test_undo_leaves_alone_what_a_person_changed_since(play: Play, tmp_path: Path) -> None:
    played = play(writing(write("a.txt", "one")))
    (tmp_path / "work" / "a.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"changed since: a\.txt; nothing was put back"):
        played.fractal.undo(played.result.run)
    assert (tmp_path / "work" / "a.txt").read_text() == "mine"


def test_undo_of_one_step_leaves_the_others(play: Play, tmp_path: Path) -> None:
    played = play(writing(write("a.txt", "a"), write("b.txt", "b")))
    assert played.fractal.undo(played.result.run, 2) == ["b.txt: removed, as it was not there before"]
    assert (tmp_path / "work" / "a.txt").exists()


def test_a_run_put_away_can_be_brought_back(play: Play) -> None:
    played = play(writing(write("a.txt", "a")))
    fractal, run = played.fractal, played.result.run
    assert fractal.gc(keep_days=1) == []
    assert fractal.gc(keep_days=0, dry_run=True) == [run]
    assert fractal.gc(keep_days=0) == [run]
    assert fractal.runs() == []
    archive = fractal.workspace.state / "archive" / f"{run}.tar.gz"
    subprocess.run(["tar", "-xzf", archive], cwd=fractal.workspace.runs, check=True)
    assert fractal.document(run).meta.status == "complete"


def test_a_run_that_was_copied_here_goes_on_in_this_folder(play: Play, tmp_path: Path) -> None:
    question = {"task": "t", "question": "which?"}
    played = play(lambda ask: question)
    there = tmp_path / "there"
    (there / ".fractal" / "state" / "runs").mkdir(parents=True)
    shutil.copytree(played.folder, there / ".fractal" / "state" / "runs" / played.result.run)
    shutil.rmtree(tmp_path / "work")
    moved = Fractal(there, settings={"sandbox": "off"}, ladder=played.fractal.ladder)
    moved.tell(played.result.run, "answer", text="this one")

    turns = {"calls": [write("a.txt", "a"), {"tool": "done", "args": {"answer": "written"}}]}
    again = Fractal(there, settings={"sandbox": "off"}, ladder=Ladder((Scripted(lambda ask: turns),)))
    assert asyncio.run(again.resume(played.result.run)).exit == Exit.ACCEPTED
    assert (there / "a.txt").read_text() == "a"


def test_a_document_is_found_by_its_name_and_not_by_a_piece_of_it(play: Play) -> None:
    played = play(lambda ask: ACCEPT if ask.phase == "check" else plan(write("a.txt", "a")))
    run = played.result.run
    assert played.fractal.document(f"op-write-{run}-1").meta.type == "write"
    assert played.fractal.document(f"op-write-{run}-1.md").meta.type == "write"
    with pytest.raises(UsageError, match="there is no document"):
        played.fractal.document(f"op-write-{run}-1.7")
    with pytest.raises(UsageError, match="there is no run"):
        played.fractal.find("zzzzzz")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("calls: many", "calls: Input should be a valid integer"),
        ("colour: red", "there is no setting colour"),
        ("cals: 3", "did you mean calls?"),
        ("seconds: .inf", "seconds"),
        ("- a\n", "a mapping of settings is needed"),
        ("a: [", "fractal.yaml:"),
        ("ladder: [{model: reflex, phases: [plan]}]", "cannot be limited to phases"),
    ],
)
def test_a_wrong_setting_names_its_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "fractal.yaml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, {})
    assert says in str(caught.value)
    assert str(tmp_path / "fractal.yaml") in str(caught.value)


def test_a_bare_off_turns_the_sandbox_off(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("sandbox: off\n")
    assert load(tmp_path, {})[0].sandbox == "off"


def test_profiles_scale_the_work_context(tmp_path: Path) -> None:
    sizes = [
        load(tmp_path, {"profile": name})[0].bounds().context(0) for name in ("compact", "standard", "large")
    ]
    assert sizes == [3000, 12000, 48000]


def test_an_empty_task_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the task is empty"):
        asyncio.run(Fractal(tmp_path).run("  "))
    assert not (tmp_path / ".fractal").exists()


def test_a_run_sees_the_five_before_it_and_the_plan_of_one_that_did_not_end(play: Play) -> None:
    played = [play(writing(write("a.txt", "0")), "task 0", plan_only=True, thread="talk")]
    assert played[0].root.meta.extra["thread"] == "talk"
    for n in range(1, 7):
        played.append(play(writing(write("b.txt", "1")), f"task {n}", after=played[-1].result.run))

    def seen(n: int) -> list[str]:
        notes = played[n].root.section(1).notes
        return [note.text for note in notes if note.source.startswith("run ")]

    waits = 'Task: task 0\nPlan: write {"path": "a.txt", "content": "0"}\nOutput: waiting'
    assert seen(2) == [waits, "Task: task 1\nOutput: done"]
    assert [text.split("\n")[0] for text in seen(6)] == [f"Task: task {n}" for n in range(1, 6)]


def test_every_event_is_a_line_of_json(play: Play) -> None:
    played = play(writing(write("a.txt", "a")))
    lines = [json.loads(json.dumps(event.as_dict())) for event in played.events]
    assert {line["v"] for line in lines} == {1}
    assert lines[0]["kind"] == "run_started" and lines[-1]["kind"] == "run_finished"
