"""Writes one reply of a llama.cpp model, token by token, inside a grammar, and brings it to its end in time.

It knows nothing of prompts: it appends to tokens that it is given.
"""

from __future__ import annotations

import codecs
import ctypes
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernel.errors import ProviderError
from runtime.responders.grammar import Grammar

if TYPE_CHECKING:
    from runtime.responders.llama import Model

LIKELY = 64  # tokens that are drawn from before the whole vocabulary is
SPARE = 8  # tokens beyond the grammar's reserve with which closing begins
CLOSING = {False: ("}", "]", '"', ","), True: ('"',)}  # what is tried first outside and inside a string


class Pen:
    """Writes one reply, token by token, inside a grammar."""

    def __init__(self, model: Model, form: Grammar, temperature: float, top_p: float, seed: int) -> None:
        self.model, self.api, self.form = model, model.api, form
        self.temperature, self.top_p = max(temperature, 1e-3), top_p
        self.numpy = import_module("numpy")
        self.random = self.numpy.random.default_rng(seed)
        self.rules = self.api.llama_sampler_init_grammar(model.vocabulary, form.text.encode(), b"root")
        if not self.rules:
            raise ProviderError("llama.cpp refused the grammar of the reply's form; please report the form")
        self.tokens: list[int] = []
        self._utf8 = codecs.getincrementaldecoder("utf-8")("strict")
        self._text: list[str] = []
        self._closers = {model.pieces[token]: token for token in reversed(range(model.size))}

    @property
    def text(self) -> str:
        """What was written so far."""
        return "".join(self._text)

    def write(self, prompt: list[int], longest: int, stop: threading.Event) -> tuple[bool, bool]:
        """Write until the form is complete; say whether it is, and whether it had to be hurried."""
        hurried = False
        try:
            while len(self.tokens) < longest and not stop.is_set():
                hurried = longest - len(self.tokens) <= self.form.reserve + SPARE
                logits = self.model.feed(prompt + self.tokens)
                self._put((self._closer() if hurried else None) or self._draw(logits))
                if self._allowed(self.model.end):
                    return True, hurried
            return False, hurried
        finally:
            self.api.llama_sampler_free(self.rules)

    def _put(self, token: int) -> None:
        self.api.llama_sampler_accept(self.rules, token)
        self.tokens.append(token)
        self._text.append(self._utf8.decode(self.model.pieces[token]))

    def _closer(self) -> int | None:
        """The token that leads most directly to the end, if the grammar allows one of them now."""
        for mark in CLOSING[_in_string(self.text)]:
            token = self._closers.get(mark.encode())
            if token is not None and self._fits(token):
                return token
        return None

    def _draw(self, logits: Any) -> int:
        """A likely token that fits; the whole vocabulary is looked through only when no likely one does."""
        numpy = self.numpy
        noisy = logits / self.temperature + self.random.gumbel(
            size=logits.shape
        )  # the largest is a fair draw
        likely = numpy.argpartition(-logits, min(LIKELY, self.model.size - 1))[:LIKELY]
        likely = likely[numpy.argsort(-logits[likely])]
        weights = numpy.exp((logits[likely] - logits[likely[0]]) / self.temperature)
        before = numpy.cumsum(weights) - weights
        nucleus = likely[before < self.top_p * weights.sum()]
        for candidates in (nucleus, likely):
            for token in candidates[numpy.argsort(-noisy[candidates])]:
                if self._fits(int(token)):
                    return int(token)
        for token in self._all_allowed(noisy):
            if self._fits(token):
                return token
        raise ProviderError("the model's vocabulary cannot spell a reply of the form")

    def _fits(self, token: int) -> bool:
        """Whether the grammar allows it, and it makes no broken UTF-8."""
        piece = self.model.pieces[token]
        return bool(piece) and self._allowed(token) and _may_begin(self._utf8.getstate()[0] + piece)

    def _allowed(self, token: int) -> bool:
        return bool(self._apply(self.numpy.array([token], self.numpy.int32))[0])

    def _all_allowed(self, noisy: Any) -> list[int]:
        numpy = self.numpy
        found = numpy.flatnonzero(self._apply(numpy.arange(self.model.size, dtype=numpy.int32)))
        return [int(token) for token in found[numpy.argsort(-noisy[found])]]

    def _apply(self, tokens: Any) -> Any:
        """Which of these tokens the grammar allows next."""
        numpy, api = self.numpy, self.api
        data = numpy.zeros(len(tokens), [("id", numpy.int32), ("logit", numpy.float32), ("p", numpy.float32)])
        data["id"] = tokens
        pointer = data.ctypes.data_as(ctypes.POINTER(api.llama_token_data))
        array = api.llama_token_data_array(data=pointer, size=len(tokens), selected=-1, sorted=False)
        api.llama_sampler_apply(self.rules, ctypes.byref(array))
        return numpy.isfinite(data["logit"])


def _may_begin(text: bytes) -> bool:
    """Whether these bytes are UTF-8, or become it with more."""
    for rest in (b"", *(byte * count for count in (1, 2, 3) for byte in (b"\x80", b"\xbf"))):
        try:
            (text + rest).decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


def _in_string(text: str) -> bool:
    """Whether JSON text ends inside a string."""
    inside = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = inside
        elif character == '"':
            inside = not inside
    return inside
