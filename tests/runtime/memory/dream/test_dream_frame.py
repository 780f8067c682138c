"""A dream is archived, rehearsed, killed, resumed and undone; only one runs at a time."""

from __future__ import annotations

from pathlib import Path

import nights
import pytest
from lanes import NIGHT
from nights import NOW, brain_in, dreamer, exported, filled, killed

from kernel.errors import FractalError, StorageError, UsageError
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.stages import ALL, Dream, DreamRecord, Stage, StageRecord, StageResult
from runtime.memory.tasks.trees import NeuronTree

LONG = () if NIGHT else ("mitosis", "cluster-substrates")
STAGES = [stage for stage in ALL if stage.name not in LONG]
"""The stages of a dream here: by day without two that take long and write as others do."""
NAMES = [stage.name for stage in STAGES]
KILLS = [(name, "end") for name in NAMES]
KILLS += [(name, "first write") for name in ("create", "merge-neurons", "mitosis", "birth-methods", "report")]
BY_DAY = [(name, "end") for name in ("merge-neurons", "birth-methods", "report")]
BY_DAY += [("birth-methods", "first write")]
"""A stage that changes records, one that writes files too, the last one, and a death in its first write."""


@pytest.fixture(autouse=True)
def stages_of_a_process_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nights, "ALL", STAGES)


@pytest.mark.parametrize("kind", ["sqlite", "files", pytest.param("memory", marks=pytest.mark.night)])
def test_undo_restores_rows_and_files_exactly(tmp_path: Path, kind: str) -> None:
    brain = filled(tmp_path, kind)
    before = exported(brain)
    sleeper = dreamer(brain)
    sleeper.dream("one", ALL if kind == "sqlite" else STAGES)
    changed = exported(brain)
    assert changed != before
    assert '"before-image"' in changed
    assert list((tmp_path / "memory" / "methods").glob("*.md"))
    undone = sleeper.undo()
    assert (undone.dream, undone.left) == ("one", ())
    assert exported(brain) == before
    with pytest.raises(UsageError, match="no dream"):
        sleeper.undo()


