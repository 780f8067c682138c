"""Reads the folder of a run after a crash and at the end: documents, calls, the ledger, stray files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
class State:
    """The state of a run on disk."""

    finished: frozenset[str] = frozenset()  # digests of the prompts with a reply
    loops: Mapping[str, str] = field(default_factory=dict[str, str])  # by the digest of a prompt
    charged: int = 0  # calls
    unreadable: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()  # errors of the ledger


def run_of(work: Path) -> Path | None:
    """The folder of the only run in a workspace; None until its root document exists."""
    runs = work / ".fractal" / "state" / "runs"
    folders = [each for each in runs.glob("*") if (each / f"system-{each.name}.md").is_file()]
    return folders[-1] if folders else None


def root_of(folder: Path) -> Document:
    """The root document."""
    return FileStore(folder).peek(f"system-{folder.name}")


def state_of(folder: Path) -> State:
    """Read everything, as another program would, and change nothing."""
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
        loops = {_digest(key): key.partition("/")[0] for key in _keys(folder / "calls.jsonl")}
        calls = log.spent().calls
    except FractalError as error:
        return State(unreadable=(*unreadable, str(error)))
    return State(finished, loops, calls, tuple(unreadable), tuple(_ledger_errors(documents, log)))


def _keys(path: Path) -> Iterator[str]:
    """The keys of the complete lines of the log, read without the kernel."""
    raw = path.read_bytes() if path.exists() else b""
    return (json.loads(line)["key"] for line in raw.split(b"\n")[:-1])


def _digest(key: str) -> str:
    return key.rpartition("/")[2].partition(".")[0]


def _ledger_errors(documents: Sequence[Document], log: ReplyLog) -> Iterator[str]:
    """Where spent and reserved exceed a limit by more than the recorded overrun, or do not add up."""
    spent = log.spent()
    overrun = Amount(spent.overrun_calls, spent.overrun_tokens, spent.overrun_usd)
    for document in documents:
        if not document.meta.operation:
            free = free_calls(document, lambda loop_id: Amount.of(log.spent_by(loop_id))) + overrun.calls
            if free < 0:
                yield f"{document.meta.id}: {free}"
    for root in (document for document in documents if not document.meta.parent):
        if not (Amount.limit(root.meta.budget) + overrun).covers(Amount.of(spent)):
            yield f"the whole run: {spent}"
        if root.ended and root.meta.spent.get("calls") != spent.calls:
            yield f"the root says {root.meta.spent.get('calls')} calls, the log {spent.calls}"


def effect_of(folder: Path, work: Path, place: str) -> str:
    """`done` or `rerun` for a command that may have happened, by its files; "" for any other step.

    `place` is the number of the step, with its loop before it unless that is the root: `LOOP:3`.
    """
    loop_id, _, number = place.rpartition(":")
    step = FileStore(folder).peek(loop_id or f"system-{folder.name}").steps[int(number)]
    if step.tool != "bash":
        return ""
    mark = _MARK.search(str((step.args or {}).get("command", "")))
    file = work / mark[2] if mark else None
    return "done" if file and file.is_file() and file.read_bytes() else "rerun"


def repeated(work: Path) -> list[str]:
    """The commands that ran more than once, by the lines that they left."""
    marks = sorted((work / "ledger").glob("*.txt"))
    return [mark.stem for mark in marks if len(mark.read_text("utf-8").splitlines()) > 1]


def temporary_files(work: Path) -> list[str]:
    """Temporary files that still exist."""
    files = (each for each in work.rglob("*") if _TEMPORARY.fullmatch(each.name))
    return sorted(each.relative_to(work).as_posix() for each in files)


def files_of(work: Path) -> dict[str, bytes]:
    """The content of the workspace without the state of the run; names of folders end with a slash."""
    paths = {path.relative_to(work).as_posix(): path for path in sorted(work.rglob("*"))}
    return {
        f"{name}/" if path.is_dir() else name: b"" if path.is_dir() else path.read_bytes()
        for name, path in paths.items()
        if not name.startswith(".fractal/state/")
    }
