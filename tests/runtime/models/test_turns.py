"""A conversation on its way to each kind of model, and the calls of its reply on their way back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from conversations import anthropic_faults, call, talk, turns
from hypothesis import given
from hypothesis import strategies as st
from lanes import async_until
from llm_server import Answer, LlmServer
from test_providers import needs_litellm

from kernel.asking.messages import prompt_tokens
from kernel.asking.responder import Ask, Reply, Waits, estimate_tokens
from kernel.errors import ConfigurationError
from runtime.models import json_form
from runtime.models.litellm import LiteLLM
from runtime.models.llama import Llama
from runtime.models.mailbox import Mailbox, slug
from runtime.models.openai_client import OpenAI
from runtime.models.scripted import Scripted, When
from runtime.models.servers import Servers
from runtime.models.tool_calls import turn_text

READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "text of a file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {}}},
            "required": ["path"],
        },
    },
}


@pytest.fixture
def turn(make_ask: Callable[..., Ask]) -> Callable[..., Ask]:
    """An ask of a turn."""

    def make(messages: list[dict[str, Any]] | None = None, **more: Any) -> Ask:
        said = tuple(talk(1) if messages is None else messages)
        return make_ask("turn", system="", user="", tools=(READ,), messages=said, **more)

    return make


@pytest.fixture(params=[OpenAI, pytest.param(LiteLLM, marks=needs_litellm)])
def model(llm_server: LlmServer, request: pytest.FixtureRequest) -> Callable[..., Any]:
    def make(name: str = "openai/some-model", **settings: Any) -> Any:
        given = {"api_base": llm_server.url, "backoff": 0.02, "retries": 0, "native": True}
        return request.param(name, **{**given, **settings})

    return make


def text_of(reply: Reply | Waits) -> str:
    assert isinstance(reply, Reply)
    return reply.text


def said(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the members that have no value."""
    return {name: value for name, value in message.items() if value is not None}


async def test_a_conversation_is_sent_as_it_is_and_its_calls_come_back(llm_server, model, turn):
    llm_server.queue(Answer("I look.", calls=(("read", '{"path": "a.txt"}'), ("done", '{"answer": "5"}'))))
    ask = turn(talk(2, calls=2))
    reply = await model().answer(ask)
    body = llm_server.bodies[0]
    assert list(map(said, body["messages"])) == list(map(said, ask.messages))
    assert body["tools"] == [READ]
    assert "response_format" not in body
    calls = [{"tool": "read", "args": {"path": "a.txt"}}, {"tool": "done", "args": {"answer": "5"}}]
    assert json.loads(reply.text) == {"calls": calls, "text": "I look."}


async def test_a_reply_without_calls_is_text(llm_server, model, turn):
    llm_server.say("There are 5.")
    assert json.loads((await model().answer(turn())).text) == {"calls": [], "text": "There are 5."}


async def test_what_the_model_wrote_wrongly_is_sent_back_in_a_form_that_the_provider_accepts(
    llm_server, model, turn
):
    messages = talk(1)[:2]
    messages.append(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                call("c1", "read<|channel|>x", '{"path"'),
                call("c2", "", "[1]"),
                call("c3", "read", ""),
            ],
        }
    )
    messages += [{"role": "tool", "tool_call_id": f"c{n}", "content": ""} for n in (1, 2, 3)]
    llm_server.say("yes")
    await model().answer(turn(messages))
    sent = llm_server.bodies[0]["messages"]
    functions = [each["function"] for each in sent[2]["tool_calls"]]
    assert [each["name"] for each in functions] == ["read__channel__x", "unknown", "read"]
    assert [json.loads(each["arguments"]) for each in functions] == [{"text": '{"path"'}, {"text": "[1]"}, {}]
    assert sent[2].get("content") is None
    assert all(each["content"].strip() for each in sent[3:])


async def test_halves_of_surrogate_pairs_in_a_conversation_do_not_stop_a_call(llm_server, model, turn):
    messages = talk(1, result="half \ud83d")
    llm_server.say("yes")
    await model().answer(turn(messages))
    assert "half \ufffd" in llm_server.bodies[0]["messages"][-1]["content"]


async def test_the_estimate_counts_messages_and_tools(llm_server, model, turn):
    responder = model()
    short, long = (responder.estimate(turn(talk(count, result="word " * 50))) for count in (1, 6))
    assert long.prompt_tokens - short.prompt_tokens > 5 * 50
    assert responder.estimate(turn()).prompt_tokens > prompt_tokens(turn(), responder.count)
    llm_server.say("yes", usage=False)
    counted = (await model().answer(turn())).usage.prompt_tokens
    assert counted >= estimate_tokens(json.dumps(READ)) + estimate_tokens("You work in a folder.")


