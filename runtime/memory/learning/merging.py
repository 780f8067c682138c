"""The library kept small: what says the same becomes one, and the least sure goes where there is too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runtime.memory.learning.conflicts import advice_of, contradict
from runtime.memory.learning.library import Library
from runtime.memory.learning.patterns import GENERAL, MOST_SOURCES, Pattern, named
from runtime.memory.learning.rules import Rule, parsed
from runtime.memory.learning.wording import Wording

if TYPE_CHECKING:
    from runtime.embedding import Embedder

STORED = 2_000
"""Tokens of patterns for one task type. Source: learning.md, "Budget"."""
LEAST = 3
"""Patterns of a task type that pruning leaves."""
SIMILAR = 0.85
"""The cosine above which two pieces of advice may be the same."""
HALF_LIFE = 90.0
"""Days without a use in which a pattern's confidence counts half."""
WORTHLESS = 0.15
"""The confidence, with age, below which a pattern goes."""
GENERALIZE = 3
"""Patterns of one kind, or types of tasks of one rule, that become one."""


class Merging:
    """Adds to a library, and compresses it."""

    def __init__(self, library: Library, embedder: Embedder | None = None) -> None:
        self.library, self.embedder = library, embedder
        self.wording = Wording(library.systems)

    def add(self, pattern: Pattern) -> Pattern | None:
        """Add a pattern, or merge it into the one that says the same; prune what is over the budget then.

        None: a person switched off or deleted what says the same, or what is there already contradicts it
        and is as sure.
        """
        own = [each for each in self.library.all() if (each.scope, each.agent) == _whose(pattern, each)]
        same = next((each for each in own if self.same(each, pattern)), None)
        if same is not None:
            if not same.active:
                return None
            return self.library.update(same.name, **merged(same, pattern))
        against = [each for each in own if each.active and contradict(each, pattern, self._advice)]
        if any(each.fixed or each.confidence >= pattern.confidence for each in against):
            return None
        added = self.library.add(pattern)
        for type in pattern.types if added else ():
            self.prune(type)
        return added

    @property
    def _advice(self) -> Any:
        return advice_of(self.library.systems)

    # ---- what says the same ------------------------------------------------------------------------------

    def same(self, one: Pattern, other: Pattern) -> bool:
        """Whether two patterns say the same: by rule, else by words that are alike and agree.

        Alike is not enough: names in backticks and numbers are the same, and neither says not to do what the
        other says.
        """
        if one.rule and other.rule:
            return one.rule == other.rule
        if _terms(one) != _terms(other) or contradict(one, other, self._advice):
            return False
        (first, refused), (second, refuses) = (self._advice.words(each.guidance) for each in (one, other))
        if refused != refuses:
            return False
        if first == second:
            return True
        if self.embedder is None:
            return False
        rows = self.embedder.embed([one.guidance, other.guidance])
        return float(rows[0] @ rows[1]) > SIMILAR

    # ---- compressing -------------------------------------------------------------------------------------

    def compress(self, now: datetime) -> tuple[list[str], dict[str, int]]:
        """Merge, generalize and prune everything; returns a line for each thing done, and their numbers."""
        did: list[str] = []
        counts = {"merged": 0, "generalized": 0, "pruned": 0}
        for name, work in (("merged", self._merge), ("generalized", self._generalize)):
            lines = work()
            did, counts[name] = [*did, *lines], len(lines)
        types = {type for each in self.library.all() for type in each.types}
        for type in sorted(types):
            lines = [f"{each.name} of {type} pruned: {told}" for each, told in self.prune(type, now)]
            did, counts["pruned"] = [*did, *lines], counts["pruned"] + len(lines)
        return did, counts

    def _merge(self) -> list[str]:
        done: list[str] = []
        kept: list[Pattern] = []
        ordered = sorted(self.library.all(), key=lambda each: (not each.fixed, -each.confidence, each.name))
        for each in ordered:
            into = next((k for k in kept if _mergeable(k, each) and self.same(k, each)), None)
            if into is None:
                kept.append(each)
                continue
            kept[kept.index(into)] = self.library.update(into.name, **merged(into, each))
            self.library.delete(each.name)
            done.append(f"{each.name} merged into {into.name}, which says the same")
        return done

    def _generalize(self) -> list[str]:
        """One rule in many task types is one for all; rules that differ in their tool alone become one."""
        done: list[str] = []
        for each in self.library.all():
            if not each.fixed and len(each.types) >= GENERALIZE and GENERAL not in each.types:
                self.library.update(each.name, types=(GENERAL,))
                done.append(f"{each.name} holds for all tasks: it was learned of {', '.join(each.types)}")
        families: dict[tuple[Any, ...], list[tuple[Pattern, Rule]]] = {}
        for each in self.library.all():
            rule = parsed(each.rule)
            if rule and rule.tools and each.active and not each.fixed and rule.kind != "choice":
                key = (rule.kind, rule.refuses, rule.names[1:], each.scope, each.agent)
                families.setdefault(key, []).append((each, rule))
        for family in families.values():
            if len(family) >= GENERALIZE and family[0][1].names[1:]:
                done.append(self._one_of(family))
        return done

    def _one_of(self, family: Sequence[tuple[Pattern, Rule]]) -> str:
        """A pattern for all the tools of a family, in the place of its members."""
        tools = sorted({tool for _, rule in family for tool in rule.tools})
        first = family[0][1]
        rule = Rule(first.kind, (",".join(tools), *first.names[1:]), first.refuses)
        said = self.wording.say(rule)
        whole = family[0][0]
        for each, _ in family[1:]:
            whole = replace(whole, **merged(whole, each))
        made = replace(
            whole,
            name=named(said.title),
            title=said.title,
            guidance=said.do,
            avoid=said.avoid,
            rule=str(rule),
        )
        for each, _ in family:
            self.library.delete(each.name)
        self.library.add(made)
        return f"{', '.join(each.name for each, _ in family)} became {made.name}"

    def prune(self, type: str, now: datetime | None = None) -> list[tuple[Pattern, str]]:
        """Take away the least sure patterns of a type while they are over the budget, or worth nothing.

        What a person wrote or corrected stays, and so do three patterns of a type.
        """
        there = [each for each in self.library.all() if type in each.types and each.active]
        gone: list[tuple[Pattern, str]] = []
        for each in sorted(there, key=lambda each: (aged(each, now), each.name)):
            left = len(there) - len(gone)
            tokens = sum(e.tokens for e in there) - sum(e.tokens for e, _ in gone)
            sure = aged(each, now)
            if left <= LEAST or each.fixed:
                continue
            if tokens > STORED:
                gone.append((each, f"{tokens} tokens of {STORED}"))
            elif sure < WORTHLESS:
                gone.append((each, f"confidence {sure:.2f} with its age"))
        for each, _ in gone:
            others = tuple(name for name in each.types if name != type)
            if others:
                self.library.update(each.name, types=others)
            else:
                self.library.delete(each.name)
        return gone


