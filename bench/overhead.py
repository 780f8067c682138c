"""What the runtime itself costs: instruction tokens, model calls, CPU, bytes, start-up time, memory.

The job is the one that other runtimes were measured with: read ten files, then answer. The model is scripted
and answers at once inside this process, so that only the runtime is measured.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import Figures, bytes_written, cost, in_small_process, markdown, medians, tokenizer
from bench.job import SHAPES, TASK, answers, write_files
from kernel.asking import native
from kernel.asking.conversation import Sources, conversation
from kernel.asking.messages import sent, text_of
from kernel.asking.prompt import FORM, Prompt
from kernel.asking.responder import Ask, Ladder
from kernel.events import Event, Listener, silent
from runtime.api.fractal import Fractal, shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted

SIZES, QUICK_SIZES = (10, 50, 500), (10, 200)
SHORT = 50
"""Jobs of up to so many steps are repeated three times as often, except in a quick measurement."""


class Counting(Scripted):
    """A scripted model that counts its prompts with the tokenizer of the benchmark."""

    def __init__(self, answer: Callable[[Ask], Any], count: Callable[[str], int]) -> None:
        super().__init__(answer, name="bench")
        self._count = count

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return self._count(text)


def measure(
    quick: bool = False, halves: Mapping[str, int] | None = None, sizes: Sequence[int] = ()
) -> dict[str, Any]:
    """All figures. `sizes` are the steps of its jobs, `halves` those by shape; else they are the most."""
    sizes, times = (sizes or QUICK_SIZES, 1) if quick else (SIZES, 3)
    count, name = tokenizer()
    instructions, index, schemas, upfront = _instructions(count)
    planned, stepwise = (_job(10, shape, count) for shape in ("planned", "asked"))
    plain = {n: _cost(n, times, fsync=True) for n in sizes}
    remembered = {n: _cost(n, times, fsync=True, remember=True) for n in sizes}
    unsynced = _cost(50, times, fsync=False)
    return {
        "tokenizer": name,
        "instruction_tokens": instructions,
        "tool_index_tokens": index,
        "schema_tokens": schemas,
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
        "shapes": {shape: _halves(shape, (halves or {}).get(shape, sizes[-1]), times) for shape in SHAPES},
        "remembering": _remembering(2 if quick else 10),
        "hello": _hello(2 * times),
    }


def _instructions(count: Callable[[str], int]) -> tuple[dict[str, int], int, int, int]:
    """Tokens of the instructions by phase, of a turn's index and schemas, and of all in one prompt.

    The instructions of a turn are its base and its phase. Schemas are counted as bytes / 4, as providers put
    them into a form of their own.
    """
    catalogue = Catalogue([shipped_system()])
    names = ("base.md", "check.md", "check.reply.md")
    base, check, form = (catalogue.text(f"phases/{name}") for name in names)
    judge = count("\n\n".join([base, check, FORM + form]))
    do = count(catalogue.text("phases/do.md"))
    turn = _turn(count)
    parts = dict(turn.parts)
    by_phase = {"turn": parts["base"] + parts["phase"], "do": parts["base"] + do, "check": judge}
    schemas = _schemas(turn.tools)
    every = by_phase["turn"] + do + judge + parts["tools"] + schemas
    return by_phase, parts["tools"], schemas, every


def _schemas(tools: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(native.rendered(tool).encode()) // 4 for tool in tools)


def _turn(count: Callable[[str], int]) -> Prompt:
    """The conversation of the job's first turn."""
    model = Counting(answers(2), count)
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), 2)
        _play(model, Path(folder))
    catalogue = Catalogue([shipped_system()])

    def nothing(name: object) -> str:
        return ""

    sources = Sources(catalogue, count, nothing, nothing, nothing, model.window)
    return conversation(model.asks[0].document, sources)


