"""Does the jobs with each harness in turn, and counts what each cost. Rows are kept, so that it can go on."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import Figures, markdown, share
from bench.real.comparison import site
from bench.swe import fixes, made
from bench.swe.harnesses import HARNESSES, Setting, missing, play
from bench.swe.job import SETS, USUAL, SweJob
from bench.swe.proxy import CountingProxy
from kernel.errors import UsageError

ENVIRONMENTS = Path.home() / ".cache" / "fractal-bench"
GOALS = {"calls": 0.4, "fresh": 0.35, "proof": 0.9}
"""Shares: of mini-swe-agent's calls and fresh tokens; of the done jobs that are complete with a proof."""
COSTS = ("calls", "prompt", "fresh", "completion")

Row = dict[str, Any]


@dataclass(frozen=True)
class Chosen:
    """What is measured: a model behind a server, the harnesses, the jobs, and where things lie."""

    model: str
    api_base: str
    repositories: Path | None = None
    environments: Path = ENVIRONMENTS
    mini: Path | None = None
    harnesses: Sequence[str] = HARNESSES
    sets: Sequence[str] = USUAL
    names: Sequence[str] = ()
    """Only these jobs; all of them if empty."""
    window: int | None = None
    seconds: float = 3_600
    work: Path | None = None
    """Where the folders of the jobs are kept; None: they are removed."""


def measure(
    *,
    model: str | None,
    api_base: str | None,
    repositories: Path | None = None,
    environments: Path | None = None,
    mini: Path | None = None,
    harnesses: Sequence[str] = (),
    sets: Sequence[str] = (),
    jobs: str = "",
    window: int | None = None,
    seconds: float = 3_600,
    results: Path | None = None,
    work: Path | None = None,
) -> Figures:
    """Do what has no row yet, and return the rows and their sums; see `play_all` and `sums`.

    jobs: names with commas between them; "" for all. results: a file of JSON lines. Raises `UsageError` for
    unknown names, and where the model, its server or a repository is missing.
    """
    if not (model and api_base):
        raise UsageError("name a server and its model: --api-base URL --model NAME")
    chosen = Chosen(
        model,
        api_base,
        repositories,
        environments or ENVIRONMENTS,
        mini,
        harnesses or HARNESSES,
        sets or USUAL,
        [name for name in jobs.split(",") if name],
        window,
        seconds,
        work,
    )
    known = read(results) if results else []
    rows = [*known]
    for row in play_all(chosen, selected(chosen), known):
        rows.append(row)
        if results:
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        word = "done  " if row["done"] else "FALSE " if row["claims"] else "failed"
        told = f"{row['harness']:8} {word} {row['job']:16} {row['calls']:3} calls {row['status']}"
        print(told, file=sys.stderr, flush=True)
    shown = [row for row in rows if _asked_for(chosen, row)]
    return {"rows": shown, "sums": sums(shown)}


