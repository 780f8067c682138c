"""Charts as SVG that the server draws, without script or style: shares over time, right and wrong counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from runtime.memory.tasks.decisions import Point
from runtime.nervous.growth import Month, picture
from runtime.nervous.growth import svg as growth_picture
from runtime.text.shown import elide

if TYPE_CHECKING:
    from markupsafe import Markup

POINTS = 120
"""Of a learning curve; more are thinned out."""
BARS = 20
"""Kinds of task whose accuracy is drawn."""
WIDTH, ROW, LEFT, RIGHT = 640, 26, 230, 90


def growth(months: Sequence[Month]) -> Markup:
    """The picture of `fractal growth --svg`."""
    return _markup(growth_picture(months), "growth by month")


def curve(points: Sequence[Point]) -> Markup:
    """The learning curve: the share answered without a model, and how much of that was right."""
    size = min(len(points), POINTS)
    chosen = [points[round(n * (len(points) - 1) / max(size - 1, 1))] for n in range(size)]
    lines = {
        "answered without a model": ("#2f6db5", [each.answered for each in chosen]),
        "right, of these": ("#2a7f4f", [each.right for each in chosen]),
    }
    return _markup(picture([str(each.n) for each in chosen], lines), "learning curve")


def shots(found: Sequence[Mapping[str, float]]) -> Markup:
    """The learning curve of a bench run: shares right and without a model, by snapshots."""
    lines = {
        "without a model": ("#2f6db5", [each["without_model"] for each in found]),
        "right": ("#2a7f4f", [each["accuracy"] for each in found]),
    }
    return _markup(picture([f"{each['snapshot']:g}" for each in found], lines), "learning curve")


def accuracy(kinds: Mapping[str, Mapping[str, Any]]) -> Markup:
    """A bar for each kind of task: the share of right ones among those whose outcome is known."""
    known = [(name, each) for name, each in kinds.items() if each["right_share"] is not None]
    rows = [(name, each["right_share"], each["right"] + each["wrong"]) for name, each in known[:BARS]]
    room = WIDTH - LEFT - RIGHT
    parts = ['<rect width="100%" height="100%" fill="#fff"/>']
    for n, (name, share, size) in enumerate(rows):
        y = n * ROW + 4
        label = escape(elide(name or "(none)", 34))
        parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{label}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{room}" height="18" fill="#b5472f"/>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{room * share:.1f}" height="18" fill="#2a7f4f"/>')
        text = f"{share:.0%} of {size}"
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y + 13}">{text}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(rows) * ROW + 4}"'
    drawn = "\n".join([f'{head} font-family="sans-serif" font-size="12">', *parts, "</svg>"])
    return _markup(drawn, "accuracy by kind of task") if rows else _markup("", "")


def _markup(svg: str, title: str) -> Markup:
    from markupsafe import Markup

    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1))
