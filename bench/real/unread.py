"""Forty-two small real jobs that nobody who develops the system reads."""

from __future__ import annotations

import ast
import configparser
import csv
import io
import json
import random
import re
import shutil
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.real.job import Job, passes, python
from bench.real.job import write as _write

# Helpers -------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?:[.,]\d+)?(?!\d)|\d[\d.,]*")


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text("utf-8-sig")


def _replace(folder: Path, name: str, *pairs: tuple[str, str]) -> None:
    text = _read(folder, name)
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    _write(folder, name, text)


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _kept(folder: Path, files: Mapping[str, str], *names: str) -> bool:
    """Whether these files (all, if none is named) are still as they were."""
    return all(_plain(_read(folder, name)) == _plain(files[name]) for name in names or files)


def _short(answer: str) -> bool:
    return 0 < len(answer.strip()) <= 600


def _readings(token: str) -> set[float]:
    """The values that a written number can have, with a dot or with a comma for decimals."""
    token = re.sub(r"[ \u00a0\u202f'’]", "", token).rstrip(".,")
    found: set[float] = set()
    for text in (token.replace(",", ""), token.replace(".", "").replace(",", ".")):
        try:
            found.add(float(text))
        except ValueError:
            continue
    return found


def _says(text: str, value: float, tolerance: float = 0.006) -> bool:
    """Whether a number of this value occurs in the text."""
    tokens = _NUMBER.findall(text)
    return any(abs(reading - value) <= tolerance for token in tokens for reading in _readings(token))


def _cell(text: str, value: float, tolerance: float = 0.006) -> bool:
    """Whether a cell holds this number and nothing else but a unit."""
    tokens = _NUMBER.findall(text)
    return len(tokens) == 1 and _says(text, value, tolerance)


def _has(text: str, *patterns: str) -> bool:
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _rows(folder: Path, name: str) -> list[list[str]]:
    """The rows of a CSV file, without empty ones, whatever its delimiter."""
    text = _read(folder, name)
    first = text.splitlines()[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in reader if any(cell.strip() for cell in row)]


def _records(folder: Path, name: str) -> list[dict[str, str]]:
    header, *rows = _rows(folder, name)
    header = [cell.lower() for cell in header]
    return [dict(zip(header, row, strict=True)) for row in rows]


def _table(header: str, rows: Iterable[Iterable[object]]) -> str:
    """A CSV text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header.split(","))
    writer.writerows(rows)
    return out.getvalue()


def _ini(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


def _tree(folder: Path, *tops: str) -> dict[str, str]:
    """The files below these folders with their texts, without hidden ones."""
    found: dict[str, str] = {}
    for top in tops:
        for path in sorted((folder / top).rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not any(part.startswith((".", "__")) for part in name.split("/")):
                found[name] = _plain(path.read_text("utf-8"))
    return found


def _yaml(text: str) -> list[tuple[str, str]]:
    """The values of a plain YAML file of maps and lists of scalars, by their path."""
    found: list[tuple[str, str]] = []
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        if not line.strip() or line.strip() == "---":
            continue
        body = line.strip()
        indent = 2 * (len(line) - len(body)) + body.startswith("- ")
        while stack and stack[-1][0] >= indent:
            stack.pop()
        path = ".".join(key for _, key in stack)
        if body.startswith("- "):
            found.append((f"{path}[]", body[2:].strip().strip("\"'")))
            continue
        key, _, value = body.partition(":")
        key = key.strip().strip("\"'")
        if value.strip():
            found.append((f"{path}.{key}", value.strip().strip("\"'")))
        else:
            stack.append((indent, key))
    return sorted(found)


def _probe(folder: Path, code: str) -> bool:
    """Whether this code runs in the folder without an error and prints OK at its end."""
    ran = python(folder, "-c", code + "\nprint('OK')\n")
    return ran.returncode == 0 and ran.stdout.rstrip().endswith("OK")


# world ---------------------------------------------------------------------------------------------


def _check_symbol(folder: Path, answer: str) -> bool:
    right = re.search(r"(?<![A-Za-z])K(?![A-Za-z])", answer)
    return _short(answer) and bool(right) and not re.search(r"\b(Po|Pt|Ka)\b", answer)


def _solve_symbol(folder: Path) -> str:
    return "The symbol of potassium is K."


def _check_arrival(folder: Path, answer: str) -> bool:
    clock = re.search(r"(?<![\d:.])0?8\s*[:.h]\s*25(?!\d)(?!\W*(text\W*)?p\.?m)", answer, re.IGNORECASE)
    words = _has(answer, r"(25|twenty[- ]five)( minutes)? past (8|eight)")
    return _short(answer) and bool(clock or words)


def _solve_arrival(folder: Path) -> str:
    return "You arrive at 08:25 the next morning."


_SEATS = ("Piet", "Noor", "Salma", "Viktor")


def _check_seats(folder: Path, answer: str) -> bool:
    if not 0 < len(answer) <= 1500:
        return False
    named = tuple(re.findall(r"\b(?:Piet|Noor|Salma|Viktor)\b", answer))
    if any(named[i : i + 4] == _SEATS for i in range(len(named) - 3)):
        return True
    return all(
        re.search(
            rf"\b{seat}\b\W{{1,8}}{name}\b|\b{name}\b\W*(is |sits |has )?(in |on )?(seat )?{seat}\b", answer
        )
        for seat, name in enumerate(_SEATS, 1)
    )


def _solve_seats(folder: Path) -> str:
    return "Seat 1: Piet, seat 2: Noor, seat 3: Salma, seat 4: Viktor."


# fact ----------------------------------------------------------------------------------------------

_KILN = {
    "studio/firing.md": """# Firing in the community studio

The big kiln is switched on by a member with a key, nobody else. Put your name on the shelf list
before Thursday noon, or your pots wait a week.

## Bisque

- slow rise, 80 degrees an hour, up to 600
- then 150 degrees an hour up to 998
- no hold
- open the lid below 120, not earlier

## Glaze

- 150 degrees an hour up to 573, slowly there because of the quartz
- full power up to 1222
- hold for 15 minutes
- open the lid below 90

## Raku

Only outside, only with two people, up to 945. Tongs and gloves are in the red chest.

## Cost

A shelf costs 14 euros for bisque and 19 euros for glaze. Pay into the tin, write it into the book.
""",
}


def _check_kiln(folder: Path, answer: str) -> bool:
    others = sum(_says(answer, value) for value in (998, 945, 600, 573))
    return _short(answer) and _says(answer, 1222) and others <= 1 and _kept(folder, _KILN)


def _solve_kiln(folder: Path) -> str:
    return "The glaze firing goes up to 1222 degrees."


_SLIDES = {
    "js/slides.js": """// Slide show on the screen in the entrance of the natural history museum.

const SETTINGS = {
  folder: "photos/entrance",
  waitMs: 4500, // until the next photo
  fadeMs: 800, // from one photo to the next
  reloadMs: 3600000, // the list of photos is read anew
  shuffle: false,
  caption: true,
};

let current = 0;

function show(photos, screen) {
  const photo = photos[current % photos.length];
  screen.style.transition = `opacity ${SETTINGS.fadeMs}ms`;
  screen.src = `${SETTINGS.folder}/${photo.file}`;
  if (SETTINGS.caption) {
    document.querySelector("#caption").textContent = photo.caption;
  }
  current += 1;
}

function start(photos) {
  const screen = document.querySelector("#screen");
  show(photos, screen);
  setInterval(() => show(photos, screen), SETTINGS.waitMs);
  setTimeout(() => location.reload(), SETTINGS.reloadMs);
}

fetch("photos.json")
  .then((response) => response.json())
  .then(start);
""",
    "css/slides.css": "#screen { width: 100%; }\n#caption { font-size: 2rem; color: white; }\n",
}


def _check_slides(folder: Path, answer: str) -> bool:
    seconds = _has(answer, r"\b4[.,]50*[\s-]*(s\b|sec)|four and a half seconds")
    right = _says(answer, 4500) or seconds
    wrong = sum(_says(answer, value) for value in (800, 3600000))
    return _short(answer) and right and wrong <= 1 and _kept(folder, _SLIDES)


def _solve_slides(folder: Path) -> str:
    return "It waits 4.5 seconds (4500 ms)."


_TANKS = (
    ("P-03", "Coral lagoon", "Ruben"),
    ("P-05", "Seahorses", "Imke"),
    ("P-08", "North Sea basin", "Halvor"),
    ("P-11", "Mangrove", "Cecilia"),
    ("P-14", "Octopus den", "Dorian"),
    ("P-17", "Moon jellies", "Teodora"),
    ("P-21", "Piranhas", "Yusuf"),
    ("P-24", "Ray pool", "Agnete"),
)


def _aquarium() -> dict[str, str]:
    rng = random.Random(1703)
    pumps = [pump for pump, _, _ in _TANKS]
    lines: list[str] = []
    for day in range(10, 18):
        for step in range(34):
            minute = step * 42 + rng.randrange(40)
            stamp = f"2024-03-{day:02} {minute // 60:02}:{minute % 60:02}:{rng.randrange(60):02}"
            event = rng.choice(("FLOW_OK", "FLOW_OK", "FLOW_OK", "FILTER_RINSED", "TEMP_OK", "PUMP_WARN"))
            lines.append(f"{stamp} {rng.choice(pumps)} {event} flow={rng.uniform(3, 9):.1f}")
    for stamp, pump in (
        ("2024-03-11 03:12:44", "P-08"),
        ("2024-03-12 23:50:01", "P-24"),
        ("2024-03-14 02:36:18", "P-17"),
        ("2024-03-14 15:20:33", "P-05"),
        ("2024-03-15 01:04:52", "P-21"),
        ("2024-03-16 11:41:09", "P-11"),
    ):
        lines.append(f"{stamp} {pump} PUMP_FAIL flow=0.0")
    tanks = [(pump, tank, keeper, 900 + 350 * n) for n, (pump, tank, keeper) in enumerate(_TANKS)]
    return {
        "logs/pumps.log": "\n".join(sorted(lines)) + "\n",
        "tanks.csv": _table("pump,tank,keeper,litres", tanks),
        "README.md": "Logs of the pumps are in logs/, PUMP_FAIL is a pump that stands still.\n",
    }


_AQUARIUM = _aquarium()


def _check_aquarium(folder: Path, answer: str) -> bool:
    others = [name for _, tank, keeper in _TANKS for name in (tank, keeper) if tank != "Moon jellies"]
    clean = not any(name.lower() in answer.lower() for name in others)
    return _short(answer) and _has(answer, r"moon jell", r"teodora") and clean and _kept(folder, _AQUARIUM)


def _solve_aquarium(folder: Path) -> str:
    return "It was the tank of the moon jellies (pump P-17); Teodora is its keeper."


# compute -------------------------------------------------------------------------------------------

_CHOIR = {
    "singers.csv": """name,voice,fee,paid
