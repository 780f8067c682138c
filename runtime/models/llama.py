"""A model in this process, through llama.cpp: `llama:PATH.gguf`. A grammar makes replies match the schema.

A model is loaded once per process and answers one ask at a time in its own thread. When few tokens are left,
the reply is closed in the shortest way that the schema allows, and marked as truncated.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kernel.asking.messages import sent
from kernel.asking.responder import Ask, Reply, Responder, Tier, Usage, Waits
from kernel.document.model import Document
from kernel.errors import ConfigurationError, ProviderError
from runtime.models import json_form
from runtime.models.gguf import trained_context
from runtime.models.grammar import Grammar, grammar

if TYPE_CHECKING:
    from runtime.models.llama_engine import Model

FRAME = 64  # tokens that a chat template adds to two messages, at most, in estimates
WARMER = 0.2  # what each further sample adds to it, since a small model is sure of its errors
SAMPLING = 0.7  # the temperature of a reply after the likely one. Source: small-models.md, "What was seen" 6


class Llama(Responder):
    """One GGUF file."""

    def __init__(
        self,
        path: Path,
        *,
        tier: Tier = "worker",
        name: str = "",
        context: int = 8192,
        max_tokens: int | None = None,
        temperature: float = 0.4,
        top_p: float = 0.95,
        threads: int | None = None,
        gpu_layers: int = 0,
        timeout: float | Mapping[str, float] | None = None,
    ) -> None:
        """Name a model; it is loaded at the first ask, or by `warm`.

        context: tokens of prompt and reply together. max_tokens: a limit for replies below the ask's.
        threads: by default one for each core. gpu_layers: the number of layers on a GPU; -1 for all.
        timeout: seconds for one reply, also as {total: …}; None waits for its end.
        """
        if find_spec("llama_cpp") is None:
            raise ConfigurationError(
                f"llama:{path} needs llama-cpp-python: pip install 'fractal-runtime[local]' (some minutes)"
            )
        if not path.is_file():
            raise ConfigurationError(f"{path}: no such model file")
        self.path = path.resolve()
        self.name = name or f"llama:{path.name}"
        self.tier: Tier = tier
        self.context = min(context, trained_context(self.path) or context)
        self.max_tokens = max_tokens
        self.temperature, self.top_p = temperature, top_p
        self.timeout = timeout.get("total") if isinstance(timeout, Mapping) else timeout
        self._warmed = False
        self._hardware = (threads or os.cpu_count() or 1, gpu_layers)

    @property
    def window_source(self) -> str:
        """Where that number comes from."""
        return "what the model is loaded with"

    def warm(self) -> None:
        """Begin to load the model in its thread."""
        if not self._warmed:
            self._warmed = True
            _engine().thread_of(self.path).submit(self.load)

    def offers(self, task: str, document: Document) -> float | None:
        """Accept any attempt."""
        return 0.4

    def count(self, text: str) -> int:
        """Tokens by the model's own tokenizer."""
        words = self.load().llama if self._warmed else _engine().vocabulary(self.path)
        return len(words.tokenize(_engine().as_bytes(text), add_bos=False, special=False))

    def estimate(self, ask: Ask) -> Usage:
        """The prompt in its template and the longest reply, at no cost."""
        messages = _written(ask)
        prompt = sum(self.count(each["content"]) for each in messages)
        return Usage(prompt + FRAME // 2 * len(messages), self._longest(ask))

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Generate the reply in the model's thread; cancelling stops it at the next token."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        heard = partial(loop.call_soon_threadsafe, ask.on_text)
        try:
            writing = loop.run_in_executor(_engine().thread_of(self.path), self._write, ask, stop, heard)
            return await asyncio.wait_for(writing, self.timeout)
        except TimeoutError:
            raise ProviderError(f"{self.name}: no reply within {self.timeout:g} s") from None
        finally:
            stop.set()

    def _longest(self, ask: Ask) -> int:
        return min(ask.max_tokens, self.max_tokens or ask.max_tokens)

    def load(self) -> Model:
        """The model, loaded once in this process."""
        return _engine().load(self.path, self.context, *self._hardware)

    def _write(self, ask: Ask, stop: threading.Event, heard: Callable[[str], object]) -> Reply:
        if stop.is_set():
            return Reply("", self.name, truncated=True)  # cancelled while it was queued
        model = self.load()
        form = self._grammar(ask) if ask.form.kind == "json" else None
        prompt = model.prompt(_written(ask)) + model.tokens(ask.form.begins)
        room = model.context - len(prompt)
        if room < min(self._longest(ask), (form.reserve if form else 0) + 2 * _engine().SPARE):
            raise ProviderError(
                f"{self.name}: the prompt has {len(prompt)} tokens and does not fit into the context of "
                f"{model.context} with a reply; set options: {{context: …}} or take a smaller --profile"
            )
        if ask.form.kind == "choice":
            return self._choose(model, prompt, ask.form.options)
        longest = min(self._longest(ask), room)
        seed = zlib.crc32(f"{ask.key} {ask.sample}".encode("utf-8", "replace"))
        temperature = self.temperature if form else 0.0
        if ask.sample:  # the likely reply was no good
            temperature = max(temperature, SAMPLING + WARMER * (ask.sample - 1))
        writer = _engine().Writer(model, form, temperature, self.top_p, seed, heard)
        whole, hurried = writer.write(prompt, longest, stop, fenced=ask.form.kind == "block")
        used = Usage(len(prompt), len(writer.tokens))
        text = ask.form.begins + writer.text
        text = json_form.read_turn(text) if ask.wants_turn else text
        return Reply(text, self.name, used, truncated=hurried or not whole)

    def _grammar(self, ask: Ask) -> Grammar:
        calls = {**json_form.schema(ask.tools), "required": ["text", "calls"]}  # in this order: thought first
        schema = ask.schema or (calls if ask.tools else {})
        try:
            return grammar(schema, ask.words)
        except ValueError as error:
            raise ProviderError(
                f"{self.name}: the schema of {ask.phase.upper()} has no grammar: {error}"
            ) from None

    def _choose(self, model: Model, prompt: list[int], options: Sequence[str]) -> Reply:
        """The most probable option, with the probability of each among them."""
        tokens = [model.tokens(option) for option in options]
        likely = [model.log_probability(prompt, each) for each in tokens]
        best = max(likely)
        weights = [math.exp(each - best) for each in likely]
        scores = {
            option: round(weight / sum(weights), 4) for option, weight in zip(options, weights, strict=True)
        }
        used = Usage(len(prompt), sum(map(len, tokens)))
        return Reply(options[likely.index(best)], self.name, used, scores=scores)


def _written(ask: Ask) -> Sequence[Mapping[str, str]]:
    """The messages of an ask. A model in this process declares no tools: calls are text."""
    return json_form.conversation(ask.messages, ask.tools) if ask.messages else sent(ask)


def _engine() -> ModuleType:
    """llama.cpp, imported when it is used."""
    from runtime.models import llama_engine

    return llama_engine
