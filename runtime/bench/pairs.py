"""Two sayings after one another: duplicates are to merge, contradictions never, what is related is linked.

The pairs were written for this, in four kinds; those of the half `build` were looked at while the rules and
the thresholds were made, those of the half `unseen` were written afterwards and only counted. Each pair is
judged with nothing else in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel.errors import UsageError

LABELS = ("duplicate", "contradiction", "related", "unrelated")
EMBEDDERS = ("lexical", "minilm")
HALVES = ("build", "unseen", "all")


def pairs(half: str = "all", path: Path | None = None) -> list[dict[str, str]]:
    """The pairs of a half: a label, a kind, what is said first (`a`) and then (`b`), by whom and when."""
    place = path or Path(__file__).with_suffix(".jsonl")
    try:
        lines = place.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: it is not UTF-8: {error}") from None
    found = [_pair(line, f"{place}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    return [each for each in found if half in ("all", each["half"])]


def _pair(line: str, where: str) -> dict[str, str]:
    try:
        told: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: it is no JSON: {error}") from None
    if not isinstance(told, dict) or not all(isinstance(each, str) for each in told.values()):  # pyright: ignore
        raise UsageError(f"{where}: a pair is an object of texts")
    pair: dict[str, str] = {"half": "build", **told}
    if pair.get("label") not in LABELS or not pair.get("a") or not pair.get("b"):
        raise UsageError(f"{where}: a pair has a, b, and a label: {', '.join(LABELS)}")
    return pair


def available() -> list[str]:
    """The embedders that are here."""
    from runtime.embedding.choosing import told

    return [name for name in EMBEDDERS if name == "lexical" or told("auto")[0] == name]


def judged(name: str, found: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Each pair with its similarity, and what the gate makes of it."""
    from runtime.embedding.choosing import choose
    from runtime.fractal import shipped_system
    from runtime.memory.semantic.gate import route, thresholds_of
    from runtime.memory.semantic.language import language_of
    from runtime.memory.semantic.records import Memory
    from runtime.memory.semantic.values import Said

    embedder, language = choose(name), language_of((shipped_system(),))
    scores = (embedder.embed([p["a"] for p in found]) * embedder.embed([p["b"] for p in found])).sum(1)
    told: list[dict[str, Any]] = []
    for pair, score in zip(found, scores, strict=True):
        known = {"id": "a", "text": pair["a"], "who": pair.get("a_who", ""), "since": pair.get("a_at", "")}
        memory = Memory.model_validate(known)
        said = Said(pair["b"], pair.get("b_who", ""), pair.get("b_at", ""))
        routed = route(said, [(memory, float(score))], thresholds_of(name), language)
        assert routed.agreement is not None
        told.append({**pair, "score": float(score), "routed": routed, "agreement": routed.agreement})
    return told


def figures(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many of each label merge, link, are new, and are held to contradict each other."""
    counts: dict[str, Any] = {}
    for label in LABELS:
        mine = [each for each in told if each["label"] == label]
        ways = Counter(each["routed"].route for each in mine)
        counts[label] = {
            "n": len(mine),
            **{way: ways[way] for way in ("merge", "link", "novel")},
            "contrary": sum(each["agreement"].verdict == "contrary" for each in mine),
        }
    return counts


def measure(half: str, names: Sequence[str], path: Path | None = None) -> dict[str, Any]:
    """The figures by embedder; `by_cosine` has what the reference's fixed thresholds alone come to."""
    found = pairs(half, path)
    measured: dict[str, Any] = {}
    for name in names:
        told = judged(name, found)
        fixed = {
            label: sum(each["score"] > 0.85 for each in told if each["label"] == label) for label in LABELS
        }
        measured[name] = {**figures(told), "by_cosine": fixed}
    return measured


def table(measured: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["embedder", "pairs", "n", "merge", "link", "new", "contrary", "merged by cosine > 0.85 alone"]
    lines = [heads, ["---", "---", *["---:"] * 6]]
    for name, each in measured.items():
        for label in LABELS:
            row = each[label]
            ways = [row["n"], row["merge"], row["link"], row["novel"], row["contrary"]]
            lines.append([name, label, *map(str, ways), str(each["by_cosine"][label])])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(
    as_json: bool = False,
    half: str = "all",
    names: Sequence[str] = (),
    path: Path | None = None,
    calibrate: bool = False,
) -> int:
    """Measure and print; returns 1 when a contradiction merged."""
    chosen = list(names) or available()
    if calibrate:
        from runtime.bench.thresholds import calibrated, table_of

        found = {name: calibrated(name) for name in chosen}
        print(json.dumps(found, indent=1) if as_json else table_of(found))
        return 0
    measured = measure(half, chosen, path)
    print(json.dumps(measured, indent=1) if as_json else table(measured))
    return int(any(each["contradiction"]["merge"] for each in measured.values()))
