"""The nearest task that a reflex covers, for a task that none covers: `did you mean …?`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runtime.reflexes.intents import Said
from runtime.reflexes.matching import match
from runtime.reflexes.procedure import Shelf
from runtime.reflexes.slots import Scan
from runtime.reflexes.surroundings import Surroundings
from runtime.text.chunks import chunks

MOST_WORDS = 14
"""Of a task for which a nearer one is sought: with 25, a search took two seconds."""
_EXAMPLE = re.compile(r"(?m)^## Examples\n+\|.*\n\|.*\n\| (.+?) \|")


def nearest(task: str, shelf: Shelf, around: Surroundings | None = None) -> str:
    """What to say instead: the task with the fewest words left out, else an example, else nothing."""
    found = chunks(task)
    if not found or len(found) > MOST_WORDS:
        return ""
    words = [task[each.start : each.end] for each in found]
    for first, last in _gaps(len(words)):
        left_out = {each.lower() for each in words[first:last]}
        rest = re.sub(r" ([,;:?!.])", r"\1", " ".join(words[:first] + words[last:])).strip(" ,;:")
        if not left_out & shelf.language.limits and rest and match(rest, shelf, (), around):
            return f"Did you mean: {rest.rstrip('.?!')}?"
    return _example(Scan(found, task, shelf.language), shelf)


def _gaps(count: int) -> Iterator[tuple[int, int]]:
    """The words to leave out, the fewest first: one or two anywhere, more only at an end."""
    for size in range(1, count - 1):
        yield count - size, count
        yield 0, size
        if size <= 2:
            yield from ((first, first + size) for first in range(1, count - size))


def _example(scan: Scan, shelf: Shelf) -> str:
    """An example of the reflex that shares the first word and most concepts with the task."""
    concepts = Said(scan).concepts(0)
    verbs = {name for _, names in scan.named_at(0, scan.language.naming) for name in names}
    best, most = None, 0
    for procedure in shelf.procedures:
        for intent in procedure.intents:
            shared = len(intent.needed) if intent.needed <= concepts and intent.needed & verbs else 0
            if shared > most and not procedure.learned:
                best, most = procedure, shared
    hit = best and _EXAMPLE.search(best.path.read_text("utf-8", errors="replace"))
    return f"What can be said, for example: {hit[1]}" if hit else ""
