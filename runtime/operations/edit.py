"""The operations edit (one place) and replace (all places): exact text, other bytes unchanged."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch, bytes_hash
from runtime.operations.texts import counted, encoded, read_text, read_utf8, regular, relative, save
from runtime.operations.walking import Deadline, files_below
from runtime.sandbox.context import OperationContext, operation

_SHOWN_PLACES = 5


@dataclass(frozen=True)
class _Change:
    """One changed file; `places` are the lines where the text was."""

    path: Path
    name: str
    after: bytes
    places: tuple[int, ...]


def _prepare_edit(
    ctx: OperationContext, path: str, new: str, old: str = "", all: bool = False, lines: str = ""
) -> tuple[Touch, ...]:
    change = _edited(ctx, path, old, new, all, lines)
    return (Touch(change.path, bytes_hash(change.after)),)


@operation(_prepare_edit)
def edit(
    ctx: OperationContext, path: str, new: str, old: str = "", all: bool = False, lines: str = ""
) -> Result:
    """Replace the only occurrence of `old`, with `all` every one, or instead the `lines`, such as "3-5"."""
    change = _edited(ctx, path, old, new, all, lines)
    save(change.path, change.after, path)
    if lines and not old:
        first, last = change.places
        by = counted(new.count("\n") + (not new.endswith("\n") and new != ""), "line")
        text = f"replaced lines {first}-{last} of {change.name} by {by}"
        return Result(text, evidence={"path": change.name, "lines": [first, last]})
    count = len(change.places)
    text = f"replaced {counted(count, 'occurrence')} in {change.name} ({_lines(change.places)})"
    return Result(text, evidence={"path": change.name, "replaced": count, "lines": list(change.places[:100])})


def _refuse(old: str, new: str) -> None:
    if old == new:
        raise OperationFailed("old and new are the same; there is nothing to replace")
    if not old:
        raise OperationFailed("old is empty; give the text to replace, or use write")


def _edited(ctx: OperationContext, path: str, old: str, new: str, all_of_them: bool, lines: str) -> _Change:
    name = relative(ctx, ctx.writable(path))
    if lines and not old:
        return _with_lines(ctx, path, name, new, lines)
    if lines:
        raise OperationFailed("give either old or lines, not both")
    _refuse(old, new)
    change = _changed(ctx, path, old, new)
    if change is None:
        raise OperationFailed(f"{name}: {_why_absent(read_text(ctx, path), old)}")
    if len(change.places) > 1 and not all_of_them:
        raise OperationFailed(
            f"{name}: old occurs {len(change.places)} times ({_lines(change.places)}); "
            "give more of the text around it, or all: true"
        )
    return change


def _with_lines(ctx: OperationContext, path: str, name: str, new: str, lines: str) -> _Change:
    """The file with these lines, counted from 1, replaced by whole lines; by nothing if `new` is empty."""
    hit = re.fullmatch(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", lines.strip(), re.ASCII)
    if not hit:
        raise OperationFailed(f'lines: {lines!r} is none of "7" and "10-20"')
    first, last = int(hit[1]), int(hit[2] or hit[1])
    data = read_utf8(ctx, path)
    rows = re.findall(rb"[^\n]*\n|[^\n]+", data)
    if not 1 <= first <= last <= len(rows):
        raise OperationFailed(f"{name} has {counted(len(rows), 'line')}; there are no lines {first}-{last}")
    start = sum(map(len, rows[: first - 1]))
    becomes = _LineEnds(data).given_to(encoded(new, "new"), start)
    ends = rows[last - 1].endswith(b"\n")
    if becomes and ends and not becomes.endswith(b"\n"):
        becomes += b"\r\n" if rows[last - 1].endswith(b"\r\n") else b"\n"
    after = b"".join([*rows[: first - 1], becomes, *rows[last:]])
    if after == data:
        raise OperationFailed(f"{name}: lines {first}-{last} are so already; there is nothing to replace")
    return _Change(ctx.writable(path), name, after, (first, last))


def _changed(ctx: OperationContext, path: str, old: str, new: str) -> _Change | None:
    """The file with every occurrence replaced; None if there is none."""
    data = read_utf8(ctx, path)
    was, becomes = encoded(old, "old"), encoded(new, "new")
    ends, after, places, at, line = _LineEnds(data), list[bytes](), list[int](), 0, 1
    begun = 0  # where the occurrence before begins
    for hit in _as_lines(was).finditer(data):
        start, end = hit.span()
        line += data.count(b"\n", begun, start)
        places.append(line)
        after += [data[at:start], ends.given_to(becomes, start)]
        begun, at = start, end
    if not places:
        return None
    target = ctx.writable(path)
    return _Change(target, relative(ctx, target), b"".join([*after, data[at:]]), tuple(places))


def _as_lines(old: bytes) -> re.Pattern[bytes]:
    r"""Finds a text; callers write \n, where the file may have \r\n."""
    ends = rb"\r?\n" if b"\r\n" not in old else rb"\n"
    return re.compile(ends.join(map(re.escape, old.split(b"\n"))))


class _LineEnds:
    r"""Whether the lines of a file end with \r\n, at places that only go on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._end = -1  # of the line that was asked for last
        self._no_more = False

    def given_to(self, new: bytes, start: int) -> bytes:
        r"""A text that comes to a place, with \r\n if the line there, or the last one before it, ends so."""
        if b"\r\n" in new or b"\n" not in new:
            return new
        if self._end < start and not self._no_more:
            found = self._data.find(b"\n", start)
            self._no_more = found < 0
            self._end = self._data.rfind(b"\n") if self._no_more else found
        ended = self._data[max(self._end - 1, 0) : max(self._end, 0)]
        return new.replace(b"\n", b"\r\n") if ended == b"\r" else new


