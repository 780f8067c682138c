"""No answer of a server takes more memory than it may have bytes, however it is packed, cut or sent."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, reduce
from pathlib import Path

import pytest
from lanes import NIGHT

from kernel.asking.responder import Ask
from kernel.document.model import Document, Meta
from kernel.errors import ProviderError
from runtime.models.openai_client import OpenAI
from runtime.models.prices import Price
from runtime.received import OF_TOKEN, ROOM, TooLarge, Unpacker, of_reply, unpacked

REPOSITORY = Path(__file__).parents[1]
ROOM_OF_PROCESS = 120
"""Megabytes that an answer may add to a process, with what is imported to read it."""
MEGABYTE = 1_000_000
MORE = 200 * MEGABYTE
"""Bytes that a hostile server would send."""
Send = Callable[[Callable[[bytes], None]], None]


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "Connection: close", "", ""]).encode()


def zipped(kind: str = "gzip", *, unit: bytes = b" ") -> bytes:
    """`MORE` bytes, packed: a block that is packed once, and repeated."""
    block, times = unit * (MEGABYTE // len(unit)), MORE // MEGABYTE
    made = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = (made.compress(block) + made.flush(zlib.Z_FULL_FLUSH)) * times + made.flush()
    if kind == "bare deflate":
        return packed
    if kind == "deflate":
        total = reduce(lambda sum_, _: zlib.adler32(block, sum_), range(times), 1)
        return b"\x78\xda" + packed + struct.pack(">L", total)
    total = reduce(lambda sum_, _: zlib.crc32(block, sum_), range(times), 0)
    return gzip.compress(b"")[:10] + packed + struct.pack("<LL", total, times * len(block))


@cache
def bomb() -> bytes:
    return zipped()


def repeated(first: bytes, block: bytes, last: bytes = b"") -> Send:
    """A sender of `MORE` bytes: blocks of one kind, until the client has had enough."""

    def send(write: Callable[[bytes], None]) -> None:
        write(first)
        sent = 0
        while sent < MORE:
            write(block)
            sent += len(block)
        write(last)

    return send


def once(raw: bytes) -> Send:
    return lambda write: write(raw)


JSON, SSE = "Content-Type: application/json", "Content-Type: text/event-stream"
EVENT = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
LONG_EVENT = EVENT.replace(b"x", b"x" * 10_000)
HOSTILE: dict[str, Callable[[], Send]] = {
    "gzip bomb": lambda: once(head(JSON, "Content-Encoding: gzip") + bomb()),
    "gzip bomb in gzip": lambda: once(head(JSON, "Content-Encoding: gzip, gzip") + gzip.compress(bomb())),
    "deflate bomb": lambda: once(head(JSON, "Content-Encoding: deflate") + zipped("deflate")),
    "bare deflate bomb": lambda: once(head(JSON, "Content-Encoding: deflate") + zipped("bare deflate")),
    "brotli": lambda: once(head(JSON, "Content-Encoding: br") + bomb()),
    "zstd": lambda: once(head(JSON, "Content-Encoding: zstd") + bomb()),
    "gzip bomb as a stream": lambda: once(head(SSE, "Content-Encoding: gzip") + zipped(unit=LONG_EVENT)),
    "gzip bomb as an error": lambda: once(head(JSON, "Content-Encoding: gzip", status="400 Bad") + bomb()),
    "gzip bomb of a redirect": lambda: once(
        head("Location: /v1/chat/completions", "Content-Encoding: gzip", status="307 There") + bomb()
    ),
    "endless body": lambda: repeated(head(JSON), b" " * MEGABYTE),
    "endless text in JSON": lambda: repeated(
        head(JSON) + b'{"choices": [{"message": {"content": "', b"x" * MEGABYTE
    ),
    "endless line of a stream": lambda: repeated(head(SSE) + b"data: ", b"x" * MEGABYTE),
    "endless comments": lambda: repeated(head(SSE), b": alive\n\n" * 100_000),
    "endless blank lines": lambda: repeated(head(SSE), b"\n" * MEGABYTE),
    "endless small events": lambda: repeated(head(SSE), EVENT * 20_000),
    "endless tool calls": lambda: repeated(
        head(SSE),
        b"".join(
            b'data: {"choices": [{"delta": {"tool_calls": [{"index": %d, "function": {"name": "a"}}]}}]}\n\n'
            % n
            for n in range(10_000)
        ),
    ),
    "endless chunks": lambda: repeated(
        head(JSON, "Transfer-Encoding: chunked"), b"186A0\r\n" + b"x" * 100_000 + b"\r\n"
    ),
    "one chunk without end": lambda: repeated(
        head(JSON, "Transfer-Encoding: chunked") + b"7FFFFFFFFFFF\r\n", b"x" * MEGABYTE
    ),
    "endless trailers": lambda: repeated(
        head(JSON, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n" * 10_000
    ),
    "endless head": lambda: repeated(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 100_000),
    "endless line of the head": lambda: repeated(b"HTTP/1.1 200 OK\r\nX-A: ", b"b" * MEGABYTE),
    "a length that is a lie": lambda: repeated(head(JSON, f"Content-Length: {10**15}"), b" " * MEGABYTE),
    "an error without end": lambda: repeated(head(JSON, status="500 No"), b" " * MEGABYTE),
}


@contextmanager
def hostile(send: Send) -> Iterator[str]:
    """A server that answers each request in this way."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    plug, _ = listening.accept()
                except OSError:
                    return
                with plug:
                    try:
                        received = plug.recv(65_536)
                        while b"\r\n\r\n" not in received:
                            received += plug.recv(65_536)
                        send(plug.sendall)
                    except OSError:
                        continue

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        listening.shutdown(socket.SHUT_RDWR)


