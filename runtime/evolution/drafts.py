"""Drafts: what a run writes below `system/` lies in the run's own folder until it is admitted.

The run that wrote a draft sees it in place of the system's own file, so that it can be tried; no other does.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kernel import Tool, disk
from kernel.document.escaping import fingerprint
from kernel.document.model import Step
from kernel.errors import OperationFailed
from runtime.evolution.files import files, mark_of, unit_files, unit_of
from runtime.sandbox.context import ALIAS
from runtime.tool_files import fingerprint_of

PERSONS = ("dangers.md",)
"""What only a person changes: no run may loosen what holds it."""


@dataclass(frozen=True)
class Drafts:
    """The drafts of one run: their folder, the system's own folder, and the folders it overrides."""

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
        source = next((each / unit for each in self.systems if (each / unit).exists()), None)
        if draft.exists() or source is None:
            return self.folder / name
        if source.is_dir():
            part = draft.parent / f".{draft.name}.part"  # half a tool is no draft
            with suppress(OSError):
                disk.remove_all(part)
            shutil.copytree(source, part, ignore=shutil.ignore_patterns("__pycache__"))
            part.rename(draft)
        else:
            with disk.writing_state(draft):
                disk.put(draft, source.read_bytes())
        return self.folder / name

    def readable(self, name: str) -> Path:
        """The file of the system as the run sees it: drafted, the workspace's own, or shipped."""
        places = [folder / name for folder in (self.folder, *self.systems)]
        return next((path for path in places if path.exists()), places[0])

    def units(self) -> list[str]:
        """The drafts that differ from what the system has: `tools/web`, `operations/x.md`, `phases/do.md`."""
        names = [path.relative_to(self.folder).as_posix() for path in files(self.folder)]
        return sorted(unit for unit in {unit_of(name, names) for name in names} if self._differs(unit))

    def _differs(self, unit: str) -> bool:
        system = next((each for each in self.systems if (each / unit).exists()), None)
        return system is None or marks(system, unit) != marks(self.folder, unit)

    @contextmanager
    def laid_out(self) -> Generator[Layout]:
        """The system as the run sees it, for one command; its folder is removed when the block ends."""
        with tempfile.TemporaryDirectory(prefix="fractal-system-") as place:
            folder = Path(place).resolve()
            for source in (*reversed(self.systems), self.folder):
                for path in _ordinary_files(source):
                    target = folder / path.relative_to(source)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, target)
            yield Layout(self, folder, _contents(folder))

    def used(self, tool: Tool | None) -> dict[str, str]:
        """The fingerprints of the drafts that a child of this tool uses, which show that they were tried."""
        if not self.units():
            return {}
        own = {"tool": fingerprint_of(tool)} if tool and tool.draft else {}
        phases = self.fingerprint("phases/")
        return own | ({"phases": phases} if phases else {})

    def fingerprint(self, prefix: str) -> str:
        """The hash of all drafts whose names begin so; "" if there are none."""
        units = [unit for unit in self.units() if unit.startswith(prefix)]
        return fingerprint([[unit, marks(self.folder, unit)] for unit in units])[:16] if units else ""


@dataclass(frozen=True)
class Layout:
    """The system as a run sees it, laid out as one folder that a command may change."""

    drafts: Drafts
    folder: Path
    before: Mapping[str, str]  # the marks of its files

    def mounts(self, folder: Path) -> Mapping[Path, Path]:
        """Where a command in `folder` (resolved) sees it: under each name that the system has there."""
        places = (folder.joinpath(*ALIAS), self.drafts.system.resolve())
        return {place: self.folder for place in places if folder in place.parents}

    def taken(self) -> tuple[list[str], list[str]]:
        """Take over the command's changes; returns the drafted units and the refused files."""
        units: dict[str, None] = {}
        refused: list[str] = []
        after = _contents(self.folder)
        for name in sorted({*self.before, *after}):
            if self.before.get(name) == after.get(name):
                continue
            try:
                self._take(name, removed=name not in after)
                units[unit_of(name)] = None
            except OperationFailed as error:
                refused.append(str(error))
        return list(units), refused

    def _take(self, name: str, *, removed: bool) -> None:
        target = self.drafts.writable(name)
        if not removed:
            with disk.writing_state(target):
                disk.put(target, (self.folder / name).read_bytes())
            shutil.copymode(self.folder / name, target)
        elif unit_of(name) == name and any((each / name).exists() for each in self.drafts.systems):
            raise OperationFailed(f"{name}: a file that the system has cannot be deleted by a draft")
        else:
            target.unlink(missing_ok=True)


def _ordinary_files(folder: Path) -> Iterator[Path]:
    return (path for path in files(folder) if stat.S_ISREG(path.lstat().st_mode))


def _contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): mark_of(path) for path in _ordinary_files(folder)}


def written_by(step: Step, unit: str) -> bool:
    """Whether a step wrote a file of the draft of a unit."""
    places = (each["path"] for each in step.evidence.get("touched", ()))
    stem = unit.removesuffix("md")  # the program of an operation has another suffix
    return any(name.startswith(stem) for name in step.evidence.get("drafted", ())) or any(
        f"/drafts/{stem}" in f"/{path}" for path in places
    )


def marks(folder: Path, unit: str) -> list[list[str]]:
    """The files of a unit in a folder of the system, with their marks."""
    return [[name, mark_of(folder / name)] for name in unit_files(folder, unit)]