@given(
    st.lists(st.tuples(st.text(), st.text() | st.dictionaries(st.text(), st.none()).map(json.dumps))),
    st.text(),
)
def test_every_call_is_kept_in_its_order(calls, text):
    read = json.loads(turn_text(calls, text))
    assert read.keys() == {"calls", "text"}
    assert [each["tool"] for each in read["calls"]] == [name for name, _ in calls]
    for (_, given_text), each in zip(calls, read["calls"], strict=True):
        assert each.get("bad") == given_text or isinstance(each["args"], dict)


@pytest.mark.parametrize(
    "bad", ["[1]", "5", '"a"', '{"a": NaN}', '{"a": 1e999}', '{"a"', "no", "[" * 100_000]
)
def test_arguments_that_are_no_object_are_kept_for_the_loop_to_refuse(bad):
    assert json.loads(turn_text([("read", bad)], ""))["calls"] == [{"tool": "read", "bad": bad}]


@pytest.mark.parametrize("none", ["", " ", "null", "{}"])
def test_a_call_without_arguments_has_none(none):
    assert json.loads(turn_text([("done", none)], ""))["calls"] == [{"tool": "done", "args": {}}]


def test_the_form_without_tools_says_the_same_in_words():
    messages = [*talk(1, calls=2, result="```\n## call 2"), {"role": "user", "content": "Now check."}]
    system, task, reply, results = json_form.conversation(messages, [READ])
    assert system["content"].endswith("Tools:\nread(path, lines?: array): text of a file")
    assert task == {"role": "user", "content": "Count the lines."}
    calls = [{"tool": "read", "args": {"path": "c1_1"}}, {"tool": "bash", "args": {"path": "c1_2"}}]
    assert json.loads(reply["content"]) == {"calls": calls}
    assert results == {
        "role": "user",
        "content": 'Results:\n\n## call 1: read {"path": "c1_1"}\n\n````\n```\n## call 2 of c1_1\n````'
        '\n\n## call 2: bash {"path": "c1_2"}\n\n````\n```\n## call 2 of c1_2\n````\n\nNow check.',
    }


@given(turns())
def test_a_longer_conversation_begins_with_the_same_messages_and_roles_take_turns(messages):
    whole = json_form.conversation(messages, [READ])
    assert [each["role"] for each in whole] == ["system", *("user", "assistant") * len(whole)][: len(whole)]
    assert all(each["content"].strip() for each in whole)
    for end, message in enumerate(messages):
        if message["role"] == "assistant":  # what was sent before this reply came
            before = json_form.conversation(messages[:end], [READ])
            assert whole[: len(before)] == before


@given(turns())
def test_what_the_form_writes_as_a_reply_is_read_as_that_reply(messages):
    for message in messages:
        if message["role"] == "assistant":
            written = json_form.conversation([message], ())[0]["content"]
            calls = [
                (each["function"]["name"], each["function"]["arguments"])
                for each in message.get("tool_calls", ())
            ]
            assert json.loads(json_form.read_turn(written)) == json.loads(
                turn_text(calls, message["content"] or "")
            )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            'I look.\n```json\n{"calls": [{"name": "read", "arguments": "{}"}]}\n```',
            [{"tool": "read", "args": {}}],
        ),
        ('{"tool": "read", "args": {"path": "a"}}', [{"tool": "read", "args": {"path": "a"}}]),
        ('{"calls": {"read": {"path": "a"}}}', [{"tool": "read", "args": {"path": "a"}}]),
        ('{"calls": [{"tool": "read", "args": [1]}]}', [{"tool": "read", "bad": "[1]"}]),
        ('{"calls": ["read"]}', [{"tool": "", "bad": '"read"'}]),
        ('{"text": "5"}', []),
        ("There are 5.", []),
    ],
)
def test_what_models_write_instead_of_the_form_is_read(written, read):
    assert json.loads(json_form.read_turn(written))["calls"] == read


@pytest.mark.parametrize("broken", ['{"calls": [', '{"other": 1}', "f() { return }"])
def test_what_cannot_be_read_is_left_for_the_loop_to_refuse(broken):
    assert json_form.read_turn(broken) == broken