READ = """
import asyncio, json, resource, sys
from kernel.asking.responder import Ask
from kernel.document.model import Document, Meta
from kernel.errors import FractalError
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

def ask():
    document = Document(Meta("system-abc123", "abc123"))
    return Ask("abc123", "system-abc123", 1, "plan", 0, 0, "system", "user", {}, "", 100, document)

def model(url, client):
    if client == "openai":
        from runtime.models.openai_client import OpenAI
        made = OpenAI("openai/m", api_base=url, key_env="PATH", retries=1, backoff=0.01)
    else:
        from runtime.models.litellm import LiteLLM
        # litellm calls some providers by its own client, and others by the SDK of OpenAI
        name, base = ("ollama/m", url.removesuffix("/v1")) if client == "litellm" else ("deepinfra/m", url)
        made = LiteLLM(name, api_base=base, key_env="PATH", retries=1, backoff=0.01)
    return asyncio.run(made.answer(ask())).text

def fetch(url, client):
    from pathlib import Path
    from runtime.sandbox.context import OperationContext
    from runtime.operations.web import ask as get, url as parsed
    from runtime.operations.walking import Deadline
    where = parsed(url)
    return get(where, [where.host], "GET", {}, None, 10_000_000, Deadline(60)).body.decode()

def tools(url, client):
    from pathlib import Path
    from runtime.mcp.client.configured import Entry
    from runtime.mcp.client.transports import Address
    async def listed():
        from mcp import Client
        import anyio
        address = Address(Entry(name="a", where=Path("a"), transport="http", url=url))
        async with address._client() as client:
            response = await client.get(url)
            return response.text
    return asyncio.run(listed())

def service(url, client):
    from runtime.server.client import Client
    with Client(url.removesuffix("/v1")) as client:
        return client.export_patterns()

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for client, url in json.loads(sys.argv[1]):
    work = {"fetch": fetch, "mcp": tools, "service": service}.get(client, model)
    error = ""
    try:
        text = work(url, client)
    except BaseException as failure:
        text, error = "", f"{type(failure).__name__}: {failure}"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"mb": (after - before) / 1000, "error": error, "size": len(text)}))
"""


@cache
def read(*clients: str) -> dict[tuple[str, str], dict[str, object]]:
    """What clients made of each server, all in one process: its error, and the memory taken until then."""
    pairs = OPENAI if clients == ("openai",) else [pair for pair in NOW if pair[0] in clients]
    with ExitStack() as servers:
        asked = [(client, servers.enter_context(hostile(HOSTILE[way]()))) for client, way in pairs]
        command = [sys.executable, "-c", READ, json.dumps(asked)]
        ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    return dict(zip(pairs, map(json.loads, ran.stdout.splitlines()), strict=True))


