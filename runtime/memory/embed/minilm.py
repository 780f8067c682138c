"""all-MiniLM-L6-v2 in numpy: six layers of attention read from its safetensors, without torch.

Equal to sentence-transformers within 1e-5 (tested). It supports only this architecture (BERT, no pooler, the
mean of the tokens); `sentence` loads other models.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from kernel.errors import ConfigurationError
from runtime.memory.embed.embedder import Array, Tokens, readable
from runtime.memory.embed.threads import one_thread

LONGEST = 256
"""Tokens of a text that are used, with the two special ones, as in sentence-transformers."""
AT_ONCE = 2048
"""Tokens that are computed together: more are not faster, and take more memory."""
RECENT = 512
"""Rows that are kept, 1.5 kB each: a task is embedded in several places, and so are the examples of types."""
OFFICIAL = "c683bada3caf"
"""Digest of the published weights; others get a name of their own."""


class MiniLM:
    """The model, with memory-mapped weights: only what is used is read."""

    def __init__(self, folder: Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ConfigurationError(
                "embedder minilm: the package tokenizers is missing; pip install 'fractal-runtime[semantic]'"
            ) from None
        try:
            shape = json.loads((folder / "config.json").read_text("utf-8"))
            tensors, digest = _tensors(folder / "model.safetensors")
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self.size: int = shape["hidden_size"]
            self._heads: int = shape["num_attention_heads"]
            self._small: float = shape["layer_norm_eps"]
            self._words = tensors["embeddings.word_embeddings.weight"]
            self._places = (
                tensors["embeddings.position_embeddings.weight"]
                + tensors["embeddings.token_type_embeddings.weight"][0]
            )
            self._first = _norm_of(tensors, "embeddings.LayerNorm")
            self._layers = [_Layer(tensors, number) for number in range(shape["num_hidden_layers"])]
        except Exception as error:  # tokenizers raises plain exceptions
            raise ConfigurationError(
                f"embedder minilm: {folder}: not the files of all-MiniLM-L6-v2: "
                f"{type(error).__name__}: {error}; see: fractal doctor"
            ) from None
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._before, *_, self._after = self._tokenizer.encode("").ids
        self.name = "minilm" if digest == OFFICIAL else f"minilm-{digest}"
        self.folder = folder
        self._recent: dict[str, Array] = {}  # the least recently used first
        self._lock = Lock()

    def embed(self, texts: Sequence[str]) -> Array:
        """One row of unit length for each text: the mean of its first 256 tokens. Recent rows are reused."""
        with self._lock:
            known = {text: self._recent[text] for text in texts if text in self._recent}
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        known.update(zip(missing, self._embed(missing), strict=True))
        with self._lock:
            for text in texts[-RECENT:]:
                self._recent.pop(text, None)
                self._recent[text] = known[text]
            while len(self._recent) > RECENT:
                del self._recent[next(iter(self._recent))]
        return np.stack([known[text] for text in texts]) if texts else np.zeros((0, self.size), np.float32)

    def _embed(self, texts: Sequence[str]) -> Array:
        encoded = self._tokenizer.encode_batch([readable(text) for text in texts], add_special_tokens=False)
        means = np.zeros((len(texts), self.size), np.float32)
        for at, states in self._states([each.ids[: LONGEST - 2] for each in encoded]):
            means[at] = states.mean(axis=1)
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def embed_tokens(self, text: str) -> Tokens:
        """Every token, without the special ones; a long text in windows, each with its own context."""
        encoded = self._tokenizer.encode(readable(text), add_special_tokens=False)
        width = LONGEST - 2
        windows = [encoded.ids[start : start + width] for start in range(0, len(encoded.ids), width)]
        states = np.zeros((len(encoded.ids), self.size), np.float32)
        for at, found in self._states(windows):
            for window, rows in zip(at, found, strict=True):
                states[window * width : window * width + rows.shape[0] - 2] = rows[1:-1]
        return Tokens(tuple((a, b) for a, b in encoded.offsets), states)

    def _states(self, texts: Sequence[Sequence[int]]) -> list[tuple[Any, Array]]:
        """In batches of equal length: the indexes of the texts, and their states (texts, tokens, size)."""
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        found: list[tuple[Any, Array]] = []
        with one_thread():
            while order:
                length, count = len(texts[order[0]]) + 2, 0
                most = max(1, AT_ONCE // length)
                while count < min(most, len(order)) and len(texts[order[count]]) + 2 == length:
                    count += 1
                taken, order = order[:count], order[count:]
                ids = np.array([[self._before, *texts[at], self._after] for at in taken], np.intp)
                found.append((np.array(taken), self._forward(ids)))
        return found

    def _forward(self, ids: Any) -> Array:
        count, length = ids.shape
        states = self._words[ids] + self._places[:length]
        states = _norm(states.reshape(count * length, self.size), self._first, self._small)
        for layer in self._layers:
            states = layer.forward(states, count, length, self._heads, self._small)
        return states.reshape(count, length, self.size)


class _Layer:
    """The weights of one layer, the three projections of attention as one matrix.

    The others stay where they are mapped: a transposed copy of all takes longer than ten short texts.
    """

    def __init__(self, tensors: dict[str, Array], number: int) -> None:
        place = f"encoder.layer.{number}"
        parts = [f"{place}.attention.self.{name}" for name in ("query", "key", "value")]
        self.inward = np.concatenate([tensors[f"{part}.weight"] for part in parts]).T
        self.inward_bias = np.concatenate([tensors[f"{part}.bias"] for part in parts])
        self.outward, self.outward_bias = _dense(tensors, f"{place}.attention.output.dense")
        self.attended = _norm_of(tensors, f"{place}.attention.output.LayerNorm")
        self.wide, self.wide_bias = _dense(tensors, f"{place}.intermediate.dense")
        self.narrow, self.narrow_bias = _dense(tensors, f"{place}.output.dense")
        self.thought = _norm_of(tensors, f"{place}.output.LayerNorm")

    def forward(self, states: Array, count: int, length: int, heads: int, small: float) -> Array:
        """The states after this layer; `states` is flat, (texts · tokens, size)."""
        size = states.shape[1]
        mixed = (states @ self.inward + self.inward_bias).reshape(count, length, 3, heads, size // heads)
        query, key, value = mixed.transpose(2, 0, 3, 1, 4)
        weights = query @ key.transpose(0, 1, 3, 2)
        weights *= np.float32(1 / np.sqrt(size // heads))
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        seen = (weights @ value).transpose(0, 2, 1, 3).reshape(count * length, size)
        states = _norm(states + (seen @ self.outward + self.outward_bias), self.attended, small)
        wide = _gelu(states @ self.wide + self.wide_bias)
        return _norm(states + (wide @ self.narrow + self.narrow_bias), self.thought, small)


def _dense(tensors: dict[str, Array], name: str) -> tuple[Array, Array]:
    return tensors[f"{name}.weight"].T, tensors[f"{name}.bias"]


def _norm_of(tensors: dict[str, Array], name: str) -> tuple[Array, Array]:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _norm(states: Array, weights: tuple[Array, Array], small: float) -> Array:
    states = states - states.mean(axis=-1, keepdims=True)
    spread = np.einsum("ij,ij->i", states, states)[:, None] / states.shape[1]
    states /= np.sqrt(spread + np.float32(small))
    states *= weights[0]
    states += weights[1]
    return states


def _gelu(x: Array) -> Array:
    """x · Φ(x), in place. numpy has no error function: Abramowitz and Stegun 7.1.26, within 1.5e-7."""
    size: Array = np.abs(x)
    t: Array = size * np.float32(0.3275911 * 0.5**0.5)
    t += 1
    np.reciprocal(t, out=t)
    rest = t * np.float32(1.061405429 / 2)
    for factor in (-1.453152027 / 2, 1.421413741 / 2, -0.284496736 / 2, 0.254829592 / 2):
        rest += np.float32(factor)
        rest *= t
    rest *= size
    size *= size
    size *= np.float32(-0.5)
    rest *= np.exp(size, out=size)  # now |x| · (1 - Φ(|x|))
    np.maximum(x, 0, out=x)
    x -= rest
    return x


def _tensors(path: Path) -> tuple[dict[str, Array], str]:
    """The memory-mapped tensors of a safetensors file, and a digest of its header and each tensor's start."""
    raw = np.memmap(path, np.uint8, "r")
    (length,) = struct.unpack("<Q", raw[:8].tobytes())
    header = raw[8 : 8 + length].tobytes()
    start = 8 + length
    tensors: dict[str, Array] = {}
    digest = blake2b(header, digest_size=6)
    for name, about in sorted(json.loads(header).items()):
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            part = raw[start + begin : start + end]
            digest.update(part[:256].tobytes())
            tensors[name.removeprefix("bert.")] = np.asarray(part).view(np.float32).reshape(about["shape"])
    return tensors, digest.hexdigest()
