"""Writes what the docs take from the code: settings, events, operations, commands, the API, the example run.

A page marks such a place with `<!-- generated: name -->` and `<!-- end: name -->`; the rest of it is prose
that nobody generates. `--check` writes nothing and fails when a place is stale.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "docs" / "example-run"
RUN = "7f3kq2"  # the run id that examples show
TIME = "2025-03-01T09:30:00.000Z"
MOMENT = "1740821400000000000"  # the same, in nanoseconds, as a file's time of change
_PLACE = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end: (?P=name) -->)", re.S)


# ---- tables ----


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A markdown table; bars inside cells are escaped."""
    lines = [list(heads), [], *(list(row) for row in rows)]
    lines[1] = ["---"] * len(lines[0])
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def settings() -> str:
    """Every setting: name, default, what it means, its environment variable."""
    from runtime.workspace.settings import Config

    return table(
        ("setting", "default", "values", "what", "environment"),
        (
            (f"`{name}`", *_field(field), f"`FRACTAL_{name.upper()}`")
            for name, field in Config.model_fields.items()
        ),
    )


def trust() -> str:
    """The settings that need trust where a folder's own file makes them, and when."""
    from runtime.workspace.trust import NEEDS_TRUST

    return table(
        ("setting", "needs trust when the folder's file gives"),
        ((f"`{name}`", lowers.words) for name, lowers in NEEDS_TRUST.items()),
    )


def rung() -> str:
    """The keys of a rung of `ladder:`."""
    from runtime.workspace.settings import Rung

    return table(
        ("key", "default", "values", "what"),
        ((f"`{name}`", *_field(field)) for name, field in Rung.model_fields.items()),
    )


def _field(field: Any) -> tuple[str, str, str]:
    import yaml

    if field.is_required():
        default = "needed"
    else:
        value = field.get_default(call_default_factory=True)
        value = list(value) if isinstance(value, tuple) else value
        default = f"`{yaml.safe_dump(value, default_flow_style=True).removesuffix('...' + chr(10)).strip()}`"
    return default, _type(field.annotation), field.description or ""


def _type(annotation: Any) -> str:
    """A type in the words of a settings file."""
    from typing import Literal, get_origin

    plain = {str: "text", int: "whole number", float: "number", bool: "true, false", type(None): "null"}
    if annotation in plain:
        return plain[annotation]
    origin, args = get_origin(annotation), [arg for arg in get_args(annotation) if arg is not Ellipsis]
    if origin is Literal:
        return ", ".join(f"`{arg}`" for arg in args)
    if hasattr(annotation, "__metadata__"):  # Annotated
        return _type(args[0])
    if origin is tuple:
        return f"a list of: {_type(args[0])}"
    if origin is dict:
        return "a mapping"
    if args:
        return ", ".join(_type(arg) for arg in args)
    return annotation.__name__.lower()


def events() -> str:
    """The kinds of event with their data, read off the comments of kernel/events.py."""
    from kernel.events import Kind

    source = (ROOT / "kernel" / "events.py").read_text("utf-8")
    said = dict(re.findall(r'^    "(\w+)",  # data: (.+)$', source, re.M))
    return table(("kind", "data"), ((f"`{kind}`", said[kind]) for kind in get_args(Kind)))


def operations() -> str:
    """The shipped operations: signature, what each does, its effects."""
    from runtime.catalogue.catalogue import Catalogue

    tools = [each for each in Catalogue([ROOT / "system"]).tools.values() if each.operation]
    return table(
        ("operation", "does", "effects"),
        (
            (f"`{each.signature}`", each.description, ", ".join(each.effects) or "none")
            for each in sorted(tools, key=lambda each: each.name)
        ),
    )


def tools() -> str:
    """The folders of `system/tools/`: what each does, its effects."""
    from runtime.catalogue.catalogue import Catalogue

    shipped = [each for each in Catalogue([ROOT / "system"]).tools.values() if not each.operation]
    return table(
        ("tool", "does", "effects"),
        (
            (f"`{each.name}`", each.description, ", ".join(each.effects) or "none")
            for each in sorted(shipped, key=lambda each: each.name)
        ),
    )


# ---- the command line ----


def commands() -> str:
    """The help of every command, as `fractal COMMAND --help` prints it."""
    import click

    from runtime.cli import main

    def pages(command: click.Command, name: str, parent: click.Context | None) -> Iterable[str]:
        settings: dict[str, Any] = {
            **command.context_settings,
            "terminal_width": 100,
            "max_content_width": 100,
        }
        context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent, **settings)
        yield f"## {name}\n\n```text\n{command.get_help(context).rstrip()}\n```"
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                found = command.get_command(context, each)
                if found is not None and not found.hidden:
                    yield from pages(found, f"{name} {each}", context)

    return "\n\n".join(pages(_group(main), "fractal", None))


def _group(main: Any) -> Any:
    """The click group behind the entry point."""
    import click

    if isinstance(main, click.Command):
        return main
    from runtime import cli

    return next(value for value in vars(cli).values() if isinstance(value, click.Group))


# ---- the example run ----

NOTES: Mapping[str, int] = {"docs/garden.md": 3, "docs/kitchen/bread.md": 7, "docs/log.md": 12}
"""The folder that the example run works on: markdown files by their numbers of lines."""


