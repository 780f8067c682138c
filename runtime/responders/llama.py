"""A model in this process, through llama.cpp: `llama:PATH.gguf`. Its replies cannot leave the form asked for.

One model is loaded once a process and answers one ask at a time, in a thread of its own. When the tokens run
short, the reply is brought to its end by the shortest way that the form allows and marked as truncated.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernel.document import Document
from kernel.errors import ConfigurationError, ProviderError
from kernel.responder import Ask, Reply, Tier, Usage, Waits
from runtime.responders.grammar import grammar
from runtime.responders.pen import SPARE, Pen

FRAME = 64  # tokens that a chat template adds, at most, in estimates


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
        """Name a model; it is loaded by the first ask, or by `warm`.

        context: tokens of prompt and reply together. max_tokens: a limit of replies below the ask's.
        gpu_layers: how many layers to put on a graphics card; -1 for all.
        """
        if find_spec("llama_cpp") is None:
            raise ConfigurationError(
                f"llama:{path} needs llama-cpp-python: pip install 'fractal-runtime[local]' (some minutes)"
            )
        if not path.is_file():
            raise ConfigurationError(f"{path}: there is no such model file")
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
        """A model takes any attempt."""
        return 0.4

    def count(self, text: str) -> int:
        """Tokens by the model's own tokenizer."""
        return len(_vocabulary(self.path).tokenize(_bytes(text), add_bos=False, special=False))

    def estimate(self, ask: Ask) -> Usage:
        """The prompt in its template and the longest reply, for no money."""
        return Usage(self.count(ask.system) + self.count(ask.user) + FRAME, self._longest(ask))

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Let the model write, in its thread; cancelled, it stops at the next token."""
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
        return _load(self.path, self.context, *self._hardware)

    def _write(self, ask: Ask, stop: threading.Event) -> Reply:
        if stop.is_set():
            return Reply("", self.name, truncated=True)  # cancelled before its turn came
        model = self.load()
        try:
            form = grammar(ask.schema, ask.words)
        except ValueError as error:
            raise ProviderError(
                f"{self.name}: the form of {ask.phase.upper()} cannot be forced: {error}"
            ) from None
        prompt = model.prompt(ask.system, ask.user)
        room = model.context - len(prompt)
        if room < min(self._longest(ask), form.reserve + 2 * SPARE):
            raise ProviderError(
                f"{self.name}: the prompt has {len(prompt)} tokens and does not fit into the context of "
                f"{model.context} with a reply; set options: {{context: …}} or take a smaller --profile"
            )
        longest = min(self._longest(ask), room)
        seed = zlib.crc32(ask.key.encode("utf-8", "replace"))  # the same ask is answered the same way
        pen = Pen(model, form, self.temperature, self.top_p, seed)
        whole, hurried = pen.write(prompt, longest, stop)
        used = Usage(len(prompt), len(pen.tokens))
        return Reply(pen.text, self.name, used, truncated=hurried or not whole)


class Model:
    """A loaded model: its prompt, its evaluation, its pieces."""

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
        self._held: list[int] = []  # tokens whose state the context holds

    def prompt(self, system: str, user: str) -> list[int]:
        """Tokens of the prompt in the model's template; its texts never act as special tokens."""
        pieces = self._framed(system, user)
        if not any(special in text for text, may in pieces if not may for special in self.specials):
            pieces = [("".join(text for text, _ in pieces), True)]  # in one go: some tokenizers add blanks
        tokens: list[int] = []
        for text, may in pieces:
            tokens += self.llama.tokenize(_bytes(text), add_bos=False, special=may)
        begin = self.llama.token_bos()
        adds = self.api.llama_vocab_get_add_bos(self.vocabulary)
        return [begin, *tokens] if adds and begin >= 0 and tokens[:1] != [begin] else tokens

    def _framed(self, system: str, user: str) -> list[tuple[str, bool]]:
        """Pieces of the prompt, and whether special tokens may stand in them."""
        template = self.llama.metadata.get("tokenizer.chat_template")
        both = f"{system}\n\n{user}"
        for roles, texts in ((["system", "user"], [system, user]), (["user"], [both])):
            marks = [f"\x02{role}\x03" for role in roles]
            frame = self._render(template, roles, marks) if template else ""
            places = [frame.find(mark) for mark in marks]
            if min(places) < 0 or places != sorted(places):
                continue  # the template knows no such role, or says things in another order
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
        except Exception:  # a template is a program of its author's; the next way is tried
            return ""

    def _text(self, token: int) -> str:
        """A token as the vocabulary spells it, special ones too."""
        text = self.api.llama_vocab_get_text(self.vocabulary, token) if token >= 0 else b""
        return text.decode("utf-8", "replace")

    def feed(self, tokens: list[int]) -> Any:
        """Evaluate what is new in `tokens`; return the logits of the next one."""
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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _library() -> Any:
    library = import_module("llama_cpp")
    _silent(library)
    return library


@cache
def _silent(library: Any) -> Any:
    """Keep llama.cpp from the terminal: `verbose=False` leaves its warnings. Errors come as exceptions."""
    callback = library.llama_log_callback(lambda level, text, data: None)
    library.llama_log_set(callback, None)
    return callback  # kept by the cache, since llama.cpp goes on calling it


_loading = threading.Lock()


def _load(path: Path, context: int, threads: int | None, gpu_layers: int) -> Model:
    with _loading:
        return _loaded(path, context, threads, gpu_layers)


@cache
def _loaded(path: Path, context: int, threads: int | None, gpu_layers: int) -> Model:
    model = Model(path, context, threads, gpu_layers)
    atexit.register(model.llama.close)  # while llama.cpp is still there
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
    """The one thread in which that model writes."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"llama-{path.stem}")
