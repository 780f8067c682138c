"""The comparison with other frameworks: the server's scripts lead Fractal to the end of the job."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.peers.measure import SYSTEMS, missed, run_once
from bench.peers.server import Scripted


@pytest.mark.parametrize(
    "name", ["Fractal, turn by turn", pytest.param("Fractal, planned at once", marks=pytest.mark.night)]
)
def test_the_script_ends_the_job(name):
    with Scripted().running() as server:
        ended = run_once(SYSTEMS[name], Path(sys.executable), server.play("job", SYSTEMS[name].script))
        assert server.requests["job"] == len(SYSTEMS[name].script)
    assert ended.mb > 10


def test_a_peer_that_needs_less_is_reported():
    own, peer = {"cpu_s": 1.0, "rss_mb": 90}, {"cpu_s": 2.0, "rss_mb": 80}
    assert missed({"Fractal, turn by turn": own, "another": peer}) == [
        "Fractal, turn by turn: rss_mb 90, the best peer has 80"
    ]
