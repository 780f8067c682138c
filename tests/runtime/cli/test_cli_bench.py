"""`fractal bench run` measures, learns on the way, survives kills; `fractal brain --run` reads it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench_model import coder, reckoner
from command_line import COMMAND, Command, environment
from warm import Process

from runtime.benchmarks.suites import load

SETTINGS = {"FRACTAL_EMBEDDER": "lexical", "FRACTAL_FSYNC": "false", "FRACTAL_CHECK": "auto"}
LIMIT, RATE = 24, 0.75
SEED = "2642"
"""With it, the families of the first problems come again in the last ones."""


def ran(fractal: Command, *words: str, exit: int = 0) -> Any:
    done = fractal("bench", "run", *words, "--json", env=SETTINGS)
    assert done.exit == exit, done.err
    return json.loads(done.out)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Command, Any]:
    """A bench run with a model that is right three times in four."""
    fractal = Command(tmp_path_factory.mktemp("bench"))
    model = fractal.script("reckoner.yaml", reckoner(LIMIT, int(SEED), RATE))
    words = ("--limit", str(LIMIT), "--seed", SEED, "--snapshot-every", "8", "-m", model)
    return fractal, ran(fractal, *words)


def test_a_model_that_is_right_at_a_known_rate_shows_a_learning_curve(learned: tuple[Command, Any]) -> None:
    _, figures = learned
    first, *_, last = figures["snapshots"]
    assert [each["snapshot"] for each in figures["snapshots"]] == [8, 16, 24]
    assert first["without_model"] + 0.3 <= last["without_model"]
    assert first["accuracy"] < last["accuracy"]
    assert last["calls"] < first["calls"] / 2
    assert figures["accuracy"] > RATE
    assert first["sizes"]["trees"] <= last["sizes"]["trees"]


def test_the_figures_are_shown_and_read_again(learned: tuple[Command, Any]) -> None:
    fractal, figures = learned
    id = figures["bench"]
    listed = fractal("bench", "ls", env=SETTINGS)
    assert id in listed.out
    report = fractal("brain", "report", "--run", id, env=SETTINGS)
    assert "Learning curve, by snapshots" in report.out
    assert "WITHOUT A MODEL" in report.out
    assert f"{LIMIT} decisions" in report.out
    curve = fractal("brain", "curve", "--run", id, env=SETTINGS)
    assert f"problem {LIMIT}" in curve.out
    points = json.loads(fractal("brain", "curve", "--run", id, "--json", env=SETTINGS).out)
    assert len(points) == LIMIT
    explained = fractal("brain", "explain", "1", "--run", id, env=SETTINGS)
    assert "problem 1, run " in explained.err
    assert "novel" in explained.out
    types = json.loads(fractal("brain", "substrates", "--run", id, "--json", env=SETTINGS).out)
    assert types
    compared = fractal("brain", "compare", "--runs", f"{id},{id}", env=SETTINGS)
    assert compared.out.count(id) == 3
    assert "RIGHT, BY FAMILY" in compared.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("brain", "report", "--run", "nope"), "begin with nope"),
        (("brain", "explain", "99", "--run", "arithmetic"), "has done no problem 99"),
        (("brain", "compare"), "--runs"),
        (("bench", "run", "--suite", "aime"), "--data"),
        (("bench", "run", "--suite", "none.jsonl"), "no such file"),
        (("bench", "run", "--resume", "nope"), "begin with nope"),
        (("bench", "run", "--resume", "arithmetic", "--snapshot-every", "3"), "leave out --snapshot-every"),
        (("bench", "run", "--brain", "reckoner.yaml"), "it is a file"),
    ],
)
def test_wrong_words_say_what_to_do(learned: tuple[Command, Any], words: tuple[str, ...], why: str) -> None:
    done = learned[0](*words, env=SETTINGS)
    assert done.exit == 2
    assert why in done.err


@pytest.mark.night
def test_a_memory_goes_on_from_one_bench_run_to_the_next(fractal: Command) -> None:
    model = fractal.script("reckoner.yaml", reckoner(6, 1, 1))
    words = ("--limit", "6", "--brain", "brain", "-m", model)
    first, second = ran(fractal, *words), ran(fractal, *words)
    assert first["calls"] > 0
    assert (second["calls"], second["without_model"], second["accuracy"]) == (0, 1, 1)
    alone = json.loads(fractal("brain", "report", "--run", second["bench"], "--json", env=SETTINGS).out)
    assert alone["decisions"] == 6


@pytest.mark.night
def test_after_kills_nothing_is_done_twice(fractal: Command) -> None:
    model = fractal.script("reckoner.yaml", reckoner(8, 1, 1))
    started = [*COMMAND, "bench", "run", "--limit", "8", "--snapshot-every", "4", "--dream", "-m", model]
    folder = fractal.folder / ".fractal" / "state" / "benchmarks"
    env = environment(**SETTINGS)
    words, id = started, ""
    for results in (1, 4):  # at 4 it begins to dream
        process = Process(
            words, cwd=fractal.folder, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert process.stderr
        for line in process.stderr:
            if f"{results}/8" in line:
                os.kill(process.pid, signal.SIGKILL)
                break
        process.communicate()
        (log,) = folder.glob("*.jsonl")
        id = log.stem
        words = [*COMMAND, "bench", "run", "--resume", id]
    with log.open("a", encoding="utf-8") as torn:
        torn.write('{"n": 99, "righ')
    figures = ran(fractal, "--resume", id)
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    done = [each for each in lines if "right" in each]
    assert [each["n"] for each in done] == list(range(1, 9))
    assert {each["run"] for each in done} == {each["started"] for each in lines if "started" in each}
    runs = folder / id / ".fractal" / "state" / "runs"
    assert len(list(runs.iterdir())) == 8 + len(figures["dreams"]) == 10
    assert (figures["finished"], figures["problems"], figures["accuracy"]) == (True, 8, 1)
    assert ran(fractal, "--resume", id) == figures


def test_two_at_once_do_not_share_a_bench_run(fractal: Command) -> None:
    model = fractal.script("slow.yaml", [{"phase": "fused", "delay": 60, "reply": {}}])
    process = Process(
        [*COMMAND, "bench", "run", "--limit", "1", "-m", model],
        cwd=fractal.folder,
        env=environment(**SETTINGS),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    id = process.stderr.readline().split()[-1]
    log = fractal.folder / ".fractal" / "state" / "benchmarks" / f"{id}.jsonl"
    while '"started"' not in log.read_text("utf-8"):
        assert process.poll() is None
    try:
        second = fractal("bench", "run", "--resume", id, env=SETTINGS)
        assert "at work in another process" in second.err
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert f"--resume {id}" in said


def test_a_provider_that_fails_stops_it_and_it_can_go_on(fractal: Command) -> None:
    model = fractal.script("model.yaml", [{"error": "provider"}])
    failed = fractal("bench", "run", "--limit", "2", "-m", model, env=SETTINGS)
    assert failed.exit == 4
    id = failed.err.split("--resume ")[1].split()[0]
    fractal.script("model.yaml", reckoner(2, 1, 1))
    figures = ran(fractal, "--resume", id)
    assert (figures["problems"], figures["accuracy"]) == (2, 1)


FIXES = {
    "last-page": ("pages.py", "items // size", "-(-items // size)"),
    "inclusive-range": ("period.py", "(last - first).days)", "(last - first).days + 1)"),
    "cents": ("money.py", "int(amount * 100)", "round(amount * 100)"),
    "percent": (
        "chart.py",
        "return [round(100 * count / total) for count in counts]",
        "whole = [100 * count // total for count in counts]\n"
        "    order = sorted(range(len(counts)), key=lambda at: -(100 * counts[at] % total))\n"
        "    for at in order[: 100 - sum(whole)]:\n"
        "        whole[at] += 1\n"
        "    return whole",
    ),
    "shared-default": ("orders.py", "self.orders = orders", "self.orders = list(orders)"),
    "stale-cache": (
        "prices.py",
        "self.table[name] = price\n",
        "self.table[name] = price\n        self._cache = {}\n",
    ),
    "quoted-commas": (
        "importing.py",
        "return [line.split(',') for line in text.splitlines() if line]",
        "import csv\n\n    return list(csv.reader(text.splitlines()))",
    ),
    "durations": (
        "durations.py",
        "FORM = re.compile(r'(\\d+)h (\\d+)m')",
        "FORM = re.compile(r'(?=.)(?:(\\d+)h)? ?(?:(\\d+)m)?')",
    ),
    "tie-order": ("scores.py", "(item[1], item[0]), reverse=True)", "(-item[1], item[0]))"),
    "version-order": (
        "versions.py",
        "max(versions)",
        "max(versions, key=lambda each: [*map(int, each.split('.'))])",
    ),
    "skipped-item": (
        "cleaning.py",
        "for line in lines:\n        if not line.strip():\n            lines.remove(line)\n    return lines",
        "return [line for line in lines if line.strip()]",
    ),
    "endless-path": (
        "graph.py",
        "found.extend(links.get(place, ()))",
        "found += [each for each in dict.fromkeys(links.get(place, ())) if each not in found]",
    ),
}


@pytest.mark.night
def test_every_repository_of_the_suite_swe_can_be_corrected(tmp_path: Path) -> None:
    problems = {each.id: each for each in load("swe", None, None, 1)}
    assert len(problems) == 12
    assert set(FIXES) == set(problems)
    tests: dict[tuple[str, bool], subprocess.Popen[bytes]] = {}
    for id, (name, old, new) in FIXES.items():
        for fixed in (False, True):
            place = tmp_path / f"{id} {fixed}"
            problems[id].lay_out(place)
            text = (place / name).read_text("utf-8")
            assert text.count(old) == 1
            (place / name).write_text(text.replace(old, new) if fixed else text, "utf-8")
            command = problems[id].test.split()
            tests[id, fixed] = subprocess.Popen(command, cwd=place, stderr=subprocess.DEVNULL)
    assert {key for key, test in tests.items() if test.wait(60) == 0} == {(id, True) for id in FIXES}


def test_a_corrected_repository_is_right(fractal: Command) -> None:
    tasks = {each.id: each.task for each in load("swe", None, 2, 1)}
    model = fractal.script("coder.yaml", coder({id: FIXES[id] for id in tasks}, tasks))
    figures = ran(fractal, "--suite", "swe", "--limit", "2", "-m", model)
    assert (figures["problems"], figures["accuracy"]) == (2, 1)


def test_changed_tests_do_not_count(fractal: Command) -> None:
    problem = {
        "task": "Make the test pass",
        "test": "python3 -m unittest -q",
        "files": {"a.py": "x = 1\n"},
        "checks": {"test_a.py": "import unittest, a\n\n\nclass T(unittest.TestCase):\n"
        "    def test_x(self):\n        self.assertEqual(a.x, 2)\n"},
    }  # fmt: skip
    (fractal.folder / "own.jsonl").write_text(json.dumps(problem), "utf-8")
    cheat = {"only": ("test_a.py", "a.x, 2", "a.x, 1")}
    model = fractal.script("cheat.yaml", coder(cheat, {"only": "Make the test pass"}))
    figures = ran(fractal, "--suite", "own.jsonl", "-m", model)
    assert figures["accuracy"] == 0
