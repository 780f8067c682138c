"""What a model sees in one phase: base, this phase's instructions, the form of the reply, and the work.

Everything here is derived from the document and the instruction files alone, so that the same ask is the
same after a crash. No clock, remaining budget or other loop's state stands in a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernel.catalogue import Catalogue
from kernel.document import Document, Fold, Note, Step
from kernel.evidence import cut
from kernel.offering import FOR_PLAN
from kernel.phases import schema, sketch
from kernel.states import standing, told
from kernel.text import to_json
from kernel.tools import preamble, section

RECORDED = ("evidence", "changes", "diff", "look")
"""The notes of §4 that the kernel wrote before CHECK is asked."""
THEN = ("steps then", "passed then", "files then", "undone then")
"""The notes of an earlier attempt that tell what tools and files said."""
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

_SECTIONS = {"fused": ("understand", "plan"), "atomic": ("do",)}

Count = Callable[[str], int]


@dataclass(frozen=True)
class Piece:
    """A part of the work: its heading, its text, where the whole can be read, and whether it may be cut."""

    title: str
    text: str
    whole: str = ""
    fixed: bool = False
    head: float = 1 / 3  # of what is left of a cut text, what its beginning gets

    def render(self) -> str:
        """The piece as it stands in the prompt."""
        return f"## {self.title}\n{self.text}" if self.title else self.text


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
    pieces = fit(pieces, int(document.meta.budget.get("context", 3000)), count)
    user = "\n\n".join(piece.render() for piece in pieces)
    for reply, why in refused:
        user += (
            f"\n\n## Refused\nThis reply of yours was refused: {why}\n{_fence(cut(reply, 1500, 'the log'))}"
        )
    parts = [(name, count(text)) for name, text in named]
    parts += [(f"work: {piece.title or 'document'}", count(piece.render())) for piece in pieces]
    if refused:
        parts.append(("work: Refused", sum(count(reply[:1500] + why) for reply, why in refused)))
    return Prompt(system, user, tuple(parts))


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
    if phase in ("understand", "fused", "atomic"):
        pieces = [Piece("Task", document.text(1, "task"), path, fixed=True)]
        pieces += _said(document)
    else:
        pieces = [Piece("Task", _task(document), path, fixed=True)]
    if phase in ("plan", "do") or (phase == "fused" and document.meta.attempt > 1):
        pieces += _said(document)
    if phase in ("understand", "fused", "plan", "atomic"):
        pieces += _contexts(document, phase)
        pieces += [_learned(fold) for fold in document.section(2).folds]
        pieces += _guide(document, catalogue)
    if phase in ("plan", "fused"):
        if document.meta.base:
            pieces.append(Piece("", f"Your steps are numbered from {document.meta.base + 1}.", fixed=True))
        pieces += _machines(document, catalogue)
        if not may_split:
            pieces.append(Piece("", "The limit of depth is reached: no subtasks.", fixed=True))
    if phase in ("do", "check"):
        pieces.append(Piece("Plan", document.text(2, "approach"), path))
        limit = DO_RESULT_CHARS if phase == "do" else _check_chars(document)
        pieces.append(Piece("Steps", _log(document, limit, step), path))
    if phase == "do":
        tool = catalogue.tools.get(document.planned[step].tool)
        pieces.append(Piece("", f"Tool: {tool.line}" if tool else "", fixed=True))
        if tool and {"write", "shell"} & set(tool.effects):  # what it makes is what success looks at
            pieces.append(Piece("Success", document.text(2, "success criteria"), path))
            pieces += _guide(document, catalogue)
    if phase == "check":
        pieces += [Piece("Learned before", _learned(fold).text, path) for fold in document.section(2).folds]
        evidence = [note for note in document.section(4).notes if note.key in RECORDED]
        pieces += [Piece(f"{note.key.capitalize()} (runtime)", _fence(note.text), path) for note in evidence]
    return [piece for piece in pieces if piece.text]


def _task(document: Document) -> str:
    """The resolved task, with the person's own words beside it: a drift in UNDERSTAND stays visible."""
    asked = document.text(1, "task")
    same = asked == document.task or len(asked) > ASKED_CHARS
    return document.task if same else f"{document.task}\n(asked: {asked})"


def _said(document: Document) -> list[Piece]:
    """Questions and their answers, and what a person said of an earlier try."""
    lines = [
        f"{note.key.capitalize()}: {note.text}"
        for note in document.section(1).notes
        if note.key in ("question", "answer", "guidance")
    ]
    return [Piece("Asked and answered", "\n".join(lines), fixed=True)] if len(lines) > 1 else []


def _contexts(document: Document, phase: str) -> list[Piece]:
    """What was offered; once UNDERSTAND has chosen, PLAN sees the chosen facts, and how to go about it."""
    facts = [note for note in document.section(1).notes if note.key == "fact"]
    offered = [note for note in document.section(1).notes if note.key == "context"]
    if phase == "plan" and facts:
        lines = [f"- {note.text}" + (f" ({note.source})" if note.source else "") for note in facts]
        offered = [note for note in offered if note.source in FOR_PLAN]
        return [Piece("Context", "\n".join(lines)), *map(_context, offered)]
    return [*map(_context, offered)]


