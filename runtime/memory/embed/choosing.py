"""The embedder of the settings: `auto`, the default, is minilm if it is available, else lexical."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path

from kernel.errors import ConfigurationError
from runtime import plugins
from runtime.memory.embed.embedder import Array, Embedder, Tokens
from runtime.memory.embed.weights import find

SHIPPED = frozenset({"auto", "lexical", "minilm", "sentence"})
"""Names that no plugin replaces."""


def choose(setting: str = "auto", folder: str | None = None) -> Embedder:
    """The embedder of the settings `embedder` and `embedder_folder`."""
    chosen, _ = resolve_embedder(setting, folder)
    if chosen == "lexical":
        from runtime.memory.embed.lexical import Lexical

        return Lexical()
    if chosen == "minilm":
        found = find(folder)
        if found is None:
            raise ConfigurationError(
                "embedder minilm: its weights are not installed; run fractal doctor --fetch"
            )
        return _minilm(found.folder, (found.folder / "model.safetensors").stat().st_mtime_ns)
    if chosen.startswith("sentence:"):
        from runtime.memory.embed.sentence import Sentence

        return Sentence(chosen.partition(":")[2])
    return _of_plugin(setting)


def _of_plugin(setting: str) -> Embedder:
    """The embedder that a plugin makes for what follows its name and the colon."""
    name, _, rest = setting.partition(":")
    entry = plugins.installed(plugins.EMBEDDERS)[name]
    embedder = plugins.make(entry, rest)
    if not isinstance(embedder, Embedder):
        raise ConfigurationError(
            f"{plugins.named(entry)}: {type(embedder).__name__} is no embedder; see docs/plugins.md"
        )
    return embedder


@lru_cache(maxsize=1)
def _minilm(folder: Path, changed: int) -> Embedder:
    """The model, loaded once per process. A new mtime (`changed`) loads it again."""
    from runtime.memory.embed.minilm import MiniLM

    return MiniLM(folder)


TOKENS = 8
"""Texts whose tokens' states are kept: a task is looked up in several places. A long text takes 1 MB."""


class Deferred:
    """An embedder that is loaded on first use: recall by shape alone needs none."""

    def __init__(self, setting: str = "auto", folder: str | None = None) -> None:
        self._settings = setting, folder
        self._recent = lru_cache(TOKENS)(lambda text: self._loaded.embed_tokens(text))

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
        """Vectors of unit length, shape (texts, size)."""
        return self._loaded.embed(texts)

    def embed_tokens(self, text: str) -> Tokens:
        """The tokens of a text with their spans and states; those of recent texts are reused."""
        tokens = self._recent(text)
        return replace(tokens, states=tokens.states.copy())


def resolve_embedder(setting: str = "auto", folder: str | None = None) -> tuple[str, str]:
    """The name of the embedder of the settings, and the reason for it. Nothing is loaded."""
    if setting in ("lexical", "minilm") or (setting.startswith("sentence:") and setting != "sentence:"):
        return setting, "set"
    if setting != "auto":
        if setting.partition(":")[0] in plugins.installed(plugins.EMBEDDERS).keys() - SHIPPED:
            return setting, "set"
        raise ConfigurationError(
            f"embedder: {setting!r} is not auto, lexical, minilm or sentence:MODEL, and no plugin has it"
        )
    found = find(folder)
    if found is None:
        return "lexical", "the weights of minilm are not installed"
    if find_spec("tokenizers") is None:
        return "lexical", "the package tokenizers is not installed"
    return "minilm", f"its weights are in {found.source}"
