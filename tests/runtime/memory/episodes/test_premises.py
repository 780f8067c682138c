"""What a task supposes is not kept as a fact of the person, and what it says about them is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playing import ACCEPT, plan

from runtime.api.fractal import Fractal
from runtime.memory.episodes.premises import answered, told
from runtime.memory.facts.records import Memory, Observation

SYSTEM = Path(__file__).parents[4] / "system"
TASKS = [
    json.loads(line) for line in Path(__file__).with_name("premises.jsonl").read_text("utf-8").splitlines()
]
FAMILIES = Path(__file__).parents[1] / "tasks" / "families.jsonl"


def facts(text: str, about: str = "") -> list[str]:
    return told(text, [SYSTEM], about)


@pytest.mark.parametrize("half", ["seen", "held"])
def test_of_sixty_premises_none_is_kept_and_of_sixty_facts_most_are(half: str) -> None:
    """`seen` is the half that the rules were tuned on."""
    tasks = [each for each in TASKS if each["half"] == half]
    premises = [each["task"] for each in tasks if not each["facts"]]
    assert [(task, kept) for task in premises if (kept := facts(task))] == []
    wanted = [(each["task"], fact) for each in tasks for fact in each["facts"]]
    kept = [fact for task, fact in wanted if any(fact in each for each in facts(task))]
    assert len(premises) == 30 and len(wanted) >= 30
    assert len(kept) >= 0.8 * len(wanted)


def test_word_problems_hold_no_facts() -> None:
    families = [json.loads(line) for line in FAMILIES.read_text("utf-8").splitlines()]
    questions = [each["question"] for family in families for each in (family, *family["variations"])]
    assert len(questions) > 100
    assert [(question, kept) for question in questions if (kept := facts(question))] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I live in Oslo. Suppose I move to Bergen. My rent is 900 euros. What changes?", ["I live in Oslo"]),
        ("If I find a job, I call you. I am a carpenter. Improve cv.md", ["I am a carpenter"]),
        ("My son is five. He hates the dark. Write a story.", ["My son is five", "He hates the dark"]),
        ("Translate “My name is Eve. I live in Rome.” I am new to Italian.", []),
        ("Remember that Tom has 15 marbles. How many does he have if he loses 4?", ["Tom has 15 marbles"]),
        ("Remember that 15 marbles belong to Tom, and list the files", ["15 marbles belong to Tom"]),
        ("Remember to list the files", []),
        ("Tom has 15 marbles", ["Tom has 15 marbles"]),
    ],
)
def test_in_one_task_facts_and_premises_are_kept_apart(text: str, expected: list[str]) -> None:
    assert facts(text) == expected


def test_answers_and_feedback_are_read_with_the_task() -> None:
    exercise = "Three singers are ill. 8 sing. How many singers does the choir have?"
    assert facts("The singers are ill, so they do not count", exercise) == []
    assert facts("I prefer short answers", exercise) == ["I prefer short answers"]
    assert facts("I have two dogs", "Suppose I move to Bergen. What changes?") == []
    assert answered("Which format?", "JSON", [SYSTEM], "List my runs") == []
    assert answered("How many singers are there?", "eleven", [SYSTEM], exercise) == []
    assert answered("When is her birthday?", "4 May", [SYSTEM], "Plan a party") != []


def test_a_run_of_an_exercise_leaves_no_fact(play) -> None:
    def answers(ask):
        return {**ACCEPT, "output": "18"} if ask.phase == "check" else plan({"tool": "list", "args": {}})

    task = "Tom has 15 marbles. He wins 3 in a game. How many marbles does he have?"
    played = play(answers, task)
    played.fractal.brain.episodes.catch_up()
    assert [each.text for each in played.fractal.brain.shelf.scan(Observation, {"said": "fact"})] == []


def test_what_a_person_asks_to_remember_is_kept_whatever_it_looks_like(tmp_path: Path) -> None:
    from runtime.api.knowledge import remember

    fractal = Fractal(tmp_path, settings={"embedder": "lexical"})
    remember(fractal, "Suppose the function returns None")
    assert [each.text for each in fractal.brain.shelf.scan(Memory)] == ["Suppose the function returns None"]
