"""A task solved before costs nothing: real runs, real files, a scripted model."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT, every, within
from llm_server import LlmServer
from playing import REVERSE as PLAN

from kernel.asking.prompt import MEMORY
from kernel.errors import ProviderError
from kernel.events import Event
from runtime.api.fractal import Fractal, RunResult
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.ledger import Ledger
from runtime.memory.tasks.trees import NeuronTree

TASK = PLAN["task"]
SIMILAR = f"{MEMORY}: similar tasks"
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "written"}
Do = Callable[..., RunResult]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return _filled(tmp_path / "work")


def _filled(folder: Path) -> Path:
    folder.mkdir()
    (folder / "notes.md").write_text("one\ntwo\n")
    (folder / "other.md").write_text("number two\n")
    return folder


def once(
    work: Path, task: str, script: Mapping[str, Any], settings: Mapping[str, Any], name: str = "script"
) -> RunResult:
    """A run that shares only files with earlier runs, as a separate process would.

    What a model made is replayed for this model: a scripted one is its file, which has one name.
    """
    place = work.parent / f"{name}.json"
    place.write_text(json.dumps(script))
    values = {
        "sandbox": "off",
        "check": "always",
        "embedder": "lexical",
        "model": f"scripted:{place}",
        **settings,
    }
    events: list[Event] = []
    fractal = Fractal(work, settings=values, on_event=events.append)
    try:
        result = asyncio.run(fractal.run(task))
    finally:
        fractal.brain.close()
    warned = [event.data["message"] for event in events if event.kind == "warning"]
    (work.parent / "warned.txt").write_text("\n".join(warned))
    return result


@pytest.fixture
def do(work: Path) -> Do:
    def run(task: str = TASK, plan: Mapping[str, Any] = PLAN, verdict: Any = ACCEPT, **settings: Any) -> Any:
        script = {"plan": plan, "check": verdict, "do": settings.pop("step", {})}
        return once(work, task, script, settings)

    return run


def calls(result: RunResult) -> int:
    return int(result.spent["calls"])


def warnings_of(work: Path) -> str:
    """The warnings of the last run."""
    return (work.parent / "warned.txt").read_text()


def records(work: Path, kind: type[Any]) -> list[Any]:
    fractal = Fractal(work)
    try:
        return list(fractal.brain.shelf.scan(kind))
    finally:
        fractal.brain.close()


def root(work: Path, result: RunResult) -> Any:
    return Fractal(work).document(result.id)


# ---- repetition ----------------------------------------------------------------------------------------


def test_repeated_task_calls_no_model(work: Path, do: Do) -> None:
    assert calls(do()) == 2
    for remove in (True, False):
        if remove:
            (work / "back.md").unlink()
        again = do()
        # what was there already shows nothing of the second run
        assert (calls(again), again.status) == (0, "complete" if remove else "unverified")
    assert (work / "back.md").read_text() == "one\ntwo\n"
    document = root(work, again)
    assert {each["rung"] for each in document.meta.rungs} == {"memory"}
    assert document.note(2, "approach").origin.startswith("memory:")
    assert document.note(2, "approach").text.startswith("as in run ")


def test_same_task_with_other_files_calls_no_model(work: Path, do: Do) -> None:
    do()
    again = do("Mirror the lines of other.md into there.md")
    assert (calls(again), again.status) == (0, "complete")
    assert (work / "there.md").read_text() == "number two\n"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the task was solved. Later runs in it are not remembered."""
    folder = _filled(tmp_path_factory.mktemp("learned") / "work")
    once(folder, TASK, {"plan": PLAN, "check": ACCEPT}, {})
    (folder / "back.md").unlink()
    assert calls(once(folder, TASK, {}, {"remember": False})) == 0
    return folder


@pytest.mark.parametrize(
    "task",
    [
        "Shuffle the lines of notes.md into back.md",
        "Mirror the words of notes.md into back.md",
        "Mirror the lines of notes.md into back.md and into there.md",
        "Mirror the lines of notes.md into back.md unless it exists",
        "Do not mirror the lines of notes.md into back.md",
        "Mirror the lines of notes.md and other.md into back.md",
        "Reverse the last lines of notes.md into back.md",
    ],
)
def test_different_task_calls_the_model(learned: Path, task: str) -> None:
    script = {"plan": {**PLAN, "task": task}, "check": ACCEPT}
    assert calls(once(learned, task, script, {"remember": False})) > 0


def test_model_checks_what_code_cannot_decide(work: Path, do: Do) -> None:
    judged = {**PLAN, "success": [{"judge": "the lines are all there"}]}
    assert calls(do(plan=judged)) == 2
    again = do("Mirror the lines of other.md into there.md", plan=judged)
    assert (calls(again), again.status) == (1, "unverified")
    phases = {each["phase"]: each["rung"] for each in root(work, again).meta.rungs if not each.get("passed")}
    assert phases["turn"] == "memory" and phases["check"].startswith("scripted:")


