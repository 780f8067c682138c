"""`fractal runner`: takes bench runs from a server, does them here, and reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernel.errors import FractalError, UsageError
from runtime.cli.output import notify
from runtime.cli.session import opened, until_signal

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal
    from runtime.benchmarks.bench import Bench
    from runtime.benchmarks.reporting import Reporter


@click.command()
@click.option("--server", required=True, metavar="URL", help="The address of `fractal serve`.")
@click.option("--id", metavar="NAME", help="What this runner is called; default: the name of the machine.")
@click.option("--data", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Suites by name.")
@click.option("--once", is_flag=True, help="End when no bench run waits.")
def runner(server: str, id: str | None, data: str | None, once: bool) -> None:
    """Take bench runs from a server, do them in this folder, and report the progress.

    The token of the server is in FRACTAL_TOKEN. A bench run that was interrupted goes on at the next start.
    """
    from runtime.benchmarks.reporting import Reporter, runner_lock

    fractal, reporter = opened(), Reporter(server, notify, id or "")
    with runner_lock(fractal.workspace.state):
        work = _work(reporter, fractal, Path(data).resolve() if data else None, once)
        asyncio.run(until_signal(work))


async def _work(reporter: Reporter, fractal: Fractal, data: Path | None, once: bool) -> None:
    from runtime.benchmarks.reporting import EVERY

    notify(f"runner {reporter.id}; stop with Ctrl-C")
    while True:
        job = await reporter.next()
        if job:
            await _do(reporter, fractal, data, job)
            continue
        await reporter.idle()
        if once and reporter.fault:
            raise FractalError("no bench run was asked for; see above")
        if once:
            return
        await asyncio.sleep(EVERY)


async def _do(reporter: Reporter, fractal: Fractal, data: Path | None, job: Mapping[str, Any]) -> None:
    """Do one job; what is wrong with it is reported, and the next one follows."""
    try:
        bench = _bench(fractal, data, job)
    except FractalError as error:
        notify(f"job {job['id']}: {error}", "red")
        await reporter.beat({"status": "failed", "job": job["id"], "error": str(error)[:500]})
        return
    notify(f"job {job['id']}: {bench.log.id}")
    try:
        async with reporter.following(bench, job["id"]):
            await bench.play()
        notify(f"job {job['id']}: done")
    except FractalError as error:
        notify(f"job {job['id']}: {error}", "red")


def _bench(fractal: Fractal, data: Path | None, job: Mapping[str, Any]) -> Bench:
    """The bench run of a job: the one that was begun for it, else a new one."""
    from runtime.api.choosing import refuse_unconfigured
    from runtime.benchmarks.bench import Bench, Plan, folder_of
    from runtime.benchmarks.log import BenchLog
    from runtime.benchmarks.suites import SHIPPED

    for path in folder_of(fractal).glob("*.jsonl"):
        if BenchLog(path).lines()[0].get("job") == job["id"]:
            return Bench.resume(fractal, path.stem)
    plan = dict(job["plan"])
    if model := plan.get("model"):
        refuse_unconfigured(fractal, model)
    if plan["suite"] not in SHIPPED:
        name = Path(plan["suite"]).name
        places = [data / f"{name}{ending}" for ending in ("", ".jsonl", ".json", ".csv")] if data else []
        found = next((place for place in places if place.exists()), None)
        if found is None:
            raise UsageError(f"this runner has no suite {name}; put it into the folder of --data")
        plan["data"] = str(found)
    return Bench.start(fractal, Plan(**plan, job=job["id"]))