Agathe Roux,soprano,60,yes
Benno Falk,bass,60,no
Carla Nunes,alto,35,no
Dirk Maas,tenor,60,yes
Elif Aydin,soprano,35,yes
Finn Larsen,bass,60,no
Greta Olsson,alto,60,yes
Hana Kim,soprano,35,no
Ivo Petrov,tenor,48,no
Jule Brandt,alto,60,yes
""",
}


def _check_choir(folder: Path, answer: str) -> bool:
    return _short(answer) and _says(answer, 238) and _kept(folder, _CHOIR)


def _solve_choir(folder: Path) -> str:
    missing = sum(int(row["fee"]) for row in _records(folder, "singers.csv") if row["paid"] == "no")
    return f"{missing} are missing."


_HONEY_YARDS = {
    "Linden": [("L1", 18.4), ("L2", 22.1), ("L3", 15.9), ("L4", 20.0)],
    "Heath": [("H1", 11.2), ("H2", 9.7), ("H3", 14.3)],
    "Orchard": [("O1", 24.5), ("O2", 21.6)],
}
_HONEY = {
    "harvest.json": json.dumps(
        {
            "year": 2023,
            "unit": "kg",
            "yards": [
                {"name": yard, "hives": [{"id": hive, "honey": honey} for hive, honey in hives]}
                for yard, hives in _HONEY_YARDS.items()
            ],
        },
        indent=2,
    )
    + "\n",
}


def _check_honey(folder: Path, answer: str) -> bool:
    return _short(answer) and _says(answer, 19.1) and _kept(folder, _HONEY)


def _solve_honey(folder: Path) -> str:
    hives = json.loads(_read(folder, "harvest.json"))["yards"][0]["hives"]
    return f"On average {sum(hive['honey'] for hive in hives) / len(hives):.1f} kg."


_MECHANICS = ("Anouk", "Bertil", "Chidi", "Doreen", "Emre")


def _repairs() -> list[tuple[str, str, str, str, int, str]]:
    rng = random.Random(48)
    rows: list[tuple[str, str, str, str, int, str]] = []
    for number in range(430):
        month = 1 + number * 5 // 430
        date = f"2024-{month:02}-{rng.randrange(1, 29):02}"
        status = rng.choice(("finished", "finished", "finished", "waiting", "cancelled"))
        who = rng.choices(_MECHANICS, (5, 4, 5, 3, 4))[0]
        minutes = rng.randrange(2, 25) * 5
        rows.append((f"B{3100 + number}", date, who, status, minutes, f"{rng.randrange(0, 9000) / 100:.2f}"))
    return rows


_BIKES = {"workshop/repairs.csv": _table("ticket,date,mechanic,status,minutes,parts_eur", _repairs())}


def _earned() -> tuple[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for _, date, who, status, minutes, parts in _repairs():
        if date.startswith("2024-03") and status == "finished":
            sums[who] += minutes * 48 / 60 + float(parts)
    who = max(sums, key=lambda name: sums[name])
    return who, round(sums[who], 2)


def _check_bikes(folder: Path, answer: str) -> bool:
    who, amount = _earned()
    named = re.findall("|".join(_MECHANICS), answer)
    first = who in named and (named[0] == who or len(set(named)) < 3)
    return _short(answer) and first and _says(answer, amount, 0.06) and _kept(folder, _BIKES)


def _solve_bikes(folder: Path) -> str:
    who, amount = _earned()
    return f"{who} brought in the most: {amount:.2f} euros."


# program -------------------------------------------------------------------------------------------

_CHESS = {"players.txt": "Mo\nLena\nOskar\nRia\nTamsin\n"}


def _pairs_right(folder: Path, names: list[str]) -> bool:
    ran = python(folder, "pairs.py")
    lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
    found = [frozenset(re.split(r"\s+[-–]\s+", line)) for line in lines]
    wanted = {frozenset((a, b)) for n, a in enumerate(names) for b in names[n + 1 :]}
    return ran.returncode == 0 and len(found) == len(wanted) and set(found) == wanted


def _check_chess(folder: Path, answer: str) -> bool:
    if not _kept(folder, _CHESS) or not _pairs_right(folder, _CHESS["players.txt"].split()):
        return False
    before = (folder / "players.txt").read_bytes()
    try:
        _write(folder, "players.txt", "Ada\nBo\nCyril\n")
        return _pairs_right(folder, ["Ada", "Bo", "Cyril"])
    finally:
        (folder / "players.txt").write_bytes(before)


def _solve_chess(folder: Path) -> str:
    _write(
        folder,
        "pairs.py",
        "from itertools import combinations\nfrom pathlib import Path\n\n"
        "names = Path('players.txt').read_text().split()\n"
        "for a, b in combinations(names, 2):\n    print(f'{a} - {b}')\n",
    )
    return "pairs.py is there."


def _buoy(name: str, count: int) -> str:
    return "".join(f"{n * 7 % 24:02}:00 {name} wave {1 + n % 4}.{n % 10} m\n" for n in range(count))


_BUOYS = {
    "logs/north.log": _buoy("north", 12),
    "logs/harbour.log": _buoy("harbour", 7),
    "logs/reef.log": _buoy("reef", 19),
    "logs/readme.txt": "One log per buoy.\nSent every hour.\n",
}


def _tally_right(folder: Path, wanted: Mapping[str, int]) -> bool:
    ran = subprocess.run(
        ["bash", "tally.sh"], cwd=folder, capture_output=True, text=True, timeout=20, check=False
    )
    lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
    found = [re.fullmatch(r"(?:\./)?(?:logs/)?([\w-]+\.log)\s*:?\s*(\d+)", line) for line in lines]
    return all(found) and sorted(m.groups() for m in found if m) == sorted(
        (name, str(count)) for name, count in wanted.items()
    )


def _check_tally(folder: Path, answer: str) -> bool:
    counts = {"north.log": 12, "harbour.log": 7, "reef.log": 19}
    if not _kept(folder, _BUOYS) or not _tally_right(folder, counts):
        return False
    more = folder / "logs" / "south-pier.log"
    try:
        more.write_text(_buoy("south", 5), "utf-8")
        return _tally_right(folder, {**counts, "south-pier.log": 5})
    finally:
        more.unlink()


def _solve_tally(folder: Path) -> str:
    _write(
        folder,
        "tally.sh",
        '#!/bin/bash\nfor f in logs/*.log; do\n  echo "$(basename "$f") $(wc -l < "$f")"\ndone\n',
    )
    return "tally.sh prints the counts."


def _boulders(seed: int, names: Iterable[str]) -> list[tuple[str, str, int, str]]:
    rng = random.Random(seed)
    rows = [
        (name, f"B{boulder}", rng.randrange(1, 6), rng.choice(("yes", "yes", "no")))
        for name in names
        for boulder in range(1, 7)
    ]
    rng.shuffle(rows)
    return rows


_BOULDER_HEADER = "climber,boulder,attempts,topped"
_BOULDERS = {
    "results.csv": _table(_BOULDER_HEADER, _boulders(5, ("Aiko", "Bram", "Cleo", "Dov", "Esra", "Fabio")))
}
_BOULDERS_MORE = [
    *(("Zoe", f"B{n}", 1, "yes") for n in range(1, 6)),  # five tops, four count: 400
    *(("Yan", f"B{n}", 1, "yes") for n in range(1, 5)),
    *(("Kim", f"B{n}", 2, "yes") for n in range(1, 4)),
    ("Kim", "B4", 14, "yes"),  # 20 and not less
    ("Ulf", "B1", 3, "no"),
    *(("Lou", f"B{n}", 2, "yes") for n in range(2, 5)),
    ("Lou", "B5", 9, "yes"),
    ("Mia", "B1", 4, "yes"),
    ("Mia", "B2", 6, "no"),
]


def _ranking(rows: Iterable[tuple[str, str, int, str]]) -> list[list[str]]:
    points: dict[str, list[int]] = defaultdict(list)
    for name, _, attempts, topped in rows:
        points[name].append(max(20, 110 - 10 * attempts) if topped == "yes" else 0)
    sums = {name: sum(sorted(got)[-4:]) for name, got in points.items()}
    order = sorted(sums, key=lambda name: (-sums[name], name))
    return [[str(1 + sum(s > sums[n] for s in sums.values())), n, str(sums[n])] for n in order]


def _rank_right(folder: Path, file: str, rows: Iterable[tuple[str, str, int, str]]) -> bool:
    ran = python(folder, "rank.py", file)
    return [line.split() for line in ran.stdout.splitlines() if line.strip()] == _ranking(rows)


def _check_boulders(folder: Path, answer: str) -> bool:
    first = _boulders(5, ("Aiko", "Bram", "Cleo", "Dov", "Esra", "Fabio"))
    if not _kept(folder, _BOULDERS) or not _rank_right(folder, "results.csv", first):
        return False
    other = folder / "finals_2.csv"
    second = _boulders(11, ("Nils", "Odette", "Pau", "Quinn", "Rosa", "Sami", "Theo", "Uma"))
    try:
        for rows in (_BOULDERS_MORE, second):
            other.write_text(_table(_BOULDER_HEADER, rows), "utf-8")
            if not _rank_right(folder, "finals_2.csv", rows):
                return False
        return True
    finally:
        other.unlink()


def _solve_boulders(folder: Path) -> str:
    _write(
        folder,
        "rank.py",
        """import csv
import sys

points = {}
with open(sys.argv[1], newline="") as file:
    for row in csv.DictReader(file):
        got = max(20, 110 - 10 * int(row["attempts"])) if row["topped"] == "yes" else 0
        points.setdefault(row["climber"], []).append(got)
sums = {name: sum(sorted(got)[-4:]) for name, got in points.items()}
for name in sorted(sums, key=lambda n: (-sums[n], n)):
    print(1 + sum(s > sums[name] for s in sums.values()), name, sums[name])
""",
    )
    return "rank.py is written."


# text ----------------------------------------------------------------------------------------------


def _check_pool(folder: Path, answer: str) -> bool:
    text = _read(folder, "notice.md")
    digits = re.sub(r"[^\d]", "", text)
    return (
        40 <= len(re.findall(r"\w+", text)) <= 170
        and _has(text, r"\b12", r"\b16", r"\baug", r"pump|filter", r"closed|closure|close|shut")
        and "0341555210" in digits
    )


def _solve_pool(folder: Path) -> str:
    _write(
        folder,
        "notice.md",
        "# The outdoor pool is closed\n\nDear visitors,\n\n"
        "from 12 to 16 August our outdoor pool stays closed, "
        "because we replace the old filter pump. We are sorry for the missed swim, and we look forward to "
        "seeing you again in clear water on 17 August.\n\nIf you have a question, just call us: 0341 555 210."
        "\n\nYour pool team\n",
    )
    return "The notice is in notice.md."


_DONORS = {
    "donors.csv": """name,amount,purpose
