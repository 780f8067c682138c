"""The service under load: clients think, ask for context and report outcomes. What they wait, what is lost.

The server is a process of its own. With `kill` it is killed in the middle and started again; clients then
repeat the request that failed, with the same id.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.harness import Figures, markdown
from kernel.events import now
from runtime.api.fractal import Fractal
from runtime.memory.episodes.experience import Experience
from runtime.memory.learning.outcomes import Act, Outcome, take_in
from runtime.server.outcomes import BATCH

P95_GOAL, ACCEPT_GOAL = 80.0, 20.0
"""Milliseconds of a context, and of the acceptance of an outcome."""
MIX = {"context": 50, "learn": 20, "search": 10, "patterns": 5, "stats": 5, "recommend": 5, "active": 5}
"""Requests of a client, in per cent."""
PATIENCE = 120.0
"""Seconds until the server answers, and until all outcomes are in memory."""
VERBS = (
    "fix",
    "write",
    "test",
    "rename",
    "sort",
    "translate",
    "summarize",
    "find",
    "count",
    "refactor",
    "document",
    "review",
)
THINGS = (
    "login",
    "parser",
    "report",
    "invoice",
    "table",
    "chapter",
    "index",
    "query",
    "page",
    "letter",
    "budget",
    "schema",
)
TOKEN = "a-token-of-the-bench"
PLACES = (
    "billing",
    "search",
    "export",
    "mobile",
    "archive",
    "support",
    "admin",
    "public",
    "legacy",
    "internal",
)
AGENTS = ("implementer", "researcher", "architect", "reviewer", "writer", "tester")


@dataclass
class Load:
    """What happened so far."""

    url: str
    took: dict[str, list[float]] = field(default_factory=dict[str, list[float]])  # ms, by request
    accepted: set[str] = field(default_factory=set[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    repeated: int = 0


def measure(
    experiences: int, clients: int, seconds: float, think: float, kill: bool, seed: int
) -> dict[str, Any]:
    """The figures of one load."""
    with tempfile.TemporaryDirectory() as folder:
        fractal = Fractal(folder, settings={"embedder": "lexical"})
        _fill(fractal, experiences, random.Random(seed))
        load = asyncio.run(_play(Path(folder), clients, seconds, think, kill, seed))
        shelf = fractal.brain.shelf
        stored = len(shelf.pick(Experience, load.accepted))
        surplus = shelf.count(Experience) - experiences - stored
        fractal.brain.close()
    times = [each for took in load.took.values() for each in took]
    return {
        "clients": clients,
        "experiences": experiences,
        "seconds": seconds,
        "killed": kill,
        "requests": len(times),
        "per_s": round(len(times) / seconds, 1),
        "errors": sum(load.errors.values()),
        "error_kinds": dict(load.errors),
        "repeated": load.repeated,
        "accepted": len(load.accepted),
        "lost": len(load.accepted) - stored,
        "surplus": surplus,
        "ms": {name: _quantiles(took) for name, took in sorted(load.took.items())},
    }


def _quantiles(took: Sequence[float]) -> dict[str, float]:
    ranked = sorted(took)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: round(ranked[int(share * (len(ranked) - 1))], 1) for name, share in at.items()}


def _task(rng: random.Random) -> str:
    verb, place, thing = rng.choice(VERBS), rng.choice(PLACES), rng.choice(THINGS)
    return f"{verb.capitalize()} the {place} {thing} number {rng.randrange(1000)}"


def _acts(rng: random.Random) -> list[str]:
    return rng.sample(["read", "edit", "bash", "write", "find", "test"], rng.randint(1, 4))


def _fill(fractal: Fractal, experiences: int, rng: random.Random) -> None:
    """Store outcomes as if clients had reported them."""
    outcomes = [
        Outcome(
            id=f"outcome-before-{n}",
            task=_task(rng),
            agent=rng.choice(AGENTS),
            success=(good := rng.random() < 0.8),
            signal="tests_passed" if good else "tests_failed",
            acts=tuple(Act(tool=tool) for tool in _acts(rng)),
            seconds=rng.uniform(1, 60),
            at=now(),
        )
        for n in range(experiences)
    ]
    for start in range(0, experiences, BATCH):
        take_in(fractal.brain, fractal.memory.learning, outcomes[start : start + BATCH])
    fractal.brain.episodes.similar(outcomes[0].task, 1)
    fractal.brain.close()


def _serve(folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = "from runtime.cli import main; main()"
    words = [sys.executable, "-c", command, "serve", "--address", f"127.0.0.1:{port}"]
    env = {**os.environ, "FRACTAL_EMBEDDER": "lexical", "FRACTAL_TOKEN": TOKEN}
    return subprocess.Popen(words, cwd=folder, env=env)


async def _play(folder: Path, clients: int, seconds: float, think: float, kill: bool, seed: int) -> Load:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    load = Load(f"http://127.0.0.1:{port}/brain")
    server = _serve(folder, port)
    shown = {"authorization": f"Bearer {TOKEN}"}
    limits = httpx.Limits(max_connections=clients + 10, max_keepalive_connections=clients + 10)
    try:
        async with httpx.AsyncClient(timeout=PATIENCE, limits=limits, headers=shown) as http:
            await _ready(http, load)
            end = time.monotonic() + seconds
            work = [
                _client(http, load, random.Random(seed * 1000 + n), end, think, kill) for n in range(clients)
            ]
            playing = asyncio.gather(*work)
            if kill:
                await asyncio.sleep(seconds / 2)
                server.kill()
                server.wait()
                server = _serve(folder, port)
            await playing
            await _until_taken_in(http, load)
    finally:
        server.terminate()
        server.wait()
    return load


async def _ready(http: httpx.AsyncClient, load: Load) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            await http.get(f"{load.url}/health")
            return
        except httpx.TransportError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


async def _until_taken_in(http: httpx.AsyncClient, load: Load) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if not (await http.get(f"{load.url}/health")).json()["learning"]["queue"]:
            return
        await asyncio.sleep(0.2)


async def _client(
    http: httpx.AsyncClient, load: Load, rng: random.Random, end: float, think: float, kill: bool
) -> None:
    """One client: thinks, asks, and so on until the end."""
    while True:
        await asyncio.sleep(rng.uniform(0, 2 * think))
        if time.monotonic() > end:
            return
        name = rng.choices(list(MIX), list(MIX.values()))[0]
        method, path, more = _request(name, rng)
        while True:
            began = time.perf_counter()
            try:
                response = await http.request(method, f"{load.url}{path}", **more)
            except httpx.TransportError as error:
                if not kill:
                    load.errors[f"{name}: {type(error).__name__}"] += 1
                    break
                load.repeated += 1
                await asyncio.sleep(0.2)
                continue
            load.took.setdefault(name, []).append((time.perf_counter() - began) * 1000)
            if not response.is_success:
                load.errors[f"{name}: {response.status_code}"] += 1
            elif name == "learn":
                load.accepted.add(response.json()["id"])
            break


def _request(name: str, rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    agent, task = rng.choice(AGENTS), _task(rng)
    if name == "context":
        return "POST", "/context", {"json": {"task_prompt": task, "agent_type": agent, "max_tokens": 4000}}
    if name == "learn":
        good = rng.random() < 0.8
        outcome = {
            "task_prompt": task,
            "agent_type": agent,
            "success": good,
            "id": f"{rng.getrandbits(64):x}",
        }
        outcome |= {"outcome_signal": "tests_passed" if good else "tests_failed"}
        outcome |= {"trajectory": [{"action": each, "params": {}} for each in _acts(rng)]}
        return "POST", "/learn", {"json": outcome}
    if name == "search":
        return "POST", "/experience/search", {"json": {"query": task, "success_only": True, "limit": 5}}
    if name == "active":
        return "POST", "/swarm/agent-active", {"json": {"agent_type": agent, "recent_tasks": [task]}}
    paths = {
        "patterns": "/patterns/code",
        "stats": "/experience/stats",
        "recommend": "/swarm/recommend-agent?task_type=code",
    }
    return "GET", paths[name], {}


def table(figures: Figures) -> str:
    """Milliseconds by request, and what was lost."""
    rows = [[name, *took.values()] for name, took in figures["ms"].items()]
    heads = ("request", "p50 ms", "p95 ms", "p99 ms")
    counted = (
        f"{figures['requests']} requests of {figures['clients']} clients in {figures['seconds']:g} s at "
        f"{figures['experiences']:,} experiences{', killed in the middle' if figures['killed'] else ''}: "
        f"{figures['errors']} errors, {figures['repeated']} repeated, "
        f"{figures['accepted']} outcomes accepted, {figures['lost']} lost, {figures['surplus']} too many"
    )
    return f"{counted}\n\n{markdown(heads, rows)}"


def missed(figures: Figures) -> list[str]:
    """The goals that were missed."""
    context, learn = figures["ms"]["context"]["p95"], figures["ms"]["learn"]["p95"]
    goals = {
        f"p95 of context is {context} ms, not {P95_GOAL:g} at most": context <= P95_GOAL,
        f"p95 of learn is {learn} ms, not {ACCEPT_GOAL:g} at most": learn <= ACCEPT_GOAL,
        f"{figures['errors']} errors: {figures['error_kinds']}": not figures["errors"],
        f"{figures['lost']} outcomes are lost": not figures["lost"],
        f"{figures['surplus']} outcomes are there twice": not figures["surplus"],
    }
    return [text for text, reached in goals.items() if not reached]
