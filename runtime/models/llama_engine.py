"""llama.cpp itself: loads a model, evaluates tokens, and draws the next ones, free or within a grammar."""

from __future__ import annotations

import atexit
import codecs
import ctypes
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy

from kernel.errors import ConfigurationError, ProviderError
from runtime.models.grammar import Grammar

PIECE_SECONDS = 0.1  # between two pieces of a reply that is being written
COLDEST = 1e-3  # the least temperature, to divide by
LIKELY = 64  # candidate tokens that are tried before the whole vocabulary
SPARE = 8  # closing begins this many tokens before the grammar's reserve
SAME = 3  # tokens that a reply shares with an earlier place, after which it may go on as there
FIRST_GUESS, LONGEST_GUESS = 3, 12  # tokens that are guessed at once
CLOSING = {False: ("}", "]", '"', ","), True: ('"',)}  # tokens that close, outside and inside a string


class Model:
    """A loaded model: formats prompts, evaluates tokens, and knows its vocabulary."""

    def __init__(self, path: Path, context: int, threads: int, gpu_layers: int) -> None:
        self.api = _library()
        on = {"n_threads": threads, "n_threads_batch": threads, "n_gpu_layers": gpu_layers}
        self.llama = _opened(path, n_ctx=context, **on)
        self.context = min(self.llama.n_ctx(), self.api.llama_model_n_ctx_train(self.llama.model))
        self.vocabulary = self.api.llama_model_get_vocab(self.llama.model)
        self.size = self.llama.n_vocab()
        self.end = self.llama.token_eos()
        self.evaluated = 0  # tokens so far
        self._held: list[int] = []  # the evaluated tokens in the context

    @cached_property
    def pieces(self) -> list[bytes]:
        """The text of every token; "" for special ones. A grammar needs them all."""
        return [self.piece(token) for token in range(self.size)]

    @cached_property
    def closers(self) -> dict[str, int]:
        """The tokens that are one closing mark of JSON, or a comma."""
        known = {mark: mark.encode() for mark in CLOSING[False]}
        return {mark: self.pieces.index(piece) for mark, piece in known.items() if piece in self.pieces}

    @cached_property
    def specials(self) -> list[str]:
        """The texts of special tokens."""
        control = self.api.llama_vocab_is_control
        texts = [self._text(token) for token in range(self.size) if control(self.vocabulary, token)]
        return [text for text in texts if text]

    def piece(self, token: int) -> bytes:
        """The text of a token; "" for a special one."""
        return self.llama.detokenize([token], special=False)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Tokens of messages in the model's template; text never becomes special tokens."""
        pieces = self._framed(messages)
        if not any(special in text for text, may in pieces if not may for special in self.specials):
            # at once: some tokenizers add spaces between pieces
            pieces = [("".join(text for text, _ in pieces), True)]
        tokens: list[int] = []
        for text, may in pieces:
            tokens += self.llama.tokenize(as_bytes(text), add_bos=False, special=may)
        begin = self.llama.token_bos()
        adds = self.api.llama_vocab_get_add_bos(self.vocabulary)
        return [begin, *tokens] if adds and begin >= 0 and tokens[:1] != [begin] else tokens

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text inside a prompt or a reply."""
        return self.llama.tokenize(as_bytes(text), add_bos=False, special=False) if text else []

    def log_probability(self, prompt: list[int], tokens: list[int]) -> float:
        """The logarithm of the probability that the model continues the prompt with these tokens."""
        total = 0.0
        for at, token in enumerate(tokens):
            (logits,) = self.feed(prompt + tokens[:at])
            top = float(logits.max())
            total += float(logits[token]) - top - math.log(float(numpy.exp(logits - top).sum()))
        return total

    def ends(self, token: int) -> bool:
        """Whether a token ends a reply."""
        return token == self.end or bool(self.api.llama_vocab_is_eog(self.vocabulary, token))

    def _framed(self, messages: Sequence[Mapping[str, str]]) -> list[tuple[str, bool]]:
        """Pieces of the prompt, and whether each may contain special tokens."""
        template = self.llama.metadata.get("tokenizer.chat_template")
        said = [each["role"] for each in messages], [each["content"] for each in messages]
        for roles, texts in (said, _without_system(*said)):
            marks = [f"\x02{role} {place}\x03" for place, role in enumerate(roles)]
            frame = self._render(template, roles, marks) if template else ""
            places = [frame.find(mark) for mark in marks]
            if not places or min(places) < 0 or places != sorted(places):
                continue  # the template lacks the role or changes the order
            pieces: list[tuple[str, bool]] = []
            for mark, text in zip(marks, texts, strict=True):
                before, _, frame = frame.partition(mark)
                pieces += [(before, True), (text, False)]
            return [*pieces, (frame, True)]
        texts = [each["content"] for each in messages]
        return [("\n\n".join(texts) + "\n\n", False)]

    def _render(self, template: str, roles: list[str], texts: list[str]) -> str:
        formats = import_module("llama_cpp.llama_chat_format")
        begin, end = self._text(self.llama.token_bos()), self._text(self.end)
        messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
        try:
            formatter = formats.Jinja2ChatFormatter(template, end, begin)
            return formatter(messages=messages).prompt
        except Exception:  # templates are programs and can fail; the caller falls back
            return ""

    def _text(self, token: int) -> str:
        """The text of a token, including special tokens."""
        text = self.api.llama_vocab_get_text(self.vocabulary, token) if token >= 0 else b""
        return text.decode("utf-8", "replace")

    def feed(self, tokens: list[int], guessed: Sequence[int] = ()) -> list[Any]:
        """Evaluate the new part of `tokens`; return the logits of the next one.

        With `guessed` tokens after them, return a row of logits for each of these and for the one after.
        Several tokens at once take less time than one after the other, since the weights are read once.
        """
        same = 0
        while same < min(len(self._held), len(tokens) - 1) and self._held[same] == tokens[same]:
            same += 1
        memory = self.api.llama_get_memory(self.llama.ctx)
        if same < len(self._held):
            self._held = []
            if not self.api.llama_memory_seq_rm(memory, -1, same, -1):
                self.llama.reset()
                same = 0
            self.llama.n_tokens = same
        if same < len(tokens) - 1:
            self.llama.eval(tokens[same:-1])
        self._decode([tokens[-1], *guessed], len(tokens) - 1)
        self.evaluated += len(tokens) + len(guessed) - same
        self._held = [*tokens, *guessed]
        return [self._logits(at) for at in range(len(guessed) + 1)]

    def _logits(self, at: int) -> Any:
        pointer = self.api.llama_get_logits_ith(self.llama.ctx, at)
        return numpy.ctypeslib.as_array(pointer, (self.size,)).copy()

    def _decode(self, tokens: Sequence[int], start: int) -> None:
        """Evaluate tokens from a position on, with the logits of each."""
        batch = self.api.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for at, token in enumerate(tokens):
                batch.token[at], batch.pos[at], batch.logits[at] = token, start + at, True
                batch.n_seq_id[at], batch.seq_id[at][0] = 1, 0
            if self.api.llama_decode(self.llama.ctx, batch):
                raise ProviderError("llama.cpp could not evaluate the reply so far")
        finally:
            self.api.llama_batch_free(batch)
        self.llama.n_tokens = start + len(tokens)


def _without_system(roles: list[str], texts: list[str]) -> tuple[list[str], list[str]]:
    """The messages for a template without that role: it begins the first message of the user."""
    if roles[:2] != ["system", "user"]:
        return roles, texts
    return roles[1:], ["\n\n".join(texts[:2]), *texts[2:]]


class Writer:
    """Generates one reply token by token, free or within a grammar, which is closed before the limit."""

    def __init__(
        self,
        model: Model,
        form: Grammar | None,
        temperature: float,
        top_p: float,
        seed: int,
        heard: Callable[[str], object] = str,
    ) -> None:
        """`heard` is called with each piece of the text, at most about every `PIECE_SECONDS`."""
        self.model, self.api, self.form = model, model.api, form
        self.temperature, self.top_p = temperature, top_p
        self.random = numpy.random.default_rng(seed)
        self.rules: Any = None
        if form:
            self.rules = self.api.llama_sampler_init_grammar(model.vocabulary, form.text.encode(), b"root")
            if not self.rules:
                raise ProviderError(
                    "llama.cpp refused the grammar of the reply's schema; please report the schema"
                )
        self.tokens: list[int] = []
        self._utf8 = codecs.getincrementaldecoder("utf-8")("strict" if form else "replace")
        self._text: list[str] = []
        self._heard, self._unheard, self._heard_at = heard, "", time.monotonic()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def write(
        self, prompt: list[int], longest: int, stop: threading.Event, *, fenced: bool = False
    ) -> tuple[bool, bool]:
        """Write until the reply is complete; return whether it is, and whether it was closed early.

        A `fenced` reply is complete at the end of its first code block.
        """
        hurried, copied = False, Copied(() if self.rules else prompt)
        try:
            while len(self.tokens) < longest and not stop.is_set():
                left = longest - len(self.tokens)
                hurried = bool(self.form) and left <= self.form.reserve + SPARE
                guessed = [] if self.rules else copied.guess(left - 1)
                for at, logits in enumerate(self.model.feed(prompt + self.tokens, guessed)):
                    token = (self._closer() if hurried else None) or self._draw(logits)
                    if not self.rules and self.model.ends(token):
                        return True, False
                    self._put(token)
                    copied.add(token)
                    if self._is_over(fenced):
                        return not _repeats(self.text), hurried
                    if guessed[at : at + 1] != [token]:
                        break
            return False, hurried
        finally:
            self._tell()
            if self.rules:
                self.api.llama_sampler_free(self.rules)

    def _is_over(self, fenced: bool) -> bool:
        """Whether the reply is complete, or repeats itself, before the model ends it."""
        if self.rules:
            return self._allowed(self.model.end)
        return bool(fenced and _CLOSED.search(self.text)) or _repeats(self.text)

    def _put(self, token: int) -> None:
        if self.rules:
            self.api.llama_sampler_accept(self.rules, token)
        self.tokens.append(token)
        self._text.append(self._utf8.decode(self.model.piece(token)))
        self._unheard += self._text[-1]
        if time.monotonic() - self._heard_at >= PIECE_SECONDS:
            self._tell()

    def _tell(self) -> None:
        if self._unheard:
            self._heard(self._unheard)
        self._unheard, self._heard_at = "", time.monotonic()

    def _closer(self) -> int | None:
        """The first closing token that the grammar allows now, or None."""
        for mark in CLOSING[_in_string(self.text)]:
            token = self.model.closers.get(mark)
            if token is not None and self._fits(token):
                return token
        return None

    def _draw(self, logits: Any) -> int:
        """Draw a likely token that fits; search the whole vocabulary only if none does."""
        if not self.rules and self.temperature <= 0:
            return int(logits.argmax())
        token = next((each for each in self._drawn(logits) if not self.rules or self._fits(each)), None)
        if token is None:
            raise ProviderError("the model's vocabulary cannot express a reply of this schema")
        return token

    def _drawn(self, logits: Any) -> Iterator[int]:
        """Tokens as they are drawn: of the nucleus, of the likely ones, of all that the grammar allows."""
        scaled = logits / max(self.temperature, COLDEST)
        likely = numpy.argpartition(-scaled, min(LIKELY, self.model.size - 1))[:LIKELY]
        likely = likely[numpy.argsort(-scaled[likely])]
        weights = numpy.exp(scaled[likely] - scaled[likely[0]])
        yield from self._shuffled(
            likely[numpy.cumsum(weights) - weights < self.top_p * weights.sum()], scaled
        )
        yield from self._shuffled(likely, scaled)
        every = numpy.arange(self.model.size, dtype=numpy.int32)
        yield from self._shuffled(numpy.flatnonzero(self._apply(every)), scaled)

    def _shuffled(self, tokens: Any, scaled: Any) -> Iterator[int]:
        """These tokens in a random order, in which each is a sample of those left (Gumbel trick)."""
        noisy = scaled[tokens] + self.random.gumbel(size=len(tokens))
        yield from map(int, tokens[numpy.argsort(-noisy)])

    def _fits(self, token: int) -> bool:
        """Whether the grammar allows it and the text stays valid UTF-8."""
        piece = self.model.pieces[token]
        return bool(piece) and self._allowed(token) and _may_begin(self._utf8.getstate()[0] + piece)

    def _allowed(self, token: int) -> bool:
        return bool(self._apply(numpy.array([token], numpy.int32))[0])

    def _apply(self, tokens: Any) -> Any:
        """Whether the grammar allows each of these tokens next."""
        api = self.api
        data = numpy.zeros(len(tokens), [("id", numpy.int32), ("logit", numpy.float32), ("p", numpy.float32)])
        data["id"] = tokens
        pointer = data.ctypes.data_as(ctypes.POINTER(api.llama_token_data))
        array = api.llama_token_data_array(data=pointer, size=len(tokens), selected=-1, sorted=False)
        api.llama_sampler_apply(self.rules, ctypes.byref(array))
        return numpy.isfinite(data["logit"])


class Copied:
    """Guesses the next tokens of a reply, which copies much of its prompt.

    The guess is what followed the same tokens before.
    Source: prompt lookup decoding (https://github.com/apoorvumang/prompt-lookup-decoding).
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}  # the place after the latest run of these tokens
        self._left: list[int] = []  # of the latest guess, the tokens that the reply has not reached
        self._right = False  # whether no token of it was wrong
        for token in prompt:
            self._append(token)

    def guess(self, most: int) -> list[int]:
        """Up to `most` tokens, more of them after a guess that was right to its end; [] after new tokens."""
        length = LONGEST_GUESS if self._right else FIRST_GUESS
        place = self._after.get(tuple(self._tokens[-SAME:]), len(self._tokens))
        self._left = self._tokens[place : place + min(length, most)] if most > 0 else []
        self._right = bool(self._left)
        return list(self._left)

    def add(self, token: int) -> None:
        """The next token of the reply."""
        if self._left and self._left.pop(0) != token:
            self._left, self._right = [], False
        self._append(token)

    def _append(self, token: int) -> None:
        if len(self._tokens) >= SAME:
            self._after[tuple(self._tokens[-SAME:])] = len(self._tokens)
        self._tokens.append(token)


