"""Agents, spaces, several attempts at one task, and the commands."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playing import ACCEPT, plan
from streaming import SETTINGS, Play, Worker, step, stream

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import ConfigurationError, UsageError
from runtime.api.fractal import Fractal
from runtime.api.learning import attempts, from_run
from runtime.memory.learning.attempts import StoredAttempt
from runtime.memory.learning.patterns import Pattern, PatternError, read_practice, write_practice
from runtime.models.scripted import Scripted
from runtime.workspace import settings

# ---- agents and spaces -----------------------------------------------------------------------------------


def test_an_agent_is_settings_with_a_name(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text(
        "retries: 1\nagents:\n  reviewer: {retries: 4, tokens: 5000}\n  writer: {retries: 5}\n"
    )
    plain, _ = settings.load(tmp_path, {})
    assert (plain.retries, plain.agent) == (1, "default")
    named, sources = settings.load(tmp_path, {"agent": "reviewer", "tokens": 7000})
    assert (named.retries, named.tokens, named.agent) == (4, 7000, "reviewer")
    assert sources["retries"].endswith("agents.reviewer") and sources["tokens"] == "flag"


@pytest.mark.parametrize(
    "text, message",
    [
        ("agents: {a: {retriez: 1}}\nagent: a\n", "there is no setting retriez"),
        ("agents: {a: {agent: b}}\nagent: a\n", "an agent names no other agents"),
        ("agent: No Name\n", "agent"),
        ("space: ../../etc\n", "space"),
    ],
)
def test_an_invalid_agent_or_space_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "fractal.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        settings.load(tmp_path, {})


def test_what_an_agent_learns_is_its_own_and_a_space_has_its_own_folder(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    named = {"agent": "writer", "space": "shop"}
    played = stream(play, work, 16, Worker(follows_advice=False), named)
    assert played[-1].root.meta.extra.items() >= named.items()
    state = work / ".fractal" / "state"
    assert not (state / "memory").exists()
    path = state / "spaces" / "shop" / "memory" / "patterns" / "read-before-edit.md"
    assert "scope: agent\nagent: writer\n" in path.read_text()
    link = path.read_text().rstrip().rpartition("(")[2][:-1]
    assert (path.parent / link).resolve().is_file()
    writer = Fractal(work, settings={**SETTINGS, **named}).memory
    assert {(each.agent, each.space) for each in writer.brain.shelf.scan(StoredAttempt)} == {
        ("writer", "shop")
    }
    assert "read-before-edit" in {each.name for each in writer.library.patterns()}
    other = Fractal(work, settings={**SETTINGS, "agent": "reviewer", "space": "shop"}).memory.library
    assert "read-before-edit" not in {each.name for each in other.patterns()}
    assert Fractal(work, settings=SETTINGS).memory.library.all() == []


# ---- a group ---------------------------------------------------------------------------------------------


TASK = "in a.md, set the status to final"


def group_of(work: Path, good: str) -> Fractal:
    """A worker that succeeds at every attempt whose letter in `good` is y."""
    (work / "a.md").write_text("status: draft\n")
    refused = {**ACCEPT, "decision": "ESCALATE", "validation": "fail", "issues": ["no"]}
    turns = iter(good)

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return refused if "- FAIL" in prompt_text(ask) else ACCEPT
        assert "status: draft" in (work / "a.md").read_text()  # as it was before each attempt
        right = next(turns) == "y"
        steps = [step("read", path="a.md")] if right else []
        old = "status: draft" if right else "status:draft"
        steps.append(step("edit", path="a.md", old=old, new="status: final"))
        return plan(*steps, success=[{"file": "a.md", "has": "final"}])

    return Fractal(
        work, settings={**SETTINGS, "sandbox": "off", "check": "always"}, ladder=Ladder((Scripted(answer),))
    )


def test_several_attempts_at_one_task_are_a_group_each_from_the_same_files(tmp_path: Path) -> None:
    fractal = group_of(tmp_path, "ynynynynynyy")
    statuses: list[str] = []
    found = asyncio.run(attempts(fractal, TASK, 12, lambda n, result: statuses.append(result.status)))
    assert statuses.count("complete") == 7
    assert [each.rule for each in found if each.rule] == ["before-same edit read"]
    tried = list(fractal.anew().brain.shelf.scan(StoredAttempt))
    assert len({each.group for each in tried}) == 1 and tried[0].group
    assert "final" in (tmp_path / "a.md").read_text()  # the last one was accepted, and stays


def test_attempts_that_all_fail_teach_nothing_and_leave_nothing(tmp_path: Path) -> None:
    fractal = group_of(tmp_path, "nnn")
    assert asyncio.run(attempts(fractal, TASK, 3, lambda n, r: None)) == []
    assert (tmp_path / "a.md").read_text() == "status: draft\n"
    with pytest.raises(UsageError, match="not from 2 to 12"):
        asyncio.run(attempts(fractal, "x", 1, lambda n, r: None))


def test_the_steps_of_attempts_can_be_approved_in_advance(tmp_path: Path) -> None:
    statuses: list[str] = []
    fractal = group_of(tmp_path, "yy").anew(approve=("write",))
    asyncio.run(attempts(fractal, TASK, 2, lambda n, result: statuses.append(result.status), yes=True))
    assert statuses == ["complete", "complete"]
    fractal = group_of(tmp_path, "yy").anew(approve=("write",))
    with pytest.raises(UsageError, match="waits for"):
        asyncio.run(attempts(fractal, TASK, 2, lambda n, result: None))


def test_a_run_can_be_learned_from_afterwards(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    played = stream(play, work, 16, settings={"learn": "off"})
    fractal = Fractal(work, settings=SETTINGS)
    assert fractal.memory.library.all() == []
    found = [from_run(fractal, each.result.run) for each in played]
    assert "read-before-edit" in {each.name for some in found for each in some}


# ---- good practice ---------------------------------------------------------------------------------------


def practice(tmp_path: Path, text: str) -> list[Pattern]:
    path = tmp_path / "practice.md"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_practice(path)


def test_headings_are_patterns_and_so_are_the_points_of_a_list(tmp_path: Path) -> None:
    text = "# Ours\n\n## Read first\nRead it.\n\n**Applies to**: code_change, edit\n"
    text += "Avoid: guessing.\n\n## Be short\n- One line.\n"
    read, short = practice(tmp_path, text)
    assert (read.guidance, read.avoid, read.types) == ("Read it.", "guessing.", ("code-change", "edit"))
    assert (short.name, short.guidance, short.origin, short.types) == (
        "be-short",
        "- One line.",
        "imported",
        ("general",),
    )
    assert [each.guidance for each in practice(tmp_path, "# Rules\n\n- Read first.\n- Be short.\n")] == [
        "Read first.",
        "Be short.",
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "1: no heading"),
        ("## A\n\nb\u202ec\n", "3: the invisible character U+202E"),
        ("## A\n\n" + "word " * 400, "1: 667 tokens of guidance; 300 at most"),
        ("## A\nAvoid: b\n", "1: nothing under the heading: say what to do"),
        ("x" * 2_000_000, "2,000,000 bytes are too many"),
    ],
)
def test_practice_that_cannot_be_read_is_reported_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(PatternError, match=re.escape(message)):
        practice(tmp_path, text)


def test_what_is_exported_is_imported_again(tmp_path: Path) -> None:
    one = Pattern(
        "read-first",
        "Read it.\n\nThen change it.",
        "guessing.",
        "Read first",
        types=("code", "edit"),
        why="x",
    )
    (again,) = practice(tmp_path, write_practice([one]))
    assert (again.name, again.guidance, again.avoid, again.types) == (
        one.name,
        one.guidance,
        one.avoid,
        one.types,
    )


# ---- commands --------------------------------------------------------------------------------------------


def fractal_says(work: Path, *words: str) -> tuple[int, str]:
    from runtime.cli import cli as command

    ran = CliRunner().invoke(command, ["-C", str(work), *words], catch_exceptions=False)
    return ran.exit_code, ran.output


def test_the_commands_say_what_was_learned(tmp_path: Path) -> None:
    (tmp_path / "gp.md").write_text("## Read first\nRead it.\n\nApplies to: edit\n")
    assert fractal_says(tmp_path, "learn", "import", str(tmp_path / "gp.md"))[0] == 0
    _, output = fractal_says(tmp_path, "learn", "patterns", "--json")
    start = output.index("[")
    assert [each["name"] for each in json.loads(output[start:])] == ["read-first"]
    assert "Read it." in fractal_says(tmp_path, "learn", "patterns", "show", "read-first")[1]
    fractal_says(tmp_path, "learn", "patterns", "off", "read-first")
    library = Fractal(tmp_path, settings=SETTINGS).memory.library
    assert [each.status for each in library.all()] == ["off"]
    (library.folder / "bad.md").write_text("nothing")
    _, output = fractal_says(tmp_path, "learn", "patterns")
    assert "bad.md:1: no frontmatter" in output and "read-first" in output
    assert "coverage: no task type" in fractal_says(tmp_path, "learn", "report")[1]
