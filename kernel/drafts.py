"""Drafts: what a run writes below `system/` lies in the run's own folder until it is admitted.

The run that wrote a draft sees it in place of the system's own file, so that it can be tried; no other does.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel import disk
from kernel.errors import OperationFailed
from kernel.text import fingerprint

ALIAS = (".fractal", "system")
"""The system's name in every folder, wherever the workspace keeps it."""
PERSONS = ("dangers.md",)
"""What only a person changes: no run may loosen what holds it."""


@dataclass(frozen=True)
class Drafts:
    """The drafts of one run: their folder, the system's own folder, and those that stand behind it."""

    folder: Path
    systems: tuple[Path, ...]

    @property
    def system(self) -> Path:
        """The workspace's own `system/`."""
        return self.systems[0]

    def relative(self, path: Path, folder: Path) -> str | None:
        """A resolved path as the system names it, such as `tools/web/pattern.md`; None for any other."""
        for base in (self.system.resolve(), folder.joinpath(*ALIAS), self.folder.resolve()):
            if base in path.parents:
                return path.relative_to(base).as_posix()
        return None

    def writable(self, name: str) -> Path:
        """Where a file of the system is drafted; the unit that it belongs to is copied there first."""
        if name in PERSONS:
            raise OperationFailed(f"{name}: only a person changes this file of the system")
        unit = unit_of(name)
        draft = self.folder / unit
        if not draft.exists():
            for each in self.systems:
                source = each / unit
                if source.is_dir():
                    part = draft.parent / f".{draft.name}.part"  # half a tool is no draft
                    shutil.rmtree(part, ignore_errors=True)
                    shutil.copytree(source, part, ignore=shutil.ignore_patterns("__pycache__"))
                    part.rename(draft)
                elif source.is_file():
                    with disk.of_the_state(draft):
                        disk.put(draft, source.read_bytes())
                if source.exists():
                    break
        return self.folder / name

    def readable(self, name: str) -> Path:
        """The file of the system as the run sees it: drafted, the workspace's own, or shipped."""
        places = [folder / name for folder in (self.folder, *self.systems)]
        return next((path for path in places if path.exists()), places[0])

    def units(self) -> list[str]:
        """The drafts that differ from what the system has: `tools/web`, `operations/x.md`, `phases/do.md`."""
        if not self.folder.is_dir():
            return []
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        names = {unit_of(path.as_posix()) for path in paths if not any(part[0] == "." for part in path.parts)}
        return sorted(name for name in names if self._differs(name))

    def _differs(self, unit: str) -> bool:
        own = next((each / unit for each in self.systems if (each / unit).exists()), None)
        return own is None or content(own) != content(self.folder / unit)

    def fingerprint(self, prefix: str) -> str:
        """The hash of all drafts whose names begin so."""
        units = [unit for unit in self.units() if unit.startswith(prefix)]
        return fingerprint([[unit, content(self.folder / unit)] for unit in units])[:16] if units else ""


def unit_of(name: str) -> str:
    """What is admitted as a whole: a tool's folder, or a file."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "tools" and len(parts) > 2 else name


def content(path: Path) -> list[list[str]]:
    """The files of a unit with their hashes."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    plain = [each for each in files if each.is_file() and "__pycache__" not in each.parts]
    base = path if path.is_dir() else path.parent
    return [
        [each.relative_to(base).as_posix(), hashlib.sha256(each.read_bytes()).hexdigest()] for each in plain
    ]


def built_by(texts: Sequence[str]) -> set[str]:
    """The names of tools whose files some of these paths are."""
    found: set[str] = set()
    for text in texts:
        parts = text.removeprefix("./").removeprefix(".fractal/").split("/")
        if len(parts) >= 4 and parts[:2] == ["system", "tools"]:
            found.add(parts[2])
        elif len(parts) == 3 and parts[:2] == ["system", "operations"]:
            found.add(parts[2].removesuffix(".md"))
    return found
