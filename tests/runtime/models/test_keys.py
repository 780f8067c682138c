"""Keys that a program prints, and keys as they are copied into variables."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import in_process
from llm_server import Answer, LlmServer

from kernel.errors import ConfigurationError
from runtime.models.keys import command_words, printed_key
from runtime.models.litellm import LiteLLM
from runtime.models.openai_client import OpenAI
from runtime.secrets.known import secret_of
from runtime.secrets.redaction import redact

KEY = "localsecret42"


@pytest.fixture
def manager(tmp_path: Path) -> Callable[[str], str]:
    """Makes a password manager of a shell script; it notes each start in `starts`."""

    def make(script: str) -> str:
        path = tmp_path / "manager"
        path.write_text(f"#!/bin/sh\necho >> {tmp_path / 'starts'}\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


@pytest.mark.parametrize(
    "written",
    [f"{KEY}\r", f"{KEY}\r\n", f" {KEY}\t", f'"{KEY}"', f"'{KEY}'\n", f"\ufeff{KEY}", f"Bearer {KEY}"],
)
def test_a_key_is_read_without_what_was_copied_with_it(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("SOME_GATEWAY", written)
    assert secret_of("SOME_GATEWAY") == KEY
    assert KEY not in redact(f"refused {KEY}")


@pytest.mark.parametrize("make", [OpenAI, LiteLLM])
async def test_the_key_is_what_a_program_prints_first_and_it_runs_once(
    llm_server: LlmServer, make_ask: Callable[..., Any], manager: Any, tmp_path: Path, make: Any
) -> None:
    command = [manager(f"printf '%s\\r\\n' {KEY}; echo 'user: me'"), "show", "my gateway"]
    llm_server.always(lambda body: Answer("yes"))
    models = [make("openai/m", api_base=llm_server.url, key_command=command) for _ in range(2)]
    await asyncio.gather(*(model.answer(make_ask()) for model in models))
    assert {headers["authorization"] for _, headers, _ in llm_server.requests} == {f"Bearer {KEY}"}
    assert (tmp_path / "starts").read_text() == "\n"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (f"echo {KEY}; echo 'the vault is locked' >&2; exit 3", "failed with exit 3: the vault is locked"),
        (f"echo {KEY}; echo {KEY} >&2; exit 3", r"failed with exit 3: \[redacted"),
        ("exit 0", "prints no key"),
        ("echo", "prints no key"),
        ("printf 'local\\033secret42'", "no printable ASCII"),
        ("printf 'local\\303\\244secret42'", "no printable ASCII"),
    ],
)
def test_a_program_that_prints_no_key_is_told_without_what_it_printed(
    manager: Any, script: str, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"key_command \(.*manager\).*{why}") as refused:
        printed_key([manager(script)])
    assert "secret42" not in str(refused.value)


@pytest.mark.parametrize("name", ["no-such-manager", "./manager", "/nowhere/manager", "bin/manager", ""])
def test_a_program_that_is_not_there_is_told(
    name: str, manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(manager("echo key")).parent)  # what lies in the folder is not run
    with pytest.raises(ConfigurationError, match="no such program; name one on the PATH, or its whole path"):
        printed_key([name])


def test_a_program_reads_nothing_and_is_not_in_the_folder(
    manager: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VAULT_OF_MINE", "here")
    assert printed_key([manager('read line; echo "$(pwd)$line$VAULT_OF_MINE"')]) == f"{home}here"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pass show 'my gateway'", ("pass", "show", "my gateway")),
        (["sh", "-c", "echo $KEY | head -1"], ("sh", "-c", "echo $KEY | head -1")),
        ("", ()),
    ],
)
def test_the_words_of_a_command(command: Any, words: tuple[str, ...]) -> None:
    assert command_words(command) == words


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("pass show key | head -1", "without a shell"),
        ("echo $KEY", "without a shell"),
        ("echo `cat key`", "without a shell"),
        ("cat key > /dev/stdout", "without a shell"),
        ("a && b", "without a shell"),
        ("pass show 'key", "key_command: no closing quotation"),
    ],
)
def test_a_command_for_a_shell_is_refused(command: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        OpenAI("openai/m", key_command=command)


def test_settings_name_the_command_and_the_headers(
    tmp_path: Path, llm_server: LlmServer, manager: Any
) -> None:
    reply = {"calls": [], "done": {"answer": "It is blue."}}
    llm_server.say(json.dumps(reply))
    command = manager(f"echo {KEY}")
    settings = {"model": "openai/m", "api_base": llm_server.url, "key_command": command}
    settings |= {"headers": {"X-Team": "${GATEWAY_TEAM}"}}
    work = tmp_path / "work"
    work.mkdir()
    (work / "fractal.yaml").write_text(json.dumps(settings))
    environ = {**os.environ, "HOME": str(tmp_path), "GATEWAY_TEAM": "bluesecret77", "FRACTAL_TRUST": ""}
    asked = in_process(work, ["run", "which colour is it?"], environ)
    assert "key_command" in asked.err and "headers" in asked.err and llm_server.count == 0
    ran = in_process(work, ["run", "which colour is it?"], {**environ, "FRACTAL_TRUST": "all"})
    assert ran.exit == 0, ran.err
    sent = llm_server.requests[0][1]
    assert (sent["authorization"], sent["x-team"]) == (f"Bearer {KEY}", "bluesecret77")
