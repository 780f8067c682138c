"""What a harmless-looking program prints, where that can be told: echo, printf, base64 -d, rev, tr, …"""

from __future__ import annotations

import base64
import binascii
import codecs
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.nervous.places import UNKNOWN

DOWNLOADERS = frozenset(
    ["curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "w3m", "ftp", "lwp-download", "GET", "axel"]
)


@dataclass(frozen=True)
class Flow:
    """What runs through a pipe: its text where that can be told, and what is known of where it came from.

    `tags`: downloaded, remote (what somebody elsewhere types), shell (what a shell says that is fed by nobody
    knows whom), hidden (decoded, or computed by a program that is not looked into), secret, processes (a list
    of all that run).
    """

    text: str | None = None
    tags: frozenset[str] = field(default_factory=frozenset[str])

    def known(self) -> str | None:
        """The text, if all of it can be told."""
        return None if self.text is None or UNKNOWN in self.text else self.text


_ALPHABET = 256
NOTHING = Flow("")
SOMETHING = Flow(None)


def printed(words: Sequence[str], stdin: Flow) -> Flow:
    """What a command writes to its standard output."""
    name = words[0].rpartition("/")[2]
    if name in DOWNLOADERS:
        return Flow(None, frozenset({"downloaded"}))
    if name in _PRINTERS:
        return _PRINTERS[name](words[1:], stdin)
    return Flow(None, stdin.tags | {"hidden"} if name in _HIDING else stdin.tags)


_HIDING = frozenset(
    [
        "psql",
        "mysql",
        "mariadb",
        "sqlite3",
        "openssl",
        "gpg",
        "gzip",
        "gunzip",
        "zcat",
        "bzip2",
        "xz",
        "uudecode",
        "perl",
        "ruby",
    ]
)
"""Programs whose output cannot be told: what they print may be anything."""


def _echo(args: Sequence[str], stdin: Flow) -> Flow:
    escapes = False
    while args and re.fullmatch(r"-[neE]+", args[0]):
        escapes |= "e" in args[0]
        args = args[1:]
    text = " ".join(args)
    return Flow(unescape(text) if escapes else text)


def _printf(args: Sequence[str], stdin: Flow) -> Flow:
    if args and args[0] == "--":
        args = args[1:]
    if not args:
        return NOTHING
    form, values = unescape(args[0]), list(args[1:])

    def put(hit: re.Match[str]) -> str:
        if hit[0] == "%%":
            return "%"
        value = values.pop(0) if values else ""
        return unescape(value) if hit[0].endswith("b") else value

    text = re.sub(r"%%|%[-\d.]*[sbdxciuq]", put, form)
    while values and "%" in form:
        before = len(values)
        text += re.sub(r"%%|%[-\d.]*[sbdxciuq]", put, form)
        if len(values) == before:
            break
    return Flow(text)


def _cat(args: Sequence[str], stdin: Flow) -> Flow:
    return stdin if not [each for each in args if each != "-" and not each.startswith("-")] else Flow(None)


def _base64(args: Sequence[str], stdin: Flow) -> Flow:
    if [each for each in args if not each.startswith("-")]:
        return Flow(None, frozenset({"hidden"}))  # out of a file
    if not any(each in ("-d", "-D", "--decode", "-di", "-id") for each in args):
        return Flow(None, stdin.tags)
    return _decoded(
        stdin, lambda text: base64.b64decode("".join(text.split()) + "==").decode("utf-8", "replace")
    )


def _xxd(args: Sequence[str], stdin: Flow) -> Flow:
    if not any(re.fullmatch(r"-\w*r\w*", each) for each in args):
        return Flow(None, stdin.tags)
    if [each for each in args if not each.startswith("-")]:
        return Flow(None, frozenset({"hidden"}))  # out of a file
    return _decoded(stdin, lambda text: bytes.fromhex("".join(text.split())).decode("utf-8", "replace"))


def _rev(args: Sequence[str], stdin: Flow) -> Flow:
    return _decoded(stdin, lambda text: "\n".join(line[::-1] for line in text.splitlines()))


def _tr(args: Sequence[str], stdin: Flow) -> Flow:
    if len(args) == 2 and args[0] == "-d":
        return _decoded(stdin, lambda text: text.translate(dict.fromkeys(map(ord, _set(args[1])))))
    if len(args) != 2 or args[0].startswith("-"):
        return Flow(None, stdin.tags | {"hidden"})
    try:
        old, new = _set(args[0]), _set(args[1])
    except ValueError:
        return Flow(None, stdin.tags | {"hidden"})
    new += new[-1:] * (len(old) - len(new))
    return _decoded(stdin, lambda text: text.translate(dict(zip(map(ord, old), new, strict=False))))


def _set(text: str) -> str:
    """The characters of a set such as `a-z`; raises `ValueError` for more than an alphabet has."""

    def between(hit: re.Match[str]) -> str:
        first, last = ord(hit[1]), ord(hit[2])
        if last - first > _ALPHABET:
            raise ValueError(text)
        return "".join(map(chr, range(first, last + 1)))

    return re.sub(r"(.)-(.)", between, unescape(text))


def _openssl(args: Sequence[str], stdin: Flow) -> Flow:
    if "s_client" in args:
        return Flow(None, frozenset({"downloaded", "remote"}))
    return (
        _base64(args, stdin) if "base64" in args or "-base64" in args else Flow(None, frozenset({"hidden"}))
    )


def _decoded(stdin: Flow, decode: Callable[[str], str]) -> Flow:
    text = stdin.known()
    if text is None:
        return Flow(None, stdin.tags | {"hidden"})
    try:
        return Flow(decode(text), stdin.tags)
    except (ValueError, binascii.Error):
        return Flow(None, stdin.tags | {"hidden"})


def _fixed(text: str) -> Callable[[Sequence[str], Flow], Flow]:
    return lambda args, stdin: Flow(text)


def _ps(args: Sequence[str], stdin: Flow) -> Flow:
    """A list of processes: of all of them, unless some are chosen."""
    chosen = any(re.match(r"-?-(?:C|p|pid|ppid|t|g|sid)\b|-?p\d|\d+$", each) for each in args)
    return Flow(None, frozenset() if chosen else frozenset({"processes"}))


def _sifting(args: Sequence[str], stdin: Flow) -> Flow:
    """What picks some lines out of many."""
    return Flow(None, stdin.tags - {"processes"})


def _awk(args: Sequence[str], stdin: Flow) -> Flow:
    picks = any(re.search(r"/.*/|~|[=<>]", each) for each in args)
    return Flow(None, (stdin.tags - {"processes"} if picks else stdin.tags) | {"hidden"})


def _paths(of: Callable[[str], str]) -> Callable[[Sequence[str], Flow], Flow]:
    """A program that works out paths from its words alone."""

    def put(args: Sequence[str], stdin: Flow) -> Flow:
        return Flow("\n".join(of(each) for each in args if not each.startswith("-")))

    return put


def _parent(path: str) -> str:
    return f"{path}/.." if path in (".", "..", "~") else posixpath.dirname(path) or "."


def _which(args: Sequence[str], stdin: Flow) -> Flow:
    names = [each for each in args if not each.startswith("-")]
    return Flow(names[0]) if names else NOTHING


_PRINTERS: Mapping[str, Callable[[Sequence[str], Flow], Flow]] = {
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "tee": lambda args, stdin: stdin,
    "base64": _base64,
    "xxd": _xxd,
    "rev": _rev,
    "tr": _tr,
    "openssl": _openssl,
    "pwd": _fixed("."),
    "mktemp": _fixed("/tmp/scratch"),
    "which": _which,
    "true": _fixed(""),
    ":": _fixed(""),
    "nproc": _fixed("2"),
    "date": _fixed("2026"),
    "dirname": _paths(_parent),
    "basename": _paths(lambda path: UNKNOWN if path in (".", "..", "~") else posixpath.basename(path)),
    "telnet": lambda args, stdin: Flow(None, frozenset({"downloaded", "remote"})),
    "ps": _ps,
    **dict.fromkeys(("grep", "egrep", "rg", "ag", "head", "tail"), _sifting),
    **dict.fromkeys(("awk", "gawk", "mawk"), _awk),
    "printenv": lambda args, stdin: Flow(None, frozenset({"secret"})),
    "ls": lambda args, stdin: Flow("*" if not args else None),
    "git": lambda args, stdin: Flow(".") if args[:1] == ("ls-files",) else Flow(None),
}


def unescape(text: str) -> str:
    r"""The text with `\n`, `\x41`, `\101` and their like read, as `$'…'`, `echo -e` and printf do."""
    text = re.sub(r"\\0?([0-7]{1,3})", lambda hit: chr(int(hit[1], 8)), text) if "\\" in text else text
    try:
        return re.sub(
            r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[abefnrtv\\'\"?])",
            lambda hit: _escape(hit[1]),
            text,
        )
    except (ValueError, OverflowError):
        return text


def _escape(code: str) -> str:
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code == "e":
        return "\x1b"
    return codecs.decode(f"\\{code}", "unicode_escape") if code not in "?" else "?"
