"""The user's own git repository around a folder: where it is, and how git reads it without its settings.

What the settings of a repository name (filters, hooks, other folders, servers) is never obeyed outside the
sandbox: there git gets a folder of our own in the place of the one that has the settings.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kernel import disk
from runtime.sandbox.programs import run

LONGEST_PATH = 4_096
"""Characters. No system accepts more, and resolving a path of megabytes takes minutes."""
CLOSED: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # do not write the index
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
"""Variables with which git takes settings from nowhere, fetches nothing, and asks nobody."""
_SHARED = ("objects", "refs", "packed-refs", "shallow", "info", "worktrees")
"""What all worktrees of a repository share, except its settings and its hooks."""
_TAKEN = ("core.filemode", "core.ignorecase", "core.symlinks", "core.autocrlf", "core.eol", "core.safecrlf")
"""Settings that say how files are compared, and start nothing."""


@dataclass(frozen=True)
class Checkout:
    """A folder `top` that is checked out of a repository: `git` has its HEAD and index, `common` the rest."""

    top: Path
    git: Path
    common: Path

    @staticmethod
    def around(folder: Path) -> Checkout | None:
        """The checkout that `folder` lies in; None where there is none, or its `.git` is not its own.

        A `.git` that came with a folder may name any repository of the user. So the repository must lie in
        it, or say itself that the folder is one of its worktrees or submodules. A bare repository, which a
        run can lay out in the folder, is none.
        """
        folder = folder.resolve()
        for top in (folder, *folder.parents):
            place = top / ".git"
            if place.is_file() or os.path.lexists(place / "HEAD"):
                with suppress(OSError, ValueError):
                    return _own(top, place)
                return None
        return None

    @property
    def borrows(self) -> bool:
        """Whether some of its objects lie in another repository, which may be any of the user's."""
        objects = self.common / "objects"
        if any(each.is_symlink() for each in objects.iterdir()):
            return True
        lent = objects / "info" / "alternates"
        if not os.path.lexists(lent):
            return False
        facts = lent.lstat()
        return not stat.S_ISREG(facts.st_mode) or bool(facts.st_size)

    def rules(self, folder: Path) -> tuple[Path, ...]:
        """The files above `folder` that say what git ignores in it, and how lines end."""
        above = [each for each in folder.resolve().parents if each == self.top or self.top in each.parents]
        files = [place / name for place in above for name in (".gitignore", ".gitattributes")]
        return tuple(file for file in files if file.is_file() and not file.is_symlink())

    @contextmanager
    def unconfigured(self, git: str, ignored: str) -> Generator[Mapping[str, str]]:
        """Variables with which git obeys no setting of the repository except how files are compared.

        `ignored` is the user's own file of what git ignores. What git writes, such as a worktree, lands in
        the repository.
        """
        with tempfile.TemporaryDirectory(prefix="fractal-git-") as name:
            place = Path(name)
            settings = _settings(git, self.common / "config", place)
            for shared in _SHARED:
                (place / shared).symlink_to(self.common / shared)
            sha256 = settings.get("extensions.objectformat") == "sha256"
            version = "1\n[extensions]\nobjectFormat = sha256" if sha256 else "0"
            (place / "config").write_text(f"[core]\nrepositoryFormatVersion = {version}\n", "ascii")
            taken = {key: value for key, value in settings.items() if _is_taken(key)}
            yield {
                **CLOSED,
                **pairs({**taken, **NOTHING_STARTS, "core.excludesFile": ignored}),
                **self.located,
                "GIT_COMMON_DIR": name,
            }

    @property
    def located(self) -> Mapping[str, str]:
        """The variables that say where the repository is, whatever else looks like one."""
        return {"GIT_DIR": str(self.git), "GIT_WORK_TREE": str(self.top)}

    def filters(self, git: str) -> bool:
        """Whether the settings name programs that change files as git reads them."""
        with tempfile.TemporaryDirectory(prefix="fractal-git-") as place:
            return any(
                key.startswith("filter.") for key in _settings(git, self.common / "config", Path(place))
            )


NOTHING_STARTS: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
}


def pairs(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of git as the variables that pass them."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for n, (key, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    return found


def ignored_by_user(git: str) -> str:
    """The user's own file of what git ignores in each repository; it may not exist."""
    home = _home()
    named = _of_user(git, "--type=path", "core.excludesFile")
    default = Path(home.get("XDG_CONFIG_HOME") or Path(home.get("HOME", "/nonexistent"), ".config"))
    return named or str(default / "git" / "ignore")


def setting(git: str, checkout: Checkout, key: str) -> str:
    """The value of a setting of the repository, or else of the user; "" if there is none."""
    with tempfile.TemporaryDirectory(prefix="fractal-git-") as place:
        own = _settings(git, checkout.common / "config", Path(place)).get(key)
    return own or _of_user(git, "--no-type", key)


def _of_user(git: str, form: str, key: str) -> str:
    """What the user's own settings of git say."""
    words = (git, "config", "--global", "--includes", form, "--get", key)
    return os.fsdecode(run(words, Path("/"), _home()).stdout.removesuffix(b"\n"))


def _home() -> dict[str, str]:
    return {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}


def _is_taken(key: str) -> bool:
    section, _, name = key.rpartition(".")
    followed = section.startswith("branch.") and name in ("remote", "merge")
    return key in _TAKEN or followed or (section.startswith("remote.") and name == "fetch")


def _settings(git: str, config: Path, empty: Path) -> dict[str, str]:
    """The settings that stand in a file; files that it includes are not read."""
    words = (git, "config", "--file", str(config), "--no-includes", "--list", "-z")
    alone = {**CLOSED, "GIT_CEILING_DIRECTORIES": str(empty.parent)}
    listed = run(words, empty, alone, timeout=10)
    entries = os.fsdecode(listed.stdout).split("\0")[:-1]
    return {key: value for key, _, value in (entry.partition("\n") for entry in entries)}


def _own(top: Path, place: Path) -> Checkout | None:
    """The checkout of a `.git`, if the repository that it names is the folder's own."""
    if place.is_symlink():
        return None
    if place.is_dir():
        git = common = place
    else:
        git = common = (top / named(place)).resolve()
        if linked(git, place):
            common = git.parent.parent
        elif not any((above / ".git" / "modules") in git.parents for above in top.parents):
            return None
    parts = (*(common / name for name in (*_SHARED, "config")), git / "HEAD", git / "index")
    elsewhere = git == common and os.path.lexists(git / "commondir")
    complete = (common / "objects").is_dir() and all(map(_plain, parts))
    return Checkout(top, git, common) if complete and not elsewhere else None


def _plain(path: Path) -> bool:
    """Whether there is a folder, a file, or nothing: no link, and no pipe that would hang its reader."""
    mode = path.lstat().st_mode if os.path.lexists(path) else stat.S_IFREG
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def named(place: Path) -> str:
    """The repository that a `.git` file names. Raises `OSError`, also for a pipe or a long file."""
    return _line(place).removeprefix("gitdir: ")


def _line(path: Path) -> str:
    return os.fsdecode(disk.read(path, LONGEST_PATH)).rstrip("\n")


def linked(git: Path, place: Path) -> bool:
    """Whether a repository's folder of a worktree, `git`, says that the worktree's `.git` is `place`."""
    with suppress(OSError, ValueError):
        if git.resolve() == git and git.parent.name == "worktrees":
            return os.path.normpath(git / _line(git / "gitdir")) == str(place)
    return False
