"""Conditions on the rows of a table: `amount > 10 and (region = north or note contains "x")`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.errors import OperationFailed
from runtime.operations import figures

Row = Sequence[str]
Test = Callable[[Row], bool]
_DEEPEST = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>\"[^\"]*\"|'[^']*'|`[^`]*`)|(?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,)|(?P<word>[^\s()<>=!,\"'`]+|!))"
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("is", "not", "empty"), "not empty"),
    (("is", "empty"), "empty"),
    (("does", "not", "contain"), "not contains"),
    (("not", "contains"), "not contains"),
    (("not", "in"), "not in"),
    (("contains",), "contains"),
    (("starts", "with"), "starts"),
    (("ends", "with"), "ends"),
    (("is", "not"), "!="),
    (("is",), "="),
    (("in",), "in"),
)


def condition(column: Callable[[str], int], header: Sequence[str], text: str) -> Test:
    """A test for rows; raises when the text cannot be read or names a column that is not there."""
    return _Reader(column, header, text).whole()


class _Reader:
    """Reads `and` before `or`; brackets group; a column of several words is found in the header."""

    def __init__(self, column: Callable[[str], int], header: Sequence[str], text: str) -> None:
        self._column, self._text = column, text
        self._columns = sorted((each.casefold().split() for each in header), key=len, reverse=True)
        self._tokens: list[tuple[str, str]] = []
        self._at = self._depth = 0
        at = 0
        while text[at:].strip():
            hit = _TOKEN.match(text, at)
            if hit is None:
                raise OperationFailed(f"where: cannot read {text[at:].strip()[:30]!r}")
            self._tokens.append((str(hit.lastgroup), hit[str(hit.lastgroup)]))
            at = hit.end()

    def whole(self) -> Test:
        test = self._any()
        if self._at < len(self._tokens):
            raise self._stuck()
        return test

    def _word(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return (
            self._tokens[at][1].casefold()
            if at < len(self._tokens) and self._tokens[at][0] != "quoted"
            else ""
        )

    def _stuck(self) -> OperationFailed:
        rest = " ".join(text for _, text in self._tokens[self._at :])[:60]
        return OperationFailed(
            f"where: cannot read {rest or 'the end'!r} in {self._text[:100]!r}; "
            'write such as amount > 10 and name contains "x"'
        )

    def _any(self) -> Test:
        tests = [self._all()]
        while self._word() == "or":
            self._at += 1
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda row: any(test(row) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._word() == "and":
            self._at += 1
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)

    def _one(self) -> Test:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise OperationFailed(f"where: more than {_DEEPEST} brackets in one another")
        try:
            if self._word() == "not":
                self._at += 1
                inner = self._one()
                return lambda row: not inner(row)
            if self._word() == "(":
                self._at += 1
                inner = self._any()
                if self._word() != ")":
                    raise self._stuck()
                self._at += 1
                return inner
        finally:
            self._depth -= 1
        return self._comparison()

    def _comparison(self) -> Test:
        at = self._named()
        sign = self._sign()
        if sign in ("empty", "not empty"):
            return lambda row: (not row[at].strip()) == (sign == "empty")
        if sign in ("in", "not in"):
            values = self._list()
            alike = [_test("=", value) for value in values]
            return lambda row: any(test(row[at]) for test in alike) == (sign == "in")
        test = _test(sign, self._value())
        return lambda row: test(row[at])

    def _named(self) -> int:
        """The longest name of a column that stands here, quoted or not."""
        if self._at >= len(self._tokens):
            raise self._stuck()
        kind, text = self._tokens[self._at]
        if kind != "quoted":
            for words in self._columns:
                if words and [self._word(n) for n in range(len(words))] == words:
                    self._at += len(words)
                    return self._column(" ".join(words))
        self._at += 1
        return self._column(text)

    def _sign(self) -> str:
        if self._word() in _COMPARISONS:
            self._at += 1
            return self._tokens[self._at - 1][1]
        for words, sign in _WORDS:
            if tuple(self._word(n) for n in range(len(words))) == words:
                self._at += len(words)
                return sign
        raise self._stuck()

    def _value(self) -> str:
        """A quoted text, or the words up to what goes on: and, or, a bracket."""
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "quoted":
            self._at += 1
            return self._tokens[self._at - 1][1][1:-1]
        words: list[str] = []
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "word":
            if self._word() in ("and", "or"):
                break
            words.append(self._tokens[self._at][1])
            self._at += 1
            if self._word() == "," and self._joins_thousands(words[-1]):
                words[-1] += f",{self._tokens[self._at + 1][1]}"
                self._at += 2
        if not words:
            raise self._stuck()
        return " ".join(words)

    def _joins_thousands(self, word: str) -> bool:
        after = self._word(1)
        return word.lstrip("-").isdigit() and bool(re.fullmatch(r"\d{3}(?:\.\d+)?", after))

    def _list(self) -> list[str]:
        if self._word() != "(":
            raise self._stuck()
        self._at += 1
        values = [self._value()]
        while self._word() == ",":
            self._at += 1
            values.append(self._value())
        if self._word() != ")":
            raise self._stuck()
        self._at += 1
        return values


def _test(sign: str, value: str) -> Callable[[str], bool]:
    """A test of one cell: numbers are compared as numbers, all else as words without regard to case."""
    wanted = value.strip().casefold()
    if sign in _COMPARISONS:
        return _comparison(_COMPARISONS[sign], sign, figures.number(value), wanted)
    parts: Mapping[str, Callable[[str], bool]] = {
        "contains": lambda cell: wanted in cell.casefold(),
        "not contains": lambda cell: wanted not in cell.casefold(),
        "starts": lambda cell: cell.strip().casefold().startswith(wanted),
        "ends": lambda cell: cell.strip().casefold().endswith(wanted),
    }
    return parts[sign]


def _comparison(
    compare: Callable[[Any, Any], bool], sign: str, number: Any, wanted: str
) -> Callable[[str], bool]:
    ordered = sign in ("<", "<=", ">", ">=")

    def test(cell: str) -> bool:
        if number is not None and (value := figures.number(cell)) is not None:
            return compare(value, number)
        if number is not None and ordered:
            return False  # a word is neither above nor below a number
        word = cell.strip().casefold()
        return False if ordered and not word else compare(word, wanted)

    return test
