"""What a run that corrected a file tells the next one: file, change, command that verified it, first failure.

All of it is evidence of the documents: the diff, the criteria, and the steps with their results. What a model
said about its work is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.asking.conversation import turn_named, turn_of
from kernel.asking.prompt import NOT_YET
from kernel.document.model import Document, Step
from kernel.document.texts import reason
from kernel.errors import FractalError
from kernel.loop.criteria import Finding
from kernel.store.files import FileStore
from runtime.secrets.redaction import redact
from runtime.text.lines import flat, shortened

CHANGE_CHARS, COMMAND_CHARS, REASON_CHARS = 32, 60, 40
"""Of a line before and after, of a command, and of why something failed."""
DEEPEST = 4
"""Loops inside each other whose steps are read."""
_LOOKS = {"cat", "cd", "diff", "echo", "find", "git", "grep", "head", "ls", "rg", "sed", "tail", "wc"}
"""Programs whose success verifies nothing."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_ERROR = re.compile(r"\b\w*(?:Error|Exception|Failure)\b(?::.*)?$")
_HELD = re.compile(r"held back: .+ (?:failed|does not hold): ")
"""How a proposed answer was held back whose check failed."""
_BEYOND = re.compile(r"\s*(?:;|\|\|)\s*true\s*$")
_TEST = re.compile(r"(?:^|[/_.-])tests?(?:[/_.-]|$)", re.IGNORECASE)
_PIECE = re.compile(r"\w+|\s+|.")


@dataclass(frozen=True)
class Correction:
    """A change of one file that ended well. Texts are one line each."""

    path: str
    before: str  # "" for an added line
    after: str  # "" for a removed line
    others: int = 0  # further files that were changed
    command: str = ""  # that verified it
    failed: str = ""  # what was tried before it
    why: str = ""  # that failed

    def told(self, most: int) -> str:
        """The correction in one line; what comes last is left out where that is longer than `most`."""
        change = f"`{self.before}` → `{self.after}`"
        if self.before == self.after:
            change = f"the spaces of `{self.after}`"
        elif not (self.before and self.after):
            change = f"added `{self.after}`" if self.after else f"removed `{self.before}`"
        more = f" and {self.others} more file{'s' if self.others > 1 else ''}" if self.others else ""
        text = f"changed {self.path}{more}: {change}"
        for part in (
            f"; checked with `{self.command}`" if self.command else "",
            f"; {self.failed}" if self.failed else "",
            f": {self.why}" if self.failed and self.why else "",
        ):
            if len(text) + len(part) > most:
                break
            text += part
        return text


def correction_of(document: Document, folder: Path) -> Correction | None:
    """What a loop corrected, from its document and those of the loops below it in the same folder.

    None where it changed no existing text.
    """
    steps = list(_steps(document, FileStore(folder)))
    edits = [step for step in steps if step.state == "done" and _touched(step)]
    changes = _changes(document.text(4, "diff")) or _edited(edits)
    touched = [path for step in reversed(edits) for path in _touched(step)]
    paths = [path for path in dict.fromkeys([*touched, *changes]) if path in changes]
    if not paths:
        return None
    path = min(paths, key=lambda each: bool(_TEST.search(each)))  # the first that is no test
    before, after = _differing(*map(redact, changes[path]))
    return Correction(
        path,
        before,
        after,
        len({*touched} & {*changes} - {path}),
        _command(document, steps),
        *_failed(document, steps, path),
    )


def _steps(document: Document, store: FileStore, depth: int = 0) -> Iterator[Step]:
    """The steps of a loop in order, those of a child in place of the step that it did."""
    for n in sorted(document.steps):
        step = document.steps[n]
        if step.share is not None and depth < DEEPEST:
            with suppress(FractalError, OSError):
                yield from _steps(store.peek(step.child), store, depth + 1)
        else:
            yield step


def _touched(step: Step) -> list[str]:
    """The files that an operation changed, by its evidence."""
    touched: Any = step.evidence.get("touched") or ()
    return [str(each["path"]) for each in touched if isinstance(each, Mapping) and each.get("path")]


def _changes(diff: str) -> dict[str, tuple[str, str]]:
    """The first changed line of each file of a diff, before and after; new files are left out."""
    found: dict[str, tuple[str, str]] = {}
    path, old, new = "", list[str](), list[str]()

    def keep() -> None:
        if (old or new) and path:
            found.setdefault(path, (old[0] if old else "", new[0] if new else ""))
        old.clear()
        new.clear()

    inside = False  # a hunk of a file that was there
    for line in diff.splitlines():
        if hunk := _HUNK.match(line):
            keep()
            inside = hunk[1] != "0"
        elif line.startswith(("-", "+")):
            if inside and line[1:].strip():
                (old if line[0] == "-" else new).append(line[1:].strip())
        else:
            keep()
            if not line.startswith((" ", "(", "[")):
                path, inside = line, False
    keep()
    return found


