"""Splits a simple command into words and expands them: quotes, escapes, braces, variables, substitutions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.safety.acts import ANY, FETCHED, NAME, Act, has_unknown

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

FIELDS = 64
"""Most fields that a word may expand to; a word with more becomes `ANY`."""
LONGEST = 300
"""Characters of a value that `${x%.md}` and the like are computed for."""
_PLAIN = re.compile(r"[^\\'\"$`<>(){}~\s;&|]+")
_DULL = re.compile(r"[^\\\"'`(){}\[\]$]+")
_SIMPLE = re.compile(r"[\w./:=@%+,^-]+")
_GLOB = re.compile(r"[*?\[]")
_QUOTE = re.compile(r"\$?['\"]")
_BREAK = "\ue1f0"
_KEPT = {ord("\ue110"): "{", ord("\ue111"): "}", ord("\ue112"): ",", ord("\ue113"): "~"}
_KEEP = {ord(mark): chr(kept) for kept, mark in _KEPT.items()}
_REDIRECT = re.compile(r"(\d*|\{\w+\})(<<<|<<-?|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())")
_BRACES = re.compile(
    r"\{([^{}]*(?:,[^{}]*)+)\}|\{(-?\d{1,7}|[A-Za-z])\.\.(-?\d{1,7}|[A-Za-z])(?:\.\.-?\d+)?\}"
)
_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!_-])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|c.|.)", re.DOTALL
)
_ESCAPES = dict(zip("ntrabeEfv", "\n\t\r\a\b\x1b\x1b\f\v", strict=True))
_SHAPED = (
    *("RANDOM", "SRANDOM", "SECONDS", "UID", "EUID", "PPID", "LINENO", "USER", "LOGNAME", "HOSTNAME", "LANG"),
    *"?#$!-",
)
_SECRET = re.compile(
    r"(?i)(?:^|_)(?:api_?key|apikey|keys?|tokens?|secrets?|passw(?:or)?d|passphrase|pwd|credentials?|pat)(?:_|\d*$)"
)
_NO_SECRET = re.compile(r"(?i)^(PWD|OLDPWD|KEYBOARD|KEYMAP)$|_(path|file|dir|sock|name|home|id)$|^keys?\d*$")


@dataclass(frozen=True)
class Token:
    """A word before expansion, or a redirection with its target."""

    text: str
    sign: str = ""
    descriptor: str = ""


def secret(name: str) -> bool:
    """Whether the name of a variable suggests that it holds a secret."""
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


def tokens(text: str) -> Iterator[Token]:
    """The words and redirections of a simple command."""
    at = 0
    while at < len(text):
        if text[at] in " \t\n;&|()" and not text.startswith("&>", at):
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif text[at] == "#":
            at = (text.find("\n", at) + 1) or len(text)
        elif hit := _REDIRECT.match(text, at):
            start = re.compile(r"(?:[ \t]|\\\n)*").match(text, hit.end())
            begin = start.end() if start else hit.end()
            at = word_end(text, begin)
            yield Token(text[begin:at], hit[2], hit[1])
            at = max(at, hit.end())
        else:
            end = word_end(text, at)
            if end > at:
                yield Token(text[at:end])
            at = max(end, at + 1)


def word_end(text: str, at: int) -> int:
    """The end of the word that begins at `at`."""
    begin = at
    while at < len(text):
        if hit := _PLAIN.match(text, at):
            at = hit.end()
        elif text[at] == "(" and at > begin and text[at - 1] in "=?*+@!":
            at = closing(text, at)  # an array, or an extended glob
        elif text[at] in "\\'\"`${}~" or text.startswith(("<(", ">("), at):
            at = _piece_end(text, at)
        else:
            return at
    return at


def _piece_end(text: str, at: int) -> int:
    """The end of the quotation, escape, expansion or single character that begins at `at`."""
    mark, following = text[at], text[at + 1 : at + 2]
    if mark == "\\":
        return min(at + 2, len(text))
    if mark == "'":
        return (text.find("'", at + 1) + 1) or len(text)
    if mark in '"`' or (mark == "$" and following in ("'", '"')):
        return _quote_end(text, at + (mark == "$"))
    if (following == "(" and mark in "$<>") or text.startswith("${", at):
        return closing(text, at + 1)
    return at + 1


def _quote_end(text: str, at: int) -> int:
    """The end of the quotation in `"…"`, `` `…` `` or `$'…'` whose mark is at `at`."""
    mark, at = text[at], at + 1
    while at < len(text) and text[at] != mark:
        skips = text[at] == "\\" or (mark == '"' and (text[at] == "`" or text.startswith("$(", at)))
        at = _piece_end(text, at) if skips else at + 1
    return min(at + 1, len(text))


def closing(text: str, at: int) -> int:
    """The position behind the bracket that closes the one at `at`."""
    opened, closed = text[at], {"(": ")", "{": "}", "[": "]"}[text[at]]
    depth = 0
    while at < len(text):
        if hit := _DULL.match(text, at):
            at = hit.end()
            continue
        mark = text[at]
        if mark in "\"'`\\" or text.startswith("$'", at):
            at = _piece_end(text, at)
            continue
        depth += (mark == opened) - (mark == closed)
        at += 1
        if not depth:
            return at
    return len(text)


def expand(shell: Shell, word: str) -> list[str]:
    """The fields that a word expands to."""
    if _SIMPLE.fullmatch(word):
        return [word]
    shell.spend(1 + len(word) // 400)
    out, quoted = _expanded(shell, word, quoted=False)
    fields: list[str] = []
    for each in _braced(out):
        fields += [part for part in each.split(_BREAK) if part or quoted]
    return [each if each.isascii() else each.translate(_KEPT) for each in fields][: FIELDS + 1] or (
        [""] if quoted else []
    )


def expand_one(shell: Shell, word: str) -> str:
    """What a word expands to where it is not split: in an assignment or a redirection."""
    out, _ = _expanded(shell, word, quoted=False, splits=False)
    return " ".join(out.split(_BREAK)).translate(_KEPT)


def _expanded(shell: Shell, text: str, *, quoted: bool, splits: bool = True) -> tuple[str, bool]:
    """The expanded text with `_BREAK` between fields, and whether any part of it was quoted."""
    out: list[str] = []
    any_quoted, at = False, 0
    while at < len(text):
        mark, following = text[at], text[at + 1 : at + 2]
        if mark == "\\" and (not quoted or following in '$`"\\\n'):
            out.append("" if following == "\n" else following.translate(_KEEP))
            at += 2
        elif not quoted and (hit := _QUOTE.match(text, at)):
            end = _piece_end(text, at)
            inner = text[hit.end() : end - 1]
            if hit[0][-1] == '"':
                out.append(_expanded(shell, inner, quoted=True)[0])
            else:
                out.append((unescaped(inner) if mark == "$" else inner).translate(_KEEP))
            any_quoted, at = True, end
        elif (
            mark == "`"
            or (mark == "$" and following in ("(", "{", "["))
            or (mark in "<>" and following == "(" and not quoted)
        ):
            end = closing(text, at + 1) if mark == "$" else _piece_end(text, at)
            values = _substituted(shell, text[at:end], quoted)
            out.append(_joined(shell, values, quoted or not splits or mark in "<>"))
            at = end
        elif mark == "$" and (hit := re.match(r"[A-Za-z_]\w*|[0-9@*#?$!-]", text[at + 1 : at + 100])):
            values = value(shell, hit[0], quoted)
            out.append(_joined(shell, values, quoted or not splits))
            at += 1 + hit.end()
        else:
            hit = _PLAIN.match(text, at)
            end = hit.end() if hit else at + 1
            out.append(text[at:end].translate(_KEEP) if quoted else text[at:end])
            at = end
    return "".join(out), any_quoted


def _joined(shell: Shell, values: list[str], quoted: bool) -> str:
    if quoted:
        return _BREAK.join(each.translate(_KEEP) for each in values)
    by = "".join(shell.variables.get("IFS", [" \t\n"])) or "\0"
    split = re.compile("[" + re.escape(" \t\n" if has_unknown(by) else by) + "]+")
    return _BREAK.join(split.sub(_BREAK, each).translate(_KEEP) for each in values)


def _substituted(shell: Shell, text: str, quoted: bool) -> list[str]:
    shell.spend(len(text) // 20)
    if text.startswith("$(("):
        inner = text[3:-2].strip()
        _expanded(shell, inner, quoted=True)
        return [inner if re.fullmatch(r"\d{1,9}", inner) else NAME]
    if text.startswith("$["):
        return [NAME]
    if text.startswith("${"):
        return _parameter(shell, text[2:-1], quoted)
    if text[0] in "<>":
        return [shell.process(text[2:-1], text[0] == "<")]
    inner = re.sub(r"\\([\\`$])", r"\1", text[1:-1]) if text[0] == "`" else text[2:-1]
    printed = shell.substituted(inner)
    if printed.text is not None:
        return [printed.text.rstrip("\n")]
    return [FETCHED if "download" in printed.tags else printed.shape]


def _parameter(shell: Shell, text: str, quoted: bool) -> list[str]:
    """The values of `${…}`, with any operator behind the name."""
    hit = _PARAMETER.fullmatch(text)
    if not hit:
        return [ANY]
    way, name, index, rest = hit[1], hit[2], hit[3], hit[4]
    if way == "#":
        return [NAME]
    if way == "!":
        names = shell.variables.get(name)
        return value(shell, " ".join(names), quoted) if names and not rest and index is None else [ANY]
    if index is not None:
        values = shell.variables.get(name, [ANY])
        expansions = (
            values
            if index in ("@", "*")
            else values[int(index) : int(index) + 1]
            if index.isdigit()
            else [ANY]
        )
        return [_operator_applied(shell, each, rest) for each in expansions]
    if (rest[:1] == ":" and rest[1:2] in tuple("-=+?")) or rest[:1] in tuple("-=+?"):
        sign = rest.lstrip(":")[:1]
        other = [expand_one(shell, rest.lstrip(":")[1:])]
        is_argument = name.isdigit() and (not name.strip("0") or bool(value(shell, name, quoted)))
        unset = name not in shell.variables and not is_argument
        if sign == "=" and unset:
            shell.variables[name] = other
        if sign == "+":
            return other
        return other if unset and sign != "?" else value(shell, name, quoted)
    return [_operator_applied(shell, each, rest) for each in value(shell, name, quoted)]


def _operator_applied(shell: Shell, text: str, rest: str) -> str:
    """A value after `${x%.md}` or `${x/a/b}`; unknown after other operators, or where that is not clear."""
    if not rest:
        return text
    if has_unknown(text) or len(text) > LONGEST:
        return text if rest[0] in "#%" and text != ANY else ANY
    if rest[0] == "/":
        old, _, new = rest.strip("/").partition("/")
        return ANY if _GLOB.search(old) else text.replace(expand_one(shell, old), expand_one(shell, new))
    if hit := re.match(r"##?|%%?", rest):
        form = re.compile(fnmatch.translate(expand_one(shell, rest[hit.end() :])))
        cuts = range(len(text) + 1)[:: -1 if hit[0] in ("##", "%") else 1]
        if hit[0][0] == "#":
            return next((text[at:] for at in cuts if form.match(text[:at])), text)
        return next((text[:at] for at in cuts if form.match(text[at:])), text)
    return ANY


def value(shell: Shell, name: str, quoted: bool) -> list[str]:
    """The fields of a variable."""
    if name in ("@", "*"):
        return list(shell.positional) if name == "@" or not quoted else [" ".join(shell.positional)]
    if name.isdigit() and name.strip("0"):
        at = int(name[:4]) - 1
        return [shell.positional[at]] if at < len(shell.positional) else []
    if name == "PWD":
        return [shell.cwd]
    if name in shell.variables:
        return shell.variables[name][:1] or [""]
    if secret(name):
        shell.note(Act("secret", text=name, shown=f"uses the variable {name}"))
    return [NAME if name in _SHAPED else ANY]


def unescaped(text: str) -> str:
    """The text with the escapes of `$'…'`, `echo -e` and `printf` replaced."""

    def escape(hit: re.Match[str]) -> str:
        what = hit[1]
        if what[0] in "xuU" and len(what) > 1:
            number = int(what[1:], 16)
            return chr(number) if number < 0x110000 else ANY
        if what[0] in "01234567":
            return chr(int(what, 8) & 0xFF)
        if what[0] == "c" and len(what) == 2:
            return chr(ord(what[1].upper()) & 0x1F)
        return _ESCAPES.get(what, what if what in "\\'\"?" else f"\\{what}")

    return _ESCAPE.sub(escape, text) if "\\" in text else text


def _braced(text: str) -> list[str]:
    """Brace expansion: `{a,b}c` gives ac and bc, `{1..3}` gives 1, 2 and 3."""
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
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        low, high = int(first), int(last)
        step = 1 if high >= low else -1
        return [str(each) for each in range(low, high + step, step)] if abs(high - low) <= FIELDS else [NAME]
    if len(first) == len(last) == 1:
        step = 1 if last >= first else -1
        return [chr(each) for each in range(ord(first), ord(last) + step, step)]
    return [ANY]
