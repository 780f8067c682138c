"""The status and exit code of an accepted run: equal in every output, never better than the evidence."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from in_process import Ran, in_process
from lanes import NIGHT
from playing import ACCEPT, Played, bash, boxed, plan, player, put, read, write

from kernel.asking.responder import Ask
from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.events import Event
from kernel.loop.criteria import Finding
from kernel.loop.proof import unrepaired
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.memory.episodes.experience import experiences_of
from runtime.reflexes.procedure import Reflexes
from runtime.text.expressions import NEUTRAL, neutral

MISSING: dict[str, Any] = {"tool": "read", "args": {"path": "missing.txt"}, "needs": []}
WRITES: dict[str, Any] = {"tool": "write", "args": {"path": "a.txt", "content": "a\n"}, "needs": []}
READS: dict[str, Any] = {"tool": "read", "args": {"path": "a.txt"}, "needs": []}
JUDGE = {"judge": "it is done"}
WRITTEN = {"file": "a.txt", "has": "a"}
ANSWERS: dict[str, Any] = {"tool": "fetch", "args": {"url": "data:text/plain,for%20$649"}, "needs": []}
REFUSES: dict[str, Any] = {"tool": "fetch", "args": {"url": "http://127.0.0.1:9/"}, "needs": []}
PRICED = {"step": 1, "has": r"\$649"}


@dataclass(frozen=True)
class Case:
    """A run: the plans of its root and children, and the expected status."""

    word: str
    exit: int
    steps: Sequence[Mapping[str, Any]]
    success: Sequence[Mapping[str, Any]] = (JUDGE,)
    inner: Sequence[Mapping[str, Any]] = (READS,)
    settings: Mapping[str, Any] | None = None
    why: str = ""


def _fetch(step: Mapping[str, Any], **args: Any) -> dict[str, Any]:
    return {**step, "args": {**step["args"], **args}}


PART: dict[str, Any] = {"subtask": "the inner part", "needs": []}
CASES = {
    "proven by code": Case("complete", 0, [WRITES], [WRITTEN]),
    "nothing to prove and nothing failed": Case("unverified", 0, [WRITES]),
    "all steps failed": Case("unverified", 1, [MISSING, MISSING], why="step 1 failed"),
    "one of two failed": Case("unverified", 1, [WRITES, MISSING], why="step 2 failed"),
    "one of two failed, and a criterion on the folder proves the work": Case(
        "complete", 0, [WRITES, MISSING], [WRITTEN]
    ),
    "a step was never begun": Case("unverified", 1, [MISSING, {**READS, "needs": [1]}], why="step 2 struck"),
    "failed, and done again with success": Case("complete", 0, [READS, WRITES, READS], [WRITTEN]),
    "failed, and a criterion shows its file": Case("complete", 0, [READS, WRITES], [WRITTEN]),
    "one of two sources refused, and only a step shows the criteria": Case(
        "unverified", 1, [ANSWERS, REFUSES], [PRICED], why="step 2 failed"
    ),
    "one of two sources refused, and only a model judges": Case(
        "unverified", 1, [ANSWERS, REFUSES], why="step 2 failed"
    ),
    "the only source refused": Case("unverified", 1, [WRITES, REFUSES], why="step 2 failed"),
    "what a source refused was to be sent": Case(
        "unverified", 1, [ANSWERS, _fetch(REFUSES, method="POST")], [PRICED], why="step 2 failed"
    ),
    "what a source refused was to be a file": Case(
        "unverified", 1, [ANSWERS, _fetch(REFUSES, to="b.txt")], [PRICED], why="step 2 failed"
    ),
    "a step that needs the source that refused was not begun": Case(
        "unverified", 1, [ANSWERS, REFUSES, {**WRITES, "needs": [2]}], [PRICED], why="step 3 struck"
    ),
    "a child failed, and a criterion on the folder proves the work": Case(
        "complete", 0, [WRITES, {**PART, "needs": [1]}], [WRITTEN], inner=[MISSING]
    ),
    "the only child failed": Case("unverified", 1, [PART], inner=[MISSING], why="step 1"),
    "a child went well": Case("unverified", 0, [WRITES, {**PART, "needs": [1]}]),
    "the calls ended before the plan was through": Case(
        "exhausted", 5, [WRITES, *[PART] * 8], settings={"calls": 4}, why="budget"
    ),
}


FORGETS = {} if NIGHT else {"remember": False, "recall": False}
"""What a run leaves in memory takes as long as the run: by day only the tests of memory keep one."""


def _script(place: Path, case: Case) -> str:
    entries = [
        {"phase": "check", "reply": ACCEPT},
        {"phase": "plan", "level": "system", "reply": plan(*case.steps, success=[*case.success])},
        {"phase": "plan", "reply": plan(*case.inner)},
    ]
    path = place / "script.json"
    path.write_text(json.dumps(entries), "utf-8")
    return f"scripted:{path}"


def _fractal(place: Path, *words: str) -> Ran:
    env = {
        **os.environ,
        "FRACTAL_SANDBOX": "off",
        "FRACTAL_CHECK": "always",
        "FRACTAL_EMBEDDER": "lexical",
        "NO_COLOR": "1",
        "XDG_CONFIG_HOME": str(place / "none"),
    }
    return in_process(place / "work", words, env)


@pytest.mark.parametrize("name", CASES)
def test_every_output_shows_the_same_status(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    (tmp_path / "work").mkdir()
    settings = {"model": _script(tmp_path, case), "ladder": None, **(case.settings or {})}
    fractal = Fractal(
        tmp_path / "work", settings={"sandbox": "off", "check": "always", **FORGETS, **settings}
    )
    result = asyncio.run(fractal.run("do the work"))

    assert (result.status, int(result.exit)) == (case.word, case.exit), result
    assert case.why in result.reason
    assert fractal.runs()[0].status == case.word
    (listed,) = json.loads(_fractal(tmp_path, "ls", "--json").out)
    assert listed["status"] == case.word
    assert f" {case.word} " in _fractal(tmp_path, "tree", result.run).out.splitlines()[0]
    served = Runs(tmp_path / "work").state(result.run)
    assert (served.status, served.reason) == (case.word, result.reason)
    shown = _fractal(tmp_path, "show", result.run).out
    assert f'status: "{case.word}"' in shown or ("unverified: true" in shown and case.word == "unverified")
    assert case.why in shown


@pytest.mark.parametrize(
    "name", ["proven by code", "nothing to prove and nothing failed", "all steps failed"]
)
def test_last_line_and_exit_code_agree(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    (tmp_path / "work").mkdir()
    model = _script(tmp_path, case)

    ran = _fractal(tmp_path, "run", "do the work", "--model", model)
    assert ran.exit == case.exit
    assert f": {case.word}, " in ran.err
    assert case.word in ran.err.splitlines()[-1]
    assert ran.out == "done\n"

    (tmp_path / "work" / "a.txt").unlink(missing_ok=True)
    events = _fractal(tmp_path, "run", "do the work", "--model", model, "--json")
    last = json.loads(events.out.splitlines()[-1])["data"]
    assert (events.exit, last["status"], last["exit"]) == (case.exit, case.word, case.exit)


def test_accepted_failure_is_not_a_success_in_memory(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    settings = {"sandbox": "off", "check": "always", "model": _script(tmp_path, CASES["all steps failed"])}
    fractal = Fractal(tmp_path / "work", settings=settings)
    asyncio.run(fractal.run("do the work"))
    (experience,) = experiences_of(fractal.documents(fractal.find("")))
    assert experience.success is False and "step 1 failed" in experience.reason


def test_old_complete_document_without_proof_is_unverified(tmp_path: Path) -> None:
    run = tmp_path / ".fractal" / "state" / "runs" / "7f3kq2"
    run.mkdir(parents=True)
    meta = Meta("system-7f3kq2", "7f3kq2", status="complete", phase="output", unverified=True)
    document = Document(
        meta, {1: Section(notes=(Note("task", "t"),)), 5: Section(notes=(Note("result", "r"),))}
    )
    (run / "system-7f3kq2.md").write_bytes(render(document))
    (found,) = Fractal(tmp_path).runs()
    assert found.status == "unverified"
    served = Runs(tmp_path).state("7f3kq2")
    assert (served.status, served.result) == ("unverified", "r")


def _left(*steps: Step) -> list[int]:
    sections = {
        2: Section(steps={each.n: each for each in steps}),
        3: Section(steps={each.n: each for each in steps}),
    }
    return [each.n for each in unrepaired(Document(Meta("system-x", "x"), sections), ())]


def test_failed_step_is_repaired_by_an_equal_later_step() -> None:
    failed = Step(1, "failed", "fetch", {"url": "http://a"})
    assert _left(failed) == [1]
    assert _left(failed, Step(2, "done", "fetch", {"url": "http://a"})) == []
    assert _left(failed, Step(2, "done", "fetch", {"url": "http://b"})) == [1]
    assert _left(failed, Step(2, "done", "read", {"url": "http://a"})) == [1]
    assert _left(Step(1, "done", "read", {"path": "a"}), Step(2, "failed", "read", {"path": "a"})) == [2]
    part = Step(1, "unknown", what="count the words")
    assert _left(part, Step(2, "done", what="count the words")) == []
    assert _left(part, Step(2, "done", what="count the lines")) == [1]


def test_step_skipped_by_a_person_needs_no_repair() -> None:
    assert _left(Step(1, "struck", "read", {"path": "a"}, origin="person")) == []
    assert _left(Step(1, "struck", "read", {"path": "a"}, origin="kernel")) == [1]


def test_attempt_without_steps_inherits_earlier_failures() -> None:
    earlier = Section(steps={1: Step(1, "failed", "read", {"path": "a"})})
    assert [each.n for each in unrepaired(Document(Meta("system-x", "x", base=1), {3: earlier}), ())] == [1]


def test_failed_validation_cannot_accept(tmp_path: Path) -> None:
    fail = {**ACCEPT, "validation": "fail", "issues": ["half of it is missing"]}
    played = player(tmp_path, memory=NIGHT)(lambda ask: fail if ask.phase == "check" else plan(WRITES))
    assert played.result.status == "escalated"
    assert "validation is fail, so ACCEPT is not open" in played.result.reason


def test_a_direct_answer_takes_one_call_and_says_that_nothing_supports_it(tmp_path):
    played = player(tmp_path / "work", memory=NIGHT)(
        lambda ask: {"done": "Paris"}, "what is the capital of France?", settings={"check": "auto"}
    )
    assert (played.result.status, played.result.exit, played.result.output) == ("unverified", 0, "Paris")
    assert played.result.spent["calls"] == 1
    assert played.root.meta.unverified and played.root.text(4, "evidence") == "none"


def test_an_acceptance_without_evidence_is_unverified(tmp_path):
    doubt = {"validation": "pass", "decision": "ACCEPT", "unverified": True, "output": "done"}
    replies = [plan(WRITES, success=[WRITTEN]), doubt]
    played = player(tmp_path / "work", memory=NIGHT)(lambda ask: replies.pop(0))
    assert (played.result.status, played.result.exit) == ("unverified", 0)


# ---- what shows that a change was made ------------------------------------------------------------------

FIX = "fix the bug in a.py"
CLAIM = {**ACCEPT, "output": "I fixed the bug in a.py"}
SEES = read("a.py")
LAZY: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "a step has a word of the file": ([SEES], [{"step": 1, "has": "broken"}]),
    "each of several steps has something": (
        [SEES, read("b.py")],
        [{"step": 1, "has": "broken"}, {"step": 2, "has": "whole"}],
    ),
    "a command looks only at a step": ([SEES], [{"run": 'echo "$RESULT_1" | grep -q broken'}]),
    "a command that cannot fail, beside a step": ([SEES], [{"run": "true"}, {"step": 1, "has": "broken"}]),
    "the folder is there, beside a step": (
        [SEES],
        [{"run": "test -d ."}, {"run": "echo fixed"}, {"step": 1, "has": "broken"}],
    ),
    "a file that was there, beside a step": (
        [SEES],
        [{"file": "a.py", "has": "broken"}, {"step": 1, "has": "broken"}],
    ),
    "nothing was spoilt, beside a step": ([SEES], [{"same": "a.py"}, {"step": 1, "has": "broken"}]),
    "its own word": ([SEES], [{"judge": "the bug is fixed"}]),
    "a program says so": ([bash("echo the bug is fixed")], [{"step": 1, "has": "bug is fixed"}]),
    "a check that holds before, beside a step": (
        [SEES],
        [{"check": "valid", "file": "a.py"}, {"step": 1, "has": "broken"}],
    ),
    "memory says so": (
        [{"tool": "recall", "args": {"query": "the bug"}}],
        [{"step": 1, "has": "know nothing"}],
    ),
}


def _project(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    put(work, "a.py", "broken = 1\n")
    put(work, "b.py", "whole = 1\n")
    return work


def _plays(tmp_path: Path, *plans: Mapping[str, Any], task: str = FIX, **options: Any) -> Played:
    """A run whose model plans as told, one plan an attempt, and claims that all is done."""
    checks = options.pop("checks", [CLAIM])

    def answers(ask: Ask) -> Any:
        attempt = ask.document.meta.attempt - 1
        return checks[min(attempt, len(checks) - 1)] if ask.phase == "check" else plans[attempt]

    remembers = options.pop("remembers", False) or NIGHT
    return player(_project(tmp_path), memory=remembers)(answers, task, **options)


@boxed
@pytest.mark.parametrize("name", LAZY)
def test_run_that_only_reads_does_not_complete_an_order(tmp_path: Path, name: str) -> None:
    steps, success = LAZY[name]
    remembers = name == "memory says so"
    proposed = plan(*steps, success=success)
    played = _plays(tmp_path, proposed, settings={"sandbox": "auto"}, remembers=remembers)
    assert (played.result.status, played.result.exit) == ("unverified", 0), played.result
    for document in played.documents.values():
        for line in document.text(4, "evidence").splitlines():
            finding = Finding.read(line)
            assert finding is None or "step" not in finding.criterion or "before" not in line


def test_child_that_proves_itself_by_steps_does_not_complete_an_order(tmp_path: Path) -> None:
    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": "{{ steps[1].result }}"} if ask.document.meta.parent else CLAIM
        part = {"subtask": "show what is in a.py", "needs": []}
        child = plan(SEES, success=[{"step": 1, "has": "broken"}])
        return child if ask.document.meta.parent else plan(part, success=[{"step": 1, "has": "broken"}])

    played = player(_project(tmp_path), memory=NIGHT)(answers, FIX)
    child = next(each for each in played.documents.values() if each.meta.parent and each.meta.level == "tool")
    assert child.meta.word == "complete"  # it was only to be shown, and it is
    assert (played.result.status, played.result.exit) == ("unverified", 0)


def test_order_given_while_a_question_is_worked_on_counts(tmp_path: Path) -> None:
    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": "{{ steps[1].result }}"}
        if not ask.document.note(1, "answer"):
            return {"calls": [SEES], "question": "And then?"}
        return {"done": "it is broken"}

    first = player(_project(tmp_path), memory=NIGHT)(answers, "what is in a.py?")
    assert first.result.status == "waiting"
    assert _fractal(tmp_path, "answer", first.result.run, "fix the bug in it").exit == 0
    played = player(tmp_path / "work", memory=NIGHT)(answers, resume=first.result.run)
    assert (played.result.status, played.result.exit) == ("unverified", 0)


def test_change_in_an_earlier_attempt_stays_proven(tmp_path: Path) -> None:
    mended = write("a.py", "whole = 1\n")
    retry = {"validation": "fail", "decision": "RETRY", "learned": "look once more"}
    proof = {"file": "a.py", "has": "whole"}
    again = plan(SEES, success=[proof])
    first = plan(mended, success=[{"judge": "it is mended"}])
    played = _plays(tmp_path / "other", first, again, checks=[retry, CLAIM])
    assert played.result.status == "complete"
    assert "(before: FAIL)" in played.root.text(4, "evidence")
    played = _plays(tmp_path / "equal", plan(mended, success=[proof]), again, checks=[retry, CLAIM])
    assert played.result.status == "complete"


def test_mending_what_an_earlier_attempt_broke_proves_nothing(tmp_path: Path) -> None:
    breaks, mends = write("b.py", "gone\n"), write("b.py", "whole = 1\n")
    retry = {"validation": "fail", "decision": "RETRY", "learned": "b.py is spoilt"}
    plans = plan(breaks), plan(mends, success=[{"file": "b.py", "has": "whole"}])
    played = _plays(tmp_path, *plans, checks=[retry, CLAIM])
    assert played.result.status == "unverified"
    assert "(before: pass)" in played.root.text(4, "evidence")


@boxed
def test_command_that_held_at_the_start_proves_nothing_in_a_later_attempt(tmp_path: Path) -> None:
    breaks, mends = write("b.py", "gone\n"), write("b.py", "whole = 1\n")
    retry = {"validation": "fail", "decision": "RETRY", "learned": "b.py is spoilt"}
    plans = plan(breaks), plan(mends, success=[{"run": "grep -q whole b.py"}])
    played = _plays(tmp_path, *plans, checks=[retry, CLAIM], settings={"sandbox": "auto"})
    assert played.result.status == "unverified"
    assert "(before: pass)" in played.root.text(4, "evidence")


def test_criterion_that_comes_true_without_a_change_completes_no_order(tmp_path: Path) -> None:
    """Another program writes the file meanwhile: the run itself could change nothing."""
    entries = [
        {"phase": "check", "reply": CLAIM},
        {"phase": "plan", "reply": plan(SEES, success=[{"file": "other.txt", "has": "there"}])},
    ]
    script = put(tmp_path, "script.json", json.dumps(entries))
    settings = {"sandbox": "off", "check": "always", "model": f"scripted:{script}", "ladder": None, **FORGETS}

    def writes(event: Event) -> None:
        if event.kind == "step_finished":
            put(tmp_path / "work", "other.txt", "there")

    fractal = Fractal(_project(tmp_path), settings=settings, on_event=writes)
    result = asyncio.run(fractal.run(FIX))
    assert (result.status, result.exit) == ("unverified", 0)
    assert "(before: FAIL)" in fractal.document(result.run).text(4, "evidence")


ANY = [".", r"\w", r"[\s\S]", "^$|x", "(?i)the|a", "^", r"\d", ".*", r"\S+", "[^z]", "(?s).+"]
AT_NIGHT = [".", r"\w", r"\S+", "[^z]", ".*", "(?s).+"]
"""Patterns that are refused like others; by day only whether they match any text is asked of them."""


@pytest.mark.parametrize(
    "pattern", [pytest.param(each, marks=pytest.mark.night if each in AT_NIGHT else ()) for each in ANY]
)
def test_pattern_that_matches_any_text_is_refused(tmp_path: Path, pattern: str) -> None:
    plans = [
        plan(SEES, success=[{"step": 1, "has": pattern}]),
        plan(SEES, success=[{"step": 1, "has": "broken"}]),
    ]
    played = player(_project(tmp_path), memory=NIGHT)(
        lambda ask: CLAIM if ask.phase == "check" else plans.pop(0), FIX
    )
    (refused,) = [each.data["why"] for each in played.events if each.kind == "ask_refused"]
    assert "matches any text; write what only the right step has" in refused
    assert played.result.status == "unverified"


def test_pattern_of_a_word_is_no_neutral_one() -> None:
    assert not any(
        neutral(each, numbers=False) for each in (r"\$\d+", "wrote", "42 lines", r"^def \w+", "Berlin")
    )
    assert all(neutral(text, numbers=False) for text in NEUTRAL[1:])
    assert all(neutral(pattern, numbers=False) for pattern in ANY)


# ---- questions ----

QUESTION = "what is in a.py?"
ANSWERED = {"step": 1, "has": "broken"}


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("{{ steps[1].result }}", "complete"),
        ("It sets broken to 1.", "complete"),
        ("It sets broken to 2.", "unverified"),
        ("It is written by Lima.", "unverified"),
        ("I fixed the bug.", "unverified"),
        ("Nothing of interest.", "unverified"),
    ],
)
def test_answer_to_a_question_is_complete_if_it_stands_in_a_result(
    tmp_path: Path, output: str, status: str
) -> None:
    check = {**ACCEPT, "output": output}
    played = _plays(tmp_path, plan(SEES, success=[ANSWERED]), task=QUESTION, checks=[check])
    assert (played.result.status, played.result.exit) == (status, 0)


def test_answer_that_only_a_command_says_is_not_grounded(tmp_path: Path) -> None:
    steps = bash("echo the capital of Chile is Lima")
    played = _plays(
        tmp_path,
        plan(steps, success=[{"step": 1, "has": "Lima"}]),
        task="what is the capital of Chile?",
        checks=[{**ACCEPT, "output": "Lima"}],
        yes=True,
    )
    assert played.result.status == "unverified"


def test_question_that_changed_something_is_not_complete(tmp_path: Path) -> None:
    plans = plan(SEES, write("c.py", "x = 1\n"), success=[ANSWERED])
    check = {**ACCEPT, "output": "{{ steps[1].result }}"}
    assert _plays(tmp_path, plans, task=QUESTION, checks=[check]).result.status == "unverified"


def test_failed_step_beside_proven_work_is_told(tmp_path: Path) -> None:
    played = _plays(tmp_path, plan(write("a.txt", "a"), MISSING, success=[WRITTEN]))
    assert played.result.status == "complete"
    assert "step 2 failed" in played.root.text(5, "failed steps")


# ---- runs without a model ----

ORDERS = (
    "copy a.py to c.py",
    "write hello into h.txt",
    "delete b.py",
    "make a folder called sub",
    "sort a.py in place",
)
QUESTIONS = (
    "what is 15% of 80?",
    "15% of 80",
    "show a.py",
    "count the lines in a.py",
    "list files",
    "does a.py exist?",
)


def _alone(work: Path) -> Fractal:
    return Fractal(work, settings={"ladder": None, **FORGETS})


def test_reflexes_are_complete_by_true_evidence(tmp_path: Path) -> None:
    work = _project(tmp_path)
    put(work, "a.py", "b\na\n")
    for task in (*QUESTIONS, *ORDERS):
        result = asyncio.run(_alone(work).run(task))
        assert (result.status, result.exit) == ("complete", 0), (task, result)
    again = asyncio.run(_alone(work).run("sort a.py in place"))
    assert (again.status, again.exit) == ("unverified", 0)  # nothing shows that this run sorted it


def test_what_is_not_known_is_unanswered_everywhere(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert _fractal(tmp_path, "remember", "my sister's birthday is 4 May").exit == 0
    ran = _fractal(tmp_path, "run", "who is the president of France?")
    assert ran.exit == 7 and ran.out.startswith("I know nothing about that")
    assert "unanswered: nothing that is known answers it" in ran.err
    assert "checked: no answer is known" in ran.err and "accepted" not in ran.err
    fractal = Fractal(tmp_path / "work")
    (summary,) = fractal.runs()
    assert summary.status == "unanswered"
    (listed,) = json.loads(_fractal(tmp_path, "ls", "--json").out)
    assert listed["status"] == "unanswered"
    served = Runs(tmp_path / "work").state(summary.run)
    assert (served.status, served.exit) == ("unanswered", 7)
    (experience,) = experiences_of(fractal.documents(summary.run))
    assert experience.success is False and experience.signal != "tests_passed"
    report = json.loads(_fractal(tmp_path, "brain", "report", "--json").out)
    assert report["answered"] == 0.0 and not report["right"]
    (month,) = fractal.growth()
    assert (month.tasks, month.autonomy) == (1, 0.0)


def test_waiting_tasks_count_as_not_answered(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert _fractal(tmp_path, "run", "what is 2+2").exit == 0
    assert _fractal(tmp_path, "run", "write a poem about the sea").exit == 6
    report = json.loads(_fractal(tmp_path, "brain", "report", "--json").out)
    assert report["other_tasks"] == 2 and report["answered"] == 0.5
    (month,) = Fractal(tmp_path / "work").growth()
    assert (month.tasks, month.autonomy) == (2, 0.5)


def test_shipped_reflexes_have_no_criterion_that_holds_for_any_text() -> None:
    shipped = Reflexes([Path(__file__).parents[1] / "system"])
    assert shipped.faults == []


def test_reflex_with_a_pattern_that_matches_any_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reflexes").mkdir()
    text = (
        "---\nname: hello\nphrasings: |\n  say hello\nsteps:\n  - tool: calc\n    args: {expression: '1'}\n"
        "success:\n  - {step: 1, has: '^'}\n---\n"
    )
    (tmp_path / "reflexes" / "hello.md").write_text(text, "utf-8")
    (fault,) = Reflexes([tmp_path]).faults
    assert "'^' matches any text" in fault.message


def test_evidence_of_earlier_versions_is_read() -> None:
    old = Finding.read('- pass {"step": 1, "has": "x"} (before: FAIL) → matched \'x\'')
    assert old and (old.before, old.after, old.note) == (False, True, "matched 'x'")
    new = Finding({"step": 1, "has": "x"}, None, True, "matched 'x'")
    assert "before" not in new.line() and Finding.read(new.line()) == new
