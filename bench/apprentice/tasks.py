"""Eight types of tasks on real files, each with its right steps and its usual mistake.

Only the files decide whether a task is done (`is_done`). No two tasks of a stream are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

Step = dict[str, Any]

FIRST = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor", "iris", "juniper"),
    "kestrel",
)
SECOND = ("north", "south", "east", "west", "alpha", "omega", "prime", "lower", "upper", "inner", "outer")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September")
STANDING: Mapping[str, str] = {
    "README.md": "# Workshop\nNotes, tables and small programs of the team.\n" * 3,
    "docs/contact.md": "Ask Ada for keys, Bo for the rest.\n" * 4,
    "docs/history.md": "The workshop began in 1998 with two tables and a shed.\n" * 5,
    "docs/rooms.md": "Room 1 has the press. Room 2 has the lathe. Room 3 is let.\n" * 4,
}
"""Files that are there for every task."""


@dataclass(frozen=True)
class Task:
    """One task: its text and files, the right steps and the mistaken ones, and whether it is done."""

    kind: str
    text: str
    files: Mapping[str, str]
    good: Sequence[Step]
    bad: Sequence[Step]
    success: Sequence[Mapping[str, Any]]
    is_done: Callable[[Path], bool]
    second: Sequence[Step] = ()  # the second attempt, if it differs from `good`

    def lay_out(self, folder: Path) -> None:
        """Write its files and the standing ones into an empty folder."""
        for name, text in {**STANDING, **self.files}.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")


def call(tool: str, **args: Any) -> Step:
    """A step with all arguments."""
    return {"tool": tool, "args": args}


def content(folder: Path, name: str) -> str:
    """The text of a file; "" if it is missing."""
    place = folder / name
    return place.read_text("utf-8") if place.is_file() else ""


def _edit(name: str, random: Random) -> Task:
    """Mistake: the old text is guessed instead of read, so the edit fails."""
    day = f"{random.randint(2, 28)} {random.choice(MONTHS)}"
    before = random.choice(
        ("Deadline: open", "deadline = tbd", "Deadline (planned): soon", "- deadline: none")
    )
    path = f"notes/{name}.md"
    text = f"# {name.title()}\n{before}\nOwner: Ada\n"
    edit = {"tool": "edit", "what": f"set the deadline in {path} to {day}"}
    return Task(
        "edit",
        f"In {path} set the deadline to {day}.",
        {path: text},
        [call("read", path=path), edit],
        [call("edit", path=path, old="Deadline: TBD", new=f"Deadline: {day}")],
        [{"file": path, "has": day}],
        lambda folder: content(folder, path) == text.replace(before, f"Deadline: {day}"),
        [call("read", path=path), edit],
    )


def _report(name: str, random: Random) -> Task:
    """Mistake: the summary is written into the top folder."""
    month = random.choice(MONTHS)
    rows = [(random.choice(("tea", "rice", "salt")), random.randint(1, 90)) for _ in range(9)]
    table = "good,amount\n" + "".join(f"{good},{amount}\n" for good, amount in rows)
    file = f"{name}-{month.lower()}.md"
    query = call("csv", path=f"data/{name}.csv", query="sum amount by good")

    def to(path: str) -> list[Step]:
        return [query, call("write", path=path, content="{{ steps[1].result }}\n")]

    return Task(
        "report",
        f"Write the summary of {name} for {month}, amounts by good, as {file}.",
        {f"data/{name}.csv": table, "reports/older.md": "good,sum of amount\ntea,3\n"},
        to(f"reports/{file}"),
        to(file),
        [{"step": 2, "has": "wrote"}],
        lambda folder: (
            f"tea,{sum(a for g, a in rows if g == 'tea')}" in content(folder, f"reports/{file}")
            or (not any(g == "tea" for g, _ in rows) and bool(content(folder, f"reports/{file}")))
        ),
    )


def _label(name: str, random: Random) -> Task:
    """Mistake: the number is on the label without its unit."""
    weight, unit = round(random.uniform(1, 80), 1), random.choice(("kg", "lb"))
    source, label = f"parcels/{name}.json", f"labels/{name}.txt"
    number = call("json", path=source, query="weight")
    measure = call("json", path=source, query="unit")
    return Task(
        "label",
        f"Put the weight of the parcel {name} on its label {label}.",
        {source: json.dumps({"weight": weight, "unit": unit, "to": random.choice(SECOND)}, indent=1)},
        [number, measure, call("write", path=label, content="{{ steps[1].result }} {{ steps[2].result }}\n")],
        [number, call("write", path=label, content="{{ steps[1].result }}\n")],
        [{"file": label, "has": str(weight)}],
        lambda folder: content(folder, label).split() == [str(weight), unit],
    )


def _ranking(name: str, random: Random) -> Task:
    """Mistake: the list is sorted in ascending order."""
    points = random.sample(range(1, 400), 7)
    text = "".join(f"{who} {n}\n" for who, n in zip(FIRST, points, strict=False))
    source, target = f"scores/{name}.txt", f"rankings/{name}.txt"
    plain = call("sort", path=source, numeric=True, to=target)
    return Task(
        "ranking",
        f"Make the ranking {target} of the scores in {source}.",
        {source: text},
        [call("sort", path=source, numeric=True, order="descending", to=target)],
        [plain],
        [{"file": target, "has": r"\w+ \d+"}],
        lambda folder: content(folder, target).split()[1:2] == [str(max(points))],
    )


def _rows(name: str, random: Random) -> Task:
    """Mistake: the rows lack the header of the table."""
    region = random.choice(SECOND[:4])
    lines = [f"{random.choice(SECOND[:4])},{random.randint(1, 99)}" for _ in range(8)] + [f"{region},7"]
    source, target = f"tables/{name}.csv", f"extracts/{name}-{region}.csv"
    expected = ["region,amount", *(line for line in lines if line.startswith(f"{region},"))]
    return Task(
        "rows",
        f"Extract the rows of {region} from {source} into {target}.",
        {source: "region,amount\n" + "\n".join(lines) + "\n", "extracts/.keep": ""},
        [call("csv", path=source, query=f"rows where region = {region}", to=target)],
        [call("bash", command=f"grep '^{region},' {source} > {target}")],
        [{"file": target, "has": region}],
        lambda folder: content(folder, target).split() == expected,
    )


def _fix(name: str, random: Random) -> Task:
    """Mistake: the first idea is not tested, and it is usually wrong."""
    by = random.randint(2, 9)
    source, test = f"src/{name}.py", f"tests/{name}.expected"
    wrong = random.random() < FIRST_FIX_WRONG
    broken, fixed = f"return n * {by - 1}", f"return n * {by}"
    first = f"return n + {by}" if wrong else fixed
    run = call("bash", command=f"grep -q -x -F -f {test} {source}")
    return Task(
        "fix",
        f"Fix the function scale in {source}: it has to be as {test} says.",
        {source: f"def scale(n):\n    {broken}\n", test: f"    {fixed}\n"},
        [call("edit", path=source, old=broken, new=first), run],
        [call("edit", path=source, old=broken, new=first)],
        [{"judge": f"scale multiplies by {by}"}],
        lambda folder: fixed in content(folder, source),
        [call("edit", path=source, old=first, new=fixed), run],
    )


def _setting(name: str, random: Random) -> Task:
    """Mistake: the file is overwritten with one key, and all others are lost."""
    old, new = random.sample(range(1000, 9999), 2)
    path = f"config/{name}.json"
    text = f'{{\n  "host": "{name}.local",\n  "port": {old},\n  "retries": {random.randint(1, 9)}\n}}\n'
    return Task(
        "setting",
        f"Set the port in {path} from {old} to {new}.",
        {path: text},
        [call("edit", path=path, old=f'"port": {old}', new=f'"port": {new}')],
        [call("write", path=path, content=f'{{"port": {new}}}\n')],
        [{"file": path, "has": f'"port": {new}'}],
        lambda folder: content(folder, path) == text.replace(str(old), str(new)),
        [call("write", path=path, content=text.replace(str(old), str(new)))],
    )


def _errors(name: str, random: Random) -> Task:
    """Mistake: words in lower case are not counted."""
    words = [random.choice(("ERROR", "error", "Error", "info", "warning")) for _ in range(30)] + ["error"]
    log, target = f"logs/{name}.log", f"answers/{name}.txt"
    count = sum(word.lower() == "error" for word in words)

    def by(pattern: str) -> list[Step]:
        counted = call("count", what="matches", path=log, pattern=pattern, format="total")
        return [counted, call("write", path=target, content="{{ steps[1].result }}\n")]

    return Task(
        "errors",
        f"Count the errors in {log} and write the number to {target}.",
        {log: "".join(f"{n:02} {word} at gate {n % 4}\n" for n, word in enumerate(words))},
        by("(?i)error"),
        by("ERROR"),
        [{"file": target, "has": r"\d"}],
        lambda folder: content(folder, target).strip() == str(count),
    )


FIRST_FIX_WRONG = 0.7
"""How often the first idea of a fix is wrong."""
KINDS: Mapping[str, Callable[[str, Random], Task]] = {
    "edit": _edit,
    "report": _report,
    "label": _label,
    "ranking": _ranking,
    "rows": _rows,
    "fix": _fix,
    "setting": _setting,
    "errors": _errors,
}


def stream(seed: int, rounds: int) -> list[Task]:
    """So many rounds of one task of each type, in random order."""
    random = Random(f"learning {seed}")
    names = [f"{a}_{b}" for a in FIRST for b in SECOND]
    tasks: list[Task] = []
    for chosen in zip(*(random.sample(names, rounds) for _ in KINDS), strict=True):
        batch = [KINDS[kind](name, random) for kind, name in zip(KINDS, chosen, strict=True)]
        random.shuffle(batch)
        tasks += batch
    return tasks
