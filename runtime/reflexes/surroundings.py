"""What the folder of a run shows to the reflexes: its files, columns and cells of tables, keys of JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kernel.errors import OperationFailed
from runtime.found_files import SKIPPED

MOST_FILES = 400
"""Files of the folder that are looked at."""
LARGEST = 1_000_000
"""Bytes of the largest table or JSON document whose content is looked at."""
_TABLES = (".csv", ".tsv", ".json")


@dataclass(frozen=True)
class Contents:
    """The columns and cells of a table, and the keys of a JSON document."""

    columns: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()  # those of the columns whose cells are numbers
    cells: Mapping[str, frozenset[str]] = field(default_factory=dict)  # text in lower case → its columns
    spelled: Mapping[str, str] = field(default_factory=dict)  # text in lower case → as it is written
    singular: Mapping[str, str] = field(default_factory=dict)  # its singular → as it is written
    keys: Mapping[str, str] = field(default_factory=dict)  # the last key, or all, in lower case → the path
    column_like: Mapping[str, str] = field(default_factory=dict)  # singular in lower case → column

    def cell_like(self, text: str) -> frozenset[str]:
        """The columns that have this text in the singular: `lamps` for Lamp."""
        written = self.singular.get(_single(text), "")
        return self.cells.get(written.lower(), frozenset())


class Surroundings:
    """The folder of a run, looked at on demand and once."""

    def __init__(self, folder: Path, hidden: Collection[Path] | None = None) -> None:
        """`hidden`: files and folders that are left out; without it, the folder `state`.

        Links are left out, since they may lead out of the folder.
        """
        self.folder = folder
        self._hidden = {(folder / "state").resolve()} if hidden is None else hidden
        self._contents: dict[str, Contents | None] = {}

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files below the folder, at most `MOST_FILES`."""
        return self._found[0]

    @property
    def folders(self) -> frozenset[str]:
        """The paths of the folders below the folder."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[tuple[str, ...], frozenset[str]]:
        found: list[str] = []
        below: set[str] = set()
        for where, folders, names in os.walk(self.folder):
            place, inside = Path(where), Path(where).relative_to(self.folder)
            folders[:] = sorted(each for each in folders if each not in SKIPPED and self._shows(place / each))
            below |= {(inside / name).as_posix() for name in folders}
            found += [(inside / name).as_posix() for name in sorted(names) if self._shows(place / name)]
            if len(found) >= MOST_FILES:
                break
        return tuple(found[:MOST_FILES]), frozenset(below)

    def _shows(self, path: Path) -> bool:
        if path.name.startswith(".") or path.is_symlink():
            return False
        named = any(path.name == each.name for each in self._hidden)
        return not (named and path.resolve() in self._hidden)

    @cached_property
    def _stems(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in self.files:
            stem = each.rpartition("/")[2].partition(".")[0].lower()
            found.setdefault(_single(stem), []).append(each)
        return found

    def called(self, stem: str, suffix: str = "") -> list[str]:
        """The files of that name without its ending, in singular or plural."""
        return [each for each in self._stems.get(_single(stem), ()) if each.lower().endswith(suffix)]

    def contents(self, name: str) -> Contents | None:
        """What a table or JSON document holds; None for any other file."""
        if name not in self._contents:
            self._contents[name] = self._looked_into(name) if name.lower().endswith(_TABLES) else None
        return self._contents[name]

    def _looked_into(self, name: str) -> Contents | None:
        from runtime.operations.cells import objects_of, read_table  # most tasks name no table

        path = self.folder / name
        try:
            if name not in self.files or path.stat().st_size > LARGEST:
                return None
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return None
        try:
            if name.lower().endswith(".json") and not objects_of(text):
                return Contents(keys=_keys(text))
            table = read_table(text, name)
        except (OperationFailed, RecursionError):
            return None
        cells: dict[str, set[str]] = {}
        spelled: dict[str, str] = {}
        for row in table.rows:
            for column, cell in zip(table.header, row, strict=False):
                if cell.strip():
                    cells.setdefault(cell.lower(), set()).add(column)
                    spelled.setdefault(cell.lower(), cell)
        return Contents(
            tuple(table.header),
            tuple(name for at, name in enumerate(table.header) if table.column(at).numeric),
            {text: frozenset(columns) for text, columns in cells.items()},
            spelled,
            {_single(text): written for text, written in spelled.items()},
            column_like={_single(each.lower()): each for each in table.header},
        )


def _keys(text: str) -> Mapping[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    paths: dict[str, list[str]] = {}
    for keys in _paths(document):
        plain = all(re.fullmatch(r"[\w-]+", each) for each in keys)
        paths.setdefault(keys[-1].lower(), []).append(".".join(keys) if plain else "")
    last = {key: found[0] for key, found in paths.items() if len(found) == 1 and found[0]}
    whole = {path.lower().replace(".", " "): path for found in paths.values() for path in found if path}
    return {**whole, **last}


def _paths(value: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and len(before) < 8:
        for key, inner in value.items():
            yield (*before, key)
            yield from _paths(inner, (*before, key))


def _single(word: str) -> str:
    from runtime.text.inflection import singular

    return singular(word)
