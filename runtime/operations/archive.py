"""The operation archive: zip and tar files made, listed, and taken apart with care."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from kernel import disk
from kernel.errors import OperationFailed, raised_as
from kernel.operations import OperationContext, Result, Touch, operation
from runtime.operations.packing import Member, Packed, pack
from runtime.operations.texts import regular, trouble
from runtime.operations.walking import Deadline, Entry, files_below, relative, shown_name

MOST_MEMBERS = 10_000
MOST_BYTES = 500_000_000
"""Of all that is taken out together; `settings["archive"]["max_bytes"]` overrides."""
ACTIONS = ("create", "extract", "list")


def _prepare(
    ctx: OperationContext, action: str, path: str, files: Sequence[str] = (), to: str = ""
) -> tuple[Touch, ...]:
    if action == "create":
        return (Touch(ctx.writable(path)),)
    if action == "extract":
        with _opened(ctx, path) as packed:
            goal = _goal(ctx, to)
            return tuple(Touch(goal / member.name) for member in _wanted(packed, files) if not member.folder)
    return ()


@operation(_prepare, folders=True)
def archive(ctx: OperationContext, action: str, path: str, files: Sequence[str] = (), to: str = "") -> Result:
    """Create an archive of files, extract one into a folder, or list what is in it."""
    if action not in ACTIONS:
        raise OperationFailed(f"action: {action!r} is none of {', '.join(ACTIONS)}")
    if action != "extract" and to:
        raise OperationFailed("to: goes with action: extract, and names the folder to extract into")
    try:
        if action == "create":
            return _create(ctx, path, files)
        with _opened(ctx, path) as packed:
            return _extract(ctx, packed, path, files, to) if action == "extract" else _list(packed, files)
    except OSError as error:
        raise trouble(path, error) from None


@contextmanager
def _opened(ctx: OperationContext, path: str) -> Generator[Packed]:
    """An archive to read from; whatever the libraries raise for a broken one is the step's failure."""
    target = regular(ctx, path)
    limit = int(ctx.settings.get("archive", {}).get("max_bytes", MOST_BYTES))
    with (
        raised_as(OperationFailed, f"{path}: the archive cannot be read"),
        Packed(target, path, limit, MOST_MEMBERS, Deadline(ctx.timeout)) as packed,
    ):
        yield packed


def _create(ctx: OperationContext, path: str, files: Sequence[str]) -> Result:
    target = ctx.writable(path)
    if target.exists():
        raise OperationFailed(f"{path}: exists already; remove it first, or choose another name")
    deadline = Deadline(ctx.timeout)
    chosen: dict[Path, Entry] = {}
    for each in files or ["."]:
        for entry in _chosen(ctx, each, deadline):
            chosen.setdefault(entry.path, entry)
    entries = sorted(chosen.values(), key=lambda entry: entry.path)
    if not entries:
        raise OperationFailed("there are no files to put into the archive")
    if len(entries) > MOST_MEMBERS:
        raise OperationFailed(f"more than {MOST_MEMBERS:,} files; name a smaller folder")
    root = ctx.folder.resolve()
    named = [
        (entry.path, entry.path.relative_to(root).as_posix()) for entry in entries if entry.path != target
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = disk.beside(target)
    try:
        pack(temporary, path, named, deadline)
        with disk.committing():
            temporary.replace(target)
        disk.settle(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
    size = target.stat().st_size
    text = (
        f"wrote {relative(ctx, target)} with {len(named)} file{'' if len(named) == 1 else 's'}, {size} bytes"
    )
    return Result(text, evidence={"path": relative(ctx, target), "files": len(named), "bytes": size})


def _chosen(ctx: OperationContext, each: str, deadline: Deadline) -> list[Entry]:
    """The files that a path or a glob names; links are left out."""
    literal = not set(each) & set("*?[{") or (ctx.folder / each).exists()
    found = files_below(ctx, each, "**", deadline) if literal else files_below(ctx, ".", each, deadline)
    if not found and not literal:
        raise OperationFailed(f"{each}: no file matches")
    return [entry for entry in found if not entry.link]


def _wanted(packed: Packed, files: Sequence[str]) -> list[Member]:
    """The members that are asked for, by name or by the folder they are in; all of them without a choice."""
    members = packed.members()
    if not files:
        return members
    names = [PurePosixPath(each).as_posix() for each in files]
    for name in names:
        if not any(_under(member, name) for member in members):
            raise OperationFailed(f"{name}: is not in {packed.shown}; see action: list")
    return [member for member in members if any(_under(member, name) for name in names)]


def _under(member: Member, name: str) -> bool:
    return member.name == name or member.name.startswith(f"{name}/")


def _list(packed: Packed, files: Sequence[str]) -> Result:
    members = _wanted(packed, files)
    lines = [
        f"{shown_name(member.name)}/" if member.folder else f"{shown_name(member.name)}  {member.size} bytes"
        for member in sorted(members, key=lambda member: member.name.split("/"))
    ]
    total = sum(member.size for member in members)
    evidence = {"files": sum(not member.folder for member in members), "bytes": total}
    return Result("\n".join(lines) or "the archive is empty", evidence=evidence)


def _goal(ctx: OperationContext, to: str) -> Path:
    """The folder to extract into: one that may be written, or the folder itself."""
    if to in ("", ".", "./"):
        return ctx.folder.resolve()
    goal = ctx.writable(to)
    if goal.exists() and not goal.is_dir():
        raise OperationFailed(f"{to}: this is a file; name a folder to extract into")
    return goal


def _extract(ctx: OperationContext, packed: Packed, path: str, files: Sequence[str], to: str) -> Result:
    goal, root = _goal(ctx, to), ctx.folder.resolve()
    members = _wanted(packed, files)
    for member in members:
        place = goal / member.name
        ctx.writable(str(place.relative_to(root)))  # refuses what is protected, or leads out through a link
        if (place.exists() or place.is_symlink()) and not (member.folder and place.is_dir()):
            raise OperationFailed(f"{relative(ctx, place)}: exists already; extract into an empty folder")
    aside = disk.beside(root / "unpacked")
    aside.mkdir()
    try:
        packed.unpack(members, aside)
        with disk.committing():
            count = _move_in(aside, goal)
    finally:
        with suppress(OSError):
            disk.remove_all(aside)
    name = relative(ctx, goal)
    text = f"extracted {count} file{'' if count == 1 else 's'} from {path} into {name}"
    return Result(text, evidence={"files": count, "to": name})


def _move_in(aside: Path, goal: Path) -> int:
    """Everything is whole on the disk before the first file appears at its place."""
    count = 0
    goal.mkdir(parents=True, exist_ok=True)
    for folder, folders, names in os.walk(aside):
        place = goal / Path(folder).relative_to(aside)
        for each in sorted(folders):
            (place / each).mkdir(exist_ok=True)
        for each in sorted(names):
            Path(folder, each).rename(place / each)
            count += 1
    return count
