"""A document on a terminal: META as a list with local times, the rest as rendered markdown."""

from __future__ import annotations

import json
import re

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from runtime.cli.words import elide, local

_TIMES = ("created", "updated", "deadline")
_LINK = re.compile(r"\[([^\[\]]+)\]\(\1\)")
_FOLD = re.compile(r"(?m)^<details>\n<summary>(.*)</summary>$")


def print_document(text: str) -> None:
    """Print a document whose text is harmless to a terminal already."""
    console = Console(highlight=False)
    _, head, body = text.split("---\n", 2)
    for each in head.splitlines():
        key, _, value = each.partition(": ")
        value = elide(_plain(key, value), max(console.width - 12, 20))
        console.print(Text.assemble((f"{key:>10}  ", "dim"), value))
    body = _FOLD.sub(r"*\1*", body).replace("\n</details>\n", "\n")
    console.print(Markdown(_LINK.sub(r"\1", body), hyperlinks=False))


def _plain(key: str, value: str) -> str:
    """A value of META without the quotes of JSON; times in the person's zone."""
    try:
        read = json.loads(value)
    except ValueError:
        return value
    if not isinstance(read, str):
        return value
    return local(read) if key in _TIMES else read
