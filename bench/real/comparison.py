"""Does the jobs with each agent, one process a job. Rows of finished jobs are kept, so that it can go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness import Figures, markdown, stopped_after
from bench.real.job import KINDS, Job, create
from bench.serving import send, serving
from kernel.errors import UsageError

SETS = ("viewed", "unread", "acceptance")
LIMIT = 120.0
"""Seconds for one job. Source: small-models.md, "Measure"."""
PEERS: Mapping[str, tuple[str, ...]] = {
    "mini": ("mini-swe-agent==2.4.6",),
    "smol": ("smolagents[openai]==1.26.0",),
    "plain": (),
    "server": ("llama-cpp-python[server]==0.3.36",),
}
"""The packages in the environment of each agent, and of the server that they share."""
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "fractal": {},
    "whole-phases": {"form": "json"},
    "one-attempt": {"attempts": 1},
}
"""Options of the model's rung in Fractal, by the name of a row's agent; all but the first are ablations."""
GOALS = {"done": 0.9, "seconds": 5.0, "false_claims": 0.02, "times_best_peer": 3.0}
"""On the unread jobs. Source: small-models.md, "Measure"."""
_SCRIPTS = Path(__file__).parent / "peers"
_ROOT = Path(__file__).resolve().parents[2]

Row = dict[str, Any]


def jobs(which: str) -> list[Job]:
    """The jobs of a set."""
    return import_module(f"bench.real.{which}").JOBS


def for_peers(listed: Sequence[Job]) -> list[Job]:
    """A fixed stratified part of a set: one job of each kind but those with a person or a page."""
    kinds = [kind for kind in KINDS if kind not in ("ask", "page")]
    chosen: list[Job] = []
    for at, kind in enumerate(kinds):
        of_kind = [job for job in listed if job.kind == kind]
        chosen += of_kind[at % len(of_kind) :][:1]
    return chosen


def measure(
    model: Path,
    agents: Sequence[str],
    sets: Sequence[str] = SETS,
    rows: Path | None = None,
    environments: Path | None = None,
    only: Sequence[str] = (),
    fixed: bool = False,
) -> Figures:
    """Do what has no row yet and return the figures of all rows.

    model: a GGUF file. rows: a file of JSON lines, one for each agent and job. environments: the folder where
    each peer has a virtual environment; missing ones are made. only: names or kinds of jobs. fixed: only the
    jobs that peers get.
    """
    rows = rows or _ROOT / "state" / "bench" / f"real-{model.stem}.jsonl"
    environments = environments or Path.home() / ".cache" / "fractal-bench"
    rows.parent.mkdir(parents=True, exist_ok=True)
    known = read(rows)
    done = {(row["agent"], row["set"], row["job"]) for row in known}
    left = [
        (agent, which, job)
        for agent in agents
        for which in sets
        for job in (for_peers(jobs(which)) if fixed or agent != "fractal" else jobs(which))
        if (agent, which, job.name) not in done and (not only or {job.name, job.kind} & set(only))
    ]
    with server(model, environments) if any(a not in VARIANTS for a, _, _ in left) else _nothing() as url:
        for agent, which, job in left:
            row = {"agent": agent, "set": which, **play(agent, job, model, url, environments)}
            with rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            known.append(row)
            done_text = "done  " if row["done"] else "CLAIMED" if row["claims"] else "failed"
            name = job.name if which == "viewed" else job.kind
            print(
                f"{agent:8} {which} {done_text} {row['seconds']:6.1f} s {name}", file=sys.stderr, flush=True
            )
    return figures([row for row in known if row["agent"] in agents and row["set"] in sets])


def read(rows: Path) -> list[Row]:
    """The rows that an earlier measurement wrote."""
    return [json.loads(line) for line in rows.read_text("utf-8").splitlines()] if rows.exists() else []


def play(agent: str, job: Job, model: Path, url: str, environments: Path) -> Row:
    """Do one job in a new folder; return its row without agent and set."""
    with tempfile.TemporaryDirectory(prefix="job-") as name, site(job.pages) as address:
        folder = Path(name)
        create(job, folder)
        task = job.task.replace("{site}", address)
        if agent in VARIANTS:
            settings = {"FRACTAL_LADDER": json.dumps(ladder(agent, model)), **_FRACTAL}
            command = [
                sys.executable,
                str(_SCRIPTS / "fractal_agent.py"),
                task,
                job.reply,
                json.dumps(settings),
            ]
        else:
            python = environment(agent, environments)
            command = [
                str(python),
                str(_SCRIPTS / f"{agent}_agent.py"),
                task,
                url,
                model.stem,
                str(int(LIMIT)),
            ]
        begun = time.monotonic()
        environ = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = stopped_after(command, folder, environ, LIMIT)
        seconds = time.monotonic() - begun
        row: Row = {"answer": "", "claims": False, "calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
        lines, errors = ran.printed.strip().splitlines(), ran.errors
        if lines and ran.code is not None and lines[-1].startswith("{"):
            row |= json.loads(lines[-1])
        try:
            good = bool(job.check(folder, row["answer"]))
        except Exception as error:
            good = False
            errors = f"{errors}\ncheck: {type(error).__name__}: {error}"
        row |= {"answer": row["answer"][:600], "errors": "" if good else errors[-600:]}
        place = {"job": job.name, "kind": job.kind, "hard": job.hard}
        return {**place, "done": good, "seconds": round(seconds, 1), **row}


def ladder(agent: str, model: Path) -> list[dict[str, Any]]:
    """The rungs of Fractal, or of a variant of it."""
    rung = {"model": f"llama:{model.resolve()}", "options": VARIANTS[agent]}
    return [{"model": "reflex"}, rung, {"model": "person"}]


_FRACTAL = {"FRACTAL_OPERATIONS": "{fetch: {allow_private: true}}", "FRACTAL_TRUST": "1"}


def environment(agent: str, environments: Path) -> Path:
    """The Python of an agent's own environment, which is made if it is missing."""
    python = environments / agent / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environments / agent], check=True)
        if packages := PEERS[agent]:
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


