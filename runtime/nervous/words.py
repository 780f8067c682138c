"""What the words of a line of shell become: quotes, variables, substitutions, braces, splitting."""

from __future__ import annotations

import re
from typing import Any

from runtime.nervous.decoding import NOTHING, Flow, unescape
from runtime.nervous.places import UNKNOWN
from runtime.nervous.reading import Scope

_SPLIT = "\x01"
"""Stands in an expanded text where the shell splits it into words."""

CHARS = 50
"""As many characters cost as much as a word."""
_MOST_BRACED = 64
"""Words that braces become, of which more are not looked at."""


class Words:
    """The words of one syntax tree, as the shell that `scope` describes expands them."""

    def __init__(self, source: bytes, scope: Scope) -> None:
        self.source, self.scope = source, scope

    def statement(self, node: Any, stdin: Flow) -> Flow:
        """Read a statement that stands inside a word; returns what it prints."""
        raise NotImplementedError

    def spend(self, work: int) -> None:
        """Account for work; raises when a line costs too much."""
        raise NotImplementedError

    def raw(self, node: Any) -> str:
        """The node as it is written."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

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
            return self._string(node)
        if kind in ("concatenation", "command_name"):
            return "".join(self.text(child, quoted=quoted) for child in node.children)
        if kind in ("simple_expansion", "expansion"):
            return self._expansion(node, quoted)
        if kind == "command_substitution":
            return self._substitution(node, quoted)
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
            self.statement(node, NOTHING)
            return "1"
        if not node.children:
            return self.raw(node)
        return "".join(self.text(child, quoted=quoted) for child in node.children)

    def _string(self, node: Any) -> str:
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

    def _expansion(self, node: Any, quoted: bool) -> str:
        raw = self.raw(node)
        body = raw[2:-1] if raw.startswith("${") else raw[1:]
        name = re.match(r"!?([A-Za-z_]\w*|[@*#?$!\d-])", body)
        value = self._variable(name[1]) if name else UNKNOWN
        if name and body.startswith("!"):
            value = self._variable(value)
        if name and len(body) > len(name[0]):
            value = _modified(value, body[len(name[0]) :])
            for child in node.named_children[1:]:
                self.text(child, quoted=True)
        self.spend(len(value) // CHARS)
        return value if quoted else self._split(value)

    def _split(self, value: str) -> str:
        """A value without quotes: blanks, or what IFS was set to, part it into words."""
        parting = self.scope.variables.get("IFS", "")
        return re.sub(rf"[\s{re.escape(parting)}]+", _SPLIT, value)

    def _variable(self, name: str) -> str:
        known = {"HOME": "~", "PWD": ".", "IFS": " ", "TMPDIR": "/tmp", "SHELL": "bash", "OLDPWD": UNKNOWN}
        if name in self.scope.variables:
            return self.scope.variables[name]
        if name in ("@", "*"):
            return UNKNOWN
        return known.get(name, UNKNOWN)

    def _substitution(self, node: Any, quoted: bool) -> str:
        flow = self.statement(node, NOTHING)
        text = flow.known()
        if text is None:
            if "downloaded" in flow.tags:
                return f"{UNKNOWN}downloaded"
            return UNKNOWN
        text = text.rstrip("\n")
        return text if quoted else self._split(text)


def joined(text: str) -> str:
    """An expanded text with blanks where it would be split, as assignments take it."""
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
    parts = hit[1].split(",")[:_MOST_BRACED]
    found: list[str] = []
    for rest in _braces(word[hit.end() :]):
        found += [f"{word[: hit.start()]}{part}{rest}" for part in parts]
        if len(found) >= _MOST_BRACED:
            break
    return found[:_MOST_BRACED]
