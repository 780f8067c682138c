"""Named arrays in one file with a JSON header, memory-mapped when read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernel import disk

_ALIGNED = 64


def save(path: Path, head: Mapping[str, Any], arrays: Mapping[str, Sequence[Any]]) -> None:
    """Write the file whole or not at all; an array may come in several parts. A full disk is ignored."""
    placed: dict[str, Any] = {}
    at = 0
    for name, parts in arrays.items():
        count = sum(len(part) for part in parts)
        placed[name] = [at, parts[0].dtype.str, [count, *parts[0].shape[1:]]]
        at += -(-sum(part.nbytes for part in parts) // _ALIGNED) * _ALIGNED
    told = json.dumps({**head, "arrays": placed, "bytes": at}).encode()
    told = told.ljust(-(-(len(told) + 8) // _ALIGNED) * _ALIGNED - 8)
    temporary = disk.temporary_path(path)
    try:
        with temporary.open("wb") as file:
            file.write(len(told).to_bytes(8, "little") + told)
            for parts in arrays.values():
                for part in parts:
                    file.write(np.ascontiguousarray(part).data)
                file.write(bytes(-file.tell() % _ALIGNED))
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o600)
        disk.move(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The header, with the offset `begin` of the arrays, and the arrays; None without an intact file."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > path.stat().st_size:
                return None
            head = json.loads(file.read(size))
            begin = head["begin"] = 8 + size
            if path.stat().st_size != begin + head["bytes"]:
                return None
            # copy on write: changes stay in this process
            whole = np.memmap(file, np.uint8, "c", 0, (begin + head["bytes"],))
        return head, {name: _array(whole[begin:], *place) for name, place in head["arrays"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _array(raw: Any, at: int, kind: str, shape: Sequence[int]) -> Any:
    length = int(np.dtype(kind).itemsize * np.prod(shape))
    return raw[at : at + length].view(kind).reshape(shape)
