"""Lists runs page by page. What is needed to order and filter them is cached until their documents change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

from kernel import disk
from kernel.document.model import root_id
from kernel.errors import UsageError
from runtime.api.fractal import Fractal
from runtime.api.run_view import status_of
from runtime.workspace.runs import RunSummary
from runtime.workspace.workspace import born_and_status


@dataclass(frozen=True)
class Page:
    """Some of the runs that were asked for, newest first."""

    runs: Sequence[RunSummary]
    total: int  # of the runs that were asked for
    all: int  # runs of the workspace


@dataclass(frozen=True)
class _Known:
    """What the head of a run's root says, while the file has this signature."""

    signature: tuple[int, ...]
    born: float
    status: str


class RunList:
    """The runs of a workspace, newest first. Any thread may call it."""

    def __init__(self, reader: Fractal) -> None:
        self.reader = reader
        self._known: dict[str, _Known] = {}
        self._lock = Lock()

    def page(self, limit: int, *, skip: int = 0, before: str = "", status: str = "", text: str = "") -> Page:
        """At most `limit` runs after the first `skip` of those that fit.

        A run fits if it is older than the run `before`, has this `status`, and has all words of `text` in its
        id or task; "" stands for any. The first call with `text` reads the heads of all runs in full. Raises
        `UsageError` if there is no run `before`.
        """
        with self._lock:
            self._known = self._read()
            known = self._known
        if before and before not in known:
            raise UsageError(f"there is no run {before}; begin again without `before`")
        ids = sorted(known, key=lambda run: known[run].born, reverse=True)
        fitting = ids[ids.index(before) + 1 :] if before else ids
        if status:
            fitting = [run for run in fitting if self._status(run, known[run].status) == status]
        if words := text.casefold().split():
            fitting = [each.run for each in self.reader.runs(fitting) if _has(each, words)]
        found = self.reader.runs(fitting[skip : skip + limit])
        shown = [replace(each, status=self._status(each.run, each.status)) for each in found]
        return Page(shown, len(fitting), len(ids))

    def _status(self, run: str, status: str) -> str:
        return status_of(self.reader, run, status)

    def _read(self) -> dict[str, _Known]:
        """The heads of all runs; those that have not changed are not read again."""
        folder, found = self.reader.workspace.runs, dict[str, _Known]()
        for run in os.listdir(folder) if folder.is_dir() else ():  # noqa: PTH208 (thousands of them)
            with suppress(OSError):  # it is no run, or was archived meanwhile
                path = f"{folder}/{run}/{root_id(run)}.md"
                signature, known = disk.signature(path), self._known.get(run)
                if known is None or known.signature != signature:
                    known = _Known(signature, *born_and_status(path))
                found[run] = known
        return found


def _has(run: RunSummary, words: Sequence[str]) -> bool:
    text = f"{run.run} {run.task}".casefold()
    return all(word in text for word in words)
