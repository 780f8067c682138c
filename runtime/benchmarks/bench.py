"""A bench run: each problem is a run of Fractal in a fresh folder, with one memory over all of them.

The log says before each run which one it is, so that a bench run that was killed resumes that run, and does
no problem twice.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.model import ACCEPTED, ENDED
from kernel.errors import UsageError
from kernel.events import now
from runtime.api import dreaming
from runtime.api.fractal import Fractal, RunResult
from runtime.benchmarks import answers
from runtime.benchmarks.log import BenchLog, Line, results, shares
from runtime.benchmarks.problem import Problem
from runtime.benchmarks.suites import load
from runtime.memory.tasks.snapshots import KINDS
from runtime.reflexes.dreaming import KIND as DREAM
from runtime.reflexes.dreaming import Order
from runtime.sandbox.sandbox import Sandbox

FOLDER = "benchmarks"
"""In `state/`: a log for each bench run, and a folder for its memory unless it uses another one."""
TEST_SECONDS = 120.0
"""Of the command that tests a problem."""
LONGEST = 500
"""Characters of an answer in the log."""
ALONE: Mapping[str, Any] = {"instructions": (), "skill_folders": (), "user_skills": ()}
"""Settings of each run: what lies around its folder takes no part."""
OF_FOLDER = frozenset({"store", "space", "agent", "agents", "approved", "skills", *ALONE})
"""Settings that the folder of the memory has itself; the others are those of the workspace."""


@dataclass(frozen=True)
class Plan:
    """What to run. `brain` is the folder with the memory, "" for a new one; `every` counts problems."""

    suite: str
    limit: int | None = None
    seed: int = 1
    every: int = 50
    dream: bool = False
    feedback: bool = True
    data: str = ""
    brain: str = ""
    model: str | None = None
    job: str = ""  # of a server's queue

    def load(self) -> list[Problem]:
        """The problems. Raises `UsageError`."""
        return load(self.suite, Path(self.data) if self.data else None, self.limit, self.seed)


def folder_of(fractal: Fractal) -> Path:
    """Where the logs of a workspace are."""
    return fractal.workspace.state / FOLDER


@dataclass
class Bench:
    """One bench run, new or resumed. `fractal` is the workspace that it is started from."""

    fractal: Fractal
    log: BenchLog
    plan: Plan
    heard: Callable[[Bench], object] = lambda _bench: None  # after each problem
    lines: list[Line] = field(default_factory=list[Line])
    problems: list[Problem] = field(default_factory=list[Problem])

    @staticmethod
    def start(fractal: Fractal, plan: Plan) -> Bench:
        """A new bench run; raises for a wrong suite or setting before anything is written."""
        if plan.brain and not Path(plan.brain).is_dir() and Path(plan.brain).exists():
            raise UsageError(f"--brain {plan.brain}: it is a file; give a folder, which is made if missing")
        plan.load()
        _ = fractal.ladder  # what the folder asks for is trusted, and the model is known
        header = {**vars(plan), "model": plan.model or fractal.config.model}
        return Bench.resume(fractal, BenchLog.create(folder_of(fractal), header).id)

    @staticmethod
    def resume(fractal: Fractal, id: str) -> Bench:
        """A bench run that goes on where its log ends."""
        log = BenchLog.find(folder_of(fractal), id)
        header = log.lines()[0]
        known = {name: header[name] for name in Plan.__dataclass_fields__ if name in header}
        return Bench(fractal, log, Plan(**known))

    @property
    def brain(self) -> Path:
        """The folder with the memory and the runs."""
        return brain_of(self.log, {"brain": self.plan.brain})

    @property
    def done(self) -> list[Line]:
        """The problems that are done."""
        return results(self.lines)

    async def play(self) -> None:
        """Do what is left. Cancelling saves; `RunLocked` if another process is at it."""
        plan = self.plan
        with self.log.held():
            self.lines = self.log.lines()
            self.problems = plan.load()
            await self._consolidate()
            done = {each["problem"] for each in self.done}
            for problem in self.problems:
                if problem.id in done:
                    continue
                await self._solve(problem)
                self.heard(self)
                await self._consolidate()
            if not any("finished" in each for each in self.lines):
                self._note({"finished": now()})

    def _note(self, line: Line) -> None:
        self.log.append(line)
        self.lines.append(line)

    @cached_property
    def opened(self) -> Fractal:
        """The brain's workspace."""
        state = self.brain / ".fractal" / "state"
        with disk.writing_state(state):
            state.mkdir(parents=True, exist_ok=True)
        return Fractal(self.brain, settings=self._settings())

    def _in(self, folder: Path) -> Fractal:
        """The same, acting in a folder; memory and the responders are loaded once."""
        fractal = Fractal(folder, settings=self._settings(), ladder=self.opened.ladder)
        fractal.__dict__["memory"] = self.opened.memory
        return fractal

    def _settings(self) -> dict[str, Any]:
        outer = self.fractal
        given = [name for name, where in outer.sources.items() if where != "default"]
        own = {name: getattr(outer.config, name) for name in given if name not in OF_FOLDER}
        settings = {**own, "snapshot_every": self.plan.every, **ALONE}
        return settings | ({"model": self.plan.model, "ladder": None} if self.plan.model else {})

    async def _solve(self, problem: Problem) -> None:
        started = [
            each["started"] for each in self.lines if "started" in each and each["problem"] == problem.id
        ]
        run = started[-1] if started else self.opened.workspace.new_run()
        folder = self.brain / "problems" / run
        if not started:
            problem.lay_out(folder)
            self._note({"started": run, "problem": problem.id})
        fractal = self._in(folder)
        began = time.monotonic()
        result = await _run(fractal, problem, run)
        right, why = await _judged(fractal, problem, folder, result)
        if self.plan.feedback and result.status in ENDED:
            fractal.feedback(run, right)
        spent = result.spent
        self._note(
            {
                "n": len(self.done) + 1,
                "problem": problem.id,
                "family": problem.family,
                "run": run,
                "status": result.status,
                "right": right,
                "answer": result.output[-LONGEST:] if result.status in ACCEPTED else "",
                "expected": problem.answer or problem.test,
                "why": why,
                "calls": spent.get("calls", 0),
                "tokens": spent.get("prompt_tokens", 0) + spent.get("completion_tokens", 0),
                "usd": spent.get("usd") or 0.0,
                "seconds": round(spent.get("seconds") or time.monotonic() - began, 3),
            }
        )

    async def _consolidate(self) -> None:
        """The snapshot that is due, and the dream after it."""
        n, every = len(self.done), self.plan.every
        if not n or not every or (n % every and n < len(self.problems)):
            return
        shots = [each for each in self.lines if "snapshot" in each]
        if not shots or shots[-1]["snapshot"] < n:
            since = shots[-1]["snapshot"] if shots else 0
            self._note({"snapshot": n, "at": now(), **shares(self.done[since:]), "sizes": self.sizes()})
            shots = [self.lines[-1]]
        if self.plan.dream and not any(each.get("dreamt_after") == n for each in self.lines):
            self._note({"dream": await self._dreamt(str(shots[-1]["at"])), "dreamt_after": n})

    async def _dreamt(self, since: str) -> str:
        """The dream after a snapshot, which may have begun before the process was killed."""
        fractal = self.opened
        dreams = [each for each in fractal.runs() if each.type == DREAM and each.created >= since]
        if not dreams:
            return (await dreaming.dream(fractal, Order())).run
        if dreams[0].status not in ENDED:
            await dreaming.resume(fractal, dreams[0].run)
        return dreams[0].run

    def sizes(self) -> dict[str, int]:
        """What memory holds, by kind."""
        memory = self.opened.memory
        kinds = memory.brain.shelf.kinds() if memory.there else {}
        return {name: kinds.get(kind, 0) for name, kind in KINDS.items()}

    def heartbeat(self, status: str) -> dict[str, Any]:
        """What a server is told: progress, memory, and what this process takes of the machine."""
        figures = shares(self.done)
        return {
            "status": status,
            "bench": self.log.id,
            "suite": self.plan.suite,
            "model": self.plan.model or "",
            "done": figures["problems"],
            "total": len(self.problems),
            "accuracy": figures["accuracy"],
            "without_model": figures["without_model"],
            "topology": self.sizes(),
            **machine(),
        }


