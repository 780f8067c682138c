"""`fractal init`, `config`, `gc`, `bench` and `completion`: a workspace and its settings."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.session import folder, json_option, opened, put, tell
from runtime.cli.words import elide, safe, table
from runtime.memory.procedural.parts import NAMES

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
    if not settings.exists():
        settings.write_text(template({"shipped": False} if bare else {}), "utf-8")
    (place / "state").mkdir(exist_ok=True)
    readme = place / "state" / "README.md"
    if not readme.exists():
        readme.write_text(STATE, "utf-8")
    _ignore(place / ".gitignore")
    workspace = Workspace.find(place, shipped)
    workspace.make()
    Journal(workspace).notice()  # how the system is found: what changes from now on is told
    tell(f"{workspace.root} is a workspace: {copied} files of instructions, settings in {settings.name}")
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


def _more_than_bare(place: Path) -> Path | None:
    """What is there of a workspace that is not bare, and that this one would silently change."""
    from runtime.config import load

    settings, system = place / "fractal.yaml", place / "system"
    if settings.exists():
        return settings if load(place, {})[0].shipped else None
    found = (path for path in sorted(system.rglob("*")) if path.is_file())
    return next((path for path in found if not path.relative_to(system).as_posix().startswith(BARE)), None)


def _copy_missing(source: Path, target: Path, only: tuple[str, ...]) -> int:
    """Copy the files whose names begin with one of `only`, but for those that are there."""
    count = 0
    if source.resolve() == target.resolve():
        return 0
    for path in sorted(source.rglob("*")):
        goal = target / path.relative_to(source)
        if not path.relative_to(source).as_posix().startswith(only):
            continue
        if path.is_file() and "__pycache__" not in path.parts and not goal.exists():
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, goal)
            goal.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)
            count += 1
    return count


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
    from runtime.config import user_file

    rows = [
        [key, elide(json.dumps(value, ensure_ascii=False), 60), safe(fractal.sources[key])]
        for key, value in values.items()
    ]
    lines = table([["SETTING", "VALUE", "FROM"], *rows])
    click.echo(click.style(lines[0], dim=True))
    for text, row in zip(lines[1:], rows, strict=True):
        click.echo(click.style(text, bold=row[2] != "default"))
    tell(f"\nfiles: {fractal.workspace.root / 'fractal.yaml'}, {user_file()}")


# ---- gc, bench, completion -------------------------------------------------------------------------------


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


class _Points(click.ParamType):
    """`all`, or a number."""

    name = "points"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | None:
        """None for all."""
        return None if value in (None, "all") else click.IntRange(min=0).convert(value, param, ctx)


POINTS = _Points()


@click.group()
def bench() -> None:
    """Measure what Fractal itself costs."""


@bench.command("overhead")
@json_option("Print the figures as an object.")
def overhead(as_json: bool) -> int:
    """Instruction tokens a call, seconds a loop, and bytes a step, without any model."""
    return int(_bench("overhead").main(as_json) or 0)


@bench.command("resume")
@json_option("Print the figures as an object.")
@click.option("--quick", is_flag=True, help="A few points of each kind, in about two minutes.")
@click.option("--kills", type=click.IntRange(min=0), metavar="N", help="SIGKILLs at random moments.")
@click.option("--points", type=POINTS, default=None, metavar="all|N", help="How many of the calls to die at.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Of what is chosen by chance."
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.md",
    help="Write a page about it.",
)
def resume(
    as_json: bool, quick: bool, kills: int | None, points: int | None, seed: int, report: Path | None
) -> int:
    """Crash a run at every call that changes a file, go on, and count what is lost or done twice."""
    module = _bench("resume")
    return int(module.main(as_json, quick=quick, kills=kills, points=points, seed=seed, report=report))


@bench.command("many")
@json_option("Print the figures as an object.")
@click.option("--runs", default="100,1000", show_default=True, metavar="N,…", help="How many runs at once.")
def many(as_json: bool, runs: str) -> int:
    """Play many runs at once in one process: runs a second, CPU, memory."""
    sizes = [int(each) for each in runs.split(",") if each.isdecimal() and int(each)]
    if len(sizes) != runs.count(",") + 1:
        raise click.UsageError(f"--runs {runs}: whole numbers from 1, with commas between them")
    return int(_bench("many").main(as_json, sizes))


@bench.command("store")
@json_option("Print the figures as an object.")
@click.option("--full", is_flag=True, help="With a million records as well; it takes long.")
@click.option("--records", default="1000,10000,100000", show_default=True, metavar="N,…", help="How many.")
def store(as_json: bool, full: bool, records: str) -> int:
    """Milliseconds to put, get, find the nearest and search, and memory, by the number of records."""
    sizes = [int(each) for each in records.split(",") if each.isdecimal() and int(each)]
    if len(sizes) != records.count(",") + 1:
        raise click.UsageError(f"--records {records}: whole numbers from 1, with commas between them")
    return int(_bench("store").main(as_json, [*sizes, *([1_000_000] if full else [])]))


@bench.command("variations")
@json_option("Print the figures as an object.")
@click.option(
    "--families", "part", type=click.Choice(["all", "even", "odd"]), default="all", show_default=True
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE.jsonl",
    help="Other families than the given ones.",
)
@click.option("--embedder", "embedders", multiple=True, type=click.Choice(["lexical", "minilm"]))
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(NAMES),
    metavar="PART",
    help=f"Switch a part of the memory off: {', '.join(NAMES)}.",
)
@click.option("--trees", default="", metavar="N,…", help="Measure the time of a recall among so many.")
def variations(
    as_json: bool,
    part: str,
    data: Path | None,
    embedders: tuple[str, ...],
    without: tuple[str, ...],
    trees: str,
) -> int:
    """Recall what was solved once with other numbers, names, nouns and words: answered, right, fooled."""
    sizes = [int(each) for each in trees.split(",") if each.isdecimal() and int(each)]
    if trees and len(sizes) != trees.count(",") + 1:
        raise click.UsageError(f"--trees {trees}: whole numbers from 1, with commas between them")
    module = _bench("variations")
    chosen = embedders or module.EMBEDDERS
    return int(module.main(as_json, path=data, part=part, embedders=chosen, without=without, trees=sizes))


@bench.command("tools")
@json_option("Print the figures as an object.")
@click.option("--tools", "counts", default="10,100,500", show_default=True, metavar="N,…", help="How many.")
def tools(as_json: bool, counts: str) -> int:
    """Choose among many tools: tokens and time of a plan's index, and how often it has the best one."""
    sizes = [int(each) for each in counts.split(",") if each.isdecimal() and 0 < int(each) <= 500]
    if len(sizes) != counts.count(",") + 1:
        raise click.UsageError(f"--tools {counts}: whole numbers from 1 to 500, with commas between them")
    return int(_bench("tools").main(as_json, sizes))


