"""A run again from its log: each ask gets the reply that the recorded run got in the same place.

An ask is recognised by its prompt and place, else by its prompt (its place has moved), else by its place (its
prompt has changed: `differing` tells which; with `strict` it is refused). Nothing is called, nothing costs
money; tokens are counted as recorded, so that limits bind as they did.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kernel.budget import estimate_tokens
from kernel.document import Document
from kernel.errors import ConfigurationError, ProviderError
from kernel.replies import ReplyLog
from kernel.responder import Ask, Reply, Tier, Usage, Waits


@dataclass(frozen=True)
class Place:
    """Where an ask stands, whatever the run is called."""

    loop: str  # such as system, or op-fetch-1.2
    attempt: str
    phase: str
    step: str
    turn: str

    def __str__(self) -> str:
        return f"{self.phase} of {self.loop} (attempt {self.attempt}, step {self.step}, turn {self.turn})"


class Replay:
    """The replies of a recorded run."""

    reads_prompt = True

    def __init__(
        self, log: Path, name: str = "replay", tier: Tier = "worker", *, strict: bool = False
    ) -> None:
        if not log.is_file():
            raise ConfigurationError(f"{log}: there is no log of replies to replay")
        self.log = log
        self.name = name
        self.tier: Tier = tier
        self.strict = strict
        self.differing: list[str] = []  # places whose prompt is not the recorded one
        self._by_place: dict[Place, tuple[str, Reply]] = {}
        self._by_digest: dict[str, Reply] = {}
        self._read(ReplyLog(log).replies)

    def _read(self, replies: Mapping[str, Reply]) -> None:
        run = next(
            (found[1] for key in replies if (found := re.match(r"system-(\w+)/", key))), self.log.parent.name
        )
        for key, reply in replies.items():
            place, digest = _place(key, run)
            self._by_place[place] = (digest, reply)
            self._by_digest.setdefault(digest, reply)

    def offers(self, task: str, document: Document) -> float | None:
        """A recording takes any attempt."""
        return 1.0

    def estimate(self, ask: Ask) -> Usage:
        """The tokens of the prompt and of the longest reply, for no money."""
        return Usage(self.count(ask.system) + self.count(ask.user), ask.max_tokens)

    def count(self, text: str) -> int:
        """Tokens by the conservative estimate."""
        return estimate_tokens(text)

    async def answer(self, ask: Ask) -> Reply | Waits:
        """The recorded reply; `ProviderError` names the ask that the recorded run never had."""
        place, digest = _place(ask.key, ask.run)
        recorded, reply = self._by_place.get(place, ("", None))
        if recorded != digest and (same_prompt := self._by_digest.get(digest)):
            reply = same_prompt
        elif recorded != digest and reply:
            self.differing.append(str(place))
            if self.strict:
                raise ProviderError(
                    f"{self.name}: the prompt of {place} is {digest}; it differs from the recorded {recorded}"
                )
        if reply is None:
            raise ProviderError(
                f"{self.name}: the recorded run had no reply to {place}; {self._nearest(place)}"
            )
        return replace(reply, usage=replace(reply.usage, usd=0.0))

    def _nearest(self, place: Place) -> str:
        of_loop = [str(each) for each in self._by_place if each.loop == place.loop]
        if of_loop:
            return f"of this loop it had: {'; '.join(of_loop[-8:])}"
        return f"its loops were {', '.join(sorted({each.loop for each in self._by_place})) or 'none'}"


def find_log(run: str, state: Path) -> Path:
    """The log of a run: the path of its folder or log, or the run's id or the end of it."""
    path = Path(run).expanduser()
    for candidate in (path, path / "calls.jsonl", state / "runs" / run / "calls.jsonl"):
        if candidate.is_file():
            return candidate
    found = sorted((state / "runs").glob(f"*{run}/calls.jsonl")) if run and "/" not in run else []
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} runs have that end" if found else "there is no such run"
    raise ConfigurationError(f"replay:{run}: {what} with a calls.jsonl in {state / 'runs'}; see `fractal ls`")


def _place(key: str, run: str) -> tuple[Place, str]:
    """Where an ask stands, and the digest of its prompt, whichever rung was asked."""
    loop, attempt, phase, step, turn, digest = (*key.split("/"), "", "", "", "", "")[:6]
    kind, _, numbers = loop.rpartition(f"-{run}") if f"-{run}" in loop else ("", "", loop)
    return Place(kind + numbers, attempt, phase, step, turn), digest.partition(".")[0]  # not the rung's part
