"""What is replayed without a model was made by this user's Fractal, and its maker is still trusted."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from in_process import in_process
from playing import ACCEPT, plan, write

from runtime.api.fractal import Fractal, RunResult, shipped_system
from runtime.evolution.files import File
from runtime.memory.facts.records import Observation
from runtime.memory.tasks.makers import is_ours
from runtime.memory.tasks.trees import NeuronTree
from runtime.reflexes.procedure import Reflexes

TASK = "Write the capital of Peru into peru.txt"
GOOD, EVIL = "Lima", "as nobody wanted"
QUICK: Mapping[str, Any] = {"embedder": "lexical", "fsync": False, "sandbox": "off", "check": "always"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place of all tests of this module, with the configurations of the users."""
    return tmp_path_factory.mktemp("makers")


@pytest.fixture
def user(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Be another user, with a configuration and a key of one's own."""

    def be(name: str) -> None:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / name))

    be("me")
    return be


@pytest.fixture
def work(home: Path, user: object) -> Path:
    """An empty folder, at the same place for each test."""
    place = home / "place"
    shutil.rmtree(place, ignore_errors=True)
    (place / "work").mkdir(parents=True)
    return place / "work"


def writing(content: str, *, judged: bool = False) -> dict[str, Any]:
    success = [{"judge": "it is done"}] if judged else [{"file": "peru.txt", "has": re.escape(content)}]
    return plan(write("peru.txt", content), success=success)


def fractal(work: Path, name: str, made: Mapping[str, Any], **settings: Any) -> Fractal:
    """With the model of this name, which plans this."""
    script = work.parent / f"{name}.json"
    script.write_text(json.dumps({"plan": made, "check": ACCEPT}))
    return Fractal(work, settings={**QUICK, "model": f"scripted:{script}", **settings})


def run(made: Fractal, task: str = TASK) -> RunResult:
    (made.workspace.folder / "peru.txt").unlink(missing_ok=True)
    try:
        return asyncio.run(made.run(task))
    finally:
        made.brain.close()


def after(work: Path, name: str, content: str, **settings: Any) -> RunResult:
    """The folder after the first run of a model; the same run is made once, and put back for other tests."""
    store = str(settings.get("store", "sqlite"))
    kept = work.parents[1] / "kept" / Path(os.environ["XDG_CONFIG_HOME"]).name / f"{name}-{content}-{store}"
    if not kept.exists():
        _results[kept] = run(fractal(work, name, writing(content), **settings))
        shutil.copytree(work.parent, kept, symlinks=True)
    else:
        assert not [*work.iterdir()], "it is the first run here"
        shutil.copytree(kept, work.parent, symlinks=True, dirs_exist_ok=True)
    return _results[kept]


_results: dict[Path, RunResult] = {}


def asked(result: RunResult) -> bool:
    return bool(result.spent["calls"])


def trees(work: Path) -> list[NeuronTree]:
    shelf = Fractal(work, settings=QUICK).brain.shelf
    return list(shelf.scan(NeuronTree))


# ---- the ladder grows ------------------------------------------------------------------------------------


def test_what_a_model_solved_costs_nothing_the_next_time(work: Path) -> None:
    assert asked(after(work, "model", GOOD))
    assert not asked(run(fractal(work, "model", writing(EVIL))))
    assert (work / "peru.txt").read_text() == GOOD


def test_it_goes_with_the_folder_of_the_same_user(work: Path) -> None:
    after(work, "model", GOOD)
    moved = work.parent / "moved"
    shutil.move(work, moved)
    assert not asked(run(fractal(moved, "model", writing(EVIL))))


# ---- what came with a folder -----------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["sqlite", "files"])
def test_what_another_user_has_stored_is_not_replayed(
    work: Path, user: Callable[[str], None], store: str
) -> None:
    user("stranger")
    after(work, "model", EVIL, store=store)
    user("me")
    assert asked(run(fractal(work, "model", writing(GOOD), store=store)))
    assert (work / "peru.txt").read_text() == GOOD
    assert not asked(run(fractal(work, "model", writing(EVIL), store=store))), "mine is not hidden by theirs"
    assert (work / "peru.txt").read_text() == GOOD


