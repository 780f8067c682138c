"""csv: random tables and questions, answered as Python's csv, fractions and sqlite3 answer them."""

from __future__ import annotations

import csv as csvlib
import io
import random
import sqlite3
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from references import COUNT, cases, outcome

from runtime.operations.tables import query_csv

PLAIN_NAMES = (
    "amount",
    "region",
    "the note",
    "Ünit",
    "order",
    "year",
    "price (usd)",
    "count",
    "by",
    "Where it is",
)
ODD_NAMES = ("a,b", "x;y", 'say "hi"', "it's", "line\nbreak", "", "amount", "AMOUNT", "p|q")
WORDS = (
    "north",
    "North",
    "süd",
    "New York",
    "a, b",
    "x;y",
    'say "hi"',
    "it's",
    "two\nlines",
    "Ångström",
    "n/a",
    "zz top",
    "or",
    "by me",
)
Cell = tuple[str, Fraction | None]  # as it is written, and the number that it is


def _int(r: random.Random) -> Cell:
    n = r.randint(-30, 30) * r.choice((1, 1, 1, 1000, 10**12))
    return (f"{n:,}" if r.random() < 0.2 else str(n)), Fraction(n)


def _decimal(r: random.Random) -> Cell:
    n, places = r.randint(-(10**6), 10**6), r.randint(1, 4)
    text = f"{n / 10**places:.{places}f}"
    return text, Fraction(text)


def _money(r: random.Random) -> Cell:
    n = r.randint(0, 5000)
    return f"${n / 100:.2f}", Fraction(n, 100)


def _word(r: random.Random) -> Cell:
    return r.choice(WORDS), None


def _date(r: random.Random) -> Cell:
    return f"20{r.randint(10, 30)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}", None


def _mixed(r: random.Random) -> Cell:
    return r.choice((_int, _word))(r)


KINDS = (_int, _decimal, _money, _word, _word, _date, _mixed)


@dataclass
class Made:
    names: list[str]
    kinds: list[Callable[..., Cell]]
    rows: list[list[Cell]]
    delimiter: str
    text: str

    @property
    def clear(self) -> bool:
        """Whether every question that makes sense must be answered."""
        lows = [name.casefold() for name in self.names]
        if len(self.names) == 1 and self.delimiter != ",":
            return False  # nothing shows the delimiter
        tame = all(name in PLAIN_NAMES for name in self.names) and len(set(lows)) == len(lows)
        return tame and (
            self.delimiter != ";" or not any("," in cell[0] for row in self.rows for cell in row)
        )

    def numeric(self, at: int) -> bool:
        found = [row[at] for row in self.rows if row[at][0].strip()]
        marks = {"$" in cell[0] for cell in found}
        grouped = self.delimiter == ";" and len(self.names) > 1 and any("," in cell[0] for cell in found)
        return bool(found) and all(cell[1] is not None for cell in found) and len(marks) == 1 and not grouped


def table(r: random.Random) -> Made:
    width = r.randint(1, 4)
    names = [r.choice(PLAIN_NAMES if r.random() < 0.9 else ODD_NAMES) for _ in range(width)]
    kinds = [r.choice(KINDS) for _ in range(width)]
    rows = [
        [("" if r.random() < 0.15 else " ", None) if r.random() < 0.15 else kind(r) for kind in kinds]
        for _ in range(r.randint(0, 8))
    ]
    rows = [[cell if cell[0].strip() or width > 1 else ("", None) for cell in row] for row in rows]
    delimiter = r.choice(",,,;\t|")
    out = io.StringIO()
    writer = csvlib.writer(
        out,
        delimiter=delimiter,
        lineterminator=r.choice(("\n", "\r\n")),
        quoting=r.choice((csvlib.QUOTE_MINIMAL, csvlib.QUOTE_ALL)),
    )
    writer.writerow(names)
    writer.writerows([cell[0] for cell in row] for row in rows)
    return Made(names, kinds, rows, delimiter, ("\ufeff" if r.random() < 0.1 else "") + out.getvalue())


