"""The store of records: put, get, delete, scan, nearest by vector, search by text, in transactions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kernel.errors import ConfigurationError
from runtime.memory.store.filters import Between, Where
from runtime.memory.store.record import Fault, Hit, Record, pack
from runtime.memory.store.shelf import Shelf
from runtime.workspace.workspace import POSTGRES, brain_place

if TYPE_CHECKING:
    from runtime.memory.store.sqlite import SqliteKeeper

__all__ = ["Between", "Fault", "Hit", "Record", "Shelf", "Where", "open_shelf", "pack", "share_shelf"]

STORES = ("sqlite", "files", "memory", "postgres:NAME")


def open_shelf(store: str, folder: Path, *, fsync: bool = True) -> Shelf:
    """The shelf in `folder` (a workspace's `state/memory`), created if missing; `store` is in `STORES`."""
    return Shelf(_keeper(store, folder, fsync))


_sharing = threading.Lock()
_shared: WeakValueDictionary[tuple[object, ...], Shelf] = WeakValueDictionary()


def share_shelf(store: str, folder: Path, *, fsync: bool = True) -> Shelf:
    """The same, or the shelf that this process already has open there: its runs share one connection.

    Each caller closes it; the last one to do so closes the files.
    """
    with _sharing:
        shelf = _shared.get(_key(store, folder, fsync))
        if shelf is None or not shelf.share():
            shelf = open_shelf(store, folder, fsync=fsync)
            _shared[_key(store, folder, fsync)] = shelf
        return shelf


def _key(store: str, folder: Path, fsync: bool) -> tuple[object, ...]:
    """By inode, so that a store that was replaced on disk is opened anew; one in memory has no place."""
    place, settings = brain_place(store, folder), (store, fsync)
    if store.startswith(POSTGRES):
        return (str(place), *settings)
    try:
        seen = place.stat()
    except OSError:
        return (object(),)
    return (seen.st_dev, seen.st_ino, str(place), *settings)


def _keeper(store: str, folder: Path, fsync: bool) -> SqliteKeeper:
    from runtime.memory.store.sqlite import SqliteKeeper

    if store == "sqlite":
        return SqliteKeeper(brain_place(store, folder), fsync=fsync)
    if store == "files":
        from runtime.memory.store.files import FilesKeeper

        return FilesKeeper(brain_place(store, folder), fsync=fsync)
    if store == "memory":
        return SqliteKeeper()
    if store.startswith(POSTGRES):
        try:
            from runtime.memory.store.postgres import PostgresKeeper
        except ImportError as error:
            raise ConfigurationError(
                f"store: {store} needs psycopg ({error}): pip install 'fractal-runtime[postgres]'"
            ) from None
        return PostgresKeeper(store.removeprefix(POSTGRES), brain_place(store, folder), fsync=fsync)
    raise ConfigurationError(f"store: {store!r} is not {', '.join(STORES)}")
