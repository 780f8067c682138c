"""Follows a line of shell without running it: what each command in it would do, in order.

The structure comes from tree-sitter, the words from `lexer`; what cannot be parsed, or followed to its end,
is an act of its own.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runtime.nervous.hosts import host_of, loopback
from runtime.nervous.lexer import one
from runtime.nervous.places import Places
from runtime.nervous.statements import LEAVES, STATEMENTS, simple
from runtime.nervous.syntax import tree
from runtime.nervous.values import (
    ANY,
    FETCHED,
    NOTHING,
    UNKNOWN,
    UNTOLD,
    Act,
    Found,
    Stream,
    TooMuch,
    plain,
    untold,
)

if TYPE_CHECKING:
    from runtime.nervous.programs import Table

LONGEST = 60_000
"""Characters of a command that are looked at; a longer one cannot be told."""
DEEPEST = 12
"""Commands inside commands."""
LARGEST = 4_000
"""Characters of what a variable holds."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u0085\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\r(?!\n)"
)
_STRUCTURE = ("program", "list", "pipeline", "compound_statement", "subshell", "do_group", "if_statement")
_HIDES = re.compile(rf"(?:^|[;&|\n(`])\s*[^\s;&|]*[{''.join(UNKNOWN)}]")
Node = Any
"""A node of tree-sitter, which has no types of its own to import where it is not used."""


