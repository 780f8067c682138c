"""Tools that a person brings: made from a template, added from a folder or file, retired."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel.catalogue import Catalogue
from kernel.errors import UsageError
from kernel.pattern import Fault, load
from kernel.tools import Tool
from runtime.building.contents import File, files, read
from runtime.building.fields import with_field
from runtime.building.journal import PERSON, Entry, Journal
from runtime.building.standing import Standing

MOST_BYTES = 50_000_000
"""Of one tool with all its files."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True)
class Brought:
    """A tool that was found at a path, as the system is to have it: its unit, and its files by name."""

    unit: str
    tool: Tool
    files: dict[str, File]


def new(journal: Journal, catalogue: Catalogue, name: str, kind: str) -> Entry | None:
    """Make a tool from the template of its kind, as a draft. Raises `UsageError`."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name of a-z, 0-9 and -, at most 64 long")
    if there := catalogue.tools.get(name) or catalogue.idle.get(name):
        raise UsageError(f"there is a tool {name} already: {there.path}")
    places = [folder / "templates" / kind for folder in (*catalogue.folders, journal.shipped)]
    template = next((each for each in places if each.is_dir()), None)
    if template is None:
        raise UsageError(f"{places[0]}: there is no such template")
    made: dict[str, File] = {}
    for path in files(template):
        file = read(path)
        if file is not None:
            raw = re.sub(rb"\bNAME\b", name.encode(), file.raw)
            made[f"tools/{name}/{path.relative_to(template).as_posix()}"] = replace(file, raw=raw)
    return journal.change("added", f"tools/{name}", made, PERSON, f"from the template {kind}")


def found(place: Path) -> list[Brought]:
    """The tools at a path: a tool's or skill's folder, an operation's file, or a folder of many of them."""
    place = place.resolve()
    if place.is_file() and place.suffix == ".md" and place.name not in ("pattern.md", "SKILL.md"):
        return [_operation(place)]
    folder = place if place.is_dir() else place.parent
    if pattern := _pattern(folder):
        return [_tool(folder, pattern)]
    if not place.is_dir():
        raise UsageError(f"{place}: neither an operation's .md file nor a tool's folder")
    inside = [each for each in sorted(folder.iterdir()) if each.name[0] != "."]
    many = [_tool(each, pattern) for each in inside if each.is_dir() and (pattern := _pattern(each))]
    if not many:
        many = [_operation(each) for each in inside if each.suffix == ".md" and _is_operation(each)]
    if not many:
        raise UsageError(f"{place}: there is no pattern.md, SKILL.md or operation in it or in its folders")
    return many


def add(journal: Journal, brought: Brought, *, force: bool = False) -> Entry | None:
    """Copy a tool into the system; None where it is there already. Raises `UsageError`."""
    there = journal.system / brought.unit
    names = {path.relative_to(journal.system).as_posix() for path in files(there)} | set(brought.files)
    here = {name: file for name in sorted(names) if (file := read(journal.system / name))}
    if here == brought.files:
        return None
    if here and not force:
        raise UsageError(f"{brought.unit} is there already, and differs; --force puts this one in its place")
    changed: dict[str, File | None] = {name: None for name in here if name not in brought.files}
    return journal.change(
        "added", brought.unit, {**changed, **brought.files}, PERSON, f"from {brought.tool.path.parent}"
    )


def retire(journal: Journal, standing: Standing, tool: Tool) -> Entry | None:
    """Take a tool out of use; one that ships is overlaid by its own text with another status."""
    if standing.own(tool) and not tool.skill:
        return standing.mark(tool, "retired", "", PERSON)
    if standing.own(tool):  # a skill has no field for it: its folder goes, and the journal has it
        folder = tool.path.resolve().parent
        gone = {path.relative_to(journal.system.resolve()).as_posix(): None for path in files(folder)}
        return journal.change("retired", standing.unit(tool), gone, PERSON)
    if journal.shipped.resolve() not in tool.path.resolve().parents:
        raise UsageError(f"{tool.name} is not of this workspace's system: take it out of {tool.path.parent}")
    name = tool.path.resolve().relative_to(journal.shipped.resolve()).as_posix()
    text = with_field(tool.path.read_text("utf-8"), "status", "retired")
    unit = name.removesuffix("/pattern.md") if name.startswith("tools/") else name
    return journal.change("retired", unit, {name: File(text.encode())}, PERSON)


def _pattern(folder: Path) -> Path | None:
    places: Sequence[Path] = (folder / "pattern.md", folder / "SKILL.md")
    return next((path for path in places if path.is_file()), None)


def _is_operation(path: Path) -> bool:
    return path.read_bytes()[:4].startswith(b"---")


def _tool(folder: Path, pattern: Path) -> Brought:
    tool = _read(pattern)
    unit = f"tools/{tool.name}"
    names = {f"{unit}/{path.relative_to(folder).as_posix()}": path for path in files(folder)}
    return Brought(unit, tool, _contents(folder, names))


def _operation(path: Path) -> Brought:
    # read as what it will be: a file in the folder of operations
    stat = path.stat()
    entry = load(path, stat.st_mtime_ns, stat.st_size)
    if isinstance(entry, Fault):
        raise UsageError(str(entry))
    text = path.read_text("utf-8")
    if not re.search(r"(?m)^name:", text):
        raise UsageError(f"{path}: name: is missing")
    tool = replace(entry, operation=True)
    if tool.scheme != "command":
        raise UsageError(f'{path}: an operation of your own needs run: "command: ./program"')
    names = {f"operations/{path.name}": path, f"operations/{tool.program.name}": tool.program}
    return Brought(f"operations/{path.name}", tool, _contents(path.parent, names))


def _read(pattern: Path) -> Tool:
    stat = pattern.stat()
    entry = load(pattern, stat.st_mtime_ns, stat.st_size)
    if isinstance(entry, Fault):
        raise UsageError(str(entry))
    if entry.scheme not in ("", "command"):
        raise UsageError(f"{pattern}: run: {entry.run!r}: a tool that is added is guidance or command:")
    if entry.scheme == "command":
        _ = entry.program
    return entry


def _contents(folder: Path, names: dict[str, Path]) -> dict[str, File]:
    whole: dict[str, File] = {}
    total = 0
    for name, path in names.items():
        if folder.resolve() not in path.resolve().parents:
            raise UsageError(f"{path}: leads outside {folder}; put a copy in its place")
        total += path.stat().st_size
        if total > MOST_BYTES:
            raise UsageError(f"{folder}: more than {MOST_BYTES // 1_000_000} MB")
        if file := read(path):
            whole[name] = file
    return whole
