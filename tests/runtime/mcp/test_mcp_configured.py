"""`.mcp.json` is read as other clients read it, and an error in it is reported with its place."""

from __future__ import annotations

import json

import pytest

from runtime.mcp.client.configured import places, read


def write(path, servers):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers}), "utf-8")
    return path


def one(tmp_path, entry, environ=None):
    path = write(tmp_path / ".mcp.json", {"it": entry})
    return read([path], tmp_path, environ or {})


def test_the_nearer_file_wins_and_the_others_add_theirs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    folder, root = tmp_path / "work" / "deep", tmp_path / "work"
    folder.mkdir(parents=True)
    write(folder / ".mcp.json", {"both": {"command": "near"}})
    write(root / ".mcp.json", {"both": {"command": "far"}, "root": {"command": "r"}})
    write(tmp_path / "xdg/fractal/mcp.json", {"both": {"command": "own"}, "own": {"url": "http://x/mcp"}})
    found = read(places(folder, root), folder).entries
    assert {name: entry.command for name, entry in found.items()} == {"both": "near", "root": "r", "own": ""}
    assert found["own"].transport == "http"


def test_a_hidden_workspace_has_its_file_beside_it(tmp_path):
    assert places(tmp_path / "a", tmp_path / ".fractal")[1] == tmp_path / ".mcp.json"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${KEY}", "k1"),
        ("a${KEY}b${KEY}", "ak1bk1"),
        ("${NONE:-other}", "other"),
        ("${KEY:-other}", "k1"),
        ("${NONE:-}", ""),
        ("${EMPTY:-full}", "full"),
        ("${EMPTY}", ""),
        ("$KEY and ${}", "$KEY and ${}"),
    ],
)
def test_variables_are_expanded_in_every_value(tmp_path, text, value):
    entry = {"command": text or "x", "args": [text], "env": {"A": text}}
    environ = {"KEY": "k1", "EMPTY": ""}
    if value:
        server = one(tmp_path, entry, environ).entries["it"]
        assert (server.command, server.args, server.env) == (value, (value,), {"A": value})
    server = one(tmp_path, {"url": f"https://h/{text}", "headers": {"H": text}}, environ).entries["it"]
    assert (server.url, server.headers) == (f"https://h/{value}", {"H": value})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("npx", ".it: must be an object with command or url"),
        ({}, ".it: command or url is required"),
        ({"command": ""}, ".it.command: must be a string"),
        ({"command": "x", "args": "y"}, ".it.args: must be a list of strings"),
        ({"command": "x", "args": [["y"]]}, ".it.args[0]: must be a string"),
        ({"command": "x", "env": {"A": None}}, ".it.env.A: must be a string"),
        ({"command": "x", "env": {"A": "${MISSING_KEY}"}}, ".it.env.A: the environment variable MISSING_KEY"),
        ({"command": "x", "type": "telnet"}, ".it.type: 'telnet' is not one of"),
        ({"url": "localhost:3000"}, ".it.url: 'localhost:3000' does not begin with"),
        ({"url": "file:///etc/passwd"}, ".it.url: 'file:///etc/passwd' does not begin with"),
    ],
)
def test_a_wrong_entry_is_reported_with_its_place_and_the_others_work(tmp_path, entry, message):
    path = write(tmp_path / ".mcp.json", {"it": entry, "good": {"command": "x"}})
    found = read([path], tmp_path, {})
    assert list(found.entries) == ["good"]
    assert len(found.troubles) == 1
    assert found.troubles[0].startswith(f"{path}: mcpServers{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mcpServers": {\n  "a": {"command": "x",}\n}}', ":2: not JSON: "),
        ("[]", ': {"mcpServers"'),
        ('{"servers": {}}', ': {"mcpServers"'),
        ("", ":1: not JSON: "),
        ("[" * 100_000, ": not JSON"),
    ],
)
def test_an_invalid_file_is_reported_and_the_other_files_work(tmp_path, text, message):
    bad = write(tmp_path / "a" / ".mcp.json", text)
    good = write(tmp_path / "b" / ".mcp.json", {"good": {"command": "x"}})
    found = read([bad, good], tmp_path, {})
    assert list(found.entries) == ["good"]
    assert found.troubles[0].startswith(f"{bad}{message}")


def test_what_is_switched_off_is_passed_over(tmp_path):
    assert one(tmp_path, {"command": "x", "disabled": True}).entries == {}


def test_a_secret_that_a_variable_holds_is_not_shown(tmp_path):
    secret = {"KEY": "s3cr3t-value"}
    stdio = one(tmp_path, {"command": "x", "args": ["--key", "${KEY}"]}, secret).entries["it"]
    http = one(tmp_path, {"url": "https://h/mcp?key=${KEY}"}, secret).entries["it"]
    wrong = one(tmp_path, {"url": "${KEY}"}, secret).troubles
    assert "s3cr3t" not in f"{stdio.shown} {http.shown} {wrong}"
    assert stdio.args == ("--key", "s3cr3t-value")


def test_a_program_starts_where_its_file_lies(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    folder = tmp_path / "work"
    write(folder / ".mcp.json", {"here": {"command": "x"}, "below": {"command": "x", "cwd": "sub"}})
    write(
        tmp_path / "xdg/fractal/mcp.json", {"own": {"command": "x"}, "fixed": {"command": "x", "cwd": "/opt"}}
    )
    found = read(places(folder, folder), folder).entries
    assert {name: str(entry.cwd) for name, entry in found.items()} == {
        "here": str(folder),
        "below": str(folder / "sub"),
        "own": str(tmp_path / "xdg/fractal"),
        "fixed": "/opt",
    }
