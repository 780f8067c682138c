"""Removes forgotten data from rows, words, vectors, archives, files and free pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import StorageError
from kernel.events import now
from runtime.memory.brain import Brain
from runtime.memory.dream.archive import BeforeImage
from runtime.memory.episodes.episodes import Forgotten
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.forgetting.affected import Affected, without
from runtime.memory.forgetting.request import fields, strings
from runtime.memory.store import Shelf, pack
from runtime.memory.store.migration import backups
from runtime.memory.store.record import Row, parsed
from runtime.memory.tasks.types import Stamp
from runtime.workspace.workspace import state_of

METHODS, PATTERNS, LISTING = "methods", "patterns", ".known"
LOCKS = (".lock", "dream.lock")
LARGEST = 20_000_000
"""Bytes up to which a file beside the store is searched."""
_LINKED = re.compile(r"\b((?:system|tool)-[a-z0-9-]+(?:\.\d+)*)\.md\b")


def rows(brain: Brain, affected: Affected) -> None:
    """Remove and change rows and write the marks, in one transaction."""
    shelf, removed_ids = brain.shelf, affected.ids
    with shelf.transaction():
        for kind in dict.fromkeys(kind for kind, _ in affected.removed):
            shelf.keeper.erase(kind, [id for of, id in affected.removed if of == kind])
        shelf.delete(BeforeImage, *archived(shelf, affected))
        _reword(brain, affected)
        for kind in dict.fromkeys(kind for kind, _ in affected.mentioning):
            ids = [id for of, id in affected.mentioning if of == kind]
            present = shelf.keeper.read(kind, ids).values()
            shelf.keeper.write([_without(row, affected, removed_ids) for row in present])
        shelf.put(*(Forgotten(id=mark, at=now()) for mark in sorted(affected.marks)))
        if any(kind in ("problem-type", "type-member") for kind, _ in affected.removed):
            shelf.put(Stamp.another())  # every process rebuilds its gate
    brain.refresh()


def _reword(brain: Brain, affected: Affected) -> None:
    """Reword memories from the evidence that is left."""
    shelf, embedder = brain.shelf, brain.embedder
    memories = {each.id: each for each in shelf.pick(Memory, affected.reworded)}
    for id, memory in memories.items():
        evidence = shelf.pick(Observation, affected.reworded[id])
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
    """The text of a memory with this evidence, as a dream without a model writes it."""
    from runtime.memory.dream.gist import fillers, gist

    in_order = sorted(evidence, key=lambda each: (each.at, each.id))
    return gist(in_order, fillers(brain.settings.systems)) or in_order[-1].text


def _without(row: Row, affected: Affected, removed_ids: set[str]) -> Row:
    values = fields(row)
    left: dict[str, Any] = without(values, removed_ids, affected)
    left["id"] = row.id
    if row.kind == "memory" and values.get("superseded") and not left.get("superseded"):
        left["until"] = ""  # its successor is gone, so it holds again
    text = str(left.get("text", ""))
    return Row(row.kind, row.id, json.dumps(left), text, row.vectors if text == row.text else {})


def markdown(memory: Path, affected: Affected) -> list[Path]:
    """The files of methods and patterns that derive from removed rows or contain their text."""
    loops = {id for kind, id in affected.removed if kind == "experience"}
    methods = {id for kind, id in affected.removed if kind == "method"}
    chosen: list[Path] = []
    for folder in (METHODS, PATTERNS):
        for path in sorted((memory / folder).rglob("*.md")) if (memory / folder).is_dir() else ():
            text = _text(path)
            linked = set(_LINKED.findall(text))
            made_of = folder == METHODS and path.stem in methods
            if made_of or (linked and linked <= loops) or affected.contains(text):
                chosen.append(path)
    return chosen


def files(memory: Path, chosen: Sequence[Path]) -> None:
    """Delete files of methods and patterns, and their entries in `.known`."""
    for path in chosen:
        disk.remove(path)
        listing = path.parent / LISTING
        if listing.is_file():
            lines = listing.read_text("utf-8", "replace").splitlines(keepends=True)
            left = [line for line in lines if line.partition(" ")[0].strip() != path.stem]
            disk.put(listing, "".join(left).encode())


def archived(shelf: Shelf, affected: Affected) -> list[str]:
    """The ids of the before-images of dreams that contain what to forget."""
    ids = {*affected.ids, *affected.reworded}
    return [
        image.id
        for image in shelf.scan(BeforeImage)
        if image.name in ids or any(text in ids or affected.contains(text) for text in _texts(image))
    ]


def _texts(image: BeforeImage) -> Iterator[str]:
    yield image.name
    for body in (image.body or "", image.became):
        yield body
        yield from strings(parsed(body))


def checkpoints(memory: Path) -> list[Path]:
    """The checkpoints of this state; they may be of several spaces."""
    return sorted((state_of(memory) / "checkpoints").glob("[0-9]*"))


def strays(memory: Path, store: Path, affected: Affected) -> list[Path]:
    """What else in the memory folder contains removed text: quarantined files, old copies, all backups."""
    changes = affected.removed or affected.reworded or affected.mentioning
    chosen = [*backups(store), *checkpoints(memory)] if changes else []
    searched = {memory / METHODS, memory / PATTERNS, store, *backups(store)}
    for path in sorted(memory.rglob("*")):
        inside = {path, *path.parents} & searched and "quarantine" not in path.parts
        if inside or not path.is_file() or path.name in LOCKS or path.name.startswith(f"{store.name}-"):
            continue
        if path.stat().st_size <= LARGEST and affected.contains(_text(path)):
            chosen.append(path)
    return chosen


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}; fix the cause and retry") from error


def pages(shelf: Shelf, memory: Path, store: Path) -> str:
    """Rebuild every index and overwrite erased data; returns what prevented it, or ""."""
    for path in sorted(memory.glob(f"{store.stem}.*")):
        if path.suffix in (".json", ".recall", ".matrix", ".usearch"):  # the last two of earlier versions
            path.unlink(missing_ok=True)  # copies of vectors and words
    for path in (memory / "archive").glob("*.jsonl"):
        path.unlink()  # before-images of earlier versions
    shelf.rebuild()
    log = store.with_name(f"{store.name}-wal")
    if log.is_file() and log.stat().st_size:
        return (
            f"another process has {store.name} open, and its log still contains what was erased until that "
            "process ends; then run `fractal brain rebuild`"
        )
    return ""
