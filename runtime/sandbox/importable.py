"""What the Python that commands start imports from outside the folder: its packages, and editable installs.

Nothing is run to find it: the files of the interpreter's packages are read.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime.sandbox.checkout import Checkout

LARGEST = 100_000
"""Bytes of a file of packages that is read."""
MOST = 200
"""Folders at most."""
NAMED, LONGEST = 20, 4_096
"""Programs of a command that are looked at, and the characters of one."""
MARKS = (".git", ".fractal", "fractal.yaml", "system/pattern.md")
"""What the top of a repository or workspace has."""
_BETWEEN = re.compile(r"[\s'\"`;|&()<>=]+")


def importable(folder: Path, environ: Mapping[str, str], home: Path, command: str = "") -> list[Path]:
    """The folders that the Python of a command imports from, and its own.

    It is the first `python` and `python3` of the PATH, and each environment outside the folder that the
    command names. A virtual environment in `folder` names its interpreter only: a command could write there
    what later ones would see. One that came along with the folder shows itself besides, and nothing that its
    packages name: a stranger may have written them.
    """
    found: dict[Path, None] = {}
    trees = _trees(folder.resolve(), home.resolve())
    for prefix in dict.fromkeys([*_of_path(environ), *_named_in(command, folder, home)]):
        bases = [each for each in _interpreters(prefix) if not any(_holds(each, tree) for tree in trees)]
        found |= dict.fromkeys(bases)
        if _holds(folder, prefix) or _holds(trees[0], prefix.resolve()):
            continue
        came = _came(prefix, trees)
        if came and any(_holds(prefix.resolve(), tree) for tree in trees):
            continue
        for root in dict.fromkeys((prefix,) if came else (prefix, *bases, home / ".local")):
            found[root] = None
            if not _came(root, trees):
                for packages in sorted(root.glob("lib/python3*/*-packages")):
                    found |= dict.fromkeys(_named(packages))
    found.pop(home / ".local", None)
    return [path for path in list(found)[:MOST] if os.path.exists(path)]  # noqa: PTH110 (no error for a long name)


def _trees(folder: Path, home: Path) -> list[Path]:
    """The folder, and what came with it: the repositories and workspaces around it, and its main checkout.

    One that holds the home folder is the user's own.
    """
    around = [each for each in folder.parents if any(os.path.lexists(each / name) for name in MARKS)]
    checkout = Checkout.around(folder)
    main = [checkout.common.parent] if checkout and checkout.common.name == ".git" else []
    return [folder, *(each for each in (*around, *main) if not _holds(each, home))]


def _holds(place: Path, path: Path) -> bool:
    return place == path or place in path.parents


def _came(path: Path, trees: list[Path]) -> bool:
    return any(_holds(tree, each) for tree in trees for each in (path, path.resolve()))


def _of_path(environ: Mapping[str, str]) -> Iterator[Path]:
    for name in ("python", "python3"):
        if program := shutil.which(name, path=environ.get("PATH", os.defpath)):
            yield _prefix(program)


def _named_in(command: str, folder: Path, home: Path) -> Iterator[Path]:
    """The environments that a command names by a program in them, and the usual ones of the folder."""
    words = (word for word in _BETWEEN.split(command) if "/bin/" in word and len(word) < LONGEST)
    for word in islice(words, NAMED):
        place = re.sub(r"^(~|\$HOME|\$\{HOME\})(?=/)", lambda _: str(home), word.rpartition("/bin/")[0])
        prefix = _prefix(str(folder / place / "bin" / "python"))
        if (prefix / "pyvenv.cfg").is_file() and _interpreters(prefix):
            yield prefix
    for name in (".venv", "venv"):
        if (folder / name / "pyvenv.cfg").is_file():
            yield folder / name


def _prefix(program: str) -> Path:
    return Path(os.path.abspath(program)).parent.parent  # noqa: PTH100 (the link is the environment)


def _interpreters(prefix: Path) -> list[Path]:
    """Where the Python of an environment is installed; none where that is no Python."""
    found = dict[Path, None]()
    with suppress(OSError, RuntimeError):
        programs = [(prefix / "bin" / name).resolve() for name in ("python", "python3")]
        if hit := re.search(r"^home *= *(/.*)$", _text(prefix / "pyvenv.cfg"), re.MULTILINE):
            programs += sorted(Path(hit[1].strip()).resolve().glob("python*"))
        for program in programs:
            if program.is_file() and os.access(program, os.X_OK):
                found[program.parent.parent] = None
    return [each for each in found if any(each.glob("lib/python3*/os.py"))]
    return []


def _named(packages: Path) -> Iterator[Path]:
    """The absolute paths that a folder of packages names: `.pth` files, finders, editable projects.

    A whole project is named only where no path in it is.
    """
    found: dict[Path, None] = {}
    with suppress(OSError, ValueError):
        for file in sorted(packages.glob("*.pth")):
            lines = [line for line in _text(file).splitlines() if line.startswith("/")]
            found |= dict.fromkeys(Path(os.path.normpath(line.strip())) for line in lines)
        for file in sorted(packages.glob("__editable__*_finder.py")):
            found |= dict.fromkeys(Path(os.path.normpath(place)) for place in _mapped(_text(file)))
        for file in sorted(packages.glob("*.dist-info/direct_url.json")):
            project = _project(_text(file))
            if project and not any(project in (each, *each.parents) for each in found):
                found[project] = None
    yield from found


def _project(text: str) -> Path | None:
    """The folder of an editable install, as its direct_url.json says (PEP 610)."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        said = json.loads(text)
        address = urlsplit(said["url"])
        if said["dir_info"]["editable"] is True and address.scheme == "file":
            return Path(os.path.normpath(unquote(address.path)))
    return None


def _text(file: Path) -> str:
    with suppress(OSError):
        if file.is_file() and file.stat().st_size <= LARGEST:
            return file.read_text("utf-8", "replace")
    return ""


def _mapped(finder: str) -> Iterator[str]:
    """The places in the MAPPING and NAMESPACES of a finder as setuptools writes it."""
    with suppress(SyntaxError, ValueError, TypeError, AttributeError, MemoryError, RecursionError):
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
