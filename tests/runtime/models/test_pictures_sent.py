"""Pictures on their way to each kind of model, in its own form."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

import pytest
from conversations import anthropic_faults
from llm_server import Answer
from pictures import png
from test_providers import needs_litellm

from kernel.asking.messages import IMAGE_TOKENS, prompt_tokens
from runtime.models.litellm import LiteLLM
from runtime.models.openai_client import OpenAI
from runtime.models.seeing import sees_by_name

DOT = png()
LINE = f"[image: image/png, 2×3 pixels, {len(DOT)} bytes]"
SEEN = [
    {"role": "system", "content": "Work."},
    {"role": "user", "content": "What is it?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": LINE},
    {
        "role": "user",
        "content": "The picture of call_1:",
        "images": [{"kind": "image/png", "data": b64encode(DOT).decode()}],
    },
]


@pytest.fixture
def asked(make_ask):
    tool = {"name": "read", "description": "text", "parameters": {"type": "object", "properties": {}}}
    return make_ask(
        "turn", system="", user="", tools=({"type": "function", "function": tool},), messages=tuple(SEEN)
    )


@pytest.mark.parametrize("native", [True, False])
async def test_openai_is_sent_a_data_url_in_both_forms(llm_server, asked, native):
    llm_server.say("done")
    await OpenAI("openai/m", api_base=llm_server.url, native=native, sees=True).answer(asked)
    last = llm_server.bodies[0]["messages"][-1]
    assert last["role"] == "user"
    text, picture = last["content"]
    assert text["text"].endswith("The picture of call_1:")
    assert picture["image_url"]["url"] == f"data:image/png;base64,{b64encode(DOT).decode()}"
    assert "images" not in last


@needs_litellm
async def test_anthropic_is_sent_the_bytes_through_litellm(llm_server, asked):
    content = {"content": [{"type": "text", "text": "5"}], "role": "assistant", "type": "message", "id": "m"}
    more = {"model": "c", "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 1}}
    llm_server.always(lambda body: Answer(raw=json.dumps({**content, **more}).encode()))
    claude = LiteLLM("anthropic/claude-sonnet-4-5", api_base=llm_server.host, key_env="PATH", retries=0)
    assert claude.sees
    await claude.answer(asked)
    (body,) = llm_server.bodies
    assert anthropic_faults(body) == []
    (image,) = [each for each in body["messages"][-1]["content"] if each["type"] == "image"]
    assert image["source"]["media_type"] == "image/png"
    assert b64decode(image["source"]["data"]) == DOT


async def test_a_server_that_refuses_pictures_is_asked_without_and_not_shown_any_again(llm_server, asked):
    llm_server.fail(400, "At most 0 image(s) may be provided in one request")
    llm_server.say("done")
    model = OpenAI("openai/m", api_base=llm_server.url, native=True, sees=True, retries=0)
    await model.answer(asked)
    assert not model.sees
    last = llm_server.bodies[1]["messages"][-1]["content"]
    assert last == "The picture of call_1:\n(It is not shown: this model sees no pictures.)"


def test_a_picture_counts_as_tokens(asked):
    assert IMAGE_TOKENS < prompt_tokens(asked, len) < IMAGE_TOKENS + 1_000


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        ("openai/gpt-5-mini", True),
        ("anthropic/claude-sonnet-4-5", True),
        ("deepseek/deepseek-chat", False),
        ("ollama/qwen2.5vl:7b", True),
        ("ollama/qwen2.5:7b", False),
        ("hosted_vllm/gemma-3-27b-it", True),
        ("openai/some-model", False),
    ],
)
def test_what_is_known_of_a_model_says_whether_it_sees(model, sees):
    assert sees_by_name(model) == sees
