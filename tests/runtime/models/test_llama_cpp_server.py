"""The server of llama-cpp-python, as it is: what it was seen to answer, byte by byte.

The bytes were taken from release 0.3.36 on loopback. It says errors in a stream by ending it, validates
requests with the status 500, and ends the stream of one client for any other request.
"""

# ruff: noqa: E501 (what the server says)

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from llm_server import Answer, LlmServer
from test_answers import READ, SAID

from kernel.errors import ProviderError
from runtime.models.openai_client import OpenAI
from runtime.models.servers import Servers

STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
LINE = (
    'data: {{"id": "chatcmpl-965d54de-9fb9-43f2-a4af-4c2ef4920afc", "model": "m", "created": 1795968198, '
    '"object": "chat.completion.chunk", "choices": [{{"index": 0, "delta": {}, "logprobs": null, '
    '"finish_reason": {}}}]}}\n\n'
)
BEGINS = LINE.format('{"role": "assistant"}', "null") + LINE.format('{"content": ""}', "null")
PING = ": ping - 2026-11-29 16:03:33.121874+00:00\n\n"
TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, you requested 4827 tokens (4627 in the messages, 200 in "
    "the completion). Please reduce the length of the messages or completion."
)
VALIDATION = '\n\n  File "/site-packages/llama_cpp/server/app.py", line 376, in create_chat_completion\n    POST /v1/chat/completions'
NULL = (
    "7 validation errors:\n"
    "  {'type': 'literal_error', 'loc': ('body', 'messages', 2, 'ChatCompletionRequestSystemMessage', 'role'), 'msg': \"Input should be 'system'\", 'input': 'assistant', 'ctx': {'expected': \"'system'\"}}\n"
    "  {'type': 'literal_error', 'loc': ('body', 'messages', 2, 'ChatCompletionRequestUserMessage', 'role'), 'msg': \"Input should be 'user'\", 'input': 'assistant', 'ctx': {'expected': \"'user'\"}}\n"
    "  {'type': 'string_type', 'loc': ('body', 'messages', 2, 'ChatCompletionRequestAssistantMessage', 'content'), 'msg': 'Input should be a valid string', 'input': None}\n"
    "  {'type': 'missing', 'loc': ('body', 'messages', 2, 'ChatCompletionRequestToolMessage', 'tool_call_id'), 'msg': 'Field required', 'input': {'role': 'assistant', 'content': None, 'tool_calls': [{'id': 'c1', 'type': 'function', 'function': {'name': 'read', 'arguments': '{}'}}]}}"
    + VALIDATION
)
SCHEMA = (
    "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema', 'ctx': {'expected': \"'text' or 'json_object'\"}}"
    + VALIDATION
)
SEED = (
    "1 validation error:\n  {'type': 'int_parsing', 'loc': ('body', 'seed'), 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'x'}"
    + VALIDATION
)
CALLED = [
    *SAID,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "two lines"},
]


def said(*texts: str, finish: str | None = "stop") -> bytes:
    """A stream of these texts; without a `finish` one that the server has broken off."""
    pieces = [LINE.format(json.dumps({"content": each}), "null") for each in texts]
    last = LINE.format("{}", json.dumps(finish)) if finish else ""
    return "".join([BEGINS, *pieces, last, "data: [DONE]\n\n"]).encode()


def whole(text: str, finish: str = "stop") -> Answer:
    message = {"content": text, "role": "assistant"}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    usage = {"prompt_tokens": 34, "completion_tokens": 12, "total_tokens": 46}
    return Answer(raw=json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode())


def refusal(status: int, words: str, kind: str = "internal_server_error", code: str | None = None) -> Answer:
    error = {"message": words, "type": kind, "param": None, "code": code}
    return Answer(status=status, raw=json.dumps({"error": error}).encode())


def streamed(raw: bytes) -> Answer:
    return Answer(raw=raw, headers=STREAM)


@pytest.fixture
def model(llm_server: LlmServer) -> Callable[..., OpenAI]:
    def make(name: str = "openai/m", **settings: Any) -> OpenAI:
        return OpenAI(name, **{"api_base": llm_server.url, "retries": 0, **settings})

    return make


@pytest.fixture
def turn(make_ask: Any) -> Callable[..., Any]:
    def make(messages: Any = SAID, **more: Any) -> Any:
        return make_ask("turn", system="", user="", tools=(READ,), messages=messages, **more)

    return make


