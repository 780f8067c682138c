"""How the worker of this bench takes guidance: it reads the prompt that it is really sent, as a person might.

It finds what memory gave in the prompt, takes each line apart into what is advised and what is warned of, and
looks for the thing that matters to its task in any of several wordings. These rules were written down before
there was a learner, and know none of its wordings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SECTION = re.compile(
    r"^## Context from memory: (?P<part>[\w ]+)\n(?P<ticks>`{3,})\n(?P<text>.*?)\n(?P=ticks)$", re.S | re.M
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
"""What a line of guidance weighs, and what a solved task does that may be gone by."""


@dataclass(frozen=True)
class Hazard:
    """A mistake: how often it is made, and by what a reader sees that guidance is for or against it."""

    rate: float
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()
    shunned: tuple[str, ...] = ()  # tells the right thing only where it is warned of
    shown: str = ""  # in the steps of a solved task: the right way


HAZARDS: Mapping[str, Hazard] = {
    "edit": Hazard(
        0.6,
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
        (r"\breports?/", r"\breports? (folder|directory)", r"\b(folder|directory)\b.{0,20}\breports?\b"),
        (r"\b(top|root|main|current|working|same) (folder|directory|level)\b",),
        shown=r"reports/",
    ),
    "label": Hazard(
        0.5,
        (r"\bunits?\b", r"\bkg\b|\bkilogram"),
        (r"\b(number|figure|value|weight) (alone|only|by itself)\b", r"\bwithout\b.{0,20}\bunit"),
        shown=r"\bunit\b",
    ),
    "ranking": Hazard(
        0.5,
        (r"\bdesc(ending)?\b", r"\b(largest|highest|best|most|greatest|biggest) first\b", r"\brevers"),
        (r"\basc(ending)?\b", r"\b(smallest|lowest) first\b"),
        shown=r"\bdesc",
    ),
    "rows": Hazard(
        0.5,
        (r"\bheader", r"\bcolumn names\b", r"\bfirst (line|row)\b", r"(?<![.\w/-])csv\b"),
        (r"\bgrep\b", r"\bbash\b"),
        shown=r"(?<![.\w/-])csv \{",
    ),
    "fix": Hazard(
        0.6,
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
        (r"\b(edit|replace|patch)\b", r"\bkeep\b.{0,40}\b(other|rest|keys)"),
        (r"\boverwrit", r"\bwhole file\b"),
        shunned=(r"\bwrit(e|ing)\b",),
        shown=r"\b(edit|replace|patch)\b|host",
    ),
    "errors": Hazard(
        0.5,
        (r"ignor\w*.{0,6}case|case.?insensitiv", r"upper and lower|(either|any) case", r"\(\?i\)"),
        (r"case.?sensitiv",),
        shown=r"\(\?i\)",
    ),
}
"""By type of task. The rates are known, and never told to the learner."""
LOOKS_AROUND = 0.6
"""How often the worker reads about before it begins, where no solved task shows the way."""
ALIKE = 0.3
"""Of the words of two tasks, the share in common from which one shows the way for the other."""


@dataclass(frozen=True)
class Heard:
    """What a prompt's guidance says of a task's hazard: above 0 it warns of it, below 0 it leads into it."""

    score: float
    way_shown: bool
    used: tuple[str, ...] = ()  # the lines that bear on it

    @property
    def warned(self) -> bool:
        """Whether the right guidance stands there."""
        return self.score > 0


def hear(prompt: str, kind: str, task: str) -> Heard:
    """What the prompt's guidance says to somebody with this task."""
    hazard = HAZARDS[kind]
    score, shows, used = 0.0, False, list[str]()
    for part, line in memory_lines(prompt):
        if part == "similar tasks":
            here, alike = _example(line, hazard, task)
            shows = shows or alike
        else:
            here, alike = (PATTERN * _said(line, hazard), False) if _bears(line, kind, task) else (0.0, False)
        score += here
        if here or alike:
            used.append(line)
    return Heard(score, shows, tuple(used))


def memory_lines(prompt: str) -> Iterator[tuple[str, str]]:
    """What memory gave, line by line, each with its part; a line that goes on is one."""
    for found in _SECTION.finditer(prompt):
        for line in re.split(r"\n(?=- )", found["text"]):
            yield found["part"], line


def _said(line: str, hazard: Hazard) -> int:
    """1 where a line is for the right way, -1 where it is for the wrong one."""
    total = 0
    for clause in _CLAUSE.split(line):
        warns = bool(_WARNING.search(clause))
        for_it = _any(hazard.right, clause)
        against = _any(hazard.wrong, clause)
        if warns:
            total += (against or _any(hazard.shunned, clause)) - (for_it and not against)
        else:
            total += (for_it and not against) - against
    return (total > 0) - (total < 0)


def _example(line: str, hazard: Hazard, task: str) -> tuple[float, bool]:
    """What a solved task shows: nothing where it is another kind of task, or where its calls are not told."""
    if _common(line, task) < ALIKE:
        return 0.0, False
    shows = 1 if re.search(hazard.shown, line, re.I) else -1 if "{" in line else 0
    return EXAMPLE * shows, True


def _bears(line: str, kind: str, task: str) -> bool:
    """Whether a reader takes a line to be about his task: by its words, or the tools that he has in mind."""
    words = _words(line)
    return bool(words & _words(task)) or bool(words & TOOLS[kind])


TOOLS: Mapping[str, frozenset[str]] = {
    "edit": frozenset({"edit", "edits", "editing"}),
    "report": frozenset({"summary", "report", "reports"}),
    "label": frozenset({"json", "label", "labels"}),
    "ranking": frozenset({"sort", "sorted", "sorting"}),
    "rows": frozenset({"table", "tables"}),
    "fix": frozenset({"edit", "code", "test", "tests"}),
    "setting": frozenset({"settings", "config", "edit"}),
    "errors": frozenset({"count", "counting", "matches"}),
}
"""What a worker has in mind at a task of each type."""


def _common(line: str, task: str) -> float:
    told = _words(line.split("”")[0])
    asked = _words(task)
    return len(told & asked) / max(len(told | asked), 1)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _GENERAL


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return any(re.search(each, text, re.I) for each in patterns)
