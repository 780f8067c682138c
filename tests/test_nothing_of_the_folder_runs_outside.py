"""No program that a folder brings along, or that its git settings name, runs outside the sandbox.

Each trap leaves a marker outside the folder. First it is sprung as a person would, to see that it works; then
runs of the agent work in the folder with all that starts programs, and leave no marker.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from in_process import in_process
from lanes import NIGHT, every
from playing import Play, Played, bash, boxed, doing, player, put, write

from kernel.errors import ConfigurationError
from runtime.sandbox.programs import program
from runtime.sandbox.snapshot import Snapshots
from runtime.workspace.worktrees import Worktree

ROOT = Path(__file__).parent.parent
STARTERS = {
    "runtime/cli/mcp.py",  # the person's own browser, for a login that the person asked for
    "runtime/text/searching.py",  # an interpreter without environment or packages
    "runtime/mcp/client/transports.py",
    "runtime/sandbox/process.py",
    "runtime/sandbox/programs.py",
}
ACTIONS = ("status", "log", "diff", "branch", "current branch", "show", "count", "authors")
LOOKS = ACTIONS if NIGHT else ("status", "log", "diff", "show")
"""What looks at files, changes and commits; by day `several_at_once` meets the other actions."""
MODES = {"auto": [boxed], "off": []}
modes = pytest.mark.parametrize("sandbox", [pytest.param("auto", marks=boxed), "off"])


@dataclass
class Place:
    """A folder `work` in the repository at `top`, and what a trap would leave outside."""

    top: Path
    work: Path
    marker: Path
    begun: Path

    @property
    def trap(self) -> str:
        """A command that leaves the marker."""
        return f"touch {self.marker}; cat"

    def git(self, *words: str, check: bool = True) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "maintenance.auto=false")
        ran = subprocess.run(["git", *identity, *words], cwd=self.work, capture_output=True, text=True)
        assert not check or ran.returncode == 0, ran.stderr
        return ran.stdout

    def commit(self) -> None:
        """Make the repository, with the first commit; an empty folder gets a copy of one."""
        if self.top != self.begun and not any(self.top.iterdir()):
            shutil.copytree(self.begun, self.top, symlinks=True, dirs_exist_ok=True)
            return
        self.git("init", "-q", str(self.top))
        put(self.work, "a.txt", "one\n")
        put(self.work, ".gitignore", ".fractal/\n")
        self.git("add", ".")
        self.git("commit", "-qm", "begin")

    def touch(self) -> None:
        """Change a file, but not its size, so that git reads it, and a time, so that git writes its index."""
        put(self.work, "a.txt", "two\n")
        os.utime(self.work / "a.txt", (1, 1))
        if (ignoring := self.work / ".gitignore").exists():
            os.utime(ignoring, (1, ignoring.stat().st_mtime - 1))

    def script(self, name: str) -> Path:
        path = put(self.work, name, f"#!/bin/sh\n{self.trap} 2>/dev/null\nexit 0\n")
        path.chmod(0o755)
        return path


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, to copy."""
    top = tmp_path_factory.mktemp("begun")
    Place(top, top, top, top).commit()
    return top


