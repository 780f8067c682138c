"""What each part of procedural memory brings: the same streams of tasks with all parts, and without each.

The tasks are those of the families of variations: each family's first question is taught with its program,
the rest comes in shuffled order, traps among them. Three streams: what is said of each answer is true; some
of it is false; and some of the programs that were taught are wrong as well. Whatever is not answered from
memory is solved by a teacher, as the next rung would, and learned. Texts are embedded once for all streams,
and milliseconds are those of the rest of a recall.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.bench.data import find
from runtime.memory.procedural.parts import ALL, NAMES, Parts

if TYPE_CHECKING:
    from runtime.embedding import Array, Embedder
    from runtime.memory.procedural.exemplar import Exemplar
    from runtime.memory.procedural.recall import ProceduralMemory
    from runtime.memory.procedural.words import Words
    from runtime.store import Shelf

FILE = "variations/families.jsonl"
FAMILIES = 60
CLOSE = Fraction(1, 100)
FALSE = 0.15
"""Share of outcomes that are told the wrong way round, where feedback is wrong."""
POISONED = 0.2
"""Share of families whose first program is wrong, where exemplars are poisoned: half beside the right one."""
STREAMS: Mapping[str, tuple[float, float]] = {
    "true": (0, 0),
    "false": (FALSE, 0),
    "poisoned": (FALSE, POISONED),
}
"""By name: share of false outcomes, share of poisoned families."""
_REFERENCE = re.compile(r"\{\{ steps\[(\d+)\]\.result \}\}")
_SWAPPED = {"+": "*", "-": "+", "*": "+", "/": "*"}


@dataclass(frozen=True)
class Item:
    """A task of a stream; a trap has no answer that memory could know."""

    family: int
    task: str
    answer: str | None


@dataclass
class Counts:
    """What came of a stream."""

    answered: int = 0
    right: int = 0
    variations: int = 0
    replayed_traps: int = 0
    traps: int = 0
    taught: int = 0

    def figures(self, times: Sequence[float], stored: int) -> dict[str, float]:
        """As they are shown: shares between 0 and 1, milliseconds, bytes."""
        middle = sorted(times)[len(times) // 2] if times else 0.0
        return {
            "answered": _share(self.answered, self.variations),
            "right_of_answered": _share(self.right, self.answered),
            "wrong": self.answered - self.right + self.replayed_traps,
            "false_replay": _share(self.replayed_traps, self.traps),
            "taught": self.taught,
            "p50_ms": round(middle, 3),
            "bytes": stored,
        }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


# ---- the data --------------------------------------------------------------------------------------------


def families(count: int, seed: int, odd: bool | None = None) -> list[dict[str, Any]]:
    """Some families, chosen by chance; `odd` takes those with odd or even numbers only."""
    found = [json.loads(line) for line in find(FILE).read_text("utf-8").splitlines() if line.strip()]
    found = [each for each in found if odd is None or each["id"] % 2 == odd]
    random.Random(seed).shuffle(found)
    return sorted(found[:count], key=lambda each: each["id"])


def items(found: Sequence[Mapping[str, Any]], seed: int) -> list[Item]:
    """All variations and traps, in an order of chance."""
    stream = [
        Item(each["id"], told["question"], told.get("answer"))
        for each in found
        for told in [*each["variations"], *each["traps"]]
    ]
    random.Random(seed + 1).shuffle(stream)
    return stream


def solved(question: str, program: Sequence[str]) -> Exemplar:
    """A program of calculator steps as an exemplar."""
    from runtime.memory.procedural.exemplar import Exemplar

    steps: list[dict[str, Any]] = [
        {
            "tool": "calc",
            "args": {"expression": each},
            "needs": sorted({int(n) for n in _REFERENCE.findall(each)}),
        }
        for each in program
    ]
    return Exemplar(
        task=question,
        steps=tuple(steps),
        output=f"{{{{ steps[{len(steps)}].result | trim }}}}",
        verified=True,
    )


def poisoned(program: Sequence[str], rng: random.Random) -> list[str]:
    """The same program with one operation that is another."""
    places = [
        (at, hit.start())
        for at, each in enumerate(program)
        for hit in re.finditer(r"(?<=[\d}) ])[-+*/]", each)
    ]
    made = list(program)
    if places:
        at, place = rng.choice(places)
        made[at] = made[at][:place] + _SWAPPED[made[at][place]] + made[at][place + 1 :]
    return made


def worked_out(steps: Sequence[Mapping[str, Any]]) -> Fraction | None:
    """The last result of calculator steps; None where they cannot be done."""
    from runtime.memory.procedural.outcome import calculated

    told = [{"tool": step["tool"], "args": step["args"]} for step in steps]
    results = calculated(told)
    return Fraction(results[-1].replace("…", "")) if results else None


def same(result: Fraction | None, answer: str) -> bool:
    """Whether a result is the answer, which is told in two places."""
    return result is not None and abs(result - Fraction(answer.replace(",", ""))) <= CLOSE


class Once:
    """An embedder that makes the vectors of each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.size = embedder.name, embedder.size
        self._one = cache(lambda text: embedder.embed([text])[0])
        self.embed_tokens = cache(embedder.embed_tokens)

    def warm(self, texts: Sequence[str]) -> None:
        """Make the vectors of all that will be asked for."""
        self.embed(texts)
        for text in texts:
            self.embed_tokens(text)

    def embed(self, texts: Sequence[str]) -> Array:
        """One row of unit length for each text."""
        import numpy as np

        return np.stack([self._one(text) for text in texts])


