"""A beat that is killed at any of its writes: the next one ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from crashing import forked, images
from lanes import NIGHT, every
from playing import ACCEPT, limited, plan, write
from test_design import RIGHT, WRONG, designer, pattern, requesting, version
from test_discovery import mean, overseer

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.store.call_log import ReplyLog
from runtime.api.beating import Beat
from runtime.api.fractal import Fractal
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.workspace.deciders import TERMINAL

CAPACITY = 1_000
SETTINGS = {
    "embedder": "lexical",
    "fsync": False,
    "sandbox": "off",
    "recall": False,
    "store": "files",
    "lifeforce": {"capacity": CAPACITY, "per_hour": 0},
}


@dataclass(frozen=True)
class Case:
    """A workspace that was prepared by `before`, and the beat that is killed in it."""

    before: Callable[[Make], object]
    worker: Any
    oversight: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    apart: int = 100
    """By day it is killed at each such write."""


Make = Callable[[], Fractal]


def beat(fractal: Fractal) -> list[str]:
    beating = Beat(fractal, print)
    asyncio.run(beating.run(0.01, once=True))
    return [each.status for each in beating.results]


def planning(ask: Ask) -> Any:
    if ask.phase == "check":
        return ACCEPT
    name = "sums.txt" if "as sums" in prompt_text(ask) else "words.txt"
    return plan(write(name, "5\n"), success=[{"file": name, "has": "5"}])


def asking(ask: Ask) -> Any:
    if "answer" in [note.key for note in ask.document.section(1).notes]:
        done = {"answer": "written", "checks": ["grep -q 5 words.txt"]}
        return {"calls": [write("words.txt", "5\n"), {"tool": "done", "args": done}]}
    return {**plan(), "steps": [], "success": [], "question": "which file?"}


def asking_again(ask: Ask) -> Any:
    return {"question": "which file?"}


def escalating(ask: Ask) -> Any:
    if ask.phase == "check":
        return ACCEPT
    step = {"tool": "escalate", "what": "statistics: the mean of 4, 5, 9"}
    return plan(step, write("mean.txt", "{{ steps[1].result }}"), success=[{"file": "mean.txt", "has": "6"}])


def approves(ask: Ask) -> Any:
    return {"decision": "approve", "why": ""}


def passes(ask: Ask) -> Any:
    return {"decision": "pass", "why": "only you know"}


def sent(make: Make) -> None:
    make().send("write the sum", by=TERMINAL)


def replied(kind: str, text: str = "") -> Callable[[Make], None]:
    def prepare(make: Make) -> None:
        sent(make)
        assert beat(make()) == ["waiting"]
        (asked,) = [thread for thread in make().nerves.messages.threads() if thread.type != "task"]
        make().reply(asked.id, kind, text, by=TERMINAL)

    return prepare


def escalated(make: Make) -> None:
    for _ in range(4):
        sent(make)
    assert beat(make()) == ["unverified"] * 4
    sent(make)


def granted(make: Make) -> None:
    make().grant("request-design", by=TERMINAL)
    sent(make)


REMEMBERED = ("experience", "tried", "observation", "pattern")
"""What memory keeps of a run; other kinds are computed when they are needed.