def _play(
    model: Scripted,
    folder: Path,
    listener: Listener = silent,
    *,
    fsync: bool = True,
    remember: bool = False,
    recall: bool = True,
) -> None:
    settings = {"fsync": fsync, "sandbox": "off", "tokens": 10**9, "calls": 10**6}
    settings |= {"remember": remember, "recall": recall, "check": "always"}
    fractal = Fractal(folder, settings=settings, ladder=Ladder((model,)), on_event=listener)
    result = asyncio.run(fractal.run(TASK))
    fractal.brain.close()
    if result.exit != 0:
        raise RuntimeError(f"the job failed: {result.status} {result.reason or result.question}")


def _job(n: int, shape: str, count: Callable[[str], int]) -> dict[str, int]:
    model = Counting(answers(n, shape), count)
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), n)
        _play(model, Path(folder))
    texts = sum(sum(count(text_of(each)) for each in sent(ask)) for ask in model.asks)
    prompts = texts + sum(_schemas(ask.tools) for ask in model.asks)
    first = _turn(count)
    turn = sum(dict(first.parts)[part] for part in ("base", "phase", "tools")) + _schemas(first.tools)
    do = dict(first.parts)["base"] + count(Catalogue([shipped_system()]).text("phases/do.md"))
    of = {"turn": turn, "do": do, "check": 0}
    judged = sum(count(ask.system) for ask in model.asks if ask.part == "check")
    bound = sum(_schemas(ask.tools) for ask in model.asks if ask.part == "do")
    instructions = sum(of[ask.part] for ask in model.asks) + judged + bound
    return {"calls": len(model.asks), "prompt_tokens": prompts, "work_tokens": prompts - instructions}


def _cost(n: int, times: int, *, fsync: bool, remember: bool = False) -> dict[str, float]:
    """CPU, wall time and bytes per step of a job that is planned at once; medians of whole runs.

    With `remember`, the store exists before the measured run, as it does from the second run on.
    """
    runs: list[tuple[float, float, float]] = []
    for _ in range(3 * times if n <= SHORT and times > 1 else times):
        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder), max(n, 2))
            if remember:
                _play(Scripted(answers(2)), Path(folder), fsync=fsync, remember=True)
            with cost() as spent:
                _play(Scripted(answers(n)), Path(folder), fsync=fsync, remember=remember)
            runs.append((spent.cpu, spent.wall, spent.bytes))
    cpu, wall, written = medians(runs)
    return {
        "cpu_ms": round(cpu * 1000 / n, 2),
        "wall_ms": round(wall * 1000 / n, 2),
        "bytes": round(written / n),
    }


def _remembering(runs: int) -> dict[str, float]:
    """What a run costs in CPU and bytes to remember its lesson and decision in an existing store; medians.

    Nothing is recalled: a known task would be answered without the model that plays here.
    """
    costs: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), 10)
        _play(Scripted(answers(10)), Path(folder), remember=True)
        for number in range(runs):
            remember = number % 2 == 0
            with cost() as spent:
                _play(Scripted(answers(10)), Path(folder), remember=remember, recall=False)
            costs[remember].append((spent.cpu, spent.bytes))
    with_, without = medians(costs[True]), medians(costs[False])
    return {"cpu_ms": round((with_[0] - without[0]) * 1000, 1), "bytes": round(with_[1] - without[1])}


