"""Whether texts are what the endings of their names say, such as Python, JSON, YAML, XML or shell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from kernel.loop.hooks import FolderChanges
from runtime.proving import forms
from runtime.sandbox.programs import PYTHON, program, run
from runtime.secrets.redaction import redact
from runtime.text.shown import shown_name
from runtime.text.terminal import neutralise

LARGEST = 1_000_000
"""Bytes of the largest file that is parsed."""
CODE = frozenset({".py", ".pyi", ".json", ".yaml", ".yml", ".toml", ".xml", ".svg", ".html", ".htm", ".sh"})
"""Endings of files that have to parse once a run has changed them."""
SECONDS = 5
"""CPU seconds that a text may take."""
COSTLY = 3
"""Texts that may take more: what follows them is left alone. The smallest come first."""
_WAIT = 60.0
"""Seconds that the process is awaited that parses them."""
_TEMPLATE = re.compile(r"\{\{|\{%|<%|<\?php")
_WITH_COMMENTS = re.compile(r"(?:^|/)(?:[tj]sconfig[^/]*\.json$|\.vscode/|\.devcontainer/|\.eslintrc)")
_COSTLY = (forms.UNKNOWN, "it takes too much time or memory to be parsed")

Wrong = tuple[int, str] | None
"""The line of a text that is wrong (0: not known; `UNKNOWN`: it cannot be told), and why."""


@dataclass(frozen=True)
class Fault:
    """A file that does not parse: the first line that is wrong (0: not known), and why."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{shown_name(self.path)}:{self.line}" if self.line else shown_name(self.path)
        return f"{where}: {self.message}"


def parses(folder: Path, changes: FolderChanges, seconds: int = SECONDS) -> list[Fault]:
    """The changed files that do not parse now, and did at the start of the run or were not there.

    Python is read as the Python that runs Fractal reads it, unless the folder has an environment with a newer
    one. Templates, files above `LARGEST` bytes, and what takes too much to be told, are left alone.
    """
    texts = {path: text for path in sorted(changes.moved) if (text := text_of(folder / path)) is not None}
    faults = _faults(folder, texts, seconds)
    there = set(changes.there()) if faults else set[str]()
    before = {each.path: changes.before(each.path) for each in faults if each.path in there}
    broken = {each.path for each in _faults(folder, before, seconds)}
    return [each for each in faults if each.path not in broken]


def parse(name: str, text: str, folder: Path) -> None:
    """Parse a text by the ending of its file's name; an unknown ending has no form.

    Raises `ValueError` that says why it is not what the ending says, or cannot be told. `folder` is the one
    whose programs do not count: bash, which reads shell scripts, is not taken from there.
    """
    for wrong in _wrong(folder, [(name, text)], SECONDS):
        if wrong:
            raise ValueError(wrong[1])


def _faults(folder: Path, texts: Mapping[str, str], seconds: int) -> list[Fault]:
    """What is wrong with the texts that have to parse, by path."""
    by_size = sorted(texts.items(), key=lambda each: len(each[1]))
    looked_at = [each for each in by_size if _has_to_parse(folder, *each)]
    found = zip(looked_at, _wrong(folder, looked_at, seconds), strict=True)
    faults = [
        Fault(path, wrong[0], redact(neutralise(wrong[1]))[:200])
        for (path, _), wrong in found
        if wrong and wrong[0] != forms.UNKNOWN
    ]
    return sorted(faults, key=lambda each: [*texts].index(each.path))


def _wrong(folder: Path, texts: Sequence[tuple[str, str]], seconds: int) -> list[Wrong]:
    """What is wrong with each text, in its order. bash reads scripts without running them."""
    others = _parsed([each for each in texts if not _is_script(each[0])], seconds)
    return [_of_bash(folder, text) if _is_script(name) else next(others) for name, text in texts]


def _parsed(texts: Sequence[tuple[str, str]], seconds: int) -> Iterator[Wrong]:
    """What processes of their own say of the texts: one of them ends with a text that is too costly."""
    rest, costly = list(texts), 0
    while rest and costly < COSTLY:
        given = json.dumps({"seconds": seconds, "path": _places(), "texts": rest}).encode()
        try:
            printed = run([*PYTHON, forms.__file__], Path("/"), stdin=given, timeout=_WAIT).stdout
        except subprocess.TimeoutExpired as error:
            printed = error.stdout or b""
        lines = [line for line in printed.split(b"\n")[:-1] if line]
        yield from (tuple(each) if (each := json.loads(line)) else None for line in lines)
        rest = rest[len(lines) :]
        if rest:
            yield _COSTLY
            rest, costly = rest[1:], costly + 1
    yield from (_COSTLY for _ in rest)


@cache
def _places() -> list[str]:
    """Where the modules are that parse and do not come with Python."""
    found = find_spec("yaml")
    return [str(Path(found.origin).parent.parent)] if found and found.origin else []


def _is_script(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() == ".sh"


def _of_bash(folder: Path, text: str) -> Wrong:
    bash = program("bash", folder)
    try:
        ran = run([bash, "-n"], Path("/"), stdin=text.encode(), timeout=5) if bash else None
    except (subprocess.TimeoutExpired, OSError):
        return _COSTLY
    said = ran.stderr.decode("utf-8", "replace").strip() if ran and ran.returncode else ""
    return (forms.line_in(said), said.partition("\n")[0]) if said else None


def text_of(path: Path) -> str | None:
    """The text of an ordinary file of at most `LARGEST` bytes; None for a link, a pipe, or no text."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            return None
        raw = path.read_bytes()
    except OSError:
        return None
    return None if b"\0" in raw else raw.decode("utf-8-sig", "replace")


def _has_to_parse(folder: Path, path: str, text: str) -> bool:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in CODE or not text.strip():
        return False
    if "{{" in path or (suffix not in (".py", ".pyi", ".sh") and _TEMPLATE.search(text)):
        return False
    if suffix in (".py", ".pyi") and _needs_newer_python(folder):
        return False
    return not (suffix == ".json" and _WITH_COMMENTS.search(path))


def _needs_newer_python(folder: Path) -> bool:
    """Whether the environment of the folder has a newer Python, whose grammar may have more."""
    for place in (".venv", "venv"):
        try:
            settings = (folder / place / "pyvenv.cfg").read_text("utf-8", "replace")
        except OSError:
            continue
        named = re.search(r"(?m)^version(?:_info)? *= *(\d{1,3})\.(\d{1,3})", settings)
        return bool(named) and (int(named[1]), int(named[2])) > sys.version_info[:2]
    return False
