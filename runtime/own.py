"""What Fractal itself runs from: the Python, the packages and the programs of this process.

Where that lies in a folder that runs write in, no run may change it: the next `fractal` would run it outside
the sandbox. Where Python imports from such a folder all the same, Fractal itself does not.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from inspect import currentframe
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

AT_START = ("sitecustomize", "usercustomize")
"""Modules that Python imports from anywhere on its path before the program begins."""
_PACKAGES = ("site-packages", "dist-packages")
_ROOTS = ("fractal",) if __name__.startswith("fractal.") else ("fractal", "kernel", "runtime")
_BEFORE_GUARD = sorted({name.partition(".")[0] for name in sys.modules} & sys.stdlib_module_names)
"""Modules of the standard library that are imported before `stand_guard`: a folder that comes before the
library on Python's path could have one of its own."""
_AT_ITS_START = "what Python runs at its start"
_LINKS = 40
"""Links that are followed on the way to a place."""
_OUTSIDE = "install Fractal outside of this folder, for example with `pipx install` or `uv tool install`"
_COPY = f"{_OUTSIDE}, or let runs work on a copy with `--worktree`"
_PLAINLY = "start it as `fractal` without PYTHONPATH, or as `python -P -m fractal`"
_SETTINGS = ("where your own settings, keys and permissions for Fractal are", "start it in another folder")
_LIBRARIES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_ITSELF, _ABOVE = 1, 2


class _Place(NamedTuple):
    """A place that Fractal runs from; `counts` says when all of a folder counts as it.

    0: never; `_ITSELF`: where the folder is this place; `_ABOVE`: also where it lies in it.
    """

    path: str
    what: str
    fix: str
    counts: int = 0
    modules: tuple[str, ...] = ()  # only what Python would import there by these names


def own_places(folder: Path) -> Mapping[Path, str]:
    """The places in `folder` (resolved) that Fractal runs from, each with why and with what helps.

    `folder` itself is the only one where all of it counts.
    """
    environment = tuple(os.environ.get(name, "") for name in ("PATH", "FRACTAL_SYSTEM", *_LIBRARIES))
    from runtime import user_files  # takes time, and where nothing is started nobody asks

    user = ""
    with suppress(RuntimeError):  # a user without a home
        user = str(user_files.user_folder())
    return _own_places(folder, tuple(sys.path), environment, _script(), user)


def why_own(target: Path, folder: Path, *, as_folder: bool = False, copied: bool = False) -> str:
    """Why no run may change `target`, which is, holds or lies in such a place of `folder`; "" if it may.

    `as_folder`: it only is or becomes a folder, so it may hold such a place. `copied`: a person brings it
    from a copy or an earlier state, and that is how Fractal's own sources may be changed.
    """
    places = own_places(folder)
    inside = f"{target}{os.sep}"
    found = [place for place in (target, *target.parents) if place in places]
    found += [] if as_folder else [place for place in places if str(place).startswith(inside)]
    return next((places[each] for each in found if not (copied and places[each].endswith(_COPY))), "")


@lru_cache(maxsize=64)
def _own_places(
    folder: Path, path: tuple[str, ...], environment: tuple[str, ...], script: str, user: str
) -> Mapping[Path, str]:
    found: dict[Path, str] = {}
    for each, place in _placed(path, environment, script, user):
        if place.modules and not each.is_symlink():
            if folder in (each, *each.parents):
                found |= dict(_modules(each, place, folder))
        elif folder in each.parents:
            name = each.relative_to(folder).as_posix()
            found.setdefault(each, f"{name} is {place.what}, so no run may change it; {place.fix}")
        elif (place.counts and each == folder) or (place.counts == _ABOVE and each in folder.parents):
            return {folder: f"{folder} is {place.what}, so no run may change it; {place.fix}"}
    return {each: why for each, why in found.items() if not any(above in found for above in each.parents)}


@lru_cache(maxsize=4)
def _placed(
    path: tuple[str, ...], environment: tuple[str, ...], script: str, user: str
) -> list[tuple[Path, _Place]]:
    """The places that this process runs from, and the links on the way to them."""
    places = (*_candidates(path, environment, script), _Place(user, *_SETTINGS, _ABOVE))
    return [(each, place) for place in places if place.path for each in _on_the_way(place.path)]


