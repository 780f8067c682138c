"""git: looks at a repository, changes nothing, and runs nothing outside that the repository names."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from playing import boxed

from runtime.operations.git import git


def run(bench, *args: str) -> None:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *args], cwd=bench.folder, check=True, capture_output=True)


@pytest.fixture(params=[pytest.param("auto", marks=boxed), "off"])
def bench(bench, request):
    return replace(bench, sandbox=request.param)


@pytest.fixture
def repository(bench):
    run(bench, "init", "-b", "main")
    bench.put("a.txt", "one\n")
    bench.put("d/ü.txt", "two\n")
    run(bench, "add", ".")
    run(bench, "commit", "-m", "First: begin")
    bench.put("a.txt", "changed\n")
    run(bench, "commit", "-am", "Second")
    run(bench, "branch", "other")
    return bench


def test_status_says_what_changed_or_that_nothing_did(repository):
    assert repository.call(git, action="status").text == "## main\nnothing has changed"
    repository.put("d/ü.txt", "three\n")
    repository.put("new", "")
    assert repository.call(git, action="status").text == "## main\n M d/ü.txt\n?? new"
    assert repository.call(git, action="status", path="d").evidence["changes"] == 1


def test_log_shows_the_last_commits(repository):
    lines = repository.call(git, action="log").text.split("\n")
    assert [line.partition(": ")[2] for line in lines] == ["Second", "First: begin"]
    assert len(repository.call(git, action="log", limit=1).text.split("\n")) == 1
    assert "First" in repository.call(git, action="log", path="d").text


def test_diff_shows_staged_and_unstaged(repository):
    assert repository.call(git, action="diff").text == "nothing has changed since the last commit"
    repository.put("a.txt", "again\n")
    run(repository, "add", ".")
    repository.put("d/ü.txt", "three\n")
    result = repository.call(git, action="diff")
    assert "-changed\n+again" in result.text
    assert "-two\n+three" in result.text
    assert result.evidence["files"] == 2


def test_branch_marks_the_present_one(repository):
    assert repository.call(git, action="branch").text == "* main\n  other"
    assert repository.call(git, action="current branch").text == "main"
    run(repository, "checkout", "--detach")
    assert repository.call(git, action="current branch").text.startswith("no branch: the commit ")


def test_commits_are_counted_shown_and_have_authors(repository):
    assert repository.call(git, action="count").text == "2"
    assert repository.call(git, action="count", path="d").text == "1"
    assert "Second" in repository.call(git, action="show", limit=1).text
    shown = repository.call(git, action="show", message="First").text
    assert "First: begin" in shown
    assert "a.txt" in shown
    assert "no such commit" in repository.fails(git, action="show", message="Third")
    assert repository.call(git, action="authors").evidence == {"authors": 1}


def test_a_repository_without_commits(bench):
    run(bench, "init", "-b", "main")
    bench.put("a", "1")
    assert bench.call(git, action="log").text == "there are no commits yet"
    assert bench.call(git, action="branch").text == "* main (no commits yet)"
    assert bench.call(git, action="current branch").text == "main"
    assert bench.call(git, action="diff").text == "nothing has changed since the last commit"
    run(bench, "add", ".")
    assert "+1" in bench.call(git, action="diff").text


def test_no_program_of_the_repository_is_run(repository):
    trap = "touch trapped"
    for setting in (
        "core.fsmonitor",
        "diff.external",
        "core.pager",
        "diff.evil.textconv",
        "diff.evil.command",
        "gpg.program",
    ):
        run(repository, "config", setting, trap)
    repository.put(".gitattributes", "*.txt diff=evil\n")
    repository.put("a.txt", "again\n")
    for action in ("status", "log", "diff", "branch"):
        repository.call(git, action=action)
    run(repository, "config", "filter.evil.clean", trap)
    if repository.sandbox == "off":
        assert "names a program to run" in repository.fails(git, action="status")
    else:
        repository.call(git, action="status")
    assert "trapped" not in repository.names()


def test_wrong_calls_are_reported(bench):
    assert "not in a git repository" in bench.fails(git, action="status")
    assert "outside" in bench.fails(git, action="log", path="..")


def test_a_path_is_no_option_and_no_pattern(repository):
    repository.put("--output=x", "1")
    repository.put("*", "1")
    assert repository.call(git, action="status", path="--output=x").text.endswith("?? --output=x")
    assert repository.call(git, action="status", path="*").evidence["changes"] == 1