@pytest.fixture
def place(tmp_path: Path, begun: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    work = home / "work"
    work.mkdir()
    return Place(work, work, tmp_path / "marker", begun)


@pytest.fixture
def play(place: Place) -> Play:
    return player(place.work, memory=False)


def git_steps(actions: Sequence[str] = LOOKS) -> list[dict[str, object]]:
    return [{"tool": "git", "args": {"action": action}, "needs": []} for action in actions]


def looked(play: Play, sandbox: str, actions: Sequence[str] = LOOKS, **options: object) -> Played:
    """A run that looks at the repository in these ways, and writes a file."""
    steps = [*git_steps(actions), write("made.txt", "x", needs=[]), bash("true", needs=[])]
    return play(doing(*steps), settings={"sandbox": sandbox}, yes=True, **options)


# ---- traps in a repository -------------------------------------------------------------------------------


def filter_of_settings(place: Place) -> None:
    put(place.top, ".gitattributes", "*.txt filter=evil\n")
    place.git("config", "filter.evil.clean", place.trap)


def filter_of_a_process(place: Place) -> None:
    put(place.top, ".gitattributes", "*.txt filter=evil\n")
    place.git("config", "filter.evil.process", place.trap)


def filter_of_the_worktree_settings(place: Place) -> None:
    put(place.top, ".gitattributes", "*.txt filter=evil\n")
    place.git("config", "extensions.worktreeConfig", "true")
    put(place.top, ".git/config.worktree", f'[filter "evil"]\n\tclean = "{place.trap}"\n')


def filter_of_included_settings(place: Place) -> None:
    put(place.top, ".gitattributes", "*.txt filter=evil\n")
    put(place.top, "more.cfg", f'[filter "evil"]\n\tclean = "{place.trap}"\n')
    place.git("config", "include.path", "../more.cfg")


def filter_of_conditional_settings(place: Place) -> None:
    put(place.top, ".git/info/attributes", "*.txt filter=evil\n")
    put(place.top, ".git/more.cfg", f'[filter "evil"]\n\tclean = "{place.trap}"\n')
    place.git("config", "includeIf.gitdir:/.path", "more.cfg")


def program_that_watches_files(place: Place) -> None:
    place.git("config", "core.fsmonitor", str(place.script("watch.sh")))


def program_that_shows_differences(place: Place) -> None:
    place.git("config", "diff.external", str(place.script("show.sh")))


def program_that_converts_files(place: Place) -> None:
    put(place.top, ".gitattributes", "*.txt diff=evil\n")
    place.git("config", "diff.evil.textconv", str(place.script("text.sh")))


def program_of_a_kind_of_file(place: Place) -> None:
    put(place.top, ".gitattributes", "*.txt diff=evil\n")
    place.git("config", "diff.evil.command", str(place.script("kind.sh")))


def hooks(place: Place) -> None:
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        put(place.top, f".git/hooks/{name}", f"#!/bin/sh\n{place.trap} </dev/null\n").chmod(0o755)


def hooks_elsewhere(place: Place) -> None:
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        put(place.work, f"hooks/{name}", f"#!/bin/sh\n{place.trap} </dev/null\n").chmod(0o755)
    place.git("config", "core.hooksPath", str(place.work / "hooks"))


def program_that_checks_signatures(place: Place) -> None:
    place.git("config", "gpg.program", str(place.script("gpg.sh")))
    place.git("config", "log.showSignature", "true")
    signed = place.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n\n", 1
    )
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        input=signed,
        cwd=place.work,
        capture_output=True,
        text=True,
        check=True,
    )
    place.git("update-ref", "HEAD", made.stdout.strip())


def promised_objects(place: Place) -> None:
    place.git("config", "extensions.partialClone", "origin")
    place.git("config", "core.repositoryFormatVersion", "1")
    place.git("config", "remote.origin.promisor", "true")
    place.git("config", "remote.origin.url", str(place.top))
    place.git("config", "remote.origin.uploadpack", f"touch {place.marker}; false")
    blob = place.git("rev-parse", "HEAD:./a.txt").strip()
    (place.top / ".git/objects" / blob[:2] / blob[2:]).unlink()


def promised_trees(place: Place) -> None:
    promised_objects(place)
    tree = place.git("rev-parse", "HEAD^{tree}").strip()
    (place.top / ".git/objects" / tree[:2] / tree[2:]).unlink()


def promised_over_ssh(place: Place) -> None:
    promised_trees(place)
    place.git("config", "remote.origin.url", "ssh://nowhere.example/x")
    place.git("config", "core.sshCommand", f"touch {place.marker}; false")


def several_at_once(place: Place) -> None:
    filter_of_settings(place)
    program_that_watches_files(place)
    program_that_shows_differences(place)
    hooks(place)
    place.git("config", "alias.status", f"!touch {place.marker}")
    place.git("config", "core.pager", f"touch {place.marker}; cat")
    place.git("config", "core.editor", f"touch {place.marker}")
    place.git("config", "submodule.x.update", f"!touch {place.marker}")


TRAPS = (
    filter_of_settings,
    filter_of_a_process,
    filter_of_the_worktree_settings,
    filter_of_included_settings,
    filter_of_conditional_settings,
    program_that_watches_files,
    program_that_shows_differences,
    program_that_converts_files,
    program_of_a_kind_of_file,
    hooks,
    hooks_elsewhere,
    program_that_checks_signatures,
    promised_objects,
    promised_trees,
    promised_over_ssh,
    several_at_once,
)
BOXED_ALIKE = {
    filter_of_a_process,
    filter_of_the_worktree_settings,
    filter_of_included_settings,
    filter_of_conditional_settings,
    program_that_converts_files,
    program_of_a_kind_of_file,
    hooks_elsewhere,
    promised_trees,
}
"""Traps that git in the sandbox meets as it meets one of the others; by day they are set without it."""


