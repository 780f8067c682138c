"""How an attempt wrote its files and worded its answer: a few habits that can be told in fixed words.

Of what was written only its form is told, and of a path its ending and plain folder: short words of letters
and digits, which hold no sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from kernel.document import Document, Step

LOOKED_AT = 20_000
"""Characters of a file that was written."""
ONE_LINE = 100
"""Characters of an answer that is a line."""
WORDS = 3
"""Of an answer that has a form: less only reports that it is done."""
_FOLDER = re.compile(r"[a-z0-9]{1,12}")
_ENDING = re.compile(r"\.[a-z0-9]{1,5}")
_STYLES = (
    ("words joined by underscores", re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+")),
    ("words joined by hyphens", re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")),
    ("capitals at the words", re.compile(r"(?:[A-Z][a-z0-9]+){2,}")),
)
_INDENT = re.compile(r"(?m)^(\t| +)\S")


def habits_of(document: Document) -> list[tuple[str, ...]]:
    """The habits of a loop's last attempt, each as its kind and its words."""
    found: dict[tuple[str, ...], None] = {}
    for step in document.steps.values():
        if step.n in document.planned and step.state == "done" and step.tool == "write":
            found |= dict.fromkeys(_of_file(step, document.text(1, "task")))
    result = document.text(5, "result").strip()
    if len(result.split()) >= WORDS:
        short = "\n" not in result and len(result) <= ONE_LINE
        found["answer", "one line" if short else "several lines"] = None
    return list(found)


def _of_file(step: Step, task: str) -> Iterator[tuple[str, ...]]:
    """Of a file that was written; what the task itself has named is nobody's habit."""
    args = step.args or {}
    path, text = args.get("path"), args.get("content")
    if not isinstance(path, str) or not path or path.startswith(("/", "..")):
        return
    place = PurePosixPath(path.removeprefix("./"))
    ending = place.suffix.lower()
    if not _ENDING.fullmatch(ending):
        return
    if len(place.parts) == 2 and f"{place.parts[0]}/" not in task and _FOLDER.fullmatch(place.parts[0]):
        yield "folder", ending, place.parts[0]
    for name, style in _STYLES:
        if style.fullmatch(place.stem) and place.name not in task:
            yield "naming", ending, name
    if isinstance(text, str) and text and "{{" not in text:
        yield from _of_text(ending, text[:LOOKED_AT])


def _of_text(ending: str, text: str) -> Iterator[tuple[str, ...]]:
    indents = [hit[1] for hit in _INDENT.finditer(text)]
    if len(indents) >= 3:
        width = min(len(each) for each in indents)
        told = "tabs" if all(each[0] == "\t" for each in indents) else f"{width} blanks"
        if told == "tabs" or width in (2, 4, 8):
            yield "indent", ending, told
    if ending == ".py" and re.match(r"\s*(?:#[^\n]*\n)*\s*[ru]?(\"\"\"|''')", text):
        yield "docstring", ending, "a docstring"
    if ending == ".py" and re.search(r"(?m)^\s*def \w+\([^)]*:\s*\w+[^)]*\)|\) -> ", text):
        yield "docstring", ending, "type hints"
