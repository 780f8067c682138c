"""Tools that a person installs: created from a template, copied from a folder or file, retired."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from kernel.errors import UsageError
from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.pattern import Fault
from runtime.evolution.files import File, files, read, tool_at, unit_files, unit_of, with_field
from runtime.evolution.journal import PERSON, Entry, Journal
from runtime.evolution.samples import ToolRecords
from runtime.tool_files import program_of

MOST_BYTES = 50_000_000
"""Of one tool with all its files."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True)
class Package:
    """A tool found at a path: its unit in the system, and its files by their name there."""

    unit: str
    tool: Tool
    files: dict[str, File]


def new(journal: Journal, catalogue: Catalogue, name: str, kind: str) -> Entry | None:
    """Create a draft of a tool from the template of its kind. Raises `UsageError`."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name of a-z, 0-9 and -, at most 64 long")
    if existing := catalogue.tools.get(name) or catalogue.idle.get(name):
        raise UsageError(f"there is a tool {name} already: {existing.path}")
    places = [folder / "templates" / kind for folder in (*catalogue.folders, journal.shipped)]
    template = next((each for each in places if each.is_dir()), None)
    if template is None:
        raise UsageError(f"{places[0]}: there is no such template")
    created: dict[str, File] = {}
    for path in files(template):
        if file := read(path):
            raw = re.sub(rb"\bNAME\b", name.encode(), file.raw)
            created[f"tools/{name}/{path.relative_to(template).as_posix()}"] = replace(file, raw=raw)
    return journal.change("added", f"tools/{name}", created, PERSON, f"from the template {kind}")


def packages_in(place: Path) -> list[Package]:
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
        operations = [each for each in inside if each.suffix == ".md" and each.read_bytes()[:3] == b"---"]
        many = [_operation(each) for each in operations]
    if not many:
        raise UsageError(f"{place}: there is no pattern.md, SKILL.md or operation in it or in its folders")
    return many


def add(journal: Journal, package: Package, *, force: bool = False) -> Entry | None:
    """Copy a tool into the system; None if it is there already. Raises `UsageError`."""
    names = {*unit_files(journal.system, package.unit), *package.files}
    installed = {name: file for name in sorted(names) if (file := read(journal.system / name))}
    if installed == package.files:
        return None
    if installed and not force:
        raise UsageError(f"{package.unit} is there already and differs; use --force to replace it")
    changed = {name: package.files.get(name) for name in names}
    return journal.change("added", package.unit, changed, PERSON, f"from {package.tool.path.parent}")


def retire(journal: Journal, records: ToolRecords, tool: Tool) -> Entry | None:
    """Take a tool out of use; a shipped one is overlaid by a copy with another status."""
    path, own = tool.path.resolve(), records.name(tool)
    if own and not tool.skill:
        return records.mark(tool, "retired", "", PERSON)
    if own:  # a skill has no status: its folder is removed, the journal keeps it
        unit = unit_of(own)
        return journal.change("retired", unit, dict.fromkeys(unit_files(journal.system, unit)), PERSON)
    if journal.shipped.resolve() not in path.parents:
        raise UsageError(f"{tool.name} is not part of this workspace's system: remove it from {path.parent}")
    name = path.relative_to(journal.shipped.resolve()).as_posix()
    text = with_field(path.read_text("utf-8"), "status", "retired")
    return journal.change("retired", unit_of(name), {name: File(text.encode())}, PERSON)


def _pattern(folder: Path) -> Path | None:
    return next((path for name in ("pattern.md", "SKILL.md") if (path := folder / name).is_file()), None)


def _tool(folder: Path, pattern: Path) -> Package:
    tool = _loaded(pattern)
    if tool.scheme not in ("", "command"):
        raise UsageError(f"{pattern}: run: {tool.run!r}: a tool that is added is guidance or command:")
    if tool.scheme == "command":
        _ = program_of(tool)  # raises if it is missing
    names = {path.relative_to(folder).as_posix(): path for path in files(folder)}
    return Package(f"tools/{tool.name}", tool, _contents(folder, f"tools/{tool.name}", names))


def _operation(path: Path) -> Package:
    tool = replace(_loaded(path), operation=True)  # which it is by its folder in the system
    if not re.search(r"(?m)^name:", path.read_text("utf-8")):
        raise UsageError(f"{path}: name: is missing")
    if tool.scheme != "command":
        raise UsageError(f'{path}: an operation of your own needs run: "command: ./program"')
    names = {path.name: path, program_of(tool).name: program_of(tool)}
    return Package(f"operations/{path.name}", tool, _contents(path.parent, "operations", names))


def _loaded(path: Path) -> Tool:
    entry = tool_at(path)
    if isinstance(entry, Fault):
        raise UsageError(str(entry))
    return entry


def _contents(folder: Path, place: str, paths: dict[str, Path]) -> dict[str, File]:
    """The files by their names in the system, where they are in `place`."""
    for path in paths.values():
        if folder.resolve() not in path.resolve().parents:
            raise UsageError(f"{path}: leads outside {folder}; put a copy in its place")
    if sum(path.stat().st_size for path in paths.values()) > MOST_BYTES:
        raise UsageError(f"{folder}: more than {MOST_BYTES // 1_000_000} MB")
    return {f"{place}/{name}": file for name, path in paths.items() if (file := read(path))}
