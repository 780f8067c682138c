"""Tasks of one kind, again and again: first a model does them, later memory does what it has seen to go well.

What code can prove needs no model from the second time on. What only a model can judge is checked by it at
each use until fifty have gone well, or ten if two solved tasks lead to the same steps. So it is done often.

The model is scripted. Each call takes as long as a hosted model: `FIRST` seconds to the first token, then
`PER_TOKEN` seconds for each one of the reply. A call costs 2.5 lifeforce.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.harness import Figures, markdown, timed
from kernel.asking.responder import estimate_tokens
from runtime.api.fractal import Fractal
from runtime.memory.tasks.ledger import NEEDED

EXAMPLE = Path(__file__).resolve().parents[1] / "docs" / "examples" / "collision"
FIRST, PER_TOKEN, LIFEFORCE = 0.7, 0.02, 2.5
GOALS: Mapping[str, float] = {"lifeforce": 0.6, "latency": 0.8}
"""The share that the tenth time has to save. Source: the seed."""
JUDGED = NEEDED["cerebellum"][0] + 5
"""How often the tasks that only a model can judge are done."""


@dataclass(frozen=True)
class Kind:
    """Tasks of one kind: the task of a time, the model's steps for it, and what shows that it is done."""

    task: Callable[[int], str]
    steps: Callable[[str], list[dict[str, Any]]]
    success: Callable[[str], Mapping[str, Any]]
    solved: int = 1  # times that the model does it before memory may


def _drive(task: str) -> list[dict[str, Any]]:
    path = re.findall(r"\S+\.json", task)[0]
    calls = [
        {"action": "sense", "path": path},
        *({"action": each} for each in ("evaluate", "evade", "resume")),
    ]
    return [{"tool": "avoid-collision", "args": args} for args in calls]


def _reckon(task: str) -> list[dict[str, Any]]:
    boxes, each, given, path = re.findall(r"[\w-]+\.txt|\d+", task)
    return [
        {"tool": "calc", "args": {"expression": f"{boxes} * {each} - {given}"}},
        {"tool": "write", "args": {"path": path, "content": "{{ steps[1].result }}"}},
        {"tool": "read", "args": {"path": path}},
    ]


def _way(n: int) -> str:
    return f"drive on past what way-{n}.json shows"


def _pens(n: int) -> str:
    bought = f"Ida buys {n + 3} boxes with {n + 10} pens each"
    return f"{bought} and gives {n + 2} pens away. Write how many are left into pens-{n}.txt."


def _goes_on(_task: str) -> Mapping[str, Any]:
    return {"step": 4, "has": "goes on at"}


def _judged(_task: str) -> Mapping[str, Any]:
    return {"judge": "the robot goes on and its way is free"}


def _written(task: str) -> Mapping[str, Any]:
    return {"file": re.findall(r"\S+\.txt", task)[0], "has": r"^\d+$"}


KINDS: Mapping[str, Kind] = {
    "collision, proven by code": Kind(_way, _drive, _goes_on),
    "collision, judged by the model": Kind(_way, _drive, _judged),
    "collision, judged, solved twice": Kind(_way, _drive, _judged, solved=2),
    "word problem, proven by code": Kind(_pens, _reckon, _written),
}


def measure(times: int = 10, judged: int = JUDGED, pace: float = 1.0) -> dict[str, Any]:
    """By kind of task: lifeforce, milliseconds and calls of each time. `pace` 0 is a model without delay."""
    return {name: _played(kind, judged if "judged" in name else times, pace) for name, kind in KINDS.items()}


def _played(kind: Kind, times: int, pace: float) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        shutil.copytree(EXAMPLE, work)
        for n in range(times):
            seen = {"front": 20 + n % 20, "left": 50 + n, "right": 90 - n % 20, "speed": 20}
            (work / f"way-{n}.json").write_text(json.dumps(seen))
        return [_once(work, kind.task(n), kind, pace, recall=n >= kind.solved) for n in range(times)]


def _once(work: Path, task: str, kind: Kind, pace: float, *, recall: bool) -> dict[str, Any]:
    script = work / "driver.json"
    script.write_text(json.dumps(_script(kind, task, pace)))
    settings = {"embedder": "lexical", "fsync": False, "sandbox": "off", "check": "always"}
    model = {"model": f"scripted:{script}", "lifeforce": LIFEFORCE}
    settings |= {"ladder": [{"model": "reflex"}, model], "lifeforce": {"capacity": 1000, "per_hour": 0}}
    settings["recall"] = recall
    fractal = Fractal(work, settings=settings, trusted=True)
    result, ms = timed(lambda: asyncio.run(fractal.run(task)))
    spent = {name: result.spent.get(name, 0) for name in ("lifeforce", "calls")}
    return {**spent, "ms": round(ms), "status": result.status, "output": result.output}


def _script(kind: Kind, task: str, pace: float) -> dict[str, Any]:
    """The model's replies to a task, by phase; each takes its time."""
    steps = kind.steps(task)
    plan = {"task": task, "approach": "as the tool says", "confidence": "high"}
    output = f"{{{{ steps[{len(steps)}].result }}}}"
    replies: dict[str, Any] = {
        "plan": {**plan, "steps": steps, "success": [dict(kind.success(task))]},
        "check": {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output},
    }
    seconds = {
        phase: FIRST + PER_TOKEN * estimate_tokens(json.dumps(each)) for phase, each in replies.items()
    }
    return {phase: {"reply": each, "delay": pace * seconds[phase]} for phase, each in replies.items()}


def table(figures: Figures) -> str:
    """By kind: the first, second and tenth time, and the first one that needs no model."""
    heads = [
        "lifeforce · ms · calls",
        "first",
        "second",
        "tenth",
        "saved: lifeforce · latency",
        "no model from",
    ]

    def cell(time: Mapping[str, Any]) -> str:
        return f"{time['lifeforce']:g} · {time['ms']:,} · {time['calls']}"

    rows: list[Sequence[object]] = []
    for name, times in figures.items():
        saved = " · ".join(f"{each:.0%}" for each in _saved(times))
        alone = next((number for number, time in enumerate(times, 1) if not time["calls"]), "–")
        rows.append([name, cell(times[0]), cell(times[:2][-1]), cell(times[:10][-1]), saved, alone])
    return markdown(heads, rows)


def missed(figures: Figures) -> list[str]:
    """The goals that were missed, of the kinds that code proves."""
    return [
        f"{name}: {what} saved {saved:.0%}, goal {goal:.0%}"
        for name, times in figures.items()
        if "proven" in name
        for (what, goal), saved in zip(GOALS.items(), _saved(times), strict=True)
        if saved < goal
    ]


def _saved(times: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """What the tenth time saves of the first one."""
    first, tenth = times[0], times[:10][-1]
    cheaper = 1 - tenth["lifeforce"] / first["lifeforce"] if first["lifeforce"] else 0.0
    return cheaper, 1 - tenth["ms"] / first["ms"]
