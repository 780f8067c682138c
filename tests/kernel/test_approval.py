"""Approval of calls: what is refused, what needs approval, and what --yes covers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, doing, plan, write

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.document.escaping import to_json
from kernel.document.model import Document, Meta, Section, Step
from kernel.errors import OperationFailed
from kernel.loop.approval import approval, call_digest, unapproved
from kernel.loop.calls import check_call
from kernel.loop.hooks import Hooks
from kernel.loop.run_context import ApprovedCall, Policy, RunContext, Session
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore
from kernel.tools.tool import Danger, Tool
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.operations.running import caller
from runtime.sandbox.context import context_of
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.standing import approved_before, files_of

CATALOGUE = Catalogue([shipped_system()])
RM = {"command": "rm -rf build"}
DANGER = Danger("destructive delete", "danger", "it removes a folder")
SERIOUS = Danger("credentials", "serious", "it reads a key")


class Reporting(Hooks):
    """Reports the same dangers and kind of every call, and why no tool may be used."""

    def __init__(
        self, dangers: Sequence[Danger], kind: str = "", *, why: str = "", checked: list[Tool] | None = None
    ) -> None:
        self.dangers, self.named, self.why = dangers, kind, why
        self.checked = [] if checked is None else checked

    def guard(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        self.checked.append(tool)
        return self.dangers

    def kind(self, tool: Tool, args: Mapping[str, Any]) -> str:
        return self.named

    def names(self, run: RunContext, tool: Tool, args: Any) -> Mapping[str, str]:
        return files_of(run, tool, args)

    def approved(
        self,
        run: RunContext,
        tool: Tool,
        args: Mapping[str, Any],
        effects: Sequence[str],
        dangers: Sequence[Danger],
    ) -> str:
        return approved_before(run, tool, args, effects, dangers)

    async def admitted(self, run: RunContext, tool: Tool) -> str:
        return self.why and f"{tool.name} {self.why}"


def session(
    folder: Path,
    *dangers: Danger,
    steps: Mapping[int, Step] | None = None,
    admitted: str = "",
    **policy: Any,
) -> Session:
    """A session with a stored document and a guard that always reports these dangers."""
    (folder / "artifacts").mkdir(exist_ok=True)
    run_context = RunContext(
        "abc123",
        folder,
        FileStore(folder),
        ReplyLog(folder / "calls.jsonl"),
        CATALOGUE,
        Ladder(()),
        Sandbox("off"),
        folder / "artifacts",
        policy=Policy(**policy),
        call=caller(),
        contexts=context_of,
        hooks=Reporting(dangers, why=admitted),
    )
    document = Document(Meta("system-abc123", "abc123"), {3: Section(steps=dict(steps or {}))})
    return Session(run_context, document)


def tool(name: str) -> Tool:
    return CATALOGUE.get(name)


def refused(loop: Session, name: str, args: Mapping[str, Any]) -> str:
    try:
        asyncio.run(check_call(loop, Step(9, tool=name), tool(name), args))
    except OperationFailed as error:
        return str(error)
    return ""


# ---- refused calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"path": "x"}, ""),
        ({}, "needs path"),
        ({"path": 3}, "path must be string"),
        ({"path": "x", "mode": "r"}, "has no argument mode"),
    ],
)
def test_invalid_arguments_are_refused(tmp_path: Path, args: dict[str, Any], says: str) -> None:
    message = refused(session(tmp_path), "read", args)
    assert says in message if says else message == ""


def test_call_is_refused_after_two_failures(tmp_path: Path) -> None:
    failed = {n: Step(n, "failed", "read", {"path": "x"}, origin="tool:read") for n in (1, 2)}
    loop = session(tmp_path, steps=failed)
    assert (
        refused(loop, "read", {"path": "x"}) == "the same call failed 2 times already and is not tried again"
    )
    assert refused(loop, "read", {"path": "y"}) == ""
    assert refused(session(tmp_path, steps={1: failed[1]}), "read", {"path": "x"}) == ""


def test_unadmitted_tool_is_refused_unless_it_is_a_draft_of_the_run(
    tmp_path: Path,
) -> None:
    loop = session(tmp_path, admitted="was changed since its test")
    assert refused(loop, "read", {"path": "x"}) == "read was changed since its test"
    draft = replace(tool("read"), draft=True)
    asyncio.run(check_call(loop, Step(9, tool="read"), draft, {"path": "x"}))


# ---- calls that need approval -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "dangers", "effects", "left"),
    [
        ({}, (), [], []),
        ({"approve": ("shell",)}, (), ["shell"], []),
        ({"approve": ("write", "shell")}, (), ["shell"], []),
        ({"approve": ("network",)}, (), [], []),
        ({"approve": ("shell",), "yes": True}, (), [], []),
        ({}, (DANGER,), [], [DANGER]),
        ({}, (DANGER, SERIOUS), [], [DANGER, SERIOUS]),
        ({"yes": True}, (DANGER, SERIOUS), [], [SERIOUS]),
        ({"yes": True, "approve": ("shell",)}, (SERIOUS,), [], [SERIOUS]),
        ({"approve": ("shell",)}, (DANGER,), ["shell"], [DANGER]),
    ],
)
def test_yes_covers_effects_and_dangers_but_no_serious_danger(
    tmp_path: Path, policy: Any, dangers: Any, effects: list[str], left: list[Danger]
) -> None:
    run_context = session(tmp_path, *dangers, **policy).run
    # bash with the effects of its markdown, which do not include write
    bash = replace(tool("bash"), effects=("shell",))
    assert unapproved(run_context, bash, RM) == (effects, left)


def test_program_has_effect_shell_whatever_it_declares(tmp_path: Path) -> None:
    made = Tool("made", tmp_path / "pattern.md", run="command: ./x.py")
    assert made.effects_of({}) == {"shell"}
    assert unapproved(session(tmp_path, approve=("shell",)).run, made, {})[0] == ["shell"]


def test_approval_names_effects_and_dangers_and_is_requested_once(tmp_path: Path) -> None:
    loop = session(tmp_path, DANGER, approve=("shell",))
    step = Step(1, "planned", "bash", RM)
    waiting, asked = approval(loop, step, tool("bash"), RM)
    assert asked.splitlines() == ['step 1 may shell: bash {"command": "rm -rf build"}', f"- {DANGER}"]
    assert loop.doc.steps[1] == waiting and waiting.state == "waiting"
    call = call_digest("bash", RM, {})
    assert waiting.evidence == {"approval": ["shell"], "dangers": [str(DANGER)], "call": call}
    approved = replace(waiting, evidence={**waiting.evidence, "approved": "person"})
    assert approval(loop, approved, tool("bash"), RM) == (approved, "")
    assert approval(loop, approved, tool("bash"), {"command": "rm -rf ."})[1], "another call"
    assert approval(loop, approved, tool("bash"), RM, {1: "a result"})[1], "with another result"


@pytest.mark.parametrize("dangers", [(DANGER,), (DANGER, SERIOUS)])
def test_danger_rules_are_evaluated_once_per_call(tmp_path: Path, dangers: tuple[Danger, ...]) -> None:
    checked: list[Tool] = []
    loop = session(tmp_path, yes=True)
    loop.run.hooks = Reporting(dangers, checked=checked)
    step, asked = approval(loop, Step(1, "planned", "bash", RM), tool("bash"), RM)
    assert len(checked) == 1
    assert (step.evidence.get("approved"), asked) == (
        ("policy --yes", "") if SERIOUS not in dangers else (None, f"step 1 bash {to_json(RM)}\n- {SERIOUS}")
    )


def test_failures_before_the_last_file_change_do_not_count(tmp_path: Path) -> None:
    call = {"path": "x"}
    steps = {n: Step(n, "failed", "read", call, origin="tool:read") for n in (1, 3, 4)}
    wrote = Step(2, "done", "write", {"path": "x", "content": ""})
    assert "failed 2 times" in refused(session(tmp_path, steps=steps | {2: wrote}), "read", call)
    steps = {n: step for n, step in steps.items() if n != 4}
    assert refused(session(tmp_path, steps=steps | {2: wrote}), "read", call) == ""


def test_long_call_is_abbreviated(tmp_path: Path) -> None:
    loop = session(tmp_path, approve=("shell",))
    args = {"command": "echo " + "x" * 5000}
    _, asked = approval(loop, Step(1, "planned", "bash", args), tool("bash"), args)
    assert len(asked) < 400 and " characters] [" in asked
    other = {"command": "echo " + "x" * 4999 + "y"}
    assert approval(loop, Step(1, "planned", "bash", other), tool("bash"), other)[1] != asked


# ---- in a run --------------------------------------------------------------------------------------------


MAKES = write("a.txt", "x")


def test_step_waits_until_it_is_approved(play: Play, tmp_path: Path) -> None:
    settings = {"approve": ["write"]}
    played = play(doing(MAKES), settings=settings)
    assert played.result.waiting == "approval"
    assert not (tmp_path / "work" / "a.txt").exists()
    again = play(doing(MAKES), settings=settings, resume=played.result.run)
    assert again.result.waiting == "approval", "it was not approved yet"
    played.fractal.tell(played.result.run, "approve")
    ended = play(doing(MAKES), settings=settings, resume=played.result.run)
    assert ended.result.exit == 0 and (tmp_path / "work" / "a.txt").exists()


def test_rejected_step_is_not_executed(play: Play, tmp_path: Path) -> None:
    settings = {"approve": ["write"]}
    played = play(doing(MAKES), settings=settings)
    played.fractal.tell(played.result.run, "reject", reason="not that file")
    ended = play(doing(MAKES), settings=settings, resume=played.result.run)
    assert ended.root.steps[1].state != "done"
    assert not (tmp_path / "work" / "a.txt").exists()


def test_yes_approves_in_advance(play: Play, tmp_path: Path) -> None:
    assert play(doing(MAKES), settings={"approve": ["write"]}, yes=True).result.exit == 0


def test_look_that_needs_approval_is_refused(play: Play) -> None:
    prompts: list[str] = []

    def answer(ask: Ask) -> Any:
        if ask.phase != "check":
            return plan({"tool": "list", "args": {}})
        if "was refused" in prompt_text(ask):
            prompts.append(prompt_text(ask))
            return ACCEPT
        return {"look": {"tool": "read", "args": {"path": "a.txt"}}}

    played = play(answer, settings={"approve": ["read"]}, yes=False)
    assert played.result.waiting == "approval"  # for the listing
    played.fractal.tell(played.result.run, "approve")
    ended = play(answer, settings={"approve": ["read"]}, resume=played.result.run)
    assert ended.result.exit == 0
    assert "read needs a person's approval here; decide without it" in prompts[0]


# ---- approved before -------------------------------------------------------------------------------------


def approved_kind(**more: Any) -> dict[str, Any]:
    return {
        "kind": "bash: rm",
        "effects": ["shell"],
        "dangers": [DANGER.rule],
        "by": "person at terminal",
        **more,
    }


@pytest.mark.parametrize(
    ("kind", "dangers", "approved"),
    [
        (approved_kind(), [DANGER], True),
        (approved_kind(), [], True),
        (approved_kind(dangers=[]), [DANGER], False),
        (approved_kind(effects=[]), [DANGER], False),
        (approved_kind(kind="bash: mv"), [DANGER], False),
        (approved_kind(dangers=[DANGER.rule, SERIOUS.rule]), [SERIOUS], False),
        (approved_kind(dangers=[DANGER.rule, SERIOUS.rule]), [DANGER, SERIOUS], False),
    ],
)
def test_a_kind_covers_the_effects_and_rules_that_were_seen_and_nothing_serious(
    tmp_path: Path, kind: dict[str, Any], dangers: list[Danger], approved: bool
) -> None:
    loop = session(tmp_path, *dangers, approve=("shell",))
    loop.run.hooks = Reporting(dangers, "bash: rm")
    loop.run.approved_kinds = [kind]
    _, question = approval(loop, Step(1, tool="bash", args=RM), tool("bash"), RM)
    assert (question == "") is approved


def test_a_call_of_no_kind_is_covered_by_no_kind(tmp_path: Path) -> None:
    loop = session(tmp_path, approve=("shell",))
    loop.run.approved_kinds = [approved_kind(kind="")]
    assert approval(loop, Step(1, tool="bash", args=RM), tool("bash"), RM)[1]


def test_a_call_with_results_is_covered_by_no_rule(tmp_path: Path) -> None:
    rule = ApprovedCall("bash", RM, ("shell",))
    loop = session(tmp_path, approve=("shell",), approved=(rule,))
    assert not approval(loop, Step(1, tool="bash", args=RM), tool("bash"), RM)[1]
    assert approval(loop, Step(1, tool="bash", args=RM), tool("bash"), RM, {1: "x"})[1]


# ---- effects depend on arguments --------------------------------------------------------------------------

READING: dict[str, dict[str, Any]] = {
    "csv": {"path": "a.csv", "query": "count"},
    "json": {"path": "a.json", "query": "n"},
    "json value": {"path": "a.json", "query": "n", "value": "2"},
    "lines": {"path": "a.txt", "query": "first 1"},
    "sort": {"path": "a.txt"},
    "archive": {"action": "list", "path": "a.zip"},
    "fetch": {"url": "data:text/plain,x"},
    "database": {"action": "query", "sql": "SELECT 1"},
    "database connect": {"action": "connect", "path": "a.db"},
    "sqlite": {"path": "a.db", "query": "SELECT 1"},
    "git": {"action": "log"},
    "compare": {"a": "a.txt", "b": "b.txt"},
    "date": {"query": "today"},
    "find": {"path": "."},
    "list": {"path": "."},
    "read": {"path": "a.txt"},
}
WRITING: dict[str, dict[str, Any]] = {
    "csv": {"path": "a.csv", "query": "count", "to": "b.csv"},
    "json": {"path": "a.json", "query": "n", "value": "2", "to": "a.json"},
    "lines": {"path": "a.txt", "query": "first 1", "to": "{{ steps[1].result }}"},
    "sort": {"path": "a.txt", "to": "a.txt"},
    "archive": {"action": "extract", "path": "a.zip"},
    "fetch": {"url": "data:text/plain,x", "to": "a.txt"},
    "fetch POST": {"url": "https://example.org", "method": "POST"},
    "database": {"action": "execute", "sql": "DELETE FROM goods"},
    "database connect": {"action": "connect", "path": "a.db", "create": True},
    "patch": {"path": "a.diff"},
    "copy": {"from": "a.txt", "to": "b.txt"},
    "bash": {"command": "ls"},
}


@pytest.mark.parametrize("call", READING)
def test_a_call_that_only_reads_needs_no_approval_to_write(tmp_path: Path, call: str) -> None:
    run = session(tmp_path, approve=("write", "shell")).run
    assert unapproved(run, tool(call.split()[0]), READING[call]) == ([], [])


@pytest.mark.parametrize("call", WRITING)
def test_a_call_that_may_write_needs_approval(tmp_path: Path, call: str) -> None:
    run = session(tmp_path, approve=("write",)).run
    assert unapproved(run, tool(call.split()[0]), WRITING[call])[0] == ["write"]


def test_a_step_that_only_reads_runs_without_a_question_and_one_that_writes_waits(play: Play) -> None:
    steps = [write("a.csv", "n\n1\n"), {"tool": "csv", "args": {"path": "a.csv", "query": "count"}}]
    save = {"tool": "csv", "args": {"path": "a.csv", "query": "count", "to": "b.csv"}}
    first = play(doing(steps[0]))
    assert play(doing(steps[1]), settings={"approve": ["write"]}).result.status != "waiting"
    played = play(doing(save), settings={"approve": ["write"]})
    assert played.result.waiting == "approval"
    assert first.result.exit == 0


def test_check_may_look_with_an_operation_that_reads_here(play: Play) -> None:
    look = {"look": {"tool": "csv", "args": {"path": "a.csv", "query": "count"}}}

    def answer(ask: Ask) -> Any:
        if ask.phase != "check":
            return plan(write("a.csv", "n\n1\n"))
        return ACCEPT if ask.document.note(4, "look") else look

    assert "csv" in play(answer).root.text(4, "look")
