"""The documents of runs as what an editor shows: plan, tool calls with diffs, messages.

Everything is derived from the documents, so that a session that is loaded again looks as it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import acp
from acp.helpers import ToolCallContentVariant
from acp.schema import PlanEntry, PlanEntryStatus, ToolCallLocation, ToolCallStatus, ToolKind
from pydantic import BaseModel

from kernel import disk
from kernel.asking.conversation import THOUGHT, last_turn, notes_of, turn_named, turn_of
from kernel.asking.prompt import NOT_YET
from kernel.document.model import ACCEPTED, STEP_ENDED, Document, Note, Step
from kernel.document.redaction import Verbatim, redacted
from kernel.errors import FractalError
from kernel.loop.advance import outcome
from kernel.loop.approval import PLAN_WAITS
from kernel.tools.tool import Tool
from runtime.memory.prompting import fenced
from runtime.models.provider import encodable
from runtime.sandbox.changes import TEXT_BYTES, texts
from runtime.sandbox.restoring import net_changes
from runtime.sandbox.snapshot import Snapshots
from runtime.secrets.redaction import redact, redactor
from runtime.text.lines import flat, shortened
from runtime.workspace.runs import open_question

M = TypeVar("M", bound=BaseModel)
TITLE_CHARS = 120
PATHS = ("path", "from", "to", "a", "b")
"""Arguments of the operations that name a file or folder."""
_KINDS: Mapping[str, ToolKind] = {
    "find": "search",
    "grep": "search",
    "search": "search",
    "move": "move",
    "remove": "delete",
}
_EFFECTS: Mapping[str, ToolKind] = {"shell": "execute", "network": "fetch", "write": "edit", "read": "read"}
"""The kind of other operations, by the first of these effects that they have."""
_SHOWN: Mapping[str, ToolCallStatus] = {
    "waiting": "pending",
    "stale": "pending",
    "running": "in_progress",
    "done": "completed",
    "failed": "failed",
    "unknown": "failed",
}
"""The states of steps that are shown as tool calls; the others were never started."""
_ENTRY: Mapping[str, PlanEntryStatus] = {
    "planned": "pending",
    "waiting": "pending",
    "stale": "pending",
    "running": "in_progress",
}
"""The states of steps in the plan; all others are over."""


class View:
    """What an editor has been shown of a session."""

    def __init__(self, folder: Path, tools: Mapping[str, Tool], snapshots: Snapshots) -> None:
        self.folder = folder
        self.tools = tools
        self.snapshots = snapshots
        self._shown: dict[str, Any] = {}
        self.streamed: list[str] = []  # the texts of the present prompt that were shown as they were written

    def news(self, document: Document) -> Iterator[Any]:
        """The updates for what is new in a document since it was shown last."""
        meta = document.meta
        for note in document.section(1).notes:  # a loop below hears the same
            if note.key == "guidance" and self._is_new(f"{meta.run}/{note.source}/{note.text}", True):
                yield acp.update_user_message_text(note.text)
        yield from self._thoughts(document, document.note(2, "approach"), turn=0)
        entries = [] if meta.parent else self.entries(document)
        if entries and self._is_new("plan", [(each.content, each.status) for each in entries]):
            yield acp.update_plan(entries)
        own = {n: turn_of(step) for n, step in document.steps.items() if n > meta.base}
        yield from self._calls(document, [n for n in document.steps if not own.get(n)])
        for turn in range(1, last_turn(document) + 1):
            notes = notes_of(document, turn)
            approach = notes_of(document, turn, 2).get("approach")
            yield from self._thoughts(document, approach, notes.get(THOUGHT), turn=turn)
            yield from self._calls(document, [n for n, each in own.items() if each == turn])
            yield from self._thoughts(document, notes.get(NOT_YET), turn=turn)

    def _thoughts(self, document: Document, *notes: Note | None, turn: int) -> Iterator[Any]:
        """What is new of what a turn says besides its calls, and why its answer was held back."""
        for note in filter(None, notes):
            text = fenced(note.text) if note.key == NOT_YET else note.text  # it has what a check printed
            place = f"{document.meta.id}/{document.meta.attempt}/{turn}/{note.key}"
            shown = note.key == THOUGHT and note.text.strip() in self.streamed
            if turn_named(note) == turn and self._is_new(place, note.text) and not shown:
                yield acp.update_agent_thought_text(f"{text}\n\n")

    def _calls(self, document: Document, numbers: Sequence[int]) -> Iterator[Any]:
        """What is new of these steps."""
        for step in (document.steps[n] for n in numbers):
            call = f"{document.meta.id}/{step.n}"
            if step.state not in _SHOWN:
                continue
            first = call not in self._shown
            if self._is_new(call, (step.state, step.result)):
                send = acp.start_tool_call if first else acp.update_tool_call
                yield send(call, **self.call(step))

    def _is_new(self, key: str, value: Any) -> bool:
        old, self._shown[key] = self._shown.get(key), value
        return old != value

    def entries(self, document: Document) -> list[PlanEntry]:
        """The plan with the status of each step; the calls of a turn are no plan."""
        ends = {
            step.n: f" ({step.state})" for step in document.attempted if step.state in STEP_ENDED - {"done"}
        }
        return [
            acp.plan_entry(
                self.title(step) + ends.get(step.n, ""), status=_ENTRY.get(step.state, "completed")
            )
            for step in document.attempted
            if not turn_of(step)
        ]

    def title(self, step: Step) -> str:
        """A step on one line: the tool and its most important argument, or a task in words."""
        args = step.args or {}
        tool = self.tools.get(step.tool)
        names = [name for name in (*(tool.required if tool else ()), *args) if name in args]
        what = str(args[names[0]]) if names else step.what
        return shortened(flat(redact(f"{step.tool} {what}")), TITLE_CHARS)

    def call(self, step: Step) -> dict[str, Any]:
        """The fields of a step's tool call."""
        args = step.args or {}
        return {
            "title": self.title(step),
            "kind": self._kind(step),
            "status": _SHOWN[step.state],
            "locations": [
                ToolCallLocation(path=str(self.folder / args[name]), line=_line(args.get("lines")))
                for name in PATHS
                if isinstance(args.get(name), str)
            ],
            "raw_input": redacted(dict(args), redact) if args else {"task": step.what},
            "content": None if step.state == "running" else [*self.diffs(step), *_remarks(step)],
        }

    def _kind(self, step: Step) -> ToolKind:
        tool = self.tools.get(step.tool)
        if tool is None or tool.guided:
            return "other" if step.tool else "think"
        if tool.scheme == "mcp":
            return "other"
        if tool.name in _KINDS:
            return _KINDS[tool.name]
        effects = tool.effects_of(step.args)
        kinds: list[ToolKind] = [kind for effect, kind in _EFFECTS.items() if effect in effects]
        return kinds[0] if kinds else "other"

    def diffs(self, step: Step) -> list[ToolCallContentVariant]:
        """What the step has changed; while it waits for approval, what it is about to write."""
        args, before = step.args or {}, step.evidence.get("tree_before")
        if step.ended and before:
            with suppress(FractalError, OSError):
                moved = net_changes(self.snapshots, [(before, step.evidence.get("tree_after", before))])
                found = texts(self.snapshots.trees, moved).items()
                return [
                    acp.tool_diff_content(str(self.folder / path), new, old) for path, (old, new) in found
                ]
        elif step.state == "waiting" and isinstance(args.get("path"), str):
            path = self.folder / args["path"]
            if step.tool == "edit":
                return [acp.tool_diff_content(str(path), str(args.get("new")), str(args.get("old")))]
            if step.tool == "write" and not args.get("append"):
                return [acp.tool_diff_content(str(path), str(args.get("content")), _present(path))]
        return []


