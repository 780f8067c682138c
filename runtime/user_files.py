"""The user's own files: where they are, and how a file of settings is read, or made by whoever is first."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kernel import disk
from kernel.errors import ConfigurationError


def user_folder() -> Path:
    """The folder of the user's own files (XDG)."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "fractal"


def made_once(path: Path, raw: Callable[[], bytes], most: int = 1_000_000) -> bytes:
    """The bytes of a file that is made with `raw()` if there is none; whoever is first makes it.

    Raises `OSError`, also if it has more than `most` bytes.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            disk.create(path, raw())
    return disk.read(path, most)


def text_of(path: Path, most: int = 1_000_000) -> str:
    """The text of a configuration file; raises `ConfigurationError` with file and line."""
    return as_text(path, lambda: disk.read(path, most))


def as_text(path: Path, read: Callable[[], bytes]) -> str:
    """What `read` returns of a file as text; raises `ConfigurationError` with file and line."""
    try:
        return read().decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None
