"""Six jobs that are no code, which the bench makes itself: the same ones each time, from a seed.

Each is a job as `bench.real` has them: files, a check, and a solution by code that shows that the check can
be met.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.real.job import Job, create, lines, read, write
from bench.swe.job import SweJob

SEED = 34


def jobs(seed: int = SEED) -> list[SweJob]:
    """The jobs of a seed."""
    return [
        SweJob(job.name, "made", job.task, partial(create, job), job.check, job.pages, job.reply)
        for job in listed(seed)
    ]


def listed(seed: int = SEED) -> list[Job]:
    """The jobs of a seed with their files and solutions."""
    made = (notes, conflicts, research, prices, incidents, offer)
    return [each(random.Random(f"{seed} {each.__name__}")) for each in made]


def rows(folder: Path, name: str, *columns: str) -> list[tuple[str, ...]]:
    """The rows of a CSV file, sorted; raises `KeyError` for a missing column."""
    found = csv.DictReader(io.StringIO(read(folder, name)))
    return sorted(tuple((row[column] or "").strip() for column in columns) for row in found)


def as_csv(columns: Sequence[str], told: Sequence[Sequence[object]]) -> str:
    """The text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(told)
    return text.getvalue()


# ---- twelve notes ----------------------------------------------------------------------------------------

THINGS = ("ladder", "projector", "kettle", "printer", "drill", "lamp", "router", "camera", "heater")
SHOPS = ("Brandt", "Nordlicht", "Oakley & Son", "Peters", "Quint", "Riemann")
SENTENCES = (
    "{day}: fetched the {thing} from {shop} today, {euro} euros, paid by card.",
    "We have a new {thing}. {shop} delivered it on {day} and the bill says {euro} euros.",
    "{shop} sold us the {thing} for {euro} euros ({day}). Two others had been dearer.",
)
CHAT = (
    "The window on the second floor still does not close.",
    "Mrs Lang will be away until Thursday.",
    "Remember to ask about the parking space; {euro} euros a month are too much.",
    "{shop} has moved, the shop is now near the station.",
    "Nobody has watered the plants.",
)


def notes(rng: random.Random) -> Job:
    """Nine purchases in twelve notes; one note corrects an amount, one gives a thing back, one has none."""
    files: dict[str, str] = {}
    found: list[list[str]] = []
    for number, thing in enumerate(rng.sample(THINGS, 9), 1):
        name = f"notes/{number:02}.md"
        told = {
            "thing": thing,
            "shop": rng.choice(SHOPS),
            "day": f"2026-{rng.randint(1, 9):02}-{rng.randint(1, 28):02}",
            "euro": f"{rng.randint(20, 400)}.{rng.randint(10, 99)}",
        }
        other = {"euro": rng.randint(30, 90), "shop": rng.choice(SHOPS)}
        chat = [each.format(**other) for each in rng.sample(CHAT, 3)]
        chat.insert(rng.randint(0, 3), rng.choice(SENTENCES).format(**told))
        files[name] = "\n\n".join(chat) + "\n"
        found.append([thing, told["shop"], told["day"], told["euro"], name])
    wrong, returned = found[2], found[6]
    right = f"{rng.randint(20, 400)}.{rng.randint(10, 99)}"
    files["notes/10.md"] = (
        f"I had the amount of the {wrong[0]} wrong. The bill of {wrong[1]} is {right} euros.\n"
    )
    files["notes/11.md"] = (
        f"The {returned[0]} did not work. {returned[1]} took it back and repaid all of it.\n"
    )
    files["notes/12.md"] = "Quiet week, nothing bought. The offers for a new table are all too high.\n"
    wrong[3], wrong[4] = right, f"{wrong[4]};notes/10.md"
    kept = [each for each in found if each is not returned]
    columns = ("thing", "shop", "day", "euros", "sources")

    def check(folder: Path, _answer: str) -> bool:
        return rows(folder, "purchases.csv", *columns) == sorted(map(tuple, kept))

    def solution(folder: Path) -> str:
        write(folder, "purchases.csv", as_csv(columns, kept))
        return "purchases.csv lists what was bought"

    task = (
        "The folder notes has twelve notes. Make purchases.csv of them, a table of everything "
        "that we bought and still have, with the columns thing (one word, as in the notes), shop,"
        " day (YYYY-MM-DD), euros (what it really cost, with a point and two decimals) and "
        "sources: the path of each note that the row rests on, such as notes/01.md, with a "
        "semicolon between two, in the order of their names."
    )
    return Job("notes-table", "extract", task, check, solution, files)


# ---- two contradicting tables ----------------------------------------------------------------------------


