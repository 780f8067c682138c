"""Agent Skills on the command line: listed, shown, checked, named for one run and still there on resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ACCEPT, Command

from kernel.errors import Exit


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "PDF Forms"
    (folder / "references").mkdir(parents=True)
    text = "---\nname: PDF Forms\ndescription: Use when: forms\n---\nRead references/word.md.\n"
    (folder / "SKILL.md").write_text(text, "utf-8")
    (folder / "references" / "word.md").write_text("the word is heron\n", "utf-8")
    (tmp_path / "skills" / "empty").mkdir()
    (tmp_path / "skills" / "empty" / "SKILL.md").touch()
    return folder


def configured(fractal: Command) -> None:
    (fractal.folder / "fractal.yaml").write_text("skills: [../skills]\n", "utf-8")


def test_tools_ls_lists_skills_and_says_what_was_left_out(fractal: Command, skill: Path) -> None:
    configured(fractal)
    ran = fractal("tools", "ls")
    (line,) = [each for each in ran.out.splitlines() if each.startswith("pdf-forms")]
    assert line.split() == ["pdf-forms(what)", "read,write,shell", "skill", "Use", "when:", "forms"]
    assert f"skipped: {skill.parent}/empty/SKILL.md:1: it says nothing: write name and description" in ran.err
    (about,) = [
        each for each in json.loads(fractal("tools", "ls", "--json").out) if each["name"] == "pdf-forms"
    ]
    assert (about["origin"], about["path"]) == ("skill", str(skill / "SKILL.md"))


def test_tools_show_shows_a_skill_and_why_another_was_left_out(fractal: Command, skill: Path) -> None:
    configured(fractal)
    shown = fractal("tools", "show", "pdf-forms")
    assert shown.out == (skill / "SKILL.md").read_text("utf-8")
    left_out = fractal("tools", "show", "empty")
    assert left_out.exit == Exit.USAGE and "it says nothing" in left_out.err


def test_tools_check_tells_departures_and_fails_only_for_what_is_left_out(
    fractal: Command, skill: Path
) -> None:
    configured(fractal)
    one = fractal("tools", "check", "pdf-forms")
    assert one.exit == Exit.ACCEPTED
    assert f"{skill}/SKILL.md: line 3: the frontmatter is not YAML" in one.err
    assert "line 2: name: 'PDF Forms' is read as 'pdf-forms'" in one.err
    everything = fractal("tools", "check")
    assert everything.exit == Exit.FAILED and "empty/SKILL.md:1: it says nothing" in everything.out


def test_a_skill_named_for_one_run_is_there_when_it_is_resumed(fractal: Command, skill: Path) -> None:
    uses = {"tool": "subtask", "args": {"task": "find the word", "tool": "pdf-forms"}}
    reads = {"steps": [{"tool": "read", "args": {"path": str(skill / "references" / "word.md")}}]}
    plan = {"task": "find the word", "approach": "so", "confidence": "high"}
    script = [
        {
            "phase": "plan",
            "prompt": "Read references/word.md",
            "reply": {**plan, **reads, "success": [{"judge": "x"}]},
        },
        {"phase": "work", "step": 2, "prompt": "go on", "reply": {"calls": [uses]}},
        {"phase": "work", "step": 3, "reply": {"done": "found"}},
        {"phase": "fused", "reply": {**plan, "steps": [], "success": [], "question": "Shall I?"}},
        {"phase": "check", "times": 2, "reply": {**ACCEPT, "output": "{{ steps[1].result }}"}},
    ]
    model = fractal.script("script.yaml", script)
    asked = fractal("run", "--model", model, "--sandbox", "off", "--skill", str(skill), "use pdf-forms")
    assert asked.exit == Exit.WAITING, asked.err
    (run,) = [each.name for each in (fractal.folder / ".fractal" / "state" / "runs").iterdir()]
    fractal("answer", run, "go on")
    ended = fractal("resume", run, "--model", model, "--sandbox", "off")
    assert ended.out == "the word is heron\n", ended.err


def test_a_configured_folder_of_skills_that_is_not_there_is_reported_with_its_place(fractal: Command) -> None:
    (fractal.folder / "fractal.yaml").write_text("skills: [nowhere]\n")
    place = fractal.folder / "nowhere"
    assert f"skills: there is no such folder: {place}" in fractal("run", "what is 2 + 2").err
    assert f"{place}:1: skills: there is no such folder" in fractal("tools", "ls").err


def test_a_skill_that_is_not_there_is_reported_at_once(fractal: Command) -> None:
    ran = fractal("run", "--skill", "nowhere", "x")
    assert ran.exit == Exit.USAGE and "nowhere" in ran.err