_CLOSED = re.compile(r"\n```\s*\Z")
"""The end of a code block that began with the reply."""
SAME_LINES = 12
"""Equal lines in a row after which a reply is stopped: a small model can repeat a line without end."""


def _repeats(text: str) -> bool:
    lines = text.rsplit("\n", SAME_LINES + 1)[1:]
    return len(lines) == SAME_LINES + 1 and len(set(lines[:-1])) == 1 and bool(lines[0].strip())


def _may_begin(text: bytes) -> bool:
    """Whether these bytes are UTF-8 or the beginning of it."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return False
    return not _HALF.search(text)  # which the decoder finds only when it is whole


_HALF = re.compile(rb"\xed[\xa0-\xbf]")
"""The beginning of half a surrogate pair."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _in_string(text: str) -> bool:
    """Whether JSON text ends inside a string."""
    return '"' in _STRING.sub("", text)


def as_bytes(text: str) -> bytes:
    """UTF-8, with a question mark for what cannot be encoded."""
    return text.encode("utf-8", "replace")


def _library() -> Any:
    library = import_module("llama_cpp")
    _silent(library)
    _without_amx(library)
    return library


def _opened(path: Path, **settings: Any) -> Any:
    """A model by its file, as llama.cpp opens it."""
    try:
        return _library().Llama(str(path), verbose=False, **settings)
    except (ValueError, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"{path}: llama.cpp cannot load it ({error}); is it a whole GGUF file?"
        ) from None