Ellen Whitlock,850,audio books
Tomasz Zielinski,1200,new chairs in the reading room
Farida Haddad,2400,a ramp at the side entrance
Gordon Pike,300,cookery books
Sun-Hee Park,1950,the reading bus
""",
}


def _check_thanks(folder: Path, answer: str) -> bool:
    text = _read(folder, "thanks.txt")
    others = ("Whitlock", "Zielinski", "Pike", "Sun-Hee")
    return (
        _kept(folder, _DONORS)
        and 30 <= len(text.split()) <= 400
        and _has(
            text, r"haddad", r"\bramp\b", r"thank|grateful|gratitude", r"maren holt", r"riverside library"
        )
        and _says(text, 2400)
        and not any(name in text for name in others)
    )


def _solve_thanks(folder: Path) -> str:
    _write(
        folder,
        "thanks.txt",
        "Dear Farida Haddad,\n\nthank you very much for your donation of 2,400 euros. It pays for a ramp "
        "at the side entrance, so that everybody can come in without help. "
        "We will invite you when it is opened.\n\n"
        "With kind regards\nMaren Holt, Riverside Library\n",
    )
    return "The letter to Farida Haddad is in thanks.txt."


_TRAIL_NEW = ("show", "export", "remember", "print", "share", "search for", "filter by")
_TRAIL_FIX = ("correct", "align", "speed up", "do not repeat", "do not cut off", "refresh", "do not lose")
_TRAIL_THINGS = (
    "huts on the overview map",
    "the height profile",
    "springs along a trail",
    "walking times",
    "ferry stops",
    "photos of a stage",
    "warnings of rock fall",
    "the legend",
    "distances in miles",
    "the last trail",
    "bus stops at the trailhead",
)
_TRAIL_CHORES = ("chore: update the map tiles", "docs: explain the import", "refactor: split the router")


def _history() -> tuple[str, set[str], set[str]]:
    """The history, and the tickets that are new and fixed since v2.2."""
    rng = random.Random(22)
    lines: list[str] = []
    new: dict[str, str] = {}
    fixed: dict[str, str] = {}
    oldest_first = [f"{a} {b}" for b in _TRAIL_THINGS for a in _TRAIL_NEW]
    fixes = [f"{a} {b}" for b in _TRAIL_THINGS for a in _TRAIL_FIX]
    rng.shuffle(oldest_first)
    rng.shuffle(fixes)
    ticket, day = 300, 0
    for number in range(225):
        day += rng.randrange(0, 2)
        date = f"2024-{1 + day // 28:02}-{1 + day % 28:02}"
        if number == 80:
            lines.append(f"=== v2.1 released {date} ===")
        if number == 155:
            lines.append(f"=== v2.2 released {date} ===")
            new, fixed = {}, {}
        ticket += rng.randrange(1, 4)
        roll = rng.random()
        if number in (190, 214):
            which = new if number == 190 else fixed
            gone = sorted(which)[1]
            text = f"revert: {which.pop(gone)} ({gone})"
        elif roll < 0.28:
            subject = oldest_first.pop()
            new[f"#{ticket}"] = subject
            text = f"feat: {subject} (#{ticket})"
        elif roll < 0.5:
            subject = fixes.pop()
            fixed[f"#{ticket}"] = subject
            text = f"fix: {subject} (#{ticket})"
        else:
            text = f"{rng.choice(_TRAIL_CHORES)} (#{ticket})"
        lines.append(f"{rng.randrange(16**7):07x} {date} {text}")
    return "\n".join(reversed(lines)) + "\n", set(new), set(fixed)


_TRAIL_TEXT, _TRAIL_ADDED, _TRAIL_REPAIRED = _history()
_TRAIL = {"history.txt": _TRAIL_TEXT}


def _check_release(folder: Path, answer: str) -> bool:
    text = _read(folder, "RELEASE.md")
    sections: dict[str, list[str]] = {"new": [], "fixed": []}
    current = ""
    for line in text.splitlines():
        found = re.search(r"\b(new|fixed)\b", line, re.IGNORECASE)
        heading = re.match(r"\s*(#+\s|\*\*|__)", line) or re.fullmatch(
            r"\W*(new|fixed)\W*", line, re.IGNORECASE
        )
        if heading and found and not re.search(r"#\d", line):
            current = found[1].lower()
        tickets = re.findall(r"#\d+", line)
        if tickets:
            if len(re.findall(r"[A-Za-z]{2,}", line)) < 2:
                return False
            sections[current].extend(tickets)
    return (
        _kept(folder, _TRAIL)
        and "2.3" in text
        and sorted(sections["new"]) == sorted(_TRAIL_ADDED)
        and sorted(sections["fixed"]) == sorted(_TRAIL_REPAIRED)
    )


def _solve_release(folder: Path) -> str:
    recent = _read(folder, "history.txt").split("=== v2.2")[0].splitlines()
    gone = {re.findall(r"#\d+", line)[0] for line in recent if " revert: " in line}
    text = "# Release 2.3\n"
    for heading, mark in (("New", " feat: "), ("Fixed", " fix: ")):
        kept = [line.split(mark)[1] for line in recent if mark in line]
        items = [item for item in kept if re.findall(r"#\d+", item)[0] not in gone]
        text += f"\n## {heading}\n\n" + "".join(f"- {item}\n" for item in items)
    _write(folder, "RELEASE.md", text)
    return "RELEASE.md is written."


# fix -----------------------------------------------------------------------------------------------

_KENNEL = {
    "kennel.py": '''"""Dogs of the shelter and their kennels."""


def admit(dog, kennel=[]):
    """Put a dog into a kennel, into a new one if none is given, and return the kennel."""
    kennel.append(dog)
    return kennel


def label(kennel):
    """What is written on the door."""
    return ", ".join(sorted(kennel)) or "empty"
''',
    "test_kennel.py": """from kennel import admit, label


def test_each_dog_gets_its_own_kennel():
    admit("Rex")
    assert admit("Luna") == ["Luna"]


def test_given_kennel_is_used():
    kennel = []
    admit("Bo", kennel)
    admit("Ada", kennel)
    assert kennel == ["Bo", "Ada"]


def test_label():
    assert label(admit("Wim")) == "Wim"
    assert label([]) == "empty"
""",
}


def _check_kennel(folder: Path, answer: str) -> bool:
    probe = """
from kennel import admit, label
assert admit('a') == ['a'] and admit('b') == ['b'] and admit('c', kennel=['x']) == ['x', 'c']
mine = []
assert admit('d', mine) is mine and label(['b', 'a']) == 'a, b'
"""
    return (
        _kept(folder, _KENNEL, "test_kennel.py")
        and passes(folder, "test_kennel.py")
        and _probe(folder, probe)
    )


def _solve_kennel(folder: Path) -> str:
    _replace(
        folder,
        "kennel.py",
        ("kennel=[]", "kennel=None"),
        ("    kennel.append", "    if kennel is None:\n        kennel = []\n    kennel.append"),
    )
    return "The default kennel was shared between calls; fixed in kennel.py."


_STARS = {
    "stars.csv": """name,ra,dec,magnitude
Polaris,02:31:49,+89:15:51,1.98
Aldebaran,04:35:55,+16:30:33,0.86
Rigel,05:14:32,-08:12:06,0.13
Capella,05:16:41,+45:59:53,0.08
Bellatrix,05:25:08,+06:20:59,1.64
Mintaka,05:32:00,-00:17:57,2.23
Alnilam,05:36:13,-01:12:07,1.69
Alnitak,05:40:46,-01:56:34,1.77
Saiph,05:47:45,-09:40:11,2.06
Betelgeuse,05:55:10,+07:24:25,0.42
Sirius,06:45:09,-16:42:58,-1.46
Procyon,07:39:18,+05:13:30,0.34
Pollux,07:45:19,+28:01:34,1.14
Regulus,10:08:22,+11:58:02,1.40
Spica,13:25:12,-11:09:41,0.97
Arcturus,14:15:40,+19:10:57,-0.05
Antares,16:29:24,-26:25:55,1.06
Vega,18:36:56,+38:47:01,0.03
Altair,19:50:47,+08:52:06,0.76
Deneb,20:41:26,+45:16:49,1.25
Sadalmelik,22:05:47,-00:19:11,2.94
Fomalhaut,22:57:39,-29:37:20,1.16
""",
    "angles.py": '''"""Angles: from text to degrees and back."""


def parse_dms(text):
    """The degrees of an angle such as '-05:23:28' or '+12 30 00'."""
    degrees, minutes, seconds = (text.replace(":", " ").split() + ["0", "0"])[:3]
    whole = int(degrees)
    rest = int(minutes) / 60 + float(seconds) / 3600
    if whole < 0:
        return whole - rest
    return whole + rest


def parse_hms(text):
    """The degrees of a right ascension such as '05:32:00'."""
    hours, minutes, seconds = text.split(":")
    return 15 * (int(hours) + int(minutes) / 60 + float(seconds) / 3600)


def format_dms(value):
    """An angle as text, with a sign."""
    sign = "-" if value < 0 else "+"
    seconds = round(abs(value) * 3600)
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def between(value, low=0.0, high=360.0):
    """The same direction between low and high."""
    width = high - low
    return (value - low) % width + low
''',
    "catalogue.py": '''"""The stars of the catalogue."""

import csv
from dataclasses import dataclass
from pathlib import Path

from angles import parse_dms, parse_hms


@dataclass(frozen=True)
class Star:
    """One star; its angles are in degrees."""

    name: str
    ra: float
    dec: float
    magnitude: float


def load(path="stars.csv"):
    """All stars by their name."""
    stars = {}
    with Path(path).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            stars[row["name"]] = Star(
                row["name"], parse_hms(row["ra"]), parse_dms(row["dec"]), float(row["magnitude"])
            )
    return stars


def brighter_than(stars, limit):
    """The names of the stars brighter than this magnitude, the brightest first."""
    found = [star for star in stars.values() if star.magnitude < limit]
    return [star.name for star in sorted(found, key=lambda star: star.magnitude)]
''',
    "visibility.py": '''"""What can be seen from the terrace of the observatory."""

from catalogue import load

LATITUDE = 52.0
HEDGE = 12.0  # degrees that the hedge hides


def highest(star, latitude=LATITUDE):
    """How high a star rises, in degrees above the horizon."""
    if star.dec > latitude:
        return 90 - (star.dec - latitude)
    return 90 - (latitude - star.dec)


def never_sets(star, latitude=LATITUDE):
    """Whether a star is above the horizon all night."""
    return star.dec > 90 - latitude


def visible(stars, latitude=LATITUDE):
    """The names of the stars that rise above the hedge, the highest first."""
    above = [star for star in stars.values() if highest(star, latitude) > HEDGE]
    return [star.name for star in sorted(above, key=lambda star: -highest(star, latitude))]


def southern(stars):
    """The names of the stars south of the celestial equator."""
    return sorted(star.name for star in stars.values() if star.dec < 0)


def report(path="stars.csv"):
    """One line for each visible star."""
    stars = load(path)
    return [f"{name:12} {highest(stars[name]):5.1f}" for name in visible(stars)]
''',
    "test_visibility.py": """import pytest
from catalogue import brighter_than, load
from visibility import highest, never_sets, southern, visible

STARS = load()


@pytest.mark.parametrize(
    ("name", "degrees"),
    [("Sirius", 21.3), ("Vega", 76.8), ("Polaris", 52.7), ("Mintaka", 37.7), ("Sadalmelik", 37.7)],
)
def test_highest(name, degrees):
    assert highest(STARS[name]) == pytest.approx(degrees, abs=0.06)


def test_the_belt_from_top_to_bottom():
    belt = [name for name in visible(STARS) if name in ("Alnitak", "Mintaka", "Alnilam")]
    assert belt == ["Mintaka", "Alnilam", "Alnitak"]


def test_southern():
    assert {"Mintaka", "Rigel", "Sadalmelik"} <= set(southern(STARS))
    assert "Procyon" not in southern(STARS)


def test_never_sets():
    assert never_sets(STARS["Deneb"])
    assert not never_sets(STARS["Altair"])


def test_brightest():
    assert brighter_than(STARS, 0.1) == ["Sirius", "Arcturus", "Vega", "Capella"]
""",
}


def _check_stars(folder: Path, answer: str) -> bool:
    probe = """
from angles import parse_dms, parse_hms
def near(text, value):
    assert abs(parse_dms(text) - value) < 1e-6, text
