"""What each part of procedural memory contributes: streams of tasks with all parts, and without each.

Texts are embedded once for all streams, so the milliseconds are those of the rest of an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.families import Family, sample_families
from bench.harness import CachedEmbedder, Figures, markdown
from bench.streams import FALSE, POISONED, SEVERAL, STREAMS, play
from runtime.memory.embed import choose
from runtime.memory.tasks import ALL, NAMES, Parts


def measure(
    count: int, seed: int = 1, embedder: str = "auto", names: Sequence[str] = NAMES
) -> dict[str, Any]:
    """The figures of each stream with all parts, and without each."""
    cached = CachedEmbedder(choose(embedder))
    families = sorted(sample_families(count, seed), key=lambda family: family.id)
    cached.warm([family.question for family in families])
    cached.warm([question.text for family in families for question in family.questions])

    def streams(parts: Parts) -> dict[str, dict[str, float]]:
        return {
            name: play(_first(families, stream.part), parts, cached, stream, seed)
            for name, stream in STREAMS.items()
        }

    return {
        "embedder": cached.name,
        "families": len(families),
        "seed": seed,
        "with": streams(ALL),
        "without": {name: streams(ALL.without(name)) for name in names},
    }


def _first(families: Sequence[Family], part: float) -> Sequence[Family]:
    return families[: max(int(len(families) * part), 1)]


_CHANGES = {
    "answered": "points answered",
    "wrong": "wrong",
    "typed": "points of their family's type",
    "taught": "taught",
}


def contribution(with_: Mapping[str, Mapping[str, float]], without: Mapping[str, Mapping[str, float]]) -> str:
    """What a part changes in each stream, in words."""
    streams: list[str] = []
    for stream, mine in with_.items():
        changes: list[str] = []
        difference = {key: mine[key] - without[stream][key] for key in mine}
        for key, text in _CHANGES.items():
            if text.startswith("points") and abs(points := 100 * difference[key]) >= 0.05:
                changes.append(f"{points:+.1f} {text}")
            elif not text.startswith("points") and difference[key]:
                changes.append(f"{difference[key]:+.0f} {text}")
        other = without[stream]["bytes"]
        if other and abs(growth := difference["bytes"] / other) >= 0.005:
            changes.append(f"{growth:+.0%} bytes")
        if changes:
            streams.append(f"{stream}: {', '.join(changes)}")
    return "; ".join(streams) or "nothing on these streams"


def table(figures: Figures) -> str:
    """The figures as markdown, a row for each part."""
    heads = ["without", *(f"{name}: answered · right · wrong · traps" for name in STREAMS)]
    heads += ["p50 ms", "KB", "what it contributes"]
    rows: list[list[str]] = []
    for name, streams in {"(all parts)": figures["with"], **figures["without"]}.items():
        cells = [
            f"{each['answered']:.1%} · {each['right_of_answered']:.1%} · {each['wrong']:.0f} · "
            f"{each['false_replay']:.1%}"
            for each in streams.values()
        ]
        size = streams["poisoned"]["bytes"] / 1024
        change = contribution(figures["with"], streams) if name in figures["without"] else ""
        rows.append([name, *cells, f"{streams['true']['p50_ms']:.1f}", f"{size:.0f}", change])
    return (
        f"{markdown(heads, rows)}\n\n"
        f"{figures['families']} families, {figures['embedder']}, seed {figures['seed']}. In the streams "
        f"false and poisoned {FALSE:.0%} of the feedback is wrong; in poisoned {POISONED:.0%} of the "
        f"families are taught a wrong program; in several, with a third of the families, {SEVERAL} tasks of "
        "each are taught. `wrong` counts wrong answers and replayed traps; ms are those of the stream true, "
        "KB those of poisoned."
    )
