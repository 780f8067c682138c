"""Every operation's markdown is whole, and its sample runs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import Catalogue
from runtime.evolution.workshop import Workshop
from runtime.operations.running import caller
from runtime.workspace.settings import Config
from runtime.workspace.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
SYSTEM = ROOT / "system"
CATALOGUE = Catalogue([SYSTEM])
OPERATIONS = sorted(
    (tool for tool in CATALOGUE.tools.values() if tool.path.parent.name == "operations"),
    key=lambda tool: tool.name,
)
EXPECTED = (
    "archive calc checksum compare copy count csv database date edit fetch find git grep json lines list "
    "mkdir move patch remove replace search sort sqlite stat web-search"
)


def test_the_catalogue_reads_every_operation_without_a_fault():
    assert [fault for fault in CATALOGUE.faults if "operations" in str(fault.path)] == []
    assert " ".join(tool.name for tool in OPERATIONS) == EXPECTED


# the sample of web-search needs a service: test_web_search.py runs it against one on loopback
@pytest.mark.parametrize(
    "tool", [tool for tool in OPERATIONS if tool.name != "web-search"], ids=lambda tool: tool.name
)
async def test_the_sample_passes_as_tools_test_runs_it(tool: Tool, bench):
    workspace = Workspace.find(bench.folder, SYSTEM)
    records = Workshop(workspace, Config()).records
    tested = await records.test(tool, workspace, bench.context, None, caller())
    assert tested.passed, tested.note


@pytest.mark.parametrize("tool", OPERATIONS, ids=lambda tool: tool.name)
def test_the_arguments_are_those_of_the_function(tool: Tool):
    parameters = inspect.signature(tool.function).parameters
    if "args" in parameters:  # `from` is a word of Python's own
        assert set(tool.args) == {"from", "to"}
    else:
        assert list(tool.args) and set(tool.args) == set(parameters) - {"ctx"}
        needed = [name for name, each in parameters.items() if each.default is each.empty]
        assert sorted(["ctx", *tool.required]) == sorted(needed)


@pytest.mark.parametrize(
    ("name", "args", "why"),
    [
        ("archive", {"action": "explode", "path": "x.zip"}, "action must be one of"),
        ("checksum", {"path": "a", "algorithm": "rot13"}, "algorithm must be one of"),
        ("count", {"what": "sheep"}, "what must be one of"),
        ("count", {"what": "lines", "order": "random"}, "order must be one of"),
        ("database", {"action": "query", "sql": "SELECT 1", "limit": 0}, "limit must be bigger than"),
        ("fetch", {"url": "https://example.org", "method": "BREW"}, "method must be one of"),
        ("find", {"pattern": "*", "type": "door"}, "type must be one of"),
        ("git", {"action": "push"}, "action must be one of"),
        ("git", {"action": "log", "limit": 1_001}, "limit must be smaller than"),
        ("search", {"query": "x", "limit": 51}, "limit must be smaller than"),
        ("sort", {"text": "a", "order": "up"}, "order must be one of"),
        ("sqlite", {"path": "a.db", "limit": 10_001}, "limit must be smaller than"),
        ("web-search", {"query": "x", "limit": 21}, "limit must be smaller than"),
    ],
)
def test_a_wrong_choice_is_refused_before_the_call(name: str, args: dict[str, Any], why: str):
    assert why in CATALOGUE.tools[name].problem(args, filled=True)


@pytest.mark.parametrize("tool", OPERATIONS, ids=lambda tool: tool.name)
def test_the_markdown_guides_in_a_few_words(tool: Tool):
    assert len(tool.description.split()) <= 12
    assert 3 <= len(tool.body.split()) <= 80
    assert ("write" in tool.effects) == bool(tool.function.prepare or tool.name in ("git", "mkdir"))


def test_importing_the_operations_loads_no_heavy_library():
    modules = sorted({tool.run.removeprefix("python: ").partition(":")[0] for tool in OPERATIONS})
    code = (
        f"import sys, {', '.join(modules)}\n"
        "heavy = 'pint', 'dateutil', 'http.client', 'litellm'\n"
        "print([each for each in heavy if each in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