def test_learned_task_works_without_a_model_once_a_person_said_it_is_good(work: Path, do: Do) -> None:
    """Until then it is a draft: what a model that is gone says of its own plan is no evidence for it."""
    judged = {**PLAN, "success": [{"judge": "the lines are all there"}]}
    first = do(plan=judged)
    waiting = do("Mirror the lines of other.md into there.md", model="reflex")
    assert waiting.status == "waiting" and not (work / "there.md").exists()
    assert "no person has approved of it" in waiting.path.read_text()
    fractal = Fractal(work)
    fractal.feedback(first.run, True)
    fractal.brain.close()
    again = do("Mirror the lines of other.md into there.md", model="reflex")
    assert again.exit == 0 and root(work, again).meta.unverified and not calls(again)
    assert (work / "there.md").read_text() == "number two\n"


def test_learned_task_works_while_its_model_cannot_be_reached(
    work: Path, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-used")
    server = LlmServer()
    settings = {"model": "openai/m", "api_base": server.url}
    with server.running():
        server.say(json.dumps(PLAN))
        server.say(json.dumps(ACCEPT))
        assert calls(do(**settings)) == 2
    again = do("Mirror the lines of other.md into there.md", **settings)
    assert (calls(again), again.status) == (0, "complete")
    assert (work / "there.md").read_text() == "number two\n"


# ---- failures ------------------------------------------------------------------------------------------


def test_failed_replay_is_undone_and_passed_to_the_model(work: Path, do: Do) -> None:
    do()
    (work / "blank.md").write_text("nothing like it\n")
    (work / "there.md").write_text("before\n")
    mended = {
        **PLAN,
        "steps": [{"tool": "write", "args": {"path": "there.md", "content": "two, by the model"}}],
        "success": [{"file": "there.md", "has": "by the model"}],
    }
    again = do("Mirror the lines of blank.md into there.md", plan=mended)
    assert again.status == "complete" and calls(again) == 2
    document = root(work, again)
    (fold,) = document.section(2).folds
    notes = {note.key: note.text for note in fold.notes}
    assert notes["undone then"] == "there.md: put back"
    (used,) = [each for each in records(work, Decision) if each.path == "variation"]
    assert used.outcome is False
    first = next(tree for tree in records(work, NeuronTree) if tree.id == used.tree)
    assert first.ledger.incorrect > 0


def test_solution_that_fails_repeatedly_is_not_used(work: Path, do: Do) -> None:
    do()
    (work / "blank.md").write_text("nothing like it\n")
    for number in range(2):
        mended = {**PLAN, "steps": [{"tool": "write", "args": {"path": f"x{number}.md", "content": "two"}}]}
        mended["success"] = [{"file": f"x{number}.md", "has": "two"}]
        do(f"Mirror the lines of blank.md into b{number}.md", plan=mended)
    again = do("Mirror the lines of other.md into there.md", plan={**PLAN, "task": "other"})
    assert calls(again) > 0


def test_feedback_changes_the_ledger_once(work: Path, do: Do) -> None:
    first = do()
    fractal = Fractal(work)
    for bad in (False, False):
        fractal.feedback(first.run, bad)
    fractal.brain.close()
    (tree,) = records(work, NeuronTree)
    assert tree.ledger.incorrect == 1, "equal feedback of one person on one run counts once"


def test_values_from_the_folder_are_not_learned(work: Path, do: Do) -> None:
    do("Reverse the only file here", plan={**PLAN, "task": "Reverse the only file here"})
    assert records(work, NeuronTree) == []
    (decision,) = records(work, Decision)
    assert "not in the task" in decision.why


def test_judgements_of_the_model_are_not_learned(work: Path, do: Do) -> None:
    task = "In which language is notes.md"
    plan = {**PLAN, "task": task, "steps": [PLAN["steps"][0]], "success": [{"step": 1, "has": "one"}]}
    do(task, plan=plan, verdict={**ACCEPT, "output": "French"})
    assert records(work, NeuronTree) == []
    (decision,) = records(work, Decision)
    assert "'French'" in decision.why


def test_a_run_that_only_asked_memory_teaches_no_procedure(work: Path, do: Do) -> None:
    task = "tell me what pays for the office"
    recall = {"tool": "recall", "args": {"query": "what pays for the office"}}
    do(task, plan={**PLAN, "task": task, "steps": [recall], "success": [{"step": 1, "has": "know"}]})
    assert records(work, NeuronTree) == []
    (decision,) = records(work, Decision)
    assert "only asked memory" in decision.why


def test_arguments_completed_after_results_are_not_learned(work: Path, do: Do) -> None:
    steps = [PLAN["steps"][0], {"tool": "write", "what": "the number of its lines to back.md"}]
    plan = {**PLAN, "steps": steps, "success": [{"file": "back.md", "has": "2"}]}
    do(plan=plan, step={"tool": "write", "args": {"path": "back.md", "content": "2"}})
    assert (work / "back.md").read_text() == "2"
    assert records(work, NeuronTree) == []
    (decision,) = records(work, Decision)
    assert "after results had been seen" in decision.why


def test_generated_text_is_reused_only_for_the_same_task(work: Path, do: Do) -> None:
    poem = "Cold winter evening, silent branches carry snow, morning brings sparrows"
    plan = {
        **PLAN,
        "steps": [{"tool": "write", "args": {"path": "poem.md", "content": poem}}],
        "success": [{"file": "poem.md", "has": "snow"}],
    }
    task = "Write a haiku on winter to poem.md"
    do(task, plan={**plan, "task": task})
    (work / "poem.md").unlink()
    assert calls(do(task)) == 0
    assert calls(do("Write a haiku on winter to other.txt", plan=plan)) > 0
    assert calls(do("Write a haiku on summer to poem.md", plan=plan)) > 0


def test_broken_store_is_reported_and_stops_no_run(work: Path, do: Do) -> None:
    do()
    store = work / ".fractal" / "state" / "memory" / "brain.sqlite3"
    store.write_bytes(b"no database at all" * 1000)
    for each in store.parent.glob("brain.sqlite3-*"):
        each.unlink()
    (work / "back.md").unlink()
    result = do()
    assert (result.status, calls(result)) == ("complete", 2)
    assert "is not remembered yet" in warnings_of(work) and "brain.sqlite3" in warnings_of(work)


def test_unremembered_run_is_remembered_with_the_next(work: Path, do: Do) -> None:
    (work / "other.md").write_text("two\n")
    other = {
        **PLAN,
        "task": "other",
        "steps": [{"tool": "read", "args": {"path": "other.md"}}],
        "success": [{"step": 1, "has": "two"}],
    }
    do("Read other.md, then tell how long it is", plan=other)
    memory = work / ".fractal" / "state" / "memory"
    kept = {path: path.read_bytes() for path in memory.glob("brain.sqlite3*")}
    for path in kept:
        path.unlink()
    (memory / "brain.sqlite3").write_bytes(b"no database at all" * 1000)
    lost = do()
    assert "is not remembered yet" in warnings_of(work)
    for path in memory.glob("brain.sqlite3*"):
        path.unlink()
    for path, raw in kept.items():
        path.write_bytes(raw)
    (work / "back.md").unlink()
    do("Read other.md and tell how high it is", plan={**other, "task": "high"}, remember=False)
    assert lost.run not in {tree.run for tree in records(work, NeuronTree)}
    do("Read other.md and tell how wide it is", plan={**other, "task": "wide"})
    assert lost.run in {tree.run for tree in records(work, NeuronTree)}
    assert calls(do()) == 0


def test_memory_can_be_turned_off(work: Path, do: Do) -> None:
    do(remember=False)
    assert not (work / ".fractal" / "state" / "memory").exists()
    do()
    (work / "back.md").unlink()
    assert calls(do(recall=False)) == 2


def test_task_with_extra_context_calls_the_model(work: Path, do: Do) -> None:
    do()
    script = work.parent / "given.json"
    script.write_text(json.dumps({"plan": PLAN, "check": ACCEPT}))
    settings = {"sandbox": "off", "check": "always", "model": f"scripted:{script}"}
    fractal = Fractal(work, settings=settings)
    (work / "back.md").unlink()
    result = asyncio.run(fractal.run(TASK, context=[("file hint.txt", "this time upside down")]))
    fractal.brain.close()
    assert calls(result) == 2


def test_processes_learn_concurrently(work: Path) -> None:
    tasks = [f"Mirror the lines of notes.md into back{chr(97 + n)}.md" for n in range(4)]
    script = {"check": ACCEPT}
    jobs = [
        multiprocessing.Process(
            target=once,
            args=(work, task, {**script, "plan": _writing(name)}, {"recall": False}, name),
        )
        for task in tasks
        for name in [task.split()[-1]]
    ]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join(60)
    assert [each.exitcode for each in jobs] == [0] * 4
    assert sorted(tree.exemplar.task for tree in records(work, NeuronTree)) == tasks


def _writing(name: str) -> dict[str, Any]:
    steps = [PLAN["steps"][0], {"tool": "write", "args": {"path": name, "content": "{{ steps[1].result }}"}}]
    return {**PLAN, "steps": steps, "success": [{"file": name, "has": "two"}]}


def test_another_embedder_computes_its_own_vectors(work: Path, do: Do) -> None:
    pytest.importorskip("tokenizers")
    from runtime.memory.embed.weights import find

    if find(None) is None:
        pytest.skip("the weights of minilm are not here: fractal doctor --fetch")
    do()
    do()
    again = do("Mirror the lines of other.md into there.md", embedder="minilm")
    assert calls(again) == 0
    (tree,) = records(work, NeuronTree)
    assert {"lexical-1", "minilm"} <= tree.vectors.keys()


def test_prompt_shows_solutions_of_similar_tasks(work: Path, do: Do) -> None:
    do()
    other = do("Mirror the lines of notes.md into back.md unless it exists", plan={**PLAN, "task": "other"})
    (note,) = [note for note in root(work, other).section(1).notes if note.source == SIMILAR]
    assert note.text.startswith(f"- “{TASK}” was solved by: read ") and "write" in note.text
    fresh = do("What is the capital of France", plan={**PLAN, "task": "other"})
    assert not [note for note in root(work, fresh).section(1).notes if note.source == SIMILAR]


def _tally(number: int) -> tuple[str, dict[str, Any]]:
    steps = [
        {"tool": "count", "args": {"what": "lines", "path": f"f{number}.md", "format": "total"}},
        {"tool": "write", "args": {"path": f"out{number}.txt", "content": "{{ steps[1].result }}"}},
    ]
    task = f"Tally the lines of f{number}.md into out{number}.txt"
    success = [{"judge": "the number is right"}]
    return task, {**PLAN, "task": task, "steps": steps, "success": success}


def test_five_similar_solutions_become_a_method_that_is_checked(work: Path, do: Do) -> None:
    for number in range(7):
        (work / f"f{number}.md").write_text("x\n" * (number + 1))
    for number in range(5):
        task, plan = _tally(number)
        assert calls(do(task, plan=plan, recall=False)) == 2
    task, plan = _tally(5)
    do(task, plan=plan)  # the method is born here
    method = work / ".fractal" / "state" / "memory" / "methods" / "tally-lines.md"
    assert "tally the lines of {path} into {to}" in method.read_text("utf-8")
    task, plan = _tally(6)
    seventh = do(task, plan=plan)
    rungs = [
        (each["phase"], each["rung"]) for each in root(work, seventh).meta.rungs if not each.get("passed")
    ]
    assert ("turn", "reflex") in rungs and calls(seventh) == 1, "the model checks a new method"
    assert (work / "out6.txt").read_text() == "7"
    (decision,) = [each for each in records(work, Decision) if each.run == seventh.run]
    assert (decision.path, decision.method, decision.outcome) == ("method", "tally-lines", True)
    method.write_text(method.read_text("utf-8").replace("status: active", "status: off"), "utf-8")
    (work / "out6.txt").unlink()
    assert "reflex" not in {each["rung"] for each in root(work, do(task, plan=plan)).meta.rungs}


def _used(work: Path, times: int) -> None:
    """Set the number of correct uses of each solved task."""
    fractal = Fractal(work)
    shelf = fractal.brain.shelf
    for tree in list(shelf.scan(NeuronTree)):
        shelf.put(tree.model_copy(update={"ledger": Ledger(uses=times, correct=times)}))
    fractal.brain.close()


def test_trust_grows_in_stages(work: Path, do: Do) -> None:
    judged = {**PLAN, "success": [{"judge": "the lines are all there"}]}
    do(plan=judged)
    asked: dict[int, int] = {}
    for times in (0, 12):
        _used(work, times)
        asked[times] = calls(do("Mirror the lines of other.md into there.md", plan=judged))
    assert asked == {0: 1, 12: 1}, "new, then proven without a second way"
    samples: list[int] = []
    for times in range(60, 100 if NIGHT else 75):
        _used(work, times)
        samples.append(calls(do("Mirror the lines of other.md into there.md", plan=judged)))
    assert sum(samples) <= 6, "one use in twenty is checked"


LONG = 1_000_000 // every(10)


@pytest.mark.parametrize("piece", ["x", "a.", "1a", "word "])
def test_very_long_texts_are_not_learned(work: Path, do: Do, piece: str) -> None:
    text = piece * (LONG // len(piece))
    (work / "notes.md").write_text(text)
    steps = [{"tool": "write", "args": {"path": "back.md", "content": text}}]
    with within(20):
        do(
            plan={**PLAN, "steps": steps, "success": [{"file": "back.md"}]},
            verdict={**ACCEPT, "output": text},
        )
        with suppress(ProviderError):  # too long to be planned in one call, and the script is exhausted
            do("Mirror the lines of notes.md into back.md " + text[: min(100_000, LONG // 2)])
    assert records(work, NeuronTree) == []
