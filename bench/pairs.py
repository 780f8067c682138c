"""Two sayings after one another: duplicates are to merge, contradictions never, what is related is linked.

The pairs were written for this, in four kinds; those of the half `build` were looked at while the rules and
the thresholds were made, those of the half `unseen` were written afterwards and only counted. Each pair is
judged with nothing else in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import markdown, show
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
    from runtime.memory.embed.choosing import told

    return [name for name in EMBEDDERS if name == "lexical" or told("auto")[0] == name]


def judged(name: str, found: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Each pair with its similarity, and what the gate makes of it."""
    from runtime.api.fractal import shipped_system
    from runtime.memory.embed.choosing import choose
    from runtime.memory.facts.agreement import Said
    from runtime.memory.facts.gate import route, thresholds_of
    from runtime.memory.facts.language import language_of
    from runtime.memory.facts.records import Memory

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
    rows: list[list[object]] = []
    for name, each in measured.items():
        for label in LABELS:
            row = each[label]
            ways = [row["n"], row["merge"], row["link"], row["novel"], row["contrary"]]
            rows.append([name, label, *ways, each["by_cosine"][label]])
    return markdown(heads, rows, left=2)


def main(
    as_json: bool = False,
    half: str = "all",
    embedders: Sequence[str] = (),
    path: Path | None = None,
    calibrate: bool = False,
) -> None:
    """Measure and print."""
    chosen = list(embedders) or available()
    if calibrate:
        found = {name: calibrated(name) for name in chosen}
        return show(found, table_of(found), as_json)
    measured = measure(half, chosen, path)
    merged = {name: each["contradiction"]["merge"] for name, each in measured.items()}
    wrong = [f"{name}: {count} contradictions merged" for name, count in merged.items() if count]
    return show(measured, table(measured), as_json, wrong)


SIZES = (20, 50, 100, 200, 400)
SLOPES = (-0.5, -0.3, -0.15, 0.0, 0.15, 0.3, 0.5)
"""Of the threshold over density: below 0 dense regions lower it, as the seed has it, above they raise it."""
EVERY = 3
"""Of the turns one in so many is looked at."""


def calibrated(name: str) -> dict[str, Any]:
    """The thresholds for an embedder, and how well each slope tells conversations apart."""
    return {"merge": merging(name), **linking(name)}


def merging(name: str) -> float:
    """The similarity from which a pair may merge whose values do not hinder it."""
    from runtime.memory.facts.agreement import SHARED

    told = [
        each
        for each in judged(name, pairs("build"))
        if each["agreement"].verdict == "open" and each["agreement"].shared >= SHARED
    ]
    worst = max((each["score"] for each in told if each["label"] != "duplicate"), default=0.0)
    above = [each["score"] for each in told if each["label"] == "duplicate" and each["score"] > worst]
    return round((worst + min(above, default=1.0)) / 2, 2)


def linking(name: str) -> dict[str, Any]:
    """The threshold without density and its slope, those that tell conversations apart best."""
    import numpy as np

    samples = np.array(list(_samples(name)))
    found: dict[str, Any] = {}
    for slope in SLOPES:
        held = [_held_out(samples, conversation, slope) for conversation in sorted(set(samples[:, 1]))]
        found[f"{slope:+}"] = {
            "accuracy": round(sum(each[0] for each in held) / len(held), 4),
            "link": round(sum(each[1] for each in held) / len(held), 3),
        }
    best = max(found, key=lambda slope: found[slope]["accuracy"])
    return {"slope": float(best), "link": found[best]["link"], "by_slope": found, "n": len(samples)}


def _held_out(samples: Any, conversation: float, slope: float) -> tuple[float, float]:
    """Balanced accuracy on one conversation with the threshold that is best on the others."""
    import numpy as np

    told = samples[:, 2] - slope * samples[:, 3]
    known, mine = samples[:, 0] == 1, samples[:, 1] == conversation

    def accuracy(here: Any, threshold: float) -> float:
        above = told > threshold
        return float((above[here & known].mean() + (~above[here & ~known]).mean()) / 2)

    thresholds = np.linspace(-0.5, 1, 301)
    best = thresholds[int(np.argmax([accuracy(~mine, each) for each in thresholds]))]
    return accuracy(mine, float(best)), float(best)


def _samples(name: str) -> Iterator[tuple[float, float, float, float]]:
    """Whether a turn is of the conversation in store, which it is, the nearest similarity, and density."""
    import numpy as np

    from runtime.memory.embed.choosing import choose
    from runtime.memory.facts.gate import AROUND, NEAR

    turns = list(_turns())
    embedder = choose(name)
    texts = [text for _, text in turns]
    rows = np.vstack([embedder.embed(texts[at : at + 64]) for at in range(0, len(texts), 64)])
    of = np.array([number for number, _ in turns])
    chance = np.random.default_rng(1)
    for at in range(0, len(turns), EVERY):
        before = np.flatnonzero(of[:at] == of[at])
        others = np.flatnonzero(of == (of[at] + 1) % (of.max() + 1))
        for size in SIZES:
            if len(before) < size or len(others) <= size:
                continue
            start = int(chance.integers(0, len(others) - size))
            for label, store in ((1, before[-size:]), (0, others[start : start + size])):
                near = np.sort(rows[store] @ rows[at])[::-1]
                yield label, of[at], near[0], near[NEAR : NEAR + AROUND].mean()


def _turns() -> Iterator[tuple[int, str]]:
    from bench.harness import data_file

    told: Sequence[Mapping[str, Any]] = json.loads(data_file("locomo/locomo_dev5.json").read_text("utf-8"))
    for number, each in enumerate(told):
        talk = each["conversation"]
        session = 1
        while f"session_{session}" in talk:
            yield from ((number, turn["text"]) for turn in talk[f"session_{session}"])
            session += 1


def table_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The thresholds as markdown."""
    heads = ["embedder", "merge", "link", "slope", *(f"slope {each:+}" for each in SLOPES)]
    rows: list[list[object]] = []
    for name, each in found.items():
        told = [each["by_slope"][f"{slope:+}"]["accuracy"] for slope in SLOPES]
        rows.append([name, each["merge"], each["link"], each["slope"], *told])
    return markdown(heads, rows)
