"""What `$x` and `${x…}` stand for: the values that a variable may hold, and what is made of them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from runtime.nervous.values import ANY, NAME, Act, Stream, untold

Node = Any
"""A node of tree-sitter, which has no types of its own to import where it is not used."""
Fields = list[str]


class Shell(Protocol):
    """What expanding a word needs of whoever walks the line."""

    source: bytes
    cwd: str
    variables: dict[str, tuple[tuple[str, ...], ...]]
    positional: tuple[str, ...]
    references: dict[str, str]

    def substituted(self, node: Node) -> Stream: ...  # noqa: D102
    def process(self, node: Node) -> str: ...  # noqa: D102
    def note(self, act: Act) -> None: ...  # noqa: D102
    def look_into(self, node: Node) -> None: ...  # noqa: D102


_SECRET = re.compile(
    r"(?i)(?:^|_)(?:api_?key|apikey|keys?|tokens?|secrets?|passw(?:or)?d|passphrase|pwd|credentials?|pat)(?:_|\d*$)"
)


_HARMLESS = re.compile(
    r"(?i)^(PWD|OLDPWD|KEYBOARD|KEYMAP)$|_(path|file|dir|sock|name|home|id)$|^key$|^keys?\d*$"
)


EXPANSION = re.compile(
    r"\$\{(?P<way>[!#]?)(?P<name>[A-Za-z_]\w*|\d+|[@*#?$!_-])(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)\}$",
    re.DOTALL,
)


SHAPED: Mapping[str, str] = dict.fromkeys(
    (
        "RANDOM",
        "SRANDOM",
        "SECONDS",
        "UID",
        "EUID",
        "PPID",
        "LINENO",
        "USER",
        "LOGNAME",
        "EPOCHSECONDS",
        "HOSTNAME",
        "?",
        "#",
        "$",
        "!",
        "LANG",
        "EPOCHREALTIME",
    ),
    NAME,
)


def parameter(shell: Shell, node: Node, text: str, *, quoted: bool) -> list[Fields]:
    """What an expansion gives: alternatives, each a list of fields."""
    if not text.startswith("${"):
        name = text[1:]
        return value(shell, name, quoted=quoted)
    shell.look_into(node)  # commands inside are run, wherever they stand
    hit = EXPANSION.match(text)
    if not hit or hit["way"] == "!":
        return [[ANY]] if not hit or hit["name"] not in shell.variables else _indirect(shell, hit["name"])
    if hit["way"] == "#":
        return [[NAME]]
    name, index, rest = hit["name"], hit["index"], hit["rest"]
    values = value(shell, name, quoted=quoted, index=index)
    return operated(shell, name, values, rest) if rest else values


def _indirect(shell: Shell, name: str) -> list[Fields]:
    names = [" ".join(each) for each in shell.variables[name]]
    return [each for other in names for each in value(shell, other, quoted=True)] or [[ANY]]


def value(shell: Shell, name: str, *, quoted: bool, index: str | None = None) -> list[Fields]:
    """What a variable may hold."""
    if name in ("@", "*"):
        fields = list(shell.positional)
        return [[" ".join(fields)]] if name == "*" and quoted else [fields]
    if name.isdigit() and name.strip("0"):
        at = int(name) - 1
        return [[shell.positional[at]] if at < len(shell.positional) else []]
    if name == "PWD":
        return [[shell.cwd]]
    name = shell.references.get(name, name)
    values = shell.variables.get(name)
    if values is None:
        if name in SHAPED:
            return [[SHAPED[name]]]
        if secret(name):
            shell.note(Act("secret", text=name, shown=f"uses the variable {name}"))
        return [[ANY]]
    if index in ("@", "*") or (index is None and len(values) == 1 and len(values[0]) == 1):
        return [list(each) for each in values]
    if index is None or index.isdigit():
        at = int(index or 0)
        return [[each[at] if at < len(each) else ANY] for each in values]
    return [[ANY]]


def secret(name: str) -> bool:
    """Whether a variable's name says that it holds a secret."""
    return bool(_SECRET.search(name)) and not _HARMLESS.search(name)


