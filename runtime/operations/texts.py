"""Reading and replacing files: UTF-8 only, and never half a file."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import OperationContext

LARGEST = 64_000_000
"""Bytes of the largest file that is read whole."""
_BINARY_PROBE = 8_192
_WIDE_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def trouble(name: str, error: OSError) -> OperationFailed:
    """An error of the system as `OperationFailed`."""
    return OperationFailed(f"{name}: {(error.strerror or str(error)).lower()}")


def existing(ctx: OperationContext, path: str) -> Path:
    """The absolute path of something that exists inside the folder."""
    target = ctx.readable(path)
    try:
        target.stat()
    except FileNotFoundError:
        raise OperationFailed(
            f"{path}: there is no such file or folder; use list to see what is there"
        ) from None
    except OSError as error:
        raise trouble(path, error) from None
    return target


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
    target = regular(ctx, path)
    try:
        with disk.opened(target) as handle:
            data = handle.read(largest + 1)
    except OSError as error:
        raise trouble(path, error) from None
    if len(data) > largest:
        raise OperationFailed(
            f"{path}: larger than {largest // 1_000_000} MB; work on a part of it, with bash"
        )
    return data


def unreadable(data: bytes) -> str:
    """Why bytes are not UTF-8 text; "" if they are."""
    for bom, name in _WIDE_BOMS:
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


def read_text(ctx: OperationContext, path: str) -> str:
    """The text of a UTF-8 file with its line endings, without a byte order mark."""
    data = read_bytes(ctx, path)
    if why := unreadable(data):
        raise OperationFailed(f"{path}: {why}")
    return data.decode("utf-8-sig")


def given(ctx: OperationContext, path: str, text: str, what: str) -> str:
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


def save(target: Path, data: bytes, name: str) -> None:
    """Replace a file atomically, synced to disk; `name` is for messages."""
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "this is a folder; name a file in it")
        disk.put(target, data)
    except OSError as error:
        raise trouble(name, error) from None
