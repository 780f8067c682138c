"""Reads a state document: every byte string is parsed or refused with file, line and what to do.

docs/document-format.md describes which edits people can make. Nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, cast

from kernel.document import markdown
from kernel.document.escaping import COMMIT, read_block
from kernel.document.frontmatter import AMOUNTS, EVIDENCE, head, mismatch, read_frontmatter
from kernel.document.model import (
    NAMES,
    STEP_STATES,
    Document,
    Fold,
    Meta,
    Note,
    Section,
    Step,
)
from kernel.errors import DocumentError

_COMMIT = re.compile(rb"<!-- rev [0-9]{1,9} -->[ \t]*(?:\r?\n|\Z)")
_ENTRY_BEGINS = re.compile(r"- \[[ xX]\] [0-9]+\. ([a-z]+)(?=\s)")


def committed(raw: bytes) -> tuple[bytes, bytes]:
    """The bytes up to the last commit line, and the torn tail after it (usually empty).

    An append only writes entries of steps that have started, and indented lines. Any other unindented line
    after the last commit line was written by a person, and belongs to the document.
    """
    at = len(raw)
    while (at := raw.rfind(COMMIT.encode(), 0, at)) >= 0:
        hit = _COMMIT.match(raw, at)
        if hit and raw[at - 1 : at] in (b"\n", b""):
            tail = raw[hit.end() :]
            return (raw, b"") if not tail.strip() or _is_persons(tail) else (raw[: hit.end()], tail)
    return raw, b""


def _is_persons(tail: bytes) -> bool:
    try:
        text = tail.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "\0" not in text and any(map(_no_line_of_an_append, text.splitlines(keepends=True)))


def _no_line_of_an_append(line: str) -> bool:
    if not line.strip() or line[0].isspace() or line.startswith("<") or "- [".startswith(line[:3]):
        entry = _ENTRY_BEGINS.match(line)
        return entry is not None and entry[1] not in STEP_STATES - {"planned"}
    return True


def parse(raw: bytes, where: str = "document") -> Document:
    """Read a document, up to its last commit line; raises `DocumentError` with file and line."""
    body, _ = committed(raw)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise DocumentError("not UTF-8 text; save the file as UTF-8", f"{where}:{line}") from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return _Reader(text.split("\n"), where).document()


def read_head(path: Path) -> tuple[Meta, str]:
    """META and the task (or its beginning) of a document, without reading the body."""
    lines = head(path)
    meta, at = read_frontmatter(lines, str(path))
    while at < len(lines) and not lines[at].startswith("### task"):
        at += 1
    begin = at + 2
    with suppress(DocumentError):
        return meta, read_block(lines, begin, str(path))[0] or ""
    return meta, "\n".join(lines[begin + 1 :])  # the end of its fence was not read


@dataclass
class _Building:
    """A section while it is being read."""

    folds: list[Fold] = field(default_factory=list[Fold])
    notes: list[Note] = field(default_factory=list[Note])
    steps: dict[int, Step] = field(default_factory=dict[int, Step])

    def section(self) -> Section:
        return Section(tuple(self.folds), tuple(self.notes), self.steps)


class _Reader:
    """Reads the lines once, from top to bottom."""

    def __init__(self, lines: list[str], where: str) -> None:
        self.lines, self.where, self.at = lines, where, 0
        self.sections: dict[int, _Building] = {}
        self.number = 0
        self.fold: Fold | None = None
        self.fold_notes: list[Note] = []
        self.rev = 0
        self.closed = False  # whether a commit line was read: the rest was appended

    def document(self) -> Document:
        meta, self.at = read_frontmatter(self.lines, self.where)
        rules: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            ("- [", markdown.STEP, self._step),
            ("### ", markdown.NOTE, self._note),
            ("## ", markdown.HEADING, self._heading),
            (COMMIT, markdown.COMMIT_LINE, self._commit),
            ("<details>", re.compile("<details>"), self._open_fold),
            ("</details>", re.compile("</details>"), self._close_fold),
        )
        while self.at < len(self.lines):
            line = self.lines[self.at].rstrip()
            if not line or (not self.number and line.startswith("# State")):
                self.at += 1
                continue
            for begins, pattern, act in rules:
                if line.startswith(begins) and (hit := pattern.fullmatch(line)):
                    act(hit)
                    break
            else:
                self._fail(f"not understood: {line[:60]!r}; {_hint(line)}")
        if self.fold:
            self._fail("an open <details> is never closed; add a line </details>")
        if self.rev < meta.rev:
            self._fail(
                f"the file ends before its commit line, {COMMIT}{meta.rev} -->, so it was cut off; "
                "put the whole file back, or, if nothing is missing, add that line at its end"
            )
        sections = {number: built.section() for number, built in self.sections.items()}
        return Document(replace(meta, rev=self.rev or meta.rev), sections)

    def _fail(self, message: str) -> NoReturn:
        raise DocumentError(message, f"{self.where}:{min(self.at + 1, len(self.lines))}")

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            self._fail(f"not JSON: {text[:60]!r} ({error})")

    def _name(self, shown: str) -> str:
        """The name that `word` or `source_span` wrote."""
        inner = shown.strip("`")
        return self._json(inner) if inner.startswith('"') else inner

    # ---- sections, notes, folds -------------------------------------------------------------------------

    def _section(self) -> _Building:
        if not self.number:
            self._fail("this is before the first section heading, ## §1 UNDERSTAND")
        return self.sections.setdefault(self.number, _Building())

    def _heading(self, hit: re.Match[str]) -> None:
        if NAMES[int(hit[1])] != hit[2]:
            self._fail(f"§{hit[1]} is {NAMES[int(hit[1])]}, not {hit[2]}")
        if self.fold:
            self._fail("a <details> is still open here; add a line </details> above")
        self.number = int(hit[1])
        self.at += 1

    def _commit(self, hit: re.Match[str]) -> None:
        self.rev, self.closed = int(hit[1]), True
        self.at += 1

    def _open_fold(self, hit: re.Match[str]) -> None:
        if self.fold:
            self._fail("a <details> inside another; close the first with a line </details>")
        self._section()
        self.at += 1
        line = self.lines[self.at].rstrip() if self.at < len(self.lines) else ""
        summary = markdown.SUMMARY.fullmatch(line)
        if not summary:
            self._fail("after <details> comes <summary>attempt N · decision</summary>")
        self.fold, self.fold_notes = Fold(int(summary[1]), summary[2]), []
        self.at += 1

    def _close_fold(self, hit: re.Match[str]) -> None:
        if self.fold is None:
            self._fail("</details> without <details>; take it away")
        self._section().folds.append(replace(self.fold, notes=tuple(self.fold_notes)))
        self.fold = None
        self.at += 1

    def _note(self, hit: re.Match[str]) -> None:
        notes = self.fold_notes if self.fold else self._section().notes
        origin = self._name(hit[2]) if hit[2] else "person"
        source = self._name(hit[3]) if hit[3] else ""
        self.at += 1
        while self.at < len(self.lines) and not self.lines[self.at].strip():
            self.at += 1
        text, self.at = read_block(self.lines, self.at, self.where)
        if text is None:  # a person typed plain text under the heading
            text, origin = self._plain(), "person"
        notes.append(Note(hit[1].lower(), text, origin, source))

    def _plain(self) -> str:
        start = self.at
        while self.at < len(self.lines) and not _ends_plain(self.lines[self.at]):
            self.at += 1
        return "\n".join(line.rstrip() for line in self.lines[start : self.at]).strip("\n")

    # ---- steps ------------------------------------------------------------------------------------------

    def _step(self, hit: re.Match[str]) -> None:
        if hit[2] not in STEP_STATES:
            self._fail(f"a step cannot be {hit[2]!r}; one of {', '.join(sorted(STEP_STATES))}")
        if self.fold:
            self._fail("a step inside <details>; only notes belong there")
        steps, n = self._section().steps, int(hit[1])
        planned = self.sections[2].steps if 2 in self.sections else {}
        if self.closed and self.number == 3 and hit[2] == "planned" and n not in planned:
            self._fail(f"step {n} is in no plan; a step is added at the end of §2, above ## §3 DO")
        if n in steps and self.number != 3:  # in §3 the last entry counts
            self._fail(f"step {n} occurs twice in §{self.number}; give one of them another number")
        step = Step(
            n,
            hit[2],
            "" if hit[3] == "subtask" else self._name(hit[3]),
            self._json(hit[5]) if hit[5] else None,
            needs=tuple(int(each) for each in hit[6].split(",")) if hit[6] else (),
            link=hit[7] or (self._name(hit[8]) if hit[8] else ""),
        )
        self.at += 1
        steps[n] = self._with_parts(step, steps.get(n) or Step(n))

    def _with_parts(self, step: Step, before: Step) -> Step:
        args = dict(step.args) if step.args is not None else None
        whole: dict[str, str] = {}
        changes: dict[str, Any] = {}
        while self.at < len(self.lines):
            line = self.lines[self.at].rstrip()
            if hit := markdown.JSON_PART.fullmatch(line):
                changes[hit[1]] = self._json_part(hit[1], hit[3])
                self.at += 1
            elif hit := markdown.KEPT_PART.fullmatch(line):
                if hit[1]:
                    changes["what"] = before.what
                else:
                    kept = self._kept(hit[2], before)
                    args = {**(args or {}), **kept}
                    whole |= {name: path for name, path in before.whole.items() if name in kept}
                self.at += 1
            elif hit := markdown.TEXT_PART.fullmatch(line):
                text = self._part_text()
                if hit[1]:
                    changes["what"] = text
                elif hit[2]:
                    args = {**(args or {}), hit[2]: text}
                    whole |= {hit[2]: hit[3]} if hit[3] else {}
                else:
                    changes |= {"result": text, "origin": self._name(hit[4])}
            else:
                break
        return replace(step, args=args, whole=whole, **changes)

    def _kept(self, names: str, before: Step) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name in names.replace(" ", "").split(","):
            if name not in (before.args or {}):
                self._fail(f"argument {name} is marked as before, but has no earlier value")
            kept[name] = cast(Mapping[str, Any], before.args)[name]
        return kept

    def _part_text(self) -> str:
        text, after = read_block(self.lines, self.at + 1, self.where, markdown.PAD)
        if text is None:
            self._fail("a quoted (>) or fenced (~~~text) text, indented by four blanks, belongs below")
        self.at = after
        return text

    def _json_part(self, name: str, text: str) -> Any:
        value = self._json(text)
        if wrong := mismatch(value, AMOUNTS if name == "share" else EVIDENCE, name):
            self._fail(f"the step's {wrong}")
        return value


def _hint(line: str) -> str:
    if markdown.STEP_BEGINS.match(line):
        return "a step is written - [ ] 1. planned tool `{JSON}` · needs 1, 2"
    return "a person's words go under a heading such as ### answer, or after a > in a quote"


def _ends_plain(line: str) -> bool:
    if line.startswith(("## ", "### ", "<details>", "</details>", COMMIT)):
        return True
    step = markdown.STEP_BEGINS.match(line)
    return step is not None and step[1] in STEP_STATES
