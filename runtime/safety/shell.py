"""Follows a line of shell without running it, and notes what each command in it would do.

tree-sitter gives the structure, `words` expands the words. A line that cannot be parsed or followed to its
end is a `hidden` act.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from time import thread_time
from typing import TYPE_CHECKING, Any

from runtime.safety.acts import (
    ANY,
    ANYTHING,
    FETCHED,
    NAME,
    NOTHING,
    UNKNOWN,
    Act,
    Found,
    Stream,
    TooMuch,
    has_unknown,
    plain,
)
from runtime.safety.places import Places, host_of, loopback
from runtime.safety.words import Token, expand, expand_one, tokens

if TYPE_CHECKING:
    from runtime.safety.programs import Table

LONGEST = 60_000
"""Most characters of a command that is read."""
DEEPEST = 12
"""Most levels of commands inside commands."""
LARGEST = 4_000
"""Most characters of a variable's value that are kept."""
ROUNDS = 12
"""Most items of a loop that are followed."""
SHORT = 160
"""Bytes that are parsed without looking at the clock."""
PARSING = 0.04
"""CPU seconds that parsing may take, and one more for a million bytes."""
QUOTES = 400
"""Most backticks, quotes behind a dollar, and fifths of pipes; the grammar is slow on more of them."""
_ASCII = bytes(each if each in (9, 10, 13) or 31 < each < 127 else 120 for each in range(256))
"""Replaces bytes beyond ASCII by letters: the grammar's scanner crashes on some (tree-sitter-bash#337)."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u0085\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\r(?!\n)"
)
_STRUCTURE = ("program", "list", "pipeline", "compound_statement", "subshell", "do_group", "if_statement")
_LEAVES = (
    *("command", "variable_assignment", "variable_assignments", "declaration_command", "unset_command"),
    *("test_command",),
)
"""Kinds of nodes that are one command."""
_DECLARES = ("export", "declare", "typeset", "local", "readonly")
_HIDES = re.compile(rf"(?:^|[;&|\n(`])\s*[^\s;&|]*[{''.join(UNKNOWN)}]")
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")
_ENDLESS = re.compile(
    r"(?:while\s+(?:true|:|\[?\[?\s*1\s*\]?\]?|\(\(\s*1\s*\)\))|until\s+false)\s*[;\n]|for\s*\(\(\s*;\s*;"
)
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")
_SHOWN = {"read": "reads", "write": "writes", "delete": "removes", "empty": "empties"}
Node = Any
"""A node of tree-sitter, which is imported only when a command is read."""


@cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _tree(source: bytes) -> Node:
    """The root of the syntax tree; None where parsing takes too long."""
    if max(source.count(b"`"), source.count(b"$'"), source.count(b"|") // 5) > QUOTES:
        return None
    source = source.translate(_ASCII)
    parser = _parser()
    if len(source) < SHORT:
        return parser.parse(source).root_node
    end = thread_time() + PARSING + len(source) / 1_000_000
    try:
        return parser.parse(
            lambda at, _: source[at:], progress_callback=lambda offset, has_error: thread_time() > end
        ).root_node
    except ValueError:
        parser.reset()
        return None


class Shell:
    """One shell: its variables, functions and working directory, and the acts found so far."""

    def __init__(self, places: Places, found: Found, table: Table) -> None:
        self.places = places
        self.found = found
        self.table = table
        self.source = b""
        self.cwd = places.folder
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
        self.references: dict[str, str] = {}  # `declare -n`: names that mean another variable
        self.files: dict[str, Stream] = {}  # written by this line, which may run them later
        self.fetched: list[str] = []  # folders that this line downloads to
        self.calling: list[str] = []
        self.traps: list[str] = []  # run when the line ends
        self.depth = 0
        self.loose = False  # inside a file of the folder, where unknown parts are no danger of their own
        self.maybe = 0  # inside a branch that may not be taken
        self.visited: set[tuple[int, int]] = set()

    def line(self, text: str, stdin: Stream = ANYTHING, positional: Sequence[str] | None = None) -> Stream:
        """Follow a text of shell; returns what it prints."""
        if self.depth >= DEEPEST or len(text) > LONGEST:
            self.hide("too much", "it is too long or too deep to be looked through")
            return ANYTHING
        text = plain(text) if not self.depth else text
        if _CONTROL.search(text):
            self.hide("unparsed", "it has characters that cannot be seen")
        text = text.replace("\r\n", "\n")
        if has_unknown(text) and _HIDES.search(text):
            self.hide("download" if FETCHED in text else "code", "a part of what is run as code is not known")
        raw = text.encode("utf-8", "replace")
        self.spend(len(raw) // 40 if self.depth else 1)
        root = _tree(raw)
        if root is None or root.has_error:
            self.hide("unparsed", "it is no shell that could be read to its end")
        if root is None:
            return ANYTHING
        saved = self.source, self.visited, self.positional, self.traps
        self.source, self.visited, self.traps = raw, set(), []
        self.positional = self.positional if positional is None else tuple(positional)
        self.depth += 1
        try:
            printed = self.walk(root, stdin)
            self._sweep(root)
            for each in self.traps:
                self.line(each, ANYTHING, self.positional)
            return printed
        finally:
            self.depth -= 1
            self.source, self.visited, self.positional, self.traps = saved

    def run_text(
        self, text: str, stdin: Stream = ANYTHING, positional: Sequence[str] | None = None
    ) -> Stream:
        """Follow a text that is run as shell and may be unknown."""
        if text.strip() in UNKNOWN:
            self.hide("download" if text.strip() == FETCHED else "code", "what is run as code is not known")
            return ANYTHING
        return self.line(text, stdin, positional)

    def _sweep(self, root: Node) -> None:
        """Follow every command that `walk` has not reached because the structure was not understood."""
        queue = [root]
        while queue:
            node = queue.pop()
            if node.type == "function_definition" and not node.has_error:
                continue
            if node.type in _STRUCTURE and self._torn(node):
                self.hide("unparsed", "it is no shell that could be read to its end")
            if node.type == "command" and (node.start_byte, node.end_byte) not in self.visited:
                self.walk(node, ANYTHING)
            queue += node.named_children

    def _torn(self, node: Node) -> bool:
        """Whether there is text between the children of a node that belongs to none of them."""
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
        self.found.acts[act] = None

    def hide(self, why: str, shown: str) -> None:
        """Note that something is unknown."""
        if not self.loose or why in ("download", "fork"):
            self.note(Act("hidden", tags=frozenset({why}), text=shown, shown=shown))

    @contextmanager
    def apart(self) -> Generator[None]:
        """A subshell: its variables, functions and directory are forgotten."""
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

    def substituted(self, text: str) -> Stream:
        """What a command substitution prints."""
        with self.apart():
            if hit := re.fullmatch(r"\s*<\s*(\S+)\s*", text):  # $(<file)
                return self.read(expand_one(self, hit[1]))
            return self.line(text)

    def process(self, text: str, reads: bool) -> str:
        """The path that `<(…)` becomes; reading it gives what the command prints."""
        path = f"/dev/fd/{60 + len(self.files)}"
        with self.apart():
            printed = self.line(text, ANYTHING.tagged("piped"))
        if reads:
            self.files[path] = printed
        return path

    def path(self, path: str) -> str:
        """The absolute path of a word."""
        return self.places.absolute(path, self.cwd)

    def touch(self, does: str, path: str, *tags: str, program: str = "", shown: str = "") -> None:
        """Note that a path is read, written, removed or changed."""
        if path == "-" or not path:
            return
        self.spend(4)
        whole = self.path(path)
        if does != "read":
            whole = self.places.real(whole)
        sort = self.places.sort(whole)
        marks = set(tags)
        if whole in self.files:
            marks.add("own")
        elif does in ("write", "empty") and "inside" in sort and self.places.new(whole):
            marks.add("new")
        if "dotglob" in self.variables:
            sort -= {"all"}  # `*` also means names that begin with a dot
        shown = f"{shown or _SHOWN.get(does, does)} {whole}"
        self.note(Act(does, program, (), whole, sort, frozenset(marks), shown=shown))

    def read(self, path: str, *, program: str = "") -> Stream:
        """Note that a file is read; returns what is known of its content."""
        whole = self.path(path)
        if whole in self.files:
            return self.files[whole]
        if whole == "/dev/null":
            return NOTHING
        self.touch("read", path, program=program)
        tags = {"file", f"path:{whole}"}
        if _SOCKET.match(whole):
            self.connect(whole, "socket")
            tags.add("download")
        if re.match(r"/dev/(?:zero|u?random|full)$", whole):
            tags.add("endless")
        return Stream(None, frozenset(tags))

    def write(self, path: str, stream: Stream, *, program: str = "", append: bool = False) -> None:
        """Note that a file is written, and keep its new content."""
        if _SOCKET.match(path):
            self.connect(path, "socket")
            self.send(path, stream, program)
            return
        whole = self.path(path)
        if stream.text == "" and not append:
            self.touch("empty", path, program=program)
        self.touch("write", path, *({"endless"} & stream.tags), program=program)
        before = self.files.get(whole)
        self.files[whole] = before.joined(stream) if before and append else stream

    def move(self, path: str, program: str) -> None:
        """Note that a file is moved away."""
        self.touch("delete", path, "moved", program=program, shown="moves away")

    def connect(self, where: str, *tags: str, program: str = "") -> None:
        """Note a connection to a host."""
        marks = {*tags} | ({"loopback"} if loopback(where) else set())
        shown = f"connects to {where}"
        self.note(Act("connect", program, text=host_of(where), tags=frozenset(marks), shown=shown))

    def send(self, where: str, stream: Stream, program: str) -> None:
        """Note that data is sent."""
        tags = {"literal"} if stream.text is not None and not has_unknown(stream.text) else {"unknown"}
        tags |= stream.sorts | ({"loopback"} if loopback(where) else set())
        self.note(Act("send", program, text=where, tags=frozenset(tags), shown=f"sends data to {where}"))

    def request(self, program: str, method: str, *urls: str) -> None:
        """Note a request with a method."""
        tags = frozenset({"loopback"} if urls and all(map(loopback, urls)) else ())
        self.note(Act("request", program, text=method, tags=tags, shown=f"{method} {' '.join(urls)}"))

    def assign(self, name: str, values: Sequence[str]) -> None:
        """Set a variable; one that a branch may set to another value becomes unknown."""
        name = self.references.get(name, name)
        if self.maybe and self.variables.get(name, values) != values:
            values = [ANY]
        size = sum(map(len, values))
        self.spend(1 + size // 200)
        self.variables[name] = list(values) if size <= LARGEST else [ANY]
        text = " ".join(self.variables[name])[:2_000]
        self.note(Act("set", text=name, words=(text,), shown=f"sets {name}={text}"))

    def text_of(self, node: Node | None) -> str:
        """The text of a node, "" for None."""
        return self.between(node.start_byte, node.end_byte) if node else ""

    def between(self, start: int, end: int) -> str:
        """The text between two byte positions."""
        return self.source[start:end].decode("utf-8", "replace")

    def walk(self, node: Node, stdin: Stream) -> Stream:
        """Follow one statement; returns what it prints."""
        self.spend()
        kind = node.type
        if kind in _LEAVES:
            self.visited.add((node.start_byte, node.end_byte))
            return self.simple(self.text_of(node), stdin)
        if follow := getattr(self, f"_{kind}", None):
            return follow(node, stdin)
        match kind:
            case "comment" | "heredoc_body" | "heredoc_start" | "heredoc_end":
                return NOTHING
            case "word" | "raw_string" | "string" | "variable_name" if not node.named_child_count:
                return NOTHING
            case "subshell":
                with self.apart():
                    return self.sequence(node.named_children, stdin)
            case "command_substitution":
                return self.substituted(self.text_of(node)[2:-1])
            case "while_statement":
                self._check_fork(node)
                printed = self.sequence(node.named_children, stdin, maybe=True)
                return Stream(None, printed.tags, printed.shape)
            case _:
                branches = kind in ("if_statement", "elif_clause", "else_clause", "case_item")
                return self.sequence(node.named_children, stdin, maybe=branches)

    def sequence(self, nodes: Sequence[Node], stdin: Stream, *, maybe: bool = False) -> Stream:
        """Follow statements in order; `maybe`: they are in a branch that may not be taken."""
        printed = NOTHING
        self.maybe += maybe
        for each in nodes:
            printed = printed.joined(self.walk(each, stdin))
        self.maybe -= maybe
        return printed

    def call(self, name: str, words: Sequence[str], stdin: Stream) -> Stream:
        """Follow a function that the line has defined."""
        source, body = self.functions[name]
        if self.calling.count(name) > 2 or len(self.calling) > DEEPEST:
            return ANYTHING
        saved = self.source, self.positional
        self.source, self.positional = source, tuple(words)
        self.calling.append(name)
        try:
            return self.walk(body, stdin)
        finally:
            self.calling.pop()
            self.source, self.positional = saved

    def inner(self, words: Sequence[str], stdin: Stream = ANYTHING) -> Stream:
        """Follow a command that another program runs."""
        from runtime.safety.commands import run

        if not words:
            return NOTHING
        self.depth += 1
        try:
            if self.depth > DEEPEST * 3:
                raise TooMuch
            return run(self, words, stdin)
        finally:
            self.depth -= 1

    def _list(self, node: Node, stdin: Stream) -> Stream:
        first, *rest = node.named_children
        printed = self.walk(first, stdin)
        either = any(each.type == "||" for each in node.children)
        return printed.joined(self.sequence(rest, stdin, maybe=either))

    def _pipeline(self, node: Node, stdin: Stream) -> Stream:
        for part in node.named_children:
            if part.type == "pipeline":
                stdin = self._pipeline(part, stdin)
            elif part.type != "comment":
                with self.apart():
                    stdin = self.walk(part, stdin).tagged("piped")
        return stdin

    def _c_style_for_statement(self, node: Node, stdin: Stream) -> Stream:
        self._check_fork(node)
        for hit in re.finditer(r"\b([A-Za-z_]\w*)=", self.text_of(node).partition(";")[0]):
            self.variables[hit[1]] = [NAME]
        body = node.child_by_field_name("body")
        return Stream(None, self.walk(body, stdin).tags) if body else NOTHING

    def _check_fork(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if _ENDLESS.match(self.text_of(node)) and body and any(each.type == "&" for each in body.children):
            self.hide("fork", "it starts processes for ever")

    def _for_statement(self, node: Node, stdin: Stream) -> Stream:
        name = self.text_of(node.child_by_field_name("variable"))
        body = node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        text = self.between(values[0].start_byte, values[-1].end_byte) if values else '"$@"'
        items = list(dict.fromkeys(each for token in tokens(text) for each in expand(self, token.text)))
        if len(items) > ROUNDS:
            risky = [
                each for each in items if each.startswith(("/", "~", "-", "..", ANY)) or each in (".", "*")
            ]
            items = (risky or items)[:ROUNDS]
        printed = NOTHING
        for item in items if body else ():
            self.variables[name] = [item]
            printed = printed.joined(self.walk(body, stdin))
        return printed

    def _case_statement(self, node: Node, stdin: Stream) -> Stream:
        expand(self, self.text_of(node.child_by_field_name("value")))
        printed = NOTHING
        for item in node.named_children:
            if item.type == "case_item":
                values = {each.id for each in item.children_by_field_name("value")}
                rest = [each for each in item.named_children if each.id not in values]
                printed = printed.joined(self.sequence(rest, stdin, maybe=True))
        return printed

    def _function_definition(self, node: Node, stdin: Stream) -> Stream:
        name, body = self.text_of(node.child_by_field_name("name")), node.child_by_field_name("body")
        if body is not None:
            self.functions[name] = (self.source, body)
            text = self.text_of(body)
            called = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w(])", text)
            if called and re.search(r"\|(?!\|)|(?<!&)&(?!&|>)", text):
                self.hide("fork", f"the function {name} starts itself again and again")
        return NOTHING

    def _redirected_statement(self, node: Node, stdin: Stream) -> Stream:
        """A statement with redirections; the grammar puts what follows `<<EOF` into the here-document."""
        body = node.child_by_field_name("body")
        inside: list[Node] = []
        end = node.end_byte
        for redirect in node.children:
            if redirect.type == "heredoc_redirect":
                end = min(end, redirect.start_byte)
                stdin = self._heredoc(redirect)
                inside += [child for child in redirect.children if child.is_named]
        rest = [
            each for each in inside if each.type in ("pipeline", "list", "command", "redirected_statement")
        ]
        more = "".join(
            f" {self.text_of(each)}"
            for each in inside
            if each not in rest and not each.type.startswith("heredoc_") and each.type != "file_descriptor"
        )
        if body is None or body.type in _LEAVES:
            if body is not None:
                self.visited.add((body.start_byte, body.end_byte))
            printed = self.simple(self.between(node.start_byte, end) + more, stdin)
        else:
            text = self.between(body.end_byte, max(end, body.end_byte)) + more
            inputs, outputs = self._redirects([each for each in tokens(text) if each.sign])
            printed = self._handed(self.walk(body, stdin if inputs is None else inputs), outputs)
        for command in rest:
            if command.type == "pipeline":
                printed = self._pipeline(command, printed.tagged("piped"))
            elif self.between(end, command.start_byte).rstrip().endswith("|"):
                with self.apart():
                    printed = self.walk(command, printed.tagged("piped"))
            else:
                printed = printed.joined(self.walk(command, ANYTHING))
        return printed

    def _heredoc(self, node: Node) -> Stream:
        parts = {each.type: self.text_of(each) for each in reversed(node.children)}
        text = parts.get("heredoc_body", "")
        if "<<-" in parts:
            text = re.sub(r"(?m)^\t+", "", text)
        if re.search(r"[\"'\\]", parts.get("heredoc_start", "")) or not re.search(r"[$`\\]", text):
            return Stream(text)
        return Stream(expand_one(self, '"' + text.replace('"', '\\"') + '"'))

    def simple(self, text: str, stdin: Stream) -> Stream:
        """Follow a simple command: assignments, words and redirections."""
        from runtime.safety.commands import run

        words: list[str] = []
        redirects: list[Token] = []
        saved, assigned = dict(self.variables), False
        for token in tokens(text):
            if token.sign:
                redirects.append(token)
            elif (not words or words[0] in _DECLARES) and (hit := _ASSIGNS.match(token.text)):
                value = token.text[hit.end() :]
                if words and re.search(r" -[a-zA-Z]*n", " " + " ".join(words[1:])):
                    self.references[hit[1]] = expand_one(self, value)
                else:
                    assigned |= not words
                    self._assigned(hit[1], value, grows=bool(hit[3]), part=bool(hit[2]))
            else:
                words += expand(self, token.text)
        self.spend(len(words) // 8)
        inputs, outputs = self._redirects(redirects)
        stdin = stdin if inputs is None else inputs
        printed = run(self, words, stdin) if words else stdin if inputs is not None else NOTHING
        if assigned and words:
            self.variables = saved
        return self._handed(printed, outputs)

    def _assigned(self, name: str, text: str, *, grows: bool, part: bool) -> None:
        if text.startswith("("):
            values = [each for token in tokens(text[1:-1]) for each in expand(self, token.text)]
            if any(re.match(r"\[[^\]]*\]=", each) for each in values):
                values = [ANY]
        else:
            values = [ANY] if part else [expand_one(self, text)]
        before = self.variables.get(name)
        if grows and before:
            values = [*before, *values] if text.startswith("(") else [" ".join(before) + values[0]]
        self.assign(name, values or [""])

    def _redirects(self, redirects: Sequence[Token]) -> tuple[Stream | None, list[tuple[str, bool]]]:
        """The input, and the files that the output goes to, each with whether it is appended."""
        inputs: Stream | None = None
        outputs: list[tuple[str, bool]] = []
        for redirect in redirects:
            sign = redirect.sign
            if sign == "<<<":
                inputs = Stream(expand_one(self, redirect.text) + "\n")
                continue
            fields = [] if sign.startswith("<<") else expand(self, redirect.text)
            target = fields[0] if fields else ""
            if not target or (sign in (">&", "<&") and re.fullmatch(r"\d*-?", target)):
                continue
            if sign in ("<", "<&", "<>"):
                inputs = self.read(target)
                if sign == "<>":
                    self.touch("write", target)
            elif redirect.descriptor in ("", "1") or sign.startswith("&"):
                outputs.append((target, sign.endswith(">>")))
            else:
                self.write(target, ANYTHING, append=True)
        return inputs, outputs

    def _handed(self, printed: Stream, outputs: Sequence[tuple[str, bool]]) -> Stream:
        for path, append in outputs:
            self.write(path, printed, append=append)
        return NOTHING if outputs else printed
