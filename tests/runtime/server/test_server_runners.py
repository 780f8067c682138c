"""Runners take bench runs from a server, report, and go on after a kill."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from lanes import PATIENCE, until
from serving import in_thread

from runtime.benchmarks.reporting import runner_lock

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from bench_model import reckoner
from command_line import COMMAND, Command, environment
from warm import Process

SETTINGS = {"FRACTAL_EMBEDDER": "lexical", "FRACTAL_FSYNC": "false", "FRACTAL_CHECK": "auto"}
TOKEN = "a-token-of-the-tests"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    folder = tmp_path / "server"
    folder.mkdir()
    headers = {"authorization": f"Bearer {TOKEN}"}
    with (
        in_thread(folder, token=TOKEN) as url,
        httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.fixture
def machine(tmp_path: Path) -> Command:
    folder = tmp_path / "machine"
    folder.mkdir()
    return Command(folder)


def words(client: httpx.Client, *more: str) -> list[str]:
    return ["runner", "--server", str(client.base_url), "--id", "one", *more]


def queue(client: httpx.Client, **plan: Any) -> str:
    answer = client.post("/api/benchmarks", json=plan)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_a_runner_does_what_is_queued_and_reports(client: httpx.Client, machine: Command) -> None:
    model = machine.script("reckoner.yaml", reckoner(6, 1, 1))
    (machine.folder / "own.jsonl").write_text('{"task": "what is 2 + 3", "answer": "5"}\n', "utf-8")
    first = queue(client, limit=6, model=model, every=3)
    second = queue(client, suite="own", model=model)
    missing = queue(client, suite="aime", model=model)
    env = {**SETTINGS, "FRACTAL_TOKEN": TOKEN, "FRACTAL_MODEL": model}
    done = machine(*words(client, "--data", ".", "--once"), env=env)
    assert done.exit == 0, done.err
    jobs = {each["id"]: each for each in client.get("/api/benchmarks").json()}
    assert [jobs[each]["status"] for each in (first, second, missing)] == ["done", "done", "failed"]
    assert jobs[first]["figures"]["accuracy"] == jobs[second]["figures"]["accuracy"] == 1
    assert "this runner has no suite aime" in jobs[missing]["error"]
    (runner,) = client.get("/api/runners").json()
    assert (runner["id"], runner["status"]) == ("one", "idle")
    assert runner["memory_mb"] > 1


@pytest.mark.night
def test_a_runner_that_was_killed_goes_on_with_its_job(client: httpx.Client, machine: Command) -> None:
    model = machine.script("reckoner.yaml", reckoner(4, 1, 1))
    job = queue(client, limit=4, model=model)
    env = {**SETTINGS, "FRACTAL_TOKEN": TOKEN, "FRACTAL_MODEL": model}
    started = [*COMMAND, *words(client, "--once")]
    process = Process(started, cwd=machine.folder, env=environment(**env))
    logs = machine.folder / ".fractal" / "state" / "benchmarks"

    def begun() -> bool:
        assert process.poll() is None
        return any('"right"' in path.read_text("utf-8") for path in logs.glob("*.jsonl"))

    until(begun)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (running,) = client.get("/api/benchmarks").json()
    assert (running["status"], running["runner"]) == ("running", "one")
    assert client.post("/api/runners/two/next").status_code == 204
    with runner_lock(machine.folder / ".fractal" / "state"):
        second = machine(*words(client, "--once"), env=env)
    assert (second.exit, "another runner works in this folder" in second.err) == (1, True)
    machine(*words(client, "--once"), env=env)
    (ended,) = client.get("/api/benchmarks").json()
    assert (ended["id"], ended["status"], ended["figures"]["problems"]) == (job, "done", 4)
    assert len(list(logs.glob("*.jsonl"))) == 1


def test_a_bench_run_reports_to_a_dashboard(client: httpx.Client, machine: Command) -> None:
    model = machine.script("reckoner.yaml", reckoner(4, 1, 1))
    bench = ("bench", "run", "--limit", "4", "-m", model, "--dashboard", str(client.base_url))
    done = machine(*bench, env={**SETTINGS, "FRACTAL_TOKEN": TOKEN})
    assert done.exit == 0, done.err
    (runner,) = client.get("/api/runners").json()
    assert (runner["status"], runner["done"], runner["total"]) == ("done", 4, 4)
    assert runner["topology"]["trees"] > 0
    assert runner["figures"]["accuracy"] == 1


def test_a_server_that_refuses_or_is_away_disturbs_no_bench_run(
    client: httpx.Client, machine: Command
) -> None:
    model = machine.script("reckoner.yaml", reckoner(2, 1, 1))
    for url, why in ((str(client.base_url), "401"), ("http://127.0.0.1:9", "connect")):
        done = machine("bench", "run", "--limit", "2", "-m", model, "--dashboard", url, env=SETTINGS)
        assert done.exit == 0
        assert done.err.count("the server does not answer") == 1
        assert why in done.err.lower()
    wrong = machine("bench", "run", "--limit", "2", "-m", model, "--dashboard", "somewhere", env=SETTINGS)
    assert (wrong.exit, "not a URL" in wrong.err) == (2, True)


def test_a_runner_that_cannot_ask_for_work_says_so(client: httpx.Client, machine: Command) -> None:
    refused = machine(*words(client, "--once"), env=SETTINGS)
    assert (refused.exit, "401" in refused.err) == (1, True)
    name = machine("runner", "--server", str(client.base_url), "--id", "My Mac", "--once", env=SETTINGS)
    assert (name.exit, "small letters" in name.err) == (2, True)


def test_hostile_requests_are_refused(client: httpx.Client) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/api/runners/..%2Fx", {"status": "idle"}),
        ("/api/runners/UP", {"status": "idle"}),
        ("/api/runners/one", {"status": "asleep"}),
        ("/api/runners/one", {"status": "idle", "more": 1}),
        ("/api/runners/one", {"status": "idle", "accuracy": 2}),
        ("/api/benchmarks", {"suite": "../secret"}),
        ("/api/benchmarks", {"limit": 0}),
        ("/api/benchmarks", {"data": "/etc"}),
    ]
    for path, body in requests:
        assert client.post(path, json=body).status_code in (404, 422), (path, body)
    assert client.get("/api/runners").json() == client.get("/api/benchmarks").json() == []


def test_a_silent_runner_is_lost_and_a_broken_file_is_named(client: httpx.Client, tmp_path: Path) -> None:
    assert client.post("/api/runners/one", json={"status": "running"}).status_code == 204
    file = tmp_path / "server" / ".fractal" / "state" / "runners" / "one.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"at": "2025-03-01T09:30:00Z"}))
    assert client.get("/api/runners").json()[0]["status"] == "lost"
    for text in ("{}", '{"status": "idle"}', '{"status": "idle", "at": "soon"}'):
        file.write_text(text)
        assert client.get("/api/runners").json()[0].get("status") in (None, "lost")
    for text in ("{", "[]"):
        file.write_text(text)
        broken = client.get("/api/runners")
        assert (broken.status_code, "one.json" in broken.json()["error"]) == (503, True)
