"""Reflexes as markdown files, and their shelf: phrasings with typed slots, steps, criteria and output.

The shelf also holds the words that all reflexes share (`language.md`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

from kernel.errors import ConfigurationError
from kernel.tools.tool import Tool
from runtime.catalogue.pattern import Fault, load
from runtime.found_files import version
from runtime.memory.tasks import signing
from runtime.memory.tasks.signing import Makers
from runtime.pinned import allowed
from runtime.pinned import read as read_allowed
from runtime.reflexes import columns, exact, names, values
from runtime.reflexes.intents import Intent, Intents
from runtime.reflexes.phrasing import Phrasing, PhrasingError, choices, needed, phrase_words
from runtime.reflexes.slots import (
    Earlier,
    Language,
    Named,
    Reader,
    Words,
    by_first_word,
    choice_of,
    list_of,
    those_like,
)
from runtime.text.expressions import empty

_SINGLE = {**values.KINDS, **names.KINDS, **columns.KINDS}
READERS: Mapping[str, Reader] = {
    **_SINGLE,
    **{
        f"{name}s": list_of(_SINGLE[name])
        for name in (
            "number",
            "path",
            "named path",
            "file",
            "folder",
            "bare folder",
            "place",
            "column",
            "known column",
        )
    },
    **{f"several {name}s": list_of(_SINGLE[name], 2) for name in ("number", "path", "item", "known column")},
    **exact.KINDS,
}
"""The kinds of slots that code reads."""


LANGUAGE = "language.md"
"""The file with the words that all reflexes share."""
METHODS = "methods"
"""The folder of learned methods, which has no subfolder `reflexes`."""
_USES_IT = re.compile(r"\{\{\s*(?:it|they|it_(?!file|column)\w+)\b")
_LOOKING_COMMANDS = ("{ grep ", "grep ", "test -f ", "if test -e ")
"""Beginnings of shell commands of shipped reflexes that only look."""
_KNOWN = frozenset(
    {
        "name",
        "description",
        "phrasings",
        "intents",
        "slots",
        "defaults",
        "needs",
        "refuse",
        "also",
        "reshapes",
        "steps",
        "success",
        "output",
    }
    | {"gives", "about", "column", "facts", "status", "origin", "mark", "made-by"}
)


@dataclass(frozen=True)
class Procedure:
    """One reflex, from its frontmatter."""

    name: str
    path: Path
    description: str
    phrasings: tuple[Phrasing, ...]
    intents: tuple[Intent, ...]
    steps: tuple[Mapping[str, Any], ...]  # {tool, args, each?}: a call, or one for each value of a list
    success: tuple[Mapping[str, Any], ...]
    output: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""  # the shape that the result before must have
    refuse: frozenset[str] = frozenset()  # words that show that something else is meant
    also: Named = field(default_factory=dict)  # what a task read by an intent may say, and it does anyway
    gives: tuple[str, ...] = ("text",)  # the shapes of its own result
    about: str = ""  # the file that `it` means afterwards
    reshapes: bool = False  # prints the file in another form; beside a change, the file itself may be meant
    column: str = ""  # of a table, the column that a total is about; of a number, what it counts
    facts: Mapping[str, str] = field(default_factory=dict)  # where its total or count stands
    status: str = "active"
    made_by: tuple[str, ...] = ()  # of a learned method that no person approved of
    systems: tuple[Path, ...] = ()  # whose operations it calls

    @property
    def file(self) -> str:
        """Its path for display."""
        return f"{'state/memory/methods' if self.learned else 'system/reflexes'}/{self.path.name}"

    @property
    def learned(self) -> bool:
        """Whether it is a learned method."""
        return self.path.parent.name == METHODS

    def may_read(self, words: frozenset[str], prior: Sequence[Earlier]) -> bool:
        """Whether a task with these words, after these results, may be one for it."""
        return self.refuse.isdisjoint(words) and self.fits_after(prior)

    def fits_after(self, prior: Sequence[Earlier]) -> bool:
        """Whether the results before have the shape that it needs."""
        if not self.needs:
            return True
        numbers = all("number" in each.shapes for each in prior)
        if self.needs == "one number":
            return len(prior) == 1 and numbers
        if self.needs == "several numbers":
            return len(prior) > 1 and numbers and len({each.column for each in prior}) == 1
        return bool(prior) and self.needs in prior[-1].shapes

    @cached_property
    def uses_it(self) -> bool:
        """Whether its steps or output need the text of the result before."""
        return bool(_USES_IT.search(repr((self.steps, self.output))))

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The slots that its plan uses."""
        plan = repr((self.steps, self.success, self.output, self.about, self.facts))
        return frozenset(
            name for hole in re.findall(r"\{\{(.*?)\}\}", plan) for name in re.findall(r"\w+", hole)
        )

    @cached_property
    def changes(self) -> bool:
        """Whether it may do more than look."""
        return any(not _looks(step, self.systems) for step in self.steps)

    def faults(self) -> list[Fault]:
        """The invalid phrasings and intents."""
        found: list[Fault] = []
        for pattern in (*self.phrasings, *self.intents):
            try:
                _ = pattern.graph if isinstance(pattern, Phrasing) else pattern.items
            except PhrasingError as error:
                lines = self.path.read_text("utf-8", errors="replace").splitlines()
                line = next((at for at, text in enumerate(lines, 1) if text.strip() == pattern.text), 1)
                found.append(Fault(self.path, line, str(error)))
        return found


