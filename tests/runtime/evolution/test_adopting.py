"""Proposals are tested before they are adopted: programs by their sample, guidance by sample tasks."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from playing import ACCEPT, plan
from test_registration import SHOUT, answers, building, play
from workshop_place import Place, boxed, pattern

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import UsageError
from runtime.api.fractal import Fractal
from runtime.api.sample_runs import player
from runtime.evolution.adoption import Adoption, SampleTasks, Verdict
from runtime.models.scripted import Scripted

SAMPLE = {"task": "when was it?", "files": {"bridge.txt": "1931\n"}, "shows": "1931"}
READ = {"tool": "read", "args": {"path": "bridge.txt"}}


def guided(name: str = "bridges", body: str = "Look into the files.", **fields: Any) -> str:
    given: dict[str, Any] = {"run": None, "args": None, "required": None, "sample": SAMPLE, **fields}
    return pattern(name, body=body, **given)


def handed(place: Place, tmp_path: Path, name: str, text: str) -> str:
    """Hand in a person's proposal of one file; return its id."""
    path = tmp_path / "handed" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    fractal = place.fractal()
    workshop = fractal.workshop
    workshop.open()
    return workshop.proposals.hand_in(fractal.systems, [path], why="better").id


def model(good: str = "", bad: str = "") -> Scripted:
    """A model that does every sample task, but fails if its prompt has the word `bad` or lacks `good`."""

    def answer(ask: Ask) -> Any:
        shown = prompt_text(ask)
        if ask.phase == "understand":
            return {"task": ask.document.task, "context": [], "open": []}
        if ask.phase == "check":
            return {**ACCEPT, "output": str(ask.document.steps[1].result)}
        well = (good in shown) and not (bad and bad in shown)
        return plan(READ if well else {"tool": "calc", "args": {"expression": "1+1"}})

    return Scripted(answer)


def adoption(place: Place, name: str, responder: Scripted | None, usd: float | None = 1.0) -> Adoption:
    ladder = Ladder((responder,)) if responder else None
    settings = {"sandbox": "off", "model": "reflex", "shipped": False}
    fractal = Fractal(place.folder, settings=settings, ladder=ladder, on_event=place.events.append)
    shop = fractal.workshop
    proposal = shop.proposals.get(name)
    tasks = SampleTasks(shop.workspace, fractal.catalogue(), player(fractal), usd)
    return Adoption(shop.journal, shop.proposals, proposal, tasks, shop.context, responder is not None)


@pytest.fixture
def bare(place: Place) -> Place:
    """A workspace with its own phases and one guided tool, so with one sample task."""
    shipped = Path(__file__).parents[3] / "system"
    for name in ("pattern.md", "phases", "kernel", "operations/calc.md"):
        copy = shutil.copytree if (shipped / name).is_dir() else shutil.copy
        (place.system / name).parent.mkdir(parents=True, exist_ok=True)
        copy(shipped / name, place.system / name)
    place.put("tools/bridges/pattern.md", guided())
    return place


def judged(place: Place, name: str, responder: Scripted | None, usd: float | None = 1.0) -> Verdict:
    return asyncio.run(adoption(place, name, responder, usd).judge())


def test_a_phase_file_is_good_when_the_sample_tasks_do_no_worse(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "phases/turn.md", "# TURN\nBriefly.\n")
    verdict = judged(bare, name, model())
    assert (verdict.good, verdict.why) == (True, "1 of 1 sample tasks done with it, 1 without it")


def test_a_phase_file_that_makes_tasks_fail_is_refused_with_the_reason(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "phases/turn.md", "# TURN\nMUDDLE.\n")
    verdict = judged(bare, name, model(bad="MUDDLE"))
    assert not verdict.good
    assert verdict.why.startswith("it does worse: 0 of 1 sample tasks done with it, 1 without it; bridges:")


def test_a_phase_file_with_which_they_do_better_is_good(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "phases/turn.md", "# TURN\nTHINK.\n")
    assert judged(bare, name, model(good="THINK")).good
    assert not judged(bare, name, model(good="NOWHERE")).good  # done neither way: it proves nothing


