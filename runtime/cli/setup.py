"""`fractal init`, `config`, `gc` and `completion`: a workspace and its settings."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import folder, json_option, opened, put, tell
from runtime.cli.words import elide, safe, table

if TYPE_CHECKING:
    from kernel.workspace import Workspace

# ---- init ------------------------------------------------------------------------------------------------


@click.command()
@click.argument("directory", required=False, metavar="[DIR]", type=click.Path(file_okay=False))
@click.option("--bare", is_flag=True, help="Only pattern.md, read, write and bash: what can build the rest.")
def init(directory: str | None, bare: bool) -> None:
    """Make DIR (the present folder) a workspace of its own: system/, state/ and fractal.yaml.

    system/ is a copy of the shipped instructions to change at will; what is there already is kept.
    """
    from kernel.errors import UsageError
    from kernel.workspace import Workspace
    from runtime.building.journal import Journal
    from runtime.fractal import shipped_system

    place = Path(directory or folder())
    place.mkdir(parents=True, exist_ok=True)
    shipped = shipped_system()
    if bare and (there := _more_than_bare(place)):
        raise UsageError(f"{there} is there already; --bare makes a workspace that begins with nothing")
    copied = _copy_missing(shipped, place / "system", BARE if bare else ("",))
    settings = place / "fractal.yaml"
    ours = not settings.exists()
    if ours:
        settings.write_text(template({"shipped": False} if bare else {}), "utf-8")
    (place / "state").mkdir(exist_ok=True)
    readme = place / "state" / "README.md"
    if not readme.exists():
        readme.write_text(STATE, "utf-8")
    _ignore(place / ".gitignore")
    workspace = Workspace.find(place, shipped)
    workspace.make()
    _trust(workspace, copied, {"shipped": False} if ours and bare else {})
    Journal(workspace).notice()  # how the system is found: what changes from now on is told
    tell(f"{workspace.root} is a workspace: {len(copied)} files of instructions, settings in {settings.name}")
    if (place / ".fractal" / "state" / "runs").is_dir():
        tell(
            f"earlier runs stay in {place / '.fractal' / 'state'}; this workspace does not list them",
            "yellow",
        )


BARE = ("pattern.md", "kernel/")
"""What the kernel runs with alone. Source: the design's "Day 0"."""
STATE = """# state/

What this workspace did: one folder a run in `runs/`, and in `system/` how its system has changed.
Readable by its owner only, ignored by git.
Only Fractal writes here; while no process works on a run, you may edit its documents.
"""


def _trust(workspace: Workspace, copied: list[str], settings: Mapping[str, Any]) -> None:
    """What we have just written needs no person's trust, also when a later version ships other files."""
    from kernel.errors import ConfigurationError
    from runtime import trust

    root = workspace.root
    files = ((name, trust.digest_of(root / "system" / name)) for name in copied)
    items = [trust.Item(str(root), f"system/{name}", digest, "") for name, digest in files]
    with suppress(ConfigurationError):  # where it cannot be kept, the person is asked
        trust.accept([*items, *trust.settings(root, settings)])


def _more_than_bare(place: Path) -> Path | None:
    """What is there of a workspace that is not bare, and that this one would silently change."""
    from runtime.config import load

    settings, system = place / "fractal.yaml", place / "system"
    if settings.exists():
        return settings if load(place, {})[0].shipped else None
    found = (path for path in sorted(system.rglob("*")) if path.is_file())
    return next((path for path in found if not path.relative_to(system).as_posix().startswith(BARE)), None)


def _copy_missing(source: Path, target: Path, only: tuple[str, ...]) -> list[str]:
    """Copy the files whose names begin with one of `only`, but for those that are there; their names."""
    copied: list[str] = []
    if source.resolve() == target.resolve():
        return copied
    for path in sorted(source.rglob("*")):
        goal = target / path.relative_to(source)
        if not path.relative_to(source).as_posix().startswith(only):
            continue
        if path.is_file() and "__pycache__" not in path.parts and not goal.exists():
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, goal)
            goal.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)
            copied.append(path.relative_to(source).as_posix())
    return copied


def _ignore(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    missing = [line for line in ("/state/*", "!/state/README.md") if line not in lines]
    if missing:
        path.write_text("\n".join([*lines, *missing]) + "\n", "utf-8")


def template(given: Mapping[str, Any] | None = None) -> str:
    """A fractal.yaml that names every setting with its default and its meaning, and sets those `given`."""
    from runtime.config import Config

    lines = [
        "# Settings of this workspace; what is commented out has the value shown. See: fractal config",
        "",
    ]
    for name, field in Config.model_fields.items():
        value = json.dumps(field.get_default(call_default_factory=True), default=list)
        set_to = f"{name}: {json.dumps(given[name])}" if given and name in given else f"# {name}: {value}"
        lines += [f"# {field.description}", set_to, ""]
    return "\n".join(lines)


# ---- config ----------------------------------------------------------------------------------------------


@click.command()
@click.argument("name", required=False)
@json_option("Print an object: each setting's value and source.")
def config(name: str | None, as_json: bool) -> None:
    """Show the settings in effect, and where each comes from; with NAME, only its value.

    Flags come before FRACTAL_* variables, these before fractal.yaml in the workspace, then the user's own
    file, then the defaults.
    """
    from kernel.errors import UsageError

    fractal = opened()
    values: dict[str, Any] = fractal.config.model_dump(mode="json")
    if name is not None:
        if name not in values:
            raise UsageError(f"there is no setting {name}; `fractal config` lists all")
        value = values[name]
        put(value if isinstance(value, str) and not as_json else json.dumps(value, ensure_ascii=False))
        return
    if as_json:
        found = {key: {"value": value, "source": fractal.sources[key]} for key, value in values.items()}
        put(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from kernel.workspace import settings_files
    from runtime.config import user_file

    rows = [
        [key, elide(json.dumps(value, ensure_ascii=False), 60), safe(fractal.sources[key])]
        for key, value in values.items()
    ]
    lines = table([["SETTING", "VALUE", "FROM"], *rows])
    click.echo(click.style(lines[0], dim=True))
    for text, row in zip(lines[1:], rows, strict=True):
        click.echo(click.style(text, bold=row[2] != "default"))
    files = [*reversed(settings_files(fractal.workspace.root)), user_file()]
    tell(f"\nfiles: {', '.join(map(str, files))}")


# ---- gc, completion -------------------------------------------------------------------------------------


@click.command()
@click.option("--keep-days", type=click.FloatRange(min=0), default=30, show_default=True, metavar="DAYS")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be moved.")
def gc(keep_days: float, dry_run: bool) -> None:
    """Move runs that ended more than DAYS ago into an archive."""
    fractal = opened()
    moved = fractal.gc(keep_days, dry_run=dry_run)
    for text in moved:
        click.echo(safe(text))
    word = "would be moved" if dry_run else "moved"
    tell(f"{len(moved)} run{'' if len(moved) == 1 else 's'} {word}")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
      bash   fractal completion bash > ~/.local/share/bash-completion/completions/fractal
      zsh    fractal completion zsh > "${fpath[1]}/_fractal"
      fish   fractal completion fish > ~/.config/fish/completions/fractal.fish
    """
    from click.shell_completion import get_completion_class

    from runtime.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(cli, {}, "fractal", "_FRACTAL_COMPLETE")
    sys.stdout.write(made.source_template % made.source_vars())
