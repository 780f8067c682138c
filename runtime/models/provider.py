"""What the clients of model providers share: keys, prices, time-outs, retries and rate limits.

Keys come from the environment only. A client sends one request; this module decides whether a failure is
retried, and says what a person has to do where it is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib import import_module
from typing import Any, cast

from kernel.asking.native import ENDS, reply_text
from kernel.asking.prompt import FORM
from kernel.asking.responder import FREE, Ask, Reply, Tier, Usage, Waits
from kernel.document.amounts import clamped, whole
from kernel.document.model import Document
from kernel.document.redaction import learn_secrets, redact, secret_of
from kernel.errors import ConfigurationError, FractalError, ProviderError
from kernel.loop.budget import estimate_tokens
from runtime.models.prices import (
    NOTHING,
    Price,
    entry_of,
    known_price,
    litellm_folder,
    usage,
)
from runtime.received import LIMIT, TooLarge, of_reply
from runtime.workspace.settings import Timeouts, is_loopback

SCHEMA_TOKENS = 100  # larger schemas are described in words; kernel.md, "Prompt"
MESSAGE_TOKENS = 12  # the overhead of two messages
SAMPLING = 0.7  # the temperature of a reply to a small question after the likely one
LONGEST_WAIT = 60.0  # seconds between two attempts, unless the provider asks for more
LONGEST_REQUESTED = 3600.0  # seconds that a provider can make this process wait
OPTIONAL = {
    "response_format": "response_format",
    "tools": "tool",
    "stream_options": "stream_option",
    "temperature": "temperature",
}
"""Parts of a request that it can do without, and how an error message names each."""
LOCAL_RETRIES = 1  # after a refused connection to this machine: the server is not running
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
KEYS = {
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
    "bedrock": "AWS_ACCESS_KEY_ID",
}
"""The variables of providers that litellm serves, where they are not named `PROVIDER_API_KEY`."""
_CLASSES = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?:: | - ))+")


def limits_of(value: Any) -> Timeouts:
    """The limits of a call from settings: a number is the total; a mapping names some of them."""
    if value is None or isinstance(value, Timeouts):
        return value or Timeouts()
    if isinstance(value, Mapping):
        names = ", ".join(Timeouts.model_fields)
        if strange := sorted(set(map(str, cast(Mapping[Any, Any], value))) - set(Timeouts.model_fields)):
            raise ConfigurationError(f"timeout: there is no {strange[0]}; it may have {names}")
        return Timeouts.model_validate(value)
    usual, total = Timeouts(), float(value)
    first, idle = min(usual.first_token, total), min(usual.idle, total)
    return Timeouts(connect=min(usual.connect, total), first_token=first, idle=idle, total=total)


class Provider(ABC):
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
        timeout: Any = None,
        retries: int = 6,
        backoff: float = 1.0,
        patience: float = 300.0,
        deadline: float | None = None,
        max_tokens: int | None = None,
        thinking_tokens: int = 0,
        options: Mapping[str, Any] | None = None,
        native: bool = False,
    ) -> None:
        """Name a model.

        price: None uses litellm's table; a model without an entry is free on a loopback address only.
        timeout: seconds for one call, or its four limits.
        retries: the first after `backoff` seconds, each later one after twice as long.
        patience: seconds for all attempts of one ask.
        deadline: the time of the monotonic clock after which no attempt starts.
        max_tokens: a limit for replies below the ask's.
        thinking_tokens: additional tokens for the model's thinking.
        options: more arguments of the request, such as temperature.
        native: whether tool calls have the provider's own form.
        """
        self.model = model
        self.name = name or model
        self.tier: Tier = tier
        self.api_base = api_base
        self.key_env = key_env
        self.given_price = price
        self.price = price or known_price(model) or (NOTHING if is_loopback(api_base) else None)
        self.context: int | None = entry_of(model).get("max_input_tokens")  # tokens, where it is known
        self.timeout = limits_of(timeout)
        self.retries, self.backoff = retries, backoff
        self.patience, self.deadline = patience, deadline
        self.max_tokens, self.thinking_tokens = max_tokens, thinking_tokens
        self.options = dict(options or {})
        learn_secrets(self.options)
        self.provider = model.partition("/")[0] if "/" in model else "openai"
        self._brake = _brake_of(f"{self.provider} {api_base or ''}")
        self._at = f"{self.name} at {api_base}" if api_base else self.name
        self.refused: set[str] = set()
        """Optional parts of a request that the server has refused, and that are left out since."""
        self._native = native

    @property
    def native(self) -> bool:
        """Whether tool calls have the provider's own form."""
        return self._native and "tools" not in self.refused

    @property
    def key_name(self) -> str:
        """The environment variable with the key; "" if the server needs none."""
        return self.key_env or KEYS.get(self.provider, f"{self.provider.upper()}_API_KEY")

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
        return sum(len(encoding.encode(encodable(piece), disallowed_special=())) for piece in pieces)

    def estimate(self, ask: Ask) -> Usage:
        """The prompt with its schema and the longest reply, at the model's price."""
        schema = self.count(json.dumps(ask.schema))
        form = schema if schema <= SCHEMA_TOKENS else 0
        form = self.count(json.dumps(list(ask.tools))) if ask.tools else form
        prompt = self.count(ask.system) + self.count(ask.user) + form + MESSAGE_TOKENS
        return usage(prompt, self.longest(ask), self.price)

    @abstractmethod
    async def send(self, ask: Ask, seconds: float) -> Reply:
        """Make one call that takes at most so many seconds. Raises what the client's library raises."""

    def _gave_in(self, ask: Ask, error: Exception) -> bool:
        """Whether the server refused an optional part of this request, which is now left out for good."""
        words, status = str(error).replace(" ", "_"), status_of(error)
        sent = {*self.optional(ask, OPTIONAL), *({"stream_options"} - self.refused)}
        if status == 500:  # llama_cpp.server answers so to a form that it does not know
            sent &= {"response_format"}
        elif status not in (400, 404, 422, 501):
            return False
        new = {name for name in sent if OPTIONAL[name] in words}
        self.refused |= new
        return bool(new)

    def messages(self, ask: Ask) -> list[dict[str, str]]:
        """The prompt. A server that has refused native calls gets the tools in words."""
        system = ask.system
        if ask.tools and "tools" in self.refused:
            system = f"{system}\n\n{FORM}{ask.words}\n\n{_listed(ask.tools)}"
        return [
            {"role": "system", "content": encodable(system)},
            {"role": "user", "content": encodable(ask.user)},
        ]

    def optional(self, ask: Ask, form: Mapping[str, Any] | None) -> dict[str, Any]:
        """The parts of a request that a server may refuse: tools, or the form of the reply; temperature.

        The first reply is the likely one; after a refused one, another is wanted.
        """
        parts: dict[str, Any] = {}
        if ask.tools:
            parts["tools"] = [dict(tool) for tool in ask.tools]
        elif ask.form.kind == "json" and form:
            parts["response_format"] = dict(form)
        if ask.form.kind != "json" or ask.sample:
            parts["temperature"] = SAMPLING if ask.sample else 0.0
        return {name: part for name, part in parts.items() if name not in self.refused}

    def tokens(self, ask: Ask, prompt: Any, completion: Any, text: str) -> tuple[int, int]:
        """Prompt and completion tokens: what the server reports, else their counts."""
        return (
            whole(prompt, 0) or self.count(ask.system) + self.count(ask.user),
            whole(completion, 0) or self.count(text),
        )

    def withheld(self, cost: Usage) -> ProviderError:
        """The error for a reply that the provider's filter withheld."""
        return ProviderError(
            f"{self.name}: the provider's filter withheld the reply; rephrase the task", cost
        )

    def text_of(self, ask: Ask, calls: Sequence[tuple[str, str]], text: str) -> str:
        """The reply as text: native calls, by name and arguments, become a turn."""
        return reply_text(calls, text) if ask.tools and "tools" not in self.refused else text

    @abstractmethod
    async def load(self) -> None:
        """Import the client's library in a thread."""

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Ask the model; retry temporary failures while patience and deadline allow.

        An attempt that timed out may have been billed, so its full estimate is charged.
        """
        await self.load()
        begun, failures, lost = time.monotonic(), 0, FREE
        end = min(begun + self.patience, self.deadline or float("inf"))
        while True:
            try:
                self._still_time(end, self._brake.until, "it reported a rate limit")
                await self._brake.wait()
                try:
                    left = (self.deadline or float("inf")) - time.monotonic()
                    LIMIT.set(of_reply(self.longest(ask)))
                    reply = await self.send(ask, max(0.1, min(self.timeout.total, left)))
                    return replace(reply, usage=_sum_usage(reply.usage, lost))
                except FractalError:
                    raise
                except Exception as error:
                    if large := _too_large(error):  # another attempt would bring as much
                        raise ProviderError(f"{self._at}: {large}", self.estimate(ask)) from None
                    if self._gave_in(ask, error):
                        continue
                    failures += 1
                    lost = _sum_usage(lost, self.estimate(ask)) if _may_be_processed(error) else lost
                    pause = self._pause(error, failures, begun)
                    self._still_time(end, time.monotonic() + pause, error_message(error))
                    ask.notify(
                        f"{self.name}: {error_message(error)[:120]}, retrying in {pause:.0f} s "
                        f"({failures} of {self.retries})"
                    )
            except ProviderError as error:
                if error.usage or lost.calls:
                    error.usage = _sum_usage(error.usage or FREE, lost)
                raise
            await asyncio.sleep(pause)

    def key(self, variable: str) -> str:
        """The key in an environment variable, without what stands around it; raises `ConfigurationError`."""
        key = secret_of(variable)
        if not key:
            raise ConfigurationError(f"{self.name}: the environment variable {variable} is not set")
        return key

    def longest(self, ask: Ask) -> int:
        """Maximum tokens of the reply, with those of the model's thinking."""
        return min(ask.max_tokens, self.max_tokens or ask.max_tokens) + self.thinking_tokens

    def _pause(self, error: Exception, failures: int, begun: float) -> float:
        """Seconds to wait before the next attempt; raises errors that a retry cannot fix."""
        status, text = status_of(error), error_message(error)
        if status in (401, 403) or "missing credentials" in text.lower():
            fix = (
                f"set {self.key_name}" if self.key_name else "name its variable with options: {key_env: NAME}"
            )
            raise ConfigurationError(
                f"{self._at}: the provider refused the key ({text}); {fix} and run `fractal resume`"
            ) from None
        if type(error).__name__ == "ContextWindowExceededError" or "maximum context length" in text:
            raise ProviderError(
                f"{self._at}: the prompt is longer than the model's context ({text})"
            ) from None
        if status == 404 or "LLM Provider NOT provided" in text:
            raise ConfigurationError(f"{self._at}: no such model or address ({text})") from None
        body = getattr(error, "body", None)
        if status not in AGAIN or (isinstance(body, dict) and body.get("code") == "insufficient_quota"):
            raise ProviderError(f"{self._at}: {text}") from None
        if failures > LOCAL_RETRIES and is_loopback(self.api_base) and _refused_connection(error):
            raise ProviderError(f"{self._at}: nothing answers there; is the server running?") from None
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
    seconds = 0.0
    try:
        seconds = float(value or 0)
    except ValueError:
        with suppress(TypeError, ValueError, OverflowError):
            seconds = (parsedate_to_datetime(value or "") - datetime.now(UTC)).total_seconds()
    return clamped(seconds, 0.0, LONGEST_REQUESTED)


