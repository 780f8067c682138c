"""Who may approve over HTTP: not any program of this machine, and of serious dangers only a person."""

from __future__ import annotations

import json
import os
import pty
import re
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from lanes import PATIENCE, until
from run_place import SECRET, TOKEN, WRITE, ended, script, settings
from serving import COMMAND, in_thread, variables
from warm import Process

from runtime.api.fractal import Fractal
from runtime.server.client import Client, ServerError
from runtime.server.persons import MOST_PAGES, Persons

SHOWN = {"Authorization": f"Bearer {TOKEN}"}
LINK = re.compile(r"open once: (http://127\.0\.0\.1:\d+)/#person=(\S+)")


class Terminal:
    """What a server at a terminal has printed so far."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._text = ""

    def links(self, count: int) -> list[tuple[str, str]]:
        """The first `count` links: address and code."""

        def enough() -> bool:
            if select.select([self._handle], [], [], 0.05)[0]:
                self._text += os.read(self._handle, 65_536).decode()
            return len(LINK.findall(self._text)) >= count

        until(enough, says=lambda: self._text)
        return LINK.findall(self._text)


@contextmanager
def at_terminal(folder: Path, **env: str) -> Iterator[Terminal]:
    """A server that a person has started at a terminal."""
    handle, inner = pty.openpty()
    env = {"FRACTAL_TOKEN": TOKEN, **env}
    process = Process(COMMAND, cwd=folder, env=variables(env), stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    try:
        yield Terminal(handle)
    finally:
        process.terminate()
        process.wait(60)
        os.close(handle)


def waiting_with(client: Client, model: str, task: str = "do the work") -> str:
    begun = client.start(task, model=model)
    ended(client, begun)
    assert client.state(begun.run).waits_for == "approval"
    return begun.run


def test_without_a_token_no_client_approves_anything(work: Path) -> None:
    """A command of the worker that reaches this machine's network is such a client."""
    with in_thread(work) as url, Client(url, name="claude-code") as client:
        run = waiting_with(client, script(work, WRITE))
        with pytest.raises(ServerError, match=f"at a terminal: fractal approve {run}") as refused:
            client.approve(run)
        assert refused.value.status == 403
        assert client.state(run).waits_for == "approval"
        for proof in ("guess", "", "None", "0" * 43):
            approved = httpx.post(f"{url}/api/runs/{run}/approve", headers={"X-Fractal-Person": proof})
            assert approved.status_code == 403
        for origin in ("http://127.0.0.1:3000", "http://evil.example", "null"):
            crossed = httpx.post(f"{url}/api/runs/{run}/reject", headers={"Origin": origin})
            assert crossed.status_code == 403
        rebound = httpx.post(f"{url}/api/runs/{run}/reject", headers={"Host": "evil.example"})
        assert rebound.status_code == 421
        assert not (work / "a.txt").exists()
        client.reject(run)  # what ends or holds back needs no proof
        with pytest.raises(ServerError, match=f"fractal feedback {run}"):
            client.feedback(run, True)


@pytest.mark.parametrize("trusted", [False, True])
def test_with_the_token_only_a_trusted_client_approves_a_serious_danger(work: Path, trusted: bool) -> None:
    (work / ".env").write_text("KEY=1\n")
    settings(work, **({"trusted_clients": ["deployer"]} if trusted else {}))
    with (
        in_thread(work, token=TOKEN) as url,
        Client(url, name="deployer/2.1", token=TOKEN) as client,
        Client(url, name="other", token=TOKEN) as other,
    ):
        run = waiting_with(client, script(work, SECRET))
        with pytest.raises(ServerError, match="needs a person's approval"):
            other.approve(run)
        if trusted:
            ended(client, client.approve(run))
            assert Fractal(work).document(run).steps[1].evidence["approved"] == 'client "deployer"'
        else:
            with pytest.raises(ServerError, match="needs a person's approval"):
                client.approve(run)
        with pytest.raises(ServerError, match="the bearer token is missing or wrong"):
            Client(url).approve(run)
        other_run = waiting_with(client, script(work, WRITE), "renew a.txt")
        answer = httpx.post(
            f"{url}/api/runs/{other_run}/approve",
            headers={"Authorization": f"Bearer {TOKEN}"},
            json={"scope": "always"},
        )
        assert (answer.status_code, "one call at a time" in answer.text) == (400, True)


def test_the_person_who_opens_the_link_of_the_terminal_approves(work: Path) -> None:
    (work / ".env").write_text("KEY=1\n")
    with at_terminal(work) as terminal:
        ((url, code),) = terminal.links(1)
        with (
            Client(url, token=TOKEN) as client,
            httpx.Client(base_url=url, timeout=PATIENCE, headers=SHOWN) as page,
        ):
            run = waiting_with(client, script(work, SECRET))
            assert page.get("/api/person").json() == {"person": False, "possible": True}
            assert page.post("/api/person", json={"code": code[:-1]}).status_code == 403
            foreign = page.post("/api/person", json={"code": code}, headers={"Origin": "http://127.0.0.1:1"})
            assert foreign.status_code == 403

            proof = page.post("/api/person", json={"code": code}).json()["proof"]
            assert page.post("/api/person", json={"code": code}).status_code == 403, "a code works once"
            assert terminal.links(2)[1][1] != code, "who sits there sees that it was used"
            page.headers["X-Fractal-Person"] = proof
            assert page.get("/api/person").json()["person"] is True
            assert not page.cookies, "a cookie would go to every port of this machine"

            before = client.state(run)
            approved = page.post(f"/api/runs/{run}/approve", json={"question": before.question})
            assert approved.status_code == 200, approved.text
            ended(client, before)
        assert Fractal(work).document(run).steps[1].evidence["approved"] == "person at page"

    with at_terminal(work) as terminal:  # a proof ends with the server
        ((url, _),) = terminal.links(1)
        gone = httpx.post(f"{url}/api/runs/{run}/reject", headers={**SHOWN, "X-Fractal-Person": proof})
        assert (gone.status_code, "not recognised any more" in gone.json()["error"]) == (403, True)


def test_only_so_many_pages_are_remembered() -> None:
    codes: list[str] = []
    persons = Persons(codes.append)
    proofs = [persons.admit(codes[-1]) for _ in range(MOST_PAGES + 1)]
    assert [persons.knows(each) for each in proofs] == [False, *[True] * MOST_PAGES]
    assert len({*codes, *proofs}) == 2 * MOST_PAGES + 3
    assert not persons.knows("") and not persons.admit("") and not persons.admit("\ud800")
    silent = Persons(None)
    assert not silent.possible and not silent.admit("")


def test_a_clients_run_asks_for_what_its_agent_asks_for_too(work: Path) -> None:
    agents = {"careful": {"approve": ["network", "write"]}}
    settings(work, agents=agents)
    with in_thread(work) as url, Client(url) as client:
        begun = client.start("what is 2 + 2", agent="careful", space="own")
        ended(client, begun)
        meta = Fractal(work).document(begun.run).meta
        assert (meta.extra["agent"], meta.extra["space"]) == ("careful", "own")
    from runtime.api.live_runs import Runs

    asks = Runs(work).fractal({"agent": "careful"}).config.approve
    assert json.dumps(sorted(asks)) == '["network", "shell", "write"]'
