"""What a person has allowed of a folder is what runs, from its first byte to the end of the run."""

from __future__ import annotations

import asyncio
import os
import py_compile
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, bash, boxed, plan, put, write

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import ConfigurationError
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
from runtime.workspace import trust
from runtime.workspace.trust import Untrusted

TOOL = """---
name: handy
description: Says something handy.
run: "command: ./handy.py"
effects: [read]
args: {about: {type: string}}
sample: {task: say something handy, args: {about: tea}, shows: as}
---
Call it without arguments.
"""
PROGRAM = "import helper\nprint(helper.said)\n"
SKILL = "---\nname: brew\ndescription: brews tea\n---\nRun scripts/brew.sh.\n"
GOOD, EVIL = "as it was allowed", "as nobody allowed"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody else, with a tool, for a user who has allowed nothing yet."""
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "cloned"
    put(place, ".fractal/system/tools/handy/pattern.md", TOOL)
    put(place, ".fractal/system/tools/handy/handy.py", PROGRAM)
    put(place, ".fractal/system/tools/handy/helper.py", f"said = {GOOD!r}\n")
    return place


def tool_folder(folder: Path) -> Path:
    return folder / ".fractal" / "system" / "tools" / "handy"


def allow(folder: Path) -> None:
    trust.accept(Fractal(folder).untrusted())


def names(folder: Path) -> list[str]:
    return [item.name for item in Fractal(folder).untrusted()]


Between = Callable[[], Any]


def run(folder: Path, *steps: dict[str, Any], before: Between = lambda: None, **settings: Any) -> list[str]:
    """The results of these steps; `before` happens once the run has begun, before its plan is made."""

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        before()
        return plan(*steps)

    fractal = Fractal(folder, settings={"check": "always", **settings}, ladder=Ladder((Scripted(answer),)))
    result = asyncio.run(fractal.run("say something handy"))
    root = fractal.root_document(result.run)
    texts = [step.result or "" for step in root.steps.values()]
    return [*texts, root.text(5, "error"), root.text(5, "escalation")]


HANDY = {"tool": "handy", "args": {"about": "tea"}}


# ---- everything is digested ------------------------------------------------------------------------------


@boxed
def test_a_tool_that_is_allowed_runs_with_the_files_beside_it(folder: Path) -> None:
    with pytest.raises(Untrusted):
        run(folder, HANDY)
    allow(folder)
    assert GOOD in run(folder, HANDY)[0]


@boxed
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_compiled_python_beside_a_tool_is_not_loaded(folder: Path, sandbox: str) -> None:
    source = tool_folder(folder) / "helper.py"
    source.write_text(f"said = {EVIL!r}\n")
    compiled = Path(
        py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    )
    source.write_text(f"said = {GOOD!r}\n")
    assert compiled.parent.name == "__pycache__"
    allow(folder)
    assert run(folder, HANDY, sandbox=sandbox)[0].strip() == GOOD


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.py",
        "sub/deep/more.py",
        "data.bin",
        "helper.so",
        "Pattern.md",
        "hеlper.py",
        ".git/config",
        "__init__.py",
    ],
)
def test_a_file_of_any_name_beside_a_tool_is_asked_about(folder: Path, name: str) -> None:
    allow(folder)
    put(tool_folder(folder), name, "x")
    assert names(folder) == [f"system/tools/handy/{name}"]
    with pytest.raises(Untrusted):
        run(folder, HANDY)


def test_a_large_file_is_digested_to_its_end(folder: Path) -> None:
    path = put(tool_folder(folder), "large.bin", b"x" * 3_000_000 + b"1")
    allow(folder)
    path.write_bytes(b"x" * 3_000_000 + b"2")
    assert names(folder) == ["system/tools/handy/large.bin"]


def link(place: Path) -> None:
    (place / "more.py").symlink_to(place / "helper.py")


def link_to_a_folder(place: Path) -> None:
    (place / "more").symlink_to("/etc")


def cache_behind_a_link(place: Path) -> None:
    (place / "__pycache__").symlink_to(place.parent)


def compiled(place: Path) -> None:
    (place / "module.pyc").write_bytes(b"x")


def pipe(place: Path) -> None:
    os.mkfifo(place / "pipe")


@pytest.mark.parametrize("made", [link, link_to_a_folder, cache_behind_a_link, compiled, pipe])
def test_what_is_no_file_of_source_is_refused_with_its_place(
    folder: Path, made: Callable[[Path], None]
) -> None:
    made(tool_folder(folder))
    with pytest.raises(ConfigurationError, match=r"system/tools/handy/\S+: this is .*remove it"):
        run(folder, HANDY)
    assert not (folder / ".fractal" / "state").exists()


@pytest.mark.parametrize(
    "target", ["../../../../evil.py", "../other/evil.py", "__pycache__/evil.py", "/bin/true"]
)
def test_a_program_elsewhere_is_not_run(folder: Path, target: str) -> None:
    put(tool_folder(folder), "pattern.md", TOOL.replace("./handy.py", target))
    put(folder, "evil.py", f"print({EVIL!r})\n")
    put(tool_folder(folder), "../other/evil.py", f"print({EVIL!r})\n")
    put(tool_folder(folder), "__pycache__/evil.py", f"print({EVIL!r})\n")
    allow(folder)
    with pytest.raises(ConfigurationError, match=r"run: there is no program .* beside it"):
        run(folder, HANDY)


# ---- held to for the run ---------------------------------------------------------------------------------


def swap_helper(place: Path) -> None:
    (place / "helper.py").write_text(f"said = {EVIL!r}\n")


def swap_program(place: Path) -> None:
    (place / "handy.py").write_text(f"print({EVIL!r})\n")


def swap_with_the_same_time_and_size(place: Path) -> None:
    before = (place / "helper.py").stat()
    (place / "helper.py").write_text(f"said = {EVIL!r}\n")
    os.utime(place / "helper.py", ns=(before.st_atime_ns, before.st_mtime_ns))


def add_a_module_that_is_found_first(place: Path) -> None:
    put(place, "helper/__init__.py", f"said = {EVIL!r}\n")


def folder_where_a_file_was(place: Path) -> None:
    (place / "helper.py").unlink()
    put(place, "helper.py/__init__.py", "")


def link_where_a_file_was(place: Path) -> None:
    other = put(place.parents[3], "other.py", f"said = {EVIL!r}\n")
    (place / "helper.py").unlink()
    (place / "helper.py").symlink_to(other)


def swap_the_description(place: Path) -> None:
    put(place, "evil.py", f"print({EVIL!r})\n")
    (place / "pattern.md").write_text(TOOL.replace("handy.py", "evil.py"))


CHANGES = [
    *(swap_helper, swap_program, swap_with_the_same_time_and_size, add_a_module_that_is_found_first),
    *(folder_where_a_file_was, link_where_a_file_was, swap_the_description),
]


@boxed
@pytest.mark.parametrize("change", CHANGES)
def test_a_tool_that_changes_during_the_run_is_not_used(folder: Path, change: Callable[[Path], None]) -> None:
    allow(folder)
    found = run(folder, HANDY, before=lambda: change(tool_folder(folder)))
    assert not any(EVIL in text or GOOD in text for text in found)
    assert any("fractal trust" in text or "this is a link" in text for text in found), found


def test_a_tool_that_is_new_during_the_run_is_not_used(folder: Path) -> None:
    allow(folder)
    text = TOOL.replace("handy", "other")

    def add() -> None:
        put(tool_folder(folder), "../other/pattern.md", text)
        put(tool_folder(folder), "../other/other.py", f"print({EVIL!r})\n")

    found = run(folder, {"tool": "other", "args": {}}, before=add)
    assert not any(EVIL in text for text in found)


def test_an_instruction_that_changes_during_the_run_is_in_no_prompt(folder: Path) -> None:
    phase = put(folder, ".fractal/system/phases/check.md", "# CHECK\nLook at it.\n")
    allow(folder)
    asks: list[Ask] = []

    def answer(ask: Ask) -> Any:
        asks.append(ask)
        phase.write_text(f"# CHECK\n{EVIL}\n")
        return ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}})

    fractal = Fractal(folder, settings={"check": "always"}, ladder=Ladder((Scripted(answer),)))
    with pytest.raises(
        ConfigurationError, match="has changed since it was allowed; look at it, then: fractal trust"
    ):
        asyncio.run(fractal.run("look"))
    assert asks and not any(EVIL in prompt_text(ask) for ask in asks)


def test_a_reflex_that_changes_during_the_run_does_not_match(folder: Path) -> None:
    text = "---\nname: greet\nphrasings: |\n  greet me\nsteps:\n  - tool: calc\n"
    text += "    args: {expression: '1 + 1'}\n"
    reflex = put(folder, ".fractal/system/reflexes/greet.md", text + "output: '{{ steps[1].result }}'\n---\n")
    allow(folder)
    fractal = Fractal(folder)
    assert asyncio.run(fractal.run("greet me")).output == "2"
    reflex.write_text(reflex.read_text().replace("1 + 1", "6 * 7"))
    with pytest.raises(Untrusted):
        asyncio.run(fractal.run("greet me"))


def test_one_fractal_for_many_runs_looks_again_before_each(folder: Path) -> None:
    allow(folder)
    fractal = Fractal(folder)
    assert asyncio.run(fractal.run("what is 2 + 2")).output == "4"
    swap_helper(tool_folder(folder))
    with pytest.raises(Untrusted):
        asyncio.run(fractal.run("what is 2 + 2"))


# ---- skills ----------------------------------------------------------------------------------------------


@pytest.fixture(params=[".claude/skills", ".agents/skills", "docs/skills"])
def skill(folder: Path, request: pytest.FixtureRequest) -> Path:
    """An allowed skill: found by itself, or named by the settings."""
    shutil.rmtree(folder / ".fractal")
    (folder / ".fractal").mkdir()
    place = folder / request.param / "brew"
    put(place, "SKILL.md", SKILL)
    put(place, "scripts/brew.sh", f"echo {GOOD}\n")
    if request.param == "docs/skills":
        put(folder, "fractal.yaml", "skills: [docs/skills]\n")
        (folder / ".fractal").rmdir()
    allow(folder)
    return place


@boxed
def test_a_run_cannot_change_an_allowed_skill(folder: Path, skill: Path) -> None:
    name = skill.relative_to(folder)
    found = run(
        folder,
        bash(f"echo 'echo {EVIL}' > {name}/scripts/brew.sh; rm -r {name}; mv {name.parent} away; true"),
        write(f"{name}/SKILL.md", EVIL),
        write(f"{name}/new.md", EVIL),
        {"tool": "delete", "args": {"path": str(name)}},
        {"tool": "move", "args": {"from": str(name.parent), "to": "away"}},
    )
    assert (skill / "SKILL.md").read_text() == SKILL and not (skill / "new.md").exists()
    assert (skill / "scripts" / "brew.sh").read_text() == f"echo {GOOD}\n"
    assert found and names(folder) == []


def test_what_a_run_adds_beside_an_allowed_skill_is_not_used(folder: Path, skill: Path) -> None:
    def add() -> None:
        put(skill.parent, "evil/SKILL.md", SKILL.replace("brew", "evil"))

    found = run(folder, {"tool": "evil", "what": "do it"}, before=add)
    assert any("evil" in text for text in found)
    assert "evil" not in Fractal(folder).catalogue().tools or names(folder)


@boxed
def test_a_skill_that_changes_during_the_run_is_not_followed(folder: Path, skill: Path) -> None:
    seen: list[str] = []

    def answer(ask: Ask) -> Any:
        seen.append(prompt_text(ask))
        if ask.phase == "check":
            return ACCEPT
        if len(seen) == 1:
            return plan({"tool": "brew", "what": "brew tea"})
        (skill / "scripts" / "brew.sh").write_text(f"echo {EVIL}\n")
        return plan(bash(f"sh {skill}/scripts/brew.sh"))

    fractal = Fractal(folder, settings={"check": "always"}, ladder=Ladder((Scripted(answer),)))
    result = asyncio.run(fractal.run("brew tea"))
    texts = [step.result or "" for each in fractal.documents(result.run) for step in each.steps.values()]
    assert any("brew.sh has changed since it was allowed" in text for text in texts), texts
    assert not any(text.startswith(EVIL) for text in texts)


def test_a_link_in_a_skill_leaves_it_out_with_the_place(folder: Path) -> None:
    place = folder / ".claude" / "skills" / "brew"
    put(place, "SKILL.md", SKILL)
    (place / "more.sh").symlink_to(put(folder, "work.sh", "echo hello\n"))
    (reason,) = Fractal(folder).left_out()
    assert reason.startswith(f"skill {place}: {place}/more.sh: this is a link")


@boxed
def test_guidance_that_a_run_has_changed_is_not_believed(folder: Path) -> None:
    put(folder, "AGENTS.md", "Use tabs.\n")
    allow(folder)
    run(folder, bash(f"printf '%s' '{EVIL}' > AGENTS.md"))
    assert (folder / "AGENTS.md").read_text() == EVIL
    asks: list[Ask] = []

    def answer(ask: Ask) -> Any:
        asks.append(ask)
        return ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}})

    asyncio.run(Fractal(folder, ladder=Ladder((Scripted(answer),))).run("look"))
    assert asks and not any(EVIL in prompt_text(ask) for ask in asks)
    assert names(folder) == [f"instructions {folder}/AGENTS.md"]


def test_a_folder_of_any_depth_is_looked_through_or_refused(folder: Path) -> None:
    place = tool_folder(folder)
    deep = "/".join("d" * 1_500)
    subprocess.run(["mkdir", "-p", deep], cwd=place, check=True)
    subprocess.run(["touch", f"{deep}/file"], cwd=place, check=True)
    try:
        assert f"system/tools/handy/{deep}/file" in names(folder)
    finally:
        subprocess.run(["rm", "-rf", "d"], cwd=place, check=True)
