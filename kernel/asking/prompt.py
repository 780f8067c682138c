"""Assembles the prompt of a judge: base, the instructions of CHECK, the form of the reply, and the work.

A prompt is derived from the document and the instruction files alone, so that it is the same after a crash.
It contains no time, remaining budget or state of other loops.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any

from kernel.asking.messages import fenced, headed
from kernel.asking.replies import schema, sketch
from kernel.document.escaping import to_json
from kernel.document.model import Document, Fold, Note, Step
from kernel.document.redaction import redact, redacted
from kernel.document.texts import cut
from kernel.tools.tool import Catalogue, preamble, section

LEAST_CHARS = 60
"""Minimum characters of a cut text; without room for them it is omitted."""
TASK_SHARE = 4
"""How much longer than other texts a cut task may be."""
MOST_CHARS = MOST_PARTS = 10**9
"""No limit."""
_UNRULY = re.compile(r"(?:^|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])\s*(?:#|```|~~~|<[!?/A-Za-z])")
"""Text that looks like a heading, a fence, or HTML that could hide what follows."""

Count = Callable[[str], int]
Texts = list[tuple[str, str]]
"""Title and text of each piece of a prompt."""


@dataclass(frozen=True)
class Part:
    """A text with an optional line above it.

    Data is fenced, and so is any text that looks like a heading or a fence. Nothing inside ends the fence.
    """

    text: str
    lead: str = ""
    data: bool = False
    whole: str = ""  # where the text can be read in full

    def render(self, chars: int, whole: str) -> str:
        """The part as text of the prompt, with at most so many characters of its text."""
        text = cut(self.text, chars, self.whole or whole)
        body = fenced(text) if text and (self.data or _UNRULY.search(text)) else text
        return "\n".join(each for each in (self.lead, body) if each)


@dataclass(frozen=True)
class Piece:
    """A titled part of what a judge reads."""

    title: str
    parts: tuple[Part, ...]
    whole: str = "the document"  # where the whole can be read

    def render(self, chars: int = MOST_CHARS, most: int = MOST_PARTS) -> str:
        """The piece with at most `chars` of each text, and `most` parts; "" if it has no text."""
        parts, gone = list(self.parts), len(self.parts[most:])
        if gone:
            what = f"{gone} part{'s' if gone > 1 else ''} cut"
            parts[most // 3 : most // 3 + gone] = [Part("", f"[… {what}; whole in {self.whole} …]")]
        body = "\n".join(filter(None, (part.render(chars, self.whole) for part in parts)))
        return f"## {' '.join(self.title.split())}\n{body}" if body else ""


def fitted(pieces: Sequence[Piece], limit: int, count: Count) -> Texts:
    """Title and text of each piece, together at most `limit` tokens; each cut is marked.

    The longest texts are cut first, the first piece (the task) last; then parts are left out, from the middle
    of each piece, and at last all pieces but the first.
    """

    def shown(chars: int, most: int = MOST_PARTS, others: int = MOST_PARTS) -> Texts:
        task, rest = pieces[0], pieces[1 : 1 + others]
        texts = [(task.title, task.render(chars * TASK_SHARE, most))]
        texts += [(piece.title, piece.render(chars, most)) for piece in rest]
        return [(title, text) for title, text in texts if text]

    def fits(texts: Texts) -> bool:
        return count(joined(texts)) <= limit

    def largest(numbers: Sequence[int], show: Callable[[int], Texts]) -> Texts:
        """What `show` gives for the largest of these numbers that fits, else for the first one."""
        at = bisect_left(numbers, True, key=lambda n: not fits(show(n)))
        return show(numbers[max(at - 1, 0)])

    if fits(whole := shown(MOST_CHARS)):
        return whole
    longest = max(len(part.text) for piece in pieces for part in piece.parts)
    levels = [int(LEAST_CHARS * 1.06**n) for n in range(1 + ceil(log(max(longest / LEAST_CHARS, 1), 1.06)))]
    if fits(shown(LEAST_CHARS)):
        return largest(levels, shown)
    if fits(shown(LEAST_CHARS, 1)):
        most = max(len(piece.parts) for piece in pieces)
        return largest(range(1, most + 1), lambda parts: shown(LEAST_CHARS, parts))
    return largest(levels, lambda chars: shown(chars // TASK_SHARE, others=0))


def joined(pieces: Texts) -> str:
    """The text of the pieces, separated by blank lines."""
    return "\n\n".join(text for _, text in pieces)


def cap(weights: Sequence[int], room: int) -> int:
    """The highest cap such that the capped weights fit into the room."""
    levels = range(1, max(weights, default=0) + 1)
    return bisect_right(levels, room, key=lambda level: sum(min(weight, level) for weight in weights))


TRIED = "tried then"
"""The note of an earlier attempt with what was tried before its first step. No prompt shows it."""
FOLDER = "folder"
"""The source of the folder's listing."""
FORM = "Reply in JSON: "
"""What stands before the form of a reply."""
GUIDANCE = "instructions "
"""The source of a file of guidance such as AGENTS.md; its path follows."""
NAMED = "named file "
"""The source of a file that the task names; its path follows."""
MEMORY = "memory"
"""The source of what memory offers; a part of memory follows `: `."""
WAY = f"{MEMORY}: way"
"""The source of memory's advice on how to approach the task."""
BACKGROUND = "background"
"""The note of §1 with what a child is told of its parent: the task, and the facts."""
PARENT_TASK = "parent: task"
"""The source of the task of a child's parent."""
NOT_YET = "not yet"
"""The note of §3 with the evidence of what did not hold when a plan, or the responder, was done."""
RECORDED = ("evidence", "changes", "diff", "look")
"""The notes of §4 that the kernel writes before CHECK is asked."""
CONTEXT = 3000
"""Tokens of work context of a loop whose document states none."""
MOST_RESULT_CHARS = 2400
"""Maximum characters of a result in CHECK."""
CHECK_RESULT_CHARS = 500
"""Minimum characters of a result in CHECK: 500 lost nothing relevant. Source: prompts.md."""
ARGUMENT_CHARS = 160
"""Maximum characters of an argument in the log of steps."""
ASKED_CHARS = 600
"""Maximum characters of the original task that is shown beside the resolved one."""
LEAST_TASK = 200
"""Tokens of a judge's prompt in any case: those of the task."""