def _looks(step: Mapping[str, Any], systems: Sequence[Path]) -> bool:
    """Whether a step changes nothing: its call only reads."""
    name, args = str(step["tool"]), step.get("args") or {}
    if name == "bash":
        return str(args.get("command")).startswith(_LOOKING_COMMANDS)
    tool = _operation(name, systems)
    return tool is not None and not tool.changes(args)


def _operation(name: str, systems: Sequence[Path]) -> Tool | None:
    """An operation from the first folder that has it; None if it is missing or invalid."""
    for folder in systems:
        for kind in ("operations", "kernel"):
            path = folder / kind / f"{name}.md"
            if found := version(str(path)):
                tool = load(path, *found, allowed(path))
                return tool if isinstance(tool, Tool) else None
    return None


_INVALID = (TypeError, ValueError, AttributeError, re.error)
"""Errors of words that cannot be read."""


@dataclass(frozen=True)
class Shelf:
    """All reflexes that may be used now, with the words that they share."""

    procedures: tuple[Procedure, ...] = ()
    language: Language = field(default_factory=Language)
    systems: tuple[Path, ...] = ()  # whose operations and words count
    joins: tuple[tuple[str, ...], ...] = ()
    before: tuple[tuple[str, ...], ...] = ()  # courtesies before and after a task
    after: tuple[tuple[str, ...], ...] = ()
    wrote: re.Pattern[str] | None = None  # a result that names the file (and columns) that it is about
    nothing: re.Pattern[str] | None = None  # a result that says that there is none
    total: re.Pattern[str] | None = None  # where a result says a total

    @cached_property
    def opening(self) -> Named:
        """The courtesies before a task, by their first word."""
        return by_first_word({"": self.before})

    @cached_property
    def closing(self) -> Mapping[str, list[Words]]:
        """The courtesies after a task, by their last word."""
        found: dict[str, list[Words]] = {}
        for words in self.after:
            found.setdefault(words[-1], []).append(words)
        return found

    @cached_property
    def joining(self) -> Named:
        """The joining words, by their first word."""
        return by_first_word({"": self.joins})

    @cached_property
    def intents(self) -> Intents:
        """Reads tasks by intents."""
        return Intents(self)


