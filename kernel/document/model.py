"""The state document as values: META and the sections §1 to §5 of one loop.

`markdown` renders it, `parser` reads it, and `kernel.store` writes it to disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kernel.document.escaping import fingerprint
from kernel.errors import Exit

FORMAT = 1
NAMES = {1: "UNDERSTAND", 2: "PLAN", 3: "DO", 4: "CHECK", 5: "OUTPUT"}
PHASES = {"understand": 1, "plan": 2, "do": 3, "check": 4, "output": 5}
ACCEPTED = frozenset({"complete", "unverified"})
ENDED = ACCEPTED | frozenset({"unanswered", "failed", "escalated", "exhausted", "cancelled"})
STATUSES = ENDED | {"ready", "running", "waiting", "interrupted"}
STEP_ENDED = frozenset({"done", "failed", "skipped", "unknown", "struck"})
STEP_STATES = STEP_ENDED | {"planned", "running", "waiting", "stale"}


@dataclass(frozen=True)
class Note:
    """One named piece of text in a section, with its origin (person, kernel, model:…, tool:…, …)."""

    key: str
    text: str
    origin: str = "kernel"
    source: str = ""  # where a piece of context came from


@dataclass(frozen=True)
class Fold:
    """An earlier attempt, reduced to what was learned."""

    attempt: int
    decision: str
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Step:
    """One step: planned in §2, executed in §3. `tool` is empty for a subtask."""

    n: int
    state: str = "planned"
    tool: str = ""
    args: Mapping[str, Any] | None = None  # None: asked for when the step starts
    what: str = ""  # a description if there are no arguments yet; a subtask's task
    needs: tuple[int, ...] = ()
    link: str = ""  # the child document
    share: Mapping[str, Any] | None = None  # the child's share of the budget
    result: str | None = None
    origin: str = "kernel"  # of the result
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    whole: Mapping[str, str] = field(default_factory=dict[str, str])  # the files of cut arguments

    @property
    def child(self) -> str:
        """The id of the child document; "" if it has none."""
        return self.link.removesuffix(".md")

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to this step."""
        return self.state in STEP_ENDED

    @property
    def succeeded(self) -> bool:
        """Whether the step has done what was wanted, or was not needed."""
        return self.state in ("done", "skipped")

    @property
    def outcome(self) -> str:
        """A fingerprint of the call and what it came to, the state of its machine included."""
        state: Mapping[str, Any] = self.evidence.get("state", {})
        machine = [state.get("at"), state.get("kept")]
        return fingerprint([self.tool, self.args, self.what, self.state, self.result, machine])

    @property
    def over(self) -> bool:
        """Whether nothing is running: the step has ended, or is stale."""
        return self.ended or self.state == "stale"


@dataclass(frozen=True)
class Section:
    """Folded attempts, then notes, then steps by number."""

    folds: tuple[Fold, ...] = ()
    notes: tuple[Note, ...] = ()
    steps: Mapping[int, Step] = field(default_factory=dict[int, Step])


@dataclass(frozen=True)
class Meta:
    """§0, the frontmatter, which any program may read. Unknown keys are kept in `extra`."""

    id: str
    run: str
    format: int = FORMAT
    level: str = "system"
    type: str = "task"
    parent: str = ""
    depth: int = 0
    status: str = "ready"
    phase: str = "understand"
    attempt: int = 1
    base: int = 0  # the last step of earlier attempts; this attempt's steps follow it
    rev: int = 0
    created: str = ""
    updated: str = ""
    deadline: str = ""
    folder: str = "."
    taker: str = ""  # the rung that took this attempt
    rungs: tuple[Mapping[str, Any], ...] = ()
    budget: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spent: Mapping[str, Any] = field(default_factory=dict[str, Any])
    derived: Mapping[str, Any] = field(default_factory=dict[str, Any])
    waiting: Mapping[str, Any] | None = None
    unverified: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def operation(self) -> bool:
        """Whether this is the record of one operation. A loop has a budget, at any depth."""
        return self.level == "operation" and not self.budget

    @property
    def word(self) -> str:
        """The status shown to people: `unverified` for a loop that was accepted without proof.

        The status of such a loop is `complete` if no step failed, else `unverified`.
        """
        return "unverified" if self.status == "complete" and self.unverified else self.status

    @property
    def exit(self) -> Exit:
        """The exit code of the status; for an unverified loop 0 if no step failed, else 1."""
        known = {
            "complete": Exit.ACCEPTED,
            "exhausted": Exit.LIMIT,
            "waiting": Exit.WAITING,
            "unanswered": Exit.UNANSWERED,
            "interrupted": Exit.INTERRUPTED,
        }
        return known.get(self.status, Exit.FAILED)


