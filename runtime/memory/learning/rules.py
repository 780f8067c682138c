"""Rules that code can check on a trajectory, and their wording.

A rule is its kind and names, such as `before-same edit read`: `read` the same file before `edit`. A leading
`not ` negates it; commas join several tools. The wording fills only names of tools and arguments into the
templates of `memory/guidance.md`, so that no document can inject text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError
from runtime.memory.learning.patterns import MOST_SOURCES, Pattern, named
from runtime.memory.learning.trajectories import SUBTASK, Trajectory
from runtime.text.sections import sections

_PLAIN = re.compile(r"[a-z]{2,16}")
"""One plain word, so that no text of a document enters a rule."""


@dataclass(frozen=True)
class ToolOptions:
    """What tools offer: the values of their arguments by `TOOL ARGUMENT`, and the tools that only read."""

    choices: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    looking: frozenset[str] = frozenset()


_NAMES = re.compile(r"[A-Za-z0-9_-]+(?:,[A-Za-z0-9_-]+)*|\.")


KINDS: Mapping[str, tuple[int, int]] = {
    "before-same": (2, 20),  # TOOL OTHER: other on the same file before each tool
    "after-same": (2, 18),  # other on the same file after the last tool
    "before": (2, 16),  # TOOL OTHER
    "after": (2, 14),
    "argument": (2, 11),  # TOOL NAME: each call gives the argument
    "flag": (2, 12),  # TOOL NAME: each call sets it to true
    "choice": (3, 13),  # TOOL NAME VALUE: each call chooses it; values are the tool's own
    "form": (3, 13),  # TOOL NAME FORM: each call's argument has it; see `FORMS`
    "folder": (2, 13),  # TOOL FOLDER: each call's path begins with it
    "word": (3, 10),  # TOOL NAME WORD: some call's argument is this one plain word
    "uses": (1, 9),  # TOOL
    "checks": (1, 8),  # KIND of criterion
    "first": (1, 6),  # TOOL
    "last": (1, 6),
    "once": (1, 4),  # TOOL: no more than one call
    "few": (1, 2),  # N: no more than N steps
}
"""Kinds of rules: the number of their names, and the preference among rules with equal evidence."""


@dataclass(frozen=True)
class Rule:
    """A parsed rule; `refuses` if it is negated."""

    kind: str
    names: tuple[str, ...]
    refuses: bool = False

    def __str__(self) -> str:
        return f"{'not ' if self.refuses else ''}{self.kind} {' '.join(self.names)}"

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the rule is about."""
        return tuple(self.names[0].split(",")) if self.kind not in ("checks", "few") else ()

    def refuses_a_look(self, looking: frozenset[str]) -> bool:
        """Whether it forbids a tool that only reads, or forbids it at a place."""
        if not self.refuses:
            return False
        if self.kind in ("uses", "first", "last"):
            return {*self.tools} <= looking
        return self.kind in ("before", "after", "before-same", "after-same") and self.names[1] in looking

    def holds(self, trajectory: Trajectory) -> bool | None:
        """Whether an attempt follows the rule; None if the rule does not apply to it."""
        outcomes = [_holds(self.kind, names, trajectory) for names in self._each()]
        applicable = [each for each in outcomes if each is not None]
        if not applicable:
            return None
        return all(each != self.refuses for each in applicable)

    def _each(self) -> Iterator[tuple[str, ...]]:
        for first in self.names[0].split(","):
            yield (first, *self.names[1:])


def parsed(text: str) -> Rule | None:
    """The rule in a text; None if it is not a rule."""
    refuses = text.startswith("not ")
    kind, *names = text.removeprefix("not ").split(" ")
    if kind not in KINDS or len(names) != KINDS[kind][0] or not all(map(_NAMES.fullmatch, names)):
        return None
    if kind == "few" and not names[0].isdigit():
        return None
    return Rule(kind, tuple(names), refuses)


def candidates(trajectories: Iterable[Trajectory], offered: ToolOptions | None = None) -> list[Rule]:
    """Every rule that some attempt follows; none on what is before or after a tool that only reads."""
    offered = offered or ToolOptions()
    rules = {
        Rule(*fact) for trajectory in trajectories for fact in trajectory.facts if _usable(*fact, offered)
    }
    return sorted(rules, key=lambda rule: (-KINDS[rule.kind][1], str(rule)))


def _usable(kind: str, names: tuple[str, ...], offered: ToolOptions) -> bool:
    """Whether a fact may become a rule: a value must be the tool's own choice or one plain word."""
    if kind == "choice":
        return names[2] in offered.choices.get(" ".join(names[:2]), ())
    if kind == "word":
        return not _usable("choice", names, offered) and bool(_PLAIN.fullmatch(names[2]))
    return kind not in _AROUND or names[0] not in offered.looking