near('-00:30:00', -0.5); near('+00:30:00', 0.5); near('00:30:00', 0.5); near('-12:30:00', -12.5)
near('+12 30 00', 12.5); near('-05:00:36', -5.01); near('-00 15', -0.25); near('7', 7)
assert parse_hms('05:32:00') == 83.0
"""
    return (
        _kept(folder, _STARS, "stars.csv", "test_visibility.py")
        and passes(folder, "test_visibility.py")
        and _probe(folder, probe)
    )


def _solve_stars(folder: Path) -> str:
    _replace(folder, "angles.py", ("    if whole < 0:\n", '    if text.strip().startswith("-"):\n'))
    return "parse_dms lost the sign of angles between -1 and 0 degrees; fixed in angles.py."


_TOUR_PLACES = {
    "Moor": "Ahlen Bruck Dorum Elmloh Flögeln Geeste Hymendorf Köhlen Lintig Neuenwalde Ringstedt Steinau",
    "Coast": "Aberdor Balmore Cullen Durness Embo Findhorn Golspie Helmsdale Inverbervie Kinloss Lossie",
    "Ridge": "Altwies Birkenau Drachenbronn Eulbach Felsberg Gersprenz Hohenfels Kirchheim Lorbach Mudau",
    "Lakes": "Ansvik Bredsel Deje Eksund Finnskoga Grums Hagfors Lysvik Munkfors Ransby Sunne Torsby",
}


def _tours() -> list[dict[str, Any]]:
    rng = random.Random(71)
    stages: list[dict[str, Any]] = []
    for tour, text in _TOUR_PLACES.items():
        places = text.split()
        for number in range(len(places) - 1):
            stages.append(
                {
                    "tour": tour,
                    "stage": number + 1,
                    "from": places[number],
                    "to": places[number + 1],
                    "km": rng.randrange(90, 260) / 10,
                    "climb_m": rng.randrange(3, 90) * 10,
                }
            )
    coast = next(stage for stage in stages if stage["tour"] == "Coast" and stage["stage"] == 4)
    coast["km"] = 18.6
    return stages


def _tours_text(stages: list[dict[str, Any]]) -> str:
    content = {"imported": "2024-06-02", "stages": stages}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _tour_files() -> dict[str, str]:
    stages = _tours()
    lengths = {
        tour: round(sum(stage["km"] for stage in stages if stage["tour"] == tour), 1) for tour in _TOUR_PLACES
    }
    broken = _tours()
    for stage in broken:
        if (stage["tour"], stage["stage"]) == ("Coast", 4):
            stage["km"] = 16.8
        if (stage["tour"], stage["stage"]) == ("Ridge", 7):
            stage["from"] = "Hohenfals"
    signs = [(s["tour"], s["stage"], s["from"], s["to"], s["km"]) for s in stages]
    return {
        "data/tours.json": _tours_text(broken),
        "data/signposts.csv": _table("tour,stage,from,to,km", signs),
        "planner.py": '''"""Walking tours of several stages."""

import json
from pathlib import Path

DATA = Path(__file__).parent / "data" / "tours.json"


def stages(tour):
    """The stages of a tour in their order."""
    found = [s for s in json.loads(DATA.read_text("utf-8"))["stages"] if s["tour"] == tour]
    return sorted(found, key=lambda s: s["stage"])


def length(tour):
    """The length of a whole tour in km."""
    return round(sum(s["km"] for s in stages(tour)), 1)


def gaps(tour):
    """The stages that do not start where the one before ended."""
    found = stages(tour)
    return [b["stage"] for a, b in zip(found, found[1:]) if a["to"] != b["from"]]


def climb(tour):
    """All metres uphill of a tour."""
    return sum(s["climb_m"] for s in stages(tour))


def longest(tour):
    """The number of the longest stage."""
    return max(stages(tour), key=lambda s: s["km"])["stage"]
''',
        "test_planner.py": f"""import pytest
from planner import climb, gaps, length

LENGTHS = {json.dumps(lengths)}


@pytest.mark.parametrize("tour", LENGTHS)
def test_length(tour):
    assert length(tour) == LENGTHS[tour]


@pytest.mark.parametrize("tour", LENGTHS)
def test_no_gaps(tour):
    assert gaps(tour) == []


def test_climb():
    assert climb("Moor") > 0
""",
    }


_TOURS = _tour_files()


def _check_tours(folder: Path, answer: str) -> bool:
    data = json.loads(_read(folder, "data/tours.json"))
    return (
        _kept(folder, _TOURS, "planner.py", "test_planner.py", "data/signposts.csv")
        and data == {"imported": "2024-06-02", "stages": _tours()}
        and passes(folder, "test_planner.py")
    )


def _solve_tours(folder: Path) -> str:
    _write(folder, "data/tours.json", _tours_text(_tours()))
    return "Two wrong entries in data/tours.json: Coast stage 4 and Ridge stage 7."


# change --------------------------------------------------------------------------------------------

_NURSERY = {
    "nursery/stock.py": '''"""How many pots of each plant to order."""

MINIMUM = 12


def calc(have, sold_last_week):
    """The pots to order, so that two weeks are covered."""
    return max(0, 2 * sold_last_week - have, MINIMUM - have)


def order_line(plant, have, sold_last_week):
    """One line of the order."""
    return f"{plant}: {calc(have, sold_last_week)}"
''',
    "nursery/monday.py": '''"""Print the order of this Monday."""

from stock import calc, order_line

SHELF = [("thyme", 40, 8), ("lavender", 6, 15), ("sage", 0, 2)]

for plant, have, sold in SHELF:
    if calc(have, sold):
        print(order_line(plant, have, sold))
print("pots in all:", sum(calc(have, sold) for _, have, sold in SHELF))
''',
}


def _check_nursery(folder: Path, answer: str) -> bool:
    texts = [_read(folder, name) for name in _NURSERY]
    ran = python(folder, "nursery/monday.py")
    probe = """
import sys
sys.path.insert(0, 'nursery')
import stock
assert stock.restock_amount(5, 10) == 15 and stock.restock_amount(1, 1) == 11
assert stock.restock_amount(90, 3) == 0 and not hasattr(stock, 'calc')
assert stock.order_line('mint', 5, 10) == 'mint: 15' and stock.MINIMUM == 12
"""
    return (
        not any(re.search(r"\bcalc\b", text) for text in texts)
        and all("restock_amount" in text for text in texts)
        and ran.stdout.split() == ["lavender:", "24", "sage:", "12", "pots", "in", "all:", "36"]
        and _probe(folder, probe)
    )


def _solve_nursery(folder: Path) -> str:
    for name in _NURSERY:
        _replace(folder, name, ("calc", "restock_amount"))
    return "Renamed in both files."


_HOPS = {
    "brewing/hops.py": '''"""Bitterness and strength of a brew."""

import math


def utilisation(minutes, gravity):
    """The share of the bitterness that gets into the beer."""
    bigness = 1.65 * 0.000125 ** (gravity - 1)
    return bigness * (1 - math.exp(-0.04 * minutes)) / 4.15


def bitterness(grams, alpha, litres, minutes, gravity):
    return grams * alpha * 10 / litres * utilisation(minutes, gravity)


def strength(original, final):
    return round((original - final) * 131.25, 1)


class Kettle:
    """A kettle with its losses."""

    def __init__(self, litres):
        """Make a kettle of this size."""
        self.litres = litres

    def after(self, hours):
        return self.litres - 3.5 * hours
''',
}


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _undocumented(tree: ast.Module) -> str:
    """The code without the docstrings of its functions."""
    for node in _functions(tree).values():
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _check_hops(folder: Path, answer: str) -> bool:
    before, after = ast.parse(_HOPS["brewing/hops.py"]), ast.parse(_read(folder, "brewing/hops.py"))
    was, now = _functions(before), _functions(after)
    told = all(len((ast.get_docstring(node) or "").split()) >= 2 for node in now.values())
    same = all(ast.get_docstring(now[n]) == ast.get_docstring(was[n]) for n in ("utilisation", "__init__"))
    return told and same and _undocumented(before) == _undocumented(after)


def _solve_hops(folder: Path) -> str:
    _replace(
        folder,
        "brewing/hops.py",
        ("    return grams", '    """The bitterness of the brew in IBU."""\n    return grams'),
        ("    return round", '    """The alcohol in percent of the volume."""\n    return round'),
        ("        return self.l", '        """The litres left after boiling."""\n        return self.l'),
    )
    return "Three functions got a docstring."


_FERRY = {
    "ferry/model.py": '''"""Tickets of the island ferry."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ticket:
    """A ticket of one passenger."""

    number: int
    passenger: str
    route: str
    age: int = 30
    islander: bool = False

    @property
    def child(self):
        """Whether the passenger travels for half the price."""
        return self.age < 14
''',
    "ferry/pricing.py": '''"""What a ticket costs, in cents."""

from ferry.model import Ticket

ROUTES = {"short": 920, "long": 1840, "night": 2600}


def price(ticket: Ticket) -> int:
    """The price of one ticket: half for children, a quarter off for islanders."""
    cents = ROUTES[ticket.route]
    if ticket.child:
        cents = cents // 2
    if ticket.islander:
        cents = cents * 3 // 4
    return cents


def total(tickets) -> int:
    """The price of several tickets; ten or more get a tenth off."""
    cents = sum(price(ticket) for ticket in tickets)
    return cents * 9 // 10 if len(tickets) >= 10 else cents
''',
    "ferry/export.py": '''"""The list of passengers for the crew."""

import csv
import io

from ferry.pricing import price

COLUMNS = ["number", "passenger", "route", "price"]


def row(ticket):
    """One line of the list."""
    return [ticket.number, ticket.passenger, ticket.route, f"{price(ticket) / 100:.2f}"]


def to_csv(tickets):
    """The whole list as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\\n")
    writer.writerow(COLUMNS)
    writer.writerows(row(ticket) for ticket in tickets)
    return out.getvalue()
''',
    "ferry/__init__.py": "",
    "test_ferry.py": """from ferry.export import row, to_csv
from ferry.model import Ticket
from ferry.pricing import price, total


def test_price():
    assert price(Ticket(1, "Una", "long")) == 1840
    assert price(Ticket(2, "Kit", "long", age=9)) == 920


def test_islander():
    assert price(Ticket(3, "Roy", "short", islander=True)) == 690


def test_total():
    assert total([Ticket(n, "Guest", "short") for n in range(10)]) == 8280


def test_row():
    assert row(Ticket(4, "Iris", "night"))[:4] == [4, "Iris", "night", "26.00"]


def test_csv_has_a_line_per_ticket():
    assert len(to_csv([Ticket(5, "Abe", "short"), Ticket(6, "Joy", "short")]).splitlines()) == 3
""",
}


def _check_ferry(folder: Path, answer: str) -> bool:
    probe = """
import csv, io
from ferry.export import to_csv
from ferry.model import Ticket
from ferry.pricing import price, total
assert Ticket(1, 'A', 'long').bicycle is False
bike = Ticket(2, 'B', 'short', bicycle=True)
kid = Ticket(3, 'C', 'long', age=9, islander=True, bicycle=True)
assert price(bike) == 1370 and price(kid) == 690 + 450
assert price(Ticket(4, 'D', 'night')) == 2600 and price(Ticket(5, 'E', 'short', 40, True)) == 690
assert total([bike, kid]) == 2510
lines = list(csv.reader(io.StringIO(to_csv([bike, kid, Ticket(6, 'F', 'night')]))))
assert lines[0] == ['number', 'passenger', 'route', 'price', 'bicycle'], lines
assert lines[1] == ['2', 'B', 'short', '13.70', 'yes'] and lines[3] == ['6', 'F', 'night', '26.00', 'no']
"""
    text = _read(folder, "test_ferry.py")
    original = _FERRY["test_ferry.py"]
    bodies = [_plain(part) for part in original.split("\n\n\n")[1:]]
    more = len(re.findall(r"^\s*def test_", text, re.MULTILINE)) > len(bodies)
    return (
        all(body in _plain(text) for body in bodies)
        and more
        and "bicycle" in text
        and passes(folder, "test_ferry.py")
        and _probe(folder, probe)
    )


def _solve_ferry(folder: Path) -> str:
    _replace(
        folder,
        "ferry/model.py",
        ("islander: bool = False\n", "islander: bool = False\n    bicycle: bool = False\n"),
    )
    _replace(
        folder,
        "ferry/pricing.py",
        ("3 // 4\n    return", "3 // 4\n    if ticket.bicycle:\n        cents += BICYCLE\n    return"),
        ("2600}\n", "2600}\nBICYCLE = 450\n"),
    )
    _replace(
        folder,
        "ferry/export.py",
        ('"price"]', '"price", "bicycle"]'),
        (
            'f"{price(ticket) / 100:.2f}"]',
            'f"{price(ticket) / 100:.2f}", "yes" if ticket.bicycle else "no"]',
        ),
    )
    more = "\n\ndef test_bicycle():\n    assert price(Ticket(7, 'Bea', 'short', bicycle=True)) == 1370\n"
    _write(folder, "test_ferry.py", _read(folder, "test_ferry.py") + more)
    return "Bicycles are in: field, price, column and a test."


# config --------------------------------------------------------------------------------------------

_KIOSK: dict[str, Any] = {
    "title": "Visitor kiosk",
    "language": "en",
    "display": {"brightness": 80, "sleep_minutes": 5, "portrait": True},
    "sound": {"enabled": True, "volume": 40},
    "pages": ["map", "events", "cafe"],
    "refresh_minutes": 5,
}
_KIOSK_FILES = {"kiosk.json": json.dumps(_KIOSK, indent=2) + "\n"}


def _check_kiosk(folder: Path, answer: str) -> bool:
    wanted = json.loads(json.dumps(_KIOSK))
    wanted["display"]["sleep_minutes"] = 20
    wanted["sound"]["enabled"] = False
    found = json.loads(_read(folder, "kiosk.json"))
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def _solve_kiosk(folder: Path) -> str:
    _replace(
        folder,
        "kiosk.json",
        ('"sleep_minutes": 5', '"sleep_minutes": 20'),
        ('"enabled": true', '"enabled": false'),
    )
    return "The screen sleeps after 20 minutes and the sound is off."


_BACKUP = {
    "backup.yaml": """# nightly backup of the carpentry's computer
