"""How the worker understands guidance: it reads the prompt that is sent, as a person might.

It finds the sections that memory added, splits each line into advice and warnings, and looks for what matters
to its task in several wordings. These rules are older than the learner, and contain none of its wordings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SECTION = re.compile(
    r"^## From memory: (?P<part>[\w ]+)\n(?P<ticks>`{3,})\n(?P<text>.*?)\n(?P=ticks)$", re.S | re.M
)
_CLAUSE = re.compile(
    r"(?<=[.;!?])\s+|\n| — | – |,? (?=(?:and )?(?:avoid|never|do not|don't|instead of|rather than)\b)", re.I
)
_WARNING = re.compile(
    r"\b(avoid\w*|never|do not|don't|not to|instead of|rather than|"
    r"fail\w*|mistake\w*|wrong\w*|reject\w*|harmful)\b",
    re.I,
)
_WORD = re.compile(r"[a-z]{4,}")
_GENERAL = frozenset(
    _WORD.findall(
        "file files from into with write read that this then when task tasks make made have must been were "
        "what before after used using step steps each their which your them"
    )
)
PATTERN, EXAMPLE = 1.0, 0.5
"""The weight of a line of guidance, and of a similar solved task."""


@dataclass(frozen=True)
class Hazard:
    """A mistake: its rate, and the patterns of text for the right way and for the wrong one."""

    rate: float
    about: str  # words that make a line relevant, whatever the words of the task
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()
    shunned: tuple[str, ...] = ()  # for the right way where the text warns of it
    shown: str = ""  # the right way in the steps of a solved task


HAZARDS: Mapping[str, Hazard] = {
    "edit": Hazard(
        0.6,
        "edit edits editing",
        (
            r"\bread\w*\b.{0,80}\b(edit|chang|replac|modif)",
            r"\b(before|prior to)\b.{0,40}\b(edit|chang)\w*.{0,60}\b(read|look|open|view)",
            r"\b(look at|open|view|check)\b.{0,40}\bfile\b.{0,40}\b(before|first)",
        ),
        (
            r"\bedit\w*\b.{0,60}\bwithout\b.{0,30}\b(read|look)",
            r"\bguess|\bassum",
            r"\bedit\w*\b.{0,40}\bbefore\b.{0,30}\bread",
            r"\bedit\w*\b.{0,30}\b(at once|directly|straight|right away|alone)\b",
        ),
        shown=r"\bread\b.*\bedit\b",
    ),
    "report": Hazard(
        0.6,
        "summary report reports",
        (r"\breports?/", r"\breports? (folder|directory)", r"\b(folder|directory)\b.{0,20}\breports?\b"),
        (r"\b(top|root|main|current|working|same) (folder|directory|level)\b",),
        shown=r"reports/",
    ),
    "label": Hazard(
        0.5,
        "json label labels",
        (r"\bunits?\b", r"\bkg\b|\bkilogram"),
        (r"\b(number|figure|value|weight) (alone|only|by itself)\b", r"\bwithout\b.{0,20}\bunit"),
        shown=r"\bunit\b",
    ),
    "ranking": Hazard(
        0.5,
        "sort sorted sorting",
        (r"\bdesc(ending)?\b", r"\b(largest|highest|best|most|greatest|biggest) first\b", r"\brevers"),
        (r"\basc(ending)?\b", r"\b(smallest|lowest) first\b"),
        shown=r"\bdesc",
    ),
    "rows": Hazard(
        0.5,
        "table tables",
        (r"\bheader", r"\bcolumn names\b", r"\bfirst (line|row)\b", r"(?<![.\w/-])csv\b"),
        (r"\bgrep\b", r"\bbash\b"),
        shown=r"(?<![.\w/-])csv \{",
    ),
    "fix": Hazard(
        0.6,
        "edit code test tests",
        (
            r"\b(run|ran|running|execut|start)\w*\b.{0,40}\btests?\b",
            r"\btests?\b.{0,40}\b(run|pass|execut)",
            r"\bunittest|\bpytest|tests/",
            r"\bbash\b",
        ),
        (r"\bwithout\b.{0,20}\btest",),
        shown=r"\bbash\b",
    ),
    "setting": Hazard(
        0.5,
        "settings config edit",
        (r"\b(edit|replace|patch)\b", r"\bkeep\b.{0,40}\b(other|rest|keys)"),
        (r"\boverwrit", r"\bwhole file\b"),
        shunned=(r"\bwrit(e|ing)\b",),
        shown=r"\b(edit|replace|patch)\b|host",
    ),
    "errors": Hazard(
        0.5,
        "count counting matches",
        (r"ignor\w*.{0,6}case|case.?insensitiv", r"upper and lower|(either|any) case", r"\(\?i\)"),
        (r"case.?sensitiv",),
        shown=r"\(\?i\)",
    ),
}
"""By type of task. The learner does not know the rates."""
EXPLORES = 0.6
"""How often the worker reads other files first, if no solved task shows the way."""
SIMILAR = 0.3
"""The share of common words from which a solved task is similar."""


@dataclass(frozen=True)
class Advice:
    """What the guidance of a prompt says about a mistake: scores above 0 warn of it, below 0 lead to it."""

    score: float
    way_shown: bool
    used: tuple[str, ...] = ()  # the lines about it

    @property
    def warns(self) -> bool:
        """Whether the guidance is right."""
        return self.score > 0


def advice_in(prompt: str, kind: str, task: str) -> Advice:
    """What the guidance of a prompt says to a worker with this task."""
    hazard = HAZARDS[kind]
    score, way_shown, used = 0.0, False, list[str]()
    for part, line in memory_lines(prompt):
        similar, weight = False, 0.0
        if part != "similar tasks":
            words = _words(line)
            if words & _words(task) or words & set(hazard.about.split()):
                weight = PATTERN * _sign(line, hazard)
        elif similar := _common(line, task) >= SIMILAR:
            weight = EXAMPLE * (1 if re.search(hazard.shown, line, re.I) else -1 if "{" in line else 0)
        score += weight
        way_shown |= similar
        if weight or similar:
            used.append(line)
    return Advice(score, way_shown, tuple(used))


def memory_lines(prompt: str) -> Iterator[tuple[str, str]]:
    """Each item that memory added, with the name of its section."""
    for section in _SECTION.finditer(prompt):
        for line in re.split(r"\n(?=- )", section["text"]):
            yield section["part"], line


def _sign(line: str, hazard: Hazard) -> int:
    """1 if a line is for the right way, -1 if it is for the wrong one."""
    total = 0
    for clause in _CLAUSE.split(line):
        right, wrong = (_any(patterns, clause) for patterns in (hazard.right, hazard.wrong))
        if _WARNING.search(clause):
            total += (wrong or _any(hazard.shunned, clause)) - (right and not wrong)
        else:
            total += (right and not wrong) - wrong
    return (total > 0) - (total < 0)


def _common(line: str, task: str) -> float:
    """The share of common words of a solved task (before the closing quote) and a task."""
    solved, asked = _words(line.split("”")[0]), _words(task)
    return len(solved & asked) / max(len(solved | asked), 1)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _GENERAL


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return any(re.search(each, text, re.I) for each in patterns)
