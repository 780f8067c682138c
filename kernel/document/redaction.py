"""Prepares text for display: shows control characters, redacts secrets, cuts long texts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from kernel.document.escaping import BIDI, TAGS

_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
}
_UNSEEN = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff{BIDI}{TAGS}]")
_LONE_RETURN = re.compile(r"\r(?!\n)")

LEAST = 8
"""Minimum characters of a secret: shorter values occur in ordinary words."""
_SECRET_NAME = re.compile(
    r"(?i)(?:^|_)(?:api|access|secret|private|auth)?_?"
    r"(?:keys?|tokens?|secrets?|passw(?:or)?d|passphrase|pass|pwd|credentials?)(?:_|\d*$)"
)
_NOT_SECRET = re.compile(r"(?i)_(?:path|file|dir|sock|name|home)$|^(?:KEYBOARD|KEYMAP|PWD$)")
_SHAPES: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("sk-", "API key", re.compile(r"(?<![\w-])sk-(?=[\w-]{0,200}\d)[\w-]{20,}")),
    ("gh", "GitHub token", re.compile(r"(?<![A-Za-z0-9])gh[oprsu]_[A-Za-z0-9]{30,}")),
    ("github_pat_", "GitHub token", re.compile(r"github_pat_\w{22,}")),
    ("glpat-", "GitLab token", re.compile(r"glpat-[\w-]{20,}")),
    ("AKIA", "AWS key", re.compile(r"(?<![A-Za-z0-9])AKIA[0-9A-Z]{16}(?![0-9A-Z])")),
    ("ASIA", "AWS key", re.compile(r"(?<![A-Za-z0-9])ASIA[0-9A-Z]{16}(?![0-9A-Z])")),
    ("xox", "Slack token", re.compile(r"xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("AIza", "Google key", re.compile(r"AIza[\w-]{35}")),
    ("hf_", "Hugging Face token", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}")),
    ("npm_", "npm token", re.compile(r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}")),
    ("pypi-", "PyPI token", re.compile(r"pypi-AgE[\w-]{50,}")),
    ("eyJ", "token", re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+")),
    (
        "PRIVATE KEY-----",
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----)){0,20000}"
            r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
        ),
    ),
)
_BEARER = re.compile(r"(?i)\b(bearer[ \t]+)([A-Za-z0-9._~+/=-]{16,})")
_IN_ADDRESS = re.compile(r"(://[^\s/:@]{1,100}:)([^\s/@]{3,200})(?=@)")


def neutralise(text: str) -> str:
    """The text with control characters made visible: ESC becomes `␛`.

    Tab, line feed, and a carriage return before a line feed are kept.
    """
    shown = text if text.isprintable() else text.translate(_CONTROLS)
    return _LONE_RETURN.sub("\u240d", shown) if "\r" in shown else shown


def shown_name(name: str) -> str:
    """A file name as one line of valid text with invisible characters escaped."""
    name = os.fsencode(name).decode("utf-8", "backslashreplace")
    return _UNSEEN.sub(_seen, name)


def _seen(hit: re.Match[str]) -> str:
    code = ord(hit[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def redact(text: str, environ: Mapping[str, str]) -> str:
    """The text with each secret replaced by `[redacted NAME]`.

    A secret is the value of an environment variable with a name like `API_KEY`, or a text of a known form
    (provider keys, tokens, private keys, a password in a URL).
    """
    return redactor(environ)(text)


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """A JSON value with each text in it redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value).items()
        return {redact(key): redacted(each, redact) for key, each in pairs}
    return [redacted(each, redact) for each in cast(list[Any], value)] if isinstance(value, list) else value


def redactor(environ: Mapping[str, str]) -> Callable[[str], str]:
    """`redact` for many texts: reads the environment once."""
    values = value_redactor(environ)
    return lambda text: redact_forms(values(text))


def value_redactor(environ: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces only the values of secret environment variables."""
    secret = {
        value: name
        for name, value in environ.items()
        if len(value) >= LEAST and _SECRET_NAME.search(name) and not _NOT_SECRET.search(name)
    }

    def without(text: str) -> str:
        values = {value: name for value, name in secret.items() if value in text}
        if not values:
            return text
        longest_first = sorted(values, key=len, reverse=True)
        known = re.compile("|".join(map(re.escape, longest_first)))
        return known.sub(lambda hit: f"[redacted {values[hit[0]]}]", text)

    return without


def redact_forms(text: str) -> str:
    """The text with each part that looks like a secret replaced. For display: it may match other text."""
    for hint, name, shape in _SHAPES:
        if hint in text:
            text = shape.sub(f"[redacted {name}]", text)
    if "earer" in text or "EARER" in text:
        text = _BEARER.sub(r"\1[redacted token]", text)
    if "://" in text:
        text = _IN_ADDRESS.sub(r"\1[redacted password]", text)
    return text


def cut(text: str, limit: int, where: str, *, head: float = 1 / 3) -> str:
    """At most `limit` characters of a text: its head and tail with a mark between them.

    The mark names `where` the whole text is. The tail gets more room, because most results end with what
    matters.
    """
    if len(text) <= limit:
        return text
    named = f"; whole in {where}" if where else ""
    room = limit - len(f"\n[… {len(text)} characters cut{named} …]\n")
    if room < limit // 2:  # the long mark would leave too little room
        mark = "\n[…]\n"[:limit]
        room = limit - len(mark)
    else:
        mark = f"\n[… {len(text) - room} characters cut{named} …]\n"
    first = int(room * head)
    return text[:first] + mark + text[len(text) - room + first :]
