"""Checks answers exactly: numbers, fractions, percentages, units, tuples and the LaTeX of mathematics."""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 10_000
"""Characters of a text of which the end is read."""
MOST_SAID = 20
"""Conclusions of a text that are looked at, from its end."""
_SAID = re.compile(r"(?:answer|result)\*{0,9}\s*(?:is|are|=|:)\**:?\s*(?=\S)", re.I)
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[-+−]?)\s*[$€£]?\s*(?:(?P<whole>\d++)\s+(?=\d+\s*/\s*\d))?"
    rf"(?P<top>{_DIGITS})(?:\s*/\s*(?P<bottom>{_DIGITS}))?"
)
_FRACTION = re.compile(r"(?<!\d)(\d*+) ?\\[dt]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")
_PLAIN = (
    (re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:left|right|displaystyle|[,;:! ])|\\[()\[\]]|(?<!\\)\$|\^\{?\\circ\}?|°"), " "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\\$"), " "),
    (re.compile(r"\\([%{}])"), r"\1"),
    (re.compile(r"\*\*|`"), " "),
    (re.compile("²"), "^2"),
    (re.compile("³"), "^3"),
)
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


def is_right(text: str, expected: str) -> bool:
    """Whether what a text concludes is the expected answer.

    Numbers are compared exactly: 0.5 is 1/2, and 0.33 is not 1/3. A unit counts where both name one. A text
    that is no number is compared without blanks and case.
    """
    return _equal(_final(text, expected), _plain(expected))


def boxed(text: str) -> str | None:
    r"""What the last `\boxed{…}` of a text holds; None without one."""
    start = text.rfind(r"\boxed{")
    depth, begin = 0, start + len(r"\boxed{")
    for at in range(begin, len(text)) if start >= 0 else ():
        if text[at] == "}" and not depth:
            return text[begin:at]
        depth += {"{": 1, "}": -1}.get(text[at], 0)
    return None


def _final(text: str, expected: str) -> str:
    """The conclusion of a text: its last box, else what it calls its answer, else its last number."""
    text = text[-LONGEST:].strip()
    if (found := boxed(text)) is not None:
        return _plain(found)
    a_number = _value(_plain(expected)) is not None
    said = [text[hit.end() :].split("\n", 1)[0] for hit in [*_SAID.finditer(text)][-MOST_SAID:]]
    said = [each for each in said if not a_number or _NUMBER.search(each)]
    plain = _plain(said[-1] if said else text)
    if not a_number or _value(plain) is not None:
        return plain
    numbers = list(_NUMBER.finditer(plain))
    return plain[numbers[0 if said else -1].start() :] if numbers else plain


def _plain(text: str) -> str:
    """The text without the layout of LaTeX; fractions as a/b."""
    for pattern, by in _PLAIN:
        text = pattern.sub(by, text)
    text = " ".join(text.split()).replace(" ^", "^")
    text = _FRACTION.sub(lambda hit: f"{hit[1]} {hit[2] or hit[3] or ''}/{hit[4] or hit[5] or ''}", text)
    return re.sub(r"^[a-zA-Z]\s*=", "", " ".join(text.split()).rstrip(" .")).strip()


def _value(text: str) -> tuple[Fraction, str] | None:
    """The number and unit of a text that begins with a number; None for any other text."""
    hit = _NUMBER.match(text)
    rest = text[hit.end() :].strip() if hit else ""
    if not hit or not re.match(r"[a-zA-Z%.;,)]|$", rest) or _is_algebra(text[hit.end() :]):
        return None
    try:
        number = Fraction(hit["top"].replace(",", "")) / Fraction((hit["bottom"] or "1").replace(",", ""))
        number += int(hit["whole"] or 0)
    except (ZeroDivisionError, ValueError):
        return None
    unit = re.match(r"[a-zA-Z%]*(?:\^\d)?", rest)
    return -number if hit["sign"] in ("-", "−") else number, unit[0].lower().removesuffix("s") if unit else ""


def _is_algebra(rest: str) -> bool:
    """Whether a number goes on as a term, such as 12x."""
    return bool(re.match(r"[a-zA-Z](?![a-zA-Z])", rest))


def _equal(given: str, wanted: str) -> bool:
    mine, yours = _parts(given), _parts(wanted)
    if mine and yours:
        if mine[0] == yours[0] == "{":  # a set: in any order
            return _among(mine, yours) and _among(yours, mine)
        return len(mine) == len(yours) and all(map(_equal, mine, yours))
    one, other = _value(given), _value(wanted)
    if one and other:
        return one[0] == other[0] and (not one[1] or not other[1] or one[1] == other[1])
    return _letters(given) == _letters(wanted)


def _among(some: list[str], others: list[str]) -> bool:
    return all(any(_equal(one, other) for other in others) for one in some)


def _parts(text: str) -> list[str]:
    """The elements of a tuple, set or interval, with its brackets; none of anything else."""
    if len(text) < 2 or text[0] not in _BRACKETS or text[-1] not in ")]}" or "," not in text:
        return []
    return [text[0], *(part.strip() for part in text[1:-1].split(",")), text[-1]]


def _letters(text: str) -> str:
    return re.sub(r"\s", "", text).replace("{", "").replace("}", "").casefold()
