"""What a client may send, and what a document may hold: each request is answered, and none with a 500."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from run_place import TOKEN, ended, script, settings
from serving import in_thread

from runtime.api.fractal import Fractal
from runtime.server.client import Client
from runtime.server.security import LARGEST

HEAD = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.fixture
def url(work: Path) -> Iterator[str]:
    with in_thread(work, token=TOKEN, embedder="lexical") as url:
        yield url


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        yield http


def sent(url: str, text: str | bytes) -> bytes:
    """The first line of the response to a request that is sent exactly as it stands."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode())
        with connection.makefile("rb") as response:
            return response.readline()


def test_bodies_that_cannot_be_stored_are_refused(http: httpx.Client) -> None:
    deep = "[" * 300 + "]" * 300
    fields = [
        ("/brain/learn", '"task_prompt": "x", "success": true, "trajectory": [{"params": VALUE}]'),
        ("/api/runners/lab", '"status": "idle", "figures": VALUE'),
        ("/api/runs", '"task": "x", "model": VALUE'),
        ("/api/runs", '"task": "x", "after": VALUE'),
        ("/api/person", '"code": VALUE'),
        ("/brain/learn", '"task_prompt": "x", "success": true, "\\ud800": VALUE'),
    ]
    for path, field in fields:
        for value in ('{"a": "\\udfff"}', '"\\udfff"', '{"a": NaN}', '{"a": 1e999}', f'{{"a": {deep}}}'):
            refused = http.post(path, content=f"{{{field.replace('VALUE', value)}}}")
            assert refused.status_code in (400, 422), (path, value[:30], refused.text)
            assert refused.json()["error"]
    assert http.get("/api/runners").json() == http.get("/api/runs").json()["runs"] == []


def test_names_that_no_file_can_have_are_not_found(http: httpx.Client) -> None:
    for run in ("a" * 3_000, "9" * 300, "%00", "%ff", "%ed%a0%80"):
        for path in (f"/api/runs/{run}", f"/runs/{run}"):
            assert http.get(path).status_code in (400, 404), path
        assert http.get(f"/api/runs?before={run}").status_code == 400
    refused = http.post("/api/runs", json={"task": "x", "after": "a" * 3_000})
    assert (refused.status_code, "there is no run" in refused.json()["error"]) == (400, True)


