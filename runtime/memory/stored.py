"""Where a workspace's memory lies: its shelf and its embedder, both opened when they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel import disk
from runtime.memory.embed.choosing import Deferred, resolve_embedder
from runtime.memory.store import Shelf, share_shelf
from runtime.memory.store.record import FORMAT
from runtime.memory.tasks import ALL, Parts
from runtime.workspace.settings import Config
from runtime.workspace.workspace import brain_exists, brain_place

if TYPE_CHECKING:
    from runtime.memory.embed import Embedder
    from runtime.memory.tasks.methods import Files


@dataclass(frozen=True)
class Settings:
    """Where a workspace's memory is, and what it is made with."""

    folder: Path  # state/memory
    systems: tuple[Path, ...]
    files: Callable[[], Files]  # writes and reads methods; made on first use
    config: Config
    parts: Parts = ALL


class Stored:
    """A memory that can be read and written. `Brain` adds what is learned of runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.config = settings, settings.config
        self._shelf: Shelf | None = None
        self._opening = threading.Lock()  # threads of a server ask for it at once

    @property
    def shelf(self) -> Shelf:
        """The shelf, created if missing. Raises `FractalError` when it cannot be opened."""
        with self._opening:
            if self._shelf is None:
                with disk.writing_state(self.settings.folder):
                    self.settings.folder.mkdir(parents=True, exist_ok=True)
                shelf = share_shelf(self.config.store, self.settings.folder, fsync=self.config.fsync)
                if shelf.keeper.version() < FORMAT:
                    self._migrate(shelf)
                self._shelf = shelf
            return self._shelf

    def _migrate(self, shelf: Shelf) -> None:
        from runtime.memory.facts.migration import part_all
        from runtime.memory.store.migration import migrate

        try:
            place = brain_place(self.config.store, self.settings.folder)
            migrate(shelf, place, partial(part_all, systems=self.settings.systems))
        except BaseException:
            shelf.close()
            raise

    @property
    def there(self) -> bool:
        """Whether there is a store; none is opened."""
        return self._shelf is not None or brain_exists(self.config.store, self.settings.folder)

    def close(self) -> None:
        """Close the store."""
        if self._shelf is not None:
            self._shelf.close()
        self._shelf = None

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the settings, loaded at the first question and shared by the runs of a process."""
        setting = self.config.embedder, self.config.embedder_folder
        return _embedder(*setting, resolve_embedder(*setting))


@lru_cache(maxsize=8)
def _embedder(setting: str, folder: str | None, weights: tuple[str, str]) -> Embedder:
    """One embedder per process and setting; `weights` differs when they come or go."""
    return Deferred(setting, folder)
