"""`fractal acp` as a process, driven by the SDK's client: prompts, permissions, modes, cancel, load."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import acp
import pytest
import pytest_asyncio
from editor import editor, settings
from lanes import async_until
from llm_server import Answer
from playing import ACCEPT, bash, plan, read, write

from kernel.document.model import Document
from runtime.api.fractal import Fractal

JUDGE = {"phase": "check", "reply": ACCEPT}
GIVE_UP = {"phase": "work", "reply": {"cannot": "a person rejected it"}}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server():
    """One process for all tests that do not end it."""
    async with editor() as client:
        yield client


@pytest.fixture
def client(server):
    """An editor that has not seen anything yet."""
    server.updates, server.asked, server.decide = [], [], "allow"
    return server


@pytest.fixture
def work(tmp_path):
    """A folder with a file in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\n")
    return folder


def plans(folder, *steps, **more):
    """Let the model of a folder plan these steps and accept the result."""
    settings(folder, {"phase": "fused", "reply": plan(*steps), **more}, JUDGE, GIVE_UP)


def runs(folder) -> list[Document]:
    """The roots of all runs, oldest first."""
    fractal = Fractal(folder)
    return [fractal.root_document(run) for run in reversed(fractal.workspace.run_ids())]


async def test_a_prompt_shows_the_plan_its_calls_with_diffs_and_the_result(client, work, tmp_path):
    place = tmp_path / "link"  # paths are shown as the editor names them
    place.symlink_to(work)
    look = {"tool": "read", "args": {"path": "notes.txt", "lines": "2"}}
    plans(work, look, write("notes.txt", "three\n"), bash("cat; echo the end"))
    session = await client.open(place)
    assert await client.ask(session, "change the notes") == "end_turn"
    assert client.plan() == [
        ("read notes.txt", "completed"),
        ("write notes.txt", "completed"),
        ("bash cat; echo the end", "completed"),
    ]
    looked, wrote, ran = client.calls().values()
    assert (looked["kind"], looked["status"], looked["raw_input"]["lines"]) == ("read", "completed", "2")
    assert looked["locations"] == [{"path": str(place / "notes.txt"), "line": 2}]
    assert "two" in looked["content"][0]["content"]["text"]
    assert wrote["kind"] == "edit"
    diff = {"type": "diff", "path": str(place / "notes.txt"), "old_text": "one\ntwo\n", "new_text": "three\n"}
    assert wrote["content"][0] == diff
    assert ran["kind"] == "execute"
    assert "the end" in ran["content"][0]["content"]["text"]  # its standard input is empty
    assert [each.content.text for each in client.of("agent_thought_chunk")] == ["as scripted\n\n"]
    assert client.said().startswith("done")
    assert client.asked == []


async def test_foreign_text_is_fenced_and_valid(client, work):
    print_it = "printf '```\\377 ![x](http://y)'; echo hi > \"$(printf 'a\\376.txt')\""
    judge = {"phase": "check", "reply": {**ACCEPT, "output": "half \ud800"}}
    settings(work, {"phase": "fused", "reply": plan(bash(print_it), approach="half \ud800")}, judge)
    session = await client.open(work)
    assert await client.ask(session, "print it") == "end_turn"
    (call,) = client.calls().values()
    diff, result = call["content"]
    assert (diff["new_text"], diff["path"]) == ("hi\n", str(work / "a\ufffd.txt"))
    assert result["content"]["text"].startswith("````\n```")
    assert client.said().startswith("half \ufffd")
    assert client.of("agent_thought_chunk")[0].content.text == "half \ufffd\n\n"


async def test_a_prompt_follows_the_ones_before(client, work):
    session = await client.open(work)
    for prompt in ("what is 3 + 4", "multiply it by 6", "subtract 2 from it"):
        await client.ask(session, prompt)
    assert client.said() == "7\n42\n40"
    assert [root.meta.extra["thread"] for root in runs(work)] == [session] * 3


async def test_the_mode_ask_asks_before_it_writes(client, work):
    plans(work, write("out.txt", "hello\n"))
    session = await client.open(work)
    await client.agent.set_session_mode(session_id=session, mode_id="ask")
    await client.ask(session, "write it")
    assert (work / "out.txt").read_text() == "hello\n"
    (asked,) = client.asked
    assert (asked.title, asked.kind) == ("write out.txt", "edit")
    assert "may write" in asked.content[0].content.text
    assert asked.content[1].new_text == "hello\n"
    assert client.calls()[asked.tool_call_id]["status"] == "completed"


