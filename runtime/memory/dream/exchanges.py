"""Turns that belong together: what was said in a conversation before somebody went on to something else.

An answer is little without its question, and thanks are nothing without what they are for. Turns of a
conversation that follow one another and belong together become one memory: it is found by all of their words,
and leads to each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from runtime.memory.dream.gist import LONGEST
from runtime.memory.semantic.dates import moment
from runtime.memory.semantic.records import Observation

MOST = 4
"""Turns of an exchange that tell something: asked, answered, and what was said to that.

Of 2, 3 and 4 the last left the fewest nodes, and found most again."""
NEAR = {"minilm": 0.3, "lexical": 0.1}
"""The cosine from which a turn belongs to the one before it; by the embedder's name up to its first `-`."""
OTHER = 0.15
PAUSE = timedelta(minutes=30)
"""After so long somebody begins anew."""


class Judge(Protocol):
    """Who knows words and values."""

    @property
    def name(self) -> str:
        """Of the embedder."""
        ...

    def tells(self, observation: Observation) -> bool:
        """Whether an observation has a word that tells something."""
        ...

    def agree(self, one: Observation, another: Observation) -> bool:
        """Whether two observations may stand in one memory."""
        ...


def exchanges(observations: Sequence[Observation], judge: Judge) -> list[list[Observation]]:
    """Groups of observations in the order of time; most that are no turns of a conversation stand alone."""
    order = sorted(observations, key=lambda each: (each.agent, each.thread, each.turn, each.at, each.id))
    near = NEAR.get(judge.name.partition("-")[0], OTHER)
    groups: list[list[Observation]] = []
    for each in order:
        group = groups[-1] if groups else []
        if group and _belongs(group, each, near, judge) and all(judge.agree(one, each) for one in group):
            group.append(each)
        else:
            groups.append([each])
    return sorted(groups, key=lambda group: (group[0].at, group[0].thread, group[0].turn, group[0].id))


def _belongs(group: Sequence[Observation], each: Observation, near: float, judge: Judge) -> bool:
    last = group[-1]
    if not each.thread or (last.agent, last.thread, last.turn + 1) != (each.agent, each.thread, each.turn):
        return False
    if _apart(last, each) or sum(len(one.text) for one in (*group, each)) > LONGEST:
        return False
    if not judge.tells(each):
        return len(group) < 2 * MOST
    if sum(map(judge.tells, group)) >= MOST:
        return False
    if last.who != each.who and last.text.rstrip(" \"'”’)").endswith("?"):
        return True
    return _cosine(last, each, judge.name) >= near


def _apart(one: Observation, other: Observation) -> bool:
    return bool(one.at and other.at) and moment(other.at) - moment(one.at) > PAUSE


def _cosine(one: Observation, other: Observation, embedder: str) -> float:
    a: Any = one.vector(embedder)
    b: Any = other.vector(embedder)
    return 0.0 if a is None or b is None else float(a @ b)
