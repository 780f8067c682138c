"""Facts that change: which later statement ends an earlier one, which does not, what is closed by mistake.

Each line of the data is played on a shelf of its own: facts about other things (what other lines told before,
some taken at random and those most similar to the line's own) and the earlier statement are told days apart,
then the later one. The lines were written by people who did not know the rules. With a model they are played
once more with a dream after each, in which the model reads what the later statement ends.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.dreaming_trees import brain_in
from bench.harness import CachedEmbedder, Figures, available, markdown, read_jsonl
from kernel.errors import UsageError
from kernel.loop.budget import Bounds
from kernel.store.call_log import ReplyLog
from runtime.api.fractal import shipped_system
from runtime.memory.dream.stages import Ask, Dream
from runtime.memory.dream.superseding import supersede
from runtime.memory.embed import choose
from runtime.memory.facts.mind import Mind
from runtime.memory.prompting import Asking
from runtime.models.ladder import build
from runtime.workspace import settings

FAR, NEAR = 5, 2
"""Facts about other things, taken at random, and those most similar to the line."""
SYSTEMS = (shipped_system(),)
START = date(2026, 1, 5)
GOALS = {"superseded": 0.95, "wrongly": 0.01}
Line = Mapping[str, Any]


def lines(path: Path | None = None) -> list[Line]:
    """The lines: a kind, what was said before and after, and whether the later one ends the earlier."""

    def line(_: int, value: Line) -> Line:
        texts = (value["kind"], value["before"], value["after"])
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise ValueError("a text is missing")
        if not isinstance(value["supersedes"], bool):
            raise ValueError("supersedes is neither true nor false")
        return value

    expected = "an object with the texts kind, before and after, and supersedes (true or false)"
    return read_jsonl(path or Path(__file__).with_suffix(".jsonl"), line, expected)


def others(listed: Sequence[Line], at: int, similar: Any) -> list[str]:
    """Facts about other things; some are similar to the line."""
    own = {listed[at]["before"], listed[at]["after"]}
    ranked = [
        n for n in sorted(range(len(listed)), key=lambda n: -similar[n]) if listed[n]["before"] not in own
    ]
    drawn = random.Random(at).sample(ranked[NEAR:], min(FAR, len(ranked[NEAR:])))
    return list(dict.fromkeys(listed[n]["before"] for n in (*ranked[:NEAR], *drawn)))


@contextmanager
def model_of(folder: Path | None) -> Iterator[Ask | None]:
    """The model that the settings of a folder name, asked without a limit but that of money."""
    if folder is None:
        yield None
        return
    config, _ = settings.load(folder, {})
    bounds = Bounds(calls=10**9, tokens=10**12, usd=config.usd)
    with tempfile.TemporaryDirectory() as place:
        log = ReplyLog(Path(place) / "calls.jsonl", fsync=False)
        asking = Asking(build(config, SYSTEMS, Path(place)).rungs, SYSTEMS, log, bounds, "facts")
        if not asking:
            raise UsageError(f"{folder}: its fractal.yaml names no model")
        yield asking
        for trouble in asking.troubles:
            print(f"not asked, or not used: {trouble}", file=sys.stderr)


def play(line: Line, around: Sequence[str], embedder: Any, ask: Ask | None = None) -> dict[str, Any]:
    """What became of the earlier statement and of the others when the later one was told, and dreamt of."""
    day = START
    brain = brain_in(Path(), store="memory")
    brain.__dict__["embedder"] = embedder
    mind = Mind.of(brain, clock=lambda: f"{day}T12:00:00Z")
    for text in around:
        mind.remember(text)
        day += timedelta(2)
    # they may end each other, which is not measured here
    standing = {memory.id for memory in mind.memories()}
    before = mind.remember(line["before"])
    day += timedelta(5)
    after = mind.remember(line["after"])
    if ask is not None:
        night = datetime(day.year, day.month, day.day, 23, tzinfo=UTC)
        supersede(Dream("night", brain, brain.shelf, night, since=mind.now, ask=ask))
    known = {memory.id: memory for memory in mind.memories(past=True)}
    now = known[before.id]
    return {
        "superseded": now.superseded == after.id != before.id,
        "merged": after.id == before.id,
        "others": [
            known[id].text for id in standing - {before.id, after.id} if known[id].superseded == after.id
        ],
        "confidence_rose": now.confidence > before.confidence and after.id != before.id,
    }


def measure(path: Path | None = None, *, folder: Path | None = None) -> dict[str, Any]:
    """By embedder and kind: superseded, superseded by mistake, others closed, merged though contradictory.

    With a folder, by the rules and the model that its settings name.
    """
    with model_of(folder) as ask:
        return _measured(path, ask)


def _measured(path: Path | None, ask: Ask | None) -> dict[str, Any]:
    listed = lines(path)
    figures: dict[str, Any] = {}
    for name in available():
        embedder = CachedEmbedder(choose(name))
        befores = embedder.embed([line["before"] for line in listed])
        afters = embedder.embed([line["after"] for line in listed])
        played = [
            {**line, **play(line, others(listed, n, befores @ afters[n]), embedder, ask)}
            for n, line in enumerate(listed)
        ]
        kinds = dict.fromkeys(line["kind"] for line in listed)
        figures[name] = {
            **{kind: _counts([each for each in played if each["kind"] == kind]) for kind in kinds},
            "all": _counts(played),
        }
        figures[name]["all"]["mistakes"] = [
            {key: each[key] for key in ("kind", "before", "after", "superseded", "others", "merged")}
            for each in played
            if each["superseded"] != each["supersedes"]
            or each["others"]
            or (each["supersedes"] and each["merged"])
        ]
    return figures


def _counts(played: Sequence[Line]) -> dict[str, Any]:
    changes = [each for each in played if each["supersedes"]]
    rest = [each for each in played if not each["supersedes"]]
    return {
        "changes": len(changes),
        "superseded": sum(each["superseded"] for each in changes),
        "no_changes": len(rest),
        "wrongly": sum(each["superseded"] for each in rest),
        "others_closed": sum(bool(each["others"]) for each in played),
        "merged": sum(each["merged"] or each["confidence_rose"] for each in changes),
    }


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["embedder", "kind", "changes", "superseded", "no changes", "wrongly superseded", "others closed"]
    rows = [
        [
            name,
            kind,
            each["changes"] or "",
            f"{each['superseded'] / each['changes']:.1%}" if each["changes"] else "",
            each["no_changes"] or "",
            f"{each['wrongly'] / each['no_changes']:.1%}" if each["no_changes"] else "",
            each["others_closed"],
            each["merged"],
        ]
        for name, kinds in figures.items()
        for kind, each in kinds.items()
    ]
    return markdown([*heads, "contradictory merges"], rows, left=2)


def missed(figures: Figures) -> list[str]:
    """Goals that are not met."""
    found: list[str] = []
    for name, kinds in figures.items():
        total = kinds["all"]
        share = total["superseded"] / max(1, total["changes"])
        wrong = total["wrongly"] / max(1, total["no_changes"])
        if share < GOALS["superseded"]:
            found.append(f"{name}: {share:.1%} superseded; the goal is {GOALS['superseded']:.0%}")
        if wrong > GOALS["wrongly"]:
            found.append(f"{name}: {wrong:.1%} wrongly superseded; the goal is {GOALS['wrongly']:.0%}")
        if total["others_closed"]:
            found.append(f"{name}: other facts closed by {total['others_closed']} lines; the goal is 0")
        if total["merged"]:
            found.append(f"{name}: {total['merged']} contradictory merges; the goal is 0")
    return found
