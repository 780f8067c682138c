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
    call,
    done,
    judged,
    research_site,
    settings,
    system_of,
    trials_of,
    write,
)

from kernel.asking.conversation import INDEX_HEAD
from kernel.asking.messages import prompt_text
from kernel.asking.prompt import FORM
from kernel.asking.responder import Ask, estimate_tokens
from kernel.errors import Exit
from kernel.tools.tool import preamble, section

READ = PHASES.keys() - {"do.md"}
"""The phase files that the model of the trial is asked with: it gives whole calls, so DO asks for none."""
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
    model = by_loop(
        {
            "write the sum": {
                "turns": [
                    [call("read", path="n.txt")],
                    [
                        call("write", path="sum.txt", content="7\n"),
                        done("it is 7", checks=["grep -x 7 sum.txt"]),
                    ],
                ],
                "check": ACCEPT,
            }
        }
    )
    played = play(model, "write the sum", settings=settings())
    assert played.result.exit == Exit.ACCEPTED
    assert (work / "sum.txt").read_text() == "7\n"
    assert [ask.phase for ask in model.asks] == ["turn", "turn", "check"]
    *turns, check = model.asks
    for ask in turns:  # the sections of the pattern
        assert ask.messages[0]["content"] == preamble(pattern)
        assert ask.messages[1]["content"].startswith(f"{section(pattern, 'turn')}\n\n")
    assert check.system.startswith(f"{preamble(pattern)}\n\n{section(pattern, 'check')}\n\n{FORM}{{")
    declared = [each["function"]["name"] for each in turns[0].tools]
    assert declared == ["read", "bash", "write", "use", "subtask", "plan", "done", "ask", "cannot"]
    assert INDEX_HEAD not in turns[0].messages[1]["content"]  # no other tool is left


def test_day_0_carries_out_a_plan_whose_steps_are_filled_in_later(work: Path, play: Play) -> None:
    pattern = system_of(work)["pattern.md"]
    (work / "n.txt").write_text("3\n4\n", "utf-8")
    steps = plan(
        {"tool": "read", "args": {"path": "n.txt"}},
        {"tool": "write", "what": "sum.txt with the sum of step 1"},
        success=[{"file": "sum.txt", "has": "^7$"}],
    )
    filled = {"tool": "write", "args": {"path": "sum.txt", "content": "7\n"}}
    model = by_loop({"write the sum": {"plan": steps, "do": filled, "check": ACCEPT}})
    played = play(model, "write the sum", settings=settings())
    assert played.result.exit == Exit.ACCEPTED
    assert [ask.part for ask in model.asks] == ["turn", "do", "check"]
    bound, judge = model.asks[1:]
    assert bound.system == preamble(pattern) and section(pattern, "do") in bound.messages[1]["content"]
    assert judge.system.startswith(f"{preamble(pattern)}\n\n{section(pattern, 'check')}\n\n{FORM}{{")


def test_sections_of_the_pattern_are_short(work: Path) -> None:
    pattern = system_of(work)["pattern.md"]
    assert estimate_tokens(preamble(pattern)) <= 65
    for phase in ("turn", "do", "check"):
        assert 0 < estimate_tokens(section(pattern, phase)) <= 125, "an estimate is above a tokenizer's count"


def test_day_0_does_not_read_the_shipped_system(work: Path, play: Play) -> None:
    looks = [call("read", path=f"{SYSTEM}/{name}") for name in ("phases/turn.md", "pattern.md")]
    turns = [looks, [done("only pattern.md is there")], [done("only pattern.md is there")]]
    played = play(by_loop({"find out": {"turns": turns, "check": ACCEPT}}), "find out", settings=settings())
    assert [step.state for step in played.root.steps.values()] == ["failed", "done"]
    assert "no such file" in str(played.root.steps[1].result)


# ---- Day 1 -----------------------------------------------------------------------------------------------


