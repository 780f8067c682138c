"""Any server that speaks OpenAI's protocol, through `httpx`. Replies are streamed.

The `openai` package is not used: importing it takes as long as half a short run (docs/benchmarks.md, "Other
frameworks"). `httpx` is imported at the first ask.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from kernel.asking.native import object_of
from kernel.asking.responder import Ask, Reply
from kernel.document.amounts import whole
from kernel.document.escaping import to_json
from kernel.errors import ProviderError
from runtime.models import dialects
from runtime.models.endpoints import ALIASES, ENDPOINTS, OWN
from runtime.models.prices import usage
from runtime.models.provider import SCHEMA_TOKENS, Provider, encodable
from runtime.models.window import in_answer, in_props, in_table
from runtime.received import ACCEPTED, held, hold
from runtime.secrets.known import secret_of

if TYPE_CHECKING:
    import httpx

WINDOW_SECONDS = 5.0
"""The longest wait for each piece of a server's list of models."""
ASKED_AGAIN = 86_400
"""Seconds after which a server is asked again: it may have been started in another way."""
NO_PAGE = 404
LARGEST_LIST = 4_000_000
"""Bytes of that list that are read."""
DONE = "[DONE]"
"""The last event of a stream."""
LARGEST_ERROR = 100_000
"""Characters of an error's answer that are read as JSON."""


