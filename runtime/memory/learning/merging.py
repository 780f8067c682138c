"""Merges and prunes the library, and promotes patterns from agent to space to all.

An agent has used a rule if its attempts follow it, whether or not they were shown it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

from runtime.memory.embed import Embedder
from runtime.memory.learning.attempts import StoredAttempt
from runtime.memory.learning.library import Library, advice_of, contradict
from runtime.memory.learning.patterns import GENERAL, MOST_SOURCES, Pattern, named
from runtime.memory.learning.rules import Rule, Wording, parsed
from runtime.memory.store import Shelf
from runtime.workspace.workspace import DEFAULT, space_of

STORED = 2_000
"""Tokens of patterns per task type. Source: learning.md, "Budget"."""
LEAST = 3
"""Patterns per task type that pruning keeps."""
SIMILAR = 0.85
"""The cosine above which two patterns may be the same."""
HALF_LIFE = 90.0
"""Days without use that halve a pattern's confidence."""
WORTHLESS = 0.15
"""The aged confidence below which a pattern is pruned."""
GENERALIZE = 3
"""Similar rules, or task types of one rule, from which they are generalized."""


class Merging:
    """Adds to a library and compresses it."""

    def __init__(self, library: Library, embedder: Embedder | None = None) -> None:
        self.library, self.embedder = library, embedder
        self.wording, self._advice = Wording(library.systems), advice_of(library.systems)

    def add(self, pattern: Pattern) -> Pattern | None:
        """Add a pattern or merge it into an equal one, then prune.

        Returns None if a person switched off or deleted an equal pattern, or an existing pattern of at least
        the same confidence contradicts it.
        """
        own = [each for each in self.library.all() if each.owner == pattern.owner]
        if same := self.equal(pattern, own):
            return self.library.update(same.name, **merged(same, pattern)) if same.active else None
        against = [each for each in own if each.active and contradict(each, pattern, self._advice)]
        if any(each.fixed or each.confidence >= pattern.confidence for each in against):
            return None
        added = self.library.add(pattern)
        for type in pattern.types if added else ():
            self.prune(type)
        return added

    def same(self, one: Pattern, other: Pattern) -> bool:
        """Whether two patterns are equal: by rule, else by similar guidance.

        Names in backticks and numbers must be the same, and the two must not contradict each other.
        """
        if one.rule and other.rule:
            return one.rule == other.rule
        if _terms(one) != _terms(other) or contradict(one, other, self._advice):
            return False
        (first, refused), (second, refuses) = (self._advice.words(each.guidance) for each in (one, other))
        if refused != refuses:
            return False
        if first == second or self.embedder is None:
            return first == second
        rows = self.embedder.embed([one.guidance, other.guidance])
        return float(rows[0] @ rows[1]) > SIMILAR

    def equal(self, pattern: Pattern, among: Iterable[Pattern]) -> Pattern | None:
        """The first of these patterns that is equal to one."""
        return next((each for each in among if self.same(each, pattern)), None)

    def compress(self, now: datetime) -> tuple[list[str], dict[str, int]]:
        """Merge, generalize and prune the library; returns a line per change, and the counts."""
        merged, generalized = self._merge(), self._generalize()
        types = {type for each in self.library.all() for type in each.types}
        removed = [(each, type, why) for type in sorted(types) for each, why in self.prune(type, now)]
        pruned = [f"{each.name} of {type} pruned: {why}" for each, type, why in removed]
        counts = {"merged": len(merged), "generalized": len(generalized), "pruned": len(pruned)}
        return [*merged, *generalized, *pruned], counts

    def _merge(self) -> list[str]:
        lines: list[str] = []
        remaining: list[Pattern] = []
        ordered = sorted(self.library.all(), key=lambda each: (not each.fixed, -each.confidence, each.name))
        for pattern in ordered:
            own = [k for k in remaining if k.active and k.owner == pattern.owner]
            into = self.equal(pattern, own) if pattern.active and not pattern.fixed else None
            if into is None:
                remaining.append(pattern)
                continue
            remaining[remaining.index(into)] = self.library.update(into.name, **merged(into, pattern))
            self.library.delete(pattern.name)
            lines.append(f"{pattern.name} merged into {into.name}")
        return lines

    def _generalize(self) -> list[str]:
        """Extend rules of many task types to all tasks; combine rules that differ only in their tool."""
        lines: list[str] = []
        for pattern in self.library.all():
            if not pattern.fixed and len(pattern.types) >= GENERALIZE and GENERAL not in pattern.types:
                self.library.update(pattern.name, types=(GENERAL,))
                lines.append(f"{pattern.name} extended to all tasks; learned from {', '.join(pattern.types)}")
        families: dict[tuple[Any, ...], list[tuple[Pattern, Rule]]] = {}
        for pattern in self.library.all():
            rule = parsed(pattern.rule)
            if rule and rule.tools and pattern.active and not pattern.fixed and rule.kind != "choice":
                key = (rule.kind, rule.refuses, rule.names[1:], *pattern.owner)
                families.setdefault(key, []).append((pattern, rule))
        for family in families.values():
            if len(family) >= GENERALIZE and family[0][1].names[1:]:
                lines.append(self._combine(family))
        return lines

    def _combine(self, family: Sequence[tuple[Pattern, Rule]]) -> str:
        """Replace the patterns of a family by one for all their tools."""
        tools = sorted({tool for _, rule in family for tool in rule.tools})
        first = family[0][1]
        rule = Rule(first.kind, (",".join(tools), *first.names[1:]), first.refuses)
        wording = self.wording.say(rule)
        words = {"title": wording.title, "guidance": wording.do, "avoid": wording.avoid}
        combined = merge_all([each for each, _ in family])
        pattern = replace(combined, name=named(wording.title), rule=str(rule), **words)
        for member, _ in family:
            self.library.delete(member.name)
        self.library.add(pattern)
        return f"{', '.join(each.name for each, _ in family)} combined into {pattern.name}"

    def prune(self, type: str, now: datetime | None = None) -> list[tuple[Pattern, str]]:
        """Remove the least confident patterns of a type while the budget is exceeded, and worthless ones.

        Keeps three patterns of a type, and those that a person wrote or corrected. Returns them with reasons.
        """
        patterns = [each for each in self.library.all() if type in each.types and each.active]
        left, tokens = len(patterns), sum(each.tokens for each in patterns)
        removed: list[tuple[Pattern, str]] = []
        for pattern in sorted(patterns, key=lambda each: (aged(each, now), each.name)):
            confidence = aged(pattern, now)
            if left <= LEAST or pattern.fixed or (tokens <= STORED and confidence >= WORTHLESS):
                continue
            too_much = f"{tokens} tokens, {STORED} at most"
            removed.append(
                (pattern, too_much if tokens > STORED else f"confidence {confidence:.2f} after ageing")
            )
            left, tokens = left - 1, tokens - pattern.tokens
        for pattern, _ in removed:
            if others := tuple(name for name in pattern.types if name != type):
                self.library.update(pattern.name, types=others)
            else:
                self.library.delete(pattern.name)
        return removed


