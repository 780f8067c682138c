"""Hooks run before and after calls and at the end of a run: they stop calls, and never lose work."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, Played, bash, boxed, doing, put

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.errors import ConfigurationError, UsageError
from kernel.events import Event
from runtime.api.fractal import Fractal
from runtime.workspace import trust

KEEPS = "cat >> {log}; echo >> {log}"


def write(path: str, content: str) -> dict[str, Any]:
    return {"tool": "write", "args": {"path": path, "content": content}}


def turns(*replies: Any) -> tuple[Any, list[str]]:
    """A model that replies in turn, and what it was shown each time."""
    shown: list[str] = []
    left = iter(replies)

    def answer(ask: Ask) -> Any:
        shown.append(prompt_text(ask))
        return ACCEPT if ask.phase == "check" else next(left, {"done": "it is done"})

    return answer, shown


def settings(**hooks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"sandbox": "off", "hooks": {name: list(each) for name, each in hooks.items()}}


def told(played: Played) -> list[str]:
    return [each.data["message"] for each in played.events if each.kind == "warning"]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_hooks_get_the_call_and_its_result(play: Play, tmp_path: Path) -> None:
    log = tmp_path / "log"
    keep = [{"command": KEEPS.format(log=log)}]
    played = play(
        doing(write("a.txt", "one\n"), bash("cat a.txt")),
        settings=settings(before=keep, after=keep, end=keep),
    )
    assert played.result.status in ("complete", "unverified")
    seen = [(each["event"], each.get("tool")) for each in lines(log)]
    assert seen == [
        *(("before", "write"), ("after", "write"), ("before", "bash"), ("after", "bash"), ("end", None))
    ]
    first, after, *_, end = lines(log)
    assert first["args"] == {"path": "a.txt", "content": "one\n"} and "result" not in first
    assert after["result"]["ok"] is True
    assert (end["status"], end["run"]) == (played.result.status, played.result.run)
    assert played.root.steps[1].evidence["hooks"] == [
        f"before: {keep[0]['command']}: exit 0",
        f"after: {keep[0]['command']}: exit 0",
    ]
    assert played.root.meta.extra["hooks"]["end"] == [f"end: {keep[0]['command']}: exit 0"]


def test_a_hook_stops_a_call_and_the_model_sees_why(play: Play, tmp_path: Path) -> None:
    guard = [{"command": "grep -q secret && { echo 'no secrets here' >&2; exit 2; }", "tools": ["write"]}]
    answer, shown = turns(
        {"calls": [write("a.txt", "secret\n"), {"tool": "list", "args": {}}]},
        {"calls": [write("b.txt", "fine\n")]},
    )
    played = play(answer, settings=settings(before=guard))
    assert not (tmp_path / "work/a.txt").exists() and (tmp_path / "work/b.txt").read_text() == "fine\n"
    assert "a hook stopped this call: no secrets here" in shown[1]
    step = played.root.steps[1]
    assert step.state == "failed" and step.evidence["hooks"][0].endswith("exit 2: no secrets here")
    assert "hooks" not in played.root.steps[2].evidence, "it is for write only"


def test_what_a_hook_changes_after_a_call_can_be_undone_with_it(play: Play, tmp_path: Path) -> None:
    formats = {"command": "sed -i 's/  */ /g' a.txt; echo 'two blanks became one' >&2; exit 2"}
    answer, shown = turns({"calls": [write("a.txt", "a  b\n")]})
    played = play(answer, settings=settings(after=[formats]))
    assert (tmp_path / "work/a.txt").read_text() == "a b\n"
    assert "[hook: two blanks became one]" in shown[1]
    assert played.root.steps[1].state == "done"
    played.fractal.undo(played.result.run)
    assert not (tmp_path / "work/a.txt").exists()


@pytest.mark.parametrize("command", ["exit 3", "no-such-program", "kill -9 $$", "sleep 30"])
def test_a_failing_hook_is_told_and_loses_no_work(play: Play, tmp_path: Path, command: str) -> None:
    each = [{"command": command, "seconds": 0.5}]
    played = play(doing(write("a.txt", "one\n")), settings=settings(before=each, after=each, end=each))
    assert played.result.status in ("complete", "unverified")
    assert (tmp_path / "work/a.txt").read_text() == "one\n"
    assert len([each for each in told(played) if each.startswith(f"hook {command}: ")]) == 3
    assert len(played.root.steps[1].evidence["hooks"]) == 2


def test_hooks_of_a_finished_call_do_not_run_again_when_a_run_is_resumed(play: Play, tmp_path: Path) -> None:
    log = tmp_path / "log"
    keep = [{"command": KEEPS.format(log=log)}]
    answer, _ = turns(
        {"calls": [write("a.txt", "one\n")]},
        {"ask": "Which?"},
        {"calls": [write("b.txt", "two\n")]},
    )
    given = settings(before=keep, end=keep)
    played = play(answer, settings=given)
    assert played.result.waiting == "person"
    assert [each["event"] for each in lines(log)] == ["before"], "a run that waits has not ended"
    played.fractal.tell(played.result.run, "answer", text="the second")
    again = play(answer, settings=given, resume=played.result.run)
    assert again.result.status in ("complete", "unverified")
    assert [(each["event"], each.get("args", {}).get("path")) for each in lines(log)] == [
        ("before", "a.txt"),
        ("before", "b.txt"),
        ("end", None),
    ]
    play(answer, settings=given, resume=played.result.run)
    assert len(lines(log)) == 3, "the run had ended"


def test_hooks_at_the_end_run_later_if_the_process_died_before_them(play: Play, tmp_path: Path) -> None:
    log = tmp_path / "log"
    given = settings(end=[{"command": KEEPS.format(log=log)}])
    played = play(doing(write("a.txt", "one\n")), settings=settings())  # none has begun
    for _ in range(2):
        asyncio.run(played.fractal.anew(**given).conclude(played.result.run))
        (end,) = lines(log)
        assert (end["event"], end["status"]) == ("end", played.result.status)
    assert played.root.meta.extra["hooks"]["end"] == [f"end: {KEEPS.format(log=log)}: exit 0"]
    assert not told(played)


def test_hooks_at_the_end_that_were_begun_are_told_and_not_run_again(play: Play, tmp_path: Path) -> None:
    log, killed = tmp_path / "log", tmp_path / "killed"
    given = settings(end=[{"command": f"{KEEPS.format(log=log)}; kill -9 $(cat {killed})"}])
    if not (child := os.fork()):
        killed.write_text(str(os.getpid()))
        play(doing(write("a.txt", "one\n")), settings=given)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    events: list[Event] = []
    fractal = Fractal(tmp_path / "work", settings=given, on_event=events.append)
    (run,) = (each.run for each in fractal.runs())
    asyncio.run(fractal.conclude(run))
    asyncio.run(fractal.conclude(run))
    assert len(lines(log)) == 1
    (warned,) = (each.data["message"] for each in events if each.kind == "warning")
    assert "not run again" in warned
    assert fractal.root_document(run).meta.extra["hooks"]["end"] == [warned]


@boxed
def test_hooks_run_in_the_sandbox(play: Play, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put(outside, "mine.txt", "mine")
    looks = {"command": f"cat {outside}/mine.txt; touch made.txt {outside}/made.txt; true"}
    played = play(
        doing({"tool": "list", "args": {}}),
        settings={"sandbox": "auto", "hooks": {"before": [looks], "after": [looks], "end": [looks]}},
    )
    assert played.result.status in ("complete", "unverified")
    assert not (tmp_path / "work/made.txt").exists(), "a call that looks has hooks that look"
    assert not (outside / "made.txt").exists()
    writes = {"command": "touch made.txt"}
    play(doing(write("a.txt", "")), settings={"sandbox": "auto", "hooks": {"after": [writes]}})
    assert (tmp_path / "work/made.txt").exists()


@boxed
def test_a_run_cannot_change_the_program_of_a_hook(play: Play, tmp_path: Path) -> None:
    put(tmp_path / "work", "guard.sh", "exit 0\n")
    put(tmp_path / "work", "name.txt", "guard.sh")
    hides = 'python3 -c \'open(open("name.txt").read(), "w")\''
    played = play(
        turns({"calls": [bash(hides)]})[0],
        settings={"sandbox": "auto", "hooks": {"before": [{"command": "bash guard.sh"}]}},
    )
    assert (tmp_path / "work/guard.sh").read_text() == "exit 0\n"
    assert "Read-only" in str(played.root.steps[1].result)


def test_hooks_of_a_folder_run_once_they_and_their_programs_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    put(work, "fractal.yaml", "hooks: {before: [{command: bash guard.sh}]}\n")
    put(work, "guard.sh", "exit 0\n")
    names = {item.name for item in Fractal(work).untrusted()}
    assert names == {"hooks", f"hook {work}/guard.sh"}
    with pytest.raises(trust.Untrusted, match=r"bash guard\.sh"):
        asyncio.run(Fractal(work).run("what is 2 + 2"))
    trust.accept(Fractal(work).untrusted())
    assert asyncio.run(Fractal(work).run("what is 2 + 2")).output == "4"
    put(work, "guard.sh", "curl example.org\n")
    assert [item.name for item in Fractal(work).untrusted()] == [f"hook {work}/guard.sh"]
    put(tmp_path / "config/fractal", "fractal.yaml", "hooks: {before: [{command: 'true'}]}\n")
    put(work, "fractal.yaml", "hooks: {}\n")
    assert [item.name for item in Fractal(work).untrusted()] == ["hooks"], "it switches off the user's own"


def test_a_hook_with_a_wrong_form_is_refused_with_its_place(tmp_path: Path) -> None:
    for hooks in ({"befor": []}, {"before": [{"comand": "x"}]}, {"end": [{"command": "x", "seconds": 0}]}):
        with pytest.raises(ConfigurationError, match="hooks"):
            Fractal(tmp_path, settings={"hooks": hooks})


def test_secrets_in_a_call_are_not_given_to_hooks(play: Play, tmp_path: Path) -> None:
    log = tmp_path / "log"
    token = f"ghp_{'a1B2' * 9}"
    played = play(
        doing(write("a.txt", f"{token}\n"), bash("cat a.txt")),
        settings=settings(after=[{"command": KEEPS.format(log=log)}]),
    )
    assert played.result.status in ("complete", "unverified")
    assert token not in log.read_text()


def test_files_of_hooks_are_pinned_where_the_hooks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work, beside = tmp_path / "work", tmp_path / "work" / "sub"
    hooks = "hooks: {end: [{command: bash guard.sh}, {command: bash ../upper.sh}]}\n"
    put(work, ".fractal/fractal.yaml", hooks)
    put(work, ".fractal/state/runs/x")
    for name in ("guard.sh", "upper.sh", "sub/guard.sh"):
        put(work, name, "exit 0\n")
    put(tmp_path, "upper.sh", "exit 0\n")
    asked = {item.name for item in Fractal(work).untrusted()}
    assert asked >= {"hooks", f"hook {work}/guard.sh"} and f"hook {tmp_path}/upper.sh" not in asked
    trust.accept([*Fractal(work).untrusted(), *Fractal(beside).untrusted()])
    assert not Fractal(work).untrusted() and not Fractal(beside).untrusted()
    for name in ("sub/guard.sh", "upper.sh"):
        put(work, name, "curl example.org\n")
    assert not Fractal(work).untrusted()
    changed = {item.name for item in Fractal(beside).untrusted()}
    assert changed == {f"hook {beside}/guard.sh", f"hook {work}/upper.sh"}
    put(work, "guard.sh", "curl example.org\n")
    with pytest.raises(trust.Untrusted, match=r"guard\.sh"):
        asyncio.run(Fractal(work).run("what is 2 + 2"))


def test_a_worktree_with_other_files_of_hooks_than_those_allowed_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    put(work, ".fractal/fractal.yaml", "hooks: {end: [{command: bash guard.sh}]}\n")
    put(work, ".fractal/state/runs/.keep")
    put(work, "guard.sh", "exit 0 # earlier\n")
    trust.accept(Fractal(work).untrusted())
    first = asyncio.run(Fractal(work).run("what is 2 + 2", worktree=True))
    assert first.output == "4"
    put(work, "guard.sh", "exit 0\n")
    trust.accept(Fractal(work).untrusted())
    fork = Fractal(work).fork(first.run, worktree=True)
    with pytest.raises(UsageError, match=r"guard\.sh is not as you have allowed it"):
        asyncio.run(Fractal(work).resume(fork))
    put(beside := work / "sub", "guard.sh", "exit 0\n")
    with pytest.raises(trust.Untrusted, match=r"sub/guard\.sh"):
        Fractal(work).refuse_other_hooks(beside, beside)
    put(work / ".fractal/state/worktrees" / fork, "guard.sh", "exit 0\n")
    assert asyncio.run(Fractal(work).resume(fork)).output == "4"
