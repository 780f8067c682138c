"""What a server refuses of a request: a form, a length, the name of a limit; and models that think."""

# ruff: noqa: E501 (the words of servers)

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llm_server import Answer, LlmServer
from test_answers import READ, SAID
from test_providers import needs_litellm

from kernel.errors import ConfigurationError, ProviderError
from runtime.models import make_responder
from runtime.models.failures import failure_of
from runtime.models.litellm import LiteLLM
from runtime.models.openai_client import OpenAI
from runtime.models.prices import Price
from runtime.models.servers import Servers
from runtime.models.thinking import USUAL, room_of

PART: dict[str, Callable[[Any], bool]] = {
    "response_format": lambda body: "response_format" in body,
    "stream_options": lambda body: "stream_options" in body,
    "stream": lambda body: "stream" in body,
    "temperature": lambda body: "temperature" in body,
    "tools": lambda body: "tools" in body,
    "system": lambda body: body["messages"][0]["role"] == "system",
}


@pytest.fixture
def model(llm_server: LlmServer) -> Callable[..., OpenAI]:
    def make(name: str = "openai/some-model", **settings: Any) -> OpenAI:
        return OpenAI(name, **{"api_base": llm_server.url, "retries": 0, **settings})

    return make


def refuse(server: LlmServer, part: str, status: int, words: str) -> None:
    """Refuse each request with this part, and answer the others."""

    def answer(body: Any) -> Answer:
        return (
            Answer(status=status, error={"message": words}) if PART[part](body) else Answer('{"done": "yes"}')
        )

    server.always(answer)


