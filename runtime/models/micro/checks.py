"""The success criteria `check`, which code states: a reflex, or what asks a small model that states none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel.loop.hooks import FolderChanges
from runtime.proving.criteria import Check

Result = tuple[bool | None, str]


def valid(criterion: Mapping[str, Any], folder: Path, since: FolderChanges | None) -> Result:
    """The file exists, has text, and is what its ending says."""
    from runtime.proving.parsing import parse  # takes time, as the parsers do

    path = folder / str(criterion["file"])
    if not path.is_file():
        return False, "missing"
    try:
        text = path.read_text("utf-8")
        if not text.strip():
            return False, "empty"
        parse(path.name, text, folder)
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"[:300]
    return True, f"{len(text.splitlines())} lines"


def changed(criterion: Mapping[str, Any], folder: Path, since: FolderChanges | None) -> Result:
    """The file is not as it was when the run began, in more than its blank lines."""
    name = str(criterion["file"])
    if since is None:
        return False, "not changed"
    if since.unknown:
        return None, since.unknown
    if name not in since.moved:
        return False, "not changed"
    before = since.before(name) if (folder / name).is_file() else ""
    same = bool(before) and _lines(before) == _lines((folder / name).read_text("utf-8", errors="replace"))
    return (False, "only blank lines changed") if same else (True, "changed")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def moved(criterion: Mapping[str, Any], folder: Path, since: FolderChanges | None) -> Result:
    """Some file of the folder is not as it was when the run began."""
    if since is None:
        return False, "nothing changed"
    if since.unknown:
        return None, since.unknown
    count = len(list(since.moved))
    return (True, f"{count} files changed") if count else (False, "nothing changed")


def kept(criterion: Mapping[str, Any], folder: Path, since: FolderChanges | None) -> Result:
    """No definition, and no kind of statement, of a Python file's top level is gone."""
    name = str(criterion["file"])
    old = since.before(name) if since else ""
    if not old:
        return True, "as it was"
    try:
        lost = _top_level(old) - _top_level((folder / name).read_text("utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        return False, str(error)
    return (False, f"lost: {', '.join(sorted(lost))}") if lost else (True, "nothing is lost")


def _top_level(text: str) -> set[str]:
    """The names that a Python file defines, and the kinds of its other statements."""
    import ast

    found: set[str] = set()
    for node in ast.parse(text).body:
        name = getattr(node, "name", "")
        found.add(name or type(node).__name__)
    return found - {"Expr", "Import", "ImportFrom"}


def differs(criterion: Mapping[str, Any], folder: Path, since: FolderChanges | None) -> Result:
    """The file or folder, or anything without `file`, is not as it was when the run began.

    What is as it was may have been so already, as a list that was sorted before: nothing shows that.
    """
    name = os.path.normpath(folder / str(criterion.get("file", ".")))
    if since is None:
        return False, "as it was"
    if since.unknown:
        return None, since.unknown
    inside = [each for each in since.moved if f"{folder / each}/".startswith(f"{name}/")]
    if not inside:
        return None, "as it was when the run began"
    return True, f"{len(inside)} file{'s' if len(inside) > 1 else ''} changed since the run began"


CHECKS: Mapping[str, Check] = {
    "valid": valid,
    "changed": changed,
    "moved": moved,
    "kept": kept,
    "differs": differs,
}
"""By the name in a criterion."""
