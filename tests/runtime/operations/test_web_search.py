"""web-search: the configured service over real HTTP on loopback; without one a sentence that says how."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.operations.web_search import web_search

RESULTS = [
    {
        "title": "Tides &amp; <strong>time</strong>",
        "url": "https://tides.example/a",
        "text": "The <b>moon</b>.",
    },
    {"title": "", "url": "https://tides.example/b", "text": ""},
    {"title": "Third", "url": "https://tides.example/c", "text": "x" * 1_000},
]


class Service(BaseHTTPRequestHandler):
    """SearXNG at /search, Brave at /brave, and what goes wrong."""

    seen: list[tuple[str, dict[str, list[str]], dict[str, str]]]

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        self.seen.append((where.path, parse_qs(where.query), dict(self.headers)))
        searxng = [{"title": r["title"], "url": r["url"], "content": r["text"]} for r in RESULTS]
        brave = [{"title": r["title"], "url": r["url"], "description": r["text"]} for r in RESULTS]
        pages: dict[str, tuple[int, Any]] = {
            "/search": (200, {"results": searxng}),
            "/under/search": (200, {"results": []}),
            "/brave": (200, {"web": {"results": brave}}),
            "/page/search": (200, None),
            "/closed/search": (403, None),
            "/busy/search": (429, None),
        }
        status, data = pages[where.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(data).encode() if data is not None else b"<html>what?</html>")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    Service.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def configured(bench: Any, **settings: Any) -> Any:
    return type(bench)(bench.folder, {"web-search": {"allow_private": True, **settings}})


def test_searxng_is_asked_for_json_and_its_results_are_plain_lines(bench, service):
    bench = configured(bench, provider="searxng", url=service)
    result = bench.call(web_search, query="tides & moon")
    lines = result.text.splitlines()
    assert lines[:3] == [
        "1. Tides & time — https://tides.example/a",
        "   The moon.",
        "2. https://tides.example/b — https://tides.example/b",
    ]
    assert len(lines[4]) <= 303
    assert result.evidence["urls"] == [r["url"] for r in RESULTS]
    path, fields, _ = Service.seen[0]
    assert (path, fields) == ("/search", {"q": ["tides & moon"], "format": ["json"]})
    assert len(bench.call(web_search, query="tides", limit=1).evidence["urls"]) == 1


def test_the_sample_of_its_markdown_passes_with_a_service(bench, service):
    tool = Catalogue([shipped_system()]).get("web-search")
    bench = configured(bench, provider="searxng", url=f"{service}/search")
    result = bench.call(web_search, **tool.sample["args"])
    assert re.search(tool.sample["shows"], result.text)


def test_brave_gets_its_key_from_the_environment_and_nobody_else_sees_it(bench, service, monkeypatch):
    monkeypatch.setenv("BRAVE_API_KEY", "brave-key-0123456789")
    for settings in ({"provider": "brave"}, {}):  # the key alone is enough
        Service.seen.clear()
        result = configured(bench, url=f"{service}/brave", **settings).call(
            web_search, query="tides", limit=2
        )
        path, fields, headers = Service.seen[0]
        assert (path, fields) == ("/brave", {"q": ["tides"], "count": ["2"]})
        assert headers["X-Subscription-Token"] == "brave-key-0123456789"
        assert result.evidence["provider"] == "brave"
        assert "brave-key" not in json.dumps(result.evidence) + result.text


def test_without_a_service_it_says_how_to_set_one(bench, monkeypatch):
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    message = bench.fails(web_search, query="tides")
    assert "no web search is configured" in message
    assert "operations: {web-search: {provider: searxng, url:" in message
    assert "BRAVE_API_KEY" in message
    assert "none of searxng, brave" in configured(bench, provider="bing").fails(web_search, query="x")
    assert "needs url" in configured(bench, provider="searxng").fails(web_search, query="x")
    assert "as BRAVE_API_KEY" in configured(bench, provider="brave").fails(web_search, query="x")


def test_a_service_at_a_private_address_must_be_allowed(bench, service):
    message = configured(bench, provider="searxng", url=service, allow_private=False).fails(
        web_search, query="x"
    )
    assert "private" in message
    assert Service.seen == []
    by_fetch = type(bench)(
        bench.folder,
        {"web-search": {"provider": "searxng", "url": service}, "fetch": {"allow_private": ["127.0.0.1"]}},
    )
    assert by_fetch.call(web_search, query="x").ok


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/under", "finds nothing for 'x'"),
        ("/page", "not the JSON of a searxng server"),
        ("/closed", "formats:"),
        ("/busy", "searxng answered 429"),
    ],
)
def test_what_a_service_answers_otherwise_is_reported(bench, service, path: str, says: str):
    bench = configured(bench, provider="searxng", url=service + path)
    if path == "/under":
        assert says in bench.call(web_search, query="x").text
    else:
        assert says in bench.fails(web_search, query="x")


def test_a_query_has_words_and_an_end(bench):
    assert "some words" in bench.fails(web_search, query=" ")
    assert "at most 500" in bench.fails(web_search, query="x" * 501)


def test_the_settings_are_documented_where_the_failure_points():
    page = Path(__file__).resolve().parents[3] / "docs" / "tools.md"
    text = page.read_text("utf-8")
    assert "web-search:" in text
    assert "BRAVE_API_KEY" in text
