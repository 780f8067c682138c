"""The definitions of a source file, by tree-sitter. A language without a grammar has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from itertools import islice
from time import thread_time
from typing import Any

PARSING = 0.5
"""CPU seconds that parsing may take, and as many more for a million bytes: five times what it takes."""
HITS = 50
"""Maximum places of a text in a file that are looked at."""
DOCSTRING = 4
"""Lines after the first one from which a docstring is long."""

_LANGUAGES = {
    "python": "py pyi",
    "javascript": "js jsx mjs cjs",
    "typescript.language_typescript": "ts mts cts",
    "typescript.language_tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c_sharp": "cs",
    "c": "c",
    "cpp": "cc cpp cxx h hh hpp hxx",
    "ruby": "rb rake",
    "php.language_php": "php",
    "bash": "sh bash",
}
_GRAMMARS = {ext: grammar for grammar, extensions in _LANGUAGES.items() for ext in extensions.split()}
_CLASS = re.compile(
    r"((abstract_|singleton_)?(class|struct|interface|trait|enum|impl|mod|module|union|record|namespace)"
    r"(_definition|_declaration|_specifier|_item)?|type_spec|internal_module)"
)
_FUNCTION = re.compile(
    r"(generator_|local_|singleton_)?(function|method|constructor|macro)"
    r"(_definition|_declaration|_item|_signature|_signature_item|_statement)?"
)
_VALUE = re.compile(
    r"(variable_)?assignment(_expression)?|variable_declarator|(const|var)_spec|(const|static|type)_item|"
    r"preproc_(function_)?def|type_(alias_declaration|definition)|property_declaration"
)
_WRAPPER = re.compile(
    r"decorated_definition|export_statement|expression_statement|"
    r"(template|lexical|variable|type|const|var|field)_declaration"
)
"""Kinds of nodes over all languages: what defines something, and what stands around one definition."""
_DOCSTRING = re.compile(r"\s*[rRuUbB]{0,2}(\"{3}|'{3})")
_IMPORTS = re.compile(r"(from|import|use|#include|using)\b|(const|let|var)\b.*\brequire\(")
_TESTS = '(call_expression function: (identifier) @f (#any-of? @f "it" "test" "describe")) @definition'


def grammar_of(path: str) -> str:
    """The name of the grammar for a file; "" if there is none."""
    return _GRAMMARS.get(path.rpartition("/")[-1].partition(".")[-1].rpartition(".")[-1].lower(), "")


@dataclass(frozen=True)
class Definition:
    """A class, function or value; lines from 1, `start` and `end` in bytes."""

    path: str
    name: str
    owner: str  # the classes around it, joined by dots
    kind: str  # class, function or value
    first: int
    last: int
    head: int  # the last line before its body
    start: int
    end: int
    nested: bool  # in a function

    @property
    def full(self) -> str:
        """The name with its classes."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def title(self) -> str:
        """Where it is: `src/parse.py:10-48 parse`."""
        return f"{self.path}:{self.first}-{self.last} {self.full}"

    @property
    def lines(self) -> range:
        """Its lines."""
        return range(self.first, self.last + 1)


