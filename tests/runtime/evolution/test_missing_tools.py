"""A need that no tool covers, or a command improvised again and again, leads to a proposal to build."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import yaml
from playing import ACCEPT, plan
from test_registration import building, play
from workshop_place import Place

from kernel.asking.responder import Ask
from runtime.api.fractal import Fractal
from runtime.evolution.missing_tools import shape

COUNT = "printf 'a\\nb\\na\\n' | grep -c {} | sort -n"
LACKS = {"task": "send it", "cannot": "there is no tool that sends mail"}


def count(letter: str) -> dict[str, Any]:
    return {"tool": "bash", "args": {"command": COUNT.format(letter)}}


def proposals(place: Place) -> list[Any]:
    return place.fractal().workshop.proposals.open()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('grep -c "x" a.txt | sort -n', "grep -c yy *.md | sort -n"),
        ("cd docs && cut -d, -f2 a.csv | sort | uniq -c", "cut -d';' -f 7 /tmp/b.csv | sort | uniq -c"),
        ("find . -name '*.py' | xargs wc -l | head -3", "find src -name a.md | xargs wc -l | head -20"),
        (
            "python3 -c 'import csv; print(sum(float(r[1]) for r in csv.reader(open(\"a.csv\"))))'",
            "python3 -c 'import csv; print(sum(float(r[4]) for r in csv.reader(open(\"b.csv\"))))'",
        ),
        ("sort a | uniq -c 2>/dev/null | sort -rn", "sort b c | uniq -c | sort -rn"),
    ],
)
def test_commands_that_differ_only_in_what_they_are_given_have_one_shape(one: str, other: str):
    assert shape(one) == shape(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("grep -c x a | sort -n", "grep -l x a | sort -n"),
        ("git log --oneline | wc -l", "git diff --stat | wc -l"),
        ("python3 -c 'import csv, sys; a'", "python3 -c 'import json, re; b'"),
    ],
)
def test_commands_that_do_something_else_have_other_shapes(one: str, other: str):
    assert shape(one) != shape(other)


@pytest.mark.parametrize(
    "command",
    ["ls", "ls -la docs | head -5", "cat a.txt", "pytest -q; true", "cd x && make test", "git status", "",
     "echo hi > a.txt", "sed -n 1,5p a.txt", "python3 script.py", "'", "cat <<E\nhello\nE", "x=1; echo $x"],
)  # fmt: skip
def test_what_is_simply_used_is_not_improvised(command: str):
    assert shape(command) == ""


def test_the_third_time_the_same_command_is_improvised_an_operation_is_proposed(place: Place):
    runs = [play(place, count(letter)).run for letter in "ab"]
    assert proposals(place) == []
    assert not place.messages
    runs.append(play(place, count("a")).run)
    (proposal,) = proposals(place)
    assert (proposal.kind, proposal.unit, proposal.author) == ("build", "operations", "fractal")
    assert all(run in proposal.text for run in runs)
    assert "Level: operation" in proposal.text
    assert COUNT.format("b") in proposal.task.replace(" ⏎ ", "\n")
    assert len(place.messages) == 1
    assert "improvised 3 times" in place.messages[0]
    assert "`fractal system adopt p1` builds a new operation" in place.messages[0]
    play(place, count("b"))
    assert len(proposals(place)) == len(place.messages) == 1


def test_three_times_in_one_run_are_three_times(place: Place):
    play(place, count("a"), count("b"), count("a"))
    assert len(proposals(place)) == 1


def test_a_replay_improvises_nothing(place: Place):
    settled = plan(count("a"), success=[{"step": 1, "has": "2"}])
    script = place.folder.parent / "script.json"
    script.write_text(json.dumps({"plan": settled, "check": ACCEPT}))
    settings = {"sandbox": "off", "embedder": "lexical", "model": f"scripted:{script}"}
    calls = []
    for _ in range(4):
        fractal = Fractal(place.folder, settings=settings)
        calls.append(asyncio.run(fractal.run("do it")).spent["calls"])
        fractal.brain.close()
    assert calls[1:] == [0, 0, 0]
    assert proposals(place) == []


def test_a_command_that_failed_is_no_example(place: Place):
    failing = {"tool": "bash", "args": {"command": "grep -c x nothing.txt | sort -n; false"}}
    for _ in range(4):
        play(place, failing)
    assert proposals(place) == []


def test_what_a_person_dropped_is_not_proposed_again(place: Place):
    play(place, count("a"), count("b"), count("a"))
    assert place.command("system", "drop", "p1").exit == 0
    play(place, count("a"), count("b"))
    assert proposals(place) == []


def test_a_plan_that_finds_no_tool_for_a_need_leads_to_a_proposal_of_a_tool(place: Place):
    result = play(place, answer=lambda ask: dict(LACKS))
    assert result.status == "escalated"
    (proposal,) = proposals(place)
    assert (proposal.kind, proposal.unit, proposal.run) == ("build", "tools", result.run)
    assert "sends mail" in proposal.task
    assert "Level: tool" in proposal.text
    play(place, answer=lambda ask: dict(LACKS))
    assert len(proposals(place)) == 1


def test_what_cannot_be_done_for_another_reason_leads_to_nothing(place: Place):
    play(place, answer=lambda ask: {"task": "x", "cannot": "the file orders.csv does not exist"})
    assert proposals(place) == []


def test_never_means_that_nothing_is_even_counted(place: Place):
    for letter in "abab":
        play(place, count(letter), build="never")
    assert not place.state.exists()


def builder(ask: Ask) -> Any:
    if ask.phase == "check":
        return dict(ACCEPT)
    if ask.phase == "understand":
        return {"task": "t", "context": [], "open": []}
    if "Build a new" in ask.document.text(1, "task"):
        return plan(*building())
    return plan(count("a"), count("b"), count("a"))


def test_auto_builds_it_inside_the_budget_of_the_run_and_uses_no_more(place: Place):
    result = play(place, answer=builder, build="auto", calls=40)
    assert result.exit == 0
    assert [entry.kind for entry in place.entries] == ["proposed", "admitted", "proposed", "adopted"]
    assert [each.unit for each in proposals(place)] == ["reflexes/shout.md"], "the reflex of its sample"
    assert place.tool("shout").status == "active"
    built = place.fractal().document(place.entries[1].run)
    assert built.meta.budget["calls"] == 40 - 2
    assert built.meta.run != result.run


def test_auto_builds_nothing_with_too_little_left(place: Place):
    play(place, answer=builder, build="auto", calls=8)
    assert [entry.kind for entry in place.entries] == ["proposed"]


def test_adopting_the_proposal_starts_the_run_that_builds(place: Place):
    play(place, count("a"), count("b"), count("a"))
    script = [
        {"phase": "check", "reply": ACCEPT},
        {"phase": "understand", "reply": {"task": "t", "context": [], "open": []}},
        {"phase": "plan", "reply": plan(*building())},
    ]
    (place.folder / "script.yaml").write_text(yaml.safe_dump(script))
    ran = place.command("system", "adopt", "p1", "--model", f"scripted:{place.folder / 'script.yaml'}")
    assert ran.exit == 0, ran
    assert [entry.kind for entry in place.entries] == ["proposed", "admitted", "proposed", "adopted"]
    run = place.entries[1].run
    assert f"built by run {run}" in place.entries[-1].reason
    assert "Build a new operation" in place.fractal().document(run).text(1, "task")
    (left,) = json.loads(place.command("system", "adopt", "--json").out)
    assert left["unit"] == "reflexes/shout.md", "the reflex of its sample"


def test_the_proposal_is_printed_once_on_standard_error(place: Place):
    steps = plan(count("a"), count("b"), count("a"))
    script = {"plan": steps, "check": ACCEPT}
    (place.folder / "script.yaml").write_text(yaml.safe_dump(script))
    words = ["run", "--model", f"scripted:{place.folder / 'script.yaml'}", "count the letters"]
    counts = [place.command(*words).err.count("system: the same command was improvised") for _ in range(2)]
    assert counts == [1, 0]


def test_a_broken_memory_of_needs_is_begun_anew(place: Place):
    play(place, count("a"), count("b"))
    (place.state / "needs.json").write_text("{broken")
    assert play(place, count("a")).exit == 0
    assert proposals(place) == []
