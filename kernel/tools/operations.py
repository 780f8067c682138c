"""The interface of operations written in code: their result, and the files that they are about to change.

An operation is a function `act(ctx, **arguments) -> Result | str`, named by `run: "python: module:function"`
in its markdown. It does not know the loop. Its attribute `prepare(ctx, **arguments)` returns the files that
it is about to change: the kernel records their hashes before the effect starts, so that a resumed run can
check whether the step happened. A call that returns none changes nothing, unless `folders` is true.
`settle(ctx, **arguments)` is called before that check, to clean up after a crash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kernel import disk

if TYPE_CHECKING:
    from kernel.tools.tool import Tool


class Sandbox(Protocol):
    """Where commands run."""

    mode: str
    """`off` if commands are not isolated."""

    def clear(self, folder: Path, protected: Sequence[Path]) -> None:
        """Remove what an interrupted command has left in `folder` (resolved)."""
        ...


class Drafts(Protocol):
    """The files below `system/` that a run has written and that are not adopted yet."""

    @property
    def folder(self) -> Path:
        """The folder of the drafts."""
        ...

    def units(self) -> list[str]:
        """The tools, operations and phase files that differ from the system's."""
        ...

    def used(self, tool: Tool | None) -> Mapping[str, str]:
        """The fingerprints of the drafts that a child of this tool uses, which show that they were tried."""
        ...


@dataclass(frozen=True)
class Touch:
    """A file that a call is about to change, and its hash afterwards ("" if it will be deleted)."""

    path: Path
    after: str | None = None  # None: not known before the call


@dataclass(frozen=True)
class Image:
    """A picture beside the text of a result: its bytes, and their MIME type."""

    data: bytes
    kind: str


@dataclass(frozen=True)
class Result:
    """What an operation returned (`text`, shown to models and people), and its evidence."""

    text: str
    ok: bool = True
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keep: Mapping[str, Any] | None = None  # data for the next calls of a state machine; None: unchanged
    images: Sequence[Image] = ()  # for models that see


Context = Any
"""What an operation may use: a dataclass of the runtime, with at least `protected`, `kept` and `results`."""
Call = Callable[[Context, "Tool", Mapping[str, Any]], Awaitable[Result]]
"""Makes a call of a tool within its time limit. Any exception becomes a result that is not `ok`."""


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes as 16 hex digits; "" if there is no such file."""
    if not path.is_file():
        return ""
    with disk.opened(path) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()[:16]


def bytes_hash(data: bytes) -> str:
    """The `file_hash` of a file with these bytes."""
    return hashlib.sha256(data).hexdigest()[:16]
