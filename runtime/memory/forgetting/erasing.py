"""Takes what is forgotten out of every place of memory: rows, words, vectors, archives, files, free pages."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel import disk
from kernel.errors import StorageError
from kernel.events import now
from runtime.memory.episodes import Forgotten
from runtime.memory.forgetting.following import Found, without
from runtime.memory.forgetting.wanted import Wanted, fields, strings
from runtime.memory.semantic.records import Memory, Observation
from runtime.store import Record, Shelf, pack
from runtime.store.record import Row, to_record

if TYPE_CHECKING:
    from runtime.memory.brain import Brain

ARCHIVE, METHODS, PATTERNS, KNOWN = "archive", "methods", "patterns", ".known"
LOCKS = (".lock", "dream.lock")
LARGEST = 20_000_000
"""Bytes of a file beside the store that is looked into; a larger one is named."""
_LINKED = re.compile(r"\b((?:system|tool)-[a-z0-9-]+(?:\.\d+)*)\.md\b")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")


# ---- rows ------------------------------------------------------------------------------------------------


def rows(brain: Brain, wanted: Wanted, found: Found) -> None:
    """Everything that concerns the shelf, in one transaction; the marks are kept in it as well."""
    shelf = brain.shelf
    with shelf.transaction():
        for kind in dict.fromkeys(kind for kind, _ in found.gone):
            shelf.delete(_kind(kind), *(id for of, id in found.gone if of == kind))
        _reword(brain, found)
        for kind in dict.fromkeys(kind for kind, _ in found.taken_out):
            ids = [id for of, id in found.taken_out if of == kind]
            _put(shelf, [_without(row, found, wanted) for row in shelf.keeper.read(kind, ids).values()])
        shelf.put(*(Forgotten(id=mark, at=now()) for mark in sorted(found.marks)))
        if any(kind in ("problem-type", "type-member") for kind, _ in found.gone):
            _stamp(shelf)
    brain.refresh()


@cache
def _kind(name: str) -> type[Record]:
    """A model for rows of a kind of which nothing but the kind matters."""
    return type("Whatever", (Record,), {"KIND": name, "__module__": __name__})


def _put(shelf: Shelf, changed: Sequence[Row]) -> None:
    """Rows in the place of what they were, told to whoever keeps an index of them."""
    for row in changed:
        if model := {"memory": Memory, "observation": Observation}.get(row.kind):
            shelf.put(to_record(model, row))
        else:
            shelf.keeper.write([row])


def _reword(brain: Brain, found: Found) -> None:
    """Memories that have other evidence say what that says."""
    shelf, embedder = brain.shelf, brain.embedder
    memories = {each.id: each for each in shelf.pick(Memory, found.reworded)}
    for id, memory in memories.items():
        evidence = shelf.pick(Observation, found.reworded[id])
        if not evidence:
            shelf.delete(Memory, id)
            continue
        text = wording(brain, evidence)
        (row,) = embedder.embed([text])
        shelf.put(
            memory.model_copy(
                update={
                    "text": text,
                    "vectors": {embedder.name: pack(row)},
                    "evidence": tuple(each.id for each in evidence),
                    "unread": (),
                    "names": tuple(dict.fromkeys(name for each in evidence for name in each.names)),
                    "since": min((each.at for each in evidence if each.at), default=""),
                    "who": evidence[0].who,
                    "source": evidence[0].source,
                    "changed": now(),
                }
            )
        )


def wording(brain: Brain, evidence: Sequence[Observation]) -> str:
    """What a memory says that stands on this evidence, in words of it, as a dream without a model has it."""
    from runtime.memory.dream.gist import fillers, gist

    in_order = sorted(evidence, key=lambda each: (each.at, each.id))
    return gist(in_order, fillers(brain.settings.systems)) or in_order[-1].text


def _without(row: Row, found: Found, wanted: Wanted) -> Row:
    told = fields(row)
    left: dict[str, Any] = without(told, found.ids, found.texts, wanted)
    left["id"] = row.id
    if row.kind == "memory" and told.get("superseded") and not left.get("superseded"):
        left["until"] = ""  # what took its place is gone, so it is as it was
    text = str(left.get("text", ""))
    return Row(row.kind, row.id, json.dumps(left), text, row.vectors if text == row.text else {})


def _stamp(shelf: Shelf) -> None:
    """Other processes look at problem types anew, and nothing is left of the words of members."""
    from runtime.memory.procedural.opening import forget
    from runtime.memory.procedural.recognition import Stamp

    forget(shelf)
    known = shelf.get(Stamp, "types")
    shelf.put(Stamp(id="types", number=(known.number if known else 0) + 1))


# ---- files of memory -------------------------------------------------------------------------------------


def says(wanted: Wanted, found: Found) -> Callable[[str], bool]:
    """Whether a text tells what is to be forgotten."""
    return lambda text: wanted.says(text) or found.texts.within(text)


def markdown(memory: Path, wanted: Wanted, found: Found) -> list[Path]:
    """The files of methods and patterns that were made of what goes, or that tell it."""
    loops = {id for kind, id in found.gone if kind == "experience"}
    methods = {id for kind, id in found.gone if kind == "method"}
    tells = says(wanted, found)
    chosen: list[Path] = []
    for folder in (METHODS, PATTERNS):
        for path in sorted((memory / folder).rglob("*.md")) if (memory / folder).is_dir() else ():
            text = _text(path)
            linked = set(_LINKED.findall(text))
            made_of = folder == METHODS and path.stem in methods
            if made_of or (linked and linked <= loops) or tells(text):
                chosen.append(path)
    return chosen


def files(memory: Path, chosen: Sequence[Path]) -> None:
    """Take files of methods and patterns away, and their names out of the list beside them."""
    for path in chosen:
        disk.remove(path)
        known = path.parent / KNOWN
        if known.is_file():
            lines = known.read_text("utf-8", "replace").splitlines(keepends=True)
            left = [line for line in lines if line.partition(" ")[0].strip() != path.stem]
            disk.put(known, "".join(left).encode())


def archived(memory: Path, wanted: Wanted, found: Found, *, change: bool) -> int:
    """Lines of archives of dreams that hold what goes, or what a memory said before; returns how many."""
    tells, count = says(wanted, found), 0
    ids = {*found.ids, *found.reworded}
    for path in sorted((memory / ARCHIVE).glob("*.jsonl")) if (memory / ARCHIVE).is_dir() else ():
        lines = path.read_bytes().splitlines(keepends=True)
        left = [line for line in lines if not _archives(line, ids, tells)]
        count += len(lines) - len(left)
        if change and len(left) < len(lines):
            disk.put(path, b"".join(left), mode=0o600)
    return count


def _archives(line: bytes, ids: set[str], tells: Callable[[str], bool]) -> bool:
    """Whether a line is to go; one that is torn is nobody's."""
    try:
        told = json.loads(line)
    except ValueError:
        return True
    return any(text in ids or tells(text) for text in _deep(told))


