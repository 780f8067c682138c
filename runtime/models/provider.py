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
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit

from kernel.asking.messages import Message, calls_of, prompt_tokens, sent
from kernel.asking.responder import FREE, Ask, Reply, Responder, Tier, Usage, Waits, estimate_tokens
from kernel.document.amounts import MOST_AT_ONCE, whole
from kernel.document.escaping import to_json
from kernel.errors import ConfigurationError, FractalError, ProviderError, ReplyError
from runtime import addresses
from runtime.addresses import is_loopback
from runtime.http_transport import cause
from runtime.models import dialects, json_form, thinking
from runtime.models.answers import Answer, encodable
from runtime.models.failures import Failure, OutOfThought, cut_off, failure_of
from runtime.models.faults import Fault
from runtime.models.keys import command_words, headers_of, printed_key
from runtime.models.leaving_out import LEFT_OUT, REFUSALS, Changes
from runtime.models.prices import (
    LOCAL_PROVIDERS,
    NOTHING,
    Price,
    known_price,
    litellm_folder,
    usage,
)
from runtime.models.refusals import (
    FILTERED,
    KEY_REFUSED,
    LEAST,
    LIMITS,
    PARTS,
    SPARE,
    length_in,
    other_limit,
)
from runtime.models.seeing import sees_by_name
from runtime.models.servers import ASKED_AGAIN, KEPT, Servers
from runtime.models.tool_calls import object_of, turn_text
from runtime.models.window import LOCAL, Window, in_table, valid
from runtime.proxies import proxy_for
from runtime.received import LIMIT, TooLarge, of_reply
from runtime.secrets.known import learn_secret, learn_secrets, secret_of
from runtime.secrets.redaction import redact
from runtime.text.json_reader import read_reply
from runtime.workspace.settings import Timeouts

