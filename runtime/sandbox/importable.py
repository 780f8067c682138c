"""What the Python that commands start imports from outside the folder: its packages, and editable installs.

Nothing is run to find it: the files of the interpreter's packages are read.
"""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

LARGEST = 100_000
"""Bytes of a file of packages that is read."""
MOST = 200
"""Folders at most."""


def importable(folder: Path, environ: Mapping[str, str], home: Path) -> list[Path]:
    """The folders that the first `python` and `python3` of the PATH import from, and their own.

    A virtual environment in `folder` names none: a command could write there what later ones would see.
    """
    found: dict[Path, None] = {}
    for name in ("python", "python3"):
        program = shutil.which(name, path=environ.get("PATH", os.defpath))
        if not program:
            continue
        prefix = Path(os.path.abspath(program)).parent.parent  # noqa: PTH100 (the link is the environment)
        if folder == prefix or folder in prefix.parents or folder in prefix.resolve().parents:
            continue
        base = Path(program).resolve().parent.parent
        for root in dict.fromkeys((prefix, base, home / ".local")):
            found[root] = None
            for packages in sorted(root.glob("lib/python3*/*-packages")):
                found |= dict.fromkeys(_named(packages))
    found.pop(home / ".local", None)
    return [path for path in list(found)[:MOST] if path.exists()]


def _named(packages: Path) -> Iterator[Path]:
    """The absolute paths that a folder of packages names, in `.pth` files and editable finders."""
    with suppress(OSError):
        for file in sorted(packages.glob("*.pth")):
            for line in _text(file).splitlines():
                if line.startswith("/"):
                    yield Path(os.path.normpath(line.strip()))
        for file in sorted(packages.glob("__editable__*_finder.py")):
            for place in _mapped(_text(file)):
                yield Path(os.path.normpath(place))


def _text(file: Path) -> str:
    if not file.is_file() or file.stat().st_size > LARGEST:
        return ""
    return file.read_text("utf-8", "replace")


def _mapped(finder: str) -> Iterator[str]:
    """The places in the MAPPING and NAMESPACES of a finder as setuptools writes it."""
    with suppress(SyntaxError, ValueError, RecursionError):
        for node in ast.parse(finder).body:
            if isinstance(node, ast.AnnAssign) and node.value:
                target, value = node.target, node.value
            elif isinstance(node, ast.Assign):
                target, value = node.targets[0], node.value
            else:
                continue
            if isinstance(target, ast.Name) and target.id in ("MAPPING", "NAMESPACES"):
                places = ast.literal_eval(value)
                flat = [each for one in places.values() for each in (one if isinstance(one, list) else [one])]
                yield from (each for each in flat if isinstance(each, str) and each.startswith("/"))