def test_day_1_writes_phases_and_tests_them_on_a_small_task(work: Path, play: Play) -> None:
    pattern = system_of(work)["pattern.md"]
    model = builds_itself()
    played = play(model, BUILD_YOURSELF, settings=settings())
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    found = {f"phases/{name}": "pass" if name in READ else "judge" for name in sorted(PHASES)}
    builder = f"tool-task-{played.result.run}-2"
    assert trials_of(played, builder) == trials_of(played) == found
    by_level = {
        level: [ask for ask in model.asks if ask.document.meta.level == level]
        for level in ("system", "operation")
    }
    for ask in by_level["system"]:  # not its own drafts
        assert preamble(pattern) in prompt_text(ask)
    assert [ask.phase for ask in by_level["operation"]] == ["turn", "check"]
    turn, check = by_level["operation"]
    assert turn.messages[0]["content"] == PHASES["turn.base.md"]
    assert turn.messages[1]["content"].startswith(f"{PHASES['turn.md']}\n\n")
    parts = [PHASES["base.md"], PHASES["check.md"], f"{FORM}{PHASES['check.reply.md']}"]
    assert check.system.startswith("\n\n".join(parts))
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
    model = by_loop({"say one": {"turns": [[call("bash", command="echo 1")], [done("1")]], "check": ACCEPT}})
    play(model, "say one", settings=settings())
    assert [ask.phase for ask in model.asks] == ["turn", "turn", "check"]
    assert model.asks[0].messages[0]["content"] == PHASES["turn.base.md"]
    assert model.asks[0].messages[1]["content"].startswith(f"{PHASES['turn.md']}\n\n")
    parts = [PHASES["base.md"], PHASES["check.md"], f"{FORM}{PHASES['check.reply.md']}"]
    assert model.asks[2].system.startswith("\n\n".join(parts))


def test_untested_phases_are_not_accepted(work: Path, play: Play) -> None:
    turns = [[write("phases/do.md", "# DO\nDo it.\n"), done("written")], *[[done("written")]] * 5]
    model = by_loop({BUILD_YOURSELF: {"turns": turns}})
    played = play(model, BUILD_YOURSELF, settings=settings(retries=0))
    assert played.result.exit == Exit.FAILED
    shown = model.asks[1].messages[-1]["content"]
    assert shown.startswith("held back: draft does not hold: phases/do.md")
    assert "no subtask has gone through it" in shown
    assert not [ask for ask in model.asks if ask.phase == "check"], "no model can accept it"
    assert "phases/do.md" not in system_of(work)


def test_a_plan_that_leaves_phases_untested_is_not_accepted(work: Path, play: Play) -> None:
    prompts: list[str] = []

    def check(ask: Ask) -> object:
        prompts.append(prompt_text(ask))
        return ACCEPT if len(prompts) == 1 else judged(ask, "")

    played = play(
        by_loop({BUILD_YOURSELF: {"plan": plan(write("phases/do.md", "# DO\nDo it.\n")), "check": check}}),
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
    held = added.root.text(3, "not yet")
    assert held.startswith("held back: draft does not hold: tools/web-research")
    assert re.search(r"does not show .*Brewing green tea.* ⏎ /green", held)
    assert trials_of(added) == {"tools/web-research": "pass"}
    built = {name: text for name, text in system_of(work).items() if name.startswith("tools/")}
    assert sorted(built) == ["tools/web-research/pattern.md", "tools/web-research/tool.py"]
    assert built["tools/web-research/tool.py"] == FIXED_PROGRAM

    model = asks_the_site(site)
    used = play(model, "How hot is black tea brewed?", settings=settings())
    assert used.result.exit == Exit.ACCEPTED, used.result.reason
    assert "98 degrees for 4 minutes" in used.result.output
    assert f"{INDEX_HEAD}web-research" in model.asks[0].messages[1]["content"]


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


def test_failing_draft_is_given_up(work: Path, play: Play, site: str) -> None:
    before = system_of(work)
    programs = [FIRST_PROGRAM + "\n" * n for n in range(9)]
    played = play(adds_research(site, programs), ADD_RESEARCH, settings=settings(retries=0))
    assert (played.result.status, played.result.exit) == ("escalated", Exit.FAILED)
    text = played.result.path.read_text("utf-8")
    assert "the answer was held back" in played.root.text(5, "escalation")
    assert "its sample's result does not show" in text
    assert system_of(work) == before
    assert not [e for e in played.fractal.workshop.journal.entries() if e.kind in ("admitted", "proposed")]
    model = by_loop({"what is there": {"turns": [[done("nothing")], [done("nothing")]], "check": ACCEPT}})
    play(model, "what is there?", settings=settings())
    assert "web-research" not in prompt_text(model.asks[0])
