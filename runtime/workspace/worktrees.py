"""The folder of its own that a run works in: a git worktree of the user's repository, else a copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, Protocol

from kernel import disk
from kernel.document.model import Document, Meta
from kernel.errors import ConfigurationError, StorageError, UsageError, raised_as
from runtime.sandbox.checkout import Checkout, ignored_by_user, linked, named
from runtime.sandbox.programs import program, run
from runtime.sandbox.repository import names
from runtime.sandbox.restoring import restore
from runtime.sandbox.snapshot import Snapshots
from runtime.workspace.workspace import Workspace

GIT_SECONDS = 5.0
"""For the look whether a repository has a commit."""


@dataclass(frozen=True)
class Worktree:
    """Where a run works, for which folder `of` the user, and the snapshot `base` that it began with.

    `git` is the worktree's folder in the repository; "" for a copy. `discarded` is the last snapshot.
    """

    folder: Path
    of: Path
    base: str = ""
    git: str = ""
    changes: int = 0  # files that differ and are not applied, when it was last looked at
    discarded: str = ""

    @staticmethod
    def of_run(root: Document) -> Worktree | None:
        """The worktree of a run, if it has one."""
        noted: dict[str, Any] | None = root.meta.extra.get("worktree")
        if not noted:
            return None
        values = noted["base"], noted["git"], noted["changes"], noted.get("discarded", "")
        return Worktree(Path(root.meta.folder), Path(noted["of"]), *values)

    @staticmethod
    def owned(workspace: Workspace, root: Document) -> Worktree | None:
        """The same, for one to act in or to remove.

        Raises `UsageError` for one that is elsewhere: the document of somebody else may name any folder.
        """
        made = Worktree.of_run(root)
        if made and (made.folder != _place(workspace, root.meta.run) or not workspace.has_folder(made.of)):
            raise UsageError(
                f"run {root.meta.run}: its worktree {made.folder} of {made.of} is not of {workspace.root}; "
                "a project that was moved leaves its worktrees behind"
            )
        return made

    @property
    def noted(self) -> dict[str, Any]:
        """The form in META."""
        return {key: value for key, value in {**vars(self), "of": str(self.of)}.items() if key != "folder"}

    @property
    def repository(self) -> tuple[Path, ...]:
        """The git directory that commands in the worktree read, if it knows of the worktree."""
        known = bool(self.git) and linked(Path(self.git), self.folder / ".git")
        return (Path(self.git).parent.parent,) if known else ()

    def protected(self, workspace: Workspace) -> tuple[Path, ...]:
        """The paths that no operation may write, as the worktree has them."""
        protected = replace(workspace, folder=self.of).protected
        within = (path for path in protected if self.of in path.parents)
        return tuple(self.folder / path.relative_to(self.of) for path in within)

    def snapshots(self, workspace: Workspace) -> Snapshots:
        """The snapshots of the worktree."""
        return Snapshots(workspace.snapshots_home(self.folder), self.folder, self.protected(workspace))

    def refuse_missing(self, run: str) -> None:
        """Raise `UsageError` if the folder is not there any more."""
        if self.discarded or not self.folder.is_dir():
            why = "was discarded" if self.discarded else f"{self.folder} is gone"
            raise UsageError(f"the worktree of run {run} {why}; `fractal fork {run}` makes another")


def folder_of_user(meta: Meta) -> Path:
    """The user's folder that a run is about, also of one that works in a worktree."""
    noted: Mapping[str, Any] = meta.extra.get("worktree") or {}
    return Path(noted.get("of", meta.folder))


