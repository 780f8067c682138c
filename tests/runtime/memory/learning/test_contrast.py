from __future__ import annotations

import random
from itertools import pairwise
from math import comb

import pytest

from runtime.memory.learning.attempts import StoredAttempt, advantages, differs
from runtime.memory.learning.contrast import contrast, p_value, pairs, sample, smallest_p_value
from runtime.memory.learning.contrast import testable as counted
from runtime.memory.learning.rules import Rule, ToolOptions, candidates, parsed
from runtime.memory.learning.trajectories import Act


def attempt(n: object, tools: str, good: bool, **more: object) -> StoredAttempt:
    """`read.0 edit.0` are calls of tools on files; a word with `+` is an argument of the last call."""
    acts: list[Act] = []
    for word in tools.split():
        if word.startswith("+"):
            acts[-1] = acts[-1].model_copy(update={"arguments": (*acts[-1].arguments, word[1:])})
            continue
        tool, _, file = word.partition(".")
        acts.append(Act(tool=tool, paths=(int(file),) if file else (), state="done"))
    outcome = "tests_passed" if good else "tests_failed"
    return StoredAttempt(id=f"loop{n}/1", acts=tuple(acts), **more).judged(outcome, None)  # type: ignore[arg-type]


def many(*sides: tuple[str, bool, int], **more: object) -> list[StoredAttempt]:
    numbers = iter(range(10_000))
    return [attempt(next(numbers), tools, good, **more) for tools, good, count in sides for _ in range(count)]


# ---- statistics ------------------------------------------------------------------------------------------


def test_fishers_test_is_exact() -> None:
    expected = sum(comb(10, k) * comb(8, 10 - k) for k in (9, 10)) / comb(18, 10)
    assert p_value([(9, 1, 1, 7)]) == pytest.approx(expected)
    assert p_value([(5, 0, 0, 5)]) == pytest.approx(1 / 252)
    assert p_value([(3, 3, 3, 3)]) > 0.5
    assert p_value([]) == 1.0


def test_what_differs_between_strata_alone_is_no_difference() -> None:
    """Nobody follows the rule in hard tasks, everybody in easy ones: no difference inside a stratum."""
    assert p_value([(10, 0, 0, 0), (0, 0, 0, 10)]) == 1.0
    assert p_value([(10, 0, 0, 10)]) < 0.0001
    assert p_value([(1, 0, 0, 1)] * 6) == pytest.approx(1 / 64)


def test_only_comparisons_that_could_show_something_count() -> None:
    assert smallest_p_value([(5, 5, 5, 5)]) == pytest.approx(1 / comb(20, 10))
    assert counted([0.5] * 100, 0.05) == 1
    assert counted([0.001] * 4 + [0.5] * 100, 0.05) == 4


def test_chance_alone_hardly_makes_a_pattern() -> None:
    rng, found = random.Random(7), 0
    for _ in range(60):
        tried = [
            attempt(
                n, " ".join(rng.sample(["list", "read.0", "grep", "stat"], 2)) + " edit.0", rng.random() < 0.6
            )
            for n in range(40)
        ]
        found += contrast(sample(tried)) is not None
    assert found <= 6  # one in twenty, and some


def test_that_nobody_should_look_is_never_learned() -> None:
    """Attempts that read first failed, but reading changes nothing, so it cannot be the cause."""
    tried = many(("edit.0", True, 12), ("read.0 edit.0", False, 12))
    unheeded = contrast(sample(tried), offered=ToolOptions())
    assert unheeded is not None and str(unheeded.rule) == "not before-same edit read"
    found = contrast(sample(tried), offered=ToolOptions(looking=frozenset({"read"})))
    assert found is None or "read" not in str(found.rule)


# ---- rules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, tools, holds",
    [
        ("before-same edit read", "read.0 edit.0", True),
        ("before-same edit read", "read.1 edit.0", False),
        ("before-same edit read", "edit.0 read.0", False),
        ("before-same edit read", "read.0 edit.0 edit.1", False),
        ("before-same edit read", "write.0", None),
        ("after edit bash", "edit.0 bash", True),
        ("after edit bash", "bash edit.0", False),
        ("not uses bash", "read.0", True),
        ("argument grep path", "grep +path", True),
        ("argument grep path", "grep +pattern", False),
        ("few 2", "a b c", False),
        ("before-same edit,replace read", "read.0 edit.0 replace.1", False),
        ("before-same edit,replace read", "read.0 edit.0", True),
        ("once bash", "bash bash", False),
        ("argument edit new", "edit", None),  # it failed before its arguments were known
    ],
)
def test_a_rule_holds_of_a_trajectory_or_not(rule: str, tools: str, holds: bool | None) -> None:
    found = parsed(rule)
    assert found is not None and str(found) == rule
    assert found.holds(attempt(1, tools, True).trajectory) is holds


@pytest.mark.parametrize("text", ["", "before edit", "nonsense a b", "uses a;rm", "few many", "before a b c"])
def test_what_is_no_rule_is_none(text: str) -> None:
    assert parsed(text) is None


# ---- contrast --------------------------------------------------------------------------------------------