def in_modes(things: Sequence[Any], at_night: Callable[[Any, str], bool]) -> list[Any]:
    """Each of these with and without the sandbox, some of them at night."""
    return [
        pytest.param(
            thing,
            mode,
            marks=[*marks, *([pytest.mark.night] if at_night(thing, mode) else [])],
            id=f"{thing.__name__}-{mode}",
        )
        for thing in things
        for mode, marks in MODES.items()
    ]


def sprung(place: Place) -> None:
    """What a person does with git springs the trap."""
    place.touch()
    for words in (["status"], ["diff"], ["log"], ["read-tree", "HEAD"], ["checkout", "HEAD", "--", "."]):
        place.git(*words, check=False)
        if place.marker.exists():
            break
    assert place.marker.exists(), "the trap does not work"
    place.marker.unlink()
    place.touch()


@pytest.mark.parametrize(
    ("trap", "sandbox"), in_modes(TRAPS, lambda trap, mode: mode == "auto" and trap in BOXED_ALIKE)
)
def test_the_operation_git_runs_nothing_that_the_repository_names(
    place: Place, play: Play, trap: Callable[[Place], None], sandbox: str
) -> None:
    place.commit()
    trap(place)
    sprung(place)
    played = looked(play, sandbox, ACTIONS if trap is several_at_once else LOOKS)
    assert not place.marker.exists()
    assert played.root.steps[1].result, played.root.steps[1]


@pytest.mark.parametrize(
    ("trap", "sandbox"),
    in_modes(TRAPS[:: every(3)], lambda trap, mode: mode == "auto" and trap not in (hooks, several_at_once)),
)
def test_a_worktree_is_made_and_looked_at_without_what_the_repository_names(
    place: Place, play: Play, trap: Callable[[Place], None], sandbox: str
) -> None:
    place.commit()
    trap(place)
    sprung(place)
    with suppress(ConfigurationError):  # where the files of the last commit would have to be fetched
        looked(play, sandbox, worktree=True)
    assert not place.marker.exists()


@modes
@pytest.mark.parametrize("trap", [several_at_once, filter_of_included_settings, promised_trees])
def test_the_repository_above_the_folder_starts_nothing(
    place: Place, trap: Callable[[Place], None], sandbox: str
) -> None:
    place.work = place.top / "part"
    place.work.mkdir()
    place.commit()
    trap(place)
    sprung(place)
    looked(player(place.work, memory=False), sandbox)
    assert not place.marker.exists()


@modes
def test_the_repository_above_the_folder_is_looked_at_with_its_rules(place: Place, sandbox: str) -> None:
    place.work = place.top / "part"
    place.work.mkdir()
    put(place.top, ".gitignore", "*.log\n.fractal/\n")
    put(place.top, "beside/b.txt", "beside")
    put(Path.home(), ".config/git/ignore", "*.mine\n")
    place.commit()
    for name in ("x.log", "x.mine", "x.new"):
        put(place.work, name, "x")
    steps = looked(player(place.work, memory=False), sandbox).root.steps
    listed = {*(steps[1].result or "").split("\n")[1:]} - {"?? made.txt"}  # a step beside it may be first
    assert listed == {"?? x.new"}
    assert "begin" in (steps[2].result or "")


@modes
@pytest.mark.parametrize("kind", ["worktree", "submodule"])
def test_a_worktree_and_a_submodule_of_the_user_are_looked_at(place: Place, sandbox: str, kind: str) -> None:
    other = Place(Path.home() / "other", Path.home() / "other", place.marker, place.begun)
    other.work.mkdir()
    other.commit()
    if kind == "worktree":
        place.work.rmdir()
        other.git("worktree", "add", str(place.work))
    else:
        place.commit()
        place.git("-c", "protocol.file.allow=always", "submodule", "add", str(other.work), "sub")
        place.work = place.work / "sub"
    put(place.work, "new.txt", "1")
    steps = looked(player(place.work, memory=False), sandbox).root.steps
    assert "?? new.txt" in (steps[1].result or "") and "begin" in (steps[2].result or ""), steps