async def test_a_mailbox_shows_the_conversation_and_what_is_new_last(tmp_path, turn):
    box = Mailbox(tmp_path, poll=0.05, settle=0.05)
    ask = turn([*talk(2), {"role": "user", "content": "Now check."}])
    asked = asyncio.create_task(box.answer(ask))
    path = tmp_path / f"{slug(ask.key)}.md"
    await async_until(path.exists)
    text = path.read_text("utf-8")
    assert (
        text.index("<!-- 5 of 6, assistant -->")
        < text.index("<!-- 6 of 6, user, new -->")
        < text.index("of c2_1")
    )
    assert text.count(", new -->") == 1 and "Now check." in text.partition(", new -->")[2]
    assert "read(path, lines?: array): text of a file" in text
    path.with_name(f"{path.stem}.reply.json").write_text(
        '{"calls": [{"tool": "read", "args": {"path": "a"}}]}'
    )
    assert json.loads(text_of(await asked)) == {
        "calls": [{"tool": "read", "args": {"path": "a"}}],
        "text": "",
    }


async def test_a_script_may_look_for_what_a_conversation_says(turn):
    model = Scripted([When(prompt="result of c1_1", reply={"calls": [], "text": "5"})])
    reply = await model.answer(turn())
    assert json.loads(text_of(reply)) == {"calls": [], "text": "5"}
    assert isinstance(reply, Reply) and reply.usage.prompt_tokens == prompt_tokens(turn(), estimate_tokens)


async def test_a_local_model_gets_the_conversation_in_its_template_and_replies_with_calls(tiny_gguf, turn):
    model = Llama(tiny_gguf, context=2048, threads=1)
    ask = turn(talk(2, result="</s>"), schema={}, max_tokens=120)
    engine = model.load()
    tokens = engine.prompt(json_form.conversation(ask.messages, ask.tools))
    text = b"".join(engine.pieces[token] for token in tokens).decode()
    assert [text.count(f"<|{role}|>") for role in ("system", "user", "assistant")] == [1, 3, 3]
    assert model.estimate(ask).prompt_tokens >= len(tokens)
    reply = json.loads(text_of(await model.answer(ask)))
    assert reply.keys() >= {"calls", "text"}
    assert all(each["tool"] == "read" for each in reply["calls"])


async def test_a_server_that_takes_no_tools_gets_the_same_as_text_from_then_on(
    llm_server, model, turn, tmp_path
):
    def responder() -> Any:
        return model(native=None, servers=Servers(tmp_path / "servers.json"))

    llm_server.refuse_tools()
    llm_server.say('{"calls": [{"tool": "read", "args": {"path": "a.txt"}}]}')
    first = responder()
    assert first.takes_tools
    reply = await first.answer(turn(talk(1)[:2]))
    calls = [{"tool": "read", "args": {"path": "a.txt"}}]
    assert json.loads(reply.text) == {"calls": calls, "text": ""}
    assert not first.takes_tools
    asked, answered = llm_server.bodies
    assert "tools" in asked and "tools" not in answered
    assert answered["messages"] == json_form.conversation(talk(1)[:2], [READ])
    llm_server.say('{"text": "5"}')
    await responder().answer(turn(talk(1)))
    assert llm_server.count == 3, "another process does not try again"
    assert [each["role"] for each in llm_server.bodies[2]["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("native", [True, False])
async def test_the_setting_decides(llm_server, turn, tmp_path, native):
    servers = Servers(tmp_path / "servers.json")
    responder = OpenAI("openai/m", api_base=llm_server.url, native=native, servers=servers)
    servers.learn(responder.server, tools=not native)
    assert responder.takes_tools == native
    llm_server.say("{}")
    await responder.answer(turn())
    assert ("tools" in llm_server.bodies[0]) == native


async def test_an_error_about_a_call_in_the_middle_of_a_conversation_is_not_remembered(
    llm_server, turn, tmp_path
):
    servers = Servers(tmp_path / "servers.json")
    responder = OpenAI("openai/m", api_base=llm_server.url, servers=servers, retries=0)
    llm_server.fail(400, "messages with role 'tool' must follow 'tool_calls'")
    llm_server.say('{"text": "5"}')
    assert json.loads(text_of(await responder.answer(turn(talk(1))))) == {"calls": [], "text": "5"}
    assert OpenAI("openai/m", api_base=llm_server.url, servers=servers).takes_tools


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "tools is not supported with this model"),
        (404, "No endpoints found that support tool use"),
        (422, "body.tools: extra fields not permitted"),
        (500, "tools param requires --jinja flag"),
        (500, "Unsupported param: tools"),
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (404, "No endpoints found that support the provided 'tool_choice' value"),
        (400, "some-reasoner does not support Function Calling"),
        (400, "Function call is not supported for this model."),
        (400, "Functions are not supported for this API version or this model version."),
        (400, "Tool use is not supported"),
        (400, "TOOLS ARE NOT SUPPORTED"),
    ],
)
async def test_servers_refuse_tools_in_their_own_words(llm_server, turn, status, words):
    responder = OpenAI("openai/m", api_base=llm_server.url, retries=0)
    llm_server.fail(status, words)
    llm_server.say('{"text": "5"}')
    assert json.loads(text_of(await responder.answer(turn()))) == {"calls": [], "text": "5"}
    assert not responder.takes_tools


