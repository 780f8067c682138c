"""The files of the folder that a call names: an approval is for their contents too.

Nothing is known of programs here. Any word of any argument that is a file or folder of the run's folder
counts, and what builds read without being told (`Makefile`, `package.json`) where the call can start one.
What such a file reads in turn is not followed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

from kernel import disk
from kernel.document.escaping import fingerprint

UNNAMED = (
    *(
        "Makefile",
        "makefile",
        "GNUmakefile",
        "justfile",
        "Justfile",
        "Taskfile.yml",
        "Rakefile",
        "SConstruct",
    ),
    *("package.json", "Cargo.toml", "build.rs", "go.mod", "pom.xml", "build.gradle", "CMakeLists.txt"),
    *(
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "tox.ini",
        "noxfile.py",
        "tasks.py",
        "conftest.py",
        "pytest.ini",
    ),
    *("Dockerfile", "docker-compose.yml", "compose.yaml", "__main__.py", "sitecustomize.py"),
)
"""What a command without a file's name may start in the folder it works in."""
WORDS = 400
"""Most words of a call that are looked at."""
FILES = 200
"""Most files whose contents count; of further ones only size and time do."""
HASHED = 64_000_000
"""Bytes of one file that are read; a larger one counts by size and time."""
MORE = "and "
"""How the entry for files beyond `KEPT` begins."""
KEPT = 20
"""Most files that a step's evidence lists; further ones have one digest together."""
PLACES = 20
"""Most named folders that are looked into."""
SEARCHED = 100_000
"""Characters of a text in which words are looked for."""
LONGEST = 1_024
"""Characters of a word that may be a path."""
LISTED = 2_000
"""Most entries of a named folder that count."""
_BREAKS = re.compile(r"[\s'\"`;|&<>(){}\[\],]+")
_WITHIN = re.compile(r"[=:@]")
_GLOB = re.compile(r"[*?[]")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


def named_files(
    folder: Path, args: Any, *, command: bool, apart: Collection[Path] = (), listings: bool = True
) -> dict[str, str]:
    """The files that arguments name, by their path in the folder: the SHA-256 of each.

    Of a `command` each word counts, and files that it starts without their names. Of other calls only
    arguments that are a path as they stand do. A named folder counts by its `listings`; what is `apart`, such
    as the state of the runs, does not.
    """
    root = folder.resolve()
    hidden = {str(each) for each in apart}
    words = list(dict.fromkeys(each for text in _texts(args) for each in _words(text, command)))[:WORDS]
    for pattern in [word for word in words if command and _GLOB.search(word)][:PLACES]:
        with suppress(OSError, ValueError, NotImplementedError):
            found_by = root.glob(pattern.replace("**", "*"))
            words += [str(path.relative_to(root)) for path in islice(found_by, FILES)]
    named = [path for path in map(root.joinpath, words) if _inside(path, root) and path.is_dir()]
    places = [path for path in dict.fromkeys(map(_plain, named)) if not _is_apart(path, hidden)][:PLACES]
    names = [*words, *_modules(words), *UNNAMED] if command else words
    found: dict[str, str] = {}
    settings = [place / ".git" / "config" for place in places] if command else []
    for path in (*(place / name for place in (root, *places) for name in names), *settings):
        shown = _inside(path, root)
        if shown and shown not in found and path.is_file() and not _is_apart(_plain(path), hidden):
            found[shown] = _content(path, len(found) < FILES)
    for place in places if listings else ():
        found[f"{_inside(place, root)}/"] = _listing(place, hidden)
    return _shortened(dict(sorted(found.items())))


def _shortened(found: dict[str, str]) -> dict[str, str]:
    """The first files, and one digest of all others."""
    if len(found) <= KEPT:
        return found
    rest = dict(list(found.items())[KEPT - 1 :])
    return dict(list(found.items())[: KEPT - 1]) | {f"{MORE}{len(rest)} more": fingerprint(rest)}


def _texts(value: Any) -> Iterator[str]:
    """Every text among the arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast(Mapping[str, Any], value).values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in cast(list[Any], value):
            yield from _texts(each)


def _words(text: str, command: bool) -> Iterator[str]:
    """The text itself if it may be a path, and of a command each word in it."""
    words = _BREAKS.split(text[:SEARCHED]) if command else []
    joined = [word[2:] for word in words if word[:1] == "-"]  # -ffile
    for each in (text, *words, *joined, *(part for word in words for part in _WITHIN.split(word))):
        if 0 < len(each) < LONGEST and "\0" not in each and "\n" not in each and each.strip("./"):
            yield each


def _plain(path: Path) -> Path:
    return Path(os.path.normpath(path))


def _is_apart(path: Path, hidden: Collection[str]) -> bool:
    return any(str(each) in hidden for each in (path, *path.parents))


def _modules(words: Iterable[str]) -> Iterator[str]:
    """The files of the modules that words may name."""
    for word in words:
        if _MODULE.fullmatch(word):
            path = word.replace(".", "/")
            yield from (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py")


def _inside(path: Path, root: Path) -> str:
    """The path as seen from the folder; "" if it is not in it, or cannot be looked at."""
    with suppress(OSError, ValueError, RuntimeError):
        whole = _plain(path)
        if whole.is_relative_to(root) and whole != root and os.path.lexists(whole):
            return os.path.relpath(whole, root)
    return ""


def _content(path: Path, read: bool) -> str:
    with suppress(OSError):
        state = path.stat()
        if read and state.st_size <= HASHED:
            return hashlib.sha256(disk.read(path, HASHED)).hexdigest()
        return f"{state.st_size} bytes of {state.st_mtime_ns}"
    return "not readable"


def _listing(place: Path, hidden: Collection[str]) -> str:
    """What tells a folder from the same one with another file in it."""
    seen, count = hashlib.sha256(), 0
    for where, folders, files in os.walk(place):
        folders[:] = sorted(each for each in folders if each not in disk.SKIPPED)
        folders[:] = [each for each in folders if f"{where}/{each}" not in hidden]
        for name in sorted(files):
            with suppress(OSError):
                state = os.lstat(f"{where}/{name}")
                entry = f"{where}/{name}\0{state.st_size}\0{state.st_mtime_ns}\n"
                seen.update(entry.encode("utf-8", "surrogateescape"))
            count += 1
            if count >= LISTED:
                return f"the first {LISTED} entries, {seen.hexdigest()}"
    return seen.hexdigest()
