"""The recordings of docs/examples.md work where a prompt differs from the recorded one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from test_repository import ROOT

from kernel.document.parser import parse
from runtime.api.fractal import Fractal

EXAMPLES = ROOT / "docs" / "examples"
RECORDINGS = sorted((EXAMPLES / "recordings").iterdir())


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
async def test_recording_replays_in_a_folder_with_another_file(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(EXAMPLES / recording.name, folder)
    (folder / "unrelated.txt").write_text("The prompts list this file too.\n", "utf-8")
    (root,) = recording.glob("system-*.md")
    recorded = parse(root.read_bytes(), str(root))
    fractal = Fractal(folder, settings={"model": f"replay:{recording}"})
    result = await fractal.run(recorded.text(1, "task"))
    if result.status == "waiting":
        fractal.tell(result.run, "answer", text=recorded.text(1, "answer"))
        result = await fractal.resume(result.run)
    assert (result.status, result.output) == ("complete", recorded.text(5, "result"))
    assert any(getattr(rung, "differing", ()) for rung in fractal.ladder)