class RefusedRequest(Exception):
    """The server answered with an error; `body` is its JSON object, or empty."""

    def __init__(self, text: str, status: int | None, headers: Mapping[str, str]) -> None:
        self.status_code, self.response = status, headers
        self.body = _error_in(text)
        super().__init__(" ".join(text[:300].split()) or f"the server answered with the status {status}")


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
        self._key = known.key  # also for an address of one's own: no other provider's key is sent there
        name = f"{provider}/{rest}" if slash else model
        super().__init__(name, **{"name": model, "tools": native, **settings})
        self.url = self.api_base or known.url
        self._asked: Thread | None = None
        self._client: tuple[httpx.AsyncClient, asyncio.AbstractEventLoop] | None = None

    @property
    def key_name(self) -> str:
        """The environment variable with the key; "" if the server needs none."""
        return self.key_env or self._key

    def dialect(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A conversation with native calls as this provider wants it."""
        google = self.endpoint is ENDPOINTS["gemini"] and dialects.for_signatures(self.model)
        return dialects.signed(messages) if google else super().dialect(messages)

    async def load(self) -> None:
        """Import the package in a thread, and make its client: that takes longer than some time-outs."""
        await asyncio.to_thread(_httpx)
        self._connected()
        self.warm()

    def warm(self) -> None:
        """Begin to ask the server for its window, once. Nobody waits for the answer."""
        if self._asked is None:
            self._asked = Thread(target=self.ask_window, daemon=True)
            self._asked.start()

    def ask_window(self) -> None:
        """Ask the server for its window, if nothing better is known, and remember the answer for a day.

        What goes wrong means that it does not say.
        """
        if self.context or (in_table(self.model) and not self.api_base and not self.is_local):
            return
        if "window" in self.servers.known(self.server, ASKED_AGAIN):
            return
        with suppress(Exception):  # an answer from outside, which nothing depends on
            name, timeout = self.model.partition("/")[2] or self.model, WINDOW_SECONDS
            headers = {"Authorization": f"Bearer {self._bearer()}", **ACCEPTED}
            hooks = {"response": [lambda response: hold(response, LARGEST_LIST, _httpx())]}
            verify = not self.url.startswith("http://")
            with _httpx().Client(
                headers=headers, timeout=timeout, event_hooks=hooks, verify=verify
            ) as client:
                answer = client.get(f"{self.url.rstrip('/')}/models")
                if answer.is_error and answer.status_code != NO_PAGE:  # another time it may say it
                    return
                window, trained = in_answer(answer.json(), name)
                if not window and trained:  # llama.cpp: the server may have been started with less
                    props = client.get(f"{self.url.rstrip('/').removesuffix('/v1')}/props")
                    window = in_props(props.json()) if props.is_success else None
            self.servers.learn(self.server, window=window or trained or 0)

    def _bearer(self) -> str:
        """The key; a server on the user's own machine needs none."""
        if self.endpoint.local and not self.key_env:
            return (self.key_name and secret_of(self.key_name)) or "none"
        return self.key(self.key_name)

    async def send(self, ask: Ask, seconds: float) -> Reply:
        """Make one call and read the stream of its reply."""
        begun, received = time.monotonic(), _Received()
        async with _limit(seconds, f"the reply was not complete within {seconds:g} s"):
            async with self._patience(received, begun):
                client = self._connected()
                request = client.build_request("POST", "chat/completions", json=self._request(ask))
                response = await client.send(request, stream=True)
            try:
                if response.is_error:
                    text = (await response.aread()).decode("utf-8", "replace")
                    raise RefusedRequest(text, response.status_code, response.headers)
                if "event-stream" in response.headers.get("content-type", ""):
                    await self._follow(_events(response), received, ask, begun)
                else:  # a server that does not stream
                    received.take_whole(json.loads(await response.aread()), ask)
            finally:
                await response.aclose()
        return self._reply(ask, received)

    async def _follow(self, events: AsyncIterator[str], received: _Received, ask: Ask, begun: float) -> None:
        """Take the events of a stream until its end, or until the next one takes too long."""
        while True:
            async with self._patience(received, begun):
                event = await anext(events, None)
            if event is None:
                break
            if event == DONE:
                received.finish = received.finish or ("stop" if received.begun else "")
                break
            received.take(json.loads(event), ask)
        if not received.finish:
            raise ConnectionResetError("the stream ended in the middle of the reply")

    def _patience(self, received: _Received, begun: float) -> AbstractAsyncContextManager[None]:
        """The limit for the next piece of a reply; until the first one, that for all since `begun`."""
        first, idle = self.timeout.first_token, self.timeout.idle
        if received.begun:
            return _limit(idle, f"the reply stalled within {idle:g} s")
        return _limit(begun + first - time.monotonic(), f"no reply began within {first:g} s")

    def _connected(self) -> httpx.AsyncClient:
        """The client. Its connections belong to one event loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[1] is not loop:
            timeout = _httpx().Timeout(self.timeout.total, connect=self.timeout.connect)
            client = _httpx().AsyncClient(
                base_url=self.url,
                headers={"Authorization": f"Bearer {self._bearer()}", **ACCEPTED},
                event_hooks={"response": [held]},
                timeout=timeout,
                follow_redirects=True,
                verify=not self.url.startswith("http://"),  # certificates take time to load
            )
            self._client = client, loop
        return self._client[0]

    def _request(self, ask: Ask) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model.partition("/")[2] or self.model,
            "messages": self.messages(ask),
            self.endpoint.limit: self.longest(ask),
            "stream": True,
            **self.optional(ask, self._form(ask)),
        }
        if "stream_options" not in self.refused:
            request["stream_options"] = {"include_usage": True}
        return request | self.options

    def _form(self, ask: Ask) -> dict[str, Any]:
        """The schema of the reply if it is small, else any JSON object."""
        wanted = self.schema_of(ask)
        if self.count(json.dumps(wanted)) > SCHEMA_TOKENS:
            return {"type": "json_object"}
        schema = {"name": "reply", "schema": wanted, "strict": False}
        return {"type": "json_schema", "json_schema": schema}

    def _reply(self, ask: Ask, received: _Received) -> Reply:
        # halves of a surrogate pair may have come in two pieces
        calls = [(each.name, encodable(each.arguments)) for each in received.calls]
        text = self.text_of(ask, calls, encodable(received.text))
        used = received.used
        prompt, completion = self.tokens(ask, used.get("prompt_tokens"), used.get("completion_tokens"), text)
        details = used.get("prompt_tokens_details")
        cached = whole(details.get("cached_tokens"), 0, prompt) if isinstance(details, dict) else 0
        cost = usage(prompt, completion, self.price, cached)
        if received.refusal:
            raise ProviderError(
                f"{self.name}: the model refuses: {received.refusal[:300]}; rephrase the task", cost
            )
        if received.finish == "content_filter":
            raise self.withheld(cost)
        return Reply(text, self.name, cost, received.finish == "length")


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


async def _events(response: httpx.Response) -> AsyncGenerator[str]:
    """The data of each server-sent event; this protocol puts each on one line.

    Only line feeds end a line: a text may hold U+2028 and others that Python counts as such.
    """
    rest = ""
    async for text in response.aiter_text():
        *lines, rest = f"{rest}{text}".split("\n")
        for line in lines:
            if data := line.removeprefix("data:").strip() if line.startswith("data:") else "":
                yield data
    if data := rest.removeprefix("data:").strip() if rest.startswith("data:") else "":
        yield data


@dataclass
class _Call:
    """What has come of a call so far."""

    id: str
    name: str = ""
    arguments: str = ""

    def ends_before(self, name: str, id: str) -> bool:
        """Whether a piece with a name and this id begins another call."""
        if id and self.id:
            return id != self.id
        return bool(self.arguments) and (name != self.name or object_of(self.arguments) is not None)


class _Received:
    """What has come of a reply so far."""

    def __init__(self) -> None:
        self.text = self.refusal = ""
        self.calls: list[_Call] = []
        self._last: dict[str | None, _Call] = {}  # the latest call of each place, and of all
        self.begun = False  # whether a piece of it, or of the model's thinking, has come
        self.finish = ""
        self.used: dict[str, Any] = {}

    def take_whole(self, answer: Any, ask: Ask) -> None:
        """Take an answer that came in one piece. Raises `ValueError` if it has no reply."""
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not choices:
            raise ValueError("the answer has no reply")
        choice = cast(dict[str, Any], choices[0])
        finish = choice.get("finish_reason") or "stop"
        self.take({**answer, "choices": [{"delta": choice.get("message"), "finish_reason": finish}]}, ask)

    def take(self, chunk: Any, ask: Ask) -> None:
        """Take the next piece. Raises `RefusedRequest` for an error in the middle of a stream."""
        if chunk.get("error"):
            raise RefusedRequest(json.dumps(chunk), None, {})
        used = chunk.get("usage")
        self.used = cast(dict[str, Any], used) if used and isinstance(used, dict) else self.used
        for choice in chunk.get("choices") or ():
            self.finish = choice.get("finish_reason") or self.finish
            delta: Mapping[str, Any] = choice.get("delta") or {}
            self.begun = self.begun or any(value for name, value in delta.items() if name != "role")
            if text := _text_in(delta.get("content")):
                self.text += text
                ask.on_text(text)
            self.refusal += delta.get("refusal") or ""
            for call in delta.get("tool_calls") or ():
                self._take_call(call, ask)

    def _take_call(self, piece: Mapping[str, Any], ask: Ask) -> None:
        """Take a piece of a call: of a new one, or more of one that has begun.

        Some servers number all calls 0 or none, and some repeat the name in each piece.
        """
        function: Mapping[str, Any] = piece.get("function") or {}
        name, given = function.get("name") or "", function.get("arguments") or ""
        given = given if isinstance(given, str) else to_json(given)
        place, id = piece.get("index"), piece.get("id") or ""
        call = self._last.get(None if place is None else str(place))
        if call is None or (name and call.ends_before(name, id)):
            call = _Call(id)
            self.calls.append(call)
            self._last[None] = call
            if place is not None:
                self._last[str(place)] = call
        call.name += "" if name == call.name else name
        call.arguments += given
        ask.on_text(f"{name} {given}" if name else given)


def _text_in(content: Any) -> str:
    """The text of a message; some servers send it in parts."""
    if isinstance(content, list):
        parts = cast(list[Any], content)
        return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
    return content or ""


def _error_in(text: str) -> dict[str, Any]:
    """The error object of an answer; empty if there is none."""
    try:
        answer: Any = json.loads(text[:LARGEST_ERROR])
    except ValueError:
        return {}
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    return cast(dict[str, Any], error) if isinstance(error, dict) else {"message": str(error or "")}


def _httpx() -> Any:
    # the libraries of its command line take 4 MB and a third of its import; it allows for their absence
    sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType]
    import httpx

    return httpx
