"""What a run's folder shows after a crash and at the end: documents, calls, the ledger, stray files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernel.document.model import Document
from kernel.errors import FractalError
from kernel.loop.budget import Amount, free_calls
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore

_TEMPORARY = re.compile(r".*\.tmp|\..*\.[0-9a-f]{8}\..*")
_MARK = re.compile(r"echo (\w+) >> (ledger/\w+\.txt)")


@dataclass(frozen=True)
class Seen:
    """One look at a run."""

    finished: frozenset[str] = frozenset()  # digests of the prompts whose reply is on disk
    loops: Mapping[str, str] = field(default_factory=dict[str, str])  # by the digest of what it asked
    charged: int = 0  # calls
    unreadable: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()  # of the ledger


def run_of(work: Path) -> Path | None:
    """The folder of the one run in a workspace; None before its root document is there."""
    runs = work / ".fractal" / "state" / "runs"
    folders = [each for each in runs.glob("*") if (each / f"system-{each.name}.md").is_file()]
    return folders[-1] if folders else None


def root_of(folder: Path) -> Document:
    """The root document."""
    return FileStore(folder).peek(f"system-{folder.name}")


def look(folder: Path) -> Seen:
    """Read everything, as a program beside the run would, changing nothing."""
    store, log = FileStore(folder), ReplyLog(folder / "calls.jsonl")
    documents: list[Document] = []
    unreadable: list[str] = []
    for loop_id in store.list():
        try:
            documents.append(store.peek(loop_id))
        except (FractalError, ValueError) as error:
            unreadable.append(f"{loop_id}: {error}")
    try:
        finished = frozenset(_digest(key) for key in log.replies)
        loops = {_digest(line["key"]): line["key"].partition("/")[0] for line in _lines(folder)}
        total = log.spent()
    except FractalError as error:
        return Seen(unreadable=(*unreadable, str(error)))
    return Seen(finished, loops, total.calls, tuple(unreadable), tuple(_broken(documents, log)))


def _lines(folder: Path) -> list[Mapping[str, str]]:
    """The whole lines of the log, read without the kernel's help."""
    import json

    path = folder / "calls.jsonl"
    raw = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in raw.split(b"\n")[:-1]]


def _digest(key: str) -> str:
    return key.rpartition("/")[2].partition(".")[0]


def _broken(documents: list[Document], log: ReplyLog) -> list[str]:
    """Where spent and reserved exceed a limit by more than the recorded overrun, or do not add up."""
    found: list[str] = []
    spent = log.spent()
    room = Amount(spent.overrun_calls, spent.overrun_tokens, spent.overrun_usd)
    for document in documents:
        if document.meta.operation:
            continue
        free = free_calls(document, lambda loop_id: Amount.of(log.spent_by(loop_id))) + room.calls
        if free < 0:
            found.append(f"{document.meta.id}: {free}")
    for root in documents:
        if root.meta.parent:
            continue
        if not (Amount.limit(root.meta.budget) + room).covers(Amount.of(log.spent())):
            found.append(f"the whole run: {log.spent()}")
        if root.ended and root.meta.spent.get("calls") != log.spent().calls:
            found.append(f"the root says {root.meta.spent.get('calls')} calls, the log {log.spent().calls}")
    return found


def happened(folder: Path, work: Path, place: str) -> str:
    """`done` or `rerun` of a command that may have happened, as its files show; "" for any other step.

    `place` is the step's number, with its loop before it when that is not the root: `LOOP:3`.
    """
    loop_id, _, number = place.rpartition(":")
    step = FileStore(folder).peek(loop_id or f"system-{folder.name}").steps[int(number)]
    if step.tool != "bash":
        return ""
    mark = _MARK.search(str((step.args or {}).get("command", "")))
    file = work / mark[2] if mark else None
    return "done" if file and file.is_file() and file.read_bytes() else "rerun"


def twice(work: Path) -> list[str]:
    """The commands that ran more than once, by the lines that each left."""
    marks = sorted((work / "ledger").glob("*.txt"))
    return [mark.stem for mark in marks if len(mark.read_text("utf-8").splitlines()) > 1]


def left_over(work: Path) -> list[str]:
    """Temporary files that are still there."""
    found = (each for each in work.rglob("*") if _TEMPORARY.fullmatch(each.name))
    return sorted(each.relative_to(work).as_posix() for each in found)


def files(work: Path) -> dict[str, bytes]:
    """The folder as the run left it, without the run's own state; folders are named with a slash."""
    found: dict[str, bytes] = {}
    for each in sorted(work.rglob("*")):
        name = each.relative_to(work).as_posix()
        if name.startswith(".fractal/state/"):
            continue
        found[f"{name}/" if each.is_dir() else name] = b"" if each.is_dir() else each.read_bytes()
    return found