def _sum_usage(one: Usage, other: Usage) -> Usage:
    """The sum of two usages; its price is None if either is."""
    usd = None if one.usd is None or other.usd is None else one.usd + other.usd
    prompt = one.prompt_tokens + other.prompt_tokens
    completion = one.completion_tokens + other.completion_tokens
    return Usage(prompt, completion, usd, one.calls + other.calls)


_CUT_OFF = frozenset(
    {"ConnectionResetError", "ReadError", "ReadTimeout", "RemoteProtocolError"}
    | {"ServerDisconnectedError", "ClientOSError", "WriteError"}
    | {"Timeout", "TimeoutError", "APITimeoutError"}
)
"""Errors when a connection breaks, or no answer comes, after the request was sent."""


def _may_be_processed(error: Exception) -> bool:
    """Whether the provider may have processed the request although no answer arrived.

    An error answer costs nothing, and neither does a server that was not reached.
    """
    return type(error).__name__ in ("Timeout", "TimeoutError", "APITimeoutError") or bool(
        _causes(error) & _CUT_OFF
    )


def _too_large(error: BaseException | None) -> str:
    """What was too large of an answer; "" if nothing was."""
    for _ in range(20):
        if error is None or isinstance(error, TooLarge):
            break
        error = error.__cause__ or error.__context__
    return str(error) if isinstance(error, TooLarge) else ""