@bench.command("dangers")
@json_option("Print the figures as an object.")
def dangers(as_json: bool) -> int:
    """Hold the danger rules against a list of dangerous and harmless commands; nothing of it is run."""
    return int(_bench("dangers").main(as_json))


@bench.command("ablation")
@json_option("Print the figures as an object.")
@click.option("--families", default=60, show_default=True, type=click.IntRange(min=1), metavar="N")
@click.option("--embedder", default="auto", show_default=True, metavar="NAME", help="lexical, minilm, auto.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Of what is chosen by chance."
)
def ablation(as_json: bool, families: int, embedder: str, seed: int) -> int:
    """Play streams of tasks with all parts of procedural memory and without each: what a part brings."""
    return int(_bench("ablation").main(as_json, families, seed, embedder))


@bench.command("everyday")
@json_option("Print the figures as an object.")
@click.option(
    "--half", type=click.Choice(["build", "unseen", "all"]), default="all", show_default=True, help="Which."
)
def everyday(as_json: bool, half: str) -> int:
    """Do everyday tasks in anybody's words with the reflexes alone: done, passed on, wrong actions."""
    return int(_bench("everyday").main(as_json, half))


@bench.command("locomo")
@json_option("Print the figures as an object.")
@click.option(
    "--data",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="Conversations of LoCoMo; else those in the folder FRACTAL_DATA.",
)
@click.option("--embedder", default="auto", show_default=True, metavar="NAME", help="lexical, minilm, auto.")
@click.option("--leave-one-out", is_flag=True, help="Fit on all but one, measure that one, for each.")
@click.option("--fit", is_flag=True, help="Fit the weights of retrieval on these, and keep them.")
@click.option("--quick", is_flag=True, help="Without the figures of what each part brings.")
@click.option(
    "--stores",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the embedded conversations there.",
)
def locomo(
    as_json: bool,
    data: Path | None,
    embedder: str,
    leave_one_out: bool,
    fit: bool,
    quick: bool,
    stores: Path | None,
) -> int:
    """Find the turns of long conversations that answer a question (LoCoMo): recall and MRR, by part."""
    return int(
        _bench("locomo").main(
            as_json,
            data,
            embedder,
            leave_one_out=leave_one_out,
            fit=fit,
            quick=quick,
            stores=stores,
            say=tell,
        )
    )


@bench.command("gate")
@json_option("Print the figures as an object.")
@click.option("--quick", is_flag=True, help="Without the figures of what each piece brings.")
def gate(as_json: bool, quick: bool) -> int:
    """Tell questions of 150 known intents from questions of none (CLINC150, in the folder FRACTAL_DATA)."""
    return int(_bench("gate").main(as_json, pieces=not quick))


@bench.command("learning")
@json_option("Print the figures as an object.")
@click.option(
    "--seeds", type=click.IntRange(1, 50), default=5, show_default=True, metavar="N", help="Streams of tasks."
)
@click.option(
    "--rounds", type=click.IntRange(4, 100), default=10, show_default=True, metavar="N", help="Tasks a type."
)
@click.option("--parts", is_flag=True, help="Also with patterns alone and with solved tasks alone.")
def learning(as_json: bool, seeds: int, rounds: int, parts: bool) -> int:
    """Give streams of tasks to a worker with known mistakes: with memory, without, and misinformed."""
    return int(_bench("learning").main(as_json, seeds, rounds, parts))


def _bench(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"runtime.bench.{name}")
    except ModuleNotFoundError as error:
        from kernel.errors import ConfigurationError

        raise ConfigurationError(f"this installation has no benchmarks ({error.name} is missing)") from None


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
