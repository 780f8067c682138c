"""What UNDERSTAND is offered to look at: the folder, its AGENTS.md, and what is known of tasks like this one.

It is written into §1, so that every prompt can be made from the document alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kernel.screening import shown_name
from kernel.snapshot import SKIPPED
from kernel.world import Held

FOLDER = "folder"
"""The source of the folder's listing."""
OFFERED = (FOLDER, "AGENTS.md")
MEMORY = "memory"
"""The sources of context that a run finds by itself and was not given; memory names its part behind it."""
WAY = f"{MEMORY}: way"
"""The source of how to go about it: in which way a model is asked."""
FOR_PLAN = (f"{MEMORY}: patterns", f"{MEMORY}: similar tasks", WAY)
"""What says how, not what: UNDERSTAND leaves it to PLAN."""
LISTED = 60
"""Names of files that the listing of the folder shows."""
COUNTED = 5_000
"""Files more that are counted."""
LOOKED_AT = 1_000
"""Folders that the listing looks into."""
AGENTS_CHARS = 4_000
"""Of an AGENTS.md, what is offered."""


def offer_context(held: Held) -> None:
    """Add the listing of the folder, and AGENTS.md, to §1 once."""
    offered = {note.source for note in held.doc.section(1).notes if note.key == "context"}
    if FOLDER not in offered:
        held.note(1, "context", listing(held.world.folder, held.world.protected), "kernel", FOLDER)
    if held.root and "AGENTS.md" not in offered:
        try:
            text = _agents(held.world.folder.resolve(), held.world.private)
        except OSError as error:
            held.emit(
                "warning", message=f"{held.world.folder / 'AGENTS.md'}: cannot be read: {error.strerror}"
            )
        else:
            if text is not None:
                held.note(1, "context", text, "tool:AGENTS.md", "AGENTS.md")
    if FOLDER not in offered and not any(map(of_memory, offered)):  # what came later is of no prompt
        for part, known in held.world.known(held.doc):
            held.note(1, "context", held.world.redact(known), "tool:memory", f"{MEMORY}: {part}")


def found_by_itself(source: str) -> bool:
    """Whether context from that source was found by the run, and not given to it."""
    return source in OFFERED or of_memory(source)


def of_memory(source: str) -> bool:
    """Whether context came from memory."""
    return source == MEMORY or source.startswith(f"{MEMORY}: ")


def _agents(folder: Path, private: Sequence[Path]) -> str | None:
    """What AGENTS.md says, None where there is none, or where it is a link that leads out of the folder."""
    try:
        target = (folder / "AGENTS.md").resolve()
    except RuntimeError:  # links in a circle
        return None
    if (
        folder not in target.parents
        or not target.is_file()
        or any(each in target.parents for each in private)
    ):
        return None
    with target.open("rb") as file:
        return file.read(4 * AGENTS_CHARS).decode("utf-8", "replace")[:AGENTS_CHARS]


def listing(folder: Path, protected: Sequence[Path] = ()) -> str:
    """The files below a folder, with sizes; the nearest first, at most `LISTED`; `protected` is left out."""
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
    """The names of files in a folder, and those of the folders to look at next, as paths with a slash."""
    names: list[str] = []
    folders: list[str] = []
    with suppress(OSError), os.scandir(root / inside) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            elif entry.name not in SKIPPED and not entry.name.startswith("."):
                folders += [f"{inside}{entry.name}/"] if root / inside / entry.name not in protected else []
    return sorted(names), sorted(folders)
