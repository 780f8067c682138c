"""How long a recall takes among many stored trees, and whether it still finds the right one.

The store is filled with trees made from the families, with other numbers and other words wherever a word is
exchangeable. So many trees have the same shape, which is the worst case. A new process then opens the store,
as every run does, and asks for variations of the families.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from bench.families import exemplar_of, read_families
from bench.harness import (
    Figures,
    disk_mb,
    in_new_process,
    markdown,
    p50_p95,
    peak_mb,
    percentiles,
    share,
    timed,
)
from runtime.api.fractal import shipped_system
from runtime.memory.embed import choose
from runtime.memory.store import open_shelf
from runtime.memory.tasks import ALL, Parts, Refusal
from runtime.memory.tasks.alignment import Alignment
from runtime.memory.tasks.binding import bind
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.trees import NeuronTree, identity
from runtime.memory.tasks.words import Words, words_of

SEED = 1
ASKED = 300
"""Questions per store."""
BATCH = 500
GOALS: Mapping[int, float] = {10_000: 5.0, 100_000: 30.0}
"""Milliseconds of a recall (median) by number of trees. Source: performance.md."""
_NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w.,])")
_WORD = re.compile(r"\b[a-z]{3,}\b")


def measure(sizes: Sequence[int], path: Path | None = None) -> dict[str, Any]:
    """The figures by number of trees."""
    figures: dict[str, Any] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder), size, path)
            figures[str(size)] = in_new_process(measure_store, folder, str(path) if path else None)
    return figures


def _open(folder: Path, parts: Parts = ALL) -> ProceduralMemory:
    shelf = open_shelf("sqlite", folder, fsync=False)
    return ProceduralMemory(shelf, choose("lexical"), words_of((shipped_system(),)), parts)


def fill(folder: Path, size: int, path: Path | None = None) -> None:
    """Write a store of so many trees, those of the families among them."""
    memory = _open(folder)
    words, families = memory.words, read_families(path)
    taught = [memory.learn(exemplar_of(each.question, each.program)) for each in families]
    known = {word for each in families for word in _WORD.findall(each.question)}
    free = sorted(word for word in known if word not in words.fixed and (word,) not in words.same)
    random = Random(SEED)
    for start in range(len(taught), size, BATCH):
        trees: list[NeuronTree] = []
        for number in range(start, min(start + BATCH, size)):
            tree = random.choice(taught)
            trees.append(_similar(tree, _reworded(tree.text, free, random), f"filler-{number}", words))
        memory.shelf.put(*trees, *(memory.outline(each) for each in trees))
    memory.shelf.close()


def _similar(tree: NeuronTree, task: str, id: str, words: Words) -> NeuronTree:
    """A tree of the same size for another task, with its numbers in the steps."""
    leaves = ([t for t in Reading.read(text, words).tokens if t.leaf] for text in (tree.text, task))
    pairs = list(zip(*leaves, strict=False))
    steps = bind(tree.exemplar.steps, Alignment(leaves=pairs, constants=words.constants))
    steps = tree.exemplar.steps if isinstance(steps, Refusal) else tuple(steps)
    exemplar = tree.exemplar.model_copy(update={"task": task, "steps": steps})
    return tree.model_copy(update={"id": id, "text": task, "exemplar": exemplar})


def _reworded(text: str, free: Sequence[str], random: Random) -> str:
    """The text with other numbers and, for each exchangeable word, another one, also in its plural."""
    exchangeable = set(free)
    chosen: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        if match[0] not in exchangeable:
            return match[0]
        singular = match[0].removesuffix("s")
        other = chosen.setdefault(singular, random.choice(free).removesuffix("s"))
        return other + match[0][len(singular) :]

    numbered = _NUMBER.sub(lambda _: str(random.randint(2, 99)), text)
    return _WORD.sub(replace, numbered)


def measure_store(folder: str, path: str | None) -> dict[str, Any]:
    """The figures of a new process that opens a store."""
    memory, opened = timed(_open, Path(folder))
    asked = [
        (identity(exemplar_of(family.question, family.program)), question.text)
        for family in read_families(Path(path) if path else None)
        for question in family.variations
    ]
    asked = Random(SEED).sample(asked, min(ASKED, len(asked)))
    _, first = timed(memory.recall, asked[0][1])
    plain = ProceduralMemory(memory.shelf, memory.embedder, memory.words, ALL.without("fingerprints"))
    return {
        "trees": memory.shelf.count(NeuronTree),
        **_recall_all(memory, asked),
        "cold_ms": {"open": round(opened, 1), "first_recall": round(first, 1)},
        "mb": peak_mb(),
        "disk_mb": disk_mb(Path(folder)),
        "without_fingerprints": _recall_all(plain, asked),
    }


def _recall_all(memory: ProceduralMemory, asked: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Recall each question; `found` is the share whose stored tree is among the candidates."""
    times: list[float] = []
    found = answered = 0
    for stored, question in asked:
        recall, spent = timed(memory.recall, question)
        times.append(spent)
        answered += recall.kind != "novel"
        found += stored in memory.candidates(question)
    return {**percentiles(times), "found": share(found, len(asked)), "answered": share(answered, len(asked))}


def table(figures: Figures) -> str:
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


def slow(figures: Figures) -> list[str]:
    """The numbers of trees at which a recall takes longer than its goal."""
    return [size for size, each in figures.items() if each["p50_ms"] > GOALS.get(int(size), float("inf"))]