def test_dreams_are_taken_back_one_by_one(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    sleeper = dreamer(brain)
    before = exported(brain)
    sleeper.dream("one", ALL[:3])
    between = exported(brain)
    Dreamer(brain, clock=lambda: NOW.replace(hour=5)).dream("two", STAGES)
    assert sleeper.undo().dream == "two"
    assert exported(brain) == between
    assert sleeper.undo().dream == "one"
    assert exported(brain) == before


def test_a_dream_without_before_images_is_not_undone(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    brain.shelf.put(DreamRecord(id="old", stages={"decay": StageRecord(changed=3)}))
    with pytest.raises(UsageError, match="no before-images"):
        dreamer(brain).undo()
    assert brain.shelf.get(DreamRecord, "old")


def test_what_could_not_be_put_back_after_a_stage_went_wrong_is_put_back_by_the_next(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    file = tmp_path / "memory" / "patterns" / "kept.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text("as it was")

    def wrecks(dream: Dream) -> StageResult:
        file.unlink()
        file.mkdir()
        (file / "in the way").touch()
        raise ValueError("wrecked")

    stages = [Stage("wreck", "a", "", wrecks), Stage("rest", "a", "", lambda dream: StageResult())]
    sleeper = Dreamer(brain, clock=lambda: NOW, stages=stages)
    with pytest.raises((ValueError, StorageError)):
        sleeper.do("one", "wreck")
    (file / "in the way").unlink()
    file.rmdir()
    sleeper.do("one", "rest")
    sleeper.release()
    assert file.read_text() == "as it was"


def test_a_file_edited_after_a_crash_is_restored_and_the_edit_is_copied(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    brain.close()
    assert killed(tmp_path, "sqlite", "dream", "birth-methods", "end")
    (half,) = (tmp_path / "memory" / "methods").glob("*.md")
    half.write_text("mine", "utf-8")
    brain = brain_in(tmp_path)
    nothing = [Stage("nothing", "a", "does nothing", lambda dream: StageResult())]
    dreamer(brain, nothing).dream("another", nothing)
    assert not half.exists()
    (copy,) = (tmp_path / "memory" / "archive").glob("*.md")
    assert copy.read_text("utf-8") == "mine"


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("files", marks=pytest.mark.night)])
def test_a_rehearsal_reports_the_same_and_changes_nothing(tmp_path: Path, kind: str) -> None:
    brain = filled(tmp_path, kind)
    before = exported(brain)
    rehearsed = {each.stage.name: each.done for each in dreamer(brain).rehearse(STAGES)}
    assert exported(brain) == before
    done = dreamer(brain).dream("one", STAGES).stages
    assert {name: each.counts for name, each in rehearsed.items()} == {
        n: each.counts for n, each in done.items()
    }


@pytest.mark.parametrize(
    ("name", "when"),
    [pytest.param(*each, marks=[] if each in BY_DAY else pytest.mark.night) for each in KILLS],
)
def test_killed_in_the_middle_of_a_stage_it_goes_on_and_can_be_taken_back(
    tmp_path: Path, name: str, when: str
) -> None:
    brain = filled(tmp_path)
    before = exported(brain)
    brain.close()
    assert killed(tmp_path, "sqlite", "dream", name, when)
    brain = brain_in(tmp_path)
    known = brain.shelf.get(DreamRecord, "one")
    assert list(known.stages if known else {}) == NAMES[: NAMES.index(name)]
    sleeper = dreamer(brain)
    whole = sleeper.dream("one", STAGES)
    assert list(whole.stages) == NAMES
    assert brain.shelf.check() == []
    assert sleeper.undo().left == ()
    assert exported(brain) == before


@pytest.mark.night
def test_killed_or_not_it_comes_to_the_same(tmp_path: Path) -> None:
    one, other = filled(tmp_path / "one"), filled(tmp_path / "other")
    dreamer(one).dream("one", STAGES)
    other.close()
    for name in ("merge-neurons", "birth-methods", "decay"):
        assert killed(tmp_path / "other", "sqlite", "dream", name, "end")
    other = brain_in(tmp_path / "other")
    dreamer(other).dream("one", STAGES)

    def plain(text: str) -> list[str]:
        return [line for line in text.splitlines() if '"type-stamp"' not in line]

    assert plain(exported(other, dreams=False)) == plain(exported(one, dreams=False))


def test_what_a_killed_stage_had_made_of_files_is_taken_back_by_whoever_comes_next(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    brain.close()
    assert killed(tmp_path, "sqlite", "dream", "birth-methods", "end")
    methods = tmp_path / "memory" / "methods"
    half = list(methods.glob("*.md"))
    assert half
    brain = brain_in(tmp_path)
    nothing = [Stage("nothing", "a", "does nothing", lambda dream: StageResult())]
    done = dreamer(brain, nothing).dream("another", nothing)
    assert list(methods.glob("*.md")) == []
    assert any("restored" in line for line in done.stages["nothing"].did)


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        ("sqlite", "write"),
        pytest.param("sqlite", "commit", marks=pytest.mark.night),  # by day as an undo that was cut short
        pytest.param("files", "write", marks=pytest.mark.night),
        pytest.param("files", "commit", marks=pytest.mark.night),
    ],
)
def test_killed_in_the_middle_of_undo_it_is_gone_on_with(tmp_path: Path, kind: str, at: str) -> None:
    brain = filled(tmp_path, kind)
    before = exported(brain)
    dreamer(brain).dream("one", STAGES)
    brain.close()
    assert killed(tmp_path, kind, "undo", at)
    brain = brain_in(tmp_path, kind)
    assert dreamer(brain).undo().left == ()
    assert exported(brain) == before


def test_what_others_changed_since_is_not_overwritten_and_a_file_is_reported(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    sleeper = dreamer(brain)
    before = {tree.id: tree for tree in brain.shelf.scan(NeuronTree)}
    sleeper.dream("one", STAGES)
    (held,) = [tree for tree in brain.shelf.scan(NeuronTree) if tree.text.startswith("A farmer")]
    brain.shelf.put(held.model_copy(update={"rung": "somebody else"}))
    (file,) = (tmp_path / "memory" / "methods").glob("*.md")
    file.write_text(file.read_text("utf-8") + "\nmine\n", "utf-8")
    undone = sleeper.undo()
    assert undone.left == (f"methods/{file.name}",)
    assert file.read_text("utf-8").endswith("mine\n")
    now = {tree.id: tree for tree in brain.shelf.scan(NeuronTree)}
    assert now.pop(held.id) == before.pop(held.id).model_copy(update={"rung": "somebody else"})
    assert now == before


def test_two_dreams_at_once_are_refused(tmp_path: Path) -> None:
    one, other = dreamer(filled(tmp_path)), dreamer(brain_in(tmp_path))
    one.hold("one")
    with pytest.raises(UsageError, match=r"already running here \(one, process \d+\)"):
        other.do("two", "merge-neurons")
    with pytest.raises(UsageError, match="already running here"):
        other.undo()
    one.release()
    other.do("two", "merge-neurons")
    with pytest.raises(UsageError, match="already running"):
        other.do("three", "merge-neurons")


def test_a_stage_that_fails_leaves_nothing_and_the_next_try_is_whole(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    before = exported(brain)
    broken = True

    def run(dream: Dream) -> StageResult:
        tree = next(iter(dream.shelf.scan(NeuronTree)))
        dream.shelf.delete(NeuronTree, tree.id)
        made = dream.brain.methods_folder / "half.md"
        made.parent.mkdir(exist_ok=True)
        made.write_text("half a method", "utf-8")
        if broken:
            raise StorageError("the disk is full")
        return StageResult(["all done"])

    sleeper = dreamer(brain, stages := [Stage("fails", "p", "fails", run)])
    with pytest.raises(FractalError, match="the disk is full"):
        sleeper.dream("one", stages)
    assert exported(brain) == before
    broken = False
    assert sleeper.dream("one", stages).stages["fails"].did == ("all done",)
    sleeper.undo()
    assert exported(brain) == before


def test_a_stage_is_done_once(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    count = 0

    def run(dream: Dream) -> StageResult:
        nonlocal count
        count += 1
        return StageResult([f"{count}"])

    sleeper = dreamer(brain, stages := [Stage("counts", "p", "counts", run)])
    assert sleeper.dream("one", stages).stages == sleeper.dream("one", stages).stages
    assert count == 1


def test_what_a_space_gives_to_all_is_taken_back_and_only_rehearsed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    own, everybodys = state / "spaces" / "home" / "memory", state / "memory" / "patterns"
    everybodys.mkdir(parents=True)
    (everybodys / "old.md").write_text("old", "utf-8")
    brain = brain_in(own.parent)
    assert brain.settings.folder == own

    def give(dream: Dream) -> StageResult:
        folder = dream.brain.settings.folder.parents[2] / "memory" / "patterns"
        (folder / "old.md").unlink()
        (folder / "new.md").write_text("new", "utf-8")
        return StageResult()

    sleeper = dreamer(brain, stages := [Stage("gives", "b", "gives", give)])
    assert sleeper.rehearse(stages)[0].done.changed == 2
    assert [path.name for path in everybodys.iterdir()] == ["old.md"]
    sleeper.dream("one", stages)
    assert [path.name for path in everybodys.iterdir()] == ["new.md"]
    assert sleeper.undo().files == 2
    assert [path.read_text("utf-8") for path in everybodys.iterdir()] == ["old"]


def worse(name: str) -> Stage:
    return Stage(name, "a", "finds it worse", lambda dream: StageResult(["it is worse"], {"worse": 1}))


def test_a_dream_that_makes_memory_worse_is_taken_back_and_the_later_stages_are_done(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    before = exported(brain)
    merge, prune = (stage for stage in STAGES if stage.name in ("merge-neurons", "prune-synapses"))
    sleeper = dreamer(brain, stages := [merge, worse("verify")])
    assert sleeper.do("one", "merge-neurons").changed
    assert sleeper.do("one", "verify").did == ("it is worse",)
    sleeper.release()
    assert exported(brain) == before
    killed_before = DreamRecord(id="one", stages={"verify": StageRecord(counts={"worse": 1})})
    brain.shelf.put(killed_before)
    dreamer(brain, stages).dream("one", stages[1:])
    assert exported(brain) == before
    stages = [merge, worse("verify"), prune]
    done = dreamer(brain, stages).dream("two", stages)
    assert list(done.stages) == ["prune-synapses"]
    assert dreamer(brain).undo().dream == "two"
    assert exported(brain) == before


def test_an_undo_that_was_cut_short_is_finished_before_the_next_dream(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    before = exported(brain)
    dreamer(brain).dream("one", STAGES)
    brain.close()
    assert killed(tmp_path, "sqlite", "undo", "commit")
    brain = brain_in(tmp_path)
    nothing = [Stage("nothing", "a", "does nothing", lambda dream: StageResult())]
    dreamer(brain, nothing).dream("two", nothing)
    assert dreamer(brain).undo().dream == "two"
    assert exported(brain) == before
