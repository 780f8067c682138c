"""The acceptance set of real jobs: written without sight of the agent, and not for developers to look at."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path

from bench.real.job import Job, passes, python
from bench.real.job import kept as _kept
from bench.real.job import lines as _lines
from bench.real.job import read as _read
from bench.real.job import write as _write

JOBS: list[Job] = []

Check = Callable[[Path, str], bool]
Solution = Callable[[Path], str]


def _job(
    name: str,
    kind: str,
    task: str,
    solution: Solution,
    files: Mapping[str, str] | None = None,
    *,
    hard: bool = False,
    pages: Mapping[str, str] | None = None,
    reply: str = "",
) -> Callable[[Check], Check]:
    """Adds a job, whose check is the function below; line ends in the task are no part of it."""

    def add(check: Check) -> Check:
        text = " ".join(task.split())
        JOBS.append(Job(name, kind, text, check, solution, files or {}, hard, pages or {}, reply))
        return check

    return add


def _say(answer: str) -> Solution:
    return lambda folder: answer


def _puts(answer: str, files: Mapping[str, str]) -> Solution:
    """The solution that writes these files."""

    def solve(folder: Path) -> str:
        for name, text in files.items():
            _write(folder, name, text)
        return answer

    return solve


def _edits(answer: str, *edits: tuple[str, str, str]) -> Solution:
    """The solution that replaces texts: file, old, new."""

    def solve(folder: Path) -> str:
        for name, old, new in edits:
            _write(folder, name, _read(folder, name).replace(old, new))
        return answer

    return solve


def _files(text: str) -> dict[str, str]:
    """Files by name; before each stands a line with two equals signs and its name."""
    parts = re.split(r"^== (\S+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _rows(text: str) -> list[list[str]]:
    """The rows of a CSV text, with stripped cells."""
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]


def _records(text: str) -> list[dict[str, str]]:
    """The rows of a CSV text by the names of its columns, in whatever order these are."""
    header, *rows = _rows(text)
    return [dict(zip([name.lower() for name in header], row, strict=True)) for row in rows]


def _csv(rows: Iterable[Iterable[object]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _short(answer: str, limit: int = 600) -> bool:
    return 0 < len(answer.strip()) <= limit


def _numbers(text: str) -> set[float]:
    """The numbers in a text, with or without a mark at the thousands: 1,234.50 and 1.234,50 and 1234.5."""
    found: set[float] = set()
    for whole in re.findall(r"(?<![\d.,])\d{1,3}(?:[,.' \u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?(?!\d)", text):
        tail = re.search(r"[.,](\d{1,2})$", whole)
        head, after = (whole[: tail.start()], tail.group(1)) if tail else (whole, "0")
        found.add(float(re.sub(r"\D", "", head) + "." + after))
    for plain in re.findall(r"(?<![\d.,])\d+(?:[.,]\d+)?(?!\d)", text):
        found.add(float(plain.replace(",", ".")))
    return found


def _says(answer: str, number: float) -> bool:
    """Whether a short answer says the number."""
    return _short(answer) and any(abs(number - other) < 0.006 for other in _numbers(answer))


def _named(answer: str, names: Iterable[str], right: str, limit: int = 600) -> bool:
    """Whether, of all these names, the right one is the first or the last in a short answer."""
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    found = [name.lower() for name in re.findall(rf"(?<!\w)(?:{pattern})(?!\w)", answer, re.IGNORECASE)]
    return _short(answer, limit) and bool(found) and right.lower() in (found[0], found[-1])


def _prints(folder: Path, code: str, *args: str) -> str:
    """What a piece of Python prints in the folder."""
    return python(folder, "-B", "-c", code, *args).stdout.strip()


def _works(folder: Path, code: str, want: str, test: str) -> bool:
    """Whether a piece of Python prints what it should, and the test passes."""
    return _prints(folder, code) == want and passes(folder, test)


def _below(folder: Path) -> dict[str, str]:
    """The files below a folder, with their texts."""
    found = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8").strip() for path in found}


def _pages(texts: Mapping[str, str]) -> dict[str, str]:
    """Pages by path, with and without a slash before it, for whichever the server looks up."""
    found = {name: f"<html><body>{text}</body></html>\n" for name, text in texts.items()}
    return found | {"/" + name: text for name, text in found.items()}


@_job(
    "status-code",
    "world",
    """our crawler must slow down when a server complains about too many requests. which http status code
    do I have to catch for that?""",
    _say("429 (Too Many Requests)"),
)
def _status(folder: Path, answer: str) -> bool:
    codes = re.findall(r"(?<![\d.])[1-5]\d\d(?!\.?\d)", answer)
    return _short(answer, 1500) and bool(codes) and codes[0] == "429"


@_job(
    "crossword",
    "world",
    "I'm stuck in a crossword: capital of Mongolia, 11 letters, in its usual English spelling. What is it?",
    _say("Ulaanbaatar"),
)
def _crossword(folder: Path, answer: str) -> bool:
    return _short(answer) and bool(re.search(r"\bulaan\s?baatar\b", answer, re.IGNORECASE))


COFFEE = """\
LUMO 3 - SHORT MANUAL
Cleaning
  Grease the seal of the brewing unit every 4 months.
Descaling, depending on the hardness of your water
  soft, up to 7 dH ........... every 6 months
  medium, 8 to 14 dH ......... every 3 months
  hard, 15 to 21 dH .......... every 6 weeks
  very hard, over 21 dH ...... every 3 weeks
  Use 100 ml of descaler in 1 litre of water. It takes 25 minutes.
