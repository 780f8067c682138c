"""What a model sees in one phase: base, this phase's instructions, the form of the reply, and the work.

Everything here is derived from the document and the instruction files alone, so that the same ask is the
same after a crash. No clock, remaining budget or other loop's state stands in a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernel.catalogue import Catalogue
from kernel.document import Document, Fold, Note, Step
from kernel.offering import FOLDER, FOR_PLAN
from kernel.phases import schema, sketch
from kernel.pieces import Count, Part, Piece, fit, joined
from kernel.screening import cut, redact_forms, redacted
from kernel.states import standing, told
from kernel.text import to_json
from kernel.tools import CHANGING, preamble, section

RECORDED = ("evidence", "changes", "diff", "look")
"""The notes of §4 that the kernel wrote before CHECK is asked."""
INDEX_TOKENS = 150
"""What PLAN's index of tools may weigh. Source: kernel.md, "Prompt"."""
DO_RESULT_CHARS = 2400
"""Of an earlier result, what DO sees at most. Source: prompts.md's harness."""
CHECK_RESULT_CHARS = 500
"""Of a result, what CHECK sees at least: at 500 nothing that mattered was lost. Source: prompts.md."""
ARGUMENT_CHARS = 160
"""Of an argument, what the log of steps shows."""
NEEDED_CHARS = 800
"""The same of a step that the one asked for needs: what was written says more than that it was."""
AROUND = 16
"""Steps before the one that is asked for (and half as many after it) that its ask shows."""
SHORT_CHARS = 200
"""A result that is this short stays in the log of DO, also when no later step needs it."""
ASKED_CHARS = 600
"""Up to this length the person's own words stand beside the resolved task."""
LEAST_TASK = 200
"""Tokens of the task that every prompt shows, also where the context has no room for them."""
_SECTIONS = {"fused": ("understand", "plan"), "atomic": ("do",)}


@dataclass(frozen=True)
class Prompt:
    """The two messages of an ask, and what each part weighs in tokens."""

    system: str
    user: str
    parts: tuple[tuple[str, int], ...]

    @property
    def instruction_tokens(self) -> int:
        """Base, phase, form of the reply and index of tools together."""
        return sum(tokens for name, tokens in self.parts if not name.startswith("work"))


def assemble(
    document: Document,
    phase: str,
    catalogue: Catalogue,
    count: Count,
    *,
    step: int = 0,
    refused: Sequence[tuple[str, str]] = (),
    may_split: bool = True,
) -> Prompt:
    """The prompt of the next ask in `phase`; `refused` holds earlier replies of the wrong form and why."""
    named = [("base", base(document, catalogue)), ("phase", instructions(document, phase, catalogue))]
    named.append(("form", f"Reply: {form(document, phase, catalogue)}"))
    if phase in ("plan", "fused", "atomic"):
        own = catalogue.tools.get(document.meta.type)
        room = INDEX_TOKENS - count("Tools:\n")
        index = catalogue.index(document.task, room, count, own if own and own.guided else None)
        named.append(("tools", f"Tools:\n{index}"))
    system = "\n\n".join(text for _, text in named)
    pieces = work(document, phase, catalogue, step=step, may_split=may_split)
    pieces += [_refused(reply, why) for reply, why in refused]
    pieces = fit(pieces, int(document.meta.budget.get("context", 3000)), count)
    parts = [(name, count(text)) for name, text in named]
    parts += [(f"work: {piece.title or 'document'}", count(piece.render())) for piece in pieces]
    return Prompt(system, joined(pieces), tuple(parts))


def _refused(reply: str, why: str) -> Piece:
    parts = (
        Part(why, "Your reply was refused:", data=True, first=True),  # the reason quotes the reply
        Part(cut(reply, 1500, "the log"), "It was:", data=True),
    )
    return Piece("Refused", parts, "the log", fixed=True)


def drafted(document: Document) -> bool:
    """Whether a loop works by the drafts of its run: those below the top do, by which drafts are tried."""
    return document.meta.depth > 0


def base(document: Document, catalogue: Catalogue) -> str:
    """What every prompt begins with; before there are phase files, what pattern.md begins with."""
    text = catalogue.text("phases/base.md", drafted=drafted(document))
    return text or preamble(catalogue.text("pattern.md", drafted=drafted(document)))


def form(document: Document, phase: str, catalogue: Catalogue) -> str:
    """The form of the reply in words; before there are phase files, as its type has it."""
    words = catalogue.text(f"phases/{phase}.reply.md", drafted=drafted(document))
    return words or sketch(schema(phase))


