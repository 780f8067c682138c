"""The table of programs: which of its words a program reads, writes, sends or runs.

The table is in `system/dangers.md`, which explains its keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from runtime.safety.acts import ANY, ANYTHING, INSIDE, NAME, NOTHING, UNKNOWN, Act, Stream, has_unknown
from runtime.safety.places import loopback

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

EFFECTS = (
    *("reads", "writes", "receives", "deletes", "moves", "empties", "changes", "uses", "saves", "hosts"),
    *("sends", "uploads", "listens"),
)
Reader = Callable[["Shell", "Line", Stream], Stream | None]
"""Follows a command by its words; returns None if what the table says of the program holds as well."""
_TOUCHES = {"writes": "write", "uses": "use", "deletes": "delete", "empties": "empty"}
_MODES = {
    "open": re.compile(r"0?[0-7]*7[0-7]?7|[ugo]*[ao][ugo]*\+?=?[rx]*w[rwxX]*|\+w|0?[0-7]{2}[2367]"),
    "setuid": re.compile(r"0?[4267]\d{3}|[ugoa]*\+[rwxt]*s[rwxst]*"),
}
"""Modes of `chmod` that open a file to everybody, or that make it run as its owner."""
_PATHLIKE = re.compile(r"[./~]|[*?]")
_SENT_FILE = re.compile(r"(?:[\w.\[\]-]*=?)[@<](.+)", re.DOTALL)
_DETOURS = ("-x", "--proxy", "--preproxy", "--socks5", "--resolve", "--connect-to", "-K", "--config")


@dataclass(frozen=True)
class Program:
    """What a program does with its words."""

    values: frozenset[str] = frozenset({"-o", "--output", "--out"})  # options with a value
    long: bool = False  # options begin with one dash and are words
    effects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    code: tuple[tuple[tuple[str, ...], str], ...] = ()  # the words that are code, and its language
    script: frozenset[str] = frozenset()  # the first operand is a script where none of these options is given
    edits: frozenset[str] = frozenset()  # options with which it writes the files that it reads
    lists: frozenset[str] = frozenset()  # options with which it prints paths
    runs: str = ""  # the number of words before a command that it runs, or `text`
    verbs: frozenset[str] = frozenset()  # the first words with which it does so; none: with any
    language: str = ""  # that it interprets
    eval: frozenset[str] = frozenset()  # options with code of this language
    base: frozenset[str] = frozenset()  # the words that name a database
    prints: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()  # the options of which none runs a program; none: they are not known
    starts: frozenset[str] = frozenset()  # files of the folder that it runs without their names
    how: str = ""  # the function of `grammars` that reads its words
    known: bool = True


UNKNOWN_PROGRAM = Program(effects={"writes": ("-o", "--output", "--out")}, known=False)


class Table:
    """The programs by name; `python3.11` and `gcc-12` are found as python and gcc."""

    def __init__(self, entries: Mapping[str, Program], ruled: frozenset[str] = frozenset()) -> None:
        self.entries = entries
        self.ruled = ruled  # programs that rules name

    def names(self, program: str) -> bool:
        """Whether a word is the name of a program."""
        return program in self.ruled or self.of(program).known

    def of(self, program: str) -> Program:
        """What is known of a program."""
        found = self.entries.get(program) or self.entries.get(re.sub(r"(?<=[a-z])[-\d.]+$", "", program))
        return found or UNKNOWN_PROGRAM


@dataclass
class Line:
    """A program with its words sorted: `-rf` is -r and -f."""

    program: str
    words: list[str]
    spec: Program = UNKNOWN_PROGRAM
    options: list[str] = field(default_factory=list)  # -r, -f, --force, --force=x
    values: list[tuple[str, str]] = field(default_factory=list)  # an option and its value
    operands: list[str] = field(default_factory=list)

    @cached_property
    def names(self) -> frozenset[str]:
        """The options without their values."""
        return frozenset(each.partition("=")[0] for each in self.options)

    def all(self, *names: str) -> list[str]:
        """Every value of these options."""
        return [value for name, value in self.values if name in names]

    def value(self, *names: str) -> str:
        """The last value of these options, or ""."""
        return (self.all(*names) or [""])[-1]

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return not self.names.isdisjoint(names)

    def chosen(self, *selectors: str) -> list[str]:
        """The words that selectors of the table mean: `args`, `first`, …, an option, or `of=`."""
        found: list[str] = []
        target = self.all("-t", "--target-directory")
        scripts = 1 if self.spec.script and not self.has(*self.spec.script) else 0
        words = [*self.operands[scripts:], *target]
        for selector in selectors:
            if selector.startswith("-"):
                found += self.all(selector)
            elif selector == "script":
                found += self.operands[:scripts]
            elif selector == "paths":
                found += [word for word in words if _PATHLIKE.search(word) and "://" not in word]
            elif selector in _SLICES:
                found += words[_SLICES[selector]]
            else:
                found += [word[len(selector) :] for word in self.words if word.startswith(selector)]
        return found

    def of(self, effect: str) -> list[str]:
        """The words that have an effect by the table."""
        return self.chosen(*self.spec.effects.get(effect, ()))


_SLICES = {
    "args": slice(None),
    "first": slice(1),
    "last": slice(-1, None),
    "most": slice(-1),
    "rest": slice(1, None),
}


def sort_words(program: str, words: Sequence[str], spec: Program) -> Line:
    """The words of a command as options, their values, and operands."""
    line = Line(program, list(words), spec)
    at = 0
    while at < len(words):
        word = words[at]
        if len(word) < 2 or word[0] != "-":
            line.operands.append(word)
            at += 1
        elif word == "--":
            line.operands += words[at + 1 :]
            break
        else:
            name, value, at = _option(words, at, spec.values, long=spec.long)
            line.options.append(word)
            if not (word.startswith("--") or spec.long or word in spec.values):
                end = word.index(name[1], 1) + 1 if name in spec.values else len(word)
                line.options += [f"-{letter}" for letter in word[1:end] if f"-{letter}" != word]
            if value is not None:
                line.values.append((name, value))
    return line


def _option(
    words: Sequence[str], at: int, valued: frozenset[str], *, long: bool = False
) -> tuple[str, str | None, int]:
    """The option at a place, its value, and the index after both; `-xf file` is -f with its value."""
    word = words[at]
    following = words[at + 1] if at + 1 < len(words) else None
    name, equals, value = word.partition("=")
    if word.startswith("--") or long or word in valued:
        if equals:
            return name, value, at + 1
        return (word, following, at + 2) if word in valued else (word, None, at + 1)
    for index, letter in enumerate(word[1:], 1):
        if f"-{letter}" in valued:
            rest = word[index + 1 :]
            return f"-{letter}", rest or following, at + 1 + (not rest)
    return name, None, at + 1


def rest_of(words: Sequence[str], valued: frozenset[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The words from the first operand on, and the options before it with their values."""
    at = 0
    options: list[tuple[str, str]] = []
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        name, value, at = _option(words, at, valued)
        options.append((name, value or ""))
    return list(words[at:]), options


