"""Which embedder the settings mean: `auto`, the default, is minilm where it works, else lexical."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kernel.errors import ConfigurationError
from runtime.embedding.weights import find

if TYPE_CHECKING:
    from runtime.embedding.embedder import Array, Embedder, Tokens


def choose(setting: str = "auto", folder: str | None = None) -> Embedder:
    """The embedder of the settings `embedder` and `embedder_folder`."""
    chosen, _ = told(setting, folder)
    if chosen == "lexical":
        from runtime.embedding.lexical import Lexical

        return Lexical()
    if chosen == "minilm":
        found = find(folder)
        if found is None:
            raise ConfigurationError(
                "embedder minilm: its weights are not here; get them: fractal doctor --fetch"
            )
        return _minilm(found.folder, (found.folder / "model.safetensors").stat().st_mtime_ns)
    from runtime.embedding.sentence import Sentence

    return Sentence(chosen.partition(":")[2])


@lru_cache(maxsize=1)
def _minilm(folder: Path, changed: int) -> Embedder:
    """The model, loaded once per process: its weights take 44 MB. A new `changed` (mtime) loads it again."""
    from runtime.embedding.minilm import MiniLM

    return MiniLM(folder)


ROWS, TOKENS = 256, 8
"""Texts whose vectors, and whose tokens' states, are kept in mind: a task is looked up in several places, one
after the other. The states of a long text take a megabyte."""
Made = TypeVar("Made")


class Deferred:
    """An embedder that is loaded when it is first asked: what recalls by shape alone needs none."""

    def __init__(self, setting: str = "auto", folder: str | None = None) -> None:
        self._settings = setting, folder
        self._rows: OrderedDict[str, Array] = OrderedDict()
        self._tokens: OrderedDict[str, Tokens] = OrderedDict()

    @cached_property
    def _loaded(self) -> Embedder:
        return choose(*self._settings)

    @property
    def name(self) -> str:
        """Of the embedder itself."""
        return self._loaded.name

    @property
    def size(self) -> int:
        """Dimensions of a vector."""
        return self._loaded.size

    def embed(self, texts: Sequence[str]) -> Array:
        """Vectors of unit length, shape (texts, size); those of the last single texts are not made again."""
        if len(texts) != 1:
            return self._loaded.embed(texts)
        return _kept(self._rows, ROWS, texts[0], lambda: self._loaded.embed(texts)).copy()

    def embed_tokens(self, text: str) -> Tokens:
        """The tokens of a text with their spans and states; those of the last texts are not made again."""
        tokens = _kept(self._tokens, TOKENS, text, lambda: self._loaded.embed_tokens(text))
        return replace(tokens, states=tokens.states.copy())


def _kept(among: OrderedDict[str, Made], most: int, text: str, make: Callable[[], Made]) -> Made:
    """What was made of the text; that of the text asked for longest ago goes when there are too many."""
    made = among.pop(text, None)
    if made is None:
        made = make()
    among[text] = made
    if len(among) > most:
        among.popitem(last=False)
    return made


def told(setting: str = "auto", folder: str | None = None) -> tuple[str, str]:
    """The embedder that is chosen, by name, and why; nothing is loaded."""
    if setting in ("lexical", "minilm") or (setting.startswith("sentence:") and setting != "sentence:"):
        return setting, "set"
    if setting != "auto":
        raise ConfigurationError(f"embedder: {setting!r} is not auto, lexical, minilm or sentence:MODEL")
    found = find(folder)
    if found is None:
        return "lexical", "the weights of minilm are not here"
    if find_spec("tokenizers") is None:
        return "lexical", "the package tokenizers is not installed"
    return "minilm", f"its weights are in {found.source}"