def instructions(document: Document, phase: str, catalogue: Catalogue) -> str:
    """The phase's file; in a tool's loop the section of that name in its pattern; else pattern.md's."""
    tool = catalogue.tools.get(document.meta.type)
    if tool and tool.guided and phase in ("understand", "plan", "do", "check"):
        own = tool.section(phase)
        if own:
            return f"# {phase.upper()} ({tool.name})\n{own}"
    text = catalogue.text(f"phases/{phase}.md", drafted=drafted(document))
    pattern = catalogue.text("pattern.md", drafted=drafted(document))
    return text or "\n".join(section(pattern, name) for name in _SECTIONS.get(phase, (phase,)))


def work(
    document: Document, phase: str, catalogue: Catalogue, *, step: int = 0, may_split: bool = True
) -> list[Piece]:
    """The sections of the document that a phase reads, most important first."""
    path = f"{document.meta.id}.md"
    resolved = phase not in ("understand", "fused", "atomic")
    pieces = [Piece("Task", _task(document, resolved), path, fixed=True, least=LEAST_TASK)]
    pieces += _said(document)
    if phase in ("understand", "fused", "plan", "atomic"):
        pieces += _contexts(document, phase)
        pieces += [
            _learned(fold, f"Attempt {fold.attempt} ({fold.decision})") for fold in document.section(2).folds
        ]
        pieces += _guide(document, catalogue)
    if phase in ("plan", "fused"):
        if document.meta.base:
            told = "Number your steps from 1. A result of an attempt before: {{ earlier[N].result }}."
            pieces.append(_told(told))
        pieces += _machines(document, catalogue)
        if not may_split:
            pieces.append(_told("The limit of depth is reached: no subtasks."))
    if phase in ("do", "check"):
        pieces.append(Piece("Plan", (Part(document.text(2, "approach")),), path))
        limit = DO_RESULT_CHARS if phase == "do" else _check_chars(document)
        pieces.append(Piece("Steps", tuple(_log(document, limit, step)), path))
    if phase == "do":
        tool = catalogue.tools.get(document.planned[step].tool)
        pieces.append(_told(f"Tool: {_line(tool.line)}" if tool else ""))
        if tool and CHANGING & set(tool.effects):  # what it makes is what success looks at
            pieces.append(Piece("Success", (Part(document.text(2, "success criteria")),), path))
            pieces += _guide(document, catalogue)
    if phase == "check":
        pieces += [_learned(fold, "Learned before", path) for fold in document.section(2).folds]
        evidence = [note for note in document.section(4).notes if note.key in RECORDED]
        pieces += [_data(f"{note.key.capitalize()} (runtime)", note.text, path) for note in evidence]
    return [piece for piece in pieces if piece.render()]


def _told(text: str) -> Piece:
    """A sentence of the kernel."""
    return Piece("", (Part(text),), fixed=True)


def _data(title: str, text: str, whole: str = "", head: float = 1 / 3) -> Piece:
    """A text from elsewhere."""
    return Piece(title, (Part(text, data=True),), whole, head=head)


def _line(text: str) -> str:
    """A text that stays on the line of ours that it stands in."""
    return text if text.isprintable() else to_json(text)


def _task(document: Document, resolved: bool) -> tuple[Part, ...]:
    """The task. Once it is resolved the person's own words stand beside it: a drift stays visible.

    A subtask into which results were put is data: it holds what a tool said.
    """
    asked = document.note(1, "task") or Note("task", "")
    own = Part(asked.text, data=asked.origin.startswith("tool"))
    if not resolved or asked.text == document.task:
        return (own,)
    beside = () if len(asked.text) > ASKED_CHARS else (replace(own, lead="Asked in these words:"),)
    return (Part(document.task), *beside)


def _said(document: Document) -> list[Piece]:
    """Questions and their answers, and what a person said of an earlier try."""
    said = [note for note in document.section(1).notes if note.key in ("question", "answer", "guidance")]
    parts = [
        Part("", f"{note.key.capitalize()}: {note.text}")
        if note.text.isprintable()
        else Part(note.text, f"{note.key.capitalize()}:", data=note.key == "question")
        for note in said
    ]
    return [Piece("Asked and answered", tuple(parts), fixed=True)] if len(parts) > 1 else []


def _contexts(document: Document, phase: str) -> list[Piece]:
    """What was offered; once UNDERSTAND has chosen, PLAN sees the chosen facts, and how to go about it.

    After an attempt the files of the folder are those that are there now.
    """
    facts = [note for note in document.section(1).notes if note.key == "fact"]
    now = [note for fold in document.section(2).folds for note in fold.notes if note.key == FOLDER]
    offered = [
        replace(note, text=now[-1].text) if now and note.source == FOLDER else note
        for note in document.section(1).notes
        if note.key == "context"
    ]
    if phase == "plan" and facts:
        lines = [f"- {note.text}" + (f" ({note.source})" if note.source else "") for note in facts]
        kept = (*FOR_PLAN, FOLDER) if now else FOR_PLAN
        offered = [note for note in offered if note.source in kept]
        return [_data("Context", "\n".join(lines)), *map(_context, offered)]
    return list(map(_context, offered))