def found_by_itself(source: str) -> bool:
    """Whether a run finds the context from this source itself: the folder, its files, AGENTS.md, memory."""
    return source in (FOLDER, MEMORY) or source.startswith((f"{MEMORY}: ", GUIDANCE, NAMED))


@dataclass(frozen=True)
class Prompt:
    """The messages of an ask, and the tokens of each part."""

    system: str = ""
    user: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    """The schemas of the calls that a turn declares."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """The conversation of a turn; then `user` is empty."""

    @property
    def texts(self) -> list[str]:
        """The messages, each as a text for people."""
        two = ({"role": "system", "content": self.system}, {"role": "user", "content": self.user})
        return [headed(number, each) for number, each in enumerate(self.messages or two, 1)]

    @property
    def instruction_tokens(self) -> int:
        """Tokens of base, phase, form of the reply and index of tools."""
        return sum(tokens for name, tokens in self.parts if not name.startswith("work"))


def assemble(
    document: Document, catalogue: Catalogue, count: Count, refused: Sequence[tuple[str, str]] = ()
) -> Prompt:
    """The prompt of a judge. `refused` contains earlier invalid replies with the reasons."""
    limit = max(int(document.meta.budget.get("context", CONTEXT)), LEAST_TASK)
    named = [("base", base(document, catalogue)), ("phase", instructions(document, "check", catalogue))]
    named.append(("form", f"{FORM}{form(document, 'check', catalogue)}"))
    system = "\n\n".join(text for _, text in named)
    pieces = work(document)
    example = catalogue.text("phases/check.example.md", drafted=drafted(document)) if refused else ""
    pieces += [_refused(reply, why, example) for reply, why in refused]
    texts = fitted(pieces, limit, count)
    parts = [(name, count(text)) for name, text in named]
    parts += [(f"work: {title}", count(text)) for title, text in texts]
    return Prompt(system, joined(texts), tuple(parts))


def _refused(reply: str, why: str, example: str) -> Piece:
    parts = (
        Part(why, "Your reply was refused:", data=True),  # the reason quotes the reply
        Part(cut(reply, 1500, "the log"), "It was:", data=True),
        Part(example, "A correct reply of this form, to another task:" if example else ""),
    )
    return Piece("Refused", parts, "the log")


def drafted(document: Document) -> bool:
    """Whether a loop uses the drafts of its run. Only child loops do, which tests the drafts."""
    return document.meta.depth > 0


def base(document: Document, catalogue: Catalogue) -> str:
    """The beginning of every prompt; without phase files, the beginning of pattern.md."""
    text = catalogue.text("phases/base.md", drafted=drafted(document))
    return text or preamble(catalogue.text("pattern.md", drafted=drafted(document)))


def form(document: Document, phase: str, catalogue: Catalogue) -> str:
    """The form of the reply in words; without phase files, derived from its schema."""
    words = catalogue.text(f"phases/{phase}.reply.md", drafted=drafted(document))
    return words or sketch(schema(phase))


def instructions(document: Document, phase: str, catalogue: Catalogue) -> str:
    """The section of CHECK in the loop's own tool, else the phase's file, else pattern.md's section."""
    tool = catalogue.tools.get(document.meta.type)
    if phase == "check" and tool and tool.guided and (own := tool.section(phase)):
        return f"# CHECK ({tool.name})\n{own}"
    text = catalogue.text(f"phases/{phase}.md", drafted=drafted(document))
    pattern = catalogue.text("pattern.md", drafted=drafted(document))
    return text or section(pattern, phase)


