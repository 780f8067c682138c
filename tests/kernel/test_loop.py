"""The loop at every level: what it asks, what it decides, where it stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, limited, plan

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder, Reply, Usage, Waits
from kernel.errors import ConfigurationError, Declined, Exit, UsageError
from runtime.models.scripted import Scripted

WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "one\n"}}


class Code(Scripted):
    reads_prompt = False


def by_phase(**replies: Any) -> Callable[[Ask], Any]:
    """A script by phase. `again` is the plan of later attempts, where it is another one."""

    def answer(ask: Ask) -> Any:
        later = ask.phase == "plan" and ask.attempt > 1 and "again" in replies
        reply = replies["again" if later else ask.phase]
        if isinstance(reply, Exception):
            raise reply
        return reply(ask) if callable(reply) else reply

    return answer


def test_task_is_planned_executed_checked_and_output(play: Play) -> None:
    played = play(by_phase(plan=plan(WRITE, success=[{"file": "a.txt", "has": "one"}]), check=ACCEPT))
    assert played.result.exit == Exit.ACCEPTED
    assert played.result.output == "done"
    assert (played.fractal.workspace.folder / "a.txt").read_text() == "one\n"
    assert played.root.meta.status == "complete"
    assert not played.root.meta.unverified
    assert [e.data["phase"] for e in played.asks()] == ["turn", "check"]


def test_run_without_proof_is_unverified(play: Play) -> None:
    played = play(by_phase(plan=plan(WRITE), check=ACCEPT))
    assert played.root.meta.status == "complete"
    assert played.root.meta.unverified


def test_code_understands_and_plans_in_one_turn(play: Play) -> None:
    facts = [{"fact": "it is missing", "from": "folder"}]
    turn = {**plan(WRITE), "task": "write a.txt", "context": facts}
    played = play(Code(by_phase(turn=turn, check=ACCEPT), tier="reflex"))
    assert [e.data["phase"] for e in played.asks()] == ["turn", "check"]
    assert [rung["phase"] for rung in played.root.meta.rungs] == ["turn", "check"]
    assert played.root.text(1, "resolved task") == "write a.txt"
    assert played.root.note(1, "fact").source == "folder"  # type: ignore[union-attr]


def test_a_model_goes_on_with_the_turns_that_code_began(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "b.txt").write_text("lantern")

    def code(ask: Ask) -> Any:
        if ask.step > 1:
            raise Declined("no more is known")
        return {"calls": [{"tool": "read", "args": {"path": "b.txt"}}]}

    model = Scripted(lambda ask: {"done": "so"}, name="model")
    played = play([Code(code, name="code", tier="reflex"), model], settings={"check": "auto"})
    assert played.result.output == "so"
    assert (played.root.meta.attempt, played.root.meta.taker) == (1, "model")
    assert [step.tool for step in played.root.steps.values()] == ["read"]
    assert "lantern" in prompt_text(model.asks[0])


def test_code_that_repeats_its_plan_is_followed_by_the_next_rung(play: Play) -> None:
    code = Code(lambda ask: plan(WRITE) if ask.step > 1 else {"calls": [WRITE]}, name="code", tier="reflex")
    model = Scripted(lambda ask: {"done": "so"}, name="model")
    played = play([code, model], settings={"check": "auto"})
    assert (played.result.output, played.root.meta.taker) == ("so", "model")


def test_an_answer_of_code_ends_the_loop_unverified(play: Play) -> None:
    played = play(Code(lambda ask: {"answer": "42"}, name="code", tier="reflex"), "what is it?")
    assert (played.result.output, played.result.status) == ("42", "unverified")
    assert [e.data["phase"] for e in played.asks()] == ["turn"]


def test_only_references_are_substituted_in_arguments(play: Play) -> None:
    literal = "${{ matrix.python }} ${#a[@]} {{ other }}"
    steps = [
        {"tool": "write", "args": {"path": "a.txt", "content": literal}},
        {"tool": "read", "args": {"path": "a.txt"}},
        {"tool": "write", "args": {"path": "b.txt", "content": "<{{\nsteps[2].result }}>"}},
    ]
    played = play(by_phase(plan=plan(*steps), check=ACCEPT))
    folder = played.fractal.workspace.folder
    assert (folder / "a.txt").read_text() == literal
    assert (folder / "b.txt").read_text() == f"<{literal}>"


def test_failed_step_skips_its_dependents_only(play: Play) -> None:
    steps = [
        {"tool": "read", "args": {"path": "missing"}, "needs": []},
        {"tool": "write", "args": {"path": "b.txt", "content": "b"}, "needs": []},
        {"tool": "write", "args": {"path": "c.txt", "content": "c"}, "needs": [1]},
    ]
    played = play(by_phase(plan=plan(*steps), check=ACCEPT))
    assert {n: step.state for n, step in played.root.steps.items()} == {1: "failed", 2: "done", 3: "struck"}


def test_described_step_is_completed_when_it_is_reached(play: Play) -> None:
    steps = [WRITE, {"tool": "read", "what": "read what step 1 wrote"}]

    def do(ask: Ask) -> Any:
        assert "## Step 2: read" in prompt_text(ask)
        return {"tool": "read", "args": {"path": "a.txt"}}

    played = play(by_phase(plan=plan(*steps), do=do, check=ACCEPT))
    assert played.root.steps[2].result == "one\n"


def test_blocked_step_fails_and_skipped_step_does_not(play: Play) -> None:
    def do(ask: Ask) -> Any:
        return {"skip": "not needed"} if ask.step == 1 else {"blocked": "no such thing"}

    steps = [{"tool": "read", "what": "a"}, {"tool": "read", "what": "b"}]
    played = play(by_phase(plan=plan(*steps), do=do, check=ACCEPT))
    assert [step.state for step in played.root.steps.values()] == ["skipped", "failed"]


def test_children_return_their_results(play: Play) -> None:
    def first(ask: Ask) -> Any:
        if ask.document.meta.depth == 0:
            return plan({"subtask": "write a.txt", "needs": []}, {"subtask": "say what a holds"})
        if ask.document.task.startswith("write"):
            return plan(WRITE)
        assert "step 1" in prompt_text(ask)  # the result of the needed step is its context
        return plan({"tool": "read", "args": {"path": "a.txt"}})

    def check(ask: Ask) -> Any:
        return {**ACCEPT, "output": "{{ steps[1].result }}"} if ask.document.meta.depth else ACCEPT

    played = play(by_phase(plan=first, check=check))
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.steps[2].result == "one\n"
    run = played.result.run
    assert {f"tool-task-{run}-1", f"op-write-{run}-1.1", f"op-read-{run}-2.1"} <= set(played.documents)
    child = played.documents[f"tool-task-{run}-2"].meta
    assert (child.level, child.depth, child.parent) == ("tool", 1, f"system-{run}")


@pytest.mark.parametrize("prompt_tokens", [0, 5, 100_000])
def test_instruction_tokens_never_exceed_prompt_tokens(play: Play, prompt_tokens: int) -> None:
    """Instruction tokens are estimated, prompt tokens reported: a provider may count fewer."""

    def answer(ask: Ask) -> Reply:
        reply = ACCEPT if ask.phase == "check" else plan(WRITE)
        return Reply(json.dumps(reply), "scripted", Usage(prompt_tokens, 5, 0.0, 1))

    played = play(answer, settings={"tokens": 1_000_000})
    asks = [event.data for event in played.events if event.kind == "ask_finished"]
    figures = [(each["prompt_tokens"], each["instruction_tokens"]) for each in asks]
    assert [prompt for prompt, _ in figures] == [prompt_tokens] * 2
    figures += [(each.get("prompt", 0), each.get("instr", 0)) for each in played.root.meta.rungs]
    spent = played.root.meta.spent
    figures.append((spent["prompt_tokens"], spent["instruction_tokens"]))
    assert len(figures) == 5 and all(instructions <= prompt for prompt, instructions in figures)
    assert any(instructions for _, instructions in figures) == bool(prompt_tokens)


def test_retry_sees_what_was_learned_and_continues_numbering(play: Play) -> None:
    def first(ask: Ask) -> Any:
        return plan({"tool": "read", "args": {"path": "missing"}})

    def again(ask: Ask) -> Any:
        assert "it is missing" in prompt_text(ask)
        return plan(WRITE, {"tool": "read", "args": {"path": "a.txt"}})

    def check(ask: Ask) -> Any:
        if ask.attempt == 1:
            return {"validation": "fail", "decision": "RETRY", "learned": "it is missing"}
        return {**ACCEPT, "output": "{{ steps[3].result }}"}

    played = play(by_phase(plan=first, again=again, check=check))
    assert played.result.output == "one\n"
    assert list(played.root.steps) == [1, 2, 3]
    assert played.root.section(2).folds[0].attempt == 1
    assert played.root.meta.attempt == 2


@pytest.mark.parametrize(
    ("retries", "attempts", "status"),
    [(0, 1, "escalated"), (1, 2, "escalated"), (2, 3, "complete"), (3, 3, "complete")],
)
def test_retries_are_bounded(play: Play, retries: int, attempts: int, status: str) -> None:
    """The third attempt succeeds."""

    def check(ask: Ask) -> Any:
        if ask.attempt < 3:
            return {"validation": "fail", "decision": "RETRY", "learned": "not yet"}
        return ACCEPT

    played = play(by_phase(plan=plan(WRITE), check=check), settings={"retries": retries})
    assert (played.root.meta.attempt, played.root.meta.status) == (attempts, status)
    if status == "escalated":
        assert played.root.text(5, "escalation") == "max retries exceeded"


@pytest.mark.parametrize(
    ("max_depth", "levels"),
    [
        (0, [0]),  # not even the root starts a child
        (1, [0, 1]),
        (2, [0, 1, 2]),
        (3, [0, 1, 2, 3]),  # the default: at depth 3 no guided loop starts
        (4, [0, 1, 2, 3, 4]),
    ],
)
def test_depth_is_bounded(play: Play, max_depth: int, levels: list[int]) -> None:
    """A model that always plans a subtask gets children down to the limit, and there only operations."""
    offered: dict[int, bool] = {}

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        offered[ask.document.meta.depth] = "subtask" in [each["function"]["name"] for each in ask.tools]
        return plan(WRITE) if ask.turn else plan({"subtask": f"go deeper than {ask.loop}"})

    played = play(answer, settings={"max_depth": max_depth, "profile": "large"})
    loops = [d for d in played.documents.values() if d.meta.type == "task"]
    assert sorted(d.meta.depth for d in loops) == levels
    refused = [e.loop_id for e in played.events if e.kind == "ask_refused"]
    assert refused == [d.meta.id for d in loops if d.meta.depth == max_depth]
    assert offered == {depth: depth < max_depth for depth in levels}
    assert played.result.exit == Exit.ACCEPTED
    assert [d.meta.level for d in loops] == ["system", "tool", "operation", "operation", "operation"][
        : len(levels)
    ]


@pytest.mark.parametrize("call", [{"tool": "research", "args": {"what": "x"}}, {"subtask": "deeper"}])
def test_subtask_beyond_the_depth_limit_is_a_failed_call(play: Play, call: dict[str, Any]) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if not ask.document.meta.depth:
            return plan({"subtask": "deeper"})
        return {"calls": [call]} if ask.phase == "plan" else {"calls": [WRITE, {"tool": "done"}]}

    played = play(answer, settings={"max_depth": 1})
    assert not [d for d in played.documents.values() if d.meta.type == "task" and d.meta.depth > 1]
    child = played.documents[f"tool-task-{played.result.run}-1"]
    if "subtask" in call:
        assert child.steps[1].state == "failed" and "no subtasks here" in str(child.steps[1].result)
    else:  # its guidance is shown in place
        assert (child.steps[1].tool, child.steps[1].state) == ("use", "done")
    assert child.steps[2].state == "done"


@pytest.mark.parametrize(("context", "splits"), [(499, False), (500, True)])
def test_loop_with_little_context_has_no_children(play: Play, context: int, splits: bool) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        return plan(WRITE) if ask.turn or ask.document.meta.depth else plan({"subtask": "write"})

    played = play(answer, settings={"context_system": context})
    children = [d for d in played.documents.values() if d.meta.depth and d.meta.type == "task"]
    assert bool(children) == splits
    refused = [e.data["why"] for e in played.events if e.kind == "ask_refused"]
    assert len(refused) == (not splits) and all("no subtasks here" in why for why in refused)


def test_context_of_a_child_shrinks_with_its_task(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.depth:
            names = [each["function"]["name"] for each in ask.tools]
            assert "subtask" not in names  # 50 tokens are below 500
            return plan(WRITE)
        return plan({"subtask": "x" * 3000})

    played = play(answer, settings={"context_system": 1200})
    child = next(d for d in played.documents.values() if d.meta.depth == 1)
    assert child.meta.budget["context"] == 1200 - 150 - 1000
    assert played.result.exit == Exit.ACCEPTED


@pytest.mark.parametrize(
    ("calls", "phases", "status"),
    [
        (1, [], "exhausted"),  # the only call is reserved for CHECK, so PLAN cannot run
        (2, ["turn", "check"], "complete"),
        (3, ["turn", "do", "check"], "complete"),
    ],
)
def test_run_without_calls_left_is_exhausted(play: Play, calls: int, phases: list[str], status: str) -> None:
    steps = [WRITE] if calls < 3 else [{"tool": "read", "what": "a"}]
    answers = by_phase(plan=plan(*steps), do={"skip": "no"}, check=ACCEPT)
    played = play(answers, settings={"calls": calls})
    assert [e.data["phase"] for e in played.events if e.kind == "ask_finished"] == phases
    assert played.root.meta.status == status
    assert played.result.exit == (Exit.ACCEPTED if status == "complete" else Exit.LIMIT)


def test_partial_result_is_kept_when_calls_run_out(play: Play) -> None:
    steps = [WRITE, {"tool": "read", "args": {"path": "a.txt"}}, {"tool": "read", "what": "more"}]
    verdict = {"decision": "ESCALATE", "issues": ["step 3 did not run"], "output": "{{ steps[2].result }}"}
    played = play(by_phase(plan=plan(*steps), check=verdict), settings={"calls": 2})
    assert played.root.meta.status == "exhausted"
    assert played.result.exit == Exit.LIMIT
    assert played.result.output == "one\n"
    assert played.result.reason == "the budget is used up: 2 calls needed, 1 left"
    assert played.root.steps[3].state == "failed"


def test_children_share_the_calls_that_check_does_not_need(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth:
            return (
                plan({"tool": "read", "what": "again"})
                if ask.phase == "plan"
                else {"skip": "x"}
                if ask.part == "do"
                else ACCEPT
            )
        return (
            ACCEPT
            if ask.phase == "check"
            else plan({"subtask": "a", "needs": []}, {"subtask": "b", "needs": []})
        )

    played = play(answer, settings={"calls": 8})
    shares = [step.share["calls"] for step in played.root.steps.values() if step.share]
    assert shares == [3, 3]  # 8 less the plan's call, less the one for CHECK
    assert played.result.exit == Exit.ACCEPTED


def test_token_and_cost_limits_stop_before_the_call(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        return Reply("{}", "paid", Usage(10, 10, 0.02))

    class Paid(Scripted):
        def estimate(self, ask: Ask) -> Usage:
            return Usage(100, 100, 0.05)

    played = play(Paid(answer, name="paid"), settings={"usd": 0.01})
    assert played.root.meta.status == "exhausted"
    assert played.root.meta.spent["usd"] == 0
    assert "USD" in played.result.reason
    played = play(Paid(answer, name="paid"), settings={"tokens": 50})
    assert played.root.meta.status == "exhausted"
    assert "tokens" in played.result.reason


def test_invalid_reply_is_charged_and_repeated_with_the_reason(play: Play) -> None:
    def first(ask: Ask) -> Any:
        if ask.turn:
            assert "step 1: there is no tool 'raed'" in prompt_text(ask)
        return plan({"tool": "raed", "args": {}}) if ask.turn == 0 else plan(WRITE)

    played = play(by_phase(plan=first, check=ACCEPT))
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.meta.spent["calls"] == 3


def test_rung_without_a_valid_reply_passes_to_the_next(play: Play) -> None:
    small = Scripted(lambda ask: "no json at all", name="small")
    large = Scripted({"plan": plan(WRITE), "check": ACCEPT}, name="large", tier="oversight")
    played = play([small, large])
    assert played.result.exit == Exit.ACCEPTED
    passed = [rung for rung in played.root.meta.rungs if "passed" in rung]
    assert [rung["rung"] for rung in passed] == ["small"]
    assert played.root.meta.taker == "large"
    assert len(small.asks) == 3


def test_low_confidence_and_failed_check_climb_one_rung(play: Play) -> None:
    unsure = Scripted({"plan": plan(WRITE, confidence="low")}, name="small")
    large = Scripted({"plan": plan(WRITE), "check": ACCEPT}, name="large")
    assert play([unsure, large]).root.meta.taker == "large"
    retry = {"validation": "fail", "decision": "RETRY", "learned": "x"}
    small = Scripted({"plan": plan(WRITE), "check": retry}, name="small")
    large = Scripted({"plan": plan(WRITE), "check": ACCEPT}, name="large")
    played = play([small, large])
    assert (played.root.meta.taker, played.root.meta.attempt) == ("large", 2)
    cannot = {"task": "x", "cannot": "no such tool"}
    small = Scripted({"plan": cannot}, name="small")
    large = Scripted({"plan": plan(WRITE), "check": ACCEPT}, name="large")
    played = play([small, large])
    assert (played.root.meta.taker, played.result.exit) == ("large", Exit.ACCEPTED)


def test_question_waits_and_its_answer_reaches_the_plan(play: Play) -> None:
    question = {"task": "delete the old ones", "question": "which are old?"}

    def later(ask: Ask) -> Any:
        assert "which are old?" in prompt_text(ask) and "those of May" in prompt_text(ask)
        return {"calls": [WRITE, {"tool": "done", "args": {"answer": "those of May are deleted"}}]}

    answers = by_phase(plan=question, work=later, check=ACCEPT)
    played = play(answers)
    assert (played.result.exit, played.result.question) == (Exit.WAITING, "which are old?")
    assert played.root.meta.waiting == {"for": "person", "question": "which are old?"}
    again = play(answers, resume=played.result.run)
    assert again.result.exit == Exit.WAITING  # nobody has answered yet
    assert not again.asks()
    played.fractal.tell(played.result.run, "answer", text="those of May")
    assert play(answers, resume=played.result.run).result.exit == Exit.ACCEPTED


def test_questions_are_bounded(play: Play) -> None:
    def ask_again(ask: Ask) -> Any:
        return {"task": "t", "question": f"q{len(ask.document.section(3).notes)}"}

    answers = by_phase(plan=ask_again, work=ask_again)
    played = play(answers)
    for _ in range(3):
        assert played.result.exit == Exit.WAITING
        played.fractal.tell(played.result.run, "answer", text="a")
        played = play(answers, resume=played.result.run)
    assert played.root.meta.status == "escalated"


def test_question_of_a_child_goes_to_its_parent(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth:
            return {"task": "t", "question": "how much at most?"}
        if ask.phase == "check":
            assert "how much at most?" in prompt_text(ask)
            return {"decision": "ESCALATE", "issues": ["unknown price"], "question": "how much at most?"}
        return plan({"subtask": "buy it"})

    played = play(answer)
    assert played.result.exit == Exit.WAITING
    assert played.result.question == "how much at most?"


def test_accept_is_refused_when_a_criterion_failed(play: Play) -> None:
    def check(ask: Ask) -> Any:
        if ask.turn == 0:
            return ACCEPT
        return {"decision": "ESCALATE", "issues": ["b.txt is missing"]}

    played = play(by_phase(plan=plan(WRITE, success=[{"file": "b.txt"}]), check=check))
    assert played.root.meta.status == "escalated"
    assert played.result.exit == Exit.FAILED
    assert played.root.text(5, "escalation") == "b.txt is missing"


def test_criteria_that_already_hold_are_refused(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "there.txt").write_text("x")

    def first(ask: Ask) -> Any:
        return plan(WRITE, success=[{"file": "there.txt" if ask.turn == 0 else "a.txt"}])

    played = play(by_phase(plan=first, check=ACCEPT))
    refused = [e.data["why"] for e in played.events if e.kind == "ask_refused"]
    assert len(refused) == 1 and "holds already" in refused[0]


def test_check_may_look_once(play: Play) -> None:
    look = {"look": {"tool": "read", "args": {"path": "a.txt"}}}

    def check(ask: Ask) -> Any:
        return ACCEPT if "one" in prompt_text(ask).partition("Look")[2] else look

    played = play(by_phase(plan=plan(WRITE), check=check))
    assert played.result.exit == Exit.ACCEPTED
    assert "one" in played.root.text(4, "look")


def test_call_that_failed_twice_is_not_repeated(play: Play) -> None:
    step = {"tool": "read", "args": {"path": "missing"}}

    def check(ask: Ask) -> Any:
        return {"decision": "RETRY", "learned": "again"}

    played = play(by_phase(plan=plan(step), check=check))
    assert "not tried again" in str(played.root.steps[3].result)


def test_plan_can_be_approved_before_execution(play: Play) -> None:
    answers = by_phase(plan=plan(WRITE), check=ACCEPT)
    played = play(answers, plan_only=True)
    assert (played.result.exit, played.result.waiting) == (Exit.WAITING, "approval")
    assert not (played.fractal.workspace.folder / "a.txt").exists()
    played.fractal.tell(played.result.run, "approve")
    played = play(answers, resume=played.result.run)
    assert played.result.exit == Exit.ACCEPTED
    assert len(played.asks()) == 1  # the plan is not requested again


def test_rejected_plan_is_replanned_with_the_reason(play: Play) -> None:
    def again(ask: Ask) -> Any:
        assert "write b.txt instead" in prompt_text(ask)
        return plan({"tool": "write", "args": {"path": "b.txt", "content": "b"}})

    answers = by_phase(plan=plan(WRITE), again=again, check=ACCEPT)
    played = play(answers, plan_only=True)
    played.fractal.tell(played.result.run, "reject", why="write b.txt instead")
    played = play(answers, resume=played.result.run)
    assert played.result.waiting == "approval"  # the new plan is not approved either
    assert not list(played.fractal.workspace.folder.glob("*.txt"))
    played.fractal.tell(played.result.run, "approve")
    played = play(answers, resume=played.result.run)
    assert played.result.exit == Exit.ACCEPTED
    assert [p.name for p in played.fractal.workspace.folder.glob("*.txt")] == ["b.txt"]


@pytest.mark.parametrize(("word", "state"), [("approve", "done"), ("reject", "failed")])
def test_guarded_effect_waits_for_approval(play: Play, word: str, state: str) -> None:
    answers = by_phase(plan=plan(WRITE), check=ACCEPT)
    guarded = {"approve": ["write"]}
    played = play(answers, settings=guarded)
    assert (played.result.waiting, played.root.steps[1].state) == ("approval", "waiting")
    played.fractal.tell(played.result.run, word)
    played = play(answers, settings=guarded, resume=played.result.run)
    assert played.root.steps[1].state == state
    assert play(answers, settings=guarded, yes=True).result.exit == Exit.ACCEPTED


def test_step_waits_for_approval_while_siblings_run(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "b.txt").write_text("b")
    steps = [{"tool": "read", "args": {"path": "b.txt"}, "needs": []}, {**WRITE, "needs": []}]
    answers = by_phase(plan=plan(*steps), check=ACCEPT)
    played = play(answers, settings={"approve": ["write"]})
    assert played.result.waiting == "approval"
    assert [step.state for step in played.root.steps.values()] == ["done", "waiting"]


def test_waiting_run_can_be_resumed_with_another_ladder(play: Play) -> None:
    human = Code(lambda ask: Waits("person", "say it in other words"), name="person", tier="human")
    played = play([human])
    assert (played.result.exit, played.result.question) == (Exit.WAITING, "say it in other words")
    model = Scripted({"plan": plan(WRITE), "check": ACCEPT})
    assert play([model, human], resume=played.result.run).result.exit == Exit.ACCEPTED


@pytest.mark.parametrize("began", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_person_is_asked_where_a_model_gives_up_and_another_goes_on(
    play: Play, began: bool, answered: bool
) -> None:
    """A person does not go on with the turns of a model: the loop goes back to PLAN for them."""

    def gives_up(ask: Ask) -> Any:
        if began and ask.step == 1:
            return {"calls": [{"tool": "write", "args": {"path": "b.txt", "content": "b"}}]}
        raise Declined("too hard")

    human = Code(lambda ask: Waits("person", "say it in other words"), name="person", tier="human")
    played = play([Scripted(gives_up, name="small"), human])
    assert (played.result.exit, played.result.question) == (Exit.WAITING, "say it in other words")
    assert (played.root.meta.phase, played.root.meta.attempt) == ("plan", 2 if began else 1)
    if answered:
        played.fractal.tell(played.result.run, "answer", text="write a.txt, please")
    model = Scripted({"plan": plan(WRITE), "check": ACCEPT}, name="large")
    again = play([model, human], resume=played.result.run)
    assert again.result.exit == Exit.ACCEPTED
    assert again.root.steps[1 + began].tool == "write"
    assert ("write a.txt, please" in prompt_text(model.asks[0])) == answered
    assert ("too hard" in prompt_text(model.asks[0])) == began


def test_large_result_is_an_artifact_and_whole_in_references(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "big.txt").write_text("line\n" * 5000)
    steps = [
        {"tool": "read", "args": {"path": "big.txt"}},
        {"tool": "write", "args": {"path": "copy.txt", "content": "{{ steps[1].result }}"}},
    ]
    played = play(by_phase(plan=plan(*steps), check=ACCEPT))
    step = played.root.steps[1]
    assert len(str(step.result)) < 5000 and "artifacts/" in str(step.result)
    assert (tmp_path / "work" / "copy.txt").read_text() == "line\n" * 5000


def test_command_with_an_inline_result_is_refused(play: Play) -> None:
    def first(ask: Ask) -> Any:
        quoted = 'echo "$RESULT_1"' if ask.turn else "echo {{ steps[1].result }}"
        return plan(WRITE, {"tool": "bash", "args": {"command": quoted}})

    played = play(by_phase(plan=first, check=ACCEPT))
    refused = [e.data["why"] for e in played.events if e.kind == "ask_refused"]
    assert len(refused) == 1 and '"$RESULT_1"' in refused[0]
    assert played.root.steps[2].result == played.root.steps[1].result


@pytest.mark.parametrize(
    ("tokens", "first", "phases"),
    [
        (400, {"calls": [WRITE]}, []),
        (1_400, {"calls": [WRITE]}, ["plan"]),
        (1_900, {"calls": [WRITE]}, ["plan", "work"]),
        (1_400, plan(WRITE, {"tool": "read", "what": "look"}), ["plan", "check"]),
    ],
)
def test_token_limit_ends_the_run_in_any_phase(
    play: Play, tokens: int, first: dict[str, Any], phases: list[str]
) -> None:
    """Each call costs its estimate of 500 tokens; CHECK reserves as many."""

    class Costly(Scripted):
        def estimate(self, ask: Ask) -> Usage:
            return Usage(400, 100)

    asked: list[str] = []

    def costs(phase: str, reply: Any) -> Callable[[Ask], Reply]:
        def answer(ask: Ask) -> Reply:
            asked.append(phase)
            return Reply(json.dumps(reply), "costly", Usage(400, 100))

        return answer

    look = {"tool": "read", "args": {"path": "a.txt"}}
    replies = {"plan": first, "work": {"calls": [look]}, "do": look, "check": ACCEPT}
    model = Costly({phase: costs(phase, reply) for phase, reply in replies.items()}, name="costly")
    played = play(model, settings={"tokens": tokens})
    assert asked == phases
    assert played.root.meta.status == "exhausted"
    assert played.result.exit == Exit.LIMIT
    assert "tokens needed" in played.result.reason
    spent = played.root.meta.spent
    assert spent["prompt_tokens"] + spent["completion_tokens"] == 500 * len(asked) <= tokens
    if "check" in phases:
        assert played.root.steps[1].state == "done"
        assert played.result.output == "done"


def test_approval_does_not_apply_to_a_later_question(play: Play) -> None:
    again = {"tool": "write", "args": {"path": "b.txt", "content": "b"}}
    answers = by_phase(plan=plan(WRITE, again), check=ACCEPT)
    guarded = {"approve": ["write"]}
    played = play(answers, settings=guarded)
    for _ in range(2):  # the person approves twice
        played.fractal.tell(played.result.run, "approve")
    played = play(answers, settings=guarded, resume=played.result.run)
    assert played.result.waiting == "approval"
    assert "b.txt" in played.result.question
    assert not (played.fractal.workspace.folder / "b.txt").exists()


def test_unexpected_message_is_refused(play: Play) -> None:
    played = play(lambda ask: {"task": "t", "question": "which?"})
    with pytest.raises(UsageError, match="waits for no approval now"):
        played.fractal.tell(played.result.run, "approve")


def test_approval_applies_to_one_child(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.depth == 0:
            return plan({"subtask": "one", "needs": []}, {"subtask": "two", "needs": []})
        name = ask.document.text(1, "task")
        return plan({"tool": "write", "args": {"path": name, "content": "x"}})

    guarded = {"approve": ["write"]}
    played = play(answer, settings=guarded)
    played.fractal.tell(played.result.run, "approve")
    played = play(answer, settings=guarded, resume=played.result.run)
    assert played.result.waiting == "approval"
    folder = played.fractal.workspace.folder
    assert [(folder / name).exists() for name in ("one", "two")] == [True, False]
    played.fractal.tell(played.result.run, "approve")
    assert play(answer, settings=guarded, resume=played.result.run).result.exit == Exit.ACCEPTED


def test_step_that_nobody_completes_fails_and_siblings_continue(play: Play) -> None:
    steps = [{"tool": "read", "what": "x", "needs": []}, {**WRITE, "needs": []}]
    verdict = {"decision": "ESCALATE", "issues": ["step 1"]}
    played = play(by_phase(plan=plan(*steps), do="nonsense", check=verdict))
    assert {n: step.state for n, step in played.root.steps.items()} == {1: "failed", 2: "done"}
    assert played.root.text(4, "decision") == "ESCALATE"  # CHECK decides about a failed step


def test_child_leaves_calls_for_sibling_steps(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.part == "do":
            return {"tool": "read", "args": {"path": "a.txt"}}
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.depth:
            return plan(WRITE)
        return plan({"subtask": "write", "needs": []}, {"tool": "read", "what": "look", "needs": [1]})

    played = play(answer, settings={"calls": 8})
    assert [step.state for step in played.root.steps.values()] == ["done", "done"]


def test_long_result_of_a_child_is_counted_as_that_of_a_call(play: Play) -> None:
    long = "x" * 5_000

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": long} if ask.document.meta.depth else ACCEPT
        return plan(WRITE) if ask.document.meta.depth else plan({"subtask": "write"})

    played = play(answer)
    step = played.root.steps[1]
    assert step.evidence["characters"] == 5_000 > len(step.result or "")
    assert (played.folder / step.evidence["whole"]).read_text() == long


def test_subtask_with_an_unresolved_reference_reserves_nothing(play: Play) -> None:
    broken = plan(WRITE, {"subtask": "do {{ steps[1].evidence.nothing }}"})

    def check(ask: Ask) -> Any:
        return {"decision": "RETRY", "learned": "no such evidence"} if ask.attempt == 1 else ACCEPT

    played = play(by_phase(plan=broken, again=plan(WRITE), check=check))
    assert played.result.exit == Exit.ACCEPTED
    assert "cannot be filled in" in str(played.root.steps[2].result)


@pytest.mark.parametrize(
    "command",
    [
        "echo {{ steps[1].result }}",
        'echo "{{ steps[1].result | sh }}"',
        "cat <<EOF\n{{ steps[1].result | sh }}\nEOF",
        'echo \'"\' "{{ steps[1].result | sh }}"',
        "echo {{ steps[1].result ~ ' ' | sh }}",
        "echo `{{ steps[1].result | sh }}`",
    ],
)
def test_inline_results_in_commands_are_refused_in_plan_and_do(play: Play, command: str) -> None:
    def first(ask: Ask) -> Any:
        step = {"tool": "bash", "args": {"command": command}} if ask.turn == 0 else {**WRITE}
        return plan(WRITE, step)

    played = play(by_phase(plan=first, check=ACCEPT))
    assert [e.data["phase"] for e in played.events if e.kind == "ask_refused"] == ["turn"]

    def do(ask: Ask) -> Any:
        return {"tool": "bash", "args": {"command": command}} if ask.turn == 0 else {"skip": "refused"}

    described = plan(WRITE, {"tool": "bash", "what": "show it"})
    played = play(by_phase(plan=described, do=do, check=ACCEPT))
    assert [e.data["phase"] for e in played.events if e.kind == "ask_refused"] == ["do"]


def test_criterion_does_not_run_before_plan_approval_without_a_sandbox(play: Play) -> None:
    criteria = [{"run": "touch pwned; false"}, {"judge": "fine"}]
    played = play(by_phase(plan=plan(WRITE, success=criteria)), plan_only=True)
    assert played.result.waiting == "approval"
    assert not (played.fractal.workspace.folder / "pwned").exists()


def test_command_output_cannot_forge_evidence(play: Play) -> None:
    criteria = [{"run": "echo '} (before: pass) → x'; false"}, {"file": "a.txt"}]
    verdict = {"decision": "ESCALATE", "issues": ["x"]}
    played = play(by_phase(plan=plan(WRITE, success=criteria), check=verdict))
    assert played.root.meta.status == "escalated"
    assert "(before: pass)" in played.root.text(4, "evidence")


def test_model_after_a_declined_reflex_sees_the_folder(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "here.txt").write_text("x")
    code = Code(by_phase(turn=Declined("not after all")), name="code", tier="reflex")
    model = Scripted({"plan": plan(WRITE), "check": ACCEPT}, name="model")
    played = play([code, model])
    assert played.result.exit == Exit.ACCEPTED
    assert "here.txt" in prompt_text(model.asks[0])


def test_rung_can_be_limited_to_phases(play: Play) -> None:
    verdicts = {1: {"decision": "RETRY", "learned": "not yet"}, 2: ACCEPT}
    worker = Scripted({"plan": plan(WRITE)}, name="worker")
    overseer = Scripted({"check": lambda ask: verdicts[ask.attempt]}, name="overseer", tier="oversight")
    played = play([limited(worker, phases=["turn", "do"]), limited(overseer, phases=["check"])])
    assert played.result.exit == Exit.ACCEPTED
    assert (played.root.meta.taker, played.root.meta.attempt) == ("worker", 2)
    assert {rung["phase"]: rung["rung"] for rung in played.root.meta.rungs} == {
        "turn": "worker",
        "check": "overseer",
    }


def test_duplicate_rung_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="occurs twice"):
        Ladder((Scripted(lambda ask: ACCEPT, name="m"), Scripted(lambda ask: ACCEPT, name="m")))


def test_unencodable_path_fails_its_step(play: Play) -> None:
    step = {"tool": "write", "args": {"path": "\ud800", "content": "x"}}
    played = play(by_phase(plan=plan(step), check={"decision": "ESCALATE", "issues": ["x"]}))
    assert played.root.steps[1].state == "failed"
