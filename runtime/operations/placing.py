"""The operations move, copy, remove and mkdir. Nothing is overwritten, links are not touched."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch, file_hash
from runtime.operations.texts import absent, counted, os_errors, relative
from runtime.operations.walking import MOST_LEVELS
from runtime.sandbox.context import OperationContext, operation

MOST_FILES = 2_000
"""Most files that one step moves, copies or removes; each is kept for `undo`."""


def _prepare_move(ctx: OperationContext, **args: Any) -> tuple[Touch, ...]:
    pairs = _pairs(ctx, args, moving=True)
    return (
        *(Touch(target, file_hash(source)) for source, target in pairs),
        *(Touch(source, "") for source, _ in pairs),
    )


@operation(_prepare_move, folders=True)
def move(ctx: OperationContext, **args: Any) -> Result:
    """Move or rename a file or folder (arguments `from` and `to`); into `to` when that is a folder."""
    return _carry(ctx, args, "moved", _move)


def _move(source: Path, target: Path) -> None:
    with disk.committing():
        shutil.move(source, target)


def _prepare_copy(ctx: OperationContext, **args: Any) -> tuple[Touch, ...]:
    return tuple(Touch(target, file_hash(source)) for source, target in _pairs(ctx, args, moving=False))


@operation(_prepare_copy, folders=True)
def copy(ctx: OperationContext, **args: Any) -> Result:
    """Copy a file or folder (arguments `from` and `to`); into `to` when that is a folder."""
    return _carry(ctx, args, "copied", _copy)


def _copy(source: Path, target: Path) -> None:
    """Copy beside the target, then rename, so that a crash leaves no partial copy."""
    temporary = disk.temporary_path(target)
    try:
        if source.is_dir():
            shutil.copytree(source, temporary, symlinks=True, copy_function=_copy_file)
        else:
            _copy_file(source, temporary)
        with disk.committing():
            temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink(missing_ok=True)
        raise
    disk.sync(target.parent)


def _copy_file(source: str | Path, target: str | Path) -> None:
    shutil.copy2(source, target)
    target = Path(target)
    if (mode := stat.S_IMODE(target.stat().st_mode)) & disk.PRIVILEGED:
        target.chmod(mode & ~disk.PRIVILEGED)
    disk.sync(target)


def _prepare_remove(ctx: OperationContext, path: str) -> tuple[Touch, ...]:
    return tuple(Touch(file, "") for file in _files(ctx, _own(ctx, path)))


@operation(_prepare_remove, folders=True)
def remove(ctx: OperationContext, path: str) -> Result:
    """Remove a file, or a folder with its content."""
    target = _own(ctx, path)
    name = relative(ctx, target)
    folder = target.is_dir()
    count = len(_files(ctx, target))
    with os_errors(path), disk.committing():
        shutil.rmtree(target) if folder else target.unlink()
    several = f" and the {counted(count, 'file')} in it" if folder else ""
    return Result(f"removed {name}{several}", evidence={"removed": name, "files": count})


@operation()
def mkdir(ctx: OperationContext, path: str) -> Result:
    """Make a folder and its missing parents."""
    target = ctx.writable(path)
    if target.is_dir():
        return Result(f"{relative(ctx, target)} exists already", evidence={"made": False})
    with os_errors(path), disk.committing():
        try:
            target.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise OperationFailed(f"{path}: a file of that name exists") from None
        except NotADirectoryError:
            raise OperationFailed(f"{path}: a part of this path is a file, not a folder") from None
    return Result(f"made the folder {relative(ctx, target)}", evidence={"made": True})


def _pairs(ctx: OperationContext, args: Mapping[str, str], *, moving: bool) -> list[tuple[Path, Path]]:
    """Each file with its new path."""
    source, target = _checked_paths(ctx, args["from"], args["to"], moving=moving)
    return [(file, target / file.relative_to(source)) for file in _files(ctx, source)]


def _checked_paths(ctx: OperationContext, source: str, target: str, *, moving: bool) -> tuple[Path, Path]:
    """The checked source and target of a move or copy."""
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
    return begin, end


def _own(ctx: OperationContext, path: str) -> Path:
    """The path of something that exists, is no link, and may be changed."""
    _unlinked(ctx, path)
    return ctx.writable(path)


def _unlinked(ctx: OperationContext, path: str) -> Path:
    target = ctx.readable(path)
    if (ctx.folder.resolve() / os.path.normpath(path)).is_symlink():
        raise OperationFailed(f"{path}: this is a link; links are left alone, name what it leads to")
    if not target.exists():
        raise absent(ctx, path)
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
    for where, folders, names in os.walk(target, onerror=_stop):
        here = Path(where)
        folders.sort()
        if ".git" in (*folders, *names):
            raise OperationFailed(f"{relative(ctx, here)}: holds a .git, which is protected")
        if len(here.relative_to(target).parts) > MOST_LEVELS:
            raise OperationFailed(
                f"{relative(ctx, target)}: more than {MOST_LEVELS} folders inside each other; use bash"
            )
        found += [path for name in sorted(names) if not (path := here / name).is_symlink()]
        if len(found) > MOST_FILES:
            raise OperationFailed(
                f"{relative(ctx, target)}: more than {MOST_FILES:,} files; use bash for so many"
            )
    return found


def _stop(error: OSError) -> None:
    raise error


def _carry(
    ctx: OperationContext, args: Mapping[str, str], done: str, act: Callable[[Path, Path], object]
) -> Result:
    """Move or copy; `done` says it in the result."""
    source, target = _checked_paths(ctx, args["from"], args["to"], moving=done == "moved")
    names = relative(ctx, source), relative(ctx, target)
    count = len(_files(ctx, source))  # raises for files that may not be moved
    several = f" ({count} files)" if done == "copied" and source.is_dir() else ""
    with os_errors(names[0]):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            act(source, target)
        except shutil.Error as error:
            first = error.args[0][0] if error.args and isinstance(error.args[0], list) else error
            problem = first[-1] if isinstance(first, tuple) else first
            raise OperationFailed(f"{names[0]}: {problem}") from None
    evidence = {"from": names[0], "to": names[1], "files": count}
    return Result(f"{done} {names[0]} to {names[1]}{several}", evidence=evidence)