def _context(note: Note) -> Piece:
    title = f"Context from {note.source}" if note.source else "Context"
    return Piece(title, _fence(note.text), note.source)


def _machines(document: Document, catalogue: Catalogue) -> list[Piece]:
    """Where the state machines stand that earlier attempts have used: the next one goes on from there."""
    used = (catalogue.tools.get(name) for name in dict.fromkeys(s.tool for s in document.steps.values()))
    standings = [
        (tool.name, tool.states, standing(tool.states, tool.name, document.steps.values()))
        for tool in used
        if tool and tool.states
    ]
    return [Piece("", f"{name} is in the {told(each, now)}.", fixed=True) for name, each, now in standings]


def _learned(fold: Fold) -> Piece:
    lines = [
        f"{note.key}:\n{_fence(note.text)}" if note.key in THEN else f"{note.key}: {note.text}"
        for note in fold.notes
    ]
    return Piece(f"Attempt {fold.attempt} ({fold.decision})", "\n".join(lines))


def _guide(document: Document, catalogue: Catalogue) -> list[Piece]:
    """A tool's text beside its phase sections, and the body of a SKILL.md, are work context."""
    tool = catalogue.tools.get(document.meta.type)
    if not tool or not tool.guided:
        return []
    if not tool.skill:
        return [Piece(f"About {tool.name}", tool.preface, f"tools/{tool.path.parent.name}/{tool.path.name}")]
    text = Piece(
        f"Guidance from the skill {tool.name}", _fence(tool.preface), str(tool.path.absolute()), head=0.7
    )
    return [Piece("", tool.beside), text]


def _check_chars(document: Document) -> int:
    """Of each result, what CHECK sees: more than the least where few results share the context."""
    results = sum(step.result is not None for step in document.steps.values())
    context = int(document.meta.budget.get("context", 3000))
    return min(max(CHECK_RESULT_CHARS, 3 * context // 2 // max(results, 1)), DO_RESULT_CHARS)


def _log(document: Document, limit: int, now: int) -> str:
    """The steps with their results: all in CHECK; in DO what certainly came before the step asked for.

    A sibling's state would make the prompt depend on timing, and all steps with all results would make the
    prompts of a job that is asked step by step grow with the square of its steps.
    """
    shown = _near(document, now) if now else list(document.planned)
    before = _before(document, now, min(shown)) if now else set(shown)
    lines: list[str] = []
    last = 0
    for n in shown:
        if last and n > last + 1:
            lines.append("- …")
        last, planned = n, document.planned[n]
        step = document.steps.get(n, planned) if n in before else planned
        if n == now:
            lines.append(f"- NOW {n}. {planned.tool}: {planned.what}")
            continue
        called = step if planned.args is None else planned  # not what results have put into it
        needed = n in document.planned[now].needs if now else False
        near = needed or not now
        call = _call(called, NEEDED_CHARS if needed else ARGUMENT_CHARS)
        lines.append(f"- {n}. {call}" + (f" → {step.state}" if n in before else ""))
        if step.result and (near or len(step.result) <= SHORT_CHARS):
            lines.append(_fence(cut(step.result, limit, step.evidence.get("whole", step.link))))
    if shown and (left := len(document.planned) - len(shown)):
        lines.append(f"({left} steps of the plan are not shown)")
    return "\n".join(lines)


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
        return f"{step.tool or 'subtask'}: {step.what}"
    short: dict[str, Any] = {}
    for key, value in step.args.items():
        text = value if isinstance(value, str) else to_json(value)
        long = len(text) > limit
        short[key] = f"{text[: limit - 40]} …[{len(text)} characters]" if long else value
    return f"{step.tool} {to_json(short)}"


def _fence(text: str) -> str:
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}\n{text}\n{ticks}"


def fit(pieces: Sequence[Piece], limit: int, count: Count) -> list[Piece]:
    """Cut pieces so that together they weigh at most `limit` tokens: visibly, the longest first."""
    weights = [count(piece.render()) for piece in pieces]
    if sum(weights) <= limit:
        return list(pieces)
    fixed = sum(weight for piece, weight in zip(pieces, weights, strict=True) if piece.fixed)
    loose = [weight for piece, weight in zip(pieces, weights, strict=True) if not piece.fixed]
    room = max(limit - min(fixed, limit // 2), 0)
    level = _level(loose, room)
    fixed_level = limit // 2 if fixed > limit // 2 else fixed
    return [
        _shorten(piece, weight, fixed_level if piece.fixed else level)
        for piece, weight in zip(pieces, weights, strict=True)
    ]


def _level(weights: Sequence[int], room: int) -> int:
    """The highest level at which the weights, each cut to it, fit into the room."""
    low, high = 0, max(weights, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(weight, middle) for weight in weights) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _shorten(piece: Piece, weight: int, tokens: int) -> Piece:
    if weight <= tokens:
        return piece
    mark = 25  # tokens that the mark and the heading weigh
    chars = max(int(len(piece.text) * max(tokens - mark, 0) / max(weight, 1)), 0)
    return replace(piece, text=cut(piece.text, chars, piece.whole or "the document", head=piece.head))
