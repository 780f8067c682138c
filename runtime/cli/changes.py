"""Which files a run changed: from the evidence in its documents and the copies that its steps kept."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.document import Document, Step
from kernel.markdown import render
from kernel.store import FileStore


def changed(documents: Sequence[Document]) -> list[str]:
    """One line a file: what CHECK recorded for the root; before CHECK, what the steps recorded."""
    root = documents[0]
    lines = [text for text in root.text(4, "changes").splitlines() if text.strip()]
    for fold in root.section(2).folds:
        lines += [each for note in fold.notes if note.key == "files then" for each in note.text.splitlines()]
    named = {line.split(" ", 1)[1].partition(" ")[0] for line in lines if " " in line}
    for _, entry in _files(documents):
        path = str(entry["path"])
        if path not in named and entry.get("before") != entry.get("after"):
            named.add(path)
            lines.append(f"{_kind(entry)} {path}")
    return list(dict.fromkeys(lines))


def _kind(entry: dict[str, Any]) -> str:
    if not entry.get("before"):
        return "new"
    return "removed" if entry.get("after") == "" else "changed"


def _files(documents: Sequence[Document]) -> Iterator[tuple[Step, dict[str, Any]]]:
    for document in documents:
        for step in document.steps.values():
            for entry in step.evidence.get("touched", ()):
                yield step, entry


def edited(store: FileStore, loop_id: str) -> str:
    """What a person changed in a document since the run left it, as a unified diff; "" where nothing."""
    left = store.left(loop_id)
    if left is None:
        return ""
    now = store.peek(loop_id)
    steps = dict(left.steps)
    for n in left.steps:
        if n not in now.steps:
            del steps[n]
        elif left.steps[n].over:  # on an open one the run itself has gone on writing
            steps[n] = now.steps[n]
    now = now.with_section(3, replace(now.section(3), steps=steps))
    before, after = (render(each, left.meta.rev).decode("utf-8").splitlines() for each in (left, now))
    names = f"{loop_id}.md (as the run left it)", f"{loop_id}.md"
    return "\n".join(difflib.unified_diff(before, after, *names, lineterm=""))


def step_diffs(documents: Sequence[Document], run_folder: Path) -> list[str]:
    """For each file that steps changed: its first kept copy against what is there now, as a unified diff."""
    first: dict[str, dict[str, Any]] = {}
    last: dict[str, dict[str, Any]] = {}
    for _, entry in _files(documents):
        path = str(entry["path"])
        first.setdefault(path, entry)
        last[path] = entry
    folder = Path(documents[0].meta.folder)
    found = (_diff(path, entry, last[path], folder, run_folder) for path, entry in first.items())
    return [text for text in found if text]


def _diff(path: str, first: dict[str, Any], last: dict[str, Any], folder: Path, run_folder: Path) -> str:
    from kernel.operations import file_hash

    if first.get("before") and not first.get("kept"):
        return f"--- {path}\n(no copy was kept of what was there before)"
    before = _lines(run_folder / first["kept"]) if first.get("kept") else []
    after = _lines(folder / path) if (folder / path).is_file() else []
    if before is None or after is None:
        return f"--- {path}\n(not text, or too large to compare)"
    here = "" if file_hash(folder / path) == last.get("after") else "  (changed since the run)"
    return "\n".join(
        difflib.unified_diff(
            before,
            after,
            path if before else "/dev/null",
            (path if (folder / path).is_file() else "/dev/null") + here,
            lineterm="",
        )
    )


def _lines(path: Path) -> list[str] | None:
    try:
        if path.stat().st_size > 2_000_000:
            return None
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def recorded_diffs(documents: Sequence[Document]) -> list[str]:
    """The diffs that CHECK saw, for changes that no single step recorded, such as those of a command."""
    text = documents[0].text(4, "diff")
    return [text] if text else []
