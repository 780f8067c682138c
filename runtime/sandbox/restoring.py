"""Restores paths of a folder from snapshots: for one step, or for an undo of several."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernel import disk
from kernel.document.model import Step
from kernel.errors import OperationFailed, UsageError
from runtime.own import why_own
from runtime.sandbox.changes import notable
from runtime.sandbox.inside import make_folder, set_mode
from runtime.sandbox.trees import Moved, State, Trees, is_folder
from runtime.text.shown import shown_name

if TYPE_CHECKING:
    from runtime.sandbox.snapshot import Snapshots

Pair = tuple[str, str]
"""The snapshots before and after something."""
_SHOWN = 10


def restore(trees: Trees, target: Mapping[str, State | None], *, fsync: bool = True) -> None:
    """Restore these paths to a state; None: remove. Raises `OperationFailed`, `OSError`."""
    folder = trees.shadow.folder
    for path in target:
        _refuse_link(folder, path, target)
    texts = trees.bytes_of({state.oid for state in target.values() if state and state.oid and state.kept})
    for path in sorted(target, key=_depth, reverse=True):
        _clear(folder, path, target[path])
    folders = {path: each for path, each in target.items() if each and stat.S_ISDIR(each.mode)}
    for path in sorted(folders, key=_depth):
        make_folder(folder, path)
        set_mode(folder, path, folders[path].mode | 0o700)
    for path, state in target.items():
        if state and not stat.S_ISDIR(state.mode) and state.kept:
            make_folder(folder, path.rpartition("/")[0])
            _put(folder / path, state, texts[state.oid], fsync)
    for path in sorted(folders, key=_depth, reverse=True):
        set_mode(folder, path, folders[path].mode)


def sweep(folder: Path, paths: Collection[str]) -> None:
    """Remove temporary files that an interrupted `restore` of these paths left."""
    names: dict[Path, list[str]] = {}
    for path in paths:
        names.setdefault((folder / path).parent, []).append(Path(path).name)
    for parent, leftovers in names.items():
        if not any(above.is_symlink() for above in (parent, *parent.parents) if folder in above.parents):
            disk.sweep(parent, *leftovers)


def _refuse_link(folder: Path, path: str, target: Mapping[str, State | None]) -> None:
    """Raise `OperationFailed` if a remaining link would lead out of the folder."""
    for parent in Path(path).parents:
        if (folder / parent).is_symlink() and str(parent) not in target:
            raise OperationFailed(f"{path}: {folder / parent} is a link now; move it away first")


def _clear(folder: Path, path: str, state: State | None) -> None:
    """Remove what blocks that state; a folder that is not empty stays."""
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


def _put(full: Path, state: State, raw: bytes, fsync: bool) -> None:
    if stat.S_ISLNK(state.mode):
        beside = disk.temporary_path(full)
        beside.symlink_to(os.fsdecode(raw))
        beside.replace(full)
        return
    disk.put(full, raw, mode=0o600, fsync=fsync)
    full.chmod(stat.S_IMODE(state.mode))


def _depth(path: str) -> int:
    return path.count("/")


@dataclass(frozen=True)
class UndoResult:
    """Snapshots before and after an undo, and a line for each file."""

    before: str
    after: str
    lines: tuple[str, ...]


def pairs_of(steps: Iterable[Step], now: str) -> list[Pair]:
    """Snapshots of these steps; an interrupted one is compared with the folder as it is `now`."""
    evidence = (step.evidence for step in steps)
    return [
        (each["tree_before"], each.get("tree_after", now)) for each in evidence if each.get("tree_before")
    ]


def net_changes(snapshots: Snapshots, pairs: Sequence[Pair]) -> dict[str, Moved]:
    """Net changes of these steps, oldest first."""
    found: dict[str, Moved] = {}
    for pair in pairs:
        for path, (before, after) in snapshots.trees.changes(*pair).items():
            found[path] = (found[path][0] if path in found else before, after)
    return {path: (before, after) for path, (before, after) in found.items() if before != after}


def undo_pairs(
    snapshots: Snapshots,
    run: str,
    pairs: Sequence[Pair],
    *,
    force: bool = False,
    again: bool = False,
    begins: Callable[[str], None] = lambda _: None,
) -> UndoResult:
    """Undo the changes between these snapshots, the newest pair first; the caller holds the turn."""
    moved = [snapshots.trees.changes(*each) for each in pairs]
    return put_back(snapshots, run, moved, force=force, again=again, begins=begins)


def put_back(
    snapshots: Snapshots,
    run: str,
    per_pair: Sequence[Mapping[str, Moved]],
    *,
    force: bool = False,
    again: bool = False,
    begins: Callable[[str], None] = lambda _: None,
) -> UndoResult:
    """Bring paths from their second state back to their first; the caller holds the turn.

    `begins` is called with the snapshot of the folder as it is, just before it is changed. `again` says that
    an undoing of the same was cut short. Raises `UsageError`, with nothing changed, for what somebody has
    changed since; `force` ignores that.
    """
    paths = {path for each in per_pair for path in each}
    if again:
        sweep(snapshots.folder, paths)
    now = snapshots.take(run)
    current = snapshots.trees.states(now, paths)
    target: dict[str, State | None] = {path: current.get(path) for path in paths}
    since: set[str] = set()
    for differences in per_pair:
        for path, (before, after) in differences.items():
            if target[path] not in (before, after) and not (
                again and _half_done(target[path], before, after)
            ):
                since.add(path)
            target[path] = before
    if since and not force:
        raise UsageError(
            f"changed since: {_listed(since)}; nothing was put back; "
            "`--force` puts back all the same, and `--redo` takes that back"
        )
    planned = {
        path: (current.get(path), state) for path, state in target.items() if state != current.get(path)
    }
    left = {path: why for path, each in planned.items() if (why := _why_left(*each, force=force))}
    left |= no_run_may_write(snapshots.folder, {path: state for path, (_, state) in planned.items() if state})
    planned = {path: each for path, each in planned.items() if path not in left}
    if planned:
        begins(now)
    restore(snapshots.trees, {path: state for path, (_, state) in planned.items()})
    lines = [f"{shown_name(path)}: {_outcome(each)}" for path, each in notable(planned).items()]
    lines += [f"{shown_name(path)}: {left[path]}" for path in sorted(left)]
    return UndoResult(now, snapshots.take(run), tuple(lines))


def no_run_may_write(folder: Path, target: Mapping[str, State | None]) -> dict[str, str]:
    """Why paths of `folder` do not get the state that a run left or meets there: Fractal runs from them."""
    found: dict[str, str] = {}
    for path, state in target.items():
        harmless = state is None or is_folder(state)
        if why := why_own(folder / path, folder, as_folder=harmless, copied=True):
            found[path] = f"left as it is; {why}"
    return found


def _half_done(current: State | None, before: State | None, after: State | None) -> bool:
    """Whether an interrupted undo may have left this: nothing, a folder, another mode."""
    oids = {each.oid for each in (before, after) if each}
    return current is None or stat.S_ISDIR(current.mode) or current.oid in oids


def _why_left(current: State | None, state: State | None, *, force: bool) -> str:
    """Why the current state is not replaced; "" if it is."""
    if state and not state.kept:
        return "too large to be kept; left as it is"
    if current and not current.kept and not force:
        return "too large now to be kept; left as it is; `--force` gives it up"
    return ""


def _outcome(moved: Moved) -> str:
    return "removed, as it was not there before" if moved[1] is None else "put back"


def _listed(paths: set[str]) -> str:
    names = [shown_name(path) for path in sorted(paths)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