def _edited(edits: Sequence[Step]) -> dict[str, tuple[str, str]]:
    """The changes by the arguments of `edit`, where there is no diff."""
    return {
        _touched(step)[0]: (_first_line(args["old"]), _first_line(args["new"]))
        for step in edits
        if isinstance((args := step.args or {}).get("old"), str) and isinstance(args.get("new"), str)
    }


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _differing(before: str, after: str) -> tuple[str, str]:
    """Two lines; of long ones the beginning and the end are left out as far as they are the same."""
    old, new = (_PIECE.findall(text) for text in (before, after))
    shorter = min(len(old), len(new))
    same = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    head = tail = 0
    while head < same and max(map(_size, (old[head:], new[head:]))) > CHANGE_CHARS:
        head += 1
    while (
        max(map(_size, (old[head : len(old) - tail], new[head : len(new) - tail]))) > CHANGE_CHARS
        and tail < shorter - same
        and old[-1 - tail] == new[-1 - tail]
    ):
        tail += 1
    texts = ("".join(each[head : len(each) - tail]).strip() for each in (old, new))
    old_text, new_text = (f"{'…' if head else ''}{text}{'…' if tail else ''}" for text in texts)
    return _cut(old_text, CHANGE_CHARS), _cut(new_text, CHANGE_CHARS)


def _size(pieces: Sequence[str]) -> int:
    return sum(map(len, pieces))


def _command(document: Document, steps: Sequence[Step]) -> str:
    """The command that verified the work: a criterion, else the last one that ran after the last change."""
    for line in document.text(4, "evidence").splitlines():
        finding = Finding.read(line)
        if finding and finding.after and finding.before is not True and "run" in finding.criterion:
            return _shown(str(finding.criterion["run"]))
    last = max((place for place, step in enumerate(steps) if _touched(step)), default=len(steps))
    for step in reversed(steps[last + 1 :]):
        command = str((step.args or {}).get("command", "")).strip()
        proves = command and not _BEYOND.search(command) and command.split()[0] not in _LOOKS
        if step.state == "done" and proves:
            return _shown(command)
    return ""


def _failed(document: Document, steps: Sequence[Step], path: str) -> tuple[str, str]:
    """The first change after which a command or criterion failed, and why, if another change followed."""
    edits = [place for place, step in enumerate(steps) if _touched(step) and step.state == "done"]
    for place, step in enumerate(steps):
        made = [at for at in edits if at < place]
        if step.tool == "bash" and step.state == "failed" and made and edits[-1] > place:
            return _tried(steps[made[-1]], document, path), _why(step.result or "")
    for note in document.section(3).notes:
        if note.key == NOT_YET and _HELD.match(note.text):
            made, later = _around(document, steps, edits, turn_named(note))
            if made and later:
                return _tried(made[-1], document, path), _why(note.text.partition("\n")[2])
    missed = next((note for note in document.section(3).notes if note.key == NOT_YET), None)
    for finding in map(Finding.read, missed.text.splitlines() if missed else ()):
        if finding and finding.after is False and len(edits) > 1:
            return _tried(steps[edits[0]], document, path), _why(finding.note)
    return "", ""


def _around(
    document: Document, steps: Sequence[Step], edits: Sequence[int], turn: int
) -> tuple[list[Step], list[Step]]:
    """The changes that this loop made up to a turn, and those after it."""
    own = [steps[at] for at in edits if document.steps.get(steps[at].n) is steps[at]]
    return [step for step in own if turn_of(step) <= turn], [step for step in own if turn_of(step) > turn]


def _tried(step: Step, document: Document, path: str) -> str:
    """That a change did not help, or not alone."""
    (touched, *_), new = _touched(step), _first_line(str((step.args or {}).get("new", "")))
    what = f"`{_cut(new, CHANGE_CHARS)}`" if new and touched == path else touched
    stayed = any(line[:1] == "+" and new in line for line in document.text(4, "diff").splitlines())
    return f"{what} alone was not enough" if new and stayed else f"first {what} failed"


def _why(result: str) -> str:
    """The line of a result that says most: the last that names an error."""
    errors = [hit[0] for line in result.splitlines() if (hit := _ERROR.search(line.rstrip()))]
    return _cut(errors[-1] if errors else reason(result), REASON_CHARS)


def _shown(command: str) -> str:
    return _cut(flat(command), COMMAND_CHARS)


def _cut(text: str, most: int) -> str:
    """A text in backticks, or its beginning with an ellipsis."""
    return shortened(redact(text).replace("`", "'"), most)
