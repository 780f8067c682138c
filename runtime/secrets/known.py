"""Secrets that are known by their value: of the environment, of settings and servers, and what runs keep."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from kernel.errors import ConfigurationError
from runtime.secrets.forms import Mark, is_empty, is_random, is_word, names_secret, password_in
from runtime.variables import QUOTES, unquoted

LEAST = 8
"""Minimum characters of a known secret: shorter values occur in ordinary words."""
LONG = 20
"""Characters from which a value that a run keeps is known by itself although it has no digit."""
_learned: dict[str, str] = {}
_of_folders: dict[str, str] = {}
_of_runs: dict[str, str] = {}
OPEN_HEADERS = frozenset(
    {"accept", "content-type", "user-agent", "referer", "http-referer", "x-title", "x-request-id"}
    | {"anthropic-version", "anthropic-beta", "openai-beta", "openai-organization", "openai-project"}
    | {"api-version", "x-client-name", "x-portkey-provider", "helicone-cache-enabled"}
)
"""Headers that hold no secret; what any other holds is taken for one."""
MOST_OF_RUNS = 2_000
"""Spellings of values of runs that a process knows; the oldest are forgotten first."""


def learn_secret(name: str, value: str) -> None:
    """From now on this value is a secret of the process, whatever its form; `name` stands in its place."""
    _learned.update(_spellings(name, value))


def learn_value(name: str, value: str) -> None:
    """From now on a secret that a run keeps is known wherever it stands, unless it looks like a word."""
    if is_random(value) or (len(value) >= LONG and not is_word(value)):
        for spelling in _spellings(name, value):
            _of_runs.pop(spelling, None)
            _of_runs[spelling] = name
        for spelling in list(_of_runs)[:-MOST_OF_RUNS]:
            del _of_runs[spelling]


def learn_secrets(values: Any, *, ours: bool = True) -> None:
    """Learn each text of settings whose name says that it is a secret, such as `api_key`.

    Those of a file that comes with a folder are not `ours`: nobody has given them to the process, and they
    hide nothing in what a person approves. Raises `ValueError` for values that contain themselves.
    """
    begun, done = set[int](), set[int]()  # YAML may name a list in many places, and in itself

    def learn(each: Any) -> None:
        if id(each) in done or not isinstance(each, list | Mapping):
            return
        if id(cast(Any, each)) in begun:
            raise ValueError("it contains itself")
        begun.add(id(cast(Any, each)))
        named = isinstance(each, Mapping)
        items = cast(Mapping[Any, Any], each).items() if named else enumerate(cast(list[Any], each))
        kept = _learned if ours else _of_folders
        for name, value in items:
            if name == "headers" and isinstance(value, Mapping):
                kept.update(_of_headers(cast(Mapping[Any, Any], value)))
            if not isinstance(value, str) or not names_secret(str(name)):
                learn(value)
            elif not value.startswith(("/", "~", "$")):  # else it says where the secret is
                kept.update(_spellings(str(name), value))
        done.add(id(cast(Any, each)))

    learn(values)


def learn_headers(headers: Mapping[str, str]) -> None:
    """Learn the values of headers, and what their parts hold, but for headers that hold no secret."""
    _learned.update(_of_headers(headers))


def _is_credential(header: str) -> bool:
    return header.lower() in ("authorization", "proxy-authorization", "cookie") or names_secret(header)


def _of_headers(headers: Mapping[Any, Any]) -> dict[str, str]:
    """The secrets in headers; a variable that stands in one says where the secret is."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        if str(name).lower() in OPEN_HEADERS or not isinstance(value, str):
            continue
        *_, last = parts = [each for each in re.split(r"[\s;,]+", value) if "${" not in each] or [""]
        if not last.isalpha() or not last.islower() or _is_credential(str(name)):
            found |= _spellings(str(name), last)  # a scheme stands before it, or none
        for part in parts:
            held = part.partition("=")[2].strip(QUOTES) or part
            found |= {} if is_word(held) else _spellings(str(name), held)
    return found


def secret_of(variable: str) -> str:
    """The secret in an environment variable, without what was copied with it; "" if there is none.

    Raises `ConfigurationError` for one that no request can carry.
    """
    return usable(os.environ.get(variable, ""), f"the environment variable {variable}", variable)


def usable(text: str, where: str, name: str) -> str:
    """A key without blanks, line ends, quotes, a byte order mark and `Bearer` around it, learned as `name`.

    Raises `ConfigurationError`, which says `where` it is and does not show it, for one that no request can
    carry.
    """
    value = _bare(text)
    learn_secret(name, value)
    if not (value.isascii() and value.isprintable()):
        raise ConfigurationError(f"{where} holds a character that is no printable ASCII; copy it again")
    return value


