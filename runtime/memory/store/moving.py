"""Export and import of records: as JSON lines, or as a folder of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runtime.memory.store.record import Fault, Row, from_json, parsed, same, to_json
from runtime.memory.store.shelf import Shelf

BATCH = 500
"""Records in one transaction."""


@dataclass
class Moved:
    """The result of an import; refused records were skipped."""

    new: int = 0
    changed: int = 0
    same: int = 0
    refused: list[Fault] = field(default_factory=list)


def lines(shelf: Shelf, kinds: Iterable[str] | None = None) -> Iterator[str]:
    """Every record as a line of JSON, by kind and id."""
    version = shelf.keeper.version()
    for row in rows(shelf, kinds):
        yield to_json(row, version) + "\n"


def rows(shelf: Shelf, kinds: Iterable[str] | None = None) -> Iterator[Row]:
    """Every record, by kind and id; broken ones are reported in the shelf's faults."""
    for kind in sorted(shelf.kinds() if kinds is None else kinds):
        for row in shelf.rows(kind):
            if parsed(row.body) is None:
                where = f"{shelf.keeper.place}: {kind} {row.id}"
                shelf.faults[where] = Fault(where, "its body is not a JSON object")
            else:
                yield row


def take(shelf: Shelf, source: Iterable[tuple[str, bytes]]) -> Moved:
    """Put what is new or different. Each item of `source` is a place to name in messages, and JSON."""
    moved = Moved()
    batch: dict[tuple[str, str], Row] = {}
    for where, raw in source:
        try:
            row = from_json(raw)
        except ValueError as error:
            moved.refused.append(Fault(where, str(error)))
            continue
        batch[row.kind, row.id] = row
        if len(batch) == BATCH:
            _put(shelf, batch, moved)
            batch = {}
    _put(shelf, batch, moved)
    return moved


def _put(shelf: Shelf, batch: dict[tuple[str, str], Row], moved: Moved) -> None:
    if not batch:
        return
    with shelf.transaction():
        for kind in {kind for kind, _ in batch}:
            mine = {id: row for (of, id), row in batch.items() if of == kind}
            known = shelf.keeper.read(kind, list(mine))
            for id, row in mine.items():
                if id not in known:
                    moved.new += 1
                elif parsed(known[id].body) is not None and same(known[id], row):
                    moved.same += 1
                    continue
                else:
                    moved.changed += 1
                shelf.keeper.write([row])
        if (earliest := min(row.format for row in batch.values())) < shelf.keeper.version():
            shelf.keeper.set_version(earliest)  # it is migrated when it is used


def source(path: Path) -> Iterator[tuple[str, bytes]]:
    """The records of a file of JSON lines, or of a folder that `export` wrote."""
    if path.is_dir():
        for file in sorted(path.glob("*/*.json")):
            if not file.parent.name.startswith(".") and file.parent.name != "quarantine":
                yield str(file), file.read_bytes()
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}:{number}", line
