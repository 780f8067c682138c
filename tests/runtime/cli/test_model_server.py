"""What a user sees when the server of a model behaves in every way that servers do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import PLAN, Command
from in_process import Ran
from llm_server import Answer, LlmServer

from kernel.errors import Exit

WRITE = ("write", json.dumps({"path": "words.txt", "content": "5\n"}))
DONE = ("done", '{"text": "five words"}')


@pytest.fixture
def ask(fractal: Command, llm_server: LlmServer):
    """Runs a task with the server's model; the keywords are settings of its rung."""

    def run(*words: str, **settings: Any) -> Ran:
        rung: dict[str, Any] = {"model": "openai/m", "api_base": llm_server.url}
        rung |= {"options": {"backoff": 0.02, "retries": 2, "form": "native"}, **settings}
        ladder = {"FRACTAL_LADDER": json.dumps([rung]), "FRACTAL_CHECK": "auto"}
        return fractal("run", *words, "count five into words.txt", env=ladder)

    return run


def works(llm_server: LlmServer) -> None:
    """Let the next request succeed."""
    llm_server.say(json.dumps(PLAN))


def test_a_streamed_reply_is_reported_piece_by_piece(ask, llm_server):
    works(llm_server)
    events = [json.loads(line) for line in ask("--json").out.splitlines()]
    pieces = [event["data"]["text"] for event in events if event["kind"] == "reply_delta"]
    assert "".join(pieces) == json.dumps(PLAN)
    assert len(pieces) > 10


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (Answer(status=429, error={"message": "slow down"}), "slow down, retrying in 0 s (1 of 2)"),
        (Answer(status=500, error={"message": "out of order"}), "out of order, retrying in 0 s (1 of 2)"),
        (Answer(json.dumps(PLAN), cut=True), "peer closed connection without sending complete message body"),
        (
            Answer(raw=b"<html>busy</html>"),
            "the answer is a web page and no reply: busy; is the address right?, r",
        ),
        (Answer(raw=b'{"error": "overloaded"}'), "overloaded, retrying in 0 s (1 of 2)"),
        (Answer(json.dumps(PLAN), stall=1.0), "the reply stalled within 0.2 s, retrying in 0 s (1 of 2)"),
        (Answer(delay=1.0), "no reply began within 0.5 s, retrying in 0 s (1 of 2)"),
        (Answer(drop=True), "Server disconnected without sending a response., retrying in 0 s (1 of 2)"),
    ],
)
def test_trouble_that_passes_is_shown_and_overcome(ask, llm_server, trouble, told):
    llm_server.queue(trouble)
    works(llm_server)
    ran = ask(timeout={"first_token": 0.5, "idle": 0.2})
    assert ran.exit == 0, ran.err
    assert f"warning: openai/m: {told}" in ran.err
    assert ran.out == "wrote words.txt, 2 characters\n"


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"<!doctype html><title>Sign in</title>", "a web page and no reply: Sign in; is the address right?"),
        (b'{"choices": []}', 'the answer has no reply: {"choices": []}'),
        (b'{"error": {"message": "no such voice"}}', "no such voice"),
    ],
)
def test_an_answer_that_is_no_reply_ends_the_run_at_once(ask, llm_server, raw, told):
    llm_server.always(lambda body: Answer(raw=raw))
    ran = ask()
    assert (ran.exit, llm_server.count) == (Exit.PROVIDER, 1)
    assert told in ran.err and "retrying" not in ran.err