def operated(shell: Shell, name: str, values: list[Fields], rest: str) -> list[Fields]:
    """What `${name…}` makes of the values of `name`."""
    unset = name not in shell.variables and name not in SHAPED and not name.isdigit() and name not in "@*"
    empty = all(not "".join(each) for each in values)
    if hit := re.fullmatch(r":?([-=+?])(.*)", rest, re.DOTALL):
        other = [_simple(shell, hit[2])]
        if hit[1] == "?":
            return values
        if hit[1] == "+":
            return [
                *([] if unset or empty else [other]),
                *([other, [""]] if unset else []),
                *([[""]] if empty else []),
            ]
        return [other] if unset or empty else values
    return [[_changed(shell, each, rest) for each in fields] for fields in values]


def _simple(shell: Shell, text: str) -> str:
    """A word inside `${…}`, as far as it is plain."""
    if re.search(r"[$`\"'\\]", text):
        stripped = re.fullmatch(r"([\"'])([^$`\"'\\]*)\1", text)
        if stripped:
            return stripped[2]
        found = re.fullmatch(r"\"?\$\{?(\w+)\}?([^$`\"'\\]*)\"?", text)
        if found:
            values = value(shell, found[1], quoted=True)
            return " ".join(values[0]) + found[2] if len(values) == 1 else ANY
        return ANY
    return text


def _changed(shell: Shell, value: str, rest: str) -> str:
    if rest.startswith(("@", "[")):
        return value if rest == "@Q" else ANY
    if hit := re.fullmatch(r":\s*\(?(-?\d+)\)?(?::\s*(-?\d+))?", rest):
        if untold(value):
            return ANY
        start = int(hit[1])
        start = max(len(value) + start, 0) if start < 0 else start
        end = None if hit[2] is None else int(hit[2]) if int(hit[2]) < 0 else start + int(hit[2])
        return value[start:end]
    if rest.startswith(":"):
        return ANY
    if rest[0] in "^,":
        whole = rest[:2] in ("^^", ",,")
        change: Callable[[str], str] = str.upper if rest[0] == "^" else str.lower
        return change(value) if whole else change(value[:1]) + value[1:]
    if rest[0] in "#%":
        long = rest[:2] in ("##", "%%")
        return _trimmed(value, _simple(shell, rest[2 if long else 1 :]), rest[0] == "#", long)
    if rest[0] == "/":
        return _replaced(shell, value, rest)
    return ANY


def _trimmed(value: str, pattern: str, front: bool, long: bool) -> str:
    if untold(value) or len(value) > 2_000:
        return value
    if untold(pattern):
        return ANY
    cuts = range(len(value) + 1) if front != long else range(len(value), -1, -1)
    for cut in cuts:
        piece = value[:cut] if front else value[cut:]
        if fnmatch.fnmatchcase(piece, pattern):
            return value[cut:] if front else value[:cut]
    return value


def _replaced(shell: Shell, value: str, rest: str) -> str:
    every = rest.startswith("//")
    body = rest[2 if every else 1 :]
    pattern, _, new = body.partition("/")
    old, new = _simple(shell, pattern), _simple(shell, new)
    if untold(value) or untold(old) or untold(new) or len(value) > 2_000:
        return value if NAME in value and not untold(old + new) else ANY
    anchored = old[:1] if old[:1] in ("#", "%") and not every else ""
    old = old[len(anchored) :]
    look = fnmatch.translate(old).removesuffix(r"\Z").removesuffix(r"\z")
    look = f"^{look}" if anchored == "#" else f"{look}$" if anchored == "%" else look
    try:
        return re.sub(look, lambda _: new, value, count=0 if every else 1)
    except re.error:
        return ANY