def aged(pattern: Pattern, now: datetime | None) -> float:
    """The confidence with age: half of it for each 90 days since the pattern was learned or used."""
    last = max(pattern.last_used, pattern.created)
    if now is None or not last:
        return pattern.confidence
    try:
        days = (now - datetime.fromisoformat(last)).total_seconds() / 86_400
    except (ValueError, TypeError):
        return pattern.confidence
    return pattern.confidence * 0.5 ** (max(days, 0.0) / HALF_LIFE)


def merged(one: Pattern, other: Pattern) -> dict[str, Any]:
    """What of a pattern changes when another one that says the same goes into it.

    Two that were learned of other attempts make it surer; the same attempts again do not.
    """
    new = bool({*other.sources} - {*one.sources})
    types = tuple(dict.fromkeys((*one.types, *other.types)))
    sure = max(one.confidence, other.confidence)
    boosted = min(0.99, sure + (1 - sure) * min(one.confidence, other.confidence) * 0.25) if new else sure
    samples = one.samples + other.samples if new else max(one.samples, other.samples)
    rates = [(each.success_rate, each.samples) for each in (one, other) if each.samples]
    weight = sum(size for _, size in rates)
    return {
        "types": (GENERAL,) if GENERAL in types else types,
        "confidence": round(boosted, 2),
        "samples": samples,
        "success_rate": round(sum(rate * size for rate, size in rates) / weight, 2) if weight else 0.0,
        "helpful": one.helpful + other.helpful,
        "harmful": one.harmful + other.harmful,
        "agents": tuple(sorted({*one.agents, *other.agents})),
        "why": other.why if other.samples > one.samples and other.why else one.why or other.why,
        "last_used": max(one.last_used, other.last_used),
        "sources": tuple(dict.fromkeys((*other.sources, *one.sources)))[:MOST_SOURCES],
    }


def _mergeable(one: Pattern, other: Pattern) -> bool:
    """Whether one may go into the other: learned, of the same scope, and neither switched off."""
    return (
        not other.fixed
        and one.active
        and other.active
        and (one.scope, one.agent) == (other.scope, other.agent)
    )


def _whose(pattern: Pattern, other: Pattern) -> tuple[str, str]:
    """Scope and agent that a pattern must have to be one with this one: only agents' own are told apart."""
    return pattern.scope, pattern.agent if pattern.scope == "agent" else other.agent


def _terms(pattern: Pattern) -> frozenset[str]:
    """Names in backticks, and numbers: where they differ, two texts say different things."""
    import re

    return frozenset(re.findall(r"`[^`]+`|\d+(?:\.\d+)?", pattern.guidance))
