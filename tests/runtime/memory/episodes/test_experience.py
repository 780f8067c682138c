"""Experiences: the indexed fields of a finished document."""

from __future__ import annotations

from pathlib import Path

from playing import ACCEPT, plan

from kernel.document.parser import parse
from runtime.memory.episodes.experience import Experience, experiences_of

GOLDEN = Path(__file__).parents[3] / "golden" / "cheapest-laptop"
RUN = [parse(path.read_bytes(), path.name) for path in sorted(GOLDEN.glob("*.md"))]


def experience(id: str) -> Experience:
    return next(each for each in experiences_of(RUN) if each.id == id)


def test_each_ended_loop_is_an_experience_and_an_operation_is_none():
    assert sorted(each.id for each in experiences_of(RUN)) == ["system-7f3kq2", "tool-research-7f3kq2-1"]


def test_a_loop_of_the_third_level_is_an_experience_too(play):
    """Its document has a name like those of operations."""
    deeper = {"read a.txt": "the inner part", "the inner part": "the deepest part"}

    def answers(ask):
        if ask.phase == "check":
            return ACCEPT
        task = ask.document.text(1, "task")
        below = deeper.get(task)
        return plan({"subtask": below} if below else {"tool": "list", "args": {}}, task=task)

    played = play(answers, "read a.txt")
    third = next(each for each in played.documents if each.startswith("op-task-"))
    experiences = played.fractal.memory.brain.episodes.all()
    assert sorted(each.id for each in experiences) == sorted(
        each.id for each in experiences_of(played.documents.values())
    )
    assert [each.text for each in experiences_of(played.documents.values()) if each.id == third] == [
        "the deepest part"
    ]


def test_an_experience_names_its_document_and_what_finding_and_counting_need():
    found = experience("tool-research-7f3kq2-1")
    assert found.document == "runs/7f3kq2/tool-research-7f3kq2-1.md"
    assert (found.type, found.level, found.agent, found.space) == ("general", "tool", "default", "default")
    assert found.text == "Search for nvidia laptop reviews and prices"
    assert found.moves == ("fetch done", "fetch done", "fetch done", "fetch failed")
    assert (found.tools, found.rungs, found.calls) == (("fetch",), ("scripted",), 2)
    assert (found.success, found.signal, found.reason) == (True, "tests_passed", "")


def test_nothing_that_a_step_returned_is_stored_a_second_time():
    stored = experience("tool-research-7f3kq2-1").model_dump_json()
    assert "MSI Thin" not in stored and "RTX" not in stored


def test_a_persons_word_outweighs_the_criteria_for_the_run_and_not_for_its_parts():
    experiences = {each.id: each for each in experiences_of(RUN, {"7f3kq2": False})}
    assert (experiences["system-7f3kq2"].success, experiences["system-7f3kq2"].signal) == (
        False,
        "user_rejected",
    )
    assert experiences["tool-research-7f3kq2-1"].signal == "tests_passed"


def test_a_loop_that_goes_on_is_no_experience_yet():
    assert experiences_of([each.having(status="waiting") for each in RUN]) == []


def test_a_run_that_fails_its_criteria_says_so_and_names_the_files_it_used(play):
    steps = [{"tool": "read", "args": {"path": "a.txt"}}]

    def answers(ask):
        if ask.phase == "check":
            return {"validation": "fail", "issues": ["no"], "decision": "ESCALATE", "output": "none"}
        return plan(*steps, success=[{"step": 1, "has": "never"}])

    played = play(answers, "read a.txt", settings={"retries": 0})
    (found,) = experiences_of(played.documents.values())
    assert found.success is False and found.signal in ("tests_failed", "escalation")
    assert found.files == ("a.txt",) and found.reason


def test_what_ran_out_of_its_time_timed_out_and_what_was_cancelled_tells_nothing():
    (root,) = [each for each in RUN if each.meta.id == "system-7f3kq2"]
    (late,) = experiences_of([root.having(status="exhausted")])
    (cancelled,) = experiences_of([root.having(status="cancelled")])
    assert (late.success, late.signal) == (False, "timeout")
    assert (cancelled.success, cancelled.signal) == (None, "")


def test_a_secret_in_a_task_is_not_indexed(play):
    secret = "sk-" + "a1B2c3D4" * 4
    played = play(lambda ask: ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}}), secret)
    (found,) = experiences_of(played.documents.values())
    assert secret not in found.model_dump_json() and "[redacted" in found.text


def test_the_task_type_comes_from_the_given_function():
    types = {each.id: each.type for each in experiences_of(RUN, type_of=lambda task: task.split()[0])}
    assert types == {each.id: each.text.split()[0] for each in experiences_of(RUN)}
    assert {each.type for each in experiences_of(RUN)} == {"general"}
