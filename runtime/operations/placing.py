"""The operations move, copy, remove and mkdir. Nothing is overwritten, links are not touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import OperationContext, Result, Touch, file_hash, operation
from runtime.operations.texts import trouble
from runtime.operations.walking import MOST_LEVELS, relative

MOST_FILES = 2_000
"""Most files that one step moves, copies or removes; each is kept for `undo`."""


@dataclass(frozen=True)
class _Way:
    """The checked source and target of a move or copy."""

    source: Path
    target: Path

    def pairs(self, ctx: OperationContext) -> Iterator[tuple[Path, Path]]:
        """Each file with its new path."""
        for file in _files(ctx, self.source):
            yield file, self.target / file.relative_to(self.source)


def _prepare_move(ctx: OperationContext, **args: Any) -> tuple[Touch, ...]:
    way = _way(ctx, args["from"], args["to"], moving=True)
    pairs = list(way.pairs(ctx))
    return (
        *(Touch(target, file_hash(source)) for source, target in pairs),
        *(Touch(source, "") for source, _ in pairs),
    )


@operation(_prepare_move, folders=True)
def move(ctx: OperationContext, **args: Any) -> Result:
    """Move or rename a file or folder (arguments `from` and `to`); into `to` when that is a folder."""
    way = _way(ctx, args["from"], args["to"], moving=True)
    names = relative(ctx, way.source), relative(ctx, way.target)
    count = len(_files(ctx, way.source))  # raises for files that may not be moved
    _carry_out(lambda: _move(way), way, names[0])
    evidence = {"from": names[0], "to": names[1], "files": count}
    return Result(f"moved {names[0]} to {names[1]}", evidence=evidence)


def _move(way: _Way) -> None:
    with disk.committing():
        shutil.move(way.source, way.target)


def _prepare_copy(ctx: OperationContext, **args: Any) -> tuple[Touch, ...]:
    way = _way(ctx, args["from"], args["to"], moving=False)
    return tuple(Touch(target, file_hash(source)) for source, target in way.pairs(ctx))


@operation(_prepare_copy, folders=True)
def copy(ctx: OperationContext, **args: Any) -> Result:
    """Copy a file or folder (arguments `from` and `to`); into `to` when that is a folder."""
    way = _way(ctx, args["from"], args["to"], moving=False)
    names = relative(ctx, way.source), relative(ctx, way.target)
    count = len(_files(ctx, way.source))
    _carry_out(lambda: _copy(way.source, way.target), way, names[0])
    several = f" ({count} files)" if way.source.is_dir() else ""
    return Result(
        f"copied {names[0]} to {names[1]}{several}",
        evidence={"from": names[0], "to": names[1], "files": count},
    )


def _copy(source: Path, target: Path) -> None:
    """Copy beside the target, then rename, so that a crash leaves no partial copy."""
    made = disk.beside(target)
    try:
        if source.is_dir():
            shutil.copytree(source, made, symlinks=True, copy_function=_copy_file)
        else:
            _copy_file(source, made)
        with disk.committing():
            made.rename(target)
    except BaseException:
        shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)
        raise
    disk.settle(target.parent)


def _copy_file(source: str | Path, target: str | Path) -> None:
    shutil.copy2(source, target)
    disk.settle(Path(target))


def _prepare_remove(ctx: OperationContext, path: str) -> tuple[Touch, ...]:
    return tuple(Touch(file, "") for file in _files(ctx, _own(ctx, path)))


@operation(_prepare_remove, folders=True)
def remove(ctx: OperationContext, path: str) -> Result:
    """Remove a file, or a folder with its content."""
    target = _own(ctx, path)
    name = relative(ctx, target)
    folder = target.is_dir()
    count = len(_files(ctx, target))
    try:
        with disk.committing():
            shutil.rmtree(target) if folder else target.unlink()
    except OSError as error:
        raise trouble(path, error) from None
    several = f" and the {count} file{'' if count == 1 else 's'} in it" if folder else ""
    return Result(f"removed {name}{several}", evidence={"removed": name, "files": count})


@operation()
def mkdir(ctx: OperationContext, path: str) -> Result:
    """Make a folder and its missing parents."""
    target = ctx.writable(path)
    if target.is_dir():
        return Result(f"{relative(ctx, target)} exists already", evidence={"made": False})
    try:
        with disk.committing():
            target.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OperationFailed(f"{path}: a file of that name exists") from None
    except NotADirectoryError:
        raise OperationFailed(f"{path}: a part of this path is a file, not a folder") from None
    except OSError as error:
        raise trouble(path, error) from None
    return Result(f"made the folder {relative(ctx, target)}", evidence={"made": True})


def _way(ctx: OperationContext, source: str, target: str, *, moving: bool) -> _Way:
    begin = _own(ctx, source) if moving else _unlinked(ctx, source)
    end = ctx.readable(target)
    if end.is_dir():
        end = end / begin.name
    end = ctx.writable(str(end.relative_to(ctx.folder.resolve())))
    name = relative(ctx, end)
    if end == begin:
        raise OperationFailed(f"{source} and {target} are the same")
    if end.exists() or end.is_symlink():
        raise OperationFailed(f"{name}: exists already; remove it first, or choose another name")
    if begin in end.parents:
        raise OperationFailed(f"{target}: lies inside {source}")
    if not moving and begin == ctx.folder.resolve():
        raise OperationFailed(f"{source}: this is the folder itself; name something in it")
    if target.endswith("/"):
        raise OperationFailed(f"{target}: there is no such folder; make it with mkdir first")
    return _Way(begin, end)


def _own(ctx: OperationContext, path: str) -> Path:
    """The path of something that exists, is no link, and may be changed."""
    _unlinked(ctx, path)
    return ctx.writable(path)


def _unlinked(ctx: OperationContext, path: str) -> Path:
    target = ctx.readable(path)
    if (ctx.folder.resolve() / os.path.normpath(path)).is_symlink():
        raise OperationFailed(f"{path}: this is a link; links are left alone, name what it leads to")
    if not target.exists():
        raise OperationFailed(f"{path}: there is no such file or folder; see list")
    return target


def _files(ctx: OperationContext, target: Path) -> list[Path]:
    """The file, or the files in a folder; raises for repositories and too many files."""
    if not target.is_dir():
        return [target]
    if any(target in place.parents and place.exists() for place in ctx.private):
        raise OperationFailed(
            f"{relative(ctx, target)}: holds the record of runs; operations may not read it"
        )
    found: list[Path] = []
    pending = [target]
    while pending:
        folder = pending.pop()
        with os.scandir(folder) as items:
            entries = sorted(items, key=lambda item: item.name)
        if any(item.name == ".git" for item in entries):
            raise OperationFailed(f"{relative(ctx, folder)}: holds a .git, which is protected")
        inner = [folder / item.name for item in entries if item.is_dir(follow_symlinks=False)]
        if inner and len(folder.relative_to(target).parts) >= MOST_LEVELS:
            raise OperationFailed(
                f"{relative(ctx, target)}: more than {MOST_LEVELS} folders inside each other; use bash"
            )
        pending += reversed(inner)
        found += [folder / each.name for each in entries if not (each.is_dir() or each.is_symlink())]
        if len(found) > MOST_FILES:
            raise OperationFailed(
                f"{relative(ctx, target)}: more than {MOST_FILES:,} files; use bash for so many"
            )
    return found


def _carry_out(act: Callable[[], object], way: _Way, name: str) -> None:
    try:
        way.target.parent.mkdir(parents=True, exist_ok=True)
        act()
    except shutil.Error as error:
        first = error.args[0][0] if error.args and isinstance(error.args[0], list) else error
        raise OperationFailed(f"{name}: {first[-1] if isinstance(first, tuple) else first}") from None
    except OSError as error:
        raise trouble(name, error) from None
