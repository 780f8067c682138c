"""Regular expressions made of lists of words."""

from __future__ import annotations

import re
from collections.abc import Iterable


def any_of(phrases: Iterable[str]) -> str:
    """A pattern that matches any of these, the longest first; one that matches nothing if there is none."""
    listed = sorted(dict.fromkeys(phrases), key=len, reverse=True)
    return "|".join(map(re.escape, listed)) or r"(?!)"
