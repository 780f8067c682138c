"""`python -m bench week`: what is due, what fades, what a goal changes, and what is noticed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bench.week import AFTER, DAYS, GOAL, MONDAY, WANTED, Week, mean_place, read
from bench.week_shown import draw, plot, table
from runtime.api.knowledge import recall
from runtime.memory.episodes.experience import Experience

WEEK = read()


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Week:
    week = Week(tmp_path_factory.mktemp("plain"), embedder="lexical")
    week.live(WEEK)
    return week


@pytest.fixture(scope="module")
def with_goal(tmp_path_factory) -> Week:
    week = Week(tmp_path_factory.mktemp("goal"), embedder="lexical", goal=GOAL)
    week.live(WEEK)
    return week


@pytest.mark.night
def test_each_night_reviews_what_is_due(plain: Week):
    assert [day.day for day in plain.days] == list(range(1, DAYS + 1))
    assert sum(day.due for day in plain.days) > 20
    for day in plain.days:
        assert abs(sum(day.grades.values()) - day.due) <= 2  # the dream itself makes some due, and ends some
    memories = [day.memories for day in plain.days]
    assert memories == sorted(memories) and memories[-1] < plain.days[-1].observations / 2


def test_used_memories_stay_longer_than_unused_ones(plain: Week):
    for days in (7, AFTER):
        then = plain.remembered(MONDAY + timedelta(days=DAYS + days))
        assert then["used more often"] > then["never used"] + 0.02
    left = [plain.left(days) for days in (0, 7, AFTER)]
    assert [each["stay"] for each in left] == sorted((each["stay"] for each in left), reverse=True)
    assert left[-1]["forgotten"] > left[0]["forgotten"] == 0


def test_a_forgotten_memory_is_still_found(plain: Week):
    plain.now = MONDAY + timedelta(days=DAYS + 300)
    found = recall(plain.fractal, "Where does the plumber come in, what did he replace?")
    assert any("replaced the washer" in each.text for each in found)


@pytest.mark.night
def test_a_goal_changes_consolidation_and_walks(plain: Week, with_goal: Week):
    assert mean_place(with_goal.days) < mean_place(plain.days) - 0.05
    assert with_goal.walked(40) > plain.walked(40)
    assert WANTED in set(with_goal.subjects().values())


def test_the_runs_of_the_week_become_experiences(plain: Week):
    runs = list(plain.fractal.brain.episodes.all())
    assert len(runs) == plain.runs == 7 and all(
        isinstance(each, Experience) and each.success for each in runs
    )
    (asked, *_) = [each for each in runs if each.text == "what do you know about my sister?"]
    assert asked.tools == ("recall",)


@pytest.mark.night
def test_saturation_is_noticed_only_when_statements_repeat(with_goal: Week):
    assert not any(day.saturated for day in with_goal.days)
    day = with_goal.echo(WEEK)
    assert day is not None and DAYS < day <= DAYS + 14


def test_a_cut_graph_has_a_falling_trend(plain: Week):
    torn = plain.tear()
    assert torn["cut"] > 0 and torn["after"]["components"] > torn["before"]["components"]
    assert torn["after"]["largest"] < torn["before"]["largest"] and torn["trend"] == "falling"


def test_the_week_is_printed_and_drawn(tmp_path):
    curves = {"dog": [(1.0, 1.0), (37.0, 0.75)], "home": [(1.0, 1.0), (37.0, 0.5)]}
    lines = plot(curves)
    assert lines[0].startswith("o dog  * home") and "=" in lines[1] and lines[-1].endswith("day 37")
    assert plot({}) == ["(no memories)"]
    figures = {
        "days": [
            {"day": 1, "observations": 2, "memories": 1, "due": 1, "grades": {"good": 1}}
            | {"fiedler": 0.5, "components": 1, "surprise": None, "saturated": False}
        ],
        "curves": curves,
        "left": {"0": {"stay": 1, "fade": 0, "forgotten": 0}},
        "runs": 1,
        "experiences": 1,
        "embedder": "lexical-1",
        "goal": {"place": {"with": 0.1, "without": 0.3}, "walks": {"with": 0.4, "without": 0.2}},
        "saturated_on": 16,
        "torn": {"cut": 1, "trend": "falling"}
        | {name: {"components": 1, "largest": 2, "fiedler": 0.1} for name in ("before", "after")},
    }
    text = table(figures)
    assert "noticed on day 16" in text and "| 1 | 2 | 1 | 1 | 0 · 0 · 1 · 0 |" in text
    pytest.importorskip("matplotlib")
    draw(figures, tmp_path / "week.png")
    assert (tmp_path / "week.png").read_bytes().startswith(b"\x89PNG")
