"""Whether texts are what the endings of their names say, such as Python, JSON, YAML, XML or shell."""

from __future__ import annotations

import ast
import configparser
import csv
import io
import json
import re
import sys
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernel.document.redaction import neutralise, redact, shown_name
from kernel.loop.hooks import FolderChanges
from runtime.sandbox.programs import program, run

LARGEST = 1_000_000
"""Bytes of the largest file that is parsed."""
CODE = frozenset({".py", ".pyi", ".json", ".yaml", ".yml", ".toml", ".xml", ".svg", ".html", ".htm", ".sh"})
"""Endings of files that have to parse once a run has changed them."""
_TEMPLATE = re.compile(r"\{\{|\{%|<%|<\?php")
_WITH_COMMENTS = re.compile(r"(?:^|/)(?:[tj]sconfig[^/]*\.json$|\.vscode/|\.devcontainer/|\.eslintrc)")
_CLOSED = frozenset({"div", "span", "table", "ul", "ol", "section", "script", "style", "form", "a", "button"})
"""Elements of HTML whose end must not be left out."""

OtherGrammars = Callable[[str, str], str]
"""Returns why a text with this path does not parse; "" if it does, or for an unknown language."""


@dataclass(frozen=True)
class Fault:
    """A file that does not parse: the first line that is wrong (0: not known), and why."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{shown_name(self.path)}:{self.line}" if self.line else shown_name(self.path)
        return f"{where}: {self.message}"


def parses(folder: Path, changes: FolderChanges, other: OtherGrammars = lambda path, text: "") -> list[Fault]:
    """The changed files that do not parse now, and did at the start of the run or were not there.

    `other` knows further languages. Python is read as the Python that runs Fractal reads it, unless the
    folder has an environment with a newer one. Templates, and files above `LARGEST` bytes, are left alone.
    """
    faults: list[Fault] = []
    there = None
    for path in sorted(changes.moved):
        text = _text(folder / path)
        if text is None or not (fault := _fault(folder, path, text, other)):
            continue
        there = set(changes.there()) if there is None else there
        before = changes.before(path) if path in there else ""
        if not before or not _fault(folder, path, before, other):
            faults.append(fault)
    return faults


def parse(name: str, text: str, folder: Path) -> None:
    """Parse a text by the ending of its file's name; an unknown ending has no form.

    Raises an exception that says why it is not what the ending says. `folder` is the one whose programs do
    not count: bash, which reads shell scripts without running them, is not taken from there.
    """
    match PurePosixPath(name).suffix.lower():
        case ".py" | ".pyi":
            with warnings.catch_warnings(action="ignore"):
                ast.parse(text)
        case ".json":
            json.loads(text)
        case ".toml":
            tomllib.loads(text)
        case ".yaml" | ".yml":
            _parse_yaml(text)
        case ".ini" | ".cfg":
            configparser.ConfigParser(interpolation=None).read_string(text)
        case ".csv" | ".tsv":
            rows = csv.reader(io.StringIO(text), delimiter="\t" if name.lower().endswith(".tsv") else ",")
            if len({len(row) for row in rows if row}) != 1:
                raise ValueError("rows of different lengths")
        case ".xml" | ".svg":
            _parse_xml(text)
        case ".html" | ".htm":
            _parse_html(text)
        case ".sh":
            bash = program("bash", folder)
            ran = run([bash, "-n"], Path("/"), stdin=text.encode(), timeout=5) if bash else None
            if ran and ran.returncode:
                raise ValueError(ran.stderr.decode("utf-8", "replace").strip())
        case _:
            return


def _text(path: Path) -> str | None:
    """The text of an ordinary file, if it can be read and is one."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            return None
        raw = path.read_bytes()
    except OSError:
        return None
    return None if b"\0" in raw else raw.decode("utf-8-sig", "replace")


def _fault(folder: Path, path: str, text: str, other: OtherGrammars) -> Fault | None:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in CODE:
        why = other(path, text)
        return Fault(path, 0, why) if why else None
    if "{{" in path or (suffix not in (".py", ".pyi", ".sh") and _TEMPLATE.search(text)):
        return None
    if suffix in (".py", ".pyi") and _needs_newer_python(folder):
        return None
    if not text.strip() or (suffix == ".json" and _WITH_COMMENTS.search(path)):
        return None
    try:
        parse(path, text, folder)
    except (RecursionError, MemoryError, OSError):
        return None  # too deep to tell
    except Exception as error:
        return Fault(path, _line(error), redact(neutralise(_said(error)))[:200])
    return None


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


def _line(error: Exception) -> int:
    """The line that an exception of a parser names; 0 if it names none."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    for name in ("lineno", "lineno_"):
        if isinstance(line := getattr(error, name, None), int):
            return line
    named = re.search(r"\bline (\d+)", str(error))
    return int(named[1]) if named else 0


def _said(error: Exception) -> str:
    said = getattr(error, "problem", None) or getattr(error, "msg", None) or str(error)
    return f"{str(said).splitlines()[0] if str(said) else type(error).__name__}"


def _parse_yaml(text: str) -> None:
    """Any number of documents; tags stay unknown, and nothing is made of them."""
    import yaml  # takes time

    for _ in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        pass


def _parse_xml(text: str) -> None:
    from xml.parsers import expat

    expat.ParserCreate().Parse(re.sub(r"^\s*<\?xml[^>]*\?>", "", text), True)


def _parse_html(text: str) -> None:
    """Lenient, as browsers are: only elements that never end, or end without a beginning, are wrong."""
    from collections import Counter
    from html.parser import HTMLParser

    begun, ended = Counter[str](), Counter[str]()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            begun[tag] += 1

        def handle_endtag(self, tag: str) -> None:
            ended[tag] += 1

    tags = Tags()
    tags.feed(text)
    tags.close()
    for name in sorted(_CLOSED):
        if begun[name] != ended[name]:
            raise ValueError(f"<{name}> begins {begun[name]} times and ends {ended[name]} times")