def quoted(r: random.Random, text: str) -> str:
    """A name or value as it stands in a question: as it is, in capitals or quoted."""
    plain = text.replace(".", "").replace("-", "").replace("ü", "u").isalnum() and text.lower() not in (
        "or",
        "by",
        "order",
        "count",
    )
    if plain and r.random() < 0.6:
        return text if r.random() < 0.8 else text.upper()
    mark = r.choice("\"'`")
    return mark + text.replace(mark, mark * 2) + mark


@dataclass
class Asked:
    query: str
    expected: str
    sensible: bool = True


Test = Callable[[list[Cell]], bool]


def condition(r: random.Random, made: Made, depth: int = 0) -> tuple[str, Test, bool]:
    """A condition in words, as a function, and whether it makes sense for the kinds of its columns."""
    if depth < 2 and r.random() < 0.3:
        left, one, fine = condition(r, made, depth + 1)
        right, two, good = condition(r, made, depth + 1)
        if r.random() < 0.5:
            return f"({left} and {right})", lambda row: one(row) and two(row), fine and good
        return f"({left} or {right})", lambda row: one(row) or two(row), fine and good
    if depth < 2 and r.random() < 0.15:
        inner, test, fine = condition(r, made, depth + 1)
        return f"not ({inner})", lambda row: not test(row), fine
    at = r.randrange(len(made.names))
    name, numeric = quoted(r, made.names[at]), made.numeric(at)
    have = [row[at] for row in made.rows if row[at][0].strip()]
    if r.random() < 0.15:
        return (
            (f"{name} is empty", lambda row: not row[at][0].strip(), True)
            if r.random() < 0.5
            else (f"{name} is not empty", lambda row: bool(row[at][0].strip()), True)
        )
    value = r.choice(have) if have and r.random() < 0.8 else made.kinds[at](r)
    low = value[0].casefold()
    if not numeric and r.random() < 0.3:
        part = low[: r.randint(1, 3)].strip() or "x"
        sign, test = r.choice(
            (
                ("contains", lambda cell: part in cell),
                ("starts with", lambda cell: cell.startswith(part)),
                ("does not contain", lambda cell: part not in cell),
            )
        )
        return f"{name} {sign} {quoted(r, part)}", lambda row: test(row[at][0].strip().casefold()), True

    def same(row: list[Cell]) -> bool:
        return row[at][0].strip().casefold() == low or (value[1] is not None and row[at][1] == value[1])

    readable = made.delimiter != ";" or "," not in value[0]
    if numeric and value[1] is not None and r.random() < 0.7:
        sign, number = r.choice(("<", "<=", ">", ">=")), value[1]
        compare = {"<": Fraction.__lt__, "<=": Fraction.__le__, ">": Fraction.__gt__, ">=": Fraction.__ge__}[
            sign
        ]
        return (
            f"{name} {sign} {quoted(r, value[0])}",
            lambda row: row[at][1] is not None and compare(row[at][1], number),
            readable,
        )
    if made.kinds[at] is _date and r.random() < 0.6:
        return f"{name} >= {quoted(r, value[0])}", lambda row: row[at][0].strip() >= low, bool(have)
    sensible = not numeric or (value[1] is not None and readable)
    if r.random() < 0.5:
        return f"{name} {r.choice(('=', 'is', '=='))} {quoted(r, value[0])}", same, sensible
    return f"{name} {r.choice(('!=', 'is not'))} {quoted(r, value[0])}", lambda row: not same(row), sensible


def written(header: list[str], rows: list[list[str]]) -> str:
    out = io.StringIO()
    csvlib.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue().removesuffix("\n")


def shown(value: Fraction, money: bool) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        plain = text.replace("$", "")
        return ("$" in text) == money and abs(Fraction(plain) - value) <= abs(value) / 10**11

    return test


ACTS: dict[str, Callable[[list[Fraction]], Fraction]] = {
    "sum": lambda numbers: sum(numbers, Fraction(0)),
    "total": lambda numbers: sum(numbers, Fraction(0)),
    "average": lambda numbers: sum(numbers, Fraction(0)) / len(numbers),
    "max": max,
    "min": min,
    "median": statistics.median,
}


