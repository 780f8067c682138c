"""§0 META as the frontmatter of a state document: one `key: JSON` per line, which any YAML reader accepts.

A person may omit the quotes of a plain word. Unknown keys are kept. A value of the wrong type is
reported with its place; the types are in `META` and `EVIDENCE`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, cast

from kernel import disk
from kernel.document.amounts import MOST
from kernel.document.escaping import to_json
from kernel.document.model import FORMAT, PHASES, STATUSES, Meta
from kernel.errors import DocumentError

Shape = Any
NUMBER = int | float | None
AMOUNTS: Shape = {...: int | float}
NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,39}$")
"""The name of an agent or a space, which is part of a path."""
META: Mapping[str, Shape] = {
    "budget": AMOUNTS,
    "spent": AMOUNTS,
    "waiting": {"for!": str, "question": str},
    "rungs": [
        {
            "attempt": int,
            "phase": str,
            "rung": str,
            "model": str,
            "passed": str,
            "step": int,
            "calls": NUMBER,
            "prompt": NUMBER,
            "instr": NUMBER,
            "out": NUMBER,
            "usd": NUMBER,
        }
    ],
    "derived": {...: {...: str}},
    "skills": [str],
    "with_skills": [str],
    "kept": [int],
    "faults": [str],
    "agent": NAME,
    "space": NAME,
    "group": str,
    "trace": str,
    "approved": [{"kind!": str, "effects!": [str], "dangers!": [str], "by!": str, "files": {...: str}}],
    "undone": [{"step!": int | None, "before!": str, "after!": str, "at!": str}],
    "worktree": {"of!": str, "base!": str, "git!": str, "changes!": int, "discarded": str},
    "applied": [{"tree!": str, "before!": str, "after!": str, "at!": str, "force!": bool}],
    "forked_from": {"run!": str, "step!": int},
}
EVIDENCE: Shape = {
    "touched": [{"path!": str, "before!": str, "after!": str | None, "kept": str}],
    "needed": {int: str},
    "was": str,
    "tree_before": str,
    "tree_after": str,
    "undone": bool,
    "spent": AMOUNTS,
    "turn": int,
    "drafts": {...: str},
    "drafted": [str],
    "names": {...: str},
    "approval": [str],
    "dangers": [str],
    "results": [int],
    "call": str,
    "kind": str,
    "approved": str,
    "question": str,
    "status": str | int,  # an operation that fetches has a number
    "unverified": bool,
    "limit": bool,
    "known": bool,
    "now": str,
    "told": [str],
    "deleted": str,
    "characters": int,
    "sha": str,
    "whole": str,
    "images": [{"file!": str, "kind!": str, "sha!": str}],
    "state": {"at!": str, "calls!": int, "kept": {...: object}},
}


def unstorable(value: Mapping[str, Any], shape: Shape, name: str) -> str:
    """Why a document cannot hold a value, and where in it; "" if it can."""
    try:
        read = json.loads(to_json(dict(value)))
    except (TypeError, ValueError, RecursionError) as error:
        return f"{name} cannot be stored: {error}"
    return mismatch(read, shape, name)


def mismatch(value: Any, shape: Shape, name: str) -> str:
    """What is wrong with a value, and where; "" if nothing is."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _mismatch_text(value, name, "a list")
        found = (mismatch(each, shape[0], f"{name}[{at}]") for at, each in enumerate(cast(list[Any], value)))
        return next(filter(None, found), "")
    if isinstance(shape, dict):
        return _mismatch_within(value, cast(dict[Any, Shape], shape), name)
    if isinstance(shape, re.Pattern):
        fits = isinstance(value, str) and cast(re.Pattern[str], shape).fullmatch(value)
        return "" if fits else _mismatch_text(value, name, "a name such as reviewer-2")
    if isinstance(value, bool) and shape in (int, int | float, NUMBER):
        return _mismatch_text(value, name, "a number")
    if not isinstance(value, cast("type | UnionType", shape)):
        return _mismatch_text(value, name, "a text" if shape is str else "a number")
    if shape is not object and isinstance(value, int | float) and not -MOST < value < MOST:
        return _mismatch_text(value, name, f"a number below {MOST}")
    return ""


