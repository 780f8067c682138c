"""What UNDERSTAND is offered to look at: the folder, its AGENTS.md, the index of nothing else.

It is written into §1, so that every prompt can be made from the document alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kernel.evidence import SKIPPED
from kernel.world import Held

LISTED = 60
"""Names of files that the listing of the folder shows."""
AGENTS_CHARS = 4_000
"""Of an AGENTS.md, what is offered."""


def offer_context(held: Held) -> None:
    """Add the listing of the folder, and AGENTS.md, to §1 once."""
    offered = {note.source for note in held.doc.section(1).notes if note.key == "context"}
    if "folder" not in offered:
        held.note(1, "context", listing(held.world.folder, held.world.protected), "kernel", "folder")
    agents = held.world.folder / "AGENTS.md"
    if held.root and "AGENTS.md" not in offered and agents.is_file():
        try:
            text = agents.read_text("utf-8", errors="replace")[:AGENTS_CHARS]
        except OSError as error:
            held.emit("warning", message=f"{agents}: cannot be read: {error.strerror}")
        else:
            held.note(1, "context", text, "tool:AGENTS.md", "AGENTS.md")


def listing(folder: Path, protected: Sequence[Path] = ()) -> str:
    """The files below a folder, with sizes; the nearest first, at most `LISTED`; `protected` is left out."""
    found: list[str] = []
    more = 0
    for where, folders, files in os.walk(folder):
        shown = (name for name in folders if name not in SKIPPED and not name.startswith("."))
        folders[:] = sorted(name for name in shown if Path(where, name).resolve() not in protected)
        for name in sorted(files):
            if len(found) >= LISTED:
                more += 1
                continue
            path = Path(where, name)
            try:
                size = path.lstat().st_size
            except OSError:
                continue
            found.append(f"{path.relative_to(folder).as_posix()} {size}")
        if more > 5_000:
            break
    if more:
        found.append(f"… and {'more than ' if more > 5_000 else ''}{more} files more")
    return "\n".join(found) or "(the folder is empty)"