def conflicts(rng: random.Random) -> Job:
    """Two stock lists of 60 articles in different notations; some differ, some are in one list only."""
    skus = [f"{rng.choice('ABCDEF')}{number}" for number in rng.sample(range(1000, 9999), 60)]
    amount = {sku: rng.randint(1, 4000) for sku in skus}
    counted = {sku: f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}" for sku in skus}
    one, other = dict(amount), dict(amount)
    dates = dict(counted)
    picked = rng.sample(skus, 10)
    for sku in picked[:4]:
        other[sku] += rng.choice((-1, 1, 10))
    for sku in picked[4:6]:
        year, month, day = counted[sku].split("-")
        dates[sku] = f"{year}-{month}-{int(day) % 28 + 1:02}"
    for sku in picked[6:8]:
        del one[sku]
    for sku in picked[8:]:
        del other[sku]
    found: list[tuple[str, ...]] = []
    for sku in picked[:4]:
        found.append((sku, "quantity", str(one[sku]), str(other[sku])))
    for sku in picked[4:6]:
        found.append((sku, "counted", counted[sku], dates[sku]))
    for sku in picked[6:8]:
        found.append((sku, "missing", "", "present"))
    for sku in picked[8:]:
        found.append((sku, "missing", "present", ""))
    german = {sku: ".".join(reversed(day.split("-"))) for sku, day in dates.items()}
    left = [(sku, one[sku], counted[sku]) for sku in sorted(one)]
    right = [f"{sku.lower()};{other[sku]:,}".replace(",", ".") + f";{german[sku]}" for sku in other]
    files = {
        "warehouse.csv": as_csv(("sku", "quantity", "counted"), left),
        "shop.csv": "\n".join(["Artikel;Menge;gezählt am", *right]) + "\n",
    }
    columns = ("sku", "field", "warehouse", "shop")

    def check(folder: Path, _answer: str) -> bool:
        return rows(folder, "conflicts.csv", *columns) == sorted(found)

    def solution(folder: Path) -> str:
        write(folder, "conflicts.csv", as_csv(columns, found))
        return f"{len(found)} contradictions"

    task = (
        "warehouse.csv and shop.csv list the same articles and contradict each other in places. "
        "They write numbers, dates and article numbers differently (shop.csv: 1.250 is one "
        "thousand two hundred fifty, dates are day.month.year); that is no contradiction. Write "
        "conflicts.csv with the columns sku (as in warehouse.csv), field, warehouse and shop: a "
        "row for each contradiction, where field is quantity or counted and the values are plain "
        "integers or dates as YYYY-MM-DD. For an article that only one of them has, field is "
        "missing, the column of the file that has it says present and the other one is empty. Do "
        "not decide who is right."
    )
    return Job("two-tables", "compute", task, check, solution, files)


# ---- a site of 30 pages ----------------------------------------------------------------------------------

PLACES = ("Arkholm", "Brevik", "Caldra", "Dunmore", "Eskvoe", "Farness", "Grimsey", "Hallvik", "Ingarth")
KEEPERS = ("Aud Bakke", "Bo Crane", "Cai Dahl", "Dot Ekman", "Eli Frost", "Fay Gunn", "Gil Holm", "Ida Jarl")


def research(rng: random.Random) -> Job:
    """A site about lighthouses: the tallest one that is still lit, and who kept it in a year."""
    heights = rng.sample(range(18, 70), len(PLACES))
    ranked = [place for _, place in sorted(zip(heights, PLACES, strict=True), reverse=True)]
    dark, wanted = ranked[0], ranked[1]  # the tallest of all is out of use
    year = 1931
    pages: dict[str, str] = {}
    keepers = {place: rng.sample(KEEPERS, 3) for place in PLACES}
    for place, height in zip(PLACES, heights, strict=True):
        lit = "It was put out in 1988." if place == dark else "It is lit to this day."
        pages[f"/lights/{place.lower()}.html"] = page(
            f"{place} light",
            f"<p>The tower of {place} is {height} metres high. {lit}</p>",
            {f"/people/{place.lower()}.html": f"Who kept {place}"},
        )
        first, second, third = keepers[place]
        start = rng.randint(1922, 1929)
        pages[f"/people/{place.lower()}.html"] = page(
            f"Keepers of {place}",
            f"<table><tr><td>{first}</td><td>1899-{start}</td></tr><tr><td>{second}</td><td>{start + 1}-1946"
            f"</td></tr><tr><td>{third}</td><td>from 1947</td></tr></table>",
            {f"/lights/{place.lower()}.html": f"The light of {place}"},
        )
    for number in range(1, 9):
        other = rng.choice(PLACES)
        pages[f"/stories/{number}.html"] = page(
            f"Story {number}",
            f"<p>They say that {other} is the tallest light of the coast, and that {rng.choice(KEEPERS)} "
            f"kept it in {year}. Nobody has measured it.</p>",
            {"/": "Home"},
        )
    indexed = {name: name.rsplit("/", 1)[1][:-5].title() for name in pages}
    halves = [dict(list(indexed.items())[at::2]) for at in (0, 1)]
    pages["/list-2.html"] = page("Pages, second part", "", halves[1])
    pages["/list.html"] = page("Pages, first part", "", halves[0] | {"/list-2.html": "Second part"})
    pages["/about.html"] = page("About", "<p>Heights are measured. Stories are stories.</p>", {"/": "Home"})
    pages["/"] = page("Lights of the coast", "", {"/list.html": "All pages", "/about.html": "About"})
    keeper = keepers[wanted][1]
    used = [f"/lights/{wanted.lower()}.html", f"/people/{wanted.lower()}.html"]

    def check(folder: Path, _answer: str) -> bool:
        text = read(folder, "answer.md")
        others = [name for name in KEEPERS if name != keeper and name in text]
        return keeper in text and wanted in text and not others and all(each in text for each in used)

    def solution(folder: Path) -> str:
        write(folder, "answer.md", f"{keeper} kept {wanted}: {' '.join(used)}\n")
        return keeper

    task = (
        f"The site {{site}}/ tells about lighthouses. Who kept the tallest one that is still lit "
        f"in {year}? Write answer.md: the name of the keeper, the name of the light, and the "
        "addresses of the pages that show both the height and the keeper. Name no other keeper "
        "there."
    )
    return Job("thirty-pages", "page", task, check, solution, pages=pages)