source: /srv/carpentry
target:
  host: nas.local
  port: 2214
  folder: /volume1/carpentry
schedule:
  hour: 2
  minute: 14
retention:
  keep_days: 14
  keep_months: 12
exclude:
  - "*.tmp"
  - cache/
notify: office@planeandsaw.example
""",
}


def _check_backup(folder: Path, answer: str) -> bool:
    wanted = _yaml(_BACKUP["backup.yaml"].replace("keep_days: 14", "keep_days: 30"))
    return _yaml(_read(folder, "backup.yaml")) == wanted


def _solve_backup(folder: Path) -> str:
    _replace(folder, "backup.yaml", ("keep_days: 14", "keep_days: 30"))
    return "keep_days is 30 now."


_STATION_NAMES = (
    "Alder Bank",
    "Birch Hill",
    "Cold Brook",
    "Deer Gate",
    "East Fell",
    "Fox Moss",
    "Grey Tarn",
    "High Cross",
    "Iron Well",
    "Jay Wood",
    "Kite Rock",
    "Lark Field",
    "Mill Pond",
    "Nettle End",
    "Otter Ford",
    "Pine Top",
    "Quarry",
    "Raven Crag",
    "Stone Row",
    "Thorn Lea",
    "Upper Weir",
    "Vole Dyke",
    "White Scar",
    "Yew Tree",
    "Ash Holt",
    "Bell Barn",
    "Crow Nest",
    "Dove Dale",
    "Elm Grove",
    "Fern Pass",
    "Goose Green",
    "Hazel Bank",
    "Ivy Bridge",
    "Juniper",
    "Knoll",
    "Long Mynd",
    "Marsh End",
    "Nine Wells",
)


def _stations() -> str:
    rng = random.Random(38)
    text = "[defaults]\ntimeout = 20\nretries = 3\nserver = collect.weather.example\n"
    for number, name in enumerate(_STATION_NAMES, 1):
        region = rng.choice(("north", "north", "south", "coast", "hills"))
        manual = rng.random() < 0.25
        interval = 10 if region == "north" else rng.choice((10, 10, 15, 60))
        text += f"\n[station-{number:02}]\nname = {name}\nregion = {region}\n"
        text += f"manual = {'yes' if manual else 'no'}\ninterval = {interval}\n"
        text += f"altitude = {rng.randrange(5, 900)}\n"
    return text


_STATIONS = {
    "conf/stations.ini": _stations(),
    "conf/users.ini": "[admin]\nname = Perpetua\nmail = perpetua@weather.example\ntimeout = 20\n",
}


def _stations_wanted() -> dict[str, dict[str, str]]:
    wanted = _ini(_STATIONS["conf/stations.ini"])
    for values in wanted.values():
        if values.get("region") == "north" and values["manual"] == "no":
            values["interval"] = "30"
    wanted["defaults"]["timeout"] = "45"
    return wanted


def _check_stations(folder: Path, answer: str) -> bool:
    right = _ini(_read(folder, "conf/stations.ini")) == _stations_wanted()
    return right and _kept(folder, _STATIONS, "conf/users.ini")


def _solve_stations(folder: Path) -> str:
    sections = _stations_wanted().items()
    blocks = [f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in values.items()) for name, values in sections]
    _write(folder, "conf/stations.ini", "\n".join(blocks))
    return "All automatic stations in the north report every 30 minutes, and the timeout is 45."


# convert -------------------------------------------------------------------------------------------

_SEEDS = {
    "seeds.csv": """variety,crop,packets,harvested
Black Krim,tomato,14,2022
Cherokee Wax,bean,9,2023
Golden Ball,turnip,3,2021
Rouge Vif,pumpkin,6,2023
Tall Telephone,pea,22,2022
""",
}


def _check_seeds(folder: Path, answer: str) -> bool:
    found = json.loads(_read(folder, "seeds.json"))
    wanted = _records(folder, "seeds.csv")
    texts = [{str(key).strip(): str(value).strip() for key, value in item.items()} for item in found]
    return isinstance(found, list) and texts == wanted and _kept(folder, _SEEDS)


def _solve_seeds(folder: Path) -> str:
    records: list[dict[str, Any]] = [dict(row) for row in _records(folder, "seeds.csv")]
    for row in records:
        row["packets"] = int(row["packets"])
    _write(folder, "seeds.json", json.dumps(records, indent=1))
    return "seeds.json has five entries."


_REGATTA = {
    "regatta.tsv": "Boat\tClub\tTime\tPoints\n"
    "Windhover\tSC Plau\t1:12:40\t10\n"
    "Miss Marple\tSV Müritz\t1:13:05\t8\n"
    "Kleine Brise\tSC Plau\t1:15:31\t6\n"
    "Odin\tYC Waren\t1:19:02\t5\n"
    "Seepferd\tSV Müritz\tDNF\t0\n",
}


def _check_regatta(folder: Path, answer: str) -> bool:
    lines = [line.strip() for line in _read(folder, "regatta.md").splitlines() if "|" in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    ruled = len(cells) > 1 and all(re.fullmatch(r":?-+:?", cell) for cell in cells[1])
    wanted = [line.split("\t") for line in _REGATTA["regatta.tsv"].splitlines()]
    cells = [[cell.strip("*") for cell in row] for row in cells]
    return ruled and [cells[0], *cells[2:]] == wanted and _kept(folder, _REGATTA)


def _solve_regatta(folder: Path) -> str:
    rows = [line.split("\t") for line in _read(folder, "regatta.tsv").splitlines()]
    rows.insert(1, ["---"] * 4)
    _write(folder, "regatta.md", "".join(f"| {' | '.join(row)} |\n" for row in rows))
    return "The table is in regatta.md."


def _orders() -> list[dict[str, Any]]:
    rng = random.Random(613)
    customers = ("Baker, Tom", "Ingrid Sol", "Café Miró", "Hardware & Co", "Osei, Abena", "Lundgren")
    goods = {"TEA-01": 6.5, "TEA-07": 12.9, "POT-3": 28.0, "CUP-2": 4.25, "TIN-9": 3.1, "SPN-4": 1.75}
    orders: list[dict[str, Any]] = []
    for number in range(55):
        skus = rng.sample(sorted(goods), rng.randrange(1, 5))
        items = [{"sku": sku, "qty": rng.randrange(1, 13), "price": goods[sku]} for sku in skus]
        date = f"2023-{1 + number // 5:02}-{rng.randrange(1, 29):02}"
        customer = {"name": rng.choice(customers), "vip": rng.random() < 0.2}
        orders.append({"id": 7001 + number, "date": date, "customer": customer, "items": items})
    return orders


_TEAROOM = {
    "export/orders.json": json.dumps(
        {"shop": "Leaf & Kettle", "orders": _orders()}, indent=2, ensure_ascii=False
    )
    + "\n"
}


def _lines() -> list[tuple[int, str, str, str, int, float, float]]:
    return [
        (
            order["id"],
            order["date"],
            order["customer"]["name"],
            item["sku"],
            item["qty"],
            item["price"],
            round(item["qty"] * item["price"], 2),
        )
        for order in _orders()
        for item in order["items"]
    ]


def _check_tearoom(folder: Path, answer: str) -> bool:
    rows = _rows(folder, "lines.csv")
    wanted = sorted(_lines())
    if (
        rows[0] != ["order", "date", "customer", "sku", "qty", "price", "total"]
        or len(rows) != len(wanted) + 1
    ):
        return False
    order = {(str(line[0]), line[3]): line for line in wanted}
    seen: set[tuple[str, str]] = set()
    for row in rows[1:]:
        line = order[row[0], row[3]]
        seen.add((row[0], row[3]))
        numbers = all(_cell(row[n], float(line[n])) for n in (4, 5, 6))
        if len(row) != 7 or tuple(row[1:3]) != line[1:3] or not numbers:
            return False
    return len(seen) == len(wanted) and _kept(folder, _TEAROOM)


def _solve_tearoom(folder: Path) -> str:
    rows = [(*line[:5], f"{line[5]:.2f}", f"{line[6]:.2f}") for line in _lines()]
    _write(folder, "lines.csv", _table("order,date,customer,sku,qty,price,total", rows))
    return "lines.csv is written."


# extract -------------------------------------------------------------------------------------------


def _tram_log() -> str:
    rng = random.Random(9)
    doors = ("door 2 does not close", "pantograph lost contact", "no answer from switch 14")
    calm = ("arrived at Market Square", "left the depot", "on time", "driver changed")
    lines: list[str] = []
    for number in range(34):
        level = rng.choice(("INFO", "INFO", "INFO", "WARN", "ERROR"))
        text = rng.choice(doors if level != "INFO" else calm)
        clock = f"{5 + number // 4:02}:{number % 4 * 15:02}"
        lines.append(f"{clock} {level} tram {rng.choice((3, 7, 11))}: {text}")
    return "\n".join(lines) + "\n"


_TRAM = {"tram.log": _tram_log()}


def _tram_errors() -> list[str]:
    return [line for line in _TRAM["tram.log"].splitlines() if " ERROR " in line]


def _check_tram(folder: Path, answer: str) -> bool:
    found = [line.strip() for line in _read(folder, "errors.txt").splitlines() if line.strip()]
    return found == _tram_errors() and _kept(folder, _TRAM)


def _solve_tram(folder: Path) -> str:
    _write(folder, "errors.txt", "\n".join(_tram_errors()) + "\n")
    return f"{len(_tram_errors())} lines copied."


_PARENTS = {
    "parents.md": """# Class 3b, parents

| child | parent | reach at |
|---|---|---|
| Ömer | Selin Kaya | selin.kaya@post.example, 0172 555 01 |
| Tilda | Jon Berg | jon@bergwerk.example |
| Rafael | Ines Prado | 0160 555 77 |
| Wanda | Piotr Nowak | nowak_piotr@poczta.example |

