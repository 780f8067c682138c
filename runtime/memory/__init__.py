"""What is remembered: how things are done, what is known, what happened."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kernel.document.model import Document

RUNG = "memory"
"""What documents call the rung that answers from memory."""
FACTS = "facts"
"""What they call the rung that answers a question from what is known."""
DIRECT = "reflex"
"""The rung that memory's methods are read by, as what ships is."""
WITHOUT_MODEL = (DIRECT, RUNG, FACTS)
"""The rungs whose answers teach memory nothing."""
NOT_CERTAIN = "Memory is not certain. What it has:"
"""What stands above lines that are only near to a question."""
DREAM = "dream"
"""The type of a dream's document, and the tool that its steps call; it teaches memory nothing."""

REPLAY = "replay:"
"""How the name of a rung begins that answers from a run's log; it teaches memory nothing."""


def teaches(documents: Collection[Document]) -> bool:
    """Whether a run is one that memory learns from: no dream, and not answered from another run's log."""
    dreamt = any(each.meta.type == DREAM and not each.meta.parent for each in documents)
    asked = (str(rung.get("rung", "")) for each in documents for rung in each.meta.rungs)
    return not dreamt and not any(name.startswith(REPLAY) for name in asked)


def methods_of(by: str, folder: Path) -> list[str]:
    """The learned methods, of those in a folder, among the reflexes that a task was read by."""
    return [name for name in by.removeprefix("reflex:").split("+") if (folder / f"{name}.md").is_file()]
