"""Runs over HTTP: started, followed, decided about, listed; a real `fractal serve`, and real clients."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from playing import ACCEPT, plan
from serving import REPOSITORY, served

from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section
from runtime.api.fractal import Fractal
from runtime.server.run_client import RunClient, RunError
from runtime.server.run_schemas import Seen

TOKEN = "a-token-of-the-tests"
WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "new\n"}}
SECRET = {"tool": "read", "args": {"path": ".env"}}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace without approvals of its own, so that those of clients hold."""
    place = tmp_path / "work"
    place.mkdir()
    settings(place)
    return place


def settings(folder: Path, **values: Any) -> None:
    (folder / "fractal.yaml").write_text(json.dumps({"sandbox": "off", **values}), "utf-8")


def script(folder: Path, *steps: Mapping[str, Any], **more: Any) -> str:
    """A scripted model that plans these steps and accepts; returns its name."""
    entries = [
        {"phase": "fused", "reply": plan(*steps, **more)},
        {"phase": "plan", "reply": plan(*steps, **more)},
        {"phase": "understand", "reply": {"task": "as it stands", "context": [], "open": []}},
        {"phase": "check", "reply": ACCEPT},
    ]
    path = folder / "script.json"
    path.write_text(json.dumps(entries), "utf-8")
    return f"scripted:{path}"


@pytest.fixture
def client(work: Path) -> Iterator[RunClient]:
    with (
        served(work, env={"FRACTAL_TOKEN": TOKEN}) as server,
        RunClient(server.url, name="tests/1.0", token=TOKEN) as runs,
    ):
        yield runs


def ended(runs: RunClient, seen: Seen, after: str = "", until: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The events of a run since a response, or an id, up to an id (default: until it stops)."""
    found: list[tuple[str, dict[str, Any]]] = []
    for id, event in runs.events(seen.run, after or seen.after):
        found.append((id, event))
        if id == until or (not until and event["kind"] == "run_finished"):
            return found
    raise AssertionError(f"the stream ended: {found}")


def test_a_run_is_followed_from_its_start_to_an_approval_to_its_end(work: Path, client: RunClient) -> None:
    model = script(work, WRITE, success=[{"file": "a.txt"}])
    begun = client.start("renew a.txt", model=model)
    first = ended(client, begun)
    kinds = [event["kind"] for _, event in first]
    assert kinds[0] == "run_started" and "loop_waiting" in kinds
    asked = client.state(begun.run)
    assert (asked.status, asked.waits_for, asked.exit) == ("waiting", "approval", 6)
    assert "a.txt" in asked.question
    assert f"POST /api/runs/{begun.run}/approve" in asked.next
    assert asked.after == first[-1][0]
    assert not (work / "a.txt").exists()

    with pytest.raises(RunError, match="asks something else by now") as stale:
        client.approve(begun.run, "another question")
    assert stale.value.status == 409
    rest = ended(client, client.approve(begun.run, asked.question))
    assert rest[-1][1]["data"]["status"] == "complete"
    done = client.state(begun.run)
    assert (done.status, done.exit, done.next) == ("complete", 0, "")
    assert (work / "a.txt").read_text() == "new\n"
    (step,) = done.tree.steps
    assert (step.tool, step.state, done.tree.phase) == ("write", "done", "output")
    assert sum(row.calls or 0 for row in done.tree.phases) == done.tree.spent["calls"] == 2
    approved = Fractal(work).document(begun.run).steps[1].evidence["approved"]
    assert approved == 'client "tests"'

    both = first + rest
    assert [int(id.partition("-")[2]) for id, _ in both] == list(range(1, len(both) + 1))
    for at in (1, len(first), len(both) - 2):
        again = ended(client, begun, both[at][0], until=both[-1][0])
        assert again == both[at + 1 :], "nothing is lost or repeated"


def test_a_question_is_answered(client: RunClient) -> None:
    asked = client.start("compose a hymn to the sea", model="reflex")
    ended(client, asked)
    state = client.state(asked.run)
    assert (state.status, state.waits_for) == ("waiting", "answer")
    ended(client, client.answer(asked.run, "what is 3 * 3", state.question))
    assert client.state(asked.run).result == "9"
    with pytest.raises(RunError, match=r"has ended \(complete\)"):
        client.answer(asked.run, "again")


@pytest.mark.parametrize("decide", ["reject", "veto", "cancel"])
def test_a_plan_that_waits_is_ended(work: Path, client: RunClient, decide: str) -> None:
    begun = client.start("renew a.txt", model=script(work, WRITE), plan_only=True)
    ended(client, begun)
    ended(client, getattr(client, decide)(begun.run))
    state = client.state(begun.run)
    assert (state.status, state.exit) == ("cancelled", 1)
    assert not (work / "a.txt").exists()


def test_a_plan_is_sent_back_forked_and_rated(work: Path, client: RunClient) -> None:
    begun = client.start("renew a.txt", model=script(work, WRITE), plan_only=True)
    ended(client, begun)
    assert client.state(begun.run).waits_for == "approval"
    assert client.say(begun.run, "only a.txt").status == "waiting"
    ended(client, client.nudge(begun.run, "write less"))
    assert "write less" in client.document(begun.run, f"system-{begun.run}")
    copy = client.fork(begun.run, 0, start=False)
    assert copy.run != begun.run and copy.status == "interrupted"
    assert copy.next == f"POST /api/runs/{copy.run}/resume"
    ended(client, client.resume(copy.run))
    client.feedback(begun.run, False, "too much")
    assert "too much" in next((work / "state/runs" / begun.run / "inbox").glob("*-feedback.json")).read_text()
    with pytest.raises(RunError, match="has done no step 9") as wrong:
        client.fork(begun.run, 9)
    assert wrong.value.status == 400


def test_a_run_whose_model_fails_ends_its_stream_with_the_reason(work: Path, client: RunClient) -> None:
    begun = client.start("renew a.txt", model=script(work, WRITE))
    ended(client, begun)
    last = ended(client, client.reject(begun.run))[-1][1]  # the script has nothing for what follows
    assert (last["data"]["status"], last["data"]["exit"]) == ("interrupted", 4)
    state = client.state(begun.run)
    assert (state.status, state.exit) == ("interrupted", 4)
    assert "no reply is left" in state.reason == last["data"]["reason"]
    assert state.next == f"POST /api/runs/{begun.run}/resume"