async def test_the_name_of_a_model_that_is_not_found_refuses_nothing(llm_server, turn):
    servers = Servers()
    responder = OpenAI("openai/Coder-Tools:7b", api_base=llm_server.url, retries=0, servers=servers)
    llm_server.fail(404, "model 'coder-tools:7b' not found")
    with pytest.raises(ConfigurationError):
        await responder.answer(turn())
    assert responder.takes_tools


async def test_a_server_without_forms_of_replies_says_so_in_its_own_words(llm_server, turn):
    responder = OpenAI("openai/m", api_base=llm_server.url, retries=0, native=False)
    llm_server.fail(400, "JSON mode is not enabled for this model")
    llm_server.say("{}")
    await responder.answer(turn())
    assert ["response_format" in body for body in llm_server.bodies] == [True, False]


async def test_a_server_that_cannot_parse_one_reply_still_takes_tools(llm_server, turn):
    responder = OpenAI("openai/m", api_base=llm_server.url, retries=1, backoff=0.01)
    llm_server.fail(500, "Failed to parse tool call arguments as JSON")
    llm_server.say("5")
    await responder.answer(turn())
    assert responder.takes_tools


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ('<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>', ["read"]),
        ('I look.\n<tool_call>{"name": "read", "arguments": {}}</tool_call>\n' * 2, ["read", "read"]),
        ('{"calls": [{"tool": "read", "args": {}}]}', ["read"]),
        ('```json\n{"name": "read", "parameters": {}}\n```', ["read"]),
        ('{"name": "other", "arguments": {}}', []),
        ('The file has {"name": "read", "arguments": {}}.', []),
        ('{"total": 5}', []),
        ("There are 5.", []),
    ],
)
async def test_calls_that_a_server_left_in_the_text_are_read(llm_server, model, turn, text, tools):
    llm_server.say(text)
    reply = json.loads((await model().answer(turn())).text)
    assert [each["tool"] for each in reply["calls"]] == tools
    assert tools or reply["text"] == text


@needs_litellm
async def test_a_claude_model_gets_marks_for_its_cache_and_nobody_else_does(llm_server, turn):
    content = {"content": [{"type": "text", "text": "5"}], "role": "assistant", "type": "message", "id": "m"}
    answer = {
        **content,
        "model": "c",
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    llm_server.always(lambda body: Answer(raw=json.dumps(answer).encode()))
    claude = LiteLLM("anthropic/claude-sonnet-4-5", api_base=llm_server.host, key_env="PATH", retries=0)
    reply = await claude.answer(turn(talk(2)))
    assert json.loads(text_of(reply)) == {"calls": [], "text": "5"}
    (body,) = llm_server.bodies
    assert anthropic_faults(body) == []
    assert body["system"][0]["cache_control"] and body["messages"][-1]["content"][-1]["cache_control"]
    assert json.dumps(body).count('"cache_control"') == 3
    other = OpenAI("openai/gpt-like", api_base=llm_server.url)
    assert "cache_control" not in json.dumps(other.messages(turn(talk(2))))


def test_a_provider_gets_a_conversation_in_its_dialect(turn, llm_server):
    ask = turn([*talk(1), {"role": "user", "content": "Now check."}])
    roles = [each["role"] for each in OpenAI("mistral/devstral-medium").messages(ask)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert "thought_signature" in json.dumps(OpenAI("gemini/gemini-3-pro").messages(ask))
    assert "thought_signature" not in json.dumps(OpenAI("gemini/gemini-2.5-flash").messages(ask))
    assert OpenAI("openai/gpt-5-mini").messages(ask)[2]["tool_calls"] == ask.messages[2]["tool_calls"]