class Reflexes:
    """The shelf of a list of system folders; of files with one name the first folder's counts."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self.shelf = Shelf()
        self._faults: list[Fault] = []
        self._drafts: list[Procedure] = []
        self.version = 0
        self._stats: dict[Path, tuple[int, int]] = {}
        self._read: dict[Path, str | Fault] = {}
        self.refresh()

    @property
    def faults(self) -> list[Fault]:
        """The files and phrasings that are invalid; compiles all phrasings."""
        drafts = (fault for each in self._drafts for fault in each.faults() or [_draft(each.path)])
        return [*self._faults, *drafts, *(fault for each in self.shelf.procedures for fault in each.faults())]

    def refresh(self) -> bool:
        """Read changed files again (by stat); True if any changed."""
        stats = self._find()
        if stats == self._stats and self.version:
            return False
        self._read = {
            path: self._read[path] if self._stats.get(path) == stat else _text(path)
            for path, stat in stats.items()
        }
        self._stats = stats
        self.version += 1
        built, faults = _built(self.folders, self._read)
        self._drafts = [each for each in built.procedures if each.learned and not self._is_signed(each.path)]
        used = (each for each in built.procedures if each not in self._drafts)
        self.shelf = replace(built, procedures=tuple(used))
        self._faults = list(faults)
        return True

    def _is_signed(self, path: Path) -> bool:
        text = self._read[path]
        return isinstance(text, str) and signing.is_signed(text)

    def made_by(self, makers: Makers) -> Shelf:
        """The shelf without the methods of makers that are not among these."""
        learned = [each for each in self.shelf.procedures if each.made_by]
        present = makers() if learned else None
        gone = [each for each in learned if signing.gone(each.made_by, present)]
        if not gone:
            return self.shelf
        return replace(self.shelf, procedures=tuple(e for e in self.shelf.procedures if e not in gone))

    def _find(self) -> dict[Path, tuple[int, int]]:
        found: dict[str, tuple[Path, tuple[int, int]]] = {}
        for folder in self.folders:
            place = folder if folder.name == METHODS else folder / "reflexes"
            learned = place.name == METHODS
            for path in place.glob("*.md"):
                name = f"{path.name}/{METHODS}" if learned else path.name  # it hides none that ships
                if name not in found and not (learned and path.name == LANGUAGE) and (stat := version(path)):
                    found[name] = path, stat
        return {path: stat for _, (path, stat) in sorted(found.items())}


def _built(folders: tuple[Path, ...], texts: Mapping[Path, str | Fault]) -> tuple[Shelf, tuple[Fault, ...]]:
    """The shelf of these texts, and what is invalid."""
    words = next(((path, text) for path, text in texts.items() if path.name == LANGUAGE), None)
    shared = _shared(*words) if words else Shelf()
    language = words if isinstance(shared, Shelf) else None
    read = [_compiled(path, text, language) for path, text in texts.items() if path.name != LANGUAGE]
    faults = tuple(each for each in (shared, *read) if isinstance(each, Fault))
    shelf = shared if isinstance(shared, Shelf) else Shelf()
    systems = tuple(folder for folder in folders if folder.name != METHODS)  # it has no other instructions
    # copies: whether one changes something is kept in it, and the files of its operations may change
    active = (each for each in read if isinstance(each, Procedure) and each.status == "active")
    procedures = tuple(replace(each, systems=systems) for each in active)
    return replace(shelf, procedures=procedures, systems=systems), faults


@lru_cache(maxsize=8)
def _shared(path: Path, text: str | Fault) -> Shelf | Fault:
    """The words that reflexes share. What is read serves all runs of a process."""
    meta = text if isinstance(text, Fault) else _meta(path, text)
    try:
        return meta if isinstance(meta, Fault) else _shelf(meta)
    except _INVALID as error:
        return Fault(path, 1, f"the shared words cannot be read: {error}")


@lru_cache(maxsize=1024)
def _compiled(path: Path, text: str | Fault, words: tuple[Path, str | Fault] | None) -> Procedure | Fault:
    """The reflex of a file with these shared words. What is compiled serves all runs of a process."""
    shared = _shared(*words) if words else Shelf()
    meta = text if isinstance(text, Fault) else _meta(path, text)
    return meta if isinstance(meta, Fault) else _parse(path, meta, cast(Shelf, shared).language)


def shared_words(folders: Sequence[Path]) -> Shelf:
    """The shelf without reflexes: the words of the first `language.md` that says `kinds`."""
    for folder in folders:
        path = folder / "reflexes" / LANGUAGE
        shelf = _shared(path, _text(path))
        if isinstance(shelf, Shelf) and shelf.language.kinds:
            return replace(shelf, systems=tuple(folders))
    return Shelf()


def read(path: Path, text: str, shelf: Shelf) -> Procedure | Fault:
    """A reflex from the text of its file."""
    meta = _meta(path, text)
    found = meta if isinstance(meta, Fault) else _parse(path, meta, shelf.language)
    return found if isinstance(found, Fault) else replace(found, systems=shelf.systems)


def _parse(path: Path, meta: Mapping[str, Any], language: Language) -> Procedure | Fault:
    try:
        return _procedure(path, meta, language)
    except ValueError as error:
        return Fault(path, 1, str(error))


def _draft(path: Path) -> Fault:
    return Fault(path, 1, f"{signing.NOT_OURS}; look at it, then: fractal brain methods on {path.stem}")


def _text(path: Path) -> str | Fault:
    try:
        return read_allowed(path).decode("utf-8")
    except UnicodeDecodeError:
        return Fault(path, 1, "not UTF-8 text; save the file as UTF-8")
    except ConfigurationError as error:
        return Fault(path, 1, str(error).removeprefix(f"{path} "))
    except OSError as error:
        return Fault(path, 1, f"cannot be read: {error.strerror}")


@lru_cache(maxsize=1024)
def _meta(path: Path, text: str) -> Mapping[str, Any] | Fault:
    import yaml

    head = re.match(r"---[ \t]*\n(.*?)^---[ \t]*$", text, re.DOTALL | re.MULTILINE)
    if not head:
        return Fault(path, 1, "there is no frontmatter between two lines of ---")
    try:
        meta = yaml.load(head[1], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        return Fault(path, mark.line + 2 if mark else 1, f"the frontmatter is not YAML: {problem}")
    return meta if isinstance(meta, dict) else Fault(path, 2, "the frontmatter is not a mapping of names")


def _shelf(words: Mapping[str, Any]) -> Shelf:
    """The shared words. Every list is text with `|` between its entries, or a mapping of such lists."""
    lists: Mapping[str, Any] = words.get("lists") or {}
    pronouns: Mapping[str, str] = words.get("pronouns") or {}
    sets = ("refused", "owners", "articles", "markers", "announcing", "limits")

    def listed(name: str) -> tuple[Words, ...]:
        return tuple(phrase_words(str(words.get(name) or "")))

    concepts: Mapping[str, str] = words.get("concepts") or {}

    def concept(found: re.Match[str]) -> str:
        if found[1] not in concepts:
            raise PhrasingError(f"<{found[1]}> is none of the concepts")
        return concepts[found[1]]

    def grouped(name: str) -> dict[str, tuple[Words, ...]]:
        groups: Mapping[str, str] = words.get(name) or {}
        filled = {group: re.sub(r"<([\w-]+)>", concept, text) for group, text in groups.items()}
        return {group: tuple(phrase_words(text)) for group, text in filled.items()}

    def pattern(name: str) -> re.Pattern[str] | None:
        return re.compile(str(words[name])) if words.get(name) else None

    language = Language(
        numbers={word: str(value) for (word,), value in choices(words.get("numbers") or {}).items()},
        months={word: int(value) for (word,), value in choices(words.get("months") or {}).items()},
        operators=choices(words.get("operators") or {}),
        choices={name: choices(values) for name, values in lists.items()},
        classes=dict(words.get("words") or {}),
        text_pronouns=frozenset(phrase_words(pronouns.get("result", ""))),
        file_pronouns=frozenset(phrase_words(pronouns.get("file", ""))),
        **{name: frozenset(str(words.get(name) or "").lower().split()) for name in sets},
        names=frozenset(str(words.get("files") or "").lower().split()),
        descriptions=defaultdict(
            frozenset[str],
            {name: frozenset(str(text).split()) for name, text in (words.get("descriptions") or {}).items()},
        ),
        courtesies=listed("after"),
        aside=listed("aside"),
        concepts=grouped("concepts"),
        prepositions=grouped("prepositions"),
        kinds=grouped("kinds"),
    )
    return Shelf(
        language=language,
        joins=tuple(tuple(word.replace("\\n", "\n") for word in each) for each in listed("joins")),
        before=listed("before"),
        after=listed("after"),
        wrote=pattern("wrote"),
        nothing=pattern("nothing"),
        total=pattern("total"),
    )


def _procedure(path: Path, meta: Mapping[str, Any], language: Language) -> Procedure:
    """A reflex from its frontmatter; raises `ValueError` if that is invalid."""
    if stray := [str(key) for key in meta if key not in _KNOWN]:
        raise ValueError(f"{', '.join(stray)}: a reflex has no such field")
    phrasings, intents = _lines(meta, "phrasings"), _lines(meta, "intents")
    if not phrasings and not intents:
        raise ValueError("phrasings is missing: `phrasings: |` and one phrasing a line")
    steps, success = (
        value if isinstance(value := meta.get(key), list) else [] for key in ("steps", "success")
    )
    if not steps or not all(isinstance(each, dict) and each.get("tool") for each in steps):
        raise ValueError("steps is missing: a list of {tool, args}")
    for each in success if path.parent.name != METHODS else ():
        if isinstance(each, dict) and empty(cast(Mapping[str, Any], each)):
            raise ValueError(f"success: {each['has']!r} matches any text; leave it out, or say what is right")
    kinds = Kinds(meta.get("slots") or {}, language)
    words = needed("\n".join(phrasings))
    status = meta.get("status") or "active"
    return Procedure(
        str(meta.get("name") or path.stem),
        path,
        str(meta.get("description") or ""),
        tuple(Phrasing(line, each, kinds, language) for line, each in zip(phrasings, words, strict=True)),
        tuple(Intent(line, kinds, language) for line in intents),
        tuple(steps),
        tuple(success),
        str(meta.get("output") or f"{{{{ steps[{len(steps)}].result }}}}"),
        defaults=dict(meta.get("defaults") or {}),
        refuse=frozenset(str(meta.get("refuse") or "").lower().split()),
        also=by_first_word({"": phrase_words(str(meta.get("also") or ""))}),
        gives=tuple(re.split(r",\s*", str(meta.get("gives") or "text"))),
        facts=dict(meta.get("facts") or {}),
        status="off" if meta.get("status") is False else "active" if status is True else str(status),
        needs=str(meta.get("needs") or ""),
        about=str(meta.get("about") or ""),
        column=str(meta.get("column") or ""),
        reshapes=bool(meta.get("reshapes")),
        made_by=tuple(map(str, meta.get("made-by") or ())),
    )


def _lines(meta: Mapping[str, Any], name: str) -> list[str]:
    """The lines of a text in the frontmatter."""
    return [line.strip() for line in str(meta.get(name) or "").splitlines() if line.strip()]


class Kinds:
    """Finds the reader of a slot: a list of words of the reflex or of all, or a kind that code reads."""

    def __init__(self, slots: Mapping[str, Any], language: Language) -> None:
        if not isinstance(slots, Mapping):
            raise ValueError("slots is a mapping from names to kinds")
        self.slots = slots
        self.language = language
        self.made: dict[str, tuple[Reader, bool]] = {}

    def __call__(self, name: str) -> tuple[Reader, bool]:
        """The reader of a slot, and whether it is a list of words."""
        if name not in self.made:
            self.made[name] = self._find(self.slots.get(name, name))
        return self.made[name]

    def words(self, name: str) -> tuple[Words, ...] | None:
        """The words of a slot that is a list of words; None when it reads anything else."""
        found = self.kind(name)
        if isinstance(found, Mapping):
            return tuple(choices(found))
        has_choices = found not in READERS and found in self.language.choices
        return tuple(self.language.choices[found]) if has_choices else None

    def kind(self, name: str) -> Any:
        """The kind of a slot that is written `name` or `name:kind`."""
        name, _, kind = name.partition(":")
        kind = kind.strip() or name.strip()
        return self.slots.get(kind, kind)

    def _find(self, kind: Any) -> tuple[Reader, bool]:
        if isinstance(kind, Mapping):
            return choice_of(choices(kind)), True
        if kind in READERS:
            return READERS[kind], False
        base, _, pattern = str(kind).partition(" ")
        if base in READERS and pattern.startswith("*"):
            return those_like(READERS[base], pattern), False
        if kind in self.language.choices:
            return choice_of(self.language.choices[kind]), True
        raise PhrasingError(f"{kind!r} is no kind of slot; there are {', '.join(sorted(READERS))}")
