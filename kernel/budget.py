"""Limits, what was spent, and a child's share of the calls: spent + reserved never exceeds a limit.

Calls are shared out: each child has its own limit of them. Tokens and money are one purse for the whole tree,
so that what one child leaves another can use. What was spent comes from the log of replies, where a call that
is under way counts whole, and what is shared out from the lines of the steps. So all of it is derived from
what is on disk, and a crash cannot make the two disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from math import ceil, inf
from typing import Any

from kernel.document import Document, Step
from kernel.errors import LimitReached


def estimate_tokens(text: str) -> int:
    """Tokens of a text where no tokenizer is at hand: its UTF-8 bytes by three, rounded up.

    Conservative: English prose has about four bytes a token, code about three.
    """
    return ceil(len(text.encode("utf-8", "surrogatepass")) / 3)


@dataclass(frozen=True)
class Bounds:
    """Every limit of the loop, with its default. Source: kernel.md, "Bounds"; the seed's §4.4 and §9."""

    max_depth: int = 3  # from this depth on a loop is atomic: one reply names one operation
    context_system: int = 3000  # tokens of work context at depth 0 (3150 less base and phase)
    context_tool: int = 2000  # at depth 1
    context_operation: int = 1000  # at depth 2 and more
    min_context: int = 500  # tokens; a loop with less is atomic
    overhead: int = 150  # tokens of base and phase that a child's context is reduced by
    retries: int = 2  # attempts after the first
    questions: int = 3  # that a run may ask a person
    calls: int = 60  # of models, in a run
    tokens: int = 400_000  # prompt and completion, in a run
    usd: float | None = 1.0  # in a run; None: no limit
    seconds: float = 900.0  # of activity, in a run
    side_by_side: int = 4  # steps of one loop at the same time
    repairs: int = 2  # times that a reply of the wrong form is asked for again
    reply_tokens: int = 2000  # the longest reply that is asked for
    result_chars: int = 4000  # of a result that stand in the document; the rest goes to artifacts/
    same_failure: int = 2  # times that the same call with the same arguments may fail

    def context(self, depth: int) -> int:
        """The work context of a loop at a depth, in tokens."""
        return (self.context_system, self.context_tool, self.context_operation)[min(depth, 2)]


