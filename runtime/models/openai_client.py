"""Any server that speaks OpenAI's protocol, through `httpx`. Replies are streamed.

The `openai` package is not used: importing it takes as long as half a short run (docs/benchmarks.md, "Other
frameworks"). `httpx` is imported at the first ask.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kernel.asking.responder import Ask, Reply
from runtime.addresses import is_loopback
from runtime.certificates import trusted
from runtime.models import thinking
from runtime.models.answers import Reader
from runtime.models.endpoints import ALIASES, ENDPOINTS, OWN, RESPONSES
from runtime.models.provider import CACHE_KEY, CACHE_MARKS, Provider
from runtime.models.servers import ASKED_AGAIN
from runtime.models.window import in_answer, in_props, in_table, listed_as
from runtime.secrets.known import secret_of

if TYPE_CHECKING:
    import httpx

FIRST_SECONDS = 1.0
"""The longest that a call of a server on this machine waits for what is asked of its window meanwhile."""
WINDOW_SECONDS = 5.0
"""The longest wait for each piece of a server's list of models."""
NO_PAGE = 404
LARGEST_LIST = 4_000_000
"""Bytes of that list that are read."""
TAKE_CACHE_KEY = (".openai.com", ".openai.azure.com")
"""Hosts that take the name of a conversation for their cache."""
LONGEST_KEY = 64
"""Characters of such a name."""
LARGEST_ERROR = 100_000
"""Bytes of an error's answer that are read."""