def aged(pattern: Pattern, now: datetime | None) -> float:
    """The confidence, halved for every 90 days since the pattern was learned or used."""
    last = max(pattern.last_used, pattern.created)
    if now is None or not last:
        return pattern.confidence
    try:
        days = (now - datetime.fromisoformat(last)).total_seconds() / 86_400
    except (ValueError, TypeError):
        return pattern.confidence
    return pattern.confidence * 0.5 ** (max(days, 0.0) / HALF_LIFE)


def merged(one: Pattern, other: Pattern) -> dict[str, Any]:
    """The changes to a pattern when an equal one is merged into it.

    The confidence rises only if the other one has new sources.
    """
    new = bool({*other.sources} - {*one.sources})
    types = tuple(dict.fromkeys((*one.types, *other.types)))
    best = max(one.confidence, other.confidence)
    boosted = min(0.99, best + (1 - best) * min(one.confidence, other.confidence) * 0.25) if new else best
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


def merge_all(patterns: Iterable[Pattern]) -> Pattern:
    """The first of equal patterns with the others merged into it."""
    return reduce(lambda whole, each: replace(whole, **merged(whole, each)), patterns)


def _terms(pattern: Pattern) -> frozenset[str]:
    """Names in backticks and numbers; equal patterns have the same."""
    return frozenset(re.findall(r"`[^`]+`|\d+(?:\.\d+)?", pattern.guidance))


AGENTS = 2
"""Agents that must have used a pattern. Source: learning.md, "Scopes"."""
SPACES = 3
"""Spaces that must have a pattern."""
SUCCESS = 0.8
"""The success rate of its followers above which a pattern is promoted."""
USES = 3
"""Attempts of an agent that must have followed a rule."""


