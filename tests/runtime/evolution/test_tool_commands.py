"""`fractal tools new`, `add`, `test`, `retire` and `ls`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from workshop_place import SHOUT, Place, pattern

from runtime.catalogue.catalogue import Catalogue

OPERATION = pattern("loud", run="command: ./loud.py")


def names(place: Place, *words: str) -> dict[str, dict[str, object]]:
    ran = place.command("tools", "ls", "--json", *words)
    assert ran.exit == 0, ran.err
    return {each["name"]: each for each in json.loads(ran.out)}


@pytest.mark.parametrize("kind", ["guided", "command"])
def test_a_new_tool_is_a_well_formed_draft(place: Place, kind: str):
    ran = place.command("tools", "new", "mine", "--kind", kind)
    assert ran.exit == 0, ran.err
    assert Path(ran.out.strip()) == place.system / "tools" / "mine" / "pattern.md"
    catalogue = Catalogue([place.system])
    assert catalogue.faults == []
    tool = catalogue.idle["mine"]
    assert (tool.status, tool.origin, tool.guided) == ("draft", "designed", kind == "guided")
    assert "mine" not in names(place)
    assert names(place, "--all")["mine"]["status"] == "draft"
    again = place.command("tools", "new", "mine")
    assert (again.exit, "already" in again.err) == (2, True)


def test_the_program_of_the_template_passes_its_own_sample_and_is_active_then(place: Place):
    place.command("tools", "new", "mine", "--kind", "command")
    ran = place.command("tools", "test", "mine")
    assert (ran.exit, "✓ mine passed" in ran.out) == (0, True), ran
    assert place.tool("mine").status == "active"
    assert place.records.get(place.tool("mine")).passed is True
    assert place.kinds() == [("added", "tools/mine"), ("admitted", "tools/mine")]
    assert names(place)["mine"]["birth"]["author"] == "person"  # type: ignore[index]


def test_a_test_that_fails_says_why_and_exits_with_1(place: Place):
    place.shout(program="print('quiet')")
    ran = place.command("tools", "test", "shout")
    assert ran.exit == 1
    assert "✗ shout failed" in ran.out
    assert "does not show '^HELLO$': quiet" in ran.out
    results = json.loads(place.command("tools", "test", "shout", "--json").out)
    assert [(each["tool"], each["passed"]) for each in results] == [("shout", False)]


def test_a_quarantined_tool_that_passes_again_is_active_again(place: Place):
    place.shout(status="quarantined")
    assert place.command("tools", "test", "shout").exit == 0
    assert place.tool("shout").status == "active"
    assert place.entries[-1].kind == "restored"


def test_a_retired_tool_stays_retired_whatever_its_sample_does(place: Place):
    place.shout(status="retired")
    assert place.command("tools", "test", "shout").exit == 0
    assert place.tool("shout").status == "retired"


def test_without_a_model_a_guided_tool_is_not_tested_and_that_is_no_success(place: Place):
    ran = place.command("tools", "test", "research")
    assert (ran.exit, "no model is configured" in ran.out) == (1, True)


def scripted(place: Place, output: str) -> str:
    plan = {
        "task": "t",
        "approach": "a",
        "confidence": "high",
        "steps": [{"tool": "read", "args": {"path": "bridge.txt"}}],
        "success": [{"step": 1, "has": "1931"}],
    }
    check = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}
    script = {"plan": plan, "check": check}
    (place.folder / "script.yaml").write_text(yaml.safe_dump(script))
    return f"scripted:{place.folder / 'script.yaml'}"


def guided(place: Place) -> None:
    sample = {"task": "when was it?", "files": {"bridge.txt": "1931\n"}, "shows": "1931"}
    text = pattern("bridges", run=None, args=None, required=None, sample=sample, status="draft")
    place.put("tools/bridges/pattern.md", text)


def test_a_guided_tool_is_tested_by_a_run_that_it_guides(place: Place):
    guided(place)
    model = scripted(place, "in 1931")
    ran = place.command("tools", "test", "bridges", "--model", model)
    assert (ran.exit, "✓ bridges passed" in ran.out) == (0, True), ran
    assert "1 run of at most" in ran.err
    assert place.tool("bridges").status == "active"
    assert list((place.state / "trials").iterdir()) == []
    assert not (place.folder / "bridge.txt").exists()


def test_the_run_of_a_guided_test_that_failed_can_be_looked_at(place: Place):
    guided(place)
    ran = place.command("tools", "test", "bridges", "--model", scripted(place, "nobody knows"))
    assert ran.exit == 1, ran
    assert "does not show '1931': nobody knows" in ran.out
    trial = next((place.state / "trials").iterdir())
    assert str(trial) in ran.out
    shown = Place(trial).command("show")
    assert 'type: "bridges"' in shown.out, shown
    assert place.tool("bridges").status == "draft"


def test_a_folder_of_many_tools_is_added_and_each_program_is_tested(place: Place, tmp_path: Path):
    many = tmp_path / "many"
    for name, program in (("good", SHOUT), ("bad", "print('no')")):
        (many / name).mkdir(parents=True)
        (many / name / "tool.py").write_text(program)
        (many / name / "pattern.md").write_text(pattern(name))
    (many / "pdf" / "scripts").mkdir(parents=True)
    (many / "pdf" / "SKILL.md").write_text("---\nname: pdf\ndescription: fill in forms\n---\nRead it.\n")
    (many / "pdf" / "scripts" / "fill.py").write_text("print()")
    ran = place.command("tools", "add", str(many))
    assert ran.exit == 1  # one of them failed
    status = {name: each["status"] for name, each in names(place, "--all").items()}
    assert (status["good"], status["bad"], status["pdf"]) == ("active", "quarantined", "active")
    assert (place.system / "tools/pdf/scripts/fill.py").is_file()
    again = place.command("tools", "add", str(many / "good"))
    assert (again.exit, "already there" in again.err) == (0, True)


def test_an_operation_is_added_with_its_program(place: Place, tmp_path: Path):
    (tmp_path / "loud.py").write_text(SHOUT)
    (tmp_path / "loud.md").write_text(OPERATION)
    ran = place.command("tools", "add", str(tmp_path / "loud.md"))
    assert (ran.exit, "✓ loud passed" in ran.out) == (0, True), ran
    assert sorted(place.files()) == ["operations/loud.md", "operations/loud.py"]
    assert place.kinds() == [("added", "operations/loud.md")]


def test_what_is_added_over_another_wants_force_and_can_be_had_back(place: Place, tmp_path: Path):
    place.shout()
    (tmp_path / "shout").mkdir()
    (tmp_path / "shout" / "pattern.md").write_text(pattern("shout", body="Other."))
    (tmp_path / "shout" / "tool.py").write_text(SHOUT)
    before = place.files()
    refused = place.command("tools", "add", str(tmp_path / "shout"))
    assert (refused.exit, "--force" in refused.err) == (1, True)
    assert place.files() == before
    assert place.command("tools", "add", "--force", str(tmp_path / "shout")).exit == 0
    assert "Other." in place.files()["tools/shout/pattern.md"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("pattern.md", pattern("x", run="python: os:system"), "guidance or command:"),
        ("pattern.md", pattern("x"), "there is no program tool.py"),
        ("pattern.md", "no frontmatter", "description is missing"),
        ("notes.txt", "nothing", "no pattern.md, SKILL.md or operation"),
    ],
)
def test_what_is_no_tool_is_not_added(place: Place, tmp_path: Path, name: str, text: str, says: str):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / name).write_text(text)
    ran = place.command("tools", "add", str(tmp_path / "x"))
    assert (ran.exit in (2, 3), says in ran.err) == (True, True), ran
    assert not place.system.exists()


def test_a_link_out_of_a_tools_folder_is_not_followed(place: Place, tmp_path: Path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "pattern.md").write_text(pattern("x", run=None))
    (tmp_path / "x" / "tool.py").symlink_to(tmp_path / "secret")
    ran = place.command("tools", "add", str(tmp_path / "x"))
    assert (ran.exit, "leads outside" in ran.err) == (2, True)


def test_a_retired_tool_is_not_offered_and_one_that_ships_can_be_retired(place: Place):
    place.shout()
    ran = place.command("tools", "retire", "shout", "research")
    assert ran.exit == 0, ran.err
    assert not {"shout", "research"} & set(names(place))
    every = names(place, "--all")
    assert (every["shout"]["status"], every["research"]["status"]) == ("retired", "retired")
    assert place.kinds()[-2:] == [("retired", "tools/shout"), ("retired", "tools/research")]


def test_a_draft_is_checked_and_shown_too(place: Place):
    place.shout(status="draft", required=["volume"])
    place.put("tools/lost/pattern.md", pattern("lost", status="quarantined"))
    ran = place.command("tools", "check")
    assert ran.exit == 1
    assert "required: volume is not among args" in ran.out
    assert "there is no program tool.py beside it" in ran.out
    assert "(quarantined)" in place.command("tools", "show", "lost").err


def test_a_skill_is_retired_by_taking_its_folder_away(place: Place):
    place.put("tools/pdf/SKILL.md", "---\nname: pdf\ndescription: forms\n---\nRead.\n")
    assert place.command("tools", "retire", "pdf").exit == 0
    assert not (place.system / "tools" / "pdf").exists()


# ---- calls without a model -------------------------------------------------------------------------------


def test_a_tool_is_called_without_a_model_as_a_run_of_one_step(place: Place):
    place.shout()
    ran = place.command("tools", "call", "shout", "text=good morning", "-q")
    assert (ran.exit, ran.out) == (0, "GOOD MORNING\n"), ran.err
    (run,) = place.fractal().runs()
    root = place.fractal().root_document(run.run)
    assert (run.status, run.spent["calls"], root.steps[1].tool) == ("complete", 0, "shout")
    assert place.records.get(place.tool("shout")).passed, "its sample was run first"
    assert place.fractal().growth()[-1].tasks == 0, "a call is no task"


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["calc", "expression=6*7"], "42"),
        (["write", "path=a.txt", 'content={"a": 1}'], "wrote a.txt"),
        (["write", '{"path": "a.txt", "content": "x"}'], "wrote a.txt"),
        (["lines", "text=one=1", "query=first 1"], "one=1"),
        (["sort", "text=b\na\na", "unique=true"], "a\nb"),
        (["csv", "more=[]", "text=n\n1\n2\n", "query=sum n"], "3"),
    ],
)
def test_arguments_are_texts_or_json(place: Place, words: list[str], out: str):
    ran = place.command("tools", "call", "-q", *words)
    assert (ran.exit, ran.out.strip().startswith(out)) == (0, True), ran


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nosuch"], "there is no tool 'nosuch'"),
        (["build", "what=x"], "guides a loop"),
        (["csv", "path=a.csv"], "needs query"),
        (["csv", "query=count", "colour=red"], "has no argument colour"),
        (["csv", "count"], "KEY=VALUE"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused_before_a_run_begins(place: Place, words: list[str], says: str):
    ran = place.command("tools", "call", *words)
    assert (ran.exit, says in ran.err) == (2, True), ran.err
    assert place.fractal().runs() == []


def test_a_call_is_undone_waits_for_approval_and_fails_as_any_step(place: Place):
    place.folder.joinpath("a.csv").write_text("n\n1\n")
    save = ["csv", "path=a.csv", "query=count", "to=out.txt"]
    assert place.command("tools", "call", *save).exit == 0
    assert place.folder.joinpath("out.txt").read_text() == "1\n"
    assert place.command("undo").exit == 0
    assert not place.folder.joinpath("out.txt").exists()
    place.folder.joinpath("fractal.yaml").write_text("approve: [write]\n")
    waiting = place.command("tools", "call", *save)
    assert waiting.exit == 6 and "approve" in waiting.err, waiting.err
    assert not place.folder.joinpath("out.txt").exists()
    assert place.command("approve", "--resume").exit == 0
    assert place.folder.joinpath("out.txt").read_text() == "1\n"
    failed = place.command("tools", "call", "csv", "path=nowhere.csv", "query=count")
    assert failed.exit == 1 and "nowhere.csv" in failed.err


def test_an_edited_call_is_made_again(place: Place):
    assert place.command("tools", "call", "-q", "calc", "expression=6*7").out == "42\n"
    path = Path(place.command("show", "--path").out.strip())
    path.write_text(
        path.read_text("utf-8").replace(
            'planned calc `{"expression": "6*7"}`', 'planned calc `{"expression": "6*8"}`'
        )
    )
    ran = place.command("resume")
    assert (ran.exit, ran.out) == (0, "48\n"), ran.err
