"""What runs lacked: a need that no tool covered, or the same improvised command again and again.

It is read from a run's documents when the run has ended, kept in `state/system/needs.json`, and leads to one
proposal to build, told once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernel import disk
from kernel.document import Document
from runtime.building.journal import MACHINE, Journal
from runtime.building.proposals import Proposal, Proposals
from runtime.building.shapes import shape

OFTEN = 3
"""Times that the same command is improvised before a tool for it is proposed."""
EXAMPLES = 5
REMEMBERED = 500
"""Shapes of commands that are kept; the oldest are forgotten."""
SHOWN_CHARS = 300
_LACKS = re.compile(
    r"(?i)\b(?:no|not any|without|lacks?|lacking|missing|needs?|none of the)\b[^.\n]{0,80}?"
    r"\b(?:tools?|operations?|capabilit(?:y|ies)|skills?|way to|means to|access to)\b"
)


@dataclass(frozen=True)
class Instance:
    """Where something was lacking: the run, the loop and step, and what was done or said instead."""

    run: str
    where: str
    text: str


def lacking(documents: Sequence[Document]) -> Iterator[Instance]:
    """What plans could not do for want of a tool, where the loop did not end well all the same."""
    for document in documents:
        if document.meta.status == "complete":
            continue
        said = [
            note.text
            for fold in document.section(2).folds
            if fold.decision == "cannot"
            for note in fold.notes
        ]
        said += [document.text(5, "escalation")]
        for text in said:
            need = text.removeprefix("cannot: ") if text.startswith("cannot: ") else ""
            if need and _LACKS.search(need):
                yield Instance(document.meta.run, document.meta.id, need.strip())
                break


def improvised(documents: Sequence[Document]) -> Iterator[tuple[str, Instance]]:
    """The shapes of commands that were improvised and did their work."""
    for document in documents:
        for step in document.steps.values():
            command = (step.args or {}).get("command")
            done = step.tool == "bash" and step.state == "done" and isinstance(command, str)
            if done and (told := shape(str(command))):
                yield told, Instance(document.meta.run, f"{document.meta.id}:{step.n}", str(command))


class Needs:
    """What was lacking in the runs of one workspace so far."""

    def __init__(self, journal: Journal, proposals: Proposals) -> None:
        self.journal = journal
        self.proposals = proposals
        self.path = journal.folder / "needs.json"

    def look(self, documents: Sequence[Document]) -> list[Proposal]:
        """Take in the documents of a run that has ended; returns what is proposed now for the first time."""
        needs = list(lacking(documents))
        shapes = list(improvised(documents))
        if not needs and not shapes:
            return []
        with self.journal.held():
            known = self._known()
            due = list(self._counted(known, needs, shapes))
            self._save(known)
        made: list[Proposal] = []
        for key, instances in due:
            proposal = self._propose(key, instances)
            made.append(proposal)
            with self.journal.held():
                known = self._known()
                known.setdefault(key, {"seen": []})["proposal"] = proposal.id
                self._save(known)
        return made

    def _counted(
        self, known: dict[str, Any], needs: Sequence[Instance], shapes: Sequence[tuple[str, Instance]]
    ) -> Iterator[tuple[str, list[Instance]]]:
        """Note what was seen; what is due is what has come up often enough and is not proposed yet."""
        found = [(f"need {_words(each.text)}", each) for each in needs]
        found += [(f"command {told}", each) for told, each in shapes]
        touched: dict[str, None] = {}
        for key, each in found:
            entry = known.pop(key, {"seen": []})
            seen = [one for one in entry["seen"] if (one["run"], one["where"]) != (each.run, each.where)]
            known[key] = {**entry, "seen": [*seen, asdict(each)][-EXAMPLES:]}
            touched[key] = None
        for key in list(known)[: max(len(known) - REMEMBERED, 0)]:
            del known[key]
        for key in touched:
            entry = known[key]
            enough = key.startswith("need ") or len(entry["seen"]) >= OFTEN
            if enough and not entry.get("proposal"):
                yield key, [Instance(**one) for one in entry["seen"]]

    def _propose(self, key: str, instances: Sequence[Instance]) -> Proposal:
        kind, _, told = key.partition(" ")
        for each in self.proposals.all():  # its process may have died before it was noted
            if each.kind == "build" and each.draft == key[:SHOWN_CHARS]:
                return each
        command = kind == "command"
        unit, level = ("operations", "operation") if command else ("tools", "tool")
        examples = [f"- run {each.run}, {each.where}: {_short(each.text)}" for each in instances]
        if command:
            reason = f"the same command was improvised {len(instances)} times: {told}"
            what = (
                "An operation that does what these commands do, with what differs between them as arguments."
            )
        else:
            reason = f"a plan found no tool: {_short(instances[-1].text)}"
            what = f"A tool that covers this need: {instances[-1].text}"
        why = (
            "Each time it was written anew, by a model." if command else "The run could not go on without it."
        )
        text = "\n\n".join(
            [
                f"# {reason}",
                f"What: {what}",
                f"Why: {why}",
                "Where it came up:\n" + "\n".join(examples),
                f"Level: {level}; it is registered in the index that plans choose from.",
            ]
        )
        given = "\n".join(f"- {_short(each.text)}" for each in instances)
        task = f"Build a new {level} and test it. {what}\nIt came up here:\n{given}"
        return self.proposals.make(
            "build",
            unit,
            reason,
            MACHINE,
            run=instances[-1].run,
            draft=key[:SHOWN_CHARS],
            task=task,
            text=text,
        )

    def _known(self) -> dict[str, Any]:
        try:
            told: Any = json.loads(self.path.read_bytes())
            return told if isinstance(told, dict) else {}
        except (OSError, ValueError):
            return {}

    def _save(self, known: Mapping[str, Any]) -> None:
        with disk.of_the_state(self.path):
            disk.put(self.path, json.dumps(known, indent=0).encode(), mode=0o600)


def _words(text: str) -> str:
    """A need in a form in which the same one is recognised: its longer words, each once."""
    words = re.findall(r"[a-z]{4,}", text.lower())
    return " ".join(sorted(set(words)))[:SHOWN_CHARS]


def _short(text: str) -> str:
    line = " ⏎ ".join(text.strip().splitlines())
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"