def question(r: random.Random, made: Made) -> tuple[str, Callable[[str], bool] | None, bool]:
    """A question, what its right answers are, and whether it must be answered."""
    clause, test, sensible = condition(r, made) if r.random() < 0.6 else ("", lambda row: True, True)
    where = f" where {clause}" if clause else ""
    rows = [row for row in made.rows if test(row)]
    at, by = r.randrange(len(made.names)), r.randrange(len(made.names))
    name, group = quoted(r, made.names[at]), quoted(r, made.names[by])
    texts = [[cell[0] for cell in row] for row in rows]
    header = [each.strip() for each in made.names]
    kind = r.randrange(8)

    def is_(text: str) -> Callable[[str], bool]:
        return lambda answer: answer == text

    if kind == 0:
        return f"count{where}", is_(str(len(rows))), sensible
    if kind == 1:
        return f"rows{where}", is_(written(header, texts)), sensible
    if kind == 2:
        places = [r.randrange(len(header)) for _ in range(r.randint(1, 3))]
        listed = ", ".join(quoted(r, made.names[each]) for each in places)
        return (
            f"columns {listed}{where}",
            is_(written([header[p] for p in places], [[t[p] for p in places] for t in texts])),
            sensible,
        )
    if kind == 3:
        n = r.randint(0, 4)
        part = texts[:n] if r.random() < 0.5 else None
        last = texts[len(texts) - min(n, len(texts)) :]
        return (
            (f"first {n}{where}", is_(written(header, part)), sensible)
            if part is not None
            else (f"last {n}{where}", is_(written(header, last)), sensible)
        )
    if kind == 4:
        way = r.choice(("", " desc"))
        full = [row for row in rows if row[at][0].strip()]
        empty = [row for row in rows if not row[at][0].strip()]
        if made.numeric(at):
            order = sorted(full, key=lambda row: row[at][1] or Fraction(0), reverse=bool(way))
        else:
            order = sorted(
                full, key=lambda row: (row[at][0].strip().casefold(), row[at][0].strip()), reverse=bool(way)
            )
        if any(row[at][1] is not None for row in made.rows) and not made.numeric(at) and len(full) > 1:
            return f"sort by {name}{way}{where}", None, False
        sensible = sensible and (made.numeric(at) or all(row[at][1] is None for row in made.rows))
        n = r.randint(1, 3)
        asked, sliced = r.choice(
            (
                (f"sort by {name}{way}{where}", None),
                (f"rows{where} sort by {name}{way}", None),
                (f"{'top' if way else 'bottom'} {n} by {name}{where}", n),
            )
        )
        return (
            asked,
            is_(written(header, [[cell[0] for cell in row] for row in [*order, *empty]][:sliced])),
            sensible,
        )
    if kind == 5:
        keys: dict[Any, list[str]] = {}
        for row in rows:
            key = row[by][1] if made.numeric(by) else row[by][0].strip()
            keys.setdefault(key, []).append(row[by][0].strip())
        pairs = sorted((first[0], str(len(first))) for first in keys.values())
        asked = r.choice((f"count by {group}{where}", f"count{where} by {group}"))
        return (
            asked,
            lambda answer: (
                answer.split("\n", 1)[0] == written([header[by], "count"], [])
                and sorted(map(tuple, list(csvlib.reader(io.StringIO(answer, newline="")))[1:])) == pairs
                if "\n" not in header[by]
                else (lambda answer: True)
            ),
            sensible,
        )
    verb = r.choice(list(ACTS))
    numbers = [row[at][1] for row in rows if row[at][1] is not None]
    if any(row[at][0].strip() and row[at][1] is None for row in rows):
        return f"{verb} {name}{where}", None, False
    sensible = sensible and made.numeric(at)
    money = made.kinds[at] is _money and bool(made.rows) and made.numeric(at)
    if kind == 6:
        if not numbers and verb not in ("sum", "total"):
            return f"{verb} {name}{where}", None, False
        return (
            f"{verb} {name}{where}",
            shown(ACTS[verb](numbers) if numbers else Fraction(0), money),
            sensible,
        )
    groups: dict[Any, list[list[Cell]]] = {}
    for row in rows:
        groups.setdefault(row[by][1] if made.numeric(by) else row[by][0].strip(), []).append(row)
    wanted = {
        members[0][by][0].strip(): [row[at][1] for row in members if row[at][1] is not None]
        for members in groups.values()
    }

    def right(answer: str) -> bool:
        found = list(csvlib.reader(io.StringIO(answer, newline="")))[1:]
        return {row[0] for row in found} == set(wanted) and all(
            shown(ACTS[verb](wanted[key]), money)(value) if wanted[key] else value == ""
            for key, value in found
        )

    asked = r.choice((f"{verb} {name} by {group}{where}", f"{verb} {name}{where} by {group}"))
    return asked, right, sensible


