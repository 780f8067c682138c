"""What a line of shell really does: the calls that it makes, through quotes, pipes, wrappers and variables.

Nothing is run. What cannot be told stands in a call as `UNKNOWN`; where unknown text would be run as code, the
line hides what it does, and that is a finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from runtime.nervous.decoding import NOTHING, SOMETHING, Flow, printed, unescape
from runtime.nervous.places import UNKNOWN

DEEPEST = 12
"""How deep shells within shells, functions and substitutions are followed."""
MOST_CALLS = 400
"""Calls of one line that are looked at; a line with more hides what it does."""
LONGEST = 60_000
"""Characters of a command that are read."""
_SPLIT = "\x01"
_BRACED = re.compile(r"(^|[;&|(]\s*)\{([^\s{};]*,[^\s{};]*)\}")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """One program as it will be started: its words, the folder it is in, and what feeds it."""

    words: tuple[str, ...]
    cwd: str
    stdin: Flow = NOTHING

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.words[0].rpartition("/")[2]


@dataclass(frozen=True)
class Access:
    """A file that a redirection writes or reads."""

    path: str
    cwd: str
    writes: bool
    text: Flow = SOMETHING


@dataclass
class Reading:
    """All that a line does: calls, redirections, and findings (downloaded, hidden, fork-bomb, remote-shell)."""

    calls: list[Call] = field(default_factory=list[Call])
    files: list[Access] = field(default_factory=list[Access])
    assigned: list[str] = field(default_factory=list[str])
    addresses: list[str] = field(default_factory=list[str])
    findings: dict[str, str] = field(default_factory=dict[str, str])

    def find(self, kind: str, what: str) -> None:
        """Note a finding once, with the part of the line that shows it."""
        self.findings.setdefault(kind, what.replace(UNKNOWN, "…")[:120])


@dataclass
class Scope:
    """What a shell knows while it reads on."""

    cwd: str
    variables: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, Any] = field(default_factory=dict[str, Any])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    fetched: set[str] = field(default_factory=set[str])
    links: dict[str, str] = field(default_factory=dict[str, str])

    def inner(self) -> Scope:
        """A shell inside this one: what it changes stays inside."""
        return Scope(
            self.cwd, dict(self.variables), self.functions, dict(self.aliases), self.fetched, self.links
        )

    def led(self, word: str) -> str:
        """A path behind a link that this line made, as the place that it leads to."""
        name, slash, rest = word.removeprefix("./").partition("/")
        return f"{self.links[name].rstrip('/')}/{rest}" if slash and name in self.links else word


@cache
def _parser() -> Any:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def read(command: str, folder: str) -> Reading:
    """What a command does when it is run in `folder`."""
    reading = Reading()
    if len(command) > LONGEST:
        reading.find("hidden", f"{len(command)} characters are too many to read")
        command = command[:LONGEST]
    Reader(reading).line(command, Scope(folder), NOTHING, 0)
    return reading


class Reader:
    """Walks the syntax tree of a line, and of every line inside it."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def line(self, text: str, scope: Scope, stdin: Flow, depth: int) -> Flow:
        """Read a line of shell; returns what it prints."""
        if depth > DEEPEST or len(self.reading.calls) > MOST_CALLS:
            self.reading.find("hidden", "shells within shells, too deep to follow")
            return SOMETHING
        text = text.replace("$IFS", "${IFS}")  # the grammar takes `$IFS-x` for a name and a `$`
        source = text.encode("utf-8", "surrogatepass")
        root = _parser().parse(source).root_node
        if root.has_error:
            plain = _BRACED.sub(lambda hit: hit[1] + " ".join(hit[2].split(",")), text)
            source = plain.encode("utf-8", "surrogatepass")
            root = _parser().parse(source).root_node
        if root.has_error:
            self.reading.find("unreadable", text)
        return _Walk(self, source, scope, depth).block(root, stdin)