IMPORTS = {"openai": 60, "litellm": 400, "litellm by SDK": 400, "fetch": 20, "mcp": 120, "service": 60}
"""Megabytes that a client takes to be imported, generously."""
OPENAI = [("openai", way) for way in HOSTILE]
TOGETHER = [("fetch",), ("mcp",), ("service",), ("litellm", "litellm by SDK")]
"""Clients that are tried in one process: litellm takes seconds to be imported."""


@pytest.mark.parametrize("way", HOSTILE)
def test_model_client_takes_no_more_than_a_reply_may_have(way: str) -> None:
    found = read("openai")["openai", way]
    assert found["error"] and found["size"] == 0, found
    assert float(str(found["mb"])) < ROOM_OF_PROCESS, found


WAYS = ("gzip bomb", "endless body", "deflate bomb", "brotli", "endless chunks", "endless head")
PAIRS = [(client, way) for client in ("fetch", "mcp", "service", "litellm", "litellm by SDK") for way in WAYS]
BY_DAY = {
    ("litellm", "gzip bomb"),
    ("litellm by SDK", "gzip bomb"),
    *((client, way) for client, way in PAIRS[:18] if way in WAYS[:2]),
}
NOW = PAIRS if NIGHT else sorted(BY_DAY)


@pytest.mark.parametrize(
    ("client", "way"),
    [pytest.param(*each, marks=() if each in BY_DAY else pytest.mark.night) for each in PAIRS],
)
def test_every_client_takes_no_more_than_its_bound(client: str, way: str) -> None:
    found = read(*next(each for each in TOGETHER if client in each))[client, way]
    assert found["error"], found
    assert float(str(found["mb"])) < ROOM_OF_PROCESS + IMPORTS[client], found


def test_a_reply_that_is_too_long_is_charged_and_not_asked_for_again() -> None:
    """The provider may have worked on it: it is no free call, and another attempt would bring as much."""
    document = Document(Meta("system-abc123", "abc123"))
    ask = Ask("abc123", "system-abc123", 1, "plan", 0, 0, "system", "user", {}, "", 2_000, document)
    with hostile(HOSTILE["gzip bomb as a stream"]()) as url:
        model = OpenAI("openai/m", api_base=url, key_env="PATH", price=Price(1.0, 1.0), retries=5)
        with pytest.raises(ProviderError, match="longer than 7 MB") as refused:
            asyncio.run(model.answer(ask))
    assert refused.value.usage == model.estimate(ask) and refused.value.usage.calls == 1


@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "x-gzip", "deflate", "GZIP "])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_000_000])
@pytest.mark.parametrize("step", [1_000, 65_536])
def test_what_is_within_the_bound_comes_whole(encoding: str, size: int, step: int) -> None:
    text = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    bits = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
    wbits = bits.get(encoding.lower().strip())
    made = zlib.compressobj(6, zlib.DEFLATED, wbits) if wbits else None
    raw = made.compress(text) + made.flush() if made else text
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)]
    assert b"".join(unpacked(pieces, encoding, 1_000_000)) == text


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_bare_deflate_comes_whole(step: int) -> None:
    made = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    raw = made.compress(b"hello " * 5_000) + made.flush()
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)]
    if step == 1:
        return  # one byte does not tell yet
    assert b"".join(unpacked(pieces, "deflate", 100_000)) == b"hello " * 5_000


def test_bound_is_of_what_is_unpacked() -> None:
    assert of_reply(2_000) == ROOM + 2_000 * OF_TOKEN
    unpacker = Unpacker("gzip", 10)
    with pytest.raises(TooLarge):
        list(unpacker.take(gzip.compress(b"x" * 11)))
    with pytest.raises(TooLarge):
        Unpacker("br", 10)


def test_only_one_module_unpacks_answers() -> None:
    """A client of a server is bounded by `received`: `httpx` is used nowhere without it."""
    for path in (REPOSITORY / "runtime").rglob("*.py"):
        source = path.read_text("utf-8")
        if (
            "httpx.AsyncClient(" in source
            or "httpx.Client(" in source
            or "httpx2.AsyncClient(" in source
            or "_httpx().AsyncClient(" in source
        ):
            assert "runtime.received import" in source, path
        if path.name not in ("received.py",):
            assert "urlopen" not in source or path.parts[-2] == "safety", path
