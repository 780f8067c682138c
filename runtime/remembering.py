"""A workspace's memory as its runs use it: loaded where it is needed, and never the fault of a run."""

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
from runtime.memory.noted import note

if TYPE_CHECKING:
    from runtime.memory.brain import Brain
    from runtime.responders.reflexes.trial import Trial

PLACES = {"sqlite": "brain.sqlite3", "files": "brain"}


class Remembering:
    """The memory of one workspace; a run of reflexes where nothing was ever learned loads none of it."""

    def __init__(self, workspace: Workspace, config: Config, systems: Sequence[Path]) -> None:
        self.folder = workspace.state / "memory"
        self.config = config
        self._systems = tuple(systems)
        self._brain: Brain | None = None

    @property
    def there(self) -> bool:
        """Whether anything was learned here."""
        return self._brain is not None or (self.folder / PLACES.get(self.config.store, "-")).exists()

    @property
    def methods(self) -> Path:
        """The folder of learned methods, which are read as reflexes are."""
        return self.folder / "methods"

    @property
    def brain(self) -> Brain:
        """The memory itself, as the settings have it."""
        if self._brain is None:
            self._brain = self._load()
        return self._brain

    def _load(self) -> Brain:
        from runtime.memory.brain import Brain, Settings

        config = self.config
        return Brain(
            Settings(
                self.folder,
                self._systems,
                config.store,
                config.embedder,
                config.embedder_folder,
                config.remember,
                config.recall,
                config.fsync,
                observe=tuple(config.observe),
                files=partial(_trial, self._systems),
            )
        )

    def known(self, document: Document) -> str:
        """How tasks like a document's own were solved; nothing where memory cannot be read."""
        if document.meta.type != "task" or not self.there:
            return ""
        try:
            return self.brain.examples(document.text(1, "task"))
        except FractalError:
            return ""  # the end of the run says what is wrong with the store

    def end(self, folder: Path, warn: Callable[[str], None]) -> None:
        """After a run, or a part of it: what its loops taught is kept; what hinders that is said."""
        if not self.config.remember:
            return
        store = FileStore(folder)
        try:
            documents = [store.peek(loop) for loop in store.list()]
            note(self.folder, folder.name)
            others = not all(map(_by_reflex, documents))
            if self.there or others:
                self.brain.end(documents, now())
            if others:
                self.brain.episodes.catch_up()
        except (FractalError, OSError) as error:
            warn(f"what this run taught is not remembered: {error}")

    def feedback(self, run: str, good: bool) -> None:
        """A person's word on a run, for what it used or taught."""
        if self.config.remember:
            note(self.folder, run)
        if self.there:
            self.brain.feedback(run, good)


def _by_reflex(document: Document) -> bool:
    """Whether no rung but the reflexes has answered in a loop: that teaches nothing."""
    return all(each.get("rung") == "reflex" for each in document.meta.rungs)


def _trial(systems: tuple[Path, ...]) -> Trial:
    from runtime.responders.reflexes.trial import Trial  # only what learns reads phrasings for it

    return Trial(systems)
