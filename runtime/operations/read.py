"""read: the exact text of a file, or of some of its lines; of a picture, what it is, and the picture."""

from __future__ import annotations

import itertools
import re
from collections import deque
from pathlib import Path
from typing import IO

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime import images
from runtime.operations.texts import absent
from runtime.sandbox.context import OperationContext

LARGEST = 64_000_000
"""Maximum bytes of a file that is read whole; a larger one is read by lines."""


def read(ctx: OperationContext, path: str, lines: str = "") -> Result:
    """The text of `path`; `lines` is "7", "10-20", "5-" or "-3" (the last three), counted from 1.

    Only a line feed ends a line, and is kept. Of a picture it is the kind and size, beside the picture
    itself. Raises `OperationFailed` for another file that is not UTF-8 text.
    """
    target = ctx.readable(path)
    _refuse(ctx, target, path)
    size = target.stat().st_size
    if picture := _picture(target, size):
        return picture
    if size > LARGEST and not lines.strip():
        raise OperationFailed(
            f'{path}: {size} bytes are too many to read at once; read lines, such as "1-200"'
        )
    try:
        with disk.opened(target) as file:
            raw = _chosen(file, lines, path) if lines.strip() else file.read()
    except OSError as error:
        raise OperationFailed(f"{path}: cannot be read: {error.strerror}") from None
    text = _decoded(raw, path)
    return Result(text, evidence={"bytes": size, "characters": len(text)})


def _picture(target: Path, size: int) -> Result | None:
    """What a picture is, with the picture for a model that sees; None for another file."""
    try:
        with disk.opened(target) as file:
            data = file.read(images.HEAD)
            if images.kind_of(data) is None:
                return None
            data += file.read(images.LARGEST)
    except OSError:
        return None  # it is told of any file below
    line, shown = images.shown(data, size) or ("", ())
    return Result(line, evidence={"bytes": size}, images=shown)


def _refuse(ctx: OperationContext, target: Path, path: str) -> None:
    try:
        if target.is_dir():
            raise OperationFailed(f"{path} is a folder; `list` shows what is in it")
        if not target.exists():
            raise absent(ctx, path, "file")
        if not target.is_file():
            raise OperationFailed(f"{path} is not an ordinary file (a pipe, a socket or a device)")
    except OSError as error:
        raise OperationFailed(f"{path}: cannot be read: {error.strerror}") from None


def _chosen(file: IO[bytes], wanted: str, path: str) -> bytes:
    hit = re.fullmatch(r"(\d{0,9})\s*(-?)\s*(\d{0,9})", wanted.strip(), re.ASCII)
    if not hit or not (hit[1] or hit[3]):
        raise OperationFailed(f'lines: {wanted!r} is none of "7", "10-20", "5-", "-3"')
    first, dash, last = hit.groups()
    if not first:
        return b"".join(deque(file, int(last)))
    start, end = int(first), int(last) if last else None if dash else int(first)
    if start < 1 or (end is not None and end < start):
        raise OperationFailed(f"lines: {wanted!r} is not a range; lines are counted from 1")
    count = 0
    rows: list[bytes] = []
    for line in itertools.islice(file, end):
        count += 1
        if count >= start:
            rows.append(line)
    if not rows:
        raise OperationFailed(f"{path} has {count} lines; there is no line {start}")
    return b"".join(rows)


def _decoded(raw: bytes, path: str) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise OperationFailed(f"{path} is {_kind(raw, error.start)}") from None
    if "\0" in text:
        raise OperationFailed(f"{path} is {_kind(raw, 0)}")
    return text


def _kind(raw: bytes, at: int) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text; `iconv -f utf-16 -t utf-8` in bash makes UTF-8 of it"
    if b"\0" in raw:
        return "a binary file; `stat` and `checksum` work on it"
    return f"not UTF-8 text (byte {at}); if it is Latin-1, `iconv -f latin1 -t utf-8` in bash converts it"