@modes
def test_how_far_a_branch_is_from_the_one_that_it_follows_is_shown(
    place: Place, play: Play, sandbox: str
) -> None:
    place.commit()
    branch = place.git("branch", "--show-current").strip()
    place.git("update-ref", "refs/remotes/origin/main", "HEAD")
    place.git("config", "remote.origin.url", "https://example.org/x")
    place.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    place.git("config", f"branch.{branch}.remote", "origin")
    place.git("config", f"branch.{branch}.merge", "refs/heads/main")
    place.git("commit", "-q", "--allow-empty", "-m", "more")
    step = looked(play, sandbox).root.steps[1]
    assert f"## {branch}...origin/main [ahead 1]" in (step.result or "")


@modes
def test_a_git_directory_laid_out_in_the_folder_is_no_repository(
    place: Place, play: Play, sandbox: str
) -> None:
    """What the folder's files say is a repository, a run may have written."""
    place.commit()
    filter_of_settings(place)
    place.git("config", "core.worktree", str(place.work))
    for part in (place.work / ".git").iterdir():
        part.rename(place.work / part.name)
    (place.work / ".git").rmdir()
    place.touch()
    place.git("status", check=False)
    assert place.marker.exists(), "the trap does not work"
    place.marker.unlink()
    step = looked(play, sandbox).root.steps[1]
    assert not place.marker.exists()
    assert step.state == "failed" and "not in a git repository" in (step.result or "")


@modes
def test_files_of_the_home_folder_are_not_shown_as_changes(place: Place, play: Play, sandbox: str) -> None:
    put(Path.home(), "a.txt", "a private note\n")
    place.commit()
    place.git("config", "core.worktree", str(Path.home()))
    assert "a private note" in place.git("diff", check=False)
    for step in looked(play, sandbox).root.steps.values():
        assert "a private note" not in (step.result or "")


def leading_by_a_file(place: Place, private: Path) -> None:
    put(place.work, ".git", f"gitdir: {private / '.git'}\n")


def leading_by_a_link(place: Place, private: Path) -> None:
    (place.work / ".git").symlink_to(private / ".git")


def leading_by_a_common_folder(place: Place, private: Path) -> None:
    put(place.work, ".git/HEAD", (private / ".git/HEAD").read_text())
    put(place.work, ".git/commondir", f"{private / '.git'}\n")


def leading_by_links_inside(place: Place, private: Path) -> None:
    put(place.work, ".git/HEAD", (private / ".git/HEAD").read_text())
    for name in ("objects", "refs", "config"):
        (place.work / ".git" / name).symlink_to(private / ".git" / name)


def leading_by_links_deeper(place: Place, private: Path) -> None:
    put(place.work, ".git/HEAD", (private / ".git/HEAD").read_text())
    put(place.work, ".git/config", "[core]\n\tbare = false\n")
    for below in ("objects", "refs"):
        (place.work / ".git" / below).mkdir()
        for entry in (private / ".git" / below).iterdir():
            (place.work / ".git" / below / entry.name).symlink_to(entry)


def leading_by_borrowed_objects(place: Place, private: Path) -> None:
    leading_by_links_deeper(place, private)
    for entry in (place.work / ".git/objects").iterdir():
        entry.unlink()
    put(place.work, ".git/objects/info/alternates", f"{private / '.git/objects'}\n")


LEADS = (
    leading_by_a_file,
    leading_by_a_link,
    leading_by_a_common_folder,
    leading_by_links_inside,
    leading_by_links_deeper,
    leading_by_borrowed_objects,
)


def half(worktree: bool) -> Callable[[Any, str], bool]:
    """By day each of them leads in both modes, in one of these to a worktree."""
    return lambda lead, mode: (LEADS.index(lead) + (mode == "off") + worktree) % 2 == 1


