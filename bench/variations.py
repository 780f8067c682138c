"""Recall over families of tasks: the question of each is taught, its variations are recalled or refused.

All stored programs compete with each other. Whatever is replayed for a trap is wrong. With two exemplars one
of the variations is taught as well, and not asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Any

from bench import recalling
from bench import traps as adversarial
from bench.families import Family, Question, exemplar_of, is_right, read_families
from bench.harness import EMBEDDERS, Figures, available, markdown, percentiles, share, timed
from runtime.api.fractal import shipped_system
from runtime.memory.embed import Embedder, choose
from runtime.memory.store import open_shelf
from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.binding import NUMBER, written
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.recall import ProceduralMemory, Recall
from runtime.memory.tasks.words import Words, words_of

SEED = 1
MOST_PROGRAMS = 4096
"""The most assignments of numbers to a program that are tried for a second exemplar."""
GOALS: Mapping[str, float] = {"numbers": 0.98, "format": 0.98, "names": 0.95, "nouns": 0.95, "words": 0.8}
"""The share of answered variations by kind. Source: performance.md."""
ANSWERED, RIGHT, FALSE = 0.85, 0.99, 0.005


def measure(
    path: Path | None = None,
    part: str = "all",
    embedders: Sequence[str] = (),
    without: Sequence[str] = (),
    trees: Sequence[int] | None = None,
    traps: Path | None = None,
    reordered: Path | None = None,
) -> dict[str, Any]:
    """The figures by embedder, with one exemplar and, as `two`, with a second one; `trees` by store size.

    With the first embedder also those of adversarial `traps` and of `reordered` tasks.
    """
    families = read_families(path, part)
    words = words_of((shipped_system(),))
    parts = ALL
    for name in without:
        parts = parts.without(name)
    figures: dict[str, Any] = {}
    for name in embedders or EMBEDDERS:
        if name not in available():
            continue
        embedder = choose(name)
        one = play(families, words, embedder, parts=parts)
        figures[name] = {**one, "two": play(families, words, embedder, parts=parts, two=True)}
    by_size = {"trees": recalling.measure(trees, path)} if trees else {}
    embedder = choose((*embedders, *EMBEDDERS)[0])
    asked = adversarial.read_traps(traps) if traps else adversarial.generated(families)
    ordered = adversarial.read_reordered(reordered or adversarial.REORDERED)
    return {
        "families": len(families),
        "embedder": figures,
        "adversarial": adversarial.play(asked, words, embedder),
        "reordered": adversarial.play(ordered, words, embedder),
        **by_size,
    }


def play(
    families: Sequence[Family],
    words: Words,
    embedder: Embedder,
    *,
    parts: Parts = ALL,
    two: bool = False,
    observe: Callable[[Question, Recall], None] = lambda _question, _recall: None,
) -> dict[str, Any]:
    """One pass in random order; `observe` is called after each recall."""
    memory = ProceduralMemory(open_shelf("memory", Path()), embedder, words, parts)
    random = Random(SEED)
    asked: list[Question] = []
    taught = 0
    for family in families:
        memory.learn(exemplar_of(family.question, family.program))
        second = _second(family, words, random) if two else None
        if second is not None:
            memory.learn(exemplar_of(*second))
        taught += 1 + (second is not None)
        asked += [each for each in family.variations if second is None or each.text != second[0]]
        asked += family.traps
    random.shuffle(asked)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    traps: dict[str, Counter[str]] = defaultdict(Counter)
    times: list[float] = []
    for question in asked:
        recall, spent = timed(memory.recall, question.text)
        times.append(spent)
        observe(question, recall)
        count = traps[question.kind] if question.answer is None else kinds[question.kind]
        count["asked"] += 1
        count["answered"] += recall.kind != "novel"
        count["right"] += recall.kind != "novel" and is_right(recall.steps, question)
    return _figures(kinds, traps, times, taught)


def _figures(
    kinds: Mapping[str, Counter[str]],
    traps: Mapping[str, Counter[str]],
    times: list[float],
    taught: int,
) -> dict[str, Any]:
    asked, fooled = Counter[str](), Counter[str]()
    for count in kinds.values():
        asked.update(count)
    for count in traps.values():
        fooled.update(count)
    tasks = taught + asked["asked"] + fooled["asked"]
    return {
        "answered": share(asked["answered"], asked["asked"]),
        "right_of_answered": share(asked["right"], asked["answered"]),
        "false_replay": share(fooled["answered"], fooled["asked"]),
        "calls_saved": share(asked["right"], tasks),
        "p50_ms": percentiles(times)["p50_ms"],
        "questions": asked["asked"],
        "asked_as_traps": fooled["asked"],
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
    """A variation with its program, if exactly one assignment of its numbers gives the answer."""
    for question in random.sample(family.variations, len(family.variations)):
        programs = {tuple(each) for each in _programs(family, question, words)}
        if len(programs) == 1:
            return question.text, list(next(iter(programs)))
    return None


def _programs(family: Family, question: Question, words: Words) -> Iterator[list[str]]:
    """The family's program with the numbers of a variation, in each way that gives its answer."""
    aligned = align(Reading.read(family.question, words), Reading.read(question.text, words))
    if not isinstance(aligned, Alignment):
        return
    values: dict[Fraction, set[Fraction]] = defaultdict(set)
    for old, new in aligned.leaves:
        if isinstance(old.value, Fraction) and isinstance(new.value, Fraction):
            for scale in {1, old.scale}:
                values[old.value / scale].add(new.value / scale)
    text = "\n".join(family.program)
    numbers = [Fraction(match[0]) for match in NUMBER.finditer(text)]
    options = [sorted(values.get(number, {number})) for number in numbers]
    for chosen in product(*options) if prod(map(len, options)) <= MOST_PROGRAMS else ():
        program = _filled(text, chosen).split("\n")
        if is_right(exemplar_of(question.text, program).steps, question):
            yield program