def _context(note: Note) -> Piece:
    return _data(f"Context from {note.source}" if note.source else "Context", note.text, note.source)


def _machines(document: Document, catalogue: Catalogue) -> list[Piece]:
    """Where the state machines stand that earlier attempts have used: the next one goes on from there."""
    used = (catalogue.tools.get(name) for name in dict.fromkeys(s.tool for s in document.steps.values()))
    standings = [
        (tool.name, tool.states, standing(tool.states, tool.name, document.steps.values()))
        for tool in used
        if tool and tool.states
    ]
    return [_told(f"{name} is in the {told(each, now)}.") for name, each, now in standings]


def _learned(fold: Fold, title: str, whole: str = "") -> Piece:
    """What an earlier attempt learned. It quotes what tools and files said, so it is data."""
    lines = [
        f"{note.key}:\n{note.text}" if "\n" in note.text else f"{note.key}: {note.text}"
        for note in fold.notes
        if note.key != FOLDER
    ]
    return _data(title, "\n".join(lines), whole)


def _guide(document: Document, catalogue: Catalogue) -> list[Piece]:
    """A tool's text beside its phase sections, and the body of a SKILL.md, are work context."""
    tool = catalogue.tools.get(document.meta.type)
    if not tool or not tool.guided:
        return []
    if not tool.skill:
        where = f"tools/{tool.path.parent.name}/{tool.path.name}"
        return [Piece(f"About {tool.name}", (Part(tool.preface),), where)]
    text = _data(f"Guidance from the skill {tool.name}", tool.preface, str(tool.path.absolute()), head=0.7)
    return [Piece("", (Part(tool.beside),)), text]


def _check_chars(document: Document) -> int:
    """Of each result, what CHECK sees: more than the least where few results share the context."""
    results = sum(step.result is not None for step in document.steps.values())
    context = int(document.meta.budget.get("context", 3000))
    return min(max(CHECK_RESULT_CHARS, 3 * context // 2 // max(results, 1)), DO_RESULT_CHARS)


def _log(document: Document, limit: int, now: int) -> list[Part]:
    """The steps with their results: all in CHECK; in DO what certainly came before the step asked for.

    A sibling's state would make the prompt depend on timing, and all steps with all results would make the
    prompts of a job that is asked step by step grow with the square of its steps.
    """
    shown = _near(document, now) if now else list(document.planned)
    before = _before(document, now, min(shown)) if now else set(shown)
    parts: list[Part] = []
    last = 0
    for n in shown:
        if last and n > last + 1:
            parts.append(Part("", "- …"))
        last, planned = n, document.planned[n]
        step = document.steps.get(n, planned) if n in before else planned
        if n == now:
            parts.append(Part("", f"- NOW {n}. {planned.tool}: {_line(planned.what)}", first=True))
            continue
        needed = n in document.planned[now].needs if now else False
        near = needed or not now
        chars = NEEDED_CHARS if needed else ARGUMENT_CHARS
        shows = bool(step.result) and (near or len(step.result or "") <= SHORT_CHARS)
        # the call as planned, not what results have put into it; one that was asked for beside its result
        asked = planned.args is None and step.args is not None and (shows or near)
        lead = f"- {n}. {planned.tool if asked else _call(planned, chars)}"
        lead += f" → {step.state}" if n in before else ""
        lead += f" [{step.evidence['now']}]" if "now" in step.evidence else ""  # of its state machine
        told: list[str] = []
        if asked:  # a model has filled it in with what it had seen
            told.append(f"{to_json(redacted(_short(step.args or {}, chars), redact_forms))} →")
        whole = ""
        if shows:
            whole = step.evidence.get("whole", step.link)
            told.append(cut(step.result or "", limit, whole))
        parts.append(Part("\n".join(told), lead, data=bool(told), whole=whole))
    if shown and (left := len(document.planned) - len(shown)):
        parts.append(Part(f"({left} steps of the plan are not shown)"))
    return parts


def _near(document: Document, now: int) -> list[int]:
    """The steps of a plan that a step's ask shows: those around it and those that it needs."""
    planned = document.planned
    around = (n for n in range(now - AROUND, now + AROUND // 2) if n in planned)
    return sorted({*around, *(need for need in planned[now].needs if need in planned), now})


def _before(document: Document, now: int, lowest: int) -> set[int]:
    """The steps from `lowest` on that this one needs, directly or not: all ended before it is asked for."""
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
    return f"{step.tool} {to_json(_short(step.args, limit))}"


def _short(args: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The arguments, each of the long ones cut."""
    short: dict[str, Any] = {}
    for key, value in args.items():
        text = value if isinstance(value, str) else to_json(value)
        long = len(text) > limit
        short[key] = f"{text[: limit - 40]} …[{len(text)} characters]" if long else value
    return short
