"""`python -m bench overhead` measures what the README quotes. Machine-independent ones meet their goals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lanes import NIGHT

from bench import overhead
from bench.job import SHAPES

pytestmark = pytest.mark.alone if NIGHT else []  # the fixture measures for some seconds


FEW, MANY = 10, 200 if NIGHT else 60
BY_DAY = {"planned": 40, "asked": 80, "side by side": 40, "children": 160}
"""Steps of a run whose halves are compared; children are written in blocks, so that fewer show nothing."""


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return overhead.measure(quick=True, halves=None if NIGHT else BY_DAY, sizes=(FEW, MANY))


def test_the_figures_have_the_documented_keys(figures: dict[str, Any]) -> None:
    assert set(figures["instruction_tokens"]) == {"turn", "do", "check"}
    assert set(figures["job"]) == {"planned", "stepwise"}
    for each in overhead.BY_SIZE:
        assert list(figures[each]) == [str(FEW), str(MANY)]
    assert set(figures["hello"]) == {"wall_s", "libraries_s", "rss_mb"}
    json.dumps(figures)


def test_instructions_and_prompts_meet_their_goals(figures: dict[str, Any]) -> None:
    if figures["tokenizer"] != "cl100k_base":
        pytest.skip("litellm's tokenizer files are not installed")
    assert max(figures["instruction_tokens"].values()) <= 250
    assert figures["instruction_tokens"]["turn"] <= 150
    assert figures["tool_index_tokens"] <= 150
    assert figures["schema_tokens"] <= 350
    assert figures["job"]["planned"]["calls"] == 2
    assert figures["job"]["planned"]["prompt_tokens"] <= 3_000
    stepwise, upfront = figures["job"]["stepwise"], figures["job_with_all_instructions_up_front"]["stepwise"]
    assert stepwise["prompt_tokens"] <= 10_000  # each step sees the results of all steps before it
    work = stepwise["work_tokens"]
    assert upfront["prompt_tokens"] - work > 3.5 * (stepwise["prompt_tokens"] - work)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_costs_the_same_at_the_end_of_a_long_run(figures: dict[str, Any], shape: str) -> None:
    """Compares the halves of 200 steps, by day of fewer. CPU time needs a margin on a shared machine."""
    cpu, written = (figures["shapes"][shape][key] for key in ("cpu_ms_per_step", "bytes_per_step"))
    assert written[1] <= 1.2 * written[0]
    assert not NIGHT or cpu[1] <= 1.6 * cpu[0]


def test_bytes_per_step_do_not_grow_with_the_run(figures: dict[str, Any]) -> None:
    written = figures["bytes_per_step"]
    assert 0 < written[str(MANY)] <= written[str(FEW)] <= 6_500  # with what the run shows and keeps once


def test_the_table_shows_each_figure_beside_its_goal(figures: dict[str, Any]) -> None:
    lines = overhead.table(figures).splitlines()
    assert len(lines) == 2 + len(overhead.GOALS)
    assert all(line.count("|") == 4 for line in lines)


def test_remembering_costs_once_per_run(figures: dict[str, Any]) -> None:
    plain, more = figures["bytes_per_step"], figures["bytes_per_step_remembering"]
    once = FEW * (more[str(FEW)] - plain[str(FEW)])
    assert 0 < MANY * (more[str(MANY)] - plain[str(MANY)]) <= 4 * once