# ---- a stream --------------------------------------------------------------------------------------------


def played(
    found: Sequence[Mapping[str, Any]],
    parts: Parts,
    embedder: Embedder,
    *,
    seed: int = 1,
    false: float = 0.0,
    poison: float = 0.0,
) -> dict[str, float]:
    """The figures of one stream, by the same code that a run uses."""
    from runtime.fractal import shipped_system
    from runtime.memory.procedural.recall import ProceduralMemory
    from runtime.memory.procedural.words import words_of
    from runtime.store import open_shelf

    words = words_of((shipped_system(),))
    shelf = open_shelf("memory", Path())
    memory = ProceduralMemory(shelf, embedder, words, parts=parts)
    rng = random.Random(seed + 2)
    teacher = Teacher(found, words)
    for each in found:
        told = solved(each["question"], each["program"])
        lot = rng.random()
        if lot < poison:
            memory.learn(solved(each["question"], poisoned(each["program"], rng)))
        if lot >= poison / 2:  # half of the poison has the right one beside it
            memory.learn(told)
    counts = Counts()
    times: list[float] = []
    for n, item in enumerate(items(found, seed)):
        spent = _met(memory, item, f"{n:06}", counts, teacher, rng.random() < false, noisy=bool(false))
        times.append(spent)
    return counts.figures(times, stored(shelf))


def _met(
    memory: ProceduralMemory, item: Item, id: str, counts: Counts, teacher: Teacher, lie: bool, *, noisy: bool
) -> float:
    from runtime.memory.procedural.decisions import of_recall
    from runtime.memory.procedural.rewards import settle

    began = time.perf_counter()
    found = memory.recall(item.task)
    spent = (time.perf_counter() - began) * 1000
    decision = of_recall(id, item.task, found).model_copy(update={"ms": {}})  # the same bytes each time
    good = found.kind != "novel" and item.answer is not None and same(worked_out(found.steps), item.answer)
    counts.variations += item.answer is not None
    counts.traps += item.answer is None
    if found.kind == "novel":
        if taught := teacher.solves(item):
            decision = decision.model_copy(update={"tree": memory.learn(taught).id})
            counts.taught += 1
        good = True
    elif item.answer is None:
        counts.replayed_traps += 1
    else:
        counts.answered += 1
        counts.right += good
    memory.shelf.put(decision)
    heard = good if found.kind == "novel" else good is not lie
    settle(memory.shelf, id, heard, "check" if noisy else "criteria", parts=memory.parts)
    return spent