def make(workspace: Workspace, run: str, of: Path, source: Snapshots, first: str, then: str) -> Worktree:
    """Make the worktree of a run from snapshots in `source`: it begins as `first` and is left as `then`.

    What the user's repository ignores stays out. Files that snapshots leave out are copied from `of` if they
    are tracked or too large to be kept.
    """
    made = Worktree(_place(workspace, run), of.resolve())
    with disk.writing_state(made.folder):
        made.folder.mkdir(parents=True)
    with _users_git(made.of) as git, _removed_on_failure(made):
        ignored = set[str]()
        if git:
            made = replace(made, git=_add(made, git))
            listed = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
            ignored = {path.rstrip("/") for path in names(git(*listed))}

        def wanted(path: str) -> bool:
            while path and path not in ignored:
                path = path.rpartition("/")[0]
            return not path

        own = made.snapshots(workspace)
        with source.alone(), own.alone(), raised_as(StorageError, str(made.folder)):
            own.lay_out(source, first, wanted)
            states = own.trees.states(first).items()
            others = [path for path, each in states if not each.kept and wanted(path)]
            tracked = names(git("ls-files", "-z", "--deleted", at=made)) if git else []
            _copy_others(made, [*others, *tracked])
            made = replace(made, base=own.take(run))
            moved = own.trees.changes(first, then).items()
            restore(own.trees, {path: after for path, (_, after) in moved if wanted(path)}, fsync=False)
        if not made.base:
            raise UsageError(own.why_not())
    return made


@contextmanager
def _removed_on_failure(made: Worktree) -> Generator[None]:
    try:
        yield
    except BaseException:
        remove(made)
        raise


def _place(workspace: Workspace, run: str) -> Path:
    """Where the worktree of a run is."""
    return workspace.state / "worktrees" / run


def _add(made: Worktree, git: Git) -> str:
    """Add the worktree to the user's repository; returns its folder there.

    Its index is that of the last commit, and it has no files yet.
    """
    git("worktree", "add", "--detach", "--no-checkout", str(made.folder), "HEAD")
    place = Path(_claimed(made.folder)).resolve()  # git has noted it by the folder without settings
    disk.put(made.folder / ".git", b"gitdir: " + os.fsencode(place) + b"\n", mode=0o644, fsync=False)
    git("read-tree", "HEAD", at=made)
    return str(place)


class Git(Protocol):
    """Git in the user's repository, or in a worktree of it. Raises `ConfigurationError`."""

    def __call__(self, *words: str, at: Worktree | None = None, timeout: float | None = None) -> bytes:
        """What it prints."""
        ...


@contextmanager
def _users_git(of: Path) -> Generator[Git | None]:
    """Git in the repository with the top `of`, without its settings; None if it has no commit."""
    found, checkout = program("git", of), Checkout.around(of)
    if found is None or checkout is None or checkout.top != of or checkout.borrows:
        yield None
        return
    with checkout.unconfigured(found, ignored_by_user(found)) as variables:

        def git(*words: str, at: Worktree | None = None, timeout: float | None = None) -> bytes:
            there = {"GIT_DIR": _claimed(at.folder), "GIT_WORK_TREE": str(at.folder)} if at else {}
            ended = run([found, *words], at.folder if at else of, {**variables, **there}, timeout=timeout)
            if ended.returncode:
                said = ended.stderr.decode("utf-8", "replace").strip()
                raise ConfigurationError(f"git {words[0]} failed in {of}: {said}")
            return ended.stdout

        born = _has_commit(git)
        if born:
            (checkout.common / "worktrees").mkdir(exist_ok=True)
        yield git if born else None


def _has_commit(git: Git) -> bool:
    with suppress(ConfigurationError, TimeoutExpired):  # it waits for ever where a branch is a pipe
        return bool(git("rev-parse", "--verify", "HEAD^{commit}", timeout=GIT_SECONDS))
    return False


def _copy_others(made: Worktree, paths: Sequence[str]) -> None:
    """Copy from the user's folder what its snapshot does not have."""
    for path in paths:
        source, target = made.of / path, made.folder / path
        if source.is_file() and not source.is_symlink() and target.parent.resolve() == target.parent:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def remove(made: Worktree) -> None:
    """Remove the worktree, and its entry in the user's repository."""
    git = Path(made.git or _claimed(made.folder) or os.devnull)
    if made.folder.is_dir():
        disk.remove_all(made.folder)
    if linked(git, made.folder / ".git"):
        with suppress(OSError):
            disk.remove_all(git)


def _claimed(folder: Path) -> str:
    """The git directory that a worktree names."""
    try:
        return named(folder / ".git")
    except OSError:
        return ""


def sweep(workspace: Workspace) -> None:
    """Remove the worktrees of runs that are gone: archived, or killed before they had a document."""
    for folder in (workspace.state / "worktrees").glob("*"):
        if not (workspace.runs / folder.name).exists():
            remove(Worktree(folder, workspace.folder))
