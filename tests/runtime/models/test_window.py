"""How long a conversation may be: what the settings, a server, a table and a file say of a model."""

from __future__ import annotations

import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import async_until
from llm_server import Answer, LlmServer
from test_providers import needs_litellm

from kernel.asking.responder import WINDOW, Ask
from runtime.models import make_responder
from runtime.models.gguf import trained_context
from runtime.models.ladder import build
from runtime.models.litellm import LiteLLM
from runtime.models.llama import Llama
from runtime.models.openai_client import OpenAI
from runtime.models.scripted import Scripted
from runtime.models.servers import ASKED_AGAIN, KEPT, Servers
from runtime.models.window import LOCAL, in_answer, in_table
from runtime.workspace.settings import Config

OPENAI = {"id": "m", "object": "model"}


def listing(**entry: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "other", "max_model_len": 999}, {**OPENAI, **entry}]}


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"max_model_len": 32768}, 32768),  # vLLM
        ({"context_length": 131072}, 131072),  # OpenRouter
        ({"n_ctx": 4096}, 4096),
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 131072}}, 4096),  # llama.cpp
        ({}, None),
        ({"max_model_len": None, "context_length": 8192}, 8192),
        ({"max_model_len": "32768"}, None),
        ({"max_model_len": -1}, None),
        ({"max_model_len": 7}, None),
        ({"max_model_len": 10**12}, None),
        ({"max_model_len": True}, None),
        ({"meta": [1]}, None),
    ],
)
def test_servers_say_it_in_their_own_ways(entry, window):
    assert in_answer(listing(**entry), "m")[0] == window


def test_a_list_with_one_model_means_that_one():
    assert in_answer({"data": [{"id": "/models/m.gguf", "n_ctx": 4096}]}, "m") == (4096, None)
    assert in_answer({"data": [{"id": "a", "n_ctx": 4096}, {"id": "b", "n_ctx": 4096}]}, "m") == (None, None)


PLAIN = st.none() | st.integers() | st.floats() | st.text()
MEMBERS = st.sampled_from(("data", "id", "meta", "n_ctx", "max_model_len"))


@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(MEMBERS, inner)))
def test_no_answer_is_a_fault(answer):
    assert in_answer(answer, "m")[0] is None or isinstance(in_answer(answer, "m")[0], int)


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "gpt-5-mini", "openrouter/openai/gpt-5-mini"])
def test_the_table_knows_a_model_also_behind_a_gateway(model):
    assert (in_table(model) or 0) > 100_000
    assert in_table("openai/no-such-model") is None


def test_what_is_not_known_is_large_at_a_provider_and_small_here(llm_server: LlmServer):
    for remote in (OpenAI("openai/new-model"), OpenAI("m", api_base=llm_server.url)):  # that is a gateway
        assert (remote.window, remote.window_source) == (WINDOW, "usual")
    ollama = OpenAI("m", api_base="http://127.0.0.1:11434/v1")
    for here in (ollama, OpenAI("vllm/m"), OpenAI("lmstudio/m")):
        assert (here.window, here.window_source) == (LOCAL, "usual for a local model")


@needs_litellm
def test_ollamas_window_is_what_it_is_asked_for():
    assert LiteLLM("ollama/llama3.2").window == 8192
    assert LiteLLM("ollama/llama3.2", context=16384).window == 16384
    assert LiteLLM("ollama/llama3.2", options={"num_ctx": 4096}, context=16384).window == 4096
    assert LiteLLM("anthropic/claude-sonnet-4-5").window >= 200_000


AWAY = "http://models.invalid/v1"
"""The address of a server elsewhere: the server of the test is the proxy on the way."""


