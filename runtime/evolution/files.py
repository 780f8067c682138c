"""The files of the system by content: read from the folder, kept by hash in `state/system/blobs/`.

A mark names a content: its SHA-256, followed by `+x` if the file is executable. "" means no file.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.escaping import to_json
from kernel.errors import FractalError
from kernel.tools.tool import Tool
from runtime.catalogue.pattern import Fault, load

KEPT_BYTES = 20_000_000
"""The content of a larger file is not kept, so the file cannot be put back."""
EXECUTABLE = "+x"
TOOL_FILE = re.compile(r"tools/[^/]+/(?:pattern|SKILL)\.md|(?:operations|kernel)/[^/]+\.md")
"""The names of the files that define tools and operations."""
_FRONTMATTER = re.compile(r"(?ms)\A(?:\ufeff)?---[ \t]*\r?\n(?P<fields>.*?)^---[ \t]*\r?$")


@dataclass(frozen=True)
class File:
    """The content of a file, and whether it is executable."""

    raw: bytes
    executable: bool = False

    @property
    def mark(self) -> str:
        """The mark of this content."""
        return hashlib.sha256(self.raw).hexdigest() + (EXECUTABLE if self.executable else "")


def read(path: Path, limit: float = float("inf")) -> File | None:
    """The file at `path`; None if there is none or it has more than `limit` bytes."""
    try:
        stat = path.stat()
        return File(disk.read(path), _executable(stat.st_mode)) if stat.st_size <= limit else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def mark_of(path: Path) -> str:
    """The mark of the file at `path`, of any size; "" if there is none."""
    try:
        with disk.opened(path) as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
            return digest + (EXECUTABLE if _executable(os.fstat(handle.fileno()).st_mode) else "")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def content_of(mark: str) -> str:
    """A mark without its executable flag."""
    return mark.removesuffix(EXECUTABLE)


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder that belong to the system: not hidden, temporary or compiled ones."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        yield from (Path(where, name) for name in sorted(names) if _belongs(name))


def _belongs(name: str) -> bool:
    return name[0] != "." and not name.endswith(("~", ".tmp", ".pyc"))


def scan(folder: Path, known_marks: Mapping[str, str]) -> dict[str, str]:
    """The mark of every file below a folder; one that is unreadable now keeps its `known` mark."""
    marks: dict[str, str] = {}
    for path in files(folder):
        name = path.relative_to(folder).as_posix()
        try:
            mark = mark_of(path)
        except OSError:
            mark = known_marks.get(name, "")
        if mark:
            marks[name] = mark
    return marks


def unit_of(name: str, names: Container[str] = ()) -> str:
    """What is adopted as a whole: a tool's folder, an operation's markdown with its program, else the file.

    A program belongs to the markdown of the same stem if that is among the other `names`.
    """
    folder, _, rest = name.partition("/")
    if folder == "tools" and "/" in rest:
        return f"tools/{rest.partition('/')[0]}"
    markdown = f"{name.rpartition('.')[0]}.md"
    return markdown if folder in ("operations", "kernel") and markdown in names else name


def shared_unit(names: Collection[str]) -> str:
    """The unit of several files; if they have more than one, the folder they share, or ""."""
    units = {unit_of(name, names) for name in names}
    shared = units if len(units) == 1 else {unit.partition("/")[0] for unit in units}
    return shared.pop() if len(shared) == 1 else ""


def unit_files(folder: Path, unit: str) -> list[str]:
    """The names of a unit's files in a folder of the system."""
    place = folder / unit
    paths = files(place) if place.is_dir() else place.parent.glob(f"{glob.escape(place.stem)}*")
    names = [path.relative_to(folder).as_posix() for path in paths if _belongs(path.name)]
    return sorted(name for name in names if unit in (name, unit_of(name, names)))


