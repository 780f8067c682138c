"""Finds what a folder brings along for agents: folders of skills, and a file of guidance such as AGENTS.md.

It knows nothing of trust: `trust.py` says which of it may be used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from runtime import user_files
from runtime.skill_files import skill_files
from runtime.workspace.imports import Imports

GUIDANCE_CHARS = 40_000
"""Maximum characters of the file of guidance that are kept; a conversation shows a tenth of its window."""
GUIDANCE_BYTES = 64_000
"""Bytes of it that are read; with its size they stand for the file where it is allowed."""
MOST_FILES, MOST_BYTES = 500, 20_000_000
"""Of a skill that is found by itself: every run reads all its files to see whether they are as allowed."""


@dataclass(frozen=True)
class Guidance:
    """A file of guidance: its path, its name as seen from the folder, its bytes, and how it begins."""

    path: Path
    name: str
    size: int = 0
    beginning: bytes = b""
    problem: str = ""  # why it cannot be used
    imported: tuple[str, ...] = ()  # the files whose texts are a part of it

    @property
    def text(self) -> str:
        """The beginning as text, of at most `GUIDANCE_CHARS` characters; a mark says what was cut."""
        text = self.beginning.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if self.size <= len(self.beginning) and len(text) <= GUIDANCE_CHARS:
            return text
        shown = text[:GUIDANCE_CHARS]
        shown = shown[: shown.rfind("\n") + 1].rstrip() or shown  # whole lines
        return (
            f"{shown}\n[… cut after {len(shown):,} characters; whole ({self.size:,} bytes) in {self.name} …]"
        )


def git_root(folder: Path) -> Path | None:
    """The nearest folder, this one or one above it, with a `.git`."""
    places = (folder, *folder.parents)
    return next((place for place in places if os.path.lexists(place / ".git")), None)


@dataclass(frozen=True)
class FoundSkill:
    """A folder inside of a folder of skills."""

    path: Path
    problem: str = ""  # why it cannot be used


def skills(folder: Path, names: Sequence[str]) -> list[FoundSkill]:
    """What lies in the folders with these names, in the folder itself and in its git root."""
    top = git_root(folder) or folder
    found: list[FoundSkill] = []
    for parent in (place / name for place in dict.fromkeys((folder, top)) for name in names):
        with suppress(OSError):  # it is not there, or may not be read
            found += [_skill(each, top) for each in sorted(parent.iterdir()) if os.path.isdir(each)]  # noqa: PTH112
    return found


def user_skills(names: Sequence[str]) -> list[FoundSkill]:
    """What lies in the user's own folders of skills, which links may lead to from anywhere."""
    found: list[FoundSkill] = []
    for name in names:
        with suppress(OSError, RuntimeError):
            parent = (
                user_files.user_folder().parent / name[10:] if name.startswith("~/.config/") else Path(name)
            )
            entries = sorted(parent.expanduser().iterdir())
            found += [_skill(each, None) for each in entries if os.path.isdir(each)]  # noqa: PTH112
    return found


def _skill(path: Path, top: Path | None) -> FoundSkill:
    """A skill; it may be a link to another place in the repository. `trust` looks at what is in it."""
    if top and not Path(os.path.realpath(path)).is_relative_to(top):
        return FoundSkill(path, f"{path} is a link that leads out of {top}")
    files, size = list(islice(_files_below(path), MOST_FILES + 1)), 0
    if len(files) > MOST_FILES:
        return FoundSkill(path, f"more than {MOST_FILES} files")
    for file in files:
        with suppress(OSError):
            size += file.lstat().st_size
    return FoundSkill(path, f"more than {MOST_BYTES:,} bytes" if size > MOST_BYTES else "")


def _files_below(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def skills_below(folder: Path) -> list[Path]:
    """The skills of a folder that the settings name, as the catalogue finds them."""
    return [Path(file).parent for file in skill_files(str(folder))]


def guidance(folder: Path, names: Sequence[str], private: Sequence[Path] = ()) -> Guidance | None:
    """The first file of these names in the folder, else in the nearest folder above it in its git repository.

    A link is followed inside of the repository (without one: of the folder), and not to `private` folders.
    The files that it imports are a part of it.
    """
    top = git_root(folder) or folder
    for path in (place / name for place in _upwards(folder, top) for name in names):
        real, name = Path(os.path.realpath(path)), os.path.relpath(path, folder)
        allowed = real.is_relative_to(top) and not any(real.is_relative_to(each) for each in private)
        if not (allowed and os.path.isfile(real)):  # noqa: PTH113 (Path.is_file raises where it may not look)
            continue
        try:
            with real.open("rb") as file:
                beginning, size = file.read(GUIDANCE_BYTES), os.fstat(file.fileno()).st_size
        except OSError as error:
            return Guidance(path, name, problem=f"cannot be read: {error.strerror}")
        if b"\0" in beginning:
            return Guidance(path, name, problem="it is not text")
        imports = Imports(folder, top, tuple(private), GUIDANCE_BYTES - len(beginning))
        whole = imports.expanded(path, beginning)
        size += max(imports.size, len(whole) - len(beginning))
        return Guidance(path, name, size, whole[:GUIDANCE_BYTES], imported=tuple(imports.names))
    return None


def _upwards(folder: Path, top: Path) -> Iterator[Path]:
    yield folder
    yield from (place for place in folder.parents if place.is_relative_to(top))
