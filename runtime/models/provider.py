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
from functools import cache, cached_property
from importlib import import_module
from typing import Any, cast

from kernel.asking.messages import Message, calls_of, prompt_tokens, sent
from kernel.asking.native import object_of, turn_text
from kernel.asking.responder import FREE, Ask, Reply, Responder, Tier, Usage, Waits, estimate_tokens
from kernel.document.amounts import clamped, whole
from kernel.document.escaping import to_json
from kernel.errors import ConfigurationError, FractalError, ProviderError
from runtime import addresses
from runtime.addresses import is_loopback
from runtime.models import dialects, json_form
from runtime.models.keys import headers_of, printed_key, words_of
from runtime.models.prices import (
    LOCAL_PROVIDERS,
    NOTHING,
    Price,
    known_price,
    litellm_folder,
    usage,
)
from runtime.models.servers import Servers
from runtime.models.window import LOCAL, Window, in_table, valid
from runtime.proxies import proxy_for
from runtime.received import LIMIT, TooLarge, of_reply
from runtime.secrets.known import learn_secrets, secret_of
from runtime.secrets.redaction import redact
from runtime.workspace.settings import Timeouts

SCHEMA_TOKENS = 100  # larger schemas are described in words; kernel.md, "Prompt"
MESSAGE_TOKENS = 6  # the overhead of a message
SAMPLING = 0.7  # the temperature of a reply to a small question after the likely one
LONGEST_WAIT = 60.0  # seconds between two attempts, unless the provider asks for more
LONGEST_REQUESTED = 3600.0  # seconds that a provider can make this process wait
OPTIONAL = {
    "response_format": ("response_format", "json_mode", "json_schema", "json_object", "structured_output"),
    "tools": ("tool", "function_call", "functions_are_not"),
    "stream_options": ("stream_option",),
    "temperature": ("temperature",),
    "prompt_cache_key": ("prompt_cache_key",),
    "cache_control": ("cache_control", "be_a_valid_string", "must_be_a_string", "expected_a_string"),
}
"""Parts of a request that it can do without, and how an error message names each, in any case."""
CACHE_KEY, CACHE_MARKS = "prompt_cache_key", "cache_control"
"""How two kinds of providers are told what of a prompt to cache: by a name for it, by marks in it."""
NO_TOOLS_HERE = ("--jinja", "unsupported_param")
"""What llama.cpp's servers say of tools with the status of a fault of their own."""
LOCAL_RETRIES = 1  # after a refused connection to this machine: the server is not running
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
KEYS = {
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
    "bedrock": "AWS_ACCESS_KEY_ID",
}
"""The variables of providers that litellm serves, where they are not named `PROVIDER_API_KEY`."""
EMPTY = "(nothing)"
"""What stands for an empty message, which some providers refuse."""
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")
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


OLLAMA = 11434
"""The port of Ollama's server."""


