"""Many tools cost a plan as much as few, and its index lists the best tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import bench
from bench.toolbox import ALL, tasks, toolbox, write_tools
from bench.tools import measure, table
from runtime.catalogue.catalogue import Catalogue


def test_every_task_has_its_best_tool() -> None:
    tuned, fresh = tasks().values()
    names = [each.name for each in toolbox()]
    assert len(set(names)) == len(names) == ALL
    assert len({name.split("-")[0] for name in names}) >= 40
    assert len(tuned) == len(fresh) == 60
    assert not {*tuned.values(), *fresh.values()} - set(names)
    assert not tuned.keys() & fresh.keys()


def test_written_tools_are_valid_operations(tmp_path: Path) -> None:
    written = write_tools(tmp_path, 30)
    catalogue = Catalogue([tmp_path])
    assert not catalogue.faults
    assert catalogue.tools.keys() == {each.name for each in written}


@pytest.mark.alone
@pytest.mark.night
def test_five_hundred_tools_cost_a_plan_as_much_as_ten() -> None:
    figures = measure((10, ALL))
    few, many = figures["by_tools"]["10"], figures["by_tools"]["500"]
    assert abs(few["tokens"] - many["tokens"]) <= 0.1 * few["tokens"]
    assert many["plan_ms"] - few["plan_ms"] < 15, "5 on an idle machine"
    assert many["refresh_ms"] < 20, "10 on an idle machine"
    assert many["plan_ms"] < 50 * few["plan_ms"], "fifty times the tools"
    assert many["refresh_ms"] < many["read_ms"] / 4, "a refresh is much cheaper than reading them"
    assert many["recall"]["tuned"]["found"] >= 54
    assert many["recall"]["fresh"]["found"] >= 44


@pytest.mark.night
def test_the_figures_are_printed_as_a_table_and_as_an_object() -> None:
    figures = json.loads(CliRunner().invoke(bench, ["tools", "--json", "--tools", "10"]).stdout)
    assert figures["by_tools"]["10"]["recall"]["tuned"] == {"found": 10, "of": 10}
    assert table(figures).splitlines()[2].startswith("| 10 | ")
