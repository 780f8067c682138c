"""What is remembered: how things are done, what is known, what happened."""

from __future__ import annotations

from pathlib import Path

RUNG = "memory"
"""What documents call the rung that answers from memory."""
DIRECT = "reflex"
"""The rung that memory's methods are read by, as what ships is."""
DREAM = "dream"
"""The type of a dream's document, and the tool that its steps call; it teaches memory nothing."""


def methods_of(by: str, folder: Path) -> list[str]:
    """The learned methods, of those in a folder, among the reflexes that a task was read by."""
    return [name for name in by.removeprefix("reflex:").split("+") if (folder / f"{name}.md").is_file()]
