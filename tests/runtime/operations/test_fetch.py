"""fetch: the open web only, whatever names and redirects say; bounded in bytes and in time."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from lanes import pause, within

from kernel.errors import OperationFailed
from runtime.operations.fetch import fetch
from runtime.operations.web import public, url


class Pages(BaseHTTPRequestHandler):
    """What the server on loopback has; every request is kept."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict[str, str], bytes]]

    def answer(self) -> None:
        length = int(self.headers.get("content-length", 0))
        self.seen.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
        act = getattr(self, f"page_{self.path.strip('/').partition('?')[0].partition('/')[0]}", None)
        if act is None:
            self.send(404, "text/html", b"<h1>Nothing here</h1>")
        else:
            act()

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = answer

    def send(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass

    def page_hello(self) -> None:
        self.send(200, "text/html; charset=utf-8", '<title>Hi</title><p>Grüße, <a href="/x">x</a>'.encode())

    def page_plain(self) -> None:
        self.send(200, "text/plain", "Grüße\r\n".encode())

    def page_latin(self) -> None:
        self.send(200, "text/html; charset=iso-8859-1", "<p>Grüße".encode("latin-1"))

    def page_meta(self) -> None:
        self.send(200, "text/html", '<meta charset="windows-1251"><p>привет'.encode("cp1251"))

    def page_image(self) -> None:
        self.send(200, "image/png", b"\x89PNG\0\xff")

    def page_json(self) -> None:
        self.send(200, "application/json", b'{"a": 1}')

    def page_zipped(self) -> None:
        self.send(200, "text/plain", gzip.compress(b"zipped"), Content_Encoding="gzip")

    def page_bomb(self) -> None:
        self.send(200, "text/plain", gzip.compress(bytes(50_000_000)), Content_Encoding="gzip")

    def page_brotli(self) -> None:
        self.send(200, "text/plain", b"\x00", Content_Encoding="br")

    def page_big(self) -> None:
        self.send(200, "text/plain", b"x" * 11_000_000)

    def page_endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 100_000)
        except OSError:
            self.close_connection = True

    def page_drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x")
                self.wfile.flush()
                pause(0.1)
        except OSError:
            self.close_connection = True

    def page_torn(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"only this")
        self.close_connection = True

    def page_to(self) -> None:
        """Redirects to whatever follows the question mark."""
        status = int(self.path.split("/")[2].partition("?")[0])
        self.send(status, "", b"", Location=self.path.partition("?")[2])

    def page_loop(self) -> None:
        self.send(302, "", b"", Location="/loop")


@contextmanager
def serving(host: str = "127.0.0.1") -> Iterator[tuple[str, list[Any]]]:
    seen: list[Any] = []
    handler = type("Handler", (Pages,), {"seen": seen})
    server = ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def site() -> Iterator[str]:
    with serving() as (address, _):
        yield address


@pytest.fixture
def inside(bench):
    """A bench that may fetch from loopback, as tests must."""
    object.__setattr__(bench, "settings", {"fetch": {"allow_private": True}})
    return bench


def test_a_page_is_readable_text(inside, site):
    result = inside.call(fetch, url=f"{site}/hello")
    assert result.text == f"Hi\n\nGrüße, [x]({site}/x)"
    assert result.evidence["status"] == 200
    assert result.evidence["headers"]["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("plain", "Grüße\n"),
        ("latin", "Grüße"),
        ("meta", "привет"),
        ("json", '{"a": 1}'),
        ("zipped", "zipped"),
    ],
)
def test_text_of_all_kinds(inside, site, page, text):
    assert inside.call(fetch, url=f"{site}/{page}").text == text


def test_what_is_no_text_goes_to_a_file(inside, site):
    assert "image/png, 6 bytes; give `to`" in inside.fails(fetch, url=f"{site}/image")
    inside.call(fetch, url=f"{site}/image", to="img/a.png")
    assert (inside.folder / "img/a.png").read_bytes() == b"\x89PNG\0\xff"
    assert "protected" in inside.fails(fetch, url=f"{site}/image", to="state/a.png")
    assert "outside" in inside.fails(fetch, url=f"{site}/image", to="../a.png")


