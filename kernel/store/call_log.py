"""The write-ahead log of model calls, from which a resumed run takes replies and budgets their spending.

The lifeforce of tools is recorded here, too, where it is counted. An ask is identified by its key,
`loop/attempt/phase/step/turn/digest`; `prompts/` of the run has its prompt for people.
"""

from __future__ import annotations

import json
import operator
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernel import disk
from kernel.asking.responder import FREE, Reply, Usage
from kernel.document.amounts import clamped, total
from kernel.document.escaping import to_json
from kernel.document.redaction import redact, secrets
from kernel.errors import DocumentError


@dataclass(frozen=True)
class Totals:
    """The cost of asks. One without a recorded end counts as its full reservation.

    `usd` is the sum of the known prices, and `unpriced` counts the calls whose price is unknown. The
    `overrun` is the cost beyond the reservations, which the other figures include. `lifeforce` includes the
    calls of tools.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    overrun_calls: int = 0
    overrun_tokens: int = 0
    overrun_usd: float = 0.0
    lifeforce: float = 0.0
    cached_tokens: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*map(total, vars(self).values(), vars(other).values()))

    def __sub__(self, other: Totals) -> Totals:
        return Totals(*map(operator.sub, vars(self).values(), vars(other).values()))

    def as_dict(self) -> dict[str, Any]:
        """The form in a document; what is rare, such as cached tokens, is included if there is any."""
        values: dict[str, Any] = {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "usd": round(self.usd, 9),
        }
        if lifeforce := round(self.lifeforce, 6):
            values["lifeforce"] = lifeforce
        if self.cached_tokens:
            values["cached_tokens"] = self.cached_tokens
        if self.unpriced:
            values["unpriced"] = self.unpriced
        usd = round(self.overrun_usd, 9)
        if self.overrun_tokens or usd:
            values |= {"overrun_tokens": self.overrun_tokens, "overrun_usd": usd}
        return values


def places(loop_id: str) -> list[str]:
    """The places of a loop's ancestors and its own in the tree, from its id: `/`, `/1`, `/1.2`."""
    if loop_id.startswith("system-"):
        return ["/"]
    numbers = loop_id.rpartition("-")[2].split(".")
    return ["/", *("/" + ".".join(numbers[: n + 1]) for n in range(len(numbers)))]


def charge(used: Usage, reserved: Usage) -> Totals:
    """The cost of one call, with its overrun over the reservation."""
    names = ("calls", "prompt_tokens", "completion_tokens", "usd")
    over = {name: max(0, (getattr(used, name) or 0) - (getattr(reserved, name) or 0)) for name in names}
    return Totals(
        used.calls,
        used.prompt_tokens,
        used.completion_tokens,
        used.usd or 0.0,
        unpriced=int(used.usd is None),
        overrun_calls=over["calls"],
        overrun_tokens=over["prompt_tokens"] + over["completion_tokens"],
        overrun_usd=float(over["usd"]),
        lifeforce=used.lifeforce,
        cached_tokens=used.cached_tokens,
    )


VERSION = 1