def test_short_questions_are_answered_rightly_or_declined(tmp_path: Path):
    wrong: list[Any] = []
    answered = 0
    for seed, r in cases():
        made = table(r)
        if len(made.names) == 1 and set(made.names[0]) & set(",;|"):
            continue  # a header that could be of two columns
        query, right, sensible = question(r, made)
        answer = outcome(query_csv, tmp_path, text=made.text, query=query)
        answered += answer is not None
        if answer is None:
            if sensible and made.clear and right is not None:
                wrong.append((seed, "declined", query, made.text))
        elif right is None or not right(answer):
            wrong.append((seed, query, made.text, answer))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"
    assert answered > COUNT * 0.5


def test_selects_are_answered_as_sqlite_answers_them(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        made = table(r)
        if not made.clear:
            continue
        mixed = [
            not made.numeric(at) and any(row[at][1] is not None for row in made.rows)
            for at in range(len(made.names))
        ]
        names = [f'"{name}{" (text)" if odd else ""}"' for name, odd in zip(made.names, mixed, strict=True)]
        with sqlite3.connect(":memory:") as database:
            typed = [f"{name} {'NUMERIC' if made.numeric(at) else 'TEXT'}" for at, name in enumerate(names)]
            database.execute(f"create table data ({', '.join(typed)})")
            for row in made.rows:
                values = [
                    (float(cell[1]) if cell[1] is not None else None) if made.numeric(at) else cell[0] or None
                    for at, cell in enumerate(row)
                ]
                database.execute(f"insert into data values ({', '.join('?' * len(names))})", values)
            at, by = r.choice(names), r.choice(names)
            query = r.choice(
                (
                    f"select count(*), count({at}), min({at}), max({at}) from data",
                    f"select {by}, count({at}) from data group by {by} order by {by}",
                    f"select * from data order by {at}, rowid",
                    f"select {at} from data where {by} > (select min({by}) from data) order by rowid",
                    f"select distinct {at} from data where {by} is not null order by 1",
                    f"with x as (select {at} as v from data) select count(distinct v) from x",
                )
            )
            expected = [
                ["" if value is None else value for value in row]
                for row in database.execute(query).fetchall()
            ]
        answer = outcome(query_csv, tmp_path, text=made.text, query=query)
        found = list(csvlib.reader(io.StringIO(answer or "", newline="")))[1:]
        found = [row if row else [""] for row in found]
        alike = len(found) == len(expected) and all(
            len(a) == len(b)
            and all(
                cell == str(value)
                or (
                    isinstance(value, (int, float))
                    and cell
                    and abs(float(cell) - value) <= abs(value) * 1e-14
                )
                for cell, value in zip(a, b, strict=True)
            )
            for a, b in zip(found, expected, strict=True)
        )
        if answer is None or not alike:
            wrong.append((seed, query, made.text, answer, expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"


def test_a_word_too_many_is_never_overlooked(tmp_path: Path):
    wrong: list[Any] = []
    tried = 0
    for seed, r in cases():
        made = table(r)
        query, _, _ = question(r, made)
        if set(query) & set("\"'`|") or outcome(query_csv, tmp_path, text=made.text, query=query) is None:
            continue
        words = query.split(" ")
        words.insert(r.randint(0, len(words)), r.choice(("zzz", "usd", "only", "except", "please", "5", ",")))
        tried += 1
        if (answer := outcome(query_csv, tmp_path, text=made.text, query=" ".join(words))) is not None:
            wrong.append((seed, " ".join(words), made.text, answer))
    assert not wrong, f"{len(wrong)} of {tried}: {wrong[:5]}"
    assert tried > COUNT * 0.1
