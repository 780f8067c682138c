"""`fractal run --worktree` and `--review`, `diff`, `apply`, `discard` and `fork`, as a person calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import COMMAND, WORKS, Command, environment

COMMANDS_TO_APPLY = "1 changed file to apply"


@pytest.fixture
def model(fractal: Command) -> str:
    return fractal.script("m.yaml", WORKS)


def _run(fractal: Command) -> str:
    return json.loads(fractal("ls", "--json").out)[0]["run"]


def test_a_run_in_a_worktree_says_how_to_apply_it(fractal: Command, model: str) -> None:
    ran = fractal("run", "-q", "--worktree", "-m", model, "frobnicate it")
    run = _run(fractal)
    assert (ran.exit, ran.out) == (0, "five words\n")
    hint = f"fractal diff {run}; then: fractal apply {run} or fractal discard {run}"
    assert ran.err == f"{COMMANDS_TO_APPLY}; see: {hint}\n"
    assert not (fractal.folder / "words.txt").exists()
    assert "complete, 1 to apply" in fractal("ls").out
    shown = fractal("diff")
    assert shown.out.splitlines()[0] == "new words.txt" and "\n+5\n" in shown.out
    assert COMMANDS_TO_APPLY in shown.err
    applied = fractal("apply")
    assert applied.err == f"new words.txt\nto revert this: fractal undo {run}\n"
    assert (fractal.folder / "words.txt").read_text() == "5\n"
    assert "applied at" in fractal("diff").err and "to apply" not in fractal("ls").out
    assert fractal("undo").exit == 0 and not (fractal.folder / "words.txt").exists()
    assert "applying was undone" in fractal("diff").err


def test_review_without_a_terminal_keeps_the_changes(fractal: Command, model: str) -> None:
    ran = fractal("run", "--review", "--json", "-m", model, "frobnicate it")
    last = json.loads(ran.out.splitlines()[-1])
    assert (ran.exit, last["kind"], last["data"]["to_apply"]) == (0, "run_finished", 1)
    assert COMMANDS_TO_APPLY in ran.err and not (fractal.folder / "words.txt").exists()


def test_discard_needs_yes_for_changes_that_are_not_applied(fractal: Command, model: str) -> None:
    fractal("run", "-q", "--worktree", "-m", model, "frobnicate it")
    refused = fractal("discard")
    assert refused.exit == 2 and "not applied" in refused.err
    assert fractal("discard", "--yes").exit == 0
    assert "was discarded" in fractal("diff").err and "was discarded" in fractal("apply").err


def test_a_conflict_names_the_file_and_what_to_do(fractal: Command, model: str) -> None:
    fractal("run", "-q", "--worktree", "-m", model, "frobnicate it")
    (fractal.folder / "words.txt").write_text("six\n")
    ran = fractal("apply")
    assert ran.exit == 2 and (fractal.folder / "words.txt").read_text() == "six\n"
    assert "nothing was applied:\n  words.txt: you changed it, and the run changed it\n" in ran.err
    assert f"fractal apply {_run(fractal)} --force" in ran.err
    assert fractal("apply", "--force").exit == 0
    assert (fractal.folder / "words.txt").read_text() == "5\n"


def test_a_fork_is_copied_and_continued(fractal: Command, model: str) -> None:
    fractal("run", "-q", "-m", model, "frobnicate it")
    old = _run(fractal)
    copied = fractal("fork", old, "0", "--no-run")
    new = _run(fractal)
    assert copied.out.strip() == str(fractal.folder / f".fractal/state/runs/{new}/system-{new}.md")
    assert copied.err == f"continue with: fractal resume {new}\n"
    assert fractal("resume", "-q", new, "-m", model).out == "five words\n"
    assert f'forked_from: {{"run": "{old}", "step": 0}}' in Path(copied.out.strip()).read_text()
    (fractal.folder / "words.txt").unlink()
    ran = fractal("fork", old, "0", "-q", "-m", model, "--worktree")
    assert (ran.exit, ran.out) == (0, "five words\n") and COMMANDS_TO_APPLY in ran.err
    assert not (fractal.folder / "words.txt").exists()
    assert fractal("fork", "9").exit == 2


@pytest.fixture
def reviewed(fractal: Command, model: str) -> Iterator[object]:
    from terminal import Terminal

    words = [*COMMAND, "run", "--review", "-m", model, "frobnicate it"]
    terminal = Terminal(words, fractal.folder, environment(), columns=100)
    terminal.until("Enter: later")
    yield terminal
    terminal.close()


@pytest.mark.parametrize(
    ("typed", "said"),
    [("a", "to revert this"), ("d", "discarded the worktree"), ("", COMMANDS_TO_APPLY)],
)
def test_review_shows_the_changes_and_asks_once(
    fractal: Command, reviewed: object, typed: str, said: str
) -> None:
    from terminal import Terminal

    assert isinstance(reviewed, Terminal)
    assert "new words.txt" in reviewed.text and b"\x1b[32m+5\x1b[0m" in reviewed.raw
    reviewed.type(f"what?\r{typed}\r")
    assert reviewed.finish() == 0
    assert said in reviewed.text
    assert (fractal.folder / "words.txt").exists() == (typed == "a")
    assert json.loads(fractal("ls", "--json").out)[0]["to_apply"] == (0 if typed else 1)
