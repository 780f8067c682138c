"""What a job is: a task, the files that it starts from, and a check that code makes afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

KINDS = (
    "world",  # a question that needs no file
    "fact",  # a question whose answer is written in a file
    "compute",  # a question whose answer has to be computed from files
    "program",  # a new program
    "text",  # a new text or document
    "fix",  # a test that fails because of a bug
    "change",  # a change of code: rename, docstring, parameter, new function
    "config",  # a change of a settings file
    "convert",  # a file in another format
    "extract",  # some parts of a file, or of several, into a new file
    "files",  # files renamed, moved, removed, sorted into folders
    "parts",  # a task of several parts
    "page",  # a page to fetch; `{site}` in the task is its address
    "ask",  # a person has to be asked something first
)


@dataclass(frozen=True)
class Job:
    """One task in a folder of its own."""

    name: str
    kind: str
    task: str
    check: Callable[[Path, str], bool]
    """Whether the job is done: given the folder afterwards and the answer. An exception counts as no."""
    solution: Callable[[Path], str]
    """Does the job in the folder by code, and returns the answer; shows that `check` can be met."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    hard: bool = False
    pages: Mapping[str, str] = field(default_factory=dict[str, str])  # by path, served at `{site}`
    reply: str = ""  # what the person answers if asked


def create(job: Job, folder: Path) -> None:
    """Write the files that the job starts from."""
    for name, text in job.files.items():
        write(folder, name, text)


def write(folder: Path, name: str, text: str) -> None:
    """Write a file, and the folders above it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def read(folder: Path, name: str) -> str:
    """The text of a file; for checks, like all that follows."""
    return (folder / name).read_text("utf-8")


def lines(text: str) -> list[str]:
    """The lines that are not empty, without white space at their ends."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def kept(folder: Path, files: Mapping[str, str], *but: str) -> bool:
    """Whether all the files except some still have their text; white space at line ends does not count."""
    return all(
        [line.rstrip() for line in read(folder, name).rstrip().splitlines()]
        == [line.rstrip() for line in text.rstrip().splitlines()]
        for name, text in files.items()
        if name not in but
    )


def python(folder: Path, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in the folder."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=20,
        input=stdin,
        check=False,
    )


def passes(folder: Path, *tests: str) -> bool:
    """Whether pytest passes these test files."""
    return python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", *tests).returncode == 0
