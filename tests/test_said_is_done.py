"""What Fractal says, it does: a revoked tool does not run, an answer is not lost, a limit holds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import in_process
from playing import ACCEPT, Play, by_turns, limited, plan, player, write

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import Exit, UsageError
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.models.human import Human
from runtime.models.scripted import Scripted

QUICK = {"embedder": "lexical", "fsync": False, "sandbox": "off"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "notes.md").write_text("one\ntwo\n")
    return tmp_path


@pytest.fixture
def play(work: Path) -> Play:
    return player(work)


def ladder(answers: Callable[[Ask], Any]) -> Ladder:
    return Ladder((Scripted(answers), Human()))


# ---- a revoked tool does not run ----

READ = {"tool": "read", "args": {"path": "notes.md"}}
TRACE = {"tool": "bash", "args": {"command": "touch ran"}}


def taken(work: Path, *tools: str, **settings: Any) -> dict[str, Any]:
    """The settings of a folder where these tools were revoked."""
    for tool in tools:
        Fractal(work, settings={**QUICK, **settings}).revoke(tool)
    return {**QUICK, **settings}


@pytest.mark.parametrize("discovery", ["open", "progressive"])
@pytest.mark.parametrize("how", ["step", "child", "turn", "criterion"])
def test_a_model_cannot_run_a_revoked_tool(work: Path, play: Play, discovery: str, how: str) -> None:
    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.phase == "work":
            return {"calls": [TRACE]}
        if how == "criterion":
            return plan(write("a.txt", "a"), success=[{"run": "touch ran"}])
        if how == "turn":
            return plan({"tool": "work", "what": "make a trace"})
        if how == "child" and not ask.document.meta.parent:
            return plan({"subtask": "make a trace, please"})
        return plan(TRACE)

    played = play(answers, settings=taken(work, "bash", discovery=discovery, approve=[]))
    assert played.result.exit != Exit.ACCEPTED
    assert not (work / "ran").exists()


def test_no_reflex_single_call_or_oversight_runs_a_revoked_tool(work: Path, play: Play) -> None:
    settings = taken(work, "count", "bash", "research")
    told = play([Human()], "count the lines of notes.md", settings={**settings, "model": "reflex"})
    assert told.result.exit == Exit.WAITING
    said = in_process(
        work, ["run", "count the lines of notes.md"], {**os.environ, "FRACTAL_SANDBOX": "off"}
    ).err
    assert "there is no tool 'count'" in said and "No reflex covers" not in said
    with pytest.raises(UsageError, match="there is no tool 'research'"):
        play(lambda ask: ACCEPT, tool="research", settings=settings)

    def escalating(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.parent:
            return plan(TRACE)
        return plan({"tool": "escalate", "what": "general: make a trace"})

    play([Scripted(escalating), Scripted(escalating, name="large", tier="oversight")], settings=settings)
    assert not (work / "ran").exists()


async def test_a_revoked_tool_is_not_called_over_mcp(work: Path) -> None:
    with pytest.raises(UsageError, match="there is no tool 'count'"):
        await Runs(work, settings=taken(work, "count")).call("count", {"what": "lines", "path": "notes.md"})


def test_a_solved_task_is_not_repeated_with_a_revoked_tool(work: Path, play: Play) -> None:
    settings = {**QUICK, "recall": True, "learn": "auto", "check": "auto"}
    task = "Mirror the lines of notes.md into back.md"
    solved = lambda ask: plan(  # noqa: E731
        {"tool": "read", "args": {"path": "notes.md"}},
        write("back.md", "{{ steps[1].result }}"),
        success=[{"file": "back.md", "has": "two"}],
        task=task,
    )
    assert play(solved, task, settings=settings).result.exit == Exit.ACCEPTED
    (work / "back.md").unlink()
    Fractal(work, settings=settings).revoke("write")
    play([Human()], task, settings=settings)
    assert not (work / "back.md").exists()


def test_what_was_given_back_runs_again(work: Path, play: Play) -> None:
    settings = taken(work, "bash", approve=[])
    assert Fractal(work, settings=settings).grant("bash")
    play(lambda ask: ACCEPT if ask.phase == "check" else plan(TRACE), settings=settings)
    assert (work / "ran").exists()


def test_a_tool_that_is_not_there_cannot_be_revoked(work: Path) -> None:
    fractal = Fractal(work, settings=QUICK)
    with pytest.raises(UsageError, match="there is no tool 'bsah'; there are bash"):
        fractal.revoke("bsah")
    fractal.revoke("bash")
    with pytest.raises(UsageError, match="does not know bash"):
        fractal.revoke("bash")


# ---- what was said reaches whoever needs it ----


def test_a_child_gets_its_parents_task_and_answers(play: Play) -> None:
    prompts: dict[str, str] = {}

    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.parent:
            prompts[ask.document.text(1, "task")] = prompt_text(ask)
            step = {"subtask": "the inner part"} if ask.document.text(1, "task") == "the part" else READ
            return plan(step, task=ask.document.text(1, "task"))
        if not ask.document.note(1, "answer"):
            return {"question": "Which port?"}
        return {"calls": [{"subtask": "the part"}], "done": "all of it"}

    first = play(answers, "do everything that we spoke of")
    first.fractal.tell(first.result.run, "answer", text="port 8081")
    play(answers, resume=first.result.run)
    assert list(prompts) == ["the part", "the inner part"]
    for prompt in prompts.values():
        for said in ("do everything that we spoke of", "Which port?", "port 8081"):
            assert said in prompt


@pytest.mark.parametrize("between", [READ, {**READ, "needs": []}], ids=["after", "independent"])
def test_a_step_sees_the_results_of_all_steps_before_it(play: Play, between: dict[str, Any]) -> None:
    prompts: list[str] = []

    def answers(ask: Ask) -> Any:
        if ask.part == "do":
            prompts.append(prompt_text(ask))
            return {"tool": "write", "args": {"path": "c.md", "content": "c"}}
        first = write("a.md", "the first is " + "long " * 60)
        steps = [
            first,
            {"tool": "read", "args": {"path": "a.md"}},
            between,
            {"tool": "write", "what": "sum them up"},
        ]
        return ACCEPT if ask.phase == "check" else plan(*steps)

    play(answers)
    assert "the first is long" in prompts[0]
    assert "1\tone\n2\ttwo" in prompts[0]


# ---- resume takes what a person has just worked on, and asking again is no question ----


def test_a_question_of_check_that_is_asked_again_is_not_counted(work: Path) -> None:
    def answers(ask: Ask) -> Any:
        return plan(READ, success=[{"judge": "it reads well"}])

    def fractal() -> Fractal:
        planner = limited(Scripted(answers), phases=("turn",))
        return Fractal(work, settings={**QUICK, "check": "always"}, ladder=Ladder((planner, Human())))

    result = asyncio.run(fractal().run("judge the notes"))
    for _ in range(5):
        assert result.exit == Exit.WAITING
        result = asyncio.run(fractal().resume())
    fractal().tell(result.run, "answer", text="yes")
    assert asyncio.run(fractal().resume()).exit == Exit.ACCEPTED


@pytest.mark.parametrize("how", ["edited", "edited at once", "answered"])
def test_resume_takes_the_run_that_a_person_worked_on_last(work: Path, how: str) -> None:
    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if "b.md" in ask.document.text(1, "task") or ask.document.note(1, "answer"):
            return plan(READ)
        return {"question": "Which?"}

    env = {**os.environ, "FRACTAL_SANDBOX": "off", "FRACTAL_FSYNC": "false"}
    older, newer = (
        asyncio.run(Fractal(work, settings=QUICK, ladder=ladder(answers)).run(f"do {name}")).run
        for name in "ab"
    )
    reading = Fractal(work, settings=QUICK, ladder=ladder(answers))
    assert reading.to_resume() == newer
    path = reading.path(older)
    if how.startswith("edited"):
        later = path.stat().st_mtime + (60 if how == "edited" else 0.3)
        path.write_text(path.read_text().replace("do a", "do b.md"))
        os.utime(path, (later, later))
    else:
        reading.tell(older, "answer", text="this one")
    assert reading.to_resume() == older
    ran = in_process(work, ["resume", "-m", "reflex"], env)
    assert f"run {older}: do " in ran.err, "it names what it takes"


# ---- a turn says all that a plan can say ----


@pytest.mark.parametrize(
    "call",
    [
        {"tool": "subtask", "args": {"task": "the price", "tool": "research"}},
        {"subtask": "the price"},
        {"tool": "subtask", "args": {"what": "the price"}},
    ],
)
def test_a_turn_starts_a_loop_with_what_it_says(play: Play, call: dict[str, Any]) -> None:
    tasks: list[str] = []

    def answers(ask: Ask) -> Any:
        if ask.document.meta.parent:
            tasks.append(ask.document.text(1, "task"))
            return {"cannot": "no"}
        if ask.phase == "work":
            return {"done": "told"} if tasks else {"calls": [call]}
        return ACCEPT if ask.phase == "check" else plan({"tool": "work", "what": "find it"})

    play(answers)
    assert set(tasks) == {"the price"}


def test_a_call_of_a_loop_without_a_task_is_refused(play: Play) -> None:
    why: list[str] = []

    def answers(ask: Ask) -> Any:
        if ask.phase == "work":
            why.append(prompt_text(ask))
            return (
                {"calls": [{"tool": "subtask", "args": {"tool": "research"}}]}
                if len(why) == 1
                else {"done": "told"}
            )
        return ACCEPT if ask.phase == "check" else plan({"tool": "work", "what": "find it"})

    play(answers)
    assert "task is missing: what the loop is to do, in words" in why[1]


@pytest.mark.parametrize("native", [True, False])
def test_a_turn_gives_the_subtask_that_a_draft_of_a_phase_demands(work: Path, native: bool) -> None:
    """Day 1 of a bare system, with a model that has not planned the trial."""
    assert in_process(work, ["init", "--bare"], dict(os.environ)).exit == 0
    draft = write(".fractal/system/phases/do.md", "# DO\nDo it.\n")
    tried: list[str] = []

    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.part == "do":
            tried.append(prompt_text(ask))
            return {"tool": "write", "args": {"path": "b.txt", "content": "b"}}
        if ask.phase == "work":
            assert "give a small task as a subtask" in prompt_text(ask) or tried
            return {"done": "built"} if tried else {"calls": [{"subtask": "Write b.txt"}]}
        if ask.document.meta.parent:
            return plan({"tool": "write", "what": "b.txt"}, success=[{"file": "b.txt", "has": "b"}])
        return plan(draft)

    model = by_turns(answers)
    model.native = native
    played = player(work)([model], "Build yourself", settings={"check": "auto"})
    assert "# DO\nDo it." in tried[0]
    assert played.result.exit == Exit.ACCEPTED
    assert (work / "system" / "phases" / "do.md").is_file()


# ---- agents and oversight ----


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--agent", "reviwer", "x"],
        ["grant", "reviwer", "csv"],
        ["revoke", "defualt", "bash"],
        ["messages", "send", "--to", "reviwer", "x"],
    ],
)
def test_a_misspelt_agent_is_not_made(work: Path, words: list[str]) -> None:
    (work / "fractal.yaml").write_text("agents: {reviewer: {}, worker-1: {}}")
    env = {**os.environ, "FRACTAL_MODEL": "reflex"}
    ran = in_process(work, words, env)
    assert ran.exit != 0
    assert "there is no agent" in ran.err and "did you mean" in ran.err
    assert not (work / "state").exists() and not (work / ".fractal" / "state").exists()
    for new in ("ada", "worker-2"):
        assert in_process(work, ["grant", new, "csv"], env).exit == 0


def test_a_lone_model_is_offered_no_oversight_and_is_none(play: Play) -> None:
    indexes: list[str] = []

    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        indexes.append(prompt_text(ask))
        assert not ask.document.meta.parent, "it does not answer its own escalation"
        return plan({"tool": "escalate", "what": "statistics: is the difference significant?"})

    task = "escalate to oversight: ask for help with statistics, is the difference significant?"
    played = play([Scripted(answers), Human()], task)
    assert "escalate" not in indexes[0].replace(task, "") and "request-" not in indexes[0]
    assert played.result.exit == Exit.WAITING


def test_what_was_said_to_a_plan_is_shown_whole(work: Path, play: Play) -> None:
    said = "take the other file, since this one " + "is of last year and " * 12 + "wrong"
    draft = plan({"tool": "bash", "args": {"command": "rm -rf notes.md"}})
    played = play(
        [Scripted(lambda ask: draft), Human()], settings={**QUICK, "review": "always", "model": None}
    )
    played.fractal.tell(played.result.run, "nudge", why=said)
    shown = in_process(work, ["decisions"], {**os.environ, "COLUMNS": "80"})
    assert said in shown.out
