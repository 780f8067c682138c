"""Which other runs are active, how agents performed, and which agent is best."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kernel.document.model import Document, Meta, Note, Section, root_id
from kernel.store.files import FileStore
from runtime.memory.context.awareness import active, best, profiles, totals
from runtime.memory.episodes.experience import Experience
from runtime.workspace.workspace import run_lock


def begun(runs: Path, run: str, task: str, **meta: str) -> Path:
    folder = runs / run
    folder.mkdir(parents=True)
    given = {"status": "running", "phase": "do", "extra": {"agent": "ada"}, **meta}
    document = Document(Meta(root_id(run), run, **given), {1: Section(notes=(Note("task", task, "person"),))})  # type: ignore[arg-type]
    FileStore(folder).save(document)
    return folder


def test_a_run_that_somebody_works_on_is_active_and_one_that_rests_is_not(tmp_path: Path) -> None:
    held, rests = begun(tmp_path, "aaaaaa", "sweep the yard"), begun(tmp_path, "bbbbbb", "rest")
    ended = begun(tmp_path, "cccccc", "done already", status="complete")
    with run_lock(held), run_lock(ended):
        (found,) = active(tmp_path)
        assert (found.run, found.agent, found.task, found.phase) == ("aaaaaa", "ada", "sweep the yard", "do")
        assert active(tmp_path, but="aaaaaa") == []
        assert active(tmp_path, now=datetime.now(UTC) + timedelta(seconds=400)) == []
    assert active(tmp_path) == []
    assert rests.is_dir()


def test_a_broken_run_and_a_missing_folder_are_no_work(tmp_path: Path) -> None:
    assert active(tmp_path / "none") == []
    folder = begun(tmp_path, "aaaaaa", "x")
    with run_lock(folder):
        (folder / "system-aaaaaa.md").write_bytes(b"\xff no document")
        assert active(tmp_path) == []


def test_of_a_thousand_runs_only_the_newest_are_looked_into(tmp_path: Path) -> None:
    for n in range(60):
        folder = begun(tmp_path, f"r{n:05}", "old")
        os.utime(folder, (n, n))
    held = begun(tmp_path, "zzzzzz", "new")
    with run_lock(held):
        assert [each.run for each in active(tmp_path)] == ["zzzzzz"]


def experience(n: int, agent: str, type: str, good: bool | None) -> Experience:
    at = f"2026-11-{n % 28 + 1:02}T10:00:00Z"
    fields = {"agent": agent, "type": type, "success": good, "seconds": 2.0, "at": at, "tools": ("read",)}
    return Experience(id=f"system-{n}", text=f"task {n}", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("good", "bad", "score"),
    [(2, 0, 0.5), (3, 0, 0.15), (10, 0, 0.5), (15, 5, 0.75), (40, 0, 1.0), (0, 9, 0.0)],
)
def test_the_score_is_the_rate_weighted_by_samples(good: int, bad: int, score: float) -> None:
    past = [experience(n, "ada", "edit", n < good) for n in range(good + bad)]
    (ada,) = profiles(past)
    assert ada.by_type["edit"].score == pytest.approx(score)


def test_the_best_agent_is_by_type_of_task_and_over_all_spaces() -> None:
    past = [experience(n, "ada", "edit", True) for n in range(8)]
    past += [experience(n, "bo", "edit", n % 2 == 0) for n in range(8)]
    past += [experience(n, "bo", "data", True) for n in range(4)]
    past += [experience(99, "bo", "data", None)]  # cancelled
    known = profiles(past)
    found = {name: best(totals(known, name)) for name in ("edit", "data")}
    scores = {name: (each[0], each[1].score) for name, each in found.items() if each}
    assert scores == {"edit": ("ada", pytest.approx(0.4)), "data": ("bo", pytest.approx(0.2))}
    assert best(totals(known, "code")) is None
    bo = next(each for each in known if each.agent == "bo")
    assert bo.by_type["data"].samples == 4
    assert len(bo.recent) == 10
    assert bo.tools == {"read": 12}


def test_the_report_names_the_best_agent_of_each_type_that_was_tried_often_enough():
    from runtime.api.learning import best_agents, in_words
    from runtime.memory.context.awareness import Profile, Record
    from runtime.memory.learning.report import Report, Side

    known = [
        Profile("ada", "default", by_type={"edit": Record(18, 2), "git": Record(1, 0)}),
        Profile("bo", "default", by_type={"edit": Record(9, 11)}),
    ]
    found = best_agents(known)
    assert [(each.type, each.agent, each.score, each.samples) for each in found] == [("edit", "ada", 0.9, 20)]
    report_text = in_words(Report(Side(), Side(), best=found))
    assert "best agent for edit: ada (score 0.90, 20 attempts)" in report_text