@pytest.mark.parametrize(
    ("lead", "sandbox", "worktree"),
    [
        pytest.param(*each.values, worktree, marks=each.marks, id=f"{each.id}-{worktree}")
        for worktree in (False, True)
        for each in in_modes(LEADS, half(worktree))
    ],
)
def test_another_repository_of_the_user_is_not_read(
    place: Place, play: Play, lead: Callable[[Place, Path], None], sandbox: str, worktree: bool
) -> None:
    private = Path.home() / "private"
    private.mkdir()
    other = Place(private, private, place.marker, place.begun)
    other.commit()
    put(private, "diary.txt", "x")
    other.git("add", ".")
    other.git("commit", "-qm", "a private message")
    lead(place, private)
    assert "a private message" in place.git("log"), "the trap does not work"
    played = looked(play, sandbox, worktree=worktree)
    for step in played.root.steps.values():
        assert "private message" not in (step.result or "") and "diary" not in (step.result or "")
    assert not list((private / ".git").glob("worktrees/*"))
    made = Worktree.of_run(played.root)
    assert not made or private / ".git" not in made.repository


# ---- programs on the PATH, and what the environment names ------------------------------------------------


@modes
def test_no_program_of_the_folder_is_taken_for_one_that_fractal_starts(
    place: Place, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    place.commit()
    put(place.work, "other.txt", "1\n")
    put(place.work, "s.sh", "echo\n")
    for name in ("git", "bash", "diff", "bwrap", "python3", "python", "setpriv"):
        place.script(f"bin/{name}")
    for name in ("json", "re", "sitecustomize", "usercustomize", "pip"):
        put(place.work, f"{name}.py", f"open({str(place.marker)!r}, 'w')\n")
    place.script("env.sh")
    monkeypatch.setenv("PATH", f"{place.work / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name, value in {
        "BASH_ENV": place.work / "env.sh",
        "PYTHONPATH": place.work,
        "PYTHONSTARTUP": place.work / "json.py",
        "GIT_EXTERNAL_DIFF": place.work / "env.sh",
        "GIT_EXEC_PATH": place.work / "bin",
        "GIT_CONFIG_COUNT": 1,
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": place.work / "env.sh",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(place.work)
    slow = r"(a+)+\bq"
    steps = [
        *git_steps(ACTIONS),
        {"tool": "compare", "args": {"a": "a.txt", "b": "other.txt"}, "needs": []},
        {"tool": "grep", "args": {"pattern": slow}, "needs": []},
        write("made.sh", "echo\n", needs=[]),
    ]
    success = [{"check": "valid", "file": "made.sh"}, {"file": "a.txt", "has": slow}]
    for worktree in (False, True):
        play = player(place.work, memory=False)
        play(doing(*steps, success=success), settings={"sandbox": sandbox}, yes=True, worktree=worktree)
    assert not place.marker.exists()


@pytest.mark.parametrize("where", ["here", "in another workspace"])
def test_a_program_in_a_folder_that_runs_write_in_is_passed_over_or_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = place.work
    if where != "here":
        put(place.work, "fractal.yaml")
        folder = place.top.parent / "beside"
        folder.mkdir()
    mine = place.script("bin/mine").parent
    monkeypatch.setenv("PATH", f"{mine}{os.pathsep}/usr/bin{os.pathsep}/bin")
    place.script("bin/env")
    assert program("env", folder) in ("/usr/bin/env", "/bin/env")
    assert program("not-there", folder) is None
    with pytest.raises(ConfigurationError, match="lies in a folder that runs write in"):
        program("mine", folder)
    (place.work.parent / "links").mkdir()
    (place.work.parent / "links/mine").symlink_to(mine / "mine")
    monkeypatch.setenv("PATH", str(place.work.parent / "links"))
    with pytest.raises(ConfigurationError, match="lies in a folder that runs write in"):
        program("mine", folder)


# ---- the repository of snapshots that came with a folder -------------------------------------------------


def poisoned(home: Path, place: Place) -> None:
    """Give a repository of snapshots all that git obeys."""
    hook = f"#!/bin/sh\n{place.trap} </dev/null\n"
    config = (home / "config").read_text()
    more = f"""[extensions]
	worktreeConfig = true
	partialClone = origin
[remote "origin"]
	promisor = true
	url = {home}
	uploadpack = touch {place.marker}; false
[filter "evil"]
	clean = {place.trap}
	smudge = {place.trap}
[core]
	fsmonitor = {place.script("watch.sh")}
	hooksPath = {home}/hooks
	alternateRefsCommand = touch {place.marker}
[include]
	path = more
"""
    put(home, "config", config.replace("repositoryformatversion = 0", "repositoryformatversion = 1") + more)
    put(home, "config.worktree", more)
    put(home, "more", more)
    put(home, "info/attributes", "* filter=evil\n")
    put(home, "info/grafts", "x")
    put(home, "gitconfig", more)
    put(home, ".gitconfig", more)
    put(home, "git/config", more)
    for name in ("post-index-change", "reference-transaction"):
        put(home, f"hooks/{name}", hook).chmod(0o755)
    put(home, "other/config", more)
    put(home, "other/info/attributes", "* filter=evil\n")
    for name in ("objects", "refs"):
        shutil.copytree(home / name, home / "other" / name)
    put(home, "commondir", "other\n")


def test_a_repository_of_snapshots_that_came_with_a_folder_is_not_obeyed(place: Place, play: Play) -> None:
    put(place.work, "a.txt", "one\n")
    put(place.work, ".gitattributes", "* filter=evil\n")
    first = looked(play, "off")
    homes = list((place.work / ".fractal/state/snapshots").iterdir())
    for home in homes:
        poisoned(home, place)
        place.git(f"--git-dir={home}", f"--work-tree={place.work}", "status", check=False)
        assert place.marker.exists(), "the trap does not work"
        place.marker.unlink()
    place.touch()
    second = looked(play, "off")
    assert second.fractal.undo(second.result.run) is not None
    looked(play, "off", worktree=True)
    first.fractal.workspace.run_ids()
    assert not place.marker.exists()
    for home in homes:
        assert not (home / "commondir").exists() and not (home / "hooks").exists()


def test_objects_of_another_repository_are_not_borrowed_for_snapshots(place: Place, play: Play) -> None:
    private = Place(Path.home() / "private", Path.home() / "private", place.marker, place.begun)
    put(private.top, "diary.txt", "a private note")
    private.commit()
    looked(play, "off")
    snapshots = next((place.work / ".fractal/state/snapshots").iterdir())
    put(snapshots, "objects/info/alternates", f"{private.top}/.git/objects\n")
    blob = private.git("rev-parse", "HEAD:diary.txt").strip()
    assert place.git(f"--git-dir={snapshots}", "cat-file", "blob", blob) == "a private note"
    with pytest.raises(subprocess.CalledProcessError):
        Snapshots(snapshots, place.work).shadow.run("cat-file", "blob", blob)


# ---- the command line, and the code ----------------------------------------------------------------------


@modes
def test_fractal_run_from_the_command_line_leaves_no_marker(
    place: Place, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    place.commit()
    several_at_once(place)
    sprung(place)
    place.script("bin/git")
    path = f"{place.work / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "FRACTAL_TRUST": "all", "BASH_ENV": str(place.work / "bin/git")}
    put(place.work, "fractal.yaml", f"sandbox: {sandbox}\n")
    for task in ("git status", "git log", "git diff", "show the git status"):
        ran = in_process(place.work, ["run", "--yes", task], env)
        assert "planned 1 step" in ran.err, ran.err
    assert not place.marker.exists()


def called(source: str) -> Iterator[str]:
    """The functions that a module calls by `module.name`, or imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if isinstance(node.func.value, ast.Name):
                yield f"{node.func.value.id}.{node.func.attr}"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_programs_start_in_one_place_only() -> None:
    starting = {"subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_output"}
    starting |= {"subprocess.check_call", "subprocess.getoutput", "os.system", "os.popen", "pty.spawn"}
    starting |= {"asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "os.posix_spawn"}
    starting |= {f"os.exec{kind}" for kind in ("v", "ve", "vp", "vpe", "l", "le", "lp", "lpe")}
    starting |= {"webbrowser.open", "multiprocessing.Process"}
    names = {part for each in starting for part in each.split(".")} - {"os", "asyncio", "run", "call", "open"}
    begins = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")  # most files have none: they are not parsed
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("kernel", "runtime", "fractal")
        for path in (ROOT / package).rglob("*.py")
        if begins.search(text := path.read_text("utf-8")) and starting & set(called(text))
    }
    assert found <= STARTERS, json.dumps(sorted(found - STARTERS))


def test_no_program_is_started_by_a_bare_name(tmp_path: Path) -> None:
    from runtime.sandbox.programs import start

    with pytest.raises(ValueError, match="absolute path"):
        start(["git", "status"], tmp_path)
