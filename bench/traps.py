"""Traps: tasks that look like a solved one and ask for something else, so that each replay is false.

`generated` makes them from the families, one changed word or phrase each, and from templates. A file of traps
or of reordered tasks has a JSON object on each line:

    {"family": …, "question": …, "program": […], "answer": …, "trap": …, "trap_answer": …}
    {"question": …, "program": […], "answer": …, "reordered": …, "reordered_answer": …, "trap": true}

`trap_answer` and `trap` may be missing; `trap_answer` may be "unanswerable". A replay with the right answer
does not mislead.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from bench.families import Family, Question, exemplar_of, is_right
from bench.harness import markdown, read_jsonl, share
from kernel.errors import UsageError
from runtime.memory.embed import Embedder
from runtime.memory.store import open_shelf
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.words import Words

SEED = 1
UNANSWERABLE = "unanswerable"
EACH = 100
"""The most traps of one kind that are made from the families."""
REORDERED = Path(__file__).with_name("reordered.jsonl")
"""Tasks in another order, and traps among them."""
ANSWERED = 0.6
"""The share of reordered tasks to answer. Source: memory-trust.md."""
TRAPS = "a trap: an object with family, question, program, answer and trap"
TASKS = "a reordered task: an object with question, program, answer, reordered and reordered_answer"


@dataclass(frozen=True)
class Asked:
    """A taught question and what is asked after it; `trap` says that nothing may be replayed."""

    kind: str
    question: str
    program: tuple[str, ...]
    text: str
    answer: Fraction | None
    trap: bool


def read_traps(path: Path) -> list[Asked]:
    """The traps of a file. Raises `UsageError`."""
    return _read(
        path, lambda line: _asked(line, str(line["family"]), "trap", "trap_answer", trap=True), TRAPS
    )


def read_reordered(path: Path) -> list[Asked]:
    """The reordered tasks of a file. Raises `UsageError`."""

    def made(line: Mapping[str, Any]) -> Asked:
        trap = bool(line.get("trap"))
        return _asked(line, "trap" if trap else "reordered", "reordered", "reordered_answer", trap=trap)

    return _read(path, made, TASKS)


def _read(path: Path, make: Any, form: str) -> list[Asked]:
    made = read_jsonl(path, lambda _, line: make(line), form)
    if not made:
        raise UsageError(f"{path}: expected {form}, on each line")
    return made


def _asked(line: Mapping[str, Any], kind: str, text: str, answer: str, *, trap: bool) -> Asked:
    given = line.get(answer)
    right = None if given in (None, UNANSWERABLE) else Fraction(str(given).replace(",", ""))
    if not isinstance(line["program"], list):
        raise TypeError("`program` is not a list")
    return Asked(kind, line["question"], tuple(line["program"]), line[text], right, trap)


def play(tasks: Sequence[Asked], words: Words, embedder: Embedder) -> dict[str, Any]:
    """Teach all questions, then ask: how many tasks were answered, rightly, and how many traps were."""
    memory = ProceduralMemory(open_shelf("memory", Path()), embedder, words)
    for question, program in dict.fromkeys((each.question, each.program) for each in tasks):
        memory.learn(exemplar_of(question, program))
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    misled: list[str] = []
    for each in tasks:
        recall = memory.recall(each.text)
        count = kinds[each.kind]
        count["asked"] += 1
        if recall.kind == "novel":
            continue
        right = is_right(recall.steps, Question(each.text, each.kind, each.answer))
        count["answered"] += 1
        count["right"] += right
        if not right:
            count["false"] += 1
            misled.append(f"{each.kind}: {each.question} → {each.text}")
    total = Counter[str]()
    for count in kinds.values():
        total.update(count)
    tasks_asked = sum(not each.trap for each in tasks)
    answered = sum(kinds[kind]["right"] for kind in {each.kind for each in tasks if not each.trap})
    return {
        "asked": total["asked"],
        "false": total["false"],
        **({"answered": share(answered, tasks_asked)} if tasks_asked else {}),
        "by_kind": {kind: dict(count) for kind, count in sorted(kinds.items())},
        "misled": misled,
    }


# ---- made from the families --------------------------------------------------------------------------------

_SHAPES = "rectangular triangular circular square hexagonal octagonal oval cylindrical round".split()  # noqa: SIM905
_FIGURES = "rectangle triangle circle square hexagon pentagon trapezoid oval".split()  # noqa: SIM905
_PERSONS = "friends people students children kids boys girls players workers guests members men women"
_PERSONS = "|".join([*_PERSONS.split(), "adults", "teachers", "visitors", "customers", "passengers"])
_COUNT = r"\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty"
_BE = r"is|are|was|were|does|did|has|have|can|will"
_UNITS = (
    ("minutes", "hours"), ("hours", "days"), ("days", "weeks"), ("weeks", "months"), ("months", "years"),
    ("inches", "feet"), ("feet", "yards"), ("miles", "kilometers"), ("pounds", "ounces"), ("meters", "feet"),
    ("gallons", "quarts"), ("cups", "pints"), ("cents", "dollars"), ("liters", "barrels"), ("kg", "tons"),
)  # fmt: skip
_CHANGES: Sequence[tuple[str, str, Sequence[str]]] = (
    ("shape", rf"\b(?:{'|'.join(_SHAPES)})\b", _SHAPES),
    ("shape", rf"\b(?:{'|'.join(_FIGURES)})\b", _FIGURES),
    ("group", rf"(?i)(?<=\s)({_COUNT}) (?:{_PERSONS})\b", (r"\1 couples", r"\1 families", r"\1 trios")),
    ("group", rf"(?i)(?<=\s)({_COUNT}) ([a-z]+s)\b", (r"\1 pairs of \2", r"\1 dozen \2", r"\1 packs of \2")),
    *(("unit", rf"\b{a}\b", (b,)) for one in _UNITS for a, b in (one, one[::-1])),
    ("ordinal", r"\bfirst\b", ("second", "last")),
    ("ordinal", r"\bsecond\b", ("third", "last")),
    ("ordinal", r"\blast\b", ("first",)),
    ("fraction", r"\bhalf\b", ("a third", "a quarter", "twice", "one and a half times")),
    ("fraction", r"\btwice\b", ("half", "three times", "one and a half times")),
    ("fraction", r"\b(?:a|one) (?:third|quarter|fifth)\b", ("a half", "two thirds", "three quarters")),
    ("per", r"\beach\b", ("altogether", "in total", "combined", "per pair")),
    ("per", r"\b(?:altogether|in total|total)\b", ("each", "on average", "at most")),
    ("per", r"\bper ([a-z]+)\b", (r"per two \1s", r"every other \1", r"per half \1")),
    ("per", r"\bevery\b", ("every other", "every second")),
    ("question", r"\bHow many\b(?! more)", ("How many more", "How many fewer", "What percentage of the")),
    ("question", r"\bHow much\b(?! more)", ("How much more", "How much less", "How often")),
    ("question", r"\b(?:left|remaining|remain)\b", ("gone", "missing", "taken away")),
    ("question", r"\b(more|less|fewer)\b", ("times as many",)),
    ("negation", rf"\b({_BE}) (?!not)(?=[a-z])", (r"\1 not ", r"\1 never ", r"\1 no ")),
    ("negation", r"\bwith\b", ("without",)),
    ("negation", r"\band\b", ("but not", "or", "instead of")),
    ("percent", r"(\d+%|percent) of\b", (r"\1 off", r"\1 more than", r"\1 less than")),
    ("percent", r"(\d+%|percent) off\b", (r"\1 of", r"\1 more")),
    ("percent", r"(\d+%) (?=more|less|fewer)", (r"\1 as much, not ",)),
    ("percent", r"\bby (\d+%)", (r"to \1",)),
    ("percent", r"\b(increase|rise|raise|more)(s|d|)\b", (r"decrease\2",)),
)  # fmt: skip


def generated(families: Sequence[Family], seed: int = SEED) -> list[Asked]:
    """Traps from these families and from templates, at most `EACH` of a kind from the families."""
    random = Random(seed)
    found: dict[str, list[Asked]] = defaultdict(list)
    for family in families:
        for kind, pattern, changes in _CHANGES:
            for hit in re.finditer(pattern, family.question):
                for change in changes:
                    text = family.question[: hit.start()] + hit.expand(change) + family.question[hit.end() :]
                    if text != family.question:
                        found[kind].append(
                            Asked(kind, family.question, family.program, text, None, trap=True)
                        )
    made = [each for many in found.values() for each in random.sample(many, min(EACH, len(many)))]
    return [*made, *_from_templates()]


Template = tuple[str, str, Sequence[str], Sequence[str]]
"""Kind, question with `{}`, program, and what stands there: first what is taught, then the traps."""
_ONE = "{{ steps[1].result }}"
_ORDER = "first half of the pears are sold, then 6 are added"
_TEMPLATES: Sequence[Template] = (
    *(
        ("shape", text, program, _SHAPES)
        for text, program in (
            ("A {} garden is 6 m long and 4 m wide. What is its area?", ["6*4"]),
            ("Leo puts a fence around a {} field of 30 m by 20 m. How long is the fence?", ["(30+20)*2"]),
            ("A {} table has sides of 90 cm and 60 cm. How long is its edge?", ["(90+60)*2"]),
            ("How many tiles of 1 square foot cover a {} floor of 12 feet by 9 feet?", ["12*9"]),
        )
    ),
    *(
        ("group", text, program, ["couples", "friends", "families", "twins", "trios", "singles", "quartets"])
        for text, program in (
            ("Two {} go to the cinema. A ticket costs $9. How much do they pay?", ["2*2", f"{_ONE}*9"]),
            ("At a dance, 6 {} dance. How many dancers are there?", ["6*2"]),
            ("Two {} share 8 slices of pizza. How many slices does each person get?", ["2*2", f"8/{_ONE}"]),
            ("Two {} rent a boat for $80. How much does each person pay?", ["80/(2*2)"]),
        )
    ),
    *(
        ("group", text, ["2*2", f"{_ONE}*5"], ["pairs", "boxes", "dozens", "sets", "kilos", "packs"])
        for text in (
            "Mia owns two {} of socks. She gives each sock 5 dots. How many dots does she paint?",
            "Two {} of gloves lie there. Each glove has 5 fingers. How many fingers are there?",
        )
    ),
    ("fraction", "Eva eats {} of 24 plums. How many plums does she eat?", ["24/2"],
     ["half", "a third", "a quarter", "an eighth", "two thirds", "all but half", "none"]),
    ("fraction", "Ron runs {} as far as Jo, who runs 6 km. How far does Ron run?", ["6*2"],
     ["twice", "half", "three times", "just", "not", "a third"]),
    ("ordinal", "On the {} of 5 days Kim reads 12 pages, on the others 8. How many pages does she read?",
     ["12+4*8"], ["first", "first two", "first and last", "even ones"]),
    ("per", "Ben buys 4 kites for $6 {}. How much does he pay?", ["4*6"],
     ["each", "altogether", "in total", "per pair", "a dozen", "together", "in all", "for the lot"]),
    ("per", "Every {} 3 buses leave. How many buses leave in 8 hours?", ["3*8"],
     ["hour", "two hours", "other hour", "half hour", "second hour", "day"]),
    ("question", "Ida has 14 pens and Max has 9 pens. {} pens do they have?", ["14+9"],
     ["How many", "How many more", "What ratio of", "On average, how many", "How many different"]),
    ("question", "A train leaves at 8 and travels 3 hours at 60 km/h. {} does it travel?", ["3*60"],
     ["How far", "Until when", "How long", "How fast", "From where"]),
    ("question", "Of 30 eggs, 4 break. How many eggs {}?", ["30-4"],
     ["are whole", "break", "are broken", "are not whole", "did someone drop"]),
    ("negation", "Of 40 bulbs, 6 {}. How many can be used?", ["40-6"],
     ["are defective", "are not defective", "are in use", "are never defective", "work", "are tested"]),
    ("negation", "Zoe has 12 keys. She {} 5 more. How many keys does she have?", ["12+5"],
     ["finds", "does not find", "never finds", "wants", "nearly finds", "misses", "lends"]),
    ("negation", "A hall has 50 chairs {} the 8 in the hallway. How many chairs are there?", ["50+8"],
     ["besides", "including", "instead of", "without", "minus", "not counting"]),
    ("percent", "A coat costs $80. Lena pays 25% {}. How much does she pay?", ["80*25/100"],
     ["of it", "off", "more", "less", "on top", "of the rest", "interest"]),
    ("percent", "A rent of $600 rises {} 10%. What is the rent now?", ["600+600*10/100"],
     ["by", "to", "not even by", "twice by"]),
    ("percent", "A town of 900 people {} by 20%. How many people live there?", ["900+900*20/100"],
     ["grows", "shrinks", "ages", "outgrew another", "does not grow"]),
    ("order", "A box has 40 pears; {}. How many pears are in the box?", ["40/2", f"{_ONE}+6"],
     [_ORDER, "first 6 are added, then half of the pears are sold", "half of the pears and 6 more are sold"]),
    ("order", "{} How many stamps does Otto have?", ["(10+4)*2"],
     ["Otto has 10 stamps. He gets 4 more. Then he doubles his stamps.",
      "Otto has 10 stamps. He doubles his stamps. Then he gets 4 more.",
      "Otto doubles his stamps. Then he has 10 stamps. He gets 4 more."]),
    ("order", "{} How much does Ruth have left?", ["90/3*2", f"{_ONE}-12"],
     ["Ruth has $90. She spends a third of her money on a hat. She buys a book for $12.",
      "Ruth has $90. She buys a book for $12. She spends a third of her money on a hat."]),
    ("order", "{} is 5 years older than {}. {} is 12. How old is Ann?", ["12+5"],
     ["Ann|Bob|Bob", "Bob|Ann|Bob", "Ann|Bob|Ann"]),
)  # fmt: skip


def _from_templates() -> Iterator[Asked]:
    for kind, text, program, (taught, *others) in _TEMPLATES:
        question = _filled(text, taught)
        for other in others:
            yield Asked(kind, question, tuple(program), _filled(text, other), None, trap=True)


def _filled(text: str, words: str) -> str:
    parts = words.split("|")
    return text.format(*(parts if len(parts) > 1 else parts * text.count("{}")))


# ---- output ------------------------------------------------------------------------------------------------


def table(traps: Mapping[str, Any], reordered: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    rows = [_row(f"trap: {kind}", count) for kind, count in traps["by_kind"].items()]
    rows += [_row("all traps", traps), _row("reordered", reordered)]
    rows.append(["goal", "", f"≥ {ANSWERED:.0%}", "0"])
    return markdown(["", "asked", "answered", "false"], rows)


def _row(name: str, count: Mapping[str, Any]) -> list[str]:
    answered = f"{count['answered']:.1%}" if isinstance(count.get("answered"), float) else ""
    return [name, str(count["asked"]), answered, str(count.get("false", 0))]


def missed(figures: Mapping[str, Any]) -> list[str]:
    """The missed goals."""
    traps, reordered = figures.get("adversarial"), figures.get("reordered")
    names = ["adversarial traps"] if traps and traps["false"] else []
    if reordered and (reordered["false"] or reordered.get("answered", 1) < ANSWERED):
        names.append("reordered")
    return names