class Source:
    """A text file by lines, with its definitions."""

    def __init__(self, path: str, raw: bytes) -> None:
        self.path, self.raw = path, raw
        self.lines = raw.decode("utf-8").removesuffix("\n").split("\n")

    @cached_property
    def _parsed(self) -> tuple[_Grammar, Any] | None:
        grammar = _grammar(grammar_of(self.path))
        if grammar is None:
            return None
        import tree_sitter

        raw, end = _plain(self.raw), thread_time() + PARSING * (1 + len(self.raw) / 1_000_000)
        try:
            tree = tree_sitter.Parser(grammar.language).parse(
                lambda at, _: raw[at:], progress_callback=lambda offset, has_error: thread_time() > end
            )
        except ValueError:  # it was stopped
            return None
        return grammar, tree.root_node

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """All definitions, outer ones before those in them."""
        found: list[Definition] = []
        around: list[Definition] = []
        for node in sorted(self._captured("definition"), key=lambda each: (each.start_byte, -each.end_byte)):
            while around and around[-1].end <= node.start_byte:
                around.pop()
            if each := _definition(self, node, around):
                found.append(each)
                around.append(each)
        return tuple(found)

    def enclosing(self, line: int, *kinds: str) -> Definition | None:
        """The innermost definition around a line that is in no function; of these kinds, if given."""
        around = [each for each in self.definitions if line in each.lines and not each.nested]
        return next((each for each in reversed(around) if not kinds or each.kind in kinds), None)

    def text(self, of: Definition) -> str:
        """The lines of a definition."""
        return "\n".join(self.lines[of.first - 1 : of.last])

    def owner(self, of: Definition) -> Definition | None:
        """The class that a definition is in."""
        fits = (each for each in self.definitions if each.full == of.owner and not each.nested)
        return next(fits, None) if of.owner else None

    def docstring(self, of: Definition) -> range:
        """The lines of a long docstring of Python after its first line, as far as it has lines of its own."""
        at = of.head  # the index of the line below
        if at >= of.last or not (opened := _DOCSTRING.match(self.lines[at])):
            return range(0)
        if opened[1] in self.lines[at][opened.end() :]:
            return range(0)
        end = next((n for n in range(at + 1, of.last) if opened[1] in self.lines[n]), at)
        return range(at + 2, end + 1) if end - at > DOCSTRING else range(0)

    def imports(self) -> list[int]:
        """The lines of the imports at the top level, whole statements."""
        found, depth = list[int](), 0
        for number, line in enumerate(self.lines, 1):
            if depth > 0 or _IMPORTS.match(line):
                found.append(number)
                depth += line.count("(") - line.count(")") + line.count("{") - line.count("}")
        return found

    def used(self, of: Definition) -> list[str]:
        """The identifiers in a definition without its own name, each once, in order."""
        nodes = sorted(self._captured("identifier", (of.start, of.end)), key=lambda each: each.start_byte)
        names = dict.fromkeys(_text(self.raw, node) for node in nodes)
        return [name for name in names if name != of.name]

    def holding(self, text: str) -> Iterator[Definition]:
        """The definitions with this text in a string; a single word must be the whole string."""
        pattern = re.escape(text.encode())
        if re.fullmatch(r"\w+", text):
            pattern = b"(?<=[\"'`])" + pattern + b"(?=[\"'`])"
        root: Any = self._parsed[1] if self._parsed else None
        for hit in islice(re.finditer(pattern, self.raw), HITS) if root is not None else ():
            assert root
            node = root.descendant_for_byte_range(*hit.span())
            line = node.start_point[0] + 1
            while node.parent and "string" not in node.type and "string" in node.parent.type:
                node = node.parent
            inside = "string" in node.type
            while node and "string" in node.type:
                node = node.parent
            docstring = node is None or node.type == "expression_statement"
            if inside and not docstring and (found := self.enclosing(line)):
                yield found

    def _captured(self, what: str, within: tuple[int, int] | None = None) -> list[Any]:
        if self._parsed is None:
            return []
        import tree_sitter

        cursor = tree_sitter.QueryCursor(self._parsed[0].query)
        if within:
            cursor.set_byte_range(*within)
        return cursor.captures(self._parsed[1]).get(what, [])


@dataclass(frozen=True)
class _Grammar:
    language: Any
    query: Any  # captures @definition and @identifier


