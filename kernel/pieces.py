"""A prompt's pieces: texts in fences that nothing inside them ends, each cut inside its own, to a budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kernel.screening import cut

LEAST_CHARS = 60
"""Of a text that is cut, what is shown at least; where there is no room for that, it is left out."""
_UNRULY = re.compile(r"(?:^|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])\s*(?:#|```|~~~|<[!?/A-Za-z])")
"""What could be taken for a heading of ours, for a fence, or for HTML that hides what follows."""

Count = Callable[[str], int]


@dataclass(frozen=True)
class Part:
    """A text of a piece, the line of ours above it, and whether it is data.

    Data stands in a fence that nothing inside it ends. So does any text that looks like a heading or a fence.
    """

    text: str
    lead: str = ""
    data: bool = False
    whole: str = ""  # where the text can be read in full
    first: bool = False  # kept before the other parts of its piece

    def render(self) -> str:
        """The part as it stands in the prompt."""
        body = _fence(self.text) if self.text and (self.data or _UNRULY.search(self.text)) else self.text
        return "\n".join(each for each in (self.lead, body) if each)


@dataclass(frozen=True)
class Piece:
    """A part of the work: its heading, its texts, where the whole can be read, and whether it is cut last."""

    title: str
    parts: tuple[Part, ...]
    whole: str = ""
    fixed: bool = False
    least: int = 0  # tokens that it is never cut below
    head: float = 1 / 3  # of what is left of a cut piece, what its beginning gets

    def render(self) -> str:
        """The piece as it stands in the prompt; "" when it has no text."""
        body = "\n".join(filter(None, (part.render() for part in self.parts)))
        return f"{self._heading}{body}" if body else ""

    @property
    def _heading(self) -> str:
        return f"## {' '.join(self.title.split())}\n" if self.title else ""

    def within(self, chars: int) -> Piece:
        """The piece cut to about that many characters: each text in its own fence, middle parts left out."""
        mark = f"[… {len(self.parts)} parts cut; whole in {self.whole or 'the document'} …]\n"
        room = chars - len(self._heading)
        kept = self._kept(room)
        if len(kept) < len(self.parts):
            kept = self._kept(room - 2 * len(mark))
        texts = [len(self.parts[at].text) for at in kept]
        around = sum(len(self.parts[at].render()) + 1 for at in kept) - sum(texts)
        gaps = 2 * len(mark) if len(kept) < len(self.parts) else 0
        level = _level(texts, room - gaps - around)
        parts: list[Part] = []
        last = -1
        for at in [*kept, len(self.parts)] if kept else []:
            if left_out := at - last - 1:
                what = f"{left_out} part{'s' if left_out > 1 else ''} cut"
                parts.append(Part(f"[… {what}; whole in {self.whole or 'the document'} …]"))
            if at < len(self.parts):
                part = self.parts[at]
                where = part.whole or self.whole or "the document"
                parts.append(replace(part, text=cut(part.text, level, where, head=self.head)))
            last = at
        return replace(self, parts=tuple(parts))

    def _kept(self, room: int) -> list[int]:
        """Which parts are shown in that many characters: first what comes first, then from both ends."""
        order = [at for at, part in enumerate(self.parts) if part.first]
        low, high = 0, len(self.parts) - 1
        for turn in range(len(self.parts)):
            at_head = int((turn + 1) * self.head) > int(turn * self.head)
            order.append(low if at_head else high)
            low, high = (low + 1, high) if at_head else (low, high - 1)
        kept: set[int] = set()
        for at in dict.fromkeys(order):
            part = self.parts[at]
            room -= len(part.render()) + 1 - max(len(part.text) - LEAST_CHARS, 0)
            if room < 0:
                break
            kept.add(at)
        return sorted(kept)


def _fence(text: str) -> str:
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}\n{text}\n{ticks}"


def fit(pieces: Sequence[Piece], limit: int, count: Count) -> list[Piece]:
    """Cut pieces so that together they weigh at most `limit` tokens: visibly, the longest first.

    Fixed pieces are cut last: they get half of the limit, or all that the others leave. What a piece has at
    `least` is there also where the limit is smaller.
    """
    fitted, room = list(pieces), limit
    while (over := count(joined(fitted)) - limit) > 0 and room > 0:
        fitted = _cut_to(pieces, room, count)
        room -= max(count(joined(fitted)) - limit, 1)
    return fitted if over <= 0 else _cut_to(pieces, 0, count)


def joined(pieces: Sequence[Piece]) -> str:
    """The pieces as they stand in the prompt, one below the other."""
    return "\n\n".join(piece.render() for piece in pieces)


def _cut_to(pieces: Sequence[Piece], room: int, count: Count) -> list[Piece]:
    weights = [count(f"{piece.render()}\n\n") for piece in pieces]
    kept = [min(piece.least, weight) for piece, weight in zip(pieces, weights, strict=True)]
    weighed = [(piece, weight - least) for piece, weight, least in zip(pieces, weights, kept, strict=True)]
    room -= sum(kept)
    fixed = [weight for piece, weight in weighed if piece.fixed]
    loose = [weight for piece, weight in weighed if not piece.fixed]
    fixed_level = _level(fixed, max(room // 2, room - sum(loose)))
    level = _level(loose, room - sum(min(weight, fixed_level) for weight in fixed))
    cut_ = [
        _shorten(piece, weight, least + (fixed_level if piece.fixed else level), count)
        for piece, weight, least in zip(pieces, weights, kept, strict=True)
    ]
    return [piece for piece in cut_ if piece.render()]


def _level(weights: Sequence[int], room: int) -> int:
    """The highest level at which the weights, each cut to it, fit into the room."""
    low, high = 0, max(weights, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(weight, middle) for weight in weights) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _shorten(piece: Piece, weight: int, tokens: int, count: Count) -> Piece:
    """The piece cut until it weighs at most `tokens`."""
    shorter, chars = piece, len(piece.render())
    while weight > tokens and chars > 0:
        chars = min(chars * tokens // weight, chars - 1)
        shorter = piece.within(chars)
        weight = count(f"{shorter.render()}\n\n") if shorter.parts else 0
    return shorter
