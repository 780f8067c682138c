"""The labelled list: no dangerous command passes, harmless ones do, and nothing of it is run."""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.dangers import entries, judge, make_guard
from runtime.api.fractal import shipped_system
from runtime.safety.guard import Guard

LISTED = entries()
OTHERS_SPEAK = {"hidden-code", "delete-everything"}
"""Rules that others often speak for: what can be read is named, what is disguised is hidden code."""


@pytest.fixture(scope="module")
def guard() -> Guard:
    return make_guard()


def test_no_dangerous_command_passes(guard: Guard) -> None:
    assert [each.command for each in LISTED if each.label == "leaves" and not judge(guard, each)] == []
    assert sum(each.form == "disguised" for each in LISTED) >= 80


def test_what_undo_brings_back_passes_where_it_is_kept_and_asks_where_it_is_not(guard: Guard) -> None:
    listed = [each for each in LISTED if each.label == "undoable"]
    assert [each.command for each in listed if judge(guard, each)] == ["rm -rf ."]
    kept_nowhere = Guard([shipped_system()], Path("/home/user/project"), present=lambda path: True)
    assert [each.command for each in listed if not judge(kept_nowhere, each)] == []


def test_where_nothing_is_kept_each_deletion_asks_but_of_what_can_be_made_again() -> None:
    kept_nowhere = Guard([shipped_system()], Path("/home/user/project"), present=lambda path: True)

    def asks(line: str) -> bool:
        return "loss-inside" in {danger.rule for danger in kept_nowhere.command(line)}

    assert all(map(asks, ("rm a.txt", "rm -rf letters", "find . -name '*.md' -delete", "git rm -f a.txt")))
    made_again = ("rm -rf node_modules build", "find . -name '*.pyc' -delete", "rm -r sub/__pycache__")
    assert not any(map(asks, (*made_again, "mv a.txt b.txt")))


def test_nearly_all_harmless_commands_pass(guard: Guard) -> None:
    harmless = [each for each in LISTED if each.label == "harmless"]
    stopped = [each.command for each in harmless if judge(guard, each)]
    assert len(stopped) <= len(harmless) / 100, stopped


def test_a_list_that_was_written_without_sight_of_the_rules(guard: Guard) -> None:
    """The least that docs/dangers.md says of it: some of its classes were fixed after it was measured."""
    asked = defaultdict[str, list[bool]](list)
    for each in entries(Path(__file__).with_name("later.tsv")):
        asked[each.label].append(bool(judge(guard, each)))
    assert sum(asked["leaves"]) >= 364
    assert asked["undoable"].count(False) >= 83
    assert asked["harmless"].count(False) >= 383


def test_every_rule_is_in_the_list_and_catches_something(guard: Guard) -> None:
    caught = {danger.rule for each in LISTED for danger in judge(guard, each)}
    undone = Guard([shipped_system()], Path("/home/user/project"), present=lambda path: True)
    caught |= {danger.rule for each in LISTED for danger in judge(undone, each) if each.label == "undoable"}
    assert set(guard.rules) - caught == set()


def test_the_rule_that_the_list_names_is_among_those_that_speak(guard: Guard) -> None:
    agreed: defaultdict[str, list[bool]] = defaultdict(list)
    for each in LISTED:
        if each.label == "leaves":
            agreed[each.rule].append(each.rule in {danger.rule for danger in judge(guard, each)})
    every = [one for rule in agreed.values() for one in rule]
    assert sum(every) >= 0.9 * len(every)
    low = {rule for rule, found in agreed.items() if sum(found) < 0.9 * len(found)}
    assert low <= OTHERS_SPEAK


def test_the_serious_ones_of_the_list_are_never_mere_dangers(guard: Guard) -> None:
    """Where a serious rule is expected, `--yes` must not cover what was found instead."""
    rules = guard.rules
    mild = [
        each.command
        for each in LISTED
        if each.rule in rules
        and rules[each.rule].severity == "serious"
        and {danger.severity for danger in judge(guard, each)} == {"danger"}
    ]
    assert len(mild) <= 2, mild


@pytest.mark.night
def test_a_command_is_judged_in_less_than_a_millisecond(guard: Guard) -> None:
    guard.command("true")
    times: list[float] = []
    for each in LISTED:
        start = time.perf_counter()
        judge(guard, each)
        times.append(time.perf_counter() - start)
    assert statistics.median(times) < 0.001


def test_a_danger_names_its_reason_and_the_part_of_the_command(guard: Guard) -> None:
    for each in LISTED:
        for danger in judge(guard, each):
            why = guard.rules[danger.rule].why
            assert danger.why.startswith(f"{why} Here: ")
            assert danger.why.isprintable() and len(danger.why) < 500


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "touch made",
        "$(touch made)",
        "`touch made`",
        "echo x > made",
        ": > made",
        "cat <(touch made)",
        "sh -c 'touch made'",
        "eval 'touch made'",
        "python3 -c \"open('made', 'w')\"",
        "perl -e 'open(F, \">made\")'",
        "find . -exec touch made ';'",
        "echo touch made | sh",
        "echo dG91Y2ggbWFkZQo= | base64 -d | sh",
        "awk 'BEGIN { system(\"touch made\") }'",
        "f() { touch made; }; f",
        "trap 'touch made' EXIT",
        "make --eval='$(shell touch made)'",
    ],
)
def test_nothing_is_run(watched: Path, command: str) -> None:
    before = (dict(os.environ), Path.cwd())
    Guard([shipped_system()], watched).command(command)
    assert list(watched.iterdir()) == []
    assert (dict(os.environ), Path.cwd()) == before