@pytest.mark.parametrize(
    ("part", "status", "words"),
    [
        ("response_format", 400, "failed to parse grammar"),
        ("response_format", 400, "JSON schema conversion failed"),
        ("response_format", 400, "JSON mode is not enabled"),
        ("response_format", 400, "Failed to generate JSON"),
        ("response_format", 500, "xgrammar: the schema cannot be compiled"),
        ("response_format", 422, "Unprocessable Entity"),
        ("response_format", 400, "no"),
        ("stream_options", 400, "Extra inputs are not permitted: stream_options"),
        ("stream_options", 422, "Validation error"),
        ("stream", 400, "Streaming is not supported for this model"),
        ("stream", 400, "bad request"),
        ("temperature", 400, "Unsupported value: 'temperature' does not support 0.7 with this model"),
        ("temperature", 400, "invalid_request_error"),
        ("system", 400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
        ("system", 400, "System role not supported"),
        ("system", 500, "Jinja template error: System role not supported"),
        ("system", 400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        ("system", 400, "INVALID_ARGUMENT"),
    ],
)
async def test_a_part_that_a_server_refuses_is_left_out_from_then_on(
    llm_server, model, make_ask, part, status, words
):
    refuse(llm_server, part, status, words)
    responder = model()
    ask = make_ask(sample=1)
    assert json.loads((await responder.answer(ask)).text) == {"done": "yes"}
    if responder.one_at_fault:  # the first reply came without all parts; the next ask finds the one
        assert llm_server.count == 2
        assert json.loads((await responder.answer(ask)).text) == {"done": "yes"}
    assert responder.refused == {part}, "and nothing else"
    before = llm_server.count
    await responder.answer(ask)
    assert llm_server.count == before + 1
    sent = llm_server.bodies[-1]
    assert [name for name, has in PART.items() if has(sent)] == [
        name
        for name in PART
        if name not in (part, "tools", *(("stream_options",) if part == "stream" else ()))
    ]
    assert "Reply with one JSON object." in json.dumps(sent["messages"]), "nothing of the prompt is lost"


@pytest.mark.parametrize("words", ["no", "tools are not supported"])
async def test_a_server_that_refuses_tools_in_any_words_gets_them_in_words(
    llm_server, model, make_ask, words
):
    refuse(llm_server, "tools", 400, words)
    responder = model()
    ask = make_ask("turn", system="", user="", tools=(READ,), messages=SAID)
    assert json.loads((await responder.answer(ask)).text) == {"done": "yes"}
    assert json.loads((await responder.answer(ask)).text) == {"done": "yes"}
    assert not responder.takes_tools


async def test_a_refusal_that_names_nothing_and_stays_costs_one_more_request(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer(status=400, error={"message": "not allowed in your region"}))
    with pytest.raises(ProviderError, match="not allowed in your region"):
        await model().answer(make_ask())
    assert llm_server.count == 2


async def test_two_refusals_are_obeyed_one_after_the_other(llm_server, model, make_ask):
    def answer(body: Any) -> Answer:
        for part in ("stream_options", "response_format"):
            if part in body:
                return Answer(status=400, error={"message": f"{part}: not permitted"})
        return Answer()

    llm_server.always(answer)
    assert (await model().answer(make_ask())).text == "{}"
    assert llm_server.count == 3


async def test_what_a_server_has_named_is_known_to_the_next_process(llm_server, make_ask, tmp_path: Path):
    def responder() -> Any:
        settings = {"api_base": llm_server.url, "retries": 0}
        return make_responder("openai/m", settings=settings, state=tmp_path)

    refuse(llm_server, "response_format", 400, "response_format is not supported")
    await responder().answer(make_ask())
    assert llm_server.count == 2
    await responder().answer(make_ask())
    assert llm_server.count == 3


async def test_an_argument_of_the_settings_that_is_refused_is_left_out_and_told(llm_server, model, make_ask):
    notices: list[str] = []
    refuse(
        llm_server, "temperature", 400, "Unsupported value: 'temperature' does not support 0 with this model."
    )
    await model(options={"temperature": 0}).answer(make_ask(notify=notices.append))
    assert notices == ["openai/some-model: the server refuses temperature, which is left out now"]


@pytest.mark.parametrize(
    ("status", "words", "told", "kind"),
    [
        (
            400,
            "The response was filtered due to Azure OpenAI's content management policy",
            "filter",
            ProviderError,
        ),
        (400, "API key not valid. Please pass a valid API key.", "refused the key", ConfigurationError),
        (400, "Your input exceeds the context window of this model.", "longer than", ProviderError),
    ],
)
async def test_what_no_part_is_the_cause_of_is_told_at_once(
    llm_server, model, make_ask, status, words, told, kind
):
    llm_server.always(lambda body: Answer(status=status, error={"message": words}))
    with pytest.raises(kind, match=told):
        await model().answer(make_ask())
    assert llm_server.count == 1


def limited(server: LlmServer, name: str, words: str) -> None:
    """Refuse the one name of the limit of a reply."""
    server.always(lambda body: Answer(status=400, error={"message": words}) if name in body else Answer())


@pytest.mark.parametrize(
    ("model_name", "refused", "wanted", "words"),
    [
        (
            "openai/gpt-5-mini",
            "max_tokens",
            "max_completion_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        ),
        ("mistral/m", "max_tokens", "max_completion_tokens", "max_tokens: unknown field"),
    ],
)
async def test_the_limit_of_a_reply_has_the_name_that_the_server_wants(
    llm_server, make_ask, tmp_path, model_name, refused, wanted, words
):
    servers = Servers(tmp_path / "servers.json")
    limited(llm_server, refused, words)
    for count in (2, 3):
        await OpenAI(model_name, api_base=llm_server.url, retries=0, servers=servers).answer(make_ask())
        assert (llm_server.count, wanted in llm_server.bodies[-1]) == (count, True), "it is remembered"


async def test_a_server_that_knows_the_old_name_only_gets_that(llm_server, model, make_ask):
    responder = model()
    responder.limit = "max_completion_tokens"
    limited(
        llm_server, "max_completion_tokens", "Unrecognized request argument supplied: max_completion_tokens"
    )
    await responder.answer(make_ask(max_tokens=77))
    assert llm_server.bodies[-1]["max_tokens"] == 77


VLLM = (
    "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length is 8192 "
    "tokens and your request has 500 input tokens (16000 > 8192 - 500)."
)
TOO_LARGE = [
    (VLLM, 8192 - 500, 8192),
    ("This model's maximum context length is 4096 tokens. However, you requested 17000 tokens (1000 in the messages, 16000 in the completion). Please reduce the length of the messages or completion.", 3096, 4096),
    ("max_tokens is too large: 16000. This model supports at most 4096 completion tokens, whereas you provided 16000.", 4096, None),
    ("max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet", 8192, None),
    ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model", 8192, None),
    ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192, None),
    ("Range of max_tokens should be [1, 8192]", 8192, None),
    ("The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.", 4096, None),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 3000 `inputs` tokens and 16000 `max_new_tokens`", 1097, 4097),
    ("input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000, decrease input length or `max_tokens` and try again", 10_000, None),
    ("Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 16100 tokens: 100 tokens from the input messages and 16000 tokens for the completion.", 3996, 4096),
    ("max_tokens is too large", 8000, None),
]  # fmt: skip


@pytest.mark.parametrize(("words", "most", "window"), TOO_LARGE)
async def test_a_limit_that_is_too_large_is_lowered_by_what_the_server_says(
    llm_server, model, make_ask, words, most, window
):
    llm_server.always(
        lambda body: Answer(status=400, error={"message": words}) if body["max_tokens"] > most else Answer()
    )
    responder = model()
    await responder.answer(make_ask(max_tokens=16_000))
    assert most * 0.5 <= llm_server.bodies[-1]["max_tokens"] <= most
    assert llm_server.count <= 3
    if window:
        assert (responder.window, responder.window_source) == (window, "the server")


async def test_a_server_that_counts_the_prompt_wrongly_is_asked_for_less_and_less(
    llm_server, model, make_ask
):
    # some state only the least number that is too large
    words = "This model's maximum context length is 9000 tokens. However, you requested {} output tokens and your prompt contains at least {} input tokens"

    def answer(body: Any) -> Answer:
        asked = body["max_tokens"]
        if asked <= 3000:
            return Answer()
        return Answer(status=400, error={"message": words.format(asked, 9001 - asked)})

    llm_server.always(answer)
    await model().answer(make_ask(max_tokens=8000))
    assert 1000 < llm_server.bodies[-1]["max_tokens"] <= 3000


@pytest.mark.parametrize(
    ("words", "window"),
    [
        (
            "This model's maximum context length is 6000 tokens. However, your messages resulted in 9000 tokens.",
            6000,
        ),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("prompt is too long: 9000 tokens > 8000 maximum", 8000),
        ("The input token count (9000) exceeds the maximum number of tokens allowed (8192).", 8192),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32768,
        ),
        ("Range of input length should be [1, 6000]", 6000),
        ("This model's maximum prompt length is 6000 but the request contains 9000 tokens.", 6000),
    ],
)
async def test_a_prompt_that_is_too_long_teaches_the_window(
    llm_server, model, make_ask, words, window, tmp_path
):
    llm_server.always(lambda body: Answer(status=400, error={"message": words}))
    servers = Servers(tmp_path / "servers.json")
    responder = model(servers=servers)
    with pytest.raises(ProviderError, match="longer than the model's context"):
        await responder.answer(make_ask(user="word " * 40_000))
    assert (responder.window, responder.window_source) == (window, "the server")
    assert model(servers=servers).window == window, "the next process knows it"
    assert model(servers=servers, context=2048).window == 2048


@pytest.mark.parametrize(
    ("name", "thinks"),
    [
        ("openai/gpt-5-mini", True),
        ("openai/gpt-5.1", True),
        ("openai/o3", True),
        ("openai/o4-mini", True),
        ("openrouter/openai/o1-pro", True),
        ("deepseek/deepseek-reasoner", True),
        ("groq/qwen/qwen3-32b", True),
        ("x/Qwen3-30B-A3B-Thinking-2507", True),
        ("groq/openai/gpt-oss-120b", True),
        ("gemini/gemini-2.5-flash", True),
        ("gemini/gemini-3-pro", True),
        ("openai/gpt-5-chat-latest", False),
        ("openai/gpt-4o", False),
        ("openai/foo3", False),
        ("x/Qwen3-30B-A3B-Instruct-2507", False),
        ("x/qwen3-coder", False),
        ("deepseek/deepseek-chat", False),
        ("mistral/mistral-medium-latest", False),
    ],
)
def test_models_that_are_known_to_think_have_room_for_it(name, thinks):
    assert room_of(name, 128_000) == (USUAL if thinks else 0)
    assert room_of(name, 8_000) == (2_000 if thinks else 0)


async def test_room_for_thinking_is_asked_for_and_reserved(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer())
    for settings, most in (({}, USUAL + 200), ({"thinking_tokens": 0}, 200), ({"thinking_tokens": 50}, 250)):
        responder = model("openai/gpt-5-mini", **settings)
        await responder.answer(make_ask(max_tokens=200))
        assert llm_server.bodies[-1]["max_tokens"] == most
        assert responder.estimate(make_ask(max_tokens=200)).completion_tokens == most


def thought(tokens: int, **message: Any) -> Answer:
    details = {"completion_tokens_details": {"reasoning_tokens": tokens}}
    used = {"prompt_tokens": 100, "completion_tokens": tokens, **details}
    choice = {"message": {"content": "", **message}, "finish_reason": "length"}
    return Answer(raw=json.dumps({"choices": [choice], "usage": used}).encode())


@pytest.mark.parametrize(
    "answer",
    [
        thought(2000),
        thought(0, reasoning_content="so " * 500),
        thought(0, content="<think>" + "so " * 500),
        thought(1990, content='{"a'),
        Answer("", finish_reason="length", completion_tokens=2000),
    ],
)
async def test_a_reply_whose_tokens_all_went_into_thinking_is_asked_for_with_more_room(
    llm_server, model, make_ask, answer
):
    notices: list[str] = []
    llm_server.queue(answer, Answer('{"a": 1}'))
    responder = model(price=Price(1, 10))
    ask = make_ask(max_tokens=2000, notify=notices.append)
    reply = await responder.answer(ask)
    assert (reply.text, reply.truncated, reply.usage.calls) == ('{"a": 1}', False, 2)
    assert [body["max_tokens"] for body in llm_server.bodies] == [2000, 6000]
    assert llm_server.bodies[0]["messages"] == llm_server.bodies[1]["messages"], "and not for fewer words"
    assert notices == ["openai/some-model: its thinking took all of 2,000 tokens; it is given more"]
    llm_server.say("{}")
    await responder.answer(ask)
    assert llm_server.bodies[-1]["max_tokens"] == 6000, "the next ask has that room at once"


async def test_thinking_without_an_end_is_told_with_its_remedy_and_charged(llm_server, model, make_ask):
    llm_server.always(lambda body: thought(body["max_tokens"]))
    with pytest.raises(ProviderError, match=r"its thinking took all of .*thinking_tokens: \d+") as error:
        await model(price=Price(1, 10)).answer(make_ask(max_tokens=2000))
    assert llm_server.count == 3
    assert error.value.usage.calls == 3
    assert error.value.usage.completion_tokens == sum(body["max_tokens"] for body in llm_server.bodies)


async def test_a_text_that_is_cut_off_is_no_thinking(llm_server, model, make_ask):
    llm_server.say('{"a": ', finish_reason="length")
    assert (await model().answer(make_ask())).truncated
    assert llm_server.count == 1


async def test_a_server_without_streams_answers_in_one_piece(llm_server, model, make_ask):
    refuse(llm_server, "stream", 400, "stream is not supported")
    pieces: list[str] = []
    await model().answer(replace(make_ask(), on_text=pieces.append))
    assert pieces == ['{"done": "yes"}']


async def test_a_trial_that_is_cut_off_leaves_nothing_out_of_later_asks(llm_server, model, make_ask):
    llm_server.queue(Answer(status=400, error={"message": "no"}))
    llm_server.queue(Answer(status=503, error={"message": "overloaded"}))
    responder = model()
    with pytest.raises(ProviderError):
        await responder.answer(make_ask())
    llm_server.say("{}")
    await responder.answer(make_ask())
    assert not responder.refused and "response_format" in llm_server.bodies[-1]


@pytest.mark.parametrize(
    "words",
    [
        "Invalid schema for function 'db_query': None is not of type 'object'.",
        "Provider returned error. Upstream error: invalid request",
    ],
)
async def test_what_is_wrong_with_one_request_is_no_fact_of_its_server(llm_server, make_ask, tmp_path, words):
    def responder() -> Any:
        settings = {"api_base": llm_server.url, "retries": 0}
        return make_responder("openai/m", settings=settings, state=tmp_path)

    def ask() -> Any:
        return make_ask("turn", system="", user="", tools=(READ,), messages=SAID)

    llm_server.queue(Answer(status=400, error={"message": words}))
    llm_server.always(lambda body: Answer('{"done": "yes"}'))
    await responder().answer(ask())
    count = llm_server.count
    await responder().answer(ask())
    assert llm_server.count == count + 1
    assert {"tools", "stream"} <= llm_server.bodies[-1].keys()


async def test_a_refusal_that_repeats_the_request_names_nothing_of_it(llm_server, model, make_ask):
    def answer(body: Any) -> Answer:
        if "model" in body and "response_format" in body:
            detail = [{"loc": ["body", "x"], "msg": "no", "input": body}]
            return Answer(status=422, raw=json.dumps({"detail": detail}).encode())
        return Answer("{}")

    llm_server.always(answer)
    responder = model()
    await responder.answer(make_ask())
    await responder.answer(make_ask())
    assert responder.refused == {"response_format"}


@needs_litellm
async def test_a_refusal_that_litellm_knows_as_one_for_its_length_is_one(llm_server, make_ask, monkeypatch):
    """Its words alone do not say so."""
    monkeypatch.setenv("COHERE_API_KEY", "a-key-of-a-test")
    llm_server.always(lambda body: Answer(status=400, error={"message": "too many tokens: at most a few"}))
    model = LiteLLM("cohere_chat/command-r", api_base=llm_server.url, retries=0)
    with pytest.raises(ProviderError, match="longer than the model's context"):
        await model.answer(make_ask("turn", system="", user="", tools=(READ,), messages=SAID))
    assert llm_server.count == 1


@pytest.mark.parametrize("status", [None, "429", "no"])
def test_an_error_of_a_library_with_a_strange_status_is_a_failure(status):
    error = type("StrangeError", (Exception,), {"status_code": status})("no")
    assert not failure_of(error).passes
