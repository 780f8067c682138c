"""What a terminal shows of a text: no colours, a progress bar at its end, visible control characters."""

from __future__ import annotations

import re

_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
}
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
"""What tells a terminal to colour text, to move the cursor, or to name its window."""
_LONE_RETURN = re.compile(r"\r(?!\n)")


def printed(text: str) -> str:
    """What a terminal shows of a program's output in the end: no colours, of a progress bar its last state.

    A carriage return before a line feed is kept.
    """
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return "\n".join(map(_last_state, text.split("\n"))) if "\r" in text else text


def _last_state(line: str) -> str:
    """The text that was written last over a line."""
    kept = line.rstrip("\r")
    return kept.rpartition("\r")[2] + line[len(kept) : len(kept) + 1]


def neutralise(text: str) -> str:
    """The text with control characters made visible: ESC becomes `␛`.

    Tab, line feed, and a carriage return before a line feed are kept.
    """
    shown = text if text.isprintable() else text.translate(_CONTROLS)
    return _LONE_RETURN.sub("\u240d", shown) if "\r" in shown else shown