Mrs Berg (Tilda) would rather be written to at b.berg@kanzlei.example, and for the school trip please
always write to trips@school.example as well. Selin is also in the parents' council
(selin.kaya@post.example).
""",
}
_PARENT_MAILS = [
    "b.berg@kanzlei.example",
    "jon@bergwerk.example",
    "nowak_piotr@poczta.example",
    "selin.kaya@post.example",
    "trips@school.example",
]


def _check_parents(folder: Path, answer: str) -> bool:
    found = [line.strip() for line in _read(folder, "mails.txt").splitlines() if line.strip()]
    return found == _PARENT_MAILS and _kept(folder, _PARENTS)


def _solve_parents(folder: Path) -> str:
    mails = sorted(set(re.findall(r"[\w.]+@[\w.]+\w", _read(folder, "parents.md"))))
    _write(folder, "mails.txt", "\n".join(mails) + "\n")
    return "Five addresses in mails.txt."


def _walks() -> tuple[dict[str, str], list[tuple[str, str, str, int]]]:
    """Notes of eight bird walks, and the kingfishers in them."""
    rng = random.Random(84)
    birds = (
        "Grey heron",
        "Coot",
        "Reed bunting",
        "Mallard",
        "Great tit",
        "Kestrel",
        "Kingfisher",
        "Cormorant",
    )
    places = ("weir", "old mill", "sluice", "willow bend", "boathouse", "sand bank")
    files: dict[str, str] = {}
    found: list[tuple[str, str, str, int]] = []
    for number in range(8):
        date = f"2024-{4 + number // 3:02}-{3 + number % 3 * 9:02}"
        weather = rng.choice(("sun", "drizzle", "fog"))
        text = f"# Walk along the Aue\n\nDate: {date}\nWeather: {weather}\n\n## Seen\n\n"
        for step in range(22):
            clock = f"{6 + step // 6:02}:{step % 6 * 10 + rng.randrange(9):02}"
            bird, place, count = rng.choice(birds), rng.choice(places), rng.randrange(1, 6)
            if bird == "Kingfisher":
                found.append((date, clock, place, count))
                bird = rng.choice(("Kingfisher", "kingfisher"))
            text += f"- {clock} {bird} x{count} at the {place}\n"
        text += "\n## Remarks\n\nThe path behind the mill is muddy. No kingfisher nest found yet.\n"
        files[f"walks/walk{number + 1}.md"] = text
    return files, found


_WALKS, _KINGFISHERS = _walks()


def _check_walks(folder: Path, answer: str) -> bool:
    rows = _rows(folder, "kingfisher.csv")
    clean = [
        (date, clock.zfill(5), re.sub(r"^(at )?the ", "", place), int(count.lstrip("x")))
        for date, clock, place, count in rows[1:]
    ]
    return (
        [cell.lower() for cell in rows[0]] == ["date", "time", "place", "count"]
        and sorted(clean) == sorted(_KINGFISHERS)
        and _kept(folder, _WALKS)
    )


def _solve_walks(folder: Path) -> str:
    _write(folder, "kingfisher.csv", _table("date,time,place,count", _KINGFISHERS))
    return f"{len(_KINGFISHERS)} sightings."


# files ---------------------------------------------------------------------------------------------

_SCANS = {
    "scans/attic_plan.jpeg": "picture of the attic plan\n",
    "scans/deed-1931.jpeg": "picture of the deed\n",
    "scans/stamp.png": "picture of a stamp\n",
    "scans/wedding.jpeg": "picture of the wedding\n",
    "scans/well.jpg": "picture of the well\n",
    "scans/jpeg_list.txt": "attic, deed, wedding\n",
}


def _check_scans(folder: Path, answer: str) -> bool:
    wanted = {re.sub(r"\.jpeg$", ".jpg", name): _plain(text) for name, text in _SCANS.items()}
    return _tree(folder, "scans") == wanted


def _solve_scans(folder: Path) -> str:
    for path in sorted((folder / "scans").glob("*.jpeg")):
        path.rename(path.with_suffix(".jpg"))
    return "Three files renamed."


_LETTERS = {
    f"letters/{name}.txt": f"Letter {name[8:]}, written in {name[:4]}.\n"
    for name in (
        "1998-05-aunt-vera",
        "1998-11-landlord",
        "2001-02-bank",
        "2001-07-aunt-vera",
        "2001-12-school",
        "2007-03-insurance",
    )
}


def _check_letters(folder: Path, answer: str) -> bool:
    wanted = {f"letters/{name[8:12]}/{name[8:]}": _plain(text) for name, text in _LETTERS.items()}
    return _tree(folder, "letters") == wanted


def _solve_letters(folder: Path) -> str:
    for path in sorted((folder / "letters").glob("*.txt")):
        target = path.parent / path.name[:4] / path.name
        target.parent.mkdir(exist_ok=True)
        path.rename(target)
    return "Sorted into three years."


def _invoices() -> tuple[dict[str, str], dict[str, str]]:
    """Scanned invoices, and where each of them belongs."""
    rng = random.Random(452)
    customers = ("Lund Boats", "Marina Sud", "Chandlery 44", "Otto Brandis", "Sailmakers Guild")
    goods = ("rope 12 mm", "shackle", "fender", "varnish 1 l", "anchor 10 kg", "pennant")
    files: dict[str, str] = {}
    wanted: dict[str, str] = {}
    numbers = rng.sample(range(2000, 2400), 46)
    for count, number in enumerate(numbers, 1):
        customer, status = rng.choice(customers), rng.choice(("paid", "paid", "open", "open", "void"))
        text = f"Invoice: R-{number}\nDate: 2024-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}\n"
        text += f"Customer: {customer}\nStatus: {status}\n\n"
        for good in rng.sample(goods, rng.randrange(1, 5)):
            text += f"{rng.randrange(1, 20):>3} {good:<14} {rng.uniform(2, 90):8.2f}\n"
        text += "\nRemark: an open invoice is due after 30 days.\n"
        files[f"inbox/scan_{count:03}.txt"] = text
        if status != "void":
            wanted[f"{status}/{customer}/R-{number}.txt"] = _plain(text)
    return files, wanted


_INVOICES, _INVOICES_SORTED = _invoices()


def _check_invoices(folder: Path, answer: str) -> bool:
    return _tree(folder, "inbox", "paid", "open") == _INVOICES_SORTED


def _solve_invoices(folder: Path) -> str:
    for name, text in _INVOICES_SORTED.items():
        _write(folder, name, text)
    shutil.rmtree(folder / "inbox")
    return "All invoices are sorted, the void ones are gone."


# parts ---------------------------------------------------------------------------------------------

_TRIP = {
    "old_list.txt": "sunscreen\npassport\nsnorkel\nflip-flops\nbeach towel\nsunglasses\nstraw hat\n",
    "route.md": "# Route\n\n1. Bus to the hut\n2. Over the saddle\n3. Down to the lake\n",
}


def _check_trip(folder: Path, answer: str) -> bool:
    found = [line.strip().lstrip("-* ").lower() for line in _read(folder, "trip/packing.txt").splitlines()]
    return (
        [line for line in found if line] == ["tent", "stove", "map", "head torch"]
        and not (folder / "old_list.txt").exists()
        and _kept(folder, _TRIP, "route.md")
        and _short(answer)
        and _has(answer, r"\b(7|seven)\b")
    )


def _solve_trip(folder: Path) -> str:
    _write(folder, "trip/packing.txt", "tent\nstove\nmap\nhead torch\n")
    (folder / "old_list.txt").unlink()
    return "The old list had 7 things on it."


_DARTS = {
    "darts/league.csv": """player,team,points
Ferris,Bulls,31
Lindqvst,Triple,44
Obi,Bulls,38
Kowal,Oche,52
Lindqvst,Oche,27
Marsh,Triple,40
""",
}


def _check_darts(folder: Path, answer: str) -> bool:
    fixed = _DARTS["darts/league.csv"].replace("Lindqvst", "Lindqvist")
    rows = [line.split(",") for line in fixed.splitlines()]
    wanted = [rows[0], *sorted(rows[1:], key=lambda row: -int(row[2]))]
    return (
        _plain(_read(folder, "darts/league.csv")) == _plain(fixed)
        and _rows(folder, "darts/table.csv") == wanted
        and _short(answer)
        and _has(answer, r"\bkowal\b")
    )


def _solve_darts(folder: Path) -> str:
    _replace(folder, "darts/league.csv", ("Lindqvst", "Lindqvist"))
    rows = [line.split(",") for line in _read(folder, "darts/league.csv").splitlines()]
    rows[1:] = sorted(rows[1:], key=lambda row: -int(row[2]))
    _write(folder, "darts/table.csv", "".join(",".join(row) + "\n" for row in rows))
    return "Kowal leads with 52 points."


_BEDS = ("basil", "chilli", "fig", "melon", "orchid")


def _readings_rows() -> list[tuple[str, str, str, int]]:
    rng = random.Random(28)
    warm = {"basil": 24.5, "chilli": 27.2, "fig": 23.0, "melon": 26.4, "orchid": 25.6}
    return [
        (
            f"2024-07-{1 + step // 8:02} {step % 8 * 3:02}:00",
            bed,
            f"{warm[bed] + rng.uniform(-6, 6):.1f}",
            rng.randrange(40, 95),
        )
        for step in range(48)
        for bed in _BEDS
    ]


_GREENHOUSE = {
    "config.toml": """title = "Greenhouse 2"

[alarm]
max_temp = 32
min_temp = 9
phone = "+44 1632 960 032"

[log]
every_minutes = 180
keep_days = 32
""",
    "readings.csv": _table("time,bed,temp,humidity", _readings_rows()),
    "readings_2023.csv": """time,bed,temp,humidity
2023-07-01 00:00,basil,21.4,71
2023-07-01 03:00,fig,20.9,80
""",
    "NOTES.md": "# Notes\n\n- vents oiled in May\n- new sensor at the figs\n",
}


def _beds() -> dict[str, tuple[float, int]]:
    temps: dict[str, list[float]] = defaultdict(list)
    for _, bed, temp, _ in _readings_rows():
        temps[bed].append(float(temp))
    return {bed: (sum(all_) / len(all_), sum(t > 28 for t in all_)) for bed, all_ in temps.items()}


def _check_greenhouse(folder: Path, answer: str) -> bool:
    config = tomllib.loads(_read(folder, "config.toml"))
    wanted = tomllib.loads(_GREENHOUSE["config.toml"])
    wanted["alarm"]["max_temp"] = 28
    rows = {row["bed"]: row for row in _records(folder, "summary.csv")}
    beds = _beds()
    table = len(_rows(folder, "summary.csv")) == 6 and all(
        _cell(rows[bed]["mean"], mean, 0.051) and _cell(rows[bed]["above"], above, 0)
        for bed, (mean, above) in beds.items()
    )
    notes = _plain(_read(folder, "NOTES.md"))
    old = _plain(_GREENHOUSE["NOTES.md"])
    hottest = max(_BEDS, key=lambda bed: beds[bed][1])
    named = set(re.findall(rf"\b(?:{'|'.join(_BEDS)})", answer.lower()))
    return (
        config == wanted
        and set(rows) == set(_BEDS)
        and table
        and not (folder / "readings_2023.csv").exists()
        and _plain(_read(folder, "archive/readings_2023.csv")) == _plain(_GREENHOUSE["readings_2023.csv"])
        and _kept(folder, _GREENHOUSE, "readings.csv")
        and notes.startswith(old)
        and _has(notes[len(old) :], r"limit lowered to 28")
        and _short(answer)
        and hottest in named
        and len(named) <= 3
    )


def _solve_greenhouse(folder: Path) -> str:
    _replace(folder, "config.toml", ("max_temp = 32", "max_temp = 28"))
    beds = _beds()
    rows = [(bed, f"{mean:.1f}", above) for bed, (mean, above) in beds.items()]
    _write(folder, "summary.csv", _table("bed,mean,above", rows))
    (folder / "archive").mkdir()
    (folder / "readings_2023.csv").rename(folder / "archive" / "readings_2023.csv")
    _write(folder, "NOTES.md", _read(folder, "NOTES.md") + "- limit lowered to 28\n")
    return f"The {max(beds, key=lambda bed: beds[bed][1])} bed was too hot most often."


# page ----------------------------------------------------------------------------------------------

_HOURS = """<!doctype html>
<html lang="en"><head><title>Bike kitchen Southgate</title>
<style>body { font-family: sans-serif; max-width: 40em; margin: auto } td { padding: .3em 1em }</style></head>
<body>
<nav><a href="/">Home</a> | <a href="/hours.html">Opening hours</a> | <a href="/join.html">Join us</a></nav>
<h1>When we are open</h1>
<p>We repair bikes together, with your hands and our tools. A donation is welcome. Please come at least
half an hour before we close, or there will be no time for your wheel.</p>
<table>
<tr><th>Day</th><th>From</th><th>To</th><th>What</th></tr>
<tr><td>Tuesday</td><td>15:00</td><td>18:15</td><td>open workshop</td></tr>
<tr><td>Wednesday</td><td>16:00</td><td>19:00</td><td>women, trans and non-binary people only</td></tr>
<tr><td>Thursday</td><td>16:00</td><td>20:30</td><td>open workshop</td></tr>
<tr><td>Saturday</td><td>10:00</td><td>14:45</td><td>children's bikes</td></tr>
</table>
<p>Closed on public holidays. Phone: 0117 496 0123 (only while we are open).</p>
<footer>Southgate Bike Kitchen, 5 Canal Yard</footer>
</body></html>
"""


def _check_hours(folder: Path, answer: str) -> bool:
    right = re.search(r"20\s?[:.h]\s?30|\b8\s?[:.]\s?30\s*p\.?m|half past eight", answer, re.IGNORECASE)
    wrong = sum(time in answer for time in ("18:15", "19:00", "14:45", "6:15", "7:00", "2:45"))
    return _short(answer) and bool(right) and wrong <= 1


def _solve_hours(folder: Path) -> str:
    return "On Thursdays it closes at 20:30."


_TIDE_ROWS = [
    ("01:12", "low", "0.9"),
    ("07:25", "high", "4.6"),
    ("13:38", "low", "1.1"),
    ("19:47", "high", "4.4"),
]
_TIDES = (
    """<!doctype html>
