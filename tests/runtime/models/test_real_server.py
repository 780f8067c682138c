"""A real model behind the real server of llama-cpp-python, on loopback.

    pip install 'llama-cpp-python[server]'
    FRACTAL_TRY_GGUF=~/models/qwen2.5-1.5b.gguf pytest tests/runtime/models/test_real_server.py

It shows that both programs understand each other, and not how good the replies of the model are.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lanes import until
from playing import player, put
from test_answers import READ, SAID
from test_llama_cpp_server import CALLED

from kernel.asking.responder import Reply
from kernel.errors import ProviderError
from runtime.models.human import Human
from runtime.models.openai_client import OpenAI
from runtime.models.servers import Servers

GGUF = os.environ.get("FRACTAL_TRY_GGUF", "")
pytestmark = [
    pytest.mark.skipif(not GGUF, reason="FRACTAL_TRY_GGUF names no model"),
    pytest.mark.skipif(
        any(find_spec(each) is None for each in ("llama_cpp", "starlette_context", "sse_starlette")),
        reason="the server is not installed: pip install 'llama-cpp-python[server]'",
    ),
]
WINDOW = 2048
STARTS = 120.0
"""Seconds in which the server reads its model."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the named model."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(Path(GGUF).expanduser())]
    command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", str(WINDOW), "--verbose", "false"]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as running:
        try:
            address = f"http://127.0.0.1:{port}/v1"
            until(lambda: _answers(f"{address}/models"), STARTS, lambda: log.read_text("utf-8", "replace"))
            yield address
        finally:
            running.kill()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture
def model(server: str, tmp_path: Path) -> Callable[..., OpenAI]:
    def make(**settings: Any) -> OpenAI:
        servers = Servers(tmp_path / "servers.json")
        given = {"api_base": server, "retries": 0, "max_tokens": 60, "timeout": 500, "servers": servers}
        return OpenAI("openai/a-model", **{**given, **settings})

    return make


async def test_a_prompt_that_is_too_long_teaches_the_window(model, make_ask):
    responder = model()
    with pytest.raises(
        ProviderError, match=r"longer than the model's context .*maximum context length is 2048"
    ):
        await responder.answer(make_ask(user="some words " * 3000))
    assert (responder.window, responder.window_source) == (WINDOW, "the server")


@pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
async def test_a_conversation_with_calls_is_taken(model, make_ask, native):
    pieces: list[str] = []
    ask = make_ask("turn", system="", user="", tools=(READ,), messages=CALLED, on_text=pieces.append)
    reply = await model(native=native).answer(ask)
    assert isinstance(reply, Reply)
    assert "".join(pieces) or not json.loads(reply.text)["text"]
    assert 0 < reply.usage.completion_tokens < 200


async def test_two_clients_at_once_both_get_their_reply(model, make_ask):
    asks = [make_ask("turn", system="", user="", tools=(READ,), messages=SAID, task=each) for each in "ab"]
    replies = await asyncio.gather(*(model().answer(ask) for ask in asks))
    assert all(isinstance(each, Reply) and each.text for each in replies)


def test_a_run_ends_and_leaves_a_readable_document(model, tmp_path):
    put(tmp_path / "work", "notes.md", "The budget was raised to 42,000 euros.\n")
    ladder, task = [model(), Human()], "According to notes.md, how high is the budget?"
    played = player(tmp_path / "work")(ladder, task, settings={"calls": 3, "seconds": 400})
    assert played.result.spent["calls"] >= 1
    assert any(event.kind == "reply_delta" for event in played.events)
