"""Recall over families of tasks: a teacher solves the first of each, all others are recalled or refused.

Every stored program competes with every other. A family has a question with its program, variations of it,
whose right answer is known, and traps, which look like it and ask for something else: whatever is replayed
for one of them is false. With two exemplars the teacher solves one of the variations too, which is then not
asked.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from bench.harness import data_file, markdown, percentiles, share, show
from kernel.errors import UsageError
from runtime.api.fractal import shipped_system
from runtime.memory.embed import Embedder, choose
from runtime.memory.embed.weights import find as find_weights
from runtime.memory.store import open_shelf
from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.binding import NUMBER, calculated, written
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.recall import ProceduralMemory, Recall
from runtime.memory.tasks.words import Words, words_of

FILE = "variations/families.jsonl"
SEED = 1
CLOSE = Fraction(1, 100)
"""How far an answer may be from the right one, which is told in two places."""
MOST_PROGRAMS = 4096
"""Ways to put a second exemplar's numbers into the program that are tried."""
GOALS: Mapping[str, float] = {"numbers": 0.98, "format": 0.98, "names": 0.95, "nouns": 0.95, "words": 0.8}
"""Of answered, by kind. Source: performance.md."""
ANSWERED, RIGHT, FALSE = 0.85, 0.99, 0.005
NO_FAMILY = "a family is an object in one line, with question, program, variations and traps"
EMBEDDERS = ("lexical", "minilm")


@dataclass(frozen=True)
class Question:
    """What is asked; a trap has no answer."""

    text: str
    kind: str
    answer: Fraction | None


@dataclass(frozen=True)
class Family:
    """A solved question, and what is asked after it."""

    question: str
    program: tuple[str, ...]
    variations: tuple[Question, ...]
    traps: tuple[Question, ...]


