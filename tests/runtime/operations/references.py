"""Random cases for operations, compared with programs and libraries that know the answer.

120 cases each by day, the same ones every time; 20,000 with other seeds where FRACTAL_NIGHT=1
(`FRACTAL_NIGHT=1 pytest tests/runtime/operations -k references`). A test collects what is wrong: a case is
named by its seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lanes import NIGHT

from kernel.errors import OperationFailed
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

COUNT = 20_000 if NIGHT else 120
_BASE = random.SystemRandom().randrange(10**9) if NIGHT else 0


def cases(count: int = COUNT) -> Iterator[tuple[int, random.Random]]:
    """Seeds with their generators."""
    for seed in range(_BASE, _BASE + count):
        yield seed, random.Random(seed)


@contextmanager
def quick_folder(folder: Path) -> Iterator[Path]:
    """A folder in memory where the machine has one: thousands of small files are made safe one by one."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else folder) as made:
        yield Path(made)


def outcome(operation: Any, folder: Path, **args: Any) -> str | None:
    """What an operation answers in a folder, None when it declines."""
    context = OperationContext(folder, Sandbox(mode="off"), {}, 60.0, ())
    try:
        return operation(context, **args).text
    except OperationFailed:
        return None
