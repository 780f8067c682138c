"""The folder of its own that a run works in: a git worktree of the user's repository, else a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.model import Document, Meta
from kernel.errors import ConfigurationError, StorageError, UsageError, raised_as
from runtime.sandbox.repository import names
from runtime.sandbox.restoring import restore
from runtime.sandbox.snapshot import Snapshots
from runtime.workspace.workspace import Workspace


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
        """The git directory that commands in the worktree read."""
        return (Path(self.git).parent.parent,) if self.git else ()

    def protected(self, workspace: Workspace) -> tuple[Path, ...]:
        """The paths that no operation may write, as the worktree has them."""
        protected = replace(workspace, folder=self.of).protected
        within = (path for path in protected if self.of in path.parents)
        return tuple(self.folder / path.relative_to(self.of) for path in within)

    def snapshots(self, workspace: Workspace) -> Snapshots:
        """The snapshots of the worktree."""
        return Snapshots.of(workspace.snapshots, self.folder, self.protected(workspace))

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
    try:
        made = replace(made, git=_add(made))
        ignored = set[str]()
        if made.git:
            listed = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
            ignored = {path.rstrip("/") for path in names(_git(of, *listed))}

        def wanted(path: str) -> bool:
            while path and path not in ignored:
                path = path.rpartition("/")[0]
            return not path

        own = made.snapshots(workspace)
        with source.alone(), own.alone(), raised_as(StorageError, str(made.folder)):
            own.lay_out(source, first, wanted)
            states = own.trees.states(first).items()
            _copy_others(made, [path for path, each in states if not each.kept and wanted(path)])
            made = replace(made, base=own.take(run))
            moved = own.trees.changes(first, then).items()
            restore(own.trees, {path: after for path, (_, after) in moved if wanted(path)}, fsync=False)
        if not made.base:
            raise UsageError(own.why_not())
    except BaseException:
        remove(made)
        raise
    return made


def _place(workspace: Workspace, run: str) -> Path:
    """Where the worktree of a run is."""
    return workspace.state / "worktrees" / run


def _add(made: Worktree) -> str:
    """Add the worktree to the user's repository; returns its git directory, "" where `of` is none.

    Its index is that of the last commit, and it has no files yet.
    """
    try:
        top = _git(made.of, "rev-parse", "--show-prefix", "HEAD^{commit}").startswith(b"\n")
    except ConfigurationError:  # no repository, or one without a commit
        return ""
    if not top:
        return ""
    _git(made.of, "worktree", "add", "--detach", "--no-checkout", str(made.folder), "HEAD")
    _git(made.folder, "read-tree", "HEAD")
    return os.fsdecode(_git(made.folder, "rev-parse", "--absolute-git-dir")).rstrip("\n")


def _git(folder: Path, *words: str) -> bytes:
    """The output of the user's own git, without hooks. Raises `ConfigurationError`."""
    command = ["git", "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ended = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip()
        raise ConfigurationError(f"git {words[0]} failed in {folder}: {said}")
    return ended.stdout


def _copy_others(made: Worktree, paths: Sequence[str]) -> None:
    """Copy from the user's folder what its snapshot does not have."""
    tracked = names(_git(made.folder, "ls-files", "-z", "--deleted")) if made.git else []
    for path in (*paths, *tracked):
        source, target = made.of / path, made.folder / path
        if source.is_file() and not source.is_symlink() and target.parent.resolve() == target.parent:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def remove(made: Worktree) -> None:
    """Remove the worktree, and its entry in the user's repository."""
    git = Path(made.git or _claimed(made.folder) or os.devnull)
    if made.folder.is_dir():
        disk.remove_all(made.folder)
    with suppress(OSError):
        ours = git.parent.name == "worktrees" and Path(os.path.realpath(git)) == git
        if ours and (git / "gitdir").read_bytes().rstrip(b"\n") == os.fsencode(made.folder / ".git"):
            disk.remove_all(git)


def _claimed(folder: Path) -> str:
    """The git directory that a worktree names."""
    try:
        return os.fsdecode((folder / ".git").read_bytes()).removeprefix("gitdir: ").rstrip("\n")
    except OSError:
        return ""


def sweep(workspace: Workspace) -> None:
    """Remove the worktrees of runs that are gone: archived, or killed before they had a document."""
    for folder in (workspace.state / "worktrees").glob("*"):
        if not (workspace.runs / folder.name).exists():
            remove(Worktree(folder, workspace.folder))