async def test_a_stream_that_ends_before_anything_came_is_asked_for_in_one_piece(llm_server, model, turn):
    notices: list[str] = []
    llm_server.always(lambda body: streamed(b"") if body.get("stream") else whole("It is blue."))
    responder = model()
    reply = await responder.answer(turn(notify=notices.append))
    assert json.loads(reply.text)["text"] == "It is blue."
    assert ["stream" in body for body in llm_server.bodies] == [True, False]
    assert notices == ["openai/m: the server broke its stream off; it is asked for the reply in one piece"]
    assert reply.usage.calls == 2, "nobody knows what the first one has cost"
    for count in (4, 5, 6):
        await responder.answer(turn())
        assert llm_server.count == count, "a server that twice did not stream is asked in one piece"


async def test_a_connection_that_broke_off_once_does_not_end_streams_for_good(llm_server, model, turn):
    llm_server.queue(streamed(b""), whole("It is blue."))
    llm_server.always(lambda body: streamed(said("It is blue.")))
    responder = model()
    for _ in range(2):
        await responder.answer(turn())
    assert ["stream" in body for body in llm_server.bodies] == [True, False, True]


async def test_what_a_stream_does_not_say_is_said_in_one_piece(llm_server, model, turn, tmp_path):
    servers = Servers(tmp_path / "servers.json")
    too_long = refusal(400, TOO_LONG, "invalid_request_error", "context_length_exceeded")
    llm_server.always(lambda body: streamed(b"") if body.get("stream") else too_long)
    responder = model(servers=servers)
    with pytest.raises(ProviderError, match=r"longer than the model's context .*2048 tokens") as told:
        await responder.answer(turn())
    assert (llm_server.count, told.value.usage) == (2, None), (
        "an error costs nothing, also where a stream hid it"
    )
    assert (responder.window, responder.window_source) == (2048, "the server")
    llm_server.always(lambda body: streamed(said("It is blue.")))
    await responder.answer(turn())
    assert "stream" in llm_server.bodies[-1], "the prompt was at fault, and not the stream"


@pytest.mark.parametrize("raw", [b"", said("It is", finish=None)], ids=["nothing", "a part"])
async def test_the_connection_of_a_stream_that_broke_off_is_not_used_again(llm_server, model, turn, raw):
    llm_server.queue(Answer(raw=raw, headers=STREAM, last=True))
    llm_server.always(lambda body: whole("It is blue."))
    assert json.loads((await model().answer(turn())).text)["text"] == "It is blue."


async def test_a_reply_that_was_broken_off_for_another_client_is_no_reply(llm_server, model, turn):
    broken = streamed(said("It is", " bl", finish=None))
    llm_server.always(lambda body: broken if body.get("stream") else whole("It is blue."))
    reply = await model().answer(turn())
    assert json.loads(reply.text)["text"] == "It is blue."
    assert reply.usage.calls == 2, "what came of it is charged"


async def test_a_server_that_has_only_streams_is_not_given_up(llm_server, model, turn):
    llm_server.queue(streamed(b""), refusal(400, "stream must be true"), streamed(said("It is blue.")))
    reply = await model(retries=1, backoff=0.01).answer(turn())
    assert json.loads(reply.text)["text"] == "It is blue."


@pytest.mark.parametrize("refuses", [True, False])
async def test_a_reply_of_a_server_that_has_only_streams_and_names_no_end_is_taken(
    llm_server, model, turn, refuses
):
    unended = streamed(said("It is", " blue.", finish=None))
    refused = refusal(400, "only streams are supported")
    llm_server.always(lambda body: unended if body.get("stream") or not refuses else refused)
    responder = model(retries=1, backoff=0.01)
    for count in (3, 4):
        reply = await responder.answer(turn())
        assert (json.loads(reply.text)["text"], llm_server.count) == ("It is blue.", count)


async def test_a_reply_in_one_piece_has_the_time_of_the_whole_reply(llm_server, model, turn):
    llm_server.queue(streamed(b""))
    llm_server.always(lambda body: Answer("It is blue.", delay=0.5))
    reply = await model(timeout={"first_token": 0.3}).answer(turn())
    assert json.loads(reply.text)["text"] == "It is blue."


