"""A worktree per run: what it begins with, how its changes are applied, and how it is removed."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crashing import killed_after
from lanes import NIGHT, every
from playing import Play, Played, bash, boxed, doing, put, read, standing, write

from kernel.errors import FractalError, RunLocked, StorageError, UsageError
from runtime.api.fractal import Fractal
from runtime.workspace.workspace import run_lock


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    put(folder, "a.txt", "one\ntwo\nthree\nfour\nfive\n")
    put(folder, "sub/b.bin", bytes(range(256)))
    put(folder, "run.sh", "echo hi\n").chmod(0o755)
    (folder / "link").symlink_to("a.txt")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def play(work: Path) -> Play:
    from playing import player

    return player(work, memory=NIGHT)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    ran = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout


def repository(folder: Path) -> None:
    """Make the folder a repository with one commit."""
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "begin")


def here(work: Path) -> dict[str, tuple[int, bytes]]:
    return {path: each for path, each in standing(work).items() if not path.startswith((".fractal", ".git"))}


def worktree(played: Played) -> Path:
    return Path(played.root.meta.folder)


def run(play: Play, command: str) -> Played:
    played = play(doing(bash(command)), yes=True, worktree=True)
    assert played.root.steps[1].state == "done", played.root.steps[1].result
    return played


# ---- what it begins with ----------------------------------------------------------------------------------


def test_copy_has_what_the_folder_has(play: Play, work: Path) -> None:
    (work / "huge.iso").write_bytes(b"x" * 20_000_001)
    was = here(work)
    played = run(play, "echo new > made")
    assert here(work) == was
    there = here(worktree(played))
    assert there.pop("made") == (0o100644, b"new\n")
    assert there == was
    assert played.root.meta.extra["worktree"]["of"] == str(work)


def test_repository_gives_uncommitted_and_untracked_files_and_none_that_it_ignores(
    play: Play, work: Path
) -> None:
    put(work, ".gitignore", "*.log\nbuild/\n")
    put(work, "node_modules/tracked.js", "1")  # snapshots leave it out
    repository(work)
    put(work, "a.txt", "changed\n")
    put(work, "new.txt", "untracked\n")
    put(work, "x.log", "ignored")
    put(work, "build/out", "ignored")
    (work / "run.sh").unlink()
    status = git(work, "status", "--short", "-uall")
    played = run(play, "git status --short -uall > ../seen; git commit -qam x 2>/dev/null; true")
    there = worktree(played)
    assert (there.parent / "seen").read_text() == status
    assert not (there / "x.log").exists() and not (there / "build").exists()
    assert git(work, "status", "--short", "-uall") == status
    assert len(git(work, "log", "--oneline").splitlines()) == 1


@boxed
def test_command_in_the_sandbox_writes_in_its_worktree_and_reads_the_repository(
    play: Play, work: Path
) -> None:
    repository(work)
    command = "git log --format=%s; echo 1 > made; cat ../../runs/*/*.md; echo 2 > ../escaped; true"
    played = play(doing(bash(command)), yes=True, worktree=True, settings={"sandbox": "auto"})
    step = played.root.steps[1]
    assert step.state == "done" and "begin\n" in (step.result or ""), step.result
    assert "## §1" not in (step.result or "") and not (worktree(played).parent / "escaped").exists()
    assert (worktree(played) / "made").exists() and not (work / "made").exists()


def test_operation_cannot_leave_the_worktree(play: Play, work: Path) -> None:
    steps = [write(str(work / "a.txt"), "x"), read("../../runs", needs=[]), write(".git", "x", needs=[])]
    played = play(doing(*steps), worktree=True)
    assert {step.state for step in played.root.steps.values()} == {"failed"}


def test_files_of_the_workspace_stay_protected_in_the_worktree(play: Play, work: Path) -> None:
    put(work, "fractal.yaml", "calls: 9\n")
    put(work, "state/runs/.keep")
    put(work, "system/notes.md", "own")
    repository(work)
    played = play(doing(write("fractal.yaml", "calls: 99\n")), yes=True, worktree=True)
    assert played.root.steps[1].state == "failed"
    put(worktree(played), "fractal.yaml", "calls: 99\n")
    put(worktree(played), "system/evil.md", "hostile")
    put(worktree(played), "fine", "y")
    assert played.fractal.apply() == ["new fine"]
    assert (work / "fractal.yaml").read_text() == "calls: 9\n" and not (work / "system/evil.md").exists()


def test_repository_without_a_commit_gives_a_copy(play: Play, work: Path) -> None:
    git(work, "init", "-q")
    played = run(play, "echo 1 > made")
    assert not (worktree(played) / ".git").exists() and (worktree(played) / "a.txt").exists()


def test_resumed_run_goes_on_in_its_worktree(play: Play, work: Path) -> None:
    played = play(doing(bash("echo 1 > made")), worktree=True, plan_only=True)
    assert played.result.waiting == "approval"
    played.fractal.tell(played.result.run, "approve")
    resumed = play(doing(bash("echo 1 > made")), resume=played.result.run, yes=True)
    assert resumed.result.to_apply == 1 and not (work / "made").exists()
    replayed = asyncio.run(resumed.fractal.replay(played.result.run))
    assert replayed.to_apply == 1 and not (work / "made").exists(), "a replay has a worktree as well"


# ---- apply ------------------------------------------------------------------------------------------------


COMMANDS = {
    "text": "sed -i s/one/1/ a.txt",
    "move": "mv a.txt moved; mv sub elsewhere",
    "modes and links": "chmod 700 run.sh; ln -sf run.sh link; ln -s nowhere dead; chmod 755 empty",
    "folders": "mkdir -p new/deep; rmdir empty",
    "a file for a folder": "rm a.txt; mkdir a.txt; echo x > a.txt/in; rm -r sub; echo x > sub",
    "everything": "find . -mindepth 1 -delete; echo only > 'odd\nname'",
    "not UTF-8": "echo x > $'\\xff'; printf 'no newline' > a.txt",
}


BY_DAY = [
    ["text", "modes and links", "folders"],
    ["move", "not UTF-8"],
    ["a file for a folder"],
    ["everything"],
]
"""What one run changes by day; at night each of them has a run of its own."""


@pytest.mark.parametrize(
    "command",
    [
        *(pytest.param("; ".join(map(COMMANDS.__getitem__, each)), id=", ".join(each)) for each in BY_DAY),
        *(
            pytest.param(COMMANDS[name], id=name, marks=pytest.mark.night)
            for name in COMMANDS
            if [name] not in BY_DAY
        ),
    ],
)
def test_changes_are_applied_and_undone_again(play: Play, work: Path, command: str) -> None:
    was = here(work)
    played = run(play, command)
    fractal, became = played.fractal, here(worktree(played))
    assert here(work) == was != became
    assert fractal.apply()
    assert here(work) == became
    assert fractal.apply() == []
    assert fractal.runs()[0].to_apply == 0
    fractal.undo()
    assert here(work) == was
    assert fractal.runs()[0].to_apply == played.result.to_apply > 0
    fractal.redo()
    assert here(work) == became
    fractal.undo()
    fractal.apply()
    assert here(work) == became


def test_contents_of_the_run_and_a_mode_of_the_user_are_both_applied(play: Play, work: Path) -> None:
    played = run(play, "echo six >> a.txt")
    (work / "a.txt").chmod(0o755)
    assert played.fractal.apply() == ["changed a.txt (merged with your changes)"]
    assert (work / "a.txt").read_text().endswith("five\nsix\n")
    assert (work / "a.txt").stat().st_mode & 0o111


def test_a_file_that_is_too_large_is_never_said_to_be_applied_by_force(play: Play, work: Path) -> None:
    played = run(play, "head -c 20000001 /dev/zero > huge.bin")
    with pytest.raises(UsageError, match="copy it yourself") as refused:
        played.fractal.apply()
    assert "--force" not in str(refused.value)


def test_run_that_goes_on_is_applied_again(play: Play, work: Path) -> None:
    played = run(play, "sed -i s/one/1/ a.txt; echo 1 > made")
    fractal = played.fractal
    fractal.apply()
    put(work, "a.txt", (work / "a.txt").read_text() + "of mine\n")
    put(worktree(played), "a.txt", "0\n" + (worktree(played) / "a.txt").read_text())
    (worktree(played) / "made").unlink()
    assert fractal.apply() == ["changed a.txt (merged with your changes)", "removed made"]
    assert (work / "a.txt").read_text() == "0\n1\ntwo\nthree\nfour\nfive\nof mine\n"


def test_undoing_a_step_in_the_worktree_is_applied_as_well(play: Play, work: Path) -> None:
    played = play(doing(bash("echo 1 > x"), bash("echo 2 > y")), yes=True, worktree=True)
    fractal = played.fractal
    fractal.apply()
    fractal.undo(step=1)
    assert (work / "x").exists() and fractal.runs()[0].to_apply == 1
    assert fractal.apply() == ["removed x"]
    assert not (work / "x").exists() and (work / "y").exists()


Edit = Callable[[Path], Any]
CONFLICTS: dict[str, tuple[str, Edit, str]] = {
    "same lines": ("sed -i s/two/2/ a.txt", lambda work: put(work, "a.txt", "zwei\n"), "you changed it"),
    "binary": ("echo x > sub/b.bin", lambda work: put(work, "sub/b.bin", b"\0y"), "you changed it"),
    "removed here": ("sed -i s/two/2/ a.txt", lambda work: (work / "a.txt").unlink(), "you removed it"),
    "removed there": ("rm a.txt", lambda work: put(work, "a.txt", "mine"), "you changed it"),
    "both new": ("echo x > made", lambda work: put(work, "made", "mine"), "you changed it"),
    "parent is a file": (
        "echo x > empty/made",
        lambda work: ((work / "empty").rmdir(), put(work, "empty", "file")),
        "empty is no folder any more",
    ),
    "parent is a link": (
        "echo x > empty/made",
        lambda work: ((work / "empty").rmdir(), (work / "empty").symlink_to(work.parent)),
        "empty is no folder any more",
    ),
    "folder has more": (
        "rmdir empty; echo x > empty",
        lambda work: put(work, "empty/mine", "file"),
        "a folder for you, with empty/mine in it",
    ),
    "too large": ("head -c 20000001 /dev/zero > a.txt", lambda work: None, "larger than 20 MB"),
}


@pytest.mark.parametrize(("command", "edit", "why"), CONFLICTS.values(), ids=list(CONFLICTS))
def test_conflict_writes_nothing(play: Play, work: Path, command: str, edit: Edit, why: str) -> None:
    played = run(play, f"{command}; echo more > other")
    edit(work)
    was, outside = here(work), [*work.parent.iterdir()]
    with pytest.raises(UsageError, match=why):
        played.fractal.apply()
    assert here(work) == was and [*work.parent.iterdir()] == outside
    assert played.fractal.runs()[0].to_apply > 1
    if "empty" not in why and "20 MB" not in why:
        played.fractal.apply(force=True)
        assert here(work) == here(worktree(played))
        played.fractal.undo()
        assert here(work) == was


def test_links_that_lead_out_are_applied_as_links(play: Play, work: Path) -> None:
    outside = put(work.parent, "outside/secret", "kept")
    played = run(play, f"rm -r sub; ln -s {outside.parent} sub; ln -s ../outside/secret up; rm link")
    played.fractal.apply()
    assert (work / "sub").is_symlink() and (work / "up").is_symlink()
    with pytest.raises(FractalError):
        play(doing(bash("true")), yes=True, worktree=True).fractal.apply("nosuch")
    again = run(play, "true")
    assert (worktree(again) / "sub").is_symlink() and outside.read_text() == "kept"
    assert [*outside.parent.iterdir()] == [outside]


def test_files_of_a_submodule_are_applied(play: Play, work: Path) -> None:
    library = put(work.parent, "library/lib.py", "x = 1\n").parent
    repository(library)
    repository(work)
    git(work, "submodule", "--quiet", "add", str(library), "vendor")
    git(work, "commit", "-qm", "library")
    played = run(play, "sed -i s/1/2/ vendor/lib.py; git -C . status --short > seen")
    assert played.fractal.apply() == ["new seen", "changed vendor/lib.py"]
    assert git(work / "vendor", "status", "--short") == " M lib.py\n"
    played.fractal.discard()
    assert not worktree(played).exists()


def test_apply_that_is_killed_goes_on(play: Play, work: Path) -> None:
    swap = "rm -r sub; mkdir new; echo x > new/in; ln -sf run.sh link; chmod 700 run.sh"
    played = run(play, f"sed -i s/five/5/ a.txt; {swap}")
    fractal, became = played.fractal, here(worktree(played))
    put(work, "a.txt", "zero\n" + (work / "a.txt").read_text())
    was = here(work)
    became["a.txt"] = (became["a.txt"][0], b"zero\n" + became["a.txt"][1])
    died = 0
    for n in range(0, 40, every(5)):
        killed = killed_after(fractal.apply, work, n)
        died += killed
        if killed:
            entries = fractal.root_document(played.result.run).meta.extra.get("applied", [])
            if entries and not entries[-1]["after"]:
                with pytest.raises(UsageError, match="an apply was cut short; first: fractal apply"):
                    fractal.undo()
                assert fractal.runs()[0].to_apply and fractal.gc(0) == []
            assert fractal.apply()
        assert here(work) == became, n
        fractal.undo()
        assert here(work) == was, n
        if not killed:
            break
    assert died > 5 // every(5)


def test_two_applies_at_once_apply_once(play: Play, work: Path) -> None:
    played = run(play, "sed -i s/five/5/ a.txt; echo x > made")
    said: list[list[str] | FractalError] = []

    def act() -> None:
        try:
            said.append(Fractal(work, settings={"sandbox": "off"}).apply())
        except FractalError as error:
            said.append(error)

    threads = [threading.Thread(target=act) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert ["changed a.txt", "new made"] in said
    assert all(each in ([], ["changed a.txt", "new made"]) or isinstance(each, RunLocked) for each in said)
    assert here(work) == here(worktree(played))
    assert len(played.root.meta.extra["applied"]) == 1
    with run_lock(played.folder), pytest.raises(RunLocked):
        played.fractal.apply()


# ---- discard ----------------------------------------------------------------------------------------------


def test_discard_refuses_changes_that_are_not_applied(play: Play, work: Path) -> None:
    repository(work)
    played = run(play, "echo 1 > made; mkdir locked; chmod 500 locked")
    fractal = played.fractal
    with pytest.raises(UsageError, match="has changes that are not applied"):
        fractal.discard()
    fractal.discard(force=True)
    assert not worktree(played).exists() and str(worktree(played)) not in git(work, "worktree", "list")
    assert [change.path for change in fractal.diffs()] == ["locked/", "made"], "the record stays"
    for act in (fractal.apply, lambda: fractal.undo(step=1)):
        with pytest.raises(UsageError, match="was discarded"):
            act()
    fractal.discard()


def test_worktree_that_was_deleted_by_hand_is_never_replaced_by_the_folder(play: Play, work: Path) -> None:
    repository(work)
    played = run(play, "echo 1 > made")
    was = here(work)
    subprocess.run(["rm", "-rf", str(worktree(played))], check=True)
    with pytest.raises(UsageError, match="is gone; `fractal fork"):
        played.fractal.apply()
    with pytest.raises(UsageError, match="is gone; `fractal fork"):
        play(doing(), resume=played.result.run)
    assert [change.path for change in played.fractal.diffs()] == ["made"], "snapshots still have it"
    assert here(work) == was
    with pytest.raises(UsageError, match="not applied"):
        played.fractal.discard()
    played.fractal.discard(force=True)
    assert str(worktree(played)) not in git(work, "worktree", "list", "--porcelain")
    new = played.fractal.fork()
    assert played.fractal.gc(0) == [played.result.run]
    assert played.fractal.apply(new) == ["new made"], "a fork needs nothing of its original"


@pytest.mark.parametrize("named", ["folder", "of"])
def test_worktree_that_a_document_claims_elsewhere_is_neither_removed_nor_applied(
    play: Play, work: Path, tmp_path: Path, named: str
) -> None:
    played = run(play, "echo 1 > made")
    victim = put(tmp_path, "victim/precious.txt", "precious").parent
    real = worktree(played) if named == "folder" else work.resolve()
    text = played.result.path.read_text("utf-8")
    assert str(real) in text
    played.result.path.write_text(text.replace(f'"{real}"', f'"{victim}"'), "utf-8")
    fractal = Fractal(work)
    for act in (fractal.apply, lambda: fractal.discard(force=True), fractal.undo, fractal.fork):
        with pytest.raises(UsageError, match="is not of"):
            act()
    assert [each.name for each in victim.iterdir()] == ["precious.txt"]


def test_gc_keeps_what_is_not_applied(play: Play, work: Path) -> None:
    repository(work)
    kept, applied = run(play, "echo 1 > x"), run(play, "echo 2 > y")
    place, gone = worktree(kept), worktree(applied)
    fractal = applied.fractal
    fractal.apply(applied.result.run)
    put(work / ".fractal/state/worktrees", "zzzzzz/left", "of a killed process")
    assert fractal.gc(0) == [applied.result.run]
    assert place.exists() and not gone.exists() and not (place.parent / "zzzzzz").exists()
    assert fractal.gc(0) == []
    fractal.discard(kept.result.run, force=True)
    assert fractal.gc(0) == [kept.result.run]
    assert git(work, "worktree", "list").count("\n") == 1


def test_run_without_a_worktree_cannot_be_applied(play: Play) -> None:
    played = play(doing(bash("echo 1 > made")), yes=True)
    with pytest.raises(UsageError, match="has no worktree: it worked in"):
        played.fractal.apply()


def test_worktree_that_cannot_be_made_leaves_no_run(play: Play, work: Path) -> None:
    put(work, ".fractal/state/worktrees", "a file in its place")
    with pytest.raises(StorageError, match=r"worktrees/\w+: cannot be written"):
        play(doing(), worktree=True)
    assert Fractal(work).runs() == [] and [*(work / ".fractal/state/runs").iterdir()] == []


def test_apply_to_a_folder_that_is_gone_is_refused(play: Play, work: Path) -> None:
    played = run(play, "echo 1 > made")
    moved = work.parent / "elsewhere"
    work.rename(moved)
    with pytest.raises(FractalError, match=r"work is not of \S+elsewhere/.fractal"):
        Fractal(moved).apply(played.result.run)
    assert not work.exists()
