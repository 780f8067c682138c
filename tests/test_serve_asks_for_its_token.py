"""Over HTTP, Fractal lets in who has the token, which is made without a setting; a client opens no file."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process import in_process
from lanes import PATIENCE, until
from playing import put
from warm import Process

COMMAND = [sys.executable, "-m", "runtime.cli"]
SERVE = ("serve", "--address", "127.0.0.1:0")
MCP = ("mcp", "--http", "127.0.0.1:0")
ASKS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def environment(config: Path, **more: str) -> dict[str, str]:
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "LANG", "FRACTAL_TRUST") if name in os.environ
    }
    repository = str(Path(__file__).parents[1])
    own = {"PYTHONPATH": repository, "XDG_CONFIG_HOME": str(config), "FRACTAL_EMBEDDER": "lexical"}
    return {**kept, **own, **more}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder beside the user's configuration `config`."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@contextmanager
def served(folder: Path, *words: str, **env: str) -> Iterator[tuple[str, str]]:
    """The address of a server that no terminal has started, and the line that it prints."""
    process = Process(
        [*COMMAND, *words],
        cwd=folder,
        env=environment(folder.parent / "config", **env),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    try:
        line = process.stderr.readline()
        assert " at http" in line, line + process.stderr.read()
        yield line.split()[2].rstrip(","), line
    finally:
        process.terminate()
        process.communicate(timeout=60)


def kept(folder: Path) -> Path:
    return folder.parent / "config" / "fractal" / "token"


def shown(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}


PATHS = (
    *(("GET", path) for path in ("/", "/runs/abc", "/brain", "/brain/health", "/api/runs", "/metrics")),
    *(
        ("GET", path)
        for path in ("/api/events", "/openapi.json", "/api/runners", "/api/benchmarks", "/facts")
    ),
    *(
        ("POST", path)
        for path in ("/api/runs", "/brain/learn", "/api/benchmarks", "/api/person", "/sign-out")
    ),
)


def test_another_user_of_the_machine_reads_nothing_and_starts_nothing(place: Path) -> None:
    with served(place, *SERVE) as (url, line):
        token = kept(place).read_text().strip()
        assert stat.S_IMODE(kept(place).stat().st_mode) == 0o600
        assert str(kept(place)) in line and token not in line, "a log may be read by others"
        for headers in ({}, shown("wrong"), {"cookie": f"fractal-session-{url.rpartition(':')[2]}=x"}):
            with (
                httpx.Client(headers=headers, timeout=PATIENCE) as client,
                ThreadPoolExecutor(len(PATHS)) as at_once,
            ):
                answers = at_once.map(lambda asked: client.request(asked[0], url + asked[1]), PATHS)
                for asked, answer in zip(PATHS, answers, strict=True):
                    assert answer.status_code == 401, (asked, answer.text)
        task = {"task": "what is 2 + 2"}
        begun = httpx.post(f"{url}/api/runs", json=task, headers=shown(token), timeout=PATIENCE)
        assert begun.status_code == 202, begun.text
    with served(place, *SERVE) as (url, _):
        again = httpx.get(f"{url}/api/runs", headers=shown(token), timeout=PATIENCE)
        assert again.status_code == 200, "the token stays the same"


def test_mcp_over_http_asks_for_the_same_token(place: Path) -> None:
    with served(place, *MCP) as (url, line):
        token = kept(place).read_text().strip()
        assert str(kept(place)) in line and token not in line
        for headers in ({}, shown("wrong")):
            assert httpx.post(url, json=ASKS, headers=headers, timeout=PATIENCE).status_code == 401
        assert httpx.post(url, json=ASKS, headers=shown(token), timeout=PATIENCE).status_code != 401


@pytest.mark.parametrize("words", [SERVE, MCP])
def test_open_to_everybody_has_to_be_said_and_is_told(place: Path, words: tuple[str, ...]) -> None:
    with served(place, *words, "--no-token") as (url, line):
        assert "no token is asked for: every user and every program of this machine" in line
        path = "" if "/mcp" in url else "/api/runs"
        assert httpx.get(url + path, timeout=PATIENCE).status_code != 401
    assert not kept(place).exists()


def test_a_token_of_ones_own_is_used_and_none_is_made(place: Path) -> None:
    with served(place, *SERVE, FRACTAL_TOKEN="a-token-of-my-own") as (url, line):
        assert "token" not in line
        headers = shown("a-token-of-my-own")
        assert httpx.get(f"{url}/api/runs", headers=headers, timeout=PATIENCE).status_code == 200
        assert httpx.get(f"{url}/api/runs", timeout=PATIENCE).status_code == 401
    assert not kept(place).exists()
    env = environment(place.parent / "config", FRACTAL_TOKEN="a-token-of-my-own")
    refused = in_process(place, (*SERVE, "--no-token"), env).err
    assert "leave out --no-token, or FRACTAL_TOKEN of the environment" in refused
    twice = (*SERVE, "--no-token", "--token", "a-token-of-my-own")
    refused = in_process(place, twice, environment(place.parent / "config")).err
    assert "leave out --no-token, or --token" in refused
    assert (
        in_process(place, ("serve", "--address", "0.0.0.0:0"), environment(place.parent / "config")).exit == 2
    )


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("x" * 40, 0o644, "others can read it"),
        ("", 0o600, "it holds no token"),
        ("short", 0o600, "it holds no token"),
        ("\xe9" * 40, 0o600, "it holds no token"),
        ("x" * 2_000_000, 0o600, "larger than"),
    ],
    ids=["readable", "empty", "short", "not ASCII", "2 MB"],
)
def test_a_token_that_others_know_or_guess_is_refused(place: Path, text: str, mode: int, why: str) -> None:
    put(kept(place).parent, "token", text).chmod(mode)
    ran = in_process(place, SERVE, environment(place.parent / "config"))
    assert ran.exit == 3 and why in ran.err, ran.err
    assert "remove it" in ran.err or "serve with --no-token" in ran.err


def test_the_link_of_the_terminal_signs_in(place: Path) -> None:
    handle, inner = pty.openpty()
    env = environment(place.parent / "config")
    process = Process([*COMMAND, *SERVE], cwd=place, env=env, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    text = ""
    try:

        def enough() -> bool:
            nonlocal text
            if select.select([handle], [], [], 0.05)[0]:
                text += os.read(handle, 65_536).decode()
            return bool(re.search(r"open once: \S+\s", text))

        until(enough, says=lambda: text)
        found = re.search(r"open once: (http://\S+)/#person=([^&\s]+)&token=(\S+)", text)
        assert found, text
        url, code, token = found.groups()
        with httpx.Client(base_url=url, timeout=PATIENCE, follow_redirects=True) as browser:
            browser.headers["accept"] = "text/html"
            form = browser.get("/")
            assert form.status_code == 401 and "/assets/sign_in.js" in form.text
            assert "location.hash" in browser.get("/assets/sign_in.js").text
            sent = {"content-type": "text/plain", "origin": url}
            page = browser.post("/", content=f"token={token}\r\n".encode(), headers=sent)
            assert page.status_code == 200
            assert browser.post("/api/person", json={"code": code}).status_code == 200
    finally:
        process.terminate()
        process.wait(60)
        os.close(handle)


# ---- what a client may choose -----------------------------------------------------------------------------


OWN = "a-token-of-my-own"


@pytest.fixture(scope="module")
def offering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose settings offer two models, beside a file of the owner's."""
    folder = tmp_path_factory.mktemp("offering") / "work"
    put(folder.parent, "secret.json", json.dumps({"plan": "the secret of the owner"}))
    offered = {"agents": {"quick": {"model": "ollama/quick"}, "two": {"ladder": [{"model": "ollama/two"}]}}}
    put(folder, "fractal.yaml", json.dumps(offered))
    return folder


