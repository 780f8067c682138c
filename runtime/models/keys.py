"""The keys and headers of requests: from a program such as a password manager, and from settings."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock

from kernel.errors import ConfigurationError
from runtime.sandbox.programs import program, run
from runtime.secrets.known import learn_headers, usable
from runtime.secrets.redaction import redact
from runtime.variables import expanded, unquoted

KEY_SECONDS = 60.0
"""Seconds that the program may take: a password manager may ask a person."""
_LONGEST_ERROR = 200
_OF_A_SHELL = re.compile(r"[|&;<>]+|2>&1")
"""Words that mean something to a shell only."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_alone = Lock()


def command_words(command: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a `key_command`; raises `ConfigurationError` for what only a shell understands."""
    if not isinstance(command, str):
        return tuple(command)
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ConfigurationError(f"key_command: {str(error).lower()}") from None
    if any(_OF_A_SHELL.fullmatch(each) or "$" in each or "`" in each for each in words):
        raise ConfigurationError(
            "key_command runs without a shell, which | > & ; $ and ` are for; "
            'give such a line to one: [sh, -c, "…"]'
        )
    return words


def printed_key(words: Sequence[str]) -> str:
    """The key that a program prints in its first line; it runs once in this process.

    Raises `ConfigurationError` that does not show what was printed.
    """
    with _alone:  # loops side by side ask at the same time
        return _printed(tuple(words))


@cache
def _printed(words: tuple[str, ...]) -> str:
    name, *arguments = words or ("",)
    path = Path(name).expanduser()
    findable = path.is_absolute() or (name and "/" not in name)
    found = program(str(path), Path.cwd()) if findable else None
    shown = f"key_command ({redact(name)})"
    if not found:
        raise ConfigurationError(f"{shown}: no such program; name one on the PATH, or its whole path")
    home = Path.home()
    try:
        # not in the folder, whose files could be read as settings
        place = home if home.is_dir() else Path("/")
        ran = run([found, *arguments], place, os.environ, timeout=KEY_SECONDS)
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"{shown}: it did not end within {KEY_SECONDS:g} s") from None
    except OSError as error:
        raise ConfigurationError(f"{shown}: {error.strerror}") from None
    lines = ran.stdout.decode("utf-8", "replace").strip("\ufeff\r\n\t ").splitlines()
    key = usable(lines[0] if lines else "", f"what {shown} prints", "key_command")
    if ran.returncode:
        said = " ".join(redact(ran.stderr.decode("utf-8", "replace")).split())[:_LONGEST_ERROR]
        raise ConfigurationError(f"{shown} failed with exit {ran.returncode}{f': {said}' if said else ''}")
    if not key:
        raise ConfigurationError(f"{shown} prints no key")
    return key


def headers_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with their variables replaced.

    Raises `ConfigurationError` that does not show a value.
    """
    environ = {name: unquoted(value) for name, value in os.environ.items()}
    written: dict[str, str] = {}
    for name, text in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"headers: {name[:40]!r} is no name of a header")
        try:
            value = expanded(str(text), environ).strip()
        except ValueError as error:
            raise ConfigurationError(f"headers: {name}: {error}") from None
        written[name] = value
        learn_headers({name: value})
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(
                f"headers: {name}: its value holds a character that is no printable ASCII; copy it again"
            )
    return written