def test_an_error_of_the_server_fails_with_its_text(inside, site):
    result = inside.call(fetch, url=f"{site}/nope", to="")
    assert not result.ok
    assert result.text == f"{site}/nope answered 404 Not Found\n\n# Nothing here"


def test_loopback_is_refused_unless_it_is_allowed(bench, site):
    with serving() as (address, seen):
        assert "private or reserved" in bench.fails(fetch, url=f"{address}/hello")
        port = address.rpartition(":")[2]
        for host in ("localhost", "127.1", "0x7f.1", "2130706433", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]"):
            assert bench.fails(fetch, url=f"http://{host}:{port}/hello"), host
        assert seen == []


def test_a_redirect_to_a_private_address_is_refused(bench):
    object.__setattr__(bench, "settings", {"fetch": {"allow_private": ["127.0.0.1"]}})
    with serving() as (first, _), serving("127.0.0.2") as (second, seen):
        assert bench.call(fetch, url=f"{first}/plain").text == "Grüße\n"
        assert "127.0.0.2, a private" in bench.fails(fetch, url=f"{first}/to/302?{second}/hello")
        assert seen == []


def test_the_checked_address_is_the_one_that_is_asked(inside, site):
    """A name that resolves to something else a moment later (DNS rebinding) changes nothing."""
    from runtime.operations.walking import Deadline
    from runtime.operations.web import ask

    port = site.rpartition(":")[2]
    where = url(f"http://rebinds.invalid:{port}/plain")
    answer = ask(where, ["127.0.0.1"], "GET", {"Host": where.netloc}, None, 1_000, Deadline(5))
    assert answer.status == 200


PRIVATE = """
127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 255.255.255.255 224.0.0.1
240.0.0.1 192.0.2.1 198.18.0.1 :: ::1 fe80::1 fe80::1%eth0 fc00::1 fd12::1 ff02::1 ::ffff:127.0.0.1
::ffff:10.0.0.1 2002:7f00:1:: 64:ff9b::7f00:1 64:ff9b::a00:1 2001:db8::1 fec0::1 nonsense
"""


def test_addresses_that_are_not_of_the_open_internet():
    assert [address for address in PRIVATE.split() if public(address)] == []


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_open_internet(address):
    assert public(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.org",
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://x/",
        "http://",
        "http://user:pw@example.org/",
        "http://example.org:99999/",
        "http://exa mple.org/",
        "http://example.org/\r\nX: y",
        "http://[::1",
        "http://" + "a" * 9_000,
        "javascript:alert(1)",
        "http://\u0000/",
        "http://" + "ä" * 80 + ".org",
    ],
)
def test_what_is_no_web_address_is_refused(bench, address):
    assert bench.fails(fetch, url=address)


def test_parts_of_an_address():
    assert url("https://Example.ORG/a b".replace(" ", "%20")).target == "/a%20b"
    assert url("http://bücher.example/ä?ü=ß#top").target == "/%C3%A4?%C3%BC=%C3%9F"
    assert url("http://bücher.example").host == "xn--bcher-kva.example"
    assert url("http://[2606:4700::1]:8080/").netloc == "[2606:4700::1]:8080"


def test_redirects_are_followed_a_few_times(inside, site):
    result = inside.call(fetch, url=f"{site}/to/301?/to/307?/plain")
    assert result.text == "Grüße\n"
    assert len(result.evidence["redirects"]) == 2
    assert "more than 5 redirects" in inside.fails(fetch, url=f"{site}/loop")
    assert "only http and https" in inside.fails(fetch, url=f"{site}/to/302?file:///etc/passwd")