"""


@_job(
    "descaling",
    "fact",
    """The manual of our coffee machine is in coffee/manual.txt. Our tap water has 16 dH. How often do we
    have to descale the machine?""",
    _say("Every 6 weeks."),
    {"coffee/manual.txt": COFFEE},
)
def _descaling(folder: Path, answer: str) -> bool:
    text = answer.lower().replace("six", "6").replace("three", "3")
    spans = re.findall(r"(\d+)[\s-]*(week|month)", text)
    return _short(answer) and bool(spans) and ("6", "week") in (spans[0], spans[-1])


ITSELF = "switches itself off after some minutes"
TICKET_CASES = {
    6: ("B241", "projector", ITSELF, "air filter cleaned"),
    13: ("B214", "monitor", ITSELF, "power cable replaced"),
    27: ("B214", "projector", ITSELF, "new fan, the old one was stuck"),
    34: ("B214", "projector", "picture is yellow", "video cable replaced"),
    41: ("A214", "projector", ITSELF, "sleep timer turned off"),
}


def _tickets() -> dict[str, str]:
    rng, number, day, found = random.Random(31), 4100, date(2023, 8, 21), dict[str, str]()
    for place in range(48):
        number, day = number + rng.randrange(1, 6), day + timedelta(rng.randrange(6))
        room, device, problem, solved = TICKET_CASES.get(place) or (
            rng.choice("ABC") + str(rng.choice((101, 114, 203, 220, 241, 305))),
            rng.choice(("projector", "printer", "monitor", "speaker")),
            rng.choice(("makes a loud noise", "does not switch on", "loose plug", "remote control is gone")),
            rng.choice(("restarted", "plug pushed in", "sent to the maker", "new batteries")),
        )
        block = f"Ticket {number}\n  Opened: {day}\n  Room: {room}\n  Device: {device}\n"
        found[str(number)] = block + f"  Problem: {problem}\n  Solved by: {solved}\n"
    return found


@_job(
    "projector-ticket",
    "fact",
    """The projector in room B214 switches itself off after a few minutes again. We had exactly this with it
    once before, it must be in helpdesk/tickets.txt. What's the number of that ticket, and what solved it?""",
    _say(f"Ticket {list(_tickets())[27]}; a new fan solved it, as the old one was stuck."),
    {"helpdesk/tickets.txt": "\n".join(_tickets().values())},
    hard=True,
)
def _ticket(folder: Path, answer: str) -> bool:
    fan = re.search(r"\b(fans?|ventilator)\b", answer, re.IGNORECASE)
    return bool(fan) and _named(answer, _tickets(), list(_tickets())[27])


METER = "Readings of the electricity meter in kWh (number 7701938)\n" + (
    "2024-01-01  17544.1\n2024-02-01  18003.8\n2024-03-01  18422.5\n2024-04-01  18697.0\n"
    "2024-05-02  18891.6\n2024-06-01  19077.2\n2024-07-01  19240.9\n"
)


@_job(
    "meter",
    "compute",
    """meter.txt has the readings of our electricity meter. How many kWh did we use from 1 March 2024 until
    1 June 2024?""",
    _say("654.7 kWh"),
    {"meter.txt": METER},
)
def _meter(folder: Path, answer: str) -> bool:
    return _says(answer, 19077.2 - 18422.5)


RIDES = "cargo 4.2, racing 61.0, city 7.9, cargo 6.1, city 3.3, racing 48.4, cargo 12.7, cargo 5.0, cargo 9.5"
RIDE_LIST = [
    {"day": f"2024-06-{number * 2 + 1:02}", "bike": ride.split()[0], "km": float(ride.split()[1])}
    for number, ride in enumerate(RIDES.split(", "))
]


@_job(
    "cargo-rides",
    "compute",
    """What's the average length in km of my rides on the cargo bike? They are all in rides.json.
    Leave the other bikes out.""",
    _say("On average 7.5 km."),
    {"rides.json": json.dumps(RIDE_LIST, indent=1) + "\n"},
)
def _rides(folder: Path, answer: str) -> bool:
    return _says(answer, 7.5)


PARKING_RATES = {"A": 2.8, "B": 1.9, "C": 1.25}


def _parking() -> list[tuple[str, str, int, str]]:
    rng, found, states = random.Random(52), list[tuple[str, str, int, str]](), ("paid",) * 7 + ("void",)
    for number in range(244):
        minutes = rng.choice((60, 120, 180, *(rng.randrange(8, 400) for _ in range(9))))
        found.append((f"K{7000 + number}", rng.choice("AABBBC"), minutes, rng.choice(states)))
    return found


PAID = [(PARKING_RATES[zone], minutes) for _, zone, minutes, state in _parking() if state == "paid"]
PARKING_TOTAL = sum(math.ceil(minutes / 60) * rate for rate, minutes in PAID)


@_job(
    "parking-income",
    "compute",
    """Please work out how much money our car park took in altogether. garage/tickets.csv lists the tickets,
    garage/rates.json what one hour costs in each zone. Every hour that has been started is paid in full
    (61 minutes are two hours, 60 are one), and tickets with the state void were not paid at all.""",
    _say(f"{PARKING_TOTAL:,.2f} EUR"),
    {
        "garage/tickets.csv": _csv([("ticket", "zone", "minutes", "state"), *_parking()]),
        "garage/rates.json": json.dumps({"currency": "EUR", "per_hour": PARKING_RATES}, indent=2) + "\n",
    },
    hard=True,
)
def _income(folder: Path, answer: str) -> bool:
    return _says(answer, PARKING_TOTAL)


LETTERS = """.- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. --
-. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."""
DIGITS = "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
MORSE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", [*LETTERS.split(), *DIGITS.split()], strict=True))
MORSE_CODE = f"""import sys
CODES = {MORSE}
print(" / ".join(" ".join(CODES[sign] for sign in word.upper()) for word in sys.argv[1:]))
"""


@_job(
    "morse",
    "program",
    """Write morse.py, which prints its arguments in Morse code with dots and hyphens: letters separated by a
    space, words by a slash with a space on both sides. So `python morse.py go now` prints
    `--. --- / -. --- .--`. It has to know A to Z in upper and lower case and the digits.""",
    _puts("morse.py is there.", {"morse.py": MORSE_CODE}),
)
def _morse(folder: Path, answer: str) -> bool:
    def right(words: str) -> bool:
        want = " / ".join(" ".join(MORSE[sign] for sign in word.upper()) for word in words.split())
        return python(folder, "-B", "morse.py", *words.split()).stdout.split() == want.split()

    return right("SOS") and right("the quick brown fox jumps over the lazy dog") and right("16 at 2345 0789")


BIGGEST = r"""#!/bin/bash
find "$1" -maxdepth 1 -type f -printf '%s %f\n' | sort -rn | head -n 1 | cut -d ' ' -f 2-
"""


@_job(
    "biggest-file",
    "program",
    """I'd like a bash script biggest.sh. It is called with a folder, like `bash biggest.sh music`, and prints
    just the name (without the folder) of the largest file in it. Only files right in that folder count,
    not folders and not what's inside them. Names can have spaces, the folder's too.""",
    _puts("biggest.sh is there.", {"biggest.sh": BIGGEST}),
)
def _biggest(folder: Path, answer: str) -> bool:
    def right(sizes: Mapping[str, int], want: str) -> bool:
        command = ["bash", str(folder.resolve() / "biggest.sh"), "my songs"]
        with tempfile.TemporaryDirectory() as top:
            for name, size in sizes.items():
                _write(Path(top), "my songs/" + name, "x" * size)
            done = subprocess.run(command, cwd=top, capture_output=True, text=True, timeout=20, check=False)
        return done.stdout.strip() == want

    many = {"a.mp3": 9900, "long walk.flac": 70_000, "b.mp3": 12_000, "live/all.wav": 300_000}
    few = {"one.txt": 3, "two.txt": 40, "three.txt": 27, "old/x.txt": 9}
    return right(many, "long walk.flac") and right(few, "two.txt")


