"""Creates and reads the folder of the everyday tasks: files, archives and a git repository."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, time
from pathlib import Path

import yaml

CONTENT = Path(__file__).with_suffix(".yaml")
OWN = frozenset({".git", ".fractal", "state", "system", "fractal.yaml", ".gitignore"})
"""Files of git and Fractal, not of the user."""


def create(folder: Path) -> None:
    """Fill an empty folder."""
    content = yaml.safe_load(CONTENT.read_text("utf-8"))
    for name, text in content["files"].items():
        _write(folder / name, text)
    for name, members in content["archives"].items():
        _pack(folder / name, members)
    _write(folder / ".gitignore", "state/\n")
    _git(folder, "init", "-q", "-b", "main")
    for commit in content["commits"]:
        _git(folder, "add", *commit["files"])
        _git(folder, "commit", "-q", "-m", commit["message"])
    for name, text in content["uncommitted"].items():
        _write(folder / name, text)
    for name, day in content["modified"].items():
        seconds = datetime.combine(day, time(12), UTC).timestamp()
        os.utime(folder / name, (seconds, seconds))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _pack(path: Path, members: Mapping[str, str]) -> None:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


def _git(folder: Path, *words: str) -> None:
    author = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Dana"), ("EMAIL", "dana@example.com"), ("DATE", "2024-05-01T12:00:00Z"))
    }
    config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **author, **config})


def files_in(folder: Path) -> dict[str, bytes | None]:
    """The content of each file in a folder by its path; None for a folder, whose path ends with `/`."""
    content: dict[str, bytes | None] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if name.parts[0] in OWN or "__pycache__" in name.parts:
            continue
        if path.is_dir():
            content[f"{name.as_posix()}/"] = None
        else:
            content[name.as_posix()] = path.read_bytes()
    return content


def archive_members(data: bytes) -> set[str]:
    """The names of the files in an archive, without their folders."""
    stream = io.BytesIO(data)
    if zipfile.is_zipfile(stream):
        names = zipfile.ZipFile(stream).namelist()
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            names = [each.name for each in archive if each.isfile()]
    return {Path(name).name for name in names if not name.endswith("/")}
