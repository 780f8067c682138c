"""What `fractal acp` reads and writes, and how it starts and ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)
from editor import REPOSITORY
from warm import Process, run

from kernel.errors import UsageError
from runtime.acp.content import task_of

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


def start(code: str = "from runtime.cli import main; main(['acp'])") -> Process:
    pipe = subprocess.PIPE
    return Process(
        [sys.executable, "-c", code], cwd=REPOSITORY, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def test_only_the_protocol_is_on_standard_output():
    printing = "from runtime.acp import agent; agent.FractalAgent.on_connect = lambda s, c: print('noise')"
    process = start(f"{printing}\nfrom runtime.cli import main; main(['acp'])")
    out, err = process.communicate(f"no json\n{json.dumps(HELLO)}\n", timeout=30)
    (line,) = out.splitlines()
    result = json.loads(line)["result"]
    assert result["protocolVersion"] == 1
    assert result["agentCapabilities"]["loadSession"] is True
    assert result["agentCapabilities"]["promptCapabilities"] == {"embeddedContext": True}
    assert "noise" in err
    assert process.returncode == 0


def test_a_signal_ends_it():
    process = start()
    assert process.stdin and process.stdout
    process.stdin.write(f"{json.dumps(HELLO)}\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize("stdin", ["/dev/null", __file__])
def test_without_an_editor_it_says_who_starts_it(stdin):
    with Path(stdin).open() as given:
        command = [sys.executable, "-m", "runtime.cli", "acp"]
        ran = run(command, stdin=given, capture_output=True, text=True, timeout=30, cwd=REPOSITORY)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "an editor starts this command" in ran.stderr


def test_without_the_sdk_a_message_says_what_to_install():
    process = start("import sys; sys.modules['acp'] = None\nfrom runtime.cli import main; main(['acp'])")
    _, err = process.communicate(timeout=30)
    assert "pip install 'fractal-runtime[acp]'" in err
    assert process.returncode == 3


@pytest.mark.parametrize("name", ["zed", "jetbrains"])
def test_the_settings_in_the_docs_start_this_command(name):
    page = (REPOSITORY / "docs" / "editors.md").read_text("utf-8")
    (snippet,) = re.findall(rf"<!-- client: {name} -->\n```json\n(.*?)```", page, re.S)
    (entry,) = json.loads(snippet)["agent_servers"].values()
    assert (entry["command"], entry["args"]) == ("fractal", ["acp"])


def text(words: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=words)


def test_resources_are_named_in_the_task_and_become_context(tmp_path):
    (tmp_path / "my notes.md").write_text("# Notes\n")
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    link = ResourceContentBlock(type="resource_link", name="notes", uri=f"file://{tmp_path}/my%20notes.md")
    data = ResourceContentBlock(type="resource_link", name="data", uri=f"file://{tmp_path}/data.bin")
    part = TextResourceContents(uri=f"file://{tmp_path}/a.py#L3:4", text="x = 1\n")
    piece = EmbeddedResourceContentBlock(type="resource", resource=part)
    page = ResourceContentBlock(type="resource_link", name="page", uri="https://example.org/x")
    task, context = task_of(
        [text("compare"), link, text("with "), piece, text(", then read"), data, page], tmp_path
    )
    assert task == "compare my notes.md with a.py#L3:4, then read data.bin https://example.org/x"
    assert context == [("file my notes.md", "# Notes\n"), ("file a.py#L3:4", "x = 1\n")]


def test_what_is_no_text_is_refused(tmp_path):
    sound = AudioContentBlock(type="audio", data="aGk=", mime_type="audio/wav")
    with pytest.raises(UsageError, match="no audio content"):
        task_of([text("listen"), sound], tmp_path)
    blob = EmbeddedResourceContentBlock.model_validate(
        {"type": "resource", "resource": {"uri": "file:///x.bin", "blob": "aGk="}}
    )
    with pytest.raises(UsageError, match="no data that is not text"):
        task_of([text("read"), blob], tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "[1,2]",
        "42",
        '"text"',
        "null",
        "no json",
        "{",
        '[{"jsonrpc": "2.0", "id": 7, "method": "initialize"}]',
        '{"jsonrpc": "2.0", "id": [1], "result": {}}',
        '{"jsonrpc": "2.0", "id": {"a": 1}, "error": 5}',
        '{"jsonrpc": "2.0", "id": 0, "error": "text"}',
        '{"jsonrpc": "2.0", "method": ["initialize"]}',
        "",
    ],
)
def test_a_line_that_is_no_message_ends_nothing(line: str) -> None:
    process = start()
    out, err = process.communicate(f"{line}\n{json.dumps(HELLO)}\n", timeout=60)
    assert [json.loads(each)["id"] for each in out.splitlines()] == [1]
    assert process.returncode == 0
    assert len(err.splitlines()) == (line != ""), "one line that says why"
