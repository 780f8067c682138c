"""A problem of a suite: a task, and how its solution is judged."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """A task with its `answer`, or with a command that tests what became of its files.

    `files` are texts by path, `checks` those that the command needs; both can also be the folders
    `repository` and `checks` in `folder`.
    """

    id: str
    task: str
    answer: str = ""
    family: str = ""
    test: str = ""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    checks: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: Path | None = None

    def lay_out(self, place: Path) -> None:
        """Write the files to an empty folder."""
        place.mkdir(parents=True, exist_ok=True)
        if self.folder and (self.folder / "repository").is_dir():
            shutil.copytree(self.folder / "repository", place, dirs_exist_ok=True, symlinks=True)
        for name, text in self.files.items():
            _write(place, name, text.encode())
        self.restore_checks(place)

    def restore_checks(self, place: Path) -> None:
        """Write the checks again, as they were before anybody changed them. Raises `OSError`."""
        for name, text in self.checks.items():
            _write(place, name, text.encode())
        if self.folder:
            own = self.folder / "checks"
            for path in filter(Path.is_file, own.rglob("*")):
                _write(place, str(path.relative_to(own)), path.read_bytes())


def _write(place: Path, name: str, raw: bytes) -> None:
    """Write a file in the place of whatever is there; no link that a run has left is followed."""
    *folders, last = Path(name).parts
    path = place
    for part in folders:
        path /= part
        if path.is_symlink() or path.is_file():
            path.unlink()
        path.mkdir(exist_ok=True)
    path /= last
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.write_bytes(raw)
