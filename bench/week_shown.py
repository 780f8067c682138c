"""The simulated week as text: tables, a plot in plain characters; and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.harness import Figures, markdown
from kernel import disk
from kernel.errors import ConfigurationError

WIDTH, HEIGHT = 64, 12
LOWEST = 0.7
"""The lower end of the scale of retrievability."""
MARKS = "o*x+#@%&"
GRADES = ("again", "hard", "good", "easy")
Curves = Mapping[str, Sequence[tuple[float, float]]]


def table(figures: Figures) -> str:
    """All figures as text."""
    goal, torn, day = figures["goal"], figures["torn"], figures["saturated_on"]
    before, after = torn["before"], torn["after"]
    left = "; ".join(
        f"{days} days later {each['stay']} stay, {each['fade']} fade, {each['forgotten']} are forgotten"
        for days, each in figures["left"].items()
    )
    lines = [
        _days(figures["days"]),
        "",
        *plot(figures["curves"]),
        "",
        f"{figures['runs']} runs, {figures['experiences']} experiences, vectors of {figures['embedder']}.",
        f"Memories: {left}.",
        f"A goal moves its subject forward in consolidation: mean place {goal['place']['with']:.2f} in the "
        f"queue (0 is first), without it {goal['place']['without']:.2f}.",
        f"It attracts walks: {goal['walks']['with']:.0%} of the steps, without it "
        f"{goal['walks']['without']:.0%}.",
        f"Saturation: {f'noticed on day {day}' if day else 'not noticed'}.",
        f"Connected and cut on purpose ({torn['cut']} edges): {before['components']} → {after['components']} "
        f"components, largest {before['largest']} → {after['largest']}, Fiedler value "
        f"{before['fiedler']:.4f} → {after['fiedler']:.4f}: {torn['trend']}.",
    ]
    return "\n".join(lines)


def _days(days: Sequence[Mapping[str, Any]]) -> str:
    heads = ["day", "said so far", "memories", "due", " · ".join(GRADES), "Fiedler", "components", "surprise"]
    rows: list[list[object]] = []
    for each in days:
        grades = " · ".join(str(each["grades"].get(name, 0)) for name in GRADES)
        counts = [each[name] for name in ("day", "observations", "memories", "due")]
        surprise = "–" if each["surprise"] is None else f"{each['surprise']:.2f}"
        surprise += " (saturated)" if each["saturated"] else ""
        rows.append([*counts, grades, f"{each['fiedler']:.4f}", each["components"], surprise])
    return markdown(heads, rows, left=0)


def plot(curves: Curves) -> list[str]:
    """Retrievability by use, in plain characters; `=` where several curves meet."""
    if not curves:
        return ["(no memories)"]
    last = max(day for points in curves.values() for day, _ in points)
    rows = [[" "] * WIDTH for _ in range(HEIGHT + 1)]
    for mark, points in zip(MARKS, curves.values(), strict=False):
        for day, value in points:
            row = rows[round(HEIGHT * (1 - (max(value, LOWEST) - LOWEST) / (1 - LOWEST)))]
            at = round((day - 1) / max(last - 1, 1) * (WIDTH - 1))
            row[at] = mark if row[at] in (" ", mark) else "="
    lines = ["  ".join(f"{mark} {name}" for mark, name in zip(MARKS, curves, strict=False)) + "  = several"]
    for number, row in enumerate(rows):
        level = 100 * (1 - (1 - LOWEST) * number / HEIGHT)
        lines.append(f"{level:3.0f} % |{''.join(row)}".rstrip())
    end = f"day {last:g}"
    return [*lines, f"      +{'-' * WIDTH}", f"       day 1{end.rjust(WIDTH - 5)}"]


def draw(figures: Figures, path: Path) -> None:
    """Draw the curves and the reviews into a PNG file. Raises `FractalError`."""
    try:
        matplotlib: Any = import_module("matplotlib.figure")
    except ImportError:
        raise ConfigurationError("--plot needs matplotlib: pip install 'fractal-runtime[plot]'") from None
    figure = matplotlib.Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(2, 1))
    for use, points in figures["curves"].items():
        above.plot(*zip(*points, strict=True), marker=".", label=use)
    above.axvline(len(figures["days"]), color="grey", linestyle=":")
    above.set(xlabel="day", ylabel="retrievability", title="Retrievability of memories of the same age")
    above.legend(loc="lower left", ncols=2)
    days = [each["day"] for each in figures["days"]]
    below.bar(days, [each["memories"] for each in figures["days"]], label="memories")
    below.bar(days, [each["due"] for each in figures["days"]], label="due", width=0.5)
    below.set(xlabel="day", ylabel="memories")
    below.legend(loc="upper left")
    with disk.writing_state(path):
        figure.savefig(path, format="png")
