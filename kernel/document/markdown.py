"""The state document as markdown: the patterns of its lines, and rendering; `parse(render(d)) == d`.

Plain words are written unchanged. Any other name is written as JSON in a code span, so that no name can break
the document or become active in a viewer. The grammar is described in docs/document-format.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel.document.escaping import COMMIT, block, code_span, ticked
from kernel.document.frontmatter import AMOUNTS, EVIDENCE, frontmatter_lines, unstorable
from kernel.document.model import (
    EMPTY,
    NAMES,
    PHASES,
    STEP_STATES,
    Document,
    Note,
    Section,
    Step,
)

PAD = "    "
"""The indent of a text that belongs to a step."""
INLINE = 80
"""Maximum characters of a text argument on the step's own line."""

_NUMBER = r"[1-9][0-9]{0,8}"
_ODD = r'`+"[^"\\]*(?:\\.[^"\\]*)*"`+'  # a JSON string in a code span
_ORIGIN = r"(?:person|client|kernel|model|tool|reflex|memory)(?::[A-Za-z0-9][\w./:@+-]*)?"
_TOOL = r"[a-z][\w.-]*"
_LINK = r"\w[\w./-]*"
_SOURCE = r"[^\s`\"](?:[^`]*[^\s`])?"

NOTE_KEY = re.compile(r"[a-z][a-z0-9-]*(?: [a-z0-9-]+)*")
PART_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
ORIGIN = re.compile(_ORIGIN, re.ASCII)
TOOL = re.compile(rf"(?!subtask$){_TOOL}", re.ASCII)
LINK = re.compile(_LINK, re.ASCII)
SOURCE = re.compile(_SOURCE)
DECISION = re.compile(r"\w[\w -]*", re.ASCII)

HEADING = re.compile(r"## §([1-5]) ([A-Z]+)")
COMMIT_LINE = re.compile(rf"{COMMIT}([0-9]{{1,9}}) -->")
SUMMARY = re.compile(rf"<summary>attempt ({_NUMBER}) · (\w[\w -]*)</summary>", re.ASCII)
NOTE = re.compile(
    rf"### ((?i:{NOTE_KEY.pattern}))(?: · ({_ORIGIN}|{_ODD}))?(?: · from (`{_SOURCE}`|{_ODD}))?", re.ASCII
)
STEP_BEGINS = re.compile(r"- \[[ xX]\] [0-9]+\. ([a-z]+) \S")
STEP = re.compile(
    rf"- \[[ xX]\] ({_NUMBER})\. ([a-z]+) ({_TOOL}|{_ODD})"
    r"(?: (`+)({.*})\4(?!`))?"
    rf"(?: · needs ({_NUMBER}(?:, ?{_NUMBER})*))?"
    rf"(?: → (?:\[({_LINK})\]\([^()\s]*\)|({_ODD})))?",
    re.ASCII,
)
TEXT_PART = re.compile(
    rf"  - (?:(what):|arg ({PART_NAME.pattern})(?: → ({_LINK}))?:|result · ({_ORIGIN}|{_ODD}):?)", re.ASCII
)
JSON_PART = re.compile(r"  - (share|evidence): (`+)({.*})\2(?!`)", re.ASCII)
KEPT_PART = re.compile(r"  - (?:(what)|args ([\w, ]+)) as before", re.ASCII)


def word(text: str, plain: re.Pattern[str]) -> str:
    """A name as written in the document: plain, or as JSON in a code span."""
    return text if plain.fullmatch(text) else code_span(text)


def source_span(source: str) -> str:
    """The source of a note as a code span."""
    return ticked(source) if SOURCE.fullmatch(source) and source.isprintable() else code_span(source)


def long_args(args: Mapping[str, Any], whole: Collection[str] = ()) -> list[str]:
    """The names of the arguments that get their own block instead of a place on the step's line."""
    return [
        name
        for name, value in args.items()
        if isinstance(value, str)
        and (len(value) > INLINE or "\n" in value or name in whole)
        and PART_NAME.fullmatch(name)
    ]


def render(document: Document, rev: int | None = None) -> bytes:
    """The document as UTF-8 markdown with its commit line; empty sections after the phase are omitted.

    Raises `ValueError` for what the grammar cannot express, such as an unknown state.
    """
    meta = document.meta if rev is None else replace(document.meta, rev=rev)
    lines = ["---", *frontmatter_lines(meta), "---", f"# State: {word(meta.id, LINK)}", ""]
    last = max([PHASES[meta.phase], *(n for n, section in document.sections.items() if section != EMPTY)])
    for number in range(1, last + 1):
        lines += [f"## §{number} {NAMES[number]}", ""]
        lines += _section_lines(document.section(number))
    return _encode(lines, meta.rev)


