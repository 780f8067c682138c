"""What an operation written in code gets and gives: its context, its result, and the paths it may touch.

An operation is a plain function `act(ctx, **arguments) -> Result | str`, synchronous (it then runs in a
thread) or not, named by `run: "python: module:function"` in its markdown. It does not know the loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kernel import disk
from kernel.drafts import ALIAS, Drafts, Layout, laid_out
from kernel.enclosure import PROTECTED
from kernel.errors import OperationFailed
from kernel.process import GRACE
from kernel.sandbox import Ran, Sandbox

LONGEST_PATH = 4_096
"""Characters; no system takes more, and following a path of megabytes takes minutes."""


@dataclass(frozen=True)
class Touch:
    """A file that a call is about to change, and the hash it will have then ("" when it will be gone)."""

    path: Path
    after: str | None = None  # None: not known before the call


@dataclass(frozen=True)
class Result:
    """What an operation returned (`text`, seen by models and people) and what was recorded beside it."""

    text: str
    ok: bool = True
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keep: Mapping[str, Any] | None = None  # what a state machine gives its next calls; None: as before


@dataclass(frozen=True)
class OperationContext:
    """What an operation may use: the folder it works on, its settings, the sandbox, its time."""

    folder: Path
    sandbox: Sandbox
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout: float = 60.0
    protected: tuple[Path, ...] = ()  # absolute paths beside PROTECTED: the workspace's own
    effects: tuple[str, ...] = ()
    network: bool = False  # whether commands in the sandbox may use the network
    places: tuple[Path, ...] = ()  # folders elsewhere that may be read: those of skills
    drafts: Drafts | None = None  # where changes of the system go
    private: tuple[Path, ...] = ()  # absolute paths that no operation and no command may read
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what a state machine's calls have kept
    results: Mapping[int, str] = field(default_factory=dict[int, str])  # of the steps that a command names

    def readable(self, path: str) -> Path:
        """The absolute path of `path` inside the folder, a skill or the system as the run sees it.

        Raises `OperationFailed` when it leads outside.
        """
        target = self._resolved(path)
        if self.drafts and (name := self.drafts.relative(target, self.folder.resolve())):
            return self.drafts.readable(name)
        if any(place in target.parents for place in self.places):
            return target
        target = self._inside(path)
        if self.withheld(target):
            raise OperationFailed(f"{path}: this is the record of runs; operations may not read it")
        return target

    def withheld(self, target: Path) -> bool:
        """Whether an absolute path is private. A folder that lies in a private one can be worked on."""
        own = self.folder.resolve()
        return any(
            target == place or place in target.parents for place in self.private if place not in own.parents
        )

    def writable(self, path: str) -> Path:
        """Like `readable`, and refuses protected paths, through links too; of the system it is a draft."""
        target = self._resolved(path)
        if self.drafts and (name := self.drafts.relative(target, self.folder.resolve())):
            return self.drafts.writable(name)
        target = self._inside(path)
        parts = target.relative_to(self.folder.resolve()).parts
        if ".git" in parts or (parts and parts[0] in PROTECTED):
            raise OperationFailed(f"{path}: this path is protected; operations may not change it")
        for guarded in self.protected:
            if target == guarded or guarded in target.parents or target in guarded.parents:
                raise OperationFailed(f"{path}: this path is protected; operations may not change it")
        if target == self.folder.resolve():
            raise OperationFailed(f"{path or '.'}: this is the folder itself; name a file in it")
        return target

    @property
    def seconds(self) -> float:
        """How long a command may take: it ends before the step's own time is up."""
        return max(self.timeout - GRACE - 1, self.timeout / 2)

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        system: Layout | None = None,
        own: tuple[Path, ...] = (),
        **options: Any,
    ) -> Ran:
        """`Sandbox.run` in the folder, with what this context allows; `own` is a tool's folder, to read."""
        return await self.sandbox.run(
            command,
            folder=self.folder,
            protected=(*self.protected, *own),
            seen=(*own, *self.places),
            private=self.private,
            mounts=system.mounts(self.folder.resolve()) if system else None,
            results=self.results,
            **options,
        )

    @contextmanager
    def system(self, command: str) -> Generator[Layout | None]:
        """The system as the run sees it, for a command; None where it is the workspace's own or not named.

        Without the sandbox a command sees the workspace's own files.
        """
        if self.drafts is None or self.sandbox.mode == "off":
            yield None
        elif ALIAS[-1] in command or self.drafts.folder.is_dir():
            with laid_out(self.drafts) as layout:
                yield layout
        else:
            yield None

    def shown(self, path: Path) -> str:
        """A path as results show it: relative to the folder, with forward slashes."""
        if self.drafts and (name := self.drafts.relative(path, self.folder.resolve())):
            return "/".join((*ALIAS, name))
        try:
            return path.resolve().relative_to(self.folder.resolve()).as_posix()
        except ValueError:
            return str(path)

    def _resolved(self, path: str) -> Path:
        if "\0" in path:
            raise OperationFailed("a path cannot contain the character NUL")
        if len(path) > LONGEST_PATH:
            raise OperationFailed(f"{path[:80]}…: a path has {LONGEST_PATH:,} characters at most")
        try:
            return (self.folder.resolve() / Path(path)).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise OperationFailed(f"{path}: {error}") from None

    def _inside(self, path: str) -> Path:
        root = self.folder.resolve()
        target = self._resolved(path)
        if target != root and root not in target.parents:
            raise OperationFailed(f"{path}: outside the folder {root}; only paths inside it can be used")
        return target


Prepare = Callable[..., tuple[Touch, ...]]
Act = TypeVar("Act", bound=Callable[..., Any])


def operation(
    prepare: Prepare | None = None,
    settle: Callable[..., None] | None = None,
    *,
    folders: bool = False,
) -> Callable[[Act], Act]:
    """Mark a function as an operation; `prepare(ctx, **arguments)` names the files it is about to change.

    The kernel records their hashes before the effect begins, so that a resumed run can look whether the step
    happened instead of asking. A call that names none changes nothing, unless it also changes `folders`.
    `settle(ctx, **arguments)` is called before that look: what a crash left half-done is put in order as only
    the operation can.
    """

    def mark(act: Act) -> Act:
        act.prepare = prepare  # type: ignore[attr-defined]
        act.settle = settle  # type: ignore[attr-defined]
        act.folders = folders  # type: ignore[attr-defined]
        return act

    return mark


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes as 16 hex digits; "" when there is no such file."""
    if not path.is_file():
        return ""
    with disk.opened(path) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()[:16]


def bytes_hash(data: bytes) -> str:
    """The hash that `file_hash` will give once `data` is written."""
    return hashlib.sha256(data).hexdigest()[:16]