def page(title: str, body: str, links: Mapping[str, str]) -> str:
    """A page of the site."""
    listed = "".join(f'<li><a href="{path}">{text}</a></li>' for path, text in links.items())
    head = f"<html><head><title>{title}</title></head>"
    return f"{head}<body><h1>{title}</h1>{body}<ul>{listed}</ul></body></html>"


# ---- a question in the middle ----------------------------------------------------------------------------


RULES = """# Rules for the common price list

- prices.csv has the columns article and cents, sorted by article.
- Where north and south differ by at most 10 cents, the higher price holds.
- Where they differ by more, nobody guesses and no rule decides: ask the person who gave you the task which
  branch is right for that article.
"""


def prices(rng: random.Random) -> Job:
    """Two price lists and rules for merging them; for one article the rules say that the person decides."""
    articles = [f"{kind}-{number}" for kind in ("bolt", "nut", "pin") for number in range(1, 9)]
    north = {each: rng.randint(200, 900) for each in articles}
    south = {each: price + rng.choice((0, 0, 3, -4, 7)) for each, price in north.items()}
    asked = rng.choice(articles)
    south[asked] = north[asked] * 2 + 11
    right = {each: max(north[each], south[each]) for each in articles} | {asked: north[asked]}
    files = {
        "RULES.md": RULES,
        "north.csv": as_csv(("article", "cents"), list(north.items())),
        "south.csv": as_csv(("article", "cents"), list(south.items())),
    }

    def check(folder: Path, _answer: str) -> bool:
        return rows(folder, "prices.csv", "article", "cents") == sorted(
            (article, str(cents)) for article, cents in right.items()
        )

    def solution(folder: Path) -> str:
        write(folder, "prices.csv", as_csv(("article", "cents"), sorted(right.items())))
        return "prices.csv is written"

    task = "Make prices.csv of north.csv and south.csv, by the rules in RULES.md."
    reply = "For that article the price of north is right."
    return Job("one-question", "ask", task, check, solution, files, reply=reply)


# ---- a long log ------------------------------------------------------------------------------------------

CAUSES = (
    "no space left on /var/spool/mail",
    "certificate of pay.example expired",
    "pool size changed 40 -> 2",
)
NOISE = (
    "INFO request trace={trace} done in {ms} ms",
    "INFO job={job} picked by worker w{worker}",
    "WARN slow query trace={trace} {ms} ms",
    "ERROR attempt 1 failed trace={trace}, retrying",
    "WARN job={job} could not lock /var/lock/{worker}, retrying",
)
LINES = 42_000