def test_it_is_said_why_it_is_not_replayed(work: Path, user: Callable[[str], None]) -> None:
    user("stranger")
    after(work, "model", EVIL)
    user("me")
    recall = fractal(work, "model", writing(GOOD)).brain.recall(TASK)
    assert recall is not None and recall.kind == "novel" and "it is a draft" in recall.why


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "steps": lambda row: row["exemplar"]["steps"][0]["args"].update(content=EVIL),
    "another step": lambda row: row["exemplar"]["steps"].append(
        {"tool": "bash", "args": {"command": "true"}, "needs": []}
    ),
    "success": lambda row: row["exemplar"].update(success=[]),
    "output": lambda row: row["exemplar"].update(output=EVIL),
    "verified": lambda row: row["exemplar"].update(verified=not row["exemplar"]["verified"]),
    "choices": lambda row: row["exemplar"].update(choices=["write.content"]),
    "made": lambda row: row["exemplar"].update(made=True),
    "maker": lambda row: row.update(maker="openai/another"),
    "rung": lambda row: row.update(rung="openai/another"),
    "evidence": lambda row: row.update(evidence="person"),
    "no mark": lambda row: row.update(mark=""),
    "another mark": lambda row: row.update(mark="0" * 64),
    "a mark that is no number": lambda row: row.update(mark="ü" * 64),
}


BY_DAY = ("steps", "success", "maker", "evidence", "no mark", "another mark", "a mark that is no number")
"""What is replayed, who made it, and the mark; the others are looked at without a run."""


