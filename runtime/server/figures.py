"""Eleven figures in the format of Prometheus.

They are read from the workspace, so that what other processes do counts and a restart loses nothing. Only the
seconds of phases are those of this process, because no document has them. A run that has ended is read once.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from kernel.document.frontmatter import head
from kernel.document.model import ENDED, root_id
from kernel.errors import FractalError
from kernel.events import Event
from runtime.api.brain_report import shelf_or_empty
from runtime.api.fractal import Fractal
from runtime.memory.tasks.decisions import PATHS
from runtime.memory.tasks.ledger import STAGES
from runtime.memory.tasks.methods import Method
from runtime.memory.tasks.snapshots import problems
from runtime.nervous.lifeforce import Lifeforce
from runtime.reflexes.dreaming import KIND as DREAM
from runtime.workspace.archive import figures_of_archived

BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
"""Seconds of a phase: from code that fills it in to a long DO."""
RESUMABLE = "exhausted"
"""The status of an ended run that may still go on."""


class Figures:
    """The figures of one workspace. Any thread may ask for them."""

    def __init__(self, fractal: Fractal) -> None:
        self.fractal = fractal
        self._finished: Counter[str] = Counter()  # of all runs that do not go on
        self._seen: set[str] = set()  # their ids
        self._unfinished: dict[str, tuple[tuple[int, int], Counter[str]]] = {}  # version of the file, counts
        self._archived = 0  # bytes of the list of archived runs that are read
        self._lock = Lock()
        self._open: dict[str, tuple[str, str, float]] = {}  # by loop: its run, its phase, since when
        self._registry = CollectorRegistry()
        self._phases = Histogram(
            "fractal_phase_seconds",
            "Seconds of phases that this process worked on",
            ["phase"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._registry.register(self)

    def text(self) -> bytes:
        """All figures. The first call reads every run's head."""
        with self._lock:
            return generate_latest(self._registry)

    def hear(self, event: Event) -> None:
        """Take the seconds of phases from the events of this process's runs."""
        now = time.monotonic()
        loop, (_, phase, since) = event.loop_id, self._open.get(event.loop_id, ("", "", now))
        begun = event.data["phase"] if event.kind == "phase_started" else ""
        other = event.kind == "phase_finished" and event.data["phase"] != phase  # within a turn of `phase`
        if begun != phase and event.kind in _ENDS and not other and self._open.pop(loop, None):
            self._phases.labels(phase).observe(now - since)
        if begun:
            self._open.setdefault(loop, (event.run, begun, now))
        if event.kind == "run_finished":  # an interrupted phase counts for nothing
            self._open = {loop: each for loop, each in self._open.items() if each[0] != event.run}

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering a collector must not read the workspace."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The figures of the workspace."""
        yield from self._of_runs()
        with suppress(FractalError):  # a store that is away, or not trusted, leaves the other figures
            yield from self._of_memory()
        yield self._lifeforce()

    def _of_runs(self) -> Iterator[Metric]:
        self._read_archived()
        self._read_runs()
        total = Counter(self._finished)
        for _, counted in self._unfinished.values():
            total.update(counted)
        runs = CounterMetricFamily("fractal_runs", "Runs that have ended, by status", labels=["status"])
        for status in sorted(ENDED):
            runs.add_metric([status], total[status])
        yield runs
        yield CounterMetricFamily("fractal_calls", "Calls of models", value=total["calls"])
        tokens = CounterMetricFamily("fractal_tokens", "Tokens of models", labels=["type"])
        tokens.add_metric(["input"], total["prompt_tokens"])
        tokens.add_metric(["output"], total["completion_tokens"])
        yield tokens
        yield CounterMetricFamily("fractal_cost_usd", "Cost of calls with a known price", value=total["usd"])
        yield SummaryMetricFamily(
            "fractal_dream_seconds", "Seconds of dreams", total["dreams"], total["dream_seconds"]
        )

    def _read_runs(self) -> None:
        folder = self.fractal.workspace.runs
        for name in os.listdir(folder) if folder.is_dir() else ():  # noqa: PTH208 (thousands of them)
            if name in self._seen:
                continue
            with suppress(OSError, FractalError, *_BROKEN):  # no run, or archived meanwhile
                path = folder / name / f"{root_id(name)}.md"
                seen = path.stat()
                version = (seen.st_mtime_ns, seen.st_size)
                before, was = self._unfinished.get(name, (None, Counter()))
                if before != version:
                    self._take(name, version, was, _meta(path))

    def _read_archived(self) -> None:
        found, self._archived = figures_of_archived(self.fractal.workspace.state, self._archived)
        for each in found:
            with suppress(*_BROKEN):
                if each["run"] not in self._seen:
                    self._take(each["run"], (0, 0), Counter(), each)

    def _take(
        self, run: str, version: tuple[int, int], was: Mapping[str, float], meta: Mapping[str, Any]
    ) -> None:
        """Count a run as its META is now; `was` is how it counted before."""
        status, spent = meta["status"], meta.get("spent", {})
        counted: Counter[str] = Counter({name: float(spent.get(name) or 0) for name in _SPENT})
        if status in ENDED:
            counted[status] = 1
            if meta.get("type") == DREAM:
                counted.update({"dreams": 1, "dream_seconds": float(spent.get("seconds", 0))})
        if was.get(RESUMABLE) and status != RESUMABLE:  # it goes on; that it was exhausted stays counted
            self._finished[RESUMABLE] += 1
        self._unfinished.pop(run, None)
        if status in ENDED - {RESUMABLE}:
            self._seen.add(run)
            self._finished.update(counted)
        else:
            self._unfinished[run] = (version, counted)

    def _of_memory(self) -> Iterator[Metric]:
        with shelf_or_empty(self.fractal) as shelf:
            met = problems(shelf)
            stages = Counter(each.stage for each in shelf.scan(Method))
        recalled = CounterMetricFamily("fractal_recall", "Problems, by how they were met", labels=["type"])
        for path in PATHS:
            recalled.add_metric([path], met.paths.get(path, 0))
        yield recalled
        rate = met.recognised or 0.0
        yield GaugeMetricFamily("fractal_recognition_ratio", "Share of problems of a known type", value=rate)
        methods = GaugeMetricFamily("fractal_methods", "Learned methods, by stage", labels=["stage"])
        for stage in STAGES:
            methods.add_metric([stage], stages[stage])
        yield methods
        yield SummaryMetricFamily(
            "fractal_surprise", "Surprise: |predicted - outcome|", met.surprises, met.surprise
        )

    def _lifeforce(self) -> Metric:
        """What each agent has left, where it is counted."""
        config, workspace = self.fractal.config, self.fractal.workspace
        left = GaugeMetricFamily("fractal_lifeforce", "Lifeforce that is left, by agent", labels=["agent"])
        files = (workspace.state / "lifeforce").glob("*.json")
        for agent in sorted({config.agent, *(path.stem for path in files)}):
            with suppress(FractalError):
                if pool := config.pool_of(agent):
                    left.add_metric([agent], Lifeforce(workspace, agent, pool).level().free)
        return left


def _meta(path: Path) -> dict[str, Any]:
    """What is counted of META, without a check of the rest. Raises `DocumentError` and `_BROKEN`."""
    found: dict[str, Any] = {}
    for line in head(path)[1:]:
        if line.startswith("---"):
            break
        key, _, value = line.partition(": ")
        if key in ("status", "type", "spent", "unverified"):
            found[key] = json.loads(value)
    if found["status"] == "complete" and found.get("unverified"):
        found["status"] = "unverified"
    return found


_BROKEN = (AttributeError, KeyError, TypeError, ValueError)
"""What figures raise that a person has edited into something else."""
_ENDS = ("phase_started", "phase_finished", "loop_waiting", "loop_finished")
_SPENT = ("calls", "prompt_tokens", "completion_tokens", "usd")
