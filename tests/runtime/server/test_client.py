"""The client of a server: what it needs, and what it says when something is wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from serving import REPOSITORY, variables

from runtime.server.client import Client, ServerError


def test_a_program_with_the_client_needs_no_package_of_the_server() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("fastapi", "starlette", "uvicorn", "prometheus_client", "jinja2")))
from fractal.service import Client, ServerError
print(Client("http://127.0.0.1:9"))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPOSITORY, env=variables({}), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_client_without_a_server_is_told_what_to_do() -> None:
    with Client("http://127.0.0.1:9") as client:
        for call in (client.health, client.runs, lambda: list(client.events())):
            with pytest.raises(ServerError, match="is `fractal serve` running") as failed:
                call()
            assert failed.value.status == 0


class Other(BaseHTTPRequestHandler):
    """A server that is not Fractal's; it repeats the path."""

    def do_GET(self) -> None:
        """Answer with a page; with an error below /api/runs/."""
        self.send_response(500 if self.path.startswith("/api/runs/") else 200)
        self.end_headers()
        self.wfile.write(f"<h1>{self.path}</h1>".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def other() -> Iterator[Client]:
    server = HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    with server, Client(f"http://127.0.0.1:{server.server_address[1]}/") as client:
        yield client
        server.shutdown()
        thread.join()


def test_the_response_of_another_server_is_an_error_that_says_so(other: Client) -> None:
    with pytest.raises(ServerError, match=r"/api/runs.*this is no RunPage") as odd:
        other.runs()
    assert odd.value.status == 200
    with pytest.raises(ServerError, match="500: <h1>"):
        other.state("abc")
    with pytest.raises(ServerError, match="no stream of events"):
        list(other.events())


@pytest.mark.parametrize("name", ["../../metrics", "a/b?c#d", "a\x00b", "%2e%2e"])
def test_a_name_stays_one_part_of_the_path(other: Client, name: str) -> None:
    with pytest.raises(ServerError) as failed:
        other.state(name)
    path = str(failed.value).rpartition("<h1>/api/runs/")[2].removesuffix("</h1>")
    assert path and not {"/", "?", "#", "\x00"} & set(path)
