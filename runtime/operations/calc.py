"""The operation calc: reads an expression as people write it and computes it exactly.

Nothing is evaluated as code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime.operations import quantities
from runtime.operations.quantities import Value
from runtime.sandbox.context import OperationContext, operation

LONGEST = 2_000
_DEEPEST = 100
_CONVERSIONS = ("to", "in", "as", "into", "->", "→")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d[\d_]*(?:\.\d+|\.(?!\d))?|\.\d+)(?:[eE][-+]?\d+(?![\w.]))?)…?"
    r"|(?P<name>[°]?[A-Za-zµμΩÅ_]+\d*|°|%)"
    r"|(?P<sign>\*\*|//|->|→|[-+*/^!(),×·÷−²³$€£¥]))"
)
_THOUSANDS = re.compile(r"\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?![\d,])")
_SAME = {"**": "^", "×": "*", "·": "*", "÷": "/", "−": "-"}


@dataclass(frozen=True)
class Token:
    """A token of the expression: `kind` is number, name, sign or end."""

    kind: str
    text: str
    start: int = 0
    end: int = 0


def tokens(text: str) -> list[Token]:
    """The tokens in order. A comma groups thousands, except between arguments of a function."""
    found: list[Token] = []
    calls: list[bool] = []  # of each open bracket, whether it holds the arguments of a function
    at = 0
    while text[at:].strip():
        hit = None if calls and calls[-1] else _THOUSANDS.match(text, at)
        if hit:
            found.append(Token("number", hit[1].replace(",", ""), hit.start(1), hit.end()))
        elif hit := _TOKEN.match(text, at):
            kind = str(hit.lastgroup)
            word = _SAME.get(hit[kind], hit[kind])
            if word == "(":
                calls.append(bool(found) and found[-1].text in quantities.FUNCTIONS)
            elif word == ")" and calls:
                calls.pop()
            if word not in "$€£¥":  # money is calculated as a number
                found.append(Token("sign" if word == "%" else kind, word, hit.start(kind), hit.end()))
        else:
            where = text[at:].lstrip()[:20]
            raise OperationFailed(
                f"cannot read {where!r}; write such as (3 + 4) * 2, 15% of 80, 5 km to miles"
            )
        at = hit.end()
    return [*found, Token("end", "the end", len(text), len(text))]


class Calculator:
    """Computes one expression. Signs bind more tightly than * and less than powers; % and ! bind first."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise OperationFailed(f"the expression is longer than {LONGEST:,} characters")
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> tuple[Value, str]:
        """The value of the whole text, and the text of the unit it is to be converted to ("" without)."""
        if self._next.kind == "end":
            raise OperationFailed("the expression is empty")
        value = self._expression()
        target = ""
        if self._next.text in _CONVERSIONS:
            target = self._text[self._next.end :].strip()
            if not target:
                raise OperationFailed(f"{self._next.text} what? Name the unit")
        elif self._next.kind != "end":
            raise self._unexpected()
        return value, target

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _ahead(self, by: int) -> Token:
        return self._tokens[min(self._at + by, len(self._tokens) - 1)]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _takes(self, *texts: str) -> bool:
        """Whether the next token is one of these; it is then passed."""
        if self._next.kind != "end" and self._next.text in texts:
            self._at += 1
            return True
        return False

    def _unexpected(self) -> OperationFailed:
        token = self._next
        if token.text == ",":
            return OperationFailed("a comma groups thousands (1,234) or stands between arguments; write 3.5")
        where = "at the end" if token.kind == "end" else f"at {token.text!r} (character {token.start + 1})"
        return OperationFailed(
            f"the expression cannot be read {where}; write such as (3 + 4) * 2 or 15% of 80"
        )

    def _deeper(self, least: int = 0) -> Value:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise OperationFailed(f"more than {_DEEPEST} brackets, signs or powers in one another")
        value = self._expression(least)
        self._depth -= 1
        return value

    def _expression(self, least: int = 0) -> Value:
        """A value and the operators after it that bind more tightly than `least` (precedence climbing)."""
        if self._next.text in ("+", "-"):
            sign = -1 if self._take().text == "-" else 1
            value = self._deeper(_SIGN)
            value = replace(value, number=sign * value.number)
        else:
            value = self._suffixed(self._quantity())
        while True:
            binds, act = _OPERATORS.get(self._next.text, (0, quantities.add))
            implied = self._next.text == "(" or self._next.text.lower() in _CONSTANTS  # 2 (3 + 4), 2 pi
            if implied:
                binds, act = _OPERATORS["*"]
            if binds <= least:
                return value
            self._at += not implied
            value = act(value, self._deeper(_SIGN if act is quantities.power else binds))

    def _suffixed(self, value: Value) -> Value:
        while True:
            if self._takes("!"):
                value = quantities.call("factorial", [value])
            elif self._next.text in _SQUARED:
                value = quantities.power(value, _SQUARED[self._take().text])
            elif self._percentage():
                self._take()
                value = Value(value.plain("%") / 100, value.exact, percent=True)
            else:
                return value

    def _percentage(self) -> bool:
        """Whether a % (or the word) follows that is a percentage and no remainder: 15% of 80, but 10 % 3."""
        if self._next.text == "percent":
            return True
        after = self._ahead(1)
        operand = after.kind == "number" or after.text == "("
        word = after.kind == "name" and after.text not in (*_CONVERSIONS, "of", "per", "mod")
        return self._next.text == "%" and not operand and not word

    def _quantity(self) -> Value:
        """A number with the unit that follows it, and those that are written beside it: 5 ft 3 in."""
        if self._next.kind != "number":
            return self._atom()
        value = Value(self._number())
        if not self._unit_follows():
            return value
        total = replace(value, unit=self._unit().unit)
        while self._next.kind == "number":
            part = Value(self._number())
            if not self._unit_follows():
                raise self._unexpected()
            total = quantities.add(total, replace(part, unit=self._unit().unit))
        return total

    def _number(self) -> Fraction:
        first, sign, second, after = (self._ahead(n) for n in range(4))
        number = _fraction(self._take().text)
        beside = first.end == sign.start and sign.end == second.start
        # 1/2 hour is half an hour, 1 / 2 hour is not
        if sign.text == "/" and second.kind == "number" and beside and after.kind == "name":
            over = _fraction(second.text)
            if over and after.text not in (*_CONVERSIONS, "of", "per", "mod", "percent"):
                self._at += 2
                return number / over
        return number

    def _unit_follows(self) -> bool:
        name, after = self._next, self._ahead(1)
        if name.kind != "name" or name.text in ("of", "per", "mod", "percent", "to", "as", "into"):
            return False
        if name.text == "in":  # inches, unless something to convert to follows
            return after.kind != "name" or after.text in _CONVERSIONS
        called = name.text in quantities.FUNCTIONS and after.text == "("  # min is a minute as well
        return not called and name.text.lower() not in _CONSTANTS

    def _unit(self) -> Value:
        """A unit with the power that is written at it."""
        value = Value(Fraction(1), unit=quantities.parse_unit(self._take().text))
        if self._takes("^"):
            return quantities.power(value, self._deeper(_SIGN))
        if self._next.text in _SQUARED:
            return quantities.power(value, _SQUARED[self._take().text])
        return value

    def _atom(self) -> Value:
        if self._takes("("):
            value = self._deeper()
            if not self._takes(")"):
                raise self._unexpected()
            return value
        if self._next.kind != "name" or self._next.text in ("of", "per", "mod"):
            raise self._unexpected()
        name = self._next.text
        if self._ahead(1).text == "(":
            self._at += 2
            return quantities.call(name.lower(), self._arguments())
        if constant := _CONSTANTS.get(name.lower()):
            self._take()
            return constant
        return self._unit()

    def _arguments(self) -> list[Value]:
        args = [self._deeper()]
        while self._takes(","):
            args.append(self._deeper())
        if not self._takes(")"):
            raise self._unexpected()
        return args


