"""A file of named arrays that is damaged is read as if there were none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from runtime.memory.store import arrays


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "some.arrays"
    arrays.save(path, {"epoch": 1}, {"numbers": [np.arange(3)], "rows": [np.ones((3, 2), "<f4")]})
    return path


def rewritten(path: Path, **changes: object) -> Path:
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    head = json.dumps({**json.loads(raw[8 : 8 + size]), **changes}).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + raw[8 + size :])
    return path


def test_what_is_saved_is_loaded(path: Path) -> None:
    head, found = arrays.load(path) or ({}, {})
    assert head["epoch"] == 1
    assert found["numbers"].tolist() == [0, 1, 2]
    assert found["rows"].shape == (3, 2)


@pytest.mark.parametrize(
    "places",
    [5, [], {"numbers": 5}, {"numbers": [0, "nonsense", [3]]}, {"numbers": [0, "<i8", [4711]]}],
)
def test_a_head_that_fits_no_arrays_is_no_file(path: Path, places: object) -> None:
    assert arrays.load(rewritten(path, arrays=places)) is None


@pytest.mark.parametrize("length", [0, 4, 8, 100])
def test_a_file_that_was_cut_off_is_no_file(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])
    assert arrays.load(path) is None