def _halves(shape: str, steps: int, times: int) -> dict[str, list[float]]:
    """CPU and bytes per step in the first and in the second half of a long run; medians."""
    runs: list[list[float]] = []
    for _ in range(times):
        marks: list[tuple[float, int]] = []

        def mark(event: Event, marks: list[tuple[float, int]] = marks) -> None:
            if event.kind == "step_finished" and event.data["tool"] == "read":
                marks.append((time.process_time(), bytes_written()))

        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder), steps)
            _play(Scripted(answers(steps, shape)), Path(folder), mark)
        first, middle, last = marks[0], marks[len(marks) // 2], marks[-1]
        halves = (first, middle), (middle, last)
        runs.append([(end[of] - begin[of]) / (steps / 2) for of in (0, 1) for begin, end in halves])
    cpu_1, cpu_2, bytes_1, bytes_2 = medians(runs)
    return {
        "cpu_ms_per_step": [round(cpu_1 * 1000, 2), round(cpu_2 * 1000, 2)],
        "bytes_per_step": [round(bytes_1), round(bytes_2)],
    }


_LIBRARIES = "import asyncio, click, yaml; from pydantic import BaseModel, Field, field_validator"


def _hello(times: int) -> dict[str, float]:
    """Wall time and peak memory of a process that does a small task; medians, the first left out.

    Beside it, in turn, a process that only imports the libraries which it needs: the speed of the machine.
    """
    hello = [sys.executable, "-m", "runtime.cli", "run", "--model", "reflex", "what is 2 + 2"]
    libraries = [sys.executable, "-c", _LIBRARIES]
    runs: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(times):
            ended, imported = (in_small_process(each, Path(folder)) for each in (hello, libraries))
            if ended.code or imported.code:
                raise RuntimeError(f"the hello run ended with exit code {ended.code or imported.code}")
            runs.append((ended.wall, imported.wall, ended.mb))
    wall, alone, peak = medians(runs[1:])
    return {"wall_s": round(wall, 3), "libraries_s": round(alone, 3), "rss_mb": round(peak, 1)}


BY_SIZE = (
    "cpu_ms_per_step",
    "bytes_per_step",
    "cpu_ms_per_step_remembering",
    "bytes_per_step_remembering",
)
GOALS: Mapping[str, str] = {
    "instruction tokens of a turn: base and phase": "≤ 150",
    "its index of tools": "≤ 150",
    "its declared schemas, as bytes / 4": "≤ 350",
    "instruction tokens, the most of any other phase": "≤ 250",
    "ten steps planned at once: calls": "2–3",
    "ten steps planned at once: prompt tokens": "≤ 3,000",
    "ten steps asked one by one, each with the results before it: prompt tokens": "≤ 10,000",
    "CPU ms a step at 10 · 50 · 500": "≤ 3",
    "bytes written a step at 10 · 50 · 500": "≤ 6,000",
    "CPU ms a step, steps 1–250 · 251–500: planned, asked, side by side, children": "flat",
    "CPU ms; bytes a step with what is remembered, at 10 · 50 · 500": "once a run",
    "remembering a run: CPU ms · bytes": "once a run",
    "hello: seconds": "≤ 3.5 × its libraries",
    "hello: MB": "≤ 60",
}


def table(figures: Figures) -> str:
    """The figures beside their goals, as markdown."""
    (planned, stepwise), upfront = figures["job"].values(), figures["job_with_all_instructions_up_front"]
    by_size = {key: " · ".join(f"{each:,}" for each in figures[key].values()) for key in BY_SIZE}
    values = [
        figures["instruction_tokens"]["turn"],
        figures["tool_index_tokens"],
        figures["schema_tokens"],
        max(figures["instruction_tokens"][phase] for phase in ("do", "check")),
        planned["calls"],
        f"{planned['prompt_tokens']:,} (all instructions up front: {upfront['planned']['prompt_tokens']:,})",
        f"{stepwise['prompt_tokens']:,} in {stepwise['calls']} calls "
        f"(all instructions up front: {upfront['stepwise']['prompt_tokens']:,})",
        by_size["cpu_ms_per_step"],
        by_size["bytes_per_step"],
        ", ".join(" · ".join(map(str, each["cpu_ms_per_step"])) for each in figures["shapes"].values()),
        f"{by_size['cpu_ms_per_step_remembering']}; {by_size['bytes_per_step_remembering']}",
        f"{figures['remembering']['cpu_ms']} · {figures['remembering']['bytes']:,}",
        f"{figures['hello']['wall_s']} (libraries alone: {figures['hello']['libraries_s']})",
        figures["hello"]["rss_mb"],
    ]
    pairs = zip(GOALS.items(), values, strict=True)
    return markdown(["figure", "goal", "here"], [[*goal, value] for goal, value in pairs], left=3)