<html><head><title>Tides at Port Ellery</title></head><body>
<h1>Tides at Port Ellery</h1>
<p>Saturday. Heights in metres above chart datum, local time. Not for navigation!</p>
<table id="tides">
<thead><tr><th>Time</th><th>Tide</th><th>Height</th></tr></thead>
<tbody>
"""
    + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in _TIDE_ROWS)
    + """</tbody></table>
<p>Sunrise 06:03, sunset 20:11. <a href="/moon.html">Phases of the moon</a></p>
</body></html>
"""
)


def _check_tides(folder: Path, answer: str) -> bool:
    rows = _rows(folder, "tides.csv")
    first = [cell.lower() for cell in rows[0]]
    headed = len(first) == 3 and all(a in b for a, b in zip(("time", "tide", "height"), first, strict=True))
    found = [(row[0].zfill(5), row[1].lower(), row[2].removesuffix("m").strip()) for row in rows[1:]]
    return headed and found == _TIDE_ROWS and all(len(row) == 3 for row in rows)


def _solve_tides(folder: Path) -> str:
    _write(folder, "tides.csv", _table("Time,Tide,Height", _TIDE_ROWS))
    return "Saved four tides in tides.csv."


_COTTAGES = (
    ("Reed Cottage", "reed", 4, "welcome", 118),
    ("Otter Lodge", "otter", 6, "not allowed", 149),
    ("Smithy", "smithy", 2, "welcome", 74),
    ("Lighthouse Flat", "lighthouse", 5, "welcome", 163),
    ("Orchard House", "orchard", 8, "welcome", 205),
    ("Boat Shed", "boat", 4, "not allowed", 92),
    ("Shepherd's Hut", "hut", 3, "welcome", 66),
    ("Old Bakery", "bakery", 5, "welcome", 109),
)


def _cottage_page(name: str, sleeps: int, dogs: str, price: int) -> str:
    return f"""<!doctype html>
<html><head><title>{name}</title></head><body>
<p><a href="/cottages.html">All cottages</a></p>
<h1>{name}</h1>
<p>A quiet place with a stove, ten minutes from the shore. Linen is in the price, firewood is not.</p>
<dl>
<dt>Sleeps</dt><dd>{sleeps}</dd>
<dt>Dogs</dt><dd>{dogs}</dd>
<dt>Price per night</dt><dd>&pound;{price}</dd>
<dt>Cleaning, once</dt><dd>&pound;{20 + sleeps * 5}</dd>
</dl>
</body></html>
"""


_COTTAGE_PAGES = {
    "/cottages.html": "<!doctype html>\n<html><head><title>Saltmarsh cottages</title></head><body>\n"
    "<h1>Our cottages</h1>\n<ul>\n"
    + "".join(f'<li><a href="/cottages/{slug}.html">{name}</a></li>\n' for name, slug, *_ in _COTTAGES)
    + "</ul>\n<p>Details and prices are on the page of each cottage.</p>\n</body></html>\n",
    **{
        f"/cottages/{slug}.html": _cottage_page(name, sleeps, dogs, price)
        for name, slug, sleeps, dogs, price in _COTTAGES
    },
}
_DOG_COTTAGES = sorted(
    ((name, price) for name, _, sleeps, dogs, price in _COTTAGES if dogs == "welcome" and sleeps >= 4),
    key=lambda item: item[1],
)


def _check_cottages(folder: Path, answer: str) -> bool:
    rows = _rows(folder, "dogs.csv")
    return (
        [cell.lower() for cell in rows[0]] == ["name", "price"]
        and [row[0] for row in rows[1:]] == [name for name, _ in _DOG_COTTAGES]
        and all(_cell(row[1], price) for row, (_, price) in zip(rows[1:], _DOG_COTTAGES, strict=True))
    )


def _solve_cottages(folder: Path) -> str:
    _write(folder, "dogs.csv", _table("name,price", _DOG_COTTAGES))
    return "Four cottages fit."


# ask -----------------------------------------------------------------------------------------------

_GUEST = {
    "network/guest.ini": """[wifi]
ssid = Pension Edelweiss
password = silver-lark-21
band = 5
hidden = no

[portal]
greeting = Welcome in our house
minutes = 720
""",
    "network/office.ini": """[wifi]
ssid = Edelweiss Office
password = do-not-share-77
band = 5
hidden = yes
""",
}


def _check_guest(folder: Path, answer: str) -> bool:
    wanted = _ini(_GUEST["network/guest.ini"])
    wanted["wifi"]["password"] = "heron-marsh-58"
    found = _ini(_read(folder, "network/guest.ini"))
    return found == wanted and _kept(folder, _GUEST, "network/office.ini")


def _solve_guest(folder: Path) -> str:
    _replace(folder, "network/guest.ini", ("silver-lark-21", "heron-marsh-58"))
    return "The new password is in network/guest.ini."


_PLANS = {
    f"plans/seating_{letter}.txt": f"Seating plan {letter.upper()}\n\nTable 1: {first}\nTable 2: {second}\n"
    for letter, first, second in (
        ("a", "family Reuter", "choir"),
        ("b", "choir", "family Reuter"),
        ("c", "neighbours", "family Reuter and choir"),
        ("d", "children", "neighbours"),
    )
}


def _check_plans(folder: Path, answer: str) -> bool:
    wanted = {name.replace("seating_c", "jubilee-final"): _plain(text) for name, text in _PLANS.items()}
    return _tree(folder, "plans") == wanted


def _solve_plans(folder: Path) -> str:
    (folder / "plans" / "seating_c.txt").rename(folder / "plans" / "jubilee-final.txt")
    return "Renamed plan c to jubilee-final.txt."


_CONCERT = {
    "season/schedule.csv": """event,date,start,place
Spring matinee,2025-04-06,11:00,Town hall
Open rehearsal,2025-05-24,19:30,School gym
Summer concert,2025-06-14,19:30,Castle yard
Autumn concert,2025-10-11,19:30,Town hall
Carols,2025-12-20,17:00,St. Anne's
""",
    "season/poster.md": """# Summer concert

The Valley Wind Orchestra plays in the castle yard.

**Saturday, 14 June 2025, 19:30**

On the programme:

- Holst: First Suite
- Grainger: Irish Tune
- Film music of seven decades

Tickets at the bookshop and at the door. See you on 14 June 2025!
""",
    "season/tickets.toml": """currency = "EUR"

[summer_concert]
date = "2025-06-14"
start = "19:30"
seats = 240
price = 18.0

