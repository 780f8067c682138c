"""The catalogue: which files are tools, which one has precedence, and error messages for invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.tools.tool import Tool
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue

GUIDED = "---\nname: %s\ndescription: %s\n%s---\n## PLAN\n\nSo.\n"


def tool(folder: Path, name: str, description: str = "x", more: str = "", place: str = "") -> Path:
    path = folder / "tools" / (place or name) / "pattern.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(GUIDED % (name, description, more), "utf-8")
    return path


def test_first_folder_wins_and_drafts_precede_all(tmp_path: Path) -> None:
    tool(tmp_path / "own", "web", "own")
    tool(tmp_path / "shipped", "web", "shipped")
    tool(tmp_path / "shipped", "code", "shipped")
    tool(tmp_path / "drafts", "code", "drafted")
    found = Catalogue([tmp_path / "own", tmp_path / "shipped"], drafts=tmp_path / "drafts")
    assert {name: each.description for name, each in found.tools.items()} == {"web": "own", "code": "drafted"}
    assert found.tools["code"].draft and found.tools["code"].origin == "designed"
    assert not found.tools["web"].draft
    assert not found.faults


@pytest.mark.parametrize("status", ["draft", "quarantined", "retired"])
def test_inactive_tool_is_idle(tmp_path: Path, status: str) -> None:
    tool(tmp_path, "one", more=f"status: {status}\n")
    found = Catalogue([tmp_path])
    assert not found.tools and found.idle["one"].status == status
    assert "there is no tool 'one'" in found.problem("one", {})


def test_draft_of_the_run_is_active(tmp_path: Path) -> None:
    tool(tmp_path / "drafts", "one", more="status: draft\n")
    assert "one" in Catalogue([], drafts=tmp_path / "drafts").tools
    assert "one" in Catalogue([tmp_path / "drafts"]).idle


@pytest.mark.parametrize("run", ["python: runtime.operations.files:copy", "mcp: a/b", "ftp: x"])
def test_draft_must_be_guidance_or_a_program(tmp_path: Path, run: str) -> None:
    path = tool(tmp_path / "drafts", "one", more=f"run: '{run}'\n")
    found = Catalogue([shipped_system()], drafts=tmp_path / "drafts")
    assert "one" not in found.tools
    assert str(found.faults[0]).startswith(f"{path}:1: run: a draft is guidance or command:, never")


def test_duplicate_name_is_reported_and_the_first_kept(tmp_path: Path) -> None:
    first = tool(tmp_path, "same", place="a")
    second = tool(tmp_path, "same", place="b")
    found = Catalogue([tmp_path])
    assert found.tools["same"].path == first
    assert [str(fault) for fault in found.faults] == [
        f"{second}:1: name: 'same' is taken by {first}; give it another name"
    ]


def test_link_to_a_known_tool_is_ignored(tmp_path: Path) -> None:
    tool(tmp_path, "same", place="a")
    (tmp_path / "tools" / "b").symlink_to(tmp_path / "tools" / "a")
    found = Catalogue([tmp_path])
    assert list(found.tools) == ["same"] and not found.faults


def test_tool_cannot_replace_a_builtin(tmp_path: Path) -> None:
    tool(tmp_path, "bash")
    found = Catalogue([tmp_path, shipped_system()])
    assert found.tools["bash"].path == shipped_system() / "kernel" / "bash.md"
    assert "is one of the kernel's own" in str(found.faults[0])


def test_tools_of_sources_have_lowest_precedence_and_are_refreshed(tmp_path: Path) -> None:
    tool(tmp_path, "web", "own")
    given = [Tool("web", tmp_path, "server's"), Tool("more", tmp_path, "server's")]
    found = Catalogue([tmp_path], sources=[lambda: list(given)])
    assert (found.tools["web"].description, found.tools["more"].description) == ("own", "server's")
    assert not found.faults and not found.refresh()
    given.pop()
    assert found.refresh() and "more" not in found.tools


def test_hidden_folders_and_other_files_are_not_tools(tmp_path: Path) -> None:
    tool(tmp_path, "one", place=".one.part")
    (tmp_path / "tools" / "README.md").write_text("x", "utf-8")
    (tmp_path / "tools" / "empty").mkdir()
    found = Catalogue([tmp_path])
    assert not found.tools and not found.faults


def test_instructions_come_from_the_nearest_folder_and_drafts_only_on_request(
    tmp_path: Path,
) -> None:
    for place, text in (("drafts", "drafted"), ("own", "own"), ("shipped", "shipped")):
        path = tmp_path / place / "phases" / "do.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"{text}\n", "utf-8")
    found = Catalogue([tmp_path / "own", tmp_path / "shipped"], drafts=tmp_path / "drafts")
    assert found.text("phases/do.md") == "own"
    assert found.text("phases/do.md", drafted=True) == "drafted"
    assert found.text("phases/none.md") == ""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("rank: many\n", "invalid literal"),
        ("args: [a]\n", "kind"),
        ("sample: [a]\n", "sample: a mapping"),
        ("states: {by: x, start: a, moves: {a: {}}}\n", "states: by: 'x' is not among args"),
        (
            "args: {x: {type: string}}\nstates: {by: x, start: off, moves: {off: {go: off}}}\n",
            "put it in quotes",
        ),
    ],
)
def test_invalid_value_is_reported_and_the_tool_skipped(tmp_path: Path, more: str, says: str) -> None:
    path = tool(tmp_path, "one", more=more)
    found = Catalogue([tmp_path])
    assert not found.tools
    assert str(found.faults[0]).startswith(f"{path}:1: ") and says in str(found.faults[0])
