"""`GET /metrics`, as Prometheus's own parser reads it: every process's runs count, and no total falls."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import httpx
from in_process import in_process
from playing import REVERSE, put
from prometheus_client.parser import text_string_to_metric_families
from serving import in_thread

from kernel.document.model import ENDED
from kernel.events import Event
from runtime.api.fractal import Fractal
from runtime.server.figures import Figures
from runtime.server.service import Service

Samples = dict[str, float]
ROOT = Path(__file__).parents[3]
NAMES = {
    "fractal_runs",
    "fractal_calls",
    "fractal_tokens",
    "fractal_cost_usd",
    "fractal_phase_seconds",
    "fractal_recall",
    "fractal_recognition_ratio",
    "fractal_methods",
    "fractal_surprise",
    "fractal_dream_seconds",
    "fractal_lifeforce",
}


def read(text: str | bytes) -> tuple[set[str], Samples]:
    """The names of the figures, and each sample by its name and labels."""
    text = text if isinstance(text, str) else text.decode()
    families = list(text_string_to_metric_families(text))
    samples = {
        f"{each.name}{' ' if each.labels else ''}{','.join(each.labels.values())}": each.value
        for family in families
        for each in family.samples
    }
    return {family.name for family in families}, samples


def solve(folder: Path, **settings: object) -> str:
    """Do a task that a model solves the first time, and memory later; returns the run's id."""
    put(folder, "notes.md", "one\ntwo\n")
    (folder / "back.md").unlink(missing_ok=True)
    model = folder.parent / "model.json"
    model.write_text(json.dumps({"fused": REVERSE}))
    given = {"sandbox": "off", "model": f"scripted:{model}", "embedder": "lexical", **settings}
    fractal = Fractal(folder, settings=given)
    result = asyncio.run(fractal.run("Mirror the lines of notes.md into back.md"))
    assert result.status == "complete", result
    return result.run


