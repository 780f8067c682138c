"""The stream of events: nothing lost, nothing repeated, whoever works on a run; slow clients cost nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import warm
from hypothesis import given
from hypothesis import strategies as st
from lanes import pause, until, within
from run_place import TOKEN, ended, script, settings
from serving import in_thread, served, variables
from websockets.sync.client import connect

from kernel.events import Event
from runtime.api.fractal import Fractal
from runtime.server.client import Client, ServerError
from runtime.server.hub import MOST_CLIENTS, PIECES, Hub, Sent
from runtime.server.serving import PATIENCE
from runtime.server.watching import Watcher
from runtime.workspace.workspace import run_lock


async def taken(hub: Hub, count: int, after: str = "", run: str = "") -> list[Sent]:
    """The first pieces of a stream."""
    found: list[Sent] = []
    async with aclosing(hub.follow(after, run)) as stream:
        async for sent in stream:
            found.append(sent)
            if len(found) == count:
                break
    return found


def numbers(found: list[Sent]) -> list[int]:
    return [json.loads(sent.text)["n"] for sent in found if sent.text and sent.kind != "reload"]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 20))
def test_a_client_gets_each_event_once_or_is_told_to_reload(seen: int, more: int, kept: int) -> None:
    async def work() -> None:
        hub = Hub(kept)
        for n in range(seen):
            hub.publish({"kind": "k", "n": n})
        place = hub.newest
        for n in range(more):
            hub.publish({"kind": "k", "n": n})
        if more > kept:
            (first,) = await taken(hub, 1, place)
            assert (first.kind, first.id) == ("reload", hub.newest)
        else:
            found = await taken(hub, 1 + more, place)
            assert numbers(found) == list(range(more))
            assert next(sent.id for sent in found) == place
            assert [sent.id for sent in found][-1] == hub.newest

    asyncio.run(work())


async def test_a_slow_client_is_told_to_reload_and_goes_on_from_there() -> None:
    hub = Hub(kept=10)
    async with aclosing(hub.follow()) as stream:
        await anext(stream)
        for n in range(1_000):
            hub.publish({"kind": "k", "n": n})
        assert (await anext(stream)).kind == "reload"
        hub.publish({"kind": "k", "n": 1_000})
        assert numbers([await anext(stream)]) == [1_000]


@pytest.mark.parametrize(
    "id", ["", "x", "-1", "0-0", "{epoch}-", "{epoch}-99", "{epoch}--1", "{epoch}-1e1", "{epoch}-²"]
)
async def test_an_id_of_another_process_or_none_at_all_means_reload(id: str) -> None:
    hub = Hub()
    hub.publish({"kind": "k", "n": 0})
    (first,) = await taken(hub, 1, id.replace("{epoch}", hub.newest.partition("-")[0]))
    assert first.kind == ("reload" if id else "")


async def test_one_run_is_selected_and_pieces_of_replies_are_left_out() -> None:
    hub = Hub()
    place = hub.newest
    for run in ("aaaaaa", "bbbbbb"):
        for kind in ("run_started", "reply_delta", "run_finished"):
            hub.hear(Event(kind, run))  # type: ignore[arg-type]
    found = [json.loads(sent.text) for sent in (await taken(hub, 3, place, "bbbbbb"))[1:]]
    assert [(each["run"], each["kind"]) for each in found] == [
        ("bbbbbb", "run_started"),
        ("bbbbbb", "run_finished"),
    ]


async def test_replies_are_streamed_in_their_place_to_who_asks_for_them() -> None:
    hub = Hub()
    found: list[Sent] = []
    async with aclosing(hub.follow(run="bbbbbb", text=True)) as stream:
        found.append(await anext(stream))
        for run in ("aaaaaa", "bbbbbb"):
            for kind, data in (("ask_started", {}), ("reply_delta", {"text": "four"}), ("ask_finished", {})):
                hub.hear(Event(kind, run, data=data))  # type: ignore[arg-type]
        found += [await anext(stream) for _ in range(3)]
    kinds = [json.loads(sent.text)["kind"] for sent in found[1:]]
    assert kinds == ["ask_started", "reply_delta", "ask_finished"]
    piece = found[2].as_sse()
    assert piece.startswith("data: ") and json.loads(piece.removeprefix("data: "))["data"]["text"] == "four"
    assert "id:" not in piece.partition("data:")[0], "a client keeps the id of the last event"


async def test_a_slow_client_misses_pieces_of_replies_and_no_events() -> None:
    hub = Hub()
    async with aclosing(hub.follow(text=True)) as stream:
        await anext(stream)
        for _ in range(PIECES + 10):
            hub.hear(Event("reply_delta", "aaaaaa", data={"text": "x"}))
        hub.publish({"kind": "k", "n": 0})
        found = [await anext(stream) for _ in range(PIECES + 1)]
    assert [sent.kind for sent in found] == ["reply_delta"] * PIECES + ["k"]


def test_after_a_restart_a_client_is_told_to_reload(work: Path) -> None:
    with served(work) as server, Client(server.url, token=TOKEN) as client:
        begun = client.start("what is 2 + 2")
        id = ended(client, begun)[-1][0]
        server.kill()
    with in_thread(work) as url, Client(url) as client:
        headers = {"Last-Event-ID": id}
        with httpx.stream("GET", f"{url}/api/events?after=ignored", headers=headers) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = response.iter_lines()
            assert [next(lines) for _ in range(3)][1:] == ["event: reload", 'data: {"kind": "reload"}']
        assert next(client.events(after=id))[1] == {"kind": "reload"}


@pytest.mark.night
def test_two_servers_and_a_command_work_on_one_workspace(work: Path) -> None:
    write = {"tool": "write", "args": {"path": "a.txt", "content": "new"}}
    settings(work, model=script(work, write, success=[{"file": "a.txt"}]))
    with (
        served(work) as one,
        in_thread(work) as two,
        Client(one.url, token=TOKEN) as first,
        Client(two) as second,
    ):
        earlier = first.start("what is 1 + 1")
        ended(first, earlier)
        elsewhere = second.events(after="")
        begun = first.start("renew a.txt")
        seen = next(event for _, event in elsewhere if event["run"] == begun.run)
        assert (seen["kind"], seen["loop_id"]) == ("run_changed", f"system-{begun.run}")
        ended(first, begun)
        asked = until(lambda: (state := second.state(begun.run)).status == "waiting" and state)
        assert asked.question

        command = [sys.executable, "-m", "runtime.cli", "-C", str(work), "approve", begun.run]
        approved = warm.run(command, env=variables({}), capture_output=True, text=True, check=True)
        assert "kept in the inbox" in approved.stderr
        place = first.state(begun.run)
        second.resume(begun.run)
        changes: list[dict[str, Any]] = []
        for _, event in first.events(begun.run, place.after):
            changes.append(event)
            if event["data"]["status"] == "complete":
                break
        assert {event["kind"] for event in changes} == {"run_changed"}
        assert first.state(begun.run).status == second.state(begun.run).status == "complete"
        assert (work / "a.txt").read_text() == "new"
        listed = [[each.run for each in client.runs().runs] for client in (first, second)]
        assert listed[0] == listed[1] == [begun.run, earlier.run]


def test_a_run_that_another_process_works_on_is_told_and_is_not_started_twice(work: Path) -> None:
    sleep = {"tool": "bash", "args": {"command": "sleep 5; echo done > late.txt"}}
    settings(work, model=script(work, sleep, success=[{"file": "late.txt"}]), approve=[])
    with in_thread(work) as url, Client(url) as client:
        command = [sys.executable, "-m", "runtime.cli", "-C", str(work), "run", "--json", "wait, then write"]
        with warm.Process(command, env=variables({}), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            run = json.loads(process.stdout.readline())["run"]
            assert client.state(run).status == "running"
            assert client.resume(run).status == "running"
            assert client.say(run, "go on").status == "running"
            assert client.runs(status="running").runs[0].run == run
            client.cancel(run)
            process.stdout.read()
        assert (
            until(lambda: client.state(run).status != "running" and client.state(run).status) == "cancelled"
        )


def test_the_same_events_come_over_a_websocket(work: Path) -> None:
    with in_thread(work) as address, Client(address) as client:
        url = address.replace("http", "ws") + "/api/brain/events"
        with connect(url) as socket_:
            begun = client.start("what is 2 + 2")
            expected = ended(client, begun)
            messages = [json.loads(socket_.recv(60)) for _ in range(len(expected) + 1)]
        assert messages[0] == {"id": begun.after}
        assert [(each.pop("id"), each) for each in messages[1:]] == expected
        with connect(f"{url}?after={expected[-2][0]}&run={begun.run}") as socket_:
            assert json.loads(socket_.recv(60))["id"] == expected[-2][0]
            assert json.loads(socket_.recv(60))["id"] == expected[-1][0]
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            with pytest.raises(Exception, match="403"), connect(url, additional_headers=headers):
                pass


@pytest.mark.night
def test_clients_that_do_not_read_or_are_too_many_hold_up_nobody(work: Path) -> None:
    with served(work) as server, Client(server.url, token=TOKEN) as client, ExitStack() as streams:
        place, shown = urlsplit(server.url), f"Authorization: Bearer {TOKEN}\r\n"

        def stream() -> socket.socket:
            made = socket.create_connection((place.hostname, place.port), timeout=60)
            made.sendall(f"GET /api/events HTTP/1.1\r\nHost: {place.netloc}\r\n{shown}\r\n".encode())
            return made

        idle = [streams.enter_context(stream()) for _ in range(MOST_CLIENTS)]
        for each in idle:
            assert each.recv(12) == b"HTTP/1.1 200"
        with pytest.raises(ServerError, match="clients follow already") as refused:
            next(client.events())
        assert refused.value.status == 503
        begun = client.start("what is 2 + 2")
        until(lambda: client.state(begun.run).status == "complete")
        streams.close()

        def followed() -> bool:
            with suppress(ServerError):
                return ended(client, begun)[-1][1]["data"]["status"] == "complete"
            return False

        until(followed)
        with stream() as last:
            last.recv(1)
            with within(PATIENCE):  # a stream does not hold up the end of the server
                server.process.terminate()
                server.process.wait(60)


def test_the_watcher_notices_every_change_of_another_process_once(work: Path) -> None:
    fractal = Fractal(work)
    run = asyncio.run(fractal.run("what is 2 + 2")).run
    folder = work / "state" / "runs"
    watcher = Watcher(folder)
    watcher.begin()

    def looks(count: int = 6) -> list[str]:
        return [name for _ in range(count) for name in watcher.look()]

    assert looks() == []
    path = fractal.path(run)
    text = path.read_text()
    path.with_suffix(".new").write_text(text + "\n")
    path.with_suffix(".new").replace(path)
    assert looks() == [run]
    with run_lock(folder / run):
        pause(0.11)
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)
        assert looks() == [run]
        with path.open("a") as file:  # a step is appended: the folder's time stays
            file.write("\n")
        assert looks(1) == [run]
    assert looks(1) == [run], "its process has ended"
    assert looks() == []
    other = asyncio.run(fractal.run("what is 3 + 3")).run
    assert looks() == [other]
    (folder / run).rename(work / "elsewhere")
    assert looks() == [run]
    assert looks() == []
