"""Follows a line of shell without running it: what each command in it would really do, in order.

The structure comes from tree-sitter; what cannot be parsed, or followed to its end, is an act of its own.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from runtime.nervous.places import Places
from runtime.nervous.values import ANY, INSIDE, NAME, NOTHING, UNTOLD, Act, Found, Stream, TooMuch, plain, untold
from runtime.nervous.words import MOST, Node, expand, one, raw

LONGEST = 60_000
"""Characters of a command that are looked at; a longer one cannot be told."""
DEEPEST = 24
"""Commands inside commands."""
ROUNDS = 12
"""Items of a loop that are followed."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u0085\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\r(?!\n)")
_SEQUENCES = ("program", "compound_statement", "do_group", "else_clause", "elif_clause", "if_statement")
_INSIDE = ("command_substitution", "process_substitution")


@cache
def _parser() -> Any:
    """The parser, made when the first command is looked at."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


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
        self.files: dict[str, Stream] = {}  # written by this line, so that they can be run later in it
        self.depth = 0
        self.calling: list[str] = []
        self.fetched: list[str] = []  # folders that this line fills with what it fetches
        self.remotes: dict[str, str] = {}  # of git
        self.loose = False  # inside a script of the folder: what cannot be told there is not a danger of its own
        self._maybe = 0
        self._visited: set[tuple[int, int]] = set()
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
        if untold(text) and _hides(text):
            self.hide("code", "a part of what is run as code is not known")
        raw = text.encode("utf-8", "replace")
        root = _parser().parse(raw).root_node
        if root.has_error:
            self.hide("unparsed", "it is no shell that could be read to its end")
        saved = self.source, self._visited, self.positional
        self.source, self._visited = raw, set()
        self.positional = self.positional if positional is None else tuple(positional)
        self.depth += 1
        try:
            printed = self.walk(root, stdin)
            self._sweep(root)
            return printed
        finally:
            self.depth -= 1
            self.source, self._visited, self.positional = saved

    def _sweep(self, root: Node) -> None:
        """Every command that stands somewhere is looked at, also where the structure was not understood."""
        queue = [root]
        while queue:
            node = queue.pop()
            if node.type == "function_definition" and not node.has_error:
                continue
            if node.type == "command" and (node.start_byte, node.end_byte) not in self._visited:
                self.walk(node, UNTOLD)
            queue += node.named_children

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
        with self.apart():
            inner = node.named_children
            if len(inner) == 1 and inner[0].type == "file_redirect":  # $(<file)
                target = one(self, inner[0].child_by_field_name("destination"))
                return self.read(target)
            return self._sequence(inner, NOTHING if self.depth == 0 else UNTOLD)

    def process(self, node: Node) -> str:
        """The path that `<(…)` stands for; what is printed there can be read from it."""
        with self.apart():
            text = self.source[node.start_byte : node.start_byte + 1]
            printed = self._sequence(node.named_children, UNTOLD)
        path = f"/dev/fd/{60 + len(self.files)}"
        if text == b"<":
            self.files[path] = printed
        return path

    def look_into(self, node: Node) -> None:
        """Walk the commands that are substituted somewhere below a node."""
        queue = list(node.named_children)
        while queue:
            child = queue.pop()
            if child.type in _INSIDE:
                self.substituted(child) if child.type == "command_substitution" else self.process(child)
            else:
                if child.type == "variable_assignment":
                    self._assign(child)
                queue += child.named_children

    @contextmanager
    def apart(self) -> Generator[None]:
        """A subshell: what it sets and where it goes is forgotten."""
        saved = self.cwd, dict(self.variables), dict(self.functions)
        self.found.spend()
        self.depth += 1
        try:
            if self.depth > DEEPEST * 3:
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
        whole = self.path(path)
        if does != "read":
            whole = self.places.real(whole)
        sort = self.places.sort(whole)
        marks = frozenset(tags)
        if does in ("write", "empty") and "inside" in sort and self.places.new(whole) and whole not in self.files:
            marks |= {"new"}
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
        from runtime.nervous.hosts import host_of

        host = host_of(where)
        self.note(Act("connect", program, text=host, tags=frozenset(tags), shown=f"connects to {where}"))

    def send(self, where: str, stream: Stream, program: str) -> None:
        """Note that something is sent away."""
        tags = {"literal"} if stream.text is not None and not untold(stream.text) else {"unknown"}
        tags |= {each for each in stream.tags if not each.startswith("path:")}
        self.note(Act("send", program, text=where, tags=frozenset(tags), shown=f"sends data to {where}"))

    # ---- structure ----

    def walk(self, node: Node, stdin: Stream) -> Stream:
        """Follow one statement; returns what it prints."""
        self.found.spend()
        kind = node.type
        method = getattr(self, f"_{kind}", None)
        if method is not None:
            return method(node, stdin)
        if kind in _SEQUENCES:
            return self._sequence(node.named_children, stdin, node)
        if node.is_named and kind not in ("comment", "heredoc_body", "heredoc_start", "heredoc_end"):
            self.look_into(node)
        return NOTHING

    def _sequence(self, nodes: Sequence[Node], stdin: Stream, parent: Node | None = None) -> Stream:
        printed = NOTHING
        maybe = parent is not None and parent.type in ("if_statement", "elif_clause", "else_clause", "case_item")
        self._maybe += maybe
        for each in nodes:
            printed = printed.joined(self.walk(each, stdin))
        self._maybe -= maybe
        return printed

    def _list(self, node: Node, stdin: Stream) -> Stream:
        first, *rest = node.named_children
        printed = self.walk(first, stdin)
        either = any(each.type == "||" for each in node.children)
        self._maybe += either
        printed = printed.joined(self._sequence(rest, stdin))
        self._maybe -= either
        return printed

    def _pipeline(self, node: Node, stdin: Stream) -> Stream:
        stream = stdin
        for each in self._stages(node):
            with self.apart():
                stream = self.walk(each, stream).tagged("piped")
        return stream

    def _stages(self, node: Node) -> Iterator[Node]:
        for each in node.named_children:
            if each.type == "pipeline":
                yield from self._stages(each)
            elif each.type != "comment":
                yield each

    def _subshell(self, node: Node, stdin: Stream) -> Stream:
        with self.apart():
            return self._sequence(node.named_children, stdin)

    def _negated_command(self, node: Node, stdin: Stream) -> Stream:
        return self._sequence(node.named_children, stdin)

    def _while_statement(self, node: Node, stdin: Stream) -> Stream:
        text = self._text(node)
        if re.match(r"(?:while\s+(?:true|:|\[?\[?\s*1\s*\]?\]?|\(\(\s*1\s*\)\))|until\s+false)\s*[;\n]", text):
            body = node.child_by_field_name("body")
            if body is not None and any(each.type == "&" for each in body.children):
                self.hide("fork", "it starts processes for ever")
        self._maybe += 1
        printed = self._sequence(node.named_children, stdin)
        self._maybe -= 1
        return Stream(None, printed.tags, printed.shape)

    def _for_statement(self, node: Node, stdin: Stream) -> Stream:
        name = self._text(node.child_by_field_name("variable"))
        body = node.child_by_field_name("body")
        items: list[str] = []
        for value in node.children_by_field_name("value"):
            for fields in expand(self, value):
                items += fields
        if not node.children_by_field_name("value"):
            items = list(self.positional)
        items = list(dict.fromkeys(items))
        if len(items) > ROUNDS:
            self.variables[name] = tuple((each,) for each in items[:MOST])
            items = items[:ROUNDS] if not any(map(_risky, items)) else [*filter(_risky, items)][:ROUNDS]
        printed = NOTHING
        for item in items:
            self.variables[name] = ((item,),)
            printed = printed.joined(self.walk(body, stdin))
        return printed

    def _c_style_for_statement(self, node: Node, stdin: Stream) -> Stream:
        for each in node.children_by_field_name("initializer"):
            if each.type == "variable_assignment":
                self.variables[self._text(each.child_by_field_name("name"))] = ((NAME,),)
        body = node.child_by_field_name("body")
        text = self._text(node)
        if re.match(r"for\s*\(\(\s*;\s*;", text) and body and any(each.type == "&" for each in body.children):
            self.hide("fork", "it starts processes for ever")
        return Stream(None, self.walk(body, stdin).tags) if body else NOTHING

    def _case_statement(self, node: Node, stdin: Stream) -> Stream:
        value = node.child_by_field_name("value")
        if value is not None:
            expand(self, value)
        printed = NOTHING
        for item in node.named_children:
            if item.type == "case_item":
                values = {each.id for each in item.children_by_field_name("value")}
                rest = [each for each in item.named_children if each.id not in values]
                printed = printed.joined(self._sequence(rest, stdin, item))
        return printed

    def _function_definition(self, node: Node, stdin: Stream) -> Stream:
        name = self._text(node.child_by_field_name("name"))
        body = node.child_by_field_name("body")
        if body is None:
            return NOTHING
        self.functions[name] = (self.source, body)
        text = self._text(body)
        called = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w(])", text)
        if called and re.search(r"\|(?!\|)|(?<!&)&(?!&|>)", text):
            self.hide("fork", f"the function {name} starts itself again and again")
        return NOTHING

    def _text(self, node: Node | None) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""

    # ---- assignments ----

    def _variable_assignment(self, node: Node, stdin: Stream) -> Stream:
        self._assign(node)
        return NOTHING

    def _variable_assignments(self, node: Node, stdin: Stream) -> Stream:
        return self._sequence(node.named_children, stdin)

    def _declaration_command(self, node: Node, stdin: Stream) -> Stream:
        for each in node.named_children:
            if each.type == "variable_assignment":
                self._assign(each)
            else:
                for fields in expand(self, each):
                    for text in fields:
                        name, equals, value = text.partition("=")
                        if equals:
                            self.assign(name, ((value,),))
        return UNTOLD.tagged("environment")

    def _unset_command(self, node: Node, stdin: Stream) -> Stream:
        for each in node.named_children:
            name = one(self, each)
            self.variables.pop(name, None)
            self.note(Act("set", text=name, tags=frozenset({"unset"}), shown=f"unsets {name}"))
        return NOTHING

    def _assign(self, node: Node) -> str:
        target = node.child_by_field_name("name")
        name = self._text(target)
        value = node.child_by_field_name("value")
        grows = any(each.type == "+=" for each in node.children)
        values: tuple[tuple[str, ...], ...]
        if value is None:
            values = (("",),)
        elif value.type == "array":
            fields = [each for child in value.named_children for each in expand(self, child)[0]]
            values = (tuple(fields),)
        else:
            values = tuple((" ".join(fields),) for fields in expand(self, value))
        if target is not None and target.type == "subscript":
            name, values = name.partition("[")[0], ((ANY,),)
        if grows and name in self.variables:
            before = self.variables[name]
            if value is not None and value.type == "array":
                values = tuple((*old, *new) for old in before for new in values)[:MOST]
            else:
                values = tuple((" ".join(old) + " ".join(new),) for old in before for new in values)[:MOST]
        self.assign(name, values)
        return name

    def assign(self, name: str, values: tuple[tuple[str, ...], ...]) -> None:
        """Set a variable; where it is only set sometimes, its earlier values stay possible."""
        if self._maybe and name in self.variables:
            values = tuple(dict.fromkeys((*self.variables[name], *values)))
        self.variables[name] = values if len(values) <= MOST else ((ANY,),)
        text = " ".join(values[0]) if values else ""
        self.note(Act("set", text=name, words=(text,), shown=f"sets {name}={text}"))

    # ---- commands ----

    def _command(self, node: Node, stdin: Stream) -> Stream:
        return self._simple(node, [], stdin)

    def _redirected_statement(self, node: Node, stdin: Stream) -> Stream:
        body = node.child_by_field_name("body")
        redirects = [each for each in node.children if each.type.endswith("_redirect")]
        if body is None or body.type == "command":
            return self._simple(body, redirects, stdin)
        inputs, outputs, _, rest = self._redirects(redirects)
        return self._after(self.walk(body, stdin if inputs is None else inputs), outputs, rest)

    def _simple(self, node: Node | None, redirects: list[Node], stdin: Stream) -> Stream:
        from runtime.nervous.running import run

        words: list[Node] = []
        fresh: list[str] = []
        if node is not None:
            self._visited.add((node.start_byte, node.end_byte))
            saved = dict(self.variables)
            for child in node.children:
                if child.type == "variable_assignment":
                    fresh.append(self._assign(child))
                elif child.type.endswith("_redirect"):
                    redirects = [*redirects, child]
                elif child.is_named:
                    words.append(child)
        inputs, outputs, more, rest = self._redirects(redirects)
        alternatives: list[list[str]] = [[]]
        for word in _whole(words):
            choices = expand(self, word[0]) if len(word) == 1 else raw(self, self._span(word))
            alternatives = [[*each, *fields] for each in alternatives for fields in choices][: MOST * 2]
        printed = NOTHING
        for each in alternatives:
            line = [*each, *more]
            if line:
                printed = run(self, line, stdin if inputs is None else inputs)
            elif inputs is not None:
                printed = inputs
        if fresh and words:
            self.variables = saved
        return self._after(printed, outputs, rest)

    def _span(self, nodes: Sequence[Node]) -> str:
        return self.source[nodes[0].start_byte : nodes[-1].end_byte].decode("utf-8", "replace")

    def _after(self, printed: Stream, outputs: list[tuple[str, bool]], rest: list[Node]) -> Stream:
        for path, append in outputs:
            self.write(path, printed, append=append)
        printed = NOTHING if outputs else printed
        for node in rest:
            if node.type == "pipeline":
                for stage in self._stages(node):
                    with self.apart():
                        printed = self.walk(stage, printed.tagged("piped"))
            else:
                printed = printed.joined(self.walk(node, UNTOLD))
        return printed

    def _redirects(
        self, nodes: Sequence[Node]
    ) -> tuple[Stream | None, list[tuple[str, bool]], list[str], list[Node]]:
        """What comes in, where what is printed goes, words after a target, and what stands behind `<<EOF`."""
        inputs: Stream | None = None
        outputs: list[tuple[str, bool]] = []
        words: list[str] = []
        rest: list[Node] = []
        for node in nodes:
            if node.type == "herestring_redirect":
                value = node.named_children[-1] if node.named_children else None
                inputs = Stream(one(self, value) + "\n")
            elif node.type == "heredoc_redirect":
                inputs = self._heredoc(node)
                inner = [each for each in node.named_children if each.type.endswith("_redirect")]
                more = self._redirects(inner)
                outputs += more[1]
                words += more[2]
                for at, each in enumerate(node.children):
                    if not each.is_named or each.type.startswith("heredoc_") or each.type.endswith("_redirect"):
                        continue
                    if each.type == "file_descriptor":
                        continue
                    if node.field_name_for_child(at) == "argument":
                        words += expand(self, each)[0]
                    else:
                        rest.append(each)
            else:
                inputs = self._file_redirect(node, outputs, words) or inputs
        return inputs, outputs, words, rest

    def _file_redirect(self, node: Node, outputs: list[tuple[str, bool]], words: list[str]) -> Stream | None:
        sign = next((each.type for each in node.children if not each.is_named), ">")
        targets = node.children_by_field_name("destination")
        fields = [each for target in targets for each in expand(self, target)[0]]
        if not fields:
            return None
        words += fields[1:]  # `> file rm x`: the rest belongs to the command
        target = fields[0]
        descriptor = next((self._text(each) for each in node.children if each.type == "file_descriptor"), "")
        if sign in (">&", "<&") and (target.isdigit() or target in ("-", "") or target.rstrip("-").isdigit()):
            return None
        if sign.startswith("<") and sign != "<>":
            return self.read(target)
        if sign == "<>":
            self.read(target)
            self.touch("write", target, "writes")
        elif descriptor in ("", "1") or sign.startswith("&"):
            outputs.append((target, sign.endswith(">>")))
        else:
            self.write(target, UNTOLD, append=True)
        return None

    def _heredoc(self, node: Node) -> Stream:
        start = next((self._text(each) for each in node.children if each.type == "heredoc_start"), "")
        body = next((each for each in node.children if each.type == "heredoc_body"), None)
        if body is None:
            return NOTHING
        text = self._text(body)
        if any(each.type == "<<-" for each in node.children):
            text = re.sub(r"(?m)^\t+", "", text)
        if re.search(r"[\"'\\]", start):
            return Stream(text)
        self.look_into(body)
        if any(each.type in ("simple_expansion", "expansion", *_INSIDE) for each in body.named_children):
            pieces: list[str] = []
            at = body.start_byte
            for child in body.named_children:
                if child.type not in ("heredoc_content", "comment"):
                    pieces += [self.source[at : child.start_byte].decode("utf-8", "replace"), one(self, child)]
                    at = child.end_byte
            pieces.append(self.source[at : body.end_byte].decode("utf-8", "replace"))
            text = "".join(pieces)
        return Stream(text.replace("\\$", "$").replace("\\`", "`").replace("\\\n", "").replace("\\\\", "\\"))


def _whole(nodes: Sequence[Node]) -> list[list[Node]]:
    """The words of a command; what stands side by side without a blank is one word to a shell."""
    words: list[list[Node]] = []
    for node in nodes:
        if words and words[-1][-1].end_byte == node.start_byte:
            words[-1].append(node)
        else:
            words.append([node])
    return words


def _hides(text: str) -> bool:
    """Whether a part that is not known stands where a command does."""
    return bool(re.search(rf"(?:^|[;&|\n(`])\s*[^\s;&|]*[{ANY}{NAME}{INSIDE}]", text))


def _risky(item: str) -> bool:
    return item.startswith(("/", "~", "-", "..", ANY)) or item in (".", "*")
