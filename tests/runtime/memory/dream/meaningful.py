"""Talk that a dream can work on, and a dream over it without a frame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runtime.api.fractal import shipped_system
from runtime.memory.brain import Brain, Settings
from runtime.memory.dream.stages import ALL, Ask, Dream, StageResult
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Memory, Observation, stamp
from runtime.reflexes.trial import Trial
from runtime.workspace.settings import Config

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
STAGES = {stage.name: stage for stage in ALL}
TALK = [
    ("Ann", "Hi Bob! Long time no see!"),
    ("Bob", "Where did you go on holiday?"),
    ("Ann", "We walked along the Douro valley in Portugal with my sister Clara for 9 days."),
    ("Bob", "Wow, that sounds amazing!"),
    ("Bob", "The pottery class moved to Thursday evenings."),
    ("Ann", "Then I can glaze the blue bowl at the pottery class before my shift."),
]


def brain_in(folder: Path, kind: str = "memory") -> Brain:
    system = shipped_system()
    config: Any = {"store": kind, "embedder": "lexical", "fsync": False}
    return Brain(Settings(folder, (system,), lambda: Trial([system]), Config(**config)))


def say(brain: Brain, talk: Sequence[tuple[str, str]], at: datetime, thread: str) -> list[Observation]:
    mind = Mind.of(brain, clock=lambda: stamp(at))
    return mind.keep(
        mind.noting(text, who=who, at=stamp(at), said="turn", thread=thread, turn=turn, source="person")
        for turn, (who, text) in enumerate(talk)
    )


def tell(brain: Brain, text: str, at: datetime = MONDAY, **more: Any) -> Observation:
    return Mind.of(brain, clock=lambda: stamp(at)).observe(text, at=stamp(at), **more)


def night(brain: Brain, *names: str, at: datetime = MONDAY, ask: Ask | None = None) -> dict[str, StageResult]:
    """Run these stages of a dream in the night after `at`; without names, all that work on meaning."""
    chosen = names or ("cluster", "refine", "create", "connect", "score", "abstract", "decay", "report")
    results: dict[str, StageResult] = {}
    dream = Dream(f"night-{at:%m-%d}", brain, brain.shelf, at + timedelta(hours=15), ask=ask)
    for name in chosen:
        with brain.shelf.transaction():
            results[name] = STAGES[name].run(dream)
    return results


def memories(brain: Brain) -> list[Memory]:
    return sorted(brain.shelf.scan(Memory), key=lambda each: (each.since, each.text))


class Scripted:
    """A model that answers each prompt with what is written here, and remembers what it was shown."""

    def __init__(self, **replies: Any) -> None:
        self.replies, self.shown = replies, list[tuple[str, Mapping[str, str]]]()

    def __call__(self, name: str, slots: Mapping[str, str]) -> str:
        self.shown.append((name, slots))
        reply = self.replies.get(name, "")
        return reply if isinstance(reply, str) else json.dumps(reply)