def _bookings(rows: str) -> str:
    return "room,start,end\n" + rows.replace("; ", "\n").replace(" ", ",") + "\n"


BOOKINGS = {
    "bookings.csv": _bookings(
        "Red 17:00 19:30; Blue 10:00 12:00; Red 09:30 11:00; Attic 07:30 09:00; Red 10:30 13:00;"
        " Blue 11:00 11:30; Attic 18:00 21:00; Blue 13:00 20:00; Red 13:00 14:15"
    )
}
BOOKINGS_MORE = _bookings(
    "Hall 08:00 20:00; Cellar 12:15 12:45; Tower 09:00 15:00; Cellar 09:05 09:50;"
    " Tower 10:00 11:00; Tower 16:40 20:00; Dome 07:00 13:00;"
    " Dome 12:00 20:30; Cellar 20:30 21:00; Tower 06:00 07:00"
)
SLOTS = """\
import csv
import sys

path, room = sys.argv[1:]
with open(path, newline="") as file:
    spans = sorted((row["start"], row["end"]) for row in csv.DictReader(file) if row["room"] == room)
free = "08:00"
for start, end in [*spans, ("20:00", "20:00")]:
    if min(start, "20:00") > free:
        print(f"{free}-{min(start, '20:00')}")
    free = max(free, end)
"""


@_job(
    "free-slots",
    "program",
    """bookings.csv has the bookings of our rehearsal rooms for one day. Make a program slots.py so that
    `python slots.py bookings.csv Red` prints when that room is still free between 08:00 and 20:00, one
    stretch a line, like 09:30-11:00, the earliest first, and nothing else. The bookings are in no order,
    they may overlap, and some start before 08:00 or end after 20:00. If nothing is free, print nothing.""",
    _puts("slots.py is there.", {"slots.py": SLOTS}),
    BOOKINGS,
    hard=True,
)
def _slots(folder: Path, answer: str) -> bool:
    def right(path: str, room: str, want: str) -> bool:
        done = python(folder, "-B", "slots.py", path, room)
        lines = [re.sub(r"\s*[-\u2013]\s*", "-", line) for line in _lines(done.stdout)]
        lines = [re.sub(r"\b(\d:)", r"0\1", line) for line in lines]
        return done.returncode == 0 and lines == want.split()

    with tempfile.TemporaryDirectory() as top:
        _write(Path(top), "more.csv", BOOKINGS_MORE)
        more = str(Path(top, "more.csv"))
        return (
            _kept(folder, BOOKINGS)
            and right("bookings.csv", "Red", "08:00-09:30 14:15-17:00 19:30-20:00")
            and right("bookings.csv", "Blue", "08:00-10:00 12:00-13:00")
            and right("bookings.csv", "Attic", "09:00-18:00")
            and right(more, "Hall", "")
            and right(more, "Dome", "")
            and right(more, "Cellar", "08:00-09:05 09:50-12:15 12:45-20:00")
            and right(more, "Tower", "08:00-09:00 15:00-16:40")
        )


NOTICE = """On Thursday, 14 November, from 8:00 to 12:00 the lift is out of service for the yearly
inspection. Mr Adeyemi gladly carries heavy bags up for you: call 0555 0142. House management
"""


@_job(
    "lift-notice",
    "text",
    """write a notice for the staircase and save it as notice.txt: the lift is out of service on Thursday,
    14 November, from 8:00 to 12:00 because of the yearly inspection. Mr Adeyemi (phone 0555 0142) helps
    people with heavy bags. At most 80 words, friendly, signed with House management. I print it as it
    is, so no blanks to fill in.""",
    _puts("The notice is in notice.txt.", {"notice.txt": NOTICE}),
)
def _notice(folder: Path, answer: str) -> bool:
    text = _read(folder, "notice.txt")
    day = r"(?<!\d)14(th)?\.?\s*(of\s+)?nov|nov\w*\.?\s+(the\s+)?14|(?<!\d)14[./-]\s?11|11[/-]14"
    hours = (r"(?<![\d:])0?8(?!\d)|\beight\b", r"(?<![\d:])12(?!\d)|noon|midday|twelve")
    needs = (day, *hours, "lift|elevator", "inspect", "adeyemi", r"0555[\s/-]?0142", "bag", "house manag")
    return (
        all(re.search(need, text, re.IGNORECASE) for need in needs)
        and len(text.split()) <= 80
        and not re.search(r"\[|\]|_{3,}|\.{4,}", text)
    )


SUBTITLES = r"""import argparse
import re

def shifted(stamp, seconds):
    h, m, s, ms = (int(part) for part in re.split("[:,]", stamp))
    total = max(0, ((h * 60 + m) * 60 + s) * 1000 + ms + round(seconds * 1000))
    return f"{total // 3600000:02}:{total // 60000 % 60:02}:{total // 1000 % 60:02},{total % 1000:03}"

parser = argparse.ArgumentParser()
parser.add_argument("file", help="an .srt file")
parser.add_argument("--by", type=float, required=True, help="seconds; below zero for earlier")
parser.add_argument("--first", type=int, default=1, help="leave the subtitles before this number")
parser.add_argument("--out", help="where to write; without it the file itself is changed")
args = parser.parse_args()
number, text = 0, ""
for line in open(args.file, encoding="utf-8"):
    if line.strip().isdigit():
        number = int(line)
    if "-->" in line and number >= args.first:
        line = re.sub(r"\d+:\d\d:\d\d,\d{3}", lambda found: shifted(found[0], args.by), line)
    text += line
open(args.out or args.file, "w", encoding="utf-8").write(text)
"""
README = """# subshift
Moves the subtitles of an .srt file, when they come too early or too late in the film. Options:
- `--by SECONDS`: how far, has to be given; below zero for earlier
- `--first NUMBER`: leaves the subtitles before this number
- `--out FILE`: where to write; otherwise the file itself is changed

Example: `python subshift.py film.srt --by 2.5 --first 10 --out film-new.srt`
"""


