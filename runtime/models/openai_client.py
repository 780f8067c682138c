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
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from kernel.asking.responder import Ask, Reply
from kernel.document.amounts import whole
from kernel.document.redaction import secret_of
from kernel.errors import ProviderError
from runtime.models.endpoints import ALIASES, ENDPOINTS, OWN
from runtime.models.prices import usage
from runtime.models.provider import SCHEMA_TOKENS, Provider
from runtime.received import ACCEPTED, held

if TYPE_CHECKING:
    import httpx

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

        native: whether its tool calls have the provider's own form; default by the table of servers.
        """
        first, slash, rest = model.partition("/")
        provider = ALIASES.get(first, first) if slash else "openai"
        known, own = ENDPOINTS[provider], settings.get("api_base")
        self.endpoint = OWN if own and not known.local else known
        self._key = known.key  # also for an address of one's own: no other provider's key is sent there
        native = self.endpoint.native if native is None else native
        name = f"{provider}/{rest}" if slash else model
        super().__init__(name, **{"name": model, "native": native, **settings})
        self.url = self.api_base or known.url
        self._client: tuple[httpx.AsyncClient, asyncio.AbstractEventLoop] | None = None

    @property
    def key_name(self) -> str:
        """The environment variable with the key; "" if the server needs none."""
        return self.key_env or self._key

    async def load(self) -> None:
        """Import the package in a thread, and make its client: that takes longer than some time-outs."""
        await asyncio.to_thread(_httpx)
        self._connected()

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
            optional = self.endpoint.local and not self.key_env
            key = (
                (self.key_name and secret_of(self.key_name)) or "none"
                if optional
                else self.key(self.key_name)
            )
            timeout = _httpx().Timeout(self.timeout.total, connect=self.timeout.connect)
            client = _httpx().AsyncClient(
                base_url=self.url,
                headers={"Authorization": f"Bearer {key}", **ACCEPTED},
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
        if self.count(json.dumps(ask.schema)) > SCHEMA_TOKENS:
            return {"type": "json_object"}
        schema = {"name": "reply", "schema": dict(ask.schema), "strict": False}
        return {"type": "json_schema", "json_schema": schema}

    def _reply(self, ask: Ask, received: _Received) -> Reply:
        text = self.text_of(ask, list(received.calls.values()), received.text)
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
    """The data of each server-sent event; this protocol puts each on one line."""
    async for line in response.aiter_lines():
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data == "[DONE]":
            return
        if data:
            yield data


class _Received:
    """What has come of a reply so far."""

    def __init__(self) -> None:
        self.text = self.refusal = ""
        self.calls: dict[int, tuple[str, str]] = {}
        """Name and arguments of each tool call, by its place."""
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
            for at, call in enumerate(delta.get("tool_calls") or ()):
                place = call.get("index", at)
                name, given = self.calls.get(place, ("", ""))
                function: Mapping[str, Any] = call.get("function") or {}
                new, more = function.get("name") or "", function.get("arguments") or ""
                self.calls[place] = (name + new, given + more)
                ask.on_text(f"{new} {more}" if new else more)


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
