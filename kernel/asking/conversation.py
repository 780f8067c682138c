"""Renders a document as the conversation of its turns, in the form of OpenAI's chat messages.

The conversation only grows: the same document gives the same bytes, and a turn more gives the same messages
and further ones, so that a provider's cache of the beginning holds. Only when most of the window is used are
the oldest results folded to a line each.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from kernel.asking import native
from kernel.asking.messages import fenced, tokens_of
from kernel.asking.prompt import (
    FOLDER,
    FORM,
    GUIDANCE,
    NOT_YET,
    TRIED,
    Prompt,
    base,
    cap,
    form,
    instructions,
)
from kernel.asking.responder import DO
from kernel.asking.turn import ASK, CANNOT, DONE, OTHER_NAMES, PLAN, SUBTASK, TURN, USE
from kernel.document.escaping import to_json
from kernel.document.model import Document, Note, Step
from kernel.document.redaction import redact, redacted
from kernel.document.texts import cut
from kernel.tools.operations import bytes_hash
from kernel.tools.state_machine import description, machine_state
from kernel.tools.tool import Catalogue, Tool

HANDS: Mapping[str, tuple[str, ...]] = {
    "read": ("path", "lines"),
    "bash": ("command",),
    "edit": ("path", "old", "new", "lines"),
    "write": ("path", "content"),
    "grep": ("pattern", "path"),
    "recall": ("query",),
}
"""The tools that are declared, with the arguments that are. All else is reached by `use`."""
_LINES = {
    "read": "text of a file, at most {} characters; lines such as 30-120",
    "edit": "put `new` in place of the one `old`, or of `lines` such as 30-42, as read shows them",
    "write": "make or replace a file",
}
"""What the declared tools are said to do, where that is not their own line."""
LARGEST_RESULT, SMALLEST_RESULT = 12_000, 2_000
"""Characters of a result that are shown, in a window of 32,000 tokens or more, and at least."""
TURN_SHARE, LEAST_RESULT = 0.3, 200
"""The share of the window for the results of one turn; characters of each that are shown in any case."""
LARGEST_OFFER, SMALLEST_OFFER = 36_000, 3_000
"""Characters of files that the first message shows, in a window of 96,000 tokens or more, and at least."""
LARGEST_GUIDANCE = 3_000
"""Characters of a file such as AGENTS.md that are shown, in a window of 10,000 tokens or more."""
HEADINGS = 10
"""Headings that are named of the part of such a file that is left out."""
FOLD_AT = 0.6
"""The share of the window that a conversation fills before the oldest results are folded."""
FIRST = 0.5
"""The share of the window that the conversation may fill before its first turn."""
JUDGE_WINDOW = 16_000
"""The window of a judge in tokens, where the model's is larger."""
JUDGED_SHARE = 0.85
"""The share of that window which the whole prompt of a judge may fill: a verdict is short."""
JUDGED, MOST_JUDGED = ("task", "said", "attempts"), 64
"""The parts of a first message that a judge sees; the last steps of a plan that it sees."""
RECORDED = ("evidence", "changes", "diff", "look")
"""The notes of §4 that the kernel writes before CHECK is asked."""
AROUND = 16
"""Steps before one of a plan that its own turn sees, if it builds on them."""
MOST_IMAGES = 4
"""Pictures of one turn that are shown."""
INDEX_TOKENS = 150
"""Maximum tokens of the index of what `use` reaches. See docs/choosing.md."""
INDEX_HEAD = "Tools for `use`: "
SHOWN = "shown"
"""The note of §1 that names what the first message shows of the folder. Its source is the text's file."""
INDEX = "tools"
"""The note of §1 with the index of what `use` reaches."""
DECLARED = "declared"
"""The note of §1 with the tools of servers that every turn declares."""
DECLARED_SHARE, MOST_DECLARED = 0.02, 500
"""The share of the window for their schemas, and the most tokens."""
PROPOSED = "proposed"
"""The note of §3 with the answer that counts if the calls of its turn succeed and its checks hold."""
CHECKS = "checks"
"""The note of §3 with the commands given beside a proposed answer."""
THOUGHT, HEARD, REPLACED = "thought", "heard", "replaced"
"""The notes of §3 with a model's text beside its calls, a person's words, and the reason for other checks."""
EDITED = "edited"
"""The note of §3 with what was done after a turn that a person has changed since."""
_TURN = re.compile(r"turn (\d+)")
_FIRST = re.compile(r"\s*(\d+)")

