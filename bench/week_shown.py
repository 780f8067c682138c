"""The simulated week for people: tables, curves in plain characters, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import markdown as table
from runtime.cli import brain as plotting

WIDE, HIGH = 64, 12
LOWEST = 0.7
"""Where the scale of retrievability begins."""
MARKS = "o*x+#@%&"
Curves = Mapping[str, Sequence[tuple[float, float]]]


def shown(figures: Mapping[str, Any]) -> str:
    """All of it as text."""
    goal, torn = figures["goal"], figures["torn"]
    left = "; ".join(
        f"{days} days later {each['stay']} stay, {each['fade']} fade, {each['forgotten']} are nearly gone"
        for days, each in figures["left"].items()
    )
    since = figures["saturated_on"]
    lines = [
        _days(figures["days"]),
        "",
        *plot(figures["curves"]),
        "",
        f"{figures['runs']} runs, {figures['experiences']} experiences, vectors of {figures['embedder']}.",
        f"Memories: {left}.",
        f"A goal draws consolidation: what concerns it stands at {goal['place']['with']:.2f} of the queue "
        f"(0 is first), without it at {goal['place']['without']:.2f}.",
        f"It draws walks: {goal['walks']['with']:.0%} of the steps, else {goal['walks']['without']:.0%}.",
        f"Saturation: {f'noticed on day {since}' if since else 'not noticed'}.",
        f"Joined and torn on purpose ({torn['cut']} edges): {torn['before']['components']} → "
        f"{torn['after']['components']} pieces, largest {torn['before']['largest']} → "
        f"{torn['after']['largest']}, Fiedler value {torn['before']['fiedler']:.4f} → "
        f"{torn['after']['fiedler']:.4f}: {torn['trend']}.",
    ]
    return "\n".join(lines)


def _days(days: Sequence[Mapping[str, Any]]) -> str:
    heads = ["day", "said so far", "memories", "due", "again · hard · good · easy"]
    heads += ["Fiedler", "pieces", "surprise"]
    rows: list[list[object]] = []
    for each in days:
        grades = " · ".join(str(each["grades"].get(name, 0)) for name in ("again", "hard", "good", "easy"))
        counts = [each[name] for name in ("day", "observations", "memories", "due")]
        surprise = "–" if each["surprise"] is None else f"{each['surprise']:.2f}"
        surprise += " (none left)" if each["saturated"] else ""
        rows.append([*counts, grades, f"{each['fiedler']:.4f}", each["components"], surprise])
    return table(heads, rows, left=0)


def plot(curves: Curves, wide: int = WIDE) -> list[str]:
    """How likely memories are to be known, by use, in plain characters; `=` where several are the same."""
    if not curves:
        return ["(nothing is remembered)"]
    last = max(day for points in curves.values() for day, _ in points)
    rows = [[" "] * wide for _ in range(HIGH + 1)]
    for mark, points in zip(MARKS, curves.values(), strict=False):
        for day, value in points:
            row = rows[round(HIGH * (1 - (max(value, LOWEST) - LOWEST) / (1 - LOWEST)))]
            at = round((day - 1) / max(last - 1, 1) * (wide - 1))
            row[at] = mark if row[at] in (" ", mark) else "="
    lines = ["  ".join(f"{mark} {name}" for mark, name in zip(MARKS, curves, strict=False)) + "  = several"]
    for number, row in enumerate(rows):
        level = 100 * (1 - (1 - LOWEST) * number / HIGH)
        lines.append(f"{level:3.0f} % |{''.join(row)}".rstrip())
    end = f"day {last:g}"
    lines += [f"      +{'-' * wide}", f"       day 1{end.rjust(wide - 5)}"]
    return lines


def draw(figures: Mapping[str, Any], path: Path) -> None:
    """The curves and the reviews as a picture. Raises `FractalError`."""
    figure = plotting.figure(9, 6, "--plot")
    above, below = figure.subplots(2, 1, height_ratios=(2, 1))
    for use, points in figures["curves"].items():
        above.plot(*zip(*points, strict=True), marker=".", label=use)
    above.axvline(len(figures["days"]), color="grey", linestyle=":")
    above.set(
        xlabel="day", ylabel="retrievability", title="How likely memories of the same age are to be known"
    )
    above.legend(loc="lower left", ncols=2)
    days = [each["day"] for each in figures["days"]]
    below.bar(days, [each["memories"] for each in figures["days"]], label="memories")
    below.bar(days, [each["due"] for each in figures["days"]], label="due", width=0.5)
    below.set(xlabel="day", ylabel="memories")
    below.legend(loc="upper left")
    plotting.save(figure, path)
