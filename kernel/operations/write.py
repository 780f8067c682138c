"""write: make or replace a file, or add to its end; whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, Touch, bytes_hash, operation


def _touches(ctx: OperationContext, path: str, content: str, append: bool = False) -> tuple[Touch, ...]:
    target = ctx.writable(path)
    return (Touch(target, bytes_hash(_bytes(target, content, append))),)


@operation(prepare=_touches)
def write(ctx: OperationContext, path: str, content: str, append: bool = False) -> Result:
    """Put exactly `content` into `path`, making folders on the way; `append` adds it at the end."""
    target = ctx.writable(path)
    if target.is_dir():
        raise OperationFailed(f"{path} is a folder; name a file")
    existed = target.exists()
    raw = _bytes(target, content, append)
    replace_file(target, raw)
    done = "added to" if append and existed else "replaced" if existed else "wrote"
    return Result(f"{done} {ctx.shown(target)}, {len(content)} characters", evidence={"bytes": len(raw)})


def _bytes(target: Path, content: str, append: bool) -> bytes:
    try:
        new = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OperationFailed(
            f"content: character {error.start} is half of a surrogate pair and cannot be written as UTF-8"
        ) from None
    if not append or not target.is_file():
        return new
    old = target.read_bytes()
    gap = b"\n" if old and not old.endswith(b"\n") else b""
    return old + gap + new


def replace_file(target: Path, raw: bytes) -> None:
    """Write a file whole or not at all: beside it, to the disk, then in its place with its mode kept."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise OperationFailed(f"{target.name}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise OperationFailed(
            f"{target.name}: cannot be written: {error.strerror}; nothing was changed"
        ) from None


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
