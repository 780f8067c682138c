"""What an operation may use: the folder, the sandbox, and the paths that it may read and write."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from kernel import RunContext, Tool
from kernel.errors import OperationFailed
from kernel.tools.operations import Touch
from runtime.sandbox.bubblewrap import PROTECTED
from runtime.sandbox.checkout import LONGEST_PATH
from runtime.sandbox.process import GRACE, CommandResult
from runtime.sandbox.sandbox import Sandbox

ALIAS = (".fractal", "system")
"""The path of the system in every folder, wherever the workspace stores it."""


class Layout(Protocol):
    """A copy of the system as a run sees it, which a command may change."""

    def mounts(self, folder: Path) -> Mapping[Path, Path]:
        """The folders to mount for a command in `folder`."""
        ...

    def taken(self) -> tuple[list[str], list[str]]:
        """The units that became drafts by the command's changes, and why other changes are refused."""
        ...


class Drafts(Protocol):
    """The files below `system/` that a run has written and that are not adopted yet."""

    @property
    def folder(self) -> Path:
        """The folder of the drafts."""
        ...

    def relative(self, path: Path, folder: Path) -> str | None:
        """The name of a resolved path in the system, such as `tools/web/pattern.md`; None outside of it."""
        ...

    def writable(self, name: str) -> Path:
        """The path of the draft of a system file; raises `OperationFailed`."""
        ...

    def readable(self, name: str) -> Path:
        """The path of a system file as the run sees it: the draft, if there is one."""
        ...

    def laid_out(self) -> AbstractContextManager[Layout]:
        """A copy of the system as the run sees it, for one command."""
        ...


_REPLACED = re.compile(r"~[\w.-]*|\$\{?[A-Za-z_]\w*\}?")
"""What a shell replaces at the beginning of a path; a file of such a name is meant only if it is there."""


@dataclass(frozen=True)
class OperationContext:
    """What an operation may use."""

    folder: Path
    sandbox: Sandbox
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout: float = 60.0
    protected: tuple[Path, ...] = ()  # absolute paths in addition to PROTECTED: the workspace's own
    effects: tuple[str, ...] = ()
    network: bool = False  # whether commands in the sandbox may use the network
    places: tuple[Path, ...] = ()  # readable folders elsewhere: those of skills
    drafts: Drafts | None = None  # takes changes of the system
    private: tuple[Path, ...] = ()  # absolute paths that no operation and no command may read
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])  # data of a state machine's calls
    results: Mapping[int, str] = field(default_factory=dict[int, str])  # of the steps that a command names
    skills: tuple[Path, ...] = ()  # the `places` that are skills
    snapshots: object = None  # of the run

    def readable(self, path: str) -> Path:
        """The absolute path of `path` in the folder, a skill, or the system as the run sees it.

        Raises `OperationFailed` for a path outside.
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
        """Whether an absolute path is private. The run's folder may itself be in a private one."""
        own = self.folder.resolve()
        return any(
            target == place or place in target.parents for place in self.private if place not in own.parents
        )

    def writable(self, path: str) -> Path:
        """Like `readable`, but refuses protected paths, also through links. A system file becomes a draft."""
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
        if "\\" in path and not os.path.lexists(target):
            plain = path.replace("\\", "/")
            raise OperationFailed(f"{path}: / stands between folders here; write {plain}")
        if why := self.sandbox.why_not_written(target, self.folder.resolve()):
            raise OperationFailed(f"{path}: {why}")
        return target

    @property
    def seconds(self) -> float:
        """The time limit of a command, which ends before that of the step."""
        return max(self.timeout - GRACE - 1, self.timeout / 2)

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        system: Layout | None = None,
        own: tuple[Path, ...] = (),
        **options: Any,
    ) -> CommandResult:
        """`Sandbox.run` in the folder with the limits of this context; `own`: a tool's folder, read-only."""
        return await self.sandbox.run(
            command,
            folder=self.folder,
            protected=(*self.protected, *own),
            visible=(*own, *self.places),
            private=self.private,
            executed=(*own, *self.skills),
            mounts=system.mounts(self.folder.resolve()) if system else None,
            results=self.results,
            **options,
        )

    def system(self, command: str) -> AbstractContextManager[Layout | None]:
        """The system as the run sees it, for a command; None if the run has no drafts and none is named.

        Without the sandbox a command sees the workspace's own files.
        """
        if self.drafts is None or self.sandbox.mode == "off":
            return nullcontext()
        named = ALIAS[-1] in command or self.drafts.folder.is_dir()
        return self.drafts.laid_out() if named else nullcontext()

    def shown(self, path: Path) -> str:
        """A path for results: relative to the folder, with forward slashes."""
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
        first, _, rest = path.partition("/")
        if (rest or first == "~") and _REPLACED.fullmatch(first) and not (self.folder / first).exists():
            raise OperationFailed(f"{path}: {first} is not replaced here; name a path inside the folder")
        try:
            whole = self.folder.resolve() / Path(path)
            return (whole if path.isascii() else as_spelt(whole)).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise OperationFailed(f"{path}: {error}") from None

    def _inside(self, path: str) -> Path:
        root = self.folder.resolve()
        target = self._resolved(path)
        if target != root and root not in target.parents:
            raise OperationFailed(f"{path}: outside the folder {root}; only paths inside it can be used")
        return target


def as_spelt(path: Path) -> Path:
    """The path with each name as it is spelt on the disk, where that is the same text in another form.

    `é` is one character or two; some systems and models write the one, others the other.
    """
    if os.path.lexists(path) or path == path.parent:
        return path
    above = as_spelt(path.parent)
    wanted = unicodedata.normalize("NFC", path.name)
    if path.name.isascii() or not above.is_dir():
        return above / path.name
    same = (each.name for each in above.iterdir())
    same = (name for name in same if unicodedata.normalize("NFC", name) == wanted)
    return above / min((each for each in same if not each.isascii()), default=path.name)


def context_of(run: RunContext, tool: Tool | None, skills: Iterable[str] = ()) -> OperationContext:
    """The context of an operation or (without a tool) a criterion, with readable folders of `skills`."""
    found = run.catalogue.places(skills)
    places = (*found, *run.places)
    return OperationContext(
        run.folder,
        cast(Sandbox, run.sandbox),
        run.policy.settings,
        tool.timeout if tool else 60.0,
        (*run.protected, *(place for place in places if run.folder.resolve() in place.parents)),
        tool.effects if tool else (),
        run.policy.network,
        places,
        cast(Drafts | None, run.drafts),
        run.private,
        skills=found,
        snapshots=run.snapshots,
    )


Prepare = Callable[..., tuple[Touch, ...]]
Act = TypeVar("Act", bound=Callable[..., Any])


def operation(
    prepare: Prepare | None = None,
    settle: Callable[..., None] | None = None,
    *,
    folders: bool = False,
) -> Callable[[Act], Act]:
    """Mark a function as an operation; `prepare(ctx, **arguments)` returns the files it is about to change.

    A call that returns none changes nothing, unless it also changes `folders`. `settle(ctx, **arguments)` is
    called before a resumed run checks whether the step happened, to clean up after a crash.
    """

    def mark(act: Act) -> Act:
        act.prepare = prepare  # type: ignore[attr-defined]
        act.settle = settle  # type: ignore[attr-defined]
        act.folders = folders  # type: ignore[attr-defined]
        return act

    return mark