def test_a_body_without_a_length_that_goes_on_and_on_is_too_large(http: httpx.Client) -> None:
    refused = http.post("/brain/learn", content=(b"x" * 100_000 for _ in range(LARGEST // 100_000 + 1)))
    assert (refused.status_code, "1,000,000" in refused.json()["error"]) == (413, True)


def test_requests_that_servers_may_read_differently_are_refused(url: str) -> None:
    health = "GET /brain/health HTTP/1.1\r\n"
    learn = "POST /brain/learn HTTP/1.1\r\n"
    for text, status in (
        (f"{health}{HEAD}\r\n", b"200"),
        (f"{health}Host: evil.example\r\n{HEAD}\r\n", b"421"),
        (f"{health}{HEAD}host: evil.example\r\n\r\n", b"421"),
        (f"{health}Authorization: Bearer {TOKEN}\r\n\r\n", b"421"),
        (f"{health}Host: 127.0.0.1\r\nAuthorization: bearer  {TOKEN}\r\n\r\n", b"200"),
        (f"{health}Host: 127.0.0.1\r\nAuthorization: {TOKEN}\r\n\r\n", b"401"),
        (f"{health}Host: 127.0.0.1\r\nAuthorization: Basic {TOKEN}\r\n\r\n", b"401"),
        (f"{health}{HEAD}Authorization: Bearer \xff\r\n\r\n", b"401"),
        (f"{learn}{HEAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}x", b"400"),
        (f"{learn}{HEAD}Content-Length: -1\r\n\r\n", b"400"),
        (f"{learn}{HEAD}Content-Length: {'9' * 5000}\r\n\r\n", b"400"),
        (f"{health}{HEAD}X-A: a\x00b\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x00\xa5\x01\r\n\r\n", b"400"),
        (f"GET /api/brain/events HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{UPGRADE}", b"403"),
        (f"GET /api/runs HTTP/1.1\r\n{HEAD}{UPGRADE}", b"403"),
        (f"GET /api/brain/events?run=%00&after=%ff HTTP/1.1\r\n{HEAD}{UPGRADE}\xff\xff\xff", b"101"),
    ):
        assert status in sent(url, text), text


def test_slow_bodies_hold_up_nobody(url: str, http: httpx.Client) -> None:
    place, slow = urlsplit(url), list[socket.socket]()
    for _ in range(200):
        slow.append(socket.create_connection((place.hostname, place.port)))
        slow[-1].sendall(f"POST /brain/learn HTTP/1.1\r\n{HEAD}Content-Length: 500\r\n\r\n{{".encode())
    assert http.get("/brain/health", timeout=10).status_code == 200
    assert http.get("/api/runs", timeout=10).status_code == 200
    for each in slow:
        each.close()


def test_half_a_character_of_a_model_is_shown_and_breaks_no_stream(work: Path, url: str) -> None:
    model = script(work, {"tool": "write", "args": {"path": "a\ud800.txt", "content": "x"}})
    with Client(url, token=TOKEN) as client:
        begun = client.start("renew it", model=model)
        assert ended(client, begun)
        state = client.state(begun.run)
        (step,) = state.tree.steps
        assert step.args == {"path": "a?.txt", "content": "x"}
        assert "a\\ud800.txt" in state.question
        ended(client, client.approve(begun.run, state.question))
        assert client.runs().runs[0].run == begun.run
        document = client.document(begun.run, f"system-{begun.run}")
        assert "a\\ud800.txt" in document


def test_documents_that_cannot_be_read_are_told_and_break_no_list(work: Path, http: httpx.Client) -> None:
    settings(work)
    run = http.post("/api/runs", json={"task": "what is 2 + 2"}).json()["run"]
    path = Fractal(work).path(run)
    while http.get(f"/api/runs/{run}").json()["status"] == "running":
        pass
    good = path.read_text()
    edits: list[tuple[str, str]] = [
        (good, ""),
        ("---\n", "\x00" * 100),
        ('status: "complete"', 'status: "odd"'),
        ('spent: {"calls": 0', 'spent: {"calls": NaN'),
        ("updated:", 'worktree: {"changes": "x"}\nupdated:'),
        ("updated:", f"waiting: {'[' * 2000 + ']' * 2000}\nupdated:"),
    ]
    for old, new in edits:
        path.write_text(good.replace(old, new, 1))
        asked = [("GET", f"/api/runs/{run}"), ("GET", f"/api/runs/{run}/documents/system-{run}?format=json")]
        asked += [("POST", f"/api/runs/{run}/{what}") for what in ("approve", "reject", "cancel", "resume")]
        for method, target in asked:
            refused = http.request(method, target)
            assert (refused.status_code, str(path) in refused.text) == (409, True), (new[:40], refused.text)
        (listed,) = http.get("/api/runs").json()["runs"]
        assert (listed["run"], listed["status"]) == (run, "broken")
        assert http.get("/metrics").status_code == 200
    folder = good.replace("folder: ", 'folder: "\\ud800"\nwas: ', 1)
    path.write_text(folder)
    assert http.get("/api/runs").json()["runs"][0]["folder"] == "?"
    assert http.get(f"/api/runs/{run}").json()["status"] == "complete"
    path.write_text(re.sub("created: .*", 'created: "9999-12-31T23:59:59-23:59"', good))
    for target in ("/", f"/runs/{run}", "/api/runs", f"/api/runs/{run}"):
        assert http.get(target).status_code == 200, "no clock of this machine has such a time"
