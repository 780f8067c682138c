"""Steps and criteria under other numbers: those of a stored plan, or of the document it goes into."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kernel.references import SHELL, changed, in_shell
from kernel.references import renumbered as with_numbers

_TRIMMED = re.compile(r"(\{\{\s*steps\[\d+\]\.result)\s*\|\s*trim(?=\s*\}\})")
_QUOTED = re.compile(r"\{\{\s*steps\[(\d+)\]\.result\s*\|\s*sh\s*\}\}")


def renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    """A value whose references to steps have other numbers."""
    return with_numbers(value, lambda _, n: numbers[n])


def placed(value: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    """A step or a criterion under other numbers, with the steps that it needs or is about."""
    made: dict[str, Any] = renumbered(value, numbers)
    if isinstance(made.get("run"), str):
        made["run"] = renumbered(in_shell(made["run"]), numbers)[SHELL]
    if isinstance(made.get("step"), int):
        made["step"] = numbers.get(made["step"], made["step"])
    if "needs" in made:
        made["needs"] = [numbers.get(n, n) for n in made["needs"]]
    return made


def without_filters(value: Any) -> Any:
    """What was stored when references had filters, in today's form."""

    def told(text: str, shell: bool) -> str:
        return _QUOTED.sub(r'"$RESULT_\1"', text) if shell else _TRIMMED.sub(r"\1", text)

    return changed(value, told)
