from __future__ import annotations

from pathlib import Path

import pytest
from streaming import Play, Worker, library_of, stream

from runtime.memory.learning.patterns import read


def test_a_stream_of_runs_teaches_what_separates_those_that_went_well(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    worker = Worker(heeds=False)
    played = stream(play, work, 24, worker)
    statuses = {each.result.status for each in played}
    assert statuses == {"complete", "escalated"}
    found = library_of(work).get("read-before-edit")
    assert found is not None, [each.name for each in library_of(work).all()]
    assert found.guidance == "Before `edit`, use `read` on the same file."
    assert found.rule == "before-same edit read"
    assert found.types == ("edit",)
    assert all((work / "state" / each).is_file() for each in found.sources) and found.sources
    assert "(patterns/read-before-edit.md)" in worker.told[-1]
