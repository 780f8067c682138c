"""Reports the progress of bench runs to a server, and asks it for the next one."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from kernel.document.frontmatter import NAME
from kernel.errors import FractalError, UsageError
from runtime import locks
from runtime.benchmarks.bench import Bench, machine
from runtime.http_transport import transport
from runtime.received import ACCEPTED, TooLarge, held
from runtime.secrets.known import secret_of

EVERY = 5.0
"""Seconds between two heartbeats, and between two questions for work."""


def runner_lock(state: Path) -> AbstractContextManager[None]:
    """Hold the only place of a runner in a workspace; raises `FractalError` if it is taken.

    Another one with the same id would be given the same job.
    """
    busy = FractalError("another runner works in this folder; give each one a folder and an --id of its own")
    return locks.lock(state / "runner.lock", 0.5, lambda: busy)


def _machine() -> str:
    return re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower()).strip("-")[:40] or "runner"


class Reporter:
    """Talks to a server as a runner. A server that is away is said once, and disturbs nothing.

    `fault` says what was wrong with the last request, "" for nothing.
    """

    def __init__(self, server: str, say: Callable[[str], object], id: str = "") -> None:
        """`server` is its URL; the bearer token is FRACTAL_TOKEN. Raises `UsageError` for wrong values."""
        self.id, self.fault, self._say = id or _machine(), "", say
        if not NAME.fullmatch(self.id):
            raise UsageError(f"{self.id}: an id has small letters, digits and hyphens, at most 40")
        token = secret_of("FRACTAL_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            url = httpx.URL(server)
        except httpx.InvalidURL as error:
            raise UsageError(f"{server}: not a URL: {error}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise UsageError(f"{server}: not a URL such as http://127.0.0.1:8421")
        self._http = httpx.AsyncClient(
            base_url=url,
            headers=headers | ACCEPTED,
            timeout=10,
            event_hooks={"response": [held]},
            transport=transport(httpx),
        )

    async def beat(self, values: Mapping[str, Any]) -> None:
        """Send a heartbeat."""
        await self._post(f"/api/runners/{self.id}", values)

    async def idle(self) -> None:
        """Send a heartbeat of a runner that has no work."""
        await self.beat({"status": "idle", **machine()})

    async def next(self) -> dict[str, Any] | None:
        """The next job; None if there is none, or the server is away."""
        answer = await self._post(f"/api/runners/{self.id}/next")
        return answer.json() if answer and answer.status_code == 200 else None

    async def _post(self, path: str, values: Mapping[str, Any] | None = None) -> httpx.Response | None:
        fault, answer = "", None
        try:
            answer = (await self._http.post(path, json=values)).raise_for_status()
        except httpx.HTTPStatusError as error:
            fault = f"{self._http.base_url}: {_error_of(error.response)}"
        except (httpx.HTTPError, TooLarge) as error:
            fault = f"{self._http.base_url}: {error or type(error).__name__}"
        if fault and fault != self.fault:
            self._say(f"the server does not answer as it should: {fault}")
        self.fault = fault
        return answer

    @asynccontextmanager
    async def following(self, bench: Bench, job: str = "") -> AsyncGenerator[None]:
        """Send heartbeats of a bench run while it is at work, and its figures at the end."""

        async def beating() -> None:
            while True:
                await self.beat(bench.heartbeat("running") | {"job": job})
                await asyncio.sleep(EVERY)

        beats = asyncio.create_task(beating())
        status, error = "stopped", ""
        try:
            yield
            status = "done"
        except FractalError as failure:
            status, error = "failed", str(failure)[:500]
            raise
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
            figures = bench.log.summary() if status == "done" else None
            last = bench.heartbeat(status) | {"job": job, "figures": figures, "error": error}
            await asyncio.shield(self.beat(last))


def _error_of(answer: httpx.Response) -> str:
    try:
        return f"{answer.status_code}: {answer.json()['error']}"
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"status {answer.status_code}"
