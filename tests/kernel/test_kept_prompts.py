"""The prompts that calls sent are kept for people: whole, redacted, and never needed by a run."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conversations import talk
from playing import ACCEPT, Play, Played, doing, write

from kernel.asking.responder import Ask
from kernel.document.escaping import to_json
from kernel.document.model import Document, Meta
from kernel.errors import ProviderError
from runtime.memory.forgetting.documents import runs_containing
from runtime.models.scripted import Scripted
from runtime.server.page.run_page import run_page
from runtime.workspace.inbox import drop
from runtime.workspace.prompts import FOLDER, keep_prompt, kept_prompt

TOOL = {"type": "function", "function": {"name": "read", "description": "reads", "parameters": {}}}


def phase_of(path: Path) -> str:
    return path.name.split("_")[2]


def kept(played: Played) -> list[Path]:
    return sorted((played.folder / FOLDER).iterdir())


def test_each_prompt_that_was_sent_is_kept_as_it_was_sent(play: Play) -> None:
    model = Scripted(doing(write("a", "x")))
    played = play(model)
    turn, check = model.asks
    assert len(kept(played)) == 2
    text = kept_prompt(played.folder, check.key)
    system, task, *_ = (message["content"] for message in check.messages)
    assert f"<!-- 1 system -->\n\n{system}\n\n<!-- 2 user -->\n\n{task}\n" in text
    system, task = (message["content"] for message in turn.messages)
    text = kept_prompt(played.folder, turn.key)
    assert text.endswith(f"<!-- 1 system -->\n\n{system}\n\n<!-- 2 user -->\n\n{task}\n")
    assert all(to_json(tool) in text.partition("<!-- 1 system -->")[0] for tool in turn.tools)
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept(played)} == {0o600}


def test_a_refused_reply_and_a_failed_call_have_their_prompts_too(play: Play) -> None:
    def fails(ask: Ask) -> Any:
        raise ProviderError("it is down")

    def repeats(ask: Ask) -> Any:
        return doing(write("a", "x"))(ask) if ask.turn else "no object"

    played = play([Scripted(fails, name="one"), Scripted(repeats, name="two")])
    assert [phase_of(path) for path in kept(played)] == ["check"] * 2 + ["turn"] * 3
    assert sum("no object" in path.read_text("utf-8") for path in kept(played)) == 2


def test_what_oversight_is_asked_is_kept_too(play: Play) -> None:
    def oversees(ask: Ask) -> Any:
        return {"decision": "approve", "why": "it is harmless"}

    models = [Scripted(doing(write("a", "x")), name="one"), Scripted(oversees, name="two", tier="oversight")]
    played = play(models, settings={"review": "always", "remember": True})  # messages are memory
    asked = [path for path in kept(played) if path.name.startswith("oversight-")]
    assert asked and "<!-- user -->" in asked[0].read_text("utf-8")
    shown = run_page(played.fractal, played.result.run).phases[played.result.id]
    assert [call.kept for part in shown for call in part.calls] == [True] * len(kept(played))


def test_a_log_of_a_newer_version_is_shown(play: Play) -> None:
    played = play(doing(write("a", "x")))
    log = played.folder / "calls.jsonl"
    log.write_text(
        log.read_text("utf-8").replace('"usage": {', '"usage": {"of_a_newer_version": 1, '), "utf-8"
    )
    shown = run_page(played.fractal, played.result.run).phases[played.result.id]
    assert [call.phase for part in shown for call in part.calls] == ["turn", "check"]


def test_a_resumed_run_needs_no_prompt_and_keeps_only_those_that_it_sends(play: Play) -> None:
    first = play(doing(write("a", "x")), plan_only=True)
    (plan_prompt,) = kept(first)
    plan_prompt.unlink()
    drop(first.folder, "approve")
    again = play(doing(), resume=first.result.run)
    assert again.root.meta.status == "complete"
    assert [phase_of(path) for path in kept(again)] == ["check"]


def test_secrets_are_redacted_in_them(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "the-value-of-the-key")
    task = "copy the-value-of-the-key to postgres://app:password@db"
    played = play(doing(write("a", "x")), task)
    texts = [path.read_text("utf-8") for path in kept(played)]
    assert any("[redacted MY_API_KEY]" in each and "[redacted password]" in each for each in texts)
    assert not any("the-value-of-the-key" in each or "password@" in each for each in texts)


def test_tools_of_native_calls_are_kept(tmp_path: Path, play: Play) -> None:
    asks: list[Ask] = []

    def model(ask: Ask) -> Any:
        asks.append(ask)
        return doing()(ask)

    play(model)
    ask = Ask(**{**vars(asks[0]), "tools": (TOOL, TOOL)})
    assert keep_prompt(tmp_path, ask) == ""
    assert kept_prompt(tmp_path, ask.key).count('"name": "read"') == 2


def test_a_prompt_that_cannot_be_kept_does_not_fail_the_run(play: Play) -> None:
    first = play(doing(write("a", "x")), plan_only=True)
    (first.folder / FOLDER).rename(first.folder / "aside")
    (first.folder / FOLDER).write_text("in the way")
    drop(first.folder, "approve")
    again = play(lambda ask: ACCEPT if ask.turn else "no object", resume=first.result.run)
    assert again.root.meta.status == "complete"
    warnings = [each.data["message"] for each in again.events if each.kind == "warning"]
    assert sum("prompts are not kept" in each for each in warnings) == 1, warnings


def test_no_prompt_is_kept_where_the_settings_say_so(play: Play) -> None:
    played = play(doing(write("a", "x")), settings={"keep_prompts": False})
    assert not (played.folder / FOLDER).exists()


def test_they_are_archived_forgotten_and_left_by_a_fork_like_the_log_of_calls(
    play: Play,
) -> None:
    played = play(doing(write("a", "x")))
    state, run = played.fractal.workspace.state, played.result.run

    def found() -> list[str]:
        return runs_containing(state, (), lambda text: "You judge the work of one loop" in text, words=True)

    assert found() == [run], "these words are in no other file"
    copy = played.fractal.fork(run)
    assert not (played.folder.with_name(copy) / FOLDER).exists()
    played.fractal.gc(keep_days=-1)
    assert found() == [run] and not played.folder.exists()


def turn_ask(turn: int, messages: Sequence[dict[str, Any]], **more: Any) -> Ask:
    place = {"run": "abc", "loop": "system-abc", "attempt": 1, "phase": "turn", "step": 0, "turn": turn}
    values = {"system": "", "user": "", "schema": {}, "words": "", "max_tokens": 100, "tools": (TOOL,)}
    document = Document(Meta("system-abc", "abc"))
    return Ask(**place, **values, document=document, messages=tuple(messages), **more)


def test_a_growing_conversation_is_kept_once_and_read_whole(tmp_path: Path) -> None:
    asks = [turn_ask(turn, talk(turn, result="x" * 500)) for turn in range(20)]
    assert [keep_prompt(tmp_path, ask) for ask in asks] == [""] * 20
    text = kept_prompt(tmp_path, asks[-1].key)
    assert [text.count(f"x of c{turn}_1\n") for turn in range(1, 20)] == [1] * 19
    assert text.index("<!-- tools -->") < text.index("<!-- 1 system -->") < text.index("<!-- 2 user -->")
    assert 'c7_1: read {"path": "c7_1"}' in text and "<!-- 6 tool, result of c2_1 -->" in text
    files = sorted((tmp_path / FOLDER).iterdir(), key=lambda path: path.stat().st_size)
    assert sum(path.stat().st_size for path in files) < 20 * 1000, "nothing is kept twice"
    assert "; 1 to 38 are in system-abc_1_turn_0_18_" in kept_file(tmp_path, asks[-1])


def kept_file(run: Path, ask: Ask) -> str:
    return (run / FOLDER / f"{ask.key.replace('/', '_')}.md").read_text("utf-8")


def test_the_same_conversation_asked_of_two_rungs_and_again_after_a_crash_is_whole(tmp_path: Path) -> None:
    asks = [
        turn_ask(1, talk(1), rung="one"),
        turn_ask(1, talk(1), rung="two"),
        turn_ask(2, talk(2), rung="one"),
    ]
    for ask in [*asks, *asks]:
        assert keep_prompt(tmp_path, ask) == ""
    assert len({kept_prompt(tmp_path, ask.key) for ask in asks[:2]}) == 1
    assert kept_prompt(tmp_path, asks[2].key).count("a result of c1_1") == 1


def test_another_conversation_of_the_loop_is_no_beginning_of_this_one(tmp_path: Path) -> None:
    other = ({"role": "system", "content": "Another."}, *talk(1)[1:])
    asks = [turn_ask(1, other), turn_ask(2, talk(2)), turn_ask(3, talk(3), rung="x")]
    asks.append(replace(turn_ask(4, talk(4)), tools=()))
    for ask in asks:
        keep_prompt(tmp_path, ask)
    assert "Another." not in kept_prompt(tmp_path, asks[2].key)
    assert [" are in " in kept_file(tmp_path, ask) for ask in asks] == [False, False, True, False]


def test_a_conversation_whose_beginning_was_removed_says_so(tmp_path: Path) -> None:
    asks = [turn_ask(turn, talk(turn)) for turn in (1, 2)]
    for ask in asks:
        keep_prompt(tmp_path, ask)
    (tmp_path / FOLDER / f"{asks[0].key.replace('/', '_')}.md").unlink()
    text = kept_prompt(tmp_path, asks[1].key)
    assert text.startswith("<!-- the messages before are not kept: ") and "result of c2_1" in text


def test_what_a_message_says_is_never_taken_for_the_line_about_earlier_messages(tmp_path: Path) -> None:
    line = f"<!-- 9 messages, {'0' * 16}; 1 to 8 are in other.md -->"
    ask = turn_ask(0, ({"role": "system", "content": line}, {"role": "user", "content": line}))
    keep_prompt(tmp_path, ask)
    assert kept_prompt(tmp_path, ask.key).count(line) == 2


def test_secrets_in_a_conversation_are_redacted(tmp_path: Path) -> None:
    messages = (*talk(1), {"role": "user", "content": "postgres://app:password@db"})
    ask = turn_ask(1, messages)
    keep_prompt(tmp_path, ask)
    assert "password@" not in kept_file(tmp_path, ask)
