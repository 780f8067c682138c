"""Records of decisions: who answered, approved or rejected; serious dangers need a person."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, Played, doing, plan, read, write

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.errors import UsageError
from runtime.api.fractal import Fractal
from runtime.cli.explain import reasons
from runtime.workspace.deciders import PAGE, TERMINAL, Decider, plain_name
from runtime.workspace.inbox import Person, Said

CLIENT = Decider("client", "claude-code")
MAKES = write("a.txt", "x")
READS = read(".env")
WRITES = {"approve": ["write"]}


def serious(play: Play, tmp_path: Path, **settings: Any) -> Played:
    """A run that waits because its step reads credentials."""
    (tmp_path / "work" / ".env").write_text("KEY=4711\n")
    played = play(doing(READS), settings=settings)
    assert "serious: credentials" in played.result.question
    return played


@pytest.mark.parametrize(
    ("by", "author"),
    [
        (TERMINAL, "person at terminal"),
        (PAGE, "person at page"),
        (CLIENT, 'client "claude-code"'),
        (Decider("command"), "command without terminal"),
    ],
)
def test_approval_records_its_author(play: Play, by: Decider, author: str) -> None:
    played = play(doing(MAKES), settings=WRITES)
    played.fractal.tell(played.result.run, "approve", by=by)
    ended = play(doing(MAKES), settings=WRITES, resume=played.result.run)
    assert ended.root.steps[1].evidence["approved"] == author
    assert f'"approved": {json.dumps(author)}' in ended.result.path.read_text()
    why = "\n".join(each.answer for each in reasons([ended.root], ended.root.meta.id))
    assert f"approved by a {author}" in why


def test_yes_is_recorded_only_where_approval_was_needed(play: Play) -> None:
    yes = play(doing(MAKES), settings=WRITES, yes=True)
    assert yes.root.steps[1].evidence["approved"] == "policy --yes"
    why = "\n".join(each.answer for each in reasons([yes.root], yes.root.meta.id))
    assert "approved by policy --yes" in why
    free = play(doing({"tool": "list", "args": {}}), settings=WRITES, yes=True)
    assert "approved" not in free.root.steps[1].evidence


@pytest.mark.parametrize(("by", "author"), [(TERMINAL, "person at terminal"), (CLIENT, str(CLIENT))])
def test_rejection_records_its_author(play: Play, by: Decider, author: str) -> None:
    played = play(doing(MAKES), settings=WRITES)
    played.fractal.tell(played.result.run, "reject", by=by, why="not that file")
    ended = play(doing(MAKES), settings=WRITES, resume=played.result.run)
    step = ended.root.steps[1]
    assert (step.result, step.origin) == (f"rejected by {author}: not that file", by.origin)


def test_answer_records_its_author(play: Play) -> None:
    def asks(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        known = "claude says" in prompt_text(ask)
        return plan(MAKES) if known else {"task": "write", "question": "Which file?"}

    played = play(asks)
    assert played.result.waiting == "person"
    played.fractal.tell(played.result.run, "answer", by=CLIENT, text="claude says a.txt")
    ended = play(asks, resume=played.result.run)
    note = ended.root.note(1, "answer")
    assert note is not None and (note.origin, note.source) == ("client:claude-code", str(CLIENT))
    assert "### answer · client:claude-code" in ended.result.path.read_text()


def test_approved_plan_records_its_author(play: Play) -> None:
    played = play(doing(MAKES), plan_only=True)
    played.fractal.tell(played.result.run, "approve", by=CLIENT)
    ended = play(doing(MAKES), resume=played.result.run)
    note = ended.root.note(2, "approved")
    assert note is not None and (note.text, note.origin) == (f"by {CLIENT}", "client:claude-code")
    why = "\n".join(each.answer for each in reasons([ended.root], ended.root.meta.id))
    assert f"the plan was approved by {CLIENT}" in why


# ---- a serious danger ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [CLIENT, Decider("program"), Decider("command"), Decider("policy", "--yes")])
def test_serious_danger_is_approved_only_by_a_person(play: Play, tmp_path: Path, by: Decider) -> None:
    played = serious(play, tmp_path)
    with pytest.raises(UsageError, match="a serious danger needs a person's approval at a terminal"):
        played.fractal.tell(played.result.run, "approve", by=by)
    assert play(doing(READS), resume=played.result.run).result.waiting == "approval"
    played.fractal.tell(played.result.run, "approve", by=TERMINAL)
    ended = play(doing(READS), resume=played.result.run)
    assert ended.result.exit == 0 and ended.root.steps[1].state == "done"
    assert ended.root.steps[1].evidence["approved"] == "person at terminal"


def test_trusted_client_may_approve_a_serious_danger(play: Play, tmp_path: Path) -> None:
    settings = {"trusted_clients": ["claude-code"]}
    played = serious(play, tmp_path, **settings)
    with pytest.raises(UsageError, match='a client "other"'):
        played.fractal.tell(played.result.run, "approve", by=Decider("client", "other"))
    played.fractal.tell(played.result.run, "approve", by=CLIENT)
    ended = play(doing(READS), settings=settings, resume=played.result.run)
    assert ended.root.steps[1].evidence["approved"] == str(CLIENT)


@pytest.mark.parametrize("by", [None, {"kind": "root"}, ["terminal"], {"kind": "client", "name": ["x"]}, 5])
def test_handwritten_message_approves_no_serious_danger(play: Play, tmp_path: Path, by: Any) -> None:
    played = serious(play, tmp_path)
    inbox = played.folder / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "0000-approve.json").write_text(json.dumps({"kind": "approve", "by": by}))
    again = play(doing(READS), resume=played.result.run)
    assert again.result.waiting == "approval"
    warnings = [event.data["message"] for event in again.events if event.kind == "warning"]
    assert any(
        "the approval is not taken: a serious danger needs a person" in message for message in warnings
    )
    assert not list(inbox.glob("*.json"))


def test_person_asked_during_a_run_may_approve(play: Play, tmp_path: Path) -> None:
    asked: list[str] = []
    played = serious(play, tmp_path)

    async def approve(question: str) -> Said | None:
        asked.append(question)
        return Said("approve")

    async def answer(question: str) -> str:
        return ""

    fractal = Fractal(
        tmp_path / "work",
        settings={"sandbox": "off"},
        ladder=played.fractal.ladder,
        person=Person(answer, approve, PAGE),
    )
    result = asyncio.run(fractal.resume(played.result.run))
    assert result.exit == 0 and len(asked) == 1
    assert fractal.document(result.id).steps[1].evidence["approved"] == "person at page"


@pytest.mark.parametrize("name", ["x" * 500, 'a"b`c\n## §3 DO', "\x1b[2J", "claude-code 1.0", "日本"])
def test_client_names_cannot_break_a_document(play: Play, name: str) -> None:
    by = Decider("client", plain_name(name))
    played = play(doing(MAKES), settings=WRITES)
    played.fractal.tell(played.result.run, "reject", by=by, why="no")
    ended = play(doing(MAKES), settings=WRITES, resume=played.result.run)
    assert ended.root.steps[1].origin == by.origin
    assert len(str(by)) < 100 and "\n" not in str(by)
