"""`fractal mcp`, driven by the official inspector's command line."""

from __future__ import annotations

import json
import subprocess

import pytest
from mcp_client import COMMAND, TOKEN, environment, listening, settings

pytestmark = pytest.mark.night  # npm fetches them


@pytest.fixture
def inspect(tmp_path, npm):
    """Calls the inspector on a server of an empty folder; returns what it prints, read as JSON."""
    folder = tmp_path / "work"
    folder.mkdir()
    settings(folder)
    command, *args = [*COMMAND, "-C", str(folder), "mcp"]
    config = tmp_path / "servers.json"
    # The inspector gives its server only the variables that the configuration names.
    server = {"command": command, "args": args, "env": {"FRACTAL_TRUST": "all"}}
    config.write_text(json.dumps({"mcpServers": {"fractal": server}}))

    def run(*words, code=0, server=("--config", str(config), "--server", "fractal")):
        ran = subprocess.run(
            [str(npm / "mcp-inspector"), "--cli", *server, *words],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(),
        )
        assert ran.returncode == code, ran.stderr + ran.stdout
        return json.loads(ran.stdout)

    run.folder = folder
    return run


def test_the_inspector_lists_and_calls(inspect):
    tools = {tool["name"]: tool for tool in inspect("--method", "tools/list")["tools"]}
    assert {"run", "status", "answer", "read_document", "call_tool"} <= set(tools)
    assert tools["status"]["annotations"]["readOnlyHint"] is True
    assert tools["run"]["outputSchema"]["properties"]["status"]
    call = ("--method", "tools/call", "--tool-name")
    state = inspect(*call, "run", "--tool-arg", "task=what is 2 + 2")
    assert (state["isError"], state["structuredContent"]["result"]) == (False, "4")
    run = state["structuredContent"]["run"]
    assert inspect(*call, "status", "--tool-arg", f"run={run}")["structuredContent"]["status"] == "complete"
    refused = inspect(*call, "status", "--tool-arg", "run=nothing", code=5)
    assert refused["isError"] is True
    page = inspect("--method", "resources/read", "--uri", f"loop://system-{run}")
    assert page["contents"][0]["text"].startswith("---\nid:")


def test_the_inspector_over_http(inspect):
    with listening(inspect.folder) as (url, _):
        server = (url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}")
        found = inspect("--method", "resources/templates/list", server=server)
    assert [each["uriTemplate"] for each in found["resourceTemplates"]] == ["loop://{id}"]