def test_without_a_model_little_is_proven_and_a_person_decides(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "phases/turn.md", "# TURN\nBriefly.\n")
    verdict = judged(bare, name, None)
    assert (verdict.good, "proves little" in verdict.why) == (False, True)


def test_comparing_costs_no_more_than_it_may(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "phases/turn.md", "# TURN\nBriefly.\n")
    verdict = judged(bare, name, model(), usd=0.0)
    assert (verdict.good, "the money for comparing was used up" in verdict.why) == (False, True)


def test_a_change_of_a_guided_tool_is_compared_by_its_own_sample(bare: Place, tmp_path: Path):
    worse = handed(bare, tmp_path, "tools/bridges/pattern.md", guided(body="MUDDLE."))
    verdict = judged(bare, worse, model(bad="MUDDLE"))
    assert (verdict.good, verdict.why[:18]) == (False, "it does worse: 0 o")
    better = handed(bare, tmp_path, "tools/bridges/pattern.md", guided(body="Look closely."))
    assert judged(bare, better, model()).good


def test_a_new_guided_tool_that_a_person_hands_in_is_tested(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "tools/towers/pattern.md", guided("towers"))
    assert judged(bare, name, model()).good
    bad = handed(bare, tmp_path, "tools/towers/pattern.md", guided("towers", body="MUDDLE."))
    assert not judged(bare, bad, model(bad="MUDDLE")).good


def test_comparing_leaves_nothing_in_the_folder_and_nothing_in_the_system(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "phases/turn.md", "# TURN\nBriefly.\n")
    before = bare.files()
    judged(bare, name, model())
    assert bare.files() == before
    assert sorted(each.name for each in bare.folder.iterdir()) == [".fractal"]
    assert list((bare.state / "trials").iterdir()) == []


def test_a_malformed_file_is_refused_before_anything_is_run(bare: Place, tmp_path: Path):
    name = handed(bare, tmp_path, "tools/bridges/pattern.md", "---\nname: bridges\n---\n")
    with pytest.raises(UsageError, match="description is missing"):
        judged(bare, name, model())
    reflex = handed(bare, tmp_path, "reflexes/x.md", "---\nname: x\n---\n")
    with pytest.raises(UsageError, match=reflex):
        judged(bare, reflex, model())


# ---- as commands ----


def test_a_program_that_waits_is_adopted_once_its_sample_passes(place: Place):
    built = play(place, *building(), admit="ask")
    listed = place.command("system", "adopt", "--json")
    assert [(each["id"], each["run"]) for each in json.loads(listed.out)] == [("p1", built.run)]
    assert "+print(json.load" in place.command("system", "diff").out
    assert "+print(json.load" in place.command("system", "diff", "p1").out
    ran = place.command("system", "adopt", "p1")
    assert ran.exit == 0, ran
    assert "✓ shout, its own sample" in ran.err
    entry = place.entries[-1]
    assert (entry.kind, entry.proposal, entry.run) == ("adopted", "p1", built.run)
    assert place.tool("shout").status == "active"
    assert json.loads(place.command("system", "adopt", "--json").out) == []
    again = place.command("system", "adopt", "p1")
    assert (again.exit, "p1 is closed" in again.err) == (2, True)


@boxed
def test_a_program_that_waits_is_tested_in_the_sandbox(place: Place):
    play(place, *building(), admit="ask", sandbox="bwrap")
    ran = place.command("system", "adopt", "p1", env={"FRACTAL_SANDBOX": "bwrap"})
    assert ran.exit == 0, ran
    assert place.tool("shout").status == "active"


def test_a_program_whose_sample_fails_is_not_adopted_without_force(place: Place, tmp_path: Path):
    folder = tmp_path / "shout"
    folder.mkdir()
    (folder / "tool.py").write_text("print('quiet')")
    (folder / "pattern.md").write_text(pattern("shout"))
    proposed = place.command("system", "propose", str(folder), "--why", "louder")
    assert (proposed.exit, proposed.out) == (0, "p1\n"), proposed
    ran = place.command("system", "adopt", "p1")
    assert (ran.exit, "p1 is not adopted" in ran.err, "--force" in ran.err) == (1, True, True)
    assert not place.system.exists()
    assert place.command("system", "adopt", "p1", "--force").exit == 0
    assert "adopted because of --force" in place.entries[-1].reason


