"""Follows a line of shell without running it: what each command in it would really do, in order.

The structure comes from tree-sitter; what cannot be parsed, or followed to its end, is an act of its own.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from time import thread_time
from typing import Any

from runtime.nervous.hosts import host_of, loopback
from runtime.nervous.places import Places
from runtime.nervous.values import (
    ANY,
    FETCHED,
    INSIDE,
    NAME,
    NOTHING,
    UNTOLD,
    Act,
    Found,
    Stream,
    TooMuch,
    plain,
    untold,
)
from runtime.nervous.words import MOST, Node, one

LONGEST = 60_000
"""Characters of a command that are looked at; a longer one cannot be told."""
DEEPEST = 12
"""Commands inside commands."""
LARGEST = 4_000
"""Characters of what a variable holds."""
SHORT = 160
"""Bytes that are parsed without looking at the clock."""
PARSING = 0.04
"""Seconds of CPU that parsing may take, and one more for a million bytes; nonsense takes long."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u0085\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\r(?!\n)"
)
_SEQUENCES = ("program", "compound_statement", "do_group", "else_clause", "elif_clause", "if_statement")
_ASCII = bytes(each if each in (9, 10, 13) or 31 < each < 127 else 120 for each in range(256))
"""Bytes beyond ASCII as letters: the scanner of the grammar crashes at some (tree-sitter-bash#337)."""
QUOTES = 400
"""Backticks, and quotes behind a dollar: the grammar takes the longer the more of them are left open."""
_STRUCTURE = ("program", "list", "pipeline", "compound_statement", "subshell", "do_group", "if_statement")
_INSIDE = ("command_substitution", "process_substitution")