@dataclass(frozen=True)
class Amount:
    """Calls, tokens and USD; `usd` is infinite where money has no limit."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        usd = inf if self.usd == inf else self.usd - other.usd  # without a limit, any share leaves no limit
        return Amount(self.calls - other.calls, self.tokens - other.tokens, usd)

    def covers(self, other: Amount) -> bool:
        """Whether `other` fits in."""
        room = other.usd <= self.usd + 1e-12
        return other.calls <= self.calls and other.tokens <= self.tokens and room

    def as_dict(self) -> dict[str, Any]:
        """As it stands in a document; no `usd` where money has no limit."""
        values = asdict(self)
        if self.usd == inf:
            del values["usd"]
        else:
            values["usd"] = round(self.usd, 9)
        return values

    @staticmethod
    def limit(values: Mapping[str, Any]) -> Amount:
        """A limit as it stands in a document."""
        usd = values.get("usd")
        return Amount(
            int(values.get("calls", 0)), int(values.get("tokens", 0)), inf if usd is None else float(usd)
        )

    @staticmethod
    def spending(values: Mapping[str, Any]) -> Amount:
        """Spending as it stands in a document: `tokens`, or prompt and completion tokens."""
        tokens = values.get("tokens", values.get("prompt_tokens", 0) + values.get("completion_tokens", 0))
        return Amount(int(values.get("calls", 0)), int(tokens), float(values.get("usd") or 0.0))


NOTHING = Amount()
UNLIMITED = Amount(10**12, 10**12, inf)
FIRST_REPLY = 600
"""Tokens that a reply is expected to need, such as a plan of ten steps, until `KNOWN` have come."""
KNOWN = 3
QUANTILE, MARGIN = 0.9, 1.25
"""A reply is expected to need what nine of ten have needed, and a quarter more."""


def expected_reply(sizes: Iterable[int], longest: int) -> int:
    """Tokens that the next reply will probably need, by those before it; never more than the `longest`."""
    known = sorted(sizes)
    if len(known) < KNOWN:
        return min(FIRST_REPLY, longest)
    return min(ceil(known[ceil(QUANTILE * len(known)) - 1] * MARGIN) or 1, longest)


def kept_for_checks(spent: Amount, checks: int) -> Amount:
    """Tokens and money that are kept so that so many loops can still judge: an average call each."""
    each = checks / max(spent.calls, 1)
    return Amount(0, ceil(spent.tokens * each), spent.usd * each)


@dataclass
class Ledger:
    """The model calls that one loop may still make: `own`, those of it and all below it without open shares.

    Shares belong to open children, and hold the calls that these have made.
    """

    limit: int
    own: int
    shares: dict[int, int]
    reserved: int = 0

    @staticmethod
    def of(document: Document, below: Callable[[str], Amount]) -> Ledger:
        """The ledger of a document; `below` tells what a loop and all below it have spent."""
        own, shares = below(document.meta.id).calls, dict[int, int]()
        for step, share in open_shares(document.steps.values()):
            own -= below(step.link.removesuffix(".md")).calls
            shares[step.n] = share
        return Ledger(Amount.limit(document.meta.budget).calls, own, shares)

    @property
    def free(self) -> int:
        """The calls that are neither made, nor reserved, nor shared out."""
        return self.limit - self.own - self.reserved - sum(self.shares.values())

    def reserve(self, calls: int, *, last: bool) -> None:
        """Set calls aside; `last`: they are CHECK's, for which one is kept."""
        needed = calls if last else calls + 1
        if self.free < needed:
            raise LimitReached(_used_up(Amount(self.free), Amount(needed)))
        self.reserved += calls

    def charge(self, reserved: int, actual: int) -> None:
        """Turn a reservation into the calls that were really made, more included."""
        self.reserved -= reserved
        self.own += actual

    def share(self, step: int, children: int, asks: int = 0, already: int = 0) -> int:
        """Give the child at `step` its part of what is free, when `children` are still to be started.

        This loop keeps one call for its CHECK, one for each of its `asks`, and where there are plenty two
        more, for a reply of the wrong form and for a call that is lost when the process dies. The calls made
        `already` at the child's place, by itself or by another that stood there, are in its share on top.
        """
        self.own -= already
        self.shares[step] = already
        free = self.free - 1
        kept = max(asks, min(3 * asks, free // 4))
        part = max(free - kept, min(free, children)) // children
        if part < 1:
            self.settle(step, already)
            raise LimitReached(_used_up(Amount(free), Amount(children)))
        self.shares[step] = already + part
        return self.shares[step]

    def settle(self, step: int, made: int) -> None:
        """A child has ended: its share is released, and what it and all below it called is the parent's."""
        self.shares.pop(step, None)
        self.own += made


def open_shares(steps: Iterable[Step]) -> Iterable[tuple[Step, int]]:
    """The steps whose children have not ended, and their shares of the calls."""
    return (
        (step, Amount.limit(step.share).calls) for step in steps if step.share is not None and not step.over
    )


def refuse_beyond(free: Amount, needed: Amount) -> None:
    """Raise `LimitReached` where a call needs more of what the whole run has left."""
    if not free.covers(needed):
        raise LimitReached(_used_up(free, needed))


def _used_up(free: Amount, needed: Amount) -> str:
    parts = [
        f"{needed.calls} calls needed, {max(free.calls, 0)} left" if needed.calls > free.calls else "",
        f"{needed.tokens} tokens needed, {max(free.tokens, 0)} left" if needed.tokens > free.tokens else "",
        f"USD {needed.usd:.4f} needed, {max(free.usd, 0.0):.4f} left" if needed.usd > free.usd else "",
    ]
    return f"the budget is used up: {'; '.join(part for part in parts if part) or 'nothing left'}"
