"""What was found out about servers: whether one takes tools, and how long a conversation its model takes.

It is kept in `state/servers.json`, by address and model, and forgotten after a week, or when a server on this
machine lists another model or window than before. The file may be removed at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, cast

from kernel import disk

FILE = "servers.json"
KEPT = 7 * 86_400
"""Seconds after which a fact is forgotten."""
ASKED_AGAIN = 86_400
"""Seconds after which a server is asked again for its window; it may have been started in another way."""
MOST = 200
"""Servers that are remembered: those that were learned last."""
LARGEST = 1_000_000
"""Bytes of the file that are read."""


class Servers:
    """The facts about servers in one file, which is read once; without a file, those of this object only."""

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.path, self._now = path, now
        self._here: dict[str, dict[str, Any]] | None = None
        self._learning = Lock()

    def known(self, server: str, seconds: float = KEPT) -> Mapping[str, Any]:
        """The facts about a server that are no older than that.

        `tools` (bool); `images` (bool); `window` (tokens, 0 if the server does not say it); `fits` (tokens of
        a window that a refusal named); `listed` (which model its list named, as a hash).
        """
        if self._here is None:
            self._here = self._read()
        facts = self._here.get(server, {})
        return {name: each["value"] for name, each in facts.items() if self._is_fresh(each, seconds)}

    def learn(self, server: str, **facts: Any) -> None:
        """Remember facts beside what other processes wrote. What cannot be written is found out again."""
        with self._learning:  # the window is asked for beside the first call
            found = self._read()
            kept = found.pop(server, {})
            new = {name: {"value": value, "at": self._now()} for name, value in facts.items()}
            self._write({**found, server: {**kept, **new}})

    def forget(self, server: str) -> None:
        """Forget all facts about a server: another one answers in its place."""
        with self._learning:
            self._write({name: each for name, each in self._read().items() if name != server})

    def _write(self, facts: dict[str, dict[str, Any]]) -> None:
        self._here = dict(list(facts.items())[-MOST:])
        if self.path and self.path.parent.is_dir():  # only a run makes that folder
            with suppress(OSError):
                raw = json.dumps(self._here, indent=1).encode("utf-8", "replace")
                disk.put(self.path, raw, mode=0o600, fsync=False)

    def _is_fresh(self, fact: Any, seconds: float) -> bool:
        at = cast(Mapping[str, Any], fact).get("at") if isinstance(fact, Mapping) else None
        return isinstance(at, (int, float)) and 0 <= self._now() - at < seconds and "value" in fact

    def _read(self) -> dict[str, dict[str, Any]]:
        if self.path is None or not self.path.is_file():
            return dict(self._here or {})
        try:
            read = json.loads(disk.read(self.path, LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        entries = cast(dict[str, Any], read).items() if isinstance(read, dict) else ()
        return {server: cast(dict[str, Any], facts) for server, facts in entries if isinstance(facts, dict)}
