"""Servers with OpenAI's protocol: streams, native tool calls, and what happens when a reply does not come."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from lanes import async_pause, within
from llm_server import Answer

from kernel.asking.conversation import declared
from kernel.errors import ConfigurationError, ProviderError
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models import json_form, make_responder
from runtime.models.endpoints import ALIASES, ENDPOINTS
from runtime.models.ladder import KEYS, build
from runtime.models.openai_client import OpenAI
from runtime.models.prices import OWN_TABLE
from runtime.models.servers import Servers
from runtime.workspace.settings import Config

TOOLS = tuple(declared(Catalogue([shipped_system()]), True, 12_000))
SAID = ({"role": "system", "content": "You work."}, {"role": "user", "content": "Count the lines."})
READ = ("read", '{"path": "a.txt"}')


@pytest.fixture
def model(llm_server):
    def make(name: str = "openai/some-model", **settings):
        return OpenAI(name, **{"api_base": llm_server.url, "backoff": 0.02, **settings})

    return make


async def test_a_reply_is_streamed_piece_by_piece(llm_server, model, make_ask):
    pieces: list[str] = []
    llm_server.say('{"a": "a long reply in several pieces"}')
    reply = await model().answer(make_ask(on_text=pieces.append))
    assert "".join(pieces) == reply.text == '{"a": "a long reply in several pieces"}'
    assert len(pieces) > 3


async def test_native_calls_become_the_reply_of_a_turn(llm_server, model, make_ask):
    llm_server.queue(Answer(calls=(READ, ("bash", '{"command": "ls"}'))))
    pieces: list[str] = []
    reply = await model(native=True).answer(
        make_ask(phase="turn", messages=SAID, tools=TOOLS, on_text=pieces.append)
    )
    assert json.loads(reply.text) == {
        "calls": [
            {"tool": "read", "args": {"path": "a.txt"}},
            {"tool": "bash", "args": {"command": "ls"}},
        ],
        "text": "",
    }
    assert "read" in "".join(pieces), "the call that is forming is shown"
    body = llm_server.bodies[0]
    assert body["tools"] == list(TOOLS)
    required = {
        tool["function"]["name"]: tool["function"]["parameters"]["required"] for tool in body["tools"]
    }
    assert {"read", "bash", "done", "ask", "cannot"} <= required.keys()
    assert (required["read"], required["subtask"]) == (["path"], ["task"])
    assert "response_format" not in body


@pytest.mark.parametrize(
    ("calls", "text", "turn"),
    [
        (
            (("done", '{"answer": "it is blue"}'),),
            "",
            [{"tool": "done", "args": {"answer": "it is blue"}}],
        ),
        (
            (("ask", '{"question": "which one?"}'),),
            "I wonder.",
            [{"tool": "ask", "args": {"question": "which one?"}}],
        ),
        (
            (READ, ("done", '{"answer": "if so"}'), ("cannot", '{"why": "no"}')),
            "",
            [
                {"tool": "read", "args": {"path": "a.txt"}},
                {"tool": "done", "args": {"answer": "if so"}},
                {"tool": "cannot", "args": {"why": "no"}},
            ],
        ),
        ((), "It is blue.", []),
        ((("bash", "{broken"),), "", [{"tool": "bash", "bad": "{broken"}]),
        ((("bash", ""),), "", [{"tool": "bash", "args": {}}]),
    ],
)
async def test_ends_and_odd_calls(llm_server, model, make_ask, calls, text, turn):
    llm_server.queue(Answer(text, calls=calls))
    reply = await model(native=True).answer(make_ask(phase="turn", messages=SAID, tools=TOOLS))
    assert json.loads(reply.text) == {"calls": turn, "text": text}


@pytest.mark.parametrize("calls", [(), (READ,)])
async def test_a_server_that_does_not_stream_is_understood(llm_server, model, make_ask, calls):
    llm_server.queue(Answer('{"done": "x"}', calls=calls, streams=False, prompt_tokens=70, cached_tokens=3))
    ask = make_ask(phase="turn", messages=SAID, tools=TOOLS if calls else ())
    reply = await model(native=True).answer(ask)
    called = {"calls": [{"tool": "read", "args": {"path": "a.txt"}}], "text": '{"done": "x"}'}
    expected = called if calls else {"done": "x"}
    assert json.loads(reply.text) == expected
    assert reply.usage.prompt_tokens == 70


async def test_a_hundred_kilobytes_of_arguments_arrive_whole(llm_server, model, make_ask):
    llm_server.queue(Answer(calls=(("bash", json.dumps({"command": "x" * 100_000})),)))
    reply = await model(native=True).answer(make_ask(phase="turn", messages=SAID, tools=TOOLS))
    assert len(json.loads(reply.text)["calls"][0]["args"]["command"]) == 100_000


async def test_a_server_that_refuses_tools_is_asked_in_words(llm_server, model, make_ask):
    llm_server.fail(400, '"auto" tool choice requires --enable-auto-tool-choice')
    llm_server.say('{"done": "yes"}')
    responder = model(native=True, retries=0)
    ask = make_ask(phase="turn", messages=SAID, tools=TOOLS)
    assert json.loads((await responder.answer(ask)).text) == {"done": "yes"}
    system = llm_server.bodies[1]["messages"][0]["content"]
    assert json_form.FORM in system
    assert "read(path, lines?)" in system
    assert "tools" not in llm_server.bodies[1]
    assert not responder.takes_tools, "the next prompt is made in words"


async def test_a_server_without_usage_in_streams_is_asked_without(llm_server, model, make_ask):
    llm_server.fail(400, "unknown field: stream_options")
    llm_server.say("{}")
    assert (await model(retries=0).answer(make_ask(user="u" * 30))).usage.prompt_tokens > 0
    assert ["stream_options" in body for body in llm_server.bodies] == [True, False]


async def test_a_stalled_stream_is_given_up_and_tried_again(llm_server, model, make_ask):
    notices: list[str] = []
    llm_server.queue(Answer('{"a": 1}', stall=2.0), Answer('{"a": 2}'))
    with within(1.8):
        reply = await model(timeout={"idle": 0.3}).answer(make_ask(notify=notices.append))
        assert reply.text == '{"a": 2}'
    assert "the reply stalled within 0.3 s, retrying in 0 s (1 of 6)" in notices[0]


async def test_a_model_that_thinks_before_it_writes_has_the_time_of_the_first_token(
    llm_server, model, make_ask
):
    notices: list[str] = []
    llm_server.queue(Answer('{"a": 1}', think=0.6))
    reply = await model(timeout={"idle": 0.2}).answer(make_ask(notify=notices.append))
    assert (reply.text, notices) == ('{"a": 1}', [])
    llm_server.queue(Answer('{"a": 1}', delay=0.3, think=0.4))
    with pytest.raises(ProviderError, match=r"no reply began within 0\.5 s"):
        await model(timeout={"first_token": 0.5}, retries=0).answer(make_ask())


@pytest.mark.parametrize(
    ("name", "variables", "sent"),
    [
        ("groq/m", {"GROQ_API_KEY": "g", "OPENAI_API_KEY": "o"}, "g"),
        ("groq/m", {"OPENAI_API_KEY": "o"}, "none"),
        ("lmstudio/m", {"OPENAI_API_KEY": "o"}, "none"),
        ("openai/m", {"OPENAI_API_KEY": "o"}, "o"),
        ("m", {"OPENAI_API_KEY": "o"}, "o"),
    ],
)
async def test_no_key_goes_to_the_server_of_another_provider(
    llm_server, make_ask, monkeypatch, name, variables, sent
):
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    llm_server.say("{}")
    await OpenAI(name, api_base=llm_server.url).answer(make_ask())
    assert llm_server.requests[0][1]["authorization"] == f"Bearer {sent}"


@pytest.mark.parametrize(
    ("name", "fix"), [("together/m", "set TOGETHER_API_KEY"), ("lmstudio/m", "options: {key_env: NAME}")]
)
async def test_a_refused_key_is_named_as_it_is_read(llm_server, make_ask, name, fix):
    llm_server.fail(401, "no such key")
    with pytest.raises(ConfigurationError, match="refused the key") as refused:
        await OpenAI(name, api_base=llm_server.url).answer(make_ask())
    assert fix in str(refused.value)


async def test_content_in_parts_is_one_text(llm_server, model, make_ask):
    parts = [{"type": "text", "text": '{"a":'}, {"type": "thinking", "thinking": []}, {"text": " 1}"}]
    choice = {"message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}
    llm_server.queue(Answer(raw=json.dumps({"choices": [choice]}).encode()))
    assert (await model().answer(make_ask())).text == '{"a": 1}'


async def test_a_reply_that_does_not_begin_is_given_up(llm_server, model, make_ask):
    llm_server.always(lambda body: Answer(delay=2.0))
    with pytest.raises(ProviderError, match=r"no reply began within 0\.2 s"):
        await model(timeout={"first_token": 0.2}, retries=1).answer(make_ask())


def test_an_unknown_time_out_is_refused():
    with pytest.raises(ConfigurationError, match="there is no late; it may have connect, first_token"):
        OpenAI("openai/x", timeout={"idle": 1, "late": 2})


def test_time_outs_come_from_the_settings(tmp_path):
    def of(**settings):
        config = Config.model_validate({"model": "openai/x", "api_base": "http://127.0.0.1:1/v1", **settings})
        return build(config, [], tmp_path).rungs[1].timeout  # type: ignore[attr-defined]

    assert (of().first_token, of().total) == (90.0, 600.0)
    assert (of(timeout=20).first_token, of(timeout=20).total) == (20.0, 20.0)
    assert of(timeout={"idle": 7}).idle == 7.0
    with pytest.raises(ValueError, match="late"):
        of(timeout={"late": 7})


async def test_a_server_that_is_not_running_fails_at_the_second_try(model, make_ask):
    with within(5), pytest.raises(ProviderError, match="nothing answers there; is the server running"):
        await model(api_base="http://127.0.0.1:9/v1").answer(make_ask())


async def test_a_retry_is_announced(llm_server, model, make_ask):
    notices: list[str] = []
    llm_server.fail(429, "slow down")
    llm_server.say("{}")
    await model().answer(make_ask(notify=notices.append))
    assert notices == ["openai/some-model: slow down, retrying in 0 s (1 of 6)"]


async def test_a_cancelled_call_closes_its_stream(llm_server, model, make_ask):
    llm_server.queue(Answer('{"a": 1}', stall=30.0))
    task = asyncio.create_task(model().answer(make_ask()))
    await asyncio.to_thread(llm_server.wait_for, 1)
    await async_pause(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("name", [*ENDPOINTS, *ALIASES])
def test_each_provider_of_the_table_needs_no_litellm(tmp_path, name):
    responder = make_responder(f"{name}/some/model", state=tmp_path)
    assert isinstance(responder, OpenAI)
    assert responder.name == f"{name}/some/model"
    known = ENDPOINTS[ALIASES.get(name, name)]
    assert responder.url == known.url
    assert responder.takes_tools, "that is tried"
    assert (responder.price is not None) is known.local, "a local server costs nothing"


async def test_the_model_and_the_longest_reply_are_named_as_the_server_expects(
    llm_server, make_ask, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    llm_server.always(lambda body: Answer())
    own = OpenAI("openai/qwen/qwen2.5", api_base=llm_server.url)
    await own.answer(make_ask(max_tokens=77))
    assert (llm_server.bodies[0]["model"], llm_server.bodies[0]["max_tokens"]) == ("qwen/qwen2.5", 77)
    assert OpenAI("openai/gpt-5-mini").endpoint.limit == "max_completion_tokens"


def test_the_form_of_a_rung_may_be_set(tmp_path):
    def native(spec: str, **settings) -> bool:
        return make_responder(spec, settings=settings, state=tmp_path).takes_tools  # type: ignore[attr-defined]

    own = {"api_base": "http://127.0.0.1:1/v1"}
    assert native("openai/gpt-5-mini")
    assert not native("openai/gpt-5-mini", form="json")
    assert native("openai/x", **own)
    assert not native("openai/x", **own, form="json")
    Servers(tmp_path / "servers.json").learn(f"{own['api_base']} openai/x", tools=False)
    assert not native("openai/x", **own)
    assert native("openai/x", **own, form="native")
    with pytest.raises(ConfigurationError, match="native is for models of providers"):
        make_responder("mailbox", settings={"form": "native"}, state=tmp_path)


def test_the_http_library_is_imported_at_the_first_ask_only():
    script = (
        "import asyncio, sys; from runtime.models.openai_client import OpenAI\n"
        "model = OpenAI('llamacpp/x'); model.count('x')\n"
        "assert not {'openai', 'httpx', 'litellm'} & set(sys.modules)\n"
        "asyncio.run(model.load()); assert 'httpx' in sys.modules and 'openai' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_own_table_has_the_default_models():
    table = json.loads(OWN_TABLE.read_text("utf-8"))
    models = [model for model in KEYS.values() if model.partition("/")[0] in ENDPOINTS]
    unknown = [model for model in models if model not in table and model.partition("/")[2] not in table]
    assert unknown == ["openrouter/openai/gpt-5-mini"], "OpenRouter has prices of its own"
    assert table[""]["date"] > "2026"


def delta(**more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": more, "finish_reason": None}]}


def piece(name: str | None, arguments: Any, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, "arguments": arguments}}


def stream(*events: dict[str, Any], finish: str | None = "tool_calls", end: str = "[DONE]") -> Answer:
    last = [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}] if finish else []
    lines = [f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in (*events, *last)]
    raw = "".join([*lines, f"data: {end}\n\n"]).encode("utf-8", "surrogatepass")
    return Answer(raw=raw, headers={"Content-Type": "text/event-stream"})


A, B = '{"path": "a"}', '{"path": "b"}'
AS_SERVERS_WRITE_THEM: dict[str, list[list[dict[str, Any]]]] = {
    "two ids at one place": [[piece("read", A, index=0, id="1"), piece("read", B, index=0, id="2")]],
    "two chunks at one place": [[piece("read", A, index=0, id="1")], [piece("read", B, index=0, id="2")]],
    "no place": [[piece("read", A, id="1")], [piece("read", B, id="2")]],
    "no place and no id": [[piece("read", A)], [piece("read", B)]],
    "an empty place": [[piece("read", A, index=None, id="1"), piece("read", B, index=None, id="2")]],
    "the name in each piece": [
        [piece("read", '{"path"', index=0, id="1")],
        [piece("read", ': "a"}', index=0, id="1")],
        [piece("read", B, index=1, id="2")],
    ],
    "pieces that take turns": [
        [piece("read", '{"path"', index=0, id="1"), piece("read", '{"path"', index=1, id="2")],
        [piece(None, ': "a"}', index=0), piece(None, ': "b"}', index=1)],
    ],
    "the name in two pieces": [
        [piece("re", "", index=0, id="1")],
        [piece("ad", A, index=0)],
        [piece("read", B, index=1, id="2")],
    ],
    "arguments as an object": [
        [piece("read", {"path": "a"}, index=0), piece("read", {"path": "b"}, index=1)]
    ],
}


@pytest.mark.parametrize("pieces", AS_SERVERS_WRITE_THEM.values(), ids=AS_SERVERS_WRITE_THEM.keys())
async def test_calls_are_told_apart_as_servers_write_them(llm_server, model, make_ask, pieces):
    llm_server.queue(stream(*(delta(tool_calls=each) for each in pieces)))
    reply = await model(native=True).answer(make_ask(phase="turn", tools=TOOLS))
    calls = [{"tool": "read", "args": {"path": "a"}}, {"tool": "read", "args": {"path": "b"}}]
    assert json.loads(reply.text)["calls"] == calls


@pytest.mark.parametrize("strange", ["\u2028", "\u2029", "\x85"])
async def test_a_text_may_hold_what_python_takes_for_the_end_of_a_line(llm_server, model, make_ask, strange):
    written = f'{{"a": "x{strange}y"}}'
    llm_server.queue(stream(delta(content=written), finish="stop"))
    assert (await model(retries=0).answer(make_ask())).text == written


async def test_a_stream_that_says_it_is_done_is_whole(llm_server, model, make_ask):
    llm_server.queue(stream(delta(content='{"a": 1}'), finish=None))
    assert (await model(retries=0).answer(make_ask())).text == '{"a": 1}'
    llm_server.queue(stream(delta(content='{"a": 1'), finish=None, end=""))
    with pytest.raises(ProviderError, match="ended in the middle"):
        await model(retries=0).answer(make_ask())


async def test_halves_of_a_character_in_two_pieces_become_one(llm_server, model, make_ask):
    smile = [
        f'data: {{"choices": [{{"delta": {{"content": "\\u{half}"}}}}]}}\n\n' for half in ("d83d", "de00")
    ]
    last = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    raw = "".join([*smile, last]).encode()
    llm_server.queue(Answer(raw=raw, headers={"Content-Type": "text/event-stream"}))
    assert (await model(retries=0).answer(make_ask())).text == "\U0001f600"
