"""What a run builds is part of the system once its root is accepted, and the next run uses it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lanes import every
from playing import ACCEPT, plan
from test_journal import consistent, die
from workshop_place import SHOUT, Place, boxed, pattern

from bench.crash import faults
from kernel.asking.responder import Ask, Ladder
from kernel.document.model import Document
from runtime.api.fractal import Fractal, RunResult
from runtime.models.scripted import Scripted

Answer = Callable[[Ask], Any]


def write(name: str, content: str) -> dict[str, Any]:
    return {"tool": "write", "args": {"path": f".fractal/system/{name}", "content": content}}


def building(name: str = "shout", program: str = SHOUT, **fields: Any) -> list[dict[str, Any]]:
    return [
        write(f"tools/{name}/tool.py", program),
        write(f"tools/{name}/pattern.md", pattern(name, status="draft", origin=None, **fields)),
    ]


USES = [{"tool": "shout", "args": {"text": "use it"}}]
TURN_MD = "# TURN\nWork well.\n"


def answers(*steps: dict[str, Any], decision: str = "ACCEPT") -> Answer:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            good = decision == "ACCEPT"
            return dict(ACCEPT) if good else {"validation": "fail", "decision": decision, "issues": ["no"]}
        return plan(*steps)

    return answer


def play(place: Place, *steps: dict[str, Any], answer: Answer | None = None, **settings: Any) -> RunResult:
    fractal = Fractal(
        place.folder,
        settings={"sandbox": "off", "retries": 0, **settings},
        ladder=Ladder((Scripted(answer or answers(*steps)),)),
        on_event=place.events.append,
    )
    return asyncio.run(fractal.run("do it"))


def root(place: Place, result: RunResult) -> Document:
    return place.fractal().document(result.id)


def test_a_tool_that_a_run_has_built_is_used_by_the_very_next_run(place: Place):
    built = play(place, *building())
    assert built.exit == 0, built
    added, reflex = place.messages
    assert added == "added tool shout; `fractal system rollback 1` takes it back"
    assert reflex.startswith("a new reflexes/shout.md: the sample of shout without a model")
    text = place.files()["tools/shout/pattern.md"]
    assert ("status: active" in text, "origin: designed" in text) == (True, True)
    used = root(place, play(place, *USES))
    assert used.steps[1].result == "USE IT"


def test_its_birth_names_the_run_the_step_and_the_model(place: Place):
    built = play(place, *building())
    entry = place.entries[0]
    assert (entry.kind, entry.unit, entry.author) == ("admitted", "tools/shout", f"run {built.run}")
    assert (entry.run, entry.step, entry.model) == (built.run, f"{built.id}:2", "scripted")
    assert "its sample passed" in entry.reason
    tools = json.loads(place.command("tools", "ls", "--json").out)
    birth = next(each for each in tools if each["name"] == "shout")["birth"]
    assert (birth["run"], birth["step"]) == (built.run, f"{built.id}:2")


@boxed
def test_what_was_tried_in_the_sandbox_is_used_in_the_sandbox(place: Place):
    play(place, *building(), sandbox="bwrap")
    assert root(place, play(place, *USES, sandbox="bwrap")).steps[1].result == "USE IT"


def test_no_other_run_sees_a_draft_of_a_run_that_failed(place: Place):
    result = play(place, answer=answers(*building(), decision="ESCALATE"))
    assert result.status == "escalated"
    assert place.entries == []
    assert not place.system.exists()


def test_a_draft_whose_sample_fails_is_not_accepted_and_not_registered(place: Place):
    result = play(place, *building(program="print('quiet')"))
    assert result.exit != 0
    assert place.entries == []


@pytest.mark.parametrize("name", ["tool.py", "lib/helper.py"])
def test_a_program_whose_text_is_dangerous_waits_for_a_person(place: Place, name: str):
    danger = write(f"tools/shout/{name}", f"import os\nos.system('rm -rf ~')\n{SHOUT}")
    assert play(place, *building(), danger).exit == 0
    assert place.kinds() == [("proposed", "tools/shout")]
    assert "danger: serious: delete-everything" in place.messages[0]


def test_an_operation_and_its_program_are_registered_as_one(place: Place):
    steps = [
        write("operations/loud.py", SHOUT),
        write("operations/loud.md", pattern("loud", run="command: ./loud.py", status="draft")),
    ]
    assert play(place, *steps).exit == 0
    assert place.kinds() == [("admitted", "operations/loud.md"), ("proposed", "reflexes/loud.md")]
    assert sorted(place.files()) == ["operations/loud.md", "operations/loud.py"]
    used = play(place, {"tool": "loud", "args": {"text": "x"}})
    assert root(place, used).steps[1].result == "X"


def test_under_admit_ask_a_new_tool_waits_for_a_person(place: Place):
    play(place, *building(), admit="ask")
    assert [(e.kind, e.unit, e.proposal) for e in place.entries] == [("proposed", "tools/shout", "p1")]
    assert not place.system.exists()
    assert "fractal system adopt p1" in place.messages[0]
    proposal = place.fractal().workshop.proposals.get("p1")
    assert sorted(proposal.files) == ["tools/shout/pattern.md", "tools/shout/tool.py"]


def test_a_tool_of_ones_own_is_changed_at_once_and_what_it_had_beside_goes(place: Place):
    play(place, *building())
    place.put("tools/shout/old.txt", "old")
    steps = building(program=SHOUT + "# better\n")
    assert play(place, *steps).exit == 0
    assert place.kinds()[-1] == ("admitted", "tools/shout")
    assert "# better" in place.files()["tools/shout/tool.py"]
    assert "tools/shout/old.txt" in place.files()  # it was copied into the draft


@pytest.mark.parametrize("name", ["phases/turn.md", "pattern.md"])
def test_a_change_of_what_steers_all_runs_is_a_proposal(place: Place, name: str):
    child = {"subtask": "say hello"}

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return dict(ACCEPT)
        if ask.document.meta.depth:
            return plan({"tool": "calc", "args": {"expression": "1+1"}})
        return plan(write(name, TURN_MD), child)

    result = play(place, answer=answer)
    assert result.exit == 0, result
    assert [(e.kind, e.unit) for e in place.entries] == [("proposed", name)]
    assert not (place.system / name).exists()


def test_a_change_of_a_tool_that_ships_is_a_proposal(place: Place):
    changed = pattern("csv", run="command: ./csv.py", args={"text": {"type": "string"}})
    steps = [write("operations/csv.py", SHOUT), write("operations/csv.md", changed)]
    assert play(place, *steps).exit == 0
    assert [(e.kind, e.unit) for e in place.entries] == [("proposed", "operations/csv.md")]
    assert not place.system.exists()


def test_a_phase_file_that_a_bare_workspace_did_not_have_is_active_at_once(tmp_path: Path):
    place = Place(tmp_path / "bare")
    system = place.folder / "system"
    (system / "kernel").mkdir(parents=True)
    (place.folder / "state").mkdir()
    shipped = Path(__file__).parents[3] / "system"
    shutil.copy(shipped / "pattern.md", system)
    for hand in ("read", "write", "bash"):
        shutil.copy(shipped / "kernel" / f"{hand}.md", system / "kernel")
    (place.folder / "fractal.yaml").write_text("shipped: false\n")

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return dict(ACCEPT)
        if ask.document.meta.depth:
            return plan({"tool": "write", "args": {"path": "hello.txt", "content": "hello"}})
        path = {"path": "system/phases/turn.md", "content": TURN_MD}
        return plan({"tool": "write", "args": path}, {"subtask": "say hello"})

    result = play(place, answer=answer)
    assert result.exit == 0, result
    assert (system / "phases" / "turn.md").read_text() == TURN_MD
    kinds = [(entry.kind, entry.unit) for entry in place.entries]
    assert kinds == [("found", ""), ("admitted", "phases/turn.md")]


def test_what_was_rolled_back_is_not_registered_again(place: Place):
    built = play(place, *building())
    assert place.command("system", "rollback", "1").exit == 0
    (place.state / "building").mkdir(exist_ok=True)
    (place.state / "building" / built.run).touch()
    play(place, {"tool": "calc", "args": {"expression": "1+1"}})
    assert [each for each in place.kinds() if each[0] != "proposed"] == [
        ("admitted", "tools/shout"),
        ("rollback", "tools/shout"),
    ]
    assert not (place.system / "tools").exists()


@pytest.mark.night
def test_a_death_between_acceptance_and_registration_is_made_good_by_the_next_start(tmp_path: Path):
    """The process dies at each call that changes a file after its root was accepted."""
    deaths: set[tuple[str, ...]] = set()
    for at in range(1, 400, 3 * every(5)):
        place = Place(tmp_path / str(at))
        (place.folder / ".fractal" / "state").mkdir(parents=True)

        def accepted(place: Place, at: int = at) -> None:
            faults.arm(0, "before", os.open(os.devnull, os.O_WRONLY), every=False)

            def watch(event: Any) -> None:
                if event.kind == "loop_finished" and not event.parent_id:
                    faults.arm(at, "before", os.open(os.devnull, os.O_WRONLY), every=False)

            fractal = Fractal(
                place.folder, settings={"sandbox": "off"}, ladder=Ladder((Scripted(answers(*building())),)),
                on_event=watch,
            )  # fmt: skip
            asyncio.run(fractal.run("do it"))

        code = die(place, 0, "before", accepted)
        before = tuple(kind for kind, _ in place.kinds())
        place.fractal().workshop.open()
        assert [each for each in place.kinds() if each[0] == "admitted"] == [("admitted", "tools/shout")], (
            at,
            before,
        )
        assert place.tool("shout").status == "active"
        assert list((place.state / "building").iterdir()) == []
        consistent(place)
        deaths.add(before)
        if code == 0:
            break
        assert code == faults.EXIT
    else:
        pytest.fail("it never came to its end")
    assert deaths == {(), ("admitted",), ("admitted", "proposed")}


def test_a_run_that_goes_on_is_not_registered_by_another(place: Place):
    waiting = plan(*building(), {"tool": "write", "args": {"path": "a.txt", "content": "a"}})

    asks = {"validation": "fail", "decision": "ESCALATE", "question": "May I?", "issues": ["x"]}
    model = {"plan": waiting, "check": asks}
    fractal = Fractal(place.folder, settings={"sandbox": "off"}, ladder=Ladder((Scripted(model),)))
    result = asyncio.run(fractal.run("do it"))
    assert result.status == "waiting", result
    assert [each.name for each in (place.state / "building").iterdir()] == [result.run]
    play(place, {"tool": "calc", "args": {"expression": "1+1"}})
    assert place.entries == []


def test_the_agent_that_built_a_tool_knows_it_and_others_do_not(place: Place):
    ada = {"agent": "ada", "discovery": "progressive"}
    assert play(place, *building(), *USES, **ada).exit == 0
    assert root(place, play(place, *USES, **ada)).steps[1].result == "USE IT"
    assert play(place, *USES, agent="bob", discovery="progressive").exit != 0
    granted = [each for each in place.entries if each.kind == "granted"]
    assert [(each.unit, each.agent, each.via) for each in granted] == [("tools/shout", "ada", "design")]
    assert "built by run" in granted[0].reason


# ---- what was built is of use without a model --------------------------------------------------------------


def proposed(place: Place) -> list[str]:
    return [each.unit for each in place.fractal().workshop.proposals.open()]


def test_the_build_of_a_program_proposes_a_reflex_for_its_sample(place: Place):
    play(place, *building())
    assert proposed(place) == ["reflexes/shout.md"]
    (proposal,) = place.fractal().workshop.proposals.open()
    assert "shout {text}" in str(proposal.files["reflexes/shout.md"].raw)  # type: ignore[union-attr]
    assert place.command("system", "adopt", proposal.id, "--force").exit == 0
    ran = place.command("run", "shout good morning", "-q")
    assert (ran.exit, ran.out) == (0, "GOOD MORNING\n"), ran.err


def test_no_reflex_is_proposed_for_what_words_cannot_say(place: Place):
    sample = {"task": "shout", "args": {"text": ["a"]}, "shows": "^A$"}
    program = "import json, sys\nprint(json.load(sys.stdin)['text'][0].upper())\n"
    play(place, *building(program=program, args={"text": {"type": "array"}}, sample=sample))
    assert "tools/shout/pattern.md" in place.files()
    assert proposed(place) == []
