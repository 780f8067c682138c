"""`fractal init`, `config`, `trust`, `gc` and `completion`: a workspace and its settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from kernel.errors import ConfigurationError, UsageError
from runtime.api.fractal import shipped_system
from runtime.cli import cli
from runtime.cli.output import (
    Columns,
    count,
    elide,
    emit,
    notify,
    print_line,
    print_table,
    put,
    wants_json,
)
from runtime.cli.session import allow, command, folder, json_option, opened
from runtime.evolution.files import files
from runtime.evolution.journal import Journal
from runtime.mcp.client.configured import places
from runtime.mcp.client.starting import item
from runtime.workspace import trust as kept
from runtime.workspace.settings import Config, load, user_file
from runtime.workspace.trust import asks_for
from runtime.workspace.workspace import Workspace, settings_files

BARE = ("pattern.md", "kernel/")
"""The files of `init --bare`: all that the kernel needs."""
STATE = """# state/

What this workspace did: one folder per run in `runs/`, and in `system/` the history of its system.
Readable by its owner only, ignored by git.
Only Fractal writes here; you may edit the documents of a run while no process works on it.
"""
SYSTEM = """# system/

Your changes of what ships with Fractal. A file here replaces the shipped file with the same path; all other
shipped files stay in use, and updates of Fractal update them.

