"""Suites: the shipped ones, and the files that a user has (formats: docs/benchmarks-of-your-model.md)."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from random import Random
from typing import Any

from kernel.errors import UsageError
from runtime.benchmarks import arithmetic
from runtime.benchmarks.answers import boxed
from runtime.benchmarks.problem import Problem
from runtime.operations.cells import LONGEST_FIELD

SWE = Path(__file__).with_name("swe.yaml")
SHIPPED = ("arithmetic", "swe")
GIVEN = ("math-dataset", "aime")
"""Suites whose problems the user has, with the option `--data`."""
DEFAULT_LIMIT = 100
"""Problems of a generated suite."""
_NAMES: Mapping[str, tuple[str, ...]] = {
    "task": ("task", "problem", "question", "prompt"),
    "answer": ("answer", "expected", "final_answer"),
    "family": ("family", "type", "subject", "level"),
    "id": ("id", "unique_id", "name"),
    "test": ("test",),
}
"""By field, the names under which data sets have it."""


def load(suite: str, data: Path | None, limit: int | None, seed: int) -> list[Problem]:
    """The problems of a suite, in an order that the seed decides. Raises `UsageError` with the place."""
    if suite == "arithmetic":
        if data:
            raise UsageError("the problems of arithmetic are generated; leave out --data")
        return arithmetic.generate(limit or DEFAULT_LIMIT, seed)
    place = SWE if suite == "swe" and data is None else data or Path(suite)
    if suite in GIVEN and data is None:
        raise UsageError(f"the suite {suite} is not shipped; name your copy with --data FILE_OR_FOLDER")
    if not place.exists():
        known = ", ".join((*SHIPPED, *GIVEN))
        raise UsageError(f"{place}: there is no such file or folder; a suite is {known} or a path")
    problems = list(_read(place))
    if not problems:
        raise UsageError(f"{place}: it holds no problems; expected {', '.join(_READERS)} or */task.yaml")
    if twice := [id for id, times in Counter(each.id for each in problems).items() if times > 1]:
        raise UsageError(f"{place}: two problems have the id {twice[0]}")
    Random(f"suite {seed}").shuffle(problems)
    return problems[:limit]


def _read(place: Path) -> Iterator[Problem]:
    if not place.is_dir():
        for number, (where, record) in enumerate(_records(place), 1):
            yield _problem(where, record, str(number))
        return
    tasks = sorted(place.glob("*/task.yaml"))
    for path in tasks or sorted(each for each in place.rglob("*") if each.suffix in _READERS):
        name = path.parent.name if tasks else str(path.relative_to(place))
        for number, (where, record) in enumerate(_records(path), 1):
            one = path.suffix in (".json", ".yaml")
            folder = path.parent if tasks else None
            yield _problem(where, record, name if one else f"{name}:{number}", folder)


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Each record of a file with its place; raises `UsageError`."""
    if path.suffix not in _READERS:
        raise UsageError(f"{path}: its name ends in none of {', '.join(_READERS)}")
    try:
        yield from _READERS[path.suffix](path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start}); convert it first") from None


def _of_lines(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}:{number}", _parsed(f"{path}:{number}", line)


def _of_csv(path: Path) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(LONGEST_FIELD)  # of the whole process
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        try:
            yield from ((f"{path}:{rows.line_num}", row) for row in rows)
        except csv.Error as error:
            raise UsageError(f"{path}:{rows.line_num + 1}: not valid CSV: {error}") from None


def _whole(path: Path) -> Iterator[tuple[str, Any]]:
    """The records of a file of JSON or YAML: a list of them, or one."""
    value = _parsed(str(path), path.read_text("utf-8-sig"), yaml=path.suffix == ".yaml")
    yield from ((str(path), each) for each in (value if isinstance(value, list) else [value]))


_READERS = {".jsonl": _of_lines, ".json": _whole, ".csv": _of_csv, ".yaml": _whole}


def _parsed(where: str, text: str, *, yaml: bool = False) -> Any:
    from yaml import YAMLError, safe_load

    try:
        return safe_load(text) if yaml else json.loads(text)
    except (ValueError, YAMLError, RecursionError) as error:
        raise UsageError(f"{where}: not valid {'YAML' if yaml else 'JSON'}: {error}") from None


def _problem(where: str, record: Any, id: str, folder: Path | None = None) -> Problem:
    if not isinstance(record, Mapping):
        raise UsageError(f"{where}: expected an object with a task and an answer")
    lower = {str(key).lower(): value for key, value in record.items()}
    found = {field: _text(where, field, lower) for field in _NAMES}
    found["answer"] = found["answer"] or boxed(str(lower.get("solution", ""))) or ""
    found["id"] = found["id"] or id
    if not found["task"].strip():
        raise UsageError(f"{where}: there is no task; it is called {', '.join(_NAMES['task'])}")
    if not (found["answer"] or found["test"]):
        raise UsageError(
            f"{where}: there is nothing to judge by: an answer, a solution with \\boxed{{…}}, or a test"
        )
    files, checks = (_files(where, name, lower.get(name) or {}) for name in ("files", "checks"))
    try:
        json.dumps([found, files, checks], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{where}: a text holds half a character, such as \\ud800") from None
    return Problem(**found, files=files, checks=checks, folder=folder)


def _text(where: str, field: str, lower: Mapping[str, Any]) -> str:
    """The text or number of a field, under the first of its names that is there; else ""."""
    value = next((lower[name] for name in _NAMES[field] if lower.get(name) not in (None, "")), "")
    if not isinstance(value, str | int | float):
        raise UsageError(f"{where}: {field} is not a text")
    return str(value)


def _files(where: str, name: str, files: Any) -> Mapping[str, str]:
    """Texts by path; raises `UsageError` for a path that leads out of the problem's folder."""
    if not isinstance(files, Mapping) or not all(
        isinstance(each, str) for pair in files.items() for each in pair
    ):
        raise UsageError(f"{where}: {name} is not an object of texts by path")
    for path in map(PurePath, files):
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UsageError(f"{where}: {path} leads out of the problem's folder")
    return files
