"""§0 META as the frontmatter of a state document: one `key: JSON` a line, which any reader of YAML takes.

A person may leave the quotes of a plain word away. Keys that this version does not know are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn

from kernel import disk
from kernel.document import FORMAT, PHASES, STATUSES, Meta
from kernel.errors import DocumentError
from kernel.grammar import META_KEY, META_WORD
from kernel.shapes import META, misfit
from kernel.text import to_json

_FIELDS = {each.name: each for each in fields(Meta) if each.name != "extra"}
_ALWAYS_SHOWN = frozenset({"format", "level", "status", "phase", "attempt", "rev"})
_NEEDED = ("format", "id", "run")
_CHOICES: Mapping[str, frozenset[Any]] = {
    "format": frozenset({FORMAT}),
    "status": frozenset(STATUSES),
    "phase": frozenset(PHASES),
}
HEAD = 4_000
"""Bytes that are read of a document of which only the head is wanted."""
_MOST = 10**9
"""No count in META is as large; a larger one is a slip of the pen."""


def peek(path: Path, key: str) -> str:
    """One plain value of a document's frontmatter, without reading on; "" when it cannot be told."""
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as handle:
        for number, line in enumerate(handle):
            name, colon, value = line.partition(":")
            if colon and name == key:
                return value.strip().strip('"')
            if number and line.rstrip() == "---":
                break
    return ""


def head(path: Path) -> list[str]:
    """The lines of a document's frontmatter and of what follows it at once, `HEAD` characters at least.

    Raises `DocumentError` when the file cannot be read.
    """
    with disk.reading_of_the_state(path), path.open("rb") as handle:
        raw = handle.read(HEAD)
        while b"\n---" not in raw[3:] and (more := handle.read(HEAD)):
            raw += more
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def frontmatter_lines(meta: Meta) -> Iterator[str]:
    """The lines between the two `---`; what stands at its default is left out, but for the most telling."""
    for name, allowed in _CHOICES.items():
        if getattr(meta, name) not in allowed:
            raise ValueError(f"no such {name}: {getattr(meta, name)!r}")
    for name in _FIELDS:
        value = getattr(meta, name)
        if name in _ALWAYS_SHOWN or value != _default(name):
            yield f"{name}: {to_json(value)}"
    for name, value in meta.extra.items():
        if name in _FIELDS or not META_KEY.fullmatch(name):
            raise ValueError(f"not a name for the frontmatter: {name!r}")
        yield f"{name}: {to_json(value)}"


def read_frontmatter(lines: Sequence[str], where: str) -> tuple[Meta, int]:
    """META, and the index of the line after the closing `---`; raises `DocumentError` with file and line."""
    if lines[0].rstrip() != "---":
        _fail("no frontmatter: the first line of a state document is ---", where, 0)
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == "---"), None)
    if end is None:
        _fail("the frontmatter is never closed; add a line ---", where, len(lines) - 1)
    values: dict[str, Any] = {}
    found: dict[str, int] = {}
    for at in range(1, end):
        line = lines[at].rstrip()
        if not line:
            continue
        key, colon, value = line.partition(":")
        if not colon or not META_KEY.fullmatch(key):
            _fail(f"not understood: {line[:60]!r}; a line of the frontmatter is `key: JSON`", where, at)
        if key in found:
            _fail(f"{key} stands twice, first in line {found[key] + 1}; keep one of them", where, at)
        found[key], values[key] = at, _value(value.strip(), where, at)
    return _meta(values, found, where), end + 1


def _fail(message: str, where: str, at: int) -> NoReturn:
    raise DocumentError(message, f"{where}:{at + 1}")


def _value(text: str, where: str, at: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if META_WORD.fullmatch(text):
            return text
        _fail(f"not JSON: {text[:60]!r} ({error})", where, at)


def _meta(values: Mapping[str, Any], found: Mapping[str, int], where: str) -> Meta:
    for name in _NEEDED:
        if name not in values:
            _fail(f"the frontmatter has no {name}; a document cannot do without", where, 0)
    known = {name: value for name, value in values.items() if name in _FIELDS}
    for name, value in values.items():
        if wrong := _wrong(name, value):
            _fail(f"the frontmatter's {wrong}", where, found[name])
    known["rungs"] = tuple(known.get("rungs", ()))
    return Meta(**known, extra={name: value for name, value in values.items() if name not in _FIELDS})


def _wrong(name: str, value: Any) -> str:
    """What is wrong with the value of a key; "" when nothing is."""
    if name == "format" and isinstance(value, int) and value > FORMAT:
        return f"{name} is {_short(value)}, and this Fractal reads up to {FORMAT}; install a newer one"
    if name in _FIELDS and name not in META and not _is_kind(name, value):
        return f"{name} cannot be {_short(value)}"
    if name in _CHOICES and value not in _CHOICES[name]:
        return f"{name} cannot be {_short(value)}; one of {', '.join(sorted(map(str, _CHOICES[name])))}"
    none = name == "waiting" and value is None
    return misfit(value, META[name], name) if name in META and not none else ""


def _is_kind(name: str, value: Any) -> bool:
    default = _default(name)
    if type(default) is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    return isinstance(value, type(default))


def _default(name: str) -> Any:
    each = _FIELDS[name]
    if each.default_factory is not MISSING:
        return each.default_factory()
    return "" if each.default is MISSING else each.default


def _short(value: Any) -> str:
    return to_json(value)[:40]
