"""Steps and criteria under other numbers: those of a stored plan, or of the document it goes into."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_NUMBERED = re.compile(r"steps\[(\d+)\]")


def references(value: Any) -> set[int]:
    """The numbers of the steps that a value refers to."""
    return {int(n) for n in _NUMBERED.findall(json.dumps(value, ensure_ascii=False))}


def renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    """A value whose references to steps have other numbers."""
    if isinstance(value, str):
        return _NUMBERED.sub(lambda hit: f"steps[{numbers[int(hit[1])]}]", value)
    if isinstance(value, Mapping):
        return {key: renumbered(each, numbers) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [renumbered(each, numbers) for each in value]
    return value


def placed(value: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    """A step or a criterion under other numbers, with the steps that it needs or is about."""
    made: dict[str, Any] = renumbered(value, numbers)
    if isinstance(made.get("step"), int):
        made["step"] = numbers.get(made["step"], made["step"])
    if "needs" in made:
        made["needs"] = [numbers.get(n, n) for n in made["needs"]]
    return made
