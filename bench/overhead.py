"""What the runtime costs beside the work: tokens of instruction, calls, CPU, bytes, start-up, memory.

The job is the one that peers were measured with: read ten files, then answer. The model is scripted and
answers at once inside this process, so that what is measured is the runtime alone.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import show, tokenizer
from bench.harness import table as markdown
from bench.job import SHAPES, TASK, answers, files, written
from kernel.asking.prompt import INDEX_TOKENS
from kernel.asking.responder import Ask, Ladder
from kernel.events import Event, Listener, silent
from runtime.api.fractal import Fractal, RunResult, shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted

SIZES = (10, 50, 500)
QUICK = (10, 50, 200)
SHORT = 50
"""Steps of a job up to which it is repeated more often: it takes only milliseconds, which is noisy."""
PHASES = ("understand", "plan", "fused", "do", "check", "atomic")


class Counting(Scripted):
    """A scripted model that counts what it is shown with the tokenizer of the bench."""

    def __init__(self, answer: Callable[[Ask], Any], count: Callable[[str], int]) -> None:
        super().__init__(answer, name="bench")
        self._count = count

    def count(self, text: str) -> int:
        """Tokens by the bench's tokenizer."""
        return self._count(text)


def measure(sizes: Sequence[int] = SIZES, times: int = 3) -> dict[str, Any]:
    """All figures; jobs of up to SHORT steps are played three times as often as the others."""
    count, name = tokenizer()
    instructions, index = _instructions(count)
    planned = _job(10, "planned", count)
    stepwise = _job(10, "asked", count)
    plain = {n: _cost(n, times, fsync=True) for n in sizes}
    remembered = {n: _cost(n, times, fsync=True, remember=True) for n in sizes}
    unsynced = _cost(50, times, fsync=False)
    upfront = _upfront(count, index)
    return {
        "tokenizer": name,
        "instruction_tokens": instructions,
        "tool_index_tokens": index,
        "job": {"planned": planned, "stepwise": stepwise},
        "job_with_all_instructions_up_front": {
            shape: {"calls": job["calls"], "prompt_tokens": job["work_tokens"] + upfront * job["calls"]}
            for shape, job in (("planned", planned), ("stepwise", stepwise))
        },
        "cpu_ms_per_step": {str(n): each["cpu_ms"] for n, each in plain.items()},
        "cpu_ms_per_step_remembering": {str(n): each["cpu_ms"] for n, each in remembered.items()},
        "wall_ms_per_step": {str(n): each["wall_ms"] for n, each in plain.items()},
        "wall_ms_per_step_without_fsync": unsynced["wall_ms"],
        "bytes_per_step": {str(n): each["bytes"] for n, each in plain.items()},
        "bytes_per_step_remembering": {str(n): each["bytes"] for n, each in remembered.items()},
        "shapes": {shape: _halves(shape, sizes[-1], times) for shape in SHAPES},
        "remembering": _remembering(),
        "hello": _hello(2 * times),
    }


def _instructions(count: Callable[[str], int]) -> tuple[dict[str, int], int]:
    """Base, phase and form of the reply, by phase; and the index of tools that PLAN sees beside."""
    catalogue = Catalogue([shipped_system()])
    base = catalogue.text("phases/base.md")
    tokens = {
        phase: count("\n\n".join([base, catalogue.text(f"phases/{phase}.md"), _form(catalogue, phase)]))
        for phase in PHASES
    }
    index = catalogue.index("read ten files and say what they hold", INDEX_TOKENS, count)
    return tokens, count(index)


def _form(catalogue: Catalogue, phase: str) -> str:
    return "Reply: " + catalogue.text(f"phases/{phase}.reply.md")


def _upfront(count: Callable[[str], int], index: int) -> int:
    """A system prompt that carries all phases at once, as most runtimes do."""
    catalogue = Catalogue([shipped_system()])
    texts = [catalogue.text("phases/base.md")]
    for phase in ("understand", "plan", "do", "check"):
        texts += [catalogue.text(f"phases/{phase}.md"), _form(catalogue, phase)]
    return count("\n\n".join(texts)) + index


