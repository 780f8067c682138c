"""Lists runs page by page. What is needed to order and filter them is cached by modification time."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

from kernel.document.frontmatter import HEAD
from kernel.document.model import root_id
from runtime.api.fractal import Fractal
from runtime.api.run_view import status_of
from runtime.workspace.runs import RunSummary
from runtime.workspace.workspace import moment

_KEY = re.compile(rb'(?m)^(created|status|unverified): "?([^"\r\n]*)')


@dataclass(frozen=True)
class _Known:
    """What the head of a run's root says, for this version of the file."""

    version: tuple[int, int]
    born: float
    status: str


class RunList:
    """The runs of a workspace, newest first. Any thread may call it."""

    def __init__(self, reader: Fractal) -> None:
        self.reader = reader
        self._known: dict[str, _Known] = {}
        self._lock = Lock()

    def page(self, limit: int, before: str = "", status: str = "") -> tuple[list[RunSummary], int] | None:
        """At most `limit` runs of a status ("": any) that are older than the run `before` ("": the newest).

        With the number of those that are older still. None if there is no run `before`.
        """
        with self._lock:
            self._known = self._read()
            known = self._known
        ids = sorted(known, key=lambda run: known[run].born, reverse=True)
        if before and before not in known:
            return None
        ids = ids[ids.index(before) + 1 :] if before else ids
        if status:
            ids = [run for run in ids if self._status(run, known[run].status) == status]
        found = self.reader.runs(ids[:limit])
        shown = [replace(each, status=self._status(each.run, each.status)) for each in found]
        return shown, max(len(ids) - limit, 0)

    def _status(self, run: str, status: str) -> str:
        return status_of(self.reader, run, status)

    def _read(self) -> dict[str, _Known]:
        """The heads of all runs; those that have not changed are not read again."""
        folder, found = self.reader.workspace.runs, dict[str, _Known]()
        for run in os.listdir(folder) if folder.is_dir() else ():  # noqa: PTH208 (thousands of them)
            with suppress(OSError):
                path = f"{folder}/{run}/{root_id(run)}.md"
                stat = os.stat(path)  # noqa: PTH116
                version, before = (stat.st_mtime_ns, stat.st_size), self._known.get(run)
                same = before is not None and before.version == version
                found[run] = before if same and before else _head(path, version)
        return found


def _head(path: str, version: tuple[int, int]) -> _Known:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        head = file.read(HEAD).partition(b"\n---")[0]
    values = {key.decode(): value.decode("ascii", "replace") for key, value in _KEY.findall(head)}
    time = moment(values.get("created", ""))
    unverified = values.get("status") == "complete" and values.get("unverified") == "true"
    status = "unverified" if unverified else values.get("status", "broken")
    return _Known(version, time.timestamp() if time else version[0] / 1e9, status)
