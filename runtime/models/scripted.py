"""A fake model for tests and examples: it answers from a script and needs no provider.

A script is one of

- a list: plain replies are used in the order of the asks;
- a mapping from a phase (`turn`, `check`) or phase and level (`turn/tool`) to a reply, or to a list of them
  in order; `plan` and `fused` name the first turn of an attempt, `work` the later ones;
- a function that takes the ask and returns a reply, plain or awaitable, or raises what a provider would;
- a file of the first two kinds, YAML or JSON: `scripted:FILE`.

A reply is an object or raw text. A list may also contain entries: a `When`, or in a file an object with
`reply` or `error`. Each entry states which asks it answers; the first that fits and is not used up is taken.
Entries are matched when an ask arrives, so parallel loops get the same replies in any order. A resumed run
takes earlier replies from its log and starts the script again: match by phase and step there.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from kernel.asking.messages import prompt_text, prompt_tokens
from kernel.asking.responder import Ask, Reply, Responder, Tier, Usage, Waits
from kernel.asking.turn import TURN
from kernel.document.model import Document
from kernel.errors import ConfigurationError, Declined, ProviderError
from runtime.models.prices import NOTHING, Price, usage

_ERRORS: dict[str, type[Exception]] = {
    "provider": ProviderError,
    "declined": Declined,
    "configuration": ConfigurationError,
}


@dataclass(frozen=True)
class When:
    """An entry of a script: which asks it answers (None fits any), and the reply."""

    phase: str | Sequence[str] | None = None
    level: str | Sequence[str] | None = None  # system, tool, operation
    attempt: int | None = None
    step: int | None = None
    turn: int | None = None
    loop: str | None = None  # a pattern found in the loop's id
    task: str | None = None  # a pattern found in the document's task
    prompt: str | None = None  # a pattern found in what the model is shown
    reply: Any = None  # an object, raw text, a Reply, Waits, or a function of the ask
    error: str | Mapping[str, str] | Exception | None = None  # a key of _ERRORS, or {key: message}
    usage: Mapping[str, Any] | None = None  # replaces prompt_tokens, completion_tokens or usd
    truncated: bool = False
    delay: float = 0.0  # seconds
    times: int | None = None  # None: once for an entry without conditions, else unlimited

    def fits(self, ask: Ask) -> bool:
        """Whether this entry answers that ask."""
        same = {"attempt": self.attempt, "step": self.step, "turn": self.turn}
        patterns = [
            (self.loop, ask.loop),
            (self.task, ask.document.task),
            (self.prompt, prompt_text(ask)),
        ]
        return (
            any(_among(name, self.phase) for name in _names(ask))
            and _among(ask.document.meta.level, self.level)
            and all(value in (None, getattr(ask, name)) for name, value in same.items())
            and all(pattern is None or re.search(pattern, text) for pattern, text in patterns)
        )

    def __post_init__(self) -> None:
        for pattern in (self.loop, self.task, self.prompt):
            try:
                re.compile(pattern or "")
            except (re.error, TypeError) as error:
                raise ConfigurationError(f"the script has the invalid pattern {pattern!r}: {error}") from None

    @property
    def limit(self) -> float:
        """How often the entry may be used."""
        narrowed = any(getattr(self, name) is not None for name in _MATCHERS)
        return self.times if self.times is not None else float("inf") if narrowed else 1


_MATCHERS = ("phase", "level", "attempt", "step", "turn", "loop", "task", "prompt")
Script = Sequence[Any] | Mapping[Any, Any] | Callable[[Ask], Any]


class Scripted(Responder):
    """A responder that answers from a script. `asks` records the asks in order."""

    def __init__(
        self,
        replies: Script,
        name: str = "scripted",
        tier: Tier = "worker",
        *,
        sure: float | None = 1.0,
        price: Price | None = NOTHING,
        context: int | None = None,
        sees: bool = False,
    ) -> None:
        self._sees = sees
        self.name = name
        self.tier: Tier = tier
        self.sure = sure
        self.price = price
        self.context = context
        self.asks: list[Ask] = []
        self._entries = [When(reply=replies, times=10**9)] if callable(replies) else _entries(replies)
        self._used = [0] * len(self._entries)

    @property
    def sees(self) -> bool:
        """Whether it is shown pictures, as a test sets it."""
        return self._sees

    @staticmethod
    def from_file(path: Path, name: str = "", tier: Tier = "worker", **settings: Any) -> Scripted:
        """Read a script from a YAML or JSON file. Raises `ConfigurationError` if it is invalid."""
        import yaml

        try:
            text = path.read_text("utf-8")
            script = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except OSError as error:
            raise ConfigurationError(f"{path}: the script cannot be read: {error.strerror}") from None
        except (ValueError, yaml.YAMLError) as error:
            raise ConfigurationError(f"{path}: the script is not valid YAML or JSON: {error}") from None
        if not isinstance(script, list | dict):
            raise ConfigurationError(f"{path}: a script must be a list of replies, or replies by phase")
        try:
            return Scripted(cast(Script, script), name or f"scripted:{path.name}", tier, **settings)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from None

    def offers(self, task: str, document: Document) -> float | None:
        """The configured confidence for any task."""
        return self.sure

    def estimate(self, ask: Ask) -> Usage:
        """The prompt and the longest reply, by the conservative estimate."""
        return usage(prompt_tokens(ask, self.count), ask.max_tokens, self.price)

    async def answer(self, ask: Ask) -> Reply | Waits:
        """The scripted reply, error or wait; `ProviderError` when no entry fits."""
        self.asks.append(ask)
        entry = self._take(ask)
        if entry.delay:
            await asyncio.sleep(entry.delay)
        if entry.error is not None:
            raise _exception(entry.error, ask)
        content = entry.reply(ask) if callable(entry.reply) else entry.reply
        if inspect.isawaitable(content):
            content = await content
        if isinstance(content, Reply | Waits):
            return content
        if content is None:
            raise ProviderError(f"{self.name}: the script has no reply to {_label(ask)}")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return Reply(text, self.name, self._usage(ask, text, entry.usage or {}), entry.truncated)

    def _take(self, ask: Ask) -> When:
        for index, entry in enumerate(self._entries):
            if self._used[index] < entry.limit and entry.fits(ask):
                self._used[index] += 1
                return entry
        raise ProviderError(f"{self.name}: no reply is left for {_label(ask)}; add an entry that fits it")

    def _usage(self, ask: Ask, text: str, counts: Mapping[str, Any]) -> Usage:
        prompt = counts.get("prompt_tokens", prompt_tokens(ask, self.count))
        completion = counts.get("completion_tokens", self.count(text))
        plain = usage(prompt, completion, self.price, counts.get("cached_tokens", 0))
        return replace(plain, usd=counts.get("usd", plain.usd), calls=counts.get("calls", 1))


def _entries(script: Sequence[Any] | Mapping[Any, Any]) -> list[When]:
    if not isinstance(script, Mapping):
        return [_entry(each, number) for number, each in enumerate(script, 1)]
    entries: list[When] = []
    for key, value in script.items():
        phase, _, level = (key if isinstance(key, str) else "/".join(key)).partition("/")
        for reply in value if isinstance(value, list) else [value]:
            parsed = _entry(reply, len(entries) + 1)
            times = parsed.times if parsed.times is not None else (1 if isinstance(value, list) else None)
            entries.append(replace(parsed, phase=phase, level=level or None, times=times))
    return entries


def _entry(value: Any, number: int) -> When:
    if isinstance(value, When):
        return value
    if not isinstance(value, Mapping) or not {"reply", "error"} & value.keys():
        return When(reply=value)
    allowed = {each.name for each in fields(When)}
    settings = cast(Mapping[str, Any], value)
    if unknown := settings.keys() - allowed:
        raise ConfigurationError(
            f"entry {number} of the script has {_listed(unknown)}; it may have {_listed(allowed)}"
        )
    kind = settings.get("error")
    if kind is not None and (kind if isinstance(kind, str) else next(iter(kind), "")) not in _ERRORS:
        raise ConfigurationError(f"entry {number} of the script: error is one of {_listed(_ERRORS)}")
    return When(**settings)


def _exception(error: str | Mapping[str, str] | Exception, ask: Ask) -> Exception:
    if isinstance(error, Exception):
        return error
    kind, message = (
        (error, f"scripted error for {_label(ask)}") if isinstance(error, str) else next(iter(error.items()))
    )
    return _ERRORS[kind](message)


def _names(ask: Ask) -> tuple[str, ...]:
    """The phases as which a script may speak of an ask: a first turn may plan, and later ones work."""
    if ask.phase != TURN:
        return (ask.phase,)
    if ask.bound:
        return (TURN, ask.part)
    began = ask.step > 1 or ask.document.planned
    return (TURN, "work") if began else (TURN, "plan", "fused")


def _among(value: str, accepted: str | Sequence[str] | None) -> bool:
    return accepted is None or value == accepted or (not isinstance(accepted, str) and value in accepted)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _label(ask: Ask) -> str:
    """An ask in words, for error messages."""
    task = ask.document.task
    place = f"attempt {ask.attempt}, step {ask.step}, turn {ask.turn}, level {ask.document.meta.level}"
    return f"{ask.part} of {ask.loop} ({place}; task: {task[:80]!r})"
