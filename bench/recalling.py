"""How long a recall takes among many stored trees, and whether the right one is still found.

The store is filled with trees made from the families with other numbers, and with other words wherever a word
may be exchanged: of each family very many have the same shape, which is as hard as it gets. Then a process of
its own opens the store, as every run does, and asks for variations of the families.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from bench import variations
from bench.harness import disk_mb, in_new_process, markdown, p50_p95, peak_mb, percentiles, share, timed
from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import Alignment
from runtime.memory.tasks.binding import bind
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.words import Words

ASKED = 300
"""Questions that are asked of each store."""
AT_ONCE = 500
GOALS: Mapping[int, float] = {10_000: 5.0, 100_000: 30.0}
"""Milliseconds of a recall, median. Source: performance.md."""
_NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w.,])")
_WORD = re.compile(r"\b[a-z]{3,}\b")


def measure(sizes: Sequence[int], path: Path | None = None) -> dict[str, Any]:
    """The figures by the number of trees."""
    return {str(size): _measured(size, path) for size in sizes}


def _measured(size: int, path: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), size, path)
        return in_new_process(recalling, folder, str(path) if path else None)


def fill(folder: Path, size: int, path: Path | None = None) -> None:
    """A store of so many trees, those of the families among them."""
    from runtime.api.fractal import shipped_system
    from runtime.memory.embed import choose
    from runtime.memory.store import open_shelf
    from runtime.memory.tasks.recall import ProceduralMemory
    from runtime.memory.tasks.words import words_of

    words = words_of((shipped_system(),))
    shelf = open_shelf("sqlite", folder, fsync=False)
    memory = ProceduralMemory(shelf, choose("lexical"), words)
    chosen = variations.families(path)
    taught = [memory.learn(variations.solved(each.question, each.program)) for each in chosen]
    free = sorted(
        {word for each in chosen for word in _WORD.findall(each.question) if _exchangeable(word, words)}
    )
    random = Random(variations.SEED)
    for start in range(len(taught), size, AT_ONCE):
        count = min(AT_ONCE, size - start)
        pairs = ((random.choice(taught), number) for number in range(start, start + count))
        trees = [_alike(tree, _other(tree.text, free, random), f"filler-{n}", words) for tree, n in pairs]
        shelf.put(*trees, *(memory.outline(each) for each in trees))
    shelf.close()


def _alike(tree: NeuronTree, task: str, id: str, words: Words) -> NeuronTree:
    """A tree of the same size for another task, with its numbers in the steps."""
    leaves = ([t for t in Reading.read(text, words).tokens if t.leaf] for text in (tree.text, task))
    pairs = list(zip(*leaves, strict=False))
    steps = bind(tree.exemplar.steps, Alignment(leaves=pairs, constants=words.constants))
    steps = tree.exemplar.steps if isinstance(steps, Refusal) else tuple(steps)
    exemplar = tree.exemplar.model_copy(update={"task": task, "steps": steps})
    return tree.model_copy(update={"id": id, "text": task, "exemplar": exemplar})


def _exchangeable(word: str, words: Words) -> bool:
    return word not in words.fixed and (word,) not in words.same


def _other(text: str, free: Sequence[str], random: Random) -> str:
    """The text with other numbers, and another word for each that may be exchanged, in its plural too."""
    known = set(free)
    instead: dict[str, str] = {}

    def put(hit: re.Match[str]) -> str:
        if hit[0] not in known:
            return hit[0]
        one = hit[0].removesuffix("s")
        return instead.setdefault(one, random.choice(free).removesuffix("s")) + hit[0][len(one) :]

    numbered = _NUMBER.sub(lambda hit: str(random.randint(2, 99)), text)
    return _WORD.sub(put, numbered)


def recalling(folder: str, path: str | None) -> dict[str, Any]:
    """What a new process measures, from its first import of the memory on."""
    began = time.perf_counter()
    from runtime.api.fractal import shipped_system
    from runtime.memory.embed import choose
    from runtime.memory.store import open_shelf
    from runtime.memory.tasks import ALL
    from runtime.memory.tasks.recall import ProceduralMemory
    from runtime.memory.tasks.words import words_of

    embedder, words = choose("lexical"), words_of((shipped_system(),))
    shelf = open_shelf("sqlite", Path(folder), fsync=False)
    memory = ProceduralMemory(shelf, embedder, words)
    opened = time.perf_counter()
    questions = list(_questions(Path(path) if path else None))
    asked = time.perf_counter()
    memory.recall(questions[0][1])
    first = time.perf_counter()
    plain = ProceduralMemory(shelf, embedder, words, ALL.without("fingerprints"))
    return {
        "trees": shelf.count(NeuronTree),
        **_asked(memory, questions),
        "cold_ms": {
            "open": round((opened - began) * 1000, 1),
            "first_recall": round((first - asked) * 1000, 1),
        },
        "mb": peak_mb(),
        "disk_mb": disk_mb(Path(folder)),
        "without_fingerprints": _asked(plain, questions),
    }


def _asked(memory: Any, questions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    times: list[float] = []
    found = answered = 0
    for stored, question in questions:
        recall, spent = timed(memory.recall, question)
        times.append(spent)
        answered += recall.kind != "novel"
        found += stored in memory.candidates(question)
    count = len(questions)
    return {**percentiles(times), "found": share(found, count), "answered": share(answered, count)}


def _questions(path: Path | None) -> Iterator[tuple[str, str]]:
    """Ids of stored trees, each with a variation of its task."""
    from runtime.memory.tasks.trees import identity

    chosen = variations.families(path)
    asked = [
        (identity(variations.solved(family.question, family.program)), question.text)
        for family in chosen
        for question in family.variations
    ]
    yield from Random(variations.SEED).sample(asked, min(ASKED, len(asked)))


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = "trees|recall: ms, p50 · p95|found|answered|cold: open · first recall, ms|MB|without fingerprints"
    rows: list[list[str]] = []
    for size, each in figures.items():
        plain, cold = each["without_fingerprints"], each["cold_ms"]
        shares = [f"{each['found']:.1%}", f"{each['answered']:.1%}"]
        opened = f"{cold['open']:.0f} · {cold['first_recall']:.0f}"
        other = f"{p50_p95(plain)} ms, {plain['found']:.1%} found"
        rows.append([f"{int(size):,}", p50_p95(each), *shares, opened, f"{each['mb']:.0f}", other])
    return markdown(heads.split("|"), rows, left=0)


def slow(figures: Mapping[str, Any]) -> list[str]:
    """Where a recall takes longer than its goal."""
    return [size for size, each in figures.items() if each["p50_ms"] > GOALS.get(int(size), float("inf"))]