def test_a_server_counts_what_other_processes_do(folder: Path) -> None:
    pool = {"lifeforce": {"capacity": 100, "per_hour": 0.001}}
    put(folder, "fractal.yaml", json.dumps(pool))
    with in_thread(folder) as url:
        names, before = read(httpx.get(f"{url}/metrics").raise_for_status().text)
        assert before["fractal_runs_total complete"] == before["fractal_calls_total"] == 0
        first, _ = solve(folder), solve(folder)
        assert in_process(folder, ["dream"], {**os.environ, "FRACTAL_EMBEDDER": "lexical"}).exit == 0
        answer = httpx.get(f"{url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    names, after = read(answer.text)
    assert names == NAMES
    spent = Fractal(folder).document(first).meta.spent
    assert after["fractal_calls_total"] == spent["calls"] == 1
    assert after["fractal_tokens_total input"] == spent["prompt_tokens"] > 0
    assert after["fractal_tokens_total output"] == spent["completion_tokens"] > 0
    assert after["fractal_runs_total complete"] == 3
    assert after["fractal_recall_total novel"] == after["fractal_recall_total exact"] == 1
    assert 0 <= after["fractal_recognition_ratio"] <= 1
    assert after["fractal_dream_seconds_count"] == 1
    assert after["fractal_dream_seconds_sum"] > 0
    assert 98 < after["fractal_lifeforce default"] < 100
    assert after["fractal_methods cerebellum"] == 0


def test_totals_stay_when_runs_are_archived_removed_or_served_anew(folder: Path) -> None:
    fractal = Fractal(folder, settings={"embedder": "lexical"})
    figures = Figures(fractal)
    run = solve(folder)
    _, first = read(figures.text())
    assert first["fractal_runs_total complete"] == first["fractal_calls_total"] == 1
    document = fractal.path(run)
    long_ago = re.sub(r'updated: "[^"]*"', 'updated: "2025-01-01T00:00:00.000Z"', document.read_text())
    document.write_text(long_ago)
    assert fractal.gc() == [run]
    for anew in (figures, Figures(fractal)):
        _, later = read(anew.text())
        assert later["fractal_runs_total complete"] == later["fractal_calls_total"] == 1
    with (fractal.workspace.state / "archive" / "figures.jsonl").open("a") as file:
        file.write('[]\nno JSON\n{"run": "x", "status": "complete", "type": "task", "spent": 3}\n{"run": "')
    _, later = read(Figures(fractal).text())
    assert later["fractal_runs_total complete"] == 1


def test_a_run_that_goes_on_after_its_limit_counts_under_both_statuses(folder: Path) -> None:
    run = solve(folder)
    fractal = Fractal(folder)
    figures, path = Figures(fractal), fractal.path(run)
    text = path.read_text()
    for status in ("exhausted", "running", "complete"):
        path.write_text(text.replace('status: "complete"', f'status: "{status}"'))
        os.utime(path, (0, len(status)))
        _, samples = read(figures.text())
        assert samples["fractal_calls_total"] == samples["fractal_runs_total exhausted"] == 1
    assert samples["fractal_runs_total complete"] == 1
    assert sum(samples[f"fractal_runs_total {each}"] for each in ENDED) == 2


def test_the_phases_of_runs_of_this_process_are_timed(folder: Path) -> None:
    async def do() -> bytes:
        service = Service(folder)
        await service.runs.start("what is 2 + 2?")
        await service.runs.idle()
        text = service.figures.text()
        await service.close()
        return text

    _, samples = read(asyncio.run(do()))
    phases = ("understand", "do", "check")  # the plan is a part of the first turn
    assert [samples[f"fractal_phase_seconds_count {phase}"] for phase in phases] == [1, 1, 1]
    assert 0 < samples["fractal_phase_seconds_sum do"] < 60


def test_a_phase_that_is_interrupted_or_waits_is_no_longer_timed(folder: Path) -> None:
    figures = Figures(Fractal(folder))
    started = Event("phase_started", "r", "system-r", data={"phase": "plan"})
    for kind in ("loop_waiting", "run_finished"):
        figures.hear(started)
        figures.hear(Event(kind, "r", "system-r"))
        figures.hear(Event("loop_finished", "r", "system-r"))
    _, samples = read(figures.text())
    assert samples["fractal_phase_seconds_count plan"] == 1


def test_a_memory_that_cannot_be_read_leaves_the_other_figures(folder: Path) -> None:
    solve(folder)
    for path in (folder / ".fractal" / "state" / "memory").glob("brain.sqlite3*"):
        path.write_bytes(b"no database" * 999)
    names, samples = read(Figures(Fractal(folder)).text())
    assert "fractal_recall" not in names
    assert samples["fractal_calls_total"] == 1


def test_runs_that_have_ended_are_read_once(folder: Path) -> None:
    run = solve(folder)
    fractal = Fractal(folder)
    text = fractal.path(run).read_text()
    for name in (f"r{number:05}" for number in range(20)):
        put(fractal.workspace.runs, f"{name}/system-{name}.md", text.replace(run, name))
    figures = Figures(fractal)
    for _ in range(2):
        _, samples = read(figures.text())
        assert samples["fractal_runs_total complete"] == samples["fractal_calls_total"] == 21
        for path in fractal.workspace.runs.glob("*/system-*.md"):
            path.write_text(text.replace("complete", "failed"))


def test_the_dashboard_has_every_figure_and_no_other(tmp_path: Path) -> None:
    dashboard = json.loads((ROOT / "docs" / "telemetry" / "grafana.json").read_text())
    suffixes = {"counter": ["_total"], "gauge": [""], "summary": ["_sum", "_count"]}
    suffixes["histogram"] = ["_bucket", "_sum", "_count"]
    families = text_string_to_metric_families(Figures(Fractal(tmp_path)).text().decode())
    kinds = {each.name: each.type for each in families}
    assert set(kinds) == NAMES
    assert not [*tmp_path.iterdir()]  # reading an empty workspace creates nothing
    owner = {name + suffix: name for name, kind in kinds.items() for suffix in suffixes[kind]}
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    found = [set(re.findall(r"fractal_\w+", expression)) for expression in shown]
    assert all(found) and set().union(*found) <= set(owner)
    assert {owner[each] for each in set().union(*found)} == NAMES
    page = (ROOT / "docs" / "telemetry.md").read_text()
    listed = re.findall(r"^\| `(fractal_\w+)` \| (\w+)", page, re.M)
    assert dict(listed) == {
        name + ("_total" if kind == "counter" else ""): kind for name, kind in kinds.items()
    }
