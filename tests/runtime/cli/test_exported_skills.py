"""`fractal tools export` and `fractal learn export --skill`: what they write is read again as a skill."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from command_line import REPOSITORY, Command

from kernel.errors import Exit
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.skills import read_skill

GUIDED = sorted(tool.name for tool in Catalogue([shipped_system()]).tools.values() if tool.guided)
PROGRAM = """---
name: turn
description: "turn a text: around"
args:
  text: {type: string, description: the text}
required: [text]
returns: the text backwards
run: "command: ./turn.py"
effects: []
sample: {task: turn it, args: {text: abc}, shows: cba}
---
## DO

Give the text as it is.
"""
CODE = """#!/usr/bin/env python3
import json, sys
print(json.dumps({"result": json.load(sys.stdin)["text"][::-1]}))
"""


@pytest.mark.parametrize("name", GUIDED)
def test_every_guided_tool_that_ships_is_read_again_without_a_departure(fractal: Command, name: str) -> None:
    ran = fractal("tools", "export", name, "--to", "out")
    assert ran.exit == 0 and ran.out == f"out/{name}/SKILL.md\n"
    skill = read_skill(fractal.folder / "out" / name / "SKILL.md")
    assert (skill.name, skill.departures) == (name, ())
    folder = "tools/specialists" if name.startswith("request-") else "tools"
    place = shipped_system() / folder / name.removeprefix("request-") / "pattern.md"
    tool = place.read_text("utf-8")
    assert tool.rstrip().endswith(skill.body.splitlines()[-1])
    assert ("## PLAN" in tool) == ("use your own that do the same" in skill.body)


def test_a_tool_with_a_program_is_exported_with_it(fractal: Command, tmp_path: Path) -> None:
    folder = fractal.folder / ".fractal" / "system" / "tools" / "turn"
    folder.mkdir(parents=True)
    (folder / "pattern.md").write_text(PROGRAM)
    (folder / "turn.py").write_text(CODE)
    (folder / "turn.py").chmod(0o755)
    secret = tmp_path / "key"
    secret.write_text("secret")
    (folder / "notes.txt").symlink_to(secret)
    assert fractal("tools", "export", "turn", "--to", str(tmp_path / "skills")).exit == 0
    out = tmp_path / "skills" / "turn"
    skill = read_skill(out / "SKILL.md")
    assert skill.description == "turn a text: around" and not skill.departures
    assert "Run `turn.py`" in skill.body and '"required": [\n    "text"' in skill.body
    ran = subprocess.run(
        [out / "turn.py"], input='{"text": "abc"}', capture_output=True, text=True, check=True
    )
    assert ran.stdout == '{"result": "cba"}\n'
    assert sorted(path.name for path in out.iterdir()) == ["SKILL.md", "turn.py"]


def test_an_exported_skill_guides_runs_and_is_exported_again_the_same(fractal: Command) -> None:
    fractal("tools", "export", "research", "--to", ".")
    (fractal.folder / "research").rename(fractal.folder / "find-facts")
    path = fractal.folder / "find-facts" / "SKILL.md"
    path.write_text(path.read_text().replace("name: research", "name: find-facts"))
    env = {"FRACTAL_SKILLS": f"[{fractal.folder}/find-facts]"}
    assert "find-facts(what)" in fractal("tools", "ls", env=env).out
    assert fractal("tools", "export", "find-facts", "--to", "again", env=env).exit == 0
    assert (fractal.folder / "again" / "find-facts" / "SKILL.md").read_text() == path.read_text()


def test_nothing_is_overwritten_and_no_code_of_fractal_is_exported(fractal: Command) -> None:
    fractal("tools", "export", "code")
    before = (fractal.folder / "code" / "SKILL.md").stat()
    again = fractal("tools", "export", "code")
    assert again.exit == Exit.USAGE and "code exists; remove it" in again.err
    assert (fractal.folder / "code" / "SKILL.md").stat().st_mtime_ns == before.st_mtime_ns
    operation = fractal("tools", "export", "count")
    assert operation.exit == Exit.USAGE and "count is code of Fractal" in operation.err
    unknown = fractal("tools", "export", "resaerch")
    assert unknown.exit == Exit.USAGE and "research" in unknown.err


def test_a_folder_that_cannot_be_written_is_named(fractal: Command) -> None:
    (fractal.folder / "file").touch()
    ran = fractal("tools", "export", "code", "--to", "file/inside")
    assert ran.exit == Exit.USAGE and "file/inside/code: cannot be written: Not a directory" in ran.err


def test_learned_patterns_are_exported_as_a_skill(fractal: Command) -> None:
    nothing = fractal("learn", "export", "--skill", "practice")
    assert nothing.exit == Exit.USAGE and "nothing to export" in nothing.err
    practice = (
        "## Run the tests first\n\nApplies to: code\nAvoid: editing before\n\nRun the tests, then edit.\n"
    )
    (fractal.folder / "practice.md").write_text(practice)
    assert fractal("learn", "import", "practice.md").exit == 0
    wrong = fractal("learn", "export", "--skill", "My Practice")
    assert wrong.exit == Exit.USAGE and "the name of a skill is of a-z, 0-9" in wrong.err
    folder = fractal("learn", "export", ".")
    assert folder.exit == Exit.USAGE and "is a folder; name a file" in folder.err
    ran = fractal("learn", "export", "--skill", "house-practice", "out")
    assert ran.out == "out/house-practice/SKILL.md\n"
    skill = read_skill(fractal.folder / "out" / "house-practice" / "SKILL.md")
    assert (skill.name, skill.departures) == ("house-practice", ())
    assert skill.description.endswith("of these types: code")
    assert "Run the tests, then edit." in skill.body and "Avoid: editing before" in skill.body


def test_the_skill_that_ships_is_read_without_a_departure() -> None:
    skill = read_skill(REPOSITORY / "skills" / "fractal" / "SKILL.md")
    assert (skill.name, skill.departures) == ("fractal", ())