Message = dict[str, Any]


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_SURE = {"type": "string", "enum": ["high", "medium", "low"]}
_CALLS: Mapping[str, tuple[str, Mapping[str, Any], list[str]]] = {
    USE: (
        "a tool, or words to find one; without args: its schema and guidance",
        {"tool": _TEXT, "args": {"type": "object"}},
        ["tool"],
    ),
    SUBTASK: ("a part of the task, in its own loop", {"task": _TEXT, "tool": _TEXT}, ["task"]),
    PLAN: (
        "your plan, where one is demanded",
        {"approach": _TEXT, "confidence": _SURE, "checks": _TEXTS},
        ["approach"],
    ),
    DONE: (
        "the answer, and commands that show it; why: of replaced checks",
        {"answer": _TEXT, "checks": _TEXTS, "keep": _TEXTS, "why": _TEXT},
        [],
    ),
    ASK: ("ask the user; the run waits", {"question": _TEXT}, ["question"]),
    CANNOT: ("it is impossible", {"why": _TEXT}, ["why"]),
}
"""The declared calls that are no tools: a line, the arguments, and the required ones."""


@dataclass(frozen=True)
class Sources:
    """What a conversation is rendered from besides the document."""

    catalogue: Catalogue
    count: Callable[[str], int]
    whole: Callable[[Step], str]  # the whole result of a step
    shelved: Callable[[str], str]  # the text of a file in artifacts/
    place: Callable[[str], str]  # where a model can read such a file
    window: int  # tokens
    may_split: bool = True
    enclosed: str = ""  # what commands lack here, such as the network
    sees: bool = False  # whether the responder is shown pictures
    picture: Callable[[str], bytes | None] = lambda path: None  # the bytes of a file in artifacts/


