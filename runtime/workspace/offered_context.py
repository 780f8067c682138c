"""The context that a run finds by itself.

It is the listing of its folder, the small files that the task names, AGENTS.md, and what memory knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kernel.asking.messages import fenced
from kernel.asking.prompt import BACKGROUND, FOLDER, GUIDANCE, MEMORY, NAMED
from kernel.document.escaping import fingerprint
from kernel.document.model import Document, Note
from kernel.errors import OperationFailed
from kernel.loop.run_context import RunContext
from runtime.found_files import SKIPPED
from runtime.sandbox.ignored import Ignored, named
from runtime.secrets.redaction import redact
from runtime.text.shown import shown_name
from runtime.workspace.found import Guidance

LISTED = 60
"""Maximum files in the listing of the folder."""
COUNTED = 5_000
"""Maximum further files that are counted."""
LOOKED_AT = 1_000
"""Maximum folders that the listing visits."""
SMALL_FILE, SMALL_FILES = 2_000, 4_000
"""Maximum bytes of a file that a task names and that is shown from the start, and of all such files."""
_PATH = re.compile(r"(?<![\w./-])[\w-][\w./-]*\.\w+")

Known = Callable[[Document], Sequence[tuple[str, str]]]
"""Returns what memory offers a loop, within its level's budget: the name and text of each part."""


def offered_context(
    run: RunContext, remembered: Known, guidance: Callable[[], Guidance | None], document: Document
) -> Iterator[Note]:
    """The notes of §1 for a loop; guidance only for the root, which passes on what matters.

    Guidance comes first: the listing differs after an attempt, and a provider's cache ends where prompts
    differ.
    """
    known = None if document.meta.parent else guidance()
    if known and known.problem:
        run.warn(f"{known.path}: {known.problem}")
    elif known and known.text:
        yield Note("context", redact(known.text), "tool:instructions", f"{GUIDANCE}{known.name}")
    yield Note("context", listing(run.folder, run.protected), "kernel", FOLDER)
    yield from _named_files(run, document.text(1, "task"), known.name if known else "")
    for part, text in remembered(document):
        yield Note("context", redact(text), "tool:memory", f"{MEMORY}: {part}")


def understood(run: RunContext, document: Document, characters: int) -> tuple[str, str]:
    """What a capable model's first message shows of the folder: the names of the parts, and their text.

    `characters` is the limit of what is shown of files.
    """
    from runtime.understanding import gather  # grammars take time to load

    hidden = (*run.protected, *run.private)
    task = "\n".join(note.text for note in document.section(1).notes if note.key in ("task", BACKGROUND))
    found = gather(
        run.folder, task, characters=characters, hidden=hidden, readable=run.context(None).readable
    )
    parts = [("Folder", found.listing), *found.by_file()]
    text = "\n\n".join(f"## {shown_name(name)}\n{fenced(text)}" for name, text in parts if text)
    left = f"\n\nNot shown for want of room: {', '.join(found.left)}" if found.left else ""
    names = [f"{each.name} {fingerprint(each.text)[:8]}" for each in found.shown]
    listed = [*names, *(f"not shown: {each}" for each in found.left), found.listing]
    return "\n".join(filter(None, listed)), f"{text}{left}"


def _named_files(run: RunContext, task: str, shown: str) -> Iterator[Note]:
    """The small text files that a task names, without the one `shown` already. A look would cost a call."""
    left = SMALL_FILES
    for name in dict.fromkeys(_PATH.findall(task)):
        with suppress(OSError, ValueError, OperationFailed):
            path = run.context(None).readable(name)
            size = path.stat().st_size
            if name == shown or not path.is_file() or not 0 < size <= min(SMALL_FILE, left):
                continue
            text = path.read_text("utf-8")
            if "\0" not in text:
                left -= size
                yield Note("context", redact(text.rstrip("\n")), "tool:read", f"{NAMED}{name}")


def listing(folder: Path, protected: Sequence[Path] = ()) -> str:
    """The files below a folder with their sizes, the nearest first, at most `LISTED`, without `protected`.

    What git ignores is named at the end.
    """
    root = folder.resolve()
    git, ignored = Ignored(root), list[str]()
    lines: list[str] = []
    more = looked = 0
    pending = [""]
    left = set[str]()  # folders that git ignores and that have tracked files
    while pending and looked < LOOKED_AT and more <= COUNTED:
        inside = pending.pop()
        looked += 1
        names, folders = _names(root, inside, protected)
        found = (*(f"{inside}{name}" for name in names), *folders)
        out = {each for each in found if git.ignores(each, inside in left)}
        left |= (some := {each for each in out if git.holds_tracked(each)})
        ignored += sorted(out - some) if inside not in left else []
        folders = [each for each in folders if each not in out or each in some]
        for name in names:
            if f"{inside}{name}" in out:
                continue
            if len(lines) >= LISTED:
                more += 1
                continue
            with suppress(OSError):
                size = (root / f"{inside}{name}").lstat().st_size
                lines.append(f"{shown_name(f'{inside}{name}')} {size}")
        pending += reversed(folders)
    if more or pending:
        cut = more > COUNTED or pending
        lines.append(f"… and {f'more than {min(more, COUNTED)}' if cut else more} files more")
    if ignored:
        lines.append(f"(ignored by git: {named(ignored)})")
    return "\n".join(lines) or "(the folder is empty)"


def _names(root: Path, inside: str, protected: Sequence[Path]) -> tuple[list[str], list[str]]:
    """The names of the files in a folder, and the paths of its subfolders with a trailing slash."""
    names: list[str] = []
    folders: list[str] = []
    with suppress(OSError), os.scandir(root / inside) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                names += [entry.name] if entry.name != ".git" else []
            elif entry.name not in SKIPPED and not entry.name.startswith("."):
                folders += [f"{inside}{entry.name}/"] if root / inside / entry.name not in protected else []
    return sorted(names), sorted(folders)
