"""The syntax tree of a line of shell, by tree-sitter, in bounded time."""

from __future__ import annotations

from functools import cache
from time import thread_time
from typing import Any

SHORT = 160
"""Bytes that are parsed without looking at the clock."""
PARSING = 0.04
"""Seconds of CPU that parsing may take, and one more for a million bytes; nonsense takes long."""
QUOTES = 400
"""Backticks, quotes behind a dollar, and a fifth of the pipes: the grammar takes long over more of them."""
_ASCII = bytes(each if each in (9, 10, 13) or 31 < each < 127 else 120 for each in range(256))
"""Bytes beyond ASCII as letters: the scanner of the grammar crashes at some (tree-sitter-bash#337)."""


@cache
def _parser() -> Any:
    """The parser, made when the first command is looked at."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def tree(source: bytes) -> Any:
    """The root of the syntax tree; None where the grammar makes nothing of the text within its time."""
    if max(source.count(b"`"), source.count(b"$'"), source.count(b"|") // 5) > QUOTES:
        return None
    source = source.translate(_ASCII)
    parser = _parser()
    if len(source) < SHORT:
        return parser.parse(source).root_node
    end = thread_time() + PARSING + len(source) / 1_000_000

    def late(offset: int, has_error: bool) -> bool:
        return thread_time() > end

    try:
        return parser.parse(lambda at, _: source[at:], progress_callback=late).root_node
    except ValueError:
        parser.reset()
        return None
