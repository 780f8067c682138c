"""The catalogue: which files are tools, which one has precedence, and error messages for invalid files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from playing import put

from kernel.errors import ConfigurationError, OperationFailed
from kernel.tools.tool import BUILTINS, Tool
from runtime.api.fractal import shipped_system
from runtime.api.memory_tools import ACTS
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.pattern import shipped_function

GUIDED = "---\nname: %s\ndescription: %s\n%s---\n## PLAN\n\nSo.\n"


def tool(folder: Path, name: str, description: str = "x", more: str = "", place: str = "") -> Path:
    return put(folder, f"tools/{place or name}/pattern.md", GUIDED % (name, description, more))


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
        put(tmp_path, f"{place}/phases/do.md", f"{text}\n")
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


# ---- contents of a tool file ------------------------------------------------------------------------------

SUM = """---
name: sum
description: adds numbers
args: {numbers: {type: array, items: {type: number}}, round: {type: integer}}
required: [numbers]
run: "command: sum.py"
effects: []
---
## PLAN

Give the numbers.
"""


def test_refresh_finds_added_and_removed_tools(tmp_path: Path) -> None:
    catalogue = Catalogue([tmp_path])
    assert not catalogue.refresh()
    path = put(tmp_path, "operations/sum.md", SUM)
    assert catalogue.refresh()
    assert catalogue.get("sum").signature == "sum(numbers, round?)"
    path.unlink()
    assert catalogue.refresh()
    assert "sum" not in catalogue.tools


def test_nearest_system_folder_wins_by_path(tmp_path: Path) -> None:
    put(tmp_path, "kernel/read.md", "---\nname: read\ndescription: mine\nargs: {path: {type: string}}\n---\n")
    catalogue = Catalogue([tmp_path, shipped_system()])
    assert catalogue.get("read").description == "mine"
    assert catalogue.get("write").origin == "shipped"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("---\nname: [\n---\n", 3, "not YAML"),
        (
            "---\nname: a\ndescription: such as: this\n---\n",
            3,
            "a colon, comma, bracket or brace stands in quotes",
        ),
        (
            "---\nname: a\ndescription: x\nargs: {b: {description: as: c}}\n---\n",
            4,
            "a colon, comma, bracket or brace stands in quotes",
        ),
        ("---\nname: Bad Name\ndescription: x\n---\n", 1, "is not a name"),
        ("---\nname: a\n---\n", 1, "description is missing"),
        ("---\nname: a\ndescription: x\nargs: {b: c}\n---\n", 1, "JSON Schemas"),
        ("---\nname: a\ndescription: x\nrequired: [b]\n---\n", 1, "not among args"),
        ("---\nname: a\ndescription: x\neffects: [explode]\n---\n", 1, "effects"),
        ("", 1, "description is missing"),
    ],
)
def test_malformed_tool_is_reported_with_file_and_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    path = put(tmp_path, "operations/a.md", text)
    catalogue = Catalogue([tmp_path])
    assert not catalogue.tools
    fault = catalogue.faults[0]
    assert (fault.path, fault.line) == (path, line)
    assert says in str(fault)


def test_tool_with_a_wrong_encoding_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "operations/a.md", b"---\nname: \xff\n---\n")
    assert "not UTF-8" in str(Catalogue([tmp_path]).faults[0])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"numbers": [1, 2]}, ""),
        ({"numbers": [1], "round": 2}, ""),
        ({}, "needs numbers"),
        ({"numbers": [1], "other": 1}, "has no argument other"),
        ({"numbers": ["x"]}, "numbers"),
        ({"numbers": [1], "round": True}, "round must be integer"),
        ({"numbers": "{{ steps[1].result }}"}, ""),  # type-checked after substitution
        (None, ""),
    ],
)
def test_arguments_are_validated(tmp_path: Path, args: object, says: str) -> None:
    put(tmp_path, "operations/sum.md", SUM)
    problem = Catalogue([tmp_path]).problem("sum", args)  # type: ignore[arg-type]
    assert says in problem if says else problem == ""


def test_unknown_tool_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="no tool 'raed'; there are read"):
        Catalogue([shipped_system()]).get("raed")


def test_foreign_python_code_is_refused(tmp_path: Path) -> None:
    text = SUM.replace("command: sum.py", "python: os:system")
    put(tmp_path, "operations/sum.md", text)
    with pytest.raises(ConfigurationError, match="not a function that ships"):
        _ = Catalogue([tmp_path]).get("sum").function


def test_skill_is_a_guided_tool(tmp_path: Path) -> None:
    put(
        tmp_path,
        "tools/pdf/SKILL.md",
        "---\nname: pdf\ndescription: fill in forms\nlicense: MIT\n---\nUse it so.\n",
    )
    tool = Catalogue([tmp_path]).get("pdf")
    assert tool.guided


def test_sections_of_a_pattern_are_read_by_phase(tmp_path: Path) -> None:
    tool = Catalogue([shipped_system()]).get("research")
    assert tool.section("plan").startswith("- Files: `search`")


def _there(tool: Tool) -> bool:
    if tool.run.startswith("memory:"):
        module, _, name = ACTS[tool.run.partition(":")[2].strip()].partition(":")
        return callable(getattr(import_module(f"runtime.api.{module}"), name))
    return callable(tool.function)


def test_shipped_tools_are_valid() -> None:
    catalogue = Catalogue([shipped_system()])
    assert not catalogue.faults
    for tool in catalogue.tools.values():
        assert tool.guided or _there(tool), tool.name
        assert len(tool.description.split()) <= 16, tool.name


@pytest.mark.parametrize("name", BUILTINS)
def test_old_names_of_builtins_still_resolve(name: str) -> None:
    present = Catalogue([shipped_system()]).tools[name]
    assert shipped_function(present.path, f"python: kernel.operations.{name}:{name}") is present.function


def test_operations_of_the_golden_workspace_resolve() -> None:
    tools = Catalogue([Path(__file__).parents[2] / "golden" / "built-workspace"]).tools
    assert set(BUILTINS) <= set(tools)
    assert all(callable(tool.function) for tool in tools.values() if tool.scheme == "python")
