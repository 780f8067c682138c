"""What models answered: a lenient reader of replies, and the write-ahead log that resume takes them from.

The reader knows nothing of phases: it finds the one JSON object of a text. The log knows nothing of prompts:
an ask is its key, `loop/attempt/phase/step/turn/digest`.
"""

from __future__ import annotations

import json
import math
import re
import threading
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from kernel import disk
from kernel.errors import DocumentError, ReplyError
from kernel.responder import FREE, Reply, Usage
from kernel.spending import Totals, charge, places
from kernel.text import to_json

VERSION = 1
SIZE_LIMIT = 4_000_000  # characters of a reply that are still read
DEPTH_LIMIT = 64  # objects and arrays inside each other

_TAG = "(think|thinking|thought|reasoning)\\b[^<>]*>"
_OPENING, _CLOSING = (re.compile(f"<{slash}{_TAG}", re.IGNORECASE) for slash in ("", "/"))
_LANDMARK = re.compile(rf'<{_TAG}|\[(?=[\s\d.,eE+-]*[\[{{"])|\{{', re.IGNORECASE)
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
    if len(text) > SIZE_LIMIT:
        raise ReplyError(f"the reply has {len(text)} characters; at most {SIZE_LIMIT} are read")
    try:
        return _only_object(text, 0)
    except ReplyError:
        # thinking whose opening tag stood in the prompt; a text that begins with JSON is no thinking
        closing = _CLOSING.search(text)
        if (
            not closing
            or _OPENING.search(text, 0, closing.start())
            or re.match(r"\s*(```\w*\s*)?[\[{]", text)
        ):
            raise
        return _only_object(text, closing.end())


def _only_object(text: str, at: int) -> dict[str, Any]:
    found: dict[str, Any] | None = None
    while mark := _LANDMARK.search(text, at):
        start = mark.start()
        if mark[1]:
            closing = re.compile(f"</{mark[1]}[^<>]*>", re.IGNORECASE).search(text, mark.end())
            if not closing:
                raise _error(text, start, f"<{mark[1]}> is never closed, and no reply follows it")
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
    """The object or array that begins at `start`, mended where that is safe, and where it ends."""
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
            piece = _ESCAPE.sub(_mend_escape, piece)
        elif piece[0] not in "{}[],":
            piece = _PYTHON.sub(lambda word: _JSON_WORDS[word[0]], piece)
        places.append((size, token.start()))
        pieces.append(piece)
        size += len(piece)
        if depth == 0:
            return _decode(text, "".join(pieces), places), token.end()
    raise _error(text, start, "what is opened here is never closed; the reply may have been cut off")


def _mend_escape(escape: re.Match[str]) -> str:
    if len(escape[1]) > 1 or escape[1] in '"\\/bfnrt':
        return escape[0]
    return "'" if escape[1] == "'" else "\\" + escape[0]  # "\d+" is a pattern that nobody escaped: keep it


def _decode(text: str, mended: str, places: list[tuple[int, int]]) -> object:
    try:
        return json.loads(mended, strict=False, parse_constant=_finite, parse_float=_finite)
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


