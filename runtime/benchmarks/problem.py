"""A problem of a suite: a task, and how its solution is judged."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernel.errors import UsageError


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
        _write(place, self.files)
        self._copy("repository", place)
        self.restore_checks(place)

    def restore_checks(self, place: Path) -> None:
        """Write the checks again, as they were before anybody changed them."""
        _write(place, self.checks)
        self._copy("checks", place)

    def _copy(self, name: str, place: Path) -> None:
        if self.folder and (self.folder / name).is_dir():
            shutil.copytree(self.folder / name, place, dirs_exist_ok=True, symlinks=True)


def _write(place: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = place / name
        if not path.resolve().is_relative_to(place.resolve()):
            raise UsageError(f"{name}: the path leads out of the problem's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
