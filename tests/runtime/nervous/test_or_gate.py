"""The OR gate: every combination of up to three replies, in every order of arrival, has one outcome."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations, product

from runtime.nervous.gate import resolve
from runtime.nervous.messages import Message

TYPES = ("approve", "nudge", "reject", "veto", "answer")
KINDS = list(product(("human", "oversight"), TYPES))
STRICTEST = ("veto", "reject", "nudge", "approve", "answer")


def replies(kinds: tuple[tuple[str, str], ...]) -> list[Message]:
    """Replies of these tiers and types, a second apart, in this order."""
    return [
        Message(id=f"m{at}", tier=tier, type=type, at=f"2026-11-26T10:00:0{at}.000Z")  # type: ignore[arg-type]
        for at, (tier, type) in enumerate(kinds)
    ]


def expected(kinds: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """By the rule in words: a human's reply before one of oversight, then the strictest."""
    tier = "human" if any(tier == "human" for tier, _ in kinds) else "oversight"
    types = [type for each, type in kinds if each == tier]
    return tier, next(type for type in STRICTEST if type in types)


def test_every_combination_in_every_order() -> None:
    seen = 0
    for size in (1, 2, 3):
        for kinds in combinations_with_replacement(KINDS, size):
            for order in set(permutations(kinds)):
                for arrival in permutations(replies(order)):
                    found = resolve(arrival)
                    assert found and (found.tier, found.type) == expected(kinds), order
                    seen += 1
    assert seen > 5_000


def test_the_rules_as_they_are_written() -> None:
    table = {
        (("oversight", "approve"), ("human", "veto")): ("human", "veto"),
        (("oversight", "reject"), ("human", "approve")): ("human", "approve"),
        (("oversight", "approve"), ("human", "approve")): ("human", "approve"),
        (("human", "approve"), ("human", "reject")): ("human", "reject"),
        (("human", "reject"), ("human", "veto")): ("human", "veto"),
        (("human", "approve"), ("human", "nudge")): ("human", "nudge"),
        (("oversight", "nudge"),): ("oversight", "nudge"),
    }
    for kinds, outcome in table.items():
        found = resolve(replies(kinds))
        assert found and (found.tier, found.type) == outcome
    assert resolve([]) is None
    assert resolve([Message(id="m", tier="worker", type="approve")]) is None
    assert resolve([Message(id="m", tier="human", type="observation")]) is None


def test_of_several_answers_the_first_holds() -> None:
    first, second = replies((("human", "answer"), ("human", "answer")))
    assert resolve([second, first]) == first