@_job(
    "subtitle-readme",
    "text",
    """There is no documentation for subshift.py. Please write a short README.md (a heading, what it's good
    for, every option it has, and one complete example call with --by). Don't touch the program.""",
    _puts("README.md is there.", {"README.md": README}),
    {"subshift.py": SUBTITLES},
)
def _readme(folder: Path, answer: str) -> bool:
    text = _read(folder, "README.md")
    options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))
    calls = [line for line in text.replace("\\\n", " ").splitlines() if "subshift.py" in line]
    return (
        _kept(folder, {"subshift.py": SUBTITLES})
        and {"--by", "--first", "--out"} <= options <= {"--by", "--first", "--out", "--help"}
        and any(re.search(r"--by[ =]-?\d", line) and re.search(r"\w\.srt\b", line) for line in calls)
        and bool(re.search(r"^(#|\S.*\n[=-]{3,})", text, re.MULTILINE))
        and bool(re.search(r"subtitle", text, re.IGNORECASE))
        and 25 <= len(text.split()) <= 600
    )


KNITTING = _files('''
== knitting.py
def stitches(width, gauge):
    """Stitches for a width in cm; gauge is the number in 10 cm. Rounded, and if that is odd, one more."""
    count = round(width * gauge / 10)
    if count % 2 == 0:
        count += 1
    return count

def balls(metres, per_ball):
    return -(-metres // per_ball)
== test_knitting.py
from knitting import balls, stitches

def test_stitches():
    assert stitches(30, 20) == 60
    assert stitches(21, 31) == 66

def test_balls():
    assert balls(400, 125) == 4
''')


@_job(
    "knitting",
    "fix",
    "test_knitting.py fails. Find the bug in knitting.py and fix it, the test is right.",
    _edits("It added the stitch to even numbers instead of odd ones.", ("knitting.py", "== 0", "== 1")),
    KNITTING,
)
def _knitting(folder: Path, answer: str) -> bool:
    code = "from knitting import *; s = stitches; print(s(50, 22), s(33, 21), s(9, 10), balls(250, 125))"
    return _kept(folder, KNITTING, "knitting.py") and _works(folder, code, "110 70 10 2", "test_knitting.py")


CHAPTERS = _files('''
== chapters.py
def seconds(length):
    """Seconds of a length such as 4:05 or 1:12:30."""
    parts = length.split(":")
    return int(parts[0]) * 60 + int(parts[1])

def show(total):
    return f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"

def whole(lengths):
    return show(sum(seconds(length) for length in lengths))
== test_chapters.py
from chapters import show, whole

def test_short_chapters():
    assert show(3725) == "1:02:05"
    assert whole(["4:05", "12:30", "0:40"]) == "0:17:15"

def test_long_chapter():
    assert whole(["59:10", "1:12:30"]) == "2:11:40"
''')
CHAPTERS_NEW = "sum(int(part) * 60**place for place, part in enumerate(reversed(parts)))"


@_job(
    "audiobook",
    "fix",
    """Since we have audiobooks with chapters of more than an hour the total length is wrong, see the failing
    test in test_chapters.py. Can you repair chapters.py? Lengths without hours must still work.""",
    _edits("Done.", ("chapters.py", "int(parts[0]) * 60 + int(parts[1])", CHAPTERS_NEW)),
    CHAPTERS,
)
def _chapters(folder: Path, answer: str) -> bool:
    code = "from chapters import *; print(*map(seconds, ('2:00:00', '0:59', '1:02:03')), whole(['10:00:00']))"
    right = _works(folder, code, "7200 59 3723 10:00:00", "test_chapters.py")
    return right and _kept(folder, CHAPTERS, "chapters.py")


CHESS = _files('''
== club/__init__.py
== club/store.py
"""The games of a club evening, from a file with one game a line: white, black, moves, result."""
from collections import namedtuple

Game = namedtuple("Game", "white black moves result")
_seen = {}

def load(path):
    """The games in the order in which they were played."""
    if path not in _seen:
        games = []
        with open(path, encoding="utf-8") as file:
            for line in file:
                white, black, moves, result = (part.strip() for part in line.split(","))
                games.append(Game(white, black, int(moves), result))
        _seen[path] = games
    return _seen[path]
== club/ranking.py
POINTS = {"1-0": (1, 0), "0-1": (0, 1), "draw": (0.5, 0.5)}

def longest(games, count=3):
    """The games with the most moves, the longest one first."""
    games.sort(key=lambda game: game.moves, reverse=True)
    return games[:count]

def points(games):
    """The points of every player."""
    table = {}
    for game in games:
        for player, gained in zip((game.white, game.black), POINTS[game.result]):
            table[player] = table.get(player, 0) + gained
    return table
== club/report.py
from club.ranking import longest, points
from club.store import load

def report(path):
    games = load(path)
    top = longest(games, 1)[0]
    table = points(games)
    best = max(table, key=table.get)
    return [
        f"Longest game: {top.white} - {top.black}, {top.moves} moves",
        f"Most points: {best} ({table[best]})",
        f"First game: {games[0].white} - {games[0].black}",
        f"Last game: {games[-1].white} - {games[-1].black}",
    ]
== games/march.txt
Ines, Viktor, 31, 1-0
Chidi, Marta, 44, draw
Viktor, Chidi, 67, 0-1
Marta, Ines, 22, 0-1
Chidi, Ines, 38, 0-1
== test_report.py
from club.ranking import longest
from club.report import report
from club.store import Game, load

def test_report():
    lines = report("games/march.txt")
    assert lines[:2] == ["Longest game: Viktor - Chidi, 67 moves", "Most points: Ines (3)"]
    assert lines[2:] == ["First game: Ines - Viktor", "Last game: Chidi - Ines"]

def test_load():
    assert load("games/march.txt")[1] == Game("Chidi", "Marta", 44, "draw")

def test_longest():
    assert [game.moves for game in longest(load("games/march.txt"), 2)] == [67, 44]
''')
CHESS_MORE = "Zoe, Abel, 20, draw\nCleo, Dan, 90, 1-0\nAbel, Zoe, 50, 0-1\nDan, Abel, 35, 1-0\n"
CHESS_EDIT = ("club/ranking.py", "games.sort(key=lambda", "games = sorted(games, key=lambda")


@_job(
    "chess-evening",
    "fix",
    """Run the tests in test_report.py: the report of our chess evening names the wrong first and last game,
    though report.py looks fine to me. Please find out why and fix the code, not the tests or the data.""",
    _edits("longest() sorted the list of games itself, which the report still uses.", CHESS_EDIT),
    CHESS,
    hard=True,
)
def _chess(folder: Path, answer: str) -> bool:
    code = "import sys; from club.report import report as r; a = sys.argv[1]; print(r(a) == r(a), *r(a)[2:])"
    with tempfile.TemporaryDirectory() as top:
        _write(Path(top), "may.txt", CHESS_MORE)
        said = _prints(folder, code, str(Path(top, "may.txt")))
    right = said == "True First game: Zoe - Abel Last game: Dan - Abel" and passes(folder, "test_report.py")
    return right and _kept(folder, CHESS, *(name for name in CHESS if name.startswith("club/")))