async def test_a_rejected_step_is_not_done(client, work):
    plans(work, write("out.txt", "hello\n"))
    session = await client.open(work)
    await client.agent.set_session_mode(session_id=session, mode_id="ask")
    client.decide = "reject"
    await client.ask(session, "write it")
    assert not (work / "out.txt").exists()
    (call,) = client.calls().values()
    assert call["status"] == "failed"
    assert 'rejected by person at page "tester"' in call["content"][-1]["content"]["text"]
    assert "Here, send the task in other words" in client.said()


async def test_a_serious_danger_says_what_it_is(client, work):
    plans(work, bash("rm -rf ~/projects"))
    session = await client.open(work)
    client.decide = "cancel"
    assert await client.ask(session, "tidy up") == "end_turn"
    (asked,) = client.asked
    assert asked.title == "serious danger: bash rm -rf ~/projects"
    assert "- serious: " in asked.content[0].content.text
    assert "Send `resume` to be asked again" in client.said()
    client.decide = "reject"
    await client.ask(session, "Resume.")
    assert len(client.asked) == 2


async def test_the_mode_plan_carries_nothing_out_until_another_mode_does(client, work):
    plans(work, write("out.txt", "hello\n"))
    session = await client.open(work)
    await client.agent.set_session_mode(session_id=session, mode_id="plan")
    assert await client.ask(session, "write it") == "end_turn"
    assert client.plan() == [("write out.txt", "pending")]
    assert '1. write {"path": "out.txt"}' in client.said()
    assert "Nothing is done yet" in client.said()
    assert "carries nothing out" in await client.refused(client.ask(session, "resume"))
    assert client.calls() == {}
    assert not (work / "out.txt").exists()

    await client.agent.set_session_mode(session_id=session, mode_id="do")
    await client.ask(session, "resume")
    assert (work / "out.txt").read_text() == "hello\n"
    assert client.asked == []
    assert [root.meta.status for root in runs(work)] == ["complete"]


async def test_a_cancelled_prompt_is_an_interrupted_run_that_can_be_resumed(client, work):
    plans(work, bash("test -e go || sleep 60; echo slept"))
    session = await client.open(work)
    prompt = asyncio.create_task(client.ask(session, "sleep"))
    await client.until(client.calls)
    assert "still busy" in await client.refused(client.ask(session, "and now this"))
    await client.agent.cancel(session_id=session)
    assert await prompt == "cancelled"
    assert "Send `resume`" in client.said()
    assert [root.meta.status for root in runs(work)] == ["interrupted"]

    (work / "go").touch()
    await client.ask(session, "resume")
    assert "Here, answer `rerun` or `done`" in client.said()  # it may have happened
    assert await client.ask(session, "rerun") == "end_turn"
    (root,) = runs(work)
    assert (root.meta.status, root.steps[1].result) == ("complete", "slept")


async def test_a_prompt_can_be_cancelled_while_it_asks_for_permission(client, work):
    plans(work, write("out.txt", "hello\n"))
    session = await client.open(work)
    await client.agent.set_session_mode(session_id=session, mode_id="ask")
    client.decide = "wait"
    prompt = asyncio.create_task(client.ask(session, "write it"))
    await client.until(lambda: client.asked)
    await client.agent.cancel(session_id=session)
    assert await prompt == "cancelled"
    assert not (work / "out.txt").exists()
    client.decide = "allow"
    assert await client.ask(session, "resume") == "end_turn"
    assert (work / "out.txt").read_text() == "hello\n"


