"""Runs over HTTP: started, followed, decided about; a real server, and real clients."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from run_place import TOKEN, WRITE, ended, script

from runtime.api.fractal import Fractal
from runtime.server.client import Client, ServerError


def test_a_run_is_followed_from_its_start_to_an_approval_to_its_end(work: Path, client: Client) -> None:
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

    with pytest.raises(ServerError, match="asks something else by now") as stale:
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


def test_a_question_is_answered(client: Client) -> None:
    asked = client.start("compose a hymn to the sea", model="reflex")
    ended(client, asked)
    state = client.state(asked.run)
    assert (state.status, state.waits_for) == ("waiting", "answer")
    ended(client, client.answer(asked.run, "what is 3 * 3", state.question))
    assert client.state(asked.run).result == "9"
    with pytest.raises(ServerError, match=r"has ended \(complete\)"):
        client.answer(asked.run, "again")


@pytest.mark.parametrize("decide", ["reject", "veto", "cancel"])
def test_a_plan_that_waits_is_ended(work: Path, client: Client, decide: str) -> None:
    begun = client.start("renew a.txt", model=script(work, WRITE), plan_only=True)
    ended(client, begun)
    ended(client, getattr(client, decide)(begun.run))
    state = client.state(begun.run)
    assert (state.status, state.exit) == ("cancelled", 1)
    assert not (work / "a.txt").exists()


def test_a_plan_is_sent_back_forked_and_rated(work: Path, client: Client) -> None:
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
    with pytest.raises(ServerError, match="has done no step 9") as wrong:
        client.fork(begun.run, 9)
    assert wrong.value.status == 400


def test_a_run_whose_model_fails_ends_its_stream_with_the_reason(work: Path, client: Client) -> None:
    begun = client.start("renew a.txt", model=script(work, WRITE))
    ended(client, begun)
    last = ended(client, client.reject(begun.run))[-1][1]  # the script has nothing for what follows
    assert (last["data"]["status"], last["data"]["exit"]) == ("interrupted", 4)
    state = client.state(begun.run)
    assert (state.status, state.exit) == ("interrupted", 4)
    assert "no reply is left" in state.reason == last["data"]["reason"]
    assert state.next == f"POST /api/runs/{begun.run}/resume"


def test_documents_are_read_as_markdown_and_as_objects(work: Path, client: Client) -> None:
    begun = client.start("what is 2 + 2")
    ended(client, begun)
    root = f"system-{begun.run}"
    path = Fractal(work).path(begun.run)
    assert client.document(begun.run, root) == path.read_text("utf-8")
    status, body = ask(client, "GET", f"/api/runs/{begun.run}/documents")
    assert (status, body[0]) == (200, root)
    status, body = ask(client, "GET", f"/api/runs/{begun.run}/documents/{root}?format=json")
    assert (status, body["meta"]["id"], body["meta"]["status"]) == (200, root, "complete")
    assert body["sections"]["1"]["notes"][0]["text"] == "what is 2 + 2"


def ask(client: Client, method: str, target: str, body: bytes | str = b"", **headers: str) -> tuple[int, Any]:
    """The status and the JSON of a request that is sent exactly as it stands."""
    place = urlsplit(str(client._http.base_url))
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        given = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}
        connection.request(method, target, body, given)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


def test_the_trace_of_a_request_is_kept_in_meta(work: Path, client: Client) -> None:
    for sent, kept in ((TRACE, TRACE), ("nonsense", None), (TRACE.replace("ab", "00"), None)):
        status, begun = ask(client, "POST", "/api/runs", '{"task": "what is 2 + 2"}', traceparent=sent)
        assert status == 202
        assert Fractal(work).document(begun["run"]).meta.extra.get("trace") == kept


TRACE = f"00-{'ab' * 16}-{'ab' * 8}-01"


def test_wrong_requests_are_refused_with_a_reason_and_start_nothing(work: Path, client: Client) -> None:
    done = client.start("what is 2 + 2")
    ended(client, done)
    run, place = done.run, f"/api/runs/{done.run}"
    wrong = [
        ("POST", "/api/runs", "", 422, "body"),
        ("POST", "/api/runs", "{", 422, "JSON"),
        ("POST", "/api/runs", "[]", 422, ""),
        ("POST", "/api/runs", b"\xff\xfe", 422, ""),
        ("POST", "/api/runs", '{"task": " "}', 422, "task"),
        ("POST", "/api/runs", '{"task": 7}', 422, "task"),
        ("POST", "/api/runs", '{"task": "x", "yes": true}', 422, "yes"),
        ("POST", "/api/runs", '{"task": "x", "agent": "../up"}', 422, "agent"),
        ("POST", "/api/runs", '{"task": "\\ud800"}', 422, "task"),
        ("POST", "/api/runs", '{"task": "x", "after": "nosuch"}', 400, "there is no run nosuch"),
        ("POST", "/api/runs", json.dumps({"task": "x" * 1_000_001}), 413, "1,000,000"),
        ("GET", "/api/runs?limit=0", "", 422, "limit"),
        ("GET", "/api/runs?limit=1001", "", 422, "limit"),
        ("GET", "/api/runs?status=odd", "", 422, "status"),
        ("GET", "/api/runs?before=nosuch", "", 400, "there is no run nosuch"),
        ("GET", "/api/runs/nosuch", "", 404, "there is no run nosuch"),
        ("GET", f"/api/runs/{run[:3]}", "", 404, "there is no run"),
        ("GET", f"{place}/documents/none", "", 404, f"GET {place}/documents"),
        ("GET", f"{place}/documents/system-{run}?format=html", "", 422, "format"),
        ("DELETE", place, "", 405, ""),
        ("POST", f"{place}/answer", "{}", 422, "text"),
        ("POST", f"{place}/nudge", '{"why": "  "}', 422, "why"),
        ("POST", f"{place}/approve", '{"scope": "all"}', 422, "scope"),
        ("POST", f"{place}/fork", '{"step": -1}', 422, "step"),
        ("POST", f"{place}/feedback", '{"good": "perhaps"}', 422, "good"),
        ("POST", "/api/person", '{"code": "guess"}', 403, "not started at a terminal"),
        *[
            ("POST", f"{place}/{what}", body, 400, f"run {run} has ended (complete)")
            for what, body in (
                ("approve", ""),
                ("reject", ""),
                ("veto", ""),
                ("cancel", ""),
                ("say", '{"text": "more"}'),
                ("answer", '{"text": "4"}'),
                ("nudge", '{"why": "more"}'),
            )
        ],
    ]
    for method, target, body, status, text in wrong:
        got = ask(client, method, target, body)
        assert got[0] == status, (target, body[:80], got)
        assert list(got[1]) == ["error"] and text in got[1]["error"], (target, got)
    assert [each.run for each in client.runs().runs] == [run]


def test_hostile_names_reach_no_file(work: Path, client: Client) -> None:
    done = client.start("what is 2 + 2")
    ended(client, done)
    (work / "state" / "secret.md").write_text("secret")
    names = (
        "..",
        ".",
        "%2e%2e",
        "..%2f..%2fetc",
        "..%5c..",
        "%00",
        "a%00b",
        "system-x.md",
        "%ff",
        "*",
        "%0d%0aX:y",
    )
    for name in names:
        for target in (
            f"/api/runs/{name}",
            f"/api/runs/{name}/documents",
            f"/api/runs/{done.run}/documents/{name}",
        ):
            status, body = ask(client, "GET", target)
            assert status == 404 or target.endswith(("/.", "/..")), (target, status, body)
            assert "secret" not in json.dumps(body)
    for name in ("../../secret", "..%2f..%2fsecret", "..%2f..%2fsecret.md", "lock", "calls.jsonl"):
        assert ask(client, "GET", f"/api/runs/{done.run}/documents/{name}")[0] == 404