EMPTY = Section()


@dataclass(frozen=True)
class Document:
    """One loop's whole state: META and the sections §1 to §5."""

    meta: Meta
    sections: Mapping[int, Section] = field(default_factory=dict[int, Section])

    def section(self, number: int) -> Section:
        """Section §1 to §5; `EMPTY` if it does not exist yet."""
        return self.sections.get(number, EMPTY)

    def note(self, number: int, key: str) -> Note | None:
        """The last note of that name in section `number`."""
        return next((each for each in reversed(self.section(number).notes) if each.key == key), None)

    def text(self, number: int, key: str, default: str = "") -> str:
        """The text of that note, or `default`."""
        found = self.note(number, key)
        return found.text if found else default

    @property
    def task(self) -> str:
        """The task as resolved, else as given."""
        return self.text(1, "resolved task") or self.text(1, "task")

    @property
    def planned(self) -> Mapping[int, Step]:
        """The steps of §2."""
        return self.section(2).steps

    @property
    def steps(self) -> Mapping[int, Step]:
        """The steps of §3, those of earlier attempts included."""
        return self.section(3).steps

    @property
    def attempted(self) -> list[Step]:
        """The steps of this attempt: the entry of §3, else of §2."""
        return [self.steps.get(n, step) for n, step in self.planned.items()]

    def before(self, n: int, lowest: int = 1) -> set[int]:
        """The steps from `lowest` on that planned step `n` depends on, directly or not."""
        found: set[int] = set()
        new = {n}
        while new:
            needs = {need for each in new if each in self.planned for need in self.planned[each].needs}
            new = {need for need in needs - found if need >= lowest}
            found |= new
        return found

    @property
    def ended(self) -> bool:
        """Whether the loop has ended, in any way."""
        return self.meta.status in ENDED

    def top(self, n: int) -> int:
        """The root's step that contains step `n` of this loop."""
        return int(self.meta.id.rpartition("-")[2].split(".")[0]) if self.meta.parent else n

    def having(self, **meta: Any) -> Document:
        """A copy with these values of META changed."""
        return replace(self, meta=replace(self.meta, **meta))

    def with_section(self, number: int, section: Section) -> Document:
        """A copy with one section replaced; an empty section is removed."""
        if section == EMPTY:
            kept = {key: value for key, value in self.sections.items() if key != number}
            return replace(self, sections=kept)
        return replace(self, sections={**self.sections, number: section})

    def with_notes(self, number: int, *notes: Note) -> Document:
        """A copy with notes added at the end of a section."""
        old = self.section(number)
        return self.with_section(number, replace(old, notes=(*old.notes, *notes)))

    def with_step(self, step: Step) -> Document:
        """A copy with a step of §3 added or replaced."""
        old = self.section(3)
        return self.with_section(3, replace(old, steps={**old.steps, step.n: step}))


def now() -> str:
    """The current time in UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_PREFIX = {"system": "system", "tool": "tool", "operation": "op"}


def root_id(run: str) -> str:
    """The id of a run's root document."""
    return f"system-{run}"


def child_id(parent: str, run: str, level: str, kind: str, step: int) -> str:
    """The id of the child at a step, such as `op-fetch-7f3kq2-1.2`, which shows its place in the tree."""
    _, _, numbers = parent.rpartition(f"-{run}")
    path = f"{numbers.removeprefix('-')}.{step}" if numbers else str(step)
    slug = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-") or "task"
    return f"{_PREFIX[level]}-{slug}-{run}-{path}"
