"""A model in this process, through llama.cpp: `llama:PATH.gguf`. A grammar makes replies match the schema.

A model is loaded once per process and answers one ask at a time in its own thread. When few tokens are left,
the reply is closed in the shortest way that the schema allows, and marked as truncated.
"""

from __future__ import annotations

import asyncio
import atexit
import codecs
import ctypes
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernel.asking.responder import Ask, Reply, Tier, Usage, Waits
from kernel.document.model import Document
from kernel.errors import ConfigurationError, ProviderError
from runtime.models.grammar import Grammar, grammar

FRAME = 64  # tokens that a chat template adds, at most, in estimates
LIKELY = 64  # candidate tokens that are tried before the whole vocabulary
SPARE = 8  # closing begins this many tokens before the grammar's reserve
CLOSING = {False: ("}", "]", '"', ","), True: ('"',)}  # tokens that close, outside and inside a string


class Llama:
    """One GGUF file."""

    reads_prompt = True

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
    ) -> None:
        """Name a model; it is loaded at the first ask, or by `warm`.

        context: tokens of prompt and reply together. max_tokens: a limit for replies below the ask's.
        gpu_layers: the number of layers on a GPU; -1 for all.
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
        self.context, self.max_tokens = context, max_tokens
        self.temperature, self.top_p = temperature, top_p
        self._hardware = (threads, gpu_layers)

    def warm(self) -> None:
        """Load the model; call it in a thread while something else is prepared."""
        self.load()

    def offers(self, task: str, document: Document) -> float | None:
        """Accept any attempt."""
        return 0.4

    def count(self, text: str) -> int:
        """Tokens by the model's own tokenizer."""
        return len(_vocabulary(self.path).tokenize(_bytes(text), add_bos=False, special=False))

    def estimate(self, ask: Ask) -> Usage:
        """The prompt in its template and the longest reply, at no cost."""
        return Usage(self.count(ask.system) + self.count(ask.user) + FRAME, self._longest(ask))

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Generate the reply in the model's thread; cancelling stops it at the next token."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(_writing(self.path), self._write, ask, stop)
        finally:
            stop.set()

    def _longest(self, ask: Ask) -> int:
        return min(ask.max_tokens, self.max_tokens or ask.max_tokens)

    def load(self) -> Model:
        """The model, loaded once in this process."""
        with _loading:
            return _loaded(self.path, self.context, *self._hardware)

    def _write(self, ask: Ask, stop: threading.Event) -> Reply:
        if stop.is_set():
            return Reply("", self.name, truncated=True)  # cancelled while it was queued
        model = self.load()
        try:
            form = grammar(ask.schema, ask.words)
        except ValueError as error:
            raise ProviderError(
                f"{self.name}: the schema of {ask.phase.upper()} has no grammar: {error}"
            ) from None
        prompt = model.prompt(ask.system, ask.user)
        room = model.context - len(prompt)
        if room < min(self._longest(ask), form.reserve + 2 * SPARE):
            raise ProviderError(
                f"{self.name}: the prompt has {len(prompt)} tokens and does not fit into the context of "
                f"{model.context} with a reply; set options: {{context: …}} or take a smaller --profile"
            )
        longest = min(self._longest(ask), room)
        seed = zlib.crc32(ask.key.encode("utf-8", "replace"))  # the same ask gets the same reply
        writer = Writer(model, form, self.temperature, self.top_p, seed)
        whole, hurried = writer.write(prompt, longest, stop)
        used = Usage(len(prompt), len(writer.tokens))
        return Reply(writer.text, self.name, used, truncated=hurried or not whole)


class Model:
    """A loaded model: formats prompts, evaluates tokens, and knows its vocabulary."""

    def __init__(self, path: Path, context: int, threads: int | None, gpu_layers: int) -> None:
        self.api = _library()
        try:
            self.llama = self.api.Llama(
                str(path),
                n_ctx=context,
                n_threads=threads,
                n_threads_batch=threads,
                n_gpu_layers=gpu_layers,
                verbose=False,
            )
        except (ValueError, OSError, RuntimeError) as error:
            raise ConfigurationError(
                f"{path}: llama.cpp cannot load it ({error}); is it a whole GGUF file?"
            ) from None
        self.context = min(self.llama.n_ctx(), self.api.llama_model_n_ctx_train(self.llama.model))
        self.vocabulary = self.api.llama_model_get_vocab(self.llama.model)
        self.size = self.llama.n_vocab()
        self.end = self.llama.token_eos()
        self.pieces = [self.llama.detokenize([token], special=False) for token in range(self.size)]
        self.specials = [self._text(token) for token, piece in enumerate(self.pieces) if not piece]
        self.specials = [text for text in self.specials if text]
        self._held: list[int] = []  # the evaluated tokens in the context

    def prompt(self, system: str, user: str) -> list[int]:
        """Tokens of the prompt in the model's template; text never becomes special tokens."""
        pieces = self._framed(system, user)
        if not any(special in text for text, may in pieces if not may for special in self.specials):
            # at once: some tokenizers add spaces between pieces
            pieces = [("".join(text for text, _ in pieces), True)]
        tokens: list[int] = []
        for text, may in pieces:
            tokens += self.llama.tokenize(_bytes(text), add_bos=False, special=may)
        begin = self.llama.token_bos()
        adds = self.api.llama_vocab_get_add_bos(self.vocabulary)
        return [begin, *tokens] if adds and begin >= 0 and tokens[:1] != [begin] else tokens

    def _framed(self, system: str, user: str) -> list[tuple[str, bool]]:
        """Pieces of the prompt, and whether each may contain special tokens."""
        template = self.llama.metadata.get("tokenizer.chat_template")
        both = f"{system}\n\n{user}"
        for roles, texts in ((["system", "user"], [system, user]), (["user"], [both])):
            marks = [f"\x02{role}\x03" for role in roles]
            frame = self._render(template, roles, marks) if template else ""
            places = [frame.find(mark) for mark in marks]
            if min(places) < 0 or places != sorted(places):
                continue  # the template lacks the role or changes the order
            pieces: list[tuple[str, bool]] = []
            for mark, text in zip(marks, texts, strict=True):
                before, _, frame = frame.partition(mark)
                pieces += [(before, True), (text, False)]
            return [*pieces, (frame, True)]
        return [(f"{both}\n\n", False)]

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

    def feed(self, tokens: list[int]) -> Any:
        """Evaluate the new part of `tokens`; return the logits of the next one."""
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
        self.llama.eval(tokens[same:])
        self._held = list(tokens)
        numpy = import_module("numpy")
        return numpy.ctypeslib.as_array(
            self.api.llama_get_logits_ith(self.llama.ctx, -1), (self.size,)
        ).copy()