@pytest.fixture
def away(llm_server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> LlmServer:
    monkeypatch.setenv("http_proxy", llm_server.host)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    return llm_server


def test_a_servers_answer_is_remembered_and_the_settings_win(tmp_path: Path, away: LlmServer):
    away.pages[f"{AWAY}/models"] = listing(max_model_len=16384)

    def model(**more: Any) -> OpenAI:
        settings = {"api_base": AWAY, **more}
        made = make_responder("openai/m", settings=settings, state=tmp_path)
        assert isinstance(made, OpenAI)
        return made

    first = model()
    first.ask_window()
    assert (first.window, first.window_source) == (16384, "the server")
    second = model()
    assert second.window == 16384, "the next process knows it at once"
    second.ask_window()
    assert away.gets == [f"{AWAY}/models"], "and does not ask again"
    assert model(context=4096).window == 4096
    assert model(context=4096).window_source == "the settings"


def test_the_window_of_a_responder_does_not_change(llm_server: LlmServer):
    llm_server.pages["/v1/models"] = listing(max_model_len=16384)
    model = OpenAI("openai/m", api_base=llm_server.url)
    assert model.window == WINDOW
    model.ask_window()
    assert model.window == WINDOW, "a conversation is rendered for one window"
    assert model.find_window().tokens == 16384


def test_llama_cpps_server_says_in_its_props_with_how_much_it_was_started(llm_server: LlmServer):
    llm_server.pages["/v1/models"] = listing(meta={"n_ctx_train": 131072})
    llm_server.pages["/props"] = {"default_generation_settings": {"n_ctx": 4096}}
    model = OpenAI("llamacpp/m", api_base=llm_server.url)
    model.ask_window()
    assert model.window == 4096


async def test_a_server_is_asked_once_at_the_first_call(llm_server: LlmServer, make_ask: Callable[..., Ask]):
    llm_server.pages["/v1/models"] = listing(max_model_len=16384)
    llm_server.always(lambda body: Answer())
    model = OpenAI("openai/m", api_base=llm_server.url)
    await model.answer(make_ask())
    await model.answer(make_ask())
    await async_until(lambda: model.find_window().tokens == 16384)
    assert llm_server.gets == ["/v1/models"]


@pytest.mark.parametrize("page", [None, [], "no", {"data": "x"}, {"data": [{"id": "m"}]}])
def test_a_server_that_does_not_say_it_fails_nothing(llm_server: LlmServer, page: Any):
    if page is not None:
        llm_server.pages["/v1/models"] = page
    model = OpenAI("openai/m", api_base=llm_server.url)
    model.ask_window()
    assert model.window == WINDOW


@pytest.mark.parametrize("page", [None, {"data": []}])
def test_a_server_that_does_not_say_it_is_not_asked_again_for_a_day(away: LlmServer, page: Any):
    clock = [1000.0]
    servers = Servers(now=lambda: clock[0])
    if page is not None:
        away.pages[f"{AWAY}/models"] = page
    for after, asked in ((0, 1), (ASKED_AGAIN - 1, 1), (1, 2)):
        clock[0] += after
        OpenAI("openai/m", api_base=AWAY, servers=servers).ask_window()
        assert len(away.gets) == asked


SMALL = {"id": "/models/small.gguf", "object": "model", "created": 1}
LLAMA = {"id": "m", "meta": {"n_ctx_train": 131072, "n_params": 7}}
PROPS = "/props"


@pytest.mark.parametrize(
    ("before", "after", "props", "window"),
    [
        ({"id": "m", "max_model_len": 4096}, {"id": "m", "max_model_len": 16384}, 0, 16384),
        (SMALL, {**SMALL, "id": "/models/large.gguf"}, 0, WINDOW),
        (LLAMA, {"id": "m", "meta": {"n_ctx_train": 131072, "n_params": 8}}, 4096, 4096),
        (LLAMA, LLAMA, 16384, 16384),
    ],
    ids=["a larger window", "another file", "another model", "a larger window of the same model"],
)
def test_a_server_here_that_was_started_anew_is_another_one(
    tmp_path: Path, llm_server: LlmServer, before: Any, after: Any, props: int, window: int
):
    def model() -> OpenAI:
        servers = Servers(tmp_path / "servers.json")
        return OpenAI("openai/m", api_base=llm_server.url, servers=servers)

    def says(entry: Any, tokens: int) -> None:
        llm_server.pages["/v1/models"] = {"data": [entry]}
        llm_server.pages[PROPS] = {"default_generation_settings": {"n_ctx": tokens}}

    says(before, 4096)
    first = model()
    first.ask_window()
    first.servers.learn(first.server, fits=2048, without=["null"], tools=False, longest=500)
    says({**before, "created": 2}, 4096)
    same = model()
    same.ask_window()
    assert (same.window, same.refused, same.takes_tools) == (2048, {"null"}, False), "it is the same one"
    says(after, props)
    other = model()
    other.ask_window()
    assert (other.window, other.refused, other.takes_tools) == (window, set(), True)
    assert model().window == window, "and the next process knows it"


def test_a_server_here_may_have_been_started_with_more_without_saying_so(tmp_path: Path):
    clock = [1000.0]
    servers = Servers(tmp_path / "servers.json", lambda: clock[0])
    for address, later in (("http://127.0.0.1:9/v1", WINDOW), (AWAY, 2048)):
        known = OpenAI("openai/m", api_base=address, servers=servers)
        servers.learn(known.server, fits=2048)
        clock[0] += ASKED_AGAIN
        assert (known.window, address) == (later, address)


def test_the_file_is_read_once_by_a_process_and_what_others_wrote_is_kept(tmp_path: Path):
    file = tmp_path / "servers.json"
    first, second = Servers(file), Servers(file)
    assert first.known("a m") == second.known("a m") == {}
    second.learn("a m", tools=False)
    assert first.known("a m") == {}
    first.learn("b m", window=4096)
    assert Servers(file).known("a m") == first.known("a m") == {"tools": False}


def test_what_two_threads_learn_at_once_is_all_kept(tmp_path: Path):
    servers = Servers(tmp_path / "servers.json")
    names = [f"fact{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: servers.learn("a m", **{name: 1}), names))
    assert Servers(tmp_path / "servers.json").known("a m").keys() == set(names)


def test_a_known_model_of_a_provider_is_not_asked_about():
    model = OpenAI("openai/gpt-5-mini")
    model.ask_window()  # there is no key: an attempt would be refused by nobody but the network
    assert model.window_source == "the table of models"


def test_facts_about_servers_are_forgotten_after_a_week_and_a_broken_file_is_none(tmp_path: Path):
    clock = [1000.0]
    servers = Servers(tmp_path / "servers.json", lambda: clock[0])
    servers.learn("a m", window=4096)
    servers.learn("a m", tools=False)
    assert servers.known("a m") == {"window": 4096, "tools": False}
    clock[0] += KEPT
    assert servers.known("a m") == {}
    facts = ("1", '{"tools": 1}', '{"tools": {"at": "x"}}', '{"tools": {"value": 1}}')
    for broken in ("", "[1]", "[" * 99_999, *(f'{{"a m": {each}}}' for each in facts)):
        (tmp_path / "servers.json").write_text(broken)
        servers = Servers(tmp_path / "servers.json", lambda: clock[0])
        assert servers.known("a m") == {}
    servers.learn("a m", tools=False)
    assert servers.known("a m") == {"tools": False}


def test_a_local_file_has_the_context_that_it_is_loaded_with(tiny_gguf: Path):
    assert Llama(tiny_gguf, context=512).window == 512
    trained = trained_context(tiny_gguf)
    assert trained
    large = Llama(tiny_gguf, context=trained * 4, threads=1)
    assert large.window == trained == large.load().context


@pytest.mark.parametrize("raw", [b"", b"GGUF", b"GGUF" + struct.pack("<IQQ", 3, 0, 9), b"x" * 100])
def test_a_file_that_is_no_model_has_no_context(tmp_path: Path, raw: bytes):
    path = tmp_path / "a.gguf"
    path.write_bytes(raw)
    assert trained_context(path) is None
    assert trained_context(tmp_path / "none.gguf") is None


def test_the_setting_reaches_the_model_of_each_kind_of_rung(tmp_path: Path):
    script = tmp_path / "s.yaml"
    script.write_text("plan: {}\n")
    ladder = [
        {"model": "openai/m", "context": 4096},
        {"model": f"scripted:{script}", "context": 5000, "phases": ["plan"]},
        {"model": "mailbox"},
    ]
    built = build(Config.model_validate({"ladder": ladder}), (), tmp_path)
    assert [getattr(rung, "window", None) for rung in built] == [4096, 5000, WINDOW]
    one = build(Config.model_validate({"model": "openai/m", "context": 2048}), (), tmp_path)
    assert [getattr(rung, "window", None) for rung in one][1] == 2048
    assert (Scripted([]).window, Scripted([]).window_source) == (WINDOW, "usual")
    assert Scripted([], context=5000).window_source == "the settings"


@pytest.mark.parametrize("said", [-1, 0, True, 10**30, "4096", None, [4096]])
def test_a_remembered_number_that_is_no_window_is_ignored(said: Any):
    servers = Servers()
    model = OpenAI("vllm/m", servers=servers)
    servers.learn(model.server, window=said)
    assert model.window == LOCAL