class ReplyLog:
    """`calls.jsonl` of one run: every ask before its call, every reply before it is used.

    The file is read at the first use and then kept in memory. Only the process with the run's lock writes;
    its threads may append in parallel. Each record is on disk when the method returns.
    """

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self.path = path
        self._fsync = fsync
        self._exact = secrets().of_run(path.parent)
        self.problems: list[str] = []  # skipped lines, and why
        self._lock = threading.RLock()
        self._loaded = False
        self._torn = False  # whether the last line is incomplete
        self.forms: set[str] = set()  # the kinds of replies other than JSON
        self._open: dict[str, tuple[str, Usage]] = {}  # asks without an end: rung, reservation
        self._replies: dict[str, Reply] = {}
        self._spent: dict[str, Totals] = {}  # by loop id, and by place (/1.2) with all descendants

    def asked(self, key: str, rung: str, reserved: Usage, form: str = "json") -> None:
        """Record the start of a call, with its maximum cost and the kind of its reply's form."""
        kind = {} if form == "json" else {"form": form}
        self._append("asked", key, {"rung": rung, "usage": reserved.as_dict(), **kind})

    def replied(self, key: str, reply: Reply) -> None:
        """Record a reply, valid or not."""
        text = self._exact.conceal(reply.text)
        self._append("replied", key, {**vars(reply), "text": text, "usage": reply.usage.as_dict()})

    def failed(self, key: str, why: str, usage: Usage = FREE) -> None:
        """Record a failed call, the reason, and its cost."""
        self._append("failed", key, {"why": redact(why), "usage": usage.as_dict()})

    def acted(self, key: str, tool: str, usage: Usage) -> None:
        """Record what a tool's call costs: its lifeforce before it is made, what it asked for after it."""
        self._append("acted", key, {"tool": tool, "usage": usage.as_dict()})

    def reply(self, key: str) -> Reply | None:
        """The recorded reply to an ask, if any, as it was given."""
        reply = self.replies.get(key)
        return reply and replace(reply, text=self._exact.reveal(reply.text))

    @property
    def replies(self) -> Mapping[str, Reply]:
        """All replies by key, in the order of their asks' first replies, their secrets hidden."""
        with self._lock:
            self._load()
            return MappingProxyType(self._replies)

    def sizes(self, key: str) -> list[int]:
        """The completion tokens of all replies of the rung in an ask's key."""
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
        """The cost of a loop's own asks, or of all asks."""
        return self._account(loop_id or "/")

    def spent_by(self, loop_id: str) -> Totals:
        """The spending of a loop, its descendants, and earlier loops at the same place.

        It does not depend on which documents still exist, so nothing is lost or counted twice.
        """
        return self._account(places(loop_id)[-1])

    def _account(self, name: str) -> Totals:
        with self._lock:
            self._load()
            total = self._spent.get(name, Totals())
            for key, (_, reserved) in self._open.items():
                if name in _accounts(key):
                    total += charge(reserved, reserved)
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
            with disk.writing_state(self.path):
                if self._torn or not self.path.exists():
                    self._begin_on_a_fresh_line()
                disk.append(self.path, line, fsync=self._fsync)
            self._take(kind, key, record)

    def _take(self, kind: str, key: str, record: Mapping[str, Any]) -> None:
        """Update the state in memory with one record."""
        usage = Usage(**{name: each and clamped(each, 0) for name, each in record["usage"].items()})
        _, reserved = self._open.pop(key, ("", usage))
        if kind == "asked":
            if reserved is not usage:  # the same ask again: the process died during the earlier call
                self._book(key, charge(reserved, reserved))
            self._open[key] = (record["rung"], usage)
            self.forms |= {record["form"]} if "form" in record else set()
            return
        self._book(key, charge(usage, reserved))
        if kind == "replied":
            scores = record.get("scores", {})
            self._replies[key] = Reply(record["text"], record["model"], usage, record["truncated"], scores)

    def _book(self, key: str, charge: Totals) -> None:
        for account in _accounts(key):
            self._spent[account] = self._spent.get(account, Totals()) + charge

    def _load(self) -> None:
        if self._loaded:
            return
        with disk.reading_state(self.path):
            lines = (self.path.read_bytes() if self.path.exists() else b"").split(b"\n")
        self._torn = lines.pop() != b""
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if record["v"] > VERSION:
                    raise DocumentError(
                        "written by a newer Fractal; update this one", f"{self.path}:{number}"
                    )
                _refuse_other_kinds(record)
                self._take(record["kind"], record["key"], record)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                self.problems.append(f"{self.path}:{number}: skipped invalid log record ({error})")
        if self._torn:
            self.problems.append(f"{self.path}:{len(lines) + 1}: skipped torn log record")
        self._loaded = True

    def _begin_on_a_fresh_line(self) -> None:
        """Create the file, or move an incomplete last line to `calls.jsonl.torn`."""
        if not self.path.exists():
            disk.put(self.path, b"", mode=0o600, fsync=self._fsync)
            return
        kept, _, tail = self.path.read_bytes().rpartition(b"\n")
        aside = self.path.with_name(self.path.name + ".torn")
        disk.put(aside, (aside.read_bytes() if aside.exists() else b"") + tail + b"\n", mode=0o600)
        disk.cut(self.path, len(kept) + 1 if kept else 0)
        self._torn = False


_FIELDS = {"asked": ("rung",), "replied": ("text", "model"), "failed": ("why",), "acted": ("tool",)}


def _refuse_other_kinds(record: Mapping[str, Any]) -> None:
    """Raise for a record with values of the wrong type, which would otherwise fail later."""
    texts = [record["key"], *(record[name] for name in _FIELDS[record["kind"]])]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("a text is missing")
    numbers = [*record["usage"].values(), *record.get("scores", {}).values()]
    if not all(each is None or isinstance(each, int | float) for each in numbers):
        raise TypeError("usage or a score is no number")


def _loop(key: str) -> str:
    return key.partition("/")[0]


def _accounts(key: str) -> list[str]:
    """The accounts of an ask: its loop, its place, and the places of its ancestors."""
    return [_loop(key), *places(_loop(key))]
