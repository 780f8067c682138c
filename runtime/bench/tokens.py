"""A real tokenizer for figures that are compared: cl100k_base, from the files that litellm ships."""

from __future__ import annotations

import os
from collections.abc import Callable

from kernel.budget import estimate_tokens
from runtime.responders.prices import litellm_folder


def counter() -> tuple[Callable[[str], int], str]:
    """The counter and its name; the estimate where no tokenizer is installed."""
    folder = litellm_folder()
    if folder is None:
        return estimate_tokens, "estimate (UTF-8 bytes / 3)"
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder / "litellm_core_utils" / "tokenizers"))
    try:
        import tiktoken
    except ImportError:
        return estimate_tokens, "estimate (UTF-8 bytes / 3)"
    encoding = tiktoken.get_encoding("cl100k_base")
    return (lambda text: len(encoding.encode(text, disallowed_special=()))), "cl100k_base"