def work(document: Document) -> list[Piece]:
    """The sections of the document that a judge reads, in order."""
    path = f"{document.meta.id}.md"
    pieces = [Piece("Task", _task(document), path)]
    pieces += _said(document)
    pieces.append(Piece("Plan", (Part(document.text(2, "approach")),), path))
    pieces.append(Piece("Steps", tuple(_log(document)), path))
    ends = [note for note in document.section(3).notes if note.key in ("result", "stopped")]
    pieces += [_data(f"{note.key.capitalize()} (as DO says)", note.text, path) for note in ends]
    pieces += [_learned(fold, path) for fold in document.section(2).folds]
    evidence = [note for note in document.section(4).notes if note.key in RECORDED]
    pieces += [_data(f"{note.key.capitalize()} (runtime)", note.text, path) for note in evidence]
    return pieces


def _data(title: str, text: str, whole: str) -> Piece:
    """A text from another source, fenced as data."""
    return Piece(title, (Part(text, data=True),), whole)


def _line(text: str) -> str:
    """A text as part of one line."""
    return text if text.isprintable() else to_json(text)


def _task(document: Document) -> tuple[Part, ...]:
    """The task. A resolved task is shown with the original words, so that a drift stays visible.

    A subtask with inserted results is data: it contains the output of tools.
    """
    asked = document.note(1, "task") or Note("task", "")
    own = Part(asked.text, data=asked.origin.startswith("tool"))
    if asked.text == document.task:
        return (own,)
    beside = () if len(asked.text) > ASKED_CHARS else (replace(own, lead="Asked in these words:"),)
    return (Part(document.task), *beside)


def _said(document: Document) -> list[Piece]:
    """Questions, answers and guidance of a person."""
    said = [note for note in document.section(1).notes if note.key in ("question", "answer", "guidance")]
    parts = [
        Part("", f"{note.key.capitalize()}: {note.text}")
        if note.text.isprintable()
        else Part(note.text, f"{note.key.capitalize()}:", data=note.key == "question")
        for note in said
    ]
    if all(note.key == "question" for note in said):
        return []
    title = "Said by a person to the whole run" if document.meta.parent else "Asked and answered"
    return [Piece(title, tuple(parts))]


def fact_line(note: Note) -> str:
    """A fact of UNDERSTAND with its source, as prompts show it."""
    return f"- {note.text}" + (f" ({note.source})" if note.source else "")


def _learned(fold: Fold, whole: str) -> Piece:
    """What an earlier attempt learned. It is data, because it quotes tools and files."""
    lines = [
        f"{note.key}:\n{note.text}" if "\n" in note.text else f"{note.key}: {note.text}"
        for note in fold.notes
        if note.key not in (FOLDER, TRIED)
    ]
    return _data("Learned before", "\n".join(lines), whole)


def _check_chars(document: Document) -> int:
    """Characters of each result in CHECK: more than the minimum if few results share the context."""
    results = sum(step.result is not None for step in document.steps.values())
    context = int(document.meta.budget.get("context", 3000))
    return min(max(CHECK_RESULT_CHARS, 3 * context // 2 // max(results, 1)), MOST_RESULT_CHARS)


def _log(document: Document) -> list[Part]:
    """The steps with their results."""
    limit = _check_chars(document)
    parts: list[Part] = []
    for n, planned in document.planned.items():
        step = document.steps.get(n, planned)
        # the planned call, without inserted results; arguments chosen by a model are shown as data
        asked = planned.args is None and step.args is not None
        lead = f"- {n}. {planned.tool if asked else _call(planned)} → {step.state}"
        lead += f" [{step.evidence['now']}]" if "now" in step.evidence else ""  # of its state machine
        texts = [f"{to_json(redacted(_short(step.args or {}), redact))} →"] if asked else []
        whole = step.evidence.get("whole", step.link) if step.result else ""
        texts += [cut(step.result, limit, whole)] if step.result else []
        parts.append(Part("\n".join(texts), lead, data=bool(texts), whole=whole))
    return parts


def _call(step: Step) -> str:
    if step.args is None:
        return f"{step.tool or 'subtask'}: {_line(step.what)}"
    return f"{step.tool} {to_json(_short(redacted(dict(step.args), redact)))}"


def _short(args: Mapping[str, Any], limit: int = ARGUMENT_CHARS) -> dict[str, Any]:
    """The arguments with long ones cut."""
    short: dict[str, Any] = {}
    for key, value in args.items():
        text = value if isinstance(value, str) else to_json(value)
        long = len(text) > limit
        short[key] = f"{text[: limit - 40]} …[{len(text)} characters]" if long else value
    return short