_AROUND = {"before": "", "after": "", "before-same": "paths", "after-same": "paths", "folder": "folders"}
_ARGUMENTS = ("argument", "flag", "choice", "form", "word")
_NEEDS = {**_AROUND, **dict.fromkeys(_ARGUMENTS, "arguments")}
"""By kind of rule: what some call of its tool must have, or the rule does not apply."""


def _holds(kind: str, names: tuple[str, ...], trajectory: Trajectory) -> bool | None:
    acts = trajectory.acts
    if kind in ("uses", "first", "last", "few"):
        applies = bool(acts)
    elif kind == "checks":
        applies = bool(trajectory.criteria)
    else:
        need = _NEEDS.get(kind) or "tool"
        applies = any(act.tool == names[0] and getattr(act, need) for act in acts)
    if not applies:
        return None
    return len(acts) <= int(names[0]) if kind == "few" else (kind, names) in trajectory.facts


_LINE = re.compile(r"(?m)^(title|do|avoid): *(.*)$")
_WORD = re.compile(r"(?m)^- ([a-z-]+): (.+)$")
_SLOT = re.compile(r"\{(tools?|other|name|value|n|plain|ending|form|folder)\}")
_BEGINNING = re.compile(r"^(`?)([a-z])")


@dataclass(frozen=True)
class RuleText:
    """A rule in words."""

    title: str
    do: str
    avoid: str

    def pattern(self, sources: Iterable[str], **fields: Any) -> Pattern:
        """A pattern with these words; of its sources the first ones are listed."""
        listed = tuple(dict.fromkeys(filter(None, sources)))[:MOST_SOURCES]
        words = {"title": self.title, "guidance": self.do, "avoid": self.avoid}
        return Pattern(name=named(self.title), **words, sources=listed, **fields)


class Wording:
    """The templates of system folders; the nearest folder wins."""

    def __init__(self, systems: Sequence[Path]) -> None:
        self.templates = _templates(tuple(systems))
        self.forms = self.templates.get("", {})

    def say(self, rule: Rule) -> RuleText:
        """A rule in words. Raises `ConfigurationError` if its template is missing."""
        return self._fill(f"{'not ' if rule.refuses else ''}{rule.kind}", _values(rule, self.forms))

    def habit(self, habit: str, names: Sequence[str]) -> RuleText:
        """A habit in words; see `habits_of`."""
        tools = ", then ".join(map(_tool, names))
        values = {"tools": tools, "plain": tools, "ending": names[0], "value": names[-1]}
        return self._fill(f"habit {habit}", values)

    def _fill(self, key: str, values: Mapping[str, str]) -> RuleText:
        template = self.templates.get(key)
        if template is None:
            raise ConfigurationError(f"system/memory/guidance.md has no section `## {key}`; add it")
        title, do, avoid = (
            _SLOT.sub(lambda hit: values[hit[1]], template.get(part, "")) for part in ("title", "do", "avoid")
        )
        return RuleText(_begun(title.replace("`", "")), _begun(do), _begun(avoid))


def _tool(name: str) -> str:
    return "a subtask" if name == SUBTASK else f"`{name}`"


def evidence(did: tuple[int, int], did_not: tuple[int, int], p: float, comparisons: int) -> str:
    """The evidence for a rule in words; `did` and `did_not` are successes and totals."""
    among = f", the strictest of {comparisons} comparisons" if comparisons > 1 else ""
    return (
        f"{did[0]} of {did[1]} attempts that did went well, and {did_not[0]} of {did_not[1]} that did not. "
        f"Chance alone would show such a difference in {_share(p)} (Fisher's exact test{among})."
    )


def _share(p: float) -> str:
    return f"1 case of {round(1 / p):,}" if p > 1e-6 else "fewer than 1 case of 1,000,000"


def _values(rule: Rule, forms: Mapping[str, str]) -> Mapping[str, str]:
    first, *rest = rule.names
    second, third = (*rest, "", "")[:2]
    return {
        "tool": " or ".join(map(_tool, first.split(","))),
        "other": f"`{second}`" if rule.kind in ("argument", "flag") else _tool(second),
        "name": f"`{second}`",
        "form": forms.get(rule.names[-1], rule.names[-1].replace("-", " ")),
        "folder": "the top folder" if second == "." else f"the folder `{second}`",
        "value": f"`{third}`",
        "n": first if rule.kind == "few" else f"`{first}`",
    }


def _begun(text: str) -> str:
    """Capitalize a text unless it begins with a name in backticks."""
    return _BEGINNING.sub(lambda hit: hit[0] if hit[1] else hit[2].upper(), text, count=1)


@cache
def _templates(systems: tuple[Path, ...]) -> Mapping[str, Mapping[str, str]]:
    templates: dict[str, Mapping[str, str]] = {}
    for heading, body in sections(systems[::-1], "guidance.md"):
        templates[heading] = {line[1]: line[2].strip() for line in _LINE.finditer(body)}
        words = {hit[1]: hit[2].strip() for hit in _WORD.finditer(body)}
        templates[""] = {**templates.get("", {}), **words}
    return templates
