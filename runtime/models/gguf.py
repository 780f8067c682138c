"""How large the model in a GGUF file is, and how long a context it was trained with."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import BinaryIO

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
            return _context_length(file)
    except (OSError, struct.error):
        return None


_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The kinds of numbers in a head, as `struct` names them."""
_TEXT = 8
_FIRST = 64
"""Entries that are read: those about the architecture stand before those about the vocabulary."""
_LONGEST = 65_536
"""Bytes of a text that are read."""


def _context_length(file: BinaryIO) -> int | None:
    magic, version, _, entries = struct.unpack("<4sIQQ", file.read(24))
    if magic != b"GGUF" or version < 2:
        return None
    for _ in range(min(entries, _FIRST)):
        name = _text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        if kind == _TEXT:
            _text(file)
        elif kind in _NUMBERS:
            form = f"<{_NUMBERS[kind]}"
            (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
            if name.endswith(b".context_length"):
                return int(value)
        else:  # a list: the vocabulary begins
            return None
    return None


def _text(file: BinaryIO) -> bytes:
    (size,) = struct.unpack("<Q", file.read(8))
    if size > _LONGEST:
        raise struct.error("the text is too long")
    return file.read(size)
