"""Reading and replacing files: UTF-8 only, and never half a file."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import itertools
import os
import stat
import unicodedata
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime import found_files
from runtime.sandbox.context import OperationContext
from runtime.text.shown import shown_name

LARGEST = 64_000_000
"""Bytes of the largest file that is read whole."""
MOST_CHARACTERS = 1_000_000
"""Most characters of the output of another program."""
_BINARY_PROBE = 8_192
LOOKED_AT = 500
"""Folders that are searched for a file of the same name if a path does not exist."""
_AROUND = " \t\"'`@<>"
"""What models write around a path."""
WIDE_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def reason(error: OSError) -> str:
    """The message of an error of the system."""
    return (error.strerror or str(error)).lower()


@contextmanager
def os_errors(name: str) -> Generator[None]:
    """Raise errors of the system as `OperationFailed`; `name` is the file for the message."""
    try:
        yield
    except OSError as error:
        raise OperationFailed(f"{name}: {reason(error)}") from None


def relative(ctx: OperationContext, path: Path) -> str:
    """A path relative to the folder, `.` for the folder itself; control characters are escaped."""
    return shown_name(ctx.shown(path))


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def cut(text: str) -> str:
    """The beginning of a long text, and how much is missing."""
    more = len(text) - MOST_CHARACTERS
    return f"{text[:MOST_CHARACTERS]}\n… {more:,} more characters" if more > 0 else text


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV, each ending with a line feed."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def existing(ctx: OperationContext, path: str) -> Path:
    """The absolute path of something that exists inside the folder."""
    target = ctx.readable(path)
    with os_errors(path):
        if target.exists():
            return target
    raise absent(ctx, path)


def absent(ctx: OperationContext, path: str, what: str = "file or folder") -> OperationFailed:
    """The failure for a path where nothing is, with the names that may be meant."""
    found = near(ctx, path)
    hint = f"; there is {', '.join(found)}" if found else ""
    return OperationFailed(f"{path}: there is no such {what}{hint or '; use list to see what is there'}")


def near(ctx: OperationContext, path: str) -> list[str]:
    """Files of the same name elsewhere in the folder, then names beside it that are similar."""
    asked = path.strip(_AROUND).removeprefix("file://").replace("\\", "/")
    name, found = PurePosixPath(asked).name, list[Path]()
    for where, folders, names in itertools.islice(os.walk(ctx.folder), LOOKED_AT):
        folders[:] = sorted(each for each in folders if each not in found_files.SKIPPED)
        found += [Path(where, each) for each in names if _folded(each) == _folded(name)]
    with suppress(OperationFailed, OSError):
        place = ctx.readable(asked).parent
        beside = {_folded(each.name): each.name for each in sorted(place.iterdir())}
        found += [place / beside[each] for each in difflib.get_close_matches(_folded(name), beside, 3)]
    return list(dict.fromkeys(ctx.shown(each) for each in found))[:3]


def _folded(name: str) -> str:
    """A name for comparison: in one form of its characters, and in small letters."""
    return unicodedata.normalize("NFKC", name).casefold()


def regular(ctx: OperationContext, path: str) -> Path:
    """The absolute path of a regular file inside the folder; a pipe or a device could block."""
    target = existing(ctx, path)
    mode = target.stat().st_mode
    if stat.S_ISDIR(mode):
        raise OperationFailed(f"{path}: this is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise OperationFailed(f"{path}: this is not an ordinary file (a pipe, a socket or a device)")
    return target


def read_bytes(ctx: OperationContext, path: str, largest: int = LARGEST) -> bytes:
    """The bytes of a file inside the folder; refuses folders, devices and files above `largest` bytes."""
    with os_errors(path), disk.opened(regular(ctx, path)) as handle:
        data = handle.read(largest + 1)
    if len(data) > largest:
        raise OperationFailed(
            f"{path}: larger than {largest // 1_000_000} MB; work on a part of it, with bash"
        )
    return data


def unreadable(data: bytes) -> str:
    """Why bytes are not UTF-8 text; "" if they are."""
    for bom, name in WIDE_BOMS:
        if data.startswith(bom):
            return f"{name} text, not UTF-8; convert it with: iconv -f {name} -t UTF-8"
    if b"\0" in data[:_BINARY_PROBE]:
        return "a binary file, not text"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return (
            f"not UTF-8 text (line {line}, byte {error.start}: 0x{data[error.start]:02x}); "
            "if it is Latin-1, convert it with: iconv -f ISO-8859-1 -t UTF-8"
        )
    return "a binary file, not text" if b"\0" in data else ""


def read_utf8(ctx: OperationContext, path: str) -> bytes:
    """The bytes of a UTF-8 file; refuses any other."""
    data = read_bytes(ctx, path)
    if why := unreadable(data):
        raise OperationFailed(f"{path}: {why}")
    return data


def read_text(ctx: OperationContext, path: str) -> str:
    """The text of a UTF-8 file with its line endings, without a byte order mark."""
    return read_utf8(ctx, path).decode("utf-8-sig")


def file_or_text(ctx: OperationContext, path: str, text: str, what: str) -> str:
    """The text of the file `path`, or the argument `text`; exactly one of them must be given."""
    if bool(path) == bool(text):
        raise OperationFailed(f"give either path, {what}, or text that is not empty")
    return read_text(ctx, path) if path else text


def encoded(text: str, what: str = "the text") -> bytes:
    """The UTF-8 bytes of an argument; raises for half a surrogate pair."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OperationFailed(
            f"{what}: character {error.start} is half of a surrogate pair, not text"
        ) from None


def lines_of(text: str) -> list[str]:
    r"""Lines without their ends (\n or \r\n); a last line without an end counts, an empty text has none."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def line_end(text: str) -> str:
    r"""The line ending of a text: \r\n if it has no other."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf and crlf == text.count("\n") else "\n"


def save(target: Path, data: bytes, name: str) -> None:
    """Replace a file atomically, synced to disk; `name` is for messages."""
    with os_errors(name):
        if target.is_dir():
            raise IsADirectoryError(0, "this is a folder; name a file in it")
        disk.put(target, data)


def save_to(ctx: OperationContext, to: str, data: bytes, what: str, evidence: Mapping[str, Any]) -> Result:
    """Write what an operation returns to the file `to`; the result says so."""
    target = ctx.writable(to)
    save(target, data, to)
    name = relative(ctx, target)
    return Result(f"wrote {what} to {name}", evidence={**evidence, "to": name})
