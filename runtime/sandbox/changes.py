"""What changed in a folder between two snapshots, as people and models read it."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from kernel.document.texts import cut
from runtime.sandbox.trees import Moved, State, Trees, is_folder
from runtime.secrets.redaction import redact
from runtime.text.shown import shown_name
from runtime.text.terminal import neutralise

SECRETIVE = (".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".netrc", ".npmrc", ".pypirc")
"""Files whose text is never shown in a diff."""
TEXT_BYTES = 200_000
"""Of the largest text that is shown as a diff."""
TEXTS = 200
"""Changed files whose texts are compared."""
DIFF_CHARS = 4_000
"""Of a diff; two thirds of them from its head."""
DIFF_LINES = 3_000
"""Lines of a text that are compared; more would take seconds."""
NAMED = 20
"""Files of one kind that a step's evidence names."""


@dataclass(frozen=True)
class Change:
    """A file that is `new`, `changed` or `removed`: its size in bytes now and before, and a diff of its text.

    The diff is "" where there is no text to show. An empty folder has a slash at its end.
    """

    kind: str
    path: str
    size: int
    before: int = 0
    diff: str = ""


def kind_of(moved: Moved) -> str:
    """Whether something is new, changed or removed."""
    before, after = moved
    return "new" if before is None else "removed" if after is None else "changed"


def notable(moved: Mapping[str, Moved]) -> dict[str, Moved]:
    """The changes that people are shown, in order; of folders only those that say more than their files."""
    return {
        path: each
        for path, each in sorted(moved.items())
        if not all(state is None or stat.S_ISDIR(state.mode) for state in each)
        or not any(other.startswith(f"{path}/") for other in moved)
    }


def files_of(moved: Mapping[str, Moved]) -> dict[str, list[str]]:
    """File names for a step's evidence, by kind; at most `NAMED` of each, then the number of others."""
    found: dict[str, list[str]] = {}
    for path, each in notable(moved).items():
        found.setdefault(kind_of(each), []).append(shown_name(path))
    return {
        kind: names[:NAMED] + ([f"and {len(names) - NAMED} more"] if len(names) > NAMED else [])
        for kind, names in found.items()
    }


def deleted(moved: Mapping[str, Moved]) -> dict[str, bool]:
    """Deleted files, except renamed ones, and whether each is stored."""
    there = {after.oid for _, after in moved.values() if after}
    return {
        path: before.kept
        for path, (before, after) in sorted(moved.items())
        if before and not after and not stat.S_ISDIR(before.mode) and before.oid not in there
    }


def changes(
    trees: Trees, moved: Mapping[str, Moved], *, around: int = 1, most: int = DIFF_CHARS
) -> list[Change]:
    """Each change with its sizes, and with the diff of a text that may be shown.

    `around` is the number of unchanged lines beside a change, `most` the characters of one diff.
    """
    found = notable(moved)
    sizes = trees.sizes(_oids(found.values()))
    shown = [path for path in found if not secretive(path)][:TEXTS]
    texts = trees.bytes_of(_oids(found[path] for path in shown), TEXT_BYTES)
    listed: list[Change] = []
    for path, (before, after) in found.items():
        old, new = (_text(texts, state) if path in shown else None for state in (before, after))
        size, was = (_size(sizes, state) for state in (after, before))
        slash = "/" if is_folder(after or before) else ""
        diff = "\n".join(filter(None, (_about(before, after, texts), diff_of(old, new, around, most))))
        listed.append(Change(kind_of((before, after)), path + slash, size, was, diff))
    return listed


def texts(trees: Trees, moved: Mapping[str, Moved]) -> dict[str, tuple[str | None, str]]:
    """The first `NAMED` changed texts that may be shown: before (None: not there) and now ("": removed)."""
    shown = [(path, *each) for path, each in notable(moved).items() if not secretive(path)][:NAMED]
    stored = trees.bytes_of(_oids((before, after) for _, before, after in shown), TEXT_BYTES)
    found: dict[str, tuple[str | None, str]] = {}
    for path, before, after in shown:
        old, new = _text(stored, before), _text(stored, after)
        if old is not None and new is not None and old != new:
            found[path] = (old if before else None, new)
    return found


def _oids(moved: Iterable[Moved]) -> set[str]:
    """The object ids of the stored files."""
    states = (state for each in moved for state in each)
    return {state.oid for state in states if state and state.kept and not stat.S_ISDIR(state.mode)}


def _size(sizes: Mapping[str, int], state: State | None) -> int:
    if state is None or stat.S_ISDIR(state.mode):
        return 0
    return sizes[state.oid] if state.kept else int(state.oid.partition(" ")[0] or 0)


def secretive(path: str) -> bool:
    """Whether a file's text is never shown."""
    name = path.rpartition("/")[2].lower()
    return any(fnmatch(name, pattern) for pattern in SECRETIVE)


def _about(before: State | None, after: State | None, texts: Mapping[str, bytes]) -> str:
    """Where a link leads, or that a mode has changed."""
    if after and stat.S_ISLNK(after.mode):
        return f"(a link to {shown_name(os.fsdecode(texts.get(after.oid, b'')))})"
    if before is None or after is None or before.mode == after.mode:
        return ""
    return f"(mode {stat.filemode(before.mode)} before, {stat.filemode(after.mode)} now)"


def _text(texts: Mapping[str, bytes], state: State | None) -> str | None:
    """The text at a path; "" if nothing is there, None if it is not text."""
    if state is None:
        return ""
    raw = texts.get(state.oid)
    if raw is None or b"\0" in raw or not stat.S_ISREG(state.mode):
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def diff_of(old: str | None, new: str | None, around: int = 1, most: int = DIFF_CHARS) -> str:
    """The hunks that lead from one text to another, redacted; "" if one is missing."""
    if old is None or new is None:
        return ""
    was, now = ([] if not text else text.removesuffix("\n").split("\n") for text in (old, new))
    if max(len(was), len(now)) > DIFF_LINES and was and now:
        return f"(too long to compare: {len(was)} lines before, {len(now)} now)"
    lines = list(difflib.unified_diff(was, now, n=around, lineterm=""))[2:]
    if not lines and old != new:
        return "(only the line break at the end differs)"
    return cut(redact(neutralise("\n".join(lines))), most, "the file", head=2 / 3)


def deletion_note(run: str, step: int, deleted: Mapping[str, bool]) -> str:
    """What a step has deleted (True: stored) and how to restore it; "" for nothing."""
    saved, lost = ([path for path, each in deleted.items() if each is way] for way in (True, False))
    back = f"`fractal undo {run} {step}` brings {'them' if len(saved) > 1 else 'it'} back"
    parts = [f"deleted {_name_list(saved)}; {back}"] if saved else []
    parts += [f"deleted {_name_list(lost)}, which nothing brings back"] if lost else []
    return "; ".join(parts)


def _name_list(paths: Sequence[str]) -> str:
    names = ", ".join(map(shown_name, paths[:3])) + (", …" if len(paths) > 3 else "")
    return f"{len(paths)} {'files' if len(paths) > 1 else 'file'} ({names})"