class Provider(Responder, ABC):
    """One model of a provider or a server."""

    def __init__(
        self,
        model: str,
        *,
        tier: Tier = "worker",
        name: str = "",
        api_base: str | None = None,
        key_env: str | None = None,
        key_command: str | Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        ca_bundle: str = "",
        price: Price | None = None,
        timeout: Any = None,
        retries: int = 6,
        backoff: float = 1.0,
        patience: float = 300.0,
        deadline: float | None = None,
        max_tokens: int | None = None,
        thinking_tokens: int = 0,
        options: Mapping[str, Any] | None = None,
        tools: bool | None = None,
        context: int | None = None,
        servers: Servers | None = None,
    ) -> None:
        """Name a model. Raises `ConfigurationError` for an address or a command that cannot be meant.

        key_env: the variable with the key. key_command: the program that prints it, with its arguments.
        headers: more headers of each request; an empty value leaves one out.
        ca_bundle: certificates that the server may have beside the usual ones.
        price: None uses litellm's table; a model without an entry is free on a loopback address only.
        timeout: seconds for one call, or its four limits.
        retries: the first after `backoff` seconds, each later one after twice as long.
        patience: seconds for all attempts of one ask.
        deadline: the time of the monotonic clock after which no attempt starts.
        max_tokens: a limit for replies below the ask's.
        thinking_tokens: additional tokens for the model's thinking.
        options: more arguments of the request, such as temperature.
        tools: whether calls of a turn have the provider's own form; None tries it once.
        context: tokens of a conversation and its reply; None takes what is known of the model.
        servers: what earlier runs found out about this server.
        """
        self.model = model
        self.name = name or model
        self.tier: Tier = tier
        try:
            self.api_base = addresses.normal(api_base) if api_base else None
        except ValueError as error:
            raise ConfigurationError(f"{self.name}: api_base: {error}") from None
        api_base = self.api_base
        self.key_env, self.key_command = key_env, words_of(key_command)
        self.headers, self.ca_bundle = dict(headers or {}), ca_bundle
        self.given_price = price
        self.price = price or known_price(model) or (NOTHING if is_loopback(api_base) else None)
        self.context = context
        self.servers = servers or Servers()
        self.timeout = limits_of(timeout)
        self.retries, self.backoff = retries, backoff
        self.patience, self.deadline = patience, deadline
        self.max_tokens, self.thinking_tokens = max_tokens, thinking_tokens
        self.options = dict(options or {})
        learn_secrets(self.options)
        self.provider = model.partition("/")[0] if "/" in model else "openai"
        self._brake = _brake_of(f"{self.provider} {api_base or ''}")
        self.refused: set[str] = set()
        """Optional parts of a request that the server has refused, and that are left out since."""
        self._tools = tools

    @property
    def takes_tools(self) -> bool:
        """Whether calls of a turn have the provider's own form: as set, else unless its server refused it."""
        if "tools" in self.refused:
            return False
        return (
            bool(self.servers.known(self.server).get("tools", True)) if self._tools is None else self._tools
        )

    @property
    def server(self) -> str:
        """The name under which facts about this model at its address are remembered."""
        return f"{addresses.shown(self.api_base) if self.api_base else self.provider} {self.model}"

    @property
    def _at(self) -> str:
        """Where the model is, for messages: with its address, and the proxy on the way."""
        proxy = proxy_for(self.address) if self.address else None
        at = f" at {addresses.shown(self.api_base)}" if self.api_base else ""
        return f"{self.name}{at}{f' through {proxy}' if proxy else ''}"

    @property
    def address(self) -> str:
        """The address that requests go to; "" where the client's library knows it."""
        return self.api_base or ""

    @property
    def is_local(self) -> bool:
        """Whether the model runs on the user's own machine."""
        return is_loopback(self.api_base) or self.provider in LOCAL_PROVIDERS

    @property
    def window(self) -> int:
        """Tokens of a conversation and its reply together; the same for the life of this object."""
        return self._window.tokens

    @property
    def window_source(self) -> str:
        """Who says so: the settings, the server, the table of models, or nobody."""
        return self._window.source

    @cached_property
    def _window(self) -> Window:
        return self.find_window()

    def find_window(self) -> Window:
        """The window by what is known now. A server of one's own knows better than the table."""
        said = valid(self.servers.known(self.server).get("window"))
        served = Window(said, "the server") if said else None
        tokens = in_table(self.model)
        listed = Window(tokens, "the table of models") if tokens else None
        if self.context:
            return Window(self.context, "the settings")
        first = (served, listed) if self.api_base or self.is_local else (listed, served)
        # a server that runs a model here says its window, but for Ollama's; a silent one is a gateway
        runs_here = self.provider in LOCAL_PROVIDERS or f":{OLLAMA}" in (self.api_base or "")
        usual = Window(LOCAL, "usual for a local model") if runs_here else Window(super().window, "usual")
        return next(filter(None, first), usual)

    @property
    def key_name(self) -> str:
        """The environment variable with the key; "" if the server needs none."""
        return self.key_env or KEYS.get(self.provider, f"{self.provider.upper()}_API_KEY")

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
        schema = 0 if ask.tools else self.count(json.dumps(self.schema_of(ask)))
        form = schema if schema <= SCHEMA_TOKENS else 0
        prompt = prompt_tokens(ask, self.count) + form + MESSAGE_TOKENS * len(sent(ask))
        return usage(prompt, self.longest(ask), self.price)

    @abstractmethod
    async def send(self, ask: Ask, seconds: float) -> Reply:
        """Make one call that takes at most so many seconds. Raises what the client's library raises."""

    def _gave_in(self, ask: Ask, error: Exception) -> bool:
        """Whether the server refused an optional part of this request, which is now left out for good."""
        # the name of a model may have such a word in it: `qwen-coder-tools` is not found
        name = re.escape((self.model.partition("/")[2] or self.model).casefold())
        words = re.sub(rf"(?<!\w){name}(?!\w)", "", str(error).casefold()).replace(" ", "_")
        status = status_of(error)
        sent = {*self.optional(ask, OPTIONAL), *({"stream_options"} - self.refused), *self.caching(ask)}
        if status == 500:  # llama.cpp's servers answer so to what they do not know
            sent &= {"response_format", *({"tools"} if any(each in words for each in NO_TOOLS_HERE) else ())}
        elif status not in (400, 404, 422, 501):
            return False
        new = {part for part in sent if any(each in words for each in OPTIONAL[part])}
        self.refused |= new
        # an error about tools in the middle of a conversation may be about its calls
        if "tools" in new and ask.wants_turn and not _has_calls(ask) and self._tools is None:
            self.servers.learn(self.server, tools=False)
        return bool(new)

    def messages(self, ask: Ask) -> list[dict[str, Any]]:
        """The prompt. A server that takes no native calls gets calls and tools in words."""
        if ask.messages:
            if not self._declares(ask):
                return [_encodable(each) for each in json_form.conversation(ask.messages, ask.tools)]
            return self.dialect([_encodable(wire(each)) for each in ask.messages])
        return [
            {"role": "system", "content": encodable(ask.system)},
            {"role": "user", "content": encodable(ask.user)},
        ]

    def dialect(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A conversation with native calls as this provider wants it."""
        return dialects.mistral(messages) if dialects.for_mistral(self.model) else messages

    def _declares(self, ask: Ask) -> bool:
        """Whether this ask's tools are declared to the server, and its calls have the provider's own form."""
        return bool(ask.tools) and self.takes_tools

    def optional(self, ask: Ask, form: Mapping[str, Any] | None) -> dict[str, Any]:
        """The parts of a request that a server may refuse: tools, or the form of the reply; temperature.

        The first reply is the likely one; after a refused one, another is wanted.
        """
        parts: dict[str, Any] = {}
        if self._declares(ask):
            parts["tools"] = [dict(tool) for tool in ask.tools]
        elif ask.form.kind == "json" and form:
            parts["response_format"] = dict(form)
        if ask.form.kind != "json" or ask.sample:
            parts["temperature"] = SAMPLING if ask.sample else 0.0
        return {name: part for name, part in parts.items() if name not in self.refused}

    def caching(self, ask: Ask) -> dict[str, Any]:
        """What the server is told of caching the prompt, and may refuse: `CACHE_KEY`, `CACHE_MARKS`.

        Most servers cache what requests begin with by themselves.
        """
        return {}

    def schema_of(self, ask: Ask) -> dict[str, Any]:
        """The schema of the reply; of a turn without one, that of its calls as text."""
        return dict(ask.schema or (json_form.schema(ask.tools) if ask.messages else {}))

    def tokens(self, ask: Ask, prompt: Any, completion: Any, text: str) -> tuple[int, int]:
        """Prompt and completion tokens: what the server reports, else their counts."""
        return (
            whole(prompt, 0) or prompt_tokens(ask, self.count),
            whole(completion, 0) or self.count(text),
        )

    def withheld(self, cost: Usage) -> ProviderError:
        """The error for a reply that the provider's filter withheld."""
        return ProviderError(
            f"{self.name}: the provider's filter withheld the reply; rephrase the task", cost
        )

    def text_of(self, ask: Ask, calls: Sequence[tuple[str, str]], text: str) -> str:
        """The reply as text: native calls, by name and arguments, become a turn."""
        if not ask.wants_turn:
            return text
        if calls:
            return turn_text(calls, text)
        return json_form.turn_in(text, ask.tools) if self._declares(ask) else json_form.read_turn(text)

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
        """The key that the command prints, else that in the variable; raises `ConfigurationError`."""
        key = printed_key(self.key_command) if self.key_command else secret_of(variable)
        if not key:
            raise ConfigurationError(f"{self.name}: the environment variable {variable} is not set")
        return key

    def own_headers(self) -> dict[str, str]:
        """The headers of the settings, with their variables replaced; raises `ConfigurationError`."""
        return headers_of(self.headers)

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
            fix = "see that key_command prints the right one" if self.key_command else fix
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
    cached = one.cached_tokens + other.cached_tokens
    return Usage(prompt, completion, usd, one.calls + other.calls, cached_tokens=cached)


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


def _has_calls(ask: Ask) -> bool:
    return any(map(calls_of, ask.messages))


def _encodable(value: Any) -> Any:
    """A message with each text in it encodable."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {name: _encodable(each) for name, each in cast(Mapping[str, Any], value).items()}
    return (
        [_encodable(each) for each in cast(Sequence[Any], value)]
        if isinstance(value, list | tuple)
        else value
    )


def wire(message: Message) -> Message:
    """A message as every provider accepts it, whatever a model has written in its calls.

    Names have 1 to 64 of the permitted characters, arguments are a JSON object, and no content is empty.
    """
    called = calls_of(message)
    empty = None if called else EMPTY
    content = message.get("content") or ""
    fixed: dict[str, Any] = {**message, "content": content if content.strip() else empty}
    if called:
        fixed["tool_calls"] = [_wire_call(*each) for each in called]
    return fixed


def _wire_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    args = object_of(arguments)
    given = to_json({"text": arguments}) if args is None else arguments if args else "{}"
    function = {"name": _STRANGE.sub("_", name)[:64] or "unknown", "arguments": given}
    return {"id": id, "type": "function", "function": function}


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