So are vectors: a mark that an observation has none yet stays until the next search, by which time it is made.
"""
RANDOM = r"[0-9a-f]{12,}|\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+ ms"
REPEATED = (
    r"done before the interruption: its files are as it leaves them|(wrote|replaced) \S+, \d+ characters?"
)
"""What the result of a write says after a kill, and otherwise."""
REVIEWED = {"review": "always"}
CASES = {
    "task": Case(sent, planning, approves, REVIEWED, 150),
    "approve": Case(replied("approve"), planning, passes, REVIEWED),
    "nudge": Case(replied("nudge", "as sums"), planning, passes, REVIEWED),
    "reject": Case(replied("reject"), planning, passes, REVIEWED),
    "reject with a reason": Case(replied("reject", "as sums"), planning, passes, REVIEWED),
    "veto": Case(replied("veto"), planning, passes, REVIEWED),
    "answer": Case(replied("answer", "words.txt"), asking),
    "answer to what is asked again": Case(replied("answer", "words.txt"), asking_again, apart=70),
    "escalation": Case(
        replied("answer", "6\nteaching: divide the sum\ngrant: calc, csv"),
        escalating,
        settings={"review": "off", "discovery": "progressive"},
        apart=140,
    ),
    "fifth escalation": Case(escalated, mean("calc"), overseer, {"discovery": "progressive"}, 170),
    "design": Case(
        granted,
        requesting,
        designer(version(WRONG, pattern()), version(RIGHT)),
        {"discovery": "progressive", "check": "always"},
        300,
    ),
}


def ending(fractal: Fractal) -> set[str]:
    """All that a beat leaves, without times and random names; equal lines are numbered."""
    messages, runs = fractal.nerves.messages, fractal.runs()[::-1]

    def plain(*values: Any) -> str:
        text = repr(values)
        for n, each in enumerate(runs):
            text = text.replace(each.run, f"RUN{n}")
        return re.sub(REPEATED, "wrote", re.sub(RANDOM, "…", text))

    documents = [each for summary in runs for each in fractal.documents(summary.run)]
    documents = [each for each in documents if not each.meta.id.startswith("op-")]
    assert fractal.lifeforce
    level, folder = fractal.lifeforce.level(), fractal.workspace.folder
    spent = sum(ReplyLog(fractal.path(each.run).parent / "calls.jsonl").spent().lifeforce for each in runs)
    lines = [
        *(plain(path.name, path.read_text()) for path in folder.iterdir() if path.is_file()),
        *(
            plain(*(value for key, value in each if key not in ("id", "in_reply_to", "at", "vectors")))
            for each in messages.all()
            if not each.data.get("taken")
        ),
        *(plain("open", thread.type) for thread in messages.threads()),
        *(
            plain(doc.meta.id, doc.meta.status, doc.text(5, "result"), dict(doc.meta.waiting or {}))
            for doc in documents
        ),
        *(plain(note.key, note.text) for doc in documents for note in doc.section(1).notes),
        *(plain(step.tool, step.state, step.result) for doc in documents for step in doc.steps.values()),
        *(plain("knows", tool.name) for tool in fractal.known()),
        *(plain(each.kind, each.unit, each.agent, each.via) for each in fractal.workshop.journal.entries()),
        *(plain(kind, n) for kind, n in messages.shelf.kinds().items() if kind in REMEMBERED),
        plain("lifeforce", level.free + spent, dict(level.held)),
    ]
    return {f"{line} {n}" for line, count in Counter(lines).items() for n in range(count)}


class Killed:
    """Kills an act in a workspace, and lets the next process go on from what is left."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.case = case
        self.work, self.images, self.prepared = (folder / name for name in ("work", "images", "prepared"))
        self.work.mkdir()
        self.images.mkdir()
        case.before(self.make)
        shutil.copytree(self.work, self.prepared)

    def make(self) -> Fractal:
        case = self.case
        rungs = [limited(Scripted(case.worker, name="worker"), 1.0)]
        if case.oversight:
            rungs.append(limited(Scripted(case.oversight, name="large", tier="oversight"), 5.0))
        return Fractal(self.work, settings={**SETTINGS, **case.settings}, ladder=Ladder((*rungs, Human())))

    def restore(self, image: Path) -> None:
        shutil.rmtree(self.work)
        shutil.copytree(image, self.work, symlinks=True)

    def differ(self, act: Callable[[Fractal], object], every: int) -> tuple[int, dict[str, list[str]]]:
        """At how many writes the act was killed, and how the end then differs, by the write."""

        def end() -> set[str]:
            act(self.make())
            return ending(self.make())

        expected = end()  # in this process, so that its forks have everything imported
        self.restore(self.prepared)
        found = images(lambda: act(self.make()), self.work, self.images, every)
        different: dict[str, list[str]] = {}
        for image in found:
            self.restore(image)
            if changed := expected ^ forked(end):
                different[image.name] = sorted(changed)
        return len(found), different


@pytest.mark.timeout(7_200 if NIGHT else 240)
@pytest.mark.parametrize("name", CASES)
def test_the_next_beat_ends_as_if_nothing_had_happened(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    killed, different = Killed(tmp_path, case).differ(beat, every(case.apart))
    assert killed and not different


def test_a_cancelled_run_is_cancelled_after_a_kill(tmp_path: Path) -> None:
    def cancelled(make: Make) -> None:
        sent(make)
        beat(make())
        make().tell(make().runs()[0].run, "cancel", by=TERMINAL)

    def resume(fractal: Fractal) -> None:
        asyncio.run(fractal.resume(fractal.runs()[0].run))
        beat(fractal)

    case = Case(cancelled, planning, passes, REVIEWED)
    killed, different = Killed(tmp_path, case).differ(resume, every(30))
    assert killed and not different
