"""The table of programs in `system/dangers.md`: what each does with its words, and how they are read by it.

What the keys of the table mean, the table itself says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from runtime.nervous.values import ANY, INSIDE, NAME, NOTHING, UNKNOWN, UNTOLD, Act, Stream, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

EFFECTS = (
    *("reads", "writes", "deletes", "moves", "empties", "changes", "uses", "saves", "hosts", "sends"),
    *("uploads", "listens"),
)
KEYS = (*EFFECTS, "values", "long", "runs", "code", "language", "eval", "base", "prints", "how")
Reader = Callable[["Shell", "Line", Stream], Stream | None]
"""Follows a command by its words; None: what the table says of it holds as well."""
HOW = (
    *("env", "xargs", "find", "fd", "ls", "tee", "grep", "processes", "parent", "fetch", "dd", "sed", "awk"),
    *("tar", "make", "git", "container", "ssh", "copy", "move", "remote-copy", "netcat", "editor"),
    *("terminal", "package", "shell"),
)
"""Ways to read words that follow no pattern; the functions are in `files`, `launchers` and `running`."""
_PATHLIKE = re.compile(r"[./~]|[*?]")
_SENT_FILE = re.compile(r"(?:[\w.\[\]-]*=?)[@<](.+)", re.DOTALL)


class Wrong(ValueError):
    """An entry of a rule or of the table that cannot be; `key` says where."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Program:
    """What a program does with its words."""

    values: frozenset[str] = frozenset({"-o", "--output", "--out"})  # options with a value
    long: bool = False  # options begin with one dash and are words
    effects: tuple[tuple[str, tuple[str, ...]], ...] = ()
    code: tuple[tuple[tuple[str, ...], str], ...] = ()  # where code stands, and of which language
    runs: str = ""  # how many words stand before a command, or `text`
    language: str = ""  # that it interprets
    eval: frozenset[str] = frozenset()  # options with code of this language
    base: tuple[str, ...] = ()  # where the database is named
    prints: tuple[str, ...] = ()
    how: str = ""  # the function of `running` that reads its words
    known: bool = True


UNKNOWN_PROGRAM = Program(effects=(("writes", ("-o", "--output", "--out")),), known=False)


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
        found = self.entries.get(program)
        if found is None:
            found = self.entries.get(re.sub(r"(?<=[a-z])[-\d.]+$", "", program))
        return found or UNKNOWN_PROGRAM


def entry(names: str, data: Any) -> dict[str, Program]:
    """An entry of the table, by each of its names; raises `Wrong`."""
    if not isinstance(data, dict):
        raise Wrong(names, f"{names}: {data!r} is no mapping of keys to words")
    for key in data:
        if key not in KEYS:
            raise Wrong(str(key), f"there is no key {key} for a program; there are {', '.join(KEYS)}")
    texts = {key: str(value) for key, value in data.items() if key != "code"}
    given = data.get("code", {})
    if not isinstance(given, dict):
        raise Wrong("code", f"code: {given!r} is no mapping of options to languages")
    if "how" in texts and texts["how"] not in HOW:
        raise Wrong("how", f"how: {texts['how']!r} is none of {', '.join(HOW)}")
    made = Program(
        frozenset(texts.get("values", "").split()),
        texts.get("long") == "True",
        tuple((key, tuple(texts[key].split())) for key in EFFECTS if key in texts),
        tuple((tuple(str(where).split()), str(language)) for where, language in given.items()),
        texts.get("runs", ""),
        texts.get("language", ""),
        frozenset(texts.get("eval", "").split()),
        tuple(texts.get("base", "").split()),
        tuple(texts.get("prints", "").split()),
        texts.get("how", ""),
    )
    return dict.fromkeys(names.split(), made)


# ---- words -----------------------------------------------------------------------------------------------


