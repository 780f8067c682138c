"""Replaying a run from its log; memory keeps nothing of a replay."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playing import ACCEPT, plan

from kernel.asking.responder import Ladder
from kernel.errors import Exit, ProviderError
from runtime.api.fractal import Fractal
from runtime.memory.episodes.experience import Experience
from runtime.models.scripted import Scripted

STEP = {"tool": "write", "args": {"path": "a.txt", "content": "a\n"}}
SETTINGS = {"sandbox": "off", "embedder": "lexical"}


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    script = {"plan": plan(STEP, success=[{"file": "a.txt", "has": "a"}]), "check": ACCEPT}
    fractal = Fractal(tmp_path, settings={**SETTINGS, "recall": False}, ladder=Ladder((Scripted(script),)))
    return asyncio.run(fractal.run("write a letter into a file")).run


def _learned(folder: Path) -> int:
    brain = Fractal(folder, settings=SETTINGS).brain
    brain.episodes.catch_up()
    try:
        return brain.shelf.count(Experience)
    finally:
        brain.close()


def test_run_is_replayed_from_its_log_without_a_memory(tmp_path, recorded):
    before = _learned(tmp_path)
    (tmp_path / "a.txt").unlink()
    (tmp_path / "new.txt").write_text("the listing of the folder is another now")
    result = asyncio.run(Fractal(tmp_path, settings={**SETTINGS, "recall": False}).replay(recorded))
    assert (result.status, result.exit) == ("complete", Exit.ACCEPTED)
    assert (tmp_path / "a.txt").read_text() == "a\n"
    assert before == 1 and _learned(tmp_path) == before


def test_recording_does_not_answer_another_task(tmp_path, recorded):
    before = _learned(tmp_path)
    (tmp_path / "a.txt").unlink()
    fractal = Fractal(tmp_path, settings={**SETTINGS, "recall": False, "model": f"replay:{recorded}"})
    with pytest.raises(ProviderError, match=r"request in turn of system .*differs from the recorded"):
        asyncio.run(fractal.run("translate the letter into French"))
    assert not (tmp_path / "a.txt").exists()
    assert _learned(tmp_path) == before
