"""A run again from its log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conversations import talk

from kernel.asking.responder import Reply, Responder, Usage
from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section
from kernel.errors import ConfigurationError, ProviderError
from kernel.store.call_log import ReplyLog
from runtime.models.replay import Replay, find_log


@pytest.fixture
def recorded(tmp_path, make_ask):
    """A run `abc123` of a root and a child."""
    path = tmp_path / "state" / "runs" / "abc123" / "calls.jsonl"
    log = ReplyLog(path)
    child = {"loop": "op-fetch-abc123-1.2", "level": "operation"}
    for number, ask in enumerate(
        [
            make_ask("turn", step=1, system="", user="", messages=talk(1)),
            make_ask("do", step=2),
            make_ask("check"),
            make_ask("plan", user="Child.", **child),
        ]
    ):
        ask = replace(ask, rung="worker")
        log.asked(ask.key, "worker", Usage(100, 100, 1.0))
        log.replied(ask.key, Reply(f'{{"n": {number}}}', "some/model", Usage(90, 10, 0.5)))
    return path


def lies_beside(log: Path, task: str) -> None:
    """The root's document of the recorded run."""
    document = Document(Meta("system-abc123", "abc123"), {1: Section(notes=(Note("task", task, "person"),))})
    (log.parent / "system-abc123.md").write_bytes(render(document))


@pytest.fixture
def ask_anew(make_ask):
    """An ask of another run."""

    def make(phase="", loop="system-xyz789", **more):
        turn = {} if phase else {"step": 1, "system": "", "user": "", "messages": talk(1)}
        return make_ask(phase or "turn", loop=loop, run="xyz789", **{**turn, **more})

    return make


async def text(responder, ask):
    return (await responder.answer(ask)).text


async def test_each_ask_of_another_run_gets_the_recorded_reply_for_no_money(recorded, ask_anew):
    replay = Replay(recorded)
    assert isinstance(replay, Responder)
    assert await text(replay, ask_anew()) == '{"n": 0}'
    assert await text(replay, ask_anew("do", step=2)) == '{"n": 1}'
    assert await text(replay, ask_anew("check")) == '{"n": 2}'
    child = ask_anew("plan", loop="op-fetch-xyz789-1.2", user="Child.", level="operation")
    reply = await replay.answer(child)
    assert (reply.text, reply.model, reply.usage) == ('{"n": 3}', "some/model", Usage(90, 10, 0.0))
    assert not replay.differing


async def test_an_ask_that_moved_is_found_by_its_prompt(recorded, ask_anew):
    moved = ask_anew("plan", loop="op-fetch-xyz789-3.1", user="Child.", level="operation")
    assert await text(Replay(recorded), moved) == '{"n": 3}'
    assert await text(Replay(recorded), ask_anew(step=2)) == '{"n": 0}'
    with pytest.raises(ProviderError, match="no reply to turn of system"):
        await text(Replay(recorded), ask_anew(step=2, messages=talk(2)))


async def test_a_changed_prompt_is_answered_for_the_recorded_task_only(recorded, ask_anew):
    changed = ask_anew("check", user="Another listing.")
    with pytest.raises(ProviderError, match=r"its task is not known: put the run's root document beside"):
        await Replay(recorded).answer(changed)
    lies_beside(recorded, "another task")
    with pytest.raises(ProviderError, match=r"request in check of system .*so does its task"):
        await Replay(recorded).answer(changed)
    lies_beside(recorded, changed.document.text(1, "task"))
    replay = Replay(recorded)
    assert await text(replay, changed) == '{"n": 2}'
    assert replay.differing == ["check of system (attempt 1, step 0, turn 0)"]


async def test_the_same_prompt_gets_its_replies_in_their_order_and_no_more(tmp_path, make_ask, ask_anew):
    log = ReplyLog(tmp_path / "abc123" / "calls.jsonl")
    for number in (1, 2):
        ask = make_ask("do", step=number)
        log.replied(ask.key, Reply(f'{{"n": {number}}}', "some/model"))
    replay = Replay(log.path)
    moved = [ask_anew("do", step=number) for number in (7, 8, 9)]
    assert [await text(replay, ask) for ask in moved[:2]] == ['{"n": 1}', '{"n": 2}']
    with pytest.raises(ProviderError, match=r"no reply to do of system \(attempt 1, step 9"):
        await replay.answer(moved[2])


async def test_an_ask_that_was_never_recorded_is_named(recorded, ask_anew):
    replay = Replay(recorded)
    with pytest.raises(
        ProviderError, match=r"no reply to check of system \(attempt 2.*this loop: turn of system"
    ):
        await replay.answer(ask_anew("check", attempt=2, user="Second."))
    with pytest.raises(ProviderError, match=r"its loops were op-fetch-1.2, system"):
        await replay.answer(ask_anew("plan", loop="tool-x-xyz789-4", user="Third."))


async def test_a_copied_run_folder_can_be_replayed(recorded, tmp_path, ask_anew):
    folder = recorded.parent.rename(tmp_path / "renamed")
    assert await text(Replay(find_log(str(folder), tmp_path)), ask_anew()) == '{"n": 0}'


def test_a_run_is_found_by_path_id_or_the_end_of_it(recorded, tmp_path):
    state = tmp_path / "state"
    for name in (str(recorded), str(recorded.parent), "abc123", "c123"):
        assert find_log(name, state) == recorded
    ReplyLog(state / "runs" / "zzc123" / "calls.jsonl").asked("k", "r", Usage())
    for name, message in (("c123", "2 runs"), ("nope", "no such run"), ("../x", "no such run")):
        with pytest.raises(ConfigurationError, match=message):
            find_log(name, state)


def test_a_missing_log_is_reported(tmp_path):
    with pytest.raises(ConfigurationError, match="no log of replies"):
        Replay(tmp_path / "calls.jsonl")


def test_the_estimate_costs_nothing(recorded, make_ask):
    assert Replay(recorded).estimate(replace(make_ask(), system="x" * 30, user="")) == Usage(10, 200, 0.0)