@dataclass
class Line:
    """A program with its words sorted: `-rf` is -r and -f."""

    program: str
    words: list[str]
    spec: Program = UNKNOWN_PROGRAM
    options: list[str] = field(default_factory=list)  # as rules name them: -r, -f, --force, --force=x
    values: list[tuple[str, str]] = field(default_factory=list)  # an option and its value
    operands: list[str] = field(default_factory=list)

    @cached_property
    def names(self) -> frozenset[str]:
        """The options without their values."""
        return frozenset(each.partition("=")[0] for each in self.options)

    def all(self, *names: str) -> list[str]:
        """Every value given to one of these options."""
        return [value for name, value in self.values if name in names]

    def value(self, *names: str) -> str:
        """The last value given to one of these options, "" when there is none."""
        return (self.all(*names) or [""])[-1]

    def has(self, *names: str) -> bool:
        """Whether one of these options is among the words."""
        return not self.names.isdisjoint(names)


def sort_words(program: str, words: Sequence[str], spec: Program) -> Line:
    """The words of a command as options, their values, and operands."""
    line = Line(program, list(words), spec)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if len(word) < 2 or word[0] != "-":
            line.operands.append(word)
        elif word == "--":
            line.operands += words[at:]
            break
        elif word.startswith("--") or spec.long or word in spec.values:
            name, equals, value = word.partition("=")
            line.options.append(word)
            if equals:
                line.values.append((name, value))
            elif word in spec.values and at < len(words):
                line.values.append((word, words[at]))
                at += 1
        else:
            at = _short(line, word, words, at)
    return line


def _short(line: Line, word: str, words: Sequence[str], at: int) -> int:
    line.options.append(word)
    for index, letter in enumerate(word[1:], 1):
        option = f"-{letter}"
        if option != word:
            line.options.append(option)
        if option in line.spec.values:
            rest = word[index + 1 :]
            if rest or at < len(words):
                line.values.append((option, rest or words[at]))
            return at + (not rest)
    return at


