"""What the prompt of an editor says: a task in words, and the context that comes with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from acp.schema import ResourceContentBlock, TextContentBlock, TextResourceContents

from kernel import disk
from kernel.errors import UsageError

LINKED_BYTES = 1_000_000
"""Of the largest linked file that is read; a larger one is only named."""


def task_of(blocks: Sequence[Any], folder: Path) -> tuple[str, list[tuple[str, str]]]:
    """The task, and its context as pairs of source and text.

    A resource is named in the task where it stands in the prompt, unless the words name it already. Raises
    `UsageError` for images, audio and other data, and for a prompt without words.
    """
    words = " ".join(block.text for block in blocks if isinstance(block, TextContentBlock))
    task = ""
    context: list[tuple[str, str]] = []
    for block in blocks:
        if isinstance(block, TextContentBlock):
            task = _joined(task, block.text)
            continue
        resource = block if isinstance(block, ResourceContentBlock) else getattr(block, "resource", None)
        if not isinstance(resource, ResourceContentBlock | TextResourceContents):
            kind = "data that is not text" if resource else f"{block.type} content"
            raise UsageError(f"Fractal reads no {kind}; send text, or name a file in the folder")
        name, path = _named(resource.uri, folder)
        text = resource.text if isinstance(resource, TextResourceContents) else _text(path)
        if text is not None:
            context.append((f"file {name}" if path else name, text))
        if Path(name.partition("#")[0]).name not in words:
            task = _joined(task, name)
    if not words.strip():
        raise UsageError("the prompt has no text; say what is to be done")
    return task.strip(), context


def _joined(left: str, right: str) -> str:
    apart = left and right and not left[-1].isspace() and not right[0].isspace() and right[0] not in ",.;:!?)"
    return f"{left} {right}" if apart else left + right


def _named(uri: str, folder: Path) -> tuple[str, Path | None]:
    """The name of a resource for people, and its file: a path in the folder is relative to it."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file") or not parts.path:
        return uri, None
    path = folder / unquote(parts.path)
    name = str(path.relative_to(folder) if path.is_relative_to(folder) else path)
    return name + (f"#{parts.fragment}" if parts.fragment else ""), path


def _text(path: Path | None) -> str | None:
    """The text of a linked file; None for one that is no text, too large or missing."""
    with suppress(OSError, ValueError):
        if path is not None and path.is_file():
            text = disk.read(path, LINKED_BYTES).decode("utf-8")
            return None if "\0" in text else text
    return None
