"""Messages over MCP: a client sends a task, sees what waits, and decides what it may decide."""

from __future__ import annotations

import asyncio

import pytest
from mcp_client import script, settings, speak

from runtime.api.beating import Beat
from runtime.api.fractal import Fractal


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("FRACTAL_TRUST", "all")
    place = tmp_path / "work"
    place.mkdir()
    (place / ".env").write_text("KEY=1")
    return place


def beat(folder):
    beating = Beat(Fractal(folder, trusted=True))
    asyncio.run(beating.run(0.01, once=True))
    return [each.status for each in beating.results]


def test_a_client_sends_a_task_and_replies(folder):
    step = {"tool": "write", "args": {"path": "words.txt", "content": "5"}}
    settings(folder, model=script(folder, step, success=[{"file": "words.txt", "has": "5"}]))

    async def send(call):
        assert (await call("messages"))["messages"] == []
        sent = await call("send_message", text="write five")
        assert (sent["type"], sent["tier"], sent["to"]) == ("task", "oversight", "default")
        return sent

    sent = speak(folder, send)
    assert beat(folder) == ["waiting"]  # a client's run may not write without approval

    async def decide(call):
        task, proposal = (await call("messages"))["messages"]
        assert task["id"] == sent["id"] and "words.txt" in proposal["text"]
        assert "its replies are" in await call.fails("send_message", text="yes", in_reply_to=proposal["id"])
        return await call("send_message", text="", in_reply_to=proposal["id"], kind="approve")

    reply = speak(folder, decide)
    assert (reply["type"], reply["tier"]) == ("approve", "oversight")
    assert reply["sender"] == sent["sender"] != ""
    assert beat(folder) == ["complete"]

    async def read(call):
        assert (await call("messages"))["messages"] == []
        return (await call("messages", only_open=False))["messages"]

    assert speak(folder, read)[-1]["type"] == "outcome"


def test_a_client_sends_tasks_by_priority_and_sees_the_queue(folder):
    async def send(call):
        await call("send_message", text="look", priority="low")
        await call("send_message", text="look first", priority="high")
        assert "priority" in await call.fails("send_message", text="look", priority="soon")
        return (await call("messages"))["messages"]

    shown = [(each["text"], each["queue"]) for each in speak(folder, send)]
    assert shown == [("look first", "1: high priority"), ("look", "2: low priority")]


def test_a_client_may_not_approve_a_serious_danger(folder):
    step = {"tool": "bash", "args": {"command": "cat .env; true"}}
    settings(folder, model=script(folder, step))

    async def send(call):
        await call("send_message", text="show the settings")

    speak(folder, send)
    assert beat(folder) == ["waiting"]

    async def decide(call):
        (proposal,) = [each for each in (await call("messages"))["messages"] if each["type"] == "proposal"]
        refused = await call.fails("send_message", text="", in_reply_to=proposal["id"], kind="approve")
        assert "serious danger" in refused
        await call("send_message", text="", in_reply_to=proposal["id"], kind="veto")

    speak(folder, decide)
    assert beat(folder) == ["cancelled"]
