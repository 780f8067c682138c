"""What asks cost, added up: by loop, and by place in the tree of loops with all that lies below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel.responder import FREE, Usage


@dataclass(frozen=True)
class Totals:
    """What asks cost; one that never came back counts whole as reserved. `usd` is what is known of it.

    `unpriced` counts the calls without a price. `overrun`: what providers took beyond their reservations; the
    other figures hold it.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    overrun: Usage = FREE

    def __add__(self, other: Totals, sign: int = 1) -> Totals:
        over, more = self.overrun, other.overrun
        return Totals(
            self.calls + sign * other.calls,
            self.prompt_tokens + sign * other.prompt_tokens,
            self.completion_tokens + sign * other.completion_tokens,
            self.usd + sign * other.usd,
            self.unpriced + sign * other.unpriced,
            Usage(
                over.prompt_tokens + sign * more.prompt_tokens,
                over.completion_tokens + sign * more.completion_tokens,
                (over.usd or 0.0) + sign * (more.usd or 0.0),
                over.calls + sign * more.calls,
            ),
        )

    def __sub__(self, other: Totals) -> Totals:
        return self.__add__(other, -1)

    def as_dict(self) -> dict[str, Any]:
        """As it stands in a document; an overrun only where there is one."""
        over, usd = self.overrun, round(self.overrun.usd or 0.0, 9)
        values: dict[str, Any] = {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "usd": round(self.usd, 9),
        }
        if over.prompt_tokens or over.completion_tokens or usd:
            values |= {"overrun_tokens": over.prompt_tokens + over.completion_tokens, "overrun_usd": usd}
        return values


def places(loop_id: str) -> list[str]:
    """A loop's place in the tree, after those above it, as its id tells: `/`, `/1`, `/1.2`."""
    if loop_id.startswith("system-"):
        return ["/"]
    numbers = loop_id.rpartition("-")[2].split(".")
    return ["/", *("/" + ".".join(numbers[: n + 1]) for n in range(len(numbers)))]


def charge(used: Usage, held: Usage) -> Totals:
    """What was used, where `held` had been reserved."""

    def over(name: str) -> Any:
        return max(0, (getattr(used, name) or 0) - (getattr(held, name) or 0))

    return Totals(
        used.calls,
        used.prompt_tokens,
        used.completion_tokens,
        used.usd or 0.0,
        int(used.usd is None),
        Usage(over("prompt_tokens"), over("completion_tokens"), over("usd"), over("calls")),
    )