def _lines(places: tuple[int, ...]) -> str:
    distinct = list(dict.fromkeys(places))
    shown = ", ".join(str(place) for place in distinct[:_SHOWN_PLACES])
    more = ", …" if len(distinct) > _SHOWN_PLACES else ""
    return f"line{'' if len(distinct) == 1 else 's'} {shown}{more}"


def _why_absent(text: str, old: str) -> str:
    """Why the text was not found, with the place of a near match."""
    begin = next((_squeezed(line).lower() for line in old.split("\n") if line.strip()), "")
    for what, tidy in (("other upper and lower case", str.lower), ("other spaces or line breaks", _squeezed)):
        if tidy(old) and tidy(old) in tidy(text):
            lines = enumerate(map(_squeezed, text.split("\n")), 1)
            first = next((number for number, line in lines if begin and begin in line.lower()), 0)
            near = f" near line {first}" if first else ""
            return f"old does not occur; it does with {what}{near}. Read the file and copy it exactly"
    return "old does not occur in the file. Read the file and copy the text exactly"


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _prepare_replace(
    ctx: OperationContext, path: str, old: str, new: str, glob: str = ""
) -> tuple[Touch, ...]:
    changes, _ = _replaced(ctx, path, old, new, glob)
    return tuple(Touch(change.path, bytes_hash(change.after)) for change in changes)


@operation(_prepare_replace)
def replace(ctx: OperationContext, path: str, old: str, new: str, glob: str = "") -> Result:
    """Replace a text everywhere in one file, or in the files below a folder that the glob matches."""
    changes, left_out = _replaced(ctx, path, old, new, glob)
    for change in changes:
        save(change.path, change.after, change.name)
    total = sum(len(change.places) for change in changes)
    lines = [f"{change.name}: {len(change.places)}" for change in changes]
    lines.append(f"replaced {counted(total, 'occurrence')} in {counted(len(changes), 'file')}")
    if left_out:
        lines.append(f"(left out: {'; '.join(left_out[:20])})")
    counts = {change.name: len(change.places) for change in changes[:1000]}
    return Result("\n".join(lines), evidence={"replaced": total, "files": counts, "left_out": left_out[:100]})


def _replaced(
    ctx: OperationContext, path: str, old: str, new: str, glob: str
) -> tuple[list[_Change], list[str]]:
    _refuse(old, new)
    deadline = Deadline(ctx.timeout)
    start = ctx.readable(path)
    if not start.is_dir():
        regular(ctx, path)
        if glob:
            raise OperationFailed(f"{path}: this is a file; leave glob out, or name a folder")
        return [_edited(ctx, path, old, new, True, "")], []
    if not glob:
        raise OperationFailed(f"{path}: this is a folder; say in which files, such as glob: '*.md'")
    changes: list[_Change] = []
    left_out: list[str] = []
    for entry in files_below(ctx, path, glob, deadline):
        deadline.check()
        name = str(entry.path.relative_to(ctx.folder.resolve()))
        try:
            change = None if entry.link else _changed(ctx, name, old, new)  # its target has its own entry
            changes += [change] if change else []
        except OperationFailed as failure:
            left_out.append(str(failure))
    if not changes:
        why = f"; left out: {'; '.join(left_out[:5])}" if left_out else ""
        raise OperationFailed(f"{path}: old does not occur in any file that matches {glob}{why}")
    return changes, left_out