async def test_a_session_survives_the_end_of_its_process(work):
    plans(work, read("notes.txt"), write("out.txt", "x\n"))
    async with editor() as client:
        session = await client.open(work)
        await client.ask(session, "copy it")
        plans(work, read("notes.txt"), delay=60)
        closed = asyncio.create_task(client.ask(session, "read it"))
        await async_until(lambda: len(runs(work)) == 2)
    await asyncio.gather(closed, return_exceptions=True)
    assert [root.meta.status for root in runs(work)] == ["complete", "interrupted"]
    async with editor() as client:
        await client.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
        killed = asyncio.create_task(client.ask(session, "resume"))
        await async_until(lambda: runs(work)[1].meta.status == "running")
        os.kill(client.process.pid, signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await killed
    async with editor() as client:
        plans(work, read("notes.txt"))
        loaded = await client.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
        assert loaded.modes.current_mode_id == "do"
        assert [each.content.text for each in client.of("user_message_chunk")] == ["copy it", "read it"]
        (listed,) = (await client.agent.list_sessions(cwd=str(work))).sessions
        assert (listed.session_id, listed.title, listed.cwd) == (session, "copy it", str(work))
        looked, wrote = client.calls().values()
        assert (looked["title"], wrote["title"]) == ("read notes.txt", "write out.txt")
        assert wrote["content"][0]["new_text"] == "x\n"
        assert client.said().startswith("done")
        assert client.said().endswith("Any other prompt starts a new one.")
        await client.ask(session, "resume")
        assert [root.meta.status for root in runs(work)] == ["complete", "complete"]
        Fractal(work).fork(worktree=True)
        (still,) = (await client.agent.list_sessions(cwd=str(work))).sessions
        assert (still.session_id, still.cwd) == (session, str(work)), "a fork elsewhere hides no session"


async def test_a_question_and_its_answer_are_shown_and_loaded(client, work):
    asks = {"phase": "fused", "reply": {**plan(), "question": "Which colour?", "steps": []}, "times": 1}
    turn = {"calls": [write("colour.txt", "blue\n")], "done": "it is blue"}
    settings(work, asks, {"phase": "work", "reply": turn}, JUDGE)
    session = await client.open(work)
    assert await client.ask(session, "write the colour") == "end_turn"
    assert client.said() == "Which colour?"
    await client.ask(session, "blue")
    assert (work / "colour.txt").read_text() == "blue\n"
    assert len(runs(work)) == 1
    client.updates.clear()
    await client.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
    assert [each.content.text for each in client.of("user_message_chunk")] == ["write the colour", "blue"]
    assert client.said().startswith("Which colour?\nit is blue")


async def test_what_another_process_says_is_shown_once_and_loaded(client, work):
    turns = [
        {"phase": "fused", "reply": {"calls": [bash("until test -e go; do sleep .05; done")]}},
        {"phase": "work", "prompt": "The user says: in blue", "reply": {"done": "it is blue"}},
    ]
    settings(work, *turns, JUDGE)
    session = await client.open(work)
    prompt = asyncio.create_task(client.ask(session, "write it"))
    await client.until(client.calls)
    Fractal(work).tell(runs(work)[0].meta.run, "say", text="in blue")
    (work / "go").touch()
    assert await prompt == "end_turn"
    assert [each.content.text for each in client.of("user_message_chunk")] == ["in blue"]
    client.updates.clear()
    await client.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
    assert [each.content.text for each in client.of("user_message_chunk")] == ["write it", "in blue"]


async def test_a_run_by_turns_shows_what_it_plans_thinks_and_holds_back(client, work):
    planned = {"tool": "plan", "args": {"approach": "look, then write"}}
    first = {"text": "I look first.", "calls": [planned, read("nowhere.txt")], "done": "it is blue"}
    second = {"calls": [write("colour.txt", "blue\n")], "done": "it is blue"}
    settings(work, {"phase": "fused", "reply": first}, {"phase": "work", "reply": second}, JUDGE)
    session = await client.open(work)
    assert await client.ask(session, "write the colour") == "end_turn"
    for _ in range(2):
        assert client.of("plan") == [], "nothing was planned step by step"
        told = [
            each.title if hasattr(each, "title") else each.content.text.strip("`\n")
            for _, each in client.updates
            if each.session_update in ("tool_call", "agent_thought_chunk")
        ]
        assert told[:3] == ["look, then write", "I look first.", "read nowhere.txt"]
        assert told[3].startswith("held back: a call of this turn failed")
        assert told[4] == "write colour.txt"
        client.updates.clear()
        await client.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])


