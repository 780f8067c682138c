"""Drafts: what a run writes below `system/` lies in the run's own folder until it is admitted.

The run that wrote a draft sees it in place of the system's own file, so that it can be tried; no other does.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kernel import disk
from kernel.document.escaping import fingerprint
from kernel.document.model import Step
from kernel.errors import OperationFailed
from kernel.tools.operations import ALIAS
from runtime.evolution.files import files, mark_of

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
        source = None if draft.exists() else self._source(unit)
        if source and source.is_dir():
            part = draft.parent / f".{draft.name}.part"  # half a tool is no draft
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(source, part, ignore=shutil.ignore_patterns("__pycache__"))
            part.rename(draft)
        elif source:
            with disk.of_the_state(draft):
                disk.put(draft, source.read_bytes())
        return self.folder / name

    def _source(self, unit: str) -> Path | None:
        """What the system has of a unit."""
        return next((each / unit for each in self.systems if (each / unit).exists()), None)

    def readable(self, name: str) -> Path:
        """The file of the system as the run sees it: drafted, the workspace's own, or shipped."""
        places = [folder / name for folder in (self.folder, *self.systems)]
        return next((path for path in places if path.exists()), places[0])

    def units(self) -> list[str]:
        """The drafts that differ from what the system has: `tools/web`, `operations/x.md`, `phases/do.md`."""
        if not self.folder.is_dir():
            return []
        names = {unit_of(path.relative_to(self.folder).as_posix()) for path in files(self.folder)}
        sources = {name: self._source(name) for name in names}
        return sorted(
            name
            for name, own in sources.items()
            if own is None or content(own) != content(self.folder / name)
        )

    @contextmanager
    def laid_out(self) -> Generator[Layout]:
        """The system as the run sees it, for one command; its folder is removed when the block ends."""
        with tempfile.TemporaryDirectory(prefix="fractal-system-") as place:
            folder = Path(place).resolve()
            for source in (*reversed(self.systems), self.folder):
                for name, _ in _files(source):
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source / name, folder / name)
            yield Layout(self, folder, dict(_files(folder)))

    def fingerprint(self, prefix: str) -> str:
        """The hash of all drafts whose names begin so."""
        units = [unit for unit in self.units() if unit.startswith(prefix)]
        return fingerprint([[unit, content(self.folder / unit)] for unit in units])[:16] if units else ""


@dataclass
class Layout:
    """The system as a run sees it, laid out as one folder that a command may change."""

    drafts: Drafts
    folder: Path
    begun: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def mounts(self, folder: Path) -> Mapping[Path, Path]:
        """Where a command in `folder` (resolved) sees it: under each name that the system has there."""
        places = (folder.joinpath(*ALIAS), self.drafts.system.resolve())
        return {place: self.folder for place in places if folder in place.parents}

    def taken(self) -> tuple[list[str], list[str]]:
        """The units of which the command's changes are now drafts, and what it may not change."""
        units: list[str] = []
        refused: list[str] = []
        now = dict(_files(self.folder))
        for name in sorted({*self.begun, *now}):
            if self.begun.get(name) == now.get(name):
                continue
            try:
                self._take(name, now.get(name))
                units.append(unit_of(name))
            except OperationFailed as error:
                refused.append(str(error))
        return list(dict.fromkeys(units)), refused

    def _take(self, name: str, file: tuple[int, ...] | None) -> None:
        target = self.drafts.writable(name)
        if file is not None:
            with disk.of_the_state(target):
                disk.put(target, (self.folder / name).read_bytes())
            target.chmod(stat.S_IMODE(file[0]))
        elif unit_of(name) == name and any((each / name).exists() for each in self.drafts.systems):
            raise OperationFailed(f"{name}: a file that the system has cannot be deleted by a draft")
        else:
            target.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The ordinary files below a folder, with what tells a changed one."""
    for path in files(folder):
        seen = path.lstat()
        if stat.S_ISREG(seen.st_mode):
            known = (seen.st_mode, seen.st_size, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns)
            yield path.relative_to(folder).as_posix(), known


def unit_of(name: str) -> str:
    """What is admitted as a whole: a tool's folder, or a file."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "tools" and len(parts) > 2 else name


def written_by(step: Step, unit: str) -> bool:
    """Whether a step wrote the draft of a unit."""
    places = (each["path"] for each in step.evidence.get("touched", ()))
    return unit in step.evidence.get("drafted", ()) or any(f"/drafts/{unit}" in f"/{p}" for p in places)


def content(path: Path) -> list[list[str]]:
    """The files of a unit with the marks of their contents."""
    found = files(path) if path.is_dir() else [path]
    return [[each.relative_to(path).as_posix(), mark_of(each)] for each in found]
