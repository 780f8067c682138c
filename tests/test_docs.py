"""The documentation is correct: its blocks run, its settings load, its links resolve.

Every page has a folder of its own, in which its blocks run in order. It has a copy of `docs/NAME/` for a page
`docs/NAME.md`, and one of the repository for the README. `7f3kq2` stands for its newest run.
A comment directly above a block controls it:

    <!-- not run: why -->   the block needs a network, a key, or an installation
    <!-- exit 6 -->         the exit code of its last command (default 0)
    <!-- file: name -->     the block is written to that file

A `text` block directly below a `bash` or `python` block is its standard output; `…` stands for any text.
A `yaml` block that begins with `# fractal.yaml` has settings that must load.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from test_repository import ROOT, tracked
from warm import commands

from kernel.errors import Exit
from kernel.events import Event
from runtime.api.fractal import Fractal, RunResult
from runtime.models.ladder import build
from runtime.workspace.settings import Config

sys.path.insert(0, str(ROOT / "scripts"))
import make_docs

PAGES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "skills/fractal/SKILL.md",
]
RUN = make_docs.RUN
BY_DAY = ("README.md", "first-run.md", "commands.md", "configuration.md", "undo.md")
"""The blocks of these pages run on each change, those of all pages at night."""
NOT_RUN = 11  # the most blocks that may be shown without being run


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, with the comment above it."""

    page: Path
    line: int
    language: str
    text: str
    comment: str
    follows: str  # the language of the block directly above, or ""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def option(self, name: str) -> str:
        """The value of the option `name` in the comment, or ""."""
        found = re.search(rf"<!-- {name}:? (.+?) -->", self.comment)
        return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    comment = follows = ""
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        if token.level:
            continue
        if token.type == "fence":
            language = token.info.split(" ")[0]
            assert token.map
            found.append(Block(page, token.map[0] + 1, language, token.content, comment, follows))
            follows = language
        elif token.type != "html_block":
            follows = ""
        comment = token.content if token.type == "html_block" else ""
    return found


def runnable(page: Path) -> list[Block]:
    return [
        each
        for each in blocks(page)
        if each.language in ("bash", "python", "text") or each.option("file")
        if not each.option("not run")
    ]


def environment(home: Path) -> dict[str, str]:
    """The environment for commands, without keys or settings of the user."""
    kept = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "TMPDIR")
    values = {name: value for name, value in os.environ.items() if name in kept}
    path = f"{commands()}:{Path(sys.executable).parent}:{values.get('PATH', '')}"
    values["FRACTAL_TRUST"] = "all"  # at a terminal the user is asked
    return values | {"HOME": str(home), "PATH": path, "TZ": "UTC", "NO_COLOR": "1", "COLUMNS": "100"}


def newest_run(folder: Path) -> str:
    """The newest run, which replaces the example id; the id itself while there is none."""
    places = [*folder.glob(".fractal/state/runs/*"), *folder.glob("state/runs/*")]
    return max(places, key=lambda each: each.stat().st_mtime_ns).name if places else RUN


NEWEST = (
    "newest() { ls -td .fractal/state/runs/* state/runs/* 2>/dev/null | head -n 1 | xargs -r basename; }\n"
)
"""The same as a shell function: the first line of a block may start the run that its second names."""


def same(shown: str, printed: str) -> bool:
    pieces = [re.escape(piece) for piece in shown.rstrip().split("…")]
    return re.fullmatch(".*".join(pieces), printed.rstrip(), re.S) is not None


