"""What a part of a task leaves out: `rename a.txt to x.txt and b.txt to y.txt`.

It is taken from the part beside it, if the same reflex reads both, or else it is a file: the one that the
part before has written, or the one that the part beside looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runtime.reflexes.phrasing import Reading, as_list, bound_as
from runtime.reflexes.slots import Meant, Scan
from runtime.text.chunks import Chunk

if TYPE_CHECKING:
    from runtime.reflexes.intents import Item, Said
    from runtime.reflexes.procedure import Procedure

LIGHT = "light"
"""The group of prepositions that a slot without a role may have."""
_FILES = frozenset({"path", "paths", "from"})
"""The slots that name the file of a task."""


@dataclass(frozen=True)
class Beside:
    """The part of a task beside another, which may take from it what it leaves out.

    Without a reflex there is none, and only the result before can say it.
    """

    procedure: Procedure | None = None
    slots: Mapping[str, Any] = field(default_factory=dict)
    same: bool = False  # whether the other part is read by the same reflex

    @property
    def names(self) -> tuple[str, ...]:
        """The values that could be names of files."""
        values = (value for each in self.slots.values() for value in as_list(each))
        return tuple(value for value in values if isinstance(value, str) and "." in value)

    @property
    def file(self) -> str:
        """The file that the part is about and of which it leaves nothing out, else ""."""
        texts = [name for name, value in self.slots.items() if not isinstance(value, int)]
        return str(self.slots["path"]) if texts == ["path"] else ""

    def other_than(self, said: Mapping[str, Any]) -> dict[str, Any] | None:
        """The slots that the other part does not say; None without a file or if it says the same."""
        taken = {name: value for name, value in self.slots.items() if name not in said}
        same = all(self.slots.get(name) == value for name, value in said.items())
        return None if same or (taken and not _FILES & taken.keys()) else taken


def filled(
    so_far: Reading, left: Sequence[Item], beside: Beside, said: Said, *, verb: bool, changes: bool
) -> Reading | None:
    """The reading with what it leaves out; None if nothing says it, or if too little is said.

    left: the items of the intent that are not said. verb: whether a concept is. changes: whether the reflex
    may do more than look.
    """
    unsaid = any(item.concept for item in left)
    slots = [item for item in left if item.slot]
    if not verb and so_far.vague > len(so_far.bound):
        return None  # a bare word alone could mean anything
    if beside.same:
        too_little = not so_far.bound or (changes and slots)
        taken = None if too_little else beside.other_than(so_far.slots)
    else:
        clear = (verb and so_far.bound) if changes else (verb or so_far.bound)
        alone = clear and len(slots) == 1 and not unsaid and not _says(slots[0], so_far, said)
        taken = _file(slots[0], said.scan, "" if changes else beside.file) if alone else None
    if taken is None or not {item.slot for item in slots} <= taken.keys():
        return None
    end = len(said.scan.tokens)
    bound = (*so_far.bound, *(bound_as(name, value, end, end) for name, value in taken.items()))
    return replace(so_far, bound=bound, vague=so_far.vague + len(left), elliptic=True)


def _file(item: Item, scan: Scan, looked_at: str) -> dict[str, Any] | None:
    """The slot with what the part before has written, or else with what the part beside looks at."""
    written = scan.it.file if scan.it and "file" in scan.it.shapes else ""
    file = written or looked_at
    named = replace(scan, tokens=(Chunk(file, 0, len(file)),))
    fits = file and item.reader and any(value == file for _, value, _ in item.reader(named, 0))
    return {item.slot: Meant(file)} if fits else None


def _says(item: Item, so_far: Reading, said: Said) -> bool:
    """Whether a text has a preposition that could begin what is left out: `buy milk from the list`."""
    group = item.role or LIGHT
    inside = (at for each in so_far.bound for at in range(each.start + 1, each.end))
    return any(group in groups for at in inside for _, groups in said.relating(at))
