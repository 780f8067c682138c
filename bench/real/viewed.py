"""The set of real jobs in view: developers may look at these while they work."""

from __future__ import annotations

import ast
import calendar
import configparser
import csv
import io
import itertools
import json
import math
import os
import random
import re
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path

from bench.real.job import Job, passes, python
from bench.real.job import kept as _kept
from bench.real.job import lines as _lines
from bench.real.job import read as _read
from bench.real.job import write as _write

# ---------------------------------------------------------------- helpers


def _replace(folder: Path, name: str, old: str, new: str) -> None:
    _write(folder, name, _read(folder, name).replace(old, new))


def _rows(text: str, delimiter: str = ",") -> list[list[str]]:
    """The rows of a CSV text, with stripped cells."""
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=delimiter)
    return [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]


def _records(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV text by the names of its columns, in whatever order these are."""
    header, *rows = _rows(text, delimiter)
    names = [name.lower() for name in header]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _csv(rows: Iterable[Iterable[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _numbers(text: str) -> set[float]:
    """The numbers in a text, in every sensible reading: 1,234.50 and 1.234,50 and 1 234.50."""
    found: set[float] = set()
    for whole in re.findall(r"(?<![\d.,])\d{1,3}(?:[,.' \u00a0\u202f]\d{3})+(?:[.,]\d+)?(?!\d)", text):
        if tail := re.search(r"[.,](\d{1,2}|\d{4,})$", whole):
            head, after = whole[: tail.start()], tail.group(1)
        else:
            head, after = whole, "0"
        found.add(float(re.sub(r"\D", "", head) + "." + after))
    for plain in re.findall(r"\d+(?:[.,]\d+)?", text):
        found.add(float(plain.replace(",", ".")))
    return found


def _short(answer: str, limit: int = 600) -> bool:
    return 0 < len(answer.strip()) <= limit


def _says(answer: str, number: float) -> bool:
    """Whether a short answer says the number."""
    return _short(answer) and any(abs(number - other) < 0.006 for other in _numbers(answer))


def _says_day(text: str, month: int, day: int) -> bool:
    """Whether a text names the day, as 2023-09-18, 18.9., 9/18, 18 September or Sep 18."""
    name = calendar.month_name[month][:3]
    forms = (
        rf"-0?{month}-0?{day}(?!\d)",
        rf"(?<!\d)0?{day}[./-]\s?0?{month}(?!\d)",
        rf"(?<!\d)0?{month}/0?{day}(?!\d)",
        rf"(?<!\d)0?{day}(st|nd|rd|th)?\.?( of)?\s+{name}",
        rf"{name}\w*\.?\s+(the )?0?{day}(?!\d)",
    )
    return any(re.search(form, text, re.IGNORECASE) for form in forms)


def _first(answer: str, names: Iterable[str]) -> str:
    """Which name, or its plural, comes first in the answer; of two at one place the longer one."""
    found: list[tuple[int, int, str]] = []
    for name in names:
        if match := re.search(rf"(?<!\w){re.escape(name)}s?(?!\w)", answer, re.IGNORECASE):
            found.append((match.start(), -len(name), name))
    return min(found)[2] if found else ""


def _bash(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["bash", *args], cwd=folder, capture_output=True, text=True, timeout=20, check=False
    )
    return done.stdout


def _prints(folder: Path, code: str) -> str:
    """What a line of Python prints in the folder."""
    return python(folder, "-B", "-c", code).stdout.strip()


def _below(folder: Path) -> dict[str, str]:
    """The files below a folder, with their texts."""
    if not folder.is_dir():
        return {}
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _bare(code: str) -> str:
    """The syntax of a program without its docstrings."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


# ---------------------------------------------------------------- world


def _oven_check(folder: Path, answer: str) -> bool:
    return _short(answer, 1500) and bool(re.search(r"(?<![\d.])(17[5-7]|180)(?!\d)", answer))


def _commit_check(folder: Path, answer: str) -> bool:
    command = r"git\s+(reset|revert)((?:\s+--?[\w-]+)*)\s+[\"']?(?:HEAD|@)([~^]*\d*)"
    first = re.search(command, answer)
    if not first or not _short(answer, 2500):
        return False
    verb, options, back = first.groups()
    return (
        verb == "reset"
        and set(options.split()) <= {"--soft", "--mixed", "-q"}
        and back in ("~1", "~", "^", "^1")
    )


def _flight_check(folder: Path, answer: str) -> bool:
    time = r"(?<!\d)0?5\s?[:.h]?\s?15(?!\d)(?!\s*p\.?m)"
    return _short(answer, 2000) and bool(re.search(time, answer, re.IGNORECASE))


# ---------------------------------------------------------------- fact

BRANCHES = {
    "branches.toml": """\
# Opening hours of the town libraries

[central]
address = "12 Market Square"
weekdays = "09:00-19:00"
saturday = "10:00-16:00"

[eastfield]
address = "3 Mill Lane"
weekdays = "10:00-18:00"
saturday = "10:00-13:30"

[harbour]
address = "Pier 4"
weekdays = "11:00-18:30"
saturday = "11:00-15:30"

[westpark]
address = "58 Oak Avenue"
weekdays = "09:30-17:00"
saturday = "closed"
"""
}


def _branch_check(folder: Path, answer: str) -> bool:
    right = re.search(r"(?<!\d)(13|1)\s?[:.h]\s?30(?!\d)|half past one", answer, re.IGNORECASE)
    wrong = re.search(r"16[:.]00|15[:.]30|1[789][:.]\d\d", answer)
    return _short(answer) and bool(right) and not wrong


CRYOSTAT = {
    "lab/cryostat.log": """\
2024-02-13 20:58:00 INFO  run 118 started, pressure 2.1e-6 mbar
2024-02-13 21:00:00 INFO  T1 4.21 K
2024-02-13 21:00:00 INFO  T2 4.25 K
2024-02-13 21:00:00 INFO  T3 4.19 K
2024-02-13 21:00:01 INFO  T4 4.30 K
2024-02-13 21:00:01 INFO  T5 4.22 K
2024-02-13 21:00:01 INFO  T6 4.28 K
2024-02-13 21:10:00 INFO  T1 4.22 K
2024-02-13 21:10:00 WARN  T2 5.07 K above limit 5.00 K
2024-02-13 21:10:00 INFO  T3 4.20 K
2024-02-13 21:10:01 INFO  T4 4.31 K
2024-02-13 21:10:01 INFO  T5 4.22 K
2024-02-13 21:10:01 INFO  T6 4.28 K
2024-02-13 21:20:00 INFO  T1 4.22 K
2024-02-13 21:20:00 INFO  T2 4.96 K
2024-02-13 21:20:00 INFO  T3 4.20 K
2024-02-13 21:20:01 INFO  T4 4.31 K
2024-02-13 21:20:06 ERROR T5 no answer within 5 s
2024-02-13 21:20:06 INFO  T6 4.29 K
2024-02-13 21:30:00 INFO  T1 4.23 K
2024-02-13 21:30:00 INFO  T2 4.81 K
2024-02-13 21:30:00 INFO  T3 4.21 K
2024-02-13 21:30:01 WARN  T4 calibration is older than 90 days
2024-02-13 21:30:06 ERROR T5 no answer within 5 s
2024-02-13 21:30:06 INFO  T6 4.29 K
2024-02-13 21:31:00 INFO  run 118 stopped by operator
"""
}


def _sensor_check(folder: Path, answer: str) -> bool:
    return _short(answer) and _first(answer, [f"T{n}" for n in range(1, 7)]) == "T5"


STAFF = {
    102: "Holger Brandt",
    105: "Aylin Demir",
    107: "Piotr Nowak",
    109: "Sara Lindqvist",
    112: "Marc Oberle",
    118: "Joana Reis",
    121: "Tim Falkner",
}
PUMP_DONE = {
    31: "P-14 inspected by #107",
    58: "P-14 replaced by #112",
    122: "P-14 greased by #105",
    196: "P-14 replaced by #109",
    204: "P-114 replaced by #121",
    219: "P-14 inspected by #118",
    233: "P-14 replacement ordered by #102, cancelled",
    247: "P-14 greased by #107",
}


def _pump_log() -> list[str]:
    rng, day, lines = random.Random(14), date(2023, 1, 3), list[str]()
    for number in range(260):
        day += timedelta(rng.randrange(3) if number else 0)
        pump, work = (
            rng.choice((3, 8, 12, 17, 22, 41, 104, 114, 140)),
            rng.choice(("inspected", "greased", "replaced")),
        )
        done = PUMP_DONE.get(number, f"P-{pump} {work} by #{rng.choice(tuple(STAFF))}")
        lines.append(f"{day} {6 + number % 12:02}:{rng.randrange(60):02} {done}")
    return lines


PUMPS = {
    "maintenance/log.txt": "\n".join(_pump_log()) + "\n",
    "maintenance/staff.csv": "number,name,since\n"
    + "".join(f"{n},{name},{2008 + n % 11}\n" for n, name in STAFF.items()),
}
PUMP_DAY = date.fromisoformat(_pump_log()[196][:10])


def _pump_check(folder: Path, answer: str) -> bool:
    surnames = [name.split()[-1] for name in STAFF.values()]
    return (
        _short(answer)
        and _first(answer, surnames) == "Lindqvist"
        and _says_day(answer, PUMP_DAY.month, PUMP_DAY.day)
    )


# ---------------------------------------------------------------- compute

CAKES = {
    "cakes.csv": """\
cake,price,sold
apple pie,2.50,34
cheesecake,3.20,21
brownie,1.80,46
lemon tart,2.90,17
carrot cake,2.70,25
plum cake,2.40,19
muffin,1.50,52
waffle,2.00,63
"""
}
CAKE_TOTAL = sum(float(row["price"]) * int(row["sold"]) for row in _records(CAKES["cakes.csv"]))


def _cakes_check(folder: Path, answer: str) -> bool:
    return _says(answer, CAKE_TOTAL)


PLANT_DAYS = {
    "basil": 1,
    "monstera": 7,
    "fern": 2,
    "cactus": 21,
    "mint": 1,
    "aloe": 14,
    "tomato": 1,
    "orchid": 7,
    "parsley": 2,
    "ivy": 5,
    "hydrangea": 1,
    "rosemary": 4,
    "begonia": 3,
    "jade plant": 14,
    "peace lily": 3,
    "chives": 2,
    "snake plant": 21,
    "strawberry": 1,
    "lavender": 7,
    "fuchsia": 2,
}
PLANTS = {
    "plants.json": "[\n"
    + ",\n".join(f'  {{"name": "{name}", "water_every_days": {n}}}' for name, n in PLANT_DAYS.items())
    + "\n]\n"
}


def _plants_check(folder: Path, answer: str) -> bool:
    if not _short(answer):
        return False
    if re.search(r"\beleven\b", answer, re.IGNORECASE):
        return True
    whole = {int(n) for n in re.findall(r"\d+", answer)}
    return 11 in whole and max(whole - {20}) == 11


ITEM_PRICES = {
    "trail shoes": 89.90,
    "rain jacket": 94.00,
    "head torch": 34.50,
    "sleeping bag": 92.00,
    "camp stove": 88.75,
    "water filter": 41.20,
    "dry sack": 12.90,
    "hiking poles": 86.40,
}


def _orders() -> list[list[object]]:
    rng, rows = random.Random(4), list[list[object]]()
    for number in range(320):
        day = date(2024, 1, 8) + timedelta(number // 3 + rng.randrange(9))
        status = rng.choice(("shipped",) * 7 + ("cancelled",) * 2 + ("returned", "open"))
        rows.append(
            [7001 + number, day, rng.choice(tuple(ITEM_PRICES)), rng.choice((1, 1, 1, 2, 2, 3)), status]
        )
    return rows


def _best_item() -> tuple[str, float]:
    taken = Counter[str]()
    for _, day, item, count, status in _orders():
        if status == "shipped" and str(day).startswith("2024-03-"):
            taken[str(item)] += int(str(count)) * round(100 * ITEM_PRICES[str(item)])
    item, cents = taken.most_common(1)[0]
    return item, cents / 100


ORDERS = {
    "shop/orders.csv": _csv([["order", "date", "item", "quantity", "status"], *_orders()]),
    "shop/items.csv": _csv(
        [["item", "price"], *([item, f"{price:.2f}"] for item, price in ITEM_PRICES.items())]
    ),
}


def _orders_check(folder: Path, answer: str) -> bool:
    item, amount = _best_item()
    return _says(answer, amount) and _first(answer, ITEM_PRICES) == item


# ---------------------------------------------------------------- program

ROMAN = {
    1: "I",
    4: "IV",
    9: "IX",
    14: "XIV",
    40: "XL",
    58: "LVIII",
    444: "CDXLIV",
    1994: "MCMXCIV",
    3999: "MMMCMXCIX",
}


def _roman_check(folder: Path, answer: str) -> bool:
    return all(
        python(folder, "roman.py", str(n)).stdout.split()[-1:] == [roman] for n, roman in ROMAN.items()
    )


def _roman_solution(folder: Path) -> str:
    _write(
        folder,
        "roman.py",
        "import sys\n\nVALUES = [1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1]\n"
        'SIGNS = "M CM D CD C XC L XL X IX V IV I".split()\n'
        'number, out = int(sys.argv[1]), ""\n'
        "for value, sign in zip(VALUES, SIGNS):\n"
        "    out += sign * (number // value)\n    number %= value\nprint(out)\n",
    )
    return "roman.py prints the Roman numeral of its argument."


def _newest_check(folder: Path, answer: str) -> bool:
    script = str((folder / "newest.sh").resolve())
    for names in (("pear", "apple", "quince"), ("apple", "quince", "pear"), ("quince", "pear", "apple")):
        with tempfile.TemporaryDirectory() as place:
            for age, name in enumerate(names):
                path = Path(place) / f"{name}.txt"
                path.write_text(name * (age + 1), "utf-8")
                os.utime(path, (1_700_000_000 - 5000 * age, 1_700_000_000 - 5000 * age))
            said = _lines(_bash(Path(place).parent, script, place))
            if len(said) != 1 or Path(said[0].split()[-1]).name != f"{names[0]}.txt":
                return False
    return True


def _newest_solution(folder: Path) -> str:
    _write(folder, "newest.sh", '#!/bin/bash\nls -t "$1" | head -n 1\n')
    return "newest.sh is ready."


def _league_results() -> list[list[object]]:
    rng, teams = random.Random(8), ("Falcons", "Harbour FC", "Millers", "Northside", "Rovers", "Town Boys")
    return [[a, b, rng.randrange(5), rng.randrange(4)] for a in teams for b in teams if a != b]


LEAGUE_HEADER = ["home", "away", "home_goals", "away_goals"]
LEAGUE = {"results.csv": _csv([LEAGUE_HEADER, *_league_results()])}
LEAGUE_OTHER = _csv(
    [
        LEAGUE_HEADER,
        ["Owls", "Bears", 1, 1],
        ["Cranes", "Ants", 0, 3],
        ["Bears", "Cranes", 2, 0],
        ["Ants", "Owls", 0, 2],
        ["Owls", "Cranes", 1, 1],
        ["Bears", "Ants", 0, 0],
        ["Dingos", "Eagles", 10, 9],
        ["Foxes", "Hens", 1, 0],
        ["Gulls", "Hens", 4, 0],
    ]
)


def _league_table(text: str) -> list[tuple[str, int, int]]:
    points, difference = Counter[str](), Counter[str]()
    for row in _records(text):
        home, away = row["home"], row["away"]
        goals = int(row["home_goals"]) - int(row["away_goals"])
        points[home] += 3 if goals > 0 else 1 if goals == 0 else 0
        points[away] += 3 if goals < 0 else 1 if goals == 0 else 0
        difference[home] += goals
        difference[away] -= goals
    return sorted(((t, points[t], difference[t]) for t in points), key=lambda row: (-row[1], -row[2], row[0]))


def _league_check(folder: Path, answer: str) -> bool:
    with tempfile.TemporaryDirectory() as place:
        other = Path(place) / "other.csv"
        other.write_text(LEAGUE_OTHER, "utf-8")
        for path, text in (("results.csv", LEAGUE["results.csv"]), (str(other), LEAGUE_OTHER)):
            rows = _rows(python(folder, "league.py", path).stdout)
            if [(name, int(points), int(goals)) for name, points, goals in rows] != _league_table(text):
                return False
    return _kept(folder, LEAGUE)


def _league_solution(folder: Path) -> str:
    _write(
        folder,
        "league.py",
        "import csv, sys\n\ntable = {}\n"
        'with open(sys.argv[1], encoding="utf-8", newline="") as file:\n'
        "    for row in csv.DictReader(file):\n"
        '        goals = int(row["home_goals"]) - int(row["away_goals"])\n'
        '        for team, d in ((row["home"], goals), (row["away"], -goals)):\n'
        "            points, difference = table.get(team, (0, 0))\n"
        "            table[team] = points + (3 if d > 0 else 1 if d == 0 else 0), difference + d\n"
        "for team, (points, d) in sorted(table.items(), key=lambda x: (-x[1][0], -x[1][1], x[0])):\n"
        '    print(f"{team},{points},{d}")\n',
    )
    return "Run python league.py results.csv."


# ---------------------------------------------------------------- text


def _invitation_check(folder: Path, answer: str) -> bool:
    text = _read(folder, "invitation.md")
    time = r"(?<!\d)(3|three)([:.]00)?\s*(pm|p\.m|o'clock|in the afternoon)|15[:.]00|15\s?h"
    words = (time, r"boat\s?-?house", r"salad", r"\bMira\b", r"sail")
    return (
        30 <= len(text.split()) <= 500
        and all(re.search(word, text, re.IGNORECASE) for word in words)
        and _says_day(text, 7, 13)
        and _says_day(text, 7, 1)
    )


def _invitation_solution(folder: Path) -> str:
    _write(
        folder,
        "invitation.md",
        "# Summer party of the sailing club\n\nDear members,\n\nwe would love to see you at our summer party "
        "on "
        "Saturday, 13 July, at 3 pm in the boathouse. Please bring a salad.\n\n"
        "Let Mira know by 1 July whether you can come.\n\nSee you there!\n",
    )
    return "The invitation is in invitation.md."


ROTA = {
    "rota.py": """\
import argparse
import random
from datetime import date, timedelta


def rota(names, start, weeks, seed=None):
    order = list(names)
    if seed is not None:
        random.Random(seed).shuffle(order)
    for week in range(weeks):
        yield start + timedelta(weeks=week), order[week % len(order)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+", help="who takes part")
    parser.add_argument("--start", type=date.fromisoformat, default=date.today(), help="first Monday")
    parser.add_argument("--weeks", type=int, default=8, help="how many weeks to plan")
    parser.add_argument("--seed", type=int, help="shuffle the names, the same way for the same number")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    args = parser.parse_args()
    if args.markdown:
        print("| week of | cleans |\\n|---|---|")
    for day, name in rota(args.names, args.start, args.weeks, args.seed):
        print(f"| {day} | {name} |" if args.markdown else f"{day}  {name}")


if __name__ == "__main__":
    main()
"""
}


def _readme_check(folder: Path, answer: str) -> bool:
    text = _read(folder, "README.md")
    needed = ("rota.py", "--start", "--weeks", "--seed", "--markdown")
    return (
        all(word in text for word in needed)
        and bool(re.search(r"^#+ \S|^[=-]{3,}\s*$", text, re.MULTILINE))
        and bool(re.search(r"clean|rota\b(?!\.py)|plan|schedule|turn", text, re.IGNORECASE))
        and "add_argument" not in text
        and len(text.split()) >= 40
        and _kept(folder, ROTA)
    )


def _readme_solution(folder: Path) -> str:
    _write(
        folder,
        "README.md",
        "# Cleaning rota\n\nrota.py plans who cleans in which week and prints one line per week.\n\n"
        "## Usage\n\n    python rota.py Ana Ben Chris --start 2024-09-02 --weeks 6\n\n## Options\n\n"
        "- `--start DAY`: the first Monday; today if left out\n- `--weeks N`: how many weeks to plan, 8 by "
        "default\n"
        "- `--seed N`: shuffle the names, always the same way for the same number\n"
        "- `--markdown`: print a Markdown table\n",
    )
    return "README.md describes rota.py and its options."


COMMITTEE = ("Ruth", "Tom", "Ines", "Paul")
SMALL_TALK = (
    "is it still raining at your place?",
    "last year the queue at the coffee stand went round the corner",
    "my bus was late again, sorry",
    "ha, I remember that",
    "good point",
    "let me think about that one",
    "has anybody seen my umbrella since the spring market?",
    "I like the poster from two years ago best",
    "the children loved the pony",
    "we had about 300 visitors I think",
    "yes",
    "not sure, my sister would know",
    "the weather is anybody's guess",
    "the power cable was too short, remember",
    "one moment, the phone",
    "back now",
    "could somebody pour me a coffee through the screen, please",
)
CHAT_LINES = {
    23: "Ruth: ok, then that's decided, the fair moves to the school yard",
    41: "Ines: I'll book the brass band by 4 May",
    68: "Paul: so we all agree: entry is 2 euros for adults and free for children",
    87: "Ruth: Tom, can you order the tents by 10 May?",
    88: "Tom: will do",
    120: "Tom: decided then, washable cups only, no plastic",
    141: "Ines: Paul, would you print the posters by 28 April?",
    142: "Paul: sure, I'll do it",
    166: "Ruth: I'll ask the fire brigade about the parking, by 6 May",
    190: "Ruth: everybody voted yes, so the raffle money goes to the new library roof",
}
DECISIONS = (
    r"school\s?-?yard",
    r"(\b2|\btwo)\s*(€|euros?|eur)|€\s*2\b",
    r"plastic|washable",
    r"raffle.*roof|roof.*raffle",
)
TASKS = (
    ("Ines", r"\bband\b", 5, 4),
    ("Tom", r"\btents?\b", 5, 10),
    ("Paul", r"\bposters?\b", 4, 28),
    ("Ruth", r"fire (brigade|department)|parking", 5, 6),
)


def _chat() -> str:
    rng, minute, lines = random.Random(21), 19 * 60, list[str]()
    for number in range(224):
        minute += rng.randrange(2)
        said = CHAT_LINES.get(number, f"{rng.choice(COMMITTEE)}: {rng.choice(SMALL_TALK)}")
        lines.append(f"[{minute // 60}:{minute % 60:02}] {said}")
    return "\n".join(lines) + "\n"


CHAT = {"chat.txt": _chat()}


def _part(text: str, heading: str) -> str:
    """What is below a heading, up to the next one of the same level or a higher one."""
    text = re.sub(
        r"^(\w[^\n]*)\n(=+|-{3,})[ \t]*$", r"## \1", text, flags=re.MULTILINE
    )  # underlined headings
    title = rf"^(?P<marks>#+|\*\*)\s*[^\n]*{heading}[^\n]*$"
    start = re.search(title, text, re.MULTILINE | re.IGNORECASE)
    if not start:
        return ""
    marks = start.group("marks")
    after = text[start.end() :]
    stop = r"^\*\*[^\n]*\*\*:?\s*$" if marks == "**" else rf"^#{{1,{len(marks)}}}\s"
    end = re.search(stop, after, re.MULTILINE)
    return after[: end.start()] if end else after


def _task_told(part: str, name: str, key: str) -> bool:
    """Whether the task is in a line with the name, or below one; who gave the task may be named too."""
    nearest: set[str] = set()
    for line in part.splitlines():
        named = {other for other in COMMITTEE if re.search(rf"\b{other}\b", line)}
        nearest = named or nearest
        if re.search(key, line, re.IGNORECASE) and name in nearest and len(nearest) <= 2:
            return True
    return False


def _minutes_check(folder: Path, answer: str) -> bool:
    text = _read(folder, "minutes.md")
    decisions, tasks = _part(text, "decision"), _part(text, r"\btasks?\b")
    return (
        len(text.split()) <= 270
        and all(re.search(key, decisions, re.IGNORECASE) for key in DECISIONS)
        and all(
            _task_told(tasks, name, key) and _says_day(tasks, month, day) for name, key, month, day in TASKS
        )
        and _kept(folder, CHAT)
    )


def _minutes_solution(folder: Path) -> str:
    _write(
        folder,
        "minutes.md",
        "# Minutes of the committee\n\n## Decisions\n\n- The fair moves to the school yard.\n"
        "- Entry is 2 euros for adults and free for children.\n- Only washable cups, no plastic.\n"
        "- The raffle money goes to the new library roof.\n\n## Tasks\n\n"
        "- Ines books the brass band by 4 May.\n"
        "- Tom orders the tents by 10 May.\n- Paul prints the posters by 28 April.\n"
        "- Ruth asks the fire brigade about the parking by 6 May.\n",
    )
    return "The minutes are in minutes.md."


# ---------------------------------------------------------------- fix

PAGES = {
    "catalogue.py": '''\
"""Pages of the seed catalogue."""


def page_count(items: int, per_page: int) -> int:
    """How many pages are needed for so many items."""
    return items // per_page + 1


def page_of(index: int, per_page: int) -> int:
    """The page on which an item stands; both count from 1."""
    return (index - 1) // per_page + 1
''',
    "test_catalogue.py": """\
from catalogue import page_count, page_of


def test_last_page_not_full():
    assert page_count(21, 10) == 3


def test_last_page_full():
    assert page_count(20, 10) == 2


def test_nothing():
    assert page_count(0, 10) == 0


def test_page_of():
    assert page_of(1, 10) == 1
    assert page_of(10, 10) == 1
    assert page_of(11, 10) == 2
""",
}


def _pages_check(folder: Path, answer: str) -> bool:
    code = "from catalogue import page_count as p; print(p(1, 10), p(100, 7), p(14, 7), p(5, 5), p(6, 5))"
    return (
        _kept(folder, PAGES, "catalogue.py")
        and passes(folder, "test_catalogue.py")
        and _prints(folder, code) == "1 15 2 1 2"
    )


def _pages_solution(folder: Path) -> str:
    _replace(folder, "catalogue.py", "items // per_page + 1", "(items + per_page - 1) // per_page")
    return "page_count counted one page too many if the last page is full."


RENTAL = {
    "rental.py": '''\
"""Hire of costumes: when they have to be back."""

from periods import add_days

CLOSED = {(12, 25), (12, 26), (1, 1)}  # month and day


def return_day(start: tuple[int, int, int], weeks: int) -> tuple[int, int, int]:
    """The day, as (year, month, day), on which a costume has to be back; never a day when we are closed."""
    day = add_days(start, 7 * weeks)
    while day[1:] in CLOSED:
        day = add_days(day, 1)
    return day


def label(start: tuple[int, int, int], weeks: int) -> str:
    """What we print on the ticket."""
    year, month, day = return_day(start, weeks)
    return f"back by {day:02}.{month:02}.{year}"
''',
    "periods.py": '''\
"""Sums with days."""

from months import days_in_month


def add_days(day: tuple[int, int, int], count: int) -> tuple[int, int, int]:
    """The day that is `count` days later."""
    year, month, number = day
    number += count
    while number > days_in_month(year, month):
        number -= days_in_month(year, month)
        month += 1
        if month > 12:
            year, month = year + 1, 1
    return year, month, number
''',
    "months.py": '''\
"""How long the months are."""

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year: int) -> bool:
    """Whether the year has a 29th of February."""
    return year % 4 == 0 and year % 100 != 0


def days_in_month(year: int, month: int) -> int:
    """The number of days in a month of that year."""
    return 29 if month == 2 and is_leap(year) else LENGTHS[month - 1]
''',
    "test_rental.py": """\
from rental import label, return_day


def test_plain_week():
    assert return_day((2024, 5, 6), 1) == (2024, 5, 13)


def test_over_the_year():
    assert return_day((2023, 12, 27), 1) == (2024, 1, 3)


def test_closed_days():
    assert return_day((2023, 12, 18), 1) == (2023, 12, 27)


def test_end_of_february():
    assert return_day((2023, 2, 22), 1) == (2023, 3, 1)
    assert return_day((1900, 2, 22), 1) == (1900, 3, 1)
    assert return_day((2024, 2, 22), 1) == (2024, 2, 29)


def test_old_ticket():
    assert label((2000, 2, 15), 2) == "back by 29.02.2000"
""",
}


def _rental_check(folder: Path, answer: str) -> bool:
    code = (
        "from months import is_leap as f; print([f(y) for y in (1600, 1900, 2000, 2023, 2024, 2100, 2400)])"
    )
    return (
        _kept(folder, {"test_rental.py": RENTAL["test_rental.py"]})
        and passes(folder, "test_rental.py")
        and _prints(folder, code) == "[True, False, True, False, True, False, True]"
        and _prints(folder, "from rental import *; print(label((2000, 2, 29), 1))") == "back by 07.03.2000"
    )


def _rental_solution(folder: Path) -> str:
    _replace(folder, "months.py", "year % 100 != 0", "(year % 100 != 0 or year % 400 == 0)")
    return "is_leap in months.py did not know that every 400th year is a leap year."


def _stops() -> dict[str, tuple[float, float]]:
    rng = random.Random(5)
    heads = (
        "Ahorn Birken Buchen Eschen Fichten Gold Hirsch Kalten Lauter Linden Ober Raben Roten Schwarz Silber"
    )
    tails = "au bach berg brunn dorf feld hausen heim kirch see stein tal wald wies zell"
    names = [head + tail for head in heads.split() for tail in tails.split()]
    return {name: (round(rng.uniform(46.6, 48.4), 4), round(rng.uniform(9.6, 13.4), 4)) for name in names}


def _length(stops: Mapping[str, tuple[float, float]], names: Iterable[str]) -> float:
    """The length of a tour in km."""
    places, total = [stops[name] for name in names], 0.0
    for (lat1, lon1), (lat2, lon2) in itertools.pairwise(places):
        a, b, c, d = map(math.radians, (lat1, lon1, lat2, lon2))
        total += 12742 * math.asin(
            math.sqrt(math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2)
        )
    return total


STOPS = _stops()
SWAPPED = "Lindenwald"
ALPINE = ("Birkenau", "Hirschtal", SWAPPED, "Rabenstein", "Obersee")
LAKES = ("Goldsee", "Kaltensee", "Silbersee")


def _stop_line(name: str, *, swapped: bool = False) -> str:
    lat, lon = STOPS[name]
    return f"{name},{lon:.4f},{lat:.4f}\n" if swapped else f"{name},{lat:.4f},{lon:.4f}\n"


TOURS = {
    "README.md": "# Bus tours\n\nstops.py reads data/stops.csv (name, latitude, longitude in degrees), "
    "route.py measures tours in km.\n",
    "data/stops.csv": "stop,lat,lon\n" + "".join(_stop_line(name, swapped=name == SWAPPED) for name in STOPS),
    "stops.py": '''\
"""The stops of our bus tours."""

import csv
from pathlib import Path

FILE = Path(__file__).parent / "data" / "stops.csv"


def load() -> dict[str, tuple[float, float]]:
    """Latitude and longitude by the name of the stop."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return {row["stop"]: (float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)}
''',
    "route.py": '''\
"""Lengths of bus tours."""

from math import asin, cos, radians, sin, sqrt

from stops import load

DIAMETER = 12742  # of the earth, in km


def leg(start: tuple[float, float], end: tuple[float, float]) -> float:
    """The distance between two places in km."""
    a, b = map(radians, start)
    c, d = map(radians, end)
    return DIAMETER * asin(sqrt(sin((c - a) / 2) ** 2 + cos(a) * cos(c) * sin((d - b) / 2) ** 2))


def length(names: list[str]) -> float:
    """The length of a tour in km."""
    stops = load()
    places = [stops[name] for name in names]
    return sum(leg(start, end) for start, end in zip(places, places[1:]))
''',
    "test_route.py": f"""\
import pytest

from route import length


def test_lakes():
    assert length({list(LAKES)}) == pytest.approx({_length(STOPS, LAKES):.1f}, abs=0.1)


def test_alpine_tour():
    assert length({list(ALPINE)}) == pytest.approx({_length(STOPS, ALPINE):.1f}, abs=0.1)


def test_there_and_back():
    assert length(["Goldsee", "Rotenbach", "Goldsee"]) == pytest.approx(2 * length(["Goldsee", "Rotenbach"]))
""",
}


def _tours_check(folder: Path, answer: str) -> bool:
    rows = _records(_read(folder, "data/stops.csv"))
    found = {row["stop"]: (float(row["lat"]), float(row["lon"])) for row in rows}
    return (
        len(rows) == len(STOPS)
        and found == STOPS
        and _kept(folder, {"test_route.py": TOURS["test_route.py"]})
        and passes(folder, "test_route.py")
    )


def _tours_solution(folder: Path) -> str:
    _replace(folder, "data/stops.csv", _stop_line(SWAPPED, swapped=True), _stop_line(SWAPPED) + "\n")
    return f"Latitude and longitude of {SWAPPED} were swapped in data/stops.csv."


# ---------------------------------------------------------------- change

BASKET = {
    "web/basket.js": """\
const calculator = require("./calculator");

function calc(items, coupon) {
  let sum = 0;
  for (const item of items) {
    sum += item.price * item.count;
  }
  return coupon ? sum * 0.9 : sum;
}

function summary(items) {
  const total = calc(items, false);
  const reduced = calc(items, true);
  return `Total ${total.toFixed(2)}, with coupon ${reduced.toFixed(2)}`;
}

function shipping(items) {
  return calc(items, false) > 50 ? 0 : calculator.postage(items.length);
}

module.exports = { calc, summary, shipping };
""",
    "web/calculator.js": "exports.postage = (count) => 3.5 + 0.5 * count;\n",
}


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _basket_check(folder: Path, answer: str) -> bool:
    wanted = re.sub(r"\bcalc\b", "totalPrice", BASKET["web/basket.js"])
    return _squeezed(_read(folder, "web/basket.js")) == _squeezed(wanted) and _kept(
        folder, BASKET, "web/basket.js"
    )


def _basket_solution(folder: Path) -> str:
    _write(folder, "web/basket.js", re.sub(r"\bcalc\b", "totalPrice", BASKET["web/basket.js"]))
    return "calc is called totalPrice now, everywhere in basket.js."


GREENHOUSE = {
    "greenhouse.py": """\
def mean(values):
    return sum(values) / len(values)


def too_warm(values, limit=30):
    return mean(values) > limit


def window_angle(temperature):
    if temperature < 20:
        return 0
    return min(90, (temperature - 20) * 6)


def litres(beds, dry_days):
    return beds * (4 + 2 * dry_days)


if __name__ == "__main__":
    print(too_warm([28, 31, 33]), window_angle(25), litres(6, 2))
"""
}


def _docstrings_check(folder: Path, answer: str) -> bool:
    code = _read(folder, "greenhouse.py")
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    return (
        len(functions) == 4
        and all(len(ast.get_docstring(node) or "") >= 10 for node in functions)
        and _bare(code) == _bare(GREENHOUSE["greenhouse.py"])
    )


def _docstrings_solution(folder: Path) -> str:
    told = {
        "mean(values)": "The arithmetic mean of the values.",
        "too_warm(values, limit=30)": "Whether the mean of the temperatures is above the limit.",
        "window_angle(temperature)": "How far the window opens, in degrees.",
        "litres(beds, dry_days)": "How much water the beds need after so many dry days.",
    }
    for head, text in told.items():
        _replace(folder, "greenhouse.py", f"def {head}:\n", f'def {head}:\n    """{text}"""\n')
    return "Every function in greenhouse.py has a docstring now."


LOANS = {
    "fees.py": '''\
"""Fees of the library."""

RATE = 0.25  # euros a day
MOST = 10.0


def late_fee(days: int) -> float:
    """The fee for a book that comes back so many days late."""
    if days <= 0:
        return 0.0
    return min(days * RATE, MOST)
''',
    "loans.py": '''\
"""Loans of the library."""

from datetime import date

from fees import late_fee


def close_loan(due: date, returned: date) -> dict[str, float]:
    """How many days late the book is, and the fee for it."""
    days = (returned - due).days
    return {"late": max(days, 0), "fee": late_fee(days)}
''',
    "desk.py": '''\
"""At the desk: python desk.py DUE RETURNED, both like 2024-03-01."""

import argparse
from datetime import date

from loans import close_loan


def main() -> None:
    """Print how late a book is and what it costs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("due", type=date.fromisoformat)
    parser.add_argument("returned", type=date.fromisoformat)
    args = parser.parse_args()
    loan = close_loan(args.due, args.returned)
    print(f"{loan['late']} days late, fee {loan['fee']:.2f}")


if __name__ == "__main__":
    main()
''',
    "test_loans.py": """\
from datetime import date

from fees import late_fee
from loans import close_loan


def test_fee():
    assert late_fee(-2) == 0
    assert late_fee(5) == 1.25
    assert late_fee(100) == 10


def test_close():
    assert close_loan(date(2024, 3, 1), date(2024, 3, 6)) == {"late": 5, "fee": 1.25}
""",
}


def _grace_check(folder: Path, answer: str) -> bool:
    fees = "from fees import late_fee as f; "
    fees += "print(*map(float, (f(5), f(5, 2), f(5, grace=5), f(3, 7), f(90, grace=2))))"
    loan = "from datetime import date as d; from loans import close_loan as c; "
    loan += "print(float(c(d(2024, 3, 1), d(2024, 3, 6), grace=2)['fee']), c(d(2024, 3, 1), d(2024, 3, 6)))"
    days = ("desk.py", "2024-03-01", "2024-03-06")
    return (
        LOANS["test_loans.py"].strip() in _read(folder, "test_loans.py")
        and passes(folder, "test_loans.py")
        and _prints(folder, fees) == "1.25 0.75 0.0 0.0 10.0"
        and _prints(folder, loan) == "0.75 {'late': 5, 'fee': 1.25}"
        and python(folder, *days).stdout.strip() == "5 days late, fee 1.25"
        and "fee 0.75" in python(folder, *days, "--grace", "2").stdout
    )


def _grace_solution(folder: Path) -> str:
    _replace(folder, "fees.py", "late_fee(days: int)", "late_fee(days: int, grace: int = 0)")
    _replace(folder, "fees.py", "    if days <= 0", "    days -= grace\n    if days <= 0")
    _replace(folder, "loans.py", "returned: date)", "returned: date, grace: int = 0)")
    _replace(folder, "loans.py", "late_fee(days)", "late_fee(days, grace)")
    option = '    parser.add_argument("--grace", type=int, default=0)\n'
    _replace(folder, "desk.py", "    args = ", option + "    args = ")
    _replace(folder, "desk.py", "args.returned)", "args.returned, args.grace)")
    return "late_fee, close_loan and desk.py know grace days now."


# ---------------------------------------------------------------- config

HOME_SETTINGS: dict[str, dict[str, object]] = {
    "heating": {"day": 21, "night": 19, "night_from": "22:30", "holiday_mode": True},
    "hot_water": {"day": 55, "night": 45, "holiday_mode": True},
    "shutters": {"close_at": "sunset", "open_at": "07:15", "night": "closed"},
}
HOME = {
    "home/settings.json": json.dumps(HOME_SETTINGS, indent=2) + "\n",
    "home/rooms.txt": "kitchen\nliving room\nbath\nattic\n",
}


def _home_check(folder: Path, answer: str) -> bool:
    wanted = {**HOME_SETTINGS, "heating": {**HOME_SETTINGS["heating"], "night": 17.5, "holiday_mode": False}}
    return json.loads(_read(folder, "home/settings.json")) == wanted and _kept(
        folder, HOME, "home/settings.json"
    )


def _home_solution(folder: Path) -> str:
    _replace(folder, "home/settings.json", '"night": 19', '"night": 17.5')
    heating, rest = _read(folder, "home/settings.json").split('"hot_water"')
    _write(folder, "home/settings.json", heating.replace("true", "false") + '"hot_water"' + rest)
    return "The heating goes down to 17.5 at night, and its holiday mode is off."


MAIL = {
    "newsletter.ini": """\
; newsletter of the hiking club
[sending]
host = mail.wanderfreunde.example
port = 25
tls = no
sender = news@wanderfreunde.example

[receiving]
host = imap.wanderfreunde.example
port = 143
tls = no

[archive]
folder = sent/2024
keep_days = 365
"""
}


def _mail_check(folder: Path, answer: str) -> bool:
    now, before = configparser.ConfigParser(), configparser.ConfigParser()
    now.read_string(_read(folder, "newsletter.ini"))
    before.read_string(MAIL["newsletter.ini"])
    right = now.getint("sending", "port") == 587 and now.getboolean("sending", "tls")
    for config in (now, before):
        config.remove_option("sending", "port")
        config.remove_option("sending", "tls")
    return right and now == before


def _mail_solution(folder: Path) -> str:
    _replace(folder, "newsletter.ini", "port = 25\ntls = no", "port = 587\ntls = yes")
    return "Sending uses port 587 with TLS now."


def _zones() -> list[dict[str, str]]:
    rng, zones = random.Random(30), list[dict[str, str]]()
    crops = ("cucumber", "lettuce", "pepper", "radish", "spinach", "tomato seedlings", "melon")
    for n in range(1, 33):
        crop = "tomatoes" if n in (4, 11, 17, 26, 31) else crops[n * 3 % len(crops)]
        zones.append(
            {
                "name": f"zone-{n:02}",
                "crop": crop,
                "min_temp": str(rng.randint(12, 17)),
                "max_temp": "28" if crop == "tomatoes" else str(rng.randint(24, 30)),
                "water_at": "06:00" if n % 3 else "07:30",
                "litres": str(10 * rng.randint(3, 12)),
                "lamps": "true" if n % 4 == 0 else "false",
            }
        )
    zones[16]["water_at"] = "06:00"
    return zones


def _zone_text(zone: Mapping[str, str]) -> str:
    lines = [f'{key}: "{value}"' if ":" in value else f"{key}: {value}" for key, value in zone.items()]
    return "  - " + "\n    ".join(lines) + "\n"


def _zone_records(text: str) -> list[dict[str, float | str]]:
    """The records of a YAML list; every dash starts one."""
    found: list[dict[str, float | str]] = []
    for line in text.splitlines():
        told = re.sub(r"(^|\s)#.*", "", line).strip()
        if told.startswith("-") and not told.startswith("---"):
            found.append({})
            told = told[1:].strip()
        key, _, value = told.partition(":")
        value = value.strip().strip("'\"")
        if found and value:
            try:
                found[-1][key.strip()] = float(value)
            except ValueError:
                found[-1][key.strip()] = value
    return found


TIMES = {zone["name"]: zone["water_at"] for zone in _zones()}
ZONES = {
    "config/zones.yaml": "# zones of the greenhouse, from north to south\nzones:\n"
    + "".join(map(_zone_text, _zones())),
    "config/timer.json": json.dumps({"valves": TIMES, "test": "12:00"}, indent=2) + "\n",
    "config/README.md": "zones.yaml is for the climate computer, timer.json for the valves.\n",
}


def _new_zones() -> list[dict[str, str]]:
    zones = _zones()
    for zone in zones:
        if zone["crop"] == "tomatoes":
            zone["max_temp"] = "31"
    zones[16]["water_at"] = "05:30"
    return zones


def _zones_check(folder: Path, answer: str) -> bool:
    wanted = _zone_records("".join(map(_zone_text, _new_zones())))
    timer = {"valves": {**TIMES, "zone-17": "05:30"}, "test": "12:00"}
    return (
        _zone_records(_read(folder, "config/zones.yaml")) == wanted
        and json.loads(_read(folder, "config/timer.json")) == timer
        and _kept(folder, ZONES, "config/zones.yaml", "config/timer.json")
    )


def _zones_solution(folder: Path) -> str:
    _write(folder, "config/zones.yaml", "zones:\n" + "".join(map(_zone_text, _new_zones())))
    _replace(folder, "config/timer.json", '"zone-17": "06:00"', '"zone-17": "05:30"')
    return "The tomato zones have max_temp 31, and zone 17 is watered at 05:30 in both files."


# ---------------------------------------------------------------- convert

MEMBERS = {
    "members.csv": """\
name,joined,boat,berth
Clara Huber,2015,Seagull,12
Jan de Wit,2019,,
Olga Petrova,2008,"Wind, Sea and Sun",3
Samir Haddad,2021,Pelican,27
Lena Vogt,2011,Otter,8
Rui Costa,2023,,
"""
}


def _members_check(folder: Path, answer: str) -> bool:
    found = json.loads(_read(folder, "members.json"))
    if isinstance(found, dict) and len(found) == 1:  # a list under one name is all right too
        found = next(iter(found.values()))
    plain = [
        {key: "" if value is None else str(value).removesuffix(".0") for key, value in row.items()}
        for row in found
    ]
    return plain == _records(MEMBERS["members.csv"]) and _kept(folder, MEMBERS)


def _members_solution(folder: Path) -> str:
    _write(folder, "members.json", json.dumps(_records(MEMBERS["members.csv"]), indent=2))
    return "members.json has the 6 members."


PRICE_LIST = {
    "hire/prices.tsv": "item\thour\tday\tdeposit\ncanoe\t9.00\t34.00\t50\nrowing boat\t8.00\t28.00\t50\n"
    "paddle board\t11.50\t45.00\t100\npedal boat\t14.00\t60.00\t100\nlife jacket\t1.00\t3.50\t10\n"
}


def _table_check(folder: Path, answer: str) -> bool:
    lines = [line for line in _lines(_read(folder, "hire/prices.md")) if "|" in line]
    cells = [[cell.strip().strip("*`") for cell in line.strip("|").split("|")] for line in lines]
    rule = cells.pop(1)
    return (
        all(re.fullmatch(r":?-+:?", cell) for cell in rule)
        and len(rule) == 4
        and [[cell.lower() for cell in row] for row in cells] == _rows(PRICE_LIST["hire/prices.tsv"], "\t")
        and _kept(folder, PRICE_LIST)
    )


def _table_solution(folder: Path) -> str:
    rows = _rows(PRICE_LIST["hire/prices.tsv"], "\t")
    rows.insert(1, ["---"] * 4)
    _write(folder, "hire/prices.md", "".join(f"| {' | '.join(row)} |\n" for row in rows))
    return "The table is in hire/prices.md."


def _bookings() -> list[tuple[date, str, int]]:
    """The day, the payee and the cents of every booking."""
    rng, day, rows = random.Random(99), date(2023, 1, 2), list[tuple[date, str, int]]()
    payees = (
        "Stadtwerke",
        "Müller, Obst und Gemüse",
        "Druckerei Kurz",
        "Miete Hafenstr. 3",
        "Café Ölberg",
        "Finanzamt",
    )
    for _ in range(234):
        day += timedelta(rng.randrange(3))
        payee = rng.choice((*payees, "Kundin 1182", "Kunde 2040"))
        cents = rng.choice(
            (rng.randint(100, 9_999), rng.randint(10_000, 99_999), rng.randint(100_000, 1_250_000))
        )
        rows.append((day, payee, cents if payee.startswith("Kund") else -cents))
    return rows


def _german(cents: int) -> str:
    whole = f"{abs(cents) // 100:,}".replace(",", ".")
    return f"{'-' if cents < 0 else ''}{whole},{abs(cents) % 100:02}"


BANK = {
    "bank/export.txt": "Kontoauszug;Girokonto 4711\nZeitraum;01.01.2023 - 31.12.2023\n\n"
    "Buchung;Empfänger;Betrag\n"
    + "".join(f"{day:%d.%m.%Y};{payee};{_german(cents)}\n" for day, payee, cents in _bookings())
}


def _bank_check(folder: Path, answer: str) -> bool:
    text = _read(folder, "bank/bank.csv")
    found = [(row["date"], row["payee"], round(100 * float(row["amount"]))) for row in _records(text)]
    return sorted(found) == sorted((str(day), payee, cents) for day, payee, cents in _bookings()) and _kept(
        folder, BANK
    )


def _bank_solution(folder: Path) -> str:
    rows = ([day, payee, f"{cents / 100:.2f}"] for day, payee, cents in _bookings())
    _write(folder, "bank/bank.csv", _csv([["date", "payee", "amount"], *rows]))
    return "bank/bank.csv has all 234 bookings."


# ---------------------------------------------------------------- extract

SHOP_LOG = {
    "logs/shop.log": """\
2024-04-02 08:00:01 INFO  shop started
2024-04-02 08:03:12 INFO  order 5101 paid
2024-04-02 08:09:40 WARN  stock of item 77 is low
2024-04-02 08:15:03 ERROR payment service not reachable
2024-04-02 08:15:33 INFO  retry after ERROR, attempt 1
2024-04-02 08:15:34 INFO  order 5102 paid
2024-04-02 08:31:20 INFO  order 5103 paid
2024-04-02 08:40:55 ERROR no address in order 5104
2024-04-02 08:52:10 INFO  error page translated by Kim
2024-04-02 09:01:48 WARN  slow answer from the printer
2024-04-02 09:12:27 INFO  order 5105 paid
2024-04-02 09:20:06 ERROR label printer out of paper
2024-04-02 09:20:30 WARN  2 labels waiting after ERROR of the printer
2024-04-02 09:33:41 INFO  order 5106 paid
2024-04-02 09:45:09 INFO  label printer ready
2024-04-02 10:02:58 ERROR payment service not reachable
2024-04-02 10:03:28 INFO  order 5107 paid
2024-04-02 10:30:00 INFO  backup done
"""
}
SHOP_ERRORS = [line for line in _lines(SHOP_LOG["logs/shop.log"]) if line.split()[2] == "ERROR"]


def _errors_check(folder: Path, answer: str) -> bool:
    found = _lines(_read(folder, "errors.txt"))
    return list(map(_squeezed, found)) == list(map(_squeezed, SHOP_ERRORS)) and _kept(folder, SHOP_LOG)


def _errors_solution(folder: Path) -> str:
    _write(folder, "errors.txt", "\n".join(SHOP_ERRORS) + "\n")
    return "errors.txt has the 4 lines."


GUESTS = {
    "wedding/guests.md": """\
# Guests

Family
- Aunt Greta (greta.holm@post.example) with Uncle Lars, vegetarian
- Cousin Nils, nils@fjordmail.example, brings his guitar
- Grandma has no mail, call her!

Friends
- Amina and Joe: amina.k@uni-south.example, joe_77@mailbox.example
- Dr. Peter Lang <lang@clinic.example>
- Nils's girlfriend Eva, same address as Nils: nils@fjordmail.example

Music: the band "At Last" (office: booking@atlast.example), 19:00 @ the barn
"""
}
GUEST_MAILS = (
    "greta.holm@post.example",
    "nils@fjordmail.example",
    "amina.k@uni-south.example",
    "joe_77@mailbox.example",
    "lang@clinic.example",
    "booking@atlast.example",
)


def _mails_check(folder: Path, answer: str) -> bool:
    found = [line.lstrip("-* ").strip() for line in _lines(_read(folder, "wedding/emails.txt"))]
    return sorted(found) == sorted(GUEST_MAILS) and _kept(folder, GUESTS)


def _mails_solution(folder: Path) -> str:
    _write(folder, "wedding/emails.txt", "\n".join(GUEST_MAILS) + "\n")
    return "There are 6 addresses in wedding/emails.txt."


def _race(year: int) -> list[tuple[int, int, str, str, str]]:
    """Bib, place, name, club and time of every runner, by bib."""
    rng = random.Random(year)
    clubs = (
        "SV Seeblick",
        "SV Seeblick II",
        "TG Altdorf",
        "LC Nord",
        "Running Rebels",
        "FC Seeblick",
        "no club",
    )
    givens = (
        "Ana",
        "Bea",
        "Carl",
        "Dora",
        "Emil",
        "Finn",
        "Gina",
        "Hugo",
        "Ida",
        "Jona",
        "Kira",
        "Leo",
        "Mona",
        "Nico",
    )
    families = ("Adler", "Bock", "Christ", "Dorn", "Ernst", "Frey")
    names = [f"{given} {family}" for given in givens for family in families]
    rng.shuffle(names)
    places = list(range(1, 81))
    rng.shuffle(places)
    return [
        (
            100 + n,
            place,
            names[n],
            "SV Seeblick" if place in (2, 7, 10, 11) else rng.choice(clubs),
            _run_time(place),
        )
        for n, place in enumerate(places)
    ]


def _run_time(place: int) -> str:
    seconds = 2010 + 19 * place
    return f"{seconds // 60}:{seconds % 60:02}"


RACE_HEADER = ["bib", "place", "name", "club", "time"]
RACES = {f"results/{year}.csv": _csv([RACE_HEADER, *_race(year)]) for year in (2021, 2022, 2023)}
TOP = [
    (year, place, name)
    for year in (2021, 2022, 2023)
    for _, place, name, club, _ in sorted(_race(year), key=lambda row: row[1])
    if club == "SV Seeblick" and place <= 10
]


def _race_check(folder: Path, answer: str) -> bool:
    rows = _records(_read(folder, "seeblick.csv"))
    return [(int(row["year"]), int(row["place"]), row["name"]) for row in rows] == TOP and _kept(
        folder, RACES
    )


def _race_solution(folder: Path) -> str:
    _write(folder, "seeblick.csv", _csv([["year", "place", "name"], *TOP]))
    return f"seeblick.csv has {len(TOP)} rows."


# ---------------------------------------------------------------- files

PHOTOS = {
    "photos/beach.jpeg": "JFIF beach\n",
    "photos/cat.jpeg": "JFIF cat\n",
    "photos/cat on sofa.jpeg": "JFIF sofa\n",
    "photos/harbour.jpg": "JFIF harbour\n",
    "photos/map.png": "PNG map\n",
    "photos/my.jpeg.notes.txt": "which of the jpeg pictures to print: beach, cat\n",
    "photos/sunset.jpeg": "JFIF sunset\n",
}


def _photo(name: str) -> str:
    return name.removesuffix(".jpeg") + ".jpg" if name.endswith(".jpeg") else name


def _photos_check(folder: Path, answer: str) -> bool:
    return _below(folder / "photos") == {_photo(Path(name).name): text for name, text in PHOTOS.items()}


def _photos_solution(folder: Path) -> str:
    for name in PHOTOS:
        (folder / name).rename(folder / _photo(name))
    return "The four pictures end in .jpg now."


DOWNLOADS = {
    "downloads/abstract.pdf": "%PDF abstract\n",
    "downloads/budget.csv": "item,cost\npaint,40\n",
    "downloads/holiday.png": "PNG holiday\n",
    "downloads/lens-manual.pdf": "%PDF lens\n",
    "downloads/measurements.tsv": "t\tv\n0\t1.5\n",
    "downloads/readme.txt": "csv and tsv files belong into tables\n",
    "downloads/thesis.final.pdf": "%PDF thesis\n",
    "downloads/voters.csv": "ward,count\n1,1200\n",
}


def _download_place(name: str) -> str:
    folder = {".pdf": "papers/", ".csv": "tables/", ".tsv": "tables/"}.get(Path(name).suffix, "")
    return folder + Path(name).name


def _downloads_check(folder: Path, answer: str) -> bool:
    return _below(folder / "downloads") == {_download_place(name): text for name, text in DOWNLOADS.items()}


def _downloads_solution(folder: Path) -> str:
    for name in DOWNLOADS:
        target = folder / "downloads" / _download_place(name)
        target.parent.mkdir(exist_ok=True)
        (folder / name).rename(target)
    return "PDFs are in papers, tables in tables, the rest stayed."


def _invoices() -> dict[str, str]:
    """The text of every invoice by where it belongs."""
    rng, found = random.Random(17), dict[str, str]()
    for n in range(34):
        day = date(2021, 3, 1) + timedelta(rng.randrange(1300))
        goods = [
            (rng.choice(("oak shelf", "door", "stool", "repair", "table top")), rng.randint(20, 480))
            for _ in "123"
        ]
        found[f"{day.year}/R-{1007 + 13 * n}.txt"] = (
            f"Riverside Joinery, since 1998\n\nInvoice R-{1007 + 13 * n}\nDate: {day}\n"
            f"To be paid by: {day + timedelta(30)}\n"
            f"Customer: {rng.choice(('Bauer', 'Ito', 'Okafor', 'Silva'))}\n\n"
            + "".join(f"{what}: {price}.00\n" for what, price in goods)
            + f"Total: {sum(price for _, price in goods)}.00\n"
        )
    return found


def _scans() -> dict[str, str]:
    texts = list(_invoices().values())
    texts += [texts[3], texts[8], texts[19], texts[30], "", ""]
    random.Random(2).shuffle(texts)
    return {f"scans/scan_{n:02}.txt": text for n, text in enumerate(texts, 1)}


SCANS = _scans()


def _scans_check(folder: Path, answer: str) -> bool:
    found = {name: text.strip() for name, text in _below(folder / "invoices").items()}
    return found == {name: text.strip() for name, text in _invoices().items()} and not _below(
        folder / "scans"
    )


def _scans_solution(folder: Path) -> str:
    for name, text in _invoices().items():
        _write(folder, f"invoices/{name}", text)
    for name in SCANS:
        (folder / name).unlink()
    return "34 invoices are sorted by year; 4 doubles and 2 empty scans are gone."


# ---------------------------------------------------------------- parts

PACKING = {
    "trip/packing.txt": "tent\nmap\nwater bottle\nsocks\ncompass\nmap\nfirst aid kit\nsunscreen\nsocks\n"
    "stove\nrope\ntent\n",
    "trip/route.txt": "day 1: valley to hut\nday 2: hut to pass\nday 3: back\n",
}
PACKED = sorted(set(_lines(PACKING["trip/packing.txt"])))


def _packing_check(folder: Path, answer: str) -> bool:
    return (
        _lines(_read(folder, "trip/packing.txt")) == PACKED
        and re.findall(r"\d+", _read(folder, "trip/count.txt")) == [str(len(PACKED))]
        and _kept(folder, PACKING, "trip/packing.txt")
    )


def _packing_solution(folder: Path) -> str:
    _write(folder, "trip/packing.txt", "\n".join(PACKED) + "\n")
    _write(folder, "trip/count.txt", f"{len(PACKED)}\n")
    return f"{len(PACKED)} things are left."


COURSES = {
    "starters": ("tomato soup", "goat cheese salad", "bruschetta"),
    "mains": ("mushroom risotto", "grilled trout", "lentil curry", "pumpkin lasagne"),
    "desserts": ("panna cotta", "apple strudel"),
}
DISHES = {"kitchen/dishes.json": json.dumps(COURSES, indent=2) + "\n"}


def _menu_check(folder: Path, answer: str) -> bool:
    for course, dishes in COURSES.items():
        text = _read(folder, f"menu/{course}.md").lower()
        others = [dish for other in COURSES if other != course for dish in COURSES[other]]
        if not all(dish in text for dish in dishes) or any(dish in text for dish in others):
            return False
    told = re.search(r"(?<!\d)9(?!\d)|\bnine\b", answer, re.IGNORECASE)
    return _short(answer) and bool(told) and _kept(folder, DISHES)


def _menu_solution(folder: Path) -> str:
    for course, dishes in COURSES.items():
        _write(folder, f"menu/{course}.md", "".join(f"- {dish}\n" for dish in dishes))
    return "The menu folder has three files with 9 dishes in all."


RELEASE = {
    "weather.py": '''\
"""Conversions for the weather station."""

__version__ = "0.4.2"


def to_celsius(fahrenheit: float) -> float:
    """Degrees Celsius."""
    return (fahrenheit - 32) * 9 / 5


def to_fahrenheit(celsius: float) -> float:
    """Degrees Fahrenheit."""
    return celsius * 9 / 5 + 32


def ms_to_kmh(speed: float) -> float:
    """Kilometres an hour from metres a second."""
    return speed * 3.6
''',
    "test_weather.py": """\
import pytest

from weather import ms_to_kmh, to_celsius, to_fahrenheit


def test_celsius():
    assert to_celsius(32) == 0
    assert to_celsius(212) == pytest.approx(100)


def test_fahrenheit():
    assert to_fahrenheit(100) == pytest.approx(212)


def test_speed():
    assert ms_to_kmh(10) == pytest.approx(36)
""",
    "pyproject.toml": """\
[project]
name = "weather-station"
version = "0.4.2"
dependencies = ["stationlink>=0.4.2"]

[tool.station]
interval = 60
""",
    "CHANGELOG.md": "# Changelog\n\n## 0.4.2\n\n- Reads the rain gauge.\n\n## 0.4.1\n\n"
    "- First version for the new mast.\n",
    "weather_old.py": "def c(f):\n    return (f - 32) / 1.8\n",
}


def _release_check(folder: Path, answer: str) -> bool:
    config, changes = tomllib.loads(RELEASE["pyproject.toml"]), _read(folder, "CHANGELOG.md")
    config["project"]["version"] = "0.5.0"
    code = "import weather as w; print(w.__version__, *(round(x, 3) for x in "
    code += (
        "(w.to_celsius(-40), w.to_celsius(50), w.to_fahrenheit(20), w.knots_to_kmh(10), w.knots_to_kmh(1))))"
    )
    told = re.search(r"celsius|fahrenheit|5\s*/\s*9|9\s*/\s*5|1\.8", answer, re.IGNORECASE)
    return (
        _kept(folder, {"test_weather.py": RELEASE["test_weather.py"]})
        and passes(folder, "test_weather.py")
        and _prints(folder, code) == "0.5.0 -40.0 10.0 68.0 18.52 1.852"
        and tomllib.loads(_read(folder, "pyproject.toml")) == config
        and bool(re.search(r"^#+[^\n]*0\.5\.0.*knots_to_kmh.*^## 0\.4\.2", changes, re.MULTILINE | re.DOTALL))
        and set(_lines(RELEASE["CHANGELOG.md"])) <= set(_lines(changes))
        and not (folder / "weather_old.py").exists()
        and _short(answer, 2000)
        and bool(told)
    )


def _release_solution(folder: Path) -> str:
    _replace(folder, "weather.py", "(fahrenheit - 32) * 9 / 5", "(fahrenheit - 32) * 5 / 9  # not 9 / 5")
    _replace(folder, "weather.py", "0.4.2", "0.5.0")
    knots = '\n\ndef knots_to_kmh(speed: float) -> float:\n    """From knots."""\n    return speed * 1.852\n'
    _write(folder, "weather.py", _read(folder, "weather.py") + knots)
    _replace(folder, "pyproject.toml", 'version = "0.4.2"', 'version = "0.5.0"')
    entry = "## 0.5.0\n\n- New function knots_to_kmh.\n- to_celsius is right again.\n\n"
    _replace(folder, "CHANGELOG.md", "## 0.4.2", entry + "## 0.4.2")
    (folder / "weather_old.py").unlink()
    return "Ready. The bug: to_celsius multiplied with 9 / 5 instead of 5 / 9."


# ---------------------------------------------------------------- page

HIRE_PAGE = """\
<!DOCTYPE html>
<html><head><title>Boat hire at the lake</title></head>
<body>
<h1>Boat hire</h1>
<p>Open daily from May to September, 9 am to 7 pm.</p>
<table>
<tr><th>boat</th><th>half a day</th><th>whole day</th></tr>
<tr><td>Rowing boat</td><td>17 &euro;</td><td>28 &euro;</td></tr>
<tr><td>Canoe</td><td>21 &euro;</td><td>34 &euro;</td></tr>
<tr><td>Paddle board</td><td>26 &euro;</td><td>45 &euro;</td></tr>
<tr><td>Pedal boat</td><td>38 &euro;</td><td>60 &euro;</td></tr>
</table>
<p>A deposit of 50 &euro; is due for every boat.</p>
</body></html>
"""


def _hire_check(folder: Path, answer: str) -> bool:
    return _says(answer, 34) and not _numbers(answer) & {28, 45, 60, 17, 26, 38}


TALKS = (
    ("10:00", "Bees in the city", "Dr. Hanna Roth"),
    ("11:15", "Why glass is not a liquid", "Prof. Imre Nagy"),
    ("12:30", "Maps that lie", "Leila Aziz"),
    ("14:00", "Counting birds by ear", "Tomasz Zielinski"),
    ("15:15", "The chemistry of bread", "Dr. Odile Martin"),
)
TALKS_PAGE = (
    "<html><head><title>Open day</title></head><body>\n<h1>Open day of the museum</h1>\n"
    "<p>Five talks in the small hall, entry is free.</p>\n<ul>\n"
    + "".join(
        f'<li><b>{time}</b> <span class="title">{title}</span>, {who}</li>\n' for time, title, who in TALKS
    )
    + '</ul>\n<p><a href="/index.html">Back</a></p>\n</body></html>\n'
)


def _talks_check(folder: Path, answer: str) -> bool:
    found = [re.sub(r"^([-*]|\d\.)\s+", "", line).strip('"') for line in _lines(_read(folder, "talks.txt"))]
    return found == [title for _, title, _ in TALKS]


def _talks_solution(folder: Path) -> str:
    _write(folder, "talks.txt", "".join(f"{title}\n" for _, title, _ in TALKS))
    return "The 5 titles are in talks.txt."


def _market() -> list[tuple[str, int, bool]]:
    """The name of every item, its cents, and whether it is sold."""
    rng = random.Random(64)
    looks, things = (
        ("Blue", "Old", "Small", "Painted", "Wooden", "Tin", "Heavy", "Round"),
        ("lamp", "jug", "chair", "clock", "tray", "basket", "toy", "box"),
    )
    names = [f"{look} {thing}" for look in looks for thing in things]
    rng.shuffle(names)
    names[9], names[41] = "Salt & pepper set", "Cups & saucers"
    rows = [(name, 50 * rng.randint(2, 56), rng.random() < 0.25) for name in names]
    rows[9], rows[20], rows[41] = (names[9], 450, False), (names[20], 1000, False), (names[41], 800, False)
    rows[33] = (names[33], 650, True)
    return rows


def _market_page(number: int) -> str:
    items = "".join(
        f'<div class="item{" sold" if sold else ""}">\n  <h2>{name.replace("&", "&amp;")}</h2>\n'
        f'  <p class="price">{cents / 100:.2f} &euro;</p>\n'
        f"{'  <p>SOLD</p>' + chr(10) if sold else ''}</div>\n"
        for name, cents, sold in _market()[16 * number - 16 : 16 * number]
    )
    link = (
        f'<p><a href="page{number + 1}.html">next page</a></p>\n'
        if number < 4
        else "<p>This is the last page.</p>\n"
    )
    return (
        f"<html><head><title>Flea market, page {number}</title></head><body>\n<h1>Flea market</h1>\n"
        f"{items}{link}</body></html>\n"
    )


MARKET_PAGES = {f"/market/{f'page{n}' if n > 1 else 'index'}.html": _market_page(n) for n in range(1, 5)}
CHEAP = [(name, cents) for name, cents, sold in _market() if cents < 1000 and not sold]


def _market_check(folder: Path, answer: str) -> bool:
    rows = _records(_read(folder, "cheap.csv"))
    found = [
        (row["item"], round(100 * float(re.sub(r"[^\d.]", "", row["price"].replace(",", ".")))))
        for row in rows
    ]
    return sorted(found) == sorted(CHEAP) and _says(answer, len(CHEAP))


def _market_solution(folder: Path) -> str:
    _write(
        folder,
        "cheap.csv",
        _csv([["item", "price"], *([name, f"{cents / 100:.2f}"] for name, cents in CHEAP)]),
    )
    return f"There are {len(CHEAP)} of them, saved in cheap.csv."


# ---------------------------------------------------------------- ask

CONTACT = {
    "site/contact.md": """\
# Contact

Violin repair Sofia Marchetti
Old Brewery Yard 7

- Workshop: 0821 555 0140
- Mobile: 0170 555 0199
- Fax: 0821 555 0141

Open Tuesday to Friday, 10 to 17.
"""
}


def _contact_check(folder: Path, answer: str) -> bool:
    now, before = _lines(_read(folder, "site/contact.md")), _lines(CONTACT["site/contact.md"])
    mobile = [line for line in now if "mobile" in line.lower()]
    return (
        len(mobile) == 1
        and re.sub(r"\D", "", mobile[0]) in ("015223610874", "4915223610874")
        and [line for line in now if line not in mobile] == [line for line in before if "Mobile" not in line]
    )


def _contact_solution(folder: Path) -> str:
    _replace(folder, "site/contact.md", "0170 555 0199", "0152 2361 0874")
    return "The new mobile number is in site/contact.md."


WELCOME = {
    "welcome.txt": "Good morning and welcome!\nBreakfast is from 7 to 10 in the garden room.\n"
    "Thank you for staying with us.\n"
}


def _welcome_check(folder: Path, answer: str) -> bool:
    text = _read(folder, "welcome_guests.txt").lower()
    words = (r"bem[- ]?vind", r"bom dia", r"obrigad|agradec", r"jardim", r"caf[eé] da manh|pequeno[- ]almo")
    return (
        sum(bool(re.search(word, text)) for word in words) >= 3
        and {7, 10} <= _numbers(text)
        and _kept(folder, WELCOME)
    )


def _welcome_solution(folder: Path) -> str:
    _write(
        folder,
        "welcome_guests.txt",
        "Bom dia e bem-vindos!\nO café da manhã é das 7 às 10 na sala do jardim.\n"
        "Obrigado por ficarem connosco.\n",
    )
    return "welcome_guests.txt has the Portuguese text."


FEES = {
    "club/fees.json": '{\n  "adults": 84,\n  "children": 40,\n  "family": 150,\n  "currency": "EUR"\n}\n',
    "club/join.md": """\
# Join the tennis club

We are 84 members and play on 5 courts.

What a year costs:

- Adults: 84 euros
- Children: 40 euros
- Families: 150 euros

The way to the courts is 150 metres from the bus stop.
""",
    "club/mailer.py": '''\
"""Reminders for members who have not paid yet."""

FEES = {"adults": 84, "children": 40, "family": 150}
DEADLINE_DAYS = 14


def reminder(name: str, group: str) -> str:
    """The text of the mail."""
    return f"Dear {name}, please pay your fee of {FEES[group]} euros within {DEADLINE_DAYS} days."


if __name__ == "__main__":
    print(reminder("Robin", "adults"))
''',
}


def _fees_check(folder: Path, answer: str) -> bool:
    before, now = _lines(FEES["club/join.md"]), _lines(_read(folder, "club/join.md"))
    prices = {int(n) for line in now for n in re.findall(r"^[-*] \w+: (\d+)", line)}
    code = "import sys; sys.path.insert(0, 'club'); from mailer import *; "
    code += "print(*(reminder('Robin', g) for g in ('adults', 'children', 'family')), sep='\\n')"
    mail = "Dear Robin, please pay your fee of {} euros within 14 days."
    return (
        json.loads(_read(folder, "club/fees.json"))
        == {"adults": 97, "children": 40, "family": 172, "currency": "EUR"}
        and [line for line in now if line[0] not in "-*"] == [line for line in before if line[0] != "-"]
        and prices == {97, 40, 172}
        and any(line.startswith(("- Adults: 97", "* Adults: 97")) for line in now)
        and _prints(folder, code).splitlines() == [mail.format(fee) for fee in (97, 40, 172)]
    )


def _fees_solution(folder: Path) -> str:
    for name, before, after in (
        ("fees.json", '": ', ","),
        ("join.md", ": ", " euros"),
        ("mailer.py", '": ', ""),
    ):
        _replace(folder, f"club/{name}", f"{before}84{after}", f"{before}97{after}")
        _replace(folder, f"club/{name}", f"{before}150{after}", f"{before}172{after}")
    return "Adults pay 97 and families 172 euros now, in all three files."


# ---------------------------------------------------------------- the jobs

JOBS: list[Job] = [
    Job(
        name="oven-degrees",
        kind="world",
        task="This American cookie recipe says to bake at 350 °F. What do I set my oven to in Celsius?",
        check=_oven_check,
        solution=lambda folder: "About 175 to 180 °C.",
    ),
    Job(
        name="undo-commit",
        kind="world",
        task="I committed too early. Which git command takes back the last commit but keeps all my changes?",
        check=_commit_check,
        solution=lambda folder: "`git reset --soft HEAD~1`",
    ),
    Job(
        name="night-flight",
        kind="world",
        task="We take off in Lisbon at 22:40 and the flight takes 9 hours and 35 minutes. In São Paulo the "
        "clocks are 3 hours behind Lisbon. What will the local time be when we land?",
        check=_flight_check,
        solution=lambda folder: "You land at 05:15 local time the next morning.",
        hard=True,
    ),
    Job(
        name="branch-hours",
        kind="fact",
        task="Until when is the Eastfield library open on Saturdays? It's in branches.toml.",
        check=_branch_check,
        solution=lambda folder: "Eastfield is open until 13:30 on Saturdays.",
        files=BRANCHES,
    ),
    Job(
        name="silent-sensor",
        kind="fact",
        task="Something went wrong in the lab on Tuesday night: one of the temperature sensors stopped "
        "answering. Can you look into lab/cryostat.log and tell me which one?",
        check=_sensor_check,
        solution=lambda folder: "Sensor T5 gave no answer from 21:20 on.",
        files=CRYOSTAT,
    ),
    Job(
        name="pump-replaced",
        kind="fact",
        task="The insurance wants to know who replaced pump P-14 the last time and on which day. All the "
        "work is in maintenance/log.txt, and maintenance/staff.csv says who the numbers are; I need the "
        "name.",
        check=_pump_check,
        solution=lambda folder: f"Sara Lindqvist replaced it on {PUMP_DAY}.",
        files=PUMPS,
        hard=True,
    ),
    Job(
        name="cake-stand",
        kind="compute",
        task="How much did we take in at the cake stand altogether? cakes.csv has the price of a piece and "
        "how many pieces were sold.",
        check=_cakes_check,
        solution=lambda folder: f"The cake stand took in {CAKE_TOTAL:.2f}.",
        files=CAKES,
    ),
    Job(
        name="thirsty-plants",
        kind="compute",
        task="I'm away, and a neighbour will care for the plants that need water at least every 3 days (so "
        "every day, every 2 or every 3 days). How many plants in plants.json is that?",
        check=_plants_check,
        solution=lambda folder: "11 of the 20 plants.",
        files=PLANTS,
    ),
    Job(
        name="march-bestseller",
        kind="compute",
        task="Which item brought in the most money in March 2024, and how much exactly? The orders are in "
        "shop/orders.csv, the prices in shop/items.csv. Please count only orders that were shipped.",
        check=_orders_check,
        solution=lambda folder: "The {} with {:,.2f}.".format(*_best_item()),
        files=ORDERS,
        hard=True,
    ),
    Job(
        name="roman-script",
        kind="program",
        task="Write me roman.py: `python roman.py 1994` should print MCMXCIV, and the same for any number "
        "from 1 to 3999.",
        check=_roman_check,
        solution=_roman_solution,
    ),
    Job(
        name="newest-file",
        kind="program",
        task="I need a little bash script newest.sh. It gets a folder as its argument and prints only the "
        "name of the file in it that was changed last.",
        check=_newest_check,
        solution=_newest_solution,
    ),
    Job(
        name="league-table",
        kind="program",
        task="Our league needs a table. Please write league.py, it's called with a file like results.csv "
        "here (python league.py results.csv). For each team it prints one line name,points,goal difference, "
        "without a header and the best team first. A win is 3 points, a draw 1. With equal points the better "
        "goal difference comes first, and if that's the same too, go by the alphabet.",
        check=_league_check,
        solution=_league_solution,
        files=LEAGUE,
        hard=True,
    ),
    Job(
        name="club-invitation",
        kind="text",
        task="Write a friendly invitation to the summer party of our sailing club and save it as "
        "invitation.md. It's on Saturday 13 July at 3 pm in the boathouse, everybody should bring a salad, "
        "and they should tell Mira by 1 July if they come.",
        check=_invitation_check,
        solution=_invitation_solution,
    ),
    Job(
        name="rota-readme",
        kind="text",
        task="rota.py has no documentation at all. Make a README.md for it: what it does, an example call, "
        "and what each of its options is for.",
        check=_readme_check,
        solution=_readme_solution,
        files=ROTA,
    ),
    Job(
        name="fair-minutes",
        kind="text",
        task="Turn our committee chat in chat.txt into minutes, at most 250 words, as minutes.md. One "
        "heading 'Decisions' with everything we decided, one heading 'Tasks' with who does what until when. "
        "No small talk.",
        check=_minutes_check,
        solution=_minutes_solution,
        files=CHAT,
        hard=True,
    ),
    Job(
        name="page-count",
        kind="fix",
        task="test_catalogue.py fails. Please repair the code, not the test.",
        check=_pages_check,
        solution=_pages_solution,
        files=PAGES,
    ),
    Job(
        name="old-ticket",
        kind="fix",
        task="One test in test_rental.py is red and I can't see anything wrong in rental.py. Find out why "
        "and fix the bug where it really is. The tests are correct, leave them alone.",
        check=_rental_check,
        solution=_rental_solution,
        files=RENTAL,
        hard=True,
    ),
    Job(
        name="endless-tour",
        kind="fix",
        task="pytest says our alpine bus tour is thousands of kilometres long. Nobody touched the code or "
        "the tests for a year, but a few stops were typed in again last week. Find the cause, repair "
        "it where it is, and run the tests.",
        check=_tours_check,
        solution=_tours_solution,
        files=TOURS,
        hard=True,
    ),
    Job(
        name="rename-calc",
        kind="change",
        task="In web/basket.js the function calc should be called totalPrice, everywhere it is used.",
        check=_basket_check,
        solution=_basket_solution,
        files=BASKET,
    ),
    Job(
        name="add-docstrings",
        kind="change",
        task="My colleague complains that nothing is explained in greenhouse.py: add a docstring to each "
        "function there and leave the code as it is.",
        check=_docstrings_check,
        solution=_docstrings_solution,
        files=GREENHOUSE,
    ),
    Job(
        name="grace-days",
        kind="change",
        task="Our library introduces grace days. late_fee in fees.py should get a second parameter grace, 0 "
        "by default: so many late days are free and only the days after them cost something. close_loan in "
        "loans.py gets a parameter grace too and passes it on, and desk.py an option --grace N. Without it "
        "everything stays as it is now, and test_loans.py must still pass.",
        check=_grace_check,
        solution=_grace_solution,
        files=LOANS,
        hard=True,
    ),
    Job(
        name="cooler-nights",
        kind="config",
        task="We're back from holiday! Switch the holiday mode of the heating off and let it go down to 17.5 "
        "at night, in the settings file in home. The hot water I do myself.",
        check=_home_check,
        solution=_home_solution,
        files=HOME,
    ),
    Job(
        name="mail-port",
        kind="config",
        task="newsletter.ini: our provider wants port 587 and TLS for sending from now on. Receiving stays "
        "the same.",
        check=_mail_check,
        solution=_mail_solution,
        files=MAIL,
    ),
    Job(
        name="tomato-zones",
        kind="config",
        task="Two changes for the greenhouse. Every zone in config/zones.yaml with the crop tomatoes gets "
        "max_temp 31, and zone-17 is to be watered at 05:30 instead of 06:00; that time is in "
        "config/timer.json as well, so change both. Don't touch anything else.",
        check=_zones_check,
        solution=_zones_solution,
        files=ZONES,
        hard=True,
    ),
    Job(
        name="members-json",
        kind="convert",
        task="Can you turn members.csv into JSON? A list with one object per member, keys like the columns, "
        "saved as members.json.",
        check=_members_check,
        solution=_members_solution,
        files=MEMBERS,
    ),
    Job(
        name="price-table",
        kind="convert",
        task="Make a Markdown table out of hire/prices.tsv for our wiki, as hire/prices.md, with the same "
        "columns and the numbers as they are.",
        check=_table_check,
        solution=_table_solution,
        files=PRICE_LIST,
    ),
    Job(
        name="bank-export",
        kind="convert",
        task="The tax program can't read what the bank gives me. Please convert bank/export.txt to "
        "bank/bank.csv: a normal CSV with commas and the header date,payee,amount, dates like 2023-01-31, "
        "amounts like -1234.50 with a decimal point and nothing between the thousands. All bookings, without "
        "the lines about the account.",
        check=_bank_check,
        solution=_bank_solution,
        files=BANK,
        hard=True,
    ),
    Job(
        name="error-lines",
        kind="extract",
        task="Copy the lines with level ERROR from logs/shop.log to errors.txt, nothing else.",
        check=_errors_check,
        solution=_errors_solution,
        files=SHOP_LOG,
    ),
    Job(
        name="guest-mails",
        kind="extract",
        task="I want to write to everybody in my guest list, wedding/guests.md. Collect all the mail "
        "addresses in it into wedding/emails.txt, one per line and each only once.",
        check=_mails_check,
        solution=_mails_solution,
        files=GUESTS,
    ),
    Job(
        name="club-top-ten",
        kind="extract",
        task="For the notice board: from the three race results in the folder results, take all runners of "
        "the club SV Seeblick (the first team, not SV Seeblick II) who were among the first ten, and write "
        "them to seeblick.csv with the columns year,place,name, by year and then by place.",
        check=_race_check,
        solution=_race_solution,
        files=RACES,
        hard=True,
    ),
    Job(
        name="jpeg-to-jpg",
        kind="files",
        task="The website wants .jpg, so rename all the pictures in photos that end in .jpeg.",
        check=_photos_check,
        solution=_photos_solution,
        files=PHOTOS,
    ),
    Job(
        name="tidy-downloads",
        kind="files",
        task="Please tidy up my downloads folder: PDFs go to downloads/papers, csv and tsv files to "
        "downloads/tables, and the rest stays where it is.",
        check=_downloads_check,
        solution=_downloads_solution,
        files=DOWNLOADS,
    ),
    Job(
        name="sort-scans",
        kind="files",
        task="The scanner left 40 invoices in scans/. Sort them into invoices/YEAR/NUMBER.txt, for example "
        "invoices/2022/R-9999.txt; year (of the invoice date) and number are in the text. Some were scanned "
        "twice, keep one of each. Empty ones can be deleted. In the end there should be nothing left in "
        "scans.",
        check=_scans_check,
        solution=_scans_solution,
        files=SCANS,
        hard=True,
    ),
    Job(
        name="packing-list",
        kind="parts",
        task="My packing list trip/packing.txt is a mess. Take out what's in there twice, sort it from A to "
        "Z, and then write how many things are on it into trip/count.txt.",
        check=_packing_check,
        solution=_packing_solution,
        files=PACKING,
    ),
    Job(
        name="menu-folder",
        kind="parts",
        task="Make a folder menu with the files starters.md, mains.md and desserts.md, each one a list of "
        "the dishes from kitchen/dishes.json that belong there. And tell me how many dishes we have in "
        "total.",
        check=_menu_check,
        solution=_menu_solution,
        files=DISHES,
    ),
    Job(
        name="weather-release",
        kind="parts",
        task="I want to release the weather package as 0.5.0. First get test_weather.py to pass, the bug is "
        "in weather.py. Then add a function knots_to_kmh to weather.py (a knot is 1.852 km/h), set the "
        "version to 0.5.0 in weather.py and pyproject.toml, put a section 0.5.0 on top of the others in "
        "CHANGELOG.md which mentions the new function, and delete weather_old.py. Tell me what the bug was.",
        check=_release_check,
        solution=_release_solution,
        files=RELEASE,
        hard=True,
    ),
    Job(
        name="canoe-price",
        kind="page",
        task="What does a canoe cost for a whole day? See {site}/boats/hire.html",
        check=_hire_check,
        solution=lambda folder: "A canoe costs 34 € for the whole day.",
        pages={"/boats/hire.html": HIRE_PAGE},
    ),
    Job(
        name="talk-titles",
        kind="page",
        task="The program of the open day is at {site}/openday.html. Save the titles of the talks in "
        "talks.txt, one per line in the same order, only the titles.",
        check=_talks_check,
        solution=_talks_solution,
        pages={"/openday.html": TALKS_PAGE},
    ),
    Job(
        name="flea-market",
        kind="page",
        task="I'm looking for cheap things at the flea market, which starts at {site}/market/index.html and "
        "has several pages, each with a link to the next one. Save everything under 10 euros that isn't sold "
        "yet in cheap.csv with the columns item,price and tell me how many things that are.",
        check=_market_check,
        solution=_market_solution,
        pages=MARKET_PAGES,
        hard=True,
    ),
    Job(
        name="new-mobile",
        kind="ask",
        task="I have a new mobile number, please put it into site/contact.md.",
        check=_contact_check,
        solution=_contact_solution,
        files=CONTACT,
        reply="My new number is 0152 2361 0874.",
    ),
    Job(
        name="guest-language",
        kind="ask",
        task="Tomorrow our guests arrive. Translate welcome.txt into their language and save that as "
        "welcome_guests.txt. Ask me if anything is unclear.",
        check=_welcome_check,
        solution=_welcome_solution,
        files=WELCOME,
        reply="They come from Portugal, so in Portuguese please.",
    ),
    Job(
        name="fee-rise",
        kind="ask",
        task="The general meeting voted to raise some of our yearly fees. Please update them everywhere in "
        "the club folder: fees.json, join.md and mailer.py.",
        check=_fees_check,
        solution=_fees_solution,
        files=FEES,
        reply="Adults pay 97 euros now and families 172. Children stay at 40.",
        hard=True,
    ),
]
