"""Texts on one line, and cut to a length."""

from __future__ import annotations


def flat(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def shortened(text: str, most: int) -> str:
    """The text, or its beginning with an ellipsis: at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
