"""Reading a run with ls, show, tree, cost and diff, in a pipe: plain, whole, and from the documents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import RUN, Command, write_run

from kernel.document.markdown import render
from kernel.document.model import Document
from kernel.errors import Exit

pytestmark = pytest.mark.usefixtures("written")


def test_ls_shows_each_run_on_a_line(fractal: Command) -> None:
    head, line = fractal("ls").out.splitlines()
    assert head.split() == ["RUN", "STATUS", "WHEN", "LOOPS", "COST", "TASK"]
    assert line.split()[:5] == [RUN, "complete", "2025-03-01", "2", "$0.0040"]
    assert line.endswith("Summarise the ␛[31mreports␛[0m [bold]here[/bold]")


def test_ls_as_json_can_be_read_by_a_program(fractal: Command) -> None:
    (run,) = json.loads(fractal("ls", "--json").out)
    assert (run["run"], run["status"], run["loops"], run["spent"]["calls"]) == (RUN, "complete", 2, 5)


def test_ls_without_runs_says_how_to_start_one(fractal: Command) -> None:
    (fractal.folder / "empty").mkdir()
    (fractal.folder / "empty" / "fractal.yaml").touch()
    ran = fractal("-C", "empty", "ls")
    assert (ran.exit, ran.out) == (0, "")
    assert "fractal run" in ran.err
    assert json.loads(fractal("-C", "empty", "ls", "--json").out) == []


def test_show_gives_the_file_as_it_is(fractal: Command, written: list[Document]) -> None:
    folder = fractal.folder / ".fractal" / "state" / "runs" / RUN
    for name in (RUN, RUN[:3], f"system-{RUN}"):
        assert fractal("show", name).out == (folder / f"system-{RUN}.md").read_text("utf-8")
    child = f"tool-task-{RUN}-2"
    assert fractal("show", child).out == (folder / f"{child}.md").read_text("utf-8")
    assert fractal("show", str(folder / f"{child}.md")).out == fractal("show", child).out


def test_a_run_that_is_not_there_is_wrong_usage(fractal: Command) -> None:
    for command in ("show", "tree", "explain", "cost", "diff"):
        ran = fractal(command, "zzzzzz")
        assert (ran.exit, ran.out) == (2, "")
        assert ran.err.startswith("fractal: there is no run zzzzzz")


@pytest.mark.parametrize("words", ["show", "diff", "apply", "discard", "fork", "resume"])
def test_a_folder_without_runs_is_named_as_such(tmp_path: Path, words: str) -> None:
    ran = Command(tmp_path)(words)
    assert ran.exit == 2
    assert "there is no run in " in ran.err and ' yet; start one: fractal run "…"' in ran.err


def test_tree_shows_loops_and_steps_with_their_documents(fractal: Command) -> None:
    lines = fractal("tree", RUN).out.splitlines()
    assert lines[0].startswith("✓ Summarise the ␛[31m")
    assert lines[0].endswith(f"complete  $0.0040  system-{RUN}.md")
    assert lines[1].startswith("├─ 1 ✗ bash exit 3") and lines[1].endswith(f"op-bash-{RUN}-1.md")
    assert lines[2].startswith("├─ 2 ▲ summarise b") and lines[2].endswith(f"tool-task-{RUN}-2.md")
    assert lines[3].startswith("└─ 3 ✓ write report.md new line")


def test_a_run_whose_process_died_is_interrupted_in_ls_and_tree_alike(fractal: Command) -> None:
    root = write_run(fractal.folder / "died")[0]
    at_work = root.having(status="running").with_step(replace(root.steps[3], state="running"))
    path = fractal.folder / "died" / ".fractal" / "state" / "runs" / RUN / f"system-{RUN}.md"
    path.write_bytes(render(at_work))
    assert "interrupted" in fractal("-C", "died", "ls").out
    lines = fractal("-C", "died", "tree").out.splitlines()
    assert lines[0].startswith("‖ ") and "interrupted" in lines[0]
    assert lines[3].startswith("└─ 3 ‖ write") and "interrupted" in lines[3]
    tree = json.loads(fractal("-C", "died", "tree", "--json").out)
    assert (tree["status"], tree["steps"][2]["state"]) == ("interrupted", "interrupted")


def test_tree_tells_what_is_missing_broken_or_linked_by_nobody(fractal: Command) -> None:
    folder = fractal.folder / ".fractal" / "state" / "runs" / RUN
    (folder / f"tool-task-{RUN}-2.md").write_text("not a document", "utf-8")
    stray = folder / f"op-read-{RUN}-9.md"
    stray.write_bytes((folder / f"op-write-{RUN}-3.md").read_bytes())
    out = fractal("tree", RUN).out
    assert f"✗ tool-task-{RUN}-2.md:" in out
    assert f"not linked by any step: op-read-{RUN}-9.md" in out
    (folder / f"tool-task-{RUN}-2.md").unlink()
    assert "the document is missing" in fractal("tree", RUN).out


def test_cost_adds_up_and_shows_instructions_apart(fractal: Command) -> None:
    whole = json.loads(fractal("cost", RUN, "--json").out)
    assert whole["total"] == {
        "calls": 5,
        "prompt_tokens": 2500,
        "cached_tokens": 0,
        "instruction_tokens": 610,
        "completion_tokens": 400,
        "usd": 0.004,
    }
    views = [whole["charged"], json.loads(fractal("ls", "--json").out)[0]["spent"]]
    views.append(json.loads(fractal("tree", RUN, "--json").out)["spent"])
    assert {view["calls"] for view in views} == {5}, "every view counts the same calls"
    lines = fractal("cost", RUN).out.splitlines()
    heads = "LOOP PHASE RESPONDER CALLS PROMPT INSTR REPLY USD"
    assert lines[0].split() == heads.split()
    assert lines[2].split()[:4] == [f"system-{RUN}", "Check", "(2)", "openai/gpt-5-mini"]
    assert any(line.split()[1:6] == ["calls", "without", "an", "answer", "1"] for line in lines)
    assert lines[-1].split() == ["total", "5", "2,500", "610", "400", "$0.0040"]


def test_diff_of_an_older_run_tells_what_it_recorded(fractal: Command) -> None:
    assert fractal("diff", RUN).out.splitlines()[0] == "changed report.md 9 bytes"


def test_nothing_is_coloured_in_a_pipe(fractal: Command) -> None:
    for command in ("ls", "tree", "cost", "diff", "explain"):
        assert "\x1b" not in fractal(command, *([] if command == "ls" else [RUN])).out


def test_without_a_name_the_newest_run_is_read(fractal: Command, written: list[Document]) -> None:
    for name in ("tree", "cost", "diff", "show", "explain"):
        assert fractal(name).out == fractal(name, RUN).out
    assert fractal("prompt").exit == Exit.USAGE


def test_a_document_as_an_object(fractal: Command) -> None:
    document = json.loads(fractal("show", RUN, "--json").out)
    assert document["meta"]["id"] == f"system-{RUN}"
    assert document["sections"]["3"]["steps"][0]["tool"] == "bash"
    assert document["sections"]["5"]["notes"][0]["text"] == "one report of two"


def test_a_tree_as_an_object(fractal: Command) -> None:
    tree = json.loads(fractal("tree", RUN, "--json").out)
    assert [step["state"] for step in tree["steps"]] == ["failed", "failed", "done"]
    assert tree["steps"][1]["loop"]["status"] == "escalated"
    assert tree["spent"]["calls"] == 5
