"""What a model does at first, memory does later for less lifeforce."""

from __future__ import annotations

import pytest

from bench.maturing import LIFEFORCE, measure, table


@pytest.mark.night
def test_a_task_that_code_proves_becomes_a_reflex_and_a_judged_one_keeps_one_call() -> None:
    figures = measure(times=2, judged=2, pace=0.0)
    drive, judged, twice, pens = figures.values()
    assert [each["calls"] for each in drive] == [2, 0]
    assert [each["lifeforce"] for each in drive] == [2 * LIFEFORCE + 2.5, 2.5]
    assert [each["output"] for each in drive] == [f"goes on at 20 cm/s, front {90 - n} cm" for n in range(2)]
    assert [each["calls"] for each in judged] == [2, 1]
    assert [each["calls"] for each in twice] == [2, 2]
    assert [(each["output"], each["calls"]) for each in pens] == [("28", 2), ("41", 0)]
    assert "67%" in table(figures)
