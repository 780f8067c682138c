"""Where the gate's thresholds lie for an embedder: fitted on labelled pairs, and on who speaks with whom.

To merge: the middle between the highest similarity of build pairs that must not merge and whose values do not
hinder it, and the lowest of the duplicates above that. To link: a turn of a conversation has to be told from
one of another conversation by its similarity to the turns before it, in stores of several sizes; fitted on
all conversations but one and counted on that one, in turn (LoCoMo, in the folder FRACTAL_DATA).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    from runtime.bench.pairs import judged, pairs
    from runtime.memory.semantic.values import SHARED

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

    from runtime.embedding.choosing import choose
    from runtime.memory.semantic.gate import AROUND, NEAR

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
    from runtime.bench.data import find

    told: Sequence[Mapping[str, Any]] = json.loads(find("locomo/locomo_dev5.json").read_text("utf-8"))
    for number, each in enumerate(told):
        talk = each["conversation"]
        session = 1
        while f"session_{session}" in talk:
            yield from ((number, turn["text"]) for turn in talk[f"session_{session}"])
            session += 1


def table_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The thresholds as markdown."""
    heads = ["embedder", "merge", "link", "slope", *(f"slope {each:+}" for each in SLOPES)]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for name, each in found.items():
        told = [each["by_slope"][f"{slope:+}"]["accuracy"] for slope in SLOPES]
        numbers = [each["merge"], each["link"], each["slope"], *told]
        lines.append([name, *map(str, numbers)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