def read(results: Path) -> list[Row]:
    """The rows that an earlier measurement wrote."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text("utf-8").splitlines() if line.strip()]


def _asked_for(chosen: Chosen, row: Row) -> bool:
    return (
        (row["model"], row["window"]) == (chosen.model, chosen.window)
        and row["harness"] in chosen.harnesses
        and row["set"] in chosen.sets
        and (not chosen.names or row["job"] in chosen.names)
    )


def selected(chosen: Chosen) -> list[SweJob]:
    """The jobs of the chosen sets and names. The environment for the hidden tests is made if need be."""
    listed = fixes.read()
    named = {each.name for each in [*listed, *made.jobs()] if each.set in chosen.sets}
    if unknown := set(chosen.names) - named:
        raise UsageError(f"no job {', '.join(sorted(unknown))} in {', '.join(chosen.sets)}; see --set")
    names = set(chosen.names) or named
    wanted = [each for each in listed if each.name in names & named]
    source = source_of(chosen.repositories, chosen.environments, listed) if wanted else None
    coded = [source.job(each) for each in wanted] if source else []
    return coded + [job for job in made.jobs() if job.name in names & named]


def source_of(repositories: Path | None, environments: Path, listed: Iterable[fixes.Fix]) -> fixes.Source:
    """Where the fixes come from. Raises `UsageError` without a folder of repositories."""
    if repositories is None:
        raise UsageError("fixes need their repositories: --repositories DIR, with OWNER+NAME.git in it")
    packages = [name for each in listed for name in each.packages]
    return fixes.Source(repositories, fixes.tests_python(environments, packages))


def play_all(chosen: Chosen, jobs: Sequence[SweJob], known: Iterable[Row] = ()) -> Iterator[Row]:
    """The row of each job and harness, as each ends. What has a row in `known` is left out.

    A harness that cannot run here is left out, with a word on standard error. Raises `UsageError` if the
    model's server answers none of a job's requests.
    """
    done = {(row["harness"], row["job"], row["model"], row["window"]) for row in known}
    for harness in chosen.harnesses:
        if why := missing(harness, Setting(chosen.model, "", chosen.seconds, mini=chosen.mini)):
            print(why, file=sys.stderr, flush=True)
            continue
        for job in jobs:
            if (harness, job.name, chosen.model, chosen.window) not in done:
                yield play_once(chosen, harness, job)


def play_once(chosen: Chosen, harness: str, job: SweJob) -> Row:
    """Do a job in a new folder.

    The row has `harness`, `model`, `window`, `set`, `job`, `done`, `claims`, `false` (claimed, and the check
    refuses it), `proof`, `status`, `seconds`, `answer`, `errors`, and the figures of `Counts`.
    """
    key = os.environ.get("OPENAI_API_KEY", "")
    proxy = CountingProxy(chosen.api_base, key, chosen.window)
    with proxy.running(), site(job.pages) as address, _folder(chosen, harness, job) as folder:
        job.create(folder)
        url = proxy.url(job.name)
        setting = Setting(chosen.model, url, chosen.seconds, chosen.window, chosen.mini)
        begun = time.monotonic()
        ended = play(harness, job, job.task.replace("{site}", address), folder, setting)
        seconds = time.monotonic() - begun
        errors = ended.errors
        try:
            done = bool(job.check(folder, ended.answer))
        except Exception as error:
            done, errors = False, f"{errors}\ncheck: {type(error).__name__}: {error}"[-600:]
    counts = proxy.jobs[job.name]
    if counts.failed and not counts.calls and not done:
        raise UsageError(f"{chosen.api_base} answered no request of {harness}: {ended.answer} {errors}")
    return {
        "harness": harness,
        "model": chosen.model,
        "window": chosen.window,
        "set": job.set,
        "job": job.name,
        "done": done,
        "claims": ended.claims,
        "false": ended.claims and not done,
        "proof": ended.proof,
        "status": ended.status,
        "seconds": round(seconds, 1),
        **counts.row(),
        "answer": ended.answer[:600],
        "errors": "" if done else errors,
    }


@contextmanager
def _folder(chosen: Chosen, harness: str, job: SweJob) -> Iterator[Path]:
    """A new folder for a job."""
    if chosen.work is None:
        with tempfile.TemporaryDirectory(prefix="swe-") as name:
            yield Path(name).resolve()
        return
    folder = (chosen.work / f"{harness}-{job.name}").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder


# ---- figures ---------------------------------------------------------------------------------------------


def sums(rows: Iterable[Row]) -> dict[str, dict[str, dict[str, Any]]]:
    """By set and harness: `jobs`, `done`, `proven` (done, complete and proven), `false`, and the costs."""
    grouped: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        grouped.setdefault(row["set"], {}).setdefault(row["harness"], []).append(row)
    return {
        which: {harness: _sum(each) for harness, each in by.items()}
        for which, by in sorted(grouped.items(), key=lambda item: SETS.index(item[0]))
    }


def _sum(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "jobs": len(rows),
        "done": sum(row["done"] for row in rows),
        "proven": sum(row["done"] and row["proof"] for row in rows),
        "false": sum(row["false"] for row in rows),
        **{name: sum(row[name] for row in rows) for name in COSTS},
        "seconds": round(sum(row["seconds"] for row in rows)),
    }


def table(figures: Figures) -> str:
    """The figures as markdown: a row for each job, then the sums by set and harness."""
    heads = ["harness", "set", "job", "done", "shown to the user", "proof", *COSTS, "s"]
    cells = [
        [
            row["harness"],
            row["set"],
            row["job"],
            _yes(row["done"]),
            row["status"],
            _yes(row["proof"]),
            *(f"{row[name]:,}" for name in COSTS),
            row["seconds"],
        ]
        for row in figures["rows"]
    ]
    summed = [
        [which, harness, *(f"{value:,}" for value in each.values())]
        for which, by in figures["sums"].items()
        for harness, each in by.items()
    ]
    names = ["set", "harness", "jobs", "done", "done with proof", "false complete", *COSTS, "s"]
    return f"{markdown(heads, cells, left=6)}\n\n{markdown(names, summed, left=2)}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def missed(figures: Figures) -> list[str]:
    """The goals that Fractal misses, by set; those against mini-swe-agent where both did the same jobs."""
    found: list[str] = []
    for which, by in figures["sums"].items():
        own, mini = by.get("fractal"), by.get("mini")
        if own:
            found += [f"{which}: {each}" for each in _missed(which, own, mini, figures["rows"])]
    return found


def _missed(
    which: str, own: Mapping[str, Any], mini: Mapping[str, Any] | None, rows: Sequence[Row]
) -> Iterator[str]:
    if own["false"]:
        yield f"{own['false']} complete and refused by the check"
    if which != "made" and own["proven"] < GOALS["proof"] * own["done"]:
        yield f"{own['proven']} of {own['done']} done with a proof; the goal is {GOALS['proof']:.0%}"
    played = {
        harness: {row["job"] for row in rows if (row["harness"], row["set"]) == (harness, which)}
        for harness in ("fractal", "mini")
    }
    if mini is None or played["fractal"] != played["mini"]:
        return
    if own["done"] < mini["done"]:
        yield f"{own['done']} done, mini-swe-agent {mini['done']}"
    for name in ("calls", "fresh"):
        if (part := share(own[name], mini[name])) > GOALS[name]:
            yield f"{name} {part} of mini-swe-agent's; the goal is {GOALS[name]}"
