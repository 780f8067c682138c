"""What this user has allowed, folder by folder: digests of items, in the user's own configuration."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kernel import disk
from kernel.document.redaction import Verbatim
from kernel.errors import ConfigurationError
from runtime import user_files

VARIABLE = "FRACTAL_TRUST"
"""Set to `all`, everything of every folder is allowed: for containers and CI. No file can say so."""
SHOWN_ITEMS = 12
"""Items that an error message lists."""
LARGEST = 10_000_000
"""Most bytes of the file of allowed items."""
LONGEST = 2_500
"""Characters of an item in an error message; `fractal trust` shows all."""


@dataclass(frozen=True)
class Item:
    """One thing that a folder asks for: a setting, a file of its `system/`, a skill, an MCP server."""

    folder: str
    name: str
    digest: str
    shown: str
    optional: bool = False  # without permission a run goes on as if it were not there

    def __post_init__(self) -> None:
        from runtime.workspace.question import one_line  # most commands ask for nothing

        object.__setattr__(self, "shown", one_line(self.shown))

    def line(self) -> Verbatim:
        """What is allowed, exactly, on one line."""
        from runtime.workspace.question import one_line

        return Verbatim(f"{one_line(self.name)}: {self.shown}")

    def __str__(self) -> str:
        line = self.line()
        return line if len(line) <= LONGEST else f"{line[:LONGEST]}… [{len(line):,} characters]"


class Untrusted(ConfigurationError):
    """A folder asks for what this user has not allowed yet."""

    def __init__(self, items: Sequence[Item]) -> None:
        more = len(items) - SHOWN_ITEMS
        lines = [f"- {item}" for item in items[:SHOWN_ITEMS]] + ([f"- and {more} more"] if more > 0 else [])
        super().__init__(
            f"{items[0].folder} asks for what you have not allowed yet:\n"
            + "\n".join(lines)
            + "\nlook at it, then: fractal trust"
        )
        self.items = tuple(items)


def place() -> Path:
    """The user's file of allowed items."""
    return user_files.user_folder() / "trusted.json"


def everything() -> bool:
    """Whether the environment allows everything."""
    return os.environ.get(VARIABLE, "").lower() == "all"


def known() -> dict[str, dict[str, str]]:
    """The digests of allowed items, by folder and name."""
    try:
        data: Any = json.loads(disk.read(place(), LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{place()}: cannot be read: {error}; fix or remove it") from None
    if not isinstance(data, dict) or not all(isinstance(each, dict) for each in cast(Any, data).values()):
        raise ConfigurationError(f"{place()}: a mapping of folders is needed; fix or remove it")
    return cast(dict[str, dict[str, str]], data)


def waiting(items: Iterable[Item]) -> list[Item]:
    """Items that are not allowed with their present content."""
    if everything() or not (items := list(items)):
        return []
    allowed = known()
    return [item for item in items if allowed.get(item.folder, {}).get(item.name) != item.digest]


def digest(raw: bytes) -> str:
    """The digest of a content."""
    return hashlib.sha256(raw).hexdigest()