def with_field(text: str, name: str, value: str) -> str:
    """Set one field of a markdown file's frontmatter and change nothing else.

    Raises `FractalError` if the text has no frontmatter.
    """
    block = _FRONTMATTER.match(text)
    if not block:
        raise FractalError("there is no frontmatter between two lines of ---; begin the file with one")
    plain = value if re.fullmatch(r"[a-z][a-z0-9-]*", value) else json.dumps(value, ensure_ascii=False)
    newline = "\r\n" if "\r\n" in block[0] else "\n"
    line, fields = f"{name}: {plain}", block["fields"]
    fields, replaced = re.subn(rf"(?m)^{re.escape(name)}[ \t]*:[^\r\n]*", lambda _: line, fields, count=1)
    if not replaced:
        fields += line + newline
    start, end = block.span("fields")
    return text[:start] + fields + text[end:]


def with_head(values: Mapping[str, Any], body: str) -> bytes:
    """A markdown file whose head has a line for each value that is not empty."""
    head = "".join(f"{name}: {to_json(value)}\n" for name, value in values.items() if value)
    return f"---\n{head}---\n{body}\n".encode()


def read_head(text: str, fields: Container[str]) -> tuple[dict[str, Any], str]:
    """The `known` values of such a file, and its body. Raises `ValueError`."""
    _, head, body = text.split("---\n", 2)
    pairs = (line.split(": ", 1) for line in head.splitlines())
    return {name: json.loads(value) for name, value in pairs if name in fields}, body.strip()


def tool_at(path: Path) -> Tool | Fault:
    """The tool whose markdown is at `path` now, or what is wrong with it."""
    stat = path.stat()
    return load(path, stat.st_mtime_ns, stat.st_size)


def numbered(folder: Path, letter: str) -> list[str]:
    """The ids in a folder, such as `p7` for a folder `p7` or a file `p7.md`, in order."""
    ids = {path.stem for path in folder.glob(f"{letter}*")}
    return sorted((id for id in ids if re.fullmatch(r".[1-9]\d*", id)), key=lambda id: int(id[1:]))


def claim(folder: Path, letter: str, create: Callable[[str], None]) -> str:
    """A new id in a folder; `create` raises `FileExistsError` if another process has just taken it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = int((numbered(folder, letter) or [f"{letter}0"])[-1][1:])
    while True:
        number += 1
        with suppress(FileExistsError):
            create(f"{letter}{number}")
            return f"{letter}{number}"


def one_line(text: str, head: int, tail: int = 0) -> str:
    """The text on one line; of a longer one its first `head` and its last `tail` characters."""
    line = " ⏎ ".join(text.strip().splitlines())
    if len(line) <= head + tail:
        return line
    return f"{line[:head]} … {line[-tail:]}" if tail else f"{line[: head - 1]}…"


class Blobs:
    """Compressed contents by hash; each is written once and never changed."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.folder = folder
        self._fsync = fsync

    def keep(self, file: File, *, fsync: bool = True) -> None:
        """Keep a content, before anything refers to it."""
        path = self._path(file.mark)
        if len(file.raw) <= KEPT_BYTES and not path.exists():
            disk.put(path, zlib.compress(file.raw), mode=0o600, fsync=self._fsync and fsync)

    def file(self, mark: str) -> File | None:
        """The content of a mark; None for "". Raises `FractalError` if it was not kept."""
        if not mark:
            return None
        path = self._path(mark)
        try:
            raw = zlib.decompress(path.read_bytes())
        except FileNotFoundError:
            raise FractalError(
                f"{path}: this content is not there: files above {KEPT_BYTES // 1_000_000} MB are not kept"
            ) from None
        except (OSError, zlib.error) as error:
            raise FractalError(f"{path}: cannot be read: {error}; restore it from a backup") from None
        if hashlib.sha256(raw).hexdigest() != path.name:
            raise FractalError(f"{path}: the content does not match its name; restore it from a backup")
        return File(raw, mark.endswith(EXECUTABLE))

    def _path(self, mark: str) -> Path:
        return self.folder / content_of(mark)


def _executable(mode: int) -> bool:
    return bool(mode & 0o111)