TAXI = _files('''
== fare.py
BASE = 4.2
PER_KM = 2.1

def fare(km, night=False):
    """The price of a ride."""
    price = BASE + PER_KM * km
    return price * 1.25 if night else price

def format_fare(amount):
    """The amount as it stands on the receipt."""
    return f"€ {amount:.2f}"
== receipt.py
from fare import fare, format_fare

def receipt(km, night=False):
    return f"{km} km: {format_fare(fare(km, night))}"
== test_fare.py
from fare import fare, format_fare
from receipt import receipt

def test_fare():
    assert round(fare(10, night=True), 2) == 31.5

def test_format():
    assert format_fare(7.5) == "€ 7.50"
    assert receipt(10) == "10 km: € 25.20"
''')
TAXI_EDIT = ("fare.py", "format_fare(amount)", 'format_fare(amount, currency="€")')


@_job(
    "taxi-currency",
    "change",
    """We go to Switzerland! Give format_fare in fare.py an optional second parameter `currency`, which is
    what stands in front of the amount: format_fare(7.5, currency='CHF') returns 'CHF 7.50'. Without it
    everything stays as it is now.""",
    _edits("Done.", TAXI_EDIT, ("fare.py", 'f"€ {', 'f"{currency} {')),
    TAXI,
)
def _taxi(folder: Path, answer: str) -> bool:
    code = (
        "from fare import *; from receipt import *; c = format_fare;"
        "print(ascii((c(3), c(7.5, currency='CHF'), c(0.456, '$'), c(amount=2, currency='kr'),"
        " receipt(2), round(fare(8, True), 2))))"
    )
    want = ("€ 3.00", "CHF 7.50", "$ 0.46", "kr 2.00", "2 km: € 8.40", 26.25)
    kept = _kept(folder, TAXI, "fare.py", "test_fare.py") and "test_format" in _read(folder, "test_fare.py")
    return kept and _works(folder, code, ascii(want), "test_fare.py")


BEES = _files('''
== hive.py
from dataclasses import dataclass, field

@dataclass
class Frame:
    number: int
    weight: float

@dataclass
class Hive:
    name: str
    weight: float
    frames: list[Frame] = field(default_factory=list)

    def empty(self):
        """The weight of the hive without its frames."""
        return self.weight - sum(frame.weight for frame in self.frames)
== loading.py
"""Reads hives.csv, where a line without a frame number is the hive itself."""
import csv
from hive import Frame, Hive

def load(path):
    hives = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["frame"]:
                hives[row["hive"]].frames.append(Frame(int(row["frame"]), weight=float(row["weight"])))
            else:
                hives[row["hive"]] = Hive(row["hive"], weight=float(row["weight"]))
    return list(hives.values())
== report.py
from loading import load

def line(hive):
    return f"{hive.name}: weight {hive.weight}, {sum(f.weight for f in hive.frames):.1f} of it honey"

def report(path):
    """One line for every hive, the heaviest first."""
    return [line(hive) for hive in sorted(load(path), key=lambda item: -item.weight)]
== hives.csv
hive,frame,weight
Oak,,31.5
Oak,1,2.4
Oak,2,1.9
Lime,,38.2
Lime,1,2.8
== test_bees.py
from hive import Frame, Hive
from report import report

def test_hive():
    hive = Hive("Elm", weight=30.0, frames=[Frame(1, weight=2.5), Frame(2, weight=2.0)])
    assert hive.weight == 30.0
    assert hive.empty() == 25.5
    assert hive.frames[1].weight == 2.0

def test_report():
    assert report("hives.csv")[0] == "Lime: weight 38.2, 2.8 of it honey"
''')
BEES_EDITS = (
    ("hive.py", "str\n    weight:", "str\n    mass_kg:"),
    ("hive.py", "self.weight", "self.mass_kg"),
    ("loading.py", 'Hive(row["hive"], weight', 'Hive(row["hive"], mass_kg'),
    ("report.py", "item.weight", "item.mass_kg"),
    ("report.py", "hive.weight", "hive.mass_kg"),
    ("test_bees.py", '"Elm", weight', '"Elm", mass_kg'),
    ("test_bees.py", "hive.weight", "hive.mass_kg"),
)


@_job(
    "hive-rename",
    "change",
    """Please rename the field `weight` of the class Hive to `mass_kg`, everywhere it is used, in the test
    too. Careful: Frame has a `weight` as well, and hives.csv a column of that name; both stay, and so do
    the lines that report() returns. test_bees.py has to pass in the end.""",
    _edits("Hive.weight is Hive.mass_kg now.", *BEES_EDITS),
    BEES,
    hard=True,
)
def _bees(folder: Path, answer: str) -> bool:
    code = (
        "from hive import Frame, Hive; from report import report; from loading import load;"
        "h = Hive('X', mass_kg=9.0, frames=[Frame(1, weight=2.0), Frame(2, weight=1.5)]);"
        "print(h.mass_kg, h.empty(), h.frames[1].weight, hasattr(h, 'weight'),"
        "hasattr(h.frames[0], 'mass_kg'), [x.mass_kg for x in load('hives.csv')], report('hives.csv'))"
    )
    lines = ["Lime: weight 38.2, 2.8 of it honey", "Oak: weight 31.5, 4.3 of it honey"]
    want, test = f"9.0 5.5 1.5 False False [31.5, 38.2] {lines}", _read(folder, "test_bees.py")
    kept = _kept(folder, {"hives.csv": BEES["hives.csv"]}) and "mass_kg ==" in test and "test_report" in test
    return kept and _works(folder, code, want, "test_bees.py")


STATION = """\
# Weather station on the barn roof
interval = 60  # seconds between two readings
altitude = 412
[sensor]
retries = 3
# the wind vane is mounted 15 degrees off
wind_offset = -15
[upload.main]
url = "https://weather.example.org/in"
enabled = true
interval = 600
[upload.backup]
url = "https://backup.example.net/station"
enabled = true
interval = 3600
"""
STATION_OFF = ("station.toml", 'station"\nenabled = true', 'station"\nenabled = false')


@_job(
    "weather-station",
    "config",
    """In station.toml: make the station take a reading only every 5 minutes, and switch off the upload to
    the backup server. Leave everything else as it is, including the comments.""",
    _edits("Done.", ("station.toml", "val = 60 ", "val = 300 "), STATION_OFF),
    {"station.toml": STATION},
)
def _station(folder: Path, answer: str) -> bool:
    text, want = _read(folder, "station.toml"), tomllib.loads(STATION)
    want["interval"] = 300
    want["upload"]["backup"]["enabled"] = False
    notes = ("Weather station on the barn roof", "seconds between two readings", "is mounted 15 degrees off")
    return tomllib.loads(text) == want and all(re.search(f"#.*{note}", text) for note in notes)


