"""What each part of procedural memory brings: the same streams of tasks with all parts, and without each.

Texts are embedded once for all streams, and milliseconds are those of the rest of an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.harness import markdown, show
from bench.streams import (
    FALSE,
    FAMILIES,
    POISONED,
    SEVERAL,
    STREAMS,
    Once,
    families,
    items,
    played,
)
from runtime.memory.tasks import ALL, NAMES, Parts


def measure(
    count: int = FAMILIES,
    seed: int = 1,
    embedder: str = "auto",
    names: Sequence[str] = NAMES,
    odd: bool | None = None,
) -> dict[str, Any]:
    """The figures of each stream with all parts, and without each."""
    from runtime.memory.embed import choose

    maker = Once(choose(embedder))
    found = families(count, seed, odd)
    maker.warm([each["question"] for each in found] + [item.task for item in items(found, seed)])
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, parts in _rows(names):
        rows[name] = {
            stream: played(found[: max(int(len(found) * like.part), 1)], parts, maker, like, seed)
            for stream, like in STREAMS.items()
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
        typed = 100 * (mine["typed"] - other["typed"])
        if abs(typed) >= 0.05:
            told.append(f"{typed:+.1f} points of their family's type")
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
    rows: list[list[str]] = []
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
        rows.append([name, *cells, f"{each['true']['p50_ms']:.1f}", f"{last['bytes'] / 1024:.0f}", said])
    return (
        f"{markdown(heads, rows)}\n\n"
        f"{figures['families']} families, {figures['embedder']}, seed {figures['seed']}. In the "
        f"streams false and poisoned {FALSE:.0%} of what is said of an answer is wrong; in poisoned "
        f"{POISONED:.0%} of the families were taught a wrong program; in several, with a third of the "
        f"families, {SEVERAL} tasks of each are taught. `wrong` counts wrong answers and replays on traps; "
        "ms are of the stream true, KB of poisoned."
    )


def main(as_json: bool = False, count: int = FAMILIES, seed: int = 1, embedder: str = "auto") -> None:
    """Measure and print."""
    figures = measure(count, seed, embedder)
    show(figures, table(figures), as_json)
