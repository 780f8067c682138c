"""What the endpoints of runs take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from kernel.document.frontmatter import NAME
from runtime.api.live_runs import State
from runtime.server.request import StrictRequest

Status = Literal[
    "ready",
    "running",
    "waiting",
    "interrupted",
    "complete",
    "unverified",
    "unanswered",
    "failed",
    "escalated",
    "exhausted",
    "cancelled",
    "broken",
]


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class NewRun(StrictRequest):
    """A run to start."""

    task: Text = Field(description="the task in words")
    model: str | None = Field(default=None, description="another one of the models that the settings name")
    agent: str | None = Field(
        default=None, pattern=NAME.pattern, description="whose settings and patterns are used"
    )
    space: str | None = Field(default=None, pattern=NAME.pattern, description="the memory that is used")
    after: str | None = Field(default=None, description="the earlier run that this one follows up")
    plan_only: bool = Field(default=False, description="stop after the plan, and wait for its approval")
    worktree: bool = Field(default=False, description="work in a folder of its own")


class Answer(StrictRequest):
    """The answer to a question."""

    text: Text
    question: str = Field(default="", description="as it was shown; another one by now is not answered")


class Saying(StrictRequest):
    """Something for a run to hear while it works."""

    text: Text


class Approval(StrictRequest):
    """An approval of what a run waits for."""

    question: str = Field(default="", description="as it was shown; another one by now is not approved")
    scope: Literal["kind", "always"] | None = Field(
        default=None,
        description="also all of this kind in this run, or this exact call from now on; "
        "only a person can say so",
    )


class Why(StrictRequest):
    """A reason, which may be empty."""

    why: str = ""


class Guidance(StrictRequest):
    """What to do differently."""

    why: Text


class Feedback(StrictRequest):
    """Whether a result was good."""

    good: bool
    why: str = ""


class Fork(StrictRequest):
    """A copy of a run, up to a step of its root."""

    step: int | None = Field(
        default=None, ge=0, description="null: the last one that has ended; 0: before the first"
    )
    worktree: bool = Field(default=False, description="start from the files as they were after that step")
    start: bool = Field(default=True, description="whether the copy goes on at once")
    model: str | None = Field(default=None, description="another one of the models that the settings name")


class Listed(BaseModel):
    """A run in a list."""

    run: str
    id: str = Field(description="its root document")
    status: Status
    task: str
    created: str
    updated: str
    spent: dict[str, Any]
    folder: str
    type: str
    to_apply: int = Field(description="files changed in its worktree")


class RunPage(BaseModel):
    """A page of runs, newest first."""

    runs: list[Listed]
    more: int = Field(description="how many older ones there are; for them, `before` is the last run here")


class PhaseCost(BaseModel):
    """An answer to a phase."""

    attempt: int
    phase: str
    rung: str = Field(description="the model, or another responder")
    calls: float | None
    prompt_tokens: float | None
    cached_tokens: float | None = Field(description="of the prompt, in the provider's cache")
    instruction_tokens: float | None
    completion_tokens: float | None
    usd: float | None = Field(description="null where there is no price")


class Loop(BaseModel):
    """A loop, with the loops of its steps."""

    id: str
    status: str
    error: str = Field(default="", description="why its document cannot be read")
    type: str = ""
    level: str = ""
    unverified: bool = False
    task: str = ""
    phase: str = Field(default="", description="the phase that it is in")
    attempt: int = 1
    waiting: dict[str, Any] | None = Field(default=None, description="what it waits for, and its question")
    phases: list[PhaseCost] = Field(default_factory=list[PhaseCost])
    spent: dict[str, Any] = Field(default_factory=dict)
    steps: list[LoopStep] = Field(default_factory=list["LoopStep"])


class LoopStep(BaseModel):
    """A step of a loop."""

    n: int
    state: str
    tool: str = Field(default="", description='"" for a subtask')
    what: str = ""
    args: dict[str, Any] | None = None
    document: str = Field(default="", description="the file of its loop or operation")
    share: dict[str, Any] | None = Field(default=None, description="of the budget, for a loop")
    undone: bool = False
    loop: Loop | None = None


class Seen(State):
    """The state of a run, and where to follow it from."""

    after: str = Field(
        description="the newest event before this request: GET /api/events?after=… misses none"
    )


class RunState(Seen):
    """The state of a run, and its loops."""

    tree: Loop