@lru_cache
def _grammar(name: str) -> _Grammar | None:
    """The grammar with a query for the kinds of nodes that it has; None if it is not installed."""
    module, _, function = name.partition(".")
    if not name:
        return None
    try:
        import tree_sitter

        loaded = import_module(f"tree_sitter_{module}")
        language = tree_sitter.Language(getattr(loaded, function or "language")())
    except (ImportError, AttributeError, ValueError):
        return None
    every = [each for each in range(language.node_kind_count) if language.node_kind_is_named(each)]
    kinds = {
        kind
        for each in every
        if language.node_kind_is_visible(each) and (kind := language.node_kind_for_id(each))
    }
    defining = sorted(
        each for each in kinds if any(one.fullmatch(each) for one in (_CLASS, _FUNCTION, _VALUE))
    )
    naming = sorted(each for each in kinds if each.endswith("identifier") or each in ("constant", "name"))
    captures = [f"({each}) @definition" for each in defining] + [f"({each}) @identifier" for each in naming]
    captures += [_TESTS] if module in ("javascript", "typescript") else []
    return _Grammar(language, tree_sitter.Query(language, "\n".join(captures)))


def _definition(source: Source, node: Any, around: list[Definition]) -> Definition | None:
    raw = source.raw
    body, value = node.child_by_field_name("body"), node.child_by_field_name("value")
    assigned = _VALUE.fullmatch(node.type) and not (
        value and ("function" in value.type or value.type == "class")
    )
    suite = node.type == "call_expression" and _text(raw, node.children[0]) == "describe"
    kind = "class" if suite or _CLASS.fullmatch(node.type) else "value" if assigned else "function"
    name, nested = _name(raw, node), any(each.kind == "function" for each in around)
    if not name or (kind == "value" and nested) or (node.type.endswith("specifier") and not body):
        return None
    owner = ".".join(each.name for each in around if each.kind == "class")
    if receiver := node.child_by_field_name("receiver"):  # a method of Go
        owner = re.findall(r"\w+", _text(raw, receiver).split("[")[0])[-1]
    elif "::" in name:  # a method of C++
        owner, _, name = name.rpartition("::")
    outer = node
    while outer.parent and _WRAPPER.fullmatch(outer.parent.type):
        outer = outer.parent
    first, above = outer.start_point[0], outer.prev_sibling
    while above and re.search("comment|attribute", above.type) and first - above.end_point[0] in (0, 1):
        first, above = above.start_point[0], above.prev_sibling
    head = (body or node).start_point[0]
    if body and head > node.start_point[0] and body.prev_sibling.end_point[0] < head:
        head -= 1  # the body begins on a line of its own
    last = max(first, outer.end_point[0] + (1 if outer.end_point[1] else 0) - 1)
    span = outer.start_byte, outer.end_byte
    return Definition(
        source.path, name, owner.replace("::", "."), kind, first + 1, last + 1, head + 1, *span, nested
    )


def _plain(raw: bytes) -> bytes:
    """Letters for bytes beyond ASCII: scanners of grammars crash on some (tree-sitter-bash#337)."""
    raw = raw.replace(b"\xef\xbb\xbf", b"   ", 1) if raw.startswith(b"\xef\xbb\xbf") else raw
    return raw if raw.isascii() else re.sub(rb"[^\x00-\x7f]", b"x", raw)


def _text(raw: bytes, node: Any) -> str:
    return raw[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _name(raw: bytes, node: Any) -> str:
    """The name of a definition, or the title of a test that is a call; "" for what defines none."""
    if node.type == "call_expression":
        title, called = node.child_by_field_name("arguments").named_children[:1], _text(raw, node.children[0])
        said = _text(raw, title[0]).strip("'\"`") if title else ""
        return said if called == "describe" or not said else f"{called} {said}"
    fields = ("name", "left", "declarator", "type") if node.parent else ()  # the module of Python has no name
    named = next((each for field in fields if (each := node.child_by_field_name(field))), None)
    for part in ("declarator", "type", "property"):  # of C, a generic type, a member of JavaScript
        while named and (inner := named.child_by_field_name(part)):
            named = inner
    if named is None or not re.search("identifier|constant|name|^word", named.type):
        return ""
    return re.sub(r"<.*|\s", "", _text(raw, named)).lstrip("$")
