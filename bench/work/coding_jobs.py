"""A stream of corrections in a made-up project: faults of a few kinds that come again, in other parts of it.

Most faults are not where they show. One kind is in a file that another one is generated from. For most
faults there is a tempting correction that does not help. Some jobs sound like a kind and are another fault,
and some come once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

ONCE, FALSE_FRIEND = "once", "false friend"
COMMAND = "python3 tools/run.py checks"
"""How the project is checked. It is written in CONTRIBUTING.md, and cannot be guessed."""
AREAS = (
    *(
        "billing",
        "stock",
        "orders",
        "parcels",
        "members",
        "tickets",
        "library",
        "garden",
        "kitchen",
        "museum",
    ),
    *(
        "harbour",
        "school",
        "clinic",
        "theatre",
        "orchard",
        "bakery",
        "printing",
        "archive",
        "cinema",
        "stable",
    ),
)
_BYSTANDERS = ("labels", "colours", "settings", "greeting")


@dataclass(frozen=True)
class Correction:
    """A change of one line of a file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class CodingJob:
    """A fault in a project: its files, and corrections that come to mind, of which one helps."""

    kind: str
    area: str
    task: str
    files: Mapping[str, str]
    ideas: tuple[Correction, ...]  # in the order in which they come to mind
    right: Correction


@dataclass(frozen=True)
class _Fault:
    """A kind of fault: its symptom, the module in which it shows, and the file in which it is."""

    kind: str
    symptom: str
    front: str
    front_text: str
    helper: str
    helper_text: str
    old: str
    right: str
    wrong: str
    check: str
    generated: bool = False  # the helper is written from a template


_FAULTS = (
    _Fault(
        "cents",
        "the total in {area} is a cent too low for some amounts",
        "totals",
        "from {area}.money import cents\n\n\ndef total(amount):\n    return cents(amount * 1.2)\n",
        "money",
        "def cents(value):\n    return int(value * 100) / 100\n",
        "int(value * 100) / 100",
        "round(value, 2)",
        "float(round(value))",
        "from {area}.totals import total\n"
        "assert (total(0.83), total(1.7)) == (1.0, 2.04), (total(0.83), total(1.7))\n",
    ),
    _Fault(
        "last day",
        "the report of {area} misses the last day of the month",
        "report",
        "from {area}.days import days\n\n\ndef report(last):\n    return [f'day {n}' for n in days(last)]\n",
        "days",
        "def days(last):\n    return list(range(1, last))\n",
        "range(1, last)",
        "range(1, last + 1)",
        "range(0, last)",
        "from {area}.report import report\nassert report(3) == ['day 1', 'day 2', 'day 3'], report(3)\n",
    ),
    _Fault(
        "template",
        "letters of {area} begin with the wrong word",
        "letters",
        "from {area}.phrases import OPENING\n\n\ndef letter(name):\n    return f'{OPENING} {name}'\n",
        "phrases",
        "OPENING = 'Deer'\n",
        "'Deer'",
        "'Dear'",
        "'Dear'",
        "from {area}.letters import letter\nassert letter('Ida') == 'Dear Ida', letter('Ida')\n",
        generated=True,
    ),
    _Fault(
        "numbers as text",
        "the list of {area} shows number 10 before number 9",
        "listing",
        "from {area}.ranks import ranked\n\n\ndef listing(names):\n    return ', '.join(ranked(names))\n",
        "ranks",
        "def ranked(names):\n    return sorted(names)\n",
        "sorted(names)",
        "sorted(names, key=int)",
        "sorted(names, reverse=True)",
        "from {area}.listing import listing\n"
        "assert listing(['10', '9', '2']) == '2, 9, 10', listing(['10', '9', '2'])\n",
    ),
    _Fault(
        "shared list",
        "a new basket in {area} still has the items of the one before",
        "basket",
        "from {area}.items import added\n\n\ndef basket(item):\n    return added(item)\n",
        "items",
        "def added(item, items=[]):\n    items += [item]\n    return items\n",
        "items += [item]",
        "items = [*items, item]",
        "items.append(item)",
        "from {area}.basket import basket\nbasket('a')\nassert basket('b') == ['b'], basket('b')\n",
    ),
    _Fault(
        "limit",
        "{area} lets one guest too many in",
        "door",
        "from {area}.places import full\n\n\n"
        "def enter(inside):\n    return 'sorry' if full(inside) else 'in'\n",
        "places",
        "MOST = 4\n\n\ndef full(inside):\n    return inside > MOST\n",
        "inside > MOST",
        "inside >= MOST",
        "inside > MOST + 1",
        "from {area}.door import enter\n"
        "assert (enter(3), enter(4)) == ('in', 'sorry'), (enter(3), enter(4))\n",
    ),
    _Fault(
        "accents",
        "{area} cannot look up names with accents",
        "lookup",
        "from {area}.keys import key\n\n\n"
        "def lookup(names, name):\n    return {key(n): n for n in names}[key(name)]\n",
        "keys",
        "def key(name):\n    return name.lower().encode('ascii')\n",
        "encode('ascii')",
        "encode('utf-8')",
        "encode('ascii', 'ignore')",
        "from {area}.lookup import lookup\n"
        "found = lookup(['\\u00c9', '\\u00c0'], '\\u00c9')\nassert found == '\\u00c9', ascii(found)\n",
    ),
    _Fault(
        "summer time",
        "times in {area} are an hour off in summer",
        "times",
        "from {area}.zone import local\n\n\n"
        "def shown(hour, summer):\n    return f'{local(hour, summer)}:00'\n",
        "zone",
        "def local(hour, summer):\n    return hour + 1\n",
        "hour + 1",
        "hour + 1 + summer",
        "hour + 2",
        "from {area}.times import shown\n"
        "assert (shown(8, 0), shown(8, 1)) == ('9:00', '10:00'), shown(8, 1)\n",
    ),
)
KINDS = tuple(fault.kind for fault in _FAULTS)
_WORDS = (
    *("fee", "span", "depth", "share", "weight", "pause"),
    *("bonus", "width", "score", "delay", "range", "level"),
)
_RUN = '''"""Checks the project. Modules with a template are written anew first."""

import pathlib
import runpy
import sys

sys.dont_write_bytecode = True
root = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(root))
if sys.argv[1:] != ["checks"]:
    sys.exit("nothing to do")
for template in sorted(root.glob("*/*.tmpl")):
    module, text = template.with_suffix(".py"), template.read_text()
    if module.read_text() != text:
        module.write_text(text)
for check in sorted(root.glob("checks/*.py")):
    runpy.run_path(str(check))
print("OK")
'''
_CONTRIBUTING = f"""# Contributing

Each part of the program has a folder of its own, with small modules. Please keep it so, and write in the
style of the code around. Names are English words. Everything is free software, see LICENSE.

Before you hand in a change, run `{COMMAND}`: it prints OK when every check holds. Add a check for what you
change.
"""


