"""Five hundred tools cost a turn hardly more than ten, and the one that a task needs is among them."""

from __future__ import annotations

import re

import pytest
from many_tools import PARAPHRASES, TASKS, TOOLS
from mcp_place import fake
from playing import ACCEPT, plan

from kernel.asking.conversation import INDEX_HEAD, INDEX_TOKENS, MOST_DECLARED, index_of
from kernel.asking.responder import estimate_tokens
from kernel.document.model import Document, Meta, Note, Section
from runtime.api.fractal import Fractal


def planned(ask):
    if ask.phase == "plan":
        return plan({"tool": "write", "args": {"path": "a.txt", "text": "a"}}, success=[{"file": "a.txt"}])
    return ACCEPT


@pytest.fixture
def catalogue(place):
    """Return the catalogue of a workspace with one server of `number` tools."""

    def of(number):
        place.write({"hub": fake(f"many{number}")})
        place.lists()
        return Fractal(place.folder).catalogue()

    return of


def test_five_hundred_tools_make_the_instructions_hardly_longer_than_ten(place, play):
    tokens = {}
    for number in (10, 500):
        place.write({"hub": fake(f"many{number}")})
        played = play(planned, "book me a flight from Oslo to Rome")
        names = [name for name in played.fractal.catalogue().tools if name.startswith("hub-")]
        assert len(names) == number
        asks = [each.data for each in played.events if each.kind == "ask_finished"]
        tokens[number] = asks[0]["instruction_tokens"]
    assert tokens[500] <= tokens[10] + MOST_DECLARED, tokens


def index(tools, task):
    """The index of what `use` reaches, as the first message of a loop with this task has it."""
    document = Document(Meta("system-7f3kq2", "7f3kq2"), {1: Section(notes=(Note("task", task, "person"),))})
    return index_of(document, tools, estimate_tokens)


def test_the_index_keeps_its_size(catalogue):
    for number in (10, 500):
        tools = catalogue(number)
        sizes = [estimate_tokens(INDEX_HEAD + index(tools, task)) for task, _ in TASKS]
        assert all(size <= INDEX_TOKENS for size in sizes), sizes


def test_the_tool_that_a_task_needs_is_in_the_index_of_five_hundred(catalogue):
    tools = catalogue(500)
    assert len([name for name in tools.tools if name.startswith("hub-")]) == 500
    missing = [(task, name) for task, name in TASKS if not is_named(tools, task, name)]
    assert missing == []


@pytest.mark.xfail(strict=True, reason="the index goes by the words that task and tool share, not by meaning")
def test_the_tool_is_in_the_index_of_a_task_that_shares_no_word_with_it(catalogue):
    tools = catalogue(500)
    found = [task for task, name in PARAPHRASES if is_named(tools, task, name)]
    assert len(found) > len(PARAPHRASES) / 2, found


def is_named(tools, task, name):
    return f"hub-{name.replace('_', '-')}" in index(tools, task).split(", ")


def test_every_task_means_a_tool_that_is_there():
    assert {name for _, name in (*TASKS, *PARAPHRASES)} <= {name for name, _ in TOOLS}
    assert len(TASKS) == 20


@pytest.mark.parametrize("profile", ["compact", "large"])
@pytest.mark.parametrize("number", [2, 500])
def test_every_turn_offers_what_the_first_one_saw(place, play, profile, number):
    place.write({"hub": fake(f"many{number}")})
    seen: dict[str, set[str]] = {}

    def answers(ask):
        if ask.phase == "check":
            return ACCEPT
        named = set(re.findall(r"hub-[a-z-]+", ask.messages[1]["content"]))
        named |= {
            each["function"]["name"] for each in ask.tools if each["function"]["name"].startswith("hub-")
        }
        inner = bool(ask.document.meta.parent)
        seen.setdefault(f"{ask.phase} {inner}", named)
        if ask.phase == "work":
            return {"done": "merged"}
        halves = [{"subtask": "do the second half"}] if not inner else []
        return {"calls": [*halves, {"tool": "read", "args": {"path": "mcp.json"}}]}

    play(answers, "merge pull request 42 if the checks have passed", settings={"profile": profile})
    assert seen.keys() == {"plan False", "work False", "plan True", "work True"}
    assert "hub-merge-pull-request" in seen["plan False"]
    for inner in (False, True):
        assert seen[f"plan {inner}"] == seen[f"work {inner}"]


def test_a_tool_of_a_server_is_called_by_its_name_and_by_use(place, play):
    place.write({"hub": fake("many500")})
    merge = {"pull_number": 42}

    def answers(ask):
        if ask.phase == "work" or ask.phase == "check":
            return {"done": "merged"} if ask.phase == "work" else ACCEPT
        named = {"tool": "hub-merge-pull-request", "args": merge}
        return {"calls": [named, {"tool": "use", "args": {"tool": "hub-merge-pull-request", "args": merge}}]}

    played = play(answers, "merge pull request 42")
    assert [step.tool for step in played.root.steps.values()] == ["hub-merge-pull-request"] * 2
