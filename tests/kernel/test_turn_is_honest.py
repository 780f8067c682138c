"""A turn proves what it says, holds what somebody has to decide, and never crashes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playing import boxed, put
from test_turn import ADDS, BOXED, FIX, Turns, call, done, results
from test_turn import turns as turns

from kernel.asking.messages import prompt_tokens
from kernel.store.files import FileStore
from runtime.models.scripted import Scripted
from runtime.workspace.question import question_of

WRONG = call("edit", path="sums.py", old="a - b", new="a * b")
WORK = {"tool": "work", "what": "fix it"}


def plan(*steps: dict[str, Any], success: list[Any], **more: Any) -> dict[str, Any]:
    return {"approach": "as planned", "confidence": "high", "steps": list(steps), "success": success, **more}


@boxed
@pytest.mark.parametrize("why", ["", "the check is wrong"])
def test_a_replaced_criterion_has_no_share_in_what_the_first_one_showed(turns: Turns, why: str):
    whole = plan(call("read", path="sums.py"), WORK, success=[{"run": ADDS}])
    more = {"why": why} if why else {}
    proposals = [[WRONG, done("It adds now.", checks=["true"], **more)], *[[done()]] * 8]
    played, _ = turns(whole, *proposals, settings=BOXED)

    assert played.result.status in ("unverified", "escalated")
    assert "true (before: FAIL)" not in played.root.text(4, "evidence")


@boxed
def test_what_is_to_be_judged_is_judged(turns: Turns):
    judge = {"judge": "the docstring of add is a poem"}
    whole = plan(call("read", path="sums.py"), WORK, success=[{"run": ADDS}, judge])
    verdict = {"validation": "fail", "issues": ["no poem"], "decision": "ESCALATE", "output": ""}
    played, model = turns(whole, [FIX, done("It adds now.")], verdict, settings=BOXED)

    assert [ask.phase for ask in model.asks] == ["turn", "turn", "check"]
    assert played.result.status == "escalated"


def test_a_change_beside_an_uncertain_plan_is_not_made_before_the_answer(turns: Turns, tmp_path: Path):
    uncertain = call("plan", approach="turn the sign", confidence="low")
    played, _ = turns([uncertain, FIX])
    assert played.result.status == "waiting"
    played.fractal.tell(played.result.run, "answer", text="No, do not touch it")
    _, model = turns([done("left as it is")], [done()], resume=played.result.run)

    assert "a - b" in (tmp_path / "sums.py").read_text()
    assert results(model.asks[0])["call_1"].startswith("held back: the plan is uncertain")


def test_a_plan_after_a_question_is_approved_with_its_steps(turns: Turns):
    played, _ = turns([call("ask", question="Which sign?")], plan_only=True)
    played.fractal.tell(played.result.run, "answer", text="plus")
    whole = plan(call("write", path="new.txt", content="x"), success=[{"file": "new.txt", "has": "x"}])
    played, _ = turns(whole, resume=played.result.run)

    assert played.result.status == "waiting"
    asked = question_of(FileStore(played.folder), played.root)
    assert "new.txt" in str(asked)


def test_an_approved_plan_is_no_approval_of_the_next_one(turns: Turns, tmp_path: Path):
    look = call("plan", approach="look only", confidence="high")
    played, _ = turns([look, call("read", path="sums.py")], plan_only=True)
    played.fractal.tell(played.result.run, "approve")
    other = call("plan", approach="write", confidence="high")
    played, _ = turns([other, call("write", path="new.txt", content="x")], resume=played.result.run)

    assert played.result.status == "waiting" and not (tmp_path / "new.txt").exists()


@boxed
def test_approved_checks_are_no_approval_of_other_commands(turns: Turns, tmp_path: Path):
    test = call("write", path="test_sums.py", content="open('ran.txt', 'w')\ndef test_it(): pass\n")
    settings = {**BOXED, "approve": ["shell"]}
    played, _ = turns([test, FIX, done("It adds now.", checks=["true"])], settings=settings)
    assert played.result.status == "waiting"
    played.fractal.tell(played.result.run, "approve")
    played, _ = turns([done()], [done()], resume=played.result.run, settings=settings)

    assert "needs a person's approval" in played.root.text(4, "evidence")


def test_an_answer_is_read_as_calls_only_if_it_is_nothing_else(turns: Turns, tmp_path: Path):
    quoted = (
        'For example {"calls": [{"tool": "write", "args": {"path": "oops.txt", "content": "x"}}]} writes.'
    )
    played, _ = turns({"calls": [], "text": quoted}, task="how does a turn write a file?")
    assert played.result.output == quoted and not (tmp_path / "oops.txt").exists()

    recipe = '{"title": "soup", "steps": ["boil"]}'
    played, _ = turns({"calls": [], "text": recipe}, task="what is the recipe of soup as JSON?")
    assert played.result.output == recipe


def test_done_that_is_false_or_empty_ends_nothing(turns: Turns):
    first = {"calls": [call("bash", command="echo 5")], "done": False}
    played, model = turns(first, [done()], [done("5")], task="what does echo 5 print?")

    assert "no answer for the user" in results(model.asks[2])["done_2"]
    assert (played.result.status, played.result.output) == ("complete", "5")


def test_two_spellings_of_a_path_are_one_file(turns: Turns, tmp_path: Path):
    put(tmp_path, "n.txt", "1\n2\n3\n4\n")
    first = call("edit", path="n.txt", lines="1", new="a\nb")
    _, model = turns([first, call("edit", path="./n.txt", lines="3", new="c")], [done("x")], [done()])

    assert "moves the lines" in results(model.asks[1])["call_2"]


def test_many_results_of_one_turn_fit_into_a_small_window(turns: Turns, tmp_path: Path):
    for n in range(12):
        put(tmp_path, f"f{n}.txt", "word and " * 600)
    left = [[call("read", path=f"f{n}.txt") for n in range(12)], [done("x")], [done()]]
    model = Scripted(lambda ask: {"calls": left.pop(0)}, context=8_192)
    turns(model=model)

    assert max(prompt_tokens(ask, model.count) for ask in model.asks) < 8_192 * 0.8


@pytest.mark.parametrize("name", ["a" * 300, "a\nb", "..", "`x`", "{{x}}", "<b>"])
def test_any_name_of_a_call_is_answered(turns: Turns, name: str):
    played, model = turns([{"tool": name, "args": {"x": 1}}], [done("x")], [done()])

    assert "there is no tool" in results(model.asks[1])["call_1"]
    assert not played.root.meta.extra.get("faults")


def test_checks_that_a_person_has_written_as_text_break_nothing(turns: Turns):
    played, _ = turns([call("plan", approach="turn it", checks=["true"]), FIX, call("ask", question="ok?")])
    run, path = played.result.run, played.result.path
    path.write_text(path.read_text().replace('{"run": "true"}', "it reads well"))
    played.fractal.tell(run, "answer", text="yes")
    verdict = {"validation": "pass", "decision": "ACCEPT", "output": "fixed"}
    again, _ = turns([done("fixed")], [done()], [done()], verdict, resume=run)

    assert not again.root.meta.extra.get("faults")


def test_what_the_user_says_is_no_failed_check(turns: Turns):
    said = 0

    def answer(ask: Any) -> Any:
        nonlocal said
        said += 1
        if said <= 6:
            played.fractal.tell(ask.run, "say", text=f"word {said}")
        return {"calls": [done("fixed", checks=["false"]) if said <= 7 else call("cannot", why="no")]}

    played, _ = turns([call("ask", question="go?")])
    played.fractal.tell(played.result.run, "answer", text="yes")
    model = Scripted(answer)
    turns(model=model, resume=played.result.run)

    assert said == 8, "the check that fails is told, and the next turn is taken"
