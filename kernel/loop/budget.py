"""Limits, spending, and a child's share of the calls: spent + reserved never exceeds a limit.

Each child has its own limit of calls. Tokens, money and lifeforce are shared by the whole tree, so that one
child can use what another leaves. Spending is read from the reply log, where an open call counts in full,
and shares from the steps. Everything is derived from what is on disk, so a crash cannot make it inconsistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

from kernel.asking.responder import Responder, Usage
from kernel.document.model import Document, Step
from kernel.errors import FractalError, LimitReached
from kernel.store.call_log import Totals


@dataclass(frozen=True)
class Bounds:
    """Every limit of the loop, with its default. See docs/configuration.md."""

    max_depth: int = 3  # from this depth on, a loop is atomic: it has no children
    context_system: int = 3000  # tokens of work context at depth 0 (3150 less base and phase)
    context_tool: int = 2000  # at depth 1
    context_operation: int = 1000  # at depth 2 and more
    min_context: int = 500  # tokens; a loop with less is atomic
    overhead: int = 150  # tokens of base and phase, subtracted from a child's context
    retries: int = 2  # attempts after the first
    turns: int = 30  # of one open DO
    held_back: int = 5  # answers of one loop whose checks did not hold
    questions: int = 3  # to a person, per run
    calls: int = 60  # of models, per run
    tokens: int = 400_000  # prompt and completion, per run
    usd: float | None = 1.0  # per run; None: no limit
    lifeforce: float | None = None  # per run, of models and tools; None: it is not counted
    seconds: float = 900.0  # of activity, per run
    side_by_side: int = 4  # steps of one loop that run in parallel
    repairs: int = 2  # further asks after an invalid reply
    reply_tokens: int = 2000  # of one reply
    result_chars: int = 4000  # of a result in the document; the whole text goes to artifacts/
    same_failure: int = 2  # failures of the same call before it is refused
    same_result: int = 2  # equal outcomes of the same call, with nothing new between, before turns end

    def context(self, depth: int) -> int:
        """The work context of a loop at a depth, in tokens."""
        return (self.context_system, self.context_tool, self.context_operation)[min(depth, 2)]

    def limit(self) -> dict[str, Any]:
        """The limits of what a run may spend, in the form of a document."""
        lifeforce = {} if self.lifeforce is None else {"lifeforce": self.lifeforce}
        return {
            "calls": self.calls,
            "tokens": self.tokens,
            **({} if self.usd is None else {"usd": self.usd}),
            **lifeforce,
        }


@dataclass(frozen=True)
class Amount:
    """Calls, tokens, USD and lifeforce; `usd` and `lifeforce` are infinite if they have no limit."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    lifeforce: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            *(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    def __sub__(self, other: Amount) -> Amount:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Amount(*(mine if mine == inf else mine - its for mine, its in pairs))  # inf - inf is no number

    def covers(self, other: Amount) -> bool:
        """Whether `other` fits in."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(its <= mine + ROUNDING for mine, its in pairs)

    @staticmethod
    def of(cost: Usage | Totals) -> Amount:
        """The cost of one call or of many."""
        tokens = cost.prompt_tokens + cost.completion_tokens
        return Amount(cost.calls, tokens, cost.usd or 0.0, cost.lifeforce)

    @staticmethod
    def limit(values: Mapping[str, Any]) -> Amount:
        """Read a limit from a document."""
        usd, lifeforce = (values.get(name) for name in ("usd", "lifeforce"))
        return Amount(
            int(values.get("calls", 0)),
            int(values.get("tokens", 0)),
            inf if usd is None else float(usd),
            inf if lifeforce is None else float(lifeforce),
        )


UNLIMITED = Amount(10**12, 10**12, inf, inf)
ROUNDING = 1e-9
"""Sums of fractions may differ by this much."""
FIRST_REPLY = 600
"""Expected tokens of a reply, such as a plan of ten steps, until `KNOWN` replies have been seen."""
KNOWN = 3
QUANTILE, MARGIN = 0.9, 1.25
"""The expected size of a reply is this quantile of earlier sizes times the margin."""


def expected_reply(sizes: Iterable[int], longest: int) -> int:
    """Expected tokens of the next reply from the sizes of earlier ones, at most `longest`."""
    known = sorted(sizes)
    if len(known) < KNOWN:
        return min(FIRST_REPLY, longest)
    return min(ceil(known[ceil(QUANTILE * len(known)) - 1] * MARGIN) or 1, longest)


def reserve_for_checks(spent: Amount, checks: int) -> Amount:
    """Tokens and money reserved for this many CHECK calls, each at the average cost of a call."""
    each = checks / max(spent.calls, 1)
    return Amount(0, ceil(spent.tokens * each), spent.usd * each)


class Waiting(FractalError):
    """The loop waits until children end, or a person answers or approves. It keeps nothing in memory.

    It is raised where that is found out, and `advance` returns it.
    """

    def __init__(self, on: str, question: str = "") -> None:
        super().__init__(question)
        self.on = on  # children, person, approval, lifeforce
        self.question = question


class LifeforceNeeded(Waiting):
    """Nothing that could go on is affordable: the loop waits until time has restored lifeforce."""

    def __init__(self, what: str, needed: float, left: float) -> None:
        super().__init__(
            "lifeforce",
            f"{what} costs {needed:g} lifeforce, and {max(left, 0.0):g} is left; time restores it, "
            "for one run up to `per_run`",
        )


def with_lifeforce(responder: Responder, usage: Usage, limit: Amount) -> Usage:
    """The cost of calls of a rung, with their lifeforce if the run counts it. Code and people cost none."""
    if limit.lifeforce == inf or not responder.reads_prompt:
        return usage
    return replace(usage, lifeforce=responder.lifeforce * usage.calls)


def free_calls(document: Document, spent_by: Callable[[str], Amount]) -> int:
    """The calls of a loop that are neither made, reserved nor assigned to children.

    `spent_by` returns the spending of a loop and its descendants, in which an open call counts in full.
    """
    shares = open_shares(document.steps.values())
    assigned = sum(share - spent_by(step.child).calls for step, share in shares)
    return Amount.limit(document.meta.budget).calls - spent_by(document.meta.id).calls - assigned


def equal_share(free: int, children: int, asks: int) -> int:
    """An equal part of a loop's free calls for one of `children` that are still to be started.

    The loop keeps one call for CHECK and one for each of its `asks`; if there are enough, two more per ask,
    for an invalid reply and for a call lost in a crash.
    """
    free -= 1
    kept = max(asks, min(3 * asks, free // 4))
    part = max(free - kept, min(free, children)) // children
    if part < 1:
        raise LimitReached(shortage(Amount(free), Amount(children)))
    return part


def open_shares(steps: Iterable[Step]) -> Iterable[tuple[Step, int]]:
    """The steps whose children have not ended, and their shares of the calls."""
    return (
        (step, Amount.limit(step.share).calls) for step in steps if step.share is not None and not step.over
    )


def shortage(free: Amount, needed: Amount) -> str:
    """The error message for calls that need more than what is left."""
    parts = [
        f"{needed.calls} calls needed, {max(free.calls, 0)} left" if needed.calls > free.calls else "",
        f"{needed.tokens} tokens needed, {max(free.tokens, 0)} left" if needed.tokens > free.tokens else "",
        f"USD {needed.usd:.4f} needed, {max(free.usd, 0.0):.4f} left" if needed.usd > free.usd else "",
    ]
    return f"the budget is used up: {'; '.join(part for part in parts if part) or 'nothing left'}"