class OpenAI(Provider):
    """One model behind OpenAI's protocol, such as `openai/gpt-5`, `groq/…`, or any with an `api_base`."""

    def __init__(self, model: str, *, native: bool | None = None, **settings: Any) -> None:
        """Name a model. The other settings are those of `Provider`.

        native: whether its tool calls have the provider's own form; by default that is tried once.
        """
        first, slash, rest = model.partition("/")
        provider = ALIASES.get(first, first) if slash else "openai"
        known, own = ENDPOINTS[provider], settings.get("api_base")
        self.endpoint = OWN if own and not known.local else known
        self.gateway = "" if self.endpoint is OWN else provider
        self._key = known.key  # also for an address of one's own: no other provider's key is sent there
        name = f"{provider}/{rest}" if slash else model
        super().__init__(name, **{"name": model, "tools": native, **settings})
        self.url = self.api_base or known.url
        if "limit" not in self.servers.known(self.server):
            self.limit = self.endpoint.limit
        self._asked: Thread | None = None
        self._client: tuple[httpx.AsyncClient, asyncio.AbstractEventLoop] | None = None

    @property
    def key_name(self) -> str:
        """The environment variable with the key; "" if the server needs none."""
        return self.key_env or self._key

    def caching(self, ask: Ask) -> dict[str, Any]:
        """As every provider's; for OpenAI's servers the name of a conversation, which only grows."""
        parts, host = super().caching(ask), urlsplit(self.url).hostname or ""
        if ask.messages and host.endswith(TAKE_CACHE_KEY) and CACHE_KEY not in self.left_out:
            parts[CACHE_KEY] = f"fractal-{ask.loop}"[:LONGEST_KEY]
        return parts

    @property
    def address(self) -> str:
        """The address that requests go to."""
        return self.url

    async def load(self) -> None:
        """Import the package in a thread, and make its client: that takes longer than some time-outs.

        So do certificates, and a program that prints the key.
        """
        headers = await asyncio.to_thread(self._prepare)
        self._connected(headers)
        self.warm()
        # llama-cpp-python ends a stream for any other request
        if self._asked and self._asked.is_alive() and is_loopback(self.url):
            await asyncio.to_thread(self._asked.join, FIRST_SECONDS)

    def _prepare(self) -> dict[str, str]:
        if self.url.startswith("https://"):
            trusted(self.ca_bundle)
        _connections()
        return self._headers()

    def warm(self) -> None:
        """Begin to ask the server for its window, once. Nobody waits for the answer."""
        if self._asked is None:
            self._asked = Thread(target=self.ask_window, daemon=True)
            self._asked.start()

    def ask_window(self) -> None:
        """Ask the server for its window, if nothing better is known, and remember the answer for a day.

        One on this machine is asked by each process: it may have been started anew with another model, or in
        another way, and then all that was learned of the other one is forgotten. What goes wrong means that
        it does not say.
        """
        if self.context or (in_table(self.model) and not self.api_base and not self.is_local):
            return
        if "window" in self.servers.known(self.server, ASKED_AGAIN) and not is_loopback(self.url):
            return
        with suppress(Exception):  # an answer from outside, which nothing depends on
            name = self.model.partition("/")[2] or self.model
            limits = {"timeout": WINDOW_SECONDS, "most": LARGEST_LIST, "bundle": self.ca_bundle}
            with _connections().blocking_client(self.url, self._headers(), **limits) as client:
                answer = client.get("models")
                if answer.is_error and answer.status_code != NO_PAGE:  # another time it may say it
                    return
                window, trained = in_answer(answer.json(), name)
                if not window and trained:  # llama.cpp: the server may have been started with less
                    props = client.get(f"{str(client.base_url).rstrip('/').removesuffix('/v1')}/props")
                    if props.is_server_error:  # it still loads the model
                        return
                    window = in_props(props.json()) if props.is_success else None
            self._learn_served(window=window or trained or 0, listed=listed_as(answer.json(), name))

    def _learn_served(self, **said: Any) -> None:
        """Remember what a server says of itself; one that says something else than before is another one."""
        before = self.servers.known(self.server)
        if any(before.get(name, each) != each for name, each in said.items()):
            self.servers.forget(self.server)
            self.refused.clear()
            self._longest = 0
        if said.items() - self.servers.known(self.server, ASKED_AGAIN).items():
            self.servers.learn(self.server, **said)

    def _headers(self) -> dict[str, str]:
        """The headers of each request: those of the settings, and the key unless they have another."""
        own = self.own_headers()
        has_key = any(name.lower() == "authorization" for name in own)
        headers = own if has_key else {"Authorization": self._bearer(), **own}
        return {name: value for name, value in headers.items() if value}

    def _bearer(self) -> str:
        """The header with the key; a server on the user's own machine needs none, nor one with headers."""
        optional = self.endpoint.local and not self.key_env and not self.key_command
        key = (self.key_name and secret_of(self.key_name)) if optional else self.key(self.key_name)
        return f"Bearer {key or 'none'}" if key or not self.headers else ""

    async def send(self, ask: Ask, seconds: float) -> Reply:
        """Make one call and read its answer, whether it is a stream or not."""
        begun, reader = time.monotonic(), Reader(ask.on_text, ask.on_thinking)
        async with _limit(seconds, f"the reply was not complete within {seconds:g} s"):
            async with self._patience(reader, begun):
                client = self._connected()
                request = client.build_request("POST", "chat/completions", json=self.request(ask))
                response = await client.send(request, stream=True)
            try:
                if response.is_success:
                    await self._follow(response, reader, begun)
                else:
                    reader.take((await response.aread())[:LARGEST_ERROR])
            finally:
                await response.aclose()
            answer = reader.end(response.status_code)
            if answer.finish in ("broken", "cut"):
                await _hang_up(response)
        return self.reply_of(ask, answer, response.headers)

    async def _follow(self, response: httpx.Response, reader: Reader, begun: float) -> None:
        """Read an answer until its end, or until the next piece takes too long.

        A reply that is complete is taken, whatever happens to the connection afterwards.
        """
        pieces = response.aiter_bytes()
        try:
            while not reader.done:
                async with self._patience(reader, begun):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                if piece.startswith(b":") and not reader.begun:  # a comment: the server says that it works
                    begun = time.monotonic()
                reader.take(piece)
        except (_connections().httpx.TransportError, OSError):  # also a limit of time
            if not reader.complete:
                raise

    def _patience(self, reader: Reader, begun: float) -> AbstractAsyncContextManager[None]:
        """The limit for the next piece of a reply; until the first one, that for all since `begun`."""
        first, idle = self.timeout.first_token, self.timeout.idle
        first += self.thinking_tokens / thinking.SPEED  # some servers are silent meanwhile
        first = self.timeout.total if "stream" in self.left_out else first
        if reader.begun:
            return _limit(idle, f"the reply stalled within {idle:g} s")
        return _limit(begun + first - time.monotonic(), f"no reply began within {first:g} s")

    def _connected(self, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
        """The client. Its connections belong to one event loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[1] is not loop:
            connections = _connections()
            timeout = connections.httpx.Timeout(self.timeout.total, connect=self.timeout.connect)
            given = self._headers() if headers is None else headers
            made = connections.client(self.url, given, timeout=timeout, bundle=self.ca_bundle)
            self._client = made, loop
        return self._client[0]

    def optional(self, ask: Ask) -> dict[str, Any]:
        """As every provider's, with the parts of a stream, and the name for the cache."""
        stream = {"stream": True, "stream_options": {"include_usage": True}} | self.caching(ask)
        without = self.left_out | {CACHE_MARKS} | ({"stream_options"} if "stream" in self.left_out else set())
        return {name: each for name, each in stream.items() if name not in without} | super().optional(ask)

    def other_way(self, words: str) -> str:
        """The name by which litellm asks a server that has another API than chat completions."""
        if not (self.api_base or "responses" in words):
            return ""
        return f"; if it has only the Responses API, write openai/{RESPONSES}{self.bare_model}"


@asynccontextmanager
async def _limit(seconds: float, what: str) -> AsyncGenerator[None]:
    """Raise a `TimeoutError` with this text after so many seconds."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(what) from None
        raise


async def _hang_up(response: httpx.Response) -> None:
    """Close the connection of an answer without an end: its server does so, too, perhaps a moment later."""
    if connection := response.extensions.get("network_stream"):
        await connection.aclose()


def _connections() -> Any:
    """The module that makes clients; it imports `httpx`."""
    from runtime.models import connections

    return connections
