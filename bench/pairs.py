"""Pairs of statements: duplicates must merge, contradictions never, related statements are linked.

The pairs were written for this benchmark. The rules and thresholds were developed with the half `build`; the
half `unseen` was written afterwards and is only counted. Each pair is judged with nothing else in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import Figures, available, markdown, read_jsonl
from runtime.api.fractal import shipped_system
from runtime.memory.embed import choose
from runtime.memory.facts.agreement import Said
from runtime.memory.facts.gate import route, thresholds_of
from runtime.memory.facts.language import language_of
from runtime.memory.facts.records import Memory

LABELS = ("duplicate", "contradiction", "related", "unrelated")
ROUTES = ("merge", "link", "novel")
FIXED = 0.85
"""The threshold of a reference that compares cosines only."""


def pairs(half: str = "all", path: Path | None = None) -> list[dict[str, str]]:
    """The pairs of a half: a label, a kind, the first statement (`a`), the second (`b`), by whom and when."""
    expected = f"a pair: an object of texts with a, b, and a label ({', '.join(LABELS)})"
    listed = read_jsonl(path or Path(__file__).with_suffix(".jsonl"), _pair, expected)
    return [pair for pair in listed if half in ("all", pair["half"])]


def _pair(_: int, line: Mapping[str, Any]) -> dict[str, str]:
    pair = {"half": "build", **line}
    if not all(isinstance(text, str) for text in pair.values()):
        raise TypeError("a value is no text")
    if pair.get("label") not in LABELS or not pair.get("a") or not pair.get("b"):
        raise ValueError("missing or unknown value")
    return pair


def judge(embedder: str, listed: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Each pair with its similarity and the decision of the gate."""
    made, language = choose(embedder), language_of((shipped_system(),))
    first, second = (made.embed([pair[side] for pair in listed]) for side in ("a", "b"))
    judged: list[dict[str, Any]] = []
    for pair, score in zip(listed, map(float, (first * second).sum(1)), strict=True):
        known = {"id": "a", "text": pair["a"], "who": pair.get("a_who", ""), "since": pair.get("a_at", "")}
        said = Said(pair["b"], pair.get("b_who", ""), pair.get("b_at", ""))
        routed = route(said, [(Memory.model_validate(known), score)], thresholds_of(embedder), language)
        assert routed.agreement is not None
        judged.append({**pair, "score": score, "routed": routed, "agreement": routed.agreement})
    return judged


def measure(half: str = "all", embedders: Sequence[str] = (), path: Path | None = None) -> dict[str, Any]:
    """By embedder and label: the routes, contradictions found, and what a fixed cosine alone would merge."""
    listed = pairs(half, path)
    figures: dict[str, Any] = {}
    for name in embedders or available():
        judged = judge(name, listed)
        by_label = {label: [pair for pair in judged if pair["label"] == label] for label in LABELS}
        figures[name] = {label: _counts(some) for label, some in by_label.items()}
        figures[name]["by_cosine"] = {
            label: sum(pair["score"] > FIXED for pair in some) for label, some in by_label.items()
        }
    return figures


def _counts(judged: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    routes = Counter(pair["routed"].route for pair in judged)
    contrary = sum(bool(pair["routed"].contrary) for pair in judged)
    return {"n": len(judged), **{route: routes[route] for route in ROUTES}, "contrary": contrary}


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["embedder", "pairs", "n", "merge", "link", "new", "contrary"]
    rows = [
        [name, label, *each[label].values(), each["by_cosine"][label]]
        for name, each in figures.items()
        for label in LABELS
    ]
    return markdown([*heads, f"merged by cosine > {FIXED} alone"], rows, left=2)


def missed(figures: Figures) -> list[str]:
    """Contradictions that are merged."""
    merged = {name: each["contradiction"]["merge"] for name, each in figures.items()}
    return [f"{name}: {count} contradictions merged" for name, count in merged.items() if count]
