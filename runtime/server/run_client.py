"""A client of the endpoints of runs and events, with requests and responses as types.

with RunClient() as runs:
    begun = runs.start("count the words in notes.txt")
    for id, event in runs.events(begun.run, begun.after):
        …
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from kernel.errors import FractalError
from runtime.server.run_schemas import RunPage, RunState, Seen

M = TypeVar("M", bound=BaseModel)
SILENCE = 60.0
"""Seconds without any sign of the server after which a stream is given up."""


class RunError(FractalError):
    """The server refused a request, or cannot be reached; `status` is that of the response, or 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class RunClient:
    """The runs that a server at this address serves. Close it, or use it in a `with` block.

    Every call raises `RunError`.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8421", *, name: str = "", token: str = "", timeout: float = 60.0
    ) -> None:
        """`name` is written to the documents with what this client decides. `timeout` is in seconds."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= {"user-agent": name} if name else {}
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout)

    def __enter__(self) -> RunClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def runs(self, limit: int = 50, before: str = "", status: str = "") -> RunPage:
        """Runs, newest first; `before` is the last run of the page before."""
        query: dict[str, Any] = {"limit": limit, "before": before} | ({"status": status} if status else {})
        return self._got(RunPage, "GET", "", params=query)

    def start(self, task: str, **fields: Any) -> Seen:
        """Start a run; the fields are those of `NewRun`."""
        return self._got(Seen, "POST", "", json={"task": task, **fields})

    def state(self, run: str) -> RunState:
        """The state of a run, and its loops."""
        return self._got(RunState, "GET", f"/{run}")

    def document(self, run: str, doc: str) -> str:
        """The markdown of a document."""
        return self._answered("GET", f"/{run}/documents/{doc}").text

    def answer(self, run: str, text: str, question: str = "") -> Seen:
        """Answer the question of a run; with `question`, only if it is still the one that it asks."""
        return self._post(run, "answer", text=text, question=question)

    def approve(self, run: str, question: str = "") -> Seen:
        """Approve what a run waits for; with `question`, only if it is still the one that it asks."""
        return self._post(run, "approve", question=question)

    def reject(self, run: str, why: str = "") -> Seen:
        """Reject what a run waits for."""
        return self._post(run, "reject", why=why)

    def nudge(self, run: str, why: str) -> Seen:
        """Let a run plan again with this guidance."""
        return self._post(run, "nudge", why=why)

    def veto(self, run: str, why: str = "") -> Seen:
        """End a run by a decision that is kept."""
        return self._post(run, "veto", why=why)

    def cancel(self, run: str) -> Seen:
        """Cancel a run."""
        return self._post(run, "cancel")

    def say(self, run: str, text: str) -> Seen:
        """Say something to a run while it works."""
        return self._post(run, "say", text=text)

    def resume(self, run: str) -> Seen:
        """Continue a run."""
        return self._post(run, "resume")

    def fork(self, run: str, step: int | None = None, **fields: Any) -> Seen:
        """Copy a run up to a step; the fields are those of `Fork`."""
        return self._post(run, "fork", step=step, **fields)

    def feedback(self, run: str, good: bool, why: str = "") -> None:
        """Rate the result of a run."""
        self._answered("POST", f"/{run}/feedback", json={"good": good, "why": why})

    def events(self, run: str = "", after: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """The events, each with its id, until the server ends; of one run, or of all.

        `after` is the id of the last event that was seen. An event `reload` says that some are lost.
        """
        query = {"run": run, "after": after}
        try:
            with self._http.stream("GET", "/api/events", params=query, timeout=SILENCE) as response:
                self._refuse(response)
                yield from _pieces(response.iter_lines())
        except httpx.HTTPError as error:
            raise RunError(f"{self._http.base_url}: {error}") from None

    def _post(self, run: str, what: str, **fields: Any) -> Seen:
        return self._got(Seen, "POST", f"/{run}/{what}", **({"json": fields} if fields else {}))

    def _got(self, kind: type[M], method: str, path: str, **more: Any) -> M:
        return kind.model_validate_json(self._answered(method, path, **more).content)

    def _answered(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = self._http.request(method, f"/api/runs{path}", **more)
        except httpx.HTTPError as error:
            raise RunError(f"{self._http.base_url}: {error}; is `fractal serve` running?") from None
        self._refuse(response)
        return response

    def _refuse(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        try:
            why = str(json.loads(response.read())["error"])
        except (ValueError, LookupError, TypeError):
            why = response.text[:300]
        raise RunError(f"{response.url}: {response.status_code}: {why}", response.status_code)


def _pieces(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    id, data = "", ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            id = value
        elif name == "data":
            data = value
        elif not line and data:
            yield id, json.loads(data)
            data = ""
