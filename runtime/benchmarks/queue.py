"""The queue of bench runs that a server hands to runners, and the last heartbeat of each runner, as files."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from kernel import disk
from kernel.errors import StorageError
from kernel.events import now
from runtime import locks
from runtime.workspace.workspace import moment

LOST = 30.0
"""Seconds without a heartbeat after which a runner counts as lost."""
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Queue:
    """`state/benchmarks/queue/` and `state/runners/` of a workspace."""

    state: Path

    @property
    def _jobs(self) -> Path:
        return self.state / "benchmarks" / "queue"

    @property
    def _runners(self) -> Path:
        return self.state / "runners"

    def put(self, plan: Values) -> dict[str, Any]:
        """Queue a bench run; returns the job."""
        with self._alone():
            id = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"  # runners know jobs of several servers by it
            job = {"id": id, "at": now(), "status": "queued", "runner": "", "plan": dict(plan)}
            _write(self._jobs / f"{job['id']}.json", job)
        return job

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, the oldest first."""
        return _all(self._jobs)

    def take(self, runner: str) -> dict[str, Any] | None:
        """The job that a runner has not ended, else the oldest that waits."""
        with self._alone():
            jobs = self.jobs()
            own = (each for each in jobs if each["status"] == "running" and each["runner"] == runner)
            job = next(own, None) or next((each for each in jobs if each["status"] == "queued"), None)
            if job:
                job |= {"status": "running", "runner": runner}
                _write(self._jobs / f"{job['id']}.json", job)
        return job

    def beat(self, runner: str, heartbeat: Values) -> None:
        """Keep a heartbeat; if it ends a job, the job has its figures from then on."""
        with self._alone():
            _write(self._runners / f"{runner}.json", {"id": runner, "at": now(), **heartbeat})
            path = self._jobs / f"{heartbeat.get('job') or '-'}.json"
            if heartbeat["status"] in ("done", "failed") and path.exists():
                job = _read(path)
                if job["runner"] == runner:
                    ended = {name: heartbeat.get(name) for name in ("status", "figures", "error")}
                    _write(path, job | ended)

    def runners(self) -> list[dict[str, Any]]:
        """The last heartbeat of each runner; one that is silent while it should not be is `lost`."""
        return [each | ({"status": "lost"} if _is_lost(each) else {}) for each in _all(self._runners)]

    @contextmanager
    def _alone(self) -> Generator[None]:
        busy = StorageError(f"{self._jobs}: another process is writing; retry")
        self._jobs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._runners.mkdir(mode=0o700, exist_ok=True)
        with locks.lock(self._jobs / ".lock", 10, lambda: busy):
            yield


def _is_lost(runner: Values) -> bool:
    if runner.get("status") not in ("idle", "running"):
        return False
    told = moment(str(runner.get("at")))
    return told is None or (datetime.now(UTC) - told).total_seconds() > LOST


def _all(folder: Path) -> list[dict[str, Any]]:
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> dict[str, Any]:
    with disk.reading_state(path):
        try:
            values = json.loads(path.read_bytes())
        except ValueError as error:
            raise StorageError(f"{path}: not valid JSON: {error}; remove the file") from None
        if not isinstance(values, dict):
            raise StorageError(f"{path}: not an object; remove the file")
        return cast(dict[str, Any], values)


def _write(path: Path, values: Values) -> None:
    with disk.writing_state(path):
        disk.put(path, json.dumps(values, ensure_ascii=False).encode())