def coding_jobs(number: int, seed: int = 1) -> list[CodingJob]:
    """So many jobs in random order, of fewer kinds where they are few: of each round one job of each kind."""
    random = Random(f"coding {seed}")
    faults = _FAULTS[: max(number // 6, 2)]
    jobs = [job for _, job in zip(range(number), _endless(faults, random), strict=False)]
    random.shuffle(jobs)
    return jobs


def _endless(faults: Sequence[_Fault], random: Random) -> Iterator[CodingJob]:
    """Rounds of one job of each kind, one false friend and one that comes once, in changing parts."""
    for turn in count():
        for place, fault in enumerate(faults):
            area = AREAS[(turn + place * 7) % len(AREAS)]
            yield _job(fault, area, random)
        yield _false_friend(faults[turn % len(faults)], AREAS[(turn + 3) % len(AREAS)])
        yield _once(AREAS[(turn * 3 + 5) % len(AREAS)], _WORDS[turn % len(_WORDS)], turn // len(_WORDS))


def _job(fault: _Fault, area: str, random: Random) -> CodingJob:
    """A fault of a kind in a part of the project; half of the time the tempting correction comes first."""
    module = f"{area}/{fault.helper}.py"
    path = f"{area}/{fault.helper}.tmpl" if fault.generated else module
    files = _project(area, fault)
    right = Correction(path, fault.old, fault.right)
    wrong = Correction(module, fault.old, fault.wrong)
    ideas = (wrong, right) if fault.generated or random.random() < 0.5 else (right, wrong)
    wording = random.choice(("{}. Fix it.", "Fix this: {}.", "Somebody wrote that {}. Correct the code."))
    return CodingJob(fault.kind, area, wording.format(fault.symptom.format(area=area)), files, ideas, right)


def _false_friend(fault: _Fault, area: str) -> CodingJob:
    """A job that sounds like a kind, with the fault in the module in which it shows."""
    files = _project(area, fault)
    helpers = [path for path in files if path.startswith(f"{area}/{fault.helper}.")]
    files |= {path: files[path].replace(fault.old, fault.right) for path in helpers}
    front = f"{area}/{fault.front}.py"
    right = files[front].splitlines()[-1].strip()
    files[front] = files[front].replace(right, "return None")
    task = f"{fault.symptom.format(area=area)}. Fix it."
    correction = Correction(front, "return None", right)
    return CodingJob(FALSE_FRIEND, area, task, files, (correction,), correction)


def _once(area: str, word: str, turn: int) -> CodingJob:
    """A wrong number in a module of its own."""
    right, wrong = 7 + turn, 9 + turn
    files = _project(area, None)
    files[f"{area}/{word}.py"] = f"{word.upper()} = {wrong}\n"
    files[f"checks/{area}.py"] = (
        f"from {area}.{word} import {word.upper()}\nassert {word.upper()} == {right}\n"
    )
    correction = Correction(f"{area}/{word}.py", f"{word.upper()} = {wrong}", f"{word.upper()} = {right}")
    task = f"The {word} of {area} is {wrong}, and should be {right}."
    return CodingJob(ONCE, area, task, files, (correction,), correction)


def _project(area: str, fault: _Fault | None) -> dict[str, str]:
    """The files of a project with one part that matters, without or with a fault in it."""
    files = {"CONTRIBUTING.md": _CONTRIBUTING, "tools/run.py": _RUN}
    for name in _BYSTANDERS:
        lines = "".join(f"{name.upper()}_{n} = {n * n}\n" for n in range(12))
        files[f"{area}/{name}.py"] = f'"""The {name} of {area}."""\n\n{lines}'
    if fault is not None:
        files[f"{area}/{fault.front}.py"] = fault.front_text.replace("{area}", area)
        files[f"{area}/{fault.helper}.py"] = fault.helper_text
        if fault.generated:
            files[f"{area}/{fault.helper}.tmpl"] = fault.helper_text
        files[f"checks/{area}.py"] = fault.check.replace("{area}", area)
    return files
