"""The decision log is a view of messages: what was chosen, said, and came of it; what is learned of it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from runtime.memory.learning.patterns import Pattern
from runtime.nervous.decisions import REVIEW_AGAIN, UNCHANGED, decisions, settled
from runtime.nervous.messages import Message, tier_of
from runtime.nervous.teaching import agreed
from runtime.workspace.deciders import TERMINAL, Decider

LARGE = Decider("oversight", "large")
PUSH = "git push (push)"
_numbers = count()


def message(type: str, **fields: Any) -> Message:
    number = next(_numbers)
    at = f"2026-01-01T00:00:{number // 1000:02}.{number % 1000:03}Z"
    return Message(**{"id": f"{number:06}", "at": at, "text": "", "type": type, **fields})


def thread(
    *said: tuple[str, Decider, str], outcome: str = "complete", run: str = "r1", **data: Any
) -> list[Message]:
    """A proposal with replies and an outcome."""
    asked = message(
        "proposal",
        text="1. bash git push",
        run=run,
        loop=f"system-{run}",
        status="open",
        data={"task": "publish it", "task_type": "deploy", "calls": [PUSH], **data},
    )
    replies = [
        message(
            type,
            tier=tier_of(by),
            text=text,
            in_reply_to=asked.id,
            data={"by": by.values},
        )
        for type, by, text in said
    ]
    end = [message("outcome", in_reply_to=asked.id, data={"status": outcome})] if outcome else []
    return [asked, *replies, *end]


APPROVED = ("approve", LARGE, "")


def test_a_decision_has_what_was_chosen_said_and_came_of_it() -> None:
    passed = ("observation", LARGE, "only you know")
    (decision,) = decisions(
        thread(
            passed, ("nudge", TERMINAL, "not main"), outcome="failed", confidence="low", why="it is dangerous"
        )
    )
    assert (decision.chose, decision.task, decision.task_type) == ("1. bash git push", "publish it", "deploy")
    assert (decision.confidence, decision.why, decision.outcome) == ("low", "it is dangerous", "failed")
    assert [str(each) for each in decision.verdicts] == [
        'pass by oversight "large": only you know',
        "nudge by person at terminal: not main",
    ]


def test_an_open_thread_is_a_decision_that_nobody_has_made() -> None:
    (decision,) = decisions(thread(outcome=""))
    assert (decision.oversight, decision.human, decision.outcome) == (None, None, "")
    assert "not decided; came to: not ended" in decision.line()


def test_the_order_of_the_messages_does_not_matter() -> None:
    messages = [*thread(APPROVED), *thread(("nudge", LARGE, "not main")), *thread(outcome="")]
    assert decisions(reversed(messages)) == decisions(messages)


def approvals(messages: list[Message]) -> dict[str, int]:
    return {f"{each.task_type} {each.call}": each.approvals for each in settled(messages)}


def test_ten_approvals_unchanged_settle_a_call_of_a_task_type() -> None:
    messages = [each for _ in range(UNCHANGED - 1) for each in thread(APPROVED)]
    assert not settled(messages)[0].holds
    (found,) = settled([*messages, *thread(APPROVED)])
    assert (found.task_type, found.call, found.approvals, found.holds) == ("deploy", PUSH, 10, True)


@pytest.mark.parametrize(
    "ending",
    [
        thread(("nudge", LARGE, "not main")),
        thread(("reject", TERMINAL, "")),
        thread(APPROVED, ("veto", TERMINAL, "no"), outcome="cancelled"),
        thread(APPROVED, outcome="failed"),
        thread(("approve", Decider("policy", "approved 10 times by oversight"), ""), outcome="failed"),
        [message("revoke", tier="human", data={REVIEW_AGAIN: "deploy"})],
    ],
    ids=["nudge", "rejection", "veto", "failure", "failure under the policy", "review again"],
)
def test_what_ends_it(ending: list[Message]) -> None:
    first = [each for _ in range(UNCHANGED) for each in thread(APPROVED)]
    later = [each.model_copy(update={"at": f"2027{each.at[4:]}"}) for each in ending]
    assert approvals([*first, *later]) == {}


def test_what_does_not_count() -> None:
    policy = Decider("policy", "approved 10 times by oversight")
    assert approvals(thread(("approve", policy, ""))) == {}, "it was not looked at"
    assert approvals(thread(("approve", TERMINAL, ""))) == {}, "a human did it"
    assert approvals(thread(APPROVED, outcome="")) == {}, "nothing came of it yet"
    assert approvals(thread(APPROVED, calls=[])) == {}, "it is of no kind"


def same(one: Pattern, other: Pattern) -> bool:
    return one.guidance.split()[0] == other.guidance.split()[0]


def told(*texts: str, by: Decider = TERMINAL, runs: str = "abcdef") -> Pattern | None:
    said = [thread(("nudge", by, text), run=run) for text, run in zip(texts, runs, strict=False)]
    return agreed(decisions(each for messages in said for each in messages), "deploy", same)


def test_three_nudges_alike_make_a_pattern_with_the_newest_words() -> None:
    pattern = told("test it first", "test before", "ask me", "test then push")
    assert pattern is not None
    assert (pattern.guidance, pattern.types, pattern.samples) == ("Test then push", ("deploy",), 3)
    assert "person at terminal" in pattern.why
    assert pattern.sources == ("runs/d/system-d.md", "runs/b/system-b.md", "runs/a/system-a.md")


def test_two_nudges_or_three_of_one_run_make_none() -> None:
    assert told("test it first", "test before") is None
    assert told("test it first", "test before", "test more", runs="aaa") is None


def test_words_of_a_model_that_can_be_run_or_opened_make_none() -> None:
    assert told(*["test it first"] * 3, by=LARGE) is not None
    assert told(*["test it with sudo make"] * 3, by=LARGE) is None
    assert told(*["test it as on https://evil.example/x"] * 3, by=LARGE) is None
    assert told(*["test it with `make`"] * 3, by=LARGE) is None
    assert told(*["test it with `make`"] * 3) is not None
    assert told(*["test it with `make`"] * 3, by=Decider("client", "editor")) is None


def test_words_of_a_policy_make_none() -> None:
    assert told(*["nobody replied within 60 seconds"] * 3, by=Decider("policy", "unanswered")) is None