SSH = """\
# machines at home
Host attic
    HostName 192.168.7.20
    Port 22
Host cellar
    HostName 192.168.7.21
    User root
    Port 22
Host garage
    HostName garage.example.org
    User pia
    Port 2200
Host *
    ServerAliveInterval 60
"""


def _ssh_options(text: str) -> dict[str, list[str]]:
    """The settings of each host."""
    hosts, host = dict[str, list[str]](), ""
    for line in _lines(text):
        if not line.startswith("#"):
            name, value = re.split(r"\s*=\s*|\s+", line, maxsplit=1)
            host = value if name.lower() == "host" else host
            hosts[host] = sorted([*hosts.get(host, ()), f"{name.lower()} {value}"])
    return hosts


@_job(
    "ssh-attic",
    "config",
    """the ssh server on attic listens on port 2222 now and I have to log in there as user mona.
    update ssh_config, nothing else in it should change""",
    _edits("Done.", ("ssh_config", "7.20\n    Port 22\n", "7.20\n    User mona\n    Port 2222\n")),
    {"ssh_config": SSH},
)
def _ssh(folder: Path, answer: str) -> bool:
    text, want = _read(folder, "ssh_config"), _ssh_options(SSH)
    want["attic"] = ["host attic", "hostname 192.168.7.20", "port 2222", "user mona"]
    return _ssh_options(text) == want and "# machines at home" in text


GUESTS = (
    ("Amara Osei", "+44 20 5550 118", "amara@example.com"),
    ("Björn Ek", "+46 8 555 0191", "bjorn.ek@example.se"),
    ("Carla Neves", "+351 21 555 017", ""),
    ("Dmitri Volkov", "+49 30 5550 144", "dv@example.org"),
    ("Eun-ji Park", "+82 2 555 0163", "eunji@example.kr"),
)
VCARD = """BEGIN:VCARD\nVERSION:3.0\nN:{1};{0};;;\nFN:{0} {1}
TEL;TYPE=CELL:{2}\nEMAIL;TYPE=INTERNET:{3}\nEND:VCARD\n"""
CARDS = "".join(VCARD.format(*name.split(), phone, mail) for name, phone, mail in GUESTS)
VCARDS = {"guests.vcf": CARDS.replace("EMAIL;TYPE=INTERNET:\n", "")}


@_job(
    "vcards",
    "convert",
    """I exported the guests of my wedding as guests.vcf, but the caterer wants a table. Turn it into
    guests.csv with the columns name (the full name), phone and email, separated by commas, with a header
    line. If somebody has no email leave that empty.""",
    _puts("guests.csv is there.", {"guests.csv": _csv([("name", "phone", "email"), *GUESTS])}),
    VCARDS,
)
def _vcards(folder: Path, answer: str) -> bool:
    want = [dict(zip(("name", "phone", "email"), guest, strict=True)) for guest in GUESTS]
    found = _records(_read(folder, "guests.csv"))
    return _kept(folder, VCARDS) and sorted(found, key=lambda row: row["name"]) == want


