"""The context offered to UNDERSTAND: the folder's files, AGENTS.md, and what memory knows of similar tasks.

It is written into §1, so that every prompt is derived from the document alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kernel.asking.prompt import FOLDER, MEMORY, OFFERED
from kernel.disk import SKIPPED
from kernel.document.redaction import shown_name
from kernel.errors import OperationFailed
from kernel.loop.run_context import Session

LISTED = 60
"""Maximum files in the listing of the folder."""
COUNTED = 5_000
"""Maximum further files that are counted."""
LOOKED_AT = 1_000
"""Maximum folders that the listing visits."""
AGENTS_CHARS = 4_000
"""Maximum characters of AGENTS.md."""


def offer_context(session: Session) -> None:
    """Add the folder's listing, AGENTS.md and memory to §1, each once."""
    offered = {note.source for note in session.doc.section(1).notes if note.key == "context"}
    if FOLDER not in offered:
        session.note(1, "context", listing(session.run.folder, session.run.protected), "kernel", FOLDER)
    if session.root and "AGENTS.md" not in offered:
        with suppress(OperationFailed):  # private, or a link to outside the folder
            _offer_agents(session, session.run.context(None).readable("AGENTS.md"))
    if FOLDER not in offered and not any(map(of_memory, offered)):
        for part, known in session.run.known(session.doc):
            session.note(1, "context", session.run.redact(known), "tool:memory", f"{MEMORY}: {part}")


def _offer_agents(session: Session, path: Path) -> None:
    try:
        if path.is_file():
            with path.open("rb") as file:
                text = file.read(4 * AGENTS_CHARS).decode("utf-8", "replace")[:AGENTS_CHARS]
            session.note(1, "context", text, "tool:AGENTS.md", "AGENTS.md")
    except OSError as error:
        session.emit(
            "warning", message=f"{session.run.folder / 'AGENTS.md'}: cannot be read: {error.strerror}"
        )


def found_by_itself(source: str) -> bool:
    """Whether the run found the context from this source itself."""
    return source in OFFERED or of_memory(source)


def of_memory(source: str) -> bool:
    """Whether this source is memory."""
    return source == MEMORY or source.startswith(f"{MEMORY}: ")


def listing(folder: Path, protected: Sequence[Path] = ()) -> str:
    """The files below a folder with their sizes, the nearest first, at most `LISTED`, without `protected`."""
    root = folder.resolve()
    found: list[str] = []
    more = looked = 0
    pending = [""]
    while pending and looked < LOOKED_AT and more <= COUNTED:
        inside = pending.pop()
        looked += 1
        names, folders = _names(root, inside, protected)
        for name in names:
            if len(found) >= LISTED:
                more += 1
                continue
            with suppress(OSError):
                size = (root / f"{inside}{name}").lstat().st_size
                found.append(f"{shown_name(f'{inside}{name}')} {size}")
        pending += reversed(folders)
    if more or pending:
        cut = more > COUNTED or pending
        found.append(f"… and {f'more than {min(more, COUNTED)}' if cut else more} files more")
    return "\n".join(found) or "(the folder is empty)"


def _names(root: Path, inside: str, protected: Sequence[Path]) -> tuple[list[str], list[str]]:
    """The names of the files in a folder, and the paths of its subfolders with a trailing slash."""
    names: list[str] = []
    folders: list[str] = []
    with suppress(OSError), os.scandir(root / inside) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            elif entry.name not in SKIPPED and not entry.name.startswith("."):
                folders += [f"{inside}{entry.name}/"] if root / inside / entry.name not in protected else []
    return sorted(names), sorted(folders)
