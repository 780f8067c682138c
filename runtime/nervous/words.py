"""What the words of a shell command become: quotes, escapes, braces, variables, substitutions.

A word gives alternatives, because a variable may hold one of several values; each is a list of fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.nervous.parameters import EXPANSION, Fields, Node, Shell, operated, parameter, value
from runtime.nervous.values import ANY, FETCHED, NAME, Stream, untold

MOST = 8
"""Alternatives of a word, and values of a variable; more are anything."""
FIELDS = 64
_QUOTED = {each: chr(0xE100 + at) for at, each in enumerate("{},*?[]~")}
_UNQUOTED = {ord(mark): each for each, mark in _QUOTED.items()}
_HOLE = 0xE120
_HOLES = 0x60
_FIELD = "\ue1f0"
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|c.|.)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*(?:,[^{}]*)+)\}|\{(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?\}")


@dataclass
class _Word:
    """A word while it is put together: text with holes, and what fills them."""

    text: str = ""
    holes: list[tuple[list[Fields], bool]] = field(default_factory=list)
    quoted: bool = False

    def literal(self, text: str, *, quoted: bool) -> None:
        if quoted:
            self.quoted = True
            text = "".join(_QUOTED.get(each, each) for each in text) if not text.isalnum() else text
        self.text += text

    def hole(self, values: list[Fields], *, quoted: bool) -> None:
        self.quoted = self.quoted or quoted
        if len(self.holes) >= _HOLES:
            self.text += ANY
            return
        self.text += chr(_HOLE + len(self.holes))
        self.holes.append((values, quoted))


def expand(shell: Shell, node: Node) -> list[Fields]:
    """The alternatives of what a word becomes, each a list of fields."""
    if node.type == "word":
        text = shell.source[node.start_byte : node.end_byte].decode("utf-8", "replace")
        if not any(each in text for each in "\\{~$`\"'"):
            return [[text]]
    word = _Word()
    _gather(shell, node, word, quoted=False)
    return _finish(shell, word)


_RAW = re.compile(
    r"\$'(?P<ansi>(?:[^'\\]|\\.)*)'|'(?P<single>[^']*)'|\$?\"(?P<double>(?:[^\"\\]|\\.)*)\"|(?P<braced>\$\{[^}]*\})"
    r"|(?P<run>\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`)|(?P<name>\$(?:[A-Za-z_]\w*|[0-9@*#?$!-]))|(?P<rest>\\?.)",
    re.DOTALL,
)


def raw(shell: Shell, text: str) -> list[Fields]:
    """A word by its text alone, where the parser has taken one word for several."""
    word = _Word()
    _raw(shell, text, word, quoted=False)
    return _finish(shell, word)


def _raw(shell: Shell, text: str, word: _Word, *, quoted: bool) -> None:
    for hit in _RAW.finditer(text):
        kind = hit.lastgroup
        if quoted and kind in ("single", "ansi"):
            word.literal(hit[0], quoted=True)
        elif kind == "single":
            word.literal(hit["single"], quoted=True)
        elif kind == "ansi":
            word.literal(ansi(hit["ansi"]), quoted=True)
        elif kind == "double":
            word.quoted = True
            _raw(shell, hit["double"], word, quoted=True)
        elif kind == "run":
            word.hole([[ANY]], quoted=quoted)
        elif kind == "name":
            word.hole(value(shell, hit["name"][1:], quoted=quoted), quoted=quoted)
        elif kind == "braced":
            found = EXPANSION.match(hit["braced"])
            plain = found is not None and not found["way"] and found["index"] is None
            values = value(shell, found["name"], quoted=quoted) if found and plain else [[ANY]]
            if found and plain and found["rest"]:
                values = operated(shell, found["name"], values, found["rest"])
            word.hole(values, quoted=quoted)
        else:
            _bare(hit[0], word, quoted=quoted)


def one(shell: Shell, node: Node | None) -> str:
    """What a word becomes where only one text is possible: of an assignment, a redirection."""
    if node is None:
        return ""
    found = expand(shell, node)
    return " ".join(found[0]) if len(found) == 1 else ANY


def _text(shell: Shell, node: Node) -> str:
    return shell.source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _gather(shell: Shell, node: Node, word: _Word, *, quoted: bool) -> None:
    kind = node.type
    if kind == "raw_string":
        word.literal(_text(shell, node)[1:-1], quoted=True)
    elif kind == "ansi_c_string":
        word.literal(ansi(_text(shell, node)[2:-1]), quoted=True)
    elif kind in ("string", "translated_string"):
        _string(shell, node, word)
    elif kind in ("simple_expansion", "expansion"):
        text = _text(shell, node)
        word.hole(parameter(shell, node, text, quoted=quoted), quoted=quoted)
    elif kind == "command_substitution":
        word.hole([_printed(shell.substituted(node), quoted=quoted)], quoted=quoted)
    elif kind == "process_substitution":
        word.literal(shell.process(node), quoted=True)
    elif kind == "arithmetic_expansion":
        shell.look_into(node)
        word.hole([[_arithmetic(_text(shell, node))]], quoted=True)
    elif kind in ("concatenation", "command_name", "array", "subscript", "variable_assignment") or (
        node.named_child_count and kind not in ("word",)
    ):
        _children(shell, node, word, quoted=quoted)
    else:
        _bare(_text(shell, node), word, quoted=quoted)


def _children(shell: Shell, node: Node, word: _Word, *, quoted: bool) -> None:
    at = node.start_byte
    for child in node.children:
        if child.start_byte > at:  # what lies between belongs to the word too
            _bare(shell.source[at : child.start_byte].decode("utf-8", "replace"), word, quoted=quoted)
        _gather(shell, child, word, quoted=quoted)
        at = child.end_byte


def _string(shell: Shell, node: Node, word: _Word) -> None:
    word.quoted = True
    inner = [each for each in node.children if each.type not in ('"', '$"', "$")]
    if node.type == "translated_string":
        for each in inner:
            _gather(shell, each, word, quoted=True)
        return
    at, end = node.start_byte + 1, node.end_byte - 1
    for child in inner:
        if child.type == "string_content":
            continue  # its text is taken from between the others
        word.literal(_double(shell.source[at : child.start_byte]), quoted=True)
        _gather(shell, child, word, quoted=True)
        at = max(at, child.end_byte)
    word.literal(_double(shell.source[at:end]), quoted=True)


def _double(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return (
        re.sub(r"\\([\"\\$`\n])", lambda hit: "" if hit[1] == "\n" else hit[1], text)
        if "\\" in text
        else text
    )


def _bare(text: str, word: _Word, *, quoted: bool) -> None:
    if quoted:
        word.literal(text, quoted=True)
        return
    at = 0
    while (hit := text.find("\\", at)) >= 0 and hit + 1 < len(text):
        word.literal(text[at:hit], quoted=False)
        if text[hit + 1] != "\n":
            word.literal(text[hit + 1], quoted=True)
        at = hit + 2
    word.literal(text[at:], quoted=False)


def ansi(text: str) -> str:
    """The text inside `$'…'`, its escapes carried out."""

    def escape(hit: re.Match[str]) -> str:
        what = hit[1]
        try:
            if what[0] in "xuU" and len(what) > 1:
                return chr(int(what[1:], 16))
            if what[0] in "01234567":
                return chr(int(what, 8) & 0xFF)
        except (ValueError, OverflowError):
            return ANY
        if what[0] == "c" and len(what) == 2:
            return chr(ord(what[1].upper()) & 0x1F)
        return _ESCAPES.get(what, what if what in "\\'\"?" else f"\\{what}")

    return _ANSI.sub(escape, text)


def _printed(stream: Stream, *, quoted: bool) -> Fields:
    """What a substitution leaves of what was printed."""
    if stream.text is not None:
        return [stream.text.rstrip("\n")]
    return [FETCHED if "download" in stream.tags else stream.shape]


def _arithmetic(text: str) -> str:
    inner = text.removeprefix("$((").removesuffix("))").removeprefix("$[").removesuffix("]").strip()
    return inner if re.fullmatch(r"\d{1,9}", inner) else NAME


# ---- variables -------------------------------------------------------------------------------------------


# ---- fields ----------------------------------------------------------------------------------------------


def _finish(shell: Shell, word: _Word) -> list[Fields]:
    found: list[Fields] = []
    for values in _choices(word):
        fields: Fields = []
        for text in braced(word.text):
            fields += _filled(shell, text, values, word)
            if len(fields) > FIELDS * 4:
                return [[ANY]]
        fields = [_plain(each) for each in fields]
        if fields not in found:
            found.append(fields)
        if len(found) > MOST:
            return [[ANY]]
    return found


def _choices(word: _Word) -> list[list[tuple[Fields, bool]]]:
    """Each way to fill the holes."""
    ways: list[list[tuple[Fields, bool]]] = [[]]
    for values, quoted in word.holes:
        ways = [[*way, (value, quoted)] for way in ways for value in values]
        if len(ways) > MOST:
            return [[([ANY], quoted) for _, quoted in word.holes]]
    return ways


def _filled(shell: Shell, text: str, values: Sequence[tuple[Fields, bool]], word: _Word) -> Fields:
    fields, current = [""], False
    for each in re.split(r"([\ue120-\ue17f])", text):
        if len(each) == 1 and 0 <= ord(each) - _HOLE < len(values):
            parts, quoted = values[ord(each) - _HOLE]
            split = parts if quoted else _split(shell, parts)
            if not split:
                continue
            fields[-1] += split[0]
            fields += split[1:]
            current = True
        elif each:
            fields[-1] += each
            current = True
    if word.quoted:
        return fields
    return [each for each in fields if each] if current else []


def _split(shell: Shell, parts: Fields) -> Fields:
    separators = shell.variables.get("IFS")
    by = "".join(separators[0]) if separators and separators[0] and not untold(separators[0][0]) else " \t\n"
    fields: Fields = []
    for part in parts:
        if by == " \t\n":
            fields += part.split()
        else:
            fields += [each for each in re.split(f"[{re.escape(by)}]", part) if each] if by else [part]
    if fields and parts and parts[0][:1] in by and parts[0][:1]:
        fields = ["", *fields]  # `rm$x` with a leading blank is two words
    if fields and parts and parts[-1][-1:] in by and parts[-1][-1:]:
        fields = [*fields, ""]
    if not fields and "".join(parts):
        fields = ["", ""]  # nothing but blanks: `rm${IFS}x` is two words
    return fields[:FIELDS] if len(fields) <= FIELDS else [ANY]


def _plain(text: str) -> str:
    return text if text.isascii() else text.translate(_UNQUOTED)


def braced(text: str) -> list[str]:
    """The texts that braces stand for: `{a,b}c` is ac and bc, `{1..3}` 1, 2 and 3."""
    if "{" not in text:
        return [text]
    done: list[str] = []
    queue = [text]
    while queue:
        each = queue.pop(0)
        hit = _BRACES.search(each)
        if not hit:
            done.append(each)
            continue
        choices = hit[1].split(",") if hit[1] is not None else _range(hit[2], hit[3])
        queue = [each[: hit.start()] + choice + each[hit.end() :] for choice in choices] + queue
        if len(queue) + len(done) > FIELDS:
            return [ANY]
    return done


def _range(first: str, last: str) -> list[str]:
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit() and len(first) < 8 and len(last) < 8:
        low, high = int(first), int(last)
        if abs(high - low) > FIELDS:
            return [NAME]
        step = 1 if high >= low else -1
        return [str(each) for each in range(low, high + step, step)]
    if len(first) == len(last) == 1:
        step = 1 if last >= first else -1
        return [chr(each) for each in range(ord(first), ord(last) + step, step)]
    return [ANY]
