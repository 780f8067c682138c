"""Memory's tools through `fractal mcp`, by the official client."""

from __future__ import annotations

from mcp_client import settings, speak, trusting


def test_a_client_remembers_recalls_and_sets_a_goal(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    trusting(tmp_path / "config")
    folder = tmp_path / "work"
    folder.mkdir()
    settings(folder, embedder="lexical")

    async def work(call):
        listed = await call("list_tools", words="known")
        named = {tool["name"]: tool["kind"] for tool in listed["tools"]}
        assert named["recall"] == named["wander"] == "operation"
        kept = await call("call_tool", tool="remember", args={"text": "the shop opens at nine"})
        found = await call("call_tool", tool="recall", args={"query": "when does the shop open"})
        goal = await call("call_tool", tool="goal", args={"text": "the shop is sold"})
        return kept["result"], found["result"], goal["result"]

    kept, found, goal = speak(folder, work, "stdio", "auto")
    assert kept == "remembered: the shop opens at nine"
    assert found.startswith("- the shop opens at nine (said by you, ")
    assert goal.endswith(": the shop is sold")