@dataclass
class Teacher:
    """The next rung: it solves a variation as its family is solved, where that can be told to be right."""

    found: Sequence[Mapping[str, Any]]
    words: Words

    def __post_init__(self) -> None:
        self._by_number = {each["id"]: each for each in self.found}

    def solves(self, item: Item) -> Exemplar | None:
        """What a run of the higher rung would teach; None for a trap, or where its steps cannot be told."""
        from runtime.memory.procedural.alignment import Refusal, align
        from runtime.memory.procedural.binding import bind
        from runtime.memory.procedural.reading import Reading

        if item.answer is None:
            return None
        family = self._by_number[item.family]
        told = solved(family["question"], family["program"])
        old, new = (Reading.read(text, self.words) for text in (told.task, item.task))
        aligned = align(old, new, self.words)
        steps = aligned if isinstance(aligned, Refusal) else bind(told.steps, aligned)
        if isinstance(steps, Refusal) or not same(worked_out(steps), item.answer):
            return None
        return told.model_copy(update={"task": item.task, "steps": tuple(steps)})


def stored(shelf: Shelf) -> int:
    """Bytes of all records and their vectors."""
    return sum(
        len(row.body.encode()) + sum(map(len, row.vectors.values()))
        for kind in shelf.kinds()
        for row in shelf.rows(kind)
    )


# ---- the table -------------------------------------------------------------------------------------------


def measure(
    count: int = FAMILIES,
    seed: int = 1,
    embedder: str = "auto",
    names: Sequence[str] = NAMES,
    odd: bool | None = None,
) -> dict[str, Any]:
    """The figures of each stream with all parts, and without each."""
    from runtime.embedding import choose

    maker = Once(choose(embedder))
    found = families(count, seed, odd)
    maker.warm([each["question"] for each in found] + [item.task for item in items(found, seed)])
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, parts in _rows(names):
        rows[name] = {
            stream: played(found, parts, maker, seed=seed, false=false, poison=poison)
            for stream, (false, poison) in STREAMS.items()
        }
    return {
        "embedder": maker.name,
        "families": len(found),
        "seed": seed,
        "with": rows.pop(""),
        "without": rows,
    }


def _rows(names: Sequence[str]) -> Iterator[tuple[str, Parts]]:
    yield "", ALL
    for name in names:
        yield name, ALL.without(name)


def brings(whole: Mapping[str, Mapping[str, float]], without: Mapping[str, Mapping[str, float]]) -> list[str]:
    """In words what a part brings or costs, stream by stream; empty where nothing differs."""
    said: list[str] = []
    for stream, mine in whole.items():
        other = without[stream]
        told: list[str] = []
        points = 100 * (mine["answered"] - other["answered"])
        if abs(points) >= 0.05:
            told.append(f"{points:+.1f} points answered")
        wrong = mine["wrong"] - other["wrong"]
        if wrong:
            told.append(f"{wrong:+.0f} wrong")
        taught = mine["taught"] - other["taught"]
        if taught:
            told.append(f"{taught:+.0f} taught")
        size = mine["bytes"] / other["bytes"] - 1 if other["bytes"] else 0.0
        if abs(size) >= 0.005:
            told.append(f"{size:+.0%} bytes")
        if told:
            said.append(f"{stream}: {', '.join(told)}")
    return said


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown, a row a part."""
    whole = figures["with"]
    heads = ["without", *(f"{name}: answered · right · wrong · traps" for name in STREAMS)]
    heads += ["p50 ms", "KB", "what it brings"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 2), "---"]]
    for name, each in [("(all parts)", whole), *figures["without"].items()]:
        cells = [
            f"{told['answered']:.1%} · {told['right_of_answered']:.1%} · {told['wrong']:.0f} · "
            f"{told['false_replay']:.1%}"
            for told in each.values()
        ]
        last = each["poisoned"]
        said = (
            ""
            if name not in figures["without"]
            else "; ".join(brings(whole, each)) or "nothing on these streams"
        )
        lines.append([name, *cells, f"{each['true']['p50_ms']:.1f}", f"{last['bytes'] / 1024:.0f}", said])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return (
        f"{text}\n\n{figures['families']} families, {figures['embedder']}; in the streams false and poisoned "
        f"{FALSE:.0%} of what is said of an answer is wrong, and in poisoned {POISONED:.0%} of the families "
        "were taught a wrong program. `wrong` counts wrong answers and replays on traps."
    )


def main(as_json: bool = False, count: int = FAMILIES, seed: int = 1, embedder: str = "auto") -> int:
    """Measure and print."""
    figures = measure(count, seed, embedder)
    print(json.dumps(figures, indent=1) if as_json else table(figures))
    return 0