class _Walk:
    """One syntax tree."""

    def __init__(self, reader: Reader, source: bytes, scope: Scope, depth: int) -> None:
        self.reader, self.source, self.scope, self.depth = reader, source, scope, depth
        self.reading = reader.reading

    def raw(self, node: Any) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # ---- statements ----

    def block(self, node: Any, stdin: Flow) -> Flow:
        """The statements of a node, one after the other; what they print, together."""
        flows = [self.statement(child, stdin) for child in node.named_children]
        texts = [flow.text for flow in flows]
        tags = frozenset[str]().union(*(flow.tags for flow in flows))
        known = None if None in texts else "\n".join(text for text in texts if text)
        return Flow(known, tags)

    def statement(self, node: Any, stdin: Flow) -> Flow:
        kind = node.type
        if kind == "command":
            return self.command(node, stdin)
        if kind == "pipeline":
            return self.pipeline(node, stdin)
        if kind == "redirected_statement":
            return self.redirected(node, stdin)
        if kind in ("variable_assignment", "variable_assignments", "declaration_command", "unset_command"):
            self.assign(node)
            return NOTHING
        if kind == "function_definition":
            self.define(node)
            return NOTHING
        if kind == "for_statement":
            return self.loop(node, stdin)
        if kind in ("subshell", "command_substitution", "process_substitution"):
            return _Walk(self.reader, self.source, self.scope.inner(), self.depth + 1).block(node, stdin)
        if kind == "file_redirect":
            operator, path, substitution = self.redirect(node)
            self.reading.files.append(Access(path, self.scope.cwd, writes=not operator.startswith("<")))
            return substitution or Flow(None)
        if kind in ("comment", "word", "number", "heredoc_body", "heredoc_start", "heredoc_end"):
            return NOTHING
        if node.named_child_count:
            return self.block(node, stdin)
        return NOTHING

    def pipeline(self, node: Any, stdin: Flow) -> Flow:
        flow = stdin
        for child in node.named_children:
            flow = self.statement(child, flow)
        return flow

    def redirected(self, node: Any, stdin: Flow) -> Flow:
        body, after = None, []
        targets: list[tuple[str, str, Any]] = []
        for child in node.children:
            if child.type == "file_redirect":
                targets.append(self.redirect(child))
            elif child.type == "heredoc_redirect":
                stdin, more = self.heredoc(child)
                after += more
            elif child.type == "herestring_redirect":
                stdin = Flow("".join(self.words(child.named_children[-1])))
            elif child.is_named:
                body = child
        for operator, path, substitution in targets:
            if operator.startswith("<"):
                tags = frozenset({"downloaded"} if path in self.scope.fetched else ())
                stdin = NOTHING if path == "/dev/null" else substitution or Flow(None, tags)
                self.reading.files.append(Access(path, self.scope.cwd, writes=False))
        flow = self.statement(body, stdin) if body is not None else NOTHING
        for operator, path, _ in targets:
            if not operator.startswith("<") and path and not path.isdigit() and path != "-":
                self.reading.files.append(Access(path, self.scope.cwd, writes=True, text=flow))
                if "downloaded" in flow.tags:
                    self.scope.fetched.add(path)
        for child in after:
            flow = self.statement(child, flow)
        return flow

    def redirect(self, node: Any) -> tuple[str, str, Any]:
        operator = next((self.raw(child) for child in node.children if not child.is_named), ">")
        target = node.named_children[-1]
        if target.type == "process_substitution":
            return operator, "", self.statement(target, NOTHING)
        return operator, " ".join(self.words(target)), None

    def heredoc(self, node: Any) -> tuple[Flow, list[Any]]:
        """The text of a here-document, and the rest of the line that stands inside its node."""
        after: list[Any] = []
        text = ""
        for child in node.named_children:
            if child.type == "heredoc_body":
                text = self.raw(child)
            elif child.type in ("pipeline", "command", "list", "redirected_statement"):
                after.append(child)
            elif child.type == "file_redirect":
                operator, path, _ = self.redirect(child)
                if not operator.startswith("<"):
                    self.reading.files.append(Access(path, self.scope.cwd, writes=True, text=Flow(text)))
        return Flow(text), after

    def loop(self, node: Any, stdin: Flow) -> Flow:
        names = [child for child in node.named_children if child.type == "variable_name"]
        body = [child for child in node.named_children if child.type in ("do_group", "compound_statement")]
        values = [c for c in node.named_children if c not in names and c not in body]
        items = [word for child in values for word in self.words(child)]
        for item in items[:8] or [UNKNOWN]:
            if names:
                self.scope.variables[self.raw(names[0])] = item
            for part in body:
                self.block(part, SOMETHING if not items else stdin)
        return SOMETHING

    def assign(self, node: Any) -> list[str]:
        """Take in assignments; returns the names."""
        found: list[str] = []
        if node.type in ("word", "concatenation", "string", "raw_string"):
            for word in self.words(node):
                if hit := _ASSIGNMENT.fullmatch(word):
                    self.scope.variables[hit[1]] = hit[2]
                    self.reading.assigned.append(word)
                    found.append(hit[1])
            return found
        if node.type != "variable_assignment":
            return [name for child in node.named_children for name in self.assign(child)]
        name = self.raw(node.named_children[0])
        value = node.named_children[1:]
        if value and value[-1].type == "array":
            words = [word for child in value[-1].named_children for word in self.words(child)]
            self.scope.variables[name] = " ".join(words)
        else:
            self.scope.variables[name] = "".join(_joined(self.text(each, quoted=True)) for each in value)
        self.reading.assigned.append(f"{name}={self.scope.variables[name]}")
        return [*found, name]

    def define(self, node: Any) -> None:
        name = self.raw(node.named_children[0])
        body = node.named_children[-1]
        self.scope.functions[name] = (self, body)
        text = self.raw(body)
        again = re.findall(rf"(?<![\w.:-]){re.escape(name)}(?![\w:-])", text)
        if again and (len(again) > 1 or "&" in text.replace("&&", "")) and ("|" in text or "&" in text):
            self.reading.find("fork-bomb", self.raw(node))

    # ---- commands ----

    def command(self, node: Any, stdin: Flow) -> Flow:
        words: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self.assign(child)
            elif child.type == "file_redirect":
                operator, path, substitution = self.redirect(child)
                if not operator.startswith("<"):
                    self.reading.files.append(Access(path, self.scope.cwd, writes=True))
                else:
                    stdin = substitution or SOMETHING
            elif child.type == "herestring_redirect":
                stdin = Flow("".join(self.words(child.named_children[-1])))
            elif child.is_named or child.type not in ("\n",):
                words += self.words(child)
        return self.run(words, stdin)

    def run(self, words: Sequence[str], stdin: Flow) -> Flow:
        """Take note of a call, and look into what it will run in its turn."""
        from runtime.nervous.unwrapping import inside

        if not words:
            return NOTHING
        if self.depth > DEEPEST or len(self.reading.calls) > MOST_CALLS:
            self.reading.find("hidden", " ".join(words))
            return SOMETHING
        call = Call(tuple(map(self.scope.led, words)), self.scope.cwd, stdin)
        if call.words[0] in self.scope.aliases:
            text = " ".join([self.scope.aliases[call.words[0]], *call.words[1:]])
            return self.reader.line(text, self.scope.inner(), stdin, self.depth + 1)
        if call.words[0] in self.scope.functions:
            return self.called(call)
        if UNKNOWN in call.words[0]:
            self.reading.find("hidden", " ".join(words))
        self.reading.calls.append(call)
        flow = inside(call, self)
        return printed(call.words, stdin) if flow is None else flow

    def called(self, call: Call) -> Flow:
        walk, body = self.scope.functions[call.words[0]]
        scope = self.scope.inner()
        scope.variables |= {str(n): word for n, word in enumerate(call.words)}
        scope.variables |= dict.fromkeys(("@", "*"), " ".join(call.words[1:]))
        inner = _Walk(self.reader, walk.source, scope, self.depth + 1)
        if inner.depth > DEEPEST:
            return SOMETHING
        return inner.block(body, call.stdin)

    # ---- words ----

    def words(self, node: Any) -> list[str]:
        """The words that a node becomes, after expansion and splitting."""
        text = self.text(node, quoted=False)
        found: list[str] = []
        for word in text.split(_SPLIT):
            found += _braces(word) if node.type in ("word", "concatenation", "command_name") else [word]
        plain = [word for word in found if word or _SPLIT not in text]
        return plain if plain != [""] or node.type in ("string", "raw_string", "concatenation") else []

    def text(self, node: Any, *, quoted: bool) -> str:
        """The value of a node; `_SPLIT` stands where an expansion without quotes is split into words."""
        kind = node.type
        if kind in (
            "word",
            "number",
            "variable_name",
            "test_operator",
            "special_variable_name",
            "extglob_pattern",
        ):
            return re.sub(
                r"\\(\n?)(.?)", lambda hit: hit[2] if not hit[1] else "", self.raw(node), flags=re.DOTALL
            )
        if kind == "raw_string":
            return self.raw(node)[1:-1]
        if kind == "ansi_c_string":
            return unescape(self.raw(node)[2:-1])
        if kind in ("string", "translated_string"):
            return self.string(node)
        if kind in ("concatenation", "command_name"):
            return "".join(self.text(child, quoted=quoted) for child in node.children)
        if kind in ("simple_expansion", "expansion"):
            return self.expansion(node, quoted)
        if kind == "command_substitution":
            return self.substitution(node, quoted)
        if kind == "process_substitution":
            flow = self.statement(node, NOTHING)
            name = f"/dev/fd/{len(self.scope.fetched) + 60}"
            if "downloaded" in flow.tags:
                self.scope.fetched.add(name)
            self.scope.variables[name] = flow.known() or UNKNOWN
            return name
        if kind == "brace_expression":
            return self.raw(node)
        if kind == "arithmetic_expansion":
            self.block(node, NOTHING)
            return "1"
        if not node.children:
            return self.raw(node)
        return "".join(self.text(child, quoted=quoted) for child in node.children)

    def string(self, node: Any) -> str:
        parts: list[str] = []
        at = node.start_byte + 1
        for child in node.named_children:
            parts.append(self.source[at : child.start_byte].decode("utf-8", "replace"))
            if child.type == "string_content":
                parts.append(re.sub(r'\\([$`"\\\n])', lambda h: h[1].strip("\n"), self.raw(child)))
            else:
                parts.append(self.text(child, quoted=True))
            at = child.end_byte
        parts.append(self.source[at : node.end_byte].decode("utf-8", "replace").removesuffix('"'))
        return "".join(parts)

    def expansion(self, node: Any, quoted: bool) -> str:
        raw = self.raw(node)
        body = raw[2:-1] if raw.startswith("${") else raw[1:]
        name = re.match(r"!?([A-Za-z_]\w*|[@*#?$!\d-])", body)
        value = self.variable(name[1]) if name else UNKNOWN
        if name and body.startswith("!"):
            value = self.variable(value)
        if name and len(body) > len(name[0]):
            value = _modified(value, body[len(name[0]) :])
            for child in node.named_children[1:]:
                self.text(child, quoted=True)
        return value if quoted else self.split(value)

    def split(self, value: str) -> str:
        """A value without quotes: blanks, or what IFS was set to, part it into words."""
        parting = self.scope.variables.get("IFS", "")
        return re.sub(rf"[\s{re.escape(parting)}]+", _SPLIT, value)

    def variable(self, name: str) -> str:
        known = {"HOME": "~", "PWD": ".", "IFS": " ", "TMPDIR": "/tmp", "SHELL": "bash", "OLDPWD": UNKNOWN}
        if name in self.scope.variables:
            return self.scope.variables[name]
        if name in ("@", "*"):
            return UNKNOWN
        return known.get(name, UNKNOWN)

    def substitution(self, node: Any, quoted: bool) -> str:
        flow = self.statement(node, NOTHING)
        text = flow.known()
        if text is None:
            if "downloaded" in flow.tags:
                return f"{UNKNOWN}downloaded"
            return UNKNOWN
        text = text.rstrip("\n")
        return text if quoted else self.split(text)