class ReplyLog:
    """`calls.jsonl` of one run: every ask before its call, every reply before it is applied.

    Read at its first use, then kept in memory. One process writes (it holds the run's lock); its loops may
    append from several threads. Each line is on disk when the method returns.
    """

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self.path = path
        self._fsync = fsync
        self.problems: list[str] = []  # lines that were left out, and why
        self._lock = threading.RLock()
        self._loaded = False
        self._torn = False  # whether the file ends within a line
        self._open: dict[str, tuple[str, Usage]] = {}  # asked and not yet answered: rung, reservation
        self._replies: dict[str, Reply] = {}
        self._spent: dict[str, Totals] = {}  # by loop, and by place in the tree (/1.2): with all below it

    def asked(self, key: str, rung: str, reserved: Usage) -> None:
        """Record that a call begins, with the most that it may cost."""
        self._append("asked", key, {"rung": rung, "usage": asdict(reserved)})

    def replied(self, key: str, reply: Reply) -> None:
        """Record what came back, usable or not."""
        self._append("replied", key, asdict(reply))

    def failed(self, key: str, why: str, usage: Usage = FREE) -> None:
        """Record that nothing came back, why, and what it cost all the same."""
        self._append("failed", key, {"why": why, "usage": asdict(usage)})

    def reply(self, key: str) -> Reply | None:
        """The reply to the same ask, if it came back before."""
        return self.replies.get(key)

    @property
    def replies(self) -> Mapping[str, Reply]:
        """All replies by key, in the order of their asks' first replies."""
        with self._lock:
            self._load()
            return MappingProxyType(self._replies)

    def sizes(self, key: str) -> list[int]:
        """The completion tokens of all replies of the rung that an ask is for."""
        rung = key.rpartition(".")[2]
        return [
            reply.usage.completion_tokens
            for each, reply in self.replies.items()
            if each.rpartition(".")[2] == rung
        ]

    def loops(self) -> set[str]:
        """The ids of the loops that have asked."""
        with self._lock:
            self._load()
            asked = (account for account in self._spent if not account.startswith("/"))
            return {*asked, *(_loop(key) for key in self._open)}

    def spent(self, loop_id: str | None = None) -> Totals:
        """What a loop's own asks cost, or those of all loops."""
        return self._account(loop_id or "/")

    def below(self, loop_id: str) -> Totals:
        """What was spent at a loop's place in the tree: by it, by all below it, and by earlier ones there.

        It does not matter which documents are there any more, so nothing is forgotten or counted twice.
        """
        return self._account(places(loop_id)[-1])

    def _account(self, name: str) -> Totals:
        with self._lock:
            self._load()
            total = self._spent.get(name, Totals())
            for key, (_, held) in self._open.items():
                if name in _accounts(key):
                    total += charge(held, held)
        return total

    def _append(self, kind: str, key: str, record: dict[str, Any]) -> None:
        with self._lock:
            self._load()
            head = {
                "v": VERSION,
                "kind": kind,
                "ts": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "key": key,
            }
            if kind != "asked" and key in self._open:
                head["rung"] = self._open[key][0]
            line = (to_json(head | record) + "\n").encode()
            with disk.of_the_state(self.path):
                if self._torn or not self.path.exists():
                    self._begin_on_a_fresh_line()
                disk.append(self.path, line, fsync=self._fsync)
            self._take(kind, key, record)

    def _take(self, kind: str, key: str, record: Mapping[str, Any]) -> None:
        """Bring what is in memory up to one more line."""
        usage = Usage(**record["usage"])
        _, held = self._open.pop(key, ("", usage))
        if kind == "asked":
            if held is not usage:  # the same ask again: the process died in the call before
                self._book(key, charge(held, held))
            self._open[key] = (record["rung"], usage)
            return
        self._book(key, charge(usage, held))
        if kind == "replied":
            self._replies[key] = Reply(record["text"], record["model"], usage, record["truncated"])

    def _book(self, key: str, charge: Totals) -> None:
        for account in _accounts(key):
            self._spent[account] = self._spent.get(account, Totals()) + charge

    def _load(self) -> None:
        if self._loaded:
            return
        with disk.reading_of_the_state(self.path):
            lines = (self.path.read_bytes() if self.path.exists() else b"").split(b"\n")
        self._torn = lines.pop() != b""
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                newer = record["v"] > VERSION
                if not newer:
                    _refuse_other_kinds(record)
                    self._take(record["kind"], record["key"], record)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                self.problems.append(f"{self.path}:{number}: left out, no line of a reply log ({error})")
                continue
            if newer:
                raise DocumentError("written by a newer Fractal; update this one", f"{self.path}:{number}")
        if self._torn:
            self.problems.append(f"{self.path}:{len(lines) + 1}: left out, the line is torn")
        self._loaded = True

    def _begin_on_a_fresh_line(self) -> None:
        """Make the file, or put a torn last line aside in `calls.jsonl.torn`."""
        if not self.path.exists():
            disk.put(self.path, b"", mode=0o600, fsync=self._fsync)
            return
        kept, _, tail = self.path.read_bytes().rpartition(b"\n")
        aside = self.path.with_name(self.path.name + ".torn")
        disk.put(aside, (aside.read_bytes() if aside.exists() else b"") + tail + b"\n", mode=0o600)
        disk.cut(self.path, len(kept) + 1 if kept else 0)
        self._torn = False


_FIELDS = {"asked": ("rung",), "replied": ("text", "model"), "failed": ("why",)}


def _refuse_other_kinds(record: Mapping[str, Any]) -> None:
    """Raise for a line whose values are of other kinds than ours: it would fail only where it is used."""
    texts = [record["key"], *(record[name] for name in _FIELDS[record["kind"]])]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("a text is missing")
    if not all(each is None or isinstance(each, int | float) for each in record["usage"].values()):
        raise TypeError("usage is no number")


def _loop(key: str) -> str:
    return key.partition("/")[0]


def _accounts(key: str) -> list[str]:
    """Where an ask is booked: at its loop, at its place, and at the places above it."""
    return [_loop(key), *places(_loop(key))]