def _play(
    model: Scripted,
    folder: Path,
    listener: Listener = silent,
    *,
    fsync: bool = True,
    remember: bool = False,
    recall: bool = True,
) -> RunResult:
    settings = {"fsync": fsync, "sandbox": "off", "tokens": 10**9, "calls": 10**6}
    settings |= {"remember": remember, "recall": recall}
    fractal = Fractal(folder, settings=settings, ladder=Ladder((model,)), on_event=listener)
    result = asyncio.run(fractal.run(TASK))
    fractal.brain.close()
    if result.exit != 0:
        why = result.reason or result.question
        raise RuntimeError(f"the job of the bench did not end well: {result.status} {why}")
    return result


def _job(n: int, shape: str, count: Callable[[str], int]) -> dict[str, int]:
    model = Counting(answers(n, shape), count)
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder), n)
        _play(model, Path(folder))
    system = sum(count(ask.system) for ask in model.asks)
    work = sum(count(ask.user) for ask in model.asks)
    return {"calls": len(model.asks), "prompt_tokens": system + work, "work_tokens": work}


def _cost(n: int, times: int, *, fsync: bool, remember: bool = False) -> dict[str, float]:
    """CPU, wall and bytes a step of a job planned at once, the whole run counted, median of some.

    What is remembered goes into a store that is there already, as it is from the second run on.
    """
    runs: list[tuple[float, float, float]] = []
    for _ in range(times if n > SHORT else 3 * times):
        with tempfile.TemporaryDirectory() as folder:
            files(Path(folder), max(n, 2))
            if remember:
                _play(Scripted(answers(2)), Path(folder), fsync=fsync, remember=True)
            before, cpu, wall = written(), time.process_time(), time.perf_counter()
            _play(Scripted(answers(n)), Path(folder), fsync=fsync, remember=remember)
            runs.append((time.process_time() - cpu, time.perf_counter() - wall, written() - before))
    cpu, wall, bytes_ = (statistics.median(each) for each in zip(*runs, strict=True))
    return {
        "cpu_ms": round(cpu * 1000 / n, 2),
        "wall_ms": round(wall * 1000 / n, 2),
        "bytes": round(bytes_ / n),
    }


def _remembering() -> dict[str, float]:
    """What keeping a run's lesson and decision costs once the store is there: CPU and bytes a run, median.

    Nothing is recalled: a task that is known would be answered without the model that plays here.
    """
    costs: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder), 10)
        _play(Scripted(answers(10)), Path(folder), remember=True)
        for number in range(10):
            before, cpu = written(), time.process_time()
            _play(Scripted(answers(10)), Path(folder), remember=number % 2 == 0, recall=False)
            costs[number % 2 == 0].append((time.process_time() - cpu, written() - before))
    with_, without = (
        [statistics.median(each) for each in zip(*costs[on], strict=True)] for on in (True, False)
    )
    return {"cpu_ms": round((with_[0] - without[0]) * 1000, 1), "bytes": round(with_[1] - without[1])}


