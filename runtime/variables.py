"""Values of the environment and of settings, as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

QUOTES = "\"'`"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def unquoted(text: str) -> str:
    """A text without the blanks, line ends and byte order marks around it, nor a pair of quotes.

    A value that is copied into a file of variables often comes with them.
    """
    text = text.strip().strip("\ufeff\u200b").strip()
    while len(text) > 1 and text[0] in QUOTES and text[0] == text[-1]:
        text = text[1:-1].strip()
    return text


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """The text with `${NAME}` and `${NAME:-default}` replaced; raises `ValueError` where none is set."""

    def value(hit: re.Match[str]) -> str:
        name, default = hit[1], hit[2]
        if default is None and name not in environ:
            fix = f"set it, or write ${{{name}:-default}}"
            raise ValueError(f"the environment variable {name} is not set; {fix}")
        return environ.get(name) or default or ""

    return _VARIABLE.sub(value, text)
