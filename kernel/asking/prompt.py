"""Assembles the prompt of one phase: base, the phase's instructions, the form of the reply, and the work.

A prompt is derived from the document and the instruction files alone, so that it is the same after a crash.
It contains no time, remaining budget or state of other loops.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
_BREAK = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_UNRULY = re.compile(rf"(?:^|[{_BREAK}])[^\S{_BREAK}]*(?:#|```|~~~|<[!?/A-Za-z])")
"""Text that looks like a heading, a fence, or HTML that could hide what follows."""

Count = Callable[[str], int]


@dataclass(frozen=True)
class Part:
    """A text with an optional line above it.

    Data is fenced, and so is any text that looks like a heading or a fence. Nothing inside ends the fence.
    """

    text: str
    lead: str = ""
    data: bool = False
    whole: str = ""  # where the text can be read in full
    first: bool = False  # kept in preference to the other parts of its piece

    def render(self) -> str:
        """The part as text of the prompt."""
        body = fenced(self.text) if self.text and (self.data or _UNRULY.search(self.text)) else self.text
        return "\n".join(each for each in (self.lead, body) if each)


@dataclass(frozen=True)
class Piece:
    """A titled part of the work context."""

    title: str
    parts: tuple[Part, ...]
    whole: str = ""  # where the whole can be read
    fixed: bool = False  # cut last
    least: int = 0  # minimum tokens after cutting
    head: float = 1 / 3  # the share of the beginning in a cut piece; the end gets the rest

    def render(self) -> str:
        """The piece as text of the prompt; "" if it has no text."""
        body = "\n".join(filter(None, (part.render() for part in self.parts)))
        return f"{self._heading}{body}" if body else ""

    @property
    def _heading(self) -> str:
        return f"## {' '.join(self.title.split())}\n" if self.title else ""

    def within(self, chars: int) -> Piece:
        """The piece cut to about `chars` characters: texts are shortened, middle parts are omitted."""
        mark = f"[… {len(self.parts)} parts cut; whole in {self.whole or 'the document'} …]\n"
        room = chars - len(self._heading)
        kept = self._kept(room)
        if len(kept) < len(self.parts):
            kept = self._kept(room - 2 * len(mark))
        texts = [len(self.parts[at].text) for at in kept]
        around = sum(len(self.parts[at].render()) + 1 for at in kept) - sum(texts)
        gaps = 2 * len(mark) if len(kept) < len(self.parts) else 0
        level = cap(texts, room - gaps - around)
        parts: list[Part] = []
        last = -1
        for at in [*kept, len(self.parts)] if kept else []:
            if left_out := at - last - 1:
                what = f"{left_out} part{'s' if left_out > 1 else ''} cut"
                parts.append(Part(f"[… {what}; whole in {self.whole or 'the document'} …]"))
            if at < len(self.parts):
                part = self.parts[at]
                where = part.whole or self.whole or "the document"
                parts.append(replace(part, text=cut(part.text, level, where, head=self.head)))
            last = at
        return replace(self, parts=tuple(parts))

    def _kept(self, room: int) -> list[int]:
        """The indices of the parts that fit into `room` characters: `first` ones, then from both ends."""
        order = [at for at, part in enumerate(self.parts) if part.first]
        low, high = 0, len(self.parts) - 1
        for turn in range(len(self.parts)):
            at_head = int((turn + 1) * self.head) > int(turn * self.head)
            order.append(low if at_head else high)
            low, high = (low + 1, high) if at_head else (low, high - 1)
        kept: set[int] = set()
        for at in dict.fromkeys(order):
            part = self.parts[at]
            room -= len(part.render()) + 1 - max(len(part.text) - LEAST_CHARS, 0)
            if room < 0:
                break
            kept.add(at)
        return sorted(kept)


def fit(pieces: Sequence[Piece], limit: int, count: Count) -> list[Piece]:
    """Cut pieces to at most `limit` tokens together, the longest first; each cut is marked.

    Fixed pieces get half of the limit, or what the others leave. The `least` tokens of a piece are kept even
    if they exceed the limit.
    """
    fitted, room = list(pieces), limit
    while (over := count(joined(fitted)) - limit) > 0 and room > 0:
        fitted = _cut_to(pieces, room, count)
        room -= max(count(joined(fitted)) - limit, 1)
    return fitted if over <= 0 else _cut_to(pieces, 0, count)


def joined(pieces: Sequence[Piece]) -> str:
    """The text of the pieces, separated by blank lines."""
    return "\n\n".join(piece.render() for piece in pieces)


def _cut_to(pieces: Sequence[Piece], room: int, count: Count) -> list[Piece]:
    weights = [count(f"{piece.render()}\n\n") for piece in pieces]
    kept = [min(piece.least, weight) for piece, weight in zip(pieces, weights, strict=True)]
    weighed = [(piece, weight - least) for piece, weight, least in zip(pieces, weights, kept, strict=True)]
    room -= sum(kept)
    fixed = [weight for piece, weight in weighed if piece.fixed]
    loose = [weight for piece, weight in weighed if not piece.fixed]
    fixed_level = cap(fixed, max(room // 2, room - sum(loose)))
    level = cap(loose, room - sum(min(weight, fixed_level) for weight in fixed))
    cut_ = [
        _shorten(piece, weight, least + (fixed_level if piece.fixed else level), count)
        for piece, weight, least in zip(pieces, weights, kept, strict=True)
    ]
    return [piece for piece in cut_ if piece.render()]


def cap(weights: Sequence[int], room: int) -> int:
    """The highest cap such that the capped weights fit into the room."""
    levels = range(1, max(weights, default=0) + 1)
    return bisect_right(levels, room, key=lambda level: sum(min(weight, level) for weight in weights))


def _shorten(piece: Piece, weight: int, tokens: int, count: Count) -> Piece:
    """The piece cut to at most `tokens`."""
    shorter, chars = piece, len(piece.render())
    while weight > tokens and chars > 0:
        chars = min(chars * tokens // weight, chars - 1)
        shorter = piece.within(chars)
        weight = count(f"{shorter.render()}\n\n") if shorter.parts else 0
    return shorter


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
DO_RESULT_CHARS = 2400
"""Maximum characters of an earlier result in DO. Source: prompts.md's harness."""
CHECK_RESULT_CHARS = 500
"""Minimum characters of a result in CHECK: 500 lost nothing relevant. Source: prompts.md."""
ARGUMENT_CHARS = 160
"""Maximum characters of an argument in the log of steps."""
NEEDED_CHARS = 800
"""The same for a step that the current one needs."""
AROUND = 16
"""Steps shown before the current one in DO; half as many are shown after it."""
FAR_CHARS = 600
"""Maximum characters of a result that DO shows of a step that the current one needs by others only."""
ASKED_CHARS = 600
"""Maximum characters of the original task that is shown beside the resolved one."""
LEAST_TASK = 200
"""Minimum tokens of the task in every prompt."""


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
    document: Document,
    phase: str,
    catalogue: Catalogue,
    count: Count,
    *,
    step: int = 0,
    refused: Sequence[tuple[str, str]] = (),
) -> Prompt:
    """The prompt of a described step (`do`) or a judge (`check`).

    `refused` contains earlier invalid replies with the reasons.
    """
    context = int(document.meta.budget.get("context", CONTEXT))
    named = [("base", base(document, catalogue)), ("phase", instructions(document, phase, catalogue))]
    named.append(("form", f"{FORM}{form(document, phase, catalogue)}"))
    system = "\n\n".join(text for _, text in named)
    pieces = work(document, phase, catalogue, step=step)
    example = catalogue.text(f"phases/{phase}.example.md", drafted=drafted(document)) if refused else ""
    pieces += [_refused(reply, why, example) for reply, why in refused]
    pieces = fit(pieces, context, count)
    parts = [(name, count(text)) for name, text in named]
    parts += [(f"work: {piece.title or 'document'}", count(piece.render())) for piece in pieces]
    return Prompt(system, joined(pieces), tuple(parts))