def _deep(value: Any) -> Iterator[str]:
    """The texts of a JSON value, those that are JSON or files in base64 themselves looked into."""
    for text in strings(value):
        yield text
        if text[:1] in "{[":
            with suppress(ValueError, RecursionError):
                yield from strings(json.loads(text))
        elif _BASE64.fullmatch(text):
            with suppress(ValueError, NotBase64):
                yield b64decode(text, validate=True).decode("utf-8")


def strays(memory: Path, store: Path, wanted: Wanted, found: Found) -> list[Path]:
    """Other files in memory's folder that tell what goes: what was put aside as unreadable, old copies."""
    tells = says(wanted, found)
    known = {memory / METHODS, memory / PATTERNS, memory / ARCHIVE, store}
    chosen: list[Path] = []
    for path in sorted(memory.rglob("*")):
        inside = {path, *path.parents} & known and "quarantine" not in path.parts
        if inside or not path.is_file() or path.name in LOCKS or path.name.startswith(f"{store.name}-"):
            continue
        if path.stat().st_size <= LARGEST and tells(_text(path)):
            chosen.append(path)
    return chosen


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}; mend that, then try again") from error


# ---- what is left on the disk ----------------------------------------------------------------------------


def pages(shelf: Shelf, memory: Path, store: Path) -> str:
    """Make every index anew, and write over what was erased; returns what hindered it, "" if nothing did."""
    for path in sorted(memory.glob(f"{store.stem}.*")):
        if path.suffix in (".matrix", ".usearch", ".json", ".recall"):
            path.unlink(missing_ok=True)  # copies of vectors and words, made anew when they are needed
    shelf.rebuild()
    log = store.with_name(f"{store.name}-wal")
    if log.is_file() and log.stat().st_size:
        return (
            f"another process has {store.name} open, and its log still holds what was erased; it goes when "
            "that process ends: `fractal brain rebuild` then makes sure"
        )
    return ""