def _mismatch_within(value: Any, shape: dict[Any, Shape], name: str) -> str:
    if not isinstance(value, dict):
        return _mismatch_text(value, name, "an object")
    values = cast(dict[str, Any], value)
    if int in shape and (odd := [key for key in values if not key.isdecimal() or len(key) > 9]):
        return _mismatch_text(odd[0], f"a name in {name}", "a whole number")
    for each, inner in shape.items():
        if not isinstance(each, str):
            wrongs = [mismatch(value, inner, f"{name}.{key}") for key, value in values.items()]
            return next(filter(None, wrongs), "")
        key = each.removesuffix("!")
        if key in values and (wrong := mismatch(values[key], inner, f"{name}.{key}")):
            return wrong
        if key not in values and key != each:
            return f"{name} has no {key}"
    return ""


def _mismatch_text(value: Any, name: str, right: str) -> str:
    return f"{name} cannot be {_short(value)}; {right} is needed"


_FIELDS = {name: default for name, default in vars(Meta("", "")).items() if name != "extra"}
"""The keys of META and their default values."""
_ALWAYS_SHOWN = frozenset({"format", "level", "status", "phase", "attempt", "rev"})
_NEEDED = ("format", "id", "run")
_CHOICES: Mapping[str, frozenset[Any]] = {
    "format": frozenset({FORMAT}),
    "status": frozenset(STATUSES),
    "phase": frozenset(PHASES),
}
_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_WORD = re.compile(r"[\w./~][\w.:/@~-]*", re.ASCII)
HEAD = 4_000
"""Bytes that are read first when only a document's head is needed."""
_MOST = 10**9
"""Upper bound of counts in META; a larger one is a typing error."""


def head(path: Path | str) -> list[str]:
    """The first lines of a document, at least the frontmatter. Raises `DocumentError`."""
    with disk.reading_state(Path(path)), open(path, "rb", buffering=0) as handle:  # noqa: PTH123 (thousands)
        raw = handle.read(HEAD)
        while b"\n---" not in raw[3:] and (more := handle.read(len(raw))):
            raw += more
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def peek(path: Path | str) -> dict[str, str]:
    """The values of a document's frontmatter as text, unchecked; none if it cannot be read."""
    values: dict[str, str] = {}
    with suppress(DocumentError):
        for line in head(path)[1:]:
            if line.startswith("---"):
                break
            name, _, value = line.partition(":")
            values.setdefault(name, value.strip().strip('"'))
    return values


def frontmatter_lines(meta: Meta) -> Iterator[str]:
    """The lines between the two `---`, without default values except those in `_ALWAYS_SHOWN`."""
    for name, allowed in _CHOICES.items():
        if getattr(meta, name) not in allowed:
            raise ValueError(f"no such {name}: {getattr(meta, name)!r}")
    for name, default in _FIELDS.items():
        value = getattr(meta, name)
        if name in _ALWAYS_SHOWN or value != default:
            yield _line(name, value)
    for name, value in meta.extra.items():
        if name in _FIELDS or not _KEY.fullmatch(name):
            raise ValueError(f"not a name for the frontmatter: {name!r}")
        yield _line(name, value)


def _line(name: str, value: Any) -> str:
    """A line of the frontmatter; nothing is written that `read_frontmatter` refuses."""
    read = list(value) if name == "rungs" else value
    if wrong := _wrong(name, read):
        raise ValueError(f"the frontmatter's {wrong}")
    return f"{name}: {to_json(value)}"


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
        if not colon or not _KEY.fullmatch(key):
            _fail(f"not understood: {line[:60]!r}; a line of the frontmatter is `key: JSON`", where, at)
        if key in found:
            _fail(f"{key} occurs twice, first in line {found[key] + 1}; keep one of them", where, at)
        found[key], values[key] = at, _value(value.strip(), where, at)
    return _meta(values, found, where), end + 1


def _fail(message: str, where: str, at: int) -> NoReturn:
    raise DocumentError(message, f"{where}:{at + 1}")


def _value(text: str, where: str, at: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if _WORD.fullmatch(text):
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
    """What is wrong with the value of a key; "" if nothing is."""
    if name == "format" and isinstance(value, int) and value > FORMAT:
        return f"{name} is {_short(value)}, and this Fractal reads up to {FORMAT}; install a newer one"
    if name in _FIELDS and name not in META and not _is_kind(name, value):
        return f"{name} cannot be {_short(value)}"
    if name in _CHOICES and value not in _CHOICES[name]:
        return f"{name} cannot be {_short(value)}; one of {', '.join(sorted(map(str, _CHOICES[name])))}"
    none = name == "waiting" and value is None
    return mismatch(value, META[name], name) if name in META and not none else ""


def _is_kind(name: str, value: Any) -> bool:
    if type(_FIELDS[name]) is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    return isinstance(value, type(_FIELDS[name]))


def _short(value: Any) -> str:
    return to_json(value)[:40]
