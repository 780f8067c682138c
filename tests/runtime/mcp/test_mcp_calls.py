"""Tools of MCP servers are called like any other; an error of a server fails its step and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from contextlib import suppress

import pytest
from lanes import within
from mcp_place import call, fake
from process_list import alive, gone

from kernel.errors import OperationFailed
from kernel.tools.tool import Tool
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.secrets.redaction import redact


def test_a_call_gives_its_text_and_tells_the_server(place):
    place.write({"it": fake()})
    (result,) = place.calls(("it-echo", {"text": "grüß dich"}))
    assert (result.text, result.ok, result.evidence["server"]) == ("grüß dich", True, "it")


def test_one_session_serves_all_calls_of_a_run(place):
    place.write({"it": fake()})
    results = place.calls(("it-count", {}), ("it-count", {}), ("it-count", {}))
    assert [each.text for each in results] == ["1", "2", "3"]


def test_what_a_tool_refuses_is_a_failed_result_with_its_words(place):
    place.write({"it": fake()})
    (result,) = place.calls(("it-refuse", {}))
    assert (result.ok, result.text) == (False, "there is no such thing")


def test_structured_content_without_text_comes_as_json(place):
    place.write({"it": fake()})
    (result,) = place.calls(("it-structured", {}))
    assert json.loads(result.text) == {"degrees": 21, "sky": "clear"}


def test_what_is_no_text_is_named_with_its_kind_and_size(place):
    place.write({"it": fake()})
    (result,) = place.calls(("it-picture", {}))
    assert result.text.splitlines() == [
        "[image: image/png, 4 bytes]",
        "[audio: audio/wav, 3 bytes]",
        "[link: file:///tmp/report.pdf, report]",
        "[resource: note://1]",
        "what the note says",
        "[resource: blob://1, application/zip, 4 bytes]",
    ]


def test_a_server_that_asks_for_samples_persons_or_roots_is_refused(place):
    place.write({"it": fake()})
    (result,) = place.calls(("it-ask", {}))
    assert json.loads(result.text) == [
        "Sampling not supported",
        "Elicitation not supported",
        "List roots not supported",
    ]


def test_a_server_gets_a_clean_environment_and_its_own_folder(place, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789-secret")
    monkeypatch.setenv("GIVEN", "by name")
    (place.folder / "sub").mkdir()
    place.write({"it": fake(env={"HAS": "${GIVEN}", "TOKEN": "t0ken-of-mine"}, cwd="sub")})
    (result,) = place.calls(("it-where", {}))
    seen = json.loads(result.text)
    assert seen["cwd"] == str(place.folder / "sub")
    assert seen["env"]["HAS"] == "by name"
    assert "MY_API_KEY" not in seen["env"]
    assert redact(seen["env"]["TOKEN"]) == "[redacted TOKEN]", "its own secret is known from then on"
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM"}
    harmless = {"LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_", "PYTHONDONTWRITEBYTECODE"}
    assert set(seen["env"]) <= allowed | harmless | {"HAS", "TOKEN"}


def test_a_server_and_what_it_started_end_with_the_run(place):
    mark = secrets.token_hex(8)
    place.write({"it": fake("plain", mark)})

    async def work(servers):
        before = alive(mark)
        started = await call(servers, place.folder, "it-child", {})
        return started.ok and len(alive(mark)) > len(before) > 0

    assert place.within(work)
    assert gone(mark)


def test_a_server_that_will_not_end_is_ended(place):
    mark = secrets.token_hex(8)
    place.write({"it": fake("stubborn", mark)})
    with within(8):
        assert place.calls(("it-where", {}))[0].ok
        assert gone(mark)


def test_a_server_ends_when_the_run_is_cancelled(place):
    mark = secrets.token_hex(8)
    place.write({"it": fake("plain", mark)})
    known = asyncio.Event()

    async def cancelled():
        async def session():
            async with place.servers() as servers:
                await call(servers, place.folder, "it-where", {})
                known.set()
                await call(servers, place.folder, "it-slow", {"seconds": 60}, 120)

        task = asyncio.create_task(session())
        await known.wait()
        assert alive(mark)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert gone(mark)


def test_a_server_that_dies_fails_the_call_and_the_next_call_starts_it_anew(place):
    place.write({"it": fake()})
    died, after = place.calls(("it-die", {}), ("it-count", {}))
    assert not died.ok
    assert "it ended with exit code 3" in died.text
    assert "the disk is on fire" in died.text
    assert (after.ok, after.text) == (True, "1")


def test_a_call_that_can_be_repeated_is_made_again_when_the_server_had_ended_before(place):
    mark = secrets.token_hex(8)
    place.write({"it": fake("plain", mark)})

    async def work(servers):
        await call(servers, place.folder, "it-where", {})
        for process in alive(mark):
            with suppress(ProcessLookupError):
                os.kill(int(process), 9)
        return await call(servers, place.folder, "it-echo", {"text": "still there"})

    result = place.within(work)
    assert (result.ok, result.text) == (True, "still there")


@pytest.mark.night
def test_a_call_that_never_ends_fails_in_time_and_the_others_go_on(place):
    place.write({"it": fake()})
    with within(6):
        slow, after = place.calls(("it-slow", {"seconds": 3}), ("it-echo", {"text": "here"}), timeout=2)
        assert (slow.ok, after.ok) == (False, True)
        assert "did not answer the call of slow within 1.6 s" in slow.text


@pytest.mark.parametrize(("tool", "args"), [("it-flood", {"mb": 40}), ("it-endless", {})])
def test_an_answer_without_end_ends_the_server_and_not_the_run(place, tool, args):
    import resource

    place.write({"it": fake()})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flooded, after = place.calls((tool, args), ("it-echo", {"text": "here"}))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert not flooded.ok
    assert "it sent a message of more than 16 MB" in flooded.text
    assert (after.ok, after.text) == (True, "here")
    assert grown < 150_000, f"{grown} kB more memory"


def test_what_is_no_message_is_passed_over(place, capfd):
    place.write({"it": fake()})
    (result,) = place.calls(("it-noise", {}))
    assert (result.ok, result.text) == (True, "quiet again")
    assert capfd.readouterr() == ("", ""), "nothing of it reaches the terminal"


def test_what_a_server_writes_to_standard_error_is_kept_for_a_person(place, capfd):
    place.write({"it": fake()})
    place.calls(("it-die", {}))
    log = place.folder / ".fractal/state/mcp/it.log"
    assert "the disk is on fire" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            fake("exits"),
            "it ended with exit code 1; its last output: \"Error: cannot find module 'left-pad'\"",
        ),
        (fake("babble"), "it printed more than 1 MB of invalid messages"),
        (
            {"command": "no-such-program"},
            "there is no program no-such-program; install it, or fix command in",
        ),
        (fake(cwd="nowhere"), "its folder"),
        ({"command": "/etc/passwd"}, "there is no program /etc/passwd"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot be reached"),
    ],
    ids=["exits", "babble", "missing", "folder", "not a program", "no address"],
)
def test_a_server_that_does_not_work_is_reported_once_and_the_others_work(place, entry, message):
    place.write({"bad": entry, "good": fake()})
    with within(8):
        assert "good-echo" in place.lists()
    assert len(place.warnings) == 1
    assert "MCP server bad" in place.warnings[0]
    assert message in place.warnings[0]


def test_a_pattern_of_ones_own_may_name_a_servers_tool(place):
    place.write({"it": fake()})
    own = Tool("say", place.folder / "pattern.md", "Say it.", {"text": {}}, run="mcp: it/echo", timeout=5)
    lost = Tool("lost", place.folder / "pattern.md", "Lost.", run="mcp: nowhere/echo")

    async def work(servers):

        context = OperationContext(place.folder, Sandbox("off"))
        with pytest.raises(OperationFailed, match="no such MCP server; there are: it"):
            await servers.run(context, lost, {})
        return await servers.run(context, own, {"text": "mine"})

    assert place.within(work).text == "mine"


def test_no_operation_may_name_a_server_for_the_next_run(place):
    context = OperationContext(place.folder, Sandbox("off"))
    with pytest.raises(OperationFailed, match="protected"):
        context.writable(".mcp.json")


@pytest.mark.skipif(Sandbox().available() is not None, reason="bubblewrap does not work here")
def test_no_command_may_name_one_either(place):
    command = "echo '{}' > .mcp.json; ls -A"
    ran = asyncio.run(Sandbox().run(command, folder=place.folder, timeout=20))
    assert ".mcp.json" in ran.output
    assert not (place.folder / ".mcp.json").exists(), ran.output
    place.write({})
    asyncio.run(Sandbox().run("echo changed > .mcp.json; rm -f .mcp.json", folder=place.folder, timeout=20))
    assert (place.folder / ".mcp.json").read_text() == '{"mcpServers": {}}'


@pytest.mark.night
def test_a_server_that_never_says_anything_is_given_up(place):
    place.write({"good": fake()})
    place.lists()  # a good server has all the time it needs to start on a busy machine
    starts = place.folder / "starts"
    place.write({"mute": fake("silent", env={"STARTS": str(starts)}), "good": fake()})
    place.start_seconds = 3
    assert "good-echo" in place.lists()
    assert [each for each in place.warnings if "did not answer the handshake within 3 s" in each]
    place.lists()
    assert starts.read_text() == "silent\n", "it is not asked again at once"


def test_mute_servers_are_waited_for_together(place):
    place.write({name: fake("silent") for name in ("one", "two", "three")})

    async def look():
        servers = place.servers()
        try:
            return await servers.look(1)
        finally:
            await servers.close()

    with within(3):
        seen = asyncio.run(look())
    assert [each.name for each in seen] == ["one", "two", "three"]
    assert all("it did not answer within 1 s; runs wait longer" in each.error for each in seen)
    assert all(each.fix.startswith("try it by hand: ") for each in seen)
