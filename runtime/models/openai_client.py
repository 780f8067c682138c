"""Any server that speaks OpenAI's protocol, through the `openai` package. Replies are streamed.

The package is imported at the first ask, or by `warm` in a thread. Only the call itself uses the network.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from kernel.asking.responder import Ask, Reply
from kernel.errors import ConfigurationError
from runtime.models.endpoints import ALIASES, ENDPOINTS, OWN
from runtime.models.prices import usage
from runtime.models.provider import SCHEMA_TOKENS, Provider


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
        native = self.endpoint.native if native is None else native
        name = f"{provider}/{rest}" if slash else model
        super().__init__(name, **{"name": model, "native": native, **settings})
        self.url = self.api_base or known.url
        self._client: tuple[Any, asyncio.AbstractEventLoop] | None = None

    @staticmethod
    def warm() -> None:
        """Import the package; call it in a thread while something else is prepared."""
        _openai()

    async def load(self) -> None:
        """Import the package in a thread, and make its client: that takes longer than some time-outs."""
        await asyncio.to_thread(_openai)
        self._connected()

    async def send(self, ask: Ask, seconds: float) -> Reply:
        """Make one call and read the stream of its reply."""
        limits, received = self.timeout, _Received()
        async with _limit(seconds, "the reply was not complete"):
            async with _limit(limits.first_token, "no reply began"):
                stream = await self._connected().chat.completions.create(**self._request(ask))
                chunks: AsyncIterator[Any] = stream.__aiter__()
                streams = "event-stream" in stream.response.headers.get("content-type", "")
                more = await received.next(chunks, ask) if streams else False
                if not streams:  # a server that does not stream
                    received.take(json.loads(await stream.response.aread()), ask)
            while more:
                async with _limit(limits.idle, "the reply stalled"):
                    more = await received.next(chunks, ask)
        return self._reply(ask, received)

    def _connected(self) -> Any:
        """The client of the package. Its connections belong to one event loop."""
        openai, loop = _openai(), asyncio.get_running_loop()
        if self._client is None or self._client[1] is not loop:
            variable = self.key_env or self.endpoint.key
            optional = self.endpoint.local or self.endpoint is OWN
            key = os.environ.get(variable or "OPENAI_API_KEY", "") if optional and not self.key_env else ""
            timeout = openai.Timeout(self.timeout.total, connect=self.timeout.connect)
            key = key or ("none" if optional and not self.key_env else self.key(variable))
            client = openai.AsyncOpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=timeout)
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
        prompt, completion = self.tokens(ask, used, text)
        cached = getattr(getattr(used, "prompt_tokens_details", None), "cached_tokens", 0) or 0
        cost = usage(prompt, completion, self.price, cached)
        if received.finish == "content_filter":
            raise self.withheld(cost)
        return Reply(text, self.name, cost, received.finish == "length")


@asynccontextmanager
async def _limit(seconds: float, what: str) -> AsyncGenerator[None]:
    """Raise a `TimeoutError` that says what did not happen in time."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"{what} within {seconds:g} s") from None
        raise


class _Received:
    """What has come of a reply so far."""

    def __init__(self) -> None:
        self.text = ""
        self.calls: dict[int, tuple[str, str]] = {}
        """Name and arguments of each tool call, by its place."""
        self.finish = ""
        self.used: Any = None

    def take(self, answer: dict[str, Any], ask: Ask) -> None:
        """Take a whole answer. Raises `ValueError` if it has no reply."""
        if not (isinstance(answer, dict) and answer.get("choices")):
            raise ValueError("the answer has no reply")
        choice = answer["choices"][0]
        message = choice.get("message") or {}
        self.text, self.finish = message.get("content") or "", choice.get("finish_reason") or "stop"
        for at, call in enumerate(message.get("tool_calls") or ()):
            self.calls[at] = (call["function"]["name"], call["function"].get("arguments") or "")
        self.used = json.loads(
            json.dumps(answer.get("usage")), object_hook=lambda each: SimpleNamespace(**each)
        )
        ask.on_text(self.text)

    async def next(self, chunks: AsyncIterator[Any], ask: Ask) -> bool:
        """Take the next piece; false at the end of the stream."""
        try:
            chunk = await anext(chunks)
        except StopAsyncIteration:
            if not self.finish:
                raise ConnectionResetError("the stream ended in the middle of the reply") from None
            return False
        self.used = getattr(chunk, "usage", None) or self.used
        for choice in chunk.choices:
            self.finish = choice.finish_reason or self.finish
            delta = choice.delta
            if delta is None:
                continue
            if delta.content:
                self.text += delta.content
                ask.on_text(delta.content)
            for call in delta.tool_calls or ():
                name, given = self.calls.get(call.index, ("", ""))
                function = call.function
                new = (function and function.name) or ""
                more = (function and function.arguments) or ""
                self.calls[call.index] = (name + new, given + more)
                ask.on_text(f"{new} {more}" if new else more)
        return True


@cache
def _openai() -> ModuleType:
    try:
        import_module("openai.resources.chat.completions")  # else it is imported within the first call
        return import_module("openai")
    except ImportError as error:
        raise ConfigurationError(f"the package openai cannot be imported: {error}") from None