def _candidates(path: tuple[str, ...], environment: tuple[str, ...], script: str) -> Iterator[_Place]:
    """The places that this process runs from, wherever they lie."""
    for name in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix):
        yield _Place(name, "the Python environment that Fractal runs from", _OUTSIDE, _ITSELF)
    for name in (sys.executable, os.path.realpath(sys.executable)):
        yield _Place(os.path.dirname(name), "where the Python of Fractal is", _OUTSIDE, _ABOVE)  # noqa: PTH120
    for root in filter(None, map(sys.modules.get, _ROOTS)):
        for name in root.__path__:
            yield _Place(name, "Fractal itself", _COPY, _ABOVE)
    if site.ENABLE_USER_SITE:
        yield _Place(site.getusersitepackages(), "where Fractal imports packages from", _OUTSIDE, _ABOVE)
    yield from _imported_from(path, script)
    if script:
        yield _Place(script, "the program that runs now", "keep it outside of this folder")
    programs, system, *libraries = environment
    yield _Place(system, "FRACTAL_SYSTEM, the instructions of Fractal", "set it to another folder", _ABOVE)
    for name in programs.split(os.pathsep):
        yield _Place(
            name, "on the PATH that Fractal runs with", "take it off the PATH to let runs write there"
        )
    for name in ":".join(libraries).replace(" ", ":").split(":"):
        yield _Place(name, "in " + " or ".join(_LIBRARIES), "start Fractal without it", _ITSELF)


def _imported_from(path: tuple[str, ...], script: str) -> Iterator[_Place]:
    """The entries of `sys.path` that Fractal imports from.

    An editable install of something else adds a folder that comes last. Fractal's own imports skip it
    (`_Guard`) where runs write, so it may be changed, except what Python imports from it before that guard
    stands: at its start, and in place of Fractal itself where the folder comes before it. The same holds for
    PYTHONPATH and the folder of `python -m`, which come before the standard library.
    """
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    before = path.index(library) if library in path else 0
    packages = [name for root in filter(None, map(sys.modules.get, _ROOTS)) for name in root.__path__]
    own = set(map(os.path.dirname, packages))
    first = min((path.index(name) for name in own if name in path), default=len(path))
    named = [each for name in path if os.path.basename(name) in _PACKAGES for each in _named(name)]  # noqa: PTH119
    for n, name in enumerate(dict.fromkeys((*path, *named))):
        if not name or (n == 0 and script and name == os.path.dirname(script)):  # noqa: PTH120
            continue  # of whoever started Python: for what Fractal imports, as the last ones
        if name in own:
            yield _Place(name, "where Fractal itself is imported from", _COPY, _ITSELF)
        elif n < before:
            yield _Place(name, _AT_ITS_START, _PLAINLY, modules=(*AT_START, *_ROOTS, *_BEFORE_GUARD))
        elif name == library or os.path.basename(name) in _PACKAGES:  # noqa: PTH119
            yield _Place(name, "where Fractal imports packages from", _OUTSIDE, _ABOVE)
        else:
            shadows = name not in path or path.index(name) < first
            modules = (*AT_START, *(_ROOTS if shadows else ()))
            yield _Place(name, _AT_ITS_START, _OUTSIDE, modules=modules)


def _modules(place: Path, imported: _Place, folder: Path) -> Iterator[tuple[Path, str]]:
    """The names in a folder that Python would import at its start, and the links on the way to them."""
    for module in imported.modules:
        what = "what Python imports in place of Fractal itself" if module in _ROOTS else imported.what
        for ending in ("", *all_suffixes()):
            path = place / f"{module}{ending}"
            for each in _on_the_way(str(path)) if path.is_symlink() else (path,):
                if folder in each.parents:
                    name = each.relative_to(folder).as_posix()
                    yield each, f"{name} is {what}, so no run may change it; {imported.fix}"


def _named(packages: str) -> Iterator[str]:
    """The folders that the `.pth` files of a folder of packages add, also where they do not exist yet."""
    from kernel import disk

    for file in disk.matching(Path(packages), "*.pth"):
        with suppress(OSError, UnicodeDecodeError):
            for line in disk.read(Path(packages, file), 1_000_000).decode().splitlines():
                if line.strip() and not line.startswith(("#", "import ", "import\t")):
                    yield os.path.join(packages, line.strip())  # noqa: PTH118


