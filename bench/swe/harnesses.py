"""The three harnesses: how each is started on a job, and what its user sees at the end."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.harness import stopped_after
from bench.real.peers import fractal_agent
from bench.swe.job import SweJob
from kernel.document.parser import parse
from kernel.errors import UsageError
from kernel.loop.criteria import Finding, proves
from runtime.workspace.settings import Config

HARNESSES = ("fractal", "mini", "plain")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Ended:
    """What a harness said of a job when it ended."""

    status: str
    """As its user sees it: of Fractal the status of the run."""
    claims: bool
    """Whether it says that the task is done."""
    answer: str
    proof: bool = False
    """Whether a check of the run failed before the work and passes after it."""
    errors: str = ""


@dataclass(frozen=True)
class Setting:
    """What a harness is started with."""

    model: str
    url: str
    """The address of the counting proxy for this job."""
    seconds: float
    window: int | None = None
    mini: Path | None = None
    """The Python of the environment with mini-swe-agent."""

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables of the process: the folder's own `.venv` is active, Fractal's are not passed on."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("FRACTAL_", "PYTHON"))
        }
        own = folder / ".venv"
        if own.exists():
            kept |= {"VIRTUAL_ENV": str(own), "PATH": f"{own / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        local = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        return kept | local | {"OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY") or "none"}


def missing(harness: str, setting: Setting) -> str:
    """Why a harness cannot run here; "" if it can."""
    if harness != "mini":
        return ""
    if setting.mini is None:
        return "mini is skipped: name the Python of an environment with mini-swe-agent by --mini PYTHON"
    ran = stopped_after([str(setting.mini), "-c", "import minisweagent"], Path.cwd(), dict(os.environ), 120)
    return f"mini is skipped: {setting.mini} cannot import minisweagent" if ran.code else ""


def play(harness: str, job: SweJob, task: str, folder: Path, setting: Setting) -> Ended:
    """Do a job in its folder. Raises `UsageError` for an unknown harness."""
    if harness == "fractal":
        return _fractal(job, task, folder, setting)
    if harness not in HARNESSES:
        raise UsageError(f"there is no harness {harness}; there are {', '.join(HARNESSES)}")
    python = str(setting.mini) if harness == "mini" else sys.executable
    command = [python, str(HERE / f"{harness}.py"), task, setting.url, setting.model]
    said, errors = _last_line(command, folder, setting.environment(folder), setting.seconds)
    return Ended(said.get("status", "error"), bool(said.get("claims")), said.get("answer", ""), errors=errors)


def _last_line(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> tuple[dict[str, Any], str]:
    """The object that a process prints last, and the end of what it says on standard error."""
    ran = stopped_after(command, folder, environment, seconds)
    printed = [line for line in ran.printed.splitlines() if line.startswith("{")]
    if ran.code is None:
        return {"status": "stopped"}, ran.errors[-600:]
    return (json.loads(printed[-1]) if printed else {}), ran.errors[-600:]


# ---- Fractal ---------------------------------------------------------------------------------------------


def settings(job: SweJob, setting: Setting) -> dict[str, Any]:
    """What `fractal.yaml` of a job says."""
    patient = {"connect": 5, "first_token": 1_800, "idle": 600, "total": 1_800}
    told: dict[str, Any] = {
        "model": f"openai/{setting.model}",
        "api_base": setting.url,
        "timeout": patient,
        "seconds": round(setting.seconds * 0.95),  # so that it can say itself that it was stopped
    }
    if job.pages:
        told["operations"] = {"fetch": {"allow_private": True}}
    if setting.window and "context" in Config.model_fields:
        told["context"] = setting.window  # without this setting Fractal assumes 8k
    return told


def _fractal(job: SweJob, task: str, folder: Path, setting: Setting) -> Ended:
    (folder / "fractal.yaml").write_text(yaml.safe_dump(settings(job, setting)), "utf-8")
    with tempfile.TemporaryDirectory(prefix="swe-user-") as own:  # no settings of whoever runs the bench
        environment = {**setting.environment(folder), "XDG_CONFIG_HOME": own}
        stopped_after([*fractal_agent.FRACTAL, "trust", "--yes"], folder, environment, 120)
        command = [sys.executable, "-P", fractal_agent.__file__, task, job.reply, "{}", ""]
        said, errors = _last_line(command, folder, environment, setting.seconds)
    proof = said.get("status") == "complete" and proven(Path(said["path"]))
    return Ended(
        said.get("status", "error"), said.get("claims", False), said.get("answer", ""), proof, errors
    )


def proven(document: Path) -> bool:
    """Whether a document has a criterion about the folder that failed before the work and holds after it."""
    evidence = parse(document.read_bytes()).text(4, "evidence")
    findings = map(Finding.read, evidence.splitlines())
    return any(
        each is not None and each.before is False and each.after is True and proves(each.criterion)
        for each in findings
    )
