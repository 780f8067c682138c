"""Any model that litellm knows, asked by name: `anthropic/…`, `ollama/…`, `openai/…` with an `api_base`.

litellm takes seconds to import and is imported when the first ask comes, or by `warm` in a thread. Nothing
here uses the network but the call itself; keys come from the environment only.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from kernel.budget import estimate_tokens
from kernel.document import Document
from kernel.errors import ConfigurationError, FractalError, ProviderError
from kernel.responder import FREE, Ask, Reply, Tier, Usage, Waits
from runtime.responders.backoff import brake_of, delay, retry_after
from runtime.responders.prices import (
    LOCAL_PROVIDERS,
    NOTHING,
    Price,
    is_loopback,
    known_price,
    litellm_folder,
    usage,
)

SCHEMA_TOKENS = 100  # a larger schema is described in words instead; kernel.md, "Prompt"
MESSAGE_TOKENS = 12  # what a provider adds around two messages
LONGEST_WAIT = 60.0  # seconds between two tries, unless the provider asks for more
OLLAMA_CONTEXT = 8192  # Ollama cuts a longer prompt without a word, so that the size is set and watched
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
KEYS = {
    "gemini": "GEMINI_API_KEY",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
    "bedrock": "AWS_ACCESS_KEY_ID",
}
_CLASSES = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?:: | - ))+")


class LiteLLM:
    """One remote or served model."""

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

        price: what it costs; None takes litellm's table; what is not in it is free on this machine only.
        timeout: seconds of one call.
        retries: tries after the first, the first after `backoff` seconds, each later one after twice as long.
        patience: seconds that one ask may go on being tried.
        deadline: a moment of the monotonic clock after which nothing is tried.
        max_tokens: a limit of replies below the ask's.
        thinking_tokens: what the model may write beyond that before it replies.
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
        self._brake = brake_of(f"{self.provider} {api_base or ''}")
        self._at = f"{self.name} at {api_base}" if api_base else self.name
        self._forms = True  # until the provider refuses a response_format

    @staticmethod
    def warm() -> None:
        """Import litellm; call it in a thread while something else is prepared."""
        _litellm()

    def offers(self, task: str, document: Document) -> float | None:
        """A model takes any attempt."""
        return 0.5

    def count(self, text: str) -> int:
        """Tokens by OpenAI's tokenizers for their models, else by the conservative estimate."""
        encoding = _encoding(self.model)
        if encoding is None:
            return estimate_tokens(text)
        pieces = (
            text[at : at + 4096] for at in range(0, len(text), 4096)
        )  # the tokenizer is slow on long runs
        return sum(len(encoding.encode(_whole(piece), disallowed_special=())) for piece in pieces)

    def estimate(self, ask: Ask) -> Usage:
        """The prompt with its form, and the longest reply, at price."""
        schema = self.count(json.dumps(ask.schema))
        form = schema if schema <= SCHEMA_TOKENS else 0
        prompt = self.count(ask.system) + self.count(ask.user) + form + MESSAGE_TOKENS
        return usage(prompt, self._longest(ask), self.price)

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Ask the model; failures that pass are tried again as long as patience and deadline allow.

        A try whose answer was no longer waited for may have been carried out: it is charged whole.
        """
        litellm = await asyncio.to_thread(_litellm)
        begun, failures, lost = time.monotonic(), 0, FREE
        end = min(begun + self.patience, self.deadline or float("inf"))
        while True:
            try:
                self._still_time(end, self._brake.until, "it said that it is called too often")
                await self._brake.wait()
                request = self._request(ask, litellm)
                try:
                    response = await litellm.acompletion(**request)
                    reply = self._reply(ask, litellm, response)
                    return replace(reply, usage=_together(reply.usage, lost))
                except FractalError:
                    raise
                except Exception as error:
                    if "response_format" in request and _refuses_form(error):
                        self._forms = False
                        continue
                    failures += 1
                    lost = _together(lost, self.estimate(ask)) if _gave_up(error) else lost
                    pause = self._pause(error, failures, begun)
                    self._still_time(end, time.monotonic() + pause, _said(error))
            except ProviderError as error:
                if error.usage or lost.calls:
                    error.usage = _together(error.usage or FREE, lost)
                raise
            await asyncio.sleep(pause)

    def _request(self, ask: Ask, litellm: ModuleType) -> dict[str, Any]:
        left = (self.deadline or float("inf")) - time.monotonic()
        request: dict[str, Any] = {
            "model": "ollama_chat" + self.model.removeprefix("ollama")
            if self.provider == "ollama"
            else self.model,
            "messages": [
                {"role": "system", "content": _whole(ask.system)},
                {"role": "user", "content": _whole(ask.user)},
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
                request["api_key"] = "none"  # servers of one's own ask for none, the client does
        if self.key_env:
            request["api_key"] = self._key(self.key_env)
        if form := self._form(ask, litellm):
            request["response_format"] = form
        return request | self.options

    def _key(self, variable: str) -> str:
        if key := os.environ.get(variable):
            return key
        raise ConfigurationError(f"{self.name}: the environment variable {variable} is not set")

    def _form(self, ask: Ask, litellm: ModuleType) -> dict[str, Any] | None:
        """How the provider is held to JSON: by the schema, as any object, or (None) by words alone."""
        if not self._forms:
            return None
        small = self.count(json.dumps(ask.schema)) <= SCHEMA_TOKENS
        if small and (
            self.provider.startswith("ollama") or litellm.supports_response_schema(model=self.model)
        ):
            schema = {"name": "reply", "schema": dict(ask.schema), "strict": False}
            return {"type": "json_schema", "json_schema": schema}
        supported = litellm.get_supported_openai_params(model=self.model) or []
        # for Claude, litellm makes a tool call without properties of it, which invites empty objects
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
                f"{self.name}: the provider's filter withheld the reply; word the task otherwise", cost
            )
        context = self.options.get("num_ctx", OLLAMA_CONTEXT)
        if self.provider.startswith("ollama") and prompt >= context - 1:
            raise ProviderError(
                f"{self.name}: the prompt did not fit into the context of {context} tokens and was cut; "
                "set options: {num_ctx: …} or take a smaller --profile",
                cost,
            )
        return Reply(
            text,
            self.name,
            cost,
            choice.finish_reason == "length",
        )

    def _used(self, litellm: ModuleType, response: Any, prompt: int, completion: int) -> Usage:
        if self.given_price or self.provider in LOCAL_PROVIDERS:
            return usage(prompt, completion, self.price)
        try:  # litellm's own figure knows of cached tokens
            cost = litellm.completion_cost(completion_response=response, model=self.model)
        except Exception:  # whatever it stumbles over, the table is asked instead
            cost = 0.0
        return Usage(prompt, completion, cost) if cost else usage(prompt, completion, self.price)

    def _pause(self, error: Exception, failures: int, begun: float) -> float:
        """Seconds to wait before the next try; raises what cannot be mended by trying again."""
        status, told = _status(error), _said(error)
        if status in (401, 403) or "missing credentials" in told.lower():
            variable = self.key_env or KEYS.get(self.provider, f"{self.provider.upper()}_API_KEY")
            raise ConfigurationError(
                f"{self._at}: the provider refused the key ({told}); set {variable}, then `fractal resume`"
            ) from None
        if type(error).__name__ == "ContextWindowExceededError":
            raise ProviderError(
                f"{self._at}: the prompt is longer than the model's context ({told})"
            ) from None
        if status == 404 or "LLM Provider NOT provided" in told:
            raise ConfigurationError(f"{self._at}: no such model, or no such address ({told})") from None
        body = getattr(error, "body", None)
        if status not in AGAIN or (isinstance(body, dict) and body.get("code") == "insufficient_quota"):
            raise ProviderError(f"{self._at}: {told}") from None
        if failures > self.retries:
            took = time.monotonic() - begun
            raise ProviderError(
                f"{self._at}: failed {failures} times in {took:.0f} s, last: {told}"
            ) from None
        asked = retry_after(_header(error, "retry-after"))
        pause = max(asked, delay(failures, self.backoff, LONGEST_WAIT))
        if status == 429 or asked:
            self._brake.hold(pause)
        return pause

    def _still_time(self, end: float, until: float, why: str) -> None:
        if until > end:
            seconds = until - time.monotonic()
            raise ProviderError(
                f"{self._at}: no time is left to try again in {seconds:.0f} s ({why})"
            ) from None


def _together(one: Usage, other: Usage) -> Usage:
    """Two costs as one; without a price where one of them has none."""
    usd = None if one.usd is None or other.usd is None else one.usd + other.usd
    prompt, completion = (
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
    )
    return Usage(prompt, completion, usd, one.calls + other.calls)


_CUT_OFF = frozenset(
    [
        "ReadError",
        "ReadTimeout",
        "RemoteProtocolError",
        "ServerDisconnectedError",
        "ClientOSError",
        "WriteError",
    ]
)
"""What HTTP libraries raise when a connection breaks after the request has gone out."""


def _gave_up(error: Exception) -> bool:
    """Whether the request may have been carried out and its answer did not come: late, or cut off on its way.

    An answer that tells of an error costs nothing, nor does a server that was not reached.
    """
    if type(error).__name__ == "Timeout":
        return True
    names: set[str] = set()
    seen: BaseException | None = error
    while seen is not None and len(names) < 20:
        names.add(type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    return bool(names & _CUT_OFF)


def _status(error: Exception) -> int:
    """The HTTP status; an answer that litellm could not make sense of counts as the server's fault."""
    return int(getattr(error, "status_code", None) or 500)


def _refuses_form(error: Exception) -> bool:
    return _status(error) in (400, 422) and "response_format" in str(error)


def _said(error: Exception) -> str:
    """What a provider said, in a line, without the chain of class names that litellm puts before it."""
    text = _CLASSES.sub("", " ".join(str(error).split()))
    return text[:300] or type(error).__name__


def _header(error: Exception, name: str) -> str | None:
    for holder in (getattr(error, "litellm_response_headers", None), getattr(error, "response", None)):
        headers = getattr(holder, "headers", holder)
        if headers is not None and name in headers:
            return headers[name]
    return None


def _whole(text: str) -> str:
    """Without the halves of surrogate pairs, which cannot be sent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _litellm() -> ModuleType:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the import calls out
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads a .env file
    try:
        litellm: Any = import_module("litellm")
    except ImportError as error:
        raise ConfigurationError(
            f"a model was named, but litellm is not installed ({error}); pip install 'fractal-runtime[llm]'"
        ) from None
    litellm.telemetry = False
    litellm.disable_hf_tokenizer_download = True
    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True  # its sessions outlive the loop and complain
    return litellm


@cache
def _encoding(model: str) -> Any:
    """OpenAI's tokenizer of a model, from the files that litellm ships; None when it has none."""
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
