"""Staged knowledge: what was read and is not yet known.

It is a record of its own, which nothing finds that looks for what is known: no recall, prompt, dream or tool.
Oversight and people are shown it. What a person, oversight or the policy of the settings lets in becomes an
observation in memory; what then does not help goes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Literal

from kernel.document.escaping import to_json
from kernel.document.model import ACCEPTED, Document
from kernel.errors import DocumentError, UsageError
from kernel.store.files import FileStore
from runtime.memory.facts.records import Memory, stamp
from runtime.memory.learning.distiller import LONGEST, is_plain
from runtime.memory.run_memory import RunMemory
from runtime.memory.store import Record
from runtime.nervous.messages import Message, Messages, named, tier_of
from runtime.secrets.redaction import redact
from runtime.text.lines import flat, shortened
from runtime.workspace.deciders import PROGRAM, Decider
from runtime.workspace.runs import RunResult
from runtime.workspace.settings import Config

if TYPE_CHECKING:
    from runtime.memory.facts.mind import Mind

USES = 3
"""Accepted runs in which staged knowledge has to help. Source: as many as `teaching.ALIKE`."""
IGNORED = 5
"""Accepted runs in a row that were shown it in vain, after which it is hidden. Source: `log.LATELY`."""
CAME_BACK = 0.5
"""The share of its words, without those of the task, that have to come back. Set by hand: most of them."""
SHOWN = 3
"""Lines that oversight is shown, as of earlier decisions (`log.SHOWN`)."""
NOT_KNOWN = "read somewhere, may be false"
"""The heading of what loops of oversight are shown."""
SHOWN_CHARS = 400
"""Characters of a line that are shown, as of what is recalled."""
SHORT = 12
"""Characters of an id that are shown and suffice."""
_WORD = re.compile(r"[^\W\d_]{4,}|\d[\d.,:]*\d|\d")
"""Words that tell something: of four letters or more, and numbers."""


class Staged(Record):
    """One paragraph that was read. `text` is what it says."""

    KIND: ClassVar[str] = "staged"

    at: str = ""  # when it was read
    source: str = ""  # `file:NAME`, an address, `run:ID`
    approved: Literal["", "human", "oversight", "policy"] = ""  # who let it in; "": it is staged
    helped: tuple[str, ...] = ()  # accepted runs that were shown it, and had its words in what they did
    ignored: tuple[str, ...] = ()  # accepted runs since then that were shown it in vain

    @property
    def line(self) -> str:
        """Its id, text and source on one line."""
        return f"{self.id[:SHORT]} {shortened(flat(self.text), SHOWN_CHARS)} ({self.source or 'no source'})"


class Staging:
    """The staged knowledge of a workspace. `messages` opens the store in which decisions are kept."""

    def __init__(self, memory: RunMemory, messages: Callable[[], Messages], config: Config) -> None:
        self.memory, self._messages, self.config = memory, messages, config

    def stage(self, texts: Sequence[str], source: str = "", by: Decider = PROGRAM) -> list[Staged]:
        """Stage what was read in `source`, all or nothing; what was staged before stays as it is.

        Raises `UsageError` for an empty text, one that is too long, or one with a secret.
        """
        shelf = self.memory.brain.shelf
        with shelf.transaction():
            ids, new = self._add(texts, source)
            if new:
                lines = "\n".join(each.line for each in new)
                self._say("observation", f"read and staged:\n{lines}", by)
        self._offer_by_gates(new)
        return shelf.pick(Staged, ids)

    def _add(self, texts: Sequence[str], source: str) -> tuple[list[str], list[Staged]]:
        """Stage texts; returns the ids of all of them, and what is new."""
        mind, source, at = self._mind, flat(source), stamp(self.memory.clock())
        for number, text in enumerate(texts, 1):
            mind.noting(text, names=())
            if redact(text) != text:
                raise UsageError(f"paragraph {number} has a secret in it; remove it, nothing was staged")
        wanted = {named(source, text): text for text in texts}
        there = {each.id for each in mind.shelf.pick(Staged, wanted)}
        left = {id: text for id, text in wanted.items() if id not in there}
        new = [Staged(id=id, text=text, at=at, source=source) for id, text in left.items()]
        mind.shelf.put(*new)
        return [*wanted], new

    def waiting(self) -> list[Staged]:
        """All that is staged, in the order in which it was read."""
        if not self._any:
            return []
        found = self.memory.brain.shelf.scan(Staged, {"approved": ""})
        return sorted(found, key=lambda each: (each.at, each.source, each.id))

    def near(self, text: str, most: int = SHOWN) -> list[Staged]:
        """What is staged and bears on a text, the nearest first; not what was ignored often."""
        if not self._any:
            return []
        mind = self._mind
        shelf, name = mind.shelf, mind.embedder.name
        missing = [each.id for each in shelf.scan(Staged) if name not in each.vectors]
        shelf.embed(Staged, missing, mind.embedder)
        (row,) = mind.embedder.embed([text])
        hits = shelf.nearest(Staged, name, row, 4 * most, {"approved": ""})
        found = shelf.pick(Staged, [each.id for each in hits if each.score > mind.thresholds.link])
        return [each for each in found if len(each.ignored) < IGNORED][:most]

    def notes(self, document: Document) -> list[tuple[str, str]]:
        """What a loop of oversight is shown."""
        read = self.near(document.text(1, "task"))
        return [(NOT_KNOWN, "\n".join(f"- {each.line}" for each in read))] if read else []

    def find(self, name: str) -> Staged:
        """What an id, or the beginning of one, means. Raises `UsageError`."""
        rows = self.memory.brain.shelf.scan(Staged) if self._any else ()
        found = [each for each in rows if name and each.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        raise UsageError(
            f"{name!r} is {'more than one thing' if found else 'nothing'} that was read; "
            "`fractal recall --staged` lists what is staged"
        )

    def approve(self, name: str, by: Decider = PROGRAM) -> Staged:
        """Let agents know what has this id. Raises `UsageError` if it may not be known."""
        staged = self.find(name)
        if staged.approved:
            return staged
        if why := self.refusal(staged, by):
            raise UsageError(f"{staged.id[:SHORT]} stays staged: {why}")
        return self._know(staged, by)

    def refusal(self, staged: Staged, by: Decider) -> str:
        """Why somebody may not let it in; "" if they may. A person may, unless it contradicts what holds."""
        mind = self._mind
        mind.take_in()
        routed = mind.route(mind.noting(staged.text, at=staged.at))
        if routed.contrary:
            holds = mind.shelf.get(Memory, routed.contrary[0][0])
            return f"it contradicts what holds: {holds.text if holds else ''}"
        if tier_of(by) == "human":
            return ""
        if not staged.source:
            return "it names no source"
        if not is_plain(flat(staged.text), set()):
            return f"it is not plain: it has a command, address, file or sign, or over {LONGEST} characters"
        return ""

    def ended(self, result: RunResult) -> None:
        """After an accepted run: stage what oversight taught, and measure what was shown."""
        if result.status not in ACCEPTED:
            return
        messages = self._messages().all(run=result.run)
        taught = [each for each in messages if each.type == "teaching"]
        for each in taught:
            by = Decider.read(each.data)
            with suppress(UsageError):  # it has a secret
                ids, new = self._add([each.text], f"run:{result.run}")
                if tier_of(by) == "human":
                    for staged in self.memory.brain.shelf.pick(Staged, ids):
                        self._offer(staged, by)
                else:
                    self._offer_by_gates(new)
        if not self._any:
            return
        store = FileStore(result.path.parent)
        try:
            documents = [store.peek(loop) for loop in store.loops()]
        except DocumentError:  # the run says so
            return
        task = " ".join(each.text(1, "task") for each in documents)
        told = _words(" ".join([result.output, *_done(documents), *_replied(messages)]))
        for staged in self._shown(messages, documents):
            own = _words(staged.text) - _words(task)
            if own:  # else nothing tells whether it helped
                self._measured(staged.id, result.run, len(own & told) >= CAME_BACK * len(own))

    def _shown(self, messages: Iterable[Message], documents: Sequence[Document]) -> list[Staged]:
        """What oversight and people were shown as staged, and workers as known."""
        ids = {str(line).partition(" ")[0] for each in messages for line in each.data.get("read", ())}
        notes = [flat(note.text) for each in documents for note in each.section(1).notes]
        return [
            each
            for each in self.memory.brain.shelf.scan(Staged)
            if each.id[:SHORT] in ids
            or any(each.id[:SHORT] in note or flat(each.text) in note for note in notes)
        ]

    def _measured(self, id: str, run: str, helped: bool) -> None:
        """Count one accepted run, and decide by the count."""
        mind = self._mind
        with mind.shelf.transaction():
            staged = mind.shelf.get(Staged, id)
            if staged is None or run in (*staged.helped, *staged.ignored):
                return
            runs = (
                {"helped": (*staged.helped, run), "ignored": ()}
                if helped
                else {"ignored": (*staged.ignored, run)}
            )
            staged = staged.model_copy(update=runs)
            back = staged.approved not in ("", "human") and len(staged.ignored) >= IGNORED
            if back:
                staged = staged.model_copy(update={"approved": "", "helped": (), "ignored": ()})
                mind.withdraw(id)
                why = Decider("policy", f"ignored in {IGNORED} runs")
                self._say("observation", f"staged again: {staged.line}", why)
            mind.shelf.put(staged)
        if (
            helped
            and not staged.approved
            and self.config.staged_until != "approval"
            and len(staged.helped) >= USES
        ):
            self._offer(staged, Decider("policy", f"helped in {len(staged.helped)} runs"))

    def _offer_by_gates(self, new: Iterable[Staged]) -> None:
        for each in new if self.config.staged_until == "gates" else ():
            self._offer(each, Decider("policy", "gates"))

    def _offer(self, staged: Staged, by: Decider) -> None:
        if not staged.approved and not self.refusal(staged, by):
            self._know(staged, by)

    def _know(self, staged: Staged, by: Decider) -> Staged:
        mind, tier = self._mind, "policy" if by.kind == "policy" else tier_of(by)
        noted = mind.noting(
            staged.text, said="fact", source=staged.source, at=staged.at, names=None, salience=None
        )
        known = staged.model_copy(update={"approved": tier, "ignored": ()})
        with mind.shelf.transaction():
            mind.keep([noted.model_copy(update={"id": staged.id})])
            mind.shelf.put(known)
            self._say("approve", f"known from now on: {staged.line}", by)
        mind.take_in()
        return known

    def _say(self, type: Literal["observation", "approve"], text: str, by: Decider) -> None:
        """Record a decision as a message, of no run: what a run did itself does not change by it."""
        tier, name = tier_of(by), by.name or by.kind
        data = {"by": by.values}
        self._messages().write(stream="guidance", type=type, tier=tier, sender=name, text=text, data=data)

    @property
    def _any(self) -> bool:
        return self.memory.there and self.memory.brain.shelf.count(Staged) > 0

    @property
    def _mind(self) -> Mind:
        from runtime.memory.facts.mind import Mind

        return Mind.of(self.memory.brain, clock=lambda: stamp(self.memory.clock()))


def _words(text: str) -> set[str]:
    return {*_WORD.findall(text.casefold())}


def _done(documents: Iterable[Document]) -> Iterable[str]:
    """What the steps were told to do, such as the content of a file that was written."""
    return (to_json(dict(step.args)) for each in documents for step in each.steps.values() if step.args)


def _replied(messages: Iterable[Message]) -> Iterable[str]:
    return (each.text for each in messages if each.stream == "guidance")
