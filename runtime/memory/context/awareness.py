"""The runs that are active now, the agents, and who does which tasks best.

Active runs are found by their locks and documents; nothing has to be announced.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.document.model import ENDED, Document, root_id
from kernel.errors import FractalError
from kernel.store.files import FileStore
from runtime.workspace.workspace import DEFAULT, is_locked

if TYPE_CHECKING:
    from runtime.memory.episodes.experience import Experience

ACTIVE_SECONDS = 300
"""Seconds since its last write in which a run counts as active. Source: learning.md, "Awareness"."""
LOOKED_AT = 20
"""Runs to look into, the newest first: a thousand at once must not read each other."""
SHOWN = 5
RECENT = 10
"""Tasks that a profile holds. Source: the seed's §3.6."""
FEW, MANY = 3, 20
"""Samples below which an agent is unknown, and from which its rate counts in full."""
UNKNOWN = 0.5


@dataclass(frozen=True)
class Active:
    """A run that a process works on now."""

    run: str
    agent: str
    space: str
    task: str
    phase: str
    since: str
    seconds: int  # since it wrote last


@dataclass
class Record:
    """How an agent did at tasks of one type."""

    successes: int = 0
    failures: int = 0
    seconds: float = 0.0  # of all of them

    @property
    def samples(self) -> int:
        """The number of attempts."""
        return self.successes + self.failures

    @property
    def score(self) -> float:
        """Success rate × min(n/20, 1); 0.5 with too few samples."""
        if self.samples < FEW:
            return UNKNOWN
        return self.successes / self.samples * min(self.samples / MANY, 1.0)

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        rate = self.successes / self.samples if self.samples else None
        mean = round(self.seconds / self.samples, 1) if self.samples else None
        return {
            "samples": self.samples,
            "success": rate and round(rate, 4),
            "score": round(self.score, 4),
            "seconds": mean,
        }


@dataclass
class Profile:
    """What is known of an agent."""

    agent: str
    space: str
    last_seen: str = ""
    tools: Counter[str] = field(default_factory=Counter[str])
    recent: list[str] = field(default_factory=list[str])
    by_type: dict[str, Record] = field(default_factory=dict[str, Record])


def agent_of(document: Document) -> tuple[str, str]:
    """The agent and the space of a run, `default` where none is named."""
    extra = document.meta.extra
    return str(extra.get("agent") or DEFAULT), str(extra.get("space") or DEFAULT)


def active(runs: Path, *, but: str = "", now: datetime | None = None) -> list[Active]:
    """The runs at work in a folder of runs, the one that wrote last first; `but` is left out."""
    at = now or datetime.now(UTC)
    active_runs: list[Active] = []
    for wrote, run in sorted(_touched(runs, at.timestamp()), reverse=True)[:LOOKED_AT]:
        if run == but or len(active_runs) >= SHOWN or not is_locked(runs / run):
            continue
        with suppress(FractalError, OSError):
            root = FileStore(runs / run).peek(root_id(run))
            if root.meta.status in ENDED:
                continue
            agent, space = agent_of(root)
            meta, ago = root.meta, int(max(at.timestamp() - wrote, 0))
            active_runs.append(Active(run, agent, space, root.task, meta.phase, meta.created, ago))
    return active_runs


def _touched(runs: Path, at: float) -> Iterator[tuple[float, str]]:
    """Runs that wrote recently, with the time: every write changes the mtime of the run's folder."""
    with suppress(OSError), os.scandir(runs) as entries:
        for entry in entries:
            with suppress(OSError):
                wrote = entry.stat(follow_symlinks=False).st_mtime
                if at - wrote <= ACTIVE_SECONDS and entry.is_dir(follow_symlinks=False):
                    yield wrote, entry.name


def profiles(
    past: Iterable[Experience], type_of: Callable[[Experience], str] = lambda each: each.type
) -> list[Profile]:
    """The agents with what they did, by name."""
    by_agent: dict[tuple[str, str], Profile] = {}
    for experience in sorted(past, key=lambda each: each.at):
        if experience.success is None:
            continue  # cancelled: the outcome is unknown
        space, agent = experience.space, experience.agent
        profile = by_agent.setdefault((space, agent), Profile(agent, space))
        record = profile.by_type.setdefault(type_of(experience), Record())
        record.successes += bool(experience.success)
        record.failures += not experience.success
        record.seconds += experience.seconds
        profile.tools.update(experience.tools)
        profile.recent = [*profile.recent, experience.text][-RECENT:]
        profile.last_seen = max(profile.last_seen, experience.at)
    for profile in by_agent.values():
        profile.by_type = dict(sorted(profile.by_type.items()))
    return [by_agent[key] for key in sorted(by_agent)]


def best(records: Mapping[str, Record]) -> tuple[str, Record] | None:
    """The agent with the best record; None if there is none.

    One with too few samples is named only if there is no other.
    """
    ranked = {name: (record.samples >= FEW, record.score, name) for name, record in records.items()}
    return max(records.items(), key=lambda each: ranked[each[0]], default=None)


def totals(agents: Iterable[Profile], type: str) -> dict[str, Record]:
    """The records of agents for tasks of a type, in all spaces."""
    records: dict[str, Record] = {}
    for profile in agents:
        if record := profile.by_type.get(type):
            total = records.setdefault(profile.agent, Record())
            total.successes += record.successes
            total.failures += record.failures
            total.seconds += record.seconds
    return records