def first_command() -> str:
    """The README's first command, without the installation."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(r"^pip install \. && (fractal .+)$", text, re.M)
    if not found:
        raise SystemExit('README.md: its first command is to begin with "pip install . && fractal "')
    return found[1]


def example() -> Mapping[str, bytes]:
    """The files of a real run of the README's first command, its ids and times made constant."""
    with tempfile.TemporaryDirectory(prefix="fractal-example-") as name:
        folder = Path(name).resolve() / "work"
        for path, lines in NOTES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("".join(f"line {n}\n" for n in range(1, lines + 1)), "utf-8")
        ran = subprocess.run(
            ["bash", "-c", first_command()],
            cwd=folder,
            env=_environment(name),
            capture_output=True,
            text=True,
        )
        if ran.returncode:
            raise SystemExit(f"{first_command()}\nended with {ran.returncode}:\n{ran.stderr}")
        runs = list((folder / ".fractal" / "state" / "runs").iterdir())
        left_out = ("", ".gz")  # the lock, and copies for `fractal diff`
        files = sorted(path for path in runs[0].rglob("*") if path.is_file() and path.suffix not in left_out)
        constant = _constant(runs[0].name, folder)
        return {
            constant(str(path.relative_to(runs[0]))): constant(path.read_text("utf-8")).encode()
            for path in files
        }


def _environment(home: str) -> dict[str, str]:
    """This one without settings or keys, so that the example is the one of a machine that has neither."""
    kept = {
        name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV")
    }
    here = str(Path(sys.executable).parent)
    return kept | {"HOME": home, "PATH": f"{here}:{kept.get('PATH', '')}", "TZ": "UTC", "NO_COLOR": "1"}


def _constant(run: str, folder: Path) -> Callable[[str], str]:
    def make(text: str) -> str:
        text = re.sub(rf"(?<![0-9a-z]){run}(?![0-9a-z])", RUN, text).replace(str(folder), "/home/me/notes")
        text = re.sub(r"\b1\d{18}\b", MOMENT, text)
        text = re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", TIME, text)
        return re.sub(r'("(?:\w+_)?seconds": )(?!900\b)\d+(\.\d+)?', r"\g<1>0.1", text)

    return make


def document() -> str:
    """The root document of the example run."""
    return _fenced((EXAMPLE / f"system-{RUN}.md").read_text("utf-8").rstrip("\n"))


def excerpt() -> str:
    """The first step of the example's subtask, its evidence and result; `…` marks what is left out."""
    text = (EXAMPLE / f"tool-task-{RUN}-1.md").read_text("utf-8")
    step = re.search(r"## §3 DO\n\n(?:.+\n)+", text)
    evidence = re.search(r"## §4 CHECK\n\n### evidence(?:.*\n)*?(?=###)", text)
    assert step and evidence, "the example has no §3 or no §4"
    ending = text[text.index("### decision") :].rstrip("\n")
    return _fenced(f"{step[0]}\n…\n\n{evidence[0]}…\n\n{ending}")


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=2)
    fence = "`" * max(longest + 1, 4)
    return f"{fence}markdown\n{text}\n{fence}"


DIARY, ASKED = "diary-4.json", "How long did the sourdough rest in July?"
"""A diary of `bench`, and the question after it whose prompt is shown."""


def diary_prompt() -> str:
    """What a run of a question tells a model after a diary, by the embedder that is always there.

    It is the first message from the task on, without the text of the phase and the index of tools.
    """
    from bench.diary import DIARIES, read_diary
    from bench.diary_ladder import play
    from runtime.models.scripted import Scripted

    diary = read_diary(DIARIES / DIARY)
    question = next(each for each in diary.asked if each.ask == ASKED)
    model = Scripted(lambda ask: {"cannot": "only the prompt is wanted"})
    play(replace(diary, asked=(question,)), model, "lexical")
    first = model.asks[0].messages[1]["content"]
    return f"````text\n{first[first.index('## Task') :].strip()}\n````"


# ---- putting it in place ----

PLACES: Mapping[str, Callable[[], str]] = {
    "settings": settings,
    "rung": rung,
    "trust": trust,
    "events": events,
    "operations": operations,
    "tools": tools,
    "commands": commands,
    "document": document,
    "excerpt": excerpt,
    "diary-prompt": diary_prompt,
}


OPENAPI = ROOT / "docs" / "openapi.json"


def openapi() -> str:
    """The description of the service's endpoints."""
    import json

    from runtime.server.app import create_app

    return json.dumps(create_app(ROOT).app.openapi(), indent=1, ensure_ascii=False) + "\n"


def fill(text: str) -> str:
    """A page with its generated places filled anew."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{PLACES[place['name']]()}\n\n{place[3]}", text)


def pages() -> list[Path]:
    """The pages that may have generated places."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def stale(*, write: bool) -> list[str]:
    """What differs from what the code says now; with `write` it is mended."""
    found: list[str] = []
    fresh = example()
    old = {str(path.relative_to(EXAMPLE)): path for path in EXAMPLE.rglob("*") if path.is_file()}
    for name in sorted(old.keys() | fresh.keys()):
        path = EXAMPLE / name
        if name in fresh and name in old and path.read_bytes() == fresh[name]:
            continue
        found.append(f"docs/example-run/{name}")
        if write and name in fresh:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(fresh[name])
        elif write:
            path.unlink()
    described = openapi()
    if not OPENAPI.is_file() or OPENAPI.read_text("utf-8") != described:
        found.append(str(OPENAPI.relative_to(ROOT)))
        if write:
            OPENAPI.write_text(described, "utf-8")
    for page in pages():
        text = page.read_text("utf-8")
        filled = fill(text)
        if filled != text:
            found.append(str(page.relative_to(ROOT)))
            if write:
                page.write_text(filled, "utf-8")
    return found


def main() -> int:
    """Write the generated places, or with `--check` say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is stale")
    check = parser.parse_args().check
    found = stale(write=not check)
    for name in found:
        print(f"{name}: {'stale; `make docs` writes it' if check else 'written'}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main())
