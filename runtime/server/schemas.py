"""Requests and responses of /brain."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from kernel.events import now
from runtime.memory.learning.attempts import VALUES
from runtime.memory.learning.outcomes import Act, Outcome
from runtime.memory.learning.patterns import named
from runtime.server.request import Request
from runtime.workspace.workspace import DEFAULT

MOST_ACTS = 2_000
TOOLS = re.compile(r"[^a-z0-9_-]+")


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has a line break or another character that cannot be shown")
    return text


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=64),
    AfterValidator(_printable),
]
"""The name of an agent, a swarm, a tool or a capability."""
TaskType = Annotated[str, StringConstraints(min_length=1, max_length=60), AfterValidator(named)]
"""A task type; `code_change` and `Code change` are `code-change`."""
Task = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""The client's own id of a task: what is sent again with it is counted once."""
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Problem(BaseModel):
    """Why a request was not served."""

    error: str


_REFUSED = {
    400: "no JSON, or not possible with the settings",
    401: "the token is missing or wrong",
    403: "this client may not do it",
    404: "there is no such run or document",
    409: "another process works on the run, or it asks something else by now",
    413: "too large",
    422: "a field is wrong",
    503: "the disk or the store fails, or too much goes on",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of these refusals, and of those that every endpoint may give."""
    chosen = sorted({401, 413, 422, *statuses})
    return {each: {"model": Problem, "description": _REFUSED[each]} for each in chosen}


# ---- context and patterns ----


class ContextRequest(Request):
    """A task, and who is about to do it."""

    task_prompt: Task
    agent_type: Name | None = None
    swarm_name: Name | None = None
    max_tokens: int = Field(default=4_000, ge=100, le=100_000)
    include_patterns: bool = True
    include_experiences: bool = True
    include_swarm_state: bool = True


class Source(BaseModel):
    """One line of a context: where it is from, and why it was selected."""

    part: str
    text: str
    source: str
    why: str


class ContextResponse(BaseModel):
    """What memory has for the task, within `max_tokens`."""

    context: str
    token_count: int
    breakdown: dict[str, int] = Field(description="tokens by part: memory, patterns, experiences, swarm")
    shares: dict[str, float] = Field(description="the share of `max_tokens` of each part")
    sources: list[Source]
    degraded: str = Field(default="", description="why only patterns and active runs are shown, if so")
    latency_ms: float


class PatternInfo(BaseModel):
    """A learned pattern."""

    name: str
    title: str
    guidance: str
    avoid: str
    task_types: list[str]
    confidence: float
    success_rate: float
    samples: int
    helpful: int
    harmful: int
    source: str = Field(description="its file in the memory of the workspace")


class PatternResponse(BaseModel):
    """The patterns of a task type, the best first, also as text for a prompt."""

    task_type: str
    patterns: list[PatternInfo]
    text: str


# ---- outcomes ----


class _Reported(Request):
    """What all reports of an outcome have."""

    id: Id | None = None
    swarm_name: Name = DEFAULT

    def outcome(self, agent: str, type: str | None, **fields: Any) -> Outcome:
        """The outcome with these fields, now."""
        id = f"{'habits' if fields.get('habits') else 'outcome'}-{self.id or secrets.token_hex(8)}"
        return Outcome(id=id, space=self.swarm_name, agent=agent, type=type or "", at=now(), **fields)


class LearnRequest(_Reported):
    """What came of a task. Each act of the trajectory has an `action` and its `params`."""

    agent_type: Name = DEFAULT
    task_type: TaskType | None = None
    task_prompt: Task
    success: bool
    outcome_signal: Annotated[str, StringConstraints(max_length=300)] = Field(
        default="", description=f"{', '.join(VALUES)}; another word proves nothing beyond `success`"
    )
    trajectory: list[dict[str, Any] | str] = Field(default_factory=list[Any], max_length=MOST_ACTS)
    tool_calls: list[dict[str, Any] | str] = Field(
        default_factory=list[Any], max_length=MOST_ACTS, description="used where there is no trajectory"
    )
    files_touched: list[Annotated[str, StringConstraints(max_length=300)]] = Field(
        default_factory=list[str], max_length=1_000
    )
    duration_seconds: Seconds = Field(0.0, validation_alias=AliasChoices("duration_seconds", "duration"))
    token_count: int = Field(default=0, ge=0, le=10**12)

    @model_validator(mode="after")
    def _agrees(self) -> LearnRequest:
        value, source = VALUES.get(self.outcome_signal, (0, ""))
        if value and source != "escalation" and (value > 0) != self.success:
            raise ValueError(f"outcome_signal {self.outcome_signal} contradicts success {self.success}")
        return self

    def to_outcome(self) -> Outcome:
        """As memory takes it."""
        return self.outcome(
            self.agent_type,
            self.task_type,
            task=self.task_prompt,
            success=self.success,
            signal=self.outcome_signal,
            acts=acts_of(self.trajectory or self.tool_calls),
            files=tuple(self.files_touched),
            seconds=self.duration_seconds,
            tokens=self.token_count,
        )


class DistillRequest(_Reported):
    """What an agent answered and which tools it called; only a success teaches."""

    agent_type: Name = DEFAULT
    task_type: TaskType | None = None
    task_prompt: Task
    response: Annotated[str, StringConstraints(max_length=500_000)] = ""
    tool_calls: list[dict[str, Any] | str] = Field(default_factory=list[Any], max_length=MOST_ACTS)
    outcome_name: Annotated[str, StringConstraints(max_length=100)] = Field("success", alias="outcome")

    def to_outcome(self) -> Outcome:
        """As memory takes it."""
        return self.outcome(
            self.agent_type,
            self.task_type,
            task=self.task_prompt,
            acts=acts_of(self.tool_calls),
            result=self.response,
            habits=True,
        )


class TaskCompleteRequest(_Reported):
    """That an agent has done, or failed, a task of a type."""

    agent_type: Name
    task_type: TaskType
    success: bool
    duration: Seconds = 0.0

    def to_outcome(self) -> Outcome:
        """As memory takes it."""
        return self.outcome(self.agent_type, self.task_type, success=self.success, seconds=self.duration)


class Accepted(BaseModel):
    """An outcome is on disk, and memory will take it in."""

    id: str
    status: str = "accepted"


class Distilled(Accepted):
    """The same, of what is distilled."""

    processed: bool = Field(description="false where the outcome is no success: then it teaches nothing")


_CALLED = ("action", "tool", "name")
_GIVEN = ("params", "args", "arguments", "input")


def acts_of(entries: list[dict[str, Any] | str]) -> tuple[Act, ...]:
    """The calls of a trajectory; an entry without a name is left out."""
    acts = (_act({"action": each} if isinstance(each, str) else each) for each in entries)
    return tuple(each for each in acts if each.tool)


def _act(entry: Mapping[str, Any]) -> Act:
    called = next((entry[key] for key in _CALLED if isinstance(entry.get(key), str)), "")
    given = next((entry[key] for key in _GIVEN if isinstance(entry.get(key), dict)), {})
    args = {"path" if key == "file_path" else key: value for key, value in given.items()}
    failed = bool(entry.get("error")) or entry.get("success") is False or entry.get("state") == "failed"
    return Act(tool=TOOLS.sub("-", called.lower()).strip("-_")[:64], args=args, failed=failed)


# ---- experiences ----


class SearchRequest(Request):
    """What to find experiences of."""

    query: Task
    agent_type: Name | None = None
    task_type: TaskType | None = None
    success_only: bool = False
    limit: int = Field(default=10, ge=1, le=100)


class ExperienceInfo(BaseModel):
    """An experience, of a run or of an outcome that was reported."""

    id: str
    run: str
    task_prompt: str
    task_type: str
    agent_type: str
    swarm_name: str
    success: bool | None
    outcome_signal: str
    tools: list[str]
    files: list[str]
    duration_seconds: float
    token_count: int
    at: str
    similarity: float = Field(description="cosine of the tasks")


class SearchResponse(BaseModel):
    """The experiences with the most similar tasks."""

    experiences: list[ExperienceInfo]
    count: int


class StatsResponse(BaseModel):
    """Counts of experiences; the success rate is null while no outcome is known."""

    total_experiences: int
    by_agent: dict[str, int]
    by_task_type: dict[str, int]
    success_rate: float | None
    patterns_learned: int


# ---- swarm ----


class AgentActiveRequest(Request):
    """Who is at work, and at what."""

    model_config = ConfigDict(str_strip_whitespace=True)

    agent_type: Name
    swarm_name: Name | None = None
    capabilities: list[Name] = Field(default_factory=list[str], max_length=100)
    recent_tasks: list[Annotated[str, StringConstraints(max_length=1_000)]] = Field(
        default_factory=list[str], max_length=100, description="the newest last"
    )


class Recorded(BaseModel):
    """It is in memory."""

    status: str = "recorded"


class Candidate(BaseModel):
    """How an agent did at tasks of a type."""

    agent_type: str
    samples: int
    successes: int
    score: float = Field(description="success rate × min(samples / 20, 1)")
    seconds: float = Field(description="mean duration")


class AgentRecommendation(BaseModel):
    """Who does tasks of a type best, with the evidence."""

    task_type: str
    recommended_agent: str | None
    confidence: str = Field(description="high from 20 samples on, medium from 8, low below; none")
    based_on_samples: int
    why: str
    candidates: list[Candidate]


# ---- health ----


class Learning(BaseModel):
    """The outcomes that memory has not taken in yet."""

    queue: int
    trouble: str = Field(default="", description="why they are not taken in")


class HealthResponse(BaseModel):
    """Whether all parts work."""

    status: str = Field(description="healthy or degraded")
    version: str
    components: dict[str, bool]
    trouble: str = Field(default="", description="why the store cannot be opened")
    embedder: str
    counts: dict[str, int]
    last_dream: str = Field(default="", description="when its last stage ended")
    learning: Learning
    uptime_seconds: float
