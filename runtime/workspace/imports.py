"""Reads what a file of guidance imports: `@docs/style.md` in a line puts that file after the line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernel import disk
from runtime.sandbox.bubblewrap import HOME_SECRETS

DEPTH = 5
"""Levels of files that import files."""
MOST_IMPORTS = 100
"""Files that are imported."""
_IMPORT = re.compile(r"(?:(?<=\s)|^)@([^\s`@]*[^\s`@.,;:!?)\]])")
_FENCE = re.compile(r"\s*(```|~~~)")
_CODE = re.compile(r"`[^`]*`")
_OF_HOME = (".md", ".markdown", ".txt")
"""Endings of files that are imported from the home directory: others may be keys."""


@dataclass
class Imports:
    """Reads what is imported below `top`, or from the user's home; `private` folders are not read.

    Each file is read once, so that circles end. `size` is the bytes of all, of which `room` are kept.
    """

    folder: Path
    top: Path
    private: tuple[Path, ...]
    room: int
    names: list[str] = field(default_factory=list[str])
    size: int = 0
    _seen: set[Path] = field(default_factory=set[Path])

    def expanded(self, path: Path, raw: bytes) -> bytes:
        """The text of a file with what it imports; `raw` itself if that is nothing."""
        self._seen.add(path.resolve())
        text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
        found = "".join(self._lines(path.resolve(), text, 1))
        return raw if found == text else found.encode()

    def _lines(self, path: Path, text: str, depth: int) -> Iterator[str]:
        fenced = False
        for line in text.splitlines(keepends=True):
            yield line
            fenced ^= bool(_FENCE.match(line))
            plain = "" if fenced or _FENCE.match(line) else _CODE.sub("", line)
            if parts := [part for name in _IMPORT.findall(plain) for part in self._import(path, name, depth)]:
                yield from ["" if line.endswith("\n") else "\n", *parts]

    def _import(self, path: Path, said: str, depth: int) -> Iterator[str]:
        try:
            place = Path(said).expanduser() if said.startswith("~/") else path.parent / said
            real = place.resolve()
            if real in self._seen or not real.is_file():
                return
        except (OSError, RuntimeError, ValueError):
            return
        name = self._name(said, real)
        if why := self._why_not(real, said, depth):
            yield f"[{name}: not imported: {why}]\n"
            return
        try:
            raw = disk.read(real)
        except OSError as error:
            yield f"[{name}: not imported: {error.strerror}]\n"
            return
        self._seen.add(real)
        if b"\0" in raw:
            return
        self.names.append(name)
        self.size += len(raw)
        self.room -= len(raw)
        text = raw.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\n")
        yield f"[{name}:]\n"
        yield from self._lines(real, f"{text}\n", depth + 1)
        yield f"[end of {name}]\n"

    def _why_not(self, real: Path, said: str, depth: int) -> str:
        home = Path.home().resolve()
        hidden = [*(home / name for name in HOME_SECRETS), *self.private]
        if any(each == real or each in real.parents for each in hidden):
            return "it lies outside"
        own = said.startswith("~/") and real.is_relative_to(home) and real.suffix.lower() in _OF_HOME
        if not (real.is_relative_to(self.top) or own):
            return "it lies outside"
        if depth > DEPTH:
            return f"more than {DEPTH} files deep"
        if real.stat().st_size > self.room or len(self.names) >= MOST_IMPORTS:
            self.size += real.stat().st_size
            return "there is no room left"
        return ""

    def _name(self, said: str, real: Path) -> str:
        return said if said.startswith("~/") else os.path.relpath(real, self.folder)
