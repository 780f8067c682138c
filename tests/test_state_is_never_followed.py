"""Promise: nothing in `state/` is reached through a link, and that of somebody else is changed once allowed.

A folder has a state with everything that Fractal makes there. Each place of it in turn becomes a link to the
same content elsewhere, as a clone can have it, and every command of the command line is called: what the link
leads to is neither changed nor shown. A new command needs a line in `COMMANDS`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import pytest
import yaml
from in_process import Ran, in_process
from lanes import every
from playing import plan, put, standing, write

from kernel import disk
from kernel.document.model import root_id
from kernel.errors import FractalError
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal
from runtime.cli import cli
from runtime.workspace.ownership import is_ours
from runtime.workspace.workspace import Workspace, shipped_system

SOURCE = Path(__file__).parents[1]
SECRET = "precious words"
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}
WRITES = plan(write("words.txt", "5\n"), success=[{"file": "words.txt", "has": "5"}])
SAYS = plan(write("other.txt", "6\n"), success=[{"judge": "it is done"}])
SCRIPTS = {
    "writes": {"plan": WRITES, "check": ACCEPT},
    "says": {"plan": SAYS, "check": ACCEPT},
    "asks": {
        "plan": {"question": "Which file?"},
        "work": {"calls": WRITES["steps"], "done": "done"},
        "check": ACCEPT,
    },
}
SERVES = "serves until it is stopped; what it does to a state is that of the commands"
OUTSIDE = "changes no state"
RUN, WORKTREE, ASKS, PLANNED = "{run}", "{worktree}", "{asks}", "{planned}"
COMMANDS: Mapping[str, str | list[str]] = {
    "run": ["count the lines of notes.md"],
    "resume": [ASKS],
    "replay": [RUN],
    "fork": [RUN, "--no-run"],
    "ls": [],
    "show": [RUN],
    "tree": [RUN],
    "explain": [RUN],
    "cost": [RUN],
    "diff": [RUN],
    "prompt": [ASKS],
    "answer": [ASKS, "words.txt"],
    "approve": [PLANNED],
    "reject": [PLANNED, "no"],
    "say": [ASKS, "more"],
    "feedback": [RUN, "good"],
    "cancel": [ASKS],
    "undo": [RUN],
    "apply": [WORKTREE],
    "discard": [WORKTREE, "--yes"],
    "messages": [],
    "messages reply": ["000000", "approve"],
    "messages send": ["default", "count the lines of notes.md"],
    "beat": ["--once"],
    "review": [],
    "nudge": [PLANNED, "differently"],
    "veto": [ASKS, "no"],
    "decisions": [],
    "grant": ["other", "write"],
    "revoke": ["other", "read"],
    "growth": [],
    "lifeforce": [],
    "recall": ["cat"],
    "remember": ["the dog is brown"],
    "goal": ["learn more"],
    "wander": ["--seed", "1"],
    "forget": ["cat", "--documents", "--yes"],
    "dream": [],
    "learn agents": [],
    "learn export": ["{folder}/exported.md"],
    "learn from": [RUN],
    "learn import": ["practice.md"],
    "learn patterns": [],
    "learn report": [],
    "learn trial": [],
    "context": ["count the lines of notes.md"],
    "acp": SERVES,
    "mcp": SERVES,
    "mcp install": OUTSIDE,
    "mcp login": OUTSIDE,
    "mcp logout": OUTSIDE,
    "serve": SERVES,
    "runner": SERVES,
    "brain check": [],
    "brain checkpoint": ["--json"],
    "brain compare": ["{folder}", "{folder}"],
    "brain curve": [],
    "brain explain": [RUN],
    "brain export": ["{folder}/brain.jsonl"],
    "brain import": ["facts.jsonl"],
    "brain methods": [],
    "brain rebuild": [],
    "brain release": ["000000"],
    "brain report": [],
    "brain substrates": [],
    "bench ls": [],
    "bench run": ["--suite", "arithmetic", "--limit", "1", "-m", "reflex"],
    "tools add": ["added.md"],
    "tools call": ["count", "what=lines", "path=notes.md"],
    "tools check": [],
    "tools export": ["greet"],
    "tools ls": [],
    "tools new": ["wave"],
    "tools retire": ["greet"],
    "tools show": ["greet"],
    "tools test": ["greet"],
    "system adopt": ["p1"],
    "system diff": [],
    "system drop": ["p1"],
    "system edit": ["phases/plan.md"],
    "system log": [],
    "system propose": ["added.md", "--as", "operations/added.md"],
    "system rollback": ["2"],
    "trust": [],
    "init": [],
    "doctor": OUTSIDE,
    "model": OUTSIDE,
    "config": [],
    "gc": ["--keep-days", "0"],
    "completion": OUTSIDE,
}
"""Each command with its words, or why it is not called."""
REMOVING = ("gc", "dream", "forget", "discard", "undo", "run", "brain checkpoint", "fork", "brain rebuild")


def leaves(group: click.Group, before: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (before + name,) if command.invoke_without_command else ()
            yield from leaves(command, f"{before}{name} ")
        else:
            yield before + name


def test_every_command_of_the_command_line_is_called_or_has_a_reason() -> None:
    assert set(leaves(cli)) == set(COMMANDS)


@dataclass
class Place:
    """A folder with a state, a copy of it to start from, and an empty place outside."""

    folder: Path
    kept: Path
    outside: Path
    names: dict[str, str]
    env: dict[str, str]
    linked: Path | None = None
    entries: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def renew(self) -> None:
        """The folder as it was made, and nothing outside; only what has changed is copied anew."""
        if self.linked and self.linked.is_symlink():
            self.linked.unlink()
            if (there := self.outside / "content").is_dir():
                (there / "precious.md").unlink(missing_ok=True)
            there.rename(self.linked)
        shutil.rmtree(self.outside, ignore_errors=True)
        if not self.entries:
            shutil.copytree(self.kept, self.folder, symlinks=True)
            self.entries = self._entries()
        elif changed := {path for path, _ in self.entries.items() ^ self._entries().items()}:
            # a command before may have a database open, and writes into it when it lets go of it
            self._restore(changed | {path for path in self.entries if ".sqlite3" in path})
            self.entries = self._entries()
        self.outside.mkdir()

    def _restore(self, changed: set[str]) -> None:
        for path in sorted(changed, reverse=True):
            here, kept = self.folder / path, self.kept / path
            if here.is_dir() and not here.is_symlink():
                if not kept.is_dir() or kept.is_symlink():
                    shutil.rmtree(here)
            else:
                here.unlink(missing_ok=True)
        for path in sorted(changed):
            here, kept = self.folder / path, self.kept / path
            if kept.is_dir() and not kept.is_symlink():
                here.mkdir(exist_ok=True)
            elif os.path.lexists(kept):
                shutil.copy2(kept, here, follow_symlinks=False)
        for path in sorted(changed, reverse=True):
            if (kept := self.kept / path).is_dir() and not kept.is_symlink():
                shutil.copystat(kept, self.folder / path)

    def _entries(self) -> dict[str, tuple[int, ...]]:
        """What tells whether a file, a folder or a link has changed, by its path in the folder."""
        found: dict[str, tuple[int, ...]] = {}
        top = f"{self.folder}/"
        for at, folders, files in os.walk(self.folder):
            for name in ("", *folders, *files):
                path = f"{at}/{name}" if name else at
                now = os.lstat(path)
                size = 0 if stat.S_ISDIR(now.st_mode) else now.st_size
                found[path.removeprefix(top)] = (now.st_mode, now.st_mtime_ns, now.st_ino, size)
        return {path: entry for path, entry in found.items() if path != str(self.folder)}

    def __call__(self, command: str, **env: str) -> Ran:
        words = [word.format(**self.names, folder=self.folder.parent) for word in COMMANDS[command]]
        return self.fractal(*command.split(), *words, **env)

    def fractal(self, *words: str, **env: str) -> Ran:
        return in_process(self.folder, words, self.env | env)

    def link(self, site: str) -> Path:
        """Put a link in the place of a file or folder; it leads to the same content outside."""
        here, there = self.folder / site, self.outside / "content"
        here.rename(there)
        if there.is_dir():
            put(there, "precious.md", SECRET)
        here.symlink_to(there, target_is_directory=there.is_dir())
        self.linked = here
        return there


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A state with what runs, dreams, checkpoints, archives, worktrees, proposals and messages leave."""
    top = tmp_path_factory.mktemp("state").resolve()
    folder = top / "work"
    env = {key: os.environ[key] for key in ("PATH", "HOME", "FRACTAL_TRUST") if key in os.environ}
    env |= {"XDG_CONFIG_HOME": str(top / "config"), "FRACTAL_EMBEDDER": "lexical", "EDITOR": "true"}
    place = Place(folder, top / "kept", top / "outside", {}, env)
    put(folder, "notes.md", "one\ntwo\n")
    put(folder, "practice.md", "- Count the lines before you write them.\n")
    put(folder, "facts.jsonl", "")
    put(folder, "added.md", "---\nname: added\ndescription: adds\n---\n# Added\n")
    settings = {"model": "scripted:writes.yaml", "fsync": False, "sandbox": "off", "review": "off"}
    put(folder, "fractal.yaml", json.dumps(settings | {"lifeforce": {"capacity": 1_000_000, "per_hour": 0}}))
    for name, script in SCRIPTS.items():
        put(folder, f"{name}.yaml", yaml.safe_dump(script))

    def go(*words: str) -> str:
        ran = place.fractal(*words)
        assert ran.exit in (0, 6), (words, ran)
        return ran.err + ran.out

    def run(*words: str) -> str:
        found = re.search(r"run (\w{6})", go("run", *words))
        assert found
        return found[1]

    go("init")
    run("count the lines of notes.md")
    go("gc", "--keep-days", "0")
    place.names["run"] = run("write five into words.txt")
    place.names["worktree"] = run("--worktree", "-m", "scripted:says.yaml", "write six into other.txt")
    place.names["asks"] = run("-m", "scripted:asks.yaml", "write what I ask for")
    place.names["planned"] = run("--plan", "write five into words.txt")
    go("answer", place.names["asks"], "words.txt")
    go("remember", "the cat is grey")
    go("remember", "the cat is grey and old")
    go("learn", "import", "practice.md")
    go("dream")
    go("brain", "checkpoint")
    go("messages", "send", "default", "count the lines of notes.md")
    go("grant", "other", "read")
    go("tools", "new", "greet")
    go("run", "--space", "second", "count the lines of notes.md")
    put(folder, "greet2.md", (folder / "system/tools/greet/pattern.md").read_text() + "\nOnce more.\n")
    go("system", "propose", "greet2.md", "--as", "tools/greet/pattern.md")
    folder.rename(place.kept)
    return place