def _refused(reply: str, why: str, example: str) -> Piece:
    parts = (
        Part(why, "Your reply was refused:", data=True, first=True),  # the reason quotes the reply
        Part(cut(reply, 1500, "the log"), "It was:", data=True),
        Part(example, "A correct reply of this form, to another task:" if example else ""),
    )
    return Piece("Refused", parts, "the log", fixed=True)


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
    """The section of the phase in the loop's own tool, else the phase's file, else pattern.md's section."""
    tool = catalogue.tools.get(document.meta.type)
    if tool and tool.guided and phase in ("do", "check"):
        own = tool.section(phase)
        if own:
            return f"# {phase.upper()} ({tool.name})\n{own}"
    text = catalogue.text(f"phases/{phase}.md", drafted=drafted(document))
    pattern = catalogue.text("pattern.md", drafted=drafted(document))
    return text or section(pattern, phase)


def work(document: Document, phase: str, catalogue: Catalogue, *, step: int = 0) -> list[Piece]:
    """The sections of the document that a described step (`do`) or a judge (`check`) reads, in order."""
    path = f"{document.meta.id}.md"
    pieces = [Piece("Task", _task(document), path, fixed=True, least=LEAST_TASK)]
    pieces += _said(document)
    pieces.append(Piece("Plan", (Part(document.text(2, "approach")),), path))
    limit = DO_RESULT_CHARS if phase == "do" else _check_chars(document)
    pieces.append(Piece("Steps", tuple(_log(document, limit, step)), path))
    ends = [note for note in document.section(3).notes if note.key in ("result", "stopped")]
    pieces += [_data(f"{note.key.capitalize()} (as DO says)", note.text, path) for note in ends]
    if phase == "check":
        pieces += [_learned(fold, "Learned before", path) for fold in document.section(2).folds]
        evidence = [note for note in document.section(4).notes if note.key in RECORDED]
        pieces += [_data(f"{note.key.capitalize()} (runtime)", note.text, path) for note in evidence]
        return [piece for piece in pieces if piece.render()]
    pieces += _contexts(document)
    tool = catalogue.tools.get(document.planned[step].tool)
    if tool:
        pieces += [_sentence(f"Tool: {_line(tool.line)}"), Piece("", (Part(tool.body.strip()),))]
    if tool and tool.changes(document.planned[step].args):  # its output has to meet the success criteria
        pieces.append(Piece("Success", (Part(document.text(2, "success criteria")),), path))
        pieces += _guide(document, catalogue)
    return [piece for piece in pieces if piece.render()]