def script(place: Place) -> str:
    steps = {**plan(READ), "task": "t"}
    check = {**ACCEPT, "output": "{{ steps[1].result }}"}
    text = yaml.safe_dump({"plan": steps, "check": check})
    (place.folder / "script.yaml").write_text(text)
    return f"scripted:{place.folder / 'script.yaml'}"


def test_a_guided_tool_is_compared_by_whole_processes_and_the_cost_is_shown_before(
    place: Place, tmp_path: Path
):
    place.put("tools/bridges/pattern.md", guided())
    handed(place, tmp_path, "tools/bridges/pattern.md", guided(body="Look closely."))
    ran = place.command("system", "adopt", "p1", "--model", script(place), "--json")
    assert ran.exit == 0, ran
    report = json.loads(ran.out)
    assert report["tasks"] == [
        {"task": "bridges", "without": True, "with": True, "note": report["tasks"][0]["note"]}
    ]
    assert "Look closely." in place.files()["tools/bridges/pattern.md"]
    handed(place, tmp_path, "tools/bridges/pattern.md", guided(body="Closer."))
    ran = place.command("system", "adopt", "p2", "--model", script(place))
    cost_line = ran.err.splitlines()[0]
    assert cost_line == (
        "1 sample task, with and without it: 2 runs of at most 60 calls each, at most $1.00 in total"
    )
    assert place.command("system", "rollback", str(place.entries[-1].id)).exit == 0
    assert "Look closely." in place.files()["tools/bridges/pattern.md"]


def test_what_changed_since_it_was_proposed_is_not_overwritten_unasked(place: Place, tmp_path: Path):
    place.shout()
    handed(place, tmp_path, "tools/shout/tool.py", SHOUT + "# proposed\n")
    place.put("tools/shout/tool.py", SHOUT + "# edited meanwhile\n")
    ran = place.command("system", "adopt", "p1")
    assert (ran.exit, "changed since the proposal" in ran.err) == (1, True), ran
    assert "# edited meanwhile" in place.files()["tools/shout/tool.py"]


def test_what_a_run_drafted_and_nobody_accepted_can_still_be_adopted(place: Place):
    failed = play(place, answer=answers(*building(), decision="ESCALATE"))
    assert f"# draft of {failed.run} tools/shout" in place.command("system", "diff").out
    ran = place.command("system", "adopt", failed.run)
    assert ran.exit == 0, ran
    assert place.tool("shout").status == "active"
    assert place.kinds() == [("proposed", "tools/shout"), ("adopted", "tools/shout")]


def test_a_proposal_can_be_dropped(place: Place, tmp_path: Path):
    handed(place, tmp_path, "phases/turn.md", "# TURN\n")
    assert place.command("system", "drop", "p1", "--why", "no").exit == 0
    assert place.fractal().workshop.proposals.open() == []
    assert [each.kind for each in place.entries] == ["proposed", "dropped"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["adopt", "p7"], "there is no run p7"),
        (["propose", "notes.txt"], "--as phases/turn.md"),
        (["propose", "notes.txt", "--as", "../x.md"], "a place in system/ is"),
        (["propose", "notes.txt", "--as", "/etc/passwd"], "a place in system/ is"),
        (["propose", "notes.txt", "--as", "dangers.md"], "a place in system/ is"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_mend(place: Place, words: list[str], says: str):
    (place.folder / "notes.txt").write_text("notes")
    ran = place.command("system", *words)
    assert (ran.exit, says in ran.err) == (2, True), ran


def test_a_file_is_proposed_for_the_place_that_its_name_or_folder_says(place: Place, tmp_path: Path):
    for name, text in (("turn.md", "# TURN\n"), ("phases/check.md", "# CHECK\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        assert place.command("system", "propose", str(tmp_path / name)).exit == 0
    units = [each.unit for each in place.fractal().workshop.proposals.open()]
    assert units == ["phases/turn.md", "phases/check.md"]
