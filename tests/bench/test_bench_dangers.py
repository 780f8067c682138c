"""`python -m bench dangers` counts the commands that the rules catch and stop."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from lanes import NIGHT
from warm import run

from bench.dangers import Entry, entries, measure, table
from kernel.errors import UsageError


def test_missed_and_wrongly_stopped_commands_are_listed() -> None:
    listed = [
        Entry("leaves", "git push --force", "force-push"),
        Entry("leaves", "rm -rf ~", "force-push"),
        Entry("leaves", "date", "power"),
        Entry("harmless", "git pull"),
        Entry("harmless", "reboot"),
        Entry("undoable", "sed -i 1d a.txt"),
    ]
    figures = measure(listed=listed)
    assert figures["by_rule"] == {
        "force-push": {"entries": 2, "caught": 2, "named": 1},
        "power": {"entries": 1, "caught": 0, "named": 0},
    }
    assert (figures["entries"], figures["caught"], figures["missed"]) == (3, 2, ["date"])
    assert (figures["harmless"], figures["harmless_let_through"], figures["stopped"]) == (2, 1, ["reboot"])
    assert (figures["undoable"], figures["undoable_let_through"]) == (1, 1)
    assert "| all | 3 | 2 | 1 |" in table(figures)
    assert "| 2 of 3 |" in table(figures)


def test_your_own_list_needs_labels_and_commands(tmp_path: Path) -> None:
    own = tmp_path / "own.tsv"
    own.write_text("# mine\nleaves\tgit push --force\nharmless\techo a\\nb\n")
    assert entries(own) == [Entry("leaves", "git push --force"), Entry("harmless", "echo a\nb")]
    own.write_text("leaves\tls\nbad\tls\n")
    with pytest.raises(UsageError, match=r"own.tsv:2: a line is a label"):
        entries(own)


def test_the_command_meets_its_goals_on_the_list_that_ships() -> None:
    ran = run(
        [sys.executable, "-m", "bench", "dangers", "--json"], capture_output=True, text=True, timeout=100
    )
    figures = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr, figures["missed"]) == (0, "", []), figures["stopped"]
    assert 0 < figures["p50_ms"] <= figures["p95_ms"] < (100 if NIGHT else 10_000)
    assert f"| all | {figures['entries']} | {figures['caught']} |" in table(figures)
