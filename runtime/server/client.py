"""A client of a server, with requests and responses as types. It does not import the server.

with Client() as client:
    begun = client.start("count the words in notes.txt")
    for id, event in client.events(begun.run, begun.after):
        …
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from kernel.errors import FractalError
from runtime.http_transport import transport
from runtime.received import ACCEPTED, TooLarge, hold
from runtime.server import schemas
from runtime.server.run_schemas import RunPage, RunState, Seen

M = TypeVar("M", bound=BaseModel)
LARGEST = 64_000_000
"""Bytes of an answer."""
SILENCE = 60.0
"""Seconds without any sign of the server after which a stream is given up."""


class ServerError(FractalError):
    """The server refused a request, or cannot be reached; `status` is that of the response, or 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """The memory and the runs of the workspace that a server serves. Close it, or use it in a `with` block.

    Keyword arguments are the fields of a request, which `schemas` and `run_schemas` describe. Every call
    raises `ServerError`.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8421", *, name: str = "", token: str = "", timeout: float = 60.0
    ) -> None:
        """`name` is written to the documents with what this client decides. `timeout` is in seconds."""
        headers = ACCEPTED | ({"authorization": f"Bearer {token}"} if token else {})
        headers |= {"user-agent": name} if name else {}
        hooks = {"response": [_held, _raise_refusal]}
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, event_hooks=hooks, transport=transport(httpx)
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # ---- memory ----

    def context(self, task_prompt: str, **fields: Any) -> schemas.ContextResponse:
        """What memory has for a task."""
        return self._post("/brain/context", schemas.ContextResponse, task_prompt=task_prompt, **fields)

    def patterns(self, task_type: str, **query: Any) -> schemas.PatternResponse:
        """The learned patterns for a task type."""
        return self._get(f"/brain/patterns/{_part(task_type)}", schemas.PatternResponse, **query)

    def export_patterns(self) -> str:
        """All patterns as one markdown file."""
        return self._request("GET", "/brain/patterns/export").text

    def learn(self, task_prompt: str, success: bool, **fields: Any) -> schemas.Accepted:
        """Report what came of a task. With an `id`, it is safe to send it again."""
        fields = {"task_prompt": task_prompt, "success": success, **fields}
        return self._post("/brain/learn", schemas.Accepted, **fields)

    def distill(self, task_prompt: str, **fields: Any) -> schemas.Distilled:
        """Report how a task was done."""
        return self._post("/brain/distill", schemas.Distilled, task_prompt=task_prompt, **fields)

    def search_experiences(self, query: str, **fields: Any) -> schemas.SearchResponse:
        """The experiences with the most similar tasks."""
        return self._post("/brain/experience/search", schemas.SearchResponse, query=query, **fields)

    def experience_stats(self) -> schemas.StatsResponse:
        """Counts of experiences."""
        return self._get("/brain/experience/stats", schemas.StatsResponse)

    def agent_active(self, agent_type: str, **fields: Any) -> schemas.Recorded:
        """Say who is at work."""
        return self._post("/brain/swarm/agent-active", schemas.Recorded, agent_type=agent_type, **fields)

    def task_complete(self, agent_type: str, **fields: Any) -> schemas.Accepted:
        """Count a task for an agent."""
        return self._post("/brain/swarm/task-complete", schemas.Accepted, agent_type=agent_type, **fields)

    def recommend_agent(self, task_type: str) -> schemas.AgentRecommendation:
        """Who does tasks of a type best."""
        path = "/brain/swarm/recommend-agent"
        return self._get(path, schemas.AgentRecommendation, task_type=task_type)

    def health(self) -> schemas.HealthResponse:
        """Whether all parts work."""
        return self._get("/brain/health", schemas.HealthResponse)

    # ---- runs ----

    def runs(self, limit: int = 50, before: str = "", **query: Any) -> RunPage:
        """Runs, newest first; `before` is the last run of the page before. Also by `status`."""
        return self._get("/api/runs", RunPage, limit=limit, before=before, **query)

    def start(self, task: str, **fields: Any) -> Seen:
        """Start a run; the fields are those of `NewRun`."""
        return self._post("/api/runs", Seen, task=task, **fields)

    def state(self, run: str) -> RunState:
        """The state of a run, and its loops."""
        return self._get(_path(run), RunState)

    def document(self, run: str, doc: str) -> str:
        """The markdown of a document."""
        return self._request("GET", _path(run, "documents", doc)).text

    def answer(self, run: str, text: str, question: str = "") -> Seen:
        """Answer the question of a run; with `question`, only if it is still the one that it asks."""
        return self._post(_path(run, "answer"), Seen, text=text, question=question)

    def approve(self, run: str, question: str = "") -> Seen:
        """Approve what a run waits for; with `question`, only if it is still the one that it asks."""
        return self._post(_path(run, "approve"), Seen, question=question)

    def reject(self, run: str, why: str = "") -> Seen:
        """Reject what a run waits for."""
        return self._post(_path(run, "reject"), Seen, why=why)

    def nudge(self, run: str, why: str) -> Seen:
        """Let a run plan again with this guidance."""
        return self._post(_path(run, "nudge"), Seen, why=why)

    def veto(self, run: str, why: str = "") -> Seen:
        """End a run by a decision that is kept."""
        return self._post(_path(run, "veto"), Seen, why=why)

    def cancel(self, run: str) -> Seen:
        """Cancel a run."""
        return self._post(_path(run, "cancel"), Seen)

    def say(self, run: str, text: str) -> Seen:
        """Say something to a run while it works."""
        return self._post(_path(run, "say"), Seen, text=text)

    def resume(self, run: str) -> Seen:
        """Continue a run."""
        return self._post(_path(run, "resume"), Seen)

    def fork(self, run: str, step: int | None = None, **fields: Any) -> Seen:
        """Copy a run up to a step; the fields are those of `Fork`."""
        return self._post(_path(run, "fork"), Seen, step=step, **fields)

    def feedback(self, run: str, good: bool, why: str = "") -> None:
        """Rate the result of a run."""
        self._request("POST", _path(run, "feedback"), json={"good": good, "why": why})

    def events(self, run: str = "", after: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """The events, each with its id, until the server ends; of one run, or of all.

        `after` is the id of the last event that was seen. An event `reload` says that some are lost.
        """
        query = {"run": run, "after": after}
        with (
            self._reached(),
            self._http.stream("GET", "/api/events", params=query, timeout=SILENCE) as response,
        ):
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise ServerError(f"{response.url}: this is no stream of events", response.status_code)
            yield from _events(response.iter_lines())

    # ---- requests ----

    def _post(self, path: str, kind: type[M], **fields: Any) -> M:
        return self._typed(kind, self._request("POST", path, json=fields))

    def _get(self, path: str, kind: type[M], **query: Any) -> M:
        return self._typed(kind, self._request("GET", path, params=query))

    def _typed(self, kind: type[M], response: httpx.Response) -> M:
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            why = f"this is no {kind.__name__} of this release: {error.errors()[0]['msg']}"
            raise ServerError(f"{response.url}: {why}", response.status_code) from None

    def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self._reached():
            return self._http.request(method, path, **more)

    @contextmanager
    def _reached(self) -> Generator[None]:
        try:
            yield
        except (httpx.HTTPError, TooLarge) as error:
            why = str(error) or type(error).__name__
            raise ServerError(f"{self._http.base_url}: {why}; is `fractal serve` running?") from None


def _held(response: httpx.Response) -> None:
    """Bound an answer; a stream of events goes on as long as somebody follows it."""
    if "event-stream" not in response.headers.get("content-type", ""):
        hold(response, LARGEST, httpx)


def _raise_refusal(response: httpx.Response) -> None:
    if response.is_success:
        return
    raw = response.read()
    try:
        why = str(json.loads(raw)["error"])
    except (ValueError, LookupError, TypeError):
        why = response.text[:300]
    raise ServerError(f"{response.url}: {response.status_code}: {why}", response.status_code)


def _path(*parts: str) -> str:
    return "/".join(["/api/runs", *map(_part, parts)])


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def _events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
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
