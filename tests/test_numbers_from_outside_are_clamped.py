"""A number that somebody else reports ends no run and gives no free budget; what is written can be read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_server import Answer, LlmServer
from playing import ACCEPT, Play, Played, plan, write
from starlette.testclient import TestClient

from kernel.asking.responder import Ask, Reply, Responder, Usage
from kernel.document.amounts import MOST, MOST_AT_ONCE, clamped
from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Section, Step
from kernel.document.parser import parse
from kernel.errors import DocumentError
from kernel.store.call_log import ReplyLog
from runtime.models.failures import retry_after
from runtime.models.openai_client import OpenAI
from runtime.models.prices import Price
from runtime.server.app import create_app

NUMBERS: tuple[Any, ...] = (
    *(10**15, 10**15 - 1, 10**18, 10**30, 10**400, -(10**15), -1, 0, -0.0, 0.5, 1e15, 1e300, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), True, False, None, "12", "1e15", "", [], {}, [1], {"a": 1}),
)
"""What a server may report where a number belongs."""
NAMES = [f"{str(each)[:12]}-{type(each).__name__}" for each in NUMBERS]


class Reporting(Responder):
    """A model that reports a usage of its own making."""

    name = "reporting"

    def __init__(self, **figures: Any) -> None:
        self.figures = figures

    def estimate(self, ask: Ask) -> Usage:
        return Usage(500, 100, 0.01)

    def count(self, text: str) -> int:
        return len(text)

    async def answer(self, ask: Ask) -> Reply:
        reply = ACCEPT if ask.phase == "check" else plan(write("a.txt", "x"), success=[{"file": "a.txt"}])
        return Reply(json.dumps(reply), self.name, Usage(**{"usd": 0.01, **self.figures}))


def readable(played: Played) -> None:
    """Every document of a run is read again, and its spending is within what a document holds."""
    for document in played.documents.values():
        for name, value in document.meta.spent.items():
            assert 0 <= value < MOST, (name, value)
    assert render(played.root) and played.fractal.document(played.result.run)


FIELDS = ("prompt_tokens", "completion_tokens", "usd", "calls")
ALONE = [
    pytest.param({field: number}, id=f"{name}-{field}", marks=pytest.mark.night)
    for number, name in zip(NUMBERS, NAMES, strict=True)
    for field in FIELDS
]
TOGETHER = [
    pytest.param({field: NUMBERS[at - n * 6] for n, field in enumerate(FIELDS)}, id=name)
    for at, name in enumerate(NAMES)
]
"""Each number stands in each field: at night alone, by day beside three others."""


@pytest.mark.parametrize("figures", [*TOGETHER, *ALONE])
def test_run_with_any_number_is_read_and_resumed(play: Play, figures: dict[str, Any]) -> None:
    """Also where the number exhausts a limit: with a higher one the run goes on."""
    limits = {"tokens": 10**12, "usd": None, "calls": 10**12}
    played = play([Reporting(**figures)], settings=limits)
    readable(played)
    assert played.root.meta.status in ("complete", "exhausted"), played.result.error
    readable(
        play([Reporting()], resume=played.result.run, settings=limits) if not played.root.ended else played
    )


@pytest.mark.parametrize("number", [0, -5, float("nan"), True, "9", None, 10**18], ids=str)
def test_no_report_gives_free_budget(play: Play, number: Any) -> None:
    """What is no amount counts as what was reserved for the call; an amount as it is, up to the bound."""
    played = play([Reporting(prompt_tokens=number, completion_tokens=number, usd=number)])
    spent, calls = played.root.meta.spent, played.root.meta.spent["calls"]
    if number == 10**18:
        assert spent["prompt_tokens"] == calls * MOST_AT_ONCE
    elif number != 0 or isinstance(number, bool):
        assert spent["prompt_tokens"] == 500 * calls
        assert spent["usd"] == (0 if number is None else pytest.approx(0.01 * calls)), (
            "None: no price is known"
        )


ALIKE = (10**15 - 1, 10**18, -(10**15), -0.0, 1e300, float("-inf"), False, "1e15", "", [])
"""Numbers that a server reports at night: by day it reports another one of their kind."""


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=name, marks=pytest.mark.night if repr(number) in map(repr, ALIKE) else ())
        for number, name in zip(NUMBERS, NAMES, strict=True)
    ],
)
def test_usage_of_a_server_is_clamped(play: Play, llm_server: LlmServer, number: Any) -> None:
    """Tokens, and cached tokens of which more than all would make a prompt earn money."""
    used = {
        "prompt_tokens": number,
        "completion_tokens": number,
        "prompt_tokens_details": {"cached_tokens": number},
    }

    message = {"role": "assistant", "content": json.dumps(plan(write("a.txt", "x")))}
    whole = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": used}
    llm_server.always(lambda body: Answer(raw=json.dumps(whole).encode()))
    model = OpenAI("openai/m", api_base=llm_server.url, key_env="PATH", price=Price(2.0, 4.0), retries=0)
    played = play([model], settings={"usd": None, "tokens": 10**12}, plan_only=True)
    readable(played)
    assert played.root.meta.spent["prompt_tokens"] > 0, "no call is free"
    assert played.root.meta.spent["usd"] > 0


@pytest.mark.parametrize(
    "details",
    [[], "x", 7, {"cached_tokens": {}}, {"cached_tokens": 10**30}, {"cached_tokens": -(10**9)}],
    ids=str,
)
def test_details_of_any_form_make_no_prompt_earn_money(
    play: Play, llm_server: LlmServer, details: Any
) -> None:
    message = {"role": "assistant", "content": json.dumps(plan(write("a.txt", "x")))}
    used = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": details}
    whole = {"choices": [{"message": message}], "usage": used}
    llm_server.always(lambda body: Answer(raw=json.dumps(whole).encode()))
    model = OpenAI("openai/m", api_base=llm_server.url, key_env="PATH", price=Price(2.0, 4.0, 0.5), retries=0)
    played = play([model], plan_only=True)
    assert 0 < played.root.meta.spent["usd"] < 1


@pytest.mark.parametrize(
    "value", ["1e999", "inf", "nan", "-5", "", "soon", "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "0x10"]
)
def test_retry_after_of_any_form_is_an_hour_at_most(value: str) -> None:
    assert 0 <= retry_after(value) <= 3600


def test_log_with_wild_numbers_is_read(tmp_path: Path) -> None:
    """Also one that an earlier version has written."""
    log = ReplyLog(tmp_path / "calls.jsonl", fsync=False)
    key = "system-abc123/1/plan/0/0/x.y"
    log.asked(key, "m", Usage(10, 10, 0.1))
    log.replied(key, Reply("{}", "m", Usage(5, 5, 0.1)))
    path = tmp_path / "calls.jsonl"
    for wild in ("1e999", "NaN", "-7", str(10**18), "1e300"):
        text = re.sub(r'"prompt_tokens": [^,}]+', f'"prompt_tokens": {wild}', path.read_text())
        path.write_text(text)
        spent = ReplyLog(path, fsync=False).spent().as_dict()
        assert all(0 <= each < MOST for each in spent.values()), (wild, spent)


@given(st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.booleans(), st.none()))
def test_amount_is_always_one(value: Any) -> None:
    found = clamped(value, 7)
    assert not isinstance(found, bool) and isinstance(found, int | float) and 0 <= found <= MOST_AT_ONCE


# ---- render refuses what parse refuses ----

WRONG: tuple[Mapping[str, Any], ...] = (
    *({"spent": {"calls": number}} for number in (10**15, -(10**15), float("nan"), float("inf"), True, "1")),
    *({"budget": {"tokens": number}} for number in (10**16, float("-inf"), [])),
    *({"rev": number} for number in (10**9, -1, True)),
    *({"attempt": number} for number in (10**9, -1, 1.5)),
    *({"depth": number} for number in (10**10, "1")),
    {"rungs": ({"attempt": 10**15},)},
    {"rungs": ({"usd": float("inf")},)},
    {"waiting": {"question": "x"}},
    {"derived": {"a": {"b": 1}}},
    {"status": "odd"},
    {"extra": {"worktree": {"of": "a"}}},
    {"extra": {"agent": "No Name"}},
    {"extra": {"kept": [10**15]}},
    {"created": 5},
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: str(each)[:40])
def test_meta_that_cannot_be_read_is_not_written(wrong: Mapping[str, Any]) -> None:
    document = Document(replace(Meta("system-abc123", "abc123"), **wrong))
    with pytest.raises(ValueError):
        render(document)


@pytest.mark.parametrize(
    "evidence",
    [
        {"turn": 10**15},
        {"turn": "1"},
        {"spent": {"usd": float("nan")}},
        {"touched": [{"path": "a"}]},
        {"needed": {"x": "y"}},
        {"state": {"at": "a", "calls": 10**17}},
    ],
    ids=str,
)
def test_step_that_cannot_be_read_is_not_written(evidence: Mapping[str, Any]) -> None:
    step = Step(1, "done", "read", {"path": "a"}, evidence=evidence)
    document = Document(Meta("system-abc123", "abc123", phase="do"), {3: Section(steps={1: step})})
    with pytest.raises(ValueError):
        render(document)


META = st.fixed_dictionaries(
    {},
    optional={
        "spent": st.dictionaries(
            st.sampled_from(["calls", "usd"]), st.one_of(st.integers(), st.floats(), st.text())
        ),
        "rev": st.integers(-2, 10**10),
        "attempt": st.one_of(st.integers(-2, 10**10), st.floats()),
        "depth": st.integers(),
        "waiting": st.one_of(
            st.none(), st.dictionaries(st.sampled_from(["for", "question"]), st.text(max_size=5))
        ),
        "folder": st.text(max_size=5),
        "unverified": st.one_of(st.booleans(), st.integers()),
    },
)


@given(
    META,
    st.dictionaries(
        st.sampled_from(["turn", "spent", "undone", "was", "free"]),
        st.one_of(st.integers(), st.floats(), st.text(max_size=4), st.none()),
    ),
)
def test_what_is_written_is_read(meta: Mapping[str, Any], evidence: Mapping[str, Any]) -> None:
    step = Step(1, "done", "read", {"path": "a"}, evidence=evidence)
    document = Document(
        replace(Meta("system-abc123", "abc123", phase="do"), **meta), {3: Section(steps={1: step})}
    )
    try:
        raw = render(document)
    except ValueError:
        return
    try:
        parse(raw)
    except DocumentError as error:
        raise AssertionError(f"written and not read: {error}") from None


# ---- clients ----


def test_numbers_of_clients_break_no_view(tmp_path: Path) -> None:
    """Heartbeats, pages and limits with numbers of any size: refused, or shown."""
    app = create_app(tmp_path, settings={"embedder": "lexical"}, hosts={"testserver"})
    with TestClient(app) as client:
        for number in ("1e999", str(10**400), "-1", "NaN", str(10**15), "true", '"9"'):
            for name in ("done", "total", "cpu_seconds", "accuracy", "memory_mb"):
                body = f'{{"status": "running", "{name}": {number}}}'
                client.post("/api/runners/r1", content=body, headers={"content-type": "application/json"})
                assert client.get("/api/runners").status_code == 200, body
                assert client.get("/runners").status_code == 200, body
            quoted = number.strip('"')
            for place in ("/?page=", "/api/runs?limit=", "/brain?page="):
                assert client.get(f"{place}{quoted}").status_code in (200, 422), place
        for size in ("9" * 18, "1" + "0" * 40, "9" * 5_000, "0" * 50 + str(10**7)):
            assert client.get("/", headers={"content-length": size}).status_code == 413, size
        assert client.get("/", headers={"content-length": "0" * 50}).status_code == 200


def test_numbers_that_json_does_not_know_are_shown_as_null(play: Play, tmp_path: Path) -> None:
    """A model may write 1e999 or NaN as an argument."""
    steps = [{"tool": "write", "args": {"path": "a.txt", "content": "x", "append": float("inf")}}]
    played = play(lambda ask: ACCEPT if ask.phase == "check" else plan(*steps))
    app = create_app(played.fractal.workspace.folder, settings={"embedder": "lexical"}, hosts={"testserver"})
    with TestClient(app) as client:
        for place in ("", f"/documents/{played.result.id}?format=json"):
            answer = client.get(f"/api/runs/{played.result.run}{place}")
            assert answer.status_code == 200 and answer.json()