def _bare(text: str) -> str:
    """A secret without what was copied with it."""
    scheme, blank, rest = unquoted(text).partition(" ")
    return unquoted(rest) if blank and scheme.lower() == "bearer" else unquoted(text)


def _spellings(name: str, value: str) -> dict[str, str]:
    """A secret as it is, and as addresses, JSON, a shell, Base64, hexadecimal digits and capitals write it.

    None if it is too short. A part of a secret is not looked for, since it could be any text, nor one that is
    broken into lines: what stands between its parts may be anything.
    """
    value = value.strip()
    if len(value) < LEAST:
        return {}
    raw = value.encode("utf-8", "surrogatepass")
    code, in_json, in_address = raw.hex(), json.dumps(value)[1:-1], quote(raw, safe="")
    in_lower = re.sub("%..", lambda hit: hit[0].lower(), in_address)
    numbered = "".join(f"\\u{ord(each):04x}" for each in value)
    quoted = re.sub(r"([^\w@%/.,:-])", r"\\\1", value)
    coded = [base64.b64encode(raw).decode().rstrip("="), _within_base64(raw, 1), _within_base64(raw, 2)]
    forms = [
        value,
        in_address,
        in_lower,
        in_json,
        in_json.replace("/", r"\/"),
        code,
        code.upper(),
        numbered,
        quoted,
    ]
    forms += [*coded, *(each.replace("+", "-").replace("/", "_") for each in coded)]
    forms += [value.upper(), value.lower()] if any(map(str.isdigit, value)) else []  # else it may be a word
    return dict.fromkeys(forms, name)


def _within_base64(raw: bytes, before: int) -> str:
    """What Base64 makes of bytes behind others, such as a user's name, whatever stands around them."""
    whole = (before + len(raw)) // 3 * 4
    return base64.b64encode(bytes(before) + raw).decode()[4:whole]


_HTML_NAMES = {
    "&": "amp",
    "<": "lt",
    ">": "gt",
    '"': "quot",
    "'": "apos",
    "+": "plus",
    "/": "sol",
    "=": "equals",
}


@lru_cache(maxsize=4096)
def _longest_part(value: str) -> str:
    """What HTML leaves as it is of a value."""
    return max(re.split(r"[^A-Za-z0-9]+", value), key=len)


@lru_cache(maxsize=128)
def _in_html(value: str) -> re.Pattern[str]:
    """A value as HTML writes it: each sign by itself, by its name, or by its number in one of two bases."""

    def ways(sign: str) -> str:
        named = f"|{_HTML_NAMES[sign]}" if sign in _HTML_NAMES else ""
        return rf"(?:{re.escape(sign)}|&(?:#0*{ord(sign)}|#[xX]0*(?i:{ord(sign):x}){named});)"

    return re.compile("".join(each if each.isalnum() else ways(each) for each in value))


def without_values(text: str, secrets: Mapping[str, str], mark: Mark) -> str:
    """The text without these values, also as HTML writes them."""
    if "&" in text and ";" in text:
        for value, name in secrets.items():
            if not value.isalnum() and _longest_part(value) in text:
                text = _in_html(value).sub(lambda hit, name=name: mark(name, hit[0]), text)
    there = [value for value in secrets if value in text]
    if not there:
        return text
    known = re.compile("|".join(map(re.escape, sorted(there, key=len, reverse=True))))
    return known.sub(lambda hit: mark(secrets[hit[0]], hit[0]), text)


def known() -> dict[str, str]:
    """The secrets that are known by value, each with its name."""
    return _of_runs | _of_folders | given()


def given() -> dict[str, str]:
    """Those of the environment, the settings and the servers, each with its name."""
    # for each text of a run: os.environ itself decodes every variable at every look
    variables: Mapping[Any, Any] = vars(os.environ).get("_data", os.environ)
    return _learned | _named_by(tuple(variables.items()))


@lru_cache(maxsize=4)
def _named_by(environment: tuple[tuple[bytes | str, bytes | str], ...]) -> dict[str, str]:
    """The secrets in an environment, each with the name of its variable."""
    secrets: dict[str, str] = {}
    for name, value in ((os.fsdecode(name), os.fsdecode(value)) for name, value in environment):
        if names_secret(name) and not is_empty(value) and not _is_path(value):
            secrets |= _spellings(name, value) | _spellings(name, _bare(value))
        elif password := password_in(value):
            secrets |= _spellings(name, password)
    return secrets


def _is_path(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except OSError:  # too long for one
        return False
