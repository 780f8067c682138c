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
from runtime.memory.learning.attempts import StoredAttempt, by_person, stored_attempts
from runtime.memory.learning.contrast import SAMPLE, Finding, contrast, ready, retest, sample
from runtime.memory.learning.distiller import Distiller, extracted
from runtime.memory.learning.library import Library
from runtime.memory.learning.merging import Merging
from runtime.memory.learning.patterns import DEFAULT, GENERAL, Pattern, Scope
from runtime.memory.learning.rules import ToolOptions, Wording, evidence, parsed

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
        offered: Callable[[], ToolOptions] = ToolOptions,
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
        self,
        documents: Iterable[Document],
        verdicts: Mapping[str, bool] | None = None,
        ask: Ask | None = None,
    ) -> list[Pattern]:
        """Learn from ended loops; returns the new and changed patterns.

        `verdicts` maps run ids to a person's verdict. Repeating the call changes nothing.
        """
        owner = {"agent": self.library.agent, "space": self.space}
        attempts = stored_attempts(documents, self.kinds, verdicts or {})
        new, habits = self.store([each.model_copy(update=owner) for each in attempts])
        compared = [
            pattern
            for each in {each.type: each for each in new}.values()
            for pattern in self.learn(each, ask)
        ]
        return [*habits, *compared]

    def store(self, attempts: Sequence[StoredAttempt]) -> tuple[list[StoredAttempt], list[Pattern]]:
        """Store attempts of any agent; returns the new and changed ones, and patterns of their habits."""
        shelf = self.brain.shelf
        stored = {each.id: each for each in shelf.pick(StoredAttempt, [each.id for each in attempts])}
        new = [each for each in attempts if _outcome(stored.get(each.id)) != _outcome(each)]
        for at, attempt in enumerate(new):  # a person's earlier verdict stands unless there is a new one
            earlier = stored.get(attempt.id)
            if earlier is not None and earlier.said is not None and attempt.said is None:
                new[at] = attempt.judged(by_person(earlier.said), earlier.said)
        shelf.put(*(self._credit(each, stored.get(each.id)) for each in new))
        return new, self._habits([each for each in new if each.accepted and each.last])

    def distil(self, attempts: Sequence[StoredAttempt]) -> list[Pattern]:
        """Take only the habits of new attempts, which are not compared; returns the patterns they make."""
        stored = {each.id for each in self.brain.shelf.pick(StoredAttempt, [each.id for each in attempts])}
        new = [each for each in attempts if each.id not in stored]
        self.brain.shelf.put(*new)
        return self._habits(new)

    def _habits(self, attempts: Sequence[StoredAttempt]) -> list[Pattern]:
        learned = self.distiller.take(attempts) if attempts else ()
        added = (self.add(each) for each in learned if not self._covered_by_rule(each))
        return [each for each in added if each is not None]

    def feedback(self, run: str, good: bool) -> list[Pattern]:
        """Apply a person's verdict to the last attempt of a run and to the patterns that it was shown."""
        shelf = self.brain.shelf
        changed = [
            each.judged(by_person(good), good)
            for each in shelf.scan(StoredAttempt, {"run": run, "last": True, "parent": ""})
            if each.said is not good
        ]
        shelf.put(*(self._credit(each, each) for each in changed))
        return [found for each in changed for found in self.learn(each)]

    def learn(self, attempt: StoredAttempt, ask: Ask | None = None) -> list[Pattern]:
        """Compare an attempt with similar ones: review the known patterns, and look for a new one."""
        attempts = sample(self.similar(attempt))
        patterns = [each for each in self.library.all() if {attempt.type, GENERAL} & {*each.types}]
        changed: list[Pattern | None] = [self._review(each, attempts) for each in patterns]
        known = [rule for each in patterns if each.active and (rule := parsed(each.rule))]
        inactive = frozenset(each.rule for each in patterns if not each.active)
        if finding := contrast(attempts, known, self.offered(), refused=inactive):
            changed.append(self.add(self._pattern(finding, attempt.type)))
        elif ask is not None and ready(attempts):
            changed.append(self.add(extracted(attempts, attempt.type, ask)))
        return [each for each in changed if each is not None]

    def similar(self, attempt: StoredAttempt) -> list[StoredAttempt]:
        """The attempts of the same type with the most similar tasks, including itself, oldest first."""
        episodes, shelf = self.brain.episodes, self.brain.shelf
        episodes.catch_up()
        experience = shelf.get(Experience, attempt.loop)
        loops = {attempt.loop}
        if experience is not None:
            scores = {each.id: score for each, score in episodes.similar(experience.text, 2 * SAMPLE)}
            others = (score for loop, score in scores.items() if loop != attempt.loop)
            nearest = sorted(others, reverse=True)[:NEAREST]
            enough = LIKE * sum(nearest) / len(nearest) if nearest else 0.0
            loops |= {loop for loop, score in scores.items() if score >= enough}
        names = [f"{loop}/{number}" for loop in loops for number in range(1, 7)]
        near = [each for each in shelf.pick(StoredAttempt, names) if each.type == attempt.type]
        return sorted(near, key=lambda each: (each.at, each.id))[-SAMPLE:]

    def _credit(self, attempt: StoredAttempt, earlier: StoredAttempt | None) -> StoredAttempt:
        """Count the outcome for the patterns that it was shown and followed, replacing earlier counts."""
        before = earlier.counted if earlier else {}
        counted: dict[str, bool] = {}
        for name in attempt.shown:
            pattern = self.library.get(name)
            if pattern is None:
                continue
            rule = parsed(pattern.rule)
            followed = rule is None or rule.holds(attempt.trajectory) is True
            helped = attempt.good if followed and attempt.last else None
            if helped is not None:
                counted[name] = helped
            self.library.used(name, attempt.at, helped, instead_of=before.get(name))
            if rule is None and helped is not None and not pattern.fixed:
                better = HELPED if pattern.origin == "model" else 0.0  # every success has the habit
                confidence = pattern.confidence + (better if helped else -HARMED)
                self.library.update(name, confidence=min(max(confidence, 0.05), 0.95))
        return attempt.model_copy(update={"counted": counted})

    def _review(self, pattern: Pattern, attempts: Sequence[StoredAttempt]) -> Pattern | None:
        """Update or switch off a pattern by the new evidence; None if nothing changes."""
        rule = parsed(pattern.rule)
        if not pattern.active or pattern.fixed:
            return None
        if rule is None:
            uses = pattern.helpful + pattern.harmful
            if uses >= ENOUGH and pattern.harmful > MISLEADS * uses:
                why = f"{pattern.harmful} of {uses} attempts that followed it went wrong."
                return self._switch_off(pattern, why)
            return None
        helps, harms, finding = retest(rule, attempts)
        if finding is None:
            return None
        if harms < HARMS and min(finding.did[1], finding.did_not[1]) >= 3:
            return self._switch_off(pattern, evidence(finding.did, finding.did_not, harms, 1))
        now = finding.confidence
        if len(finding.attempts) < pattern.samples or abs(now - pattern.confidence) < MOVED:
            return None
        did = finding.did
        changes: dict[str, Any] = {"confidence": round(now, 2), "success_rate": round(did[0] / did[1], 2)}
        changes |= {"samples": len(finding.attempts), "why": evidence(did, finding.did_not, helps, 1)}
        return self.library.update(pattern.name, **changes)

    def _switch_off(self, pattern: Pattern, why: str) -> Pattern:
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

    def add(self, pattern: Pattern | None) -> Pattern | None:
        """Add a pattern in the learner's scope, merged with an equal one; drop habits that it covers."""
        if pattern is None:
            return None
        scope: Scope = "space" if self.library.agent == DEFAULT else "agent"
        added = self.merging.add(replace(pattern, scope=scope, agent=self.library.agent))
        if added is not None and added.rule:
            for old in self.library.all():
                if old.origin == "distilled" and not old.fixed and old.active and self._covered_by_rule(old):
                    self.library.delete(old.name)
        return added

    def _covered_by_rule(self, habit: Pattern) -> bool:
        """Whether a rule in the library already covers the tools of a habit."""
        tools = frozenset(_NAMED.findall(habit.guidance))
        patterns = (each for each in self.library.all() if {*habit.types} & {*each.types})
        return any(
            rule.names[1] in tools if rule.kind == "folder" else {*rule.tools, *rule.names[1:2]} <= tools
            for each in patterns
            if (rule := parsed(each.rule))
        )


def _outcome(stored: StoredAttempt | None) -> Sequence[Any]:
    """The fields whose change requires a new count."""
    return () if stored is None else (stored.signal, stored.said, stored.acts, stored.shown, stored.last)
