"""Of what kinds the values are that stand in META and in a step's evidence, so that a person's slip is told.

A shape is a type, `NUMBER`, a pattern of texts, a list with the shape of its items, or a mapping of names to
shapes, in which `...` stands for all names, `int` for all names, which have to be whole numbers; a name that
ends in `!` has to be there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, cast

from kernel.text import to_json

Shape = Any
NUMBER = int | float | None
MOST = 10**15
"""No amount in a document is as large; a larger one is a slip of the pen."""
AMOUNTS: Shape = {...: int | float}
NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,39}$")
"""Of an agent or a space, which is part of a path."""
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
    "undone": [{"step!": int | None, "before!": str, "after!": str, "at!": str}],
}
EVIDENCE: Shape = {
    "touched": [{"path!": str, "before!": str, "after!": str | None, "kept": str}],
    "needed": {int: str},
    "was": str,
    "tree_before": str,
    "tree_after": str,
    "spent": AMOUNTS,
    "drafts": {...: str},
    "drafted": [str],
    "whole": str,
    "unredacted": str,
    "state": {"at!": str, "calls!": int, "kept": {...: object}},
}


def misfit(value: Any, shape: Shape, name: str) -> str:
    """What is wrong with a value, with its place; "" when nothing is."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _wrong(value, name, "a list")
        found = (misfit(each, shape[0], f"{name}[{at}]") for at, each in enumerate(cast(list[Any], value)))
        return next(filter(None, found), "")
    if isinstance(shape, dict):
        return _misfit_within(value, cast(dict[Any, Shape], shape), name)
    if isinstance(shape, re.Pattern):
        fits = isinstance(value, str) and cast(re.Pattern[str], shape).fullmatch(value)
        return "" if fits else _wrong(value, name, "a name such as reviewer-2")
    if isinstance(value, bool) and shape in (int, int | float, NUMBER):
        return _wrong(value, name, "a number")
    if not isinstance(value, cast("type | UnionType", shape)):
        return _wrong(value, name, "a text" if shape is str else "a number")
    if shape is not object and isinstance(value, int | float) and not -MOST < value < MOST:
        return _wrong(value, name, f"a number below {MOST}")
    return ""


def _misfit_within(value: Any, shape: dict[Any, Shape], name: str) -> str:
    if not isinstance(value, dict):
        return _wrong(value, name, "an object")
    values = cast(dict[str, Any], value)
    if int in shape and (odd := [key for key in values if not key.isdecimal() or len(key) > 9]):
        return _wrong(odd[0], f"a name in {name}", "a whole number")
    for each, inner in shape.items():
        if not isinstance(each, str):
            wrongs = [misfit(value, inner, f"{name}.{key}") for key, value in values.items()]
            return next(filter(None, wrongs), "")
        key = each.removesuffix("!")
        if key in values and (wrong := misfit(values[key], inner, f"{name}.{key}")):
            return wrong
        if key not in values and key != each:
            return f"{name} has no {key}"
    return ""


def _wrong(value: Any, name: str, right: str) -> str:
    return f"{name} cannot be {to_json(value)[:40]}; {right} is needed"
