"""Which store the setting `store` means, and where it lies."""

from __future__ import annotations

from pathlib import Path

from kernel.errors import ConfigurationError
from runtime.places import brain_place
from runtime.store.shelf import Keeper, Shelf

STORES = ("sqlite", "files", "memory")


def open_shelf(store: str, folder: Path, *, fsync: bool = True) -> Shelf:
    """The shelf in `folder` (a workspace's `state/memory`), made when it is not there."""
    return Shelf(_keeper(store, folder, fsync))


def _keeper(store: str, folder: Path, fsync: bool) -> Keeper:
    if store == "sqlite":
        from runtime.store.sqlite import SqliteKeeper

        return SqliteKeeper(brain_place(store, folder), fsync=fsync)
    if store == "files":
        from runtime.store.files import FilesKeeper

        return FilesKeeper(brain_place(store, folder), fsync=fsync)
    if store == "memory":
        from runtime.store.memory import MemoryKeeper

        return MemoryKeeper()
    raise ConfigurationError(f"store: {store!r} is not {', '.join(STORES)}")
