"""Growth by month, from runs, messages and the journal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from click.testing import CliRunner

from runtime.cli import cli
from runtime.evolution.journal import Entry
from runtime.nervous.growth import Month, growth, svg
from runtime.nervous.messages import Message
from runtime.workspace.runs import RunSummary

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def ran(run: str, month: str, status: str = "complete") -> RunSummary:
    at = f"2026-{month}-03T10:00:00Z"
    return RunSummary(run, f"system-{run}", status, "a task", at, at, {}, "/work")


def said(id: str, month: str, type: str, run: str, tier: str = "worker") -> Message:
    fields = {"type": type, "run": run, "tier": tier, "at": f"2026-{month}-03T10:00:00Z"}
    return Message.model_validate({"id": id, "text": "", **fields})


def report(id: str, month: str, round: int, *, passed: bool) -> Message:
    data = {"round": round, "passed": passed}
    return said(id, month, "test_report", "a").model_copy(update={"data": data})


RUNS = [
    ran("a", "09"),
    ran("b", "09", "unverified"),
    ran("c", "10"),
    ran("d", "11", "failed"),
    ran("e", "11"),
    ran("f", "11", "running"),
]
MESSAGES = [
    said("1", "09", "escalation", "a"),
    said("2", "09", "answer", "a", "oversight"),
    said("3", "10", "grant", "", "oversight"),
    said("4", "11", "proposal", "d"),
    said("5", "11", "outcome", "e"),
    report("6", "09", 1, passed=False),
    report("7", "09", 2, passed=True),
    report("8", "09", 1, passed=True),
    report("9", "11", 1, passed=True),
]
ENTRIES = [
    Entry(1, "2026-10-03T10:00:00Z", "added", "tools/door", "person"),
    Entry(2, "2026-10-04T10:00:00Z", "found", "tools/door", "person"),
    Entry(3, "2026-10-05T10:00:00Z", "edited", "tools/other", "person"),
    Entry(4, "2026-10-05T10:00:00Z", "added", "phases/plan.md", "person"),
]


def test_each_month_has_its_counts_and_shares() -> None:
    september, october, november = growth(RUNS, MESSAGES, ENTRIES, NOW)
    assert september == Month("2026-09", 2, 0, 0, 1, 0.5, 0.5, 0.5)
    assert october == Month("2026-10", 1, 1, 1, 0, 0.0, None, 1.0)
    assert november == Month("2026-11", 3, 0, 0, 0, 0.0, 1.0, 0.3333)


def test_months_before_the_first_record_and_beyond_the_asked_ones_are_left_out() -> None:
    assert [each.month for each in growth(RUNS, MESSAGES, ENTRIES, NOW, months=2)] == ["2026-10", "2026-11"]
    assert growth([], [], [], NOW) == [Month("2026-11")]
    winter = growth([], [said("1", "11", "grant", "")], [], datetime(2027, 1, 5, tzinfo=UTC))
    assert [each.month for each in winter] == ["2026-11", "2026-12", "2027-01"]


def test_the_picture_is_a_line_for_each_share() -> None:
    picture = ElementTree.fromstring(svg(growth(RUNS, MESSAGES, ENTRIES, NOW)))
    lines = [each.attrib["points"].split() for each in picture.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(points) for points in lines] == [3, 2, 3]
    assert svg([Month("2026-11")])
    many = ElementTree.fromstring(svg([Month(f"20{year}-01") for year in range(10, 46)]))
    named = [each.text for each in many.iter("{http://www.w3.org/2000/svg}text") if "-01" in str(each.text)]
    assert len(named) == 9 and named[0] == "2045-01"  # the newest, and as many as there is room for


def test_the_command_prints_months_and_draws(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("")
    call = ["-C", str(tmp_path), "growth"]
    done = CliRunner().invoke(cli, [*call, "--json", "--svg", str(tmp_path / "growth.svg")])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[0]["tasks"] == 0
    assert (tmp_path / "growth.svg").read_text().startswith("<svg")
    assert "AUTONOMY" in CliRunner().invoke(cli, call).output


def test_lifeforce_is_shown_where_it_is_counted(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("")
    call = ["-C", str(tmp_path), "lifeforce"]
    assert "not counted" in CliRunner().invoke(cli, call).output
    (tmp_path / "fractal.yaml").write_text("lifeforce: {capacity: 100, per_hour: 20}")
    assert CliRunner().invoke(cli, call).output == "default: 100 of 100 free; time restores 20 an hour\n"
    free = json.loads(CliRunner().invoke(cli, [*call, "--json"]).stdout)
    assert free == {
        "agent": "default",
        "capacity": 100,
        "per_hour": 20,
        "per_run": None,
        "free": 100,
        "reserved": 0,
    }
