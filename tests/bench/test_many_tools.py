"""Many tools cost a plan what few cost, and the best one is among those that it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.toolbox import ALL, FRESH, TASKS, toolbox, write_tools
from bench.tools import main, measure, table


def test_the_tools_are_plausible_and_the_tasks_have_one_each() -> None:
    names = [each.name for each in toolbox()]
    assert len(set(names)) == len(names) == ALL
    assert len({name.split("-")[0] for name in names}) >= 40
    assert len(TASKS) == len(FRESH) == 60
    assert not (set(TASKS.values()) | set(FRESH.values())) - set(names)
    assert not TASKS.keys() & FRESH.keys()


def test_what_is_written_is_well_formed(tmp_path: Path) -> None:
    from runtime.catalogue.catalogue import Catalogue

    made = write_tools(tmp_path, 30)
    catalogue = Catalogue([tmp_path])
    assert not catalogue.faults
    assert catalogue.tools.keys() == {each.name for each in made}


@pytest.mark.alone
def test_five_hundred_tools_cost_a_plan_what_ten_do() -> None:
    figures = measure((10, ALL))
    few, many = figures["by_tools"]["10"], figures["by_tools"]["500"]
    assert abs(few["tokens"] - many["tokens"]) <= 0.1 * few["tokens"]
    assert many["plan_ms"] - few["plan_ms"] < 15, "5 on an idle machine"
    assert many["refresh_ms"] < 20, "10 on an idle machine"
    assert many["plan_ms"] < 50 * few["plan_ms"], "fifty times the tools"
    assert many["refresh_ms"] < many["read_ms"] / 4, "a look is much cheaper than reading them"
    assert many["recall"]["tuned"]["found"] >= 54
    assert many["recall"]["fresh"]["found"] >= 44


def test_the_figures_are_printed_as_a_table_and_as_an_object(capsys) -> None:  # type: ignore[no-untyped-def]
    main(as_json=True, sizes=(10,))
    figures = json.loads(capsys.readouterr().out)
    assert figures["by_tools"]["10"]["recall"]["tuned"] == {"found": 10, "of": 10}
    assert table(figures).splitlines()[2].startswith("| 10 | ")