ANY_OBJECT = {"type": "json_object"}
SCHEMA_TOKENS = 100  # larger schemas are described in words
MESSAGE_TOKENS = 6  # the overhead of a message
SAMPLING = 0.7  # the temperature of a reply to a small question after the likely one
LONGEST_WAIT = 60.0  # seconds between two attempts, unless the provider asks for more
CACHE_KEY, CACHE_MARKS = "prompt_cache_key", "cache_control"
"""How two kinds of providers are told what of a prompt to cache: by a name for it, by marks in it."""
LOCAL_RETRIES = 1  # after a refused connection to this machine: the server is not running
KEYS = {
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
    "bedrock": "AWS_ACCESS_KEY_ID",
}
"""The variables of providers that litellm serves, where they are not named `PROVIDER_API_KEY`."""
ROOM: ContextVar[int] = ContextVar("ROOM", default=MOST_AT_ONCE)
"""The most tokens that the server leaves for the reply to the ask of this task."""
EMPTY = "(nothing)"
"""What stands for an empty message, which some providers refuse."""
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")


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

    gateway = ""
    """The server or library that wants a conversation in a way of its own: gemini, openrouter, litellm."""

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
        max_tokens: int | None = None,
        thinking_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
        tools: bool | None = None,
        sees: bool | None = None,
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
        max_tokens: a limit for replies below the ask's.
        thinking_tokens: additional tokens for the model's thinking; None: as usual for its name.
        options: more arguments of the request, such as temperature.
        tools: whether calls of a turn have the provider's own form; None tries it once.
        sees: whether it is shown pictures; None takes what is known of the model.
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
        learn_secret("password of api_base", urlsplit(api_base or "").password or "")
        self.key_env, self.key_command = key_env, command_words(key_command)
        self.headers, self.ca_bundle = dict(headers or {}), ca_bundle
        self.given_price = price
        self.price = price or known_price(model) or (NOTHING if is_loopback(api_base) else None)
        self.context = context
        self.servers = servers or Servers()
        self.timeout = limits_of(timeout)
        self.retries, self.backoff = retries, backoff
        self.patience = patience
        self.max_tokens, self._thinking = max_tokens, thinking_tokens
        self.options = dict(options or {})
        learn_secrets(self.options)
        self.provider = model.partition("/")[0] if "/" in model else "openai"
        self._brake = _brake_of(f"{self.provider} {api_base or ''}")
        facts = self.servers.known(self.server)
        self.refused: set[str] = {each for each in PARTS if each in facts.get("without", ())}
        """Optional parts of a request that the server has refused, and that are left out since."""
        self.one_at_fault = False
        """Whether its server refused a request, naming no part of it, and took it without all of them."""
        self.broke_off = False
        """Whether its server has ended a stream too early, once."""
        self.streams_only = False
        """Whether its server never answers in one piece: a stream that says that it is done is complete."""
        self.limit = str(facts.get("limit", "max_tokens"))
        """The request's member for the longest reply."""
        self._longest = whole(facts.get("longest"), 0)  # tokens of a reply that the server allows; 0: unknown
        self._tools = tools
        self._sees = sees_by_name(model) if sees is None else sees

    @property
    def sees(self) -> bool:
        """Whether it is shown pictures: as set or known of the model, unless its server has refused one."""
        return self._sees and "images" not in self.left_out

    @property
    def left_out(self) -> frozenset[str]:
        """What the present request leaves out: what the server refuses, and what this ask leaves out."""
        return LEFT_OUT.get() | self.refused

    @property
    def takes_tools(self) -> bool:
        """Whether calls of a turn have the provider's own form: as set, else unless its server refused it."""
        if "tools" in self.left_out:
            return False
        return (
            bool(self.servers.known(self.server).get("tools", True)) if self._tools is None else self._tools
        )

    @property
    def bare_model(self) -> str:
        """The name of the model, as its server knows it."""
        return self.model.partition("/")[2] or self.model

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

    @property
    def thinking_tokens(self) -> int:
        """Tokens for the model's thinking beside its reply: as set, learned, or usual for its name."""
        if self._thinking is None:
            return thinking.room_of(self.model, self.window)
        return self._thinking

    @cached_property
    def _window(self) -> Window:
        return self.find_window()

    def find_window(self) -> Window:
        """The window by what is known now: not more than the server has refused a prompt for.

        A server of one's own knows better than the table.
        """
        known = self.servers.known(self.server)
        own, listed = (
            ("the server", valid(known.get("window"))),
            ("the table of models", in_table(self.model)),
        )
        first = (own, listed) if self.api_base or self.is_local else (listed, own)
        # a server that runs a model here says its window, but for Ollama's; a silent one is a gateway
        runs_here = self.provider in LOCAL_PROVIDERS or f":{OLLAMA}" in (self.api_base or "")
        usual = ("usual for a local model", LOCAL) if runs_here else ("usual", super().window)
        said = (("the settings", self.context), *first, usual)
        found = next(Window(tokens, source) for source, tokens in said if tokens)
        # a server on this machine does not always say that it was started anew with a larger window
        age = ASKED_AGAIN if is_loopback(self.address) else KEPT
        fits = valid(self.servers.known(self.server, age).get("fits"))
        return Window(fits, "the server") if fits and fits < found.tokens else found

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

    def request(self, ask: Ask, **more: Any) -> dict[str, Any]:
        """The members of a request; what the settings say takes their place, and null leaves one out."""
        limit = {} if self.options.keys() & set(LIMITS) else {self.limit: self.longest(ask)}
        request = {"model": self.bare_model, "messages": self.messages(ask), **limit, **self.optional(ask)}
        return {name: each for name, each in (request | more | self.options).items() if each is not None}

    def messages(self, ask: Ask) -> list[dict[str, Any]]:
        """The prompt; a conversation with an Anthropic model has marks for its cache.

        A server that takes no message of the system gets it with the user's first one.
        """
        written = self.conversation(ask)
        written = dialects.without_system(written) if "system" in self.left_out else written
        marks = CACHE_MARKS in self.caching(ask)
        return dialects.marked(written, in_results=self.gateway == "openrouter") if marks else written

    def conversation(self, ask: Ask) -> list[dict[str, Any]]:
        """The messages. A server that takes no native calls gets calls and tools in words."""
        if ask.messages:
            if not self._declares(ask):
                written = [_encodable(each) for each in json_form.conversation(ask.messages, ask.tools)]
            else:
                sent_as = [_encodable(wire(each)) for each in ask.messages]
                written = dialects.native(sent_as, self.model, self.gateway)
                if "null" in self.left_out:
                    written = [{**each, "content": each["content"] or ""} for each in written]
            return [_with_images(each, sees=self.sees) for each in written]
        said = [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.user}]
        return [_encodable(each) for each in said]

    def _declares(self, ask: Ask) -> bool:
        """Whether this ask's tools are declared to the server, and its calls have the provider's own form."""
        return bool(ask.tools) and self.takes_tools

    def optional(self, ask: Ask) -> dict[str, Any]:
        """The parts of a request that a server may refuse: tools, or the form of the reply; temperature.

        The first reply is the likely one; after a refused one, another is wanted.
        """
        parts: dict[str, Any] = {}
        if self._declares(ask):
            parts["tools"] = [dict(tool) for tool in ask.tools]
        elif (
            ask.form.kind == "json" and "response_format" not in self.left_out and (form := self.form_of(ask))
        ):
            parts["response_format"] = form
        if ask.form.kind != "json" or ask.sample:
            parts["temperature"] = SAMPLING if ask.sample else 0.0
        return {name: part for name, part in parts.items() if name not in self.left_out}

    def parts(self, ask: Ask) -> list[str]:
        """The parts of this request that it can do without, in the order in which they are tried."""
        optional = self.optional(ask)
        sent = {*optional, *self.caching(ask), "system"} - self.left_out
        if optional.get("response_format", ANY_OBJECT)["type"] == "json_schema":
            sent.add("json_schema")
        if self._declares(ask) and _has_calls(ask) and "null" not in self.left_out:
            sent.add("null")
        if self.sees and any(each.get("images") for each in ask.messages):
            sent.add("images")
        return [part for part in PARTS if part in sent]

    def leave_out(self, parts: Collection[str], ask: Ask, *, lasting: bool) -> None:
        """Send these parts no more: the server has named them; `lasting`: also in the next processes."""
        self.refused |= set(parts)
        if not lasting:
            return
        if new := set(parts) - {"tools"}:
            known = set(self.servers.known(self.server).get("without", ()))
            self.servers.learn(self.server, without=sorted(known.intersection(PARTS) | new))
        # an error about tools in the middle of a conversation may be about its calls
        if "tools" in parts and ask.wants_turn and not _has_calls(ask) and self._tools is None:
            self.servers.learn(self.server, tools=False)

    def drop_options(self, words: str, ask: Ask) -> bool:
        """Leave out arguments of the settings that a refusal names; whether there were any."""
        named = [
            name
            for name in self.options
            if len(name) > 2 and re.search(rf"(?<![a-z0-9]){re.escape(name.casefold())}(?![a-z0-9])", words)
        ]
        for name in named:
            del self.options[name]
        if named:
            ask.notify(f"{self.name}: the server refuses {', '.join(named)}, which is left out now")
        return bool(named)

    def learn_lengths(self, ask: Ask, words: str) -> bool:
        """Learn from a refusal how the limit of a reply is called, or how long prompt and reply may be.

        Returns whether the next request is another one; it is not where the prompt alone is too long.
        """
        if name := other_limit(words):
            changed, self.limit = name != self.limit, name
            self.servers.learn(self.server, limit=name)
            return changed
        if not (found := length_in(words)):
            return False
        had = self.longest(ask)
        if found.window:
            self._learn_window(found.window)
            prompt = found.prompt or prompt_tokens(ask, self.count)
            room = found.window - prompt - SPARE
            room = room if found.prompt else max(room, min(LEAST, had // 2))  # the count is an estimate
            once_more = ROOM.get() < MOST_AT_ONCE  # some count the prompt as what the reply leaves of it
            ROOM.set(min(room, had // 2) if once_more or room >= had else room)
            return ROOM.get() >= min(LEAST, ask.max_tokens)
        if found.longest:
            self._longest = found.longest if found.longest < had else had // 2
            self.servers.learn(self.server, longest=self._longest)
            return self._longest >= min(LEAST, ask.max_tokens)
        if "too large" in words.casefold() and had > LEAST:
            ROOM.set(had // 2)
            return True
        return False

    def _learn_window(self, tokens: int) -> None:
        """Remember how much the server takes; the next prompt is made for that."""
        if (fits := valid(tokens)) and fits < self.window:
            self.servers.learn(self.server, fits=fits)
            with suppress(AttributeError):
                del self._window

    def caching(self, ask: Ask) -> dict[str, Any]:
        """What the server is told of caching a conversation, and may refuse: `CACHE_KEY`, `CACHE_MARKS`.

        An Anthropic model needs marks. Most servers cache what requests begin with by themselves.
        """
        marks = ask.messages and dialects.for_marks(self.model) and CACHE_MARKS not in self.left_out
        return {CACHE_MARKS: dialects.MARK} if marks else {}

    def schema_of(self, ask: Ask) -> dict[str, Any]:
        """The schema of the reply; of a turn without one, that of its calls as text."""
        return dict(ask.schema or (json_form.schema(ask.tools) if ask.messages else {}))

    def reply_of(self, ask: Ask, answer: Answer, headers: Mapping[str, str] | None = None) -> Reply:
        """The reply in an answer. Raises for each answer that is none, with what it has cost."""
        fault = answer.fault
        # the server could not read what its model wrote; what nobody can read is a refusal of the form
        if fault and fault.wrote and not answer.begun and (self._declares(ask) or _object_in(fault.wrote)):
            answer, fault = replace(answer, text=fault.wrote, finish="stop"), None
        text = self._text_of(ask, answer)
        if fault:
            raise Failure(fault, headers, self._cost_of_fault(ask, answer, fault))
        cost = self.cost(ask, answer)
        if answer.refusal and not text.strip():
            raise ProviderError(
                f"{self._at}: the model refuses: {redact(answer.refusal)[:300]}; rephrase the task", cost
            )
        if answer.finish == "filter":
            raise ProviderError(
                f"{self._at}: the provider's filter withheld the reply; rephrase the task", cost
            )
        done = answer.finish == "broken" and answer.begun and self.streams_only
        whole = answer.finish == "stop" or done or self._is_whole(ask, answer)
        if answer.finish in ("cut", "broken") and not whole:
            by_server = answer.finish == "broken" or not answer.begun
            paid = cost if answer.begun else None
            raise cut_off("the stream ended in the middle of the reply", paid, by_server=by_server)
        if not whole and _only_thought(answer, cost.completion_tokens, self.longest(ask)):
            raise OutOfThought(answer.tokens.thinking or self.count(answer.thinking), cost)
        return Reply(self._as_turn(ask, answer, text), self.name, cost, not whole)

    def cost(self, ask: Ask, answer: Answer) -> Usage:
        """What an answer has cost: as the server reports it, else by counting."""
        told = answer.tokens
        prompt = told.prompt or prompt_tokens(ask, self.count)
        written = [answer.text, answer.thinking, *map(" ".join, answer.calls)]
        completion = told.completion or sum(self.count(each) for each in written if each)
        if told.usd is not None and not self.given_price:
            return Usage(prompt, completion, told.usd, cached_tokens=told.cached)
        return usage(prompt, completion, self.price, told.cached)

    def _cost_of_fault(self, ask: Ask, answer: Answer, fault: Fault) -> Usage | None:
        """What an answer has cost that is no reply; None for one that the model had no part in."""
        told = answer.tokens.prompt or answer.tokens.completion or answer.tokens.usd is not None
        if answer.begun or told:
            return self.cost(ask, answer)
        return self.estimate(ask) if fault.unread else None

    def _text_of(self, ask: Ask, answer: Answer) -> str:
        """The text of an answer, wherever its server has put it."""
        if answer.text.strip() or answer.finish != "stop":
            return answer.text
        if answer.calls:  # some ask for an object by a call
            return answer.text if ask.wants_turn else answer.calls[0][1]
        return _object_in(answer.thinking) if ask.form.kind == "json" else answer.text

    def _as_turn(self, ask: Ask, answer: Answer, text: str) -> str:
        """The reply as text: native calls, by name and arguments, become a turn."""
        if not ask.wants_turn:
            return text
        if answer.calls:
            return turn_text(answer.calls, text)
        return json_form.turn_in(text, ask.tools) if self._declares(ask) else json_form.read_turn(text)

    def _is_whole(self, ask: Ask, answer: Answer) -> bool:
        """Whether a reply is complete, although its server says that it was cut off or does not say."""
        if answer.calls:
            return all(given.strip() and object_of(given) is not None for _, given in answer.calls)
        if ask.form.kind != "json":
            return answer.text.strip() in ask.form.options
        text = answer.text
        if ask.wants_turn and self._declares(ask):
            calls = json.loads(json_form.turn_in(text, ask.tools)).get("calls")
            return bool(calls) and not any("bad" in each for each in calls)
        return bool(_object_in(text))

    def other_way(self, words: str) -> str:
        """What may help where a server knows no such model or address; "" if nothing is known."""
        return ""

    def form_of(self, ask: Ask) -> dict[str, Any] | None:
        """What the request says of the reply's form: a small schema, any JSON object, or nothing."""
        wanted = self.schema_of(ask)
        if "json_schema" in self.left_out or self.count(json.dumps(wanted)) > SCHEMA_TOKENS:
            return ANY_OBJECT
        schema = {"name": "reply", "schema": wanted, "strict": False}
        return {"type": "json_schema", "json_schema": schema}

    @abstractmethod
    async def load(self) -> None:
        """Import the client's library in a thread."""

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Ask the model; retry temporary failures while patience allows.

        Each answer that came is charged, and an attempt that timed out in full: it may have been billed.
        """
        await self.load()
        room, left_out = ROOM.set(MOST_AT_ONCE), LEFT_OUT.set(frozenset())
        try:
            return await self._answer(ask)
        finally:
            ROOM.reset(room)
            LEFT_OUT.reset(left_out)

    async def _answer(self, ask: Ask) -> Reply:
        begun, failures, thoughts, lost = time.monotonic(), 0, 0, FREE
        unsaid = FREE  # of a stream that ended before anything came: nothing, if it was ended for an error
        end = begun + self.patience
        changes = Changes(self, ask)
        while True:
            try:
                self._still_time(end, self._brake.until, "it reported a rate limit")
                await self._brake.wait()
                try:
                    LIMIT.set(of_reply(self.longest(ask)))
                    reply = await self.send(ask, self.timeout.total)
                    changes.worked()
                    return replace(reply, usage=_sum_usage(reply.usage, _sum_usage(lost, unsaid)))
                except (FractalError, OutOfThought) as error:
                    changes.worked()
                    if isinstance(error, FractalError):
                        raise
                    lost = _sum_usage(lost, error.usage)
                    thoughts += 1
                    self._more_room(ask, thoughts)
                    continue
                except Exception as raised:
                    if large := cause(raised, TooLarge):  # another attempt would bring as much
                        raise ProviderError(f"{self._at}: {large}", self.estimate(ask)) from None
                    error = failure_of(raised)
                    cost = error.usage or (self.estimate(ask) if error.paid else FREE)
                    unsaid = FREE if error.status in REFUSALS else unsaid
                    lost, unsaid = _sum_usage(lost, unsaid), cost
                    if not error.by_server or error.usage:
                        lost, unsaid = _sum_usage(lost, unsaid), FREE
                    if changes.after(error):
                        continue
                    failures += 1
                    pause = self._pause(changes.blamed(error), failures, begun)
                    self._still_time(end, time.monotonic() + pause, error.message)
                    ask.notify(
                        f"{self.name}: {error.message[:120]}, retrying in {pause:.0f} s "
                        f"({failures} of {self.retries})"
                    )
            except FractalError as error:
                lost = _sum_usage(lost, unsaid)
                if lost.calls:
                    used: Usage = getattr(error, "usage", None) or FREE
                    error.usage = _sum_usage(used, lost)  # pyright: ignore[reportAttributeAccessIssue]
                raise
            await asyncio.sleep(pause)

    def _more_room(self, ask: Ask, times: int) -> None:
        """Give the model more room to think from now on; raises `ProviderError` where it had enough."""
        had = self.longest(ask)
        if times <= thinking.MOST_MORE:
            more = max(self.thinking_tokens * thinking.MORE, thinking.LEAST_MORE)
            self._thinking = max(self.thinking_tokens, min(more, self.window // 2))
            if self.longest(ask) > had:
                ask.notify(f"{self.name}: its thinking took all of {had:,} tokens; it is given more")
                return
        raise ProviderError(
            f"{self._at}: its thinking took all of {had:,} tokens, and no reply came; give it more with "
            f"options: {{thinking_tokens: {2 * had}}}, or a smaller reasoning_effort"
        )

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
        most = min(ask.max_tokens, self.max_tokens or ask.max_tokens) + self.thinking_tokens
        return min(most, self._longest or most, ROOM.get())

    def _pause(self, error: Failure, failures: int, begun: float) -> float:
        """Seconds to wait before the next attempt; raises errors that a retry cannot fix."""
        status, text = error.status, error.message
        if status in (401, 403) or (status == 400 and KEY_REFUSED.search(error.words)):
            fix = (
                f"set {self.key_name}" if self.key_name else "name its variable with options: {key_env: NAME}"
            )
            fix = "see that key_command prints the right one" if self.key_command else fix
            raise ConfigurationError(
                f"{self._at}: the provider refused the key ({text}); {fix} and run `fractal resume`"
            ) from None
        if status == 404:
            raise ConfigurationError(
                f"{self._at}: no such model or address ({text}){self.other_way(text)}"
            ) from None
        why = ""
        if error.too_long:
            why = f"the prompt is longer than the model's context ({text})"
        elif status in (400, 422) and FILTERED.search(error.words):
            why = f"the provider's filter refuses the prompt ({text})"
        elif not error.passes:
            why = text
        elif failures > LOCAL_RETRIES and is_loopback(self.api_base) and error.unreachable:
            why = "nothing answers there; is the server running?"
        elif failures > self.retries:
            why = f"failed {failures} times in {time.monotonic() - begun:.0f} s, last: {text}"
        if why:
            raise ProviderError(f"{self._at}: {why}") from None
        pause = max(error.pause, _delay(failures, self.backoff, LONGEST_WAIT))
        if status == 429 or error.pause:
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


def _sum_usage(one: Usage, other: Usage) -> Usage:
    """The sum of two usages; its price is None if either is."""
    usd = None if one.usd is None or other.usd is None else one.usd + other.usd
    prompt = one.prompt_tokens + other.prompt_tokens
    completion = one.completion_tokens + other.completion_tokens
    cached = one.cached_tokens + other.cached_tokens
    return Usage(prompt, completion, usd, one.calls + other.calls, cached_tokens=cached)


def _only_thought(answer: Answer, written: int, most: int) -> bool:
    """Whether most of a reply that was cut off, with so many tokens of the `most`, is thinking."""
    if answer.tokens.thinking:
        return 2 * answer.tokens.thinking > written
    said = len(answer.text) + sum(len(given) for _, given in answer.calls)
    hidden = not said and 10 * written > 9 * most  # a server need not show it
    return hidden or len(answer.thinking) > said


def _object_in(text: str) -> str:
    """A text that has one JSON object, or its last part that has; "" if there is none."""
    parts = [text, *(text[at.start() :] for at in re.finditer(r"(?m)^(?:```\w*\n)?\{", text[-100_000:]))][-8:]
    for part in dict.fromkeys((*reversed(parts), text)):
        with suppress(ReplyError):
            read_reply(part)
            return part
    return ""


def _has_calls(ask: Ask) -> bool:
    return any(map(calls_of, ask.messages))


def _encodable(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with each text in it encodable."""
    return json.loads(encodable(json.dumps(message, ensure_ascii=False)))


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


def _with_images(message: dict[str, Any], *, sees: bool) -> dict[str, Any]:
    """A message with its pictures in parts of its content; without them for a server that takes none."""
    images = message.pop("images", ())
    if not images:
        return message
    if not sees:
        return {
            **message,
            "content": f"{message['content']}\n(It is not shown: this model sees no pictures.)",
        }
    urls = [f"data:{each['kind']};base64,{each['data']}" for each in images]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {**message, "content": [{"type": "text", "text": message["content"]}, *parts]}


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