@cache
def _parser() -> Any:
    """The parser, made when the first command is looked at."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _tree(source: bytes) -> Any:
    """The root of the syntax tree; None where the grammar makes nothing of the text within its time."""
    if source.count(b"`") > QUOTES or source.count(b"$'") > QUOTES:
        return None
    source = source.translate(_ASCII)
    parser = _parser()
    if len(source) < SHORT:
        return parser.parse(source).root_node
    end = thread_time() + PARSING + len(source) / 1_000_000

    def late(offset: int, has_error: bool) -> bool:
        return thread_time() > end

    try:
        return parser.parse(lambda at, _: source[at:], progress_callback=late).root_node
    except ValueError:
        parser.reset()
        return None


class Shell:
    """One shell: its variables, functions and present folder, and what was found so far."""

    def __init__(self, places: Places, found: Found, cwd: str | None = None) -> None:
        self.places = places
        self.found = found
        self.source = b""
        self.cwd = cwd or places.folder
        self.variables: dict[str, tuple[tuple[str, ...], ...]] = {
            "HOME": ((places.home,),),
            "PATH": (("/usr/local/bin:/usr/bin:/bin",),),
            "IFS": ((" \t\n",),),
            "SHELL": (("/bin/bash",),),
            "BASH": (("/bin/bash",),),
            "TMPDIR": (("/tmp",),),
        }
        self.positional: tuple[str, ...] = ()
        self.functions: dict[str, tuple[bytes, Node]] = {}
        self.aliases: dict[str, str] = {}
        self.references: dict[str, str] = {}  # names that stand for another variable: `declare -n`
        self.files: dict[str, Stream] = {}  # written by this line, so that they can be run later in it
        self.depth = 0
        self.calling: list[str] = []
        self.wrapped = 0  # programs that run programs
        self.traps: list[str] = []  # what is run when a line has ended
        self.fetched: list[str] = []  # folders that this line fills with what it fetches
        self.remotes: dict[str, str] = {}  # of git
        self.loose = (
            False  # inside a script of the folder: what cannot be told there is not a danger of its own
        )
        self.maybe = 0
        self.visited: set[tuple[int, int]] = set()
        self._lines = 0

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
        if FETCHED in text and _hides(text):
            self.hide("download", "what is fetched from elsewhere is run")
        elif untold(text) and _hides(text):
            self.hide("code", "a part of what is run as code is not known")
        raw = text.encode("utf-8", "replace")
        self.found.spend(len(raw) // 40 if self.depth else 1)
        root = _tree(raw)
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

    def hide(self, why: str, told: str) -> None:
        """Note that something cannot be told."""
        if not self.loose or why in ("download", "fork"):
            self.note(Act("hidden", tags=frozenset({why}), text=told, shown=told))

    def note(self, act: Act) -> None:
        """Keep an act."""
        self.found.spend()
        self.found.add(act)

    # ---- what expanding words needs ----

    def substituted(self, node: Node) -> Stream:
        """What a command substitution prints."""
        from runtime.nervous.statements import sequence

        with self.apart():
            inner = node.named_children
            if len(inner) == 1 and inner[0].type == "file_redirect":  # $(<file)
                target = one(self, inner[0].child_by_field_name("destination"))
                return self.read(target)
            return sequence(self, inner, UNTOLD)

    def process(self, node: Node) -> str:
        """The path that `<(…)` stands for; what is printed there can be read from it."""
        from runtime.nervous.statements import sequence

        with self.apart():
            text = self.source[node.start_byte : node.start_byte + 1]
            printed = sequence(self, node.named_children, UNTOLD)
        path = f"/dev/fd/{60 + len(self.files)}"
        if text == b"<":
            self.files[path] = printed
        return path

    def look_into(self, node: Node) -> None:
        """Walk the commands that are substituted somewhere below a node."""
        from runtime.nervous.commands import assigned

        queue = list(node.named_children)
        while queue:
            child = queue.pop()
            if child.type in _INSIDE:
                self.substituted(child) if child.type == "command_substitution" else self.process(child)
            else:
                if child.type == "variable_assignment":
                    assigned(self, child)
                queue += child.named_children

    @contextmanager
    def apart(self) -> Generator[None]:
        """A subshell: what it sets and where it goes is forgotten."""
        saved = self.cwd, dict(self.variables), dict(self.functions)
        self.found.spend()
        self.depth += 1
        try:
            if self.depth > DEEPEST * 4:
                raise TooMuch
            yield
        finally:
            self.depth -= 1
            self.cwd, self.variables, self.functions = saved

    # ---- paths ----

    def path(self, path: str) -> str:
        """The absolute path of a word."""
        return self.places.absolute(path, self.cwd)

    def touch(self, does: str, path: str, told: str = "", *tags: str, program: str = "") -> None:
        """Note that a path is read, written, removed or changed."""
        if path == "-" or not path:
            return
        self.found.spend(4)
        whole = self.path(path)
        if does != "read":
            whole = self.places.real(whole)
        sort = self.places.sort(whole)
        marks = frozenset(tags)
        if (
            does in ("write", "empty")
            and "inside" in sort
            and self.places.new(whole)
            and whole not in self.files
        ):
            marks |= {"new"}
        marks |= {"own"} if whole in self.files else set()
        self.note(Act(does, program, (), whole, sort, marks, shown=f"{told or does} {whole}"))

    def read(self, path: str, *, program: str = "") -> Stream:
        """Note that a file is read; returns what is known of what it holds."""
        whole = self.path(path)
        if whole in self.files:
            return self.files[whole]
        if whole == "/dev/null":
            return NOTHING
        self.touch("read", path, "reads", program=program)
        tags = {"file", f"path:{whole}"}
        if re.match(r"/(?:dev/tcp|dev/udp)/", whole):
            self.connect(whole, "socket")
            tags.add("download")
        return Stream(None, frozenset(tags))

    def write(self, path: str, stream: Stream, *tags: str, program: str = "", append: bool = False) -> None:
        """Note that a file is written, and keep what it then holds."""
        if re.match(r"/dev/(?:tcp|udp)/", path):
            self.connect(path, "socket")
            self.send(path, stream, program)
            return
        whole = self.path(path)
        if stream.text == "" and not append:
            self.touch("empty", path, "empties", *tags, program=program)
        endless = ("endless",) if "endless" in stream.tags else ()
        self.touch("write", path, "writes", *tags, *endless, program=program)
        before = self.files.get(whole)
        self.files[whole] = before.joined(stream) if before and append else stream

    def connect(self, where: str, *tags: str, program: str = "") -> None:
        """Note that a host is spoken to."""
        host = host_of(where)
        self.note(Act("connect", program, text=host, tags=frozenset(tags), shown=f"connects to {where}"))

    def send(self, where: str, stream: Stream, program: str) -> None:
        """Note that something is sent away."""
        tags = {"literal"} if stream.text is not None and not untold(stream.text) else {"unknown"}
        tags |= {each for each in stream.tags if not each.startswith("path:")}
        tags |= {"loopback"} if loopback(where) else set()
        self.note(Act("send", program, text=where, tags=frozenset(tags), shown=f"sends data to {where}"))

    # ---- structure ----

    def walk(self, node: Node, stdin: Stream) -> Stream:
        """Follow one statement; returns what it prints."""
        self.found.spend()
        kind = node.type
        from runtime.nervous.statements import STATEMENTS, sequence

        if kind in STATEMENTS:
            return STATEMENTS[kind](self, node, stdin)
        if kind in _SEQUENCES:
            return sequence(self, node.named_children, stdin, node)
        if node.is_named and kind not in ("comment", "heredoc_body", "heredoc_start", "heredoc_end"):
            self.look_into(node)
        return NOTHING

    def text_of(self, node: Node | None) -> str:
        """The text of a node, "" of none."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""

    def assign(self, name: str, values: tuple[tuple[str, ...], ...]) -> None:
        """Set a variable; where it is only set sometimes, its earlier values stay possible."""
        name = self.references.get(name, name)
        if self.maybe and name in self.variables:
            values = tuple(dict.fromkeys((*self.variables[name], *values)))
        size = sum(len(each) for value in values for each in value)
        self.found.spend(1 + size // 200)
        self.variables[name] = values if len(values) <= MOST and size <= LARGEST else ((ANY,),)
        text = " ".join(self.variables[name][0])[:2_000]
        self.note(Act("set", text=name, words=(text,), shown=f"sets {name}={text}"))

    # ---- commands ----


def _hides(text: str) -> bool:
    """Whether a part that is not known stands where a command does."""
    return bool(re.search(rf"(?:^|[;&|\n(`])\s*[^\s;&|]*[{ANY}{NAME}{INSIDE}{FETCHED}]", text))
