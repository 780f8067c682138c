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


def test_a_tool_is_found_when_it_is_added_and_gone_when_it_is_removed(tmp_path: Path) -> None:
    catalogue = Catalogue([tmp_path])
    assert not catalogue.refresh()
    path = write(tmp_path, "operations/sum.md", SUM)
    assert catalogue.refresh()
    assert catalogue.get("sum").signature == "sum(numbers, round?)"
    path.unlink()
    assert catalogue.refresh()
    assert "sum" not in catalogue.tools


def test_the_nearest_system_folder_wins_path_by_path(tmp_path: Path) -> None:
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
def test_a_malformed_entry_is_left_out_with_its_place(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    path = write(tmp_path, "operations/a.md", text)
    catalogue = Catalogue([tmp_path])
    assert not catalogue.tools
    fault = catalogue.faults[0]
    assert (fault.path, fault.line) == (path, line)
    assert says in str(fault)


def test_an_entry_of_the_wrong_encoding_is_left_out(tmp_path: Path) -> None:
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
        ({"numbers": "{{ steps[1].result }}"}, ""),  # typed once it is filled in
        (None, ""),
    ],
)
def test_arguments_are_validated_before_anything_runs(tmp_path: Path, args: object, says: str) -> None:
    write(tmp_path, "operations/sum.md", SUM)
    problem = Catalogue([tmp_path]).problem("sum", args)  # type: ignore[arg-type]
    assert says in problem if says else problem == ""


def test_an_unknown_tool_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="no tool 'raed'; there are read"):
        Catalogue([shipped_system()]).get("raed")


def test_code_from_outside_the_package_does_not_run_in_the_kernels_process(tmp_path: Path) -> None:
    text = SUM.replace("command: sum.py", "python: os:system")
    write(tmp_path, "operations/sum.md", text)
    with pytest.raises(ConfigurationError, match="not a function that ships"):
        _ = Catalogue([tmp_path]).get("sum").function


def test_a_skill_folder_is_a_guided_tool(tmp_path: Path) -> None:
    write(
        tmp_path,
        "tools/pdf/SKILL.md",
        "---\nname: pdf\ndescription: fill in forms\nlicense: MIT\n---\nUse it so.\n",
    )
    tool = Catalogue([tmp_path]).get("pdf")
    assert tool.guided
    assert tool.preface == "Use it so."


def test_sections_of_a_pattern_are_read_by_phase_and_the_rest_is_work(tmp_path: Path) -> None:
    tool = Catalogue([shipped_system()]).get("research")
    assert tool.section("plan").startswith("- Files: `search`")
    assert tool.preface.startswith("# Research")
    assert "`search`" not in tool.preface


def _there(tool: Tool) -> bool:
    if tool.run.startswith("memory:"):
        module, _, name = ACTS[tool.run.partition(":")[2].strip()].partition(":")
        return callable(getattr(import_module(f"runtime.api.{module}"), name))
    return callable(tool.function)


def test_everything_that_ships_is_well_formed() -> None:
    catalogue = Catalogue([shipped_system()])
    assert not catalogue.faults
    for tool in catalogue.tools.values():
        assert tool.guided or _there(tool), tool.name
        assert len(tool.description.split()) <= 16, tool.name


@pytest.mark.parametrize("name", BUILTINS)
def test_the_names_that_older_workspaces_have_for_builtins_are_still_found(name: str) -> None:
    present = Catalogue([shipped_system()]).tools[name]
    old = replace(present, run=f"python: kernel.operations.{name}:{name}")
    assert old.function is present.function


def test_every_operation_of_the_golden_workspace_is_found() -> None:
    tools = Catalogue([Path(__file__).parents[2] / "golden" / "built-workspace"]).tools
    assert set(BUILTINS) <= set(tools)
    assert all(callable(tool.function) for tool in tools.values() if tool.scheme == "python")
