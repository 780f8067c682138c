"""Phrasings: patterns of words and typed slots, and how they read a task.

A phrasing is a line such as `count [the] lines (of|in) {path}`: `[…]` may be left out, `(…|…)` are
alternatives, `<name>` is one of the shared words of `language.md`, `{slot}` is read by its kind. A task is
read whole: where a token is left over, there is no reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from runtime.reflexes.exact import consistent
from runtime.reflexes.slots import Language, Meant, Scan

if TYPE_CHECKING:
    from runtime.reflexes.procedure import Kinds

VISITS = 20_000
"""Steps of the search for readings by one phrasing; a task that needs more is too vague."""

_TEMPLATE = re.compile(r"\{[^{}]*\}|<[^<>]*>|[\[\]()|]|[^\s\[\](){}<>|]+")


class PhrasingError(ValueError):
    """A phrasing is invalid; the message says why."""


@dataclass(frozen=True)
class Bound:
    """The value of a slot, and its tokens."""

    slot: str
    value: Any
    start: int
    end: int


@dataclass(frozen=True)
class Reading:
    """A reading of a task: `exact` tokens are words of the phrasing, `vague` adds up over the slots."""

    exact: int
    vague: int
    bound: tuple[Bound, ...]
    by_intent: bool = False
    aside: tuple[str, ...] = ()  # words of the task without meaning
    elliptic: bool = False  # whether slots are taken from the part of the task beside this one

    @property
    def score(self) -> tuple[int, int]:
        """Larger is better."""
        return self.exact, -self.vague

    @property
    def loss(self) -> int:
        """How much of the task was left aside or read vaguely."""
        return len(self.aside) + self.vague

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller is nearer."""
        return self.loss, -self.exact

    @property
    def slots(self) -> dict[str, Any]:
        """The slots' values by name."""
        return {each.slot: each.value for each in self.bound}

    @property
    def meant(self) -> tuple[Bound, ...]:
        """The slots whose path is a pronoun."""
        return tuple(
            each
            for each in self.bound
            if each.start < each.end and any(isinstance(value, Meant) for value in as_list(each.value))
        )


@dataclass(frozen=True)
class Phrasing:
    """One line of a reflex, compiled on demand."""

    text: str
    needed: frozenset[str]  # words without which it cannot fit
    kinds: Kinds
    language: Language

    @cached_property
    def graph(self) -> Graph:
        """The compiled pattern. Raises `PhrasingError`."""
        return _Compiler(self.text, self.kinds, self.language).graph()

    @cached_property
    def begins(self) -> frozenset[str] | None:
        """The words of which one comes first; None where something else may. Raises `PhrasingError`."""
        words: set[str] = set()
        pending, seen = [0], {0}
        while pending:
            node = pending.pop()
            if node == self.graph.final:
                return None
            for kind, what, after in self.graph.edges[node]:
                if kind == "slot":
                    return None
                if kind == "word":
                    words.add(what)
                elif after not in seen:
                    seen.add(after)
                    pending.append(after)
        return frozenset(words)

    def readings(self, scan: Scan, start: int, end: int) -> list[Reading]:
        """The readings of the tokens from `start` to `end`, the best first. Raises `PhrasingError`."""
        if self.begins is not None and scan.word(start) not in self.begins:
            return []
        scan = scan if end == len(scan.tokens) else replace(scan, tokens=scan.tokens[:end])
        found = [each for each in _walk(self.graph, scan, start) if consistent(scan, start, each.bound)]
        return sorted(found, key=lambda each: each.score, reverse=True)


_GROUPS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|<[^<>]*>")


def needed(text: str) -> list[frozenset[str]]:
    """For each line of a block of phrasings, the words outside all brackets."""
    before = ""
    while before != text:
        before, text = text, _GROUPS.sub(" ", text)
    return [frozenset(line.lower().split()) for line in text.splitlines()]


# ---- compiling -----------------------------------------------------------------------------------------

_END = ">"
"""The end of the words of a `<name>`."""
Edge = tuple[str, Any, int]  # kind (skip, word, slot), what, next node


@dataclass(frozen=True)
class Graph:
    """A pattern without loops: node 0 is its start, the last node its end."""

    edges: tuple[tuple[Edge, ...], ...]
    final: int