def sites(place: Place) -> list[str]:
    """Every file and folder of the state, one of each kind; what lies in a worktree is the user's."""
    found: dict[str, str] = {"state": "state"}
    for path in sorted(standing(place.kept / "state")):
        kind = re.sub(r"[0-9a-f]{16,}|\b[0-9a-z]{6}\b|\d+|[0-9a-f]{2}(?=/|$)", "N", path)
        if not re.match(r"worktrees/[^/]+/|snapshots/[^/]+/objects/../", path):
            found.setdefault(kind, f"state/{path}")
    return list(found.values())


def unharmed(place: Place, site: str, commands: Iterator[str] | tuple[str, ...]) -> None:
    """These commands neither change nor show what a link at the site leads to."""
    for command in commands:
        place.renew()
        place.link(site)
        before = standing(place.outside)
        ran = place(command)
        about = f"{command} with a link at {site}: {ran}"
        assert standing(place.outside) == before, about
        assert SECRET not in ran.out + ran.err, about
        assert "internal error" not in ran.err, about
        assert "Traceback" not in ran.err, about


def called() -> tuple[str, ...]:
    return tuple(name for name, words in COMMANDS.items() if not isinstance(words, str))


def test_commands_that_remove_or_write_follow_no_link_anywhere_in_a_state(made: Place) -> None:
    for n, site in enumerate(sites(made)):
        if n % every(2) == 0 and site.count("/") < 3 and (made.kept / site).is_dir():
            unharmed(made, site, ("gc", "forget", "discard")[n % every(3) :: every(3)])
        if n % every(6) == 0:
            unharmed(made, site, (REMOVING[n // every(6) % len(REMOVING)],))


@pytest.mark.parametrize("site", ["state", "state/memory"])
def test_no_command_follows_a_link_to_a_state_or_its_memory(made: Place, site: str) -> None:
    unharmed(made, site, called())


@pytest.mark.night
@pytest.mark.timeout(3_000)
def test_no_command_follows_a_link_anywhere_in_a_state(made: Place) -> None:
    for site in sites(made):
        unharmed(made, site, called())


def test_the_error_names_the_link_and_what_to_do(made: Place) -> None:
    made.renew()
    made.link("state/archive")
    ran = made("gc")
    assert (ran.exit, ran.out) == (3, "")
    assert f"{made.state}/archive is a link" in ran.err
    assert "remove the link" in ran.err


def test_a_state_that_is_a_link_is_refused_wherever_it_leads(made: Place) -> None:
    made.renew()
    made.link("state")
    for command in ("ls", "run"):
        ran = made(command)
        assert ran.exit == 3
        assert f"{made.state} is a link" in ran.err
        assert "mount" in ran.err


def test_a_workspace_that_is_a_link_to_another_one_is_refused(made: Place, folder: Path) -> None:
    made.renew()
    (folder / ".fractal").symlink_to(made.folder)
    before = standing(made.folder)
    ran = in_process(folder, ["gc", "--keep-days", "0"], made.env)
    assert ran.exit == 3
    assert f"{folder}/.fractal is a link" in ran.err
    assert standing(made.folder) == before


def test_what_a_dead_run_left_is_removed_and_a_link_in_its_place_is_not(made: Place) -> None:
    made.renew()
    dead = made.outside / "dead"
    put(dead, "lock", "1\n")
    put(dead, "artifacts/precious.md", SECRET)
    (made.state / "runs" / "dddddd").symlink_to(dead)
    before = standing(made.outside)
    made("run")
    assert standing(made.outside) == before


def test_links_in_a_worktree_are_the_users_and_go_without_what_they_lead_to(made: Place) -> None:
    made.renew()
    put(made.outside, "precious.md", SECRET)
    tree = made.state / "worktrees" / made.names["worktree"]
    (tree / "link").symlink_to(made.outside)
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep" / "er" / "link").symlink_to(made.outside)
    before = standing(made.outside)
    assert made("discard").exit == 0
    assert not tree.exists()
    assert standing(made.outside) == before


# ---- who made it ----


@pytest.fixture
def cloned(made: Place, tmp_path: Path) -> Iterator[Path]:
    """The same state in another folder, as a clone, an archive or a copy has it."""
    made.renew()
    del made.env["FRACTAL_TRUST"]
    copy = tmp_path / "cloned"
    shutil.copytree(made.folder, copy, symlinks=True)
    # what the folder asks for besides its state is none of these tests
    (copy / "fractal.yaml").write_text("fsync: false\n")
    shutil.rmtree(copy / "system")
    yield copy
    made.env["FRACTAL_TRUST"] = "all"


READING = ("ls", "show", "tree", "explain", "cost", "config", "trust")


def test_a_state_of_somebody_else_is_read_and_changed_by_nothing_until_it_is_allowed(
    made: Place, cloned: Path
) -> None:
    before = standing(cloned / "state")
    for command in called():
        if command in ("init", "bench ls"):
            continue
        words = [word.format(**made.names, folder=made.outside) for word in COMMANDS[command]]
        ran = in_process(cloned, [*command.split(), *words], made.env)
        assert "internal error" not in ran.err, (command, ran)
        if command in READING:
            assert ran.exit in (0, 3 if command == "trust" else 0), (command, ran)
    assert standing(cloned / "state") == before
    ran = in_process(cloned, ["gc", "--keep-days", "0"], made.env)
    assert ran.exit == 3
    assert "- state: " in ran.err
    assert "fractal trust" in ran.err
    assert in_process(cloned, ["trust", "state", "--yes"], made.env).exit == 0
    assert in_process(cloned, ["gc", "--keep-days", "0"], made.env).exit == 0
    assert in_process(cloned, ["run", "count the lines of notes.md"], made.env).exit == 0
    assert in_process(cloned, ["trust", "--revoke"], made.env).exit == 0
    assert in_process(cloned, ["trust"], made.env).exit == 3


def test_python_may_vouch_for_a_state(made: Place, cloned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", made.env["XDG_CONFIG_HOME"])
    with pytest.raises(FractalError, match="state: "):
        Fractal(cloned).gc(0)
    assert made.names["run"] in Fractal(cloned, trusted=True).gc(0)


def test_ones_own_state_asks_nothing_and_in_another_place_once(
    made: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {key: value for key, value in made.env.items() if key != "FRACTAL_TRUST"}
    put(folder, "notes.md", "one\n")
    for _ in range(2):
        assert in_process(folder, ["run", "count the lines of notes.md"], env).exit == 0
    moved = folder.rename(folder.parent / "moved")
    assert in_process(moved, ["ls"], env).exit == 0
    assert in_process(moved, ["run", "count the lines of notes.md"], env).exit == 3
    assert in_process(moved, ["trust", "--yes"], env).exit == 0
    for _ in range(2):
        assert in_process(moved, ["run", "count the lines of notes.md"], env).exit == 0


def test_where_nothing_can_be_kept_the_refusal_says_so(made: Place, cloned: Path) -> None:
    env = made.env | {"XDG_CONFIG_HOME": "/proc/none"}
    ran = in_process(cloned, ["gc"], env)
    assert ran.exit == 3
    assert "set XDG_CONFIG_HOME to a folder that can be written, or FRACTAL_TRUST=all" in ran.err


def test_a_mark_made_with_another_key_or_for_another_place_proves_nothing(made: Place, folder: Path) -> None:
    made.renew()
    assert is_ours(folder / "state"), "there is none yet"
    put(folder, "state/README.md", "It says what lies here.")
    assert is_ours(folder / "state"), "there is nothing in it"
    put(folder, "state/runs/xyz/system-xyz.md", "")
    for mark in ("", "0" * 64, "\xff", (made.state / "made-by").read_text()):
        put(folder, "state/made-by", mark)
        assert not is_ours(folder / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_state_of_another_user_is_changed_only_where_the_folder_is_theirs_too(
    made: Place, folder: Path
) -> None:
    (folder / "state" / "runs").mkdir(parents=True)
    put(folder, "fractal.yaml", "fsync: false\n")
    put(folder, "notes.md", "one\n")
    os.chown(folder / "state", 4321, -1)
    ran = in_process(folder, ["run", "count the lines of notes.md"], made.env)
    assert ran.exit == 3
    assert "belongs to another user (uid 4321" in ran.err
    os.chown(folder, 4321, -1)
    assert in_process(folder, ["run", "count the lines of notes.md"], made.env).exit == 0


# ---- what documents name ----


def test_a_folder_that_a_document_names_is_used_only_in_its_workspace(made: Place) -> None:
    made.renew()
    store = FileStore(made.state / "runs" / made.names["run"])
    root = store.load(root_id(made.names["run"]))
    put(made.outside, "words.txt", "5\n")
    (made.folder / "way").symlink_to(made.outside)
    fractal = Fractal(made.folder)
    for named in (made.outside, made.folder / "way", made.folder / ".." / "outside"):
        elsewhere = root.having(folder=str(named))
        assert fractal.folder_of(elsewhere) == made.folder
    store.save(root.having(folder=str(made.outside)))
    before = standing(made.outside)
    made("undo")
    made("fork")
    assert standing(made.outside) == before


@pytest.mark.parametrize("named", ["{outside}", "{folder}/way", "{folder}/../outside"])
def test_a_worktree_of_another_folder_is_neither_applied_nor_discarded(made: Place, named: str) -> None:
    made.renew()
    run = made.names["worktree"]
    (made.folder / "way").symlink_to(made.outside)
    store = FileStore(made.state / "runs" / run)
    root = store.load(root_id(run))
    of = named.format(outside=made.outside, folder=made.folder)
    store.save(root.having(extra={**root.meta.extra, "worktree": {**root.meta.extra["worktree"], "of": of}}))
    for command in ("apply", "discard"):
        ran = made(command)
        assert ran.exit == 2, ran
        assert "is not of" in ran.err
    assert standing(made.outside) == {}


def test_discard_removes_no_folder_that_a_document_calls_its_git(made: Place) -> None:
    made.renew()
    run = made.names["worktree"]
    tree = made.state / "worktrees" / run
    put(made.outside, "precious/gitdir", f"{tree}/.git\n")
    put(made.outside, "precious/precious.md", SECRET)
    store = FileStore(made.state / "runs" / run)
    root = store.load(root_id(run))
    noted: dict[str, Any] = {**root.meta.extra["worktree"], "git": str(made.outside / "precious")}
    store.save(root.having(extra={**root.meta.extra, "worktree": noted}))
    before = standing(made.outside)
    made("discard")
    assert standing(made.outside) == before


# ---- what forgetting leaves ----


def test_forget_names_what_it_has_not_searched_and_removes_the_snapshots_of_removed_runs(made: Place) -> None:
    made.renew()
    found = made.fractal("forget", "five", "--documents", "--json")
    assert json.loads(found.out)["unsearched"] == [str(made.state / "snapshots")]
    objects = made.state / "snapshots"
    five = [
        path
        for path in standing(objects)
        if path.endswith("objects/7e/d6ff82de6bcc2a78243fc9c54d3ef5ac14da69")
    ]
    assert five, "the file words.txt with 5"
    gone = made.fractal("forget", "words", "--documents", "--yes")
    assert gone.exit == 0, gone
    assert f"not searched: {objects}, which may contain it" in gone.out
    assert "not searched: your own files, backups and copies" in gone.out
    assert not (objects / five[0]).exists()


# ---- the mechanism ----


def test_whatever_code_reaches_into_a_state_is_stopped_at_a_link(made: Place) -> None:
    made.renew()
    put(made.outside, "precious.md", SECRET)
    state = Workspace.find(made.folder, shipped_system()).state
    (state / "way").symlink_to(made.outside)
    acts: list[Any] = [
        lambda path: path.read_text(),
        lambda path: path.write_text(""),
        lambda path: path.unlink(),
        lambda path: path.rename(state / "taken"),
        lambda path: path.chmod(0o777),
        lambda path: os.truncate(path, 0),
        lambda path: shutil.copy(state / "README.md", path),
        lambda path: path.parent.joinpath("new").mkdir(),
        lambda path: list(path.parent.iterdir()),
        lambda path: list(path.parent.rglob("*")),
        lambda path: os.listdir(os.fsencode(path.parent)),  # noqa: PTH208
        lambda path: shutil.rmtree(path.parent),
        lambda path: disk.remove_all(path.parent),
        lambda path: disk.put(path, b""),
        lambda path: disk.append(path, b"x"),
        lambda path: path.parent.joinpath("new").symlink_to("/"),
        lambda path: os.link(path, state / "taken"),
    ]
    before = standing(made.outside)
    for act in acts:
        with pytest.raises((FractalError, OSError)):
            act(state / "way" / "precious.md")
    assert standing(made.outside) == before


@pytest.mark.parametrize("name", ["plain", "what?x", "with%20x", "a#b"])
@pytest.mark.parametrize("uri", [False, True])
def test_a_database_in_a_state_is_stopped_at_a_link_whatever_its_folder_is_called(
    made: Place, tmp_path: Path, name: str, uri: bool
) -> None:
    made.renew()
    folder = tmp_path / name
    folder.mkdir()
    state = Workspace.find(folder, shipped_system()).state
    state.mkdir(parents=True)
    (state / "memory").symlink_to(made.outside)
    path = str(state / "memory" / "b.sqlite")
    with pytest.raises(FractalError, match="is a link"):
        sqlite3.connect(f"file:{quote(path)}?mode=rwc" if uri else path, uri=uri)
    assert not (made.outside / "b.sqlite").exists()


def test_no_module_removes_trees_by_a_way_of_its_own() -> None:
    """`disk.remove_all` refuses a link; the modules here work in the user's folder, or in a temporary one."""
    others = {
        "runtime/operations/placing.py",
        "runtime/benchmarks/problem.py",
        "runtime/sandbox/repository.py",
    }
    paths = (*(SOURCE / "kernel").rglob("*.py"), *(SOURCE / "runtime").rglob("*.py"))
    found = {
        path.relative_to(SOURCE).as_posix() for path in paths if "shutil.rmtree(" in path.read_text("utf-8")
    }
    assert found == others
