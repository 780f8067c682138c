"""Brings a store of an earlier format to the present one: once, in one transaction, after a backup beside it.

One process migrates while others wait. A process that is killed leaves the store as it was, and the next one
to open it begins again, with a backup of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kernel import disk
from kernel.errors import StorageError
from runtime import locks
from runtime.memory.store.record import FORMAT
from runtime.memory.store.shelf import Shelf

PATIENCE = 600.0
"""Seconds to wait for another process that migrates."""
BACKUP = "format-"
"""How the ending of a backup begins, behind the name of the store."""


def migrate(shelf: Shelf, store: Path, step: Callable[[Shelf], str]) -> Path | None:
    """Let `step` change what an earlier format holds, and say what it did; returns the backup of `store`.

    None if another process was quicker. Raises `StorageError`; then the store is as it was.
    """
    busy = StorageError(f"{store}: another process is migrating it; retry when that is done")
    with locks.lock(store.with_name("migration.lock"), PATIENCE, lambda: busy):
        if (earlier := shelf.keeper.version()) >= FORMAT:
            return None
        backup = _backed_up(shelf, store, earlier)
        with shelf.transaction():
            did = step(shelf)
            shelf.keeper.set_version(FORMAT)
    logging.getLogger(__name__).warning(
        "%s: migrated from format %d to %d: %s; a backup is in %s", store, earlier, FORMAT, did, backup
    )
    return backup


def _backed_up(shelf: Shelf, store: Path, earlier: int) -> Path:
    """A complete copy of the store under a name of its own."""
    name = f"{store.name}.{BACKUP}{earlier}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (store.with_name(name + number) for number in ("", *(f"-{n}" for n in range(2, 100))))
    backup = next(each for each in names if not each.exists())
    part = store.with_name(f"{store.name}.unfinished-backup")
    try:
        with disk.writing_state(part):
            remove(part)
            shelf.keeper.back_up(part)
            disk.move(part, backup)
    except StorageError as error:
        with suppress(OSError):
            remove(part)
        raise StorageError(
            f"{error}; nothing is migrated from format {earlier} to {FORMAT} before there is a backup"
        ) from error
    return backup


def remove(backup: Path) -> None:
    """Remove a backup, a file or a folder, if it exists. Raises `OSError`."""
    if backup.is_dir():
        disk.remove_all(backup)
    else:
        disk.remove(backup)


def backups(store: Path) -> list[Path]:
    """The backups of a store that migrations made, the oldest first."""
    return sorted(store.parent.glob(f"{store.name}.{BACKUP}*"))
