"""read: the text of a file, whole or some lines of it."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result


def read(ctx: OperationContext, path: str, lines: str = "") -> Result:
    """The text of `path`; `lines` is "7", "10-20", "5-" or "-3" (the last three)."""
    target = ctx.readable(path)
    text = _text(target, path, ctx)
    if not lines:
        return Result(text, evidence={"characters": len(text)})
    chosen = _chosen(text.splitlines(keepends=True), lines)
    return Result("".join(chosen), evidence={"characters": len(text), "lines": lines})


def _text(target: Path, path: str, ctx: OperationContext) -> str:
    if target.is_dir():
        raise OperationFailed(f"{path} is a folder; `list` shows what is in it")
    if not target.exists():
        near = difflib.get_close_matches(target.name, _names(target.parent), 3)
        hint = f"; near it: {', '.join(ctx.shown(target.parent / name) for name in near)}" if near else ""
        raise OperationFailed(f"{path}: there is no such file{hint}")
    try:
        raw = target.read_bytes()
    except OSError as error:
        raise OperationFailed(f"{path}: {error.strerror}") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        kind = "a binary file" if b"\0" in raw[:8192] else f"not UTF-8 text (byte {error.start})"
        raise OperationFailed(f"{path} is {kind}; `stat` and `checksum` work on it") from None


def _names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()] if folder.is_dir() else []


def _chosen(lines: list[str], wanted: str) -> list[str]:
    hit = re.fullmatch(r"(\d*)\s*(-?)\s*(\d*)", wanted.strip())
    if not hit or not (hit[1] or hit[3]):
        raise OperationFailed(f'lines: {wanted!r} is none of "7", "10-20", "5-", "-3"')
    first, dash, last = hit.groups()
    if not first:
        return lines[-int(last) :] if int(last) else []
    start = max(int(first), 1) - 1
    if not dash:
        return lines[start : start + 1]
    return lines[start : int(last)] if last else lines[start:]
