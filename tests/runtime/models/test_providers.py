"""Models behind an HTTP server: what is sent, what comes back, and what happens when the provider fails."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lanes import async_until, within
from llm_server import Answer

from kernel.asking.native import schema_of
from kernel.asking.responder import ReplyForm, Responder, Usage, estimate_tokens
from kernel.errors import ConfigurationError, ProviderError
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.litellm import LiteLLM
from runtime.models.openai_client import OpenAI
from runtime.models.prices import Price

needs_litellm = pytest.mark.skipif(
    find_spec("litellm") is None, reason="litellm is not installed: pip install 'fractal-runtime[llm]'"
)
SMALL = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LARGE = {"type": "object", "properties": {f"property_{n}": {"type": "string"} for n in range(40)}}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)


@pytest.fixture(params=[OpenAI, pytest.param(LiteLLM, marks=needs_litellm)])
def model(llm_server, request):
    def make(name: str = "openai/some-model", **settings):
        return request.param(name, **{"api_base": llm_server.url, "backoff": 0.02, **settings})

    return make


async def test_system_goes_first_and_the_reply_comes_back_with_its_cost(llm_server, model, make_ask):
    llm_server.say('{"a": 1}', prompt_tokens=120, completion_tokens=30)
    responder = model(price=Price(1, 10), options={"temperature": 0})
    reply = await responder.answer(make_ask(system="rules", user="task", max_tokens=77))
    assert (reply.text, reply.model, reply.truncated) == ('{"a": 1}', "openai/some-model", False)
    assert reply.usage == Usage(120, 30, pytest.approx(0.00042))
    body = llm_server.bodies[0]
    assert body["messages"] == [{"role": "system", "content": "rules"}, {"role": "user", "content": "task"}]
    assert (body["max_tokens"], body["temperature"], body["model"]) == (77, 0, "some-model")
    assert isinstance(responder, Responder)


async def test_an_unknown_model_is_free_on_this_machine_only(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer(prompt_tokens=1000, completion_tokens=100))
    known, unknown = model("openai/gpt-4o"), model()
    assert (await known.answer(make_ask())).usage.usd == pytest.approx(0.0035)
    assert (await unknown.answer(make_ask())).usage.usd == 0
    assert model(api_base="http://models.invalid/v1").estimate(make_ask()).usd is None
    assert known.estimate(make_ask(max_tokens=1000)).usd > 0.01


async def test_the_estimate_covers_what_is_sent(model, make_ask):
    ask = make_ask(system="s" * 300, user="u" * 600, schema=SMALL, max_tokens=500)
    estimate = model(price=Price(1, 1)).estimate(ask)
    assert 300 < estimate.prompt_tokens < 400
    assert estimate.completion_tokens == 500
    assert model(max_tokens=50, thinking_tokens=1000).estimate(ask).completion_tokens == 1050


def test_tokens_are_counted_by_the_models_own_tokenizer_where_there_is_one(model):
    text = "The quick brown fox jumps over the lazy dog. <|endoftext|> \ud83d"
    assert 10 < model("openai/gpt-4o").count(text) < 25
    assert model("groq/llama-3.3-70b-versatile").count(text) == estimate_tokens(text)
    with within(5):
        assert model("openai/gpt-4o").count("a" * 200_000) > 1000


async def test_the_form_is_enforced_where_the_provider_can(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer())
    await model("openai/gpt-4o").answer(make_ask(schema=SMALL))
    await model("openai/gpt-4o").answer(make_ask(schema=LARGE))
    forms = [body["response_format"]["type"] for body in llm_server.bodies]
    assert forms == ["json_schema", "json_object"]
    assert llm_server.bodies[0]["response_format"]["json_schema"]["schema"] == SMALL


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "response_format is not supported by this server"),
        (500, "1 validation error: {'loc': ('body', 'response_format', 'type'), 'msg': 'wrong input'}"),
    ],
)
async def test_a_provider_that_refuses_the_form_is_asked_in_words_from_then_on(
    llm_server, model, make_ask, status, message
):
    responder = model(retries=0)
    llm_server.fail(status, message)
    llm_server.always(lambda body: Answer())
    assert (await responder.answer(make_ask())).text == "{}"
    await responder.answer(make_ask())
    assert ["response_format" in body for body in llm_server.bodies] == [True, False, False]


async def test_a_reply_after_a_refused_one_is_another_sample(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer())
    await model().answer(make_ask())
    await model().answer(make_ask(sample=1))
    assert ["temperature" in body for body in llm_server.bodies] == [False, True]
    llm_server.fail(400, "Unsupported value: 'temperature' does not support 0.7 with this model")
    responder = model(retries=0)
    await responder.answer(make_ask(sample=1))
    assert "temperature" not in llm_server.bodies[-1]


@pytest.fixture
def turn(make_ask):
    """An ask of a turn that declares one tool."""
    tools = (schema_of(Catalogue([shipped_system()]).tools["read"]),)
    said = ({"role": "system", "content": "You work."}, {"role": "user", "content": "Count the lines."})
    return make_ask(phase="turn", system="", user="", tools=tools, messages=said)


async def test_native_calls_become_a_turn(llm_server, model, turn):
    llm_server.queue(Answer("", calls=(("read", '{"path": "a.txt"}'),)))
    reply = await model(native=True).answer(turn)
    calls = [{"tool": "read", "args": {"path": "a.txt"}}]
    assert json.loads(reply.text) == {"calls": calls, "text": ""}
    assert [tool["function"]["name"] for tool in llm_server.bodies[0]["tools"]] == ["read"]


async def test_a_server_that_refuses_native_calls_gets_the_tools_in_words(llm_server, model, turn):
    llm_server.fail(400, '"auto" tool choice requires --enable-auto-tool-choice')
    llm_server.say('{"done": "yes"}')
    responder = model(native=True, retries=0)
    reply = await responder.answer(turn)
    assert json.loads(reply.text) == {"done": "yes"}
    assert "read(path, lines?): text of a file" in llm_server.bodies[1]["messages"][0]["content"]
    assert not responder.takes_tools, "the next prompt is made in words"


@pytest.mark.parametrize(
    "status", [429, 503, *(pytest.param(each, marks=pytest.mark.night) for each in (408, 500, 502, 529))]
)
async def test_failures_that_pass_are_tried_again(llm_server, model, make_ask, status):
    llm_server.fail(status)
    llm_server.fail(status)
    llm_server.say('{"a": 1}')
    assert (await model().answer(make_ask())).text == '{"a": 1}'
    assert llm_server.count == 3


async def test_a_lost_connection_is_tried_again(llm_server, model, make_ask):
    llm_server.queue(Answer(drop=True))
    llm_server.say('{"a": 1}')
    assert (await model().answer(make_ask())).text == '{"a": 1}'


@pytest.mark.parametrize("raw", [b"<html>Sign in</html>", b'{"choices": []}', b"[1]", b"no", b'{"a": "b}'])
async def test_an_answer_that_is_no_reply_is_told_once(llm_server, model, make_ask, raw):
    llm_server.always(lambda body: Answer(raw=raw))
    with pytest.raises(ProviderError) as error:
        await model(retries=0).answer(make_ask())
    assert llm_server.count == 1
    assert not any(word in str(error.value) for word in ("Expecting value", "JSONDecodeError", "TypeError"))


async def test_a_slow_answer_is_given_up_and_tried_again(llm_server, model, make_ask):
    llm_server.say("late", delay=2)
    llm_server.say("in time")
    assert (await model(timeout=0.3).answer(make_ask())).text == "in time"


async def test_a_try_that_was_given_up_is_charged_whole(llm_server, model, make_ask):
    llm_server.queue(Answer(delay=2.0), Answer(prompt_tokens=10, completion_tokens=5))
    responder, ask = model(timeout=0.5, price=Price(10, 30)), make_ask()
    most = responder.estimate(ask)
    used = (await responder.answer(ask)).usage
    assert (used.calls, used.prompt_tokens) == (2, 10 + most.prompt_tokens)
    assert used.completion_tokens == 5 + most.completion_tokens
    assert used.usd == pytest.approx(Price(10, 30).of(used.prompt_tokens, used.completion_tokens))
    llm_server.always(lambda body: Answer(delay=2.0))
    with pytest.raises(ProviderError) as error:
        await model(timeout=0.05, retries=1).answer(ask)
    assert error.value.usage and error.value.usage.calls == 2


@pytest.mark.parametrize("how", [{"drop": True}, {"text": "no end " * 50, "cut": True}])
async def test_an_answer_that_is_cut_off_on_its_way_is_charged_whole(llm_server, model, make_ask, how):
    llm_server.queue(Answer(**how), Answer(prompt_tokens=10, completion_tokens=5))
    responder, ask = model(price=Price(10, 30)), make_ask()
    used = (await responder.answer(ask)).usage
    assert (used.calls, used.prompt_tokens) == (2, 10 + responder.estimate(ask).prompt_tokens)


async def test_a_server_that_cannot_be_reached_costs_nothing(llm_server, model, make_ask):
    with pytest.raises(ProviderError) as error:
        await model(api_base="http://127.0.0.1:9/v1", retries=1, price=Price(10, 30)).answer(make_ask())
    assert error.value.usage is None


@pytest.mark.parametrize("status", [429, 500, pytest.param(503, marks=pytest.mark.night)])
async def test_an_error_of_the_provider_costs_nothing(llm_server, model, make_ask, status):
    llm_server.fail(status)
    llm_server.queue(Answer(prompt_tokens=10, completion_tokens=5))
    used = (await model(price=Price(10, 30)).answer(make_ask())).usage
    assert (used.calls, used.prompt_tokens, used.completion_tokens) == (1, 10, 5)


async def test_retry_after_is_honoured(llm_server, model, make_ask):
    llm_server.fail(429, retry_after=0.15)
    llm_server.say("{}")
    await model().answer(make_ask())
    assert llm_server.times[1] - llm_server.times[0] >= 0.15


async def test_when_one_loop_has_to_wait_the_others_wait_as_well(llm_server, model, make_ask):
    llm_server.fail(429, retry_after=0.25)
    llm_server.always(lambda body: Answer())
    notices: list[str] = []
    first = asyncio.create_task(model().answer(make_ask(notify=notices.append)))
    await async_until(lambda: notices)
    await asyncio.gather(first, *(model().answer(make_ask()) for _ in range(3)))
    assert llm_server.count == 5
    assert min(llm_server.times[1:]) - llm_server.times[0] >= 0.25


async def test_in_the_end_it_fails_with_the_message_of_the_provider(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer(status=503, error={"message": "model is loading"}))
    with pytest.raises(
        ProviderError, match=r"openai/some-model at http.*failed 3 times in .* s, last: model is load"
    ):
        await model(retries=2).answer(make_ask())
    assert llm_server.count == 3


async def test_patience_bounds_the_tries(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer(status=429, headers={"Retry-After": "30"}))
    with within(4):
        with pytest.raises(ProviderError, match=r"no time is left for a retry in 3\d s"):
            await model(patience=5).answer(make_ask())
        with pytest.raises(ProviderError, match="reported a rate limit"):
            await model(patience=20).answer(make_ask())
    assert llm_server.count == 1


async def test_cancelling_stops_the_waiting(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer(status=500))
    task = asyncio.create_task(model(backoff=30).answer(make_ask()))
    await asyncio.to_thread(llm_server.wait_for, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_its_variable_and_how_to_go_on(llm_server, model, make_ask, status):
    llm_server.fail(status, "bad key")
    with pytest.raises(ConfigurationError, match=r"bad key.*set OPENAI_API_KEY and run `fractal resume`"):
        await model().answer(make_ask())
    assert llm_server.count == 1


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai/gpt-4o", "OPENAI_API_KEY"), ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY")],
)
async def test_a_missing_key_is_reported_without_a_call(make_ask, name, variable):
    with pytest.raises(ConfigurationError, match=variable):
        await LiteLLM(name, retries=0).answer(make_ask())


async def test_a_key_may_stand_in_any_variable(llm_server, model, make_ask, monkeypatch):
    with pytest.raises(ConfigurationError, match="MY_KEY is not set"):
        await model(key_env="MY_KEY").answer(make_ask())
    monkeypatch.setenv("MY_KEY", "sesame")
    llm_server.say("{}")
    await model(key_env="MY_KEY").answer(make_ask())
    assert llm_server.requests[0][1]["authorization"] == "Bearer sesame"


@pytest.mark.parametrize(
    ("status", "expected", "message", "more"),
    [
        (400, ProviderError, "This model's maximum context length is 10 tokens. You requested 900", {}),
        (404, ConfigurationError, "no such model", {}),
        (429, ProviderError, "You exceeded your quota", {"code": "insufficient_quota"}),
        (402, ProviderError, "Insufficient credits", {}),
        (501, ProviderError, "not implemented", {}),
    ],
)
async def test_an_error_that_a_retry_cannot_fix_is_raised_at_once(
    llm_server, model, make_ask, status, expected, message, more
):
    llm_server.fail(status, message, **more)
    with pytest.raises(expected, match=message):
        await model().answer(make_ask())
    assert llm_server.count == 1


async def test_a_bad_request_is_told_in_the_words_of_the_first_refusal(llm_server, model, make_ask):
    answers = iter(["first", "second", "third", "fourth", "fifth", "sixth"])
    llm_server.always(lambda body: Answer(status=400, error={"message": f"the {next(answers)} word"}))
    responder = model()
    with pytest.raises(ProviderError, match="the first word"):
        await responder.answer(make_ask())
    assert 2 <= llm_server.count <= 6, "each part is left out once"
    assert not responder.refused, "and sent again, since that did not help"


@needs_litellm
async def test_a_model_of_no_known_provider_is_told(make_ask):
    with pytest.raises(ConfigurationError, match="no such model"):
        await LiteLLM("nosuch/model").answer(make_ask())


async def test_a_reply_that_ran_out_of_tokens_is_marked_and_charged(llm_server, model, make_ask):
    llm_server.say('{"a": ', finish_reason="length", completion_tokens=200)
    llm_server.say(None, finish_reason="length")
    reply = await model(price=Price(1, 1)).answer(make_ask())
    assert (reply.text, reply.truncated, reply.usage.completion_tokens) == ('{"a": ', True, 200)
    assert (await model().answer(make_ask())).truncated


async def test_usage_is_estimated_when_the_provider_reports_none(llm_server, model, make_ask):
    llm_server.say("x" * 30, usage=False)
    used = (await model().answer(make_ask(system="s" * 30, user="u" * 30))).usage
    assert (used.prompt_tokens, used.completion_tokens) == (20, 10)


async def test_a_withheld_reply_is_reported(llm_server, model, make_ask):
    llm_server.say(None, finish_reason="content_filter", prompt_tokens=70, completion_tokens=4)
    with pytest.raises(ProviderError, match="filter") as error:
        await model(price=Price(10, 10)).answer(make_ask())
    assert error.value.usage == Usage(70, 4, pytest.approx(74e-5)), "it is paid for"


async def test_tokens_that_the_provider_had_cached_cost_what_its_price_list_says(llm_server, model, make_ask):
    async def cost(cached: int) -> float:
        llm_server.say("{}", prompt_tokens=1000, completion_tokens=100, cached_tokens=cached)
        return (await model("openai/gpt-4o").answer(make_ask())).usage.usd or 0.0

    assert await cost(0) == pytest.approx(0.0035)
    assert 0 < await cost(800) < 0.003


async def test_ollama_is_served_by_name_for_nothing_with_its_schema(llm_server, make_ask):
    llm_server.say('{"a": 1}', prompt_tokens=50, completion_tokens=5)
    model = LiteLLM("ollama/llama3", api_base=llm_server.host)
    reply = await model.answer(make_ask(schema=SMALL))
    assert (reply.text, reply.model, reply.usage) == ('{"a": 1}', "ollama/llama3", Usage(50, 5, 0.0))
    path, _, body = llm_server.requests[0]
    assert (path, body["model"], body["format"]) == ("/api/chat", "llama3", SMALL)
    assert model.estimate(make_ask()).usd == 0.0


async def test_a_prompt_that_ollama_cut_is_reported(llm_server, make_ask):
    llm_server.say("{}", prompt_tokens=8192)
    with pytest.raises(ProviderError, match="did not fit into the context of 8192 tokens"):
        await LiteLLM("ollama/llama3", api_base=llm_server.host).answer(make_ask())


async def test_halves_of_surrogate_pairs_do_not_stop_a_call(llm_server, model, make_ask):
    llm_server.say("{}")
    await model().answer(make_ask(user="a \ud83d b"))
    assert llm_server.count == 1


LATE = """
import asyncio, json, sys
connected = []
sys.addaudithook(lambda name, args: connected.append(args[1]) if name == "socket.connect" else None)
sys.addaudithook(lambda name, args: connected.append(args[0]) if name == "socket.getaddrinfo" else None)
sys.path[:0] = json.loads(sys.argv[2])
from conftest import build_ask
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.litellm import LiteLLM
model = LiteLLM("openai/gpt-4o", api_base=sys.argv[1])
assert "litellm" not in sys.modules
model.estimate(build_ask())
assert "litellm" not in sys.modules and connected == []
"""
WATCHED = f"""{LATE}
assert asyncio.run(model.answer(build_ask())).text == "{{}}"
assert "litellm" in sys.modules
hosts = {{each[0] if isinstance(each, tuple) else each for each in connected}}
assert hosts <= {{"127.0.0.1", b"127.0.0.1"}}, hosts
"""


def watched(code: str, url: str, folder: Path, *options: str) -> str:
    """Run a program in a folder; return what it wrote to standard error."""
    paths = json.dumps([str(Path(__file__).parents[3]), str(Path(__file__).parent)])
    words = [sys.executable, *options, "-W", "ignore::DeprecationWarning", "-c", code, url, paths]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def test_a_model_that_is_not_asked_imports_no_litellm_and_calls_nobody(llm_server, tmp_path):
    watched(LATE, llm_server.url, tmp_path)
    assert llm_server.count == 0


async def test_while_it_answers_only_its_server_is_called(llm_server, model, make_ask):
    connected: list[object] = []
    watching = True

    def watch(name: str, args: tuple[Any, ...]) -> None:
        if watching and name in ("socket.connect", "socket.getaddrinfo"):
            connected.append(args[1] if name == "socket.connect" else args[0])

    sys.addaudithook(watch)
    llm_server.say("{}")
    try:
        await model().answer(make_ask())
    finally:
        watching = False
    assert {each[0] if isinstance(each, tuple) else each for each in connected} == {"127.0.0.1"}


@pytest.mark.night
def test_nothing_else_is_called_or_printed_and_the_import_is_late(llm_server, tmp_path):
    (tmp_path / ".env").write_text("OPENAI_API_KEY=leaked\n")
    llm_server.say("{}")
    said = watched(WATCHED, llm_server.url, tmp_path, "-X", "dev")
    assert llm_server.requests[0][1]["authorization"] == "Bearer none"
    assert "never" not in said, said


@pytest.mark.parametrize("phase", ["turn", "check"])
async def test_a_small_question_asks_for_no_json(llm_server, make_ask, phase):
    llm_server.say("It is 42.", prompt_tokens=50, completion_tokens=5)
    ask = replace(make_ask(phase, schema=SMALL), form=ReplyForm("text"))
    assert (await LiteLLM("ollama/llama3", api_base=llm_server.host).answer(ask)).text == "It is 42."
    assert not llm_server.requests[0][2].get("format")