@contextmanager
def server(model: Path, environments: Path) -> Generator[str]:
    """The address of an OpenAI-compatible server of the model, while it runs."""
    python = environment("server", environments)
    port = _free_port()
    options = ["--model", str(model), "--model_alias", model.stem, "--port", str(port), "--n_ctx", "8192"]
    process = subprocess.Popen(
        [str(python), "-m", "llama_cpp.server", *options, "--n_threads", str(os.cpu_count() or 2)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{url}/models", timeout=5).read()
                break
            except OSError:
                if process.poll() is not None:
                    raise UsageError(f"the server of {model} ended with {process.returncode}") from None
                time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _nothing() -> Generator[str]:
    yield ""


def _free_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as free:
        return free.server_address[1]


class _Pages(BaseHTTPRequestHandler):
    """Serves the pages of a job."""

    def __init__(self, pages: Mapping[str, str], *args: Any) -> None:
        self.pages = pages
        super().__init__(*args)

    def do_GET(self) -> None:
        text = self.pages.get(self.path.partition("?")[0])
        kind = "application/json" if self.path.endswith(".json") else "text/html; charset=utf-8"
        content = (text or "not found").encode()
        send(self, content, kind, 200 if text is not None else 404)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def site(pages: Mapping[str, str]) -> Generator[str]:
    """The address of the pages while they are served; "" without any."""
    if not pages:
        yield ""
        return
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Pages, pages))
    with serving(http):
        yield f"http://127.0.0.1:{http.server_address[1]}"


# ---- figures ---------------------------------------------------------------------------------------------


def figures(rows: Iterable[Row]) -> Figures:
    """By agent and set: the share done, by kind and by size; false claims; medians."""
    result: dict[str, Any] = {}
    for row in rows:
        result.setdefault(row["agent"], {}).setdefault(row["set"], []).append(row)
    return {agent: {which: summary(each) for which, each in by.items()} for agent, by in result.items()}


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures of one agent on one set.

    peers_done: the share done of the jobs that peers get. passed_on: the share that waited for the next rung.
    """
    fixed = {job.name for job in for_peers(jobs(rows[0]["set"]))}
    by_kind = {kind: [row["done"] for row in rows if row["kind"] == kind] for kind in KINDS}
    hard = [row["done"] for row in rows if row["hard"]]
    return {
        "jobs": len(rows),
        "done": _share([row["done"] for row in rows]),
        "hard_done": _share(hard),
        "peers_done": _share([row["done"] for row in rows if row["job"] in fixed]),
        "false_claims": _share([row["claims"] and not row["done"] for row in rows]),
        "passed_on": _share([row.get("status") == "waiting" for row in rows]),
        "seconds": median(row["seconds"] for row in rows),
        "calls": median(row["calls"] for row in rows),
        "tokens": median(row["prompt_tokens"] + row["completion_tokens"] for row in rows),
        "by_kind": {kind: f"{sum(each)}/{len(each)}" for kind, each in by_kind.items() if each},
    }


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0


def table(measured: Figures) -> str:
    """The figures as markdown."""
    head = [
        "agent",
        "set",
        "jobs",
        "done",
        "hard",
        "of the peers' jobs",
        "false claims",
        "passed on",
        "s",
        "calls",
        "tokens",
    ]
    keys = (
        *("jobs", "done", "hard_done", "peers_done", "false_claims", "passed_on"),
        *("seconds", "calls", "tokens"),
    )
    lines = [
        [agent, which, *(each[key] for key in keys)]
        for agent, by in measured.items()
        for which, each in by.items()
    ]
    kinds = [
        [agent, which, *(each["by_kind"].get(kind, "") for kind in KINDS)]
        for agent, by in measured.items()
        for which, each in by.items()
    ]
    return f"{markdown(head, lines)}\n\n{markdown(['agent', 'set', *KINDS], kinds)}"


def missed(measured: Figures) -> list[str]:
    """The goals that Fractal misses on the unread jobs."""
    own = measured.get("fractal", {}).get("unread")
    if not own:
        return []
    peers = [
        by["unread"]["peers_done"]
        for agent, by in measured.items()
        if agent not in VARIANTS and "unread" in by
    ]
    best = max(peers, default=0.0)
    checks = {
        f"done {own['done']} < {GOALS['done']}": own["done"] < GOALS["done"],
        f"median {own['seconds']} s > {GOALS['seconds']} s": own["seconds"] > GOALS["seconds"],
        f"false claims {own['false_claims']} > {GOALS['false_claims']}": own["false_claims"]
        > GOALS["false_claims"],
        f"best peer {best} x 3 > {own['peers_done']}": own["peers_done"] < GOALS["times_best_peer"] * best,
    }
    return [text for text, failed in checks.items() if failed]
