"""Any model that litellm knows, by name: `anthropic/…`, `ollama/…`, `openai/…` with an `api_base`.

litellm takes seconds to import; it is imported at the first ask, or by `warm` in a thread. Only the call
itself uses the network. Keys come from the environment only.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from kernel.asking.responder import FREE, Ask, Reply, Tier, Usage, Waits
from kernel.document.model import Document
from kernel.errors import ConfigurationError, FractalError, ProviderError
from kernel.loop.budget import estimate_tokens
from runtime.models.prices import (
    LOCAL_PROVIDERS,
    NOTHING,
    Price,
    is_loopback,
    known_price,
    litellm_folder,
    usage,
)

SCHEMA_TOKENS = 100  # larger schemas are described in words; kernel.md, "Prompt"
MESSAGE_TOKENS = 12  # the overhead of two messages
SAMPLING = 0.7  # the temperature of a reply to a small question after the likely one
LONGEST_WAIT = 60.0  # seconds between two attempts, unless the provider asks for more
OLLAMA_CONTEXT = 8192  # Ollama silently truncates longer prompts, so the size is set and checked
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
KEYS = {
    "gemini": "GEMINI_API_KEY",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
    "bedrock": "AWS_ACCESS_KEY_ID",
}
_CLASSES = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?:: | - ))+")


class LiteLLM:
    """One model of a provider or a server."""

    reads_prompt = True

    def __init__(
        self,
        model: str,
        *,
        tier: Tier = "worker",
        name: str = "",
        api_base: str | None = None,
        key_env: str | None = None,
        price: Price | None = None,
        timeout: float = 120.0,
        retries: int = 6,
        backoff: float = 1.0,
        patience: float = 300.0,
        deadline: float | None = None,
        max_tokens: int | None = None,
        thinking_tokens: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Name a model.

        price: None uses litellm's table; a model without an entry is free on a loopback address only.
        timeout: seconds for one call.
        retries: the first after `backoff` seconds, each later one after twice as long.
        patience: seconds for all attempts of one ask.
        deadline: the time of the monotonic clock after which no attempt starts.
        max_tokens: a limit for replies below the ask's.
        thinking_tokens: additional tokens for the model's thinking.
        options: more arguments of litellm.acompletion, such as temperature.
        """
        self.model = model
        self.name = name or model
        self.tier: Tier = tier
        self.api_base = api_base
        self.key_env = key_env
        self.given_price = price
        self.price = price or known_price(model) or (NOTHING if is_loopback(api_base) else None)
        self.timeout, self.retries, self.backoff = timeout, retries, backoff
        self.patience, self.deadline = patience, deadline
        self.max_tokens, self.thinking_tokens = max_tokens, thinking_tokens
        self.options = dict(options or {})
        self.provider = model.partition("/")[0] if "/" in model else "openai"
        self._brake = _brake_of(f"{self.provider} {api_base or ''}")
        self._at = f"{self.name} at {api_base}" if api_base else self.name
        self._forms = True  # False after the provider refused a response_format

    @staticmethod
    def warm() -> None:
        """Import litellm; call it in a thread while something else is prepared."""
        _litellm()

    def offers(self, task: str, document: Document) -> float | None:
        """Accept any attempt."""
        return 0.5

    def count(self, text: str) -> int:
        """Tokens by OpenAI's tokenizer for its models, else by the conservative estimate."""
        encoding = _encoding(self.model)
        if encoding is None:
            return estimate_tokens(text)
        # the tokenizer is slow on long texts
        pieces = (text[at : at + 4096] for at in range(0, len(text), 4096))
        return sum(len(encoding.encode(_encodable(piece), disallowed_special=())) for piece in pieces)

    def estimate(self, ask: Ask) -> Usage:
        """The prompt with its schema and the longest reply, at the model's price."""
        schema = self.count(json.dumps(ask.schema))
        form = schema if schema <= SCHEMA_TOKENS else 0
        prompt = self.count(ask.system) + self.count(ask.user) + form + MESSAGE_TOKENS
        return usage(prompt, self._longest(ask), self.price)

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Ask the model; retry temporary failures while patience and deadline allow.

        An attempt that timed out may have been billed, so its full estimate is charged.
        """
        litellm = await asyncio.to_thread(_litellm)
        begun, failures, lost = time.monotonic(), 0, FREE
        end = min(begun + self.patience, self.deadline or float("inf"))
        while True:
            try:
                self._still_time(end, self._brake.until, "it reported a rate limit")
                await self._brake.wait()
                request = self._request(ask, litellm)
                try:
                    response = await litellm.acompletion(**request)
                    reply = self._reply(ask, litellm, response)
                    return replace(reply, usage=_sum_usage(reply.usage, lost))
                except FractalError:
                    raise
                except Exception as error:
                    if "response_format" in request and _refuses_form(error):
                        self._forms = False
                        continue
                    failures += 1
                    lost = _sum_usage(lost, self.estimate(ask)) if _may_be_processed(error) else lost
                    pause = self._pause(error, failures, begun)
                    self._still_time(end, time.monotonic() + pause, _error_message(error))
            except ProviderError as error:
                if error.usage or lost.calls:
                    error.usage = _sum_usage(error.usage or FREE, lost)
                raise
            await asyncio.sleep(pause)

    def _request(self, ask: Ask, litellm: ModuleType) -> dict[str, Any]:
        left = (self.deadline or float("inf")) - time.monotonic()
        request: dict[str, Any] = {
            "model": "ollama_chat" + self.model.removeprefix("ollama")
            if self.provider == "ollama"
            else self.model,
            "messages": [
                {"role": "system", "content": _encodable(ask.system)},
                {"role": "user", "content": _encodable(ask.user)},
            ],
            "max_tokens": self._longest(ask),
            "timeout": max(0.1, min(self.timeout, left)),
            "max_retries": 0,
            "drop_params": True,
        }
        if self.provider.startswith("ollama"):
            request["num_ctx"] = OLLAMA_CONTEXT
        if self.api_base:
            request["api_base"] = self.api_base
            if self.provider == "openai" and not os.environ.get("OPENAI_API_KEY"):
                request["api_key"] = "none"  # the client requires a key even if the server does not
        if self.key_env:
            request["api_key"] = self._key(self.key_env)
        if ask.form.kind != "json":  # the likely reply first, then others
            request["temperature"] = SAMPLING if ask.sample else 0.0
        if form := self._form(ask, litellm):
            request["response_format"] = form
        return request | self.options

    def _key(self, variable: str) -> str:
        if key := os.environ.get(variable):
            return key
        raise ConfigurationError(f"{self.name}: the environment variable {variable} is not set")

    def _form(self, ask: Ask, litellm: ModuleType) -> dict[str, Any] | None:
        """The response_format: the schema, any JSON object, or None for the prompt alone."""
        if not self._forms or ask.form.kind != "json":
            return None
        small = self.count(json.dumps(ask.schema)) <= SCHEMA_TOKENS
        if small and (
            self.provider.startswith("ollama") or litellm.supports_response_schema(model=self.model)
        ):
            schema = {"name": "reply", "schema": dict(ask.schema), "strict": False}
            return {"type": "json_schema", "json_schema": schema}
        supported = litellm.get_supported_openai_params(model=self.model) or []
        # for Claude, litellm turns it into a tool call without properties, which leads to empty objects
        return (
            {"type": "json_object"} if "response_format" in supported and "claude" not in self.model else None
        )

    def _longest(self, ask: Ask) -> int:
        return min(ask.max_tokens, self.max_tokens or ask.max_tokens) + self.thinking_tokens

    def _reply(self, ask: Ask, litellm: ModuleType, response: Any) -> Reply:
        choice = response.choices[0]
        text = choice.message.content or ""
        used = getattr(response, "usage", None)
        prompt = getattr(used, "prompt_tokens", 0) or self.count(ask.system) + self.count(ask.user)
        completion = getattr(used, "completion_tokens", 0) or self.count(text)
        cost = self._used(litellm, response, prompt, completion)
        if choice.finish_reason == "content_filter":
            raise ProviderError(
                f"{self.name}: the provider's filter withheld the reply; rephrase the task", cost
            )
        context = self.options.get("num_ctx", OLLAMA_CONTEXT)
        if self.provider.startswith("ollama") and prompt >= context - 1:
            raise ProviderError(
                f"{self.name}: the prompt did not fit into the context of {context} tokens and was "
                "truncated; set options: {num_ctx: …} or take a smaller --profile",
                cost,
            )
        return Reply(text, self.name, cost, choice.finish_reason == "length")

    def _used(self, litellm: ModuleType, response: Any, prompt: int, completion: int) -> Usage:
        if self.given_price or self.provider in LOCAL_PROVIDERS:
            return usage(prompt, completion, self.price)
        try:  # litellm accounts for cached tokens
            cost = litellm.completion_cost(completion_response=response, model=self.model)
        except Exception:  # any failure falls back to the table
            cost = 0.0
        return Usage(prompt, completion, cost) if cost else usage(prompt, completion, self.price)

    def _pause(self, error: Exception, failures: int, begun: float) -> float:
        """Seconds to wait before the next attempt; raises errors that a retry cannot fix."""
        status, text = _status(error), _error_message(error)
        if status in (401, 403) or "missing credentials" in text.lower():
            variable = self.key_env or KEYS.get(self.provider, f"{self.provider.upper()}_API_KEY")
            raise ConfigurationError(
                f"{self._at}: the provider refused the key ({text}); set {variable} and run `fractal resume`"
            ) from None
        if type(error).__name__ == "ContextWindowExceededError":
            raise ProviderError(
                f"{self._at}: the prompt is longer than the model's context ({text})"
            ) from None
        if status == 404 or "LLM Provider NOT provided" in text:
            raise ConfigurationError(f"{self._at}: no such model or address ({text})") from None
        body = getattr(error, "body", None)
        if status not in AGAIN or (isinstance(body, dict) and body.get("code") == "insufficient_quota"):
            raise ProviderError(f"{self._at}: {text}") from None
        if failures > self.retries:
            took = time.monotonic() - begun
            raise ProviderError(
                f"{self._at}: failed {failures} times in {took:.0f} s, last: {text}"
            ) from None
        requested = _retry_after(_header(error, "retry-after"))
        pause = max(requested, _delay(failures, self.backoff, LONGEST_WAIT))
        if status == 429 or requested:
            self._brake.hold(pause)
        return pause

    def _still_time(self, end: float, until: float, why: str) -> None:
        if until > end:
            seconds = until - time.monotonic()
            raise ProviderError(
                f"{self._at}: no time is left for a retry in {seconds:.0f} s ({why})"
            ) from None


@dataclass
class _Brake:
    """Delays all calls of this process to one provider after a rate limit."""

    until: float = 0.0  # on the monotonic clock

    def hold(self, seconds: float) -> None:
        """Block calls for that long; a longer hold stays in effect."""
        self.until = max(self.until, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Wait until calls are allowed, with jitter so that waiting calls start at different times."""
        while (left := self.until - time.monotonic()) > 0:  # noqa: ASYNC110 (the end can move)
            await asyncio.sleep(left + random.uniform(0, 0.1 * min(left, 5)))


