"""The state document as markdown: render and append; `parse(render(d)) == d` whatever text it holds.

Reading it back is in `reading` (`parse` and `committed` can be had from here as well), the lines' patterns in
`grammar`, the embedding of texts in `text`. Nothing here touches a disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernel import grammar
from kernel.document import EMPTY, NAMES, PHASES, STEP_STATES, Document, Note, Section, Step
from kernel.frontmatter import frontmatter_lines
from kernel.grammar import PAD, word
from kernel.reading import committed, parse
from kernel.text import COMMIT, block, code_span

__all__ = ["committed", "parse", "render", "render_steps"]


def render(document: Document, rev: int | None = None) -> bytes:
    """The document as UTF-8 markdown, closed by its commit line; sections after the phase are left out.

    Raises ValueError for what the grammar has no place for, such as a state that does not exist.
    """
    meta = document.meta if rev is None else replace(document.meta, rev=rev)
    lines = ["---", *frontmatter_lines(meta), "---", f"# State: {word(meta.id, grammar.LINK)}", ""]
    last = max([PHASES[meta.phase], *(n for n, section in document.sections.items() if section != EMPTY)])
    for number in range(1, last + 1):
        lines += [f"## §{number} {NAMES[number]}", ""]
        lines += _section_lines(document.section(number))
    return _encode(lines, meta.rev)


def render_steps(document: Document, steps: Sequence[Step], rev: int) -> bytes:
    """What an append to §3 writes: the entries and a commit line. An entry replaces an earlier one.

    `document` is as it stood before: what an earlier entry of the step says at length is not said again.
    Raises ValueError where §3 is not the last section, for there the entries would land in another one.
    """
    if document.meta.phase != "do" or document.section(4) != EMPTY or document.section(5) != EMPTY:
        raise ValueError("steps are appended while §3 is the last section; else save the whole document")
    lines = [""]  # an editor may have taken the file's last line end away
    for step in steps:
        lines += _step_lines(step, document.steps.get(step.n))
    return _encode(lines, rev)


def _encode(lines: list[str], rev: int) -> bytes:
    return ("\n".join(lines) + f"\n{COMMIT}{rev} -->\n").encode("utf-8")


def _section_lines(section: Section) -> list[str]:
    lines: list[str] = []
    for fold in section.folds:
        if not grammar.DECISION.fullmatch(fold.decision):
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
    if not grammar.NOTE_KEY.fullmatch(note.key):
        raise ValueError(f"not a name for a note: {note.key!r}; small letters, digits and single blanks")
    head = f"### {note.key} · {word(note.origin, grammar.ORIGIN)}"
    if note.source:
        head += f" · from {grammar.source_span(note.source)}"
    return [head, "", *block(note.text, fenced=_is_data(note)), ""]


def _is_data(note: Note) -> bool:
    """Whether a note is shown exactly, in a fence: what came from elsewhere, and what is a list or JSON."""
    listed = note.origin == "kernel" and "\n" in note.text
    return _is_tools(note.origin) or bool(note.source) or listed or note.text[:1] in ("{", "[")


def _is_tools(origin: str) -> bool:
    return origin.startswith("tool")


def _step_lines(step: Step, before: Step | None) -> list[str]:
    """The lines of a step. What `before`, its earlier entry, already says at length is not repeated."""
    long = grammar.long_args(step.args or {}, step.whole)
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
        lines.append(f"  - result · {word(step.origin, grammar.ORIGIN)}")
        lines += block(step.result, fenced=_is_tools(step.origin), pad=PAD)
    return [*lines, ""]


def _step_head(step: Step, long: Sequence[str]) -> str:
    if step.state not in STEP_STATES:
        raise ValueError(f"no such state of a step: {step.state!r}")
    box = "x" if step.state in ("done", "skipped") else " "
    head = f"- [{box}] {step.n}. {step.state} {word(step.tool, grammar.TOOL) if step.tool else 'subtask'}"
    if step.args is not None:
        head += " " + code_span({key: value for key, value in step.args.items() if key not in long})
    if step.needs:
        head += " · needs " + ", ".join(map(str, step.needs))
    if step.link:
        head += f" → {_linked(step.link)}"
    return head


def _linked(link: str) -> str:
    if not grammar.LINK.fullmatch(link):
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
