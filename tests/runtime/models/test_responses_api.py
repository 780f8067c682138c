"""An address that has OpenAI's Responses API only: what is said of it, and that litellm's way reaches it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest
from llm_server import Answer, LlmServer
from test_answers import READ, SAID
from test_llama_cpp_server import CALLED

from kernel.asking.responder import Reply
from kernel.errors import ConfigurationError
from runtime.models import make_responder

needs_litellm = pytest.mark.skipif(find_spec("litellm") is None, reason="litellm is not installed")
NOT_THERE = "This model is only supported in v1/responses and not in v1/chat/completions."


def response(body: Any) -> dict[str, Any]:
    """A response as the package `openai` describes it: a call of the declared tool, then words."""
    results = [each for each in body["input"] if each.get("type") == "function_call_output"]
    said: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    said["content"] = [{"type": "output_text", "text": "It is blue.", "annotations": []}]
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "status": "completed"}
    call["arguments"] = '{"path": "a.txt"}'
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 8},
        "total_tokens": 120,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, said if results else call],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "usage": usage,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }


@pytest.fixture
def only_responses(llm_server: LlmServer) -> LlmServer:
    """A server that knows one path."""

    def answer(body: Any) -> Answer:
        if "input" not in body:
            return Answer(status=404, error={"message": NOT_THERE, "type": "invalid_request_error"})
        return Answer(raw=json.dumps(response(body)).encode())

    llm_server.always(answer)
    return llm_server


def test_the_response_is_one_of_the_package_openai():
    openai = pytest.importorskip("openai.types.responses")
    openai.Response.model_validate(response({"model": "m", "input": []}))


@pytest.mark.parametrize("words", [NOT_THERE, "Not Found"])
async def test_an_address_without_chat_completions_is_told_with_the_name_that_helps(
    llm_server, make_ask, tmp_path, words
):
    llm_server.always(lambda body: Answer(status=404, error={"message": words}))
    model = make_responder("openai/m", settings={"api_base": llm_server.url}, state=tmp_path)
    with pytest.raises(ConfigurationError, match="only the Responses API, write openai/responses/m"):
        await model.answer(make_ask())
    assert llm_server.count == 1


@needs_litellm
async def test_the_name_with_responses_reaches_it(only_responses, make_ask, tmp_path):
    settings = {"api_base": only_responses.url, "price": {"input": 1, "output": 10}, "retries": 0}
    model = make_responder("openai/responses/m", settings=settings, state=tmp_path)
    ask = make_ask("turn", system="", user="", tools=(READ,), messages=SAID)
    reply = await model.answer(ask)
    assert isinstance(reply, Reply)
    assert json.loads(reply.text)["calls"] == [{"tool": "read", "args": {"path": "a.txt"}}]
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (
        100,
        20,
        40,
    )
    reply = await model.answer(make_ask("turn", system="", user="", tools=(READ,), messages=CALLED))
    assert isinstance(reply, Reply)
    assert json.loads(reply.text) == {"calls": [], "text": "It is blue."}
    assert [path for path, _, _ in only_responses.requests] == ["/v1/responses"] * 2
    sent = only_responses.bodies[1]["input"]
    assert [each["type"] for each in sent] == ["message", "function_call", "function_call_output"]