def rest_of(words: Sequence[str], valued: frozenset[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The words after the options that a program stops reading at, and those options with their values."""
    at = 0
    options: list[tuple[str, str]] = []
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        name, _, value = word.partition("=")
        letters = word[1:] if word[:2] != "--" else ""
        first = next((n for n, letter in enumerate(letters) if f"-{letter}" in valued), None)
        if word in valued or (first is not None and first == len(letters) - 1):
            name = word if word in valued else f"-{letters[-1]}"
            value = words[at] if at < len(words) else ""
            at += 1
        elif first is not None:
            name, value = f"-{letters[first]}", letters[first + 1 :]
        options.append((name, value))
    return list(words[at:]), options


def chosen(line: Line, selectors: Sequence[str]) -> list[str]:
    """The words that selectors mean: `args`, `first`, `last`, `most`, `rest`, an option, or `of=`."""
    found: list[str] = []
    words = line.operands
    for each in selectors:
        if each.startswith("-"):
            found += line.all(each)
        elif each.endswith("="):
            found += [word[len(each) :] for word in line.words if word.startswith(each)]
        else:
            parts = {
                "args": words,
                "first": words[:1],
                "last": words[-1:],
                "most": words[:-1],
                "rest": words[1:],
                "paths": [word for word in words if _PATHLIKE.search(word) and "://" not in word],
            }
            found += parts.get(each, [])
    return found


# ---- effects ---------------------------------------------------------------------------------------------


def effects(shell: Shell, line: Line, stdin: Stream) -> None:
    """Note what the table says that a program does, and code that it is given."""
    spec, program = line.spec, line.program
    told = dict(spec.effects)
    for effect, selectors in spec.effects:
        for text in chosen(line, selectors):
            _effect(shell, line, effect, text, stdin)
    if not spec.known and program:
        default_reads(shell, line)
    where = chosen(line, told.get("hosts", ()))
    if stdin.tags and "stdin" in told.get("sends", ()):
        shell.send(":".join(where[:1]) or ANY, stdin, program)


def given_code(shell: Shell, line: Line, stdin: Stream) -> None:
    """Follow the code that a program is given in its words or on its input."""
    from runtime.nervous import code

    program = line.program
    base = [shell.path(each) for each in chosen(line, line.spec.base)[:1]]
    for selectors, language in line.spec.code:
        for text in chosen(line, selectors):
            code.follow(shell, language, text, program, base)
        if "stdin" in selectors:
            code.fed(shell, language, stdin, program, base)


def _effect(shell: Shell, line: Line, effect: str, text: str, stdin: Stream) -> None:
    program = line.program
    recursive = ["recursive"] if line.has("-r", "-R", "--recursive") else []
    if effect == "reads":
        shell.read(text, program=program)
    elif effect in ("writes", "uses"):
        shell.touch(effect[:-1], text, effect, program=program)
    elif effect == "saves":
        shell.write(text, UNTOLD.tagged("download"), program=program)
    elif effect == "deletes":
        shell.touch("delete", text, "removes", *recursive, program=program)
    elif effect == "moves":
        shell.touch("delete", text, "moves away", "moved", program=program)
    elif effect == "empties":
        shell.touch("empty", text, "empties", program=program)
    elif effect == "changes":
        mode = line.operands[0] if line.operands else ""
        shell.touch("change", text, f"{program} {mode} on", *recursive, *_mode(mode), program=program)
    elif effect == "hosts":
        shell.connect(text, program=program)
        if text.startswith("file:"):
            shell.read(text, program=program)
        named = re.match(rf"(?:\w+://)?[^/?]*[{''.join(UNKNOWN)}][^/?]*\.\w", text)  # a part of a host's name
        if untold(text.partition("?")[2]) or named:
            shell.send(text, UNTOLD, program)
    elif effect == "listens":
        shell.note(Act("listen", program, text=text, shown=f"{program} listens on {text}"))
    elif effect in ("sends", "uploads"):
        where = _where(shell, line)
        hit = _SENT_FILE.fullmatch(text)
        if hit or effect == "uploads":
            path = hit[1].partition(";")[0] if hit else text
            known = stdin if path in ("-", "/dev/stdin") else shell.read(path, program=program).tagged("file")
            shell.send(where, known, program)
        else:
            shell.send(where, Stream(text), program)


def _where(shell: Shell, line: Line) -> str:
    """Where data goes: of several addresses one that is not this machine; a proxy makes it unknown."""
    from runtime.nervous.hosts import loopback

    hosts = chosen(line, dict(line.spec.effects).get("hosts", ()))
    detour = line.has(
        "-x", "--proxy", "--preproxy", "--socks5", "--resolve", "--connect-to", "-K", "--config"
    )
    outside = next((each for each in hosts if not loopback(each)), "")
    if outside or not (detour or any(name.lower().endswith("_proxy") for name in shell.variables)):
        return outside or (hosts[0] if hosts else ANY)
    return ANY


def _mode(mode: str) -> list[str]:
    tags: list[str] = []
    if re.fullmatch(r"0?[0-7]*7[0-7]?7|[ugo]*[ao][ugo]*\+?=?[rx]*w[rwxX]*|\+w|0?[0-7]{2}[2367]", mode):
        tags.append("open")
    if re.fullmatch(r"0?[4267]\d{3}|[ugoa]*\+[rwxt]*s[rwxst]*", mode):
        tags.append("setuid")
    return tags


def default_reads(shell: Shell, line: Line) -> None:
    """What a program that is not in the table is taken to read: every word that looks like a path."""
    for each in line.operands:
        if _PATHLIKE.search(each) or each.startswith("id_") or each.isidentifier():
            shell.read(each, program=line.program)
    for _, value in line.values:
        if "/" in value and "://" not in value:
            shell.read(value, program=line.program)
        elif value.startswith("@"):
            shell.read(value[1:], program=line.program)


def printed(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """What a program prints; of what is not known at least where it comes from."""
    kinds = line.spec.prints
    if "nothing" in kinds:
        return NOTHING
    if "input" in kinds:  # what it got, as it is
        files = [each for each in chosen(line, ("args",)) if each != "-"]
        if not files:
            return stdin
        out = NOTHING
        for each in files:
            out = out.joined(shell.read(each, program=line.program))
        return out
    if "filtered" in kinds:
        tags = stdin.sorts - {"endless"}
        if not stdin.tags:
            for each in line.operands:
                tags |= shell.files.get(shell.path(each), UNTOLD).sorts
            tags |= {"file"}
        same = stdin.shape in (NAME, "*") or "kept" in kinds
        return Stream(None, frozenset(tags), stdin.shape if same and not line.operands[1:] else ANY)
    shape = NAME if "name" in kinds else INSIDE if "paths" in kinds else ANY
    return Stream(None, frozenset({"download", "environment", "file", "endless"} & set(kinds)), shape)
