"""The way of a request to a model: proxies, certificates, addresses, and headers."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from in_process import in_process
from lanes import until
from llm_server import Answer, LlmServer

from kernel.errors import ConfigurationError, ProviderError
from runtime.http_transport import BUNDLE, transport
from runtime.models.litellm import LiteLLM
from runtime.models.openai_client import OpenAI

AWAY = "models.invalid"
"""The name of a host that only a proxy reaches."""
UNSET = tuple(f"{name}_proxy" for name in ("http", "https", "all", "no"))
Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*UNSET, *map(str.upper, UNSET), "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")


def openai(address: str, **settings: Any) -> OpenAI:
    return OpenAI("openai/m", api_base=address, **{"backoff": 0.01, "retries": 1, **settings})


def litellm(address: str, **settings: Any) -> LiteLLM:
    return LiteLLM("openai/m", api_base=address, **{"backoff": 0.01, "retries": 1, **settings})


CLIENTS = pytest.mark.parametrize("make", [openai, litellm])


# ---- addresses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("{host}/v1/", "/v1/chat/completions"),
        ("{host}", "/chat/completions"),
        ("{host}/v1/chat/completions", "/v1/chat/completions"),
        ("{host}/v1/chat/completions/", "/v1/chat/completions"),
        ("{bare}/v1", "/v1/chat/completions"),
        (' "{host}/v1"\r\n', "/v1/chat/completions"),
        ("{host}/a%20b/v1", "/a%20b/v1/chat/completions"),
        ("{host}/d?api-version=2025-04-01", "/d/chat/completions?api-version=2025-04-01"),
        ("{host}/d/chat/completions?a=1&b=2", "/d/chat/completions?a=1&b=2"),
    ],
)
async def test_requests_go_where_the_address_means(
    llm_server: LlmServer, make_ask: Ask, written: str, path: str
) -> None:
    llm_server.say("yes")
    model = openai(written.format(host=llm_server.host, bare=llm_server.host.removeprefix("http://")))
    await model.answer(make_ask())
    assert [asked for asked, _, _ in llm_server.requests] == [path]
    until(lambda: llm_server.gets != [])
    assert llm_server.gets[0] == path.replace("chat/completions", "models")


@CLIENTS
def test_an_address_that_cannot_be_meant_is_refused_at_once(make: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"openai/m: api_base: .*not with ftp://"):
        make("ftp://example.org")


async def test_a_password_in_an_address_is_neither_told_nor_kept(
    llm_server: LlmServer, make_ask: Ask, tmp_path: Path
) -> None:
    from runtime.models.servers import Servers

    llm_server.pages["/v1/models?key=qhidden99"] = {"data": [{"id": "m", "max_model_len": 9000}]}
    llm_server.fail(400, message="no")
    address = llm_server.url.replace("//", "//me:phidden99@") + "?key=qhidden99"
    model = openai(address, servers=Servers(tmp_path / "servers.json"))
    with pytest.raises(ProviderError) as failed:
        await model.answer(make_ask())
    assert "hidden99" not in str(failed.value) and llm_server.url in str(failed.value)
    model.ask_window()
    assert "9000" in (kept := (tmp_path / "servers.json").read_text()) and "hidden99" not in kept


# ---- proxies ---------------------------------------------------------------------------------------------


@CLIENTS
async def test_a_server_on_this_machine_is_asked_without_a_proxy(
    llm_server: LlmServer, make_ask: Ask, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "[::1],fd00::/8")
    llm_server.say("yes")
    assert (await make(llm_server.url).answer(make_ask())).text == "yes"


@CLIENTS
async def test_any_other_server_is_asked_through_the_proxy(
    llm_server: LlmServer, make_ask: Ask, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    monkeypatch.setenv("http_proxy", f'"{llm_server.host}"')
    llm_server.say("yes")
    assert (await make("http://models.invalid/v1").answer(make_ask())).text == "yes"
    assert llm_server.requests[0][0] == "http://models.invalid/v1/chat/completions"


@CLIENTS
async def test_what_goes_wrong_on_the_way_names_the_proxy(
    make_ask: Ask, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:phidden99@127.0.0.1:9")
    with pytest.raises(ProviderError, match=r"the proxy http://127.0.0.1:9 of HTTP_PROXY") as failed:
        await make("http://models.invalid/v1").answer(make_ask())
    assert "hidden99" not in str(failed.value)


@CLIENTS
async def test_a_proxy_of_no_use_ends_the_call_at_once(
    make_ask: Ask, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks4://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="ALL_PROXY names a proxy with socks4://"):
        await make("http://models.invalid/v1").answer(make_ask())


@contextmanager
def socks(to: int) -> Iterator[tuple[int, list[bytes]]]:
    """A SOCKS5 proxy that connects to one port, whatever is asked for; its own port, and the hosts."""
    asked: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        while piece := source.recv(65536):
            target.sendall(piece)

    def serve() -> None:
        with server.accept()[0] as near, socket.create_connection(("127.0.0.1", to)) as far:
            near.recv(2 + 255)
            near.sendall(b"\x05\x00")
            asked.append(near.recv(512)[5:-2])
            near.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
            threading.Thread(target=pump, args=(far, near), daemon=True).start()
            pump(near, far)

    with server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], asked


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks"])
async def test_a_socks_proxy_is_used(
    llm_server: LlmServer, make_ask: Ask, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    pytest.importorskip("socksio")
    llm_server.say("yes")
    with socks(int(llm_server.host.rpartition(":")[2])) as (port, asked):
        monkeypatch.setenv("ALL_PROXY", f"{scheme}://127.0.0.1:{port}")
        model = openai("http://models.invalid/v1", context=8000)
        assert (await model.answer(make_ask())).text == "yes"
    assert asked == [b"models.invalid"]


# ---- certificates ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and another host that nobody has signed, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(AWAY)]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "own.pem"
    form = serialization.PrivateFormat.PKCS8
    raw = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + raw)
    return path


@pytest.fixture
def tls(certificate: Path) -> Iterator[str]:
    """The address of a model's server with this certificate."""

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            message = {"role": "assistant", "content": "yes"}
            raw = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            """Print no log."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.handle_error = lambda *_: None  # a client that does not trust it hangs up
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"https://localhost:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@CLIENTS
async def test_a_certificate_that_is_not_trusted_says_what_to_set(
    tls: str, make_ask: Ask, make: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigurationError, match=r"not trusted .*ca_bundle or SSL_CERT_FILE"):
        await make(tls).answer(make_ask())


@CLIENTS
async def test_certificates_of_the_settings_are_trusted_beside_the_usual_ones(
    tls: str, certificate: Path, make_ask: Ask, make: Callable[..., Any]
) -> None:
    assert (await make(tls, ca_bundle=str(certificate)).answer(make_ask())).text == "yes"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_certificates_of_a_variable_are_trusted(
    tls: str, certificate: Path, make_ask: Ask, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(certificate))
    assert (await openai(tls).answer(make_ask())).text == "yes"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
async def test_missing_certificates_are_named(
    make_ask: Ask, llm_server: LlmServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/nowhere/ca.pem")
    with pytest.raises(ConfigurationError, match=f"{name} names /nowhere/ca.pem, which does not exist"):
        await openai("https://127.0.0.1:9/v1").answer(make_ask())
    llm_server.say("yes")
    assert (await openai(llm_server.url).answer(make_ask())).text == "yes", "plain HTTP needs none"


@pytest.fixture
def tunnel(tls: str) -> Iterator[str]:
    """The address of a proxy that connects everybody with that server."""

    class Tunnel(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            with socket.create_connection(("127.0.0.1", httpx.URL(tls).port or 0)) as server:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_pass, args=(server, self.connection), daemon=True)
                back.start()
                _pass(self.connection, server)
                back.join()

        def log_message(self, format: str, *args: Any) -> None:
            """Print no log."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Tunnel)
    threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{proxy.server_port}"
    proxy.shutdown()
    proxy.server_close()