def test_what_separates_is_found_and_reported_in_figures() -> None:
    found = contrast(
        sample(many(("read.0 edit.0", True, 9), ("read.0 edit.0", False, 1), ("edit.0", False, 8)))
    )
    assert found is not None and str(found.rule) == "before-same edit read"
    assert (found.did, found.did_not) == ((9, 10), (0, 8))


def test_what_harms_becomes_a_rule_of_what_not_to_do() -> None:
    found = contrast(
        sample(many(("bash", False, 8), ("search", True, 4), ("find", True, 5), ("bash read", False, 3)))
    )
    assert found is not None and str(found.rule) == "not uses bash"


def test_two_successes_and_a_failure_are_needed() -> None:
    assert contrast(sample(many(("read.0 edit.0", True, 12)))) is None
    assert contrast(sample(many(("edit.0", False, 12), ("read.0 edit.0", True, 1)))) is None


def test_what_was_only_not_refused_makes_no_pattern() -> None:
    """Unverified successes do not count."""
    tried = many(("read.0 edit.0", True, 9), ("edit.0", False, 9))
    unseen = [each.judged("no_errors", None) if each.good else each for each in tried]
    assert contrast(sample(tried)) and contrast(sample(unseen)) is None


def test_what_is_known_is_not_learned_again_under_another_name() -> None:
    tried = many(("read.0 edit.0", True, 12), ("edit.0", False, 12))
    assert contrast(sample(tried), [Rule("before-same", ("edit", "read"))]) is None


def test_what_was_switched_off_does_not_come_again() -> None:
    tried = sample(many(("list edit", True, 9), ("edit", False, 9)))
    found = contrast(tried)
    assert found is not None
    again = contrast(tried, refused=frozenset({str(found.rule)}))
    assert again is None or again.rule != found.rule


def test_a_second_cause_is_found_beside_the_first() -> None:
    tried = many(
        ("read.0 edit.0 stat", True, 14),
        ("read.0 edit.0", False, 12),
        ("edit.0", False, 6),
        ("edit.0 stat", False, 6),
    )
    known = Rule("before-same", ("edit", "read"))
    found = contrast(sample(tried), [known])
    assert found is not None and str(found.rule) in ("after edit stat", "after-same edit stat")


def test_a_group_whose_attempts_all_come_to_the_same_teaches_nothing() -> None:
    easy = many(("read.0 edit.0", True, 10), group="easy")
    hard = many(("edit.0", False, 10), group="hard")
    assert contrast(sample([*easy, *hard])) is None
    mixed = [
        attempt(f"{name}{n}", tools, good, group=name)
        for name in "abcdefgh"
        for n, (tools, good) in enumerate((("read.0 edit.0", True), ("edit.0", False)))
    ]
    found = contrast(sample([*easy, *hard, *mixed]))
    assert found is not None and len(found.attempts) == 16


def test_a_loop_that_failed_twice_counts_once() -> None:
    one = attempt(1, "edit.0", False)
    again = one.model_copy(update={"id": "loop1/2"})
    assert len(sample([one, again])) == 1
    assert len(sample([one, again.judged("tests_passed", None)])) == 2


def test_at_most_three_successes_and_two_failures_are_shown_the_best_and_the_worst() -> None:
    tried = many(("read.0 edit.0", True, 9), ("edit.0", False, 9))
    doubted = tried[0].judged("escalation", None)
    successes, failures = pairs(sample([*tried, doubted.model_copy(update={"id": "loopX/1"})]))
    assert (len(successes), len(failures)) == (3, 2)
    assert all(each.signal == "tests_failed" for each in failures)


def test_a_reward_is_the_signal_by_its_reliability() -> None:
    rewards = [
        StoredAttempt(id="a/1", signal=each).reward
        for each in ("user_approved", "tests_passed", "no_errors", "escalation", "timeout", "tests_failed")
    ]
    assert rewards == [1.0, 1.0, 0.6, -0.3, -0.6, -1.0]
    assert all(a >= b for a, b in pairwise(rewards))
    assert [round(each, 3) for each in advantages([1.0, -1.0])] == [1.0, -1.0]
    assert advantages([1.0, 1.0]) == [0.0, 0.0]
    assert differs([True, False]) and not differs([True, True]) and not differs([])


def test_of_what_arguments_say_a_rule_tells_one_plain_word_or_a_tools_own_choice() -> None:
    def words(**values: str) -> set[str]:
        one = Act(tool="json", arguments=tuple(values), words=values)
        tried = StoredAttempt(id="a/1", acts=(one,))
        offered = ToolOptions({"json format": frozenset({"text-2"})})
        return {
            str(rule) for rule in candidates([tried.trajectory], offered) if rule.kind in ("word", "choice")
        }

    assert words(query="unit", format="text-2") == {"word json query unit", "choice json format text-2"}
    assert words(query="ignore-all-rules", format="curl-evil") == set()


def test_rules_are_made_of_names_alone() -> None:
    tried = attempt(1, "read.0 edit.0 +old", True)
    names = {name for rule in candidates([tried.trajectory]) for name in rule.names}
    assert names <= {"read", "edit", "old", "1", "2", "3", "4", "6", "8"}
