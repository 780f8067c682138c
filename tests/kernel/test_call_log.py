"""The log of model calls, from which a resumed run takes replies."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.asking.responder import Reply, Usage
from kernel.errors import DocumentError
from kernel.store.call_log import ReplyLog

TEXT = st.text(st.characters(codec=None), max_size=30)
KEY = "system-1/1/plan/0/0/abc"
CHILD = "tool-1-1/1/plan/0/0/abc"
RESERVED = Usage(100, 50, 0.01)
USED = Usage(80, 20, 0.004)


def reply(text: str = '{"a": 1}', usage: Usage = USED) -> Reply:
    return Reply(text, "some/model", usage)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "calls.jsonl"


def test_reply_is_found_by_another_process(path: Path):
    log = ReplyLog(path)
    log.asked(KEY, "worker", RESERVED)
    log.replied(KEY, reply())
    assert ReplyLog(path).reply(KEY) == reply()
    assert ReplyLog(path).reply(CHILD) is None


@given(TEXT)
def test_any_text_round_trips(tmp_path_factory, text: str):
    path = tmp_path_factory.mktemp("log") / "calls.jsonl"
    ReplyLog(path).replied(KEY, reply(text))
    assert ReplyLog(path).reply(KEY) == reply(text)


def test_each_line_is_one_json_object(path: Path):
    log = ReplyLog(path)
    log.asked(KEY, "worker", RESERVED)
    log.replied(KEY, reply("two\nlines\u2028three"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["asked", "replied"]
    assert all(
        line["v"] == 1 and line["ts"] and line["key"] == KEY and line["rung"] == "worker" for line in lines
    )
    assert lines[1]["model"] == "some/model"
    assert path.stat().st_mode & 0o077 == 0


def test_call_costs_its_usage(path: Path):
    log = ReplyLog(path)
    log.asked(KEY, "worker", RESERVED)
    log.replied(KEY, reply())
    log.asked(CHILD, "worker", RESERVED)
    log.replied(CHILD, reply())
    for each in (log, ReplyLog(path)):
        spent = each.spent("system-1")
        assert (spent.calls, spent.prompt_tokens, spent.completion_tokens, spent.usd) == (1, 80, 20, 0.004)
        assert spent.overrun_tokens == spent.overrun_calls == 0
        assert each.spent().calls == 2


def test_interrupted_call_is_charged_its_reservation(path: Path):
    ReplyLog(path).asked(KEY, "worker", RESERVED)
    log = ReplyLog(path)
    assert (log.spent("system-1").calls, log.spent("system-1").prompt_tokens) == (1, 100)
    log.asked(KEY, "worker", RESERVED)
    log.replied(KEY, reply())
    assert (log.spent("system-1").calls, log.spent("system-1").prompt_tokens) == (2, 180)
    assert ReplyLog(path).spent("system-1") == log.spent("system-1")


def test_failed_call_costs_its_reported_usage_and_has_no_reply(path: Path):
    log = ReplyLog(path)
    log.asked(KEY, "worker", RESERVED)
    log.failed(KEY, "500 from the provider")
    assert log.reply(KEY) is None
    assert log.spent("system-1").calls == 0
    log.asked(KEY, "worker", RESERVED)
    log.failed(KEY, "timeout", Usage(100, 0, 0.005))
    assert (log.spent("system-1").calls, log.spent("system-1").usd) == (1, 0.005)


def test_usage_beyond_the_reservation_is_overrun(path: Path):
    log = ReplyLog(path)
    log.asked(KEY, "worker", RESERVED)
    log.replied(KEY, reply(usage=Usage(130, 40, 0.03)))
    spent = ReplyLog(path).spent("system-1")
    assert (spent.overrun_tokens, spent.overrun_calls) == (30, 0)
    assert spent.overrun_usd == pytest.approx(0.02)


def test_call_without_a_price_is_counted_as_unpriced(path: Path):
    log = ReplyLog(path)
    log.replied(KEY, reply(usage=Usage(1, 1, None)))
    assert (log.spent().usd, log.spent().unpriced) == (0.0, 1)


@given(cut=st.integers(1, 40), more=st.booleans())
def test_torn_last_line_is_moved_aside(tmp_path_factory, cut: int, more: bool):
    path = tmp_path_factory.mktemp("log") / "calls.jsonl"
    log = ReplyLog(path)
    if more:
        log.replied(CHILD, reply())
    whole = path.read_bytes() if more else b""
    log.replied(KEY, reply())
    left = path.read_bytes()[:-cut]
    path.write_bytes(left)
    torn = ReplyLog(path)
    assert torn.reply(KEY) is None
    assert bool(torn.reply(CHILD)) == more
    assert "torn" in torn.problems[0]
    assert path.read_bytes() == left
    torn.replied(KEY, reply("again"))
    assert path.read_bytes().startswith(whole)
    assert all(json.loads(line) for line in path.read_text().splitlines())
    assert path.with_name("calls.jsonl.torn").exists()
    assert ReplyLog(path).reply(KEY) == reply("again")


def test_invalid_lines_are_skipped_and_reported(path: Path):
    log = ReplyLog(path)
    log.replied(KEY, reply())
    with path.open("a") as file:
        file.write(
            'garbage\n{"v": 1}\n[]\n{"v": 1, "kind": "asked", "key": "k", "rung": "r", "usage": {"x": 1}}\n'
        )
    log = ReplyLog(path)
    log.replied(CHILD, reply())
    again = ReplyLog(path)
    assert again.reply(KEY)
    assert again.reply(CHILD)
    assert [problem.split(": ")[0] for problem in again.problems] == [f"{path}:{n}" for n in (2, 3, 4, 5)]


def test_log_of_a_newer_version_is_refused(path: Path):
    path.parent.mkdir()
    path.write_text('{"v": 2}\n')
    with pytest.raises(DocumentError, match=r"calls.jsonl:1: .*newer"):
        ReplyLog(path).reply(KEY)


def test_loops_append_concurrently(path: Path):
    log = ReplyLog(path)

    def work(loop: int) -> None:
        for n in range(20):
            key = f"loop-{loop}/1/do/{n}/0/x"
            log.asked(key, "worker", RESERVED)
            log.replied(key, reply(f"{loop}.{n}" * 200))

    threads = [threading.Thread(target=work, args=(loop,)) for loop in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = ReplyLog(path)
    assert len(again.replies) == 80
    assert again.spent("loop-3").calls == 20
    assert not again.problems


def test_reading_creates_no_file(path: Path):
    assert ReplyLog(path).reply(KEY) is None
    assert ReplyLog(path).spent("system-1").calls == 0
    assert not path.parent.exists()
