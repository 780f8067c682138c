"""The opening of a program: code reads the files, and a small model goes on with what to do."""

from __future__ import annotations

import builtins
import csv
import io
import json
import keyword
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from runtime.models.micro.task import Task
from runtime.operations.cells import delimiters

SHOWN = 160
"""Characters of a value that are shown beside the variable that holds it."""
_IMPORTS = """\
import csv, json, math, os, re, shutil
from collections import Counter, defaultdict
from datetime import date, datetime, timedelta
from pathlib import Path
"""
_USED = frozenset(re.findall(r"\w+", f"{_IMPORTS} file files row path part"))
"""The names that the opening has besides its variables."""
_FOR_NUMBERS = """\
import math
from datetime import date, datetime, timedelta

"""


def opening(task: Task, names: Sequence[str], *, numeric: bool = False) -> str:
    """Imports, the folders of the files to be made, and a variable with the contents of each file.

    names: files of the task's folder; without any, the files themselves are listed. numeric: whether the
    columns of numbers become numbers.
    """
    if not task.files:
        return _FOR_NUMBERS
    lines = [_IMPORTS]
    folders = {str(Path(name).parent) for name in task.new} - {"."} | {*task.new_folders}
    lines += [f"Path({folder!r}).mkdir(parents=True, exist_ok=True)" for folder in sorted(folders)]
    taken: set[str] = set()
    for name in names:
        variable = _variable(name, taken)
        taken.add(variable)
        lines += _reading(name, variable, task.text_of(name), numeric)
    if not names:
        lines.append(_listing(task))
    if task.new and not numeric:
        lines.append(f"# The rest writes {' and '.join(task.new)}.")
    return "\n".join(lines) + "\n"


def continued(begun: str, program: str) -> str:
    """The program with its opening, which a model may have written again or left out."""
    reading = begun.removeprefix(_IMPORTS).strip()
    return program if reading in program else f"{begun}\n{program}"


def _listing(task: Task) -> str:
    folder = task.folders[0] if len(task.folders) == 1 else ""
    inside = [name for name in task.files if name.startswith(f"{folder}/" if folder else "")]
    where = f"Path({folder!r})" if folder else "Path()"
    shown = 'if path.is_file() and not any(part.startswith(".") for part in path.parts)'
    return f'files = [path for path in sorted({where}.rglob("*")) {shown}]{_shape(inside)}'


def _variable(name: str, taken: set[str]) -> str:
    """A variable named like the file."""
    stem = re.sub(r"\W+", "_", Path(name).stem.lower()).strip("_") or "data"
    used = stem in _USED or keyword.iskeyword(stem) or hasattr(builtins, stem)
    stem = f"{stem}_data" if used else f"data_{stem}" if stem[0].isdigit() else stem
    return stem if stem not in taken else f"{stem}_{len(taken) + 1}"


def _reading(name: str, variable: str, text: str, numeric: bool) -> list[str]:
    suffix = Path(name).suffix.lower()
    if suffix == ".json":
        with suppress(ValueError, RecursionError):
            return [f"{variable} = json.loads(Path({name!r}).read_text()){_shape(json.loads(text))}"]
    if suffix in (".csv", ".tsv"):
        with suppress(csv.Error):  # such as a cell that is too long for the program, too
            return _table(name, variable, text, numeric)
    return [f"{variable} = Path({name!r}).read_text().splitlines(){_shape(text.splitlines())}"]


def _table(name: str, variable: str, text: str, numeric: bool) -> list[str]:
    marked = text.startswith("\ufeff")  # a byte order mark, which is no part of the first column's name
    text = text.removeprefix("\ufeff")
    mark = delimiters(text)[0]
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=mark))
    option = "" if mark == "," else f", delimiter={mark!r}"
    encoding = ", encoding='utf-8-sig'" if marked else ""
    lines = [f"with open({name!r}, newline=''{encoding}) as file:"]
    lines += [f"    {variable} = list(csv.DictReader(file{option})){_shape(rows)}"]
    columns = [each for each in (rows[0] if rows else {}) if all(_is_number(row.get(each)) for row in rows)]
    if numeric and columns:
        lines += [f"for row in {variable}:"]
        lines += [f"    row[{each!r}] = float(row[{each!r}])" for each in columns]
    return lines


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and bool(re.fullmatch(r"\s*[-+]?\d+(\.\d+)?\s*", text))


def _shape(value: Any) -> str:
    """What a variable holds, as a comment."""
    shown = json.dumps(value[0] if isinstance(value, list) and value else value, ensure_ascii=False)
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
    shown = shown.encode("utf-8", "replace").decode("utf-8")  # JSON may hold half of a surrogate pair
    return f"  # {len(value)} like {shown}" if isinstance(value, list) else f"  # {shown}"
