"""The client settings in docs/mcp.md are right and start a server."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_client import environment

PAGE = Path(__file__).parents[4] / "docs" / "mcp.md"
SNIPPETS = dict(re.findall(r"<!-- client: (\w+) -->\n```json\n(.*?)```", PAGE.read_text("utf-8"), re.S))
KEYS = {"claude": "mcpServers", "cursor": "mcpServers", "vscode": "servers"}


def test_there_is_one_for_each_client():
    assert set(SNIPPETS) == set(KEYS)


@pytest.mark.parametrize("client", KEYS)
@pytest.mark.night
def test_a_snippet_is_json_and_its_command_is_a_server_of_the_folder(client, tmp_path):
    (entry,) = json.loads(SNIPPETS[client])[KEYS[client]].values()
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    args = [each.replace("${workspaceFolder}", str(folder)) for each in entry["args"]]
    command = shutil.which(entry["command"], path=str(Path(sys.executable).parent)) or entry["command"]

    async def work():
        started = StdioServerParameters(command=command, args=args, env=environment(), cwd=folder)
        async with Client(stdio_client(started, errlog=sys.__stderr__)) as session:
            return await session.call_tool("run", {"task": "count the lines of notes.txt"})

    result = asyncio.run(work())
    assert not result.is_error
    assert result.structured_content["result"].startswith("3")


def test_the_table_of_tools_names_every_tool_and_no_other(tmp_path):
    from runtime.api.live_runs import Runs
    from runtime.mcp.server.mcp import make

    async def names():
        return {tool.name for tool in await make(Runs(tmp_path)).list_tools()}

    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \| ", PAGE.read_text("utf-8").split("| tool | does |")[1], re.M
    )
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == asyncio.run(names())
