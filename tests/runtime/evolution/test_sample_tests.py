"""Sample tests of tools: what passes, what fails, and how CHECK uses the results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lanes import within
from playing import ACCEPT, Play, Played, plan
from state_machine_tools import PROGRAM, TILL

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from runtime.catalogue.catalogue import Catalogue
from runtime.evolution.sample_tests import sample_missing, try_sample
from runtime.operations.running import caller
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

SHOUT = "import json, sys\nprint(json.load(sys.stdin)['text'].upper())\n"


def pattern(sample: Any, **more: Any) -> str:
    meta: dict[str, Any] = {
        "name": "shout",
        "description": "says it in capitals",
        "args": {"text": {"type": "string"}},
        "required": ["text"],
        "run": "command: ./tool.py",
        "effects": ["write"],
        "timeout": 5,
        "sample": sample,
    }
    kept = {name: value for name, value in (meta | more).items() if value is not None}
    return f"---\n{yaml.safe_dump(kept)}---\nLouder.\n"


def tried(folder: Path, sample: Any, program: str = SHOUT, text: str = "") -> tuple[bool, str]:
    place = folder / "system" / "tools" / "shout"
    place.mkdir(parents=True)
    (place / "tool.py").write_text(program, "utf-8")
    (place / "pattern.md").write_text(text or pattern(sample), "utf-8")
    catalogue = Catalogue([folder / "system"])
    (tool,) = catalogue.tools.values()
    if why := sample_missing(tool):
        return False, why
    there = OperationContext(folder, Sandbox("off"), timeout=tool.timeout, effects=tool.effects)
    return asyncio.run(try_sample(tool, there, caller()))


GOOD = {"task": "shout", "args": {"text": "hello"}, "shows": "^HELLO$"}


@pytest.mark.parametrize(
    ("sample", "passed", "says"),
    [
        (GOOD, True, "its sample passed: HELLO"),
        ({**GOOD, "shows": "^hello$"}, False, "does not show '^hello$': HELLO"),
        ({**GOOD, "shows": "("}, False, "sample: shows: "),
        ({**GOOD, "args": {"text": 3}}, False, "text must be string"),
        ({**GOOD, "args": {}}, False, "needs text"),
        ({**GOOD, "args": {"text": "x", "more": 1}}, False, "has no argument more"),
        ({**GOOD, "leaves": ["out.txt"]}, False, "its sample left no out.txt"),
        ({**GOOD, "files": {"../x": "y"}}, False, "leads outside the sample's folder"),
        ({**GOOD, "files": {"/etc/x": "y"}}, False, "leads outside the sample's folder"),
        ({"task": "x", "args": {"text": "y"}}, False, "a task and shows"),
        ({"args": {"text": "y"}, "shows": "y"}, False, "a task and shows"),
        ({"task": "x", "shows": "y"}, False, "the arguments of the call are needed"),
    ],
)
def test_sample_passes_or_reports_the_problem(tmp_path: Path, sample: Any, passed: bool, says: str) -> None:
    found, note = tried(tmp_path, sample)
    assert found is passed and says in note, note


@pytest.mark.parametrize(
    ("cases", "passed", "says"),
    [
        ([{"args": {"text": "a"}, "shows": "^A$"}], True, "its sample passed: HELLO\n2 of 2 passed"),
        ([{"args": {"text": "a"}, "shows": "^a$"}], False, "case 1: its sample's result does not show"),
        ([{"args": {"text": "a"}}], False, "cases: 1: a call's args and shows are needed"),
    ],
)
def test_each_case_has_to_pass(tmp_path: Path, cases: Any, passed: bool, says: str) -> None:
    found, note = tried(tmp_path, GOOD, text=pattern(GOOD, cases=cases))
    assert found is passed and says in note, note


def test_sample_runs_with_its_files_in_its_own_folder(tmp_path: Path) -> None:
    program = "open('out/made.txt', 'w').write(open('in/given.txt').read())\nprint('done')\n"
    sample = {
        **GOOD,
        "files": {"in/given.txt": "x", "out/keep": ""},
        "leaves": ["out/made.txt"],
        "shows": "done",
    }
    assert tried(tmp_path, sample, program)[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise SystemExit('no')", "its sample failed: no ⏎ [exit 1]"),
        ('print(\'{"error": "not today"}\')', "its sample failed: not today"),
        ("import time; time.sleep(60)", "its sample failed: [stopped after"),
    ],
)
def test_failing_program_fails_its_sample(tmp_path: Path, program: str, says: str) -> None:
    with within(10):
        passed, note = tried(tmp_path, {**GOOD, "shows": ""}, program)
        assert not passed and says in note


def till(before: list[str], then: str) -> str:
    calls = [{"action": each, "amount": 2} if each == "pay" else {"action": each} for each in before]
    sample = {"task": "x", "before": calls, "args": {"action": then}, "shows": "sum 2"}
    text = (TILL % ("write", "false")).replace("./till.py", "./tool.py")
    head = [line for line in text.splitlines() if not line.startswith("sample")]
    head.insert(1, f"sample: {yaml.safe_dump(sample, default_flow_style=True, width=1000).strip()}")
    return "\n".join(head)


def test_sample_of_a_machine_makes_its_earlier_calls(tmp_path: Path) -> None:
    assert tried(tmp_path, None, PROGRAM, till(["open", "pay"], "close")) == (
        True,
        "its sample passed: close by nobody, sum 2",
    )


def test_sample_of_a_machine_obeys_its_states(tmp_path: Path) -> None:
    passed, note = tried(tmp_path, None, PROGRAM, till(["open", "close"], "pay"))
    assert not passed
    assert note == (
        "sample: action 'pay' is not allowed in the state 'closed'; possible now: open; "
        "before: names the calls that lead there"
    )


# ---- in CHECK --------------------------------------------------------------------------------------------


def draft(name: str, content: str) -> dict[str, Any]:
    return {"tool": "write", "args": {"path": f".fractal/system/{name}", "content": content}}


def answers(*attempts: list[dict[str, Any]]) -> Callable[[Ask], Any]:
    def answer(ask: Ask) -> Any:
        meta = ask.document.meta
        if ask.phase == "understand":
            return {"task": ask.document.text(1, "task"), "context": []}
        if ask.phase == "check":
            broken = any(each["after"] is False for each in ask.evidence.get("criteria", []))
            retry = {"validation": "fail", "issues": ["a draft fails"], "decision": "RETRY"}
            retry |= {"learned": "it says hm", "output": ""}
            return retry if broken else ACCEPT
        if meta.parent:
            return plan({"tool": "list", "args": {}})
        return plan(*attempts[meta.attempt - 1])

    return answer


def evidence(played: Played) -> str:
    return played.root.text(4, "evidence")


def test_failing_draft_is_retried(play: Play) -> None:
    wrong = [draft("tools/shout/tool.py", "print('hm')"), draft("tools/shout/pattern.md", pattern(GOOD))]
    right = [draft("tools/shout/tool.py", SHOUT)]
    played = play(answers(wrong, right))
    assert played.result.exit == 0
    (fold,) = played.root.section(2).folds
    assert fold.decision == "retry"
    assert '- pass {"draft": "tools/shout"}' in evidence(played)


def test_accept_is_refused_while_a_draft_fails_its_sample(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            stop = {"validation": "fail", "issues": ["no"], "decision": "ESCALATE", "output": ""}
            return stop if "was refused" in prompt_text(ask) else ACCEPT
        return plan(draft("tools/shout/pattern.md", pattern(GOOD)))

    played = play(answer)
    assert played.result.status == "escalated"
    assert "ACCEPT is not open" in str([e.data for e in played.events if e.kind == "ask_refused"])
    assert "there is no program tool.py beside it" in evidence(played)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "tools/shout/pattern.md",
            "---\nname: [\n---\n",
            "tools/shout/pattern.md:3: the frontmatter is not YAML",
        ),
        ("tools/shout/pattern.md", pattern(None), "a task and shows"),
        ("tools/shout/pattern.md", pattern(GOOD, run="python: os:system"), "a draft is guidance or command:"),
        ("operations/shout.md", pattern(GOOD), "there is no program tool.py beside it"),
        ("tools/shout/notes.txt", "only notes", "there is no pattern.md in use"),
    ],
)
def test_problem_of_a_draft_is_in_the_evidence(play: Play, name: str, text: str, says: str) -> None:
    played = play(answers([draft(name, text)]), settings={"retries": 0})
    assert f'- FAIL {{"draft": "{name.rpartition("/")[0] if "tools" in name else name}"}}' in evidence(played)
    assert says in evidence(played)


def test_guided_draft_is_tested_by_a_step_of_the_run(play: Play) -> None:
    sample = {"task": "look around", "shows": "done"}
    text = pattern(sample, run=None, args=None, required=None)
    alone = play(answers([draft("tools/shout/pattern.md", text)]), settings={"retries": 0})
    assert 'give one: {\\"tool\\": \\"shout\\", \\"what\\": \\"look around\\"}' in evidence(alone)
    steps = [draft("tools/shout/pattern.md", text), {"tool": "shout", "what": "look around"}]
    played = play(answers(steps), settings={"retries": 0})
    assert played.result.exit == 0
    assert '- pass {"draft": "tools/shout"}' in evidence(played) and "step 2" in evidence(played)


def test_guided_draft_changed_after_its_test_is_untested(play: Play) -> None:
    sample = {"task": "look around", "shows": "done"}
    text = pattern(sample, run=None, args=None, required=None)
    steps = [
        draft("tools/shout/pattern.md", text),
        {"tool": "shout", "what": "look around"},
        draft("tools/shout/pattern.md", f"{text}\nMore.\n"),
    ]
    played = play(answers(steps), settings={"retries": 0})
    assert "no step has tried it as it stands" in evidence(played)


def test_phase_file_is_tested_by_a_subtask(play: Play) -> None:
    text = "# CHECK\nJudge well.\n"
    alone = play(answers([draft("phases/check.md", text)]), settings={"retries": 0})
    assert "no subtask has gone through it as it stands" in evidence(alone)
    played = play(answers([draft("phases/check.md", text), {"subtask": "a small task"}]))
    assert played.result.exit == 0
    assert '- pass {"draft": "phases/check.md"}' in evidence(played)