def _filled(text: str, values: Sequence[Fraction]) -> str:
    rest = iter(values)
    return NUMBER.sub(lambda _: written(next(rest)), text)


# ---- output ----------------------------------------------------------------------------------------------


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["", "exemplars", "answered", "right of answered", "false replays", "calls saved", "p50 ms"]
    keys = ("answered", "right_of_answered", "false_replay", "calls_saved")
    rows: list[list[str]] = []
    for name, one in figures["embedder"].items():
        for count, each in (("1", one), ("2", one["two"])):
            rows.append([name, count, *(f"{each[key]:.1%}" for key in keys), f"{each['p50_ms']:.1f}"])
            for kind, by in each["by_kind"].items():
                shares = (f"{by[key]:.1%}" for key in keys[:2])
                rows.append([f"{name}: {kind}", count, *shares, "", "", ""])
            for kind, fooled in each["traps"].items():
                rows.append([f"{name}: trap: {kind}", count, "", "", f"{fooled:.1%}", "", ""])
    rows.append(["goal", "1", f"≥ {ANSWERED:.0%}", f"≥ {RIGHT:.0%}", f"≤ {FALSE:.1%}", "", ""])
    text = markdown(heads, rows)
    text += f"\n\n{adversarial.table(figures['adversarial'], figures['reordered'])}"
    return f"{text}\n\n{recalling.table(figures['trees'])}" if "trees" in figures else text


def missed(figures: Figures) -> list[str]:
    """The missed goals, with one exemplar."""
    goals: list[str] = []
    for name, one in figures["embedder"].items():
        if one["answered"] < ANSWERED or one["right_of_answered"] < RIGHT or one["false_replay"] > FALSE:
            goals.append(name)
        for kind, goal in GOALS.items():
            if one["by_kind"].get(kind, {}).get("answered", 1) < goal:
                goals.append(f"{name}: {kind}")
    goals += adversarial.missed(figures)
    return goals + recalling.slow(figures.get("trees", {}))
