"""What several have found out for themselves becomes everybody's: agent → space → all.

An agent has used a rule when its attempts did as it says, whether or not it was told to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.memory.learning.library import Library
from runtime.memory.learning.merging import Merging, merged
from runtime.memory.learning.patterns import Pattern
from runtime.memory.learning.rules import parsed
from runtime.memory.learning.tried import Tried
from runtime.places import DEFAULT, space_of

if TYPE_CHECKING:
    from runtime.embedding import Embedder
    from runtime.store import Shelf

AGENTS = 2
"""That used a pattern of one of them. Source: learning.md, "Scopes"."""
SPACES = 3
"""That have a pattern, for it to hold for all."""
SUCCESS = 0.8
"""Of the attempts that did as it says, the share that went well, above which it is promoted."""
USES = 3
"""Attempts of an agent that did as a rule says, from which on it has used it."""


class Promotion:
    """Promotes inside a space, and out of it. `state` is the folder with all spaces."""

    def __init__(self, shelf: Shelf, library: Library, embedder: Embedder | None, state: Path) -> None:
        self.shelf, self.library, self.state, self.embedder = shelf, library, state, embedder
        self.merging = Merging(library, embedder)

    def promote(self) -> list[str]:
        """Both ways; a line for each pattern that was promoted."""
        return [*self.to_the_space(), *self.to_all()]

    # ---- agent → space -----------------------------------------------------------------------------------

    def to_the_space(self) -> list[str]:
        """Patterns of one agent that two or more agents have used with success."""
        own = [each for each in self.library.all() if each.scope == "agent" and each.active]
        if not own:
            return []
        attempts = list(self.shelf.scan(Tried))
        done: list[str] = []
        for each in own:
            if self.library.get(each.name) is None:
                continue  # it went into another one meanwhile
            uses = self._uses(each, own, attempts)
            good, count = sum(g for g, _ in uses.values()), sum(n for _, n in uses.values())
            if len(uses) >= AGENTS and count and good > SUCCESS * count:
                done.append(self._to_the_space(each, own, uses))
        return done

    def _uses(
        self, pattern: Pattern, own: Iterable[Pattern], attempts: Iterable[Tried]
    ) -> dict[str, tuple[int, int]]:
        """The agents that used a pattern: how many of their uses went well, and of how many."""
        rule = parsed(pattern.rule)
        if rule is None:
            same = [each for each in own if each.name == pattern.name or self.merging.same(each, pattern)]
            counted = {each.agent: (each.helpful, each.helpful + each.harmful) for each in same}
            return {agent: count for agent, count in counted.items() if count[1] >= USES}
        found: dict[str, list[bool]] = {}
        for each in attempts:
            if each.type in pattern.types and each.good is not None and rule.holds(each.trajectory):
                found.setdefault(each.agent, []).append(each.good)
        return {agent: (sum(goods), len(goods)) for agent, goods in found.items() if len(goods) >= USES}

    def _to_the_space(
        self, pattern: Pattern, own: Iterable[Pattern], uses: Mapping[str, tuple[int, int]]
    ) -> str:
        """One pattern for the space; those of other agents that say the same go into it."""
        changes: dict[str, Any] = {"scope": "space", "agents": tuple(sorted({*pattern.agents, *uses}))}
        whole = pattern
        for other in own:
            if other.name != pattern.name and not other.fixed and self.merging.same(other, pattern):
                whole = replace(whole, **merged(whole, other))
                self.library.delete(other.name)
        changes |= {key: value for key, value in vars(whole).items() if value != getattr(pattern, key)}
        self.library.update(pattern.name, **changes)
        return f"{pattern.name} holds for the space: {', '.join(sorted(uses))} used it with success"

    # ---- space → all -------------------------------------------------------------------------------------

    def to_all(self) -> list[str]:
        """Patterns that three or more spaces have, each with success; they move to the default space."""
        spaces = self._spaces()
        if len(spaces) < SPACES:
            return []
        everybodys = Library(
            space_of(self.state, DEFAULT) / "patterns",
            systems=self.library.systems,
            state=self.state,
            fsync=self.library.fsync,
        )
        done: list[str] = []
        mine = [each for each in self.library.all() if each.scope == "space" and each.active]
        for pattern in mine:
            held = {
                name: same
                for name, patterns in spaces.items()
                if (same := next((each for each in patterns if self._says(each, pattern)), None))
            }
            if len(held) < SPACES or not all(_succeeds(each) for each in held.values()):
                continue
            self._to_all(everybodys, pattern, [each for each in held.values() if each.path != pattern.path])
            done.append(f"{pattern.name} holds for all: {', '.join(sorted(held))} have it")
        return done

    def _says(self, one: Pattern, other: Pattern) -> bool:
        return one.active and one.scope == "space" and self.merging.same(one, other)

    def _to_all(self, everybodys: Library, pattern: Pattern, others: Iterable[Pattern]) -> None:
        whole = pattern
        for other in others:
            whole = replace(whole, **merged(whole, other))
        there = everybodys.get(pattern.name)
        if there is not None and self.merging.same(there, pattern):
            changes = {**merged(there, whole), "scope": "all"}
            everybodys.update(there.name, **changes)
        elif everybodys.add(replace(whole, scope="all")) is None:
            return  # a person deleted it there
        if self.library.folder != everybodys.folder:
            self.library.delete(pattern.name)

    def _spaces(self) -> dict[str, list[Pattern]]:
        """The patterns of every space by its name."""
        folders = {DEFAULT: space_of(self.state, DEFAULT) / "patterns"}
        named = self.state / "spaces"
        if named.is_dir():
            folders |= {each.name: each / "memory" / "patterns" for each in sorted(named.iterdir())}
        folders = {
            name: self.library.folder if folder == self.library.folder else folder
            for name, folder in folders.items()
        }
        read = {name: Library(folder, state=self.state).all() for name, folder in folders.items()}
        return {name: patterns for name, patterns in read.items() if patterns}


def _succeeds(pattern: Pattern) -> bool:
    """By its uses where there are some, else by what it was learned from."""
    uses = pattern.helpful + pattern.harmful
    rate = pattern.helpful / uses if uses >= USES else pattern.success_rate
    return rate > SUCCESS
