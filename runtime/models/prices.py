"""The price of tokens: from the settings, or from litellm's table, which is read without importing litellm.

Without litellm, `prices.json` has the entries of the providers that Fractal calls itself, as they were when
it was written (scripts/make_prices.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernel.asking.responder import Usage
from kernel.errors import ConfigurationError

MILLION = 1_000_000
OWN_TABLE = Path(__file__).with_name("prices.json")
LOCAL_PROVIDERS = frozenset(
    {"ollama", "ollama_chat", "llamafile", "lm_studio", "hosted_vllm", "docker_model_runner", "llamacpp"}
)
"""Providers whose models run on the user's own machines, at no cost."""


@dataclass(frozen=True)
class Price:
    """USD per million tokens of prompt and of completion."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None  # of prompt tokens that the provider has cached; None: as `prompt`

    def of(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        """The cost of that many tokens in USD; `cached_tokens` are among `prompt_tokens`."""
        cached = self.prompt if self.cached is None else self.cached
        prompt = (prompt_tokens - cached_tokens) * self.prompt + cached_tokens * cached
        return (prompt + completion_tokens * self.completion) / MILLION

    @staticmethod
    def read(value: Any) -> Price | None:
        """A price from settings: {input: 2.5, output: 10}, [2.5, 10], or 0; None stays None."""
        try:
            if value is None or isinstance(value, Price):
                return value
            if isinstance(value, Mapping):
                return Price(float(value["input"]), float(value["output"]))  # pyright: ignore
            if isinstance(value, (list, tuple)):
                prompt, completion = value  # pyright: ignore
                return Price(float(prompt), float(completion))  # pyright: ignore
            if float(value) == 0:
                return NOTHING
        except (KeyError, TypeError, ValueError):
            pass
        raise ConfigurationError(
            f"price: {value!r} is not a price; use USD per million tokens, {{input: 2.5, output: 10}}, or 0"
        )


NOTHING = Price()


def usage(prompt_tokens: int, completion_tokens: int, price: Price | None, cached_tokens: int = 0) -> Usage:
    """A usage at a price; without one its `usd` is None."""
    usd = None if price is None else price.of(prompt_tokens, completion_tokens, cached_tokens)
    return Usage(prompt_tokens, completion_tokens, usd, cached_tokens=cached_tokens)


def known_price(model: str) -> Price | None:
    """The price of a litellm name such as `openai/gpt-4o`; None if the table has no entry."""
    if model.partition("/")[0] in LOCAL_PROVIDERS:
        return NOTHING
    entry = entry_of(model)
    if "input_cost_per_token" not in entry or "output_cost_per_token" not in entry:
        return None
    cached = entry.get("cache_read_input_token_cost")
    return Price(
        entry["input_cost_per_token"] * MILLION,
        entry["output_cost_per_token"] * MILLION,
        None if cached is None else cached * MILLION,
    )


def entry_of(model: str) -> Mapping[str, Any]:
    """The table's entry of a model, or an empty mapping."""
    table = _table()
    return table.get(model) or table.get(model.partition("/")[2]) or {}


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    folder = litellm_folder()
    return table_in(folder) if folder else json.loads(OWN_TABLE.read_text("utf-8"))


def table_in(litellm: Path) -> Mapping[str, Mapping[str, Any]]:
    """litellm's table of models, from its folder; empty if it has none."""
    path = litellm / "model_prices_and_context_window_backup.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


@cache
def litellm_folder() -> Path | None:
    """The folder of the litellm package, without importing it; None if it is not installed."""
    spec = find_spec("litellm")
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None