def test_a_redirect_elsewhere_takes_no_secrets_along(inside):
    with serving() as (first, _), serving() as (second, seen):
        headers = {"Authorization": "Bearer s", "Cookie": "c", "X-Other": "kept"}
        inside.call(fetch, url=f"{first}/to/302?{second}/plain", headers=headers)
        assert {"Authorization", "Cookie"} & set(seen[0][2]) == set()
        assert seen[0][2]["X-Other"] == "kept"
        assert seen[0][2]["Host"] == second.removeprefix("http://")


@pytest.mark.parametrize(
    ("status", "method", "body"), [(303, "GET", b""), (302, "GET", b""), (307, "POST", b"hi")]
)
def test_a_redirected_post(inside, status, method, body):
    with serving() as (address, seen):
        inside.call(fetch, url=f"{address}/to/{status}?/plain", method="POST", body="hi")
        assert (seen[1][0], seen[1][3]) == (method, body)


def test_methods_headers_and_bodies(inside):
    with serving() as (address, seen):
        inside.call(fetch, url=f"{address}/json", method="POST", body='{"x": 1}', headers={"X-A": "b"})
        method, _, headers, body = seen[0]
        assert (method, body, headers["X-A"]) == ("POST", b'{"x": 1}', "b")
        assert headers["Content-Type"] == "application/json"
        assert "content-length: 8" in inside.call(fetch, url=f"{address}/json", method="HEAD").text


@pytest.mark.parametrize(
    "args",
    [
        {"method": "GET", "body": "x"},
        {"headers": {"Host": "evil"}},
        {"headers": {"content-length": "5"}},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"X Y": "a"}},
        {"headers": {"X": "ü"}},
        {"method": "POST", "body": "\ud800"},
    ],
)
def test_requests_that_are_refused(inside, site, args):
    assert inside.fails(fetch, url=f"{site}/plain", **args)


@pytest.mark.parametrize("page", ["big", "endless", "bomb"])
def test_an_answer_that_is_too_long_is_refused(inside, site, page):
    with within(5):
        assert "longer than 10 MB" in inside.fails(fetch, url=f"{site}/{page}")


def test_a_server_that_drips_is_cut_off(inside, site):
    object.__setattr__(inside, "timeout", 1.0)
    with within(3):
        assert "no whole answer within" in inside.fails(fetch, url=f"{site}/drip")


@pytest.mark.night
def test_a_server_that_never_answers_is_left(inside):
    object.__setattr__(inside, "timeout", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "no whole answer within" in inside.fails(fetch, url=f"http://127.0.0.1:{port}/")
        assert "no whole answer within" in inside.fails(fetch, url=f"https://127.0.0.1:{port}/")


@pytest.mark.parametrize(("page", "message"), [("torn", "broke off"), ("brotli", "packed as br")])
def test_a_broken_answer_is_reported(inside, site, page, message):
    assert message in inside.fails(fetch, url=f"{site}/{page}")


def test_what_is_not_there_is_reported(inside):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "connection was refused" in inside.fails(fetch, url=f"http://127.0.0.1:{port}/")
    assert "no such host" in inside.fails(fetch, url="http://nothing.invalid/")


def test_https_to_a_server_that_speaks_none_is_reported(inside, site):
    assert inside.fails(fetch, url=site.replace("http:", "https:"))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("data:,hello%20you", "hello you"),
        ("data:text/plain;charset=utf-8,%C3%BC", "ü"),
        ("data:text/plain;base64,aGVsbG8=", "hello"),
        ("data:text/html,<b>bold</b>", "bold"),
    ],
)
def test_a_data_address_holds_its_own_page(bench, address, text):
    assert bench.call(fetch, url=address).text == text


def test_a_broken_data_address_is_reported(bench):
    assert "base64" in bench.fails(fetch, url="data:text/plain;base64,!!!")
    assert "such as data:" in bench.fails(fetch, url="data:nothing")


def test_urls_of_redirects_are_joined():
    assert url("https://a.example/x/y").joined("../z?q#f").text == "https://a.example/z?q"
    with pytest.raises(OperationFailed):
        url("https://a.example/").joined("mailto:x@y")
