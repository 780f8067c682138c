"""Costs of model calls: with a price, without one, and with unexpected usage."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from llm_server import Answer, LlmServer
from playing import ACCEPT, plan

from kernel.asking.responder import Ladder
from kernel.events import Event
from runtime.api.fractal import Fractal, RunResult
from runtime.cli import cli
from runtime.models.scripted import Scripted

PRICE = {"input": 10.0, "output": 30.0}  # USD per million tokens


def answer(body: Any, **usage: Any) -> Answer:
    """A plan with one described read step; then its arguments; then ACCEPT."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "Evidence (runtime)" in text:
        reply: Any = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "price"}
    elif "## Step 1: read" in text:
        reply = {"tool": "read", "args": {"path": "a.txt"}}
    else:
        steps = [{"tool": "read", "what": "read what there is"}]
        reply = {"task": "t", "context": [], "approach": "a", "confidence": "high", "steps": steps}
        reply["success"] = [{"step": 1, "has": "price"}]
    return Answer(json.dumps(reply), **usage)


def play(folder: Path, server: LlmServer, **settings: Any) -> RunResult:
    (folder / "a.txt").write_text("price")
    price = settings.pop("price", PRICE)
    rung = {"model": "openai/no-such-model", "api_base": server.url} | ({"price": price} if price else {})
    fractal = Fractal(folder, settings={"sandbox": "off", "ladder": [rung], **settings})
    return asyncio.run(fractal.run("read it"))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def test_cost_is_tokens_times_price(tmp_path, llm_server):
    llm_server.always(lambda body: answer(body, prompt_tokens=1000, completion_tokens=100))
    result = play(tmp_path, llm_server)
    assert result.exit == 0, result
    assert result.spent["usd"] == pytest.approx(3 * (1000 * 10 + 100 * 30) / 1e6)


def test_cost_limit_stops_before_the_call_that_could_exceed_it(tmp_path, llm_server):
    llm_server.always(lambda body: answer(body, prompt_tokens=1000, completion_tokens=100))
    result = play(tmp_path, llm_server, usd=0.03)
    assert result.status == "exhausted" and "USD" in result.reason
    assert result.spent["usd"] <= 0.03
    assert llm_server.count < 3
    assert play(tmp_path, llm_server, usd=10.0).status == "complete"


def test_usage_above_the_reservation_is_recorded_as_overrun(tmp_path, llm_server):
    llm_server.always(lambda body: answer(body, prompt_tokens=50_000, completion_tokens=100))
    result = play(tmp_path, llm_server, usd=0.3)
    assert result.status == "exhausted"
    assert llm_server.count == 1, "the next call sees the remaining budget"
    assert result.spent["usd"] == pytest.approx((50_000 * 10 + 100 * 30) / 1e6)
    reserved = result.spent["usd"] - result.spent["overrun_usd"]
    assert 0 < reserved <= 0.3
    assert result.spent["overrun_tokens"] > 40_000


def test_unused_reservation_is_released(tmp_path, llm_server):
    """The limit covers one call at its maximum; three calls fit because each costs less."""
    llm_server.always(lambda body: answer(body, prompt_tokens=100, completion_tokens=10))
    result = play(tmp_path, llm_server, usd=0.075)
    assert result.exit == 0, result
    assert llm_server.count == 3
    assert "overrun_usd" not in result.spent


def test_missing_usage_is_charged_by_estimate(tmp_path, llm_server):
    llm_server.always(lambda body: answer(body, usage=False))
    result = play(tmp_path, llm_server)
    assert result.exit == 0
    assert result.spent["usd"] > 0 and result.spent["prompt_tokens"] > 100


def remote(folder: Path, **settings: Any) -> Fractal:
    """A model of unknown price at a remote address where nothing answers."""
    rungs = [{"model": "reflex"}, {"model": "openai/no-such-model", "api_base": "http://models.invalid/v1"}]
    return Fractal(folder, settings={"sandbox": "off", "ladder": rungs, **settings})


def unpriced(folder: Path, **settings: Any) -> tuple[RunResult, list[str]]:
    """A run of a model whose price nobody knows, and its warnings."""
    (folder / "a.txt").write_text("price")
    replies = [
        plan({"tool": "read", "what": "read what there is"}),
        {"tool": "read", "args": {"path": "a.txt"}},
        ACCEPT,
    ]
    warnings: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "warning":
            warnings.append(str(event.data["message"]))

    ladder = Ladder((Scripted(replies, name="unpriced", price=None),))
    fractal = Fractal(folder, settings={"sandbox": "off", **settings}, ladder=ladder, on_event=hear)
    return asyncio.run(fractal.run("read it")), warnings


def test_unknown_price_is_warned_of_once_and_shown_as_unknown(tmp_path):
    result, warnings = unpriced(tmp_path)
    assert result.exit == 0, result
    assert [each for each in warnings if "price" in each] == [
        "no price is known for unpriced: its calls count towards the limits of calls and tokens, and not "
        "towards that of USD 1; give `price: {input: …, output: …}` (USD for a million tokens) in "
        "fractal.yaml"
    ]
    assert (result.spent["usd"], result.spent["unpriced"]) == (0, 3)
    rows = CliRunner().invoke(cli, ["-C", str(tmp_path), "cost"]).stdout.splitlines()
    assert [row.split()[-1] for row in rows[1:]] == ["?"] * len(rows[1:]), rows
    assert "?" in CliRunner().invoke(cli, ["-C", str(tmp_path), "ls"]).stdout


def test_tokens_of_an_unpriced_model_are_limited(tmp_path):
    result, _ = unpriced(tmp_path, tokens=800)
    assert (result.status, "tokens needed" in result.reason) == ("exhausted", True), result


def test_reflex_needs_no_price(tmp_path):
    assert asyncio.run(remote(tmp_path).run("what is 2+2")).output == "4"


def test_local_server_is_free_without_a_price(tmp_path, llm_server):
    llm_server.always(lambda body: answer(body, prompt_tokens=1000, completion_tokens=100))
    result = play(tmp_path, llm_server, price=None)
    assert (result.exit, result.spent["usd"], llm_server.count) == (0, 0, 3)


def test_doctor_warns_about_a_model_without_a_price(tmp_path, monkeypatch):
    monkeypatch.setenv("FRACTAL_MODEL", "openai/no-such-model")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    def model() -> dict[str, str]:
        checks = json.loads(CliRunner().invoke(cli, ["-C", str(tmp_path), "doctor", "--json"]).stdout)
        return next(each for each in checks if each["name"] == "model")

    assert model()["state"] == "missing" and "no price is known" in model()["fix"]
    monkeypatch.setenv("FRACTAL_PRICE", "{input: 1, output: 2}")
    assert model()["state"] == "ok"
