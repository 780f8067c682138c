"""Embeds any text in a markdown document so that it is read back unchanged.

Short, plain text becomes a quote block; other text becomes a tilde fence longer than any fence inside it. The
only escape (`\\u{hex}`, marked on the fence) is for characters that an editor or viewer would hide or change.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from kernel.errors import DocumentError

BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
TAGS = "\U000e0000-\U000e007f"
INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff\ufff9-\ufffb" + BIDI + TAGS
)
"""Invisible characters, except TAB, LF and the joiners of scripts and emoji."""

COMMIT = "<!-- rev "
"""The beginning of a commit line. It is escaped in embedded text, so every such line is a commit."""

_BLANK = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_HIDDEN = re.compile(f"[{INVISIBLE}]")
_TRAILING = re.compile(f"(?m:[{_BLANK}]$)")
_OUR_COMMIT = re.compile(f"(?m:^)<(?={COMMIT[1:]})")
_TO_ESCAPE = re.compile("|".join(each.pattern for each in (_HIDDEN, _TRAILING, _OUR_COMMIT)))
_ESCAPE = re.compile(r"\\(\\|u\{([0-9a-f]{1,6})\})")
_NOT_TAME = re.compile(r"[<&\t]|```|~~~|!\[|\]:")
_FENCE = re.compile(r"(~{3,})text( esc)?")
QUOTE_LIMIT = 4_000
"""Maximum characters of a quote block; a longer text is fenced."""


def block(text: str, *, fenced: bool = False, pad: str = "") -> list[str]:
    """The lines that embed `text`; with `fenced` always as a fence, which marks data."""
    # three searches are three times faster than one combined
    escaped = bool(
        _HIDDEN.search(text) or _TRAILING.search(text) or (COMMIT in text and _OUR_COMMIT.search(text))
    )
    body = _escape(text) if escaped else text
    tame = not escaped and len(text) <= QUOTE_LIMIT and text.strip() and not _NOT_TAME.search(text)
    if tame and not fenced:
        lines = [f"> {line}" if line else ">" for line in body.split("\n")]
    else:
        longest = max((len(run) for run in re.findall("~~~+", text)), default=2)
        fence = "~" * (longest + 1)
        lines = [f"{fence}text{' esc' if escaped else ''}", *body.split("\n"), fence]
    return [pad + line if line else "" for line in lines] if pad else lines


def read_block(lines: Sequence[str], start: int, where: str, pad: str = "") -> tuple[str | None, int]:
    """The text of the block at `start` (None if there is none) and the index of the line after it."""
    if start >= len(lines) or not lines[start].startswith(pad):
        return None, start
    first = lines[start][len(pad) :].rstrip()
    if first.startswith(">"):
        return _read_quote(lines, start, pad + ">")
    if fence := _FENCE.fullmatch(first):
        text, after = _read_fence(lines, start, where, pad, fence[1])
        return (_ESCAPE.sub(_unescaped, text) if fence[2] else text), after
    return None, start


def _read_quote(lines: Sequence[str], start: int, mark: str) -> tuple[str, int]:
    at = start
    while at < len(lines) and lines[at].startswith(mark):
        at += 1
    texts = (line[len(mark) :] for line in lines[start:at])
    return "\n".join(text.removeprefix(" ") for text in texts), at


def _read_fence(lines: Sequence[str], start: int, where: str, pad: str, fence: str) -> tuple[str, int]:
    closing = pad + fence
    for end in range(start + 1, len(lines)):
        if lines[end].startswith(closing) and lines[end].rstrip() == closing:
            break
    else:
        raise DocumentError(f"the fence is never closed; add a line {closing!r}", f"{where}:{start + 1}")
    inside = lines[start + 1 : end]
    if not pad:
        return "\n".join(inside), end + 1
    for at, line in enumerate(inside, start + 2):
        if line and not line.startswith(pad) and line.strip():
            message = f"a line of a fenced text lost its indent; indent it by {len(pad)} blanks"
            raise DocumentError(message, f"{where}:{at}")
    return "\n".join([line[len(pad) :] for line in inside]), end + 1


def _escape(text: str) -> str:
    return _TO_ESCAPE.sub(lambda hit: f"\\u{{{ord(hit[0]):x}}}", text.replace("\\", "\\\\"))


def _unescaped(hit: re.Match[str]) -> str:
    if hit[1] == "\\":
        return "\\"
    code = int(hit[2], 16)
    return chr(code) if code <= 0x10FFFF else hit[0]


def to_json(value: Any) -> str:
    """One readable line of JSON with invisible characters escaped.

    A limit of JSON: two adjacent lone surrogates are read back as the character that they form.
    """
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else _HIDDEN.sub(_json_escape, text)


def _json_escape(hit: re.Match[str]) -> str:
    return json.dumps(hit[0])[1:-1] if hit[0] != "\x7f" else "\\u007f"


def code_span(value: Any) -> str:
    """A JSON value as a markdown code span."""
    return ticked(to_json(value))  # JSON neither begins nor ends with a backtick


def ticked(text: str) -> str:
    """A line as a markdown code span; it must not begin or end with a backtick or a space."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    tick = "`" * (longest + 1)
    return f"{tick}{text}{tick}"


def fingerprint(value: Any) -> str:
    """16 hex digits of the SHA-256 of a value's canonical JSON: equal values have equal fingerprints."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
