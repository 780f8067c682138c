"""Finds in a folder what a task names: files, definitions, what these use, and the tests that name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cached_property

from runtime.sandbox.tests_by_name import is_test
from runtime.understanding.folder import Files, is_aside
from runtime.understanding.names import Named, parted
from runtime.understanding.source import Definition, Source, grammar_of

SEARCHED, PARSED, RANKED = 10_000_000, 2_500_000, 600_000
"""Maximum bytes of source files that are searched, parsed, and ranked by the words of the task."""
PLACES, BY_NAME, RELATED = 3, 12, 30
"""Maximum definitions of one name that are shown, files parsed for a name, further definitions considered."""
TOGETHER = 0.3
"""What it adds to a rank to be used with one of the best, and to be in its class."""
SHORT = 5
"""Letters up to which a word of a sentence is no name of a definition."""
BEFORE = 200
"""Maximum characters of a line that are read before a name."""
_DEFINES = re.compile(
    rb"\b(?:def|class|function|func|fn|struct|type|interface|enum|trait|mod|module|const|let|var|define)\b.{0,80}$|"
    rb"^\s*$"
)
"""What stands before a name on the line that defines it; a value has an equals sign after it."""
_FOLDERS = (
    re.compile(r"(?i)\b(?:folder|directory) [`\"']?([\w./-]{1,200})"),
    re.compile(r"(?i)(?<![\w./-])([\w./-]{1,200})[`\"']? (?:folder|directory)\b"),
)
"""A word that is said to be a folder."""
_TYPED = (".c", ".cc", ".cpp", ".h", ".hpp", ".cs", ".java")
"""Files of languages in which no keyword stands before a function."""
LOOKS = 200_000
"""Maximum places of names in texts that are looked at for a definition."""
_IS_TEST = re.compile(r"(?i)(^|\.)(test|it )|Tests?\b|should")
"""The name of a test with its class, or its title in JavaScript."""
_IMPORT = re.compile(r"^[ \t]*(?:from|import|use|require|#include|export|\S.*\brequire\().*$", re.MULTILINE)


class Search:
    """Looks up what is `named` in `files`. A file is parsed only if it contains what is looked up."""

    def __init__(self, files: Files, named: Named) -> None:
        self.files, self.named = files, named
        self.unclear: list[Definition] = []  # places of a name that has too many of them
        self._sources: dict[str, Source | None] = {}
        self._looks = iter(range(LOOKS))
        self._hops: dict[Definition, tuple[Definition, ...]] = {}

    @cached_property
    def _raw(self) -> dict[str, bytes]:
        """The source files, those first whose name or folder the task mentions, then the nearest ones."""
        found, room = dict[str, bytes](), SEARCHED

        def rank(path: str) -> tuple[bool, int, str]:
            return self.named.around.isdisjoint(re.split("[/.]", path)), path.count("/"), path

        for path in sorted(filter(grammar_of, self.files.sizes), key=rank):
            if self.files.sizes[path] <= room and (raw := self.files.raw(path)):
                room -= len(raw)
                found[path] = raw
        return found

    def source(self, path: str) -> Source | None:
        """A source file; None if it may not be read, and once too much was parsed."""
        if path not in self._sources:
            raw, parsed = self._raw.get(path), sum(len(each.raw) for each in self._sources.values() if each)
            self._sources[path] = Source(path, raw) if raw and parsed + len(raw) <= PARSED else None
        return self._sources[path]

    def text(self, of: Definition) -> str:
        """The lines of a definition."""
        source = self.source(of.path)
        return source.text(of) if source else ""

    def _in(self, path: str) -> tuple[Definition, ...]:
        source = self.source(path)
        return source.definitions if source else ()

    def paths(self) -> list[str]:
        """The files that the task names; then those of a folder that it names."""
        fits = [self.files.fitting(said) for said in self.named.paths]
        named = [path for each in fits if len(each) <= PLACES for path in each]
        every = self.files.sizes
        named += [path for path in every if " " in path and path.rpartition("/")[2] in self.named.task]
        for place in self.folders():
            below = [path for path in every if path.startswith(place) and not grammar_of(path)]
            named += below if len(below) <= BY_NAME else []
        return list(dict.fromkeys(named))

    def folders(self) -> list[str]:
        """The folders that the task names, with a slash at the end."""
        told = [name for each in _FOLDERS for name in each.findall(self.named.task)]
        said = [*(each for each in self.named.paths if "/" in each), *told]
        places = dict.fromkeys(f"{each.strip('./')}/" for each in said)
        return [each for each in places if any(path.startswith(each) for path in self.files.sizes)]

    def frames(self) -> Iterator[tuple[str, int]]:
        """The places of tracebacks that are in the folder, the innermost first."""
        for said, line in reversed(self.named.frames):
            if len(fits := self.files.fitting(said)) == 1:
                yield fits[0], line

    def definitions(self) -> Iterator[Definition]:
        """The definitions that the task names, as code or in a sentence about them."""
        for name, before in self.named.names.items():
            places = self._places(name)
            scores = [self._fits(each, before) for each in places]
            best = [each for each, score in zip(places, scores, strict=True) if score == max(scores)]
            yield from best if len(best) <= PLACES else ()
            self.unclear += best if len(best) > PLACES else []
        for word in self.named.spoken:
            places = self._places(word)
            yield from places if len(places) < PLACES else ()

    def with_keys(self) -> dict[Definition, list[int]]:
        """The definitions with an option, key or message of the task in a string, and its lines."""
        found = dict[Definition, list[int]]()
        for each in self._holding(self.named.keys):
            lines = self.text(each).split("\n")
            found[each] = [
                n
                for n, line in zip(each.lines, lines, strict=False)
                if any(k in line for k in self.named.keys)
            ]
        return found

    def _places(self, name: str) -> list[Definition]:
        """The definitions of a name, in tests only if the task names a test or the file."""
        paths = [path for path, raw in self._raw.items() if name.encode() in raw]
        paths = [path for path in paths if path.endswith(_TYPED) or self._defines(path, name)]
        every = [each for path in sorted(paths, key=is_aside)[:BY_NAME] for each in self._in(path)]
        alike = sorted((each for each in every if each.name == name), key=lambda each: each.end - each.start)
        largest = {(each.path, each.full): each for each in alike}  # of overloads
        every = [each for each in every if largest.get((each.path, each.full)) == each]
        for other in (is_aside, is_test):
            if own := [each for each in every if not other(each.path)]:
                return own
        return [
            each for each in every if name[:4] in ("test", "Test") or _module(each.path) in self.named.around
        ]

    def _defines(self, path: str, name: str) -> bool:
        return _defines(self._raw[path], name.encode(), self._looks)

    def _fits(self, found: Definition, before: frozenset[str]) -> int:
        """How well a definition fits what stands before its name, and what else the task names."""
        module, owner = _module(found.path), found.owner.rsplit(".", 1)[-1]
        score = 4 * (owner in before) + 3 * (module in before) + 2 * (owner in self.named.names)
        return 4 * score + 2 * (module in self.named.around) + (not owner) - 8 * (found.nested and not score)

    def _holding(self, keys: Iterable[str]) -> Iterator[Definition]:
        """The definitions with an option, key or message in a string, if they are few."""
        for key in keys:
            paths = [path for path, raw in self._raw.items() if key.encode() in raw and not is_aside(path)]
            sources = [source for path in paths[: 4 * BY_NAME] if (source := self.source(path))]
            found = dict.fromkeys(each for source in sources for each in source.holding(key))
            yield from found if len(found) <= PLACES else ()

    def related(self, core: list[Definition]) -> list[Definition]:
        """What the definitions in `core` use, and what has the words of the task, the most alike first."""
        first = dict.fromkeys(each for found in core for each in self.used(found))
        first |= dict.fromkeys(self._holding(self.named.options))
        second = dict.fromkeys(each for found in first for each in self.used(found))
        said = {each.lower() for each in self.named.words if len(each) > SHORT}
        rank = {
            each: (1 + (each in first) + (each in second) / 2 + (each.name.lower() in said)) * score
            for each, score in self._scores.items()
        }
        likely = sorted(rank, key=lambda each: -rank[each])[: 2 * RELATED]
        best = likely[:2]  # what works together with these is likelier
        mates = {each for found in best for each in self.used(found)}
        owners = {(each.path, each.owner) for each in best if each.owner}
        for each in likely:
            together = each in mates or not {*best}.isdisjoint(self.used(each))
            rank[each] *= 1 + TOGETHER * (each not in best) * (together + ((each.path, each.owner) in owners))
        likely.sort(key=lambda each: -rank[each])
        return likely[:RELATED]

    @cached_property
    def _scores(self) -> dict[Definition, float]:
        """How well each function fits the words of the task: BM25, with a name counting more than a body."""
        import sqlite3

        places = {part for path in self._raw for part in path.split("/")[:-1]}  # their names are everywhere
        words = [each for each in self.named.weighed if each not in places]
        lower = {path: raw.lower() for path, raw in list(self._raw.items())[:200] if not is_aside(path)}
        telling = {path: sum(each.encode() in raw for each in set(words)) for path, raw in lower.items()}
        room, every = RANKED, list[Definition]()
        for path in sorted(lower, key=lambda path: (-telling[path], path)):
            room -= len(lower[path])
            if room > 0 and telling[path]:
                every += [each for each in self._in(path) if each.kind == "function" and not each.nested]
        rows = [(parted(each.full), parted(self.text(each))) for each in every]
        with closing(sqlite3.connect(":memory:")) as base:
            base.execute("CREATE VIRTUAL TABLE texts USING fts5(name, body, tokenize='porter')")
            base.executemany("INSERT INTO texts VALUES (?, ?)", rows)
            query = " OR ".join(f'"{word}"' for word in words) or '""'
            ranked = "SELECT rowid, -bm25(texts, 4.0, 1.0) FROM texts WHERE texts MATCH ?"
            hits = {every[row - 1]: score for row, score in base.execute(ranked, (query,))}
        return {each: score * (1.3 if _module(each.path) in words else 1) for each, score in hits.items()}

    def used(self, found: Definition) -> tuple[Definition, ...]:
        """One hop: the class of a method, and what it uses of its class, its file and its package."""
        if found not in self._hops:
            self._hops[found] = tuple(self._used(found))
        return self._hops[found]

    def _used(self, found: Definition) -> Iterator[Definition]:
        source = self.source(found.path)
        names = source.used(found) if source else []
        near = [each for each in self._in(found.path) if not each.nested]
        yield from (each for each in near if each.full == found.owner)
        local = {each.name: each for each in near if each.owner in ("", found.owner)}
        inner = [local[name] for name in names if name in local and local[name].full != found.owner]
        yield from inner
        classes = {each.full for each in inner if each.kind == "class"}
        yield from (each for each in near if each.owner in classes and each.name in names)
        lines = _IMPORT.findall("\n".join(source.lines)) if source else []
        imports = [set(re.findall(r"\w+", each)) for each in lines]
        for name in (name for name in names if name not in local):
            words = sorted(set[str]().union(*(each for each in imports if name in each)))
            paths = [path for word in words for path in self._modules.get(word, ()) if path != found.path]
            for path in [path for path in paths if name.encode() in self._raw[path]][:2]:
                yield from [each for each in self._in(path) if each.full == name][-1:]  # after its overloads

    @cached_property
    def _modules(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in (path for path in self._raw if not is_aside(path)):
            found.setdefault(_stem(path), []).append(path)
        return found

    def tests(self, of: list[Definition]) -> list[Definition]:
        """The tests that name one of these definitions or its class, the most telling first."""
        symbols = {name for each in of for name in (each.name, each.owner.rsplit(".", 1)[-1])} - {""}
        modules = {_module(each.path).strip("_") for each in of}
        words, names = set(self.named.words), set(self.named.names)
        rank: dict[Definition, float] = {}
        beside = [*modules, *(each.lower() for each in symbols if len(each) > 3)]
        near = {path: any(each in _stem(path) for each in beside) for path in filter(is_test, self._raw)}
        named = {each.name.lower().rstrip("s") for each in of}
        for path, close in sorted(near.items(), key=lambda each: not each[1]):
            text = self._raw[path].decode()
            there = any(each in text for each in (symbols if close else modules))
            for each in self._in(path) if there and len(rank) < BY_NAME * 20 else ():
                used, title = set(re.findall(r"\w+", self.text(each))), set(each.name.split("_"))
                is_one = each.kind == "function" and not each.nested and _IS_TEST.search(each.full)
                if is_one and not symbols.isdisjoint(used):
                    parts = {part.rstrip("s") for part in _stem(path).lower().split("_")}
                    own = 5 - len(parts) if not named.isdisjoint(parts) else 0  # `test_style` for `style`
                    score = 3 * len(symbols & used) + len(names & used) + 3 * close + max(0, own)
                    score += 2 * len(words & title)
                    rank[each] = score + min(3, len(words & (used | title)) / 3)
        return sorted(rank, key=lambda each: (-rank[each], each.end - each.start, each.title))


def _defines(raw: bytes, name: bytes, looks: Iterator[object]) -> bool:
    """Whether it looks as if a name were defined in a text; searching for the name first is fast.

    Each place of the name takes one of the `looks`; when none is left, nothing more is found.
    """
    at = raw.find(name)
    while at >= 0 and next(looks, None) is not None:
        line = raw[max(raw.rfind(b"\n", 0, at) + 1, at - BEFORE) : at]
        after = raw[at + len(name) : at + len(name) + 9]
        if _DEFINES.search(line) and (line.strip() or re.match(rb"\s*[:=]", after)):
            return True
        at = raw.find(name, at + len(name))
    return False


def _stem(path: str) -> str:
    return path.rpartition("/")[-1].partition(".")[0]


def _module(path: str) -> str:
    """The name by which a file is imported."""
    main = _stem(path) in ("__init__", "index", "mod", "lib", "main")
    return path.split("/")[-2] if main and "/" in path else _stem(path)