def _refused_connection(error: Exception) -> bool:
    return "ConnectError" in _causes(error) or "ConnectionRefusedError" in _causes(error)


def _causes(error: Exception) -> set[str]:
    """The names of an error's class and those of its causes."""
    names: set[str] = set()
    cause: BaseException | None = error
    while cause is not None and len(names) < 20:
        names.add(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return names


def status_of(error: Exception) -> int:
    """The HTTP status; an answer that cannot be parsed counts as 500."""
    return int(getattr(error, "status_code", None) or 500)


def _listed(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools of a request as text."""
    functions = [tool["function"] for tool in tools if tool["function"]["name"] not in ENDS]
    lines = [
        f"{f['name']}({', '.join(f['parameters']['properties'])}): {f['description']}" for f in functions
    ]
    return "\n".join(["Tools:", *lines])


def error_message(error: Exception) -> str:
    """The provider's message in one line, without litellm's prefix of class names."""
    body = getattr(error, "body", None)
    told = cast(dict[str, Any], body).get("message") if isinstance(body, dict) else None
    text = _CLASSES.sub("", " ".join(str(told or error).split()))
    return redact(text)[:300] or type(error).__name__


def _header(error: Exception, name: str) -> str | None:
    for holder in (getattr(error, "litellm_response_headers", None), getattr(error, "response", None)):
        headers = getattr(holder, "headers", holder)
        if headers is not None and name in headers:
            return headers[name]
    return None


def encodable(text: str) -> str:
    """Replace unpaired surrogates, which cannot be sent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
