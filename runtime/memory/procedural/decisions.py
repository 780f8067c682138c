"""What was decided for a task, and what came of it: one record a decision, for reports and for learning."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from runtime.store import Record

Recognition = Literal["recognized", "familiar", "novel"]
Path = Literal["direct", "exact", "variation", "method", "novel"]
PERSON = "person"


class Decision(Record):
    """How a task was met: `text` is the task, `outcome` is None until it is known."""

    KIND: ClassVar[str] = "decision"

    run: str = ""
    at: str = ""  # ISO 8601
    type: str = ""  # the id of the problem type, "" where there is none
    recognition: Recognition = "novel"
    path: Path = "novel"
    tree: str = ""
    method: str = ""
    candidates: int = 0
    rivals: dict[str, str] = Field(default_factory=dict[str, str])
    # trees that fitted and would have done different things: what each would have done, as `deed` tells it
    why: str = ""  # why nothing was replayed
    predicted: float = 0.0  # confidence before, between 0 and 1
    outcome: bool | None = None
    source: str = ""  # who said so: criteria, check, person
    said: dict[str, tuple[bool, float]] = Field(default_factory=dict[str, tuple[bool, float]])
    # what each source said last, and how far it is trusted; outcome and source follow from it
    shares: dict[str, float] | None = None  # what each branch of the tree had of the outcome
    released: tuple[int, int | float, int | float] | None = None
    # what was forgiven before, where its outcome took the tree out of quarantine
    surprise: float | None = None  # |predicted - outcome|
    calls: int = 0  # model calls of the whole run
    calls_before: int = 0  # model calls that solving it the first time took
    ms: dict[str, float] = Field(default_factory=dict[str, float])
    # milliseconds by part: embed, find, recognise, align, bind

    @property
    def replayed(self) -> bool:
        """Whether it was answered from memory."""
        return self.path != "novel"

    @property
    def saved(self) -> int:
        """Model calls that were not made, as far as it is known what they would have been."""
        return max(self.calls_before - self.calls, 0) if self.replayed else 0
