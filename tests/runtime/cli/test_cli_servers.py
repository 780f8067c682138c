"""`fractal doctor` and `fractal tools` know the MCP servers of the folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from in_process import in_process
from lanes import within

from runtime.cli.doctor import PATIENCE

FAKE = Path(__file__).parent.parent / "mcp" / "fake_server.py"


@pytest.fixture
def fractal(tmp_path):
    """The command, in a folder with four servers, of which one works."""
    servers = {
        "good": {"command": sys.executable, "args": [str(FAKE)], "env": {"API_KEY": "sk-secret-0123456789"}},
        "dead": {"command": sys.executable, "args": [str(FAKE), "exits"]},
        "lost": {"command": "no-such-program"},
        "half": {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def run(*words):
        env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "NO_COLOR": "1"}
        return in_process(tmp_path, words, env)

    return run


def test_doctor_connects_to_every_server(fractal):
    ran = fractal("doctor", "--json")
    checks = {each["name"]: each for each in json.loads(ran.out)}
    assert checks["mcp good"]["state"] == "ok"
    place = "stdio (in the sandbox, without network)"
    assert checks["mcp good"]["found"] == f"{place}, 15 tools, protocol 2025-11-25"
    assert (checks["mcp dead"]["state"], "left-pad" in checks["mcp dead"]["found"]) == ("missing", True)
    assert checks["mcp dead"]["fix"].startswith("try it by hand: ")
    assert "there is no program no-such-program; install it" in checks["mcp lost"]["found"]
    half = [each for each in json.loads(ran.out) if "NOT_SET_ANYWHERE" in each["found"]]
    assert [each["fix"] for each in half] == ["fix the entry that is named"]
    assert ran.exit == 0


def test_tools_of_servers_are_listed_and_shown_without_secrets(fractal):
    ran = fractal("tools", "ls")
    assert "good-echo(text)" in ran.out
    assert "skipped: MCP server dead" in ran.err
    assert "NOT_SET_ANYWHERE" in ran.err
    shown = fractal("tools", "show", "good-echo")
    assert json.loads(shown.out)["run"] == "mcp: good/echo"
    assert "sk-secret" not in shown.out + shown.err
    assert fractal("tools", "check", "good-echo").exit == 0


@pytest.mark.night  # test_mute_servers_are_waited_for_together looks at them in less time
def test_doctor_does_not_wait_long_for_mute_servers(fractal, tmp_path):
    mute = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    servers = dict.fromkeys(("one", "two", "three"), mute)
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with within(3 * PATIENCE):  # one wait for all, and the other checks
        checks = json.loads(fractal("doctor", "--json").out)
    found = {each["name"]: each["found"] for each in checks if each["name"].startswith("mcp ")}
    assert len(found) == 3 and all(f"did not answer within {PATIENCE:g} s" in text for text in found.values())