_SIGN = 3
"""How tightly a sign binds: -2^2 is -4, and -2 * 3 has a negative factor."""
_OPERATORS: Mapping[str, tuple[int, Callable[[Value, Value], Value]]] = {
    "+": (1, quantities.add),
    "-": (1, quantities.subtract),
    **dict.fromkeys(("*", "of"), (2, quantities.multiply)),
    **dict.fromkeys(("/", "per"), (2, quantities.divide)),
    "//": (2, quantities.divide_whole),
    **dict.fromkeys(("%", "mod"), (2, quantities.remainder)),
    "^": (4, quantities.power),
}
"""How tightly an operator binds, and its function."""
_SQUARED = {"²": Value(Fraction(2)), "³": Value(Fraction(3))}
_CONSTANTS = {
    **dict.fromkeys(("pi", "π"), Value(Fraction(math.pi), False)),
    "tau": Value(Fraction(math.tau), False),
    "e": Value(Fraction(math.e), False),
    "half": Value(Fraction(1, 2)),
    "quarter": Value(Fraction(1, 4)),
    "third": Value(Fraction(1, 3)),
}


def _fraction(text: str) -> Fraction:
    mantissa, _, exponent = text.lower().replace("_", "").partition("e")
    if len(mantissa) > 1_000 or abs(int(exponent or 0)) > 4_000:
        raise OperationFailed(f"{text[:20]}: a number with more than 4,000 digits")
    return Fraction(mantissa.rstrip(".")) * Fraction(10) ** int(exponent or 0)


