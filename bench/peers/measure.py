"""Measures the job with each framework, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import Ended, Figures, in_small_process, markdown, medians
from bench.job import TASK, write_files
from bench.peers.server import Reply, Scripted

STEPS = 10
HERE = Path(__file__).parent
READS: Sequence[tuple[str, Mapping[str, Any]]] = [("read", {"path": f"{n}.txt"}) for n in range(1, STEPS + 1)]
PLAIN: Sequence[Reply] = [*READS, "read all"]
"""What every peer is told: a tool call a turn, then the answer."""
PLAN: Mapping[str, Any] = {
    "task": TASK,
    "approach": "read each",
    "confidence": "high",
    "success": [{"judge": "the answer says what they hold"}],
}
ACCEPT = json.dumps({"validation": "pass", "decision": "ACCEPT", "output": "read all"})
PLANNED: Sequence[Reply] = [
    json.dumps({**PLAN, "steps": [{"tool": name, "args": args} for name, args in READS]}),
    ACCEPT,
]
TURNS: Sequence[Reply] = [
    *(json.dumps({"calls": [{"tool": name, "args": args}]}) for name, args in READS),
    json.dumps({"done": "read all"}),
]


@dataclass(frozen=True)
class System:
    """A framework: what pip installs, and the command of the job in its environment."""

    packages: tuple[str, ...]
    script: Sequence[Reply]
    job: str = ""  # a file below `jobs`; "": fractal itself

    def command(self, python: Path, url: str) -> tuple[list[str], dict[str, str]]:
        """The command, and the variables of its environment."""
        if self.job:
            return [str(python), str(HERE / "jobs" / self.job), url, TASK], {}
        settings = {"FRACTAL_MODEL": "openai/bench", "FRACTAL_API_BASE": url}
        return [str(python), "-m", "fractal", "run", "-q", TASK], settings


ROOT = str(HERE.parent.parent)
SYSTEMS: Mapping[str, System] = {
    "Fractal, planned at once": System((ROOT,), PLANNED),
    "Fractal, turn by turn": System((ROOT,), TURNS),
    "pydantic-ai": System(("pydantic-ai-slim[openai]==2.68.0",), PLAIN, "with_pydantic_ai.py"),
    "langgraph": System(
        ("langgraph==1.2.24", "langchain-openai==1.7.4", "langgraph-checkpoint-sqlite"),
        PLAIN,
        "with_langgraph.py",
    ),
    "openai-agents": System(("openai-agents==0.24.0",), PLAIN, "with_openai_agents.py"),
}


def measure(times: int = 5, envs: Path | None = None) -> dict[str, Any]:
    """CPU, wall time and peak memory of each system's process: medians, the first run left out."""
    with tempfile.TemporaryDirectory() as scratch, Scripted().running() as server:
        pythons = {name: _environment(envs or Path(scratch), each) for name, each in SYSTEMS.items()}
        rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in SYSTEMS}
        calls: dict[str, int] = {}
        for _ in range(times + 1):  # in turn, so that a busy moment of the machine meets all of them
            for number, (name, system) in enumerate(SYSTEMS.items()):
                url = server.play(str(number), system.script)
                ended = run_once(system, pythons[name], url)
                rows[name].append((ended.cpu, ended.wall, ended.mb))
                calls[name] = server.requests[str(number)]
    figures = {name: medians(row[1:]) for name, row in rows.items()}
    return {
        name: {"cpu_s": round(cpu, 2), "wall_s": round(wall, 2), "rss_mb": round(mb), "calls": calls[name]}
        for name, (cpu, wall, mb) in figures.items()
    }


def _environment(folder: Path, system: System) -> Path:
    """The interpreter of a virtual environment with the packages of a system; it is made once."""
    own = folder / (Path(system.job).stem or "fractal")
    if not (own / "installed").exists():
        venv.create(own, with_pip=True)
        install = [own / "bin" / "python", "-m", "pip", "install", "-q", *system.packages]
        subprocess.run(install, check=True)
        (own / "installed").touch()
    return own / "bin" / "python"


def run_once(system: System, python: Path, url: str) -> Ended:
    """Do the job once in a new folder. Raises `RuntimeError` if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), STEPS)
        command, variables = system.command(python, url)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("FRACTAL_", "PYTHON"))
        }
        ended = in_small_process(command, Path(folder), kept | variables)
    if ended.code:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {ended.code}")
    return ended


def missed(figures: Figures) -> list[str]:
    """The goals that are missed: less CPU and memory than every peer."""
    own = {name: row for name, row in figures.items() if name.startswith("Fractal")}
    peers = [row for name, row in figures.items() if name not in own]
    return [
        f"{name}: {key} {row[key]}, the best peer has {best}"
        for name, row in own.items()
        for key in ("cpu_s", "rss_mb")
        if row[key] >= (best := min(each[key] for each in peers))
    ]


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["ten reads and an answer", "CPU s", "wall s", "MB", "model calls"]
    return markdown(heads, [[name, *row.values()] for name, row in figures.items()])