def machine() -> dict[str, float]:
    """CPU seconds of this process, and its largest memory in MB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_seconds": round(used.ru_utime + used.ru_stime, 2), "memory_mb": round(used.ru_maxrss / 1024)}


def brain_of(log: BenchLog, header: Line) -> Path:
    """The folder with the memory of a bench run."""
    return Path(header["brain"]) if header["brain"] else log.path.with_suffix("")


async def _run(fractal: Fractal, problem: Problem, run: str) -> RunResult:
    if not fractal.workspace.has(run):
        return await fractal.run(problem.task, id=run)
    if fractal.root_document(run).ended:
        return await fractal.conclude(run)
    return await fractal.resume(run, assume="rerun")


async def _judged(fractal: Fractal, problem: Problem, folder: Path, result: RunResult) -> tuple[bool, str]:
    """Whether a problem is solved, and why not."""
    if problem.answer:
        right = result.status in ACCEPTED and answers.is_right(result.output, problem.answer)
        if not (right and problem.test):
            return right, "" if right else result.reason or result.question
    try:
        problem.restore_checks(folder)
    except OSError as error:
        return False, f"{error.filename}: the checks cannot be written: {error.strerror}"
    config = fractal.config
    sandbox = Sandbox(config.sandbox, config.network, config.limits())
    private = fractal.workspace.private
    ran = await sandbox.run(problem.test, folder=folder, timeout=TEST_SECONDS, private=private)
    return ran.exit == 0, "" if ran.exit == 0 else ran.output[-LONGEST:]