def _sentence(text: str) -> Piece:
    """A sentence written by the kernel."""
    return Piece("", (Part(text),), fixed=True)


def _data(title: str, text: str, whole: str = "", head: float = 1 / 3) -> Piece:
    """A text from another source, fenced as data."""
    return Piece(title, (Part(text, data=True),), whole, head=head)


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
    return [Piece(title, tuple(parts), fixed=True)]


def _contexts(document: Document) -> list[Piece]:
    """The facts, and what was given: what a run finds by itself would be most of the prompt for one call."""
    offered = [note for note in document.section(1).notes if note.key in ("context", BACKGROUND)]
    return [*_facts(document), *(_context(note) for note in offered if not found_by_itself(note.source))]


def fact_line(note: Note) -> str:
    """A fact of UNDERSTAND with its source, as prompts show it."""
    return f"- {note.text}" + (f" ({note.source})" if note.source else "")


def _facts(document: Document) -> list[Piece]:
    """The facts that UNDERSTAND chose, if there are any."""
    lines = [fact_line(note) for note in document.section(1).notes if note.key == "fact"]
    return [_data("Context", "\n".join(lines))] if lines else []


def _context(note: Note) -> Piece:
    title = f"Context from {note.source}" if note.source else "Context"
    return _data(f"{title} (names, bytes)" if note.source == FOLDER else title, note.text, note.source)


def _learned(fold: Fold, title: str, whole: str = "") -> Piece:
    """What an earlier attempt learned. It is data, because it quotes tools and files."""
    lines = [
        f"{note.key}:\n{note.text}" if "\n" in note.text else f"{note.key}: {note.text}"
        for note in fold.notes
        if note.key not in (FOLDER, TRIED)
    ]
    return _data(title, "\n".join(lines), whole)