def _line(lines: Any) -> int | None:
    first = str(lines or "").partition("-")[0]
    return int(first) if first.isdecimal() and len(first) < 10 else None


def _present(path: Path) -> str | None:
    with suppress(OSError, ValueError):
        return disk.read(path, TEXT_BYTES).decode("utf-8")
    return None


def _remarks(step: Step) -> list[ToolCallContentVariant]:
    """The dangers, the result, and what was deleted. A result is data: it is fenced."""
    dangers = "\n".join(step.evidence.get("dangers", ())) if step.state == "waiting" else ""
    result = fenced(step.result) if step.result else ""
    remarks = (dangers, result, str(step.evidence.get("deleted", "")))
    return [acp.tool_content(acp.text_block(text)) for text in remarks if text]


def valid(message: M) -> M:
    """The message as valid Unicode: replies and file names can have halves of surrogate pairs."""
    return type(message).model_validate(redacted(message.model_dump(by_alias=True), encodable))


def without_secrets(message: M) -> M:
    """A valid message without secrets: all that an editor is told goes through here, but for questions."""
    return valid(type(message).model_validate(redacted(message.model_dump(by_alias=True), redactor())))


def waits_of(documents: Sequence[Document]) -> Mapping[str, Any]:
    """What a run asks of a person: `for` (person or approval) and `question`; empty if nothing."""
    document = open_question(documents)
    return document.meta.waiting or {} if document else {}


def opening(root: Document) -> Iterator[Any]:
    """The task, and the questions and answers of a run."""
    yield acp.update_user_message_text(root.text(1, "task"))
    said = {"question": acp.update_agent_message_text, "answer": acp.update_user_message_text}
    unanswered = waits_of([root]).get("question")  # `closing` says it
    for note in root.section(1).notes:
        if note.key in said and note.text != unanswered:
            yield said[note.key](note.text)


def closing(documents: Sequence[Document], view: View, asked: str) -> str:
    """The last message about a run: its result, or why it stopped and what the next prompt can be.

    `asked` is what it asks to approve, in full.
    """
    root, waits = documents[0], waits_of(documents)
    if root.ended:
        end = outcome(root)
        if end.status == "complete":
            return end.result or "Done."
        reason = f"{end.status}: {end.error or 'no criterion could be checked'}"
        if end.status in ACCEPTED:
            return f"{end.result}\n\n{reason}".strip()
        still = f"Open question: {end.question}" if end.question else ""
        return "\n\n".join(filter(None, [reason, still, end.partial]))
    question = str(waits.get("question", ""))
    if question == PLAN_WAITS:
        how = "Nothing is done yet. To carry it out, choose the mode Do or Ask and send `resume`."
        return Verbatim("\n\n".join([fenced(asked, len(asked)), how]))
    if "--assume" in question:
        return f"{question}\n\nHere, answer `rerun` or `done`."
    if waits.get("for") == "person":
        note = root.note(1, "question")
        how = "\n\nHere, send the task in other words, or `resume` to try again."
        return question + (how if note and note.origin == "kernel" else "")
    if waits.get("for") == "lifeforce":
        return f"{question}\n\nSend `resume` to continue then."
    if waits:
        shown = fenced(asked, len(asked))
        return Verbatim(f"Waiting for approval of\n\n{shown}\n\nSend `resume` to be asked again.")
    return "This run was interrupted. Send `resume` to continue it. Any other prompt starts a new one."
