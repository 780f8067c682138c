"""Every step that changes the folder can be undone: operations, commands and tools, also after a crash."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crashing import killed_after
from in_process import in_process
from lanes import NIGHT, every, until
from playing import ACCEPT, Play, bash, doing, plan, player, put, standing
from warm import Process

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import Exit, UsageError
from runtime.api.fractal import Fractal, shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files, links, modes and names of every kind."""
    folder = tmp_path_factory.mktemp("filled") / "work"
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "sub" / "c.bin").write_bytes(bytes(range(256)))
    (folder / ".env").write_text("KEY=1")
    (folder / ".env").chmod(0o600)
    (folder / ".gitignore").write_text(".env\n*.txt\n")
    (folder / "run.sh").write_text("echo hi\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("a.txt")
    (folder / "name with\nline").write_text("x")
    Path(os.fsdecode(bytes(folder) + b"/\xff")).write_text("not UTF-8")
    (folder / "data.json").write_text('{"a": 1}')
    (folder / "t.csv").write_text("a,b\n1,2\n1,2\n")
    nested = folder / "nested"
    subprocess.run(["git", "init", "-q", "--template=", str(nested)], check=True)
    (nested / "in.txt").write_text("inside")
    (folder / "large").write_bytes(b"x" * (19_000_000 // every(100)))
    return folder


@pytest.fixture
def work(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "work", symlinks=True)


@pytest.fixture
def play(work: Path) -> Play:
    return player(work, memory=NIGHT)


def here(work: Path) -> dict[str, tuple[int, bytes]]:
    return {path: each for path, each in standing(work).items() if not path.startswith(".fractal")}


COMMANDS = {
    "xargs": "ls *.txt | xargs rm",
    "sed in place": "sed -i '1,$d' a.txt b.txt",
    "move": "mv a.txt moved; mv sub elsewhere",
    "truncate": "truncate -s 0 sub/c.bin large",
    "redirect": "> run.sh; echo more >> b.txt",
    "chmod": "chmod 777 .env; chmod -x run.sh; chmod 700 sub",
    "links": "ln -sf run.sh link; ln -s nowhere other; ln a.txt hard",
    "folders": "mkdir -p new/deep; rmdir sub/empty",
    "all of it": "find . -mindepth 1 -not -path './.fractal*' -not -path '*/.git*' -delete; true",
    "secrets": "rm .env",
    "nested": "rm nested/in.txt; echo x > nested/new",
    "odd names": "rm -- name* $'\\xff'; echo y > $'new\\nname'; echo z > $'\\xfe'",
    "a file for a folder": "rm a.txt; mkdir a.txt; echo x > a.txt/in; rm -r sub; echo x > sub",
    "python": "python3 -c \"import shutil; shutil.rmtree('sub'); open('a.txt', 'w')\"",
    "fails in its middle": "rm a.txt; exit 3",
}


AGAIN_BY_DAY = ("xargs", "chmod", "links", "folders", "a file for a folder")
"""Commands that are undone once more after they were redone."""


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_undone(play: Play, work: Path, name: str) -> None:
    command = COMMANDS[name]
    was = here(work)
    played = play(doing(bash(command)), yes=True)
    assert here(work) != was, played.root.steps
    became = here(work)
    assert played.fractal.undo(step=1)
    assert here(work) == was
    assert played.fractal.redo()
    assert here(work) == became
    if NIGHT or name in AGAIN_BY_DAY:
        assert played.fractal.undo()
        assert here(work) == was


CALLS: dict[str, dict[str, Any]] = {
    "write": {"path": "a.txt", "content": "new"},
    "edit": {"path": "a.txt", "old": "one", "new": "1"},
    "remove": {"path": "sub"},
    "move": {"from": "a.txt", "to": "z.txt"},
    "copy": {"from": "sub", "to": "sub2"},
    "mkdir": {"path": "made/deep"},
    "archive": {"action": "create", "path": "out.zip", "files": ["sub"]},
    "csv": {"path": "t.csv", "query": "rows where a = 1", "to": "out.csv"},
    "database": {"action": "connect", "path": "new.db", "mode": "write", "create": True},
    "patch": {"diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"},
    "replace": {"path": ".", "old": "one", "new": "1", "glob": "*.txt"},
    "json": {"text": '{"a": 1}', "query": "a", "value": "2", "to": "out.json"},
    "lines": {"path": "a.txt", "query": "reversed", "to": "a.txt"},
    "sort": {"path": "t.csv", "order": "descending", "to": "sorted.csv"},
}


def test_every_writing_operation_is_covered() -> None:
    tools = Catalogue([shipped_system()]).tools.values()
    writing = {tool.name for tool in tools if "write" in tool.effects and tool.scheme == "python"}
    # git writes a branch of the worktree, and nothing in the folder
    assert writing - {"fetch", "bash", "git"} <= CALLS.keys()


def test_removed_empty_folder_is_undone(play: Play, work: Path) -> None:
    was = here(work)
    played = play(doing({"tool": "remove", "args": {"path": "sub/empty"}}), yes=True)
    assert here(work) != was, played.root.steps
    played.fractal.undo()
    assert here(work) == was


@pytest.mark.parametrize("name", CALLS)
def test_operation_is_undone(play: Play, work: Path, name: str) -> None:
    was = here(work)
    played = play(doing({"tool": name, "args": CALLS[name]}), yes=True)
    assert played.root.steps[1].state == "done", played.root.steps[1].result
    assert here(work) != was
    played.fractal.undo()
    assert here(work) == was


def test_steps_are_undone_separately_in_any_order(play: Play, work: Path) -> None:
    was = here(work)
    played = play(doing(bash("echo 1 > x"), bash("rm a.txt"), bash("echo 2 > y; echo more >> x")), yes=True)
    fractal = played.fractal
    fractal.undo(step=2)
    assert (work / "a.txt").read_text() == "one\ntwo\n" and (work / "y").exists()
    with pytest.raises(UsageError, match="changed since: x;"):
        fractal.undo(step=1)
    assert (work / "x").read_text() == "1\nmore\n"
    fractal.undo(step=3)
    fractal.undo(step=1)
    assert here(work) == was
    with pytest.raises(UsageError, match="has no step 9"):
        fractal.undo(step=9)


def test_files_changed_since_are_overwritten_only_with_force(play: Play, work: Path) -> None:
    played = play(doing(bash("rm a.txt; echo 1 > b.txt")), yes=True)
    (work / "b.txt").write_text("of a person")
    with pytest.raises(UsageError, match=r"changed since: b\.txt; nothing was put back"):
        played.fractal.undo()
    assert not (work / "a.txt").exists()
    played.fractal.undo(force=True)
    assert (work / "b.txt").read_bytes() == b"one\r\ntwo\r\n"
    played.fractal.redo()
    assert (work / "b.txt").read_text() == "of a person"


def test_step_names_deleted_files_and_the_undo_command(play: Play, work: Path) -> None:
    played = play(doing(bash("rm a.txt b.txt .env; mv run.sh start.sh")), yes=True)
    run, step = played.result.run, played.root.steps[1]
    message = f"deleted 3 files (.env, a.txt, b.txt); `fractal undo {run} 1` brings them back"
    assert step.evidence["deleted"] == message
    assert step.result == "", "results are data and stay unchanged"
    (ended,) = [event for event in played.events if event.kind == "step_finished"]
    assert ended.data["deleted"] == message


def test_step_of_a_subtask_is_undone_with_the_step_of_the_root(play: Play, work: Path) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        remove = {"tool": "remove", "args": {"path": "a.txt"}}
        return plan(remove) if ask.document.meta.parent else plan(COUNT_STEP, {"subtask": "take a.txt away"})

    played = play(answer)
    assert not (work / "a.txt").exists()
    messages = [str(event.data.get("deleted")) for event in played.events if event.data.get("deleted")]
    assert messages == [f"deleted 1 file (a.txt); `fractal undo {played.result.run} 2` brings it back"]
    assert played.fractal.undo(step=2)
    assert (work / "a.txt").exists()


COUNT = {"path": "t.csv", "query": "count"}
COUNT_STEP = {"tool": "csv", "args": COUNT}


def test_run_that_only_reads_takes_no_snapshot(play: Play, work: Path) -> None:
    played = play(doing({"tool": "read", "args": {"path": "a.txt"}}, COUNT_STEP))
    assert [step.state for step in played.root.steps.values()] == ["done", "done"]
    assert not (work / ".fractal" / "state" / "snapshots").exists()


def test_same_compares_with_the_start_of_the_run(play: Play, work: Path) -> None:
    seen: list[str] = []

    def answer(ask: Ask) -> Any:
        attempt = ask.document.meta.attempt
        if ask.phase == "check":
            seen.append(prompt_text(ask))
            failed = {"validation": "fail", "issues": ["no"], "learned": "try again", "output": "x"}
            return failed | {"decision": "RETRY" if attempt == 1 else "ESCALATE"}
        step = bash("echo 'def test(): pass' > a.txt") if attempt == 1 else bash("echo done > out")
        return plan(step, success=[{"same": "a.txt"}, {"judge": "it is done"}])

    played = play(answer, yes=True)
    assert played.root.meta.attempt > 1
    assert all("FAIL" in text and "changed: a.txt" in text for text in seen), seen
    assert len(seen) > 1
    assert "-one" in seen[-1], "the second attempt sees the diff of the first"


def test_check_sees_the_diff_of_a_command_step(play: Play) -> None:
    played = play(doing(bash("sed -i s/one/1/ a.txt; rm b.txt")), yes=True)
    assert "changed a.txt" in played.root.text(4, "changes")
    assert "removed b.txt" in played.root.text(4, "changes")
    assert "-one\n+1" in played.root.text(4, "diff")


def test_concurrent_runs_are_undone_separately(work: Path) -> None:
    def run(name: str) -> Any:
        steps = [bash(f"sleep 0.05; echo {n} > {name}{n}; echo {n} >> shared.{name}") for n in range(2)]
        settings = {"sandbox": "off", "remember": NIGHT, "recall": NIGHT}
        here_ = Fractal(work, settings=settings, ladder=Ladder((Scripted(doing(*steps)),)))
        return here_, here_.run("do the work", yes=True)

    was = here(work)
    (one, first), (two, second) = run("p"), run("q")

    async def both() -> list[Any]:
        return await asyncio.gather(first, second)

    results = asyncio.run(both())
    assert {result.exit for result in results} == {Exit.ACCEPTED}
    one.undo(results[0].run)
    assert {path for path in here(work) if path not in was} == {"q0", "q1", "shared.q"}
    two.undo(results[1].run)
    assert here(work) == was


KILLED = """
import asyncio, sys
sys.path[:0] = {path!r}
from playing import bash, doing, player
from pathlib import Path
play = player(Path({work!r}), memory=False)
play(doing(bash("rm a.txt; echo half > b.txt; touch begun; sleep 60; rm run.sh")), yes=True)
"""


def test_interrupted_command_is_undone(work: Path) -> None:
    was = here(work)
    code = KILLED.format(path=sys.path, work=str(work))
    process = Process([sys.executable, "-c", code], start_new_session=True)
    until(lambda: process.poll() is not None or (work / "begun").exists())
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    fractal = Fractal(work, settings={"sandbox": "off"})
    lines = fractal.undo()
    assert sorted(lines) == [
        "a.txt: put back",
        "b.txt: put back",
        "begun: removed, as it was not there before",
    ]
    assert here(work) == was
    assert [each.path for each in fractal.diffs()] == []


@pytest.mark.parametrize("before", [[], [bash("touch x")]], ids=["at first", "later"])
def test_changing_a_large_file_needs_approval(play: Play, work: Path, before: list[Any]) -> None:
    (work / "huge.iso").write_bytes(b"x" * 20_000_001)
    steps = [*before, {"tool": "remove", "args": {"path": "huge.iso"}}]
    asked = play(doing(*steps))
    assert asked.result.waiting == "approval"
    assert "huge.iso: too large to be kept" in asked.result.question
    assert (work / "huge.iso").stat().st_size == 20_000_001
    done = play(doing(*steps), yes=True).root.steps[len(steps)]
    assert done.state == "done" and not (work / "huge.iso").exists()
    assert done.evidence["deleted"] == "deleted 1 file (huge.iso), which nothing brings back"


def test_approval_does_not_cover_large_files_that_the_call_does_not_name(play: Play, work: Path) -> None:
    (work / "sub" / "huge.iso").write_bytes(b"x" * 20_000_001)
    remove = {"tool": "remove", "args": {"path": "sub"}}
    played = play(doing(remove), yes=True, settings={"approve": ["write"]})
    assert played.root.steps[1].evidence["approved"] == "policy --yes"
    assert played.root.steps[1].state == "failed" and (work / "sub" / "huge.iso").exists()


def test_file_that_became_too_large_is_restored_with_force(play: Play, work: Path) -> None:
    played = play(doing(bash("rm b.txt; head -c 20000001 /dev/zero > a.txt")), yes=True)
    lines = played.fractal.undo()
    assert lines == [
        "b.txt: put back",
        "a.txt: too large now to be kept; left as it is; `--force` gives it up",
    ]
    assert (work / "a.txt").stat().st_size == 20_000_001
    played.fractal.undo(force=True)
    assert (work / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("word", ["undo", "redo"])
def test_interrupted_undo_can_be_repeated(tmp_path: Path, word: str) -> None:
    work = tmp_path / "work"
    (work / "sub" / "empty").mkdir(parents=True)
    (work / "sub" / "in").write_text("x")
    (work / "run.sh").write_text("echo\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("run.sh")
    was = here(work)
    command = (
        "rm -r sub link; mkdir link; echo x > link/in; ln -s link sub; echo new > run.sh; chmod 700 run.sh"
    )
    fractal = player(work, memory=NIGHT)(doing(bash(command)), yes=True).fractal
    became = here(work)
    goal, other = (was, became) if word == "undo" else (became, was)
    forth, back = (fractal.undo, fractal.redo) if word == "undo" else (fractal.redo, fractal.undo)
    if word == "redo":
        fractal.undo()
    died = 0
    for n in range(0, 60, every(5)):
        killed = killed_after(forth, work, n)
        died += killed
        if killed and n % 2:
            forth()  # continues
        if killed and not n % 2:
            back()  # reverts the partial undo
            assert here(work) == other, n
            forth()
        assert here(work) == goal, n
        back()
        assert here(work) == other, n
        if not killed:
            break
    assert died > 8 // every(5)


def test_interrupted_undo_must_finish_before_another(play: Play, work: Path) -> None:
    played = play(doing(bash("rm a.txt; mkdir d"), bash("rm b.txt")), yes=True)
    assert killed_after(played.fractal.undo, work, 2)
    with pytest.raises(UsageError, match=f"cut short; first: fractal undo {played.result.run}$"):
        played.fractal.undo(step=2)
    played.fractal.undo()


def test_commands_show_what_was_undone(play: Play, work: Path) -> None:
    run = play(doing(bash("rm a.txt"), bash("rm b.txt")), yes=True).result.run

    def fractal(*words: str) -> str:
        ran = in_process(work, words, os.environ)
        return ran.out + ran.err

    assert "-one" in fractal("diff", run, "1")
    assert "a.txt: put back" in fractal("undo", run, "1")
    assert "undone" in fractal("tree").splitlines()[1]
    assert "undone" not in fractal("tree").splitlines()[2]
    assert "step 1 was undone" in fractal("diff")
    assert "undone" in fractal("show")
    assert "a.txt: removed" in fractal("undo", "--redo")
    assert "undone" not in fractal("tree")


@pytest.fixture(scope="module")
def ready(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders with what can be generated again, of which nothing is kept; it is older than any run."""
    place = tmp_path_factory.mktemp("installed")
    folders = [shutil.copytree(filled, place / str(n), symlinks=True) for n in range(len(UNKEPT) + 4)]
    names = (
        ".venv/bin/tool",
        "deep/er/node_modules/a/index.js",
        "sub/__pycache__/m.cpython-311.pyc",
        "target/CACHEDIR.TAG",
        "target/debug/app",
    )
    for folder in folders:
        for name in names:
            put(folder, name, "as installed")
    installed = (folders[-1] / names[-1]).stat().st_ctime
    until(lambda: put(place, "probe").stat().st_ctime > installed + 0.1)
    return folders


@pytest.fixture
def installed(ready: list[Path], tmp_path: Path) -> Path:
    """One of these folders for each test."""
    return ready.pop().rename(tmp_path / "work")


UNKEPT = {
    "an installed program": ("echo more >> .venv/bin/tool", ".venv/bin/tool"),
    "with an older time": ("echo x >> .venv/bin/tool; touch -d 2001-01-01 .venv/bin/tool", ".venv/bin/tool"),
    "by a link to it": ("ln -s ../.venv/bin/tool sub/way; echo x >> sub/way; rm sub/way", ".venv/bin/tool"),
    "a mode": ("chmod 700 deep/er/node_modules/a/index.js", "deep/er/node_modules/a/index.js"),
    "a compiled module": ("echo x > sub/__pycache__/m.cpython-311.pyc", "sub/__pycache__/m.cpython-311.pyc"),
    "a removed package": ("rm -r deep/er/node_modules/a", "deep/er/node_modules/"),
    "a moved folder": ("mv sub/empty deep/er/node_modules/b", "deep/er/node_modules/b/"),
    "a built program": ("echo x > target/debug/app", "target/debug/app"),
    "in a cache that it makes": ("mkdir new; cd new; echo x > CACHEDIR.TAG", "new/CACHEDIR.TAG"),
    "a link instead": ("rm .venv/bin/tool; ln -s /bin/true .venv/bin/tool", ".venv/bin/tool"),
}


@pytest.mark.parametrize("command, path", UNKEPT.values(), ids=list(UNKEPT))
def test_a_change_that_undo_cannot_see_is_told(installed: Path, command: str, path: str) -> None:
    run = player(installed, memory=NIGHT)(
        doing(bash("echo x > n.txt"), bash(command, needs=[1])), yes=True
    ).result.run
    told = f"changed since it began, and nothing keeps it: {path}\n"
    (paths,) = json.loads(in_process(installed, ("diff", run, "--json"), os.environ).out)["unkept"].values()
    assert paths == [path]
    for words in (("diff", run), ("diff", run, "2"), ("undo", run)) if NIGHT else (("undo", run),):
        ran = in_process(installed, words, os.environ)
        assert told in ran.out + ran.err, ran


def test_what_undo_cannot_see_is_told_of_a_run_and_of_a_step(installed: Path) -> None:
    command, path = UNKEPT["an installed program"]
    steps = (bash("echo x > n.txt"), bash(command, needs=[1]))
    run = player(installed, memory=NIGHT)(doing(*steps), yes=True).result.run
    for words in (("diff", run), ("diff", run, "2")):
        told = in_process(installed, words, os.environ).out
        assert f"changed since it began, and nothing keeps it: {path}\n" in told


def test_an_operation_that_changes_what_is_not_kept_is_told(installed: Path) -> None:
    call = {"tool": "write", "args": {"path": ".venv/bin/tool", "content": "other"}}
    run = player(installed, memory=NIGHT)(doing(call), yes=True).result.run
    assert ".venv/bin/tool" in in_process(installed, ("diff", run), os.environ).out


def test_what_a_run_did_not_change_is_not_told(installed: Path) -> None:
    run = player(installed, memory=NIGHT)(
        doing(bash("cat .venv/bin/tool; ls -R . > list.txt")), yes=True
    ).result.run
    assert "nothing keeps it" not in in_process(installed, ("diff", run), os.environ).out


def test_many_changes_of_what_is_not_kept_hide_no_other_kind(installed: Path) -> None:
    many = "for n in $(seq 300); do echo x > deep/er/node_modules/a/$n; done; echo x >> .venv/bin/tool"
    run = player(installed, memory=NIGHT)(doing(bash(many)), yes=True).result.run
    told = [
        line
        for line in in_process(installed, ("diff", run), os.environ).out.splitlines()
        if "keeps it" in line
    ]
    assert [line.rpartition(" and ")[2] for line in told] == ["nothing keeps it: .venv/bin/tool", "295 more"]


def test_run_of_an_older_version_names_its_copies(play: Play, work: Path) -> None:
    played = play(doing({"tool": "write", "args": {"path": "a.txt", "content": "x"}}))
    path = played.result.path
    text = path.read_text("utf-8")
    for key in ("tree_before", "tree_after"):
        text = text.replace(f'"{key}":', f'"old_{key}":')
    path.write_text(text.replace('"before":', '"kept":"artifacts/kept/op-0","before":', 1), "utf-8")
    assert played.fractal.undo() == [
        "a.txt: left; an older version of Fractal kept it in artifacts/kept/op-0"
    ]