def _guide(document: Document, catalogue: Catalogue) -> list[Piece]:
    """The text of the loop's own tool outside of its phase sections, or the body of its SKILL.md."""
    tool = catalogue.tools.get(document.meta.type)
    if not tool or not tool.guided:
        return []
    if not tool.skill:
        where = f"tools/{tool.path.parent.name}/{tool.path.name}"
        return [Piece(f"About {tool.name}", (Part(tool.preface),), where)]
    text = _data(f"Guidance from the skill {tool.name}", tool.preface, str(tool.path.absolute()), head=0.7)
    return [Piece("", (Part(tool.resources()),)), text]


def _check_chars(document: Document) -> int:
    """Characters of each result in CHECK: more than the minimum if few results share the context."""
    results = sum(step.result is not None for step in document.steps.values())
    context = int(document.meta.budget.get("context", 3000))
    return min(max(CHECK_RESULT_CHARS, 3 * context // 2 // max(results, 1)), DO_RESULT_CHARS)


def _log(document: Document, limit: int, now: int) -> list[Part]:
    """The steps with their results: all in CHECK; in DO those that the current step builds on.

    The state of a parallel step would make the prompt depend on timing. All steps with all results would make
    the total size of the prompts quadratic in the number of steps.
    """
    shown = _near(document, now) if now else list(document.planned)
    ended = before(document, now, min(shown)) if now else set(shown)
    parts: list[Part] = []
    last = 0
    for n in shown:
        if last and n > last + 1:
            parts.append(Part("", "- …"))
        last, planned = n, document.planned[n]
        step = document.steps.get(n, planned) if n in ended else planned
        if n == now:
            parts.append(Part("", f"- NOW {n}. {planned.tool}: {_line(planned.what)}", first=True))
            continue
        needed = n in document.planned[now].needs if now else False
        near = needed or not now
        chars = NEEDED_CHARS if needed else ARGUMENT_CHARS
        shows = n in ended and bool(step.result)
        # the planned call, without inserted results; arguments chosen by a model are shown as data
        asked = planned.args is None and step.args is not None and (shows or near)
        lead = f"- {n}. {planned.tool if asked else _call(planned, chars)}"
        lead += f" → {step.state}" if n in ended else ""
        lead += f" [{step.evidence['now']}]" if "now" in step.evidence else ""  # of its state machine
        shown_texts: list[str] = []
        if asked:
            shown_texts.append(f"{to_json(redacted(_short(step.args or {}, chars), redact))} →")
        whole = ""
        if shows:
            whole = step.evidence.get("whole", step.link)
            shown_texts.append(cut(step.result or "", limit if near else FAR_CHARS, whole))
        parts.append(Part("\n".join(shown_texts), lead, data=bool(shown_texts), whole=whole))
    if shown and (left := len(document.planned) - len(shown)):
        parts.append(Part(f"({left} steps of the plan are not shown)"))
    return parts


def _near(document: Document, now: int) -> list[int]:
    """The steps shown in the ask of step `now`: those around it and those that it needs."""
    planned = document.planned
    around = (n for n in range(now - AROUND, now + AROUND // 2) if n in planned)
    return sorted({*around, *(need for need in planned[now].needs if need in planned), now})


def before(document: Document, now: int, lowest: int = 1) -> set[int]:
    """The steps from `lowest` on that step `now` depends on, directly or not. All of them have ended."""
    found: set[int] = set()
    new = {now}
    while new:
        needs = {need for n in new if n in document.planned for need in document.planned[n].needs}
        new = {need for need in needs - found if need >= lowest}
        found |= new
    return found


def _call(step: Step, limit: int) -> str:
    if step.args is None:
        return f"{step.tool or 'subtask'}: {_line(step.what)}"
    return f"{step.tool} {to_json(_short(redacted(dict(step.args), redact), limit))}"


def _short(args: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The arguments with long ones cut."""
    short: dict[str, Any] = {}
    for key, value in args.items():
        text = value if isinstance(value, str) else to_json(value)
        long = len(text) > limit
        short[key] = f"{text[: limit - 40]} …[{len(text)} characters]" if long else value
    return short