def render_steps(document: Document, steps: Sequence[Step], rev: int) -> bytes:
    """The text that an append to §3 writes: entries, which replace earlier ones, and a commit line.

    `document` is the state before: long texts of a step's earlier entry are not repeated. Raises `ValueError`
    if §3 is not the last section, because the entries would land in another one.
    """
    if document.meta.phase != "do" or document.section(4) != EMPTY or document.section(5) != EMPTY:
        raise ValueError("steps are appended while §3 is the last section; else save the whole document")
    lines = [""]  # an editor may have removed the last line break
    for step in steps:
        lines += _step_lines(step, document.steps.get(step.n))
    return _encode(lines, rev)


def _encode(lines: list[str], rev: int) -> bytes:
    return ("\n".join(lines) + f"\n{COMMIT}{rev} -->\n").encode("utf-8")


def _section_lines(section: Section) -> list[str]:
    lines: list[str] = []
    for fold in section.folds:
        if not DECISION.fullmatch(fold.decision):
            raise ValueError(f"not a decision: {fold.decision!r}")
        lines += ["<details>", f"<summary>attempt {fold.attempt} · {fold.decision}</summary>", ""]
        for note in fold.notes:
            lines += _note_lines(note)
        lines += ["</details>", ""]
    for note in section.notes:
        lines += _note_lines(note)
    for step in section.steps.values():
        lines += _step_lines(step, None)
    return lines


def _note_lines(note: Note) -> list[str]:
    if not NOTE_KEY.fullmatch(note.key):
        raise ValueError(f"not a name for a note: {note.key!r}; small letters, digits and single blanks")
    head = f"### {note.key} · {word(note.origin, ORIGIN)}"
    if note.source:
        head += f" · from {source_span(note.source)}"
    return [head, "", *block(note.text, fenced=_is_data(note)), ""]


def _is_data(note: Note) -> bool:
    """Whether a note is fenced: text from tools or with a source, lists and JSON."""
    listed = note.origin == "kernel" and "\n" in note.text
    return _is_tools(note.origin) or bool(note.source) or listed or note.text[:1] in ("{", "[")


def _is_tools(origin: str) -> bool:
    return origin.startswith("tool")


def _step_lines(step: Step, before: Step | None) -> list[str]:
    """The lines of a step. Long texts of `before`, its earlier entry, are not repeated."""
    long = long_args(step.args or {}, step.whole)
    lines = [_step_head(step, long)]
    if step.what and before is not None and before.what == step.what:
        lines.append("  - what as before")
    elif step.what:
        lines += ["  - what:", *block(step.what, pad=PAD)]
    if step.args is not None and long:
        lines += _long_lines(step, long, before or Step(step.n))
    if step.share is not None:
        lines.append(f"  - share: {code_span(dict(step.share))}")
    if step.evidence:
        lines.append(f"  - evidence: {code_span(dict(step.evidence))}")
    if step.result is not None:
        lines.append(f"  - result · {word(step.origin, ORIGIN)}")
        lines += block(step.result, fenced=_is_tools(step.origin), pad=PAD)
    return [*lines, ""]


def _step_head(step: Step, long: Sequence[str]) -> str:
    if step.state not in STEP_STATES:
        raise ValueError(f"no such state of a step: {step.state!r}")
    for name, value, shape in (("share", step.share, AMOUNTS), ("evidence", step.evidence, EVIDENCE)):
        if value and (wrong := unstorable(value, shape, name)):
            raise ValueError(f"the step's {wrong}")
    box = "x" if step.succeeded else " "
    head = f"- [{box}] {step.n}. {step.state} {word(step.tool, TOOL) if step.tool else 'subtask'}"
    if step.args is not None:
        head += " " + code_span({key: value for key, value in step.args.items() if key not in long})
    if step.needs:
        head += " · needs " + ", ".join(map(str, step.needs))
    if step.link:
        head += f" → {_linked(step.link)}"
    return head


def _linked(link: str) -> str:
    if not LINK.fullmatch(link):
        return code_span(link)
    return f"[{link}]({link if link.endswith('.md') else link + '.md'})"


def _long_lines(step: Step, long: Sequence[str], before: Step) -> list[str]:
    args, old = step.args or {}, before.args or {}
    kept = [n for n in long if old.get(n) == args[n] and before.whole.get(n) == step.whole.get(n)]
    lines = [f"  - args {', '.join(kept)} as before"] if kept else []
    for name in long:
        if name not in kept:
            where = f" → {step.whole[name]}" if name in step.whole else ""
            lines += [f"  - arg {name}{where}:", *block(args[name], fenced=True, pad=PAD)]
    return lines
