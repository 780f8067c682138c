"""How large the model in a GGUF file is."""

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
