"""What a client starts waits before commands and writing; its trace is kept, and passed on to servers."""

from __future__ import annotations

import json
import sys

import pytest
import yaml
from collector import Collector
from mcp_client import settings, speak, trusting

from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs

WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "a"}}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ECHO = """
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("echo", log_level="ERROR")


@server.tool()
def meta(ctx: Context) -> str:
    "The trace of the caller."
    return str((ctx.request_context.meta or {}).get("traceparent"))


server.run()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "work"
    place.mkdir()
    return place


def waits(folder):
    async def work(call):
        return (await call("call_tool", **WRITE))["waits_for"]

    return speak(folder, work) == "approval"


def test_writing_waits_for_approval_by_default_and_looking_does_not(folder):
    settings(folder)

    async def work(call):
        asked = await call("call_tool", **WRITE)
        assert asked["waits_for"] == "approval" and "may write" in asked["question"]
        assert not (folder / "a.txt").exists()
        assert (await call("call_tool", tool="list", args={}))["status"] == "complete"
        assert (await call("approve", run=asked["run"]))["status"] == "complete"

    speak(folder, work)
    assert (folder / "a.txt").read_text() == "a"


def test_the_users_own_settings_decide_and_the_folders_file_only_adds(folder, tmp_path, monkeypatch):
    settings(folder, approve=[])
    assert waits(folder)
    settings(folder, approve=["read"])
    assert set(Runs(folder).reading.config.approve) == {"shell", "write", "read"}
    settings(folder, agent="wild", agents={"wild": {"approve": []}})
    assert waits(folder)
    trusting(tmp_path / "config")
    settings(folder)
    assert not waits(folder)
    monkeypatch.setenv("FRACTAL_APPROVE", "[shell]")
    assert Runs(folder).reading.config.approve == ("shell",)


def test_a_run_that_another_run_led_to_asks_as_well(folder):
    """`build: auto` and replays make another `Fractal` with the flags of the first."""
    settings(folder)
    assert Runs(folder).reading.anew(model="reflex").config.approve == ("shell", "write")


@pytest.mark.parametrize(
    ("sent", "kept"), [(TRACE, TRACE), ("nonsense", None), (TRACE.upper(), None), (7, None)]
)
def test_the_trace_of_a_request_is_kept_in_meta(folder, sent, kept):
    settings(folder)

    async def work(call):
        return await call.client.call_tool("run", {"task": "what is 2 + 2"}, meta={"traceparent": sent})

    run = speak(folder, work).structured_content["run"]
    meta = Fractal(folder).root_document(run).meta
    assert meta.extra.get("trace") == kept


def test_the_trace_is_passed_on_to_the_servers_of_a_run(folder, tmp_path):
    settings(folder)
    trusting(tmp_path / "config")
    (folder / "echo.py").write_text(ECHO)
    entry = {"command": sys.executable, "args": ["echo.py"]}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"echo": entry}}))

    async def work(call):
        args = {"tool": "echo-meta", "args": {}}
        result = await call.client.call_tool("call_tool", args, meta={"traceparent": TRACE})
        return result.structured_content["result"]

    version, trace, _, flags = speak(folder, work, "stdio").split("-")
    assert (version, trace, flags) == tuple(TRACE.split("-")[each] for each in (0, 1, 3))


def test_a_trace_reads_back_from_the_document(folder):
    settings(folder)

    async def work(call):
        result = await call.client.call_tool("run", {"task": "what is 2 + 2"}, meta={"traceparent": TRACE})
        return await call("read_document", name=result.structured_content["run"])

    head = speak(folder, work)["markdown"].split("---")[1]
    assert yaml.safe_load(head)["trace"] == TRACE


def test_a_run_is_a_part_of_the_trace_of_its_client(folder, tmp_path):
    trusting(tmp_path / "config")
    with Collector().running() as collector:
        settings(folder, otel=collector.url)

        async def work(call):
            return await call.client.call_tool("run", {"task": "what is 2 + 2"}, meta={"traceparent": TRACE})

        speak(folder, work, "stdio")
    _, trace, parent, _ = TRACE.split("-")
    (whole,) = [span for span in collector.spans if span.name == "invoke_workflow"]
    assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == (trace, parent)
