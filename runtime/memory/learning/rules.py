"""What can be said of a way of working in a form that code can look at: kinds of rule over a trajectory.

A rule is written as its kind and names, such as `before-same edit read`: before `edit`, `read` of the same
file. With `not ` before it, it says not to. Several tools that it holds for alike are joined by commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from runtime.memory.learning.trajectories import Act, Trajectory

FEW = (1, 2, 3, 4, 6, 8)
"""Numbers of steps that `few` draws a line at."""


_PLAIN = re.compile(r"[a-z]{2,16}")
"""One word, so that no text of a document is told with it."""


@dataclass(frozen=True)
class Offered:
    """What is known of the tools: the values that their arguments offer, and which of them only look.

    The keys of `choices` are `TOOL ARGUMENT`.
    """

    choices: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    looking: frozenset[str] = frozenset()


_NAMES = re.compile(r"[A-Za-z0-9_-]+(?:,[A-Za-z0-9_-]+)*|\.")


@dataclass(frozen=True)
class Kind:
    """A kind of rule: how many names it has, and how much it says (of two that fit alike, the higher)."""

    names: int
    says: int


KINDS: Mapping[str, Kind] = {
    "before-same": Kind(2, 20),  # TOOL OTHER: other on the same file before each tool
    "after-same": Kind(2, 18),  # other on the same file after the last tool
    "before": Kind(2, 16),  # TOOL OTHER
    "after": Kind(2, 14),
    "argument": Kind(2, 11),  # TOOL NAME: each call gives the argument
    "flag": Kind(2, 12),  # TOOL NAME: each call sets it to true
    "choice": Kind(3, 13),  # TOOL NAME VALUE: each call chooses it; values are the tool's own
    "form": Kind(3, 13),  # TOOL NAME FORM: each call's argument has it; see `FORMS`
    "folder": Kind(2, 13),  # TOOL FOLDER: each call's path begins with it
    "word": Kind(3, 10),  # TOOL NAME WORD: some call's argument is this one plain word
    "uses": Kind(1, 9),  # TOOL
    "checks": Kind(1, 8),  # KIND of criterion
    "first": Kind(1, 6),  # TOOL
    "last": Kind(1, 6),
    "once": Kind(1, 4),  # TOOL: no more than one call
    "few": Kind(1, 2),  # N: no more than N steps
}


@dataclass(frozen=True)
class Rule:
    """A parsed rule. `refuses`: it says not to."""

    kind: str
    names: tuple[str, ...]
    refuses: bool = False

    def __str__(self) -> str:
        return f"{'not ' if self.refuses else ''}{self.kind} {' '.join(self.names)}"

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it speaks of first: where none is used, it has nothing to say."""
        return tuple(self.names[0].split(",")) if self.kind not in ("checks", "few") else ()

    def refuses_a_look(self, looking: frozenset[str]) -> bool:
        """Whether it says not to use, or not to use there, a tool that only looks."""
        if not self.refuses:
            return False
        if self.kind in ("uses", "first", "last"):
            return {*self.tools} <= looking
        return self.kind in ("before", "after", "before-same", "after-same") and self.names[1] in looking

    def holds(self, trajectory: Trajectory) -> bool | None:
        """Whether an attempt did as it says; None where the rule has nothing to say of it."""
        found = [_holds(self.kind, names, trajectory) for names in self._each()]
        told = [each for each in found if each is not None]
        if not told:
            return None
        return all(each != self.refuses for each in told)

    def _each(self) -> Iterator[tuple[str, ...]]:
        for first in self.names[0].split(","):
            yield (first, *self.names[1:])


def parsed(text: str) -> Rule | None:
    """The rule of a text; None where it is none."""
    refuses = text.startswith("not ")
    kind, *names = text.removeprefix("not ").split(" ")
    if kind not in KINDS or len(names) != KINDS[kind].names or not all(map(_NAMES.fullmatch, names)):
        return None
    if kind == "few" and not names[0].isdigit():
        return None
    return Rule(kind, tuple(names), refuses)