def _harvest() -> list[dict[str, str | float]]:
    rng, found = random.Random(8), list[dict[str, str | float]]()
    plots = ("Steinacker", "Obere Halde", "Kirchberg; Nord", "Kirchberg; Süd", 'Lage "Sonne"', "Mühle")
    for number in range(236):
        kilos = rng.randrange(400, 9000) / 10 + (rng.randrange(1, 4) * 1000 if rng.random() < 0.3 else 0)
        row = {"plot": rng.choice(plots), "kg": round(kilos, 1), "oechsle": rng.randrange(68, 112)}
        found.append({"date": str(date(2023, 9, 4) + timedelta(number // 6)), **row})
    return found


HARVEST = [("Datum", "Lage", "Menge (kg)", "Oechsle")]
for _row in _harvest():
    _day = date.fromisoformat(str(_row["date"]))
    _kilos = f"{_row['kg']:,.1f}".translate(str.maketrans(",.", ".,"))
    HARVEST.append((f"{_day:%d.%m.%Y}", str(_row["plot"]), _kilos, str(_row["oechsle"])))


@_job(
    "grape-harvest",
    "convert",
    """Convert harvest.csv to harvest.json: one list with an object for each row, in the same order, with the
    keys date, plot, kg and oechsle (for Datum, Lage, Menge and Oechsle). The CSV is a German one, so
    1.204,5 means 1204.5 and dates are day.month.year; in the JSON I need dates like 2023-09-04, and kg
    and oechsle as numbers.""",
    _puts("harvest.json is there.", {"harvest.json": json.dumps(_harvest())}),
    {"harvest.csv": _csv(HARVEST, ";")},
    hard=True,
)
def _grapes(folder: Path, answer: str) -> bool:
    found = json.loads(_read(folder, "harvest.json"))
    return found == _harvest() and _kept(folder, {"harvest.csv": _csv(HARVEST, ";")})


FESTIVAL = _files("""
== minutes/2024-03.md
# Street festival, meeting of March
We agreed on the last weekend of August.
- [x] Kemal asks the town for the permit
- [ ] Rosa borrows twelve tables
- [ ] Wim writes to the brass band
- [X] Lotte opens the bank account

Not decided: whether there is a raffle.
- the prizes would have to be given by the shops
== minutes/2024-04.md
# Street festival, meeting of April
## Stage
- [ ] Wim rents a generator (5 kW)
- [x] Lotte measures the square
## Money
The budget is 2,300.
- [ ] Lotte pays the insurance
## Children
- [x] Rosa orders balloons
- [ ] Kemal finds a clown, or a juggler
""")
FESTIVAL_OPEN = re.findall(r"^- \[ \] (.+)$", "".join(FESTIVAL.values()), re.MULTILINE)


@_job(
    "open-points",
    "extract",
    """In the minutes of our street festival (minutes/2024-03.md, then minutes/2024-04.md) the done tasks
    have an x in their box. Collect the tasks that are not done yet in open.txt, one on each line, without
    the box, in the order of the minutes.""",
    _puts("open.txt is there.", {"open.txt": "\n".join(FESTIVAL_OPEN) + "\n"}),
    FESTIVAL,
)
def _festival(folder: Path, answer: str) -> bool:
    found = [re.sub(r"^[-*]\s+", "", line) for line in _lines(_read(folder, "open.txt"))]
    return _kept(folder, FESTIVAL) and found == FESTIVAL_OPEN


LOGIN_FAILED = {  # in the older log, in the newer one
    "203.0.113.77": (14, 9),
    "198.51.100.4": (3, 4),
    "203.0.113.7": (4, 8),
    "192.0.2.130": (0, 5),
    "198.51.100.41": (3, 6),
    "192.0.2.13": (2, 2),
    "203.0.113.171": (4, 0),
    "10.0.0.12": (1, 1),
}


def _login_log(place: int) -> str:
    rng, lines = random.Random(70 + place), list[str]()
    for address in (address for address, counts in LOGIN_FAILED.items() for _ in range(counts[place])):
        user = rng.choice(("root", "invalid user admin", "invalid user test", "jonas"))
        lines.append(f"Failed password for {user} from {address} port {rng.randrange(30000, 60000)} ssh2")
    while len(lines) < 215:
        address, port = rng.choice([*LOGIN_FAILED, "10.0.0.5", "10.0.0.9"]), rng.randrange(30000, 60000)
        accepted = f"Accepted password for jonas from {address} port {port} ssh2"
        closed = f"Connection closed by {address} port {port} [preauth]"
        lines.append(rng.choice((accepted, closed, "pam_unix(sshd:session): session closed for user jonas")))
    rng.shuffle(lines)
    days = [f"Oct {6 + place * 7 + n // 40:2} {n % 40 // 2 + 3:02}:{n % 2 * 30 + 17}:11" for n in range(215)]
    return "".join(f"{days[n]} mill sshd[{900 + n}]: {line}\n" for n, line in enumerate(lines))


LOGINS = {"logs/auth.log.1": _login_log(0), "logs/auth.log": _login_log(1)}
LOGINS_WANT = sorted((-sum(pair), address) for address, pair in LOGIN_FAILED.items() if sum(pair) >= 5)
SUSPECTS = _csv([("ip", "count"), *((address, -count) for count, address in LOGINS_WANT)])


@_job(
    "failed-logins",
    "extract",
    """Look through logs/auth.log.1 and logs/auth.log for failed passwords. Every IP address with 5 or more
    of them in both logs together goes into suspects.csv, with the header ip,count and the highest count
    on top. Leave the logs alone.""",
    _puts("suspects.csv is there.", {"suspects.csv": SUSPECTS}),
    LOGINS,
    hard=True,
)
def _logins(folder: Path, answer: str) -> bool:
    return _kept(folder, LOGINS) and _records(_read(folder, "suspects.csv")) == _records(SUSPECTS)


SCORE = {f"page{n}.txt": f"Trio in F, page {n}, bar {n * 16}" for n in range(1, 13)} | {"cover.txt": "Trio"}


def _score_solve(folder: Path) -> str:
    for n in range(1, 10):
        (folder / f"score/page{n}.txt").rename(folder / f"score/page0{n}.txt")
    return "Nine files have a new name."


@_job(
    "score-pages",
    "files",
    """The pages in score/ get sorted wrongly (page10 comes before page2). Rename them so that all of them
    have two digits, page01.txt and so on. The cover keeps its name.""",
    _score_solve,
    {f"score/{name}": text + "\n" for name, text in SCORE.items()},
)
def _score(folder: Path, answer: str) -> bool:
    want = {re.sub(r"e(\d)\.", r"e0\1.", name): text for name, text in SCORE.items()}
    return _below(folder / "score") == want


def _tapes() -> list[tuple[str, str, str, str]]:
    """File, village, year, keep."""
    rng, towns = random.Random(19), ("Aldermoor", "Crow Hill", "Netherby", "Saltwick")
    numbers, years, keep = rng.sample(range(1, 60), 46), ("1971", "1974", "1980"), ("yes",) * 4 + ("no",)
    return [(f"tape{n:03}.txt", rng.choice(towns), rng.choice(years), rng.choice(keep)) for n in numbers]


TAPES = {f"tape{n:03}.txt": f"Recording {n}, winter number {n * 37 % 101}." for n in range(1, 60)}
TAPE_INDEX = {"index.csv": _csv([("file", "village", "year", "keep"), *_tapes()])}
TAPES_MOVED = {f"{town}/{year}/{name}": TAPES[name] for name, town, year, keep in _tapes() if keep == "yes"}
TAPES_LEFT = {name: text for name, text in TAPES.items() if name not in [row[0] for row in _tapes()]}


def _tapes_solve(folder: Path) -> str:
    for name in TAPES.keys() - TAPES_LEFT.keys():
        (folder / "inbox" / name).unlink()
    return _puts("All sorted.", {f"archive/{name}": text for name, text in TAPES_MOVED.items()})(folder)


@_job(
    "tape-archive",
    "files",
    """Please tidy up the transcripts in inbox/ by means of index.csv. If keep is yes, move the file to
    archive/<village>/<year>/, for example archive/Netherby/1974/. If keep is no, delete it. Files that
    are not in the index stay in inbox, and index.csv stays as it is.""",
    _tapes_solve,
    TAPE_INDEX | {f"inbox/{name}": text + "\n" for name, text in TAPES.items()},
    hard=True,
)
def _archive(folder: Path, answer: str) -> bool:
    moved, left = _below(folder / "archive"), _below(folder / "inbox")
    return moved == TAPES_MOVED and left == TAPES_LEFT and _kept(folder, TAPE_INDEX)


SHOW = {
    "programme.txt": "THE LANTERN MAKER\nA play in two acts\n\nSaturday, 7 pm, doors open at 6.30 pm\n"
    "After the play on Saturday there is soup in the foyer.\n",
    "draft.txt": "The Lantern Maker, Saturday (?), 8 pm\n",
    "cast.txt": "Maker: Olu\nNeighbour: Greta\nNight watch: Sam\n",
}
SHOW_COPY = {"sunday/programme.txt": SHOW["programme.txt"].replace("Saturday", "Sunday")}


def _show_solve(folder: Path) -> str:
    (folder / "draft.txt").unlink()
    return _puts("All three done.", SHOW_COPY)(folder)


@_job(
    "second-show",
    "parts",
    """We play again on Sunday. 1) make a folder sunday and put a copy of programme.txt in it, under the same
    name, 2) in the copy replace Saturday by Sunday wherever it occurs, 3) delete draft.txt.
    The programme.txt for Saturday stays unchanged.""",
    _show_solve,
    SHOW,
)
def _show(folder: Path, answer: str) -> bool:
    texts = _kept(folder, SHOW, "draft.txt") and _kept(folder, SHOW_COPY)
    return texts and not (folder / "draft.txt").exists() and [*_below(folder / "sunday")] == ["programme.txt"]


def _signups() -> list[tuple[str, str, str, str]]:
    rng, found = random.Random(77), list[tuple[str, str, str, str]]()
    first = ["Ada", "Ben", "Cem", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jule", "Kai", "Lena"]
    last = ["Bauer", "Costa", "Dahl", "Evans", "Fuchs", "Gray", "Hahn", "Ito", "Kaya", "Li", "Otte", "Ray"]
    for name in rng.sample([f"{one} {two}" for one in first for two in last], 144):
        team, shirt = rng.choice(("Otters", "Badgers", "Hares")), rng.choice(("S", "M", "L", "XL"))
        found.append((name, name.lower().replace(" ", ".") + "@run.example", team, shirt))
        if len(found) > 30 and rng.random() < 0.55:  # again, sometimes with another size or capital letters
            name, mail, team, shirt = rng.choice(found)
            mail, shirt = rng.choice((mail, mail.title(), mail.upper())), rng.choice((shirt, "S", "XL"))
            found.append((name, mail, team, shirt))
    return found


RUNNERS = list({row[1].lower(): row for row in reversed(_signups())}.values())  # the first rows, sorted below
RUNNERS.sort(key=_signups().index)
RUNNERS_CSV = _csv([("name", "email", "team", "shirt"), *RUNNERS])
SHIRTS = Counter(row[3] for row in RUNNERS)
DROPPED, SIGNUPS = len(_signups()) - len(RUNNERS), {"signups.csv": RUNNERS_CSV[:22] + _csv(_signups())}


@_job(
    "fun-run",
    "parts",
    """signups.csv are the people who signed up for our fun run, some of them more than once. Two rows with
    the same email are the same person, no matter if letters are capital. Write runners.csv with the same
    columns and order but only the first row of each person, then shirts.json with the number of
    shirts for each size among these runners (size: number), and tell me how many rows you dropped.
    Keep signups.csv.""",
    _puts(f"Done; I dropped {DROPPED}.", {"runners.csv": RUNNERS_CSV, "shirts.json": json.dumps(SHIRTS)}),
    SIGNUPS,
    hard=True,
)
def _runners(folder: Path, answer: str) -> bool:
    def low(text: str) -> list[list[str]]:
        return [[name, mail.lower(), team, shirt] for name, mail, team, shirt in _rows(text)]

    same = low(_read(folder, "runners.csv")) == low(RUNNERS_CSV) and _kept(folder, SIGNUPS)
    return same and json.loads(_read(folder, "shirts.json")) == SHIRTS and _says(answer, DROPPED)


PRICES = {"Adult": 18.5, "Child": 9, "Senior": 15, "Dog": 4.5, "Bicycle": 6}
PRICES_PAGE = (
    "<h1>Cable car to the Hornspitze</h1>\n<p>Every 20 minutes, 2,104 m above the sea.</p>\n"
    "<table>\n<tr><th>Ticket</th><th>Up and down</th></tr>\n"
    + "".join(f"<tr><td>{name}</td><td>&euro; {price:.2f}</td></tr>\n" for name, price in PRICES.items())
    + "</table>\n<p>No cards, please.</p>"
)


@_job(
    "cable-car",
    "page",
    """The ticket prices of the cable car are at {site}/prices.html. Save them as prices.csv with the header
    ticket,price, the price as a plain number without the currency.""",
    _puts("prices.csv is there.", {"prices.csv": _csv([("ticket", "price"), *PRICES.items()])}),
    pages=_pages({"prices.html": PRICES_PAGE}),
)
def _cable(folder: Path, answer: str) -> bool:
    rows = _records(_read(folder, "prices.csv"))
    found = {row["ticket"].capitalize(): float(row["price"].replace(",", ".")) for row in rows}
    return found == PRICES and len(rows) == len(PRICES) and set(rows[0]) == {"ticket", "price"}


COURSES = {  # teacher, places, booked
    "Throwing on the wheel": ("Jonas Weir", 16, 13),
    "Building by hand": ("Lucia Prado", 8, 6),
    "Raku firing": ("Noor Haddad", 10, 3),
    "Glazes from ash": ("Bram Visser", 14, 14),
    "Tiles for the kitchen": ("Edda Holm", 12, 7),
}
COURSE_LINKS = "".join(f'<li><a href="{name.split()[0].lower()}.html">{name}</a></li>\n' for name in COURSES)
COURSE_PAGES = {
    f"{name.split()[0].lower()}.html": "<h1>{}</h1>\n<p>Teacher: {}</p>\n<p>Places: {}</p>\n"
    "<p>Booked so far: {}</p>\n".format(name, *facts)
    for name, facts in COURSES.items()
}


@_job(
    "pottery",
    "page",
    """{site}/courses.html links to the pages of all pottery courses, each says how many places there are and
    how many are booked. Which course has the most free places, and who teaches it?""",
    _say("Raku firing, taught by Noor Haddad, has 7 free places."),
    pages=_pages({"courses.html": f"<h1>Pottery in autumn</h1>\n<ul>\n{COURSE_LINKS}</ul>", **COURSE_PAGES}),
    hard=True,
)
def _course(folder: Path, answer: str) -> bool:
    text = re.sub(r"\braku\b(?! firing)", "Raku firing", answer, flags=re.IGNORECASE)
    surnames = [teacher.split()[1] for teacher, *_ in COURSES.values()]
    return _named(text, COURSES, "Raku firing", 900) and _named(text, surnames, "Haddad", 900)


TOUR = """{ "band": "The Paper Kites Club", "concerts": [
  {"city": "Linz", "date": "2025-02-18", "hall": "Posthof"},
  {"city": "Graz", "date": "2025-02-20", "hall": "Orpheum"},
  {"city": "Zagreb", "date": "2025-02-21", "hall": "Culture Factory"},
  {"city": "Maribor", "date": "2025-02-23", "hall": "Old Cinema"} ] }
"""


@_job(
    "tour-date",
    "ask",
    "Our concert in Graz has been put off. Ask me for the new date, then correct it in tour.json.",
    _edits("The concert in Graz is on 12 March 2025 now.", ("tour.json", "2025-02-20", "2025-03-12")),
    {"tour.json": TOUR},
    reply="It's on Wednesday, the 12th of March 2025 now.",
)
def _tour(folder: Path, answer: str) -> bool:
    found, want = json.loads(_read(folder, "tour.json")), json.loads(TOUR)
    want["concerts"][1]["date"] = "2025-03-12"
    for tour in (found, want):  # sorted by date again, or not
        tour["concerts"].sort(key=lambda concert: concert["city"])
    return found == want
