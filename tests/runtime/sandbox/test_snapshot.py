"""Snapshots of a folder: what they contain, how they differ, and restoring."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import async_pause, async_until, examples, pause, within
from playing import put, standing

from kernel.errors import OperationFailed, RunLocked, UsageError
from runtime.sandbox import snapshot as limits
from runtime.sandbox import trees
from runtime.sandbox.changes import Change, changes, deleted, files_of, texts
from runtime.sandbox.restoring import undo_pairs
from runtime.sandbox.snapshot import Snapshots

RUN = "abc123"


@pytest.fixture
def kept(folder: Path, tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", folder)


def take(kept: Snapshots) -> str:
    with kept.alone():
        return kept.take(RUN)


def changes_since(kept: Snapshots, before: str, **options: Any) -> list[Change]:
    """The changes between the snapshot `before` and the present files."""
    return changes(kept.trees, kept.trees.changes(before, take(kept)), **options)


def undo(kept: Snapshots, *pairs: tuple[str, str], force: bool = False) -> tuple[str, ...]:
    with kept.alone():
        return undo_pairs(kept, RUN, pairs, force=force).lines


# ---- content ----------------------------------------------------------------------------------------------


def _everything(folder: Path) -> None:
    put(folder, "binary", bytes(range(256)) * 10)
    put(folder, "crlf.txt", "a\r\nb\r\n")
    put(folder, ".gitattributes", "*.txt text eol=lf\n* filter=lfs ident working-tree-encoding=UTF-16\n")
    put(folder, ".gitignore", "*\n")
    put(folder, ".env", "KEY=1").chmod(0o600)
    put(folder, "with space/ and\nline\t.txt", "x")
    put(folder, "-x", "dash")
    put(folder, ":(top)*", "magic")
    put(folder, "a\\b", "backslash")
    put(folder, "git~1", "short name")
    put(folder, '"quoted"', "quotes")
    Path(os.fsdecode(bytes(folder) + b"/\xff\xfe.bin")).write_bytes(b"\xff")
    put(folder, "run.sh", "#!/bin/sh").chmod(0o751)
    put(folder, "private/key", "k").chmod(0o640)
    (folder / "private").chmod(0o700)
    (folder / "empty").mkdir(mode=0o750)
    (folder / "deep/er/empty").mkdir(parents=True)
    (folder / "link").symlink_to("run.sh")
    (folder / "to folder").symlink_to("private")
    (folder / "dangling").symlink_to("nowhere")
    subprocess.run(["git", "init", "-q", str(folder / "nested")], check=True)
    put(folder, "nested/inside.txt", "i")
    put(folder, "nested/sub/more.txt", "m")
    put(folder, "zero")


def test_all_files_are_restored(folder: Path, kept: Snapshots) -> None:
    _everything(folder)
    first = take(kept)
    was = standing(folder)
    assert take(kept) == first, "nothing has changed"
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    second = take(kept)
    assert undo(kept, (first, second))
    was_kept = {path: each for path, each in was.items() if "/.git" not in path}
    assert standing(folder) == was_kept


def test_the_texts_before_and_now_leave_out_secrets_and_what_is_no_text(
    folder: Path, kept: Snapshots
) -> None:
    for name in ("changed.txt", "removed.txt", ".env", "same.txt"):
        put(folder, name, "before\n")
    first = take(kept)
    for name in ("changed.txt", "new.txt", ".env"):
        put(folder, name, "now\n")
    put(folder, "binary", b"\0")
    (folder / "removed.txt").unlink()
    assert texts(kept.trees, kept.trees.changes(first, take(kept))) == {
        "changed.txt": ("before\n", "now\n"),
        "new.txt": (None, "now\n"),
        "removed.txt": ("before\n", ""),
    }


def test_a_snapshot_is_what_git_itself_would_have_stored(folder: Path, kept: Snapshots) -> None:
    put(folder, "a.txt", "a")
    tree = take(kept)
    git = kept.shadow
    notes = git.run("cat-file", "blob", f"{tree}:notes")
    assert (
        git.run("hash-object", "--stdin", stdin=notes).strip()
        == git.run("rev-parse", f"{tree}:notes").strip()
    )
    assert git.run("mktree", stdin=git.run("ls-tree", tree)).decode().strip() == tree
    git.run("fsck", "--strict", tree)


def test_bytes_modes_links_and_folders_that_changed_are_told_alike_from_any_process(
    folder: Path, kept: Snapshots
) -> None:
    for name in ("same", "mode", "text", "gone", "to-link", "to-folder"):
        put(folder, name, name)
    (folder / "empty").mkdir()
    before = take(kept)
    (folder / "mode").chmod(0o600)
    put(folder, "text", "other").chmod(0o755)
    for name in ("gone", "to-link", "to-folder"):
        (folder / name).unlink()
    (folder / "to-link").symlink_to("same")
    put(folder, "to-folder/inside", "x")
    (folder / "empty").rmdir()
    after = take(kept)
    moved = kept.trees.changes(before, after)
    paths = {"mode", "text", "gone", "to-link", "to-folder", "to-folder/inside", "empty"}
    assert moved.keys() == paths
    for tree, side in ((before, 0), (after, 1)):
        assert kept.trees.states(tree, paths) == {
            path: each[side] for path, each in moved.items() if each[side]
        }
    assert Snapshots(kept.home, folder).trees.changes(before, after) == moved


def test_nested_repository_is_kept_with_or_without_a_commit(folder: Path, kept: Snapshots) -> None:
    first = take(kept)
    nested = folder / "nested"
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    put(nested, "a.txt", "a")
    second = take(kept)
    put(nested, "b.txt", "b")
    third = take(kept)
    assert sorted(kept.trees.changes(first, second)) == ["nested", "nested/a.txt"]
    assert sorted(kept.trees.changes(second, third)) == ["nested/b.txt"]


def test_git_configuration_of_the_user_is_ignored(
    folder: Path, kept: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    bad = tmp_path / "ran"
    put(home, ".gitconfig", f"[core]\nfsmonitor = touch {bad}\nautocrlf = true\nhooksPath = {home}\n[bad")
    put(home, ".config/git/ignore", "*\n")
    put(folder, ".git/config", f"[core]\nfsmonitor = touch {bad}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    put(folder, "a.txt", "a\r\n")
    first = take(kept)
    (folder / "a.txt").unlink()
    undo(kept, (first, take(kept)))
    assert (folder / "a.txt").read_bytes() == b"a\r\n"
    assert not bad.exists()
    assert not (tmp_path / "elsewhere").exists()


def test_histories_caches_and_protected_paths_are_excluded(folder: Path, tmp_path: Path) -> None:
    for name in (".git/HEAD", "sub/.git", "__pycache__/x", "a/node_modules/x", ".venv/x", "state/x", "own/x"):
        put(folder, name)
    put(folder, "target/x")
    put(folder, "target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55")
    put(folder, "a/state/x")
    kept = Snapshots(tmp_path / "snapshots", folder, [folder / "state", folder / "own"])
    tree = take(kept)
    put(folder, "a/node_modules/y")
    assert take(kept) == tree
    assert sorted(kept.trees.states(tree)) == ["a", "a/state", "a/state/x", "sub"]


def test_links_pipes_and_loops_are_safe(folder: Path, kept: Snapshots, tmp_path: Path) -> None:
    put(tmp_path, "out/secret.txt", "secret")
    (folder / "out").symlink_to(tmp_path / "out")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    first = take(kept)
    assert sorted(kept.trees.states(first)) == ["loop", "out"]
    (folder / "out").unlink()
    (folder / "out").symlink_to("/etc")
    assert list(kept.trees.changes(first, take(kept))) == ["out"]


def test_snapshots_are_readable_only_by_the_owner(folder: Path, kept: Snapshots) -> None:
    put(folder, ".env", "KEY=1")
    take(kept)
    modes = [path.lstat().st_mode for path in (kept.home, *kept.home.rglob("objects"))]
    assert not any(mode & 0o077 for mode in modes)


def test_file_above_the_limit_is_reported_and_left_alone(folder: Path, kept: Snapshots) -> None:
    put(folder, "almost", b"x" * trees.LARGEST)
    large = put(folder, "large", b"x" * (trees.LARGEST + 1))
    first = take(kept)
    assert kept.large == (large,)
    (folder / "almost").unlink()
    large.unlink()
    second = take(kept)
    assert kept.large == ()
    lines = undo(kept, (first, second))
    assert lines == ("almost: put back", "large: too large to be kept; left as it is")
    assert (folder / "almost").stat().st_size == trees.LARGEST
    third = take(kept)
    put(folder, "almost", b"x" * (trees.LARGEST + 1))
    fourth = take(kept)
    left = "almost: too large now to be kept; left as it is; `--force` gives it up"
    assert undo(kept, (third, fourth)) == (left,)
    assert undo(kept, (third, fourth), force=True) == ("almost: put back",)
    assert (folder / "almost").stat().st_size == trees.LARGEST


def test_damaged_git_index_is_repaired(folder: Path, kept: Snapshots) -> None:
    put(folder, "a", "1")
    first = take(kept)
    for damage in (b"", b"nonsense" * 9):
        (kept.home / "index.lock").write_bytes(b"")
        (kept.home / "index").write_bytes(damage)
        put(folder, "a", damage + b"2")
        assert list(kept.trees.changes(first, take(kept))) == ["a"]
    (kept.home / "last.json").write_text("[")
    put(folder, "a", "1")
    assert take(kept) == first


# ---- differences ------------------------------------------------------------------------------------------


def test_new_changed_and_removed_files_have_a_diff(folder: Path, kept: Snapshots) -> None:
    put(folder, "changed.txt", "one\ntwo\nthree\nfour\n")
    put(folder, "removed.txt", "gone\n")
    put(folder, "same.txt", "same\n")
    before = take(kept)
    put(folder, "changed.txt", "one\ntwo\n3\nfour\n")
    (folder / "removed.txt").unlink()
    put(folder, "new.txt", "a\nb\n")
    (folder / "empty").mkdir()
    (folder / "same.txt").chmod(0o600)
    assert changes_since(kept, before) == [
        Change("changed", "changed.txt", 15, 19, "@@ -2,3 +2,3 @@\n two\n-three\n+3\n four"),
        Change("new", "empty/", 0),
        Change("new", "new.txt", 4, 0, "@@ -0,0 +1,2 @@\n+a\n+b"),
        Change("removed", "removed.txt", 0, 5, "@@ -1 +0,0 @@\n-gone"),
        Change("changed", "same.txt", 5, 5, "(mode -rw-r--r-- before, -rw------- now)"),
    ]


def test_changes_are_found_by_content_not_by_time(folder: Path, kept: Snapshots) -> None:
    touched, forged = put(folder, "touched", "1"), put(folder, "forged", "1")
    before = take(kept)
    os.utime(touched, ns=(1, 1))
    stamp = forged.stat()
    forged.write_text("2")
    os.utime(forged, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert list(kept.trees.changes(before, take(kept))) == ["forged"]


def test_renamed_file_is_not_deleted(folder: Path, kept: Snapshots) -> None:
    put(folder, "a", "the same bytes")
    put(folder, "b", "others")
    before = take(kept)
    (folder / "a").rename(folder / "c")
    (folder / "b").unlink()
    moved = kept.trees.changes(before, take(kept))
    assert deleted(moved) == {"b": True}
    assert files_of(moved) == {"removed": ["a", "b"], "new": ["c"]}


def test_change_of_the_final_newline_is_reported(folder: Path, kept: Snapshots) -> None:
    put(folder, "a", "x\n")
    before = take(kept)
    put(folder, "a", "x")
    (change,) = changes_since(kept, before)
    assert change.diff == "(only the line break at the end differs)"


def test_long_diff_is_cut(folder: Path, kept: Snapshots) -> None:
    before = take(kept)
    put(folder, "a", "".join(f"{number:04}\n" for number in range(2_000)))
    (change,) = changes_since(kept, before)
    head, _, rest = change.diff.partition("\n[… ")
    assert len(change.diff) <= 4_000
    assert head.startswith("@@ -0,0 +1,2000 @@\n+0000\n")
    assert rest.split()[1:3] == ["characters", "cut;"]
    assert rest.endswith("+1999")


@pytest.mark.parametrize("lines", [("a\n", "b\n"), ("\n", "x\n"), ("a\nb\n", "b\na\n")])
def test_diffs_are_fast_for_any_text(folder: Path, kept: Snapshots, lines: tuple[str, str]) -> None:
    one, two = ((line * 20_000)[:32_000] for line in lines)
    put(folder, "a", one)
    before = take(kept)
    put(folder, "a", two + "end")
    with within(5):
        assert len(changes_since(kept, before)) == 1


def test_diffs_are_redacted_and_neutralised(
    folder: Path, kept: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "tell-nobody-this")
    before = take(kept)
    put(folder, ".env", "KEY=1")
    put(folder, "a", "x=tell-nobody-this\x1b[2J\n")
    secret, shown = changes_since(kept, before)
    assert (secret.path, secret.diff) == (".env", "")
    assert shown.diff.endswith("+x=[redacted SOME_TOKEN]␛[2J")


# ---- restoring --------------------------------------------------------------------------------------------


def test_undo_refuses_files_changed_since(folder: Path, kept: Snapshots) -> None:
    put(folder, "a", "1")
    put(folder, "b", "1")
    first = take(kept)
    put(folder, "a", "2")
    put(folder, "b", "2")
    second = take(kept)
    put(folder, "a", "of a person")
    with pytest.raises(UsageError, match="changed since: a; nothing was put back"):
        undo(kept, (first, second))
    assert (folder / "b").read_text() == "2"
    third = take(kept)
    assert undo(kept, (first, second), force=True) == ("a: put back", "b: put back")
    assert undo(kept, (third, take(kept))) == ("a: put back", "b: put back")
    assert (folder / "a").read_text() == "of a person"


def test_undo_does_not_follow_links_outside(folder: Path, kept: Snapshots, tmp_path: Path) -> None:
    put(folder, "sub/a", "1")
    first = take(kept)
    put(folder, "sub/a", "2")
    second = take(kept)
    shutil.rmtree(folder / "sub")
    put(tmp_path, "out/a", "theirs")
    (folder / "sub").symlink_to(tmp_path / "out")
    with pytest.raises(OperationFailed, match="is a link now"):
        undo(kept, (first, second), force=True)
    assert (tmp_path / "out/a").read_text() == "theirs"


@pytest.mark.parametrize("file", ["key", "inner/deep/key", ""])
def test_a_folder_that_became_a_link_has_nothing_of_what_that_leads_to(
    folder: Path, kept: Snapshots, tmp_path: Path, file: str
) -> None:
    for root in (folder / "sub", tmp_path / "other"):
        put(root, "inner/deep/keep", "").unlink()
        if file:
            put(root, file, "secret")
    take(kept)
    shutil.rmtree(folder / "sub")
    (folder / "sub").symlink_to(tmp_path / "other")
    tree = take(kept)
    assert list(kept.trees.states(tree)) == ["sub"]
    assert take(kept) == tree


def test_undo_swaps_files_folders_and_links(folder: Path, kept: Snapshots) -> None:
    put(folder, "x", "file")
    put(folder, "y/inside", "i")
    was = standing(folder)
    first = take(kept)
    (folder / "x").unlink()
    put(folder, "x/deep/a", "a")
    shutil.rmtree(folder / "y")
    (folder / "y").symlink_to("x")
    second = take(kept)
    became = standing(folder)
    undo(kept, (first, second))
    assert standing(folder) == was
    undo(kept, (second, take(kept)))
    assert standing(folder) == became


NAMES = st.sampled_from(["a", "b c", "d/e", "d/f", "g", "ü\n", "d", "x.sh"])
ACTS = st.sampled_from(["write", "append", "remove", "mkdir", "link", "chmod", "move", "cut", "empty"])


def _act(folder: Path, act: str, name: str, other: str, raw: bytes) -> None:
    path, target = folder / name, folder / other
    if act == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    elif act == "append":
        with path.open("ab") as file:
            file.write(raw)
    elif act == "remove":
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    elif act == "mkdir":
        path.mkdir(parents=True)
    elif act == "link":
        path.symlink_to(os.fsdecode(raw.replace(b"\0", b"") or b"x"))
    elif act == "chmod":
        path.chmod(0o600 | raw[0] & 0o177 if raw and path.is_file() else 0o711)
    elif act == "move":
        path.rename(target)
    elif act == "cut":
        os.truncate(path, 1)
    else:
        path.write_bytes(b"")


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.lists(st.tuples(ACTS, NAMES, NAMES, st.binary(max_size=4)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    )
)
def test_undo_in_reverse_order_restores_each_state(steps: list[list[Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "folder"
        put(folder, "a", "first")
        put(folder, "d/e", "second").chmod(0o640)
        kept = Snapshots(Path(name) / "snapshots", folder)
        seen, trees = [standing(folder)], [take(kept)]
        for step in steps:
            for each in step:
                with suppress(OSError):  # such as a file where a folder is needed
                    _act(folder, *each)
            seen.append(standing(folder))
            trees.append(take(kept))
        pairs = list(pairwise(trees))
        for at in reversed(range(len(pairs))):
            undo(kept, pairs[at])
            assert standing(folder) == seen[at]
        undo(kept, *[(after, before) for before, after in pairs])
        assert standing(folder) == seen[-1]
        undo(kept, *pairs[::-1])
        assert standing(folder) == seen[0]


# ---- locks and retention ---------------------------------------------------------------------------------


async def test_snapshot_lock_is_exclusive_and_released_on_cancel(folder: Path, kept: Snapshots) -> None:
    other = Snapshots(kept.home, folder)
    waits: list[str] = []
    async with kept.turn():
        waiting = asyncio.create_task(_hold(other, lambda: waits.append("waits")))
        await async_until(lambda: waits)
        await async_pause(0.1)
        assert (waits, waiting.done()) == (["waits"], False)
    await waiting
    async with kept.turn():
        waiting = asyncio.create_task(_hold(other, lambda: None))
        await async_pause(0.05)
        waiting.cancel()
    async with kept.turn():
        pass


async def _hold(kept: Snapshots, waits: Callable[[], None]) -> None:
    async with kept.turn(waits):
        pass


async def test_snapshot_does_not_block_the_event_loop(folder: Path, kept: Snapshots) -> None:
    for number in range(3_000):
        put(folder, f"{number % 50}/{number}", str(number))
    turns = 0
    async with kept.turn():
        taking = asyncio.create_task(kept.taken(RUN))
        while not taking.done():
            await asyncio.sleep(0)
            turns += 1
    assert taking.result()
    assert turns > 100, "other tasks have their turn meanwhile"


def test_undo_gives_up_waiting_for_the_lock(folder: Path, kept: Snapshots) -> None:
    with kept.alone(), pytest.raises(RunLocked, match="is changing"), Snapshots(kept.home, folder).alone(0.1):
        pass


def test_snapshots_of_removed_runs_are_deleted(folder: Path, kept: Snapshots) -> None:
    put(folder, "a", os.urandom(50_000))
    with kept.alone():
        old = kept.take("old")
    put(folder, "a", os.urandom(50_000))
    with kept.alone():
        new = kept.take("new")
        kept.shadow.forget(lambda run: run == "new")
    assert kept.trees.states(new)
    with pytest.raises(OperationFailed, match="not kept any more"):
        kept.trees.changes(old, new)
    assert kept.first("old") == ""
    with kept.alone():
        kept.shadow.forget(lambda run: False)
    assert [each.name for each in kept.home.iterdir()] == ["lock"]


def test_snapshots_of_a_folder_that_was_moved_are_deleted_as_well(folder: Path, kept: Snapshots) -> None:
    put(folder, "a", "1")
    with kept.alone():
        kept.take("old")
        new = kept.take("new")
    folder.rename(folder.with_name("moved"))
    gone = Snapshots(kept.home, folder)
    with gone.alone():
        gone.shadow.forget(lambda run: run == "new")
    assert gone.trees.states(new)


def test_folder_that_is_too_large_is_not_kept(
    folder: Path, kept: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FILES", 5)
    for number in range(9):
        put(folder, str(number))
    assert take(kept) == ""
    assert "too large" in kept.why_not()


@pytest.mark.night
def test_time_of_a_snapshot_of_twenty_thousand_files(kept: Snapshots, folder: Path) -> None:
    for number in range(20_000):
        put(folder, f"{number // 100}/{number}", f"{number}\n" * 40)
    time.sleep(limits.YOUNG + 1)  # a file changed just now is read again

    def seconds() -> float:
        began = time.perf_counter()
        take(kept)
        return time.perf_counter() - began

    first = seconds()
    unchanged = median(seconds() for _ in range(15))
    changed = median([put(folder, "3/300", str(number)) and seconds() for number in range(15)])
    print(f"first {first:.2f} s, unchanged {1000 * unchanged:.0f} ms, changed {1000 * changed:.0f} ms")
    assert first < 5
    assert unchanged < 0.08 and changed < 0.08


# ---- without git ------------------------------------------------------------------------------------------


def test_without_git_changes_are_known_and_undo_is_impossible(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    kept = Snapshots(tmp_path / "snapshots", folder)
    assert "git is not installed" in kept.why_not()
    put(folder, "a", "1")
    put(folder, "b/c", "1")
    before = take(kept)
    put(folder, "a", "12")
    (folder / "b/c").unlink()
    put(folder, "new")
    assert [(each.kind, each.path, each.size) for each in changes_since(kept, before)] == [
        ("changed", "a", 2),
        ("removed", "b/c", 0),
        ("new", "new", 0),
    ]
    assert kept.first(RUN) == before
    assert json.loads((kept.home / f"{before}.json").read_text())["b/c"]


TAKES = """
import signal, sys
from pathlib import Path
from runtime.sandbox.snapshot import Snapshots

signal.signal(signal.SIGINT, lambda *_: None)  # as a run does that saves its state
kept = Snapshots(Path(sys.argv[1]) / "snapshots", Path(sys.argv[1]))
print("here", flush=True)
with kept.alone():
    for number in range(5):
        (Path(sys.argv[1]) / "a").write_text(str(number))
        kept.take("abc123")
signal.signal(signal.SIGINT, signal.SIG_IGN)
"""


def test_ctrl_c_does_not_interrupt_a_snapshot(folder: Path) -> None:
    words = [sys.executable, "-c", TAKES, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0) as process:
        assert process.stdout and process.stdout.readline()
        while process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the run and its children
            pause(0.005)
        assert process.stderr
        assert process.returncode == 0, process.stderr.read().decode()
