"""Replays a run from its log: each ask gets the recorded reply to the same request.

An ask is matched by its rendered prompt; repeated prompts get their replies in the recorded order. If the
prompt differs because files have changed, the reply of the same place is used, but only for a loop with the
same task; `differing` lists these places. A `strict` replay does not do that. Any other ask is an error.
Replay calls no model and costs no money; tokens are counted as recorded, so limits apply as before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kernel.asking.responder import Ask, Reply, Responder, Tier, Waits
from kernel.asking.turn import TURN
from kernel.document.model import Document
from kernel.errors import ConfigurationError, DocumentError, ProviderError
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore


@dataclass(frozen=True)
class Place:
    """The place of an ask in its run, without the run's id."""

    loop: str  # such as system, or op-fetch-1.2
    attempt: str
    phase: str
    step: str
    turn: str

    def __str__(self) -> str:
        return f"{self.phase} of {self.loop} (attempt {self.attempt}, step {self.step}, turn {self.turn})"


class Replay(Responder):
    """The replies of a recorded run."""

    def __init__(
        self,
        log: Path,
        name: str = "replay",
        tier: Tier = "worker",
        *,
        strict: bool = False,
        context: int | None = None,
    ) -> None:
        if not log.is_file():
            raise ConfigurationError(f"{log}: no log of replies to replay")
        self.log = log
        self.name = name
        self.tier: Tier = tier
        self.strict = strict
        self.context = context
        self.differing: list[str] = []  # places whose prompt differs from the recorded one
        self._by_place: dict[Place, tuple[str, Reply]] = {}
        self._taken: set[Place] = set()  # places of an earlier version that were replayed
        self._by_digest: dict[str, list[Place]] = {}  # places whose reply is unused
        recorded = ReplyLog(log)
        self._read({key: reply for key in recorded.replies if (reply := recorded.reply(key))})
        self.form = "micro" if recorded.forms else "json"  # as the recorded model was asked
        self._tasks = _tasks(log.parent)

    def _read(self, replies: Mapping[str, Reply]) -> None:
        run = next(
            (found[1] for key in replies if (found := re.match(r"system-(\w+)/", key))), self.log.parent.name
        )
        for key, reply in replies.items():
            place, digest = _place(key, run)
            self._by_place[place] = (digest, reply)
            self._by_digest.setdefault(digest, []).append(place)

    def offers(self, task: str, document: Document) -> float | None:
        """Accept any attempt."""
        return 1.0

    async def answer(self, ask: Ask) -> Reply | Waits:
        """The recorded reply; `ProviderError` if the recorded run had no such ask."""
        place, digest = _place(ask.key, ask.run)
        if ask.phase == TURN and place not in self._by_place:
            place = self._earlier(place, ask) or place
        recorded, reply = self._by_place.get(place, ("", None))
        left = self._by_digest.get(digest, [])
        if recorded == digest:
            if place in left:
                left.remove(place)
        elif left:
            reply = self._by_place[left.pop(0)][1]
        elif reply:
            if self.strict:
                raise ProviderError(
                    f"{self.name}: the request in {place} differs from the recorded one; record the run again"
                )
            if place.loop not in self._tasks:
                raise ProviderError(
                    f"{self.name}: the request in {place} differs from the recorded one, and its task is "
                    f"not known: put the run's root document beside {self.log.name}"
                )
            if self._tasks[place.loop] != ask.document.text(1, "task"):
                raise ProviderError(
                    f"{self.name}: the request in {place} differs from the recorded one, and so does "
                    "its task; a recording can only replay the task of its own run"
                )
            self.differing.append(str(place))
        if reply is None:
            raise ProviderError(
                f"{self.name}: the recorded run had no reply to {place}; {self._nearest(place)}"
            )
        return replace(reply, usage=replace(reply.usage, usd=0.0))

    def _earlier(self, place: Place, ask: Ask) -> Place | None:
        """The place of a turn in a run of an earlier version: its plan first, then its calls in order."""
        phases = ("work",) if ask.document.planned else ("fused", "plan")
        here = [each for each in self._by_place if (each.loop, each.attempt) == (place.loop, place.attempt)]
        left = [each for each in here if each.phase in phases and each not in self._taken]
        self._taken.update(left[:1])
        return left[0] if left else None

    def _nearest(self, place: Place) -> str:
        of_loop = [str(each) for each in self._by_place if each.loop == place.loop]
        if of_loop:
            return f"recorded for this loop: {'; '.join(of_loop[-8:])}"
        return f"its loops were {', '.join(sorted({each.loop for each in self._by_place})) or 'none'}"


def find_log(run: str, state: Path) -> Path:
    """The log of a run, given the path of its folder or log, its id, or the end of its id."""
    path = Path(run).expanduser()
    for candidate in (path, path / "calls.jsonl", state / "runs" / run / "calls.jsonl"):
        if candidate.is_file():
            return candidate
    found = sorted((state / "runs").glob(f"*{run}/calls.jsonl")) if run and "/" not in run else []
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} runs end like that" if found else "no such run"
    raise ConfigurationError(f"replay:{run}: {what} with a calls.jsonl in {state / 'runs'}; see `fractal ls`")


def _tasks(folder: Path) -> dict[str, str]:
    """The tasks of the recorded loops, from the documents beside the log."""
    found: dict[str, str] = {}
    store = FileStore(folder)
    for loop_id in store.list():
        with suppress(DocumentError):  # without a task, its asks match by prompt only
            document = store.peek(loop_id)
            found[_loop_name(loop_id, document.meta.run)] = document.text(1, "task")
    return found


def _loop_name(loop: str, run: str) -> str:
    """A loop's id without the run's id: `system`, `op-fetch-1.2`."""
    kind, _, numbers = loop.rpartition(f"-{run}") if f"-{run}" in loop else ("", "", loop)
    return kind + numbers


def _place(key: str, run: str) -> tuple[Place, str]:
    """The place of an ask and the digest of its prompt, from its key."""
    loop, attempt, phase, step, turn, digest = (*key.split("/"), "", "", "", "", "")[:6]
    prompt, _, _ = digest.partition(".")  # without the digest of the responder
    return Place(_loop_name(loop, run), attempt, phase, step, turn), prompt
