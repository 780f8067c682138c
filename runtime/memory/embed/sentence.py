"""Any model of sentence-transformers; needs torch (extra `torch`)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from kernel.errors import ConfigurationError
from runtime.memory.embed.embedder import Array, Tokens, readable


class Sentence:
    """A model by its name or folder, loaded from this machine: nothing is downloaded."""

    def __init__(self, model: str) -> None:
        try:
            library: Any = import_module("sentence_transformers")
        except ImportError:
            raise ConfigurationError(
                "embedder sentence: sentence-transformers is missing; pip install 'fractal-runtime[torch]'"
            ) from None
        try:
            self._model: Any = library.SentenceTransformer(model, local_files_only=True, device="cpu")
        except Exception as error:  # of many libraries below it
            raise ConfigurationError(
                f"embedder sentence:{model}: cannot be loaded: {str(error)[:300]}; "
                f"to download it: hf download {model}"
            ) from None
        self.name = f"sentence:{model}"
        dimension = getattr(self._model, "get_embedding_dimension", None)  # its name from version 6 on
        self.size = int((dimension or self._model.get_sentence_embedding_dimension)())

    def embed(self, texts: Sequence[str]) -> Array:
        """One row of unit length for each text."""
        if not texts:
            return np.zeros((0, self.size), np.float32)
        rows = self._model.encode([readable(each) for each in texts], show_progress_bar=False)
        rows = np.asarray(rows, np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    def embed_tokens(self, text: str) -> Tokens:
        """The tokens that the model reads, without special tokens; longer texts are truncated."""
        text = readable(text)
        encoded = self._model.tokenizer(
            text,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            truncation=True,
            max_length=self._model.max_seq_length,
        )
        states = self._model.encode(text, output_value="token_embeddings", show_progress_bar=False)
        states = states.cpu().numpy()[: len(encoded["offset_mapping"])]
        real = [at for at, mark in enumerate(encoded["special_tokens_mask"]) if not mark]
        spans = tuple((int(a), int(b)) for a, b in (encoded["offset_mapping"][at] for at in real))
        return Tokens(spans, np.asarray(states[real], np.float32))
