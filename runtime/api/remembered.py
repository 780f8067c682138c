"""A workspace as far as its facts need it: its settings and its memory, nothing that runs need.

`fractal remember` and `fractal recall` are short: importing a whole `Fractal` would take most of their time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from runtime.memory.episodes import pending
from runtime.memory.stored import Settings, Stored
from runtime.workspace.settings import load, user_file
from runtime.workspace.workspace import POSTGRES, Workspace, brain_exists, shipped_system, space_of


class Remembered:
    """What `knowledge` uses of a `Fractal`."""

    def __init__(self, folder: str | Path) -> None:
        self.workspace = Workspace.find(Path(folder), shipped_system())
        self.config, self._sources = load(self.workspace.root, {})
        self.folder = space_of(self.workspace.state, self.config.space)
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def suffices(self) -> bool:
        """Whether nothing needs a whole `Fractal`: no run is to be read first, no setting to be trusted."""
        shared = ("store",) if self.config.store.startswith(POSTGRES) else ()
        names = ("embedder", "embedder_folder", *shared)
        own = ("default", *(f"FRACTAL_{name.upper()}" for name in names), str(user_file()))
        trusted = all(self._sources[name] in own for name in names)
        return trusted and not (pending.waiting(self.folder) or pending.postponed(self.folder))

    @property
    def memory(self) -> Remembered:
        """Itself: it has the folder, the clock and the store."""
        return self

    @property
    def there(self) -> bool:
        """Whether there is a memory."""
        return brain_exists(self.config.store, self.folder)

    @cached_property
    def brain(self) -> Stored:
        """The memory, opened when needed."""
        systems = self.workspace.systems if self.config.shipped else self.workspace.systems[:1]
        return Stored(Settings(self.folder, systems, _no_methods, self.config))


def _no_methods() -> NoReturn:
    raise AssertionError("facts need no methods")
