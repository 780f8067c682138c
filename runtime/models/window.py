"""The window of a model: how many tokens a conversation and its reply may have together, and who says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from kernel.document.amounts import whole
from kernel.document.escaping import to_json
from runtime.models.prices import entry_of
from runtime.workspace.settings import LARGEST_WINDOW, SMALLEST_WINDOW

LOCAL = 8_192
"""Tokens of a model on the user's own machine about which nothing is known."""
_NAMES = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx")


class Window(NamedTuple):
    """Tokens, and where the number comes from."""

    tokens: int
    source: str


def in_table(model: str) -> int | None:
    """The window of a model in the table of models, also by its name behind a gateway's."""
    while model:
        if tokens := valid(entry_of(model).get("max_input_tokens")):
            return tokens
        model = model.partition("/")[2]
    return None


def in_answer(answer: Any, model: str) -> tuple[int | None, int | None]:
    """What the answer to `/v1/models` says of a model: its window here, and the one it was trained with."""
    entry = _entry_of(answer, model)
    given = entry.get("meta")
    meta = cast(Mapping[str, Any], given) if isinstance(given, Mapping) else {}
    said = [valid(entry.get(name)) for name in _NAMES] + [valid(meta.get("n_ctx"))]
    return next(filter(None, said), None), valid(meta.get("n_ctx_train"))


def listed_as(answer: Any, model: str) -> str:
    """A hash of the model that the answer names; neither its times nor other models count."""
    entry = _entry_of(answer, model)
    said = to_json([entry.get(name) for name in ("id", "root", "meta")])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _entry_of(answer: Any, model: str) -> Mapping[str, Any]:
    """The entry of a model in a list; of a list with one entry, that one."""
    data = cast(dict[str, Any], answer).get("data") if isinstance(answer, dict) else None
    entries = (
        [each for each in cast(list[Any], data) if isinstance(each, dict)] if isinstance(data, list) else []
    )
    named = [each for each in entries if each.get("id") == model]
    return next(iter(named or (entries if len(entries) == 1 else [])), {})


def in_props(answer: Any) -> int | None:
    """What the answer of llama.cpp's server to `/props` says of its window."""
    settings = answer.get("default_generation_settings") if isinstance(answer, dict) else None
    return valid(settings.get("n_ctx")) if isinstance(settings, dict) else None


def valid(tokens: Any) -> int | None:
    """A number of tokens that may be a window; None for anything else."""
    found = whole(tokens, 0) if isinstance(tokens, (int, float)) else 0
    return found if SMALLEST_WINDOW <= found <= LARGEST_WINDOW else None
