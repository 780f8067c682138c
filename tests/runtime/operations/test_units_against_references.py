"""Units and arithmetic: exact factors written here, and Python's fractions."""

from __future__ import annotations

import random
from fractions import Fraction as F
from pathlib import Path
from typing import Any

from references import COUNT, cases, outcome

from runtime.operations.calc import calc

INCH, POUND, GALLON = F("0.0254"), F("0.45359237"), F("3.785411784")
FACTORS: dict[str, dict[str, F]] = {
    "length": {
        "m": F(1),
        "km": F(1000),
        "cm": F(1, 100),
        "mm": F(1, 1000),
        "inch": INCH,
        "feet": 12 * INCH,
        "yards": 36 * INCH,
        "miles": 63360 * INCH,
        "nautical_mile": F(1852),
    },
    "mass": {
        "kg": F(1),
        "g": F(1, 1000),
        "mg": F(1, 10**6),
        "tonne": F(1000),
        "pounds": POUND,
        "ounces": POUND / 16,
        "stone": 14 * POUND,
    },
    "volume": {
        "l": F(1),
        "ml": F(1, 1000),
        "m^3": F(1000),
        "gallons": GALLON,
        "quarts": GALLON / 4,
        "pints": GALLON / 8,
        "cups": GALLON / 16,
        "tablespoons": GALLON / 256,
        "teaspoons": GALLON / 768,
    },
    "time": {
        "seconds": F(1),
        "minutes": F(60),
        "hours": F(3600),
        "days": F(86400),
        "weeks": F(604800),
    },
    "speed": {
        "m/s": F(1),
        "km/h": F(1000, 3600),
        "km/hour": F(1000, 3600),
        "mile/hour": F(63360) * INCH / 3600,
        "knots": F(1852, 3600),
    },
    "area": {
        "m^2": F(1),
        "km^2": F(10**6),
        "hectare": F(10**4),
        "foot^2": (12 * INCH) ** 2,
        "mile^2": (63360 * INCH) ** 2,
    },
    "energy": {
        "joule": F(1),
        "kJ": F(1000),
        "calorie": F("4.184"),
        "kcal": F(4184),
        "kWh": F(3_600_000),
    },
    "power": {"watt": F(1), "kW": F(1000), "MW": F(10**6)},
    "pressure": {"pascal": F(1), "bar": F(10**5), "kPa": F(1000), "atm": F(101325)},
    "data": {
        "byte": F(8),
        "bit": F(1),
        "kB": F(8000),
        "MB": F(8 * 10**6),
        "GB": F(8 * 10**9),
        "TB": F(8 * 10**12),
        "KiB": F(8 * 1024),
        "MiB": F(8 * 1024**2),
        "GiB": F(8 * 1024**3),
    },
}


def amount(r: random.Random) -> tuple[str, F]:
    text = r.choice(
        (str(r.randint(0, 10**6)), f"{r.randint(0, 9999) / 100:.2f}", f"{r.randint(1000, 10**7):,}")
    )
    return text, F(text.replace(",", ""))


def near(answer: str | None, value: F) -> bool:
    try:
        return answer is not None and abs(F(answer.split(" ")[0]) - value) <= abs(value) * F(1, 10**11)
    except ValueError:
        return False


def test_quantities_are_converted_by_the_exact_factors(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        units = FACTORS[r.choice(list(FACTORS))]
        one, other, third = (r.choice(list(units)) for _ in range(3))
        text, value = amount(r)
        more, further = amount(r)
        expression, expected = r.choice(
            (
                (f"{text} {one} to {other}", value * units[one] / units[other]),
                (f"what is {text} {one} in {other}?", value * units[one] / units[other]),
                (
                    f"{text} {one} + {more} {third} in {other}",
                    (value * units[one] + further * units[third]) / units[other],
                ),
                (f"3 * {text} {one} to {other}", 3 * value * units[one] / units[other]),
            )
        )
        answer = outcome(calc, tmp_path, expression=expression)
        if not near(answer, expected):
            wrong.append((seed, expression, answer, float(expected)))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


def test_temperatures_are_converted_by_their_zero(tmp_path: Path):
    to_kelvin = {
        "C": lambda x: x + F("273.15"),
        "F": lambda x: (x + F("459.67")) * F(5, 9),
        "kelvin": lambda x: x,
    }
    from_kelvin = {
        "C": lambda x: x - F("273.15"),
        "F": lambda x: x * F(9, 5) - F("459.67"),
        "kelvin": lambda x: x,
    }
    wrong: list[Any] = []
    for seed, r in cases():
        one, other = r.choice(list(to_kelvin)), r.choice(list(to_kelvin))
        value = F(r.randint(-2000, 5000), 10)
        expression = f"{float(value)} {one} to {other}"
        expected = from_kelvin[other](to_kelvin[one](value))
        answer = outcome(calc, tmp_path, expression=expression)
        found = F(answer.split(" ")[0]) if answer else None
        if found is None or abs(found - expected) > F(1, 10**8):
            wrong.append((seed, expression, answer, float(expected)))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


def test_units_that_do_not_fit_are_declined(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        first, second = r.sample([kind for kind in FACTORS if kind not in ("energy", "data")], 2)
        one, other = r.choice(list(FACTORS[first])), r.choice(list(FACTORS[second]))
        expression = r.choice((f"{amount(r)[0]} {one} to {other}", f"1 {one} + 1 {other}", f"1 {one} + 1"))
        if (answer := outcome(calc, tmp_path, expression=expression)) is not None:
            wrong.append((seed, expression, answer))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


def arithmetic(r: random.Random, depth: int = 0) -> tuple[str, F, int]:
    """An expression as people write it, its value, and how tightly its last operation binds."""
    if depth > 3 or r.random() < 0.3:
        text, value = amount(r)
        return text, value, 3
    sign, binds = r.choice((("+", 1), ("-", 1), ("*", 2), ("/", 2), ("^", 4)))
    left, a, tight = arithmetic(r, depth + 1)
    if sign == "^":
        n = r.randint(0, 3)
        return f"({left})^{n}", a**n, 3
    right, b, close = arithmetic(r, depth + 1)
    if sign == "/" and not b:
        sign = "*"
    left = left if tight >= binds else f"({left})"
    right = right if close > binds else f"({right})"
    value = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[sign]()
    gap = r.choice(("", " "))
    return f"{left}{gap}{sign}{gap}{right}", value, binds


def test_arithmetic_is_that_of_fractions(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        expression, value, _ = arithmetic(r)
        part, whole = r.randint(1, 200), r.randint(1, 5000)
        expression, value = r.choice(
            (
                (expression, value),
                (expression, value),
                (f"{part}% of {whole}", F(part * whole, 100)),
                (f"{whole} + {part}%", F(whole * (100 + part), 100)),
                (f"{whole} - {part}%", F(whole * (100 - part), 100)),
                (f"{whole} mod {part}", F(whole % part)),
                (f"round({whole}.5)", F(whole + 1)),
            )
        )
        answer = outcome(calc, tmp_path, expression=expression)
        if not near(answer, value):
            wrong.append((seed, expression, answer, float(value)))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"
