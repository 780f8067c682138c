"""Tools that are programs: they read arguments as JSON and print text or JSON."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playing import boxed

from kernel.errors import ConfigurationError, OperationFailed
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import Catalogue
from runtime.operations.running import RUNNERS, act
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

PATTERN = """---
name: made
description: made for a test
args: {text: {type: string}}
run: "%s"
effects: [%s]
timeout: %s
---
"""


class Bench:
    """A work folder, and a tool whose program each test writes."""

    def __init__(self, folder: Path) -> None:
        self.work, self.system = folder / "work", folder / "system"
        self.work.mkdir()

    def tool(
        self, program: str, name: str = "tool.py", run: str = "", effects: str = "", seconds: int = 20
    ) -> Tool:
        folder = self.system / "tools" / "made"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(program, "utf-8")
        run = run or f"command: ./{name}"
        (folder / "pattern.md").write_text(PATTERN % (run, effects, seconds), "utf-8")
        return Catalogue([self.system]).get("made")

    def run(self, tool: Tool, mode: str = "off", kept: Any = None, **args: Any) -> Result:
        there = OperationContext(self.work, Sandbox(mode), {}, tool.timeout, effects=tool.effects)
        return asyncio.run(act(replace(there, kept=kept or {}), tool, args, RUNNERS))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("prints", "text", "ok"),
    [
        ("plain\nlines\n", "plain\nlines", True),
        ('{"result": "good"}', "good", True),
        ('{"result": {"a": [1]}}', '{"a": [1]}', True),
        ('{"result": 0}', "0", True),
        ('{"result": false}', "false", True),
        ('{"error": "no such thing"}', "no such thing", False),
        ('{"error": "", "result": "fine"}', "fine", True),
        ('{"other": 1}', '{"other": 1}', True),
        ('"only text"', "only text", True),
        ("[1, 2]", "[1, 2]", True),
        ("", "", True),
        ("{broken", "{broken", True),
        ("a\\x1b[31mred", "a\\x1b[31mred", True),
    ],
)
def test_printed_text_or_json_is_the_result(bench: Bench, prints: str, text: str, ok: bool) -> None:
    tool = bench.tool(f"print({prints!r}, end='')")
    result = bench.run(tool)
    assert (result.text, result.ok) == (text, ok)


def test_program_reads_arguments_as_json_from_stdin(bench: Bench) -> None:
    tool = bench.tool("import json, sys; print(sorted(json.load(sys.stdin).items()))")
    assert bench.run(tool, text="ä\n\"'{}").text == "[('text', 'ä\\n\"\\'{}')]"


def test_terminal_escapes_in_json_are_removed(bench: Bench) -> None:
    tool = bench.tool('print(\'{"result": "a\\\\u001b[31mred"}\')')
    assert "\x1b" not in bench.run(tool).text


def test_failing_program_reports_exit_code_and_output(bench: Bench) -> None:
    result = bench.run(bench.tool("import sys; print('half', flush=True); sys.exit('no')"))
    assert (result.ok, result.text.splitlines()) == (False, ["half", "no", "[exit 1]"])
    assert result.evidence["exit"] == 1


def test_json_error_keeps_no_values(bench: Bench) -> None:
    result = bench.run(bench.tool('print(\'{"error": "x", "keep": {"a": 1}}\')'))
    assert result.keep is None and not result.ok


def test_program_is_stopped_before_its_timeout(bench: Bench) -> None:
    result = bench.run(bench.tool("import time; print('on', flush=True); time.sleep(60)", seconds=2))
    assert result.text.splitlines()[:2] == ["on", "[stopped after 1 s]"]
    assert not result.ok


def test_programs_may_be_written_in_any_language(bench: Bench) -> None:
    assert bench.run(bench.tool("cat; echo", "tool.sh"), text="x").text == '{"text": "x"}'
    tool = bench.tool("#!/bin/sh\necho other\n", "other")
    with pytest.raises(ConfigurationError, match="cannot be executed; chmod"):
        bench.run(tool)
    (tool.path.parent / "other").chmod(0o755)
    assert bench.run(tool).text == "other"


@pytest.mark.parametrize(
    "run", ["command: ./none.py", "command: ../../work/x.py", "command: /bin/ls", "command:"]
)
def test_program_outside_the_tool_folder_is_refused(bench: Bench, run: str) -> None:
    (bench.work / "x.py").write_text("print(1)")
    with pytest.raises(ConfigurationError, match="there is no program"):
        bench.run(bench.tool("", run=run))


def test_program_that_links_elsewhere_is_refused(bench: Bench) -> None:
    (bench.work / "x.py").write_text("print(1)")
    tool = bench.tool("", run="command: ./link.py")
    (tool.path.parent / "link.py").symlink_to(bench.work / "x.py")
    with pytest.raises(ConfigurationError, match="there is no program"):
        bench.run(tool)


@pytest.mark.parametrize("run", ["python: os:system", "ftp: x", "mcp: a/b"])
def test_unknown_run_scheme_is_refused(bench: Bench, run: str) -> None:
    with pytest.raises(
        (ConfigurationError, OperationFailed), match=r"ships with Fractal|no kind that can be run"
    ):
        bench.run(bench.tool("", run=run))


def test_registered_runner_receives_the_call(bench: Bench) -> None:
    async def runner(context: OperationContext, tool: Tool, args: Any) -> Result:
        return Result(f"{tool.name} {args}")

    tool = bench.tool("", run="mcp: a/b")
    there = OperationContext(bench.work, Sandbox("off"))
    assert asyncio.run(act(there, tool, {"text": "x"}, {"mcp": runner})).text == "made {'text': 'x'}"


@boxed
def test_program_writes_only_with_effect_write_and_never_to_its_own_folder(bench: Bench) -> None:
    program = """import os, sys
for place in (os.getcwd(), os.path.dirname(sys.argv[0])):
    try:
        open(place + "/made.txt", "w")
        print("wrote")
    except OSError as error:
        print(error.strerror)
"""
    assert bench.run(bench.tool(program), "bwrap").text.splitlines() == ["Read-only file system"] * 2
    assert bench.run(bench.tool(program, effects="write"), "bwrap").text.splitlines() == [
        "wrote",
        "Read-only file system",
    ]
    assert (bench.work / "made.txt").exists()
    assert not (bench.system / "tools" / "made" / "made.txt").exists()


@boxed
def test_sandboxed_program_has_no_network_and_no_secrets(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-1234567890abcdef")
    program = "import os, socket\nprint(dict(os.environ))\nsocket.create_connection(('1.1.1.1', 80), 2)\n"
    result = bench.run(bench.tool(program, effects="network"), "bwrap")
    assert "sk-1234567890" not in result.text and "unreachable" in result.text
    assert not result.ok
