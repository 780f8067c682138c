"""`fractal bench dangers` counts what it says."""

from __future__ import annotations

import json
import subprocess
import sys

from runtime.bench.dangers import Entry, measure, summary, table


def test_what_is_missed_and_what_is_stopped_is_told() -> None:
    listed = [
        Entry("force-push", "git push --force"),
        Entry("force-push", "rm -rf ~"),
        Entry("power", "date"),
        Entry("", "git push"),
        Entry("", "reboot"),
    ]
    figures = measure(listed)
    assert figures["by_rule"] == {
        "force-push": {"entries": 2, "caught": 2, "named": 1},
        "power": {"entries": 1, "caught": 0, "named": 0},
    }
    assert (figures["entries"], figures["caught"], figures["missed"]) == (3, 2, ["date"])
    assert (figures["harmless"], figures["let_through"], figures["stopped"]) == (2, 1, ["reboot"])
    assert "| all | 3 | 2 | 1 |" in table(figures)
    assert "| 2 of 3 |" in summary(figures)


def test_the_command_passes_on_the_list_that_ships() -> None:
    command = [sys.executable, "-m", "runtime.cli", "bench", "dangers"]
    ran = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=100)
    figures = json.loads(ran.stdout)
    assert (ran.returncode, figures["missed"]) == (0, [])
    assert 0 < figures["p50_ms"] <= figures["p95_ms"] < 100
    shown = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert f"| all | {figures['entries']} | {figures['caught']} |" in shown.stdout
