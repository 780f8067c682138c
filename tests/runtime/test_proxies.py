"""Which requests go through a proxy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from kernel.errors import ConfigurationError
from runtime.benchmarks.reporting import Reporter
from runtime.proxies import proxy_for
from runtime.server.client import Client

PROXY = "http://proxy.example.org:3128"


@pytest.mark.parametrize(
    ("url", "environ", "through"),
    [
        ("https://api.example.org/v1", {}, None),
        ("https://api.example.org/v1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example.org/v1", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other:1"}, PROXY),
        ("https://api.example.org/v1", {"https_proxy": "", "HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example.org/v1", {"HTTP_PROXY": PROXY}, None),
        ("https://api.example.org/v1", {"ALL_PROXY": PROXY}, PROXY),
        ("http://10.0.0.1/v1", {"http_proxy": "proxy.example.org:3128"}, PROXY),
        ("http://10.0.0.1/v1", {"http_proxy": f'"{PROXY}"\r'}, PROXY),
        ("http://10.0.0.1/v1", {"http_proxy": "http://me:pw@p:1"}, "http://me:pw@p:1"),
        ("http://127.0.0.1:8000/v1", {"http_proxy": PROXY, "ALL_PROXY": "socks5://p:1"}, None),
        ("http://localhost:8000/v1", {"http_proxy": PROXY}, None),
        ("http://[::1]:8000/v1", {"http_proxy": PROXY}, None),
        ("http://0.0.0.0:8000/v1", {"http_proxy": PROXY}, None),
    ],
)
def test_the_proxy_of_an_address(url: str, environ: dict[str, str], through: str | None) -> None:
    proxy = proxy_for(url, environ)
    assert (proxy.url if proxy else None) == through


@pytest.mark.parametrize(
    ("listed", "url", "excepted"),
    [
        ("*", "https://api.example.org", True),
        ("api.example.org", "https://api.example.org", True),
        ("example.org", "https://api.example.org", True),
        (".example.org", "https://api.example.org", True),
        ("*.example.org", "https://api.example.org", True),
        ("API.Example.ORG", "https://api.example.org.", True),
        ("ample.org", "https://api.example.org", False),
        ("other.org, example.org\n", "https://api.example.org", True),
        ("other.org example.org", "https://api.example.org", True),
        ("https://api.example.org", "https://api.example.org", True),
        ("api.example.org:443", "https://api.example.org", True),
        ("api.example.org:8443", "https://api.example.org", False),
        ("api.example.org:8443", "https://api.example.org:8443", True),
        ("10.0.0.0/8", "http://10.1.2.3:8000", True),
        ("10.0.0.0/8", "http://11.1.2.3:8000", False),
        ("10.1.2.3", "http://10.1.2.3:8000", True),
        ("10.1.2.3:8000", "http://10.1.2.3:8000", True),
        ("10.1.2.3:8001", "http://10.1.2.3:8000", False),
        ("localhost,127.0.0.1,::1,[::1],fd00::/8,.internal", "http://[fd12::1]:8000", True),
        ("[fd12::1]", "http://[fd12::1]:8000", True),
        ("[fd12::1]:8000", "http://[fd12::1]:8000", True),
        ("[fd12::1]:8001", "http://[fd12::1]:8000", False),
        ("[::1],[", "https://api.example.org", False),
        (",,", "https://api.example.org", False),
    ],
)
def test_what_no_proxy_excepts(listed: str, url: str, excepted: bool) -> None:
    environ = {"ALL_PROXY": PROXY, "NO_PROXY": listed}
    assert (proxy_for(url, environ) is None) is excepted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("socks4://proxy.example.org:1080", "HTTPS_PROXY names a proxy with socks4://"),
        ("http://", "HTTPS_PROXY is no address"),
        ("http://proxy.example.org:port", "HTTPS_PROXY is no address"),
        ("http://[::1", "HTTPS_PROXY is no address"),
    ],
)
def test_a_proxy_of_no_use_is_refused_by_the_name_of_its_variable(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        proxy_for("https://api.example.org", {"HTTPS_PROXY": text})
    environ = {"HTTPS_PROXY": text, "NO_PROXY": "example.org"}
    assert proxy_for("https://api.example.org", environ) is None, "NO_PROXY is read first"


def test_a_socks_proxy_without_its_package_says_what_to_install() -> None:
    code = (
        "from runtime.proxies import proxy_for\n"
        "try: proxy_for('https://example.org', {'ALL_PROXY': 'socks5://127.0.0.1:9'})\n"
        "except Exception as error: print(error)"
    )
    alone = [sys.executable, "-S", "-c", code]  # without installed packages
    ran = subprocess.run(alone, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    needed = "which needs the package socksio: pip install 'fractal-runtime[socks]'"
    assert ran.stdout == f"ALL_PROXY names a SOCKS proxy, {needed}\n"


class Jobs(BaseHTTPRequestHandler):
    """A server that has one job for each runner, and no runs."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        body = json.dumps({"id": "job"}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_runner_and_a_client_of_a_server_go_the_same_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    web = ThreadingHTTPServer(("127.0.0.1", 0), Jobs)
    Thread(target=web.serve_forever, daemon=True).start()
    here, away = f"http://127.0.0.1:{web.server_port}", "http://fractal.invalid"
    for server, proxy in ((here, "http://127.0.0.1:9"), (away, here)):
        monkeypatch.setenv("http_proxy", proxy)
        assert asyncio.run(Reporter(server, print, "one").next()) == {"id": "job"}
        with Client(server) as client:
            assert client.export_patterns() == '{"id": "job"}'
    web.shutdown()
    web.server_close()
    paths = ("/api/runners/one/next", "/brain/patterns/export")
    assert Jobs.asked == [*paths, *(f"{away}{path}" for path in paths)]
