"""`fractal run` as a process: what goes where, what it is given, and how it exits."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import ACCEPT, ASKS, COMMAND, PLAN, WORKS, Command, environment
from lanes import PATIENCE
from warm import Process, run


def _document(fractal: Command) -> str:
    (path,) = fractal.folder.glob(".fractal/state/runs/*/system-*.md")
    return path.read_text("utf-8")


def _run(fractal: Command) -> str:
    (path,) = fractal.folder.glob(".fractal/state/runs/*")
    return path.name


def test_standard_output_carries_the_result_only(fractal: Command) -> None:
    ran = fractal("run", "-m", fractal.script("m.yaml", WORKS), "frobnicate", "the", "notes")
    assert (ran.exit, ran.out) == (0, "five words\n")
    assert ran.err.startswith("run ") and "frobnicate the notes" in ran.err
    assert "step 1/1 write words.txt 5" in ran.err
    assert (fractal.folder / "words.txt").read_text() == "5\n"


def test_events_come_one_a_line_and_the_last_holds_the_result(fractal: Command) -> None:
    ran = fractal("run", "--json", "-m", fractal.script("m.yaml", WORKS), "frobnicate it")
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert events[0]["kind"] == "run_started"
    assert events[-1]["kind"] == "run_finished"
    assert (events[-1]["data"]["output"], events[-1]["data"]["exit"]) == ("five words", 0)
    assert {event["v"] for event in events} == {1}


def test_the_result_can_go_into_a_file(fractal: Command) -> None:
    ran = fractal("run", "-q", "-m", fractal.script("m.yaml", WORKS), "-o", "out.txt", "frobnicate it")
    assert (ran.exit, ran.out, ran.err) == (0, "", "")
    assert (fractal.folder / "out.txt").read_text() == "five words"


def test_a_result_that_cannot_be_written_is_reported_before_the_run_starts(fractal: Command) -> None:
    ran = fractal("run", "-m", fractal.script("m.yaml", WORKS), "-o", "no/out.txt", "frobnicate it")
    assert ran.exit == 2
    assert "there is no folder" in ran.err
    assert not (fractal.folder / ".fractal").exists()


def test_a_failure_exits_with_one_and_says_where_to_look(fractal: Command) -> None:
    fails = {
        "fused": PLAN,
        "check": {"validation": "fail", "issues": ["it is wrong"], "decision": "ESCALATE"},
    }
    yaml = "ladder: [{model: 'scripted:m.yaml'}]\n"
    fractal.script("m.yaml", fails)
    (fractal.folder / "fractal.yaml").write_text(yaml, "utf-8")
    ran = fractal("run", "-q", "frobnicate it")
    assert (ran.exit, ran.out) == (1, "")
    assert "escalated: it is wrong" in ran.err
    assert "why: fractal explain" in ran.err


def test_a_limit_exits_with_five(fractal: Command) -> None:
    (fractal.folder / "fractal.yaml").write_text("calls: 1\n", "utf-8")
    ran = fractal("run", "-q", "-m", fractal.script("m.yaml", WORKS), "frobnicate it")
    assert ran.exit == 5
    assert "exhausted: " in ran.err


def test_a_provider_that_fails_exits_with_four_and_leaves_a_run_to_resume(fractal: Command) -> None:
    fails = {"fused": PLAN, "check": {"error": {"provider": "the server is down"}}}
    ran = fractal("run", "-q", "-m", fractal.script("m.yaml", fails), "frobnicate it")
    assert ran.exit == 4
    run = _run(fractal)
    assert (
        f"fractal: the server is down\n         finished steps are kept; continue with: fractal resume {run}"
        in ran.err
    )
    ran = fractal("resume", "-q", "-m", fractal.script("m.yaml", WORKS))
    assert (ran.exit, ran.out) == (0, "five words\n")


def test_a_model_that_cannot_be_read_is_a_matter_of_configuration(fractal: Command) -> None:
    ran = fractal("run", "-m", "scripted:missing.yaml", "frobnicate it")
    assert (ran.exit, ran.out) == (3, "")
    assert ran.err.startswith("fractal: missing.yaml: the script cannot be read")


def test_a_wrong_setting_names_its_file(fractal: Command) -> None:
    (fractal.folder / "fractal.yaml").write_text("retires: 3\n", "utf-8")
    ran = fractal("run", "frobnicate it")
    assert ran.exit == 3
    assert "fractal.yaml: there is no setting retires; did you mean retries?" in ran.err


def test_a_question_in_a_pipe_exits_with_six_and_is_answered_later(fractal: Command) -> None:
    model = fractal.script("m.yaml", ASKS)
    ran = fractal("run", "-q", "-m", model, "frobnicate it")
    run = _run(fractal)
    assert (ran.exit, ran.out) == (6, "")
    assert "waiting for an answer: Which file?" in ran.err
    assert f"fractal answer {run} … --resume" in ran.err
    assert f"fractal resume {run}" in fractal("answer", run, "words.txt", "please").err
    ran = fractal("resume", "-q", "-m", model)
    assert (ran.exit, ran.out) == (0, "five words\n")
    assert "words.txt please" in _document(fractal)


def test_an_answer_resumes_the_run_at_once_when_asked_to(fractal: Command) -> None:
    env = {"FRACTAL_MODEL": fractal.script("m.yaml", ASKS)}
    assert fractal("run", "-q", "frobnicate it", env=env).exit == 6
    ran = fractal("answer", _run(fractal), "words.txt", "--resume", env=env)
    assert (ran.exit, ran.out) == (0, "five words\n")


def test_a_plan_is_shown_and_waits_for_its_approval(fractal: Command) -> None:
    model = fractal.script("m.yaml", WORKS)
    ran = fractal("run", "-q", "--plan", "-m", model, "frobnicate it")
    assert ran.exit == 6
    assert ran.out.startswith("## §2 PLAN") and "planned write" in ran.out
    assert not (fractal.folder / "words.txt").exists()
    run = _run(fractal)
    fractal("approve", run)
    assert fractal("resume", "-q", "-m", model).out == "five words\n"


def test_a_rejected_plan_ends_the_run(fractal: Command) -> None:
    model = fractal.script("m.yaml", WORKS)
    fractal("run", "-q", "--plan", "-m", model, "frobnicate it")
    fractal("reject", _run(fractal))
    assert fractal("resume", "-q", "-m", model).exit == 1


# ---- what a run is given ----


def test_the_task_can_come_from_a_file_or_standard_input(fractal: Command) -> None:
    (fractal.folder / "task.md").write_text("frobnicate from a file", "utf-8")
    model = fractal.script("m.yaml", WORKS)
    assert fractal("run", "-q", "-m", model, "--file", "task.md").exit == 0
    (fractal.folder / "words.txt").unlink()
    assert fractal("run", "-q", "-m", model, "-", stdin="frobnicate from a pipe").exit == 0
    listed = fractal("ls").out
    assert "frobnicate from a file" in listed and "frobnicate from a pipe" in listed


def test_what_is_piped_in_beside_a_task_is_context(fractal: Command) -> None:
    model = fractal.script("m.yaml", WORKS)
    (fractal.folder / "extra.txt").write_text("the extra file", "utf-8")
    fractal("run", "-q", "-m", model, "--context", "extra.txt", "frobnicate it", stdin="the piped text")
    text = _document(fractal)
    assert "the piped text" in text and "from `stdin`" in text
    assert "the extra file" in text and "from `file extra.txt`" in text


@pytest.mark.parametrize("words", [[], [" "], ["a task", "--file", "task.md"]])
def test_no_task_or_two_is_wrong_usage(fractal: Command, words: list[str]) -> None:
    assert fractal("run", *words).exit == 2


def test_an_empty_standard_input_is_no_task(fractal: Command) -> None:
    assert fractal("run", "-").exit == 2


def test_context_that_is_not_text_is_refused(fractal: Command) -> None:
    (fractal.folder / "picture.png").write_bytes(b"\x89PNG\xff")
    ran = fractal("run", "--context", "picture.png", "x")
    assert (ran.exit, "picture.png: not UTF-8 text" in ran.err) == (2, True)


@pytest.mark.parametrize("kind", ["closed", "null", "empty pipe", "silent socket", "empty file"])
def test_a_standard_input_that_says_nothing_never_blocks(fractal: Command, kind: str, tmp_path: Path) -> None:
    model = fractal.script("m.yaml", WORKS)
    command = [*COMMAND, "run", "-q", "-m", model, "frobnicate it"]
    (tmp_path / "empty").touch()
    ours, theirs = socket.socketpair()
    with ours, theirs, (tmp_path / "empty").open() as empty:
        stdin: object = {"null": subprocess.DEVNULL, "silent socket": theirs, "empty file": empty}.get(kind)
        if kind == "closed":
            command = ["sh", "-c", 'exec "$@" 0<&-', "sh", *command]
        given = {"input": ""} if kind == "empty pipe" else {"stdin": stdin}
        ran = run(
            command,
            cwd=fractal.folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=30,
            **given,
        )
    assert (ran.returncode, ran.stdout) == (0, "five words\n")
    assert "stdin" not in _document(fractal)


@pytest.mark.night
def test_a_slow_pipe_is_waited_for_with_a_message(fractal: Command) -> None:
    model = fractal.script("m.yaml", WORKS)
    reading, writing = os.pipe()
    process = Process(
        [*COMMAND, "run", "-q", "-m", model, "frobnicate it"],
        cwd=fractal.folder,
        env=environment(),
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(reading)
    assert process.stderr is not None
    assert "reading context from standard input until it ends" in process.stderr.readline()
    os.write(writing, b"late but there")
    os.close(writing)
    assert process.wait(30) == 0
    assert "late but there" in _document(fractal)


def test_a_run_can_follow_up_an_earlier_one(fractal: Command) -> None:
    model = fractal.script("m.yaml", WORKS)
    assert fractal("run", "-c", "-m", model, "go on").exit == 2
    fractal("run", "-q", "-m", model, "frobnicate it")
    first = _run(fractal)
    fractal("run", "-q", "-m", model, "-c", "once", "more")
    newest = json.loads(fractal("ls", "--json").out)[0]["run"]
    assert newest != first
    assert "Output: five words" in fractal("show", newest).out


def test_resume_all_goes_on_with_every_unfinished_run(fractal: Command) -> None:
    fails = {"fused": PLAN, "check": {"error": "provider"}}
    for _ in range(2):
        fractal("run", "-q", "-m", fractal.script("m.yaml", fails), "frobnicate it")
        (fractal.folder / "words.txt").unlink()
    ran = fractal("resume", "--all", "-q", "-m", fractal.script("m.yaml", WORKS))
    assert (ran.exit, ran.out) == (0, "five words\nfive words\n")
    assert "no unfinished run" in fractal("resume", "--all").err


def test_a_replay_takes_the_replies_from_the_log(fractal: Command) -> None:
    fractal("run", "-q", "-m", fractal.script("m.yaml", WORKS), "frobnicate it")
    (fractal.folder / "words.txt").unlink()
    ran = fractal("replay", "-q", _run(fractal))
    assert (ran.exit, ran.out) == (0, "five words\n")


def test_a_result_with_escapes_is_kept_as_it_is_in_a_pipe(fractal: Command) -> None:
    coloured = {"fused": PLAN, "check": ACCEPT | {"output": "\x1b[31mred\x1b[0m\n"}}
    assert (
        fractal("run", "-q", "-m", fractal.script("m.yaml", coloured), "frobnicate it").out
        == "\x1b[31mred\x1b[0m\n"
    )


# ---- what a person does with a run ----


def _edits() -> dict[str, Any]:
    plan = PLAN | {"success": [{"file": "notes.txt", "has": "5"}]}
    return {
        "fused": plan | {"steps": [{"tool": "write", "args": {"path": "notes.txt", "content": "5\n"}}]},
        "check": ACCEPT,
    }


def test_a_change_is_shown_and_can_be_undone(fractal: Command) -> None:
    fractal("run", "-q", "-m", fractal.script("m.yaml", _edits()), "frobnicate it")
    run = _run(fractal)
    lines = fractal("diff", run).out.splitlines()
    assert lines[0].startswith("changed notes.txt")
    assert "-the quick brown fox" in lines and "+5" in lines
    undone = fractal("undo", run)
    assert (undone.exit, "notes.txt" in undone.err) == (0, True)
    assert (fractal.folder / "notes.txt").read_text() == "the quick brown fox\njumps\n"


def test_what_nothing_covers_says_one_time_how_to_go_on(fractal: Command) -> None:
    ran = fractal("run", "-q", "frobnicate it")
    run = _run(fractal)
    assert ran.exit == 6
    assert ran.err.count("fractal answer") == 1 and f'fractal answer {run} "…" --resume' in ran.err
    for _ in range(2):
        assert fractal("answer", run, "frobnicate that", "--resume").exit == 6
    ended = fractal("answer", run, "frobnicate those", "--resume")
    assert ended.exit == 1 and "3 questions were asked already; start a new run" in ended.err
    assert "fractal answer" not in ended.err, "a run that has ended takes no answer"


def test_a_run_that_waits_can_be_cancelled(fractal: Command) -> None:
    model = fractal.script("m.yaml", ASKS)
    fractal("run", "-q", "-m", model, "frobnicate it")
    run = _run(fractal)
    assert fractal("cancel", run).exit == 0
    ran = fractal("resume", "-q", "-m", model)
    assert (ran.exit, "cancelled" in ran.err) == (1, True)


def test_old_runs_go_into_an_archive_when_they_have_ended(fractal: Command) -> None:
    fractal("run", "-q", "-m", fractal.script("m.yaml", WORKS), "frobnicate it")
    run = _run(fractal)
    assert fractal("gc").out == ""
    rehearsal = fractal("gc", "--keep-days", "0", "--dry-run")
    assert run in rehearsal.out and "1 run would be moved" in rehearsal.err
    assert run in fractal("ls").out
    assert run in fractal("gc", "--keep-days", "0").out
    assert fractal("ls", "--json").out == "[]\n"


def test_the_next_prompt_of_a_run_that_waits_is_printed_with_its_tokens(fractal: Command) -> None:
    model = fractal.script("m.yaml", ASKS)
    fractal("run", "-q", "-m", model, "frobnicate it")
    run = _run(fractal)
    ran = fractal("prompt", run, env={"FRACTAL_MODEL": model})
    assert ran.exit == 0
    assert "frobnicate it" in ran.out or "Write it" in ran.out
    assert "tokens by part" in ran.err and "instructions" in ran.err
    parts = json.loads(fractal("prompt", run, "--json", env={"FRACTAL_MODEL": model}).out)
    tokens = [each["tokens"] for each in parts["parts"] if not each["part"].startswith("work")]
    assert parts["instruction_tokens"] == sum(tokens) > 0


def test_the_prompt_of_a_past_call_is_printed(fractal: Command) -> None:
    fractal("run", "-q", "-m", fractal.script("m.yaml", {"fused": PLAN, "check": ACCEPT}), "frobnicate it")
    run = _run(fractal)
    first, last = fractal("prompt", run, "--call", "1"), fractal("prompt", "--call", "-1")
    assert "<!-- 1 system -->\n\nYou do one task" in first.out and "frobnicate it" in first.out
    assert "call 1 of 2: Do, attempt 1, scripted" in first.err and "call 2 of 2" in last.err
    found = json.loads(fractal("prompt", run, "--call", "1", "--json").out)
    assert found["text"].strip() == first.out.strip() and found["key"].startswith(f"system-{run}/1/turn/")
    for number in ("0", "3", "-3"):
        wrong = fractal("prompt", run, "--call", number)
        assert wrong.exit == 2 and "its calls: 1 Do, 2 Check" in wrong.err
    shutil.rmtree(fractal.folder / ".fractal" / "state" / "runs" / run / "prompts")
    assert "keep_prompts" in fractal("prompt", run, "--call", "1").err


def test_a_run_that_is_at_work_elsewhere_is_left_alone(fractal: Command) -> None:
    slow = {"fused": PLAN, "check": {"reply": ACCEPT, "delay": 300}}
    process = Process(
        [*COMMAND, "run", "--json", "-m", fractal.script("m.yaml", slow), "frobnicate it"],
        cwd=fractal.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if '"phase": "check"' in line:
            break
    run = _run(fractal)
    ran = fractal("resume", run)
    assert (ran.exit, f"run {run} is held by process {process.pid}" in ran.err) == (1, True)
    assert "is running and takes it from its inbox" in fractal("cancel", run).err
    last = process.stdout.read().splitlines()[-1]
    assert json.loads(last)["data"]["status"] == "cancelled"
    assert process.wait(PATIENCE) == 1


def test_changes_as_an_object(fractal: Command) -> None:
    assert fractal("run", "-q", "-m", fractal.script("m.yaml", WORKS), "frobnicate it").exit == 0
    changes = json.loads(fractal("diff", "--json").out)
    (file,) = changes["files"]
    assert (file["kind"], file["path"], file["size"]) == ("new", "words.txt", 2)
    assert "+5" in file["diff"] and changes["documents"] == {} and changes["undone"] == []


def test_what_a_run_changed_is_shown_and_undone_after_its_folder_was_moved(fractal: Command) -> None:
    ran = fractal("run", "--model", "reflex", "write hello to b.txt")
    assert (ran.exit, (fractal.folder / "b.txt").read_text()) == (0, "hello"), ran.err
    moved = Command(fractal.folder.rename(fractal.folder.with_name("moved")))
    assert moved("trust", "--yes").exit == 0
    assert "+hello" in moved("diff").out
    undone = moved("undo")
    assert (undone.exit, (moved.folder / "b.txt").exists()) == (0, False), undone.err
