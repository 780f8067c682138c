"""Rank tools for a task by the words that both use, without a model.

A rare word counts more than one that many tools have, one of a tool's name more than one of its description.
Endings do not matter. Synonyms match with a lower weight.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import log

from kernel.tools.tool import Tool
from runtime.text.inflection import regular_stem

NAME, DESCRIPTION, ARGUMENT = 3.0, 1.0, 0.4
"""What a word weighs by where a tool has it."""
ALIKE = 0.45
"""What a word of the same meaning counts, of what the word itself would."""
BEGINS = 0.35
"""What a word counts that only begins the same: `photographs` and `photo`, `transcribe` and `transcript`."""
BEGINNING = 5
"""Letters that words of one stem share."""
KEPT = 8
"""Choices that a process keeps."""
SATURATION = 1.5
"""From how much weight on more of the same word adds little."""

_STOP = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are as at be been but by can could did do does each every everybody for "
        "from had has have he her his how i if in into is it its just let may me my no not of off on one or "
        "our out over please she should so some somebody than that the their them then there these they "
        "this those to two up us was we were what when where which who whom whose why will with would you "
        "your",
    )
)
_ALIKE = """
create make add new generate build compose draft produce insert register set enter record arrange schedule
delete remove erase cancel drop destroy discard clear uninstall
get show read view display see fetch open much many status details
list overview enumerate
search find query lookup locate discover look seek
update change edit modify adjust rename correct replace increase decrease raise lower scale fill
send mail post deliver submit publish notify tell forward write transmit wire
start run begin launch execute trigger resume rerun boot play
stop end pause halt kill suspend abort terminate shutdown
close finish complete resolve settle done
move put transfer shift relocate rotate
convert turn transform translate render encode transcribe
compare diff difference differ versus contrast
export save download dump extract
import upload load
share invite permit
mail email inbox letter message
picture photo photograph image snapshot screenshot
video film movie clip recording
audio sound voice speech spoken said recording mp3
meeting appointment event calendar
issue bug ticket defect task
spreadsheet sheet excel table csv
slide deck presentation powerpoint
database sql postgres mysql sqlite
server machine host vm
money cash price cost amount bill fee
buy purchase order
person people contact employee staff
page site website web url
language french german spanish english italian translation
"""
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The stems of what a text says, without the words that say nothing."""
    candidates = (word for word in _WORD.findall(text.lower()) if word not in _STOP)
    return [regular_stem(word) for word in candidates if len(word) > 1 and not word.isdecimal()]


def _families() -> dict[str, set[str]]:
    related: dict[str, set[str]] = defaultdict(set)
    for line in _ALIKE.split("\n"):
        family = {regular_stem(word) for word in line.split()}
        for word in family:
            related[word] |= family - {word}
    return dict(related)


_FAMILIES = _families()


_made: dict[tuple[int, ...], tuple[Sequence[Tool], Choice]] = {}


def choice_of(tools: Sequence[Tool]) -> Choice:
    """The choice among these tools: the same one for all runs of a process that have the same tools."""
    key = tuple(map(id, tools))
    if key not in _made:
        while len(_made) >= KEPT:
            _made.pop(next(iter(_made)), None)
        _made[key] = tools, Choice(tools)  # with the tools, so that their ids stay theirs
    return _made[key][1]


class Choice:
    """An index of tools by their words."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._having: dict[str, dict[str, float]] = defaultdict(dict)
        self._beginning: dict[str, set[str]] = defaultdict(set)
        self._size = 0
        for tool in tools:
            self._size += 1
            for word, weight in weighed(tool).items():
                self._having[word][tool.name] = weight
        for word in self._having:
            if len(word) >= BEGINNING:
                self._beginning[word[:BEGINNING]].add(word)

    def suiting(self, task: str) -> dict[str, float]:
        """How well each tool suits the task; one that shares no word with it is missing."""
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(words(task)):
            best: dict[str, float] = {}
            self._count(best, (word,), 1.0)
            self._count(best, self._beginning.get(word[:BEGINNING], ()), BEGINS)
            self._count(best, _FAMILIES.get(word, ()), ALIKE)
            for name, score in best.items():
                scores[name] += score
        return dict(scores)

    def _count(self, best: dict[str, float], alike: Iterable[str], share: float) -> None:
        """Set in `best` the score of each tool's best match for one word of the task."""
        for word in alike:
            having = self._having.get(word, {})
            rare = log(1 + (self._size - len(having) + 0.5) / (len(having) + 0.5)) if having else 0.0
            for name, weight in having.items():
                score = share * rare * weight / (weight + SATURATION)
                if score > best.get(name, 0.0):
                    best[name] = score


def weighed(tool: Tool) -> dict[str, float]:
    """The words of a tool with their weights."""
    weights: dict[str, float] = defaultdict(float)
    places: Sequence[tuple[str, float]] = (
        (tool.name.replace("-", " "), NAME),
        (tool.description, DESCRIPTION),
        (" ".join(tool.args).replace("_", " "), ARGUMENT),
    )
    for text, weight in places:
        for word in dict.fromkeys(words(text)):
            weights[word] += weight
    return dict(weights)