@cache
def _without_amx(library: Any) -> None:
    """Load models without repacked weights on processors with AMX.

    llama.cpp uses AMX for repacked weights, and crashes there in virtual machines that announce AMX.
    Its class has no parameter for it, so the default is changed.
    """
    try:
        amx = "amx_tile" in Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        return
    low = library.llama_cpp
    defaults = low.llama_model_default_params
    if amx and hasattr(defaults(), "use_extra_bufts"):

        def plain() -> Any:
            parameters = defaults()
            parameters.use_extra_bufts = False
            return parameters

        low.llama_model_default_params = plain


@cache
def _silent(library: Any) -> Any:
    """Silence llama.cpp, which prints warnings even with `verbose=False`. Errors are exceptions."""
    callback = library.llama_log_callback(lambda level, text, data: None)
    library.llama_log_set(callback, None)
    return callback  # the cache keeps it alive: llama.cpp still calls it


_loading = threading.Lock()


def load(path: Path, context: int, threads: int, gpu_layers: int) -> Model:
    """The model of a file, loaded once in this process."""
    with _loading:
        return _loaded(path, context, threads, gpu_layers)


@cache
def _loaded(path: Path, context: int, threads: int, gpu_layers: int) -> Model:
    model = Model(path, context, threads, gpu_layers)
    atexit.register(model.llama.close)  # before llama.cpp is unloaded
    return model


@cache
def vocabulary(path: Path) -> Any:
    """The vocabulary of a file alone, which loads sooner than the model."""
    only_words = _opened(path, vocab_only=True)
    atexit.register(only_words.close)
    return only_words


@cache
def thread_of(path: Path) -> ThreadPoolExecutor:
    """The single thread of that model."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"llama-{path.stem}")
