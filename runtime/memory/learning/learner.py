"""Learning after runs: stores attempts, credits the patterns they were shown, and looks for new ones.

Asks a model only through the `ask` that a caller passes. No text of a document enters a pattern: see
`rules.Wording` and `distiller.extracted`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from kernel.document.model import Document
from runtime.memory.brain import Brain
from runtime.memory.dream.stages import Ask
from runtime.memory.episodes.experience import Experience
from runtime.memory.learning.attempts import Tried, by_person, tried_of
from runtime.memory.learning.contrast import SAMPLE, Finding, contrast, ready, sample, standing
from runtime.memory.learning.distiller import Distiller, extracted
from runtime.memory.learning.library import Library
from runtime.memory.learning.merging import Merging
from runtime.memory.learning.patterns import DEFAULT, GENERAL, Pattern, Scope
from runtime.memory.learning.rules import Offered, Wording, evidence, parsed

_NAMED = re.compile(r"`([^`]+)`")
NEAREST = 2
LIKE = 0.6
"""The share of the mean similarity of the two nearest tasks that an attempt needs to be compared."""
HARMS = 0.05
"""The p-value of harm below which a pattern is switched off."""
ENOUGH = 6
"""Uses after which a pattern without a rule is judged."""
MISLEADS = 0.6
"""The share of failed uses above which it is switched off."""
MOVED = 0.05
"""The least change of confidence that is written."""
HELPED, HARMED = 0.05, 0.10
"""How much one use changes the confidence of a pattern without a rule."""


class Learning:
    """Learns from the runs of one agent in one space. Raises `FractalError` if memory is not writable."""

    def __init__(
        self,
        brain: Brain,
        library: Library,
        offered: Callable[[], Offered] = Offered,
        *,
        space: str = DEFAULT,
    ) -> None:
        systems = brain.settings.systems
        self.brain, self.library, self.space = brain, library, space
        self.kinds = brain.kinds
        self.wording = Wording(systems)
        self.merging = Merging(library, brain.embedder)
        self.distiller = Distiller(brain.shelf, self.wording)
        self.offered = cache(offered)

    def end(
        self, documents: Iterable[Document], said: Mapping[str, bool] | None = None, ask: Ask | None = None
    ) -> list[Pattern]:
        """Learn from ended loops; returns the new and changed patterns.

        `said` maps run ids to a person's verdict. Repeating the call changes nothing.
        """
        shelf = self.brain.shelf
        found = tried_of(documents, self.kinds, said or {})
        found = [each.model_copy(update={"agent": self.library.agent, "space": self.space}) for each in found]
        there = {each.id: each for each in shelf.pick(Tried, [each.id for each in found])}
        new = [each for each in found if _outcome(there.get(each.id)) != _outcome(each)]
        if not new:
            return []
        for at, each in enumerate(new):  # a person's earlier verdict stands unless there is a new one
            known = there.get(each.id)
            if known is not None and known.said is not None and each.said is None:
                new[at] = each.judged(by_person(known.said), known.said)
        shelf.put(*(self._credited(each, there.get(each.id)) for each in new))
        learned = self.distiller.take([each for each in new if each.accepted and each.last])
        added = [self._add(each) for each in learned if not self._said(each)]
        taught = [
            found for each in {each.type: each for each in new}.values() for found in self.learn(each, ask)
        ]
        return [*filter(None, added), *taught]

    def feedback(self, run: str, good: bool) -> list[Pattern]:
        """Apply a person's verdict to the last attempt of a run and to the patterns that it was shown."""
        shelf = self.brain.shelf
        changed = [
            each.judged(by_person(good), good)
            for each in shelf.scan(Tried, {"run": run, "last": True, "parent": ""})
            if each.said is not good
        ]
        shelf.put(*(self._credited(each, each) for each in changed))
        return [found for each in changed for found in self.learn(each)]

    def learn(self, tried: Tried, ask: Ask | None = None) -> list[Pattern]:
        """Compare an attempt with similar ones: review the known patterns, and look for a new one."""
        found = sample(self.similar(tried))
        patterns = [each for each in self.library.all() if {tried.type, GENERAL} & {*each.types}]
        changed: list[Pattern | None] = [self._reviewed(each, found) for each in patterns]
        known = [rule for each in patterns if each.active and (rule := parsed(each.rule))]
        gone = frozenset(each.rule for each in patterns if not each.active)
        if finding := contrast(found, known, self.offered(), refused=gone):
            changed.append(self._add(self._pattern(finding, tried.type)))
        elif ask is not None and ready(found):
            changed.append(self._add(extracted(found, tried.type, ask)))
        return [each for each in changed if each is not None]

    def similar(self, tried: Tried) -> list[Tried]:
        """The attempts of the same type with the most similar tasks, including itself, oldest first."""
        episodes, shelf = self.brain.episodes, self.brain.shelf
        episodes.catch_up()
        experience = shelf.get(Experience, tried.loop)
        loops = {tried.loop}
        if experience is not None:
            scores = {each.id: score for each, score in episodes.similar(experience.text, 2 * SAMPLE)}
            others = (score for loop, score in scores.items() if loop != tried.loop)
            nearest = sorted(others, reverse=True)[:NEAREST]
            enough = LIKE * sum(nearest) / len(nearest) if nearest else 0.0
            loops |= {loop for loop, score in scores.items() if score >= enough}
        names = [f"{loop}/{number}" for loop in loops for number in range(1, 7)]
        near = [each for each in shelf.pick(Tried, names) if each.type == tried.type]
        return sorted(near, key=lambda each: (each.at, each.id))[-SAMPLE:]

    def _credited(self, tried: Tried, known: Tried | None) -> Tried:
        """Count the outcome for the patterns that it was shown and followed, replacing earlier counts."""
        before = known.counted if known else {}
        counted: dict[str, bool] = {}
        for name in tried.shown:
            pattern = self.library.get(name)
            if pattern is None:
                continue
            rule = parsed(pattern.rule)
            followed = rule is None or rule.holds(tried.trajectory) is True
            helped = tried.good if followed and tried.last else None
            if helped is not None:
                counted[name] = helped
            self.library.used(name, tried.at, helped, instead_of=before.get(name))
            if rule is None and helped is not None and not pattern.fixed:
                better = HELPED if pattern.origin == "model" else 0.0  # every success has the habit
                moved = pattern.confidence + (better if helped else -HARMED)
                self.library.update(name, confidence=min(max(moved, 0.05), 0.95))
        return tried.model_copy(update={"counted": counted})

    def _reviewed(self, pattern: Pattern, found: Sequence[Tried]) -> Pattern | None:
        """Update or switch off a pattern by the new evidence; None if nothing changes."""
        rule = parsed(pattern.rule)
        if not pattern.active or pattern.fixed:
            return None
        if rule is None:
            uses = pattern.helpful + pattern.harmful
            if uses >= ENOUGH and pattern.harmful > MISLEADS * uses:
                told = f"{pattern.harmful} of {uses} attempts that followed it went wrong."
                return self._off(pattern, told)
            return None
        helps, harms, finding = standing(rule, found)
        if finding is None:
            return None
        if harms < HARMS and min(finding.did[1], finding.did_not[1]) >= 3:
            return self._off(pattern, evidence(finding.did, finding.did_not, harms, 1))
        now = finding.confidence
        if len(finding.attempts) < pattern.samples or abs(now - pattern.confidence) < MOVED:
            return None
        did = finding.did
        changes: dict[str, Any] = {"confidence": round(now, 2), "success_rate": round(did[0] / did[1], 2)}
        changes |= {"samples": len(finding.attempts), "why": evidence(did, finding.did_not, helps, 1)}
        return self.library.update(pattern.name, **changes)

    def _off(self, pattern: Pattern, why: str) -> Pattern:
        return self.library.update(
            pattern.name, status="off", why=f"{pattern.why}\n\nSwitched off by learning: {why}".strip()
        )

    def _pattern(self, finding: Finding, type: str) -> Pattern:
        """A finding as a pattern."""
        return self.wording.say(finding.rule).pattern(
            (each.document for each in reversed(finding.followers)),
            why=evidence(finding.did, finding.did_not, finding.p, finding.comparisons),
            types=(type,),
            confidence=round(finding.confidence, 2),
            success_rate=round(finding.did[0] / finding.did[1], 2),
            samples=len(finding.attempts),
            rule=str(finding.rule),
            created=max(each.at for each in finding.attempts),
        )

    def _add(self, pattern: Pattern | None) -> Pattern | None:
        """Add a pattern in the learner's scope, merged with an equal one; drop habits that it covers."""
        if pattern is None:
            return None
        scope: Scope = "space" if self.library.agent == DEFAULT else "agent"
        added = self.merging.add(replace(pattern, scope=scope, agent=self.library.agent))
        if added is not None and added.rule:
            for each in self.library.all():
                if each.origin == "distilled" and not each.fixed and each.active and self._said(each):
                    self.library.delete(each.name)
        return added

    def _said(self, habit: Pattern) -> bool:
        """Whether a rule in the library already covers the tools of a habit."""
        tools = frozenset(_NAMED.findall(habit.guidance))
        alike = (each for each in self.library.all() if {*habit.types} & {*each.types})
        return any(
            rule.names[1] in tools if rule.kind == "folder" else {*rule.tools, *rule.names[1:2]} <= tools
            for each in alike
            if (rule := parsed(each.rule))
        )


def _outcome(tried: Tried | None) -> Sequence[Any]:
    """The fields whose change requires a new count."""
    return () if tried is None else (tried.signal, tried.said, tried.acts, tried.shown, tried.last)