class Promotion:
    """Promotes patterns to their space and to all spaces. `state` contains all spaces."""

    def __init__(self, shelf: Shelf, library: Library, embedder: Embedder | None, state: Path) -> None:
        self.shelf, self.library, self.state = shelf, library, state
        self.merging = Merging(library, embedder)

    def promote(self) -> list[str]:
        """Promote what is due; returns a line per pattern."""
        return [*self._to_the_space(), *self._to_all()]

    def _to_the_space(self) -> list[str]:
        """Promote agents' patterns that two or more agents have used successfully, equal ones as one."""
        own = [each for each in self.library.all() if each.scope == "agent" and each.active]
        attempts = list(self.shelf.scan(StoredAttempt)) if own else []
        lines: list[str] = []
        for pattern in own:
            if self.library.get(pattern.name) is None:
                continue  # it was merged meanwhile
            same = [one for one in own if one.name != pattern.name and self.merging.same(one, pattern)]
            uses = _uses(pattern, same, attempts)
            good, count = (sum(counts) for counts in zip(*uses.values(), strict=True)) if uses else (0, 0)
            if len(uses) < AGENTS or good <= SUCCESS * count:
                continue
            others = [other for other in same if not other.fixed]
            combined = merge_all([pattern, *others])
            for other in others:
                self.library.delete(other.name)
            changes = {key: value for key, value in vars(combined).items() if value != getattr(pattern, key)}
            changes |= {"scope": "space", "agents": tuple(sorted({*combined.agents, *uses}))}
            self.library.update(pattern.name, **changes)
            agents = ", ".join(sorted(uses))
            lines.append(f"{pattern.name} promoted to the space: used successfully by {agents}")
        return lines

    def _to_all(self) -> list[str]:
        """Move patterns that succeed in three or more spaces to the default space."""
        spaces = self._spaces()
        if len(spaces) < SPACES:
            return []
        shared = self._library(space_of(self.state, DEFAULT) / "patterns")
        lines: list[str] = []
        for pattern in self.library.all():
            holders = {
                name: same for name, each in spaces.items() if (same := self.merging.equal(pattern, each))
            }
            if pattern.scope != "space" or not pattern.active or len(holders) < SPACES:
                continue
            if not all(map(_succeeds, holders.values())):
                continue
            combined = merge_all([pattern, *(each for each in holders.values() if each.path != pattern.path)])
            lines.append(f"{pattern.name} promoted to all spaces: found in {', '.join(sorted(holders))}")
            existing = shared.get(pattern.name)
            if existing is not None and self.merging.same(existing, pattern):
                shared.update(existing.name, **{**merged(existing, combined), "scope": "all"})
            elif shared.add(replace(combined, scope="all")) is None:
                continue  # a person deleted it there
            if self.library.folder != shared.folder:
                self.library.delete(pattern.name)
        return lines

    def _library(self, folder: Path) -> Library:
        return Library(folder, systems=self.library.systems, state=self.state, fsync=self.library.fsync)

    def _spaces(self) -> dict[str, list[Pattern]]:
        """The active patterns of scope `space` in every space that has any, by its name."""
        named = {each.name: each / "memory" for each in (self.state / "spaces").glob("*")}
        folders = {DEFAULT: space_of(self.state, DEFAULT), **named}
        read = {name: self._library(folder / "patterns").all() for name, folder in folders.items()}
        shared = {name: [p for p in all if p.active and p.scope == "space"] for name, all in read.items()}
        return {name: patterns for name, patterns in shared.items() if patterns}


def _uses(
    pattern: Pattern, same: Iterable[Pattern], attempts: Iterable[StoredAttempt]
) -> dict[str, tuple[int, int]]:
    """The agents that used a pattern often enough, with their successful and total uses."""
    counts: dict[str, tuple[int, int]] = {}
    if rule := parsed(pattern.rule):
        for attempt in attempts:
            if attempt.type in pattern.types and attempt.good is not None and rule.holds(attempt.trajectory):
                good, count = counts.get(attempt.agent, (0, 0))
                counts[attempt.agent] = good + attempt.good, count + 1
    else:
        counts = {each.agent: (each.helpful, each.helpful + each.harmful) for each in (pattern, *same)}
    return {agent: count for agent, count in counts.items() if count[1] >= USES}


def _succeeds(pattern: Pattern) -> bool:
    """Whether the success rate suffices: of its uses if there are enough, else of its evidence."""
    uses = pattern.helpful + pattern.harmful
    rate = pattern.helpful / uses if uses >= USES else pattern.success_rate
    return rate > SUCCESS
