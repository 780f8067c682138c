"""Servers that want a login: authorization code with PKCE, renewal, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from threading import Thread

import pytest
from in_process import in_process
from mcp_place import call

from kernel.errors import FractalError
from runtime.mcp.client.configured import read
from runtime.secrets.redaction import redact

SERVER = Path(__file__).with_name("oauth_server.py")


class Private:
    """The server, its state and its log."""

    def __init__(self, place, state, url):
        self.place, self._state, self.url = place, state, url

    def set(self, **state):
        self._state.write_text(json.dumps(state))

    @property
    def log(self):
        file = self._state.with_suffix(".log")
        return file.read_text().split() if file.exists() else []

    def login(self, **more):
        """Log in as a person would, whose browser opens the address at once."""

        def browse(url):
            Thread(target=visit, args=(url,), daemon=True).start()

        async def work(servers):
            return await servers.login("private", browse, **more)

        return self.within(work)

    def within(self, work):
        async def all_of_it():
            servers = self.place.servers()
            try:
                return await work(servers)
            finally:
                await servers.close()

        return asyncio.run(all_of_it())

    def kept(self):
        folder = self.place.folder.parent / "config/fractal/logins"
        return list(folder.iterdir()) if folder.exists() else []


def visit(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as page:
            return page.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


@pytest.fixture
def private(place):
    state = place.folder.parent / "state.json"
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(state)], stdout=subprocess.PIPE, text=True
    ) as process:
        url = process.stdout.readline().strip()
        place.write({"private": {"url": url}})
        yield Private(place, state, url)
        process.kill()


def echo(place, text="hi"):
    return place.calls(("private-echo", {"text": text}))[0]


def test_a_run_without_a_login_says_what_to_do(private):
    assert private.place.lists() == {}
    (warning,) = private.place.warnings
    assert "it requires a login (HTTP 401); run `fractal mcp login private`, or set headers" in warning
    assert private.log == [], "a run registers nothing"


def test_a_login_is_kept_for_the_user_alone_and_used_by_runs(private):
    assert private.login() == "logged in"
    assert private.log == ["register", "authorize", "exchange"]
    (kept,) = private.kept()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    token = json.loads(kept.read_text())["tokens"]["access_token"]
    result = echo(private.place, f"the token is {token}")
    assert result.ok
    assert token not in redact(result.text), "it is known as a secret"
    assert private.log == ["register", "authorize", "exchange", "echo"]
    work = [each for each in private.place.folder.rglob("*") if each.is_file()]
    assert not [each for each in work if token.encode() in each.read_bytes()]


def test_an_old_token_is_renewed_before_it_is_used(private):
    private.set(lives=1)
    private.login()
    (kept,) = private.kept()
    data = json.loads(kept.read_text())
    kept.write_text(json.dumps({**data, "expires_at": 1}))
    private.set(lives=3600)
    assert echo(private.place).text == "hi"
    assert private.log[3:] == ["refresh", "echo"]
    assert json.loads(kept.read_text())["tokens"] != data["tokens"], "the new one is kept"
    assert echo(private.place).text == "hi"
    assert private.log[3:] == ["refresh", "echo", "echo"]


def test_a_token_that_the_server_refuses_is_renewed_once(private):
    private.login()
    (kept,) = private.kept()
    private.set(revoked=[json.loads(kept.read_text())["tokens"]["access_token"]])
    assert echo(private.place).text == "hi"
    assert private.log[3:] == ["refresh", "echo"]


def test_a_login_that_cannot_be_renewed_is_asked_for_again(private):
    private.login()
    private.place.lists()
    (kept,) = private.kept()
    private.set(revoked=[json.loads(kept.read_text())["tokens"]["access_token"]], refreshes=False)
    result = echo(private.place)
    assert not result.ok
    assert "MCP server private" in result.text
    assert "its login is no longer valid; run `fractal mcp login private`" in result.text
    assert "authorize" not in private.log[3:]
    private.set()
    assert private.login() == "logged in"
    assert echo(private.place).text == "hi"


def test_a_token_that_ends_in_the_middle_of_a_run_is_renewed(private):
    private.login()
    (kept,) = private.kept()

    async def work(servers):
        await servers.discover()
        first = await call(servers, private.place.folder, "private-echo", {"text": "one"})
        private.set(revoked=[json.loads(kept.read_text())["tokens"]["access_token"]])
        second = await call(servers, private.place.folder, "private-echo", {"text": "two"})
        return first.text, second.text

    assert private.within(work) == ("one", "two")
    assert private.log.count("refresh") == 1


def test_another_process_may_have_renewed_it(private):
    private.login()
    (kept,) = private.kept()

    async def work(servers):
        await servers.discover()
        await call(servers, private.place.folder, "private-echo", {"text": "one"})
        data = json.loads(kept.read_text())
        await asyncio.to_thread(renew_elsewhere)
        private.set(revoked=[data["tokens"]["access_token"]])
        return (await call(servers, private.place.folder, "private-echo", {"text": "two"})).text

    def renew_elsewhere():
        data = json.loads(kept.read_text())
        kept.write_text(json.dumps({**data, "expires_at": 1}))
        assert echo(private.place).text == "hi"

    assert private.within(work) == "two"
    assert private.log.count("refresh") == 1


def test_a_person_who_says_no_is_told(private):
    private.set(denies=True)
    with pytest.raises(FractalError, match="the login was refused: access_denied"):
        private.login()
    assert private.kept() == []


def test_nobody_who_answers_is_waited_for_only_so_long(private):
    async def work(servers):
        return await servers.login("private", lambda url: None, seconds=0.2)

    with pytest.raises(FractalError, match="nobody has logged in within"):
        private.within(work)


def test_an_answer_that_was_not_asked_for_is_refused(private):
    def browse(url):
        place = re.search(r"redirect_uri=([^&]+)", url)[1]
        back = urllib.request.unquote(place)
        Thread(target=visit, args=(f"{back}?code=stolen&state=other",), daemon=True).start()

    async def work(servers):
        return await servers.login("private", browse, seconds=20)

    with pytest.raises(FractalError, match="State parameter mismatch"):
        private.within(work)
    assert private.kept() == []


def test_login_and_logout_are_commands(private, monkeypatch):
    words = ["-C", str(private.place.folder), "mcp", "login", "private", "--no-browser"]
    said = subprocess.Popen(
        [sys.executable, "-m", "runtime.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    for line in said.stderr:
        lines.append(line)
        if found := re.search(r"http://\S+/authorize\?\S+", line):
            assert "You are logged in" in visit(found[0])
            break
    out, err = said.communicate(timeout=30)
    assert (said.returncode, "private: logged in" in err + out) == (0, True), (lines, err)
    assert len(private.kept()) == 1
    ran = in_process(private.place.folder, ("mcp", "logout", "private"), dict(os.environ))
    assert ran.exit == 0
    assert private.kept() == []
    assert private.log[-1] == "revoke"
    again = in_process(private.place.folder, ("mcp", "logout", "private"), dict(os.environ))
    assert "there is no login" in again.err
    unknown = in_process(private.place.folder, ("mcp", "login", "nobody"), dict(os.environ))
    assert unknown.exit != 0
    assert "there is no MCP server nobody; there are: private" in unknown.err


def test_what_an_entry_says_of_its_client_is_checked(tmp_path):
    path = tmp_path / ".mcp.json"
    oauth = {"clientId": "${ID}", "callbackPort": 8123, "scope": "use"}
    url = "https://x.invalid"
    servers = {"a": {"url": url, "oauth": oauth}, "b": {"url": url, "oauth": 7}}
    path.write_text(json.dumps({"mcpServers": servers}))
    found = read([path], tmp_path, {"ID": "me"})
    assert found.entries["a"].oauth == {"clientId": "me", "callbackPort": "8123", "scope": "use"}
    (trouble,) = found.troubles
    assert "mcpServers.b.oauth: must be an object of strings" in trouble
