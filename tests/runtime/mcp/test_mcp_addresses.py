"""Servers at an address are used like programs: streamable HTTP, the older SSE, headers, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from lanes import async_until
from mcp_place import call
from told_server import over_http

from runtime.secrets.redaction import redact

SERVER = Path(__file__).with_name("http_server.py")


@contextmanager
def listening(*words):
    with subprocess.Popen(
        [sys.executable, str(SERVER), *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address():
    with listening("http") as url:
        yield url


def test_a_server_at_an_address_is_used_with_the_newest_version_of_the_protocol(place, address):
    place.write({"web": {"type": "http", "url": address}})
    tools = place.lists()
    assert tools["web-weather"].signature == "web-weather(city, days?, unit?)"
    assert tools["web-weather"].line.endswith(": Tell the weather of a city. (days: integer)")
    echo, weather, failed = place.calls(
        ("web-echo", {"text": "hé"}), ("web-weather", {"city": "Ghent", "unit": "C"}), ("web-broken", {})
    )
    assert echo.text == "hé"
    assert json.loads(weather.text) == {"city": "Ghent", "degrees": 21.5}
    assert (failed.ok, "the pump is broken" in failed.text) == (False, True)


def test_the_sdk_as_a_program_speaks_the_newest_version_too(place):
    place.write({"sdk": {"command": sys.executable, "args": [str(SERVER), "stdio"]}})

    async def work(servers):
        return await servers.look(20.0), await call(servers, place.folder, "sdk-echo", {"text": "here"})

    (seen,), result = place.within(work)
    assert (seen.version, seen.tools, seen.error) == ("2026-07-28", 6, "")
    assert result.text == "here"


def test_the_older_transport_works(place):
    with listening("sse") as url:
        place.write({"old": {"type": "sse", "url": url}})
        (result,) = place.calls(("old-echo", {"text": "still"}))
    assert result.text == "still"


def test_a_tool_that_a_server_adds_is_there_for_the_next_plan(place):
    with listening("http") as url:
        place.write({"web": {"url": url}})

        async def work(servers):
            await call(servers, place.folder, "web-grow", {})
            await async_until(lambda: any(tool.name == "web-grown" for tool in servers.tools()))
            return (await call(servers, place.folder, "web-grown", {})).text

        assert place.within(work) == "new"


def test_headers_carry_a_credential_from_the_environment(place, monkeypatch):
    with listening("http", "t0ken-0123456789") as url:
        place.write({"web": {"url": url, "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}}})
        monkeypatch.setenv("WEB_TOKEN", "t0ken-0123456789")
        (result,) = place.calls(("web-echo", {"text": "t0ken-0123456789 is a secret"}))
        assert result.text.endswith("is a secret")
        assert "0123456789" not in redact(result.text)

        place.write({"bare": {"url": url}})
        place.lists()
        assert any("it requires a login (HTTP 401)" in each for each in place.warnings)


def test_an_answer_without_end_fails_the_call_and_not_the_run(place, address):
    place.write({"web": {"url": address}})
    flooded, after = place.calls(("web-flood", {"mb": 60}), ("web-echo", {"text": "here"}))
    assert not flooded.ok
    assert "MB" in flooded.text
    assert (after.ok, after.text) == (True, "here")


LISTED = {"": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("odd", "good")]}}
ODD = {"text": "fine", "list": ["fine"], "null": None, "number": 7}


@pytest.mark.parametrize("stream", [False, True], ids=["one answer", "a stream"])
def test_a_result_that_is_no_object_costs_only_itself_and_its_text_stays(place, stream):
    good = {"content": [{"type": "text", "text": "good"}]}
    for result, text in zip(ODD.values(), ("fine", "fine", "[no content]", "7"), strict=True):
        with over_http({"pages": LISTED, "answers": {"odd": result, "good": good}}, stream=stream) as (
            url,
            _,
        ):
            place.write({"web": {"url": url}})
            odd, after = place.calls(("web-odd", {}), ("web-good", {}))
        assert (odd.ok, odd.text, after.ok, after.text) == (True, text, True, "good")


def test_a_list_that_is_no_object_is_told(place):
    with over_http({"pages": {"": None}, "answers": {}}) as (url, _):
        place.write({"web": {"url": url}})
        assert place.lists() == {}
    (warning,) = place.warnings
    assert "MCP server web: its list of tools is not a list" in warning


def test_a_server_on_this_machine_is_reached_without_a_proxy_and_others_through_it(place, monkeypatch):
    good = {"content": [{"type": "text", "text": "good"}]}
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with over_http({"pages": LISTED, "answers": {"good": good}}) as (url, asked):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        place.write({"web": {"url": url}})
        assert [each.text for each in place.calls(("web-good", {}))] == ["good"]
        monkeypatch.setenv("http_proxy", url.removesuffix("/mcp"))
        place.write({"web": {"url": "http://tools.invalid/mcp"}})
        asked.clear()
        assert [each.text for each in place.calls(("web-good", {}))] == ["good"]
        assert {*asked} == {"http://tools.invalid/mcp"}


class Odd(BaseHTTPRequestHandler):
    """Answers that an address without an MCP server may give."""

    def do_POST(self):
        kind = self.path.strip("/")
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response({"fault": 503, "away": 302}.get(kind, 200))
        self.send_header("content-type", "text/html" if kind == "html" else "application/json")
        if kind == "away":
            self.send_header("location", "http://elsewhere.invalid/mcp")
        if kind == "zipped":
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        if kind == "endless":
            try:
                while True:
                    self.wfile.write(b"x" * 1_000_000)
            except OSError:
                return
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, *args):
        pass


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("html", "text/html"),
        ("fault", "HTTP 503"),
        ("away", "elsewhere.invalid"),
        ("zipped", "compressed"),
        ("endless", "16 MB"),
        ("json", ""),
    ],
)
def test_an_address_that_is_not_a_server_is_reported(place, kind, message, capfd):
    web = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    web.daemon_threads = True
    Thread(target=web.serve_forever, args=(0.05,), daemon=True).start()
    try:
        place.write({"odd": {"url": f"http://127.0.0.1:{web.server_port}/{kind}"}})
        assert place.lists() == {}
    finally:
        web.shutdown()
        web.server_close()
    assert len(place.warnings) == 1
    assert "MCP server odd" in place.warnings[0]
    assert message in place.warnings[0]
    assert capfd.readouterr() == ("", "")
