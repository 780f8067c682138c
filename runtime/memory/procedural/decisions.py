"""What was decided for a task, and what came of it: one record a decision, for reports and for learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from runtime.store import Record

if TYPE_CHECKING:  # a run that only notes what came of it needs no vectors
    from runtime.memory.procedural.recall import Recall
    from runtime.memory.procedural.trees import NeuronTree

Recognition = Literal["recognized", "familiar", "novel"]
Path = Literal["direct", "exact", "variation", "method", "novel"]
PERSON = "person"
NEAR = 3
"""Trees that came near and were refused, of which a decision keeps the reason."""
_HOW = {
    "direct": "a shipped phrasing fitted, and its steps were done",
    "exact": "the very same task was solved before, and its steps were done again",
    "variation": "the same task with other values was solved before; its steps were done with the new ones",
    "method": "a learned method fitted, and its steps were done",
    "novel": "nothing that is stored could be used, so the next rung was asked",
}
_TYPES = {
    "recognized": "of a kind that is well known",
    "familiar": "of a kind that is somewhat known",
    "novel": "of no known kind",
}


class Decision(Record):
    """How a task was met: `text` is the task, `outcome` is None until it is known."""

    KIND: ClassVar[str] = "decision"

    run: str = ""
    at: str = ""  # ISO 8601
    type: str = ""  # the id of the problem type, "" where there is none
    recognition: Recognition = "novel"
    path: Path = "novel"
    tree: str = ""  # what was replayed; where nothing was, what was learned
    method: str = ""
    way: str = ""  # in which way a model was asked, where one planned it
    candidates: int = 0
    near: tuple[tuple[str, str], ...] = ()  # trees that came near, and why each was refused
    rivals: dict[str, str] = Field(default_factory=dict[str, str])
    # trees that fitted and were not used: what each would have done, as `deed` tells it
    did: str = ""  # what solved it instead
    why: str = ""  # why nothing was replayed
    predicted: float = 0.0  # confidence before, between 0 and 1
    outcome: bool | None = None
    source: str = ""  # who said so: criteria, check, person
    said: dict[str, tuple[bool, float]] = Field(default_factory=dict[str, tuple[bool, float]])
    # what each source said last, and how far it is trusted; outcome and source follow from it
    shares: dict[str, float] | None = None  # what each branch of the tree had of the outcome, by `short`
    released: tuple[int, int | float, int | float] | None = None
    # what was forgiven before, where its outcome took the tree out of quarantine
    surprise: float | None = None  # |predicted - outcome|
    calls: int = 0  # model calls of the whole run
    calls_before: int = 0  # model calls that solving it the first time took
    ms: dict[str, float] = Field(default_factory=dict[str, float])
    # milliseconds by part: embed, find, recognise, align, bind

    @property
    def replayed(self) -> bool:
        """Whether it was answered without a model."""
        return self.path != "novel"

    @property
    def predicts(self) -> bool:
        """Whether it was told beforehand how sure it is; a shipped phrasing has no ledger to tell it from."""
        return self.path not in ("novel", "direct")

    @property
    def saved(self) -> int:
        """Model calls that were not made, as far as it is known what they would have been."""
        return max(self.calls_before - self.calls, 0) if self.replayed and self.outcome is not False else 0


def of_recall(id: str, task: str, found: Recall) -> Decision:
    """The decision that a recall comes to, as yet without an outcome."""
    return Decision(
        id=id,
        text=task,
        path=found.kind,
        tree=found.tree.id if found.tree else "",
        candidates=found.candidates,
        near=found.refused[:NEAR] if found.kind == "novel" else (),
        rivals=dict(found.rivals),
        why=(found.why or "nothing like it is stored") if found.kind == "novel" else "",
        predicted=found.confidence,
        calls_before=found.tree.calls if found.tree else 0,
        ms=dict(found.ms),
    )


def explain(decision: Decision, tree: NeuronTree | None = None) -> str:
    """What was decided and why, for somebody who knows nothing of it; `tree` is the one that it names."""
    lines = [
        ("asked", " ".join(decision.text.split()) or "(nothing)"),
        ("decided", f"{decision.path}: {_HOW[decision.path]}"),
    ]
    if decision.type:
        lines.insert(1, ("known as", f"{_TYPES[decision.recognition]} ({decision.type})"))
    if decision.method:
        lines.append(("method", decision.method))
    if decision.replayed:
        lines += [("stored", told) for told in [_stored(decision, tree)] if told]
    if decision.predicts:
        lines.append(("expected", f"{decision.predicted:.0%} sure that it goes well"))
    if not decision.replayed:
        lines += _refused(decision)
        lines += [("asked in", decision.way)] if decision.way else []
        if decision.tree:
            lines.append(("learned", f"what solved it is kept as memory {decision.tree[:8]}"))
    lines.append(("came of it", _outcome(decision)))
    lines.append(("model calls", _calls(decision)))
    if decision.ms:
        told = ", ".join(f"{name} {value:.1f}" for name, value in decision.ms.items())
        lines.append(("milliseconds", told))
    return "\n".join(f"{name + ':':14}{text}" for name, text in lines)


def _stored(decision: Decision, tree: NeuronTree | None) -> str:
    if tree is None:
        return f"memory {decision.tree[:8]}, which is no longer there" if decision.tree else ""
    ledger = tree.ledger
    counted = f"{ledger.correct:g} right and {ledger.incorrect:g} wrong by now"
    out = ", in quarantine" if ledger.quarantined else ""
    return f"“{' '.join(tree.text.split())}” (memory {tree.id[:8]}, run {tree.run or '?'}; {counted}{out})"


def _refused(decision: Decision) -> list[tuple[str, str]]:
    count = decision.candidates
    lines = [("compared", f"{count} stored task{'' if count == 1 else 's'}")]
    if decision.why:
        lines.append(("why", decision.why))
    return lines + [("near", f"memory {id[:8]}: {why}") for id, why in decision.near if why != decision.why]


def _outcome(decision: Decision) -> str:
    if decision.outcome is None:
        return "not known yet"
    told = f"{'right' if decision.outcome else 'wrong'}, by {_by(decision.source)}"
    others = [name for name, (good, _) in decision.said.items() if good != decision.outcome]
    if others:
        told += f" (otherwise said: {', '.join(map(_by, others))})"
    if decision.surprise is not None:
        told += f"; {decision.surprise:.0%} off what was expected"
    return told


def _by(source: str) -> str:
    return {"criteria": "its success criteria", "check": "a model's check", PERSON: "a person"}.get(
        source, source or "?"
    )


def _calls(decision: Decision) -> str:
    if decision.replayed and decision.calls_before:
        return f"{decision.calls}; {decision.calls_before} when it was solved the first time"
    return str(decision.calls)