def incidents(rng: random.Random) -> Job:
    """A log of more than 2 MB: three lost orders, each with a cause two hops and thousands of lines away."""

    def noise() -> str:
        told = {"trace": f"{rng.getrandbits(32):08x}", "job": f"J{rng.randint(10000, 99999)}"}
        return rng.choice(NOISE).format(**told, ms=rng.randint(2, 900), worker=rng.randint(1, 30))

    log = [noise() for _ in range(LINES)]
    expected: dict[str, Any] = {}
    for number, cause in enumerate(rng.sample(CAUSES, 3)):
        start = 3_000 + number * 12_000 + rng.randint(0, 3_000)
        handed, lost = start + rng.randint(2_000, 4_000), start + rng.randint(6_000, 8_000)
        trace, job, order = (
            f"{rng.getrandbits(32):08x}",
            f"J{number}{rng.randint(1000, 9999)}",
            f"O-{4711 + number}",
        )
        log[start] = f"WARN job={job} stopped: {cause}"
        log[handed] = f"INFO trace={trace} waits for job={job}"
        log[lost] = f"ERROR order {order} lost trace={trace}"
        log[lost - 900] = f"ERROR order {order} delayed trace={rng.getrandbits(32):08x}"
        expected[order] = {"cause": cause, "line": start + 1}
    seconds = (f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}" for at in range(LINES))
    text = "\n".join(f"2026-03-14T{time} {line}" for time, line in zip(seconds, log, strict=True)) + "\n"

    def check(folder: Path, _answer: str) -> bool:
        return json.loads(read(folder, "causes.json")) == expected

    def solution(folder: Path) -> str:
        write(folder, "causes.json", json.dumps(expected))
        return "causes.json is written"

    task = (
        "service.log is the log of one day. Three orders were lost in it. An order that is lost "
        "has a trace, the trace waits for a job, and the job stopped for a reason. Write "
        'causes.json: an object from the number of each lost order, such as "O-1234", to '
        '{"cause": the text behind "stopped: ", "line": the number of that line, from 1}.'
    )
    return Job("long-log", "extract", task, check, solution, {"service.log": text})


# ---- a document from a template --------------------------------------------------------------------------

TEMPLATE = """# Offer {{number}}

{{customer.name}}, {{customer.city}}

<!-- if express -->
We deliver within {{express_days}} days.
<!-- end -->
<!-- if discount -->
You get a discount of {{discount}} percent on the sum.
<!-- end -->

| position | pieces | each | together |
| --- | --- | --- | --- |
<!-- for items -->
| {{name}} | {{pieces}} | {{each}} | {{together}} |
<!-- end -->

Sum: {{sum}} euros
<!-- if discount -->
To pay: {{to_pay}} euros
<!-- end -->

This offer binds us for {{valid_days}} days. Prices such as {{each}} are examples of the form only.
"""
LAST = "Prices such as {{each}} are examples of the form only."
HOW = """# Filling the template

- `<!-- if X -->` to `<!-- end -->`: kept if X in data.json is neither false nor 0.
- `<!-- for items -->` to `<!-- end -->`: once for each item, in the order of data.json.
- No comment is left. `each` is the price of one piece; amounts are euros with two decimals.
- The discount is rounded to a cent, half a cent up, and taken off the sum.
- The last sentence of the template stays as it is, with its placeholder.
"""


def offer(rng: random.Random) -> Job:
    """A template with parts that are left out, a table and sums; one placeholder is to be kept."""
    items = [
        {"name": name, "pieces": rng.randint(2, 40), "cents": rng.randint(105, 9900)}
        for name in rng.sample(("desk", "chair", "shelf", "lamp", "screen", "cable"), 5)
    ]
    total = sum(each["pieces"] * each["cents"] for each in items)
    data = {
        "number": f"2026-{rng.randint(100, 999)}",
        "customer": {"name": "Weaver & Daughters", "city": "Port Ellen"},
        "express": False,
        "express_days": 2,
        "discount": rng.choice((5, 10, 20)),
        "valid_days": 30,
        "items": items,
    }

    def euros(cents: float) -> str:
        return f"{int(cents) // 100}.{int(cents) % 100:02}"

    def filled() -> str:
        lined = [
            f"| {each['name']} | {each['pieces']} | {euros(each['cents'])} | "
            f"{euros(each['pieces'] * each['cents'])} |"
            for each in items
        ]
        pay = total - (total * data["discount"] + 50) // 100
        return "\n".join(
            [
                f"# Offer {data['number']}",
                "Weaver & Daughters, Port Ellen",
                f"You get a discount of {data['discount']} percent on the sum.",
                "| position | pieces | each | together |",
                "| --- | --- | --- | --- |",
                *lined,
                f"Sum: {euros(total)} euros",
                f"To pay: {euros(pay)} euros",
                f"This offer binds us for 30 days. {LAST}",
            ]
        )

    files = {
        "template.md": TEMPLATE,
        "data.json": json.dumps(data, indent=1),
        "HOW.md": HOW,
    }

    def check(folder: Path, _answer: str) -> bool:
        def plain(text: str) -> list[str]:
            return [re.sub(r"\s+", " ", line) for line in lines(text)]

        return plain(read(folder, "offer.md")) == plain(filled())

    def solution(folder: Path) -> str:
        write(folder, "offer.md", filled())
        return "offer.md is written"

    task = "Write offer.md from template.md with the data of data.json, as HOW.md says."
    return Job("from-template", "text", task, check, solution, files)
