"""Filters over the fields of records, in Python and, for texts, in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SEVERAL = (list, tuple, set, frozenset)


@dataclass(frozen=True)
class Between:
    """A filter for numbers or texts from `least` to `most`, both included; None is no bound."""

    least: Any = None
    most: Any = None


Where = Mapping[str, Any]
"""Field paths with dots, and what each must be: a value, one of a list, tuple or set, or `Between`."""


def suits(body: str, where: Where) -> bool:
    """Whether the fields of a JSON body match; a missing field is None."""
    fields = json.loads(body)
    return all(_is(_at(fields, path), wanted) for path, wanted in where.items())


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Between):
        return _within(value, wanted)
    if isinstance(wanted, _SEVERAL):
        return any(_is(value, each) for each in wanted)
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _within(value: Any, bounds: Between) -> bool:
    given = [bound for bound in (bounds.least, bounds.most) if bound is not None]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value is not None and not given
    if any(isinstance(value, str) != isinstance(bound, str) for bound in given):
        return False
    return (bounds.least is None or value >= bounds.least) and (bounds.most is None or value <= bounds.most)


def in_sql(where: Where) -> tuple[list[str], list[Any]]:
    """SQL clauses for the texts of a filter, and their values; the rest is left to Python."""
    texts = {
        path: wanted
        for path, wanted in where.items()
        if isinstance(wanted, str) and wanted.isprintable() and re.fullmatch(r"[A-Za-z0-9_.]+", path)
    }
    places = (".".join(f'"{name}"' for name in path.split(".")) for path in texts)
    return [f"json_extract(body, '$.{place}') IS ?" for place in places], list(texts.values())
