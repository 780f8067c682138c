"""What steps come to, for telling whether two procedures do the same: calculations by their values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_REFERENCE = re.compile(r"\{\{\s*steps\[(\d+)\]\.result\s*\}\}")

Steps = Sequence[Mapping[str, Any]]


def outcome(steps: Steps) -> str:
    """The last value where all that is done is to calculate; else the steps themselves."""
    values = calculated(steps)
    return repr(list(steps)) if values is None else f"= {values[-1]}"


def calculated(steps: Steps) -> list[str] | None:
    """The result of each step as the operation `calc` tells it; None where it is not known beforehand."""
    from runtime.operations import figures
    from runtime.operations.calculator import Calculator

    results: list[str] = []
    for step in steps:
        args = step.get("args")
        if step.get("tool") != "calc" or not isinstance(args, Mapping) or set(args) != {"expression"}:
            return None
        try:
            filled = _REFERENCE.sub(lambda hit: results[int(hit[1]) - 1], str(args["expression"]))
            value, target = Calculator(filled).whole()
        except Exception:
            return None
        if target or value.unit is not None:
            return None
        results.append(figures.shown(value.number, value.exact))
    return results or None
