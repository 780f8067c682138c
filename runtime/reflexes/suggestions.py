"""What can be said instead of a task that no reflex covers: an example that has all of its words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runtime.reflexes.intents import Said
from runtime.reflexes.matching import match
from runtime.reflexes.names import read_named
from runtime.reflexes.procedure import Procedure, Shelf
from runtime.reflexes.slots import Scan
from runtime.reflexes.surroundings import Surroundings
from runtime.text.chunks import chunks
from runtime.text.demand import demand
from runtime.text.inflection import singular

_EXAMPLES = re.compile(r"(?ms)^## Examples\n(.*?)(?=^## |\Z)")


def nearest(task: str, shelf: Shelf, around: Surroundings | None = None) -> str:
    """The shortest example that keeps every word of the task but names, and works; "" if there is none."""
    words, wanted = _words(task, shelf, around), demand(task, shelf.systems)
    few = 2 * len(words - {"?"}) < len(task.split())  # most of the task is not among them
    if few or not words - {".", "?"} or words & shelf.language.limits:
        return ""
    for procedure, example in sorted(examples(shelf), key=lambda each: len(each[1])):
        if words <= _words(example, shelf, around) and demand(example, shelf.systems) == wanted:
            found = match(example, shelf, (), around)
            if found and found.procedure is procedure:
                return f"What can be said, for example: {example}"
    return ""


def _words(task: str, shelf: Shelf, around: Surroundings | None) -> set[str]:
    """The words of a task without its articles and prepositions; a name of a file is `.`."""
    scan = Scan(chunks(task) or (), task, shelf.language, (), around, systems=shelf.systems)
    relating = Said(scan).relating
    found: set[str] = set()
    end = 0
    for at, token in enumerate(scan.tokens):
        end = max([end, *(after for after, _ in relating(at))])
        if token.word in shelf.language.limits:
            found.add(token.word)
        elif token.quoted or any(read_named(scan, at)):
            found.add(".")
        elif at >= end and token.word not in shelf.language.articles:
            found.add(singular(token.word))
    return found


def examples(shelf: Shelf) -> Iterator[tuple[Procedure, str]]:
    """The tasks of the tables in the files of the reflexes that were not learned."""
    for procedure in shelf.procedures:
        hit = _EXAMPLES.search(procedure.path.read_text("utf-8", errors="replace"))
        for example in re.findall(r"(?m)^\| (.+?) \|", hit[1])[2:] if hit and not procedure.learned else ():
            yield procedure, example
