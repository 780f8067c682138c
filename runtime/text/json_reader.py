"""Reads the one JSON object of a model's reply, tolerating common mistakes around and inside it."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from typing import Any, cast

from kernel.errors import ReplyError
from runtime.text.thoughts import CLOSES, OPENS, parted

SIZE_LIMIT = 4_000_000  # characters of a reply that are still read
DEPTH_LIMIT = 64  # objects and arrays inside each other

_LANDMARK = re.compile(rf'({OPENS.pattern})|\[(?=[\s\d.,eE+-]*[\[{{"])|\{{', re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"\{\{[^{}]*\}\}|\{%[^{}]*%\}|\{(?!\s*\})[^{}\"':]*\}"
)  # braces in prose, no object
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],"]|[^{}\[\],"]++', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PYTHON = re.compile(r"\b(None|True|False)\b")
_JSON_WORDS = {"None": "null", "True": "true", "False": "false"}


def read_reply(text: str) -> dict[str, Any]:
    """The one JSON object of a reply, forgiving what models often get wrong around and inside it.

    Forgiven: fences, prose, thinking, raw newlines in strings, trailing commas, stray escapes. An object that
    stands inside something broken is never taken. Raises `ReplyError` with what is wrong and where.
    """
    if not text.strip():
        raise ReplyError("the reply is empty")
    if len(text) > SIZE_LIMIT:
        raise ReplyError(f"the reply has {len(text)} characters; at most {SIZE_LIMIT} are read")
    try:
        return _only_object(text, 0)
    except ReplyError:
        thinking, rest = parted(text)
        if not thinking or not rest:
            raise
        return _only_object(text, len(text) - len(rest))


def _only_object(text: str, at: int) -> dict[str, Any]:
    found: dict[str, Any] | None = None
    while mark := _LANDMARK.search(text, at):
        start = mark.start()
        if mark[1]:
            closing = CLOSES.search(text, mark.end())
            if not closing:
                raise _error(text, start, f"{mark[1]} is never closed, and no reply follows it")
            at = closing.end()
        elif prose := _PLACEHOLDER.match(text, start):
            at = prose.end()
        else:
            value, at = _read_value(text, start)
            if isinstance(value, dict):
                _refuse_part(text, start, at)
                if found is not None and value != found:
                    raise _error(text, start, "a second object begins; reply with exactly one")
                found = cast(dict[str, Any], value)
            elif "{" in text[start:at]:
                raise _error(text, start, "this is an array; reply with one object")
    if found is None:
        raise ReplyError("the reply holds no JSON object; reply with exactly one")
    return found


def _refuse_part(text: str, start: int, end: int) -> None:
    """Refuse an object whose surroundings show that it is a part of something broken."""
    if re.search(r'"\s*:\s*$', text[max(0, start - 200) : start]):
        raise _error(text, start, "the object around this one has lost its opening brace")
    if re.match(r'[\s}]*,\s*"', text[end : end + 200]):
        raise _error(text, end, "the object was closed here, but its text goes on")


def _read_value(text: str, start: int) -> tuple[object, int]:
    """The object or array that begins at `start`, repaired where that is safe, and where it ends."""
    pieces, places, size, depth = list[str](), list[tuple[int, int]](), 0, 0
    for token in _TOKEN.finditer(text, start):
        piece = token[0]
        depth += (piece in "{[") - (piece in "}]")
        if depth > DEPTH_LIMIT:
            raise _error(text, token.start(), f"nested more than {DEPTH_LIMIT} deep")
        if piece == '"':
            raise _error(text, token.start(), "the string that begins here is never closed")
        if piece == "," and re.compile(r",\s*[}\]]").match(text, token.start()):
            piece = " "
        elif piece[0] == '"':
            piece = _ESCAPE.sub(_fixed_escape, piece)
        elif piece[0] not in "{}[],":
            piece = _PYTHON.sub(lambda word: _JSON_WORDS[word[0]], piece)
        places.append((size, token.start()))
        pieces.append(piece)
        size += len(piece)
        if depth == 0:
            return _decode(text, "".join(pieces), places), token.end()
    raise _error(text, start, "what is opened here is never closed; the reply may have been cut off")


def _fixed_escape(escape: re.Match[str]) -> str:
    if len(escape[1]) > 1 or escape[1] in '"\\/bfnrt':
        return escape[0]
    return "'" if escape[1] == "'" else "\\" + escape[0]  # "\d+" is a pattern that nobody escaped: keep it


def _decode(text: str, repaired: str, places: list[tuple[int, int]]) -> object:
    try:
        return json.loads(repaired, strict=False, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        begin, origin = places[bisect_right(places, (error.pos, len(text))) - 1]
        what = error.msg[0].lower() + error.msg[1:]
        raise _error(text, origin + error.pos - begin, what) from None
    except ValueError as error:
        raise _error(text, places[0][1], str(error)) from None


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the object holds {number[:20]}, which is no JSON number")
    return value


def _error(text: str, at: int, what: str) -> ReplyError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    near = text[at : at + 30].split("\n")[0]
    return ReplyError(f"line {line}, column {column}: {what}" + (f", here: {near}" if near else ""))
