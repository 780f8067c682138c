"""A workspace's memory as its runs use it: no fault of the store is ever a fault of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.document import Document
from kernel.errors import FractalError
from kernel.events import now
from kernel.store import FileStore
from kernel.workspace import Workspace
from runtime.config import Config
from runtime.memory.brain import Brain, Settings

if TYPE_CHECKING:
    from runtime.responders.reflexes.trial import Trial


def brain_of(workspace: Workspace, config: Config, systems: Sequence[Path]) -> Brain:
    """The memory that the settings mean."""
    return Brain(
        Settings(
            workspace.state / "memory",
            tuple(systems),
            config.store,
            config.embedder,
            config.embedder_folder,
            config.remember,
            config.recall,
            config.fsync,
            files=partial(_trial, tuple(systems)),
        )
    )


def _trial(systems: tuple[Path, ...]) -> Trial:
    from runtime.responders.reflexes.trial import Trial  # only what learns reads phrasings for it

    return Trial(systems)


def known(brain: Brain, document: Document) -> str:
    """How tasks like a document's own were solved; nothing where memory cannot be read."""
    if document.meta.type != "task":
        return ""
    try:
        return brain.examples(document.text(1, "task"))
    except FractalError:
        return ""  # the end of the run says what is wrong with the store


def remember(brain: Brain, folder: Path, warn: Callable[[str], None]) -> None:
    """After a run, or a part of it: what its loops taught is kept; what hinders that is said."""
    if not brain.settings.remember:
        return
    store = FileStore(folder)
    try:
        brain.end([store.peek(loop) for loop in store.list()], now())
    except (FractalError, OSError) as error:
        warn(f"what this run taught is not remembered: {error}")
