"""The system builds itself, with a scripted model on real files: Day 1 writes phases, Day 2 a tool.

The built workspace is compared with a golden tree. `UPDATE_GOLDEN=1` rewrites it.

"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playing import ACCEPT, Play, Played, plan
from self_building import (
    ADD_RESEARCH,
    BUILD_YOURSELF,
    FIRST_PROGRAM,
    FIXED_PROGRAM,
    PHASES,
    SYSTEM,
    adds_research,
    asks_the_site,
    bare,
    builds_itself,
    by_loop,
    judged,
    research_site,
    separately,
    settings,
    system_of,
    trials_of,
    write,
)

from kernel.asking.prompt import FORM
from kernel.asking.responder import Ask
from kernel.errors import Exit
from kernel.tools.tool import preamble, section
from runtime.models.scripted import Scripted

READ = {"base.md", "fused.md", "fused.reply.md", "do.md", "check.md"}
"""The phase files that the model of the trial is asked with."""
GOLDEN = Path(__file__).parent.parent / "golden" / "built-workspace"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return bare(tmp_path / "work")


@pytest.fixture
def site() -> Iterator[str]:
    with research_site() as address:
        yield address


def build_yourself(play: Play) -> Played:
    return play(builds_itself(), BUILD_YOURSELF, settings=settings())


# ---- Day 0 -----------------------------------------------------------------------------------------------


def test_day_0_does_a_task_with_pattern_and_builtins_alone(work: Path, play: Play) -> None:
    pattern = system_of(work)["pattern.md"]
    (work / "n.txt").write_text("3\n4\n", "utf-8")
    model = Scripted(
        {
            "understand": {"task": "write the sum of the numbers in n.txt into sum.txt"},
            "plan": plan(
                {"tool": "read", "args": {"path": "n.txt"}},
                {"tool": "write", "what": "sum.txt with the sum of step 1"},
                success=[{"file": "sum.txt", "has": "^7$"}],
            ),
            "do": {"tool": "write", "args": {"path": "sum.txt", "content": "7\n"}},
            "check": ACCEPT,
        }
    )
    played = play(model, "write the sum", settings=settings())
    assert played.result.exit == Exit.ACCEPTED
    assert (work / "sum.txt").read_text() == "7\n"
    assert [ask.phase for ask in model.asks] == ["understand", "plan", "do", "check"]
    for ask in model.asks:  # the sections of the pattern
        assert ask.system.startswith(f"{preamble(pattern)}\n\n{section(pattern, ask.phase)}\n\n{FORM}{{")
    index = model.asks[1].system.partition("Tools:\n")[2]
    assert [line.partition("(")[0] for line in index.splitlines()] == ["read", "write", "bash"]


def test_day_0_does_not_read_the_shipped_system(work: Path, play: Play) -> None:
    played = play(
        by_loop(
            {
                "find out": {
                    **separately(
                        plan(
                            {"tool": "read", "args": {"path": f"{SYSTEM}/phases/plan.md"}, "needs": []},
                            {"tool": "read", "args": {"path": f"{SYSTEM}/pattern.md"}, "needs": []},
                        )
                    ),
                    "check": ACCEPT,
                }
            }
        ),
        "find out",
        settings=settings(),
    )
    assert [step.state for step in played.root.steps.values()] == ["failed", "done"]
    assert "no such file" in str(played.root.steps[1].result)


# ---- Day 1 -----------------------------------------------------------------------------------------------


def test_day_1_writes_phases_and_tests_them_on_a_small_task(work: Path, play: Play) -> None:
    model = Scripted(builds_itself())
    played = play(model, BUILD_YOURSELF, settings=settings())
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    found = {f"phases/{name}": "pass" if name in READ else "judge" for name in sorted(PHASES)}
    builder = f"tool-task-{played.result.run}-2"
    assert trials_of(played, builder) == trials_of(played) == found
    by_level = {
        level: [ask for ask in model.asks if ask.document.meta.level == level]
        for level in ("system", "operation")
    }
    assert all("One loop at every scale" in ask.system for ask in by_level["system"])  # not its own drafts
    assert [ask.phase for ask in by_level["operation"]] == ["fused", "do", "check"]
    for ask in by_level["operation"]:
        assert ask.system.startswith(f"{PHASES['base.md']}\n\n{PHASES[f'{ask.phase}.md']}\n\n{FORM}")
    assert (work / "phases.txt").read_text() == "they work\n"


def test_next_run_uses_the_phases_of_day_1(work: Path, play: Play) -> None:
    before = system_of(work)
    built = build_yourself(play)
    after = system_of(work)
    assert {name: text for name, text in after.items() if name not in before} == {
        f"phases/{name}": text + "\n" for name, text in PHASES.items() if name in READ
    }
    assert {name: after[name] for name in before} == before
    entries = built.fractal.workshop.journal.entries()
    admitted = {entry.unit: entry.run for entry in entries if entry.kind == "admitted"}
    assert admitted == {f"phases/{name}": built.result.run for name in READ}
    proposed = {each.unit for each in built.fractal.workshop.proposals.open()}
    assert proposed == {f"phases/{name}" for name in PHASES.keys() - READ}, "no model was asked with them"
    model = Scripted([plan({"tool": "bash", "args": {"command": "echo 1"}}), ACCEPT])
    play(model, "say one", settings=settings())
    assert [ask.phase for ask in model.asks] == ["fused", "check"]
    parts = [PHASES["base.md"], PHASES["fused.md"], f"{FORM}{PHASES['fused.reply.md']}", "Tools:\n"]
    assert model.asks[0].system.startswith("\n\n".join(parts))


def test_untested_phases_are_not_accepted(work: Path, play: Play) -> None:
    prompts: list[str] = []

    def check(ask: Ask) -> object:
        prompts.append(ask.user)
        return ACCEPT if len(prompts) == 1 else judged(ask, "")

    only_written = separately(plan(write("phases/do.md", "# DO\nDo it.\n")))
    played = play(
        by_loop({BUILD_YOURSELF: {**only_written, "check": check}}),
        BUILD_YOURSELF,
        settings=settings(retries=0),
    )
    assert played.result.exit == Exit.FAILED
    assert trials_of(played) == {"phases/do.md": "FAIL"}
    assert "no subtask has gone through it" in played.root.text(4, "evidence")
    assert "ACCEPT is not open" in prompts[1]  # the first ACCEPT was refused
    assert "phases/do.md" not in system_of(work)


# ---- Day 2 -----------------------------------------------------------------------------------------------


def test_day_2_writes_fixes_and_uses_a_tool(work: Path, play: Play, site: str) -> None:
    build_yourself(play)
    programs = [FIRST_PROGRAM, FIXED_PROGRAM]
    added = play(adds_research(site, programs), ADD_RESEARCH, settings=settings())
    assert added.result.exit == Exit.ACCEPTED, added.result.reason
    folds = added.root.section(2).folds
    assert [fold.decision for fold in folds] == ["retry"]
    assert re.search(r"does not show .*Brewing green tea.* ⏎ /green", folds[0].notes[1].text)
    assert trials_of(added) == {"tools/web-research": "pass"}
    built = {name: text for name, text in system_of(work).items() if name.startswith("tools/")}
    assert sorted(built) == ["tools/web-research/pattern.md", "tools/web-research/tool.py"]
    assert built["tools/web-research/tool.py"] == FIXED_PROGRAM

    model = Scripted(asks_the_site(site))
    used = play(model, "How hot is black tea brewed?", settings=settings())
    assert used.result.exit == Exit.ACCEPTED, used.result.reason
    assert "98 degrees for 4 minutes" in used.result.output
    assert "web-research(url)" in model.asks[0].system


def test_built_workspace_equals_the_golden_one(work: Path, play: Play, site: str) -> None:
    build_yourself(play)
    play(adds_research(site, [FIXED_PROGRAM]), ADD_RESEARCH, settings=settings())
    written = {name: text.replace(site, "http://site.example") for name, text in system_of(work).items()}
    if os.environ.get("UPDATE_GOLDEN"):
        for name, text in written.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(text, "utf-8")
    golden = {
        path.relative_to(GOLDEN).as_posix(): path.read_text("utf-8")
        for path in GOLDEN.rglob("*")
        if path.is_file()
    }
    assert written == golden


def test_failing_draft_is_given_up_after_three_attempts(work: Path, play: Play, site: str) -> None:
    before = system_of(work)
    programs = [FIRST_PROGRAM, FIRST_PROGRAM + "\n", FIRST_PROGRAM + "\n\n"]
    played = play(adds_research(site, programs), ADD_RESEARCH, settings=settings())
    assert (played.result.status, played.result.exit) == ("escalated", Exit.FAILED)
    assert played.root.meta.attempt == 3
    assert [fold.decision for fold in played.root.section(2).folds] == ["retry", "retry"]
    text = played.result.path.read_text("utf-8")
    assert "max retries exceeded" in played.root.text(5, "escalation")
    assert "its sample's result does not show" in text
    assert system_of(work) == before
    assert not [e for e in played.fractal.workshop.journal.entries() if e.kind in ("admitted", "proposed")]
    model = Scripted([{"task": "x"}, plan({"tool": "bash", "args": {"command": "true"}}), ACCEPT])
    play(model, "what is there?", settings=settings())
    assert "web-research" not in model.asks[1].system
