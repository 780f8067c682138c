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
from runtime import found_files

UNNAMED = (
    *("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "Taskfile.yml", "Rakefile", "tasks.py"),
    *("package.json", "Cargo.toml", "build.rs", "go.mod", "pom.xml", "build.gradle", "CMakeLists.txt"),
    *("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "conftest.py", "pytest.ini"),
    *("Dockerfile", "docker-compose.yml", "compose.yaml", "__main__.py", "sitecustomize.py", "SConstruct"),
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
TOO_MANY = "the first "
"""How the digest begins of a folder that has more than counts."""
KEPT = 20
"""Most files that a step's evidence lists; further ones have one digest together."""
PLACES = 20
"""Most named folders that are looked into."""
SEARCHED = 100_000
"""Characters of a text in which words are looked for."""
LONGEST = 1_024
"""Characters of a word that may be a path."""
LISTED = 2_000
"""Most files of a named folder whose contents count; of further ones only size and time do."""
WALKED = 20_000
"""Most files of a named folder that count at all."""
_BREAKS = re.compile(r"[\s'\"`;|&<>(){}\[\],]+")
_WITHIN = re.compile(r"[=:@]")
_GLOB = re.compile(r"[*?[]")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


def named_files(folder: Path, args: Any, *, command: bool, apart: Collection[Path] = ()) -> dict[str, str]:
    """The files that arguments name, by their path in the folder: the SHA-256 of each.

    Of a large file its size and time stand for it. What goes beyond the bounds has an entry that begins with
    `MORE`, or a mark that begins with `TOO_MANY`.
    Of a `command` each word counts, and files that it starts without their names. Of other calls only
    arguments that are a path as they stand do. A named folder counts with all that is in it; what is `apart`,
    such as the state of the runs, does not.
    """
    root = folder.resolve()
    hidden = {str(each) for each in apart}
    every = list(dict.fromkeys(each for text in _texts(args) for each in _words(text, command)))
    words = every[:WORDS]
    for pattern in [word for word in words if command and _GLOB.search(word)][:PLACES]:
        with suppress(OSError, ValueError, NotImplementedError):
            found_by = root.glob(pattern.replace("**", "*"))
            words += [str(path.relative_to(root)) for path in islice(found_by, FILES)]
    named = [path for path in map(root.joinpath, words) if _inside(path, root) and path.is_dir()]
    folders = [path for path in dict.fromkeys(map(_plain, named)) if not _is_apart(path, hidden)]
    places, unread = folders[:PLACES], len(every) - len(words) + len(folders[PLACES:])
    names = [*words, *_modules(words), *UNNAMED] if command else words
    found: dict[str, str] = {}
    settings = [place / ".git" / "config" for place in places] if command else []
    for path in (*(place / name for place in (root, *places) for name in names), *settings):
        shown = _inside(path, root)
        if shown and shown not in found and path.is_file() and not _is_apart(_plain(path), hidden):
            found[shown] = _content(path, len(found) < FILES)
    for place in places:
        found[f"{_inside(place, root)}/"] = _listing(place, hidden)
    named_more = {f"{MORE}{unread} more words": "not looked into"} if unread else {}
    return _shortened(dict(sorted(found.items()))) | named_more


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
    """What tells a folder from one with another file in it, or with a file of another content or target."""
    seen, count, left = hashlib.sha256(), 0, HASHED
    for where, folders, files in os.walk(place):
        links = [each for each in folders if Path(where, each).is_symlink()]
        folders[:] = sorted(each for each in folders if each not in found_files.SKIPPED)
        folders[:] = [each for each in folders if f"{where}/{each}" not in hidden]
        for name in sorted([*files, *links]):
            path, entry = Path(where, name), [os.path.relpath(f"{where}/{name}", place)]
            with suppress(OSError):
                entry += [str(path.readlink())] if path.is_symlink() else []
                if path.is_file():
                    left -= path.stat().st_size
                    entry.append(_content(path, count < LISTED and left >= 0))
            seen.update("\0".join([*entry, "\n"]).encode("utf-8", "surrogateescape"))
            count += 1
            if count >= WALKED:
                return f"{TOO_MANY}{WALKED} files, {seen.hexdigest()}"
    return seen.hexdigest()