def candidates(trajectories: Iterable[Trajectory], offered: Offered | None = None) -> list[Rule]:
    """Every rule that some of these attempts follow; of what comes before or after a mere look, none."""
    found: dict[Rule, None] = {}
    for trajectory in trajectories:
        for kind, names in _facts(trajectory, offered or Offered()):
            found[Rule(kind, names)] = None
    return sorted(found, key=lambda rule: (-KINDS[rule.kind].says, str(rule)))


def _facts(trajectory: Trajectory, offered: Offered) -> Iterator[tuple[str, tuple[str, ...]]]:
    acts, tools = trajectory.acts, trajectory.tools
    for tool in tools:
        yield "uses", (tool,)
        yield "once", (tool,)
        for other in tools:
            if other != tool and tool not in offered.looking:
                for kind in ("before", "after", "before-same", "after-same"):
                    if _holds(kind, (tool, other), trajectory):
                        yield kind, (tool, other)
    for act in acts:
        yield from (("argument", (act.tool, name)) for name in sorted(act.arguments))
        yield from (("flag", (act.tool, name)) for name, value in (act.flags or {}).items() if value)
        for name, value in (act.words or {}).items():
            if value in offered.choices.get(f"{act.tool} {name}", ()):
                yield "choice", (act.tool, name, value)
            elif _PLAIN.fullmatch(value):
                yield "word", (act.tool, name, value)
        yield from (("form", (act.tool, name, form)) for name, form in sorted(act.forms))
        if act.tool not in offered.looking:
            yield from (("folder", (act.tool, folder)) for folder in sorted(act.folders))
    if acts:
        yield "first", (acts[0].tool,)
        yield "last", (acts[-1].tool,)
        yield from (("few", (str(most),)) for most in FEW if len(acts) <= most)
    yield from (("checks", (kind,)) for kind in sorted(trajectory.criteria))


def _holds(kind: str, names: tuple[str, ...], trajectory: Trajectory) -> bool | None:
    acts = trajectory.acts
    if kind == "checks":
        return names[0] in trajectory.criteria if trajectory.criteria else None
    if not acts:
        return None
    tool = names[0]
    if kind == "uses":
        return any(act.tool == tool for act in acts)
    if kind == "first":
        return acts[0].tool == tool
    if kind == "last":
        return acts[-1].tool == tool
    if kind == "few":
        return len(acts) <= int(tool)
    calls = [act for act in acts if act.tool == tool]
    if not calls:
        return None
    if kind == "once":
        return len(calls) == 1
    if kind in ("before", "after"):
        return _ordered(kind, acts, tool, names[1])
    if kind in ("before-same", "after-same"):
        return _on_the_same(kind, acts, tool, names[1])
    calls = [act for act in calls if act.arguments]
    if not calls:
        return None  # they failed before it was known with what they were called
    if kind == "argument":
        return all(names[1] in act.arguments for act in calls)
    if kind == "folder":
        placed = [act for act in calls if act.folders]
        return all(names[1] in act.folders for act in placed) if placed else None
    if kind == "form":
        return all((names[1], names[2]) in act.forms for act in calls)
    if kind == "word":
        return any((act.words or {}).get(names[1]) == names[2] for act in calls)
    if kind == "flag":
        return all((act.flags or {}).get(names[1]) is True for act in calls)
    return all((act.words or {}).get(names[1]) == names[2] for act in calls)


def _ordered(kind: str, acts: tuple[Act, ...], tool: str, other: str) -> bool:
    places = [at for at, act in enumerate(acts) if act.tool == tool]
    others = [at for at, act in enumerate(acts) if act.tool == other]
    if not others:
        return False
    return min(others) < places[0] if kind == "before" else max(others) > places[-1]


def _on_the_same(kind: str, acts: tuple[Act, ...], tool: str, other: str) -> bool | None:
    """Whether every file of each call was looked at by the other tool before, or after the last call."""
    told = False
    for at, act in enumerate(acts):
        if act.tool != tool or not act.paths:
            continue
        told = True
        near = acts[:at] if kind == "before-same" else acts[at + 1 :]
        seen = frozenset(path for each in near if each.tool == other for path in each.paths)
        if not act.paths & seen:
            return False
    return True if told else None