async def test_a_server_that_says_that_it_works_is_waited_for(llm_server, model, turn):
    """It answers one client at a time: the others hear of it every 15 seconds."""
    pings = (PING.encode(),) * 4
    llm_server.queue(Answer(parts=(*pings, said("It is blue.")), apart=0.2, headers=STREAM))
    reply = await model(timeout={"first_token": 0.5}).answer(turn())
    assert json.loads(reply.text)["text"] == "It is blue."
    assert llm_server.count == 1


async def test_it_is_asked_for_its_window_before_the_call_that_this_would_break_off(llm_server, model, turn):
    """Any request, also that for the list of models, ends the stream of another."""
    llm_server.pages["/v1/models"] = {"data": [{"id": "m", "object": "model", "owned_by": "me"}]}
    llm_server.page_delay = 0.2
    llm_server.always(lambda body: whole(f"{len(llm_server.gets)} asked"))
    assert json.loads((await model().answer(turn())).text)["text"] == "1 asked"


async def test_a_null_content_that_is_refused_is_an_empty_one_from_then_on(llm_server, turn, tmp_path):
    def answer(body: Any) -> Answer:
        if any(each["content"] is None for each in body["messages"]):
            return refusal(500, NULL)
        return streamed(said("It is blue."))

    llm_server.always(answer)
    for count in (2, 3):
        servers = Servers(tmp_path / "servers.json")
        responder = OpenAI("openai/m", api_base=llm_server.url, retries=0, servers=servers)
        await responder.answer(turn(CALLED))
        assert llm_server.count == count, "it is remembered"
        sent = llm_server.bodies[-1]
        assert ("tools" in sent, sent["messages"][0]["role"]) == (True, "system"), "nothing else is left out"
        assert [each["content"] for each in sent["messages"][2:]] == ["", "two lines"]


@pytest.mark.parametrize(
    "words",
    [
        "invalid message content type: <nil>",
        "messages.2.content: Expected string, received null",
        "[{'loc': ['body', 'messages', 2, 'content'], 'msg': 'none is not an allowed value'}]",
        "Missing 'content' (ref: #8367)",
        "Invalid 'content' type (ref: #8367)",
        "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2.content' : value must be a string)]",
        'can only concatenate str (not "NoneType") to str',
    ],
)
@pytest.mark.parametrize("status", [400, 500])
async def test_other_servers_refuse_it_in_their_words(llm_server, model, turn, words, status):
    def answer(body: Any) -> Answer:
        null = any(each["content"] is None for each in body["messages"])
        return refusal(status, words) if null else streamed(said("It is blue."))

    llm_server.always(answer)
    responder = model()
    await responder.answer(turn(CALLED))
    assert (llm_server.count, responder.refused) == (2, {"null"})


async def test_a_form_that_it_does_not_know_becomes_the_one_that_it_names(llm_server, model, make_ask):
    def answer(body: Any) -> Answer:
        schema = body.get("response_format", {}).get("type") == "json_schema"
        return refusal(500, SCHEMA) if schema else streamed(said('{"answer": "blue"}'))

    llm_server.always(answer)
    responder = model()
    for count in (2, 3):
        await responder.answer(make_ask())
        assert llm_server.count == count
        assert llm_server.bodies[-1]["response_format"] == {"type": "json_object"}


async def test_a_refusal_with_the_status_of_a_fault_is_a_refusal(llm_server, model, make_ask):
    notices: list[str] = []
    llm_server.always(lambda body: refusal(500, SEED) if "seed" in body else streamed(said("{}")))
    await model(options={"seed": "x"}).answer(make_ask(notify=notices.append))
    assert (llm_server.count, notices) == (
        2,
        ["openai/m: the server refuses seed, which is left out now"],
    )


@pytest.mark.parametrize(
    "words",
    [
        "System role not supported",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Only user and assistant roles are supported!",
        "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
    ],
)
async def test_a_template_that_takes_no_message_of_the_system_gets_none(llm_server, model, make_ask, words):
    def answer(body: Any) -> Answer:
        if body["messages"][0]["role"] == "user":
            return streamed(said("{}"))
        return streamed(b"") if body.get("stream") else refusal(500, words)

    llm_server.always(answer)
    responder = model()
    await responder.answer(make_ask())
    await responder.answer(make_ask())
    assert (responder.refused, llm_server.count) == ({"system"}, 4)
