"""Which tools an agent knows, over MCP: known, granted, revoked; and what it does not know is not called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_client import settings, speak, trusting


def test_a_client_grants_what_it_then_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    trusting(tmp_path / "config")
    folder = tmp_path / "work"
    folder.mkdir()
    settings(folder, discovery="progressive")

    async def work(call: Any) -> None:
        sum_ = {"tool": "calc", "args": {"expression": "2 + 2"}}
        known = await call("known_tools")
        assert (known["agent"], len(known["known"])) == ("default", 7)
        assert "there is no tool 'calc'" in await call.fails("call_tool", **sum_)
        assert not (await call("list_tools", words="arithmetic"))["tools"]
        granted = await call("grant", tool="calc", why="the person asked for sums")
        assert "calc" in granted["known"]
        assert (await call("call_tool", **sum_))["result"] == "4"
        assert "calc" not in (await call("revoke", tool="calc"))["known"]
        assert "there is no tool 'clac'" in await call.fails("grant", tool="clac")

    speak(folder, work, "stdio", "auto")
