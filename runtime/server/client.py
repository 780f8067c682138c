"""A client of /brain, with the requests and responses of the server as types.

with Brain() as brain:
    brain.learn(task_prompt="…", agent_type="implementer", success=True)
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from kernel.errors import FractalError
from runtime.server import schemas

R = TypeVar("R", bound=BaseModel)


class BrainError(FractalError):
    """The server refused a request, or cannot be reached; `status` is that of the response, or 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Brain:
    """The memory that a server at this address serves. Close it, or use it in a `with` block.

    Fields of a request are keyword arguments; `schemas` describes them. Every call raises `BrainError`.
    """

    def __init__(self, url: str = "http://127.0.0.1:8421", *, token: str = "", timeout: float = 10.0) -> None:
        """`timeout` is in seconds."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=f"{url.rstrip('/')}/brain", headers=headers, timeout=timeout)

    def __enter__(self) -> Brain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def context(self, task_prompt: str, **fields: Any) -> schemas.ContextResponse:
        """What memory has for a task."""
        return self._post("/context", schemas.ContextResponse, task_prompt=task_prompt, **fields)

    def patterns(self, task_type: str, **query: Any) -> schemas.PatternResponse:
        """The learned patterns for a task type."""
        return self._get(f"/patterns/{task_type}", schemas.PatternResponse, **query)

    def export(self) -> str:
        """All patterns as one markdown file."""
        return self._answered("GET", "/patterns/export").text

    def learn(self, task_prompt: str, success: bool, **fields: Any) -> schemas.Accepted:
        """Report what came of a task. With an `id`, it is safe to send it again."""
        fields = {"task_prompt": task_prompt, "success": success, **fields}
        return self._post("/learn", schemas.Accepted, **fields)

    def distill(self, task_prompt: str, **fields: Any) -> schemas.Distilled:
        """Report how a task was done."""
        return self._post("/distill", schemas.Distilled, task_prompt=task_prompt, **fields)

    def search(self, query: str, **fields: Any) -> schemas.SearchResponse:
        """The experiences with the most similar tasks."""
        return self._post("/experience/search", schemas.SearchResponse, query=query, **fields)

    def stats(self) -> schemas.StatsResponse:
        """Counts of experiences."""
        return self._get("/experience/stats", schemas.StatsResponse)

    def agent_active(self, agent_type: str, **fields: Any) -> schemas.Recorded:
        """Say who is at work."""
        return self._post("/swarm/agent-active", schemas.Recorded, agent_type=agent_type, **fields)

    def task_complete(self, agent_type: str, **fields: Any) -> schemas.Accepted:
        """Count a task for an agent."""
        return self._post("/swarm/task-complete", schemas.Accepted, agent_type=agent_type, **fields)

    def recommend_agent(self, task_type: str) -> schemas.AgentRecommendation:
        """Who does tasks of a type best."""
        return self._get("/swarm/recommend-agent", schemas.AgentRecommendation, task_type=task_type)

    def health(self) -> schemas.HealthResponse:
        """Whether all parts work."""
        return self._get("/health", schemas.HealthResponse)

    def _post(self, path: str, kind: type[R], **fields: Any) -> R:
        return kind.model_validate_json(self._answered("POST", path, json=fields).content)

    def _get(self, path: str, kind: type[R], **query: Any) -> R:
        return kind.model_validate_json(self._answered("GET", path, params=query).content)

    def _answered(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            raise BrainError(f"{self._http.base_url}: {error}; is `fractal serve` running?") from None
        if response.is_success:
            return response
        try:
            why = str(response.json()["error"])
        except (ValueError, LookupError, TypeError):
            why = response.text[:300]
        raise BrainError(f"{response.url}: {response.status_code}: {why}", response.status_code)
