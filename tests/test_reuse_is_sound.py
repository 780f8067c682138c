"""Memory says nothing false: no text or fact of another thing, and nothing is closed by words.

The pairs are files of `tests/sound`. `FRACTAL_SOUND` names another folder with files of the same names.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lanes import every
from playing import ACCEPT, plan, player, write

from kernel.asking.messages import prompt_text
from runtime.api.fractal import Fractal, RunResult
from runtime.api.knowledge import correct, recall, remember
from runtime.memory.embed import choose
from runtime.memory.episodes.statements import told
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.store import open_shelf
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.words import Words, words_of
from runtime.reflexes.known import Known

SYSTEM = Path(__file__).parents[1] / "system"
PAIRS = Path(os.environ.get("FRACTAL_SOUND") or Path(__file__).with_name("sound"))
QUICK: Mapping[str, Any] = {"embedder": "lexical", "fsync": False, "sandbox": "off"}


def read(name: str) -> list[dict[str, str]]:
    """The pairs of a JSONL file; none if the folder has no such file."""
    path = PAIRS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


# ---- replays -------------------------------------------------------------------------------------------


def done(work: Path, task: str, made: Mapping[str, Any]) -> RunResult:
    """A run with a scripted model above memory; `spent` tells whether it was asked."""
    script = work.parent / "script.json"
    script.write_text(json.dumps({"plan": made, "check": ACCEPT}))
    fractal = Fractal(work, settings={**QUICK, "check": "always", "model": f"scripted:{script}"})
    try:
        return asyncio.run(fractal.run(task))
    finally:
        fractal.brain.close()


def writing(path: str, content: str) -> Mapping[str, Any]:
    return plan(write(path, content), success=[{"file": path, "has": re.escape(content)}])


def test_what_a_model_wrote_is_not_written_for_another_task(tmp_path: Path) -> None:
    """Solve one task with a scripted model, ask for the other one: the model must be asked."""
    work = tmp_path / "work"
    work.mkdir()
    pairs = read("knowledge")[:: every(9)]
    for pair in pairs:
        result = done(work, pair["solved"], writing(pair["path"], pair["content"]))
        assert result.status == "complete" and result.spent["calls"]
        (work / pair["path"]).unlink()
    replayed = [
        (pair["solved"], pair["other"])
        for pair in pairs
        if not done(work, pair["other"], writing("asked.txt", "the model was asked")).spent["calls"]
    ]
    assert replayed == []


def test_the_same_task_is_done_again_without_a_model(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    calls: list[int] = []
    for _ in range(2):
        (work / "peru.txt").unlink(missing_ok=True)
        result = done(work, TASK, writing("peru.txt", "Lima"))
        assert result.status == "complete" and (work / "peru.txt").read_text() == "Lima"
        calls.append(int(result.spent["calls"]))
    assert calls == [2, 0]


TASK, OTHER = "Write the capital of Peru into peru.txt", "Write the capital of Chile into chile.txt"
RESULT = "{{ steps[1].result }}"


@functools.cache
def shipped_words() -> Words:
    return words_of((SYSTEM,))


def recalled(task: str, other: str, *steps: tuple[str, dict[str, Any]]) -> str:
    """As what a task is recalled whose like was solved in these steps."""
    memory = ProceduralMemory(open_shelf("memory", Path()), choose("lexical"), shipped_words())
    made = tuple({"tool": tool, "args": args, "needs": []} for tool, args in steps)
    memory.learn(Exemplar(task=task, steps=made, output=f"{{{{ steps[{len(made)}].result }}}}"))
    assert memory.recall(task).kind == "exact"
    return memory.recall(other).kind


@pytest.mark.parametrize(
    "step",
    [
        ("write", {"path": "peru.txt", "content": "Lima"}),
        ("edit", {"path": "peru.txt", "old": "capital", "new": "Lima"}),
        ("replace", {"path": "peru.txt", "what": "capital", "by": "Lima"}),
        ("json", {"path": "peru.txt", "set": {"capital": "Lima"}}),
        ("json", {"path": "peru.txt", "set": {"Lima": "capital"}}),
        ("csv", {"path": "peru.txt", "rows": [["Peru", "Lima"]]}),
        ("json", {"path": "peru.txt", "set": 1535}),
        ("git", {"action": "commit", "message": "Lima into peru.txt"}),
        ("mkdir", {"path": "Lima"}),
        ("bash", {"command": "echo Lima > peru.txt"}),
        ("bash", {"command": "printf '%s' lima > peru.txt"}),
        ("bash", {"command": "cat > peru.txt <<EOF\nlima\nEOF"}),
        ("bash", {"command": 'echo "capital; lima" > peru.txt'}),
        ("bash", {"command": "echo 1535 > peru.txt"}),
        ("bash", {"command": "git commit -m 'Lima' peru.txt"}),
        ("bash", {"command": "touch lima peru.txt"}),
        ("bash", {"command": "python3 -c \"print('Lima')\" > peru.txt"}),
        ("made_tool", {"anything": "利马", "file": "peru.txt"}),
        ("made_tool", {"anything": "¥", "file": "peru.txt"}),
        ("made_tool", {"anything": "+", "file": "peru.txt"}),
    ],
    ids=str,
)
def test_no_kind_of_argument_carries_it(step: tuple[str, dict[str, Any]]) -> None:
    assert recalled(TASK, OTHER, step) == "novel"


@pytest.mark.parametrize(
    ("task", "other", "steps"),
    [
        (
            "Copy the text of a.txt to b.txt",
            "Copy the text of c.txt to d.txt",
            [("read", {"path": "a.txt"}), ("write", {"path": "b.txt", "content": RESULT})],
        ),
        (
            'Write "good morning" into a.txt',
            'Write "good night" into b.txt',
            [("write", {"path": "a.txt", "content": "good morning"})],
        ),
        (
            "Sort the lines of a.txt into b.txt",
            "Sort the lines of c.txt into d.txt",
            [("bash", {"command": "sort -u a.txt | head -5 > b.txt".replace(" | head -5", "")})],
        ),
        ("Add 4 and 9", "Add 5 and 11", [("calc", {"expression": "4 + 9"})]),
    ],
)
def test_what_comes_from_the_task_or_a_result_is_done_with_other_values(
    task: str, other: str, steps: list[tuple[str, dict[str, Any]]]
) -> None:
    assert recalled(task, other, *steps) == "variation"


def test_a_value_that_a_tool_offers_is_procedure_and_another_text_is_not(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("3 ox\n")
    (work / "b.txt").write_text("4 ox\n")
    counts = {"tool": "count", "args": {"path": "a.txt", "what": "characters"}}
    made = plan(counts, success=[{"step": 1, "has": "characters"}])
    assert done(work, "Weigh a.txt for the archive", made).spent["calls"] == 2
    assert done(work, "Weigh b.txt for the archive", made).spent["calls"] == 0
    made = plan(counts, write("c.txt", "characters"), success=[{"file": "c.txt", "has": "characters"}])
    assert done(work, "Label a.txt for the archive", made).spent["calls"] == 2
    assert done(work, "Label b.txt for the archive", made).spent[
        "calls"
    ]  # the same text in `content` is for a.txt


# ---- facts ---------------------------------------------------------------------------------------------


def shown(hits: Any) -> list[str]:
    return [each.text for each in hits]


@pytest.mark.parametrize("embedder", ["lexical", "minilm"])
def test_a_fact_about_another_thing_is_no_answer(tmp_path: Path, embedder: str) -> None:
    """Without a model: what is given as the answer has the value of the thing that is asked about."""
    wrong: list[tuple[str, str]] = []
    right = 0
    pairs = read("facts")[:: every(8 if embedder == "minilm" else 4)]
    for n, pair in enumerate(pairs):
        folder = tmp_path / str(n)
        folder.mkdir()
        fractal = Fractal(folder, settings={**QUICK, "embedder": embedder})
        for fact in (pair["one"], pair["two"]):
            remember(fractal, fact)
        for ask, value, line in (
            ("ask_one", "answer_one", pair["one"]),
            ("ask_two", "answer_two", pair["two"]),
            ("ask_none", "", ""),
        ):
            answers = fractal.memory.known(pair[ask])
            said = answers.lines[0].text if answers is not None and answers.certain else ""
            if said and (not value or pair[value] not in said):
                wrong.append((pair[ask], said))
            right += bool(said)
            assert not line or line in shown(recall(fractal, pair[ask]))
        fractal.brain.close()
    assert wrong == []
    assert PAIRS.name != "sound" or right >= len(pairs)


@pytest.mark.parametrize("embedder", ["lexical", "minilm"])
@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("The north door is locked", "is the south door locked?"),
        ("The boat is heavy with the engine", "is the boat heavy without the engine?"),
        ("Q2 revenue was 12", "what was Q1 revenue?"),
        ("Ann's rent is 900 euros per month", "how much is Ann's rent per year?"),
        ("The monthly fee is 9 euros", "how much is the yearly fee?"),
        ("The ferry from Kiel to Oslo takes 20 hours", "how long does the ferry from Oslo to Kiel take?"),
    ],
)
def test_a_fact_in_another_relation_is_only_perhaps_an_answer(
    tmp_path: Path, embedder: str, fact: str, question: str
) -> None:
    fractal = Fractal(tmp_path, settings={**QUICK, "embedder": embedder})
    remember(fractal, fact)
    answers = fractal.memory.known(question)
    assert answers is None or not answers.known
    fractal.brain.close()


def test_with_a_model_memory_only_adds_dated_lines_to_its_prompt(tmp_path: Path) -> None:
    play = player(tmp_path / "work")
    fractal = Fractal(tmp_path / "work", settings=QUICK)
    for pair in read("facts")[:6]:
        for fact in (pair["one"], pair["two"]):
            remember(fractal, fact)
    fractal.brain.close()
    for pair in read("facts")[: 6 // every(2)]:
        prompts: list[str] = []

        def answers(ask: Any, prompts: list[str] = prompts) -> Any:
            prompts.append(prompt_text(ask))
            return {"cannot": "not now"}

        play(answers, pair["ask_one"], settings=QUICK)
        assert prompts and pair["one"] in prompts[0] and "said by" in prompts[0]


def test_no_ladder_with_a_model_has_a_rung_that_answers_from_facts(tmp_path: Path) -> None:
    with_model = Fractal(tmp_path, settings={**QUICK, "model": "openai/x"})
    without = Fractal(tmp_path, settings={**QUICK, "model": "reflex"})
    for fractal, expected in ((with_model, False), (without, True)):
        assert any(isinstance(each, Known) for each in fractal.ladder.rungs) is expected


# ---- changes -------------------------------------------------------------------------------------------


def told_in(folder: Path, *facts: str) -> tuple[Fractal, dict[str, bool]]:
    """A memory that was told these facts, and which of them are closed."""
    folder.mkdir(exist_ok=True)
    fractal = Fractal(folder, settings=QUICK)
    for day, fact in enumerate(facts, 1):
        remember(fractal, fact, at=f"2026-05-{day:02}")
    closed = {each.text: bool(each.superseded) for each in fractal.brain.shelf.scan(Memory)}
    return fractal, closed


def test_an_addition_closes_nothing(tmp_path: Path) -> None:
    found: list[tuple[str, str]] = []
    for n, pair in enumerate(read("additions")[:: every(3)]):
        fractal, closed = told_in(tmp_path / str(n), pair["first"], pair["second"])
        fractal.brain.close()
        if any(closed.values()) or len(closed) != 2:
            found.append((pair["first"], pair["second"]))
    assert found == []


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The rent is 900 euros", "The rent is 950 euros"),
        ("The rent is 900 euros", "The rent is now 950 euros."),
        ("The door code is 4411", "The door code is 7788"),
        ("Anna's birthday is 3 May", "Anna's birthday is 4 May"),
        ("The start is 9:30", "The start is 11:00"),
    ],
)
def test_the_literal_same_with_another_value_closes_the_earlier_one(
    tmp_path: Path, earlier: str, later: str
) -> None:
    fractal, closed = told_in(tmp_path, earlier, later)
    assert closed == {earlier: True, later: False}
    assert recall(fractal, earlier.partition(" is ")[0])[0].text == later


def test_what_is_not_closed_is_shown_after_the_later_one_with_its_date(tmp_path: Path) -> None:
    fractal, closed = told_in(tmp_path, "My favourite editor is Vim", "My favourite editor is Helix")
    assert not any(closed.values())
    later, earlier = recall(fractal, "what is my favourite editor?")
    assert (later.text, earlier.text) == ("My favourite editor is Helix", "My favourite editor is Vim")
    assert "2 May" in later.provenance and "1 May" in earlier.provenance


def test_a_person_closes_what_they_correct(tmp_path: Path) -> None:
    fractal, _ = told_in(tmp_path, "My favourite editor is Vim")
    (memory,) = fractal.brain.shelf.scan(Memory)
    correct(fractal, memory.id, "My favourite editor is Helix")
    assert {each.text: bool(each.superseded) for each in fractal.brain.shelf.scan(Memory)} == {
        "My favourite editor is Vim": True,
        "My favourite editor is Helix": False,
    }


def test_the_result_of_a_run_closes_nothing(tmp_path: Path) -> None:
    fractal, _ = told_in(tmp_path, "The rent is 900 euros")
    from runtime.memory.facts.mind import Mind

    mind = Mind.of(fractal.brain)
    for said in ("result", "failure", "reflection", "note"):
        mind.observe("The rent is 950 euros", said=said, salience=0.9, at_once=True, at="2026-05-09")
    assert not any(each.superseded for each in fractal.brain.shelf.scan(Memory))


# ---- sentences of tasks --------------------------------------------------------------------------------


def test_what_a_task_tells_of_a_fault_or_a_state_is_no_fact() -> None:
    kept = [(each["task"], found) for each in read("reports") if (found := told(each["task"], [SYSTEM]))]
    assert kept == []


@pytest.mark.parametrize(
    ("task", "fact"),
    [
        ("Remember that my sister's birthday is 4 May", "my sister's birthday is 4 May"),
        (
            "Please remember that the deploy key is in vault 3, then list the files",
            "the deploy key is in vault 3",
        ),
        ("I prefer tables to lists. Summarise notes.txt", "I prefer tables to lists"),
        ("I always write tests first. Add a test for parse()", "I always write tests first"),
        ("I never use tabs. Format main.py", "I never use tabs"),
        ("We use Postgres 15. Write a query for the top ten customers", "We use Postgres 15"),
    ],
)
def test_what_a_person_says_explicitly_is_kept(task: str, fact: str) -> None:
    assert told(task, [SYSTEM]) == [fact]


def test_a_run_with_a_bug_report_leaves_no_fact_of_the_person(tmp_path: Path) -> None:
    play = player(tmp_path / "work")
    task = "The login page crashes on Safari. My password is empty there. Look around"
    played = play(
        lambda ask: ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}}),
        task,
        settings=QUICK,
    )
    played.fractal.brain.episodes.catch_up()
    assert [each for each in played.fractal.brain.shelf.scan(Observation) if each.said == "fact"] == []
