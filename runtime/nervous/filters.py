"""Programs that print what they read in another form, carried out on a text that is known."""

from __future__ import annotations

import base64 as base_64
import binascii
import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.nervous.options import Line
from runtime.nervous.values import NOTHING, UNTOLD, Stream, untold
from runtime.nervous.words import ansi

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

LONGEST = 60_000
"""Characters of a text that are carried on."""


def file_of(shell: Shell, path: str) -> Stream:
    """What is known of a file."""
    whole = shell.path(path)
    if whole in shell.files:
        return shell.files[whole]
    if re.match(r"/dev/(zero|u?random|full)$", whole):
        return UNTOLD.tagged("endless")
    if whole == "/dev/null":
        return NOTHING
    marks = {"file", f"path:{whole}"} if not untold(whole) else {"file"}
    return Stream(None, frozenset(marks))


def text_of(shell: Shell, line: Line, stdin: Stream, skip: int = 0) -> str | None:
    """The text that a filter reads: of the files it names, else of its input."""
    files = line.operands[skip:]
    if files:
        out = NOTHING
        for each in files:
            out = out.joined(stdin if each == "-" else file_of(shell, each))
        return out.text
    return stdin.text


def base64(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`base64`, both ways."""
    text = text_of(shell, line, stdin)
    if text is None:
        return None
    if line.has("-d", "-D", "--decode"):
        return decoded(lambda: base_64.b64decode(clean64(text) + "=" * (-len(clean64(text)) % 4)))
    return Stream(base_64.b64encode(text.encode("utf-8", "replace")).decode() + "\n")


def clean64(text: str) -> str:
    """Only what base64 is written with."""
    return re.sub(r"[^A-Za-z0-9+/]", "", text.replace("-", "+").replace("_", "/"))


def decoded(act: Callable[[], bytes]) -> Stream:
    """Bytes as a text, each byte a character."""
    try:
        return Stream(act()[:LONGEST].decode("latin-1"))
    except (binascii.Error, ValueError, zlib.error):
        return UNTOLD


def base32(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`base32 -d`."""
    text = text_of(shell, line, stdin)
    if text is None or not line.has("-d", "-D", "--decode"):
        return None
    bare = re.sub(r"[^A-Z2-7]", "", text.upper())
    return decoded(lambda: base_64.b32decode(bare + "=" * (-len(bare) % 8)))


def xxd(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`xxd -r`."""
    text = text_of(shell, line, stdin)
    if text is None or not line.has("-r"):
        return None
    if not line.has("-p", "-ps", "-plain") and "-p" not in line.options:
        text = "".join(re.findall(r"(?m)^[0-9a-f]+:((?: ?[0-9a-f]{2,4})+)", text))
    bare = re.sub(r"[^0-9a-fA-F]", "", text)
    return decoded(lambda: bytes.fromhex(bare[: len(bare) // 2 * 2]))


def openssl(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`openssl base64 -d`."""
    plain = line.words[:1] == ["base64"] or (line.words[:1] in (["enc"],) and line.has("-base64", "-a"))
    ciphers = [each for each in line.options if re.match(r"-(aes|des|bf|rc|chacha|camellia)", each)]
    if plain and not ciphers and line.has("-d") and not line.value("-in"):
        return base64(shell, Line("base64", ["-d"], ["-d"]), stdin)
    return None


def rev(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """Each line backwards."""
    text = text_of(shell, line, stdin)
    return None if text is None else Stream("\n".join(each[::-1] for each in text.split("\n")))


def tac(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """The lines backwards."""
    text = text_of(shell, line, stdin)
    return None if text is None else Stream("\n".join(reversed(text.splitlines())) + "\n")


def tr(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`tr`."""
    if stdin.text is None or not line.operands:
        return None
    first = charset(line.operands[0])
    if line.has("-d"):
        return Stream("".join(each for each in stdin.text if each not in first))
    if len(line.operands) < 2 or line.has("-c", "-C"):
        return None
    second = charset(line.operands[1]) or first
    second += second[-1:] * (len(first) - len(second))
    table = {ord(one): other for one, other in zip(first, second, strict=False)}
    return Stream(stdin.text.translate(table))


def charset(text: str) -> str:
    """The characters that a set of `tr` means."""
    classes = {
        "[:lower:]": "a-z",
        "[:upper:]": "A-Z",
        "[:digit:]": "0-9",
        "[:space:]": " \t\n\r\v\f",
        "[:blank:]": " \t",
    }
    for name, chars in classes.items():
        text = text.replace(name, chars)
    text = ansi(text)

    def spread(hit: re.Match[str]) -> str:
        low, high = ord(hit[1]), ord(hit[2])
        return "".join(map(chr, range(low, high + 1))) if low <= high < low + 300 else hit[0]

    return re.sub(r"(.)-(.)", spread, text, flags=re.DOTALL)


def sed(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """A plain `s/a/b/g` on a known text, a few of them; anything else is not known."""
    scripts = line.all("-e", "--expression") or line.operands[:1]
    if stdin.text is None or len(line.operands) > 1 or not scripts:
        return None
    text = stdin.text
    for script in scripts:
        for part in script.split(";"):
            hit = re.fullmatch(r"\s*s(.)(.*?)\1(.*?)\1(g?)\s*", part, re.DOTALL)
            if not hit or (
                re.search(r"[\\+*?()\[{|]", hit[2]) and not re.fullmatch(r"[\w\s.^$\[\]-]*", hit[2])
            ):
                return None
            try:
                new = hit[3].replace("\\", "").replace("&", "")
                text = re.sub(
                    hit[2], lambda _, new=new: new, text, count=0 if hit[4] else 1, flags=re.MULTILINE
                )
            except re.error:
                return None
    return Stream(text)


def gunzip(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`gunzip`, `gzip -d`, `zcat`."""
    if stdin.text is None or line.operands or (line.program == "gzip" and not line.has("-d", "--decompress")):
        return None
    raw = stdin.text.encode("latin-1", "replace")
    return decoded(lambda: zlib.decompressobj(wbits=47).decompress(raw, LONGEST))


def head(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`head` and `tail`."""
    text = text_of(shell, line, stdin)
    if text is None:
        return None
    count = line.value("-n", "--lines") or next(
        (each[1:] for each in line.words if re.fullmatch(r"-\d+", each)), "10"
    )
    if line.value("-c", "--bytes") or not re.fullmatch(r"\d{1,6}", count):
        return Stream(text)  # more than it prints: to be on the safe side
    lines = text.splitlines(keepends=True)
    return Stream("".join(lines[: int(count)] if line.program == "head" else lines[-int(count) :]))


def passes(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """What goes through in another order at most."""
    text = text_of(shell, line, stdin)
    return None if text is None else Stream(text)
