"""How files are shown to a small model: whole if they are short, else what has to do with the task."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernel.errors import OperationFailed
from runtime.operations.cells import Table, read_table
from runtime.text.inflection import regular_stem
from runtime.text.tokens import words

GAP = re.compile(r"(?m)^… \d+ lines …$")
"""What stands for lines that are not shown."""
SHORT = 6_000
"""Characters of a text that is shown whole."""
HEAD_LINES = 3
"""Lines at the beginning of a longer text, which say how it is built."""
FOUND_LINES = 10
"""Further lines, those that share the rarest words with the task."""
FEW_VALUES = 6
"""Different values of a column that are all shown."""
_COMMON = """
the a an of in on at to for and or is are was were be it that this with from by as which what how who when
where many much me my our we you i there has have had do does did please tell file files all each every
"""
_STOP = frozenset(_COMMON.split())
_CODE = re.compile(r"\w+(?:[-./:]\w+)*")


def show(name: str, text: str, task: str, *, chars: int = SHORT, head: int = HEAD_LINES) -> str:
    """A file in a code block below its name."""
    shown = text if len(text) <= chars else excerpt(text, task, head=head)
    if len(shown) > chars:
        shown = f"{shown[:chars].rpartition(chr(10))[0]}\n… {shown[chars:].count(chr(10)) + 1} lines …"
    ticks = "```" if "```" not in shown else "````"
    return f"{name}:\n{ticks}\n{shown.rstrip()}\n{ticks}"


def described(name: str, text: str) -> str:
    """A table in a few lines: its rows, and for each column the kind and some values; "" for no table."""
    try:
        table = read_table(text, name)
    except OperationFailed:
        return ""
    if len(table.header) < 2 or not table.rows:
        return ""
    title = name.rpartition("/")[2].rpartition(".")[0]
    columns = [f"- {head} ({_values(table, at)})" for at, head in enumerate(table.header)]
    return "\n".join([f'Table "{title}", {len(table.rows)} rows:', *columns])


def _values(table: Table, at: int) -> str:
    """What a column holds: all values of few, else an example."""
    column = table.column(at)
    values = list(dict.fromkeys(row[at].strip() for row in table.rows))
    if column.numeric:
        known = [each for each in column.numbers if each is not None]
        return f"number, {min(known)} to {max(known)}"
    if len(values) <= FEW_VALUES:
        return f"text: {', '.join(map(repr, values))}"
    return f"text, such as {', '.join(map(repr, values[:2]))}"


def excerpt(text: str, task: str, *, head: int = HEAD_LINES, found: int = FOUND_LINES) -> str:
    """The first lines of a text and those that share the rarest words with the task; gaps are marked."""
    lines = text.splitlines()
    kept = set(range(min(head, len(lines)))) | set(related(lines, task, found))
    shown: list[str] = []
    last = -1
    for at in sorted(kept):
        if at > last + 1:
            shown.append(f"… {at - last - 1} lines …")
        shown.append(lines[at])
        last = at
    if last < len(lines) - 1:
        shown.append(f"… {len(lines) - 1 - last} lines …")
    return "\n".join(shown)


def _codes(text: str) -> set[str]:
    """The words with a digit, with what is joined to them: `p-14`, `2024-03-01`, `t5`."""
    return {each for each in _CODE.findall(text.lower()) if any(mark.isdigit() for mark in each)}


def related(lines: Sequence[str], task: str, most: int) -> list[int]:
    """The indices of the lines that share codes such as `P-14` or else the rarest words with the task."""
    wanted = {regular_stem(word) for word in words(task) if word not in _STOP}
    codes = _codes(task)
    having: dict[str, list[int]] = {}
    scores: dict[int, float] = {}
    for at, line in enumerate(lines):
        for word in {regular_stem(word) for word in words(line)} & wanted:
            having.setdefault(word, []).append(at)
        if shared := codes & _codes(line):
            scores[at] = float(len(shared))
    for places in having.values():
        for at in places:
            scores[at] = scores.get(at, 0.0) + 1.0 / len(places)
    return sorted(sorted(scores, key=lambda at: -scores[at])[:most])