def _halves(shape: str, steps: int, times: int) -> dict[str, list[float]]:
    """CPU and bytes per step in the first and in the second half of a long run; medians."""
    runs: list[list[float]] = []
    for _ in range(times):
        marks: list[tuple[float, int]] = []

        def mark(event: Event, marks: list[tuple[float, int]] = marks) -> None:
            if event.kind == "step_finished" and event.data["tool"] == "read":
                marks.append((time.process_time(), written()))

        with tempfile.TemporaryDirectory() as folder:
            files(Path(folder), steps)
            _play(Scripted(answers(steps, shape)), Path(folder), mark)
        first, middle, last = marks[0], marks[len(marks) // 2], marks[-1]
        halves = (first, middle), (middle, last)
        runs.append([(end[of] - begin[of]) / (steps / 2) for of in (0, 1) for begin, end in halves])
    cpu_1, cpu_2, bytes_1, bytes_2 = (statistics.median(each) for each in zip(*runs, strict=True))
    return {
        "cpu_ms_per_step": [round(cpu_1 * 1000, 2), round(cpu_2 * 1000, 2)],
        "bytes_per_step": [round(bytes_1), round(bytes_2)],
    }


_TIMED = """
import json, os, sys, time
began = time.perf_counter()
quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), time.perf_counter() - began, usage.ru_maxrss]))
"""
# Linux counts what a process weighed before it became the program, so a small one starts it


def _hello(times: int) -> dict[str, float]:
    """A whole process that does one small task with a reflex: wall seconds and peak memory; medians.

    The first process is not counted.
    """
    walls: list[float] = []
    peaks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        task = ["-C", folder, "run", "--model", "reflex", "what is 2 + 2"]
        command = [sys.executable, "-I", "-S", "-c", _TIMED, sys.executable, "-m", "runtime.cli", *task]
        for _ in range(times):
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
            )
            code, wall, peak = json.loads(ran.stdout)
            if code:
                raise RuntimeError(f"the hello run ended with exit code {code}")
            walls.append(wall)
            peaks.append(peak / 1024)
    return {
        "wall_s": round(statistics.median(walls[1:]), 3),
        "rss_mb": round(statistics.median(peaks[1:]), 1),
    }


BY_SIZE = (
    "cpu_ms_per_step",
    "bytes_per_step",
    "cpu_ms_per_step_remembering",
    "bytes_per_step_remembering",
)
GOALS: Mapping[str, str] = {
    "instruction tokens, the most of any phase": "≤ 250",
    "with PLAN's index of tools": "≤ 400",
    "ten steps planned at once: calls": "2–3",
    "ten steps planned at once: prompt tokens": "≤ 3,000",
    "ten steps asked one by one: prompt tokens": "≤ 6,000",
    "CPU ms a step at 10 · 50 · 500": "≤ 3",
    "bytes written a step at 10 · 50 · 500": "≤ 6,000",
    "CPU ms a step, steps 1–250 · 251–500: planned, asked, side by side, children": "flat",
    "CPU ms; bytes a step with what is remembered, at 10 · 50 · 500": "once a run",
    "remembering a run: CPU ms · bytes": "once a run",
    "hello: seconds": "≤ 0.5",
    "hello: MB": "≤ 60",
}


def table(figures: Mapping[str, Any]) -> str:
    """The figures beside their goals, as markdown."""
    most = max(figures["instruction_tokens"].values())
    plan = max(figures["instruction_tokens"][phase] for phase in ("plan", "fused"))
    job, upfront = figures["job"], figures["job_with_all_instructions_up_front"]
    flat = {key: " · ".join(f"{each:,}" for each in figures[key].values()) for key in BY_SIZE}
    found = [
        str(most),
        str(plan + figures["tool_index_tokens"]),
        str(job["planned"]["calls"]),
        f"{job['planned']['prompt_tokens']:,} "
        f"(all instructions up front: {upfront['planned']['prompt_tokens']:,})",
        f"{job['stepwise']['prompt_tokens']:,} in {job['stepwise']['calls']} calls "
        f"(all instructions up front: {upfront['stepwise']['prompt_tokens']:,})",
        flat["cpu_ms_per_step"],
        flat["bytes_per_step"],
        ", ".join(" · ".join(map(str, each["cpu_ms_per_step"])) for each in figures["shapes"].values()),
        f"{flat['cpu_ms_per_step_remembering']}; {flat['bytes_per_step_remembering']}",
        f"{figures['remembering']['cpu_ms']} · {figures['remembering']['bytes']:,}",
        str(figures["hello"]["wall_s"]),
        str(figures["hello"]["rss_mb"]),
    ]
    pairs = zip(GOALS.items(), found, strict=True)
    return markdown(["figure", "goal", "here"], [[*goal, value] for goal, value in pairs], left=3)


def main(as_json: bool = False, quick: bool = False) -> None:
    """Measure and print."""
    figures = measure(QUICK, 1) if quick else measure()
    show(figures, table(figures), as_json)