@cache
def _brake_of(provider: str) -> _Brake:
    """The brake of that provider, shared by this process."""
    return _Brake()


def _delay(failures: int, base: float, longest: float) -> float:
    """Seconds to wait: `base`, doubled with each failure, at most `longest`, ± 25 %."""
    return min(longest, base * 2 ** (failures - 1)) * random.uniform(0.75, 1.25)


def _retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header, a number or a date; 0 if it is missing or invalid."""
    try:
        return max(0.0, float(value or 0))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value or "") - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def _sum_usage(one: Usage, other: Usage) -> Usage:
    """The sum of two usages; its price is None if either is."""
    usd = None if one.usd is None or other.usd is None else one.usd + other.usd
    prompt = one.prompt_tokens + other.prompt_tokens
    completion = one.completion_tokens + other.completion_tokens
    return Usage(prompt, completion, usd, one.calls + other.calls)


_CUT_OFF = frozenset(
    {"ReadError", "ReadTimeout", "RemoteProtocolError"}
    | {"ServerDisconnectedError", "ClientOSError", "WriteError"}
)
"""Errors of HTTP libraries when a connection breaks after the request was sent."""


def _may_be_processed(error: Exception) -> bool:
    """Whether the provider may have processed the request although no answer arrived.

    An error answer costs nothing, and neither does a server that was not reached.
    """
    if type(error).__name__ == "Timeout":
        return True
    names: set[str] = set()
    cause: BaseException | None = error
    while cause is not None and len(names) < 20:
        names.add(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return bool(names & _CUT_OFF)


def _status(error: Exception) -> int:
    """The HTTP status; an answer that litellm cannot parse counts as 500."""
    return int(getattr(error, "status_code", None) or 500)


def _refuses_form(error: Exception) -> bool:
    return _status(error) in (400, 422) and "response_format" in str(error)


def _error_message(error: Exception) -> str:
    """The provider's message in one line, without litellm's prefix of class names."""
    text = _CLASSES.sub("", " ".join(str(error).split()))
    return text[:300] or type(error).__name__


def _header(error: Exception, name: str) -> str | None:
    for holder in (getattr(error, "litellm_response_headers", None), getattr(error, "response", None)):
        headers = getattr(holder, "headers", holder)
        if headers is not None and name in headers:
            return headers[name]
    return None


def _encodable(text: str) -> str:
    """Replace unpaired surrogates, which cannot be sent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _litellm() -> ModuleType:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise the import uses the network
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # otherwise it reads a .env file
    try:
        litellm: Any = import_module("litellm")
    except ImportError as error:
        raise ConfigurationError(
            f"the model needs litellm, which is not installed ({error}); pip install 'fractal-runtime[llm]'"
        ) from None
    litellm.telemetry = False
    litellm.disable_hf_tokenizer_download = True
    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True  # its sessions outlive the event loop and warn
    return litellm


@cache
def _encoding(model: str) -> Any:
    """OpenAI's tokenizer for a model, from litellm's files, or None."""
    folder = litellm_folder()
    provider, _, rest = model.rpartition("/")
    if folder is None or provider not in ("", "openai", "azure"):
        return None
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder / "litellm_core_utils" / "tokenizers"))
    try:
        tiktoken: Any = import_module("tiktoken")
        encoding = tiktoken.encoding_name_for_model(rest)
        return tiktoken.get_encoding(encoding) if encoding in ("cl100k_base", "o200k_base") else None
    except (ImportError, KeyError):
        return None