async def test_two_sessions_work_side_by_side(client, work, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for folder in (work, other):
        plans(folder, bash("until test -e go; do sleep .05; done; pwd"))
    first, second = await client.open(work), await client.open(other)
    prompts = [asyncio.create_task(client.ask(each, "wait")) for each in (first, second)]
    await client.until(lambda: client.calls(first) and client.calls(second))
    (other / "go").touch()
    assert await prompts[1] == "end_turn"
    assert not prompts[0].done()
    (work / "go").touch()
    assert await prompts[0] == "end_turn"
    assert str(work) in str(client.calls(first))
    assert str(other) in str(client.calls(second))


async def test_bad_input_gets_a_message_for_people(client, work):
    session = await client.open(work)
    image = acp.image_block("aGk=", "image/png")
    assert "reads no image content" in await client.refused(client.ask(session, "look", image))
    assert "no text" in await client.refused(client.ask(session, "  "))
    assert "not open here" in await client.refused(client.ask("nothing", "hello"))
    unknown = client.agent.load_session(cwd=str(work), session_id="nothing", mcp_servers=[])
    assert "there is no session nothing" in await client.refused(unknown)
    assert "is not a folder" in await client.refused(client.open(work / "nowhere"))
    mode = client.agent.set_session_mode(session_id=session, mode_id="fast")
    assert "there is no mode fast; the modes are ask, plan, do" in await client.refused(mode)
    settings(work, calls="many")
    assert "fractal.yaml: calls" in await client.refused(client.ask(session, "hello"))
    assert "fractal.yaml: calls" in await client.refused(client.open(work))
    (work / "fractal.yaml").unlink()
    await client.ask(session, "please compose a poem about cats")
    assert "there is no model to ask" in client.said()


async def test_an_untrusted_folder_is_refused(work):
    settings(work, network=True)
    async with editor(FRACTAL_TRUST="") as client:
        assert "fractal trust" in await client.refused(client.open(work))


async def test_a_folder_whose_guidance_is_not_allowed_is_opened_without_it(work):
    (work / "AGENTS.md").write_text("Use tabs.\n")
    async with editor(FRACTAL_TRUST="") as client:
        session = await client.open(work)
        await client.ask(session, "what is 2 + 2")
        assert "4" in client.said()


async def test_an_answer_is_shown_while_it_is_written(client, work, llm_server):
    answer = "The notes have two lines, and the first of them is one.\n" + "They say little else. " * 60
    llm_server.always(lambda body: Answer(answer))
    model = {"model": "openai/some-model", "api_base": llm_server.url, "reply_tokens": 500}
    (work / "fractal.yaml").write_text(json.dumps({**model, "price": {"input": 0, "output": 0}}))
    session = await client.open(work)
    assert await client.ask(session, "explain in your own words what the notes are about") == "end_turn"
    pieces = [each.content.text for each in client.of("agent_message_chunk")]
    assert len(pieces) > 3
    assert "".join(pieces).startswith(answer.strip()), "".join(pieces)
    assert "".join(pieces).count("first of them") == llm_server.count, "the end does not repeat it"


async def test_the_model_can_be_chosen_in_the_editor(client, work, tmp_path):
    for name in ("first", "second"):
        script = [{"phase": "fused", "reply": plan(write(f"{name}.txt", name))}, JUDGE]
        (tmp_path / f"{name}.json").write_text(json.dumps(script))
    (work / "fractal.yaml").write_text(json.dumps({"model": f"scripted:{tmp_path}/first.json"}))
    answer = await client.agent.new_session(cwd=str(work), mcp_servers=[])
    (option,) = answer.config_options
    assert (option.id, option.category, option.current_value) == (
        "model",
        "model",
        f"scripted:{tmp_path}/first.json",
    )
    await client.ask(answer.session_id, "make a file")
    other = f"scripted:{tmp_path}/second.json"
    set_option = client.agent.set_config_option
    changed = await set_option(session_id=answer.session_id, config_id="model", value=other)
    assert changed.config_options[0].current_value == other
    assert other in [each.value for each in changed.config_options[0].options]
    await client.ask(answer.session_id, "make another file")
    assert (work / "first.txt").exists() and (work / "second.txt").exists()
    wrong = {"scripted:/nowhere.json": "nowhere", " ": "name a model"}
    for value, why in wrong.items():
        refused = set_option(session_id=answer.session_id, config_id="model", value=value)
        assert why in await client.refused(refused)
    refused = set_option(session_id=answer.session_id, config_id="mood", value="good")
    assert "there is no option mood" in await client.refused(refused)