- `fractal system edit NAME` copies a file here and opens it, such as `phases/turn.md` or a tool's name.
- `fractal tools new NAME` creates a tool here.
- `fractal system log` lists what has changed.
"""


@click.command()
@click.argument("directory", required=False, metavar="[DIR]", type=click.Path(file_okay=False))
@click.option(
    "--full", is_flag=True, help="Copy all shipped files to system/, to let the system change itself."
)
@click.option(
    "--bare", is_flag=True, help="Use only pattern.md, read, write and bash: enough to build the rest."
)
def init(directory: str | None, full: bool, bare: bool) -> None:
    """Make DIR (default: the current folder) a workspace: fractal.yaml, state/ and system/.

    Files in system/ replace shipped files with the same path; it is empty at first. Existing files are kept.
    """
    if full and bare:
        raise click.UsageError("give --full or --bare, not both")
    place = Path(directory or folder())
    place.mkdir(parents=True, exist_ok=True)
    shipped = shipped_system()
    if bare and (existing := _more_than_bare(place)):
        raise UsageError(f"{existing} already exists; --bare needs a folder without a system")
    copied = _copy_missing(shipped, place / "system", BARE if bare else ("",)) if full or bare else []
    settings = place / "fractal.yaml"
    created = _write_missing(settings, template({"shipped": False} if bare else {}))
    if not (full or bare):
        _write_missing(place / "system" / "README.md", SYSTEM)
    real = place.resolve()
    Workspace(real, real, shipped).make()
    _write_missing(real / "state" / "README.md", STATE)
    ignored = place / ".gitignore"
    lines = ignored.read_text("utf-8").splitlines() if ignored.is_file() else []
    if missing := [line for line in ("/state/*", "!/state/README.md") if line not in lines]:
        ignored.write_text("\n".join([*lines, *missing]) + "\n", "utf-8")
    workspace = Workspace.find(place, shipped)
    _trust(workspace, copied, {"shipped": False} if created and bare else {})
    Journal(workspace).notice()  # later changes are compared with this state
    files = f" with {count(len(copied), 'file')} in system/" if copied else ""
    notify(f"{workspace.root} is a workspace{files}; settings: {settings.name}")
    if (place / ".fractal" / "state" / "runs").is_dir():
        earlier = place / ".fractal" / "state"
        notify(f"earlier runs stay in {earlier}; this workspace does not list them", "yellow")


def _write_missing(path: Path, text: str) -> bool:
    """Write a file unless it exists; whether it was written."""
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return True


def _trust(workspace: Workspace, copied: list[str], settings: Mapping[str, Any]) -> None:
    """Trust the files that we have just written, also if a later version ships different ones."""

    root = workspace.root
    files = ((name, kept.digest_of(root / "system" / name)) for name in copied)
    items = [kept.Item(str(root), f"system/{name}", digest, "") for name, digest in files]
    with suppress(ConfigurationError):  # if it cannot be kept, the person is asked
        kept.accept([*items, *kept.settings(root, settings)])


def _more_than_bare(place: Path) -> Path | None:
    """A file of an existing workspace that is not bare."""
    settings, system = place / "fractal.yaml", place / "system"
    if settings.exists():
        return settings if load(place, {})[0].shipped else None
    names = (path.relative_to(system).as_posix() for path in sorted(system.rglob("*")) if path.is_file())
    return next((system / name for name in names if not name.startswith(BARE)), None)


def _copy_missing(source: Path, target: Path, only: tuple[str, ...]) -> list[str]:
    """Copy missing files whose names begin with one of `only`; returns their names."""
    copied: list[str] = []
    for path in sorted(files(source)) if source.resolve() != target.resolve() else ():
        name = path.relative_to(source).as_posix()
        goal = target / name
        if name.startswith(only) and not goal.exists():
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, goal)
            goal.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)
            copied.append(name)
    return copied


def template(values: Mapping[str, Any] | None = None) -> str:
    """A fractal.yaml with every setting, its default and meaning; the settings `given` are set."""
    lines = ["# Settings of this workspace; commented lines show the defaults. See: fractal config", ""]
    for name, field in Config.model_fields.items():
        value = json.dumps(field.get_default(call_default_factory=True), default=list)
        set_to = f"{name}: {json.dumps(values[name])}" if values and name in values else f"# {name}: {value}"
        lines += [f"# {field.description}", set_to, ""]
    return "\n".join(lines)


@click.command()
@click.argument("name", required=False)
@json_option("Print an object: each setting's value and source.")
def config(name: str | None) -> None:
    """Show the settings in effect and their sources; with NAME, only its value.

    The order is: flags, FRACTAL_* variables, fractal.yaml of the workspace, your own file, defaults.
    """
    fractal = opened()
    values: dict[str, Any] = fractal.config.model_dump(mode="json")
    if name is not None:
        if name not in values:
            raise UsageError(f"there is no setting {name}; list all: fractal config")
        value = values[name]
        put(value if isinstance(value, str) and not wants_json() else json.dumps(value, ensure_ascii=False))
        return
    emit({key: {"value": value, "source": fractal.sources[key]} for key, value in values.items()})
    shown: Columns = {
        "SETTING": lambda name: name,
        "VALUE": lambda name: elide(json.dumps(values[name], ensure_ascii=False), 60),
        "FROM": lambda name: fractal.sources[name],
    }

    def bold(name: str, text: str) -> str:
        return click.style(text, bold=fractal.sources[name] != "default")

    print_table(shown, list(values), style=bold)
    files = [*reversed(settings_files(fractal.workspace.root)), user_file()]
    notify(f"\nfiles: {', '.join(map(str, files))}")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-y", "--yes", is_flag=True, help="Allow without asking.")
@click.option("--revoke", is_flag=True, help="Withdraw all permissions of this folder.")
@json_option("Print pending requests as a list of objects.")
def trust(names: tuple[str, ...], yes: bool, revoke: bool) -> int:
    """Show what this folder's own files ask for, and allow all of it, or what is named.

    Settings that lower security or send data elsewhere, files in system/, skills and MCP servers take effect
    once you allow them, as they are written: after a change you are asked again.
    """
    fractal = opened()
    workspace = fractal.workspace
    if revoke:
        folders = [workspace.root, *(path.parent for path in places(workspace.folder, workspace.root))]
        notify(f"withdrew {count(kept.revoke(dict.fromkeys(folders)), 'permission')} of this folder")
        return 0
    known = fractal.servers()
    servers = known.configured
    asked = (item(each, known.sandbox) for each in servers.waiting)
    waiting = [*fractal.untrusted(), *asked]
    chosen = [each for each in waiting if each.name in names] if names else waiting
    if unknown := set(names) - {each.name for each in waiting}:
        names_asked = {each.name for each in asks_for(workspace, fractal.config, fractal.sources)} | {
            f"mcp:{name}" for name in servers.entries
        }
        if strange := sorted(unknown - names_asked):
            listed = ", ".join(sorted({each.name for each in waiting} | names_asked)) or "nothing"
            raise UsageError(f"this folder does not ask for {strange[0]}, only for: {listed}")
        notify(f"already allowed: {', '.join(sorted(unknown))}")
    emit(chosen)
    if not chosen:
        if not names:
            notify("this folder has no pending requests")
        return 0
    if not allow(chosen, sure=yes):
        if names:
            notify(f"to allow only what you named: {command('trust', *names)} --yes")
        return 3
    notify(f"allowed: {', '.join(each.name for each in chosen[:5])}" + (" …" if len(chosen) > 5 else ""))
    return 0


@click.command()
@click.option("--keep-days", type=click.FloatRange(min=0), default=30, show_default=True, metavar="DAYS")
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be moved.")
def gc(keep_days: float, dry_run: bool) -> None:
    """Move runs that ended more than DAYS ago into an archive."""
    fractal = opened()
    moved = fractal.gc(keep_days, dry_run=dry_run)
    for text in moved:
        print_line(text)
    notify(f"{count(len(moved), 'run')} {'would be moved' if dry_run else 'moved'}")


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

    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(cli, {}, "fractal", "_FRACTAL_COMPLETE")
    put(completer.source_template % completer.source_vars())