class Shell:
    """One shell: its variables, functions and present folder, and what was found so far."""

    def __init__(self, places: Places, found: Found, table: Table, cwd: str | None = None) -> None:
        self.places = places
        self.found = found
        self.table = table
        self.source = b""
        self.cwd = cwd or places.folder
        self.variables: dict[str, list[str]] = {
            "HOME": [places.home],
            "PATH": ["/usr/local/bin:/usr/bin:/bin"],
            "IFS": [" \t\n"],
            "SHELL": ["/bin/bash"],
            "BASH": ["/bin/bash"],
            "TMPDIR": ["/tmp"],
        }
        self.positional: tuple[str, ...] = ()
        self.functions: dict[str, tuple[bytes, Node]] = {}
        self.aliases: dict[str, str] = {}
        self.references: dict[str, str] = {}  # names that stand for another variable: `declare -n`
        self.files: dict[str, Stream] = {}  # written by this line, so that they can be run later in it
        self.fetched: list[str] = []  # folders that this line fills with what it fetches
        self.calling: list[str] = []
        self.traps: list[str] = []  # what is run when a line has ended
        self.depth = 0
        self.loose = False  # inside a file of the folder: what cannot be told there is no danger of its own
        self.maybe = 0  # inside a branch that may not be taken
        self.visited: set[tuple[int, int]] = set()

    # ---- texts ----

    def line(self, text: str, stdin: Stream = UNTOLD, positional: Sequence[str] | None = None) -> Stream:
        """Follow a text of shell; returns what it prints."""
        if self.depth >= DEEPEST or len(text) > LONGEST:
            self.hide("too much", "it is too long or too deep to be looked through")
            return UNTOLD
        text = plain(text) if not self.depth else text
        if _CONTROL.search(text):
            self.hide("unparsed", "it has characters that cannot be seen")
        text = text.replace("\r\n", "\n")
        if untold(text) and _HIDES.search(text):
            fetched = FETCHED in text
            self.hide("download" if fetched else "code", "a part of what is run as code is not known")
        raw = text.encode("utf-8", "replace")
        self.spend(len(raw) // 40 if self.depth else 1)
        root = tree(raw)
        if root is None or root.has_error:
            self.hide("unparsed", "it is no shell that could be read to its end")
        if root is None:
            return UNTOLD
        saved = self.source, self.visited, self.positional
        self.source, self.visited = raw, set()
        self.positional = self.positional if positional is None else tuple(positional)
        self.depth += 1
        try:
            kept, self.traps = self.traps, []
            printed = self.walk(root, stdin)
            self._sweep(root)
            at_the_end, self.traps = self.traps, kept
            for each in at_the_end:
                self.line(each, UNTOLD, self.positional)
            return printed
        finally:
            self.depth -= 1
            self.source, self.visited, self.positional = saved

    def run_text(self, text: str, stdin: Stream = UNTOLD, positional: Sequence[str] | None = None) -> Stream:
        """A text that is run as shell, which may not be known."""
        if text.strip() in UNKNOWN:
            fetched = text.strip() == FETCHED
            self.hide("download" if fetched else "code", "what is run as code is not known")
            return UNTOLD
        return self.line(text, stdin, positional)

    def _sweep(self, root: Node) -> None:
        """Every command that stands somewhere is looked at, also where the structure was not understood."""
        queue = [root]
        while queue:
            node = queue.pop()
            if node.type == "function_definition" and not node.has_error:
                continue
            if node.type in _STRUCTURE and self._torn(node):
                self.hide("unparsed", "it is no shell that could be read to its end")
            if node.type == "command" and (node.start_byte, node.end_byte) not in self.visited:
                self.walk(node, UNTOLD)
            queue += node.named_children

    def _torn(self, node: Node) -> bool:
        """Whether something stands between the statements of a node that belongs to none of them."""
        at = node.start_byte
        for child in node.children:
            if child.start_byte > at and self.source[at : child.start_byte].strip(b" \t\n\\;"):
                return True
            at = child.end_byte
        return bool(self.source[at : node.end_byte].strip(b" \t\n\\;"))

    def spend(self, much: int = 1) -> None:
        """Count what is looked at; raises `TooMuch`."""
        self.found.spend(much)

    def note(self, act: Act) -> None:
        """Keep an act."""
        self.found.spend()
        self.found.add(act)

    def hide(self, why: str, told: str) -> None:
        """Note that something cannot be told."""
        if not self.loose or why in ("download", "fork"):
            self.note(Act("hidden", tags=frozenset({why}), text=told, shown=told))

    @contextmanager
    def apart(self) -> Generator[None]:
        """A subshell: what it sets and where it goes is forgotten."""
        saved = self.cwd, dict(self.variables), dict(self.functions)
        self.spend()
        self.depth += 1
        try:
            if self.depth > DEEPEST * 4:
                raise TooMuch
            yield
        finally:
            self.depth -= 1
            self.cwd, self.variables, self.functions = saved

    @contextmanager
    def leniently(self) -> Generator[None]:
        """While a file of the folder is looked into: only what it plainly does counts."""
        loose, self.loose = self.loose, True
        try:
            yield
        finally:
            self.loose = loose

    # ---- what expanding words needs ----

    def substituted(self, text: str) -> Stream:
        """What a command substitution prints."""
        with self.apart():
            if hit := re.fullmatch(r"\s*<\s*(\S+)\s*", text):  # $(<file)
                return self.read(one(self, hit[1]))
            return self.line(text)

    def process(self, text: str, reads: bool) -> str:
        """The path that `<(…)` stands for; what is printed there can be read from it."""
        path = f"/dev/fd/{60 + len(self.files)}"
        with self.apart():
            printed = self.line(text, UNTOLD.tagged("piped"))
        if reads:
            self.files[path] = printed
        return path

    # ---- paths and hosts ----

    def path(self, path: str) -> str:
        """The absolute path of a word."""
        return self.places.absolute(path, self.cwd)

    def touch(self, does: str, path: str, told: str = "", *tags: str, program: str = "") -> None:
        """Note that a path is read, written, removed or changed."""
        if path == "-" or not path:
            return
        self.spend(4)
        whole = self.path(path)
        if does != "read":
            whole = self.places.real(whole)
        sort = self.places.sort(whole)
        marks = set(tags)
        if (
            does in ("write", "empty")
            and "inside" in sort
            and whole not in self.files
            and self.places.new(whole)
        ):
            marks.add("new")
        if whole in self.files:
            marks.add("own")
        if "dotglob" in self.variables:
            sort -= {"all"}  # `*` is everything, also what begins with a dot
        self.note(Act(does, program, (), whole, sort, frozenset(marks), shown=f"{told or does} {whole}"))

    def read(self, path: str, *, program: str = "") -> Stream:
        """Note that a file is read; returns what is known of what it holds."""
        whole = self.path(path)
        if whole in self.files:
            return self.files[whole]
        if whole == "/dev/null":
            return NOTHING
        self.touch("read", path, "reads", program=program)
        tags = {"file", f"path:{whole}"}
        if re.match(r"/dev/(?:tcp|udp)/", whole):
            self.connect(whole, "socket")
            tags.add("download")
        if re.match(r"/dev/(?:zero|u?random|full)$", whole):
            tags.add("endless")
        return Stream(None, frozenset(tags))

    def write(self, path: str, stream: Stream, *, program: str = "", append: bool = False) -> None:
        """Note that a file is written, and keep what it then holds."""
        if re.match(r"/dev/(?:tcp|udp)/", path):
            self.connect(path, "socket")
            self.send(path, stream, program)
            return
        whole = self.path(path)
        if stream.text == "" and not append:
            self.touch("empty", path, "empties", program=program)
        self.touch("write", path, "writes", *({"endless"} & stream.tags), program=program)
        before = self.files.get(whole)
        self.files[whole] = before.joined(stream) if before and append else stream

    def connect(self, where: str, *tags: str, program: str = "") -> None:
        """Note that a host is spoken to."""
        marks = {*tags} | ({"loopback"} if loopback(where) else set())
        shown = f"connects to {where}"
        self.note(Act("connect", program, text=host_of(where), tags=frozenset(marks), shown=shown))

    def send(self, where: str, stream: Stream, program: str) -> None:
        """Note that something is sent away."""
        tags = {"literal"} if stream.text is not None and not untold(stream.text) else {"unknown"}
        tags |= stream.sorts
        tags |= {"loopback"} if loopback(where) else set()
        self.note(Act("send", program, text=where, tags=frozenset(tags), shown=f"sends data to {where}"))

    def assign(self, name: str, values: Sequence[str]) -> None:
        """Set a variable; one that is set differently in a branch may be anything."""
        name = self.references.get(name, name)
        if self.maybe and self.variables.get(name, values) != values:
            values = [ANY]
        size = sum(map(len, values))
        self.spend(1 + size // 200)
        self.variables[name] = list(values) if size <= LARGEST else [ANY]
        text = " ".join(self.variables[name])[:2_000]
        self.note(Act("set", text=name, words=(text,), shown=f"sets {name}={text}"))

    # ---- structure ----

    def text_of(self, node: Node | None) -> str:
        """The text of a node, "" of none."""
        return self.between(node.start_byte, node.end_byte) if node else ""

    def between(self, start: int, end: int) -> str:
        """The text between two places of the source."""
        return self.source[start:end].decode("utf-8", "replace")

    def walk(self, node: Node, stdin: Stream) -> Stream:
        """Follow one statement; returns what it prints."""
        self.spend()
        kind = node.type
        if kind in LEAVES:
            self.visited.add((node.start_byte, node.end_byte))
            return simple(self, self.text_of(node), stdin)
        if kind in STATEMENTS:
            return STATEMENTS[kind](self, node, stdin)
        if kind in ("comment", "heredoc_body", "heredoc_start", "heredoc_end"):
            return NOTHING
        if not node.named_child_count and kind in ("word", "raw_string", "string", "variable_name"):
            return NOTHING
        branches = kind in ("if_statement", "elif_clause", "else_clause", "case_item")
        return self.sequence(node.named_children, stdin, maybe=branches)

    def sequence(self, nodes: Sequence[Node], stdin: Stream, *, maybe: bool = False) -> Stream:
        """Follow one statement after the other; `maybe`: in a branch that may not be taken."""
        printed = NOTHING
        self.maybe += maybe
        for each in nodes:
            printed = printed.joined(self.walk(each, stdin))
        self.maybe -= maybe
        return printed

    def call(self, name: str, words: Sequence[str], stdin: Stream) -> Stream:
        """A function that the line has defined."""
        source, body = self.functions[name]
        if self.calling.count(name) > 2 or len(self.calling) > DEEPEST:
            return UNTOLD
        saved = self.source, self.positional
        self.source, self.positional = source, tuple(words)
        self.calling.append(name)
        try:
            return self.walk(body, stdin)
        finally:
            self.calling.pop()
            self.source, self.positional = saved

    def inner(self, words: Sequence[str], stdin: Stream) -> Stream:
        """Follow a command that another program runs."""
        from runtime.nervous.running import run

        if not words:
            return NOTHING
        self.depth += 1
        try:
            if self.depth > DEEPEST * 3:
                raise TooMuch
            return run(self, words, stdin)
        finally:
            self.depth -= 1
