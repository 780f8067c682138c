"""Commits of a run: on a branch of its own, where settings allow them, and nothing else of the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, Played, bash, boxed, doing, player, put, write

ALLOWED = {"operations": {"git": {"commit": True}}}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a user with an identity; its hooks leave a trace."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    put(tmp_path / "home", ".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n")
    folder = tmp_path / "work"
    put(folder, "a.txt", "one\ntwo\n")
    put(folder, "b.txt", "bee\n")
    put(folder, ".gitignore", "*.log\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "begin")
    for name in ("pre-commit", "post-commit", "commit-msg", "reference-transaction"):
        hook = put(folder, f".git/hooks/{name}", f"#!/bin/sh\ntouch {tmp_path}/hook-ran\nexit 1\n")
        hook.chmod(0o755)
    return folder


@pytest.fixture
def play(work: Path) -> Play:
    return player(work, memory=False)


def git(folder: Path, *words: str) -> str:
    given = ["git", "-c", "core.hooksPath=/dev/null", *words]
    return subprocess.run(given, cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(message: str = "Change a", **args: Any) -> dict[str, Any]:
    return {"tool": "git", "args": {"action": "commit", "message": message, **args}}


def branch(played: Played) -> str:
    return f"fractal/{played.result.run}"


def result(played: Played, n: int) -> str:
    return str(played.root.steps[n].result)


def test_a_person_merges_the_branch_of_a_run(work: Path, play: Play, tmp_path: Path) -> None:
    head = git(work, "rev-parse", "HEAD")
    played = play(
        doing(
            write("a.txt", "one\nTWO\n"),
            write("made.txt", "new\n"),
            write("x.log", "noise\n"),
            commit("Shout two\n\nIt was too quiet."),
            bash("rm b.txt"),
            commit("Drop b"),
        ),
        settings=ALLOWED,
        worktree=True,
    )
    assert played.result.status in ("complete", "unverified"), played.root.steps
    assert git(work, "rev-parse", "HEAD") == head and git(work, "status", "--short") == ""
    assert (work / "a.txt").read_text() == "one\ntwo\n", "the user's folder stays"
    assert git(work, "log", "--format=%an <%ae> %s", f"main..{branch(played)}").splitlines() == [
        "Ada <ada@example.org> Drop b",
        "Ada <ada@example.org> Shout two",
    ]
    body = git(work, "log", "-1", "--format=%B", f"{branch(played)}~1")
    assert body.strip() == f"Shout two\n\nIt was too quiet.\n\nFractal-Run: {played.result.run}"
    assert not (tmp_path / "hook-ran").exists()
    git(work, "merge", "-q", "--no-edit", branch(played))
    assert (work / "a.txt").read_text() == "one\nTWO\n"
    assert not (work / "b.txt").exists() and not (work / "x.log").exists()
    assert played.fractal.apply(played.result.run) is not None
    assert git(work, "status", "--short") == ""
    played.fractal.discard(played.result.run, force=True)
    assert git(work, "log", "-1", "--format=%s", branch(played)).strip() == "Drop b", "the branch stays"


def test_what_the_user_had_not_committed_is_not_in_it(work: Path, play: Play) -> None:
    put(work, "b.txt", "dirty\n")
    put(work, "untracked.txt", "mine\n")
    played = play(doing(write("a.txt", "ONE\n"), commit()), settings=ALLOWED, worktree=True)
    assert git(work, "show", "--format=", "--name-only", branch(played)).split() == ["a.txt"]
    assert "a.txt" in result(played, 2)


def test_only_the_named_paths_are_committed(work: Path, play: Play) -> None:
    played = play(
        doing(write("a.txt", "ONE\n"), write("sub/c.txt", "sea\n"), commit(path="sub")),
        settings=ALLOWED,
        worktree=True,
    )
    assert git(work, "show", "--format=", "--name-only", branch(played)).split() == ["sub/c.txt"]


@pytest.mark.parametrize("worktree", [True, False])
def test_without_the_setting_there_is_no_commit(work: Path, play: Play, worktree: bool) -> None:
    before = git(work, "for-each-ref"), git(work, "rev-list", "--all", "--count")
    played = play(doing(write("a.txt", "ONE\n"), commit()), worktree=worktree)
    assert "commits are off" in result(played, 2)
    assert (git(work, "for-each-ref"), git(work, "rev-list", "--all", "--count")) == before


def test_nothing_is_committed_in_the_users_own_folder(work: Path, play: Play, tmp_path: Path) -> None:
    before = git(work, "for-each-ref")
    played = play(doing(write("a.txt", "ONE\n"), commit()), settings=ALLOWED)
    assert "--worktree" in result(played, 2)
    linked = tmp_path / "linked"
    git(work, "worktree", "add", "-q", "--detach", str(linked))
    theirs = player(linked, memory=False)(doing(write("a.txt", "ONE\n"), commit()), settings=ALLOWED)
    assert "--worktree" in result(theirs, 2)
    assert git(work, "for-each-ref") == before


def test_git_in_a_command_still_cannot_commit_or_push(work: Path, play: Play) -> None:
    before = git(work, "for-each-ref")
    played = play(
        doing(write("a.txt", "ONE\n"), bash("git commit -am x; git branch other; git push; true")),
        settings={**ALLOWED, "sandbox": "auto"},
        worktree=True,
    )
    assert played.root.steps, played.result
    assert git(work, "for-each-ref") == before


def test_the_same_commit_again_changes_nothing(work: Path, play: Play) -> None:
    played = play(doing(write("a.txt", "ONE\n"), commit(), commit()), settings=ALLOWED, worktree=True)
    assert "nothing to commit" in result(played, 3)
    assert git(work, "rev-list", "--count", f"main..{branch(played)}").strip() == "1"


def test_a_user_without_an_identity_is_told(work: Path, play: Play, tmp_path: Path) -> None:
    (tmp_path / "home/.gitconfig").unlink()
    played = play(doing(write("a.txt", "ONE\n"), commit()), settings=ALLOWED, worktree=True)
    assert "user.name" in result(played, 2)
    git(work, "config", "user.name", "Local")
    git(work, "config", "user.email", "local@example.org")
    played = play(doing(write("a.txt", "ONE\n"), commit()), settings=ALLOWED, worktree=True)
    assert git(work, "log", "-1", "--format=%an", branch(played)).strip() == "Local"


def test_a_repository_with_filters_is_refused_and_its_settings_start_nothing(
    work: Path, play: Play, tmp_path: Path
) -> None:
    git(work, "config", "filter.lfs.clean", f"touch {tmp_path}/filter-ran; cat")
    put(work, ".gitattributes", "* filter=lfs\n")
    played = play(doing(write("a.txt", "ONE\n"), commit()), settings=ALLOWED, worktree=True)
    assert "filter" in result(played, 2)
    assert not (tmp_path / "filter-ran").exists()


def test_hooks_of_git_run_in_the_sandbox_where_they_are_allowed(
    work: Path, play: Play, tmp_path: Path
) -> None:
    settings = {"operations": {"git": {"commit": True, "hooks": True}}, "sandbox": "auto"}
    hook = work / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\necho 'a test is missing'\nexit 1\n")
    played = play(doing(write("a.txt", "ONE\n"), commit()), settings=settings, worktree=True)
    assert "a test is missing" in result(played, 2)
    hook.write_text("#!/bin/sh\ngit diff --cached --name-only | grep -qx a.txt\n")
    played = play(doing(write("a.txt", "ONE\n"), commit()), settings=settings, worktree=True)
    assert git(work, "log", "-1", "--format=%s", branch(played)).strip() == "Change a", result(played, 2)
    assert not (tmp_path / "hook-ran").exists(), "it ran where nothing else can be written"


@boxed
def test_a_commit_has_nothing_of_one_that_was_refused(work: Path, play: Play) -> None:
    settings = {"operations": {"git": {"commit": True, "hooks": True}}, "sandbox": "auto"}
    hook = work / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n! git diff --cached --name-only | grep -qx a.txt\n")
    turns = iter(
        [
            {"calls": [write("a.txt", "ONE\n"), commit(path="a.txt")]},
            {"calls": [write("b.txt", "BEE\n"), commit("B", path="b.txt")]},
        ]
    )
    played = play(
        lambda ask: ACCEPT if ask.phase == "check" else next(turns, {"done": "it is done"}),
        settings=settings,
        worktree=True,
    )
    assert "refused" in result(played, 2)
    assert git(work, "show", "--format=%s", "--name-only", branch(played)).split() == ["B", "b.txt"]


def test_a_path_that_is_readable_elsewhere_is_refused_in_words(work: Path, play: Play) -> None:
    played = play(
        doing(write("a.txt", "ONE\n"), commit(path=str(work / ".git/HEAD"))), settings=ALLOWED, worktree=True
    )
    assert "outside the folder of the run" in result(played, 2)