class _Compiler:
    """A recursive descent over one phrasing."""

    def __init__(self, text: str, kinds: Kinds, language: Language) -> None:
        self.text, self.kinds, self.language = text, kinds, language
        self.edges: list[list[Edge]] = [[]]

    def graph(self) -> Graph:
        final = self._alternatives(iter(_TEMPLATE.findall(self.text)), 0, "")
        return Graph(tuple(map(tuple, self.edges)), final)

    def _to(self, node: int, kind: str, what: Any) -> int:
        """A new node behind an edge."""
        self.edges.append([])
        self.edges[node].append((kind, what, len(self.edges) - 1))
        return len(self.edges) - 1

    def _alternatives(self, parts: Iterator[str], start: int, close: str) -> int:
        """Compile alternatives divided by `|`, up to the closing bracket; the node where they meet."""
        ends, node = [], start
        for part in parts:
            if part == close:
                break
            if part == "|" and close:
                ends.append(node)
                node = start
            elif part == "|":
                raise PhrasingError(
                    f"put the alternatives into parentheses, or on lines of their own: {self.text}"
                )
            elif part in "])":
                raise PhrasingError(f"a bracket is closed and never opened in: {self.text}")
            elif part in "[(":
                after = self._alternatives(parts, node, "]" if part == "[" else ")")
                if part == "[":
                    self.edges[node].append(("skip", None, after))
                node = after
            elif part[0] == "<":
                node = self._alternatives(self._class(part[1:-1]), node, _END)
            elif part[0] == "{":
                name, _, kind = part[1:-1].partition(":")
                reader, listed = self.kinds(kind.strip() or name.strip())
                node = self._to(node, "slot", (name.strip(), reader, listed))
            else:
                node = self._to(node, "word", part.lower())
        else:
            if close:
                raise PhrasingError(f"a bracket is never closed in: {self.text}")
        final = self._to(node, "skip", None)
        for each in ends:
            self.edges[each].append(("skip", None, final))
        return final

    def _class(self, name: str) -> Iterator[str]:
        if name not in self.language.classes:
            raise PhrasingError(f"<{name}> is none of the words of language.md")
        return iter([*_TEMPLATE.findall(self.language.classes[name]), _END])


# ---- reading -------------------------------------------------------------------------------------------


def _walk(graph: Graph, scan: Scan, start: int) -> set[Reading]:
    """All readings; none if the search takes more than `VISITS` steps."""
    found: set[Reading] = set()
    visited: set[tuple[int, int, int, int, tuple[Bound, ...]]] = set()
    pending: list[tuple[int, int, int, int, tuple[Bound, ...]]] = [(0, start, 0, 0, ())]
    end = len(scan.tokens)
    while pending:
        place = pending.pop()
        if place in visited:
            continue
        if len(visited) >= VISITS:
            return set()
        visited.add(place)
        node, at, exact, vague, bound = place
        if node == graph.final and at == end:
            found.add(Reading(exact, vague, bound))
        for kind, what, after in graph.edges[node]:
            if kind == "skip":
                pending.append((after, at, exact, vague, bound))
            elif kind == "word" and scan.word(at) == what:
                pending.append((after, at + 1, exact + 1, vague, bound))
            elif kind == "slot" and at < end:
                name, reader, listed = what
                for stop, value, more in scan.read(reader, at):
                    read, words = bound_as(name, value, at, stop), (stop - at if listed else 0)
                    pending.append((after, stop, exact + words, vague + more, (*bound, read)))
    return found


def as_list(value: Any) -> tuple[Any, ...]:
    """A slot's values as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def bound_as(name: str, value: Any, start: int, end: int) -> Bound:
    """A slot with the value that its reader gave."""
    return Bound(name, tuple(value) if isinstance(value, list) else value, start, end)


MOST_PHRASES = 3_000
"""Alternatives of one list of words."""


def phrase_words(text: str) -> list[tuple[str, ...]]:
    """The alternatives of `largest first | [the] (biggest|most)`, each once, as its words."""
    pieces = iter(re.findall(r"[\[\]()|]|[^\s\[\]()|]+", text.lower()))
    return [each for each in dict.fromkeys(_alternatives(pieces)) if each]


def _alternatives(pieces: Iterator[str]) -> list[tuple[str, ...]]:
    """The alternatives up to the closing bracket."""
    found: list[tuple[str, ...]] = []
    phrases: list[tuple[str, ...]] = [()]
    for piece in pieces:
        if piece in "])":
            break
        if piece == "|":
            found, phrases = found + phrases, [()]
            continue
        ways = [(piece,)] if piece not in "[(" else _alternatives(pieces) + ([()] if piece == "[" else [])
        phrases = [(*before, *way) for before in phrases for way in ways]
        if len(phrases) > MOST_PHRASES:
            raise PhrasingError(f"more than {MOST_PHRASES:,} alternatives: {' '.join(phrases[0])} …")
    return found + phrases


def choices(values: Mapping[Any, Any]) -> dict[tuple[str, ...], Any]:
    """What each of the words of a list means: `{largest: largest first | biggest first}`."""
    return {words: value for value, text in values.items() for words in phrase_words(str(text))}