def _joined(text: str) -> str:
    return text.replace(_SPLIT, " ")


def _modified(value: str, rest: str) -> str:
    """What `${name:-x}` and its like make of a value, where that is simple."""
    if hit := re.fullmatch(r":?([-=+?])(.*)", rest, re.DOTALL):
        if hit[1] == "+":
            return hit[2]
        return value if value != UNKNOWN or hit[1] == "?" else hit[2].strip("\"'")
    if hit := re.fullmatch(r":(\d+)(?::(\d+))?", rest):
        start = int(hit[1])
        return value[start : start + int(hit[2])] if hit[2] else value[start:]
    if hit := re.fullmatch(r"//?([^/]+)/(.*)", rest, re.DOTALL):
        return value.replace(hit[1], hit[2])
    return value if rest.startswith(("[", "^", ",")) and UNKNOWN not in value else UNKNOWN


def _braces(word: str) -> list[str]:
    """`{a,b}c` becomes `ac` and `bc`."""
    hit = re.search(r"\{([^{}\s]*,[^{}\s]*)\}", word)
    if not hit or "${" in word:
        return [word]
    return list(_expanded(word, hit))[:64]


def _expanded(word: str, hit: re.Match[str]) -> Iterator[str]:
    for part in hit[1].split(","):
        yield from _braces(word[: hit.start()] + part + word[hit.end() :])


def assignment(word: str) -> re.Match[str] | None:
    """`NAME=value`, as env and export take it."""
    return _ASSIGNMENT.fullmatch(word)