def _script() -> str:
    """The file of the program that was started as a file, by its absolute path; "" if it was not."""
    main = sys.modules.get("__main__")
    name: str | None = getattr(main, "__file__", None)
    if not name or getattr(main, "__spec__", None) is not None or not os.path.isfile(name):  # noqa: PTH113
        return ""
    return os.path.abspath(name)  # noqa: PTH100


def _on_the_way(name: str) -> Iterator[Path]:
    """The links on the way to a place, and where it is at the end."""
    path = Path(os.path.abspath(name))  # noqa: PTH100 (the links count)
    for _ in range(_LINKS):
        link = next((each for each in (*reversed(path.parents), path) if each.is_symlink()), None)
        if link is None:
            break
        yield link
        path = Path(os.path.normpath(link.parent / link.readlink() / path.relative_to(link)))
    yield path


# ---- imports ----

_written: set[Path] = set()
"""Folders in which runs of this process write."""


def runs_write_in(folder: Path) -> None:
    """From now on Fractal imports nothing from `folder` (resolved), except from what no run may change."""
    _written.add(folder)
    stand_guard()


def stand_guard() -> None:
    """From now on Fractal's own imports skip what runs write: here, and in every workspace on `sys.path`."""
    if _written or any(_runs_write(each) for entry in sys.path for each in _around(entry)):
        from runtime import user_files  # the guard needs it, and must not import while it looks

        del user_files
    if PathFinder in sys.meta_path:
        sys.meta_path[sys.meta_path.index(PathFinder)] = _Guard
    elif _Guard not in sys.meta_path:
        sys.meta_path.insert(0, _Guard)


def imported_from(entry: str) -> bool:
    """Whether Fractal imports from an entry of `sys.path`."""
    around = _around(entry)
    return all(any(own in around for own in own_places(each)) for each in around if _runs_write(each))


def _around(entry: str) -> tuple[Path, ...]:
    place = _resolved(entry or _here())
    return (place, *place.parents)


def _runs_write(folder: Path) -> bool:
    return folder in _written or _is_workspace(folder)


@lru_cache(maxsize=1024)
def _is_workspace(folder: Path) -> bool:
    """Whether runs have written in a folder: the state of them is there."""
    return (folder / ".fractal" / "state").is_dir() or (folder / "state" / "runs").is_dir()


@lru_cache(maxsize=256)
def _resolved(entry: str) -> Path:
    return Path(entry).resolve()


@lru_cache(maxsize=16)
def _skipped(path: tuple[str, ...], here: str, written: int) -> tuple[str, ...]:
    """The entries of `sys.path` that Fractal does not import from."""
    return tuple(entry for entry in path if not imported_from(entry))


class _Guard(PathFinder):
    """`PathFinder`, for which Fractal's own imports see nothing where runs write, as if it were not there.

    An import is Fractal's where Fractal's code is on the stack nearer than code of the folder. It stands in
    the place of `PathFinder`: what it skips is then found by nobody.
    """

    @classmethod
    def find_spec(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module where it may be imported from."""
        if fullname.partition(".")[0] in _ROOTS:
            return PathFinder.find_spec(fullname, path, target)
        skipped = _skipped(tuple(sys.path), _here() if "" in sys.path else "", len(_written))
        here = currentframe()
        if not skipped or here is None or not _by_fractal(here.f_back, skipped):
            return PathFinder.find_spec(fullname, path, target)
        if path is None:
            return PathFinder.find_spec(fullname, [each for each in sys.path if each not in skipped], target)
        inside = tuple(f"{os.path.abspath(each)}{os.sep}" for each in skipped)  # noqa: PTH100
        safe = [each for each in path if not each.startswith(inside)]
        return PathFinder.find_spec(fullname, safe or path, target)  # of a package that is there all the same


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 (this is called often)
    except FileNotFoundError:  # it was removed
        return ""


def _by_fractal(frame: FrameType | None, skipped: tuple[str, ...]) -> bool:
    places = tuple(f"{folder}{os.sep}" for folder in (*_written, *filter(None, skipped)))
    while frame:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in _ROOTS:
            return True
        if module == "__main__" or frame.f_code.co_filename.startswith(places):
            return False
        frame = frame.f_back
    return False
