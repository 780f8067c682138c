"""What git ignores: the reading without git agrees with git itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runtime.sandbox.ignored import Ignored

FILES = (
    "src/app.py",
    "src/gen/made.py",
    "src/gen/keep.py",
    "target/debug/out.txt",
    "target/forced.txt",
    "big.log",
    "logs/a.log",
    "logs/kept.log",
    "deep/build/x.o",
    "build.txt",
    "tmp file ",
    "#odd",
    "!odd",
    "local/notes.md",
    "docs/a/b/c.tmp",
    "docs/c.tmp",
    "caf\u00e9.bak",
)
RULES = {
    ".gitignore": "*.log\n/target/\nbuild\n\\#odd\n\\!odd\n*.bak\n\ntmp file\\ \n# no\ndocs/**/*.tmp\n",
    "logs/.gitignore": "!kept.log\n",
    "src/gen/.gitignore": "*\n!keep.py\n!.gitignore\n",
}


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "core.quotePath=false"]
    return subprocess.run(
        ["git", *names, *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout


def written(folder: Path) -> Path:
    for name, text in {**dict.fromkeys(FILES, "x\n"), **RULES}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture(params=["2", "4"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    git(tmp_path, "init", "-q", "work")
    written(folder)
    (folder / ".git/info/exclude").write_text("/local/\n")
    git(folder, "config", "index.version", request.param)
    git(folder, "add", ".")
    git(folder, "add", "-f", "target/forced.txt")
    git(folder, "update-index", "--index-version", request.param)
    git(folder, "commit", "-qm", "x")
    return folder


def left(folder: Path) -> set[str]:
    """What the reading ignores of all files that there are."""
    rules = Ignored(folder)
    found = (each for each in folder.rglob("*") if each.is_file() and ".git" not in each.parts)
    names = {each.relative_to(folder).as_posix() for each in found}
    return {each for each in names if rules.within(each)}


def said_by_git(folder: Path) -> set[str]:
    out = git(folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
    return set(out.split("\0")) - {""}


def test_it_agrees_with_git(repository: Path) -> None:
    assert left(repository) == said_by_git(repository)
    assert "target/forced.txt" not in left(repository), "a tracked file is not ignored"
    assert {"big.log", "local/notes.md", "src/gen/made.py"} <= left(repository)


def test_it_agrees_with_git_in_a_folder_of_the_repository(repository: Path) -> None:
    for name in ("src", "logs", "docs"):
        assert left(repository / name) == said_by_git(repository / name)


def test_it_agrees_with_git_in_a_worktree(repository: Path) -> None:
    place = repository.parent / "second"
    git(repository, "worktree", "add", "-q", str(place))
    written(place)
    assert left(place) == said_by_git(place)
    assert "local/notes.md" in left(place), "info/exclude is that of the repository"


def test_rules_hold_without_a_repository_and_in_an_ignored_folder(tmp_path: Path) -> None:
    written(tmp_path / "work")
    assert "big.log" in left(tmp_path / "work")
    assert "logs/kept.log" not in left(tmp_path / "work")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/work/\n*.py\n")
    assert "src/app.py" not in left(tmp_path / "work"), "who works in an ignored folder means its files"


def test_a_broken_repository_and_odd_rules_say_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /dev/zero\n")
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "a").touch()
    assert left(tmp_path) == set()
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\1\0\0rest")
    (tmp_path / ".gitignore").unlink()
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfea\n")
    assert left(tmp_path) == set()


def test_rules_that_would_take_too_long_for_one_name_are_not_matched(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*a*a*b\n" * 5_000)
    ignored = Ignored(tmp_path)
    assert ignored.ignores("aab") and not ignored.spent
    assert not ignored.ignores("a" * 249 + "b") and ignored.spent
    assert not ignored.ignores("aab"), "nothing more is ignored"
