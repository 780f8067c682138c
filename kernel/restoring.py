"""Making paths of a folder what they were in a snapshot."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from kernel import disk
from kernel.errors import OperationFailed
from kernel.trees import State, Trees


def restore(trees: Trees, wanted: Mapping[str, State | None]) -> None:
    """Make these paths what they were; None: nothing stood there. Raises `OperationFailed`, `OSError`."""
    folder = trees.shadow.folder
    for path in wanted:
        _refuse_link(folder, path, wanted)
    texts = trees.bytes_of({state.oid for state in wanted.values() if state and state.oid and state.kept})
    for path in sorted(wanted, key=_depth, reverse=True):
        _clear(folder, path, wanted[path])
    folders = {path: each for path, each in wanted.items() if each and stat.S_ISDIR(each.mode)}
    for path in sorted(folders, key=_depth):
        full = folder / path
        full.mkdir(parents=True, exist_ok=True)
        full.chmod(stat.S_IMODE(folders[path].mode) | 0o700)
    for path, state in wanted.items():
        if state and not stat.S_ISDIR(state.mode) and state.kept:
            _put(folder / path, state, texts[state.oid])
    for path in sorted(folders, key=_depth, reverse=True):
        (folder / path).chmod(stat.S_IMODE(folders[path].mode))


def sweep(folder: Path, paths: Collection[str]) -> None:
    """Remove what a `restore` of these paths that was cut short left half-written beside them."""
    names: dict[Path, list[str]] = {}
    for path in paths:
        names.setdefault((folder / path).parent, []).append(Path(path).name)
    for parent, each in names.items():
        if not any(above.is_symlink() for above in (parent, *parent.parents) if folder in above.parents):
            disk.sweep(parent, *each)


def _refuse_link(folder: Path, path: str, wanted: Mapping[str, State | None]) -> None:
    """Raise `OperationFailed` where a link that stays would lead away from the folder."""
    for parent in Path(path).parents:
        if (folder / parent).is_symlink() and str(parent) not in wanted:
            raise OperationFailed(f"{path}: {folder / parent} is a link now; move it away first")


def _clear(folder: Path, path: str, state: State | None) -> None:
    """Remove what stands in the way of that state; a folder that is not empty stays."""
    full = folder / path
    if any((folder / parent).is_symlink() for parent in Path(path).parents):
        return  # what is there is not the folder's
    try:
        mode = full.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if state and stat.S_IFMT(mode) == stat.S_IFMT(state.mode):
        return
    if stat.S_ISDIR(mode):
        with suppress(OSError):
            full.rmdir()
    else:
        full.unlink()


def _put(full: Path, state: State, raw: bytes) -> None:
    full.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(state.mode):
        beside = disk.beside(full)
        beside.symlink_to(os.fsdecode(raw))
        beside.replace(full)
        return
    disk.put(full, raw, mode=0o600)
    full.chmod(stat.S_IMODE(state.mode))


def _depth(path: str) -> int:
    return path.count("/")