@pytest.fixture(scope="module")
def client(offering: Path) -> Iterator[httpx.Client]:
    """A client with the token of a server in this folder."""
    with (
        served(offering, *SERVE, FRACTAL_TOKEN=OWN) as (url, _),
        httpx.Client(base_url=url, headers=shown(OWN), timeout=PATIENCE) as client,
    ):
        yield client


FOREIGN = (
    "scripted:SECRET",
    "scripted:../secret.json",
    "llama:SECRET",
    "mailbox:SECRET",
    "command:cat SECRET",
    "ollama/other",
    "openai/gpt-5",
    "quick",
    " ollama/quick",
)


def test_a_client_chooses_only_a_model_that_the_settings_name(offering: Path, client: httpx.Client) -> None:
    secret = str(offering.parent / "secret.json")
    run = client.post("/api/runs", json={"task": "what is 2 + 2", "model": "reflex"}).json()["run"]
    until(lambda: client.get(f"/api/runs/{run}").json()["status"] == "complete")
    before = runs_of(client)
    for model in FOREIGN:
        body = {"task": "tell me", "model": model.replace("SECRET", secret)}
        for path, sent in (("/api/runs", body), (f"/api/runs/{run}/fork", {"model": body["model"]})):
            answer = client.post(path, json=sent)
            assert answer.status_code == 400, (model, path, answer.text)
            assert "ollama/quick, ollama/two" in answer.json()["error"]
            assert "the secret" not in answer.text
    assert runs_of(client) == before, "nothing was started, and nothing copied"
    assert client.post("/api/runs", json={"task": "x", "model": "ollama/quick"}).status_code == 202


def runs_of(client: httpx.Client) -> set[str]:
    return {each["run"] for each in client.get("/api/runs").json()["runs"]}


FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(("api_base", "otel", "url"), "http://127.0.0.1:1"),
    **dict.fromkeys(("folder", "cwd", "system", "embedder", "embedder_folder", "store", "data"), "/etc"),
    **{name: ["/etc"] for name in ("skills", "ladder", "files", "context", "approved", "trusted_clients")},
    **dict.fromkeys(("yes", "trusted", "network", "shipped"), True),
    "settings": {"sandbox": "off"},
    "sandbox": "off",
    "id": "../../x",
}


def test_a_client_makes_no_setting_and_names_no_place(client: httpx.Client) -> None:
    before = runs_of(client)
    for name, value in FIELDS.items():
        answer = client.post("/api/runs", json={"task": "what is 2 + 2", name: value})
        assert answer.status_code == 422, (name, answer.text)
    for name in ("agent", "space"):
        for value in ("../x", "/etc", "a/b", ""):
            answer = client.post("/api/runs", json={"task": "what is 2 + 2", name: value})
            assert answer.status_code == 422, (name, value, answer.text)
    assert runs_of(client) == before


def test_what_a_strangers_folder_names_is_offered_to_no_client(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernel.errors import UsageError
    from runtime.api.choosing import refuse_unconfigured
    from runtime.api.fractal import Fractal

    monkeypatch.setenv("XDG_CONFIG_HOME", str(place.parent / "config"))
    model = f"scripted:{place.parent / 'secret.json'}"
    put(place, "fractal.yaml", json.dumps({"agents": {"a": {"model": model}}}))
    refuse_unconfigured(Fractal(place), model)  # everything is trusted here
    monkeypatch.delenv("FRACTAL_TRUST")
    with pytest.raises(UsageError, match="a client chooses among"):
        refuse_unconfigured(Fractal(place), model)
    put(place.parent / "config", "fractal/fractal.yaml", json.dumps({"agents": {"b": {"model": model}}}))
    refuse_unconfigured(Fractal(place), model)