def _pass(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            to.sendall(piece)
        to.shutdown(socket.SHUT_WR)


@CLIENTS
async def test_a_server_with_tls_is_reached_through_a_proxy(
    tunnel: str, certificate: Path, make_ask: Ask, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    monkeypatch.setenv("https_proxy", tunnel)
    assert (await make(f"https://{AWAY}/v1", ca_bundle=str(certificate)).answer(make_ask())).text == "yes"
    with pytest.raises(ConfigurationError, match="not trusted"):
        await make(f"https://{AWAY}/v1").answer(make_ask())


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
async def test_all_clients_reach_it_through_a_proxy(
    tunnel: str, certificate: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    package = pytest.importorskip(name)
    monkeypatch.setenv("https_proxy", tunnel)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with package.AsyncClient(transport=transport(package)) as client:
        assert (await client.post(f"https://{AWAY}/v1")).is_success
    with package.Client(transport=transport(package)) as client:
        assert client.post(f"https://{AWAY}/v1").is_success


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
async def test_the_certificates_of_a_model_are_for_no_other_server(
    tls: str, certificate: Path, make_ask: Ask, name: str
) -> None:
    package = pytest.importorskip(name)
    assert (await litellm(tls, ca_bundle=str(certificate)).answer(make_ask())).text == "yes"
    BUNDLE.set(str(certificate))  # as that call has done in this task
    async with package.AsyncClient(transport=transport(package)) as client:
        with pytest.raises(ConfigurationError, match="of your network by SSL_CERT_FILE"):
            await client.post(tls)


async def test_a_file_without_certificates_is_named(make_ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ConfigurationError, match=r"ca_bundle names .*ca.pem.* in the form PEM"):
        await openai("https://127.0.0.1:9/v1", ca_bundle=str(tmp_path / "ca.pem")).answer(make_ask())


async def test_a_server_that_speaks_no_tls_is_told_at_once(llm_server: LlmServer, make_ask: Ask) -> None:
    with pytest.raises(ConfigurationError, match=r"does not speak TLS; .*http://"):
        await openai(llm_server.url.replace("http:", "https:")).answer(make_ask())


async def test_an_error_does_not_show_the_password_of_an_address(
    llm_server: LlmServer, make_ask: Ask
) -> None:
    llm_server.fail(400, "no user bob:a-pass-word-99 here")
    with pytest.raises(ProviderError, match="no user bob:") as told:
        await openai(llm_server.url.replace("http://", "http://bob:a-pass-word-99@"), retries=0).answer(
            make_ask()
        )
    assert "a-pass-word-99" not in str(told.value)


# ---- headers ---------------------------------------------------------------------------------------------


@CLIENTS
async def test_headers_of_the_settings_are_sent(
    llm_server: LlmServer, make_ask: Ask, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    monkeypatch.setenv("GATEWAY_TEAM", "blue\r\n")
    llm_server.say("yes")
    model = make(llm_server.url, headers={"X-Team": "${GATEWAY_TEAM}", "X-Site": "${NOT_SET_HERE:-home}"})
    await model.answer(make_ask())
    sent = llm_server.requests[0][1]
    assert (sent["x-team"], sent["x-site"], sent["authorization"]) == ("blue", "home", "Bearer sk-of-a-test")


@pytest.mark.parametrize(
    ("headers", "key", "sent"),
    [
        ({"Authorization": "Token abc"}, "sk-of-a-test", "Token abc"),
        ({"authorization": ""}, "sk-of-a-test", None),
        ({"api-key": "abc"}, "", None),
        ({"api-key": "abc"}, "sk-of-a-test", "Bearer sk-of-a-test"),
        ({}, "", "Bearer none"),
    ],
)
async def test_a_header_can_stand_for_the_key(
    llm_server: LlmServer,
    make_ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    key: str,
    sent: str | None,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    llm_server.say("yes")
    await openai(llm_server.url, headers=headers).answer(make_ask())
    assert llm_server.requests[0][1].get("authorization") == sent


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"X-Key": "${NOT_SET_HERE}"}, "X-Key: the environment variable NOT_SET_HERE is not set"),
        ({"X-Key": "se\u2013cret99"}, "X-Key: its value holds a character that is no printable ASCII"),
        ({"X Key": "secret99"}, "'X Key' is no name of a header"),
    ],
)
async def test_a_header_that_cannot_be_sent_is_refused_without_its_value(
    llm_server: LlmServer, make_ask: Ask, headers: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        await openai(llm_server.url, headers=headers).answer(make_ask())
    assert "cret99" not in str(refused.value) and llm_server.count == 0


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_to_a_page_is_told_at_once(
    llm_server: LlmServer, make_ask: Ask, status: int
) -> None:
    to = {"Location": "http://127.0.0.1:9/login?next=/v1"}
    llm_server.always(lambda body: Answer(status=status, raw=b"", headers=to))
    model = OpenAI("openai/m", api_base=llm_server.url, backoff=0.01)
    with pytest.raises(ConfigurationError, match=rf"redirects to http://127.0.0.1:9/login.* {status}"):
        await model.answer(make_ask())
    assert llm_server.count == 1


async def test_headers_do_not_follow_a_redirect_to_another_server(
    llm_server: LlmServer, make_ask: Ask
) -> None:
    other = LlmServer()
    with other.running():
        other.say("yes")
        location = {"Location": f"{other.url}/chat/completions"}
        llm_server.queue(Answer(status=307, headers=location))
        model = openai(llm_server.url, headers={"X-Key": "hidden99", "Cookie": "a=hidden99"})
        assert (await model.answer(make_ask())).text == "yes"
    assert llm_server.requests[0][1]["x-key"] == "hidden99"
    assert "hidden99" not in str(other.requests) and "sk-of-a-test" not in str(other.requests)


def test_doctor_names_the_proxy_and_wants_no_key_that_is_not_needed(tmp_path: Path) -> None:
    rungs = [
        {"model": "openai/far", "api_base": "http://models.invalid/v1", "headers": {"api-key": "abc"}},
        {"model": "openai/near", "api_base": "127.0.0.1:9/v1"},
        {"model": "groq/m", "key_command": "printf key"},
    ]
    environ = {**os.environ, "HTTP_PROXY": "http://me:phidden99@proxy.invalid:3128", "OPENAI_API_KEY": ""}
    environ |= {"FRACTAL_LADDER": json.dumps(rungs), "GROQ_API_KEY": "", "FRACTAL_SANDBOX": "off"}
    checks = json.loads(in_process(tmp_path, ["doctor", "--json"], environ).out)
    found = {each["name"]: f"{each}" for each in checks}
    assert "no key" not in found["model"]
    assert "openai/far through the proxy http://proxy.invalid:3128 of HTTP_PROXY" in found["proxy"]
    assert "near" not in found["proxy"] and "hidden99" not in str(checks)
