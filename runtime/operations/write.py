"""write: create or replace a file, or append to it; exactly as given, completely or not at all."""

from __future__ import annotations

from pathlib import Path

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch, bytes_hash
from runtime.sandbox.context import OperationContext, operation


def _touches(
    ctx: OperationContext, path: str, content: str, append: bool = False, lines: bool = False
) -> tuple[Touch, ...]:
    target = _target(ctx, path)
    return (Touch(target, bytes_hash(_bytes(target, path, content, append, lines))),)


@operation(prepare=_touches)
def write(
    ctx: OperationContext, path: str, content: str, append: bool = False, lines: bool = False
) -> Result:
    """Write exactly `content` to `path`, creating missing folders; `append` adds it at the end.

    With `lines`, the text begins on its own line and ends with one line break. Else no line break is added or
    changed. Raises `OperationFailed` without changing anything.
    """
    target = _target(ctx, path)
    existed = target.is_file()
    raw = _bytes(target, path, content, append, lines)
    replace_file(target, raw)
    done = "added to" if append and existed else "replaced" if existed else "wrote"
    evidence = {"bytes": len(raw), "existed": existed}
    amount = f"{len(content)} character{'' if len(content) == 1 else 's'}"
    return Result(f"{done} {ctx.shown(target)}, {amount}", evidence=evidence)


def _target(ctx: OperationContext, path: str) -> Path:
    target = ctx.writable(path)
    try:
        if target.is_dir():
            raise OperationFailed(f"{path} is a folder; name a file")
        if target.exists() and not target.is_file():
            raise OperationFailed(f"{path} is not an ordinary file (a pipe, a socket or a device)")
        lowest = next(parent for parent in target.parents if parent.exists())
        if not lowest.is_dir():
            raise OperationFailed(f"{path}: {ctx.shown(lowest)} is a file, so nothing can be put into it")
    except OSError as error:
        raise OperationFailed(f"{path[:100]}: cannot be written: {error.strerror}") from None
    return target


def _bytes(target: Path, path: str, content: str, append: bool, lines: bool) -> bytes:
    try:
        new = (f"{content.rstrip()}\n" if lines else content).encode("utf-8")
    except UnicodeEncodeError as error:
        raise OperationFailed(
            f"content: character {error.start} is half of a surrogate pair and cannot be written as UTF-8"
        ) from None
    if not append or not target.is_file():
        return new
    try:
        old = disk.read(target)
    except OSError as error:
        raise OperationFailed(f"{path}: cannot be read, so nothing was added: {error.strerror}") from None
    open_line = lines and old and not old.endswith(b"\n")
    return old + (b"\n" if open_line else b"") + new


def replace_file(target: Path, raw: bytes) -> None:
    """Write a file completely or not at all; raises `OperationFailed`."""
    try:
        disk.put(target, raw)
    except OSError as error:
        raise OperationFailed(
            f"{target.name}: cannot be written: {error.strerror}; nothing was changed"
        ) from None
