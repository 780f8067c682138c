"""The catalogue: what is found, what is refused, what a person's mistake says."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from kernel.errors import ConfigurationError, OperationFailed
from kernel.tools.tool import BUILTINS, Tool
from runtime.api.fractal import shipped_system
from runtime.api.memory_tools import ACTS
from runtime.catalogue.catalogue import Catalogue


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


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
    path = write(tmp_path, "operations/sum.md", SUM)
    assert catalogue.refresh()
    assert catalogue.get("sum").signature == "sum(numbers, round?)"
    path.unlink()
    assert catalogue.refresh()
    assert "sum" not in catalogue.tools


def test_nearest_system_folder_wins_by_path(tmp_path: Path) -> None:
    write(
        tmp_path, "kernel/read.md", "---\nname: read\ndescription: mine\nargs: {path: {type: string}}\n---\n"
    )
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
    path = write(tmp_path, "operations/a.md", text)
    catalogue = Catalogue([tmp_path])
    assert not catalogue.tools
    fault = catalogue.faults[0]
    assert (fault.path, fault.line) == (path, line)
    assert says in str(fault)


def test_tool_with_a_wrong_encoding_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "operations" / "a.md"
    path.parent.mkdir()
    path.write_bytes(b"---\nname: \xff\n---\n")
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
    write(tmp_path, "operations/sum.md", SUM)
    problem = Catalogue([tmp_path]).problem("sum", args)  # type: ignore[arg-type]
    assert says in problem if says else problem == ""


def test_unknown_tool_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="no tool 'raed'; there are read"):
        Catalogue([shipped_system()]).get("raed")


def test_foreign_python_code_is_refused(tmp_path: Path) -> None:
    text = SUM.replace("command: sum.py", "python: os:system")
    write(tmp_path, "operations/sum.md", text)
    with pytest.raises(ConfigurationError, match="not a function that ships"):
        _ = Catalogue([tmp_path]).get("sum").function


def test_skill_is_a_guided_tool(tmp_path: Path) -> None:
    write(
        tmp_path,
        "tools/pdf/SKILL.md",
        "---\nname: pdf\ndescription: fill in forms\nlicense: MIT\n---\nUse it so.\n",
    )
    tool = Catalogue([tmp_path]).get("pdf")
    assert tool.guided
    assert tool.preface == "Use it so."


def test_sections_of_a_pattern_are_read_by_phase(tmp_path: Path) -> None:
    tool = Catalogue([shipped_system()]).get("research")
    assert tool.section("plan").startswith("- Files: `search`")
    assert tool.preface.startswith("# Research")
    assert "`search`" not in tool.preface


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
    old = replace(present, run=f"python: kernel.operations.{name}:{name}")
    assert old.function is present.function


def test_operations_of_the_golden_workspace_resolve() -> None:
    tools = Catalogue([Path(__file__).parents[2] / "golden" / "built-workspace"]).tools
    assert set(BUILTINS) <= set(tools)
    assert all(callable(tool.function) for tool in tools.values() if tool.scheme == "python")