_PREFACE = re.compile(r"(?i)^(?:what\s+is|what's|calculate|compute|convert|how\s+much\s+is)\s+")
_PLACES = re.compile(r"(\d{1,2})\s*(?:decimals?|decimal places?|places?)", re.IGNORECASE)
_MOST_EXACT_BITS = 400
"""Fractions above are not shown in the evidence; the result is."""


@operation()
def calc(ctx: OperationContext, expression: str, to: str = "") -> Result:
    """The value of an expression; `to` names a unit, `%`, or places ("2 decimals")."""
    text = _PREFACE.sub("", expression.strip()).rstrip("?= ")
    value, target = Calculator(text).whole()
    if to.strip() and target and to.strip() != target:
        raise OperationFailed(f"the expression asks for {target} and the argument `to` for {to}; give one")
    return _result(*_converted(value, target or to.strip()))


def _converted(value: Value, target: str) -> tuple[Value, str]:
    """The value in the unit or to the places of `target`, and the text after its number."""
    if not target:
        return value, ""
    if hit := _PLACES.fullmatch(target):
        return Value(quantities.to_places(value.number, int(hit[1])), True, value.unit), ""
    if target.lower() in ("%", "percent"):
        return Value(value.plain("%") * 100, value.exact), "%"
    unit_value, rest = Calculator(target).whole()
    if rest or unit_value.unit is None or unit_value.number != Fraction(1):
        raise OperationFailed(f"{target}: not a unit; write such as km/h")
    return quantities.convert(value, unit_value.unit), ""


def _result(value: Value, suffix: str) -> Result:
    text = quantities.shown(value.number, value.exact)
    evidence: dict[str, Any] = {"rounded": not value.exact or Fraction(text) != value.number}
    bits = max(value.number.numerator.bit_length(), value.number.denominator.bit_length())
    if value.exact and bits <= _MOST_EXACT_BITS:
        evidence["exact"] = str(value.number)
    if value.unit is not None:
        suffix = f" {quantities.unit_name(value.unit, plural=value.number != 1)}"
        evidence |= {"value": text, "unit": suffix.strip()}
    return Result(f"{text}{suffix}", evidence=evidence)