def result_limit(window: int) -> int:
    """Characters of a result that are shown in a window of so many tokens."""
    return max(SMALLEST_RESULT, min(LARGEST_RESULT, window * 3 // 8))


def offer_limit(window: int) -> int:
    """Characters of files that the first message shows in a window of so many tokens."""
    return max(SMALLEST_OFFER, min(LARGEST_OFFER, window * 3 // 8))


def guidance_limit(window: int) -> int:
    """Characters of a file such as AGENTS.md that are shown in a window of so many tokens."""
    return min(LARGEST_GUIDANCE, window * 3 // 10)


def turn_of(step: Step) -> int:
    """The turn that decided a step; 0 for one of a plan."""
    return int(step.evidence.get("turn", 0))


def turn_named(note: Note) -> int:
    """The turn that a note of §2 or §3 belongs to; 0 if to none."""
    hit = _TURN.fullmatch(note.source)
    return int(hit[1]) if hit else 0


def last_turn(document: Document) -> int:
    """The number of the last turn of this attempt; 0 before the first one."""
    notes = (*document.section(2).notes, *document.section(3).notes)
    return max([0, *map(turn_of, document.planned.values()), *map(turn_named, notes)])


def by_turns(document: Document) -> bool:
    """Whether a loop is done by turns of a capable model."""
    return "window" in document.meta.extra


def notes_of(document: Document, turn: int, number: int = 3) -> dict[str, Note]:
    """The notes of a turn in a section, by key; of two of a key the last one."""
    return {note.key: note for note in document.section(number).notes if turn_named(note) == turn}


def conversation(document: Document, sources: Sources, step: int = 0) -> Prompt:
    """The conversation up to the next turn, and the tokens of its parts.

    `step` binds the turn to the call of this step of a plan: it sees what the step builds on.
    """
    catalogue, count = sources.catalogue, sources.count
    name = DO if step else TURN
    system, phase = base(document, name, catalogue), instructions(document, name, catalogue)
    index = "" if step else document.text(1, INDEX)
    if step:
        tools = tuple(_bound_to(document.planned[step].tool, catalogue, sources.enclosed))
    else:
        limit = result_limit(sources.window)
        more = _declared_in(document)
        tools = tuple(declared(catalogue, sources.may_split, limit, sources.enclosed, more))
    schemas = sum(count(native.rendered(tool)) for tool in tools)
    room = int(sources.window * FIRST) - count(system) - count(phase) - schemas
    found = [part for part in _first_parts(document, sources) if index or part[0] != INDEX]
    parts = _fitted(found, room, document, sources)
    first = "\n\n".join(filter(None, [phase, *(text for _, text in parts)]))
    messages: list[Message] = [{"role": "system", "content": system}, {"role": "user", "content": first}]
    last: list[Message] = [{"role": "user", "content": _bound(document, sources, step)}] if step else []
    fixed = count(system) + count(first) + schemas + sum(tokens_of(message, count) for message in last)
    room = int(sources.window * FOLD_AT) - fixed
    if step:
        turns = [*_latest(document, sources, room, _shown_to(document, step)), *last]
    else:
        turns = _turns(document, sources, room, document.planned.keys())
    messages += turns
    sizes = [("base", count(system)), ("phase", count(phase)), ("tools", count(index))]
    sizes += [("schemas", schemas)]
    sizes += [(f"work: {title}", count(text)) for title, text in parts if text and title != INDEX]
    sizes += [("work: turns", sum(tokens_of(message, count) for message in turns))] if turns else []
    return Prompt(system, "", tuple(sizes), tools, tuple(messages))


def judgement(document: Document, sources: Sources) -> Prompt:
    """The conversation of a judge: what was asked, what was done, and what the runtime has recorded of it.

    It declares no tools: the reply is a verdict.
    """
    catalogue, count = sources.catalogue, sources.count
    sources = replace(sources, window=min(sources.window, JUDGE_WINDOW))
    text, phase, words = (part(document, "check", catalogue) for part in (base, instructions, form))
    named = {"base": text, "phase": phase, "form": f"{FORM}{words}"}
    system = "\n\n".join(named.values())
    asked = [part for part in _first_parts(document, sources) if part[0] in JUDGED]
    notes = [note for note in document.section(2).notes if note.key == "approach"]
    notes += [note for note in document.section(3).notes if note.key in ("result", "stopped")]
    notes += [note for note in document.section(4).notes if note.key in RECORDED]
    limit = result_limit(sources.window) // 2
    where = sources.place(f"{document.meta.id}.md")
    found = [_titled(_by_whom(note.key), fenced(redact(cut(note.text, limit, where)))) for note in notes]
    first = "\n\n".join(text for _, text in _fitted(asked, sources.window // 4, document, sources) if text)
    last = "\n\n".join(["What the runtime recorded; judge it:", *found])
    room = int(sources.window * JUDGED_SHARE) - count(system) - count(first) - count(last)
    turns = _latest(document, sources, room, sorted(document.planned)[-MOST_JUDGED:])
    parts = [(name, count(text)) for name, text in named.items()]
    parts += [("work: task", count(first)), ("work: turns", sum(tokens_of(each, count) for each in turns))]
    parts.append(("work: evidence", count(last)))
    head: list[Message] = [{"role": "system", "content": system}, {"role": "user", "content": first}]
    return Prompt(system, "", tuple(parts), (), (*head, *turns, {"role": "user", "content": last}))


def _by_whom(key: str) -> str:
    """The title of a note that a judge sees."""
    return f"{key.capitalize()} ({'runtime' if key in RECORDED else 'as the loop says'})"


def declared(
    catalogue: Catalogue, may_split: bool, limit: int, enclosed: str = "", more: Sequence[str] = ()
) -> list[native.Schema]:
    """The schemas of the calls of every turn, the same for a whole loop, with those of `more` tools.

    `enclosed` is what commands lack.
    """
    found: list[native.Schema] = []
    for name, args in HANDS.items():
        tool = catalogue.tools.get(name)
        if tool and tool.run:
            line = _LINES.get(name, "").format(f"{limit:,}") or tool.description
            found.append(native.schema_of(tool, args, line + _lacks(tool, enclosed)))
    others = (catalogue.tools.get(name) for name in more)
    found += [schema for tool in others if tool and (schema := native.whole_schema(tool))]
    found += [
        native.call_schema(name, *parts) for name, parts in _CALLS.items() if may_split or name != SUBTASK
    ]
    return found


def _lacks(tool: Tool, enclosed: str) -> str:
    return f" ({enclosed})" if enclosed and "shell" in tool.effects else ""


def _bound_to(name: str, catalogue: Catalogue, enclosed: str) -> list[native.Schema]:
    """The schemas of the calls of a turn that is bound to this tool: the tool, and why it is not called."""
    tool = catalogue.tools.get(name)
    own = [native.schema_of(tool, (), tool.description + _lacks(tool, enclosed))] if tool else []
    if name in {*_CALLS, *OTHER_NAMES}:  # its name says something else in a turn
        own = [native.call_schema(USE, *_CALLS[USE])]
    skip = native.call_schema(DONE, "the step is not needed any more", {"why": _TEXT}, ["why"])
    return [*own, skip, *(native.call_schema(each, *_CALLS[each]) for each in (ASK, CANNOT))]


def _declared_in(document: Document) -> tuple[str, ...]:
    """The tools of servers that every turn of a loop declares."""
    return tuple(filter(None, document.text(1, DECLARED).split(", ")))


def _reached(document: Document, catalogue: Catalogue) -> list[Tool]:
    """The tools that are not always declared, those that suit the task first."""
    own = catalogue.tools.get(document.meta.type)
    ranked = catalogue.ranked(document.task, own if own and own.guided else None)
    return [tool for tool in ranked if tool.name not in {*HANDS, *_CALLS} and not tool.open]


def declared_of(document: Document, catalogue: Catalogue, count: Callable[[str], int], window: int) -> str:
    """The tools of servers that the turns of a loop declare whole: those that suit its task and fit."""
    room = min(MOST_DECLARED, int(window * DECLARED_SHARE))
    names: list[str] = []
    for tool in _reached(document, catalogue):
        schema = native.whole_schema(tool) if tool.origin == "mcp" else None
        size = count(native.rendered(schema)) if schema else room + 1
        if size <= room:
            names.append(tool.name)
            room -= size
    return ", ".join(sorted(names))


def index_of(document: Document, catalogue: Catalogue, count: Callable[[str], int]) -> str:
    """The names of the tools that `use` reaches, in order; within `INDEX_TOKENS` those that suit the task."""
    own = _declared_in(document)
    names = [tool.name for tool in _reached(document, catalogue) if tool.name not in own]

    def tokens(shown: int) -> int:
        return count(f"{INDEX_HEAD}{', '.join(names[:shown])}, …")

    kept = max(0, bisect_right(range(len(names) + 1), INDEX_TOKENS, key=tokens) - 1)
    return ", ".join([*sorted(names[:kept]), *(["…"] if kept < len(names) else [])])


def _first_parts(document: Document, sources: Sources) -> Iterable[tuple[str, str]]:
    """The titled parts of the first message after the text of the phase."""
    if index := document.text(1, INDEX):
        yield INDEX, f"{INDEX_HEAD}{index}"
    task = document.note(1, "task") or Note("task", "")
    yield "task", _titled("Task", fenced(task.text) if task.origin.startswith("tool") else task.text)
    resolved = document.text(1, "resolved task")
    if resolved and resolved != task.text:
        yield "task", _titled("Understood as", resolved)
    if own := _own_guidance(document, sources):
        yield "guidance", own
    first, _ = heard_by(document)
    yield "said", _said(said_in(document)[:first], _to_whom(document))
    for note in document.section(1).notes:
        if note.key in ("context", "background", "fact") and not note.source.startswith(GUIDANCE):
            yield "context", _titled(f"From {note.source or note.origin}", fenced(redact(note.text)))
    for fold in document.section(2).folds:
        told = [note for note in fold.notes if note.key not in (TRIED, FOLDER)]
        lines = "\n".join(f"{note.key}: {note.text}" for note in told)
        yield "attempts", _titled(f"Attempt {fold.attempt} ({fold.decision})", fenced(redact(lines)))
    yield "attempts", _machines(document, sources.catalogue)
    for note in document.section(1).notes:
        if note.key == "context" and note.source.startswith(GUIDANCE):
            name = note.source.removeprefix(GUIDANCE)
            yield (
                "guidance",
                _titled(name, fenced(_beginning(redact(note.text), guidance_limit(sources.window), name))),
            )
    if shown := document.note(1, SHOWN):
        yield "shown", sources.shelved(shown.source)


def _fitted(
    parts: Sequence[tuple[str, str]], room: int, document: Document, sources: Sources
) -> Sequence[tuple[str, str]]:
    """The parts of the first message cut to `room` tokens together, the longest first."""
    texts = [text for _, text in parts]
    size = sources.count("\n\n".join(texts))
    if size <= room:
        return parts
    sizes = [len(text) for text in texts]
    most = cap(sizes, sum(sizes) * max(room, 0) // size)
    where = sources.place(f"{document.meta.id}.md")
    return [(title, cut(text, most, where)) for title, text in parts]


def _beginning(text: str, limit: int, name: str) -> str:
    """The first lines of a text within `limit` characters; a mark names the headings that are left out."""
    if len(text) <= limit:
        return text
    end = text.rfind("\n", 0, limit)
    end = end if end > 0 else limit
    heads = re.findall(r"^#+ +(.{1,60})", text[end:], re.MULTILINE)[:HEADINGS]
    rest = f", with {', '.join(heads)}" if heads else ""
    return f"{text[:end]}\n[the rest of {name} is left out{rest}]"


def _machines(document: Document, catalogue: Catalogue) -> str:
    """The states in which the attempts before have left state machines."""
    steps = [step for n, step in document.steps.items() if n <= document.meta.base]
    used = (catalogue.tools.get(name) for name in dict.fromkeys(step.tool for step in steps))
    return "\n".join(
        f"{tool.name} is in the {description(tool.states, machine_state(tool.states, tool.name, steps))}."
        for tool in used
        if tool and tool.states
    )


def _own_guidance(document: Document, sources: Sources) -> str:
    """The text of the guided tool that this loop follows."""
    tool = sources.catalogue.tools.get(document.meta.type)
    if not tool or not tool.guided or tool.open:
        return ""
    limit = sources.window * 3 // 10
    if not tool.skill:
        where = f"tools/{tool.path.parent.name}/{tool.path.name}"
        return _titled(f"About {tool.name}", cut(tool.body.strip(), limit, where, head=0.7))
    text = cut(tool.body.strip(), limit, str(tool.path.absolute()), head=0.7)
    return _titled(f"Guidance from the skill {tool.name}", f"{tool.resources()}\n{fenced(text)}")


def guidance_of(tool: Tool, catalogue: Catalogue) -> str:
    """What `use` without arguments shows of a tool: how it is called, and what to know.

    Guidance comes with the signatures of the tools that it names and that no turn declares.
    """
    if not tool.guided:
        called = f"{tool.line}\nargs: {to_json(dict(tool.args))}\nrequired: {', '.join(tool.required)}"
        return f"{called}\n\n{tool.body.strip()}"
    head = f"{tool.name} is guidance: follow it, or give a part of the task to `subtask` with this tool."
    named = dict.fromkeys(re.findall(r"`([\w-]+)`", tool.body))
    reached = [found for name in named if name not in HANDS and (found := catalogue.tools.get(name))]
    lines = [f"- {each.line}" for each in reached if not each.guided]
    calls = "\n".join(["By `use`:", *lines]) if lines else ""
    return "\n\n".join(filter(None, [head, tool.resources(), tool.body.strip(), calls]))


def said_in(document: Document) -> list[Note]:
    """What people have said to the loop: questions with their answers, and guidance."""
    return [note for note in document.section(1).notes if note.key in ("question", "answer", "guidance")]


def heard_by(document: Document) -> tuple[int, int]:
    """How many of these notes the first message shows, and how many the conversation has by now."""
    first, now = document.meta.extra.get("heard") or (len(said_in(document)),) * 2
    return int(first), int(now)


def _to_whom(document: Document) -> str:
    """What is added for a child: that a person spoke to the whole run, and not to it alone."""
    return " to the whole run" if document.meta.parent else ""


def _said(notes: Sequence[Note], to_whom: str) -> str:
    if all(note.key == "question" for note in notes):
        return ""
    return _titled(f"Said{to_whom}", "\n".join(map(_line_of, notes)))


def _line_of(note: Note) -> str:
    """What a person was asked or said. A question may quote what was found so far, which tools said."""
    quotes = note.key == "question" and not note.text.isprintable()
    return f"{note.key.capitalize()}:" + (f"\n{fenced(note.text)}" if quotes else f" {note.text}")


def _titled(title: str, text: str) -> str:
    return f"## {' '.join(title.split())}\n{text}" if text else ""


# ---- turns -----------------------------------------------------------------------------------------------


@dataclass
class _Exchange:
    """A turn: what the model wrote, and what came of it, whole and folded."""

    asked: Message
    results: list[tuple[str, str, str]]  # id, whole, folded
    after: str
    images: tuple[tuple[str, Message], ...]  # the line of each picture, and the picture

    def messages(self, folded: bool) -> list[Message]:
        found = [self.asked]
        for name, whole, short in self.results:
            found.append({"role": "tool", "tool_call_id": name, "content": short if folded else whole})
        images = () if folded else self.images
        said = "\n".join(filter(None, [*(line for line, _ in images), self.after]))
        pictures = {"images": [image for _, image in images]} if images else {}
        return [*found, *([{"role": "user", "content": said, **pictures}] if said else [])]


def _bound(document: Document, sources: Sources, n: int) -> str:
    """The message that asks for the call of one step of a plan."""
    step, limit = document.planned[n], result_limit(sources.window) // 2
    said = (("Plan", document.text(2, "approach")), (f"Step {n}: {step.tool}", step.what))
    parts = [_titled(title, fenced(cut(text, limit, ""))) for title, text in said if text]
    if tool := sources.catalogue.tools.get(step.tool):
        parts.append(f"{tool.line}\n\n{cut(tool.body.strip(), limit, '')}")
        if tool.changes(step.args):  # its output has to meet the success criteria
            parts.append(_titled("Success", cut(document.text(2, "success criteria"), limit, "")))
    _, heard = heard_by(document)
    parts.append(_said(said_in(document)[heard:], _to_whom(document)))  # such as an answer to this step
    return "\n\n".join(filter(None, parts))


def _shown_to(document: Document, n: int) -> set[int]:
    """The steps that the turn of step `n` sees: those that it needs, and the last ones that it builds on.

    The state of a step beside it would make the prompt depend on timing. All steps of a long plan would make
    the total size of the prompts quadratic in their number.
    """
    return {*document.planned[n].needs, *document.before(n, n - AROUND)}


def _latest(document: Document, sources: Sources, room: int, shown: Collection[int]) -> list[Message]:
    """The messages of the turns with these steps; if they need more than `room`, with the latest that fit."""
    chosen = sorted(shown)
    while True:
        turns = _turns(document, sources, room, chosen)
        if len(chosen) <= 1 or sum(tokens_of(each, sources.count) for each in turns) <= room:
            return turns
        chosen = chosen[max(len(chosen) // 4, 1) :]


def _turns(document: Document, sources: Sources, room: int, shown: Collection[int]) -> list[Message]:
    """The messages of the turns so far. The oldest are folded when all together need more than `room` tokens.

    Half of those that are whole are folded at once, so that the beginning stays the same for many turns. The
    last turn is never folded.
    """
    first_planned = int(document.meta.extra.get("planned_after", 0))  # a whole plan is turn 0
    numbers = sorted(range(last_turn(document) + 1), key=lambda n: n or first_planned + 0.5)
    exchanges = [each for turn in numbers if (each := _exchange(document, turn, sources, shown))]
    whole, short = (
        [sum(tokens_of(each, sources.count) for each in one.messages(folded)) for one in exchanges]
        for folded in (False, True)
    )
    first = 0  # the first one that is shown whole
    for end in range(1, len(exchanges) + 1):
        while end - first > 1 and sum(short[:first]) + sum(whole[first:end]) > room:
            first += (end - first) // 2
    return [message for at, each in enumerate(exchanges) for message in each.messages(at < first)]


def _exchange(document: Document, turn: int, sources: Sources, shown: Collection[int]) -> _Exchange | None:
    """A turn with those of its steps that are `shown`."""
    notes = notes_of(document, turn) if turn else {}
    planned_here = [(n, each) for n, each in document.planned.items() if turn_of(each) == turn]
    decided = [(n, planned) for n, planned in planned_here if n in shown]
    steps = [document.steps.get(n, planned) for n, planned in decided]
    limit = _limit(steps, sources)
    room = int(sources.window * TURN_SHARE) * 3 // max(len(steps), 1)
    longest = max(LEAST_RESULT, min(room, result_limit(sources.window)))
    calls: list[tuple[str, str, Any]] = []
    results: list[tuple[str, str, str]] = []
    images: list[tuple[str, Message]] = []
    for (n, planned), step in zip(decided, steps, strict=True):
        # as planned, without inserted results; but for a step in words with the arguments that a turn gave
        given = planned.args is None and step.args is not None
        name, args = _as_called(document, step if given else planned, sources, longest)
        calls.append((f"call_{n}", name, args))
        pictures, told = _images(step, sources, MOST_IMAGES - len(images))
        images += pictures
        whole = _result(step, sources, limit) + told + _repeated(document, step)
        results.append((f"call_{n}", whole, _folded(step)))
    for name, args, result in _sayings(document, turn, notes):
        calls.append((f"{name}_{turn}", name, args))
        results.append((f"{name}_{turn}", result, result))
    if not calls:
        return None
    thought = notes[THOUGHT].text if THOUGHT in notes else None
    asked: Message = {"role": "assistant", "content": thought, "tool_calls": [
        {"id": each, "type": "function", "function": {"name": name, "arguments": to_json(args)}}
        for each, name, args in calls
    ]}  # fmt: skip
    heard = [] if ASK in notes else [_says(document, note) for note in _heard(document, turn)]
    after = "\n".join([*heard, *([notes[EDITED].text] if EDITED in notes else [])])
    if turn == 0 and (not_yet := document.note(3, NOT_YET)) and not turn_named(not_yet):
        after = f"After these steps this did not hold:\n{fenced(not_yet.text)}"
    return _Exchange(asked, results, after, tuple(images))


def _limit(steps: Sequence[Step], sources: Sources) -> int:
    """Characters of each result of a turn, so that all together fit into `TURN_SHARE` of the window."""
    limit = result_limit(sources.window)
    sizes = [min(step.evidence.get("characters", len(step.result or "")), limit) for step in steps]
    room = int(sources.window * TURN_SHARE) * 3
    return limit if sum(sizes) <= room else max(LEAST_RESULT, cap(sizes, room))


def _sayings(document: Document, turn: int, notes: Mapping[str, Note]) -> Iterable[tuple[str, Any, str]]:
    """The calls of a turn that are no steps, each with its result."""
    if turn == 0:
        return
    plan = notes_of(document, turn, 2)
    if "approach" in plan:
        args: dict[str, Any] = {"approach": plan["approach"].text}
        args |= {"confidence": plan["confidence"].text} if "confidence" in plan else {}
        args |= (
            {"checks": commands_in(plan["planned checks"].text, "run")} if "planned checks" in plan else {}
        )
        yield PLAN, args, "noted"
    if ASK in notes:
        told = "\n".join(note.text for note in _heard(document, turn)) or "no answer was given"
        yield ASK, {"question": notes[ASK].text}, told
    if PROPOSED in notes:
        given = notes[CHECKS].text if CHECKS in notes else ""
        args = {"answer": notes[PROPOSED].text}
        for name, key in (("checks", "run"), ("keep", "keep")):
            args |= {name: found} if (found := commands_in(given, key)) else {}
        args |= {"why": notes[REPLACED].text} if REPLACED in notes else {}
        yield DONE, args, notes[NOT_YET].text if NOT_YET in notes else "noted"


def _heard(document: Document, turn: int) -> list[Note]:
    """What people, or oversight, said after a turn."""
    notes = document.section(3).notes
    return [note for note in notes if note.key == HEARD and turn_named(note) == turn]


def _says(document: Document, note: Note) -> str:
    who = "Oversight" if note.origin.startswith("model") else "The user"
    return f"{who} says{_to_whom(document)}: {note.text}"


def commands_in(text: str, *kinds: str) -> list[str]:
    """The commands of these kinds in a note of criteria: one JSON object a line, or what a person wrote."""
    found: list[str] = []
    for line in text.splitlines():
        with suppress(ValueError):
            value: Any = json.loads(line)
            members = cast(dict[str, Any], value) if isinstance(value, dict) else {}
            found += [str(members[kind]) for kind in kinds if kind in members]
    return found


def _as_called(document: Document, step: Step, sources: Sources, longest: int) -> tuple[str, Any]:
    """The name and arguments of the call that a step was; texts in them have at most `longest` characters."""
    tool = sources.catalogue.tools.get(step.tool)
    args = step.args or {}
    given = tool.in_order(args) if tool else dict(sorted(args.items()))
    args = redacted(given, lambda text: redact(cut(text, longest, "")))
    if step.tool in HANDS or step.tool in (USE, SUBTASK, *_declared_in(document)):
        return step.tool, args
    if not step.tool or step.share is not None or (tool and tool.guided) or step.args is None:
        return SUBTASK, {"task": redact(step.what), **({"tool": step.tool} if step.tool else {})}
    return USE, {"tool": step.tool, "args": args}


def _result(step: Step, sources: Sources, limit: int) -> str:
    """A result as the model sees it: whole up to the limit; of a file, with the numbers of its lines."""
    text = sources.whole(step) if step.result is not None else step.state
    if step.tool == "read" and step.state == "done" and "images" not in step.evidence:
        text, last = _numbered(text, str((step.args or {}).get("lines", "")))
        if len(text) > limit:
            end = text.rfind("\n", 0, limit)
            text = text[: end if end > 0 else limit]
            reached = text.rpartition("\n")[2].partition("\t")[0]
            more = f'; go on with lines "{int(reached) + 1}-"' if last and reached.isdecimal() else ""
            text = f"{text}\n[cut after {limit:,} characters{more}]"
    else:
        where = step.evidence.get("whole", "")
        text = cut(text, limit, sources.place(where) if where else "")
    text = redact(text) if text.strip() else "(no output)"
    text += f"\n[{step.evidence['now']}]" if "now" in step.evidence else ""  # of its state machine
    if step.succeeded or text.startswith(("error", "held back")):
        return text
    if step.tool == "bash" and "[exit " in text[-20:]:
        return text
    return f"{step.state}: {text}"


def _images(step: Step, sources: Sources, room: int) -> tuple[list[tuple[str, Message]], str]:
    """The pictures of a result, each with its line; and what is told of those that are not shown."""
    images: list[tuple[str, Message]] = []
    told: list[str] = []
    for kept in step.evidence.get("images", ()) if sources.sees else ():
        if len(images) == room:
            told.append(f"[of one turn {MOST_IMAGES} pictures are shown; look at this one in another turn]")
        elif (data := sources.picture(kept["file"])) is None or bytes_hash(data) != kept["sha"]:
            told.append(
                f"[the picture is gone: somebody has changed or removed {sources.place(kept['file'])}]"
            )
        else:
            image = {"kind": kept["kind"], "data": b64encode(data).decode()}
            images.append((f"The picture of call_{step.n}:", image))
    if "images" in step.evidence and not sources.sees:
        told.append("[the picture itself is not shown: this model sees no pictures]")
    return images, "".join(f"\n{line}" for line in told)


def _repeated(document: Document, step: Step) -> str:
    """A line that names an earlier equal call with the same result, so that a round is seen; else ""."""
    earlier = (document.steps[n] for n in document.planned if n < step.n and n in document.steps)
    same = next((each.n for each in earlier if step.result and each.outcome == step.outcome), None)
    return f"\n[the same as call_{same}]" if same is not None else ""


def _numbered(text: str, lines: str) -> tuple[str, bool]:
    """The lines of a file with their numbers, and whether these are known: not of the last lines."""
    if lines.strip().startswith("-"):
        return text, False
    hit = _FIRST.match(lines)
    rows = text.removesuffix("\n").split("\n")
    return "\n".join(f"{n}\t{row}" for n, row in enumerate(rows, int(hit[1]) if hit else 1)), True


def _folded(step: Step) -> str:
    """What stands for a result that is no longer shown."""
    size = step.evidence.get("characters", len(step.result or ""))
    return f"[{step.state}; {size:,} characters are no longer shown; call again to see them]"
