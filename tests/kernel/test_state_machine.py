"""Tools with states: calls that the current state does not allow are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from crashing import crashes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import NIGHT, every, examples
from playing import ACCEPT, Play, Played, plan, player
from state_machine_tools import call, logged, till
from warm import run

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.document.model import Step
from kernel.errors import Exit
from kernel.tools.state_machine import Machine, MachineState, machine_state, moved, refusal
from runtime.catalogue.pattern import machine

RETRY = {"validation": "fail", "issues": ["not yet"], "decision": "RETRY", "learned": "again", "output": ""}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    till(tmp_path / "work")
    return tmp_path / "work"


def attempts(*plans: list[dict[str, Any]], inner: list[dict[str, Any]] | None = None) -> Callable[[Ask], Any]:
    """A model with a plan for each attempt, and one for the subtasks."""

    def answer(ask: Ask) -> Any:
        meta = ask.document.meta
        if ask.phase == "check":
            return ACCEPT if meta.parent or meta.attempt == len(plans) else RETRY
        return plan(*((inner or []) if meta.parent else plans[meta.attempt - 1]))

    return answer


def results(played: Played, loop: str = "") -> dict[int, str]:
    """Each step of a loop: its state and its result."""
    steps = played.documents[loop or played.result.id].steps
    suffixes = {
        n: f"\n[{step.evidence['now']}]" if "now" in step.evidence else "" for n, step in steps.items()
    }
    return {n: f"{step.state}: {step.result}{suffixes[n]}" for n, step in steps.items()}


def test_disallowed_call_is_refused_with_the_allowed_ones(play: Play, work: Path) -> None:
    played = play(attempts([call("pay", amount=5)]))
    assert results(played)[1] == (
        "failed: till: action 'pay' is not allowed in the state 'closed'; possible now: open"
    )
    assert logged(work) == []


def test_next_actions_are_shown_beside_the_result(play: Play, work: Path) -> None:
    prompts: list[str] = []
    steps = [
        call("open", who="Ada"),
        {"tool": "write", "args": {"path": "a", "content": "{{ steps[1].result }}"}},
    ]

    def answer(ask: Ask) -> Any:
        prompts.append(prompt_text(ask))
        return ACCEPT if ask.phase == "check" else plan(*steps)

    played = play(answer)
    assert (work / "a").read_text("utf-8") == "open by nobody, sum 0"
    assert "open by nobody, sum 0\n[state opened; possible now: pay, close]" in prompts[-1]
    assert "state opened; possible now: pay, close" in played.result.path.read_text("utf-8")


def test_a_turn_sees_the_next_actions_beside_the_result(play: Play, work: Path) -> None:
    prompts: list[str] = []

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        prompts.append(prompt_text(ask))
        return {"done": "open"} if len(prompts) > 1 else {"calls": [call("open", who="Ada")]}

    play(answer)
    assert "open by nobody, sum 0\n[state opened; possible now: pay, close]" in prompts[1]


def test_kept_values_reach_the_next_call(play: Play, work: Path) -> None:
    played = play(
        attempts([call("open", who="Ada"), call("pay", amount=5), call("pay", amount=6), call("close")])
    )
    assert results(played) == {
        1: "done: open by nobody, sum 0\n[state opened; possible now: pay, close]",
        2: "done: pay by Ada, sum 0\n[state opened; possible now: pay, close]",
        3: "done: pay by Ada, sum 5\n[state opened; possible now: pay, close]",
        4: "done: close by Ada, sum 11\n[state closed; possible now: open]",
    }


def test_parallel_steps_run_one_by_one_in_plan_order(play: Play, work: Path) -> None:
    pays = [call("pay", [1], amount=amount) for amount in (90, 60, 30, 1)]
    played = play(attempts([call("open", []), *pays, call("close", [2, 3, 4, 5])]))
    assert all(each.startswith("done") for each in results(played).values())
    assert logged(work) == ["open", "pay 90", "pay 60", "pay 30", "pay 1", "close"]
    assert results(played)[6].startswith("done: close by nobody, sum 181")


def test_independent_steps_keep_the_plan_order(play: Play, work: Path) -> None:
    played = play(attempts([call("open", []), call("pay", [], amount=40), call("close", [])]))
    assert all(each.startswith("done") for each in results(played).values())
    assert logged(work) == ["open", "pay 40", "close"]


def test_each_loop_has_its_own_state(play: Play, work: Path) -> None:
    inner = [call("open", who="inner"), call("pay", amount=2)]
    played = play(attempts([call("open", who="outer"), {"subtask": "part"}, call("close")], inner=inner))
    assert played.result.exit == 0
    assert results(played)[3].startswith("done: close by outer, sum 0")
    (child,) = [each for each in played.documents if each.startswith("tool-")]
    assert results(played, child)[2].startswith("done: pay by inner, sum 0")


def test_retry_continues_in_the_state_and_plan_sees_it(play: Play, work: Path) -> None:
    prompts: list[str] = []
    answer = attempts([call("open", who="Ada")], [call("pay", amount=3), call("close")])

    def watching(ask: Ask) -> Any:
        if ask.phase == "plan":
            prompts.append(prompt_text(ask))
        return answer(ask)

    played = play(watching)
    assert results(played)[2].startswith("done: pay by Ada, sum 0")
    assert "till is in the state opened; possible now: pay, close" in prompts[1]
    assert "till is in" not in prompts[0]


def test_failed_call_keeps_state_and_values(play: Play, work: Path) -> None:
    first = [call("open", who="Ada"), call("pay", amount=4), call("pay", amount=-1)]
    played = play(attempts(first, [call("pay", amount=1)]))
    texts = results(played)
    assert texts[3] == "failed: nothing can be taken out"
    assert texts[4] == "done: pay by Ada, sum 4\n[state opened; possible now: pay, close]"


def test_refused_calls_do_not_count_as_failures(play: Play, work: Path) -> None:
    pay = call("pay", amount=4)
    played = play(attempts([pay], [pay], [call("open"), pay]))
    assert results(played)[4].startswith("done: pay"), "refused twice before it was open"


def test_failing_call_is_refused_after_two_failures(play: Play, work: Path) -> None:
    pay = call("pay", amount=-4)
    played = play(attempts([call("open"), pay], [pay], [pay]))
    assert results(played)[4].startswith("failed: the same call failed 2 times")


# ---- CHECK's look ----------------------------------------------------------------------------------------


def looking(action: str, refused: list[str], **args: Any) -> Callable[[Ask], Any]:
    def answer(ask: Ask) -> Any:
        if ask.phase != "check":
            return plan(call("open", who="Ada"))
        if "was refused" in prompt_text(ask):
            refused.append(prompt_text(ask).rpartition("was refused. \n")[2].splitlines()[1])
            return ACCEPT
        if ask.document.note(4, "look"):
            return ACCEPT
        return {"look": {"tool": "till", "args": {"action": action, **args}}}

    return answer


def test_look_may_call_what_the_state_allows(play: Play, tmp_path: Path) -> None:
    till(tmp_path / "work", "read")
    refused: list[str] = []
    played = play(looking("pay", refused, amount=0))
    assert not refused
    assert "pay by Ada, sum 0" in played.root.text(4, "look")


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("open", "till: action 'open' is not allowed in the state 'opened'; possible now: pay, close"),
        ("close", "till: 'close' would change its state, and a look changes nothing"),
    ],
)
def test_look_does_not_change_the_state(play: Play, tmp_path: Path, action: str, says: str) -> None:
    till(tmp_path / "work", "read")
    refused: list[str] = []
    played = play(looking(action, refused))
    assert refused == [says]
    assert played.result.exit == 0
    assert logged(tmp_path / "work") == ["open"]


# ---- edits -----------------------------------------------------------------------------------------------


def edit(played: Played, old: str, new: str) -> None:
    path = played.folder / f"{played.result.id}.md"
    text = path.read_text("utf-8")
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new), "utf-8")


FIRST = [call("open", []), call("pay", [], amount=4), call("close", [])]


def test_edited_call_redoes_later_calls_of_the_machine(play: Play, work: Path) -> None:
    till(work, idempotent=True)
    answer = attempts(FIRST)
    played = play(answer)
    edit(
        played,
        'planned till `{"action": "pay", "amount": 4}`',
        'planned till `{"action": "pay", "amount": 9}`',
    )
    again = play(answer, resume=played.result.run)
    assert again.result.exit == 0
    assert logged(work) == ["open", "pay 4", "close", "pay 9", "close"]
    assert results(again)[3] == "done: close by nobody, sum 9\n[state closed; possible now: open]"


def test_call_with_the_same_result_keeps_later_calls(play: Play, work: Path) -> None:
    till(work, idempotent=True)
    answer = attempts(FIRST)
    played = play(answer)
    edit(played, "- [x] 2. done till", "- [ ] 2. planned till")
    again = play(answer, resume=played.result.run)
    assert again.result.exit == 0
    assert logged(work) == ["open", "pay 4", "close", "pay 4"]
    assert results(again)[3].startswith("done: close")


def test_edit_to_a_disallowed_call_is_refused(play: Play, work: Path) -> None:
    till(work, idempotent=True)
    answer = attempts(FIRST)
    played = play(answer)
    edit(played, 'planned till `{"action": "pay", "amount": 4}`', 'planned till `{"action": "close"}`')
    again = play(answer, resume=played.result.run)
    texts = results(again)
    assert texts[2].startswith("done: close")
    assert texts[3] == "failed: till: action 'close' is not allowed in the state 'closed'; possible now: open"


def test_new_plan_reuses_no_call_that_ends_in_another_state(play: Play, work: Path) -> None:
    till(work, idempotent=True)
    plans = {"do the work": FIRST, "do other work": [call("open"), call("pay", amount=7), call("close")]}

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.phase == "understand":
            return {"task": ask.document.text(1, "task"), "context": []}
        return {**plan(*plans[ask.document.text(1, "task")]), "task": ask.document.text(1, "task")}

    played = play(answer)
    path = played.folder / f"{played.result.id}.md"
    text = path.read_text("utf-8")
    path.write_text(text.replace("> do the work", "> do other work", 1), "utf-8")
    again = play(answer, resume=played.result.run)
    assert again.result.exit == 0
    assert {n: each for n, each in results(again).items() if n > 3} == {
        4: "done: open by nobody, sum 4\n[state opened; possible now: pay, close]",
        5: "done: pay by nobody, sum 0\n[state opened; possible now: pay, close]",
        6: "done: close by nobody, sum 7\n[state closed; possible now: open]",
    }


@pytest.mark.parametrize(("assume", "paid", "total"), [("done", 1, 4), ("rerun", 2, 8)])
def test_person_decides_about_a_call_that_is_not_idempotent(
    play: Play, work: Path, assume: str, paid: int, total: int
) -> None:
    plans = {"do the work": FIRST[:2], "do other work": [FIRST[1], call("close")]}

    def answer(ask: Ask) -> Any:
        task = ask.document.text(1, "task")
        return ACCEPT if ask.phase == "check" else {**plan(*plans[task]), "task": task}

    played = play(answer)
    path = played.folder / f"{played.result.id}.md"
    path.write_text(path.read_text("utf-8").replace("> do the work", "> do other work", 1), "utf-8")
    again = play(answer, resume=played.result.run)
    assert again.result.waiting == "person"
    assert "was done before as step 2, after other steps" in again.result.question
    again = play(answer, resume=played.result.run, assume=f"3={assume}")
    assert logged(work) == ["open", *["pay 4"] * paid, "close"]
    assert results(again)[4].startswith(f"done: close by nobody, sum {total}\n[state closed")


# ---- crashes ---------------------------------------------------------------------------------------------


def test_crash_at_any_write_keeps_the_state(tmp_path: Path) -> None:
    states = {"by": "path", "start": "a", "moves": {"a": {"a": "b"}, "b": {"b": "c"}, "c": {"c": "a"}}}
    steps = [{"tool": "reader", "args": {"path": name}, "needs": []} for name in "abca"]
    at, ended = -1, False
    while not ended:
        work = tmp_path / str(at) / "work"
        reader(work, states, "abc")
        at += 3 * every(6)
        ended = not crashes(lambda work=work: player(work, memory=NIGHT)(attempts(steps)), at, "after")
        runs = work / "state" / "runs"
        if not list(runs.glob("*/system-*.md")):
            continue  # it had not started
        again = player(work, memory=NIGHT)(attempts(steps), resume=next(runs.iterdir()).name)
        done = again.root.steps.values()
        assert [step.evidence["state"]["at"] for step in done] == ["b", "c", "a", "b"], at
        assert [step.evidence["state"]["calls"] for step in done] == [1, 2, 3, 4], at
    assert at > 20


@pytest.mark.parametrize(("assume", "paid", "total"), [("done", 1, 0), ("rerun", 2, 4)])
def test_person_decides_about_a_call_interrupted_by_a_crash(
    work: Path, assume: str, paid: int, total: int
) -> None:
    script = [
        {"phase": ["fused", "plan"], "reply": {**plan(*FIRST), "task": "do the work"}},
        {"phase": "check", "reply": {**ACCEPT, "output": "{{ steps[3].result }}"}},
    ]
    (work / "script.json").write_text(json.dumps(script), "utf-8")
    (work / "die-pay").touch()
    command = [sys.executable, "-m", "runtime.cli", "-C", str(work)]
    environment = {**os.environ, "FRACTAL_SANDBOX": "off", "FRACTAL_MODEL": f"scripted:{work}/script.json"}
    environment |= {} if NIGHT else {"FRACTAL_REMEMBER": "false", "FRACTAL_RECALL": "false"}

    def fractal(*words: str) -> subprocess.CompletedProcess[str]:
        return run(
            [*command, *words], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    assert fractal("run", "do the work").returncode == -signal.SIGKILL
    assert logged(work) == ["open", "pay 4"]
    asked = fractal("resume")
    assert asked.returncode == Exit.WAITING and "step 2 (till {" in asked.stderr
    assert ") was interrupted and may have happened" in asked.stderr
    ended = fractal("resume", "--assume", f"2={assume}")
    assert ended.stdout == f"close by nobody, sum {total}\n", ended.stderr
    assert logged(work) == ["open", *["pay 4"] * paid, "close"]


# ---- properties -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
MACHINES = st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES, max_size=3), min_size=3, max_size=3).map(
    lambda moves: Machine("path", "a", {name: moves.get(name, {}) for name in ("a", "b", "c")})
)


@given(MACHINES, st.lists(st.tuples(NAMES, st.booleans()), max_size=12))
def test_no_call_order_reaches_a_disallowed_action(one: Machine, calls: list[tuple[str, bool]]) -> None:
    steps: list[Step] = []
    at = one.start
    for n, (action, well) in enumerate(calls, 1):
        now = machine_state(one, "tool", steps)
        assert now.at == at
        if refusal(one, now, action):
            assert action not in one.moves[at]
            steps.append(Step(n, "failed", "tool"))
        elif not well:
            steps.append(Step(n, "failed", "tool", evidence={"state": {"at": "c", "calls": 99}}))
        else:
            then = moved(one, now, action, None)
            at = one.moves[at][action]
            state = {"at": then.at, "calls": then.calls, "kept": {}}
            steps.append(Step(n, "done", "tool", evidence={"state": state}))
    assert machine_state(one, "another", steps) == MachineState(one.start)


READER = """---
name: reader
description: reads files in an order
args: {path: {type: string}, lines: {type: string}}
required: [path]
run: "python: runtime.operations.read:read"
effects: [read]
idempotent: true
states: %s
---
"""


def reader(work: Path, states: dict[str, Any], files: Iterable[str]) -> None:
    """A workspace with a machine over file names: a call with a missing file fails."""
    (work / "system" / "operations").mkdir(parents=True)
    (work / "fractal.yaml").touch()
    (work / "system" / "operations" / "reader.md").write_text(READER % json.dumps(states), "utf-8")
    for name in files:
        (work / name).write_text(name, "utf-8")


@settings(
    max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    MACHINES,
    st.lists(st.tuples(NAMES, st.lists(st.integers(1, 8), max_size=2)), min_size=1, max_size=8),
    st.sets(NAMES, max_size=2),
)
def test_no_run_reaches_a_disallowed_action(
    tmp_path_factory: pytest.TempPathFactory,
    one: Machine,
    calls: list[tuple[str, list[int]]],
    missing: set[str],
) -> None:
    work = tmp_path_factory.mktemp("machine") / "work"
    moves = {name: dict(ways) for name, ways in one.moves.items()}
    reader(work, {"by": "path", "start": one.start, "moves": moves}, {"a", "b", "c"} - missing)
    steps = [
        {"tool": "reader", "args": {"path": name}, "needs": sorted({n for n in needs if n < at})}
        for at, (name, needs) in enumerate(calls, 1)
    ]
    played = player(work, memory=NIGHT)(attempts(steps), settings={"fsync": False})
    done = [step for step in played.root.steps.values() if step.state == "done"]
    done.sort(key=lambda step: step.evidence["state"]["calls"])
    at = one.start
    for number, step in enumerate(done, 1):
        action = str((step.args or {})["path"])
        assert action in one.moves[at], "it was not allowed"
        at = one.moves[at][action]
        assert step.evidence["state"] == {"at": at, "calls": number, "kept": {}}
    for step in played.root.steps.values():
        if step.state == "failed" and "not allowed" in (step.result or ""):
            assert "possible now: " in (step.result or "")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "a mapping of by"),
        ({"by": "path", "start": "a"}, "a mapping of by"),
        ({"by": "other", "start": "a", "moves": {"a": {}}}, "'other' is not among args"),
        ({"by": ["path"], "start": "a", "moves": {"a": {}}}, "is not among args"),
        ({"by": "path", "start": "b", "moves": {"a": {}}}, "'b' is not among moves"),
        ({"by": "path", "start": ["a"], "moves": {"a": {}}}, "is not among moves"),
        ({"by": "path", "start": "a", "moves": {"a": {"x": "b"}}}, "there is no state 'b'"),
        ({"by": "path", "start": "a", "moves": {"a": {"x": ["b"]}}}, "there is no state"),
        ({"by": "path", "start": "a", "moves": {"a": ["x"]}}, "a mapping of actions to states"),
        ({"by": "path", "start": True, "moves": {True: {"x": True}}}, "put it in quotes"),
        ({"by": "path", "start": "a", "moves": {"a": {False: "a"}}}, "put it in quotes"),
        ({"by": "kind", "start": "a", "moves": {"a": {"z": "a"}}}, "'z' is no value of kind"),
    ],
)
def test_invalid_machine_is_refused_with_a_fix(data: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        machine(data, {"path": {}, "kind": {"enum": ["x", "y"]}})
