"""What is kept of a command's output as evidence."""

from __future__ import annotations

import re

from kernel.document.texts import cut

PASSED_TAIL, FAILED_TAIL = 250, 2_500
"""Characters of a command's output that are kept, mostly its tail."""
_COUNTS = re.compile(
    r"(?m)^.*\b\d+ (?:passed|passing|failed|failing|failures?|errors?)\b.*$|^Ran \d+ tests? in .*$"
    r"|^[#ℹ] (?:pass|fail) \d+$|^(?:ok|FAIL)[ \t]+\S+[ \t]+[\d.]+s$"
)
"""The line of a test run that says how many tests did what, or that those of a package pass."""
COUNTED = 8
"""Most of such lines that are shown, of several runs."""


def outcome(text: str, *, passed: bool) -> str:
    """What is kept of what a command printed, mostly its tail.

    Of a long test run the lines that count are shown, wherever they stand; of one that passed, only these.
    """
    limit = PASSED_TAIL if passed else FAILED_TAIL
    if len(text) <= limit:
        return text
    counted = "\n".join(_COUNTS.findall(text)[-COUNTED:])[: limit // 2]
    if counted and passed:
        return f"[…]\n{counted}"
    shown = cut(text, limit - len(counted) - 1, "", head=0.2)
    return shown if counted in shown else f"{counted}\n{shown}"
