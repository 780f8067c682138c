"""Trials: pairs, their interval, and their files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernel.errors import DocumentError
from runtime.evolution.trials import Compared, Pair, Trials


def compared(both: int, won: int, lost: int, neither: int = 0) -> Compared:
    sides = (
        [(True, True)] * both + [(False, True)] * won + [(True, False)] * lost + [(False, False)] * neither
    )
    return Compared([Pair(f"task {n}", *each) for n, each in enumerate(sides)])


@pytest.mark.parametrize(
    ("both", "won", "lost", "found"),
    [
        (5, 5, 0, "better"),
        (5, 0, 5, "worse"),
        (6, 4, 0, "undecided"),  # by chance in one of sixteen
        (9, 1, 0, "undecided"),
        (3, 6, 1, "undecided"),
        (9, 9, 1, "better"),
        (20, 0, 0, "undecided"),
        (0, 0, 0, "undecided"),
    ],
)
def test_only_what_chance_hardly_does_decides(both: int, won: int, lost: int, found: str) -> None:
    assert compared(both, won, lost).finding == found


def test_the_interval_holds_the_difference_and_narrows_with_more_pairs() -> None:
    few, many = compared(5, 3, 1), compared(50, 30, 10)
    for each in (few, many):
        low, high = each.interval
        assert -1 <= low < each.difference < high <= 1
    assert many.interval[1] - many.interval[0] < few.interval[1] - few.interval[0]


def test_half_a_pair_counts_for_nothing() -> None:
    whole = compared(2, 1, 0)
    halves = [Pair("a", True, None), Pair("b", None, False)]
    assert Compared([*whole.pairs, *halves]).counts == whole.counts == (3, 2, 3)
    assert "no task was done both ways" in Compared(halves).summary


def test_how_many_more_tasks_may_tell_is_true() -> None:
    found = compared(6, 4, 0)
    more = Compared([*found.pairs] * (1 + found.more // len(found.pairs)))
    assert more.finding == "better"
    assert f"{found.more} more tasks may tell" in found.summary


def test_a_kept_trial_reads_back_and_is_described_in_words(tmp_path: Path) -> None:
    trials = Trials(tmp_path / "trials")
    pairs = [Pair("a | b\nc", True, False, (2, 4), "it failed"), Pair("d", None, True)]
    trial = trials.keep(
        "pattern", "read-first", Compared(pairs), "2026-11-21T10:00:00Z", did="is switched off"
    )
    assert trials.all() == [trial]
    text = (tmp_path / "trials" / "t1.md").read_text()
    assert "# Trial of read-first\n\nundecided: 0 of 1 done with it, 1 without it (-100%" in text
    assert "| a \\| b c | done | not done | 2 · 4 |" in text
    assert trial.as_dict()["present"] == {"done": 1, "rate": 1.0, "calls": 2}


def test_a_record_that_cannot_be_read_says_which(tmp_path: Path) -> None:
    (tmp_path / "t3.md").write_text("---\npairs: 7\n---\n")
    with pytest.raises(DocumentError, match=r"t3\.md: invalid trial.*fix or remove it"):
        Trials(tmp_path).all()


def test_trials_that_are_kept_at_once_each_have_their_own_place(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    work = [
        threading.Thread(target=lambda n=n: trials.keep("tool", f"u{n}", compared(n, 0, 0))) for n in range(8)
    ]
    for each in work:
        each.start()
    for each in work:
        each.join()
    assert {each.unit for each in trials.all()} == {f"u{n}" for n in range(8)}