def effects(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """Note what a program does by the table; returns what it reads: files, or its input."""
    spec, program = line.spec, line.program
    content, reads = stdin, line.of("reads")
    if line.has(*spec.edits):
        for text in reads:
            shell.touch("write", text, program=program, shown="changes")
    elif reads:
        content = NOTHING
        for text in reads:
            content = content.joined(stdin if text == "-" else shell.read(text, program=program))
    for text in line.of("moves"):
        content = shell.files.get(shell.path(text), ANYTHING)
    if any(len(count) < 5 for count in line.chosen("count=")):
        content = Stream(content.text, content.tags - {"endless"}, content.shape)
    for effect in spec.effects:
        for text in line.of(effect):
            _effect(shell, line, effect, text, content if effect == "receives" else stdin)
    if not spec.known and program:
        _default_reads(shell, line)
    if stdin.tags and "stdin" in spec.effects.get("sends", ()):
        shell.send(":".join(line.of("hosts")[:1]) or ANY, stdin, program)
    return content


def follow_code(shell: Shell, line: Line, stdin: Stream) -> None:
    """Follow the code that a program gets in its words or on its input."""
    from runtime.safety import code

    base = [shell.path(each) for each in line.chosen(*line.spec.base)[:1]]
    for selectors, language in line.spec.code:
        for text in line.chosen(*selectors):
            code.follow(shell, language, text, line.program, base)
        if "stdin" in selectors:
            code.feed(shell, language, stdin, line.program, base)


def _effect(shell: Shell, line: Line, effect: str, text: str, stdin: Stream) -> None:
    program = line.program
    recursive = ["recursive"] if line.has("-r", "-R", "--recursive") else []
    if effect == "reads":
        pass  # noted by `effects`
    elif effect == "receives":
        if stdin.text == "":
            shell.touch("empty", text, program=program)
        shell.write(text, stdin, program=program, append=True)
        for source in line.chosen("most"):
            shell.files[shell.path(f"{text}/{source.rstrip('/').rpartition('/')[2]}")] = stdin
    elif effect in _TOUCHES:
        tags = recursive if effect == "deletes" else []
        shell.touch(_TOUCHES[effect], text, *tags, program=program)
    elif effect == "saves":
        shell.write(text, ANYTHING.tagged("download"), program=program)
    elif effect == "moves":
        shell.move(text, program)
    elif effect == "changes":
        mode = line.operands[0] if line.operands else ""
        modes = [tag for tag, form in _MODES.items() if form.fullmatch(mode)]
        shell.touch("change", text, *recursive, *modes, program=program, shown=f"{program} {mode} on")
    elif effect == "hosts":
        shell.connect(text, program=program)
        if text.startswith("file:"):
            shell.read(text, program=program)
        named = re.match(rf"(?:\w+://)?[^/?]*[{''.join(UNKNOWN)}][^/?]*\.\w", text)  # unknown part of a host
        if has_unknown(text.partition("?")[2]) or named:
            shell.send(text, ANYTHING, program)
    elif effect == "listens":
        shell.note(Act("listen", program, text=text, shown=f"{program} listens on {text}"))
    else:  # sends, uploads
        where = _where(shell, line)
        hit = _SENT_FILE.fullmatch(text)
        if hit or effect == "uploads":
            path = hit[1].partition(";")[0] if hit else text
            data = stdin if path in ("-", "/dev/stdin") else shell.read(path, program=program).tagged("file")
            shell.send(where, data, program)
        else:
            shell.send(where, Stream(text), program)


def _where(shell: Shell, line: Line) -> str:
    """The host that data goes to, of several one that is not this machine; unknown behind a proxy."""
    hosts = line.of("hosts")
    outside = next((each for each in hosts if not loopback(each)), "")
    proxy = line.has(*_DETOURS) or any(name.lower().endswith("_proxy") for name in shell.variables)
    return outside or (ANY if proxy or not hosts else hosts[0])


def _default_reads(shell: Shell, line: Line) -> None:
    """A program that is not in the table is assumed to read every word that looks like a path."""
    for operand in line.operands:
        if _PATHLIKE.search(operand) or operand.startswith("id_") or operand.isidentifier():
            shell.read(operand, program=line.program)
    for _, value in line.values:
        if value.startswith("@") or ("/" in value and "://" not in value):
            shell.read(value.removeprefix("@"), program=line.program)


def printed(shell: Shell, line: Line, stdin: Stream, content: Stream = ANYTHING) -> Stream:
    """What a program prints, or at least where it comes from; `content` is what it reads."""
    kinds = line.spec.prints
    if "nothing" in kinds:
        return NOTHING
    if "input" in kinds:
        return content
    if "paths" in kinds or line.has(*line.spec.lists):
        places = line.chosen("args")
        outside = [each for each in places if not shell.places.inside(shell.path(each))]
        return Stream(None, shape=outside[0] if outside else INSIDE)
    if "filtered" in kinds:
        tags = stdin.sorts - {"endless"}
        if not stdin.tags:
            for each in line.operands:
                tags |= shell.files.get(shell.path(each), ANYTHING).sorts
            tags |= {"file"}
        same = stdin.shape in (NAME, "*") or "kept" in kinds
        return Stream(None, frozenset(tags), stdin.shape if same and not line.operands[1:] else ANY)
    shape = NAME if "name" in kinds else ANY
    return Stream(None, frozenset({"download", "environment", "file", "endless"} & set(kinds)), shape)
