"""Drafts: what a run writes below `system/` is private to the run until it is admitted."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import Play, Played, bash, boxed, plan, put, read, write

from kernel.asking.replies import built_by
from kernel.asking.responder import Ask
from kernel.errors import OperationFailed
from runtime.evolution.drafts import Drafts
from runtime.evolution.files import unit_of
from runtime.operations.bash import bash as run_bash
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

PATTERN = (
    "---\nname: greet\ndescription: greets\nsample: {task: greet, shows: hello}\n---\n# Greet\n\nSay hello.\n"
)


@pytest.fixture
def drafts(tmp_path: Path) -> Drafts:
    put(tmp_path, "own/tools/web/pattern.md", "own web")
    put(tmp_path, "own/tools/web/part.md", "part")
    put(tmp_path, "shipped/tools/web/pattern.md", "shipped web")
    put(tmp_path, "shipped/phases/do.md", "do it")
    return Drafts(tmp_path / "drafts", (tmp_path / "own", tmp_path / "shipped"))


def context(folder: Path, drafts: Drafts) -> OperationContext:
    folder.mkdir(exist_ok=True)
    return OperationContext(folder, Sandbox("off"), drafts=drafts, protected=(drafts.system,))


def test_draft_starts_as_a_copy_and_takes_precedence(drafts: Drafts) -> None:
    assert drafts.readable("tools/web/pattern.md").read_text() == "own web"
    drafts.writable("tools/web/pattern.md").write_text("mine")
    assert drafts.readable("tools/web/pattern.md").read_text() == "mine"
    assert drafts.readable("tools/web/part.md") == drafts.folder / "tools/web/part.md"
    assert (drafts.system / "tools/web/pattern.md").read_text() == "own web"
    assert drafts.units() == ["tools/web"]


def test_unchanged_copy_is_not_a_draft(drafts: Drafts) -> None:
    assert drafts.units() == [] and drafts.fingerprint("") == ""
    path = drafts.writable("phases/do.md")
    assert path.read_text() == "do it"
    assert drafts.units() == []
    path.write_text("do it well")
    first = drafts.fingerprint("phases/")
    assert drafts.units() == ["phases/do.md"] and first
    path.write_text("do it better")
    assert drafts.fingerprint("phases/") not in ("", first)
    assert drafts.fingerprint("tools/") == ""


def test_copy_interrupted_by_a_crash_is_not_a_draft(drafts: Drafts) -> None:
    for n in range(300):
        put(drafts.system, f"tools/web/{n}.md", "x" * 5000)
    child = os.fork()
    if not child:
        drafts.writable("tools/web/pattern.md")
        os._exit(0)
    while not list(drafts.folder.rglob("*.md")):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert drafts.units() == []
    drafts.writable("tools/web/pattern.md").write_text("mine")
    assert len(list((drafts.folder / "tools" / "web").iterdir())) == 302
    assert drafts.units() == ["tools/web"]


@pytest.mark.parametrize(
    "path",
    [
        ".fractal/system/tools/web/pattern.md",
        "./.fractal/../.fractal/system/tools/web/pattern.md",
        ".fractal/system/tools/web/../web/pattern.md",
        "{own}/tools/web/pattern.md",
        "{drafts}/tools/web/pattern.md",
        "link/tools/web/pattern.md",
    ],
)
def test_every_path_of_the_system_resolves_to_the_draft(tmp_path: Path, drafts: Drafts, path: str) -> None:
    there = context(tmp_path / "work", drafts)
    (tmp_path / "work" / "link").symlink_to(drafts.system)
    target = there.writable(path.format(own=drafts.system, drafts=drafts.folder))
    assert target == drafts.folder / "tools/web/pattern.md"
    assert there.shown(target) == ".fractal/system/tools/web/pattern.md"


@pytest.mark.parametrize(
    "path", [".fractal/system/dangers.md", "{own}/dangers.md", ".fractal/system/x/../dangers.md"]
)
def test_danger_rules_cannot_be_drafted_by_path(tmp_path: Path, drafts: Drafts, path: str) -> None:
    with pytest.raises(OperationFailed, match="only a person changes this file"):
        context(tmp_path / "work", drafts).writable(path.format(own=drafts.system))


@pytest.mark.parametrize(
    "path", [".fractal/state/runs/x.md", ".fractal/fractal.yaml", ".fractal/system", "../own"]
)
def test_other_protected_paths_stay_protected(tmp_path: Path, drafts: Drafts, path: str) -> None:
    with pytest.raises(OperationFailed, match=r"protected|outside the folder"):
        context(tmp_path / "work", drafts).writable(path)


def test_what_changes_in_a_layout_of_the_system_is_a_draft(drafts: Drafts) -> None:
    with drafts.laid_out() as layout:
        assert layout.taken() == ([], [])
        put(layout.folder, "operations/x.md", "x").chmod(0o755)
        put(layout.folder, "tools/web/pattern.md", "changed")
        (layout.folder / "tools" / "web" / "part.md").unlink()
        (layout.folder / "phases" / "do.md").unlink()
        (layout.folder / "phases" / "link.md").symlink_to("/etc/hostname")
        os.mkfifo(layout.folder / "pipe")
        units, refused = layout.taken()
    assert (units, refused) == (
        ["operations/x.md", "tools/web"],
        ["phases/do.md: a file that the system has cannot be deleted by a draft"],
    )
    assert [path.name for path in (drafts.folder / "tools" / "web").iterdir()] == ["pattern.md"]
    assert os.access(drafts.folder / "operations" / "x.md", os.X_OK)
    assert drafts.units() == units


def test_the_program_beside_an_operation_is_part_of_its_draft(drafts: Drafts) -> None:
    for name, text in (("x.md", "x"), ("x.py", "x"), ("y.py", "y")):
        put(drafts.folder, f"operations/{name}", text)
    assert drafts.units() == ["operations/x.md", "operations/y.py"]
    put(drafts.system, "operations/x.md", "x")
    assert drafts.units() == ["operations/x.md", "operations/y.py"]
    put(drafts.system, "operations/x.py", "x")
    assert drafts.units() == ["operations/y.py"]


def test_units_and_tools_of_paths() -> None:
    assert unit_of("tools/web/pattern.md") == unit_of("tools/web/a/b.py") == "tools/web"
    assert unit_of("operations/x.md") == "operations/x.md"
    paths = [
        "./.fractal/system/tools/web/pattern.md",
        "system/operations/sum.md",
        "system/pattern.md",
        "a.txt",
    ]
    assert built_by(paths) == {"web", "sum"}


# ---- in a run --------------------------------------------------------------------------------------------


def steps(*given: dict[str, Any]) -> Callable[[Ask], Any]:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return {"validation": "fail", "decision": "ESCALATE", "issues": ["enough"], "output": ""}
        return plan(*given)

    return answer


def test_draft_is_visible_only_to_its_run(play: Play, tmp_path: Path) -> None:
    path = ".fractal/system/tools/greet/pattern.md"
    played = play(steps(write(path, PATTERN), read(path)))
    assert played.root.steps[2].result == PATTERN
    draft = played.folder / "drafts" / "tools" / "greet" / "pattern.md"
    assert draft.read_text("utf-8") == PATTERN
    assert not (tmp_path / "work" / ".fractal" / "system").exists()
    assert "greet" not in played.fractal.catalogue().tools
    other = play(steps(read(path)))
    assert "there is no such file" in (other.root.steps[1].result or "")


def test_edit_of_a_shipped_file_creates_a_draft(play: Play, tmp_path: Path) -> None:
    path = ".fractal/system/tools/data/pattern.md"
    edit = {"tool": "edit", "args": {"path": path, "old": "# Data", "new": "# Our data"}}
    played = play(steps(edit))
    assert played.root.steps[1].state == "done", played.root.steps[1].result
    assert "# Our data" in (played.folder / "drafts" / "tools" / "data" / "pattern.md").read_text("utf-8")


def test_danger_rules_cannot_be_drafted_in_a_run(play: Play) -> None:
    played = play(steps(write(".fractal/system/dangers.md", "none")))
    assert "only a person changes this file" in (played.root.steps[1].result or "")


@pytest.mark.parametrize("name", ["bash", "read"])
def test_draft_cannot_replace_a_builtin(play: Play, name: str) -> None:
    text = PATTERN.replace("greet", name)
    played = play(steps(write(f".fractal/system/tools/{name}/pattern.md", text), read("x")))
    assert "is one of the kernel's own" in played.root.text(4, "evidence")
    assert "x: there is no such file" in (played.root.steps[2].result or "")


# ---- commands -------------------------------------------------------------------------------------------


def sandboxed(play: Play, answer: Callable[[Ask], Any]) -> Played:
    return play(answer, settings={"sandbox": "auto"}, yes=True)


GREET = ".fractal/system/tools/greet/pattern.md"


@boxed
def test_commands_see_drafts(play: Play, tmp_path: Path) -> None:
    shipped = ".fractal/system/pattern.md"
    commands = [bash(f"cat {GREET}"), bash(f"head -1 {shipped}"), bash("cd .fractal; cat sys*/tools/greet/*")]
    played = sandboxed(play, steps(write(GREET, PATTERN), *commands))
    got = [played.root.steps[n].result for n in (2, 3, 4)]
    assert got == [PATTERN.rstrip("\n"), "# The pattern", PATTERN.rstrip("\n")]
    assert not (tmp_path / "work" / ".fractal" / "system").exists()


@boxed
def test_commands_write_drafts(play: Play, tmp_path: Path) -> None:
    make = f"mkdir -p $(dirname {GREET}); printf 'made' > {GREET}; chmod 700 {GREET}"
    played = sandboxed(
        play,
        steps(bash(make), bash(f"sed -i s/made/mended/ {GREET}"), read(GREET)),
    )
    draft = played.folder / "drafts" / "tools" / "greet" / "pattern.md"
    assert played.root.steps[3].result == draft.read_text("utf-8") == "mended"
    assert os.access(draft, os.X_OK)
    assert played.root.steps[2].evidence["drafted"] == ["tools/greet"]
    assert not (tmp_path / "work" / ".fractal" / "system").exists()
    gone = sandboxed(play, steps(write(GREET, PATTERN), bash(f"rm {GREET}")))
    assert not (gone.folder / "drafts" / "tools" / "greet" / "pattern.md").exists()


@boxed
@pytest.mark.parametrize(
    "command", ["echo x > .fractal/system/dangers.md", "rm .fractal/system/phases/do.md"]
)
def test_commands_cannot_change_protected_system_files(play: Play, command: str) -> None:
    played = sandboxed(play, steps(bash(command)))
    assert played.root.steps[1].state == "failed"
    assert re.search(r"only a person changes|cannot be deleted", played.root.steps[1].result or "")
    assert [each for each in (played.folder / "drafts").rglob("*.md") if "dangers" in each.name] == []


@boxed
def test_links_and_pipes_of_commands_are_not_drafts(play: Play) -> None:
    played = sandboxed(
        play, steps(bash("ln -s /etc/hostname .fractal/system/phases/x.md; mkfifo .fractal/system/pipe"))
    )
    assert [path for path in (played.folder / "drafts").rglob("*") if path.name in ("x.md", "pipe")] == []


@boxed
def test_criteria_see_drafts(play: Play) -> None:
    success = [{"run": f"grep -q 'Say hello' {GREET}"}, {"file": GREET, "has": "Say hello"}]
    seen: list[Any] = []

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            seen.append([each["after"] for each in ask.evidence["criteria"]])
            return {"validation": "fail", "decision": "ESCALATE", "issues": ["enough"], "output": ""}
        return plan(write(GREET, PATTERN), success=success)

    sandboxed(play, answer)
    assert seen[0][-2:] == [True, True]


@boxed
async def test_system_folder_of_a_workspace_is_drafted_too(tmp_path: Path) -> None:
    work = tmp_path / "work"
    own = put(work, "system/phases/do.md", "do it\n")
    drafts = Drafts(tmp_path / "drafts", (work / "system",))
    there = OperationContext(work, Sandbox("auto"), drafts=drafts, protected=(work / "system",))
    ran = await run_bash(there, "sed -i s/it/more/ system/phases/do.md; cat .fractal/system/phases/do.md")
    assert ran.text == "do more", ran
    assert own.read_text() == "do it\n" and drafts.readable("phases/do.md").read_text() == "do more\n"
    assert not (work / ".fractal").exists()
