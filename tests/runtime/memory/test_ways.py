"""The ways in which tasks were done: what counts as the same, and which are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.document.model import Document, Meta, Note, Section, Step, root_id
from kernel.store.files import FileStore
from runtime.memory.context.ways import ARGUMENT_CHARS, EXAMPLE_CHARS, shaped, ways
from runtime.memory.episodes.experience import Experience, experiences_of

Happened = Callable[..., tuple[Experience, float]]


@pytest.fixture
def happened(tmp_path: Path) -> Happened:
    """Writes the document of a run that ended, and gives its experience."""
    count = 0

    def write(task: str, *steps: Step, good: bool = True, score: float = 0.9) -> tuple[Experience, float]:
        nonlocal count
        count += 1
        run = f"run{count:03}"
        meta = Meta(root_id(run), run, status="complete" if good else "failed", phase="check")
        sections = {
            1: Section(notes=(Note("task", task, "person"),)),
            2: Section(steps={step.n: Step(step.n, "planned", step.tool, step.args) for step in steps}),
            3: Section(steps={step.n: step for step in steps}),
        }
        document = Document(meta, sections)
        folder = tmp_path / "runs" / run
        folder.mkdir(parents=True)
        FileStore(folder).save(document)
        (experience,) = experiences_of([document])
        return experience, score

    return write


def step(n: int, tool: str, **args: Any) -> Step:
    return Step(n, "done", tool, args)


def sort(name: str, **more: Any) -> Step:
    return step(1, "sort", path=f"scores/{name}.txt", **more)


def rank(name: str) -> str:
    return f"make the ranking of {name} from scores/{name}.txt"


def test_other_names_and_numbers_are_the_same_way_and_other_choices_are_not() -> None:
    def set_port(name: str, old: int, new: int, folder: str = "a") -> str:
        edit = step(1, "edit", path=f"{folder}/{name}.md", old=f"port: {old}", new=f"port: {new}")
        return shaped([edit], f"set the port of {name} to {new}")

    assert set_port("tea", 80, 8080) == set_port("rice", 7, 9)
    assert set_port("rice", 7, 9, folder="b") != set_port("rice", 7, 9)
    assert shaped([sort("x", order="descending")], rank("x")) != shaped([sort("x")], rank("x"))


def test_of_each_way_the_most_similar_task_is_shown_with_all_that_went_it(
    happened: Happened, tmp_path: Path
) -> None:
    near = [
        happened(rank(name), sort(name, order="descending"), score=0.9) for name in ("tea", "rice", "salt")
    ]
    (way,) = ways(near, tmp_path)
    assert way.text == (
        "“make the ranking of tea from scores/tea.txt” was solved by: "
        'sort {"path": "scores/tea.txt", "order": "descending"}'
    )
    assert (way.good, way.bad) == (["run001", "run002", "run003"], 0)


def test_a_way_that_went_wrong_as_often_as_well_is_not_shown(happened: Happened, tmp_path: Path) -> None:
    near = [happened(rank("a"), sort("a"))]
    near += [happened(rank("b"), sort("b"), good=False)]
    assert ways(near, tmp_path) == []
    near += [happened(rank("c"), sort("c", order="descending")), happened(rank("d"), sort("d"), good=False)]
    (way,) = ways(near, tmp_path)
    assert "descending" in way.text


def test_the_way_that_most_runs_went_comes_first_and_a_rare_one_is_left_out(
    happened: Happened, tmp_path: Path
) -> None:
    usual = [happened(rank(name), sort(name, order="descending"), score=0.8) for name in "abcde"]
    second = [happened(rank(name), sort(name, numeric=True), score=0.85) for name in "fgh"]
    rare = [happened(rank("i"), step(1, "bash", command="sort -rn scores/i.txt"), score=0.99)]
    assert [len(way.good) for way in ways([*rare, *second, *usual], tmp_path)] == [5, 3]


def test_luck_with_tools_that_go_wrong_otherwise_counts_less(happened: Happened, tmp_path: Path) -> None:
    lucky = [happened(rank(name), sort(name, order="lucky"), score=0.95) for name in "ab"]
    wrong = [happened(rank(name), sort(name, order=f"{name}x{name}"), good=False) for name in "cdefi"]
    sure = [happened(rank(name), sort(name), step(2, "count", path=f"{name}.txt")) for name in "gh"]
    assert [way.tools for way in ways([*lucky, *wrong, *sure], tmp_path)] == ["sort count"]


def test_a_run_whose_document_is_gone_still_tells_its_tools(happened: Happened, tmp_path: Path) -> None:
    experience, _ = happened(rank("tea"), sort("tea"))
    (tmp_path / experience.document).unlink()
    (way,) = ways([(experience, 0.9)], tmp_path)
    assert way.text == "“make the ranking of tea from scores/tea.txt” went well with: sort done"


def test_what_is_long_is_cut_what_is_secret_is_left_out_and_what_is_no_success_is_no_example(
    happened: Happened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "xKq7" * 20
    content = f"{'it is ' * 10}{secret}"
    assert len(content) > ARGUMENT_CHARS
    long = happened("write it", *(step(n, "write", path=f"{n}.txt", content=content) for n in range(1, 30)))
    monkeypatch.setenv("SHOP_TOKEN", secret)  # known to be a secret after it was written
    (way,) = ways([long], tmp_path)
    assert len(way.text) <= EXAMPLE_CHARS
    assert "it is [redacted SHOP_TOKEN]" in way.text
    assert "xKq7" not in way.text, "nor a part of it, where the argument is cut"
    endless = happened("write all", *(step(n, "write", path=f"{n}.txt", content="") for n in range(1, 60)))
    stopped = (happened("stop", sort("x"))[0].model_copy(update={"success": None}), 0.9)
    assert ways([endless, stopped], tmp_path) == []
