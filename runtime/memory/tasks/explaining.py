"""Decisions in words for a person: what was near, how it differs, and what would be answered from memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from runtime.memory.store import Shelf
from runtime.memory.tasks.decisions import PERSON, Decision
from runtime.memory.tasks.exemplar import only_for
from runtime.memory.tasks.merging import tree_by
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import Member, ProblemType
from runtime.text.lines import flat, shortened
from runtime.text.tokens import Token, tokens

WELL = 5
"""Examples from which a type is called well known: as many as make a method."""
SHARED = 0.5
"""The least share of common words for a stored task to be called near."""
SEARCHED = 20
"""Stored tasks that are compared by their words, where a decision names none."""
DIFFERENCES = 4
"""That are told of two tasks."""
TASK_CHARS, PART_CHARS = 200, 80
"""Of a task, and of a part of it."""
_HOW = {
    "direct": "a shipped phrasing matched, and its steps were done",
    "exact": "the same task was solved before, and its steps were done again",
    "variation": "the same task with other values was solved before; its steps were done with the new values",
    "method": "a learned method matched, and its steps were done",
    "novel": "nothing in memory could be used, so the next responder was asked",
}
_NOTHING_THERE = re.compile(r"no counterpart for '(.*)'")
_QUARANTINED = "in quarantine"
_SEVERAL = "several stored tasks match"
_REFUSED = "a person refused it"


@dataclass(frozen=True)
class Example:
    """A problem type as a person sees it: name, one of its tasks, and how many there are."""

    name: str
    task: str
    count: int


def example_of(shelf: Shelf, type: str) -> Example | None:
    """The type with that id; None if there is none."""
    found = shelf.get(ProblemType, type) if type else None
    if found is None:
        return None
    texts = (flat(each.text) for each in shelf.scan(Member, {"type": type}))
    task = min(texts, key=lambda text: (len(text), text), default=flat(found.text))
    return Example(found.label, task, max(found.members, 1))


def nearest(shelf: Shelf, decision: Decision) -> tuple[NeuronTree, str] | None:
    """The stored task that came nearest to one that was not answered, and why it was refused."""
    for id, why in decision.near:
        if tree := tree_by(shelf, id):
            return tree, why
    there = [
        each
        for each in shelf.pick(
            NeuronTree, [hit.id for hit in shelf.search(NeuronTree, decision.text, SEARCHED)]
        )
        if each.id != decision.tree and (not decision.at or each.created < decision.at)
    ]
    shares = {each.id: _common(each.text, decision.text) for each in there}
    best = max(there, key=lambda each: shares[each.id], default=None)
    return (best, decision.why) if best and shares[best.id] >= SHARED else None


def explain(
    decision: Decision,
    tree: NeuronTree | None = None,
    *,
    type: Example | None = None,
    near: tuple[NeuronTree, str] | None = None,
    not_kept: str = "",
) -> str:
    """What was decided and why, as lines for a person.

    `tree` is the one that the decision names, `near` the stored task nearest to one that was not answered,
    `not_kept` why the solution of such a task was not stored.
    """
    calls = str(decision.calls)
    if decision.replayed and decision.calls_before:
        calls += f"; {decision.calls_before} when it was solved the first time"
    lines = [
        ("asked", flat(decision.text) or "(nothing)"),
        ("known as", _known(decision, type) if type else ""),
        ("decided", f"{decision.path}: {_HOW[decision.path]}"),
        ("method", decision.method),
        ("stored", _stored(tree) or _gone(decision) if decision.replayed else ""),
        ("expected", f"{decision.predicted:.0%} confident of success" if decision.predicts else ""),
        *(_unanswered(decision, tree, near, not_kept) if not decision.replayed else ()),
        ("outcome", _outcome(decision)),
        ("model calls", calls),
        ("milliseconds", ", ".join(f"{name} {ms:.1f}" for name, ms in decision.ms.items())),
    ]
    return "\n".join(f"{name + ':':14}{text}" for name, text in lines if text)


def _known(decision: Decision, type: Example) -> str:
    """How well its type is known, by the number of examples."""
    such = f"“{shortened(type.task, PART_CHARS)}”"
    if type.count == 1:
        return (
            f"{'like' if decision.recognition == 'recognized' else 'a little like'} one solved task: {such}"
        )
    words = "a well known type" if type.count >= WELL else "a type"
    close = "" if decision.recognition == "recognized" else "close to "
    return f"{close}{words}: {type.name} ({type.count} examples, such as {such})"


def _stored(tree: NeuronTree | None) -> str:
    if tree is None:
        return ""
    ledger = tree.ledger
    counted = f"{ledger.correct:g} right and {ledger.incorrect:g} wrong so far"
    out = ", in quarantine" if ledger.quarantined else ""
    return f"“{flat(tree.text)}” (memory {tree.id[:8]}, run {tree.run or '?'}; {counted}{out})"


def _gone(decision: Decision) -> str:
    return f"memory {decision.tree[:8]}, which no longer exists" if decision.tree else ""


def _unanswered(
    decision: Decision, kept: NeuronTree | None, near: tuple[NeuronTree, str] | None, not_kept: str
) -> Iterator[tuple[str, str]]:
    """What was compared, how the nearest stored task differs, and what would be answered."""
    if decision.candidates:
        yield "compared", f"{decision.candidates} stored task{'' if decision.candidates == 1 else 's'}"
    if near is None:
        yield "nearest", "no solved task in memory was like it"
    else:
        yield "nearest", _stored(near[0])
        yield "differs", "; ".join(differences(near[0].text, decision.text))
        yield "why", _plain(near[1])
    yield "asked in", decision.way
    if decision.tree:
        yield "learned", f"the solution is kept as memory {decision.tree[:8]}"
    elif not_kept:
        yield "not learned", not_kept
    yield "answers if", _would_answer(decision, kept, near)


def _would_answer(decision: Decision, kept: NeuronTree | None, near: tuple[NeuronTree, str] | None) -> str:
    """What would make memory answer."""
    why = near[1] if near else ""
    if near and _QUARANTINED in why:
        return f"the stored task is trusted again: fractal brain release {near[0].id[:8]}"
    if near and _REFUSED in why:
        return "you accept how a later run does it: fractal feedback RUN good"
    if near and _SEVERAL in why:
        return "you say which of them is wrong: fractal feedback RUN bad"
    ways: list[str] = []
    if kept is not None and not kept.ledger.quarantined:
        only = "in the same words" if only_for(kept.exemplar) else "in these words, also with other values"
        ways.append(f"asked again {only}")
    if near and why and not only_for(near[0].exemplar):
        ways.append("asked in the words of the nearest task, with other values")
    return ", or ".join(ways) or "a run of it is accepted and its steps can be done again"


def differences(stored: str, asked: str) -> list[str]:
    """How a task differs from a stored one, in plain words; values of the same kind count as the same."""
    if _clauses(stored) == _clauses(asked) and _masked(tokens(stored)) != _masked(tokens(asked)):
        return ["the same sentences in another order"]
    old, new = tokens(stored), tokens(asked)
    gone: list[str] = []
    more: list[str] = []
    found: list[str] = []
    for kind, a, b, c, d in SequenceMatcher(None, _masked(old), _masked(new), autojunk=False).get_opcodes():
        was, becomes = _said(stored, old[a:b]), _said(asked, new[c:d])
        if kind == "replace":
            found.append(f"“{becomes}” instead of “{was}”")
        elif kind == "insert":
            more.append(becomes)
        elif kind == "delete":
            gone.append(was)
    moved = {text.lower() for text in more} & {text.lower() for text in gone}
    found += [f"“{text}” stands in another place" for text in more if text.lower() in moved]
    found += [f"“{text}” is more than it has" for text in more if text.lower() not in moved]
    found += [f"“{text}” is missing" for text in gone if text.lower() not in moved]
    if not found:
        return ["only its values"] if [t.text for t in old] != [t.text for t in new] else ["nothing"]
    left = len(found) - DIFFERENCES
    return [*found[:DIFFERENCES], *([f"and {left} more"] if left > 0 else [])]


def _masked(found: Sequence[Token]) -> list[str]:
    """Tokens as they are compared: words in lower case, values by their kind and unit."""
    return [f"<{each.kind} {each.unit}>" if each.leaf else each.low for each in found]


def _clauses(text: str) -> list[list[str]]:
    """The sentences of a task, in an order of their own."""
    return sorted(_masked(tokens(each)) for each in re.split(r"(?<=[.?!;])\s+", text.strip()))


def _said(text: str, part: Sequence[Token]) -> str:
    return shortened(flat(text[part[0].start : part[-1].end]), PART_CHARS) if part else ""


def _common(one: str, other: str) -> float:
    """The share of words that two tasks have in common."""
    mine, yours = ({*_masked(tokens(text))} for text in (one, other))
    return len(mine & yours) / max(len(mine | yours), 1)


def _plain(why: str) -> str:
    if hit := _NOTHING_THERE.fullmatch(why):
        return f"the stored task has nothing in the place of “{hit[1]}”"
    if why == "it has values of other kinds":
        return "it has more or fewer values, or values of other kinds (numbers, file names, quoted texts)"
    return why


def _outcome(decision: Decision) -> str:
    if decision.outcome is None:
        own = "; that its own criteria hold shows nothing" if decision.said else ""
        return f"not known yet{own}"
    text = f"{'right' if decision.outcome else 'wrong'}, by {_by(decision.source)}"
    others = [name for name, (good, _) in decision.said.items() if good != decision.outcome]
    if others:
        text += f" (contradicted by {', '.join(map(_by, others))})"
    if decision.surprise is not None:
        text += f"; surprise {decision.surprise:.0%}"
    return text


def _by(source: str) -> str:
    names = {"criteria": "its success criteria", "check": "a model's check", PERSON: "a person"}
    return names.get(source, source or "?")
