"""What a person hands in as a proposal: which files of the system these are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernel.errors import UsageError
from runtime.building.contents import File, files, mark_of, read
from runtime.building.journal import PERSON, Journal, unit_named
from runtime.building.proposals import Proposal, Proposals

FOLDERS = ("kernel", "operations", "phases", "reflexes", "samples", "templates", "tools")


def propose(
    journal: Journal,
    proposals: Proposals,
    systems: Sequence[Path],
    paths: Sequence[Path],
    *,
    place: str = "",
    why: str = "",
) -> Proposal:
    """Keep a proposal of these files or tool folders; `place`: where in `system/` a single one belongs."""
    if place and len(paths) > 1:
        raise UsageError("--as says where one file belongs; give one")
    given: dict[str, File | None] = {}
    for path in paths:
        name = _checked(place) if place else named(path, systems)
        if path.is_dir():
            here = journal.system / name
            given |= dict.fromkeys(f"{name}/{each.relative_to(here).as_posix()}" for each in files(here))
            for each in files(path):
                given[f"{name}/{each.relative_to(path).as_posix()}"] = read(each)
        else:
            given[name] = read(path)
    marks = {name: file.mark if file else "" for name, file in given.items()}
    changed = {name: file for name, file in given.items() if mark_of(journal.system / name) != marks[name]}
    if not changed:
        raise UsageError("all of it stands in the system already")
    return proposals.make("change", unit_for(changed), why or "handed in", PERSON, files=changed)


def named(path: Path, systems: Sequence[Path]) -> str:
    """Where in `system/` a file or a tool's folder belongs, by its path, or by a file of its name there."""
    parts = path.resolve().parts
    for at in range(len(parts) - 2, -1, -1):
        if parts[at] in FOLDERS:
            return "/".join(parts[at:])
    if path.is_dir():
        return f"tools/{path.resolve().name}"
    same = {
        each.relative_to(system).as_posix()
        for system in systems
        for each in system.glob(f"**/{path.name}")
        if each.parent.parent.name != "tools" or path.name != "pattern.md"
    }
    if len(same) == 1:
        return same.pop()
    raise UsageError(
        f"{path}: it is not told where in system/ this belongs"
        + (f" ({', '.join(sorted(same))}?)" if same else "")
        + "; say --as phases/plan.md, or such"
    )


def _checked(place: str) -> str:
    parts = Path(place).parts
    known = place == "pattern.md" or (len(parts) > 1 and parts[0] in FOLDERS)
    if Path(place).is_absolute() or ".." in parts or not known:
        raise UsageError(f"--as {place}: a place in system/ is pattern.md, or in {', '.join(FOLDERS)}")
    return place


def unit_for(names: Sequence[str] | dict[str, File | None]) -> str:
    """What the journal calls a change of these files: the unit, else the folder that all are in."""
    units = sorted({unit_named(name, dict.fromkeys(names)) for name in names})
    if len(units) == 1:
        return units[0]
    folders = {unit.partition("/")[0] for unit in units}
    return folders.pop() if len(folders) == 1 else ""
