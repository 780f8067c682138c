"""Prompts that providers cache: what they are told of it, and what is shown of it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conversations import talk
from in_process import in_process
from llm_server import Answer, LlmServer
from test_turns import READ

from kernel.asking.responder import Ask
from runtime.api.fractal import Fractal
from runtime.models.openai_client import OpenAI
from runtime.models.prices import Price
from runtime.server.page.run_page import run_page

DONE = json.dumps({"calls": [], "text": "5"})


@pytest.fixture
def turn(make_ask: Callable[..., Ask]) -> Callable[[int], Ask]:
    return lambda turns: make_ask("turn", system="", user="", messages=tuple(talk(turns)), tools=(READ,))


def marks(messages: Sequence[dict[str, Any]]) -> list[tuple[int, str]]:
    """The places of messages with a mark, and whether it is in their text or beside it."""
    found = [(at, "beside") for at, each in enumerate(messages) if "cache_control" in each]
    texts = [(at, each["content"]) for at, each in enumerate(messages) if isinstance(each["content"], list)]
    return sorted([*found, *((at, "text") for at, parts in texts if parts[-1]["cache_control"])])


async def test_the_requests_of_a_conversation_have_its_name_for_openai(
    llm_server: LlmServer, turn: Callable[[int], Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", llm_server.host)  # stands for OpenAI's server
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    model = OpenAI("openai/gpt-5-mini", api_base="http://api.openai.com/v1", retries=0, context=9000)
    llm_server.always(lambda body: Answer(DONE))
    for ask in (turn(1), turn(2)):
        await model.answer(ask)
    first, second = llm_server.bodies
    assert first["prompt_cache_key"] == second["prompt_cache_key"] == "fractal-system-abc123"
    assert second["messages"][: len(first["messages"])] == first["messages"], "it only grows"
    assert "cache_control" not in json.dumps([first, second])


async def test_a_name_that_is_refused_is_left_out_from_then_on(
    llm_server: LlmServer, turn: Callable[[int], Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", llm_server.host)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    model = OpenAI("openai/old", api_base="http://us.api.openai.com/v1", retries=0, context=9000)
    llm_server.fail(400, message="Unknown parameter: 'prompt_cache_key'.")
    llm_server.always(lambda body: Answer(DONE))
    await model.answer(turn(1))
    await model.answer(turn(2))
    assert ["prompt_cache_key" in body for body in llm_server.bodies] == [True, False, False]


async def test_a_server_of_ones_own_gets_no_name(llm_server: LlmServer, turn: Callable[[int], Ask]) -> None:
    llm_server.say(DONE)
    await OpenAI("openai/m", api_base=llm_server.url).answer(turn(1))
    assert "prompt_cache_key" not in llm_server.bodies[0]


def test_a_claude_model_is_marked_as_its_server_wants_it(
    turn: Callable[[int], Ask], llm_server: LlmServer
) -> None:
    there = OpenAI("openrouter/anthropic/claude-sonnet-4.5").messages(turn(2))
    gateway = OpenAI("openai/claude-sonnet-4-5", api_base=llm_server.url).messages(turn(2))
    last = len(there) - 1
    assert there[last]["role"] == "tool"
    assert marks(there) == [(0, "text"), (last - 2, "text"), (last, "text")]
    assert marks(gateway) == [(0, "text"), (last - 2, "beside"), (last, "beside")]
    for other in ("openrouter/openai/gpt-5-mini", "gemini/gemini-3-pro", "deepseek/deepseek-chat"):
        assert "cache_control" not in json.dumps(OpenAI(other).messages(turn(2)))


@pytest.mark.parametrize(
    "words",
    [
        "messages.0.content.0.cache_control: Extra inputs are not permitted",
        "messages[0].content: Input should be a valid string",
    ],
)
async def test_marks_that_are_refused_are_left_out_from_then_on(
    llm_server: LlmServer, turn: Callable[[int], Ask], words: str
) -> None:
    model = OpenAI("openai/claude-sonnet-4-5", api_base=llm_server.url, retries=0)
    llm_server.fail(400, message=words)
    llm_server.always(lambda body: Answer(DONE))
    await model.answer(turn(1))
    await model.answer(turn(2))
    assert ["cache_control" in json.dumps(body) for body in llm_server.bodies] == [True, False, False]


async def test_cached_tokens_are_counted_and_cost_less(
    llm_server: LlmServer, turn: Callable[[int], Ask]
) -> None:
    llm_server.say(DONE, prompt_tokens=1000, cached_tokens=900, completion_tokens=10)
    price = Price(10.0, 10.0, 1.0)
    reply = await OpenAI("openai/m", api_base=llm_server.url, price=price).answer(turn(1))
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens) == (1000, 900)
    assert reply.usage.usd == pytest.approx((100 * 10 + 900 + 10 * 10) / 1_000_000)


async def test_cached_tokens_are_counted_where_the_server_says_what_it_costs(
    llm_server: LlmServer, turn: Callable[[int], Ask]
) -> None:
    used = {"prompt_tokens": 1000, "completion_tokens": 10, "cost": 0.25}
    used["prompt_tokens_details"] = {"cached_tokens": 900}
    choice = {"message": {"role": "assistant", "content": DONE}, "finish_reason": "stop"}
    llm_server.queue(Answer(raw=json.dumps({"choices": [choice], "usage": used}).encode()))
    reply = await OpenAI("openai/m", api_base=llm_server.url).answer(turn(1))
    assert (reply.usage.usd, reply.usage.cached_tokens) == (0.25, 900)


def test_a_run_tells_its_fresh_and_its_cached_tokens(tmp_path: Path, llm_server: LlmServer) -> None:
    look = {"calls": [{"tool": "list", "args": {}}]}
    done = {"calls": [], "done": {"answer": "There are no files."}}
    llm_server.say(json.dumps(look), prompt_tokens=1000, cached_tokens=0)
    llm_server.say(json.dumps(done), prompt_tokens=1200, cached_tokens=900)
    llm_server.always(lambda body: Answer(json.dumps(done), prompt_tokens=0))
    rung = {"model": "openai/m", "api_base": llm_server.url, "options": {"form": "json"}}
    settings = {"ladder": [rung], "remember": False, "embedder": "lexical"}
    fractal = Fractal(tmp_path, settings=settings)
    result = asyncio.run(fractal.run("Which files do you see in here, dear model?"))
    assert result.spent["cached_tokens"] == 900
    rows = json.loads(in_process(tmp_path, ["cost", "--json"], os.environ).out)
    assert (rows["total"]["prompt_tokens"], rows["total"]["cached_tokens"]) == (2200, 900)
    heads, *_, total = in_process(tmp_path, ["cost"], os.environ).out.splitlines()
    assert heads.split()[3:7] == ["CALLS", "PROMPT", "FRESH", "CACHED"]
    assert total.split()[2:5] == ["2,200", "1,300", "900"]
    phases = [part for parts in run_page(fractal, result.run).phases.values() for part in parts]
    assert sum(part.spent["cached_tokens"] for part in phases) == 900
    assert [call.usage.cached_tokens for part in phases for call in part.calls if call.usage] == [0, 900]
