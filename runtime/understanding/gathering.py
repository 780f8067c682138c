"""Gathers what a model is shown of a folder before it is asked: what the task names, one hop more, tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.sandbox.tests_by_name import is_test
from runtime.secrets.redaction import redact, redactor
from runtime.text.shown import shown_name
from runtime.understanding.folder import Files, listing
from runtime.understanding.names import named
from runtime.understanding.search import Search
from runtime.understanding.source import Definition, Source

LEFT, TESTS = 8, 3
"""Maximum names of what was left out, and tests that are shown."""
HEAD, AROUND, HELPER = 20, 2, 12
"""Lines of the head of a table, around a line of an excerpt, and of a helper shown with its test."""
USUAL = 8_500
"""Characters for what is shown with what the task names; what it names may need more."""
IMPORTS = 600
"""Characters of the imports of a file that are shown."""
LONG = 6_000
"""Characters of a function that nothing names and that is shown."""
SMALL = 1_500
"""Characters of a function that is shown whole because a text of the task stands in it."""
SMALL_CLASS, CLASS = 2_000, 9_000
"""Characters of a class that is shown whole with one of its methods, and if the task names it."""
BEST = 3
"""The first definitions that nothing names: they are shown beyond the room of the others."""
DOCSTRING = 20
"""Lines of the docstring of a named function that are shown."""
NAMES = 360
"""Characters for the names of the methods of a class that are not shown."""
GAP = 3
"""Lines that may be missing between two lines without a mark: they are empty."""
OUTLINE, EXCERPT = "(outline: bodies left out)", "(excerpt: the other lines are left out)"
_NUMBER = re.compile(r"(\d+)\t")


@dataclass(frozen=True)
class Shown:
    """A part of a file: `text` has its lines with their numbers, `12<tab>line`, counted from 1.

    Lines without a number follow them: they say what was left out.
    """

    name: str
    path: str
    first: int
    last: int
    text: str
    total: int = 0  # lines of the file; 0 if it was not read to its end


@dataclass(frozen=True)
class Gathered:
    """What a folder has for a task: `shown` and `left` with the most important first."""

    listing: str
    shown: tuple[Shown, ...]
    left: tuple[str, ...]

    def by_file(self) -> Iterator[tuple[str, str]]:
        """The parts of each file together, in the order of its lines: a title with its path, and the text."""
        for path in dict.fromkeys(each.path for each in self.shown):
            parts = [each for each in self.shown if each.path == path]
            rows = [row for each in parts for row in each.text.split("\n")]
            lines = {int(hit[1]): row for row in rows if (hit := _NUMBER.match(row))}
            text, before = list[str](), 0
            for number in sorted(lines):
                text += ["…"] * (before > 0 and number > before + GAP) + [lines[number]]
                before = number
            text += dict.fromkeys(row for row in rows if not _NUMBER.match(row))
            total = f" ({parts[0].total:,} lines)" if parts[0].total else ""
            yield f"{shown_name(path)}{total}", "\n".join(text)


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
    brief = bool(offer.shown)
    listed = listing(files, (each.path for each in offer.shown), search.folders(), brief=brief)
    left = dict.fromkeys(map(shown_name, [*offer.left, *(each.title for each in search.unclear)]))
    return Gathered(redact(listed), tuple(offer.shown), tuple(left)[:LEFT])


class _Offer:
    def __init__(self, files: Files, search: Search, characters: int) -> None:
        self.files, self.search, self.room, self.characters = files, search, characters, characters
        self.usual = min(USUAL, characters)
        self.shown: list[Shown] = []
        self.left: list[str] = []
        self._lines: dict[str, set[int]] = {}  # what is shown of each file
        self._core: list[Definition] = []  # the definitions that the task names
        self._outlined: dict[int, Definition] = {}  # classes, by their place in `shown`

    def fill(self) -> None:
        """Show the files and definitions that the task names, then what these use, then their tests."""
        for path in self.search.paths():
            self._file(path)
        for path, line in self.search.frames():
            source = self.search.source(path)
            if source and (of := source.enclosing(line, "function") or source.enclosing(line)):
                self._core.append(of)
            elif raw := self.files.raw(path):
                self._excerpt(Source(path, raw), [line], 4 * AROUND)
        named = [self._around(each) for each in self.search.definitions()]
        self._core = list(dict.fromkeys([*self._core, *named]))
        for each in self._core:
            self._definition(each, self.room)
        for each, lines in self.search.with_keys().items():
            if each not in self._core and self._part(each, lines):
                self._core.append(each)
        self._helpers()
        if self._core and (source := self.search.source(self._core[0].path)):
            self._imports(source, self.room, IMPORTS // 2)
        self._related(max(self.usual - self._used(), self.usual // 2))
        self._tests(self.usual // 5)
        self._name_members()

    def _used(self) -> int:
        return self.characters - self.room

    def _around(self, found: Definition) -> Definition:
        """The function that a nested one is in."""
        source = self.search.source(found.path)
        around = source.enclosing(found.first, "function") if source and found.nested else None
        return around or found

    def _tests(self, room: int) -> None:
        """A few tests of one file, and of those that the task names, with small helpers and its imports."""
        end = self.room - min(room, self.room)
        tests = self.search.tests(self._core or self.search.related(self._core)[:2])
        said = self.search.paths()
        firsts = {each.path: each for each in reversed(tests) if each.path in said}
        best = tests[0].path if tests else ""
        ordered = dict.fromkeys([*firsts.values(), *(each for each in tests if each.path == best)])
        for path in dict.fromkeys([*firsts, best]):
            if source := self.search.source(path):
                self._imports(source, self.room - end, IMPORTS)
        shown = 0
        for test in ordered:
            source = self.search.source(test.path)
            if shown == TESTS or source is None or self.room <= end:
                break
            lines = self._lines_of(source, test)
            short = [each for each in lines if each not in range(test.first + HELPER // 2, test.head)]
            if not any(self._add(source, test.title, some, self.room - end) for some in (lines, short)):
                continue
            shown += 1
            own = {each.name: each for each in source.definitions if not each.owner}
            for each in (own[name] for name in source.used(test) if name in own):
                if not re.match("(?i)test", each.name) and not each.nested and len(each.lines) <= HELPER:
                    self._add(source, each.title, each.lines, min(self.room - end, room // 4))

    def _imports(self, source: Source, room: int, most: int) -> None:
        """The imports at the head of a file, as far as they have room."""
        taken, left = list[int](), min(room, most)
        for line in source.imports():
            left -= len(source.lines[line - 1]) + 6
            if left < 0:
                break
            taken.append(line)
        if taken:
            self._add(source, f"{source.path}:{taken[0]}-{taken[-1]} imports", taken, self.room)

    def _related(self, room: int) -> None:
        """What the named definitions use, and what has the words of the task: what is most like it."""
        end = max(0, self.room - room)
        likely = [each for each in self.search.related(self._core) if each not in self._core]
        for place, each in enumerate(likely):
            best = place < BEST and not self._core
            self._definition(each, self.room - (0 if best else end), related=True)

    def _helpers(self) -> None:
        """The small functions and values that the named functions use, and these use."""
        end, small = max(0, self.room - self.usual // 6), self.usual // 16
        using = [each for each in self._core if each.kind != "value"]
        for _ in range(2):
            used = dict.fromkeys(other for one in using for other in self.search.used(one))
            short = [o for o in used if o.kind != "class" and len(self.search.text(o)) <= small]
            using = [each for each in short if self._definition(each, self.room - end, related=True)]

    def _file(self, path: str) -> None:
        """A file that the task names: whole, or else its outline, or the lines with words of the task.

        Of a large file of tests `_tests` shows some.
        """
        raw = self.files.raw(path) or self.files.raw(path, most=self.characters)
        if raw is None:
            return
        source = Source(path, raw)
        every, large = range(1, len(source.lines) + 1), self.files.sizes[path] > len(raw)
        heads = [line for each in source.definitions if not each.nested for line in _head(each)]
        most = self.usual * 3 // 4 if heads else self.characters // 2
        if not large and self._add(source, path, every, min(self.room, most)):
            return
        if heads and is_test(path):
            return
        if heads and self._add(source, path, heads, min(self.room, self.usual // 3), OUTLINE):
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

    def _definition(self, found: Definition, room: int, related: bool = False) -> bool:
        """A definition whole, with its class if that is small; of a large class the named methods.

        Returns whether it is shown now.
        """
        source = self.search.source(found.path)
        if source is None:
            return False
        around = source.owner(found)
        small = around and len(source.text(around)) <= min(room, SMALL_CLASS)
        of = around if around and small else found
        lines = self._lines_of(source, of)
        most = (LONG if related else self.usual) if of.kind != "class" else CLASS
        if self._add(source, of.title, lines, min(room, most)):
            return True
        if of.kind == "class":
            members = [each for each in source.definitions if each in self._core and each.owner == of.full]
            lines = [*_head(of), *(line for each in members for line in self._lines_of(source, each))]
            if self._add(source, of.title, lines, room - NAMES):
                self._outlined[len(self.shown) - 1] = of
                self.room -= NAMES
                return True
        elif of.kind == "function":
            telling = self._telling(source, of.lines[len(_head(of)) :])
            near = {near for line in telling for near in _near(source, line, AROUND) if near in of.lines}
            most = min(room, LONG if related else self.usual)
            if near and self._add(source, of.title, {*_head(of), *near}, most, EXCERPT):
                return True
        self.left += [of.title]
        return False

    def _lines_of(self, source: Source, of: Definition) -> list[int]:
        """The lines of a definition, and the one that begins its class.

        Long docstrings are left out, unless the task is about them.
        """
        inside = [each for each in source.definitions if each.start >= of.start and each.end <= of.end]
        meant = "docstring" in self.search.named.task.lower()
        long = {each: source.docstring(each) for each in inside if not meant}
        named = of in self._core and of.kind == "function"
        left = {line for lines in long.values() if not named or len(lines) > DOCSTRING for line in lines}
        around = source.owner(of)
        return [*([around.head] if around else []), *(line for line in of.lines if line not in left)]

    def _part(self, of: Definition, lines: list[int]) -> bool:
        """A definition whole if it is small, else its head and what is around some of its lines."""
        source = self.search.source(of.path)
        if source is None or len(source.text(of)) <= SMALL:
            return self._definition(of, self.room)
        near = {n for line in lines for n in _near(source, line, AROUND) if n in of.lines}
        return self._add(source, of.title, {*_head(of), *near}, self.room, EXCERPT)

    def _name_members(self) -> None:
        """Name the methods of the outlined classes that are not shown."""
        for at, of in self._outlined.items():
            source = self.search.source(of.path)
            members = [each for each in source.definitions if each.owner == of.full] if source else []
            lines = self._lines[of.path]
            unseen = [each for each in members if each.kind != "value" and not lines.issuperset(each.lines)]
            listed = ", ".join(f"{each.name} {each.first}-{each.last}" for each in unseen)
            if len(listed) > NAMES - 40:
                listed = f"{listed[: listed.rfind(',', 0, NAMES - 40)]}, …"
            note = f"(not shown of {of.full}: {listed})" if listed else OUTLINE
            self.shown[at] = replace(self.shown[at], text=f"{self.shown[at].text}\n{note}")

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
            total = len(source.lines) if self.files.sizes[source.path] <= len(source.raw) else 0
            self.shown.append(Shown(shown_name(name), source.path, wanted[0], wanted[-1], text, total))
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