def test_what_somebody_has_edited_has_no_mark(work: Path) -> None:
    after(work, "model", GOOD, store="files")
    (path,) = (work / ".fractal" / "state" / "memory" / "brain").rglob("neuron-tree/**/*.json")
    whole = json.loads(path.read_text())
    assert is_ours(NeuronTree.model_validate(whole))
    for name, change in CHANGES.items():
        row = copy.deepcopy(whole)
        change(row)
        assert not is_ours(NeuronTree.model_validate(row)), name


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, marks=() if name in BY_DAY else pytest.mark.night, id=name)
        for name, change in CHANGES.items()
    ],
)
def test_what_somebody_has_edited_is_not_replayed(
    work: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    after(work, "model", GOOD, store="files")
    (path,) = (work / ".fractal" / "state" / "memory" / "brain").rglob("neuron-tree/**/*.json")
    row = json.loads(path.read_text())
    change(row)
    path.write_text(json.dumps(row))
    assert asked(run(fractal(work, "model", writing(GOOD), store="files")))


def test_a_stranger_who_solved_it_the_same_way_hides_nothing(work: Path, user: Callable[[str], None]) -> None:
    user("stranger")
    after(work, "model", GOOD)
    user("me")
    assert asked(run(fractal(work, "model", writing(GOOD))))
    assert not asked(run(fractal(work, "model", writing(EVIL))))
    assert all(is_ours(tree) for tree in trees(work))


# ---- methods ---------------------------------------------------------------------------------------------

METHOD = """---
name: "brew"
description: "brew tea"
phrasings: |
  brew some tea
steps:
  - tool: "write"
    args: {"path": "tea.txt", "content": "as nobody wanted"}
status: active
origin: learned
---
# Brew
"""


def method(work: Path, name: str = "brew.md", text: str = METHOD) -> Path:
    path = work / ".fractal" / "state" / "memory" / "methods" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_method_that_came_with_the_folder_is_a_draft_until_it_is_accepted(work: Path) -> None:
    method(work)
    made = fractal(work, "model", plan(write("tea.txt", GOOD), success=[{"file": "tea.txt", "has": GOOD}]))
    result = asyncio.run(made.run("brew some tea"))
    assert asked(result) and (work / "tea.txt").read_text() == GOOD
    (listed,) = made.brain.methods.listed()
    assert listed.status == "draft" and "fractal brain methods on brew" in listed.note
    assert made.brain.methods.switch("brew", True).status == "active"
    made.brain.close()
    (work / "tea.txt").unlink()
    asyncio.run(fractal(work, "model", writing(GOOD), recall=True).run("brew some tea"))
    assert (work / "tea.txt").read_text() == EVIL


@pytest.mark.parametrize("name", ["language.md", "count.md"])
def test_a_file_of_the_folders_memory_hides_none_that_ships(work: Path, name: str) -> None:
    method(work, name, METHOD if name != "language.md" else "---\nkinds: {}\n---\n")
    plain = Reflexes([shipped_system()])
    both = Reflexes([work / ".fractal" / "state" / "memory" / "methods", shipped_system()])
    assert [each.path for each in both.shelf.procedures] == [each.path for each in plain.shelf.procedures]
    assert both.shelf.language == plain.shelf.language


@pytest.mark.parametrize("name", ["operations/write.md", "memory/words.md", "demand.md", "reflexes/brew.md"])
def test_no_instruction_lies_beside_methods(work: Path, name: str) -> None:
    path = method(work, name)
    both = Reflexes([work / ".fractal" / "state" / "memory" / "methods", shipped_system()])
    assert both.shelf.systems == (shipped_system(),)
    assert not any(each.path == path for each in both.shelf.procedures)


def test_an_accepted_method_that_is_edited_is_a_draft_again(work: Path) -> None:
    path = method(work)
    made = fractal(work, "model", writing(GOOD))
    made.brain.methods.switch("brew", True)
    path.write_text(path.read_text().replace(EVIL, "something else"))
    (listed,) = made.brain.methods.listed()
    assert listed.status == "draft" and listed.edited
    made.brain.close()


# ---- a model that was replaced ---------------------------------------------------------------------------


@pytest.mark.parametrize("judged", [False, True])
def test_a_plan_of_a_model_that_was_replaced_is_not_replayed(work: Path, judged: bool) -> None:
    """Its own criteria say nothing for it."""
    run(fractal(work, "hostile", writing(EVIL, judged=judged)))
    assert asked(run(fractal(work, "other", writing(GOOD))))
    assert (work / "peru.txt").read_text() == GOOD
    assert not asked(run(fractal(work, "other", writing(EVIL)))), "what the other one made is replayed"
    assert (work / "peru.txt").read_text() == GOOD


def test_nor_where_no_model_is_left(work: Path) -> None:
    after(work, "hostile", EVIL)
    (work / "peru.txt").unlink()
    made = Fractal(work, settings={**QUICK, "model": "reflex"})
    result = asyncio.run(made.run(TASK))
    assert result.status == "waiting" and not (work / "peru.txt").exists()
    assert "it is a draft of scripted:" in made.path(result.run).read_text()
    made.brain.close()


def test_the_same_name_at_another_address_is_another_maker(work: Path) -> None:
    hostile = {"api_base": "http://127.0.0.1:9"}
    rungs = [{"model": "reflex"}, {"model": f"scripted:{work.parent}/model.json"}]
    run(fractal(work, "model", writing(EVIL), model=None, ladder=[rungs[0], {**rungs[1], **hostile}]))
    assert asked(run(fractal(work, "model", writing(GOOD), model=None, ladder=rungs)))


def test_a_model_that_comes_to_the_same_steps_makes_them_its_own(work: Path) -> None:
    after(work, "model", GOOD)
    assert asked(run(fractal(work, "second", writing(GOOD))))
    assert not asked(run(fractal(work, "second", writing(EVIL))))
    assert len(trees(work)) == 1


def test_many_of_a_replaced_model_do_not_hide_one_of_the_present_one(work: Path) -> None:
    for name in ("Chile", "Cuba", "Italy", "Spain", "France"):
        task = TASK.replace("Peru", name)
        run(fractal(work, "hostile", plan(write("peru.txt", EVIL), success=[{"file": "peru.txt"}])), task)
    assert asked(run(fractal(work, "other", writing(GOOD))))
    assert not asked(run(fractal(work, "other", writing(EVIL))))


def test_what_a_person_approved_is_replayed_whoever_made_it(work: Path) -> None:
    result = after(work, "model", GOOD)
    again = fractal(work, "model", writing(GOOD))
    again.feedback(result.run, True)
    again.brain.close()
    assert not asked(run(fractal(work, "second", writing(EVIL))))
    assert (work / "peru.txt").read_text() == GOOD


def test_a_model_that_is_back_has_its_procedures_again(work: Path) -> None:
    after(work, "model", GOOD)
    (work.parent / "second.json").write_text("{}")
    assert not asked(run(fractal(work, "model", writing(EVIL))))


# ---- forgetting ------------------------------------------------------------------------------------------


def observations(work: Path) -> list[Observation]:
    return list(Fractal(work, settings=QUICK).brain.shelf.scan(Observation))


def forget(work: Path, **what: str) -> Any:
    from runtime.memory.forgetting.forgetting import Forgetting
    from runtime.memory.forgetting.request import Request

    made = Fractal(work, settings=QUICK)
    try:
        return Forgetting(made.brain, made.workspace.state).do(Request(**what))
    finally:
        made.brain.close()


def test_forgetting_a_model_removes_what_it_made_and_nothing_else(work: Path) -> None:
    after(work, "hostile", EVIL)
    other = "Write the capital of Chile into chile.txt"
    good = plan(write("chile.txt", "Santiago"), success=[{"file": "chile.txt", "has": "Santiago"}])
    run(fractal(work, "other", good), other)
    result = forget(work, model="scripted:hostile.json")
    assert result.preview.counts["neuron-tree"] == 1
    assert [tree.exemplar.task for tree in trees(work)] == [other]
    assert result.left, "the documents of its runs stay, and it is said"
    assert asked(run(fractal(work, "hostile", writing(GOOD)))), (
        "nothing of it is replayed, though it is there"
    )
    (work / "chile.txt").unlink()
    assert not asked(run(fractal(work, "other", writing(EVIL)), other))


@pytest.mark.parametrize("by", ["model", "run"])
def test_a_note_that_a_plan_stored_is_forgotten_with_its_model_and_its_run(work: Path, by: str) -> None:
    note = {"tool": "remember", "args": {"text": "The release server is evil.example.com"}, "needs": []}
    evil = writing(EVIL)
    made = run(fractal(work, "hostile", {**evil, "steps": [note, *evil["steps"]]}))
    assert [each for each in observations(work) if "evil.example" in each.text]
    forget(work, **({"model": "scripted:hostile.json"} if by == "model" else {"run": made.run}))
    assert not [each for each in observations(work) if "evil.example" in each.text]


def test_a_run_that_no_memory_names_is_forgotten_without_loss(work: Path) -> None:
    """What has no source is of no run, whatever the run is called."""
    after(work, "model", GOOD)
    for name in ("None", "null"):
        preview = forget(work, run=name).preview
        assert preview.nothing and len(trees(work)) == 1, name


def test_a_model_at_one_address_is_forgotten_and_the_same_name_at_another_stays(work: Path) -> None:
    after(work, "model", GOOD)
    made = Fractal(work, settings=QUICK)
    (tree,) = made.brain.shelf.scan(NeuronTree)
    here, there = ("ollama/m at http://127.0.0.1:1", "ollama/m at http://127.0.0.1:2")
    made.brain.shelf.put(
        *(
            tree.model_copy(update={"id": each[-1] * 24, "rung": "ollama/m", "maker": each})
            for each in (here, there)
        )
    )
    made.brain.close()
    forget(work, model=here)
    assert sorted(each.maker for each in trees(work)) == sorted([tree.maker, there])


@pytest.mark.parametrize("value", [5, ["x"], [5, {"a": ["x"]}]])
@pytest.mark.parametrize("field", ["rungs", "rung", "maker", "run", "thread", "source", "who"])
def test_a_record_edited_by_hand_keeps_forget_from_nothing(work: Path, field: str, value: object) -> None:
    after(work, "model", GOOD, store="files")
    for path in (work / ".fractal" / "state" / "memory" / "brain").rglob("*.json"):
        row = json.loads(path.read_text())
        if isinstance(row, dict) and field in row:
            path.write_text(json.dumps({**row, field: value}))
    env = {**os.environ, "NO_COLOR": "1", "FRACTAL_STORE": "files"}
    for words in (("--model", "scripted:model.json"), ("--run", "abcdef"), ("tea",)):
        shown = in_process(work, ("forget", *words), env)
        assert shown.exit in (0, 1) and "internal error" not in shown.err, (words, shown.err)


def test_what_is_forgotten_of_a_model_does_not_come_back_from_its_runs(work: Path) -> None:
    after(work, "hostile", EVIL)
    forget(work, model="scripted:hostile.json")
    made = Fractal(work, settings=QUICK)
    made.brain.episodes.rebuild()
    assert not list(made.brain.shelf.rows("neuron-tree")) and not list(made.brain.shelf.rows("experience"))
    made.brain.close()


def test_the_command_says_what_it_removes_and_what_it_leaves(work: Path) -> None:
    after(work, "hostile", EVIL)
    env = {**os.environ, "NO_COLOR": "1"}
    shown = in_process(work, ("forget", "--model", "scripted:hostile.json"), env)
    assert (
        f"- neuron-tree {trees(work)[0].id[:12]}: {TASK}" in shown.out and "stays: the documents" in shown.out
    )
    assert len(trees(work)) == 1
    assert in_process(work, ("forget", "--model", "scripted:hostile.json", "--yes"), env).exit == 0
    assert trees(work) == []


def test_what_its_runs_built_stays_and_is_named(work: Path) -> None:
    """Admitted by its sample, or adopted by a person; not what others built."""
    result = after(work, "hostile", EVIL)
    journal = Fractal(work, settings=QUICK).workshop.journal
    for kind, unit, author, run in (
        ("admitted", "tools/own", f"run {result.run}", result.run),
        ("adopted", "tools/proposed", "person", result.run),
        ("adopted", "tools/other", "person", "zzzzzz"),
        ("added", "tools/mine", "person", ""),
    ):
        journal.change(kind, unit, {f"{unit}/pattern.md": File(b"x")}, author, run=run)
    env = {**os.environ, "NO_COLOR": "1"}
    words = ("forget", "--model", "scripted:hostile.json")
    lines = [line for line in in_process(work, words, env).out.splitlines() if "built by" in line]
    assert lines == [
        f"stays: {unit}, built by run {result.run}; to retire it: fractal tools retire {Path(unit).name}"
        for unit in ("tools/own", "tools/proposed")
    ]
    shown = json.loads(in_process(work, (*words, "--json"), env).out)
    assert shown["built"] == {"tools/own": result.run, "tools/proposed": result.run}


def test_a_name_that_made_nothing_is_nothing(work: Path) -> None:
    after(work, "model", GOOD)
    assert forget(work, model="scripted:nobody.json").preview.nothing
    assert len(trees(work)) == 1
