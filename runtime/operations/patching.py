"""The operation patch: a unified diff put into the files that it names, all of it or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernel import disk
from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, Touch, bytes_hash, operation
from runtime.operations import unified
from runtime.operations.texts import encoded, read_bytes, read_text, save, trouble, unreadable
from runtime.operations.walking import relative

MOST_FILES = 200


@dataclass
class _Change:
    """One file: what it holds before and after (None: there is no file), and what was done to it."""

    path: Path
    name: str
    before: bytes | None
    after: bytes | None
    lines: list[int]
    added: int = 0
    removed: int = 0


def _prepare(ctx: OperationContext, diff: str = "", path: str = "") -> tuple[Touch, ...]:
    changes = _changes(ctx, diff, path)
    return tuple(Touch(each.path, "" if each.after is None else bytes_hash(each.after)) for each in changes)


@operation(_prepare)
def patch(ctx: OperationContext, diff: str = "", path: str = "") -> Result:
    """Apply a unified diff, given as text or as a file; every hunk must suit, or nothing is changed."""
    changes = _changes(ctx, diff, path)
    done: list[_Change] = []
    try:
        for each in changes:
            done.append(each)
            _set(each, each.after)
    except OperationFailed:
        for each in done:
            _set(each, each.before)
        raise
    lines = [f"{each.name}: {_what(each)}" for each in changes]
    files = {each.name: {"added": each.added, "removed": each.removed} for each in changes}
    return Result("\n".join(lines), evidence={"files": files})


def _set(change: _Change, data: bytes | None) -> None:
    if data is not None:
        save(change.path, data, change.name)
        return
    try:
        with disk.committing():
            change.path.unlink(missing_ok=True)
    except OSError as error:
        raise trouble(change.name, error) from None


def _what(change: _Change) -> str:
    if change.after is None:
        return "removed"
    figures = f"+{change.added} -{change.removed}"
    if change.before is None:
        return f"new, {figures}"
    places = ", ".join(map(str, change.lines[:10]))
    return f"{figures} at line{'' if len(change.lines) == 1 else 's'} {places}"


def _changes(ctx: OperationContext, diff: str, path: str) -> list[_Change]:
    """What the diff does to each file, worked out whole before anything is written."""
    if bool(diff.strip()) == bool(path):
        raise OperationFailed("give either diff, the text of a unified diff, or path, a file that holds one")
    found: dict[Path, _Change] = {}
    for each in unified.read(diff or read_text(ctx, path)):
        if each.old and each.new and each.old != each.new:
            raise OperationFailed(f"{each.old} would become {each.new}: use move for that, then patch")
        target = ctx.writable(each.name)
        change = found.get(target) or _begin(ctx, each, target)
        found[target] = change
        if not each.old and change.after is not None:
            raise OperationFailed(
                f"{each.name}: exists already, and the diff makes it anew; write replaces it"
            )
        if each.old and change.after is None:
            raise OperationFailed(f"{each.name}: there is no such file to patch")
        text, lines = unified.applied((change.after or b"").decode("utf-8"), each)
        change.lines += lines
        marks = [mark for hunk in each.hunks for mark, _ in hunk.body]
        change.added += marks.count("+")
        change.removed += marks.count("-")
        if not each.new and text:
            raise OperationFailed(f"{each.name}: the diff removes the file, but not all of its lines")
        change.after = encoded(text, "the diff") if each.new else None
    if len(found) > MOST_FILES:
        raise OperationFailed(f"the diff changes more than {MOST_FILES} files")
    changes = [each for each in found.values() if each.before != each.after]
    if not changes:
        raise OperationFailed("the diff changes nothing")
    return changes


def _begin(ctx: OperationContext, each: unified.Patch, target: Path) -> _Change:
    name = relative(ctx, target)
    if not target.exists():
        return _Change(target, name, None, None, [])
    data = read_bytes(ctx, each.name)
    if why := unreadable(data):
        raise OperationFailed(f"{each.name}: {why}")
    return _Change(target, name, data, data, [])
