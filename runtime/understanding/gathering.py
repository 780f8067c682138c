"""Gathers what a model is shown of a folder before it is asked: what the task names, one hop more, tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from runtime.secrets.redaction import redact, redactor
from runtime.text.shown import shown_name
from runtime.understanding.folder import Files, listing
from runtime.understanding.names import named
from runtime.understanding.search import Search
from runtime.understanding.source import Definition, Source

LEFT, TESTS = 20, 8
"""Maximum names of what was left out, and tests that are shown."""
HEAD, AROUND, HELPER = 20, 2, 30
"""Lines of the head of a table, around a line of an excerpt, and of a helper shown with its test."""
SMALL = 8_000
"""Characters below which what is related is shown before the tests."""
OUTLINE, EXCERPT = "(outline: bodies left out)", "(excerpt: the other lines are left out)"


@dataclass(frozen=True)
class Shown:
    """A part of a file: `text` has its lines with their numbers, `12<tab>line`, counted from 1."""

    name: str
    path: str
    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Gathered:
    """What a folder has for a task: `shown` and `left` with the most important first."""

    listing: str
    shown: tuple[Shown, ...]
    left: tuple[str, ...]


def gather(
    folder: Path,
    task: str,
    *,
    characters: int,
    hidden: Collection[Path] = (),
    readable: Callable[[str], Path] | None = None,
) -> Gathered:
    """What `task` names in `folder`, in at most `characters`, and a listing.

    `hidden` are absolute paths that are left out. `readable` returns the real path for one relative to the
    folder, or raises `OperationFailed`. The same folder and task give the same result.
    """
    files = Files(folder, hidden, readable)
    search = Search(files, named(task))
    offer = _Offer(files, search, characters)
    offer.fill()
    listed = listing(files, (each.path for each in offer.shown), characters)
    left = dict.fromkeys(map(shown_name, [*offer.left, *(each.title for each in search.unclear)]))
    return Gathered(redact(listed), tuple(offer.shown), tuple(left)[:LEFT])


class _Offer:
    def __init__(self, files: Files, search: Search, characters: int) -> None:
        self.files, self.search, self.room, self.characters = files, search, characters, characters
        self.shown: list[Shown] = []
        self.left: list[str] = []
        self._lines: dict[str, set[int]] = {}  # what is shown of each file
        self._core: list[Definition] = []  # the definitions that the task names

    def fill(self) -> None:
        """Show the files and definitions that the task names, then their tests, then what they use."""
        for path in self.search.paths():
            self._file(path)
        for path, line in self.search.frames():
            source = self.search.source(path)
            if source and (of := source.enclosing(line, "function") or source.enclosing(line)):
                self._core.append(of)
            elif raw := self.files.raw(path):
                self._excerpt(Source(path, raw), [line], 4 * AROUND)
        self._core = list(dict.fromkeys([*self._core, *self.search.definitions()]))
        for each in self._core:
            self._definition(each, self.room)
        if self.characters < SMALL:
            self._related(self.room * 2 // 3)
        self._tests(min(self.room, self.characters // 4))
        self._related(max(self.characters // 3, SMALL // 2))

    def _tests(self, room: int) -> None:
        end = self.room - room
        for test in self.search.tests(self._core)[:TESTS]:
            self._definition(test, self.room - end)
            source = self.search.source(test.path)
            own = {each.name: each for each in source.definitions if not each.owner} if source else {}
            for each in (own[name] for name in (source.used(test) if source else ()) if name in own):
                if not re.match("(?i)test", each.name) and not each.nested and len(each.lines) <= HELPER:
                    self._definition(each, self.room - end)

    def _related(self, room: int) -> None:
        end = max(0, self.room - room)
        for each in self.search.related(self._core):
            most = self.characters // 18 if each.kind == "class" else self.characters
            self._definition(each, min(self.room - end, most), related=True)

    def _file(self, path: str) -> None:
        """A file that the task names: whole, or else its outline, or the lines with words of the task."""
        raw = self.files.raw(path) or self.files.raw(path, most=self.characters)
        if raw is None:
            return
        source = Source(path, raw)
        every, large = range(1, len(source.lines) + 1), self.files.sizes[path] > len(raw)
        if not large and self._add(source, path, every, min(self.room, self.characters // 2)):
            return
        heads = [line for each in source.definitions if not each.nested for line in _head(each)]
        if heads and self._add(source, path, heads, self.room // 4, OUTLINE):
            return
        if large or re.search(r"\.(csv|tsv|jsonl|log)$", path):
            self._excerpt(source, every[:HEAD], 0)
        else:
            self._excerpt(source, self._telling(source, every), AROUND)

    def _telling(self, source: Source, lines: Iterable[int]) -> list[int]:
        """Headings, and the lines with words that the task has and these lines have rarely."""
        words = {*self.search.named.names, *self.search.named.words}
        texts = {line: set(re.findall(r"\w+", source.lines[line - 1])) & words for line in lines}
        often = {word for word in words if sum(word in each for each in texts.values()) > 12}
        return [
            line for line, each in texts.items() if each - often or source.lines[line - 1].startswith("#")
        ]

    def _excerpt(self, source: Source, lines: Iterable[int], around: int) -> None:
        room, taken = min(self.room, self.characters // 4), set[int]()
        for line in dict.fromkeys(near for each in lines for near in _near(source, each, around)):
            room -= len(source.lines[line - 1]) + 8
            if room < len(EXCERPT):
                break
            taken.add(line)
        if not taken or not self._add(source, source.path, taken, self.room, EXCERPT):
            self.left.append(source.path)

    def _definition(self, found: Definition, room: int, related: bool = False) -> None:
        """A definition whole, with its class if that is small; else an outline, or an excerpt."""
        source = self.search.source(found.path)
        if source is None:
            return
        around = next(
            (each for each in source.definitions if each.full == found.owner and not each.nested), None
        )
        whole = around and len(source.text(around)) <= min(room, self.characters // 9)
        of = around if around and whole else found
        large = of.kind == "class" and len(source.text(of)) > self.characters // 3
        if not large and self._add(source, of.title, of.lines, room):
            return
        lines = set(_head(of))
        if of.kind == "class":
            members = [each for each in source.definitions if each.owner == of.full and not each.nested]
            lines.update(
                line for each in members for line in (each.lines if each in self._core else _head(each))
            )
        elif len(of.lines) >= HELPER:
            telling = self._telling(source, of.lines)
            lines.update(near for line in telling for near in _near(source, line, AROUND) if near in of.lines)
        wanted = of.kind == "class" or (len(lines) > len(_head(of)) and not related)
        if not (
            wanted and self._add(source, of.title, lines, room, OUTLINE if of.kind == "class" else EXCERPT)
        ):
            self.left += [] if related else [of.title]

    def _add(self, source: Source, name: str, lines: Iterable[int], room: int, note: str = "") -> bool:
        """Show these lines if they fit; whether they are shown now."""
        wanted, before = sorted(set(lines)), self._lines.setdefault(source.path, set())
        if before.issuperset(wanted):
            return True
        if sum(len(source.lines[line - 1]) + len(str(line)) + 2 for line in wanted) > room:
            return False
        text = "\n".join([*_numbered(source, wanted), *([note] if note else [])])
        if len(text) <= room:
            before.update(wanted)
            self.room -= len(text)
            self.shown.append(Shown(shown_name(name), source.path, wanted[0], wanted[-1], text))
        return len(text) <= room


def _head(of: Definition) -> range:
    """The lines of a definition without its body."""
    return range(of.first, min(of.head, of.last) + 1)


def _near(source: Source, line: int, around: int) -> range:
    return range(max(line - around, 1), min(line + around, len(source.lines)) + 1)


def _numbered(source: Source, lines: list[int]) -> list[str]:
    """Lines with their numbers and without secrets; what stands for a secret has as many lines as it had."""
    key = re.search(rb"PRIVATE KEY|Private-Lines", source.raw)  # goes over many lines
    first, last = (0, len(source.lines)) if key else (max(lines[0] - 5, 0), lines[-1] + 4)
    hide = redactor(lambda name, value: f"[redacted {name}]" + "\n" * value.count("\n"))
    texts = hide("\n".join(source.lines[first:last])).split("\n")
    return [f"{line}\t{texts[line - 1 - first]}" for line in lines]
