"""How a rule is said: by the templates of `memory/guidance.md`, with names of tools and arguments put in.

Nothing else of a run gets into what is said, so no document can speak through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernel.errors import ConfigurationError
from runtime.memory.learning.rules import Rule
from runtime.memory.learning.trajectories import SUBTASK

_SECTION = re.compile(r"(?m)^## +(.+)\n((?:(?!^## ).*\n?)*)")
_LINE = re.compile(r"(?m)^(title|do|avoid): *(.*)$")
_WORD = re.compile(r"(?m)^- ([a-z-]+): (.+)$")
_BEGINNING = re.compile(r"^(`?)([a-z])")


@dataclass(frozen=True)
class Said:
    """A rule in words."""

    title: str
    do: str
    avoid: str


class Wording:
    """The templates of some folders of instructions; the nearest folder wins."""

    def __init__(self, systems: Sequence[Path]) -> None:
        self.templates = _templates(tuple(systems))
        self.forms = self.templates.get("", {})

    def say(self, rule: Rule) -> Said:
        """Raises `ConfigurationError` where there is no template for such a rule."""
        key = f"{'not ' if rule.refuses else ''}{rule.kind}"
        template = self.templates.get(key)
        if template is None:
            raise ConfigurationError(f"system/memory/guidance.md has no section `## {key}`; add it")
        plain, marked = _values(rule, "", self.forms), _values(rule, "`", self.forms)
        return Said(
            _begun(_filled(template.get("title", ""), plain)),
            _begun(_filled(template.get("do", ""), marked)),
            _begun(_filled(template.get("avoid", ""), marked)),
        )

    def habit(self, habit: str, names: Sequence[str]) -> Said:
        """A habit in words; see `habits`."""
        template = self.templates.get(f"habit {habit}")
        if template is None:
            raise ConfigurationError(f"system/memory/guidance.md has no section `## habit {habit}`; add it")
        values = {
            "tools": ", then ".join(_tool(name, "`") for name in names),
            "plain": ", then ".join(_tool(name, "") for name in names),
            "ending": names[0],
            "value": names[-1],
        }
        return Said(*(_begun(_filled(template.get(key, ""), values)) for key in ("title", "do", "avoid")))


def _tool(name: str, mark: str) -> str:
    return "a subtask" if name == SUBTASK else f"{mark}{name}{mark}"


def evidence(did: tuple[int, int], did_not: tuple[int, int], p: float, comparisons: int) -> str:
    """What a rule was learned from, in figures: successes of how many that did, and of those that did not."""
    among = f", the strictest of {comparisons} comparisons" if comparisons > 1 else ""
    return (
        f"{did[0]} of {did[1]} attempts that did went well, and {did_not[0]} of {did_not[1]} that did not. "
        f"Chance alone would show such a difference in {_share(p)} (Fisher's exact test{among})."
    )


def _share(p: float) -> str:
    return f"1 case of {round(1 / p):,}" if p > 1e-6 else "fewer than 1 case of 1,000,000"


def _values(rule: Rule, mark: str, forms: Mapping[str, str]) -> Mapping[str, str]:
    first, *rest = rule.names
    tools = " or ".join(_tool(each, mark) for each in first.split(","))
    second = rest[0] if rest else ""
    other = (
        "a subtask" if second == SUBTASK and rule.kind not in ("argument", "flag") else _marked(second, mark)
    )
    return {
        "tool": tools,
        "other": other,
        "name": _marked(second, mark),
        "form": forms.get(rule.names[-1], rule.names[-1].replace("-", " ")),
        "folder": "the top folder" if second == "." else f"the folder {_marked(second, mark)}",
        "value": _marked(rest[1], mark) if len(rest) > 1 else "",
        "n": first if rule.kind == "few" else _marked(first, mark),
    }


def _marked(name: str, mark: str) -> str:
    return f"{mark}{name}{mark}"


def _filled(template: str, values: Mapping[str, str]) -> str:
    return re.sub(
        r"\{(tools?|other|name|value|n|plain|ending|form|folder)\}", lambda hit: values[hit[1]], template
    )


def _begun(text: str) -> str:
    """With a capital, unless a name in backticks comes first."""
    return _BEGINNING.sub(lambda hit: hit[0] if hit[1] else hit[2].upper(), text, count=1)


@cache
def _templates(systems: tuple[Path, ...]) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for folder in reversed(systems):
        try:
            text = (folder / "memory" / "guidance.md").read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        words = {hit[1]: hit[2].strip() for hit in _WORD.finditer(text)}
        found[""] = {**found.get("", {}), **words}
        for hit in _SECTION.finditer(text):
            found[hit[1].strip()] = {line[1]: line[2].strip() for line in _LINE.finditer(hit[2])}
    return found