def test_a_run_goes_on_with_the_window_that_its_server_states(fractal: Command, llm_server: LlmServer):
    """The conversation is made again for less, and the run does not end."""
    words = (
        "This model's maximum context length is 8000 tokens. However, your messages resulted in {} tokens."
    )

    def answer(body: Any) -> Answer:
        size = len(json.dumps(body["messages"])) // 3
        if size > 7000:
            return Answer(status=400, error={"message": words.format(size)})
        return Answer('{"calls": [], "done": {"answer": "It is long."}}')

    llm_server.always(answer)
    for number in range(6):
        (fractal.folder / f"notes{number}.txt").write_text(f"{number} words of a note\n" * 400)
    named = " and ".join(f"notes{number}.txt" for number in range(6))
    rung = {"model": "openai/m", "api_base": llm_server.url, "options": {"form": "json"}}
    ran = fractal(
        "run",
        f"say what stands in {named}",
        env={"FRACTAL_LADDER": json.dumps([rung]), "FRACTAL_CHECK": "auto"},
    )
    sizes = [len(json.dumps(body["messages"])) // 3 for body in llm_server.bodies]
    assert sizes[0] > 7000 > sizes[1], "else this shows nothing"
    assert "It is long." in ran.out, ran.err


def test_trouble_that_stays_ends_the_run_with_its_reason(ask, llm_server):
    llm_server.always(lambda body: Answer(status=503, error={"message": "no capacity"}))
    ran = ask()
    assert ran.exit == Exit.PROVIDER
    assert "(1 of 2)" in ran.err and "(2 of 2)" in ran.err
    assert "failed 3 times" in ran.err and "last: no capacity" in ran.err
    assert "continue with: fractal resume" in ran.err


def test_an_error_in_the_middle_of_a_stream_is_retried(ask, llm_server):
    head = {"Content-Type": "text/event-stream"}
    llm_server.queue(Answer(raw=b'data: {"error": {"message": "overloaded"}}\n\n', headers=head))
    works(llm_server)
    assert "overloaded, retrying in 0 s" in ask().err


def test_a_refusal_is_shown(ask, llm_server):
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    llm_server.queue(Answer(raw=json.dumps({"choices": [{"message": message}]}).encode()))
    ran = ask()
    assert ran.exit == Exit.PROVIDER
    assert "the model refuses: I cannot help with that.; rephrase the task" in ran.err


def test_a_text_without_a_call_is_the_answer_and_is_held_back_once(ask, llm_server):
    """The task asks for a change, and nothing was changed."""
    llm_server.say("I would write the file.")
    llm_server.queue(Answer(calls=(WRITE, DONE)))
    ran = ask()
    assert (ran.exit, ran.out) == (0, "five words\n"), ran.err
    assert "held back once: nothing was changed" in ran.err


def test_a_wrong_form_is_named_and_asked_for_again(ask, llm_server):
    llm_server.say('{"calls": []}')
    works(llm_server)
    ran = ask()
    assert ran.exit == 0, ran.err
    assert "refused a reply of openai/m: " in ran.err and "give calls" in ran.err


def test_calls_side_by_side_are_both_made(ask, llm_server, fractal):
    llm_server.queue(Answer(calls=(("read", '{"path": "notes.txt"}'), WRITE)), Answer(calls=(DONE,)))
    llm_server.queue(Answer(calls=(DONE,)))
    ran = ask()
    assert (ran.exit, ran.out) == (0, "five words\n"), ran.err
    assert "read notes.txt" in ran.err and "write words.txt" in ran.err


def test_an_unknown_tool_is_named_to_the_model_and_the_user(ask, llm_server):
    llm_server.queue(Answer(calls=(("launch", "{}"),)), Answer(calls=(WRITE,)))
    llm_server.queue(Answer(calls=(DONE,)), Answer(calls=(DONE,)))
    ran = ask()
    assert ran.exit == 0, ran.err
    assert "there is no tool 'launch'" in ran.err
    assert "launch" in json.dumps(llm_server.bodies[1]["messages"])


def test_a_hundred_kilobytes_of_arguments_are_written(ask, llm_server, fractal):
    content = "5" + "x" * 100_000
    long = ("write", json.dumps({"path": "words.txt", "content": content}))
    llm_server.queue(Answer(calls=(long,)), Answer(calls=(DONE,)), Answer(calls=(DONE,)))
    ran = ask()
    assert ran.exit == 0, ran.err
    assert (fractal.folder / "words.txt").read_text() == content
    assert all(len(line) < 300 for line in ran.err.splitlines()), "the view stays readable"
