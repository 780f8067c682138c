"""`fractal mcp`, driven by the official client: runs, questions, approvals, documents, single calls."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

import pytest
from lanes import PATIENCE, within
from mcp import MCPError
from mcp_client import (
    COMMAND,
    TOKEN,
    environment,
    listening,
    over_http,
    over_stdio,
    script,
    settings,
    speak,
    trusting,
)
from warm import Process, run

from kernel.document.model import ENDED
from runtime.api.fractal import Fractal

TOOLS = [
    *("run", "status", "answer", "approve", "reject", "nudge", "veto"),
    *("review", "decisions", "cancel", "resume"),
    *("read_document", "list_runs", "messages", "send_message", "growth", "list_tools", "call_tool"),
    *("known_tools", "grant", "revoke"),
]
WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "new\n"}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    trusting(tmp_path / "config")
    with (tmp_path / "config" / "fractal" / "fractal.yaml").open("a") as own:
        own.write("embedder: lexical\n")
    place = tmp_path / "work"
    place.mkdir()
    settings(place)
    return place


async def doing(call, state, what):
    """The state of a run as soon as it does this."""
    while not state["doing"].startswith(what):
        assert state["status"] == "running", state
        state = await call("status", run=state["run"], wait=0.02)
    return state


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_run_from_start_to_end_over_every_transport(folder, transport, mode):
    async def work(call):
        assert [tool.name for tool in (await call.client.list_tools()).tools] == TOOLS
        messages = []

        async def progress(count, total, message):
            messages.append(message)

        result = await call.client.call_tool("run", {"task": "what is 2 + 2"}, progress_callback=progress)
        state = result.structured_content
        assert (state["status"], state["result"], state["question"]) == ("complete", "4", "")
        assert json.loads(result.content[0].text)["result"] == "4", (
            "clients without structured content see it too"
        )
        assert messages[0].startswith("understand")
        assert "step 1: calc done" in messages

        page = await call("read_document", name=state["run"])
        assert page["id"] == state["document"]
        assert page["markdown"] == (await call.client.read_resource(f"loop://{page['id']}")).contents[0].text
        assert [each["run"] for each in (await call("list_runs"))["runs"]] == [state["run"]]
        assert [each["tasks"] for each in (await call("growth"))["months"]] == [1]
        return state

    state = speak(folder, work, transport, mode)
    assert Fractal(folder).document(state["run"]).meta.status == "complete"


def test_a_question_is_answered_and_the_run_goes_on(folder):
    async def work(call):
        asked = await call("run", task="compose a hymn to the sea")
        assert (asked["status"], asked["waits_for"]) == ("waiting", "answer")
        assert "compose a hymn" in asked["question"]
        assert asked["next"] == f'answer(run="{asked["run"]}", text="…")'
        assert "the answer is empty" in await call.fails("answer", run=asked["run"], text=" ")
        done = await call("answer", run=asked["run"], text="what is 3 * 3")
        assert (done["status"], done["result"]) == ("complete", "9")
        assert "has ended (complete)" in await call.fails("answer", run=asked["run"], text="again")

    speak(folder, work)


@pytest.mark.parametrize(("say", "status", "made"), [("approve", "complete", True), ("reject", "", False)])
def test_what_wants_an_approval_waits_for_it(folder, say, status, made):
    settings(folder, approve=["write"])

    async def work(call):
        asked = await call("call_tool", tool="write", args={"path": "a.txt", "content": "a"})
        assert (asked["status"], asked["waits_for"]) == ("waiting", "approval")
        assert "a.txt" in asked["question"]
        assert not (folder / "a.txt").exists()
        assert (await call("status", run=asked["run"]))["status"] == "waiting"
        return await call(say, run=asked["run"])

    state = speak(folder, work)
    assert (folder / "a.txt").exists() is made
    assert status in (state["status"], "")
    assert state["status"] != "running"


def test_what_waits_is_reviewed_sent_back_and_in_the_log(folder):
    (folder / "a.txt").write_text("old\n")
    settings(folder, model=script(folder, WRITE, confidence="low"), review="risky")

    async def work(call):
        asked = await call("run", task="renew a.txt")
        assert (asked["status"], asked["waits_for"]) == ("waiting", "approval")
        (waits,) = (await call("review"))["waits"]
        assert (waits["run"], waits["why"]) == (asked["run"], "its confidence is low")
        assert waits["changes"][0]["diff"] == "@@ -1 +1 @@\n-old\n+new"
        assert "say what to do differently" in await call.fails("nudge", run=asked["run"], why=" ")
        ended = await call("veto", run=asked["run"], why="leave it")
        assert ended["status"] == "cancelled"
        (decision,) = (await call("decisions"))["decisions"]
        said = decision["oversight"]  # a client may be a program
        assert (said["type"], said["by"]["kind"], said["text"]) == ("veto", "client", "leave it")
        assert (decision["human"], decision["outcome"]) == (None, "cancelled")

    speak(folder, work)


def test_a_long_run_is_left_and_found_again(folder):
    model = script(
        folder,
        {"tool": "bash", "args": {"command": "until [ -e go ]; do sleep 0.05; done; echo done > late.txt"}},
        success=[{"file": "late.txt"}],
    )
    settings(folder, model=model)

    async def work(call):
        state = await doing(call, await call("run", task="wait, then write", wait=0), "step 1: bash")
        assert (state["status"], state["result"]) == ("running", "")
        assert state["next"].startswith(f'status(run="{state["run"]}"')
        (folder / "go").touch()
        with within(15):  # it does not wait longer than the run takes
            done = await call("status", run=state["run"], wait=30)
        assert done["status"] == "complete"

    speak(folder, work)


def test_a_run_goes_on_when_its_client_leaves(folder):
    model = script(
        folder,
        {"tool": "bash", "args": {"command": "sleep 0.4; echo done > late.txt"}},
        success=[{"file": "late.txt"}],
    )
    settings(folder, model=model)

    async def start(url):
        async with over_http(url) as call:
            return await call("run", task="wait, then write", wait=0)

    async def look(url, run):
        async with over_http(url) as call:
            return await call("status", run=run, wait=20)

    with listening(folder) as (url, _):
        state = asyncio.run(start(url))
        assert state["status"] == "running"
        assert asyncio.run(look(url, state["run"]))["status"] == "complete"
    assert (folder / "late.txt").exists()


def test_over_standard_input_too_and_the_process_ends_after_it(folder):
    model = script(
        folder,
        {"tool": "bash", "args": {"command": "sleep 0.4; echo done > late.txt"}},
        success=[{"file": "late.txt"}],
    )
    settings(folder, model=model)
    process = Process(
        [*COMMAND, "-C", str(folder), "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    start = {"name": "run", "arguments": {"task": "wait, then write", "wait": 0}}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": start},
    ]
    for each in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert answers[1]["result"]["structuredContent"]["status"] == "running"
    out, errors = process.communicate(timeout=30)  # closes its input: the client has left
    assert (process.returncode, out, errors) == (0, b"", b"")
    assert (folder / "late.txt").exists()


def test_standard_output_carries_the_protocol_and_nothing_else(folder):
    tool = folder / "system/tools/loud"
    tool.mkdir(parents=True)
    (tool / "loud.sh").write_text("#!/bin/sh\necho loud\necho louder >&2\n")
    (tool / "loud.sh").chmod(0o755)
    (tool / "pattern.md").write_text(
        "---\nname: loud\ndescription: Print much.\nrun: 'command: ./loud.sh'\n---\n"
    )
    process = Process(
        [*COMMAND, "-C", str(folder), "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    calls = [
        {"name": "run", "arguments": {"task": "compose a hymn"}},
        {"name": "call_tool", "arguments": {"tool": "loud"}},
        {"name": "call_tool", "arguments": {"tool": "bash", "args": {"command": "echo out; echo err >&2"}}},
        {"name": "status", "arguments": {"run": 7}},
    ]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [{"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
    messages += [{"id": n, "method": "tools/call", "params": each} for n, each in enumerate(calls, 1)]
    process.stdin.write(b"this is no message\n")
    for each in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n")
    process.stdin.flush()
    seen = {}
    while len(seen) < 5:
        message = json.loads(process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        if "id" in message and message["id"] is not None:
            seen[message["id"]] = message
    out, errors = process.communicate(timeout=PATIENCE)
    assert out == b""
    assert b"Traceback" not in errors
    assert "out" in json.dumps(seen[3]["result"])


def test_one_call_is_a_run_with_documents(folder):
    async def work(call):
        args = {"path": "a.txt", "content": "{{ steps[1].result }} stays"}
        wrote = await call("call_tool", tool="write", args=args)
        assert wrote["status"] == "complete"
        assert (folder / "a.txt").read_text() == args["content"], "nothing in it is a reference"
        read = await call("call_tool", tool="read", args={"path": "a.txt"})
        assert read["result"] == args["content"]
        page = await call("read_document", name=wrote["run"])
        assert "one call of write" in page["markdown"]
        assert wrote["spent"]["calls"] == 0

    speak(folder, work)


def test_a_guided_tool_is_called_with_a_task_in_words(folder):
    tool = folder / "system/tools/hello"
    tool.mkdir(parents=True)
    (tool / "pattern.md").write_text(
        "---\nname: hello\ndescription: Greet somebody.\n---\n## PLAN\nGreet them.\n"
    )
    step = {"tool": "write", "args": {"path": "hello.txt", "content": "hello Ana"}}
    settings(folder, model=script(folder, step, success=[{"file": "hello.txt"}]))

    async def work(call):
        wrong = await call.fails("call_tool", tool="hello", args={"who": "Ana"})
        assert "its only argument is `what`" in wrong
        return await call("call_tool", tool="hello", args={"what": "greet Ana"})

    assert speak(folder, work)["status"] == "complete"
    assert (folder / "hello.txt").read_text() == "hello Ana"


def test_an_argument_that_is_null_is_left_out(folder):
    async def work(call):
        begun = await call("run", task="calculate 2+2", wait=None, model=None, after=None)
        return begun, await call("status", run=begun["run"], wait=None)

    begun, state = speak(folder, work)
    assert (begun["result"], state["status"]) == ("4", "complete")


def test_errors_are_sentences(folder):
    async def work(call):
        assert "there is no tool 'reed'; there are read" in await call.fails("call_tool", tool="reed")
        assert "read(path, lines?) needs path" in await call.fails("call_tool", tool="read", args={})
        error = await call.fails("call_tool", tool="read", args={"path": "no.txt"})
        assert "no.txt: there is no such file" in error
        assert "(run " in error
        assert "outside the folder" in await call.fails(
            "call_tool", tool="read", args={"path": "/etc/passwd"}
        )
        assert "there is no run zzzzzz" in await call.fails("status", run="zzzzzz")
        assert "the task is empty" in await call.fails("run", task=" ")
        assert "Field required" in await call.fails("status")
        with pytest.raises(MCPError, match="there is no run nowhere"):
            await call.client.read_resource("loop://nowhere")
        error = await call.fails("run", task="x", model="scripted:nowhere.json")
        assert "nowhere.json: a client chooses among the models of the settings" in error
        assert "Traceback" not in error

    speak(folder, work)


def test_a_path_outside_the_runs_is_no_document(folder):
    (folder / "secret.md").write_text("secret")

    async def work(call):
        for name in ("../../secret.md", str(folder / "secret.md"), "secret", "/etc/passwd", "..", ""):
            result = await call.client.call_tool("read_document", {"name": name})
            assert result.is_error, result
            assert "secret\n" not in result.content[0].text

    speak(folder, work)


def test_a_run_is_cancelled(folder):
    settings(folder, model=script(folder, {"tool": "bash", "args": {"command": "sleep 60"}}))

    async def work(call):
        state = await doing(call, await call("run", task="wait", wait=0), "step 1: bash")
        assert state["status"] == "running"
        with within(10):
            done = await call("cancel", run=state["run"])
        assert done["status"] == "cancelled"

    speak(folder, work)


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.night), signal.SIGKILL]
)
def test_a_run_outlives_its_server_on_the_disk(folder, how):
    model = script(folder, {"tool": "bash", "args": {"command": "sleep 60"}})
    settings(folder, model=model)

    async def start(url):
        async with over_http(url) as call:
            return await doing(call, await call("run", task="wait", wait=0), "step 1: bash")

    with listening(folder) as (url, process):
        run = asyncio.run(start(url))["run"]
        with within(8):
            process.send_signal(how)
            process.wait(50)
        assert "Traceback" not in process.stderr.read()
    settings(folder, model=script(folder, {"tool": "bash", "args": {"command": "sleep 60"}}))
    assert Fractal(folder).document(run).meta.status not in ENDED

    async def go_on(call):
        assert (await call("status", run=run))["status"] == "interrupted"
        return await call("resume", run=run, wait=0.1)

    state = speak(folder, go_on)
    assert state["status"] in ("waiting", "running"), "the command may have happened: a person is asked"


def test_an_answer_reaches_a_run_of_another_process(folder):
    from contextlib import suppress

    ran = run(
        [*COMMAND, "-C", str(folder), "run", "compose a hymn"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 6

    async def work(call):
        (waiting,) = (await call("list_runs"))["runs"]
        assert waiting["status"] == "waiting"
        with suppress(KeyError):
            return await call("answer", run=waiting["run"], text="what is 6 * 7")
        return None

    assert speak(folder, work)["result"] == "42"


def test_a_model_failure_is_the_reason_and_the_run_can_be_resumed(folder, capfd):
    (folder / "script.json").write_text('[{"phase": "fused", "error": {"provider": "the model is on fire"}}]')
    settings(folder, ladder=[{"model": f"scripted:{folder / 'script.json'}"}])

    async def work(call):
        state = await call("run", task="compose a hymn")
        assert (state["status"], state["next"]) == ("interrupted", f'resume(run="{state["run"]}")')
        assert "the model is on fire" in state["reason"]
        assert (await call("status", run=state["run"]))["reason"] == state["reason"]

    speak(folder, work)
    assert "Traceback" not in capfd.readouterr().err


def test_many_runs_side_by_side(folder):
    async def work(call):
        states = await asyncio.gather(*(call("run", task=f"what is {n} + {n}") for n in range(12)))
        assert [each["result"] for each in states] == [str(2 * n) for n in range(12)]

    speak(folder, work, "http")


def test_the_catalogue_is_listed_by_words(folder):
    async def work(call):
        everything = (await call("list_tools"))["tools"]
        csv = (await call("list_tools", words="csv"))["tools"]
        assert {"read", "write", "bash", "fetch"} <= {each["name"] for each in everything}
        assert 0 < len(csv) < len(everything)
        assert all("csv" in f"{each['signature']}: {each['description']}".lower() for each in csv)
        assert next(each for each in everything if each["name"] == "read")["required"] == ["path"]

    speak(folder, work)


# ---- the address ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_a_token_is_asked_for(folder, how):
    import httpx2

    words = ("--token", "s3cret-token") if how == "flag" else ()
    env = {} if how == "flag" else {"FRACTAL_TOKEN": "s3cret-token"}

    async def work(url):
        async with httpx2.AsyncClient(timeout=PATIENCE) as web:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret-token"}):
                refused = await web.post(url, json={}, headers=headers)
                assert (refused.status_code, "Bearer" in refused.headers["www-authenticate"]) == (401, True)
        async with over_http(url, "s3cret-token") as call:
            return await call("run", task="what is 2 + 2")

    with listening(folder, *words, **env) as (url, _):
        assert asyncio.run(work(url))["result"] == "4"


def test_a_page_in_a_browser_cannot_reach_it(folder):
    import httpx2

    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}
    with listening(folder) as (url, _):
        strange = httpx2.post(url, json=hello, headers={**accept, "Origin": "https://evil.example"})
        rebound = httpx2.post(url, json=hello, headers={**accept, "Host": "evil.example"})
    assert strange.status_code in (400, 403, 421)
    assert rebound.status_code in (400, 403, 421)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--http", "0.0.0.0:0"], 2, "anyone who can reach 0.0.0.0 could run commands here"),
        (["--http", "nonsense"], 2, "not HOST:PORT, such as"),
        (["--http", "127.0.0.1:99999"], 2, "not HOST:PORT, such as"),
        (["--http", "192.0.2.1:0", "--token", "x"], 3, "choose another port"),
    ],
)
def test_an_unusable_address_is_refused(folder, words, code, message):
    ran = run(
        [*COMMAND, "-C", str(folder), "mcp", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert ran.returncode == code
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_wrong_settings_are_reported_before_anything_is_served(folder):
    (folder / "fractal.yaml").write_text("modle: x\n")
    ran = run(
        [*COMMAND, "-C", str(folder), "mcp"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "did you mean model?" in ran.stderr


def test_a_workspace_registered_in_its_own_folder_is_no_tool_of_itself(folder):
    (folder / ".mcp.json").write_text('{"mcpServers": {"fractal": {"command": "fractal", "args": ["mcp"]}}}')

    async def work(call):
        return [each["name"] for each in (await call("list_tools"))["tools"] if "fractal" in each["name"]]

    assert speak(folder, work) == []


async def test_the_server_of_a_folder_serves_that_folder(folder):
    (folder / "notes.txt").write_text("one\ntwo\n")
    async with over_stdio(folder) as call:
        state = await call("run", task="count the lines of notes.txt")
    assert state["result"].startswith("2")


def test_a_client_approves_by_its_name_and_of_nothing_serious(folder):
    settings(folder, approve=["write"])
    (folder / ".env").write_text("KEY=4711\n")

    async def work(call):
        asked = await call("call_tool", tool="write", args={"path": "a.txt", "content": "a"})
        done = await call("approve", run=asked["run"])
        grave = await call("call_tool", tool="read", args={"path": ".env"})
        refused = await call.fails("approve", run=grave["run"])
        assert "a serious danger needs a person's approval at a terminal" in refused
        assert f"fractal approve {grave['run']}" in refused
        assert (await call("status", run=grave["run"]))["status"] == "waiting"
        return done, refused

    done, refused = speak(folder, work)
    approved = Fractal(folder).document(done["run"]).steps[1].evidence["approved"]
    assert approved.startswith('client "') and approved in refused