def families(path: Path | None = None, part: str = "all") -> list[Family]:
    """The families of a file, one a line; `part` takes those at even or at odd places."""
    path = path or data_file(FILE)
    try:
        lines = path.read_text("utf-8").splitlines()
    except ValueError as error:
        raise UsageError(f"{path}: it is no UTF-8 text: {error}") from None
    found: list[Family] = []
    for at, line in enumerate(lines):
        if line.strip() and (part == "all" or (at % 2 == 0) == (part == "even")):
            try:
                found.append(_family(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                why = f"{type(error).__name__}: {error}"[:200]
                raise UsageError(f"{path}:{at + 1}: {NO_FAMILY} ({why})") from None
    if not found:
        raise UsageError(f"{path}: there are no families of tasks in it; {NO_FAMILY}")
    return found


def _family(told: Mapping[str, Any]) -> Family:
    if not isinstance(told["program"], list):
        raise TypeError("`program` is not a list")
    variations = tuple(
        Question(each["question"], each["kind"], Fraction(str(each["answer"]).replace(",", "")))
        for each in told["variations"]
    )
    traps = tuple(Question(each["question"], each["kind"].partition(":")[0], None) for each in told["traps"])
    return Family(told["question"], tuple(told["program"]), variations, traps)


def measure(
    path: Path | None = None,
    part: str = "all",
    embedders: Sequence[str] = EMBEDDERS,
    parts: Parts = ALL,
) -> dict[str, Any]:
    """The figures by embedder, with one exemplar and, as `two`, with a second one."""
    chosen = families(path, part)
    words = words_of((shipped_system(),))
    figures: dict[str, Any] = {}
    for name in embedders:
        if name == "minilm" and find_weights(None) is None:
            continue
        embedder = choose(name)
        one = play(chosen, words, embedder, parts=parts)
        figures[name] = {**one, "two": play(chosen, words, embedder, parts=parts, two=True)}
    return {"families": len(chosen), "embedder": figures}


def play(
    chosen: Sequence[Family],
    words: Words,
    embedder: Embedder,
    *,
    parts: Parts = ALL,
    two: bool = False,
    told: Callable[[Family, Question, Recall], None] = lambda _family, _question, _found: None,
) -> dict[str, Any]:
    """One pass in shuffled order; `told` hears of each question what was recalled for it."""
    memory = ProceduralMemory(open_shelf("memory", Path()), embedder, words, parts)
    random = Random(SEED)
    asked: list[tuple[Family, Question]] = []
    taught = 0
    for family in chosen:
        memory.learn(solved(family.question, family.program))
        second = _second(family, words, random) if two else None
        if second is not None:
            memory.learn(solved(*second))
        taught += 1 + (second is not None)
        rest = (each for each in family.variations if second is None or each.text != second[0])
        asked += [(family, each) for each in (*rest, *family.traps)]
    random.shuffle(asked)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    traps: dict[str, Counter[str]] = defaultdict(Counter)
    times: list[float] = []
    for family, question in asked:
        began = time.perf_counter()
        found = memory.recall(question.text)
        times.append((time.perf_counter() - began) * 1000)
        told(family, question, found)
        count = traps[question.kind] if question.answer is None else kinds[question.kind]
        count["asked"] += 1
        count["answered"] += found.kind != "novel"
        count["right"] += found.kind != "novel" and right(found, question)
    return _figures(kinds, traps, times, taught)


def solved(question: str, program: Sequence[str]) -> Exemplar:
    """What a teacher's program teaches."""
    steps = tuple({"tool": "calc", "args": {"expression": each}} for each in program)
    return Exemplar(task=question, steps=steps, output=f"{{{{ steps[{len(steps)}].result }}}}")


def right(found: Recall, question: Question) -> bool:
    """Whether the recalled steps, calculated, come to the answer."""
    results = calculated(found.steps)
    return question.answer is not None and results is not None and _close(results[-1], question.answer)


def _close(result: str, answer: Fraction) -> bool:
    try:
        return abs(Fraction(result) - answer) <= CLOSE
    except ValueError:
        return False


def _figures(
    kinds: Mapping[str, Counter[str]],
    traps: Mapping[str, Counter[str]],
    times: list[float],
    taught: int,
) -> dict[str, Any]:
    asked, fell = Counter[str](), Counter[str]()
    for count in kinds.values():
        asked.update(count)
    for count in traps.values():
        fell.update(count)
    tasks = taught + asked["asked"] + fell["asked"]
    return {
        "answered": share(asked["answered"], asked["asked"]),
        "right_of_answered": share(asked["right"], asked["answered"]),
        "false_replay": share(fell["answered"], fell["asked"]),
        "calls_saved": share(asked["right"], tasks),
        "p50_ms": percentiles(times)["p50_ms"],
        "questions": asked["asked"],
        "asked_as_traps": fell["asked"],
        "by_kind": {
            kind: {
                "answered": share(count["answered"], count["asked"]),
                "right_of_answered": share(count["right"], count["answered"]),
                "questions": count["asked"],
            }
            for kind, count in sorted(kinds.items())
        },
        "traps": {kind: share(count["answered"], count["asked"]) for kind, count in sorted(traps.items())},
    }


# ---- the second exemplar -----------------------------------------------------------------------------------


def _second(family: Family, words: Words, random: Random) -> tuple[str, list[str]] | None:
    """A variation with the program that solves it, where one and only one program of its form does."""
    for question in random.sample(family.variations, len(family.variations)):
        programs = {tuple(each) for each in _programs(family, question, words)}
        if len(programs) == 1:
            return question.text, list(next(iter(programs)))
    return None


def _programs(family: Family, question: Question, words: Words) -> Iterator[list[str]]:
    """The family's program with the numbers of another question in it, in each way that has its answer."""
    aligned = align(Reading.read(family.question, words), Reading.read(question.text, words), words)
    if not isinstance(aligned, Alignment):
        return
    news: dict[Fraction, set[Fraction]] = defaultdict(set)
    for old, new in aligned.leaves:
        if isinstance(old.value, Fraction) and isinstance(new.value, Fraction):
            for scale in {1, old.scale}:
                news[old.value / scale].add(new.value / scale)
    text = "\n".join(family.program)
    options = [sorted(news.get(Fraction(hit[0]), {Fraction(hit[0])})) for hit in NUMBER.finditer(text)]
    ways = 1
    for each in options:
        ways *= len(each)
    for chosen in product(*options) if ways <= MOST_PROGRAMS else ():
        program = _filled(text, chosen).split("\n")
        results = calculated(solved(question.text, program).steps)
        if results and question.answer is not None and _close(results[-1], question.answer):
            yield program


def _filled(text: str, values: Sequence[Fraction]) -> str:
    rest = iter(values)
    return NUMBER.sub(lambda _: written(next(rest)), text)


# ---- printing ----------------------------------------------------------------------------------------------


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["", "exemplars", "answered", "right of answered", "false replays", "calls saved", "p50 ms"]
    rows: list[list[str]] = []
    for name, told in figures["embedder"].items():
        for count, each in (("1", told), ("2", told["two"])):
            shares = (each[key] for key in ("answered", "right_of_answered", "false_replay", "calls_saved"))
            rows.append(
                [name, count, *(f"{each_share:.1%}" for each_share in shares), f"{each['p50_ms']:.1f}"]
            )
            for kind, by in each["by_kind"].items():
                of = [f"{by['answered']:.1%}", f"{by['right_of_answered']:.1%}"]
                rows.append([f"{name}: {kind}", count, *of, "", "", ""])
            for kind, fell in each["traps"].items():
                rows.append([f"{name}: trap: {kind}", count, "", "", f"{fell:.1%}", "", ""])
    rows.append(["goal", "1", f"≥ {ANSWERED:.0%}", f"≥ {RIGHT:.0%}", f"≤ {FALSE:.1%}", "", ""])
    return markdown(heads, rows)


def missed(figures: Mapping[str, Any]) -> list[str]:
    """Which goals are not reached, with one exemplar."""
    found: list[str] = []
    for name, told in figures["embedder"].items():
        if told["answered"] < ANSWERED or told["right_of_answered"] < RIGHT or told["false_replay"] > FALSE:
            found.append(name)
        for kind, goal in GOALS.items():
            if told["by_kind"].get(kind, {}).get("answered", 1) < goal:
                found.append(f"{name}: {kind}")
    return found


def main(
    as_json: bool = False,
    *,
    path: Path | None = None,
    part: str = "all",
    embedders: Sequence[str] = (),
    without: Sequence[str] = (),
    trees: Sequence[int] = (),
) -> None:
    """Measure and print."""
    parts = ALL
    for name in without:
        parts = parts.without(name)
    figures = measure(path, part, embedders or EMBEDDERS, parts)
    told = [table(figures)]
    late: list[str] = []
    if trees:
        from bench import recalling  # it reads families as this module does

        figures["trees"] = recalling.measure(trees, path)
        told.append(recalling.table(figures["trees"]))
        late = recalling.slow(figures["trees"])
    show(figures, "\n\n".join(told), as_json, [*missed(figures), *late])
