"""How large the model in a GGUF file is, and how long a context it was trained with."""

from __future__ import annotations

import re
from pathlib import Path

BYTES = 0.62
"""Bytes per parameter of a file whose name does not say how many there are: four bits, with their scales."""


def billions(path: Path) -> float:
    """Billions of parameters, by the file's name, such as `qwen2.5-1.5b-q4.gguf`, else by its size."""
    named = re.search(r"(?i)(?<![\d.])(\d+(?:\.\d+)?)([bm])(?![a-z])", path.name)
    if named:
        return float(named[1]) * (1.0 if named[2].lower() == "b" else 0.001)
    return path.stat().st_size / BYTES / 1e9 if path.is_file() else 0.0


def trained_context(path: Path) -> int | None:
    """Tokens of context that the model was trained with, by the head of its file; None if that lacks it."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return None
    found = _CONTEXT.search(head) if head.startswith(b"GGUF") else None
    return int.from_bytes(found[1] or found[2], "little") if found else None


_HEAD = 1_000_000
"""Bytes that are read: what is said of the architecture stands before the vocabulary."""
_CONTEXT = re.compile(rb"\.context_length(?:[\x04\x05]\0{3}(.{4})|[\x0a\x0b]\0{3}(.{8}))", re.DOTALL)
"""A name with its value: the kind of number (of 4 or 8 bytes), and the number."""
