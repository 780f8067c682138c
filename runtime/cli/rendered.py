"""A document on a terminal: META as a list with local times, the rest as rendered markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from runtime.cli.words import elide, local

_TIMES = ("created", "updated", "deadline")
_LINK = re.compile(r"\[([^\[\]]+)\]\(\1\)")
_FOLD = re.compile(r"(?m)^<details>\n<summary>(.*)</summary>$")


def print_document(text: str, *, whole: bool = False) -> None:
    """Print a document whose text is harmless to a terminal already; `whole`: with all of META."""
    console = Console(highlight=False)
    _, head, body = text.split("---\n", 2)
    parts = (each.partition(": ") for each in head.splitlines())
    values = {key: value for key, _, value in parts}
    if whole:
        for key, value in values.items():
            value = elide(_plain(key, value), max(console.width - 12, 20))
            console.print(Text.assemble((f"{key:>10}  ", "dim"), value))
    else:
        for shown in _in_short(values):
            console.print(Text(elide(shown, console.width), "dim"))
    body = _FOLD.sub(r"*\1*", body).replace("\n</details>\n", "\n")
    console.print(Markdown(_LINK.sub(r"\1", body), hyperlinks=False))


def _in_short(values: Mapping[str, str]) -> list[str]:
    """META in three lines: what it is, when and where, and how to see the rest."""
    plain = {key: _plain(key, value) for key, value in values.items()}
    names = ("id", "type", "status", "phase")
    what = " · ".join(plain[name] for name in names if plain.get(name))
    when = " · ".join(plain[name] for name in ("created", "updated", "folder") if plain.get(name))
    return [each for each in (what, when, "all of META: fractal show --meta") if each]


def _plain(key: str, value: str) -> str:
    """A value of META without the quotes of JSON; times in the person's zone."""
    try:
        read = json.loads(value)
    except ValueError:
        return value
    if not isinstance(read, str):
        return value
    return local(read) if key in _TIMES else read