[autumn_concert]
date = "2025-10-11"
start = "19:30"
seats = 310
price = 16.0
""",
}


def _check_concert(folder: Path, answer: str) -> bool:
    old = "Summer concert,2025-06-14,19:30,Castle yard"
    new = "Summer concert,2025-06-28,18:45,Castle yard"
    schedule = _plain(_CONCERT["season/schedule.csv"].replace(old, new))
    tickets = tomllib.loads(_CONCERT["season/tickets.toml"])
    tickets["summer_concert"].update(date="2025-06-28", start="18:45")
    found = tomllib.loads(_read(folder, "season/tickets.toml"))
    for values in found.values():
        if isinstance(values, dict):
            values.update(date=str(values["date"]), start=str(values["start"])[:5])
    poster = _read(folder, "season/poster.md")
    dates = re.findall(r"\b28(?:th)?(?: of)? June|June 28\b", poster)
    kept = [line for line in _CONCERT["season/poster.md"].splitlines() if line and "14 June" not in line]
    return (
        _plain(_read(folder, "season/schedule.csv")) == schedule
        and found == tickets
        and len(dates) >= 2
        and not re.search(r"\b14(th)?( of)? June|June 14|19[:.]30", poster)
        and _has(poster, r"18[:.]45|6[:.]45 ?p\.?m", r"Tickets at the bookshop and at the door")
        and all(line in poster for line in kept)
    )


def _solve_concert(folder: Path) -> str:
    _replace(
        folder,
        "season/schedule.csv",
        ("Summer concert,2025-06-14,19:30", "Summer concert,2025-06-28,18:45"),
    )
    _replace(folder, "season/poster.md", ("14 June", "28 June"), ("19:30", "18:45"))
    _replace(
        folder,
        "season/tickets.toml",
        ('date = "2025-06-14"\nstart = "19:30"', 'date = "2025-06-28"\nstart = "18:45"'),
    )
    return "Moved to 28 June, 18:45, in all three files."


# The jobs ------------------------------------------------------------------------------------------

JOBS: list[Job] = [
    Job(
        name="quiz-symbol",
        kind="world",
        task="I'm checking the sheet for our pub quiz: what is the chemical symbol of potassium?",
        check=_check_symbol,
        solution=_solve_symbol,
    ),
    Job(
        name="night-train",
        kind="world",
        task=(
            "Our night train leaves at 22:50 and the ride takes 9 hours and 35 minutes, same time zone "
            "all the way. What time will we get there?"
        ),
        check=_check_arrival,
        solution=_solve_arrival,
    ),
    Job(
        name="row-f",
        kind="world",
        task=(
            "Noor, Piet, Salma and Viktor have the seats 1 to 4 in row F of the theatre. Viktor's seat "
            "number is exactly one higher than Salma's. Noor sits neither in seat 1 nor in seat 4. Piet's "
            "number is lower than Noor's. Tell me who sits where, from seat 1 to seat 4."
        ),
        check=_check_seats,
        solution=_solve_seats,
        hard=True,
    ),
    Job(
        name="glaze-peak",
        kind="fact",
        task="Up to how many degrees does the glaze firing go? It says so in studio/firing.md.",
        check=_check_kiln,
        solution=_solve_kiln,
        files=_KILN,
    ),
    Job(
        name="slide-wait",
        kind="fact",
        task=(
            "How long does each photo stay on the museum screen before the next one comes? Look into "
            "js/slides.js"
        ),
        check=_check_slides,
        solution=_solve_slides,
        files=_SLIDES,
    ),
    Job(
        name="pump-night",
        kind="fact",
        task=(
            "During the night from 13 to 14 March 2024 one pump of our aquarium stood still. Find it in "
            "logs/pumps.log and tell me the name of the tank it belongs to and which keeper is in charge "
            "there (tanks.csv)."
        ),
        check=_check_aquarium,
        solution=_solve_aquarium,
        files=_AQUARIUM,
        hard=True,
    ),
    Job(
        name="choir-dues",
        kind="compute",
        task=(
            "singers.csv has the membership fees of the choir. How much money in total is still missing "
            "from those who haven't paid?"
        ),
        check=_check_choir,
        solution=_solve_choir,
        files=_CHOIR,
    ),
    Job(
        name="linden-average",
        kind="compute",
        task=(
            "For the beekeepers' newsletter: how much honey did a hive in the Linden yard give on "
            "average? The harvest is in harvest.json."
        ),
        check=_check_honey,
        solution=_solve_honey,
        files=_HONEY,
    ),
    Job(
        name="best-mechanic",
        kind="compute",
        task=(
            "Take workshop/repairs.csv and count only finished tickets from March 2024. A repair brings "
            "in its parts plus 48 euros per hour of work. Which mechanic brought in the most that month, "
            "and how many euros?"
        ),
        check=_check_bikes,
        solution=_solve_bikes,
        files=_BIKES,
        hard=True,
    ),
    Job(
        name="chess-pairs",
        kind="program",
        task=(
            "Everybody plays everybody at our chess evening. Write a Python script pairs.py that reads "
            "players.txt (one name per line) and prints each pairing once, one per line, like `Mo - "
            "Lena`."
        ),
        check=_check_chess,
        solution=_solve_chess,
        files=_CHESS,
    ),
    Job(
        name="buoy-tally",
        kind="program",
        task=(
            "I need a bash script tally.sh: for every .log file in the folder logs it prints one line "
            "with the file name and its number of lines, e.g. `north.log 12`. Nothing else."
        ),
        check=_check_tally,
        solution=_solve_tally,
        files=_BUOYS,
    ),
    Job(
        name="boulder-ranking",
        kind="program",
        task=(
            "We hold a bouldering competition and need rank.py. `python rank.py results.csv` reads a CSV "
            "with the columns climber,boulder,attempts,topped (yes or no). A topped boulder gives 100 "
            "points, minus 10 for each attempt after the first one, but never less than 20; not topped "
            "gives 0. Only the four best boulders of a climber count. Print a line per climber, best "
            "first, with place, name and points separated by a space (`1 Aiko 380`). Equal points share a "
            "place and the following places are skipped (1, 2, 2, 4); climbers on the same place come in "
            "alphabetical order. Climbers with 0 points are listed as well."
        ),
        check=_check_boulders,
        solution=_solve_boulders,
        files=_BOULDERS,
        hard=True,
    ),
    Job(
        name="pool-notice",
        kind="text",
        task=(
            "The outdoor pool is closed from 12 to 16 August because the filter pump gets replaced. "
            "Please write a friendly notice for the visitors, roughly 50 to 120 words, into notice.md. "
            "For questions they can call 0341 555 210."
        ),
        check=_check_pool,
        solution=_solve_pool,
    ),
    Job(
        name="thank-donor",
        kind="text",
        task=(
            "Please write a short thank-you letter (thanks.txt) to the person in donors.csv who gave the "
            "most. Mention how much it was, in euros, and what it is for. Signed: Maren Holt, Riverside "
            "Library"
        ),
        check=_check_thanks,
        solution=_solve_thanks,
        files=_DONORS,
    ),
    Job(
        name="trail-release",
        kind="text",
        task=(
            "history.txt lists our commits, newest on top. Write RELEASE.md for version 2.3 out of "
            "everything that came after v2.2: a section New with the feat commits and a section Fixed "
            "with the fix commits, one bullet each with what it is and its ticket number like (#123). "
            "Whatever was reverted later stays out, so do chores, docs and refactorings."
        ),
        check=_check_release,
        solution=_solve_release,
        files=_TRAIL,
        hard=True,
    ),
    Job(
        name="kennel-shared",
        kind="fix",
        task="test_kennel.py fails: dogs show up in kennels of other dogs. Can you fix kennel.py?",
        check=_check_kennel,
        solution=_solve_kennel,
        files=_KENNEL,
    ),
    Job(
        name="belt-stars",
        kind="fix",
        task=(
            "Some tests in test_visibility.py are red, two stars come out too high. The catalogue "
            "stars.csv and the tests have been verified, so the mistake must be somewhere in the code. "
            "Please repair it."
        ),
        check=_check_stars,
        solution=_solve_stars,
        files=_STARS,
        hard=True,
    ),
    Job(
        name="tour-import",
        kind="fix",
        task=(
            "Since the import on 2 June `python -m pytest` fails here. planner.py was not touched. "
            "data/signposts.csv is what the signs in the landscape say, and that is right, and so are the "
            "tests. Find out what's wrong and put it right."
        ),
        check=_check_tours,
        solution=_solve_tours,
        files=_TOURS,
        hard=True,
    ),
    Job(
        name="rename-restock",
        kind="change",
        task=(
            "`calc` is a terrible name. In the nursery folder rename that function to `restock_amount`, "
            "also where it is used."
        ),
        check=_check_nursery,
        solution=_solve_nursery,
        files=_NURSERY,
    ),
    Job(
        name="hops-docstrings",
        kind="change",
        task=(
            "Add a docstring to each function and method in brewing/hops.py that doesn't have one. Leave "
            "the code and the existing docstrings as they are."
        ),
        check=_check_hops,
        solution=_solve_hops,
        files=_HOPS,
    ),
    Job(
        name="ferry-bicycles",
        kind="change",
        task=(
            "From next month passengers may bring a bicycle on the ferry. Ticket in ferry/model.py needs "
            "a last field `bicycle`, False by default; `price` in ferry/pricing.py adds 450 cents for it, "
            "and this surcharge is not reduced for children or islanders; the CSV from ferry/export.py "
            "gets a last column `bicycle` with yes or no. Add a test for the price with a bicycle to "
            "test_ferry.py and keep the tests that are there."
        ),
        check=_check_ferry,
        solution=_solve_ferry,
        files=_FERRY,
        hard=True,
    ),
    Job(
        name="kiosk-sleep",
        kind="config",
        task="In kiosk.json, let the screen go to sleep after 20 minutes and turn the sound off.",
        check=_check_kiosk,
        solution=_solve_kiosk,
        files=_KIOSK_FILES,
    ),
    Job(
        name="backup-days",
        kind="config",
        task=(
            "We lost a drawing because the backups are thrown away too early. Please change the backup "
            "settings so that they are kept for 30 days."
        ),
        check=_check_backup,
        solution=_solve_backup,
        files=_BACKUP,
    ),
    Job(
        name="north-stations",
        kind="config",
        task=(
            "conf/stations.ini: every station of the region north that isn't manual shall report with "
            "interval 30. All others stay as they are. And the default timeout goes up to 45."
        ),
        check=_check_stations,
        solution=_solve_stations,
        files=_STATIONS,
        hard=True,
    ),
    Job(
        name="seeds-json",
        kind="convert",
        task="turn seeds.csv into seeds.json, a list with one object per row, keys as in the header",
        check=_check_seeds,
        solution=_solve_seeds,
        files=_SEEDS,
    ),
    Job(
        name="regatta-table",
        kind="convert",
        task=(
            "I want to put the regatta results on our wiki. Make a Markdown table of regatta.tsv and save "
            "it as regatta.md."
        ),
        check=_check_regatta,
        solution=_solve_regatta,
        files=_REGATTA,
    ),
    Job(
        name="order-lines",
        kind="convert",
        task=(
            "The accountant wants the orders as a flat table. Convert export/orders.json to lines.csv, "
            "one row for every item of every order, with the header "
            "order,date,customer,sku,qty,price,total, where order is the id, customer the name and total "
            "is qty times price."
        ),
        check=_check_tearoom,
        solution=_solve_tearoom,
        files=_TEAROOM,
        hard=True,
    ),
    Job(
        name="tram-errors",
        kind="extract",
        task="Copy all lines with level ERROR from tram.log to errors.txt, in the same order.",
        check=_check_tram,
        solution=_solve_tram,
        files=_TRAM,
    ),
    Job(
        name="parent-mails",
        kind="extract",
        task=(
            "Could you pull all e-mail addresses out of parents.md? Into mails.txt please, one per line, "
            "alphabetically, each only once."
        ),
        check=_check_parents,
        solution=_solve_parents,
        files=_PARENTS,
    ),
    Job(
        name="kingfisher-list",
        kind="extract",
        task=(
            "My notes of the bird walks are in walks/. I need all kingfisher sightings from them in "
            "kingfisher.csv with the columns date,time,place,count (place without 'at the')."
        ),
        check=_check_walks,
        solution=_solve_walks,
        files=_WALKS,
        hard=True,
    ),
    Job(
        name="scan-endings",
        kind="files",
        task="Rename the .jpeg files in scans/ so that they end in .jpg",
        check=_check_scans,
        solution=_solve_scans,
        files=_SCANS,
    ),
    Job(
        name="letters-years",
        kind="files",
        task=(
            "Granny's letters are all in one folder, letters/. Put them into a subfolder per year "
            "(letters/1998 and so on). The year is at the beginning of the file name, keep the names as "
            "they are."
        ),
        check=_check_letters,
        solution=_solve_letters,
        files=_LETTERS,
    ),
    Job(
        name="invoice-inbox",
        kind="files",
        task=(
            "Clear out inbox/: each scan is an invoice with its number, customer and status inside. Paid "
            "ones go to paid/<customer>/, open ones to open/<customer>/, with the customer spelled as in "
            "the file, and each file gets the invoice number as name, like R-2041.txt. Delete the void "
            "ones."
        ),
        check=_check_invoices,
        solution=_solve_invoices,
        files=_INVOICES,
        hard=True,
    ),
    Job(
        name="trip-packing",
        kind="parts",
        task=(
            "Make a folder trip with a file packing.txt that lists tent, stove, map and head torch, one "
            "per line. Then delete old_list.txt, but tell me how many things were on it."
        ),
        check=_check_trip,
        solution=_solve_trip,
        files=_TRIP,
    ),
    Job(
        name="darts-table",
        kind="parts",
        task=(
            "In darts/league.csv the name Lindqvst is misspelled, it must be Lindqvist, please correct "
            "it. After that save the rows sorted by points, highest first, as darts/table.csv with the "
            "same header, and tell me who is on top."
        ),
        check=_check_darts,
        solution=_solve_darts,
        files=_DARTS,
    ),
    Job(
        name="greenhouse-limit",
        kind="parts",
        task=(
            "The greenhouse gets too hot, so: 1. set max_temp of the alarm in config.toml to 28. 2. Write "
            "summary.csv with the columns bed,mean,above: for each bed in readings.csv its mean temp, "
            "one decimal, and the number of readings above 28. 3. Move readings_2023.csv into a new "
            "folder archive. 4. Append the line `- limit lowered to 28` to NOTES.md. 5. Tell me which bed "
            "was above 28 most often."
        ),
        check=_check_greenhouse,
        solution=_solve_greenhouse,
        files=_GREENHOUSE,
        hard=True,
    ),
    Job(
        name="thursday-close",
        kind="page",
        task="When does the bike kitchen close on Thursdays? See {site}/hours.html",
        check=_check_hours,
        solution=_solve_hours,
        pages={"/hours.html": _HOURS},
    ),
    Job(
        name="tide-table",
        kind="page",
        task="Save the tide table from {site}/tides.html as tides.csv, with the header row.",
        check=_check_tides,
        solution=_solve_tides,
        pages={"/tides.html": _TIDES},
    ),
    Job(
        name="dog-cottages",
        kind="page",
        task=(
            "We are four people with a dog and look for a holiday cottage on {site}/cottages.html; each "
            "cottage has its own page there. Put all where dogs are welcome and that sleep at least 4 "
            "into dogs.csv with the header name,price (price per night, just the number), cheapest first."
        ),
        check=_check_cottages,
        solution=_solve_cottages,
        pages=_COTTAGE_PAGES,
        hard=True,
    ),
    Job(
        name="guest-password",
        kind="ask",
        task="The guest wifi has a new password. Put it into network/guest.ini, please.",
        check=_check_guest,
        solution=_solve_guest,
        files=_GUEST,
        reply="The new password is heron-marsh-58",
    ),
    Job(
        name="approved-plan",
        kind="ask",
        task=(
            "One of the seating plans in plans/ was approved. Rename it to the final file name we agreed "
            "on and leave the others alone."
        ),
        check=_check_plans,
        solution=_solve_plans,
        files=_PLANS,
        reply=(
            "Plan c was approved, plans/seating_c.txt. Its final name is jubilee-final.txt, in the same "
            "folder."
        ),
    ),
    Job(
        name="concert-moved",
        kind="ask",
        task=(
            "The summer concert was moved to another evening. Update the schedule, the poster and the "
            "ticket settings in season/ with the new date and starting time."
        ),
        check=_check_concert,
        solution=_solve_concert,
        files=_CONCERT,
        reply="It is on Saturday, 28 June 2025 now and starts at 18:45. The place stays the same.",
        hard=True,
    ),
]