def play(block: Block, folder: Path, home: Path) -> str:
    """Run a block in the page's folder; returns its standard output."""
    if block.language == "bash":
        code = re.sub(r"^pip install .*?&& ", "", block.text, flags=re.M)  # already installed where tests run
        command = ["bash", "-euo", "pipefail", "-c", NEWEST + code.replace(RUN, "$(newest)")]
    else:
        command = [sys.executable, "-c", block.text.replace(RUN, newest_run(folder))]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment(home),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    wanted = int(block.option("exit") or 0)
    assert ran.returncode == wanted, f"{block.where}: exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def copy_of_the_repository(folder: Path) -> None:
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=[] if page.name in BY_DAY else pytest.mark.night,
        )
        for page in PAGES
        if runnable(page)
    ],
)
def test_blocks_of_a_page_run_and_print_what_it_shows(page, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    if page.name == "README.md":
        copy_of_the_repository(folder)
    elif page.with_suffix("").is_dir():
        shutil.copytree(page.with_suffix(""), folder / "docs" / page.stem)
    printed = ""
    for block in runnable(page):
        if name := block.option("file"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(block.text.replace(RUN, newest_run(folder)), "utf-8")
        elif block.language != "text":
            printed = play(block, folder, tmp_path)
        elif block.follows in ("bash", "python"):
            shown = block.text.replace(RUN, newest_run(folder))
            assert same(shown, printed), f"{block.where} shows\n{shown}\nand what is printed is\n{printed}"


@pytest.mark.parametrize(
    "block",
    [each for page in PAGES for each in blocks(page) if each.text.startswith("# fractal.yaml")],
    ids=lambda block: block.where,
)
def test_shown_settings_load_and_make_a_ladder(block, tmp_path):
    config = Config.model_validate(yaml.safe_load(block.text))
    rungs = [each for each in config.ladder if not each.model.startswith("llama:")]  # no model file is here
    ladder = build(config.model_copy(update={"ladder": tuple(rungs)}), [ROOT / "system"], tmp_path)
    assert len(ladder) == len(rungs) or len(ladder) == 2 + bool(config.model)
    assert all(getattr(rung, "price", 0) is not None for rung in ladder)


def test_blocks_that_are_not_run_are_few_and_say_why():
    skipped = [
        (each.where, each.option("not run"))
        for page in PAGES
        for each in blocks(page)
        if each.option("not run")
    ]
    assert len(skipped) <= NOT_RUN, skipped
    assert [where for where, why in skipped if len(why.split()) < 3] == []


def test_first_command_leaves_the_clone_clean(tmp_path):
    folder = tmp_path / "work"
    copy_of_the_repository(folder)
    for command in (["git", "init", "-q"], ["git", "add", "-A"]):
        subprocess.run(command, cwd=folder, check=True, env=environment(tmp_path))
    command = ["bash", "-c", make_docs.first_command()]
    ran = subprocess.run(command, cwd=folder, env=environment(tmp_path), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=folder,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    left = [line for line in changed.stdout.splitlines() if not line.startswith("A ")]
    assert left == []


def test_generated_parts_and_the_example_run_are_current():
    assert make_docs.stale(write=False) == [], "`make docs` writes them"


def rows(page: str, head: str) -> list[str]:
    """The first column of the table with this header, split at commas."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    found = re.search(rf"^\| {head} \|.*\n\| ---.*\n((?:\|.*\n)+)", text, re.M)
    assert found, f"{page}: no table begins with {head}"
    cells = [line.split(" | ")[0].strip("| ") for line in found[1].splitlines()]
    return [name.strip("` ") for cell in cells for name in cell.split(",")]


def test_handwritten_tables_match_the_code():
    assert rows("commands.md", "exit code") == [str(int(code)) for code in Exit]
    assert sorted(rows("events.md", "field")) == sorted(each.name for each in fields(Event))
    assert sorted(rows("python-api.md", "field")) == sorted(each.name for each in fields(RunResult))
    methods = re.findall(r"^\| `(\w+)\(", (ROOT / "docs/python-api.md").read_text("utf-8"), re.M)
    assert [name for name in methods if not callable(getattr(Fractal, name, None))] == []
    arguments = list(inspect.signature(Fractal).parameters)
    assert rows("python-api.md", "argument") == arguments


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "state/README.md"], ids=lambda page: page.name
)
def test_links_resolve(page):
    tokens = MarkdownIt().enable("table").parse(page.read_text("utf-8"))
    inline = [child for token in tokens for child in token.children or ()]
    targets = [str(each.attrs["href"]) for each in inline if each.type == "link_open"]
    # Markdown reads a link as plain text when its target has a line break.
    broken = [each.content for each in inline if each.type == "text" and "](" in each.content]
    for target in targets:
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path) if path else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(target)
    assert broken == []


def test_index_lists_every_page():
    text = (ROOT / "docs/README.md").read_text("utf-8")
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in text]
    assert [name for name in missing if name != "README.md"] == []


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8")) <= 9_000
