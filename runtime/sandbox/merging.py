"""A three-way merge of snapshots: what changed in one folder, for another. It writes no file there."""

from __future__ import annotations

import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from runtime.sandbox.trees import LARGEST, Moved, State, Trees, is_folder


@dataclass
class Merge:
    """By path: the state to reach and the one there is, what both sides changed, and why it cannot be."""

    moves: dict[str, Moved] = field(default_factory=dict[str, Moved])
    merged: set[str] = field(default_factory=set[str])
    conflicts: dict[str, str] = field(default_factory=dict[str, str])


def merge(work: Trees, moved: Mapping[str, Moved], into: Trees, now: str, *, force: bool = False) -> Merge:
    """Merge changes between two snapshots of `work` into the folder of `into`, whose snapshot is `now`.

    With `force` the state in `work` wins where both sides changed the same. Contents are stored in `into`.
    """
    ours, found = into.states(now), Merge()
    for path, (base, theirs) in moved.items():
        mine = ours.get(path)
        if mine == theirs or (is_folder(mine) and is_folder(theirs)):
            continue
        if theirs and not theirs.kept:
            found.conflicts[path] = f"larger than {LARGEST // 10**6} MB; copy it yourself, with `cp -p`"
        elif mine and not mine.kept and not force:
            found.conflicts[path] = "yours is too large to be kept; `--force` gives it up"
        elif mine == base or (theirs is None and is_folder(mine)):  # a folder goes only if it is empty
            found.moves[path] = theirs, mine
        elif both := _both(work, into, base, theirs, mine):
            found.moves[path] = both, mine
            found.merged.add(path)
        elif force:
            found.moves[path] = theirs, mine
        else:
            yours = "changed" if mine else "removed"
            found.conflicts[path] = f"you {yours} it, and the run changed it"
    for path, (state, _) in found.moves.items():
        if why := _in_the_way(into.shadow.folder, path, state, found.moves, ours):
            found.conflicts[path] = why
    if not found.conflicts:
        _carry_over(work, into, moved, found)
    return found


def _both(
    work: Trees, into: Trees, base: State | None, theirs: State | None, mine: State | None
) -> State | None:
    """A file with the changes of both sides; None if that cannot be."""
    if base is None or theirs is None or mine is None:
        return None
    if not all(stat.S_ISREG(each.mode) and each.kept for each in (base, theirs, mine)):
        return None
    mode = mine.mode if theirs.mode == base.mode else theirs.mode
    if mine.mode not in (base.mode, mode):
        return None
    if theirs.oid in (base.oid, mine.oid):
        return State(mode, mine.oid)
    if mine.oid == base.oid:
        return State(mode, theirs.oid)
    texts = {**work.bytes_of([base.oid, theirs.oid]), **into.bytes_of([mine.oid])}
    with tempfile.TemporaryDirectory(prefix="fractal-merge-") as place:
        files = [Path(place, name) for name in ("yours", "base", "run")]
        for file, state in zip(files, (mine, base, theirs), strict=True):
            file.write_bytes(texts[state.oid])
        try:
            raw = into.shadow.run("merge-file", "-p", "-q", *map(str, files))
        except subprocess.CalledProcessError:  # the same lines, or not a text
            return None
    return State(mode, into.shadow.run("hash-object", "-w", "--stdin", stdin=raw).decode().strip())


def _in_the_way(
    folder: Path, path: str, state: State | None, moves: Mapping[str, Moved], ours: Mapping[str, State]
) -> str:
    """Why a state cannot be reached in the folder as it is; "" if it can."""
    if state is None:
        return ""
    for parent in map(str, PurePosixPath(path).parents):
        above = moves[parent][0] if parent in moves else ours.get(parent)
        if above and not is_folder(above):
            return f"{parent} is no folder any more"
    if not is_folder(state) and is_folder(ours.get(path)):
        for inside in (folder / path).rglob("*"):
            name = inside.relative_to(folder).as_posix()
            if name not in moves or moves[name][0] is not None:
                return f"a folder for you, with {name} in it, and a file for the run"
    return ""


def _carry_over(work: Trees, into: Trees, moved: Mapping[str, Moved], found: Merge) -> None:
    """Store in `into` the contents that come from `work`."""
    theirs = {path: after.oid for path, (_, after) in moved.items() if after and after.oid}
    if oids := {
        state.oid for path, (state, _) in found.moves.items() if state and state.oid == theirs.get(path)
    }:
        pack = work.shadow.run("pack-objects", "-q", "--stdout", stdin="\n".join(oids).encode() + b"\n")
        into.shadow.run("unpack-objects", "-q", stdin=pack)
