"""What a line of shell really does: the calls that it makes, through quotes, pipes and variables.

Nothing is run. What cannot be told stands in a call as `UNKNOWN`; where unknown text would be run as code,
the line hides what it does, and that is a finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from time import thread_time
from typing import Any

from runtime.nervous.decoding import NOTHING, SOMETHING, Flow, printed
from runtime.nervous.places import UNKNOWN
from runtime.nervous.reading import Access, Call, Reading, Scope, assignment
from runtime.nervous.words import CHARS, Words, joined

DEEPEST = 12
"""How deep shells within shells, functions and substitutions are followed."""
MOST_CALLS = 300
"""Calls of one line that are looked at; a line with more hides what it does."""
MOST_WORK = 4000
"""What reading one line may cost, in words; loops in loops and values that double would cost without end."""
_LINE, _STATEMENT = 30, 3
"""What a line within a line costs, and a statement."""
_SHORT = 500
"""Bytes that are parsed at once however wrong they are."""
_PARSING = 0.03
"""Seconds of CPU that a longer text may take: what is no shell at all takes the grammar long."""
_ASCII = bytes(range(128)) + b"x" * 128
"""Bytes beyond ASCII as letters: the scanner of the grammar crashes at some (tree-sitter-bash#337)."""
_BRACED = re.compile(r"(^|[;&|(]\s*)\{([^\s{};]*,[^\s{};]*)\}")

Handler = Callable[[Call, "Walk"], Flow | None]
"""Looks into a call that runs something else; what it prints, None where it is no such program."""


@cache
def _parser() -> Any:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _tree(source: bytes) -> Any:
    """The root of the syntax tree; None where the grammar makes nothing of the text within its time."""
    source = source.translate(_ASCII)
    if len(source) < _SHORT:
        return _parser().parse(source).root_node
    end = thread_time() + _PARSING

    def late(offset: int, has_error: bool) -> bool:
        return thread_time() > end

    try:
        return _parser().parse(lambda at, _: source[at:], progress_callback=late).root_node
    except ValueError:
        _parser().reset()
        return None


class TooMuch(Exception):
    """A line is not read to its end: it is too deep, too long, or repeats itself too often."""


class Reader:
    """Walks the syntax tree of a line, and of every line inside it."""

    def __init__(self, reading: Reading, inside: Handler) -> None:
        self.reading, self.inside = reading, inside
        self._left = MOST_WORK

    def spend(self, work: int) -> None:
        """Account for work; raises `TooMuch` when it was more than a line may cost."""
        self._left -= work
        if self._left < 0:
            raise TooMuch

    def line(self, text: str, scope: Scope, stdin: Flow, depth: int) -> Flow:
        """Read a line of shell; returns what it prints."""
        if depth > DEEPEST:
            raise TooMuch
        self.spend(_LINE + len(text) // CHARS)
        text = text.replace("$IFS", "${IFS}")  # the grammar takes `$IFS-x` for a name and a `$`
        source = text.encode("utf-8", "surrogatepass")
        root = _tree(source)
        if root is None or root.has_error:
            plain = _BRACED.sub(lambda hit: hit[1] + " ".join(hit[2].split(",")), text)
            if plain != text:
                source = plain.encode("utf-8", "surrogatepass")
                root = _tree(source)
        if root is None or root.has_error:
            self.reading.find("unreadable", text)
        return Walk(self, source, scope, depth).block(root, stdin) if root is not None else SOMETHING


class Walk(Words):
    """One syntax tree, statement by statement, in the order in which a shell would take them."""

    def __init__(self, reader: Reader, source: bytes, scope: Scope, depth: int) -> None:
        super().__init__(source, scope)
        self.reader, self.depth = reader, depth
        self.reading = reader.reading

    def spend(self, work: int) -> None:
        """Account for work with the reader of the whole line."""
        self.reader.spend(work)

    # ---- statements ----

    def block(self, node: Any, stdin: Flow) -> Flow:
        """The statements of a node, one after the other; what they print, together."""
        flows = [self.statement(child, stdin) for child in node.named_children]
        texts = [flow.text for flow in flows]
        tags = frozenset[str]().union(*(flow.tags for flow in flows))
        known = None if None in texts else "\n".join(text for text in texts if text)
        return Flow(known, tags)

    def statement(self, node: Any, stdin: Flow) -> Flow:
        """Read a statement, or what stands in its place; returns what it prints."""
        self.spend(_STATEMENT)
        kind = node.type
        if kind == "command":
            return self._command(node, stdin)
        if kind == "pipeline":
            return self._pipeline(node, stdin)
        if kind == "redirected_statement":
            return self._redirected(node, stdin)
        if kind in ("variable_assignment", "variable_assignments", "declaration_command", "unset_command"):
            self._assign(node)
            return NOTHING
        if kind == "function_definition":
            self._define(node)
            return NOTHING
        if kind == "for_statement":
            return self._loop(node, stdin)
        if kind in ("subshell", "command_substitution", "process_substitution"):
            return Walk(self.reader, self.source, self.scope.inner(), self.depth + 1).block(node, stdin)
        if kind == "file_redirect":
            operator, path, substitution = self._redirect(node)
            self.reading.files.append(Access(path, self.scope.cwd, writes=not operator.startswith("<")))
            return substitution or Flow(None)
        if kind in ("comment", "word", "number", "heredoc_body", "heredoc_start", "heredoc_end"):
            return NOTHING
        if node.named_child_count:
            return self.block(node, stdin)
        return NOTHING

    def _pipeline(self, node: Any, stdin: Flow) -> Flow:
        flow = stdin
        for child in node.named_children:
            flow = self.statement(child, flow)
        return flow

    def _redirected(self, node: Any, stdin: Flow) -> Flow:
        body, after = None, []
        targets: list[tuple[str, str, Any]] = []
        for child in node.children:
            if child.type == "file_redirect":
                targets.append(self._redirect(child))
            elif child.type == "heredoc_redirect":
                stdin, more = self._heredoc(child)
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

    def _redirect(self, node: Any) -> tuple[str, str, Any]:
        operator = next((self.raw(child) for child in node.children if not child.is_named), ">")
        target = node.named_children[-1]
        if target.type == "process_substitution":
            return operator, "", self.statement(target, NOTHING)
        return operator, " ".join(self.words(target)), None

    def _heredoc(self, node: Any) -> tuple[Flow, list[Any]]:
        """The text of a here-document, and the rest of the line that stands inside its node."""
        after: list[Any] = []
        text = ""
        for child in node.named_children:
            if child.type == "heredoc_body":
                text = self.raw(child)
            elif child.type in ("pipeline", "command", "list", "redirected_statement"):
                after.append(child)
            elif child.type == "file_redirect":
                operator, path, _ = self._redirect(child)
                if not operator.startswith("<"):
                    self.reading.files.append(Access(path, self.scope.cwd, writes=True, text=Flow(text)))
        return Flow(text), after

    def _loop(self, node: Any, stdin: Flow) -> Flow:
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

    def _assign(self, node: Any) -> list[str]:
        """Take in assignments; returns the names."""
        found: list[str] = []
        if node.type in ("word", "concatenation", "string", "raw_string"):
            for word in self.words(node):
                if hit := assignment(word):
                    self.scope.variables[hit[1]] = hit[2]
                    self.reading.assigned.append(word)
                    found.append(hit[1])
            return found
        if node.type != "variable_assignment":
            return [name for child in node.named_children for name in self._assign(child)]
        name = self.raw(node.named_children[0])
        value = node.named_children[1:]
        if value and value[-1].type == "array":
            words = [word for child in value[-1].named_children for word in self.words(child)]
            self.scope.variables[name] = " ".join(words)
        else:
            self.scope.variables[name] = "".join(joined(self.text(each, quoted=True)) for each in value)
        self.spend(len(self.scope.variables[name]) // CHARS)
        self.reading.assigned.append(f"{name}={self.scope.variables[name]}")
        return [*found, name]

    def _define(self, node: Any) -> None:
        name = self.raw(node.named_children[0])
        body = node.named_children[-1]
        self.scope.functions[name] = (self, body)
        text = self.raw(body)
        again = re.findall(rf"(?<![\w.:-]){re.escape(name)}(?![\w:-])", text)
        if again and (len(again) > 1 or "&" in text.replace("&&", "")) and ("|" in text or "&" in text):
            self.reading.find("fork-bomb", self.raw(node))

    # ---- commands ----

    def _command(self, node: Any, stdin: Flow) -> Flow:
        words: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self._assign(child)
            elif child.type == "file_redirect":
                operator, path, substitution = self._redirect(child)
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
        if not words:
            return NOTHING
        if self.depth > DEEPEST or len(self.reading.calls) >= MOST_CALLS:
            raise TooMuch
        self.spend(len(words))
        call = Call(tuple(map(self.scope.led, words)), self.scope.cwd, stdin)
        if call.words[0] in self.scope.aliases:
            text = " ".join([self.scope.aliases[call.words[0]], *call.words[1:]])
            return self.reader.line(text, self.scope.inner(), stdin, self.depth + 1)
        if call.words[0] in self.scope.functions:
            return self._called(call)
        if UNKNOWN in call.words[0]:
            self.reading.find("hidden", " ".join(words))
        self.reading.calls.append(call)
        flow = self.reader.inside(call, self)
        return printed(call.words, stdin) if flow is None else flow

    def _called(self, call: Call) -> Flow:
        walk, body = self.scope.functions[call.words[0]]
        scope = self.scope.inner()
        scope.variables |= {str(n): word for n, word in enumerate(call.words)}
        scope.variables |= dict.fromkeys(("@", "*"), " ".join(call.words[1:]))
        inner = Walk(self.reader, walk.source, scope, self.depth + 1)
        if inner.depth > DEEPEST:
            return SOMETHING  # a function that calls itself: each round does the same
        return inner.block(body, call.stdin)