class Writer:
    """Generates one reply token by token within a grammar, and closes it before the limit."""

    def __init__(self, model: Model, form: Grammar, temperature: float, top_p: float, seed: int) -> None:
        self.model, self.api, self.form = model, model.api, form
        self.temperature, self.top_p = max(temperature, 1e-3), top_p
        self.numpy = import_module("numpy")
        self.random = self.numpy.random.default_rng(seed)
        self.rules = self.api.llama_sampler_init_grammar(model.vocabulary, form.text.encode(), b"root")
        if not self.rules:
            raise ProviderError(
                "llama.cpp refused the grammar of the reply's schema; please report the schema"
            )
        self.tokens: list[int] = []
        self._utf8 = codecs.getincrementaldecoder("utf-8")("strict")
        self._text: list[str] = []
        self._closers = {model.pieces[token]: token for token in reversed(range(model.size))}

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def write(self, prompt: list[int], longest: int, stop: threading.Event) -> tuple[bool, bool]:
        """Write until the reply is complete; return whether it is, and whether it was closed early."""
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
        """The first closing token that the grammar allows now, or None."""
        for mark in CLOSING[_in_string(self.text)]:
            token = self._closers.get(mark.encode())
            if token is not None and self._fits(token):
                return token
        return None

    def _draw(self, logits: Any) -> int:
        """Draw a likely token that fits; search the whole vocabulary only if none does."""
        numpy = self.numpy
        noise = self.random.gumbel(size=logits.shape)
        noisy = logits / self.temperature + noise  # the maximum is a sample (Gumbel trick)
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
        raise ProviderError("the model's vocabulary cannot express a reply of this schema")

    def _fits(self, token: int) -> bool:
        """Whether the grammar allows it and the text stays valid UTF-8."""
        piece = self.model.pieces[token]
        return bool(piece) and self._allowed(token) and _may_begin(self._utf8.getstate()[0] + piece)

    def _allowed(self, token: int) -> bool:
        return bool(self._apply(self.numpy.array([token], self.numpy.int32))[0])

    def _all_allowed(self, noisy: Any) -> list[int]:
        numpy = self.numpy
        found = numpy.flatnonzero(self._apply(numpy.arange(self.model.size, dtype=numpy.int32)))
        return [int(token) for token in found[numpy.argsort(-noisy[found])]]

    def _apply(self, tokens: Any) -> Any:
        """Whether the grammar allows each of these tokens next."""
        numpy, api = self.numpy, self.api
        data = numpy.zeros(len(tokens), [("id", numpy.int32), ("logit", numpy.float32), ("p", numpy.float32)])
        data["id"] = tokens
        pointer = data.ctypes.data_as(ctypes.POINTER(api.llama_token_data))
        array = api.llama_token_data_array(data=pointer, size=len(tokens), selected=-1, sorted=False)
        api.llama_sampler_apply(self.rules, ctypes.byref(array))
        return numpy.isfinite(data["logit"])


def _may_begin(text: bytes) -> bool:
    """Whether these bytes are UTF-8 or the beginning of it."""
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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _library() -> Any:
    library = import_module("llama_cpp")
    _silent(library)
    return library


@cache
def _silent(library: Any) -> Any:
    """Silence llama.cpp, which prints warnings even with `verbose=False`. Errors are exceptions."""
    callback = library.llama_log_callback(lambda level, text, data: None)
    library.llama_log_set(callback, None)
    return callback  # the cache keeps it alive: llama.cpp still calls it


_loading = threading.Lock()


@cache
def _loaded(path: Path, context: int, threads: int | None, gpu_layers: int) -> Model:
    model = Model(path, context, threads, gpu_layers)
    atexit.register(model.llama.close)  # before llama.cpp is unloaded
    return model


@cache
def _vocabulary(path: Path) -> Any:
    try:
        vocabulary = _library().Llama(str(path), vocab_only=True, verbose=False)
    except (ValueError, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"{path}: llama.cpp cannot load it ({error}); is it a whole GGUF file?"
        ) from None
    atexit.register(vocabulary.close)
    return vocabulary


@cache
def _writing(path: Path) -> ThreadPoolExecutor:
    """The single thread of that model."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"llama-{path.stem}")
