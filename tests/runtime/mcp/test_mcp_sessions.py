"""A session that a server has ended is opened anew, and what only reads is asked again."""

from __future__ import annotations

import json
import secrets
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

SERVER = Path(__file__).with_name("dying_server.py")
READS = {"readOnlyHint": True}
NONE = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "look", "inputSchema": NONE, "annotations": READS},
    {"name": "again", "inputSchema": NONE, "annotations": {"idempotentHint": True}},
    {"name": "change", "inputSchema": NONE},
]
JSON = "application/json"


def rpc(code, text):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": text}})


class Sessions(BaseHTTPRequestHandler):
    """A server that forgets its sessions when it is told to, and says so in its own way."""

    def do_POST(self):
        web = self.server
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, given = request["method"], self.headers.get("mcp-session-id")
        if method == "server/discover":
            return self.say(404, "text/plain", "not found")
        if method == "initialize":
            web.sessions.append(secrets.token_hex(4))
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            return self.answer(request, result)
        if given not in web.sessions:
            return self.refuse(request)
        if "id" not in request:
            return self.say(202, JSON, "")
        if method == "tools/list":
            return self.answer(request, {"tools": TOOLS})
        web.calls.append(request["params"]["name"])
        if web.forgets:
            web.forgets -= 1
            web.sessions.clear()
            return self.refuse(request)
        return self.answer(request, {"content": [{"type": "text", "text": "fine"}]})

    def answer(self, request, result):
        self.say(200, JSON, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))

    def refuse(self, request):
        status, kind, text = self.server.way
        self.say(status, kind, text.replace('"id": 1', f'"id": {request.get("id", 0)}'))

    def say(self, status, kind, text):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        if self.server.sessions:
            self.send_header("mcp-session-id", self.server.sessions[-1])
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        self.say(405, "text/plain", "")

    do_DELETE = do_GET

    def log_message(self, *args):
        pass


@contextmanager
def serving(way, forgets=0):
    web = ThreadingHTTPServer(("127.0.0.1", 0), Sessions)
    web.daemon_threads = True
    web.sessions, web.calls, web.way, web.forgets = [], [], way, forgets
    Thread(target=web.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield web
    finally:
        web.shutdown()
        web.server_close()


WAYS = {
    "404 JSON-RPC": (404, JSON, rpc(-32001, "Session not found")),
    "404 JSON": (404, JSON, '{"error": "Session not found"}'),
    "404 text": (404, "text/plain", "Session terminated"),
    "404 nothing": (404, "text/plain", ""),
    "404 page": (404, "text/html", "<h1>Not Found</h1>"),
    "410": (410, JSON, '{"detail": "gone"}'),
    "400 JSON-RPC": (400, JSON, rpc(-32000, "Bad Request: No valid session ID provided")),
    "400 text": (400, "text/plain", "Invalid or expired session"),
    "200 error": (200, JSON, rpc(-32001, "Session terminated")),
    "200 unknown": (200, JSON, rpc(-32600, "unknown session id")),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_only_reads_is_made_again_in_a_new_session(place, way):
    with serving(WAYS[way], forgets=1) as web:
        place.write({"s": {"url": f"http://127.0.0.1:{web.server_port}/mcp"}})
        first, second = place.calls(("s-look", {}), ("s-change", {}))
        assert (first.ok, first.text, second.ok) == (True, "fine", True), first.text
        assert web.calls == ["look", "look", "change"]


@pytest.mark.parametrize("way", ["404 JSON", "400 JSON-RPC", "200 error"])
def test_a_call_that_may_change_something_is_not_made_again(place, way):
    with serving(WAYS[way], forgets=1) as web:
        place.write({"s": {"url": f"http://127.0.0.1:{web.server_port}/mcp"}})
        first, again, second = place.calls(("s-change", {}), ("s-again", {}), ("s-change", {}))
        assert not first.ok
        assert "MCP server s has ended the session" in first.text
        assert "the call of change was not made again, because it may change something" in first.text
        assert (again.text, second.text) == ("fine", "fine"), "the next call has a new session"
        assert web.calls == ["change", "again", "change"]


def test_a_server_that_ends_every_session_is_asked_twice(place):
    with serving(WAYS["404 JSON"], forgets=99) as web:
        place.write({"s": {"url": f"http://127.0.0.1:{web.server_port}/mcp"}})
        (result,) = place.calls(("s-look", {}))
        assert not result.ok
        assert "has ended the session" in result.text
        assert web.calls == ["look", "look"]


def test_another_refusal_is_not_taken_for_the_end_of_a_session(place):
    with serving((400, JSON, rpc(-32602, "bad arguments for this session of yoga")), forgets=1) as web:
        place.write({"s": {"url": f"http://127.0.0.1:{web.server_port}/mcp"}})
        (result,) = place.calls(("s-look", {}))
        assert not result.ok
        assert "bad arguments" in result.text
        assert web.calls == ["look"]


@pytest.mark.parametrize(("tool", "starts"), [("s-look", 2), ("s-again", 2), ("s-change", 1)])
def test_a_program_that_dies_in_a_call_is_started_again(place, tool, starts):
    place.write({"s": {"command": sys.executable, "args": [str(SERVER), "died"]}})
    place.lists()
    result, after = place.calls((tool, {}), ("s-change", {}))
    assert (result.ok, after.ok) == (starts == 2, True), result.text
    if starts == 1:
        assert "it ended with exit code 3" in result.text
