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
from playing import ACCEPT, plan, player

from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.loop.check import unrepaired
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.memory.episodes.experience import experiences_of

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
    "one of two failed, beside a criterion of another file": Case(
        "unverified", 1, [WRITES, MISSING], [WRITTEN], why="step 2 failed"
    ),
    "a step was never begun": Case("unverified", 1, [MISSING, {**READS, "needs": [1]}], why="step 2 struck"),
    "failed, and done again with success": Case("complete", 0, [READS, WRITES, READS], [WRITTEN]),
    "failed, and a criterion shows its file": Case("complete", 0, [READS, WRITES], [WRITTEN]),
    "one of two sources refused, and code shows the criteria": Case(
        "complete", 0, [ANSWERS, REFUSES], [PRICED]
    ),
    "one of two sources refused, and only a model judges": Case(
        "unverified", 1, [ANSWERS, REFUSES], why="step 2 failed"
    ),
    "the only source refused": Case("unverified", 1, [WRITES, REFUSES], [WRITTEN], why="step 2 failed"),
    "what a source refused was to be sent": Case(
        "unverified", 1, [ANSWERS, _fetch(REFUSES, method="POST")], [PRICED], why="step 2 failed"
    ),
    "what a source refused was to be a file": Case(
        "unverified", 1, [ANSWERS, _fetch(REFUSES, to="b.txt")], [PRICED], why="step 2 failed"
    ),
    "a step that needs the source that refused was not begun": Case(
        "unverified", 1, [ANSWERS, REFUSES, {**WRITES, "needs": [2]}], [PRICED], why="step 3 struck"
    ),
    "the only child failed": Case("unverified", 1, [PART], inner=[MISSING], why="step 1"),
    "a child went well": Case("unverified", 0, [WRITES, {**PART, "needs": [1]}]),
    "the calls ended before the plan was through": Case(
        "exhausted", 5, [WRITES, *[PART] * 8], settings={"calls": 4}, why="budget"
    ),
}


def _script(place: Path, case: Case) -> str:
    entries = [
        {"phase": "check", "reply": ACCEPT},
        {"phase": ["fused", "plan"], "level": "system", "reply": plan(*case.steps, success=[*case.success])},
        {"phase": ["fused", "plan"], "reply": plan(*case.inner)},
    ]
    path = place / "script.json"
    path.write_text(json.dumps(entries), "utf-8")
    return f"scripted:{path}"


def _fractal(place: Path, *words: str) -> Ran:
    env = {
        **os.environ,
        "FRACTAL_SANDBOX": "off",
        "FRACTAL_CHECK": "always",
        "NO_COLOR": "1",
        "XDG_CONFIG_HOME": str(place / "none"),
    }
    return in_process(place / "work", words, env)


@pytest.mark.parametrize("name", CASES)
def test_every_output_shows_the_same_status(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    (tmp_path / "work").mkdir()
    settings = {"model": _script(tmp_path, case), "ladder": None, **(case.settings or {})}
    fractal = Fractal(tmp_path / "work", settings={"sandbox": "off", "check": "always", **settings})
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
    played = player(tmp_path)(lambda ask: fail if ask.phase == "check" else plan(WRITES))
    assert played.result.status == "escalated"
    assert "validation is fail, so ACCEPT is not open" in played.result.reason


def test_a_direct_answer_takes_one_call_and_says_that_nothing_supports_it(tmp_path):
    played = player(tmp_path / "work")(lambda ask: {"task": "the capital of France", "answer": "Paris"})
    assert (played.result.status, played.result.exit, played.result.output) == ("unverified", 0, "Paris")
    assert played.result.spent["calls"] == 1
    assert "knowledge" in played.root.text(2, "approach")


def test_an_acceptance_without_evidence_is_unverified(tmp_path):
    doubt = {"validation": "pass", "decision": "ACCEPT", "unverified": True, "output": "done"}
    replies = [plan(WRITES, success=[WRITTEN]), doubt]
    played = player(tmp_path / "work")(lambda ask: replies.pop(0))
    assert (played.result.status, played.result.exit) == ("unverified", 0)
